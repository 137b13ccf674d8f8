//! Random programs, cache on against cache off.
//!
//! A program has tables in ingress and egress with random keys over the packet and its
//! metadata. The metadata includes values of registers, meters and chance, so segments stop.
//! There are conditions between the tables, and actions of every kind, with jumps. Packets and
//! writes are random.

use crate::bed::*;
use crate::lab::{Chance, Twins};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};
use thalweg_p4::run::WORK_MAX;
use thalweg_p4::{CacheConfig, ClassifierKind, DropReason, EvictReason, Program};
use thalweg_workload::IS_OPTIMISED;

/// Number of programs in a run; `THALWEG_P4_PROGRAMS` asks for more.
const PROGRAMS: u64 = if IS_OPTIMISED { 120 } else { 30 };

fn scalar(name: &str) -> Value {
    field("scalars", name)
}

fn header(name: &str) -> Value {
    json!({"type": "header", "value": name})
}

/// Continues at `to` unless the condition holds.
fn unless(condition: Value, to: u64) -> Value {
    call("_jump_if_zero", json!([condition, hex(to)]))
}

fn is(left: Value, right: u64) -> Value {
    op("==", left, hex(right))
}

/// The field `a` of the header.
fn a() -> Value {
    field("h", "a")
}

fn b() -> Value {
    field("h", "b")
}

fn c() -> Value {
    field("h", "c")
}

fn d() -> Value {
    field("h", "d")
}

fn read(to: Value, index: Value) -> Value {
    let register = json!({"type": "register_array", "value": "register"});
    call("register_read", json!([to, register, index]))
}

fn write(index: Value, value: Value) -> Value {
    let register = json!({"type": "register_array", "value": "register"});
    call("register_write", json!([register, index, value]))
}

/// Actions of every kind; each has one parameter of 32 bits.
fn actions() -> Vec<(&'static str, Value)> {
    let mut all = actions_on_headers();
    all.extend(actions_on_state());
    all.extend(actions_with_jumps());
    all
}

/// Actions that change the packet or make a request.
fn actions_on_headers() -> Vec<(&'static str, Value)> {
    vec![
        (
            "rewrite",
            json!([
                assign(d(), argument(0)),
                assign(b(), op("&", op("-", b(), hex(1)), hex(0xff)))
            ]),
        ),
        (
            "grow",
            json!([
                call("add_header", json!([header("g")])),
                assign(field("g", "a"), a()),
                assign(field("g", "d"), argument(0))
            ]),
        ),
        (
            "copy",
            json!([call("assign_header", json!([header("g"), header("h")]))]),
        ),
        (
            "shrink",
            json!([call("remove_header", json!([header("g")]))]),
        ),
        (
            "wide",
            json!([
                assign(scalar("wide"), op("<<", c(), hex(150))),
                assign(scalar("x"), op(">>", scalar("wide"), hex(152)))
            ]),
        ),
        (
            "learn",
            json!([
                assign(scalar("x"), op("^", c(), argument(0))),
                call("generate_digest", json!([hex(1), hex(1)]))
            ]),
        ),
        (
            "clone",
            json!([call("clone_ingress_pkt_to_egress", json!([hex(1), hex(1)]))]),
        ),
        (
            "again",
            json!([
                unless(is(standard("instance_type"), 0), 3),
                assign(scalar("x"), argument(0)),
                call("resubmit", json!([hex(1)]))
            ]),
        ),
        ("group", json!([assign(standard("mcast_grp"), hex(1))])),
        ("cut", json!([call("truncate", json!([hex(9)]))])),
        (
            "drop",
            json!([call("mark_to_drop", json!([header("standard_metadata")]))]),
        ),
        (
            "send",
            json!([assign(standard("egress_spec"), argument(0))]),
        ),
        ("nothing", json!([])),
    ]
}

/// Actions that read or write more than the packet.
fn actions_on_state() -> Vec<(&'static str, Value)> {
    let meter = || json!({"type": "meter_array", "value": "meter"});
    let counter = || json!({"type": "counter_array", "value": "counter"});
    let low = op("&", scalar("x"), hex(0xff));
    let next = op("&", op("+", scalar("x"), hex(1)), hex(7));
    let first = || op("&", d(), hex(3));
    vec![
        (
            "read",
            json!([read(scalar("x"), first()), assign(scalar("y"), low)]),
        ),
        ("read_wide", json!([read(scalar("wide"), b())])),
        (
            "bump",
            json!([
                read(scalar("x"), first()),
                unless(op("<", scalar("x"), hex(3)), 3),
                assign(d(), op("+", d(), hex(1))),
                write(first(), next)
            ]),
        ),
        ("keep", json!([write(b(), op("+", c(), argument(0)))])),
        (
            "meter",
            json!([call(
                "execute_meter",
                json!([meter(), hex(1), scalar("color")])
            )]),
        ),
        (
            "meter_any",
            json!([call("execute_meter", json!([meter(), b(), a()]))]),
        ),
        (
            "chance",
            json!([call(
                "modify_field_rng_uniform",
                json!([scalar("y"), hex(0), hex(3)])
            )]),
        ),
        (
            "count",
            json!([
                call("count", json!([counter(), hex(2)])),
                call("count", json!([counter(), b()]))
            ]),
        ),
        (
            "leave_by_state",
            json!([
                read(scalar("x"), hex(0)),
                unless(is(scalar("x"), 2), 3),
                call("exit", json!([])),
                assign(scalar("y"), hex(3))
            ]),
        ),
        (
            "hash",
            json!([call(
                "modify_field_with_hash_based_offset",
                json!([scalar("y"), hex(0),
            {"type": "calculation", "value": "hash"}, hex(4)])
            )]),
        ),
    ]
}

/// Actions that end, or take one of several paths.
fn actions_with_jumps() -> Vec<(&'static str, Value)> {
    let counter = || json!({"type": "counter_array", "value": "counter"});
    vec![
        (
            "assert",
            json!([
                call("count", json!([counter(), hex(1)])),
                call("assert", json!([op("!=", a(), hex(9))])),
                call("count", json!([counter(), hex(3)]))
            ]),
        ),
        (
            "leave",
            json!([
                unless(is(b(), 2), 2),
                call("exit", json!([])),
                assign(scalar("y"), hex(2))
            ]),
        ),
        (
            "branch",
            json!([
                unless(op(">", c(), argument(0)), 3),
                assign(scalar("y"), hex(1)),
                call("_jump", json!([hex(4)])),
                assign(scalar("x"), c())
            ]),
        ),
        (
            "loop",
            json!([
                assign(scalar("y"), hex(0)),
                assign(
                    scalar("y"),
                    op("&", op("+", scalar("y"), hex(1)), hex(0xff))
                ),
                unless(op(">", scalar("y"), op("&", b(), hex(7))), 1)
            ]),
        ),
    ]
}

/// The program of a seed.
fn random_program(seed: u64) -> Value {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let all = actions();
    let list: Vec<Value> = all
        .iter()
        .enumerate()
        .map(|(id, (name, primitives))| {
            json!({"name": name, "id": id, "primitives": primitives,
                "runtime_data": [{"name": "n", "bitwidth": 32}]})
        })
        .collect();
    let mut pipelines = Vec::new();
    for (pipeline, count) in [("in", 5), ("out", 3)] {
        let nodes: Vec<String> = (0..count)
            .map(|index| format!("{pipeline}{index}"))
            .collect();
        let (mut tables, mut conditionals) = (Vec::new(), Vec::new());
        for (index, name) in nodes.iter().enumerate() {
            let after = |random: &mut Pcg64Mcg| match random.random_ratio(1, 8) {
                true => json!(null),
                // A later node, most often the next.
                false => json!(nodes.get(index + random.random_range(4..8) / 4)),
            };
            if index > 0 && random.random_ratio(1, 4) {
                conditionals.push(json!({"name": name, "id": index,
                    "expression": condition(&mut random),
                    "true_next": after(&mut random), "false_next": after(&mut random)}));
            } else {
                let next = [after(&mut random), after(&mut random)];
                tables.push(table(&mut random, name, index, next, &all));
            }
        }
        pipelines.push((tables, conditionals));
    }
    let (egress, ingress) = (pipelines.pop().expect("two"), pipelines.pop().expect("two"));
    let mut value = with_tables(json!(list), json!(ingress.0), json!(egress.0));
    value["pipelines"][0]["conditionals"] = json!(ingress.1);
    value["pipelines"][1]["conditionals"] = json!(egress.1);
    value["calculations"][0]["algo"] = json!("crc16_custom");
    let meters = value["meter_arrays"].as_array_mut().expect("an array");
    meters.push(
        json!({"name": "direct", "id": 1, "is_direct": true, "rate_count": 2,
        "type": "bytes", "binding": "in0", "result_target": ["scalars", "color"]}),
    );
    value
}

fn condition(random: &mut Pcg64Mcg) -> Value {
    let (a, c) = (field("h", "a"), field("h", "c"));
    let conditions = [
        is(op("&", op(">>", c.clone(), hex(4)), hex(0xf)), 1),
        op("and", op("<", a.clone(), hex(3)), op("!=", c, hex(0x102))),
        op("<", scalar("x"), hex(2)),
        is(scalar("y"), 1),
        is(scalar("color"), 0),
        op("or", is(scalar("color"), 2), op(">", a, scalar("y"))),
        op("==", field("g", "$valid$"), hex(1)),
    ];
    conditions.choose(random).expect("some").clone()
}

fn table(
    random: &mut Pcg64Mcg,
    name: &str,
    index: usize,
    next: [Value; 2],
    all: &[(&'static str, Value)],
) -> Value {
    let fields = [
        ("h", "a", "exact"),
        ("h", "b", "ternary"),
        ("h", "c", "lpm"),
        ("h", "c", "range"),
        ("h", "d", "ternary"),
        ("scalars", "y", "exact"),
        ("scalars", "x", "ternary"),
        ("scalars", "color", "exact"),
        ("g", "a", "ternary"),
        ("g", "$valid$", "exact"),
        ("standard_metadata", "ingress_port", "exact"),
        ("scalars", "wide", "ternary"),
    ];
    let mut key: Vec<Value> = Vec::new();
    let mut has_prefix = false;
    for number in 0..random.random_range(0..3) {
        let (header, field, kind) = fields.choose(random).expect("some");
        // A key has at most one prefix.
        let is_prefix = *kind == "lpm";
        if is_prefix && has_prefix {
            continue;
        }
        has_prefix |= is_prefix;
        key.push(json!({"match_type": kind, "name": format!("k{number}"),
            "target": [header, field], "mask": null}));
    }
    let ids: Vec<usize> = (0..6).map(|_| random.random_range(0..all.len())).collect();
    let names: Vec<&str> = ids.iter().map(|&id| all[id].0).collect();
    let by_outcome = random.random_ratio(1, 2);
    let mut next_tables = serde_json::Map::new();
    match by_outcome {
        true => {
            next_tables.insert("__HIT__".to_owned(), next[0].clone());
            next_tables.insert("__MISS__".to_owned(), next[1].clone());
        }
        false => {
            for (place, name) in names.iter().enumerate() {
                next_tables.insert((*name).to_owned(), next[place % 2].clone());
            }
        }
    }
    let profile = random.random_ratio(1, 4).then_some("profile");
    let is_direct = name == "in0" && !key.is_empty();
    json!({"name": name, "id": index + 50 * usize::from(name.starts_with("out")), "key": key,
        "match_type": "ternary", "max_size": 30, "action_profile": profile,
        "type": if profile.is_some() && !name.starts_with("out") { "indirect_ws" } else { "simple" },
        "with_counters": random.random_ratio(1, 2), "support_timeout": random.random_ratio(1, 4),
        "direct_meters": is_direct.then_some("direct"), "action_ids": ids, "actions": names,
        "base_default_next": next[0], "next_tables": next_tables,
        "default_entry": {"action_id": ids[0], "action_const": false, "action_data": ["0x1"],
            "action_entry_const": false}})
}

fn templates() -> Vec<(u32, Vec<u8>)> {
    let packet = |port, bytes: [u8; 8]| {
        let mut bytes = bytes.to_vec();
        bytes.extend([0xab; 8]);
        (port, bytes)
    };
    vec![
        packet(1, [1, 2, 0, 3, 0, 0, 0, 4]),
        packet(2, [0, 1, 1, 2, 0, 0, 0, 1]),
        packet(1, [2, 0, 0, 0x10, 0, 0, 1, 2]),
        packet(3, [3, 3, 0, 1, 0, 0, 0, 0]),
        packet(1, [9, 1, 0, 1, 0, 0, 0, 2]),
    ]
}

#[test]
fn random_programs_answer_the_same_with_a_cache() {
    let wanted = std::env::var("THALWEG_P4_PROGRAMS");
    let wanted = wanted.map_or(PROGRAMS, |wanted| wanted.parse().expect("a number"));
    let (mut loaded, mut hits, mut misses, mut visits, mut ended) = (0, 0, 0, 0, 0);
    let mut too_much = 0;
    let mut evictions = [0; EvictReason::ALL.len()];
    for seed in 0..wanted {
        let value = random_program(seed).to_string();
        let program = Program::from_json(&value).unwrap_or_else(|error| panic!("{seed}: {error}"));
        loaded += 1;
        let config = CacheConfig {
            segments: [3, 40, 10_000][seed as usize % 3],
            microflows: [0, 8, 512][seed as usize / 3 % 3],
            record_one_in: [1, 1, 3][seed as usize / 9 % 3],
            rests: false,
            classifier: ClassifierKind::ALL[seed as usize % ClassifierKind::ALL.len()],
        };
        // Some packets are too much work: some in a walk, some in a replay.
        let work_max = [WORK_MAX, WORK_MAX, 250 + 50 * (seed % 20)][seed as usize / 3 % 3];
        let mut twins = Twins::with_work(program, config, work_max);
        let mut chance = Chance::new(&mut twins, templates(), seed);
        for update in chance.members_and_groups() {
            twins.write(&[update], &format!("program {seed}"));
        }
        for step in 0..300 {
            let packet = chance.packet();
            twins.receive(&packet, &format!("program {seed}, step {step}"));
            if chance.random.random_ratio(1, 3) {
                let updates = chance.updates();
                let what = format!("program {seed}, step {step}, after {updates:?}");
                twins.write(&updates, &what);
                twins.check(&what);
            }
            if chance.random.random_ratio(1, 10) {
                twins.compare(&format!("program {seed}, step {step}"));
            }
        }
        twins.compare(&format!("program {seed}"));
        too_much += twins.cached.counts().drops(DropReason::TooMuchWork);
        let statistics = twins.cached.cache_statistics().expect("a cache");
        hits += statistics.exact_hits + statistics.masked_hits;
        misses += statistics.misses;
        visits += statistics.visits;
        ended += statistics.ended;
        for (sum, reason) in evictions.iter_mut().zip(EvictReason::ALL) {
            *sum += statistics.evictions(reason);
        }
    }
    println!(
        "{loaded} programs: {hits} hits, {misses} misses, {visits} visits, {ended} ended; {evictions:?}"
    );
    // Otherwise the test would prove less than it seems to.
    assert!(
        hits > misses && visits > 100 && ended > 0,
        "{hits} {misses} {visits} {ended}"
    );
    assert!(evictions.iter().all(|&count| count > 0), "{evictions:?}");
    assert!(too_much > 100, "{too_much} packets were too much work");
}

/// Wherever a walk of a random program stops, a stop point was reported.
#[test]
fn nothing_stops_where_it_was_not_told() {
    let (mut stopping, mut told) = (0, 0);
    for seed in 0..PROGRAMS {
        let value = random_program(seed).to_string();
        let program = Program::from_json(&value).unwrap_or_else(|error| panic!("{seed}: {error}"));
        let stops = thalweg_p4::cache::traversal::stop_points(&program);
        let mut twins = Twins::new(
            program,
            CacheConfig {
                record_one_in: 1,
                ..CacheConfig::default()
            },
        );
        let mut chance = Chance::new(&mut twins, templates(), seed);
        for _ in 0..60 {
            twins.receive(&chance.packet(), "a packet");
            let updates = chance.updates();
            twins.write(&updates, "a write");
        }
        let statistics = twins.cached.cache_statistics().expect("a cache");
        // There is a start per pipeline, and one for each place where a segment stopped.
        let has_stopped = statistics.starts > 2 || statistics.visits > 0;
        stopping += u32::from(has_stopped);
        told += u32::from(!stops.is_empty());
        assert!(
            !has_stopped || !stops.is_empty(),
            "program {seed}: {statistics:?}"
        );
    }
    assert!(stopping > 5 && told >= stopping, "{stopping} of {told}");
}
