//! Finds the fields of a 512-bit block that have all bits of a pattern: a vector filter's
//! test.
//!
//! A block is eight words with 8, 16, 32 or 64 fields of equal width; the first field is in
//! the lowest bits of the first word. The pattern is one field, repeated over a word:
//!
//! ```text
//!   wanted = pattern in every field
//!   bit i of the answer: field i of (block & wanted) == field i of wanted
//! ```
//!
//! With AVX-512 this is a load, an AND and a comparison, which gives all 64 bits at once; with
//! AVX2 two halves of it. Otherwise it goes word by word and folds the missing bits onto each
//! field's lowest bit.
//!
//! 1. A [`Level`] only has instructions that the processor supports. All levels give the same
//!    answers.
//! 2. Other threads may change blocks at any time; each word that is read was stored (`block.rs`).

pub(crate) use super::block::Block;
use super::level::{Level, Work};
use super::vector::Simd;

/// For each place and its pattern, finds the fields of that block that have the pattern.
///
/// # Panics
/// If a place is not the index of a block.
#[inline]
pub(crate) fn find<const BITS: u32>(
    level: Level,
    blocks: &[Block],
    places: &[u32],
    patterns: &[u64],
    found: &mut [u64],
) {
    const { assert!(matches!(BITS, 8 | 16 | 32 | 64)) };
    let tests = places.iter().zip(patterns);
    level.run(Find::<BITS, _>(blocks, tests.zip(found)));
}

/// Tests of blocks, compiled for each set of instructions.
struct Find<'a, const BITS: u32, T>(&'a [Block], T);

impl<'a, const BITS: u32, T> Work for Find<'a, BITS, T>
where
    T: Iterator<Item = ((&'a u32, &'a u64), &'a mut u64)>,
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for ((&place, &pattern), found) in self.1 {
            *found = simd.fields::<BITS>(&self.0[place as usize], pattern);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;
    use crate::hash::hash_words;

    /// The definition: field by field, bit by bit.
    fn find_slowly(block: &Block, bits: u32, pattern: u64) -> u64 {
        let ones = u64::MAX >> (64 - bits);
        let fields = (0..512 / bits).map(|field| {
            let word = block.0[(field * bits / 64) as usize].load(Relaxed);
            word >> (field * bits % 64) & ones
        });
        let wanted = pattern & ones;
        let has = fields.map(|field| u64::from(field & wanted == wanted));
        has.enumerate()
            .fold(0, |found, (field, has)| found | has << field)
    }

    fn check<const BITS: u32>() {
        let blocks: Vec<Block> = (0..64u64)
            .map(|block| {
                let word = |word| {
                    let random = |salt| hash_words(salt, &[block, word]);
                    AtomicU64::new(random(1) & (random(2) | random(3)) | random(4) & random(5))
                };
                Block(std::array::from_fn(|number| word(number as u64)))
            })
            .collect();
        let ones = u64::MAX / (u64::MAX >> (64 - BITS));
        let (places, patterns): (Vec<u32>, Vec<u64>) = (0..3_000u64)
            .map(|test| {
                let random = |salt| hash_words(salt, &[test]) % u64::from(BITS);
                let pattern = 1 << random(1) | 1 << random(2) | (test & 1) << random(3);
                ((test % 64) as u32, pattern * ones)
            })
            .unzip();
        let tests = places.iter().zip(&patterns);
        let slowly =
            |(&place, &pattern): (&u32, &u64)| find_slowly(&blocks[place as usize], BITS, pattern);
        let expected: Vec<u64> = tests.map(slowly).collect();
        assert!(
            expected
                .iter()
                .any(|&found| found != 0 && found >> (512 / BITS - 1) == 1)
        );
        for level in Level::available() {
            let mut found = vec![u64::MAX; places.len()];
            find::<BITS>(level, &blocks, &places, &patterns, &mut found);
            assert_eq!(
                found,
                expected,
                "{} with fields of {BITS} bits",
                level.name()
            );
        }
    }

    #[test]
    fn all_levels_find_the_same_fields() {
        check::<8>();
        check::<16>();
        check::<32>();
        check::<64>();
    }
}
