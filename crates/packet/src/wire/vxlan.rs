//! VXLAN: an Ethernet frame over UDP (RFC 7348 section 5).
//!
//! ```text
//!   0       1          4       7          8
//!   | flags | reserved | VNI   | reserved | Ethernet frame ...
//! ```
//!
//! Reserved bits are ignored on receipt and sent as zero, as the RFC requires. The extensions
//! that give them a meaning (group policy, generic protocol) are not read.

use super::WireError;
use super::field::{self, Field};

const FLAGS: usize = 0;
const IDENTIFIER: Field = 4..7;
const HEADER_END: usize = 8;

/// The I flag: the network identifier is valid (section 5).
const FLAG_IDENTIFIER: u8 = 0x08;
const IDENTIFIER_MAX: u32 = 0xff_ffff;

/// The UDP destination port of VXLAN (section 5).
pub const VXLAN_PORT: u16 = 4789;

/// A checked view of a VXLAN header.
#[derive(Clone, Copy, Debug)]
pub struct VxlanView<'a> {
    bytes: &'a [u8],
}

impl<'a> VxlanView<'a> {
    /// Bytes of the header.
    pub const HEADER_LEN: usize = HEADER_END;

    /// Views `bytes`, the payload of a UDP datagram, as VXLAN.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under eight bytes.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        Ok(VxlanView { bytes })
    }

    /// The eight flags.
    #[inline]
    pub fn flags(&self) -> u8 {
        self.bytes[FLAGS]
    }

    /// Whether the network identifier is valid.
    #[inline]
    pub fn has_identifier(&self) -> bool {
        self.flags() & FLAG_IDENTIFIER != 0
    }

    /// The VXLAN network identifier, 24 bits.
    #[inline]
    pub fn identifier(&self) -> u32 {
        field::read_u24(self.bytes, IDENTIFIER)
    }

    /// The frame inside.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[Self::HEADER_LEN..]
    }
}

/// The fields of a VXLAN header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VxlanRepr {
    /// The VXLAN network identifier, below 2^24.
    pub identifier: u32,
}

impl VxlanRepr {
    /// Reads the header.
    ///
    /// # Errors
    /// [`WireError::BadField`] if the identifier is not marked as valid.
    pub fn parse(view: &VxlanView<'_>) -> Result<Self, WireError> {
        if !view.has_identifier() {
            return Err(WireError::BadField);
        }
        Ok(VxlanRepr {
            identifier: view.identifier(),
        })
    }

    /// Bytes that [`VxlanRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        VxlanView::HEADER_LEN
    }

    /// Writes the header.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`VxlanRepr::buffer_len`] or the identifier has over 24 bits.
    pub fn emit(&self, bytes: &mut [u8]) {
        assert!(
            self.identifier <= IDENTIFIER_MAX,
            "a network identifier has 24 bits"
        );
        bytes[..HEADER_END].fill(0);
        bytes[FLAGS] = FLAG_IDENTIFIER;
        field::write_u24(bytes, IDENTIFIER, self.identifier);
    }
}
