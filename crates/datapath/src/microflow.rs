//! The exact-match cache: maps a whole key to the entry that answers it.
//!
//! A key's hash names a set of [`WAYS`] slots. The set's heads fill one cache line. Only when
//! a head has the key's tag is the key itself compared, in a second line. Lookups of a burst
//! go in two rounds, so that the memory accesses of all packets are in flight at the same
//! time.
//!
//! ```text
//!   heads:  [tag, entry, generation, recent] x 4   <- one line, prefetched when the hash is known
//!   keys:   [key] x 4                              <- one line, prefetched when a tag agrees
//! ```
//!
//! 1. A hit needs a key equal in every word, and an entry of the generation that the slot
//!    remembers. So a microflow never outlives the megaflow it points to.
//! 2. A flow takes a free or stale slot at once. If all four are in use, it is admitted with
//!    chance 1/N only, and then replaces a slot not hit since the last time round. So a scan
//!    of many addresses leaves most of the cache unchanged.
//! 3. The size is fixed at the start.
//!
//! Cost: cheap if the cache fits into L2, two memory accesses in parallel if not. Replacement:
//! Corbató's second chance, within a set. Admission: Open vSwitch's `emc-insert-inv-prob`.

use thalweg_classifier::simd::prefetch;

use crate::entry::{Entries, EntryId};

/// Slots in a set.
const WAYS: usize = 4;

/// Marks a slot without an entry.
const EMPTY: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Head {
    tag: u32,
    entry: u32,
    generation: u32,
    is_recent: bool,
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Set([Head; WAYS]);

/// A key aligned to a cache line, so that eight words take one line and not two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(align(64))]
struct Key<const W: usize>([u64; W]);

/// The outcome of inserting a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// The flow was inserted.
    Admitted,
    /// There was no room, and chance decided against it.
    Refused,
}

/// An exact-match cache for keys of `W` words.
#[derive(Debug)]
pub(crate) struct Microflow<const W: usize> {
    sets: Vec<Set>,
    keys: Vec<Key<W>>,
    admit_one_in: u32,
    /// State of the random admission (xorshift).
    chance: u32,
}

impl<const W: usize> Microflow<W> {
    /// Creates a cache for `entries` flows, rounded up to a power of two; none for 0.
    pub(crate) fn new(entries: usize, admit_one_in: u32, seed: u64) -> Microflow<W> {
        let sets = if entries == 0 {
            0
        } else {
            entries.div_ceil(WAYS).next_power_of_two()
        };
        let empty = Head {
            tag: 0,
            entry: EMPTY,
            generation: 0,
            is_recent: false,
        };
        Microflow {
            sets: vec![Set([empty; WAYS]); sets],
            keys: vec![Key([0; W]); sets * WAYS],
            admit_one_in,
            chance: seed as u32 | 1,
        }
    }

    pub(crate) fn is_enabled(&self) -> bool {
        !self.sets.is_empty()
    }

    /// Number of flows, including those whose entry is gone.
    pub(crate) fn len(&self) -> usize {
        self.sets
            .iter()
            .flat_map(|set| set.0)
            .filter(|head| head.entry != EMPTY)
            .count()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.keys.len()
    }

    /// Round one: prefetches the set of a hash.
    #[inline]
    pub(crate) fn prefetch_set(&self, hash: u64) {
        prefetch(&self.sets, self.set_index(hash));
    }

    /// Round two: finds the first slot with the hash's tag; prefetches its key and entry.
    #[inline]
    pub(crate) fn candidate(&self, hash: u64, entries: &Entries<W>) -> Option<usize> {
        let set = self.set_index(hash);
        let tag = tag_of(hash);
        let way = self.sets[set]
            .0
            .iter()
            .position(|head| head.tag == tag && head.entry != EMPTY)?;
        prefetch(&self.keys, set * WAYS + way);
        entries.prefetch(EntryId(self.sets[set].0[way].entry));
        Some(set * WAYS + way)
    }

    /// Round three: finds the entry of a key, in the candidate or a later slot.
    #[inline]
    pub(crate) fn confirm(
        &mut self,
        candidate: usize,
        hash: u64,
        key: &[u64; W],
        entries: &Entries<W>,
    ) -> Option<EntryId> {
        let set = candidate / WAYS;
        let heads = self.sets[set].0.iter_mut().enumerate();
        for (way, head) in heads.skip(candidate % WAYS) {
            if head.tag != tag_of(hash) || head.entry == EMPTY {
                continue;
            }
            let id = EntryId(head.entry);
            let is_equal = is_equal(&self.keys[set * WAYS + way].0, key);
            if is_equal && entries.is_current(id, head.generation) {
                head.is_recent = true;
                return Some(id);
            }
        }
        None
    }

    /// Remembers that this entry answers this key.
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        key: &[u64; W],
        id: EntryId,
        entries: &Entries<W>,
    ) -> Admission {
        let Some(place) = self.place_for(hash, key, entries) else {
            return Admission::Refused;
        };
        self.put(place, hash, key, id, entries);
        Admission::Admitted
    }

    /// The slot for a key; `None` if it is not admitted.
    pub(crate) fn place_for(
        &mut self,
        hash: u64,
        key: &[u64; W],
        entries: &Entries<W>,
    ) -> Option<usize> {
        let set = self.set_index(hash);
        let keys = &self.keys[set * WAYS..(set + 1) * WAYS];
        let heads = &self.sets[set].0;
        let is_same = |way: &usize| heads[*way].tag == tag_of(hash) && is_equal(&keys[*way].0, key);
        let is_free = |way: &usize| {
            let head = &heads[*way];
            head.entry == EMPTY || !entries.is_current(EntryId(head.entry), head.generation)
        };
        let place = (0..WAYS).find(is_same).or_else(|| (0..WAYS).find(is_free));
        let way = place.or_else(|| self.make_room(set))?;
        Some(set * WAYS + way)
    }

    /// The entry in a slot, and the generation that the slot remembers.
    pub(crate) fn occupant(&self, place: usize) -> Option<(EntryId, u32)> {
        let head = &self.sets[place / WAYS].0[place % WAYS];
        (head.entry != EMPTY).then_some((EntryId(head.entry), head.generation))
    }

    /// Stores in a slot that this entry answers this key.
    pub(crate) fn put(
        &mut self,
        place: usize,
        hash: u64,
        key: &[u64; W],
        id: EntryId,
        entries: &Entries<W>,
    ) {
        self.sets[place / WAYS].0[place % WAYS] = Head {
            tag: tag_of(hash),
            entry: id.0,
            generation: entries.get(id).generation,
            is_recent: false,
        };
        self.keys[place] = Key(*key);
    }

    fn make_room(&mut self, set: usize) -> Option<usize> {
        // Marsaglia, Xorshift RNGs, Journal of Statistical Software 2003.
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 17;
        self.chance ^= self.chance << 5;
        if !self.chance.is_multiple_of(self.admit_one_in) {
            return None;
        }
        let start = (self.chance >> 16) as usize;
        let heads = &mut self.sets[set].0;
        for step in 0..2 * WAYS {
            let way = (start + step) % WAYS;
            if !std::mem::take(&mut heads[way].is_recent) {
                return Some(way);
            }
        }
        unreachable!("the first round has cleared every bit")
    }

    #[inline]
    fn set_index(&self, hash: u64) -> usize {
        hash as usize & (self.sets.len() - 1)
    }
}

/// Compares all words without branches; the library's memory comparison would be a call.
#[inline(always)]
fn is_equal<const W: usize>(left: &[u64; W], right: &[u64; W]) -> bool {
    let mut difference = 0;
    for (left, right) in left.iter().zip(right) {
        difference |= left ^ right;
    }
    difference == 0
}

#[inline]
fn tag_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}
