//! Measures one packet into a tunnel, and out of it.
//!
//! `push` puts finished headers in front of a packet, with its lengths and checksums. `take` reads
//! the outer frame. A checksum over the whole packet is what differs most between the rows. `find`
//! looks for the port of a received packet, `send` makes the outer values of one, and `route` and
//! `neighbor` find the next hop: for what no cache answers.

#![expect(missing_docs, reason = "criterion's macro makes a public function")]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use thalweg_packet::wire::{EtherType, GeneveOption, MacAddress};
use thalweg_packet::{Instant, Packet};
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

const PORTS: u32 = 1_000;

/// The address with a number.
fn address(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + number).into()
}

fn lookups(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tunnel");
    group.throughput(Throughput::Elements(1));
    let mut ports = TunnelPorts::default();
    let mut routes = TunnelRoutes::default();
    let mut neighbors = NeighborCache::default();
    let interface = InterfaceAddress {
        address: address(1),
        prefix_len: 8,
    };
    for number in 0..PORTS {
        let remote = address(number << 8).to_string();
        let options = [("remote_ip", remote.as_str()), ("key", "flow")];
        let parsed = TunnelPort::parse("t", TunnelType::Geneve, options).expect("a port");
        ports
            .insert(number, "t", parsed.port, 1)
            .expect("ports differ");
        let prefix = format!("{remote}/24");
        let add = [prefix.as_str(), "br0"];
        routes
            .add_command(&add, |_| vec![interface])
            .expect("a route");
        neighbors.set(
            "br0",
            address(number << 8),
            MacAddress([2; 6]),
            Instant::ZERO,
        );
    }
    let (remote, local) = (address(700 << 8), address(1));
    let received = TunnelMetadata {
        endpoints: Endpoints::new(remote, local).expect("one family"),
        ..metadata(false)
    };
    let port = ports.get(700).expect("a port").clone();
    group.bench_function(format!("find/{PORTS} ports"), |bencher| {
        let kind = TunnelKind::Geneve;
        bencher.iter(|| ports.find(kind, 6081, black_box(&received), InnerType::Ethernet));
    });
    group.bench_function("send", |bencher| {
        bencher.iter(|| port.outgoing(black_box(&received), None, None));
    });
    group.bench_function(format!("route/{PORTS} rows"), |bencher| {
        bencher.iter(|| routes.lookup(black_box(remote), 0, None));
    });
    group.bench_function(format!("neighbor/{PORTS} entries"), |bencher| {
        bencher.iter(|| neighbors.lookup("br0", black_box(remote), Instant::ZERO));
    });
    group.finish();
}

criterion_group!(benches, tunnels, lookups);
criterion_main!(benches);
