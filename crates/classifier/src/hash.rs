//! One seeded hash of 64-bit words, for the tables of this crate and the caches above it.
//!
//! ```text
//!   start, multiplier = two words spread from the seed, the multiplier odd
//!   step(state, word) = low half ^ high half of (state ^ word) * multiplier     (128-bit product)
//!                       ^ state, rotated by half its length
//!   hash(words)       = step(... step(step(start, word 0), word 1) ...)
//! ```
//!
//! This is the multiply-and-fold step of wyhash (Wang Yi, *wyhash*, 2019) without the rest of
//! that hash. Our inputs are whole words, their number is fixed by the table, and every prefix
//! needs its own hash, because a staged lookup asks after each stage. There are two departures
//! from wyhash. The multiplier also comes from the seed, so a sender who knows the code but
//! not the seed cannot compute colliding keys. And the state goes into the result a second
//! time. Otherwise a word equal to the state would make the product zero and erase all earlier
//! words: two sequences that each end in such a word would collide, with anything after it.
//!
//! 1. The same seed and words give the same hash, on every machine and in every run.
//! 2. After at least one step, both the low and the high bits depend on every bit of every
//!    word. A table may take its slot from the low bits and a tag from the high bits.
//! 3. No single word makes a step forget the state: for each word, the step maps different
//!    states to different results, except by chance.
//!
//! Cost: one multiplication per word, each waiting for the one before. Lookups that wait for
//! this, and need no hash of prefixes, multiply all words in parallel before the last step
//! (`value_hash`).

use std::hash::{BuildHasher, Hasher};

/// A seeded hash function of words.
///
/// ```
/// use thalweg_classifier::hash::WordHash;
///
/// let hash = WordHash::new(7);
/// let whole = hash.hash_words(&[1, 2]);
/// assert_eq!(whole, hash.step(hash.step(hash.start(), 1), 2));
/// assert_ne!(whole, WordHash::new(8).hash_words(&[1, 2]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WordHash {
    start: u64,
    multiplier: u64,
}

impl WordHash {
    /// The hash function of this seed.
    pub const fn new(seed: u64) -> WordHash {
        WordHash {
            start: spread(seed),
            // Odd, so the low half of the product keeps every difference of the input.
            multiplier: spread(seed.wrapping_add(GOLDEN)) | 1,
        }
    }

    /// The hash of no words.
    #[inline]
    pub const fn start(self) -> u64 {
        self.start
    }

    /// Adds one word to a hash.
    #[inline(always)]
    pub const fn step(self, state: u64, word: u64) -> u64 {
        let product = (state ^ word) as u128 * self.multiplier as u128;
        // Invariant 3.
        product as u64 ^ (product >> 64) as u64 ^ state.rotate_left(32)
    }

    /// The hash of a sequence of words.
    #[inline]
    pub fn hash_words<'a>(self, words: impl IntoIterator<Item = &'a u64>) -> u64 {
        let words = words.into_iter();
        words.fold(self.start, |state, &word| self.step(state, word))
    }
}

impl BuildHasher for WordHash {
    type Hasher = WordHasher;

    fn build_hasher(&self) -> WordHasher {
        WordHasher {
            hash: *self,
            state: self.start,
        }
    }
}

/// A hasher for the standard maps, made from a [`WordHash`].
#[derive(Clone, Debug)]
pub struct WordHasher {
    hash: WordHash,
    state: u64,
}

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    // The methods below do what `write` would do with the bytes, one word per number.
    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    #[inline]
    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.state = self.hash.step(self.state, word);
    }

    #[inline]
    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }
}

/// The hash of a sequence of words under a seed.
#[inline]
pub fn hash_words<'a>(seed: u64, words: impl IntoIterator<Item = &'a u64>) -> u64 {
    WordHash::new(seed).hash_words(words)
}

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's output function: every bit of the seed reaches every bit of the result.
///
/// Steele, Lea, Flood, *Fast splittable pseudorandom number generators*, OOPSLA 2014, figure
/// 17.
const fn spread(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(GOLDEN);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of different values that `part` takes over the hashes of structured words.
    fn distinct(part: impl Fn(u64) -> u64) -> usize {
        let hash = WordHash::new(1);
        let words = (0..1u64 << 12).flat_map(|low| [low, low << 16, low << 32, low << 52]);
        let parts = words.map(|word| part(hash.hash_words(&[word, 0])));
        parts.collect::<std::collections::HashSet<_>>().len()
    }

    #[test]
    fn low_and_high_bits_spread_structured_words() {
        // 16,381 different words fall into 65,536 places: a random function hits about 14,500.
        assert!(distinct(|hash| hash & 0xffff) > 14_000);
        assert!(distinct(|hash| hash >> 48) > 14_000);
    }

    #[test]
    fn a_number_is_hashed_as_its_bytes() {
        let of_bytes = |bytes: &[u8]| {
            let mut hasher = WordHash::new(3).build_hasher();
            hasher.write(bytes);
            hasher.finish()
        };
        let of_number = |write: fn(&mut WordHasher)| {
            let mut hasher = WordHash::new(3).build_hasher();
            write(&mut hasher);
            hasher.finish()
        };
        const WIDE: u128 = (u128::MAX / 3) << 7;
        assert_eq!(of_number(|hasher| hasher.write_u8(7)), of_bytes(&[7]));
        assert_eq!(
            of_number(|hasher| hasher.write_u16(0x102)),
            of_bytes(&[2, 1])
        );
        assert_eq!(
            of_number(|hasher| hasher.write_usize(9)),
            of_bytes(&9_u64.to_le_bytes())
        );
        assert_eq!(
            of_number(|hasher| hasher.write_u128(WIDE)),
            of_bytes(&WIDE.to_le_bytes())
        );
    }

    /// Invariant 3, for the words that a sender who knows the seed would choose.
    #[test]
    fn no_word_makes_the_state_forgotten() {
        let hash = WordHash::new(5);
        // The word equal to the state, and words that differ from it in one bit, so that the
        // product is as small as possible.
        let chosen =
            |state: u64| (0..65).map(move |bit| state ^ 1_u64.checked_shl(bit).unwrap_or(0));
        for differs in [
            |state: u64| state,
            |state: u64| state ^ 1,
            |_| 0,
            |_| u64::MAX,
        ] {
            let states: Vec<u64> = (0..4_096)
                .map(|word| hash.step(hash.start(), word))
                .collect();
            let after = states.iter().map(|&state| hash.step(state, differs(state)));
            let distinct: std::collections::HashSet<u64> = after.collect();
            assert_eq!(distinct.len(), states.len());
        }
        let start = hash.start();
        let after: std::collections::HashSet<u64> =
            chosen(start).map(|word| hash.step(start, word)).collect();
        assert_eq!(after.len(), 65);
    }

    /// Keys chosen to share one slot under a known seed are spread under any other seed.
    #[test]
    fn keys_chosen_for_one_seed_are_as_any_under_another() {
        const SLOT: u64 = 0xfff;
        let known = WordHash::new(0);
        let of_key = |hash: WordHash, word: u64| hash.hash_words(&[7, word]) & SLOT;
        let chosen: Vec<u64> = (0..4_000_000_u64)
            .filter(|word| of_key(known, *word) == 0)
            .collect();
        assert!(chosen.len() > 800);
        let most = |hash: WordHash, keys: &[u64]| {
            let mut slots = vec![0_usize; SLOT as usize + 1];
            keys.iter()
                .for_each(|word| slots[of_key(hash, *word) as usize] += 1);
            slots.into_iter().max()
        };
        assert_eq!(most(known, &chosen), Some(chosen.len()));
        for seed in 1..50 {
            // A thousand keys in 4,096 slots: more than eight in one slot has a probability of
            // 10^-7.
            assert!(most(WordHash::new(seed), &chosen) <= Some(8), "seed {seed}");
        }
    }

    #[test]
    fn the_hash_is_the_same_for_ever() {
        assert_eq!(hash_words(0, &[]), 0xe220_a839_7b1d_cdaf);
        assert_eq!(hash_words(0, &[1]), hash_words(0, &[1]));
        assert_ne!(hash_words(0, &[1, 0]), hash_words(0, &[1]));
    }
}
