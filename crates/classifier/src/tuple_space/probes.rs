//! Searches several sub-tables together, for a first layer that selects them.
//!
//! ```text
//!   for each: the key as the sub-table's mask leaves it, its hash; ask for the line of the index
//!   for each: the record that the index names; ask for its line
//!   for each: compare, and keep the rule if it is the best of its key
//! ```
//!
//! The results of each step are kept: the masked key is gathered once, and the index is read
//! once. Short masks, which is nearly all, are gathered without a branch, because neighbours
//! in the list belong to other sub-tables with other lengths. Each of the three steps is its
//! own loop over plain arrays. This takes a third fewer instructions than one list of searches
//! with their state.

use crate::Version;
use crate::index::RULES_MAX;
use crate::simd::Simd;
use crate::value_hash::ShortValue;

use super::batch::BURST;
use super::{Best, TupleSpace, improve};

/// The most searches in flight at once: one for each key, and some more.
const PROBES: usize = 40;

/// A key of a burst, and a sub-table that may have a rule for it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wanted {
    pub(crate) place: u8,
    pub(crate) number: u32,
}

impl TupleSpace {
    /// Does all searches; passes each that found nothing to `note_false`, and returns their
    /// number.
    #[inline(always)]
    pub(crate) fn search_wanted<S: Simd>(
        &self,
        simd: S,
        wanted: &[Wanted],
        keys: &[u64],
        version: Version,
        best: &mut [Best; BURST],
        mut note_false: impl FnMut(Wanted),
    ) -> u32 {
        let mut falses = 0;
        for wanted in wanted.chunks(PROBES) {
            falses += self.search_some(simd, wanted, keys, version, best, &mut note_false);
        }
        falses
    }

    #[inline(always)]
    fn search_some<S: Simd>(
        &self,
        simd: S,
        wanted: &[Wanted],
        keys: &[u64],
        version: Version,
        best: &mut [Best; BURST],
        note_false: &mut impl FnMut(Wanted),
    ) -> u32 {
        let words = self.words();
        let key_of = |wanted: &Wanted| &keys[usize::from(wanted.place) * words..][..words];
        // The state of each search: the key's compact value, if it is short, its hash, and the
        // first candidate record.
        let mut subtables = [self.subtable(wanted[0].number); PROBES];
        let mut values = [ShortValue::default(); PROBES];
        let mut hashes = [0; PROBES];
        let mut candidates = [0; PROBES];
        let known = values.iter_mut().zip(&mut hashes).zip(&mut subtables);
        for (wanted, ((value, hash), known)) in wanted.iter().zip(known) {
            let subtable = self.subtable(wanted.number);
            (*value, *hash) = subtable.staged.mask(simd, key_of(wanted));
            subtable.prefetch_index(*hash);
            *known = subtable;
        }
        let known = subtables[..wanted.len()].iter().zip(&hashes);
        for ((subtable, &hash), candidate) in known.zip(&mut candidates) {
            *candidate = subtable.likely(simd, hash);
        }
        let mut falses = 0;
        let known = subtables.iter().zip(&hashes).zip(&values).zip(&candidates);
        for (wanted, (((subtable, &hash), value), &candidate)) in wanted.iter().zip(known) {
            let found = match (candidate as usize) < RULES_MAX {
                true => subtable.find_from(candidate, (value, hash), || key_of(wanted), version),
                false => None,
            };
            match found {
                Some(rule) => improve(&mut best[usize::from(wanted.place) % BURST], Some(rule)),
                None => {
                    falses += 1;
                    note_false(*wanted);
                }
            }
        }
        falses
    }
}
