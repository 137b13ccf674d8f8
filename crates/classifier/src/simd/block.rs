//! The instructions that find the fields of one block: a scalar twin, AVX2 and AVX-512.
//!
//! `fields.rs` says what they find. Other threads may change a block at any time. Words are read
//! by relaxed loads, or by one assembler instruction, which the compiler cannot treat as a plain
//! read. So each word is one that was stored; callers may rely on no more.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// 512 bits that several threads read and write.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Block(pub(crate) [AtomicU64; 8]);

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
