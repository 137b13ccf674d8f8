//! Unsigned numbers of any width, in P4Runtime's format.
//!
//! A number is a byte string, the most significant byte first. The shortest one is canonical,
//! and a server answers with it; longer ones are accepted (P4Runtime 1.5.0, section
//! "Bytestrings"). The only refused strings are numbers wider than P4Info allows, and the empty
//! string.
//!
//! 1. A [`Value`] has no leading zero byte, except for zero, which is one byte. So equal
//!    numbers are equal values, and the order is by length first, then by bytes.

use std::cmp::Ordering;
use std::fmt;

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};

/// An unsigned number in its shortest form.
///
/// ```
/// use thalweg_control::Value;
///
/// let value = Value::parse(&[0, 0x63], 8).expect("99 fits into 8 bits");
/// assert_eq!(value.as_bytes(), [0x63]);
/// assert!(Value::parse(&[1, 0x63], 8).is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Value(SmallVec<[u8; 16]>);

/// Why bytes are no number of a given width.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadValue {
    /// There are no bytes; zero is one byte.
    #[error("the bytes are empty; send zero as one zero byte")]
    Empty,
    /// The number needs more bits.
    #[error("the number needs {needed} bits and has {width}; send one that fits")]
    Wide {
        /// Bits that the number needs.
        needed: u32,
        /// Bits that the width allows.
        width: u32,
    },
}

impl Value {
    /// Parses bytes as a number of up to `width` bits.
    ///
    /// # Errors
    /// Fails if there are no bytes, or the number does not fit.
    pub fn parse(bytes: &[u8], width: u32) -> Result<Value, BadValue> {
        if bytes.is_empty() {
            return Err(BadValue::Empty);
        }
        let value = Value::shortest(bytes);
        let needed = value.bits();
        if needed > width {
            return Err(BadValue::Wide { needed, width });
        }
        Ok(value)
    }

    /// The number in these bytes, of any width; no bytes are zero.
    pub fn shortest(bytes: &[u8]) -> Value {
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        if zeros == bytes.len() {
            return Value(smallvec![0]);
        }
        Value(SmallVec::from_slice(&bytes[zeros..]))
    }

    /// The number with `width` bits, all set.
    pub fn ones(width: u32) -> Value {
        Value::prefix(width, width)
    }

    /// The number of `width` bits whose first `length` bits are set.
    ///
    /// # Panics
    /// Panics if `length` exceeds `width`.
    pub fn prefix(length: u32, width: u32) -> Value {
        assert!(length <= width, "a prefix is no longer than what it is of");
        let mut bytes: SmallVec<[u8; 16]> = smallvec![0; width.div_ceil(8) as usize];
        let count = bytes.len();
        for bit in width - length..width {
            bytes[count - 1 - bit as usize / 8] |= 1 << (bit % 8);
        }
        Value::shortest(&bytes)
    }

    /// The shortest bytes, the most significant first; never empty.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The shortest bytes, for sending.
    pub fn to_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(&self.0)
    }

    /// The bytes of a field of `width` bits, the most significant first.
    ///
    /// # Panics
    /// Panics if the number needs more bits.
    pub fn to_fixed(&self, width: u32) -> Vec<u8> {
        assert!(self.bits() <= width, "{self:?} does not fit {width} bits");
        let length = width.div_ceil(8) as usize;
        let mut bytes = vec![0; length];
        let own = self.0.len().min(length);
        bytes[length - own..].copy_from_slice(&self.0[self.0.len() - own..]);
        bytes
    }

    /// Number of bits it needs; zero needs one, as in the standard.
    pub fn bits(&self) -> u32 {
        let first = self.0[0];
        let rest = (self.0.len() as u32 - 1) * 8;
        (rest + (8 - first.leading_zeros())).max(1)
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.0.len() == 1 && self.0[0] == 0
    }

    /// Whether every bit that is set is also set in `mask`.
    pub fn is_within(&self, mask: &Value) -> bool {
        let (own, other) = (&self.0, &mask.0);
        if self.is_zero() {
            return true;
        }
        if own.len() > other.len() {
            return false;
        }
        let tail = &other[other.len() - own.len()..];
        own.iter().zip(tail).all(|(own, other)| own & !other == 0)
    }

    /// The number, if it has at most 64 bits.
    pub fn to_u64(&self) -> Option<u64> {
        if self.0.len() > 8 {
            return None;
        }
        let number = self
            .0
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte));
        Some(number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::shortest(&number.to_be_bytes())
    }
}

// Invariant 1: of two numbers the longer is the greater.
impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes the number in hexadecimal, two digits per byte.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The unsigned rows of the standard's two tables of examples.
    #[test]
    fn the_standards_examples() {
        let accepted: [(&[u8], u32, u64); 7] = [
            (&[0x63], 8, 99),
            (&[0, 0x63], 16, 99),
            (&[0x63], 16, 99),
            (&[0x30, 0x64], 16, 12_388),
            (&[0, 0x30, 0x64], 16, 12_388),
            (&[0, 0x63], 12, 99),
            (&[0, 0, 0x63], 12, 99),
        ];
        for (bytes, width, number) in accepted {
            let value = Value::parse(bytes, width).unwrap();
            assert_eq!(value.to_u64(), Some(number));
            assert_eq!(value, Value::from(number));
        }
        let refused: [(&[u8], u32); 6] = [
            (&[1, 0x63], 8),
            (&[], 8),
            (&[1, 0, 0x63], 16),
            (&[0x10, 0x63], 12),
            (&[1, 0, 0x63], 12),
            (&[0, 0x40, 0x63], 12),
        ];
        for (bytes, width) in refused {
            assert!(Value::parse(bytes, width).is_err(), "{bytes:?} in {width}");
        }
    }

    #[test]
    fn all_small_numbers_behave_as_numbers() {
        for left in 0..600_u64 {
            let value = Value::from(left);
            assert_eq!(value.to_u64(), Some(left));
            assert_eq!(value.bits(), (64 - left.leading_zeros()).max(1));
            assert_eq!(value.is_zero(), left == 0);
            assert_eq!(Value::shortest(&value.to_fixed(77)), value);
            for right in (0..600).step_by(7) {
                let other = Value::from(right);
                assert_eq!(value.cmp(&other), left.cmp(&right));
                assert_eq!(value.is_within(&other), left & right == left);
            }
        }
    }

    #[test]
    fn prefixes_and_ones() {
        for width in 1..=64_u32 {
            for length in 0..=width {
                let expected =
                    (!0_u64 >> (64 - width)) & !((1_u128 << (width - length)) - 1) as u64;
                assert_eq!(Value::prefix(length, width).to_u64(), Some(expected));
            }
        }
        assert_eq!(Value::ones(128).to_fixed(128), [0xff; 16]);
        assert_eq!(Value::prefix(1, 200).bits(), 200);
    }
}
