//! Cache on equals cache off equals the plain interpreter, for p4c's, BMv2's and B-Cache's
//! programs.
//!
//! Each program gets its own packets and entries, then random packets and writes that resemble
//! them. The results are compared after each packet. At intervals so are all counters, meters
//! and registers, and each cached segment with a new recording. `THALWEG_P4_CHECKS` asks for
//! more packets than the default.

#[path = "../files/mod.rs"]
mod files;
mod lab;

use std::path::Path;

use files::{files, folder};
use lab::{Chance, Twins};
use rand::Rng;
use thalweg_p4::stf::{Script, Statement, run};
use thalweg_p4::{CacheConfig, ClassifierKind, EvictReason, Program, commands};
use thalweg_workload::IS_OPTIMISED;

/// Minimum number of packets that a run compares.
const CHECKS: u64 = if IS_OPTIMISED { 60_000 } else { 6_000 };

fn wanted_checks() -> u64 {
    let wanted = std::env::var("THALWEG_P4_CHECKS");
    wanted.map_or(CHECKS, |wanted| {
        wanted.parse().expect("a number of packets")
    })
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A cache that fills up soon, or never, with each classifier in turn.
fn config(seed: u64) -> CacheConfig {
    let config = CacheConfig {
        record_one_in: 1,
        classifier: ClassifierKind::ALL[seed as usize % ClassifierKind::ALL.len()],
        ..CacheConfig::default()
    };
    match seed % 3 {
        0 => CacheConfig {
            segments: 12,
            microflows: 8,
            rests: false,
            ..config
        },
        1 => CacheConfig {
            segments: 1_000,
            microflows: 0,
            record_one_in: 3,
            rests: false,
            ..config
        },
        _ => config,
    }
}

/// Totals over all runs, to check that every case occurred.
#[derive(Default)]
struct Met {
    packets: u64,
    hits: u64,
    misses: u64,
    visits: u64,
    evictions: [u64; EvictReason::ALL.len()],
}

impl Met {
    fn add(&mut self, twins: &Twins) {
        let statistics = twins.cached.cache_statistics().expect("a cache");
        self.packets += twins.packets;
        self.hits += statistics.exact_hits + statistics.masked_hits;
        self.misses += statistics.misses;
        self.visits += statistics.visits;
        for (sum, reason) in self.evictions.iter_mut().zip(EvictReason::ALL) {
            *sum += statistics.evictions(reason);
        }
    }

    fn print(&self, what: &str) {
        let evictions = EvictReason::ALL.map(EvictReason::name);
        let evictions: Vec<_> = evictions.iter().zip(self.evictions).collect();
        println!(
            "{what}: {} packets, {} hits, {} misses, {} visits, evictions {evictions:?}",
            self.packets, self.hits, self.misses, self.visits
        );
    }
}

/// Plays random packets and writes.
fn play(twins: &mut Twins, chance: &mut Chance, packets: u64, what: &str) {
    for update in chance.members_and_groups() {
        twins.write(&[update], what);
    }
    for step in 0..packets {
        let packet = chance.packet();
        twins.receive(&packet, what);
        if chance.random.random_ratio(1, 6) {
            let updates = chance.updates();
            twins.write(&updates, what);
            if chance.random.random_ratio(1, 4) {
                twins.check(&format!("{what}, step {step}, after {updates:?}"));
            }
        }
        if chance.random.random_ratio(1, 40) {
            twins.compare(&format!("{what}, step {step}"));
        }
    }
    twins.check(what);
    twins.compare(what);
}

/// Every vector of p4c passes with the cache on repeated packets, then with random ones.
#[test]
fn every_vector_of_p4c() {
    let scripts = files("stf", ".stf");
    assert!(scripts.len() >= 165, "only {} vectors", scripts.len());
    let share = wanted_checks() / scripts.len() as u64;
    let mut met = Met::default();
    for (seed, path) in (0..).zip(&scripts) {
        let what = path.file_stem().expect("a name").to_string_lossy();
        let program = Program::from_json(&text(&path.with_extension("json"))).expect("a program");
        let script = Script::parse(&text(path)).expect("a script");
        let mut twins = Twins::new(program, config(seed));
        assert_eq!(run(&script, &mut twins.plain), [], "{what}");
        assert_eq!(run(&script, &mut twins.cached), [], "{what}");
        twins.compare(&what);
        let mut templates = Vec::new();
        for (_, statement) in &script.statements {
            if let Statement::Packet { port, bytes } = statement {
                templates.push((*port, bytes.clone()));
            }
        }
        twins.now = thalweg_packet::Instant::from_nanos(1_000_000);
        for _ in 0..3 {
            for packet in &templates {
                twins.receive(packet, &what);
            }
        }
        if templates.is_empty() {
            templates.push((1, vec![0; 64]));
        }
        let mut chance = Chance::new(&mut twins, templates, seed);
        play(&mut twins, &mut chance, share, &what);
        met.add(&twins);
    }
    met.print("stf");
    assert!(met.hits > met.misses);
}

/// An Ethernet packet with or without a tag, and IPv4 with UDP or TCP.
fn packet(tag: Option<u16>, protocol: u8, last: u8) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    if let Some(tag) = tag {
        bytes.extend([0x81, 0]);
        bytes.extend(tag.to_be_bytes());
    }
    bytes.extend([8, 0]);
    let mut ip = [
        0x45, 0, 0, 46, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 9, 200, last,
    ];
    let checksum = thalweg_packet::checksum::checksum(&ip);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend(ip);
    bytes.extend([4, 0, 0, 53, 0, 26, 0, 0]);
    bytes.resize(64, 0);
    bytes
}

fn templates() -> Vec<(u32, Vec<u8>)> {
    let mut all = Vec::new();
    for tag in [None, Some(10), Some(7)] {
        for protocol in [17, 6, 1] {
            for last in [1, 2] {
                all.push((1, packet(tag, protocol, last)));
            }
        }
    }
    all
}

#[test]
fn the_four_cases_and_the_chain() {
    let mut met = Met::default();
    let mut names: Vec<_> = (1..=4).map(|case| format!("l2l3/l2l3_{case}")).collect();
    names.extend([1, 10, 30].map(|tables| format!("chain/chain_{tables}")));
    let share = wanted_checks() / (3 * names.len() as u64);
    for name in &names {
        for seed in 0..3 {
            let path = folder(&format!("{name}.json"));
            let program = Program::from_json(&text(&path)).expect("a program");
            let mut twins = Twins::new(program, config(seed));
            let entries = std::fs::read_to_string(path.with_extension("cmds"));
            let entries = entries.unwrap_or_default();
            let commands = commands::parse(&entries, &twins.program).expect("commands");
            let updates: Vec<_> = commands.into_iter().map(|one| one.update).collect();
            assert!(twins.write(&updates, name));
            let mut chance = Chance::new(&mut twins, templates(), seed);
            play(&mut twins, &mut chance, share, name);
            met.add(&twins);
        }
    }
    met.print("cases and chain");
    assert!(met.hits > met.misses && met.visits == 0);
    let reasons = [
        EvictReason::Inserted,
        EvictReason::Removed,
        EvictReason::Default,
    ];
    assert!(
        reasons
            .iter()
            .all(|&reason| met.evictions[reason as usize] > 0)
    );
}

#[test]
fn programs_of_bmv2_and_the_large_ones() {
    let mut met = Met::default();
    let mut paths = files("bmv2-testdata", ".json");
    paths.extend(files("large", ".json"));
    let programs: Vec<_> = paths
        .iter()
        .filter_map(|path| Some((path, Program::from_json(&text(path)).ok()?)))
        .collect();
    assert!(programs.len() > 20, "only {} programs", programs.len());
    let share = wanted_checks() / 2 / programs.len() as u64;
    for (seed, (path, program)) in (0..).zip(programs) {
        let what = path.file_stem().expect("a name").to_string_lossy();
        let mut twins = Twins::new(program, config(seed));
        let mut chance = Chance::new(&mut twins, templates(), seed);
        play(&mut twins, &mut chance, share, &what);
        met.add(&twins);
    }
    met.print("bmv2 and large");
}
