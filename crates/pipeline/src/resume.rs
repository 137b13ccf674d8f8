//! Rules that a former switch had: what they counted, and when they came and were used.
//!
//! The rules of a switch that starts again are added like others. What they had counted before
//! is set afterwards, under the same instants: the caller's clock goes on from the former one.

use std::ops::Range;

use thalweg_classifier::{RuleId, Version};
use thalweg_packet::Instant;

use crate::action::GroupId;
use crate::pipeline::{Counters, GroupCounters, Pipeline, Rule};

/// When a rule came, changed and was used, and what it has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RulePast {
    /// When it was added.
    pub created_at: Instant,
    /// When it was added or last modified.
    pub modified_at: Instant,
    /// When it last matched a packet.
    pub used_at: Instant,
    /// What it has matched.
    pub counters: Counters,
}

impl Rule {
    /// When it came, changed and was used, and what it has counted.
    pub fn past(&self) -> RulePast {
        RulePast {
            created_at: self.created_at,
            modified_at: self.modified_at,
            used_at: self.used_at,
            counters: self.counters,
        }
    }
}

impl Pipeline {
    /// One more than the greatest number of a rule at any version.
    pub fn rule_places(&self) -> u32 {
        self.rules.len() as u32
    }

    /// The rules with numbers in a range that exist at `version`.
    pub fn rules_between(
        &self,
        numbers: Range<u32>,
        version: Version,
    ) -> impl Iterator<Item = (RuleId, &Rule)> {
        let numbers = numbers.start..numbers.end.min(self.rule_places());
        let known = numbers.filter_map(|number| {
            let id = RuleId(number);
            Some((id, self.rule(id)?))
        });
        known.filter(move |(id, _)| self.is_rule_at(*id, version))
    }

    /// Gives a rule of the newest version the past of one that a former switch had.
    pub fn resume_rule(&mut self, id: RuleId, past: &RulePast) {
        if let Some(Some(rule)) = self.rules.get_mut(id.0 as usize) {
            rule.created_at = past.created_at;
            rule.modified_at = past.modified_at;
            rule.used_at = past.used_at;
            rule.counters.add(past.counters);
        }
    }

    /// Lets a group go on from the counts of one that a former switch had.
    pub fn resume_group(&mut self, id: GroupId, counters: &GroupCounters) {
        let Some(known) = self.group_counters.get_mut(&id) else {
            return;
        };
        known.group.add(counters.group);
        for (bucket, former) in known.buckets.iter_mut().zip(&counters.buckets) {
            bucket.add(*former);
        }
    }
}
