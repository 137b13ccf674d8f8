//! From a hash to the number of a record: open addressing in 32-bit slots.
//!
//! ```text
//!   slot = tag (8 bits of the hash, from the top) | record (24 bits);  all ones = empty
//!   find: from slot (hash mod slots) onwards until an empty one:
//!             a slot with the hash's tag is a candidate, which the caller compares
//!   remove: empty the slot, then move back every later record of the run whose home allows it
//! ```
//!
//! The records lie elsewhere, keys included; that is why a slot takes four bytes and why a miss,
//! which is what most lookups in most sub-tables are, reads one cache line and no record: a wrong
//! record is looked at once in 256 occupied slots. Slots come in lines of sixteen, and a search may
//! look at all of the first line together.
//!
//! 1. At most five slots in eight are occupied (3.5 probes for a miss in the mean), and at least
//!    one in eight unless there are [`FEWEST_SLOTS`].
//! 2. There are no tombstones: between a record's home and its slot no slot is empty, and removal
//!    keeps it so (Knuth, *The Art of Computer Programming* 3, section 6.4, algorithm R).
//! 3. Record numbers are below [`RECORDS_MAX`].

use crate::simd::line::Line;

/// Records that an index can name.
pub(crate) const RECORDS_MAX: usize = (1 << RECORD_BITS) - 1;

const RECORD_BITS: u32 = 24;
const FEWEST_SLOTS: usize = Line::SLOTS;
const EMPTY: u32 = Line::EMPTY;

/// Which records have a hash, or at least one with the same slot and tag.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    /// A power of two of them.
    lines: Box<[Line]>,
    /// One less than slots.
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

    /// Asks for the slots of `hash` to be brought into the cache.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        crate::simd::prefetch(&self.lines, self.home(hash) / Line::SLOTS);
    }

    /// The first candidate for a hash, if there is one.
    ///
    /// All slots of a line are looked at together (`simd::line`), so that no branch depends on how
    /// many there are before the right one.
    #[inline(always)]
    pub(crate) fn candidate(&self, hash: u64) -> Option<u32> {
        let (line, from) = self.line(hash);
        let empty = line.alike(EMPTY, EMPTY) >> from;
        // Those before the first empty one.
        let before = !empty & empty.wrapping_sub(1);
        let alike = line.alike(tag(hash), !RECORD_MASK) >> from & before;
        if alike != 0 {
            return Some(record_at(line, from + alike.trailing_zeros()));
        }
        if empty != 0 {
            return None;
        }
        self.candidate_behind(hash)
    }

    /// The same where there is one, as a rule: one behind an empty slot, which is never the
    /// right one, may be given too, so that the empty ones need not be looked for.
    #[inline(always)]
    pub(crate) fn likely(&self, hash: u64) -> Option<u32> {
        let (line, from) = self.line(hash);
        let alike = line.alike(tag(hash), !RECORD_MASK) >> from;
        if alike != 0 {
            let record = record_at(line, from + alike.trailing_zeros());
            // An empty slot looks like one with the highest tag.
            if record < RECORDS_MAX as u32 {
                return Some(record);
            }
        }
        self.likely_behind(hash)
    }

    #[cold]
    fn likely_behind(&self, hash: u64) -> Option<u32> {
        self.candidate(hash)
    }

    /// The first candidate in the lines behind the one where a search begins.
    #[cold]
    fn candidate_behind(&self, hash: u64) -> Option<u32> {
        let mut place = (self.home(hash) | (Line::SLOTS - 1)) + 1;
        self.next_candidate(hash, &mut place)
    }

    /// The line where a search begins, and at which of its slots.
    #[inline(always)]
    fn line(&self, hash: u64) -> (&Line, u32) {
        let home = self.home(hash);
        let line = &self.lines[home / Line::SLOTS];
        (line, (home % Line::SLOTS) as u32)
    }

    /// The first candidate at or after a probe's place; `place` starts at [`Index::home`].
    #[inline(always)]
    fn next_candidate(&self, hash: u64, place: &mut usize) -> Option<u32> {
        let tag = tag(hash);
        loop {
            let slot = self.slot(*place);
            if slot == EMPTY {
                return None;
            }
            *place += 1;
            if slot & !RECORD_MASK == tag {
                return Some(slot & RECORD_MASK);
            }
        }
    }

    #[inline(always)]
    fn slots(&self) -> usize {
        self.last + 1
    }

    /// The slot at a place, of which those past the end are those from the beginning on.
    #[inline(always)]
    fn slot(&self, place: usize) -> u32 {
        self.lines[(place & self.last) / Line::SLOTS].0[place % Line::SLOTS]
    }

    fn slot_mut(&mut self, place: usize) -> &mut u32 {
        &mut self.lines[(place & self.last) / Line::SLOTS].0[place % Line::SLOTS]
    }

    /// The record with this hash that `is_it`.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let record = self.candidate(hash)?;
        if is_it(record) {
            return Some(record);
        }
        self.find_behind(hash, is_it)
    }

    /// The same, one candidate after the other: of what begins alike, one in 256 is another's.
    #[cold]
    fn find_behind(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut place = self.home(hash);
        loop {
            let record = self.next_candidate(hash, &mut place)?;
            if is_it(record) {
                return Some(record);
            }
        }
    }

    /// Where a probe for `hash` starts.
    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        hash as usize & self.last
    }

    /// Adds a record; `hash_of` gives the hash of any record present.
    pub(crate) fn insert(&mut self, hash: u64, record: u32, hash_of: impl Fn(u32) -> u64) {
        assert!(
            (record as usize) < RECORDS_MAX,
            "more records than an index can name"
        );
        if (self.count + 1) * 8 > self.slots() * 5 {
            self.resize(self.slots() * 2, hash_of);
        }
        self.place(hash, record);
        self.count += 1;
    }

    /// Puts record `new` in the place of `old`, which has the same hash.
    pub(crate) fn replace(&mut self, hash: u64, old: u32, new: u32) {
        let slot = self.slot_of(hash, old);
        *self.slot_mut(slot) = tag(hash) | new;
    }

    /// Removes a record.
    pub(crate) fn remove(&mut self, hash: u64, record: u32, hash_of: impl Fn(u32) -> u64) {
        let last = self.last;
        let mut hole = self.slot_of(hash, record);
        let mut next = hole;
        loop {
            next = (next + 1) & last;
            let slot = self.slot(next);
            if slot == EMPTY {
                break;
            }
            let home = self.home(hash_of(slot & RECORD_MASK));
            // The record may move back unless its home lies after the hole (invariant 2).
            if (next.wrapping_sub(home) & last) >= (next.wrapping_sub(hole) & last) {
                *self.slot_mut(hole) = slot;
                hole = next;
            }
        }
        *self.slot_mut(hole) = EMPTY;
        self.count -= 1;
        if self.count * 8 < self.slots() && self.slots() > FEWEST_SLOTS {
            self.resize(self.slots() / 2, hash_of);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    fn slot_of(&self, hash: u64, record: u32) -> usize {
        let mut place = self.home(hash);
        while self
            .next_candidate(hash, &mut place)
            .expect("the record is present")
            != record
        {}
        (place - 1) & self.last
    }

    fn place(&mut self, hash: u64, record: u32) {
        let mut place = self.home(hash);
        while self.slot(place) != EMPTY {
            place += 1;
        }
        *self.slot_mut(place) = tag(hash) | record;
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

#[inline(always)]
fn record_at(line: &Line, slot: u32) -> u32 {
    line.0[slot as usize % Line::SLOTS] & RECORD_MASK
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

    #[test]
    fn it_holds_what_a_set_holds() {
        // Few homes, so that runs are long and wrap around.
        let hash_of = |record: u32| hash_words(5, &[u64::from(record)]) & (0xff << 56 | 7);
        let (mut index, mut model) = (Index::new(), BTreeSet::new());
        let fresh = index.heap_bytes();
        for step in 0..20_000u64 {
            let record = (hash_words(9, &[step]) % 40) as u32;
            if model.remove(&record) {
                index.remove(hash_of(record), record, hash_of);
            } else {
                index.insert(hash_of(record), record, hash_of);
                model.insert(record);
            }
            for record in 0..40 {
                let hash = hash_of(record);
                let found = index.find(hash, |candidate| candidate == record);
                assert_eq!(found.is_some(), model.contains(&record));
                let first = index.next_candidate(hash, &mut index.home(hash));
                assert_eq!(index.candidate(hash), first);
                // It may tell of another, but not of none.
                let likely = index.likely(hash);
                assert!(likely.is_some() || first.is_none());
                assert!(likely.is_none_or(|record| (record as usize) < RECORDS_MAX));
            }
        }
        for record in model {
            index.remove(hash_of(record), record, hash_of);
        }
        assert_eq!(index.heap_bytes(), fresh);
    }
}
