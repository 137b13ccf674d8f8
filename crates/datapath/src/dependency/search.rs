//! Searches for the entries that a change may affect; runs on any thread.
//!
//! The record of what entries depend on belongs to a worker, which writes it at every upcall
//! and eviction. The control side searches it for a change, and locks it for one rule of the
//! change at a time. A worker that finds it locked notes its updates, and writes them later.
//!
//! The search finds suspects. The record has certificates, not the entries' regions. So when
//! the worker looks at a suspect, it drops it if no packet of its region matches the new rule.
//!
//! 1. The suspects include every entry affected by the change that is in the record both when
//!    the search begins and when it ends.
//! 2. Every entry added since the search began is listed, until the version moves.
//! 3. There are not many more suspects than entries: if there are too many, all entries are
//!    suspected.

use std::sync::{Arc, PoisonError};

use thalweg_pipeline::{Delta, Input, Pipeline, Rule, RuleId};

use super::Dependencies;
use super::node::{Cause, NewRule, Nodes};
use super::paths::Paths;
use crate::entry::EntryId;
use crate::sync::{Mutex, MutexGuard};

/// Most suspects per entry, and the number always allowed (invariant 3).
const SUSPECTS_EACH: usize = 2;
const SUSPECTS_MIN: usize = 4_096;

/// Most new rules in an entry's tables that are compared with it one by one. If there are
/// more, an entry made since the search began counts as affected.
const COMPARED_MAX: usize = 64;

/// Nodes of a rule that are processed together.
const ROUND: usize = 32;

/// How far ahead the memory of dependents is prefetched, as they are scattered.
const AHEAD: usize = 8;

/// What entries depend on, shared with the threads that search it.
#[derive(Clone, Debug)]
pub struct Index(Arc<Mutex<Dependencies>>);

/// An entry that a change may affect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspect {
    pub(crate) entry: EntryId,
    /// The new rule that packets of its region may match, as an index into the findings;
    /// `None` if another input of its walk changed.
    pub(crate) rule: Option<u32>,
    /// One bit for each word of the state, by its number: whether the entry's walk wrote it.
    pub(crate) written_words: u64,
}

/// The entries that a change may affect.
#[derive(Debug, Default)]
pub struct Findings {
    pub(crate) suspects: Vec<Suspect>,
    /// Words of value and mask of the new rules that suspects name.
    rules: Vec<(Vec<u64>, Vec<u64>)>,
    /// Whether all entries are suspected (invariant 3).
    pub(crate) is_everything: bool,
}

impl Findings {
    /// Findings that suspect all entries.
    pub(crate) fn everything() -> Findings {
        Findings {
            is_everything: true,
            ..Findings::default()
        }
    }

    /// Whether packets of the region of `key` and `mask` can match the suspect's new rule.
    /// Only the words that its walk did not write count.
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
    /// Puts `dependencies` into `former`, so that its holders see them, or into a new record.
    pub(crate) fn with(dependencies: Dependencies, former: Option<Index>) -> Index {
        match former {
            Some(former) => {
                *former.lock() = dependencies;
                former
            }
            None => Index(Arc::new(Mutex::new(dependencies))),
        }
    }

    /// Locks the record; waits for other holders.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Dependencies> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the record if it is free.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Dependencies>> {
        self.0.try_lock().ok()
    }

    /// Finds the entries that a published change, not yet followed, may affect.
    ///
    /// Locks the record for one part of the change at a time.
    pub fn search(&self, pipeline: &Pipeline, delta: &Delta) -> Findings {
        let mut findings = Findings::default();
        let limit = self.lock().begin(delta);
        let Some(limit) = limit else {
            return Findings::everything();
        };
        self.lock().suspect_readers(delta, &mut findings);
        // A rule that takes another's place, match and precedence is met where the other was
        // met. A clause is met nowhere, so it is searched for, and so is one that has gone.
        let heirs = heirs(pipeline, delta);
        let is_new =
            |rule: &RuleId| heirs.binary_search(rule).is_err() || pipeline.is_clause(*rule);
        let changed = delta.inserted.iter().filter(|rule| is_new(rule));
        for rule in changed.copied().chain(gone_clauses(pipeline, delta)) {
            self.lock().suspect_around(pipeline, rule, &mut findings);
            if findings.suspects.len() > limit {
                return Findings::everything();
            }
        }
        self.lock().arrivals.sort();
        findings
    }
}

/// The clauses of conjunctive matches that a change removes.
fn gone_clauses(pipeline: &Pipeline, delta: &Delta) -> impl Iterator<Item = RuleId> {
    let removed = delta.removed.iter().copied();
    removed.filter(|rule| pipeline.is_clause(*rule))
}

/// The rules that a change adds, and the clauses that it removes.
fn changed_rules(pipeline: &Pipeline, delta: &Delta) -> impl Iterator<Item = RuleId> {
    let inserted = delta.inserted.iter().copied();
    inserted.chain(gone_clauses(pipeline, delta))
}

/// The new rules of a change that replace others, sorted.
fn heirs(pipeline: &Pipeline, delta: &Delta) -> Vec<RuleId> {
    let removed = delta.removed.iter();
    let mut heirs: Vec<RuleId> = removed
        .filter_map(|rule| pipeline.successor_of(*rule))
        .collect();
    heirs.sort_unstable();
    heirs
}

/// The inputs that a change alters besides the rules of tables.
fn causes(delta: &Delta) -> impl Iterator<Item = Cause> + '_ {
    let groups = delta.groups.iter().map(|group| Input::Group(*group));
    let ports = delta.ports.iter().map(|port| Input::Port(*port));
    let all_ports = (!delta.ports.is_empty()).then_some(Input::AllPorts);
    let misses = delta.misses.iter().map(|bridge| Input::Misses(*bridge));
    let bpdus = delta.bpdus.iter().map(|bridge| Input::Bpdus(*bridge));
    let fragments = delta.fragments.iter().copied().map(Input::Fragments);
    let meters = delta.meters.iter().copied().map(Input::Meter);
    let inputs = groups.chain(ports).chain(all_ports).chain(meters);
    let inputs = inputs.chain(misses).chain(bpdus).chain(fragments);
    let inputs = inputs.map(Cause::Input);
    inputs.chain(delta.stations.iter().copied().map(Cause::Station))
}

impl Dependencies {
    /// Begins a search; returns the most suspects allowed, or `None` if all entries must be
    /// suspected at once.
    fn begin(&mut self, delta: &Delta) -> Option<usize> {
        debug_assert!(self.meanwhile.is_none(), "one change at a time");
        self.meanwhile = Some(Vec::new());
        self.paths.begin_search();
        self.arrivals.clear();
        if !delta.mirrors.is_empty() {
            // No walk records that it was not mirrored.
            return None;
        }
        let entries = self.paths.count();
        (delta.inserted.len() <= entries.saturating_mul(self.sweep_at))
            .then_some(SUSPECTS_MIN + entries * SUSPECTS_EACH)
    }

    /// Suspects the entries whose walks read something that is changed or gone.
    fn suspect_readers(&mut self, delta: &Delta, findings: &mut Findings) {
        for rule in &delta.removed {
            // In rounds, each of which prefetches for the next: nodes, and the paths of their
            // dependents, are scattered in memory.
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

    /// Suspects the entries that may have packets matching a new rule, or a clause that is new
    /// or gone.
    fn suspect_around(&mut self, pipeline: &Pipeline, id: RuleId, findings: &mut Findings) {
        let (Some(rule), Some((value, mask))) = (pipeline.rule(id), pipeline.region_of(id)) else {
            return;
        };
        let has_clauses = pipeline.has_clauses(rule.table);
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
            let known = winner.and_then(|winner| Some((winner, pipeline.rule(winner)?)));
            // The winner of a conjunctive match says nothing of the priority of its clauses.
            let is_above = |(id, winner): (RuleId, &Rule)| {
                winner.precedence > rule.precedence && !(has_clauses && pipeline.matches_id(id))
            };
            if !known.is_some_and(is_above) {
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
            let arrival = match has_clauses {
                true => self.arrivals.add_undecided(id, rule.precedence),
                false => self.arrivals.add(id, rule.precedence, value, mask),
            };
            for node in met.drain(..) {
                let was_certain = self.nodes.doubt(node);
                self.arrivals.meet(node, arrival, was_certain);
            }
        }
        self.met = met;
    }

    /// Ends the list of new entries if it is empty; returns whether it has ended.
    pub(crate) fn ends_meanwhile(&mut self) -> bool {
        let is_over = self.meanwhile.as_ref().is_none_or(Vec::is_empty);
        if is_over {
            self.meanwhile = None;
        }
        is_over
    }

    /// Checks up to `count` of the entries added since the search began, and collects those
    /// that the change may affect. Returns true when none is left; the list then ends.
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

/// Whether a change may affect an entry, judged by everything that its walk read.
fn is_affected(
    nodes: &Nodes,
    paths: &Paths,
    entry: EntryId,
    pipeline: &Pipeline,
    delta: &Delta,
) -> bool {
    let is_mirrored = !delta.mirrors.is_empty();
    if is_mirrored || delta.inserted.len() + delta.removed.len() > COMPARED_MAX {
        return true;
    }
    let mut edges = paths.edges(entry).iter();
    edges.any(|edge| match nodes.lookup_of(edge.node) {
        Some((_, Some(winner))) if delta.removed.contains(&winner) => true,
        Some((table, _)) => changed_rules(pipeline, delta).any(|id| {
            let rule = pipeline.rule(id).filter(|rule| rule.table == table);
            let words = rule.and_then(|_| pipeline.region_of(id));
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

/// Prefetches the paths of a node's first dependents; most nodes have few.
fn prefetch_first(paths: &Paths, dependents: &[EntryId]) {
    let first = dependents.iter().take(AHEAD);
    first.for_each(|entry| paths.prefetch(*entry));
}

/// Suspects dependents; the paths of the first ones must have been prefetched.
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
