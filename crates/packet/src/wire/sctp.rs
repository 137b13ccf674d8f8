//! The SCTP common header (RFC 9260 section 3.1); its chunks are payload here.
//!
//! ```text
//!   0             2                  4                  8
//!   | source port | destination port | verification tag | CRC32c | chunks ...
//! ```

use super::WireError;
use super::field::{self, Field};
use crate::checksum::sctp_checksum;

const SOURCE_PORT: Field = 0..2;
const DESTINATION_PORT: Field = 2..4;
const VERIFICATION_TAG: Field = 4..8;
const CHECKSUM: Field = 8..12;

/// A checked view of an SCTP packet.
#[derive(Clone, Copy, Debug)]
pub struct SctpView<'a> {
    bytes: &'a [u8],
}

impl<'a> SctpView<'a> {
    /// Bytes of the common header.
    pub const HEADER_LEN: usize = CHECKSUM.end;

    /// Views `bytes` as a packet.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under twelve bytes.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        Ok(SctpView { bytes })
    }

    /// The port of the sender.
    #[inline]
    pub fn source_port(&self) -> u16 {
        field::read_u16(self.bytes, SOURCE_PORT)
    }

    /// The port of the receiver.
    #[inline]
    pub fn destination_port(&self) -> u16 {
        field::read_u16(self.bytes, DESTINATION_PORT)
    }

    /// The tag by which the receiver identifies the association.
    #[inline]
    pub fn verification_tag(&self) -> u32 {
        field::read_u32(self.bytes, VERIFICATION_TAG)
    }

    /// The CRC32c as stored; it travels low byte first.
    #[inline]
    pub fn checksum(&self) -> u32 {
        u32::from_le_bytes(field::read(self.bytes, CHECKSUM))
    }

    /// Whether the checksum is valid; `bytes` must end where the packet ends.
    pub fn has_valid_checksum(&self) -> bool {
        self.checksum() == sctp_checksum(self.bytes)
    }

    /// The chunks.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[Self::HEADER_LEN..]
    }
}

/// The fields of an SCTP common header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SctpRepr {
    /// The port of the sender.
    pub source_port: u16,
    /// The port of the receiver.
    pub destination_port: u16,
    /// The tag by which the receiver identifies the association.
    pub verification_tag: u32,
}

impl SctpRepr {
    /// Reads the header.
    ///
    /// # Errors
    /// None beyond those of the view.
    pub fn parse(view: &SctpView<'_>) -> Result<Self, WireError> {
        Ok(SctpRepr {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            verification_tag: view.verification_tag(),
        })
    }

    /// Bytes that [`SctpRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        SctpView::HEADER_LEN
    }

    /// Writes the header without a checksum; see [`SctpRepr::fill_checksum`].
    ///
    /// # Panics
    /// If `bytes` is shorter than [`SctpRepr::buffer_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        field::write_u16(bytes, SOURCE_PORT, self.source_port);
        field::write_u16(bytes, DESTINATION_PORT, self.destination_port);
        field::write_u32(bytes, VERIFICATION_TAG, self.verification_tag);
        field::write_u32(bytes, CHECKSUM, 0);
    }

    /// Writes the checksum of a packet whose header and chunks are in place.
    ///
    /// # Panics
    /// If `packet` is shorter than its header.
    pub fn fill_checksum(packet: &mut [u8]) {
        let computed = sctp_checksum(packet);
        field::write(packet, CHECKSUM, &computed.to_le_bytes());
    }
}
