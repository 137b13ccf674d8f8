//! B-Cache as a program: a transformed program with a keeper, against the original.

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};
use thalweg_p4::behavior::transform::{Transformed, transform};
use thalweg_p4::program::ids::{ActionId, TableId};
use thalweg_p4::program::table::Match;
use thalweg_p4::state::{ActionCall, EntryAction, TableEntry, Update};

use crate::bed::{argument, assign, call, field, hex, standard, with_tables};
use crate::behaviors::{
    ACTIONS, counting_program, of_own_action, program, random_packet, random_update,
    with_own_actions,
};
use crate::pair::Pair;

/// No random program reveals whether it was transformed.
#[test]
fn the_transformed_program_does_what_the_program_does() {
    let (mut hits, mut installed, mut stale, mut replaced) = (0, 0, 0, 0);
    let (mut wrote, mut again) = (0, 0);
    for seed in 0..12 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let entries = [2, 50][seed as usize % 2];
        // Entries do not count, or count and are looked up again, or count and end the path.
        let program = match seed % 3 {
            0 => with_own_actions(program(false)),
            1 => with_own_actions(counting_program()),
            _ => program(true),
        };
        let mut pair = Pair::new(&program.to_string(), entries, seed as u32 / 3 % 2);
        for _ in 0..100 {
            let batch: Vec<Update> = (0..random.random_range(1..3))
                .map(|_| random_update(&mut random))
                .map(|update| match seed % 3 {
                    0 => of_own_action(update, false),
                    1 => of_own_action(update, true),
                    _ => update,
                })
                .collect();
            pair.write(&batch);
            if seed % 3 == 1 {
                // Most packets hit the counting table; half the time the entry exists already.
                let entry = TableEntry {
                    matches: vec![Match::Exact(0_u32.into())],
                    ..a_call(3, 3 * ACTIONS + 3)
                };
                pair.write(&[Update::InsertEntry(TableId(2), entry)]);
            }
            let packets: Vec<_> = (0..6).map(|_| random_packet(&mut random)).collect();
            for _ in 0..60 {
                let (port, bytes) = packets.choose(&mut random).expect("some");
                let mut bytes = bytes.clone();
                if bytes.len() >= 4 {
                    bytes[2] = random.random();
                }
                match random.random_bool(0.1) {
                    true => pair.trace_hit(*port, &bytes),
                    false => pair.receive(*port, &bytes),
                }
                // Half the time reports are late, and some come after the next change.
                if random.random_bool(0.5) {
                    pair.read_reports(random.random_range(0..4));
                }
            }
            pair.compare();
        }
        let counts = pair.keeper.counts();
        assert_eq!(counts.malformed, 0);
        assert!(pair.keeper.len() <= entries as usize);
        hits += pair.hits;
        wrote += pair.wrote;
        again += pair.again;
        installed += counts.installed;
        stale += counts.stale;
        replaced += counts.replaced;
    }
    assert!(hits > 300 && installed > 300, "{hits} hits of {installed}");
    assert!(
        wrote > 20 && again > 20,
        "{wrote} hits wrote registers, {again} asked tables again"
    );
    assert!(
        stale > 50 && replaced > 50,
        "{stale} stale, {replaced} replaced"
    );
}

/// An entry that runs an action with one number.
fn a_call(number: u32, action: u32) -> TableEntry {
    TableEntry {
        matches: Vec::new(),
        priority: 0,
        action: EntryAction::Call(ActionCall {
            action: ActionId(action),
            data: vec![number.into()],
        }),
        idle_timeout_ns: 0,
    }
}

/// Two actions on one key: only one writes a field that is in no key.
fn two_ways() -> Value {
    let actions = json!([
        {"name": "clear", "id": 0, "runtime_data": [{"name": "port", "bitwidth": 9}],
            "primitives": [assign(field("h", "c"), hex(0)),
                assign(standard("egress_spec"), argument(0))]},
        {"name": "keep", "id": 1, "runtime_data": [],
            "primitives": [call("count", json!([
                {"type": "counter_array", "value": "counter"}, hex(1)])),
                assign(standard("egress_spec"), hex(2))]},
        {"name": "out", "id": 2, "runtime_data": [], "primitives": []},
    ]);
    let table = json!({"name": "ways", "id": 0, "match_type": "exact", "type": "simple",
        "max_size": 10, "with_counters": false, "support_timeout": false,
        "direct_meters": null, "action_ids": [0, 1], "actions": ["clear", "keep"],
        "key": [{"match_type": "exact", "target": ["h", "a"], "mask": null, "name": "h.a"}],
        "base_default_next": null, "next_tables": {"clear": null, "keep": null},
        "default_entry": {"action_id": 1, "action_const": false, "action_data": [],
            "action_entry_const": false}});
    with_tables(actions, json!([table]), json!([crate::bed::bare("out", 2)]))
}

#[test]
fn the_plan_has_the_sound_key_flags_and_odd_primitives() {
    let Transformed { json, plan } = transform(&two_ways().to_string(), 100).expect("a program");
    let names: Vec<String> = plan.key.iter().map(|part| part.name()).collect();
    assert_eq!(names, ["h.a", "h.$valid$"]);
    let outputs: Vec<_> = plan
        .outputs
        .iter()
        .map(|output| (output.field.as_str(), output.is_flagged))
        .collect();
    assert_eq!(outputs, [("egress_spec", true), ("c", true)]);
    assert_eq!((plan.counts.len(), plan.actions.len()), (1, 2));
    assert_eq!(plan.key_bits(), 9);
    assert!(plan.stops.is_empty(), "{:?}", plan.stops);
    assert_eq!(json["pipelines"][0]["init_table"], "bcache.begin");
    // A transformed program is not transformed again.
    let again = transform(&json.to_string(), 100).unwrap_err().to_string();
    assert!(again.contains("it has a cache already"), "{again}");
}

/// The epoch alone: a report of a packet from before a change is delivered after it.
#[test]
fn a_digest_from_before_a_change_is_never_installed_after_it() {
    let mut pair = Pair::new(&two_ways().to_string(), 100, 0);
    pair.receive(1, &[7, 0, 1, 2, 0, 0, 0, 0]);
    assert_eq!(pair.reports.len(), 1, "the threshold is 0");
    let entry = TableEntry {
        matches: vec![Match::Exact(7_u32.into())],
        ..a_call(3, 0)
    };
    assert!(pair.write(&[Update::InsertEntry(TableId(0), entry)]));
    pair.read_reports(10);
    assert_eq!((pair.keeper.counts().stale, pair.keeper.len()), (1, 0));
    pair.receive(1, &[7, 0, 3, 4, 0, 0, 0, 0]);
    pair.read_reports(10);
    assert_eq!(pair.keeper.len(), 1);
    pair.trace_hit(1, &[7, 0, 5, 6, 0, 0, 0, 0]);
    assert_eq!(pair.hits, 1);
    // This change does not affect another value of the key.
    pair.receive(1, &[8, 0, 0x12, 0x34, 0, 0, 0, 0]);
    pair.read_reports(10);
    assert_eq!(pair.keeper.len(), 2);
    let delete = Update::DeleteEntry(TableId(0), vec![Match::Exact(7_u32.into())], 0);
    assert!(pair.write(&[delete]));
    assert_eq!((pair.keeper.len(), pair.keeper.counts().affected), (1, 1));
    for _ in 0..3 {
        pair.receive(1, &[8, 0, 0x56, 0x78, 0, 0, 0, 0]);
        pair.receive(1, &[7, 0, 0x9a, 0xbc, 0, 0, 0, 0]);
    }
    pair.compare();
}
