//! The last repair of each entry.
//!
//! 1. It has no more records than there are entries: an entry's record is removed with it.

use std::collections::HashMap;

use thalweg_classifier::Version;
use thalweg_classifier::hash::WordHash;

use crate::entry::EntryId;
use crate::outcome::Outcome;

/// The last repair of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastRepair {
    /// The version of the change.
    pub version: Version,
    /// What happened to the entry.
    pub outcome: Outcome,
    /// Lookups in tables that the walk needed.
    pub lookups: u32,
    /// How many of them were known, so that no table was searched.
    pub recalled: u32,
    /// Bits in the entry's mask when a walk last searched all tables.
    pub searched_bits: u32,
}

/// Last repairs by entry; entries never repaired are absent.
#[derive(Debug)]
pub(crate) struct Histories(HashMap<EntryId, LastRepair, WordHash>);

impl Histories {
    pub(crate) fn new(seed: u64) -> Histories {
        Histories(HashMap::with_hasher(WordHash::new(seed)))
    }

    pub(crate) fn note(&mut self, id: EntryId, repair: LastRepair) {
        self.0.insert(id, repair);
    }

    pub(crate) fn forget(&mut self, id: EntryId) {
        if !self.0.is_empty() {
            self.0.remove(&id);
        }
    }

    pub(crate) fn get(&self, id: EntryId) -> Option<LastRepair> {
        self.0.get(&id).copied()
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.capacity() * (std::mem::size_of::<(EntryId, LastRepair)>() + 1)
    }
}
