//! Measures the cost of one packet in chains of tables and in B-Cache's four cases.
//!
//! The chains have one, ten, thirty and fifty tables.
//!
//! Each program runs without a cache, with a traversal cache that always hits, with one that
//! always misses, and with a behaviour cache that hits.
//!
//! The programs are those of `$THALWEG_SHARED/data/p4` (chain, l2l3). Packets have 60 bytes
//! without the frame check sequence, which is 64 on a wire. docs/b-cache.md compares with
//! simple_switch, built with optimisation and without logging macros.

#![expect(missing_docs, reason = "criterion's macro makes a public function")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};
use thalweg_p4::cache::behavior::BehaviorConfig;
use thalweg_p4::{CacheConfig, ClassifierKind, Config, Outbox, Program, Target, commands};
use thalweg_packet::Instant;

fn folder() -> PathBuf {
    let shared = std::env::var_os("THALWEG_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    shared.join("data/p4")
}

fn text(program: &str) -> String {
    let path = folder().join(program);
    std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; set THALWEG_SHARED", path.display()))
}

/// Copies tables of the chain of thirty until it has `tables` tables.
fn chain(tables: usize) -> String {
    let mut value: Value = serde_json::from_str(&text("chain/chain_30.json")).expect("JSON");
    let list = value["pipelines"][0]["tables"]
        .as_array_mut()
        .expect("an array");
    let last = list.pop().expect("the last");
    let there = list.len();
    for number in there..tables - 1 {
        let mut table = list[number - 4].clone();
        table["name"] = json!(format!("t{number}"));
        table["id"] = json!(1_000 + number);
        list.push(table);
    }
    for (number, table) in list.iter_mut().enumerate().skip(there - 1) {
        let next = match number + 2 < tables {
            true => json!(format!("t{}", number + 1)),
            false => last["name"].clone(),
        };
        table["base_default_next"] = next.clone();
        for after in table["next_tables"]
            .as_object_mut()
            .expect("an object")
            .values_mut()
        {
            *after = next.clone();
        }
    }
    list.push(last);
    value.to_string()
}

fn target(program: &str, entries: &str) -> Target {
    let program = Arc::new(Program::from_json(program).expect("a program"));
    let commands = commands::parse(entries, &program).expect("commands");
    let mut target = Target::new(program, Config::default()).expect("a target");
    let updates: Vec<_> = commands.into_iter().map(|command| command.update).collect();
    target.write(&updates, Instant::ZERO).expect("entries");
    target
}

/// Builds a UDP packet over IPv4 of 60 bytes.
fn packet(dst_mac: [u8; 6]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(dst_mac);
    bytes.extend([2, 0, 0, 0, 0, 1, 8, 0]);
    let mut ip = [
        0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 9, 200, 1,
    ];
    let checksum = thalweg_packet::checksum::checksum(&ip);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend(ip);
    bytes.extend([4, 0, 0, 53, 0, 26, 0, 0]);
    bytes.resize(60, 0);
    bytes
}

/// A cache without room: each packet is looked up, recorded and forgotten.
const MISS: CacheConfig = CacheConfig {
    segments: 0,
    microflows: 0,
    record_one_in: 1,
    rests: false,
    classifier: ClassifierKind::Auto,
};

/// Installs a cache in front of a program.
type Front = fn(&mut Target);

/// The caches to measure, by name.
const CACHES: [(&str, Front); 4] = [
    ("no cache", |_| ()),
    ("hit", |target| {
        target.cache_traversals(Some(CacheConfig::default()));
    }),
    ("miss", |target| target.cache_traversals(Some(MISS))),
    ("behaviour hit", |target| {
        target.cache_behaviors(Some(BehaviorConfig::default()));
    }),
];

fn run(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("p4 packet");
    let mut cases = Vec::new();
    for tables in [1, 10, 30, 50] {
        let program = match tables {
            50 => chain(tables),
            _ => text(&format!("chain/chain_{tables}.json")),
        };
        cases.push((format!("chain of {tables}"), program, String::new()));
    }
    for case in 1..=4 {
        let entries = folder().join(format!("l2l3/l2l3_{case}.cmds"));
        let entries = std::fs::read_to_string(entries).expect("entries");
        let program = text(&format!("l2l3/l2l3_{case}.json"));
        cases.push((format!("l2l3 case {case}"), program, entries));
    }
    let packet = packet([2, 0, 0, 0, 0, 2]);
    let all = cases
        .iter()
        .flat_map(|case| CACHES.map(|(cache, set)| (case, cache, set)));
    for ((case, program, entries), cache, set) in all {
        let name = format!("{case}, {cache}");
        let mut target = target(program, entries);
        set(&mut target);
        let mut outbox = Outbox::new();
        let mut now = 0;
        target.receive(1, &packet, Instant::ZERO, &mut outbox);
        assert_eq!(outbox.sent().count(), 1, "{name}: the packet must leave");
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                outbox.clear();
                now += 100_000;
                target.receive(1, &packet, Instant::from_nanos(now), &mut outbox);
                std::hint::black_box(outbox.sent().count())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, run);
criterion_main!(benches);
