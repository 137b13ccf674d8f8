//! Rule changes: the bytes choose operations, and packets between them.
//!
//! Every operation takes two or three bytes, so any input is a valid sequence. Matches and
//! actions come from short lists, so that they often interact.
//!
//! 1. After every change, all answers of the caches equal the interpreter's.
//! 2. A refused change leaves nothing behind: rules, groups and counters are the same.
//! 3. In the end, a switch that gets the remaining rules at once gives the same answers.
//! 4. Rules, groups and buckets count what the interpreter says they met.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use thalweg_datapath::MaintainerKind;
use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::text::Parser;
use thalweg_pipeline::{
    Change, Flow, GroupId, GroupKind, MacMove, Match, Operation, Outbox, Pipeline, Rule, RuleId,
    StepKind, forward,
};
use thalweg_switch::{Config, Engine};

const PORTS: u32 = 4;

const MATCHES: [&str; 16] = [
    "",
    "in_port=1",
    "in_port=2",
    "ip",
    "ip,nw_dst=10.0.0.0/8",
    "ip,nw_dst=10.1.0.0/16",
    "ip,nw_dst=10.1.2.3",
    "tcp,tp_dst=80",
    "tcp,tp_dst=80/0xfff0",
    "udp",
    "arp",
    "vlan_tci=0x1064/0x1fff",
    "dl_dst=02:00:00:00:00:02",
    "reg0=0x1",
    "mpls",
    "ipv6,ipv6_dst=fd00::/64",
];

const ACTIONS: [&str; 16] = [
    "drop",
    "output:1",
    "output:2,output:3",
    "NORMAL",
    "FLOOD",
    "group:1",
    "group:2",
    "set_field:0x1->reg0,goto_table:3",
    "goto_table:2",
    "goto_table:1",
    "dec_ttl,output:4",
    "push_vlan:0x8100,set_field:4196->vlan_vid,output:1",
    "resubmit(,2),output:3",
    "write_actions(output:2),goto_table:3",
    "pop_mpls:0x0800,resubmit(,1)",
    "set_field:10.1.2.3->ip_dst,resubmit(,3)",
];

const BUCKETS: [&str; 6] = [
    "type=all,bucket=actions=output:1,bucket=actions=output:2",
    "type=select,bucket=bucket_id:1,actions=output:1,bucket=bucket_id:2,actions=output:3",
    "type=ff,bucket=watch_port:1,actions=output:1,bucket=watch_port:2,actions=output:2",
    "type=indirect,bucket=actions=dec_ttl,output:4",
    "type=all,bucket=actions=group:2",
    "type=select",
];

/// Runs one input.
pub fn run(input: &[u8]) {
    let mut story = Story::new(input.first().copied().unwrap_or(0));
    for step in input.get(1..).unwrap_or_default().chunks(3) {
        let [kind, first, second] = [0, 1, 2].map(|at| step.get(at).copied().unwrap_or(0));
        story.step(kind, first, second);
    }
    story.end();
}

/// What identifies a rule.
type Identity = (u8, u16, Match);

/// A switch, and the counts expected of it.
struct Story {
    engine: Engine,
    now: Instant,
    /// Operations that wait to be applied together.
    bundle: Option<Vec<Operation>>,
    /// Packets that each existing rule should have counted.
    rules: BTreeMap<Identity, u64>,
    /// The same for groups and their buckets.
    groups: BTreeMap<GroupId, (u64, Vec<u64>)>,
}

impl Story {
    fn new(choice: u8) -> Story {
        let choice = usize::from(choice);
        let mut config = Config {
            is_audited: true,
            packets: 64,
            ..Config::default()
        };
        let kinds = MaintainerKind::STRICT;
        config.datapath.maintainer = kinds[choice % kinds.len()];
        config.datapath.microflow.entries = [16, 0][choice / 4 % 2];
        config.datapath.megaflow.entries = [1_000, 6, 0][choice / 8 % 3];
        config.datapath.megaflow.masks = [1_000, 3][choice / 24 % 2];
        config.pipeline.rules = 48;
        config.pipeline.groups = 3;
        let mut engine = Engine::new(config).expect("the limits make sense");
        let now = Instant::from_nanos(1);
        engine.outbox().grows = true;
        (1..=PORTS).for_each(|port| engine.add_port(PortId(port), now));
        Story {
            engine,
            now,
            bundle: None,
            rules: BTreeMap::new(),
            groups: BTreeMap::new(),
        }
    }

    fn step(&mut self, kind: u8, first: u8, second: u8) {
        let actions = ACTIONS[usize::from(second) % ACTIONS.len()];
        match kind % 8 {
            0 | 1 => self.packet(first, second),
            2 | 3 => self.ask(&format!("add {},actions={actions}", rule(first, second))),
            4 => {
                let strict = ["delete", "delete_strict"][usize::from(second & 1)];
                self.ask(&format!("{strict} {}", selector(first, second)));
            }
            5 => {
                let strict = ["modify", "modify_strict"][usize::from(second >> 4 & 1)];
                let selector = selector(first, second >> 4);
                self.ask(&format!("{strict} {selector},actions={actions}"));
            }
            6 => self.group_or_port(first, second),
            _ => self.time_or_bundle(first, second),
        }
    }

    fn group_or_port(&mut self, first: u8, second: u8) {
        let group = first % 3 + 1;
        match first >> 6 {
            0 => {
                let port = PortId(u32::from(first) % PORTS + 1);
                self.engine.set_port_up(port, second & 1 == 0, self.now);
            }
            1 => self.ask(&format!("group delete group_id={group}")),
            _ => {
                let buckets = BUCKETS[usize::from(second) % BUCKETS.len()];
                self.ask(&format!("group add group_id={group},{buckets}"));
            }
        }
    }

    fn time_or_bundle(&mut self, first: u8, second: u8) {
        match first % 4 {
            0 => {
                self.now = self.now + Duration::from_millis(u64::from(second) * 20);
                self.engine.tick(self.now);
                self.forget_the_dead();
            }
            1 => self.bundle = Some(self.bundle.take().unwrap_or_default()),
            2 => {
                let mut operations = self.bundle.take().unwrap_or_default();
                if second & 1 == 1 {
                    // The change is always refused, so all of it must be undone.
                    operations.extend(operation("add table=3,actions=goto_table:1"));
                }
                self.apply(&Change { operations });
            }
            _ => self.check_counters(),
        }
    }

    /// Applies an operation, now or with the rest of a bundle.
    fn ask(&mut self, text: &str) {
        let Some(operation) = operation(text) else {
            return;
        };
        match &mut self.bundle {
            Some(bundle) if bundle.len() < 16 => bundle.push(operation),
            Some(_) => {}
            None => self.apply(&Change::one(operation)),
        }
    }

    fn apply(&mut self, change: &Change) {
        let before = picture(&mut self.engine);
        if self.engine.apply(change, self.now).is_err() {
            let after = picture(&mut self.engine);
            assert_eq!(after, before, "{change:?} left a trace");
            return;
        }
        let mut deletes = false;
        for operation in &change.operations {
            match operation {
                // An existing rule keeps its counts.
                Operation::Add(flow) if !deletes => {
                    self.rules.entry(identity(flow)).or_insert(0);
                }
                Operation::Add(flow) => self.expect_old_or_new(identity(flow)),
                Operation::Delete(_) | Operation::DeleteAll | Operation::DeleteGroup(_) => {
                    deletes = true;
                }
                Operation::SetGroup(group) => {
                    let buckets = vec![0; group.buckets.len()];
                    self.groups.insert(group.id, (0, buckets));
                }
                _ => {}
            }
        }
        self.forget_the_dead();
    }

    /// Checks a rule that was added after deletions. It keeps its earlier count if it still
    /// existed, or starts at zero; the switch decides which.
    fn expect_old_or_new(&mut self, wanted: Identity) {
        self.engine.settle();
        let pipeline = self.engine.pipeline();
        let living = flows(&pipeline).find(|(_, flow)| identity(flow) == wanted);
        let Some((id, flow)) = living else {
            return; // It was deleted again.
        };
        let counted = pipeline.rule(id).expect("it lives").counters.packets;
        let before = self.rules.get(&wanted).copied().unwrap_or(0);
        assert!(counted == 0 || counted == before, "{flow}: {counted}");
        self.rules.insert(wanted, counted);
    }

    fn forget_the_dead(&mut self) {
        let pipeline = self.engine.pipeline();
        let version = pipeline.version();
        let living: Vec<Identity> = flows(&pipeline).map(|(_, flow)| identity(&flow)).collect();
        self.rules.retain(|identity, _| living.contains(identity));
        self.groups
            .retain(|id, _| pipeline.group(*id, version).is_some());
    }

    fn packet(&mut self, first: u8, second: u8) {
        let mut packet = Packet::from_bytes(&frame(first));
        packet.set_received(PortId(u32::from(second) % PORTS + 1), self.now);
        self.expect_counts(&packet);
        self.engine.forward(&mut vec![packet.clone()], self.now);
        let audit = self.engine.audit().expect("it is audited");
        assert_eq!(audit.stale, 0, "{packet:?} has a stale answer");
        self.engine.outbox().recycle();
    }

    /// Counts what the interpreter says a packet meets.
    fn expect_counts(&mut self, packet: &Packet) {
        let pipeline = self.engine.pipeline();
        let mut outbox = growing_outbox();
        let passes = forward(&pipeline, pipeline.version(), packet.clone(), &mut outbox);
        let passes = passes.unwrap_or_default();
        for kind in passes.iter().flat_map(|pass| pass.trace.kinds()) {
            match kind {
                StepKind::Lookup { rule: Some(id), .. } => {
                    let flow = pipeline.flow_of(id).expect("it lives");
                    *self.rules.get_mut(&identity(&flow)).expect("it lives") += 1;
                }
                StepKind::Bucket { group, bucket } => {
                    let known = pipeline.group(group, pipeline.version());
                    let uses_all = known.is_some_and(|group| group.kind == GroupKind::All);
                    let (sum, buckets) = self.groups.get_mut(&group).expect("it lives");
                    // A packet that goes through all buckets counts once.
                    *sum += u64::from(!uses_all || bucket == Some(0));
                    if let Some(bucket) = bucket {
                        buckets[bucket as usize] += 1;
                    }
                }
                _ => {}
            }
        }
    }

    fn check_counters(&mut self) {
        self.engine.settle();
        let pipeline = self.engine.pipeline();
        let rules = flows(&pipeline).map(|(id, flow)| {
            let rule = pipeline.rule(id).expect("it lives");
            (identity(&flow), rule.counters.packets)
        });
        assert_eq!(rules.collect::<BTreeMap<_, _>>(), self.rules);
        for (id, (sum, buckets)) in &self.groups {
            let counters = pipeline.group_counters(*id).expect("it lives");
            assert_eq!(counters.group.packets, *sum, "{id:?}");
            let counted = counters.buckets.iter().map(|bucket| bucket.packets);
            assert_eq!(counted.collect::<Vec<_>>(), *buckets, "{id:?}");
        }
    }

    /// Checks invariants 3 and 4.
    fn end(mut self) {
        self.check_counters();
        let pipeline = self.engine.pipeline();
        let Some(fresh) = from_scratch(&pipeline, self.now) else {
            return;
        };
        for (first, port) in
            (0..FRAMES).flat_map(|first| (1..=PORTS).map(move |port| (first, port)))
        {
            let mut packet = Packet::from_bytes(&frame(first));
            packet.set_received(PortId(port), self.now);
            let [grown, fresh] = [&*pipeline, &fresh].map(|pipeline| {
                let mut outbox = growing_outbox();
                let version = pipeline.version();
                let _ = forward(pipeline, version, packet.clone(), &mut outbox);
                (outbox.sent, outbox.to_controller, outbox.stations_seen)
            });
            assert_eq!(grown, fresh, "{packet:?} after changes, and from scratch");
        }
    }
}

fn growing_outbox() -> Outbox {
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    outbox
}

fn identity(flow: &Flow) -> Identity {
    (flow.table.number(), flow.priority, flow.matching.clone())
}

fn operation(text: &str) -> Option<Operation> {
    Parser::new().parse_operation(text).ok()
}

fn rule(first: u8, second: u8) -> String {
    let timeout = match second >> 6 {
        0 => "idle_timeout=2,",
        1 => "hard_timeout=3,",
        _ => "",
    };
    format!("{timeout}{}", selector(first, second >> 3))
}

/// Table, priority and conditions.
fn selector(first: u8, second: u8) -> String {
    let matching = MATCHES[usize::from(first) % MATCHES.len()];
    let (table, priority) = (first >> 4 & 3, second >> 1 & 3);
    format!("table={table},priority={priority},{matching}")
}

/// Number of different frames.
const FRAMES: u8 = 10;

fn frame(choice: u8) -> Vec<u8> {
    let address = |last| MacAddress([2, 0, 0, 0, 0, last]);
    let ethernet = PacketBuilder::ethernet(address(choice >> 6), address(2));
    let (a4, b4) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 1, 2, 3));
    let (a6, b6) = (0xfd00_u128 << 112 | 1, 0xfd00_u128 << 112 | 2);
    let builder = match choice % FRAMES {
        0 => ethernet.ipv4(a4, b4).tcp(1000, 80),
        1 => ethernet.ipv4(a4, b4).tcp(1000, 443),
        2 => ethernet.ipv4(a4, Ipv4Addr::new(10, 2, 0, 1)).udp(1, 2),
        3 => ethernet.ipv4(b4, a4).ttl(1).udp(53, 53),
        4 => ethernet
            .ipv6(Ipv6Addr::from(a6), Ipv6Addr::from(b6))
            .udp(1, 2),
        5 => ethernet.arp_request(address(1), a4, b4),
        6 => ethernet.vlan(100, 0).ipv4(a4, b4).tcp(1, 80),
        7 => ethernet.mpls(16, 0, 64).ipv4(a4, b4),
        8 => ethernet.mpls(16, 0, 64).mpls(17, 0, 64).ipv4(a4, b4),
        _ => ethernet.ipv4(a4, Ipv4Addr::new(192, 0, 2, 1)).tcp(1, 85),
    };
    builder.pad_to(60).build()
}

/// The existing rules, in order of precedence.
fn flows(pipeline: &Pipeline) -> impl Iterator<Item = (RuleId, Flow)> {
    let mut rules: Vec<(RuleId, &Rule)> = pipeline.rules(pipeline.version()).collect();
    rules.sort_by_key(|(_, rule)| std::cmp::Reverse(rule.precedence));
    rules
        .into_iter()
        .map(|(id, _)| (id, pipeline.flow_of(id).expect("it lives")))
}

/// All state that a change could affect.
fn picture(engine: &mut Engine) -> Vec<String> {
    engine.settle();
    let pipeline = engine.pipeline();
    let version = pipeline.version();
    let rules = flows(&pipeline).map(|(id, flow)| {
        let counters = pipeline.rule(id).expect("it lives").counters;
        format!("{id:?} {flow} {counters:?}")
    });
    let groups = pipeline.groups(version).map(|group| {
        let counters = pipeline.group_counters(group.id);
        format!("{group} {counters:?}")
    });
    let ports = pipeline.ports(version).map(|port| format!("{port:?}"));
    rules.chain(groups).chain(ports).collect()
}

/// Builds a pipeline at once with this one's rules; `None` if a group names a removed group.
fn from_scratch(pipeline: &Pipeline, now: Instant) -> Option<Pipeline> {
    let version = pipeline.version();
    let mut fresh = Pipeline::new(thalweg_pipeline::Config::default());
    let mut groups: Vec<_> = pipeline.groups(version).cloned().collect();
    for _ in 0..groups.len() {
        groups.retain(|group| {
            let change = Change::one(Operation::SetGroup((**group).clone()));
            fresh.apply(&change, now).is_err()
        });
    }
    if !groups.is_empty() {
        return None;
    }
    let ports = pipeline
        .ports(version)
        .map(|(port, state)| Operation::SetPort(port, state));
    let rules = flows(pipeline).map(|(_, flow)| Operation::Add(flow));
    let stations = pipeline.macs().stations(version);
    let moves = stations.map(|(station, port)| MacMove {
        station,
        port: Some(port),
    });
    let moves = Operation::MoveMacs(moves.collect());
    let operations = ports.chain(rules).chain([moves]).collect();
    let applied = fresh.apply(&Change { operations }, now);
    applied.unwrap_or_else(|error| panic!("what was accepted once is refused: {error}"));
    Some(fresh)
}
