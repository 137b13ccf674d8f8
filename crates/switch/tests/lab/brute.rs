//! Randomly changed pipelines, compared with brute force: the interpreter answers every
//! entry's key again, and keys of its region that are chosen to get another answer.

// Each test program uses only a part of it.
#![allow(dead_code)]

#[path = "vlans.rs"]
mod vlans;

use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_datapath::{EntryView, EvictReason, MaintainerKind};
use thalweg_packet::{Instant, Layout, Packet, PortId, standard};
use thalweg_pipeline::{
    Action, BridgeId, Change, Effect, FragmentMode, Group, GroupKind, Miss, Misses, Operation,
    Output, Pipeline, PortState, RuleId, StepKind, Translation, text, translate,
};
use thalweg_switch::{Config, Engine};
use thalweg_workload::{ConversationSource, Field, PacketSource, RandomConfig, RandomPipeline};

/// Keys of a region tried after each change, for each entry checked.
const TRIES: usize = 3;

/// The second bridge of pipelines that have two.
const OTHER: BridgeId = BridgeId(1);

/// The first bridge's end of the patch between them; the other end has the same number.
const PATCH: PortId = PortId(3);

fn in_other_bridge(change: &Change) -> Change {
    let operations = change.operations.iter();
    Change {
        operations: operations
            .map(|operation| operation.in_bridge(OTHER))
            .collect(),
    }
}

/// An engine with a random pipeline, and the results of brute force so far.
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    pub(crate) rules: RandomPipeline,
    pub(crate) packets: PacketSource,
    /// What packets come of, where rules track them.
    pub(crate) conversations: Option<ConversationSource>,
    pub(crate) random: Pcg64Mcg,
    pub(crate) examined: u64,
    pub(crate) affected: u64,
    /// Bits in entries' masks beyond those of fresh translations, and the number of entries
    /// compared.
    pub(crate) extra_bits: u64,
    pub(crate) compared: u64,
}

fn shape(is_broad: bool) -> RandomConfig {
    match is_broad {
        true => RandomConfig::broad(),
        false => RandomConfig::default(),
    }
}

impl Bench {
    pub(crate) fn new(kind: MaintainerKind, is_broad: bool, seed: u64) -> Bench {
        Bench::with(kind, is_broad, seed, Config::default())
    }

    /// The same, with the given limits where this does not set them.
    pub(crate) fn with(kind: MaintainerKind, is_broad: bool, seed: u64, config: Config) -> Bench {
        Bench::shaped(kind, shape(is_broad), seed, config)
    }

    /// The same with rules that track connections, and packets that belong to some.
    pub(crate) fn tracking(
        kind: MaintainerKind,
        is_broad: bool,
        seed: u64,
        config: Config,
    ) -> Bench {
        let shape = RandomConfig {
            tracks: true,
            ..shape(is_broad)
        };
        Bench::shaped(kind, shape, seed, config)
    }

    /// The same with conjunctive matches.
    pub(crate) fn conjoining(
        kind: MaintainerKind,
        is_broad: bool,
        seed: u64,
        config: Config,
    ) -> Bench {
        let shape = RandomConfig {
            conjoins: true,
            ..shape(is_broad)
        };
        Bench::shaped(kind, shape, seed, config)
    }

    fn shaped(
        kind: MaintainerKind,
        mut shape: RandomConfig,
        seed: u64,
        mut config: Config,
    ) -> Bench {
        shape.tables = 2 + (seed % 5) as u8;
        shape.rules_per_table = [4, 10, 25][seed as usize % 3];
        shape.checks_length = seed.is_multiple_of(4);
        if seed % 4 == 1 {
            shape.fields.extend([Field::PacketMark, Field::SetOutput]);
        }
        config.datapath.maintainer = kind;
        config.datapath.seed = seed;
        config.pipeline.seed = seed;
        // Every third pipeline has two bridges with a patch between them.
        let has_bridges = seed % 3 == 1;
        config.pipeline.bridges = has_bridges;
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
            let change = read.into_change();
            let loaded = engine.apply(&change, Instant::ZERO);
            loaded.expect("generated rules are right");
            if has_bridges {
                let loaded = engine.apply(&in_other_bridge(&change), Instant::ZERO);
                loaded.expect("they are right in each bridge");
            }
        }
        if has_bridges {
            let ends = [PATCH, OTHER.port(PATCH.0 as u16)];
            let ports = (1..=4).map(|port| OTHER.port(port)).chain([PATCH]);
            for port in ports {
                let place = ends.iter().position(|end| *end == port);
                let state = PortState {
                    is_up: true,
                    floods: true,
                    forwards: true,
                    peer: place.map(|place| ends[1 - place]),
                };
                let change = Change::one(Operation::SetPort(port, state));
                let made = engine.apply(&change, Instant::ZERO);
                made.expect("ports can be added");
            }
        }
        Bench {
            engine,
            rules,
            packets: PacketSource::new(&shape, seed),
            conversations: shape.tracks.then(|| ConversationSource::new(&shape, seed)),
            random: Pcg64Mcg::seed_from_u64(seed),
            examined: 0,
            affected: 0,
            extra_bits: 0,
            compared: 0,
        }
    }

    pub(crate) fn sample(&mut self, count: usize) -> Vec<Packet> {
        let has_bridges = self.engine.pipeline().has_bridges();
        let packet = |_| {
            let random = match &mut self.conversations {
                Some(conversations) => conversations.next_packet(),
                None => self.packets.next_packet(),
            };
            let mut packet = Packet::from_bytes(&random.bytes);
            let port = PortId(random.in_port);
            let is_there = has_bridges && self.random.random_ratio(1, 3);
            let port = match is_there {
                true => OTHER.port(port.0 as u16),
                false => port,
            };
            packet.set_received(port, Instant::ZERO);
            packet
        };
        (0..count).map(packet).collect()
    }

    pub(crate) fn forward(&mut self, packets: usize) {
        let mut burst = self.sample(packets);
        self.engine.forward(&mut burst, Instant::ZERO);
        self.engine.outbox().recycle();
    }

    /// Forwards these packets, twenty at a time.
    pub(crate) fn forward_all(&mut self, packets: &[Packet]) {
        for burst in packets.chunks(20) {
            self.engine.forward(&mut burst.to_vec(), Instant::ZERO);
            self.engine.outbox().recycle();
        }
    }

    /// Has `normal` answer all packets, in every bridge.
    pub(crate) fn forward_normally(&mut self) {
        let rule = text::parse_rules("normal", "table=0,priority=65535,actions=normal");
        let change = rule.expect("the rule is right").into_change();
        let loaded = self.engine.apply(&change, Instant::ZERO);
        loaded.expect("it can be added");
        if self.engine.pipeline().has_bridges() {
            let there = self.engine.apply(&in_other_bridge(&change), Instant::ZERO);
            there.expect("it can be added there, too");
        }
    }

    /// Applies a change, in either bridge.
    pub(crate) fn change_to(&mut self, change: Change) {
        let has_bridges = self.engine.pipeline().has_bridges();
        let change = match has_bridges && self.random.random_ratio(1, 2) {
            true => in_other_bridge(&change),
            false => change,
        };
        let update = self.engine.apply(&change, Instant::ZERO);
        let work = update.expect("generated changes are right").work;
        self.examined += work.examined;
        self.affected += work.affected();
    }

    /// Packets that teach nothing, whatever the rules, since learning would be a separate
    /// change.
    pub(crate) fn sample_untaught(&mut self, count: usize) -> Vec<Packet> {
        let mut packets = self.sample(count);
        for packet in &mut packets {
            // From a multicast address, which no station has.
            if let Some(byte) = packet.bytes_mut().get_mut(6) {
                *byte |= 1;
            }
        }
        packets
    }

    pub(crate) fn forward_untaught(&mut self, count: usize) {
        let packets = self.sample_untaught(count);
        self.forward_all(&packets);
    }

    /// Number of entries evicted because a change gave them another answer.
    pub(crate) fn evicted(&self) -> u64 {
        let statistics = self.engine.datapath().statistics();
        statistics.evictions(EvictReason::Changed)
    }

    pub(crate) fn next_changes(&mut self) -> Vec<Change> {
        let change = self.rules.next_change().to_string();
        let read = text::parse_changes("random", &change).expect("generated text is right");
        read.into_iter().map(|placed| placed.change).collect()
    }

    /// Changes of rules, of a group, or of a port.
    pub(crate) fn any_changes(&mut self) -> Vec<Change> {
        let change = match self.random.random_range(0..8) {
            0 => self.next_group(),
            1 => Some(match self.random.random_range(0..7) {
                0 => self.next_misses(),
                1 => self.next_vlans(),
                2 => self.next_fragments(),
                3 => self.next_mirrors(),
                _ => self.next_port(),
            }),
            _ => None,
        };
        let changes = change.map_or_else(|| self.next_changes(), |change| vec![change]);
        let is_there = self.engine.pipeline().has_bridges() && self.random.random_ratio(1, 2);
        match is_there {
            true => changes.iter().map(in_other_bridge).collect(),
            false => changes,
        }
    }

    pub(crate) fn change(&mut self) {
        for change in self.any_changes() {
            let update = self.engine.apply(&change, Instant::ZERO);
            let work = update.expect("generated changes are right").work;
            self.examined += work.examined;
            self.affected += work.affected();
        }
    }

    /// Rotates a group's buckets and changes or removes one of them; or removes or restores a
    /// group that only buckets name.
    pub(crate) fn next_group(&mut self) -> Option<Change> {
        if self.random.random_ratio(1, 3) {
            return self.next_inner_group();
        }
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

    fn next_inner_group(&mut self) -> Option<Change> {
        let groups = self.rules.groups().iter();
        let groups: Vec<String> = groups
            .filter(|group| group.is_inner)
            .map(ToString::to_string)
            .collect();
        if groups.is_empty() {
            return None;
        }
        let text = &groups[self.random.random_range(0..groups.len())];
        let group = text::Parser::new().parse_group(text);
        let group = group.expect("generated groups are right");
        let pipeline = self.engine.pipeline();
        let is_there = pipeline.group(group.id, pipeline.version()).is_some();
        Some(Change::one(match is_there {
            true => Operation::DeleteGroup(group.id),
            false => Operation::SetGroup(group),
        }))
    }

    /// Has tables drop packets without a rule, send them to the controller, or pass them on.
    pub(crate) fn next_misses(&mut self) -> Change {
        let kinds = [Miss::Drop, Miss::Controller, Miss::Continue];
        let mut any = || kinds[self.random.random_range(0..kinds.len())];
        let misses = Misses {
            others: any(),
            tables: (0..3).map(|table| (table, any())).collect(),
        };
        Change::one(Operation::SetMisses(BridgeId(0), Arc::new(misses)))
    }

    /// Gives a port other VLANs, or has the bridge forward to reserved addresses.
    pub(crate) fn next_vlans(&mut self) -> Change {
        if self.random.random_ratio(1, 8) {
            let does = self.random.random_ratio(1, 2);
            return Change::one(Operation::SetForwardsBpdus(BridgeId(0), does));
        }
        let port = PortId(self.random.random_range(1..=4));
        let vlans = vlans::any_vlans(&mut self.random);
        Change::one(Operation::SetPortVlans(port, Arc::new(vlans)))
    }

    /// Has tables see fragments with or without ports, or drop them.
    pub(crate) fn next_fragments(&mut self) -> Change {
        let modes = [
            FragmentMode::Normal,
            FragmentMode::Drop,
            FragmentMode::NxMatch,
        ];
        let mode = modes[self.random.random_range(0..modes.len())];
        Change::one(Operation::SetFragments(BridgeId::default(), mode))
    }

    /// Gives the bridge other mirrors, or none.
    pub(crate) fn next_mirrors(&mut self) -> Change {
        let mirrors = vlans::any_mirrors(&mut self.random);
        Change::one(Operation::SetMirrors(BridgeId(0), Arc::new(mirrors)))
    }

    /// Removes or adds a port, sets it up or down, or ends its flooding.
    pub(crate) fn next_port(&mut self) -> Change {
        let port = PortId(self.random.random_range(1..=4));
        if self.random.random_ratio(1, 4) {
            return Change::one(Operation::DeletePort(port));
        }
        let state = PortState {
            is_up: self.random.random_ratio(2, 3),
            floods: self.random.random_ratio(2, 3),
            forwards: true,
            peer: match port == PATCH && self.engine.pipeline().has_bridges() {
                // In the other bridge this is a patch to itself.
                true => Some(OTHER.port(PATCH.0 as u16)),
                false => None,
            },
        };
        Change::one(Operation::SetPort(port, state))
    }

    /// Checks I1, I2, I3 and I7.
    pub(crate) fn check(&mut self, context: &str) {
        let verified = self.engine.datapath().verify();
        assert_eq!(verified, Ok(()), "I3, {context}");
        let entries = self.engine.datapath().entries();
        let pipeline = self.engine.pipeline();
        let layout = pipeline.layout().clone();
        for entry in &entries {
            // Entries of frozen walks are reached only through the entries before them.
            if layout.get(&entry.key, standard::RECIRC_ID) != Some(0) {
                continue;
            }
            let fresh = translate(&pipeline, &entry.key, pipeline.version());
            // I2: the maintainer has followed every effect of the change.
            let is_same = is_alike(&entry.effects, &fresh.effects) && entry.rules == met(&fresh);
            assert!(is_same, "I2, {context}: {entry:?} should be {fresh:?}");
            self.compared += 1;
            let extra = entry.mask.iter().zip(&fresh.mask);
            let extra = extra.map(|(mask, fresh)| (mask & !fresh).count_ones());
            self.extra_bits += u64::from(extra.sum::<u32>());
            // I1: the same answer holds for every packet of its region, including adversarial
            // ones.
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

/// Whether effects are the same; continuation numbers may differ.
fn is_alike(one: &[Effect], other: &[Effect]) -> bool {
    let pairs = one.iter().zip(other);
    one.len() == other.len()
        && pairs.into_iter().all(|pair| match pair {
            (Effect::Recirculate(_), Effect::Recirculate(_)) => true,
            (Effect::Clone(one), Effect::Clone(other)) => is_alike(one, other),
            (
                Effect::ByLength { limit_bytes, .. },
                Effect::ByLength {
                    limit_bytes: same, ..
                },
            ) => {
                let mut lists = pair.0.lists().zip(pair.1.lists());
                limit_bytes == same && lists.all(|(one, other)| is_alike(one, other))
            }
            (one, other) => one == other,
        })
}

/// Another key of an entry's region, as close to a rule of the pipeline as the mask allows.
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
        // No packet has the number of a continuation that does not exist.
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
