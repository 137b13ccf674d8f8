//! Attack packets chosen to make other packets expensive, and packets of the victims.
//!
//! | case | choice of packets |
//! | --- | --- |
//! | [`AttackCase::explosion`] | each packet differs from three allowed values in another bit of each of three fields, so that no two have the same mask: *tuple space explosion* (Csikor et al., CoNEXT 2019; CVE-2019-25076) |
//! | [`AttackCase::sources`] | each packet has its own source address, and so its own entry |
//!
//! Attacker and victim both come in by port 1, which is the worst case for the victim.

use std::net::{Ipv4Addr, Ipv6Addr};

use rand::Rng;
use rand::seq::SliceRandom;
use thalweg_packet::wire::{MacAddress, PacketBuilder};

use crate::error::WorkloadError;
use crate::flows::Flow;
use crate::seed::{Random, stream};

/// Rules, and the packets of victims and attacker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttackCase {
    /// The rules, in `ovs-ofctl add-flows` syntax.
    pub rules: String,
    /// Packets of flows that exist before the attack.
    pub victim: Vec<Vec<u8>>,
    /// Packets of flows that begin during the attack.
    pub newcomer: Vec<Vec<u8>>,
    /// The attacker's packets.
    pub attacker: Vec<Vec<u8>>,
}

/// The number of packets of an explosion.
const EXPLOSION: usize = 8_192;

/// The service port, the source address and the source port that are allowed.
const SERVICE: u16 = 80;
const ALLOWED_PORT: u16 = 12_345;
const ALLOWED_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 10);
const ALLOWED_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 10);

/// The port of another service, which has no flows before the attack.
const LATER_SERVICE: u16 = 443;

impl AttackCase {
    /// Rules that allow a port, an address and a port; 8,192 packets that miss each of them in
    /// another bit; and `flows` flows of an allowed service.
    ///
    /// # Errors
    /// When `flows` is zero or above 16 million.
    pub fn explosion(is_ipv6: bool, flows: usize, seed: u64) -> Result<Self, WorkloadError> {
        WorkloadError::check("the number of flows", flows as u64, 1, 1 << 24)?;
        let mut random = stream(seed, "explosion");
        let (udp, source) = match is_ipv6 {
            true => ("udp6", format!("ipv6_src={ALLOWED_V6}")),
            false => ("udp", format!("nw_src={ALLOWED_V4}")),
        };
        let rules = format!(
            "priority=40,{udp},tp_dst={SERVICE},actions=output:2\n\
             priority=40,{udp},tp_dst={LATER_SERVICE},actions=output:2\n\
             priority=30,{udp},{source},actions=output:2\n\
             priority=20,{udp},tp_src={ALLOWED_PORT},actions=output:2\n\
             priority=0,actions=drop\n"
        );
        let width = if is_ipv6 { 128 } else { 32 };
        let mut bits: Vec<[u32; 3]> = Vec::new();
        for to in 0..16 {
            for address in 0..width {
                bits.extend((0..16).map(|from| [to, address, from]));
            }
        }
        bits.shuffle(&mut random);
        bits.truncate(EXPLOSION);
        let attacker = bits.iter().map(|&[to, address, from]| {
            let to = flipped(&mut random, SERVICE.into(), to, 16) as u16;
            let from = flipped(&mut random, ALLOWED_PORT.into(), from, 16) as u16;
            match is_ipv6 {
                true => {
                    let source = flipped(&mut random, ALLOWED_V6.to_bits(), address, 128);
                    packet_v6(source.into(), from, to)
                }
                false => {
                    let allowed = ALLOWED_V4.to_bits().into();
                    let source = flipped(&mut random, allowed, address, 32) as u32;
                    packet_v4(source.into(), from, to)
                }
            }
        });
        let attacker = attacker.collect();
        let mut service = |port: u16| -> Vec<Vec<u8>> {
            let packet = |_| match is_ipv6 {
                true => packet_v6(random.random::<u128>().into(), random.random(), port),
                false => packet_v4(random.random::<u32>().into(), random.random(), port),
            };
            (0..flows).map(packet).collect()
        };
        Ok(AttackCase {
            rules,
            victim: service(SERVICE),
            newcomer: service(LATER_SERVICE),
            attacker,
        })
    }

    /// A rule that copies the source address, so that each address has an entry; `flows`
    /// addresses of the victim, as many that come later, and `attackers` addresses of the
    /// attacker.
    ///
    /// # Errors
    /// When a number is zero or above 16 million.
    pub fn sources(flows: usize, attackers: usize, seed: u64) -> Result<Self, WorkloadError> {
        WorkloadError::check("the number of flows", flows as u64, 1, 1 << 24)?;
        WorkloadError::check("the number of attackers", attackers as u64, 1, 1 << 24)?;
        // A copied value must be known, so the whole address is in the mask.
        let rules = "actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],output:2\n";
        let mut random = stream(seed, "sources");
        let base = u64::from(random.random::<u8>()) << 32;
        let packets = |group: u64, count: usize| {
            let source = move |number: u64| 0x0200_0000_0000 | base | group << 24 | number;
            (0..count as u64).map(move |number| packet_of_source(source(number)))
        };
        Ok(AttackCase {
            rules: rules.to_owned(),
            victim: packets(1, flows).collect(),
            newcomer: packets(2, flows).collect(),
            attacker: packets(3, attackers).collect(),
        })
    }
}

/// A packet from an Ethernet address.
pub fn packet_of_source(source: u64) -> Vec<u8> {
    let flow = Flow {
        eth_src: MacAddress::from_u64(source),
        ..Flow::default()
    };
    flow.packet(Flow::SMALLEST_PACKET_BYTES)
}

/// A number with the leading bits of `number`, the given bit flipped, and random bits below
/// it.
fn flipped(random: &mut Random, number: u128, bit: u32, width: u32) -> u128 {
    let place = width - 1 - bit;
    let below = (1_u128 << place) - 1;
    (number ^ 1 << place) & !below | random.random::<u128>() & below
}

fn packet_v4(source: Ipv4Addr, from: u16, to: u16) -> Vec<u8> {
    let flow = Flow {
        ip_src: source,
        source_port: from,
        destination_port: to,
        ..Flow::default()
    };
    flow.packet(Flow::SMALLEST_PACKET_BYTES)
}

fn packet_v6(source: Ipv6Addr, from: u16, to: u16) -> Vec<u8> {
    let ends = Flow::default();
    PacketBuilder::ethernet(ends.eth_src, ends.eth_dst)
        .ipv6(source, Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))
        .udp(from, to)
        .build()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_flipped_number_differs_first_in_that_bit() {
        let mut random = stream(1, "test");
        for bit in 0..128 {
            let number = random.random();
            let other = flipped(&mut random, number, bit, 128);
            assert_eq!((number ^ other).leading_zeros(), bit);
        }
    }

    #[test]
    fn packets_are_different_and_the_same_for_a_seed() {
        for is_ipv6 in [false, true] {
            let case = AttackCase::explosion(is_ipv6, 100, 3).expect("it can be made");
            let packets: HashSet<&Vec<u8>> = case.attacker.iter().collect();
            assert_eq!(packets.len(), EXPLOSION);
            assert_eq!(AttackCase::explosion(is_ipv6, 100, 3), Ok(case));
        }
        let case = AttackCase::sources(10, 1_000, 3).expect("it can be made");
        let all = [&case.victim, &case.newcomer, &case.attacker];
        let all: HashSet<&Vec<u8>> = all.into_iter().flatten().collect();
        assert_eq!(all.len(), 1_020);
    }
}
