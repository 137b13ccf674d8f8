//! The writer's side: makes, ranks and removes sub-tables, and removes rules.

use crate::capacity::{grow, shrink};
use crate::places::Place;
use crate::staged::Staged;
use crate::{Life, Precedence, RuleId};

use super::records::Lifetime;
use super::subtable::{PrefixCheck, Subtable};
use super::{Ranked, TupleSpace, id_in};

impl TupleSpace {
    /// The sub-table of a mask, created if there is none.
    pub(super) fn subtable_of_mask(&mut self, mask: &[u64]) -> u32 {
        let hash = self.hash.hash_words(mask);
        let is_it = |number| self.subtable(number).staged.words.is_mask(mask);
        if let Some(number) = self.masks.find(hash, is_it) {
            return number;
        }
        let subtable = Some(Box::new(self.new_subtable(mask)));
        let number = match self.free_subtables.pop() {
            Some(number) => {
                self.subtables[number as usize] = subtable;
                number
            }
            None => {
                self.subtables.push(subtable);
                (self.subtables.len() - 1) as u32
            }
        };
        let ranked = Ranked {
            highest: Precedence::LOWEST,
            subtable: number,
        };
        let place = self.place_in_order(ranked);
        grow(&mut self.order, 1);
        self.order.insert(place, ranked);
        let hash_of = |number| {
            let subtable = self.subtables[number as usize].as_deref();
            subtable
                .expect("an indexed sub-table is not free")
                .mask_hash
        };
        self.masks.insert(hash, number, hash_of);
        number
    }

    fn new_subtable(&self, mask: &[u64]) -> Subtable {
        let staged = Staged::new(mask, &self.shape, self.hash);
        let fields = self.shape.prefix_fields().iter().enumerate();
        let with_prefix = fields.filter(|(_, field)| field.prefix_length(mask) > 0);
        let checks = with_prefix.map(|(number, field)| PrefixCheck {
            field: number,
            length: field.prefix_length(mask),
            stage: staged.stage_of_word(field.word()),
        });
        let checks = checks.collect();
        Subtable::new(staged, checks, self.hash.hash_words(mask))
    }

    /// Moves a sub-table to the place of its best precedence; `before` is the previous one.
    pub(super) fn rerank(&mut self, number: u32, before: Precedence) {
        let highest = self.subtable(number).highest();
        if highest == before {
            return;
        }
        let old = self.place_in_order(Ranked {
            highest: before,
            subtable: number,
        });
        let ranked = Ranked {
            highest,
            subtable: number,
        };
        let new = self.place_in_order(ranked);
        debug_assert_eq!(self.order[old].subtable, number);
        self.order[old] = ranked;
        if new <= old {
            self.order[new..=old].rotate_right(1);
        } else {
            // The place counts the sub-table itself, which moves away.
            self.order[old..new].rotate_left(1);
        }
    }

    fn place_in_order(&self, ranked: Ranked) -> usize {
        let key = ranked.sort_key();
        self.order.partition_point(|other| other.sort_key() < key)
    }

    /// The lifetime of the rule with this id, if it has not been reclaimed.
    pub(super) fn life(&self, id: RuleId) -> Option<Lifetime> {
        let place = self.place_of(id)?;
        Some(self.subtable(place.subtable).life(place.record))
    }

    /// Changes a rule's lifetime; does nothing if the rule has been reclaimed.
    ///
    /// The new lifetime may equal the old one: `oldest` may have advanced since.
    pub(super) fn change_life(&mut self, id: RuleId, change: impl FnOnce(&mut Lifetime)) {
        let Some(place) = self.place_of(id) else {
            return;
        };
        let oldest = self.history.oldest();
        let subtable = self.subtable_mut(place.subtable);
        let mut life = subtable.life(place.record);
        change(&mut life);
        subtable.set_life(place.record, life, oldest);
    }

    /// Reads a rule: writes its value and mask; `None` if it has been reclaimed.
    pub(crate) fn read(&self, id: RuleId, value: &mut [u64], mask: &mut [u64]) -> Option<Life> {
        let place = self.place_of(id)?;
        let subtable = self.subtable(place.subtable);
        value.fill(0);
        mask.fill(0);
        let words = &subtable.staged.words;
        words.expand(subtable.value(place.record), value);
        words.add_to(0..words.len(), mask);
        let Lifetime { born, died } = subtable.life(place.record);
        Some(Life {
            precedence: subtable.rule(place.record).precedence,
            born,
            died,
        })
    }

    /// Removes a rule, whatever its state, as if it had never existed.
    pub(crate) fn forget(&mut self, id: RuleId) {
        if let Some(Lifetime { born, died }) = self.life(id) {
            self.history.forget(id, born, died);
            self.free(id);
        }
    }

    /// Removes a rule from everything but the history.
    pub(super) fn free(&mut self, id: RuleId) {
        let place = self.places.remove(id, id_in(&self.subtables));
        let place = place.expect("the history names rules that are present");
        let number = place.subtable;
        let subtable = self.subtables[number as usize].as_deref_mut();
        let subtable = subtable.expect("a sub-table with rules is not free");
        let highest = subtable.highest();
        let mut value = vec![0; self.shape.words()];
        subtable
            .staged
            .words
            .expand(subtable.value(place.record), &mut value);
        let removed = subtable.remove(place.record);
        if removed.is_last_of_value {
            for check in &subtable.prefixes {
                let prefix = self.shape.prefix_fields()[check.field].value(&value);
                self.tries[check.field].remove(prefix, check.length);
            }
        }
        if let Some((moved, record)) = removed.moved {
            let from = Place { record, ..place };
            self.places.relocate(moved, from, place);
        }
        if subtable.is_empty() {
            self.free_subtable(number, highest);
        } else {
            self.rerank(number, highest);
        }
    }

    fn free_subtable(&mut self, number: u32, highest: Precedence) {
        let place = self.place_in_order(Ranked {
            highest,
            subtable: number,
        });
        self.order.remove(place);
        let hash = self.subtable(number).mask_hash;
        let hash_of = |number| {
            let subtable = self.subtables[number as usize].as_deref();
            subtable
                .expect("an indexed sub-table is not free")
                .mask_hash
        };
        self.masks.remove(hash, number, hash_of);
        self.subtables[number as usize] = None;
        self.free_subtables.push(number);
    }

    /// Shrinks the arrays after rules were freed (invariant 4).
    pub(super) fn shrink(&mut self) {
        if self.subtables.last().is_some_and(Option::is_none) {
            let used = self.subtables.iter().rposition(Option::is_some);
            self.subtables.truncate(used.map_or(0, |last| last + 1));
            let len = self.subtables.len();
            self.free_subtables
                .retain(|&number| (number as usize) < len);
        }
        shrink(&mut self.order);
        shrink(&mut self.subtables);
        shrink(&mut self.free_subtables);
        self.places.shrink(id_in(&self.subtables));
    }
}
