//! Packs words of a frame into a key, and hashes it, for both caches.
//!
//! ```text
//!   word of the key = part << shift | part << shift | ...           parts are words of the frame
//!   hash            = sum over pairs of words:  low half ^ high half of (a ^ s) * (b ^ t)
//!                                               ^ (a ^ s) ^ (b ^ t), rotated by half its length
//! ```
//!
//! A miss pays for this and gains nothing, so it has as few dependencies as possible. Each word
//! of the key is assembled in a register and stored once. The hash is the multiply-and-fold
//! step of [`thalweg_classifier::hash`], applied to pairs of words, and the products are
//! summed. So no product waits for another, while a chain would wait for a multiplication with
//! each word. Every word has its own secret, drawn from the seed. So swapping words changes the
//! hash, and a sender who does not know the seed cannot make keys collide. A word that equals
//! its secret makes the product zero; the other word of the pair still counts, since the sum
//! has both words once more.
//!
//! 1. A word of the key has exactly the parts given for it, and zeros elsewhere.
//! 2. The same seed and key give the same hash, on every machine and in every run.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A word of a frame in a key. It is moved up by a multiplication, which takes one step, where
/// a shift by a loaded number of bits takes three.
#[derive(Clone, Copy, Debug)]
struct Gather {
    from: u32,
    factor: u64,
}

/// Which words of a frame make up which words of a key.
#[derive(Clone, Debug)]
pub(crate) struct Packing {
    /// Those of the key's first word, then those of the next, and so on.
    gathers: Box<[Gather]>,
    /// The number of gathers of each word of the key.
    counts: Box<[u32]>,
}

impl Packing {
    /// Creates a packing for keys of `words` words.
    ///
    /// A part is a word of the frame, a word of the key, and a shift.
    pub(crate) fn new(words: usize, parts: impl IntoIterator<Item = (u32, usize, u32)>) -> Packing {
        let mut parts: Vec<_> = parts.into_iter().collect();
        parts.sort_unstable_by_key(|&(_, into, shift)| (into, shift));
        let mut counts = vec![0; words];
        for &(_, into, _) in &parts {
            counts[into] += 1;
        }
        let gathers = parts.iter().map(|&(from, _, shift)| Gather {
            from,
            factor: 1 << shift,
        });
        Packing {
            gathers: gathers.collect(),
            counts: counts.into(),
        }
    }

    /// Fills the words of the key that the packing covers.
    #[inline]
    pub(crate) fn pack(&self, frame: &[u64], key: &mut [u64]) {
        let mut rest = &self.gathers[..];
        for (into, &count) in key.iter_mut().zip(&self.counts) {
            *into = next_word(&mut rest, count, frame);
        }
    }

    /// Fills the key and returns its hash, for keys without other words.
    #[inline]
    pub(crate) fn pack_and_hash(&self, hash: &KeyHash, frame: &[u64], key: &mut [u64]) -> u64 {
        let mut rest = &self.gathers[..];
        let mut sum = 0_u64;
        let pairs = key.chunks_mut(2).zip(self.counts.chunks(2));
        for ((into, counts), secret) in pairs.zip(&hash.secrets) {
            let first = next_word(&mut rest, counts[0], frame);
            into[0] = first;
            let mut second = 0;
            if let ([_, into], [_, count]) = (into, counts) {
                second = next_word(&mut rest, *count, frame);
                *into = second;
            }
            sum = sum.wrapping_add(fold(first, second, secret));
        }
        sum
    }
}

/// Assembles the next word of a key from the next `count` gathers of `rest`.
#[inline]
fn next_word(rest: &mut &[Gather], count: u32, frame: &[u64]) -> u64 {
    let (own, others) = rest.split_at(count as usize);
    *rest = others;
    own.iter().fold(0, |word, gather| {
        word | frame[gather.from as usize].wrapping_mul(gather.factor)
    })
}

/// One step of the hash.
#[inline]
fn fold(first: u64, second: u64, secret: &[u64; 2]) -> u64 {
    let (first, second) = (first ^ secret[0], second ^ secret[1]);
    let product = u128::from(first) * u128::from(second);
    product as u64 ^ (product >> 64) as u64 ^ first ^ second.rotate_left(32)
}

/// The hash function for keys of one length.
#[derive(Clone, Debug)]
pub(crate) struct KeyHash {
    secrets: Box<[[u64; 2]]>,
}

impl KeyHash {
    /// Creates a hash function for keys of `words` words.
    pub(crate) fn new(words: usize, seed: u64) -> KeyHash {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut pair = || [random.random(), random.random()];
        KeyHash {
            secrets: (0..words.div_ceil(2)).map(|_| pair()).collect(),
        }
    }

    /// Hashes a key.
    #[inline]
    pub(crate) fn hash(&self, key: &[u64]) -> u64 {
        let (pairs, last) = key.as_chunks::<2>();
        let mut sum = 0_u64;
        for ([first, second], secret) in pairs.iter().zip(&self.secrets) {
            sum = sum.wrapping_add(fold(*first, *second, secret));
        }
        // An odd last word is paired with 0.
        match (last, self.secrets.last()) {
            (&[word], Some(secret)) => sum.wrapping_add(fold(word, 0, secret)),
            _ => sum,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Compares with the sum of all parts, one by one.
    #[test]
    fn words_of_the_key_have_the_parts_they_were_given() {
        let mut random = Pcg64Mcg::seed_from_u64(3);
        for _ in 0..500 {
            let words = random.random_range(1..6);
            let mut parts = Vec::new();
            for into in 0..words {
                let mut shift = random.random_range(0..8);
                while shift < 64 && random.random_bool(0.7) {
                    let width = random.random_range(1..=64 - shift);
                    parts.push((random.random_range(0..40_u32), into, shift, width));
                    shift += width;
                }
            }
            let frame: Vec<u64> = (0..40).map(|_| random.random()).collect();
            // A frame has no bits above a part's width.
            let ones = |width: u32| u64::MAX >> (64 - width);
            let mut expected = vec![0; words];
            let mut own = frame.clone();
            for (index, &(_, into, shift, width)) in parts.iter().enumerate() {
                own.push(frame[index % 40] & ones(width));
                expected[into] |= (frame[index % 40] & ones(width)) << shift;
            }
            let numbered = parts.iter().enumerate();
            let packing = Packing::new(
                words,
                numbered.map(|(index, part)| (40 + index as u32, part.1, part.2)),
            );
            let mut key = vec![u64::MAX; words];
            packing.pack(&own, &mut key);
            assert_eq!(key, expected, "{parts:?}");
            key.fill(u64::MAX);
            let hash = KeyHash::new(words, 3);
            let both = packing.pack_and_hash(&hash, &own, &mut key);
            assert_eq!(key, expected, "{parts:?}");
            assert_eq!(both, hash.hash(&key));
        }
    }

    /// Hashes keys of each length with one or two bits set. The low and the high bits hit
    /// 65,536 places about as often as by chance, and no two keys have the same hash.
    #[test]
    fn keys_that_differ_little_have_hashes_that_differ_much() {
        for words in 1..8_usize {
            let hash = KeyHash::new(words, 9);
            let mut keys: HashSet<Vec<u64>> = HashSet::new();
            for first in 0..words * 64 {
                for second in 0..words * 64 {
                    let mut key = vec![0; words];
                    key[first / 64] |= 1 << (first % 64);
                    key[second / 64] |= 1 << (second % 64);
                    keys.insert(key);
                }
            }
            let hashes: Vec<u64> = keys.iter().map(|key| hash.hash(key)).collect();
            let distinct = |part: fn(u64) -> u64| {
                let parts: HashSet<u64> = hashes.iter().map(|&hash| part(hash)).collect();
                parts.len() as f64
            };
            assert_eq!(distinct(|hash| hash), keys.len() as f64, "{words} words");
            let places = 65_536.0_f64;
            let chance = places * (1.0 - (1.0 - 1.0 / places).powf(keys.len() as f64));
            for part in [|hash| hash & 0xffff, |hash: u64| hash >> 48] {
                assert!(distinct(part) > 0.95 * chance, "{words} words");
            }
        }
    }

    #[test]
    fn a_word_that_is_its_secret_does_not_hide_the_other() {
        let hash = KeyHash::new(4, 1);
        let [_, [third, fourth]] = *hash.secrets else {
            panic!("two pairs")
        };
        let keys = (0..1_000).flat_map(|word| [[1, 2, third, word], [1, 2, word, fourth]]);
        let hashes: HashSet<u64> = keys.map(|key| hash.hash(&key)).collect();
        assert_eq!(hashes.len(), 2_000);
    }

    #[test]
    fn words_that_change_places_have_another_hash() {
        let hash = KeyHash::new(4, 1);
        let key = [1, 2, 3, 4];
        for (one, other) in [(0, 1), (0, 2), (1, 2), (2, 3), (1, 3)] {
            let mut swapped = key;
            swapped.swap(one, other);
            assert_ne!(hash.hash(&key), hash.hash(&swapped));
        }
    }
}
