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

use crate::{RuleId, Version};

use super::{Best, TupleSpace, improve, is_settled};

/// Keys in flight at once.
pub(crate) const BURST: usize = 32;

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
        self.search_burst(keys, version, &mut open[..answers.len()], &mut best);
        for (answer, best) in answers.iter_mut().zip(best) {
            *answer = best.map(|(_, id)| id);
        }
    }

    /// Improves what has been found for the keys of the places `open`.
    pub(crate) fn search_burst(
        &self,
        keys: &[u64],
        version: Version,
        open: &mut [u8],
        best: &mut [Best; BURST],
    ) {
        let words = self.shape.words();
        let key_of = |place: u8| &keys[usize::from(place) * words..][..words];
        let mut open_count = open.len();
        let mut hits = [(0u8, 0u32, 0u64); BURST];
        let mut hashes = [0u64; BURST];
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
            let subtable = self.subtable(ranked.subtable);
            let open = &open[..open_count];
            subtable.staged.hash_each(keys, words, open, &mut hashes);
            for &hash in &hashes[..open_count] {
                subtable.prefetch_index(hash);
            }
            let mut hit_count = 0;
            for (&key, &hash) in open.iter().zip(&hashes) {
                if let Some(candidate) = subtable.candidate(hash) {
                    hits[hit_count] = (key, candidate, hash);
                    hit_count += 1;
                }
            }
            for &(key, candidate, hash) in &hits[..hit_count] {
                let found = subtable.find_from(candidate, hash, key_of(key), version);
                improve(&mut best[usize::from(key)], found);
            }
        }
    }
}
