//! Eight words in one cache line, each of another rule, compared with a key's all at once.
//!
//! ```text
//!   a lane matches:  for each word of the key   word & mask of the lane == value of the lane
//! ```
//!
//! With AVX-512 three instructions a word, and one that gives a bit for each lane; elsewhere what the
//! compiler makes of a loop over the lanes, which is the twin.

/// A word of eight rules.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Lanes(pub(crate) [u64; Lanes::COUNT]);

impl Lanes {
    pub(crate) const COUNT: usize = 8;

    /// Which lanes match a key, a bit each: values and masks for each of the key's words, which are
    /// every `step`th.
    #[inline(always)]
    pub(super) fn matching(pairs: &[[Lanes; 2]], key: &[u64], step: usize) -> u32 {
        let mut wrong = [0u64; Lanes::COUNT];
        for ([values, masks], word) in pairs.iter().zip(key.iter().step_by(step)) {
            for ((wrong, value), mask) in wrong.iter_mut().zip(values.0).zip(masks.0) {
                *wrong |= word & mask ^ value;
            }
        }
        let mut hits = [0u64; Lanes::COUNT];
        for (lane, (hit, wrong)) in hits.iter_mut().zip(wrong).enumerate() {
            *hit = if wrong == 0 { 1 << lane } else { 0 };
        }
        let [a, b, c, d, e, f, g, h] = hits;
        (((a | e) | (b | f)) | ((c | g) | (d | h))) as u32
    }
}

/// How many of up to eight numbers, which rise, are not above another.
///
/// # Safety
/// - The processor has AVX-512 F.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn count_not_above_avx512(rising: &[u64], number: u64) -> usize {
    use std::arch::x86_64::*;
    debug_assert!(rising.len() <= Lanes::COUNT);
    let present = ((1_u32 << rising.len()) - 1) as u8;
    // SAFETY: words that are not present are not read.
    let rising = unsafe { _mm512_maskz_loadu_epi64(present, rising.as_ptr().cast()) };
    let number = _mm512_set1_epi64(number as i64);
    _mm512_mask_cmple_epu64_mask(present, rising, number).count_ones() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash_words;
    use crate::simd::{Level, Simd, Work};

    /// Random lanes, some of which match, or differ in one bit.
    struct AgainstOneByOne;

    impl Work for AgainstOneByOne {
        type Output = ();

        fn run<S: Simd>(self, simd: S) {
            for step in 0..20_000_u64 {
                let random = |salt| hash_words(salt, &[step]);
                let words = 1 + step as usize % 4;
                let key: Vec<u64> = (0..words as u64).map(random).collect();
                let wrong = |lane: usize, word: usize| match random(40 + lane as u64) % 3 {
                    0 if word == lane % words => 1 << (random(50 + lane as u64) % 64),
                    _ => 0,
                };
                let mask = |lane: usize, word: usize| random((60 + lane + 8 * word) as u64);
                let pairs: Vec<[Lanes; 2]> = (0..words)
                    .map(|word| {
                        let value = |lane| (key[word] ^ wrong(lane, word)) & mask(lane, word);
                        let values = std::array::from_fn(value);
                        let masks = std::array::from_fn(|lane| mask(lane, word));
                        [Lanes(values), Lanes(masks)]
                    })
                    .collect();
                let is_match = |lane: &usize| {
                    let is_right = |word| wrong(*lane, word) & mask(*lane, word) == 0;
                    (0..words).all(is_right)
                };
                let expected = (0..Lanes::COUNT).filter(is_match);
                let expected = expected.fold(0, |bits, lane| bits | 1 << lane);
                let distance = 1 + step as usize % 5;
                let apart: Vec<u64> = key.iter().flat_map(|&word| vec![word; distance]).collect();
                assert_eq!(simd.lanes(&pairs, &apart, distance), expected);

                let mut rising: Vec<u64> = (0..1 + step % 20).map(|at| random(at) >> 50).collect();
                rising.sort_unstable();
                let number = (random(99) >> 50).max(rising[0]);
                let expected = rising.partition_point(|&start| start <= number) - 1;
                assert_eq!(simd.last_not_above(&rising, number), expected);
                assert_eq!(simd.last_not_above(&rising, u64::MAX), rising.len() - 1);
            }
        }
    }

    #[test]
    fn all_instructions_find_what_is_found_one_by_one() {
        for level in Level::available() {
            level.run(AgainstOneByOne);
        }
    }
}
