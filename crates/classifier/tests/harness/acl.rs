//! Access lists like ClassBench's: nested prefix pairs, protocols and ports.
//!
//! They have some 150 masks, of which few are frequent.

use rand::Rng;
use rand::seq::IndexedRandom;
use rand_pcg::Pcg64;
use thalweg_classifier::{Classifier, Pattern, Precedence, RuleId, TupleSpaceConfig, Version};
use thalweg_packet::{Slot, Stage};

/// The number of words of the keys: port, type, addresses, protocol, ports.
pub(crate) const WORDS: usize = 5;

/// The tuple space configuration of these keys, with tries for addresses.
pub(crate) fn config(seed: u64) -> TupleSpaceConfig {
    let slot = |word, shift, width_bits| Slot {
        word,
        shift,
        width_bits,
    };
    TupleSpaceConfig {
        stages: vec![
            Stage::Metadata,
            Stage::Link,
            Stage::Network,
            Stage::Network,
            Stage::Transport,
        ],
        prefix_fields: vec![slot(2, 32, 32), slot(2, 0, 32)],
        seed,
    }
}

/// A rule.
#[derive(Clone, Debug)]
pub(crate) struct AclRule {
    pub(crate) value: [u64; WORDS],
    pub(crate) mask: [u64; WORDS],
    pub(crate) priority: u16,
}

/// The lengths of the four prefixes, and whether the protocol matters.
#[derive(Clone, Copy)]
struct Shape {
    source: u32,
    destination: u32,
    has_protocol: bool,
    source_port: u32,
    destination_port: u32,
}

/// Generates `count` rules, best first.
pub(crate) fn rules(count: usize, seed: u64) -> Vec<AclRule> {
    let mut rng = Pcg64::new(u128::from(seed), 1);
    let shapes: Vec<Shape> = (0..150).map(|_| shape(&mut rng)).collect();
    // Few networks with hosts in them: prefixes are nested and shared between rules.
    let networks: Vec<u32> = (0..(count / 20).max(8)).map(|_| rng.random()).collect();
    let ports: Vec<u64> = (0..200).map(|_| rng.random_range(0..1 << 16)).collect();
    let mut rules: Vec<AclRule> = Vec::with_capacity(count);
    let mut seen = std::collections::HashSet::new();
    while rules.len() < count {
        // The square of a uniform number makes the first shapes frequent.
        let at = rng.random::<f64>().powi(2) * shapes.len() as f64;
        let shape = shapes[at as usize];
        let rule = rule(&mut rng, shape, &networks, &ports);
        if seen.insert((rule.value, rule.mask)) {
            rules.push(rule);
        }
    }
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
    rules
}

fn shape(rng: &mut Pcg64) -> Shape {
    let mut length = || match rng.random_range(0..10) {
        0 => rng.random_range(0..16),
        1..4 => rng.random_range(16..25),
        4..6 => rng.random_range(25..32),
        _ => 32,
    };
    let (source, destination) = (length(), length());
    let has_protocol = rng.random_range(0..10) > 0;
    Shape {
        source,
        destination,
        has_protocol,
        source_port: if has_protocol && rng.random_range(0..10) == 0 {
            16
        } else {
            0
        },
        destination_port: match rng.random_range(0..10) {
            0..6 if has_protocol => 16,
            6..8 if has_protocol => rng.random_range(4..16),
            _ => 0,
        },
    }
}

fn rule(rng: &mut Pcg64, shape: Shape, networks: &[u32], ports: &[u64]) -> AclRule {
    let mut address = || {
        let network = networks.choose(rng).expect("there are networks");
        u64::from(network ^ rng.random_range(0..256))
    };
    let addresses = address() << 32 | address();
    let port = |rng: &mut Pcg64| *ports.choose(rng).expect("there are ports");
    let protocol = if rng.random() { 6 } else { 17 };
    let prefix = |length: u32, width: u32| (1u64 << width) - (1u64 << (width - length));
    let mask = [
        0,
        0xffff,
        prefix(shape.source, 32) << 32 | prefix(shape.destination, 32),
        if shape.has_protocol { 0xff } else { 0 },
        prefix(shape.source_port, 16) << 48 | prefix(shape.destination_port, 16) << 32,
    ];
    let key = [
        0,
        0x0800,
        addresses,
        protocol,
        port(rng) << 48 | port(rng) << 32,
    ];
    let specific = shape.source + shape.destination + shape.destination_port;
    AclRule {
        value: std::array::from_fn(|word| key[word] & mask[word]),
        mask,
        priority: (specific * 256 + rng.random_range(0..4096)) as u16,
    }
}

/// Inserts the rules into a classifier, all born at `born`.
pub(crate) fn load(classifier: &mut dyn Classifier, rules: &[AclRule], born: Version) {
    for (number, rule) in rules.iter().enumerate() {
        let pattern = Pattern {
            value: &rule.value,
            mask: &rule.mask,
        };
        let precedence = Precedence::new(rule.priority, number as u64);
        classifier.insert(pattern, precedence, RuleId(number as u32), born);
    }
}

/// Keys of IPv4 packets that each match some rule.
pub(crate) fn keys_that_hit(rules: &[AclRule], count: usize, seed: u64) -> Vec<[u64; WORDS]> {
    let mut rng = Pcg64::new(u128::from(seed), 2);
    let mut key = || {
        let rule = rules.choose(&mut rng).expect("there are rules");
        let random = random_key(&mut rng);
        std::array::from_fn(|word| random[word] & !rule.mask[word] | rule.value[word])
    };
    (0..count).map(|_| key()).collect()
}

/// Keys of IPv4 packets between random addresses, which match almost no rule.
pub(crate) fn keys_that_miss(count: usize, seed: u64) -> Vec<[u64; WORDS]> {
    let mut rng = Pcg64::new(u128::from(seed), 3);
    (0..count).map(|_| random_key(&mut rng)).collect()
}

fn random_key(rng: &mut Pcg64) -> [u64; WORDS] {
    let ports = rng.random::<u64>() & !u64::from(u32::MAX);
    let protocol = if rng.random() { 6 } else { 17 };
    [
        rng.random_range(0..64),
        0x0800,
        rng.random(),
        protocol,
        ports,
    ]
}
