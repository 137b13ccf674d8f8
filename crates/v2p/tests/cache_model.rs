//! Compares the cache with a slow twin of lists and maps, after each of many random
//! operations.
//!
//! The twin states the rules of the paper's section 3.2: a hit sets the bit, a miss clears the
//! bit under the hand, and the victim is the first slot from the hand on whose bit is clear.
//! The twin does not compute the hash. Keys are grouped by set beforehand, by what a cache
//! used only for that evicts.

use std::collections::HashMap;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use thalweg_v2p::*;

const KEYS: u32 = 40;
const PLACES: u32 = 5;
const STEPS: usize = 20_000;

fn key(number: u32) -> Key {
    let vni = Vni::new(number % 2).unwrap();
    let address = match number % 3 {
        0 => Address::from_bits(0xfd00 << 112 | u128::from(number / 2)).unwrap(),
        _ => Address::from_ipv4((number / 2).into()),
    };
    Key { vni, address }
}

fn place(number: u32) -> Address {
    Address::from_ipv4((0x0a00_0000 + number).into())
}

/// One slot: a mapping and its access bit.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Slot {
    mapping: Mapping,
    is_active: bool,
}

/// The slow twin.
struct Twin {
    config: MappingCacheConfig,
    set_of: HashMap<Key, usize>,
    sets: Vec<Vec<Option<Slot>>>,
    hands: Vec<usize>,
    /// For a key and a place, the version up to which it is known to be wrong.
    wrong: HashMap<(Key, Address), MapVersion>,
}

impl Twin {
    fn new(config: MappingCacheConfig) -> Twin {
        let ways = usize::from(config.ways).min(config.capacity_entries as usize);
        let set_count = (config.capacity_entries as usize)
            .checked_div(ways)
            .unwrap_or(0);
        Twin {
            config,
            set_of: group(&config),
            sets: vec![vec![None; ways]; set_count],
            hands: vec![0; set_count],
            wrong: HashMap::new(),
        }
    }

    fn slot(&self, key: Key) -> Option<(usize, usize)> {
        let set = *self.set_of.get(&key)?;
        let is_key = |slot: &Option<Slot>| slot.is_some_and(|slot| slot.mapping.key == key);
        Some((set, self.sets[set].iter().position(is_key)?))
    }

    fn lookup(&mut self, key: Key) -> Option<Found> {
        if let Some((set, way)) = self.slot(key) {
            let slot = self.sets[set][way].as_mut().unwrap();
            let Mapping { place, version, .. } = slot.mapping;
            let was_active = std::mem::replace(&mut slot.is_active, true);
            return Some(Found {
                place,
                version,
                was_active,
            });
        }
        if let Some(&set) = self.set_of.get(&key) {
            let hand = self.hands[set];
            if let Some(slot) = &mut self.sets[set][hand] {
                slot.is_active = false;
            }
            self.hands[set] = (hand + 1) % self.sets[set].len();
        }
        None
    }

    fn is_versioned(&self) -> bool {
        self.config.floor_count > 0
    }

    fn put(&mut self, mapping: Mapping, admission: Admission) -> Put {
        if self.sets.is_empty() {
            return Put::Refused(Refusal::NoMemory);
        }
        if self.is_versioned() && mapping.version == MapVersion::NONE {
            return Put::Refused(Refusal::Unversioned);
        }
        let wrong = self.wrong.get(&(mapping.key, mapping.place));
        if wrong.is_some_and(|&wrong| mapping.version <= wrong) {
            return Put::Refused(Refusal::FoundStale);
        }
        match self.slot(mapping.key) {
            Some((set, way)) => self.put_again(set, way, mapping, admission),
            None => self.put_anew(mapping, admission),
        }
    }

    fn put_again(&mut self, set: usize, way: usize, mapping: Mapping, admission: Admission) -> Put {
        let old = self.sets[set][way].unwrap();
        if admission == Admission::InactiveAndAbsent {
            return Put::Refused(Refusal::Present);
        }
        let keeps_bit = admission == Admission::Free || !self.config.clears_on_refresh;
        let is_active = old.is_active && keeps_bit;
        if old.mapping.place == mapping.place {
            let version = old.mapping.version.max(mapping.version);
            let mapping = Mapping { version, ..mapping };
            self.sets[set][way] = Some(Slot { mapping, is_active });
            return Put::Refreshed;
        }
        if self.is_versioned() {
            if mapping.version <= old.mapping.version {
                return Put::Refused(Refusal::Older);
            }
            self.report(old.mapping);
        }
        self.sets[set][way] = Some(Slot { mapping, is_active });
        Put::Replaced
    }

    fn put_anew(&mut self, mapping: Mapping, admission: Admission) -> Put {
        let set = self.set_of[&mapping.key];
        let zero = Address::from_ipv4(0.into());
        let zero_is_free = self.config.zero_is_free;
        let is_free = |slot: &Option<Slot>| match slot {
            None => true,
            Some(slot) => zero_is_free && slot.mapping.key.address == zero,
        };
        let ways = self.sets[set].len();
        if let Some(way) = self.sets[set].iter().position(is_free) {
            let bit = self.sets[set][way].is_some_and(|slot| slot.is_active);
            let is_active = bit && admission == Admission::Free;
            self.sets[set][way] = Some(Slot { mapping, is_active });
            return Put::Inserted;
        }
        let from_hand = (0..ways).map(|step| (self.hands[set] + step) % ways);
        let is_inactive = |way: &usize| self.sets[set][*way].is_some_and(|slot| !slot.is_active);
        let inactive = from_hand.clone().find(is_inactive);
        let way = match (admission, inactive) {
            (Admission::Free, _) => return Put::Refused(Refusal::Occupied),
            (_, Some(way)) => way,
            (Admission::Always, None) => self.hands[set],
            _ => return Put::Refused(Refusal::Active),
        };
        let old = self.sets[set][way].unwrap().mapping;
        self.sets[set][way] = Some(Slot {
            mapping,
            is_active: false,
        });
        self.hands[set] = (way + 1) % ways;
        Put::Evicted(old)
    }

    fn report(&mut self, stale: Mapping) {
        let wrong = self.wrong.entry((stale.key, stale.place)).or_default();
        *wrong = (*wrong).max(stale.version);
    }

    fn invalidate(&mut self, stale: Mapping) -> Invalidated {
        let is_dated = self.is_versioned() && stale.version != MapVersion::NONE;
        if is_dated {
            self.report(stale);
        }
        let Some(found) = self.lookup(stale.key) else {
            return Invalidated::Absent;
        };
        if found.place != stale.place || is_dated && found.version > stale.version {
            return Invalidated::Kept(found);
        }
        let (set, way) = self.slot(stale.key).unwrap();
        self.sets[set][way] = None;
        Invalidated::Removed
    }
}

/// Groups keys by set: those that displace each other in a cache of one way.
fn group(config: &MappingCacheConfig) -> HashMap<Key, usize> {
    let ways = u32::from(config.ways).min(config.capacity_entries);
    let Some(set_count) = config.capacity_entries.checked_div(ways) else {
        return HashMap::new();
    };
    let probe = MappingCacheConfig {
        capacity_entries: set_count,
        ways: 1,
        ..*config
    };
    let probe = MappingCacheConfig {
        zero_is_free: false,
        floor_count: 0,
        ..probe
    };
    let mut representatives: Vec<Key> = Vec::new();
    let mut groups = HashMap::new();
    for key in (0..KEYS).map(key) {
        let meets = |other: &Key| {
            let mut cache = Cache::new(&probe);
            let mapping = |key| Mapping {
                key,
                place: place(0),
                version: MapVersion::NONE,
            };
            cache.put(cache.locate(*other), mapping(*other), Admission::Always);
            let put = cache.put(cache.locate(key), mapping(key), Admission::Always);
            matches!(put, Put::Evicted(_))
        };
        let set = representatives.iter().position(meets);
        let set = set.unwrap_or_else(|| {
            representatives.push(key);
            representatives.len() - 1
        });
        groups.insert(key, set);
    }
    assert!(representatives.len() <= set_count as usize);
    groups
}

fn random_mapping(random: &mut Pcg64, is_versioned: bool) -> Mapping {
    let version = MapVersion(if is_versioned {
        random.random_range(0..9)
    } else {
        0
    });
    let place = place(random.random_range(0..PLACES));
    Mapping {
        key: key(random.random_range(0..KEYS)),
        place,
        version,
    }
}

fn compare(config: MappingCacheConfig, seed: u64) {
    let mut random = Pcg64::seed_from_u64(seed);
    let (mut cache, mut twin) = (Cache::new(&config), Twin::new(config));
    for step in 0..STEPS {
        let context = format!("{config:?}, seed {seed}, step {step}");
        let mapping = random_mapping(&mut random, twin.is_versioned());
        let set = cache.locate(mapping.key);
        match random.random_range(0..10) {
            0..4 => {
                let found = cache.lookup(set, mapping.key);
                assert_eq!(found, twin.lookup(mapping.key), "{context}");
            }
            4..9 => {
                let admission = match random.random_range(0..4) {
                    0 => Admission::Always,
                    1 => Admission::Inactive,
                    2 => Admission::InactiveAndAbsent,
                    _ => Admission::Free,
                };
                let put = cache.put(set, mapping, admission);
                assert_eq!(put, twin.put(mapping, admission), "{context}");
            }
            _ => {
                let invalidated = cache.invalidate(set, mapping);
                assert_eq!(invalidated, twin.invalidate(mapping), "{context}");
            }
        }
        let mut entries: Vec<_> = cache.entries().collect();
        let slots = twin.sets.iter().flatten().flatten();
        let mut slots: Vec<_> = slots.map(|slot| (slot.mapping, slot.is_active)).collect();
        let by_key = |entry: &(Mapping, bool)| (entry.0.key.vni, entry.0.key.address);
        entries.sort_by_key(by_key);
        slots.sort_by_key(by_key);
        assert_eq!(entries, slots, "{context}");
    }
}

#[test]
fn a_direct_mapped_cache_is_the_twin() {
    for (capacity, seed) in [(0, 1), (1, 2), (7, 3), (12, 4), (64, 5)] {
        compare(MappingCacheConfig::new(capacity), seed);
    }
}

#[test]
fn the_artifacts_cache_is_the_twin() {
    for (capacity, seed) in [(1, 11), (12, 12), (64, 13)] {
        let config = MappingCacheConfig::new(capacity);
        compare(
            MappingCacheConfig {
                clears_on_refresh: true,
                zero_is_free: true,
                ..config
            },
            seed,
        );
    }
}

#[test]
fn a_set_associative_cache_is_the_twin() {
    for (capacity, ways, seed) in [(1, 4, 21), (8, 2, 22), (13, 4, 23), (32, 16, 24)] {
        let config = MappingCacheConfig::new(capacity);
        let hash = IndexHash::Mixed;
        compare(
            MappingCacheConfig {
                ways,
                hash,
                seed: 77,
                ..config
            },
            seed,
        );
    }
}

#[test]
fn a_versioned_cache_is_the_twin() {
    for (capacity, ways, seed) in [(4, 1, 31), (12, 4, 32), (64, 4, 33)] {
        let config = MappingCacheConfig::new(capacity);
        // Enough floors that no two of these keys and places share one.
        compare(
            MappingCacheConfig {
                ways,
                floor_count: 1 << 22,
                ..config
            },
            seed,
        );
    }
}

/// With few floors a cache may refuse more than the twin, but never believes a wrong mapping.
#[test]
fn shared_floors_refuse_too_much_and_never_too_little() {
    let config = MappingCacheConfig {
        floor_count: 3,
        ..MappingCacheConfig::new(64)
    };
    let mut random = Pcg64::seed_from_u64(41);
    let mut cache = Cache::new(&config);
    let mut wrong: HashMap<(Key, Address), MapVersion> = HashMap::new();
    let mut refused = 0;
    for _ in 0..STEPS {
        let mapping = random_mapping(&mut random, true);
        let set = cache.locate(mapping.key);
        if random.random_range(0..100) == 0 {
            cache.invalidate(set, mapping);
            let floor = wrong.entry((mapping.key, mapping.place)).or_default();
            *floor = (*floor).max(mapping.version);
            continue;
        }
        let put = cache.put(set, mapping, Admission::Always);
        refused += u32::from(put == Put::Refused(Refusal::FoundStale));
        for (entry, _) in cache.entries() {
            let floor = wrong
                .get(&(entry.key, entry.place))
                .copied()
                .unwrap_or_default();
            assert!(
                entry.version > floor,
                "{entry:?} was found wrong at {floor:?}"
            );
        }
    }
    assert!(refused > 0);
}
