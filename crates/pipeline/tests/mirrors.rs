//! Mirrors, with what Open vSwitch 3.1's own tests ("mirroring, ...") expect.

use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::text::{LOCAL_PORT, parse_rules};
use thalweg_pipeline::{
    BridgeId, BridgeMirror, Change, ChangeError, Config, DropReason, MacMove, MirrorId,
    MirrorOutput, MirroredPorts, Mirrors, Operation, Outbox, Pipeline, PortState, PortVlans,
    PriorityTags, Station, StepKind, VlanMode, VlanSet, forward,
};

const LOCAL: u32 = LOCAL_PORT.0;

/// Ports 1 to 4 and LOCAL, these rules, and these mirrors.
fn pipeline(rules: &str, mirrors: &[BridgeMirror]) -> Pipeline {
    let mut pipeline = Pipeline::new(Config::default());
    let ports = [1, 2, 3, 4, LOCAL].into_iter().flat_map(|number| {
        let state = PortState {
            is_up: true,
            floods: number != LOCAL,
            forwards: true,
            peer: None,
        };
        let vlans = PortVlans {
            priority_tags: PriorityTags::Never,
            ..PortVlans::default()
        };
        let port = PortId(number);
        [
            Operation::SetPort(port, state),
            Operation::SetPortVlans(port, vlans.into()),
        ]
    });
    let rules = parse_rules("rules", rules).expect("the test's rules are right");
    let mirrors = Mirrors::new(mirrors.to_vec());
    let operations = ports.chain(rules.into_change().operations);
    let operations = operations.chain([Operation::SetMirrors(BridgeId(0), mirrors.into())]);
    let change = Change {
        operations: operations.collect(),
    };
    pipeline
        .apply(&change, Instant::ZERO)
        .expect("all can be set");
    pipeline
}

fn change(pipeline: &mut Pipeline, operation: Operation) {
    let change = Change::one(operation);
    pipeline.apply(&change, Instant::ZERO).expect("it can be");
}

fn these(ports: &[u32]) -> MirroredPorts {
    let ports: BTreeSet<PortId> = ports.iter().copied().map(PortId).collect();
    MirroredPorts::These(ports)
}

/// A mirror of all packets.
fn all_to(output: MirrorOutput) -> BridgeMirror {
    BridgeMirror {
        id: MirrorId(7),
        sources: MirroredPorts::All,
        destinations: MirroredPorts::All,
        vlans: VlanSet::ALL,
        output,
        snaplen_bytes: None,
    }
}

fn port(number: u32) -> MirrorOutput {
    MirrorOutput::Port(PortId(number))
}

fn frame(vlan: Option<u8>) -> Vec<u8> {
    let mut bytes = vec![0x50, 0x54, 0, 0, 0, 7, 0x50, 0x54, 0, 0, 0, 5];
    if let Some(vlan) = vlan {
        bytes.extend([0x81, 0, 0, vlan]);
    }
    bytes.extend([0x88, 0xb5]);
    bytes.resize(120, 1);
    bytes
}

/// What leaves for a packet from a port, in order: the port, the VLAN id of its tag, and its
/// length.
fn sent_in(pipeline: &Pipeline, from: u32, vlan: Option<u8>) -> Vec<(u32, Option<u16>, usize)> {
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    let mut packet = Packet::from_bytes(&frame(vlan));
    packet.set_received(PortId(from), Instant::ZERO);
    forward(pipeline, pipeline.version(), packet, &mut outbox).expect("a frame");
    let sent = outbox.sent.iter().map(|(port, packet)| {
        let bytes = packet.bytes();
        let is_tagged = bytes[12..14] == [0x81, 0];
        let tag = is_tagged.then(|| u16::from_be_bytes([bytes[14], bytes[15]]) & 0x0fff);
        (port.0, tag, bytes.len())
    });
    sent.collect()
}

fn ports(pipeline: &Pipeline, from: u32) -> Vec<u32> {
    let sent = sent_in(pipeline, from, None);
    sent.into_iter().map(|(port, ..)| port).collect()
}

fn tagged(pipeline: &Pipeline, from: u32) -> Vec<(u32, Option<u16>)> {
    let sent = sent_in(pipeline, from, None);
    sent.into_iter().map(|(port, tag, _)| (port, tag)).collect()
}

const BOTH_WAYS: &str = "in_port=1,actions=output:2\nin_port=2,actions=output:1";

#[test]
fn packets_are_selected_by_port() {
    let all = pipeline(BOTH_WAYS, &[all_to(port(3))]);
    assert_eq!((ports(&all, 1), ports(&all, 2)), (vec![3, 2], vec![3, 1]));
    let by_source = BridgeMirror {
        sources: these(&[1]),
        destinations: MirroredPorts::NONE,
        ..all_to(port(3))
    };
    let by_source = pipeline(BOTH_WAYS, &[by_source]);
    let from = |from| ports(&by_source, from);
    assert_eq!((from(1), from(2)), (vec![3, 2], vec![1]));
    let by_destination = BridgeMirror {
        sources: MirroredPorts::NONE,
        destinations: these(&[2]),
        ..all_to(port(3))
    };
    let by_destination = pipeline(BOTH_WAYS, &[by_destination]);
    let from = |from| ports(&by_destination, from);
    assert_eq!((from(1), from(2)), (vec![2, 3], vec![1]));
    // From a port that does not exist, only what leaves is mirrored.
    let to_1 = pipeline("actions=output:1", &[all_to(port(2))]);
    assert_eq!(ports(&to_1, 77), [1, 2]);
}

#[test]
fn packets_are_selected_by_vlan() {
    let mirror = BridgeMirror {
        vlans: VlanSet::of([11]),
        ..all_to(port(3))
    };
    let pipeline = pipeline(BOTH_WAYS, &[mirror]);
    let ports = |vlan| {
        let sent = sent_in(&pipeline, 1, vlan);
        sent.into_iter().map(|sent| sent.0).collect::<Vec<_>>()
    };
    assert_eq!(ports(None), [2]);
    assert_eq!(ports(Some(10)), [2]);
    assert_eq!(ports(Some(11)), [3, 2]);
}

#[test]
fn a_mirror_gets_packets_as_they_are_when_they_are_mirrored() {
    let rules = "in_port=1,actions=mod_vlan_vid:17,output:2\nin_port=2,actions=output:1";
    let mut pipeline = pipeline(rules, &[all_to(port(3))]);
    assert_eq!(tagged(&pipeline, 1), [(3, None), (2, Some(17))]);
    assert_eq!(tagged(&pipeline, 2), [(3, None), (1, None)]);
    let outgoing = BridgeMirror {
        sources: MirroredPorts::NONE,
        ..all_to(port(3))
    };
    let mirrors = Arc::new(Mirrors::new(vec![outgoing]));
    change(&mut pipeline, Operation::SetMirrors(BridgeId(0), mirrors));
    assert_eq!(tagged(&pipeline, 1), [(2, Some(17)), (3, Some(17))]);
}

#[test]
fn a_mirror_to_a_vlan_leaves_by_all_its_ports_once() {
    let rules = "in_port=1,actions=output:2\nin_port=2,actions=mod_vlan_vid:17,output:1";
    let mut pipeline = pipeline(rules, &[all_to(MirrorOutput::Vlan(12))]);
    for port in [3, 4] {
        change(&mut pipeline, Operation::DeletePort(PortId(port)));
    }
    let mirrored = [1, 2, LOCAL].map(|port| (port, Some(12)));
    let and = |last: (u32, Option<u16>)| {
        let mirrored = mirrored.into_iter();
        mirrored.chain([last]).collect::<Vec<_>>()
    };
    assert_eq!(tagged(&pipeline, 1), and((2, None)));
    assert_eq!(tagged(&pipeline, 2), and((1, Some(17))));
}

/// What one mirror sends is selected by the other, but no packet comes twice.
#[test]
fn mirrors_to_vlans_do_not_feed_each_other() {
    for snaplen_bytes in [None, Some(40)] {
        let mirrors = [500, 501].map(|vlan| BridgeMirror {
            snaplen_bytes,
            ..all_to(MirrorOutput::Vlan(vlan))
        });
        let mut pipeline = pipeline("actions=normal", &mirrors);
        change(&mut pipeline, Operation::DeletePort(PortId(4)));
        for (number, tag) in [(1, 0), (2, 500), (3, 501), (LOCAL, 0)] {
            let vlans = PortVlans {
                mode: VlanMode::Access { tag },
                priority_tags: PriorityTags::Never,
                is_protected: false,
            };
            let set = Operation::SetPortVlans(PortId(number), vlans.into());
            change(&mut pipeline, set);
        }
        let mut sent = sent_in(&pipeline, 1, None);
        sent.sort_unstable();
        let len = snaplen_bytes.map_or(120, usize::from);
        // LOCAL is flooded to by Open vSwitch only.
        assert_eq!(sent, [(2, None, len), (3, None, len)]);
    }
}

#[test]
fn mirrored_packets_are_cut() {
    let cut_to = |snaplen_bytes| BridgeMirror {
        snaplen_bytes,
        ..all_to(port(3))
    };
    let pipeline = pipeline(BOTH_WAYS, &[cut_to(Some(100))]);
    let expected = [(3, None, 100), (2, None, 120)];
    assert_eq!(sent_in(&pipeline, 1, None), expected);
    let longer = self::pipeline(BOTH_WAYS, &[cut_to(Some(1000))]);
    let expected = [(3, None, 120), (2, None, 120)];
    assert_eq!(sent_in(&longer, 1, None), expected);
}

#[test]
fn what_is_left_after_another_parse_is_not_mirrored_again() {
    let rules = "actions=output:2,pop_mpls:0x0800,resubmit(,1)\ntable=1,ip,actions=output:4";
    let pipeline = pipeline(rules, &[all_to(port(3))]);
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    let mut bytes = frame(None);
    bytes[12..18].copy_from_slice(&[0x88, 0x47, 0, 1, 1, 64]);
    bytes[18] = 0x45;
    let mut packet = Packet::from_bytes(&bytes);
    packet.set_received(PortId(1), Instant::ZERO);
    let passes = forward(&pipeline, pipeline.version(), packet, &mut outbox).expect("a frame");
    assert_eq!(passes.len(), 2);
    let sent: Vec<u32> = outbox.sent.iter().map(|(port, _)| port.0).collect();
    assert_eq!(sent, [3, 2, 4]);
}

/// Whatever a mirror sends of a packet, it has had the packet once.
#[test]
fn each_mirror_that_had_a_packet_is_a_step() {
    let to_vlan = BridgeMirror {
        id: MirrorId(8),
        sources: MirroredPorts::NONE,
        ..all_to(MirrorOutput::Vlan(12))
    };
    let of_vlan = BridgeMirror {
        id: MirrorId(9),
        vlans: VlanSet::of([11]),
        ..all_to(port(4))
    };
    let pipeline = pipeline(BOTH_WAYS, &[all_to(port(3)), to_vlan, of_vlan]);
    let had = |vlan| {
        let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
        outbox.grows = true;
        let mut packet = Packet::from_bytes(&frame(vlan));
        packet.set_received(PortId(1), Instant::ZERO);
        let passes = forward(&pipeline, pipeline.version(), packet, &mut outbox).expect("a frame");
        let kinds = passes[0].trace.kinds().filter_map(|kind| match kind {
            StepKind::Mirror(mirror) => Some(mirror.0),
            _ => None,
        });
        let mut had: Vec<u32> = kinds.collect();
        had.sort_unstable();
        (had, outbox.sent.len())
    };
    // To ports 2 and 3, and in the VLAN to all ports that are no mirror's.
    assert_eq!(had(None), (vec![7, 8], 5));
    assert_eq!(had(Some(11)), (vec![7, 8, 9], 6));
}

#[test]
fn an_output_port_is_for_mirrored_packets_only() {
    let only_from_4 = BridgeMirror {
        sources: these(&[4]),
        destinations: MirroredPorts::NONE,
        ..all_to(port(3))
    };
    let mut pipeline = pipeline("actions=normal", &[only_from_4]);
    assert_eq!(ports(&pipeline, 1), [2, 4]);
    assert_eq!(ports(&pipeline, 4), [3, 1, 2]);
    let reason = |pipeline: &Pipeline, from| {
        let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
        let mut packet = Packet::from_bytes(&frame(None));
        packet.set_received(PortId(from), Instant::ZERO);
        let passes = forward(pipeline, pipeline.version(), packet, &mut outbox);
        let reason = passes.expect("a frame")[0].drop_reason;
        (reason, outbox.stations_seen.len())
    };
    let dropped = Some(DropReason::MirrorPort);
    assert_eq!(reason(&pipeline, 3), (dropped, 0));
    // The destination was seen there before the port was a mirror's.
    let moved = MacMove {
        station: Station {
            bridge: BridgeId(0),
            vlan: 0,
            mac: 0x5054_0000_0007,
        },
        port: Some(PortId(3)),
    };
    change(&mut pipeline, Operation::MoveMacs(vec![moved]));
    assert_eq!(reason(&pipeline, 1), (dropped, 1));
    // An action that names the port still sends there.
    let named = self::pipeline("actions=output:3", &[all_to(port(4))]);
    assert_eq!(ports(&named, 1), [4, 3]);
    // Without the mirror, it is a port as any other.
    change(
        &mut pipeline,
        Operation::SetMirrors(BridgeId(0), Arc::default()),
    );
    assert_eq!(ports(&pipeline, 3), [] as [u32; 0], "its own station");
    assert_eq!(ports(&pipeline, 1), [3]);
}

/// Behind a patch the other bridge's mirrors select the packet; behind it, the first's again.
#[test]
fn each_bridge_mirrors_for_itself() {
    let mut pipeline = Pipeline::new(Config {
        bridges: true,
        ..Config::default()
    });
    let inner = BridgeId(1);
    let ends = [PortId(9), inner.port(9)];
    let state = |peer| PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer,
    };
    let made = [
        PortId(1),
        PortId(2),
        PortId(3),
        inner.port(2),
        inner.port(3),
    ];
    let made = made.map(|port| Operation::SetPort(port, state(None)));
    let patch = [
        Operation::SetPort(ends[0], state(Some(ends[1]))),
        Operation::SetPort(ends[1], state(Some(ends[0]))),
    ];
    let rules = parse_rules("rules", "in_port=1,actions=output:9,output:2").expect("right");
    let theirs = parse_rules("rules", "actions=output:2").expect("right");
    let theirs = theirs.into_change().operations;
    let mirrors = Operation::SetMirrors(BridgeId(0), Mirrors::new(vec![all_to(port(3))]).into());
    let operations = made.into_iter().chain(patch);
    let operations = operations.chain(rules.into_change().operations);
    let operations = operations.chain(theirs.iter().map(|theirs| theirs.in_bridge(inner)));
    let operations = operations.chain([mirrors.in_bridge(inner), mirrors]);
    let change = Change {
        operations: operations.collect(),
    };
    pipeline
        .apply(&change, Instant::ZERO)
        .expect("all can be set");
    let there = |number| inner.port(number).0;
    assert_eq!(ports(&pipeline, 1), [3, there(2), there(3), 2]);
}

#[test]
fn mirrors_that_cannot_be_are_refused() {
    let mut pipeline = pipeline(BOTH_WAYS, &[]);
    assert_eq!(pipeline.mirrors(BridgeId(0), pipeline.version()), None);
    let too_many = vec![all_to(port(3)); 33];
    let no_vlan = vec![all_to(MirrorOutput::Vlan(0))];
    for mirrors in [too_many, no_vlan] {
        let mirrors = Arc::new(Mirrors::new(mirrors));
        let set = Change::one(Operation::SetMirrors(BridgeId(0), mirrors));
        let refused = pipeline.apply(&set, Instant::ZERO);
        assert!(matches!(refused, Err(ChangeError::BadMirrors { .. })));
    }
    let mirrors = Arc::new(Mirrors::new(vec![all_to(port(3)); 32]));
    let set = Change::one(Operation::SetMirrors(BridgeId(0), mirrors));
    let delta = pipeline.apply(&set, Instant::ZERO).expect("there is room");
    assert_eq!(delta.mirrors, [BridgeId(0)]);
    // All have the same output, which gets one copy.
    assert_eq!(ports(&pipeline, 1), [3, 2]);
    let again = pipeline.apply(&set, Instant::ZERO).expect("it may be said");
    assert_eq!(again.mirrors, []);
}
