//! Field descriptors: what a key is made of.
//!
//! Whatever a program matches or reads is a *field*: a name, a width, and the place its value
//! comes from. Nothing below the front ends knows more about it. OpenFlow's fields are one
//! catalogue ([`crate::standard`]); a P4 program brings its own, and the same [`crate::Layout`]
//! packs either into words.
//!
//! A value comes from one of five places:
//!
//! - the **wire**: bits at an offset in a header that the parser found. Where several headers
//!   can carry the field (a port in TCP, UDP or SCTP; a TTL in IPv4 or IPv6) the first one that
//!   is present wins. A field whose header is absent reads as zero;
//! - a **scalar** that the parser worked out (the innermost EtherType, the kind of fragment);
//! - **presence**: one bit, whether a header is there. So a mask can depend on absence;
//! - the **receiver**: input port, tunnel, recirculation id;
//! - nothing: a **register**, zero when the packet comes in.
//!
//! All but registers are *ingress* fields: only they take part in a cache's key.

use std::borrow::Cow;

/// A field's place in its catalogue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FieldId(pub u16);

impl FieldId {
    /// The field's position in its catalogue.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A header that a parser can find in a packet, by its place in the parser's table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HeaderId(pub u8);

/// How far into a packet a field lies; staged lookups examine the stages in this order.
///
/// The stages are Open vSwitch's (`lib/classifier.h`): port and metadata, L2, L3, L4.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stage {
    /// Given with the packet, or made by the program: input port, tunnel, metadata, registers.
    Metadata,
    /// Ethernet, VLAN tags, MPLS labels.
    Link,
    /// IPv4, IPv6, ARP.
    Network,
    /// TCP, UDP, SCTP, ICMP, neighbour discovery.
    Transport,
}

impl Stage {
    /// How many stages there are.
    pub const COUNT: usize = 4;
}

/// Bits in a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Location {
    /// The header.
    pub header: HeaderId,
    /// Where the field starts, in bits from the start of the header.
    pub bit_offset: u16,
}

/// A value that the parser works out rather than reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scalar {
    /// The EtherType behind all VLAN tags; 0x05ff for frames that have none.
    EtherType,
    /// The outer VLAN tag, its CFI bit set to say that there is one; zero if untagged.
    VlanTci,
    /// The second VLAN tag, likewise.
    VlanTciInner,
    /// The IP protocol, behind IPv6 extension headers.
    IpProtocol,
    /// Bit 0: a fragment; bit 1: not the first one.
    IpFragment,
    /// The ARP operation; zero where it is above 255, as in Open vSwitch.
    ArpOperation,
    /// 1 if the IPv4 TTL or IPv6 hop limit is above 1, so that it can be decremented.
    IpTtlAboveOne,
}

impl Scalar {
    /// How many scalars there are.
    pub const COUNT: usize = 7;
}

/// A value that comes with the packet rather than in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intrinsic {
    /// The port that received the packet.
    InPort,
    /// The frozen continuation that the packet resumes; zero on its first pass.
    RecirculationId,
    /// The tunnel's key (VNI).
    TunnelId,
    /// The tunnel's outer IPv4 source.
    TunnelSource,
    /// The tunnel's outer IPv4 destination.
    TunnelDestination,
}

/// Where a field's value comes from when a packet comes in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// Bits in the first of these headers that is present; zero if none is.
    Wire(Cow<'static, [Location]>),
    /// Worked out by the parser.
    Scalar(Scalar),
    /// One bit: whether the header is present.
    Presence(HeaderId),
    /// Given by the receiver.
    Intrinsic(Intrinsic),
    /// Nothing: zero.
    Register,
}

/// A field: its name, its width, and where its value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldDescriptor {
    /// The name, as the front end spells it.
    pub name: Cow<'static, str>,
    /// How many bits it has; at least 1.
    pub width_bits: u16,
    /// How far into a packet it lies.
    pub stage: Stage,
    /// Where its value comes from.
    pub source: Source,
}

impl FieldDescriptor {
    /// Whether the value is given at ingress, so that a cache's mask can speak of it.
    pub fn is_ingress(&self) -> bool {
        self.source != Source::Register
    }
}
