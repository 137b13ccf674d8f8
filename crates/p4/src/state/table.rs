//! The entries of a table.
//!
//! A classifier holds the patterns that keys are looked up by; an entry is an index into a
//! list. An entry with ranges has several patterns, whose precedence differs only in age.
//!
//! 1. Each entry is identified by its normalized match and priority; no two have the same.
//! 2. Every rule of the classifier belongs to exactly one entry, and every entry has at least
//!    one.

use std::collections::HashMap;

use thalweg_classifier::{
    AutoStatistics, ClassifierKind, Pattern, Precedence, RULES_MAX, RuleId, TupleSpaceConfig,
    Version,
};
use thalweg_packet::{Instant, Slot, Stage};

use crate::program::table::{Match, MatchKind, Table};
use crate::training::Any;

use super::action::{Bound, What};
use super::error::WriteError;
use super::matching::{KeyPattern, normalized, patterns};
use crate::counter::Counter;
use crate::meter::Meter;

/// From this many masks on, tuples are merged; below it, a hash table per mask is as fast.
const OWN_MASKS_MAX: usize = 16;

/// An entry of a table.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(crate) matches: Vec<Match>,
    pub(crate) priority: u32,
    pub(crate) what: What,
    pub(crate) counter: Counter,
    pub(crate) meter: Meter,
    pub(crate) idle_timeout_ns: u64,
    pub(crate) last_hit: Instant,
    /// The larger wins; between equals, the older entry wins.
    rank: u32,
    /// The age of its first rule; each further rule is younger by one.
    pub(super) age: u32,
    rules: Vec<RuleId>,
}

/// A table's entries and its default.
pub(crate) struct TableState {
    classifier: Box<Any>,
    entries: Vec<Option<Entry>>,
    free_entries: Vec<u32>,
    /// By rule: its entry.
    rules: Vec<u32>,
    free_rules: Vec<u32>,
    by_match: HashMap<(Vec<Match>, u32), u32>,
    pub(crate) default: Option<Bound>,
    /// The age of the next rule.
    age: u32,
}

impl std::fmt::Debug for TableState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let entries = self.by_match.len();
        f.debug_struct("TableState")
            .field("entries", &entries)
            .finish_non_exhaustive()
    }
}

impl TableState {
    pub(crate) fn new(table: &Table, classifier: ClassifierKind, seed: u64) -> TableState {
        let words = (table.key_words as usize).max(1);
        let mut config = TupleSpaceConfig {
            stages: vec![Stage::Metadata; words],
            prefix_fields: Vec::new(),
            seed,
        };
        let mut fields = Vec::new();
        for part in table.key.iter().filter(|part| part.width_bits <= 128) {
            let slot = Slot {
                word: part.word as u16,
                shift: part.shift as u8,
                width_bits: part.width_bits as u16,
            };
            fields.push(slot);
            if part.kind == MatchKind::Lpm {
                config.prefix_fields.push(slot);
            }
        }
        TableState {
            classifier: classifier.build(config, fields, OWN_MASKS_MAX),
            entries: Vec::new(),
            free_entries: Vec::new(),
            rules: Vec::new(),
            free_rules: Vec::new(),
            by_match: HashMap::new(),
            default: None,
            age: 0,
        }
    }

    pub(crate) fn classifier_mut(&mut self) -> &mut Any {
        &mut *self.classifier
    }

    /// The index it has, if there was a choice.
    pub(crate) fn choice(&self) -> Option<AutoStatistics> {
        self.classifier.choice()
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.by_match.len()
    }

    /// The best entry for a key.
    #[inline]
    pub(crate) fn lookup(&self, key: &[u64], version: Version) -> Option<u32> {
        let rule = self.classifier.lookup(key, version)?;
        Some(self.rules[rule.0 as usize])
    }

    /// Looks up a key, and adds to `examined` the bits of the key that decided.
    pub(crate) fn lookup_examined(
        &self,
        key: &[u64],
        version: Version,
        examined: &mut [u64],
    ) -> Option<u32> {
        let rule = self.classifier.lookup_examined(key, version, examined)?;
        Some(self.rules[rule.0 as usize])
    }

    /// The entry with this index.
    #[inline]
    pub(crate) fn entry(&self, index: u32) -> &Entry {
        self.entries[index as usize]
            .as_ref()
            .expect("indices come from rules that live")
    }

    #[inline]
    pub(crate) fn entry_mut(&mut self, index: u32) -> &mut Entry {
        self.entries[index as usize]
            .as_mut()
            .expect("indices come from rules that live")
    }

    /// The entry with this index; `None` if it was removed.
    pub(crate) fn find_entry_mut(&mut self, index: u32) -> Option<&mut Entry> {
        self.entries.get_mut(index as usize)?.as_mut()
    }

    /// All entries, in any order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u32, &Entry)> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(index, entry)| Some((index as u32, entry.as_ref()?)))
    }

    /// The entry of this match and priority.
    pub(crate) fn find(
        &self,
        table: &Table,
        matches: &[Match],
        priority: u32,
    ) -> Result<Option<u32>, WriteError> {
        let key = (normalized(table, matches)?, priority);
        Ok(self.by_match.get(&key).copied())
    }

    /// Whether an entry exists.
    pub(crate) fn has(&self, index: u32) -> bool {
        self.find_entry(index).is_some()
    }

    /// Whether an entry wins against `other` where both match; true if `other` was removed.
    pub(crate) fn beats(&self, index: u32, other: u32) -> bool {
        let of = |entry: &Entry| precedence(entry.rank, entry.age);
        let other = self.find_entry(other);
        other.is_none_or(|other| of(self.entry(index)) > of(other))
    }

    fn find_entry(&self, index: u32) -> Option<&Entry> {
        self.entries.get(index as usize)?.as_ref()
    }

    /// The patterns of an existing entry: values and masks.
    pub(crate) fn patterns(&self, index: u32) -> Vec<(Vec<u64>, Vec<u64>)> {
        let rules = self.entry(index).rules.iter();
        let patterns = rules.map(|&rule| self.classifier.pattern(rule));
        patterns
            .map(|pattern| pattern.expect("Invariant 2"))
            .collect()
    }

    /// Inserts an entry from a version on; its match must be new.
    pub(crate) fn insert(
        &mut self,
        table: &Table,
        entry: NewEntry,
        version: Version,
    ) -> Result<u32, WriteError> {
        let matches = normalized(table, &entry.matches)?;
        let patterns = patterns(table, &matches)?;
        if self.rules.len() - self.free_rules.len() + patterns.len() > RULES_MAX {
            return Err(WriteError::ResourceExhausted(format!(
                "the entries of table {} would need more than {RULES_MAX} rules, one for each part \
                 of a range; remove some first",
                table.name
            )));
        }
        let rank = rank(table, &matches, entry.priority);
        let index = match self.free_entries.pop() {
            Some(index) => index,
            None => {
                self.entries.push(None);
                self.entries.len() as u32 - 1
            }
        };
        let age = entry.age.unwrap_or_else(|| {
            let age = self.age;
            self.age = age.wrapping_add(patterns.len() as u32);
            age
        });
        let rules = self.add_rules(&patterns, (rank, age), index, version);
        let known = (matches.clone(), entry.priority);
        let before = self.by_match.insert(known, index);
        debug_assert!(before.is_none(), "Invariant 1: the caller looked");
        self.entries[index as usize] = Some(Entry {
            matches,
            priority: entry.priority,
            what: entry.what,
            counter: entry.counter,
            meter: entry.meter,
            idle_timeout_ns: entry.idle_timeout_ns,
            last_hit: entry.last_hit,
            rank,
            age,
            rules,
        });
        Ok(index)
    }

    fn add_rules(
        &mut self,
        patterns: &[KeyPattern],
        (priority, age): (u32, u32),
        entry: u32,
        version: Version,
    ) -> Vec<RuleId> {
        let mut rules = Vec::with_capacity(patterns.len());
        for (number, pattern) in (0..).zip(patterns) {
            let rule = match self.free_rules.pop() {
                Some(rule) => rule,
                None => {
                    self.rules.push(0);
                    self.rules.len() as u32 - 1
                }
            };
            self.rules[rule as usize] = entry;
            let pattern = Pattern {
                value: &pattern.value,
                mask: &pattern.mask,
            };
            let precedence = precedence(priority, age.wrapping_add(number));
            self.classifier
                .insert(pattern, precedence, RuleId(rule), version);
            rules.push(RuleId(rule));
        }
        rules
    }

    /// Removes an entry from a version on. Its index stays taken until [`TableState::release`].
    pub(crate) fn remove(&mut self, index: u32, version: Version) -> Entry {
        let entry = self.entries[index as usize]
            .take()
            .expect("the caller found it");
        for &rule in &entry.rules {
            self.classifier.remove(rule, version);
        }
        let known = (entry.matches.clone(), entry.priority);
        self.by_match.remove(&known);
        entry
    }

    /// Undoes an insertion at this version.
    pub(crate) fn forget_inserted(&mut self, index: u32) {
        let entry = self.entries[index as usize]
            .take()
            .expect("it was inserted");
        self.free_rules
            .extend(entry.rules.iter().map(|rule| rule.0));
        self.free_entries.push(index);
        self.by_match.remove(&(entry.matches, entry.priority));
    }

    /// Undoes a removal at this version.
    pub(crate) fn put_back(&mut self, index: u32, entry: Entry) {
        let known = (entry.matches.clone(), entry.priority);
        self.by_match.insert(known, index);
        self.entries[index as usize] = Some(entry);
    }

    /// Frees the index of a removed entry.
    pub(crate) fn release(&mut self, index: u32) {
        self.free_entries.push(index);
    }

    /// Undoes the classifier's changes at a version.
    pub(crate) fn abort(&mut self, version: Version) {
        self.classifier.abort(version);
    }

    /// Frees the rules that are invisible from this version on.
    pub(crate) fn reclaim(&mut self, oldest: Version) {
        let freed = self.classifier.reclaim(oldest);
        self.free_rules.extend(freed.iter().map(|rule| rule.0));
    }
}

/// An entry to be inserted.
#[derive(Clone, Debug)]
pub(crate) struct NewEntry {
    pub(crate) matches: Vec<Match>,
    pub(crate) priority: u32,
    pub(crate) what: What,
    pub(crate) counter: Counter,
    pub(crate) meter: Meter,
    pub(crate) idle_timeout_ns: u64,
    pub(crate) last_hit: Instant,
    /// The [`Entry::age`] of the entry that it replaces, if any.
    pub(crate) age: Option<u32>,
}

fn rank(table: &Table, matches: &[Match], priority: u32) -> u32 {
    match table.has_priorities {
        true => priority,
        // The longest prefix wins.
        false => prefix_length(matches),
    }
}

fn prefix_length(matches: &[Match]) -> u32 {
    let lengths = matches.iter().map(|one| match one {
        Match::Lpm(_, length) => *length,
        _ => 0,
    });
    lengths.max().unwrap_or(0)
}

/// Fits a 32-bit priority and a 32-bit age into a classifier's 16-bit priority and 48-bit age.
///
/// The lower half of the priority goes to the top of the age, inverted, since of two rules the
/// younger, with the greater age, loses.
fn precedence(priority: u32, age: u32) -> Precedence {
    let upside_down = u64::from(0xffff - (priority & 0xffff));
    Precedence::new((priority >> 16) as u16, upside_down << 32 | u64::from(age))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precedence_follows_priority_and_then_age() {
        let order = [
            (0, 9),
            (0, 3),
            (1, 7),
            (0xffff, 1),
            (0x1_0000, 5),
            (u32::MAX, u32::MAX),
        ];
        let order = order.map(|(priority, age)| precedence(priority, age));
        assert!(order.is_sorted());
    }
}
