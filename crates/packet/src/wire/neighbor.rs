//! Neighbour discovery: solicitations and advertisements (RFC 4861 sections 4.3, 4.4 and 4.6).
//!
//! ```text
//!   0      1      2          4           8               24
//!   | type | code | checksum | flags     | target        | options ...
//!
//!   an option:  | type | length in 8 bytes | value ...
//! ```
//!
//! The message has a fixed part and options with arbitrary content. A switch may read a
//! target, then fail on the options and forget that it read the target. It then caches an
//! answer for too many packets (CVE-2023-5366). So it is all or nothing:
//!
//! 1. A view exists only if every option has a non-zero length and ends inside the message,
//!    and no link-layer address is repeated (sections 6.1.1 and 7.1: other messages must be
//!    discarded).
//! 2. A caller that gets no view treats the whole discovery part as absent, target included.
//!    The ICMP header stays valid.
//!
//! A link-layer address option of another length than Ethernet's is skipped, like an unknown
//! option. Open vSwitch differs in one case: it accepts a truncated last option of under eight
//! bytes, which makes the message malformed here. The checks of hop limit and code in section
//! 7.1 are left to rules.

use std::net::Ipv6Addr;

use super::field::{self, Field};
use super::{Icmpv6Repr, Icmpv6Type, MacAddress, WireError};

const TYPE: usize = 0;
const CODE: usize = 1;
const FLAGS: Field = 4..8;
const TARGET: Field = 8..24;
const OPTIONS_START: usize = 24;

/// Only advertisements have flags (section 4.4); in solicitations these bits are reserved.
const FLAG_ROUTER: u32 = 1 << 31;
const FLAG_SOLICITED: u32 = 1 << 30;
const FLAG_OVERRIDE: u32 = 1 << 29;

/// Section 4.6.1, also for the next constant.
const OPTION_SOURCE_LINK_LAYER: u8 = 1;
const OPTION_TARGET_LINK_LAYER: u8 = 2;
/// A link-layer address option for Ethernet: type, length and six bytes (RFC 2464 section 6).
const LINK_LAYER_OPTION_LEN: usize = 8;
const LINK_LAYER_ADDRESS_OFFSET: usize = 2;

/// A checked view of a neighbour solicitation or advertisement.
#[derive(Clone, Copy, Debug)]
pub struct NeighborView<'a> {
    bytes: &'a [u8],
    source_link_layer_offset: Option<usize>,
    target_link_layer_offset: Option<usize>,
}

impl<'a> NeighborView<'a> {
    /// The length of the message without options, in bytes.
    pub const HEADER_LEN: usize = OPTIONS_START;

    /// The offset of the target address in the message.
    pub const TARGET_OFFSET: usize = TARGET.start;

    /// Views `bytes`, a whole ICMP message, as a solicitation or an advertisement.
    ///
    /// # Errors
    /// [`WireError::Truncated`] under 24 bytes, [`WireError::BadField`] if type and code are of
    /// another message, [`WireError::BadOption`] if an option is malformed.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() < Self::HEADER_LEN {
            return Err(WireError::Truncated);
        }
        let message_type = Icmpv6Type(bytes[TYPE]);
        let is_neighbor = matches!(
            message_type,
            Icmpv6Type::NEIGHBOR_SOLICITATION | Icmpv6Type::NEIGHBOR_ADVERTISEMENT
        );
        if !is_neighbor || bytes[CODE] != 0 {
            return Err(WireError::BadField);
        }
        let mut view = NeighborView {
            bytes,
            source_link_layer_offset: None,
            target_link_layer_offset: None,
        };
        let mut offset = OPTIONS_START;
        while offset < bytes.len() {
            offset = view.take_option(offset)?;
        }
        Ok(view)
    }

    /// The type of the message: solicitation or advertisement.
    #[inline]
    pub fn message_type(&self) -> Icmpv6Type {
        Icmpv6Type(self.bytes[TYPE])
    }

    /// The four bytes that hold the flags, reserved bits included.
    #[inline]
    pub fn flags(&self) -> u32 {
        field::read_u32(self.bytes, FLAGS)
    }

    /// The address that the message asks for or announces.
    #[inline]
    pub fn target(&self) -> Ipv6Addr {
        Ipv6Addr::from(field::read::<16>(self.bytes, TARGET))
    }

    /// The sender's Ethernet address, from the option.
    #[inline]
    pub fn source_link_layer(&self) -> Option<MacAddress> {
        self.source_link_layer_offset
            .map(|offset| self.address_at(offset))
    }

    /// The target's Ethernet address, from the option.
    #[inline]
    pub fn target_link_layer(&self) -> Option<MacAddress> {
        self.target_link_layer_offset
            .map(|offset| self.address_at(offset))
    }

    /// The offset of the sender's Ethernet address in the message.
    #[inline]
    pub fn source_link_layer_offset(&self) -> Option<usize> {
        self.source_link_layer_offset
    }

    /// The offset of the target's Ethernet address in the message.
    #[inline]
    pub fn target_link_layer_offset(&self) -> Option<usize> {
        self.target_link_layer_offset
    }

    fn address_at(&self, offset: usize) -> MacAddress {
        MacAddress(field::read(self.bytes, offset..offset + 6))
    }

    /// Notes the option at `offset` and returns the offset of the next one.
    fn take_option(&mut self, offset: usize) -> Result<usize, WireError> {
        let [kind, length, ..] = self.bytes[offset..] else {
            return Err(WireError::BadOption);
        };
        let len = 8 * usize::from(length);
        // A length of zero would loop for ever.
        if len == 0 || len > self.bytes.len() - offset {
            return Err(WireError::BadOption);
        }
        let slot = match kind {
            OPTION_SOURCE_LINK_LAYER => &mut self.source_link_layer_offset,
            OPTION_TARGET_LINK_LAYER => &mut self.target_link_layer_offset,
            _ => return Ok(offset + len),
        };
        if len == LINK_LAYER_OPTION_LEN
            && slot.replace(offset + LINK_LAYER_ADDRESS_OFFSET).is_some()
        {
            return Err(WireError::BadOption);
        }
        Ok(offset + len)
    }
}

/// The kind of a neighbour discovery message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeighborMessage {
    /// Asks for the target's link-layer address.
    Solicitation,
    /// Announces the target's link-layer address.
    Advertisement {
        /// The sender is a router.
        router: bool,
        /// The message answers a solicitation.
        solicited: bool,
        /// The message replaces the receiver's cached address.
        overrides: bool,
    },
}

/// The content of a neighbour solicitation or advertisement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeighborRepr {
    /// The kind of the message.
    pub message: NeighborMessage,
    /// The address that the message asks for or announces.
    pub target: Ipv6Addr,
    /// The sender's Ethernet address, an option.
    pub source_link_layer: Option<MacAddress>,
    /// The target's Ethernet address, an option.
    pub target_link_layer: Option<MacAddress>,
}

impl NeighborRepr {
    /// Reads the message; only link-layer address options are kept.
    ///
    /// # Errors
    /// None beyond those of the view.
    pub fn parse(view: &NeighborView<'_>) -> Result<Self, WireError> {
        let flags = view.flags();
        let message = match view.message_type() {
            Icmpv6Type::NEIGHBOR_SOLICITATION => NeighborMessage::Solicitation,
            _ => NeighborMessage::Advertisement {
                router: flags & FLAG_ROUTER != 0,
                solicited: flags & FLAG_SOLICITED != 0,
                overrides: flags & FLAG_OVERRIDE != 0,
            },
        };
        Ok(NeighborRepr {
            message,
            target: view.target(),
            source_link_layer: view.source_link_layer(),
            target_link_layer: view.target_link_layer(),
        })
    }

    /// Bytes that [`NeighborRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        let count =
            self.source_link_layer.is_some() as usize + self.target_link_layer.is_some() as usize;
        OPTIONS_START + count * LINK_LAYER_OPTION_LEN
    }

    /// Writes the message from its ICMP header on, without a checksum.
    ///
    /// The caller completes it with [`Icmpv6Repr::fill_checksum`].
    ///
    /// # Panics
    /// If `bytes` is shorter than [`NeighborRepr::buffer_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        let (message_type, flags) = match self.message {
            NeighborMessage::Solicitation => (Icmpv6Type::NEIGHBOR_SOLICITATION, 0),
            NeighborMessage::Advertisement {
                router,
                solicited,
                overrides,
            } => (
                Icmpv6Type::NEIGHBOR_ADVERTISEMENT,
                if router { FLAG_ROUTER } else { 0 }
                    | if solicited { FLAG_SOLICITED } else { 0 }
                    | if overrides { FLAG_OVERRIDE } else { 0 },
            ),
        };
        Icmpv6Repr {
            message_type,
            code: 0,
            rest: flags.to_be_bytes(),
        }
        .emit(bytes);
        field::write(bytes, TARGET, &self.target.octets());
        let options = [
            (OPTION_SOURCE_LINK_LAYER, self.source_link_layer),
            (OPTION_TARGET_LINK_LAYER, self.target_link_layer),
        ];
        let present = options
            .into_iter()
            .filter_map(|(kind, address)| Some((kind, address?)));
        let slots = bytes[OPTIONS_START..self.buffer_len()].chunks_exact_mut(LINK_LAYER_OPTION_LEN);
        for ((kind, address), slot) in present.zip(slots) {
            slot[0] = kind;
            slot[1] = (LINK_LAYER_OPTION_LEN / 8) as u8;
            slot[LINK_LAYER_ADDRESS_OFFSET..].copy_from_slice(&address.0);
        }
    }
}
