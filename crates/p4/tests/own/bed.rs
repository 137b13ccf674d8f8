//! Small programs, written as p4c would write them, for tests that need no other files.
//!
//! A packet is one header `h` (a: 8 bits, b: 8, c: 16, d: 32) and a payload. `scalars` has the
//! metadata `x` (32 bits), `y` (8), `color` (2) and `wide` (200).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use thalweg_p4::{Config, Outbox, Program, Target};
use thalweg_packet::Instant;

/// A program whose ingress and egress each run one action without parameters.
pub(crate) fn program(ingress: Value, egress: Value) -> Value {
    let actions = json!([
        {"name": "in", "id": 0, "runtime_data": [], "primitives": ingress},
        {"name": "out", "id": 1, "runtime_data": [], "primitives": egress},
    ]);
    with_tables(actions, json!([bare("in", 0)]), json!([bare("out", 1)]))
}

/// A keyless table that always runs one action.
pub(crate) fn bare(name: &str, action: u32) -> Value {
    json!({"name": format!("tbl_{name}"), "id": 100 + action, "key": [], "match_type": "exact",
        "type": "simple", "max_size": 1, "with_counters": false, "support_timeout": false,
        "direct_meters": null, "action_ids": [action], "actions": [name],
        "base_default_next": null, "next_tables": {name: null},
        "default_entry": {"action_id": action, "action_const": true, "action_data": [],
            "action_entry_const": true}})
}

/// A program with these actions and tables; each pipeline begins with its first table.
pub(crate) fn with_tables(actions: Value, ingress: Value, egress: Value) -> Value {
    let init = |tables: &Value| tables[0]["name"].clone();
    json!({
        "__meta__": {"version": [2, 23]},
        "header_types": [
            {"name": "scalars_0", "id": 0, "fields": [["x", 32, false], ["y", 8, false],
                ["color", 2, false], ["wide", 200, false]]},
            {"name": "standard_metadata", "id": 1, "fields": [["ingress_port", 9, false],
                ["egress_spec", 9, false], ["egress_port", 9, false],
                ["instance_type", 32, false], ["packet_length", 32, false],
                ["mcast_grp", 16, false], ["egress_rid", 16, false],
                ["checksum_error", 1, false], ["parser_error", 32, false]]},
            {"name": "h_t", "id": 2, "fields": [["a", 8, false], ["b", 8, false],
                ["c", 16, false], ["d", 32, false]]},
            {"name": "v_t", "id": 3, "fields": [["n", 8, false], ["v", "*"]], "max_length": 5},
        ],
        "headers": [
            {"name": "scalars", "id": 0, "header_type": "scalars_0", "metadata": true},
            {"name": "standard_metadata", "id": 1, "header_type": "standard_metadata",
                "metadata": true},
            {"name": "h", "id": 2, "header_type": "h_t", "metadata": false},
            {"name": "g", "id": 3, "header_type": "h_t", "metadata": false},
            {"name": "v", "id": 4, "header_type": "v_t", "metadata": false},
        ],
        "errors": [["NoError", 0], ["PacketTooShort", 1], ["NoMatch", 2],
            ["StackOutOfBounds", 3], ["HeaderTooShort", 4]],
        "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [
            {"name": "start", "id": 0, "parser_ops": [{"op": "extract",
                "parameters": [{"type": "regular", "value": "h"}]}],
                "transition_key": [], "transitions": [
                    {"type": "default", "value": null, "mask": null, "next_state": null}]}]}],
        "deparsers": [{"name": "deparser", "id": 0, "order": ["h", "g", "v"], "primitives": []}],
        "counter_arrays": [{"name": "counter", "id": 0, "size": 4, "is_direct": false}],
        "meter_arrays": [{"name": "meter", "id": 0, "size": 2, "is_direct": false,
            "rate_count": 2, "type": "packets"}],
        "register_arrays": [{"name": "register", "id": 0, "size": 4, "bitwidth": 200}],
        "field_lists": [{"id": 1, "name": "list", "elements": [field("scalars", "x")]}],
        "learn_lists": [{"id": 1, "name": "learn",
            "elements": [field("h", "a"), field("scalars", "x")]}],
        "calculations": [{"name": "hash", "id": 0, "algo": "crc16",
            "input": [field("h", "d")]}],
        "actions": actions,
        "pipelines": [
            {"name": "ingress", "id": 0, "init_table": init(&ingress), "tables": ingress,
                "action_profiles": [{"name": "profile", "id": 0, "max_size": 4,
                    "selector": {"algo": "identity", "input": [field("h", "a")]}}],
                "conditionals": []},
            {"name": "egress", "id": 1, "init_table": init(&egress), "tables": egress,
                "conditionals": []},
        ],
        "checksums": [],
    })
}

pub(crate) fn field(header: &str, field: &str) -> Value {
    json!({"type": "field", "value": [header, field]})
}

pub(crate) fn standard(name: &str) -> Value {
    field("standard_metadata", name)
}

pub(crate) fn hex(number: u64) -> Value {
    json!({"type": "hexstr", "value": format!("{number:#x}")})
}

pub(crate) fn argument(index: u32) -> Value {
    json!({"type": "runtime_data", "value": index})
}

pub(crate) fn op(operator: &str, left: Value, right: Value) -> Value {
    json!({"type": "expression", "value": {"type": "expression",
        "value": {"op": operator, "left": left, "right": right}}})
}

pub(crate) fn call(name: &str, parameters: Value) -> Value {
    json!({"op": name, "parameters": parameters})
}

pub(crate) fn assign(to: Value, value: Value) -> Value {
    call("assign", json!([to, value]))
}

/// Sends the packet to a port.
pub(crate) fn send(port: u64) -> Value {
    assign(standard("egress_spec"), hex(port))
}

pub(crate) fn load(value: &Value) -> Arc<Program> {
    Arc::new(Program::from_json(&value.to_string()).unwrap_or_else(|error| panic!("{error}")))
}

/// A target with a clock.
pub(crate) struct Bed {
    pub(crate) target: Target,
    pub(crate) outbox: Outbox,
    pub(crate) now: Instant,
}

impl Bed {
    pub(crate) fn new(value: &Value) -> Bed {
        Bed::with(value, Config::default())
    }

    pub(crate) fn with(value: &Value, config: Config) -> Bed {
        let target = Target::new(load(value), config);
        Bed {
            target: target.expect("own entries"),
            outbox: Outbox::new(),
            now: Instant::ZERO,
        }
    }

    /// Runs a packet, and returns ports and bytes of what leaves.
    pub(crate) fn receive(&mut self, port: u32, bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.now = self.now + Duration::from_micros(1);
        self.outbox.clear();
        self.target.receive(port, bytes, self.now, &mut self.outbox);
        self.target.train();
        self.outbox
            .sent()
            .map(|sent| (sent.port, sent.bytes.to_vec()))
            .collect()
    }
}
