//! The rules of an iSet's buckets, in groups of eight that are compared at once.
//!
//! ```text
//!   group:  line 0         slots of 8 rules (32 bits each) | plain and vacant, a bit each | next group
//!           line 1, 2      values of 8 rules, masks of 8 rules: packed word 0     (64 bytes each)
//!           line 3, 4      packed word 1
//!           ...
//!   bucket i: group i, and the groups that follow it by `next`, which lie behind those of all
//!             buckets
//! ```
//!
//! Structure of arrays, so that one instruction compares a word of a key with that of eight rules;
//! a five-tuple takes two words, and a bucket of eight rules five cache lines, which are fetched
//! together.
//!
//! A rule that comes later is put among those of its bucket, if the bucket is short: into a lane
//! without a rule between those that are better and those that are worse, which one that goes and
//! comes back finds where it was. Where there is none, its group is written anew, or parted in two if
//! it is full. Groups for that are set aside when all are made, so that no rule that comes has the
//! others moved to a larger place.
//!
//! 1. Within a bucket the slots of rules rise: the first match of a group is its best. A lane that
//!    became vacant has the number 0, so that the first lane of a group, whatever it is, has none
//!    that is higher than that of a rule from there on.
//! 2. A lane without a rule matches nothing: its value has bits outside its mask, which is zero.
//! 3. A rule is plain if it exists at every version that may be looked up. Of others the slot is
//!    asked.

use crate::Version;
use crate::simd::Simd;
use crate::simd::lanes::Lanes as Line;

use super::partition::LANES;
use super::slots::{NO_SLOT, Slots};

const EMPTY: Line = Line([0; LANES]);
/// The words of line 0 after the slots: a bit for each lane that is plain, and eight bits above
/// that, for each that is vacant.
const PLAIN: usize = 4;
const NEXT: usize = 5;
const VACANT_SHIFT: u8 = 8;
/// Groups that a bucket may have for a rule to be put into it later.
const GROUPS_MAX: usize = 4;
/// One group is set aside for so many.
const GROUPS_PER_SPARE: usize = 32;

/// The groups of an iSet.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    lines: Vec<Line>,
    /// Lines of a group.
    stride: usize,
}

/// One rule of a bucket: its group and lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lane {
    group: u32,
    lane: u8,
}

impl Lane {
    /// Nowhere.
    pub(super) const NONE: Lane = Lane {
        group: u32::MAX,
        lane: 0,
    };

    #[cfg(test)]
    pub(super) fn at(group: u32, lane: u8) -> Lane {
        Lane { group, lane }
    }
}

impl Groups {
    /// No groups, of rules of so many packed words.
    pub(super) fn new(words: usize) -> Groups {
        Groups {
            lines: Vec::new(),
            stride: 1 + 2 * words,
        }
    }

    /// Adds empty groups: the first of so many buckets.
    pub(super) fn push_groups(&mut self, buckets: usize) {
        (0..buckets).for_each(|_| self.push_group());
    }

    /// Makes room for so many groups, and a few that are set aside.
    pub(super) fn reserve(&mut self, groups: usize) {
        let aside = groups / GROUPS_PER_SPARE + 1;
        self.lines.reserve_exact((groups + aside) * self.stride);
    }

    fn push_group(&mut self) {
        let start = self.lines.len();
        self.lines.resize(start + self.stride, EMPTY);
        empty(&mut self.lines[start..]);
    }

    /// Puts rules into a bucket that has none; `packed` writes a rule's value and mask.
    pub(super) fn fill(
        &mut self,
        bucket: usize,
        slots: &[u32],
        mut packed: impl FnMut(u32, &mut [u64], &mut [u64]),
    ) {
        let words = self.stride / 2;
        let (mut value, mut mask) = (vec![0; words], vec![0; words]);
        let mut group = bucket;
        for (number, chunk) in slots.chunks(LANES).enumerate() {
            if number > 0 {
                let next = self.lines.len() / self.stride;
                self.push_group();
                self.lines[group * self.stride].0[NEXT] = next as u64;
                group = next;
            }
            let lines = &mut self.lines[group * self.stride..][..self.stride];
            for (lane, &slot) in chunk.iter().enumerate() {
                packed(slot, &mut value, &mut mask);
                set_slot(&mut lines[0], lane, slot);
                lines[0].0[PLAIN] |= 1 << lane;
                for word in 0..words {
                    lines[1 + 2 * word].0[lane] = value[word];
                    lines[2 + 2 * word].0[lane] = mask[word];
                }
            }
        }
    }

    /// Asks for the first group of a bucket.
    #[inline(always)]
    pub(super) fn prefetch(&self, bucket: usize) {
        crate::simd::prefetch_lines(&self.lines, bucket * self.stride, self.stride);
    }

    /// Asks for the second group of a bucket of which the first was asked for, if there is one.
    #[inline(always)]
    pub(super) fn prefetch_next(&self, bucket: usize) {
        let next = self.lines[bucket * self.stride].0[NEXT];
        let is_last = next == u64::MAX;
        // What is near already costs less than not to know whether there is more.
        let next = std::hint::select_unpredictable(is_last, bucket, next as usize);
        self.prefetch(next);
    }

    /// The best slot of a bucket that is better than `best` and matches; else `best`. The key's packed
    /// words are every `step`th.
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
            let lines = &self.lines[group * self.stride..][..self.stride];
            let (head, rest) = lines.split_first().expect("a group has lines");
            if slot_of(head, 0) >= best {
                return best;
            }
            let (pairs, _) = rest.as_chunks::<2>();
            let mut hits = simd.lanes(pairs, packed, step);
            while hits != 0 {
                let lane = hits.trailing_zeros() as usize;
                let slot = slot_of(head, lane);
                if slot >= best {
                    return best;
                }
                if head.0[PLAIN] >> lane & 1 != 0 || slots.exists_at(slot, version) {
                    return slot;
                }
                hits &= hits - 1;
            }
            if head.0[NEXT] == u64::MAX {
                return best;
            }
            group = head.0[NEXT] as usize;
        }
    }

    /// Puts a rule, which is not plain yet, among those of a bucket, if there is room; says which
    /// slots lie elsewhere now, from where and to where, the new one last.
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
            let head = &self.lines[other * self.stride];
            if taken(head)
                .next()
                .is_some_and(|lane| slot_of(head, lane) < slot)
            {
                group = other;
            }
            next = self.next_of(other);
        }
        if let Some(lane) = self.lane_for(group, slot) {
            self.write(lane, slot, value, mask);
            let (from, to) = (Lane::NONE, lane);
            return Some(vec![Move { slot, from, to }]);
        }
        let mut rules = self.rules_of(group);
        let is_full = rules.len() == LANES;
        let has_more = self.lines.len() + self.stride <= self.lines.capacity();
        if is_full && (length >= GROUPS_MAX || !has_more) {
            return None;
        }
        let place = rules.partition_point(|rule| rule.slot < slot);
        let new = Held {
            slot,
            from: Lane::NONE,
            is_plain: false,
        };
        rules.insert(place, new);
        let former = self.lines[group * self.stride..][..self.stride].to_vec();
        let words = |word: usize, from: Lane| match from {
            Lane::NONE => (value[word], mask[word]),
            Lane { lane, .. } => {
                let lane = usize::from(lane);
                (former[1 + 2 * word].0[lane], former[2 + 2 * word].0[lane])
            }
        };
        let mut moves = Vec::with_capacity(rules.len());
        if is_full {
            let next = self.lines.len() / self.stride;
            self.push_group();
            let after = self.lines[group * self.stride].0[NEXT];
            self.lines[group * self.stride].0[NEXT] = next as u64;
            self.lines[next * self.stride].0[NEXT] = after;
            let upper = rules.split_off(LANES / 2);
            self.put_rules(next, &upper, words, &mut moves);
        }
        self.put_rules(group, &rules, words, &mut moves);
        moves.sort_by_key(|moved| moved.from == Lane::NONE);
        Some(moves)
    }

    /// The lane without a rule, if there is one, between the rules of a group that are better than
    /// this slot and those that are worse.
    fn lane_for(&self, group: usize, slot: u32) -> Option<Lane> {
        let head = &self.lines[group * self.stride];
        let better = taken(head).filter(|&lane| slot_of(head, lane) < slot);
        let lane = better.last().map_or(0, |last| last + 1);
        let is_free = lane < LANES && !taken(head).any(|other| other == lane);
        is_free.then_some(Lane {
            group: group as u32,
            lane: lane as u8,
        })
    }

    /// Writes a rule, which is not plain yet, to a lane that has none.
    fn write(&mut self, at: Lane, slot: u32, value: &[u64], mask: &[u64]) {
        let lines = &mut self.lines[at.group as usize * self.stride..][..self.stride];
        let lane = usize::from(at.lane);
        lines[0].0[PLAIN] &= !((1 | 1 << VACANT_SHIFT) << lane);
        set_slot(&mut lines[0], lane, slot);
        for (word, (value, mask)) in value.iter().zip(mask).enumerate() {
            lines[1 + 2 * word].0[lane] = *value;
            lines[2 + 2 * word].0[lane] = *mask;
        }
    }

    fn next_of(&self, group: usize) -> Option<usize> {
        let next = self.lines[group * self.stride].0[NEXT];
        (next != u64::MAX).then_some(next as usize)
    }

    /// The rules of a group, the best first.
    fn rules_of(&self, group: usize) -> Vec<Held> {
        let head = &self.lines[group * self.stride];
        let mut rules = Vec::with_capacity(LANES + 1);
        rules.extend(taken(head).map(|lane| Held {
            slot: slot_of(head, lane),
            from: Lane {
                group: group as u32,
                lane: lane as u8,
            },
            is_plain: head.0[PLAIN] >> lane & 1 != 0,
        }));
        rules
    }

    /// Writes a group anew; `words` has a word's value and mask of a rule by where it was.
    fn put_rules(
        &mut self,
        group: usize,
        rules: &[Held],
        words: impl Fn(usize, Lane) -> (u64, u64),
        moves: &mut Vec<Move>,
    ) {
        let lines = &mut self.lines[group * self.stride..][..self.stride];
        let next = lines[0].0[NEXT];
        empty(lines);
        lines[0].0[NEXT] = next;
        for (lane, rule) in rules.iter().enumerate() {
            set_slot(&mut lines[0], lane, rule.slot);
            lines[0].0[PLAIN] |= u64::from(rule.is_plain) << lane;
            for word in 0..self.stride / 2 {
                let (value, mask) = words(word, rule.from);
                lines[1 + 2 * word].0[lane] = value;
                lines[2 + 2 * word].0[lane] = mask;
            }
            let to = Lane {
                group: group as u32,
                lane: lane as u8,
            };
            if rule.from != to {
                moves.push(Move {
                    slot: rule.slot,
                    from: rule.from,
                    to,
                });
            }
        }
    }

    /// The rules of a bucket: where, and which slot, the best first.
    pub(super) fn bucket(&self, bucket: usize) -> impl Iterator<Item = (Lane, u32)> {
        let groups = std::iter::successors(Some(bucket), |&group| self.next_of(group));
        groups.flat_map(|group| {
            let head = &self.lines[group * self.stride];
            taken(head).map(move |lane| {
                let place = Lane {
                    group: group as u32,
                    lane: lane as u8,
                };
                (place, slot_of(head, lane))
            })
        })
    }

    /// A rule's packed value and mask, word by word.
    pub(super) fn words(&self, at: Lane) -> impl Iterator<Item = (u64, u64)> {
        let rest = &self.lines[at.group as usize * self.stride + 1..][..self.stride - 1];
        let (pairs, _) = rest.as_chunks::<2>();
        let lane = usize::from(at.lane);
        pairs
            .iter()
            .map(move |[values, masks]| (values.0[lane], masks.0[lane]))
    }

    /// Says whether a rule exists at every version.
    pub(super) fn set_plain(&mut self, at: Lane, is_plain: bool) {
        let plain = &mut self.lines[at.group as usize * self.stride].0[PLAIN];
        *plain = *plain & !(1 << at.lane) | u64::from(is_plain) << at.lane;
    }

    /// Says that a rule has another slot, without another between.
    pub(super) fn renumber(&mut self, at: Lane, slot: u32) {
        let head = &mut self.lines[at.group as usize * self.stride];
        set_slot(head, usize::from(at.lane), slot);
    }

    /// Lets a lane match nothing from now on.
    pub(super) fn vacate(&mut self, at: Lane) {
        let start = at.group as usize * self.stride;
        let lines = &mut self.lines[start..][..self.stride];
        lines[0].0[PLAIN] |= 1 << (at.lane + VACANT_SHIFT);
        set_slot(&mut lines[0], usize::from(at.lane), 0);
        // One word that cannot match is enough.
        lines[1].0[usize::from(at.lane)] = u64::MAX;
        lines[2].0[usize::from(at.lane)] = 0;
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Line>()
    }
}

/// A rule while its group is written.
#[derive(Debug)]
struct Held {
    slot: u32,
    from: Lane,
    is_plain: bool,
}

/// A rule that lies elsewhere now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Move {
    pub(super) slot: u32,
    /// [`Lane::NONE`] of one that is new.
    pub(super) from: Lane,
    pub(super) to: Lane,
}

/// The lanes of a group that have rules.
fn taken(head: &Line) -> impl Iterator<Item = usize> {
    let is_taken = move |lane: &usize| {
        slot_of(head, *lane) != NO_SLOT && head.0[PLAIN] >> (lane + VACANT_SHIFT as usize) & 1 == 0
    };
    (0..LANES).filter(is_taken)
}

/// Makes a group of no rules, which nothing follows.
fn empty(lines: &mut [Line]) {
    lines.fill(EMPTY);
    for slots in &mut lines[0].0[..PLAIN] {
        *slots = u64::MAX;
    }
    lines[0].0[NEXT] = u64::MAX;
    // The values of the first packed word.
    lines[1] = Line([u64::MAX; LANES]);
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

    /// One bucket of so many even slots; each matches its own number.
    fn groups(count: u32) -> Groups {
        let mut groups = Groups::new(1);
        groups.reserve(count.div_ceil(LANES as u32).max(1) as usize + 2);
        groups.push_groups(1);
        let slots: Vec<u32> = (0..count).map(|slot| 2 * slot).collect();
        groups.fill(0, &slots, |slot, value, mask| {
            (value[0], mask[0]) = (slot.into(), u64::MAX);
        });
        groups
    }

    fn slots_of(groups: &Groups) -> Vec<u32> {
        groups.bucket(0).map(|(_, slot)| slot).collect()
    }

    /// Puts a slot in; checks the order, where it says that rules lie, and that each is found there.
    fn put(groups: &mut Groups, slot: u32) -> bool {
        let before: Vec<(Lane, u32)> = groups.bucket(0).collect();
        let Some(moves) = groups.insert(0, slot, &[slot.into()], &[u64::MAX]) else {
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
            let words: Vec<_> = groups.words(lane).collect();
            assert_eq!(words, [(slot.into(), u64::MAX)]);
        }
        true
    }

    #[test]
    fn rules_are_put_between_others() {
        for count in 0..=16 {
            for place in 0..=count {
                let mut groups = groups(count);
                assert!(put(&mut groups, 2 * place + 1));
            }
        }
    }

    #[test]
    fn a_bucket_is_parted_until_it_is_long() {
        let mut groups = groups(8);
        // From the best down, so that a full group is parted in half, and its better half stays.
        let done = (0..40).take_while(|step| put(&mut groups, 101 - 2 * step));
        let done = done.count();
        let lengths = std::iter::successors(Some(0), |&group| groups.next_of(group));
        assert_eq!(lengths.count(), GROUPS_MAX);
        assert!(
            (8..GROUPS_MAX * LANES - 8).contains(&done),
            "{done} were put in"
        );
    }

    #[test]
    fn a_vacant_lane_is_no_rule_and_makes_room() {
        let mut groups = groups(8);
        let lanes: Vec<Lane> = groups.bucket(0).map(|(lane, _)| lane).collect();
        groups.vacate(lanes[0]);
        groups.vacate(lanes[5]);
        assert_eq!(slots_of(&groups), [2, 4, 6, 8, 12, 14]);
        assert!(put(&mut groups, 10) && put(&mut groups, 0));
        assert_eq!(slots_of(&groups), [0, 2, 4, 6, 8, 10, 12, 14]);
        let (third, _) = groups.bucket(0).nth(2).expect("it is there");
        groups.renumber(third, 5);
        groups.vacate(lanes[0]);
        assert_eq!(slots_of(&groups), [2, 5, 6, 8, 10, 12, 14]);
        // The first lane has no rule, and the new one comes before those that are left.
        assert!(groups.insert(0, 1, &[1], &[u64::MAX]).is_some());
        assert_eq!(slots_of(&groups), [1, 2, 5, 6, 8, 10, 12, 14]);
        assert_eq!(groups.next_of(0), None, "no group was needed");
    }

    #[test]
    fn no_group_is_made_that_was_not_set_aside() {
        let mut groups = groups(8);
        groups.lines.shrink_to_fit();
        let before = groups.lines.capacity();
        assert!(!put(&mut groups, 3));
        assert_eq!(groups.lines.capacity(), before);
    }
}
