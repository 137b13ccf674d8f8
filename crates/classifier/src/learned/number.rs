//! The numbers that an iSet sorts its rules by.

use crate::simd::Simd;

/// A number of an iSet, with 64 or 128 bits.
pub(super) trait Number: Copy + Ord + std::fmt::Debug {
    /// The number of bits.
    const BITS: u32;

    fn from_wide(wide: u128) -> Self;
    fn to_wide(self) -> u128;
    /// The distance from a lower number.
    fn minus(self, low: Self) -> Self;
    /// The lowest 64 of the bits from `shift` on; `shift` must be below [`Number::BITS`].
    fn bits_from(self, shift: u32) -> u64;
    /// The index of the last value in `rising` that is not above this number; the first must
    /// not be.
    fn place_among<S: Simd>(self, simd: S, rising: &[Self]) -> usize;
}

impl Number for u64 {
    const BITS: u32 = 64;

    #[inline(always)]
    fn from_wide(wide: u128) -> u64 {
        wide as u64
    }

    #[inline(always)]
    fn to_wide(self) -> u128 {
        self.into()
    }

    #[inline(always)]
    fn minus(self, low: u64) -> u64 {
        self.wrapping_sub(low)
    }

    #[inline(always)]
    fn bits_from(self, shift: u32) -> u64 {
        self >> shift
    }

    #[inline(always)]
    fn place_among<S: Simd>(self, simd: S, rising: &[u64]) -> usize {
        simd.last_not_above(rising, self)
    }
}

impl Number for u128 {
    const BITS: u32 = 128;

    #[inline(always)]
    fn from_wide(wide: u128) -> u128 {
        wide
    }

    #[inline(always)]
    fn to_wide(self) -> u128 {
        self
    }

    #[inline(always)]
    fn minus(self, low: u128) -> u128 {
        self.wrapping_sub(low)
    }

    #[inline(always)]
    fn bits_from(self, shift: u32) -> u64 {
        (self >> shift) as u64
    }

    #[inline(always)]
    fn place_among<S: Simd>(self, _: S, rising: &[u128]) -> usize {
        crate::simd::last_not_above(rising, self)
    }
}
