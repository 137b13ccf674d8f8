//! How many of the iSets are worth it: what a lookup costs with each number of them.
//!
//! ```text
//!   cost = iSets * ISET + ENTRY if any table of the remainder is visited
//!        + tables visited * TABLE + patterns compared * PATTERN
//! ```
//!
//! The counts are of keys drawn from rules, which is how traffic is measured as well. The weights
//! are nanoseconds of a lookup in a burst, more of them the more rules there are, and matter only
//! in proportion. For the counts a remainder is built of the rules that would be left, or of a
//! sample of these; without any iSet it is the one that is there, if there are none yet. So a
//! training that does not pay gives no iSets, and lookups cost what the remainder costs.

use crate::merged_tuples::MergedTuples;
use crate::{Classifier, Precedence, RuleId, Version};

use super::LearnedConfig;
use super::snapshot::Snapshot;

/// What an iSet costs, and what a visit of a table does, where all is near.
const ISET: f64 = 16.0;
const TABLE: f64 = 3.0;
/// What it costs to begin with tables at all: hashing, and waiting for the first of them.
const ENTRY: f64 = 12.0;
/// What is added for each doubling of the rules, from so many on: they are further away.
const DOUBLING: f64 = 2.0;
const NEAR_RULES: f64 = 4096.0;
/// What a pattern costs.
const PATTERN: f64 = 3.0;
/// Rules that a remainder is built of at most.
const RULES: usize = 60_000;
/// Keys that are tried.
const KEYS: usize = 256;

/// What a lookup costs in so many iSets and a remainder of `left`.
pub(super) fn cost(snapshot: &Snapshot, config: &LearnedConfig, isets: usize, left: &[u32]) -> f64 {
    let mut remainder = MergedTuples::new(config.tuples.clone());
    let mut is_left = vec![false; snapshot.len()];
    for &rule in left {
        is_left[rule as usize] = true;
    }
    for &rule in left.iter().step_by(left.len().div_ceil(RULES).max(1)) {
        let (precedence, _) = snapshot.rule(rule);
        let pattern = snapshot.pattern(rule);
        remainder.insert(pattern, precedence, RuleId(rule), Version::FIRST);
    }
    let best_of = |rule: u32| {
        (!is_left[rule as usize]).then(|| match config.takes_any {
            true => Precedence::HIGHEST,
            false => snapshot.rule(rule).0,
        })
    };
    let covered = snapshot.len() - left.len();
    let tables = cost_of_tables(&remainder, left.len(), snapshot, Version::FIRST, best_of);
    cost_of_isets(isets, covered) + tables
}

/// What so many iSets cost a lookup, of so many rules.
pub(crate) fn cost_of_isets(isets: usize, covered: usize) -> f64 {
    isets as f64 * ISET + distance(covered)
}

/// What it costs a lookup to visit tables of so many rules, and to compare patterns there.
pub(crate) fn cost_of_visits(visited: usize, compared: usize, rules: usize) -> f64 {
    let entry = if visited > 0 { ENTRY } else { 0.0 };
    entry + visited as f64 * (TABLE + distance(rules)) + compared as f64 * PATTERN
}

/// What is added to a visit because of how many rules there are.
fn distance(rules: usize) -> f64 {
    DOUBLING * (1.0 + rules as f64 / NEAR_RULES).log2()
}

/// What a lookup costs in merged tuples of so many rules, or of a sample of these, by keys of the snapshot's rules; `best_of` says what is
/// found elsewhere for the key of a rule.
fn cost_of_tables(
    tables: &MergedTuples,
    rules: usize,
    snapshot: &Snapshot,
    version: Version,
    best_of: impl Fn(u32) -> Option<Precedence>,
) -> f64 {
    let step = snapshot.len().div_ceil(KEYS).max(1);
    let (mut keys, mut sum) = (0, 0.0);
    for rule in (0..snapshot.len() as u32).step_by(step) {
        // The key has the rule's value, and something else wherever the rule does not look.
        let pattern = snapshot.pattern(rule);
        let noise = crate::hash::hash_words(1, &[rule.into()]);
        let words = pattern.value.iter().zip(pattern.mask);
        let key: Vec<u64> = words.map(|(value, mask)| value | noise & !mask).collect();
        let (visited, compared) = tables.visited_beside(&key, version, best_of(rule));
        sum += cost_of_visits(visited, compared, rules);
        keys += 1;
    }
    sum / f64::from(keys.max(1))
}
