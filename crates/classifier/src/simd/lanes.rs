//! Eight words in one cache line, each of another rule, compared with a key's word all at
//! once.
//!
//! ```text
//!   a lane matches:  for each word of the key   word & mask of the lane == value of the lane
//! ```
//!
//! With AVX-512 this takes three instructions per word, and one that gives a bit for each
//! lane. Elsewhere it is the compiler's version of a loop over the lanes, which is the twin.
//!
//! Many rules have few masks. So the lanes' masks may be stored in full, a line for each word,
//! or by number: one number for each half of a word, among up to 64 half-word masks. A number
//! takes one byte where its mask takes four. AVX-512 looks up sixteen halves with one
//! permutation of two registers, which hold 32 masks, or with two such permutations.

/// One word of each of eight rules.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Lanes(pub(crate) [u64; Lanes::COUNT]);

impl Lanes {
    pub(crate) const COUNT: usize = 8;

    /// The lanes that match a key, a bit each.
    ///
    /// `pairs` has values and masks for each of the key's words; these are every `step`th word
    /// of `key`.
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

    /// As [`Lanes::matching`], with masks by number: values, numbers and masks for each word.
    #[inline(always)]
    pub(super) fn matching_by_number(words: NumberedWords<'_>, key: &[u64], step: usize) -> u32 {
        let (values, numbers, tables) = words;
        let mut hits = u8::MAX;
        let key = key.iter().step_by(step);
        for (((values, numbers), table), word) in values.iter().zip(numbers).zip(tables).zip(key) {
            for (lane, value) in values.0.into_iter().enumerate() {
                let is_match = word & table.mask(numbers, lane) == value;
                hits &= !(u8::from(!is_match) << lane);
            }
        }
        hits.into()
    }

    /// The words of the lines, in pairs.
    #[inline(always)]
    pub(crate) fn pairs(lines: &[Lanes]) -> &[[u64; 2]] {
        const PAIRS: usize = Lanes::COUNT / 2;
        const { assert!(size_of::<Lanes>() == PAIRS * size_of::<[u64; 2]>()) };
        // SAFETY: a line is an array of words and nothing else, as large as `PAIRS` pairs.
        unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * PAIRS) }
    }
}

/// The data of eight lanes for each word of a key: values, mask numbers, and masks.
pub(crate) type NumberedWords<'a> = (&'a [Lanes], &'a [Numbers], &'a [MaskTable]);

/// The mask numbers of eight lanes for one word: two bytes per lane, the lower half's first.
///
/// The upper two bits of each byte belong to other data.
pub(crate) type Numbers = [u64; 2];

/// The numbers of one lane; the low byte is the lower half's.
#[inline(always)]
pub(crate) fn numbers_of(numbers: &Numbers, lane: usize) -> u16 {
    (numbers[lane / 4] >> (16 * (lane % 4))) as u16
}

/// The top bits of the last 32 bytes of a line; the first byte gives the lowest bit.
#[inline(always)]
pub(crate) fn top_bits(line: &Lanes) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of every x86-64 processor; the last 32 bytes of a line are two
    // parts of 16 bytes, aligned to 16.
    unsafe {
        use std::arch::x86_64::{_mm_load_si128, _mm_movemask_epi8};
        let words = line.0.as_ptr();
        let low = _mm_movemask_epi8(_mm_load_si128(words.add(4).cast()));
        let high = _mm_movemask_epi8(_mm_load_si128(words.add(6).cast()));
        low as u32 | (high as u32) << 16
    }
    #[cfg(not(target_arch = "x86_64"))]
    top_bits_plain(line)
}

/// The scalar twin.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn top_bits_plain(line: &Lanes) -> u32 {
    let bytes = line.0[4..].iter().flat_map(|word| word.to_le_bytes());
    bytes.zip(0..).fold(0, |bits, (byte, place)| {
        bits | u32::from(byte >> 7) << place
    })
}

/// Half-word masks by number. Number 0 is the zero mask.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct MaskTable {
    masks: [u32; MaskTable::COUNT],
    len: usize,
}

impl MaskTable {
    const COUNT: usize = 64;

    /// The bits of a byte that hold a number.
    const NUMBER_BITS: u8 = MaskTable::COUNT as u8 - 1;

    /// The bits of two bytes that hold numbers.
    pub(crate) const NUMBERS_BITS: u16 = u16::from_le_bytes([MaskTable::NUMBER_BITS; 2]);

    /// A table with only the zero mask.
    pub(crate) fn new() -> MaskTable {
        MaskTable {
            masks: [0; MaskTable::COUNT],
            len: 1,
        }
    }

    /// The number of a half-word mask, added if it is new; `None` if the table is full.
    fn number(&mut self, half: u32) -> Option<u8> {
        let known = self.masks[..self.len].iter().position(|&mask| mask == half);
        if known.is_none() {
            *self.masks.get_mut(self.len)? = half;
            self.len += 1;
        }
        Some(known.unwrap_or(self.len - 1) as u8)
    }

    /// The numbers of a mask's halves; `None` if the table is full.
    pub(crate) fn numbers(&mut self, mask: u64) -> Option<u16> {
        let low = self.number(mask as u32)?;
        let high = self.number((mask >> 32) as u32)?;
        Some(u16::from_le_bytes([low, high]))
    }

    /// The mask with these numbers.
    #[inline(always)]
    pub(crate) fn mask_of(&self, numbers: u16) -> u64 {
        let [low, high] = numbers.to_le_bytes();
        let half = |number: u8| u64::from(self.masks[usize::from(number & Self::NUMBER_BITS)]);
        half(low) | half(high) << 32
    }

    #[inline(always)]
    fn mask(&self, numbers: &Numbers, lane: usize) -> u64 {
        self.mask_of(numbers_of(numbers, lane))
    }
}

/// The masks of eight lanes for one word.
///
/// # Safety
/// - The processor has AVX-512 F.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn masks_by_number_avx512(
    numbers: &Numbers,
    table: &MaskTable,
) -> std::arch::x86_64::__m512i {
    use std::arch::x86_64::*;
    const HALF: usize = MaskTable::COUNT / 2;
    const { assert!(std::mem::offset_of!(MaskTable, masks) == 0) };
    // SAFETY: numbers are 16 bytes. A table's masks are four lines at its beginning, which is
    // aligned to 64.
    unsafe {
        // The permutation ignores the other bits.
        let numbers = _mm512_cvtepu8_epi32(_mm_loadu_si128(numbers.as_ptr().cast()));
        let masks = table.masks.as_ptr();
        let (a, b) = (
            _mm512_load_si512(masks.cast()),
            _mm512_load_si512(masks.add(16).cast()),
        );
        let first = _mm512_permutex2var_epi32(a, numbers, b);
        if table.len <= HALF {
            return first;
        }
        let (a, b) = (
            _mm512_load_si512(masks.add(32).cast()),
            _mm512_load_si512(masks.add(48).cast()),
        );
        let is_last = _mm512_test_epi32_mask(numbers, _mm512_set1_epi32(HALF as i32));
        _mm512_mask_blend_epi32(is_last, first, _mm512_permutex2var_epi32(a, numbers, b))
    }
}

/// The number of values in `rising` (at most eight, ascending) that are not above `number`.
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
    // SAFETY: the load does not touch words that are not present.
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

                // The same by number, with a short or a long table; foreign bits do not
                // matter.
                let (values, masks): (Vec<Lanes>, Vec<Lanes>) = pairs
                    .iter()
                    .map(|[values, masks]| (*values, *masks))
                    .unzip();
                let mut tables = vec![MaskTable::new(); words];
                let others = (step % 2) * 20;
                let mut numbers = vec![[0, 0]; words];
                for (word, table) in tables.iter_mut().enumerate() {
                    (0..others).for_each(|other| _ = table.numbers(random(100 + other)));
                    for (lane, &mask) in masks[word].0.iter().enumerate() {
                        let number = table.numbers(mask).expect("few masks");
                        assert_eq!(table.mask_of(number), mask);
                        let noise = random(200 + lane as u64) as u16 & !MaskTable::NUMBERS_BITS;
                        let both = u64::from(number | noise);
                        numbers[word][lane / 4] |= both << (16 * (lane % 4));
                    }
                }
                let numbered = (values.as_slice(), numbers.as_slice(), tables.as_slice());
                assert_eq!(simd.lanes_by_number(numbered, &apart, distance), expected);

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

    #[test]
    fn a_table_has_no_more_than_its_masks() {
        let mut table = MaskTable::new();
        assert_eq!(table.numbers(0), Some(0));
        for mask in 1..MaskTable::COUNT as u64 {
            assert_eq!(table.numbers(mask), Some(mask as u16));
        }
        assert_eq!(table.numbers(MaskTable::COUNT as u64), None);
        assert_eq!(
            table.numbers(63 << 32 | 5),
            Some(63 << 8 | 5),
            "these are known"
        );
    }

    #[test]
    fn top_bits_are_found_as_one_by_one() {
        for step in 0..1000 {
            let line = Lanes(std::array::from_fn(|word| hash_words(step, &[word as u64])));
            assert_eq!(top_bits(&line), top_bits_plain(&line));
        }
    }
}
