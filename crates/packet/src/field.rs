//! Field descriptors: the parts that a key consists of.
//!
//! A *field* is anything that a program matches or reads: a name, a width, and the source of
//! its value. Nothing below the front ends knows more about it. OpenFlow's fields are one
//! catalogue ([`crate::standard`]); a P4 program brings its own. The same [`crate::Layout`]
//! packs either into words.
//!
//! A value has one of five sources:
//!
//! - the **wire**: bits at an offset in a header that the parser found. Where several headers
//!   can carry the field (a port in TCP, UDP or SCTP; a TTL in IPv4 or IPv6) the first one
//!   present wins. A field whose header is absent reads as zero;
//! - a **scalar** that the parser computed (the innermost EtherType, the kind of fragment);
//! - **presence**: one bit that says whether a header is present, so a mask can depend on
//!   absence;
//! - the **receiver**: input port, tunnel, recirculation id, what a tracker said earlier;
//! - nothing: a **register**, zero when the packet comes in.
//!
//! All fields but registers are *ingress* fields. Only they take part in a cache's key.

use std::borrow::Cow;

use crate::tunnel_part::TunnelPart;

/// A field's index in its catalogue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FieldId(pub u16);

impl FieldId {
    /// The index as a `usize`.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A header that a parser can find in a packet: an index into the parser's table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HeaderId(pub u8);

/// How deep in a packet a field lies; staged lookups examine the stages in this order.
///
/// The stages are Open vSwitch's (`lib/classifier.h`): port and metadata, L2, L3, L4.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stage {
    /// Given with the packet or made by the program: input port, tunnel, metadata, registers.
    Metadata,
    /// Ethernet, VLAN tags, MPLS labels.
    Link,
    /// IPv4, IPv6, ARP.
    Network,
    /// TCP, UDP, SCTP, ICMP, neighbour discovery.
    Transport,
}

impl Stage {
    /// The number of stages.
    pub const COUNT: usize = 4;
}

/// Bits in a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Location {
    /// The header.
    pub header: HeaderId,
    /// The field's start, in bits from the start of the header.
    pub bit_offset: u16,
}

/// A value that the parser computes rather than copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scalar {
    /// The EtherType behind all VLAN tags; 0x05ff for frames that have none.
    EtherType,
    /// The outer VLAN tag with its CFI bit set, which marks presence; zero if untagged.
    VlanTci,
    /// The second VLAN tag, with its CFI bit set in the same way; zero if absent.
    VlanTciInner,
    /// The IP protocol, behind IPv6 extension headers.
    IpProtocol,
    /// Bit 0: the packet is a fragment. Bit 1: it is not the first one.
    IpFragment,
    /// The ARP operation; zero if it is above 255, as in Open vSwitch.
    ArpOperation,
    /// 1 if the IPv4 TTL or IPv6 hop limit is above 1 and so can be decremented.
    IpTtlAboveOne,
}

impl Scalar {
    /// The number of scalars.
    pub const COUNT: usize = 7;
}

/// A value that comes with the packet, not in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intrinsic {
    /// The port that received the packet.
    InPort,
    /// The frozen continuation that the packet resumes; zero on its first pass.
    RecirculationId,
    /// The packet's type: 0 for Ethernet, else namespace 1 and an EtherType.
    PacketType,
    /// A value of the tunnel that the packet is from; zero without a tunnel.
    Tunnel(TunnelPart),
    /// The packet's mark.
    PacketMark,
    /// The hash that a datapath gave the packet.
    DatapathHash,
    /// The bits of the connection's state.
    ConnectionState,
    /// The zone of the connection.
    ConnectionZone,
    /// The connection's mark.
    ConnectionMark,
    /// The connection's label.
    ConnectionLabel,
    /// The IPv4 source of the connection's first packet.
    ConnectionIpv4Source,
    /// The IPv4 destination of the connection's first packet.
    ConnectionIpv4Destination,
    /// The IPv6 source of the connection's first packet.
    ConnectionIpv6Source,
    /// The IPv6 destination of the connection's first packet.
    ConnectionIpv6Destination,
    /// The IP protocol of the connection.
    ConnectionProtocol,
    /// The source port of the connection's first packet, or its ICMP type.
    ConnectionSourcePort,
    /// The destination port of the connection's first packet, or its ICMP code.
    ConnectionDestinationPort,
}

/// The source of a field's value when a packet comes in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// Bits in the first of these headers that is present; zero if none is present.
    Wire(Cow<'static, [Location]>),
    /// Computed by the parser.
    Scalar(Scalar),
    /// One bit: whether the header is present.
    Presence(HeaderId),
    /// Given by the receiver.
    Intrinsic(Intrinsic),
    /// No source: zero.
    Register,
}

/// A field: its name, its width, and the source of its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldDescriptor {
    /// The name, as the front end spells it.
    pub name: Cow<'static, str>,
    /// The width in bits; at least 1.
    pub width_bits: u16,
    /// How deep in a packet the field lies.
    pub stage: Stage,
    /// The source of the field's value.
    pub source: Source,
}

impl FieldDescriptor {
    /// Whether the value is known at ingress, so that a cache's mask can include it.
    pub fn is_ingress(&self) -> bool {
        self.source != Source::Register
    }
}
