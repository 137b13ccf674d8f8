//! The gateway's agent, and the database of mappings behind all gateways.
//!
//! 1. The database has one writer and counts its changes: each gives the next version. Its
//!    answer at version `v` was true at `v`.
//! 2. A gateway resolves by the packet's own tenant only; unknown destinations are dropped and
//!    counted.
//! 3. A packet leaves a gateway without a carried mapping or misdelivery tag. Except in
//!    `artifact`, it also loses the hit tag of a switch that did not resolve it.
//!
//! The gateway's delay of 40 µs ([`crate::GATEWAY_DELAY`]) and its capacity are the caller's.

use crate::Address;
use crate::directory::PlainMap;
use crate::mapping::{Key, MapVersion};
use crate::packet::{Body, Packet};
use crate::rules::{Profile, Rules};

/// The true place of every virtual address.
#[derive(Clone, Debug, Default)]
pub struct Database {
    places: PlainMap<Key, Address>,
    version: MapVersion,
}

impl Database {
    /// An empty database, at version 0.
    pub fn new() -> Database {
        Database::default()
    }

    /// Creates a database at a version; for callers that count the changes themselves.
    pub fn at(version: MapVersion, places: impl IntoIterator<Item = (Key, Address)>) -> Database {
        Database {
            places: places.into_iter().collect(),
            version,
        }
    }

    /// Places a machine at a host, or moves it. Pass the version to
    /// [`crate::HostAgent::admit`].
    pub fn place(&mut self, key: Key, host: Address) -> MapVersion {
        self.version = self.version.next();
        self.places.insert(key, host);
        self.version
    }

    /// Removes a machine; `None` if there was none.
    pub fn remove(&mut self, key: Key) -> Option<Address> {
        self.version = self.version.next();
        self.places.remove(&key)
    }

    /// Where a machine is.
    #[inline]
    pub fn find(&self, key: Key) -> Option<Address> {
        self.places.get(&key).copied()
    }

    /// The number of changes made.
    pub fn version(&self) -> MapVersion {
        self.version
    }

    /// Number of machines.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no machines.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

/// The outcome of a packet at a gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GatewayVerdict {
    /// It is resolved; send it.
    Forward,
    /// The virtual destination does not exist; the packet is dropped.
    UnknownDestination,
    /// It is a control packet; it is dropped.
    UnexpectedControl,
}

/// Counts of a gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GatewayCounters {
    /// Packets resolved.
    pub resolved: u64,
    /// Packets for unknown destinations.
    pub unknown_destination: u64,
    /// Control packets, which gateways do not handle.
    pub unexpected_control: u64,
}

/// The protocol's state in a gateway.
#[derive(Clone, Debug)]
pub struct GatewayAgent {
    rules: Rules,
    counters: GatewayCounters,
}

impl GatewayAgent {
    /// Creates a gateway of a profile.
    pub fn new(profile: Profile) -> GatewayAgent {
        let counters = GatewayCounters::default();
        GatewayAgent {
            rules: profile.rules(),
            counters,
        }
    }

    /// Resolves a packet.
    #[inline]
    pub fn handle_packet(&mut self, database: &Database, packet: &mut Packet) -> GatewayVerdict {
        let place = match &packet.body {
            Body::Data(data) => database.find(data.destination_key()),
            Body::Learning(_) | Body::Invalidation(_) => None,
        };
        self.handle_packet_for(place, database.version(), packet)
    }

    /// Resolves a packet for callers that already know the database's answer at `version`: the
    /// place, or `None` if there is no such machine.
    #[inline]
    pub fn handle_packet_for(
        &mut self,
        place: Option<Address>,
        version: MapVersion,
        packet: &mut Packet,
    ) -> GatewayVerdict {
        let Body::Data(data) = &mut packet.body else {
            self.counters.unexpected_control += 1;
            return GatewayVerdict::UnexpectedControl;
        };
        let Some(place) = place else {
            self.counters.unknown_destination += 1;
            return GatewayVerdict::UnknownDestination;
        };
        self.counters.resolved += 1;
        packet.outer_destination = place;
        let tags = &mut data.tags;
        tags.carried = None;
        tags.misdelivery = None;
        tags.resolved_version = version;
        if !self.rules.gateway_keeps_hit {
            tags.hit = None;
        }
        GatewayVerdict::Forward
    }

    /// Counts since the start.
    pub fn counters(&self) -> &GatewayCounters {
        &self.counters
    }
}
