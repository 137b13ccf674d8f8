//! A sub-table: the entries of one mask, in a hash table of the masked key.
//!
//! It is at most 3/4 full, and shrinks when it is less than 1/8 full. Deletion moves later
//! entries up (no tombstones), so that lookups do not slow down over time. The tag in a slot
//! tells where its entry belongs. So neither deletion nor growth reads the entries, which are
//! scattered.

use thalweg_classifier::MaskedWords;
use thalweg_classifier::hash::WordHash;
use thalweg_classifier::simd::prefetch;

use crate::entry::{Entries, EntryId};

/// A slot without entry.
const EMPTY: u64 = u64::MAX;

/// The smallest sub-table.
const MIN_SLOTS: usize = 8;

/// The entries of one mask.
#[derive(Debug)]
pub(super) struct Subtable {
    words: MaskedWords,
    pub(super) mask: Box<[u64]>,
    /// Tag in the upper half, entry in the lower.
    slots: Vec<u64>,
    count: usize,
}

impl Subtable {
    /// Creates an empty sub-table.
    pub(super) fn new(mask: &[u64]) -> Subtable {
        Subtable {
            words: MaskedWords::new(mask),
            mask: mask.into(),
            slots: vec![EMPTY; MIN_SLOTS],
            count: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Its entries, in no order.
    pub(super) fn ids(&self) -> impl Iterator<Item = EntryId> {
        let taken = self.slots.iter().filter(|slot| **slot != EMPTY);
        taken.map(|slot| EntryId(*slot as u32))
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The hash of a key's bits under the mask.
    #[inline]
    pub(super) fn hash<const W: usize>(&self, key: &[u64; W], hash: WordHash) -> u64 {
        self.words.hash(key, hash)
    }

    /// Prefetches the slot of a hash.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch(&self.slots, self.home(tag_of(hash)));
    }

    /// Adds an entry that is already in the slab.
    pub(super) fn insert<const W: usize>(
        &mut self,
        id: EntryId,
        hash: WordHash,
        entries: &Entries<W>,
    ) {
        if (self.count + 1) * 4 > self.slots.len() * 3 {
            self.resize(self.slots.len() * 2);
        }
        let tag = tag_of(self.words.hash(entries.key(id), hash));
        self.put(tag << 32 | u64::from(id.0));
        self.count += 1;
    }

    /// Removes an entry that is still in the slab.
    pub(super) fn remove<const W: usize>(
        &mut self,
        id: EntryId,
        hash: WordHash,
        entries: &Entries<W>,
    ) {
        let tag = tag_of(self.words.hash(entries.key(id), hash));
        self.take_out(tag << 32 | u64::from(id.0));
        self.count -= 1;
        let is_wide = self.count * 8 < self.slots.len();
        if self.count > 0 && self.slots.len() > MIN_SLOTS && is_wide {
            self.resize(self.slots.len() / 2);
        }
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        let masks = self.words.heap_bytes() + std::mem::size_of_val(&*self.mask);
        self.slots.capacity() * 8 + masks + std::mem::size_of::<Subtable>()
    }

    /// Finds an entry by the hash of its masked key; the caller decides whether it matches.
    #[inline]
    pub(super) fn find<const W: usize>(
        &self,
        hash: u64,
        key: &[u64; W],
        entries: &Entries<W>,
        accepts: impl Fn(EntryId) -> bool,
    ) -> Option<EntryId> {
        let last = self.slots.len() - 1;
        let mut place = self.home(tag_of(hash));
        loop {
            let slot = self.slots[place];
            if slot == EMPTY {
                return None;
            }
            if slot >> 32 == tag_of(hash) {
                let id = EntryId(slot as u32);
                if self.is_same_region(key, entries.key(id)) && accepts(id) {
                    return Some(id);
                }
            }
            place = (place + 1) & last;
        }
    }

    /// Whether two keys agree on all bits of the mask.
    #[inline]
    pub(super) fn is_same_region<const W: usize>(&self, key: &[u64; W], other: &[u64; W]) -> bool {
        self.words
            .iter()
            .all(|(word, mask)| (key[word] ^ other[word]) & mask == 0)
    }

    /// The home slot of a tag.
    #[inline]
    fn home(&self, tag: u64) -> usize {
        tag as usize & (self.slots.len() - 1)
    }

    fn put(&mut self, slot: u64) {
        let last = self.slots.len() - 1;
        let mut place = self.home(slot >> 32);
        while self.slots[place] != EMPTY {
            place = (place + 1) & last;
        }
        self.slots[place] = slot;
    }

    /// Frees an entry's slot, and moves up later entries that belong further forward.
    ///
    /// Knuth, *The Art of Computer Programming*, volume 3, section 6.4, algorithm R.
    fn take_out(&mut self, slot: u64) {
        let last = self.slots.len() - 1;
        let mut hole = self.home(slot >> 32);
        while self.slots[hole] != slot {
            assert!(self.slots[hole] != EMPTY, "the entry is in its sub-table");
            hole = (hole + 1) & last;
        }
        let mut place = hole;
        loop {
            place = (place + 1) & last;
            let slot = self.slots[place];
            if slot == EMPTY {
                break;
            }
            let home = self.home(slot >> 32);
            if place.wrapping_sub(home) & last >= place.wrapping_sub(hole) & last {
                self.slots[hole] = slot;
                hole = place;
            }
        }
        self.slots[hole] = EMPTY;
    }

    fn resize(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; slots]);
        let taken = old.into_iter().filter(|slot| *slot != EMPTY);
        taken.for_each(|slot| self.put(slot));
    }
}

/// The upper half of the hash, without one value: a full tag and entry must not look empty.
#[inline]
fn tag_of(hash: u64) -> u64 {
    hash >> 33
}
