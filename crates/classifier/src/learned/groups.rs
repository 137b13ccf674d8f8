//! The rules of an iSet's buckets, in groups of eight that are compared at once.
//!
//! ```text
//!   group:  line 0         slots of 8 rules (32 bits each) | plain, a bit each | next group
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
//! 1. Within a bucket the slots rise: the first match of a group is its best.
//! 2. A lane without a rule matches nothing: its value has bits outside its mask, which is zero.
//! 3. A rule is plain if it exists at every version that may be looked up. Of others the slot is
//!    asked.

use crate::Version;

use super::partition::LANES;
use super::slots::{NO_SLOT, Slots};

/// Eight words: a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Line([u64; LANES]);

const EMPTY: Line = Line([0; LANES]);
/// The words of line 0 after the slots.
const PLAIN: usize = 4;
const NEXT: usize = 5;

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

    /// Makes room for so many more groups, and no more.
    pub(super) fn reserve(&mut self, groups: usize) {
        self.lines.reserve_exact(groups * self.stride);
    }

    fn push_group(&mut self) {
        let start = self.lines.len();
        self.lines.resize(start + self.stride, EMPTY);
        let group = &mut self.lines[start..];
        for slots in &mut group[0].0[..PLAIN] {
            *slots = u64::MAX;
        }
        group[0].0[NEXT] = u64::MAX;
        // The values of the first packed word.
        group[1] = Line([u64::MAX; LANES]);
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
        for line in 0..self.stride {
            crate::simd::prefetch(&self.lines, bucket * self.stride + line);
        }
    }

    /// The best slot of a bucket that is better than `best` and matches; else `best`.
    #[inline(always)]
    pub(super) fn improve(
        &self,
        bucket: usize,
        packed: impl Iterator<Item = u64> + Clone,
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
            let mut hits = matches(rest, packed.clone());
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

    /// The rules of a bucket: where, and which slot, the best first.
    pub(super) fn bucket(&self, bucket: usize) -> impl Iterator<Item = (Lane, u32)> {
        let next_of = |&group: &usize| {
            let next = self.lines[group * self.stride].0[NEXT];
            (next != u64::MAX).then_some(next as usize)
        };
        let groups = std::iter::successors(Some(bucket), next_of);
        groups.flat_map(|group| {
            let head = &self.lines[group * self.stride];
            let lanes = (0..LANES).map(move |lane| {
                let place = Lane {
                    group: group as u32,
                    lane: lane as u8,
                };
                (place, slot_of(head, lane))
            });
            lanes.filter(|(_, slot)| *slot != NO_SLOT)
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

    /// Lets a lane match nothing from now on; its slot stays, so that the order does.
    pub(super) fn vacate(&mut self, at: Lane) {
        let start = at.group as usize * self.stride;
        let lines = &mut self.lines[start..][..self.stride];
        for line in &mut lines[1..] {
            line.0[usize::from(at.lane)] = 0;
        }
        lines[1].0[usize::from(at.lane)] = u64::MAX;
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Line>()
    }
}

/// Which lanes match a key, a bit each: `rest` has values and masks in turn.
#[inline(always)]
fn matches(rest: &[Line], packed: impl Iterator<Item = u64>) -> u32 {
    let mut wrong = [0u64; LANES];
    let (pairs, _) = rest.as_chunks::<2>();
    for ([values, masks], word) in pairs.iter().zip(packed) {
        for ((wrong, value), mask) in wrong.iter_mut().zip(values.0).zip(masks.0) {
            *wrong |= word & mask ^ value;
        }
    }
    let mut hits = [0u64; LANES];
    for (lane, (hit, wrong)) in hits.iter_mut().zip(wrong).enumerate() {
        *hit = if wrong == 0 { 1 << lane } else { 0 };
    }
    let [a, b, c, d, e, f, g, h] = hits;
    (((a | e) | (b | f)) | ((c | g) | (d | h))) as u32
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
