//! The learned index beside merged tuples, on filter sets like ClassBench's.
//!
//! It prints nanoseconds per lookup in bursts of 32, for headers drawn from the rules' regions
//! without locality. All classifiers take turns.
//!
//! `cargo bench -p thalweg-classifier --bench learned -- [FILE | PROFILE:COUNT]... [key=value]...`
//!
//! A file is a ClassBench filter set; profiles are `acl1`, `fw1` and `ipc1`. Keys are those of
//! the configuration (`isets`, `bucket`, `copies`, `coverage`, `least`, `greedy`), `level` and
//! `runs`.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_classifier::simd::Level;
use thalweg_classifier::{
    Classifier, Learned, LearnedConfig, MergedTuples, ModelKind, Pattern, Precedence, RuleId,
    TupleSpaceConfig, Version,
};
use thalweg_packet::{FieldId, Layout, standard};
use thalweg_workload::{
    Extra, Field, Filter, Profile, filter_rules, generate_filters, parse_filters,
};

const V1: Version = Version(1);
const SEED: u64 = 1;
const BURST: usize = 32;
const KEYS: usize = 1 << 17;
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

struct Set {
    name: String,
    layout: Layout,
    /// Value, mask and priority of each rule, best first.
    rules: Vec<(Vec<u64>, Vec<u64>, u16)>,
    keys: Vec<u64>,
}

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

fn filters(name: &str) -> Vec<Filter> {
    let Some((profile, count)) = name.split_once(':') else {
        let text = std::fs::read_to_string(name).expect("a filter set");
        return parse_filters(name, &text).expect("a filter set");
    };
    let profile = match profile {
        "acl1" => Profile::Acl1,
        "fw1" => Profile::Fw1,
        "ipc1" => Profile::Ipc1,
        other => panic!("{other} is no profile"),
    };
    generate_filters(profile, count.parse().expect("a count"), 1)
}

impl Set {
    fn new(name: &str) -> Set {
        let filters = filters(name);
        let layout = Layout::new(Arc::new(standard::fields()), &BTreeSet::from(FIELDS));
        let layout = layout.expect("it fits");
        let rules = filter_rules(&filters, 0, Extra::Ignore, |_| Vec::new()).expect("it fits");
        let rules: Vec<_> = rules
            .iter()
            .map(|rule| {
                let (mut value, mut mask) = (vec![0; layout.words()], vec![0; layout.words()]);
                for term in rule.matches.terms() {
                    layout.set(&mut value, field_of(term.field), term.value);
                    layout.set(&mut mask, field_of(term.field), term.mask);
                }
                (value, mask, rule.priority)
            })
            .collect();
        let mut all = vec![0; layout.words()];
        for field in FIELDS {
            let slot = layout.slot(field).expect("it is used");
            layout.set(&mut all, field, u128::MAX >> (128 - slot.width_bits));
        }
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut keys = Vec::new();
        for _ in 0..KEYS {
            let (value, mask, _) = &rules[random.random_range(0..rules.len())];
            for ((value, mask), all) in value.iter().zip(mask).zip(&all) {
                keys.push(value | random.random::<u64>() & all & !mask);
            }
        }
        Set {
            name: name.to_owned(),
            layout,
            rules,
            keys,
        }
    }

    fn load(&self, subject: &mut dyn Classifier) -> f64 {
        let start = Instant::now();
        for (number, (value, mask, priority)) in self.rules.iter().enumerate() {
            let precedence = Precedence::new(*priority, number as u64);
            let id = RuleId(number as u32);
            subject.insert(Pattern { value, mask }, precedence, id, V1);
        }
        subject.reclaim(V1);
        start.elapsed().as_secs_f64() * 1e3
    }

    /// Nanoseconds per lookup, and all answers.
    fn measure(&self, subject: &dyn Classifier) -> (f64, Vec<Option<RuleId>>) {
        let mut answers = vec![None; KEYS];
        let words = self.layout.words();
        let start = Instant::now();
        let bursts = self.keys.chunks_exact(words * BURST);
        for (keys, answers) in bursts.zip(answers.chunks_exact_mut(BURST)) {
            subject.lookup_batch(black_box(keys), V1, answers);
        }
        let time_ns = start.elapsed().as_secs_f64() * 1e9 / KEYS as f64;
        (time_ns, answers)
    }

    /// Nanoseconds per lookup of each subject: the median of several runs that take turns.
    fn measure_in_turns(&self, subjects: &[&dyn Classifier], runs: usize) -> Vec<f64> {
        let mut times = vec![Vec::new(); subjects.len()];
        for _ in 0..runs {
            for (times, subject) in times.iter_mut().zip(subjects) {
                times.push(self.measure(*subject).0);
            }
        }
        let median = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[runs / 2]
        };
        times.into_iter().map(median).collect()
    }
}

/// The arguments of the form `key=value`.
struct Options(Vec<String>);

impl Options {
    fn number(&self, key: &str, default: usize) -> usize {
        let mut values = self
            .0
            .iter()
            .filter_map(|argument| argument.split_once('='));
        let value = values.find(|(name, _)| *name == key);
        value.map_or(default, |(_, value)| value.parse().expect("a number"))
    }

    fn config(&self, set: &Set) -> LearnedConfig {
        let mut config = LearnedConfig::new(&set.layout, &PREFIX_FIELDS, SEED);
        config.isets_max = self.number("isets", config.isets_max);
        config.bucket_max = self.number("bucket", config.bucket_max);
        config.copies_max = self.number("copies", config.copies_max);
        config.iset_rules_min = self.number("least", config.iset_rules_min);
        config.is_cost_ignored = self.number("greedy", 0) == 1;
        let coverage = self.number("coverage", config.coverage_min_percent as usize);
        config.coverage_min_percent = coverage as u32;
        let levels = Level::available();
        config.level = levels[self.number("level", levels.len() - 1)];
        config
    }
}

fn main() {
    let arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    let (options, mut sets): (Vec<String>, Vec<String>) =
        arguments.partition(|argument| argument.contains('='));
    if sets.is_empty() {
        sets = ["acl1:10000", "fw1:10000", "ipc1:10000"]
            .map(String::from)
            .to_vec();
    }
    let options = Options(options);
    for name in sets {
        let set = Set::new(&name);
        let runs = options.number("runs", 7);
        println!(
            "{}: {} rules, keys of {} words",
            set.name,
            set.rules.len(),
            set.layout.words()
        );
        let mut merged =
            MergedTuples::new(TupleSpaceConfig::new(&set.layout, &PREFIX_FIELDS, SEED));
        let load = set.load(&mut merged);
        let (_, expected) = set.measure(&merged);
        let train = |model| {
            let config = LearnedConfig {
                model,
                ..options.config(&set)
            };
            let mut learned = Learned::new(config);
            set.load(&mut learned);
            let start = Instant::now();
            learned.train_now();
            (model, learned, start.elapsed().as_secs_f64() * 1e3)
        };
        let learned = [ModelKind::Pieces, ModelKind::Perceptrons].map(train);
        let mut subjects: Vec<&dyn Classifier> = vec![&merged];
        subjects.extend(
            learned
                .iter()
                .map(|(_, learned, _)| learned as &dyn Classifier),
        );
        let times = set.measure_in_turns(&subjects, runs);
        let before = times[0];
        println!(
            "  merged-tuples {before:7.1} ns, {} tables, {} masks, {} bytes a rule, loaded in \
             {load:.0} ms",
            merged.table_count(),
            merged.mask_count(),
            merged.memory_bytes() / set.rules.len()
        );
        for ((model, learned, training), after) in learned.iter().zip(&times[1..]) {
            let (_, answers) = set.measure(learned);
            let pairs = answers.iter().zip(&expected);
            let wrong = pairs.filter(|(one, other)| one != other).count();
            let ratio = before / after;
            print!("  learned {model:?} {after:7.1} ns ({ratio:.2}x), {wrong} wrong, ");
            report(&set, learned, *training);
        }
    }
}

/// Prints the properties of a learned index.
fn report(set: &Set, learned: &Learned, training_ms: f64) {
    let statistics = learned.statistics();
    println!(
        "coverage {:.3}, {} tables left, {} bytes a rule; trained in {training_ms:.0} ms",
        statistics.coverage(),
        statistics.remainder_tables,
        learned.memory_bytes() / set.rules.len(),
    );
    for iset in &statistics.isets {
        println!(
            "    {:?}: {} rules in {} buckets of {} bytes a rule, window {}, model {} bytes, \
             directory {}",
            iset.fields,
            iset.rules,
            iset.buckets,
            iset.bucket_bytes / iset.rules,
            iset.window,
            iset.model_bytes,
            iset.directory_bytes,
        );
    }
}
