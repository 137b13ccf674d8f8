//! The behaviour cache (B-Cache) against no cache: the same packets, digests and state under
//! any writes.
//!
//! Also tests the cache with late and with many reports.

use std::time::Duration;

use num_bigint::BigUint;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};
use thalweg_p4::cache::behavior::{BehaviorConfig, Unfit};
use thalweg_p4::program::ids::{ActionId, CounterId, MeterId, ProfileId, RegisterId, TableId};
use thalweg_p4::program::table::Match;
use thalweg_p4::run::WORK_MAX;
use thalweg_p4::state::{
    ActionCall, EntryAction, MeterRates, Mirror, Mode, Rate, Replica, TableEntry, Update,
};
use thalweg_p4::{Config, DropReason, Outbox, Target};
use thalweg_packet::Instant;

use crate::bed::{argument, assign, call, field, hex, load, op, standard, with_tables};

fn header(name: &str) -> Value {
    json!({"type": "header", "value": name})
}

fn array(kind: &str, name: &str) -> Value {
    json!({"type": format!("{kind}_array"), "value": name})
}

fn next_of(name: &str) -> Value {
    op("&", op("+", field("scalars", name), hex(1)), hex(3))
}

fn read(to: &str, index: Value) -> Value {
    let parameters = json!([field("scalars", to), array("register", "register"), index]);
    call("register_read", parameters)
}

fn write(index: Value, value: Value) -> Value {
    let parameters = json!([array("register", "register"), index, value]);
    call("register_write", parameters)
}

fn hash() -> Value {
    let parameters = json!([field("scalars", "x"), hex(0),
        {"type": "calculation", "value": "hash"}, hex(4)]);
    call("modify_field_with_hash_based_offset", parameters)
}

/// Reads a cell into `y` at the index that `steps` compute, and writes the next state.
fn machine(steps: Value, index: &str) -> Value {
    let mut steps = steps.as_array().cloned().expect("a list");
    let index = || field("scalars", index);
    steps.push(read("y", index()));
    steps.push(assign(field("scalars", "y"), next_of("y")));
    steps.push(write(index(), field("scalars", "y")));
    json!(steps)
}

/// Actions of every kind; the widths of their parameters are in [`PARAMETERS`].
// In place of one match, one list with a body for each kind of action.
fn actions() -> Value {
    let cell = || op("&", field("h", "b"), hex(3));
    let less = op("&", op("+", field("h", "a"), hex(255)), hex(255));
    let is_new = op("==", standard("instance_type"), hex(0));
    let bodies = [
        json!([]),
        json!([assign(field("scalars", "x"), argument(0))]),
        json!([call("mark_to_drop", json!([header("standard_metadata")]))]),
        json!([assign(standard("egress_spec"), argument(0))]),
        json!([assign(field("h", "a"), less)]),
        // Writes `c`, which is in no key, on one path and not on the other.
        json!([
            call(
                "_jump_if_zero",
                json!([op("==", field("h", "b"), hex(1)), hex(2)])
            ),
            assign(field("h", "c"), argument(0)),
            assign(field("scalars", "x"), hex(9)),
        ]),
        json!([call(
            "count",
            json!([array("counter", "counter"), argument(0)])
        )]),
        // A machine of four states for each value of `b`.
        json!([read("y", cell()), write(cell(), next_of("y"))]),
        json!([
            call("add_header", json!([header("g")])),
            assign(field("g", "d"), field("h", "d")),
        ]),
        json!([call("generate_digest", json!([hex(1), hex(1)]))]),
        // Only originals are cloned, so that cloning ends.
        json!([
            call("_jump_if_zero", json!([is_new.clone(), hex(2)])),
            call("clone_ingress_pkt_to_egress", json!([hex(5), hex(1)])),
        ]),
        json!([call(
            "execute_meter",
            json!([array("meter", "meter"), hex(0), field("scalars", "color")])
        )]),
        json!([call("exit", json!([]))]),
        json!([hash()]),
        json!([call("remove_header", json!([header("g")]))]),
        json!([
            call("_jump_if_zero", json!([is_new, hex(2)])),
            call("resubmit", json!([hex(1)])),
        ]),
        json!([assign(standard("mcast_grp"), argument(0))]),
        json!([call("truncate", json!([hex(6)]))]),
        json!([call("assign_header", json!([header("h"), header("g")]))]),
        // For 2 and 3, past the end of the array: a fault.
        json!([call(
            "count",
            json!([
                array("counter", "counter"),
                op("*", field("h", "b"), hex(2))
            ])
        )]),
        // Machines whose cell is located by a copy, a hash or another cell, on one path, in a
        // loop, or by a hash of a written value. The last one's cell is given by no key.
        machine(json!([assign(field("scalars", "x"), cell())]), "x"),
        machine(json!([hash()]), "x"),
        machine(
            json!([
                read("y", cell()),
                assign(
                    field("scalars", "x"),
                    op("&", field("scalars", "y"), hex(3))
                )
            ]),
            "x",
        ),
        json!([
            call(
                "_jump_if_zero",
                json!([op("==", field("h", "b"), hex(1)), hex(4)])
            ),
            assign(field("scalars", "x"), cell()),
            read("y", field("scalars", "x")),
            write(field("scalars", "x"), next_of("y")),
            assign(field("scalars", "color"), hex(1)),
        ]),
        json!([
            assign(field("scalars", "color"), hex(0)),
            assign(
                field("scalars", "color"),
                op("&", op("+", field("scalars", "color"), hex(1)), hex(3))
            ),
            read("y", cell()),
            write(cell(), next_of("y")),
            call(
                "_jump_if_zero",
                json!([op(">", field("scalars", "color"), hex(1)), hex(1)])
            ),
        ]),
        machine(json!([assign(field("h", "d"), cell()), hash()]), "x"),
        machine(json!([]), "x"),
    ];
    let actions = bodies.into_iter().enumerate().map(|(id, primitives)| {
        let data: Vec<Value> = PARAMETERS[id]
            .iter()
            .map(|width| json!({"name": "p", "bitwidth": width}))
            .collect();
        json!({"name": format!("a{id}"), "id": id, "runtime_data": data,
            "primitives": primitives})
    });
    actions.collect()
}

/// Actions that only write fields.
const PLAIN_ACTIONS: [u32; 7] = [0, 1, 2, 3, 4, 5, 13];
/// The first of the actions that are only machines.
const FIRST_MACHINE: u32 = 20;
pub(crate) const ACTIONS: u32 = 27;
const PARAMETERS: [&[u32]; ACTIONS as usize] = [
    &[],
    &[32],
    &[],
    &[9],
    &[],
    &[16],
    &[32],
    &[],
    &[],
    &[],
    &[],
    &[],
    &[],
    &[],
    &[],
    &[],
    &[16],
    &[],
    &[],
    &[],
    &[],
    &[],
    &[],
    &[],
    &[],
    &[],
    &[],
];

struct Shape {
    name: &'static str,
    key: &'static [(&'static str, &'static str, &'static str)],
    is_last: bool,
    has_profile: bool,
    has_counters: bool,
}

const TABLES: [Shape; 7] = [
    table(
        "t0",
        &[
            ("ternary", "h", "a"),
            ("exact", "standard_metadata", "ingress_port"),
        ],
    ),
    table("t1", &[("lpm", "scalars", "x")]),
    Shape {
        has_counters: true,
        ..table("t2", &[("exact", "scalars", "y")])
    },
    Shape {
        has_profile: true,
        ..table("t3", &[("exact", "h", "b")])
    },
    Shape {
        is_last: true,
        ..table("t4", &[("range", "h", "a"), ("exact", "g", "$valid$")])
    },
    table(
        "e0",
        &[
            ("exact", "standard_metadata", "egress_port"),
            ("exact", "scalars", "y"),
        ],
    ),
    Shape {
        is_last: true,
        ..table(
            "e1",
            &[
                ("ternary", "standard_metadata", "instance_type"),
                ("ternary", "standard_metadata", "packet_length"),
            ],
        )
    },
];

const fn table(
    name: &'static str,
    key: &'static [(&'static str, &'static str, &'static str)],
) -> Shape {
    Shape {
        name,
        key,
        is_last: false,
        has_profile: false,
        has_counters: false,
    }
}

fn table_json(index: usize) -> Value {
    let shape = &TABLES[index];
    let kinds: Vec<&str> = shape.key.iter().map(|part| part.0).collect();
    let kind = ["range", "ternary", "lpm"]
        .into_iter()
        .find(|kind| kinds.contains(kind));
    let key: Vec<Value> = shape
        .key
        .iter()
        .map(|(kind, header, name)| {
            json!({"match_type": kind, "target": [header, name], "mask": null,
                "name": format!("{header}.{name}")})
        })
        .collect();
    let next = match shape.is_last {
        true => Value::Null,
        false => json!(TABLES[index + 1].name),
    };
    let ids: Vec<u32> = (0..ACTIONS).collect();
    let names: Vec<String> = ids.iter().map(|id| format!("a{id}")).collect();
    let ways: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| (name.clone(), next.clone()))
        .collect();
    let mut table = json!({"name": shape.name, "id": index, "key": key,
        "match_type": kind.unwrap_or("exact"), "type": "simple", "max_size": 100,
        "with_counters": shape.has_counters, "support_timeout": shape.has_counters,
        "direct_meters": null, "action_ids": ids, "actions": names, "base_default_next": next,
        "next_tables": ways});
    match shape.has_profile {
        true => {
            table["type"] = json!("indirect_ws");
            table["action_profile"] = json!("profile");
        }
        false => {
            table["default_entry"] = json!({"action_id": 0, "action_const": false,
                "action_data": [], "action_entry_const": false});
        }
    }
    table
}

/// The program, with or without entries that count and time out.
pub(crate) fn program(with_counters: bool) -> Value {
    let mut ingress: Value = (0..5).map(table_json).collect();
    if !with_counters {
        for key in ["with_counters", "support_timeout"] {
            ingress[2][key] = json!(false);
        }
    }
    let egress: Value = (5..7).map(table_json).collect();
    with_tables(actions(), ingress, egress)
}

/// The same with counting entries, in a table whose actions only write fields.
pub(crate) fn counting_program() -> Value {
    let mut program = program(true);
    let table = &mut program["pipelines"][0]["tables"][2];
    table["action_ids"] = json!(PLAIN_ACTIONS);
    let names = PLAIN_ACTIONS.map(|id| format!("a{id}"));
    table["actions"] = json!(names);
    let ways = names.into_iter().map(|name| (name, json!("t3")));
    table["next_tables"] = ways.collect::<serde_json::Map<_, _>>().into();
    program
}

/// Tables of ingress; they come first.
const INGRESS_TABLES: usize = 5;

/// The same with separate actions for each table of ingress, as p4c makes them.
pub(crate) fn with_own_actions(mut program: Value) -> Value {
    let shared = program["actions"].as_array().cloned().expect("a list");
    let mut actions = shared.clone();
    for table in 0..INGRESS_TABLES {
        let first = (table as u32 + 1) * ACTIONS;
        actions.extend(shared.iter().zip(first..).map(|(action, id)| {
            let mut action = action.clone();
            action["id"] = json!(id);
            action
        }));
        let table = &mut program["pipelines"][0]["tables"][table];
        let ids = table["action_ids"].as_array_mut().expect("a list");
        let own = |id: &Value| json!(id.as_u64().expect("a number") as u32 + first);
        *ids = ids.iter().map(own).collect();
        if let Some(default) = table.get_mut("default_entry") {
            default["action_id"] = own(&default["action_id"]);
        }
    }
    program["actions"] = json!(actions);
    program
}

/// Translates an update of [`program`] to separate actions, and optionally a counting table.
pub(crate) fn of_own_action(update: Update, counts: bool) -> Update {
    let own = |table: u32, mut call: ActionCall| {
        if counts && table == 2 {
            let plain = PLAIN_ACTIONS[call.action.0 as usize % PLAIN_ACTIONS.len()];
            call.action = ActionId(plain);
            call.data = vec![1_u32.into(); PARAMETERS[plain as usize].len()];
        }
        if (table as usize) < INGRESS_TABLES {
            call.action.0 += (table + 1) * ACTIONS;
        }
        call
    };
    let of_entry = |table: TableId, mut entry: TableEntry| {
        if let EntryAction::Call(call) = entry.action {
            entry.action = EntryAction::Call(own(table.0, call));
        }
        entry
    };
    match update {
        Update::InsertEntry(table, entry) => Update::InsertEntry(table, of_entry(table, entry)),
        Update::ModifyEntry(table, entry) => Update::ModifyEntry(table, of_entry(table, entry)),
        Update::SetDefault(table, call) => {
            Update::SetDefault(table, call.map(|call| own(table.0, call)))
        }
        // The profile belongs to the fourth table.
        Update::Member(mode, profile, id, call) => {
            Update::Member(mode, profile, id, call.map(|call| own(3, call)))
        }
        other => other,
    }
}

/// Two targets of one program: with a behaviour cache, and without.
struct Pair {
    cached: Target,
    plain: Target,
    now: Instant,
    outboxes: [Outbox; 2],
}

impl Pair {
    fn new(config: BehaviorConfig) -> Pair {
        Pair::with_work(config, WORK_MAX)
    }

    fn with_work(config: BehaviorConfig, work_max: u64) -> Pair {
        let program = load(&program(true));
        let limited = Config {
            work_max,
            ..Config::default()
        };
        let target = || Target::new(program.clone(), limited).expect("own entries");
        let mut cached = target();
        cached.cache_behaviors(Some(config));
        Pair {
            cached,
            plain: target(),
            now: Instant::ZERO,
            outboxes: [Outbox::new(), Outbox::new()],
        }
    }

    /// Writes to both; both must succeed or both fail.
    fn write(&mut self, updates: &[Update]) -> bool {
        let done = [&mut self.cached, &mut self.plain].map(|target| {
            target
                .write(updates, self.now)
                .map_err(|failed| failed.error.to_string())
        });
        assert_eq!(done[0], done[1]);
        done[0].is_ok()
    }

    /// Gives both a packet; the results must be equal.
    fn receive(&mut self, port: u32, bytes: &[u8]) {
        self.now = self.now + Duration::from_micros(1);
        let targets = [&mut self.cached, &mut self.plain];
        for (target, outbox) in targets.into_iter().zip(&mut self.outboxes) {
            outbox.clear();
            target.receive(port, bytes, self.now, outbox);
        }
        let [cached, plain] = &self.outboxes;
        assert!(cached.sent().eq(plain.sent()), "{bytes:02x?} at {port}");
        assert!(
            cached.digests().eq(plain.digests()),
            "{bytes:02x?} at {port}"
        );
        assert_eq!(self.cached.counts(), self.plain.counts());
    }

    /// Compares everything that packets have changed.
    fn compare(&mut self) {
        let program = &self.plain.program().clone();
        let states = [self.cached.state(), self.plain.state()];
        for cell in 0..4 {
            let counters = states.map(|state| state.counter(CounterId(0), cell));
            assert_eq!(counters[0], counters[1]);
            let registers = states.map(|state| state.register(program, RegisterId(0), cell));
            assert_eq!(registers[0], registers[1]);
        }
        for index in 0..program.tables.len() as u32 {
            let all = states.map(|state| {
                let entries = state.entries(program, TableId(index));
                let live = entries.iter().map(|entry| {
                    let found =
                        state.entry(program, TableId(index), &entry.matches, entry.priority);
                    let found = found.expect("its own match").expect("it is there");
                    (entry.clone(), found.counter(), found.last_hit())
                });
                live.collect::<Vec<_>>()
            });
            assert_eq!(all[0], all[1]);
        }
    }
}

fn number(random: &mut Pcg64Mcg, most: u32) -> BigUint {
    random.random_range(0..=most).into()
}

fn random_call(random: &mut Pcg64Mcg) -> ActionCall {
    let action = match random.random_bool(0.2) {
        true => random.random_range(FIRST_MACHINE..ACTIONS),
        false => random.random_range(0..ACTIONS),
    };
    let data = PARAMETERS[action as usize].iter();
    ActionCall {
        action: ActionId(action),
        data: data.map(|_| number(random, 3)).collect(),
    }
}

fn random_matches(random: &mut Pcg64Mcg, shape: &Shape) -> Vec<Match> {
    let part = |&(kind, _, name): &(&str, &str, &str)| match kind {
        "exact" if name == "$valid$" => Match::Exact(number(random, 1)),
        "exact" => Match::Exact(number(random, 3)),
        "lpm" => match random.random_bool(0.5) {
            true => Match::Lpm(number(random, 3), random.random_range(29..=32)),
            false => Match::Any,
        },
        // Added headers change the bit of 8.
        "ternary" if name == "packet_length" => {
            Match::Ternary(number(random, 1) * 8_u8, 8_u8.into())
        }
        "ternary" => Match::Ternary(number(random, 3), number(random, 3)),
        _ => {
            let least = random.random_range(0..4_u32);
            Match::Range(least.into(), (least + random.random_range(0..3_u32)).into())
        }
    };
    shape.key.iter().map(part).collect()
}

// One match, with an arm for each kind of update.
pub(crate) fn random_update(random: &mut Pcg64Mcg) -> Update {
    let index = random.random_range(0..TABLES.len());
    let (id, shape) = (TableId(index as u32), &TABLES[index]);
    let rate = |random: &mut Pcg64Mcg| Rate {
        per_second: random.random_range(1..1_000_000),
        burst: random.random_range(1..10),
    };
    match random.random_range(0..30) {
        0 => Update::SetRegister(RegisterId(0), random.random_range(0..4), number(random, 3)),
        1 => Update::SetMeter(
            MeterId(0),
            0,
            Some(MeterRates {
                committed: rate(random),
                peak: rate(random),
            }),
        ),
        2 | 3 if !shape.has_profile => Update::SetDefault(id, Some(random_call(random))),
        4 => Update::ClearTable(id),
        5..8 => Update::Member(
            Mode::Set,
            ProfileId(0),
            random.random_range(0..3),
            Some(random_call(random)),
        ),
        8 => Update::Group(Mode::Set, ProfileId(0), 0, vec![(0, 1), (1, 2)]),
        9 => Update::Mirror(
            Mode::Set,
            5,
            Mirror {
                replicas: vec![Replica {
                    port: random.random_range(0..4),
                    instance: 1,
                }],
                ..Mirror::default()
            },
        ),
        10 => Update::Multicast(
            Mode::Set,
            2,
            vec![
                Replica {
                    port: random.random_range(0..4),
                    instance: 7,
                };
                2
            ],
        ),
        kind => {
            let matches = random_matches(random, shape);
            let has_priorities = shape
                .key
                .iter()
                .any(|part| ["ternary", "range"].contains(&part.0));
            let priority = match has_priorities {
                true => random.random_range(1..3),
                false => 0,
            };
            if kind < 16 {
                return Update::DeleteEntry(id, matches, priority);
            }
            let action = match (shape.has_profile, random.random_bool(0.5)) {
                (true, true) => EntryAction::Member(random.random_range(0..3)),
                (true, false) => EntryAction::Group(0),
                (false, _) => EntryAction::Call(random_call(random)),
            };
            let entry = TableEntry {
                matches,
                priority,
                action,
                idle_timeout_ns: 0,
            };
            match kind < 20 {
                true => Update::ModifyEntry(id, entry),
                false => Update::InsertEntry(id, entry),
            }
        }
    }
}

pub(crate) fn random_packet(random: &mut Pcg64Mcg) -> (u32, Vec<u8>) {
    let mut small = || random.random_range(0..4_u8);
    let mut bytes = vec![small(), small()];
    let port = u32::from(small() % 2);
    bytes.extend(random.random::<u16>().to_be_bytes());
    bytes.extend([0, 0, 0, random.random_range(0..2)]);
    let rest = random.random_range(0..5);
    bytes.extend(std::iter::repeat_n(0xee, rest));
    if random.random_bool(0.02) {
        bytes.truncate(random.random_range(0..8));
    }
    (port, bytes)
}

/// Invariant 1 of the cache over random programs and writes; `THALWEG_CHANGES` sets the number
/// of changes.
#[test]
fn cache_on_is_cache_off_over_random_entries_packets_and_writes() {
    let changes = std::env::var("THALWEG_CHANGES").ok();
    let changes = changes.map_or(800, |text| text.parse().expect("THALWEG_CHANGES: a number"));
    let (mut hits, mut too_much) = (0, 0);
    let mut unfit = [0; Unfit::ALL.len()];
    for seed in 0..8 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        // Some packets are too much work: some in a walk, some in a replay.
        let work_max = [WORK_MAX, 700][seed as usize / 2 % 2];
        let config = BehaviorConfig {
            entries: [3, 40, 1_000][seed as usize % 3],
            threshold: (seed % 3) as u16,
            reports: [1, 100][seed as usize % 2],
            reports_per_packet: seed as usize % 4,
            rests: false,
        };
        let mut pair = Pair::with_work(config, work_max);
        let mut written = 0;
        for _ in 0..changes / 8 {
            let batch: Vec<Update> = (0..random.random_range(1..4))
                .map(|_| random_update(&mut random))
                .collect();
            written += u32::from(pair.write(&batch));
            let packets: Vec<_> = (0..6).map(|_| random_packet(&mut random)).collect();
            for _ in 0..60 {
                let (port, bytes) = packets.choose(&mut random).expect("some");
                let mut bytes = bytes.clone();
                // Bytes outside every key differ from packet to packet.
                if bytes.len() >= 4 {
                    bytes[2] = random.random();
                }
                pair.receive(*port, &bytes);
                if random.random_bool(0.1) {
                    pair.cached.install(random.random_range(0..3));
                }
            }
            pair.compare();
        }
        assert!(written > 30, "{written}");
        too_much += pair.cached.counts().drops(DropReason::TooMuchWork);
        let counts = pair.cached.behavior_counts().expect("a cache");
        hits += counts.hits;
        for (sum, reason) in unfit.iter_mut().zip(Unfit::ALL) {
            *sum += counts.unfit(reason);
        }
        assert!(pair.cached.behavior_count() <= 2 * [3, 40, 1_000][seed as usize % 3]);
    }
    assert!(
        hits > 5_000,
        "only {hits} hits: the test would not see a wrong one"
    );
    assert!(too_much > 100, "{too_much} packets were too much work");
    for reason in [Unfit::Meter, Unfit::Register, Unfit::Fault] {
        assert!(unfit[reason as usize] > 0, "{reason:?} never happened");
    }
}

/// A program whose table `t0` sends by port, and does nothing else.
fn sender(config: BehaviorConfig) -> Pair {
    let mut pair = Pair::new(config);
    assert!(pair.write(&[send(0, 3, true)]));
    pair
}

fn send(a: u32, port: u32, is_new: bool) -> Update {
    let entry = TableEntry {
        matches: vec![
            Match::Ternary(a.into(), 255_u32.into()),
            Match::Exact(1_u32.into()),
        ],
        priority: 1,
        action: EntryAction::Call(ActionCall {
            action: ActionId(3),
            data: vec![port.into()],
        }),
        idle_timeout_ns: 0,
    };
    match is_new {
        true => Update::InsertEntry(TableId(0), entry),
        false => Update::ModifyEntry(TableId(0), entry),
    }
}

const BY_HAND: BehaviorConfig = BehaviorConfig {
    entries: 100,
    threshold: 0,
    reports: 4,
    reports_per_packet: 0,
    rests: false,
};

/// Invariant 2: reports from before a change are read after it.
#[test]
fn a_report_from_before_a_change_is_never_installed_after_it() {
    let mut pair = sender(BY_HAND);
    let packet = [0, 0, 0, 0, 0, 0, 0, 0];
    pair.receive(1, &packet);
    let counts = pair.cached.behavior_counts().unwrap().clone();
    assert_eq!(
        (counts.reports, counts.installed),
        (2, 0),
        "ingress and egress"
    );
    // The packet's entry changes before its report is read.
    assert!(pair.write(&[send(0, 2, false)]));
    assert_eq!(pair.cached.install(10), 0);
    assert_eq!(pair.cached.behavior_counts().unwrap().stale, 2);
    pair.receive(1, &packet);
    assert_eq!(pair.cached.install(10), 2);
    pair.receive(1, &packet);
    assert_eq!(pair.cached.behavior_counts().unwrap().hits, 2);
    // A change that no walk looks up keeps the reports.
    pair.receive(1, &[0, 1, 0, 0, 0, 0, 0, 0]);
    let register = Update::SetRegister(RegisterId(0), 3, 1_u32.into());
    assert!(pair.write(&[register]));
    assert_eq!(pair.cached.behavior_counts().unwrap().stale, 2);
    assert!(pair.cached.install(10) > 0);
}

#[test]
fn a_storm_of_reports_is_bounded_and_counted() {
    let mut pair = sender(BY_HAND);
    for a in 0..50 {
        pair.receive(1, &[a, 0, 0, 0, 0, 0, 0, 0]);
    }
    let counts = pair.cached.behavior_counts().unwrap().clone();
    assert_eq!(counts.reports, 4);
    assert!(counts.no_room > 40);
    assert_eq!(pair.cached.install(usize::MAX), 4);
    // The same behaviour gets hot again, and is known.
    let mut pair = sender(BY_HAND);
    for _ in 0..2 {
        pair.receive(1, &[7, 0, 0, 0, 0, 0, 0, 0]);
    }
    pair.cached.install(10);
    assert!(pair.cached.behavior_counts().unwrap().known >= 1);
}

#[test]
fn a_change_evicts_what_asked_with_a_key_that_it_matches_and_nothing_else() {
    let mut pair = sender(BehaviorConfig {
        reports_per_packet: 10,
        ..BY_HAND
    });
    for _ in 0..2 {
        for a in 0..4 {
            pair.receive(1, &[a, 0, 0, 0, 0, 0, 0, 0]);
        }
    }
    let before = pair.cached.behavior_count();
    assert!(pair.write(&[send(2, 2, true)]));
    assert_eq!(pair.cached.behavior_count(), before - 1);
    assert_eq!(pair.cached.behavior_counts().unwrap().affected, 1);
    for a in 0..4 {
        pair.receive(1, &[a, 0, 0, 0, 0, 0, 0, 0]);
    }
}

/// The machine's state is in the key, so each of its four transitions is one behaviour.
#[test]
fn a_state_machine_over_a_register_is_remembered() {
    let mut pair = Pair::new(BehaviorConfig {
        reports_per_packet: 10,
        ..BY_HAND
    });
    let call = |action| ActionCall {
        action: ActionId(action),
        data: Vec::new(),
    };
    let port = |y: u32, port: u32| {
        let entry = TableEntry {
            matches: vec![Match::Exact(y.into())],
            priority: 0,
            action: EntryAction::Call(ActionCall {
                action: ActionId(3),
                data: vec![port.into()],
            }),
            idle_timeout_ns: 0,
        };
        Update::InsertEntry(TableId(2), entry)
    };
    assert!(pair.write(&[
        Update::SetDefault(TableId(0), Some(call(7))),
        port(0, 1),
        port(1, 2),
        port(2, 3),
    ]));
    for _ in 0..100 {
        pair.receive(1, &[0, 2, 0, 0, 0, 0, 0, 0]);
        pair.compare();
    }
    let counts = pair.cached.behavior_counts().unwrap();
    assert!(counts.hits > 150, "{counts:?}");
    assert_eq!(counts.unfit(Unfit::Register), 0);
}
