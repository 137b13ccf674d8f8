//! Versions up to which a key is known not to be at a place, so that stale mappings stay out.
//!
//! A delayed message can bring a mapping that this switch has already removed as wrong. The
//! cache no longer knows it: its line is free or holds another key. So the switch keeps, for
//! each hash of a key and a place, the least version that is still credible.
//!
//! 1. After `raise(m)`, `admits(n)` is false for ever for each mapping `n` of the same key and
//!    place whose version is not greater than that of `m`.
//! 2. The memory is fixed. Keys with the same hash share a floor, so a true but old mapping
//!    may be refused. Once a gateway answers for it again it is admitted, because an answer
//!    has the current version (`mapping.rs`).
//! 3. The place is in the hash, and a host can only report a mapping to itself as wrong. So a
//!    false report keeps out mappings to the liar, and by chance those that share their
//!    floors.
//!
//! Cost: nothing until the first mapping is found stale; then a hash and a word for each
//! insertion.

use crate::hash::mixed;
use crate::mapping::Mapping;

/// Makes the hash differ from that of the cache's sets; otherwise their collisions would
/// coincide.
const SEED: u64 = 0x666c_6f6f_7273;

/// The least credible versions, by hash of key and place.
#[derive(Clone, Debug)]
pub(crate) struct Floors {
    floors: Vec<u64>,
    is_used: bool,
}

impl Floors {
    /// Creates `count` floors; with 0 everything is admitted.
    pub(crate) fn new(count: usize) -> Floors {
        let floors = vec![0; count];
        Floors {
            floors,
            is_used: false,
        }
    }

    /// Whether a mapping is credible.
    #[inline]
    pub(crate) fn admits(&self, mapping: Mapping) -> bool {
        !self.is_used || self.floors[self.index_of(mapping)] <= mapping.version.0
    }

    /// From now on refuses this mapping and all older ones of its key and place.
    pub(crate) fn raise(&mut self, stale: Mapping) {
        if self.floors.is_empty() {
            return;
        }
        let index = self.index_of(stale);
        self.floors[index] = self.floors[index].max(stale.version.next().0);
        self.is_used = true;
    }

    fn index_of(&self, mapping: Mapping) -> usize {
        let place = mapping.place.to_bits();
        let seed = SEED ^ (place as u64) ^ ((place >> 64) as u64).rotate_left(32);
        let hash = mixed(mapping.key, seed) >> 32;
        ((hash * self.floors.len() as u64) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, Key, MapVersion, Vni};

    fn mapping(address: u32, place: u32, version: u64) -> Mapping {
        let [address, place] = [address, place].map(|bits| Address::from_ipv4(bits.into()));
        let key = Key {
            vni: Vni::default(),
            address,
        };
        let version = MapVersion(version);
        Mapping {
            key,
            place,
            version,
        }
    }

    #[test]
    fn a_floor_only_rises() {
        let mut floors = Floors::new(64);
        assert!(floors.admits(mapping(1, 9, 0)));
        floors.raise(mapping(1, 9, 4));
        floors.raise(mapping(1, 9, 2));
        assert!(!floors.admits(mapping(1, 9, 4)));
        assert!(floors.admits(mapping(1, 9, 5)));
    }

    #[test]
    fn another_place_of_the_key_is_another_matter() {
        let mut floors = Floors::new(1 << 16);
        floors.raise(mapping(1, 9, u64::MAX));
        assert!(!floors.admits(mapping(1, 9, 7)));
        assert!(floors.admits(mapping(1, 8, 7)));
        assert!(floors.admits(mapping(2, 9, 7)));
    }

    #[test]
    fn what_shares_a_floor_comes_back_with_a_new_answer() {
        let mut floors = Floors::new(1);
        floors.raise(mapping(1, 9, 5));
        assert!(!floors.admits(mapping(2, 7, 5)));
        assert!(floors.admits(mapping(2, 7, 6)));
    }
}
