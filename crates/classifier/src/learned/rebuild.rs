//! A learned classifier as training makes it, and later changes rule by rule.
//!
//! Training gives iSets, and a remainder with all other rules. So an outcome becomes a
//! classifier in constant time ([`Learned::of`]). A caller that has changed rules meanwhile
//! brings them up to date one by one, with [`Learned::read`] and [`Learned::forget`] (as
//! `auto` does).

use crate::cost::Visits;
use crate::{Classifier, Life, Pattern, RuleId, Version};

use super::index::Trained;
use super::snapshot::Snapshot;
use super::training::TrainingJob;
use super::{Learned, LearnedConfig};

impl Learned {
    /// The classifier of a training's outcome; its rules exist at every version.
    pub(crate) fn of(config: LearnedConfig, trained: Trained) -> Learned {
        let mut learned = Learned::new(config);
        let (trained, remainder) = trained.split();
        learned.remainder = remainder;
        learned.trained = (trained.slots.len() > 0).then(|| Box::new(trained));
        learned
    }

    /// Trains at once, in the caller's time, and rebuilds the index.
    ///
    /// Rules whose birth may still be undone, and dying rules, go to the remainder.
    pub fn train_now(&mut self) {
        let words = self.words();
        let mut snapshot = Snapshot::new(words, self.rule_count());
        let mut others = Vec::new();
        let oldest = self.oldest;
        self.remainder.visit(|id, precedence, pattern, born, died| {
            match born <= oldest && died == Version::NEVER {
                true => snapshot.push(precedence, id, pattern),
                false => others.push(id),
            }
        });
        let (mut value, mut mask) = (vec![0; words], vec![0; words]);
        let occupied = self.trained.iter().flat_map(|one| one.slots.occupied());
        for (slot, rule, fate) in occupied {
            if fate.born > oldest || fate.died != Version::NEVER {
                others.push(rule.id);
                continue;
            }
            if let Some(trained) = &self.trained {
                trained.pattern_into(slot, &mut value, &mut mask);
            }
            let pattern = Pattern {
                value: &value,
                mask: &mask,
            };
            snapshot.push(rule.precedence, rule.id, pattern);
        }
        snapshot.sort();
        let trained = TrainingJob::new(snapshot, self.config.clone(), None).run();
        let mut next = Learned::of(self.config.clone(), trained);
        next.reclaim(oldest);
        for id in others {
            let life = self.read(id, &mut value, &mut mask);
            let life = life.expect("it has just been met");
            let pattern = Pattern {
                value: &value,
                mask: &mask,
            };
            next.insert(pattern, life.precedence, id, life.born);
            if life.died != Version::NEVER {
                next.remove(id, life.died);
            }
        }
        *self = next;
    }

    /// Reads a rule: writes its value and mask; `None` if it has been reclaimed.
    pub(crate) fn read(&self, id: RuleId, value: &mut [u64], mask: &mut [u64]) -> Option<Life> {
        if let Some(trained) = &self.trained
            && let Some(slot) = trained.slots.find(id)
        {
            trained.pattern_into(slot, value, mask);
            let fate = trained.slots.fate(slot);
            return Some(Life {
                precedence: trained.slots.get(slot).precedence,
                born: fate.born,
                died: fate.died,
            });
        }
        self.remainder.read(id, value, mask)
    }

    /// Whether the rule exists, in any state.
    pub(crate) fn knows(&self, id: RuleId) -> bool {
        let slot = self.trained.as_ref().and_then(|one| one.slots.find(id));
        slot.is_some() || self.remainder.precedence(id).is_some()
    }

    /// Removes a rule, whatever its state, as if it had never existed.
    pub(crate) fn forget(&mut self, id: RuleId) {
        if let Some(trained) = &mut self.trained
            && let Some(slot) = trained.slots.find(id)
        {
            let fate = trained.slots.fate(slot);
            self.history.forget(id, fate.born, fate.died);
            trained.vacate(slot);
            if trained.slots.len() == 0 {
                self.trained = None;
            }
            return;
        }
        self.remainder.forget(id);
    }

    /// The visits of a lookup of `key`.
    pub fn visited_by(&self, key: &[u64], version: Version) -> Visits {
        let (best, mut visits) = match self.trained.as_deref() {
            Some(trained) => {
                let (slot, visits) = trained.best_visiting(key, version);
                (self.found_by(trained, slot).precedence(), visits)
            }
            None => (None, Visits::default()),
        };
        visits.rules = self.remainder.rule_count();
        visits.covered = self.rule_count() - visits.rules;
        (visits.tables, visits.patterns) = self.remainder.visited_beside(key, version, best);
        visits
    }
}
