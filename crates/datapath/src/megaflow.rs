//! The wildcard cache's index: finds the entry whose region contains a key.
//!
//! Entries with the same mask are in one sub-table, a hash table of the masked key. Regions
//! may overlap; overlapping entries give the same answer, since each gives the interpreter's.
//! So the first hit is as good as any, and sub-tables can be searched in the fastest order:
//! most hits first, counted separately for each input port, because ports carry different
//! traffic.
//!
//! ```text
//!   for sub-table in the ranking of the burst's port:
//!       for packet of the burst that has no entry yet:
//!           probe the slot of hash(key & mask); compare key & mask with the entry's
//! ```
//!
//! A sender can choose packets so that nearly each has its own mask (see `ranking`). So a
//! port's packets are searched only in the sub-tables that pay off. A walk answers the rest,
//! and finds the entry if there is one. When the number of masks is at its limit, a packet
//! with a new mask is answered by its walk alone, and the rarest masks are displaced.
//!
//! Entries with an answer of an earlier version are skipped until they are repaired. With the
//! classifier `bloom`, a first layer remembers in which sub-table a flow was last found
//! (`first_layer`). With `learned`, a learned index of all entries is used instead
//! (`learned`); sub-tables are searched only for keys whose entry there is refused. With
//! `auto`, the cache begins without either, and adopts what pays off (`choice`).
//!
//! 1. A key is in an entry's region exactly if `key & mask == entry key & mask`; the hash and
//!    its tag only decide where to look.
//! 2. Every entry is in the sub-table that it names, and no two of a sub-table have the same
//!    region.
//! 3. There are at most as many sub-tables as configured. Empty sub-tables stay for a while,
//!    since the next entry often has the same mask: up to a quarter of all, and only while
//!    there is room for others.
//! 4. A key that no search finds may still have an entry: code that inserts an entry looks
//!    first.
//!
//! Cost: one probe per sub-table and packet, cheap while tags fit the processor's caches;
//! unlike a classifier's, the search ends at the first hit. References: Pfaff et al., *The
//! design and implementation of Open vSwitch*, NSDI 2015, section 4.2; ranking as in
//! `dpif-netdev.c` (`dpcls_sort_subtable_vector`).

mod choice;
mod first_layer;
mod learned;
mod ranking;
mod subtable;
mod tend;

use hashbrown::HashTable;
use thalweg_classifier::hash::WordHash;
use thalweg_packet::{BURST, Layout};

use crate::config::{MegaflowClassifier, MegaflowConfig};
use crate::entry::{Entries, EntryId};
use crate::statistics::LookupCounters;

use choice::Choice;
pub use choice::{CacheChoice, CacheIndex};
use first_layer::FirstLayer;
use learned::Index;
use ranking::Ranking;
use subtable::Subtable;
use tend::Filling;

/// Number of rankings: input ports are taken modulo this.
const RANKINGS: usize = 64;

/// One in this many masks, of the most allowed, is displaced at a time.
const DISPLACED_SHARE: usize = 64;

/// Refused masks for each displaced one: a sender of endless masks pays eight walks for each
/// mask that it displaces.
const REFUSED_PER_DISPLACED: usize = 8;

/// A sub-table with more entries is not displaced. In a full cache of the default size with
/// the most masks, some have fewer.
const DISPLACED_ENTRIES: usize = 256;

/// Empty sub-tables that are always kept.
const MIN_EMPTY: usize = 16;

/// A packet for which no search has found an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The number of its input port.
    pub(crate) port: u32,
    /// The hash of its whole key.
    pub(crate) hash: u64,
    /// The frames that the packet is on a wire, and their bytes.
    pub(crate) counts: (u32, u32),
}

/// The sub-tables of a wildcard cache.
#[derive(Debug)]
pub(crate) struct Megaflow {
    hash: WordHash,
    subtables: Vec<Option<Subtable>>,
    free: Vec<u32>,
    /// For each sub-table, whether rankings contain its number. A displaced one keeps its
    /// place in them, for the next.
    is_ranked: Vec<bool>,
    by_mask: HashTable<u32>,
    rankings: Vec<Ranking>,
    /// Number of sub-tables, and how many of them are empty.
    count: usize,
    empty: usize,
    max_masks: usize,
    /// Masks refused for lack of room since the last displacement.
    refused: usize,
    first_layer: Option<FirstLayer>,
    index: Option<Index>,
    /// Progress of an index being built; `None` once it has all entries and is in use.
    filling: Option<Filling>,
    /// The automatic choice, if configured.
    choice: Option<Choice>,
    /// A discarded index whose memory is not freed yet.
    waste: Option<Index>,
    /// Whether an index pays off but is not begun.
    wants_index: bool,
    cache_bytes: usize,
    seed: u64,
}

impl Megaflow {
    pub(crate) fn new(config: &MegaflowConfig, layout: &Layout, seed: u64) -> Megaflow {
        let first_layer = match config.classifier {
            MegaflowClassifier::Bloom => FirstLayer::new(config.bytes, seed),
            _ => None,
        };
        let is_learned = config.classifier == MegaflowClassifier::Learned;
        Megaflow {
            first_layer,
            index: is_learned.then(|| Index::new(layout, seed)),
            filling: None,
            choice: (config.classifier == MegaflowClassifier::Auto).then(Choice::new),
            waste: None,
            wants_index: false,
            cache_bytes: config.bytes,
            seed,
            max_masks: config.masks,
            refused: 0,
            hash: WordHash::new(seed),
            subtables: Vec::new(),
            free: Vec::new(),
            is_ranked: Vec::new(),
            by_mask: HashTable::new(),
            rankings: vec![Ranking::default(); RANKINGS],
            count: 0,
            empty: 0,
        }
    }

    /// Number of masks with at least one entry.
    pub(crate) fn mask_count(&self) -> usize {
        self.count - self.empty
    }

    /// The mask of a sub-table.
    pub(crate) fn mask(&self, subtable: u32) -> &[u64] {
        &self.subtable(subtable).mask
    }

    /// The sub-table of a mask, created if needed; `None` if there are too many.
    ///
    /// Keeps room for the mask `reserved`, unless that has a sub-table already.
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
        let subtable = Subtable::new(mask);
        self.count += 1;
        self.empty += 1;
        let place = match self.free.pop() {
            Some(place) => {
                self.subtables[place as usize] = Some(subtable);
                place
            }
            None => {
                self.subtables.push(Some(subtable));
                self.is_ranked.push(false);
                self.subtables.len() as u32 - 1
            }
        };
        if let Some(layer) = &mut self.first_layer {
            layer.make_room(self.subtables.len());
        }
        if !std::mem::replace(&mut self.is_ranked[place as usize], true) {
            self.rankings
                .iter_mut()
                .for_each(|ranking| ranking.push(place));
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

    /// Drops all empty sub-tables, including one just created.
    pub(crate) fn drop_empty(&mut self) {
        let is_empty =
            |subtable: &Option<Subtable>| subtable.as_ref().is_some_and(Subtable::is_empty);
        let subtables = &self.subtables;
        let is_there = |place: u32| {
            let subtable = &subtables[place as usize];
            subtable.is_some() && !is_empty(subtable)
        };
        for ranking in &mut self.rankings {
            ranking.retain(is_there);
        }
        for (place, is_ranked) in (0..).zip(&mut self.is_ranked) {
            *is_ranked &= is_there(place);
        }
        let subtables = &self.subtables;
        self.by_mask
            .retain(|place| !is_empty(&subtables[*place as usize]));
        for place in 0..self.subtables.len() {
            if is_empty(&self.subtables[place]) {
                self.subtables[place] = None;
                self.free.push(place as u32);
            }
        }
        self.count -= self.empty;
        self.empty = 0;
        if self.count == 0
            && let Some(layer) = &mut self.first_layer
        {
            layer.clear();
        }
    }

    /// Finds the entries of keys that have none yet, in the order best for the port; `hashes`
    /// are of the whole keys.
    pub(crate) fn lookup_burst<const W: usize>(
        &mut self,
        port: u32,
        keys: &[[u64; W]],
        hashes: &[u64],
        found: &mut [Option<EntryId>],
        entries: &Entries<W>,
        counters: &mut LookupCounters,
    ) {
        let mut pending: u64 = 0;
        for (index, found) in found.iter().enumerate() {
            pending |= u64::from(found.is_none()) << index;
        }
        let lookups = u64::from(pending.count_ones());
        let is_sample = self.choice.as_mut().is_some_and(Choice::is_sample);
        let asks_index = self.index.is_some() && self.filling.is_none() && !is_sample;
        if asks_index {
            pending = self.ask_index(pending, keys, found, entries, counters);
        }
        let (keys_count, before) = (u64::from(pending.count_ones()), *counters);
        let count = self.count;
        let is_asked = !is_sample
            && !asks_index
            && self
                .first_layer
                .as_mut()
                .is_some_and(|layer| layer.is_asked(count));
        if is_asked {
            counters.asked += keys_count;
            pending = self.ask_first_layer(pending, port, keys, hashes, found, entries, counters);
        }
        let missed = match pending {
            0 => 0,
            _ => self.search(pending, port, keys, found, entries, counters),
        };
        let probes = counters.subtables - before.subtables;
        if !asks_index && !is_asked {
            self.choice
                .iter_mut()
                .for_each(|choice| choice.note_plain(keys_count, probes));
        }
        self.note_lookups(lookups, entries.len());
        let Some(layer) = self.first_layer.as_mut().filter(|_| !asks_index) else {
            return;
        };
        if !is_asked {
            counters.bypassed += keys_count;
            layer.note_plain(keys_count, probes);
            return;
        }
        let learned = pending & !missed;
        for index in bits_of(learned) {
            let entry = found[index].map(|id| entries.get(id));
            entry
                .into_iter()
                .for_each(|entry| layer.put(hashes[index], entry.subtable));
        }
        layer.note_layered(keys_count, probes, u64::from(learned.count_ones()));
    }

    /// Looks in the learned index; returns the keys left, whose entry is refused.
    fn ask_index<const W: usize>(
        &mut self,
        pending: u64,
        keys: &[[u64; W]],
        found: &mut [Option<EntryId>],
        entries: &Entries<W>,
        counters: &mut LookupCounters,
    ) -> u64 {
        let Some(index) = &mut self.index else {
            return pending;
        };
        let asked = bits_of(pending).map(|place| &keys[place][..]);
        let answers = index.lookup(asked);
        counters.learned += u64::from(pending.count_ones());
        let mut left = 0_u64;
        for (place, answer) in bits_of(pending).zip(answers) {
            match answer {
                Some(id) if entries.is_refused(id) => left |= 1 << place,
                answer => found[place] = answer,
            }
        }
        counters.learned_refused += u64::from(left.count_ones());
        left
    }

    /// Looks in the sub-tables that the first layer names for these flows; returns the keys
    /// left.
    #[expect(
        clippy::too_many_arguments,
        reason = "a burst, and what is known of it"
    )]
    fn ask_first_layer<const W: usize>(
        &mut self,
        mut pending: u64,
        port: u32,
        keys: &[[u64; W]],
        hashes: &[u64],
        found: &mut [Option<EntryId>],
        entries: &Entries<W>,
        counters: &mut LookupCounters,
    ) -> u64 {
        let Some(layer) = &self.first_layer else {
            return pending;
        };
        let (filter, subtables) = (layer.filter(), &self.subtables);
        let ranking = &mut self.rankings[port as usize % RANKINGS];
        let mut places = [0; BURST];
        let mut asked = [0; BURST];
        let mut sets = [0; BURST];
        for vector in 0..filter.vectors() {
            let mut count = 0;
            for index in bits_of(pending) {
                filter.prefetch(hashes[index], vector);
                (places[count], asked[count]) = (index, hashes[index]);
                count += 1;
            }
            filter.candidates_of_burst(&asked[..count], vector, &mut sets[..count]);
            let subtable_of = |set: usize| {
                let number = vector * 64 + set;
                let subtable = subtables.get(number)?.as_ref()?;
                Some((number, subtable))
            };
            for (index, sets) in places[..count].iter().zip(&sets) {
                if let Some((_, subtable)) = bits_of(*sets).find_map(subtable_of) {
                    subtable.prefetch(subtable.hash(&keys[*index], self.hash));
                }
            }
            for (index, sets) in places[..count].iter().copied().zip(&sets) {
                for (number, subtable) in bits_of(*sets).filter_map(subtable_of) {
                    (counters.subtables, counters.candidates) =
                        (counters.subtables + 1, counters.candidates + 1);
                    let is_right = |id| !entries.is_refused(id);
                    let hash = subtable.hash(&keys[index], self.hash);
                    found[index] = subtable.find(hash, &keys[index], entries, is_right);
                    if found[index].is_some() {
                        pending &= !(1 << index);
                        ranking.note_found(number as u32);
                        break;
                    }
                    counters.false_candidates += 1;
                    filter.note_false(hashes[index], number);
                }
            }
            if pending == 0 {
                break;
            }
        }
        pending
    }

    /// Searches the sub-tables in the port's ranking for these keys; returns those not found.
    fn search<const W: usize>(
        &mut self,
        mut pending: u64,
        port: u32,
        keys: &[[u64; W]],
        found: &mut [Option<EntryId>],
        entries: &Entries<W>,
        counters: &mut LookupCounters,
    ) -> u64 {
        let ranking = &mut self.rankings[port as usize % RANKINGS];
        let (keys_count, before) = (pending.count_ones(), counters.subtables);
        let mut hashes = [0; 64];
        for rank in 0..ranking.searched() {
            if pending == 0 {
                break;
            }
            let number = ranking.at(rank);
            let Some(subtable) = self.subtables[number as usize].as_ref() else {
                continue;
            };
            counters.subtables += u64::from(pending.count_ones());
            for index in bits_of(pending) {
                hashes[index] = subtable.hash(&keys[index], self.hash);
                subtable.prefetch(hashes[index]);
            }
            for index in bits_of(pending) {
                let is_right = |id| !entries.is_refused(id);
                if let Some(id) = subtable.find(hashes[index], &keys[index], entries, is_right) {
                    found[index] = Some(id);
                    pending &= !(1 << index);
                    ranking.note_hit(number);
                }
            }
        }
        if ranking.is_cut() {
            counters.cut += u64::from(pending.count_ones());
        }
        ranking.note_search(keys_count, counters.subtables - before);
        pending
    }

    /// Records that a walk found an entry that the search had missed, and adds the flow to the
    /// first layer.
    pub(crate) fn note_unsearched(&mut self, arrival: Arrival, subtable: u32) {
        // This does not count for the choice of an index: a sender that causes many masks must
        // not make others pay for a filter or a model.
        self.rankings[arrival.port as usize % RANKINGS].note_walk(subtable);
        if let Some(layer) = &mut self.first_layer {
            layer.put(arrival.hash, subtable);
        }
    }

    /// Whether packets of some port are searched in a sub-table.
    pub(crate) fn is_searched(&self, subtable: u32) -> bool {
        let mut rankings = self.rankings.iter().filter(|ranking| ranking.is_in_use());
        self.asked_index().is_some() || rankings.any(|ranking| ranking.is_searched(subtable))
    }

    /// Records that there was no room for a mask.
    pub(crate) fn note_refused(&mut self) {
        self.refused += 1;
    }

    /// The entries to displace for refused masks: those of the masks with the fewest hits on
    /// all ports, if enough masks were refused.
    pub(crate) fn displaced(&mut self) -> Vec<EntryId> {
        let count = (self.max_masks / DISPLACED_SHARE).max(1);
        if self.refused < count * REFUSED_PER_DISPLACED {
            return Vec::new();
        }
        self.refused = 0;
        let rankings = || self.rankings.iter().filter(|ranking| ranking.is_in_use());
        let subtables = (0..).zip(&self.subtables);
        let mut rare: Vec<(u32, u32)> = subtables
            .filter_map(|(number, subtable)| {
                let entries = subtable.as_ref()?.len();
                let hits = rankings().map(|ranking| ranking.hits(number)).sum();
                // Others have too many entries to evict between two bursts.
                (1..=DISPLACED_ENTRIES)
                    .contains(&entries)
                    .then_some((hits, number))
            })
            .collect();
        if rare.len() > count {
            rare.select_nth_unstable(count - 1);
            rare.truncate(count);
        }
        // Masks used long ago, on ports now silent, must not stay for ever.
        self.rankings.iter_mut().for_each(Ranking::age);
        let ids = |&(_, number): &(u32, u32)| self.subtable(number).ids();
        rare.iter().flat_map(ids).collect()
    }

    /// Drops a sub-table if it is empty, so that another mask has room.
    pub(crate) fn give_room(&mut self, number: u32) {
        let place = &mut self.subtables[number as usize];
        let Some(subtable) = place.take_if(|subtable| subtable.is_empty()) else {
            return;
        };
        let is_it = |place: &u32| *place == number;
        let known = self
            .by_mask
            .find_entry(self.hash.hash_words(&*subtable.mask), is_it);
        known.expect("every mask is known").remove();
        self.rankings
            .iter_mut()
            .for_each(|ranking| ranking.forget(number));
        self.free.push(number);
        (self.count, self.empty) = (self.count - 1, self.empty - 1);
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

    /// The entry of a sub-table with the same masked key, refused or not.
    pub(crate) fn find_in<const W: usize>(
        &self,
        subtable: u32,
        key: &[u64; W],
        entries: &Entries<W>,
    ) -> Option<EntryId> {
        let subtable = self.subtable(subtable);
        subtable.find(subtable.hash(key, self.hash), key, entries, |_| true)
    }

    /// Adds an entry, already in the slab, to its sub-table.
    pub(crate) fn insert<const W: usize>(&mut self, id: EntryId, entries: &Entries<W>) {
        let number = entries.get(id).subtable;
        let subtable = self.subtables[number as usize]
            .as_mut()
            .expect("the entry names it");
        match (&mut self.filling, &mut self.index) {
            (Some(filling), _) => filling.note(id),
            (None, Some(index)) => index.insert(id, entries.key(id), &subtable.mask),
            (None, None) => {}
        }
        self.choice.iter_mut().for_each(Choice::note_update);
        self.empty -= usize::from(subtable.is_empty());
        subtable.insert(id, self.hash, entries);
    }

    /// Prefetches what removing an entry will write; the entry must be loaded.
    pub(crate) fn prefetch<const W: usize>(&self, id: EntryId, entries: &Entries<W>) {
        let subtable = self.subtable(entries.get(id).subtable);
        subtable.prefetch(subtable.hash(entries.key(id), self.hash));
        if let (None, Some(index)) = (&self.filling, &self.index) {
            index.foresee_removal(id);
        }
    }

    /// Removes an entry, still in the slab, from its sub-table.
    pub(crate) fn remove<const W: usize>(&mut self, id: EntryId, entries: &Entries<W>) {
        let number = entries.get(id).subtable;
        let subtable = self.subtables[number as usize]
            .as_mut()
            .expect("the entry names it");
        subtable.remove(id, self.hash, entries);
        match (&mut self.filling, &mut self.index) {
            (Some(filling), _) => filling.note(id),
            (None, Some(index)) => index.remove(id),
            (None, None) => {}
        }
        self.choice.iter_mut().for_each(Choice::note_update);
        self.empty += usize::from(subtable.is_empty());
    }

    /// Compares the index with the entries.
    pub(crate) fn verify<const W: usize>(&self, entries: &Entries<W>) -> Result<(), String> {
        for id in entries.ids() {
            let subtable = entries.get(id).subtable;
            let known = self
                .subtables
                .get(subtable as usize)
                .is_some_and(Option::is_some);
            if !known || self.find_in(subtable, entries.key(id), entries) != Some(id) {
                return Err(format!("entry {} is not found in its sub-table", id.0));
            }
            let (key, mask) = (entries.key(id), self.mask(subtable));
            if let Some(index) = self.asked_index()
                && !index.has(id, key, mask)
            {
                return Err(format!("entry {} is not in the learned index", id.0));
            }
        }
        if let Some(index) = self.asked_index()
            && index.len() != entries.len()
        {
            return Err(format!("the learned index has {} entries", index.len()));
        }
        let subtables = || self.subtables.iter().flatten();
        let count: usize = subtables().map(Subtable::len).sum();
        let empty = subtables().filter(|subtable| subtable.is_empty()).count();
        let counted = (entries.len(), self.count, self.empty);
        match counted == (count, subtables().count(), empty) {
            true => Ok(()),
            false => Err(format!(
                "sub-tables have {count} entries, not {}",
                entries.len()
            )),
        }
    }

    /// Bytes of memory that the index takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let subtables = self.subtables.iter().flatten();
        let rankings = self.rankings.iter().map(Ranking::memory_bytes);
        let layer = self.first_layer.as_ref();
        subtables.map(Subtable::memory_bytes).sum::<usize>()
            + rankings.sum::<usize>()
            + layer.map_or(0, FirstLayer::size_bytes)
            + self.index.as_ref().map_or(0, Index::memory_bytes)
            + self.waste.as_ref().map_or(0, Index::memory_bytes)
            + self.filling.as_ref().map_or(0, Filling::memory_bytes)
    }

    fn subtable(&self, number: u32) -> &Subtable {
        self.subtables[number as usize]
            .as_ref()
            .expect("whoever has the number has an entry in it")
    }
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
