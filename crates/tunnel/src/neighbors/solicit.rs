//! The packets that ask for a next hop's MAC address, as Open vSwitch sends them (`compose_arp` and
//! `compose_nd_ns` of `lib/packets.c`).

use std::net::{Ipv4Addr, Ipv6Addr};

use thalweg_packet::wire::{MacAddress, NeighborMessage, NeighborRepr, PacketBuilder};

/// The frame of an ARP request for `target`, to all stations.
pub fn arp_request(mac: MacAddress, source: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    PacketBuilder::ethernet(mac, MacAddress::BROADCAST)
        .arp_request(mac, source, target)
        .build()
}

/// The frame of a neighbour solicitation for `target`, to its solicited-node address.
pub fn neighbor_solicitation(mac: MacAddress, source: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    /// The hop limit that receivers demand (RFC 4861 section 7.1.1).
    const HOP_LIMIT: u8 = 255;
    let group = solicited_node(target);
    PacketBuilder::ethernet(mac, multicast_mac(group))
        .ipv6(source, group)
        .ttl(HOP_LIMIT)
        .neighbor(NeighborRepr {
            message: NeighborMessage::Solicitation,
            target,
            source_link_layer: Some(mac),
            target_link_layer: None,
        })
        .build()
}

/// The solicited-node multicast address of an address (RFC 4291 section 2.7.1).
pub(super) const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    const PREFIX: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    Ipv6Addr::from_bits(PREFIX | (address.to_bits() & 0xff_ffff))
}

/// The MAC address of an IPv6 multicast address (RFC 2464 section 7).
fn multicast_mac(group: Ipv6Addr) -> MacAddress {
    let [.., a, b, c, d] = group.octets();
    MacAddress([0x33, 0x33, a, b, c, d])
}
