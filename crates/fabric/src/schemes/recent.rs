//! An LRU cache of mappings for Bluebird's ToRs and the controller's switches.
//!
//! The capacity is a limit, not memory allocated at the start: the paper's largest size is
//! 192K entries a switch, of which a run uses few.

use lru::LruCache;
use thalweg_v2p::{Address, Key};

/// Places of the most recently used keys.
#[derive(Clone, Debug)]
pub(crate) struct RecentCache {
    places: LruCache<Key, Address>,
    capacity_entries: usize,
}

impl RecentCache {
    /// Creates an empty cache; with capacity 0 it stays empty.
    pub(crate) fn new(capacity_entries: u32) -> RecentCache {
        RecentCache {
            places: LruCache::unbounded(),
            capacity_entries: capacity_entries as usize,
        }
    }

    /// Looks up a key, which becomes the most recently used.
    pub(crate) fn find(&mut self, key: Key) -> Option<Address> {
        self.places.get(&key).copied()
    }

    /// Inserts a mapping; displaces the least recently used one if full.
    pub(crate) fn put(&mut self, key: Key, place: Address) {
        self.places.put(key, place);
        if self.places.len() > self.capacity_entries {
            self.places.pop_lru();
        }
    }
}
