//! Decides how many iSets pay: the cost of a lookup with each number of them.
//!
//! ```text
//!   cost = iSets * ISET + ENTRY if any table of the remainder is visited
//!        + tables visited * TABLE + patterns compared * PATTERN
//! ```
//!
//! The counts come from keys drawn from the rules, as in measured traffic. The weights are
//! nanoseconds of a lookup in a burst, and grow with the number of rules; only their ratios
//! matter. To count, a remainder is built of the rules that would be left over, or of a sample
//! of them. For zero iSets it is the existing one, if there are no iSets yet. So a training
//! that does not pay yields no iSets, and lookups cost what the remainder costs.

use crate::merged_tuples::MergedTuples;
use crate::{Classifier, Precedence, RuleId, Version};

use super::LearnedConfig;
use super::snapshot::Snapshot;

/// The cost of an iSet, and of a table visit, when all memory is near.
const ISET: f64 = 16.0;
const TABLE: f64 = 3.0;
/// The fixed cost of searching tables: hashing, and waiting for the first of them.
const ENTRY: f64 = 12.0;
/// The extra cost for each doubling of the rules beyond `NEAR_RULES`: they are further away.
const DOUBLING: f64 = 2.0;
const NEAR_RULES: f64 = 4096.0;
/// The cost of comparing a pattern.
const PATTERN: f64 = 3.0;
/// The most rules in a trial remainder.
const RULES: usize = 60_000;
/// The number of keys tried.
const KEYS: usize = 256;

/// The cost of a lookup with `isets` iSets and a remainder of the rules `left`.
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

/// The cost of `isets` iSets with `covered` rules for a lookup.
pub(crate) fn cost_of_isets(isets: usize, covered: usize) -> f64 {
    isets as f64 * ISET + distance(covered)
}

/// The cost of visiting tables with `rules` rules, and of comparing patterns there, for a
/// lookup.
pub(crate) fn cost_of_visits(visited: usize, compared: usize, rules: usize) -> f64 {
    let entry = if visited > 0 { ENTRY } else { 0.0 };
    entry + visited as f64 * (TABLE + distance(rules)) + compared as f64 * PATTERN
}

/// The extra cost of a visit for the number of rules.
fn distance(rules: usize) -> f64 {
    DOUBLING * (1.0 + rules as f64 / NEAR_RULES).log2()
}

/// The cost of a lookup in merged tuples of `rules` rules, or of a sample of them.
///
/// Keys are made from the snapshot's rules; `best_of` is the precedence found elsewhere for
/// the key of a rule.
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
        // The key has the rule's value, and noise in the bits outside its mask.
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
