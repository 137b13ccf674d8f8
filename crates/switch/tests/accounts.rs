//! Checks the counters, and that a refused change leaves nothing behind.
//!
//! Random pipelines, packets and changes, with caches so small that they evict all the time. A
//! model counts what the interpreter says each packet meets, by rule and table; whenever
//! counts are settled, rules must have the same counts. A modified rule keeps its counts, a
//! replaced one starts from zero.

mod lab;

use std::collections::BTreeMap;

use lab::{Lab, PORTS, datagram, living};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_datapath::{MaintainerKind, Mode};
use thalweg_packet::{Instant, Packet, PortId};
use thalweg_pipeline::{
    BridgeId, BridgeMirror, Change, Counters, Flow, FragmentMode, Match, MirrorId, MirrorOutput,
    MirroredPorts, Mirrors, Miss, Misses, Operation, Precedence, RuleId, StepKind, TableId,
    VlanSet, text,
};
use thalweg_switch::Config;
use thalweg_workload::{PacketSource, RandomConfig, RandomPipeline};

/// Distinguishes a rule from all others.
type Identity = (TableId, u16, Match);

fn identity(flow: &Flow) -> Identity {
    (flow.table, flow.priority, flow.matching.clone())
}

/// The expected counts.
#[derive(Default)]
struct Model {
    rules: BTreeMap<Identity, Counters>,
    last_used: BTreeMap<Identity, Instant>,
    tables: BTreeMap<TableId, (u64, u64)>,
    /// Packets that no rule took: sent to controllers, dropped, dropped as fragments.
    unmatched: (u64, u64, u64),
    /// Packets that each mirror had.
    mirrored: BTreeMap<MirrorId, u64>,
}

impl Model {
    /// Counts what a packet is about to meet. Its length is known only in its first pass.
    fn expect(&mut self, lab: &Lab, packet: &Packet) {
        let passes = lab.interpret(packet);
        let pipeline = lab.engine.pipeline();
        let bytes = [packet.len() as u64, 0];
        for (index, pass) in passes.iter().enumerate() {
            for kind in pass.trace.kinds() {
                let (table, rule) = match kind {
                    StepKind::Lookup { table, rule } => (table, rule),
                    StepKind::Fragment { table } => {
                        self.unmatched.2 += 1;
                        (table, None)
                    }
                    StepKind::Unmatched { to_controller, .. } => {
                        match to_controller {
                            true => self.unmatched.0 += 1,
                            false => self.unmatched.1 += 1,
                        }
                        continue;
                    }
                    StepKind::Mirror(mirror) => {
                        *self.mirrored.entry(mirror).or_default() += 1;
                        continue;
                    }
                    _ => continue,
                };
                let is_fragment = matches!(kind, StepKind::Fragment { .. });
                let (lookups, matches) = self.tables.entry(table).or_default();
                *lookups += 1;
                // As if a rule had dropped it, as in Open vSwitch.
                *matches += u64::from(rule.is_some() || is_fragment);
                let Some(rule) = rule else { continue };
                let identity = identity(&pipeline.flow_of(rule).unwrap());
                let counters = self.rules.entry(identity).or_default();
                counters.packets += 1;
                counters.bytes += bytes[index.min(1)];
            }
        }
    }

    fn change(&mut self, lab: &Lab, change: &Change) {
        for operation in &change.operations {
            if let Operation::Add(flow) = operation {
                self.rules.remove(&identity(flow));
                self.last_used.remove(&identity(flow));
            }
        }
        let pipeline = lab.engine.pipeline();
        let living: Vec<Identity> = living(&pipeline)
            .map(|id| identity(&pipeline.flow_of(id).unwrap()))
            .collect();
        self.rules.retain(|identity, _| living.contains(identity));
        self.last_used
            .retain(|identity, _| living.contains(identity));
    }

    fn check(&mut self, lab: &mut Lab, context: &str) {
        lab.engine.settle();
        let pipeline = lab.engine.pipeline();
        for id in living(&pipeline) {
            let rule = pipeline.rule(id).unwrap();
            let flow = pipeline.flow_of(id).unwrap();
            let expected = self
                .rules
                .get(&identity(&flow))
                .copied()
                .unwrap_or_default();
            assert_eq!(rule.counters.packets, expected.packets, "{context}: {flow}");
            assert!(rule.counters.bytes >= expected.bytes, "{context}: {flow}");
            let last = self
                .last_used
                .entry(identity(&flow))
                .or_insert(rule.used_at);
            assert!(
                rule.used_at >= *last,
                "{context}: {flow} was used before it was"
            );
            *last = rule.used_at;
        }
        let tables: BTreeMap<_, _> = pipeline
            .table_counters()
            .map(|(table, lookups, matches)| (table, (lookups, matches)))
            .collect();
        assert_eq!(tables, self.tables, "{context}");
        let known = pipeline.unmatched(BridgeId::default());
        let unmatched = (
            known.to_controller.packets,
            known.dropped.packets,
            known.fragments.packets,
        );
        assert_eq!(unmatched, self.unmatched, "{context}");
        for (mirror, packets) in &self.mirrored {
            let known = pipeline.mirror_counters(*mirror);
            assert_eq!(known.packets, *packets, "{context}: {mirror:?}");
        }
    }
}

fn conserve(seed: u64, random: &RandomConfig, config: Config) {
    let rules = RandomPipeline::new(random, seed).unwrap();
    let groups: String = rules
        .groups()
        .iter()
        .map(|group| format!("{group}\n"))
        .collect();
    let mut rules = rules;
    let mut lab = Lab::new(config, &(groups + &rules.rules_text()));
    let mut packets = PacketSource::new(random, seed);
    let mut chance = Pcg64Mcg::seed_from_u64(seed);
    let mut model = Model::default();
    let mut recent: Vec<(u32, Vec<u8>)> = Vec::new();
    for step in 0..1_500 {
        let context = format!("seed {seed}, step {step}");
        if chance.random_ratio(1, 20) {
            let parsed = text::parse_changes("random", &rules.next_change().to_string()).unwrap();
            for placed in parsed {
                lab.apply(&placed.change);
                model.change(&lab, &placed.change);
            }
        }
        if chance.random_ratio(1, 100) {
            let modes = [FragmentMode::Drop, FragmentMode::NxMatch];
            let mode = modes[chance.random_range(0..2)];
            let set = Operation::SetFragments(BridgeId::default(), mode);
            lab.apply(&Change::one(set));
            let others = [Miss::Drop, Miss::Controller, Miss::Continue];
            let misses = Misses {
                others: others[chance.random_range(0..3)],
                ..Misses::default()
            };
            let set = Operation::SetMisses(BridgeId::default(), misses.into());
            lab.apply(&Change::one(set));
            let mirrors = (1..=chance.random_range(1..=3)).map(|id| BridgeMirror {
                id: MirrorId(id),
                sources: MirroredPorts::All,
                destinations: MirroredPorts::These([PortId(id)].into()),
                vlans: VlanSet::ALL,
                output: MirrorOutput::Port(PortId(id + 1)),
                snaplen_bytes: None,
            });
            let set = Mirrors::new(mirrors.collect());
            lab.apply(&Change::one(Operation::SetMirrors(
                BridgeId::default(),
                set.into(),
            )));
        }
        // Most packets repeat recent ones, so that the caches answer.
        while recent.len() < 4 || chance.random_ratio(1, 4) {
            let packet = packets.next_packet();
            recent.push((packet.in_port % PORTS, packet.bytes));
        }
        let (port, bytes) = &recent[recent.len() - 1 - chance.random_range(0..4)];
        lab.now = lab.now + std::time::Duration::from_millis(3);
        model.expect(&lab, &lab.packet(*port, bytes));
        lab.send_from(*port, bytes);
        if chance.random_ratio(1, 10) {
            model.check(&mut lab, &context);
        }
    }
    model.check(&mut lab, "in the end");
    assert!(
        !model.mirrored.is_empty(),
        "seed {seed}: no mirror had a packet"
    );
}

#[test]
fn i5_rules_and_tables_count_what_the_interpreter_says() {
    for seed in 0..18 {
        let index = seed as usize;
        let mut config = Config::default();
        if index >= 12 {
            config.datapath.mode = Mode::ComputationalFlows;
        }
        config.datapath.maintainer = MaintainerKind::STRICT[index % MaintainerKind::STRICT.len()];
        config.datapath.microflow.entries = [16, 0, 256][index % 3];
        config.datapath.microflow.admit_one_in = 2;
        config.datapath.megaflow.entries = [4, 1_000, 0, 20][index % 4];
        config.datapath.megaflow.masks = [3, 1_000][index / 4 % 2];
        let random = if index.is_multiple_of(2) {
            RandomConfig::default()
        } else {
            RandomConfig::broad()
        };
        conserve(seed, &random, config);
    }
}

/// A rule's last use is the time of the last packet that met it. The cache that remembered it
/// does not matter, nor do later changes, evictions or settlements.
#[test]
fn i5_last_used_never_goes_back() {
    let mut used = 0;
    for seed in 100..112 {
        let mut config = Config::default();
        if seed % 3 == 0 {
            config.datapath.mode = Mode::ComputationalFlows;
        }
        let kinds = MaintainerKind::STRICT;
        config.datapath.maintainer = kinds[seed as usize % kinds.len()];
        config.datapath.megaflow.entries = [1_000, 4, 20][seed as usize / 3 % 3];
        used += follow_uses(seed, config);
    }
    assert!(used > 1_000, "rules are in use: {used}");
}

/// Returns how often a checked rule was in use.
fn follow_uses(seed: u64, config: Config) -> usize {
    let random = RandomConfig::default();
    let mut rules = RandomPipeline::new(&random, seed).unwrap();
    let groups = rules.groups();
    let groups: String = groups.iter().map(|group| format!("{group}\n")).collect();
    let mut lab = Lab::new(config, &(groups + &rules.rules_text()));
    let mut packets = PacketSource::new(&random, seed);
    let mut chance = Pcg64Mcg::seed_from_u64(seed);
    let mut recent: Vec<(u32, Vec<u8>)> = Vec::new();
    // Numbers of removed rules are reused; ages are not.
    let mut expected: BTreeMap<(RuleId, Precedence), Instant> = BTreeMap::new();
    let mut used = 0;
    for step in 0..1_500 {
        if chance.random_ratio(1, 40) {
            let changes = rules.next_change().to_string();
            for placed in text::parse_changes("random", &changes).unwrap() {
                lab.apply(&placed.change);
                let pipeline = lab.engine.pipeline();
                let now_living = living(&pipeline).map(|id| {
                    let rule = pipeline.rule(id).unwrap();
                    let key = (id, rule.precedence);
                    let known = expected.get(&key).copied();
                    (key, known.unwrap_or(rule.used_at))
                });
                expected = now_living.collect();
            }
        }
        while recent.len() < 4 || chance.random_ratio(1, 4) {
            let packet = packets.next_packet();
            recent.push((packet.in_port % PORTS, packet.bytes));
        }
        let (port, bytes) = &recent[recent.len() - 1 - chance.random_range(0..4)];
        lab.now = lab.now + std::time::Duration::from_millis(3);
        for pass in lab.interpret(&lab.packet(*port, bytes)) {
            for kind in pass.trace.kinds() {
                if let StepKind::Lookup {
                    rule: Some(rule), ..
                } = kind
                {
                    let precedence = lab.engine.pipeline().rule(rule).unwrap().precedence;
                    expected.insert((rule, precedence), lab.now);
                }
            }
        }
        lab.send_from(*port, bytes);
        if chance.random_ratio(1, 10) {
            lab.engine.settle();
            let pipeline = lab.engine.pipeline();
            for ((id, _), last) in &expected {
                let used_at = pipeline.rule(*id).unwrap().used_at;
                assert_eq!(used_at, *last, "seed {seed}, step {step}, {id:?}");
                used += usize::from(used_at == lab.now);
            }
        }
    }
    used
}

#[test]
fn i5_bytes_are_those_of_the_packets() {
    let mut config = Config::default();
    config.datapath.megaflow.entries = 3;
    let rules = "ip,nw_dst=10.0.0.0/255.0.0.253,actions=2\npriority=1,ip,actions=goto_table:1\n\
                 table=1,actions=3\n";
    let mut lab = Lab::new(config, rules);
    let mut expected = BTreeMap::<String, Counters>::new();
    for step in 0..3_000_u32 {
        let mut bytes = datagram(9, step * 7 % 16, 7);
        bytes.resize(60 + step as usize % 40, 0);
        let which = usize::from((step * 7 % 16) & 0xfd != 0);
        let names = [&["goes to 2"][..], &["falls through", "table 1"]][which];
        for name in names {
            let counters = Counters {
                packets: 1,
                bytes: bytes.len() as u64,
            };
            expected
                .entry((*name).to_owned())
                .or_default()
                .add(counters);
        }
        lab.send(&bytes);
    }
    lab.engine.settle();
    let pipeline = lab.engine.pipeline();
    let counted = living(&pipeline).map(|id| pipeline.rule(id).unwrap().counters);
    let mut counted: Vec<Counters> = counted.collect();
    counted.sort_by_key(|counters| counters.packets);
    let [to_2, through, table_1] =
        ["goes to 2", "falls through", "table 1"].map(|name| expected[name]);
    assert_eq!(counted, [to_2, through, table_1]);
}

/// 200,000 rules, each with its own address.
fn many_rules() -> impl Iterator<Item = Operation> {
    let template = text::parse_flow("table=3,ip,actions=output:2").unwrap();
    (0..200_000_u32).map(move |number| {
        let mut flow = template.clone();
        flow.table = TableId(number % 5);
        let source = thalweg_packet::standard::IP_SRC;
        let added = flow.matching.add(source, number.into(), u32::MAX.into());
        added.unwrap();
        Operation::Add(flow)
    })
}

#[test]
fn a_bad_operation_among_many_undoes_them_all() {
    let rules = "ip,nw_dst=10.0.0.1,actions=2\npriority=1,actions=group:1\n";
    let group = "group_id=1,type=all,bucket=actions=3,bucket=actions=4\n";
    let mut lab = Lab::new(Config::default(), &format!("{group}{rules}"));
    let packets: Vec<Vec<u8>> = (0..4).map(|host| datagram(9, host, 7)).collect();
    let answers: Vec<_> = packets.iter().map(|packet| lab.send(packet)).collect();
    let before = (
        lab.rules(),
        lab.engine.version(),
        lab.engine.pipeline().rule_count(lab.engine.version()),
    );
    let group_before = lab
        .engine
        .pipeline()
        .group_counters(thalweg_pipeline::GroupId(1))
        .cloned();
    let memory = lab.engine.pipeline().memory_bytes();
    let mut operations = text::parse_changes(
        "changes",
        "group add group_id=1,type=all,bucket=actions=5\ndelete ip\nmodify actions=6\n\
         group add group_id=2,type=all",
    )
    .unwrap()
    .into_iter()
    .flat_map(|placed| placed.change.operations)
    .collect::<Vec<_>>();
    operations.extend(many_rules());
    // The parser refuses a goto that does not lead forward, and the pipeline must too.
    let mut backward = text::parse_flow("actions=goto_table:1").unwrap();
    backward.table = TableId(1);
    let groupless = text::parse_flow("actions=group:9").unwrap();
    for bad in [backward, groupless] {
        let mut change = Change {
            operations: operations.clone(),
        };
        change.operations.push(Operation::Add(bad));
        let error = lab.engine.apply(&change, lab.now).unwrap_err();
        assert_eq!(
            error.operation(),
            Some(change.operations.len() - 1),
            "{error}"
        );
        let version = lab.engine.version();
        let after = (
            lab.rules(),
            version,
            lab.engine.pipeline().rule_count(version),
        );
        assert_eq!(after, before);
        let pipeline = lab.engine.pipeline();
        let group = pipeline
            .group_counters(thalweg_pipeline::GroupId(1))
            .cloned();
        assert_eq!(format!("{group:?}"), format!("{group_before:?}"));
        assert_eq!(pipeline.groups(version).count(), 1);
        assert!(
            pipeline.memory_bytes() < memory + 100_000,
            "{}",
            pipeline.memory_bytes()
        );
    }
    for (packet, answer) in packets.iter().zip(answers) {
        assert_eq!(lab.send(packet), answer);
    }
}

#[test]
fn a_layout_that_grows_keeps_rules_and_counts() {
    let mut lab = Lab::new(
        Config::default(),
        "in_port=1,actions=2\nin_port=2,actions=3\n",
    );
    for _ in 0..10 {
        assert_eq!(lab.send(&datagram(9, 1, 7)), [2]);
    }
    let before = lab.rules();
    let new = [
        "priority=1,ip,nw_dst=10.0.0.9,actions=4",
        "priority=1,ipv6,ipv6_dst=fd00::1,actions=4",
        "priority=1,arp,arp_spa=10.0.0.1,actions=4",
        "table=1,reg3=7,actions=4",
        "priority=1,icmp6,icmp_type=135,icmp_code=0,nd_target=fd00::1,actions=4",
    ];
    for (index, rule) in new.iter().enumerate() {
        let update = lab.change(&format!("add {rule}"));
        assert!(update.delta.has_new_layout, "{rule}");
        assert_eq!(lab.engine.datapath().megaflow_count(), 0);
        assert_eq!(lab.send_from(2, &datagram(9, 1, 7)), [3]);
        let rules = lab.rules();
        assert_eq!(rules.len(), before.len() + index + 1);
        assert!(rules.contains(&before[0]), "{rules:?}");
        let count = rules
            .iter()
            .find(|(rule, _)| rule.contains("in_port=2"))
            .unwrap()
            .1;
        assert_eq!(count, index as u64 + 1);
    }
    assert_eq!(lab.send(&datagram(9, 1, 7)), [2]);
}
