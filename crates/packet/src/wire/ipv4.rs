//! The IPv4 header (RFC 791 section 3.1; RFC 2474 and RFC 3168 for the second byte).
//!
//! ```text
//!   0                   1              2               4
//!   | version:4, len:4  | DSCP:6 ECN:2 | total length  | identification | flags:3, offset:13 |
//!   8            9           10          12       16
//!   | TTL        | protocol  | checksum  | source | destination | options ...
//! ```
//!
//! The view checks lengths but not the checksum, since a switch that only forwards does not
//! verify it. Callers that need it use [`Ipv4View::has_valid_checksum`].

use std::net::Ipv4Addr;

use super::field::{self, Field};
use super::{FragmentKind, IpProtocol, WireError};
use crate::checksum::{Sum, checksum};

const VERSION_AND_LENGTH: usize = 0;
const SERVICE: usize = 1;
const TOTAL_LENGTH: Field = 2..4;
const IDENTIFICATION: Field = 4..6;
const FLAGS_AND_OFFSET: Field = 6..8;
const TTL: usize = 8;
const PROTOCOL: usize = 9;
const CHECKSUM: Field = 10..12;
const SOURCE: Field = 12..16;
const DESTINATION: Field = 16..20;
const OPTIONS_START: usize = 20;

const VERSION: u8 = 4;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;
/// The header length is counted in 32-bit words in four bits; five of the words are fixed.
const OPTIONS_LEN_MAX: usize = 40;

/// A checked view of an IPv4 packet.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4View<'a> {
    bytes: &'a [u8],
}

impl<'a> Ipv4View<'a> {
    /// The length of the header without options, in bytes.
    pub const HEADER_LEN: usize = OPTIONS_START;

    /// Views `bytes` as a packet; padding behind the packet is allowed.
    ///
    /// # Errors
    /// Those of [`Ipv4View::new_header_checked`], and [`WireError::Truncated`] if the packet is
    /// longer than `bytes`.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        let view = Self::new_header_checked(bytes)?;
        if bytes.len() < view.total_len() {
            return Err(WireError::Truncated);
        }
        Ok(view)
    }

    /// Views `bytes` as the beginning of a packet: the header is whole, the payload may be cut.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if the header is not whole, [`WireError::BadVersion`] if it is not
    /// of version 4, [`WireError::BadLength`] if it is under 20 bytes or over the total length.
    #[inline]
    pub fn new_header_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        let view = Ipv4View { bytes };
        if bytes[VERSION_AND_LENGTH] >> 4 != VERSION {
            return Err(WireError::BadVersion);
        }
        if view.header_len() < Self::HEADER_LEN || view.total_len() < view.header_len() {
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
        4 * usize::from(self.bytes[VERSION_AND_LENGTH] & 0x0f)
    }

    /// The differentiated services code point, 6 bits.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.bytes[SERVICE] >> 2
    }

    /// The explicit congestion notification, 2 bits.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.bytes[SERVICE] & 0x03
    }

    /// The length of header and payload in bytes, as the header states.
    #[inline]
    pub fn total_len(&self) -> usize {
        usize::from(field::read_u16(self.bytes, TOTAL_LENGTH))
    }

    /// The number that all fragments of a datagram share.
    #[inline]
    pub fn identification(&self) -> u16 {
        field::read_u16(self.bytes, IDENTIFICATION)
    }

    /// Whether routers must not fragment the packet.
    #[inline]
    pub fn has_dont_fragment(&self) -> bool {
        self.flags_and_offset() & DONT_FRAGMENT != 0
    }

    /// Whether fragments with higher offsets exist.
    #[inline]
    pub fn has_more_fragments(&self) -> bool {
        self.flags_and_offset() & MORE_FRAGMENTS != 0
    }

    /// The payload's offset in the datagram, in bytes, a multiple of eight.
    #[inline]
    pub fn fragment_offset_bytes(&self) -> u16 {
        (self.flags_and_offset() & OFFSET_MASK) << 3
    }

    /// The part of a datagram that this packet holds.
    #[inline]
    pub fn fragment_kind(&self) -> FragmentKind {
        let field = self.flags_and_offset();
        if field & OFFSET_MASK != 0 {
            FragmentKind::Later
        } else if field & MORE_FRAGMENTS != 0 {
            FragmentKind::First
        } else {
            FragmentKind::Whole
        }
    }

    /// The time to live.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.bytes[TTL]
    }

    /// The protocol of the payload.
    #[inline]
    pub fn protocol(&self) -> IpProtocol {
        IpProtocol(self.bytes[PROTOCOL])
    }

    /// The header's checksum as stored.
    #[inline]
    pub fn checksum(&self) -> u16 {
        field::read_u16(self.bytes, CHECKSUM)
    }

    /// Whether the header's checksum is valid.
    pub fn has_valid_checksum(&self) -> bool {
        Sum::default()
            .with_bytes(&self.bytes[..self.header_len()])
            .is_valid()
    }

    /// The address of the sender.
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from(field::read::<4>(self.bytes, SOURCE))
    }

    /// The address of the receiver.
    #[inline]
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from(field::read::<4>(self.bytes, DESTINATION))
    }

    /// The bytes of the options, padding included.
    #[inline]
    pub fn options(&self) -> &'a [u8] {
        &self.bytes[OPTIONS_START..self.header_len()]
    }

    /// The payload without padding behind it; shorter if the bytes were cut.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len()..self.total_len().min(self.bytes.len())]
    }

    /// The pseudo-header for a transport header and payload of `len_bytes`.
    #[inline]
    pub fn pseudo_header(&self, len_bytes: u16) -> Sum {
        Sum::of_ipv4_pseudo_header(
            self.source(),
            self.destination(),
            self.protocol(),
            len_bytes,
        )
    }

    #[inline]
    fn flags_and_offset(&self) -> u16 {
        field::read_u16(self.bytes, FLAGS_AND_OFFSET)
    }
}

/// The fields of an IPv4 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4Repr<'a> {
    /// The differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// The explicit congestion notification, 0 to 3.
    pub ecn: u8,
    /// The number that all fragments of a datagram share.
    pub identification: u16,
    /// Whether routers must not fragment the packet.
    pub dont_fragment: bool,
    /// Whether fragments with higher offsets exist.
    pub more_fragments: bool,
    /// The payload's offset in the datagram: a multiple of eight.
    pub fragment_offset_bytes: u16,
    /// The time to live.
    pub ttl: u8,
    /// The protocol of the payload.
    pub protocol: IpProtocol,
    /// The address of the sender.
    pub source: Ipv4Addr,
    /// The address of the receiver.
    pub destination: Ipv4Addr,
    /// The bytes of the options: a multiple of four, at most 40.
    pub options: &'a [u8],
    /// Bytes behind the header; at most 65,535 together with the header.
    pub payload_len: usize,
}

impl<'a> Ipv4Repr<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// None beyond those of the view.
    pub fn parse(view: &Ipv4View<'a>) -> Result<Self, WireError> {
        Ok(Ipv4Repr {
            dscp: view.dscp(),
            ecn: view.ecn(),
            identification: view.identification(),
            dont_fragment: view.has_dont_fragment(),
            more_fragments: view.has_more_fragments(),
            fragment_offset_bytes: view.fragment_offset_bytes(),
            ttl: view.ttl(),
            protocol: view.protocol(),
            source: view.source(),
            destination: view.destination(),
            options: view.options(),
            payload_len: view.total_len() - view.header_len(),
        })
    }

    /// Bytes that [`Ipv4Repr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        OPTIONS_START + self.options.len()
    }

    /// Writes the header with its checksum.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`Ipv4Repr::buffer_len`] or a field is out of range.
    pub fn emit(&self, bytes: &mut [u8]) {
        let header_len = self.buffer_len();
        let total_len = header_len + self.payload_len;
        assert!(
            self.dscp < 64 && self.ecn < 4,
            "a field of the IPv4 header is out of range"
        );
        assert!(
            self.options.len().is_multiple_of(4) && self.options.len() <= OPTIONS_LEN_MAX,
            "IPv4 options fill up to ten words"
        );
        assert!(
            self.fragment_offset_bytes.is_multiple_of(8),
            "fragments start at eight bytes"
        );
        let total_len = u16::try_from(total_len).expect("an IPv4 packet has under 65,536 bytes");
        let flags = if self.dont_fragment { DONT_FRAGMENT } else { 0 }
            | if self.more_fragments {
                MORE_FRAGMENTS
            } else {
                0
            };
        bytes[VERSION_AND_LENGTH] = VERSION << 4 | (header_len / 4) as u8;
        bytes[SERVICE] = self.dscp << 2 | self.ecn;
        field::write_u16(bytes, TOTAL_LENGTH, total_len);
        field::write_u16(bytes, IDENTIFICATION, self.identification);
        field::write_u16(
            bytes,
            FLAGS_AND_OFFSET,
            flags | self.fragment_offset_bytes >> 3,
        );
        bytes[TTL] = self.ttl;
        bytes[PROTOCOL] = self.protocol.0;
        field::write_u16(bytes, CHECKSUM, 0);
        field::write(bytes, SOURCE, &self.source.octets());
        field::write(bytes, DESTINATION, &self.destination.octets());
        bytes[OPTIONS_START..header_len].copy_from_slice(self.options);
        let sum = checksum(&bytes[..header_len]);
        field::write_u16(bytes, CHECKSUM, sum);
    }
}
