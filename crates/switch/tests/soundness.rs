//! Cache equals interpreter: random pipelines, random and adversarial packets, random changes.
//!
//! After every step, the caches' answers are compared byte for byte with the interpreter's at
//! the same version. Bits outside an entry's mask are flipped: the walk must stay the same.
//! `THALWEG_CHECKS` sets more comparisons than the default, and `THALWEG_SEED` another first
//! seed.

#[path = "lab/layers.rs"]
mod layers;
#[path = "lab/meters.rs"]
mod meters;
#[path = "lab/vlans.rs"]
mod vlans;

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_datapath::{MaintainerKind, MegaflowClassifier, Mode, RefuseReason};
use thalweg_packet::{Headers, Instant, Packet, PortId, Receipt, TunnelPart};
use thalweg_pipeline::{
    BridgeId, Change, ClassifierKind, Effect, FragmentMode, Mirrors, Operation, StepKind, text,
    translate,
};
use thalweg_switch::{Config, Engine};
use thalweg_workload::{Field, IS_OPTIMISED, PacketSource, RandomConfig, RandomPipeline};

/// Least comparisons in a run.
const CHECKS: u64 = if IS_OPTIMISED { 1_200_000 } else { 20_000 };

const FRAGMENT_MODES: [FragmentMode; 3] = [
    FragmentMode::Normal,
    FragmentMode::Drop,
    FragmentMode::NxMatch,
];

fn setting(name: &str, default: u64) -> u64 {
    let value = std::env::var(name);
    value.map_or(default, |value| {
        value.parse().expect("the setting is a number")
    })
}

/// Shapes of pipelines and caches: small caches evict, a low mask limit forces exact entries.
/// The same pipelines also run with other cache classifiers, and without wildcard entries.
fn shapes() -> Vec<(RandomConfig, Config)> {
    let mut shapes = Vec::new();
    for (index, maintainer) in MaintainerKind::STRICT
        .into_iter()
        .cycle()
        .take(6)
        .enumerate()
    {
        let mut engine = Config {
            is_audited: true,
            ..Config::default()
        };
        engine.datapath.maintainer = maintainer;
        engine.pipeline.classifier = ClassifierKind::ALL[index % ClassifierKind::ALL.len()];
        engine.datapath.microflow.entries = [16, 256, 0][index % 3];
        engine.datapath.microflow.admit_one_in = 1 + index as u32;
        engine.datapath.megaflow.entries = [5, 10_000, 100][index % 3];
        engine.datapath.megaflow.masks = [3, 1_000, 8][index / 2];
        // The broad ones have groups, action sets, labels that recirculate, `normal` and more.
        let is_broad = index >= 3;
        let mut random = if is_broad {
            RandomConfig::broad()
        } else {
            RandomConfig::default()
        };
        random.tables = [2, 4, 6][index % 3];
        random.rules_per_table = [4, 12, 30][index / 2];
        shapes.push((random, engine));
    }
    let tuple_space = shapes.clone();
    for (random, mut engine) in tuple_space.clone() {
        for classifier in [MegaflowClassifier::Bloom, MegaflowClassifier::Learned] {
            engine.datapath.megaflow.classifier = classifier;
            shapes.push((random.clone(), engine.clone()));
        }
    }
    for (mut random, engine) in tuple_space.clone() {
        random.conjoins = true;
        shapes.push((random, engine));
    }
    for (random, mut engine) in tuple_space.iter().skip(2).take(2).cloned() {
        engine.datapath.megaflow.is_exact = true;
        engine.datapath.megaflow.sample_bytes = 40;
        shapes.push((random, engine));
    }
    for (index, (mut random, mut engine)) in tuple_space.iter().cloned().enumerate() {
        engine.datapath.mode = Mode::ComputationalFlows;
        random.conjoins = index % 2 == 0;
        shapes.push((random, engine));
    }
    for (mut random, engine) in tuple_space.iter().cloned() {
        random.checks_length = true;
        random.fields.extend([Field::PacketMark, Field::SetOutput]);
        shapes.push((random, engine));
    }
    for (mut random, engine) in tuple_space {
        random.learns = true;
        shapes.push((random, engine));
    }
    shapes
}

struct Run {
    engine: Engine,
    rules: RandomPipeline,
    packets: PacketSource,
    random: Pcg64Mcg,
    now: Instant,
    /// Whether meters drop packets; then each packet is a burst.
    drops: bool,
    /// Whether packets come out of tunnels, and rules read and write their values.
    tunnels: bool,
    /// Whether rules put headers in front of packets and take them off.
    layers: bool,
    checked: u64,
    flips: u64,
}

impl Run {
    fn new(random_config: &RandomConfig, config: &Config, seed: u64) -> Run {
        let mut config = config.clone();
        config.datapath.seed = seed;
        config.pipeline.seed = seed;
        let mut engine = Engine::new(config).expect("a sound configuration");
        let now = Instant::from_nanos(1);
        for port in 1..=random_config.ports {
            engine.add_port(PortId(port), now);
        }
        let rules = RandomPipeline::new(random_config, seed).expect("a sound configuration");
        let groups: String = rules
            .groups()
            .iter()
            .map(|group| format!("{group}\n"))
            .collect();
        let groups = text::parse_rules("random", &groups).expect("generated groups are right");
        engine
            .apply(&groups.into_change(), now)
            .expect("generated groups are right");
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let drops = random.random_ratio(1, 3);
        let set = engine.apply(&meters::all_meters(&mut random, drops), now);
        set.expect("there is room for meters");
        if seed.is_multiple_of(3) {
            let ports = 1..=random_config.ports;
            let operations: Vec<Operation> = ports
                .map(|port| {
                    let vlans = Arc::new(vlans::any_vlans(&mut random));
                    Operation::SetPortVlans(PortId(port), vlans)
                })
                .collect();
            let mirrors = match seed.is_multiple_of(2) {
                true => vlans::any_mirrors(&mut random),
                false => Mirrors::default(),
            };
            let mirrors = Operation::SetMirrors(BridgeId(0), Arc::new(mirrors));
            let change = Change {
                operations: operations.into_iter().chain([mirrors]).collect(),
            };
            let set = engine.apply(&change, now);
            set.expect("ports can have these VLANs, and the switch these mirrors");
        }
        let tunnels = seed % 4 == 1;
        let layers = seed % 4 == 3;
        let mut rules_text = spelt(rules.rules_text(), tunnels, layers);
        if layers {
            rules_text += layers::RULES;
        }
        let parsed = text::parse_rules("random", &rules_text);
        let parsed = parsed.unwrap_or_else(|errors| panic!("seed {seed}: {errors:?}"));
        let change = meters::metered(&mut random, parsed.into_change());
        engine
            .apply(&change, now)
            .expect("generated rules are right");
        Run {
            engine,
            rules,
            packets: PacketSource::new(random_config, seed),
            random,
            now,
            drops,
            tunnels,
            layers,
            checked: 0,
            flips: 0,
        }
    }

    /// Forwards bursts, of one packet or of more than the datapath looks up together.
    fn forward(&mut self, packets: usize, context: &str) {
        let mut left = packets;
        while left > 0 {
            let count = match self.drops {
                true => 1,
                false => self.random.random_range(1..=40).min(left),
            };
            left -= count;
            let burst: Vec<Packet> = (0..count).map(|_| self.next_packet()).collect();
            // Twice: answered first by any cache that has it, then by the cache that it was
            // put into.
            for _ in 0..2 {
                let stale = self.engine.audit().expect("audited").stale;
                self.engine.forward(&mut burst.clone(), self.now);
                let audit = self.engine.audit().expect("audited");
                assert_eq!(audit.stale, stale, "{context}: {}", self.explain(&burst));
                self.checked = audit.checked;
                self.engine.outbox().recycle();
            }
            for packet in &burst {
                if self.random.random_ratio(1, 4) {
                    self.flip(packet, context);
                }
            }
        }
    }

    fn next_packet(&mut self) -> Packet {
        let mut random = self.packets.next_packet();
        if self.layers && self.random.random_ratio(1, 3) {
            random.bytes = layers::any_service(&mut self.random, &random.bytes);
        }
        let mut packet = Packet::from_bytes(&random.bytes);
        packet.set_received(PortId(random.in_port), self.now);
        if self.tunnels && self.random.random_ratio(2, 3) {
            const VALUES: [u128; 5] = [0, 1, 2, 80, u32::MAX as u128];
            let mut value = || VALUES[self.random.random_range(0..VALUES.len())];
            let tunnel = packet.tunnel_mut();
            tunnel.set(TunnelPart::Id, value());
            let option = value();
            if value() < 80 {
                tunnel.set(TunnelPart::Option(0), option);
            }
        }
        packet
    }

    /// The answers of interpreter and caches to packets, for debugging a failure.
    fn explain(&self, burst: &[Packet]) -> String {
        let pipeline = self.engine.pipeline();
        let layout = pipeline.layout();
        let mut text = String::from("a stale answer in this burst\n");
        for packet in burst {
            let Ok(headers) = Headers::parse(packet.bytes()) else {
                continue;
            };
            let mut key = vec![0; layout.ingress_words()];
            let receipt = Receipt::from_port(packet.in_port().0);
            layout.extract(packet.bytes(), &headers, &receipt, &mut key);
            let translation = translate(&pipeline, &key, pipeline.version());
            text += &format!("{packet:?}: {translation:?}\n");
            for entry in self.engine.datapath().entries() {
                let mut words = key.iter().zip(entry.key.iter().zip(&entry.mask));
                if words.all(|(key, (entry, mask))| (key ^ entry) & mask == 0) {
                    text += &format!("in the region of {entry:x?}\n");
                }
            }
        }
        text
    }

    /// Flips bits that the walk did not depend on: trace and effects must stay.
    fn flip(&mut self, packet: &Packet, context: &str) {
        let pipeline = self.engine.pipeline();
        let layout = pipeline.layout().clone();
        let Ok(headers) = Headers::parse(packet.bytes()) else {
            return;
        };
        let mut key = vec![0; layout.ingress_words()];
        let receipt = Receipt {
            tunnel: packet.tunnel(),
            ..Receipt::from_port(packet.in_port().0)
        };
        layout.extract(packet.bytes(), &headers, &receipt, &mut key);
        let version = pipeline.version();
        let original = translate(&pipeline, &key, version);
        let kinds: Vec<StepKind> = original.trace.kinds().collect();
        for _ in 0..4 {
            let mut flipped = key.clone();
            for &field in layout.used() {
                let Some(slot) = layout.slot(field) else {
                    continue;
                };
                if !layout.descriptor(field).is_ingress() || self.random.random_ratio(1, 2) {
                    continue;
                }
                for bit in 0..slot.width_bits {
                    let (word, shift) = slot.position(bit);
                    let is_free = original.mask[word] >> shift & 1 == 0;
                    if is_free && self.random.random_ratio(1, 2) {
                        flipped[word] ^= 1 << shift;
                    }
                }
            }
            let again = translate(&pipeline, &flipped, version);
            assert_eq!(again.effects, original.effects, "{context}: {packet:?}");
            assert!(
                again.trace.kinds().eq(kinds.iter().copied()),
                "{context}: {packet:?}"
            );
            self.flips += 1;
        }
    }

    /// Checks that drops were counted for the same reasons as the interpreter gives.
    fn compare_drops(&self, context: &str) {
        let counted: BTreeMap<_, _> = self.engine.datapath().statistics().drops().collect();
        let expected = &self.engine.audit().expect("audited").drops;
        for (reason, count) in expected.iter() {
            assert_eq!(counted.get(reason), Some(&count), "{context}: {reason}");
        }
        let of_caches: Vec<_> = RefuseReason::ALL.map(RefuseReason::name).into();
        let of_rules = counted.keys().filter(|name| !of_caches.contains(name));
        assert_eq!(
            of_rules.count(),
            expected.iter().count(),
            "{context}: {counted:?}"
        );
    }

    /// Changes rules, or now and then what tables see of fragments, and a meter.
    fn change(&mut self, context: &str) {
        if self.random.random_ratio(1, 5) {
            let mode = FRAGMENT_MODES[self.random.random_range(0..FRAGMENT_MODES.len())];
            let set = Operation::SetFragments(BridgeId::default(), mode);
            let applied = self.engine.apply(&Change::one(set), self.now);
            applied.unwrap_or_else(|error| panic!("{context}: {error}"));
        }
        let change = self.rules.next_change().to_string();
        let change = spelt(change, self.tunnels, self.layers);
        let parsed = text::parse_changes("random", &change);
        let changes = parsed.unwrap_or_else(|errors| panic!("{context}: {errors:?}\n{change}"));
        if self.random.random_ratio(1, 4) {
            let change = meters::another_meter(&mut self.random, self.drops);
            let applied = self.engine.apply(&change, self.now);
            applied.unwrap_or_else(|error| panic!("{context}: {error}"));
        }
        for change in changes {
            let change = meters::metered(&mut self.random, change.change);
            let applied = self.engine.apply(&change, self.now);
            applied.unwrap_or_else(|error| panic!("{context}: {error}"));
        }
    }
}

/// The same rules; with `tunnels`, registers 2 and 3 are values of the packet's tunnel. With
/// `layers`, many put headers in front of what they send, or take some off.
fn spelt(rules: String, tunnels: bool, layers: bool) -> String {
    if layers {
        return layers::with_layers(&rules);
    }
    if !tunnels {
        return rules;
    }
    let mut text = rules;
    for (register, field) in [("reg2", "tun_id"), ("reg3", "tun_metadata0")] {
        text = text.replace(&format!("{register}[]"), &format!("{field}[0..31]"));
        text = text.replace(register, field);
    }
    text
}

#[test]
fn every_cached_answer_is_the_interpreters() {
    let wanted = setting("THALWEG_CHECKS", CHECKS);
    let mut checked = 0;
    let mut flips = 0;
    let mut drops = BTreeMap::new();
    let (mut hits, mut recirculations, mut computed) = (0, 0, 0);
    let (mut candidates, mut falses) = (0, 0);
    let mut learned = 0;
    let (mut branches, mut remarks) = (0, 0);
    for seed in setting("THALWEG_SEED", 0).. {
        for (index, (random, config)) in shapes().iter().enumerate() {
            let context = format!("seed {seed}, shape {index}");
            let mut run = Run::new(random, config, seed * 100 + index as u64);
            run.forward(60, &context);
            for _ in 0..20 {
                run.change(&context);
                run.forward(12, &context);
            }
            run.compare_drops(&context);
            assert_eq!(run.engine.datapath().verify(), Ok(()), "{context}");
            checked += run.checked;
            flips += run.flips;
            let statistics = run.engine.datapath().statistics();
            hits += statistics.microflow.hits + statistics.megaflow.hits;
            recirculations += statistics.recirculations;
            learned += run.engine.learning().learned;
            branches += entries_with(&run, |effect| matches!(effect, Effect::ByLength { .. }));
            remarks += entries_with(&run, |effect| matches!(effect, Effect::Remark(_)));
            candidates += statistics.lookups.candidates;
            falses += statistics.lookups.false_candidates;
            if config.datapath.mode == Mode::ComputationalFlows {
                assert_eq!((statistics.upcalls, statistics.megaflow.insertions), (0, 0));
                computed += statistics.computed;
            }
            for (reason, count) in statistics.drops() {
                *drops.entry(reason).or_insert(0) += count;
            }
        }
        if checked >= wanted {
            break;
        }
    }
    println!("{candidates} candidates of the first layer, {falses} of them false");
    println!(
        "{checked} answers compared, {flips} masks flipped, {hits} hits, {recirculations} \
         recirculations, {computed} by the rules, {learned} rules learned, drops {drops:?}"
    );
    assert!(branches > 100, "hardly any answer depended on a length");
    assert!(
        remarks > 100,
        "hardly any answer led through a meter that remarks"
    );
    assert!(learned > 100, "packets hardly taught any rules");
    assert!(
        computed > checked / 20,
        "the rules hardly answered anything"
    );
    assert!(
        hits > checked / 4,
        "the caches were hardly used: {hits} hits of {checked}"
    );
    assert!(recirculations > 0, "no packet was looked up twice");
    for reason in ["fragment", "meter", "unsupported_packet_type", "too_short"] {
        assert!(drops[reason] > 0, "no packet was dropped for {reason}");
    }
    assert!(
        candidates > 100 && falses > 0,
        "the first layer was not used"
    );
}

/// How many entries have such an effect.
fn entries_with(run: &Run, is_such: fn(&Effect) -> bool) -> usize {
    fn has(effects: &[Effect], is_such: fn(&Effect) -> bool) -> bool {
        let inside = |effect: &Effect| effect.lists().any(|list| has(list, is_such));
        effects
            .iter()
            .any(|effect| is_such(effect) || inside(effect))
    }
    let entries = run.engine.datapath().entries();
    let such = entries.iter().filter(|entry| has(&entry.effects, is_such));
    such.count()
}
