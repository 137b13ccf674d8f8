//! Operations written by hand for each set of instructions, where the compiler would not find
//! them.
//!
//! A value of [`Simd`] proves that the processor has the set: those of x86-64 are made only
//! after a check. All sets give the same answers; [`Plain`] is the twin.

use super::block::{self, Block};
use super::lanes::{self, Lanes, NumberedWords};
use super::line::Line;

/// The number of words of a short mask.
pub(crate) const SHORT_WORDS: usize = 4;

/// A set of instructions, named where work is compiled for it.
pub(crate) trait Simd: Copy {
    /// The slots of a line that equal `wanted` in the bits of `mask`; the first slot is the
    /// lowest bit.
    fn alike(self, line: &Line, wanted: u32, mask: u32) -> u32;

    /// The fields of a block that have all bits of a pattern: see `fields.rs`.
    fn fields<const BITS: u32>(self, block: &Block, pattern: u64) -> u64;

    /// The words of a key at these positions, each with its mask applied.
    ///
    /// # Panics
    /// If the key has no such word; some sets read zero instead.
    fn masked(
        self,
        key: &[u64],
        words: &[u64; SHORT_WORDS],
        masks: &[u64; SHORT_WORDS],
    ) -> [u64; SHORT_WORDS];

    /// The sum over words of (low half + its secret) * (high half + its secret).
    ///
    /// The additions within a word wrap at 32 bits, the products and the sum at 64.
    fn sum_of_products(self, words: &[u64], secrets: &[u64]) -> u64;

    /// The lanes that match a key, a bit each.
    ///
    /// `pairs` has values and masks for each of the key's words; these are every `step`th word
    /// of `key`.
    #[inline(always)]
    fn lanes(self, pairs: &[[Lanes; 2]], key: &[u64], step: usize) -> u32 {
        Lanes::matching(pairs, key, step)
    }

    /// As [`Simd::lanes`], with masks by number: values, numbers and masks for each word.
    #[inline(always)]
    fn lanes_by_number(self, words: NumberedWords<'_>, key: &[u64], step: usize) -> u32 {
        Lanes::matching_by_number(words, key, step)
    }

    /// The index of the last value in `rising` that is not above `number`; the first must not
    /// be above.
    #[inline(always)]
    fn last_not_above(self, rising: &[u64], number: u64) -> usize {
        last_not_above(rising, number)
    }

    /// As [`Simd::sum_of_products`], for a short value.
    #[inline(always)]
    fn short_sum(self, words: &[u64; SHORT_WORDS], secrets: &[u64; SHORT_WORDS]) -> u64 {
        Plain.sum_of_products(words, secrets)
    }
}

/// Binary search without branches.
#[inline(always)]
pub(crate) fn last_not_above<N: Ord + Copy>(rising: &[N], number: N) -> usize {
    let (mut place, mut length) = (0, rising.len());
    while length > 1 {
        let half = length / 2;
        let middle = place + half;
        place = std::hint::select_unpredictable(rising[middle] <= number, middle, place);
        length -= half;
    }
    place
}

/// The instructions that every processor of the target has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain;

impl Simd for Plain {
    #[inline(always)]
    fn alike(self, line: &Line, wanted: u32, mask: u32) -> u32 {
        line.alike(wanted, mask)
    }

    #[inline(always)]
    fn fields<const BITS: u32>(self, block: &Block, pattern: u64) -> u64 {
        block::find_plain::<BITS>(block, pattern)
    }

    #[inline(always)]
    fn masked(
        self,
        key: &[u64],
        words: &[u64; SHORT_WORDS],
        masks: &[u64; SHORT_WORDS],
    ) -> [u64; SHORT_WORDS] {
        std::array::from_fn(|place| key[words[place] as usize] & masks[place])
    }

    #[inline(always)]
    fn sum_of_products(self, words: &[u64], secrets: &[u64]) -> u64 {
        words.iter().zip(secrets).fold(0, |sum, (word, secret)| {
            let low = (*word as u32).wrapping_add(*secret as u32);
            let high = ((word >> 32) as u32).wrapping_add((secret >> 32) as u32);
            sum.wrapping_add(u64::from(low) * u64::from(high))
        })
    }
}

/// AVX2 and the features that came with it.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    /// # Safety
    /// - The processor has AVX2.
    #[inline(always)]
    pub(super) unsafe fn new() -> Avx2 {
        Avx2(())
    }
}

#[cfg(target_arch = "x86_64")]
impl Simd for Avx2 {
    #[inline(always)]
    fn alike(self, line: &Line, wanted: u32, mask: u32) -> u32 {
        line.alike(wanted, mask)
    }

    #[inline(always)]
    fn fields<const BITS: u32>(self, block: &Block, pattern: u64) -> u64 {
        // SAFETY: the processor has AVX2, or this value would not exist.
        unsafe { block::x86::find_avx2::<BITS>(block, pattern) }
    }

    #[inline(always)]
    fn masked(
        self,
        key: &[u64],
        words: &[u64; SHORT_WORDS],
        masks: &[u64; SHORT_WORDS],
    ) -> [u64; SHORT_WORDS] {
        Plain.masked(key, words, masks)
    }

    #[inline(always)]
    fn sum_of_products(self, words: &[u64], secrets: &[u64]) -> u64 {
        Plain.sum_of_products(words, secrets)
    }

    #[inline(always)]
    fn short_sum(self, words: &[u64; SHORT_WORDS], secrets: &[u64; SHORT_WORDS]) -> u64 {
        // SAFETY: the processor has AVX2, or this value would not exist.
        unsafe { short_sum_avx2(words, secrets) }
    }
}

/// AVX-512 F, BW, DQ and VL.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// # Safety
    /// - The processor has AVX-512 F, BW, DQ and VL.
    #[inline(always)]
    pub(super) unsafe fn new() -> Avx512 {
        Avx512(())
    }
}

#[cfg(target_arch = "x86_64")]
impl Simd for Avx512 {
    #[inline(always)]
    fn alike(self, line: &Line, wanted: u32, mask: u32) -> u32 {
        // SAFETY: the processor has AVX-512 F, or this value would not exist.
        unsafe { line.alike_avx512(wanted, mask) }
    }

    #[inline(always)]
    fn fields<const BITS: u32>(self, block: &Block, pattern: u64) -> u64 {
        // SAFETY: the processor has AVX-512 F and BW, or this value would not exist.
        unsafe { block::x86::find_avx512::<BITS>(block, pattern) }
    }

    /// Reads a short key as a whole and permutes its words with one instruction.
    #[inline(always)]
    fn masked(
        self,
        key: &[u64],
        words: &[u64; SHORT_WORDS],
        masks: &[u64; SHORT_WORDS],
    ) -> [u64; SHORT_WORDS] {
        match key.len() {
            // SAFETY: the processor has AVX-512 F, or this value would not exist.
            0..=8 => unsafe { masked_avx512(key, words, masks) },
            _ => Plain.masked(key, words, masks),
        }
    }

    #[inline(always)]
    fn sum_of_products(self, words: &[u64], secrets: &[u64]) -> u64 {
        // SAFETY: the processor has AVX-512 F, or this value would not exist.
        let of_eight =
            |(words, secrets): (&[u64], &[u64])| unsafe { sum_of_eight_avx512(words, secrets) };
        let eights = words.chunks(8).zip(secrets.chunks(8));
        eights.map(of_eight).fold(0, u64::wrapping_add)
    }

    /// Written in place, because a separate function would not be inlined.
    #[inline(always)]
    fn lanes(self, pairs: &[[Lanes; 2]], key: &[u64], step: usize) -> u32 {
        use std::arch::x86_64::*;
        // SAFETY: the processor has AVX-512 F, or this value would not exist; lanes are 64
        // bytes, aligned to 64.
        unsafe {
            let mut wrong = _mm512_setzero_si512();
            for (place, [values, masks]) in pairs.iter().enumerate() {
                let values = _mm512_load_si512(std::ptr::from_ref(values).cast());
                let masks = _mm512_load_si512(std::ptr::from_ref(masks).cast());
                let word = _mm512_set1_epi64(key[place * step] as i64);
                let unlike = _mm512_xor_si512(_mm512_and_si512(word, masks), values);
                wrong = _mm512_or_si512(wrong, unlike);
            }
            u32::from(_mm512_testn_epi64_mask(wrong, wrong))
        }
    }

    #[inline(always)]
    fn lanes_by_number(self, words: NumberedWords<'_>, key: &[u64], step: usize) -> u32 {
        use std::arch::x86_64::*;
        // SAFETY: the processor has AVX-512 F, or this value would not exist; lanes are 64
        // bytes, aligned to 64.
        unsafe {
            let mut wrong = _mm512_setzero_si512();
            let (values, numbers, tables) = words;
            let words = values.iter().zip(numbers).zip(tables);
            for (place, ((values, numbers), table)) in words.enumerate() {
                let values = _mm512_load_si512(std::ptr::from_ref(values).cast());
                let masks = lanes::masks_by_number_avx512(numbers, table);
                let word = _mm512_set1_epi64(key[place * step] as i64);
                let unlike = _mm512_xor_si512(_mm512_and_si512(word, masks), values);
                wrong = _mm512_or_si512(wrong, unlike);
            }
            u32::from(_mm512_testn_epi64_mask(wrong, wrong))
        }
    }

    #[inline(always)]
    fn last_not_above(self, rising: &[u64], number: u64) -> usize {
        match rising.len() {
            // SAFETY: the same.
            0..=8 => unsafe { lanes::count_not_above_avx512(rising, number) }.saturating_sub(1),
            _ => last_not_above(rising, number),
        }
    }

    #[inline(always)]
    fn short_sum(self, words: &[u64; SHORT_WORDS], secrets: &[u64; SHORT_WORDS]) -> u64 {
        // SAFETY: the processor has AVX2, or this value would not exist.
        unsafe { short_sum_avx2(words, secrets) }
    }
}

/// # Safety
/// - The processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn short_sum_avx2(words: &[u64; SHORT_WORDS], secrets: &[u64; SHORT_WORDS]) -> u64 {
    use std::arch::x86_64::*;
    // SAFETY: the arrays have 32 bytes each.
    let (words, secrets) = unsafe {
        (
            _mm256_loadu_si256(words.as_ptr().cast()),
            _mm256_loadu_si256(secrets.as_ptr().cast()),
        )
    };
    let sums = _mm256_add_epi32(words, secrets);
    let products = _mm256_mul_epu32(sums, _mm256_srli_epi64::<32>(sums));
    let high = _mm256_extracti128_si256::<1>(products);
    let halves = _mm_add_epi64(_mm256_castsi256_si128(products), high);
    let sum = _mm_add_epi64(halves, _mm_unpackhi_epi64(halves, halves));
    _mm_cvtsi128_si64(sum) as u64
}

/// # Safety
/// - The processor has AVX-512 F.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn masked_avx512(
    key: &[u64],
    words: &[u64; SHORT_WORDS],
    masks: &[u64; SHORT_WORDS],
) -> [u64; SHORT_WORDS] {
    use std::arch::x86_64::*;
    debug_assert!(key.len() <= 8);
    let present = ((1_u32 << key.len()) - 1) as u8;
    let mut value = [0; SHORT_WORDS];
    // SAFETY: the load does not touch words that are not present; the arrays have 32 bytes
    // each.
    unsafe {
        let all = _mm512_maskz_loadu_epi64(present, key.as_ptr().cast());
        let words = _mm256_loadu_si256(words.as_ptr().cast());
        let masks = _mm256_loadu_si256(masks.as_ptr().cast());
        let found = _mm512_permutexvar_epi64(_mm512_castsi256_si512(words), all);
        let found = _mm256_and_si256(_mm512_castsi512_si256(found), masks);
        _mm256_storeu_si256(value.as_mut_ptr().cast(), found);
    }
    value
}

/// # Safety
/// - The processor has AVX-512 F.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn sum_of_eight_avx512(words: &[u64], secrets: &[u64]) -> u64 {
    use std::arch::x86_64::*;
    let count = words.len().min(secrets.len());
    debug_assert!(count <= 8);
    let present = ((1_u32 << count) - 1) as u8;
    // SAFETY: the loads do not touch words that are not present.
    let (words, secrets) = unsafe {
        (
            _mm512_maskz_loadu_epi64(present, words.as_ptr().cast()),
            _mm512_maskz_loadu_epi64(present, secrets.as_ptr().cast()),
        )
    };
    let sums = _mm512_add_epi32(words, secrets);
    let products = _mm512_mul_epu32(sums, _mm512_srli_epi64::<32>(sums));
    _mm512_reduce_add_epi64(products) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash_words;
    use crate::simd::{Level, Work};

    /// Random keys of every length, whose words have all bits, none, or those of one half.
    struct AgainstPlain;

    impl Work for AgainstPlain {
        type Output = ();

        fn run<S: Simd>(self, simd: S) {
            for step in 0..20_000_u64 {
                let random = |salt| hash_words(salt, &[step]);
                let word = |place: usize| match random(100 + place as u64) % 5 {
                    0 => 0,
                    1 => u64::MAX,
                    2 => random(200 + place as u64) << 32,
                    _ => random(300 + place as u64),
                };
                let key: Vec<u64> = (0..1 + step as usize % 20).map(word).collect();
                let words = std::array::from_fn(|place| random(place as u64) % key.len() as u64);
                let masks = std::array::from_fn(|place| word(40 + place));
                assert_eq!(
                    simd.masked(&key, &words, &masks),
                    Plain.masked(&key, &words, &masks)
                );
                let (short, short_secrets) = (std::array::from_fn(word), masks);
                assert_eq!(
                    simd.short_sum(&short, &short_secrets),
                    Plain.short_sum(&short, &short_secrets)
                );
                let secrets: Vec<u64> = (0..20).map(|place| word(60 + place)).collect();
                assert_eq!(
                    simd.sum_of_products(&key, &secrets),
                    Plain.sum_of_products(&key, &secrets)
                );
            }
        }
    }

    #[test]
    fn all_instructions_give_the_same() {
        for level in Level::available() {
            level.run(AgainstPlain);
        }
    }

    #[test]
    fn a_sum_of_products_is_what_its_words_say() {
        let words = [7 << 32 | 5, u64::MAX, 1 << 32];
        let secrets = [2 << 32 | 3, 1 << 32 | 1, 0];
        // (5 + 3) * (7 + 2); the second word's halves wrap to zero, and the third's low half
        // is zero.
        assert_eq!(Plain.sum_of_products(&words, &secrets), 72);
    }
}
