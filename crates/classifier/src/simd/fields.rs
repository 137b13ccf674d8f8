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
//! 2. Other threads may change blocks at any time. Words are read by relaxed loads, or by one
//!    assembler instruction, which the compiler cannot treat as a plain read. So each word is
//!    one that was stored; callers may rely on no more.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::level::{Level, Work};
use super::vector::Simd;

/// 512 bits that several threads read and write.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Block(pub(crate) [AtomicU64; 8]);

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

/// The scalar twin.
#[inline]
pub(super) fn find_plain<const BITS: u32>(block: &Block, pattern: u64) -> u64 {
    let fields = 64 / BITS;
    let words = block.0.iter().enumerate();
    words.fold(0, |found, (number, word)| {
        let mut missing = !word.load(Relaxed) & pattern;
        let mut fold = BITS / 2;
        while fold > 0 {
            missing |= missing >> fold;
            fold /= 2;
        }
        let of_word = (0..fields).fold(0, |bits, field| {
            bits | (!missing >> (field * BITS) & 1) << field
        });
        found | of_word << (number as u32 * fields)
    })
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::*;

    use super::Block;

    /// # Safety
    /// - The processor has AVX-512 F and BW.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    pub(in super::super) fn find_avx512<const BITS: u32>(block: &Block, pattern: u64) -> u64 {
        let wanted = _mm512_set1_epi64(pattern as i64);
        let had = _mm512_and_si512(load_512(block), wanted);
        match BITS {
            8 => _mm512_cmpeq_epi8_mask(had, wanted),
            16 => u64::from(_mm512_cmpeq_epi16_mask(had, wanted)),
            32 => u64::from(_mm512_cmpeq_epi32_mask(had, wanted)),
            _ => u64::from(_mm512_cmpeq_epi64_mask(had, wanted)),
        }
    }

    /// # Safety
    /// - The processor has AVX2.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(in super::super) fn find_avx2<const BITS: u32>(block: &Block, pattern: u64) -> u64 {
        let wanted = _mm256_set1_epi64x(pattern as i64);
        let halves = load_256(block);
        let [low, high] = halves.map(|half| _mm256_and_si256(half, wanted));
        let bits = |low: i32, high: i32, width: u32| {
            u64::from(low as u32) | u64::from(high as u32) << width
        };
        match BITS {
            8 => {
                let equal = |half| _mm256_movemask_epi8(_mm256_cmpeq_epi8(half, wanted));
                bits(equal(low), equal(high), 32)
            }
            16 => {
                let equal = |half| _mm256_cmpeq_epi16(half, wanted);
                // Packing works in 128-bit lanes, so the middle two quarters must be swapped.
                let packed = _mm256_packs_epi16(equal(low), equal(high));
                let ordered = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
                u64::from(_mm256_movemask_epi8(ordered) as u32)
            }
            32 => {
                let equal = |half| _mm256_castsi256_ps(_mm256_cmpeq_epi32(half, wanted));
                let mask = |half| _mm256_movemask_ps(equal(half));
                bits(mask(low), mask(high), 8)
            }
            _ => {
                let equal = |half| _mm256_castsi256_pd(_mm256_cmpeq_epi64(half, wanted));
                let mask = |half| _mm256_movemask_pd(equal(half));
                bits(mask(low), mask(high), 4)
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load_512(block: &Block) -> __m512i {
        let value;
        // SAFETY: the reference is to 64 bytes, aligned to 64, and the instruction writes only
        // its register; for concurrent stores see invariant 2.
        unsafe {
            asm!(
                "vmovdqa64 {value}, [{place}]",
                place = in(reg) block,
                value = out(zmm_reg) value,
                options(nostack, readonly, preserves_flags),
            );
        }
        value
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load_256(block: &Block) -> [__m256i; 2] {
        let (low, high);
        // SAFETY: the reference is to 64 bytes, aligned to 64, and the instructions write only
        // their registers; for concurrent stores see invariant 2.
        unsafe {
            asm!(
                "vmovdqa {low}, [{place}]",
                "vmovdqa {high}, [{place} + 32]",
                place = in(reg) block,
                low = out(ymm_reg) low,
                high = lateout(ymm_reg) high,
                options(nostack, readonly, preserves_flags),
            );
        }
        [low, high]
    }
}

#[cfg(test)]
mod tests {
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
