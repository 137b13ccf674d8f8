//! The control plane's data for all agents: gateways, switches, and where hosts are attached.
//!
//! The protocol needs no routes. It asks whether a destination is a gateway (section 3.1: "we
//! assume that the switches know the addresses of these gateways"), the address of a switch
//! whose identifier a packet carries (footnote 4), a sender's ToR, and whether a packet leaves
//! the pod. All agents of a fabric share one directory.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use crate::Address;
use crate::hash::gateway_index;
use crate::mapping::SwitchId;

/// Where a host or a gateway is attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attachment {
    /// Its ToR.
    pub tor: SwitchId,
    /// The number of its pod.
    pub pod: u32,
}

/// A map with a fixed hash function; the operator chooses the keys, so no random seed is
/// needed.
pub(crate) type PlainMap<K, V> = HashMap<K, V, BuildHasherDefault<FoldHasher>>;
type PlainSet<K> = HashSet<K, BuildHasherDefault<FoldHasher>>;

/// Gateways, switches and hosts of a fabric.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    gateways: Vec<Address>,
    gateway_set: PlainSet<Address>,
    switches: Vec<Address>,
    hosts: PlainMap<Address, Attachment>,
}

impl Directory {
    /// Creates a directory.
    ///
    /// Flows choose among `gateways` by index. `switches` is indexed by identifier.
    pub fn new(
        gateways: Vec<Address>,
        switches: Vec<Address>,
        hosts: impl IntoIterator<Item = (Address, Attachment)>,
    ) -> Directory {
        Directory {
            gateway_set: gateways.iter().copied().collect(),
            gateways,
            switches,
            hosts: hosts.into_iter().collect(),
        }
    }

    /// Adds gateways that flows do not choose, because they have moved away or are yet to
    /// come. Packets for them still count as unresolved.
    pub fn with_idle_gateways(mut self, gateways: impl IntoIterator<Item = Address>) -> Directory {
        self.gateway_set.extend(gateways);
        self
    }

    /// Whether an address is a gateway's, so that packets for it are unresolved.
    #[inline]
    pub fn is_gateway(&self, address: Address) -> bool {
        self.gateway_set.contains(&address)
    }

    /// The gateway of a flow; `None` if there are no gateways.
    pub fn gateway_of(&self, flow: u32) -> Option<Address> {
        match self.gateways.len() {
            0 => None,
            count => Some(self.gateways[gateway_index(flow, count)]),
        }
    }

    /// The address of a switch.
    pub fn switch_address(&self, switch: SwitchId) -> Option<Address> {
        self.switches.get(switch.0 as usize).copied()
    }

    /// How many switches there are.
    pub fn switch_count(&self) -> usize {
        self.switches.len()
    }

    /// Where a host is attached.
    pub fn attachment(&self, host: Address) -> Option<Attachment> {
        self.hosts.get(&host).copied()
    }
}

/// Folds the hashed bytes into a word by rotation and multiplication.
///
/// The multiplier is 2^64 divided by the golden ratio. Multiplication mixes the high bits
/// best; the last step moves them to the low bits, which choose a bucket.
#[derive(Default)]
pub(crate) struct FoldHasher(u64);

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for FoldHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(29) ^ word).wrapping_mul(MULTIPLIER);
    }

    #[inline]
    fn write_u128(&mut self, word: u128) {
        self.write_u64((word >> 64) as u64);
        self.write_u64(word as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hash;

    use super::*;

    fn address(number: u32) -> Address {
        Address::from_ipv4(number.into())
    }

    #[test]
    fn gateways_hosts_and_switches_are_told_apart() {
        let place = Attachment {
            tor: SwitchId(1),
            pod: 7,
        };
        let directory = Directory::new(
            vec![address(1), address(2)],
            vec![address(10), address(11)],
            [(address(20), place)],
        );
        assert!(directory.is_gateway(address(2)) && !directory.is_gateway(address(20)));
        assert_eq!(directory.attachment(address(20)), Some(place));
        assert_eq!(directory.attachment(address(1)), None);
        assert_eq!(directory.switch_address(SwitchId(1)), Some(address(11)));
        assert_eq!(directory.switch_address(SwitchId(2)), None);
        let chosen: HashSet<_> = (0..16).map(|flow| directory.gateway_of(flow)).collect();
        assert_eq!(chosen.len(), 2);
        let more = directory.with_idle_gateways([address(3)]);
        assert!(more.is_gateway(address(3)) && more.is_gateway(address(1)));
        assert!((0..64).all(|flow| more.gateway_of(flow) != Some(address(3))));
        assert_eq!(Directory::default().gateway_of(1), None);
    }

    #[test]
    fn hashes_of_neighboring_addresses_differ_in_their_low_bits() {
        let low = |number: u32| {
            let mut hasher = FoldHasher::default();
            address(number << 8 | 1).hash(&mut hasher);
            hasher.finish() & 0xfff
        };
        let seen: HashSet<u64> = (0..4096).map(low).collect();
        assert!(seen.len() > 2000, "{}", seen.len());
    }
}
