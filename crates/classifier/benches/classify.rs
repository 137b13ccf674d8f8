//! Measures lookups in access lists of 1,000 to 100,000 rules, and the cost of loading them.
//!
//! Lookups run one by one, in bursts, and with examined bits. The report also has memory per
//! rule and the width of masks. `THALWEG_RULES=500000` raises the sizes to 500,000 rules. The
//! 4,096 keys are visited in a fixed random order, so that a large table does not fit the
//! processor's caches.

#[path = "../tests/harness/acl.rs"]
#[allow(dead_code)]
mod acl;

use std::time::{Duration, Instant};

use acl::{AclRule, WORDS};
use criterion::{BenchmarkId, Criterion, Throughput};
use thalweg_classifier::{Classifier, Linear, MergedTuples, TupleSpace, TupleSpaceConfig, Version};

const VERSION: Version = Version(1);
const KEYS: usize = 4096;
const BURST: usize = 32;
const SEED: u64 = 1;

fn sizes() -> Vec<usize> {
    let asked = std::env::var("THALWEG_RULES").ok();
    let asked = asked.and_then(|count| count.parse().ok());
    asked.map_or(vec![1_000, 10_000, 100_000], |count| vec![count])
}

/// Prints the figures other than lookup times.
fn report(name: &str, rules: &[AclRule], make: impl Fn() -> Box<dyn Classifier>) {
    let mut classifier = make();
    let start = Instant::now();
    acl::load(&mut *classifier, rules, VERSION);
    let load = start.elapsed();
    classifier.reclaim(VERSION);
    println!(
        "{name}, {} rules: loaded in {:.1} ms, {} bytes a rule",
        rules.len(),
        load.as_secs_f64() * 1e3,
        classifier.memory_bytes() / rules.len(),
    );
    let (hits, misses) = keys(rules);
    for (kind, keys) in [("hit", hits), ("miss", misses)] {
        let keys = &keys[..if rules.len() > 1_000 { KEYS } else { 512 }];
        let bits: u32 = keys
            .iter()
            .map(|key| examined_bits(&*classifier, key))
            .sum();
        let mean = f64::from(bits) / keys.len() as f64;
        println!(
            "{name}, {} rules: {mean:.1} bits examined by a {kind}",
            rules.len()
        );
    }
}

fn examined_bits(classifier: &dyn Classifier, key: &[u64]) -> u32 {
    let mut examined = [0; WORDS];
    classifier.lookup_examined(key, VERSION, &mut examined);
    examined.iter().map(|word| word.count_ones()).sum()
}

type Keys = Vec<[u64; WORDS]>;

fn keys(rules: &[AclRule]) -> (Keys, Keys) {
    (
        acl::keys_that_hit(rules, KEYS, SEED),
        acl::keys_that_miss(KEYS, SEED),
    )
}

fn lookups(criterion: &mut Criterion) {
    for size in sizes() {
        let rules = acl::rules(size, SEED);
        report("tuple_space", &rules, || {
            Box::new(TupleSpace::new(acl::config(SEED)))
        });
        report("tuple_space without stages and tries", &rules, || {
            Box::new(TupleSpace::new(TupleSpaceConfig::flat(WORDS, SEED)))
        });
        let mut tuple_space = TupleSpace::new(acl::config(SEED));
        acl::load(&mut tuple_space, &rules, VERSION);
        let (hits, misses) = keys(&rules);
        let visited = |keys: &Keys| {
            let visited = keys.iter().map(|key| tuple_space.visited_by(key, VERSION));
            visited.sum::<usize>() as f64 / keys.len() as f64
        };
        println!(
            "tuple_space, {size} rules: {} sub-tables; a hit visits {:.1}, a miss {:.1}",
            tuple_space.subtable_count(),
            visited(&hits),
            visited(&misses),
        );
        measure(
            criterion,
            "tuple_space",
            size,
            &tuple_space,
            [&hits, &misses],
        );
        report("merged_tuples", &rules, || {
            Box::new(MergedTuples::new(acl::config(SEED)))
        });
        let mut merged_tuples = MergedTuples::new(acl::config(SEED));
        acl::load(&mut merged_tuples, &rules, VERSION);
        println!(
            "merged_tuples, {size} rules: {} tables for {} masks",
            merged_tuples.table_count(),
            merged_tuples.mask_count(),
        );
        measure(
            criterion,
            "merged_tuples",
            size,
            &merged_tuples,
            [&hits, &misses],
        );
        if size <= 1_000 {
            report("linear", &rules, || Box::new(Linear::new(WORDS)));
            let mut linear = Linear::new(WORDS);
            acl::load(&mut linear, &rules, VERSION);
            measure(criterion, "linear", size, &linear, [&hits, &misses]);
        }
    }
}

fn measure(
    criterion: &mut Criterion,
    name: &str,
    size: usize,
    classifier: &dyn Classifier,
    keys: [&Keys; 2],
) {
    for (kind, keys) in ["hit", "miss"].into_iter().zip(keys) {
        let mut group = criterion.benchmark_group(format!("{name}/{kind}"));
        group.throughput(Throughput::Elements(BURST as u64));
        let flat: Vec<u64> = keys.concat();
        let mut bursts = flat.chunks_exact(BURST * WORDS).cycle();
        group.bench_with_input(BenchmarkId::new("lookup", size), &(), |bencher, ()| {
            bencher.iter(|| {
                let burst = bursts.next().expect("keys come round again");
                let keys = burst.chunks_exact(WORDS);
                keys.filter(|key| classifier.lookup(key, VERSION).is_some())
                    .count()
            });
        });
        group.bench_with_input(
            BenchmarkId::new("lookup_batch", size),
            &(),
            |bencher, ()| {
                let mut answers = [None; BURST];
                bencher.iter(|| {
                    let burst = bursts.next().expect("keys come round again");
                    classifier.lookup_batch(burst, VERSION, &mut answers);
                    answers
                });
            },
        );
        group.bench_with_input(
            BenchmarkId::new("lookup_examined", size),
            &(),
            |bencher, ()| {
                bencher.iter(|| {
                    let burst = bursts.next().expect("keys come round again");
                    let mut examined = [0; WORDS];
                    for key in burst.chunks_exact(WORDS) {
                        classifier.lookup_examined(key, VERSION, &mut examined);
                    }
                    examined
                });
            },
        );
        group.finish();
    }
}

fn configuration() -> Criterion {
    let criterion = Criterion::default().sample_size(20);
    criterion
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
}

fn main() {
    let mut criterion = configuration().configure_from_args();
    lookups(&mut criterion);
    criterion.final_summary();
}
