//! Maps a rule's id to its sub-table and record: a hash table that does not store the ids.
//!
//! A record has its rule's id, so the table stores only eight bytes per rule. The caller
//! passes a function that reads the id at a place.
//!
//! 1. Whenever the table is used, the ids at all its places can be read. A place is inserted
//!    after its record, and removed before it. When a record has moved, [`Places::relocate`]
//!    comes first, and reads no id.
//!
//! Costs: 9 bytes for each of 2^n slots, of which at most seven in eight are used. Growing
//! reads every record.

use hashbrown::HashTable;

use crate::RuleId;
use crate::hash::WordHash;

/// The place of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) subtable: u32,
    pub(crate) record: u32,
}

/// The places of all rules.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    table: HashTable<Place>,
    hash: WordHash,
}

impl Places {
    pub(crate) fn new(hash: WordHash) -> Places {
        Places {
            table: HashTable::new(),
            hash,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn find(&self, id: RuleId, id_at: impl Fn(Place) -> RuleId) -> Option<Place> {
        let found = self
            .table
            .find(hash_of(self.hash, id), |&at| id_at(at) == id);
        found.copied()
    }

    /// Adds the place of a rule that has none yet.
    pub(crate) fn insert(&mut self, id: RuleId, place: Place, id_at: impl Fn(Place) -> RuleId) {
        let hash = self.hash;
        let hash_at = |&at: &Place| hash_of(hash, id_at(at));
        self.table.insert_unique(hash_of(hash, id), place, hash_at);
    }

    pub(crate) fn remove(&mut self, id: RuleId, id_at: impl Fn(Place) -> RuleId) -> Option<Place> {
        let hash = hash_of(self.hash, id);
        let found = self.table.find_entry(hash, |&at| id_at(at) == id);
        Some(found.ok()?.remove().0)
    }

    /// Changes the place of a rule.
    pub(crate) fn relocate(&mut self, id: RuleId, from: Place, to: Place) {
        let found = self
            .table
            .find_mut(hash_of(self.hash, id), |&at| at == from);
        *found.expect("a rule that moves has a place") = to;
    }

    /// Shrinks the table when less than a quarter of it is used.
    pub(crate) fn shrink(&mut self, id_at: impl Fn(Place) -> RuleId) {
        let (hash, len) = (self.hash, self.table.len());
        if len < self.table.capacity() / 4 {
            self.table
                .shrink_to(len * 2, |&at| hash_of(hash, id_at(at)));
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.table.allocation_size()
    }
}

fn hash_of(hash: WordHash, id: RuleId) -> u64 {
    hash.hash_words(&[u64::from(id.0)])
}
