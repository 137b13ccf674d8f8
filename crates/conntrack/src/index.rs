//! A hash table from tuples to small numbers, which does not hold the tuples.
//!
//! ```text
//!   entries: hash | target     place = hash & mask, then the next free one
//! ```
//!
//! The targets lead to the tuples, so an entry takes 8 bytes where a tuple takes 42. A lookup
//! compares hashes first, and looks at a tuple only where 32 bits agree. Open addressing with
//! linear probing; a removal moves later entries back (D. Knuth, "The Art of Computer
//! Programming", volume 3, section 6.4, algorithm R), so there are no tombstones.
//!
//! 1. No target is there twice.
//! 2. Between an entry's place and the entry there is no free one.
//! 3. At most three quarters of the entries are in use, so every probe ends.

use prefetch_index::prefetch_index;

/// Marks a free entry.
const FREE: u32 = u32::MAX;

/// The smallest number of entries.
const LEAST: usize = 16;

/// The table; see the module's essay.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// A power of 2, or none.
    entries: Vec<ConnectionEntry>,
    len: usize,
}

/// One entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionEntry {
    hash: u32,
    target: u32,
}

impl Index {
    /// The target with this hash for which `is_it` holds.
    pub(crate) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let at = self.position(hash, is_it)?;
        Some(self.entries[at].target)
    }

    /// Prefetches what a lookup of this hash reads.
    pub(crate) fn prefetch(&self, hash: u32) {
        if let Some(mask) = self.entries.len().checked_sub(1) {
            prefetch_index(&self.entries, hash as usize & mask);
        }
    }

    /// Adds a target that is not there, and is not `u32::MAX`.
    pub(crate) fn insert(&mut self, hash: u32, target: u32) {
        if (self.len + 1) * 4 > self.entries.len() * 3 {
            self.grow();
        }
        self.len += 1;
        self.put(ConnectionEntry { hash, target });
    }

    /// Takes a target out; whether it was there.
    pub(crate) fn remove(&mut self, hash: u32, target: u32) -> bool {
        let Some(mut hole) = self.position(hash, |other| other == target) else {
            return false;
        };
        self.len -= 1;
        let mask = self.entries.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let entry = self.entries[at];
            if entry.target == FREE {
                break;
            }
            // Invariant 2: an entry may move back to the hole if its place is not behind it.
            let from_place = at.wrapping_sub(entry.hash as usize) & mask;
            let from_hole = at.wrapping_sub(hole) & mask;
            if from_place >= from_hole {
                self.entries[hole] = entry;
                hole = at;
            }
        }
        self.entries[hole].target = FREE;
        true
    }

    /// The number of targets.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn position(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        let mask = self.entries.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let entry = self.entries[at];
            if entry.target == FREE {
                return None;
            }
            if entry.hash == hash && is_it(entry.target) {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// Puts an entry into the first free place.
    fn put(&mut self, entry: ConnectionEntry) {
        let mask = self.entries.len() - 1;
        let mut at = entry.hash as usize & mask;
        while self.entries[at].target != FREE {
            at = (at + 1) & mask;
        }
        self.entries[at] = entry;
    }

    fn grow(&mut self) {
        let free = ConnectionEntry {
            hash: 0,
            target: FREE,
        };
        let len = (self.entries.len() * 2).max(LEAST);
        let old = std::mem::replace(&mut self.entries, vec![free; len]);
        for entry in old.into_iter().filter(|entry| entry.target != FREE) {
            self.put(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The twin is a map. Few hashes, some of them beside the end, so that runs are long.
        #[test]
        fn targets_are_found_until_they_are_removed(
            steps in prop::collection::vec((0..40_u32, 0..3_u8), 0..200),
        ) {
            let hash_of = |target: u32| match target % 4 {
                0 => u32::MAX - target % 3,
                1 => 14,
                _ => target / 5,
            };
            let (mut index, mut twin) = (Index::default(), BTreeMap::new());
            for (target, kind) in steps {
                let hash = hash_of(target);
                if kind == 0 {
                    prop_assert_eq!(index.remove(hash, target), twin.remove(&target).is_some());
                } else if twin.insert(target, hash).is_none() {
                    index.insert(hash, target);
                }
                prop_assert_eq!(index.len(), twin.len());
                for target in 0..40 {
                    let found = index.find(hash_of(target), |other| other == target);
                    prop_assert_eq!(found.is_some(), twin.contains_key(&target));
                }
            }
            prop_assert!(index.len() * 4 <= index.entries.len() * 3, "invariant 3");
        }
    }
}
