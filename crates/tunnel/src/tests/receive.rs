//! Finding a packet's tunnel port, against a slow twin and against Open vSwitch's facts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use thalweg_packet::wire::{EtherType, IpProtocol};

use super::port::known_ports;
use crate::{
    Endpoints, InnerType, PacketTypeMode, ParsedTunnelPort, PortValue, TunnelInsertError,
    TunnelKind, TunnelListener, TunnelMetadata, TunnelPort, TunnelPorts, TunnelType,
};

const BARE: InnerType = InnerType::Bare(EtherType::IPV4);

/// The slow twin: looks at all ports, and takes the one that Open vSwitch's order puts first.
fn find_slowly(
    ports: &[(usize, TunnelPort)],
    listener: TunnelListener,
    metadata: &TunnelMetadata,
    inner: InnerType,
) -> Option<usize> {
    let rank = |port: &TunnelPort| {
        let (sender, receiver) = (
            metadata.endpoints.source(),
            metadata.endpoints.destination(),
        );
        let key = match port.in_key {
            None if metadata.id == 0 => 0,
            Some(PortValue::Fixed(key)) if key == metadata.id => 0,
            Some(PortValue::Flow) => 1,
            _ => return None,
        };
        let remote = match port.remote {
            PortValue::Fixed(remote) if remote == sender => 0,
            PortValue::Flow => 1,
            PortValue::Fixed(_) => return None,
        };
        let local = match port.local {
            Some(PortValue::Fixed(local)) if local == receiver => 0,
            None => 1,
            Some(PortValue::Flow) => 2,
            Some(PortValue::Fixed(_)) => return None,
        };
        let packet_type = match (port.packet_type, inner) {
            (PacketTypeMode::LegacyL2, InnerType::Ethernet) => 0,
            (PacketTypeMode::LegacyL3, InnerType::Bare(_)) => 0,
            (PacketTypeMode::Aware, _) => 1,
            _ => return None,
        };
        (TunnelListener::of(port) == listener).then_some((key, remote, local, packet_type))
    };
    let ranked = ports
        .iter()
        .filter_map(|(id, port)| Some((rank(port)?, *id)));
    ranked.min().map(|(_, id)| id)
}

fn parsed(tunnel_type: TunnelType, options: &[(&str, &str)]) -> TunnelPort {
    let options = options.iter().copied();
    let parsed = TunnelPort::parse("t0", tunnel_type, options);
    parsed.expect("options of a port").port
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (1..3_u8).prop_map(|last| IpAddr::V4(Ipv4Addr::new(1, 1, 1, last))),
        (1..3_u16).prop_map(|last| IpAddr::V6(Ipv6Addr::from_bits(last.into()))),
    ]
}

fn value<V: Clone + std::fmt::Debug>(
    of: impl Strategy<Value = V>,
) -> impl Strategy<Value = PortValue<V>> {
    prop_oneof![of.prop_map(PortValue::Fixed), Just(PortValue::Flow)]
}

fn tunnel_type() -> impl Strategy<Value = TunnelType> {
    prop::sample::select(vec![TunnelType::Vxlan, TunnelType::Gre, TunnelType::Ip6Gre])
}

/// Ports of few listeners and few values, so that many meet.
fn port() -> impl Strategy<Value = TunnelPort> {
    let modes = [
        PacketTypeMode::LegacyL2,
        PacketTypeMode::LegacyL3,
        PacketTypeMode::Aware,
    ];
    (
        tunnel_type(),
        0..2_u16,
        value(address()),
        prop::option::of(value(address())),
        prop::option::of(value(0..2_u64)),
        prop::sample::select(modes.to_vec()),
    )
        .prop_map(
            |(tunnel_type, offset, remote, local, in_key, packet_type)| {
                let mut port = parsed(tunnel_type, &[("remote_ip", "flow")]);
                port.destination_port += offset * u16::from(tunnel_type == TunnelType::Vxlan);
                port.remote = remote;
                port.local = local;
                port.in_key = in_key;
                port.packet_type = packet_type;
                port
            },
        )
}

proptest! {
    #[test]
    fn ports_are_found_as_by_the_twin(
        steps in vec((0..12_usize, prop::option::weighted(0.8, port())), 1..60),
        packets in vec(
            (tunnel_type(), 0..2_u16, address(), address(), 0..2_u64, any::<bool>()),
            30,
        ),
    ) {
        let mut ports = TunnelPorts::default();
        let mut twin: Vec<(usize, TunnelPort)> = Vec::new();
        for (id, port) in steps {
            twin.retain(|(other, _)| *other != id);
            let Some(port) = port else {
                ports.remove(id);
                continue;
            };
            let is_same = |other: &TunnelPort| {
                TunnelListener::of(other) == TunnelListener::of(&port)
                    && other.remote == port.remote
                    && other.local == port.local
                    && other.packet_type == port.packet_type
                    && other.in_key.unwrap_or(PortValue::Fixed(0))
                        == port.in_key.unwrap_or(PortValue::Fixed(0))
            };
            let is_refused = twin.iter().any(|(_, other)| is_same(other));
            prop_assert_eq!(ports.insert(id, "t0", port.clone(), 1).is_err(), is_refused);
            if !is_refused {
                twin.push((id, port));
            }
        }
        prop_assert_eq!(ports.ports().count(), twin.len());
        for (id, port) in &twin {
            prop_assert_eq!(ports.get(*id), Some(port));
        }
        let counted = ports.listeners().iter().map(|active| active.port_count);
        prop_assert_eq!(counted.sum::<usize>(), twin.len());
        for (tunnel_type, offset, source, destination, id, is_bare) in packets {
            let Some(endpoints) = Endpoints::new(source, destination) else {
                continue;
            };
            let metadata = TunnelMetadata { id, endpoints, ..TunnelMetadata::default() };
            let inner = if is_bare { BARE } else { InnerType::Ethernet };
            let destination_port = tunnel_type.default_port().map_or(0, |port| port + offset);
            let listener = TunnelListener { tunnel_type, destination_port };
            let expected = find_slowly(&twin, listener, &metadata, inner);
            prop_assert_eq!(ports.find_at(listener, &metadata, inner), expected);
            if tunnel_type == TunnelType::Ip6Gre {
                continue;
            }
            // Both types of GRE may have the port, `gre` first.
            let other = TunnelListener { tunnel_type: TunnelType::Ip6Gre, destination_port };
            let expected = expected.or_else(|| match tunnel_type {
                TunnelType::Gre => find_slowly(&twin, other, &metadata, inner),
                _ => None,
            });
            let kind = tunnel_type.kind(Default::default());
            prop_assert_eq!(ports.find(kind, destination_port, &metadata, inner), expected);
        }
    }
}

/// The lines of `ofproto/list-tunnels` for the ports that Open vSwitch was given.
#[test]
fn ports_are_listed_as_open_vswitch_lists_them() {
    for known in known_ports() {
        let (Ok(ParsedTunnelPort { port, .. }), Some(line)) = (known.parse(), known.list) else {
            assert_eq!(known.list, None, "{}", known.text);
            continue;
        };
        let (_, behind) = line.split_once("port ").expect("a line");
        let (number, _) = behind.split_once(':').expect("a number");
        let mut ports = TunnelPorts::default();
        let added = ports.insert(0, "t0", port, number.parse().expect("a number"));
        assert_eq!(added, Ok(()), "{}", known.text);
        assert_eq!(ports.list_text().trim_end(), line, "{}", known.text);
    }
}

/// The ports and packets of Open vSwitch's test "tunnel - input", with the ports of its rules.
#[test]
fn packets_of_open_vswitchs_tests_come_in() {
    let mut ports = TunnelPorts::default();
    let gre = |options: &[(&str, &str)]| parsed(TunnelType::Gre, options);
    for (id, port) in [
        (1, gre(&[("remote_ip", "1.1.1.1")])),
        (2, gre(&[("local_ip", "2.2.2.2"), ("remote_ip", "1.1.1.1")])),
        (3, gre(&[("remote_ip", "2.2.2.2")])),
    ] {
        assert_eq!(ports.insert(id, "p", port, 1), Ok(()));
    }
    let found = |source: [u8; 4], destination: [u8; 4], id| {
        let metadata = TunnelMetadata {
            id,
            endpoints: Endpoints::V4 {
                source: source.into(),
                destination: destination.into(),
            },
            ..TunnelMetadata::default()
        };
        ports.find(TunnelKind::Gre, 0, &metadata, InnerType::Ethernet)
    };
    assert_eq!(found([1, 1, 1, 1], [2, 2, 2, 2], 0), Some(2));
    assert_eq!(found([1, 1, 1, 1], [2, 2, 2, 3], 0), Some(1));
    assert_eq!(found([2, 2, 2, 2], [1, 1, 1, 1], 0), Some(3));
    assert_eq!(found([2, 2, 2, 2], [1, 1, 1, 1], 7), None);
}

#[test]
fn a_port_like_another_is_refused_by_name() {
    let port = |options: &[(&str, &str)]| parsed(TunnelType::Vxlan, options);
    let mut ports = TunnelPorts::default();
    let first = port(&[("remote_ip", "1.1.1.1"), ("key", "5"), ("tos", "4")]);
    assert_eq!(ports.insert(1, "p1", first.clone(), 4789), Ok(()));
    let same = port(&[("remote_ip", "1.1.1.1"), ("in_key", "5"), ("ttl", "9")]);
    let refused = ports
        .insert(2, "p2", same, 4789)
        .expect_err("the same packets");
    assert_eq!(
        refused.to_string(),
        "p2: attempting to add tunnel port with same config as port 'p1' \
         (::->1.1.1.1, key=0x5, legacy_l2, dp port=4789)"
    );
    let gbp = port(&[("remote_ip", "1.1.1.2"), ("exts", "gbp")]);
    let refused = ports
        .insert(3, "p3", gbp, 4789)
        .expect_err("another header");
    assert!(matches!(refused, TunnelInsertError::GroupPolicy(_)));
    assert_eq!(
        refused.to_string(),
        "p3: VXLAN-GBP, and non-VXLAN-GBP tunnels can't be configured on the same dst_port"
    );
    // On another UDP port it may have one, and also instead of the last port without.
    let elsewhere = port(&[
        ("remote_ip", "1.1.1.2"),
        ("exts", "gbp"),
        ("dst_port", "5000"),
    ]);
    assert_eq!(ports.insert(3, "p3", elsewhere, 5000), Ok(()));
    let instead = port(&[("remote_ip", "1.1.1.1"), ("key", "5"), ("exts", "gbp")]);
    assert_eq!(ports.insert(1, "p1", instead, 4789), Ok(()));
    assert!(ports.remove(3).is_some());
    // A port is not compared with its own earlier configuration.
    assert_eq!(ports.insert(1, "p1", first.clone(), 4789), Ok(()));
    assert_eq!(ports.remove(1), Some(first));
    assert_eq!(ports.listeners(), []);
}

/// The listing of Open vSwitch's test "tunnel_push_pop - action".
#[test]
fn listeners_are_shown() {
    let mut ports = TunnelPorts::default();
    for (id, tunnel_type, remote, number) in [
        (1, TunnelType::Gre, "1.1.2.92", 3),
        (2, TunnelType::Vxlan, "1.1.2.92", 4789),
        (3, TunnelType::Vxlan, "1.1.2.93", 4789),
        (4, TunnelType::Geneve, "1.1.2.92", 6081),
        (5, TunnelType::Erspan, "1.1.2.92", 5),
    ] {
        let port = parsed(tunnel_type, &[("remote_ip", remote)]);
        assert_eq!(ports.insert(id, "t", port, number), Ok(()));
    }
    assert_eq!(
        ports.listeners_text(),
        "Listening ports:\n\
         gre_sys (3) ref_cnt=1\n\
         vxlan_sys_4789 (4789) ref_cnt=2\n\
         genev_sys_6081 (6081) ref_cnt=1\n\
         erspan_sys (5) ref_cnt=1\n"
    );
    let at = |protocol, port| {
        let listeners = ports.listeners_at(protocol, port);
        listeners
            .map(|active| active.datapath_port)
            .collect::<Vec<_>>()
    };
    assert_eq!(at(IpProtocol::UDP, 4789), [4789]);
    assert_eq!(at(IpProtocol::UDP, 4790), []);
    assert_eq!(at(IpProtocol::GRE, 4789), [3, 5]);
}
