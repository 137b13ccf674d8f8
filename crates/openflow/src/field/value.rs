//! Values and masks of fields.

use std::fmt;

use smallvec::SmallVec;

/// A field's value or mask: as many bytes as the field has on the wire, big-endian.
///
/// All fields but the options of tunnels have at most 16 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Value(SmallVec<[u8; 16]>);

impl Value {
    /// The value with these bytes.
    pub fn from_bytes(bytes: &[u8]) -> Value {
        Value(SmallVec::from_slice(bytes))
    }

    /// A number in `bytes` bytes; bits above them are dropped.
    pub fn from_number(number: u128, bytes: usize) -> Value {
        let mut value = Value(SmallVec::from_elem(0, bytes));
        let all = number.to_be_bytes();
        let kept = bytes.min(all.len());
        value.0[bytes - kept..].copy_from_slice(&all[all.len() - kept..]);
        value
    }

    /// All `width_bits` lowest bits of `bytes` bytes.
    pub fn ones(width_bits: u16, bytes: usize) -> Value {
        let mut value = Value(SmallVec::from_elem(0, bytes));
        let width_bits = usize::from(width_bits).min(8 * bytes);
        let (whole, rest) = (width_bits / 8, width_bits % 8);
        value.0[bytes - whole..].fill(0xff);
        if rest > 0 {
            value.0[bytes - 1 - whole] = (1 << rest) - 1;
        }
        value
    }

    /// Its lowest 128 bits as a number.
    pub fn number(&self) -> u128 {
        let fold = |number: u128, byte: &u8| number << 8 | u128::from(*byte);
        self.0.iter().fold(0, fold)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether every bit is zero.
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }

    /// Whether every bit is one.
    pub fn is_ones(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0xff)
    }

    /// Whether it has a bit that `mask` lacks.
    pub fn exceeds(&self, mask: &Value) -> bool {
        let mut pairs = self.0.iter().zip(&mask.0);
        pairs.any(|(value, mask)| value & !mask != 0)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
