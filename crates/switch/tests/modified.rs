//! Rules that replace others: events, counts, and the rule that wins.

use thalweg_packet::{Instant, Packet, PortId};
use thalweg_pipeline::{Change, Operation, Selector, TableId, text};
use thalweg_switch::{Config, Engine};

/// A switch with ports 1 to 3 and these rules.
fn engine(rules: &[&str]) -> Engine {
    let mut engine = Engine::new(Config::default()).unwrap();
    (1..=3).for_each(|port| engine.add_port(PortId(port), Instant::ZERO));
    rules.iter().for_each(|rule| add(&mut engine, rule));
    engine
}

fn add(engine: &mut Engine, rule: &str) {
    let change = Change::adding([text::parse_flow(rule).unwrap()]);
    engine.apply(&change, Instant::ZERO).unwrap();
}

/// The ports that a packet from port 1 leaves by.
fn send(engine: &mut Engine) -> Vec<u32> {
    let mut packet = Packet::from_bytes(&[0; 60]);
    packet.set_received(PortId(1), Instant::ZERO);
    engine.forward(&mut vec![packet], Instant::ZERO);
    let sent = engine.outbox().sent.drain(..);
    sent.map(|(port, _)| port.0).collect()
}

fn packets(engine: &mut Engine) -> Vec<u64> {
    engine.settle();
    let pipeline = engine.pipeline();
    let rules = pipeline.rules(pipeline.version());
    rules.map(|(_, rule)| rule.counters.packets).collect()
}

/// OpenFlow 1.5.1, section 6.4: an add that overwrites a rule does not end it.
#[test]
fn a_rule_that_is_added_again_is_not_reported() {
    for again in ["", "reset_counts,"] {
        let mut engine = engine(&["send_flow_rem,in_port=1,actions=output:2"]);
        assert_eq!(send(&mut engine), [2]);
        add(
            &mut engine,
            &format!("send_flow_rem,{again}in_port=1,actions=output:3"),
        );
        assert_eq!(engine.take_removals().len(), 0);
        assert_eq!(send(&mut engine), [3]);
        // Counts continue, including those still in caches, unless they are reset.
        let counted = if again.is_empty() { 2 } else { 1 };
        assert_eq!(packets(&mut engine), [counted]);
        let delete = Change::one(Operation::DeleteAll);
        engine.apply(&delete, Instant::ZERO).unwrap();
        let removals = engine.take_removals();
        assert_eq!(removals.len(), 1);
        assert_eq!(removals[0].counters.packets, counted);
    }
}

#[test]
fn a_rule_that_is_added_again_and_deleted_at_once_is_reported_once() {
    for again in ["", "reset_counts,"] {
        let mut engine = engine(&["send_flow_rem,in_port=1,actions=output:2"]);
        assert_eq!(send(&mut engine), [2]);
        let rule = format!("send_flow_rem,{again}in_port=1,actions=output:3");
        let operations = vec![
            Operation::Add(text::parse_flow(&rule).unwrap()),
            Operation::DeleteAll,
        ];
        engine.apply(&Change { operations }, Instant::ZERO).unwrap();
        let removals = engine.take_removals();
        assert_eq!(removals.len(), 1);
        assert_eq!(removals[0].counters.packets, 1);
    }
}

#[test]
fn a_rule_that_is_added_again_keeps_its_place_in_the_order() {
    let older = "priority=5,in_port=1,actions=output:2";
    let younger = "priority=5,dl_dst=00:00:00:00:00:00,actions=output:3";
    let mut engine = engine(&[older, younger]);
    assert_eq!(send(&mut engine), [2]);
    add(&mut engine, older);
    assert_eq!(send(&mut engine), [2]);
    let delete = Operation::Delete(Selector {
        table: Some(TableId(0)),
        strict_priority: Some(5),
        matching: text::parse_match("in_port=1").unwrap(),
        cookie: None,
        ..Selector::default()
    });
    let again = Operation::Add(text::parse_flow(older).unwrap());
    let operations = vec![delete, again];
    engine.apply(&Change { operations }, Instant::ZERO).unwrap();
    assert_eq!(
        send(&mut engine),
        [3],
        "a rule that was deleted is a new one"
    );
}

#[test]
fn a_rule_that_is_modified_and_deleted_at_once_is_reported_with_its_counts() {
    let mut engine = Engine::new(Config::default()).unwrap();
    let now = Instant::ZERO;
    engine.add_port(PortId(1), now);
    engine.add_port(PortId(2), now);
    let rule = text::parse_flow("send_flow_rem,in_port=1,actions=output:2").unwrap();
    engine.apply(&Change::adding([rule]), now).unwrap();
    let mut packet = Packet::from_bytes(&[0; 60]);
    packet.set_received(PortId(1), now);
    engine.forward(&mut vec![packet], now);
    let operations = vec![
        Operation::Modify(Selector::default(), [].into()),
        Operation::Delete(Selector::default()),
    ];
    engine.apply(&Change { operations }, now).unwrap();
    let removals = engine.take_removals();
    assert_eq!(removals.len(), 1);
    assert_eq!(removals[0].counters.packets, 1);
}
