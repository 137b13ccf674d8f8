//! Making, ranking and removing sub-tables, and taking rules out: the writer's side.

use thalweg_packet::Stage;

use crate::masked_words::MaskedWords;
use crate::{Precedence, RuleId};

use super::places::Place;
use super::subtable::{PrefixCheck, Rule, Subtable};
use super::{Ranked, TupleSpace, grow, id_in, shrink};

impl TupleSpace {
    /// The sub-table of a mask, made if there is none.
    pub(super) fn subtable_of_mask(&mut self, mask: &[u64]) -> u32 {
        let hash = self.hash.hash_words(mask);
        let is_it = |number| self.subtable(number).words.is_mask(mask);
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
        let words = MaskedWords::with_order(mask, self.words_by_stage.iter().copied());
        let mut stage_ends: Vec<usize> = Vec::new();
        let mut stage_of_word = vec![0; mask.len()];
        let mut last = None;
        for (position, (word, _)) in words.iter().enumerate() {
            if last.replace(self.stages[word]) != Some(self.stages[word]) {
                stage_ends.push(position);
            }
            *stage_ends.last_mut().expect("just pushed") = position + 1;
            stage_of_word[word] = stage_ends.len() - 1;
        }
        let fields = self.prefix_fields.iter().enumerate();
        let checks = fields.map(|(number, field)| PrefixCheck {
            field: number,
            length: field.prefix_length(mask),
            stage: stage_of_word[field.word()],
        });
        let prefixes: Vec<PrefixCheck> = checks.filter(|check| check.length > 0).collect();
        let has_tail = self.has_tail(&words, &prefixes);
        let mask_hash = self.hash.hash_words(mask);
        Subtable::new(words, &stage_ends, prefixes, has_tail, self.hash, mask_hash)
    }

    /// Whether a trie of the last stage is worth its memory: it is one word (or two of ports and
    /// their like), and has bits that no prefix field's trie speaks of.
    fn has_tail(&self, words: &MaskedWords, prefixes: &[PrefixCheck]) -> bool {
        let Some(last_stage) = words.iter().last().map(|(word, _)| self.stages[word]) else {
            return false;
        };
        let covers = |word: usize| {
            let masks = prefixes
                .iter()
                .flat_map(|check| self.prefix_fields[check.field].masks(check.length));
            let own = masks.filter(move |(covered, _)| *covered == word);
            own.fold(0, |bits, (_, mask)| bits | mask)
        };
        let last = words
            .iter()
            .filter(|&(word, _)| self.stages[word] == last_stage);
        let last: Vec<(usize, u64)> = last.collect();
        let words_max = if last_stage == Stage::Transport { 2 } else { 1 };
        last.len() <= words_max && last.iter().any(|&(word, mask)| mask & !covers(word) != 0)
    }

    /// Moves a sub-table to where its best precedence belongs; `before` is what it was.
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
            // The place counts the sub-table itself, which moves out of the way.
            self.order[old..new].rotate_left(1);
        }
    }

    fn place_in_order(&self, ranked: Ranked) -> usize {
        let key = ranked.sort_key();
        self.order.partition_point(|other| other.sort_key() < key)
    }

    /// The rule of this id, if it has not been reclaimed.
    pub(super) fn rule_mut(&mut self, id: RuleId) -> Option<&mut Rule> {
        let place = self.place_of(id)?;
        Some(self.subtable_mut(place.subtable).rule_mut(place.record))
    }

    /// Takes a rule out of everything but the history.
    pub(super) fn free(&mut self, id: RuleId) {
        let place = self.places.remove(id, id_in(&self.subtables));
        let place = place.expect("the history names rules that are present");
        let number = place.subtable;
        let subtable = self.subtables[number as usize].as_deref_mut();
        let subtable = subtable.expect("a sub-table with rules is not free");
        let highest = subtable.highest();
        let mut value = vec![0; self.stages.len()];
        subtable
            .words
            .expand(subtable.value(place.record), &mut value);
        let removed = subtable.remove(place.record);
        if removed.is_last_of_value {
            for check in &subtable.prefixes {
                let prefix = self.prefix_fields[check.field].value(&value);
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

    /// Gives memory back after rules were freed (invariant 4).
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
