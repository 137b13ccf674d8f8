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
//! record is looked at once in 256 occupied slots.
//!
//! 1. At most five slots in eight are occupied (3.5 probes for a miss in the mean), and at least
//!    one in eight unless there are [`FEWEST_SLOTS`].
//! 2. There are no tombstones: between a record's home and its slot no slot is empty, and removal
//!    keeps it so (Knuth, *The Art of Computer Programming* 3, section 6.4, algorithm R).
//! 3. Record numbers are below [`RECORDS_MAX`].

/// Records that an index can name.
pub(crate) const RECORDS_MAX: usize = (1 << RECORD_BITS) - 1;

const RECORD_BITS: u32 = 24;
const FEWEST_SLOTS: usize = 4;
const EMPTY: u32 = u32::MAX;

/// Which records have a hash, or at least one with the same slot and tag.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    /// A power of two of them.
    slots: Box<[u32]>,
    count: usize,
}

impl Index {
    pub(crate) fn new() -> Index {
        Index {
            slots: empty_slots(FEWEST_SLOTS),
            count: 0,
        }
    }

    /// Asks for the slots of `hash` to be brought into the cache.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        crate::simd::prefetch(&self.slots, self.home(hash));
    }

    /// The first candidate at or after a probe's place; `place` starts at [`Index::home`].
    #[inline(always)]
    pub(crate) fn next_candidate(&self, hash: u64, place: &mut usize) -> Option<u32> {
        let slots = &*self.slots;
        let tag = tag(hash);
        loop {
            let slot = slots[*place & (slots.len() - 1)];
            if slot == EMPTY {
                return None;
            }
            *place += 1;
            if slot & !RECORD_MASK == tag {
                return Some(slot & RECORD_MASK);
            }
        }
    }

    /// The record with this hash that `is_it`.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
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
    pub(crate) fn home(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    /// Adds a record; `hash_of` gives the hash of any record present.
    pub(crate) fn insert(&mut self, hash: u64, record: u32, hash_of: impl Fn(u32) -> u64) {
        assert!(
            (record as usize) < RECORDS_MAX,
            "more records than an index can name"
        );
        if (self.count + 1) * 8 > self.slots.len() * 5 {
            self.resize(self.slots.len() * 2, hash_of);
        }
        self.place(hash, record);
        self.count += 1;
    }

    /// Puts record `new` in the place of `old`, which has the same hash.
    pub(crate) fn replace(&mut self, hash: u64, old: u32, new: u32) {
        let slot = self.slot_of(hash, old);
        self.slots[slot] = tag(hash) | new;
    }

    /// Removes a record.
    pub(crate) fn remove(&mut self, hash: u64, record: u32, hash_of: impl Fn(u32) -> u64) {
        let last = self.slots.len() - 1;
        let mut hole = self.slot_of(hash, record);
        let mut next = hole;
        loop {
            next = (next + 1) & last;
            let slot = self.slots[next];
            if slot == EMPTY {
                break;
            }
            let home = self.home(hash_of(slot & RECORD_MASK));
            // The record may move back unless its home lies after the hole (invariant 2).
            if (next.wrapping_sub(home) & last) >= (next.wrapping_sub(hole) & last) {
                self.slots[hole] = slot;
                hole = next;
            }
        }
        self.slots[hole] = EMPTY;
        self.count -= 1;
        if self.count * 8 < self.slots.len() && self.slots.len() > FEWEST_SLOTS {
            self.resize(self.slots.len() / 2, hash_of);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }

    fn slot_of(&self, hash: u64, record: u32) -> usize {
        let mut place = self.home(hash);
        while self
            .next_candidate(hash, &mut place)
            .expect("the record is present")
            != record
        {}
        (place - 1) & (self.slots.len() - 1)
    }

    fn place(&mut self, hash: u64, record: u32) {
        let last = self.slots.len() - 1;
        let mut place = self.home(hash);
        while self.slots[place] != EMPTY {
            place = (place + 1) & last;
        }
        self.slots[place] = tag(hash) | record;
    }

    fn resize(&mut self, slots: usize, hash_of: impl Fn(u32) -> u64) {
        let old = std::mem::replace(&mut self.slots, empty_slots(slots));
        for slot in old.iter().filter(|&&slot| slot != EMPTY) {
            let record = slot & RECORD_MASK;
            self.place(hash_of(record), record);
        }
    }
}

const RECORD_MASK: u32 = (1 << RECORD_BITS) - 1;

fn empty_slots(count: usize) -> Box<[u32]> {
    vec![EMPTY; count].into_boxed_slice()
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
                let found = index.find(hash_of(record), |candidate| candidate == record);
                assert_eq!(found.is_some(), model.contains(&record));
            }
        }
        for record in model {
            index.remove(hash_of(record), record, hash_of);
        }
        assert_eq!(index.heap_bytes(), fresh);
    }
}
