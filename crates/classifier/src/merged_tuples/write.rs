//! The writer's side: chooses, ranks and removes tables, and moves rules in and out.

use thalweg_packet::MAX_WORDS;

use crate::capacity::{grow, shrink};
use crate::places::Place;
use crate::{Precedence, RuleId};

use super::ladder::{Mask, RUNGS, rung};
use super::masks::Longest;
use super::table::{Rule, Table};
use super::{MergedTuples, Ranked, id_in};

impl MergedTuples {
    /// Retires the single-mask tables once there are too many masks.
    pub(super) fn merge_if_many(&mut self) {
        if self.is_merging || self.masks.len() <= self.own_masks_max {
            return;
        }
        self.is_merging = true;
        self.retired = self.by_bits.clone();
        for number in self.by_bits.clone() {
            self.table_mut(number).is_retired = true;
        }
    }

    /// Moves one rule out of a retired table, if there is one.
    pub(super) fn move_one(&mut self) {
        let Some(&number) = self.retired.last() else {
            return;
        };
        let table = self.table(number);
        let from = Place {
            subtable: number,
            // The last record, so that no other moves into its place.
            record: table.end() - 1,
        };
        let rule = table.rule(from.record).alone();
        let mut value = vec![0; self.shape.words()];
        table.expand(from.record, &mut value);
        // Adds before it removes, so the mask stays in use.
        let to = self.add(&value, rule);
        self.places.relocate(rule.id, from, to);
        self.take_out(from);
    }

    /// Puts a rule, whose mask has a number, into the right table; returns the place.
    pub(super) fn add(&mut self, value: &[u64], rule: Rule) -> Place {
        let known = self.find_pattern(value, rule.mask);
        let known = known.filter(|(table, ..)| !table.is_retired);
        let known = known.map(|(_, number, _)| number).next();
        let number = match known {
            Some(number) => number,
            None => self.table_for(value, rule.mask),
        };
        let table = self.tables[number as usize].as_deref_mut();
        let table = table.expect("a table that was looked for is not free");
        if self.masks.add_use(rule.mask, number) {
            table.add_mask(rule.mask, &self.masks, &self.shape);
        }
        let highest = table.highest();
        let record = table.insert(value, rule);
        if known.is_none() {
            let mask = self.masks.bits(rule.mask);
            for (field, trie) in self.shape.prefix_fields().iter().zip(&mut self.tries) {
                let length = field.prefix_length(mask);
                if length > 0 {
                    trie.insert(field.value(value), length);
                }
            }
        }
        self.rerank(number, highest);
        Place {
            subtable: number,
            record,
        }
    }

    /// The table for a pattern that is in no table but retired ones; creates one if necessary.
    fn table_for(&mut self, value: &[u64], number: u32) -> u32 {
        if let Some(table) = self.longest_for(number) {
            debug_assert_eq!(self.fitting(self.masks.bits(number)).next(), Some(table));
            if self.suits(table, value, number) {
                return table;
            }
        }
        let mut mask: Mask = [0; MAX_WORDS];
        let mask = &mut mask[..self.shape.words()];
        mask.copy_from_slice(self.masks.bits(number));
        let mask = &*mask;
        if !self.is_merging {
            let own = self.unretired().find(|(_, table)| *table.mask == *mask);
            let own = own.map(|(number, _)| number);
            return own.unwrap_or_else(|| self.new_table(mask));
        }
        let (longest, with_room) = {
            let mut fitting = self.fitting(mask).peekable();
            let longest = fitting.peek().copied();
            (
                longest,
                fitting.find(|&table| self.suits(table, value, number)),
            )
        };
        let longest = longest.map(|table| Longest {
            made: self.tables_made,
            table,
        });
        self.masks.set_longest(number, longest.unwrap_or_default());
        if let Some(table) = with_room {
            return table;
        }
        let is_new = |rung: &Mask| {
            let mut tables = self.unretired();
            tables.all(|(_, table)| *table.mask != rung[..mask.len()])
        };
        let mut rungs = (0..RUNGS).map(|number| rung(mask, number, &self.shape));
        let new = rungs.find(is_new);
        let new = new.expect("a table of the very mask has room");
        self.new_table(&new[..mask.len()])
    }

    /// The tables that suit a mask, longest first.
    ///
    /// Tables of shorter masks would work too, but serve rules that fit no other table.
    fn fitting(&self, mask: &[u64]) -> impl Iterator<Item = u32> {
        let shortest = bit_count(&rung(mask, 0, &self.shape));
        let tables = self.unretired();
        let tables = tables.take_while(move |(_, table)| table.bits >= shortest);
        let tables = tables.filter(move |(_, table)| table.is_part_of(mask));
        tables.map(|(number, _)| number)
    }

    /// The tables that accept rules, longest masks first.
    fn unretired(&self) -> impl Iterator<Item = (u32, &Table)> {
        let tables = self.by_bits.iter();
        let tables = tables.map(|&number| (number, self.table(number)));
        tables.filter(|(_, table)| !table.is_retired)
    }

    /// The table of the longest mask that is part of this one, if known; it may be full.
    fn longest_for(&self, mask: u32) -> Option<u32> {
        let known = self.masks.longest(mask);
        // A later table may have a longer mask, or the number of a removed table.
        let is_latest = self.is_merging && known.made == self.tables_made;
        let table = self.tables.get(known.table as usize)?.as_deref()?;
        (is_latest && !table.is_retired).then_some(known.table)
    }

    /// Whether a table, whose mask is part of this one, has room for a pattern.
    fn suits(&self, table: u32, value: &[u64], mask: u32) -> bool {
        let table = self.table(table);
        if *table.mask == *self.masks.bits(mask) {
            return true;
        }
        let bucket = table.bucket(table.staged.hash(value), value);
        bucket.take(self.patterns_max).count() < self.patterns_max
    }

    fn new_table(&mut self, mask: &[u64]) -> u32 {
        self.tables_made += 1;
        let table = Box::new(Table::new(mask, &self.shape, self.hash));
        let bits = table.bits;
        let number = match self.free_tables.pop() {
            Some(number) => {
                self.tables[number as usize] = Some(table);
                number
            }
            None => {
                self.tables.push(Some(table));
                (self.tables.len() - 1) as u32
            }
        };
        let ranked = Ranked {
            highest: Precedence::LOWEST,
            table: number,
        };
        let place = self.place_in_order(ranked);
        grow(&mut self.order, 1);
        self.order.insert(place, ranked);
        let is_longer = |&other: &u32| self.table(other).bits >= bits;
        let place = self.by_bits.partition_point(is_longer);
        grow(&mut self.by_bits, 1);
        self.by_bits.insert(place, number);
        number
    }

    /// Moves a table to the place of its best precedence; `before` is the previous one.
    pub(super) fn rerank(&mut self, number: u32, before: Precedence) {
        let highest = self.table(number).highest();
        if highest == before {
            return;
        }
        let old = self.place_in_order(Ranked {
            highest: before,
            table: number,
        });
        let ranked = Ranked {
            highest,
            table: number,
        };
        let new = self.place_in_order(ranked);
        debug_assert_eq!(self.order[old].table, number);
        self.order[old] = ranked;
        if new <= old {
            self.order[new..=old].rotate_right(1);
        } else {
            // The place counts the table itself, which moves away.
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
        Some(self.table_mut(place.subtable).rule_mut(place.record))
    }

    /// Removes a rule from everything but the history.
    pub(super) fn free(&mut self, id: RuleId) {
        let place = self.places.remove(id, id_in(&self.tables));
        self.take_out(place.expect("the history names rules that are present"));
    }

    /// Removes a rule from its table; its place must be forgotten already.
    fn take_out(&mut self, place: Place) {
        let number = place.subtable;
        let table = self.tables[number as usize].as_deref_mut();
        let table = table.expect("a table with rules is not free");
        let highest = table.highest();
        let mut value = vec![0; self.shape.words()];
        table.expand(place.record, &mut value);
        let mask = table.rule(place.record).mask;
        let removed = table.remove(place.record);
        if let Some((moved, record)) = removed.moved {
            let from = Place { record, ..place };
            self.places.relocate(moved, from, place);
        }
        if removed.is_last_of_pattern {
            let bits = self.masks.bits(mask);
            for (field, trie) in self.shape.prefix_fields().iter().zip(&mut self.tries) {
                let length = field.prefix_length(bits);
                if length > 0 {
                    trie.remove(field.value(&value), length);
                }
            }
        }
        if self.masks.remove_use(mask, number) {
            table.remove_mask(mask, &self.masks, &self.shape);
        }
        if table.is_empty() {
            self.free_table(number, highest);
        } else {
            self.rerank(number, highest);
        }
    }

    fn free_table(&mut self, number: u32, highest: Precedence) {
        let place = self.place_in_order(Ranked {
            highest,
            table: number,
        });
        self.order.remove(place);
        self.by_bits.retain(|&other| other != number);
        self.retired.retain(|&other| other != number);
        self.is_merging &= !self.order.is_empty();
        self.tables[number as usize] = None;
        self.free_tables.push(number);
    }

    /// Shrinks the arrays after rules were freed.
    pub(super) fn shrink(&mut self) {
        if self.tables.last().is_some_and(Option::is_none) {
            let used = self.tables.iter().rposition(Option::is_some);
            self.tables.truncate(used.map_or(0, |last| last + 1));
            let len = self.tables.len();
            self.free_tables.retain(|&number| (number as usize) < len);
        }
        shrink(&mut self.order);
        shrink(&mut self.by_bits);
        shrink(&mut self.retired);
        shrink(&mut self.tables);
        shrink(&mut self.free_tables);
        self.masks.shrink();
        self.places.shrink(id_in(&self.tables));
    }
}

fn bit_count(mask: &[u64]) -> u32 {
    mask.iter().map(|word| word.count_ones()).sum()
}
