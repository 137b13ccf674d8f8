//! Sixteen slots of 32 bits in one cache line, compared all at once.
//!
//! A hash table with open addressing visits one slot after another, and the processor
//! mispredicts how many. Here all slots of the first line are compared without a branch: which
//! have the tag, and which are empty.
//!
//! Each question is one comparison with AVX-512, or four with SSE2, which every x86-64
//! processor has. Elsewhere it is a loop, which is the twin. This is clearly faster than slot
//! by slot, both in bursts and one key at a time.

/// Sixteen slots.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u32; Line::SLOTS]);

impl Line {
    pub(crate) const SLOTS: usize = 16;
    pub(crate) const EMPTY: u32 = u32::MAX;

    /// Creates lines of empty slots.
    pub(crate) fn empty(count: usize) -> Box<[Line]> {
        vec![Line([Line::EMPTY; Line::SLOTS]); count].into()
    }

    /// The slots that equal `wanted` in the bits of `mask`: one bit each, the first slot
    /// lowest.
    #[inline(always)]
    pub(crate) fn alike(&self, wanted: u32, mask: u32) -> u32 {
        #[cfg(target_arch = "x86_64")]
        return self.alike_sse2(wanted, mask);
        #[cfg(not(target_arch = "x86_64"))]
        self.alike_plain(wanted, mask)
    }

    /// As [`Line::alike`], in one comparison.
    ///
    /// # Safety
    /// - The processor has AVX-512 F.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn alike_avx512(&self, wanted: u32, mask: u32) -> u32 {
        use std::arch::x86_64::*;
        // SAFETY: the line is 64 bytes, aligned to 64.
        let slots = unsafe { _mm512_load_si512(std::ptr::from_ref(self).cast()) };
        let slots = _mm512_and_si512(slots, _mm512_set1_epi32(mask as i32));
        u32::from(_mm512_cmpeq_epi32_mask(
            slots,
            _mm512_set1_epi32(wanted as i32),
        ))
    }

    /// The scalar twin.
    #[cfg(any(test, not(target_arch = "x86_64")))]
    fn alike_plain(&self, wanted: u32, mask: u32) -> u32 {
        let slots = self.0.iter().enumerate();
        slots.fold(0, |bits, (place, &slot)| {
            bits | u32::from(slot & mask == wanted) << place
        })
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn alike_sse2(&self, wanted: u32, mask: u32) -> u32 {
        use std::arch::x86_64::*;
        // SAFETY: SSE2 is part of every x86-64 processor; the line is 64 bytes, aligned to 64.
        unsafe {
            let (wanted, mask) = (_mm_set1_epi32(wanted as i32), _mm_set1_epi32(mask as i32));
            let quarters = std::ptr::from_ref(self).cast::<__m128i>();
            let equal = |quarter| {
                let slots = _mm_and_si128(_mm_load_si128(quarters.add(quarter)), mask);
                _mm_cmpeq_epi32(slots, wanted)
            };
            let low = _mm_packs_epi32(equal(0), equal(1));
            let high = _mm_packs_epi32(equal(2), equal(3));
            _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash_words;

    #[test]
    fn a_line_is_seen_as_slot_by_slot() {
        for step in 0..20_000_u64 {
            let random = |salt| hash_words(salt, &[step]);
            let mask = if step % 3 == 0 {
                0xff00_0000
            } else {
                random(1) as u32
            };
            let wanted = random(2) as u32 & mask;
            let slot = |place: usize| match random(3 + place as u64) % 4 {
                0 => Line::EMPTY,
                1 => wanted | (random(99) as u32 & !mask),
                // Differs in one bit.
                2 => wanted ^ 1 << (random(40 + place as u64) % 32),
                _ => random(70 + place as u64) as u32,
            };
            let line = Line(std::array::from_fn(slot));
            assert_eq!(line.alike(wanted, mask), line.alike_plain(wanted, mask));
        }
    }
}
