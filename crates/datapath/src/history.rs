//! When entries were last repaired, and what that took.
//!
//! 1. There is no more of it than there are entries: what is noted of an entry goes with it.

use std::collections::HashMap;

use thalweg_classifier::Version;
use thalweg_classifier::hash::WordHash;

use crate::entry::EntryId;
use crate::maintain::Outcome;

/// The last repair of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastRepair {
    /// The version that the change made.
    pub version: Version,
    /// What became of the entry.
    pub outcome: Outcome,
    /// Lookups in tables that the walk needed.
    pub lookups: u32,
    /// Those among them whose outcome was still known, so that nothing was searched.
    pub recalled: u32,
    /// Bits that the entry's mask had when a walk last searched all tables.
    pub searched_bits: u32,
}

/// Last repairs by entry; those of entries that were never repaired are not there.
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
