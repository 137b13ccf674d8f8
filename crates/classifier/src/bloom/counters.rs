//! Four-bit counters, one for each bit of a filter, so that keys can be removed again.
//!
//! ```text
//!   word i of the filter, bit b  <->  words 4i .. 4i + 3 of the counters, 4 bits at 4 * b
//! ```
//!
//! 1. A counter that has reached 15 stops counting and stays there until it is emptied, since
//!    it can no longer tell when its last key goes. Its bit stays set too. This costs a false
//!    candidate but never misses one. The number of such counters is counted.
//! 2. A bit whose counter is not zero is set.
//!
//! Fan, Cao, Almeida, Broder, *Summary cache: a scalable wide-area web cache sharing
//! protocol*, IEEE/ACM Transactions on Networking 8(3), 2000, section V-C, has the four bits
//! and the probabilities.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const BITS: u32 = 4;
/// The value of a counter that has stopped counting.
const STUCK: u64 = 15;
/// The number of counter words for each word of bits.
const WORDS: usize = BITS as usize;

/// The counters of a filter's words.
#[derive(Debug)]
pub(super) struct Counters {
    words: Box<[AtomicU64]>,
    overflowed: AtomicU64,
}

impl Counters {
    /// Creates zero counters for the bits of `words` words.
    pub(super) fn new(words: usize) -> Counters {
        let words = (0..words * WORDS).map(|_| AtomicU64::new(0));
        Counters {
            words: words.collect(),
            overflowed: AtomicU64::new(0),
        }
    }

    /// Increments the counters of these bits of a word.
    pub(super) fn add(&self, word: usize, bits: u64) {
        for bit in bits_of(bits) {
            let (counters, shift) = self.place(word, bit);
            let one_more = |counters: u64| {
                (counters >> shift & STUCK != STUCK).then(|| counters + (1 << shift))
            };
            let before = counters.fetch_update(Relaxed, Relaxed, one_more);
            if before.is_ok_and(|before| before >> shift & STUCK == STUCK - 1) {
                self.overflowed.fetch_add(1, Relaxed);
            }
        }
    }

    /// Decrements the counters of these bits; returns the bits that are free now, and the
    /// stuck ones.
    pub(super) fn remove(&mut self, word: usize, bits: u64) -> Removed {
        let mut removed = Removed::default();
        for bit in bits_of(bits) {
            let (counters, shift) = self.place(word, bit);
            let value = counters.load(Relaxed);
            match value >> shift & STUCK {
                STUCK => removed.stuck |= 1 << bit,
                count => {
                    counters.store(value - (u64::from(count > 0) << shift), Relaxed);
                    removed.free |= u64::from(count <= 1) << bit;
                }
            }
        }
        removed
    }

    /// Resets the counters of these bits of a word to zero.
    pub(super) fn empty(&self, word: usize, bits: u64) {
        for bit in bits_of(bits) {
            let (counters, shift) = self.place(word, bit);
            let before = counters.fetch_and(!(STUCK << shift), Relaxed);
            if before >> shift & STUCK == STUCK {
                self.overflowed.fetch_sub(1, Relaxed);
            }
        }
    }

    /// The number of stuck counters.
    pub(super) fn overflowed(&self) -> u64 {
        self.overflowed.load(Relaxed)
    }

    fn place(&self, word: usize, bit: u32) -> (&AtomicU64, u32) {
        let place = word * WORDS + (bit * BITS / u64::BITS) as usize;
        (&self.words[place], bit * BITS % u64::BITS)
    }
}

/// The result of removing a key, by bits.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Removed {
    /// Bits that no key needs any more.
    pub(super) free: u64,
    /// Bits whose counters are stuck.
    pub(super) stuck: u64,
}

/// The positions of the set bits.
#[inline]
pub(super) fn bits_of(mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (bit < u64::BITS).then_some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_keys_stick_and_fifteen_less_one_do_not() {
        let mut counters = Counters::new(2);
        let bits = 1 << 63 | 1 << 16 | 1;
        for _ in 0..14 {
            counters.add(1, bits);
        }
        counters.add(1, 1);
        assert_eq!(counters.overflowed(), 1);
        for round in (0..14).rev() {
            let removed = counters.remove(1, bits);
            assert_eq!(removed.stuck, 1);
            assert_eq!(removed.free, if round == 0 { bits & !1 } else { 0 });
        }
        assert_eq!(counters.remove(0, 1).free, 1);
        counters.empty(1, u64::MAX);
        assert_eq!(counters.overflowed(), 0);
        counters.add(1, 1);
        assert_eq!(counters.remove(1, 1).free, 1);
    }
}
