//! Beginning a training, and putting its outcome to use.
//!
//! A job has the rules that exist at every version from the oldest on: born and settled, not dying.
//! When its outcome comes, each of its rules is one of four:
//!
//! ```text
//!   in the remainder, as it was:     it moves into its slot
//!   in an iSet that is replaced:     it moves into its slot, with its death if it is dying
//!   in the remainder, dying:         it stays there, and its slot is vacated
//!   gone, or another of its id:      its slot is vacated
//! ```
//!
//! Rules of replaced iSets that the outcome does not have go to the remainder.

use crate::{Classifier, Pattern, RuleId, Version};

use super::cost::cost_of_tables;
use super::index::Trained;
use super::snapshot::Snapshot;
use super::training::TrainingJob;
use super::{Learned, TrainingPolicy};

impl Learned {
    /// A job with all rules that are settled, whether it is time for one or not.
    ///
    /// The outcome of an earlier job can no longer be installed.
    pub fn begin_training(&mut self) -> TrainingJob {
        let mut snapshot = Snapshot::new(self.words(), self.rule_count());
        let oldest = self.oldest;
        self.remainder.visit(|id, precedence, pattern, born, died| {
            if born <= oldest && died == Version::NEVER {
                snapshot.push(precedence, id, pattern);
            }
        });
        if let Some(trained) = &self.trained {
            for (slot, rule) in trained.slots.occupied() {
                if rule.died == Version::NEVER {
                    let (value, mask) = trained.pattern(slot);
                    let pattern = Pattern {
                        value: &value,
                        mask: &mask,
                    };
                    snapshot.push(rule.precedence, rule.id, pattern);
                }
            }
        }
        self.epoch += 1;
        self.changes.updates = 0;
        self.changes.is_training = true;
        self.changes.rules = snapshot.len();
        let is_all = self.trained.is_none();
        let rules = snapshot.len();
        let cost_now =
            is_all.then(|| cost_of_tables(&self.remainder, rules, &snapshot, oldest, |_| None));
        TrainingJob {
            snapshot,
            cost_now,
            config: self.config.clone(),
            places: self.remainder.no_places(),
            epoch: self.epoch,
        }
    }

    /// Trains at once, in the caller's time.
    pub fn train_now(&mut self) {
        let trained = self.begin_training().run();
        self.put_to_use(trained);
    }

    /// Gives up a training that will not be installed, so that another may begin.
    pub fn forget_training(&mut self) {
        self.epoch += 1;
        self.changes.is_training = false;
    }

    /// When it asks to be trained.
    pub fn set_policy(&mut self, policy: TrainingPolicy) {
        self.config.policy = policy;
    }

    pub(super) fn put_to_use(&mut self, mut trained: Trained) {
        if trained.epoch != self.epoch || !self.changes.is_training {
            return;
        }
        let before = self.trained.take();
        let mut moved = Vec::new();
        for slot in 0..trained.slots.end() {
            let rule = *trained.slots.get(slot);
            let old = before
                .as_ref()
                .and_then(|before| before.slots.find(rule.id));
            if let Some((before, old)) = before.as_ref().zip(old) {
                let died = before.slots.get(old).died;
                if died != Version::NEVER {
                    trained.set_died(slot, died);
                }
            } else if self.is_as_it_was(rule.id, slot, &trained) {
                moved.push(rule.id);
            } else {
                trained.vacate(slot);
            }
        }
        self.hand_over(&moved, &trained);
        if let Some(before) = before {
            self.keep_others(&before, &trained);
        }
        self.trained = (trained.slots.len() > 0).then(|| Box::new(trained));
        self.changes.is_training = false;
        self.changes.share = Some(self.covered_share());
    }

    /// Takes rules that moved out of the remainder; if they are most of it, by building it anew.
    fn hand_over(&mut self, moved: &[RuleId], trained: &Trained) {
        if moved.len() < self.remainder.rule_count() / 2 {
            self.remainder.forget_settled(moved);
            return;
        }
        let mut rest = self
            .remainder
            .emptied(self.config.tuples.clone(), self.oldest);
        self.remainder.visit(|id, precedence, pattern, born, died| {
            if trained.slots.find(id).is_some() {
                return;
            }
            rest.insert(pattern, precedence, id, born);
            if died != Version::NEVER {
                rest.remove(id, died);
            }
        });
        self.remainder = rest;
    }

    /// Whether the remainder has a rule as the training knew it.
    fn is_as_it_was(&self, id: RuleId, slot: u32, trained: &Trained) -> bool {
        let Some((precedence, born, died)) = self.remainder.life(id) else {
            return false;
        };
        if precedence != trained.slots.get(slot).precedence
            || born > self.oldest
            || died != Version::NEVER
        {
            return false;
        }
        let (value, mask) = trained.pattern(slot);
        let pattern = Pattern {
            value: &value,
            mask: &mask,
        };
        self.remainder.has_pattern(id, pattern)
    }

    /// Puts rules of iSets that are replaced into the remainder, unless the new ones have them.
    fn keep_others(&mut self, before: &Trained, trained: &Trained) {
        for (slot, rule) in before.slots.occupied() {
            if trained.slots.find(rule.id).is_some() {
                continue;
            }
            let (value, mask) = before.pattern(slot);
            let pattern = Pattern {
                value: &value,
                mask: &mask,
            };
            // When it was born is settled, so that any settled version will do.
            self.remainder
                .insert(pattern, rule.precedence, rule.id, self.oldest);
            if rule.died != Version::NEVER {
                self.history.forget_death(rule.id, rule.died);
                self.remainder.remove(rule.id, rule.died);
            }
        }
    }
}
