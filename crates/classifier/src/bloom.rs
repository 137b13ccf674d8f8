//! Two layers: a filter that selects the sub-tables in which a key can be, and a tuple space.
//!
//! A tuple space searches one sub-table after another. The first layer of Gobriel and Tai
//! (slides on a vector Bloom filter for Open vSwitch; `docs/papers.md`) selects among 64
//! sub-tables with one load. [`Bloom`] is such a classifier, with four first layers to
//! compare. [`VectorFilter`] is the filter alone, for the wildcard cache.
//!
//! ```text
//!   lookup(key, version):
//!       [flows]   for sub-table in which the key, unmasked, may have been found before:  probe it
//!                 rules are disjoint, and one has matched: that is the answer
//!       [common]  for sub-table that may have a rule for the bits all of its group look at, or
//!                 is in no group, unless the best rule so far beats all of it:           probe it
//!       [own]     ... for the bits it looks at itself:                                   probe it
//!       [none]    every sub-table, unless the best rule so far beats all of it:          probe it
//!       [flows]   found, but not where flows told: put (key, sub-table) into flows
//! ```
//!
//! | [`FirstLayer`] | layers | its knowledge |
//! | --- | --- | --- |
//! | `FullKeys` | flows, common | where this key was found before; where it can be |
//! | `FullKeysDisjoint` | flows, none | where this key was found before |
//! | `CommonBits` | common | where it can be, by one vector for a group of sub-tables |
//! | `OwnBits` | own | where it can be, by a filter for each sub-table |
//!
//! **When a hit counts as the answer.** A filter of flows also says "maybe" for keys that were
//! never added. The paper's setting is a wildcard cache, where any matching entry is right, so
//! a false positive is always a rule that does *not* match. Among rules with precedences a
//! false positive may match. Suppose key `a` was found in a low sub-table. Key `b` looks like
//! it in the filter, has a rule there too, and a better rule above. The filter cannot tell
//! that `b` was never added. Epochs of inserts, kept per filter, block or sub-table, do not
//! help, because no change happened. The epoch of an exact key would need the key itself, and
//! a table of exact keys is another thing: the microflow cache. So here the flows only suggest
//! an order of search, and a hit counts in two cases:
//!
//! 1. *The rules are disjoint*: no key matches two rules that exist at one version. The caller
//!    promises this with `FullKeysDisjoint`. Then the first rule that exists at the version is
//!    the only one.
//! 2. *Nothing better can match*: every sub-table that the best rule so far does not beat has
//!    been searched, or a filter *of the rules* says that it has no rule for the key. Such a
//!    filter (`common`, `own`) contains every rule's value, so its "no" is certain.
//!
//! **Versions.** Filters do not know versions. Filters of rules contain the rules of every
//! version that is not reclaimed. A rule is added when it is inserted, before its version is
//! published, and stays while it is dying. It is removed when it is freed, by `abort` or
//! `reclaim`, in the same call under `&mut`, while no lookup runs. So their "no" is true at
//! every version that may be looked up, whatever is prepared, published or aborted meanwhile.
//! Only the sub-table decides, by `born` and `died`, whether a rule exists at the requested
//! version. The filter of flows is never trusted. A key may have been added for a rule that by
//! now is aborted, dead, or replaced in another sub-table. Then it costs a probe that finds
//! nothing, or a rule that exists at this version.
//!
//! **Threads.** Lookups take `&self`, may run concurrently, and add keys: each bit by one
//! relaxed atomic OR. No ordering is needed. A reader that misses a bit, or sees a
//! half-emptied block, searches one sub-table too many or continues its search; cases 1 and 2
//! above do not read flows. Filters of rules change only under `&mut`. Concurrent threads may
//! lose some counts.
//!
//! **When the layer does not pay** it is skipped (`worth`): with few sub-tables, lookups that
//! end at the first one, more flows than the filter was made for, or masks without common
//! bits.
//!
//! 1. Every lookup gives the tuple space's answer, which is the oracle's. `lookup_examined`
//!    must show each "no" by bits, so it bypasses the filters.
//! 2. A filter of flows takes at most `size_bytes_max`, a filter of rules 5 to 65 bytes per
//!    rule.
//! 3. The filter of flows has a set for each sub-table number. When more are needed, or far
//!    fewer, it starts empty again.
//!
//! Cost of a hit: a hash and a load for the first layer (for each group, with `common`; for
//! each sub-table, with `own`). Then each candidate is probed, of which 0 to 0.2 are false. In
//! bursts, 20 sub-tables take about a quarter of a tuple space's time with `CommonBits`, and
//! one by one about half; see docs/results/bloom.md. With masks that have no bit in common the gain
//! is smaller, with more sub-tables it is larger.
//!
//! One by one, with more rules than fit the caches, the gain is smaller: filter, index and
//! rule are three memory waits in sequence, while the tuple space's waits overlap. `FullKeys`
//! is never faster than `CommonBits`, because the probes that confirm a hit are those that
//! find it. `OwnBits` gains nothing in bursts of 20 sub-tables. `CommonBits` makes loading two
//! to four times slower and takes 45 more bytes per rule. The paper's model is in [`model`].

mod burst;
mod counters;
mod filter;
mod flows;
mod groups;
pub mod model;
mod own;
mod single;
mod statistics;
mod worth;

use crate::hash::WordHash;
use crate::simd::Level;
use crate::tuple_space::Best;
use crate::{Classifier, Life, Pattern, Precedence, RuleId, TupleSpace, TupleSpaceConfig, Version};

use flows::Flows;
use groups::Groups;
use own::OwnBits;
use single::OfOne;
use statistics::{Counts, Tally};
use worth::{Cost, Worth};

pub use filter::{FilterStatistics, Put, VectorFilter, VectorFilterConfig};
pub use statistics::BloomStatistics;

/// The most keys of a burst that are sampled.
const KEYS_PER_LOOK: usize = 8;

/// The first layer of a [`Bloom`], which it asks before its sub-tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirstLayer {
    /// Where the whole key was found before; a hit counts once nothing better can match.
    FullKeys,
    /// As [`FirstLayer::FullKeys`], for disjoint rules: a hit counts at once.
    ///
    /// No two rules that exist at a version may match the same key. Otherwise the answer is
    /// some matching rule.
    FullKeysDisjoint,
    /// The common bits of sub-tables: one load for a group of up to 64.
    CommonBits,
    /// The bits of each sub-table, one by one.
    OwnBits,
}

/// The configuration of a [`Bloom`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BloomConfig {
    /// The properties of keys.
    pub keys: TupleSpaceConfig,
    /// The first layer.
    pub first_layer: FirstLayer,
    /// The number of flows that a filter of flows should hold.
    pub flows: usize,
    /// The most memory for filters, in bytes; at least 64 KiB.
    pub size_bytes_max: usize,
}

impl BloomConfig {
    /// The fastest first layer for overlapping rules, and room for 100,000 flows.
    pub fn new(keys: TupleSpaceConfig) -> BloomConfig {
        BloomConfig {
            keys,
            first_layer: FirstLayer::CommonBits,
            flows: 100_000,
            size_bytes_max: 256 << 20,
        }
    }
}

/// A tuple space behind a filter that selects the sub-tables to search.
///
/// ```
/// use thalweg_classifier::{
///     Bloom, BloomConfig, Classifier, Pattern, Precedence, RuleId, TupleSpaceConfig, Version,
/// };
///
/// let mut rules = Bloom::new(BloomConfig::new(TupleSpaceConfig::flat(1, 7)));
/// let v1 = Version::FIRST.next();
/// let ssh = Pattern { value: &[22], mask: &[0xffff] };
/// rules.insert(ssh, Precedence::new(10, 0), RuleId(7), v1);
/// assert_eq!(rules.lookup(&[0x9_0016], v1), Some(RuleId(7)));
/// ```
#[derive(Debug)]
pub struct Bloom {
    rules: TupleSpace,
    flows: Option<Flows>,
    common: Option<Groups>,
    own: Option<OwnBits>,
    worth: Worth,
    counts: Counts,
    level: Level,
    is_forced: bool,
}

impl Bloom {
    /// Creates an empty classifier.
    ///
    /// # Panics
    /// As [`TupleSpace::new`], or if `size_bytes_max` is less than 64 KiB.
    pub fn new(config: BloomConfig) -> Bloom {
        assert!(
            config.size_bytes_max >= 64 << 10,
            "less memory than filters need"
        );
        let hash = WordHash::new(config.keys.seed.wrapping_add(1));
        let is_disjoint = config.first_layer == FirstLayer::FullKeysDisjoint;
        let has_flows = is_disjoint || config.first_layer == FirstLayer::FullKeys;
        let common_bytes_max = match config.first_layer {
            FirstLayer::FullKeys => Some(config.size_bytes_max / 2),
            FirstLayer::CommonBits => Some(config.size_bytes_max),
            _ => None,
        };
        let flow_bytes_max = config.size_bytes_max / if is_disjoint { 1 } else { 2 };
        let seed = config.keys.seed.wrapping_add(2);
        let flows = has_flows.then(|| Flows::new(config.flows, flow_bytes_max, seed, is_disjoint));
        Bloom {
            worth: Worth::new(flows.as_ref().map_or(0, |flows| 2 * flows.capacity())),
            rules: TupleSpace::new(config.keys),
            common: common_bytes_max.map(|bytes| Groups::new(hash, bytes)),
            own: (config.first_layer == FirstLayer::OwnBits).then(OwnBits::default),
            flows,
            counts: Counts::default(),
            level: Level::best(),
            is_forced: false,
        }
    }

    /// Always asks the first layer, even if it does not pay; for tests and measurements.
    pub fn always(mut self) -> Bloom {
        self.is_forced = true;
        self
    }

    /// Uses the instructions of `level`, for comparisons.
    pub fn with_level(mut self, level: Level) -> Bloom {
        self.level = level;
        self
    }

    /// The tuple space behind the filter.
    pub fn rules(&self) -> &TupleSpace {
        &self.rules
    }

    /// The filter of flows, if there is one.
    pub fn flow_filter(&self) -> Option<&VectorFilter> {
        Some(self.flows.as_ref()?.filter())
    }

    /// The counts and the fill of the filters; reads all of them.
    pub fn statistics(&self) -> BloomStatistics {
        let mut filters = FilterStatistics::default();
        if let Some(flows) = &self.flows {
            filters = filters.and(flows.filter().statistics());
        }
        if let Some(common) = &self.common {
            filters = filters.and(common.statistics());
        }
        if let Some(own) = &self.own {
            filters = filters.and(own.statistics());
        }
        self.counts.read(filters, self.is_asked())
    }

    /// The number of filters that a lookup of this key asks, and of sub-tables that it
    /// searches.
    pub fn visited_by(&self, key: &[u64], version: Version) -> (usize, usize) {
        let mut tally = Tally::default();
        self.find(key, version, false, &mut tally);
        (
            tally.filters as usize,
            (tally.candidates + tally.visited) as usize,
        )
    }

    #[inline(always)]
    fn is_asked(&self) -> bool {
        self.rules.subtable_count() > 1 && (self.worth.is_asked() || self.is_forced)
    }

    /// Counts lookups, and samples some of them now and then.
    #[inline(always)]
    fn count(&self, keys: &[u64], lookups: usize, version: Version) {
        if self.worth.is_time(lookups as u32) {
            let cost = || self.cost(keys, lookups, version);
            self.worth.look(lookups, cost);
        }
    }

    /// The cost of the first of these keys, with the first layer and without.
    fn cost(&self, keys: &[u64], lookups: usize, version: Version) -> Cost {
        let looked_at = lookups.min(KEYS_PER_LOOK);
        let mut cost = Cost::default();
        for key in keys.chunks_exact(self.rules.words()).take(looked_at) {
            let mut tally = Tally::default();
            self.find(key, version, false, &mut tally);
            cost.layered += tally.cost(self.own.is_some(), lookups == 1);
            cost.plain += self.rules.visited_by(key, version) as f64;
        }
        cost
    }

    /// Looks a key up through the first layer; `learns` allows adding to the flows.
    #[inline(always)]
    fn find(
        &self,
        key: &[u64],
        version: Version,
        learns: bool,
        tally: &mut Tally,
    ) -> Option<RuleId> {
        self.level.run(OfOne {
            bloom: self,
            key,
            version,
            learns,
            tally,
        })
    }

    /// Records the sub-table in which a key was found.
    fn learn(&self, flows: &Flows, hash: u64, best: Best) {
        let number = best.and_then(|(_, id)| self.rules.subtable_of(id));
        if let Some(number) = number {
            flows.put(hash, number);
        }
    }

    /// Removes rules that are about to be freed from the filters.
    fn forget(&mut self, ids: &[RuleId]) {
        if self.common.is_none() && self.own.is_none() {
            return;
        }
        for &id in ids {
            let number = self.rules.subtable_of(id).expect("it is not freed yet");
            let (value, _) = self.rules.pattern(id).expect("it is not freed yet");
            if let Some(common) = &mut self.common {
                common.remove(number, &value);
            }
            if let Some(own) = &mut self.own {
                own.remove(&self.rules, number, &value);
            }
        }
    }

    /// Reads a rule: writes its value and mask; `None` if it has been reclaimed.
    pub(crate) fn read(&self, id: RuleId, value: &mut [u64], mask: &mut [u64]) -> Option<Life> {
        self.rules.read(id, value, mask)
    }

    /// Removes a rule, whatever its state, as if it had never existed.
    pub(crate) fn forget_rule(&mut self, id: RuleId) {
        if self.rules.subtable_of(id).is_some() {
            self.forget(&[id]);
            self.rules.forget(id);
            self.settle();
        }
    }

    /// Updates the filters after rules were freed.
    fn settle(&mut self) {
        if let Some(flows) = &mut self.flows {
            flows.make_room(self.rules.numbers_end());
        }
        if let Some(common) = &mut self.common {
            common.settle(&self.rules);
        }
        if let Some(own) = &mut self.own {
            own.settle(&self.rules);
        }
    }
}

impl Classifier for Bloom {
    fn insert(&mut self, pattern: Pattern<'_>, precedence: Precedence, id: RuleId, born: Version) {
        self.rules.insert(pattern, precedence, id, born);
        let number = self.rules.subtable_of(id).expect("just inserted");
        if let Some(flows) = &mut self.flows {
            flows.make_room(self.rules.numbers_end());
        }
        if let Some(common) = &mut self.common {
            common.insert(&self.rules, number, pattern.value, precedence);
        }
        if let Some(own) = &mut self.own {
            own.insert(&self.rules, number, pattern.value);
        }
    }

    fn remove(&mut self, id: RuleId, died: Version) {
        self.rules.remove(id, died);
    }

    fn lookup(&self, key: &[u64], version: Version) -> Option<RuleId> {
        self.count(key, 1, version);
        if !self.is_asked() {
            self.counts.bypass(1);
            return self.rules.lookup(key, version);
        }
        let mut tally = Tally::default();
        let found = self.find(key, version, true, &mut tally);
        self.counts.add(tally);
        found
    }

    fn lookup_examined(
        &self,
        key: &[u64],
        version: Version,
        examined: &mut [u64],
    ) -> Option<RuleId> {
        self.rules.lookup_examined(key, version, examined)
    }

    fn lookup_batch(&self, keys: &[u64], version: Version, answers: &mut [Option<RuleId>]) {
        self.lookup_bursts(keys, version, answers);
    }

    fn find(&self, pattern: Pattern<'_>, priority: u16) -> Option<RuleId> {
        Classifier::find(&self.rules, pattern, priority)
    }

    fn find_within(&self, pattern: Pattern<'_>, found: &mut Vec<RuleId>) {
        self.rules.find_within(pattern, found);
    }

    fn pattern(&self, id: RuleId) -> Option<(Vec<u64>, Vec<u64>)> {
        self.rules.pattern(id)
    }

    fn abort(&mut self, version: Version) {
        self.forget(&self.rules.freed_by_abort(version));
        self.rules.abort(version);
        self.settle();
    }

    fn reclaim(&mut self, oldest: Version) -> Vec<RuleId> {
        self.forget(&self.rules.freed_by_reclaim(oldest));
        let freed = self.rules.reclaim(oldest);
        self.settle();
        freed
    }

    fn len(&self, version: Version) -> usize {
        self.rules.len(version)
    }

    fn memory_bytes(&self) -> usize {
        self.rules.memory_bytes()
            + self
                .flows
                .as_ref()
                .map_or(0, |flows| flows.filter().size_bytes())
            + self.common.as_ref().map_or(0, Groups::memory_bytes)
            + self.own.as_ref().map_or(0, OwnBits::memory_bytes)
    }
}
