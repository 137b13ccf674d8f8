//! What the protocol sees of a packet: the outer header, the virtual addresses, and the tags.
//!
//! The simulator keeps packets in this form; the real switch makes it from a Geneve packet and
//! back (`wire/`). A handler changes the packet in place.
//!
//! | tag | set by | for |
//! | --- | --- | --- |
//! | hit | the switch that rewrote the destination | whom to blame if that was wrong (section 3.3) |
//! | versions | host, gateway, or the switch that rewrote | not to replace a mapping by an older one |
//! | carried | the switch that displaced or promoted a mapping | the switches after it (section 3.2.2) |
//! | misdelivery | the old host, or its ToR | not to use the stale mapping again (section 3.3) |
//! | origin | the host that sends another's packet on | where learning packets go |
//!
//! What is carried may be another tenant's: its key says whose. ToRs take it off before a host.

use crate::Address;
use crate::mapping::{Key, Mapping, SwitchId, Version, Vni};

/// The time to live of a packet that is sent, or sent anew.
pub const INITIAL_TTL: u8 = 64;

/// A packet as the protocol sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The physical address of the sender, or of who sent it on.
    pub outer_source: Address,
    /// A gateway's address, until the virtual destination is resolved; then its host's.
    pub outer_destination: Address,
    /// The outer time to live. Whoever forwards decrements it; agents only reset it.
    pub ttl: u8,
    /// The number of the flow, which chooses paths and gateways; on the wire the UDP source port.
    pub flow: u32,
    /// What it is about.
    pub body: Body,
}

/// What a packet is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// A tenant's packet.
    Data(Data),
    /// A mapping on its way to the ToR that it is addressed to.
    Learning(Mapping),
    /// A mapping that was found wrong, to be thrown out by each switch on the way.
    Invalidation(Mapping),
}

/// A tenant's packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// The tenant.
    pub vni: Vni,
    /// The virtual address of the sender.
    pub inner_source: Address,
    /// The virtual address it is for.
    pub inner_destination: Address,
    /// What switches, hosts and gateways say to each other about it.
    pub tags: Tags,
}

/// What is said along with a tenant's packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tags {
    /// The switch whose cache resolved the destination.
    pub hit: Option<SwitchId>,
    /// The version of "inner source is at the origin"; given by the origin.
    pub source_version: Version,
    /// The version of "inner destination is at the outer destination".
    pub resolved_version: Version,
    /// The host that the packet first came from, if it is not the outer source.
    pub origin: Option<Address>,
    /// A mapping that looks for a place.
    pub carried: Option<Carried>,
    /// Where the packet was misdelivered to.
    pub misdelivery: Option<Stale>,
}

/// A mapping that a packet carries for the caches behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// The mapping.
    pub mapping: Mapping,
    /// Why it is carried.
    pub reason: CarryReason,
}

/// Why a mapping is carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CarryReason {
    /// It was displaced from a cache (section 3.2.2, "cache spillover").
    Spilled,
    /// It is popular and meant for a core (section 3.2.2, "promotion").
    Promoted,
}

/// Where a key is not, although something said so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stale {
    /// The host that does not have the machine.
    pub place: Address,
    /// The version of the mapping that led there.
    pub version: Version,
}

impl Data {
    /// What is to be resolved.
    #[inline]
    pub fn destination_key(&self) -> Key {
        Key {
            vni: self.vni,
            address: self.inner_destination,
        }
    }

    /// Who sent it.
    #[inline]
    pub fn source_key(&self) -> Key {
        Key {
            vni: self.vni,
            address: self.inner_source,
        }
    }
}

impl Tags {
    /// Whether a switch or a gateway has resolved the packet, at some time.
    #[inline]
    pub(crate) fn was_resolved(&self) -> bool {
        self.hit.is_some() || self.resolved_version != Version::NONE
    }
}

impl Stale {
    /// The mapping of a key that was wrong.
    pub fn of(self, key: Key) -> Mapping {
        Mapping {
            key,
            place: self.place,
            version: self.version,
        }
    }
}
