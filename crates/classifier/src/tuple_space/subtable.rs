//! The rules under one mask: a hash table of their masked values, and what narrows a miss.
//!
//! ```text
//!   index:   hash of a compact value -> record of the best rule with that value
//!   rules:   record -> precedence, born, died, id, next rule with the same value   (32 bytes)
//!   values:  record -> compact value                                    (8 bytes a masked word)
//!   stages:  for each stage but the last, the hashes of the values up to its end
//!   tail:    a trie of the values' last stage
//!   highest: the best precedence of each block of 64 records, and of all
//! ```
//!
//! 1. Records are dense: removing one moves the last into its place, so memory follows the number
//!    of rules and a scan reads nothing in vain.
//! 2. The index, the stages and the trie speak of values: one entry for each value that a rule
//!    has, whatever the rule's versions. So they say "none" only where no version has one.
//! 3. Rules with the same value are chained from the index's record on, the best first; the first
//!    that exists at a version is the answer at that version.
//! 4. `highest` covers every record, dead or unborn ones included: no version has a better rule.
//!
//! Costs: inserting and removing take a constant number of steps, plus the length of the chain,
//! plus, if the best rule of all is removed, a scan of one block and of the blocks' maxima (8,000
//! for 500,000 rules).

use crate::hash::WordHash;
use crate::masked_words::MaskedWords;
use crate::{Pattern, Precedence, RuleId, Version};

use super::counting_set::CountingSet;
use super::grow;
use super::index::Index;
use super::prefix_trie::{BITS_MAX, PrefixTrie};

const BLOCK_RECORDS: usize = 64;
const NONE: u32 = u32::MAX;

/// A rule without its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) precedence: Precedence,
    pub(crate) born: Version,
    pub(crate) died: Version,
    pub(crate) id: RuleId,
    /// The record of the next rule with the same value.
    next: u32,
}

impl Rule {
    pub(crate) fn new(precedence: Precedence, id: RuleId, born: Version) -> Rule {
        Rule {
            precedence,
            born,
            died: Version::NEVER,
            id,
            next: NONE,
        }
    }

    #[inline(always)]
    fn exists_at(&self, version: Version) -> bool {
        self.born <= version && version < self.died
    }
}

/// What a prefix field's trie can say about a sub-table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefixCheck {
    /// The number of the field.
    pub(crate) field: usize,
    /// The length of the prefix that the mask has of it.
    pub(crate) length: u32,
    /// The first of the sub-table's stages that hashes the field.
    pub(crate) stage: usize,
}

/// A stage of the mask that is not its last: where it ends, and which hashes values have so far.
#[derive(Clone, Debug)]
struct EarlyStage {
    end: usize,
    hashes: CountingSet,
}

/// How far a key got in a sub-table that has no rule for it at any version.
pub(crate) enum Begun {
    /// No value agrees with the key's words up to this one.
    Refused(usize),
    /// All but the last stage agree with some value; this is the hash so far.
    Reached(u64),
}

/// A rule that was taken out of a sub-table.
pub(crate) struct Removed {
    /// Whether no other rule has its value.
    pub(crate) is_last_of_value: bool,
    /// The rule that has its record now, and the record that it had before.
    pub(crate) moved: Option<(RuleId, u32)>,
}

/// The rules under one mask.
#[derive(Clone, Debug)]
pub(crate) struct Subtable {
    pub(crate) words: MaskedWords,
    hash: WordHash,
    /// The hash of the whole mask.
    pub(crate) mask_hash: u64,
    index: Index,
    rules: Vec<Rule>,
    values: Vec<u64>,
    stages: Box<[EarlyStage]>,
    tail: Option<Tail>,
    pub(crate) prefixes: Box<[PrefixCheck]>,
    block_highest: Vec<Precedence>,
    highest: Precedence,
}

/// The trie of the last stage's words, of which there are one or two.
#[derive(Clone, Debug)]
struct Tail {
    trie: PrefixTrie,
    /// Up to the last bit of the mask.
    length: u32,
}

impl Subtable {
    /// An empty sub-table; `stage_ends` are the ends of its stages in `words`.
    pub(crate) fn new(
        words: MaskedWords,
        stage_ends: &[usize],
        prefixes: Vec<PrefixCheck>,
        has_tail: bool,
        hash: WordHash,
        mask_hash: u64,
    ) -> Subtable {
        let (_, early) = stage_ends.split_last().unwrap_or((&0, &[]));
        let stages = early.iter().map(|&end| EarlyStage {
            end,
            hashes: CountingSet::new(),
        });
        let stages: Box<[EarlyStage]> = stages.collect();
        let tail_start = stages.last().map_or(0, |stage| stage.end);
        let tail_masks: Vec<u64> = words
            .iter()
            .skip(tail_start)
            .map(|(_, mask)| mask)
            .collect();
        let tail = (has_tail && (1..=2).contains(&tail_masks.len())).then(|| Tail {
            trie: PrefixTrie::new(),
            length: BITS_MAX - joined(tail_masks.into_iter()).trailing_zeros(),
        });
        Subtable {
            words,
            hash,
            mask_hash,
            index: Index::new(),
            rules: Vec::new(),
            values: Vec::new(),
            stages,
            tail,
            prefixes: prefixes.into(),
            block_highest: Vec::new(),
            highest: Precedence::LOWEST,
        }
    }

    /// The best precedence of any rule, at whichever version.
    pub(crate) fn highest(&self) -> Precedence {
        self.highest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub(crate) fn rule(&self, record: u32) -> &Rule {
        &self.rules[record as usize]
    }

    pub(crate) fn rule_mut(&mut self, record: u32) -> &mut Rule {
        &mut self.rules[record as usize]
    }

    /// A rule's compact value.
    #[inline(always)]
    pub(crate) fn value(&self, record: u32) -> &[u64] {
        let (start, len) = (record as usize * self.words.len(), self.words.len());
        &self.values[start..start + len]
    }

    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u64]) -> u64 {
        self.words.hash(key, self.hash)
    }

    /// The hash of no words.
    pub(crate) fn hash_start(&self) -> u64 {
        self.hash.start()
    }

    /// The best rule at `version` for a key with this hash.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, key: &[u64], version: Version) -> Option<&Rule> {
        let is_match = |record| self.words.is_match(key, self.value(record));
        self.first_at(self.index.find(hash, is_match)?, version)
    }

    /// All rules whose value this is, the best first.
    pub(crate) fn chain_of(&self, value: &[u64]) -> impl Iterator<Item = &Rule> {
        let head = self.index.find(self.hash(value), |record| {
            self.words.is_match(value, self.value(record))
        });
        let next_of = |record: &u32| Some(self.rule(*record).next).filter(|&next| next != NONE);
        std::iter::successors(head, next_of).map(|record| self.rule(record))
    }

    /// Appends the living rules that are at least as narrow as the pattern.
    ///
    /// Nothing is looked at if the mask is not, and one chain if it is the pattern's own.
    pub(crate) fn find_within(&self, pattern: Pattern<'_>, found: &mut Vec<RuleId>) {
        let is_living = |rule: &&Rule| rule.died == Version::NEVER;
        if self.words.is_mask(pattern.mask) {
            let living = self.chain_of(pattern.value).filter(is_living);
            return found.extend(living.map(|rule| rule.id));
        }
        if !self.words.covers(pattern.mask) {
            return;
        }
        for (record, rule) in self.rules.iter().enumerate() {
            let mut words = self.words.iter().zip(self.value(record as u32));
            let is_within =
                words.all(|((word, _), value)| value & pattern.mask[word] == pattern.value[word]);
            if is_within && rule.died == Version::NEVER {
                found.push(rule.id);
            }
        }
    }

    /// The first rule of a chain that exists at `version`.
    #[inline(always)]
    fn first_at(&self, mut record: u32, version: Version) -> Option<&Rule> {
        while record != NONE {
            let rule = &self.rules[record as usize];
            if rule.exists_at(version) {
                return Some(rule);
            }
            record = rule.next;
        }
        None
    }

    /// Asks for the place where the index would have this hash.
    #[inline(always)]
    pub(crate) fn prefetch_index(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// Whether some rule may have this hash; asks for the first such rule to be brought near.
    #[inline(always)]
    pub(crate) fn prefetch_rule(&self, hash: u64) -> bool {
        let mut place = self.index.home(hash);
        let Some(record) = self.index.next_candidate(hash, &mut place) else {
            return false;
        };
        crate::simd::prefetch(&self.rules, record as usize);
        crate::simd::prefetch(&self.values, record as usize * self.words.len());
        true
    }

    /// How many stages there are, the last included.
    pub(crate) fn stage_count(&self) -> usize {
        self.stages.len() + 1
    }

    /// Where a stage starts in the list of words.
    pub(crate) fn stage_start(&self, stage: usize) -> usize {
        stage
            .checked_sub(1)
            .map_or(0, |before| self.stages[before].end)
    }

    /// Continues the hash with a stage; refuses if no value begins like the key.
    pub(crate) fn begin(&self, stage: usize, key: &[u64], state: u64) -> Begun {
        let start = self.stage_start(stage);
        let Some(early) = self.stages.get(stage) else {
            let range = start..self.words.len();
            return Begun::Reached(self.words.hash_range(range, key, self.hash, state));
        };
        let state = self
            .words
            .hash_range(start..early.end, key, self.hash, state);
        match early.hashes.contains(state) {
            true => Begun::Reached(state),
            false => Begun::Refused(early.end),
        }
    }

    /// Adds the bits that show that no value is this key's, which the index does not have.
    ///
    /// If no value agrees with it on the leading bits of the last stage that the trie names, then
    /// these bits alone show it, whatever the stages before. Else it is the whole mask.
    pub(crate) fn examine_miss(&self, key: &[u64], examined: &mut [u64]) {
        let start = self.stage_start(self.stages.len());
        let lookup = |tail: &Tail| {
            let value = joined(self.words.compact(key).skip(start));
            let found = tail.trie.lookup(value);
            (!found.has_length(tail.length)).then_some(found.examined_bits)
        };
        let Some(examined_bits) = self.tail.as_ref().and_then(lookup) else {
            self.words.add_to(0..self.words.len(), examined);
            return;
        };
        let bits = !u128::MAX.checked_shr(examined_bits).unwrap_or(0);
        let parts = [(bits >> 64) as u64, bits as u64];
        for ((word, mask), part) in self.words.iter().skip(start).zip(parts) {
            examined[word] |= mask & part;
        }
    }

    /// Adds a rule; returns its record, and whether no other has its value.
    pub(crate) fn insert(&mut self, value: &[u64], rule: Rule) -> (u32, bool) {
        debug_assert_eq!(value.len(), self.words.len());
        let record = self.rules.len() as u32;
        let hash = self.hash.hash_words(value);
        let head = self.head(hash, value);
        grow(&mut self.rules, 1);
        grow(&mut self.values, value.len());
        self.rules.push(rule);
        self.values.extend_from_slice(value);
        if (record as usize).is_multiple_of(BLOCK_RECORDS) {
            self.block_highest.push(rule.precedence);
        }
        self.raise(record);
        self.highest = self.highest.max(rule.precedence);
        match head {
            Some(head) => self.chain(hash, head, record),
            None => {
                let (values, words) = (&self.values, self.words.len());
                let hash_of = |record| self.hash.hash_words(value_of(values, words, record));
                self.index.insert(hash, record, hash_of);
                self.add_value(value);
            }
        }
        (record, head.is_none())
    }

    /// Takes a rule out.
    pub(crate) fn remove(&mut self, record: u32) -> Removed {
        let precedence = self.rule(record).precedence;
        let is_last_of_value = self.unchain(record);
        if is_last_of_value {
            let value = self.value(record).to_vec();
            self.remove_value(&value);
        }
        let last = (self.rules.len() - 1) as u32;
        if record != last {
            self.redirect(last, record);
        }
        let (words, end) = (self.words.len(), self.values.len());
        self.values
            .copy_within(end - words..end, record as usize * words);
        self.values.truncate(end - words);
        self.rules.swap_remove(record as usize);
        self.lower(record, last, precedence);
        super::shrink(&mut self.rules);
        super::shrink(&mut self.values);
        super::shrink(&mut self.block_highest);
        Removed {
            is_last_of_value,
            moved: (record != last).then(|| (self.rule(record).id, last)),
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let stages = self.stages.iter().map(|stage| stage.hashes.heap_bytes());
        let tail = self.tail.as_ref().map_or(0, |tail| tail.trie.heap_bytes());
        self.words.heap_bytes()
            + self.index.heap_bytes()
            + self.rules.capacity() * size_of::<Rule>()
            + self.values.capacity() * size_of::<u64>()
            + size_of_val(&*self.stages)
            + stages.sum::<usize>()
            + tail
            + size_of_val(&*self.prefixes)
            + self.block_highest.capacity() * size_of::<Precedence>()
    }

    /// The record that the index has for a value.
    fn head(&self, hash: u64, value: &[u64]) -> Option<u32> {
        self.index.find(hash, |record| self.value(record) == value)
    }

    /// Puts a new record into the chain of its value (invariant 3).
    fn chain(&mut self, hash: u64, head: u32, record: u32) {
        let precedence = self.rule(record).precedence;
        if precedence > self.rule(head).precedence {
            self.rule_mut(record).next = head;
            self.index.replace(hash, head, record);
            return;
        }
        let mut before = head;
        loop {
            let next = self.rule(before).next;
            if next == NONE || precedence > self.rule(next).precedence {
                self.rule_mut(record).next = next;
                self.rule_mut(before).next = record;
                return;
            }
            before = next;
        }
    }

    /// Takes a record out of its chain; says whether it was alone there.
    fn unchain(&mut self, record: u32) -> bool {
        let hash = self.hash.hash_words(self.value(record));
        let next = self.rule(record).next;
        let head = self
            .head(hash, self.value(record))
            .expect("every value is indexed");
        if head != record {
            let before = self.before(head, record);
            self.rule_mut(before).next = next;
            return false;
        }
        if next != NONE {
            self.index.replace(hash, record, next);
            return false;
        }
        let (values, words) = (&self.values, self.words.len());
        let hash_of = |record| self.hash.hash_words(value_of(values, words, record));
        self.index.remove(hash, record, hash_of);
        true
    }

    /// Makes whatever leads to record `from` lead to `to`.
    fn redirect(&mut self, from: u32, to: u32) {
        let hash = self.hash.hash_words(self.value(from));
        let head = self
            .head(hash, self.value(from))
            .expect("every value is indexed");
        if head == from {
            self.index.replace(hash, from, to);
        } else {
            let before = self.before(head, from);
            self.rule_mut(before).next = to;
        }
    }

    /// The record before another in the chain from `head`.
    fn before(&self, head: u32, record: u32) -> u32 {
        let mut before = head;
        while self.rule(before).next != record {
            before = self.rule(before).next;
        }
        before
    }

    fn add_value(&mut self, value: &[u64]) {
        let mut state = self.hash.start();
        let mut start = 0;
        for stage in &mut self.stages {
            let words = value[start..stage.end].iter();
            state = words.fold(state, |state, &word| self.hash.step(state, word));
            stage.hashes.insert(state);
            start = stage.end;
        }
        if let Some(tail) = &mut self.tail {
            tail.trie
                .insert(joined(value[start..].iter().copied()), tail.length);
        }
    }

    fn remove_value(&mut self, value: &[u64]) {
        let mut state = self.hash.start();
        let mut start = 0;
        for stage in &mut self.stages {
            let words = value[start..stage.end].iter();
            state = words.fold(state, |state, &word| self.hash.step(state, word));
            stage.hashes.remove(state);
            start = stage.end;
        }
        if let Some(tail) = &mut self.tail {
            tail.trie
                .remove(joined(value[start..].iter().copied()), tail.length);
        }
    }

    /// Tells the block of a record about its precedence.
    fn raise(&mut self, record: u32) {
        let precedence = self.rule(record).precedence;
        let highest = &mut self.block_highest[record as usize / BLOCK_RECORDS];
        *highest = precedence.max(*highest);
    }

    /// Mends the maxima after a rule was removed and the last one moved to its record.
    fn lower(&mut self, record: u32, last: u32, removed: Precedence) {
        let (block, last_block) = (record as usize, last as usize);
        let (block, last_block) = (block / BLOCK_RECORDS, last_block / BLOCK_RECORDS);
        self.rescan(last_block);
        if block != last_block {
            if self.block_highest[block] == removed {
                self.rescan(block);
            } else {
                self.raise(record);
            }
        }
        if removed == self.highest {
            let highest = self.block_highest.iter().max();
            self.highest = highest.copied().unwrap_or(Precedence::LOWEST);
        }
    }

    fn rescan(&mut self, block: usize) {
        let start = block * BLOCK_RECORDS;
        let end = self.rules.len().min(start + BLOCK_RECORDS);
        if start >= end {
            self.block_highest.truncate(block);
            return;
        }
        let rules = self.rules[start..end].iter();
        let highest = rules.map(|rule| rule.precedence).max();
        self.block_highest[block] = highest.expect("the block is not empty");
    }
}

/// A record's value, for closures that cannot borrow the whole sub-table.
fn value_of(values: &[u64], words: usize, record: u32) -> &[u64] {
    &values[record as usize * words..][..words]
}

/// One or two words as the leading bits of one number.
fn joined(words: impl Iterator<Item = u64>) -> u128 {
    words
        .zip([64, 0])
        .fold(0, |bits, (word, shift)| bits | u128::from(word) << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash_words;

    /// What no lookup's answer shows: that the bound and the stages follow the rules down.
    #[test]
    fn the_bound_and_the_stages_are_exact_after_removals() {
        let words = MaskedWords::new(&[0xf, 0xff]);
        let mut subtable = Subtable::new(words, &[1, 2], Vec::new(), true, WordHash::new(1), 0);
        let mut model: Vec<(Precedence, [u64; 2])> = Vec::new();
        for step in 0..20_000u64 {
            let random = |salt: u64| hash_words(salt, &[step]);
            let rules_max = if step % 5_000 < 2_500 { 400 } else { 3 };
            if model.len() > rules_max || random(1) % 3 == 0 && !model.is_empty() {
                let record = random(2) as usize % model.len();
                let record = match random(3) % 2 {
                    0 => record,
                    // The best of all, which is what makes the bound sink.
                    _ => (0..model.len())
                        .max_by_key(|&record| model[record].0)
                        .expect("some"),
                };
                let moved = subtable.remove(record as u32).moved;
                model.swap_remove(record);
                assert_eq!(moved.is_some(), record < model.len());
            } else {
                let value = [random(4) % 16, random(5) % 256];
                let precedence = Precedence::new(random(6) as u16 % 8, step);
                let rule = Rule::new(precedence, RuleId(step as u32), Version::FIRST);
                let is_first = !model.iter().any(|(_, other)| *other == value);
                let inserted = subtable.insert(&value, rule);
                assert_eq!(inserted, (model.len() as u32, is_first));
                model.push((precedence, value));
            }
            let highest = model.iter().map(|rule| rule.0).max();
            assert_eq!(subtable.highest(), highest.unwrap_or(Precedence::LOWEST));
            let key = [random(7) % 16, 0];
            let begins = model.iter().any(|(_, value)| value[0] == key[0]);
            let begun = subtable.begin(0, &key, subtable.hash_start());
            assert_eq!(matches!(begun, Begun::Reached(_)), begins);
        }
    }
}
