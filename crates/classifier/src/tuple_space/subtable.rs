//! The rules under one mask: a hash table of their masked values, with bits that show a miss.
//!
//! ```text
//!   index:   hash of a compact value -> record of the best rule with that value
//!   records: record -> precedence, id, next rule with the same value; when it exists   (32 bytes)
//!                   -> compact value                           (8 bytes a masked word, or more)
//!   staged:  the mask, and what is known of the values stage by stage
//!   highest: the best precedence of each block of records, and of all
//! ```
//!
//! 1. Records are dense: removing one moves the last into its place. So memory follows the
//!    number of rules, and a scan reads nothing unused.
//! 2. The index and the stages have one entry for each value that a rule has, whatever the
//!    rule's versions. So they say "none" only where no version has one.
//! 3. Rules with the same value are chained from the index's record on, best first. The first
//!    that exists at a version is the answer at that version.
//! 4. `highest` covers every record, including dead and unborn ones: no version has a better
//!    rule.
//!
//! Costs: inserting and removing take a constant number of steps, plus the length of the
//! chain. If the best rule of all is removed, add a scan of one block and of the blocks'
//! maxima (8,000 for 500,000 rules).

use crate::highest::Highest;
use crate::index::Index;
use crate::simd::Simd;
use crate::staged::Staged;
use crate::value_hash::ShortValue;
use crate::{Pattern, Precedence, RuleId, Version};

use super::records::{Lifetime, NONE, Records, Rule};

/// The prefix length by which a field's trie can rule out a sub-table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefixCheck {
    /// The number of the field.
    pub(crate) field: usize,
    /// The length of the mask's prefix of the field.
    pub(crate) length: u32,
    /// The first of the sub-table's stages that hashes the field.
    pub(crate) stage: usize,
}

/// A rule that was removed from a sub-table.
pub(crate) struct Removed {
    /// Whether no other rule has its value.
    pub(crate) is_last_of_value: bool,
    /// The rule that moved to the freed record, and its old record.
    pub(crate) moved: Option<(RuleId, u32)>,
}

/// The rules under one mask.
#[derive(Clone, Debug)]
pub(crate) struct Subtable {
    pub(crate) staged: Staged,
    /// The hash of the whole mask.
    pub(crate) mask_hash: u64,
    index: Index,
    records: Records,
    pub(crate) prefixes: Box<[PrefixCheck]>,
    highest: Highest,
}

impl Subtable {
    /// An empty sub-table.
    pub(crate) fn new(staged: Staged, prefixes: Box<[PrefixCheck]>, mask_hash: u64) -> Subtable {
        Subtable {
            records: Records::new(staged.words.len()),
            staged,
            mask_hash,
            index: Index::new(),
            prefixes,
            highest: Highest::new(),
        }
    }

    /// The best precedence of any rule, at any version.
    pub(crate) fn highest(&self) -> Precedence {
        self.highest.all()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of rules, at any version.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    #[inline(always)]
    pub(crate) fn rule(&self, record: u32) -> &Rule {
        self.records.rule(record)
    }

    /// The lifetime of a rule.
    pub(crate) fn life(&self, record: u32) -> Lifetime {
        self.records.life(record)
    }

    /// Sets the lifetime of a rule; no version before `oldest` is looked up.
    pub(super) fn set_life(&mut self, record: u32, life: Lifetime, oldest: Version) {
        self.records.set_life(record, life, oldest);
    }

    /// A rule's compact value.
    #[inline(always)]
    pub(crate) fn value(&self, record: u32) -> &[u64] {
        self.records.value(record)
    }

    /// The best rule at `version` for a key with this hash.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, key: &[u64], version: Version) -> Option<&Rule> {
        let is_match = |record| self.staged.words.is_match(key, self.value(record));
        self.first_at(self.index.find(hash, is_match)?, version)
    }

    /// The best rule at `version` for a key.
    #[inline(always)]
    pub(super) fn probe<S: Simd>(&self, simd: S, key: &[u64], version: Version) -> Option<&Rule> {
        let hash = self.staged.hash(key);
        let candidate = self.index.candidate(simd, hash)?;
        // Compares in place. A compact value written word by word and then read as a whole
        // would wait until all earlier stores are in the cache.
        let value = self.value(candidate);
        let is_it = match self.staged.short() {
            Some(short) => short.is_match(key, value),
            None => self.staged.words.is_match(key, value),
        };
        if !is_it {
            return self.find_behind(hash, key, version);
        }
        let rule = self.rule(candidate);
        match self.records.exists_at(candidate, rule, version) {
            true => Some(rule),
            false => self.first_at(rule.next(), version),
        }
    }

    /// As `probe`, from a known first candidate; `value` and `hash` are the key's: see
    /// [`Staged::mask`].
    #[inline(always)]
    pub(super) fn find_from<'k>(
        &self,
        candidate: u32,
        (value, hash): (&ShortValue, u64),
        key: impl Fn() -> &'k [u64],
        version: Version,
    ) -> Option<&Rule> {
        let rule = match self.staged.short() {
            Some(_) => self.records.rule_of(candidate, value),
            None => {
                let is_it = self.staged.words.is_match(key(), self.value(candidate));
                is_it.then_some(self.rule(candidate))
            }
        };
        match rule {
            Some(rule) if self.records.exists_at(candidate, rule, version) => Some(rule),
            Some(rule) => self.first_at(rule.next(), version),
            None => self.find_behind(hash, key(), version),
        }
    }

    #[cold]
    fn find_behind(&self, hash: u64, key: &[u64], version: Version) -> Option<&Rule> {
        self.find(hash, key, version)
    }

    /// All living rules with this value, best first.
    pub(crate) fn living_of(&self, value: &[u64]) -> impl Iterator<Item = &Rule> {
        let head = self.index.find(self.staged.hash(value), |record| {
            self.staged.words.is_match(value, self.value(record))
        });
        let next_of = |record: &u32| Some(self.rule(*record).next()).filter(|&next| next != NONE);
        std::iter::successors(head, next_of)
            .filter(|&record| self.life(record).is_living())
            .map(|record| self.rule(record))
    }

    /// Appends the living rules at least as narrow as the pattern.
    ///
    /// It scans nothing if the mask is not as narrow, and one chain if the mask is the
    /// pattern's own.
    pub(crate) fn find_within(&self, pattern: Pattern<'_>, found: &mut Vec<RuleId>) {
        if self.staged.words.is_mask(pattern.mask) {
            return found.extend(self.living_of(pattern.value).map(|rule| rule.id));
        }
        if !self.staged.words.covers(pattern.mask) {
            return;
        }
        for record in 0..self.len() as u32 {
            let mut words = self.staged.words.iter().zip(self.value(record));
            let is_within =
                words.all(|((word, _), value)| value & pattern.mask[word] == pattern.value[word]);
            if is_within && self.life(record).is_living() {
                found.push(self.rule(record).id);
            }
        }
    }

    /// The first rule of a chain that exists at `version`.
    #[inline(always)]
    fn first_at(&self, mut record: u32, version: Version) -> Option<&Rule> {
        while record != NONE {
            let rule = self.rule(record);
            if self.records.exists_at(record, rule, version) {
                return Some(rule);
            }
            record = rule.next();
        }
        None
    }

    /// The next rule at `version` with the same value, in the order of precedence.
    pub(super) fn next_at(&self, rule: &Rule, version: Version) -> Option<&Rule> {
        self.first_at(rule.next(), version)
    }

    /// Prefetches the place of this hash in the index.
    #[inline(always)]
    pub(crate) fn prefetch_index(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// The first record that may have this hash; also prefetches it.
    #[inline(always)]
    pub(crate) fn candidate<S: Simd>(&self, simd: S, hash: u64) -> Option<u32> {
        let record = self.index.candidate(simd, hash)?;
        self.records.prefetch(record);
        Some(record)
    }

    /// As `candidate`, without branches: a record, or a number that no record has; see
    /// [`Index::likely`].
    #[inline(always)]
    pub(super) fn likely<S: Simd>(&self, simd: S, hash: u64) -> u32 {
        let record = self.index.likely(simd, hash);
        self.records.prefetch(record);
        record
    }

    /// Adds a rule; returns its record, and whether it is the only one with its value.
    ///
    /// No version before `oldest` is looked up.
    pub(crate) fn insert(
        &mut self,
        value: &[u64],
        rule: Rule,
        born: Version,
        oldest: Version,
    ) -> (u32, bool) {
        debug_assert_eq!(value.len(), self.staged.words.len());
        let record = self.len() as u32;
        let hash = self.staged.hash_value(value.iter().copied());
        let head = self.head(hash, value);
        self.records.push(rule, Lifetime::from(born), value, oldest);
        self.highest.push(record as usize, rule.precedence);
        match head {
            Some(head) => self.chain(hash, head, record),
            None => {
                let records = &self.records;
                let hash_of = |record| {
                    self.staged
                        .hash_value(records.value(record).iter().copied())
                };
                self.index.insert(hash, record, hash_of);
                self.staged.add_value(value);
            }
        }
        (record, head.is_none())
    }

    /// Removes a rule.
    pub(crate) fn remove(&mut self, record: u32) -> Removed {
        let precedence = self.rule(record).precedence;
        let is_last_of_value = self.unchain(record);
        if is_last_of_value {
            let value = self.value(record).to_vec();
            self.staged.remove_value(&value);
        }
        let last = (self.len() - 1) as u32;
        if record != last {
            self.redirect(last, record);
        }
        self.records.swap_remove(record);
        let records = &self.records;
        let precedence_of = |record: usize| records.rule(record as u32).precedence;
        self.highest
            .swap_remove(record as usize, precedence, records.len(), precedence_of);
        Removed {
            is_last_of_value,
            moved: (record != last).then(|| (self.rule(record).id, last)),
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.staged.heap_bytes()
            + self.index.heap_bytes()
            + self.records.heap_bytes()
            + size_of_val(&*self.prefixes)
            + self.highest.heap_bytes()
    }

    /// The record that the index has for a value.
    fn head(&self, hash: u64, value: &[u64]) -> Option<u32> {
        self.index.find(hash, |record| self.value(record) == value)
    }

    /// Inserts a new record into the chain of its value (invariant 3).
    fn chain(&mut self, hash: u64, head: u32, record: u32) {
        let precedence = self.rule(record).precedence;
        if precedence > self.rule(head).precedence {
            self.records.set_next(record, head);
            self.index.replace(hash, head, record);
            return;
        }
        let mut before = head;
        loop {
            let next = self.rule(before).next();
            if next == NONE || precedence > self.rule(next).precedence {
                self.records.set_next(record, next);
                self.records.set_next(before, record);
                return;
            }
            before = next;
        }
    }

    /// Removes a record from its chain; returns whether it was alone there.
    fn unchain(&mut self, record: u32) -> bool {
        let hash = self.staged.hash_value(self.value(record).iter().copied());
        let next = self.rule(record).next();
        let head = self
            .head(hash, self.value(record))
            .expect("every value is indexed");
        if head != record {
            let before = self.before(head, record);
            self.records.set_next(before, next);
            return false;
        }
        if next != NONE {
            self.index.replace(hash, record, next);
            return false;
        }
        let records = &self.records;
        let hash_of = |record| {
            self.staged
                .hash_value(records.value(record).iter().copied())
        };
        self.index.remove(hash, record, hash_of);
        true
    }

    /// Redirects every link to record `from` to record `to`.
    fn redirect(&mut self, from: u32, to: u32) {
        let hash = self.staged.hash_value(self.value(from).iter().copied());
        let head = self
            .head(hash, self.value(from))
            .expect("every value is indexed");
        if head == from {
            self.index.replace(hash, from, to);
        } else {
            let before = self.before(head, from);
            self.records.set_next(before, to);
        }
    }

    /// The record before another in the chain from `head`.
    fn before(&self, head: u32, record: u32) -> u32 {
        let mut before = head;
        while self.rule(before).next() != record {
            before = self.rule(before).next();
        }
        before
    }
}
