//! Access for a classifier that has most of its rules elsewhere, and the rest in merged
//! tuples.
//!
//! It searches its own rules first, then the tables for rules that beat its best. Rules
//! without open history, settled and living, can be handed over to it.

use crate::places::Places;
use crate::{Life, Pattern, Precedence, RuleId, Version};

use super::{Best, MergedTuples};

/// Stands for the mask of a rule that is in no table.
const ELSEWHERE: u32 = u32::MAX;

impl Best {
    /// A rule that is stored elsewhere.
    #[inline(always)]
    pub(crate) fn beside(precedence: Precedence, id: RuleId) -> Best {
        Best {
            rule: Some((precedence, id, ELSEWHERE)),
        }
    }

    /// Whether the rule is stored elsewhere.
    #[inline(always)]
    pub(crate) fn is_beside(self) -> bool {
        self.rule.is_some_and(|(.., mask)| mask == ELSEWHERE)
    }

    /// The precedence of the rule.
    #[inline(always)]
    pub(crate) fn precedence(self) -> Option<Precedence> {
        self.rule.map(|(precedence, ..)| precedence)
    }
}

impl MergedTuples {
    /// The number of rules, at any version.
    pub(crate) fn rule_count(&self) -> usize {
        self.places.len()
    }

    /// Empty places that hash ids as this classifier does.
    pub(crate) fn no_places(&self) -> Places {
        Places::new(self.hash)
    }

    /// As [`MergedTuples::visited_by`], if a rule of precedence `best` was found elsewhere.
    pub(crate) fn visited_beside(
        &self,
        key: &[u64],
        version: Version,
        best: Option<Precedence>,
    ) -> (usize, usize) {
        let best = best.map_or(Best::NONE, |best| Best::beside(best, RuleId(0)));
        self.visited(key, version, best)
    }

    /// Reads a rule: writes its value and mask; `None` if it has been reclaimed.
    pub(crate) fn read(&self, id: RuleId, value: &mut [u64], mask: &mut [u64]) -> Option<Life> {
        let place = self.place_of(id)?;
        let table = self.table(place.subtable);
        let rule = table.rule(place.record);
        value.fill(0);
        table.expand(place.record, value);
        mask.copy_from_slice(self.masks.bits(rule.mask));
        Some(Life {
            precedence: rule.precedence,
            born: rule.born,
            died: rule.died,
        })
    }

    /// A rule's precedence, if it has not been reclaimed.
    pub(crate) fn precedence(&self, id: RuleId) -> Option<Precedence> {
        let place = self.place_of(id)?;
        Some(self.table(place.subtable).rule(place.record).precedence)
    }

    /// Removes a rule, whatever its state, as if it had never existed.
    pub(crate) fn forget(&mut self, id: RuleId) {
        if let Some(rule) = self.rule_mut(id) {
            let (born, died) = (rule.born, rule.died);
            self.history.forget(id, born, died);
            self.free(id);
            self.shrink();
        }
    }

    /// Whether masks share tables.
    pub(crate) fn is_merging(&self) -> bool {
        self.is_merging
    }

    /// Passes all rules to `visit`, with birth and death.
    pub(crate) fn visit(
        &self,
        mut visit: impl FnMut(RuleId, Precedence, Pattern<'_>, Version, Version),
    ) {
        let mut value = vec![0; self.shape.words()];
        for table in self.tables.iter().flatten() {
            for record in 0..table.end() {
                let rule = table.rule(record);
                value.fill(0);
                table.expand(record, &mut value);
                let mask = self.masks.bits(rule.mask);
                let pattern = Pattern {
                    value: &value,
                    mask,
                };
                visit(rule.id, rule.precedence, pattern, rule.born, rule.died);
            }
        }
    }
}
