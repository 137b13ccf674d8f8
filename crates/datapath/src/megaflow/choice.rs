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
//!            cost = updates * cost of an update + trainings * entries * cost of building
//!            built when gains less costs since the last decision, if positive, have come to what
//!                building costs; trainings are counted as often as the last index was trained,
//!                by updates
//!            given up when it has lost as much since it was at its best, or it covers too little;
//!                also before it is asked, if keys of entries would visit too much in it
//! ```
//!
//! What the index costs is counted in lookups, so that a remainder that has grown is in it. As with
//! renting skis or buying them: what is lost before the index is built, or before it is given up, is at
//! most what it costs and one training. What its updates had cost, with trainings and remainder, is
//! forgotten slowly ([`FORGOTTEN`]): a cache that evicts as much as before does without. One whose
//! lookups take longer than without is built again no sooner than twice as much as before was lost.
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
/// Nanoseconds: of a probe, of building or training the index for an entry, and of an entry that comes
/// or goes.
const PROBE_NS: f64 = 30.0;
const BUILD_NS: f64 = 4_000.0;
const UPDATE_NS: f64 = 3_000.0;
/// Fewer entries have no index.
const ENTRIES_MIN: usize = 1_000;
/// The share of what is known of an update's cost that is forgotten in each window without an index.
const FORGOTTEN: f64 = 1.0 / 1_024.0;
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
            CacheIndex::TupleSpace => "tuple-space",
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

/// An index that is asked, at the end of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// How often it was trained.
    pub(super) trainings: u64,
    /// The share of the entries that it covers, 0 to 1.
    pub(super) coverage: Option<f64>,
    /// What a lookup in it costs, in nanoseconds, if some were looked at since it was trained.
    pub(super) cost_ns: Option<f64>,
}

/// How entries are found now.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    Plain,
    Filter,
    /// An index is being made.
    Waiting,
    Index(Asked),
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
    /// What an update costs with an index, in nanoseconds, trainings included.
    update_ns: f64,
    life: Life,
    /// The figures of the last window, and how often something was decided.
    pub(super) said: CacheChoice,
}

/// What an index that is asked has come to.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    /// Gains less costs, in nanoseconds; never more than building it costs.
    balance_ns: f64,
    trainings: u64,
    updates: u64,
    /// The most updates of a window since the last training, which takes the remainder in.
    updates_most: u64,
    /// What updates cost: their own time, trainings, and visits to a remainder that has grown.
    cost_ns: f64,
    /// What lookups have gained.
    gain_ns: f64,
}

impl Life {
    /// A window in which the remainder cost so much.
    ///
    /// It counts as far as updates go on: one that a busy time has left behind costs lookups as
    /// long as it is there, but no update more than it did then.
    fn note_remainder(&mut self, beside_ns: f64, updates: u64) {
        self.updates_most = self.updates_most.max(updates);
        if updates > 0 {
            self.cost_ns += beside_ns * updates as f64 / self.updates_most as f64;
        }
    }
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
            update_ns: UPDATE_NS,
            ..Choice::default()
        }
    }

    /// What a lookup in an index costs that is about to be asked, in nanoseconds.
    pub(super) fn note_index(&mut self, cost_ns: f64) {
        self.index_probes = (cost_ns / PROBE_NS).max(INDEX_PROBES);
    }

    /// Whether an index of this coverage is better than none.
    pub(super) fn pays(&self, coverage: Option<f64>) -> bool {
        self.index_probes < self.said.probes_per_lookup && !covers_little(coverage)
    }

    /// An index is asked from now on.
    pub(super) fn begin_index(&mut self, entries: usize, trainings: u64) {
        // It was built because as much had been lost.
        self.life = Life {
            balance_ns: entries as f64 * BUILD_NS,
            trainings,
            ..Life::default()
        };
    }

    /// An index has been given up, or could not be built: the next must wait for longer.
    pub(super) fn note_given_up(&mut self) {
        let life = std::mem::take(&mut self.life);
        if life.updates > 0 {
            self.update_ns = (life.cost_ns / life.updates as f64).max(UPDATE_NS);
        }
        self.index_probes = INDEX_PROBES;
        // Else it was for the updates, and what they cost is known now.
        if life.gain_ns <= 0.0 {
            self.patience = (self.patience * 2.0).min(PATIENCE_MAX);
        }
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

    /// Counts lookups, and decides if a window is over.
    pub(super) fn note_lookups(
        &mut self,
        lookups: u64,
        entries: usize,
        way: impl FnOnce() -> Way,
    ) -> Decision {
        self.lookups += lookups;
        if self.lookups < WINDOW || self.plain_lookups == 0 {
            return Decision::Keep;
        }
        let (way, build_ns) = (way(), entries as f64 * BUILD_NS);
        if let Way::Index(Asked {
            cost_ns: Some(cost_ns),
            ..
        }) = way
        {
            self.note_index(cost_ns);
        }
        let probes = self.plain_probes as f64 / self.plain_lookups as f64;
        let lookups = self.lookups;
        let gain_ns = (probes - self.index_probes) * PROBE_NS * lookups as f64;
        let updates = self.updates;
        self.said.probes_per_lookup = probes;
        self.said.updates_per_lookup = updates as f64 / lookups as f64;
        (
            self.lookups,
            self.plain_lookups,
            self.plain_probes,
            self.updates,
        ) = (0, 0, 0, 0);
        match way {
            Way::Waiting => return Decision::Keep,
            Way::Index(asked) => {
                let beside_ns = (self.index_probes - INDEX_PROBES) * PROBE_NS * lookups as f64;
                self.life.note_remainder(beside_ns, updates);
                return self.account(asked, gain_ns, updates, build_ns);
            }
            Way::Plain | Way::Filter => {}
        }
        // What was lost when updates were many does not count against what comes after.
        let update_ns = updates as f64 * self.update_ns;
        self.lost_ns = (self.lost_ns + gain_ns - update_ns).max(0.0);
        self.update_ns -= (self.update_ns - UPDATE_NS) * FORGOTTEN;
        if entries >= ENTRIES_MIN && self.lost_ns >= build_ns * self.patience {
            self.lost_ns = 0.0;
            return Decision::BuildIndex;
        }
        match way {
            Way::Plain if probes > FILTER_ABOVE => Decision::MakeFilter,
            Way::Filter if probes < FILTER_BELOW => Decision::DropFilter,
            _ => Decision::Keep,
        }
    }

    /// A window of an index that is asked.
    fn account(&mut self, asked: Asked, gain_ns: f64, updates: u64, build_ns: f64) -> Decision {
        let life = &mut self.life;
        let trainings = asked.trainings.saturating_sub(life.trainings);
        let cost_ns = updates as f64 * UPDATE_NS + trainings as f64 * build_ns;
        if trainings > 0 {
            life.updates_most = 0;
        }
        life.trainings = asked.trainings;
        life.updates += updates;
        life.cost_ns += cost_ns;
        life.gain_ns += gain_ns;
        life.balance_ns = (life.balance_ns + gain_ns - cost_ns).min(build_ns);
        match life.balance_ns < 0.0 || covers_little(asked.coverage) {
            true => Decision::DropIndex,
            false => Decision::Keep,
        }
    }

    /// Says how entries are found from now on.
    pub(super) fn is_now(&mut self, index: CacheIndex) {
        self.said.changes += u64::from(self.said.index != index);
        self.said.index = index;
    }
}

fn covers_little(coverage: Option<f64>) -> bool {
    coverage.is_some_and(|share| share * 100.0 < COVERAGE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of lookups that search so many sub-tables, with so many updates.
    fn window(choice: &mut Choice, probes: u64, updates: u64, way: Way) -> Decision {
        window_of(choice, 10_000, probes, updates, way)
    }

    fn window_of(
        choice: &mut Choice,
        entries: usize,
        probes: u64,
        updates: u64,
        way: Way,
    ) -> Decision {
        (0..updates).for_each(|_| choice.note_update());
        choice.note_plain(WINDOW, WINDOW * probes);
        choice.note_lookups(WINDOW, entries, || way)
    }

    /// An index that was trained so often, of which a lookup takes so long.
    fn index(trainings: u64, cost_ns: f64) -> Way {
        Way::Index(Asked {
            trainings,
            coverage: Some(0.9),
            cost_ns: Some(cost_ns),
        })
    }

    /// Windows until there is a decision, `None` if there is none in a thousand.
    fn until(mut window: impl FnMut(u64) -> Decision) -> Option<(u64, Decision)> {
        let mut decisions = (1..=1_000).map(|number| (number, window(number)));
        decisions.find(|(_, decision)| *decision != Decision::Keep)
    }

    #[test]
    fn a_filter_comes_with_many_probes_and_goes_with_few() {
        let mut choice = Choice::new();
        let many = 16_384;
        assert_eq!(window(&mut choice, 4, many, Way::Plain), Decision::Keep);
        let made = window(&mut choice, 5, many, Way::Plain);
        assert_eq!(made, Decision::MakeFilter);
        assert_eq!(window(&mut choice, 3, many, Way::Filter), Decision::Keep);
        let dropped = window(&mut choice, 1, many, Way::Filter);
        assert_eq!(dropped, Decision::DropFilter);
        assert_eq!(choice.said.updates_per_lookup, 1.0);
    }

    #[test]
    fn an_index_is_built_when_lookups_have_lost_what_it_costs() {
        // 8 probes too many, of 30 ns, for 16,384 lookups: 3.9 ms a window; 40 ms for all entries.
        let mut choice = Choice::new();
        let built = until(|_| window(&mut choice, 10, 0, Way::Filter));
        assert_eq!(built, Some((11, Decision::BuildIndex)));
        // As many updates as eat the gain: never.
        assert_eq!(until(|_| window(&mut choice, 10, 1_400, Way::Filter)), None);
        // One sub-table is as good as it gets.
        assert_eq!(until(|_| window(&mut choice, 1, 0, Way::Plain)), None);
        // One that is under way is left alone.
        assert_eq!(until(|_| window(&mut choice, 90, 0, Way::Waiting)), None);
    }

    #[test]
    fn an_index_that_would_be_slower_is_not_asked_and_the_next_waits_longer() {
        let mut choice = Choice::new();
        let windows = |choice: &mut Choice| until(|_| window(choice, 10, 0, Way::Filter));
        assert_eq!(windows(&mut choice), Some((11, Decision::BuildIndex)));
        choice.note_index(290.0);
        assert!(choice.pays(Some(0.9)));
        assert!(!choice.pays(Some(0.2)));
        choice.note_index(310.0);
        assert!(!choice.pays(Some(0.9)), "ten probes take 300");
        choice.note_given_up();
        assert_eq!(windows(&mut choice), Some((21, Decision::BuildIndex)));
        choice.note_given_up();
        assert_eq!(windows(&mut choice), Some((41, Decision::BuildIndex)));
    }

    #[test]
    fn an_index_goes_when_it_has_lost_what_it_costs() {
        let mut choice = Choice::new();
        choice.is_now(CacheIndex::Learned);
        choice.begin_index(10_000, 1);
        let mut asked = |probes, updates, way| until(|_| window(&mut choice, probes, updates, way));
        assert_eq!(asked(10, 1_000, index(1, 60.0)), None, "3 ms of 3.9");
        // 4.2 ms: 0.27 more than it gains, of 40.
        let lost = asked(10, 1_400, index(1, 60.0));
        assert_eq!(lost, Some((150, Decision::DropIndex)));
        // A remainder that has grown so that a lookup takes ten probes more: 5 ms.
        choice.begin_index(10_000, 1);
        let mut asked = |probes, updates, way| until(|_| window(&mut choice, probes, updates, way));
        let lost = asked(10, 0, index(1, 600.0));
        assert_eq!(lost, Some((9, Decision::DropIndex)));
        // One that covers little goes at once.
        choice.begin_index(10_000, 1);
        let covers_little = Way::Index(Asked {
            trainings: 1,
            coverage: Some(0.2),
            cost_ns: None,
        });
        let share = window(&mut choice, 10, 0, covers_little);
        assert_eq!(share, Decision::DropIndex);
        assert_eq!(choice.said.changes, 1);
    }

    #[test]
    fn a_few_bad_windows_are_forgiven() {
        let mut choice = Choice::new();
        choice.begin_index(10_000, 1);
        let kept = until(|number| {
            let updates = if number % 16 == 0 { 8_192 } else { 100 };
            window(&mut choice, 20, updates, index(1, 60.0))
        });
        assert_eq!(kept, None);
        // And so are trainings that pay: 40 ms every 20 windows of 8.8.
        let kept = until(|number| window(&mut choice, 20, 0, index(1 + number / 20, 60.0)));
        assert_eq!(kept, None);
    }

    /// As where 200,000 of a million flows have room: eight entries come or go for ten lookups, so that
    /// the index is trained every six windows, and its remainder grows.
    #[test]
    fn a_cache_that_evicts_much_does_without_an_index_until_it_does_not() {
        const ENTRIES: usize = 200_000;
        const UPDATES: u64 = WINDOW * 8 / 10;
        let plain = |choice: &mut Choice, updates| {
            until(|_| window_of(choice, ENTRIES, 282, updates, Way::Filter))
        };
        // With the second training: twice 0.8 s, and windows gain 55 ms each.
        let is_given_up_in_time = |choice: &mut Choice| {
            choice.begin_index(ENTRIES, 1);
            let given_up = until(|number| {
                let way = index(1 + number / 6, 2_700.0);
                window_of(choice, ENTRIES, 282, UPDATES, way)
            });
            assert_eq!(given_up, Some((12, Decision::DropIndex)));
            choice.note_given_up();
        };
        let mut choice = Choice::new();
        // 138 ms a window less 39; building costs 0.8 s.
        let built = plain(&mut choice, UPDATES);
        assert_eq!(built, Some((9, Decision::BuildIndex)));
        is_given_up_in_time(&mut choice);
        // Each update has cost 17 us: that is tried again when most of it is forgotten.
        let again = plain(&mut choice, UPDATES).expect("it is tried again");
        assert!(again.0 > 200, "{again:?}");
        is_given_up_in_time(&mut choice);
        // Nothing is evicted any more: after what it costs.
        let built = plain(&mut choice, 0);
        assert_eq!(built, Some((6, Decision::BuildIndex)));
    }

    /// A remainder that a burst has left is there as long as nothing changes: that says nothing of
    /// what changes cost, however long it lasts.
    #[test]
    fn quiet_windows_are_no_cost_of_updates() {
        const ENTRIES: usize = 200_000;
        let built_again = |quiet: u64, trickle: u64| {
            let mut choice = Choice::new();
            choice.begin_index(ENTRIES, 1);
            let mut asked = |windows, updates| {
                for _ in 0..windows {
                    let kept = window_of(&mut choice, ENTRIES, 282, updates, index(1, 2_700.0));
                    assert_eq!(kept, Decision::Keep);
                }
            };
            asked(20, WINDOW / 10);
            asked(quiet, trickle);
            choice.note_given_up();
            until(|_| window_of(&mut choice, ENTRIES, 282, WINDOW * 4 / 10, Way::Filter))
        };
        let at_once = built_again(0, 0);
        assert_eq!(
            at_once.map(|(_, decision)| decision),
            Some(Decision::BuildIndex)
        );
        assert_eq!(built_again(1_000, 0), at_once);
        // An update in a window of quiet ones costs no more than one in the burst.
        assert_eq!(built_again(1_000, 1), at_once);
    }
}
