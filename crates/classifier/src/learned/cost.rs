//! Decides how many iSets pay: the cost of a lookup with each number of them.
//!
//! The keys are drawn from the rules, as in measured traffic. Each iSet is tried with them as soon
//! as its buckets are known: how many groups of eight rules a lookup compares there until it has
//! its rule. Then a remainder is built of the rules left over, or of a sample of them. [`Visits`]
//! has the weights. So a training that does not pay yields no iSets, and lookups cost what the
//! remainder costs.
//!
//! Groups matter for few rules, and for rules that overlap. A bucket may have dozens of groups: an
//! iSet with all rules in a few buckets covers everything and saves nothing.

use crate::cost::Visits;
use crate::merged_tuples::MergedTuples;
use crate::{Classifier, Precedence, RuleId, Version};

use super::LearnedConfig;
use super::composite::Composite;
use super::partition::{Buckets, LANES};
use super::snapshot::Snapshot;

/// The most rules in a trial remainder.
const RULES: usize = 60_000;
/// The number of keys tried.
const KEYS: usize = 256;

/// Keys that are tried in each planned iSet, before any index is built.
pub(super) struct Trial<'a> {
    snapshot: &'a Snapshot,
    config: &'a LearnedConfig,
    keys: Vec<Tried>,
}

/// A key, and the visits of its lookups so far.
struct Tried {
    key: Vec<u64>,
    /// The best rule found in an iSet.
    best: Option<u32>,
    visits: Visits,
}

impl<'a> Trial<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, config: &'a LearnedConfig) -> Trial<'a> {
        let step = snapshot.len().div_ceil(KEYS).max(1);
        let keys = (0..snapshot.len() as u32).step_by(step).map(|rule| {
            // The key has the rule's value, and noise in the bits outside its mask.
            let pattern = snapshot.pattern(rule);
            let noise = crate::hash::hash_words(1, &[rule.into()]);
            let words = pattern.value.iter().zip(pattern.mask);
            Tried {
                key: words.map(|(value, mask)| value | noise & !mask).collect(),
                best: None,
                visits: Visits::default(),
            }
        });
        Trial {
            snapshot,
            config,
            keys: keys.collect(),
        }
    }

    /// Looks the keys up in another iSet.
    pub(super) fn ask(&mut self, composite: &Composite, buckets: &Buckets) {
        for Tried { key, best, visits } in &mut self.keys {
            let number = composite.wide(key);
            let bucket = buckets.starts.partition_point(|&start| start <= number) - 1;
            let rules = buckets.bucket(bucket);
            let is_end = |&rule: &u32| {
                best.is_some_and(|best| best < rule) || self.snapshot.pattern(rule).matches(key)
            };
            let place = rules.iter().position(is_end);
            if let Some(place) = place {
                *best = Some(best.map_or(rules[place], |best| best.min(rules[place])));
            }
            let last = place.unwrap_or(rules.len().saturating_sub(1));
            visits.isets += 1;
            visits.long += usize::from(last >= LANES);
            visits.groups += last / LANES;
        }
    }

    /// The cost of a lookup in the iSets so far and a remainder of the rules `left`.
    pub(super) fn cost(&self, left: &[u32]) -> f64 {
        let mut remainder = MergedTuples::new(self.config.tuples.clone());
        for &rule in left.iter().step_by(left.len().div_ceil(RULES).max(1)) {
            let (precedence, _) = self.snapshot.rule(rule);
            let pattern = self.snapshot.pattern(rule);
            remainder.insert(pattern, precedence, RuleId(rule), Version::FIRST);
        }
        let costs = self.keys.iter().map(|tried| {
            let best = tried.best.map(|rule| match self.config.takes_any {
                true => Precedence::HIGHEST,
                false => self.snapshot.rule(rule).0,
            });
            let (tables, patterns) = remainder.visited_beside(&tried.key, Version::FIRST, best);
            let visits = Visits {
                covered: self.snapshot.len() - left.len(),
                tables,
                patterns,
                rules: left.len(),
                ..tried.visits
            };
            visits.cost_ns()
        });
        costs.sum::<f64>() / self.keys.len().max(1) as f64
    }
}
