//! The ICMP header of IPv4 (RFC 792).
//!
//! ```text
//!   0      1      2          4
//!   | type | code | checksum | rest of the header: by type | payload ...
//! ```

use super::WireError;
use super::field::{self, Field};
use crate::checksum::{Sum, checksum};

const TYPE: usize = 0;
const CODE: usize = 1;
const CHECKSUM: Field = 2..4;
const REST: Field = 4..8;

/// A checked view of an ICMP message.
#[derive(Clone, Copy, Debug)]
pub struct Icmpv4View<'a> {
    bytes: &'a [u8],
}

impl<'a> Icmpv4View<'a> {
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
        Ok(Icmpv4View { bytes })
    }

    /// The type of the message.
    #[inline]
    pub fn message_type(&self) -> Icmpv4Type {
        Icmpv4Type(self.bytes[TYPE])
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
    pub fn has_valid_checksum(&self) -> bool {
        Sum::default().with_bytes(self.bytes).is_valid()
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

/// The type of an ICMP message of IPv4 (RFC 792).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Icmpv4Type(pub u8);

impl Icmpv4Type {
    /// The answer to an echo request.
    pub const ECHO_REPLY: Icmpv4Type = Icmpv4Type(0);
    /// A packet could not be delivered.
    pub const DESTINATION_UNREACHABLE: Icmpv4Type = Icmpv4Type(3);
    /// There is a better first hop.
    pub const REDIRECT: Icmpv4Type = Icmpv4Type(5);
    /// A request for an echo.
    pub const ECHO_REQUEST: Icmpv4Type = Icmpv4Type(8);
    /// The time to live ran out.
    pub const TIME_EXCEEDED: Icmpv4Type = Icmpv4Type(11);
    /// A field of a packet was wrong.
    pub const PARAMETER_PROBLEM: Icmpv4Type = Icmpv4Type(12);
}

/// The fields of an ICMP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Icmpv4Repr {
    /// The type of the message.
    pub message_type: Icmpv4Type,
    /// The code within the type.
    pub code: u8,
    /// The last four bytes of the header, whose meaning the type fixes.
    pub rest: [u8; 4],
}

impl Icmpv4Repr {
    /// An echo request.
    pub const fn echo_request(identifier: u16, sequence: u16) -> Self {
        Self::echo(Icmpv4Type::ECHO_REQUEST, identifier, sequence)
    }

    /// An echo reply.
    pub const fn echo_reply(identifier: u16, sequence: u16) -> Self {
        Self::echo(Icmpv4Type::ECHO_REPLY, identifier, sequence)
    }

    const fn echo(message_type: Icmpv4Type, identifier: u16, sequence: u16) -> Self {
        let rest = ((identifier as u32) << 16 | sequence as u32).to_be_bytes();
        Icmpv4Repr {
            message_type,
            code: 0,
            rest,
        }
    }

    /// Reads the header.
    ///
    /// # Errors
    /// None beyond those of the view.
    pub fn parse(view: &Icmpv4View<'_>) -> Result<Self, WireError> {
        Ok(Icmpv4Repr {
            message_type: view.message_type(),
            code: view.code(),
            rest: view.rest(),
        })
    }

    /// Bytes that [`Icmpv4Repr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        Icmpv4View::HEADER_LEN
    }

    /// Writes the header without a checksum; see [`Icmpv4Repr::fill_checksum`].
    ///
    /// # Panics
    /// If `bytes` is shorter than [`Icmpv4Repr::buffer_len`].
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
    pub fn fill_checksum(message: &mut [u8]) {
        field::write_u16(message, CHECKSUM, 0);
        let computed = checksum(message);
        field::write_u16(message, CHECKSUM, computed);
    }
}
