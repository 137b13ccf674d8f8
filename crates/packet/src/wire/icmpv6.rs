//! The ICMP header of IPv6 (RFC 4443 section 2.1); neighbour discovery has its own file.
//!
//! ```text
//!   0      1      2          4
//!   | type | code | checksum | rest of the header: by type | payload ...
//! ```
//!
//! Unlike in IPv4, the checksum covers a pseudo-header (section 2.3).

use super::WireError;
use super::field::{self, Field};
use crate::checksum::Sum;

const TYPE: usize = 0;
const CODE: usize = 1;
const CHECKSUM: Field = 2..4;
const REST: Field = 4..8;

/// A checked view of an ICMP message.
#[derive(Clone, Copy, Debug)]
pub struct Icmpv6View<'a> {
    bytes: &'a [u8],
}

impl<'a> Icmpv6View<'a> {
    /// Bytes of the header.
    pub const HEADER_LEN: usize = REST.end;

    /// Views `bytes` as a message.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under eight bytes.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        Ok(Icmpv6View { bytes })
    }

    /// The type of the message.
    #[inline]
    pub fn message_type(&self) -> Icmpv6Type {
        Icmpv6Type(self.bytes[TYPE])
    }

    /// The code within the type.
    #[inline]
    pub fn code(&self) -> u8 {
        self.bytes[CODE]
    }

    /// The checksum as stored.
    #[inline]
    pub fn checksum(&self) -> u16 {
        field::read_u16(self.bytes, CHECKSUM)
    }

    /// Whether the checksum is valid; `bytes` must end where the message ends.
    pub fn has_valid_checksum(&self, pseudo_header: Sum) -> bool {
        pseudo_header.with_bytes(self.bytes).is_valid()
    }

    /// The last four bytes of the header, whose meaning the type fixes.
    #[inline]
    pub fn rest(&self) -> [u8; 4] {
        field::read(self.bytes, REST)
    }

    /// The bytes behind the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[Self::HEADER_LEN..]
    }
}

/// The type of an ICMP message of IPv6.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Icmpv6Type(pub u8);

impl Icmpv6Type {
    /// A packet could not be delivered (RFC 4443 section 3.1).
    pub const DESTINATION_UNREACHABLE: Icmpv6Type = Icmpv6Type(1);
    /// A packet was larger than the next link allows (RFC 4443 section 3.2).
    pub const PACKET_TOO_BIG: Icmpv6Type = Icmpv6Type(2);
    /// The hop limit ran out (RFC 4443 section 3.3).
    pub const TIME_EXCEEDED: Icmpv6Type = Icmpv6Type(3);
    /// A field of a packet was wrong (RFC 4443 section 3.4).
    pub const PARAMETER_PROBLEM: Icmpv6Type = Icmpv6Type(4);
    /// A request for an echo (RFC 4443 section 4.1).
    pub const ECHO_REQUEST: Icmpv6Type = Icmpv6Type(128);
    /// The answer to an echo request (RFC 4443 section 4.2).
    pub const ECHO_REPLY: Icmpv6Type = Icmpv6Type(129);
    /// A request for routers to report themselves (RFC 4861 section 4.1).
    pub const ROUTER_SOLICITATION: Icmpv6Type = Icmpv6Type(133);
    /// A router reports itself (RFC 4861 section 4.2).
    pub const ROUTER_ADVERTISEMENT: Icmpv6Type = Icmpv6Type(134);
    /// A request for the target's link-layer address (RFC 4861 section 4.3).
    pub const NEIGHBOR_SOLICITATION: Icmpv6Type = Icmpv6Type(135);
    /// The sender has the target address (RFC 4861 section 4.4).
    pub const NEIGHBOR_ADVERTISEMENT: Icmpv6Type = Icmpv6Type(136);
    /// There is a better first hop (RFC 4861 section 4.5).
    pub const REDIRECT: Icmpv6Type = Icmpv6Type(137);
}

/// The fields of an ICMP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Icmpv6Repr {
    /// The type of the message.
    pub message_type: Icmpv6Type,
    /// The code within the type.
    pub code: u8,
    /// The last four bytes of the header, whose meaning the type fixes.
    pub rest: [u8; 4],
}

impl Icmpv6Repr {
    /// An echo request.
    pub const fn echo_request(identifier: u16, sequence: u16) -> Self {
        Self::echo(Icmpv6Type::ECHO_REQUEST, identifier, sequence)
    }

    /// An echo reply.
    pub const fn echo_reply(identifier: u16, sequence: u16) -> Self {
        Self::echo(Icmpv6Type::ECHO_REPLY, identifier, sequence)
    }

    const fn echo(message_type: Icmpv6Type, identifier: u16, sequence: u16) -> Self {
        let rest = ((identifier as u32) << 16 | sequence as u32).to_be_bytes();
        Icmpv6Repr {
            message_type,
            code: 0,
            rest,
        }
    }

    /// Reads the header.
    ///
    /// # Errors
    /// None beyond those of the view.
    pub fn parse(view: &Icmpv6View<'_>) -> Result<Self, WireError> {
        Ok(Icmpv6Repr {
            message_type: view.message_type(),
            code: view.code(),
            rest: view.rest(),
        })
    }

    /// Bytes that [`Icmpv6Repr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        Icmpv6View::HEADER_LEN
    }

    /// Writes the header without a checksum; see [`Icmpv6Repr::fill_checksum`].
    ///
    /// # Panics
    /// If `bytes` is shorter than [`Icmpv6Repr::buffer_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[TYPE] = self.message_type.0;
        bytes[CODE] = self.code;
        field::write_u16(bytes, CHECKSUM, 0);
        field::write(bytes, REST, &self.rest);
    }

    /// Writes the checksum of a message whose header and payload are in place.
    ///
    /// # Panics
    /// If `message` is shorter than its header.
    pub fn fill_checksum(message: &mut [u8], pseudo_header: Sum) {
        field::write_u16(message, CHECKSUM, 0);
        let computed = pseudo_header.with_bytes(message).checksum();
        field::write_u16(message, CHECKSUM, computed);
    }
}
