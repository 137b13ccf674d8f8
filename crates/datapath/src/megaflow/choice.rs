//! How a wildcard cache that may choose finds its entries: by what lookups cost, counted.
//!
//! Sub-tables one after the other cost as much as there are before the right one; a filter before
//! them, a few probes whatever there are; a learned index two or so, but it has to be built, and an
//! entry that comes or goes costs a hundred times a probe. So, over windows of lookups:
//!
//! ```text
//!   probes   sub-tables that a lookup without filter and index searches; of one burst in SAMPLE
//!            where there is one
//!   filter   made when probes > 4, and given up when probes < 2; whether it is asked it decides
//!            itself, by its own count (first_layer)
//!   index    gain = (probes - what the index costs) * cost of a probe
//!            built when the gains of all lookups since the last decision are more than
//!                entries * cost of building + updates * cost of an update
//!            given up when a window's updates cost more than it gains, or it covers too little;
//!                also before it is asked, if keys of entries would visit too much in it
//! ```
//!
//! As with renting skis or buying them: what is lost before the index is built is at most what it
//! costs. Given up, it is built again no sooner than lookups have lost twice as much as before.
//! Entries of a thousand masks that are no prefixes do not fit into a learned index: of 100,000 of
//! an OF-DPA-like pipeline with 1,400 masks, a packet took 37 microseconds with one and 4.5 without.

/// Lookups of a window.
const WINDOW: u64 = 16_384;
/// One burst in so many goes past filter and index, to see what that costs.
const SAMPLE: u32 = 64;
/// Probes from which on there is a filter, and below which there is none.
const FILTER_ABOVE: f64 = 4.0;
const FILTER_BELOW: f64 = 2.0;
/// What the index costs, in probes: measured (`learned` has the table).
const INDEX_PROBES: f64 = 2.0;
/// Nanoseconds: of a probe, of building the index for an entry, and of an entry that comes or goes.
const PROBE_NS: f64 = 30.0;
const BUILD_NS: f64 = 8_000.0;
const UPDATE_NS: f64 = 3_000.0;
/// Fewer entries have no index.
const ENTRIES_MIN: usize = 1_000;
/// The longest wait for the next index, in what one costs: it doubles with each that is given up.
const PATIENCE_MAX: f64 = 1_024.0;
/// An index that covers a smaller share, in percent, is given up.
const COVERAGE_MIN: f64 = 25.0;

/// How entries are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheIndex {
    /// Sub-table after sub-table.
    #[default]
    TupleSpace,
    /// The same, behind a filter.
    Bloom,
    /// In a learned index.
    Learned,
}

impl CacheIndex {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            CacheIndex::TupleSpace => "tuple_space",
            CacheIndex::Bloom => "bloom",
            CacheIndex::Learned => "learned",
        }
    }
}

/// How a wildcard cache finds its entries, and what speaks for that.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CacheChoice {
    /// Whether that is chosen by what lookups cost.
    pub is_measured: bool,
    /// How entries are found now.
    pub index: CacheIndex,
    /// Sub-tables that a lookup searches without filter and index, in the last window.
    pub probes_per_lookup: f64,
    /// Entries that came or went for each lookup, in the last window.
    pub updates_per_lookup: f64,
    /// The share of the entries that a learned index covers, 0 to 1; 0 without one.
    pub coverage: f64,
    /// How often another way was taken.
    pub changes: u64,
}

/// What is to be done after a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Decision {
    Keep,
    MakeFilter,
    DropFilter,
    BuildIndex,
    DropIndex,
}

/// What has been seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    lookups: u64,
    plain_lookups: u64,
    plain_probes: u64,
    updates: u64,
    bursts: u32,
    /// What lookups have lost since the last decision for lack of an index, in nanoseconds, updates
    /// that it would have cost taken off.
    lost_ns: f64,
    /// What a lookup in the index costs in probes, if there is one and that is more than usual.
    index_probes: f64,
    /// By how much more than an index costs must be lost before it is built again.
    patience: f64,
    /// The figures of the last window, and how often something was decided.
    pub(super) said: CacheChoice,
}

impl Choice {
    pub(super) fn new() -> Choice {
        Choice {
            said: CacheChoice {
                is_measured: true,
                ..CacheChoice::default()
            },
            index_probes: INDEX_PROBES,
            patience: 1.0,
            ..Choice::default()
        }
    }

    /// What a lookup in an index costs that is about to be asked, in nanoseconds.
    pub(super) fn note_index(&mut self, cost_ns: f64) {
        self.index_probes = (cost_ns / PROBE_NS).max(INDEX_PROBES);
    }

    /// Whether an index of this coverage is better than none.
    pub(super) fn pays(&self, coverage: Option<f64>) -> bool {
        let covers_little = coverage.is_some_and(|share| share * 100.0 < COVERAGE_MIN);
        self.index_probes < self.said.probes_per_lookup && !covers_little
    }

    /// An index has been given up, or could not be built: the next must wait for longer.
    pub(super) fn note_given_up(&mut self) {
        self.index_probes = INDEX_PROBES;
        self.patience = (self.patience * 2.0).min(PATIENCE_MAX);
    }

    /// Whether this burst goes past filter and index.
    pub(super) fn is_sample(&mut self) -> bool {
        self.bursts = self.bursts.wrapping_add(1);
        self.bursts.is_multiple_of(SAMPLE)
    }

    /// An entry comes or goes.
    pub(super) fn note_update(&mut self) {
        self.updates += 1;
    }

    /// Lookups that searched without filter and index, and in how many sub-tables.
    pub(super) fn note_plain(&mut self, lookups: u64, probes: u64) {
        self.plain_lookups += lookups;
        self.plain_probes += probes;
    }

    /// Counts lookups, and decides if a window is over. `coverage` is that of an index that is there
    /// and trained.
    pub(super) fn note_lookups(
        &mut self,
        lookups: u64,
        entries: usize,
        has_filter: bool,
        has_index: bool,
        coverage: impl FnOnce() -> Option<f64>,
    ) -> Decision {
        self.lookups += lookups;
        if self.lookups < WINDOW || self.plain_lookups == 0 {
            return Decision::Keep;
        }
        let probes = self.plain_probes as f64 / self.plain_lookups as f64;
        let gain_ns = (probes - self.index_probes) * PROBE_NS * self.lookups as f64;
        let update_ns = self.updates as f64 * UPDATE_NS;
        self.said.probes_per_lookup = probes;
        self.said.updates_per_lookup = self.updates as f64 / self.lookups as f64;
        (
            self.lookups,
            self.plain_lookups,
            self.plain_probes,
            self.updates,
        ) = (0, 0, 0, 0);
        if has_index {
            self.lost_ns = 0.0;
            let covers_little = coverage().is_some_and(|share| share * 100.0 < COVERAGE_MIN);
            return match update_ns > gain_ns || covers_little {
                true => Decision::DropIndex,
                false => Decision::Keep,
            };
        }
        // What was lost when updates were many does not count against what comes after.
        self.lost_ns = (self.lost_ns + gain_ns - update_ns).max(0.0);
        if entries >= ENTRIES_MIN && self.lost_ns >= entries as f64 * BUILD_NS * self.patience {
            self.lost_ns = 0.0;
            return Decision::BuildIndex;
        }
        match has_filter {
            false if probes > FILTER_ABOVE => Decision::MakeFilter,
            true if probes < FILTER_BELOW => Decision::DropFilter,
            _ => Decision::Keep,
        }
    }

    /// Says how entries are found from now on.
    pub(super) fn is_now(&mut self, index: CacheIndex) {
        self.said.changes += u64::from(self.said.index != index);
        self.said.index = index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of lookups that search so many sub-tables, with so many updates.
    fn window(choice: &mut Choice, probes: u64, updates: u64, has: (bool, bool)) -> Decision {
        (0..updates).for_each(|_| choice.note_update());
        choice.note_plain(WINDOW, WINDOW * probes);
        choice.note_lookups(WINDOW, 10_000, has.0, has.1, || Some(1.0))
    }

    #[test]
    fn a_filter_comes_with_many_probes_and_goes_with_few() {
        let mut choice = Choice::new();
        assert_eq!(
            window(&mut choice, 4, 16_384, (false, false)),
            Decision::Keep
        );
        assert_eq!(
            window(&mut choice, 5, 16_384, (false, false)),
            Decision::MakeFilter
        );
        assert_eq!(
            window(&mut choice, 3, 16_384, (true, false)),
            Decision::Keep
        );
        assert_eq!(
            window(&mut choice, 1, 16_384, (true, false)),
            Decision::DropFilter
        );
        assert_eq!(choice.said.updates_per_lookup, 1.0);
    }

    #[test]
    fn an_index_is_built_when_lookups_have_lost_what_it_costs() {
        // 8 probes too many, of 30 ns, for 16,384 lookups: 3.9 ms a window; 80 ms for all entries.
        let mut choice = Choice::new();
        let mut windows = 1;
        while window(&mut choice, 10, 0, (true, false)) != Decision::BuildIndex {
            windows += 1;
        }
        assert_eq!(windows, 21);
        // As many updates as eat the gain: never.
        for _ in 0..1_000 {
            assert_ne!(
                window(&mut choice, 10, 1_400, (true, false)),
                Decision::BuildIndex
            );
        }
        // One sub-table is as good as it gets.
        for _ in 0..1_000 {
            assert_eq!(window(&mut choice, 1, 0, (false, false)), Decision::Keep);
        }
    }

    #[test]
    fn an_index_that_would_be_slower_is_not_asked_and_the_next_waits_longer() {
        let mut choice = Choice::new();
        let windows = |choice: &mut Choice| {
            let mut windows = 1;
            while window(choice, 10, 0, (true, false)) != Decision::BuildIndex {
                windows += 1;
            }
            windows
        };
        assert_eq!(windows(&mut choice), 21);
        choice.note_index(290.0);
        assert!(choice.pays(Some(0.9)));
        assert!(!choice.pays(Some(0.2)));
        choice.note_index(310.0);
        assert!(!choice.pays(Some(0.9)), "ten probes take 300");
        choice.note_given_up();
        assert_eq!(windows(&mut choice), 41);
        choice.note_given_up();
        assert_eq!(windows(&mut choice), 82);
        // One that is asked goes when it has become so.
        choice.note_index(310.0);
        assert_eq!(
            window(&mut choice, 10, 1, (true, true)),
            Decision::DropIndex
        );
    }

    #[test]
    fn an_index_goes_when_it_costs_more_than_it_gains() {
        let mut choice = Choice::new();
        choice.is_now(CacheIndex::Learned);
        assert_eq!(window(&mut choice, 10, 1_000, (true, true)), Decision::Keep);
        assert_eq!(
            window(&mut choice, 10, 1_400, (true, true)),
            Decision::DropIndex
        );
        assert_eq!(window(&mut choice, 2, 1, (true, true)), Decision::DropIndex);
        choice.note_plain(1, 10);
        let share = choice.note_lookups(WINDOW, 10_000, true, true, || Some(0.2));
        assert_eq!(share, Decision::DropIndex);
        assert_eq!(choice.said.changes, 1);
    }
}
