//! The IPv6 header (RFC 8200 section 3; RFC 2474 and RFC 3168 for the traffic class).
//!
//! ```text
//!   0                                        4         6            7           8        24
//!   | version:4, traffic class:8, label:20   | length  | next header | hop limit | source | ...
//! ```
//!
//! Extension headers have their own file. A jumbogram (RFC 2675), whose length field is zero,
//! reads as a packet without payload.

use std::net::Ipv6Addr;

use super::field::{self, Field};
use super::{IpProtocol, WireError};

const VERSION_CLASS_LABEL: Field = 0..4;
const PAYLOAD_LENGTH: Field = 4..6;
const NEXT_HEADER: usize = 6;
const HOP_LIMIT: usize = 7;
const SOURCE: Field = 8..24;
const DESTINATION: Field = 24..40;

const VERSION: u32 = 6;
const VERSION_SHIFT: u32 = 28;
const CLASS_SHIFT: u32 = 20;
const LABEL_MASK: u32 = 0xf_ffff;

/// A checked view of an IPv6 packet.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6View<'a> {
    bytes: &'a [u8],
}

impl<'a> Ipv6View<'a> {
    /// The length of the header without extension headers, in bytes.
    pub const HEADER_LEN: usize = DESTINATION.end;

    /// The offset of the byte that names the next header.
    pub const NEXT_HEADER_OFFSET: usize = NEXT_HEADER;

    /// Views `bytes` as a packet; padding behind the packet is allowed.
    ///
    /// # Errors
    /// Those of [`Ipv6View::new_header_checked`], and [`WireError::Truncated`] if the packet is
    /// longer than `bytes`.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        let view = Self::new_header_checked(bytes)?;
        if bytes.len() < Self::HEADER_LEN + view.payload_len() {
            return Err(WireError::Truncated);
        }
        Ok(view)
    }

    /// Views `bytes` as the beginning of a packet: the header is whole, the payload may be cut.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under 40 bytes, [`WireError::BadVersion`] if it is not version 6.
    #[inline]
    pub fn new_header_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        let view = Ipv6View { bytes };
        if view.version_class_label() >> VERSION_SHIFT != VERSION {
            return Err(WireError::BadVersion);
        }
        Ok(view)
    }

    /// The traffic class: six bits of code point, two of congestion notification.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.version_class_label() >> CLASS_SHIFT) as u8
    }

    /// The differentiated services code point, 6 bits.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// The explicit congestion notification, 2 bits.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.traffic_class() & 0x03
    }

    /// The flow label, 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        self.version_class_label() & LABEL_MASK
    }

    /// Bytes behind this header, extension headers included, as the header states.
    #[inline]
    pub fn payload_len(&self) -> usize {
        usize::from(field::read_u16(self.bytes, PAYLOAD_LENGTH))
    }

    /// The next header: a protocol, or an extension header.
    #[inline]
    pub fn next_header(&self) -> IpProtocol {
        IpProtocol(self.bytes[NEXT_HEADER])
    }

    /// The hop limit.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.bytes[HOP_LIMIT]
    }

    /// The address of the sender.
    #[inline]
    pub fn source(&self) -> Ipv6Addr {
        Ipv6Addr::from(field::read::<16>(self.bytes, SOURCE))
    }

    /// The address of the receiver, or of the next stop of a routing header.
    #[inline]
    pub fn destination(&self) -> Ipv6Addr {
        Ipv6Addr::from(field::read::<16>(self.bytes, DESTINATION))
    }

    /// The header and its payload, without padding behind it; shorter if the bytes were cut.
    #[inline]
    pub fn packet(&self) -> &'a [u8] {
        &self.bytes[..(Self::HEADER_LEN + self.payload_len()).min(self.bytes.len())]
    }

    /// The payload, extension headers included.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.packet()[Self::HEADER_LEN..]
    }

    #[inline]
    fn version_class_label(&self) -> u32 {
        field::read_u32(self.bytes, VERSION_CLASS_LABEL)
    }
}

/// The fields of an IPv6 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv6Repr {
    /// The traffic class: six bits of code point, two of congestion notification.
    pub traffic_class: u8,
    /// The flow label, below 2^20.
    pub flow_label: u32,
    /// Bytes behind the header, extension headers included; at most 65,535.
    pub payload_len: usize,
    /// The next header: a protocol, or an extension header.
    pub next_header: IpProtocol,
    /// The hop limit.
    pub hop_limit: u8,
    /// The address of the sender.
    pub source: Ipv6Addr,
    /// The address of the receiver.
    pub destination: Ipv6Addr,
}

impl Ipv6Repr {
    /// Reads the header.
    ///
    /// # Errors
    /// None beyond those of the view.
    pub fn parse(view: &Ipv6View<'_>) -> Result<Self, WireError> {
        Ok(Ipv6Repr {
            traffic_class: view.traffic_class(),
            flow_label: view.flow_label(),
            payload_len: view.payload_len(),
            next_header: view.next_header(),
            hop_limit: view.hop_limit(),
            source: view.source(),
            destination: view.destination(),
        })
    }

    /// Bytes that [`Ipv6Repr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        Ipv6View::HEADER_LEN
    }

    /// Writes the header.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`Ipv6Repr::buffer_len`] or a field is out of range.
    pub fn emit(&self, bytes: &mut [u8]) {
        assert!(self.flow_label <= LABEL_MASK, "a flow label has 20 bits");
        let payload_len =
            u16::try_from(self.payload_len).expect("an IPv6 payload has under 65,536 bytes");
        let class = u32::from(self.traffic_class) << CLASS_SHIFT;
        field::write_u32(
            bytes,
            VERSION_CLASS_LABEL,
            VERSION << VERSION_SHIFT | class | self.flow_label,
        );
        field::write_u16(bytes, PAYLOAD_LENGTH, payload_len);
        bytes[NEXT_HEADER] = self.next_header.0;
        bytes[HOP_LIMIT] = self.hop_limit;
        field::write(bytes, SOURCE, &self.source.octets());
        field::write(bytes, DESTINATION, &self.destination.octets());
    }
}
