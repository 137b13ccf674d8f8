//! Adds the cache to a program: header, registers, hashes, digest, actions, tables, conditions.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::program::Program;
use crate::program::ids::NodeId;

use super::node::{assign, call, expression, hex, inner, ours};
use super::plan::{CacheAction, EPOCH_BITS, FieldPart, INDEX_BITS, Plan};
use super::{PREFIX, plan, recount, state};

/// Counters in a detector row, and the bits of one counter.
const ROW: u64 = 1 << 16;
const COUNTER_BITS: u32 = 16;

fn name(what: &str) -> String {
    format!("{PREFIX}.{what}")
}

/// Adds everything.
pub(super) fn build(program: &Program, plan: &Plan, json: &mut Value) {
    add_header(program, plan, json);
    for row in 0..2 {
        let id = next_id(&json["register_arrays"]);
        push(
            json,
            "register_arrays",
            json!({"name": name(&format!("row_{row}")), "id": id,
            "bitwidth": COUNTER_BITS, "size": ROW}),
        );
    }
    let id = next_id(&json["register_arrays"]);
    push(
        json,
        "register_arrays",
        json!({"name": name("threshold"), "id": id,
        "bitwidth": COUNTER_BITS, "size": 1}),
    );
    for (row, algorithm) in ["crc16", "crc32"].iter().enumerate() {
        let id = next_id(&json["calculations"]);
        let input: Vec<Value> = key_values(plan);
        push(
            json,
            "calculations",
            json!({"name": name(&format!("hash_{row}")), "id": id,
            "algo": algorithm, "input": input}),
        );
    }
    let list = next_id(&json["learn_lists"]).max(1);
    push(
        json,
        "learn_lists",
        json!({"id": list, "name": name("report"),
        "elements": report_values(plan)}),
    );
    let first = next_id(&json["actions"]);
    for action in actions(program, plan, list, first) {
        push(json, "actions", action);
    }
    rewire(program, plan, json, first);
}

fn push(json: &mut Value, key: &str, value: Value) {
    if !json[key].is_array() {
        json[key] = json!([]);
    }
    if let Some(list) = json[key].as_array_mut() {
        list.push(value);
    }
}

fn next_id(list: &Value) -> u64 {
    let all = list.as_array().map_or(&[][..], Vec::as_slice);
    let ids = all.iter().filter_map(|one| one["id"].as_u64());
    ids.max().map_or(0, |id| id + 1)
}

fn add_header(program: &Program, plan: &Plan, json: &mut Value) {
    let mut fields = vec![("epoch".to_owned(), EPOCH_BITS), ("stop".to_owned(), 1)];
    for field in ["h_0", "h_1", "c_0", "c_1", "threshold"] {
        fields.push((field.to_owned(), COUNTER_BITS));
    }
    for (place, part) in plan.key.iter().enumerate() {
        if part.is_copied {
            fields.push((format!("in_{place}"), part.width_bits));
        }
    }
    for (place, output) in plan.outputs.iter().enumerate() {
        if output.is_flagged {
            fields.push((format!("w_{place}"), 1));
        }
    }
    for place in 0..plan.counts.len() {
        fields.push((format!("did_{place}"), 1));
        fields.push((format!("at_{place}"), INDEX_BITS));
    }
    fields.extend(state::fields(program, plan));
    fields.extend(recount::fields(plan));
    let bits: u32 = fields.iter().map(|field| field.1).sum();
    if !bits.is_multiple_of(8) {
        fields.push(("_padding".to_owned(), 8 - bits % 8));
    }
    let fields: Vec<Value> = fields
        .into_iter()
        .map(|(name, bits)| json!([name, bits, false]))
        .collect();
    let id = next_id(&json["header_types"]);
    let kind = format!("{PREFIX}_t");
    push(
        json,
        "header_types",
        json!({"name": kind, "id": id, "fields": fields}),
    );
    let id = next_id(&json["headers"]);
    push(
        json,
        "headers",
        json!({"name": PREFIX, "id": id, "header_type": kind,
        "metadata": true, "pi_omit": true}),
    );
}

fn field(header: &str, field: &str) -> Value {
    json!({"type": "field", "value": [header, field]})
}

/// A part of the key with its value from when ingress began.
fn key_value(place: usize, part: &FieldPart) -> Value {
    match part.is_copied {
        true => ours(&format!("in_{place}")),
        false => field(&part.header, &part.field),
    }
}

fn key_values(plan: &Plan) -> Vec<Value> {
    let parts = plan.key.iter().enumerate();
    parts.map(|(place, part)| key_value(place, part)).collect()
}

/// The contents of a report, in the order of [`Plan::report_bits`].
fn report_values(plan: &Plan) -> Vec<Value> {
    let mut values = vec![ours("epoch")];
    values.extend(key_values(plan));
    for (place, output) in plan.outputs.iter().enumerate() {
        values.push(field(&output.header, &output.field));
        if output.is_flagged {
            values.push(ours(&format!("w_{place}")));
        }
    }
    for place in 0..plan.counts.len() {
        values.push(ours(&format!("did_{place}")));
        values.push(ours(&format!("at_{place}")));
    }
    values.extend(plan.state_widths().iter().map(|(name, _)| ours(name)));
    for (header, _) in &plan.headers {
        values.push(field(header, "$valid$"));
    }
    values
}

/// The added actions in the order of their ids.
///
/// They are begin, miss, count, report, stop, the compound ones, and those that look tables up
/// again.
fn actions(program: &Program, plan: &Plan, list: u64, first: u64) -> Vec<Value> {
    let epoch = json!([{"name": "epoch", "bitwidth": EPOCH_BITS}]);
    let mut begin = vec![assign(
        ours("epoch"),
        json!({"type": "runtime_data", "value": 0}),
    )];
    for (place, part) in plan.key.iter().enumerate() {
        if part.is_copied {
            let from = field(&part.header, &part.field);
            begin.push(assign(ours(&format!("in_{place}")), from));
        }
    }
    state::derive(program, plan, &mut begin);
    let mut count = Vec::new();
    let mut report = Vec::new();
    for row in 0..2 {
        let array = json!({"type": "register_array", "value": name(&format!("row_{row}"))});
        let place = ours(&format!("h_{row}"));
        let counter = ours(&format!("c_{row}"));
        let hash = json!({"type": "calculation", "value": name(&format!("hash_{row}"))});
        let parameters = json!([place, hex(0), hash, hex(ROW)]);
        count.push(call("modify_field_with_hash_based_offset", parameters));
        count.push(call("register_read", json!([counter, array, place])));
        let more = inner(json!({"op": "+", "left": counter, "right": hex(1)}));
        let width = hex(COUNTER_BITS.into());
        let full = expression(json!({"op": "usat_cast", "left": more, "right": width}));
        count.push(assign(counter.clone(), full));
        count.push(call("register_write", json!([array, place, counter])));
        report.push(call("register_write", json!([array, place, hex(0)])));
    }
    let threshold = json!({"type": "register_array", "value": name("threshold")});
    let parameters = json!([ours("threshold"), threshold, hex(0)]);
    count.push(call("register_read", parameters));
    report.push(call("generate_digest", json!([hex(1), hex(list)])));
    let stop = json!([assign(ours("stop"), hex(1))]);
    let none = json!([]);
    let mut all = vec![
        (name("begin"), epoch, json!(begin)),
        (name("miss"), none.clone(), json!([])),
        (name("count"), none.clone(), json!(count)),
        (name("report"), none.clone(), json!(report)),
        (name("stop"), none, stop),
    ];
    for action in &plan.actions {
        let (data, primitives) = compound(plan, action);
        all.push((action.name.clone(), data, primitives));
    }
    for (what, primitives) in recount::actions(plan) {
        all.push((name(&what), json!([]), json!(primitives)));
    }
    let numbered = all.into_iter().zip(first..);
    let action = |((name, data, primitives), id): ((String, Value, Value), u64)| json!({"name": name, "id": id, "runtime_data": data, "primitives": primitives});
    numbered.map(action).collect()
}

/// A compound action: headers added and removed, outputs, counts.
fn compound(plan: &Plan, action: &CacheAction) -> (Value, Value) {
    let widths = plan.data_widths(action);
    let data: Vec<Value> = widths
        .iter()
        .map(|(name, bits)| json!({"name": name, "bitwidth": bits}))
        .collect();
    let place = |name: &str| widths.iter().position(|one| one.0 == name).unwrap_or(0);
    let mut primitives = Vec::new();
    for ((header, _), way) in plan.headers.iter().zip(&action.headers) {
        let header = json!([{"type": "header", "value": header}]);
        match way {
            Some(true) => primitives.push(call("add_header", header)),
            Some(false) => primitives.push(call("remove_header", header)),
            None => {}
        }
    }
    for (index, output) in plan.outputs.iter().enumerate() {
        let to = field(&output.header, &output.field);
        let value = place(&plan::value_name(index));
        let value = match output.is_flagged {
            false => json!({"type": "runtime_data", "value": value}),
            true => {
                let flag = json!({"type": "local", "value": place(&plan::flag_name(index))});
                let is_set = inner(json!({"op": "==", "left": flag, "right": hex(1)}));
                expression(json!({"op": "?", "left": {"type": "local", "value": value},
                    "right": to, "cond": is_set}))
            }
        };
        primitives.push(assign(to, value));
    }
    for &count in &action.counts {
        let array = json!({"type": "counter_array", "value": plan.counts[count].array});
        let index = place(&plan::index_name(count));
        let index = json!({"type": "runtime_data", "value": index});
        primitives.push(call("count", json!([array, index])));
    }
    state::replay(plan, place, &mut primitives);
    recount::prepare(plan, place, &mut primitives);
    (json!(data), json!(primitives))
}

/// A table of ours; a table without a key runs one action.
fn table(what: &str, id: u64, key: Value, actions: &[(u64, String)], next: Value) -> Value {
    let (ids, names): (Vec<u64>, Vec<String>) = actions.iter().cloned().unzip();
    json!({"name": name(what), "id": id, "key": key, "match_type": "exact", "type": "simple",
        "max_size": 1, "with_counters": false, "support_timeout": false, "direct_meters": null,
        "action_ids": ids, "actions": names, "base_default_next": next, "next_tables": {},
        "default_entry": {"action_id": ids[0], "action_const": true, "action_data": [],
            "action_entry_const": true}})
}

/// Redirects ingress through the added nodes.
fn rewire(program: &Program, plan: &Plan, json: &mut Value, first_action: u64) {
    let lists = json["pipelines"].as_array().cloned().unwrap_or_default();
    let next = |key: &str| {
        let ids = lists.iter().map(|pipeline| next_id(&pipeline[key]));
        ids.max().unwrap_or(0)
    };
    let (first_table, first_condition) = (next("tables"), next("conditionals"));
    let Some(ingress) = json["pipelines"].as_array_mut().and_then(|pipelines| {
        let mut named = pipelines.iter_mut();
        named.find(|pipeline| pipeline["name"] == "ingress")
    }) else {
        return;
    };
    for_each_node(ingress, end_at_detector);
    let mut ids = first_table + 4..;
    let mut added = Vec::new();
    let mut add = |what: &str, action: (u64, String), next: &Value| {
        let id = ids.next().unwrap_or_default();
        added.push(fixed(table(what, id, json!([]), &[action], next.clone())));
    };
    let stop = || (first_action + 4, name("stop"));
    let mut start = ingress["init_table"].clone();
    let node_name = |node: &NodeId| &program.control.nodes[node.index()].name;
    // First the tables before a node, then those behind it, so that no path skips the former.
    for (index, node) in plan.node_stops.iter().enumerate() {
        let what = format!("stop_{index}");
        lead_through(ingress, &mut start, node_name(node), &name(&what));
        add(&what, stop(), &json!(node_name(node)));
    }
    let first_recount = first_action + 5 + plan.actions.len() as u64;
    let recounts = recount::actions(plan).into_iter().zip(first_recount..);
    let recounts: BTreeMap<String, u64> = recounts.map(|((what, _), id)| (what, id)).collect();
    let call = |what: &str| (recounts[what], name(what));
    for (number, recount) in plan.recounts.iter().enumerate() {
        let [note, put] = ["note", "put"].map(|kind| format!("{kind}_{number}"));
        lead_through(ingress, &mut start, &recount.table, &name(&note));
        add(&note, call(&note), &json!(recount.table));
        add(&put, call(&put), &json!(recount.table));
    }
    for (number, recount) in plan.recounts.iter().enumerate() {
        let hit = format!("hit_{number}");
        let did = name(&format!("did_again_{number}"));
        add(
            &hit,
            call(&hit),
            &divert_hits(ingress, &recount.table, &did),
        );
    }
    if !plan.recounts.is_empty() {
        add("finish", call("finish"), &Value::Null);
    }
    for (index, node) in plan.hit_stops.iter().enumerate() {
        let what = format!("hit_stop_{index}");
        let next = divert_hits(ingress, node_name(node), &name(&what));
        add(&what, stop(), &next);
    }
    let mut own = own_tables(plan, &start, first_table, first_action);
    own.append(&mut added);
    push_all(ingress, "tables", own);
    push_all(
        ingress,
        "conditionals",
        own_conditions(plan, first_condition),
    );
    ingress["init_table"] = json!(name("begin"));
}

/// Redirects every edge to `node` to go to `by` first.
fn lead_through(ingress: &mut Value, start: &mut Value, node: &str, by: &str) {
    for_each_node(ingress, |one| redirect(one, node, by));
    if start.as_str() == Some(node) {
        *start = json!(by);
    }
}

/// Redirects what follows a hit of `table` to `to`, and returns where it led before.
fn divert_hits(ingress: &mut Value, table: &str, to: &str) -> Value {
    let mut next = Value::Null;
    for_each_node(ingress, |node| {
        if node["name"] == table {
            next = recount::divert_hits(node, to);
        }
    });
    next
}

fn for_each_node(pipeline: &mut Value, mut change: impl FnMut(&mut Value)) {
    for key in ["tables", "conditionals", "action_calls"] {
        if let Some(nodes) = pipeline.get_mut(key).and_then(Value::as_array_mut) {
            nodes.iter_mut().for_each(&mut change);
        }
    }
}

/// The tables begin, cache, count and report.
fn own_tables(plan: &Plan, start: &Value, first_table: u64, first_action: u64) -> Vec<Value> {
    let keyless = |what: &str, place: u64, action: u64, next: Value| {
        let action = [(first_action + action, name(what))];
        table(what, first_table + place, json!([]), &action, next)
    };
    let mut begin = fixed(keyless("begin", 0, 0, json!(name("cache"))));
    begin["default_entry"] = json!({"action_id": first_action, "action_const": false,
        "action_data": ["0x0"], "action_entry_const": false});
    vec![
        begin,
        cache_table(plan, first_table + 1, first_action, start),
        fixed(keyless("count", 2, 2, json!(name("hot")))),
        fixed(keyless("report", 3, 3, Value::Null)),
    ]
}

/// The conditions: whether the whole path can be remembered, and whether it is hot.
fn own_conditions(plan: &Plan, first: u64) -> Vec<Value> {
    let whole = json!({"op": "==", "left": ours("stop"), "right": hex(0)});
    let above = |row: u32| {
        let counter = ours(&format!("c_{row}"));
        inner(json!({"op": ">", "left": counter, "right": ours("threshold")}))
    };
    let hot = json!({"op": "and", "left": above(0), "right": above(1)});
    let mut conditions = vec![
        ("whole".to_owned(), inner(whole), name("count"), Value::Null),
        ("hot".to_owned(), inner(hot), name("report"), Value::Null),
    ];
    let again = recount::conditions(plan).into_iter();
    conditions.extend(again.map(|(what, is, yes, no)| (what, is, name(&yes), json!(name(&no)))));
    let conditions = conditions.into_iter().zip(first..);
    let conditions = conditions.map(|((what, value, yes, no), id)| {
        json!({"name": name(&what), "id": id, "expression": value,
            "true_next": yes, "false_next": no})
    });
    conditions.collect()
}

fn push_all(pipeline: &mut Value, key: &str, more: Vec<Value>) {
    for one in more {
        push(pipeline, key, one);
    }
}

/// Sets the successor of the one action of a table without a key.
fn fixed(mut table: Value) -> Value {
    let action = table["actions"][0].as_str().unwrap_or_default().to_owned();
    table["next_tables"] = json!({action: table["base_default_next"].clone()});
    table
}

fn cache_table(plan: &Plan, id: u64, first_action: u64, start: &Value) -> Value {
    let mut actions = vec![(first_action + 1, name("miss"))];
    for (index, action) in plan.actions.iter().enumerate() {
        actions.push((first_action + 5 + index as u64, action.name.clone()));
    }
    let key: Vec<Value> = plan
        .key
        .iter()
        .map(|part| {
            json!({"match_type": "exact", "name": part.name(), "mask": null,
                "target": [part.header, part.field]})
        })
        .collect();
    let mut cache = table("cache", id, json!(key), &actions, start.clone());
    let hit = match plan.recounts.is_empty() {
        true => Value::Null,
        false => json!(name("again_0")),
    };
    cache["next_tables"] = json!({"__HIT__": hit, "__MISS__": start});
    cache["max_size"] = json!(plan.entries);
    cache
}

/// The edges of a node.
fn edges(node: &mut Value) -> Vec<&mut Value> {
    let Some(node) = node.as_object_mut() else {
        return Vec::new();
    };
    let is_table = node.contains_key("next_tables");
    let is_condition = node.contains_key("expression");
    for (is_one, keys) in [
        (is_table, &["base_default_next"][..]),
        (is_condition, &["true_next", "false_next"]),
        (!is_table && !is_condition, &["next_node"]),
    ] {
        for key in keys.iter().filter(|_| is_one) {
            node.entry(*key).or_insert(Value::Null);
        }
    }
    let mut edges = Vec::new();
    for (key, value) in node {
        match key.as_str() {
            "base_default_next" | "true_next" | "false_next" | "next_node" => edges.push(value),
            "next_tables" => {
                let ways = value.as_object_mut().into_iter();
                edges.extend(ways.flat_map(|ways| ways.values_mut()));
            }
            _ => {}
        }
    }
    edges
}

fn end_at_detector(node: &mut Value) {
    for edge in edges(node) {
        if edge.is_null() {
            *edge = json!(name("whole"));
        }
    }
}

fn redirect(node: &mut Value, from: &str, to: &str) {
    for edge in edges(node) {
        if edge.as_str() == Some(from) {
            *edge = json!(to);
        }
    }
}
