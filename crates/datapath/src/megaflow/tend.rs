//! Filter and index as they come and go: the part of a wildcard cache that is done in slices,
//! between two bursts.
//!
//! 1. An index that is being filled has exactly the entries with numbers below `filled`; it is asked
//!    when it has all, and a model of them.

use thalweg_classifier::{LearnedStatistics, Outcome, Tended};
use thalweg_packet::Layout;

use crate::entry::{Entries, EntryId};

use super::Megaflow;
use super::choice::{CacheChoice, CacheIndex, Decision};
use super::first_layer::FirstLayer;
use super::learned::Index;

impl Megaflow {
    /// Counts lookups, and decides what to do about them.
    pub(super) fn note_lookups(&mut self, lookups: u64, entries: usize) {
        let Some(choice) = &mut self.choice else {
            return;
        };
        let (index, is_filled) = (&self.index, self.filled.is_none());
        let coverage = || index.as_ref().filter(|_| is_filled)?.coverage();
        let has_filter = self.first_layer.is_some();
        // One that is being filled is left alone until it is there.
        let is_filling = index.is_some() && !is_filled;
        let decision = choice.note_lookups(lookups, entries, has_filter, index.is_some(), coverage);
        match decision {
            Decision::Keep => {}
            Decision::MakeFilter => {
                self.first_layer = FirstLayer::new(self.cache_bytes, self.seed);
                let subtables = self.subtables.len();
                self.first_layer
                    .iter_mut()
                    .for_each(|layer| layer.make_room(subtables));
            }
            Decision::DropFilter => self.first_layer = None,
            Decision::BuildIndex => self.wants_index = true,
            Decision::DropIndex if is_filling => {}
            Decision::DropIndex => self.waste = self.index.take(),
        }
        self.say();
    }

    fn way(&self) -> CacheIndex {
        match (&self.index, self.filled, &self.first_layer) {
            (Some(_), None, _) => CacheIndex::Learned,
            (_, _, Some(_)) => CacheIndex::Bloom,
            _ => CacheIndex::TupleSpace,
        }
    }

    /// Says how entries are found from now on.
    fn say(&mut self) {
        let index = self.way();
        self.choice
            .iter_mut()
            .for_each(|choice| choice.is_now(index));
    }

    /// A slice of what is under way: `steps` entries or so.
    pub(crate) fn tend<const W: usize>(
        &mut self,
        entries: &Entries<W>,
        layout: &Layout,
        steps: usize,
    ) -> Tended {
        if let Some(waste) = self.waste.take() {
            return Tended::Job(waste.into_waste());
        }
        if std::mem::take(&mut self.wants_index) && self.index.is_none() {
            self.index = Some(Index::new(layout, self.seed));
            self.filled = Some(0);
        }
        let Some(index) = &mut self.index else {
            return Tended::Idle;
        };
        let Some(filled) = self.filled.filter(|filled| *filled < entries.numbers()) else {
            let tended = index.tend(steps);
            // Invariant 1; one that nothing is to be trained of is given up by its coverage.
            if self.filled.is_some() && (index.replaced() > 0 || index.is_small()) {
                self.filled = None;
                self.say();
            }
            return tended;
        };
        let end = entries.numbers().min(filled.saturating_add(steps as u32));
        for id in (filled..end).map(EntryId) {
            if entries.is_there(id) {
                let subtable = self.subtables[entries.get(id).subtable as usize].as_ref();
                let mask = &subtable.expect("the entry names it").mask;
                index.insert(id, entries.key(id), mask);
            }
        }
        self.filled = Some(end);
        Tended::More
    }

    /// Takes the outcome of the index's last job; that of any other is dropped. Says whether there
    /// is an index.
    pub(crate) fn install(&mut self, outcome: Outcome) -> bool {
        match &mut self.index {
            Some(index) => index.install(outcome),
            None => return false,
        }
        true
    }

    /// Says that the last job will not be done.
    pub(crate) fn forget_job(&mut self) {
        self.index.iter_mut().for_each(Index::forget_job);
    }

    /// How often the index was trained that there is.
    pub(crate) fn trainings(&self) -> u64 {
        self.index.as_ref().map_or(0, Index::replaced)
    }

    /// Figures of the learned index, if there is one.
    pub(crate) fn learned(&self) -> Option<LearnedStatistics> {
        self.index.as_ref()?.statistics()
    }

    /// How entries are found, and why.
    pub(crate) fn choice(&self) -> CacheChoice {
        let coverage = self.index.as_ref().and_then(Index::coverage);
        let said = match &self.choice {
            Some(choice) => choice.said,
            None => CacheChoice {
                index: self.way(),
                ..CacheChoice::default()
            },
        };
        CacheChoice {
            coverage: coverage.unwrap_or(0.0),
            ..said
        }
    }
}
