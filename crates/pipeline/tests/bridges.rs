//! Several bridges in one pipeline, with patches between them.

mod by_program;

use proptest::prelude::*;
use thalweg_packet::{Instant, Packet, PacketPool, PortId, standard as f};
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{
    Action, BridgeId, Change, ChangeError, Config, DropReason, Flow, Miss, Misses, Operation,
    Outbox, Pipeline, PortState, Subfield, Write, forward,
};

use by_program::{frames, operation};

const INNER: BridgeId = BridgeId(1);
const FAR: BridgeId = BridgeId(700);

fn empty() -> Pipeline {
    Pipeline::new(Config {
        bridges: true,
        ..Config::default()
    })
}

fn port(peer: Option<PortId>) -> PortState {
    PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer,
    }
}

/// Bridge 0 with the ports 1 and 2 and the patch 9; bridge 1 with the ports 1 to 3 and the
/// patch 8. Their rules are these.
fn two(outer: &str, inner: &str) -> Pipeline {
    let mut pipeline = empty();
    let ends = (PortId(9), INNER.port(8));
    let outer_ports = [1, 2].map(|number| Operation::SetPort(PortId(number), port(None)));
    let inner_ports = [1, 2, 3].map(|number| Operation::SetPort(INNER.port(number), port(None)));
    let patch = [
        Operation::SetPort(ends.0, port(Some(ends.1))),
        Operation::SetPort(ends.1, port(Some(ends.0))),
    ];
    let rules = |text: &str| {
        let read = parse_rules("rules", text).expect("the test's rules are right");
        read.into_change().operations
    };
    let inner = rules(inner);
    let inner = inner.iter().map(|operation| operation.in_bridge(INNER));
    let operations = outer_ports.into_iter().chain(inner_ports).chain(patch);
    let operations = operations.chain(rules(outer)).chain(inner).collect();
    let made = pipeline.apply(&Change { operations }, Instant::ZERO);
    made.expect("the test's rules can be loaded");
    pipeline
}

/// Where a packet from a port goes, with its bytes; and its drops.
fn sent(pipeline: &Pipeline, from: PortId) -> (Vec<(PortId, Vec<u8>)>, Outbox) {
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    let mut packet = Packet::from_bytes(&frames()[0]);
    packet.set_received(from, Instant::ZERO);
    forward(pipeline, pipeline.version(), packet, &mut outbox).expect("a frame");
    let sent = outbox.sent.drain(..);
    let sent = sent.map(|(port, packet)| (port, packet.bytes().to_vec()));
    (sent.collect(), outbox)
}

fn ports(pipeline: &Pipeline, from: PortId) -> Vec<PortId> {
    sent(pipeline, from)
        .0
        .into_iter()
        .map(|sent| sent.0)
        .collect()
}

#[test]
fn a_patch_enters_the_other_bridge_afresh_and_what_happens_there_stays_there() {
    let pipeline = two(
        "in_port=1,actions=load:7->NXM_NX_REG0[],push:NXM_NX_REG0[],\
         mod_dl_src:00:00:00:00:00:05,output:9,pop:NXM_NX_REG1[],resubmit(,3),output:2",
        "table=0,reg0=0,in_port=8,dl_src=00:00:00:00:00:05,actions=pop:NXM_NX_REG1[],\
         mod_dl_src:00:00:00:00:00:06,resubmit(,1)\n\
         table=0,priority=1,actions=output:2\n\
         table=1,reg1=0,in_port=8,actions=output:3,in_port,exit",
    );
    let (sent, _) = sent(&pipeline, PortId(1));
    let source = |bytes: &[u8]| bytes[11];
    let seen: Vec<_> = sent
        .iter()
        .map(|(port, bytes)| (*port, source(bytes)))
        .collect();
    // The inner bridge's `in_port` leads back through the patch, where table 0 has no rule
    // for it; its `exit` is not the outer bridge's.
    assert_eq!(seen, [(INNER.port(3), 6), (PortId(2), 5)]);
}

#[test]
fn a_flood_stays_in_its_bridge_except_through_patches() {
    let pipeline = two("actions=flood", "actions=normal");
    let expected = [PortId(2), INNER.port(1), INNER.port(2), INNER.port(3)];
    assert_eq!(ports(&pipeline, PortId(1)), expected);
    let expected = [INNER.port(2), INNER.port(3), PortId(1), PortId(2)];
    let mut back = ports(&pipeline, INNER.port(1));
    back.sort_unstable();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(back, expected);
}

#[test]
fn stations_are_each_bridges_own() {
    let pipeline = two("actions=normal", "actions=normal");
    let (_, outbox) = sent(&pipeline, PortId(1));
    let seen: Vec<_> = outbox
        .stations_seen
        .iter()
        .map(|(station, port)| (station.bridge, *port))
        .collect();
    assert_eq!(seen, [(BridgeId(0), PortId(1)), (INNER, INNER.port(8))]);
}

#[test]
fn a_loop_of_patches_ends_at_a_bound() {
    let pipeline = two(
        "in_port=9,actions=in_port,output:2\npriority=1,actions=output:9,output:2",
        "actions=in_port,output:1",
    );
    let (sent, outbox) = sent(&pipeline, PortId(1));
    assert_eq!(sent, []);
    let drops: Vec<_> = outbox
        .drops
        .iter()
        .filter(|(_, count)| *count > 0)
        .collect();
    assert_eq!(drops, [(DropReason::RecursionTooDeep.name(), 1)]);
}

#[test]
fn each_bridge_has_its_own_misses_groups_and_reserved_ports() {
    let group = "group_id=4,type=all,bucket=output:1";
    let outer = format!(
        "{group}\nin_port=1,actions=group:4,output:9,load:9->NXM_NX_REG0[],output:NXM_NX_REG0[]"
    );
    let inner = "group_id=4,type=all,bucket=output:2,bucket=output:3\n\
                 table=5,actions=group:4,LOCAL,load:0xfffe->NXM_NX_REG2[],output:NXM_NX_REG2[]";
    let mut pipeline = two(&outer, inner);
    // The inner bridge's table 0 is empty: its packets go on with the next.
    let misses = Misses {
        others: Miss::Drop,
        tables: (0..5).map(|table| (table, Miss::Continue)).collect(),
    };
    let local = INNER.port(0xfffe);
    let change = Change {
        operations: vec![
            Operation::SetMisses(INNER, misses.into()),
            Operation::SetPort(local, port(None)),
        ],
    };
    pipeline.apply(&change, Instant::ZERO).expect("both can be");
    let through = [INNER.port(2), INNER.port(3), local, local];
    // The group's bucket leads back to the port that the packet came from.
    assert_eq!(ports(&pipeline, PortId(1)), [through, through].concat());
}

#[test]
fn what_a_bridges_tables_do_without_a_rule_is_its_own() {
    let mut pipeline = two("table=3,actions=drop", "table=3,actions=drop");
    let set = |others| {
        let misses = Misses {
            others,
            ..Misses::default()
        };
        Operation::SetMisses(BridgeId(0), misses.into())
    };
    let told = |pipeline: &Pipeline, from| sent(pipeline, from).1.to_controller.len();
    let change = Change::one(set(Miss::Controller).in_bridge(INNER));
    let delta = pipeline.apply(&change, Instant::ZERO).expect("it can be");
    assert_eq!(delta.misses, [INNER]);
    assert_eq!(told(&pipeline, PortId(1)), 0);
    assert_eq!(told(&pipeline, INNER.port(1)), 1);
    let change = Change {
        operations: vec![set(Miss::Controller), set(Miss::Drop).in_bridge(INNER)],
    };
    pipeline.apply(&change, Instant::ZERO).expect("both can be");
    assert_eq!(told(&pipeline, PortId(1)), 1);
    assert_eq!(told(&pipeline, INNER.port(1)), 0);
}

#[test]
fn no_action_leaves_its_bridge_by_the_input_port() {
    // `reg0` becomes the number of the input port in its bridge, however it is read.
    let inner = "table=1,reg0=3,actions=flood\ntable=1,priority=1,actions=drop";
    let mut pipeline = two("", inner);
    let whole = |field| Subfield::whole(field, 32);
    let (port, register) = (whole(f::IN_PORT), whole(f::REG0));
    let is_port_3 = Write {
        field: f::REG0,
        value: 3,
        mask: u32::MAX.into(),
    };
    let sets = [
        vec![Action::Move {
            source: register.clone(),
            destination: port.clone(),
        }],
        vec![Action::Push(register.clone()), Action::Pop(port.clone())],
        vec![Action::SetField(
            [Write {
                field: f::IN_PORT,
                ..is_port_3
            }]
            .into(),
        )],
    ];
    let gets = [
        vec![Action::Move {
            source: port.clone(),
            destination: register.clone(),
        }],
        vec![Action::Push(port), Action::Pop(register)],
    ];
    for set in sets {
        for get in &gets {
            let lists = [
                vec![Action::SetField([is_port_3].into())],
                set.clone(),
                vec![Action::SetField(
                    [Write {
                        value: 0,
                        ..is_port_3
                    }]
                    .into(),
                )],
                get.clone(),
                vec![Action::Goto(INNER.table(1))],
            ];
            let flow = Flow {
                table: INNER.table(0),
                actions: lists.concat().into(),
                ..Flow::default()
            };
            let change = Change::one(Operation::Add(flow));
            pipeline.apply(&change, Instant::ZERO).expect("it is right");
            // A flood leaves out the port that the packet now comes from.
            let mut flooded = ports(&pipeline, INNER.port(1));
            flooded.retain(|port| *port != PortId(1) && *port != PortId(2));
            assert_eq!(flooded, [INNER.port(1), INNER.port(2)]);
        }
    }
}

#[test]
fn a_pipeline_without_bridges_has_one_bridges_tables() {
    let mut pipeline = Pipeline::new(Config::default());
    let flow = parse_rules("rules", "actions=drop").expect("right");
    let change = flow.into_change().operations[0].in_bridge(INNER);
    let refused = pipeline.apply(&Change::one(change), Instant::ZERO);
    assert!(matches!(refused, Err(ChangeError::BadRule { .. })));
}

/// Whether an operation says something that a bridge understands otherwise than a switch
/// alone: ports with more than 16 bits, bits of the input port as they are, and select groups,
/// whose choice depends on their whole number.
fn is_of_more(operation: &Operation) -> bool {
    let text = format!("{operation:?}");
    let in_port = format!("{:?}", f::IN_PORT);
    let words = [&in_port, "4294967295", "Select(", "in_port: Some"];
    words.iter().any(|word| text.contains(*word))
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(3000)
    })]

    /// A random pipeline does in bridge 700 what it does alone.
    #[test]
    fn a_bridge_is_as_a_switch_alone(
        operations in prop::collection::vec(operation(), 1..12),
    ) {
        let mut alone = Pipeline::new(Config::default());
        let mut among = empty();
        for number in 1..=3 {
            let set = |number| Operation::SetPort(number, port(None));
            let alone = alone.apply(&Change::one(set(PortId(number))), Instant::ZERO);
            let others = [set(FAR.port(number as u16)), set(PortId(number))];
            let change = Change { operations: others.into() };
            let among = among.apply(&change, Instant::ZERO);
            prop_assert!(alone.is_ok() && among.is_ok());
        }
        for operation in operations {
            if is_of_more(&operation) {
                continue;
            }
            let there = Change::one(operation.in_bridge(FAR));
            let there = among.apply(&there, Instant::ZERO);
            let here = alone.apply(&Change::one(operation), Instant::ZERO);
            prop_assert_eq!(here.is_ok(), there.is_ok(), "{:?} {:?}", here, there);
        }
        let (here, outbox) = sent(&alone, PortId(1));
        let (there, far_outbox) = sent(&among, FAR.port(1));
        let moved: Vec<_> = here
            .into_iter()
            .map(|(port, bytes)| (FAR.port(port.0 as u16), bytes))
            .collect();
        prop_assert_eq!(moved, there);
        let drops = |outbox: &Outbox| outbox.drops.iter().collect::<Vec<_>>();
        prop_assert_eq!(drops(&outbox), drops(&far_outbox));
    }
}
