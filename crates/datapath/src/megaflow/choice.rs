//! Chooses how a wildcard cache finds its entries, by the counted cost of lookups.
//!
//! Searching sub-tables one after the other costs as many probes as come before the right one.
//! A filter costs a few probes whatever their number. A learned index costs about two, but it
//! must be built, and an entry that comes or goes costs a hundred times a probe. So, over
//! windows of lookups:
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
//! The cost of the index is counted in lookups, and so includes a remainder that has grown. As
//! with renting or buying skis: the loss before the index is built, or before it is given up,
//! is at most its own cost and one training. The known cost of updates, with trainings and
//! remainder, is forgotten slowly ([`FORGOTTEN`]): a cache that evicts as much as before stays
//! without an index. After an index whose lookups cost more than they saved, the next is built
//! only after twice the earlier loss. Entries with a thousand masks that are no prefixes do
//! not suit a learned index: with 100,000 entries of an OF-DPA-like pipeline and 1,400 masks,
//! packets took about eight times as long with one.

/// Lookups in a window.
const WINDOW: u64 = 16_384;
/// One burst in this many bypasses filter and index, to measure the cost without them.
const SAMPLE: u32 = 64;
/// Probes above which a filter is made, and below which it is given up.
const FILTER_ABOVE: f64 = 4.0;
const FILTER_BELOW: f64 = 2.0;
/// Usual cost of an index lookup, in probes (see the table in `learned`).
const INDEX_PROBES: f64 = 2.0;
/// Nanoseconds of a probe; of building or training the index, per entry; of adding or removing
/// an entry.
const PROBE_NS: f64 = 30.0;
const BUILD_NS: f64 = 4_000.0;
const UPDATE_NS: f64 = 3_000.0;
/// With fewer entries there is no index.
const ENTRIES_MIN: usize = 1_000;
/// The share of the known update cost that is forgotten in each window without an index.
const FORGOTTEN: f64 = 1.0 / 1_024.0;
/// Longest wait for the next index, in multiples of its cost; it doubles with each that is
/// given up.
const PATIENCE_MAX: f64 = 1_024.0;
/// An index that covers a smaller share, in percent, is given up.
const COVERAGE_MIN: f64 = 25.0;

/// How entries are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheIndex {
    /// Sub-tables one after the other.
    #[default]
    TupleSpace,
    /// The same, behind a filter.
    Bloom,
    /// A learned index.
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

/// How a wildcard cache finds its entries, and the figures behind that.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CacheChoice {
    /// Whether the choice follows the cost of lookups.
    pub is_measured: bool,
    /// The current method.
    pub index: CacheIndex,
    /// Sub-tables that a lookup searches without filter and index, in the last window.
    pub probes_per_lookup: f64,
    /// Entries added or removed per lookup, in the last window.
    pub updates_per_lookup: f64,
    /// The share of the entries that a learned index covers, 0 to 1; 0 without one.
    pub coverage: f64,
    /// How often the method changed.
    pub changes: u64,
}

/// What to do after a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Decision {
    Keep,
    MakeFilter,
    DropFilter,
    BuildIndex,
    DropIndex,
}

/// An index in use, at the end of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// How often it was trained.
    pub(super) trainings: u64,
    /// The share of the entries that it covers, 0 to 1.
    pub(super) coverage: Option<f64>,
    /// Cost of a lookup in nanoseconds, if some were measured since it was trained.
    pub(super) cost_ns: Option<f64>,
}

/// How entries are found now.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    Plain,
    Filter,
    /// An index is being built.
    Waiting,
    Index(Asked),
}

/// Counts and estimates behind the choice.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    lookups: u64,
    plain_lookups: u64,
    plain_probes: u64,
    updates: u64,
    bursts: u32,
    /// Nanoseconds that lookups have lost for lack of an index since the last decision. The
    /// updates that an index would have cost are subtracted.
    lost_ns: f64,
    /// Cost of an index lookup in probes, if that is more than usual.
    index_probes: f64,
    /// How many times its cost must be lost before an index is built again.
    patience: f64,
    /// Cost of an update with an index, in nanoseconds, including trainings.
    update_ns: f64,
    life: Life,
    /// Figures of the last window, and the number of changes of method.
    pub(super) said: CacheChoice,
}

/// Gains and costs of the index in use.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    /// Gains minus costs, in nanoseconds; at most the cost of building it.
    balance_ns: f64,
    trainings: u64,
    updates: u64,
    /// Most updates in a window since the last training, which absorbs the remainder.
    updates_most: u64,
    /// Cost of updates: their own time, trainings, and visits to a remainder that has grown.
    cost_ns: f64,
    /// Gains of lookups.
    gain_ns: f64,
}

impl Life {
    /// Accounts for a window in which the remainder cost `beside_ns`.
    ///
    /// It counts only while updates go on. A remainder left by a busy time costs lookups as
    /// long as it is there, but an update costs no more than it did then.
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

    /// Sets the cost of a lookup, in nanoseconds, of an index about to be used.
    pub(super) fn note_index(&mut self, cost_ns: f64) {
        self.index_probes = (cost_ns / PROBE_NS).max(INDEX_PROBES);
    }

    /// Whether an index of this coverage is better than none.
    pub(super) fn pays(&self, coverage: Option<f64>) -> bool {
        self.index_probes < self.said.probes_per_lookup && !covers_little(coverage)
    }

    /// Starts the account of an index now in use.
    pub(super) fn begin_index(&mut self, entries: usize, trainings: u64) {
        // It was built because that much had been lost.
        self.life = Life {
            balance_ns: entries as f64 * BUILD_NS,
            trainings,
            ..Life::default()
        };
    }

    /// Records that an index was given up, or could not be built; the next must wait longer.
    pub(super) fn note_given_up(&mut self) {
        let life = std::mem::take(&mut self.life);
        if life.updates > 0 {
            self.update_ns = (life.cost_ns / life.updates as f64).max(UPDATE_NS);
        }
        self.index_probes = INDEX_PROBES;
        // Otherwise it was given up for its updates, whose cost is now known.
        if life.gain_ns <= 0.0 {
            self.patience = (self.patience * 2.0).min(PATIENCE_MAX);
        }
    }

    /// Whether this burst bypasses filter and index.
    pub(super) fn is_sample(&mut self) -> bool {
        self.bursts = self.bursts.wrapping_add(1);
        self.bursts.is_multiple_of(SAMPLE)
    }

    /// Counts an entry added or removed.
    pub(super) fn note_update(&mut self) {
        self.updates += 1;
    }

    /// Counts lookups without filter and index, and the sub-tables they searched.
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
        // Losses while updates were many do not count against later windows.
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

    /// Accounts for a window with an index in use.
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

    /// Records the current method.
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

    /// A window of lookups that search `probes` sub-tables each, with this many updates.
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

    /// An index with this many trainings and this cost of a lookup.
    fn index(trainings: u64, cost_ns: f64) -> Way {
        Way::Index(Asked {
            trainings,
            coverage: Some(0.9),
            cost_ns: Some(cost_ns),
        })
    }

    /// Windows until a decision; `None` if there is none in a thousand.
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
        // 8 probes too many, of 30 ns, for 16,384 lookups: 3.9 ms a window; 40 ms for all
        // entries.
        let mut choice = Choice::new();
        let built = until(|_| window(&mut choice, 10, 0, Way::Filter));
        assert_eq!(built, Some((11, Decision::BuildIndex)));
        // Enough updates to cancel the gain: never.
        assert_eq!(until(|_| window(&mut choice, 10, 1_400, Way::Filter)), None);
        // One sub-table cannot be improved on.
        assert_eq!(until(|_| window(&mut choice, 1, 0, Way::Plain)), None);
        // An index being built is left alone.
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
        // A remainder that has grown so that a lookup takes ten more probes: 5 ms.
        choice.begin_index(10_000, 1);
        let mut asked = |probes, updates, way| until(|_| window(&mut choice, probes, updates, way));
        let lost = asked(10, 0, index(1, 600.0));
        assert_eq!(lost, Some((9, Decision::DropIndex)));
        // An index that covers little is dropped at once.
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
        // Trainings that pay off are kept too: 40 ms every 20 windows of 8.8.
        let kept = until(|number| window(&mut choice, 20, 0, index(1 + number / 20, 60.0)));
        assert_eq!(kept, None);
    }

    /// Models 200,000 entries for a million flows: eight entries come or go for ten lookups,
    /// so the index is trained every six windows, and its remainder grows.
    #[test]
    fn a_cache_that_evicts_much_does_without_an_index_until_it_does_not() {
        const ENTRIES: usize = 200_000;
        const UPDATES: u64 = WINDOW * 8 / 10;
        let plain = |choice: &mut Choice, updates| {
            until(|_| window_of(choice, ENTRIES, 282, updates, Way::Filter))
        };
        // With the second training: twice 0.8 s, while windows gain 55 ms each.
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
        // Each update has cost 17 us; it is tried again when most of that is forgotten.
        let again = plain(&mut choice, UPDATES).expect("it is tried again");
        assert!(again.0 > 200, "{again:?}");
        is_given_up_in_time(&mut choice);
        // Nothing is evicted any more: the next index comes as soon as its cost is lost.
        let built = plain(&mut choice, 0);
        assert_eq!(built, Some((6, Decision::BuildIndex)));
    }

    /// A remainder left by a burst stays while nothing changes. However long that lasts, it
    /// says nothing about the cost of changes.
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
        // An update in a quiet window costs no more than one in the burst.
        assert_eq!(built_again(1_000, 1), at_once);
    }
}
