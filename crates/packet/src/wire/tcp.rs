//! The TCP header (RFC 9293 section 3.1).
//!
//! ```text
//!   0             2                  4          8
//!   | source port | destination port | sequence | acknowledgment |
//!   12                    14       16         18
//!   | len:4, flags:12     | window | checksum | urgent pointer | options ...
//! ```

use std::ops::BitOr;

use super::field::{self, Field};
use super::{TcpOptions, WireError};
use crate::checksum::Sum;

const SOURCE_PORT: Field = 0..2;
const DESTINATION_PORT: Field = 2..4;
const SEQUENCE: Field = 4..8;
const ACKNOWLEDGMENT: Field = 8..12;
const LENGTH_AND_FLAGS: Field = 12..14;
const WINDOW: Field = 14..16;
const CHECKSUM: Field = 16..18;
const URGENT_POINTER: Field = 18..20;
const OPTIONS_START: usize = 20;

const LENGTH_SHIFT: u32 = 12;
/// The header length is counted in 32-bit words in four bits; five of the words are fixed.
const OPTIONS_LEN_MAX: usize = 40;

/// A checked view of a TCP segment.
#[derive(Clone, Copy, Debug)]
pub struct TcpView<'a> {
    bytes: &'a [u8],
}

impl<'a> TcpView<'a> {
    /// The length of the header without options, in bytes.
    pub const HEADER_LEN: usize = OPTIONS_START;

    /// Views `bytes` as a segment.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if the header is not whole, [`WireError::BadLength`] if its length
    /// is under 20 bytes.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        let view = TcpView { bytes };
        if view.header_len() < Self::HEADER_LEN {
            return Err(WireError::BadLength);
        }
        if bytes.len() < view.header_len() {
            return Err(WireError::Truncated);
        }
        Ok(view)
    }

    /// The length of the header with its options, in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        4 * usize::from(field::read_u16(self.bytes, LENGTH_AND_FLAGS) >> LENGTH_SHIFT)
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

    /// The sequence number of the payload's first byte.
    #[inline]
    pub fn sequence(&self) -> u32 {
        field::read_u32(self.bytes, SEQUENCE)
    }

    /// The sequence number of the next byte that the sender expects.
    #[inline]
    pub fn acknowledgment(&self) -> u32 {
        field::read_u32(self.bytes, ACKNOWLEDGMENT)
    }

    /// The flags, reserved ones included.
    #[inline]
    pub fn flags(&self) -> TcpFlags {
        TcpFlags(field::read_u16(self.bytes, LENGTH_AND_FLAGS) & TcpFlags::ALL.0)
    }

    /// The window, unscaled.
    #[inline]
    pub fn window(&self) -> u16 {
        field::read_u16(self.bytes, WINDOW)
    }

    /// The checksum as stored.
    #[inline]
    pub fn checksum(&self) -> u16 {
        field::read_u16(self.bytes, CHECKSUM)
    }

    /// Whether the checksum is valid; `bytes` must end where the segment ends.
    pub fn has_valid_checksum(&self, pseudo_header: Sum) -> bool {
        pseudo_header.with_bytes(self.bytes).is_valid()
    }

    /// The end of urgent data, relative to the sequence number.
    #[inline]
    pub fn urgent_pointer(&self) -> u16 {
        field::read_u16(self.bytes, URGENT_POINTER)
    }

    /// The bytes of the options, padding included.
    #[inline]
    pub fn option_bytes(&self) -> &'a [u8] {
        &self.bytes[OPTIONS_START..self.header_len()]
    }

    /// The options, in order; each item may be malformed.
    #[inline]
    pub fn options(&self) -> TcpOptions<'a> {
        TcpOptions::new(self.option_bytes())
    }

    /// The payload of the segment.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len()..]
    }
}

/// The flags of a segment as 12 bits: nine named, three reserved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TcpFlags(pub u16);

impl TcpFlags {
    /// The sender has no more data (RFC 9293 section 3.1, also for the next five).
    pub const FIN: TcpFlags = TcpFlags(0x001);
    /// Synchronises sequence numbers.
    pub const SYN: TcpFlags = TcpFlags(0x002);
    /// Resets the connection.
    pub const RST: TcpFlags = TcpFlags(0x004);
    /// Asks for delivery without waiting for more data.
    pub const PSH: TcpFlags = TcpFlags(0x008);
    /// The acknowledgment number is valid.
    pub const ACK: TcpFlags = TcpFlags(0x010);
    /// The urgent pointer is valid.
    pub const URG: TcpFlags = TcpFlags(0x020);
    /// Congestion was seen (RFC 3168 section 6.1).
    pub const ECE: TcpFlags = TcpFlags(0x040);
    /// The congestion window was reduced (RFC 3168 section 6.1).
    pub const CWR: TcpFlags = TcpFlags(0x080);
    /// The nonce sum (RFC 3540 section 9, historic); accurate ECN in RFC 9768.
    pub const NS: TcpFlags = TcpFlags(0x100);
    /// Every flag, reserved ones included.
    pub const ALL: TcpFlags = TcpFlags(0xfff);

    /// Whether all flags of `other` are set.
    #[inline]
    pub const fn contains(self, other: TcpFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for TcpFlags {
    type Output = TcpFlags;

    fn bitor(self, other: TcpFlags) -> TcpFlags {
        TcpFlags(self.0 | other.0)
    }
}

/// The fields of a TCP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpRepr<'a> {
    /// The port of the sender.
    pub source_port: u16,
    /// The port of the receiver.
    pub destination_port: u16,
    /// The sequence number of the payload's first byte.
    pub sequence: u32,
    /// The sequence number of the next byte that the sender expects.
    pub acknowledgment: u32,
    /// The flags.
    pub flags: TcpFlags,
    /// The window, unscaled.
    pub window: u16,
    /// The end of urgent data, relative to the sequence number.
    pub urgent_pointer: u16,
    /// The bytes of the options: a multiple of four, at most 40.
    pub options: &'a [u8],
}

impl<'a> TcpRepr<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// None beyond those of the view.
    pub fn parse(view: &TcpView<'a>) -> Result<Self, WireError> {
        Ok(TcpRepr {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            sequence: view.sequence(),
            acknowledgment: view.acknowledgment(),
            flags: view.flags(),
            window: view.window(),
            urgent_pointer: view.urgent_pointer(),
            options: view.option_bytes(),
        })
    }

    /// Bytes that [`TcpRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        OPTIONS_START + self.options.len()
    }

    /// Writes the header without a checksum; see [`TcpRepr::fill_checksum`].
    ///
    /// # Panics
    /// If `bytes` is shorter than [`TcpRepr::buffer_len`] or a field is out of range.
    pub fn emit(&self, bytes: &mut [u8]) {
        let header_len = self.buffer_len();
        assert!(
            self.options.len().is_multiple_of(4) && self.options.len() <= OPTIONS_LEN_MAX,
            "TCP options fill up to ten words"
        );
        assert!(TcpFlags::ALL.contains(self.flags), "TCP has twelve flags");
        let length = (header_len as u16 / 4) << LENGTH_SHIFT;
        field::write_u16(bytes, SOURCE_PORT, self.source_port);
        field::write_u16(bytes, DESTINATION_PORT, self.destination_port);
        field::write_u32(bytes, SEQUENCE, self.sequence);
        field::write_u32(bytes, ACKNOWLEDGMENT, self.acknowledgment);
        field::write_u16(bytes, LENGTH_AND_FLAGS, length | self.flags.0);
        field::write_u16(bytes, WINDOW, self.window);
        field::write_u16(bytes, CHECKSUM, 0);
        field::write_u16(bytes, URGENT_POINTER, self.urgent_pointer);
        bytes[OPTIONS_START..header_len].copy_from_slice(self.options);
    }

    /// Writes the checksum of a segment whose header and payload are in place.
    ///
    /// # Panics
    /// If `segment` is shorter than its header.
    pub fn fill_checksum(segment: &mut [u8], pseudo_header: Sum) {
        field::write_u16(segment, CHECKSUM, 0);
        let computed = pseudo_header.with_bytes(segment).checksum();
        field::write_u16(segment, CHECKSUM, computed);
    }
}
