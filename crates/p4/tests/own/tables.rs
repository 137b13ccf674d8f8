//! Tables under random writes, against a list with linear search.
//!
//! Batches insert, modify and delete entries, and some must fail. The target's result and its
//! entries afterwards must equal the list's. Every packet must hit the entry that the list
//! finds.

use crate::bed::*;
use num_bigint::BigUint;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};
use thalweg_p4::program::ids::{ActionId, TableId};
use thalweg_p4::program::table::Match;
use thalweg_p4::state::{ActionCall, EntryAction, TableEntry, Update, WriteError};
use thalweg_p4::{ClassifierKind, Config, IndexKind};

const SIZE: usize = 10;

/// Fields of the key, their widths, and how they are matched.
type Key = [(&'static str, u32, &'static str)];

const KEYS: [&Key; 8] = [
    &[("a", 8, "exact"), ("c", 16, "exact")],
    &[("c", 16, "lpm")],
    &[("a", 8, "exact"), ("d", 32, "lpm")],
    &[("a", 8, "ternary"), ("c", 16, "ternary")],
    &[("c", 16, "range"), ("a", 8, "ternary")],
    &[("a", 8, "range"), ("b", 8, "range"), ("c", 16, "exact")],
    &[("a", 8, "optional"), ("c", 16, "lpm")],
    &[("a", 8, "optional")],
];

fn table_program(key: &Key, size: usize) -> Value {
    let parts: Vec<Value> = key
        .iter()
        .map(|(name, _, kind)| {
            json!({"match_type": kind, "name": name, "target": ["h", name], "mask": null})
        })
        .collect();
    let actions = json!([
        {"name": "set", "id": 0, "runtime_data": [{"name": "id", "bitwidth": 32}],
            "primitives": [assign(field("h", "d"), argument(0))]},
        {"name": "miss", "id": 1, "runtime_data": [],
            "primitives": [assign(field("h", "d"), hex(0xffff_ffff))]},
        {"name": "out", "id": 2, "runtime_data": [], "primitives": []},
    ]);
    let table = json!({"name": "t", "id": 0, "key": parts, "match_type": "ternary",
        "type": "simple", "max_size": size, "with_counters": true, "support_timeout": false,
        "direct_meters": null, "action_ids": [0, 1], "actions": ["set", "miss"],
        "base_default_next": null, "next_tables": {"set": null, "miss": null},
        "default_entry": {"action_id": 1, "action_const": false, "action_data": [],
            "action_entry_const": false}});
    with_tables(actions, json!([table]), json!([bare("out", 2)]))
}

/// The match of one part in normal form: bits and mask, or a range.
#[derive(Clone, PartialEq, Debug)]
enum Part {
    Bits(u64, u64),
    Range(u64, u64),
}

impl Part {
    fn is_met(&self, key: u64) -> bool {
        match self {
            Part::Bits(value, mask) => key & mask == *value,
            Part::Range(least, most) => (least..=most).contains(&&key),
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
struct Row {
    parts: Vec<Part>,
    priority: u32,
    id: u32,
    packets: u64,
}

fn ones(width: u32) -> u64 {
    (1 << width) - 1
}

/// One of a few values, so that entries often overlap.
fn value(chance: &mut Pcg64Mcg, width: u32) -> u64 {
    let few = [0, 1, 2, 3, 0x80, 0xff, 0x100, 0x8000, 0xffff, 0x8000_0000];
    few.choose(chance).expect("some") & ones(width)
}

/// A random match with its normal form; `None` if the match is invalid.
fn random_part(chance: &mut Pcg64Mcg, width: u32, kind: &str) -> (Match, Option<Part>) {
    let number = value(chance, width);
    if chance.random_ratio(1, 40) {
        let too_wide = BigUint::from(1_u8) << width;
        return match kind {
            "lpm" => (Match::Lpm(too_wide, width), None),
            "ternary" => (Match::Ternary(too_wide, 1_u8.into()), None),
            "range" => (Match::Range(0_u8.into(), too_wide), None),
            _ => (Match::Exact(too_wide), None),
        };
    }
    let bits = |value: u64, mask: u64| Some(Part::Bits(value & mask, mask));
    match kind {
        "exact" => (Match::Exact(number.into()), bits(number, ones(width))),
        "lpm" => {
            let length = chance.random_range(0..=width);
            let mask = ones(width) >> (width - length) << (width - length);
            (Match::Lpm(number.into(), length), bits(number, mask))
        }
        "optional" if chance.random_ratio(1, 3) => (Match::Any, bits(0, 0)),
        "optional" => (Match::Exact(number.into()), bits(number, ones(width))),
        "ternary" => {
            let mask = value(chance, width) | value(chance, width);
            (
                Match::Ternary(number.into(), mask.into()),
                bits(number, mask),
            )
        }
        _ => {
            let other = value(chance, width);
            let (least, most) = (number.min(other), number.max(other));
            let whole = (least, most) == (0, ones(width));
            let part = if whole {
                Part::Bits(0, 0)
            } else {
                Part::Range(least, most)
            };
            (Match::Range(least.into(), most.into()), Some(part))
        }
    }
}

/// Applies an update to the list; false if it must fail.
fn apply(rows: &mut Vec<Row>, update: &Update, row: &Option<Row>) -> bool {
    let Some(row) = row else { return false };
    let found = rows
        .iter()
        .position(|one| one.parts == row.parts && one.priority == row.priority);
    match (update, found) {
        (Update::InsertEntry(..), None) if rows.len() < SIZE => rows.push(row.clone()),
        (Update::ModifyEntry(..), Some(index)) => {
            // The entry keeps its age among those of its priority.
            rows[index] = Row {
                packets: rows[index].packets,
                ..row.clone()
            };
        }
        (Update::DeleteEntry(..), Some(index)) => {
            rows.remove(index);
        }
        _ => return false,
    }
    true
}

/// Finds the row that a packet hits.
fn search<'r>(rows: &'r mut [Row], key: &Key, packet: [u64; 4]) -> Option<&'r mut Row> {
    let field = |name: &str| packet["abcd".find(name).expect("a field")];
    let has_priorities = key
        .iter()
        .any(|(_, _, kind)| !["exact", "lpm"].contains(kind));
    let mut best: Option<&mut Row> = None;
    for row in rows {
        let parts = key.iter().zip(&row.parts);
        if !parts
            .clone()
            .all(|((name, _, _), part)| part.is_met(field(name)))
        {
            continue;
        }
        let rank = |row: &Row| match has_priorities {
            true => row.priority,
            false => row
                .parts
                .iter()
                .map(|part| match part {
                    Part::Bits(_, mask) => mask.count_ones(),
                    Part::Range(..) => 0,
                })
                .sum(),
        };
        if best.as_ref().is_none_or(|best| rank(row) > rank(best)) {
            best = Some(row);
        }
    }
    best
}

/// A row's match in the form in which it is written.
fn matches_of(row: &Row, key: &Key) -> Vec<Match> {
    let parts = key.iter().zip(&row.parts);
    let matches = parts.map(|((_, _, kind), part)| match (*kind, part) {
        ("exact", Part::Bits(value, _)) => Match::Exact((*value).into()),
        ("lpm", Part::Bits(value, mask)) => Match::Lpm((*value).into(), mask.count_ones()),
        (_, Part::Bits(_, 0)) => Match::Any,
        ("optional", Part::Bits(value, _)) => Match::Exact((*value).into()),
        (_, Part::Bits(value, mask)) => Match::Ternary((*value).into(), (*mask).into()),
        (_, Part::Range(least, most)) => Match::Range((*least).into(), (*most).into()),
    });
    matches.collect()
}

fn table_entry(matches: Vec<Match>, priority: u32, id: u32) -> TableEntry {
    TableEntry {
        matches,
        priority,
        action: EntryAction::Call(ActionCall {
            action: ActionId(0),
            data: vec![id.into()],
        }),
        idle_timeout_ns: 0,
    }
}

/// An update; one that needs an existing entry mostly names one.
fn random_update(chance: &mut Pcg64Mcg, key: &Key, rows: &[Row], id: u32) -> (Update, Option<Row>) {
    if let Some(row) = rows.choose(chance)
        && chance.random_ratio(1, 2)
    {
        let (matches, priority) = (matches_of(row, key), row.priority);
        let row = Row { id, ..row.clone() };
        let update = match chance.random_ratio(1, 2) {
            true => Update::DeleteEntry(TableId(0), matches, priority),
            false => Update::ModifyEntry(TableId(0), table_entry(matches, priority, id)),
        };
        return (update, Some(row));
    }
    let has_priorities = key
        .iter()
        .any(|(_, _, kind)| !["exact", "lpm"].contains(kind));
    let priority = if has_priorities {
        chance.random_range(1..4) << 15
    } else {
        0
    };
    let (mut matches, mut parts) = (Vec::new(), Some(Vec::new()));
    for (_, width, kind) in key {
        let (one, part) = random_part(chance, *width, kind);
        matches.push(one);
        parts = parts.zip(part).map(|(mut parts, part)| {
            parts.push(part);
            parts
        });
    }
    let row = parts.map(|parts| Row {
        parts,
        priority,
        id,
        packets: 0,
    });
    let entry = table_entry(matches.clone(), priority, id);
    let update = match chance.random_range(0..10) {
        0..8 => Update::InsertEntry(TableId(0), entry),
        8 => Update::ModifyEntry(TableId(0), entry),
        _ => Update::DeleteEntry(TableId(0), matches, priority),
    };
    (update, row)
}

#[test]
fn every_packet_meets_the_entry_that_a_list_finds() {
    let (mut done, mut refused, mut met, mut missed) = (0, 0, 0, 0);
    for (seed, key) in KEYS.iter().enumerate() {
        let mut chance = Pcg64Mcg::seed_from_u64(seed as u64);
        let mut bed = Bed::new(&table_program(key, SIZE));
        let mut rows: Vec<Row> = Vec::new();
        for id in 0..1_500 {
            let count = chance.random_range(1..4);
            let batch: Vec<_> = (0..count)
                .map(|index| random_update(&mut chance, key, &rows, id * 4 + index))
                .collect();
            let mut after = rows.clone();
            let fits = batch
                .iter()
                .all(|(update, row)| apply(&mut after, update, row));
            let updates: Vec<Update> = batch.into_iter().map(|(update, _)| update).collect();
            let written = bed.target.write(&updates, bed.now);
            assert_eq!(written.is_ok(), fits, "{written:?}: {updates:?}\n{rows:?}");
            match fits {
                true => rows = after,
                false => refused += 1,
            }
            done += usize::from(fits);
            assert_eq!(bed.target.state().entry_count(TableId(0)), rows.len());
            for _ in 0..6 {
                let packet = [8, 8, 16, 32].map(|width| value(&mut chance, width));
                let found = send_through(&mut bed, packet);
                let expected = search(&mut rows, key, packet).map(|row| {
                    row.packets += 1;
                    row.id
                });
                assert_eq!(
                    found,
                    expected.unwrap_or(u32::MAX),
                    "{packet:x?} of {rows:x?}"
                );
                met += usize::from(expected.is_some());
                missed += usize::from(expected.is_none());
            }
        }
        check_counts(&mut bed, &rows);
    }
    // The test would prove little if nearly all went one way.
    assert!(done > 2_000 && refused > 2_000, "{done} {refused}");
    assert!(met > 10_000 && missed > 5_000, "{met} {missed}");
}

/// The value that the action of the hit entry has written.
fn send_through(bed: &mut Bed, packet: [u64; 4]) -> u32 {
    let mut bytes = vec![packet[0] as u8, packet[1] as u8];
    bytes.extend((packet[2] as u16).to_be_bytes());
    bytes.extend((packet[3] as u32).to_be_bytes());
    let sent = bed.receive(1, &bytes);
    u32::from_be_bytes(sent[0].1[4..8].try_into().expect("four bytes"))
}

/// A row of a key with few rows per c: it matches all bits of d, or all but the last few.
fn narrow_row(chance: &mut Pcg64Mcg, id: u32) -> (usize, Row) {
    let mask = ones(32) << chance.random_range(0..12) & ones(32);
    let c = chance.random_range(0..1 << 12);
    let d = u64::from(chance.random::<u32>() & 0xff00_0fff);
    let row = Row {
        parts: vec![Part::Bits(c, 0xffff), Part::Bits(d & mask, mask)],
        priority: chance.random_range(1..4),
        id,
        packets: 0,
    };
    (c as usize, row)
}

/// Thousands of entries come and go between packets.
///
/// They are enough to train a learned index, both in place and as a value.
#[test]
fn many_entries_are_found_with_every_classifier() {
    let key: &Key = &[("c", 16, "exact"), ("d", 32, "ternary")];
    for (seed, classifier) in (0..).zip(ClassifierKind::ALL) {
        let mut chance = Pcg64Mcg::seed_from_u64(seed);
        let config = Config {
            classifier,
            ..Config::default()
        };
        let mut bed = Bed::with(&table_program(key, 8_000), config);
        let mut rows: Vec<Vec<Row>> = vec![Vec::new(); 1 << 12];
        let (mut met, mut count) = (0, 0);
        for id in 0..30_000 {
            let (place, new) = narrow_row(&mut chance, id);
            let known = &mut rows[place];
            let is_new = |one: &Row| one.parts == new.parts && one.priority == new.priority;
            let update = match known.choose(&mut chance).cloned() {
                Some(old) if count >= 6_000 => {
                    known.retain(|one| *one != old);
                    count -= 1;
                    Update::DeleteEntry(TableId(0), matches_of(&old, key), old.priority)
                }
                _ if known.iter().any(is_new) => continue,
                _ => {
                    let entry = table_entry(matches_of(&new, key), new.priority, id);
                    known.push(new);
                    count += 1;
                    Update::InsertEntry(TableId(0), entry)
                }
            };
            bed.target.write(&[update], bed.now).expect("it fits");
            // A packet that hits some row, if one has its c.
            let mut packet = [0, 0, chance.random_range(0..1 << 12), 0];
            let rows = &mut rows[packet[2] as usize];
            let row = rows.choose(&mut chance).map(|row| &row.parts[1]);
            if let Some(Part::Bits(value, mask)) = row {
                packet[3] = value | u64::from(chance.random::<u32>()) & !mask;
            }
            let found = send_through(&mut bed, packet);
            let expected = search(rows, key, packet).map(|row| row.id);
            let told = expected.unwrap_or(u32::MAX);
            assert_eq!(found, told, "{classifier}: {packet:x?}");
            met += usize::from(expected.is_some());
        }
        assert!(met > 15_000, "{met}");
        check_choice(&mut bed, classifier);
    }
}

/// Checks that a learned index was trained; others say what they are.
fn check_choice(bed: &mut Bed, classifier: ClassifierKind) {
    let choice = bed.target.state().choice(TableId(0));
    match classifier {
        ClassifierKind::Learned => {
            let choice = choice.expect("it is trained");
            assert_eq!(choice.kind, IndexKind::Learned);
            let coverage = choice.figures.coverage;
            assert!(choice.trials >= 1 && coverage > 0.5, "{choice:?}");
        }
        ClassifierKind::Auto => assert!(choice.expect("there is one").is_measured),
        _ => assert_eq!(choice, None),
    }
}

/// Checks that each entry has counted the packets that hit it.
fn check_counts(bed: &mut Bed, rows: &[Row]) {
    let program = bed.target.program().clone();
    let entries = bed.target.state().entries(&program, TableId(0));
    let mut counted = Vec::new();
    for entry in entries {
        let state = bed.target.state();
        let found = state.entry(&program, TableId(0), &entry.matches, entry.priority);
        let EntryAction::Call(call) = entry.action else {
            panic!("an action")
        };
        let packets = found
            .expect("a match")
            .expect("it is listed")
            .counter()
            .packets;
        counted.push((call.data[0].clone(), packets));
    }
    counted.sort();
    let mut expected: Vec<_> = rows
        .iter()
        .map(|row| (BigUint::from(row.id), row.packets))
        .collect();
    expected.sort();
    assert_eq!(counted, expected, "what each entry has counted");
}

#[test]
fn writes_say_why_they_are_refused() {
    let mut bed = Bed::new(&table_program(KEYS[0], SIZE));
    let entry = |matches: Vec<Match>, action: u32, data: Vec<u64>, priority| TableEntry {
        matches,
        priority,
        action: EntryAction::Call(ActionCall {
            action: ActionId(action),
            data: data.into_iter().map(BigUint::from).collect(),
        }),
        idle_timeout_ns: 0,
    };
    let exact = |a: u64, c: u64| vec![Match::Exact(a.into()), Match::Exact(c.into())];
    let mut refused = |entry: TableEntry| {
        let written = bed
            .target
            .write(&[Update::InsertEntry(TableId(0), entry)], bed.now);
        written.expect_err("it is wrong").error
    };
    let wrong = refused(entry(exact(1, 1)[..1].to_vec(), 0, vec![1], 0));
    assert!(matches!(wrong, WriteError::InvalidArgument(_)), "{wrong}");
    let wrong = refused(entry(vec![Match::Any, Match::Any], 0, vec![1], 0));
    assert!(matches!(wrong, WriteError::InvalidArgument(_)), "{wrong}");
    let wrong = refused(entry(exact(1, 1), 0, vec![1], 5));
    assert!(matches!(wrong, WriteError::InvalidArgument(_)), "{wrong}");
    let wrong = refused(entry(exact(1, 1), 2, vec![], 0));
    assert!(matches!(wrong, WriteError::InvalidArgument(_)), "{wrong}");
    let wrong = refused(entry(exact(1, 1), 0, vec![], 0));
    assert!(matches!(wrong, WriteError::InvalidArgument(_)), "{wrong}");
    let wrong = refused(entry(exact(1, 1), 0, vec![1 << 32], 0));
    assert!(matches!(wrong, WriteError::OutOfRange(_)), "{wrong}");
    let wrong = refused(entry(exact(256, 1), 0, vec![1], 0));
    assert!(matches!(wrong, WriteError::OutOfRange(_)), "{wrong}");
    assert_eq!(wrong.to_string(), "256 does not fit into the 8 bits of a");
}

/// A masked key ignores some bits of an entry, so two entries may be the same.
#[test]
fn bits_that_the_mask_of_a_key_takes_away_are_not_asked_for() {
    for kind in ["exact", "ternary"] {
        let mut value = table_program(&[("c", 16, kind)], SIZE);
        value["pipelines"][0]["tables"][0]["key"][0]["mask"] = json!("0x00f0");
        let mut bed = Bed::new(&value);
        let insert = |number: u32| {
            let entry = TableEntry {
                matches: vec![Match::Exact(number.into())],
                priority: u32::from(kind == "ternary"),
                action: EntryAction::Call(ActionCall {
                    action: ActionId(0),
                    data: vec![7_u32.into()],
                }),
                idle_timeout_ns: 0,
            };
            Update::InsertEntry(TableId(0), entry)
        };
        bed.target.write(&[insert(0xa5f1)], bed.now).expect("one");
        let twice = bed.target.write(&[insert(0x00f2)], bed.now);
        let error = twice.expect_err("it is there").error;
        assert!(matches!(error, WriteError::AlreadyExists(_)), "{error}");
        let mut last = |c: u16| {
            let [high, low] = c.to_be_bytes();
            bed.receive(1, &[0, 0, high, low, 0, 0, 0, 0])[0].1[7]
        };
        assert_eq!([last(0x00f0), last(0x12f3), last(0x00e1)], [7, 7, 0xff]);
    }
}

/// A table with three entries that have these priorities.
fn with_entries(priorities: [u64; 3]) -> Value {
    let mut value = table_program(&[("a", 8, "ternary")], 3);
    let entry = |(priority, id): (u64, u32)| {
        json!({"match_key": [{"match_type": "ternary", "key": "0x00", "mask": "0x00"}],
            "priority": priority,
            "action_entry": {"action_id": 0, "action_data": [format!("{id:#x}")]}})
    };
    let entries: Vec<Value> = priorities.into_iter().zip(1..).map(entry).collect();
    let mut apart = entries;
    // All three match a packet with a = 0, under different masks.
    for (index, bits) in [(0, "0x01"), (1, "0x02"), (2, "0x04")] {
        apart[index]["match_key"][0]["mask"] = json!(bits);
    }
    value["pipelines"][0]["tables"][0]["entries"] = json!(apart);
    value
}

/// In the JSON the smaller priority wins, and among equals the first entry. Here priorities are
/// distinct, from the number of entries down to 1.
#[test]
fn the_programs_entries_are_ranked() {
    for (priorities, expected, winner) in [
        ([1, 2, 3], [3, 2, 1], 1),
        ([9, 2, 700], [2, 3, 1], 2),
        ([5, 5, 5], [3, 2, 1], 1),
        ([5, 5, 0], [2, 1, 3], 3),
    ] {
        let mut bed = Bed::new(&with_entries(priorities));
        let program = bed.target.program().clone();
        let ranks = program.tables[0].entries.iter().map(|one| one.priority);
        assert_eq!(ranks.collect::<Vec<_>>(), expected, "{priorities:?}");
        assert_eq!(send_through(&mut bed, [0; 4]), winner, "{priorities:?}");
    }
}

/// A table that is opened accepts writes, and has the given capacity.
#[test]
fn a_table_that_is_opened_takes_entries() {
    use thalweg_p4::{Program, Target};
    let value = with_entries([1, 2, 3]);
    let new = |id: u32| {
        let matches = vec![Match::Ternary(0_u8.into(), 0xff_u8.into())];
        Update::InsertEntry(TableId(0), table_entry(matches, id, id))
    };
    let mut closed = Bed::new(&value);
    let refused = closed.target.write(&[new(4)], closed.now);
    let error = refused.map_err(|failed| failed.error);
    assert!(matches!(error, Err(WriteError::PermissionDenied(_))));
    let mut program = Program::from_json(&value.to_string()).expect("a program");
    program.open_table(TableId(0), 4);
    let target = Target::new(program.into(), Config::default());
    closed.target = target.expect("own entries");
    let mut bed = closed;
    bed.target.write(&[new(4)], bed.now).expect("it is open");
    assert_eq!(send_through(&mut bed, [0; 4]), 4);
    let full = bed.target.write(&[new(5)], bed.now);
    let error = full.map_err(|failed| failed.error);
    assert!(matches!(error, Err(WriteError::ResourceExhausted(_))));
    // The program's own entries can be deleted like others.
    let own = vec![Match::Ternary(0_u8.into(), 1_u8.into())];
    let gone = Update::DeleteEntry(TableId(0), own, 3);
    bed.target
        .write(&[gone, new(5)], bed.now)
        .expect("it has room");
    assert_eq!(send_through(&mut bed, [0; 4]), 5);
}
