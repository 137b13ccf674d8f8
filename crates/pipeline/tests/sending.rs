//! Tests queues, cut packets and ends of passes: how a packet leaves, and how it is counted.
//!
//! The answers are those of Open vSwitch 3.1.0 (`cargo xtask ovs-trace`), apart from copies,
//! which it spells in another way.

use thalweg_packet::{Headers, Instant, Packet, PacketPool, PortId, Receipt};
use thalweg_pipeline::text::{LOCAL_PORT, parse_groups, parse_rules, print_effects};
use thalweg_pipeline::{
    BridgeId, Change, Config, DropReason, Operation, Outbox, Pipeline, PortState, Translation,
    forward, resume, translate,
};

/// A frame of UDP over IPv4.
const FRAME: [u8; 42] = [
    2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0x66, 0xcf,
    10, 0, 0, 1, 10, 0, 0, 2, 3, 0xe8, 7, 0xd0, 0, 8, 0, 0,
];

/// A pipeline with ports 1 to 4 and `LOCAL`; port 5 is a patch to port 7 of bridge 1, whose
/// rule sends to its port 8.
fn pipeline(rules: &str, groups: &str) -> Pipeline {
    let mut pipeline = Pipeline::new(Config {
        bridges: true,
        ..Config::default()
    });
    let other = BridgeId(1);
    let up = |peer| PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer,
    };
    let local = PortState {
        floods: false,
        ..up(None)
    };
    let alone = [1, 2, 3, 4].map(|port| (PortId(port), up(None)));
    let others = [
        (LOCAL_PORT, local),
        (PortId(5), up(Some(other.port(7)))),
        (other.port(7), up(Some(PortId(5)))),
        (other.port(8), up(None)),
    ];
    let ports = alone.into_iter().chain(others);
    let ports = ports.map(|(port, state)| Operation::SetPort(port, state));
    let mut loaded = parse_rules("rules", rules).expect("the test's rules are right");
    loaded.groups = parse_groups("groups", groups).expect("the test's groups are right");
    let behind = parse_rules("behind", "actions=output:8").expect("a rule");
    let behind = behind.into_change().operations;
    let behind: Vec<_> = behind.iter().map(|one| one.in_bridge(other)).collect();
    let operations = ports
        .chain(loaded.into_change().operations)
        .chain(behind)
        .collect();
    let applied = pipeline.apply(&Change { operations }, Instant::ZERO);
    applied.expect("the test's rules can be loaded");
    pipeline
}

/// What a walk does with a packet from port 1, as datapath actions.
fn answer(rules: &str, groups: &str) -> (String, Translation) {
    answer_of(&pipeline(rules, groups))
}

fn answer_of(pipeline: &Pipeline) -> (String, Translation) {
    let layout = pipeline.layout();
    let headers = Headers::parse(&FRAME).expect("a frame");
    let mut key = vec![0; layout.ingress_words()];
    layout.extract(&FRAME, &headers, &Receipt::from_port(1), &mut key);
    let translation = translate(pipeline, &key, pipeline.version());
    let text = print_effects(&translation.effects, layout, &key, &translation.mask);
    (text, translation)
}

/// Forwards a packet from port 1.
fn sent(rules: &str) -> (Outbox, usize) {
    let pipeline = pipeline(rules, "");
    let mut packet = Packet::from_bytes(&FRAME);
    packet.set_received(PortId(1), Instant::ZERO);
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    let passes = forward(&pipeline, pipeline.version(), packet, &mut outbox).expect("a frame");
    (outbox, passes.len())
}

#[test]
fn queues_are_those_of_open_vswitch() {
    let cases = [
        ("set_queue:7,2", "set(skb_priority(0x7)),2"),
        ("set_queue:0,2", "2"),
        (
            "set_queue:7,2,pop_queue,3",
            "set(skb_priority(0x7)),2,set(skb_priority(0x0)),3",
        ),
        ("pop_queue,2,set_queue:7", "2"),
        ("enqueue:2:9", "set(skb_priority(0x9)),2"),
        (
            "set_queue:7,enqueue:2:9,3",
            "set(skb_priority(0x7)),set(skb_priority(0x9)),2,set(skb_priority(0x7)),3",
        ),
        ("enqueue:1:9,2", "2"),
        ("enqueue:in_port:9", "set(skb_priority(0x9)),1"),
        ("enqueue:local:9", "set(skb_priority(0x9)),65534"),
        ("enqueue:5:9", "set(skb_priority(0x9)),65544"),
        (
            "set_queue:7,controller",
            "set(skb_priority(0x7)),userspace(pid=0,controller(reason=1,max_len=65535))",
        ),
        // A copy has the packet's queue, and what it does with it ends with it.
        (
            "set_queue:7,clone(3,set_queue:1,4),2",
            "set(skb_priority(0x7)),clone(3,set(skb_priority(0x1)),4),2",
        ),
        (
            "set_queue:7,clone(set_queue:1),2",
            "set(skb_priority(0x7)),2",
        ),
        // In the action set, it comes before the output.
        (
            "write_actions(output:2,set_queue:7)",
            "set(skb_priority(0x7)),2",
        ),
        ("set_queue:7,flood", "set(skb_priority(0x7)),2,3,4,65544"),
    ];
    for (actions, expected) in cases {
        let (text, _) = answer(&format!("actions={actions}"), "");
        assert_eq!(text, expected, "{actions}");
    }
}

/// A bucket is an action set: it has its own queue, and the packet's own is back behind it.
#[test]
fn a_bucket_has_a_queue_of_its_own() {
    let groups = "group_id=1,type=all,bucket=actions=output:2,set_queue:5,bucket=actions=output:3";
    let (text, _) = answer("actions=set_queue:7,group:1,4", groups);
    let expected = "set(skb_priority(0x7)),clone(set(skb_priority(0x5)),2),3,4";
    assert_eq!(text, expected);
}

/// Packets and copies that are given a queue are counted, once each time.
#[test]
fn queued_packets_are_counted() {
    for (actions, count) in [
        ("2", 0),
        ("set_queue:0,2", 0),
        ("set_queue:7,2,3", 1),
        ("enqueue:2:1,enqueue:3:1", 2),
        ("clone(set_queue:7,2),set_queue:7,3", 2),
        ("set_queue:7", 0),
        ("enqueue:1:7", 0),
    ] {
        let (outbox, _) = sent(&format!("actions={actions}"));
        assert_eq!(outbox.queued, count, "{actions}");
    }
}

#[test]
fn packets_are_cut_as_open_vswitch_cuts_them() {
    let cases = [
        ("output(port=2,max_len=20),3", "clone(trunc(20),2),3"),
        ("output(port=local,max_len=20)", "clone(trunc(20),65534)"),
        // Not for these.
        ("output(port=in_port,max_len=20),3", "3"),
        ("output(port=5,max_len=20),3", "3"),
        ("output(port=1,max_len=20),3", "3"),
        ("output(port=9,max_len=20),3", "3"),
        (
            "set_queue:7,output(port=2,max_len=100000)",
            "set(skb_priority(0x7)),clone(trunc(100000),2)",
        ),
    ];
    for (actions, expected) in cases {
        let (text, _) = answer(&format!("actions={actions}"), "");
        assert_eq!(text, expected, "{actions}");
    }
    let reasons = [
        ("in_port", DropReason::NotCut),
        ("5", DropReason::NotCut),
        ("1", DropReason::InputPort),
        ("9", DropReason::NoSuchPort),
    ];
    for (port, reason) in reasons {
        let (_, translation) = answer(&format!("actions=output(port={port},max_len=20)"), "");
        assert_eq!(translation.drop_reason, Some(reason), "{port}");
    }
}

/// A port that was told to forward nothing is left out, however a packet would get there.
#[test]
fn nothing_leaves_by_a_port_that_forwards_nothing() {
    let cases = [
        ("3", "drop", Some(DropReason::PortForwardsNothing)),
        ("flood", "2,4,65544", None),
        ("all", "2,4,65544,65534", None),
        ("normal", "2,4,65544", None),
        ("2,clone(3),3,4", "2,4", None),
        (
            "set_queue:1,3,set_queue:0,4",
            "set(skb_priority(0x1)),set(skb_priority(0x0)),4",
            None,
        ),
        ("output(port=3,max_len=20),2", "2", None),
    ];
    for (actions, expected, reason) in cases {
        let mut pipeline = pipeline(&format!("actions={actions}"), "");
        let known = pipeline.port(PortId(3), pipeline.version());
        let state = PortState {
            forwards: false,
            ..known.expect("it is there")
        };
        let change = Change::one(Operation::SetPort(PortId(3), state));
        let delta = pipeline.apply(&change, Instant::ZERO);
        assert_eq!(delta.expect("it can be told").ports, [PortId(3)]);
        let (text, translation) = answer_of(&pipeline);
        assert_eq!(text, expected, "{actions}");
        assert_eq!(translation.drop_reason, reason, "{actions}");
    }
}

/// Only the packets that this output sends are cut; a shorter packet stays as it is.
#[test]
fn the_packet_itself_stays_whole() {
    let (outbox, _) = sent("actions=output(port=2,max_len=20),3,output(port=4,max_len=1000)");
    let lengths = outbox
        .sent
        .iter()
        .map(|(port, packet)| (port.0, packet.len()));
    assert_eq!(lengths.collect::<Vec<_>>(), [(2, 20), (3, 42), (4, 42)]);
}

/// A pass ends with `debug_recirc`, and the next one executes the rest, with the packet's queue,
/// registers, stack and action set.
#[test]
fn a_pass_ends_where_it_is_asked_to() {
    let cases = [
        ("actions=debug_recirc", "recirc(0x0)", vec![]),
        ("actions=2,debug_recirc,3", "2,recirc(0x0)", vec![2, 3]),
        (
            "actions=set_queue:7,debug_recirc,pop_queue,3",
            "set(skb_priority(0x7)),recirc(0x0)",
            vec![3],
        ),
        (
            "actions=set_field:4->reg0,push:reg0,set_field:2->reg0,debug_recirc,output:reg0,\
             pop:reg0,output:reg0",
            "recirc(0x0)",
            vec![2, 4],
        ),
        (
            "table=0,actions=resubmit(,1),2\ntable=1,actions=debug_recirc,3",
            "recirc(0x0)",
            vec![3, 2],
        ),
        (
            "actions=clone(debug_recirc,3),2",
            "recirc(0x0),2",
            vec![2, 3],
        ),
        (
            "table=0,actions=resubmit(,1),write_actions(output:2)\ntable=1,actions=debug_recirc,3",
            "recirc(0x0)",
            vec![3, 2],
        ),
        ("actions=debug_slow,2", "2", vec![2]),
    ];
    for (rules, expected, ports) in cases {
        let (text, translation) = answer(rules, "");
        assert_eq!(text, expected, "{rules}");
        let (outbox, passes) = sent(rules);
        assert_eq!(passes, 1 + translation.continuations.len(), "{rules}");
        let sent: Vec<u32> = outbox.sent.iter().map(|(port, _)| port.0).collect();
        assert_eq!(sent, ports, "{rules}");
    }
}

/// The next pass begins with the queue that the packet has, and need not set it again.
#[test]
fn a_queue_outlives_its_pass() {
    let rules = "actions=set_queue:7,debug_recirc,2,pop_queue,3";
    let pipeline = pipeline(rules, "");
    let (_, translation) = answer(rules, "");
    let [continuation] = &translation.continuations[..] else {
        panic!("{translation:?}");
    };
    assert_eq!(continuation.queue, 7);
    let key = vec![0; pipeline.layout().ingress_words()];
    let next = resume(&pipeline, &key, continuation, pipeline.version());
    let text = print_effects(&next.effects, pipeline.layout(), &key, &next.mask);
    assert_eq!(text, "2,set(skb_priority(0x0)),3");
    let (outbox, _) = sent(rules);
    assert_eq!(outbox.queued, 1);
}
