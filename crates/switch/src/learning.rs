//! Rules that packets teach (`learn`), and rules that go with those that learn them.
//!
//! ```text
//!   packets teach a rule:   not there, or other actions or another cookie:  a change adds it
//!                           there already:  its hard timeout begins again, without a version
//!   a change ends the last rule that learns with `delete_learned`:
//!                           another ends the rules with its table and cookie
//! ```
//!
//! 1. Of two lessons about one rule, the later counts.
//! 2. Rules that wait are bounded by [`MAX_TAUGHT`]. Rules that do not fit, or that the pipeline
//!    refuses, are counted; the next packet teaches them again.
//! 3. Rules that end with their learners may be the last learners of others. One change ends them
//!    all, found by one look at all rules, so that a chain of them costs no more than its rules.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use thalweg_pipeline::{
    Change, Delta, LearnedCookie, LearnedRule, Match, Operation, Pipeline, Revision, RuleId,
    Selector, TableId, Target, each_learning,
};

use crate::switch::Switch;

/// Most rules that wait for the next change.
const MAX_TAUGHT: usize = 8_192;

/// What became of the rules that packets taught.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LearningCounters {
    /// Rules added, or given other actions or another cookie.
    pub learned: u64,
    /// Lessons about rules that were there: their hard timeouts began again.
    pub refreshed: u64,
    /// Lessons that the pipeline refused, or that there was no room for.
    pub refused: u64,
    /// Times that the rules of a cookie ended with the last rule that learned them.
    pub forgotten: u64,
}

/// The rules that wait to be learned, and the rules that learn.
#[derive(Debug, Default)]
pub(crate) struct Lessons {
    waiting: Vec<Arc<LearnedRule>>,
    /// How many rules learn with `delete_learned`.
    learners: HashMap<LearnedCookie, usize>,
    pub(crate) counters: LearningCounters,
}

/// What waiting lessons come to.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// Each with the operation that learns it.
    pub(crate) operations: Vec<(Arc<LearnedRule>, Operation)>,
    /// Rules that are as they were taught.
    pub(crate) refreshed: Vec<RuleId>,
}

impl Lessons {
    /// Whether no rules wait.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes rules in; returns those that there is no room for.
    #[must_use]
    pub(crate) fn take_in(&mut self, mut taught: Vec<Arc<LearnedRule>>) -> Vec<Arc<LearnedRule>> {
        let room = MAX_TAUGHT.saturating_sub(self.waiting.len());
        let refused = taught.split_off(room.min(taught.len()));
        self.waiting.append(&mut taught);
        self.counters.refused += refused.len() as u64;
        refused
    }

    /// What the waiting lessons come to, at the pipeline's version.
    pub(crate) fn conclude(&mut self, pipeline: &Pipeline) -> Learned {
        let waiting = std::mem::take(&mut self.waiting);
        let mut last: HashMap<(TableId, u16, &Match), usize> = HashMap::new();
        for (index, rule) in waiting.iter().enumerate() {
            let flow = &rule.flow;
            last.insert((flow.table, flow.priority, &flow.matching), index); // Invariant 1.
        }
        let mut last: Vec<usize> = last.into_values().collect();
        last.sort_unstable();
        let mut learned = Learned::default();
        for rule in last.into_iter().map(|index| &waiting[index]) {
            match existing(pipeline, rule) {
                Some(id) => learned.refreshed.push(id),
                None => learned.operations.push((rule.clone(), operation(rule))),
            }
        }
        self.counters.refreshed += learned.refreshed.len() as u64;
        learned
    }

    /// Follows a change, whose removed rules the pipeline still knows. Returns the change that ends
    /// the rules whose last learner is gone, if there are any.
    pub(crate) fn follow(&mut self, pipeline: &Pipeline, delta: &Delta) -> Option<Change> {
        for id in &delta.inserted {
            each_deleting(pipeline, *id, |cookie| {
                *self.learners.entry(cookie).or_default() += 1;
            });
        }
        let mut dead = Vec::new();
        for id in &delta.removed {
            each_deleting(pipeline, *id, |cookie| {
                if let Some(learners) = self.learners.get_mut(&cookie) {
                    *learners -= 1;
                    if *learners == 0 {
                        self.learners.remove(&cookie);
                        dead.push(cookie);
                    }
                }
            });
        }
        let ended = match dead.is_empty() {
            true => return None,
            false => self.ended_with(pipeline, dead),
        };
        let flows = ended.into_iter().filter_map(|id| pipeline.flow_of(id));
        let operations = flows.map(|flow| {
            Operation::Delete(Selector {
                table: Some(flow.table),
                matching: flow.matching,
                strict_priority: Some(flow.priority),
                ..Selector::default()
            })
        });
        let operations: Vec<Operation> = operations.collect();
        (!operations.is_empty()).then_some(Change { operations })
    }

    /// The rules of dead cookies, and of the cookies that die with these (invariant 3).
    fn ended_with(&mut self, pipeline: &Pipeline, mut dead: Vec<LearnedCookie>) -> Vec<RuleId> {
        let mut mortal: HashMap<LearnedCookie, Vec<RuleId>> = HashMap::new();
        let doomed: HashSet<LearnedCookie> = dead.iter().copied().collect();
        let is_mortal = |cookie| self.learners.contains_key(&cookie) || doomed.contains(&cookie);
        for (id, rule) in pipeline.rules(pipeline.version()) {
            let cookie = (rule.table, rule.cookie);
            if is_mortal(cookie) {
                mortal.entry(cookie).or_default().push(id);
            }
        }
        let mut left = self.learners.clone();
        let mut ended = Vec::new();
        while let Some(cookie) = dead.pop() {
            let Some(rules) = mortal.remove(&cookie) else {
                continue;
            };
            self.counters.forgotten += 1;
            for id in &rules {
                each_deleting(pipeline, *id, |cookie| {
                    if let Some(learners) = left.get_mut(&cookie) {
                        *learners -= 1;
                        if *learners == 0 {
                            dead.push(cookie);
                        }
                    }
                });
            }
            ended.extend(rules);
        }
        ended.sort_unstable();
        ended
    }
}

/// Calls `see` with the table and the cookie of each `learn` of a rule that has `delete_learned`.
fn each_deleting(pipeline: &Pipeline, id: RuleId, mut see: impl FnMut(LearnedCookie)) {
    if let Some(rule) = pipeline.rule(id) {
        each_learning(&rule.actions, &mut |learning| {
            if learning.deletes_learned {
                see((learning.table, learning.cookie));
            }
        });
    }
}

impl Switch {
    /// Takes in rules that packets have taught.
    pub(crate) fn take_lessons(&mut self, taught: Vec<Arc<LearnedRule>>) {
        for rule in self.upkeep.lessons.take_in(taught) {
            self.shared.learned.withdraw(&self.pipeline(), &rule);
        }
    }

    /// Makes a change of the rules that packets have taught, if it is time.
    pub(crate) fn learn_rules(&mut self) {
        let start = self.shared.clock.real_now();
        if self.upkeep.lessons.is_empty() || start < self.next_lesson {
            return;
        }
        self.learn_rules_now();
        // Invariant 3 of `control.rs`.
        let end = self.shared.clock.real_now();
        self.next_lesson = end + (end - start) * 4;
    }

    /// Makes a change of the rules that packets have taught.
    fn learn_rules_now(&mut self) {
        let now = self.now();
        let shared = self.shared.clone();
        let learned = self.upkeep.lessons.conclude(&shared.pipeline.read());
        if !learned.refreshed.is_empty() {
            let mut pipeline = shared.pipeline.write();
            let refreshed = learned.refreshed.iter();
            refreshed.for_each(|id| pipeline.refresh_rule(*id, now));
        }
        if learned.operations.is_empty() {
            return;
        }
        let operations = learned.operations.iter().map(|(_, operation)| operation);
        let change = Change {
            operations: operations.cloned().collect(),
        };
        let count = change.operations.len() as u64;
        match self.apply_lessons(&change) {
            true => self.upkeep.lessons.counters.learned += count,
            // One is refused: the others are learned one by one.
            false => {
                for (rule, operation) in learned.operations {
                    let is_learned = self.apply_lessons(&Change::one(operation));
                    let counters = &mut self.upkeep.lessons.counters;
                    match is_learned {
                        true => counters.learned += 1,
                        false => {
                            counters.refused += 1;
                            shared.learned.withdraw(&shared.pipeline.read(), &rule);
                        }
                    }
                }
            }
        }
    }

    /// Makes a change of learned rules, and tells of it; returns false if it is refused.
    fn apply_lessons(&mut self, change: &Change) -> bool {
        let Ok(delta) = self.apply_because(change, &[]) else {
            return false;
        };
        self.own_changes += 1;
        self.tell_changed(&delta, change);
        true
    }

    /// Shortens the timeouts of rules at which TCP connections have ended.
    pub(crate) fn shorten_timeouts(&mut self, ended: Vec<(RuleId, u16, u16)>) {
        if ended.is_empty() {
            return;
        }
        let shared = self.shared.clone();
        let mut pipeline = shared.pipeline.write();
        let shorten = |(rule, idle_s, hard_s)| pipeline.shorten_timeouts(rule, idle_s, hard_s);
        let changed: Vec<RuleId> = ended.into_iter().filter_map(shorten).collect();
        self.upkeep.shorten_timeouts(&pipeline, &changed);
    }
}

/// The rule, if it is there as it was taught. A change keeps timeouts, so they are not compared.
fn existing(pipeline: &Pipeline, taught: &LearnedRule) -> Option<RuleId> {
    let found = pipeline.rules_selected(&taught.selector(), &Target::default());
    let id = found.first().copied()?;
    let rule = pipeline.rule(id)?;
    let is_same = rule.cookie == taught.flow.cookie && *rule.actions == *taught.flow.actions;
    is_same.then_some(id)
}

/// Adds the rule, or changes the one in its place as a strict modification does.
fn operation(rule: &LearnedRule) -> Operation {
    Operation::Revise(Box::new(Revision {
        selector: rule.selector(),
        actions: rule.flow.actions.clone(),
        cookie: Some(rule.flow.cookie),
        max_length: 0,
        resets_counts: false,
        otherwise: Some(rule.flow.clone()),
    }))
}
