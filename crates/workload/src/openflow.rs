//! One table of rules that match the fields of OpenFlow 1.0: ports, MAC addresses, VLANs, IP,
//! L4.
//!
//! ClassBench's sets match five fields. Tables of switches in a data centre match other
//! fields, mostly as whole values: the hosts, their ports, their VLANs, and the allowed
//! traffic between them. The kinds of rules and their shares follow the two tables of a
//! cloud's switches that ClassBench-ng describes (Matoušek et al., ANCS 2017; seeds `of1` and
//! `of2`). About half of their rules match an Ethernet destination, both IP addresses and a
//! protocol. These tables have no VLANs and few input ports; here every tenth rule has one,
//! which is our choice.
//!
//! ```text
//!   hosts: a MAC address, an IP address, a VLAN and a port each, eight rules a host
//!   for each rule: a kind by its share; one or two hosts, and what the kind says of them
//! ```
//!
//! Rules of one mask never overlap, because they differ. So all rules of a mask have one
//! priority, and masks of more bits have higher ones.

use std::collections::{BTreeMap, HashSet};

use rand::Rng;

use crate::action::Action;
use crate::error::WorkloadError;
use crate::field::Field;
use crate::rule::{Match, Rule};
use crate::seed::{Random, pick, stream, weighted_index};

/// A field that a kind of rule matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    InPort,
    EthSrc,
    EthDst,
    Vlan,
    IpSrc,
    IpDst,
    /// A network of the source, of 16 to 24 bits.
    SourceNetwork,
    Protocol,
    SourcePort,
    DestinationPort,
}

use Part::{
    DestinationPort, EthDst, EthSrc, InPort, IpDst, IpSrc, Protocol, SourceNetwork, SourcePort,
    Vlan,
};

/// Kinds of rules, with their shares in a thousand.
const KINDS: [(&[Part], u32); 16] = [
    (&[EthDst, IpDst, Protocol, IpSrc], 400),
    (&[EthDst, IpDst, IpSrc], 130),
    (&[EthDst, IpDst, Protocol, DestinationPort], 100),
    (
        &[EthDst, IpDst, IpSrc, Protocol, SourcePort, DestinationPort],
        90,
    ),
    (&[EthDst], 70),
    (&[EthSrc, Protocol, IpSrc, DestinationPort], 25),
    (&[EthSrc, IpSrc], 15),
    (&[EthDst, IpDst], 15),
    (&[EthSrc, Protocol, IpSrc], 10),
    (&[IpDst, Protocol, SourcePort, DestinationPort], 10),
    (&[InPort], 10),
    (&[EthSrc], 10),
    (&[IpDst], 10),
    (&[SourceNetwork, Protocol, DestinationPort], 5),
    (&[InPort, Vlan, EthDst], 70),
    (&[Vlan, EthSrc, EthDst], 30),
];

/// The number of rules per host.
const RULES_PER_HOST: usize = 8;
/// Repeated draws after which the generator gives up.
const REPEATS_MAX: usize = 100_000;

/// The addresses, VLAN and port of a host.
#[derive(Clone, Copy, Debug)]
struct Host {
    mac: u64,
    address: u32,
    vlan: u16,
    port: u32,
}

impl Host {
    /// A virtual machine of a cloud: locally administered MAC addresses, private IP addresses.
    fn draw(random: &mut Random) -> Host {
        Host {
            mac: 0xfa16_3e00_0000 | random.random_range(0..1 << 24),
            address: 0x0a00_0000 | random.random_range(0..1 << 24),
            vlan: random.random_range(1..=512),
            port: random.random_range(1..=1_024),
        }
    }
}

/// Makes `count` different rules of table 0 over fields of all layers, narrow ones first.
///
/// # Errors
/// If `count` is 0 or above a million.
pub fn generate_openflow(count: usize, seed: u64) -> Result<Vec<Rule>, WorkloadError> {
    WorkloadError::check("the number of rules", count as u64, 1, 1_000_000)?;
    let mut random = stream(seed, "openflow");
    let hosts: Vec<Host> = (0..2 + count / RULES_PER_HOST)
        .map(|_| Host::draw(&mut random))
        .collect();
    let mut matches = Vec::with_capacity(count);
    let (mut seen, mut repeats) = (HashSet::with_capacity(count), 0);
    while matches.len() < count {
        let kind = weighted_index(&mut random, KINDS.iter().map(|(_, share)| *share));
        let (from, to) = (*pick(&mut random, &hosts), *pick(&mut random, &hosts));
        let matching = match_of(KINDS[kind].0, &from, &to, &mut random);
        if seen.insert(matching.clone()) {
            matches.push(matching);
        } else {
            repeats += 1;
            assert!(repeats < REPEATS_MAX + count, "hosts make rules enough");
        }
    }
    let ranks = ranks_of_masks(&matches);
    let rules = matches.into_iter().map(|matching| {
        let priority = ranks[&mask_of(&matching)];
        let port = 1 + random.random_range(0..64);
        Rule::new(0, priority, matching, vec![Action::Output(port)])
    });
    let mut rules: Vec<Rule> = rules.collect();
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
    Ok(rules)
}

fn match_of(kind: &[Part], from: &Host, to: &Host, random: &mut Random) -> Match {
    const PORTS: [u16; 12] = [22, 53, 67, 80, 123, 443, 1433, 3306, 5432, 6379, 8080, 9092];
    let is_ip = kind
        .iter()
        .any(|part| !matches!(part, InPort | EthSrc | EthDst | Vlan));
    let has_ports = kind.contains(&SourcePort) || kind.contains(&DestinationPort);
    let is_udp = has_ports && random.random_ratio(3, 10);
    let mut matching = if is_ip { Match::ipv4() } else { Match::any() };
    for part in kind {
        matching = match part {
            InPort => matching.with(Field::InPort, to.port),
            EthSrc => matching.with(Field::EthSrc, from.mac),
            EthDst => matching.with(Field::EthDst, to.mac),
            Vlan => matching.with_vlan(to.vlan),
            IpSrc => matching.with(Field::IpSrc, from.address),
            IpDst => matching.with(Field::IpDst, to.address),
            SourceNetwork => {
                let length = random.random_range(16..=24);
                matching.with_prefix(Field::IpSrc, from.address, length)
            }
            Protocol => {
                let others = [1_u8, 6, 6, 17];
                let other = *pick(random, &others);
                let number = if has_ports {
                    [6, 17][usize::from(is_udp)]
                } else {
                    other
                };
                matching.with(Field::IpProtocol, number)
            }
            SourcePort => {
                let field = if is_udp { Field::UdpSrc } else { Field::TcpSrc };
                matching.with(field, random.random_range(1_024..=u16::MAX))
            }
            DestinationPort => {
                let field = if is_udp { Field::UdpDst } else { Field::TcpDst };
                matching.with(field, *pick(random, &PORTS))
            }
        };
    }
    matching
}

type Mask = Vec<(Field, u128)>;

fn mask_of(matching: &Match) -> Mask {
    let terms = matching.terms().iter();
    terms.map(|term| (term.field, term.mask)).collect()
}

/// A priority for each mask, higher for more bits.
fn ranks_of_masks(matches: &[Match]) -> BTreeMap<Mask, u16> {
    let masks: HashSet<Mask> = matches.iter().map(mask_of).collect();
    let mut masks: Vec<Mask> = masks.into_iter().collect();
    let bits = |mask: &Mask| -> u32 { mask.iter().map(|(_, mask)| mask.count_ones()).sum() };
    masks.sort_by_cached_key(|mask| (bits(mask), mask.clone()));
    masks.into_iter().zip(1..).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_exact_and_the_seed_decides() {
        let rules = generate_openflow(3_000, 1).unwrap();
        assert_eq!(rules.len(), 3_000);
        assert_eq!(rules, generate_openflow(3_000, 1).unwrap());
        assert_ne!(rules, generate_openflow(3_000, 2).unwrap());
        let total: u32 = KINDS.iter().map(|(_, share)| share).sum();
        assert_eq!(total, 1_000);
        let error = generate_openflow(0, 1).unwrap_err().to_string();
        assert!(error.contains("must lie within 1 to 1000000"), "{error}");
    }

    #[test]
    fn no_rules_overlap_at_equal_priority_and_all_fields_occur() {
        let rules = generate_openflow(1_500, 3).unwrap();
        for (place, rule) in rules.iter().enumerate() {
            let mut others = rules[..place].iter();
            assert!(!others.any(|other| rule.is_ambiguous_with(other)), "{rule}");
        }
        for field in [
            Field::InPort,
            Field::EthSrc,
            Field::EthDst,
            Field::VlanTci,
            Field::IpSrc,
            Field::IpDst,
            Field::IpProtocol,
            Field::TcpDst,
            Field::UdpSrc,
        ] {
            let has_it = |rule: &Rule| rule.matches.term(field).is_some();
            assert!(rules.iter().any(has_it), "{field:?}");
        }
    }
}
