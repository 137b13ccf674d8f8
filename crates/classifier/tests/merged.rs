//! Merged tuples under hostile rules: one bucket, one pattern, one rule per mask, wide keys.

mod harness;

use std::collections::BTreeSet;

use harness::{WORDS, acl};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_classifier::{
    Classifier, Linear, MergedTuples, Pattern, Precedence, RuleId, TupleSpace, TupleSpaceConfig,
    Version,
};

const V1: Version = Version(1);

/// A rule: value, mask, priority.
type Plain = (Vec<u64>, Vec<u64>, u16);

/// Inserts rules in the given order, which is their age.
fn load(subject: &mut dyn Classifier, rules: &[Plain]) {
    for (number, (value, mask, priority)) in rules.iter().enumerate() {
        let precedence = Precedence::new(*priority, number as u64);
        let id = RuleId(number as u32);
        subject.insert(Pattern { value, mask }, precedence, id, V1);
    }
}

/// Checks the oracle's answers, and that no random flip shows a mask to be unsound.
fn check(subject: &dyn Classifier, rules: &[Plain], keys: &[Vec<u64>]) {
    let mut oracle = Linear::new(keys[0].len());
    load(&mut oracle, rules);
    let mut random = Pcg64Mcg::seed_from_u64(1);
    for key in keys {
        let expected = oracle.lookup(key, V1);
        assert_eq!(subject.lookup(key, V1), expected);
        let mut examined = vec![0; key.len()];
        let answer = subject.lookup_examined(key, V1, &mut examined);
        assert_eq!(answer, expected);
        for _ in 0..20 {
            let words = key.iter().zip(&examined);
            let flip = |(word, examined): (&u64, &u64)| word ^ random.random::<u64>() & !examined;
            let other: Vec<u64> = words.map(flip).collect();
            assert_eq!(oracle.lookup(&other, V1), expected, "{examined:x?}");
        }
    }
}

/// The `length` leading bits of a half word, in the upper half.
fn prefix(length: u32) -> u64 {
    !(u64::MAX >> length) & !u64::from(u32::MAX)
}

#[test]
fn many_rules_of_one_pattern() {
    let pattern = (vec![0, 7], vec![0, 0xff]);
    for is_rising in [true, false] {
        let priority = |number: u16| if is_rising { number } else { 10_000 - number };
        let rules = (0..10_000).map(|n| (pattern.0.clone(), pattern.1.clone(), priority(n)));
        let mut rules: Vec<Plain> = rules.collect();
        let mut subject = MergedTuples::new(TupleSpaceConfig::flat(2, 1));
        load(&mut subject, &rules);
        assert_eq!((subject.table_count(), subject.mask_count()), (1, 1));
        // A key of another value probes one empty bucket; this one compares one pattern.
        assert_eq!(subject.visited_by(&[0, 8], V1), (1, 0));
        assert_eq!(subject.visited_by(&[0, 7], V1), (1, 1));
        (0..9_999).for_each(|number| subject.remove(RuleId(number), Version(2)));
        assert_eq!(subject.lookup(&[0, 7], Version(2)), Some(RuleId(9_999)));
        assert_eq!(subject.reclaim(Version(2)).len(), 9_999);
        let last = rules.pop().expect("there are some");
        let pattern = Pattern {
            value: &last.0,
            mask: &last.1,
        };
        assert_eq!(subject.find(pattern, last.2), Some(RuleId(9_999)));
        assert_eq!(subject.find(pattern, last.2 ^ 1), None);
    }
}

/// All values are zero, so all rules agree under every mask.
#[test]
fn nested_patterns_cannot_fill_a_bucket() {
    let lengths = (0..=32).flat_map(|source| (0..=32).map(move |other| (source, other)));
    let mask = |(source, other): (u32, u32)| {
        let mut mask = vec![0; WORDS];
        mask[2] = prefix(source) | prefix(other) >> 32;
        mask
    };
    let rules = lengths.clone().map(|pair| {
        let priority = (pair.0 * 7 + pair.1 * 13) % 40;
        (vec![0; WORDS], mask(pair), priority as u16)
    });
    let rules: Vec<Plain> = rules.collect();
    let mut subject = MergedTuples::new(harness::config(1)).with_patterns_max(8);
    load(&mut subject, &rules);
    let tables = subject.table_count();
    assert_eq!(subject.mask_count(), 33 * 33);
    println!("{} rules in {tables} tables", rules.len());
    // A bucket has at most nine patterns, and all rules agree under every mask.
    assert!(tables >= rules.len() / 9 && tables <= rules.len() / 4);
    let mut random = Pcg64Mcg::seed_from_u64(2);
    let mut key = || {
        let mut key = vec![0; WORDS];
        key[2] = 1 << random.random_range(0..64) | 1 << random.random_range(0..64);
        key
    };
    let mut keys: Vec<Vec<u64>> = (0..100).map(|_| key()).collect();
    keys.push(vec![0; WORDS]);
    for key in &keys {
        let (visited, compared) = subject.visited_by(key, V1);
        assert!(visited <= tables && compared <= 9 * visited);
    }
    check(&subject, &rules, &keys);
}

/// One rule per mask, with bits that no ladder knows: no worse than a tuple space.
#[test]
fn an_explosion_of_masks_is_bounded() {
    let mut masks: BTreeSet<Vec<u64>> = BTreeSet::new();
    for shift in 0..32 {
        for length in 1..32 {
            let mut mask = vec![0; WORDS];
            mask[0] = prefix(length) | 1 << shift;
            masks.insert(mask);
        }
    }
    let rules: Vec<Plain> = masks
        .into_iter()
        .map(|mask| (vec![0; WORDS], mask, 1))
        .collect();
    let mut subject = MergedTuples::new(harness::config(1));
    load(&mut subject, &rules);
    assert!(subject.table_count() <= rules.len());
    let keys = [vec![u64::MAX; WORDS], vec![0; WORDS], vec![1; WORDS]];
    check(&subject, &rules, &keys);
    let fresh = MergedTuples::new(harness::config(1)).memory_bytes();
    (0..rules.len() as u32).for_each(|id| subject.remove(RuleId(id), Version(2)));
    subject.reclaim(Version(2));
    assert_eq!((subject.table_count(), subject.mask_count()), (0, 0));
    assert!(subject.memory_bytes() <= fresh + 2_000);
}

#[test]
fn wide_keys_and_full_and_empty_masks() {
    let words = thalweg_packet::MAX_WORDS;
    let mut random = Pcg64Mcg::seed_from_u64(3);
    let mut rules: Vec<Plain> = vec![(vec![0; words], vec![0; words], 0)];
    for priority in 1..200 {
        let value: Vec<u64> = (0..words).map(|_| random.random_range(0..2)).collect();
        rules.push((value, vec![u64::MAX; words], priority));
    }
    let keys: Vec<Vec<u64>> = rules.iter().map(|rule| rule.0.clone()).collect();
    let mut subject = MergedTuples::new(TupleSpaceConfig::flat(words, 1));
    load(&mut subject, &rules);
    check(&subject, &rules, &keys);
}

/// Below the bound the masks are a tuple space's, bit by bit; above it there are fewer tables.
#[test]
fn few_masks_are_a_tuple_space() {
    let rules = acl::rules(2_000, 5);
    let masks: BTreeSet<_> = rules.iter().map(|rule| rule.mask).collect();
    let mut tuple_space = TupleSpace::new(acl::config(1));
    let mut subject = MergedTuples::after(masks.len(), acl::config(1));
    acl::load(&mut tuple_space, &rules, V1);
    acl::load(&mut subject, &rules, V1);
    assert_eq!(subject.table_count(), masks.len());
    let mut keys = acl::keys_that_hit(&rules, 300, 7);
    keys.extend(acl::keys_that_miss(300, 7));
    for key in &keys {
        let mut examined = [[0; acl::WORDS]; 2];
        let expected = tuple_space.lookup_examined(key, V1, &mut examined[0]);
        assert_eq!(subject.lookup_examined(key, V1, &mut examined[1]), expected);
        assert_eq!(examined[0], examined[1]);
    }
}

/// One mask beyond the bound: later inserts empty the single-mask tables rule by rule.
#[test]
fn tables_of_single_masks_are_emptied_rule_by_rule() {
    let rules = acl::rules(2_000, 5);
    let mut subject = MergedTuples::after(40, acl::config(1));
    let mut tables = Vec::new();
    for (number, rule) in rules.iter().enumerate() {
        let pattern = Pattern {
            value: &rule.value,
            mask: &rule.mask,
        };
        let precedence = Precedence::new(rule.priority, number as u64);
        subject.insert(pattern, precedence, RuleId(number as u32), V1);
        tables.push(subject.table_count());
    }
    let mut merged = MergedTuples::new(acl::config(1));
    acl::load(&mut merged, &rules, V1);
    let last = subject.table_count();
    println!(
        "{} tables at most, {last} at last",
        tables.iter().max().expect("some")
    );
    assert!(tables.iter().any(|&tables| tables >= 40));
    assert!(last <= 2 * merged.table_count() && last < 40);
    let plain = rules
        .iter()
        .map(|rule| (rule.value.to_vec(), rule.mask.to_vec(), rule.priority));
    let keys = acl::keys_that_hit(&rules, 200, 8);
    let keys: Vec<Vec<u64>> = keys.iter().map(|key| key.to_vec()).collect();
    check(&subject, &plain.collect::<Vec<_>>(), &keys);
}

#[test]
fn far_fewer_tables_than_masks() {
    let rules = acl::rules(5_000, 5);
    let mut subject = MergedTuples::new(acl::config(1));
    acl::load(&mut subject, &rules, V1);
    let (tables, masks) = (subject.table_count(), subject.mask_count());
    println!("{masks} masks, {tables} tables");
    assert!(tables * 5 < masks, "{masks} masks, {tables} tables");
}
