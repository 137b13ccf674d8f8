//! Looks up a burst of keys, table by table, so that their waits for memory overlap.
//!
//! ```text
//!   for each table, best first, while a key is open (its best so far does not beat it):
//!       hash each open key, and ask for its slot of the index
//!       find each open key's candidate, and ask for its record
//!       search each candidate's bucket
//! ```
//!
//! A table's masks and sizes stay in registers for the whole burst, and its misses end in the
//! second pass. The bench has a row for the gain over one key at a time.

use crate::Version;
use crate::simd::{Simd, Work};

use super::{Best, MergedTuples};

/// The most keys in flight at once.
pub(crate) const BURST: usize = 32;

/// A burst lookup, compiled for each set of instructions.
struct OfBurst<'a> {
    rules: &'a MergedTuples,
    keys: &'a [u64],
    version: Version,
    best: &'a mut [Best],
}

impl Work for OfBurst<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.rules
            .improve_with(simd, self.keys, self.version, self.best);
    }
}

impl MergedTuples {
    /// Finds rules better than the best so far, for at most [`BURST`] keys.
    pub(crate) fn improve_burst(&self, keys: &[u64], version: Version, best: &mut [Best]) {
        self.level.run(OfBurst {
            rules: self,
            keys,
            version,
            best,
        });
    }

    #[inline(always)]
    fn improve_with<S: Simd>(&self, simd: S, keys: &[u64], version: Version, best: &mut [Best]) {
        let words = self.shape.words();
        let key_of = |place: u8| &keys[usize::from(place) * words..][..words];
        let mut open: [u8; BURST] = std::array::from_fn(|place| place as u8);
        let mut open_count = best.len();
        let mut hits = [(0u8, 0u64); BURST];
        let mut hashes = [0u64; BURST];
        for ranked in &self.order {
            let mut still_open = 0;
            for place in 0..open_count {
                let key = open[place];
                open[still_open] = key;
                still_open += usize::from(!best[usize::from(key)].is_above(ranked.highest));
            }
            open_count = still_open;
            if open_count == 0 {
                break;
            }
            let table = self.table(ranked.table);
            for (&key, hash) in open[..open_count].iter().zip(&mut hashes) {
                (_, *hash) = table.staged.mask(simd, key_of(key));
                table.prefetch_index(*hash);
            }
            let mut hit_count = 0;
            for (&key, &hash) in open[..open_count].iter().zip(&hashes) {
                hits[hit_count] = (key, hash);
                hit_count += usize::from(table.prefetch_rule(simd, hash));
            }
            for &(key, hash) in &hits[..hit_count] {
                let best = &mut best[usize::from(key)];
                table.search(hash, key_of(key), version, &self.masks, best);
            }
        }
    }
}
