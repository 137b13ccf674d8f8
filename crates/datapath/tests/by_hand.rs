//! Flows in front of the caches, beside the caches alone.

use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_datapath::{Config, Datapath, Gate, HandFlow, HandFlows};
use thalweg_packet::{Instant, Packet, PacketPool, PortId, standard as f};
use thalweg_pipeline::{Change, DropReason, Effect, Operation, Outbox, Pipeline, PortState, text};

const RULES: [&str; 3] = [
    "priority=9,dl_type=0x1234,actions=output:3",
    "priority=9,dl_type=0x1235,actions=drop",
    "priority=1,actions=output:4",
];

fn pipeline() -> Gate<Pipeline> {
    let mut pipeline = Pipeline::new(thalweg_pipeline::Config::default());
    let rules = RULES.map(|rule| text::parse_flow(rule).expect("a rule"));
    let state = PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer: None,
    };
    let mut change = Change::adding(rules);
    let ports = [3, 4].map(|port| Operation::SetPort(PortId(port), state));
    change.operations.extend(ports);
    let added = pipeline.apply(&change, Instant::ZERO);
    added.expect("it has room");
    Gate::new(pipeline)
}

/// A flow of packets of a port, with an EtherType if one is given.
fn flow(layout: &thalweg_packet::Layout, port: u32, kind: Option<u16>, effect: Effect) -> HandFlow {
    let (mut key, mut mask) = (vec![0; layout.words()], vec![0; layout.words()]);
    layout.set(&mut key, f::IN_PORT, port.into());
    layout.set(&mut mask, f::IN_PORT, u32::MAX.into());
    if let Some(kind) = kind {
        layout.set(&mut key, f::ETH_TYPE, kind.into());
        layout.set(&mut mask, f::ETH_TYPE, u16::MAX.into());
    }
    HandFlow::new(key, mask, vec![effect])
}

fn packet(port: u32, kind: u16, number: u8) -> Packet {
    let mut bytes = [0; 60];
    bytes[12..14].copy_from_slice(&kind.to_be_bytes());
    bytes[59] = number;
    let mut packet = Packet::from_bytes(&bytes);
    packet.set_received(PortId(port), Instant::ZERO);
    packet
}

fn sent(outbox: &mut Outbox) -> Vec<(u32, u8)> {
    let sent = outbox.sent.drain(..);
    let sent = sent.map(|(port, packet)| (port.0, packet.bytes()[59]));
    sent.collect()
}

#[test]
fn what_flows_by_hand_do_not_have_the_caches_answer_in_order() {
    let pipeline = pipeline();
    let new = || Datapath::new(Config::default(), &pipeline.read()).expect("it makes sense");
    let (mut datapath, mut alone) = (new(), new());
    let outbox = || Outbox::new(PacketPool::with_capacity(64, 2_048));
    let (mut mixed, mut plain) = (outbox(), outbox());
    let layout = pipeline.read().layout().clone();
    let drop = Effect::Drop {
        reason: DropReason::Action,
        copies: 1,
    };
    let by_hand = [
        flow(&layout, 1, Some(0x1234), Effect::Output(PortId(7))),
        flow(&layout, 1, Some(0x1235), Effect::Output(PortId(8))),
        flow(&layout, 2, None, drop),
    ]
    .map(Arc::new);
    let flows = HandFlows::new(layout, by_hand.to_vec());
    datapath.put_by_hand(Some(Arc::new(flows)));
    let mut random = Pcg64Mcg::seed_from_u64(9);
    let mut met = [0; 3];
    for _ in 0..200 {
        let mut expected = Vec::new();
        let (mut packets, mut rest) = (Vec::new(), Vec::new());
        for number in 0..random.random_range(1..40) {
            let (port, kind) = (
                random.random_range(1..4),
                random.random_range(0x1234..0x1237),
            );
            packets.push(packet(port, kind, number));
            let place = match (port, kind) {
                (1, 0x1234) => Some((0, Some(7))),
                (1, 0x1235) => Some((1, Some(8))),
                (2, _) => Some((2, None)),
                _ => None,
            };
            match place {
                Some((place, port)) => {
                    met[place] += 1;
                    expected.extend(port.map(|port| (port, number)));
                }
                None => {
                    rest.push(packet(port, kind, number));
                    alone.process(&mut rest, Instant::ZERO, &pipeline, &mut plain);
                    expected.extend(sent(&mut plain));
                }
            }
        }
        datapath.process(&mut packets, Instant::ZERO, &pipeline, &mut mixed);
        assert_eq!(sent(&mut mixed), expected);
    }
    let counted = by_hand.each_ref().map(|flow| flow.counters().0.packets);
    assert_eq!(counted, met);
    let (all, cached) = (datapath.statistics(), alone.statistics());
    assert_eq!(all.packets, cached.packets + met.iter().sum::<u64>());
    assert_eq!(all.upcalls, cached.upcalls);
    let drops = |datapath: &Datapath| -> u64 {
        let drops = datapath.statistics().drops();
        drops.map(|(_, count)| count).sum()
    };
    assert_eq!(drops(&datapath), drops(&alone) + met[2]);
}

#[test]
fn flows_by_hand_end_with_the_next_change_and_with_the_caches() {
    let pipeline = pipeline();
    let datapath = Datapath::new(Config::default(), &pipeline.read());
    let mut datapath = datapath.expect("it makes sense");
    let mut outbox = Outbox::new(PacketPool::with_capacity(64, 2_048));
    let layout = pipeline.read().layout().clone();
    let put = |datapath: &mut Datapath| {
        let by_hand = flow(&layout, 1, None, Effect::Output(PortId(7)));
        let flows = HandFlows::new(layout.clone(), vec![Arc::new(by_hand)]);
        datapath.put_by_hand(Some(Arc::new(flows)));
    };
    let mut answer = |datapath: &mut Datapath| {
        let mut packets = vec![packet(1, 0x1234, 0)];
        datapath.process(&mut packets, Instant::ZERO, &pipeline, &mut outbox);
        sent(&mut outbox)[0].0
    };
    put(&mut datapath);
    assert_eq!(answer(&mut datapath), 7);
    datapath.flush(&pipeline.read());
    assert_eq!(answer(&mut datapath), 3);
    put(&mut datapath);
    assert_eq!(answer(&mut datapath), 7);
    // A change that touches nothing of it.
    let rule = text::parse_flow("priority=5,dl_type=0x9999,actions=drop").expect("a rule");
    let applied = pipeline
        .write()
        .apply(&Change::adding([rule]), Instant::ZERO);
    let delta = Arc::new(applied.expect("it has room"));
    let findings = datapath
        .index()
        .map(|index| Arc::new(index.search(&pipeline.read(), &delta)));
    datapath.begin(delta, findings);
    assert_eq!(answer(&mut datapath), 3);
}
