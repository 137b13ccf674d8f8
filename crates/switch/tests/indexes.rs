//! Tests tables and caches with every kind of index, and enough rules and entries to train
//! them. While rules come and go, the output must equal that of a slow twin, which has a hash
//! table for each mask and no filter.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_datapath::{MegaflowClassifier, Mode};
use thalweg_packet::{Instant, Packet, PortId};
use thalweg_pipeline::{Change, ClassifierKind, Flow, Operation, Selector, text};
use thalweg_switch::{Config, Engine};
use thalweg_workload::{
    Action, Extra, Filter, IS_OPTIMISED, Profile, filter_rules, generate_filters, rules_text,
};

/// Ports that rules send to, from 2 on.
const PORTS: u32 = 97;

/// Rounds of packets, with a change after each.
const ROUNDS: usize = 40;

/// Packets per round.
const PACKETS: usize = if IS_OPTIMISED { 960 } else { 96 };

fn config(tables: ClassifierKind, megaflows: MegaflowClassifier, mode: Mode) -> Config {
    let mut config = Config::default();
    config.pipeline.classifier = tables;
    config.datapath.mode = mode;
    config.datapath.microflow.entries = 64;
    config.datapath.megaflow.classifier = megaflows;
    config.datapath.megaflow.entries = 5_000;
    config
}

fn engine(config: Config, flows: &[Flow]) -> Engine {
    let mut engine = Engine::new(config).expect("the limits make sense");
    engine.outbox().grows = true;
    (1..=1 + PORTS).for_each(|port| engine.add_port(PortId(port), Instant::ZERO));
    let change = Change::adding(flows.iter().cloned());
    engine.apply(&change, Instant::ZERO).expect("it is right");
    engine
}

/// The output for each packet of a burst, in order.
fn forward(engine: &mut Engine, packets: &[Packet]) -> Vec<(u32, Vec<u8>)> {
    engine.forward(&mut packets.to_vec(), Instant::ZERO);
    let outbox = engine.outbox();
    let sent = outbox.sent.iter();
    let mut sent: Vec<_> = sent
        .map(|(port, packet)| (port.0, packet.bytes().to_vec()))
        .collect();
    sent.sort_unstable();
    outbox.recycle();
    sent
}

/// Removes some rules, and adds back some of those removed before.
fn change(flows: &mut Vec<Flow>, away: &mut Vec<Flow>, random: &mut Pcg64Mcg) -> Change {
    let mut operations = Vec::new();
    for _ in 0..20.min(away.len()) {
        let flow = away.swap_remove(random.random_range(0..away.len()));
        flows.push(flow.clone());
        operations.push(Operation::Add(flow));
    }
    for _ in 0..25 {
        let flow = flows.swap_remove(random.random_range(0..flows.len()));
        operations.push(Operation::Delete(Selector {
            table: Some(flow.table),
            matching: flow.matching.clone(),
            strict_priority: Some(flow.priority),
            cookie: None,
            ..Selector::default()
        }));
        away.push(flow);
    }
    Change { operations }
}

fn compare(profile: Profile, config: Config) -> Engine {
    let filters: Vec<Filter> = generate_filters(profile, 1_200, 3);
    let actions = |index: usize| vec![Action::Output(2 + index as u32 % PORTS)];
    let rules = filter_rules(&filters, 0, Extra::Ignore, actions).expect("there is room");
    let read = text::parse_rules("rules", &rules_text(&rules));
    let mut flows = read.unwrap_or_else(|errors| panic!("{errors:?}")).flows;
    assert!(flows.len() > 1_000, "too few rules for a training");
    let slow = {
        let megaflows = MegaflowClassifier::TupleSpace;
        let mut slow = self::config(ClassifierKind::TupleSpace, megaflows, Mode::Megaflows);
        slow.datapath.microflow.entries = 0;
        slow
    };
    let (mut subject, mut twin) = (engine(config, &flows), engine(slow, &flows));
    let (mut random, mut away) = (Pcg64Mcg::seed_from_u64(7), Vec::new());
    for round in 0..ROUNDS {
        for _ in 0..PACKETS / 32 {
            let packet = |_| {
                let filter = &filters[random.random_range(0..filters.len())];
                let mut packet = Packet::from_bytes(&filter.header(&mut random).packet());
                packet.set_received(PortId(1), Instant::ZERO);
                packet
            };
            let packets: Vec<Packet> = (0..32).map(packet).collect();
            let expected = forward(&mut twin, &packets);
            assert_eq!(forward(&mut subject, &packets), expected, "round {round}");
        }
        let change = change(&mut flows, &mut away, &mut random);
        for engine in [&mut subject, &mut twin] {
            engine.apply(&change, Instant::ZERO).expect("it is right");
        }
        assert_eq!(subject.datapath().verify(), Ok(()));
    }
    subject
}

#[test]
fn learned_tables_are_trained_and_answer_as_tuple_spaces() {
    let megaflows = MegaflowClassifier::TupleSpace;
    for profile in [Profile::Acl1, Profile::Fw1, Profile::Ipc1] {
        for mode in Mode::ALL {
            let engine = compare(profile, config(ClassifierKind::Learned, megaflows, mode));
            let choices = engine.pipeline().choices();
            assert!(choices.iter().any(|(_, choice)| choice.replaced > 0));
        }
    }
}

#[test]
fn learned_and_filtered_caches_answer_as_tuple_spaces() {
    for classifier in [MegaflowClassifier::Learned, MegaflowClassifier::Bloom] {
        for profile in [Profile::Acl1, Profile::Fw1] {
            let config = config(ClassifierKind::Auto, classifier, Mode::Megaflows);
            let engine = compare(profile, config);
            let statistics = engine.datapath().statistics();
            if classifier == MegaflowClassifier::Learned {
                assert!(statistics.lookups.learned > 1_000);
                // A debug build sends too few packets for entries to be trained.
                assert!(!IS_OPTIMISED || statistics.trainings > 0);
            }
        }
    }
}

#[test]
fn filtered_tables_and_those_that_choose_answer_as_tuple_spaces() {
    for tables in [ClassifierKind::Bloom, ClassifierKind::Auto] {
        for mode in Mode::ALL {
            compare(
                Profile::Ipc1,
                config(tables, MegaflowClassifier::Auto, mode),
            );
        }
    }
}
