//! Builds and drops the filter and the index of a wildcard cache, in slices between bursts.
//!
//! ```text
//!   copying       entries in the order of their numbers; what comes, goes or changes behind that is
//!                 stale
//!   building      a job has the copies; whatever comes, goes or changes is stale
//!   catching up   the index is there: for each stale entry, take it out, and put it in as it is now
//!   none is stale: lookups ask it
//! ```
//!
//! So while the index is built, an entry that comes or goes only has its number noted, and no
//! table grows during a burst. An index that would take longer to search than the sub-tables
//! is given up before use.
//!
//! 1. Entries whose current state is not in the index being built are stale; it is used when
//!    none is.
//! 2. No more entries are stale than there are, or the index is given up.
//! 3. While the entries that were stale are brought up to date, fewer become stale, by an
//!    eighth, until few are. Otherwise the index is given up: entries change too fast for it.
//!    So catching up takes at most eight times as many steps as entries were stale when the
//!    job was done.

use thalweg_classifier::{BuiltIndex, LearnedStatistics, Tending};
use thalweg_packet::Layout;

use crate::entry::{Entries, EntryId};

use super::Megaflow;
use super::choice::{CacheChoice, CacheIndex, Choice, Decision, Way};
use super::first_layer::FirstLayer;
use super::learned::{CopiedEntries, Index};

/// Entries that are copied for each one that could be brought up to date.
const COPIED_PER_STEP: usize = 8;

/// With this few stale entries, the index is never given up.
const FEW_STALE: usize = 1_024;

/// Entries whose keys are tried before an index is used.
const TRIED: u32 = 64;

/// Progress of an index that is not in use yet.
#[derive(Debug)]
pub(super) struct Filling {
    /// Entries with numbers below `copied`, until the job takes them.
    copies: Option<CopiedEntries>,
    copied: u32,
    /// The stale entries (invariant 1); some are listed more than once.
    stale: Vec<EntryId>,
    /// The number of stale entries when this round of catching up began, and how many of them
    /// are left.
    round: usize,
    left: usize,
}

impl Filling {
    /// Records an entry that comes, goes, or changes its region.
    pub(super) fn note(&mut self, id: EntryId) {
        if id.0 < self.copied && self.stale.last() != Some(&id) {
            self.stale.push(id);
        }
    }

    /// Begins another round of catching up if one is over; returns whether invariant 3 holds.
    fn gains(&mut self) -> bool {
        if self.left > 0 {
            return true;
        }
        let (former, now) = (self.round, self.stale.len());
        (self.round, self.left) = (now, now);
        now <= FEW_STALE.max(former - former / 8)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let copies = self.copies.as_ref().map_or(0, CopiedEntries::memory_bytes);
        copies + self.stale.capacity() * size_of::<EntryId>()
    }
}

impl Megaflow {
    /// Counts lookups, and acts on the decision.
    pub(super) fn note_lookups(&mut self, lookups: u64, entries: usize) {
        let Some(choice) = &mut self.choice else {
            return;
        };
        let (index, is_filling) = (&self.index, self.filling.is_some());
        let has_filter = self.first_layer.is_some();
        let way = || match index {
            _ if is_filling => Way::Waiting,
            Some(index) => Way::Index(index.as_asked()),
            None if has_filter => Way::Filter,
            None => Way::Plain,
        };
        match choice.note_lookups(lookups, entries, way) {
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
            Decision::DropIndex => self.give_up(),
        }
        self.say();
    }

    fn way(&self) -> CacheIndex {
        match (self.asked_index(), &self.first_layer) {
            (Some(_), _) => CacheIndex::Learned,
            (_, Some(_)) => CacheIndex::Bloom,
            _ => CacheIndex::TupleSpace,
        }
    }

    /// The index, if it has all entries.
    pub(super) fn asked_index(&self) -> Option<&Index> {
        self.index.as_ref().filter(|_| self.filling.is_none())
    }

    /// Gives the index up; the wait for the next is longer each time.
    fn give_up(&mut self) {
        self.filling = None;
        self.waste = self.index.take();
        self.choice.iter_mut().for_each(Choice::note_given_up);
        self.say();
    }

    /// Records the current method.
    fn say(&mut self) {
        let index = self.way();
        self.choice
            .iter_mut()
            .for_each(|choice| choice.is_now(index));
    }

    /// Does a slice of the work in progress, about `steps` entries.
    pub(crate) fn tend<const W: usize>(
        &mut self,
        entries: &Entries<W>,
        layout: &Layout,
        steps: usize,
    ) -> Tending {
        if let Some(waste) = self.waste.take() {
            return Tending::Job(waste.into_waste());
        }
        if std::mem::take(&mut self.wants_index) && self.index.is_none() && self.filling.is_none() {
            // Room for entries added during the copying.
            let room = entries.numbers() as usize / 8 * 9;
            self.filling = Some(Filling {
                copies: Some(CopiedEntries::new(layout, room)),
                copied: 0,
                stale: Vec::new(),
                round: usize::MAX,
                left: 0,
            });
        }
        let Some(mut filling) = self.filling.take() else {
            return self
                .index
                .as_mut()
                .map_or(Tending::Idle, |index| index.tend(steps));
        };
        let tended = match filling.copies.take() {
            Some(copies) => self.copy(copies, &mut filling, entries, layout, steps),
            None => self.catch_up(&mut filling, entries, steps),
        };
        // Invariant 2.
        let is_built = self
            .index
            .as_ref()
            .is_some_and(|index| index.replaced() > 0);
        let is_hopeless =
            filling.stale.len() > entries.numbers() as usize || is_built && !filling.gains();
        let is_over = is_built && filling.stale.is_empty();
        if !is_over {
            self.filling = Some(filling);
        }
        if is_hopeless || is_over && !self.pays(entries) {
            self.give_up();
        }
        self.say();
        tended
    }

    /// Copies some entries; with the last, returns the job.
    fn copy<const W: usize>(
        &mut self,
        mut copies: CopiedEntries,
        filling: &mut Filling,
        entries: &Entries<W>,
        layout: &Layout,
        steps: usize,
    ) -> Tending {
        let count = steps.saturating_mul(COPIED_PER_STEP) as u64;
        let end = u64::from(filling.copied).saturating_add(count);
        let end = end.min(entries.numbers().into()) as u32;
        for id in (filling.copied..end).map(EntryId) {
            if entries.is_there(id) {
                let mask = self.mask(entries.get(id).subtable);
                copies.push(id, entries.key(id), mask);
            }
        }
        filling.copied = end;
        if end < entries.numbers() {
            filling.copies = Some(copies);
            return Tending::More;
        }
        // The others have not been copied, and will not be.
        filling.copied = u32::MAX;
        let (index, job) = copies.into_index(layout, self.seed);
        self.index = Some(index);
        Tending::Job(job)
    }

    /// Brings some stale entries up to date in a built index (invariant 1).
    fn catch_up<const W: usize>(
        &mut self,
        filling: &mut Filling,
        entries: &Entries<W>,
        steps: usize,
    ) -> Tending {
        let Some(mut index) = self.index.take() else {
            return Tending::Idle;
        };
        let mut tended = index.tend(steps);
        if index.replaced() > 0 {
            let rest = filling.stale.len().saturating_sub(steps);
            filling.left = filling.left.saturating_sub(filling.stale.len() - rest);
            for id in filling.stale.drain(rest..) {
                if index.knows(id) {
                    index.remove(id);
                }
                if entries.is_there(id) {
                    let mask = self.mask(entries.get(id).subtable);
                    index.insert(id, entries.key(id), mask);
                }
            }
            if matches!(tended, Tending::Idle) {
                tended = Tending::More;
            }
        }
        self.index = Some(index);
        tended
    }

    /// Whether lookups in the index would take no longer than in sub-tables.
    fn pays<const W: usize>(&mut self, entries: &Entries<W>) -> bool {
        let (Some(index), Some(choice)) = (&self.index, &mut self.choice) else {
            return true;
        };
        let step = (entries.numbers() / TRIED).max(1) as usize;
        let tried = (0..entries.numbers()).step_by(step).map(EntryId);
        let tried = tried.filter(|id| entries.is_there(*id));
        let costs: Vec<f64> = tried.map(|id| index.cost_ns(entries.key(id))).collect();
        choice.note_index(costs.iter().sum::<f64>() / costs.len().max(1) as f64);
        choice.begin_index(entries.len(), index.replaced());
        choice.pays(index.coverage())
    }

    /// Installs the index of the last job; drops that of any other. Returns whether
    /// there is an index.
    pub(crate) fn install(&mut self, built: BuiltIndex) -> bool {
        match &mut self.index {
            Some(index) => index.install(built),
            None => return false,
        }
        true
    }

    /// Records that the last job will not be done.
    pub(crate) fn forget_job(&mut self) {
        match self.filling.is_some() {
            true => self.give_up(),
            false => self.index.iter_mut().for_each(Index::forget_job),
        }
    }

    /// How often the current index was trained.
    pub(crate) fn trainings(&self) -> u64 {
        self.index.as_ref().map_or(0, Index::replaced)
    }

    /// Figures of the learned index, if there is one.
    pub(crate) fn learned(&self) -> Option<LearnedStatistics> {
        self.index.as_ref()?.statistics()
    }

    /// The current method, and the figures behind it.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds until nothing is stale or the index is given up. For each entry brought up to
    /// date, `become_stale` others become stale.
    fn rounds(stale: usize, become_stale: f64) -> (usize, bool) {
        let mut filling = Filling {
            copies: None,
            copied: u32::MAX,
            stale: vec![EntryId(0); stale],
            round: usize::MAX,
            left: 0,
        };
        let mut rounds = 0;
        while !filling.stale.is_empty() {
            if !filling.gains() {
                return (rounds, false);
            }
            rounds += 1;
            let done = std::mem::take(&mut filling.left);
            let come = (done as f64 * become_stale) as usize;
            filling.stale.resize(come, EntryId(0));
        }
        (rounds, true)
    }

    #[test]
    fn an_index_is_given_up_if_entries_change_too_fast_for_it() {
        assert_eq!(rounds(100_000, 0.0), (1, true));
        // Each round leaves four fifths; after some more, so few that it does not matter.
        let (count, is_caught_up) = rounds(100_000, 0.8);
        assert!(is_caught_up && count > 20);
        assert_eq!(rounds(100_000, 0.9), (1, false));
        assert_eq!(rounds(100_000, 2.0), (1, false));
        // A few can be caught up with between two bursts.
        assert!(rounds(1_000, 0.95).1);
    }
}
