//! First layers under hostile use.
//!
//! Keys that look alike to a filter, better rules that come later, versions that are never
//! published, more sub-tables than a vector has sets, and threads.

mod harness;

use harness::checks;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_classifier::simd::Level;
use thalweg_classifier::{
    Bloom, BloomConfig, Classifier, FirstLayer, Linear, Pattern, Precedence, RuleId,
    TupleSpaceConfig, Version,
};

const LAYERS: [FirstLayer; 4] = [
    FirstLayer::FullKeys,
    FirstLayer::FullKeysDisjoint,
    FirstLayer::CommonBits,
    FirstLayer::OwnBits,
];
/// Layers that are correct for overlapping rules too.
const ANY_RULES: [FirstLayer; 3] = [
    FirstLayer::FullKeys,
    FirstLayer::CommonBits,
    FirstLayer::OwnBits,
];
const V1: Version = Version(1);
const V2: Version = Version(2);
const WORDS: usize = 2;

fn bloom(first_layer: FirstLayer, flows: usize) -> Bloom {
    Bloom::new(BloomConfig {
        first_layer,
        flows,
        size_bytes_max: 1 << 20,
        ..BloomConfig::new(TupleSpaceConfig::flat(WORDS, 3))
    })
}

fn insert(
    classifiers: &mut [&mut dyn Classifier],
    rule: ([u64; 2], [u64; 2], u16),
    id: u32,
    born: Version,
) {
    let (value, mask, priority) = rule;
    let pattern = Pattern {
        value: &value,
        mask: &mask,
    };
    for classifier in classifiers {
        classifier.insert(
            pattern,
            Precedence::new(priority, u64::from(id)),
            RuleId(id),
            born,
        );
    }
}

/// Checks the oracle's answers, one by one and in bursts.
fn check(subject: &dyn Classifier, oracle: &dyn Classifier, keys: &[[u64; 2]], version: Version) {
    let mut answers = vec![Some(RuleId(u32::MAX)); keys.len()];
    subject.lookup_batch(&keys.concat(), version, &mut answers);
    for (key, answer) in keys.iter().zip(answers) {
        let expected = oracle.lookup(key, version);
        assert_eq!(answer, expected, "{key:x?} in a burst at {version}");
        assert_eq!(
            subject.lookup(key, version),
            expected,
            "{key:x?} at {version}"
        );
    }
}

/// A low sub-table of destinations, a high one of sources.
///
/// Most sources have no rule. A few keys that the filter of flows takes for others have one,
/// and so a better answer.
#[test]
fn a_key_that_looks_like_another_gets_its_own_answer() {
    for first_layer in ANY_RULES {
        let mut subject = bloom(first_layer, 400).always();
        let mut oracle = Linear::new(WORDS);
        let both: &mut [&mut dyn Classifier] = &mut [&mut subject, &mut oracle];
        insert(both, ([0, 7], [0, 0xff], 1), 0, V1);
        for source in 0..64 {
            insert(both, ([source, 0], [0xffff, 0], 9), 1 + source as u32, V1);
        }
        let flows: Vec<[u64; 2]> = (0..4_000)
            .map(|flow| [flow << 32 | 1_000, flow << 8 | 7])
            .collect();
        check(&subject, &oracle, &flows, V1);
        let others = (0..4_000).map(|flow| [(flow << 32) | (flow % 64), (flow << 8) | 7]);
        let others: Vec<[u64; 2]> = others.collect();
        if let Some(filter) = subject.flow_filter() {
            let looks_alike = |key: &&[u64; 2]| filter.candidates(filter.hash(*key)) & 1 == 1;
            let alike = others.iter().filter(looks_alike).count();
            println!(
                "{alike} of {} keys look like flows of the low sub-table",
                others.len()
            );
            assert!(alike > 100);
        }
        check(&subject, &oracle, &others, V1);
    }
}

/// Flows are already known when a better rule comes, first for a future version.
#[test]
fn a_better_rule_comes_after_the_filter_is_warm() {
    for first_layer in ANY_RULES {
        let mut subject = bloom(first_layer, 4_000).always();
        let mut oracle = Linear::new(WORDS);
        for value in 0..64 {
            insert(
                &mut [&mut subject, &mut oracle],
                ([0, value], [0, 0xff], 1),
                value as u32,
                V1,
            );
            insert(
                &mut [&mut subject, &mut oracle],
                ([value << 8, 0], [0xff00, 0xf000], 2),
                64 + value as u32,
                V1,
            );
        }
        let flows: Vec<[u64; 2]> = (0..1_000).map(|flow| [flow << 20, flow * 61]).collect();
        (0..3).for_each(|_| check(&subject, &oracle, &flows, V1));
        for (version, is_published) in [(2, false), (2, true), (3, false), (3, true)] {
            let version = Version(version);
            // A new mask and existing ones, all with higher precedence.
            for (id, rule) in [
                (200, ([0, 0x21], [0, 0x3f], 50)),
                (201, ([0, 0x22], [0, 0xff], 51)),
                (202, ([0x10_0000, 0], [0x10_0000, 0], 52)),
            ] {
                let id = id + 10 * version.0 as u32;
                insert(&mut [&mut subject, &mut oracle], rule, id, version);
            }
            check(&subject, &oracle, &flows, Version(version.0 - 1));
            check(&subject, &oracle, &flows, version);
            if !is_published {
                subject.abort(version);
                oracle.abort(version);
                check(&subject, &oracle, &flows, version);
            }
        }
        for (id, died) in [(222, 4), (220, 5), (231, 5), (232, 5)] {
            subject.remove(RuleId(id), Version(died));
            oracle.remove(RuleId(id), Version(died));
            (1..=5).for_each(|version| check(&subject, &oracle, &flows, Version(version)));
        }
        for oldest in 2..=5 {
            assert_eq!(
                subject.reclaim(Version(oldest)).len(),
                oracle.reclaim(Version(oldest)).len()
            );
            (oldest..=5).for_each(|version| check(&subject, &oracle, &flows, Version(version)));
        }
    }
}

/// Sub-tables vanish and their numbers get other masks, while the flows use these numbers.
#[test]
fn numbers_of_sub_tables_are_used_again() {
    for first_layer in ANY_RULES {
        let mut subject = bloom(first_layer, 4_000).always();
        let mut oracle = Linear::new(WORDS);
        let mut random = Pcg64Mcg::seed_from_u64(8);
        let mut living = Vec::new();
        for version in 1..60 {
            for id in living.drain(..) {
                subject.remove(RuleId(id), Version(version));
                oracle.remove(RuleId(id), Version(version));
            }
            for rule in 0..12 {
                let mask = [
                    0xf << (4 * random.random_range(0..4)),
                    0xf << (4 * random.random_range(0..4)),
                ];
                let value = [
                    random.random::<u64>() & mask[0],
                    random.random::<u64>() & mask[1],
                ];
                let id = (version * 100 + rule) as u32;
                let priority = random.random_range(1..5);
                insert(
                    &mut [&mut subject, &mut oracle],
                    (value, mask, priority),
                    id,
                    Version(version),
                );
                living.push(id);
            }
            let keys: Vec<[u64; 2]> = (0..100)
                .map(|_| [random.random(), random.random()])
                .collect();
            for version in version - 1..=version {
                (0..2).for_each(|_| check(&subject, &oracle, &keys, Version(version)));
            }
            subject.reclaim(Version(version));
            oracle.reclaim(Version(version));
            check(&subject, &oracle, &keys, Version(version));
        }
    }
}

/// Rules of one version are disjoint, as promised; rules of different versions are not.
#[test]
fn disjoint_rules_need_no_proof() {
    let mut random = Pcg64Mcg::seed_from_u64(9);
    let mut subject = bloom(FirstLayer::FullKeysDisjoint, 500).always();
    let mut oracle = Linear::new(WORDS);
    // The highest bits choose a value's mask, so rules under different masks are disjoint.
    let masks: Vec<u64> = (0..24)
        .map(|table| 0xff00_0000 | (0xfff << (table % 12)))
        .collect();
    let mut living: Vec<(u32, [u64; 2])> = Vec::new();
    let (mut version, mut oldest, mut id) = (V1, V1, 0);
    let mut done = 0;
    while done < checks() / 4 {
        let before = living.clone();
        for _ in 0..random.random_range(1..6) {
            let table = random.random_range(0..masks.len());
            let value = [
                (table as u64) << 24 | random.random_range(0..4096) & masks[table],
                0,
            ];
            if let Some(place) = living.iter().position(|(_, other)| *other == value) {
                let (dead, _) = living.swap_remove(place);
                subject.remove(RuleId(dead), version);
                oracle.remove(RuleId(dead), version);
            }
            if random.random_range(0..living.len() + 1) < 60 {
                insert(
                    &mut [&mut subject, &mut oracle],
                    (value, [masks[table], 0], 7),
                    id,
                    version,
                );
                living.push((id, value));
                id += 1;
            }
        }
        let keys: Vec<[u64; 2]> = (0..40)
            .map(|_| {
                let table = random.random_range(0..masks.len()) as u64;
                let chosen = living.get(random.random_range(0..living.len() + 1));
                let bits = chosen.map_or(table << 24, |(_, value)| value[0]);
                [
                    bits | random.random_range(0..16),
                    random.random_range(0..20),
                ]
            })
            .collect();
        for version in oldest.0..=version.0 {
            check(&subject, &oracle, &keys, Version(version));
            done += keys.len();
        }
        if random.random_range(0..4) == 0 {
            subject.abort(version);
            oracle.abort(version);
            living = before;
        } else {
            version = version.next();
        }
        if random.random_range(0..3) == 0 && version > V1.next() {
            oldest = Version(version.0 - 1);
            subject.reclaim(oldest);
            oracle.reclaim(oldest);
        }
    }
    let counted = subject.statistics();
    println!("{counted:?}");
    assert!(counted.candidates > counted.lookups / 4 && counted.full_searches > 0);
}

/// Masks of zero to seven words, with all instructions.
///
/// So values lie near their rules and apart from them, and are compared gathered and in place.
/// Some masks have only bits of one word.
#[test]
fn masks_of_every_length_with_every_level() {
    const WORDS: usize = 7;
    let mut random = Pcg64Mcg::seed_from_u64(21);
    let masks: Vec<[u64; WORDS]> = (0..40)
        .map(|number| {
            let skipped = random.random_range(0..WORDS);
            std::array::from_fn(
                |word| match (word + skipped) % WORDS < number % (WORDS + 1) {
                    true => [3, 7, 5 << 60, u64::MAX][random.random_range(0..4)],
                    false => 0,
                },
            )
        })
        .collect();
    // Few bits, so that several masks match a key, and rules share values.
    let mut draw = || -> [u64; WORDS] {
        std::array::from_fn(|_| random.random_range(0..4) | random.random_range(0..2) << 60)
    };
    let rules: Vec<(usize, [u64; WORDS])> = (0..4_000).map(|id| (id * 7 % 40, draw())).collect();
    let keys: Vec<u64> = (0..3_000).flat_map(|_| draw()).collect();
    let mut oracle = Linear::new(WORDS);
    let fill = |classifier: &mut dyn Classifier| {
        for (id, (mask, value)) in rules.iter().enumerate() {
            let mask = &masks[*mask];
            let value: Vec<u64> = value.iter().zip(mask).map(|(a, b)| a & b).collect();
            let (priority, age) = (id as u16 % 50, id as u64);
            let pattern = Pattern {
                value: &value,
                mask,
            };
            classifier.insert(
                pattern,
                Precedence::new(priority, age),
                RuleId(id as u32),
                [V1, V2][id % 2],
            );
        }
        (0..4_000)
            .step_by(6)
            .for_each(|id| classifier.remove(RuleId(id), V2));
    };
    fill(&mut oracle);
    for first_layer in ANY_RULES {
        for level in Level::available() {
            let config = BloomConfig {
                first_layer,
                ..BloomConfig::new(TupleSpaceConfig::flat(WORDS, 3))
            };
            let mut subject = Bloom::new(config).with_level(level).always();
            fill(&mut subject);
            for (step, version) in [V1, V2, V2].into_iter().enumerate() {
                // From then on most rules exist at every version, so lifetimes are not read.
                if step == 2 {
                    assert_eq!(subject.reclaim(V2).len(), 667);
                }
                for keys in [&keys[..], &keys[..WORDS * 45]] {
                    let mut answers = vec![None; keys.len() / WORDS];
                    subject.lookup_batch(keys, version, &mut answers);
                    for (key, answer) in keys.chunks(WORDS).zip(answers) {
                        let expected = oracle.lookup(key, version);
                        assert_eq!(answer, expected, "{first_layer:?}, {}", level.name());
                        assert_eq!(subject.lookup(key, version), expected);
                    }
                }
            }
        }
    }
}

/// 200 masks: several vectors of flows, several groups, and numbers beyond the first filter.
#[test]
fn more_sub_tables_than_a_vector_has_sets() {
    for first_layer in LAYERS {
        let mut subject = bloom(first_layer, 2_000).always();
        let mut oracle = Linear::new(WORDS);
        for table in 0..200u64 {
            // Disjoint by the first byte; the masks share it and differ in pairs of bits.
            let mask = [0xff, 1 << (table % 20) | 1 << (20 + table / 20)];
            for value in 0..3 {
                let value = [
                    table,
                    mask[1] & ((value << (table % 20)) | ((value / 2) << (20 + table / 20))),
                ];
                let id = (table * 4 + value[1].count_ones() as u64) as u32;
                if Classifier::pattern(&oracle, RuleId(id)).is_none() {
                    insert(
                        &mut [&mut subject, &mut oracle],
                        (value, mask, table as u16),
                        id,
                        V1,
                    );
                }
            }
            if table == 70 || table == 140 {
                let keys: Vec<[u64; 2]> = (0..table * 3).map(|key| [key % table, key]).collect();
                check(&subject, &oracle, &keys, V1);
            }
        }
        assert_eq!(subject.rules().subtable_count(), 200);
        let sets = subject.flow_filter().map(|filter| filter.sets());
        assert!(sets.is_none_or(|sets| sets >= 200));
        let keys: Vec<[u64; 2]> = (0..1_500)
            .map(|key| [key % 200, key / 200 * 0x12_3456])
            .collect();
        (0..3).for_each(|_| check(&subject, &oracle, &keys, V1));
        let before = subject.statistics();
        check(&subject, &oracle, &keys, V1);
        let after = subject.statistics();
        let candidates = after.candidates - before.candidates;
        println!(
            "{first_layer:?}: {candidates} candidates of {} lookups",
            2 * keys.len()
        );
        assert!(
            candidates < 8 * 2 * keys.len() as u64,
            "{first_layer:?}: {candidates}"
        );
    }
}

/// A warm filter knows its flows: one candidate each, few false ones, and no searches except
/// for keys without a rule.
#[test]
fn a_warm_filter_answers_by_one_probe() {
    for first_layer in LAYERS {
        let (mut subject, mut oracle) = (bloom(first_layer, 4_000).always(), Linear::new(WORDS));
        for table in 0..20u64 {
            for value in 0..50u64 {
                let mask = [0xff, 0xffff << (table % 5)];
                let rule = (
                    [table, (value * 0x101) << 5 & mask[1]],
                    mask,
                    100 - table as u16,
                );
                insert(
                    &mut [&mut subject, &mut oracle],
                    rule,
                    (table * 50 + value) as u32,
                    V1,
                );
            }
        }
        let flows: Vec<[u64; 2]> = (0..2_000)
            .map(|flow| [flow % 20, (flow / 20 % 50 * 0x101) << 5 | flow << 32])
            .collect();
        (0..2).for_each(|_| check(&subject, &oracle, &flows, V1));
        let before = subject.statistics();
        check(&subject, &oracle, &flows, V1);
        let after = subject.statistics();
        let counts = [
            after.lookups - before.lookups,
            after.candidates - before.candidates,
            after.false_positives - before.false_positives,
            after.full_searches - before.full_searches,
        ];
        println!("{first_layer:?}: lookups, candidates, false, searches: {counts:?}");
        let [lookups, candidates, falses, searches] = counts;
        assert_eq!(lookups, 4_000);
        assert!(candidates < lookups * 5 / 2 && falses < lookups / 4 && searches < lookups / 20);
        assert!(after.filters.bits_set > 0.0 && after.filters.size_bytes > 0);
    }
}

/// Fifty rules agree on all bits of their group: counters overflow.
///
/// Bits stay when the rules are gone, and are cleared at last.
#[test]
fn counters_of_common_bits_overflow() {
    let (mut subject, mut oracle) = (
        bloom(FirstLayer::CommonBits, 0).always(),
        Linear::new(WORDS),
    );
    for id in 0..200u64 {
        let (value, mask) = match id % 2 {
            0 => ([id / 100, id / 2], [0xffff, 0xff]),
            _ => ([id / 100, (id / 2) << 8], [0xffff, 0xff00]),
        };
        insert(
            &mut [&mut subject, &mut oracle],
            (value, mask, 5),
            id as u32,
            V1,
        );
    }
    let keys: Vec<[u64; 2]> = (0..600).map(|key| [key % 3, key / 3 * 0x101]).collect();
    check(&subject, &oracle, &keys, V1);
    assert!(subject.statistics().filters.overflowed_counters > 0);
    for id in 2..200 {
        subject.remove(RuleId(id), V2);
        oracle.remove(RuleId(id), V2);
    }
    check(&subject, &oracle, &keys, V1);
    check(&subject, &oracle, &keys, V2);
    subject.reclaim(V2);
    oracle.reclaim(V2);
    check(&subject, &oracle, &keys, V2);
    let left = subject.statistics().filters;
    assert_eq!(left.overflowed_counters, 0, "{left:?}");
}

/// Counters are stuck for a removed sub-table: its bits name no sub-table.
#[test]
fn stuck_bits_of_a_sub_table_that_has_gone() {
    let (mut subject, mut oracle) = (
        bloom(FirstLayer::CommonBits, 0).always(),
        Linear::new(WORDS),
    );
    for id in 0..421u64 {
        let rule = match id {
            0..400 => ([id, 0], [0xffff, 0], 5),
            420 => ([3, 5], [0xffff, 0xff], 4),
            _ => ([7, id], [0xffff, 0xffff], 6),
        };
        insert(&mut [&mut subject, &mut oracle], rule, id as u32, V1);
    }
    for id in 400..420 {
        subject.remove(RuleId(id), V2);
        oracle.remove(RuleId(id), V2);
    }
    assert_eq!(subject.reclaim(V2).len(), oracle.reclaim(V2).len());
    assert!(subject.statistics().filters.overflowed_counters > 0);
    let keys: Vec<[u64; 2]> = (0..500).map(|key| [key % 50, key]).collect();
    check(&subject, &oracle, &keys, V2);
}

/// Single lookups also add to the flows.
#[test]
fn single_lookups_learn() {
    let mut subject = bloom(FirstLayer::FullKeysDisjoint, 1_000).always();
    for table in 0..10 {
        let rule = ([table, 0], [0xff, 1 << table], 1);
        insert(&mut [&mut subject], rule, table as u32, V1);
    }
    let searches = |subject: &Bloom| {
        for flow in 0..500 {
            let answer = subject.lookup(&[flow % 10, flow << 20], V1);
            assert_eq!(answer, Some(RuleId((flow % 10) as u32)));
        }
        subject.statistics().full_searches
    };
    let first = searches(&subject);
    let again = searches(&subject) - first;
    assert!(first > 400 && again < 50, "{first}, then {again}");
}

/// Rules that come and go, published or not, leave no bits: the candidates stay the same.
#[test]
fn what_is_freed_leaves_no_bits() {
    for first_layer in [FirstLayer::CommonBits, FirstLayer::OwnBits] {
        let mut subject = bloom(first_layer, 0).always();
        let rule = |number: u64| {
            let mask = [0xffff, 0xff << (number % 4 * 4)];
            ([number / 4, mask[1] & number], mask, 5)
        };
        for id in 0..400 {
            insert(&mut [&mut subject], rule(id), id as u32, V1);
        }
        let before = subject.statistics().filters;
        for round in 0..40u64 {
            let version = Version(2 + round);
            let ids = 1_000..1_020u32;
            for id in ids.clone() {
                let number = 1_000 + round * 20 + u64::from(id);
                insert(&mut [&mut subject], rule(number), id, version);
            }
            if round % 2 == 0 {
                subject.abort(version);
            } else {
                ids.for_each(|id| subject.remove(RuleId(id), version));
                assert_eq!(subject.reclaim(version).len(), 20);
            }
            let after = subject.statistics().filters;
            assert_eq!(after.size_bytes, before.size_bytes);
            assert_eq!(
                after.bits_set, before.bits_set,
                "{first_layer:?}, round {round}"
            );
        }
    }
}

/// A layer that does not pay is skipped, and asked again when it pays; the answers stay.
#[test]
fn a_layer_that_does_not_pay_is_passed_by() {
    let (mut subject, mut oracle) = (bloom(FirstLayer::CommonBits, 0), Linear::new(WORDS));
    let key = |flow: u64| [flow % 16, flow % 32 * 0x0101_0101];
    insert(&mut [&mut subject, &mut oracle], ([0, 0], [0, 0], 0), 0, V1);
    let keys: Vec<[u64; 2]> = (0..64).map(key).collect();
    check(&subject, &oracle, &keys, V1);
    assert!(!subject.statistics().is_asked, "one sub-table");
    for table in 0..16u64 {
        for value in 0..32u64 {
            let mask = [0xff, 0xff << (8 + table) | 0xff];
            let rule = (
                [table, (value * 0x0101_0101) & mask[1]],
                mask,
                100 - table as u16,
            );
            insert(
                &mut [&mut subject, &mut oracle],
                rule,
                (1 + table * 32 + value) as u32,
                V1,
            );
        }
    }
    let spread: Vec<[u64; 2]> = (0..256).map(key).collect();
    let first: Vec<[u64; 2]> = spread.iter().copied().filter(|key| key[0] == 0).collect();
    for (keys, is_asked) in [
        (&spread, true),
        (&first, false),
        (&spread, true),
        (&first, false),
    ] {
        check(&subject, &oracle, keys, V1);
        for _ in 0..100_000 / keys.len() {
            let mut answers = vec![None; keys.len()];
            subject.lookup_batch(&keys.concat(), V1, &mut answers);
        }
        check(&subject, &oracle, keys, V1);
        assert_eq!(subject.statistics().is_asked, is_asked);
    }
    let counted = subject.statistics();
    assert!(
        counted.bypassed > 50_000 && counted.lookups > 50_000,
        "{counted:?}"
    );
}

/// Two threads fill the filter with common and separate flows, while they look up.
#[test]
fn threads_look_up_while_the_filter_fills() {
    for first_layer in LAYERS {
        let (mut subject, mut oracle) = (bloom(first_layer, 300).always(), Linear::new(WORDS));
        for id in 0..300u64 {
            let mask = [0xff, 0xff << (id % 30)];
            let rule = (
                [id % 30, (id * 7) << (id % 30) & mask[1]],
                mask,
                (id % 30) as u16,
            );
            if oracle
                .find(
                    Pattern {
                        value: &rule.0,
                        mask: &rule.1,
                    },
                    rule.2,
                )
                .is_none()
            {
                insert(&mut [&mut subject, &mut oracle], rule, id as u32, V1);
            }
        }
        let key = |flow: u64| [flow % 30, (flow % 300 * 7) << (flow % 30) | flow << 40];
        let keys: Vec<[u64; 2]> = (0..6_000).map(key).collect();
        let expected: Vec<_> = keys.iter().map(|key| oracle.lookup(key, V1)).collect();
        assert!(expected.iter().filter(|answer| answer.is_some()).count() > 3_000);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (subject, keys, expected) = (&subject, &keys, &expected);
                scope.spawn(move || {
                    for round in 0..4 {
                        let from = (thread * 1_500 + round * 700) % keys.len();
                        for (key, expected) in keys[from..].iter().zip(&expected[from..]) {
                            assert_eq!(subject.lookup(key, V1), *expected);
                        }
                        let mut answers = vec![None; keys.len()];
                        subject.lookup_batch(&keys.concat(), V1, &mut answers);
                        assert_eq!(&answers, expected);
                    }
                });
            }
        });
    }
}
