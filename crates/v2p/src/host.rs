//! The agent of a host: sends to gateways, and sends on packets that it received by mistake.
//!
//! 1. A packet is delivered only to a machine of its own tenant that is on this host.
//! 2. A packet for a machine that is not here goes back into the network. It is dropped only
//!    if there is no gateway to send it to.
//!
//! In `paper` the host changes the destination only, so the physical source is still the
//! sender's. By that the ToR sees that the packet came back, and tags it (section 3.3). In
//! `artifact` the host tags, writes itself as the source, and sends after the machine if no
//! cache was wrong (section 5.2, "follow-me").
//!
//! The delay of 10 µs ([`crate::RESEND_DELAY`]) is the caller's.

use std::sync::Arc;

use crate::Address;
use crate::directory::{Directory, PlainMap};
use crate::mapping::{Key, MapVersion};
use crate::packet::{Body, Data, INITIAL_TTL, Packet, Stale, Tags};
use crate::rules::{Profile, Rules};

/// The outcome of a packet at a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostVerdict {
    /// It is for a machine of this host.
    Deliver,
    /// Send it again, as it is now.
    Resend,
    /// There is no gateway for it; it is dropped.
    NoGateway,
    /// It is a control packet; it is dropped.
    UnexpectedControl,
}

/// Counts of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostCounters {
    /// Packets for a machine of this host.
    pub delivered: u64,
    /// Packets for a machine that is not here.
    pub misdelivered: u64,
    /// Of these, packets sent after the machine.
    pub followed: u64,
    /// Packets dropped because there was no gateway.
    pub no_gateway: u64,
    /// Control packets, which hosts do not handle.
    pub unexpected_control: u64,
}

/// The protocol's state in a host.
#[derive(Clone, Debug)]
pub struct HostAgent {
    address: Address,
    rules: Rules,
    directory: Arc<Directory>,
    machines: PlainMap<Key, MapVersion>,
    moved: PlainMap<Key, Address>,
    counters: HostCounters,
}

impl HostAgent {
    /// Creates a host without machines.
    pub fn new(address: Address, profile: Profile, directory: Arc<Directory>) -> HostAgent {
        HostAgent {
            address,
            rules: profile.rules(),
            directory,
            machines: PlainMap::default(),
            moved: PlainMap::default(),
            counters: HostCounters::default(),
        }
    }

    /// The physical address.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Replaces the directory.
    pub fn set_directory(&mut self, directory: Arc<Directory>) {
        self.directory = directory;
    }

    /// Adds a machine, which the database placed here at `version`.
    pub fn admit(&mut self, key: Key, version: MapVersion) {
        self.moved.remove(&key);
        self.machines.insert(key, version);
    }

    /// Removes a machine; `to` is its new host, if this host should send packets after it.
    pub fn release(&mut self, key: Key, to: Option<Address>) {
        self.machines.remove(&key);
        match to {
            Some(place) => self.moved.insert(key, place),
            None => self.moved.remove(&key),
        };
    }

    /// Whether a machine is here.
    pub fn has(&self, key: Key) -> bool {
        self.machines.contains_key(&key)
    }

    /// Creates a packet from a machine of this host to a virtual address of its tenant, by way
    /// of the flow's gateway; `None` if the machine is not here or there is no gateway.
    pub fn packet_from(&self, source: Key, destination: Address, flow: u32) -> Option<Packet> {
        let source_version = *self.machines.get(&source)?;
        let data = Data {
            vni: source.vni,
            inner_source: source.address,
            inner_destination: destination,
            tags: Tags {
                source_version,
                ..Tags::default()
            },
        };
        Some(Packet {
            outer_source: self.address,
            outer_destination: self.directory.gateway_of(flow)?,
            ttl: INITIAL_TTL,
            flow,
            body: Body::Data(data),
        })
    }

    /// Handles a packet from the network.
    #[inline]
    pub fn handle_packet(&mut self, packet: &mut Packet) -> HostVerdict {
        let Body::Data(data) = &mut packet.body else {
            self.counters.unexpected_control += 1;
            return HostVerdict::UnexpectedControl;
        };
        if self.machines.contains_key(&data.destination_key()) {
            self.counters.delivered += 1;
            return HostVerdict::Deliver;
        }
        self.counters.misdelivered += 1;
        let may_follow = self.rules.host_follows && data.tags.hit.is_none();
        let moved = self.moved.get(&data.destination_key()).copied();
        let followed = moved.filter(|_| may_follow);
        let Some(destination) = followed.or_else(|| self.directory.gateway_of(packet.flow)) else {
            self.counters.no_gateway += 1;
            return HostVerdict::NoGateway;
        };
        self.counters.followed += u64::from(followed.is_some());
        if !self.rules.tor_tags {
            let (place, version) = (self.address, data.tags.resolved_version);
            data.tags.misdelivery = Some(Stale { place, version });
            data.tags.origin.get_or_insert(packet.outer_source);
            packet.outer_source = self.address;
        }
        packet.outer_destination = destination;
        packet.ttl = INITIAL_TTL;
        HostVerdict::Resend
    }

    /// Counts since the start.
    pub fn counters(&self) -> &HostCounters {
        &self.counters
    }
}
