//! Counts on their way from entries to rules, tables, groups and patches.

use std::collections::HashMap;

use thalweg_classifier::hash::WordHash;
use thalweg_packet::Instant;
use thalweg_pipeline::{Counters, Pipeline, RuleId};

use crate::entry::Credit;

/// Counts that a datapath has gathered from its entries, for the pipeline.
#[derive(Debug)]
pub struct Ledger {
    credits: HashMap<Credit, (Counters, Instant), WordHash>,
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger {
            credits: HashMap::with_hasher(WordHash::new(0)),
        }
    }
}

impl Ledger {
    pub(crate) fn add(&mut self, credits: &[Credit], counters: Counters, used_at: Instant) {
        if counters.packets == 0 {
            return;
        }
        for credit in credits {
            let (sum, last) = self.credits.entry(*credit).or_default();
            sum.add(counters);
            *last = used_at.max(*last);
        }
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: Ledger) {
        if self.credits.is_empty() {
            self.credits = other.credits;
            return;
        }
        for (credit, (counters, used_at)) in other.credits {
            let (sum, last) = self.credits.entry(credit).or_default();
            sum.add(counters);
            *last = used_at.max(*last);
        }
    }

    /// When a rule was last used, as far as this ledger knows.
    pub(crate) fn used_at(&self, rule: RuleId) -> Option<Instant> {
        let known = self.credits.get(&Credit::Rule(rule));
        known.map(|(_, used_at)| *used_at)
    }

    /// Whether there are no counts.
    pub fn is_empty(&self) -> bool {
        self.credits.is_empty()
    }

    /// The counts as a list, to be settled in parts.
    pub fn into_counts(self) -> Counts {
        Counts(self.credits.into_iter().collect())
    }

    /// Settles all counts with the pipeline.
    pub fn settle(self, pipeline: &mut Pipeline) {
        self.into_counts().settle(pipeline, usize::MAX);
    }
}

/// Counts of rules by number, for a mode that counts every packet and not every entry.
///
/// 1. A rule that has counted something is in `counted`, exactly once.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    by_rule: Vec<Tallied>,
    counted: Vec<RuleId>,
}

/// The counts of one rule, which may have been taken since.
#[derive(Clone, Copy, Debug, Default)]
struct Tallied {
    counters: Counters,
    used_at: Instant,
    is_listed: bool,
}

impl Tally {
    /// Counts what a packet counts.
    pub(crate) fn add(&mut self, rule: RuleId, counters: Counters, now: Instant) {
        let place = rule.0 as usize;
        if self.by_rule.len() <= place {
            self.by_rule.resize(place + 1, Default::default());
        }
        let tallied = &mut self.by_rule[place];
        if !tallied.is_listed {
            tallied.is_listed = true;
            self.counted.push(rule);
        }
        tallied.counters.packets += counters.packets;
        tallied.counters.bytes += counters.bytes;
        tallied.used_at = now;
    }

    /// Prefetches a rule's counts.
    pub(crate) fn prefetch(&self, rule: RuleId) {
        thalweg_classifier::simd::prefetch(&self.by_rule, rule.0 as usize);
    }

    /// Moves all counts to a ledger.
    pub(crate) fn settle(&mut self, ledger: &mut Ledger) {
        for rule in self.counted.drain(..) {
            let tallied = std::mem::take(&mut self.by_rule[rule.0 as usize]);
            ledger.add(&[Credit::Rule(rule)], tallied.counters, tallied.used_at);
        }
    }

    /// Moves the counts of these rules to a ledger; the cost does not depend on how many rules
    /// have counted something.
    pub(crate) fn settle_rules(&mut self, rules: &[RuleId], ledger: &mut Ledger) {
        for rule in rules {
            if let Some(tallied) = self.by_rule.get_mut(rule.0 as usize) {
                let counters = std::mem::take(&mut tallied.counters);
                ledger.add(&[Credit::Rule(*rule)], counters, tallied.used_at);
            }
        }
    }

    /// When a rule was last used, if it has counted something since its counts were taken.
    pub(crate) fn used_at(&self, rule: RuleId) -> Option<Instant> {
        let tallied = self.by_rule.get(rule.0 as usize)?;
        (tallied.counters.packets > 0).then_some(tallied.used_at)
    }
}

/// Counts to be settled with rules, tables and groups.
#[derive(Debug)]
pub struct Counts(Vec<(Credit, (Counters, Instant))>);

impl Counts {
    /// Whether all counts are settled.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Settles `count` of them.
    pub fn settle(&mut self, pipeline: &mut Pipeline, count: usize) {
        let rest = self.0.len().saturating_sub(count);
        for (credit, (counters, used_at)) in self.0.drain(rest..) {
            match credit {
                Credit::Rule(rule) => {
                    if let Some(table) = pipeline.rule(rule).map(|rule| rule.table) {
                        pipeline.credit_table(table, counters.packets, counters.packets);
                    }
                    pipeline.credit_rule(rule, counters, used_at);
                }
                Credit::Miss(table) => pipeline.credit_table(table, counters.packets, 0),
                Credit::Unmatched(bridge, to_controller) => {
                    pipeline.credit_unmatched(bridge, to_controller, counters);
                }
                Credit::Fragment(table) => pipeline.credit_fragments(table, counters),
                Credit::Bucket(group, bucket) => pipeline.credit_bucket(group, bucket, counters),
                Credit::Patch(from, to) => pipeline.credit_patch(from, to, counters),
                Credit::Mirror(mirror) => pipeline.credit_mirror(mirror, counters),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(ledger: &Ledger) -> Vec<(u32, u64)> {
        let mut counted: Vec<(u32, u64)> = Vec::new();
        for (credit, (counters, _)) in &ledger.credits {
            if let Credit::Rule(rule) = credit {
                counted.push((rule.0, counters.packets));
            }
        }
        counted.sort_unstable();
        counted
    }

    #[test]
    fn rules_that_go_give_their_counts_away_and_others_keep_theirs() {
        let (mut tally, mut ledger) = (Tally::default(), Ledger::default());
        let now = Instant::from_nanos(7);
        let one = Counters {
            packets: 1,
            bytes: 64,
        };
        for rule in [1, 2, 3, 2, 9] {
            tally.add(RuleId(rule), one, now);
        }
        // Rule 4 has counted nothing; 1,000 is beyond all rules that did.
        let gone = [2, 4, 1_000].map(RuleId);
        tally.settle_rules(&gone, &mut ledger);
        assert_eq!(counted(&ledger), [(2, 2)]);
        assert_eq!(tally.used_at(RuleId(2)), None);
        assert_eq!(tally.used_at(RuleId(3)), Some(now));
        // The number now belongs to another rule; it is still listed once.
        tally.add(RuleId(2), one, now);
        assert_eq!(tally.counted.len(), 4);
        let mut rest = Ledger::default();
        tally.settle(&mut rest);
        assert_eq!(counted(&rest), [(1, 1), (2, 1), (3, 1), (9, 1)]);
        tally.settle(&mut rest);
        assert_eq!(counted(&rest).len(), 4);
        assert!(tally.counted.is_empty());
    }
}
