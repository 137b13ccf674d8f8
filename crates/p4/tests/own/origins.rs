//! Small programs in which one thing decides a packet's walk, cache on against cache off.
//!
//! They cover dependencies that random programs meet too rarely. Together with the random
//! programs and p4c's vectors, they were tested by breaking 56 lines of the traversal cache,
//! one at a time. Bits or sources were left out of a mask, generations ignored, changes made to
//! evict nothing; effects, operations, orders, counts, times and bytes were forgotten. The
//! tests notice 55 of them. The other one makes a segment end before a node that steers by a
//! value it wrote itself; it costs a segment and changes no packet.

use crate::bed::*;
use crate::lab::Twins;
use serde_json::{Value, json};
use thalweg_p4::commands;
use thalweg_p4::program::ids::TableId;
use thalweg_p4::state::{MeterRates, Rate, Update};
use thalweg_p4::{CacheConfig, CacheStatistics, Program};

/// A table: its key, its actions by name and number with the default first, and its successor.
fn table(
    (name, id): (&str, u32),
    key: &[(&str, &str, &str)],
    actions: &[(&str, u32)],
    next: Option<&str>,
) -> Value {
    let key: Vec<Value> = key
        .iter()
        .map(|(header, field, kind)| {
            json!({"match_type": kind, "name": field, "target": [header, field], "mask": null})
        })
        .collect();
    let names: Vec<&str> = actions.iter().map(|(name, _)| *name).collect();
    let ids: Vec<u32> = actions.iter().map(|(_, id)| *id).collect();
    let after: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| ((*name).to_owned(), json!(next)))
        .collect();
    let data = if actions[0].0 == "send" {
        json!(["0x1ff"])
    } else {
        json!([])
    };
    json!({"name": name, "id": id, "key": key, "match_type": "ternary", "type": "simple",
        "max_size": 30, "with_counters": false, "support_timeout": false, "direct_meters": null,
        "action_ids": ids, "actions": names, "base_default_next": next, "next_tables": after,
        "default_entry": {"action_id": ids[0], "action_const": false, "action_data": data,
            "action_entry_const": false}})
}

/// The actions: `send(port)` is 0, `nothing` 1, the program's own 2.
fn actions(own: Value) -> Value {
    json!([
        {"name": "send", "id": 0, "primitives": [assign(standard("egress_spec"), argument(0))],
            "runtime_data": [{"name": "port", "bitwidth": 9}]},
        {"name": "nothing", "id": 1, "primitives": [], "runtime_data": []},
        {"name": "own", "id": 2, "primitives": own, "runtime_data": []},
    ])
}

const SEND: (&str, u32) = ("send", 0);
const NOTHING: (&str, u32) = ("nothing", 1);
const OWN: (&str, u32) = ("own", 2);

fn egress() -> Value {
    json!([table(("leave", 20), &[], &[NOTHING], None)])
}

/// Packets of 24 bytes, one for each combination of the numbers 0 to 3 at the two given
/// offsets.
fn packets(first: usize, second: usize) -> Vec<(u32, Vec<u8>)> {
    let mut all = Vec::new();
    for number in 0..16_u8 {
        let mut bytes = vec![0; 24];
        bytes[first] = number / 4;
        bytes[second] = number % 4;
        all.push((1, bytes));
    }
    all
}

/// Gives both targets all packets three times, each time in another order.
fn play(
    value: &Value,
    entries: &str,
    more: impl Fn(&Program) -> Vec<Update>,
    packets: &[(u32, Vec<u8>)],
) -> CacheStatistics {
    let program = Program::from_json(&value.to_string()).unwrap_or_else(|error| panic!("{error}"));
    let config = CacheConfig {
        record_one_in: 1,
        ..CacheConfig::default()
    };
    let mut twins = Twins::new(program, config);
    let commands = commands::parse(entries, &twins.program).expect("commands");
    let mut updates: Vec<Update> = commands.into_iter().map(|one| one.update).collect();
    updates.extend(more(&twins.program));
    assert!(twins.write(&updates, "entries"));
    for step in [5, 7, 11] {
        for place in 0..packets.len() {
            twins.receive(&packets[place * step % packets.len()], "a packet");
        }
    }
    twins.check("at the end");
    twins.compare("at the end");
    let sent = twins.plain.counts().sent;
    assert!(sent > 0, "the packets are to go somewhere");
    twins.cached.cache_statistics().expect("a cache").clone()
}

fn no_more(_: &Program) -> Vec<Update> {
    Vec::new()
}

/// x is computed from b and d; one table looks up x alone, one after a lookup of b.
#[test]
fn what_is_computed_of_two_fields_depends_on_both() {
    let x = op("&", op("^", field("h", "b"), field("h", "d")), hex(0xff));
    let own = json!([assign(field("scalars", "x"), x)]);
    let entries = "table_add pick send 0&&&0xff => 2 9\ntable_add pick send 1&&&0xff => 3 9\n\
                   table_add pick send 2&&&3 => 4 9\n";
    for asks_first in [false, true] {
        let key: &[_] = if asks_first {
            &[("h", "b", "exact")]
        } else {
            &[]
        };
        let ingress = json!([
            table(("first", 10), key, &[OWN], Some("pick")),
            table(("pick", 11), &[("scalars", "x", "ternary")], &[SEND], None),
        ]);
        let value = with_tables(actions(own.clone()), ingress, egress());
        let entry = "table_add first own 0 =>\ntable_add first own 1 =>\n";
        let entries = format!("{}{entries}", if asks_first { entry } else { "" });
        // The last byte of d, and b.
        let statistics = play(&value, &entries, no_more, &packets(7, 1));
        assert!(statistics.exact_hits > 32, "{statistics:?}");
        assert_eq!(statistics.visits, 0, "both fields are in the key");
    }
}

/// A color from an entry's meter is no function of a packet's key.
#[test]
fn the_color_of_an_entry_is_of_the_moment() {
    let mut first = table(
        ("first", 10),
        &[("h", "a", "exact")],
        &[NOTHING],
        Some("pick"),
    );
    first["direct_meters"] = json!("direct");
    let pick = table(
        ("pick", 11),
        &[("scalars", "color", "exact")],
        &[SEND],
        None,
    );
    let mut value = with_tables(actions(json!([])), json!([first, pick]), egress());
    value["meter_arrays"]
        .as_array_mut()
        .expect("an array")
        .push(
            json!({"name": "direct", "id": 1, "is_direct": true, "rate_count": 2, "type": "packets",
            "binding": "first", "result_target": ["scalars", "color"]}),
        );
    let entries = "table_add first nothing 0 =>\ntable_add first nothing 1 =>\n\
                   table_add pick send 0 => 2\ntable_add pick send 1 => 3\n\
                   table_add pick send 2 => 4\n";
    let rates = |program: &Program| {
        let first = program
            .tables
            .iter()
            .position(|table| table.name == "first");
        let id = TableId(first.expect("it is there") as u32);
        let commands = commands::parse(entries, program).expect("commands");
        let metered = commands.into_iter().filter_map(|one| match one.update {
            Update::InsertEntry(table, entry) if table == id => {
                let rate = |burst| Rate {
                    per_second: 1,
                    burst,
                };
                let rates = MeterRates {
                    committed: rate(3),
                    peak: rate(6),
                };
                Some(Update::SetEntryMeter(
                    table,
                    entry.matches,
                    entry.priority,
                    Some(rates),
                ))
            }
            _ => None,
        });
        metered.collect()
    };
    let statistics = play(&value, entries, rates, &packets(0, 5));
    assert!(
        statistics.exact_hits + statistics.masked_hits > 32,
        "{statistics:?}"
    );
}

/// A value copied to a narrower field is truncated for each packet.
#[test]
fn a_copy_to_a_narrower_field_is_cut() {
    let own = json!([assign(field("h", "b"), field("h", "c")), send(2)]);
    let ingress = json!([table(("first", 10), &[], &[OWN], None)]);
    let value = with_tables(actions(own), ingress, egress());
    // Both bytes of c.
    let statistics = play(&value, "", no_more, &packets(2, 3));
    assert!(statistics.exact_hits > 32, "{statistics:?}");
}

/// The packet chooses which of two elements is written; the other keeps its value.
#[test]
fn an_element_that_may_be_written_may_be_what_it_was() {
    let stack = json!({"type": "header_stack", "value": "s"});
    let chosen = op("dereference_header_stack", stack, field("h", "b"));
    let chosen = op("access_field", chosen, json!(0));
    let header = |name: &str| json!({"type": "header", "value": name});
    let own = json!([
        call("add_header", json!([header("s[0]")])),
        call("add_header", json!([header("s[1]")])),
        assign(field("s[0]", "a"), field("h", "a")),
        assign(field("s[1]", "a"), field("h", "a")),
        assign(chosen, hex(7)),
    ]);
    let ingress = json!([
        table(("first", 10), &[], &[OWN], Some("pick")),
        table(("pick", 11), &[("s[0]", "a", "exact")], &[SEND], None),
    ]);
    let mut value = with_tables(actions(own), ingress, egress());
    let headers = value["headers"].as_array_mut().expect("an array");
    for (id, name) in [(5, "s[0]"), (6, "s[1]")] {
        headers.push(json!({"name": name, "id": id, "header_type": "h_t", "metadata": false}));
    }
    value["header_stacks"] = json!([{"name": "s", "id": 0, "header_type": "h_t", "size": 2,
        "header_ids": [5, 6]}]);
    value["deparsers"][0]["order"] = json!(["h", "s[0]", "s[1]"]);
    let entries = "table_add pick send 7 => 2\ntable_add pick send 1 => 3\n\
                   table_add pick send 2 => 4\n";
    // a, and b: 2 and 3 are past the end.
    let statistics = play(&value, entries, no_more, &packets(0, 1));
    assert!(statistics.exact_hits > 16, "{statistics:?}");
}
