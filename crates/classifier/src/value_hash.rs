//! The hash of a key under a mask, for the indexes of sub-tables and the filters of groups.
//!
//! Nearly all masks touch one to four words. For these there is neither a loop nor a branch:
//!
//! ```text
//!   value[i] = key[words[i]] & masks[i]            (0 where the mask has fewer words)
//!   sum      = (low 32 bits of value[0] + secret) * (high 32 bits of value[0] + secret) + ...
//!   hash     = one step of the hash of words, of the sum
//! ```
//!
//! The sum is NH (Black, Halevi, Krawczyk, Krovetz, Rogaway, *UMAC: fast and secure message
//! authentication*, CRYPTO 1999, section 4). The secrets come from the seed. Without them, no
//! sender can choose two values whose sums are equal with a probability above 2^-32. The four
//! products do not wait for each other, and are one instruction where the processor has it.
//! Longer values are hashed word by word ([`WordHash`]).
//!
//! 1. A key has one hash, by every method and with all instructions. It equals
//!    [`ValueHash::of_value`] of the key's compact value.

use thalweg_packet::MAX_WORDS;

use crate::hash::WordHash;
use crate::masked_words::MaskedWords;
use crate::simd::{Plain, SHORT_WORDS, Simd};

/// A compact value of few words, padded with zeros.
pub(crate) type ShortValue = [u64; SHORT_WORDS];

/// A hash function of values under one mask.
#[derive(Clone, Debug)]
pub(crate) enum ValueHash {
    /// For a mask of few words.
    Short(ShortMask),
    /// For a mask of no words or many.
    Long(MaskedWords, WordHash),
}

/// A mask of one to four words.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct ShortMask {
    words: [u64; SHORT_WORDS],
    masks: ShortValue,
    secrets: ShortValue,
    last: WordHash,
    /// The number of words in the mask.
    count: u32,
}

impl ValueHash {
    /// The hash of values under a mask; different `hash` give different functions.
    pub(crate) fn new(words: &MaskedWords, hash: WordHash) -> ValueHash {
        match words.len() {
            1..=SHORT_WORDS => ValueHash::Short(ShortMask::new(words, hash)),
            _ => ValueHash::Long(words.clone(), hash),
        }
    }

    /// The hash of a key.
    #[inline(always)]
    pub(crate) fn of_key(&self, key: &[u64]) -> u64 {
        match self {
            ValueHash::Short(short) => match short.count {
                1 => short.of_words::<1>(key),
                2 => short.of_words::<2>(key),
                3 => short.of_words::<3>(key),
                _ => short.of_words::<SHORT_WORDS>(key),
            },
            ValueHash::Long(words, hash) => words.hash(key, *hash),
        }
    }

    /// The hash of a compact value.
    #[inline(always)]
    pub(crate) fn of_value(&self, value: impl IntoIterator<Item = u64>) -> u64 {
        match self {
            ValueHash::Short(short) => {
                let mut padded = ShortValue::default();
                for (padded, word) in padded.iter_mut().zip(value) {
                    *padded = word;
                }
                short.of_value(&padded)
            }
            ValueHash::Long(_, hash) => {
                let words = value.into_iter();
                words.fold(hash.start(), |state, word| hash.step(state, word))
            }
        }
    }

    /// The hashes of the keys at `places` of a burst, each of `width` words.
    #[inline(always)]
    pub(crate) fn of_each<S: Simd>(
        &self,
        simd: S,
        keys: &[u64],
        width: usize,
        places: &[u8],
        hashes: &mut [u64],
    ) {
        let key_of = |place: u8| &keys[usize::from(place) * width..][..width];
        match self {
            ValueHash::Short(short) if places.len() * width == keys.len() => {
                for (key, hash) in keys.chunks_exact(width).zip(hashes) {
                    (_, *hash) = short.of_key(simd, key);
                }
            }
            ValueHash::Short(short) => {
                for (&place, hash) in places.iter().zip(hashes) {
                    (_, *hash) = short.of_key(simd, key_of(place));
                }
            }
            ValueHash::Long(words, hash) => words.hash_each(keys, width, places, *hash, hashes),
        }
    }

    /// The mask as a short mask, if it has few words.
    #[inline(always)]
    pub(crate) fn short(&self) -> Option<&ShortMask> {
        match self {
            ValueHash::Short(short) => Some(short),
            ValueHash::Long(..) => None,
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            ValueHash::Short(_) => 0,
            ValueHash::Long(words, _) => words.heap_bytes(),
        }
    }
}

impl ShortMask {
    fn new(words: &MaskedWords, hash: WordHash) -> ShortMask {
        let mut short = ShortMask {
            words: [0; SHORT_WORDS],
            masks: ShortValue::default(),
            secrets: std::array::from_fn(|place| hash.hash_words(&[place as u64])),
            last: hash,
            count: words.len() as u32,
        };
        for (place, (word, mask)) in words.iter().enumerate() {
            (short.words[place], short.masks[place]) = (word as u64, mask);
        }
        short
    }

    /// A key's compact value and its hash.
    #[inline(always)]
    pub(crate) fn of_key<S: Simd>(&self, simd: S, key: &[u64]) -> (ShortValue, u64) {
        let value = simd.masked(key, &self.words, &self.masks);
        (value, self.finish(simd.short_sum(&value, &self.secrets)))
    }

    #[inline(always)]
    fn of_words<const COUNT: usize>(&self, key: &[u64]) -> u64 {
        let mut value = ShortValue::default();
        for place in 0..COUNT {
            value[place] = key[self.words[place] as usize] & self.masks[place];
        }
        self.of_value(&value)
    }

    /// Whether a key has this compact value.
    #[inline(always)]
    pub(crate) fn is_match(&self, key: &[u64], value: &[u64]) -> bool {
        match self.count {
            1 => self.is_match_of::<1>(key, value),
            2 => self.is_match_of::<2>(key, value),
            3 => self.is_match_of::<3>(key, value),
            _ => self.is_match_of::<SHORT_WORDS>(key, value),
        }
    }

    #[inline(always)]
    fn is_match_of<const COUNT: usize>(&self, key: &[u64], value: &[u64]) -> bool {
        let mut difference = 0;
        for (place, value) in value[..COUNT].iter().enumerate() {
            difference |= key[self.words[place] as usize] & self.masks[place] ^ value;
        }
        difference == 0
    }

    #[inline(always)]
    fn of_value(&self, value: &ShortValue) -> u64 {
        self.finish(Plain.short_sum(value, &self.secrets))
    }

    #[inline(always)]
    fn finish(&self, sum: u64) -> u64 {
        self.last.step(self.last.start(), sum)
    }
}

/// A hash function of whole keys of any length.
#[derive(Clone, Debug)]
pub(crate) struct KeyHash {
    secrets: Box<[u64; MAX_WORDS]>,
    last: WordHash,
}

impl KeyHash {
    /// The hash function of this seed.
    pub(crate) fn new(seed: u64) -> KeyHash {
        let last = WordHash::new(seed);
        let secret = |place: usize| last.hash_words(&[place as u64]);
        KeyHash {
            secrets: Box::new(std::array::from_fn(secret)),
            last,
        }
    }

    /// The hash of a key.
    #[inline(always)]
    pub(crate) fn of_key<S: Simd>(&self, simd: S, key: &[u64]) -> u64 {
        let sum = simd.sum_of_products(key, &*self.secrets);
        self.last.step(self.last.start(), sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash_words;
    use crate::simd::{Level, Work};

    const WIDTH: usize = 12;

    /// The keys to hash under a mask.
    struct Each<'a>(&'a ValueHash, &'a [u64]);

    impl Work for Each<'_> {
        type Output = Vec<u64>;

        fn run<S: Simd>(self, simd: S) -> Vec<u64> {
            let mut hashes = vec![0; self.1.len() / WIDTH];
            let places: Vec<u8> = (0..hashes.len() as u8).collect();
            self.0.of_each(simd, self.1, WIDTH, &places, &mut hashes);
            hashes
        }
    }

    struct Whole<'a>(&'a KeyHash, &'a [u64]);

    impl Work for Whole<'_> {
        type Output = u64;

        fn run<S: Simd>(self, simd: S) -> u64 {
            self.0.of_key(simd, self.1)
        }
    }

    #[test]
    fn a_key_has_one_hash_however_it_is_asked() {
        for step in 0..2_000_u64 {
            let random = |salt: u64| hash_words(salt, &[step]);
            let touched = random(0) % 8;
            let mask: Vec<u64> = (0..WIDTH as u64)
                .map(|word| match (word * 5 + step) % WIDTH as u64 {
                    place if place < touched => random(10 + word) | 1,
                    _ => 0,
                })
                .collect();
            let words = MaskedWords::new(&mask);
            assert_eq!(words.len() as u64, touched);
            let hash = ValueHash::new(&words, WordHash::new(step));
            let keys: Vec<u64> = (0..5 * WIDTH as u64).map(|at| random(50 + at)).collect();
            let of_keys: Vec<u64> = keys.chunks(WIDTH).map(|key| hash.of_key(key)).collect();
            for (key, &of_key) in keys.chunks(WIDTH).zip(&of_keys) {
                assert_eq!(hash.of_value(words.compact(key)), of_key);
            }
            for level in Level::available() {
                assert_eq!(level.run(Each(&hash, &keys)), of_keys, "{}", level.name());
            }
        }
    }

    #[test]
    fn whole_keys_of_any_length_hash_alike_with_all_instructions() {
        let hash = KeyHash::new(3);
        for length in 0..=MAX_WORDS as u64 {
            let key: Vec<u64> = (0..length)
                .map(|word| hash_words(length, &[word]))
                .collect();
            let plain = hash.of_key(Plain, &key);
            for level in Level::available() {
                assert_eq!(level.run(Whole(&hash, &key)), plain, "{}", level.name());
            }
        }
    }

    /// Values that differ in few bits, at either end of a word.
    ///
    /// A table takes its slot from the lowest bits of the hash and a tag from the highest.
    #[test]
    fn low_and_high_bits_spread_structured_values() {
        let distinct = |part: fn(u64) -> u64, shift: u32, word: usize| {
            let hash = ValueHash::new(&MaskedWords::new(&[u64::MAX; 3]), WordHash::new(1));
            let hashes = (0..1_u64 << 14).map(|low| {
                let mut value = [0; 3];
                value[word] = low << shift;
                part(hash.of_value(value))
            });
            hashes.collect::<std::collections::HashSet<_>>().len()
        };
        for word in 0..3 {
            for shift in [0, 16, 25, 32, 50] {
                // 16,384 values fall into 65,536 places: a random function hits about 14,500.
                assert!(distinct(|hash| hash & 0xffff, shift, word) > 14_000);
                assert!(distinct(|hash| hash >> 48, shift, word) > 14_000);
            }
        }
    }
}
