//! A bounded first-in, first-out store of behaviours, found by key and by table lookup.
//!
//! Each table has a list, without gaps, of the behaviours that looked it up. A row has the key
//! and whether the lookup hit. A change goes only through the rows of its table. Inserting or
//! removing a behaviour touches one row for each of its lookups. It allocates only when the
//! number of behaviours reaches a new maximum.
//!
//! 1. At most `capacity` behaviours are stored; the one installed first leaves first.
//! 2. By table there are exactly the rows of the behaviours that looked it up.

use std::collections::VecDeque;

use hashbrown::HashTable;

use crate::packed::KeyHash;
use crate::program::ids::TableId;

use super::record::{Behavior, Lookup};

/// Maximum removed behaviours whose memory is kept.
const SPARE_MAX: usize = 64;

/// One table lookup of a behaviour.
#[derive(Clone, Copy, Debug)]
struct Row {
    place: u32,
    /// The index of the lookup in its behaviour.
    lookup: u32,
    is_hit: bool,
}

/// The lookups of one table, with their keys.
#[derive(Debug)]
struct Rows {
    /// Words of a key.
    words: usize,
    rows: Vec<Row>,
    keys: Vec<u64>,
}

impl Rows {
    /// Removes a row. Returns the row that moved to its place, if any.
    fn remove(&mut self, row: u32) -> Option<Row> {
        let (row, last) = (row as usize, self.rows.len() - 1);
        self.rows.swap_remove(row);
        let words = self.words;
        self.keys
            .copy_within(last * words..(last + 1) * words, row * words);
        self.keys.truncate(last * words);
        (row < last).then(|| self.rows[row])
    }
}

/// The behaviours of one pipeline.
#[derive(Debug)]
pub(crate) struct Store {
    capacity: usize,
    key_words: usize,
    /// The hash function of keys.
    pub(super) hash: KeyHash,
    index: HashTable<u32>,
    /// The keys one after the other, by place.
    keys: Vec<u64>,
    behaviors: Vec<Option<Behavior>>,
    free: Vec<u32>,
    /// Places in order of installation; an item is stale if its place now has another number.
    order: VecDeque<(u64, u32)>,
    number_of: Vec<u64>,
    next_number: u64,
    tables: Vec<Rows>,
    /// Places about to be removed.
    leaving: Vec<u32>,
    /// Removed behaviours whose memory is reused.
    pub(super) spare: Vec<Behavior>,
}

impl Store {
    /// Creates an empty store for keys of `key_words` words. `tables` gives each table's key
    /// length in words.
    pub(crate) fn new(
        capacity: usize,
        key_words: usize,
        tables: impl Iterator<Item = usize>,
        seed: u64,
    ) -> Store {
        let rows = |words| Rows {
            words,
            rows: Vec::new(),
            keys: Vec::new(),
        };
        Store {
            capacity,
            key_words,
            hash: KeyHash::new(key_words, seed),
            index: HashTable::new(),
            keys: Vec::new(),
            behaviors: Vec::new(),
            free: Vec::new(),
            order: VecDeque::new(),
            number_of: Vec::new(),
            next_number: 0,
            tables: tables.map(rows).collect(),
            leaving: Vec::new(),
            spare: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    fn key_at(&self, place: u32) -> &[u64] {
        let first = place as usize * self.key_words;
        &self.keys[first..first + self.key_words]
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &[u64]) -> Option<&Behavior> {
        // Compares word by word, as the key was written: `memcmp` loads more at a time and
        // waits for the writes.
        let is_key = |&place: &u32| {
            let mut words = self.key_at(place).iter().zip(key);
            words.all(|(own, other)| own == other)
        };
        let place = *self.index.find(hash, is_key)?;
        self.behaviors[place as usize].as_ref()
    }

    /// Inserts a behaviour whose key, with this hash, is not stored. Returns how many were
    /// evicted for it.
    pub(crate) fn insert(&mut self, hash: u64, key: &[u64], mut behavior: Behavior) -> usize {
        let mut left = 0;
        while self.len() >= self.capacity
            && let Some((number, oldest)) = self.order.pop_front()
        {
            if self.is_there(number, oldest) {
                self.remove(oldest);
                left += 1;
            }
        }
        let place = match self.free.pop() {
            Some(place) => {
                let first = place as usize * self.key_words;
                self.keys[first..first + self.key_words].copy_from_slice(key);
                place
            }
            None => {
                self.keys.extend_from_slice(key);
                self.behaviors.push(None);
                self.number_of.push(0);
                self.behaviors.len() as u32 - 1
            }
        };
        let mut from = 0;
        for (number, lookup) in (0..).zip(&mut behavior.lookups) {
            let table = &mut self.tables[lookup.table.index()];
            lookup.row = table.rows.len() as u32;
            table.rows.push(Row {
                place,
                lookup: number,
                is_hit: lookup.is_hit,
            });
            let key = &behavior.keys[from..from + table.words];
            table.keys.extend_from_slice(key);
            from += table.words;
        }
        self.behaviors[place as usize] = Some(behavior);
        self.number_of[place as usize] = self.next_number;
        self.order.push_back((self.next_number, place));
        self.next_number += 1;
        let (keys, words, hasher) = (&self.keys, self.key_words, &self.hash);
        let again = |place: &u32| {
            let first = *place as usize * words;
            hasher.hash(&keys[first..first + words])
        };
        self.index.insert_unique(hash, place, again);
        left
    }

    /// Whether installation `number` is still at its place.
    fn is_there(&self, number: u64, place: u32) -> bool {
        self.number_of[place as usize] == number && self.behaviors[place as usize].is_some()
    }

    fn remove(&mut self, place: u32) {
        let mut next = 0;
        // The behaviour stays in its place meanwhile: the row that moves may be another of its
        // own.
        while let Some(behavior) = &self.behaviors[place as usize]
            && let Some(&Lookup { table, row, .. }) = behavior.lookups.get(next)
        {
            next += 1;
            if let Some(moved) = self.tables[table.index()].remove(row)
                && let Some(owner) = &mut self.behaviors[moved.place as usize]
            {
                owner.lookups[moved.lookup as usize].row = row;
            }
        }
        let Some(behavior) = self.behaviors[place as usize].take() else {
            return;
        };
        let hash = self.hash.hash(self.key_at(place));
        if let Ok(found) = self.index.find_entry(hash, |&other| other == place) {
            found.remove();
        }
        self.free.push(place);
        if self.spare.len() < SPARE_MAX {
            self.spare.push(behavior);
        }
    }

    /// Evicts the behaviours with a lookup of `table` that satisfies `is_affected`. Returns how
    /// many.
    pub(crate) fn evict(
        &mut self,
        table: TableId,
        is_affected: impl Fn(&[u64], bool) -> bool,
    ) -> usize {
        let table = &self.tables[table.index()];
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.clear();
        for (index, row) in table.rows.iter().enumerate() {
            let key = &table.keys[index * table.words..(index + 1) * table.words];
            if is_affected(key, row.is_hit) {
                leaving.push(row.place);
            }
        }
        leaving.sort_unstable();
        leaving.dedup();
        let count = leaving.len();
        for &place in &leaving {
            self.remove(place);
        }
        self.leaving = leaving;
        self.forget_order();
        count
    }

    /// Drops stale items of the order once they outnumber the stored behaviours.
    fn forget_order(&mut self) {
        if self.order.len() > 2 * self.len() + SPARE_MAX {
            let mut order = std::mem::take(&mut self.order);
            order.retain(|&(number, place)| self.is_there(number, place));
            self.order = order;
        }
    }

    /// Evicts all behaviours and returns how many.
    pub(crate) fn clear(&mut self) -> usize {
        let count = self.len();
        for place in 0..self.behaviors.len() as u32 {
            self.remove(place);
        }
        self.order.clear();
        count
    }

    /// Invariants 1 and 2, for tests.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        assert!(self.len() <= self.capacity);
        let there = self.behaviors.iter().flatten();
        assert_eq!(self.len(), there.clone().count());
        let order = self.order.iter();
        let live = order.filter(|&&(number, place)| self.is_there(number, place));
        assert_eq!(self.len(), live.count());
        assert!(self.order.len() <= 2 * self.capacity + SPARE_MAX + 1);
        let lookups: usize = there.map(|behavior| behavior.lookups.len()).sum();
        let rows: usize = self.tables.iter().map(|table| table.rows.len()).sum();
        assert_eq!(lookups, rows);
        for (place, behavior) in self.behaviors.iter().enumerate() {
            let Some(behavior) = behavior else { continue };
            let mut from = 0;
            for (number, lookup) in behavior.lookups.iter().enumerate() {
                let table = &self.tables[lookup.table.index()];
                let row = table.rows[lookup.row as usize];
                assert_eq!((row.place, row.lookup), (place as u32, number as u32));
                assert_eq!(row.is_hit, lookup.is_hit);
                let at = lookup.row as usize * table.words;
                let key = &behavior.keys[from..from + table.words];
                assert_eq!(&table.keys[at..at + table.words], key);
                from += table.words;
            }
        }
    }
}
