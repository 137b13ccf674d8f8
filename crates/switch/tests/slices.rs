//! Changes followed in slices, with packets between any two: which answers packets get, and
//! when.
//!
//! Every answer is audited: until the change is acknowledged it must be that of the previous
//! version, and from then on that of the new one.

#[path = "lab/brute.rs"]
mod brute;

use std::sync::Arc;

use brute::Bench;
use thalweg_datapath::{EvictReason, MaintainerKind, Outcome};
use thalweg_packet::Instant;
use thalweg_pipeline::{Change, Counters, RuleId};
use thalweg_switch::{Config, Step};
use thalweg_workload::IS_OPTIMISED;

const SEEDS: u64 = if IS_OPTIMISED { 240 } else { 20 };

/// Bytes of caches that hold a few dozen entries, or a hundred.
const TIGHT: [usize; 2] = [6_000, 24_000];

fn bench(kind: MaintainerKind, seed: u64, slice: usize) -> Bench {
    bench_within(usize::MAX, kind, seed, slice)
}

/// One whose caches have at most `bytes` bytes.
fn bench_within(bytes: usize, kind: MaintainerKind, seed: u64, slice: usize) -> Bench {
    let mut config = Config {
        is_audited: true,
        ..Config::default()
    };
    config.datapath.slice = slice;
    config.datapath.requests_from = 2;
    config.datapath.megaflow.bytes = bytes;
    let is_broad = seed % 2 == 1;
    let mut bench = match seed % 6 / 2 {
        1 => Bench::conjoining(kind, is_broad, seed, config),
        _ => Bench::with(kind, is_broad, seed, config),
    };
    bench.engine.outbox().grows = true;
    bench
}

fn stale(bench: &Bench) -> u64 {
    bench.engine.audit().expect("it is audited").stale
}

/// Follows a change to its end, with packets between the slices; returns the numbers of slices
/// before and after the version moved.
fn follow(bench: &mut Bench, packets: usize) -> (u64, u64) {
    let (mut preparing, mut repairing) = (0, 0);
    loop {
        match bench.engine.step() {
            Step::Preparing => preparing += 1,
            Step::Repairing => repairing += 1,
            Step::Settled(_) => return (preparing, repairing),
        }
        // Learned stations would be the next change, which waits for this one.
        bench.forward_untaught(packets);
    }
}

/// A change that affects many entries.
fn bundle(bench: &mut Bench) -> Change {
    let changes = (0..10).flat_map(|_| bench.next_changes());
    let operations = changes.flat_map(|change| change.operations);
    Change {
        operations: operations.collect(),
    }
}

#[test]
fn i6_packets_between_slices_get_the_answers_of_one_version_or_the_other() {
    let (mut preparing, mut repairing) = (0, 0);
    for seed in 0..SEEDS {
        let kind = [MaintainerKind::Incremental, MaintainerKind::Barrier][seed as usize % 2];
        let mut bench = bench(kind, seed, 1);
        bench.forward(150);
        for round in 0..12 {
            let changes = match round % 3 {
                0 => vec![bundle(&mut bench)],
                _ => bench.any_changes(),
            };
            for change in changes {
                let started = bench.engine.start(&change, Instant::ZERO);
                started.expect("generated changes are right");
                let slices = follow(&mut bench, 3);
                preparing += slices.0;
                repairing += slices.1;
            }
            assert_eq!(stale(&bench), 0, "{} seed {seed}", kind.name());
            bench.check(&format!("{} seed {seed}, change {round}", kind.name()));
            bench.forward(10);
        }
    }
    // Otherwise nothing was tested: if one slice finds everything, no packets come in between.
    let slices = format!("{preparing} and {repairing} slices");
    assert!(preparing > SEEDS && repairing > 10 * SEEDS, "{slices}");
}

/// Number of entries evicted for lack of room.
fn crowded_out(bench: &Bench) -> u64 {
    let statistics = bench.engine.datapath().statistics();
    statistics.evictions(EvictReason::Capacity)
}

/// Nodes that only evicted entries depended on are removed from the record, and their numbers
/// are reused for new entries. A finished search must not confuse the two.
#[test]
fn entries_that_come_and_go_while_a_change_is_prepared_are_repaired() {
    let mut replaced = 0;
    for seed in 0..SEEDS {
        let bytes = TIGHT[seed as usize / 2 % 2];
        let mut bench = bench_within(bytes, MaintainerKind::Incremental, seed, 1);
        bench.forward(150);
        for round in 0..12 {
            let change = bundle(&mut bench);
            let started = bench.engine.start(&change, Instant::ZERO);
            started.expect("generated changes are right");
            let before = crowded_out(&bench);
            bench.forward_untaught(60);
            while bench.engine.step() == Step::Preparing {
                bench.forward_untaught(20);
            }
            replaced += crowded_out(&bench) - before;
            bench.engine.settle();
            bench.forward_untaught(20);
            assert_eq!(stale(&bench), 0, "seed {seed}, change {round}");
            bench.check(&format!("seed {seed}, change {round}"));
        }
    }
    assert!(replaced > 100 * SEEDS, "only {replaced} made room");
}

/// Idle entries leave at any time while a change is followed: answers stay right, and nothing
/// that they counted is lost.
#[test]
fn entries_without_packets_leave_while_a_change_is_followed() {
    let mut evicted = 0;
    for seed in 0..SEEDS / 4 {
        let kind = [MaintainerKind::Incremental, MaintainerKind::Barrier][seed as usize % 2];
        let [mut leaving, mut staying] = [(); 2].map(|()| bench(kind, seed / 2, 1));
        forward_to_both(&mut leaving, &mut staying, 150);
        let mut from = 0;
        for round in 0..8 {
            let change = bundle(&mut leaving);
            let started = leaving.engine.start(&change, Instant::ZERO);
            started.expect("generated changes are right");
            let mut acknowledged = false;
            loop {
                let step = leaving.engine.step();
                if !acknowledged && step != Step::Preparing {
                    acknowledged = true;
                    let applied = staying.engine.apply(&change, Instant::ZERO);
                    applied.expect("generated changes are right");
                }
                if matches!(step, Step::Settled(_)) {
                    break;
                }
                // All packets come at the start of time.
                let next = leaving.engine.evict_idle(from, 5, Instant::from_nanos(1));
                from = next.unwrap_or(0);
                forward_to_both(&mut leaving, &mut staying, 3);
            }
            assert_eq!(stale(&leaving), 0, "{} seed {seed}", kind.name());
            leaving.check(&format!("{} seed {seed}, change {round}", kind.name()));
        }
        leaving.engine.settle();
        staying.engine.settle();
        let context = format!("{} seed {seed}", kind.name());
        assert_eq!(all_counted(&leaving), all_counted(&staying), "{context}");
        let statistics = leaving.engine.datapath().statistics();
        evicted += statistics.evictions(EvictReason::Idle);
        let statistics = staying.engine.datapath().statistics();
        assert_eq!(statistics.evictions(EvictReason::Idle), 0);
    }
    assert!(evicted > 2 * SEEDS, "only {evicted} were idle");
}

#[test]
fn an_upcall_takes_the_place_of_an_entry_that_waits_for_its_repair() {
    let mut replaced = 0;
    for seed in 0..SEEDS / 4 {
        let mut bench = bench(MaintainerKind::Incremental, seed, 1);
        let packets = bench.sample_untaught(150);
        bench.forward_all(&packets);
        for _ in 0..6 {
            for change in bench.any_changes() {
                let evicted = bench.evicted();
                let started = bench.engine.start(&change, Instant::ZERO);
                started.expect("generated changes are right");
                while bench.engine.step() == Step::Preparing {}
                bench.forward_all(&packets);
                assert_eq!(stale(&bench), 0, "seed {seed}");
                replaced += bench.evicted() - evicted;
            }
        }
        bench.engine.settle();
        bench.check(&format!("seed {seed}"));
    }
    assert!(replaced > SEEDS / 4, "only {replaced} were replaced");
}

#[test]
fn lazy_answers_as_before_until_the_sweep_has_come_by() {
    let mut stale_packets = 0;
    for seed in 0..SEEDS / 4 {
        let mut bench = bench(MaintainerKind::Lazy, seed, 1);
        let packets = bench.sample_untaught(150);
        bench.forward_all(&packets);
        for round in 0..6 {
            for change in bench.next_changes() {
                let applied = bench.engine.apply(&change, Instant::ZERO);
                applied.expect("generated changes are right");
            }
            let before = stale(&bench);
            bench.forward_all(&packets[..20]);
            stale_packets += stale(&bench) - before;
            // Once all is settled, all answers are right.
            bench.engine.settle();
            let before = stale(&bench);
            bench.forward_all(&packets);
            assert_eq!(stale(&bench), before, "seed {seed}, round {round}");
            bench.check(&format!("lazy seed {seed}, change {round}"));
        }
    }
    assert!(stale_packets > 0, "the measure is dead");
}

/// Entries walked elsewhere, with packets before and after. Some are evicted or replaced
/// meanwhile, and their numbers reused.
#[test]
fn entries_that_are_walked_elsewhere_are_as_right_as_others() {
    let (mut asked, mut elsewhere, mut here, mut replaced) = (0, 0, 0, 0);
    for seed in 0..SEEDS {
        let bytes = [usize::MAX, TIGHT[1]][seed as usize % 2];
        let mut bench = bench_within(bytes, MaintainerKind::Incremental, seed / 2, 1);
        bench.forward(150);
        for round in 0..12 {
            let change = bundle(&mut bench);
            let started = bench.engine.start(&change, Instant::ZERO);
            started.expect("generated changes are right");
            let mut step = bench.engine.step();
            while step == Step::Preparing {
                bench.forward_untaught(3);
                step = bench.engine.step();
            }
            let evicted = bench.evicted();
            if let Some(requests) = bench.engine.request_walks() {
                asked += 1;
                assert_eq!(bench.engine.step(), Step::Repairing, "it waits");
                bench.forward_untaught(seed as usize % 4 * 20);
                let walks = bench.engine.walk(&requests).expect("there is a record");
                bench.forward_untaught(seed as usize / 4 % 4 * 20);
                replaced += bench.evicted() - evicted;
                bench.engine.accept(walks);
            }
            while step == Step::Repairing {
                step = bench.engine.step();
                if let Step::Settled(work) = step {
                    elsewhere += work.walked_elsewhere;
                    here += work.examined - work.walked_elsewhere;
                }
                bench.forward_untaught(3);
            }
            assert_eq!(stale(&bench), 0, "seed {seed}, change {round}");
            bench.check(&format!("seed {seed}, change {round}"));
        }
    }
    let counts = format!("{asked} asked, {elsewhere} elsewhere, {here} here, {replaced} replaced");
    assert!(
        asked > SEEDS / 2 && elsewhere > 10 * SEEDS && here > SEEDS && replaced > SEEDS / 8,
        "{counts}"
    );
}

/// Repairs with memory make masks longer, but only up to the limit.
#[test]
fn a_walk_that_would_make_its_mask_too_long_is_made_anew() {
    let mut anew = 0;
    for seed in 0..SEEDS / 4 {
        let mut config = Config::default();
        config.datapath.mask_growth = seed as u32 % 3;
        let mut bench = Bench::with(MaintainerKind::Incremental, seed % 2 == 1, seed, config);
        bench.engine.outbox().grows = true;
        bench.forward(150);
        for round in 0..12 {
            let change = bundle(&mut bench);
            let applied = bench.engine.apply(&change, Instant::ZERO);
            applied.expect("generated changes are right");
            for entry in bench.engine.datapath().entries() {
                let bits: u32 = entry.mask.iter().map(|word| word.count_ones()).sum();
                let repair = entry.last_repair.iter();
                let mut remembered = repair.filter(|repair| repair.recalled > 0);
                assert!(
                    remembered.all(|repair| bits <= repair.searched_bits + seed as u32 % 3),
                    "seed {seed}, change {round}: {bits} bits, {:?}",
                    entry.last_repair
                );
            }
            bench.check(&format!("seed {seed}, change {round}"));
            bench.forward(10);
        }
        anew += bench.engine.datapath().statistics().walked_anew;
    }
    assert!(anew > SEEDS, "only {anew} were made anew");
}

/// The counters of all rules.
fn counted(bench: &Bench) -> Vec<(RuleId, Counters)> {
    let pipeline = bench.engine.pipeline();
    let rules = pipeline.rules(pipeline.version());
    rules.map(|(id, rule)| (id, rule.counters)).collect()
}

#[test]
fn the_counts_of_a_rule_are_known_from_the_entries_that_met_it() {
    for kind in MaintainerKind::STRICT {
        for seed in 0..SEEDS / 8 {
            let (mut some, mut all) = (bench(kind, seed, 8), bench(kind, seed, 8));
            for bench in [&mut some, &mut all] {
                let packets = bench.sample_untaught(300);
                bench.forward_all(&packets);
                bench.forward_all(&packets[..100]);
            }
            all.engine.settle();
            let expected = counted(&all);
            for (rule, counters) in &expected {
                some.engine.settle_rules(&[*rule]);
                let pipeline = some.engine.pipeline();
                let rule = pipeline.rule(*rule).expect("both have it");
                assert_eq!(rule.counters, *counters, "{} seed {seed}", kind.name());
            }
            // Nothing is counted twice.
            some.engine.settle();
            assert_eq!(counted(&some), expected, "{} seed {seed}", kind.name());
        }
    }
}

/// The counters of all rules and groups.
fn all_counted(bench: &Bench) -> String {
    let pipeline = bench.engine.pipeline();
    let groups = pipeline.groups(pipeline.version());
    let groups = groups.map(|group| (group.id, pipeline.group_counters(group.id)));
    format!("{:?} {:?}", counted(bench), groups.collect::<Vec<_>>())
}

/// Forwards the same packets to both.
fn forward_to_both(sliced: &mut Bench, whole: &mut Bench, count: usize) {
    let packets = sliced.sample_untaught(count);
    sliced.forward_all(&packets);
    whole.forward_all(&packets);
}

/// Both get the same packets at the same versions; the second follows changes at once.
#[test]
fn a_group_that_is_replaced_counts_from_the_slice_in_which_the_version_moves() {
    // Odd seeds have groups.
    for seed in (1..SEEDS).step_by(2) {
        let kind = [MaintainerKind::Incremental, MaintainerKind::Barrier][seed as usize / 2 % 2];
        let bytes = TIGHT[seed as usize / 4 % 2];
        let [mut sliced, mut whole] = [(); 2].map(|()| bench_within(bytes, kind, seed, 1));
        for round in 0..12 {
            forward_to_both(&mut sliced, &mut whole, 60);
            let change = sliced.next_group().expect("it has groups");
            let started = sliced.engine.start(&change, Instant::ZERO);
            started.expect("generated changes are right");
            forward_to_both(&mut sliced, &mut whole, 40);
            let mut step = sliced.engine.step();
            while step == Step::Preparing {
                forward_to_both(&mut sliced, &mut whole, 10);
                step = sliced.engine.step();
            }
            let applied = whole.engine.apply(&change, Instant::ZERO);
            applied.expect("generated changes are right");
            forward_to_both(&mut sliced, &mut whole, 40);
            while step == Step::Repairing {
                step = sliced.engine.step();
                forward_to_both(&mut sliced, &mut whole, 10);
            }
            if round % 3 == 2 {
                sliced.engine.settle();
                whole.engine.settle();
                let context = format!("{} seed {seed}, change {round}", kind.name());
                assert_eq!(all_counted(&sliced), all_counted(&whole), "{context}");
            }
        }
    }
}

#[test]
fn every_repair_has_its_kind_counted_and_its_history_kept() {
    let mut bench = bench(MaintainerKind::Incremental, 5, 8);
    bench.forward(300);
    let mut taken = 0;
    for _ in 0..60 {
        for change in bench.next_changes() {
            let update = bench.engine.apply(&change, Instant::ZERO);
            taken += update.expect("generated changes are right").work.examined;
        }
        bench.forward(20);
    }
    let statistics = bench.engine.datapath().statistics();
    let kinds = Outcome::ALL.map(|outcome| statistics.outcomes(outcome));
    assert!(kinds.iter().sum::<u64>() >= taken && taken > 0, "{kinds:?}");
    assert!(kinds.iter().all(|count| *count > 0), "{kinds:?}");
    let entries = bench.engine.datapath().entries();
    let repaired: Vec<_> = entries
        .iter()
        .filter_map(|entry| entry.last_repair)
        .collect();
    assert!(repaired.iter().any(|repair| repair.recalled > 0));
    for repair in repaired {
        assert!(repair.recalled <= repair.lookups && repair.version <= bench.engine.version());
    }
}

#[test]
fn a_change_is_over_before_the_next_begins() {
    let mut bench = bench(MaintainerKind::Incremental, 3, 1);
    bench.forward(200);
    for _ in 0..20 {
        let changes = bench.next_changes();
        let started = changes.iter().map(|change| {
            let started = bench.engine.start(change, Instant::ZERO);
            Arc::unwrap_or_clone(started.expect("generated changes are right")).version
        });
        let versions: Vec<_> = started.collect();
        assert!(versions.is_sorted());
        bench.forward_untaught(5);
        assert_eq!(stale(&bench), 0);
    }
    bench.engine.settle();
    bench.check("after many changes");
}
