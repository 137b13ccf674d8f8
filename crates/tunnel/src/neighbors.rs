//! The MAC addresses of next hops: who has which address, on which bridge.
//!
//! The cache learns from ARP and from neighbour discovery that a bridge receives
//! ([`NeighborSighting`]), from outer packets that arrive, and from a user (`tnl/neigh/set`). This
//! is Open vSwitch's cache (`lib/tnl-neigh-cache.c`); `text.rs` has its commands, and `solicit.rs`
//! the packets that ask for an address.
//!
//! 1. A bridge has at most one entry for an address.
//! 2. No lookup finds an entry whose time is over. An entry that is looked up lives on.
//! 3. There are at most as many entries as the cache has capacity. Of a full cache, the entry that
//!    would end first goes.
//! 4. A method that can change the answer of a lookup says whether it did, so that the caller can
//!    check what depends on it.
//!
//! Time is an argument. All methods but those for all entries take a time logarithmic in their
//! number.

mod solicit;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use thalweg_packet::Instant;
use thalweg_packet::wire::{ArpOperation, ArpRepr, MacAddress, NeighborMessage, NeighborRepr};

pub use self::solicit::{arp_request, neighbor_solicitation};
pub use self::text::NeighborError;

/// How long an entry lives without a lookup, unless `tnl/neigh/aging` says otherwise.
const DEFAULT_AGING: Duration = Duration::from_secs(15 * 60);
/// How many entries a cache has room for, unless the caller says otherwise.
const DEFAULT_CAPACITY: usize = 4096;

/// An address and the MAC address that has it, as a packet says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NeighborSighting {
    /// The address.
    pub address: IpAddr,
    /// The MAC address.
    pub mac: MacAddress,
}

impl NeighborSighting {
    /// What an ARP message says: a reply to one of the bridge's `own` addresses, or a message that
    /// a station sends about itself unasked.
    pub fn of_arp(arp: &ArpRepr, own: &[IpAddr]) -> Option<Self> {
        let is_gratuitous = arp.sender_protocol == arp.target_protocol;
        let is_reply =
            arp.operation == ArpOperation::REPLY && own.contains(&arp.target_protocol.into());
        let is_sighting = (is_gratuitous || is_reply) && arp.sender_hardware != MacAddress::ZERO;
        is_sighting.then_some(NeighborSighting {
            address: arp.sender_protocol.into(),
            mac: arp.sender_hardware,
        })
    }

    /// What a neighbour advertisement says that was sent to `destination`: to one of the bridge's
    /// `own` addresses or its solicited-node address.
    ///
    /// An advertisement without a link-layer address says nothing; Linux sends such ones.
    pub fn of_advertisement(
        neighbor: &NeighborRepr,
        destination: Ipv6Addr,
        own: &[IpAddr],
    ) -> Option<Self> {
        let is_advertisement = matches!(neighbor.message, NeighborMessage::Advertisement { .. });
        let is_here = own.iter().any(|address| match address {
            IpAddr::V4(_) => false,
            IpAddr::V6(own) => *own == destination || solicit::solicited_node(*own) == destination,
        });
        let mac = neighbor.target_link_layer?;
        let is_sighting = is_advertisement && is_here && mac != MacAddress::ZERO;
        is_sighting.then_some(NeighborSighting {
            address: neighbor.target.into(),
            mac,
        })
    }
}

/// An entry of the cache.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Neighbor {
    bridge: String,
    address: IpAddr,
    mac: MacAddress,
    expires: Instant,
}

/// The number of an entry, never used again.
type EntryId = u64;

/// The MAC addresses of next hops.
///
/// ```
/// use std::time::Duration;
/// use thalweg_packet::Instant;
/// use thalweg_packet::wire::MacAddress;
/// use thalweg_tunnel::NeighborCache;
///
/// let mut cache = NeighborCache::default();
/// let (address, mac) = ("192.0.2.1".parse()?, MacAddress([2; 6]));
/// let start = Instant::ZERO;
/// assert!(cache.set("br0", address, mac, start));
/// assert_eq!(cache.lookup("br0", address, start + Duration::from_secs(899)), Some(mac));
/// assert_eq!(cache.lookup("br1", address, start), None);
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct NeighborCache {
    entries: BTreeMap<EntryId, Neighbor>,
    by_address: BTreeMap<IpAddr, BTreeMap<String, EntryId>>,
    by_expiry: BTreeSet<(Instant, EntryId)>,
    next_id: EntryId,
    aging: Duration,
    capacity: usize,
    evicted: u64,
}

impl Default for NeighborCache {
    /// No entry, and room for 4096.
    fn default() -> Self {
        NeighborCache::new(DEFAULT_CAPACITY)
    }
}

impl NeighborCache {
    /// No entry, and room for `capacity`.
    ///
    /// # Panics
    /// If `capacity` is zero.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity != 0, "a cache of neighbours has room for one");
        NeighborCache {
            entries: BTreeMap::new(),
            by_address: BTreeMap::new(),
            by_expiry: BTreeSet::new(),
            next_id: 0,
            aging: DEFAULT_AGING,
            capacity,
            evicted: 0,
        }
    }

    /// The MAC address that has `address` on a bridge; the entry lives on.
    pub fn lookup(&mut self, bridge: &str, address: IpAddr, now: Instant) -> Option<MacAddress> {
        let id = self.live_id(bridge, address, now)?;
        let (entry, expires) = (self.entries.get_mut(&id)?, now + self.aging);
        // The packets of a burst look at one time.
        if entry.expires != expires {
            self.by_expiry.remove(&(entry.expires, id));
            entry.expires = expires;
            self.by_expiry.insert((expires, id));
        }
        Some(entry.mac)
    }

    /// The same without letting the entry live on, for tools that only ask what would be.
    pub fn peek(&self, bridge: &str, address: IpAddr, now: Instant) -> Option<MacAddress> {
        let id = self.live_id(bridge, address, now)?;
        self.entries.get(&id).map(|entry| entry.mac)
    }

    /// Says which MAC address has `address` on a bridge; true if that was not so before.
    pub fn set(&mut self, bridge: &str, address: IpAddr, mac: MacAddress, now: Instant) -> bool {
        let address = address.to_canonical();
        if self.lookup(bridge, address, now) == Some(mac) {
            return false;
        }
        match self.id_of(bridge, address) {
            Some(id) => self.remove(id),
            None => self.make_room(),
        }
        let id = self.next_id;
        self.next_id += 1;
        let expires = now + self.aging;
        self.by_expiry.insert((expires, id));
        let bridges = self.by_address.entry(address).or_default();
        bridges.insert(bridge.to_owned(), id);
        let entry = Neighbor {
            bridge: bridge.to_owned(),
            address,
            mac,
            expires,
        };
        self.entries.insert(id, entry);
        true
    }

    /// Learns what a packet said that a bridge received; true if that was not so before.
    pub fn learn(&mut self, bridge: &str, sighting: NeighborSighting, now: Instant) -> bool {
        self.set(bridge, sighting.address, sighting.mac, now)
    }

    /// Removes entries whose time is over; true if there were any.
    pub fn expire(&mut self, now: Instant) -> bool {
        let before = self.len();
        while let Some((expires, id)) = self.by_expiry.first().copied()
            && expires <= now
        {
            self.remove(id);
        }
        self.len() != before
    }

    /// When the first entry's time is over.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.by_expiry.first().map(|(expires, _)| *expires)
    }

    /// Removes all entries of a bridge; true if there were any.
    pub fn flush_bridge(&mut self, bridge: &str) -> bool {
        let before = self.len();
        let entries = self.entries.iter();
        let gone: Vec<EntryId> = entries
            .filter(|(_, entry)| entry.bridge == bridge)
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            self.remove(id);
        }
        self.len() != before
    }

    /// Removes all entries; true if there were any.
    pub fn flush(&mut self) -> bool {
        let had_any = !self.is_empty();
        self.entries.clear();
        self.by_address.clear();
        self.by_expiry.clear();
        had_any
    }

    /// How long an entry lives without a lookup.
    pub fn aging(&self) -> Duration {
        self.aging
    }

    /// Says how long an entry lives without a lookup; entries that are there live no longer than
    /// that from now on.
    pub fn set_aging(&mut self, aging: Duration, now: Instant) {
        self.aging = aging;
        let end = now + aging;
        let later = self.by_expiry.split_off(&(end, EntryId::MAX));
        for (_, id) in later {
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.expires = end;
                self.by_expiry.insert((end, id));
            }
        }
    }

    /// The number of entries, also of those whose time is over.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many entries went because there was no room.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    fn id_of(&self, bridge: &str, address: IpAddr) -> Option<EntryId> {
        let bridges = self.by_address.get(&address.to_canonical())?;
        bridges.get(bridge).copied()
    }

    fn live_id(&self, bridge: &str, address: IpAddr, now: Instant) -> Option<EntryId> {
        let id = self.id_of(bridge, address)?;
        (self.entries.get(&id)?.expires > now).then_some(id)
    }

    fn make_room(&mut self) {
        if self.len() < self.capacity {
            return;
        }
        if let Some((_, id)) = self.by_expiry.first().copied() {
            self.remove(id);
            self.evicted += 1;
        }
    }

    fn remove(&mut self, id: EntryId) {
        let Some(entry) = self.entries.remove(&id) else {
            return;
        };
        self.by_expiry.remove(&(entry.expires, id));
        if let Some(bridges) = self.by_address.get_mut(&entry.address) {
            bridges.remove(&entry.bridge);
            if bridges.is_empty() {
                self.by_address.remove(&entry.address);
            }
        }
    }
}
