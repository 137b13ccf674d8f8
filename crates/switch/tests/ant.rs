//! ANT, the pipeline of Antrea: its flows take the tables that they should, and the caches
//! answer as the interpreter does, with connections, learned rules and changes of rules.

use std::collections::BTreeSet;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_datapath::{MaintainerKind, Mode};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::{
    Change, Flow as FlowRule, Operation, Outbox, Selector, StepKind, forward, text,
};
use thalweg_switch::{Config, Engine};
use thalweg_workload::{
    Flow, FlowConfig, FlowSource, IS_OPTIMISED, Pipeline, PipelineKind, draw_flows,
};

/// Rules of the pipelines.
const RULES: usize = 1_200;
/// Packets of each run.
const PACKETS: usize = if IS_OPTIMISED { 6_000 } else { 300 };
/// Packets between changes.
const BETWEEN: usize = 25;

fn load(pipeline: &Pipeline, config: Config) -> Engine {
    let mut engine = Engine::new(config).expect("a sound configuration");
    for port in &pipeline.ports {
        engine.add_port(PortId(*port), Instant::ZERO);
    }
    let rules = text::parse_rules("ant", &pipeline.text()).expect("generated rules are right");
    let change = rules.into_change();
    engine.apply(&change, Instant::ZERO).expect("they load");
    engine
}

fn packet_of(flow: &Flow) -> Packet {
    let mut packet = Packet::from_bytes(&flow.packet(60));
    packet.set_received(PortId(flow.in_port), Instant::ZERO);
    packet
}

#[test]
fn flows_visit_the_tables_of_their_template() {
    let generated = PipelineKind::Ant.generate(RULES, 3).expect("it exists");
    let engine = load(&generated, Config::default());
    let pipeline = engine.pipeline();
    let flows = draw_flows(&generated, &FlowConfig::new(3_000, 3)).expect("there are enough");
    let mut visited_by_any = BTreeSet::new();
    let mut paths = BTreeSet::new();
    let mut ended = vec![0; generated.templates.len()];
    for (flow, number) in &flows {
        // No flow knows of another's connection.
        let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
        outbox.grows = true;
        let version = pipeline.version();
        let passes = forward(&pipeline, version, packet_of(flow), &mut outbox);
        let passes = passes.expect("it is a frame");
        let steps = passes.iter().flat_map(|pass| pass.trace.kinds());
        let tables = steps.filter_map(|step| match step {
            StepKind::Lookup { table, .. } => Some(table.0 as u8),
            _ => None,
        });
        let mut visited: Vec<u8> = Vec::new();
        for table in tables {
            if !visited.contains(&table) {
                visited.push(table);
            }
        }
        let template = &generated.templates[*number];
        let mut expected = template.tables.iter();
        let is_in_order = visited.iter().all(|table| expected.any(|one| one == table));
        assert!(is_in_order, "{}: {visited:?} {flow:?}", template.name);
        ended[*number] += u32::from(visited.last() == template.tables.last());
        visited_by_any.extend(visited.iter().copied());
        paths.insert(visited);
    }
    for (template, ended) in generated.templates.iter().zip(ended) {
        assert!(ended > 0, "{}: no flow comes to its end", template.name);
    }
    let all: BTreeSet<u8> = generated.tables.iter().map(|table| table.id).collect();
    assert_eq!(visited_by_any, all);
    assert!(paths.len() > 20, "{} ways through", paths.len());
}

/// A packet with its ends exchanged; checksums stay right.
fn reply_to(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    let is_plain = bytes.get(12..15)? == [8, 0, 0x45];
    if !is_plain || !matches!(bytes.get(23)?, 6 | 17) {
        return None;
    }
    let mut exchange = |at: usize, len: usize| {
        let (one, other) = bytes[at..at + 2 * len].split_at_mut(len);
        one.swap_with_slice(other);
    };
    exchange(0, 6);
    exchange(26, 4);
    exchange(34, 2);
    Some(bytes)
}

/// The rules that are away, and those that are there.
struct Rules {
    there: Vec<FlowRule>,
    away: Vec<FlowRule>,
}

impl Rules {
    /// Removes a rule or brings one back.
    fn change(&mut self, random: &mut Pcg64Mcg) -> Change {
        let returns = self.away.len() > 8 || random.random_ratio(1, 2);
        if returns && !self.away.is_empty() {
            let flow = self
                .away
                .swap_remove(random.random_range(0..self.away.len()));
            self.there.push(flow.clone());
            return Change::one(Operation::Add(flow));
        }
        let flow = self
            .there
            .swap_remove(random.random_range(0..self.there.len()));
        let selector = Selector {
            table: Some(flow.table),
            matching: flow.matching.clone(),
            strict_priority: Some(flow.priority),
            ..Selector::default()
        };
        self.away.push(flow);
        Change::one(Operation::Delete(selector))
    }
}

/// What a run has seen.
#[derive(Default)]
struct Seen {
    sent: u64,
    replies: u64,
    hits: u64,
    taught: u64,
}

/// Sends flows, replies to what leaves, and repetitions, and changes rules; every answer of
/// the caches is compared with the interpreter's.
fn run(config: Config, seed: u64, seen: &mut Seen) {
    let generated = PipelineKind::Ant.generate(RULES, seed).expect("it exists");
    let mut engine = load(&generated, config);
    let parsed = text::parse_rules("ant", &generated.text()).expect("generated rules are right");
    let mut rules = Rules {
        there: parsed.flows,
        away: Vec::new(),
    };
    let mut source = FlowSource::new(&generated, &FlowConfig::new(0, seed));
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut waiting: Vec<Packet> = Vec::new();
    for number in 0..PACKETS {
        let template = source.next_template();
        let fresh = source.draw(template).expect("all draws succeed");
        let packet = match waiting.is_empty() || random.random_ratio(1, 2) {
            true => packet_of(&fresh),
            false => waiting.swap_remove(random.random_range(0..waiting.len())),
        };
        engine.forward(&mut vec![packet.clone()], Instant::ZERO);
        let audit = engine.audit().expect("audited");
        assert_eq!(audit.stale, 0, "seed {seed}, packet {number}: {packet:?}");
        let sent = std::mem::take(&mut engine.outbox().sent);
        engine.outbox().recycle();
        seen.sent += sent.len() as u64;
        for (port, packet) in sent.iter().take(1) {
            if let Some(bytes) = reply_to(packet.bytes()) {
                let mut reply = Packet::from_bytes(&bytes);
                reply.set_received(*port, Instant::ZERO);
                waiting.push(reply);
                seen.replies += 1;
            }
        }
        if random.random_ratio(1, 3) {
            waiting.push(packet);
        }
        if number % BETWEEN == 0 {
            let change = rules.change(&mut random);
            let applied = engine.apply(&change, Instant::ZERO);
            applied.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
    assert_eq!(engine.datapath().verify(), Ok(()), "seed {seed}");
    seen.hits += engine.datapath().statistics().megaflow.hits;
    seen.taught += engine.learning().learned;
}

#[test]
fn caches_answer_as_the_interpreter_does() {
    let mut seen = Seen::default();
    for (seed, maintainer) in (1..).zip(MaintainerKind::STRICT) {
        let mut config = Config {
            is_audited: true,
            ..Config::default()
        };
        config.datapath.maintainer = maintainer;
        config.datapath.seed = seed;
        config.datapath.microflow.entries = [0, 256][seed as usize % 2];
        run(config.clone(), seed, &mut seen);
        config.datapath.mode = Mode::ComputationalFlows;
        run(config, seed + 100, &mut seen);
    }
    let enough = if IS_OPTIMISED { 100 } else { 1 };
    for count in [seen.sent, seen.replies, seen.hits, seen.taught] {
        assert!(
            count >= enough,
            "{} {} {} {}",
            seen.sent,
            seen.replies,
            seen.hits,
            seen.taught
        );
    }
}
