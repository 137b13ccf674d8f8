//! Tests of tunnels on real interfaces: GRE, which needs a raw socket, and the kernel's own VXLAN
//! at the other end.

use std::time::Instant as Clock;

use thalweg_io::{DropReason, Port, TapPort, TunnelDevice, TunnelHub};
use thalweg_packet::{Instant, Packet, PacketPool, PortId, TunnelValues};
use thalweg_tunnel::TunnelType;

use super::{TIMEOUT, pool};
use crate::exchange::{Case, ONE, OTHER, exchange, frame, open, receive, send};
use crate::namespace::{Cable, Namespace};

fn nothing_else(_: &mut TunnelValues) {}

/// A namespace whose loopback is up, with the addresses of tests.
fn loopback(purpose: &str) -> Namespace {
    let namespace = Namespace::new(purpose);
    namespace.ip(&["link", "set", "lo", "up"]);
    namespace
}

#[test]
fn gre_carries_frames_keys_checksums_and_bare_packets() {
    let namespace = loopback("gre");
    for (options, is_bare) in [
        (&[][..], false),
        (&[("csum", "true"), ("seq", "true")][..], false),
        (&[("packet_type", "legacy_l3")][..], true),
    ] {
        let case = Case {
            tunnel_type: TunnelType::Gre,
            options,
            sent: TunnelValues::default(),
            arrives: nothing_else,
            is_bare,
        };
        namespace.enter(|| exchange(&TunnelHub::new(), &case, ["127.0.0.1", "127.0.0.2"]));
    }
}

#[test]
fn erspan_carries_its_values() {
    let namespace = loopback("erspan");
    for (options, set) in [
        (
            &[("erspan_ver", "1"), ("erspan_idx", "0x5")][..],
            (|values| {
                values.erspan_version = 1;
                values.erspan_index = 5;
            }) as fn(&mut TunnelValues),
        ),
        (
            &[
                ("erspan_ver", "2"),
                ("erspan_dir", "1"),
                ("erspan_hwid", "0x3"),
            ],
            |values| {
                values.erspan_version = 2;
                values.erspan_direction = 1;
                values.erspan_hardware = 3;
            },
        ),
    ] {
        let case = Case {
            tunnel_type: TunnelType::Erspan,
            options,
            sent: TunnelValues::default(),
            arrives: set,
            is_bare: false,
        };
        namespace.enter(|| exchange(&TunnelHub::new(), &case, ["127.0.0.1", "127.0.0.2"]));
    }
}

#[test]
fn gre_goes_over_ipv6() {
    let cable = Cable::with_ipv6("gre6");
    cable.left.ip(&["link", "set", "lo", "up"]);
    let case = Case {
        tunnel_type: TunnelType::Ip6Gre,
        options: &[],
        sent: TunnelValues::default(),
        arrives: nothing_else,
        is_bare: false,
    };
    cable
        .left
        .enter(|| exchange(&TunnelHub::new(), &case, ["::1", "::1"]));
}

/// Lets packets through between a tap of the left host and a tunnel, until `is_done`.
fn bridge(tap: &mut TapPort, tunnel: &mut TunnelDevice, mut is_done: impl FnMut() -> bool) {
    let (mut pool, mut burst, start) = (pool(), Vec::new(), Clock::now());
    while !is_done() {
        assert!(start.elapsed() < TIMEOUT, "packets go through the tunnel");
        tap.receive(&mut pool, &mut burst, Instant::ZERO);
        tunnel.send(&mut pool, &mut burst);
        tunnel.receive(&mut pool, &mut burst, Instant::ZERO);
        tap.send(&mut pool, &mut burst);
        std::thread::yield_now();
    }
}

/// A tap of the left host behind a tunnel to a VXLAN device of the right host's kernel, through
/// which both hosts ping each other.
fn ping_through_the_kernels_vxlan(purpose: &str, ours: &[(&str, &str)], theirs: &[&str]) {
    let cable = Cable::new(purpose);
    for (host, interface, own) in [
        (&cable.left, "va", "192.0.2.1/24"),
        (&cable.right, "vb", "192.0.2.2/24"),
    ] {
        host.ip(&["link", "set", "lo", "up"]);
        host.ip(&["addr", "add", own, "dev", interface]);
    }
    let link = [
        "link", "add", "vx", "type", "vxlan", "id", "42", "dstport", "4789",
    ];
    let ends = ["remote", "192.0.2.1", "local", "192.0.2.2"];
    cable.right.ip(&[&link[..], &ends, theirs].concat());
    cable.right.ip(&["addr", "add", "10.9.0.2/24", "dev", "vx"]);
    cable.right.ip(&["link", "set", "vx", "up"]);
    let options = [&[("remote_ip", "192.0.2.2"), ("key", "42")], ours].concat();
    let hub = TunnelHub::new();
    let (mut tap, mut tunnel) = cable.left.enter(|| {
        let tunnel = open(&hub, OTHER, TunnelType::Vxlan, &options).unwrap();
        (TapPort::open(PortId(3), "tp", None).unwrap(), tunnel)
    });
    cable.left.ip(&["addr", "add", "10.9.0.1/24", "dev", "tp"]);
    for (host, address) in [(&cable.left, "10.9.0.2"), (&cable.right, "10.9.0.1")] {
        let mut ping = host.spawn("ping", &["-c", "3", "-i", "0.2", "-s", "1300", address]);
        cable.left.enter(|| {
            bridge(&mut tap, &mut tunnel, || ping.try_wait().unwrap().is_some());
        });
        assert!(ping.wait().unwrap().success(), "{address} answers");
    }
    let counters = tunnel.counters();
    assert!(counters.received_packets >= 6 && counters.sent_packets >= 6);
    assert_eq!(counters.drops.total(), 0);
    assert_eq!(hub.counts(), []);
}

#[test]
fn the_kernels_vxlan_answers_through_a_tunnel() {
    ping_through_the_kernels_vxlan("vxlan", &[], &[]);
}

#[test]
fn the_kernels_vxlan_with_group_policy_answers_through_a_tunnel() {
    ping_through_the_kernels_vxlan("gbp", &[("exts", "gbp")], &["gbp"]);
}

#[test]
fn a_packet_too_long_for_the_way_is_counted() {
    let cable = Cable::new("mtu");
    cable.left.ip(&["addr", "add", "192.0.2.1/24", "dev", "va"]);
    cable
        .right
        .ip(&["addr", "add", "192.0.2.2/24", "dev", "vb"]);
    let hub = TunnelHub::new();
    let options = [("remote_ip", "192.0.2.2"), ("df_default", "true")];
    let far = [("remote_ip", "198.51.100.1"), ("key", "3")];
    cable.left.enter(|| {
        let mut tunnel = open(&hub, ONE, TunnelType::Vxlan, &options).unwrap();
        let mut lost = open(&hub, OTHER, TunnelType::Vxlan, &far).unwrap();
        // 1500 bytes less IPv4, UDP and VXLAN are 1464, with the Ethernet header inside.
        send(&mut tunnel, &[frame(1, 1_464)], &TunnelValues::default());
        let mut pool = PacketPool::with_capacity(8, 2_048);
        let mut packets = vec![
            Packet::from_bytes(&frame(1, 1_465)),
            Packet::from_bytes(&frame(1, 60)),
        ];
        tunnel.send(&mut pool, &mut packets);
        assert_eq!(tunnel.counters().drops.count(DropReason::TooLong), 1);
        assert_eq!(tunnel.counters().sent_packets, 2);
        lost.send(&mut pool, &mut vec![Packet::from_bytes(&frame(1, 60))]);
        assert_eq!(lost.counters().drops.count(DropReason::Tunnel), 1);
    });
    let mut counts = hub.counts();
    counts.sort_unstable();
    assert_eq!(counts, [("no_route", 1), ("too_long", 1)]);
}

#[test]
fn long_packets_are_fragmented_if_they_may_be() {
    let cable = Cable::new("frag");
    cable.left.ip(&["addr", "add", "192.0.2.1/24", "dev", "va"]);
    cable
        .right
        .ip(&["addr", "add", "192.0.2.2/24", "dev", "vb"]);
    let (hub, far_hub) = (TunnelHub::new(), TunnelHub::new());
    let options = [("remote_ip", "192.0.2.2"), ("df_default", "false")];
    let back = [("remote_ip", "192.0.2.1")];
    let mut tunnel = cable
        .left
        .enter(|| open(&hub, ONE, TunnelType::Geneve, &options).unwrap());
    let mut far = cable
        .right
        .enter(|| open(&far_hub, OTHER, TunnelType::Geneve, &back).unwrap());
    let sent = frame(1, 9_000);
    cable.left.enter(|| {
        send(
            &mut tunnel,
            std::slice::from_ref(&sent),
            &TunnelValues::default(),
        )
    });
    let packets = receive(&mut [&mut far], 1);
    assert_eq!(packets[0].bytes(), sent);
}
