//! The wildcard cache's index: from a key to the entry whose region it is in.
//!
//! Entries with the same mask are in one sub-table, a hash table of the masked key. Regions may
//! overlap (two entries that overlap give the same answer, since each gives the interpreter's), so
//! the first hit is as good as any, and sub-tables can be searched in whatever order is fastest:
//! most hits first, counted for each input port apart, because ports carry different traffic.
//!
//! ```text
//!   for sub-table in the ranking of the burst's port:
//!       for packet of the burst that has no entry yet:
//!           probe the slot of hash(key & mask); compare key & mask with the entry's
//! ```
//!
//! Entries whose answer is that of a version before are passed over until they are repaired.
//!
//! 1. A key is in an entry's region exactly if `key & mask == entry key & mask`; the hash and its
//!    tag only decide where to look.
//! 2. A sub-table is at most 3/4 full, and shrinks when it is less than 1/8 full. Deletion moves
//!    later entries up (no tombstones), so that lookups do not slow down over time.
//! 3. There are at most as many sub-tables as configured. Those that lost their last entry stay for
//!    a while, since the next one often has the same mask: up to a quarter of all, and only as long
//!    as there is room for others.
//!
//! Cost: about 5 ns a sub-table and packet while tags fit the caches; unlike a classifier's, the
//! search ends at the first hit. References: Pfaff et al., *The design and implementation of Open
//! vSwitch*, NSDI 2015, section 4.2; ranking as in `dpif-netdev.c` (`dpcls_sort_subtable_vector`).

use hashbrown::HashTable;
use thalweg_classifier::MaskedWords;
use thalweg_classifier::hash::WordHash;
use thalweg_classifier::simd::prefetch;

use crate::entry::{Entries, EntryId};

/// Searches of a ranking between two sortings.
const SORT_EVERY: u32 = 4096;

/// Rankings: input ports are told apart modulo this.
const RANKINGS: usize = 64;

/// A slot without entry.
const EMPTY: u64 = u64::MAX;

/// Empty sub-tables that are kept in any case.
const MIN_EMPTY: usize = 16;

/// The smallest sub-table.
const MIN_SLOTS: usize = 8;

#[derive(Debug)]
pub(crate) struct Subtable {
    pub(crate) words: MaskedWords,
    mask: Box<[u64]>,
    /// Tag above, entry below.
    slots: Vec<u64>,
    count: usize,
}

#[derive(Clone, Debug, Default)]
struct Ranking {
    order: Vec<u32>,
    /// By sub-table.
    hits: Vec<u32>,
    searches: u32,
}

/// The sub-tables of a wildcard cache.
#[derive(Debug)]
pub(crate) struct Megaflow {
    hash: WordHash,
    subtables: Vec<Option<Subtable>>,
    free: Vec<u32>,
    by_mask: HashTable<u32>,
    rankings: Vec<Ranking>,
    /// Sub-tables, and how many of them have no entry.
    count: usize,
    empty: usize,
    max_masks: usize,
}

impl Megaflow {
    pub(crate) fn new(max_masks: usize, seed: u64) -> Megaflow {
        Megaflow {
            hash: WordHash::new(seed),
            subtables: Vec::new(),
            free: Vec::new(),
            by_mask: HashTable::new(),
            rankings: vec![Ranking::default(); RANKINGS],
            count: 0,
            empty: 0,
            max_masks,
        }
    }

    /// How many masks there are that an entry has.
    pub(crate) fn mask_count(&self) -> usize {
        self.count - self.empty
    }

    /// The mask of a sub-table.
    pub(crate) fn mask(&self, subtable: u32) -> &[u64] {
        &self.subtable(subtable).mask
    }

    /// The sub-table of a mask, made if there is none; `None` if there are too many.
    ///
    /// One place is kept for the mask `reserved`, unless it has one already.
    pub(crate) fn subtable_of(&mut self, mask: &[u64], reserved: &[u64]) -> Option<u32> {
        if let Some(known) = self.find_mask(mask) {
            return Some(known);
        }
        let has_room = |megaflow: &Megaflow| {
            let kept = mask != reserved && megaflow.find_mask(reserved).is_none();
            megaflow.count + usize::from(kept) < megaflow.max_masks
        };
        // Invariant 3.
        if self.empty > MIN_EMPTY + self.count / 4 || self.empty > 0 && !has_room(self) {
            self.drop_empty();
        }
        if !has_room(self) {
            return None;
        }
        let subtable = Subtable {
            words: MaskedWords::new(mask),
            mask: mask.into(),
            slots: vec![EMPTY; MIN_SLOTS],
            count: 0,
        };
        self.count += 1;
        self.empty += 1;
        let place = match self.free.pop() {
            Some(place) => {
                self.subtables[place as usize] = Some(subtable);
                place
            }
            None => {
                self.subtables.push(Some(subtable));
                self.subtables.len() as u32 - 1
            }
        };
        for ranking in &mut self.rankings {
            ranking.order.push(place);
            ranking.hits.resize(self.subtables.len(), 0);
        }
        let (hash, subtables) = (self.hash, &self.subtables);
        self.by_mask
            .insert_unique(hash.hash_words(mask), place, |place| {
                let subtable = subtables[*place as usize].as_ref();
                hash.hash_words(&*subtable.expect("every mask has its sub-table").mask)
            });
        Some(place)
    }

    fn find_mask(&self, mask: &[u64]) -> Option<u32> {
        let is_it = |place: &u32| *self.subtable(*place).mask == *mask;
        self.by_mask
            .find(self.hash.hash_words(mask), is_it)
            .copied()
    }

    /// Drops the sub-tables that have no entry any more, those just asked for included.
    pub(crate) fn drop_empty(&mut self) {
        let is_empty = |subtable: &Option<Subtable>| {
            subtable
                .as_ref()
                .is_some_and(|subtable| subtable.count == 0)
        };
        for ranking in &mut self.rankings {
            let subtables = &self.subtables;
            ranking
                .order
                .retain(|place| !is_empty(&subtables[*place as usize]));
        }
        let subtables = &self.subtables;
        self.by_mask
            .retain(|place| !is_empty(&subtables[*place as usize]));
        for place in 0..self.subtables.len() {
            if is_empty(&self.subtables[place]) {
                self.subtables[place] = None;
                self.free.push(place as u32);
                self.rankings
                    .iter_mut()
                    .for_each(|ranking| ranking.hits[place] = 0);
            }
        }
        self.count -= self.empty;
        self.empty = 0;
    }

    /// Looks for the entries of those keys that have none, in the order best for the port.
    ///
    /// Returns how many sub-tables were searched for how many keys, added up.
    pub(crate) fn lookup_burst<const W: usize>(
        &mut self,
        port: u32,
        keys: &[[u64; W]],
        found: &mut [Option<EntryId>],
        entries: &Entries<W>,
    ) -> u64 {
        let mut pending: u64 = 0;
        for (index, found) in found.iter().enumerate() {
            pending |= u64::from(found.is_none()) << index;
        }
        let mut searched = 0;
        let ranking = &mut self.rankings[port as usize % RANKINGS];
        let mut hashes = [0; 64];
        for &number in &ranking.order {
            if pending == 0 {
                break;
            }
            let subtable = self.subtables[number as usize]
                .as_ref()
                .expect("ranked are there");
            searched += u64::from(pending.count_ones());
            for index in bits_of(pending) {
                hashes[index] = subtable.words.hash(&keys[index], self.hash);
                prefetch(
                    &subtable.slots,
                    hashes[index] as usize & (subtable.slots.len() - 1),
                );
            }
            for index in bits_of(pending) {
                let is_right = |id| !entries.is_refused(id);
                if let Some(id) = subtable.find(hashes[index], &keys[index], entries, is_right) {
                    found[index] = Some(id);
                    pending &= !(1 << index);
                    ranking.hits[number as usize] += 1;
                }
            }
        }
        ranking.searches += 1;
        if ranking.searches >= SORT_EVERY {
            ranking.sort();
        }
        searched
    }

    /// Whether a key is in an entry's region.
    pub(crate) fn covers<const W: usize>(
        &self,
        id: EntryId,
        key: &[u64; W],
        entries: &Entries<W>,
    ) -> bool {
        let subtable = self.subtable(entries.get(id).subtable);
        subtable.is_same_region(key, entries.key(id))
    }

    /// The entry of a sub-table whose masked key is this one's, refused or not.
    pub(crate) fn find_in<const W: usize>(
        &self,
        subtable: u32,
        key: &[u64; W],
        entries: &Entries<W>,
    ) -> Option<EntryId> {
        let subtable = self.subtable(subtable);
        subtable.find(subtable.words.hash(key, self.hash), key, entries, |_| true)
    }

    /// Puts an entry, which is in the slab already, into its sub-table.
    pub(crate) fn insert<const W: usize>(&mut self, id: EntryId, entries: &Entries<W>) {
        let number = entries.get(id).subtable;
        let hash = self.hash;
        let subtable = self.subtables[number as usize]
            .as_mut()
            .expect("the entry names it");
        if (subtable.count + 1) * 4 > subtable.slots.len() * 3 {
            subtable.resize(subtable.slots.len() * 2, hash, entries);
        }
        subtable.put(subtable.words.hash(entries.key(id), hash), id);
        self.empty -= usize::from(subtable.count == 0);
        subtable.count += 1;
    }

    /// Takes an entry, which is still in the slab, out of its sub-table.
    pub(crate) fn remove<const W: usize>(&mut self, id: EntryId, entries: &Entries<W>) {
        let number = entries.get(id).subtable;
        let hash = self.hash;
        let subtable = self.subtables[number as usize]
            .as_mut()
            .expect("the entry names it");
        subtable.take_out(id, |id, words| words.hash(entries.key(id), hash));
        subtable.count -= 1;
        if subtable.count == 0 {
            self.empty += 1;
        } else if subtable.slots.len() > MIN_SLOTS && subtable.count * 8 < subtable.slots.len() {
            subtable.resize(subtable.slots.len() / 2, hash, entries);
        }
    }

    /// Bytes of memory that the index takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let subtables = self.subtables.iter().flatten();
        let bytes = subtables.map(|subtable| {
            let masks = subtable.words.heap_bytes() + std::mem::size_of_val(&*subtable.mask);
            subtable.slots.capacity() * 8 + masks + std::mem::size_of::<Subtable>()
        });
        bytes.sum::<usize>()
            + self
                .rankings
                .iter()
                .map(|r| r.order.capacity() * 8)
                .sum::<usize>()
    }

    fn subtable(&self, number: u32) -> &Subtable {
        self.subtables[number as usize]
            .as_ref()
            .expect("whoever has the number has an entry in it")
    }
}

impl Ranking {
    /// Sorts by hits since the last sorting, and halves them: old hits count less.
    fn sort(&mut self) {
        let hits = &self.hits;
        self.order
            .sort_by_key(|number| std::cmp::Reverse(hits[*number as usize]));
        self.hits.iter_mut().for_each(|hits| *hits /= 2);
        self.searches = 0;
    }
}

impl Subtable {
    #[inline]
    fn find<const W: usize>(
        &self,
        hash: u64,
        key: &[u64; W],
        entries: &Entries<W>,
        accepts: impl Fn(EntryId) -> bool,
    ) -> Option<EntryId> {
        let last = self.slots.len() - 1;
        let mut place = hash as usize & last;
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

    #[inline]
    fn is_same_region<const W: usize>(&self, key: &[u64; W], other: &[u64; W]) -> bool {
        self.words
            .iter()
            .all(|(word, mask)| (key[word] ^ other[word]) & mask == 0)
    }

    fn put(&mut self, hash: u64, id: EntryId) {
        let last = self.slots.len() - 1;
        let mut place = hash as usize & last;
        while self.slots[place] != EMPTY {
            place = (place + 1) & last;
        }
        self.slots[place] = tag_of(hash) << 32 | u64::from(id.0);
    }

    /// Frees an entry's slot and moves up those behind it that belong further forward.
    ///
    /// Knuth, *The Art of Computer Programming*, volume 3, section 6.4, algorithm R.
    fn take_out(&mut self, id: EntryId, hash_of: impl Fn(EntryId, &MaskedWords) -> u64) {
        let last = self.slots.len() - 1;
        let mut hole = hash_of(id, &self.words) as usize & last;
        while self.slots[hole] as u32 != id.0 || self.slots[hole] == EMPTY {
            assert!(self.slots[hole] != EMPTY, "the entry is in its sub-table");
            hole = (hole + 1) & last;
        }
        let mut place = hole;
        loop {
            place = (place + 1) & last;
            if self.slots[place] == EMPTY {
                break;
            }
            let home = hash_of(EntryId(self.slots[place] as u32), &self.words) as usize & last;
            if place.wrapping_sub(home) & last >= place.wrapping_sub(hole) & last {
                self.slots[hole] = self.slots[place];
                hole = place;
            }
        }
        self.slots[hole] = EMPTY;
    }

    fn resize<const W: usize>(&mut self, slots: usize, hash: WordHash, entries: &Entries<W>) {
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; slots]);
        for slot in old.into_iter().filter(|slot| *slot != EMPTY) {
            let id = EntryId(slot as u32);
            self.put(self.words.hash(entries.key(id), hash), id);
        }
    }
}

/// The upper half of the hash, less one value: a full tag and entry must not look empty.
#[inline]
fn tag_of(hash: u64) -> u64 {
    hash >> 33
}

/// The positions of the set bits.
#[inline]
fn bits_of(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let index = bits.trailing_zeros() as usize;
        bits &= bits - 1;
        Some(index)
    })
}
