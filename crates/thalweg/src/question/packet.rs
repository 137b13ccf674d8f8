//! Builds a packet with the fields of a flow.
//!
//! Absent fields are zero, except what a valid packet needs: a TTL of 64, and the lengths and
//! checksums of its headers.

use std::net::{Ipv4Addr, Ipv6Addr};

use anyhow::Result;
use thalweg_packet::wire::{
    ArpOperation, ArpRepr, EtherType, Icmpv4Repr, Icmpv4Type, Icmpv6Repr, Icmpv6Type, IpProtocol,
    MacAddress, NeighborMessage, NeighborRepr, PacketBuilder, TcpFlags,
};
use thalweg_packet::{FieldId, standard as f};
use thalweg_pipeline::Match;

/// Builds the bytes of a packet that has the fields of a flow.
pub(super) fn build(flow: &Match) -> Result<Vec<u8>> {
    let fields = Fields { flow };
    let mut builder = PacketBuilder::ethernet(fields.mac(f::ETH_SRC), fields.mac(f::ETH_DST));
    for (tci, is_outer) in [(f::VLAN_TCI, true), (f::VLAN_TCI_INNER, false)] {
        let value = fields.get(tci) as u16;
        if value & f::VLAN_PRESENT != 0 {
            let (id, priority) = (value & 0x0fff, (value >> 13) as u8);
            let is_double = fields.get(f::VLAN_TCI_INNER) != 0;
            builder = if is_outer && is_double {
                builder.service_vlan(id, priority)
            } else {
                builder.vlan(id, priority)
            };
        }
    }
    let builder = match fields.get(f::ETH_TYPE) as u16 {
        0x0800 => fields.ipv4(builder),
        0x86dd => fields.ipv6(builder),
        0x0806 => builder.arp(fields.arp()),
        0x8847 | 0x8848 => fields.mpls(builder),
        0 => builder.ether_type(EtherType(0x88b5)), // IEEE 802, local experimental
        other => builder.ether_type(EtherType(other)),
    };
    Ok(builder.pad_to(60).build())
}

struct Fields<'a> {
    flow: &'a Match,
}

impl Fields<'_> {
    fn get(&self, field: FieldId) -> u128 {
        self.flow.term(field).map_or(0, |term| term.value)
    }

    fn or(&self, field: FieldId, default: u128) -> u128 {
        self.flow.term(field).map_or(default, |term| term.value)
    }

    fn mac(&self, field: FieldId) -> MacAddress {
        MacAddress::from_u64(self.get(field) as u64)
    }

    fn ipv4(&self, builder: PacketBuilder) -> PacketBuilder {
        let address = |field| Ipv4Addr::from(self.get(field) as u32);
        let builder = builder.ipv4(address(f::IP_SRC), address(f::IP_DST));
        self.above_ip(builder)
    }

    fn ipv6(&self, builder: PacketBuilder) -> PacketBuilder {
        let address = |field| Ipv6Addr::from(self.get(field));
        let builder = builder.ipv6(address(f::IPV6_SRC), address(f::IPV6_DST));
        self.above_ip(builder.flow_label(self.get(f::IPV6_LABEL) as u32))
    }

    /// The TTL, 64 by default.
    fn ttl(&self) -> u8 {
        let is_spent = self.or(f::IP_TTL_ABOVE_1, 1) == 0;
        self.or(f::IP_TTL, if is_spent { 1 } else { 64 }) as u8
    }

    fn above_ip(&self, builder: PacketBuilder) -> PacketBuilder {
        let mut builder = builder
            .ttl(self.ttl())
            .dscp(self.get(f::IP_DSCP) as u8)
            .ecn(self.get(f::IP_ECN) as u8);
        let protocol = IpProtocol(self.get(f::IP_PROTO) as u8);
        match self.get(f::IP_FRAG) {
            0 => {}
            1 => builder = builder.fragment(1, 0, true),
            _ => {
                return builder
                    .fragment(1, 8, false)
                    .protocol(protocol)
                    .payload(&[0; 8]);
            }
        }
        let (source, destination) = (self.get(f::TP_SRC) as u16, self.get(f::TP_DST) as u16);
        let (kind, code) = (self.get(f::ICMP_TYPE) as u8, self.get(f::ICMP_CODE) as u8);
        match protocol.0 {
            6 => {
                let flags = TcpFlags(self.get(f::TCP_FLAGS) as u16);
                builder.tcp(source, destination).tcp_flags(flags)
            }
            17 => builder.udp(source, destination),
            132 => builder.sctp(source, destination, 0),
            1 => {
                let message_type = Icmpv4Type(kind);
                builder.icmpv4(Icmpv4Repr {
                    message_type,
                    code,
                    rest: [0; 4],
                })
            }
            58 if matches!(kind, 135 | 136) && code == 0 => builder.neighbor(self.neighbor(kind)),
            58 => {
                let message_type = Icmpv6Type(kind);
                builder.icmpv6(Icmpv6Repr {
                    message_type,
                    code,
                    rest: [0; 4],
                })
            }
            _ => builder.protocol(protocol),
        }
    }

    fn neighbor(&self, kind: u8) -> NeighborRepr {
        let link_layer = |field| self.flow.term(field).map(|_| self.mac(field));
        NeighborRepr {
            message: if kind == 135 {
                NeighborMessage::Solicitation
            } else {
                NeighborMessage::Advertisement {
                    router: false,
                    solicited: false,
                    overrides: false,
                }
            },
            target: Ipv6Addr::from(self.get(f::ND_TARGET)),
            source_link_layer: link_layer(f::ND_SLL),
            target_link_layer: link_layer(f::ND_TLL),
        }
    }

    fn arp(&self) -> ArpRepr {
        ArpRepr {
            operation: ArpOperation(self.or(f::ARP_OP, 1) as u16),
            sender_hardware: self.mac(f::ARP_SHA),
            sender_protocol: Ipv4Addr::from(self.get(f::ARP_SPA) as u32),
            target_hardware: self.mac(f::ARP_THA),
            target_protocol: Ipv4Addr::from(self.get(f::ARP_TPA) as u32),
        }
    }

    fn mpls(&self, builder: PacketBuilder) -> PacketBuilder {
        let (label, class) = (self.get(f::MPLS_LABEL) as u32, self.get(f::MPLS_TC) as u8);
        let builder = builder.mpls(label, class, self.or(f::MPLS_TTL, 64) as u8);
        let builder = if self.or(f::MPLS_BOS, 1) == 0 {
            builder.mpls(0, 0, 64)
        } else {
            builder
        };
        builder.ipv4(Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED)
    }
}
