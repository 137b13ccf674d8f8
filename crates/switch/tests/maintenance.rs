//! What must hold of maintained caches, by the numbers of the invariants.
//!
//! Random pipelines are changed at random. After each change the entries that are left are compared
//! with what brute force says of them: the interpreter, asked anew for every entry, and for packets
//! of its region that try to be treated otherwise. `THALWEG_CHANGES` asks for more changes than the
//! default.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_datapath::{EntryView, MaintainerKind};
use thalweg_packet::{Instant, Layout, Packet, PortId, standard};
use thalweg_pipeline::{
    Action, Change, Effect, Flow, Group, GroupKind, Operation, Output, Pipeline, PortState, RuleId,
    Selector, StepKind, TableId, Translation, text, translate,
};
use thalweg_switch::{Config, Engine};
use thalweg_workload::{PacketSource, RandomConfig, RandomPipeline};

/// Changes that a run makes at the least.
const CHANGES: u64 = if cfg!(debug_assertions) { 400 } else { 8_000 };

/// Packets of a region that are tried after each change, for each entry looked at.
const TRIES: usize = 3;

fn wanted_changes() -> u64 {
    let wanted = std::env::var("THALWEG_CHANGES");
    wanted.map_or(CHANGES, |wanted| {
        wanted.parse().expect("a number of changes")
    })
}

/// An engine with a random pipeline, and what brute force has found so far.
struct Bench {
    engine: Engine,
    rules: RandomPipeline,
    packets: PacketSource,
    random: Pcg64Mcg,
    examined: u64,
    affected: u64,
    /// Bits that entries' masks have and fresh translations would not, and entries compared.
    extra_bits: u64,
    compared: u64,
}

impl Bench {
    fn new(kind: MaintainerKind, is_broad: bool, seed: u64) -> Bench {
        let mut shape = match is_broad {
            true => RandomConfig::broad(),
            false => RandomConfig::default(),
        };
        shape.tables = 2 + (seed % 5) as u8;
        shape.rules_per_table = [4, 10, 25][seed as usize % 3];
        let mut config = Config::default();
        config.datapath.maintainer = kind;
        config.datapath.seed = seed;
        config.pipeline.seed = seed;
        config.datapath.megaflow.entries = [60, 200][seed as usize % 2];
        let mut engine = Engine::new(config).expect("a sound configuration");
        for port in 1..=shape.ports {
            engine.add_port(PortId(port), Instant::ZERO);
        }
        let rules = RandomPipeline::new(&shape, seed).expect("a sound configuration");
        let groups: String = rules
            .groups()
            .iter()
            .map(|group| format!("{group}\n"))
            .collect();
        for text in [groups, rules.rules_text()] {
            let read = text::parse_rules("random", &text).expect("generated text is right");
            let loaded = engine.apply(&read.into_change(), Instant::ZERO);
            loaded.expect("generated rules are right");
        }
        Bench {
            engine,
            rules,
            packets: PacketSource::new(&shape, seed),
            random: Pcg64Mcg::seed_from_u64(seed),
            examined: 0,
            affected: 0,
            extra_bits: 0,
            compared: 0,
        }
    }

    fn sample(&mut self, count: usize) -> Vec<Packet> {
        let packet = |_| {
            let random = self.packets.next_packet();
            let mut packet = Packet::from_bytes(&random.bytes);
            packet.set_received(PortId(random.in_port), Instant::ZERO);
            packet
        };
        (0..count).map(packet).collect()
    }

    fn forward(&mut self, packets: usize) {
        let mut burst = self.sample(packets);
        self.engine.forward(&mut burst, Instant::ZERO);
        self.engine.outbox().recycle();
    }

    fn next_changes(&mut self) -> Vec<Change> {
        let change = self.rules.next_change().to_string();
        let read = text::parse_changes("random", &change).expect("generated text is right");
        read.into_iter().map(|placed| placed.change).collect()
    }

    /// A change of rules, of a group, or of a port.
    fn change(&mut self) {
        let change = match self.random.random_range(0..8) {
            0 => self.next_group(),
            1 => Some(self.next_port()),
            _ => None,
        };
        let changes = change.map_or_else(|| self.next_changes(), |change| vec![change]);
        for change in changes {
            let update = self.engine.apply(&change, Instant::ZERO);
            let work = update.expect("generated changes are right").work;
            self.examined += work.examined;
            self.affected += work.affected();
        }
    }

    /// A group with its buckets turned round and one of them changed, or gone.
    fn next_group(&mut self) -> Option<Change> {
        let pipeline = self.engine.pipeline();
        let groups: Vec<Group> = pipeline
            .groups(pipeline.version())
            .map(|group| Group::clone(group))
            .collect();
        drop(pipeline);
        if groups.is_empty() {
            return None;
        }
        let mut group = groups[self.random.random_range(0..groups.len())].clone();
        let is_indirect = matches!(group.kind, GroupKind::Indirect);
        let by = usize::from(group.buckets.len() > 1);
        group.buckets.rotate_left(by);
        if self.random.random_ratio(1, 4) && !is_indirect {
            group.buckets.pop();
        }
        let port = PortId(self.random.random_range(1..=4));
        if let Some(bucket) = group.buckets.first_mut() {
            match self.random.random_range(0..2) {
                0 => bucket.actions = [Action::Output(Output::Port(port))].into(),
                _ => bucket.weight = self.random.random_range(1..5),
            }
        }
        Some(Change::one(Operation::SetGroup(group)))
    }

    /// A port goes, comes, goes up or down, or does not flood any more.
    fn next_port(&mut self) -> Change {
        let port = PortId(self.random.random_range(1..=4));
        if self.random.random_ratio(1, 4) {
            return Change::one(Operation::DeletePort(port));
        }
        let state = PortState {
            is_up: self.random.random_ratio(2, 3),
            floods: self.random.random_ratio(2, 3),
        };
        Change::one(Operation::SetPort(port, state))
    }

    /// I1, I2, I3 and I7.
    fn check(&mut self, context: &str) {
        let verified = self.engine.datapath().verify();
        assert_eq!(verified, Ok(()), "I3, {context}");
        let entries = self.engine.datapath().entries();
        let pipeline = self.engine.pipeline();
        let layout = pipeline.layout().clone();
        for entry in &entries {
            // Those of frozen walks are reached through the entries before them only.
            if layout.get(&entry.key, standard::RECIRC_ID) != Some(0) {
                continue;
            }
            let fresh = translate(&pipeline, &entry.key, pipeline.version());
            // I2: whatever the change made of it, the maintainer has found out.
            let is_same = is_alike(&entry.effects, &fresh.effects) && entry.rules == met(&fresh);
            assert!(is_same, "I2, {context}: {entry:?} should be {fresh:?}");
            self.compared += 1;
            let extra = entry.mask.iter().zip(&fresh.mask);
            let extra = extra.map(|(mask, fresh)| (mask & !fresh).count_ones());
            self.extra_bits += u64::from(extra.sum::<u32>());
            // I1: so it is for every packet of its region, also for those that try.
            for _ in 0..TRIES {
                let key = someone_else(entry, &layout, &pipeline, &mut self.random);
                let other = translate(&pipeline, &key, pipeline.version());
                let is_same =
                    other.trace.kinds().eq(fresh.trace.kinds()) && other.effects == fresh.effects;
                assert!(
                    is_same,
                    "I1, {context}: {entry:?}, {key:x?}: {other:?}, not {fresh:?}"
                );
            }
        }
    }
}

fn met(translation: &Translation) -> Vec<RuleId> {
    let rule = |kind| match kind {
        StepKind::Lookup { rule, .. } => rule,
        _ => None,
    };
    translation.trace.kinds().filter_map(rule).collect()
}

/// Whether effects are the same; continuations are numbered by whoever keeps them.
fn is_alike(one: &[Effect], other: &[Effect]) -> bool {
    let pairs = one.iter().zip(other);
    one.len() == other.len()
        && pairs.into_iter().all(|pair| match pair {
            (Effect::Recirculate(_), Effect::Recirculate(_)) => true,
            (Effect::Clone(one), Effect::Clone(other)) => is_alike(one, other),
            (one, other) => one == other,
        })
}

/// Another key of an entry's region, as near to a rule of the pipeline as the mask lets it be.
fn someone_else(
    entry: &EntryView,
    layout: &Layout,
    pipeline: &Pipeline,
    random: &mut Pcg64Mcg,
) -> Vec<u64> {
    let rules: Vec<RuleId> = pipeline
        .rules(pipeline.version())
        .map(|(id, _)| id)
        .collect();
    let rule = (!rules.is_empty()).then(|| rules[random.random_range(0..rules.len())]);
    let words = rule.and_then(|rule| pipeline.words_of(rule));
    let mut key = entry.key.clone();
    for &field in layout.used() {
        let Some(slot) = layout.slot(field) else {
            continue;
        };
        // No packet has a number that no continuation has.
        if !layout.descriptor(field).is_ingress() || field == standard::RECIRC_ID {
            continue;
        }
        for bit in 0..slot.width_bits {
            let (word, shift) = slot.position(bit);
            if entry.mask[word] >> shift & 1 == 1 {
                continue;
            }
            let wanted = words
                .as_ref()
                .filter(|(_, mask)| mask[word] >> shift & 1 == 1);
            let is_set = match wanted {
                Some((value, _)) => value[word] >> shift & 1 == 1,
                None => random.random_ratio(1, 2),
            };
            key[word] = key[word] & !(1 << shift) | u64::from(is_set) << shift;
        }
    }
    key
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
            // What packets have taught is a change too.
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

/// What the engine answers to packets, as bytes by port.
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
            // As the rule, but above all others and to no port.
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
            // Rules as they are there, but at many priorities and to no port.
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
