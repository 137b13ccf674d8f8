//! Native tunnels: the frames are those of Open vSwitch's tests (`tests/tunnel-push-pop.at` and
//! `tests/tunnel-push-pop-ipv6.at`).

use std::net::IpAddr;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thalweg_io::{
    DummyHandle, DummyPort, Port, TunnelDevice, TunnelDeviceSettings, TunnelHub, TunnelWay,
    UnderlayPort,
};
use thalweg_packet::wire::MacAddress;
use thalweg_packet::{Instant, Packet, PacketPool, PortId, TunnelPart, TunnelValues};
use thalweg_tunnel::{InterfaceAddress, OptionMap, OptionMapping, TunnelPort, TunnelType};

/// Options of an interface.
type Options<'a> = &'a [(&'a str, &'a str)];

const LOCAL: PortId = PortId(0xfffe);
const TUNNEL: PortId = PortId(0x1_0002);
const MAC: MacAddress = MacAddress([0xaa, 0x55, 0xaa, 0x55, 0, 0]);
const NOW: Instant = Instant::from_nanos(1_000_000);

/// The inner packet of Open vSwitch's tests, an ICMP message, without its Ethernet header.
const INNER_IP: &str = "45000054ba200000400184861e0000011e00000200004227e75400030af3195500000000f26\
                        5010000000000101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e\
                        2f3031323334353637";
const INNER_ETHERNET: &str = "fe71d883724fbeb6f4e1494a0800";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).unwrap());
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).unwrap())
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A bridge `br0` with the addresses of Open vSwitch's tests, and a tunnel through it.
struct Bench {
    hub: TunnelHub,
    local: UnderlayPort,
    behind: DummyHandle,
    tunnel: TunnelDevice,
    pool: PacketPool,
}

impl Bench {
    fn new(tunnel_type: TunnelType, options: Options<'_>) -> Bench {
        let hub = TunnelHub::new();
        let (device, behind) = DummyPort::open(LOCAL).unwrap();
        let local = UnderlayPort::open(&hub, (LOCAL, "br0", MAC), Box::new(device)).unwrap();
        let mut underlay = hub.underlay();
        for (own, prefix_len) in [("1.1.2.88", 24), ("2001:cafe::88", 24)] {
            let own = InterfaceAddress {
                address: address(own),
                prefix_len,
            };
            assert!(underlay.set_address("br0", own));
            assert!(!underlay.set_address("br1", own));
        }
        for prefix in ["1.1.2.92/24", "2001:cafe::92/64"] {
            assert_eq!(underlay.add_route(&[prefix, "br0"]), Ok("OK"));
        }
        drop(underlay);
        let parsed = TunnelPort::parse("t1", tunnel_type, options.iter().copied()).unwrap();
        let tunnel = hub.open(TunnelDeviceSettings {
            number: TUNNEL,
            name: "t1".to_owned(),
            port: parsed.port,
            datapath_port: 3,
            bridge: 1,
            way: TunnelWay::Native,
        });
        Bench {
            tunnel: tunnel.unwrap(),
            hub,
            local,
            behind,
            pool: PacketPool::with_capacity(64, 2_048),
        }
    }

    /// The bridge sends a frame to its own port; what the tunnel receives.
    fn pop(&mut self, frame: &str) -> Vec<Packet> {
        let mut packet = Packet::from_bytes(&bytes(frame));
        packet.set_received(PortId(1), NOW);
        self.local.send(&mut self.pool, &mut vec![packet]);
        let mut burst = Vec::new();
        self.tunnel.receive(&mut self.pool, &mut burst, NOW);
        burst
    }

    /// The tunnel sends a packet; what the bridge receives from its own port.
    fn push(&mut self, packet: Packet) -> Vec<String> {
        self.tunnel.send(&mut self.pool, &mut vec![packet]);
        let descriptor = self.local.descriptor().unwrap();
        let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        let is_ready = poll(&mut polled, Some(&Timespec::default())).unwrap() == 1;
        assert_eq!(is_ready, self.hub.waiting() > 0);
        let mut burst = Vec::new();
        self.local.receive(&mut self.pool, &mut burst, NOW);
        for packet in &burst {
            assert_eq!((packet.in_port(), packet.tunnel()), (LOCAL, None));
        }
        burst.iter().map(|packet| hex(packet.bytes())).collect()
    }

    /// Checks that a frame holds the inner packet, and its tunnel's values.
    fn check_pop(&mut self, frame: &str, is_bare: bool, set: impl FnOnce(&mut TunnelValues)) {
        let popped = self.pop(frame);
        assert_eq!(popped.len(), 1, "{:?}", self.hub.counts());
        let ethernet = if is_bare {
            "0000000000000000000000000800"
        } else {
            INNER_ETHERNET
        };
        assert_eq!(popped[0].bytes(), bytes(&[ethernet, INNER_IP].concat()));
        assert_eq!(popped[0].in_port(), TUNNEL);
        let mut values = TunnelValues::default();
        values.ttl = 64;
        set(&mut values);
        assert_eq!(popped[0].tunnel(), Some(&values));
        let counters = self.tunnel.counters();
        let bytes = if is_bare { 84 } else { 98 };
        assert_eq!(
            (counters.received_packets, counters.received_bytes),
            (1, bytes)
        );
        assert_eq!(self.local.counters(), Default::default());
    }
}

fn from_ipv4(values: &mut TunnelValues) {
    values.ipv4_source = 0x0101_025c;
    values.ipv4_destination = 0x0101_0258;
}

fn from_ipv6(values: &mut TunnelValues, last: u128) {
    let cafe = 0x2001_cafe_u128 << 96;
    values.ipv6_source = cafe | last;
    values.ipv6_destination = cafe | 0x88;
}

#[test]
fn gre_is_popped() {
    let options = [("remote_ip", "1.1.2.92"), ("key", "456")];
    let outer =
        "aa55aa550000001b213cab6408004500007e79464000402fba550101025c0101025820006558000001c8";
    let frame = [outer, INNER_ETHERNET, INNER_IP].concat();
    Bench::new(TunnelType::Gre, &options).check_pop(&frame, false, |values| {
        from_ipv4(values);
        values.id = 456;
    });
    let options = [("remote_ip", "2001:cafe::92"), ("key", "456")];
    let outer = "aa55aa550000001b213cab6486dd60000000006a2f402001cafe0000000000000000000000922001cafe\
                 00000000000000000000008820006558000001c8";
    let frame = [outer, INNER_ETHERNET, INNER_IP].concat();
    Bench::new(TunnelType::Gre, &options).check_pop(&frame, false, |values| {
        from_ipv6(values, 0x92);
        values.id = 456;
    });
}

#[test]
fn erspan_is_popped() {
    let options = [
        ("remote_ip", "1.1.2.92"),
        ("key", "123"),
        ("erspan_ver", "1"),
        ("erspan_idx", "3"),
    ];
    let outer = "aa55aa550000001b213cab6408004500007e79464000402fba550101025c01010258\
                 100088be000000011000007b00000003";
    let frame = [outer, INNER_ETHERNET, INNER_IP].concat();
    Bench::new(TunnelType::Erspan, &options).check_pop(&frame, false, |values| {
        from_ipv4(values);
        (values.id, values.erspan_version, values.erspan_index) = (123, 1, 3);
    });
    let options = [
        ("remote_ip", "2001:cafe::93"),
        ("key", "567"),
        ("erspan_ver", "2"),
        ("erspan_dir", "1"),
        ("erspan_hwid", "0x7"),
    ];
    let outer = "aa55aa550000001b213cab6486dd60000000006a2f402001cafe0000000000000000000000932001cafe\
                 000000000000000000000088100022eb000000012000023710abcd0100000078";
    let frame = [outer, INNER_ETHERNET, INNER_IP].concat();
    Bench::new(TunnelType::Ip6Erspan, &options).check_pop(&frame, false, |values| {
        from_ipv6(values, 0x93);
        (values.id, values.erspan_version) = (567, 2);
        (values.erspan_direction, values.erspan_hardware) = (1, 7);
    });
}

#[test]
fn geneve_is_popped_with_its_options() {
    let outer = [
        "aa55aa550000001b213cab64080045000096794640004011ba5b0101025c01010258308817c1008200000400\
         655800007b00ffff80010000000affff00010000000b",
        "aa55aa550000001b213cab6486dd60000000008211402001cafe0000000000000000000000922001cafe0000\
         00000000000000000088308817c1008200000400655800007b00ffff80010000000affff00010000000b",
    ];
    for (index, outer) in outer.into_iter().enumerate() {
        let mut bench = Bench::new(TunnelType::Geneve, &[("remote_ip", "flow"), ("key", "123")]);
        let mapping = OptionMapping {
            class: 0xffff,
            kind: 0x80,
            len_bytes: 4,
            index: 0,
        };
        let mut map = OptionMap::default();
        map.add(&[mapping]).unwrap();
        bench.hub.set_option_map(1, map);
        let frame = [outer, INNER_ETHERNET, INNER_IP].concat();
        bench.check_pop(&frame, false, |values| {
            match index {
                0 => from_ipv4(values),
                _ => from_ipv6(values, 0x92),
            }
            values.id = 123;
            values.set(TunnelPart::Option(0), 10);
        });
    }
}

#[test]
fn a_bare_packet_goes_back_into_its_tunnel() {
    let options = [
        ("remote_ip", "1.1.2.92"),
        ("key", "456"),
        ("packet_type", "legacy_l3"),
    ];
    let mut bench = Bench::new(TunnelType::Gre, &options);
    let outer =
        "aa55aa550000001b213cab6408004500007079464000402fba630101025c0101025820000800000001c8";
    let frame = [outer, INNER_IP].concat();
    bench.check_pop(&frame, true, |values| {
        from_ipv4(values);
        values.id = 456;
    });
    // The neighbour was learned from the outer packet.
    let packet = bench.pop(&frame).remove(0);
    let sent = bench.push(packet);
    let outer =
        "001b213cab64aa55aa55000008004500007000004000402f33aa010102580101025c20000800000001c8";
    assert_eq!(sent, [[outer, INNER_IP].concat()]);
    assert_eq!(bench.hub.counts(), []);
    let congested = frame
        .replace("08004500", "08004503")
        .replace("ba63", "ba60");
    assert_eq!(bench.pop(&congested), []);
    let damaged = frame.replace("ba63", "ba60");
    assert_eq!(bench.pop(&damaged), []);
    let mut counts = bench.hub.counts();
    counts.sort_unstable();
    assert_eq!(counts, [("congestion", 1), ("ipv4_checksum", 1)]);
    // Congestion counts as received; damage does not.
    assert_eq!(bench.tunnel.counters().received_packets, 3);
}

#[test]
fn an_unknown_neighbour_is_asked_for_and_its_reply_is_remembered() {
    let mut bench = Bench::new(
        TunnelType::Geneve,
        &[("remote_ip", "1.1.2.92"), ("key", "123")],
    );
    let inner = "50540000000a5054000000091234";
    let packet = || Packet::from_bytes(&bytes(inner));
    let asked =
        "ffffffffffffaa55aa55000008060001080006040001aa55aa550000010102580000000000000101025c";
    assert_eq!(bench.push(packet()), [asked]);
    // A reply for another host is no news; it passes on to the device like any other.
    let reply = |target: &str| {
        [
            "ffffffffffff",
            "f8bc124434b6",
            "08060001080006040002",
            "f8bc124434b6",
            "0101025c",
            "000000000000",
            target,
        ]
        .concat()
    };
    assert_eq!(bench.pop(&reply("0101025a")), []);
    assert_eq!(bench.push(packet()), [asked]);
    assert_eq!(bench.pop(&reply("01010258")), []);
    assert_eq!(bench.local.counters().sent_packets, 2);
    let sent = bench.push(packet());
    let (before, behind) = (
        "f8bc124434b6aa55aa5500000800450000320000400040113406010102580101025c",
        "17c1001e00000000655800007b00",
    );
    assert_eq!(sent.len(), 1);
    // The UDP source port is a hash, from a range.
    let (front, rest) = sent[0].split_at(before.len());
    assert_eq!((front, &rest[4..]), (before, &[behind, inner].concat()[..]));
    let port = u16::from_str_radix(&rest[..4], 16).unwrap();
    assert!((32_768..61_000).contains(&port));
    assert_eq!(bench.hub.counts(), [("no_neighbor", 2)]);
    assert_eq!(bench.tunnel.counters().sent_bytes, 14);

    let mut bench = Bench::new(TunnelType::Vxlan, &[("remote_ip", "2001:cafe::92")]);
    let asked = "3333ff000092aa55aa55000086dd6000000000203aff2001cafe000000000000000000000088ff0200000000\
                 000000000001ff00009287004d48000000002001cafe0000000000000000000000920101aa55aa550000";
    assert_eq!(bench.push(packet()), [asked]);
    let mut bench = Bench::new(TunnelType::Vxlan, &[("remote_ip", "9.9.9.9")]);
    assert_eq!(bench.push(packet()), Vec::<String>::new());
    assert_eq!(bench.hub.counts(), [("no_route", 1)]);
}

#[test]
fn what_is_no_tunnels_reaches_the_device() {
    let mut bench = Bench::new(
        TunnelType::Vxlan,
        &[("remote_ip", "1.1.2.92"), ("key", "123")],
    );
    let frame = "aa55aa550000f8bc1244cafe08004500004e00010000401173e90101025c01010258c85312b5003a8cd4\
                 0c00000300007b00ffffffffffff00000000000008004500001c0001000040117cce7f0000017f000001\
                 0035003500080172";
    let plain = frame
        .replace("0c00000300007b00", "0800000000007b00")
        .replace("8cd4", "0000");
    assert_eq!(bench.pop(&plain).len(), 1);
    // Another MAC address, another IP address, another UDP port.
    for (from, to) in [
        ("aa55aa550000f8bc", "aa55aa550001f8bc"),
        ("173e90101025c01010258", "173e80101025c01010259"),
        ("c85312b5", "c85312b6"),
    ] {
        let other = plain.replace(from, to);
        assert_ne!(other, plain);
        assert_eq!(bench.pop(&other), []);
    }
    assert_eq!(bench.local.counters().sent_packets, 3);
    // An Ethernet frame of GPE is taken as well, but not the key of another tunnel.
    assert_eq!(bench.pop(frame).len(), 1);
    assert_eq!(bench.pop(&plain.replace("00007b00", "00007c00")), []);
    assert_eq!(bench.local.counters().sent_packets, 3);
    assert_eq!(bench.hub.counts(), [("no_port", 1)]);
    assert!(bench.behind.inject(&[1; 60]));
    let mut burst = Vec::new();
    bench.local.receive(&mut bench.pool, &mut burst, NOW);
    assert_eq!(burst[0].bytes(), [1; 60]);
}

#[test]
fn headers_that_are_kept_are_those_that_would_be_built() {
    let options: Options<'_> = &[
        ("remote_ip", "flow"),
        ("key", "flow"),
        ("exts", "gbp"),
        ("tos", "inherit"),
    ];
    let mut kept = Bench::new(TunnelType::Vxlan, options);
    let mut random = 1_u64;
    let mut next = |below: u64| {
        // Knuth's generator: the upper bits are the better ones.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % below
    };
    let mut different = 0;
    for _ in 0..200 {
        let mut packet = Packet::from_bytes(&bytes(&[INNER_ETHERNET, INNER_IP].concat()));
        packet.bytes_mut()[15] = [0, 0x28, 0x29][next(3) as usize];
        let values = packet.tunnel_mut();
        values.id = next(2);
        values.ipv4_destination = 0x0101_025c + next(2) as u32;
        values.group_policy_id = next(2) as u16;
        let mut fresh = Bench::new(TunnelType::Vxlan, options);
        let mut frames = Vec::new();
        for bench in [&mut kept, &mut fresh] {
            for last in [92, 93] {
                let address = address(&format!("1.1.2.{last}"));
                let mac = MacAddress([2, 0, 0, 0, 0, last]);
                bench.hub.underlay().neighbors.set("br0", address, mac, NOW);
            }
            let before = packet.clone();
            frames.push(bench.push(before));
        }
        assert_eq!(frames[0].len(), 1);
        assert_eq!(frames[0], frames[1]);
        different += usize::from(frames[0][0].starts_with("02000000005c"));
    }
    assert!((50..150).contains(&different));
}

#[test]
fn a_bridge_keeps_its_addresses_while_its_port_is_opened_again() {
    let options = [("remote_ip", "1.1.2.92"), ("key", "456")];
    let mut bench = Bench::new(TunnelType::Gre, &options);
    let outer =
        "aa55aa550000001b213cab6408004500007e79464000402fba550101025c0101025820006558000001c8";
    let frame = [outer, INNER_ETHERNET, INNER_IP].concat();
    assert_eq!(bench.pop(&frame).len(), 1);
    let open = |hub: &TunnelHub| {
        let (device, _) = DummyPort::open(LOCAL).unwrap();
        UnderlayPort::open(hub, (LOCAL, "br0", MAC), Box::new(device)).unwrap()
    };
    // The old port is closed after the new one was opened, or before.
    bench.local = open(&bench.hub);
    let packet = bench.pop(&frame).remove(0);
    assert_eq!(bench.push(packet).len(), 1);
    bench.hub.allow_native(false);
    let packet = bench.pop(&frame).remove(0);
    assert_eq!(bench.push(packet), [""; 0]);
    assert_eq!(bench.hub.counts(), [("native_off", 1)]);
    bench.hub.allow_native(true);
    let other = std::mem::replace(&mut bench.local, open(&TunnelHub::new()));
    drop(other);
    let mut packet = Packet::from_bytes(&bytes(&frame));
    packet.set_received(PortId(1), NOW);
    bench.tunnel.send(&mut bench.pool, &mut vec![packet]);
    assert_eq!(bench.hub.counts(), [("native_off", 1), ("no_route", 1)]);
    bench.local = open(&bench.hub);
    assert_eq!(bench.pop(&frame).len(), 1);
    bench.hub.underlay().forget("br0");
    assert_eq!(bench.pop(&frame), []);
}
