//! Every packet is accounted for, and goes where the reference says.

use std::sync::Arc;

use thalweg_datapath::{Config, Datapath, EvictReason, Gate, Progress, RefuseReason};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{Change, Operation, Outbox, Pipeline, PortState, forward};

fn pipeline(rules: &str) -> Gate<Pipeline> {
    let mut pipeline = Pipeline::new(thalweg_pipeline::Config::default());
    let state = PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer: None,
    };
    let ports = (1..=2).map(|port| Operation::SetPort(PortId(port), state));
    let rules = parse_rules("rules", rules).expect("the test's rules are right");
    let operations = ports.chain(rules.into_change().operations).collect();
    let applied = pipeline.apply(&Change { operations }, Instant::ZERO);
    applied.expect("the test's rules can be loaded");
    Gate::new(pipeline)
}

/// An IPv4 packet from port 1.
fn packet() -> Packet {
    let mut frame = vec![0; 34];
    frame[5] = 2;
    frame[11] = 1;
    frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
    frame[17] = 20;
    frame[22] = 64;
    let mut packet = Packet::from_bytes(&frame);
    packet.set_received(PortId(1), Instant::ZERO);
    packet
}

fn outbox() -> Outbox {
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    outbox
}

fn process(pipeline: &Gate<Pipeline>, count: usize) -> (Datapath, Outbox) {
    let mut datapath = Datapath::new(Config::default(), &pipeline.read()).unwrap();
    let mut outbox = outbox();
    let mut packets = vec![packet(); count];
    datapath.process(&mut packets, Instant::ZERO, pipeline, &mut outbox);
    (datapath, outbox)
}

#[test]
fn a_drop_is_counted_also_if_the_packet_has_taught_something() {
    // The packet is addressed to its own sender: `normal` learns it at port 1, and does not
    // send it back.
    let pipeline = pipeline("actions=normal");
    let mut to_itself = packet();
    to_itself.bytes_mut().copy_within(6..12, 0);
    let (mut datapath, _) = process(&pipeline, 0);
    let learned = {
        let mut outbox = outbox();
        let mut packets = vec![to_itself.clone()];
        datapath.process(&mut packets, Instant::ZERO, &pipeline, &mut outbox);
        outbox.stations_seen
    };
    let moves = learned.into_iter().map(|(station, port)| {
        let port = Some(port);
        thalweg_pipeline::MacMove { station, port }
    });
    let change = Change::one(Operation::MoveMacs(moves.collect()));
    let delta = pipeline.write().apply(&change, Instant::ZERO).unwrap();
    let findings = datapath.index().map(|index| {
        let findings = index.search(&pipeline.read(), &delta);
        Arc::new(findings)
    });
    datapath.begin(Arc::new(delta), findings);
    while !matches!(datapath.step(&pipeline), Progress::Settled { .. }) {}
    let mut outbox = outbox();
    let mut packets = vec![to_itself.clone(), to_itself];
    datapath.process(&mut packets, Instant::ZERO, &pipeline, &mut outbox);
    assert_eq!((outbox.sent.len(), outbox.stations_seen.len()), (0, 2));
    let drops: Vec<_> = datapath.statistics().drops().collect();
    assert_eq!(drops, [("input_port", 2)]);
}

/// The packets sent, and the drops counted, for one packet from port 1.
fn drops(rules: &str) -> (usize, Vec<(&'static str, u64)>) {
    let (datapath, outbox) = process(&pipeline(rules), 1);
    (outbox.sent.len(), datapath.statistics().drops().collect())
}

#[test]
fn a_copy_that_goes_nowhere_is_counted_though_others_leave() {
    assert_eq!(drops("actions=output:2"), (1, vec![]));
    assert_eq!(
        drops("actions=output:2,output:7,output:8"),
        (1, vec![("no_such_port", 2)])
    );
    assert_eq!(
        drops("actions=output:1,output:2"),
        (1, vec![("input_port", 1)])
    );
    let bucket = "bucket=actions=resubmit(,1)";
    let to_buckets = |rest: &str| format!("group_id=1,type=all,{bucket},{bucket}\n{rest}");
    let misses = to_buckets("actions=output:2,group:1");
    assert_eq!(drops(&misses), (1, vec![("table_miss", 2)]));
    let dead = "group_id=1,type=ff,bucket=watch_port:9,actions=output:2\n\
                actions=output:2,clone(group:1)";
    assert_eq!(drops(dead), (1, vec![("no_live_bucket", 1)]));
    // The controller is told, and the packet is dropped.
    let expired = "ip,actions=set_field:1->nw_ttl,output:2,dec_ttl,output:2";
    assert_eq!(drops(expired), (1, vec![("ttl_expired", 1)]));
}

#[test]
fn what_no_rule_asks_for_is_no_drop() {
    assert_eq!(drops("actions=resubmit(,1),output:2"), (1, vec![]));
    assert_eq!(drops("ip,actions=clone(dec_ttl),output:2"), (1, vec![]));
    assert_eq!(drops("actions=resubmit(,1)"), (0, vec![("table_miss", 1)]));
    assert_eq!(drops("actions=drop"), (0, vec![("action", 1)]));
    let copied = "actions=clone(resubmit(,1)),clone(resubmit(,2))";
    assert_eq!(drops(copied), (0, vec![("table_miss", 2)]));
}

#[test]
fn what_grows_too_long_for_a_frame_is_dropped_and_counted() {
    let rules = "actions=clone(push_vlan:0x8100,push_vlan:0x88a8,output:2),push_vlan:0x8100,\
                 output:2,push_vlan:0x88a8,output:2";
    let pipeline = pipeline(rules);
    let mut datapath = Datapath::new(Config::default(), &pipeline.read()).unwrap();
    let mut outbox = outbox();
    let mut frame = vec![0; 65_530];
    let mut packet = Packet::from_bytes(&frame);
    packet.set_received(PortId(1), Instant::ZERO);
    datapath.process(&mut vec![packet], Instant::ZERO, &pipeline, &mut outbox);
    let drops: Vec<_> = datapath.statistics().drops().collect();
    assert_eq!(drops, [("too_long", 2)]);
    frame.splice(12..12, [0x81, 0, 0, 0]);
    let sent: Vec<_> = outbox.sent.iter().map(|(_, sent)| sent.bytes()).collect();
    assert_eq!(sent, [frame]);
}

#[test]
fn a_walk_that_cannot_go_on_is_counted_once() {
    let pipeline = pipeline("mpls,actions=pop_mpls:0x0800,resubmit(,1)");
    let config = Config {
        continuations: 0,
        ..Config::default()
    };
    let mut datapath = Datapath::new(config, &pipeline.read()).unwrap();
    let mut frame = packet().bytes().to_vec();
    frame.splice(12..14, [0x88, 0x47, 0, 0, 0x11, 64]);
    let mut packets = vec![Packet::from_bytes(&frame)];
    datapath.process(&mut packets, Instant::ZERO, &pipeline, &mut outbox());
    let drops: Vec<_> = datapath.statistics().drops().collect();
    assert_eq!(drops, [("continuations_full", 1)]);
}

#[test]
fn copies_share_the_passes_of_their_packet() {
    let buckets = ",bucket=actions=pop_mpls:0x0800,dec_ttl,output:2".repeat(20);
    let pipeline = pipeline(&format!(
        "group_id=1,type=all{buckets}\nip,actions=push_mpls:0x8847,group:1"
    ));
    let mut expected = outbox();
    let version = pipeline.read().version();
    forward(&pipeline.read(), version, packet(), &mut expected).unwrap();
    assert_eq!(expected.sent.len(), 15);
    let (datapath, actual) = process(&pipeline, 3);
    assert_eq!(actual.sent.len(), 3 * expected.sent.len());
    assert_eq!(actual.sent[0], expected.sent[0]);
    let refused = datapath.statistics().refusals(RefuseReason::TooManyPasses);
    assert_eq!(refused, 3 * 5);
}

#[test]
fn continuations_that_fill_up_make_room_again() {
    // Every source address is a different frozen state: it is in a register when the label is
    // popped.
    let rules = "mpls,actions=move:NXM_OF_ETH_SRC[0..15]->NXM_NX_REG0[0..15],pop_mpls:0x0800,\
                 resubmit(,1)\ntable=1,reg0=0xabcd,actions=drop\n\
                 table=1,priority=1,actions=output:2";
    let pipeline = pipeline(rules);
    let config = Config {
        continuations: 8,
        ..Config::default()
    };
    let mut datapath = Datapath::new(config, &pipeline.read()).unwrap();
    let mut outbox = outbox();
    for source in 0..100 {
        let mut frame = packet().bytes().to_vec();
        frame.splice(12..14, [0x88, 0x47, 0, 0, 0x11, 64]);
        frame[11] = source;
        let mut packet = Packet::from_bytes(&frame);
        packet.set_received(PortId(1), Instant::ZERO);
        datapath.process(&mut vec![packet], Instant::ZERO, &pipeline, &mut outbox);
    }
    assert_eq!(
        outbox.sent.len(),
        100,
        "every packet leaves, whatever room there was"
    );
    assert_eq!(
        datapath
            .statistics()
            .refusals(RefuseReason::ContinuationsFull),
        0
    );
    assert!(
        datapath
            .statistics()
            .evictions(EvictReason::OldContinuation)
            > 0
    );
}
