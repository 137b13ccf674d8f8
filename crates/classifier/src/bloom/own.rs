//! One Bloom filter per sub-table over the masked keys: the paper's first variant, for
//! comparison.
//!
//! ```text
//!   filter of a sub-table:  words of 64 bits; a value has four bits of one of them
//!   for a key:  hash of key & mask; not all four bits in the word: no rule of the sub-table matches
//! ```
//!
//! A matching rule is in its sub-table's filter, so the "no" is certain, as with `groups`. But
//! each sub-table needs its own hash, which is most of the cost of its search. The filter only
//! saves the access to the hash table, which is larger.
//!
//! 1. A filter has the bits of all rules of its sub-table, at any version; only the writer
//!    changes it.
//! 2. It is made for at least twice and at most eight times the number of rules.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::tuple_space::{Subtable, TupleSpace};

use super::counters::Counters;
use super::filter::FilterStatistics;

/// Rules per word of a full filter: two bytes each, with one false "maybe" in a hundred.
const RULES_PER_WORD: usize = 4;

/// The filters of all sub-tables.
#[derive(Debug, Default)]
pub(super) struct OwnBits {
    /// Indexed by the number of the sub-table.
    filters: Vec<Option<OwnFilter>>,
}

/// The filter of one sub-table.
#[derive(Debug)]
struct OwnFilter {
    words: Box<[AtomicU64]>,
    counters: Counters,
    /// Removals that left bits behind.
    stuck: usize,
}

impl OwnBits {
    /// Prefetches the word of a hash.
    #[inline(always)]
    pub(super) fn prefetch(&self, number: u32, hash: u64) {
        if let Some(filter) = &self.filters[number as usize] {
            crate::simd::prefetch(&filter.words, filter.place(hash));
        }
    }

    /// Whether a sub-table may have a rule for a key with this hash under its mask.
    #[inline(always)]
    pub(super) fn may_have(&self, number: u32, hash: u64) -> bool {
        let filter = self.filters[number as usize].as_ref();
        filter.is_none_or(|filter| filter.may_have(hash))
    }

    /// Notes that a rule with this value was inserted into a sub-table, which may be new.
    pub(super) fn insert(&mut self, rules: &TupleSpace, number: u32, value: &[u64]) {
        if self.filters.len() < rules.numbers_end() {
            self.filters.resize_with(rules.numbers_end(), || None);
        }
        let subtable = rules.subtable(number);
        match &self.filters[number as usize] {
            Some(filter) if subtable.len() <= filter.words.len() * RULES_PER_WORD => {
                filter.put(subtable.staged.hash(value));
            }
            _ => self.filters[number as usize] = Some(OwnFilter::new(subtable)),
        }
    }

    /// Notes that a rule with this value is about to leave a sub-table.
    pub(super) fn remove(&mut self, rules: &TupleSpace, number: u32, value: &[u64]) {
        if let Some(filter) = &mut self.filters[number as usize] {
            filter.remove(rules.subtable(number).staged.hash(value));
        }
    }

    /// Notes that rules, and perhaps sub-tables, are gone.
    pub(super) fn settle(&mut self, rules: &TupleSpace) {
        self.filters.truncate(rules.numbers_end());
        self.filters.shrink_to_fit();
        for (number, slot) in self.filters.iter_mut().enumerate() {
            let subtable = rules
                .has_subtable(number as u32)
                .then(|| rules.subtable(number as u32));
            let Some(subtable) = subtable else {
                *slot = None;
                continue;
            };
            let is_wide = |filter: &mut OwnFilter| {
                let room = filter.words.len() * RULES_PER_WORD;
                subtable.len() * 8 + 16 < room || filter.stuck > room / 8 + 16
            };
            if slot.as_mut().is_some_and(is_wide) {
                *slot = Some(OwnFilter::new(subtable));
            }
        }
    }

    /// The statistics of all filters together.
    pub(super) fn statistics(&self) -> FilterStatistics {
        let filters = self.filters.iter().flatten().map(OwnFilter::statistics);
        filters.fold(FilterStatistics::default(), FilterStatistics::and)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let filters = self.filters.iter().flatten().map(OwnFilter::size_bytes);
        filters.sum::<usize>() + self.filters.capacity() * size_of::<Option<OwnFilter>>()
    }
}

impl OwnFilter {
    /// Creates the filter of a sub-table's current rules.
    fn new(subtable: &Subtable) -> OwnFilter {
        let words = (2 * subtable.len()).div_ceil(RULES_PER_WORD).max(1);
        let filter = OwnFilter {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            counters: Counters::new(words),
            stuck: 0,
        };
        for record in 0..subtable.len() {
            let value = subtable.value(record as u32);
            filter.put(subtable.staged.hash_value(value.iter().copied()));
        }
        filter
    }

    #[inline(always)]
    fn may_have(&self, hash: u64) -> bool {
        let bits = pattern(hash);
        self.words[self.place(hash)].load(Relaxed) & bits == bits
    }

    fn put(&self, hash: u64) {
        let place = self.place(hash);
        self.counters.add(place, pattern(hash));
        self.words[place].fetch_or(pattern(hash), Relaxed);
    }

    fn remove(&mut self, hash: u64) {
        let place = self.place(hash);
        let removed = self.counters.remove(place, pattern(hash));
        *self.words[place].get_mut() &= !removed.free;
        self.stuck += usize::from(removed.stuck != 0);
    }

    /// The place uses the upper half of the hash, the pattern bits from the 8th on.
    ///
    /// The hash table's slot uses the lowest bits of the hash, and its tag the highest.
    #[inline(always)]
    fn place(&self, hash: u64) -> usize {
        (((hash >> 32) * self.words.len() as u64) >> 32) as usize
    }

    fn size_bytes(&self) -> usize {
        size_of_val(&*self.words) * 5
    }

    fn statistics(&self) -> FilterStatistics {
        let set = self
            .words
            .iter()
            .map(|word| word.load(Relaxed).count_ones());
        FilterStatistics {
            overflowed_counters: self.counters.overflowed(),
            size_bytes: self.size_bytes(),
            bits_set: f64::from(set.sum::<u32>()) / (64 * self.words.len()) as f64,
            ..FilterStatistics::default()
        }
    }
}

/// Sets four of 64 bits.
#[inline(always)]
fn pattern(hash: u64) -> u64 {
    let bit = |at: u32| 1u64 << (hash >> at & 63);
    bit(8) | bit(14) | bit(20) | bit(26)
}
