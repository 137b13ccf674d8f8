//! Measures one packet into a tunnel, and out of it.
//!
//! `push` puts finished headers in front of a packet, with its lengths and checksums. `take` reads
//! the outer frame. A checksum over the whole packet is what differs most between the rows.

#![expect(missing_docs, reason = "criterion's macro makes a public function")]

use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use thalweg_packet::Packet;
use thalweg_packet::wire::{EtherType, GeneveOption, MacAddress};
use thalweg_tunnel::*;

const INNER_BYTES: usize = 500;

fn metadata(is_ipv6: bool) -> TunnelMetadata {
    let mut options = TunnelOptions::default();
    let option = GeneveOption {
        class: 0x102,
        kind: 0x80,
        data: &[0, 0, 0, 7],
    };
    options.push(&option).expect("room for an option");
    TunnelMetadata {
        id: 123,
        endpoints: match is_ipv6 {
            true => Endpoints::V6 {
                source: Ipv6Addr::LOCALHOST,
                destination: Ipv6Addr::LOCALHOST,
            },
            false => Endpoints::V4 {
                source: Ipv4Addr::LOCALHOST,
                destination: Ipv4Addr::LOCALHOST,
            },
        },
        ttl: 64,
        flags: TunnelFlags::KEY | TunnelFlags::DONT_FRAGMENT,
        erspan: ErspanValues {
            version: 1,
            ..ErspanValues::default()
        },
        options,
        ..TunnelMetadata::default()
    }
}

fn tunnels(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tunnel");
    group.throughput(Throughput::Elements(1));
    let (frame, bare) = (InnerType::Ethernet, InnerType::Bare(EtherType::IPV4));
    let vxlan = TunnelKind::Vxlan(VxlanFlavour::Plain);
    let rows = [
        ("vxlan", vxlan, false, frame),
        ("vxlan over IPv6", vxlan, true, frame),
        ("geneve", TunnelKind::Geneve, false, frame),
        ("gre", TunnelKind::Gre, false, bare),
        ("erspan", TunnelKind::Erspan, false, frame),
        ("gtpu", TunnelKind::Gtpu, false, bare),
    ];
    let link = LinkAddresses {
        source: MacAddress([2; 6]),
        destination: MacAddress([4; 6]),
    };
    for (name, kind, is_ipv6, inner) in rows {
        let settings = HeaderSettings::default();
        let header = OuterHeader::for_frame(kind, &metadata(is_ipv6), link, inner, settings)
            .expect("the tunnel carries the packet");
        let mut packet = Packet::from_bytes(&[0x45; INNER_BYTES]);
        let variable = PerPacket::default();
        group.bench_function(format!("push/{name}"), |bencher| {
            bencher.iter(|| {
                header.push(&mut packet, variable).expect("a short packet");
                let len = black_box(packet.bytes()).len();
                packet.remove_front(len - INNER_BYTES);
            });
        });
        header.push(&mut packet, variable).expect("a short packet");
        group.bench_function(format!("take/{name}"), |bencher| {
            bencher.iter(|| decapsulate_frame(kind, black_box(packet.bytes())));
        });
    }
    group.finish();
}

criterion_group!(benches, tunnels);
criterion_main!(benches);
