//! Searches of sub-tables that are under way together, for a first layer that says which to ask.
//!
//! ```text
//!   add:     the key as the sub-table's mask leaves it, its hash; ask for the line of the index
//!   finish:  for each: the record that the index names; ask for its line
//!            for each: compare, and keep the rule if it is the best of its key
//! ```
//!
//! What is learned of a search stays with it: what the mask leaves of the key is gathered once, and
//! the index is read once. Masks of few words, which is nearly all, are gathered without a branch, as
//! neighbours in the list are of other sub-tables, with other lengths.

use arrayvec::ArrayVec;

use crate::Version;
use crate::index::RECORDS_MAX;
use crate::simd::Simd;
use crate::value_hash::ShortValue;

use super::batch::BURST;
use super::{Best, Subtable, TupleSpace, improve};

/// Searches in flight at once.
const PROBES: usize = 48;

/// Searches that are on their way.
pub(crate) struct Probes<'a>(ArrayVec<Probe<'a>, PROBES>);

/// A key, a sub-table that may have a rule for it, and what is known of that.
#[repr(align(64))]
struct Probe<'a> {
    /// The key's compact value, if it is short.
    value: ShortValue,
    hash: u64,
    subtable: &'a Subtable,
    number: u32,
    /// The first record that may be the rule.
    candidate: u32,
    place: u8,
}

impl<'a> Probes<'a> {
    #[inline(always)]
    pub(crate) fn new() -> Probes<'a> {
        Probes(ArrayVec::new())
    }

    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.0.is_full()
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Puts a key and a sub-table on the list, and asks for where the search begins.
    ///
    /// # Panics
    /// If the list is full.
    #[inline(always)]
    pub(crate) fn add<S: Simd>(
        &mut self,
        simd: S,
        rules: &'a TupleSpace,
        place: u8,
        number: u32,
        key: &[u64],
    ) {
        let subtable = rules.subtable(number);
        let (value, hash) = subtable.staged.mask(simd, key);
        subtable.prefetch_index(hash);
        self.0.push(Probe {
            value,
            hash,
            subtable,
            number,
            candidate: 0,
            place,
        });
    }

    /// Does what is on the list; tells of each place and sub-table that had nothing, and says how
    /// many these were.
    #[inline(always)]
    pub(crate) fn finish<S: Simd>(
        &mut self,
        simd: S,
        rules: &TupleSpace,
        keys: &[u64],
        version: Version,
        best: &mut [Best; BURST],
        mut note_false: impl FnMut(usize, u32),
    ) -> u32 {
        // Which of them have a record, and which have none: sorted without a branch, as nobody can
        // guess it.
        let (mut hits, mut hit_count) = ([0_u8; PROBES], 0);
        let (mut misses, mut miss_count) = ([0_u8; PROBES], 0);
        for (number, probe) in self.0.iter_mut().enumerate() {
            probe.candidate = probe.subtable.likely(simd, probe.hash);
            let is_hit = (probe.candidate as usize) < RECORDS_MAX;
            (hits[hit_count], misses[miss_count]) = (number as u8, number as u8);
            hit_count += usize::from(is_hit);
            miss_count += usize::from(!is_hit);
        }
        let (words, mut falses) = (rules.words(), miss_count as u32);
        for &miss in &misses[..miss_count] {
            let probe = &self.0[usize::from(miss)];
            note_false(usize::from(probe.place), probe.number);
        }
        for &hit in &hits[..hit_count] {
            let probe = &self.0[usize::from(hit)];
            let key = &keys[usize::from(probe.place) * words..][..words];
            let masked = (&probe.value, probe.hash);
            match probe
                .subtable
                .find_from(probe.candidate, masked, key, version)
            {
                Some(rule) => improve(&mut best[usize::from(probe.place)], Some(rule)),
                None => {
                    falses += 1;
                    note_false(usize::from(probe.place), probe.number);
                }
            }
        }
        self.0.clear();
        falses
    }
}
