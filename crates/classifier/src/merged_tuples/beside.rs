//! What a classifier needs that has most of its rules elsewhere, and the rest in merged tuples.
//!
//! It looks among its own rules first, and asks the tables only for what beats the best of those.
//! Rules that have nothing left of their history, settled and living, can be handed over to it.

use crate::places::{Place, Places};
use crate::{Pattern, Precedence, RuleId, TupleSpaceConfig, Version};

use super::{Best, MergedTuples};

/// The mask of a rule that is not in any table.
const ELSEWHERE: u32 = u32::MAX;

impl Best {
    /// A rule that lies elsewhere.
    #[inline(always)]
    pub(crate) fn beside(precedence: Precedence, id: RuleId) -> Best {
        Best {
            rule: Some((precedence, id, ELSEWHERE)),
        }
    }

    /// Whether the rule lies elsewhere.
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
    /// How many rules there are, at whichever version.
    pub(crate) fn rule_count(&self) -> usize {
        self.places.len()
    }

    /// Places of no rule, that hash ids as this classifier does.
    pub(crate) fn no_places(&self) -> Places {
        Places::new(self.hash)
    }

    /// How many tables a lookup of this key visits, and how many patterns it compares, if a rule
    /// of precedence `best` was found elsewhere.
    pub(crate) fn visited_beside(
        &self,
        key: &[u64],
        version: Version,
        best: Option<Precedence>,
    ) -> (usize, usize) {
        let best = best.map_or(Best::NONE, |best| Best::beside(best, RuleId(0)));
        self.visited(key, version, best)
    }

    /// An empty classifier like this one, at the same oldest version.
    pub(crate) fn emptied(&self, config: TupleSpaceConfig, oldest: Version) -> MergedTuples {
        let mut emptied = MergedTuples::after(self.own_masks_max, config);
        emptied.patterns_max = self.patterns_max;
        emptied.history.settle(oldest);
        emptied
    }

    /// A rule's precedence, birth and death, if it has not been reclaimed.
    pub(crate) fn life(&self, id: RuleId) -> Option<(Precedence, Version, Version)> {
        let place = self.place_of(id)?;
        let rule = self.table(place.subtable).rule(place.record);
        Some((rule.precedence, rule.born, rule.died))
    }

    /// Hands all rules to a visitor, with birth and death.
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

    /// Whether a rule has this very pattern.
    pub(crate) fn has_pattern(&self, id: RuleId, pattern: Pattern<'_>) -> bool {
        let Some(Place { subtable, record }) = self.place_of(id) else {
            return false;
        };
        let table = self.table(subtable);
        let mask = self.masks.bits(table.rule(record).mask);
        let is_value = |(word, value): (usize, u64)| pattern.value[word] == value;
        mask == pattern.mask && table.words(record).all(is_value)
    }

    /// Forgets rules that live and are settled: the history knows nothing of them.
    pub(crate) fn forget_settled(&mut self, ids: &[RuleId]) {
        for &id in ids {
            debug_assert!(
                self.life(id)
                    .is_some_and(|(.., died)| died == Version::NEVER)
            );
            self.free(id);
        }
        self.shrink();
    }
}
