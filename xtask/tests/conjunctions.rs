//! A private Open vSwitch and this pipeline answer packets by random conjunctive matches alike.
//!
//! Rules for an id have the highest priority, as the manual's example has them. Some packets are
//! left out. Open vSwitch's answer to those that complete several matches of one priority is
//! open. Its second lookup does not see a rule with the match of a clause above it: that shows
//! where no rule is for the id, and another rule matches. Needs Open vSwitch's programs, and no
//! privileges.

use std::collections::{BTreeMap, BTreeSet};

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::text::parse_rules;
use thalweg_pipeline::{Change, Config, Operation, Outbox, Pipeline, PortState, forward};
use xtask::ovs::DummySwitch;

/// Ports of the switch.
const PORTS: u16 = 20;

/// Ids of matches, each with its number of dimensions; a rule for each sends to the port.
const MATCHES: [(u32, u8, u16); 4] = [(1, 2, 11), (2, 2, 12), (3, 3, 13), (4, 2, 14)];

/// A packet: the last bytes of its addresses, and its destination port.
type Fields = (u8, u8, u16);

/// Conditions on those fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Conditions {
    source: Option<(u8, u8)>,
    destination: Option<(u8, u8)>,
    port: Option<(u16, u16)>,
}

impl Conditions {
    fn random(random: &mut Pcg64Mcg) -> Conditions {
        let mut byte = |is_there: bool| {
            let mask: u8 = [0xff, 0xff, 0xfe, 0xfc][random.random_range(0..4)];
            is_there.then(|| (random.random_range(0..6) & mask, mask))
        };
        let kind = [1_u8, 2, 4, 1, 2, 3, 6, 0];
        let (source, destination) = (byte(true), byte(true));
        let kind = kind[random.random_range(0..kind.len())];
        let port = [(80, 0xffff), (81, 0xffff), (80, 0xfffe)][random.random_range(0..3)];
        Conditions {
            source: source.filter(|_| kind & 1 != 0),
            destination: destination.filter(|_| kind & 2 != 0),
            port: (kind & 4 != 0).then_some(port),
        }
    }

    fn matches(&self, (source, destination, port): Fields) -> bool {
        self.source
            .is_none_or(|(value, mask)| source & mask == value)
            && (self.destination).is_none_or(|(value, mask)| destination & mask == value)
            && self.port.is_none_or(|(value, mask)| port & mask == value)
    }
}

impl std::fmt::Display for Conditions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("tcp")?;
        for (name, term) in [("nw_src", self.source), ("nw_dst", self.destination)] {
            if let Some((value, mask)) = term {
                write!(f, ",{name}=10.0.0.{value}/255.255.255.{mask}")?;
            }
        }
        match self.port {
            Some((value, mask)) => write!(f, ",tp_dst={value:#x}/{mask:#x}"),
            None => Ok(()),
        }
    }
}

/// A clause: priority, conditions, and the match and dimension of each action.
type Clause = (u16, Conditions, Vec<(u32, u8)>);

/// The rules of a table.
#[derive(Default)]
struct Rules {
    text: String,
    clauses: Vec<Clause>,
    plain: Vec<Conditions>,
    /// Whether a rule matches every packet.
    has_last: bool,
    /// The ids that have a rule.
    ids: BTreeSet<u32>,
}

fn random_rules(random: &mut Pcg64Mcg) -> Rules {
    let mut rules = Rules::default();
    let mut taken: Vec<(u16, Conditions)> = Vec::new();
    for _ in 0..random.random_range(10..50) {
        let priority = 100 * random.random_range(1..5);
        let conditions = Conditions::random(random);
        // The same match and priority would be the same rule.
        if taken.contains(&(priority, conditions)) {
            continue;
        }
        taken.push((priority, conditions));
        if random.random_ratio(1, 5) {
            // Only the first has the priority of clauses, as others might overlap it.
            let priority = priority + rules.plain.len() as u16;
            rules.plain.push(conditions);
            let port = random.random_range(2..10);
            rules.add(format!(
                "priority={priority},{conditions} actions=output:{port}"
            ));
            continue;
        }
        let mut dimensions = Vec::new();
        for _ in 0..random.random_range(1..3) {
            let (id, of, _) = MATCHES[random.random_range(0..MATCHES.len())];
            dimensions.push((id, random.random_range(1..=of)));
        }
        let actions = dimensions.iter().map(|(id, clause)| {
            let of = MATCHES[*id as usize - 1].1;
            format!("conjunction({id},{clause}/{of})")
        });
        let actions = actions.collect::<Vec<_>>().join(",");
        rules.add(format!(
            "priority={priority},{conditions} actions={actions}"
        ));
        rules.clauses.push((priority, conditions, dimensions));
    }
    for (id, _, port) in MATCHES {
        if random.random_ratio(9, 10) {
            rules.ids.insert(id);
            rules.add(format!(
                "priority=60000,conj_id={id},tcp actions=output:{port}"
            ));
        }
    }
    rules.has_last = random.random_ratio(1, 2);
    if rules.has_last {
        rules.add("priority=0 actions=output:15".to_owned());
    }
    rules
}

impl Rules {
    fn add(&mut self, rule: String) {
        self.text.push_str(&rule);
        self.text.push('\n');
    }

    /// Whether a packet is left out.
    fn is_open(&self, fields: Fields) -> bool {
        let mut found: BTreeMap<u16, BTreeSet<(u32, u8)>> = BTreeMap::new();
        for (priority, conditions, dimensions) in &self.clauses {
            if conditions.matches(fields) {
                found.entry(*priority).or_default().extend(dimensions);
            }
        }
        let mut plain = self.plain.iter();
        let is_plain = self.has_last || plain.any(|conditions| conditions.matches(fields));
        found.values().any(|dimensions| {
            let is_complete =
                |id: u32, of: u8| (1..=of).all(|clause| dimensions.contains(&(id, clause)));
            let complete = MATCHES.iter().filter(|(id, of, _)| is_complete(*id, *of));
            let complete: Vec<u32> = complete.map(|(id, ..)| *id).collect();
            let has_no_rule = complete.iter().any(|id| !self.ids.contains(id));
            complete.len() > 1 || has_no_rule && is_plain
        })
    }
}

fn pipeline(rules: &str) -> Pipeline {
    let mut pipeline = Pipeline::new(Config::default());
    let state = PortState {
        is_up: true,
        floods: true,
        forwards: true,
        peer: None,
    };
    let ports = (1..=u32::from(PORTS)).map(|port| Operation::SetPort(PortId(port), state));
    let rules = parse_rules("rules", rules).expect("the rules are right");
    let operations = ports.chain(rules.into_change().operations).collect();
    let applied = pipeline.apply(&Change { operations }, Instant::ZERO);
    applied.expect("the rules can be loaded");
    pipeline
}

fn packet((source, destination, port): Fields) -> Vec<u8> {
    let address = |last: u64| MacAddress::from_u64(0x0200_0000_0000 | last);
    let frame = PacketBuilder::ethernet(address(1), address(2));
    let ends = [source, destination].map(|last| [10, 0, 0, last].into());
    frame.ipv4(ends[0], ends[1]).tcp(1000, port).build()
}

/// The ports that this pipeline sends to.
fn ours(pipeline: &Pipeline, frame: &[u8]) -> Vec<u32> {
    let mut packet = Packet::from_bytes(frame);
    packet.set_received(PortId(1), Instant::ZERO);
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    forward(pipeline, pipeline.version(), packet, &mut outbox).expect("a frame");
    outbox.sent.iter().map(|(port, _)| port.0).collect()
}

#[test]
fn random_conjunctive_matches_answer_alike() {
    let mut switch = DummySwitch::start(PORTS).expect("Open vSwitch is installed");
    let folder = tempfile::tempdir().expect("a folder");
    let (mut asked, mut open, mut by_match) = (0, 0, 0);
    for seed in 0..60 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let rules = random_rules(&mut random);
        let path = folder.path().join("rules");
        std::fs::write(&path, &rules.text).expect("it is written");
        switch.clear().expect("rules can be deleted");
        switch.load_rules(&path).expect("it takes the rules");
        let pipeline = pipeline(&rules.text);
        for _ in 0..60 {
            let ports = [80, 81, 82];
            let fields = (
                random.random_range(0..6),
                random.random_range(0..6),
                ports[random.random_range(0..3)],
            );
            if rules.is_open(fields) {
                open += 1;
                continue;
            }
            let frame = packet(fields);
            let theirs = switch.trace(1, &frame).expect("it traces");
            let ours = ours(&pipeline, &frame);
            let text: Vec<String> = ours.iter().map(u32::to_string).collect();
            let text = match text.is_empty() {
                true => "drop".to_owned(),
                false => text.join(","),
            };
            assert_eq!(
                text, theirs.datapath_actions,
                "seed {seed}, {fields:?}\n{}",
                rules.text
            );
            asked += 1;
            by_match += usize::from(ours.iter().any(|port| (11..15).contains(port)));
        }
    }
    println!("{asked} asked, {by_match} by a conjunctive match; {open} left out");
    assert!(
        by_match > 500 && asked > 2 * open,
        "{by_match}, {asked}, {open}"
    );
}
