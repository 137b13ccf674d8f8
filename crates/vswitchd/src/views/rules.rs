//! The rules of a bridge with their counters (`bridge/dump-flows`).

use std::fmt::Write;
use std::time::Duration;

use thalweg_pipeline::text::{PortSpelling, print_actions, print_match};
use thalweg_pipeline::{BridgeId, Counters, Pipeline, RuleId};
use thalweg_switch::Switch;

/// The priority that is not told.
const USUAL_PRIORITY: u16 = 0x8000;

/// All rules of a bridge, and behind them those of table 254; `has_offload` adds what no
/// hardware did.
pub fn rules_text(switch: &mut Switch, bridge: BridgeId, has_offload: bool) -> String {
    // Counts are exact afterwards.
    switch.totals();
    let (now, age) = (switch.now(), switch.bridge_age(bridge));
    let pipeline = switch.pipeline();
    let rules = pipeline.rules(pipeline.version());
    let rules = rules.filter(|(_, rule)| rule.table.bridge() == bridge);
    let mut rules: Vec<_> = rules.collect();
    rules.sort_by_key(|(id, rule)| {
        let priority = std::cmp::Reverse(rule.precedence.priority());
        (rule.table, priority, rule.created_at, *id)
    });
    let mut text = String::new();
    for (id, rule) in rules {
        let number = rule.table.number();
        if number != 0 {
            let _ = write!(text, "table_id={number}, ");
        }
        text += &age_and_counts(now - rule.created_at, rule.counters, has_offload);
        text += &rule_text(&pipeline, id);
        text.push('\n');
    }
    let unmatched = pipeline.unmatched(bridge);
    // The entries that Open vSwitch hides; what they count here: `switch/src/openflow/hidden.rs`.
    for (counters, entry) in [
        (Counters::default(), "priority=2,recirc_id=0,actions=drop"),
        (
            unmatched.to_controller,
            "priority=0,reg0=0x1,actions=controller(reason=)",
        ),
        (unmatched.dropped, "priority=0,reg0=0x2,actions=drop"),
        (unmatched.fragments, "priority=0,reg0=0x3,actions=drop"),
    ] {
        let counts = age_and_counts(age, counters, has_offload);
        // Writing to a string does not fail.
        let _ = writeln!(text, "table_id=254, {counts}{entry}");
    }
    text
}

/// How long an entry exists and what it has counted; `has_offload` adds what no hardware did.
fn age_and_counts(age: Duration, counters: Counters, has_offload: bool) -> String {
    let offloaded = match has_offload {
        true => "n_offload_packets=0, n_offload_bytes=0, ",
        false => "",
    };
    let (age, Counters { packets, bytes }) = (age.as_secs(), counters);
    format!("duration={age}s, n_packets={packets}, n_bytes={bytes}, {offloaded}")
}

/// What a rule matches and does.
fn rule_text(pipeline: &Pipeline, id: RuleId) -> String {
    let Some(flow) = pipeline.flow_of(id) else {
        return String::new();
    };
    let ports = PortSpelling::numbers(pipeline);
    let mut conditions = Vec::new();
    if flow.priority != USUAL_PRIORITY {
        conditions.push(format!("priority={}", flow.priority));
    }
    let matching = print_match(&flow.matching, ports);
    if !matching.is_empty() {
        conditions.push(matching);
    }
    let actions = print_actions(&flow.actions, &flow.matching, ports);
    format!("{},actions={actions}", conditions.join(","))
}
