//! One header of a packet under construction: its length, its type number, its bytes.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{
    ArpRepr, EtherType, EthernetRepr, ExtensionRepr, GeneveRepr, Icmpv4Repr, Icmpv6Repr,
    IpProtocol, Ipv4Repr, Ipv6FragmentRepr, Ipv6Repr, LlcRepr, MplsRepr, NeighborRepr, SctpRepr,
    Snap, TcpRepr, UdpRepr, VlanRepr, VxlanRepr,
};
use crate::checksum::Sum;

/// A header, without the fields that its neighbours determine: types, lengths, checksums.
#[derive(Clone, Debug)]
pub(super) enum Layer {
    Ethernet(EthernetRepr),
    Snap,
    Vlan {
        announced_by: EtherType,
        repr: VlanRepr,
    },
    Mpls(MplsRepr),
    Arp(ArpRepr),
    Ipv4 {
        repr: Ipv4Repr<'static>,
        options: Vec<u8>,
    },
    Ipv6(Ipv6Repr),
    Extension {
        kind: IpProtocol,
        body: Vec<u8>,
    },
    Ipv6Fragment(Ipv6FragmentRepr),
    Tcp {
        repr: TcpRepr<'static>,
        options: Vec<u8>,
    },
    Udp {
        repr: UdpRepr,
        has_checksum: bool,
    },
    Sctp(SctpRepr),
    Icmpv4(Icmpv4Repr),
    Icmpv6(Icmpv6Repr),
    Neighbor(NeighborRepr),
    Vxlan(VxlanRepr),
    Geneve {
        repr: GeneveRepr<'static>,
        options: Vec<u8>,
    },
}

/// The facts about its neighbours that a header needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbors {
    /// The next header, where an Ethernet type (or a length) names it.
    pub(super) ether_type: EtherType,
    /// The next header, where an IP protocol names it.
    pub(super) protocol: IpProtocol,
    /// Whether another label stack entry follows.
    pub(super) is_label_next: bool,
    /// The addresses of the nearest IP header in front.
    pub(super) addresses: Option<Addresses>,
}

/// The addresses in a pseudo-header.
#[derive(Clone, Copy, Debug)]
pub(super) enum Addresses {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

impl Layer {
    /// The length of the header in bytes.
    pub(super) fn len(&self) -> usize {
        match self {
            Layer::Ethernet(repr) => repr.buffer_len(),
            Layer::Snap => snap(EtherType(0)).buffer_len(),
            Layer::Vlan { repr, .. } => repr.buffer_len(),
            Layer::Mpls(repr) => repr.buffer_len(),
            Layer::Arp(repr) => repr.buffer_len(),
            Layer::Ipv4 { repr, options } => repr.buffer_len() + options.len(),
            Layer::Ipv6(repr) => repr.buffer_len(),
            Layer::Extension { kind, body } => ExtensionRepr {
                kind: *kind,
                next_header: *kind,
                body,
            }
            .buffer_len(),
            Layer::Ipv6Fragment(repr) => repr.buffer_len(),
            Layer::Tcp { repr, options } => repr.buffer_len() + options.len(),
            Layer::Udp { repr, .. } => repr.buffer_len(),
            Layer::Sctp(repr) => repr.buffer_len(),
            Layer::Icmpv4(repr) => repr.buffer_len(),
            Layer::Icmpv6(repr) => repr.buffer_len(),
            Layer::Neighbor(repr) => repr.buffer_len(),
            Layer::Vxlan(repr) => repr.buffer_len(),
            Layer::Geneve { repr, options } => repr.buffer_len() + options.len(),
        }
    }

    /// The Ethernet type that the previous header uses for this one.
    pub(super) fn ether_type(&self) -> Option<EtherType> {
        match self {
            Layer::Ethernet(_) => Some(EtherType::ETHERNET),
            Layer::Vlan { announced_by, .. } => Some(*announced_by),
            Layer::Mpls(_) => Some(EtherType::MPLS),
            Layer::Arp(_) => Some(EtherType::ARP),
            Layer::Ipv4 { .. } => Some(EtherType::IPV4),
            Layer::Ipv6(_) => Some(EtherType::IPV6),
            _ => None,
        }
    }

    /// The IP protocol that the previous header uses for this one.
    pub(super) fn protocol(&self) -> Option<IpProtocol> {
        match self {
            Layer::Ipv4 { .. } => Some(IpProtocol::IPV4),
            Layer::Ipv6(_) => Some(IpProtocol::IPV6),
            Layer::Extension { kind, .. } => Some(*kind),
            Layer::Ipv6Fragment(_) => Some(IpProtocol::FRAGMENT),
            Layer::Tcp { .. } => Some(IpProtocol::TCP),
            Layer::Udp { .. } => Some(IpProtocol::UDP),
            Layer::Sctp(_) => Some(IpProtocol::SCTP),
            Layer::Icmpv4(_) => Some(IpProtocol::ICMPV4),
            Layer::Icmpv6(_) | Layer::Neighbor(_) => Some(IpProtocol::ICMPV6),
            _ => None,
        }
    }

    /// The addresses, if this is an IP header.
    pub(super) fn addresses(&self) -> Option<Addresses> {
        match self {
            Layer::Ipv4 { repr, .. } => Some(Addresses::V4(repr.source, repr.destination)),
            Layer::Ipv6(repr) => Some(Addresses::V6(repr.source, repr.destination)),
            _ => None,
        }
    }

    /// Writes the header at the start of `bytes`; the rest of the packet is already behind it.
    pub(super) fn emit(&self, neighbors: &Neighbors, bytes: &mut [u8]) {
        let payload_len = bytes.len() - self.len();
        let (ether_type, protocol) = (neighbors.ether_type, neighbors.protocol);
        match self {
            Layer::Ethernet(repr) => EthernetRepr {
                ether_type,
                ..*repr
            }
            .emit(bytes),
            Layer::Snap => snap(ether_type).emit(bytes),
            Layer::Vlan { repr, .. } => VlanRepr {
                ether_type,
                ..*repr
            }
            .emit(bytes),
            Layer::Mpls(repr) => {
                MplsRepr {
                    bottom: !neighbors.is_label_next,
                    ..*repr
                }
                .emit(bytes);
            }
            Layer::Arp(repr) => repr.emit(bytes),
            Layer::Ipv4 { repr, options } => {
                Ipv4Repr {
                    protocol,
                    payload_len,
                    options,
                    ..*repr
                }
                .emit(bytes);
            }
            Layer::Ipv6(repr) => {
                Ipv6Repr {
                    next_header: protocol,
                    payload_len,
                    ..*repr
                }
                .emit(bytes);
            }
            Layer::Extension { kind, body } => {
                ExtensionRepr {
                    kind: *kind,
                    next_header: protocol,
                    body,
                }
                .emit(bytes);
            }
            Layer::Ipv6Fragment(repr) => {
                Ipv6FragmentRepr {
                    next_header: protocol,
                    ..*repr
                }
                .emit(bytes);
            }
            Layer::Vxlan(repr) => repr.emit(bytes),
            Layer::Geneve { repr, options } => {
                GeneveRepr {
                    protocol: ether_type,
                    options,
                    ..*repr
                }
                .emit(bytes);
            }
            _ => self.emit_transport(neighbors, payload_len, bytes),
        }
    }

    /// Writes a header whose checksum covers the payload.
    fn emit_transport(&self, neighbors: &Neighbors, payload_len: usize, bytes: &mut [u8]) {
        let len = bytes.len();
        match self {
            Layer::Tcp { repr, options } => {
                TcpRepr { options, ..*repr }.emit(bytes);
                TcpRepr::fill_checksum(bytes, neighbors.pseudo_header(IpProtocol::TCP, len));
            }
            Layer::Udp { repr, has_checksum } => {
                UdpRepr {
                    payload_len,
                    ..*repr
                }
                .emit(bytes);
                if *has_checksum {
                    UdpRepr::fill_checksum(bytes, neighbors.pseudo_header(IpProtocol::UDP, len));
                }
            }
            Layer::Sctp(repr) => {
                repr.emit(bytes);
                SctpRepr::fill_checksum(bytes);
            }
            Layer::Icmpv4(repr) => {
                repr.emit(bytes);
                Icmpv4Repr::fill_checksum(bytes);
            }
            Layer::Icmpv6(repr) => {
                repr.emit(bytes);
                Icmpv6Repr::fill_checksum(bytes, neighbors.pseudo_header(IpProtocol::ICMPV6, len));
            }
            Layer::Neighbor(repr) => {
                repr.emit(bytes);
                Icmpv6Repr::fill_checksum(bytes, neighbors.pseudo_header(IpProtocol::ICMPV6, len));
            }
            _ => unreachable!("the other headers have no checksum over their payload"),
        }
    }
}

impl Neighbors {
    /// The pseudo-header for a transport header and payload of `len_bytes`.
    fn pseudo_header(&self, protocol: IpProtocol, len_bytes: usize) -> Sum {
        let addresses = self
            .addresses
            .expect("a transport header needs an IP header in front");
        let len = u16::try_from(len_bytes).expect("an IP payload has under 65,536 bytes");
        match addresses {
            Addresses::V4(source, destination) => {
                Sum::of_ipv4_pseudo_header(source, destination, protocol, len)
            }
            Addresses::V6(source, destination) => {
                Sum::of_ipv6_pseudo_header(source, destination, protocol, u32::from(len))
            }
        }
    }
}

/// The SNAP header of RFC 1042.
fn snap(ether_type: EtherType) -> LlcRepr {
    LlcRepr::Snap(Snap {
        organisation: [0; 3],
        ether_type,
    })
}
