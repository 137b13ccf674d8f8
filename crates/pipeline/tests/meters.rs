//! Meters: which rules may name them, what packets meet, and how they come and go.

use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::text::{parse_flow, parse_rules};
use thalweg_pipeline::{
    BandKind, BridgeId, Change, ChangeError, Config, Delta, Effect, Input, MeterId, MeterPlace,
    Operation, Outbox, Pipeline, PortState, RateBand, RateMeter, RateUnit, Translation, forward,
};

const NOW: Instant = Instant::from_nanos(1_000_000_000);

fn meter(number: u32, rate: u32) -> Operation {
    Operation::SetMeter(RateMeter {
        id: MeterId(number.into()),
        unit: RateUnit::Packets,
        bands: [RateBand {
            kind: BandKind::Drop,
            rate,
            burst: rate,
        }]
        .into(),
        has_burst: false,
        has_statistics: true,
    })
}

fn delete(numbers: &[u64]) -> Operation {
    Operation::DeleteMeters(numbers.iter().copied().map(MeterId).collect())
}

fn apply(pipeline: &mut Pipeline, operations: Vec<Operation>) -> Result<Delta, ChangeError> {
    pipeline.apply(&Change { operations }, NOW)
}

/// A pipeline with three ports, these meters and these rules.
fn pipeline(meters: &[(u32, u32)], rules: &str) -> Pipeline {
    let mut pipeline = Pipeline::new(Config::default());
    let state = PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer: None,
    };
    let ports = (1..=3).map(|port| Operation::SetPort(PortId(port), state));
    let meters = meters.iter().map(|(number, rate)| meter(*number, *rate));
    let rules = parse_rules("rules", rules).expect("the test's rules are right");
    let rules = rules.into_change().operations;
    let operations = ports.chain(meters).chain(rules).collect();
    apply(&mut pipeline, operations).expect("the test's rules can be loaded");
    pipeline
}

fn frame() -> Vec<u8> {
    let address = |last: u64| MacAddress::from_u64(0x0200_0000_0000 | last);
    let builder = PacketBuilder::ethernet(address(1), address(2));
    builder
        .ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
        .udp(1, 2)
        .build()
}

fn outbox(pipeline: &Pipeline, now: Instant) -> Outbox {
    let pool = PacketPool::with_capacity(0, 0);
    let mut outbox = Outbox::new(pool).with_meters(pipeline.meters().clone());
    (outbox.grows, outbox.now) = (true, now);
    outbox
}

/// Sends packets into port 1; returns what left, and the last walk.
fn send(pipeline: &Pipeline, packets: usize, now: Instant) -> (Outbox, Translation) {
    let mut outbox = outbox(pipeline, now);
    let mut last = None;
    for _ in 0..packets {
        let mut packet = Packet::from_bytes(&frame());
        packet.set_received(PortId(1), now);
        let walks = forward(pipeline, pipeline.version(), packet, &mut outbox);
        last = walks.expect("a frame").into_iter().next();
    }
    (outbox, last.expect("there were packets"))
}

fn ports(outbox: &Outbox) -> Vec<u32> {
    outbox.sent.iter().map(|(port, _)| port.0).collect()
}

fn drops(outbox: &Outbox) -> Vec<(&'static str, u64)> {
    outbox.drops.iter().collect()
}

#[test]
fn packets_above_the_rate_are_dropped_and_counted() {
    let pipeline = pipeline(&[(7, 2)], "actions=meter:7,output:2");
    let (outbox, walk) = send(&pipeline, 5, NOW);
    assert_eq!(ports(&outbox), [2, 2]);
    assert_eq!(drops(&outbox), [("meter", 3)]);
    let place = MeterPlace(0);
    assert_eq!(
        walk.effects,
        [Effect::Meter(place), Effect::Output(PortId(2))]
    );
    let counts = pipeline.meters().counts(place);
    let bytes = frame().len() as u64;
    assert_eq!((counts.total.packets, counts.total.bytes), (5, 5 * bytes));
    assert_eq!(
        (counts.bands[0].packets, counts.bands[0].bytes),
        (3, 3 * bytes)
    );
    // Half a second at two packets a second.
    let later = Instant::from_nanos(NOW.as_nanos() + 500_000_000);
    assert_eq!(ports(&send(&pipeline, 3, later).0), [2]);
}

#[test]
fn a_packet_is_counted_as_dropped_once() {
    let pipeline = pipeline(&[(7, 2)], "actions=meter:7");
    let (outbox, _) = send(&pipeline, 5, NOW);
    assert_eq!(drops(&outbox), [("action", 2), ("meter", 3)]);
    let pipeline = self::pipeline(&[(7, 2)], "actions=meter:7,output:9,set_field:1->reg0");
    let (outbox, _) = send(&pipeline, 5, NOW);
    assert_eq!(drops(&outbox), [("no_such_port", 2), ("meter", 3)]);
}

#[test]
fn a_copy_that_is_dropped_leaves_the_packet() {
    let pipeline = pipeline(&[(7, 1)], "actions=clone(meter:7,output:2),output:3");
    let (outbox, _) = send(&pipeline, 3, NOW);
    assert_eq!(ports(&outbox), [2, 3, 3, 3]);
    assert_eq!(drops(&outbox), [("meter", 2)]);
}

#[test]
fn a_meter_sees_the_packet_before_what_is_rewritten() {
    let rule = "ip,actions=output:3,dec_ttl,push_vlan:0x8100,meter:7,output:2";
    let pipeline = pipeline(&[(7, 9)], rule);
    let (_, walk) = send(&pipeline, 1, NOW);
    let kinds = walk.effects.iter().map(|effect| match effect {
        Effect::Output(_) => "output",
        Effect::Meter(_) => "meter",
        _ => "rewrite",
    });
    let kinds: Vec<&str> = kinds.collect();
    assert_eq!(kinds, ["output", "meter", "rewrite", "rewrite", "output"]);
    let counts = pipeline.meters().counts(MeterPlace(0));
    assert_eq!(counts.total.bytes, frame().len() as u64);
}

/// A meter that lets one packet pass, and remarks others by this number of levels.
fn remarking(number: u32, levels: u8) -> Operation {
    Operation::SetMeter(RateMeter {
        id: MeterId(number.into()),
        unit: RateUnit::Packets,
        bands: [RateBand {
            kind: BandKind::Remark { levels },
            rate: 1,
            burst: 1,
        }]
        .into(),
        has_burst: true,
        has_statistics: true,
    })
}

/// The drop precedence of a DSCP, raised (RFC 2597, section 6).
fn raised(dscp: u8, levels: u8) -> u8 {
    const CLASSES: [[u8; 3]; 4] = [[10, 12, 14], [18, 20, 22], [26, 28, 30], [34, 36, 38]];
    let known = CLASSES.iter().find(|class| class.contains(&dscp));
    known.map_or(dscp, |class| {
        let level = class.iter().position(|known| *known == dscp);
        class[(level.unwrap_or(0) + usize::from(levels)).min(2)]
    })
}

#[test]
fn a_remarked_packet_is_what_a_rewritten_one_is() {
    let address = |last: u64| MacAddress::from_u64(0x0200_0000_0000 | last);
    for (dscp, levels) in (0..64).flat_map(|dscp| [1, 2, 3, 255].map(|levels| (dscp, levels))) {
        let builder = || PacketBuilder::ethernet(address(1), address(2)).vlan(5, 0);
        let v4 = builder().ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let v6 = builder().ipv6([1; 16].into(), [2; 16].into());
        for frame in [v4, v6].map(|ip| ip.dscp(dscp).ecn(2).udp(1, 2).build()) {
            let mut metered = pipeline(&[(7, 1)], "actions=meter:7,output:2");
            apply(&mut metered, vec![remarking(7, levels)]).expect("it can be modified");
            let rule = format!(
                "actions=set_field:{}->ip_dscp,output:2",
                raised(dscp, levels)
            );
            let rewritten = pipeline(&[], &rule.replace("actions", "ip,actions"));
            let rule = rule.replace("actions", "ipv6,actions");
            let rule = Operation::Add(parse_flow(&rule).expect("a rule"));
            let mut rewritten = rewritten;
            apply(&mut rewritten, vec![rule]).expect("it can be added");
            let first = sent_frame(&metered, &frame);
            assert_eq!(first, frame);
            assert_eq!(sent_frame(&metered, &frame), sent_frame(&rewritten, &frame));
        }
    }
}

/// The frame that leaves for one that comes in.
fn sent_frame(pipeline: &Pipeline, frame: &[u8]) -> Vec<u8> {
    let mut outbox = outbox(pipeline, NOW);
    let mut packet = Packet::from_bytes(frame);
    packet.set_received(PortId(1), NOW);
    forward(pipeline, pipeline.version(), packet, &mut outbox).expect("a frame");
    let (port, packet) = outbox.sent.remove(0);
    assert_eq!((port, outbox.sent.len()), (PortId(2), 0));
    packet.bytes().to_vec()
}

#[test]
fn a_rule_behind_a_meter_matches_what_it_has_remarked() {
    let rules = "ip,ip_dscp=10,actions=meter:7,goto_table:1\n\
                 table=1,ip,ip_dscp=10,actions=output:2\n\
                 table=1,ip,ip_dscp=14,actions=output:3";
    let mut pipeline = pipeline(&[(7, 1)], rules);
    let delta = apply(&mut pipeline, vec![remarking(7, 2)]).expect("it can be modified");
    assert_eq!(delta.meters, [MeterId(7)]);
    let frame = |dscp| {
        let builder = PacketBuilder::ethernet(MacAddress::from_u64(1), MacAddress::from_u64(2));
        let ip = builder.ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        ip.dscp(dscp).udp(1, 2).build()
    };
    let mut outbox = outbox(&pipeline, NOW);
    for _ in 0..3 {
        let mut packet = Packet::from_bytes(&frame(10));
        packet.set_received(PortId(1), NOW);
        let walks = forward(&pipeline, pipeline.version(), packet, &mut outbox);
        let walks = walks.expect("a frame");
        let expected = [Effect::Remark(MeterPlace(0)), Effect::Recirculate(0)];
        assert_eq!(walks[0].effects, expected);
    }
    assert_eq!(ports(&outbox), [2, 3, 3]);
    let counts = pipeline.meters().counts(MeterPlace(0));
    assert_eq!((counts.total.packets, counts.bands[0].packets), (3, 2));
    // It still remarks: no answer changes. Then it drops.
    let delta = apply(&mut pipeline, vec![remarking(7, 1)]).expect("it can be modified");
    assert_eq!(delta.meters, []);
    let delta = apply(&mut pipeline, vec![meter(7, 1)]).expect("it can be modified");
    assert_eq!(delta.meters, [MeterId(7)]);
}

#[test]
fn a_packet_whose_labels_are_gone_is_parsed_before_it_is_remarked() {
    let rules = "mpls,actions=pop_mpls:0x0800,meter:7,output:2";
    let mut pipeline = pipeline(&[(7, 1)], rules);
    let builder = || PacketBuilder::ethernet(MacAddress::from_u64(1), MacAddress::from_u64(2));
    let ip = |builder: PacketBuilder, dscp| {
        let ip = builder.ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        ip.dscp(dscp).udp(1, 2).build()
    };
    let labelled = ip(builder().mpls(5, 0, 64), 10);
    // A meter that drops needs no headers.
    assert_eq!(sent_frame(&pipeline, &labelled), ip(builder(), 10));
    apply(&mut pipeline, vec![remarking(7, 1)]).expect("it can be modified");
    assert_eq!(sent_frame(&pipeline, &labelled), ip(builder(), 10));
    assert_eq!(sent_frame(&pipeline, &labelled), ip(builder(), 12));
}

/// Invariant 5 of `meters`: effects of a version at which the meter drops only.
#[test]
fn a_packet_that_is_not_looked_up_again_is_not_remarked() {
    let mut pipeline = pipeline(&[(7, 1)], "actions=meter:7,output:2");
    let before = pipeline.version();
    apply(&mut pipeline, vec![remarking(7, 1)]).expect("it can be modified");
    let builder = PacketBuilder::ethernet(MacAddress::from_u64(1), MacAddress::from_u64(2));
    let ip = builder.ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let frame = ip.dscp(10).udp(1, 2).build();
    let mut outbox = outbox(&pipeline, NOW);
    for _ in 0..3 {
        let packet = Packet::from_bytes(&frame);
        forward(&pipeline, before, packet, &mut outbox).expect("a frame");
    }
    assert_eq!(ports(&outbox), [2, 2, 2]);
    assert!(
        outbox
            .sent
            .iter()
            .all(|(_, packet)| packet.bytes() == frame)
    );
    let counts = pipeline.meters().counts(MeterPlace(0));
    assert_eq!(counts.bands[0].packets, 2);
}

#[test]
fn a_meter_that_remarks_sees_what_was_rewritten_and_measures_copies_for_controllers() {
    let rule = "ip,actions=set_field:10->ip_dscp,meter:7,output:2";
    let mut pipeline = self::pipeline(&[(7, 1)], rule);
    apply(&mut pipeline, vec![remarking(7, 1)]).expect("it can be modified");
    let (outbox, _) = send(&pipeline, 2, NOW);
    let tos = |packet: &Packet| packet.bytes()[15];
    let sent: Vec<u8> = outbox.sent.iter().map(|(_, packet)| tos(packet)).collect();
    assert_eq!(sent, [10 << 2, 12 << 2]);
    let rule = "ip,actions=set_field:10->ip_dscp,controller(meter_id=4),output:2";
    let mut pipeline = self::pipeline(&[(4, 1)], rule);
    apply(&mut pipeline, vec![remarking(4, 1)]).expect("it can be modified");
    let (outbox, _) = send(&pipeline, 2, NOW);
    let told = outbox.to_controller.iter().map(|(_, packet)| tos(packet));
    assert_eq!(told.collect::<Vec<u8>>(), [10 << 2, 12 << 2]);
    assert!(outbox.sent.iter().all(|(_, packet)| tos(packet) == 10 << 2));
    let slow = remarking(MeterId::SLOW_PATH, 1);
    let refused = apply(&mut pipeline, vec![slow]).expect_err("it would change the walk");
    assert!(refused.to_string().contains("only drops"), "{refused}");
}

#[test]
fn rules_name_meters_that_exist_and_end_with_them() {
    let mut pipeline = pipeline(&[(1, 9), (2, 9)], "in_port=1,actions=meter:1,output:2");
    let add = |rule: &str| Operation::Add(parse_flow(rule).expect("a rule"));
    let unknown = |operation, meter| ChangeError::UnknownMeter { operation, meter };
    for rule in [
        "actions=meter:3,output:2",
        "actions=clone(output:2,meter:3)",
    ] {
        assert_eq!(apply(&mut pipeline, vec![add(rule)]), Err(unknown(0, 3)));
    }
    // In one change, the order counts.
    let both = vec![
        meter(3, 1),
        add("in_port=2,actions=meter:3,meter:2,output:2"),
    ];
    let reversed = both.iter().rev().cloned().collect();
    assert_eq!(apply(&mut pipeline, reversed), Err(unknown(0, 3)));
    apply(&mut pipeline, both).expect("the meter exists");
    let users = pipeline.users_of_meters(BridgeId::default());
    let users: Vec<(u64, u32)> = users.iter().map(|(id, users)| (id.0, *users)).collect();
    assert_eq!(users, [(1, 1), (2, 1), (3, 1)]);
    let gone = apply(&mut pipeline, vec![delete(&[2, 99])]).expect("it can go");
    assert_eq!((gone.removed.len(), gone.meters), (1, vec![MeterId(2)]));
    let gone = apply(&mut pipeline, vec![delete(&[1, 2, 3])]).expect("they can go");
    assert_eq!(gone.removed.len(), 1);
    assert_eq!(pipeline.rule_count(pipeline.version()), 0);
    assert!(pipeline.all_meters(pipeline.version()).next().is_none());
}

#[test]
fn a_modified_meter_changes_no_answer() {
    let mut pipeline = pipeline(&[(1, 1)], "actions=meter:1,output:2");
    let (outbox, before) = send(&pipeline, 3, NOW);
    assert_eq!(ports(&outbox), [2]);
    let delta = apply(&mut pipeline, vec![meter(1, 2)]).expect("it can be modified");
    assert_eq!((delta.meters.len(), delta.removed.len()), (0, 0));
    assert!(delta.is_of_rules());
    let (outbox, after) = send(&pipeline, 3, NOW);
    assert_eq!(after.effects, before.effects);
    assert_eq!(ports(&outbox), [2, 2]);
    // It counts from zero.
    assert_eq!(pipeline.meters().counts(MeterPlace(0)).total.packets, 3);
}

/// Invariant 2 of `meters`: a place is given away when its meter is reclaimed.
#[test]
fn places_are_taken_again_when_no_reader_needs_them() {
    let mut pipeline = pipeline(&[(1, 1), (2, 1), (3, 1)], "actions=drop");
    let place_of = |pipeline: &Pipeline, meter| {
        let known = pipeline.meter(MeterId(meter), pipeline.version());
        known.expect("it exists").place.0
    };
    assert_eq!([1, 2, 3].map(|meter| place_of(&pipeline, meter)), [0, 1, 2]);
    let change = vec![delete(&[2]), meter(2, 5)];
    apply(&mut pipeline, change).expect("a meter may come back");
    assert_eq!(place_of(&pipeline, 2), 3);
    let version = pipeline.version();
    pipeline.reclaim(version);
    apply(&mut pipeline, vec![meter(9, 1), meter(8, 1)]).expect("there is room");
    assert_eq!([9, 8].map(|meter| place_of(&pipeline, meter)), [1, 4]);
    // A refused change gives back what it took.
    let refused = apply(&mut pipeline, vec![meter(7, 1), meter(0, 1)]);
    assert!(matches!(
        refused,
        Err(ChangeError::BadMeter { meter: 0, .. })
    ));
    let bad = Operation::Add(parse_flow("actions=group:1").expect("a rule"));
    apply(&mut pipeline, vec![meter(7, 1), bad]).expect_err("there is no group");
    apply(&mut pipeline, vec![meter(6, 1)]).expect("there is room");
    assert_eq!(place_of(&pipeline, 6), 5);
}

#[test]
fn packets_for_the_controller_pass_the_meter_of_the_action_or_of_all() {
    let rules = "actions=controller(max_len=64,meter_id=4),output:2";
    let mut pipeline = pipeline(&[(4, 1)], rules);
    let told = |pipeline: &Pipeline| {
        let (outbox, walk) = send(pipeline, 3, NOW);
        assert_eq!(ports(&outbox), [2, 2, 2]);
        let inputs = walk.trace.inputs().iter().filter_map(|input| match input {
            Input::Meter(meter) => Some(meter.number()),
            _ => None,
        });
        (outbox.to_controller.len(), inputs.collect::<Vec<u32>>())
    };
    assert_eq!(told(&pipeline), (1, vec![4]));
    // The rule stays, and falls back to the meter of all.
    let all = MeterId::CONTROLLER;
    apply(&mut pipeline, vec![delete(&[4])]).expect("it can go");
    assert_eq!(told(&pipeline), (3, vec![4, all]));
    apply(&mut pipeline, vec![meter(all, 2)]).expect("it can be added");
    assert_eq!(told(&pipeline), (2, vec![4, all]));
    let counts = pipeline.meters().counts(MeterPlace(1));
    assert_eq!((counts.total.packets, counts.bands[0].packets), (3, 1));
}

#[test]
fn packets_on_the_slow_path_pass_its_meter() {
    let rules = "priority=2,arp,actions=set_field:2->arp_op,output:2\n\
                 priority=1,udp,actions=output:2,debug_slow";
    let pipeline = pipeline(&[(MeterId::SLOW_PATH, 1)], rules);
    let (outbox, walk) = send(&pipeline, 3, NOW);
    assert_eq!(ports(&outbox), [2]);
    let meter = Some(MeterPlace(0));
    assert_eq!(walk.effects[0], Effect::Slow { meter });
    assert_eq!(drops(&outbox), [("meter", 2)]);
}

#[test]
fn text_and_meters_go_both_ways() {
    for text in [
        "priority=1,actions=meter:4294901760,output:2",
        "priority=1,actions=output:2,clone(meter:1,output:3),meter:2",
        "priority=1,actions=controller(reason=no_match,max_len=9,pause,meter_id=7)",
    ] {
        let flow = parse_flow(text).expect("a rule");
        assert!(
            flow.to_string().ends_with(&text["priority=1,".len()..]),
            "{flow}"
        );
        assert_eq!(parse_flow(&flow.to_string()).expect("a rule"), flow);
    }
    let none = parse_flow("actions=controller(meter_id=0)").expect("a rule");
    assert!(
        none.to_string().ends_with("actions=CONTROLLER:65535"),
        "{none}"
    );
}
