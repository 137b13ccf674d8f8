//! Writes the initial corpus of the packet targets: one frame of each shape, by name.
//!
//! Run it again when a protocol is added; inputs that were found later stay as they are.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use anyhow::Context;
use thalweg_packet::wire::{IpProtocol, MacAddress, PacketBuilder};
use thalweg_v2p::wire::{Datagram, OptionRepr};
use thalweg_v2p::{
    Address, Body, Carried, CarryReason, Data, Key, MapVersion, Mapping, Packet, Stale, SwitchId,
    Tags, Vni,
};

const SOURCE: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const DESTINATION: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
const A4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B4: Ipv4Addr = Ipv4Addr::new(20, 0, 0, 2);
const A6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
/// Maximum segment size, window scale, timestamps, padding.
const TCP_OPTIONS: [u8; 20] = [
    2, 4, 5, 0xb4, 1, 3, 3, 7, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2,
];
/// A neighbour solicitation after its ICMPv6 header, with one option.
const SOLICITATION: [u8; 28] = [
    0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 1, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0,
];
/// Four changes before a frame of the target `rewrite`: their number, then eight bytes each.
///
/// They write an IPv4 source, an IPv6 destination and a port, and decrement a TTL.
#[rustfmt::skip]
const REWRITES: [u8; 33] = [
    4,
    8, 0, 10, 9, 8, 7, 6, 5,
    11, 0xf0, 0xde, 0xad, 0xbe, 0xef, 1, 2,
    25, 0, 0x1f, 0x90, 1, 2, 3, 4,
    36, 0, 0, 0, 0, 0, 0, 0,
];

fn ethernet() -> PacketBuilder {
    PacketBuilder::ethernet(SOURCE, DESTINATION)
}

/// A name, the packet, and the offset of its most interesting header.
type Seed = (&'static str, PacketBuilder, usize);

fn link_seeds() -> Vec<Seed> {
    let ipv4 = |builder: PacketBuilder| builder.ipv4(A4, B4).udp(1, 2);
    let twice = ethernet().service_vlan(5, 0).vlan(6, 0);
    let labels = ethernet().mpls(16, 0, 64).mpls(17, 0, 64);
    vec![
        ("arp", ethernet().arp_request(SOURCE, A4, B4), 14),
        ("vlan", ipv4(ethernet().vlan(100, 3)), 12),
        ("vlan-twice", ipv4(twice), 12),
        ("mpls", labels.ipv4(A4, B4), 14),
        ("snap", ipv4(ethernet().snap()), 12),
    ]
}

fn ipv4_seeds() -> Vec<Seed> {
    let ipv4 = || ethernet().ipv4(A4, B4);
    let inner = || ipv4().udp(7, 8).payload(b"inner");
    let vxlan = ipv4().udp(9, 4789).vxlan(42);
    let geneve = ipv4().udp(9, 6081).geneve(42);
    let options = ipv4().ipv4_options(&[1, 1, 1, 0]);
    let zero = ipv4().protocol(IpProtocol(0)).payload(b"zero");
    let tcp = ipv4().tcp(1, 80).tcp_options(&TCP_OPTIONS);
    vec![
        ("ipv4-udp", ipv4().udp(1000, 53).payload(b"query"), 34),
        ("ipv4-udp-padded", ipv4().udp(1, 2).pad_to(60), 14),
        ("ipv4-options", options.udp(1, 2), 14),
        ("ipv4-tcp-options", tcp.clone(), 34),
        ("ipv4-tcp-option-list", tcp, 54),
        ("ipv4-sctp", ipv4().sctp(5, 6, 7).payload(&[0; 8]), 34),
        ("ipv4-protocol-0", zero, 14),
        ("vxlan", vxlan.encapsulating(inner()), 42),
        ("geneve", geneve.encapsulating(inner()), 42),
    ]
}

fn ipv6_seeds() -> Vec<Seed> {
    let ipv6 = || ethernet().ipv6(A6, B6);
    let mut solicitation = vec![135, 0, 0, 0, 0, 0, 0, 0];
    solicitation.extend_from_slice(&SOLICITATION);
    let neighbor = ipv6().protocol(IpProtocol(58)).payload(&solicitation);
    let hop_by_hop = ipv6().extension(IpProtocol(0), &[0; 6]);
    let authentication = ipv6().extension(IpProtocol(51), &[0; 22]);
    let routing = authentication.extension(IpProtocol(43), &[0, 1, 0, 0, 0, 0]);
    let routing = routing.udp(1, 2);
    vec![
        ("ipv6-udp", ipv6().udp(1000, 53).payload(b"query"), 54),
        ("ipv6-tcp", ipv6().tcp(1, 443).payload(b"hello"), 54),
        ("ipv6-hop-by-hop", hop_by_hop.udp(1, 2), 54),
        ("ipv6-solicitation", neighbor, 54),
        ("ipv6-routing-behind-authentication", routing, 54),
    ]
}

/// Bodies of V2P packets, by name.
fn v2p_bodies() -> anyhow::Result<[(&'static str, Body); 6]> {
    let place = Address::new(B6.into()).context("an address")?;
    let vni = Vni::new(42).context("an identifier")?;
    let (address, version) = (Address::from_ipv4(A4), MapVersion(7));
    let mapping = Mapping {
        key: Key { vni, address },
        place,
        version,
    };
    let carry = |reason| Some(Carried { mapping, reason });
    let none = Tags::default();
    let returned = Tags {
        hit: Some(SwitchId(1)),
        resolved_version: version,
        ..none
    };
    let all = Tags {
        source_version: version,
        origin: Some(place),
        carried: carry(CarryReason::Promoted),
        misdelivery: Some(Stale { place, version }),
        ..returned
    };
    let spilled = Tags {
        carried: carry(CarryReason::Spilled),
        ..none
    };
    let data = |tags| {
        Body::Data(Data {
            vni,
            inner_source: address,
            inner_destination: Address::from_ipv4(B4),
            tags,
        })
    };
    Ok([
        ("plain", data(none)),
        ("returned", data(returned)),
        ("spilled", data(spilled)),
        ("all-tags", data(all)),
        ("learning", Body::Learning(mapping)),
        ("invalidation", Body::Invalidation(mapping)),
    ])
}

/// V2P packets with different tags, and their options alone.
fn v2p_seeds() -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let frame = ethernet().ipv4(A4, B4).udp(7, 8).payload(b"inner").build();
    let mut seeds = Vec::new();
    for (name, body) in v2p_bodies()? {
        let (option, payload) = match body {
            Body::Data(data) => (OptionRepr::Data(data.tags), &frame[..]),
            Body::Learning(mapping) => (OptionRepr::Learning(mapping), &[][..]),
            Body::Invalidation(mapping) => (OptionRepr::Invalidation(mapping), &[][..]),
        };
        let mut bytes = vec![0; option.buffer_len()];
        option.emit(&mut bytes);
        seeds.push((format!("option-{name}"), bytes));
        let packet = Packet {
            outer_source: Address::from_ipv4(A4),
            outer_destination: Address::from_ipv4(B4),
            ttl: 64,
            flow: 9,
            body,
        };
        let datagram = Datagram {
            payload,
            ..Datagram::control(packet)
        };
        let mut bytes = vec![0; datagram.buffer_len()];
        datagram.emit(&mut bytes)?;
        seeds.push((format!("packet-{name}"), bytes));
    }
    Ok(seeds)
}

fn main() -> anyhow::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let seeds = [link_seeds(), ipv4_seeds(), ipv6_seeds()].concat();
    for (name, builder, offset) in seeds {
        let frame = builder.build();
        let from_port_1 = [&[0], &frame[..]].concat();
        let rewritten = [&REWRITES[..], &frame[..]].concat();
        let inputs = [
            ("rewrite", &rewritten[..]),
            ("frame", &frame[..]),
            ("forward", &from_port_1),
            ("wire", &frame[offset..]),
        ];
        for (target, bytes) in inputs {
            let path = corpus.join(target).join(name);
            std::fs::create_dir_all(corpus.join(target))?;
            std::fs::write(&path, bytes).context(path.display().to_string())?;
        }
    }
    std::fs::create_dir_all(corpus.join("v2p_wire"))?;
    for (name, bytes) in v2p_seeds()? {
        std::fs::write(corpus.join("v2p_wire").join(name), bytes)?;
    }
    Ok(())
}
