//! Tunnels over UDP between two devices of this host, by its loopback addresses.

mod exchange;

use std::collections::BTreeSet;
use std::net::UdpSocket;

use thalweg_io::{DropReason, Port, TunnelHub, TunnelOpenError};
use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_packet::{Packet, PacketPool, TunnelPart, TunnelValues, Unfinished};
use thalweg_tunnel::{OptionMap, OptionMapping, TunnelType};

use self::exchange::{Case, ONE, OTHER, exchange, frame, free_port, open, receive, send, settings};

const ADDRESSES: [[&str; 2]; 2] = [["127.0.0.1", "127.0.0.2"], ["::1", "::1"]];

/// Values of which some are set.
fn values(set: impl FnOnce(&mut TunnelValues)) -> TunnelValues {
    let mut values = TunnelValues::default();
    set(&mut values);
    values
}

fn nothing_else(_: &mut TunnelValues) {}

#[test]
fn vxlan_carries_frames_and_keys() {
    let case = Case {
        tunnel_type: TunnelType::Vxlan,
        options: &[],
        sent: TunnelValues::default(),
        arrives: nothing_else,
        is_bare: false,
    };
    for addresses in ADDRESSES {
        exchange(&TunnelHub::new(), &case, addresses);
        let checked = Case {
            options: &[("csum", "true"), ("df_default", "false")],
            sent: TunnelValues::default(),
            ..case
        };
        exchange(&TunnelHub::new(), &checked, addresses);
    }
}

#[test]
fn vxlan_carries_the_group_of_a_policy() {
    let case = Case {
        tunnel_type: TunnelType::Vxlan,
        options: &[("exts", "gbp")],
        sent: values(|values| {
            values.group_policy_id = 0x1234;
            values.group_policy_flags = 0x48;
        }),
        arrives: nothing_else,
        is_bare: false,
    };
    for addresses in ADDRESSES {
        exchange(&TunnelHub::new(), &case, addresses);
    }
}

#[test]
fn vxlan_gpe_carries_frames_and_bare_packets() {
    for (options, is_bare) in [
        (&[("exts", "gpe")][..], false),
        (&[("exts", "gpe"), ("packet_type", "legacy_l3")][..], true),
    ] {
        let case = Case {
            tunnel_type: TunnelType::Vxlan,
            options,
            sent: TunnelValues::default(),
            arrives: nothing_else,
            is_bare,
        };
        for addresses in ADDRESSES {
            exchange(&TunnelHub::new(), &case, addresses);
        }
    }
}

#[test]
fn geneve_carries_options_of_the_bridge() {
    let mut map = OptionMap::default();
    for (index, len_bytes) in [(0, 4), (7, 16), (63, 0)] {
        let mapping = OptionMapping {
            class: 0x102,
            kind: 0x80 | index as u8,
            len_bytes,
            index,
        };
        map.add(&[mapping]).unwrap();
    }
    let mut sent = values(|values| {
        values.flags = 1;
    });
    sent.set(TunnelPart::Option(0), 0xa0b0_c0d0);
    sent.set(TunnelPart::Option(7), u128::MAX / 3);
    sent.set(TunnelPart::Option(63), 0);
    let case = Case {
        tunnel_type: TunnelType::Geneve,
        options: &[],
        sent,
        arrives: nothing_else,
        is_bare: false,
    };
    for addresses in ADDRESSES {
        let hub = TunnelHub::new();
        hub.set_option_map(0, map.clone());
        exchange(&hub, &case, addresses);
        assert_eq!(hub.counts(), []);
    }
}

#[test]
fn a_critical_option_that_is_not_mapped_costs_the_packet() {
    let hub = TunnelHub::new();
    let mut map = OptionMap::default();
    let mapping = OptionMapping {
        class: 0x102,
        kind: 0x80,
        len_bytes: 4,
        index: 0,
    };
    map.add(&[mapping]).unwrap();
    hub.set_option_map(0, map);
    let port = free_port().to_string();
    let options = [("remote_ip", "127.0.0.1"), ("dst_port", &port[..])];
    let mut device = open(&hub, ONE, TunnelType::Geneve, &options).unwrap();
    let mut values = TunnelValues::default();
    values.set(TunnelPart::Option(0), 1);
    send(&mut device, &[frame(1, 60)], &values);
    assert_eq!(receive(&mut [&mut device], 1).len(), 1);
    send(&mut device, &[frame(1, 60)], &values);
    hub.set_option_map(0, OptionMap::default());
    // What the kernel has is dropped; the next packet has no option any more.
    send(&mut device, &[frame(1, 60)], &values);
    let packets = receive(&mut [&mut device], 1);
    assert_eq!(
        packets[0].tunnel().map(|values| values.options().len()),
        Some(0)
    );
    assert_eq!(hub.counts(), [("options", 1)]);
    assert_eq!(device.counters().drops.count(DropReason::Tunnel), 1);
}

#[test]
fn gtpu_carries_bare_packets() {
    let case = Case {
        tunnel_type: TunnelType::Gtpu,
        options: &[],
        sent: values(|values| {
            values.gtpu_flags = 0x30;
            values.gtpu_message = 255;
        }),
        arrives: nothing_else,
        is_bare: true,
    };
    for addresses in ADDRESSES {
        exchange(&TunnelHub::new(), &case, addresses);
    }
}

#[test]
fn a_udp_port_of_another_program_is_refused() {
    let other = UdpSocket::bind("0.0.0.0:0").unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    let hub = TunnelHub::new();
    let options = [("remote_ip", "127.0.0.1"), ("dst_port", &port[..])];
    let refused = open(&hub, ONE, TunnelType::Vxlan, &options);
    let refused = refused.expect_err("another has the port").to_string();
    assert!(refused.contains("set dst_port"), "{refused}");
    assert_eq!(hub.list_text(), "");
    drop(other);
    open(&hub, ONE, TunnelType::Vxlan, &options).unwrap();
}

#[test]
fn packets_of_a_flow_keep_their_order() {
    let hub = TunnelHub::new();
    let port = free_port().to_string();
    let options = [("remote_ip", "127.0.0.1"), ("dst_port", &port[..])];
    let mut device = open(&hub, ONE, TunnelType::Vxlan, &options).unwrap();
    let frames = (0..30_u16).map(|number| frame(number % 10, 60 + usize::from(number)));
    let frames: Vec<_> = frames.collect();
    send(&mut device, &frames, &TunnelValues::default());
    let packets = receive(&mut [&mut device], frames.len());
    for flow in 0..10 {
        let of_flow = packets.iter().filter(|packet| packet.bytes()[35] == flow);
        let lengths: Vec<_> = of_flow.map(Packet::len).collect();
        let first = 60 + usize::from(flow);
        assert_eq!(lengths, [first, first + 10, first + 20]);
    }
}

#[test]
fn another_device_takes_a_socket_over() {
    let hub = TunnelHub::new();
    let port = free_port().to_string();
    let options = |key| {
        [
            ("remote_ip", "127.0.0.1"),
            ("dst_port", &port[..]),
            ("key", key),
        ]
    };
    let first = open(&hub, ONE, TunnelType::Vxlan, &options("1")).unwrap();
    let mut second = open(&hub, OTHER, TunnelType::Vxlan, &options("2")).unwrap();
    let same = open(
        &hub,
        thalweg_packet::PortId(3),
        TunnelType::Vxlan,
        &options("2"),
    );
    let same = same.expect_err("the second has the packets").to_string();
    assert!(same.contains("same config as port 't2'"), "{same}");
    assert!(matches!(
        open(&hub, ONE, TunnelType::Vxlan, &options("3")),
        Err(TunnelOpenError::NumberTaken(ONE))
    ));
    send(&mut second, &[frame(1, 60)], &TunnelValues::default());
    // It belongs to the second, but the first receives.
    let (mut pool, mut burst) = (PacketPool::with_capacity(8, 2_048), Vec::new());
    second.receive(&mut pool, &mut burst, thalweg_packet::Instant::ZERO);
    assert!(burst.is_empty());
    drop(first);
    let packets = receive(&mut [&mut second], 1);
    assert_eq!(packets[0].in_port(), OTHER);
    assert!(hub.list_text().contains("t2"), "{}", hub.list_text());
    drop(second);
    assert_eq!(hub.list_text(), "");
    open(&hub, ONE, TunnelType::Vxlan, &options("1")).unwrap();
}

#[test]
fn what_cannot_be_sent_is_counted_by_its_cause() {
    let hub = TunnelHub::new();
    let port = free_port().to_string();
    let all = [
        ("remote_ip", "flow"),
        ("key", "flow"),
        ("dst_port", &port[..]),
    ];
    let mut device = open(&hub, ONE, TunnelType::Vxlan, &all).unwrap();
    let mut pool = PacketPool::with_capacity(8, 2_048);
    device.send(&mut pool, &mut vec![Packet::from_bytes(&frame(1, 60))]);
    assert_eq!(hub.counts(), [("no_destination", 1)]);
    let mut values =
        exchange::values_between("127.0.0.1".parse().unwrap(), "127.0.0.1".parse().unwrap());
    values.id = 5;
    send(&mut device, &[frame(1, 60)], &values);
    // What came out of the tunnel still names this host: it would come back for ever.
    let mut packets = receive(&mut [&mut device], 1);
    device.send(&mut pool, &mut packets);
    assert_eq!(hub.counts(), [("no_destination", 1), ("own_address", 1)]);
    let mut giant = Packet::from_bytes(&[0; 65_530]);
    giant.tunnel_mut().clone_from(&values);
    device.send(&mut pool, &mut vec![giant]);
    assert_eq!(hub.counts().last(), Some(&("too_long", 1)));
    assert_eq!(device.counters().drops.count(DropReason::Tunnel), 3);
    let unique: BTreeSet<_> = hub.counts().into_iter().map(|(name, _)| name).collect();
    assert_eq!(unique.len(), 3);
}

#[test]
fn what_was_received_in_another_bridge_is_not_sent() {
    let hub = TunnelHub::new();
    let ports = [free_port().to_string(), free_port().to_string()];
    let options = |index: usize| {
        [
            ("remote_ip", "127.0.0.1"),
            ("dst_port", &ports[index][..]),
            ("key", "flow"),
        ]
    };
    let mut near = open(&hub, ONE, TunnelType::Vxlan, &options(0)).unwrap();
    for (bridge, id) in [(0, 5), (1, 0)] {
        let mut far = settings(OTHER, TunnelType::Vxlan, &options(1));
        far.bridge = bridge;
        let mut far = hub.open(far).unwrap();
        let mut values = TunnelValues::default();
        values.id = 5;
        send(&mut near, &[frame(1, 60)], &values);
        let mut packets = receive(&mut [&mut near], 1);
        assert_eq!(packets[0].tunnel().map(|values| values.id), Some(5));
        // Rules of one bridge may say where it goes; a patch to another leaves nothing.
        if bridge == 0 {
            packets[0].tunnel_mut().ipv4_destination = 0;
        }
        far.send(&mut PacketPool::with_capacity(8, 2_048), &mut packets);
        let arrived = receive(&mut [&mut far], 1);
        assert_eq!(arrived[0].tunnel().map(|values| values.id), Some(id));
    }
}

#[test]
fn a_device_is_configured_again_while_it_is_open() {
    let hub = TunnelHub::new();
    let ports = [free_port().to_string(), free_port().to_string()];
    let options = |index: usize, key| {
        [
            ("remote_ip", "127.0.0.1"),
            ("dst_port", &ports[index][..]),
            ("key", key),
        ]
    };
    let mut first = open(&hub, ONE, TunnelType::Vxlan, &options(0, "1")).unwrap();
    let mut second = open(&hub, OTHER, TunnelType::Vxlan, &options(0, "2")).unwrap();
    // What the first received is the second's to receive now.
    let moved = settings(ONE, TunnelType::Vxlan, &options(1, "3"));
    hub.reconfigure(moved).unwrap();
    for (device, number, key) in [(&mut first, ONE, 3), (&mut second, OTHER, 2)] {
        send(device, &[frame(1, 60)], &TunnelValues::default());
        let packets = receive(&mut [device], 1);
        assert_eq!(packets[0].in_port(), number);
        assert_eq!(packets[0].tunnel().map(|values| values.id), Some(key));
    }
    let same = settings(ONE, TunnelType::Vxlan, &options(0, "2"));
    assert!(hub.reconfigure(same).is_err());
    send(&mut first, &[frame(1, 60)], &TunnelValues::default());
    assert_eq!(receive(&mut [&mut first], 1)[0].in_port(), ONE);
    assert_eq!(first.counters().received_packets, 2);
    let unknown = settings(
        thalweg_packet::PortId(9),
        TunnelType::Vxlan,
        &options(0, "9"),
    );
    assert!(matches!(
        hub.reconfigure(unknown),
        Err(TunnelOpenError::NotOpen(_))
    ));
}

/// A whole frame of TCP or UDP with 60 segments, the last of them a short one.
fn whole_frame(is_udp: bool) -> Packet {
    let payload: Vec<u8> = (0..59 * 1_000 + 107)
        .map(|index| (index % 251) as u8)
        .collect();
    let builder = PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]))
        .vlan(7, 0)
        .ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut frame = match is_udp {
        true => builder.udp(1, 2).payload(&payload).build(),
        false => builder.tcp(1, 2).payload(&payload).build(),
    };
    if !is_udp {
        // ACK and PSH.
        frame[38 + 13] = 0x18;
    }
    let header = if is_udp { 8 } else { 20 };
    let work = Unfinished {
        is_udp,
        segment_bytes: 1_000,
        covered_bytes: (payload.len() + header) as u16,
        ..Unfinished::default()
    };
    let mut packet = Packet::from_bytes(&frame);
    assert!(packet.mark_unfinished(work));
    packet
}

fn segments_of(packet: &Packet) -> Vec<Packet> {
    let segment = |index| {
        let mut segment = Packet::default();
        packet.emit_segment(index, &mut segment);
        segment
    };
    (0..packet.segment_count()).map(segment).collect()
}

#[test]
fn whole_frames_cross_tunnels_and_are_joined_again() {
    let types = [TunnelType::Vxlan, TunnelType::Geneve];
    for (tunnel_type, [one, _]) in types.into_iter().zip(ADDRESSES) {
        for (is_udp, joins) in [(false, true), (false, false), (true, true)] {
            let hub = TunnelHub::new();
            let port = free_port().to_string();
            let options = [("remote_ip", one), ("dst_port", &port[..])];
            let mut device = open(&hub, ONE, tunnel_type, &options).unwrap();
            assert!(device.takes_whole());
            if joins {
                device.keep_whole();
            }
            let whole = whole_frame(is_udp);
            let (before, after) = (frame(3, 60), frame(3, 61));
            let mut burst = vec![Packet::from_bytes(&before), whole.clone()];
            burst.push(Packet::from_bytes(&after));
            let mut pool = PacketPool::with_capacity(64, 2_048);
            device.send(&mut pool, &mut burst);
            assert_eq!(device.counters().sent_packets, 62);
            // Flows have sockets of their own, so the order of the two kinds is open.
            let packets = receive(&mut [&mut device], if joins && !is_udp { 3 } else { 62 });
            let (small, large): (Vec<Packet>, Vec<Packet>) =
                packets.into_iter().partition(|packet| packet.len() < 62);
            assert_eq!(small.iter().map(Packet::len).collect::<Vec<_>>(), [60, 61]);
            let frames: Vec<Packet> = large.iter().flat_map(segments_of).collect();
            assert_eq!(frames.len(), 60);
            for (frame, segment) in frames.iter().zip(segments_of(&whole)) {
                assert_eq!(frame.bytes(), segment.bytes());
                assert_eq!(frame.tunnel().map(|values| values.ttl), Some(64));
            }
            assert_eq!(device.counters().received_packets, 62);
        }
    }
}
