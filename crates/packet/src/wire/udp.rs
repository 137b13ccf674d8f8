//! The UDP header (RFC 768).
//!
//! ```text
//!   0             2                  4        6
//!   | source port | destination port | length | checksum | payload ...
//! ```
//!
//! A first fragment states the length of the whole datagram, which is longer than the
//! fragment. [`UdpView::new_header_checked`] accepts it. A checksum of zero means that there
//! is none.

use super::WireError;
use super::field::{self, Field};
use crate::checksum::{Sum, is_udp_checksum_absent, udp_checksum_for_wire};

const SOURCE_PORT: Field = 0..2;
const DESTINATION_PORT: Field = 2..4;
const LENGTH: Field = 4..6;
const CHECKSUM: Field = 6..8;

/// A checked view of a UDP datagram.
#[derive(Clone, Copy, Debug)]
pub struct UdpView<'a> {
    bytes: &'a [u8],
}

impl<'a> UdpView<'a> {
    /// Bytes of the header.
    pub const HEADER_LEN: usize = CHECKSUM.end;

    /// Views `bytes` as a datagram; bytes behind it are allowed.
    ///
    /// # Errors
    /// Those of [`UdpView::new_header_checked`], and [`WireError::Truncated`] if the datagram is
    /// longer than `bytes`.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        let view = Self::new_header_checked(bytes)?;
        if bytes.len() < view.len() {
            return Err(WireError::Truncated);
        }
        Ok(view)
    }

    /// Views `bytes` as the beginning of a datagram: the header is whole, the payload may be cut.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under eight bytes, [`WireError::BadLength`] if the length does not
    /// even cover the header.
    #[inline]
    pub fn new_header_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        let view = UdpView { bytes };
        if view.len() < Self::HEADER_LEN {
            return Err(WireError::BadLength);
        }
        Ok(view)
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

    /// The length of header and payload in bytes, as the header states; never zero.
    #[inline]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a datagram has at least its header"
    )]
    pub fn len(&self) -> usize {
        usize::from(field::read_u16(self.bytes, LENGTH))
    }

    /// The checksum as stored.
    #[inline]
    pub fn checksum(&self) -> u16 {
        field::read_u16(self.bytes, CHECKSUM)
    }

    /// Whether the datagram's checksum is valid or absent.
    pub fn has_valid_checksum(&self, pseudo_header: Sum) -> bool {
        is_udp_checksum_absent(self.checksum())
            || pseudo_header.with_bytes(self.datagram()).is_valid()
    }

    /// The payload of the datagram; shorter if the bytes were cut.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.datagram()[Self::HEADER_LEN..]
    }

    #[inline]
    fn datagram(&self) -> &'a [u8] {
        &self.bytes[..self.len().min(self.bytes.len())]
    }
}

/// The fields of a UDP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpRepr {
    /// The port of the sender.
    pub source_port: u16,
    /// The port of the receiver.
    pub destination_port: u16,
    /// Bytes behind the header; at most 65,527.
    pub payload_len: usize,
}

impl UdpRepr {
    /// Reads the header.
    ///
    /// # Errors
    /// None beyond those of the view.
    pub fn parse(view: &UdpView<'_>) -> Result<Self, WireError> {
        Ok(UdpRepr {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            payload_len: view.len() - UdpView::HEADER_LEN,
        })
    }

    /// Bytes that [`UdpRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        UdpView::HEADER_LEN
    }

    /// Writes the header without a checksum; see [`UdpRepr::fill_checksum`].
    ///
    /// # Panics
    /// If `bytes` is shorter than [`UdpRepr::buffer_len`] or the payload is too long.
    pub fn emit(&self, bytes: &mut [u8]) {
        let len = u16::try_from(UdpView::HEADER_LEN + self.payload_len)
            .expect("a UDP datagram has under 65,536 bytes");
        field::write_u16(bytes, SOURCE_PORT, self.source_port);
        field::write_u16(bytes, DESTINATION_PORT, self.destination_port);
        field::write_u16(bytes, LENGTH, len);
        field::write_u16(bytes, CHECKSUM, 0);
    }

    /// Writes the checksum of a datagram whose header and payload are in place.
    ///
    /// # Panics
    /// If `datagram` is shorter than its header.
    pub fn fill_checksum(datagram: &mut [u8], pseudo_header: Sum) {
        field::write_u16(datagram, CHECKSUM, 0);
        let computed = pseudo_header.with_bytes(datagram).checksum();
        field::write_u16(datagram, CHECKSUM, udp_checksum_for_wire(computed));
    }
}
