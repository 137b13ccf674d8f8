//! Address resolution of IPv4 over Ethernet (RFC 826).
//!
//! The protocol can resolve any address over any link. Switches and hosts only meet this pair;
//! anything else is refused with [`WireError::BadField`].

use std::net::Ipv4Addr;

use super::field::{self, Field};
use super::{EtherType, MacAddress, WireError};

const HARDWARE_TYPE: Field = 0..2;
const PROTOCOL_TYPE: Field = 2..4;
const ADDRESS_LENGTHS: Field = 4..6;
const OPERATION: Field = 6..8;
const SENDER_HARDWARE: Field = 8..14;
const SENDER_PROTOCOL: Field = 14..18;
const TARGET_HARDWARE: Field = 18..24;
const TARGET_PROTOCOL: Field = 24..28;

/// Ethernet, in the registry of hardware types (RFC 826, "ar$hrd").
const HARDWARE_ETHERNET: u16 = 1;
/// The lengths of an Ethernet address and of an IPv4 address, in bytes.
const LENGTHS: [u8; 2] = [6, 4];

/// A checked view of an ARP packet for IPv4 over Ethernet.
#[derive(Clone, Copy, Debug)]
pub struct ArpView<'a> {
    bytes: &'a [u8],
}

impl<'a> ArpView<'a> {
    /// The length of the packet in bytes.
    pub const HEADER_LEN: usize = TARGET_PROTOCOL.end;

    /// Views `bytes` as an ARP packet.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under 28 bytes, [`WireError::BadField`] if the addresses are not
    /// those of Ethernet and IPv4.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        let is_ipv4_over_ethernet = field::read_u16(bytes, HARDWARE_TYPE) == HARDWARE_ETHERNET
            && field::read_u16(bytes, PROTOCOL_TYPE) == EtherType::IPV4.0
            && bytes[ADDRESS_LENGTHS] == LENGTHS;
        if !is_ipv4_over_ethernet {
            return Err(WireError::BadField);
        }
        Ok(ArpView { bytes })
    }

    /// The operation: request or reply.
    #[inline]
    pub fn operation(&self) -> ArpOperation {
        ArpOperation(field::read_u16(self.bytes, OPERATION))
    }

    /// The Ethernet address of the sender.
    #[inline]
    pub fn sender_hardware(&self) -> MacAddress {
        MacAddress(field::read(self.bytes, SENDER_HARDWARE))
    }

    /// The IPv4 address of the sender.
    #[inline]
    pub fn sender_protocol(&self) -> Ipv4Addr {
        Ipv4Addr::from(field::read::<4>(self.bytes, SENDER_PROTOCOL))
    }

    /// The Ethernet address of the target; meaningless in a request.
    #[inline]
    pub fn target_hardware(&self) -> MacAddress {
        MacAddress(field::read(self.bytes, TARGET_HARDWARE))
    }

    /// The IPv4 address of the target.
    #[inline]
    pub fn target_protocol(&self) -> Ipv4Addr {
        Ipv4Addr::from(field::read::<4>(self.bytes, TARGET_PROTOCOL))
    }
}

/// The operation of an ARP packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ArpOperation(pub u16);

impl ArpOperation {
    /// A request for the target's Ethernet address (RFC 826, "ar$op").
    pub const REQUEST: ArpOperation = ArpOperation(1);
    /// A reply: the sender has the requested address.
    pub const REPLY: ArpOperation = ArpOperation(2);
}

/// The fields of an ARP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArpRepr {
    /// The operation: request or reply.
    pub operation: ArpOperation,
    /// The Ethernet address of the sender.
    pub sender_hardware: MacAddress,
    /// The IPv4 address of the sender.
    pub sender_protocol: Ipv4Addr,
    /// The Ethernet address of the target.
    pub target_hardware: MacAddress,
    /// The IPv4 address of the target.
    pub target_protocol: Ipv4Addr,
}

impl ArpRepr {
    /// Reads the packet.
    ///
    /// # Errors
    /// None beyond those of the view.
    pub fn parse(view: &ArpView<'_>) -> Result<Self, WireError> {
        Ok(ArpRepr {
            operation: view.operation(),
            sender_hardware: view.sender_hardware(),
            sender_protocol: view.sender_protocol(),
            target_hardware: view.target_hardware(),
            target_protocol: view.target_protocol(),
        })
    }

    /// Bytes that [`ArpRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        ArpView::HEADER_LEN
    }

    /// Writes the packet.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`ArpRepr::buffer_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        field::write_u16(bytes, HARDWARE_TYPE, HARDWARE_ETHERNET);
        field::write_u16(bytes, PROTOCOL_TYPE, EtherType::IPV4.0);
        field::write(bytes, ADDRESS_LENGTHS, &LENGTHS);
        field::write_u16(bytes, OPERATION, self.operation.0);
        field::write(bytes, SENDER_HARDWARE, &self.sender_hardware.0);
        field::write(bytes, SENDER_PROTOCOL, &self.sender_protocol.octets());
        field::write(bytes, TARGET_HARDWARE, &self.target_hardware.0);
        field::write(bytes, TARGET_PROTOCOL, &self.target_protocol.octets());
    }
}
