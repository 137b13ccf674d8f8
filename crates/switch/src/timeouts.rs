//! Timeouts of rules: which are over.
//!
//! Rules with a timeout are in a list of their own, looked through once a second of the caller's
//! time. An idle timeout needs to know when the rule was last used, which entries know before the
//! rule does: the caller gathers counts first.

use std::collections::BTreeSet;
use std::time::Duration;

use thalweg_packet::Instant;
use thalweg_pipeline::{Pipeline, Rule, RuleId};

use crate::engine::RemovalReason;

/// The rules that have a timeout.
#[derive(Debug, Default)]
pub(crate) struct Timeouts {
    timed: Vec<RuleId>,
    next_check: Instant,
}

impl Timeouts {
    /// Takes in new rules.
    pub(crate) fn watch(&mut self, pipeline: &Pipeline, inserted: &[RuleId]) {
        let has_timeout = |id: &&RuleId| {
            pipeline
                .rule(**id)
                .is_some_and(|rule| rule.idle_timeout_s > 0 || rule.hard_timeout_s > 0)
        };
        self.timed.extend(inserted.iter().filter(has_timeout));
    }

    /// Forgets rules that are gone.
    pub(crate) fn forget(&mut self, removed: &[RuleId]) {
        if self.timed.is_empty() {
            return;
        }
        let removed: BTreeSet<RuleId> = removed.iter().copied().collect();
        self.timed.retain(|id| !removed.contains(id));
    }

    /// Whether it is time to look again, and there is anything to look at.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        if now < self.next_check {
            return false;
        }
        self.next_check = now + Duration::from_secs(1);
        !self.timed.is_empty()
    }

    /// The rules whose time is over, and which of their timeouts it was.
    pub(crate) fn over(&self, pipeline: &Pipeline, now: Instant) -> Vec<(RuleId, RemovalReason)> {
        let reason = |rule: &Rule| {
            let is_over = |limit_s: u16, since: Instant| {
                limit_s > 0 && now - since >= Duration::from_secs(u64::from(limit_s))
            };
            if is_over(rule.hard_timeout_s, rule.created_at) {
                return Some(RemovalReason::HardTimeout);
            }
            is_over(rule.idle_timeout_s, rule.used_at).then_some(RemovalReason::IdleTimeout)
        };
        let timed = self.timed.iter();
        timed
            .filter_map(|id| Some((*id, reason(pipeline.rule(*id)?)?)))
            .collect()
    }
}
