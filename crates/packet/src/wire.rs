//! Wire formats: one file per protocol, from bytes to meaning and back.
//!
//! The parser of keys, the rewriter of packets, the generators of workloads and the tests all
//! use this folder. So each byte range and each constant of a standard is written down once.
//! Every protocol has the same two types:
//!
//! - a *view*, `FooView<'a>`: a slice whose lengths `new_checked` has verified, with getters
//!   that cannot fail. It checks nothing else: a wrong checksum, a port of zero or a strange
//!   flag is the caller's to look at;
//! - a *representation*, `FooRepr`: a plain struct of the header's fields. `parse` makes it
//!   from a view, and `emit` writes it into a slice of at least `buffer_len` bytes. The two
//!   round-trip.
//!
//! 1. A view reads only inside its slice. No input makes `new_checked`, a getter, an iterator
//!    or `parse` panic.
//! 2. `parse(view(emit(repr))) == repr` for each representation whose fields are in range.
//! 3. Work is linear in the header. Chains (extension headers, options, label stacks) are
//!    bounded by a stated constant or by their own length.
//! 4. The length in a header and the length of the slice may differ: Ethernet pads, and
//!    captures cut. `payload` ends where the header says.
//!
//! Where a header states the payload's length (IPv4, IPv6, UDP), `new_checked` refuses a
//! shorter slice. `new_header_checked` accepts it: for the first fragment of a datagram and
//! for a datagram that an ICMP error quotes.
//!
//! `emit` writes checksums of a header alone (IPv4). It writes zero for those that cover a
//! payload (TCP, UDP, SCTP, ICMP). `fill_checksum` completes them when the payload is in
//! place, and [`crate::checksum`] updates them when a field changes.
//!
//! The design is that of smoltcp's `wire` module, except that views borrow only `&[u8]`:
//! packets are written through representations and rewritten in place elsewhere.

mod address;
mod arp;
mod build;
mod build_layer;
mod error;
mod ethernet;
mod field;
mod geneve;
mod icmpv4;
mod icmpv6;
mod ip;
mod ipv4;
mod ipv6;
mod ipv6_extension;
mod llc;
mod mpls;
mod neighbor;
mod sctp;
mod tcp;
mod tcp_option;
mod udp;
mod vlan;
mod vxlan;

pub use address::{MacAddress, ParseMacAddressError};
pub use arp::{ArpOperation, ArpRepr, ArpView};
pub use build::PacketBuilder;
pub use error::WireError;
pub use ethernet::{EtherType, EthernetRepr, EthernetView};
pub use geneve::{GENEVE_PORT, GeneveOption, GeneveOptions, GeneveRepr, GeneveView};
pub use icmpv4::{Icmpv4Repr, Icmpv4Type, Icmpv4View};
pub use icmpv6::{Icmpv6Repr, Icmpv6Type, Icmpv6View};
pub use ip::{FragmentKind, IpProtocol};
pub use ipv4::{Ipv4Repr, Ipv4View};
pub use ipv6::{Ipv6Repr, Ipv6View};
pub use ipv6_extension::{
    EXTENSIONS_MAX, ExtensionRepr, ExtensionView, ExtensionWalk, Ipv6FragmentRepr,
    Ipv6FragmentView, walk_extensions,
};
pub use llc::{FrameType, LlcRepr, LlcView, Snap};
pub use mpls::{LabelStack, MplsRepr, MplsView};
pub use neighbor::{NeighborMessage, NeighborRepr, NeighborView};
pub use sctp::{SctpRepr, SctpView};
pub use tcp::{TcpFlags, TcpRepr, TcpView};
pub use tcp_option::{TcpOption, TcpOptions};
pub use udp::{UdpRepr, UdpView};
pub use vlan::{VlanRepr, VlanView};
pub use vxlan::{VXLAN_PORT, VxlanRepr, VxlanView};
