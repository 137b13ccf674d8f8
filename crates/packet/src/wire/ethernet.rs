//! The Ethernet header (IEEE 802.3-2018 section 3.2) and its types.
//!
//! ```text
//!   0            6            12      14
//!   | destination | source     | type  | payload, then padding ...
//! ```
//!
//! The last two bytes are a type if they are 1536 or more. Below that they are the length of
//! an IEEE 802.3 frame whose payload starts with LLC; [`crate::wire::FrameType`] tells them
//! apart. The frame check sequence and the preamble never reach software and are not here.

use std::fmt;

use super::field::{self, Field};
use super::{MacAddress, WireError};

const DESTINATION: Field = 0..6;
const SOURCE: Field = 6..12;
const TYPE: Field = 12..14;

/// A checked view of an Ethernet frame.
#[derive(Clone, Copy, Debug)]
pub struct EthernetView<'a> {
    bytes: &'a [u8],
}

impl<'a> EthernetView<'a> {
    /// Bytes of the header.
    pub const HEADER_LEN: usize = TYPE.end;

    /// Views `bytes` as a frame.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under 14 bytes.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        Ok(EthernetView { bytes })
    }

    /// The station or group that the frame is for.
    #[inline]
    pub fn destination(&self) -> MacAddress {
        MacAddress(field::read(self.bytes, DESTINATION))
    }

    /// The station that sent the frame.
    #[inline]
    pub fn source(&self) -> MacAddress {
        MacAddress(field::read(self.bytes, SOURCE))
    }

    /// The type field as stored, whether a type or a length.
    #[inline]
    pub fn ether_type(&self) -> EtherType {
        EtherType(field::read_u16(self.bytes, TYPE))
    }

    /// The frame from its type field on, as [`crate::wire::FrameType::parse`] expects it.
    #[inline]
    pub fn from_type(&self) -> &'a [u8] {
        &self.bytes[TYPE.start..]
    }

    /// The bytes behind the header, padding included.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[Self::HEADER_LEN..]
    }
}

/// The fields of an Ethernet header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EthernetRepr {
    /// The station or group that the frame is for.
    pub destination: MacAddress,
    /// The station that sent the frame.
    pub source: MacAddress,
    /// The type of the payload, or the length of an IEEE 802.3 frame.
    pub ether_type: EtherType,
}

impl EthernetRepr {
    /// Reads the header.
    ///
    /// # Errors
    /// None: any 14 bytes are an Ethernet header.
    pub fn parse(view: &EthernetView<'_>) -> Result<Self, WireError> {
        Ok(EthernetRepr {
            destination: view.destination(),
            source: view.source(),
            ether_type: view.ether_type(),
        })
    }

    /// Bytes that [`EthernetRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        EthernetView::HEADER_LEN
    }

    /// Writes the header.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`EthernetRepr::buffer_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        field::write(bytes, DESTINATION, &self.destination.0);
        field::write(bytes, SOURCE, &self.source.0);
        field::write_u16(bytes, TYPE, self.ether_type.0);
    }
}

/// The type of the payload of an Ethernet frame, a tag or a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EtherType(pub u16);

impl EtherType {
    /// Internet Protocol version 4 (RFC 894).
    pub const IPV4: EtherType = EtherType(0x0800);
    /// Address Resolution Protocol (RFC 826).
    pub const ARP: EtherType = EtherType(0x0806);
    /// Reverse ARP (RFC 903).
    pub const RARP: EtherType = EtherType(0x8035);
    /// Transparent Ethernet bridging, in Geneve and GRE (RFC 1701, RFC 8926 section 3.4).
    pub const ETHERNET: EtherType = EtherType(0x6558);
    /// Customer tag (IEEE 802.1Q-2018 section 9.5, table 9-1).
    pub const VLAN: EtherType = EtherType(0x8100);
    /// Internet Protocol version 6 (RFC 2464 section 3).
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// MPLS, label assigned downstream (RFC 3032 section 5, RFC 5332 section 3).
    pub const MPLS: EtherType = EtherType(0x8847);
    /// MPLS, label assigned upstream (RFC 5332 section 3).
    pub const MPLS_UPSTREAM: EtherType = EtherType(0x8848);
    /// Service tag, formerly IEEE 802.1ad (IEEE 802.1Q-2018 section 9.5, table 9-1).
    pub const SERVICE_VLAN: EtherType = EtherType(0x88a8);
    /// Link Layer Discovery Protocol (IEEE 802.1AB-2016 section 7.3).
    pub const LLDP: EtherType = EtherType(0x88cc);

    /// The smallest value that is a type; smaller values are lengths (IEEE 802.3-2018 section
    /// 3.2.6).
    pub const LEAST: EtherType = EtherType(0x0600);

    /// Whether the value is the length of an IEEE 802.3 frame and not a type.
    #[inline]
    pub const fn is_length(self) -> bool {
        self.0 < Self::LEAST.0
    }

    /// Whether the type announces a VLAN tag, customer or service.
    #[inline]
    pub const fn is_vlan(self) -> bool {
        matches!(self, EtherType::VLAN | EtherType::SERVICE_VLAN)
    }

    /// Whether the type announces an MPLS label stack.
    #[inline]
    pub const fn is_mpls(self) -> bool {
        matches!(self, EtherType::MPLS | EtherType::MPLS_UPSTREAM)
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.0)
    }
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EtherType({self})")
    }
}
