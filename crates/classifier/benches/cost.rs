//! Fits the weights of `thalweg_classifier::cost`, by which an index is chosen.
//!
//! `cargo bench -p thalweg-classifier --bench cost [-- rounds=N most=RULES]`
//!
//! ```text
//!   for each shape, size and seed:  a set of filters
//!       for each kind of index:     mean of Visits::features over keys; nanoseconds a lookup
//!   weights = argmin sum of squares of (features * weights - ns) / ns,   none below zero
//! ```
//!
//! No set here is one whose results are shown: shapes are changed (how many filters share a
//! prefix, how long prefixes are, how many have port ranges), and seeds differ. A fifth of the sets
//! is held back: the last lines say how far off the weights are on them, and how much dearer the
//! kind that they choose is than the best. Kinds take turns; times are medians of the rounds.

use std::collections::{BTreeSet, HashSet};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_classifier::cost::{Visits, WEIGHTS};
use thalweg_classifier::{
    Bloom, BloomConfig, Classifier, Learned, LearnedConfig, MergedTuples, Pattern, Precedence,
    RuleId, TupleSpaceConfig, Version,
};
use thalweg_packet::{FieldId, Layout, standard};
use thalweg_workload::{Extra, Field, PortClass, Profile, Shape, filter_rules};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const VERSION: Version = Version(1);
const BURST: usize = 32;
/// Lookups of a round.
const LOOKUPS: usize = 1 << 16;
/// Keys of which visits are counted.
const COUNTED: usize = 2_048;
const SIZES: [usize; 6] = [300, 800, 2_500, 8_000, 30_000, 100_000];
/// One set in `HELD_BACK` is held back.
const HELD_BACK: usize = 5;
/// The most masks for which a tuple space, and a filter before one, are tried.
const TUPLE_SPACE_MASKS: usize = 64;
const BLOOM_MASKS: usize = 512;

const FIELDS: [FieldId; 6] = [
    standard::ETH_TYPE,
    standard::IP_PROTO,
    standard::IP_SRC,
    standard::IP_DST,
    standard::TP_SRC,
    standard::TP_DST,
];
const PREFIX_FIELDS: [FieldId; 4] = [
    standard::IP_SRC,
    standard::IP_DST,
    standard::TP_SRC,
    standard::TP_DST,
];

/// Changes of a shape, by name.
type Variant = (&'static str, fn(&mut Shape));

const VARIANTS: [Variant; 5] = [
    ("shared", |shape| {
        for sharing in &mut shape.sharing {
            sharing.sources = (sharing.sources / 4).max(1);
            sharing.destinations = (sharing.destinations / 4).max(1);
        }
    }),
    ("apart", |shape| {
        for sharing in &mut shape.sharing {
            sharing.sources = (sharing.sources * 2).min(950);
            sharing.destinations = (sharing.destinations * 2).min(950);
        }
    }),
    ("short", |shape| {
        for length in &mut shape.lengths {
            length.source = length.source.saturating_sub(5);
            length.destination = length.destination.saturating_sub(3);
        }
    }),
    ("few masks", |shape| {
        let mut lengths = shape.lengths.clone();
        lengths.sort_by_key(|length| std::cmp::Reverse(length.weight));
        let mut seen = HashSet::new();
        // The commonest lengths of each pair of port classes.
        lengths.retain(|length| seen.insert(length.ports));
        shape.lengths = lengths;
    }),
    ("no ranges", |shape| {
        let has_range =
            |one: &PortClass, other: &PortClass| [one, other].contains(&&PortClass::Range);
        let is_plain =
            |share: &thalweg_workload::ServiceShare| !has_range(&share.source, &share.destination);
        shape.services.retain(is_plain);
    }),
];

fn field_of(field: Field) -> FieldId {
    match field {
        Field::EthType => standard::ETH_TYPE,
        Field::IpProtocol => standard::IP_PROTO,
        Field::IpSrc => standard::IP_SRC,
        Field::IpDst => standard::IP_DST,
        Field::TcpSrc | Field::UdpSrc => standard::TP_SRC,
        Field::TcpDst | Field::UdpDst => standard::TP_DST,
        other => panic!("{other:?} is in no filter"),
    }
}

/// Rules and keys that meet them.
struct Set {
    name: String,
    layout: Layout,
    rules: Vec<(Vec<u64>, Vec<u64>, u16)>,
    keys: Vec<u64>,
}

impl Set {
    fn new(name: String, shape: &Shape, count: usize, seed: u64) -> Set {
        let filters = shape.filters(count, seed);
        let layout = Layout::new(Arc::new(standard::fields()), &BTreeSet::from(FIELDS));
        let layout = layout.expect("it fits");
        let rules = filter_rules(&filters, 0, Extra::Ignore, |_| Vec::new()).expect("it fits");
        let words = |rule: &thalweg_workload::Rule| {
            let (mut value, mut mask) = (vec![0; layout.words()], vec![0; layout.words()]);
            for term in rule.matches.terms() {
                layout.set(&mut value, field_of(term.field), term.value);
                layout.set(&mut mask, field_of(term.field), term.mask);
            }
            (value, mask, rule.priority)
        };
        let rules: Vec<_> = rules.iter().map(words).collect();
        let mut all = vec![0; layout.words()];
        for field in FIELDS {
            let slot = layout.slot(field).expect("it is used");
            layout.set(&mut all, field, u128::MAX >> (128 - slot.width_bits));
        }
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut keys = Vec::new();
        for _ in 0..LOOKUPS {
            let (value, mask, _) = &rules[random.random_range(0..rules.len())];
            for ((value, mask), all) in value.iter().zip(mask).zip(&all) {
                keys.push(value | random.random::<u64>() & all & !mask);
            }
        }
        Set {
            name,
            layout,
            rules,
            keys,
        }
    }

    fn load<C: Classifier>(&self, mut subject: C) -> C {
        for (number, (value, mask, priority)) in self.rules.iter().enumerate() {
            let precedence = Precedence::new(*priority, number as u64);
            let id = RuleId(number as u32);
            subject.insert(Pattern { value, mask }, precedence, id, VERSION);
        }
        subject.reclaim(VERSION);
        subject
    }

    fn learned(&self, change: fn(&mut LearnedConfig)) -> Learned {
        let mut config = LearnedConfig::new(&self.layout, &PREFIX_FIELDS, 1);
        change(&mut config);
        let mut learned = self.load(Learned::new(config));
        learned.train_now();
        learned
    }

    /// The mean of the features over some keys.
    fn features(&self, visits: impl Fn(&[u64]) -> Visits) -> [f64; WEIGHTS] {
        let mut sum = [0.0; WEIGHTS];
        for key in self.keys.chunks_exact(self.layout.words()).take(COUNTED) {
            let features = visits(key).features();
            sum.iter_mut()
                .zip(features)
                .for_each(|(sum, one)| *sum += one);
        }
        sum.map(|sum| sum / COUNTED as f64)
    }

    fn time_ns(&self, subject: &dyn Classifier) -> f64 {
        let mut answers = [None; BURST];
        let start = Instant::now();
        for keys in self.keys.chunks_exact(self.layout.words() * BURST) {
            subject.lookup_batch(black_box(keys), VERSION, &mut answers);
            black_box(&answers);
        }
        start.elapsed().as_secs_f64() * 1e9 / LOOKUPS as f64
    }

    /// A row for each kind of index.
    fn measure(&self, rounds: usize) -> Vec<Row> {
        let tuples = TupleSpaceConfig::new(&self.layout, &PREFIX_FIELDS, 1);
        let merged = self.load(MergedTuples::new(tuples.clone()));
        let visits_of = |tuples: &MergedTuples, key: &[u64]| {
            let (tables, patterns) = tuples.visited_by(key, VERSION);
            let rules = self.rules.len();
            Visits {
                tables,
                patterns,
                rules,
                ..Visits::default()
            }
        };
        let learned = [
            ("learned", self.learned(|_| {})),
            (
                "learned, one iSet",
                self.learned(|config| {
                    (config.is_cost_ignored, config.isets_max) = (true, 1);
                }),
            ),
            (
                "learned, short buckets",
                self.learned(|config| {
                    (config.is_cost_ignored, config.bucket_max) = (true, 16);
                }),
            ),
        ];
        let tuple_space = (merged.mask_count() <= TUPLE_SPACE_MASKS)
            .then(|| self.load(MergedTuples::after(usize::MAX, tuples.clone())));
        let bloom = (merged.mask_count() <= BLOOM_MASKS)
            .then(|| self.load(Bloom::new(BloomConfig::new(tuples))));
        let mut subjects: Vec<Subject<'_>> = vec![(
            "merged tuples",
            &merged,
            self.features(|key| visits_of(&merged, key)),
        )];
        for (name, index) in &learned {
            let features = self.features(|key| index.visited_by(key, VERSION));
            subjects.push((*name, index, features));
        }
        if let Some(tuples) = &tuple_space {
            let features = self.features(|key| visits_of(tuples, key));
            subjects.push(("tuple space", tuples, features));
        }
        if let Some(bloom) = &bloom {
            let features = self.features(|key| {
                let (filters, named) = bloom.visited_by(key, VERSION);
                let rules = self.rules.len();
                Visits {
                    filters,
                    named,
                    rules,
                    ..Visits::default()
                }
            });
            subjects.push(("bloom", bloom, features));
        }
        self.timed(subjects, rounds)
    }

    /// Times the subjects in turns.
    fn timed(&self, subjects: Vec<Subject<'_>>, rounds: usize) -> Vec<Row> {
        let mut times = vec![Vec::new(); subjects.len()];
        for round in 0..=rounds {
            for ((_, subject, _), times) in subjects.iter().zip(&mut times) {
                let time = self.time_ns(*subject);
                // The first is for the caches.
                times.extend((round > 0).then_some(time));
            }
        }
        let rows = subjects.into_iter().zip(times);
        let rows = rows.map(|((kind, _, features), mut times)| {
            times.sort_by(f64::total_cmp);
            Row {
                kind,
                features,
                ns: times[times.len() / 2],
            }
        });
        rows.collect()
    }
}

/// A kind of index by name, and the features of its lookups.
type Subject<'a> = (&'static str, &'a dyn Classifier, [f64; WEIGHTS]);

/// A kind of index, what lookups ask, and what they take.
struct Row {
    kind: &'static str,
    features: [f64; WEIGHTS],
    ns: f64,
}

impl Row {
    fn cost(&self, weights: &[f64; WEIGHTS]) -> f64 {
        self.features
            .iter()
            .zip(weights)
            .map(|(one, weight)| one * weight)
            .sum()
    }
}

/// The weights that are nearest, none below zero: coordinate by coordinate.
fn fit<'a>(rows: impl Iterator<Item = &'a Row>) -> [f64; WEIGHTS] {
    let (mut squares, mut products) = ([[0.0; WEIGHTS]; WEIGHTS], [0.0; WEIGHTS]);
    for row in rows {
        let scaled = row.features.map(|feature| feature / row.ns);
        for (index, one) in scaled.iter().enumerate() {
            products[index] += one;
            for (other, sum) in scaled.iter().zip(&mut squares[index]) {
                *sum += one * other;
            }
        }
    }
    let mut weights = [0.0_f64; WEIGHTS];
    for _ in 0..20_000 {
        for index in 0..WEIGHTS {
            if squares[index][index] == 0.0 {
                continue;
            }
            let others: f64 = squares[index]
                .iter()
                .zip(&weights)
                .map(|(a, b)| a * b)
                .sum();
            let gradient = others - products[index];
            weights[index] = (weights[index] - gradient / squares[index][index]).max(0.0);
        }
    }
    weights
}

fn main() {
    let option = |key: &str, default: usize| {
        let mut given = std::env::args().skip(1);
        let value =
            given.find_map(|one| Some(one.strip_prefix(key)?.strip_prefix('=')?.to_owned()));
        value.map_or(default, |value| value.parse().expect("a number"))
    };
    let (rounds, most) = (option("rounds", 5), option("most", 100_000));
    let mut sets = Vec::new();
    let mut seed = 1_000;
    for profile in [Profile::Acl1, Profile::Fw1, Profile::Ipc1] {
        for (variant, change) in VARIANTS {
            for count in SIZES.into_iter().filter(|count| *count <= most) {
                let mut shape = Shape::built_in(profile);
                change(&mut shape);
                seed += 1;
                let set = Set::new(
                    format!("{profile:?} {variant} {count}"),
                    &shape,
                    count,
                    seed,
                );
                let rows = set.measure(rounds);
                print!("{:24} {:7} rules", set.name, set.rules.len());
                rows.iter()
                    .for_each(|row| print!("  {} {:.1}", row.kind, row.ns));
                println!();
                sets.push((set.name, rows));
            }
        }
    }
    let is_held_back = |index: usize| index % HELD_BACK == HELD_BACK - 1;
    let numbered = || sets.iter().enumerate();
    let known = numbered().filter(|(index, _)| !is_held_back(*index));
    let weights = fit(known.flat_map(|(_, (_, rows))| rows));
    println!("\nweights, in the order of Visits::features: {weights:.1?}");
    for held_back in [false, true] {
        let chosen = numbered().filter(|(index, _)| is_held_back(*index) == held_back);
        let chosen: Vec<_> = chosen.map(|(_, set)| set).collect();
        report(
            ["fitted to", "held back"][usize::from(held_back)],
            &chosen,
            &weights,
        );
    }
}

/// Says how far off the weights are on some sets, and where they choose badly.
fn report(name: &str, sets: &[&(String, Vec<Row>)], weights: &[f64; WEIGHTS]) {
    let rows = sets.iter().flat_map(|(_, rows)| rows);
    let mut errors: Vec<f64> = rows.map(|row| row.cost(weights) / row.ns).collect();
    errors.sort_by(f64::total_cmp);
    let at = |percent: usize| errors[(errors.len() - 1) * percent / 100];
    println!(
        "{name}: {} rows, cost for time {:.2} (10 % below {:.2}, 90 % below {:.2})",
        errors.len(),
        at(50),
        at(10),
        at(90)
    );
    for (set, rows) in sets {
        let of = |key: fn(&Row, &[f64; WEIGHTS]) -> f64| {
            let ordered = |a: &&Row, b: &&Row| key(a, weights).total_cmp(&key(b, weights));
            rows.iter().min_by(ordered).expect("there are rows")
        };
        let (best, taken) = (of(|row, _| row.ns), of(|row, weights| row.cost(weights)));
        if taken.ns > 1.1 * best.ns {
            println!(
                "  {set}: takes {} ({:.1} ns, thought {:.1}), best is {} ({:.1}, thought {:.1})",
                taken.kind,
                taken.ns,
                taken.cost(weights),
                best.kind,
                best.ns,
                best.cost(weights)
            );
        }
    }
}
