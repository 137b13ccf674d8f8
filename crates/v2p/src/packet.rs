//! The protocol's view of a packet: the outer header, the virtual addresses, and the tags.
//!
//! The simulator keeps packets in this form; the real switch converts Geneve packets to it and
//! back (`wire/`). A handler changes the packet in place.
//!
//! | tag | set by | purpose |
//! | --- | --- | --- |
//! | hit | the switch that rewrote the destination | to blame it if it was wrong (section 3.3) |
//! | versions | host, gateway, or the rewriting switch | not to replace a mapping by an older one |
//! | carried | the switch that displaced or promoted it | a mapping for later switches (3.2.2) |
//! | misdelivery | the old host, or its ToR | not to use the stale mapping again (section 3.3) |
//! | origin | the host that sends on another's packet | the target of learning packets |
//!
//! A carried mapping may belong to another tenant: its key says which. ToRs remove it before
//! the packet reaches a host.

use crate::Address;
use crate::mapping::{Key, MapVersion, Mapping, SwitchId, Vni};

/// The time to live of a packet that is sent or sent again.
pub const INITIAL_TTL: u8 = 64;

/// A packet as agents handle it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The physical address of the sender, or of the host that sent it on.
    pub outer_source: Address,
    /// The gateway's address until the virtual destination is resolved; then the host's.
    pub outer_destination: Address,
    /// The outer time to live. The forwarder decrements it; agents only reset it.
    pub ttl: u8,
    /// The number of the flow, which chooses paths and gateways; the UDP source port on the
    /// wire.
    pub flow: u32,
    /// The content.
    pub body: Body,
}

/// The content of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// A tenant's packet.
    Data(Data),
    /// A mapping on its way to the ToR that the packet is addressed to.
    Learning(Mapping),
    /// A mapping that was found wrong; each switch on the way removes it.
    Invalidation(Mapping),
}

/// A tenant's packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// The tenant.
    pub vni: Vni,
    /// The virtual address of the sender.
    pub inner_source: Address,
    /// The virtual address of the receiver.
    pub inner_destination: Address,
    /// Notes of switches, hosts and gateways to each other about this packet.
    pub tags: Tags,
}

/// Notes that travel with a tenant's packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tags {
    /// The switch whose cache resolved the destination.
    pub hit: Option<SwitchId>,
    /// The version of "inner source is at the origin", written by the origin.
    pub source_version: MapVersion,
    /// The version of "inner destination is at the outer destination".
    pub resolved_version: MapVersion,
    /// The host that first sent the packet, if it is not the outer source.
    pub origin: Option<Address>,
    /// A mapping that a later switch may insert.
    pub carried: Option<Carried>,
    /// The place where the packet was misdelivered.
    pub misdelivery: Option<Stale>,
}

/// A mapping that a packet carries to the caches behind.
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

/// A place where a key was expected but is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stale {
    /// The host that does not have the machine.
    pub place: Address,
    /// The version of the mapping that led there.
    pub version: MapVersion,
}

impl Data {
    /// The key to resolve.
    #[inline]
    pub fn destination_key(&self) -> Key {
        Key {
            vni: self.vni,
            address: self.inner_destination,
        }
    }

    /// The sender's key.
    #[inline]
    pub fn source_key(&self) -> Key {
        Key {
            vni: self.vni,
            address: self.inner_source,
        }
    }
}

impl Tags {
    /// Whether a switch or a gateway has ever resolved the packet.
    #[inline]
    pub(crate) fn was_resolved(&self) -> bool {
        self.hit.is_some() || self.resolved_version != MapVersion::NONE
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
