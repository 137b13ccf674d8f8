//! A learned index that may return any matching rule, with and without rules in the remainder.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_classifier::{
    Classifier, Learned, LearnedConfig, Linear, Pattern, Precedence, RuleId, TupleSpaceConfig,
    Version,
};

const WORDS: usize = 2;
const VERSION: Version = Version(1);

/// Prefixes of one word, some with bits of the other word: many overlap.
fn draw(random: &mut Pcg64Mcg) -> ([u64; WORDS], [u64; WORDS]) {
    let length = random.random_range(4..=24);
    let mask = [
        u64::MAX << (64 - length),
        random.random::<u64>() & 0xf & (random.random::<u64>() % 2 * 15),
    ];
    let key = [random.random::<u64>(), random.random::<u64>() & 0xf];
    ([key[0] & mask[0], key[1] & mask[1]], mask)
}

fn config(takes_any: bool) -> LearnedConfig {
    LearnedConfig {
        takes_any,
        is_cost_ignored: true,
        // Leaves many rules to the remainder.
        isets_max: 1,
        bucket_max: 2,
        copies_max: 1,
        ..LearnedConfig::with_fields(
            TupleSpaceConfig::flat(WORDS, 1),
            LearnedConfig::flat(WORDS, 1).fields,
        )
    }
}

#[test]
fn what_is_found_matches_and_something_is_found_wherever_a_rule_matches() {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut rules = Vec::new();
    let (mut any, mut best) = (Learned::new(config(true)), Learned::new(config(false)));
    let mut oracle = Linear::new(WORDS);
    let mut put = |number: u32, any: &mut Learned, best: &mut Learned| {
        let (value, mask) = draw(&mut random);
        let pattern = Pattern {
            value: &value,
            mask: &mask,
        };
        let precedence = Precedence::new(0, u64::from(number));
        let id = RuleId(number);
        any.insert(pattern, precedence, id, VERSION);
        best.insert(pattern, precedence, id, VERSION);
        oracle.insert(pattern, precedence, id, VERSION);
        rules.push((value, mask));
    };
    (0..3_000).for_each(|number| put(number, &mut any, &mut best));
    any.reclaim(VERSION);
    best.reclaim(VERSION);
    any.train_now();
    best.train_now();
    // Some of these go into buckets, others into the remainder.
    (3_000..4_000).for_each(|number| put(number, &mut any, &mut best));
    let covered = any.statistics().covered;
    assert!((500..3_500).contains(&covered), "{covered}");

    let mut random = Pcg64Mcg::seed_from_u64(2);
    let keys: Vec<u64> = (0..20_000)
        .flat_map(|_| [random.random::<u64>(), random.random::<u64>() & 0xf])
        .collect();
    let mut answers = vec![None; keys.len() / WORDS];
    any.lookup_batch(&keys, VERSION, &mut answers);
    let mut others = 0;
    for (key, answer) in keys.chunks_exact(WORDS).zip(answers) {
        assert_eq!(any.lookup(key, VERSION), answer);
        let expected = oracle.lookup(key, VERSION);
        assert_eq!(best.lookup(key, VERSION), expected);
        assert_eq!(answer.is_some(), expected.is_some());
        if let Some(RuleId(number)) = answer {
            let (value, mask) = &rules[number as usize];
            assert!((0..WORDS).all(|word| (key[word] ^ value[word]) & mask[word] == 0));
            others += u32::from(answer != expected);
        }
    }
    assert!(others > 0, "the best is never beside what is found");
}
