//! The partial hashes of one stage of a sub-table, each with its number of values.
//!
//! A staged lookup asks whether any rule begins like the key, and a wrong "no" is not allowed.
//! So a hash stays in the set as long as any value has it, whatever the versions of that
//! value's rules. A rule that has died but is not reclaimed, or is not born yet, keeps its
//! entry. A wrong "yes" comes from such a rule or from a collision of two 32-bit hashes. It
//! costs a wider mask, never a wrong answer.
//!
//! Open addressing like the index's: at most five slots in eight are used, and there are no
//! tombstones.

const FEWEST_SLOTS: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    /// The number of values with this hash; zero if the slot is empty.
    count: u32,
}

/// A multiset of hashes.
#[derive(Clone, Debug)]
pub(crate) struct CountingSet {
    /// The length is a power of two.
    slots: Box<[Slot]>,
    count: usize,
}

impl CountingSet {
    pub(crate) fn new() -> CountingSet {
        CountingSet {
            slots: empty_slots(FEWEST_SLOTS),
            count: 0,
        }
    }

    /// Whether a value has this hash.
    #[inline]
    pub(crate) fn contains(&self, hash: u64) -> bool {
        self.slots[self.slot_of(hash as u32)].count != 0
    }

    pub(crate) fn insert(&mut self, hash: u64) {
        let hash = hash as u32;
        let mut place = self.slot_of(hash);
        if self.slots[place].count == 0 {
            self.count += 1;
            if self.count * 8 > self.slots.len() * 5 {
                self.resize(self.slots.len() * 2);
                place = self.slot_of(hash);
            }
            self.slots[place].hash = hash;
        }
        self.slots[place].count += 1;
    }

    /// Removes one value with this hash, which must be present.
    pub(crate) fn remove(&mut self, hash: u64) {
        let mut hole = self.slot_of(hash as u32);
        assert!(self.slots[hole].count > 0, "a hash that was never inserted");
        self.slots[hole].count -= 1;
        if self.slots[hole].count > 0 {
            return;
        }
        let last = self.slots.len() - 1;
        let mut next = hole;
        loop {
            next = (next + 1) & last;
            if self.slots[next].count == 0 {
                break;
            }
            let home = self.slots[next].hash as usize & last;
            if (next.wrapping_sub(home) & last) >= (next.wrapping_sub(hole) & last) {
                self.slots[hole] = self.slots[next];
                hole = next;
            }
        }
        self.slots[hole].count = 0;
        self.count -= 1;
        if self.count * 8 < self.slots.len() && self.slots.len() > FEWEST_SLOTS {
            self.resize(self.slots.len() / 2);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// The slot with this hash, or the empty slot where it would go.
    #[inline]
    fn slot_of(&self, hash: u32) -> usize {
        let slots = &*self.slots;
        let mut place = hash as usize & (slots.len() - 1);
        while slots[place].count != 0 && slots[place].hash != hash {
            place = (place + 1) & (slots.len() - 1);
        }
        place
    }

    fn resize(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.slots, empty_slots(slots));
        for slot in old.iter().filter(|slot| slot.count != 0) {
            let place = self.slot_of(slot.hash);
            self.slots[place] = *slot;
        }
    }
}

fn empty_slots(count: usize) -> Box<[Slot]> {
    vec![Slot { hash: 0, count: 0 }; count].into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash_words;

    #[test]
    fn it_counts_what_a_map_counts() {
        let hash_of = |value: usize| hash_words(5, &[value as u64]) & 0xf000_0007;
        let mut set = CountingSet::new();
        let fresh = set.heap_bytes();
        let mut model = [0u32; 64];
        for step in 0..20_000u64 {
            let random = hash_words(9, &[step]);
            let value = (random % 64) as usize;
            if random >> 32 & 1 == 0 || model[value] == 0 {
                set.insert(hash_of(value));
                model[value] += 1;
            } else {
                set.remove(hash_of(value));
                model[value] -= 1;
            }
            let is_present = (0..64)
                .any(|other| model[other] > 0 && hash_of(other) as u32 == hash_of(value) as u32);
            assert_eq!(set.contains(hash_of(value)), is_present);
        }
        for (value, &count) in model.iter().enumerate() {
            (0..count).for_each(|_| set.remove(hash_of(value)));
        }
        assert_eq!(set.heap_bytes(), fresh);
    }
}
