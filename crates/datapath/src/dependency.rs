//! Finds the entries that a change may affect, without looking at the others.
//!
//! An entry is right as long as every read of its walk would have the same result. Each read
//! is a node, shared by all entries that made it, and each node has the list of these entries:
//!
//! ```text
//!   entry --path--> nodes:  lookup (table, value & mask, rule)   station (VLAN, address)
//!                           group                                port, or all ports
//!
//!   insert R into t:   nodes of t whose value agrees with R's where both masks have bits,
//!                      and whose rule is below R; by prefix, or by a scan
//!   delete R:          the nodes that R won
//!   clause of a conjunctive match, new or gone: as an insert
//!   group, port, MAC:  the node of that name
//! ```
//!
//! A lookup's value and mask are its *certificate*: every key that agrees with them meets this
//! rule and none above it. Higher rules that did not match contribute to the mask as geometry,
//! not as a list of rules. That is why an insert is a question about regions, and a delete a
//! question about one list. A certificate can be wider than the set of keys that one entry's
//! packets have in that table. So for a suspect, the new rule is also compared with the
//! entry's own region, in the words that its walk did not write; if they do not meet, the
//! entry is not affected.
//!
//! 1. No false negative: an entry whose walk would change is found.
//! 2. The index matches the entries: every node added with an entry is removed with it.
//!    [`Dependencies::verify`] compares the two.
//!
//! Source: KAIRO's traversals, with regions instead of recorded packets.

mod memory;
mod node;
mod node_id;
mod paths;
mod pivot;
mod search;
mod traversals;

use thalweg_classifier::hash::WordHash;
use thalweg_packet::{FieldId, Layout, standard as f};
use thalweg_pipeline::{Pipeline, RuleId, StepKind, Trace, Version};

use crate::config::Config;
use crate::entry::EntryId;

use memory::Arrivals;
pub(crate) use memory::{Known, Recollection};
use node::{Cause, Nodes};
use node_id::NodeId;
use paths::{Edge, Paths};
use pivot::{Bits, WIDTH_MAX};
pub(crate) use search::Suspect;
pub use search::{Findings, Index};
pub use traversals::TraversalView;
use traversals::Traversals;

/// Fields whose prefixes tell rules apart, if the layout has them.
const PIVOTS: [FieldId; 8] = [
    f::IP_DST,
    f::IP_SRC,
    f::ETH_DST,
    f::ETH_SRC,
    f::METADATA,
    f::IPV6_DST,
    f::IPV6_SRC,
    f::ARP_TPA,
];

/// From this many nodes on, a walk's nodes are sorted to find duplicates.
const SORTED_FROM: usize = 32;

/// What entries depend on.
#[derive(Debug)]
pub(crate) struct Dependencies {
    nodes: Nodes,
    paths: Paths,
    traversals: Traversals,
    /// The new rules of the last change.
    arrivals: Arrivals,
    /// Entries added since the search for a change began; `None` while no change is being
    /// prepared.
    meanwhile: Option<Vec<EntryId>>,
    /// New rules per entry from which on a sweep replaces the searches.
    sweep_at: usize,
    /// Reused from call to call.
    reached: Vec<NodeId>,
    met: Vec<NodeId>,
    edges: Vec<Edge>,
    former: Vec<Edge>,
}

impl Dependencies {
    pub(crate) fn new(layout: &Layout, config: &Config) -> Dependencies {
        let bits = PIVOTS.iter().filter_map(|field| {
            let slot = layout.slot(*field)?;
            // The most significant bits, in the first word; for the metadata, those that
            // programs use.
            let width = u32::from(slot.width_bits).min(64);
            let kept = width.min(WIDTH_MAX);
            let skipped = if *field == f::METADATA {
                0
            } else {
                width - kept
            };
            Some(Bits {
                word: usize::from(slot.word),
                shift: u32::from(slot.shift) + skipped,
                width: kept,
            })
        });
        Dependencies {
            nodes: Nodes::new(bits.collect(), config.scan_share, config.seed),
            paths: Paths::default(),
            traversals: Traversals::new(WordHash::new(config.seed)),
            arrivals: Arrivals::default(),
            meanwhile: None,
            sweep_at: config.sweep_at,
            reached: Vec::new(),
            met: Vec::new(),
            edges: Vec::new(),
            former: Vec::new(),
        }
    }

    /// Records what a new or repaired entry depends on. `known` has the nodes of lookups that
    /// were known.
    pub(crate) fn set(&mut self, entry: EntryId, trace: &Trace, known: &Known) {
        if let Some(meanwhile) = &mut self.meanwhile {
            if meanwhile.len() == meanwhile.capacity() {
                // Many of them may be gone or listed twice.
                let paths = &self.paths;
                meanwhile.retain(|entry| paths.traversal(*entry).is_some());
                meanwhile.sort_unstable();
                meanwhile.dedup();
            }
            meanwhile.push(entry);
        }
        let mut reached = std::mem::take(&mut self.reached);
        reached.clear();
        self.reach(trace, known, &mut reached);
        let mut former = std::mem::take(&mut self.former);
        let former_traversal = self.paths.remove(entry, &mut former);
        self.edges.clear();
        for node in &reached {
            // A repaired entry depends mostly on the same nodes as before.
            let kept = former.iter().position(|edge| edge.node == *node);
            let edge = match kept {
                Some(place) => former.swap_remove(place),
                None => Edge {
                    node: *node,
                    place: self.nodes.add_dependent(*node, entry),
                },
            };
            self.edges.push(edge);
        }
        let traversal = self.traversals.enter(trace);
        self.paths.insert(entry, &self.edges, traversal);
        if let Some(traversal) = former_traversal {
            self.leave(traversal, &former);
        }
        (self.reached, self.former) = (reached, former);
    }

    /// Collects the nodes of a walk, each once; in the order of the walk if it is short.
    fn reach(&mut self, trace: &Trace, known: &Known, reached: &mut Vec<NodeId>) {
        // What a walk finds while a change is prepared may not hold at the next version.
        let is_certain = self.meanwhile.is_none();
        let mut lookups = 0;
        for step in trace.steps() {
            match step.kind {
                StepKind::Lookup { table, rule } => {
                    let same = known.nodes.get(lookups).copied().flatten();
                    lookups += 1;
                    let nodes = &mut self.nodes;
                    let node = same.unwrap_or_else(|| {
                        let node = nodes.lookup(table, step.key, step.searched, rule);
                        if is_certain {
                            nodes.confirm(node);
                        }
                        node
                    });
                    reached.push(node);
                }
                StepKind::Station { station, .. } => {
                    reached.push(self.nodes.cause(Cause::Station(station)));
                }
                // Groups, ports, and modes for fragments and for packets without a rule are
                // among the inputs; the other steps read nothing that can change.
                StepKind::Unmatched { .. }
                | StepKind::Fragment { .. }
                | StepKind::Bucket { .. }
                | StepKind::Patch { .. }
                | StepKind::Mirror(_)
                | StepKind::ActionSet
                | StepKind::Resumption { .. } => {}
            }
        }
        for input in trace.inputs() {
            reached.push(self.nodes.cause(Cause::Input(*input)));
        }
        if reached.len() > SORTED_FROM {
            reached.sort_unstable();
            reached.dedup();
            return;
        }
        let mut count = 0;
        for place in 0..reached.len() {
            let node = reached[place];
            if !reached[..count].contains(&node) {
                reached[count] = node;
                count += 1;
            }
        }
        reached.truncate(count);
    }

    fn leave(&mut self, traversal: u32, edges: &[Edge]) {
        self.traversals.leave(traversal);
        for edge in edges {
            if let Some(moved) = self.nodes.remove_dependent(edge.node, edge.place) {
                self.paths.set_place(moved, edge.node, edge.place);
            }
        }
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, entry: EntryId) {
        let mut former = std::mem::take(&mut self.former);
        if let Some(traversal) = self.paths.remove(entry, &mut former) {
            self.leave(traversal, &former);
        }
        self.former = former;
    }

    /// What an entry's walk knows of lookups, once all affected entries of the version were
    /// found.
    pub(crate) fn memory_of<'a>(
        &'a self,
        entry: EntryId,
        pipeline: &'a Pipeline,
        version: Version,
    ) -> Recollection<'a> {
        let path = self.paths.edges(entry);
        Recollection::new(&self.nodes, &self.arrivals, path, pipeline, version)
    }

    /// Whether an entry still has the path that it had when the last search found or passed
    /// it.
    pub(crate) fn is_as_found(&self, entry: EntryId) -> bool {
        self.paths.is_as_found(entry)
    }

    /// The entries whose walks met a rule.
    pub(crate) fn entries_of(&self, rule: RuleId) -> impl Iterator<Item = EntryId> + '_ {
        let nodes = self.nodes.of_rule(rule).iter();
        nodes.flat_map(|node| self.nodes.dependents(*node).iter().copied())
    }

    /// The traversals that entries have taken.
    pub(crate) fn traversals(&self) -> &Traversals {
        &self.traversals
    }

    /// The traversal of an entry.
    pub(crate) fn traversal_of(&self, entry: EntryId) -> Option<u32> {
        self.paths.traversal(entry)
    }

    /// The number of nodes.
    pub(crate) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Checks invariant 2: compares the index with the paths of `entries`, which must be all
    /// entries.
    pub(crate) fn verify(&self, entries: &[EntryId]) -> Result<(), String> {
        let mut edges = 0;
        for entry in entries {
            let Some(traversal) = self.paths.traversal(*entry) else {
                return Err(format!("{entry:?} has no path"));
            };
            if !self.traversals.is_taken(traversal) {
                return Err(format!("nobody takes the traversal of {entry:?}"));
            }
            for edge in self.paths.edges(*entry) {
                edges += 1;
                let dependents = self.nodes.dependents(edge.node);
                if dependents.get(edge.place as usize) != Some(entry) {
                    return Err(format!("{:?} does not know of {entry:?}", edge.node));
                }
            }
        }
        if self.traversals.entries() != entries.len() as u64 {
            return Err("traversals are taken by entries that are gone".to_owned());
        }
        self.nodes.verify(edges)
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.nodes.memory_bytes() + self.paths.memory_bytes() + self.traversals.memory_bytes()
    }
}
