//! Random and hostile packets over the pools that random rules match.
//!
//! A packet is built well-formed, layer by layer, then perhaps damaged. Named cases, each of
//! which has broken some switch, occur frequently: IP protocol 0 (CVE-2023-1668), padding
//! behind the IP packet (CVE-2020-35498), neighbour discovery with broken options
//! (CVE-2023-5366), first and later fragments, extension headers, zero, one or more tags, ARP
//! of any operation, frames with a length in place of the type, MPLS, and packets truncated
//! anywhere.

use std::net::{Ipv4Addr, Ipv6Addr};

use rand::Rng;
use thalweg_packet::wire::{
    ArpOperation, ArpRepr, EtherType, Icmpv4Repr, Icmpv4Type, Icmpv6Repr, Icmpv6Type, IpProtocol,
    MacAddress, NeighborMessage, NeighborRepr, PacketBuilder, TcpFlags,
};

use super::{RandomConfig, pool};
use crate::seed::{Random, index_below, pick, stream, weighted_index};

/// A packet and its input port.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RandomPacket {
    /// The port.
    pub in_port: u32,
    /// The bytes, from the Ethernet header on; perhaps shorter than that header.
    pub bytes: Vec<u8>,
}

/// An endless, seeded source of packets for random pipelines.
pub struct PacketSource {
    ports: u32,
    /// Whether payloads have many lengths.
    varies: bool,
    random: Random,
}

/// All prefixes of `bytes`, from empty to complete.
pub fn truncations(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    (0..=bytes.len()).map(|length| &bytes[..length])
}

impl PacketSource {
    /// Creates a source of packets for the ports of `config`.
    pub fn new(config: &RandomConfig, seed: u64) -> Self {
        PacketSource {
            ports: config.ports,
            varies: config.checks_length,
            random: stream(seed, "random packets"),
        }
    }

    /// The next packet, damaged in one case out of five.
    pub fn next_packet(&mut self) -> RandomPacket {
        let mut packet = self.next_whole_packet();
        let bytes = &mut packet.bytes;
        match self.random.random_range(0..20_u8) {
            0..2 => bytes.truncate(index_below(&mut self.random, bytes.len() + 1)),
            2 => {
                let place = index_below(&mut self.random, bytes.len());
                bytes[place] = self.random.random();
            }
            3 => {
                // Lengths and offsets are in the first bytes of headers; flip bits there.
                let place = index_below(&mut self.random, bytes.len().min(64));
                bytes[place] ^= 1 << self.random.random_range(0..8_u8);
            }
            _ => {}
        }
        packet
    }

    /// The next undamaged packet, which may still be unusual.
    pub fn next_whole_packet(&mut self) -> RandomPacket {
        let in_port = self.random.random_range(1..=self.ports);
        let mut builder = PacketBuilder::ethernet(self.mac(), self.mac());
        let is_length_frame = self.random.random_ratio(1, 24);
        if is_length_frame {
            let bytes = self.length_frame(builder);
            return RandomPacket { in_port, bytes };
        }
        for _ in 0..*pick(&mut self.random, &[0, 0, 0, 1, 1, 1, 2, 2, 3]) {
            let (vlan, priority) = (
                *pick(&mut self.random, &pool::VLANS),
                self.random.random_range(0..8),
            );
            let is_service = self.random.random_ratio(1, 3);
            builder = if is_service {
                builder.service_vlan(vlan, priority)
            } else {
                builder.vlan(vlan, priority)
            };
        }
        const WEIGHTS: [u32; 5] = [55, 25, 10, 5, 3];
        builder = match weighted_index(&mut self.random, WEIGHTS.into_iter()) {
            0 => self.ipv4(builder),
            1 => self.ipv6(builder),
            2 => self.arp(builder),
            3 => self.mpls(builder),
            _ => builder
                .ether_type(EtherType(0x88b5))
                .payload(&self.random.random::<[u8; 8]>()),
        };
        if self.random.random_ratio(1, 3) {
            builder = builder.pad_to(self.random.random_range(60..=90));
        }
        RandomPacket {
            in_port,
            bytes: builder.build(),
        }
    }

    fn mac(&mut self) -> MacAddress {
        MacAddress::from_u64(*pick(&mut self.random, &pool::ETHERNET))
    }

    fn ipv4_address(&mut self) -> Ipv4Addr {
        Ipv4Addr::from(*pick(&mut self.random, &pool::IPV4))
    }

    fn ipv6_address(&mut self) -> Ipv6Addr {
        Ipv6Addr::from(*pick(&mut self.random, &pool::IPV6))
    }

    /// LLC and SNAP, LLC alone, and wrong lengths.
    fn length_frame(&mut self, builder: PacketBuilder) -> Vec<u8> {
        if self.random.random() {
            let builder = builder.snap();
            return self.ipv4(builder).build();
        }
        let length = *pick(&mut self.random, &[0_u16, 3, 8, 46, 0x05dc, 0x05ff]);
        let mut payload = [0_u8; 16];
        payload[..8].copy_from_slice(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
        if self.random.random() {
            payload[..3].copy_from_slice(&[0x42, 0x42, 3]);
        }
        builder
            .ether_type(EtherType(length))
            .payload(&payload)
            .build()
    }

    fn ipv4(&mut self, builder: PacketBuilder) -> PacketBuilder {
        let (source, destination) = (self.ipv4_address(), self.ipv4_address());
        let random = &mut self.random;
        let mut builder = builder
            .ipv4(source, destination)
            .ttl(*pick(random, &pool::TTL))
            .dscp(*pick(random, &pool::DSCP))
            .ecn(random.random_range(0..4));
        if random.random_ratio(1, 10) {
            // No operation, three times, and the end of the list (RFC 791 section 3.1).
            builder = builder.ipv4_options(&[1, 1, 1, 0]);
        }
        match random.random_range(0..10_u8) {
            0 => return self.later_fragment(builder),
            1 => builder = builder.fragment(7, 0, true),
            _ => {}
        }
        self.transport(builder, false)
    }

    fn ipv6(&mut self, builder: PacketBuilder) -> PacketBuilder {
        let (source, destination) = (self.ipv6_address(), self.ipv6_address());
        let random = &mut self.random;
        let mut builder = builder
            .ipv6(source, destination)
            .ttl(*pick(random, &pool::TTL))
            .dscp(*pick(random, &pool::DSCP))
            .flow_label(random.random_range(0..4));
        while random.random_ratio(1, 4) {
            let kinds = [
                IpProtocol::HOP_BY_HOP,
                IpProtocol::ROUTING,
                IpProtocol::DESTINATION_OPTIONS,
            ];
            // Six bytes of padding options (RFC 8200 section 4.2).
            builder = builder.extension(*pick(random, &kinds), &[1, 4, 0, 0, 0, 0]);
        }
        match random.random_range(0..10_u8) {
            0 => return self.later_fragment(builder),
            1 => builder = builder.fragment(7, 0, true),
            _ => {}
        }
        self.transport(builder, true)
    }

    /// A fragment whose transport header is in another one.
    fn later_fragment(&mut self, builder: PacketBuilder) -> PacketBuilder {
        let protocol = *pick(&mut self.random, &[IpProtocol::TCP, IpProtocol::UDP]);
        let more = self.random.random();
        // Payload that looks like ports: parsing it as such is the mistake to catch.
        builder
            .fragment(7, 8, more)
            .protocol(protocol)
            .payload(&[0, 80, 0, 80, 0, 16, 0, 0])
    }

    /// A payload with this beginning.
    fn payload(&mut self, begin: &[u8]) -> Vec<u8> {
        let mut bytes = begin.to_vec();
        if self.varies {
            bytes.resize(self.random.random_range(begin.len()..50), 0);
        }
        bytes
    }

    fn transport(&mut self, builder: PacketBuilder, is_ipv6: bool) -> PacketBuilder {
        let random = &mut self.random;
        let (source, destination) = (*pick(random, &pool::PORTS), *pick(random, &pool::PORTS));
        match random.random_range(0..20_u8) {
            0..7 => {
                let flags = TcpFlags(*pick(random, &pool::TCP_FLAGS));
                let builder = builder.tcp(source, destination).tcp_flags(flags);
                builder.payload(&self.payload(b"tcp"))
            }
            7..14 => {
                let builder = builder.udp(source, destination);
                let has_none = !is_ipv6 && random.random_ratio(1, 4);
                let builder = if has_none {
                    builder.without_udp_checksum()
                } else {
                    builder
                };
                builder.payload(&self.payload(b"udp"))
            }
            14..17 if is_ipv6 => self.icmpv6(builder),
            14..17 => builder.icmpv4(Icmpv4Repr {
                message_type: Icmpv4Type(*pick(random, &pool::ICMP_TYPES)),
                code: *pick(random, &pool::CODES),
                rest: [0; 4],
            }),
            17 => builder.sctp(source, destination, 0),
            // Protocol 0 means hop-by-hop options in IPv6 and nothing in IPv4.
            18 => builder.protocol(IpProtocol(0)).payload(&[0; 8]),
            _ => builder.protocol(IpProtocol::GRE).payload(&[0; 4]),
        }
    }

    fn icmpv6(&mut self, builder: PacketBuilder) -> PacketBuilder {
        if self.random.random_ratio(1, 3) {
            return builder.icmpv6(Icmpv6Repr {
                message_type: Icmpv6Type(*pick(&mut self.random, &pool::ICMPV6_TYPES)),
                code: *pick(&mut self.random, &pool::CODES),
                rest: [0; 4],
            });
        }
        let is_solicitation = self.random.random();
        let mut link_layer = || self.random.random_ratio(2, 3);
        let (has_source, has_target) = (link_layer(), link_layer());
        let message = if is_solicitation {
            NeighborMessage::Solicitation
        } else {
            NeighborMessage::Advertisement {
                router: false,
                solicited: true,
                overrides: true,
            }
        };
        let repr = NeighborRepr {
            message,
            target: self.ipv6_address(),
            source_link_layer: has_source.then(|| self.mac()),
            target_link_layer: has_target.then(|| self.mac()),
        };
        // Options: none, of length zero, longer than the packet, repeated, or truncated.
        let options: &[&[u8]] = &[
            &[],
            &[],
            &[1, 0, 2, 0, 0, 0, 0, 1],
            &[2, 9, 2, 0, 0, 0, 0, 1],
            &[1, 1, 2, 0, 0, 0, 0, 2],
            &[1],
        ];
        builder
            .neighbor(repr)
            .payload(pick::<&[u8]>(&mut self.random, options))
    }

    fn arp(&mut self, builder: PacketBuilder) -> PacketBuilder {
        let repr = ArpRepr {
            operation: ArpOperation(*pick(&mut self.random, &pool::ARP_OPS)),
            sender_hardware: self.mac(),
            sender_protocol: self.ipv4_address(),
            target_hardware: self.mac(),
            target_protocol: self.ipv4_address(),
        };
        if self.random.random_ratio(1, 8) {
            // The same bytes as reverse ARP (RFC 903).
            let mut bytes = vec![0; 28];
            repr.emit(&mut bytes);
            return builder.ether_type(EtherType::RARP).payload(&bytes);
        }
        builder.arp(repr)
    }

    fn mpls(&mut self, mut builder: PacketBuilder) -> PacketBuilder {
        for _ in 0..self.random.random_range(1..=4_u8) {
            let label = *pick(&mut self.random, &pool::LABELS);
            builder = builder.mpls(label, self.random.random_range(0..8), 64);
        }
        self.ipv4(builder)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_hundred_thousand_packets_are_built_without_a_panic() {
        let mut source = PacketSource::new(&RandomConfig::default(), 1);
        let packets: Vec<_> = (0..100_000).map(|_| source.next_packet()).collect();
        assert!(
            packets
                .iter()
                .all(|packet| (1..=4).contains(&packet.in_port))
        );
        let has = |test: fn(&[u8]) -> bool| packets.iter().any(|packet| test(&packet.bytes));
        assert!(has(|bytes| bytes.is_empty()));
        assert!(has(|bytes| bytes.len() > 80));
        // Untagged IPv4 of protocol 0, and a later fragment.
        assert!(has(|bytes| bytes.len() > 33
            && bytes[12..14] == [8, 0]
            && bytes[23] == 0));
        assert!(has(|bytes| bytes.len() > 33
            && bytes[12..14] == [8, 0]
            && bytes[21] == 1));
        for eth_type in [0x0806_u16, 0x8100, 0x88a8, 0x86dd, 0x8847, 0x8035, 3] {
            let type_bytes = eth_type.to_be_bytes();
            let found = packets
                .iter()
                .any(|packet| packet.bytes.get(12..14) == Some(&type_bytes));
            assert!(found, "{eth_type:#x}");
        }
        // The pools are small: many packets differ, yet far fewer than there could be.
        let distinct: HashSet<_> = packets.iter().map(|packet| &packet.bytes).collect();
        assert!(distinct.len() > 30_000);
    }

    #[test]
    fn the_seed_decides() {
        let draw = |seed| {
            let mut source = PacketSource::new(&RandomConfig::default(), seed);
            (0..100).map(|_| source.next_packet()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn truncations_are_all_of_them() {
        let lengths: Vec<_> = truncations(b"abc").map(<[u8]>::len).collect();
        assert_eq!(lengths, [0, 1, 2, 3]);
    }
}
