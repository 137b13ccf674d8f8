//! A cache that finds nothing looks up few packets, and wakes when it is useful again.

use thalweg_p4::cache::behavior::BehaviorConfig;
use thalweg_p4::{CacheConfig, Program, commands};

use crate::examples::text;
use crate::lab::Twins;
use crate::remembered::templates;

/// Packets after which a useless cache rests; then it looks up a sixteenth of them.
const PERIOD: u64 = 4_096;
const BURST: u64 = 256;

fn twins() -> Twins {
    let program = Program::from_json(&text("switch_2.json")).expect("a program");
    let mut twins = Twins::new(program, CacheConfig::default());
    let commands = commands::parse(&text("switch_2.cmds"), &twins.program).expect("commands");
    let updates: Vec<_> = commands.into_iter().map(|one| one.update).collect();
    assert!(twins.write(&updates, "entries"));
    twins
}

/// Gives both the same packet again and again.
fn send(twins: &mut Twins, packets: u64) {
    let packet = templates().remove(0);
    for _ in 0..packets {
        twins.receive(&packet, "a packet");
    }
}

#[test]
fn a_cache_of_traversals_rests_and_wakes() {
    let mut twins = twins();
    // Nothing is recorded, so nothing is found.
    twins.cached.record_traversals(0);
    send(&mut twins, 3 * PERIOD);
    let statistics = twins.cached.cache_statistics().expect("a cache").clone();
    // Ingress and egress have one start each.
    assert_eq!(statistics.starts, 2, "{statistics:?}");
    assert_eq!(statistics.misses, 2 * (PERIOD + 2 * BURST));
    assert_eq!(statistics.rested, 2 * 2 * (PERIOD - BURST));
    twins.cached.record_traversals(1);
    send(&mut twins, 3 * PERIOD);
    let woken = twins.cached.cache_statistics().expect("a cache").clone();
    assert_eq!(woken.rested, statistics.rested + 2 * (PERIOD - BURST));
    let hits = woken.exact_hits + woken.masked_hits;
    assert_eq!(hits, 2 * (2 * PERIOD + BURST - 1), "{woken:?}");
    twins.compare("all");
}

#[test]
fn a_cache_of_behaviors_rests_and_wakes() {
    let mut twins = twins();
    twins.cached.cache_traversals(None);
    twins.cached.cache_behaviors(Some(BehaviorConfig {
        threshold: u16::MAX,
        ..BehaviorConfig::default()
    }));
    send(&mut twins, 3 * PERIOD);
    let counts = twins.cached.behavior_counts().expect("a cache").clone();
    assert_eq!(counts.misses, 2 * (PERIOD + 2 * BURST), "{counts:?}");
    assert_eq!(counts.rested, 2 * 2 * (PERIOD - BURST));
    twins.cached.set_behavior_threshold(0);
    send(&mut twins, 3 * PERIOD);
    let woken = twins.cached.behavior_counts().expect("a cache").clone();
    assert_eq!(woken.rested, counts.rested + 2 * (PERIOD - BURST));
    assert_eq!(woken.hits, 2 * (2 * PERIOD + BURST - 1), "{woken:?}");
    twins.compare("all");
}
