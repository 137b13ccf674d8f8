//! Timeouts of rules: finds those that are over.
//!
//! Each rule with a timeout has a deadline, the first time at which it may be over; the
//! earliest deadline is known. An idle timeout depends on the last use, which cache entries
//! know before the rule does. Only when a rule's deadline has come are entries read, and a use
//! that they know of moves the deadline.
//!
//! ```text
//!   deadline over:  hard timeout over?             the rule ends
//!                   used since, by the rule?       new deadline
//!                   used since, by any entry?      new deadline, else the rule ends
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use thalweg_packet::Instant;
use thalweg_pipeline::{Pipeline, Rule, RuleId};

use crate::removal::RemovalReason;

/// How often deadlines are checked.
const INTERVAL: Duration = Duration::from_secs(1);

/// The rules that have a timeout.
#[derive(Debug, Default)]
pub(crate) struct Timeouts {
    /// The earliest on top; an item that is not the rule's current deadline is ignored.
    queue: BinaryHeap<Reverse<(Instant, RuleId)>>,
    deadlines: HashMap<RuleId, Instant>,
    next_check: Instant,
}

/// The rules whose deadline has come.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// Rules whose time is over.
    pub(crate) over: Vec<(RuleId, RemovalReason)>,
    /// Rules that are over unless an entry has used them since.
    pub(crate) idle: Vec<(RuleId, Instant)>,
}

impl Timeouts {
    /// Starts to watch new rules.
    pub(crate) fn watch(&mut self, pipeline: &Pipeline, inserted: &[RuleId]) {
        for id in inserted {
            if let Some(rule) = pipeline.rule(*id) {
                self.set_deadline(*id, rule, rule.used_at);
            }
        }
    }

    /// Stops watching rules that are gone.
    pub(crate) fn forget(&mut self, removed: &[RuleId]) {
        if self.deadlines.is_empty() {
            return;
        }
        for id in removed {
            self.deadlines.remove(id);
        }
        // Outdated items must not outgrow the current ones.
        if self.queue.len() > 64 + 2 * self.deadlines.len() {
            let deadlines = self.deadlines.iter();
            let queue = deadlines.map(|(id, deadline)| Reverse((*deadline, *id)));
            self.queue = queue.collect();
        }
    }

    /// The rules whose deadline has come, if it is time to check again.
    pub(crate) fn due(&mut self, pipeline: &Pipeline, now: Instant) -> Due {
        let mut due = Due::default();
        if now < self.next_check {
            return due;
        }
        self.next_check = now + INTERVAL;
        while let Some(Reverse((deadline, id))) = self.queue.peek().copied() {
            // A rule whose time ends just now is not over yet, as in Open vSwitch.
            if deadline >= now {
                break;
            }
            self.queue.pop();
            if self.deadlines.get(&id) != Some(&deadline) {
                continue;
            }
            self.deadlines.remove(&id);
            // A rule that ended in a change that is not concluded yet has only its report
            // left.
            let is_there = pipeline.heir_of(id, pipeline.version()) == Some(id);
            let Some(rule) = pipeline.rule(id).filter(|_| is_there) else {
                continue;
            };
            let hard = seconds(rule.hard_timeout_s);
            let idle = seconds(rule.idle_timeout_s);
            if hard.is_some_and(|hard| now - rule.modified_at > hard) {
                due.over.push((id, RemovalReason::HardTimeout));
            } else if let Some(idle) = idle.filter(|idle| now - rule.used_at >= *idle) {
                // Time starts at zero, so everything last used that long ago is idle.
                due.idle
                    .push((id, Instant::ZERO + ((now - Instant::ZERO) - idle)));
            } else {
                self.set_deadline(id, rule, rule.used_at);
            }
        }
        due
    }

    /// The rules among the possibly idle ones that are over, given the uses that entries know
    /// of.
    pub(crate) fn over(
        &mut self,
        pipeline: &Pipeline,
        due: Due,
        uses: &[Option<Instant>],
    ) -> Vec<(RuleId, RemovalReason)> {
        let mut over = due.over;
        for ((id, _), used) in due.idle.into_iter().zip(uses) {
            match (used, pipeline.rule(id)) {
                (Some(used_at), Some(rule)) => self.set_deadline(id, rule, *used_at),
                _ => over.push((id, RemovalReason::IdleTimeout)),
            }
        }
        over
    }

    /// Sets the first time at which the rule may be over, if it was last used at `used_at`.
    fn set_deadline(&mut self, id: RuleId, rule: &Rule, used_at: Instant) {
        let hard = seconds(rule.hard_timeout_s).map(|limit| rule.modified_at + limit);
        let idle = seconds(rule.idle_timeout_s).map(|limit| used_at + limit);
        if let Some(deadline) = hard.into_iter().chain(idle).min() {
            self.deadlines.insert(id, deadline);
            self.queue.push(Reverse((deadline, id)));
        }
    }
}

/// A timeout as a duration; `None` for 0.
fn seconds(timeout_s: u16) -> Option<Duration> {
    (timeout_s > 0).then(|| Duration::from_secs(timeout_s.into()))
}
