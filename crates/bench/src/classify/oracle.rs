//! Finds the correct answers: tries all rules, from the best down, until one matches.
//!
//! It shares only the comparison of a pattern with a key with the classifiers. Rules change
//! during a measurement, so the oracle keeps a log of changes to know in which versions each
//! rule exists.

use std::collections::HashMap;

use thalweg_classifier::{Precedence, RuleId, Version};

use super::set::RuleSet;

/// A rule inserted with a precedence, or removed, at a version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) version: Version,
    pub(super) rule: u32,
    pub(super) precedence: Option<Precedence>,
}

/// A linear search from the best rule down.
pub(super) struct Oracle<'a> {
    set: &'a RuleSet,
    /// The rules, best first.
    order: Vec<u32>,
    /// The history of rules that changed, in order of versions.
    events: HashMap<u32, Vec<(Version, Option<Precedence>)>>,
}

impl<'a> Oracle<'a> {
    /// Creates an oracle for rules that all exist, at every version.
    pub(super) fn new(set: &'a RuleSet) -> Oracle<'a> {
        Oracle {
            set,
            order: set.by_precedence(),
            events: HashMap::new(),
        }
    }

    /// Records changes, in order of versions.
    pub(super) fn follow(&mut self, events: &[Event]) {
        for event in events {
            let of_rule = self.events.entry(event.rule).or_default();
            of_rule.push((event.version, event.precedence));
        }
    }

    /// The answer for a key at a version.
    ///
    /// A rule that was removed and returned keeps its priority, but is younger.
    pub(super) fn answer(&self, key: &[u64], version: Version) -> Option<RuleId> {
        let mut best: Option<(Precedence, u32)> = None;
        for &rule in &self.order {
            let priority = self.set.precedence(rule as usize).priority();
            if best.is_some_and(|(best, _)| best.priority() > priority) {
                break;
            }
            if self.set.pattern(rule as usize).matches(key)
                && let Some(precedence) = self.precedence(rule, version)
                && best.is_none_or(|(best, _)| precedence > best)
            {
                best = Some((precedence, rule));
            }
        }
        best.map(|(_, rule)| RuleId(rule))
    }

    /// The precedence of a rule at a version, if it exists then.
    fn precedence(&self, rule: u32, version: Version) -> Option<Precedence> {
        let first = Some(self.set.precedence(rule as usize));
        let Some(events) = self.events.get(&rule) else {
            return first;
        };
        let until = events.partition_point(|(at, _)| *at <= version);
        match until {
            0 => first,
            _ => events[until - 1].1,
        }
    }

    /// Number of keys that can be checked in about a second.
    pub(super) fn affordable(&self) -> usize {
        (1_000_000_000 / self.set.len().max(1)).clamp(500, 10_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_answers_in_the_versions_in_which_it_lives() {
        let set = RuleSet::read("acl1-50", None, 1).expect("a set");
        let mut oracle = Oracle::new(&set);
        let key = set.pattern(0).value.to_vec();
        let best = oracle.answer(&key, Version(1)).expect("rule 0 matches");
        let precedence = set.precedence(best.0 as usize);
        let event = |version, precedence| Event {
            version: Version(version),
            rule: best.0,
            precedence,
        };
        oracle.follow(&[event(5, None), event(9, Some(precedence))]);
        for version in 0..12 {
            let answer = oracle.answer(&key, Version(version));
            let is_gone = (5..9).contains(&version);
            assert_eq!(answer != Some(best), is_gone, "at {version}");
        }
    }
}
