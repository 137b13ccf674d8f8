//! Several fields in sequence as one number, by which an iSet is sorted.
//!
//! ```text
//!   fields   destination (32 bits), destination port (16)
//!   key      destination 10.1.2.3, port 80, ...      number  0a010203_0050
//!   rule     destination 10.1.2.3, ports 80 to 83    block   0a010203_0050 ..= 0a010203_0053
//!   rule     destination 10.1.0.0/16, port 80        block   0a010000_0000 ..= 0a01ffff_ffff
//! ```
//!
//! A rule's block comes from the leading bits of the number that its mask has without a gap.
//! So every key that the rule matches lies within the block, whatever the mask. Any two blocks
//! are nested or disjoint.
//!
//! 1. A number has at most 128 bits, and no bit of the key is in it twice.

use thalweg_packet::Slot;

/// The most bits of a number.
pub(super) const BITS_MAX: u32 = 128;

/// The bits of a key that make up the number, most significant first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Composite {
    parts: Vec<Part>,
    bits: u32,
}

/// Some bits of one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    word: usize,
    shift: u32,
    bits: u32,
}

impl Part {
    #[inline(always)]
    fn of(self, words: &[u64]) -> u64 {
        words[self.word] >> self.shift & u64::MAX >> (64 - self.bits)
    }
}

/// The keys whose numbers share their first bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Block {
    /// The lowest number.
    pub(super) low: u128,
    /// The number of fixed leading bits.
    pub(super) length: u32,
}

impl Composite {
    /// The fields in sequence; bits beyond 128 are dropped at the end.
    pub(super) fn new(fields: impl IntoIterator<Item = Slot>) -> Composite {
        let mut composite = Composite {
            parts: Vec::new(),
            bits: 0,
        };
        for slot in fields {
            let count = slot.word_count();
            for index in 0..count {
                let width = u32::from(slot.width_bits);
                let bits = if index == 0 {
                    width - 64 * (count as u32 - 1)
                } else {
                    64
                };
                composite.push(Part {
                    word: usize::from(slot.word) + index,
                    shift: u32::from(slot.shift),
                    bits,
                });
            }
        }
        composite
    }

    fn push(&mut self, part: Part) {
        let bits = part.bits.min(BITS_MAX - self.bits);
        if bits == 0 {
            return;
        }
        self.bits += bits;
        let shift = part.shift + part.bits - bits;
        if let Some(last) = self.parts.last_mut()
            && last.word == part.word
            && shift + bits == last.shift
        {
            // Parts that are adjacent in the key are merged.
            last.shift = shift;
            last.bits += bits;
            return;
        }
        self.parts.push(Part {
            shift,
            bits,
            ..part
        });
    }

    /// The number of bits.
    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    /// The number of a key; it must have at most 64 bits.
    #[inline(always)]
    pub(super) fn narrow(&self, key: &[u64]) -> u64 {
        let mut number = 0u64;
        for part in &self.parts {
            // Shifts in two steps, because the shift may be 64.
            number = number << (part.bits - 1) << 1 | part.of(key);
        }
        number
    }

    /// The numbers of several keys of `words` words each; they must have at most 64 bits.
    #[inline(always)]
    pub(super) fn narrow_burst(&self, keys: &[u64], words: usize, numbers: &mut [u64]) {
        numbers.fill(0);
        for &part in &self.parts {
            for (number, key) in numbers.iter_mut().zip(keys.chunks_exact(words)) {
                *number = *number << (part.bits - 1) << 1 | part.of(key);
            }
        }
    }

    /// The number of a key.
    #[inline(always)]
    pub(super) fn wide(&self, key: &[u64]) -> u128 {
        let mut number = 0u128;
        for part in &self.parts {
            number = number << part.bits | u128::from(part.of(key));
        }
        number
    }

    /// The block of a rule.
    #[inline]
    pub(super) fn block(&self, value: &[u64], mask: &[u64]) -> Block {
        let mut length = 0;
        for part in &self.parts {
            let ones = (part.of(mask) << (64 - part.bits)).leading_ones();
            length += ones;
            if ones < part.bits {
                break;
            }
        }
        Block {
            low: self.wide(value) & !self.rest(length),
            length,
        }
    }

    /// The highest number of a block.
    pub(super) fn high(&self, block: Block) -> u128 {
        block.low | self.rest(block.length)
    }

    /// All bits after the first `length`.
    fn rest(&self, length: u32) -> u128 {
        let after = self.bits - length;
        if after == 0 {
            0
        } else {
            u128::MAX >> (128 - after)
        }
    }

    /// The fewest leading bits that prove a number to be within a range.
    pub(super) fn bits_within(&self, number: u128, low: u128, high: u128) -> u32 {
        debug_assert!((low..=high).contains(&number));
        let is_inside = |length: &u32| {
            let rest = self.rest(*length);
            number & !rest >= low && number | rest <= high
        };
        let mut lengths = 0..=self.bits;
        lengths.find(is_inside).expect("a number is within itself")
    }

    /// Adds the first `length` bits to a mask of a key.
    pub(super) fn add_to(&self, mut length: u32, mask: &mut [u64]) {
        for part in &self.parts {
            let bits = part.bits.min(length);
            if bits == 0 {
                return;
            }
            mask[part.word] |= (u64::MAX >> (64 - bits)) << (part.shift + part.bits - bits);
            length -= bits;
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.parts.capacity() * size_of::<Part>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(word: u16, shift: u8, width_bits: u16) -> Slot {
        Slot {
            word,
            shift,
            width_bits,
        }
    }

    #[test]
    fn fields_become_one_number() {
        let composite = Composite::new([slot(0, 0, 32), slot(1, 16, 16)]);
        let key = [0xffff_ffff_0a01_0203, 0x50_1234];
        assert_eq!(composite.bits(), 48);
        assert_eq!(composite.narrow(&key), 0x0a01_0203_0050);
        assert_eq!(composite.wide(&key), 0x0a01_0203_0050);
        let mask = [0xffff_0000, 0xffff_0000];
        let block = composite.block(&[0x0a01_0000, 0x50_0000], &mask);
        assert_eq!(
            block,
            Block {
                low: 0x0a01_0000_0000,
                length: 16
            }
        );
        assert_eq!(composite.high(block), 0x0a01_ffff_ffff);
        let mut examined = [0, 0];
        composite.add_to(36, &mut examined);
        assert_eq!(examined, [0xffff_ffff, 0xf000_0000]);
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let composite = Composite::new([slot(0, 0, 100), slot(2, 0, 64)]);
        assert_eq!(composite.bits(), 128);
        let key = [0xf_0000_0001, 2, 0x1234_5678_9abc_def0];
        assert_eq!(
            composite.wide(&key),
            0xf_0000_0001 << 92 | 2 << 28 | 0x0123_4567
        );
        let all = composite.block(&key, &[u64::MAX; 3]);
        assert_eq!(
            all,
            Block {
                low: composite.wide(&key),
                length: 128
            }
        );
        assert_eq!(composite.high(all), all.low);
    }

    #[test]
    fn a_number_is_within_a_range_by_its_first_bits() {
        let composite = Composite::new([slot(0, 0, 8)]);
        assert_eq!(composite.bits_within(0x83, 0x00, 0xff), 0);
        assert_eq!(composite.bits_within(0x83, 0x80, 0xff), 1);
        assert_eq!(composite.bits_within(0x83, 0x83, 0xff), 8);
        assert_eq!(composite.bits_within(0x83, 0x81, 0x84), 7);
    }
}
