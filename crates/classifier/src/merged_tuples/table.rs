//! One table: rules of several masks under the mask that they have in common.
//!
//! ```text
//!   index:   hash of a key under the table's mask -> record of the bucket's best rule
//!   rules:   record -> precedence, born, died, id, mask, two links                (40 bytes)
//!   values:  record -> value, of the words that any mask of the table touches
//!
//!   bucket:  rules that agree under the table's mask:
//!            best rule of a pattern ──> of another pattern ──> ...          (next_pattern)
//!               │                         │
//!            the same pattern's next    ...                                    (next_same)
//! ```
//!
//! 1. Records are dense: removing one moves the last into its place.
//! 2. Index and stages have one entry for each bucket, whatever the versions of its rules.
//! 3. A bucket's patterns are sorted by their best rule, best first, and so are the rules of a
//!    pattern. So a search stops at the first pattern that cannot beat its best rule.
//! 4. A record's words are those of `kept`: the table's own first, in the order of its stages.
//! 5. `lengths` of a check has the length of every mask in the table. A field has no check if
//!    some mask has no prefix of it.
//!
//! Costs: a search compares the patterns of one bucket one by one. Inserting and removing walk
//! the bucket and the rules of the same pattern.

use crate::capacity::{grow, shrink};
use crate::hash::WordHash;
use crate::highest::Highest;
use crate::index::Index;
use crate::key_shape::KeyShape;
use crate::simd::Simd;
use crate::staged::Staged;
use crate::{Pattern, Precedence, RuleId, Version};

use super::Best;
use super::masks::Masks;

const NONE: u32 = u32::MAX;

/// A rule without its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) precedence: Precedence,
    pub(super) born: Version,
    pub(super) died: Version,
    pub(super) id: RuleId,
    /// The number of the rule's mask.
    pub(super) mask: u32,
    /// The next rule of the same pattern.
    next_same: u32,
    /// For the best rule of a pattern: the best rule of the bucket's next pattern.
    next_pattern: u32,
}

impl Rule {
    pub(super) fn new(precedence: Precedence, id: RuleId, mask: u32, born: Version) -> Rule {
        Rule {
            precedence,
            born,
            died: Version::NEVER,
            id,
            mask,
            next_same: NONE,
            next_pattern: NONE,
        }
    }

    /// A copy of the rule without its links.
    pub(super) fn alone(self) -> Rule {
        Rule {
            next_same: NONE,
            next_pattern: NONE,
            ..self
        }
    }

    #[inline(always)]
    pub(super) fn exists_at(&self, version: Version) -> bool {
        self.born <= version && version < self.died
    }
}

/// The lengths by which a prefix field's trie can rule out a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrefixCheck {
    /// The number of the field.
    pub(super) field: usize,
    /// Bit `length - 1` is set if some mask of the table has a prefix of that length.
    pub(super) lengths: u128,
    /// The length of the prefix that the table's own mask has of the field; one if it has
    /// none.
    pub(super) own_length: u32,
    /// The first of the table's stages that hashes the field; stage 0 if none does.
    pub(super) stage: usize,
}

/// A rule that was removed from a table.
pub(super) struct Removed {
    /// Whether no other rule has its pattern.
    pub(super) is_last_of_pattern: bool,
    /// The rule that moved to the freed record, and its old record.
    pub(super) moved: Option<(RuleId, u32)>,
}

/// Rules of several masks in one hash table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) staged: Staged,
    /// The mask that all rules have in common, word by word.
    pub(super) mask: Box<[u64]>,
    /// The number of bits in the mask.
    pub(super) bits: u32,
    pub(super) prefixes: Box<[PrefixCheck]>,
    /// Whether its rules must move to other tables.
    pub(super) is_retired: bool,
    /// The numbers of the rules' masks.
    masks: Vec<u32>,
    /// The words of a key that records store.
    kept: Vec<usize>,
    index: Index,
    rules: Vec<Rule>,
    values: Vec<u64>,
    highest: Highest,
}

impl Table {
    /// An empty table.
    pub(super) fn new(mask: &[u64], shape: &KeyShape, hash: WordHash) -> Table {
        let staged = Staged::new(mask, shape, hash);
        Table {
            kept: staged.words.iter().map(|(word, _)| word).collect(),
            staged,
            mask: mask.into(),
            bits: mask.iter().map(|word| word.count_ones()).sum(),
            prefixes: Box::default(),
            is_retired: false,
            masks: Vec::new(),
            index: Index::new(),
            rules: Vec::new(),
            values: Vec::new(),
            highest: Highest::new(),
        }
    }

    /// The best precedence of any rule, at any version.
    #[inline(always)]
    pub(super) fn highest(&self) -> Precedence {
        self.highest.all()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// One past the last record.
    pub(super) fn end(&self) -> u32 {
        self.rules.len() as u32
    }

    pub(super) fn rule(&self, record: u32) -> &Rule {
        &self.rules[record as usize]
    }

    pub(super) fn rule_mut(&mut self, record: u32) -> &mut Rule {
        &mut self.rules[record as usize]
    }

    pub(super) fn masks(&self) -> &[u32] {
        &self.masks
    }

    /// Whether the table's mask is a part of `mask`.
    pub(super) fn is_part_of(&self, mask: &[u64]) -> bool {
        let mut words = self.mask.iter().zip(mask);
        words.all(|(own, mask)| own & !mask == 0)
    }

    /// Writes a rule's value to its positions in a key.
    pub(super) fn expand(&self, record: u32, key: &mut [u64]) {
        for (&word, &value) in self.kept.iter().zip(self.value(record)) {
            key[word] = value;
        }
    }

    /// The stored words of a rule, with their positions in a key.
    #[inline(always)]
    pub(super) fn words(&self, record: u32) -> impl Iterator<Item = (usize, u64)> {
        let words = self.kept.iter().zip(self.value(record));
        words.map(|(&word, &value)| (word, value))
    }

    /// Whether a rule with this mask matches a key.
    #[inline(always)]
    fn is_match(&self, record: u32, mask: &[u64], key: &[u64]) -> bool {
        let words = self.words(record);
        let difference = words.map(|(word, value)| key[word] & mask[word] ^ value);
        difference.fold(0, |all, word| all | word) == 0
    }

    /// The best rule of each pattern in the bucket of this hash and key, best first.
    #[inline(always)]
    pub(super) fn bucket(&self, hash: u64, key: &[u64]) -> impl Iterator<Item = u32> {
        let head = self.head(hash, key);
        let next_of = |&record: &u32| Some(self.rule(record).next_pattern).filter(is_record);
        std::iter::successors(head, next_of)
    }

    /// A rule and the later rules of the same pattern, best first.
    pub(super) fn chain(&self, record: u32) -> impl Iterator<Item = &Rule> {
        let next_of = |&record: &u32| Some(self.rule(record).next_same).filter(is_record);
        std::iter::successors(Some(record), next_of).map(|record| self.rule(record))
    }

    /// The best rule of a pattern.
    pub(super) fn find_pattern(&self, value: &[u64], mask: u32) -> Option<u32> {
        let mut bucket = self.bucket(self.staged.hash(value), value);
        bucket.find(|&record| self.is_pattern(record, value, mask))
    }

    /// Whether some rule, at any version, agrees with the key under the table's mask.
    #[inline(always)]
    pub(super) fn has_bucket(&self, hash: u64, key: &[u64]) -> bool {
        self.head(hash, key).is_some()
    }

    /// Searches for a rule at `version` that matches the key and beats the best so far.
    #[inline(always)]
    pub(super) fn search(
        &self,
        hash: u64,
        key: &[u64],
        version: Version,
        masks: &Masks,
        best: &mut Best,
    ) {
        let Some(mut record) = self.head(hash, key) else {
            return;
        };
        while record != NONE {
            let rule = self.rule(record);
            if best.is_above(rule.precedence) {
                return;
            }
            if self.is_match(record, masks.bits(rule.mask), key) {
                let mut chain = self.chain(record);
                best.improve(chain.find(|rule| rule.exists_at(version)));
            }
            record = rule.next_pattern;
        }
    }

    /// Appends the living rules at least as narrow as the pattern; `is_within` checks a rule's
    /// mask.
    ///
    /// If the table's mask is a part of the pattern's, they are all in one bucket.
    pub(super) fn find_within(
        &self,
        pattern: Pattern<'_>,
        is_within: impl Fn(&Rule) -> bool,
        found: &mut Vec<RuleId>,
    ) {
        let has_value =
            |(word, value): (usize, u64)| value & pattern.mask[word] == pattern.value[word];
        let is_found = |record: u32| {
            let rule = self.rule(record);
            is_within(rule) && self.words(record).all(has_value)
        };
        let is_living = |rule: &&Rule| rule.died == Version::NEVER;
        if self.is_part_of(pattern.mask) {
            let bucket = self.bucket(self.staged.hash(pattern.value), pattern.value);
            let rules = bucket.filter(|&record| is_found(record));
            let rules = rules.flat_map(|record| self.chain(record));
            found.extend(rules.filter(is_living).map(|rule| rule.id));
            return;
        }
        let rules = (0..).zip(&self.rules);
        let rules = rules.filter(|&(record, rule)| is_living(&rule) && is_found(record));
        found.extend(rules.map(|(_, rule)| rule.id));
    }

    /// Prefetches the place of this hash in the index.
    #[inline(always)]
    pub(super) fn prefetch_index(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// Whether some bucket may have this hash; prefetches its first rule.
    #[inline(always)]
    pub(super) fn prefetch_rule<S: Simd>(&self, simd: S, hash: u64) -> bool {
        let Some(record) = self.index.candidate(simd, hash) else {
            return false;
        };
        crate::simd::prefetch(&self.rules, record as usize);
        crate::simd::prefetch(&self.values, record as usize * self.kept.len());
        true
    }

    /// Adds a rule whose value covers all words of the key; returns its record.
    ///
    /// The caller adds the mask first, if it is new to the table.
    pub(super) fn insert(&mut self, value: &[u64], rule: Rule) -> u32 {
        let record = self.rules.len() as u32;
        let hash = self.staged.hash(value);
        let same = self.find_pattern(value, rule.mask);
        grow(&mut self.rules, 1);
        grow(&mut self.values, self.kept.len());
        self.highest.push(record as usize, rule.precedence);
        self.rules.push(rule);
        for &word in &self.kept {
            self.values.push(value[word]);
        }
        let Some(best) = same else {
            self.link(hash, record);
            return record;
        };
        if rule.precedence > self.rule(best).precedence {
            self.link(hash, record);
            self.unlink(hash, best);
            self.rule_mut(record).next_same = best;
            return record;
        }
        let mut before = best;
        let next_of = |table: &Table, before| table.rule(before).next_same;
        while is_record(&next_of(self, before))
            && self.rule(next_of(self, before)).precedence > rule.precedence
        {
            before = next_of(self, before);
        }
        self.rule_mut(record).next_same = next_of(self, before);
        self.rule_mut(before).next_same = record;
        record
    }

    /// Removes a rule.
    pub(super) fn remove(&mut self, record: u32) -> Removed {
        let Rule {
            precedence,
            next_same,
            ..
        } = *self.rule(record);
        let hash = self.hash_of(record);
        let best = self.best_of_pattern(hash, record);
        if best != record {
            let before = self.before_in_chain(best, record);
            self.rule_mut(before).next_same = next_same;
        } else {
            // Links the next one first, so that the bucket is not removed and added again.
            if next_same != NONE {
                self.link(hash, next_same);
            }
            self.unlink(hash, record);
        }
        let last = (self.rules.len() - 1) as u32;
        if record != last {
            self.redirect(last, record);
        }
        let (words, end) = (self.kept.len(), self.values.len());
        self.values
            .copy_within(end - words..end, record as usize * words);
        self.values.truncate(end - words);
        self.rules.swap_remove(record as usize);
        let rules = &self.rules;
        let precedence_of = |record: usize| rules[record].precedence;
        self.highest
            .swap_remove(record as usize, precedence, rules.len(), precedence_of);
        shrink(&mut self.rules);
        shrink(&mut self.values);
        Removed {
            is_last_of_pattern: best == record && next_same == NONE,
            moved: (record != last).then(|| (self.rule(record).id, last)),
        }
    }

    /// Adds a mask that had no rule here until now.
    pub(super) fn add_mask(&mut self, number: u32, masks: &Masks, shape: &KeyShape) {
        self.masks.push(number);
        let mask = masks.bits(number);
        let is_new = |word: &usize| mask[*word] != 0 && !self.kept.contains(word);
        let new: Vec<usize> = (0..mask.len()).filter(is_new).collect();
        if !new.is_empty() {
            self.keep_too(&new);
        }
        self.check_prefixes(masks, shape);
    }

    /// Removes a mask that has no rule here any more.
    pub(super) fn remove_mask(&mut self, number: u32, masks: &Masks, shape: &KeyShape) {
        self.masks.retain(|&other| other != number);
        self.check_prefixes(masks, shape);
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.staged.heap_bytes()
            + size_of_val(&*self.mask)
            + size_of_val(&*self.prefixes)
            + self.masks.capacity() * size_of::<u32>()
            + self.kept.capacity() * size_of::<usize>()
            + self.index.heap_bytes()
            + self.rules.capacity() * size_of::<Rule>()
            + self.values.capacity() * size_of::<u64>()
            + self.highest.heap_bytes()
    }

    #[inline(always)]
    fn value(&self, record: u32) -> &[u64] {
        let words = self.kept.len();
        &self.values[record as usize * words..][..words]
    }

    /// The record that the index has for a key.
    #[inline(always)]
    fn head(&self, hash: u64, key: &[u64]) -> Option<u32> {
        let words = &self.staged.words;
        let agrees = |record| words.agrees(key, self.value(record));
        self.index.find(hash, agrees)
    }

    fn is_pattern(&self, record: u32, value: &[u64], mask: u32) -> bool {
        let is_value = |(word, own): (usize, u64)| value[word] == own;
        self.rule(record).mask == mask && self.words(record).all(is_value)
    }

    fn hash_of(&self, record: u32) -> u64 {
        hash_at(&self.staged, &self.values, self.kept.len(), record)
    }

    /// The record that the index has for a record's bucket.
    fn head_of(&self, hash: u64, record: u32) -> u32 {
        let own = self.value(record);
        let masks = || self.staged.words.iter().map(|(_, mask)| mask);
        let agrees = |other: u32| {
            let mut words = masks().zip(own).zip(self.value(other));
            words.all(|((mask, own), other)| (own ^ other) & mask == 0)
        };
        let head = self.index.find(hash, agrees);
        head.expect("every bucket is indexed")
    }

    /// The best rule of a record's pattern.
    fn best_of_pattern(&self, hash: u64, record: u32) -> u32 {
        let (mask, value) = (self.rule(record).mask, self.value(record));
        let mut best = self.head_of(hash, record);
        while self.rule(best).mask != mask || self.value(best) != value {
            best = self.rule(best).next_pattern;
        }
        best
    }

    /// Links the best rule of a pattern into its bucket (invariant 3).
    fn link(&mut self, hash: u64, record: u32) {
        let own = self.value(record);
        let masks = || self.staged.words.iter().map(|(_, mask)| mask);
        let agrees = |other: u32| {
            let mut words = masks().zip(own).zip(self.value(other));
            words.all(|((mask, own), other)| (own ^ other) & mask == 0)
        };
        let Some(head) = self.index.find(hash, agrees) else {
            self.rule_mut(record).next_pattern = NONE;
            let (staged, values, words) = (&self.staged, &self.values, self.kept.len());
            let hash_of = |record| hash_at(staged, values, words, record);
            self.index.insert(hash, record, hash_of);
            let value = self.table_value(record);
            self.staged.add_value(&value);
            return;
        };
        let precedence = self.rule(record).precedence;
        if precedence > self.rule(head).precedence {
            self.rule_mut(record).next_pattern = head;
            self.index.replace(hash, head, record);
            return;
        }
        let mut before = head;
        let next_of = |table: &Table, before| table.rule(before).next_pattern;
        while is_record(&next_of(self, before))
            && self.rule(next_of(self, before)).precedence > precedence
        {
            before = next_of(self, before);
        }
        self.rule_mut(record).next_pattern = next_of(self, before);
        self.rule_mut(before).next_pattern = record;
    }

    /// Unlinks the best rule of a pattern from its bucket.
    fn unlink(&mut self, hash: u64, record: u32) {
        let next = self.rule(record).next_pattern;
        self.rule_mut(record).next_pattern = NONE;
        let head = self.head_of(hash, record);
        if head != record {
            let before = self.before_in_bucket(head, record);
            self.rule_mut(before).next_pattern = next;
        } else if next != NONE {
            self.index.replace(hash, record, next);
        } else {
            let (staged, values, words) = (&self.staged, &self.values, self.kept.len());
            let hash_of = |record| hash_at(staged, values, words, record);
            self.index.remove(hash, record, hash_of);
            let value = self.table_value(record);
            self.staged.remove_value(&value);
        }
    }

    /// Redirects every link to record `from` to record `to`.
    fn redirect(&mut self, from: u32, to: u32) {
        let hash = self.hash_of(from);
        let best = self.best_of_pattern(hash, from);
        if best != from {
            let before = self.before_in_chain(best, from);
            self.rule_mut(before).next_same = to;
            return;
        }
        let head = self.head_of(hash, from);
        if head == from {
            self.index.replace(hash, from, to);
        } else {
            let before = self.before_in_bucket(head, from);
            self.rule_mut(before).next_pattern = to;
        }
    }

    fn before_in_bucket(&self, mut before: u32, record: u32) -> u32 {
        while self.rule(before).next_pattern != record {
            before = self.rule(before).next_pattern;
        }
        before
    }

    fn before_in_chain(&self, mut before: u32, record: u32) -> u32 {
        while self.rule(before).next_same != record {
            before = self.rule(before).next_same;
        }
        before
    }

    /// A record's compact value under the table's mask.
    fn table_value(&self, record: u32) -> Vec<u64> {
        let words = self.staged.words.iter().zip(self.value(record));
        words.map(|((_, mask), value)| mask & value).collect()
    }

    /// Stores more words for every record; existing masks do not touch them, so they are zero.
    fn keep_too(&mut self, new: &[usize]) {
        let before = self.kept.len();
        self.kept.extend_from_slice(new);
        let mut values = Vec::with_capacity(self.rules.len() * self.kept.len());
        for record in 0..self.rules.len() {
            values.extend_from_slice(&self.values[record * before..][..before]);
            values.resize(values.len() + new.len(), 0);
        }
        self.values = values;
    }

    /// Recomputes the checks of prefix fields (invariant 5).
    fn check_prefixes(&mut self, masks: &Masks, shape: &KeyShape) {
        let fields = shape.prefix_fields().iter().enumerate();
        let checks = fields.filter_map(|(number, field)| {
            let lengths = self.masks.iter().map(|&mask| masks.bits(mask));
            let lengths = lengths.map(|mask| field.prefix_length(mask));
            let mut all = 0u128;
            for length in lengths {
                all |= 1u128 << length.checked_sub(1)?;
            }
            let is_hashed = self.mask[field.word()] != 0;
            let stage = is_hashed.then(|| self.staged.stage_of_word(field.word()));
            Some(PrefixCheck {
                field: number,
                lengths: all,
                own_length: field.prefix_length(&self.mask).max(1),
                stage: stage.unwrap_or(0),
            })
        });
        self.prefixes = checks.filter(|check| check.lengths != 0).collect();
    }
}

fn is_record(record: &u32) -> bool {
    *record != NONE
}

/// The hash of a record under the table's mask; for closures that cannot borrow the whole
/// table.
fn hash_at(staged: &Staged, values: &[u64], words: usize, record: u32) -> u64 {
    let value = &values[record as usize * words..][..words];
    let masked = staged.words.iter().zip(value);
    staged.hash_value(masked.map(|((_, mask), value)| mask & value))
}
