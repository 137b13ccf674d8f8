//! Every classifier against the oracle: same answers, sound masks, and memory that is given
//! back.

mod harness;

use harness::{Driver, WORDS, acl, checks, level, open_vswitch};
use thalweg_classifier::{
    Bloom, BloomConfig, Classifier, FirstLayer, Linear, MergedTuples, Pattern, Precedence, RuleId,
    TupleSpace, TupleSpaceConfig, Version,
};

fn drive(make: impl Fn(u64) -> Box<dyn Classifier>, rules: &[usize]) {
    for (seed, &rules) in (1..).zip(rules) {
        println!("seed {seed}, {rules} rules");
        let mut driver = Driver::new(make(seed), rules, seed);
        driver.run(checks());
        driver.clear();
        let fresh = make(seed).memory_bytes();
        let left = driver.subject.memory_bytes();
        assert!(left <= fresh + 2_000, "{left} bytes left of {fresh}");
    }
}

#[test]
fn linear_is_sound_itself() {
    drive(|_| Box::new(Linear::new(WORDS)), &[20]);
}

#[test]
fn tuple_space_with_stages_and_tries() {
    drive(
        |seed| Box::new(TupleSpace::new(harness::config(seed)).with_level(level(seed))),
        &[3, 20, 60, 200],
    );
}

#[test]
fn tuple_space_with_many_rules_a_mask() {
    let make = || Box::new(TupleSpace::new(harness::config(9)));
    let mut driver = Driver::new(make(), 900, 9).with_masks(4);
    driver.run(checks() / 10);
    driver.clear();
    assert!(driver.subject.memory_bytes() <= make().memory_bytes() + 2_000);
}

#[test]
fn tuple_space_without() {
    let make = |seed| TupleSpace::new(TupleSpaceConfig::flat(WORDS, seed)).with_level(level(seed));
    drive(|seed| Box::new(make(seed)), &[20, 60, 60]);
}

#[test]
fn tuple_space_with_tries_alone() {
    let make = |seed| {
        let mut config = TupleSpaceConfig::flat(WORDS, seed);
        config.prefix_fields = harness::prefix_fields();
        TupleSpace::new(config)
    };
    drive(|seed| Box::new(make(seed)), &[60]);
}

#[test]
fn merged_tuples_with_stages_and_tries() {
    drive(
        |seed| Box::new(MergedTuples::new(harness::config(seed)).with_level(level(seed))),
        &[3, 20, 60, 200],
    );
}

#[test]
fn merged_tuples_after_a_few_masks() {
    drive(
        |seed| Box::new(MergedTuples::after(20, harness::config(seed))),
        &[10, 20, 40, 100],
    );
}

/// Small buckets send rules down the whole ladder.
#[test]
fn merged_tuples_with_small_buckets() {
    let make = |seed| MergedTuples::after(4, harness::config(seed));
    drive(
        |seed| Box::new(make(seed).with_patterns_max(1 + seed as usize % 3)),
        &[20, 60, 200],
    );
}

#[test]
fn merged_tuples_with_many_rules_a_mask() {
    let make = || Box::new(MergedTuples::new(harness::config(9)));
    let mut driver = Driver::new(make(), 900, 9).with_masks(4);
    driver.run(checks() / 10);
    driver.clear();
    assert!(driver.subject.memory_bytes() <= make().memory_bytes() + 2_000);
}

#[test]
fn merged_tuples_without() {
    let make =
        |seed| MergedTuples::new(TupleSpaceConfig::flat(WORDS, seed)).with_level(level(seed));
    drive(|seed| Box::new(make(seed)), &[20, 60, 60]);
}

/// Filters that are always used, of the smallest and a medium size.
fn bloom(first_layer: FirstLayer, flows: usize, seed: u64) -> Box<dyn Classifier> {
    let config = BloomConfig {
        first_layer,
        flows,
        size_bytes_max: 128 << 10,
        ..BloomConfig::new(harness::config(seed))
    };
    Box::new(Bloom::new(config).with_level(level(seed)).always())
}

#[test]
fn bloom_of_full_keys() {
    drive(
        |seed| bloom(FirstLayer::FullKeys, [1_000, 10][seed as usize % 2], seed),
        &[3, 20, 60, 200],
    );
}

#[test]
fn bloom_of_common_bits() {
    drive(
        |seed| bloom(FirstLayer::CommonBits, 0, seed),
        &[3, 20, 60, 200],
    );
}

#[test]
fn bloom_of_own_bits() {
    drive(
        |seed| bloom(FirstLayer::OwnBits, 0, seed),
        &[3, 20, 60, 200],
    );
}

#[test]
fn bloom_with_many_rules_a_mask() {
    for layer in [
        FirstLayer::FullKeys,
        FirstLayer::CommonBits,
        FirstLayer::OwnBits,
    ] {
        let make = || bloom(layer, 1_000, 9);
        let mut driver = Driver::new(make(), 900, 9).with_masks(4);
        driver.run(checks() / 10);
        driver.clear();
        assert!(driver.subject.memory_bytes() <= make().memory_bytes() + 2_000);
    }
}

#[test]
fn memory_follows_the_rules_under_churn() {
    churn(&mut TupleSpace::new(acl::config(1)));
    churn(&mut MergedTuples::new(acl::config(1)));
    churn(&mut MergedTuples::after(16, acl::config(1)));
    for first_layer in [FirstLayer::CommonBits, FirstLayer::OwnBits] {
        let config = BloomConfig::new(acl::config(1));
        churn(&mut Bloom::new(BloomConfig {
            first_layer,
            ..config
        }));
    }
}

fn churn(subject: &mut dyn Classifier) {
    let rules = acl::rules(2_000, 3);
    let (old, new) = rules.split_at(1_000);
    acl::load(subject, old, Version(1));
    subject.reclaim(Version(1));
    let before = subject.memory_bytes();
    for round in 1..40 {
        let version = Version(2 * round);
        for (number, rule) in new.iter().enumerate() {
            let pattern = Pattern {
                value: &rule.value,
                mask: &rule.mask,
            };
            let age = round * 1_000 + number as u64;
            let id = RuleId(10_000 + number as u32);
            subject.insert(pattern, Precedence::new(rule.priority, age), id, version);
        }
        if round % 3 == 0 {
            subject.abort(version);
        } else {
            let ids = (0..new.len() as u32).map(|number| RuleId(10_000 + number));
            ids.for_each(|id| subject.remove(id, version.next()));
            assert_eq!(subject.len(version), 2_000);
            assert_eq!(subject.reclaim(version.next()).len(), new.len());
        }
        assert_eq!(subject.len(version.next()), 1_000);
        let bytes = subject.memory_bytes();
        assert!(
            bytes < before * 2,
            "round {round}: {bytes} bytes, {before} before"
        );
    }
}

/// Tuple space explosion: one rule per mask.
///
/// The work of a lookup is at most the number of masks, and returns to one once they are gone.
#[test]
fn an_explosion_of_masks_is_bounded_and_reported() {
    let mut subject = TupleSpace::new(harness::config(1));
    let fresh = subject.memory_bytes();
    let mut masks = 0;
    for word in [2, 5, 0] {
        for length in 0..32 {
            for shift in 0..32 {
                let mut mask = vec![0; WORDS];
                mask[word] = (u64::MAX << (32 + length)) | (u64::from(u32::MAX) << shift) >> 32;
                mask[word] |= 1 << shift;
                let pattern = Pattern {
                    value: &[0; WORDS],
                    mask: &mask,
                };
                let precedence = Precedence::new(1, masks);
                subject.insert(pattern, precedence, RuleId(masks as u32), Version(1));
                masks += 1;
            }
        }
    }
    let key = vec![u64::MAX; WORDS];
    println!(
        "{} masks, {} bytes a mask, {} visited by a miss",
        subject.subtable_count(),
        subject.memory_bytes() / subject.subtable_count(),
        subject.visited_by(&key, Version(1)),
    );
    assert_eq!(subject.lookup(&key, Version(1)), None);
    assert_eq!(
        subject.visited_by(&key, Version(1)),
        subject.subtable_count()
    );
    // The best rule of all ends the lookup at once.
    assert_eq!(subject.visited_by(&[0; WORDS], Version(1)), 1);
    (1..masks).for_each(|id| subject.remove(RuleId(id as u32), Version(2)));
    subject.reclaim(Version(2));
    assert_eq!(subject.subtable_count(), 1);
    assert!(subject.memory_bytes() < fresh + 4_000);
}

/// The mean number of bits examined is at most 1.1 times Open vSwitch's.
#[test]
fn masks_are_as_narrow_as_those_of_open_vswitch() {
    compare_with_open_vswitch(&mut TupleSpace::new(acl::config(1)));
    compare_with_open_vswitch(&mut MergedTuples::new(acl::config(1)));
}

fn compare_with_open_vswitch(subject: &mut dyn Classifier) {
    let rules = acl::rules(600, 5);
    acl::load(subject, &rules, Version(1));
    let mut linear = Linear::new(acl::WORDS);
    acl::load(&mut linear, &rules, Version(1));
    let plain = rules
        .iter()
        .map(|rule| (rule.value.to_vec(), rule.mask.to_vec(), rule.priority));
    let reference = open_vswitch::OpenVswitch::new(acl::config(1), 4, plain.collect());
    let hits = acl::keys_that_hit(&rules, 400, 7);
    let misses = acl::keys_that_miss(400, 7);
    for (name, keys) in [("hit", hits), ("miss", misses)] {
        let mut bits = [0; 3];
        for key in keys {
            let mut examined = [vec![0; acl::WORDS], vec![0; acl::WORDS]];
            let found = subject.lookup_examined(&key, Version(1), &mut examined[0]);
            linear.lookup_examined(&key, Version(1), &mut examined[1]);
            let (priority, by_reference) = reference.lookup(&key);
            assert_eq!(found.map(|id| rules[id.0 as usize].priority), priority);
            let [ours, linears] = examined;
            for (sum, mask) in bits.iter_mut().zip([ours, linears, by_reference]) {
                *sum += mask.iter().map(|word| word.count_ones()).sum::<u32>();
            }
        }
        let [ours, linears, reference] = bits.map(|sum| f64::from(sum) / 400.0);
        println!("{name}: {ours:.1} bits, Open vSwitch's {reference:.1}, linear {linears:.1}");
        assert!(
            ours <= 1.1 * reference,
            "{name}: {ours} bits against {reference}"
        );
    }
}

#[test]
#[should_panic(expected = "rule id in use")]
fn an_id_is_used_once() {
    use_an_id_twice(&mut TupleSpace::new(TupleSpaceConfig::flat(1, 0)));
}

#[test]
#[should_panic(expected = "rule id in use")]
fn an_id_is_used_once_in_merged_tuples() {
    use_an_id_twice(&mut MergedTuples::new(TupleSpaceConfig::flat(1, 0)));
}

fn use_an_id_twice(subject: &mut dyn Classifier) {
    let all = Pattern {
        value: &[0],
        mask: &[0],
    };
    subject.insert(all, Precedence::new(1, 1), RuleId(1), Version(1));
    subject.insert(all, Precedence::new(1, 2), RuleId(1), Version(1));
}

#[test]
#[should_panic(expected = "settled")]
fn what_is_settled_is_not_aborted() {
    abort_what_is_settled(&mut TupleSpace::new(TupleSpaceConfig::flat(1, 0)));
}

#[test]
#[should_panic(expected = "settled")]
fn what_is_settled_is_not_aborted_in_merged_tuples() {
    abort_what_is_settled(&mut MergedTuples::new(TupleSpaceConfig::flat(1, 0)));
}

fn abort_what_is_settled(subject: &mut dyn Classifier) {
    subject.reclaim(Version(3));
    subject.abort(Version(3));
}
