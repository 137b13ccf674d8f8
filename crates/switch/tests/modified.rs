//! A rule that is modified and ends in the same change is reported like any other.

use thalweg_packet::{Instant, Packet, PortId};
use thalweg_pipeline::{Change, Operation, Selector, text};
use thalweg_switch::{Config, Engine};

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
