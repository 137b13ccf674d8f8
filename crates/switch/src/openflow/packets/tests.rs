//! Packets from controllers.

use thalweg_openflow::action::Action as Of;
use thalweg_openflow::message::packet::PacketOut;
use thalweg_openflow::message::port::PortNumber;
use thalweg_openflow::{Condition, FieldId, Match, Value};
use thalweg_packet::{Instant, PacketPool, PortId, standard as f};
use thalweg_pipeline::text::parse_flow;
use thalweg_pipeline::{BridgeId, Change, Operation, Outbox};

use super::{Numbering, prepare};
use crate::{Config, Engine};

#[test]
fn a_packet_out_writes_what_no_rule_reads() {
    let mut engine = Engine::new(Config::default()).expect("it makes sense");
    (1..=4).for_each(|port| engine.add_port(PortId(port), Instant::ZERO));
    let mut frame = vec![0; 34];
    frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
    (frame[17], frame[22]) = (20, 64);
    let output = |port| Of::Output {
        port: PortNumber(port),
        max_length: 0,
    };
    let asked = PacketOut {
        buffer: None,
        metadata: Match::default(),
        actions: vec![
            Of::SetNwDst([10, 0, 0, 9]),
            output(2),
            Of::DecTtl(None),
            Of::PushVlan(0x8100),
            output(3),
        ],
        data: frame.into(),
    };
    let numbers = Numbering::of(&engine.pipeline(), BridgeId(0));
    let prepared = prepare(numbers, &asked).expect("it is right");
    let foresight = prepared.foresight(&engine.pipeline()).expect("it fits");
    let foresight = foresight.expect("no rule reads anything");
    engine
        .apply(&Change::one(foresight), Instant::ZERO)
        .expect("it fits");
    let pipeline = engine.pipeline();
    assert_eq!(prepared.foresight(&pipeline), Ok(None));
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    prepared.passes(&pipeline, &mut outbox).for_each(drop);
    let sent: Vec<_> = outbox
        .sent
        .iter()
        .map(|(port, packet)| (port.0, packet.bytes()))
        .collect();
    assert_eq!(sent[0].1[30..34], [10, 0, 0, 9], "{sent:?}");
    assert_eq!(sent[1].1[12..18], [0x81, 0, 0, 0, 8, 0], "{sent:?}");
    assert_eq!(sent[1].1[26], 63, "{sent:?}");
}

#[test]
fn metadata_that_no_rule_reads_is_told_as_it_was_given() {
    let mut engine = Engine::new(Config::default()).expect("it makes sense");
    let exact = |field, number| Condition {
        field,
        value: Value::from_number(number, FieldId::bytes(field)),
        mask: None,
    };
    let asked = PacketOut {
        buffer: None,
        metadata: Match {
            conditions: vec![exact(FieldId::METADATA, 0x22), exact(FieldId::TUN_ID, 0x11)],
        },
        actions: Vec::new(),
        data: vec![0; 14].into(),
    };
    let numbers = Numbering::of(&engine.pipeline(), BridgeId(0));
    let prepared = prepare(numbers, &asked).expect("it is right");
    let told = |engine: &Engine| prepared.unread_fields(&engine.pipeline());
    let both = [(f::TUN_ID, 0x11), (f::METADATA, 0x22)];
    assert_eq!(told(&engine), both);
    let rule = parse_flow("metadata=1,actions=drop").expect("it is right");
    engine
        .apply(&Change::one(Operation::Add(rule)), Instant::ZERO)
        .expect("it fits");
    assert_eq!(
        told(&engine),
        [(f::TUN_ID, 0x11)],
        "walks carry the metadata"
    );
}
