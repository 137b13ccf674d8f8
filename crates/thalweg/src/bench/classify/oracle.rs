//! The answers that are right: all rules, from the best down, until one matches.
//!
//! It shares no code with the classifiers but the comparison of a pattern with a key. Rules come
//! and go while others are measured; so it knows in which versions each rule exists, from a log of
//! what was done.

use std::collections::HashMap;

use thalweg_classifier::{RuleId, Version};

use super::set::RuleSet;

/// A rule that was inserted (true) or removed at a version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) version: Version,
    pub(super) rule: u32,
    pub(super) lives: bool,
}

/// A search from the top.
pub(super) struct Oracle<'a> {
    set: &'a RuleSet,
    /// The rules, the best first.
    order: Vec<u32>,
    /// What happened to rules that did not always live, in order.
    events: HashMap<u32, Vec<(Version, bool)>>,
}

impl<'a> Oracle<'a> {
    /// An oracle for rules that all exist, at every version.
    pub(super) fn new(set: &'a RuleSet) -> Oracle<'a> {
        Oracle {
            set,
            order: set.by_precedence(),
            events: HashMap::new(),
        }
    }

    /// Takes note of what was done, in order of versions.
    pub(super) fn follow(&mut self, events: &[Event]) {
        for event in events {
            let of_rule = self.events.entry(event.rule).or_default();
            of_rule.push((event.version, event.lives));
        }
    }

    /// The answer for a key at a version.
    pub(super) fn answer(&self, key: &[u64], version: Version) -> Option<RuleId> {
        let best = self.order.iter().find(|&&rule| {
            self.set.pattern(rule as usize).matches(key) && self.lives(rule, version)
        });
        best.map(|rule| RuleId(*rule))
    }

    fn lives(&self, rule: u32, version: Version) -> bool {
        let Some(events) = self.events.get(&rule) else {
            return true;
        };
        let until = events.partition_point(|(at, _)| *at <= version);
        until == 0 || events[until - 1].1
    }

    /// How many keys can be asked about in a second or so.
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
        let event = |version, lives| Event {
            version: Version(version),
            rule: best.0,
            lives,
        };
        oracle.follow(&[event(5, false), event(9, true)]);
        for version in 0..12 {
            let answer = oracle.answer(&key, Version(version));
            let is_gone = (5..9).contains(&version);
            assert_eq!(answer != Some(best), is_gone, "at {version}");
        }
    }
}
