//! The programs of `examples/p4` with and without a cache, under random packets and writes.
//!
//! Packets, digests, counters, meters and registers must be the same.

use rand::Rng;
use thalweg_p4::cache::behavior::BehaviorConfig;
use thalweg_p4::{CacheConfig, Program, commands};
use thalweg_packet::checksum::checksum;
use thalweg_workload::IS_OPTIMISED;

use crate::examples::text;
use crate::lab::{Chance, Twins};

/// Packets for each program and cache; `THALWEG_P4_CHECKS` sets another total.
const PACKETS: u64 = if IS_OPTIMISED { 4_000 } else { 400 };

const PROGRAMS: [&str; 5] = [
    "switch_1",
    "switch_2",
    "switch_3",
    "switch_4",
    "switchv2p/switchv2p",
];

fn packets() -> u64 {
    let wanted = std::env::var("THALWEG_P4_CHECKS");
    wanted.map_or(PACKETS, |wanted| {
        let wanted: u64 = wanted.parse().expect("a number of packets");
        wanted.div_ceil(2 * PROGRAMS.len() as u64)
    })
}

/// The packets of the switch's network, with and without a tag.
pub(crate) fn templates() -> Vec<(u32, Vec<u8>)> {
    let mut all = Vec::new();
    let stations = [
        [2, 0, 0, 0, 0, 1],
        [2, 0, 0, 0, 0, 2],
        [2, 0xff, 0, 0, 0, 10],
    ];
    for (port, destination) in [(1, stations[1]), (1, stations[2]), (2, stations[0])] {
        for (tag, protocol) in [(None, 6), (None, 17), (Some(10_u16), 17)] {
            let mut bytes = destination.to_vec();
            bytes.extend([2, 0, 0, 0, 0, port]);
            if let Some(tag) = tag {
                bytes.extend([0x81, 0]);
                bytes.extend(tag.to_be_bytes());
            }
            let mut ip = [
                0x45, 0, 0, 46, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 10, port, 10, 0, 20, 3,
            ];
            let sum = checksum(&ip);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            bytes.extend([8, 0]);
            bytes.extend(ip);
            bytes.extend([4, 0, 0, 80]);
            bytes.resize(64, 0);
            let into = if tag.is_some() { 3 } else { port.into() };
            all.push((into, bytes));
        }
    }
    all
}

/// Entries of a top-of-rack switch that caches virtual addresses.
const FABRIC: &str = "
    table_set_default self set_self => 1 10.8.0.1 1 0 4294967295 12
    table_add port set_host 1 => 10.1.0.1
    table_add port set_host 2 => 10.1.0.2
    table_add gateway set_unresolved 10.9.0.1 =>
    table_add pod_of set_pod 10.1.0.1 => 0
    table_add tor_of_destination set_tor_of_destination 10.1.0.2 => 0
    table_add tor_of_sender set_learner 10.1.0.1 => 0
    table_add route forward 10.9.0.1/32 => 9
    table_add route forward 10.1.0.1/32 => 1
    table_add route forward 10.1.0.2/32 => 2
    table_add switch_address set_switch_address 1 => 10.8.0.1
    table_add control_route send_control 10.8.0.1/32 => 3
";

/// A tenant's frame in Geneve, to a gateway or to the other host.
fn fabric_templates() -> Vec<(u32, Vec<u8>)> {
    let mut all = Vec::new();
    for (port, destination) in [(1, [10, 9, 0, 1]), (2, [10, 9, 0, 1]), (1, [10, 1, 0, 2])] {
        for last in 1..4 {
            let mut inner = vec![2, 0, 0, 0, 1, last, 2, 0, 0, 0, 1, port, 8, 0];
            inner.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 6, 0, 0]);
            inner.extend([172, 16, 0, port, 172, 16, 0, last]);
            let length = 20 + 8 + 8 + inner.len() as u8;
            let mut ip = vec![0x45, 0, 0, length, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, port];
            ip.extend(destination);
            let sum = checksum(&ip);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            let mut bytes = vec![2, 1, 2, 3, 4, 5, 2, 9, 8, 7, 6, 5, 8, 0];
            bytes.extend(ip);
            bytes.extend([0xc0, 0, 0x17, 0xc1, 0, length - 20, 0, 0]);
            bytes.extend([0, 0, 0x65, 0x58, 0, 0, 7, 0]);
            bytes.extend(inner);
            all.push((port.into(), bytes));
        }
    }
    all
}

fn twins(name: &str, cache: CacheConfig) -> (Twins, Vec<(u32, Vec<u8>)>) {
    let program = Program::from_json(&text(&format!("{name}.json"))).expect("a program");
    let mut twins = Twins::new(program, cache);
    let (entries, templates) = match name.contains('/') {
        true => (FABRIC.to_owned(), fabric_templates()),
        false => (text(&format!("{name}.cmds")), templates()),
    };
    let commands = commands::parse(&entries, &twins.program).expect("commands");
    let updates: Vec<_> = commands.into_iter().map(|one| one.update).collect();
    assert!(twins.write(&updates, name));
    (twins, templates)
}

/// Plays packets with a write every twelfth; compares cached segments with new recordings.
fn play(twins: &mut Twins, templates: Vec<(u32, Vec<u8>)>, name: &str, seed: u64) {
    let mut chance = Chance::new(twins, templates, seed);
    for update in chance.members_and_groups() {
        twins.write(&[update], name);
    }
    for step in 0..packets() {
        let packet = chance.packet();
        twins.receive(&packet, &format!("{name}, step {step}"));
        if chance.random.random_ratio(1, 12) {
            let updates = chance.updates();
            let what = format!("{name}, step {step}, after {updates:?}");
            twins.write(&updates, &what);
            if chance.random.random_ratio(1, 4) {
                twins.check(&what);
                twins.compare(&what);
            }
        }
    }
    twins.check(name);
    twins.compare(name);
}

#[test]
fn traversals_of_the_examples_are_walks_of_the_examples() {
    for (seed, name) in (0..).zip(PROGRAMS) {
        let config = CacheConfig {
            record_one_in: 1 + seed as u32 % 3,
            ..CacheConfig::default()
        };
        let (mut twins, templates) = twins(name, config);
        play(&mut twins, templates, name, seed);
        let statistics = twins.cached.cache_statistics().expect("a cache");
        let hits = statistics.exact_hits + statistics.masked_hits;
        println!("{name}: {statistics:?}");
        assert!(hits > packets() / 4, "{name}: {hits} hits");
        assert!(statistics.recorded > 50, "{name}: {statistics:?}");
    }
}

#[test]
fn behaviors_of_the_examples_are_walks_of_the_examples() {
    for (seed, name) in (0..).zip(PROGRAMS) {
        let (mut twins, templates) = twins(name, CacheConfig::default());
        twins.cached.cache_traversals(None);
        twins.cached.cache_behaviors(Some(BehaviorConfig {
            entries: [12, 1_000][seed as usize % 2],
            threshold: seed as u16 % 2,
            ..BehaviorConfig::default()
        }));
        play(&mut twins, templates, name, seed);
        let counts = twins.cached.behavior_counts().expect("a cache");
        println!("{name}: {counts:?}");
        assert!(counts.hits > packets() / 8, "{name}: {counts:?}");
        assert!(
            counts.installed > 20 && counts.affected > 0,
            "{name}: {counts:?}"
        );
    }
}
