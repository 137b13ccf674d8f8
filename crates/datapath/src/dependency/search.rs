//! The search for the entries that a change may affect, on whichever thread has the time.
//!
//! The record of what entries depend on belongs to a worker, which writes it at every upcall and
//! eviction. A change is searched for in it by the control side, which holds it for one rule of the
//! change at a time; a worker that finds it held notes what it has to add, and adds it later.
//!
//! What the search finds are suspects. The record knows certificates, not the entries' regions: a
//! suspect for whose region a new rule has no packet is let go when the worker looks at it.
//!
//! 1. Every entry that was in the record when the search began, is there when it ends, and that
//!    the change affects, is among the suspects.
//! 2. Every entry that was added since the search began is known as such, until the version moves.
//! 3. There are not many more suspects than entries: where they get too many, all are suspected.

use std::sync::{Arc, PoisonError};

use thalweg_pipeline::{Delta, Input, Pipeline, RuleId};

use super::Dependencies;
use super::node::{Cause, NewRule, Nodes};
use super::paths::Paths;
use crate::entry::EntryId;
use crate::sync::{Mutex, MutexGuard};

/// Invariant 3: suspects for each entry, and in any case.
const SUSPECTS_EACH: usize = 2;
const SUSPECTS_MIN: usize = 4_096;

/// New rules in an entry's tables that are compared with it one by one; of more, one is taken to
/// affect an entry that was made meanwhile.
const COMPARED_MAX: usize = 64;

/// Nodes of a rule that are looked at together.
const ROUND: usize = 32;

/// Dependents whose memory is asked for before it is their turn: they lie anywhere.
const AHEAD: usize = 8;

/// What entries depend on, shared with whoever searches it.
#[derive(Clone, Debug)]
pub struct Index(Arc<Mutex<Dependencies>>);

/// An entry that a change may affect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspect {
    pub(crate) entry: EntryId,
    /// The new rule that may have packets of its region, as the findings number it; `None` if
    /// something that its walk read is another.
    pub(crate) rule: Option<u32>,
    /// One bit a word of the state, by its number: these were written by the entry's walk.
    pub(crate) written_words: u64,
}

/// The entries that a change may affect.
#[derive(Debug, Default)]
pub struct Findings {
    pub(crate) suspects: Vec<Suspect>,
    /// Words of value and mask of the new rules that suspects name.
    rules: Vec<(Vec<u64>, Vec<u64>)>,
    /// Invariant 3.
    pub(crate) is_everything: bool,
}

impl Findings {
    /// Says that all entries are to be looked at.
    pub(crate) fn everything() -> Findings {
        Findings {
            is_everything: true,
            ..Findings::default()
        }
    }

    /// Whether the region of a key and mask has packets of the new rule that an entry is suspected
    /// for, as far as its walk did not write them.
    pub(crate) fn meets(&self, suspect: &Suspect, key: &[u64], mask: &[u64]) -> bool {
        let Some(rule) = suspect.rule else {
            return true;
        };
        let (value, care) = &self.rules[rule as usize];
        let words = key.iter().zip(mask).zip(value.iter().zip(care));
        let mut words = words.enumerate();
        words.all(|(word, ((key, mask), (value, care)))| {
            suspect.written_words >> word & 1 == 1 || (key ^ value) & mask & care == 0
        })
    }
}

impl Index {
    /// A record; whoever has the former has this from now on.
    pub(crate) fn with(dependencies: Dependencies, former: Option<Index>) -> Index {
        match former {
            Some(former) => {
                *former.lock() = dependencies;
                former
            }
            None => Index(Arc::new(Mutex::new(dependencies))),
        }
    }

    /// The record, once nobody else has it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Dependencies> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record, if nobody else has it now.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Dependencies>> {
        self.0.try_lock().ok()
    }

    /// Finds the entries that a change may affect; it is published, and not yet followed.
    ///
    /// The record is held for one part of the change at a time.
    pub fn search(&self, pipeline: &Pipeline, delta: &Delta) -> Findings {
        let mut findings = Findings::default();
        let limit = self.lock().begin(delta);
        let Some(limit) = limit else {
            return Findings::everything();
        };
        self.lock().suspect_readers(delta, &mut findings);
        // Who takes a rule's place, match and precedence is met where that rule was met.
        let heirs = heirs(pipeline, delta);
        for rule in &delta.inserted {
            if heirs.binary_search(rule).is_err() {
                self.lock().suspect_insert(pipeline, *rule, &mut findings);
            }
            if findings.suspects.len() > limit {
                return Findings::everything();
            }
        }
        self.lock().arrivals.sort();
        findings
    }
}

/// The new rules of a change that take the place of others, in order.
fn heirs(pipeline: &Pipeline, delta: &Delta) -> Vec<RuleId> {
    let removed = delta.removed.iter();
    let mut heirs: Vec<RuleId> = removed
        .filter_map(|rule| pipeline.successor_of(*rule))
        .collect();
    heirs.sort_unstable();
    heirs
}

/// What a change alters besides the rules of tables.
fn causes(delta: &Delta) -> impl Iterator<Item = Cause> + '_ {
    let groups = delta.groups.iter().map(|group| Input::Group(*group));
    let ports = delta.ports.iter().map(|port| Input::Port(*port));
    let all_ports = (!delta.ports.is_empty()).then_some(Input::AllPorts);
    let inputs = groups.chain(ports).chain(all_ports).map(Cause::Input);
    inputs.chain(delta.stations.iter().copied().map(Cause::Station))
}

impl Dependencies {
    /// Begins a search; says how many suspects there may be, or `None` if all entries are to be
    /// suspected at once.
    fn begin(&mut self, delta: &Delta) -> Option<usize> {
        debug_assert!(self.meanwhile.is_none(), "one change at a time");
        self.meanwhile = Some(Vec::new());
        self.paths.begin_search();
        self.arrivals.clear();
        let entries = self.paths.count();
        (delta.inserted.len() <= entries.saturating_mul(self.sweep_at))
            .then_some(SUSPECTS_MIN + entries * SUSPECTS_EACH)
    }

    /// Those whose walks read what is another or gone.
    fn suspect_readers(&mut self, delta: &Delta, findings: &mut Findings) {
        for rule in &delta.removed {
            // In rounds, each of which asks for the memory that the next one needs: nodes lie
            // anywhere, and so do the paths of what depends on them.
            for nodes in self.nodes.of_rule(*rule).chunks(ROUND) {
                nodes.iter().for_each(|node| self.nodes.prefetch(*node));
                for node in nodes {
                    prefetch_first(&self.paths, self.nodes.dependents(*node));
                }
                for node in nodes {
                    collect(&mut self.paths, self.nodes.dependents(*node), findings);
                }
            }
        }
        for cause in causes(delta) {
            if let Some(node) = self.nodes.of_cause(cause) {
                prefetch_first(&self.paths, self.nodes.dependents(node));
                collect(&mut self.paths, self.nodes.dependents(node), findings);
            }
        }
    }

    /// Those that may have packets of a new rule.
    fn suspect_insert(&mut self, pipeline: &Pipeline, id: RuleId, findings: &mut Findings) {
        let (Some(rule), Some((value, mask))) = (pipeline.rule(id), pipeline.words_of(id)) else {
            return;
        };
        if self.nodes.table_len(rule.table) == 0 {
            return;
        }
        let new = NewRule {
            table: rule.table,
            value: &value,
            mask: &mask,
        };
        let number = findings.rules.len() as u32;
        let mut met = std::mem::take(&mut self.met);
        let (paths, nodes, traversals) = (&mut self.paths, &self.nodes, &self.traversals);
        nodes.meeting(new, |node, winner| {
            let winner = winner.and_then(|winner| pipeline.rule(winner));
            if winner.is_none_or(|winner| winner.precedence <= rule.precedence) {
                met.push(node);
                prefetch_first(paths, nodes.dependents(node));
            }
        });
        for node in &met {
            let dependents = nodes.dependents(*node);
            for (place, entry) in dependents.iter().enumerate() {
                if let Some(later) = dependents.get(place + AHEAD) {
                    paths.prefetch(*later);
                }
                if !paths.is_found(*entry) {
                    paths.pass(*entry);
                    let traversal = paths.traversal(*entry).expect("a dependent has a path");
                    findings.suspects.push(Suspect {
                        entry: *entry,
                        rule: Some(number),
                        written_words: traversals.written_words(traversal),
                    });
                }
            }
        }
        if !met.is_empty() {
            findings.rules.push((value.clone(), mask.clone()));
            let arrival = self.arrivals.add(id, rule.precedence, value, mask);
            for node in met.drain(..) {
                let was_certain = self.nodes.doubt(node);
                self.arrivals.meet(node, arrival, was_certain);
            }
        }
        self.met = met;
    }

    /// Whether no entry was added since the search began; nothing is added to them any more then.
    pub(crate) fn ends_meanwhile(&mut self) -> bool {
        let is_over = self.meanwhile.as_ref().is_none_or(Vec::is_empty);
        if is_over {
            self.meanwhile = None;
        }
        is_over
    }

    /// Up to so many of the entries that were added since the search began and are there yet, with
    /// whether the change may affect them; when there is none any more, nothing is added to them.
    pub(crate) fn check_meanwhile(
        &mut self,
        pipeline: &Pipeline,
        delta: &Delta,
        count: usize,
        affected: &mut Vec<EntryId>,
    ) -> bool {
        let mut meanwhile = self.meanwhile.take().unwrap_or_default();
        let rest = meanwhile.len().saturating_sub(count);
        for entry in meanwhile.drain(rest..) {
            let is_there = self.paths.traversal(entry).is_some();
            if is_there && is_affected(&self.nodes, &self.paths, entry, pipeline, delta) {
                affected.push(entry);
            }
        }
        let is_done = meanwhile.is_empty();
        self.meanwhile = (!is_done).then_some(meanwhile);
        is_done
    }
}

/// Whether a change may affect an entry, by everything that its walk read.
fn is_affected(
    nodes: &Nodes,
    paths: &Paths,
    entry: EntryId,
    pipeline: &Pipeline,
    delta: &Delta,
) -> bool {
    if delta.inserted.len() + delta.removed.len() > COMPARED_MAX {
        return true;
    }
    let mut edges = paths.edges(entry).iter();
    edges.any(|edge| match nodes.lookup_of(edge.node) {
        Some((_, Some(winner))) if delta.removed.contains(&winner) => true,
        Some((table, _)) => delta.inserted.iter().any(|id| {
            let rule = pipeline.rule(*id).filter(|rule| rule.table == table);
            let words = rule.and_then(|_| pipeline.words_of(*id));
            words.is_some_and(|(value, mask)| {
                let new = NewRule {
                    table,
                    value: &value,
                    mask: &mask,
                };
                nodes.is_met(edge.node, new)
            })
        }),
        None => nodes
            .cause_of(edge.node)
            .is_some_and(|cause| causes(delta).any(|other| other == *cause)),
    })
}

/// Asks for the memory of the paths of a node's first dependents: most nodes have few.
fn prefetch_first(paths: &Paths, dependents: &[EntryId]) {
    let first = dependents.iter().take(AHEAD);
    first.for_each(|entry| paths.prefetch(*entry));
}

/// Suspects dependents; the paths of the first of them have been asked for.
fn collect(paths: &mut Paths, dependents: &[EntryId], findings: &mut Findings) {
    for (place, entry) in dependents.iter().enumerate() {
        if let Some(later) = dependents.get(place + AHEAD) {
            paths.prefetch(*later);
        }
        if paths.is_first_find(*entry) {
            findings.suspects.push(Suspect {
                entry: *entry,
                rule: None,
                written_words: 0,
            });
        }
    }
}
