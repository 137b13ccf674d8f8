//! What is cached: which physical address a virtual address of a tenant is at, and since when.
//!
//! A key holds the virtual network identifier, so equal virtual addresses of two tenants are two
//! keys, in every cache and in every message.
//!
//! Versions count the changes of the database behind the gateways, which has one writer. A mapping
//! of version `v` was true when the database stood at `v`. So of two mappings of a key that
//! disagree the greater version is nearer to the truth, and a mapping that was found wrong is
//! wrong at its version and at all before. The gateway writes the version at which it answers, not
//! that of the last change of the key: an answer of now is newer than all that was found wrong
//! before. A host writes the version at which it was given the machine.

use crate::Address;

/// A virtual network identifier: 24 bits, as in Geneve and VXLAN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Vni(u32);

impl Vni {
    /// The greatest identifier.
    pub const MAX: Vni = Vni(0xff_ffff);

    /// The identifier, if it has at most 24 bits.
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
pub struct Version(pub u64);

impl Version {
    /// No version was given: older than all others.
    pub const NONE: Version = Version(0);

    /// The version after this one.
    pub const fn next(self) -> Version {
        Version(self.0.saturating_add(1))
    }
}

/// The identifier of a switch, an index into [`crate::Directory`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SwitchId(pub u32);

/// A virtual address of one tenant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key {
    /// Whose address it is.
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
    /// When that was so.
    pub version: Version,
}
