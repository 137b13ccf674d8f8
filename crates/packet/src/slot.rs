//! The place of a field in the words of a key.

/// Where a field lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The first word.
    pub word: u16,
    /// The shift of the field in its word (0 for fields wider than a word).
    pub shift: u8,
    /// The field's width in bits.
    pub width_bits: u16,
}

impl Slot {
    /// The number of words that the field touches.
    pub fn word_count(self) -> usize {
        usize::from(self.width_bits).div_ceil(64)
    }

    /// The word and the bit within it that hold bit `bit` of the field.
    ///
    /// # Panics
    /// If the field has no such bit.
    pub fn position(self, bit: u16) -> (usize, u32) {
        assert!(bit < self.width_bits, "bit past the field's width");
        let from_last = usize::from(bit / 64);
        let word = usize::from(self.word) + self.word_count() - 1 - from_last;
        (word, u32::from(bit % 64) + u32::from(self.shift))
    }
}

/// The `width` lowest bits of a word.
pub(crate) fn ones(width: u16) -> u64 {
    if width >= 64 {
        u64::MAX
    } else {
        (1 << width) - 1
    }
}
