//! Maps a hash to a record number: open addressing in 32-bit slots.
//!
//! ```text
//!   slot = tag (8 bits of the hash, from the top) | record (24 bits);  all ones = empty
//!   line = 16 slots, one cache line
//!   find: from slot (hash mod slots) to the end of its line, then on from the line's beginning, then
//!             the same in the next lines, until an empty slot:
//!             a slot with the hash's tag is a candidate, which the caller compares
//!   remove: empty the slot, then move back every later record of the run whose home allows it
//! ```
//!
//! The records are stored elsewhere, with their keys, so a slot takes only four bytes. Most
//! lookups in most sub-tables miss. A miss reads one cache line and no record: only one in 256
//! occupied slots leads to a wrong record. All slots of a line are compared together. A search
//! wraps around within its line, so few searches leave it.
//!
//! 1. At most five slots in eight are occupied, and at least one in eight unless there are
//!    [`FEWEST_SLOTS`]. So full lines are rare, and at least one line is not full.
//! 2. There are no tombstones: no slot is empty on the way from a record's home to its slot,
//!    and removal preserves this. Within a line this is Knuth, *The Art of Computer
//!    Programming* 3, section 6.4, algorithm R. A full line that loses a record takes back one
//!    that had no room there from a later line.
//! 3. Record numbers are below [`RULES_MAX`].

use crate::simd::line::Line;
use crate::simd::{Plain, Simd};

/// The most rules that a classifier can hold, including those that wait to be reclaimed.
///
/// Every record of an index has a 24-bit number, and one number means "no record".
pub const RULES_MAX: usize = (1 << RECORD_BITS) - 1;

const RECORD_BITS: u32 = 24;
const FEWEST_SLOTS: usize = Line::SLOTS;
const EMPTY: u32 = Line::EMPTY;

/// Finds records by hash; a result may be another record with the same slot and tag.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    /// The length is a power of two.
    lines: Box<[Line]>,
    /// The number of slots minus one.
    last: usize,
    count: usize,
}

impl Index {
    pub(crate) fn new() -> Index {
        Index {
            lines: Line::empty(1),
            last: FEWEST_SLOTS - 1,
            count: 0,
        }
    }

    /// Prefetches the slots of `hash`.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        crate::simd::prefetch(&self.lines, self.home(hash) / Line::SLOTS);
    }

    /// The first candidate for a hash, if there is one.
    ///
    /// All slots of a line are compared together (`simd::line`), so no branch depends on the
    /// number of slots before the right one.
    #[inline(always)]
    pub(crate) fn candidate<S: Simd>(&self, simd: S, hash: u64) -> Option<u32> {
        let home = self.home(hash);
        let line = &self.lines[home / Line::SLOTS];
        let empty = from_home(simd.alike(line, EMPTY, EMPTY), home);
        // The slots before the first empty one.
        let before = !empty & empty.wrapping_sub(1);
        let alike = from_home(simd.alike(line, tag(hash), !RECORD_MASK), home) & before;
        if alike != 0 {
            return Some(record_at(line, home, alike));
        }
        match empty {
            0 => self.candidate_behind(hash),
            _ => None,
        }
    }

    /// As [`Index::candidate`], without branches: a record number, or [`RULES_MAX`] or more
    /// for none.
    ///
    /// May return a record behind an empty slot, which is never the right one.
    #[inline(always)]
    pub(crate) fn likely<S: Simd>(&self, simd: S, hash: u64) -> u32 {
        let home = self.home(hash);
        let line = &self.lines[home / Line::SLOTS];
        let alike = from_home(simd.alike(line, tag(hash), !RECORD_MASK), home);
        if alike | simd.alike(line, EMPTY, EMPTY) == 0 {
            return self.candidate_behind(hash).unwrap_or(EMPTY);
        }
        // Without a hit the result is the highest number, which is no record.
        record_at(line, home, alike) | u32::from(alike == 0).wrapping_neg()
    }

    /// The first candidate in the lines behind the home line.
    #[cold]
    fn candidate_behind(&self, hash: u64) -> Option<u32> {
        self.candidates(hash).next()
    }

    /// All slots, in search order.
    fn way(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let (home, last) = (self.home(hash), self.lines.len() - 1);
        (0..=last).flat_map(move |step| {
            let line = (home / Line::SLOTS + step) & last;
            (home..home + Line::SLOTS).map(move |slot| line * Line::SLOTS + slot % Line::SLOTS)
        })
    }

    /// The slots before the first empty one.
    fn run(&self, hash: u64) -> impl Iterator<Item = usize> {
        self.way(hash).take_while(|&slot| self.slot(slot) != EMPTY)
    }

    /// All candidates for a hash.
    fn candidates(&self, hash: u64) -> impl Iterator<Item = u32> {
        let slots = self.run(hash).map(|slot| self.slot(slot));
        let alike = slots.filter(move |slot| slot & !RECORD_MASK == tag(hash));
        alike.map(|slot| slot & RECORD_MASK)
    }

    #[inline(always)]
    fn slots(&self) -> usize {
        self.last + 1
    }

    #[inline(always)]
    fn slot(&self, place: usize) -> u32 {
        self.lines[place / Line::SLOTS].0[place % Line::SLOTS]
    }

    fn slot_mut(&mut self, place: usize) -> &mut u32 {
        &mut self.lines[place / Line::SLOTS].0[place % Line::SLOTS]
    }

    /// The record with this hash for which `is_it` is true.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let record = self.candidate(Plain, hash)?;
        if is_it(record) {
            return Some(record);
        }
        self.find_behind(hash, is_it)
    }

    /// As [`Index::find`], one candidate after another: one in 256 tags matches by chance.
    #[cold]
    fn find_behind(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.candidates(hash).find(|&record| is_it(record))
    }

    /// The slot where a search for `hash` starts.
    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        hash as usize & self.last
    }

    /// Adds a record; `hash_of` returns the hash of any present record.
    pub(crate) fn insert(&mut self, hash: u64, record: u32, hash_of: impl Fn(u32) -> u64) {
        assert!(
            (record as usize) < RULES_MAX,
            "more records than an index can name"
        );
        if (self.count + 1) * 8 > self.slots() * 5 {
            self.resize(self.slots() * 2, hash_of);
        }
        self.place(hash, record);
        self.count += 1;
    }

    /// Puts record `new` in the slot of `old`, which has the same hash.
    pub(crate) fn replace(&mut self, hash: u64, old: u32, new: u32) {
        let slot = self.slot_of(hash, old);
        *self.slot_mut(slot) = tag(hash) | new;
    }

    /// Removes a record.
    pub(crate) fn remove(&mut self, hash: u64, record: u32, hash_of: impl Fn(u32) -> u64) {
        let mut hole = self.slot_of(hash, record);
        loop {
            let was_full = self.is_full(hole / Line::SLOTS);
            hole = self.empty(hole, &hash_of);
            if !was_full {
                break;
            }
            let Some(waiting) = self.waiting(hole / Line::SLOTS, &hash_of) else {
                break;
            };
            *self.slot_mut(hole) = self.slot(waiting);
            hole = waiting;
        }
        self.count -= 1;
        if self.count * 8 < self.slots() && self.slots() > FEWEST_SLOTS {
            self.resize(self.slots() / 2, hash_of);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Empties a slot and moves later records of its line back; returns the slot that is now
    /// empty.
    fn empty(&mut self, mut hole: usize, hash_of: impl Fn(u32) -> u64) -> usize {
        let first = hole;
        for step in 1..Line::SLOTS {
            let next = hole / Line::SLOTS * Line::SLOTS + (first + step) % Line::SLOTS;
            let slot = self.slot(next);
            if slot == EMPTY {
                break;
            }
            let home = self.home(hash_of(slot & RECORD_MASK));
            // The record may move back unless its home lies after the hole (invariant 2).
            let way = |from: usize| next.wrapping_sub(from) % Line::SLOTS;
            if way(home) >= way(hole) {
                *self.slot_mut(hole) = slot;
                hole = next;
            }
        }
        *self.slot_mut(hole) = EMPTY;
        hole
    }

    /// The slot of a record behind the full `line` that had no room in it.
    fn waiting(&self, line: usize, hash_of: impl Fn(u32) -> u64) -> Option<usize> {
        let last = self.lines.len() - 1;
        for step in 1..=last {
            let behind = (line + step) & last;
            let has_come_past = |slot: &usize| {
                let slot = self.slot(*slot);
                let home = || self.home(hash_of(slot & RECORD_MASK)) / Line::SLOTS;
                slot != EMPTY && behind.wrapping_sub(home()) & last >= step
            };
            let slots = behind * Line::SLOTS..(behind + 1) * Line::SLOTS;
            let found = slots.into_iter().find(has_come_past);
            if found.is_some() || !self.is_full(behind) {
                return found;
            }
        }
        None
    }

    fn is_full(&self, line: usize) -> bool {
        !self.lines[line].0.contains(&EMPTY)
    }

    fn slot_of(&self, hash: u64, record: u32) -> usize {
        let slot = self
            .run(hash)
            .find(|&slot| self.slot(slot) == tag(hash) | record);
        slot.expect("the record is present")
    }

    fn place(&mut self, hash: u64, record: u32) {
        let slot = self.way(hash).find(|&slot| self.slot(slot) == EMPTY);
        *self.slot_mut(slot.expect("there is room")) = tag(hash) | record;
    }

    fn resize(&mut self, slots: usize, hash_of: impl Fn(u32) -> u64) {
        let old = std::mem::replace(&mut self.lines, Line::empty(slots / Line::SLOTS));
        self.last = slots - 1;
        let slots = old.iter().flat_map(|line| line.0);
        for slot in slots.filter(|&slot| slot != EMPTY) {
            let record = slot & RECORD_MASK;
            self.place(hash_of(record), record);
        }
    }
}

const RECORD_MASK: u32 = (1 << RECORD_BITS) - 1;

/// Rotates the bits of a line's slots so that the home's comes first.
#[inline(always)]
fn from_home(bits: u32, home: usize) -> u32 {
    u32::from((bits as u16).rotate_right((home % Line::SLOTS) as u32))
}

/// The record of the first slot with a set bit, from the home on.
#[inline(always)]
fn record_at(line: &Line, home: usize, bits: u32) -> u32 {
    line.0[(home + bits.trailing_zeros() as usize) % Line::SLOTS] & RECORD_MASK
}

#[inline(always)]
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32 & !RECORD_MASK
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash_words;
    use std::collections::BTreeSet;

    /// Few homes: all in the first line, near the end of the last line (so that records
    /// without room continue in the first), or in every line.
    #[test]
    fn it_holds_what_a_set_holds() {
        for (kept, set) in [(7, 0), (3, 13), (0xf, usize::MAX & !0xf), (0x3f, 0)] {
            holds_what_a_set_holds(kept, set as u64 & 0x00ff_ffff_ffff_ffff);
        }
    }

    fn holds_what_a_set_holds(kept: u64, set: u64) {
        // Half of these are present at a time: with one home they take three lines or more.
        const RECORDS: u64 = 110;
        let hash_of = |record: u32| hash_words(5, &[u64::from(record)]) & (0xff << 56 | kept) | set;
        let (mut index, mut model) = (Index::new(), BTreeSet::new());
        let fresh = index.heap_bytes();
        for step in 0..10_000u64 {
            let record = (hash_words(9, &[step]) % RECORDS) as u32;
            if model.remove(&record) {
                index.remove(hash_of(record), record, hash_of);
            } else {
                index.insert(hash_of(record), record, hash_of);
                model.insert(record);
            }
            for record in 0..RECORDS as u32 {
                let hash = hash_of(record);
                let found = index.find(hash, |candidate| candidate == record);
                assert_eq!(found.is_some(), model.contains(&record));
                let first = index.candidates(hash).next();
                assert_eq!(index.candidate(Plain, hash), first);
                // It may return another record, but never none.
                let likely = index.likely(Plain, hash);
                assert!((likely as usize) < RULES_MAX || first.is_none());
            }
        }
        for record in model {
            index.remove(hash_of(record), record, hash_of);
        }
        assert_eq!(index.heap_bytes(), fresh);
    }
}
