//! A mask without its empty words: the words of a key that matter, and which of their bits.
//!
//! The rules under one mask, in a table or in a megaflow cache, need only those words of their
//! values that the mask touches. [`MaskedWords`] is the list of these words. A *compact value*
//! has one word for each, in the list's order:
//!
//! ```text
//!   mask     [0, ff00, 0, ffff_ffff]      words  1: ff00, 3: ffff_ffff
//!   key      [7, 1234, 9, 0a00_0001]      compact value  [1200, 0a00_0001]
//! ```
//!
//! 1. No masked word is empty, and no two are of the same word.
//! 2. `hash(key)` is the hash of `compact(key)`, which `is_match(key, value)` compares with
//!    `value`. Two keys with the same compact value give the same results for both.
//! 3. The order is the caller's, so that a range of the list is a stage of a staged lookup.
//!
//! Hash and comparison are compiled separately for each length up to `UNROLLED`, which covers
//! nearly every rule that people write. A loop of unknown length costs more than its work.

use std::ops::Range;

use crate::hash::WordHash;

/// The largest number of words for which there is code without a loop.
const UNROLLED: usize = 6;

/// The words that a mask touches, with their masks.
///
/// ```
/// use thalweg_classifier::{MaskedWords, hash::WordHash};
///
/// let words = MaskedWords::new(&[0, 0xff00, 0, 0xffff_ffff]);
/// let key = [7, 0x1234, 9, 0x0a00_0001];
/// let value: Vec<u64> = words.compact(&key).collect();
/// assert_eq!(value, [0x1200, 0x0a00_0001]);
/// assert!(words.is_match(&key, &value));
/// let hash = WordHash::new(0);
/// assert_eq!(words.hash(&key, hash), hash.hash_words(&value));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MaskedWords {
    words: Box<[MaskedWord]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct MaskedWord {
    mask: u64,
    word: usize,
}

impl MaskedWord {
    #[inline(always)]
    fn of(self, key: &[u64]) -> u64 {
        key[self.word] & self.mask
    }
}

impl MaskedWords {
    /// The words that `mask` touches, in key order.
    pub fn new(mask: &[u64]) -> MaskedWords {
        MaskedWords::with_order(mask, 0..mask.len())
    }

    /// The words that `mask` touches, in the given order.
    ///
    /// # Panics
    /// If `order` misses a word that the mask touches, or repeats one.
    pub fn with_order(mask: &[u64], order: impl IntoIterator<Item = usize>) -> MaskedWords {
        let touched = order.into_iter().filter(|&word| mask[word] != 0);
        let words = touched.map(|word| MaskedWord {
            mask: mask[word],
            word,
        });
        let words = MaskedWords {
            words: words.collect(),
        };
        assert!(words.is_mask(mask), "an order that is not one of the words");
        words
    }

    /// The number of words that matter.
    #[inline]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether the mask is empty, so that every key matches.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether this was made from `mask`.
    pub fn is_mask(&self, mask: &[u64]) -> bool {
        let touched = mask.iter().filter(|&&mask| mask != 0).count();
        touched == self.words.len() && self.words.iter().all(|word| mask[word.word] == word.mask)
    }

    /// Whether this mask has all bits of `mask`.
    pub fn covers(&self, mask: &[u64]) -> bool {
        let wanted = mask.iter().filter(|bits| **bits != 0).count();
        let found = self.iter().filter(|(word, _)| mask[*word] != 0).count();
        found == wanted && self.iter().all(|(word, own)| mask[word] & !own == 0)
    }

    /// The words' positions in a key, with their masks.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (usize, u64)> + '_ {
        self.words.iter().map(|word| (word.word, word.mask))
    }

    /// The compact value of a key.
    #[inline]
    pub fn compact<'a>(&'a self, key: &'a [u64]) -> impl ExactSizeIterator<Item = u64> + 'a {
        self.words.iter().map(|word| word.of(key))
    }

    /// Writes a compact value's words to their positions in a key.
    pub fn expand(&self, value: &[u64], key: &mut [u64]) {
        for (word, &value) in self.words.iter().zip(value) {
            key[word.word] = value;
        }
    }

    /// The hash of a key's compact value.
    #[inline]
    pub fn hash(&self, key: &[u64], hash: WordHash) -> u64 {
        let words = &*self.words;
        match words.len() {
            1 => hash_unrolled::<1>(words, key, hash),
            2 => hash_unrolled::<2>(words, key, hash),
            3 => hash_unrolled::<3>(words, key, hash),
            4 => hash_unrolled::<4>(words, key, hash),
            5 => hash_unrolled::<5>(words, key, hash),
            UNROLLED => hash_unrolled::<UNROLLED>(words, key, hash),
            count => self.hash_range(0..count, key, hash, hash.start()),
        }
    }

    /// The hashes of the keys at `places` of a burst, each of `width` words.
    ///
    /// It branches on the number of words once, so masks stay in registers for all keys.
    #[inline(always)]
    pub(crate) fn hash_each(
        &self,
        keys: &[u64],
        width: usize,
        places: &[u8],
        hash: WordHash,
        hashes: &mut [u64],
    ) {
        let words = &*self.words;
        let burst = places
            .iter()
            .map(|&place| &keys[usize::from(place) * width..][..width])
            .zip(hashes);
        match words.len() {
            1 => hash_each_unrolled::<1>(words, burst, hash),
            2 => hash_each_unrolled::<2>(words, burst, hash),
            3 => hash_each_unrolled::<3>(words, burst, hash),
            4 => hash_each_unrolled::<4>(words, burst, hash),
            _ => burst.for_each(|(key, put)| *put = self.hash(key, hash)),
        }
    }

    /// Continues a hash with the words of a range of the list.
    #[inline]
    pub fn hash_range(&self, range: Range<usize>, key: &[u64], hash: WordHash, state: u64) -> u64 {
        let words = self.words[range].iter();
        words.fold(state, |state, word| hash.step(state, word.of(key)))
    }

    /// Whether a key has this compact value.
    #[inline]
    pub fn is_match(&self, key: &[u64], value: &[u64]) -> bool {
        let words = &*self.words;
        match words.len() {
            1 => is_match_unrolled::<1>(words, key, value),
            2 => is_match_unrolled::<2>(words, key, value),
            3 => is_match_unrolled::<3>(words, key, value),
            4 => is_match_unrolled::<4>(words, key, value),
            5 => is_match_unrolled::<5>(words, key, value),
            UNROLLED => is_match_unrolled::<UNROLLED>(words, key, value),
            _ => self.compact(key).eq(value.iter().copied()),
        }
    }

    /// As [`MaskedWords::is_match`], for a value that may have more bits, or more words at the
    /// end.
    #[inline]
    pub(crate) fn agrees(&self, key: &[u64], value: &[u64]) -> bool {
        let mut words = self.words.iter().zip(value);
        words.all(|(word, value)| (key[word.word] ^ value) & word.mask == 0)
    }

    /// Adds the masks of a range of the list to a mask of the whole key.
    #[inline]
    pub fn add_to(&self, range: Range<usize>, mask: &mut [u64]) {
        for word in &self.words[range] {
            mask[word.word] |= word.mask;
        }
    }

    /// The heap memory of the list, in bytes.
    pub fn heap_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }
}

/// The first `N` words as an array of a length known to the compiler.
#[inline(always)]
fn array<T, const N: usize>(slice: &[T]) -> &[T; N] {
    slice.first_chunk().expect("the caller has counted")
}

#[inline(always)]
fn hash_unrolled<const N: usize>(words: &[MaskedWord], key: &[u64], hash: WordHash) -> u64 {
    let words: &[MaskedWord; N] = array(words);
    let mut state = hash.start();
    for word in words {
        state = hash.step(state, word.of(key));
    }
    state
}

#[inline(always)]
fn hash_each_unrolled<'a, const N: usize>(
    words: &[MaskedWord],
    burst: impl Iterator<Item = (&'a [u64], &'a mut u64)>,
    hash: WordHash,
) {
    let words: [MaskedWord; N] = *array(words);
    for (key, put) in burst {
        *put = hash_unrolled::<N>(&words, key, hash);
    }
}

#[inline(always)]
fn is_match_unrolled<const N: usize>(words: &[MaskedWord], key: &[u64], value: &[u64]) -> bool {
    let (words, value): (&[MaskedWord; N], &[u64; N]) = (array(words), array(value));
    let mut difference = 0;
    for (word, value) in words.iter().zip(value) {
        difference |= word.of(key) ^ value;
    }
    difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_hashes_and_matches_alike() {
        let hash = WordHash::new(3);
        for count in 0..=UNROLLED + 2 {
            let mask: Vec<u64> = (0..12).map(|i| u64::from(i < count) << i).collect();
            let words = MaskedWords::new(&mask);
            let key = [u64::MAX; 12];
            let mut value: Vec<u64> = words.compact(&key).collect();
            assert_eq!(words.hash(&key, hash), hash.hash_words(&value));
            assert!(words.is_match(&key, &value));
            if let Some(last) = value.last_mut() {
                *last = 0;
                assert!(!words.is_match(&key, &value));
            }
            let mut examined = vec![0; 12];
            words.add_to(0..words.len(), &mut examined);
            assert_eq!(examined, mask);
        }
    }

    #[test]
    #[should_panic(expected = "an order")]
    fn an_order_must_have_every_word() {
        MaskedWords::with_order(&[1, 1], [0]);
    }
}
