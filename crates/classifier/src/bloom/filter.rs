//! The vector Bloom filter: one load tells in which of 64 sets a key may be.
//!
//! ```text
//!   block of a key:  512 bits = 8, 16, 32 or 64 fields, one for each set, 64 to 8 bits wide
//!   pattern of a key: k bits of a field, the same for every set
//!   put (key, set):  block[place of the key].field[set] |= pattern            (one atomic OR)
//!   candidates(key): the sets whose field has the whole pattern     (one load, one comparison)
//! ```
//!
//! All k hash functions of the paper stay within the block: place and pattern are parts of one
//! hash of the whole, unmasked key (Gobriel and Tai, slides on a vector Bloom filter for Open
//! vSwitch; `docs/papers.md`). More than 64 sets take one block for each 64, in consecutive
//! arrays: a load and a comparison each, with the same place and pattern.
//!
//! A filter's "no" is certain only if a single owner did all puts and removals (`counting`,
//! not `ages`, no second thread). In all other uses the filter gives hints.
//!
//! 1. A key that was put into a set, and neither removed nor aged out, is a candidate of it.
//! 2. With counters, a set without keys in a block has no bit there, except for stuck counters
//!    (`counters`).
//! 3. With aging, a block that is as full as 1.75 times its intended keys would make it is
//!    emptied before the next put. So dead keys are gone once as many live ones have come,
//!    block by block, without a clock or a sweep. A living key is put again when it is next
//!    missed. A set with most of the keys can fill its fields without filling blocks. So every
//!    64th reported false candidate empties its field, if the field is more than half full.
//!    Each false candidate thus costs the living less than one key.
//! 4. The filter never takes more than `size_bytes_max`. If that is too little for `keys`,
//!    there are fewer blocks, and they age sooner.
//! 5. Concurrent puts lose no bits, because each put is one OR of one word. A thread that
//!    empties the block meanwhile may lose them a key, or leave a counter above zero whose bit
//!    is clear. That gives "no" instead of "maybe", which aging filters may do.
//!
//! Costs: a hash of the key, and one cache line for each 64 sets. Filled as intended, with
//! keys spread over the sets, a lookup has 0.02 to 0.15 false candidates for each 64 sets
//! (`tests/bloom_filter.rs` prints them). Memory per key: 12.8 bytes with 33 to 64 sets, 4 to
//! 8 with 9 to 32, 1.6 with 8, 13 with one; five times as much with counters.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::simd::fields::{self, Block};
use crate::simd::{Level, Plain, Simd};
use crate::value_hash::KeyHash;

use super::counters::Counters;

/// The number of bits of a block.
const BLOCK_BITS: usize = 512;
const WORDS: usize = BLOCK_BITS / 64;
/// The most sets of one vector.
const SETS_PER_VECTOR: usize = 64;
/// The number of keys tested together.
const BURST: usize = 32;
/// A block is full with this many times its intended keys.
const FULL: f64 = 1.75;
/// The number of false candidates for each field that is emptied.
const FALSES_PER_FIELD: u64 = 64;

/// Every choice of three of eight bits, up to rotation.
///
/// Eight bits are too few to waste any on a pattern that draws the same bit twice.
const THREE_OF_EIGHT: [u8; 7] = [0x07, 0x0b, 0x13, 0x23, 0x43, 0x15, 0x25];

/// The configuration of a [`VectorFilter`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VectorFilterConfig {
    /// The number of sets, that is, sub-tables.
    pub sets: usize,
    /// The number of keys expected at a time, over all sets.
    pub keys: usize,
    /// The most memory in bytes, counters included.
    pub size_bytes_max: usize,
    /// Whether keys can be removed, which makes the filter five times as large.
    pub counting: bool,
    /// Whether full blocks are emptied.
    pub ages: bool,
    /// The seed of the hash function.
    pub seed: u64,
}

/// Tells in which of many sets a key may be.
///
/// ```
/// use thalweg_classifier::{VectorFilter, VectorFilterConfig};
///
/// let filter = VectorFilter::new(VectorFilterConfig {
///     sets: 20,
///     keys: 1_000,
///     size_bytes_max: 1 << 20,
///     counting: false,
///     ages: true,
///     seed: 7,
/// });
/// let hash = filter.hash(&[0x0a00_0001, 80]);
/// assert_eq!(filter.candidates(hash), 0);
/// filter.put(hash, 3);
/// assert_eq!(filter.candidates(hash), 1 << 3);
/// ```
#[derive(Debug)]
pub struct VectorFilter {
    hash: KeyHash,
    level: Level,
    width: Width,
    sets: usize,
    /// The number of blocks for each 64 sets.
    blocks_per_vector: usize,
    blocks: Box<[Block]>,
    counters: Option<Counters>,
    /// The number of set bits from which a block is emptied.
    full_bits: u32,
    ages: bool,
    puts: AtomicU64,
    emptied: AtomicU64,
    falses: AtomicU64,
}

/// The blocks and patterns of the keys of a burst.
pub(super) struct Tests {
    places: [u32; BURST],
    patterns: [u64; BURST],
    count: usize,
}

/// The width of fields in bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Width {
    Bits8,
    Bits16,
    Bits32,
    Bits64,
}

/// The work of a filter and its fill.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FilterStatistics {
    /// Keys put that were not present.
    pub puts: u64,
    /// Blocks emptied because they were full.
    pub emptied_blocks: u64,
    /// Counters that have stopped counting.
    pub overflowed_counters: u64,
    /// The memory in bytes, counters included.
    pub size_bytes: usize,
    /// The share of set bits among those of existing sets, 0 to 1.
    pub bits_set: f64,
}

impl FilterStatistics {
    /// Combines the statistics of two filters.
    pub(super) fn and(self, other: FilterStatistics) -> FilterStatistics {
        let size_bytes = self.size_bytes + other.size_bytes;
        let weighted = |one: FilterStatistics| one.bits_set * one.size_bytes as f64;
        FilterStatistics {
            puts: self.puts + other.puts,
            emptied_blocks: self.emptied_blocks + other.emptied_blocks,
            overflowed_counters: self.overflowed_counters + other.overflowed_counters,
            bits_set: (weighted(self) + weighted(other)) / size_bytes.max(1) as f64,
            size_bytes,
        }
    }
}

/// The result of putting a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// The key was present, or similar keys together covered its bits.
    Known,
    /// The key was added.
    Added,
    /// The key was added, and the other keys of its block were removed.
    Emptied,
}

impl Width {
    fn of_sets(sets: usize) -> Width {
        match sets {
            0..=8 => Width::Bits64,
            9..=16 => Width::Bits32,
            17..=32 => Width::Bits16,
            _ => Width::Bits8,
        }
    }

    fn bits(self) -> u32 {
        match self {
            Width::Bits8 => 8,
            Width::Bits16 => 16,
            Width::Bits32 => 32,
            Width::Bits64 => 64,
        }
    }

    /// The intended number of keys per block: at most one lookup in ten has a false candidate.
    fn keys_per_block(self, sets: usize) -> usize {
        match self {
            Width::Bits8 => 5,
            Width::Bits16 => sets / 2,
            Width::Bits32 => sets * 3 / 2,
            Width::Bits64 => sets * 5,
        }
    }

    /// The number of bits that a key sets in a field, if they are all different.
    fn pattern_bits(self) -> u32 {
        match self {
            Width::Bits8 => 3,
            Width::Bits16 => 4,
            Width::Bits32 | Width::Bits64 => 5,
        }
    }

    /// The patterns of many keys.
    #[inline(always)]
    fn patterns(self, hashes: &[u64; BURST], patterns: &mut [u64; BURST]) {
        for (pattern, &hash) in patterns.iter_mut().zip(hashes) {
            *pattern = self.pattern(hash);
        }
    }

    /// A key's pattern, repeated in every field of a word.
    #[inline(always)]
    fn pattern(self, hash: u64) -> u64 {
        let bit = |at: u32, width: u32| 1u64 << (hash >> at & ((1 << width) - 1));
        match self {
            Width::Bits8 => {
                let shape = THREE_OF_EIGHT[(((hash >> 3 & 0xff) * 7) >> 8) as usize];
                u64::from(shape.rotate_left(hash as u32 & 7)) * 0x0101_0101_0101_0101
            }
            Width::Bits16 => {
                (bit(0, 4) | bit(4, 4) | bit(8, 4) | bit(12, 4)) * 0x0001_0001_0001_0001
            }
            Width::Bits32 => {
                let low = bit(0, 5) | bit(5, 5) | bit(10, 5);
                (low | bit(15, 5) | bit(20, 5)) * 0x0000_0001_0000_0001
            }
            Width::Bits64 => bit(0, 6) | bit(6, 6) | bit(12, 6) | bit(18, 6) | bit(24, 6),
        }
    }
}

impl VectorFilter {
    /// Creates an empty filter.
    ///
    /// # Panics
    /// If there are no sets, or `size_bytes_max` is not enough for one block of each vector.
    pub fn new(config: VectorFilterConfig) -> VectorFilter {
        assert!(config.sets > 0, "a filter without sets");
        let width = Width::of_sets(config.sets);
        let vectors = config.sets.div_ceil(SETS_PER_VECTOR);
        let bytes_per_block = size_of::<Block>() * if config.counting { 5 } else { 1 };
        let affordable = config.size_bytes_max / (bytes_per_block * vectors);
        assert!(affordable > 0, "less memory than one block of a filter");
        let keys_per_block = width.keys_per_block(config.sets);
        let wanted = config.keys.div_ceil(keys_per_block * vectors).max(1);
        let blocks_per_vector = wanted.min(affordable).min(u32::MAX as usize);
        let blocks = (0..blocks_per_vector * vectors).map(|_| Block::default());
        let blocks: Box<[Block]> = blocks.collect();
        let (set_bits, key_bits) = (f64::from(width.bits()), f64::from(width.pattern_bits()));
        let block_bits = set_bits * config.sets.min(SETS_PER_VECTOR) as f64;
        let bits_put = FULL * keys_per_block as f64 * key_bits;
        let full_bits = block_bits * (1.0 - (-bits_put / block_bits).exp());
        VectorFilter {
            hash: KeyHash::new(config.seed),
            level: Level::best(),
            width,
            sets: config.sets,
            blocks_per_vector,
            counters: config.counting.then(|| Counters::new(blocks.len() * WORDS)),
            blocks,
            full_bits: full_bits as u32,
            ages: config.ages,
            puts: AtomicU64::new(0),
            emptied: AtomicU64::new(0),
            falses: AtomicU64::new(0),
        }
    }

    /// Uses the instructions of `level`, for comparisons.
    pub fn with_level(mut self, level: Level) -> VectorFilter {
        self.level = level;
        self
    }

    /// The number of sets.
    pub fn sets(&self) -> usize {
        self.sets
    }

    /// The number of vectors, each of 64 sets or fewer.
    pub fn vectors(&self) -> usize {
        self.blocks.len() / self.blocks_per_vector
    }

    /// The number of keys that its memory is made for; fewer than configured if memory is
    /// short.
    pub fn keys(&self) -> usize {
        self.blocks.len() * self.width.keys_per_block(self.sets)
    }

    /// The hash of a whole key.
    #[inline]
    pub fn hash(&self, key: &[u64]) -> u64 {
        self.hash.of_key(Plain, key)
    }

    /// As [`VectorFilter::hash`], with these instructions.
    #[inline(always)]
    pub(super) fn hash_with<S: Simd>(&self, simd: S, key: &[u64]) -> u64 {
        self.hash.of_key(simd, key)
    }

    /// Prefetches a key's block for the sets from `64 * vector` on.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64, vector: usize) {
        crate::simd::prefetch(&self.blocks, self.block_of(hash, vector));
    }

    /// The sets among the first 64 that the key may be in; bit `i` is set `i`.
    #[inline]
    pub fn candidates(&self, hash: u64) -> u64 {
        self.candidates_of(hash, 0)
    }

    /// The sets from `64 * vector` on, at most 64, that the key may be in.
    #[inline]
    pub fn candidates_of(&self, hash: u64, vector: usize) -> u64 {
        let mut found = [0];
        let place = self.block_of(hash, 0) as u32;
        self.find(&[place], &[self.width.pattern(hash)], vector, &mut found);
        found[0]
    }

    /// As [`VectorFilter::candidates_of`], with these instructions.
    #[inline(always)]
    pub(super) fn find_one<S: Simd>(&self, simd: S, hash: u64, vector: usize) -> u64 {
        let block = &self.blocks[self.block_of(hash, vector)];
        let pattern = self.width.pattern(hash);
        match self.width {
            Width::Bits8 => simd.fields::<8>(block, pattern),
            Width::Bits16 => simd.fields::<16>(block, pattern),
            Width::Bits32 => simd.fields::<32>(block, pattern),
            Width::Bits64 => simd.fields::<64>(block, pattern),
        }
    }

    /// As [`VectorFilter::candidates_of`], for many keys.
    ///
    /// # Panics
    /// If there is no such vector.
    #[inline]
    pub fn candidates_of_burst(&self, hashes: &[u64], vector: usize, found: &mut [u64]) {
        for (hashes, found) in hashes.chunks(BURST).zip(found.chunks_mut(BURST)) {
            let mut all = [0; BURST];
            all[..hashes.len()].copy_from_slice(hashes);
            let tests = self.tests(&all, hashes.len());
            let places = &tests.places[..hashes.len()];
            self.find(places, &tests.patterns, vector, found);
        }
    }

    /// The tests of the first `count` keys; prefetches their first blocks.
    #[inline(always)]
    pub(super) fn prepare(&self, hashes: &[u64; BURST], count: usize) -> Tests {
        let tests = self.tests(hashes, count);
        for &place in &tests.places[..count] {
            crate::simd::prefetch(&self.blocks, place as usize);
        }
        tests
    }

    /// As [`VectorFilter::prepare`], without prefetching.
    ///
    /// It computes all 32, so that one instruction does several.
    #[inline(always)]
    fn tests(&self, hashes: &[u64; BURST], count: usize) -> Tests {
        let mut tests = Tests {
            places: [0; BURST],
            patterns: [0; BURST],
            count,
        };
        for (place, &hash) in tests.places.iter_mut().zip(hashes) {
            *place = self.block_of(hash, 0) as u32;
        }
        let patterns = &mut tests.patterns;
        match self.width {
            Width::Bits8 => Width::Bits8.patterns(hashes, patterns),
            Width::Bits16 => Width::Bits16.patterns(hashes, patterns),
            Width::Bits32 => Width::Bits32.patterns(hashes, patterns),
            Width::Bits64 => Width::Bits64.patterns(hashes, patterns),
        }
        tests
    }

    /// Prefetches the blocks of another vector.
    #[inline(always)]
    pub(super) fn prefetch_all(&self, tests: &Tests, vector: usize) {
        for &place in &tests.places[..tests.count] {
            let place = vector * self.blocks_per_vector + place as usize;
            crate::simd::prefetch(&self.blocks, place);
        }
    }

    /// [`VectorFilter::candidates_of_burst`] for keys whose blocks were prefetched.
    #[inline(always)]
    pub(super) fn find_all<S: Simd>(
        &self,
        simd: S,
        tests: &Tests,
        vector: usize,
        found: &mut [u64; BURST],
    ) {
        match self.width {
            Width::Bits8 => self.find_fields::<8, S>(simd, tests, vector, found),
            Width::Bits16 => self.find_fields::<16, S>(simd, tests, vector, found),
            Width::Bits32 => self.find_fields::<32, S>(simd, tests, vector, found),
            Width::Bits64 => self.find_fields::<64, S>(simd, tests, vector, found),
        }
    }

    #[inline(always)]
    fn find_fields<const BITS: u32, S: Simd>(
        &self,
        simd: S,
        tests: &Tests,
        vector: usize,
        found: &mut [u64; BURST],
    ) {
        let blocks = self.blocks_of(vector);
        let tests = tests.places[..tests.count].iter().zip(&tests.patterns);
        for ((&place, &pattern), found) in tests.zip(found) {
            *found = simd.fields::<BITS>(&blocks[place as usize], pattern);
        }
    }

    /// Puts a key into a set.
    ///
    /// With counters, a key that is put twice must be removed twice.
    ///
    /// # Panics
    /// If there is no such set.
    pub fn put(&self, hash: u64, set: usize) -> Put {
        let (block, word, bits) = self.bits_of(hash, set);
        let words = &self.blocks[block].0;
        let is_known = words[word].load(Relaxed) & bits == bits;
        if is_known && self.counters.is_none() {
            return Put::Known;
        }
        let count = || words.iter().map(|word| word.load(Relaxed).count_ones());
        let is_full = self.ages && !is_known && count().sum::<u32>() >= self.full_bits;
        if is_full {
            self.empty_block(block);
        }
        if let Some(counters) = &self.counters {
            counters.add(block * WORDS + word, bits);
        }
        words[word].fetch_or(bits, Relaxed);
        if is_known {
            return Put::Known;
        }
        self.puts.fetch_add(1, Relaxed);
        if is_full { Put::Emptied } else { Put::Added }
    }

    /// Removes a key that was put into a set; returns whether all its bits could be counted
    /// down.
    ///
    /// # Panics
    /// If the filter has no counters, or there is no such set.
    pub fn remove(&mut self, hash: u64, set: usize) -> bool {
        let (block, word, bits) = self.bits_of(hash, set);
        let counters = self.counters.as_mut().expect("only with counters");
        let removed = counters.remove(block * WORDS + word, bits);
        let bits = self.blocks[block].0[word].get_mut();
        *bits &= !removed.free;
        removed.stuck == 0
    }

    /// Reports a false candidate, so that sets full of dead keys recover (invariant 3).
    ///
    /// # Panics
    /// If there is no such set.
    pub fn note_false(&self, hash: u64, set: usize) {
        let falses = self.falses.load(Relaxed) + 1;
        // Threads may lose a count: it sets a pace and need not be exact.
        self.falses.store(falses, Relaxed);
        if !self.ages || !falses.is_multiple_of(FALSES_PER_FIELD) {
            return;
        }
        let (block, word, field) = self.field_of(hash, set);
        let bits = self.blocks[block].0[word].load(Relaxed) & field;
        if bits.count_ones() * 2 > self.width.bits() {
            self.empty(block, word, field);
        }
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        (0..self.blocks.len()).for_each(|block| self.empty_block(block));
    }

    /// The filter's work and fill; reads the whole filter.
    pub fn statistics(&self) -> FilterStatistics {
        let words = self.blocks.iter().flat_map(|block| &block.0);
        let set: u64 = words
            .map(|word| u64::from(word.load(Relaxed).count_ones()))
            .sum();
        let bits = self.blocks_per_vector * self.sets * self.width.bits() as usize;
        FilterStatistics {
            puts: self.puts.load(Relaxed),
            emptied_blocks: self.emptied.load(Relaxed),
            overflowed_counters: self.counters.as_ref().map_or(0, Counters::overflowed),
            size_bytes: self.size_bytes(),
            bits_set: set as f64 / bits as f64,
        }
    }

    /// The memory in bytes, counters included.
    pub fn size_bytes(&self) -> usize {
        let counted = if self.counters.is_some() { 5 } else { 1 };
        size_of_val(&*self.blocks) * counted
    }

    /// The place comes from the upper half of the hash, since the pattern uses the lower half.
    #[inline(always)]
    fn block_of(&self, hash: u64, vector: usize) -> usize {
        let place = ((hash >> 32) * self.blocks_per_vector as u64) >> 32;
        vector * self.blocks_per_vector + place as usize
    }

    #[inline(always)]
    fn find(&self, places: &[u32], patterns: &[u64], vector: usize, found: &mut [u64]) {
        let blocks = self.blocks_of(vector);
        match self.width {
            Width::Bits8 => fields::find::<8>(self.level, blocks, places, patterns, found),
            Width::Bits16 => fields::find::<16>(self.level, blocks, places, patterns, found),
            Width::Bits32 => fields::find::<32>(self.level, blocks, places, patterns, found),
            Width::Bits64 => fields::find::<64>(self.level, blocks, places, patterns, found),
        }
    }

    /// The blocks of one vector.
    #[inline(always)]
    fn blocks_of(&self, vector: usize) -> &[Block] {
        &self.blocks[vector * self.blocks_per_vector..][..self.blocks_per_vector]
    }

    /// The block and word of a set's field for a key, and the bits of the field there.
    fn field_of(&self, hash: u64, set: usize) -> (usize, usize, u64) {
        assert!(set < self.sets, "no such set");
        let width = self.width.bits();
        let bit = (set % SETS_PER_VECTOR) as u32 * width;
        let field = u64::MAX >> (64 - width) << (bit % 64);
        let block = self.block_of(hash, set / SETS_PER_VECTOR);
        (block, (bit / 64) as usize, field)
    }

    /// As `field_of`, with only the key's bits of the field.
    fn bits_of(&self, hash: u64, set: usize) -> (usize, usize, u64) {
        let (block, word, field) = self.field_of(hash, set);
        (block, word, field & self.width.pattern(hash))
    }

    fn empty_block(&self, block: usize) {
        (0..WORDS).for_each(|word| self.empty(block, word, u64::MAX));
        self.emptied.fetch_add(1, Relaxed);
    }

    /// Clears bits of a word (invariants 3 and 5).
    fn empty(&self, block: usize, word: usize, bits: u64) {
        if let Some(counters) = &self.counters {
            counters.empty(block * WORDS + word, bits);
        }
        self.blocks[block].0[word].fetch_and(!bits, Relaxed);
    }
}
