//! The limits that several parts of the index share.

/// The most keys in flight at once.
pub(super) const BURST: usize = 32;

/// Stands for no slot.
pub(super) const NO_SLOT: u32 = u32::MAX;

/// The most words of a packed key; rules that read more bits stay in the remainder.
pub(super) const PACKED_WORDS_MAX: usize = 16;
