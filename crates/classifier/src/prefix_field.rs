//! A field that rules match by prefix, and the position of its leading bits in a key.

use thalweg_packet::Slot;

use crate::prefix_trie::BITS_MAX;

/// An address or a port as up to 128 left-aligned bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefixField {
    slot: Slot,
}

impl PrefixField {
    /// Creates a prefix field for a slot.
    ///
    /// # Panics
    /// If the field has no bits or more than 128.
    pub(crate) fn new(slot: Slot) -> PrefixField {
        let width_bits = u32::from(slot.width_bits);
        assert!(
            (1..=BITS_MAX).contains(&width_bits),
            "a prefix field has 1 to 128 bits"
        );
        PrefixField { slot }
    }

    /// The first word that holds bits of the field.
    pub(crate) fn word(self) -> usize {
        usize::from(self.slot.word)
    }

    /// One past the last word that holds bits of the field.
    pub(crate) fn words_end(self) -> usize {
        self.word() + self.slot.word_count()
    }

    /// The field's bits, left-aligned.
    #[inline]
    pub(crate) fn value(self, key: &[u64]) -> u128 {
        let unused = BITS_MAX - u32::from(self.slot.width_bits);
        if self.slot.width_bits <= 64 {
            u128::from(key[self.word()] >> self.slot.shift) << unused
        } else {
            (u128::from(key[self.word()]) << 64 | u128::from(key[self.word() + 1])) << unused
        }
    }

    /// The length of a mask's prefix of the field; zero if the mask's bits are not a prefix.
    pub(crate) fn prefix_length(self, mask: &[u64]) -> u32 {
        let bits = self.value(mask);
        let length = bits.leading_ones();
        let is_prefix = bits == leading(length);
        if is_prefix { length } else { 0 }
    }

    /// The number of leading bits of the field that a mask has.
    pub(crate) fn leading_bits(self, mask: &[u64]) -> u32 {
        self.value(mask).leading_ones()
    }

    pub(crate) fn width_bits(self) -> u32 {
        u32::from(self.slot.width_bits)
    }

    /// The masks of the field's first `length` bits, word by word.
    pub(crate) fn masks(self, length: u32) -> impl Iterator<Item = (usize, u64)> {
        let bits = leading(length) >> (BITS_MAX - u32::from(self.slot.width_bits));
        let parts = match self.slot.width_bits {
            0..=64 => [
                (self.word(), (bits as u64) << self.slot.shift),
                (self.word(), 0),
            ],
            _ => [
                (self.word(), (bits >> 64) as u64),
                (self.word() + 1, bits as u64),
            ],
        };
        parts.into_iter()
    }
}

/// A mask of the first `length` of 128 bits.
fn leading(length: u32) -> u128 {
    !u128::MAX.checked_shr(length).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_narrow_and_wide_fields() {
        let narrow = PrefixField::new(Slot {
            word: 1,
            shift: 16,
            width_bits: 32,
        });
        assert_eq!(narrow.prefix_length(&[0, 0xff00_0000_0000]), 8);
        assert_eq!(narrow.prefix_length(&[0, 0xff00_ff00_0000]), 0);
        assert_eq!(narrow.value(&[0, 0x8000_0000_0000]), 1 << 127);
        assert_eq!(narrow.masks(8).next(), Some((1, 0xff00_0000_0000)));
        let wide = PrefixField::new(Slot {
            word: 0,
            shift: 0,
            width_bits: 100,
        });
        assert_eq!(wide.prefix_length(&[0xf_ffff_ffff, 1 << 63]), 37);
        assert!(wide.masks(37).eq([(0, 0xf_ffff_ffff), (1, 1 << 63)]));
    }
}
