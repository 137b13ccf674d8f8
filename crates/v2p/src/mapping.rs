//! Mappings: the physical address of a tenant's virtual address, at a version.
//!
//! A key holds the virtual network identifier, so equal virtual addresses of two tenants are
//! two keys, in every cache and in every message.
//!
//! Versions count the changes of the database behind the gateways, which has one writer. A
//! mapping of version `v` was true when the database stood at `v`. So if two mappings of a key
//! disagree, the one with the greater version is closer to the truth. A mapping that was found
//! wrong is wrong at its version and at all earlier ones. The gateway writes the version at
//! which it answers, not that of the key's last change: a current answer is newer than
//! everything found wrong before. A host writes the version at which it received the machine.

use crate::Address;

/// A virtual network identifier: 24 bits, as in Geneve and VXLAN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Vni(u32);

impl Vni {
    /// The greatest identifier.
    pub const MAX: Vni = Vni(0xff_ffff);

    /// Creates an identifier; `None` if it needs more than 24 bits.
    pub const fn new(number: u32) -> Option<Vni> {
        match number <= Vni::MAX.0 {
            true => Some(Vni(number)),
            false => None,
        }
    }

    /// The number, below 2^24.
    #[inline]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// A state of the database of mappings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MapVersion(pub u64);

impl MapVersion {
    /// No version; older than all others.
    pub const NONE: MapVersion = MapVersion(0);

    /// The version after this one.
    pub const fn next(self) -> MapVersion {
        MapVersion(self.0.saturating_add(1))
    }
}

/// The identifier of a switch, an index into [`crate::Directory`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SwitchId(pub u32);

/// A virtual address of one tenant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key {
    /// The tenant.
    pub vni: Vni,
    /// The address in the virtual network.
    pub address: Address,
}

/// Where a virtual address was, at a version.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mapping {
    /// The virtual address and its tenant.
    pub key: Key,
    /// The physical address of its host.
    pub place: Address,
    /// The version at which this was true.
    pub version: MapVersion,
}
