//! Counts the work and the cost of lookups through a first layer.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::filter::FilterStatistics;

// The costs of parts of a lookup, in visits of a search one by one; fitted to
// `benches/bloom.rs`. A visit is cheap: it mostly misses, and its memory wait overlaps with
// others. Work after a filter waits for it. In a burst other keys fill the time, one by one
// nothing does.

/// A hash and a load of a filter.
const FILTER: f64 = 1.0;
/// A search that a filter suggested.
const CANDIDATE: f64 = 2.0;
/// Putting a key in.
const PUT: f64 = 1.5;
/// The factor for waits that nothing fills.
const SINGLE: f64 = 2.0;
/// The mask, hash and load of a sub-table's own filter, in a burst.
const OWN_FILTER: f64 = 0.9;
/// As `OWN_FILTER`, one by one; nothing waits for it.
const OWN_FILTER_SINGLE: f64 = 0.5;

/// The counts of a [`Bloom`](super::Bloom); concurrent threads may have lost some.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct BloomStatistics {
    /// Lookups that asked the first layer.
    pub lookups: u64,
    /// Lookups that skipped the first layer.
    pub bypassed: u64,
    /// Sub-tables searched because a filter suggested it.
    pub candidates: u64,
    /// The candidates without a rule for the key.
    pub false_positives: u64,
    /// Lookups that asked the first layer and still had to search all sub-tables one by one.
    pub full_searches: u64,
    /// Whether the first layer is asked now.
    pub is_asked: bool,
    /// The statistics of the filters.
    pub filters: FilterStatistics,
}

/// The work of a lookup, or of a burst of them.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Tally {
    pub(super) lookups: u32,
    /// Filters asked.
    pub(super) filters: u32,
    pub(super) candidates: u32,
    pub(super) falses: u32,
    /// Sub-tables searched without a filter's suggestion.
    pub(super) visited: u32,
    pub(super) searches: u32,
    /// Keys found elsewhere than the flows suggested.
    pub(super) missed: u32,
}

impl Tally {
    /// The cost in visits of a search one by one.
    pub(super) fn cost(&self, is_own: bool, is_single: bool) -> f64 {
        let wait = if is_single { SINGLE } else { 1.0 };
        let filter = match (is_own, is_single) {
            (false, _) => FILTER * wait,
            (true, false) => OWN_FILTER,
            (true, true) => OWN_FILTER_SINGLE,
        };
        f64::from(self.filters) * filter
            + f64::from(self.candidates) * CANDIDATE * wait
            + f64::from(self.visited)
            + f64::from(self.missed) * PUT
    }
}

/// Sums of tallies.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Counts {
    lookups: AtomicU64,
    bypassed: AtomicU64,
    candidates: AtomicU64,
    falses: AtomicU64,
    searches: AtomicU64,
}

impl Counts {
    #[inline]
    pub(super) fn bypass(&self, lookups: u32) {
        add(&self.bypassed, lookups);
    }

    #[inline]
    pub(super) fn add(&self, tally: Tally) {
        add(&self.lookups, tally.lookups);
        add(&self.candidates, tally.candidates);
        if tally.falses > 0 {
            add(&self.falses, tally.falses);
        }
        if tally.searches > 0 {
            add(&self.searches, tally.searches);
        }
    }

    pub(super) fn read(&self, filters: FilterStatistics, is_asked: bool) -> BloomStatistics {
        BloomStatistics {
            lookups: self.lookups.load(Relaxed),
            bypassed: self.bypassed.load(Relaxed),
            candidates: self.candidates.load(Relaxed),
            false_positives: self.falses.load(Relaxed),
            full_searches: self.searches.load(Relaxed),
            is_asked,
            filters,
        }
    }
}

/// Adds without one atomic step: a lost count is cheaper than a locked line for each lookup.
#[inline]
fn add(sum: &AtomicU64, more: u32) {
    sum.store(sum.load(Relaxed) + u64::from(more), Relaxed);
}
