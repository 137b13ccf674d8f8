//! The exact level: maps a whole key to the segment that answers it.
//!
//! A key's hash selects a set of [`WAYS`] slots. A slot has a tag of the hash, the segment, and
//! the segment's generation when the slot was filled. A slot is used only if the key is equal
//! in every word and the segment still has that generation. So a slot never outlives its
//! segment.
//!
//! The cache starts small and doubles up to a bound. Doubling discards all slots; the masked
//! level fills them again.

/// Slots of a set.
const WAYS: usize = 4;

/// Initial number of slots.
const FIRST: usize = 64;

/// No segment.
const EMPTY: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Slot {
    tag: u32,
    segment: u32,
    generation: u32,
}

const FREE: Slot = Slot {
    tag: 0,
    segment: EMPTY,
    generation: 0,
};

/// An exact-match cache of keys.
#[derive(Clone, Debug)]
pub(crate) struct Microflow {
    words: usize,
    slots: Vec<Slot>,
    keys: Vec<u64>,
    slots_max: usize,
    used: usize,
    turn: usize,
}

impl Microflow {
    /// Creates an empty cache for keys of `words` words; `slots_max` may be 0.
    pub(crate) fn new(words: usize, slots_max: usize) -> Microflow {
        let slots_max = slots_max.next_power_of_two() * usize::from(slots_max >= WAYS);
        let mut empty = Microflow {
            words,
            slots: Vec::new(),
            keys: Vec::new(),
            slots_max,
            used: 0,
            turn: 0,
        };
        empty.resize(FIRST.min(slots_max));
        empty
    }

    fn resize(&mut self, slots: usize) {
        self.slots = vec![FREE; slots];
        self.keys = vec![0; slots * self.words];
        self.used = 0;
    }

    #[inline]
    fn set_of(&self, hash: u64) -> usize {
        (hash as usize & (self.slots.len() / WAYS - 1)) * WAYS
    }

    /// Finds the segment of a key, with its generation when the key was stored.
    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &[u64]) -> Option<(u32, u32)> {
        if self.slots.is_empty() {
            return None;
        }
        let first = self.set_of(hash);
        let tag = (hash >> 32) as u32;
        for (way, slot) in self.slots[first..first + WAYS].iter().enumerate() {
            if slot.tag != tag || slot.segment == EMPTY {
                continue;
            }
            let at = (first + way) * self.words;
            let mut words = self.keys[at..at + self.words].iter().zip(key);
            if words.all(|(own, other)| own == other) {
                return Some((slot.segment, slot.generation));
            }
        }
        None
    }

    /// Stores the segment of a key.
    pub(crate) fn put(&mut self, hash: u64, key: &[u64], segment: u32, generation: u32) {
        if self.slots.is_empty() {
            return;
        }
        if self.used * 4 > self.slots.len() * 3 && self.slots.len() < self.slots_max {
            self.resize(self.slots.len() * 2);
        }
        let first = self.set_of(hash);
        let tag = (hash >> 32) as u32;
        let is_same = |way: &usize| {
            let slot = &self.slots[first + way];
            let at = (first + way) * self.words;
            slot.segment != EMPTY && slot.tag == tag && self.keys[at..at + self.words] == *key
        };
        let is_free = |way: &usize| self.slots[first + way].segment == EMPTY;
        let place = (0..WAYS).find(is_same).or_else(|| (0..WAYS).find(is_free));
        let way = place.unwrap_or_else(|| {
            self.turn += 1;
            self.turn % WAYS
        });
        let slot = &mut self.slots[first + way];
        self.used += usize::from(slot.segment == EMPTY);
        *slot = Slot {
            tag,
            segment,
            generation,
        };
        let at = (first + way) * self.words;
        self.keys[at..at + self.words].copy_from_slice(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_until_others_take_its_place() {
        let mut microflow = Microflow::new(2, 256);
        for number in 0..1_000_u64 {
            let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let key = [number, number * 3];
            assert_eq!(microflow.find(hash, &key), None, "{number}");
            microflow.put(hash, &key, number as u32, 7);
            assert_eq!(microflow.find(hash, &key), Some((number as u32, 7)));
            // A different key with the same hash does not match.
            assert_eq!(microflow.find(hash, &[number, 1 << 40]), None);
        }
        assert_eq!(microflow.slots.len(), 256);
    }

    #[test]
    fn one_without_slots_remembers_nothing() {
        let mut microflow = Microflow::new(1, 0);
        microflow.put(1, &[1], 1, 1);
        assert_eq!(microflow.find(1, &[1]), None);
    }
}
