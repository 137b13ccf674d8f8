//! Looking up a burst of keys, sub-table by sub-table, so that their waits for memory overlap.
//!
//! ```text
//!   for each sub-table, best first, while a key is open (its best so far does not beat it):
//!       hash each open key, and ask for its slot of the index
//!       find each open key's candidate, and ask for its record
//!       compare each candidate
//! ```
//!
//! A sub-table's masks and sizes stay in registers for the whole burst, and its misses end in the
//! second pass. What it gains over one key after the other is a row of the bench.

use crate::simd::{Simd, Work};
use crate::value_hash::ShortValue;
use crate::{RuleId, Version};

use super::{Best, Subtable, TupleSpace, improve, is_settled};

/// Keys in flight at once.
pub(crate) const BURST: usize = 32;

/// A burst to be looked up with what instructions there are.
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

/// What a sub-table's mask leaves of the open keys, and which of them it may have rules for.
pub(crate) struct Masked {
    values: [ShortValue; BURST],
    hashes: [u64; BURST],
    hits: [Hit; BURST],
}

/// The keys of a burst, and the places of those that are open.
#[derive(Clone, Copy)]
pub(crate) struct OfOpen<'a> {
    pub(crate) keys: &'a [u64],
    pub(crate) open: &'a [u8],
}

/// An open key that a sub-table may have a rule for.
#[derive(Clone, Copy, Default)]
struct Hit {
    /// Its place among the open ones.
    open: u8,
    candidate: u32,
}

impl TupleSpace {
    /// Looks up [`BURST`] keys at most.
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

    /// Improves what has been found for the keys of the places `open`.
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

    /// The same in one sub-table.
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

    /// Masks and hashes the open keys, and asks for their lines of the index.
    #[inline(always)]
    fn fill<'k, S: Simd>(
        &mut self,
        simd: S,
        subtable: &Subtable,
        open: impl Iterator<Item = &'k [u64]>,
    ) {
        let to = open.zip(self.values.iter_mut().zip(&mut self.hashes));
        // Which kind it is is asked once.
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

    /// Lists those of the first `count` that the index has a candidate for; says how many.
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
