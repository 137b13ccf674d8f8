//! A cache that keeps what was used last: where Bluebird's ToRs and the controller's switches look.
//!
//! The capacity is a limit, not memory taken at the start: the largest of the paper's sizes is 192K
//! entries a switch, of which a run uses few.

use lru::LruCache;
use thalweg_v2p::{Address, Key};

/// Places of the keys used last.
#[derive(Clone, Debug)]
pub(crate) struct RecentCache {
    places: LruCache<Key, Address>,
    capacity_entries: usize,
}

impl RecentCache {
    /// An empty cache; without capacity it stays empty.
    pub(crate) fn new(capacity_entries: u32) -> RecentCache {
        RecentCache {
            places: LruCache::unbounded(),
            capacity_entries: capacity_entries as usize,
        }
    }

    /// Where a key is, which is then the one used last.
    pub(crate) fn find(&mut self, key: Key) -> Option<Address> {
        self.places.get(&key).copied()
    }

    /// Puts a mapping in, in place of the one that was not used for longest.
    pub(crate) fn put(&mut self, key: Key, place: Address) {
        self.places.put(key, place);
        if self.places.len() > self.capacity_entries {
            self.places.pop_lru();
        }
    }
}
