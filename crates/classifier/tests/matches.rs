//! All matches of a key, priority by priority, against a scan of all rules.

mod harness;

use std::collections::BTreeMap;

use harness::{WORDS, checks, config, level, random_key, random_pattern};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use thalweg_classifier::{
    Classifier, Pattern, Precedence, RuleId, TupleSpace, TupleSpaceConfig, Version,
};

/// A rule of the scan.
struct Known {
    value: Vec<u64>,
    mask: Vec<u64>,
    priority: u16,
    id: RuleId,
    born: Version,
    died: Version,
}

/// The matches above a priority, the best priority first.
type ByPriority = Vec<(u16, Vec<RuleId>)>;

fn scan(rules: &[Known], key: &[u64], version: Version, above: Option<u16>) -> ByPriority {
    let mut found: BTreeMap<u16, Vec<RuleId>> = BTreeMap::new();
    for rule in rules {
        let pattern = Pattern {
            value: &rule.value,
            mask: &rule.mask,
        };
        let exists = rule.born <= version && version < rule.died;
        let is_above = above.is_none_or(|above| rule.priority > above);
        if exists && is_above && pattern.matches(key) {
            found.entry(rule.priority).or_default().push(rule.id);
        }
    }
    found.into_iter().rev().collect()
}

/// The first `wanted` priorities of the matches, and the bits that show them.
fn search(
    rules: &TupleSpace,
    key: &[u64],
    version: Version,
    above: Option<u16>,
    wanted: usize,
) -> (ByPriority, Vec<u64>) {
    let mut examined = vec![0; WORDS];
    let mut matches = rules.matches(key, version, above);
    let (mut found, mut ids) = (Vec::new(), Vec::new());
    while found.len() < wanted
        && let Some(priority) = matches.next_priority(&mut ids, &mut examined)
    {
        ids.sort_unstable();
        found.push((priority, ids.clone()));
    }
    (found, examined)
}

fn drive(mut subject: TupleSpace, count: usize, seed: u64) {
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut known: Vec<Known> = Vec::new();
    let (mut version, mut several, mut flips) = (Version::FIRST, 0, 0);
    for step in 0..checks() as u32 / 40 {
        version = version.next();
        let (value, mask) = random_pattern(&mut rng);
        let priority = rng.random_range(0..4);
        let id = RuleId(step);
        let pattern = Pattern {
            value: &value,
            mask: &mask,
        };
        subject.insert(pattern, Precedence::new(priority, step.into()), id, version);
        known.push(Known {
            value,
            mask,
            priority,
            id,
            born: version,
            died: Version::NEVER,
        });
        if known.len() > count {
            let place = rng.random_range(0..known.len());
            if known[place].died == Version::NEVER {
                known[place].died = version;
                subject.remove(known[place].id, version);
            }
        }
        if known.len() > 2 * count {
            subject.reclaim(version);
            known.retain(|rule| rule.died > version);
        }
        // Before the last removals, unless they are reclaimed.
        let oldest = known.iter().map(|rule| rule.died).min();
        let oldest = oldest.map_or(version, |died| version.min(Version(died.0 - 1)));
        for version in [version, oldest] {
            let key = random_key(&mut rng);
            let above = rng.random_bool(0.3).then(|| rng.random_range(0..4));
            let all = scan(&known, &key, version, above);
            several += usize::from(all.iter().any(|(_, ids)| ids.len() > 1));
            for wanted in 0..=all.len() + 1 {
                let (found, examined) = search(&subject, &key, version, above, wanted);
                let expected = &all[..wanted.min(all.len())];
                assert_eq!(found, expected, "{key:x?} at {version}, above {above:?}");
                let other = random_key(&mut rng);
                let words = key.iter().zip(&other).zip(&examined);
                let other: Vec<u64> = words
                    .map(|((own, other), bits)| own & bits | other & !bits)
                    .collect();
                let again = scan(&known, &other, version, above);
                let again = &again[..wanted.min(again.len())];
                assert_eq!(again, expected, "{key:x?}, {other:x?}");
                flips += usize::from(other != key);
            }
        }
    }
    assert!(several > 100 && flips > 100, "{several}, {flips}");
}

#[test]
fn matches_with_stages_and_tries() {
    for (seed, count) in (1..).zip([3, 20, 60, 200]) {
        let subject = TupleSpace::new(config(seed)).with_level(level(seed));
        drive(subject, count, seed);
    }
}

#[test]
fn matches_without() {
    let config = TupleSpaceConfig::flat(WORDS, 5);
    drive(TupleSpace::new(config), 40, 5);
}
