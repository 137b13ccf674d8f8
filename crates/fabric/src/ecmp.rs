//! Chooses one of several equal routes for a packet.
//!
//! | rule | hash of | effect |
//! | --- | --- | --- |
//! | [`Ecmp::Artifact`] | outer source and destination as text, the protocol, the ports | a pair of nodes has one path, all switches agree, and few cores are used |
//! | [`Ecmp::PerFlow`] | the flow's number, a seed and the switch | flows are spread, each independently at every switch |
//!
//! The first is the rule of SwitchV2P's published code: MurmurHash3 (x86, 128 bits, of which
//! the first 64), seed 0x8BADF00D, of the two addresses with no separator, the byte 17 (UDP)
//! and the two ports, 667 for tenants' packets and 333 for control packets. It formats text,
//! so it is computed when a packet gets its outer addresses, not at every switch. The result
//! is cached until another pair of addresses takes its line ([`Paths`]).

use std::io::{self, Write};

use thalweg_v2p::{Address, Body, Packet};

use crate::id::NodeId;

const MURMUR_SEED: u32 = 0x8bad_f00d;
const UDP: u8 = 17;

/// The rule for choosing among equal routes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ecmp {
    /// The rule of SwitchV2P's published code.
    Artifact,
    /// By flow and switch.
    PerFlow {
        /// The seed of the spread.
        seed: u64,
    },
}

impl Ecmp {
    /// The hash for a pair of outer addresses, computed once.
    pub(crate) fn path_of(self, packet: &Packet) -> u64 {
        match self {
            Ecmp::Artifact => {
                let ports: &[u8] = match packet.body {
                    Body::Data(_) => b"667667",
                    Body::Learning(_) | Body::Invalidation(_) => b"333333",
                };
                artifact_hash(packet.outer_source, packet.outer_destination, ports)
            }
            Ecmp::PerFlow { seed } => mixed(seed ^ u64::from(packet.flow)),
        }
    }

    /// The index of the route among `count` that a switch takes; `path` is from
    /// [`Ecmp::path_of`].
    #[inline]
    pub(crate) fn choose(self, path: u64, switch: NodeId, count: usize) -> usize {
        let hash = match self {
            Ecmp::Artifact => path,
            Ecmp::PerFlow { .. } => mixed(path ^ u64::from(switch.0)),
        };
        let count = count as u64;
        // The same without a division.
        let chosen = match count.is_power_of_two() {
            true => hash & (count - 1),
            false => hash % count,
        };
        chosen as usize
    }
}

/// Computes paths, with a direct-mapped cache of those of tenants' packets.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    ecmp: Ecmp,
    /// The two IPv4 addresses of a pair in one word, and its path.
    known: Vec<(u64, u64)>,
}

impl Paths {
    const LINE_BITS: u32 = 14;
    const IPV4_BITS: u32 = 32;

    pub(crate) fn new(ecmp: Ecmp) -> Paths {
        let lines = match ecmp {
            Ecmp::Artifact => 1 << Paths::LINE_BITS,
            Ecmp::PerFlow { .. } => 0,
        };
        // No packet goes from 0.0.0.0 to 0.0.0.0, because no node has that address.
        Paths {
            ecmp,
            known: vec![(0, 0); lines],
        }
    }

    /// The result of [`Ecmp::path_of`].
    #[inline]
    pub(crate) fn of(&mut self, packet: &Packet) -> u64 {
        let (Ecmp::Artifact, Body::Data(_)) = (self.ecmp, &packet.body) else {
            return self.ecmp.path_of(packet);
        };
        let (source, destination) = (packet.outer_source, packet.outer_destination);
        let (Some(from), Some(to)) = (source.to_ipv4(), destination.to_ipv4()) else {
            return self.ecmp.path_of(packet);
        };
        let pair = u64::from(from.to_bits()) << Paths::IPV4_BITS | u64::from(to.to_bits());
        let line = mixed(pair) >> (u64::BITS - Paths::LINE_BITS);
        let known = &mut self.known[line as usize];
        if known.0 != pair {
            *known = (pair, self.ecmp.path_of(packet));
        }
        known.1
    }
}

fn artifact_hash(source: Address, destination: Address, ports: &[u8]) -> u64 {
    let mut text = [0_u8; 96];
    let room = text.len();
    let mut rest = &mut text[..];
    let written = write_address(&mut rest, source)
        .and_then(|()| write_address(&mut rest, destination))
        .and_then(|()| rest.write_all(&[UDP]))
        .and_then(|()| rest.write_all(ports));
    written.expect("two addresses and ports fit");
    let len = room - rest.len();
    let hash = murmur3::murmur3_x86_128(&mut &text[..len], MURMUR_SEED);
    hash.expect("a slice can be read") as u64
}

/// Writes an address as its `Display` does; for IPv4 without formatting machinery.
fn write_address(rest: &mut &mut [u8], address: Address) -> io::Result<()> {
    let Some(address) = address.to_ipv4() else {
        return write!(rest, "{address}");
    };
    for (index, octet) in address.octets().into_iter().enumerate() {
        if index > 0 {
            rest.write_all(b".")?;
        }
        let digits = [octet / 100, octet / 10 % 10, octet % 10].map(|digit| b'0' + digit);
        let first = match octet {
            0..10 => 2,
            10..100 => 1,
            _ => 0,
        };
        rest.write_all(&digits[first..])?;
    }
    Ok(())
}

/// SplitMix64's step (Steele, Lea, Flood, *Fast Splittable Pseudorandom Number Generators*,
/// OOPSLA 2014).
#[inline]
pub(crate) fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::new(text.parse().unwrap()).unwrap()
    }

    /// Vectors computed by the published code.
    #[test]
    fn the_hash_agrees_with_the_artifact() {
        for (source, destination, hash) in [
            ("1.0.0.1", "1.0.4.1", 0x76ce_47b8_d88d_b701),
            ("1.0.0.1", "3.2.10.1", 0x2077_26aa_ccaf_0e57),
            ("2.1.3.1", "8.3.13.1", 0x7135_428b_01c3_0ab6),
            ("5.0.1.1", "1.0.5.1", 0xb372_7124_9bed_9315),
            ("8.3.3.1", "1.0.13.1", 0xd42b_bb17_25d7_faa1),
        ] {
            let found = artifact_hash(address(source), address(destination), b"667667");
            assert_eq!(found, hash, "{source} {destination}: {found:x}");
        }
    }

    #[test]
    fn addresses_are_written_as_they_are_displayed() {
        let octets = (0..=u8::MAX).map(|octet| format!("{octet}.0.{}.9", u8::MAX - octet));
        for said in octets.chain(["2001:db8::1".to_owned()]) {
            let mut text = [0; 40];
            let mut rest = &mut text[..];
            write_address(&mut rest, address(&said)).unwrap();
            let len = 40 - rest.len();
            assert_eq!(&text[..len], address(&said).to_string().as_bytes());
        }
    }

    #[test]
    fn flows_are_spread_differently_at_each_switch() {
        let ecmp = Ecmp::PerFlow { seed: 1 };
        let choices = |switch| -> Vec<usize> {
            let path = |flow: u64| mixed(1 ^ flow);
            (0..64)
                .map(|flow| ecmp.choose(path(flow), NodeId(switch), 4))
                .collect()
        };
        assert_ne!(choices(0), choices(1));
        for route in 0..4 {
            let count = choices(0).iter().filter(|&&chosen| chosen == route).count();
            assert!((6..=28).contains(&count), "{count}");
        }
    }
}
