//! An IP address of either family in 16 bytes.
//!
//! Virtual and physical addresses share this type; the field that holds an address says which
//! it is. IPv4 is stored as the IPv4-mapped IPv6 address (RFC 4291 section 2.5.5.2), so a
//! comparison is one of 128 bits, and only the wire format asks for the family. The
//! unspecified IPv6 address cannot be stored, which leaves a value for "none".

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU128;

/// The upper 96 bits of an IPv4-mapped address.
const MAPPED: u128 = 0xffff_0000_0000;
const IPV4_BITS: u32 = 32;

/// An IP address, IPv4 or IPv6; never `::`.
///
/// Aligned like a word, so that packets have no padding; a simulator holds many of them.
///
/// ```
/// use std::net::Ipv4Addr;
/// use thalweg_v2p::Address;
///
/// let address = Address::from(Ipv4Addr::new(10, 0, 0, 1));
/// assert_eq!(address.to_string(), "10.0.0.1");
/// assert_eq!(Address::new("::".parse().unwrap()), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(Rust, packed(8))]
pub struct Address(NonZeroU128);

impl Address {
    /// `0.0.0.0`, the address of the first virtual machine in SwitchV2P's artifact.
    pub(crate) const ZERO_IPV4: Address = Address::from_ipv4(Ipv4Addr::UNSPECIFIED);

    /// Creates an address; `None` for `::`. An IPv4-mapped address becomes the IPv4 address.
    pub fn new(address: IpAddr) -> Option<Address> {
        match address {
            IpAddr::V4(address) => Some(Address::from_ipv4(address)),
            IpAddr::V6(address) => Address::from_bits(address.to_bits()),
        }
    }

    /// Creates an IPv4 address.
    pub const fn from_ipv4(address: Ipv4Addr) -> Address {
        match NonZeroU128::new(MAPPED | address.to_bits() as u128) {
            Some(bits) => Address(bits),
            None => unreachable!(),
        }
    }

    /// Creates an address from 128 bits; `None` for 0.
    pub const fn from_bits(bits: u128) -> Option<Address> {
        match NonZeroU128::new(bits) {
            Some(bits) => Some(Address(bits)),
            None => None,
        }
    }

    /// The address in 128 bits, IPv4 as IPv4-mapped.
    #[inline]
    pub const fn to_bits(self) -> u128 {
        self.0.get()
    }

    /// The IPv4 address, if it is one.
    #[inline]
    pub const fn to_ipv4(self) -> Option<Ipv4Addr> {
        let bits = self.to_bits();
        match bits >> IPV4_BITS == MAPPED >> IPV4_BITS {
            true => Some(Ipv4Addr::from_bits(bits as u32)),
            false => None,
        }
    }

    /// The address as the standard library's type.
    pub const fn to_ip(self) -> IpAddr {
        match self.to_ipv4() {
            Some(address) => IpAddr::V4(address),
            None => IpAddr::V6(Ipv6Addr::from_bits(self.to_bits())),
        }
    }

    /// Whether it is an IPv4 address.
    pub const fn is_ipv4(self) -> bool {
        self.to_ipv4().is_some()
    }
}

impl From<Ipv4Addr> for Address {
    fn from(address: Ipv4Addr) -> Address {
        Address::from_ipv4(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.to_ip(), f)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_come_back_as_they_were() {
        for text in ["0.0.0.0", "255.255.255.255", "10.1.2.3", "fd00::1", "::1"] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(Address::new(address).unwrap().to_ip(), address);
        }
        assert_eq!(size_of::<Option<Address>>(), 16);
        assert_eq!(align_of::<Address>(), 8);
    }

    #[test]
    fn a_mapped_address_is_the_ipv4_address() {
        let mapped = Address::new("::ffff:10.0.0.1".parse().unwrap());
        assert_eq!(mapped, Some(Ipv4Addr::new(10, 0, 0, 1).into()));
        let neighbor = Address::new("::fffe:10.0.0.1".parse().unwrap()).unwrap();
        assert!(!neighbor.is_ipv4());
    }
}
