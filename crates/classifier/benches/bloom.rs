//! Measures the gain of a first layer, and the stages of a lookup for the model.
//!
//! The cases are 20 sub-tables of 1,000 to 100,000 rules with flows looked up uniformly at
//! random, the same with five-tuples alone (as a peer has them), more flows than the filter
//! was made for, one sub-table, and masks with little in common.
//!
//! It does not use criterion: a filter of flows has to be warm, and the results are ratios to
//! the tuple space measured in the same minute. Each row is the median (least, most) of
//! [`ROUNDS`] rounds, in which all classifiers of the case take turns.
//! `THALWEG_PER_TABLE=1000,10000` chooses sizes, `THALWEG_CASES=uniform,flows` cases.
//! `THALWEG_LAYERS="common bits"`, for example, measures one first layer alone, without turns
//! of others. With `THALWEG_TURNS=yes` each line of standard input starts a round, whose times
//! are one line of standard output. So a peer can take turns with it
//! (`bench/peers/dpdk_acl.py --subtables`).

use std::hint::black_box;
use std::time::Instant;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_classifier::bloom::model::{Scheme, Stages, Subjects, model};
use thalweg_classifier::{
    Bloom, BloomConfig, Classifier, FirstLayer, Pattern, Precedence, RuleId, TupleSpace,
    TupleSpaceConfig, Version,
};

/// The program's allocator, for its pages of 2 MiB.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const VERSION: Version = Version(1);
const ROUNDS: usize = 7;
const BURST: usize = 32;
/// Lookups per round, the same number as for a peer.
const LOOKUPS: usize = 1 << 18;

/// As in a switch: Ethernet type, two addresses, protocol, ports; the first word is for
/// others.
type Key = [u64; 5];
/// Two addresses, then ports and protocol: 16 bytes, as DPDK's libraries take them.
type FiveTuple = [u64; 2];

/// Rules in sub-tables, and keys that match them.
struct Case<const WORDS: usize> {
    masks: Vec<[u64; WORDS]>,
    values: Vec<(usize, [u64; WORDS])>,
    flows: Vec<[u64; WORDS]>,
}

fn random_key(random: &mut Pcg64Mcg) -> Key {
    let ports = random.random::<u64>() & !u64::from(u32::MAX);
    [0, 0x0800, random.random(), 6, ports]
}

fn five_tuple(key: Key) -> FiveTuple {
    [key[2], key[4] | key[3]]
}

fn prefix(length: u32) -> u64 {
    u64::from(u32::MAX << (32 - length))
}

/// Source and destination prefixes, some with ports: as different as the masks of one access
/// list.
fn alike(tables: usize) -> Vec<Key> {
    let mask = |table: usize| {
        let source = [16, 20, 24, 28, 32][table % 5];
        let destination = [24, 28, 30, 32][table / 5 % 4];
        let port = if table / 20 % 2 == 1 { 0xffff << 32 } else { 0 };
        let shift = (table / 40) as u32 % 8;
        [
            0,
            0xffff,
            prefix(source) << 32 | prefix(destination - shift),
            0xff,
            port,
        ]
    };
    (0..tables).map(mask).collect()
}

/// Each of 20 masks uses some of source, destination and two ports; no bit is in all masks.
fn unlike() -> Vec<Key> {
    let mask = |table: u64| {
        let has = |bit: u64| table % 5 != bit;
        let part = |has: bool, bits: u64| if has { bits } else { 0 };
        let cut = |length: u64| prefix(32 - length as u32);
        let source = part(has(0), cut(table / 5 * 2) << 32);
        let destination = part(has(1), cut(table / 5));
        let ports = part(has(2), 0xffff << 48) | part(has(3), 0xffff << 32);
        [0, part(has(4), 0xffff), source | destination, 0, ports]
    };
    (0..20).map(mask).collect()
}

impl Case<5> {
    fn of_switch(masks: Vec<Key>, per_table: usize, flows: usize) -> Case<5> {
        Case::new(masks, random_key, per_table, flows)
    }
}

impl Case<2> {
    fn of_five_tuples(masks: Vec<Key>, per_table: usize, flows: usize) -> Case<2> {
        let masks = masks.into_iter().map(five_tuple).collect();
        Case::new(
            masks,
            |random| five_tuple(random_key(random)),
            per_table,
            flows,
        )
    }
}

impl<const WORDS: usize> Case<WORDS> {
    /// Random rules, the same number under each mask, and `flows` keys of random rules.
    fn new(
        masks: Vec<[u64; WORDS]>,
        random_key: fn(&mut Pcg64Mcg) -> [u64; WORDS],
        per_table: usize,
        flows: usize,
    ) -> Case<WORDS> {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut values = Vec::with_capacity(masks.len() * per_table);
        for (table, mask) in masks.iter().enumerate() {
            for _ in 0..per_table {
                let key = random_key(&mut random);
                let value = std::array::from_fn(|word| key[word] & mask[word]);
                values.push((table, value));
            }
        }
        let keys = (0..flows).map(|_| {
            let (table, value) = &values[random.random_range(0..values.len())];
            let key = random_key(&mut random);
            std::array::from_fn(|word| key[word] & !masks[*table][word] | value[word])
        });
        Case {
            flows: keys.collect(),
            masks,
            values,
        }
    }

    /// Loads the rules; the first mask has the highest priority.
    fn load<C: Classifier>(&self, mut classifier: C) -> C {
        let start = Instant::now();
        for (number, (table, value)) in self.values.iter().enumerate() {
            let pattern = Pattern {
                value,
                mask: &self.masks[*table],
            };
            let precedence = Precedence::new(1_000 - *table as u16, number as u64);
            classifier.insert(pattern, precedence, RuleId(number as u32), VERSION);
        }
        let loading = start.elapsed().as_secs_f64() * 1e9 / self.values.len() as f64;
        classifier.reclaim(VERSION);
        let bytes = classifier.memory_bytes() / self.values.len();
        print!("  loaded in {loading:.0} ns a rule, {bytes} bytes a rule;");
        classifier
    }

    /// The rules of the last sub-tables, which are the worst.
    fn of_last(&self, count: usize) -> Case<WORDS> {
        let from = self.masks.len() - count;
        let values = self.values.iter().filter(|(table, _)| *table >= from);
        Case {
            flows: Vec::new(),
            masks: self.masks.clone(),
            values: values.copied().collect(),
        }
    }

    fn bloom(&self, first_layer: FirstLayer, flows: usize) -> Bloom {
        self.load(Bloom::new(BloomConfig {
            first_layer,
            flows,
            ..BloomConfig::new(TupleSpaceConfig::flat(WORDS, 1))
        }))
    }
}

/// Nanoseconds per lookup, one by one or in bursts, over flows drawn at random.
fn measure<const WORDS: usize>(
    classifier: &dyn Classifier,
    keys: &[[u64; WORDS]],
    is_burst: bool,
) -> f64 {
    let start = Instant::now();
    if is_burst {
        let mut answers = [None; BURST];
        for burst in keys.chunks_exact(BURST) {
            classifier.lookup_batch(burst.as_flattened(), VERSION, &mut answers);
            black_box(&answers);
        }
    } else {
        for key in keys {
            black_box(classifier.lookup(key, VERSION));
        }
    }
    start.elapsed().as_secs_f64() * 1e9 / keys.len() as f64
}

/// Prints a row for each classifier; the first one is the baseline.
fn compare<const WORDS: usize>(
    name: &str,
    case: &Case<WORDS>,
    classifiers: &[(&str, &dyn Classifier)],
) {
    let mut random = Pcg64Mcg::seed_from_u64(2);
    let mut draw = |count: usize| -> Vec<[u64; WORDS]> {
        let keys = (0..count).map(|_| case.flows[random.random_range(0..case.flows.len())]);
        keys.collect()
    };
    for (_, classifier) in classifiers {
        // Four times each flow, so that learning layers have learned.
        for _ in 0..4 {
            measure(*classifier, &case.flows, true);
        }
        for _ in 0..8 {
            measure(*classifier, &draw(LOOKUPS), true);
        }
    }
    let mut round = || {
        let mut times = [vec![], vec![]];
        for (is_burst, times) in [false, true].into_iter().zip(&mut times) {
            for (_, classifier) in classifiers {
                // Warms the caches, which the previous classifier has filled. New keys each
                // time, as for packets.
                measure(*classifier, &draw(LOOKUPS), is_burst);
                times.push(measure(*classifier, &draw(LOOKUPS), is_burst));
            }
        }
        times
    };
    if std::env::var_os("THALWEG_TURNS").is_some() {
        return take_turns(classifiers, round);
    }
    let rounds: [_; ROUNDS] = std::array::from_fn(|_| round());
    let mut base = [0.0; 2];
    for (index, (layer, _)) in classifiers.iter().enumerate() {
        print!("{name:34} {layer:24}");
        for kind in 0..2 {
            let mut times = rounds.each_ref().map(|times| times[kind][index]);
            times.sort_by(f64::total_cmp);
            let median = times[ROUNDS / 2];
            base[kind] = if index == 0 { median } else { base[kind] };
            let [least, most] = [times[0], times[ROUNDS - 1]];
            let kind_name = ["single", "burst"][kind];
            let ratio = median / base[kind];
            print!("  {kind_name} {median:6.1} ({least:.1}-{most:.1}) ns {ratio:4.2}x");
        }
        println!();
    }
}

/// Runs a round for each line of standard input; prints its times as a line of JSON.
fn take_turns(classifiers: &[(&str, &dyn Classifier)], mut round: impl FnMut() -> [Vec<f64>; 2]) {
    println!("\nready");
    for line in std::io::stdin().lines() {
        line.expect("standard input is text");
        let [single, burst] = round();
        let times = classifiers.iter().zip(single.iter().zip(&burst));
        let rows = times.map(|((name, _), (single, burst))| {
            format!(r#"{{"layer": "{name}", "single": {single:.3}, "burst": {burst:.3}}}"#)
        });
        println!("[{}]", rows.collect::<Vec<_>>().join(", "));
    }
}

fn describe(name: &str, bloom: &Bloom) {
    let counted = bloom.statistics();
    let share = |part: u64| part as f64 / counted.lookups.max(1) as f64;
    println!(
        "  {name}: asked {}, bypassed {:.2}, a lookup has {:.2} candidates, {:.3} false, {:.3} full \
         searches; {} KiB, {:.3} of the bits set",
        counted.is_asked,
        counted.bypassed as f64 / (counted.bypassed + counted.lookups).max(1) as f64,
        share(counted.candidates),
        share(counted.false_positives),
        share(counted.full_searches),
        counted.filters.size_bytes >> 10,
        counted.filters.bits_set,
    );
}

/// Compares all first layers with the tuple space; filters of flows are made for `made_for`
/// flows.
fn layers<const WORDS: usize>(name: &str, case: &Case<WORDS>, made_for: usize) {
    let tuple_space = case.load(TupleSpace::new(TupleSpaceConfig::flat(WORDS, 1)));
    let layers = [
        ("full keys (disjoint)", FirstLayer::FullKeysDisjoint),
        ("full keys", FirstLayer::FullKeys),
        ("common bits", FirstLayer::CommonBits),
        ("own bits", FirstLayer::OwnBits),
    ];
    let blooms: Vec<_> = layers
        .iter()
        .map(|(_, layer)| case.bloom(*layer, made_for))
        .collect();
    println!();
    let mut all: Vec<(&str, &dyn Classifier)> = vec![("tuple space", &tuple_space)];
    let named = layers.iter().zip(&blooms);
    all.extend(named.map(|((name, _), bloom)| (*name, bloom as &dyn Classifier)));
    if let Ok(chosen) = std::env::var("THALWEG_LAYERS") {
        all.retain(|(name, _)| chosen.split(',').any(|chosen| chosen == *name));
        assert!(!all.is_empty(), "THALWEG_LAYERS: no layer of these names");
    }
    compare(name, case, &all);
    layers
        .iter()
        .zip(&blooms)
        .for_each(|((name, _), bloom)| describe(name, bloom));
}

fn stages(per_table: usize) {
    let case = Case::of_switch(alike(20), per_table, 100_000);
    let config = TupleSpaceConfig::flat(case.masks[0].len(), 1);
    let more = case.load(TupleSpace::new(config.clone()));
    // Keys of the best sub-table, which is the only one in `one`. Its rules do not end a
    // search, since those of the other sub-tables have higher precedence.
    let last = case.masks.len() - 1;
    let of_last = |(table, _): &&(usize, Key)| *table == last;
    let mut one = TupleSpace::new(config);
    for (number, (_, value)) in case.values.iter().filter(of_last).enumerate() {
        let pattern = Pattern {
            value,
            mask: &case.masks[last],
        };
        one.insert(
            pattern,
            Precedence::new(1, number as u64),
            RuleId(number as u32),
            VERSION,
        );
    }
    let keys: Vec<Key> = case
        .values
        .iter()
        .filter(of_last)
        .map(|(_, value)| *value)
        .collect();
    let vector = case.bloom(FirstLayer::FullKeysDisjoint, 100_000).always();
    let more_own = case.bloom(FirstLayer::OwnBits, 100_000).always();
    let few_own = case.of_last(2).bloom(FirstLayer::OwnBits, 100_000).always();
    let mut random = Pcg64Mcg::seed_from_u64(3);
    let drawn: Vec<Key> = (0..LOOKUPS)
        .map(|_| keys[random.random_range(0..keys.len())])
        .collect();
    let time = |work: &mut dyn FnMut(&[u64]) -> u64| {
        let mut times: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                for key in &drawn {
                    black_box(work(key));
                }
                start.elapsed().as_secs_f64() * 1e9 / drawn.len() as f64
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 2]
    };
    let subjects = Subjects {
        one: &one,
        more: &more,
        vector: &vector,
        few_own: &few_own,
        more_own: &more_own,
    };
    let stages = Stages::measured(subjects, VERSION, time);
    println!("{per_table} rules a sub-table, stages in ns: {stages:.1?}");
    let known = Scheme::Vector {
        candidates: 1.1,
        unknown: 0.0,
    };
    for subtables in [1.0, 5.0, 10.5, 20.0] {
        let [plain, own, vector] = [Scheme::Sequential, Scheme::PerSubtable, known]
            .map(|scheme| model(&stages, scheme, subtables));
        println!(
            "  model, {subtables:4} traversed: {plain:.0} ns, per sub-table {own:.0}, vector {vector:.0}"
        );
    }
}

fn sizes() -> Vec<usize> {
    let asked = std::env::var("THALWEG_PER_TABLE").unwrap_or("1000,10000,100000".to_owned());
    asked
        .split(',')
        .map(|size| size.parse().expect("a number of rules"))
        .collect()
}

fn main() {
    let cases = std::env::var("THALWEG_CASES");
    let cases = cases.unwrap_or("uniform,five-tuples,flows,one,unlike,stages,many".to_owned());
    for case in cases.split(',') {
        for per_table in sizes() {
            let flows = (per_table * 20).min(400_000);
            match case {
                "uniform" => {
                    let rules = Case::of_switch(alike(20), per_table, flows);
                    layers(&format!("20 sub-tables of {per_table}"), &rules, flows);
                }
                "five-tuples" => {
                    let rules = Case::of_five_tuples(alike(20), per_table, flows);
                    layers(&format!("five-tuples, 20 of {per_table}"), &rules, flows);
                }
                "flows" => {
                    for times in [2, 10] {
                        let rules = Case::of_switch(alike(20), per_table, flows);
                        let name = format!("{times} x the flows, {per_table}");
                        layers(&name, &rules, flows / times);
                    }
                }
                "one" => {
                    let rules = Case::of_switch(alike(1), per_table, flows);
                    layers(&format!("one sub-table of {per_table}"), &rules, flows);
                }
                "unlike" => {
                    let rules = Case::of_switch(unlike(), per_table, flows);
                    layers(&format!("masks unlike, {per_table}"), &rules, flows);
                }
                "many" if per_table <= 10_000 => {
                    let rules = Case::of_switch(alike(150), per_table / 10, flows);
                    layers(
                        &format!("150 sub-tables of {}", per_table / 10),
                        &rules,
                        flows,
                    );
                }
                "stages" => stages(per_table),
                _ => {}
            }
        }
    }
}
