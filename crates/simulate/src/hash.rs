//! The hash that names finished runs.

use std::fmt;

/// MurmurHash3 (x64, 128 bits).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hash(u128);

impl Hash {
    /// Hashes some bytes.
    pub(super) fn of(bytes: &[u8]) -> Hash {
        let hash = murmur3::murmur3_x64_128(&mut &bytes[..], 0);
        Hash(hash.expect("a slice can be read"))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
