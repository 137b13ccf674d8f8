//! The rules of an iSet's buckets, in groups of eight that are compared at once.
//!
//! ```text
//!   group:  line 0         slots of 8 rules (32 bits each) | numbers of the masks of packed words 0, 1
//!           line ...       numbers for words 2 to 5, and so on, if there are as many
//!           line ...       values of 8 rules: packed word 0      (64 bytes each)
//!           line ...       packed word 1
//!           ...
//!   bucket i: group i, and the groups that follow it by the next group's number, which lie behind
//!             those of all buckets
//! ```
//!
//! This is a structure of arrays, so that one instruction compares a word of a key with the
//! word of eight rules. A five-tuple takes two words, and a bucket of eight rules three cache
//! lines, which are fetched together. With many rules, fetching them dominates the time of a
//! lookup.
//!
//! An iSet's rules have few masks, so a mask is stored as a number ([`crate::simd::lanes`]).
//! If there are more masks than numbers, or the processor is slow to look them up, a group
//! stores full masks, each word's behind its values. A five-tuple then takes five lines.
//!
//! A number takes six bits of its byte. The other bits of line 0 are, in this order,
//!
//! ```text
//!   bit 7 of all 32 bytes                   the number of the next group, or ones if there is none
//!   bit 6 of a lane's lower byte, word 0    the lane is plain
//!   bit 6 of a lane's upper byte, word 0    the lane is vacant
//! ```
//!
//! A rule that comes later is inserted among those of its bucket, if the bucket is short. It
//! goes into an empty lane between the better and the worse rules; a rule that goes and comes
//! back finds its old lane. Without such a lane its group is rewritten, or split in two if it
//! is full. Spare groups for that are reserved at the start, so a new rule never moves all
//! others to a larger allocation.
//!
//! 1. Within a bucket the slots of rules ascend: the first match of a group is its best. A
//!    vacated lane has slot 0. So the slot in a group's first lane, vacant or not, is never
//!    higher than the slot of a later rule.
//! 2. A lane without a rule matches nothing: its value has bits outside its mask, which is
//!    zero.
//! 3. A rule is plain if it exists at every version that may be looked up. For other rules the
//!    slot is checked.

use crate::Version;
use crate::simd::Simd;
use crate::simd::lanes::{Lanes as Line, MaskTable, numbers_of, top_bits};

use super::lane::Lane;
use super::limits::{NO_SLOT, PACKED_WORDS_MAX};
use super::partition::LANES;
use super::slots::Slots;

const EMPTY: Line = Line([0; LANES]);
/// The number of slot words in line 0, before the words with numbers.
const SLOT_WORDS: usize = 4;
/// The bits, in each byte of numbers, of the next group's number.
const NEXT: u64 = 0x8080_8080_8080_8080;
/// The flag bits in a lane's numbers for word 0.
const PLAIN: u16 = 0x0040;
const VACANT: u16 = 0x4000;
/// The number of packed words whose numbers fit in a line.
const WORDS_PER_LINE: usize = LANES / 2;
/// The most groups of a bucket that still accepts later rules.
const GROUPS_MAX: usize = 4;
/// One spare group is reserved for this many groups.
const GROUPS_PER_SPARE: usize = 32;

/// The groups of an iSet.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    lines: Vec<Line>,
    /// The number of lines in a group.
    stride: usize,
    shape: Shape,
}

/// The layout of a group's lines.
#[derive(Clone, Debug)]
enum Shape {
    /// Masks by number, with a table for each packed word.
    Numbered(Vec<MaskTable>),
    /// Full masks, for this many packed words.
    Written(usize),
}

impl Shape {
    fn words(&self) -> usize {
        match self {
            Shape::Numbered(tables) => tables.len(),
            Shape::Written(words) => *words,
        }
    }

    /// The number of lines with numbers.
    #[inline(always)]
    fn number_lines(words: usize) -> usize {
        (words + SLOT_WORDS / 2).div_ceil(WORDS_PER_LINE)
    }

    fn lines(&self) -> usize {
        match self {
            Shape::Numbered(tables) => Shape::number_lines(tables.len()) + tables.len(),
            Shape::Written(words) => 1 + 2 * words,
        }
    }

    /// The index of the line with the values of a packed word.
    fn values(&self, word: usize) -> usize {
        match self {
            Shape::Numbered(tables) => Shape::number_lines(tables.len()) + word,
            Shape::Written(_) => 1 + 2 * word,
        }
    }

    /// The stored form of a rule's masks; `None` if there are too many to number.
    ///
    /// Numbers once given are not taken back.
    fn store(&mut self, masks: &[u64]) -> Option<[u64; PACKED_WORDS_MAX]> {
        let mut stored = [0; PACKED_WORDS_MAX];
        match self {
            Shape::Numbered(tables) => {
                for ((stored, table), &mask) in stored.iter_mut().zip(tables).zip(masks) {
                    *stored = table.numbers(mask)?.into();
                }
            }
            Shape::Written(words) => stored[..*words].copy_from_slice(masks),
        }
        Some(stored)
    }

    /// The value of a lane's word, and its mask in stored form.
    fn get(&self, lines: &[Line], lane: usize, word: usize) -> (u64, u64) {
        let values = self.values(word);
        let stored = match self {
            Shape::Numbered(_) => {
                let numbers = numbers_of(numbers(lines, word), lane);
                u64::from(numbers & MaskTable::NUMBERS_BITS)
            }
            Shape::Written(_) => lines[values + 1].0[lane],
        };
        (lines[values].0[lane], stored)
    }

    fn put(&self, lines: &mut [Line], lane: usize, word: usize, (value, stored): (u64, u64)) {
        let values = self.values(word);
        lines[values].0[lane] = value;
        match self {
            Shape::Numbered(_) => {
                let (line, place) = line_of_numbers(word);
                let numbers = &mut lines[line].0[place + lane / 4];
                let shift = 16 * (lane % 4);
                *numbers =
                    *numbers & !(u64::from(MaskTable::NUMBERS_BITS) << shift) | stored << shift;
            }
            Shape::Written(_) => lines[values + 1].0[lane] = stored,
        }
    }

    /// The mask of a stored form.
    fn mask(&self, word: usize, stored: u64) -> u64 {
        match self {
            Shape::Numbered(tables) => tables[word].mask_of(stored as u16),
            Shape::Written(_) => stored,
        }
    }
}

impl Groups {
    /// Creates an empty list for rules of `words` packed words; `is_numbered` chooses masks by
    /// number.
    pub(super) fn new(words: usize, is_numbered: bool) -> Groups {
        let shape = match is_numbered {
            true => Shape::Numbered(vec![MaskTable::new(); words]),
            false => Shape::Written(words),
        };
        Groups {
            lines: Vec::new(),
            stride: shape.lines(),
            shape,
        }
    }

    /// Adds empty groups: the first ones of `buckets` buckets.
    pub(super) fn push_groups(&mut self, buckets: usize) {
        (0..buckets).for_each(|_| self.push_group());
    }

    /// Makes room for `groups` groups and a few spare ones.
    pub(super) fn reserve(&mut self, groups: usize) {
        let aside = groups / GROUPS_PER_SPARE + 1;
        self.lines.reserve_exact((groups + aside) * self.stride);
    }

    fn push_group(&mut self) {
        let start = self.lines.len();
        self.lines.resize(start + self.stride, EMPTY);
        self.empty(start / self.stride);
    }

    /// Empties a group and its link to the next one.
    fn empty(&mut self, group: usize) {
        let values = self.shape.values(0);
        let lines = self.group_mut(group);
        lines.fill(EMPTY);
        lines[0].0[..SLOT_WORDS].fill(u64::MAX);
        lines[0].0[SLOT_WORDS..].fill(NEXT);
        lines[values] = Line([u64::MAX; LANES]);
    }

    #[inline(always)]
    fn group(&self, group: usize) -> &[Line] {
        &self.lines[group * self.stride..][..self.stride]
    }

    #[inline(always)]
    fn group_mut(&mut self, group: usize) -> &mut [Line] {
        &mut self.lines[group * self.stride..][..self.stride]
    }

    #[inline(always)]
    fn head(&self, group: usize) -> &Line {
        &self.lines[group * self.stride]
    }

    fn head_mut(&mut self, group: usize) -> &mut Line {
        &mut self.lines[group * self.stride]
    }

    /// Puts rules into an empty bucket; `packed` writes a rule's value and mask.
    ///
    /// Returns whether all masks could be stored.
    pub(super) fn fill(
        &mut self,
        bucket: usize,
        slots: &[u32],
        mut packed: impl FnMut(u32, &mut [u64], &mut [u64]),
    ) -> bool {
        let words = self.shape.words();
        let (mut value, mut mask) = ([0; PACKED_WORDS_MAX], [0; PACKED_WORDS_MAX]);
        let (value, mask) = (&mut value[..words], &mut mask[..words]);
        let mut group = bucket;
        for (number, chunk) in slots.chunks(LANES).enumerate() {
            if number > 0 {
                let next = self.lines.len() / self.stride;
                self.push_group();
                set_next(self.head_mut(group), Some(next));
                group = next;
            }
            for (lane, &slot) in chunk.iter().enumerate() {
                packed(slot, value, mask);
                let Some(stored) = self.shape.store(mask) else {
                    return false;
                };
                let at = Lane::new(group, lane);
                self.put(at, slot, true, |word| (value[word], stored[word]));
            }
        }
        true
    }

    /// Writes a rule to a lane; `words` returns each word's value and stored mask.
    fn put(&mut self, at: Lane, slot: u32, is_plain: bool, words: impl Fn(usize) -> (u64, u64)) {
        let lane = usize::from(at.lane);
        let lines = &mut self.lines[at.group as usize * self.stride..][..self.stride];
        for word in 0..self.shape.words() {
            self.shape.put(lines, lane, word, words(word));
        }
        set_slot(&mut lines[0], lane, slot);
        set_bits(&mut lines[0], lane, PLAIN, is_plain);
        set_bits(&mut lines[0], lane, VACANT, false);
    }

    /// Prefetches the first group of a bucket.
    #[inline(always)]
    pub(super) fn prefetch(&self, bucket: usize) {
        crate::simd::prefetch_lines(&self.lines, bucket * self.stride, self.stride);
    }

    /// Prefetches the second group of a bucket, if there is one; the first must be prefetched
    /// already.
    #[inline(always)]
    pub(super) fn prefetch_next(&self, bucket: usize) {
        let next = next_number(self.head(bucket));
        let is_last = next == u32::MAX;
        // Prefetching a near group again is cheaper than a branch on whether there is a next
        // one.
        let next = std::hint::select_unpredictable(is_last, bucket, next as usize);
        self.prefetch(next);
    }

    /// The best slot of a bucket that beats `best` and matches; otherwise `best`.
    ///
    /// The key's packed words are every `step`th word of `packed`.
    #[inline(always)]
    pub(super) fn improve<S: Simd>(
        &self,
        simd: S,
        bucket: usize,
        (packed, step): (&[u64], usize),
        version: Version,
        slots: &Slots,
        best: u32,
    ) -> u32 {
        let mut group = bucket;
        loop {
            let lines = self.group(group);
            let head = &lines[0];
            if slot_of(head, 0) >= best {
                return best;
            }
            let mut hits = match &self.shape {
                Shape::Numbered(tables) => {
                    let values = &lines[Shape::number_lines(tables.len())..];
                    let numbers = &Line::pairs(lines)[SLOT_WORDS / 2..];
                    let words = (values, numbers, tables.as_slice());
                    simd.lanes_by_number(words, packed, step)
                }
                Shape::Written(_) => simd.lanes(lines[1..].as_chunks().0, packed, step),
            };
            while hits != 0 {
                let lane = hits.trailing_zeros() as usize;
                let slot = slot_of(head, lane);
                if slot >= best {
                    return best;
                }
                if has_bits(head, lane, PLAIN) || slots.exists_at(slot, version) {
                    return slot;
                }
                hits &= hits - 1;
            }
            match next_number(head) {
                u32::MAX => return best,
                next => group = next as usize,
            }
        }
    }

    /// The number of groups of a bucket that [`Groups::improve`] compares when the best slot is
    /// `before` at its call and `after` at its return.
    pub(super) fn compared(&self, bucket: usize, before: u32, after: u32) -> usize {
        let (mut group, mut count) = (Some(bucket), 0);
        while let Some(number) = group {
            let first = slot_of(self.head(number), 0);
            if first >= before || first > after {
                break;
            }
            count += 1;
            group = self.next_of(number);
        }
        count
    }

    /// Inserts a rule, which is not plain yet, into a bucket, if there is room.
    ///
    /// Returns the moves of slots between lanes; the new slot is the last.
    pub(super) fn insert(
        &mut self,
        bucket: usize,
        slot: u32,
        value: &[u64],
        mask: &[u64],
    ) -> Option<Vec<Move>> {
        let (mut group, mut length) = (bucket, 1);
        let mut next = self.next_of(bucket);
        while let Some(other) = next {
            length += 1;
            let head = self.head(other);
            if taken(head)
                .next()
                .is_some_and(|lane| slot_of(head, lane) < slot)
            {
                group = other;
            }
            next = self.next_of(other);
        }
        let free = self.lane_for(group, slot);
        let is_full = free.is_none() && taken(self.head(group)).count() == LANES;
        let has_more = self.lines.len() + self.stride <= self.lines.capacity();
        if is_full && (length >= GROUPS_MAX || !has_more) {
            return None;
        }
        let stored = self.shape.store(mask)?;
        let new = |word: usize| (value[word], stored[word]);
        if let Some(to) = free {
            self.put(to, slot, false, new);
            let from = Lane::NONE;
            return Some(vec![Move { slot, from, to }]);
        }
        let mut rules = self.rules_of(group);
        let place = rules.partition_point(|rule| rule.slot < slot);
        let held = Held {
            slot,
            from: Lane::NONE,
            is_plain: false,
        };
        rules.insert(place, held);
        let (lines, count) = (self.group(group), self.shape.words());
        let words = 0..LANES * count;
        let former = words.map(|at| self.shape.get(lines, at / count, at % count));
        let former: Vec<(u64, u64)> = former.collect();
        let words = |word: usize, from: Lane| match from {
            Lane::NONE => new(word),
            Lane { lane, .. } => former[usize::from(lane) * count + word],
        };
        let mut moves = Vec::with_capacity(rules.len());
        if is_full {
            let next = self.lines.len() / self.stride;
            self.push_group();
            let after = self.next_of(group);
            set_next(self.head_mut(next), after);
            set_next(self.head_mut(group), Some(next));
            let upper = rules.split_off(LANES / 2);
            self.put_rules(next, &upper, words, &mut moves);
        }
        self.put_rules(group, &rules, words, &mut moves);
        moves.sort_by_key(|moved| moved.from == Lane::NONE);
        Some(moves)
    }

    /// The empty lane between a group's rules better than this slot and the worse ones, if
    /// any.
    fn lane_for(&self, group: usize, slot: u32) -> Option<Lane> {
        let head = self.head(group);
        let better = taken(head).filter(|&lane| slot_of(head, lane) < slot);
        let lane = better.last().map_or(0, |last| last + 1);
        let is_free = lane < LANES && !taken(head).any(|other| other == lane);
        is_free.then_some(Lane::new(group, lane))
    }

    fn next_of(&self, group: usize) -> Option<usize> {
        let next = next_number(self.head(group));
        (next != u32::MAX).then_some(next as usize)
    }

    /// The rules of a group, best first.
    fn rules_of(&self, group: usize) -> Vec<Held> {
        let head = self.head(group);
        let mut rules = Vec::with_capacity(LANES + 1);
        rules.extend(taken(head).map(|lane| Held {
            slot: slot_of(head, lane),
            from: Lane::new(group, lane),
            is_plain: has_bits(head, lane, PLAIN),
        }));
        rules
    }

    /// Rewrites a group; `words` returns a word of a rule in stored form, by the rule's old
    /// lane.
    fn put_rules(
        &mut self,
        group: usize,
        rules: &[Held],
        words: impl Fn(usize, Lane) -> (u64, u64),
        moves: &mut Vec<Move>,
    ) {
        let next = self.next_of(group);
        self.empty(group);
        set_next(self.head_mut(group), next);
        for (lane, rule) in rules.iter().enumerate() {
            let to = Lane::new(group, lane);
            self.put(to, rule.slot, rule.is_plain, |word| words(word, rule.from));
            if rule.from != to {
                moves.push(Move {
                    slot: rule.slot,
                    from: rule.from,
                    to,
                });
            }
        }
    }

    /// The lane and slot of each rule of a bucket, best first.
    pub(super) fn bucket(&self, bucket: usize) -> impl Iterator<Item = (Lane, u32)> {
        let groups = std::iter::successors(Some(bucket), |&group| self.next_of(group));
        groups.flat_map(|group| {
            let head = self.head(group);
            taken(head).map(move |lane| (Lane::new(group, lane), slot_of(head, lane)))
        })
    }

    /// A rule's packed value and mask, word by word.
    pub(super) fn words(&self, at: Lane) -> impl Iterator<Item = (u64, u64)> {
        let lines = self.group(at.group as usize);
        (0..self.shape.words()).map(move |word| {
            let (value, stored) = self.shape.get(lines, usize::from(at.lane), word);
            (value, self.shape.mask(word, stored))
        })
    }

    /// Sets whether a rule exists at every version.
    pub(super) fn set_plain(&mut self, at: Lane, is_plain: bool) {
        let head = self.head_mut(at.group as usize);
        set_bits(head, usize::from(at.lane), PLAIN, is_plain);
    }

    /// Changes a rule's slot; no other rule's slot may lie between the old and the new one.
    pub(super) fn renumber(&mut self, at: Lane, slot: u32) {
        let head = self.head_mut(at.group as usize);
        set_slot(head, usize::from(at.lane), slot);
    }

    /// Makes a lane match nothing from now on.
    pub(super) fn vacate(&mut self, at: Lane) {
        let lane = usize::from(at.lane);
        let lines = &mut self.lines[at.group as usize * self.stride..][..self.stride];
        // One word that cannot match is enough; mask number 0 is zero.
        self.shape.put(lines, lane, 0, (u64::MAX, 0));
        set_slot(&mut lines[0], lane, 0);
        set_bits(&mut lines[0], lane, VACANT, true);
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let tables = match &self.shape {
            Shape::Numbered(tables) => tables.capacity() * size_of::<MaskTable>(),
            Shape::Written(_) => 0,
        };
        self.lines.capacity() * size_of::<Line>() + tables
    }
}

/// A rule while its group is rewritten.
#[derive(Debug)]
struct Held {
    slot: u32,
    from: Lane,
    is_plain: bool,
}

/// A rule that moved to another lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Move {
    pub(super) slot: u32,
    /// [`Lane::NONE`] for a new rule.
    pub(super) from: Lane,
    pub(super) to: Lane,
}

/// The lanes of a group that have rules.
fn taken(head: &Line) -> impl Iterator<Item = usize> {
    (0..LANES).filter(|&lane| slot_of(head, lane) != NO_SLOT && !has_bits(head, lane, VACANT))
}

/// The line with the numbers for a packed word, and the index of the first of their two words.
#[inline(always)]
fn line_of_numbers(word: usize) -> (usize, usize) {
    let place = SLOT_WORDS + 2 * word;
    (place / LANES, place % LANES)
}

#[inline(always)]
fn numbers(lines: &[Line], word: usize) -> &[u64; 2] {
    let (line, place) = line_of_numbers(word);
    &lines[line].0.as_chunks().0[place / 2]
}

#[inline(always)]
fn has_bits(head: &Line, lane: usize, bits: u16) -> bool {
    numbers_of(numbers(std::slice::from_ref(head), 0), lane) & bits != 0
}

fn set_bits(head: &mut Line, lane: usize, bits: u16, are_set: bool) {
    let bits = u64::from(bits) << (16 * (lane % 4));
    let word = &mut head.0[SLOT_WORDS + lane / 4];
    *word = if are_set { *word | bits } else { *word & !bits };
}

/// The number of the next group, or [`u32::MAX`].
#[inline(always)]
fn next_number(head: &Line) -> u32 {
    top_bits(head)
}

fn set_next(head: &mut Line, next: Option<usize>) {
    let next = next.map_or(u32::MAX, |next| next as u32);
    for (place, word) in head.0[SLOT_WORDS..].iter_mut().enumerate() {
        let bits = (0..8).filter(|bit| next >> (8 * place + bit) & 1 != 0);
        *word = *word & !NEXT | bits.fold(0, |all, bit| all | 0x80 << (8 * bit));
    }
}

#[inline(always)]
fn slot_of(head: &Line, lane: usize) -> u32 {
    (head.0[lane / 2] >> (32 * (lane % 2))) as u32
}

fn set_slot(head: &mut Line, lane: usize, slot: u32) {
    let shift = 32 * (lane % 2);
    let word = &mut head.0[lane / 2];
    *word = *word & !(u64::from(u32::MAX) << shift) | u64::from(slot) << shift;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Buckets of `count` even slots, with masks by number and in full, and various word
    /// counts.
    ///
    /// Each rule matches its own number in the first and the last word.
    fn groups(count: u32) -> impl Iterator<Item = Groups> {
        let shapes = [1, 2, 3, 7]
            .into_iter()
            .flat_map(|words| [(words, true), (words, false)]);
        shapes.map(move |(words, is_numbered)| {
            let mut groups = Groups::new(words, is_numbered);
            groups.reserve(count.div_ceil(LANES as u32).max(1) as usize + 2);
            groups.push_groups(1);
            let slots: Vec<u32> = (0..count).map(|slot| 2 * slot).collect();
            let is_done = groups.fill(0, &slots, |slot, value, mask| {
                let (own_value, own_mask) = pattern(slot, words);
                value.copy_from_slice(&own_value);
                mask.copy_from_slice(&own_mask);
            });
            assert!(is_done);
            groups
        })
    }

    fn pattern(slot: u32, words: usize) -> (Vec<u64>, Vec<u64>) {
        let (mut value, mut mask) = (vec![0; words], vec![0; words]);
        for word in [0, words - 1] {
            value[word] = u64::from(slot) << 33;
            mask[word] = (u64::MAX << 33) | u64::from(slot % 7);
        }
        (value, mask)
    }

    fn slots_of(groups: &Groups) -> Vec<u32> {
        groups.bucket(0).map(|(_, slot)| slot).collect()
    }

    /// Inserts a slot; checks the order and the reported moves.
    fn put(groups: &mut Groups, slot: u32) -> bool {
        let words = groups.shape.words();
        let before: Vec<(Lane, u32)> = groups.bucket(0).collect();
        let (value, mask) = pattern(slot, words);
        let Some(moves) = groups.insert(0, slot, &value, &mask) else {
            assert_eq!(groups.bucket(0).collect::<Vec<_>>(), before);
            return false;
        };
        let mut expected = before;
        for moved in moves {
            match moved.from {
                Lane::NONE => expected.push((moved.to, moved.slot)),
                from => {
                    let known = expected
                        .iter_mut()
                        .find(|known| **known == (from, moved.slot));
                    known.expect("what moves was there").0 = moved.to;
                }
            }
        }
        expected.sort_by_key(|(_, slot)| *slot);
        let after: Vec<(Lane, u32)> = groups.bucket(0).collect();
        assert_eq!(after, expected);
        for (lane, slot) in after {
            let (value, mask): (Vec<u64>, Vec<u64>) = groups.words(lane).unzip();
            assert_eq!((value, mask), pattern(slot, words));
        }
        check_lookups(groups);
        true
    }

    /// Looks up a key for each plain rule and keys without a rule, with all instructions.
    fn check_lookups(groups: &Groups) {
        let slots = Slots::new(crate::places::Places::new(crate::hash::WordHash::new(1)));
        let rules: Vec<(Lane, u32)> = groups.bucket(0).collect();
        let highest = rules.last().map_or(0, |(_, slot)| *slot);
        for wanted in 0..=highest + 1 {
            let rule = rules.iter().find(|(_, slot)| *slot == wanted);
            let is_plain = |&(lane, _): &(Lane, u32)| {
                has_bits(groups.head(lane.group as usize), lane.lane.into(), PLAIN)
            };
            // For the other rules the slots would be read, which are empty here.
            if !rule.is_none_or(is_plain) {
                continue;
            }
            let (key, _) = pattern(wanted, groups.shape.words());
            for best in [wanted, wanted + 1, NO_SLOT] {
                let expected = rule.map_or(best, |(_, slot)| best.min(*slot));
                for level in crate::simd::Level::available() {
                    let found = level.run(Improve {
                        groups,
                        key: &key,
                        slots: &slots,
                        best,
                    });
                    assert_eq!(found, expected, "{wanted} before {best}");
                }
            }
        }
    }

    struct Improve<'a> {
        groups: &'a Groups,
        key: &'a [u64],
        slots: &'a Slots,
        best: u32,
    }

    impl crate::simd::Work for Improve<'_> {
        type Output = u32;

        fn run<S: Simd>(self, simd: S) -> u32 {
            let key = (self.key, 1);
            self.groups
                .improve(simd, 0, key, Version(1), self.slots, self.best)
        }
    }

    #[test]
    fn rules_are_put_between_others() {
        for count in 0..=16 {
            for place in 0..=count {
                for mut groups in groups(count) {
                    check_lookups(&groups);
                    assert!(put(&mut groups, 2 * place + 1));
                }
            }
        }
    }

    #[test]
    fn a_bucket_is_parted_until_it_is_long() {
        for mut groups in groups(8) {
            // From the best down, so that a full group is split in half and its better half
            // stays.
            let done = (0..40).take_while(|step| put(&mut groups, 101 - 2 * step));
            let done = done.count();
            let lengths = std::iter::successors(Some(0), |&group| groups.next_of(group));
            assert_eq!(lengths.count(), GROUPS_MAX);
            assert!(
                (8..GROUPS_MAX * LANES - 8).contains(&done),
                "{done} were put in"
            );
        }
    }

    #[test]
    fn a_vacant_lane_is_no_rule_and_makes_room() {
        for mut groups in groups(8) {
            let lanes: Vec<Lane> = groups.bucket(0).map(|(lane, _)| lane).collect();
            groups.vacate(lanes[0]);
            groups.vacate(lanes[5]);
            check_lookups(&groups);
            assert_eq!(slots_of(&groups), [2, 4, 6, 8, 12, 14]);
            assert!(put(&mut groups, 10) && put(&mut groups, 0));
            assert_eq!(slots_of(&groups), [0, 2, 4, 6, 8, 10, 12, 14]);
            let (third, _) = groups.bucket(0).nth(2).expect("it is there");
            groups.renumber(third, 5);
            groups.vacate(lanes[0]);
            assert_eq!(slots_of(&groups), [2, 5, 6, 8, 10, 12, 14]);
            // The first lane has no rule, and the new rule comes before the rest.
            let (value, mask) = pattern(1, groups.shape.words());
            assert!(groups.insert(0, 1, &value, &mask).is_some());
            assert_eq!(slots_of(&groups), [1, 2, 5, 6, 8, 10, 12, 14]);
            assert_eq!(groups.next_of(0), None, "no group was needed");
        }
    }

    #[test]
    fn no_group_is_made_that_was_not_set_aside() {
        for mut groups in groups(8) {
            groups.lines.shrink_to_fit();
            let before = groups.lines.capacity();
            assert!(!put(&mut groups, 3));
            assert_eq!(groups.lines.capacity(), before);
        }
    }

    #[test]
    fn a_rule_whose_mask_has_no_number_is_refused() {
        let fill = |groups: &mut Groups, count: u32| {
            groups.reserve(count as usize);
            groups.push_groups(1);
            let slots: Vec<u32> = (0..count).collect();
            groups.fill(0, &slots, |slot, value, mask| {
                (value[0], mask[0]) = (0, slot.into())
            })
        };
        // 64 masks of half a word, including the empty one.
        let mut numbered = Groups::new(1, true);
        assert!(fill(&mut numbered, 64));
        numbered.vacate(Lane::new(0, 3));
        assert_eq!(numbered.insert(0, 3, &[64], &[64]), None);
        assert_eq!(numbered.insert(0, 3, &[1 << 40], &[1 << 40]), None);
        assert!(numbered.insert(0, 3, &[5], &[63 << 32 | 5]).is_some());
        assert!(!fill(&mut Groups::new(1, true), 65));
        assert!(fill(&mut Groups::new(1, false), 65));
    }
}
