//! Two layers: a filter that says in which sub-tables a key can be, and a tuple space.
//!
//! A tuple space asks one sub-table after the other. The first layer of Gobriel and Tai
//! (slides on a vector Bloom filter for Open vSwitch; `docs/papers.md`) tells by one load which of
//! 64 sub-tables to ask. [`Bloom`] is a classifier of that kind, with four first
//! layers to compare; [`VectorFilter`] is the filter by itself, for the wildcard cache.
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
//! | [`FirstLayer`] | layers | what it knows |
//! | --- | --- | --- |
//! | `FullKeys` | flows, common | where this key was found before; where it can be |
//! | `FullKeysDisjoint` | flows, none | where this key was found before |
//! | `CommonBits` | common | where it can be, by one vector for a group of sub-tables |
//! | `OwnBits` | own | where it can be, by a filter for each sub-table |
//!
//! **Why a hit stands, and when it does not.** A filter of flows answers "maybe" for keys that were
//! never put in. The paper's setting is a wildcard cache, where whatever entry matches is right, so
//! that only a rule that does *not* match can be a false positive. Among rules with precedences a
//! false positive may match: key `a` was found in a low sub-table, key `b` looks like it, has a rule
//! there too, and a better one above. That `b` was never put in cannot be seen, so no record of what
//! changed since (epochs of inserts, kept with filter, block or sub-table) makes the hit safe: the
//! change that hurts is none. Nor would the epoch of an exact key help without the key itself, and
//! a table of exact keys is another thing, the microflow cache. So here the flows are a hint in
//! which order to ask, and a hit stands in two cases only:
//!
//! 1. *The rules are disjoint*: no key matches two rules that exist at one version. The caller says
//!    so by `FullKeysDisjoint`; then the first rule that exists at the version is the only one.
//! 2. *Nothing better can match*: sub-tables that the best rule so far does not beat have been
//!    asked, or a filter *of the rules* says that they have none for the key. Such a filter
//!    (`common`, `own`) has every rule at its value; its "no" is certain.
//!
//! **Versions.** No filter knows versions. Filters of rules have those of every version that is not
//! reclaimed: a rule is put in when it is inserted, before its version is published, and stays while
//! it is dying; it goes when it is freed, by `abort` or `reclaim`, in the same call, under `&mut`,
//! while nobody looks up. So at every version that may be looked up their "no" is true, whatever is
//! prepared, published or aborted meanwhile. Whether a rule exists at the version asked for is
//! decided by the sub-table itself, by `born` and `died`, always. The filter of flows is never
//! believed: a key put in at a version, for a rule that is aborted, dead, or replaced in another
//! sub-table by now, costs a probe that finds nothing, or finds what exists at this version.
//!
//! **Threads.** Lookups take `&self`, several at once, and put keys in: each bit by one relaxed
//! atomic OR. Two things order them: none needs to. A reader that misses a bit, or sees a block
//! half emptied, asks one sub-table too many or searches on; case 1 and 2 above do not read flows.
//! Filters of rules are changed under `&mut` only. Counts may lose some of what threads count at the
//! same time.
//!
//! **When it does not pay** it is not asked (`worth`): few sub-tables, lookups that end at the first
//! one, more flows than the filter was made for, masks without common bits.
//!
//! 1. Every lookup gives the answer of the tuple space, which is the oracle's; `lookup_examined`,
//!    which must show each "no" by bits, goes past the filters.
//! 2. A filter of flows takes at most `size_bytes_max`, one of rules 5 to 65 bytes a rule.
//! 3. Flows have a set for each number that a sub-table has; when more are needed, or far fewer, the
//!    filter begins anew.
//!
//! Costs of a hit: a hash and a load for the first layer (for each group, with `common`; for each
//! sub-table, with `own`), then a probe of each candidate, of which 0 to 0.2 are false. Nanoseconds a
//! lookup, one by one and in bursts of 32, of `benches/bloom.rs`: masks of one access list with a
//! priority each, flows drawn uniformly, at most 400,000 of them; medians of 7 rounds on an EPYC of
//! two shared processors; in parentheses the ratio to the tuple space of the same rounds.
//!
//! | sub-tables, rules in each | tuple space | `CommonBits` | `FullKeysDisjoint`, warm |
//! | --- | --- | --- | --- |
//! | 20, 1,000 | 113, 105 | 51 (0.45), 24 (0.23) | 59 (0.52), 30 (0.28) |
//! | 20, 10,000 | 259, 175 | 148 (0.57), 38 (0.22) | 187 (0.72), 44 (0.25) |
//! | 20, 100,000 | 527, 266 | 293 (0.56), 61 (0.23) | 377 (0.72), 64 (0.24) |
//! | 20 with no bit in common, 10,000 | 260, 173 | 193 (0.74), 58 (0.34) | 204 (0.78), 46 (0.27) |
//! | 150, 1,000 | 877, 653 | 209 (0.24), 63 (0.10) | 293 (0.33), 123 (0.19) |
//! | 20, 10,000; twice the flows it was made for | 264, 177 | | 289 (1.09), 145 (0.82) |
//! | 20, 10,000; ten times the flows | 251, 177 | | 294 (1.17), 171 (0.97) |
//! | one, 10,000 | 24, 13 | 28 (1.15), 13 (1.04) | 27 (1.11), 13 (1.00) |
//!
//! One by one, with more rules than the caches hold, what is saved is less: filter, index and rule
//! are three waits for memory in a row, and the tuple space's are side by side. `FullKeys` is never
//! faster than `CommonBits`, as the probes that prove a hit are those that find it; `OwnBits` saves
//! nothing in bursts of 20 sub-tables. Loading takes two to four times as long with `CommonBits`,
//! and 45 bytes more a rule. The paper's model is in [`model`].

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

/// Keys of a burst that are looked at closely.
const KEYS_PER_LOOK: usize = 8;

/// What a [`Bloom`] asks before its sub-tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirstLayer {
    /// Where the whole key was found before; a hit stands once nothing better can match.
    FullKeys,
    /// The same, for rules of which no two that exist at a version match the same key: a hit
    /// stands at once. Answers are those of some matching rule if that is not true.
    FullKeysDisjoint,
    /// The bits that sub-tables have in common, a group of up to 64 by one load.
    CommonBits,
    /// The bits of each sub-table, one by one.
    OwnBits,
}

/// What a [`Bloom`] is made for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BloomConfig {
    /// What there is to know of keys.
    pub keys: TupleSpaceConfig,
    /// What is asked first.
    pub first_layer: FirstLayer,
    /// Flows expected at a time, of which a filter of flows is to know.
    pub flows: usize,
    /// The most memory that filters take; at least 64 KiB is needed.
    pub size_bytes_max: usize,
}

impl BloomConfig {
    /// With the first layer that is fastest where rules may overlap, and room for 100,000 flows.
    pub fn new(keys: TupleSpaceConfig) -> BloomConfig {
        BloomConfig {
            keys,
            first_layer: FirstLayer::CommonBits,
            flows: 100_000,
            size_bytes_max: 256 << 20,
        }
    }
}

/// A tuple space behind a filter that says which sub-tables to search.
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
    /// An empty classifier.
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

    /// Asks the first layer always, whether it pays or not: for tests and measurements.
    pub fn always(mut self) -> Bloom {
        self.is_forced = true;
        self
    }

    /// Uses these instructions, for comparison with others.
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

    /// What was counted, and how full the filters are: reads all of them.
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

    /// How many filters a lookup of this key asks, and how many sub-tables it searches.
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

    /// Counts lookups, and looks at some of them closely now and then.
    #[inline(always)]
    fn count(&self, keys: &[u64], lookups: usize, version: Version) {
        if self.worth.is_time(lookups as u32) {
            let cost = || self.cost(keys, lookups, version);
            self.worth.look(lookups, cost);
        }
    }

    /// What the first of these keys cost, with the first layer and without.
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

    /// Looks a key up by way of the first layer; `learns` if flows may be put in.
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

    /// Remembers in which sub-table a key was found.
    fn learn(&self, flows: &Flows, hash: u64, best: Best) {
        let number = best.and_then(|(_, id)| self.rules.subtable_of(id));
        if let Some(number) = number {
            flows.put(hash, number);
        }
    }

    /// Takes rules that are about to be freed out of the filters.
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

    /// What a rule is: its value and mask are written out; `None` if it has been reclaimed.
    pub(crate) fn read(&self, id: RuleId, value: &mut [u64], mask: &mut [u64]) -> Option<Life> {
        self.rules.read(id, value, mask)
    }

    /// Takes a rule out, whatever its state, as if it had never been.
    pub(crate) fn forget_rule(&mut self, id: RuleId) {
        if self.rules.subtable_of(id).is_some() {
            self.forget(&[id]);
            self.rules.forget(id);
            self.settle();
        }
    }

    /// Brings the filters in line after rules were freed.
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
