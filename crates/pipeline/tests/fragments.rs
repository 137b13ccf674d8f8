//! What tables see of fragments in each mode. The expected ports are those of `ofproto/trace`.

use std::net::{Ipv4Addr, Ipv6Addr};

use thalweg_packet::wire::{IpProtocol, MacAddress, PacketBuilder};
use thalweg_packet::{Headers, Instant, Packet, PacketPool, PortId, Receipt, standard as f};
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{
    BridgeId, Change, Config, FragmentMode, Input, Operation, Outbox, Pipeline, PortState, forward,
    translate,
};

const MODES: [FragmentMode; 3] = [
    FragmentMode::Normal,
    FragmentMode::Drop,
    FragmentMode::NxMatch,
];

/// The second bridge, if a pipeline has bridges.
const INNER: BridgeId = BridgeId(1);

fn port(peer: Option<PortId>) -> PortState {
    PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer,
    }
}

fn apply(pipeline: &mut Pipeline, operations: Vec<Operation>) {
    let made = pipeline.apply(&Change { operations }, Instant::ZERO);
    made.expect("the test's changes can be made");
}

fn rules(text: &str) -> Vec<Operation> {
    let read = parse_rules("rules", text).expect("the test's rules are right");
    read.into_change().operations
}

fn pipeline(text: &str, mode: FragmentMode) -> Pipeline {
    let mut pipeline = Pipeline::new(Config::default());
    let ports = (1..=4).map(|number| Operation::SetPort(PortId(number), port(None)));
    apply(&mut pipeline, ports.chain(rules(text)).collect());
    set(&mut pipeline, BridgeId::default(), mode);
    pipeline
}

fn set(pipeline: &mut Pipeline, bridge: BridgeId, mode: FragmentMode) {
    apply(pipeline, vec![Operation::SetFragments(bridge, mode)]);
    assert_eq!(pipeline.fragment_mode(bridge, pipeline.version()), mode);
}

/// What becomes of a packet from port 1.
fn run(pipeline: &Pipeline, frame: &[u8]) -> Outbox {
    let mut packet = Packet::from_bytes(frame);
    packet.set_received(PortId(1), Instant::ZERO);
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    forward(pipeline, pipeline.version(), packet, &mut outbox).expect("a frame");
    outbox
}

/// The ports that it leaves by.
fn ports(pipeline: &Pipeline, frame: &[u8]) -> Vec<u32> {
    let sent = run(pipeline, frame).sent;
    sent.iter().map(|(port, _)| port.0).collect()
}

/// A packet or one of its fragments.
#[derive(Clone, Copy, Debug)]
enum Part {
    Whole,
    /// With a fragment header and all of the packet (RFC 6946); IPv4 has no such thing.
    Atomic,
    First,
    Later,
}

/// Its bytes, from `builder` with an IP header.
fn frame(builder: PacketBuilder, part: Part, protocol: u8) -> Vec<u8> {
    let builder = match part {
        Part::Whole => builder,
        Part::Atomic => builder.fragment(7, 0, false),
        Part::First => builder.fragment(7, 0, true),
        Part::Later => {
            let later = builder.fragment(7, 8, false);
            return later
                .protocol(IpProtocol(protocol))
                .payload(&[9; 16])
                .build();
        }
    };
    match protocol {
        6 => builder.tcp(1000, 53).payload(&[9; 16]).build(),
        17 => builder.udp(1000, 53).payload(&[9; 16]).build(),
        // An echo request.
        _ => builder
            .protocol(IpProtocol(protocol))
            .payload(&[8, 0, 0, 0, 0, 0, 0, 0])
            .build(),
    }
}

fn ethernet() -> PacketBuilder {
    let address = |last: u64| MacAddress::from_u64(0x0200_0000_0000 | last);
    PacketBuilder::ethernet(address(1), address(2))
}

fn ipv4() -> PacketBuilder {
    ethernet().ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
}

fn ipv6() -> PacketBuilder {
    let address = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last);
    ethernet().ipv6(address(1), address(2))
}

const RULES: &str = "\
priority=10,udp,tp_dst=53,actions=output:2
priority=10,udp6,tp_dst=53,actions=output:2
priority=10,icmp,icmp_type=8,actions=output:2
priority=9,udp,tp_src=0,tp_dst=0,actions=output:3
priority=0,actions=output:4";

#[test]
fn a_mode_says_what_rules_see_of_a_fragment() {
    // By kind of packet: where it leaves in each mode; nothing if it is dropped.
    let cases: [(Vec<u8>, [&[u32]; 3]); 12] = [
        (frame(ipv4(), Part::Whole, 17), [&[2], &[2], &[2]]),
        (frame(ipv4(), Part::First, 17), [&[3], &[], &[2]]),
        (frame(ipv4(), Part::Later, 17), [&[3], &[], &[3]]),
        (frame(ipv6(), Part::Whole, 17), [&[2], &[2], &[2]]),
        (frame(ipv6(), Part::Atomic, 17), [&[2], &[2], &[2]]),
        (frame(ipv6(), Part::First, 17), [&[4], &[], &[2]]),
        (frame(ipv6(), Part::Later, 17), [&[4], &[], &[4]]),
        (frame(ipv4(), Part::Whole, 1), [&[2], &[2], &[2]]),
        (frame(ipv4(), Part::First, 1), [&[4], &[], &[2]]),
        (frame(ipv4(), Part::Later, 1), [&[4], &[], &[4]]),
        (frame(ipv4(), Part::First, 6), [&[4], &[], &[4]]),
        (ethernet().build(), [&[4], &[4], &[4]]),
    ];
    let mut changing = pipeline(RULES, FragmentMode::Normal);
    for (place, mode) in MODES.into_iter().enumerate() {
        let fixed = pipeline(RULES, mode);
        set(&mut changing, BridgeId::default(), mode);
        for (frame, expected) in &cases {
            for pipeline in [&fixed, &changing] {
                let outbox = run(pipeline, frame);
                let sent: Vec<u32> = outbox.sent.iter().map(|(port, _)| port.0).collect();
                assert_eq!(sent, expected[place], "{mode:?}, {frame:x?}");
                assert!(
                    outbox
                        .sent
                        .iter()
                        .all(|(_, sent)| sent.bytes() == &frame[..])
                );
                let drops: Vec<_> = outbox.drops.iter().collect();
                match expected[place] {
                    [] => assert_eq!(drops, [("fragment", 1)]),
                    _ => assert_eq!(drops, []),
                }
            }
        }
    }
}

#[test]
fn tcp_flags_are_seen_in_every_fragment_that_has_them() {
    let text = "tcp,tcp_flags=+syn,tp_dst=0,actions=output:2\ntcp,tcp_flags=-syn,actions=output:3";
    let pipeline = pipeline(text, FragmentMode::Normal);
    let syn = |builder: PacketBuilder| {
        let tcp = builder.tcp(1000, 53);
        tcp.tcp_flags(thalweg_packet::wire::TcpFlags(2)).build()
    };
    assert_eq!(ports(&pipeline, &syn(ipv4().fragment(7, 0, true))), [2]);
    assert_eq!(ports(&pipeline, &syn(ipv4())), []);
}

#[test]
fn actions_read_and_write_the_ports_that_lookups_do_not_see() {
    // Neither table sees a port, before or after it is written.
    let text = "udp,tp_src=0,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],\
                mod_tp_dst:7,resubmit(4,1)\n\
                table=1,in_port=4,reg0=1000,udp,tp_src=0,tp_dst=0,actions=output:2";
    let pipeline = pipeline(text, FragmentMode::Normal);
    let outbox = run(&pipeline, &frame(ipv4(), Part::First, 17));
    let [(PortId(2), packet)] = &outbox.sent[..] else {
        panic!("{:?}", outbox.sent)
    };
    let expected = ipv4().fragment(7, 0, true);
    let expected = expected.udp(1000, 7).payload(&[9; 16]).build();
    // The checksum is that of the whole datagram, which the builder does not know.
    assert_eq!(packet.bytes()[34..38], expected[34..38]);
}

#[test]
fn a_table_that_drops_fragments_ends_only_its_own_list() {
    let mut pipeline = Pipeline::new(Config {
        bridges: true,
        ..Config::default()
    });
    let (near, far) = (PortId(9), INNER.port(8));
    let mut operations = vec![
        Operation::SetPort(PortId(1), port(None)),
        Operation::SetPort(PortId(2), port(None)),
        Operation::SetPort(INNER.port(3), port(None)),
        Operation::SetPort(near, port(Some(far))),
        Operation::SetPort(far, port(Some(near))),
    ];
    operations.extend(rules("udp,tp_dst=0,actions=output:9,output:2"));
    let inner = rules("udp,tp_dst=53,actions=output:3\nudp,tp_dst=0,actions=output:4");
    operations.extend(inner.iter().map(|operation| operation.in_bridge(INNER)));
    operations.push(Operation::SetPort(INNER.port(4), port(None)));
    apply(&mut pipeline, operations);
    let first = frame(ipv4(), Part::First, 17);
    let expected = [
        (FragmentMode::Normal, vec![INNER.port(4).0, 2]),
        (FragmentMode::Drop, vec![2]),
        (FragmentMode::NxMatch, vec![INNER.port(3).0, 2]),
    ];
    for (mode, expected) in expected {
        set(&mut pipeline, INNER, mode);
        let outbox = run(&pipeline, &first);
        let sent: Vec<u32> = outbox.sent.iter().map(|(port, _)| port.0).collect();
        assert_eq!(sent, expected, "{mode:?}");
        let drops: Vec<_> = outbox.drops.iter().collect();
        match mode {
            FragmentMode::Drop => assert_eq!(drops, [("fragment", 1)]),
            _ => assert_eq!(drops, []),
        }
    }
    // The other bridge's mode is its own.
    set(&mut pipeline, BridgeId::default(), FragmentMode::Drop);
    assert_eq!(ports(&pipeline, &first), [0; 0]);
}

#[test]
fn a_mode_holds_from_its_version_on() {
    let mut pipeline = pipeline(RULES, FragmentMode::Normal);
    let layout = pipeline.layout().clone();
    let first = frame(ipv4(), Part::First, 17);
    let headers = Headers::parse(&first).expect("a frame");
    let mut key = vec![0; layout.ingress_words()];
    layout.extract(&first, &headers, &Receipt::from_port(1), &mut key);
    let answer = |pipeline: &Pipeline, version| translate(pipeline, &key, version).effects;
    let mut versions = Vec::new();
    for mode in [MODES[2], MODES[1], MODES[0]] {
        set(&mut pipeline, BridgeId::default(), mode);
        versions.push((pipeline.version(), answer(&pipeline, pipeline.version())));
        for (version, then) in &versions {
            assert_eq!(answer(&pipeline, *version), *then);
        }
    }
    // Setting the current mode again makes a version too, and names no bridge.
    let again = Change::one(Operation::SetFragments(BridgeId::default(), MODES[0]));
    let delta = pipeline.apply(&again, Instant::ZERO).expect("possible");
    assert_eq!(delta.fragments, []);
    let drop = Change::one(Operation::SetFragments(BridgeId::default(), MODES[1]));
    let mut plan = pipeline.plan(&drop).expect("possible");
    pipeline.begin(&mut plan, Instant::ZERO);
    let progress = pipeline.perform(&mut plan, usize::MAX).expect("possible");
    assert_eq!(progress, thalweg_pipeline::Progress::Finished);
    pipeline.abort();
    let now = pipeline.version();
    assert_eq!(pipeline.fragment_mode(BridgeId::default(), now), MODES[0]);
    pipeline.reclaim(now);
    assert_eq!(answer(&pipeline, now), versions[2].1);
}

#[test]
fn only_what_may_depend_on_fragments_has_them_in_its_key() {
    let without = pipeline("ip,actions=output:2", FragmentMode::NxMatch);
    assert_eq!(without.layout().slot(f::IP_FRAG), None);
    for text in [
        "udp,tp_src=1,actions=2",
        "tcp6,tp_dst=1,actions=2",
        "icmp,icmp_type=1,actions=2",
        "icmp6,icmp_code=1,actions=2",
    ] {
        let with = pipeline(text, FragmentMode::Normal);
        assert!(with.layout().slot(f::IP_FRAG).is_some(), "{text}");
    }
    let mut dropping = pipeline("ip,actions=output:2", FragmentMode::Drop);
    assert_eq!(ports(&dropping, &frame(ipv4(), Part::Whole, 17)), [2]);
    assert_eq!(ports(&dropping, &frame(ipv4(), Part::Later, 17)), [0; 0]);
    set(&mut dropping, BridgeId::default(), FragmentMode::Normal);
    assert_eq!(ports(&dropping, &frame(ipv4(), Part::Later, 17)), [2]);
}

/// Keys that differ in bits that the walk did not examine have the same answer; and only
/// fragments depend on the mode.
#[test]
fn a_mask_covers_what_a_mode_decides() {
    for mode in MODES {
        let pipeline = pipeline(RULES, mode);
        let layout = pipeline.layout();
        for (builder, part, protocol) in [
            (ipv4(), Part::Whole, 17),
            (ipv4(), Part::First, 17),
            (ipv4(), Part::Later, 17),
            (ipv6(), Part::First, 17),
            (ipv4(), Part::First, 1),
            (ipv4(), Part::First, 6),
        ] {
            let bytes = frame(builder, part, protocol);
            let headers = Headers::parse(&bytes).expect("a frame");
            let mut key = vec![0; layout.ingress_words()];
            layout.extract(&bytes, &headers, &Receipt::from_port(1), &mut key);
            let answer = translate(&pipeline, &key, pipeline.version());
            let depends = answer
                .trace
                .inputs()
                .contains(&Input::Fragments(BridgeId(0)));
            assert_eq!(depends, !matches!(part, Part::Whole));
            for field in [f::IP_FRAG, f::TP_SRC, f::TP_DST, f::ICMP_TYPE, f::IP_PROTO] {
                let slot = layout.slot(field).expect("rules read it");
                for bit in 0..slot.width_bits {
                    let (word, shift) = slot.position(bit);
                    if answer.mask[word] >> shift & 1 == 1 {
                        continue;
                    }
                    let mut other = key.clone();
                    other[word] ^= 1 << shift;
                    let other = translate(&pipeline, &other, pipeline.version());
                    assert_eq!(other.effects, answer.effects);
                    assert!(other.trace.kinds().eq(answer.trace.kinds()));
                }
            }
        }
    }
}
