//! Undoes an unpublished change, slice by slice, last first.

use std::collections::BTreeMap;

use thalweg_classifier::Version;

use super::{Done, Progress, Slice, Stage};
use crate::history::History;
use crate::pipeline::Pipeline;

impl Pipeline {
    /// Undoes at least `parts` parts of the begun change, in whole slices of 64. When it is
    /// finished, the pipeline is as before the change.
    ///
    /// # Panics
    /// If no change is begun.
    pub fn undo(&mut self, parts: usize) -> Progress {
        self.unpublished().stage = Stage::Refused;
        let mut left = parts.max(1);
        while let Some(slice) = self.unpublished().slices.pop() {
            left = left.saturating_sub(slice.done.len().max(1));
            self.undo_slice(slice);
            if left == 0 && !self.unpublished().slices.is_empty() {
                return Progress::Unfinished;
            }
        }
        let prepared = self.prepared.take().expect("a change was begun");
        self.next_age = prepared.age_before;
        if let Some(former) = prepared.former {
            self.generation = former;
        }
        self.places.trim(&mut self.rules, usize::MAX);
        Progress::Finished
    }

    /// Undoes all of the begun change.
    ///
    /// # Panics
    /// If no change is begun.
    pub fn abort(&mut self) {
        while self.undo(usize::MAX) == Progress::Unfinished {}
    }

    fn undo_slice(&mut self, slice: Slice) {
        // Tables of the discarded layout need no undo.
        let is_grown = self.unpublished().former.is_some();
        if !is_grown {
            let tables = self.generation.tables.iter_mut().flatten();
            tables.for_each(|table| table.abort(slice.version));
        }
        for done in slice.done.into_iter().rev() {
            match done {
                Done::Table(id) if !is_grown => {
                    let tables = &mut self.generation.tables;
                    tables[id.index()] = None;
                    while tables.last().is_some_and(Option::is_none) {
                        tables.pop();
                    }
                }
                Done::Table(_) => {}
                Done::Birth { id, is_new_place } => {
                    self.living -= 1;
                    self.dismiss(id);
                    self.places.give_back(&mut self.rules, id, is_new_place);
                }
                Done::Death(id) => {
                    self.living += 1;
                    let rule = self.rules[id.0 as usize].as_mut();
                    rule.expect("what it was born by is undone later").end = None;
                    self.admit(id);
                }
                Done::Group(id) => abort_in(&mut self.groups, id, slice.version),
                Done::GroupCounters(id, None) => drop(self.group_counters.remove(&id)),
                Done::GroupCounters(id, Some(buckets)) => {
                    let counters = self.group_counters.get_mut(&id);
                    counters.expect("they were there").buckets.truncate(buckets);
                }
                Done::Meter(id) => abort_in(&mut self.meters.histories, id, slice.version),
                Done::MeterPlace(place) => self.meters.free_place(place),
                Done::Port(id) => abort_in(&mut self.ports, id, slice.version),
                Done::PortVlans(id) => abort_in(&mut self.vlans, id, slice.version),
                Done::Mirrors(bridge) => abort_in(&mut self.mirrors, bridge, slice.version),
                Done::Bpdus(bridge) => abort_in(&mut self.bpdus, bridge, slice.version),
                Done::Limit(table, former) => self.install_limit(table, former),
                Done::Misses(bridge) => abort_in(&mut self.misses, bridge, slice.version),
                Done::Fragments(bridge) => {
                    abort_in(&mut self.fragments, bridge, slice.version);
                }
                Done::Station(station) => self.macs.abort(station, slice.version),
            }
        }
        self.forget_touched(slice.version);
    }
}

/// Undoes what `version` did to one history, unless that is already undone.
fn abort_in<I: Ord, T>(histories: &mut BTreeMap<I, History<T>>, id: I, version: Version) {
    if let Some(history) = histories.get_mut(&id)
        && history.abort(version)
    {
        histories.remove(&id);
    }
}
