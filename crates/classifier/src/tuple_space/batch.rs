//! Looks up a burst of keys, sub-table by sub-table, so that their waits for memory overlap.
//!
//! ```text
//!   for each sub-table, best first, while a key is open (its best so far does not beat it):
//!       hash each open key, and ask for its slot of the index
//!       find each open key's candidate, and ask for its record
//!       compare each candidate
//! ```
//!
//! A sub-table's masks and sizes stay in registers for the whole burst, and its misses end in
//! the second pass. The bench has a row for the gain over one key at a time.

use crate::simd::{Simd, Work};
use crate::value_hash::ShortValue;
use crate::{RuleId, Version};

use super::{Best, Subtable, TupleSpace, improve, is_settled};

/// The most keys in flight at once.
pub(crate) const BURST: usize = 32;

/// A burst lookup, compiled for each set of instructions.
struct OfBurst<'a> {
    rules: &'a TupleSpace,
    keys: &'a [u64],
    version: Version,
    open: &'a mut [u8],
    best: &'a mut [Best; BURST],
}

impl Work for OfBurst<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.rules
            .search_burst(simd, self.keys, self.version, self.open, self.best);
    }
}

/// The open keys under a sub-table's mask, and those for which it may have rules.
pub(crate) struct Masked {
    values: [ShortValue; BURST],
    hashes: [u64; BURST],
    hits: [Hit; BURST],
}

/// The keys of a burst, and the places of the open ones.
#[derive(Clone, Copy)]
pub(crate) struct OfOpen<'a> {
    pub(crate) keys: &'a [u64],
    pub(crate) open: &'a [u8],
}

/// An open key for which a sub-table may have a rule.
#[derive(Clone, Copy, Default)]
struct Hit {
    /// Its index among the open keys.
    open: u8,
    candidate: u32,
}

impl TupleSpace {
    /// Looks up at most [`BURST`] keys.
    pub(crate) fn lookup_burst(
        &self,
        keys: &[u64],
        version: Version,
        answers: &mut [Option<RuleId>],
    ) {
        crate::simd::prefetch_words(keys);
        let mut best: [Best; BURST] = [None; BURST];
        let mut open: [u8; BURST] = std::array::from_fn(|place| place as u8);
        self.level.run(OfBurst {
            rules: self,
            keys,
            version,
            open: &mut open[..answers.len()],
            best: &mut best,
        });
        for (answer, best) in answers.iter_mut().zip(best) {
            *answer = best.map(|(_, id)| id);
        }
    }

    /// Improves the best rules of the keys at the places `open`.
    #[inline(always)]
    pub(crate) fn search_burst<S: Simd>(
        &self,
        simd: S,
        keys: &[u64],
        version: Version,
        open: &mut [u8],
        best: &mut [Best; BURST],
    ) {
        let mut open_count = open.len();
        let mut masked = Masked::new();
        for ranked in &self.order {
            let mut still_open = 0;
            for place in 0..open_count {
                let key = open[place];
                open[still_open] = key;
                still_open += usize::from(!is_settled(best[usize::from(key)], ranked.highest));
            }
            open_count = still_open;
            if open_count == 0 {
                break;
            }
            let keys = OfOpen {
                keys,
                open: &open[..open_count],
            };
            self.search_one(simd, ranked.subtable, keys, version, &mut masked, best);
        }
    }

    /// As [`TupleSpace::search_burst`], in one sub-table.
    #[inline(always)]
    pub(crate) fn search_one<S: Simd>(
        &self,
        simd: S,
        number: u32,
        keys: OfOpen<'_>,
        version: Version,
        masked: &mut Masked,
        best: &mut [Best; BURST],
    ) {
        let words = self.shape.words();
        let key_of = |place: u8| &keys.keys[usize::from(place) * words..][..words];
        let (subtable, open) = (self.subtable(number), keys.open);
        masked.fill(simd, subtable, open.iter().map(|&place| key_of(place)));
        let hit_count = masked.find(simd, subtable, open.len());
        for &Hit {
            open: at,
            candidate,
        } in &masked.hits[..hit_count]
        {
            let (at, place) = (usize::from(at), open[usize::from(at)]);
            let masked = (&masked.values[at], masked.hashes[at]);
            let found = subtable.find_from(candidate, masked, || key_of(place), version);
            improve(&mut best[usize::from(place)], found);
        }
    }
}

impl Masked {
    #[inline(always)]
    pub(crate) fn new() -> Masked {
        Masked {
            values: [ShortValue::default(); BURST],
            hashes: [0; BURST],
            hits: [Hit::default(); BURST],
        }
    }

    /// Masks and hashes the open keys, and prefetches their lines of the index.
    #[inline(always)]
    fn fill<'k, S: Simd>(
        &mut self,
        simd: S,
        subtable: &Subtable,
        open: impl Iterator<Item = &'k [u64]>,
    ) {
        let to = open.zip(self.values.iter_mut().zip(&mut self.hashes));
        // Branches on the kind of mask only once.
        match subtable.staged.short() {
            Some(short) => {
                for (key, (value, hash)) in to {
                    (*value, *hash) = short.of_key(simd, key);
                    subtable.prefetch_index(*hash);
                }
            }
            None => {
                for (key, (_, hash)) in to {
                    *hash = subtable.staged.hash(key);
                    subtable.prefetch_index(*hash);
                }
            }
        }
    }

    /// Lists the keys among the first `count` that have a candidate in the index; returns
    /// their number.
    #[inline(always)]
    fn find<S: Simd>(&mut self, simd: S, subtable: &Subtable, count: usize) -> usize {
        let mut hit_count = 0;
        for (open, &hash) in (0..).zip(&self.hashes[..count]) {
            if let Some(candidate) = subtable.candidate(simd, hash) {
                self.hits[hit_count] = Hit { open, candidate };
                hit_count += 1;
            }
        }
        hit_count
    }
}
