//! Checks the numbered invariants of maintained caches.
//!
//! Random pipelines are changed at random. After each change, the remaining entries are
//! compared with brute force: the interpreter answers every entry's key again, and keys of its
//! region that are chosen to get another answer. `THALWEG_CHANGES` sets more changes than the
//! default.

#[path = "lab/brute.rs"]
mod brute;

use brute::Bench;
use thalweg_datapath::MaintainerKind;
use thalweg_packet::{Instant, Packet, PortId};
use thalweg_pipeline::{Change, Flow, Operation, Selector, TableId, text};
use thalweg_switch::{Config, Engine};
use thalweg_workload::IS_OPTIMISED;

/// Least changes in a run.
const CHANGES: u64 = if IS_OPTIMISED { 8_000 } else { 400 };

fn wanted_changes() -> u64 {
    let wanted = std::env::var("THALWEG_CHANGES");
    wanted.map_or(CHANGES, |wanted| {
        wanted.parse().expect("a number of changes")
    })
}

#[test]
fn i1_i2_i3_i7_every_entry_is_what_brute_force_says_after_each_change() {
    let kinds = [MaintainerKind::Incremental, MaintainerKind::Barrier];
    let wanted = wanted_changes();
    let mut changes = 0;
    let (mut examined, mut affected, mut extra_bits, mut compared) = (0, 0, 0, 0);
    for seed in 0.. {
        let kind = kinds[(seed % 4 == 3) as usize];
        let mut bench = Bench::new(kind, seed % 2 == 1, seed);
        bench.forward(120);
        for round in 0..40 {
            bench.change();
            bench.check(&format!("{} seed {seed}, change {round}", kind.name()));
            bench.forward(10);
            // Learned stations make a change too.
            bench.check(&format!("{} seed {seed}, after {round}", kind.name()));
            changes += 1;
        }
        if kind == MaintainerKind::Incremental {
            examined += bench.examined;
            affected += bench.affected;
        }
        extra_bits += bench.extra_bits;
        compared += bench.compared;
        if changes >= wanted {
            break;
        }
    }
    println!(
        "{changes} changes, {compared} entries compared; {affected} affected of {examined} looked \
         at; {:.2} mask bits more than a fresh translation's",
        extra_bits as f64 / compared as f64
    );
}

#[test]
fn i1_i2_i3_vlans_and_mirrors_change_under_traffic() {
    let kinds = [MaintainerKind::Incremental, MaintainerKind::Barrier];
    let (mut affected, mut compared) = (0, 0);
    for seed in 0..24 {
        let kind = kinds[(seed % 4 == 3) as usize];
        let mut bench = Bench::new(kind, true, seed);
        bench.forward_normally();
        bench.forward(120);
        for round in 0..25 {
            let change = match round % 4 {
                0 => bench.next_port(),
                1 => bench.next_mirrors(),
                _ => bench.next_vlans(),
            };
            bench.change_to(change);
            bench.check(&format!("{} seed {seed}, change {round}", kind.name()));
            bench.forward(20);
            bench.check(&format!("{} seed {seed}, after {round}", kind.name()));
        }
        affected += bench.affected;
        compared += bench.compared;
    }
    println!("{compared} entries compared, {affected} affected");
    assert!(affected > 1_000, "{affected} entries were affected");
}

#[test]
fn i1_i2_i3_rules_that_track_change_under_traffic() {
    let kinds = [MaintainerKind::Incremental, MaintainerKind::Barrier];
    let (mut affected, mut compared, mut recirculations) = (0, 0, 0);
    for seed in 0..24 {
        let kind = kinds[(seed % 4 == 3) as usize];
        let mut bench = Bench::tracking(kind, seed % 2 == 1, seed, Config::default());
        bench.forward(120);
        for round in 0..25 {
            bench.change();
            bench.check(&format!("{} seed {seed}, change {round}", kind.name()));
            bench.forward(20);
            bench.check(&format!("{} seed {seed}, after {round}", kind.name()));
        }
        affected += bench.affected;
        compared += bench.compared;
        recirculations += bench.engine.datapath().statistics().recirculations;
    }
    println!("{compared} entries compared, {affected} affected, {recirculations} recirculations");
    assert!(affected > 1_000, "{affected} entries were affected");
    assert!(recirculations > 10_000, "{recirculations} recirculations");
}

#[test]
fn i1_i2_i3_conjunctive_matches_change_under_traffic() {
    let kinds = [MaintainerKind::Incremental, MaintainerKind::Barrier];
    let (mut examined, mut affected, mut compared, mut by_id) = (0, 0, 0, 0);
    for seed in 0..90 {
        let kind = kinds[(seed % 4 == 3) as usize];
        let mut bench = Bench::conjoining(kind, seed % 2 == 1, seed, Config::default());
        bench.forward(140);
        for round in 0..30 {
            bench.change();
            bench.check(&format!("{} seed {seed}, change {round}", kind.name()));
            bench.forward(20);
            bench.check(&format!("{} seed {seed}, after {round}", kind.name()));
            let pipeline = bench.engine.pipeline();
            let entries = bench.engine.datapath().entries();
            let has_id = |rules: &[_]| rules.iter().any(|rule| pipeline.matches_id(*rule));
            by_id += entries.iter().filter(|entry| has_id(&entry.rules)).count();
        }
        examined += bench.examined;
        affected += bench.affected;
        compared += bench.compared;
    }
    println!(
        "{compared} entries compared, {by_id} by a conjunctive match; {affected} affected of \
         {examined} looked at"
    );
    assert!(affected > 1_000, "{affected} entries were affected");
    assert!(by_id > 10_000, "{by_id} entries met a conjunctive match");
}

/// The engine's answers to packets, as bytes by port.
fn answers(engine: &mut Engine, packets: &[Packet]) -> Vec<Vec<(PortId, Vec<u8>)>> {
    packets
        .iter()
        .map(|packet| {
            engine.forward(&mut vec![packet.clone()], Instant::ZERO);
            let sent = engine.outbox().sent.iter();
            let sent = sent
                .map(|(port, packet)| (*port, packet.bytes().to_vec()))
                .collect();
            engine.outbox().recycle();
            sent
        })
        .collect()
}

#[test]
fn i4_a_rule_that_comes_and_goes_leaves_every_answer_as_it_was() {
    for seed in 0..30 {
        let mut bench = Bench::new(MaintainerKind::Incremental, false, seed);
        let packets = bench.sample(60);
        let before = answers(&mut bench.engine, &packets);
        let rules: Vec<Flow> = {
            let pipeline = bench.engine.pipeline();
            let rules = pipeline.rules(pipeline.version());
            rules.filter_map(|(id, _)| pipeline.flow_of(id)).collect()
        };
        for flow in rules.iter().take(20) {
            // Like the rule, but above all others and without output.
            let flow = Flow {
                priority: u16::MAX,
                actions: [].into(),
                ..flow.clone()
            };
            let selector = Selector {
                table: Some(flow.table),
                matching: flow.matching.clone(),
                strict_priority: Some(flow.priority),
                cookie: None,
                ..Selector::default()
            };
            let add = Change::one(Operation::Add(flow));
            bench
                .engine
                .apply(&add, Instant::ZERO)
                .expect("the rule is right");
            answers(&mut bench.engine, &packets);
            let delete = Change::one(Operation::Delete(selector));
            bench
                .engine
                .apply(&delete, Instant::ZERO)
                .expect("the rule is there");
            assert_eq!(answers(&mut bench.engine, &packets), before, "seed {seed}");
        }
        assert_eq!(bench.engine.datapath().verify(), Ok(()));
    }
}

#[test]
fn i4_a_bundle_comes_to_what_its_parts_come_to() {
    for seed in 0..30 {
        let mut whole = Bench::new(MaintainerKind::Incremental, true, seed);
        let mut parts = Bench::new(MaintainerKind::Incremental, true, seed);
        let packets = whole.sample(60);
        answers(&mut whole.engine, &packets);
        answers(&mut parts.engine, &packets);
        let mut operations = Vec::new();
        for _ in 0..20 {
            for change in whole.next_changes() {
                operations.extend(change.operations);
            }
        }
        for operation in &operations {
            let part = Change::one(operation.clone());
            parts
                .engine
                .apply(&part, Instant::ZERO)
                .expect("generated changes are right");
        }
        let bundle = Change { operations };
        whole
            .engine
            .apply(&bundle, Instant::ZERO)
            .expect("generated changes are right");
        let (one, other) = (
            answers(&mut whole.engine, &packets),
            answers(&mut parts.engine, &packets),
        );
        assert_eq!(one, other, "seed {seed}");
        whole.check(&format!("seed {seed}, after a bundle"));
    }
}

#[test]
fn i4_a_bundle_with_one_bad_part_does_nothing() {
    for seed in 0..30 {
        let mut bench = Bench::new(MaintainerKind::Incremental, true, seed);
        let packets = bench.sample(60);
        let before = answers(&mut bench.engine, &packets);
        let entries = |bench: &Bench| {
            let entries = bench.engine.datapath().entries().into_iter();
            entries
                .map(|entry| (entry.key, entry.mask, entry.effects))
                .collect::<Vec<_>>()
        };
        let entries_before = entries(&bench);
        let version = bench.engine.version();
        let mut operations = Vec::new();
        for _ in 0..20 {
            for change in bench.next_changes() {
                operations.extend(change.operations);
            }
        }
        let back = text::parse_flow("table=9,actions=drop").expect("a rule");
        let back = Flow {
            table: TableId(9),
            actions: [thalweg_pipeline::Action::Goto(TableId(3))].into(),
            ..back
        };
        operations.push(Operation::Add(back));
        let refused = bench.engine.apply(&Change { operations }, Instant::ZERO);
        assert!(refused.is_err(), "a rule cannot go back");
        assert_eq!(bench.engine.version(), version);
        assert_eq!(entries(&bench), entries_before, "seed {seed}");
        assert_eq!(answers(&mut bench.engine, &packets), before, "seed {seed}");
    }
}

#[test]
fn i3_memory_returns_to_where_it_was() {
    let mut bench = Bench::new(MaintainerKind::Incremental, true, 5);
    let everything = Change::one(Operation::DeleteAll);
    for _ in 0..20 {
        bench.forward(500);
        bench.change();
    }
    let rules = {
        let pipeline = bench.engine.pipeline();
        let rules = pipeline.rules(pipeline.version());
        let flows = rules.filter_map(|(id, _)| pipeline.flow_of(id));
        Change::adding(flows)
    };
    let mut sizes = Vec::new();
    for _ in 0..6 {
        bench
            .engine
            .apply(&everything, Instant::ZERO)
            .expect("rules can be deleted");
        bench
            .engine
            .apply(&rules, Instant::ZERO)
            .expect("the rules are right");
        bench.forward(3_000);
        assert_eq!(bench.engine.datapath().verify(), Ok(()));
        sizes.push(bench.engine.datapath().dependency_bytes());
    }
    let (first, last) = (sizes[1], sizes[5]);
    assert!(
        last < first * 3 / 2,
        "memory grows with every round: {sizes:?}"
    );
}

#[test]
fn i2_many_rules_for_few_entries_are_followed_by_a_sweep() {
    for kind in [MaintainerKind::Incremental, MaintainerKind::Barrier] {
        for seed in 0..12 {
            let mut bench = Bench::new(kind, true, seed);
            bench.forward(12);
            // Like the existing rules, but at many priorities and without output.
            let flows: Vec<Flow> = {
                let pipeline = bench.engine.pipeline();
                let rules = pipeline.rules(pipeline.version());
                rules.filter_map(|(id, _)| pipeline.flow_of(id)).collect()
            };
            let flows = flows.iter().step_by(2).flat_map(|flow| {
                (0..80).map(|step| Flow {
                    priority: 800 * step,
                    actions: [].into(),
                    ..flow.clone()
                })
            });
            let change = Change::adding(flows);
            let update = bench.engine.apply(&change, Instant::ZERO);
            let update = update.expect("the rules are right");
            assert!(!update.delta.has_new_layout);
            bench.check(&format!("{} seed {seed}, other rules", kind.name()));
            bench.forward(60);
            bench.check(&format!("{} seed {seed}, afterwards", kind.name()));
        }
    }
}
