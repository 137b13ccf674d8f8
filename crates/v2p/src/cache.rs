//! The cache of a switch: from a key to its mapping, with an access bit for each line.
//!
//! ```text
//!   hash(key, seed) ---> set ---> [line] x ways         a line: key, place, version, access bit
//! ```
//!
//! With one way it is direct-mapped, as in the paper (section 3.2, "cache structure"): a hit
//! sets the access bit; a lookup that finds another key in the line clears it. With more ways
//! a miss clears the bit under the set's hand and advances the hand. The victim is the first
//! line from the hand on whose bit is clear. That is the clock of Corbató's second chance; for
//! one way it is the paper's rule.
//!
//! 1. A key is in at most one line, which is in its set. Keys include their tenant.
//! 2. The number of lines never changes. A cache without lines refuses everything.
//! 3. An insertion changes one line, and returns the mapping of another key that it displaced.
//! 4. In a cache with versions, a mapping that this cache has removed as wrong, because it was
//!    invalidated or because a newer one names another place, never comes back (`floors.rs`).
//!    A newer mapping is never replaced by an older one. A mapping without a version is
//!    refused.
//! 5. If the cache is divided among tenants (`partitions.rs`), a mapping displaces none of
//!    another partition.
//!
//! Cost: one hash ([`Cache::locate`], shared by the operations on a key), then one or two
//! cache lines of the processor for each way. Memory is 48 bytes a line, obtained from the
//! operating system as zero pages, so only the used part of a large cache costs memory.
//! Nothing is allocated later.
//!
//! Reference: Lior Zeno, Ang Chen, Mark Silberstein, *In-Network Address Caching for Virtual
//! Networks*, SIGCOMM 2024, sections 3.2 and 3.2.1. Departures: the tenant in the key; ways,
//! seeds and versions, which [`MappingCacheConfig::new`] leaves out; partitions, which the paper
//! leaves open.

use prefetch_index::prefetch_index;

use crate::Address;
use crate::floors::Floors;
use crate::hash::IndexHash;
use crate::mapping::{Key, MapVersion, Mapping, Vni};
use crate::partitions::{Division, Partitions, Sets};

/// Virtual address and physical address in two words each, version, then tenant and flags.
type Line = [u64; 6];

const VERSION: usize = 4;
const META: usize = 5;
const IN_USE: u64 = 1 << 32;
const ACTIVE: u64 = 1 << 33;
const NO_LINE: Line = [0; 6];

/// The configuration of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MappingCacheConfig {
    /// Total lines; 0 for no cache. Lines that do not fill a whole set stay unused.
    pub capacity_entries: u32,
    /// Lines in a set; 1 is direct-mapped. At most 255.
    pub ways: u8,
    /// The hash from a key to a set.
    pub hash: IndexHash,
    /// Seed of the hash; should differ per switch, or the same addresses collide everywhere.
    pub seed: u32,
    /// Whether inserting a key that is already there clears its access bit, as in the
    /// artifact.
    pub clears_on_refresh: bool,
    /// Whether the virtual address `0.0.0.0` leaves its line free, as in the artifact, where
    /// key 0 marks an empty line.
    pub zero_is_free: bool,
    /// Number of floors for stale keys; with 0 versions are ignored.
    pub floor_count: usize,
}

impl MappingCacheConfig {
    /// The cache of the paper: direct-mapped, indexed by CRC-32, the same in all switches.
    pub const fn new(capacity_entries: u32) -> MappingCacheConfig {
        MappingCacheConfig {
            capacity_entries,
            ways: 1,
            hash: IndexHash::Crc32,
            seed: 0,
            clears_on_refresh: false,
            zero_is_free: false,
            floor_count: 0,
        }
    }
}

/// The set of a key, as [`Cache::locate`] found it; valid for that cache and key only.
#[derive(Clone, Copy, Debug)]
pub struct Set {
    first_line: usize,
    /// 0 if the key's tenant has no lines.
    ways: usize,
}

impl Set {
    const NONE: Set = Set {
        first_line: 0,
        ways: 0,
    };

    fn lines(self) -> std::ops::Range<usize> {
        self.first_line..self.first_line + self.ways
    }
}

/// The result of a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The physical address.
    pub place: Address,
    /// The version at which this was true.
    pub version: MapVersion,
    /// Whether the access bit was set before this lookup.
    pub was_active: bool,
}

/// When an insertion is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// Always; the mapping in the way is displaced (Table 1, "all").
    Always,
    /// Unless it would displace a line whose access bit is set (Table 1, "A bit clear").
    Inactive,
    /// Like `Inactive`, and not if the key is already there: the artifact's cores.
    InactiveAndAbsent,
    /// Only into a free line, or the key's own line.
    Free,
}

/// Why an insertion was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The cache has no lines, or none for this tenant.
    NoMemory,
    /// The line in the way has its access bit set.
    Active,
    /// There is no free line.
    Occupied,
    /// The key is there already.
    Present,
    /// The cached mapping is newer.
    Older,
    /// This mapping, or a newer one, was found wrong before.
    FoundStale,
    /// The mapping has no version, and this cache requires one.
    Unversioned,
}

/// The result of an insertion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// A free line was taken.
    Inserted,
    /// The key was there with this place.
    Refreshed,
    /// The key was there with another place.
    Replaced,
    /// Another key's mapping was displaced.
    Evicted(Mapping),
    /// Nothing changed.
    Refused(Refusal),
}

/// The result of an invalidation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalidated {
    /// The stale mapping was here and was removed.
    Removed,
    /// Another mapping of the key is here, and not known to be stale.
    Kept(Found),
    /// The key is not here.
    Absent,
}

/// A direct-mapped or set-associative cache of mappings.
///
/// ```
/// use std::net::Ipv4Addr;
/// use thalweg_v2p::{Address, Admission, Cache, MappingCacheConfig, Key, Mapping, Put, MapVersion, Vni};
///
/// let mut cache = Cache::new(&MappingCacheConfig::new(64));
/// let key = Key { vni: Vni::default(), address: Ipv4Addr::new(10, 0, 0, 1).into() };
/// let place = Address::from(Ipv4Addr::new(192, 0, 2, 7));
/// let set = cache.locate(key);
/// let mapping = Mapping { key, place, version: MapVersion::NONE };
/// assert_eq!(cache.put(set, mapping, Admission::Always), Put::Inserted);
/// assert_eq!(cache.lookup(set, key).map(|found| found.place), Some(place));
/// ```
#[derive(Clone, Debug)]
pub struct Cache {
    lines: Box<[Line]>,
    /// The position of each set's clock hand; empty if there is one way.
    hands: Box<[u8]>,
    set_count: u32,
    ways: u32,
    /// `None` if all tenants share all sets.
    division: Option<Box<Division>>,
    hash: IndexHash,
    seed: u32,
    clears_on_refresh: bool,
    zero_is_free: bool,
    is_versioned: bool,
    floors: Box<Floors>,
}

// One cache line of the processor, whatever order the fields have.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Cache>() == 64);

impl Cache {
    /// Creates an empty cache.
    ///
    /// # Panics
    /// If `ways` is 0.
    pub fn new(config: &MappingCacheConfig) -> Cache {
        assert!(config.ways > 0, "a set has a line at least");
        let ways = u32::from(config.ways).min(config.capacity_entries);
        let set_count = config.capacity_entries.checked_div(ways).unwrap_or(0);
        let hand_count = if ways > 1 { set_count as usize } else { 0 };
        Cache {
            lines: vec![NO_LINE; (set_count * ways) as usize].into(),
            hands: vec![0; hand_count].into(),
            set_count,
            ways,
            division: None,
            hash: config.hash,
            seed: config.seed,
            clears_on_refresh: config.clears_on_refresh,
            zero_is_free: config.zero_is_free,
            is_versioned: config.floor_count > 0,
            floors: Box::new(Floors::new(config.floor_count)),
        }
    }

    /// Total lines.
    pub fn capacity_entries(&self) -> usize {
        self.lines.len()
    }

    /// The mappings in the cache and whether their access bits are set, in the order of lines.
    pub fn entries(&self) -> impl Iterator<Item = (Mapping, bool)> + '_ {
        let used = self.lines.iter().filter(|line| line[META] & IN_USE != 0);
        used.filter_map(|line| Some((mapping_of(line)?, line[META] & ACTIVE != 0)))
    }

    /// Forgets all mappings, but keeps the floors of stale ones.
    pub fn clear(&mut self) {
        self.lines.fill(NO_LINE);
        self.hands.fill(0);
    }

    /// Divides the lines among tenants, or shares them all (`None`); forgets all mappings.
    pub fn set_partitions(&mut self, partitions: Option<Partitions>) {
        let divide = |partitions: Partitions| Box::new(partitions.divide(self.set_count));
        self.division = partitions.map(divide);
        self.clear();
    }

    /// The set of a key.
    #[inline]
    pub fn locate(&self, key: Key) -> Set {
        let sets = match &self.division {
            None => Sets {
                first: 0,
                count: self.set_count,
            },
            Some(division) => division.sets_of(key.vni),
        };
        if sets.count == 0 {
            return Set::NONE;
        }
        let set = sets.first + self.hash.set_of(key, self.seed, sets.count);
        Set {
            first_line: (set * self.ways) as usize,
            ways: self.ways as usize,
        }
    }

    /// Prefetches the first line of a set, which may span two cache lines of the processor.
    #[inline]
    pub fn prefetch(&self, set: Set) {
        if let Some(line) = self.lines.get(set.first_line) {
            prefetch_index(line, 0);
            prefetch_index(line, META);
        }
    }

    /// Looks up a key and updates the access bits.
    #[inline]
    pub fn lookup(&mut self, set: Set, key: Key) -> Option<Found> {
        let Some(index) = self.index_of(set, key) else {
            self.cool(set);
            return None;
        };
        let line = &mut self.lines[index];
        let was_active = line[META] & ACTIVE != 0;
        line[META] |= ACTIVE;
        let Mapping { place, version, .. } = mapping_of(line)?;
        Some(Found {
            place,
            version,
            was_active,
        })
    }

    /// Inserts a mapping if the admission allows it.
    #[inline]
    pub fn put(&mut self, set: Set, mapping: Mapping, admission: Admission) -> Put {
        if set.ways == 0 {
            return Put::Refused(Refusal::NoMemory);
        }
        if let Some(refusal) = self.is_versioned.then(|| self.doubt(mapping)).flatten() {
            return Put::Refused(refusal);
        }
        match self.index_of(set, mapping.key) {
            Some(index) => self.put_again(index, mapping, admission),
            None => self.put_anew(set, mapping, admission),
        }
    }

    /// Removes the mapping that a stale mapping proves wrong; counts as a lookup.
    ///
    /// That is the cached mapping to the same place; with versions, unless it is newer.
    pub fn invalidate(&mut self, set: Set, stale: Mapping) -> Invalidated {
        let has_version = self.is_versioned && stale.version != MapVersion::NONE;
        if has_version {
            self.floors.raise(stale);
        }
        let Some(found) = self.lookup(set, stale.key) else {
            return Invalidated::Absent;
        };
        let is_newer = has_version && found.version > stale.version;
        if found.place != stale.place || is_newer {
            return Invalidated::Kept(found);
        }
        if let Some(index) = self.index_of(set, stale.key) {
            self.lines[index] = NO_LINE;
        }
        Invalidated::Removed
    }

    /// Why a mapping is not credible, regardless of its set.
    fn doubt(&self, mapping: Mapping) -> Option<Refusal> {
        if mapping.version == MapVersion::NONE {
            return Some(Refusal::Unversioned);
        }
        (!self.floors.admits(mapping)).then_some(Refusal::FoundStale)
    }

    fn put_again(&mut self, index: usize, mapping: Mapping, admission: Admission) -> Put {
        if admission == Admission::InactiveAndAbsent {
            return Put::Refused(Refusal::Present);
        }
        let line = &mut self.lines[index];
        let is_same_place = place_bits(line) == mapping.place.to_bits();
        let old_version = MapVersion(line[VERSION]);
        if self.is_versioned && !is_same_place {
            if mapping.version <= old_version {
                return Put::Refused(Refusal::Older);
            }
            if let Some(replaced) = mapping_of(line) {
                self.floors.raise(replaced);
            }
        }
        let keeps_bit = admission == Admission::Free || !self.clears_on_refresh;
        let flags = if keeps_bit { line[META] & ACTIVE } else { 0 };
        let version = if is_same_place {
            mapping.version.max(old_version)
        } else {
            mapping.version
        };
        *line = line_of(Mapping { version, ..mapping }, flags);
        if is_same_place {
            Put::Refreshed
        } else {
            Put::Replaced
        }
    }

    fn put_anew(&mut self, set: Set, mapping: Mapping, admission: Admission) -> Put {
        if let Some(index) = set.lines().find(|&index| self.is_free(index)) {
            // Only the artifact's key 0 leaves a free line with its bit set, for `Free` to
            // keep.
            let is_kept = admission == Admission::Free;
            let flags = if is_kept {
                self.lines[index][META] & ACTIVE
            } else {
                0
            };
            self.lines[index] = line_of(mapping, flags);
            return Put::Inserted;
        }
        let victim = match admission {
            Admission::Free => return Put::Refused(Refusal::Occupied),
            Admission::Always => self.victim(set).unwrap_or(set.first_line + self.hand(set)),
            Admission::Inactive | Admission::InactiveAndAbsent => match self.victim(set) {
                Some(victim) => victim,
                None => return Put::Refused(Refusal::Active),
            },
        };
        let displaced = mapping_of(&self.lines[victim]);
        self.lines[victim] = line_of(mapping, 0);
        self.set_hand(set, victim - set.first_line + 1);
        displaced.map_or(Put::Inserted, Put::Evicted)
    }

    #[inline]
    fn index_of(&self, set: Set, key: Key) -> Option<usize> {
        let bits = key.address.to_bits();
        let [high, low] = [(bits >> 64) as u64, bits as u64];
        let meta = IN_USE | u64::from(key.vni.number());
        set.lines().find(|&index| {
            let line = &self.lines[index];
            (line[0] ^ high) | (line[1] ^ low) | ((line[META] & !ACTIVE) ^ meta) == 0
        })
    }

    /// Records a miss in a set: one line loses its access bit.
    #[inline]
    fn cool(&mut self, set: Set) {
        if set.ways == 0 {
            return;
        }
        let hand = self.hand(set);
        self.lines[set.first_line + hand][META] &= !ACTIVE;
        self.set_hand(set, hand + 1);
    }

    /// The first line from the hand on whose access bit is clear.
    fn victim(&self, set: Set) -> Option<usize> {
        let hand = self.hand(set);
        let mut lines = (0..set.ways).map(|step| set.first_line + (hand + step) % set.ways);
        lines.find(|&index| self.lines[index][META] & ACTIVE == 0)
    }

    #[inline]
    fn hand(&self, set: Set) -> usize {
        match set.ways {
            1 => 0,
            ways => self.hands[set.first_line / ways].into(),
        }
    }

    #[inline]
    fn set_hand(&mut self, set: Set, hand: usize) {
        if set.ways > 1 {
            self.hands[set.first_line / set.ways] = (hand % set.ways) as u8;
        }
    }

    fn is_free(&self, index: usize) -> bool {
        let line = &self.lines[index];
        line[META] & IN_USE == 0
            || self.zero_is_free && address_bits(line) == Address::ZERO_IPV4.to_bits()
    }
}

fn line_of(mapping: Mapping, flags: u64) -> Line {
    let [address, place] = [mapping.key.address.to_bits(), mapping.place.to_bits()];
    [
        (address >> 64) as u64,
        address as u64,
        (place >> 64) as u64,
        place as u64,
        mapping.version.0,
        IN_USE | flags | u64::from(mapping.key.vni.number()),
    ]
}

/// The mapping of a line that is in use.
#[inline]
fn mapping_of(line: &Line) -> Option<Mapping> {
    let vni = Vni::new(line[META] as u32)?;
    let address = Address::from_bits(address_bits(line))?;
    let place = Address::from_bits(place_bits(line))?;
    let (key, version) = (Key { vni, address }, MapVersion(line[VERSION]));
    Some(Mapping {
        key,
        place,
        version,
    })
}

#[inline]
fn address_bits(line: &Line) -> u128 {
    u128::from(line[0]) << 64 | u128::from(line[1])
}

#[inline]
fn place_bits(line: &Line) -> u128 {
    u128::from(line[2]) << 64 | u128::from(line[3])
}
