//! Searches of sub-tables that are under way together, for a first layer that says which to ask.
//!
//! ```text
//!   add:     the key as the sub-table's mask leaves it, its hash; ask for the line of the index
//!   finish:  for each: the record that the index names; ask for its line
//!            for each: compare, and keep the rule if it is the best of its key
//! ```
//!
//! What is learned of a search stays with it: what the mask leaves of the key is gathered once, and
//! the index is read once. Masks of up to [`SHORT_WORDS`] words, which is nearly all, are gathered
//! without a branch, as neighbours in the list are of other sub-tables, with other lengths.

use crate::Version;
use crate::hash::WordHash;
use crate::masked_words::MaskedWords;

use super::batch::BURST;
use super::records::SHORT_WORDS;
use super::{Best, TupleSpace, improve};

/// Searches in flight at once.
const PROBES: usize = 48;
/// No record.
const NONE: u32 = u32::MAX;

/// Searches that are on their way.
pub(crate) struct Probes {
    list: [Probe; PROBES],
    count: usize,
}

/// A key, a sub-table that may have a rule for it, and what is known of that.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Probe {
    /// The key's compact value, if it is short.
    value: [u64; SHORT_WORDS],
    hash: u64,
    number: u32,
    /// The first record that may be the rule.
    candidate: u32,
    place: u8,
}

/// A mask of one to four words, padded with empty ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Short {
    masks: [u64; SHORT_WORDS],
    words: [u32; SHORT_WORDS],
    /// The last word that counts.
    last: u32,
}

impl Short {
    /// Of a mask that has so few words.
    pub(super) fn of(words: &MaskedWords) -> Option<Short> {
        let last = words
            .len()
            .checked_sub(1)
            .filter(|&last| last < SHORT_WORDS)?;
        let mut short = Short {
            masks: [0; SHORT_WORDS],
            words: [0; SHORT_WORDS],
            last: last as u32,
        };
        for (place, (word, mask)) in words.iter().enumerate() {
            (short.words[place], short.masks[place]) = (word as u32, mask);
        }
        Some(short)
    }

    /// Writes a key's compact value; its hash.
    #[inline(always)]
    pub(super) fn compact(
        &self,
        key: &[u64],
        hash: WordHash,
        value: &mut [u64; SHORT_WORDS],
    ) -> u64 {
        let mut state = hash.start();
        let mut last = state;
        for place in 0..SHORT_WORDS {
            let word = key[self.words[place] as usize] & self.masks[place];
            value[place] = word;
            state = hash.step(state, word);
            if place <= self.last as usize {
                last = state;
            }
        }
        last
    }
}

impl Probes {
    #[inline(always)]
    pub(crate) fn new() -> Probes {
        let none = Probe {
            value: [0; SHORT_WORDS],
            hash: 0,
            number: 0,
            candidate: NONE,
            place: 0,
        };
        Probes {
            list: [none; PROBES],
            count: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.count == PROBES
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Puts a key and a sub-table on the list, and asks for where the search begins.
    ///
    /// # Panics
    /// If the list is full.
    #[inline(always)]
    pub(crate) fn add(&mut self, rules: &TupleSpace, place: u8, number: u32, key: &[u64]) {
        let subtable = rules.subtable(number);
        // In its place at once: what is written word by word and then moved as one waits.
        let probe = &mut self.list[self.count];
        probe.hash = match &subtable.short {
            Some(short) => short.compact(key, rules.hash, &mut probe.value),
            None => subtable.staged.hash(key),
        };
        subtable.prefetch_index(probe.hash);
        (probe.number, probe.place) = (number, place);
        self.count += 1;
    }

    /// Does what is on the list; tells of each place and sub-table that had nothing, and says how
    /// many these were.
    #[inline(always)]
    pub(crate) fn finish(
        &mut self,
        rules: &TupleSpace,
        keys: &[u64],
        version: Version,
        best: &mut [Best; BURST],
        mut note_false: impl FnMut(usize, u32),
    ) -> u32 {
        let mut falses = 0;
        let list = &mut self.list[..std::mem::take(&mut self.count)];
        for probe in &mut *list {
            let subtable = rules.subtable(probe.number);
            probe.candidate = subtable.likely(probe.hash).unwrap_or(NONE);
        }
        for probe in &*list {
            let subtable = rules.subtable(probe.number);
            let found = match probe.candidate {
                NONE => None,
                candidate if subtable.short.is_some() => {
                    match subtable.is_value(candidate, &probe.value) {
                        true => subtable.first_at(candidate, version),
                        false => {
                            subtable.find_behind(probe.hash, key_of(rules, keys, probe), version)
                        }
                    }
                }
                candidate => {
                    let key = key_of(rules, keys, probe);
                    subtable.find_from(candidate, probe.hash, key, version)
                }
            };
            match found {
                Some(rule) => improve(&mut best[usize::from(probe.place)], Some(rule)),
                None => {
                    falses += 1;
                    note_false(usize::from(probe.place), probe.number);
                }
            }
        }
        falses
    }
}

fn key_of<'a>(rules: &TupleSpace, keys: &'a [u64], probe: &Probe) -> &'a [u64] {
    let words = rules.words();
    &keys[usize::from(probe.place) * words..][..words]
}
