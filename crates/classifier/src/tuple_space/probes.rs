//! Searches of sub-tables that are under way together, for a first layer that says which to ask.
//!
//! ```text
//!   for each: the key as the sub-table's mask leaves it, its hash; ask for the line of the index
//!   for each: the record that the index names; ask for its line
//!   for each: compare, and keep the rule if it is the best of its key
//! ```
//!
//! What is learned of a search stays with it: what the mask leaves of the key is gathered once, and
//! the index is read once. Masks of few words, which is nearly all, are gathered without a branch, as
//! neighbours in the list are of other sub-tables, with other lengths. Each of the three is a loop
//! of its own over plain arrays, which is a third fewer instructions than a list of searches, each
//! with what is known of it.

use crate::Version;
use crate::index::RULES_MAX;
use crate::simd::Simd;
use crate::value_hash::ShortValue;

use super::batch::BURST;
use super::{Best, TupleSpace, improve};

/// Searches in flight at once: one of each key, and some more.
const PROBES: usize = 40;

/// A key of a burst, and a sub-table that may have a rule for it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wanted {
    pub(crate) place: u8,
    pub(crate) number: u32,
}

impl TupleSpace {
    /// Makes all these searches; tells of each that found nothing, and says how many these were.
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
        // What is known of each: the key's compact value, if it is short, its hash, and the first
        // record that may be the rule.
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
