//! A Bloom filter for each sub-table over the keys as its mask leaves them: the first variant of
//! the paper, for comparison.
//!
//! ```text
//!   filter of a sub-table:  words of 64 bits; a value has four bits of one of them
//!   for a key:  hash of key & mask; not all four bits in the word: no rule of the sub-table matches
//! ```
//!
//! A rule that matches is in its sub-table's filter, so the "no" is certain, as with `groups`. But
//! each sub-table needs a hash of its own, which is most of what its search costs; what is saved is
//! the look at the hash table, which is larger.
//!
//! 1. A filter has the bits of all rules of its sub-table, at whichever version; only the writer
//!    changes it.
//! 2. It is made for twice the rules there are, or more, and for at most eight times as many.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::tuple_space::{Subtable, TupleSpace};

use super::counters::Counters;
use super::filter::FilterStatistics;

/// Rules for each word of a filter that is full: two bytes each, a false "maybe" in a hundred.
const RULES_PER_WORD: usize = 4;

/// The filters of all sub-tables.
#[derive(Debug, Default)]
pub(super) struct OwnBits {
    /// By the number of the sub-table.
    filters: Vec<Option<OwnFilter>>,
}

/// The filter of one sub-table.
#[derive(Debug)]
struct OwnFilter {
    words: Box<[AtomicU64]>,
    counters: Counters,
    /// Removals that had to leave bits.
    stuck: usize,
}

impl OwnBits {
    /// Asks for the word of a hash to be brought into the cache.
    #[inline(always)]
    pub(super) fn prefetch(&self, number: u32, hash: u64) {
        if let Some(filter) = &self.filters[number as usize] {
            crate::simd::prefetch(&filter.words, filter.place(hash));
        }
    }

    /// Whether a sub-table may have a rule for a key of this hash under its mask.
    #[inline(always)]
    pub(super) fn may_have(&self, number: u32, hash: u64) -> bool {
        let filter = self.filters[number as usize].as_ref();
        filter.is_none_or(|filter| filter.may_have(hash))
    }

    /// A rule with this value has come into a sub-table, which may be new.
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

    /// A rule with this value is about to go from a sub-table.
    pub(super) fn remove(&mut self, rules: &TupleSpace, number: u32, value: &[u64]) {
        if let Some(filter) = &mut self.filters[number as usize] {
            filter.remove(rules.subtable(number).staged.hash(value));
        }
    }

    /// Rules have gone, and perhaps sub-tables.
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

    /// Of all filters together.
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
    /// The filter of a sub-table as it is now.
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

    /// The hash table's slot is of the lowest bits of the hash, the tag of the highest: the place
    /// here is of the upper half, the pattern of bits from the 8th on.
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

/// Four bits of 64.
#[inline(always)]
fn pattern(hash: u64) -> u64 {
    let bit = |at: u32| 1u64 << (hash >> at & 63);
    bit(8) | bit(14) | bit(20) | bit(26)
}
