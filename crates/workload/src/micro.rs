//! The small cases of the forwarding benchmark: rules and flows that isolate one cost.
//!
//! | case | isolated cost |
//! | --- | --- |
//! | [`MicroCase::flows`] | exact-match caches: many five-tuples, one megaflow |
//! | [`MicroCase::masks`] | the megaflow lookup: an exact number of masks, 50 megaflows each |
//! | [`MicroCase::macs`] | the size of the megaflow cache: one megaflow per source address |
//!
//! Each group of [`MicroCase::masks`] has one bit pattern: the rules of group `k` match
//! `tp_src=0x0/k`. So any two groups have different masks, while all packets have zeros there.
//! The ten tables of the third case make each miss expensive: they have 3,771 rules, with
//! drops that never match but must be ruled out.

use std::net::Ipv4Addr;

use rand::Rng;
use rand::seq::SliceRandom;
use thalweg_packet::wire::MacAddress;

use crate::action::Action;
use crate::error::WorkloadError;
use crate::field::Field;
use crate::flows::Flow;
use crate::rule::{Match, Rule, rules_text};
use crate::seed::{Random, pick, stream};

/// The number of destinations of every group of [`MicroCase::masks`].
pub const DESTINATIONS_PER_MASK: u16 = 50;

/// Rules that a group of [`MicroCase::sub_tables`] has at most.
pub const RULES_PER_SUB_TABLE: u32 = 1 << 14;

/// Rules, and the flows sent through them from port 1 to port 2.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MicroCase {
    /// The rules.
    pub rules: Vec<Rule>,
    /// The flows, in random order.
    pub flows: Vec<Flow>,
}

impl MicroCase {
    /// `count` random five-tuples under one rule, so that one megaflow covers them all.
    ///
    /// # Errors
    /// When `count` is zero or above 16 million.
    pub fn flows(count: usize, seed: u64) -> Result<Self, WorkloadError> {
        WorkloadError::check("the number of flows", count as u64, 1, 1 << 24)?;
        let mut random = stream(seed, "micro flows");
        let from_port = Match::any().with(Field::InPort, 1_u8);
        let udp = from_port
            .with(Field::EthType, 0x0800_u16)
            .with(Field::IpProtocol, 17_u8);
        let rules = vec![Rule::new(0, 10, udp, vec![Action::Output(2)])];
        // The low bits of the source address come from a counter, so that no two flows are
        // equal.
        let scramble = random.random_range(0..1_u32 << 24);
        let flows = (0..count as u32)
            .map(|index| Flow {
                ip_src: Ipv4Addr::from(0x0a00_0000 | (index ^ scramble)),
                ip_dst: Ipv4Addr::from(0x1400_0000 | random.random_range(0..1_u32 << 24)),
                source_port: random.random(),
                destination_port: random.random(),
                ..Flow::default()
            })
            .collect();
        Ok(MicroCase { rules, flows }.shuffled(&mut random))
    }

    /// `masks` groups of rules, each its own megaflow mask, and `count` flows spread over them.
    ///
    /// # Errors
    /// When `masks` is not within 1 to 31, or `count` is zero.
    pub fn masks(masks: u8, count: usize, seed: u64) -> Result<Self, WorkloadError> {
        WorkloadError::check("the number of masks", masks.into(), 1, 31)?;
        WorkloadError::check("the number of flows", count as u64, 1, 1 << 24)?;
        let mut rules = Vec::new();
        for group in 0..masks {
            let network = 0x0a00_0000 | u32::from(group) << 16;
            let to_group = Match::ipv4().with_prefix(Field::IpDst, network, 16);
            rules.push(Rule::new(0, 10, to_group, vec![Action::Goto(group + 1)]));
            for destination in 0..u32::from(DESTINATIONS_PER_MASK) {
                let matches = Match::ipv4()
                    .with(Field::IpProtocol, 17_u8)
                    .with_prefix(Field::IpDst, network | destination << 8, 24)
                    .with_masked(Field::UdpSrc, 0_u8, group.into());
                rules.push(Rule::new(group + 1, 10, matches, vec![Action::Output(2)]));
            }
        }
        let mut random = stream(seed, "micro masks");
        let flows = (0..count)
            .map(|index| {
                let group = (index % usize::from(masks)) as u32;
                let destination = random.random_range(0..u32::from(DESTINATIONS_PER_MASK));
                let host = u32::from(random.random::<u8>());
                Flow {
                    ip_src: Ipv4Addr::from(0x1e00_0000 | random.random_range(0..1_u32 << 24)),
                    ip_dst: Ipv4Addr::from(0x0a00_0000 | group << 16 | destination << 8 | host),
                    // The five bits that groups match are zero.
                    source_port: random.random::<u16>() & !0x1f,
                    destination_port: random.random(),
                    ..Flow::default()
                }
            })
            .collect();
        Ok(MicroCase { rules, flows }.shuffled(&mut random))
    }

    /// `masks` groups of `rules` rules, each group its own megaflow mask, and a flow for each rule.
    ///
    /// # Errors
    /// When `masks` is not within 1 to 31, or `rules` not within 1 to 16,384.
    pub fn sub_tables(masks: u8, rules: u32, seed: u64) -> Result<Self, WorkloadError> {
        WorkloadError::check("the number of masks", masks.into(), 1, 31)?;
        let most = RULES_PER_SUB_TABLE.into();
        WorkloadError::check("the number of rules", rules.into(), 1, most)?;
        // A destination address: 8 bits fixed, 5 of the group, 14 of the rule, 5 of the host.
        let mut random = stream(seed, "micro sub-tables");
        let (mut all, mut flows) = (Vec::new(), Vec::new());
        for group in 0..masks {
            let network = 0x0a00_0000 | u32::from(group) << 19;
            let to_group = Match::ipv4().with_prefix(Field::IpDst, network, 13);
            all.push(Rule::new(0, 10, to_group, vec![Action::Goto(group + 1)]));
            for rule in 0..rules {
                let destination = network | rule << 5;
                let matches = Match::ipv4()
                    .with(Field::IpProtocol, 17_u8)
                    .with_prefix(Field::IpDst, destination, 27)
                    .with_masked(Field::UdpSrc, 0_u8, group.into());
                all.push(Rule::new(group + 1, 10, matches, vec![Action::Output(2)]));
                flows.push(Flow {
                    ip_src: Ipv4Addr::from(0x1e00_0000 | random.random_range(0..1_u32 << 24)),
                    ip_dst: Ipv4Addr::from(destination | random.random_range(0..1_u32 << 5)),
                    // The five bits that groups look at are zero.
                    source_port: random.random::<u16>() & !0x1f,
                    destination_port: random.random(),
                    ..Flow::default()
                });
            }
        }
        Ok(MicroCase { rules: all, flows }.shuffled(&mut random))
    }

    /// `macs` different source addresses through a pipeline of ten tables and 3,771 rules.
    ///
    /// # Errors
    /// When `macs` is zero or above 16 million.
    pub fn macs(macs: usize, seed: u64) -> Result<Self, WorkloadError> {
        WorkloadError::check("the number of addresses", macs as u64, 1, 1 << 24)?;
        let mut random = stream(seed, "micro macs");
        let flows = (0..macs as u64)
            .map(|index| Flow {
                eth_src: MacAddress::from_u64(0x0201_0000_0000 + index),
                eth_dst: MacAddress::from_u64(0x0200_0000_0100 + index % 64),
                ip_src: Ipv4Addr::from(0x0a00_0000 | random.random_range(0..1_u32 << 24)),
                ip_dst: Ipv4Addr::from(0x1400_0000 | random.random_range(0..1_u32 << 24)),
                source_port: random.random(),
                destination_port: match random.random_range(0..7_u8) {
                    6 => random.random(),
                    known => SERVICES[usize::from(known)],
                },
                ..Flow::default()
            })
            .collect();
        Ok(MicroCase {
            rules: ten_tables(seed),
            flows,
        }
        .shuffled(&mut random))
    }

    /// The rules in `ovs-ofctl add-flows` syntax.
    pub fn rules_text(&self) -> String {
        rules_text(&self.rules)
    }

    fn shuffled(mut self, random: &mut Random) -> Self {
        self.flows.shuffle(random);
        self
    }
}

/// The destination ports in the rules of the ten tables.
const SERVICES: [u16; 6] = [80, 443, 53, 22, 8080, 3306];

/// Ten tables: port, source, destination, two lists, routes, services, code points, marks.
fn ten_tables(seed: u64) -> Vec<Rule> {
    let mut random = stream(seed, "micro pipeline");
    let mut rules = Vec::with_capacity(3771);
    push_l2_tables(&mut rules, &mut random);
    push_routes(&mut rules, &mut random);
    push_marks(&mut rules, &mut random);
    rules
}

fn udp() -> Match {
    Match::ipv4().with(Field::IpProtocol, 17_u8)
}

fn set_register(number: u8, value: u16, next: u8) -> Vec<Action> {
    vec![
        Action::SetField(Field::Register(number), value.into()),
        Action::Goto(next),
    ]
}

/// Tables 0 to 3: ports, denied sources, destinations, denied services.
fn push_l2_tables(rules: &mut Vec<Rule>, random: &mut Random) {
    let mut push = |table, priority, matches, actions| {
        rules.push(Rule::new(table, priority, matches, actions));
    };
    push(
        0,
        100,
        Match::any().with(Field::InPort, 1_u8),
        vec![Action::Goto(1)],
    );
    push(0, 90, Match::any().with_vlan(100), vec![]);
    push(
        0,
        80,
        Match::any().with(Field::InPort, 77_u8).with_vlan(5),
        vec![],
    );
    push(0, 0, Match::any(), vec![]);
    for index in 0..1000_u64 {
        let address = 0x02ff_0000_0000 | u64::from(random.random::<u16>()) << 16 | index;
        push(1, 10, Match::any().with(Field::EthSrc, address), vec![]);
    }
    push(1, 0, Match::any(), vec![Action::Goto(2)]);
    for index in 0..64_u16 {
        let address = 0x0200_0000_0100 + u64::from(index);
        push(
            2,
            10,
            Match::any().with(Field::EthDst, address),
            set_register(0, index + 1, 3),
        );
    }
    push(2, 0, Match::any(), vec![Action::Goto(3)]);
    for index in 0..500_u32 {
        let address = 0xac10_0000 | (index % 16) << 16 | (index % 256) << 8;
        let length = *pick(random, &[20, 24, 28, 32]);
        let port = *pick(random, &[80_u16, 443, 53]);
        let matches = udp()
            .with_prefix(Field::IpSrc, address, length)
            .with(Field::UdpDst, port);
        // Separate priorities: prefixes of different lengths overlap.
        push(3, 1000 + index as u16, matches, vec![]);
    }
    push(3, 0, Match::any(), vec![Action::Goto(4)]);
}

/// The number of routes in table 4, for a total of 3,771 rules.
const ROUTES: usize = 963;

/// Table 4: routes, the longest prefix first.
fn push_routes(rules: &mut Vec<Rule>, random: &mut Random) {
    let mut seen = std::collections::HashSet::new();
    while seen.len() < ROUTES {
        let address = 0x1400_0000 | u32::from(random.random::<u16>()) << 8;
        let length = *pick(random, &[16_u32, 20, 22, 24, 24, 24]);
        let matches = Match::ipv4().with_prefix(Field::IpDst, address, length);
        if seen.insert(matches.clone()) {
            let actions = set_register(1, 1 + (seen.len() % 50) as u16, 5);
            rules.push(Rule::new(4, 100 + length as u16, matches, actions));
        }
    }
    let network = Match::ipv4().with_prefix(Field::IpDst, 0x1400_0000_u32, 8);
    rules.push(Rule::new(4, 1, network, set_register(1, 99, 5)));
    rules.push(Rule::new(4, 0, Match::any(), vec![Action::Goto(5)]));
}

/// Tables 5 to 9: services, code points, marks, denied pairs, output.
fn push_marks(rules: &mut Vec<Rule>, random: &mut Random) {
    let mut push = |table, priority, matches, actions| {
        rules.push(Rule::new(table, priority, matches, actions));
    };
    for port in SERVICES {
        push(
            5,
            10,
            udp().with(Field::UdpDst, port),
            set_register(2, port, 6),
        );
    }
    for index in 0..100_u16 {
        let tcp = Match::ipv4().with(Field::IpProtocol, 6_u8);
        push(5, 9, tcp.with(Field::TcpDst, 10_000 + index), vec![]);
    }
    push(5, 0, Match::any(), vec![Action::Goto(6)]);
    for class in 0..8_u16 {
        let matches = Match::ipv4().with(Field::IpDscp, class * 8);
        push(6, 10, matches, set_register(3, class, 7));
    }
    push(6, 0, Match::any(), vec![Action::Goto(7)]);
    for mark in 0..51_u16 {
        push(
            7,
            10,
            Match::any().with(Field::Register(1), mark),
            set_register(4, mark, 8),
        );
    }
    push(7, 0, Match::any(), vec![Action::Goto(8)]);
    for index in 0..1000_u32 {
        let source = 0xc0a8_0000 | ((index % 256) << 8) | (index / 256);
        let matches = udp()
            .with(Field::IpSrc, source)
            .with_prefix(
                Field::IpDst,
                0x1400_0000 | u32::from(random.random::<u8>()) << 16,
                16,
            )
            .with(Field::UdpDst, *pick(random, &[80_u16, 443]));
        push(8, 10, matches, vec![]);
    }
    push(8, 0, Match::any(), vec![Action::Goto(9)]);
    for mark in 0..65_u16 {
        let address = Action::SetField(Field::EthSrc, 0x02aa_0000_0000 + u128::from(mark));
        let matches = Match::any().with(Field::Register(0), mark);
        push(9, 10, matches, vec![address, Action::Output(2)]);
    }
    push(9, 0, Match::any(), vec![Action::Output(2)]);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_ten_tables_have_3771_rules_without_ambiguity() {
        let case = MicroCase::macs(10, 1).unwrap();
        assert_eq!(case.rules.len(), 3771);
        for (index, rule) in case.rules.iter().enumerate() {
            let later = &case.rules[index + 1..];
            let other = later.iter().find(|other| rule.is_ambiguous_with(other));
            assert_eq!(other, None, "{rule}");
        }
        let macs: HashSet<_> = case.flows.iter().map(|flow| flow.eth_src).collect();
        assert_eq!(macs.len(), 10);
    }

    #[test]
    fn masks_are_as_many_as_asked_for() {
        let case = MicroCase::masks(20, 1000, 1).unwrap();
        assert_eq!(case.rules.len(), 20 * 51);
        let masks: HashSet<Vec<_>> = case
            .rules
            .iter()
            .filter(|rule| rule.table > 0)
            .map(|rule| {
                rule.matches
                    .terms()
                    .iter()
                    .map(|term| (term.field, term.mask))
                    .collect()
            })
            .collect();
        assert_eq!(masks.len(), 20);
        assert_eq!(
            case.rules[52].to_string(),
            "table=2,priority=10,udp,nw_dst=10.1.0.0/24,\
             tp_src=0x0/0x1,actions=output:2"
        );
        assert!(case.flows.iter().all(|flow| flow.source_port & 0x1f == 0));
        assert!(MicroCase::masks(32, 1, 1).is_err());
    }

    #[test]
    fn every_rule_of_a_sub_table_has_its_flow() {
        let case = MicroCase::sub_tables(20, 300, 1).unwrap();
        assert_eq!((case.rules.len(), case.flows.len()), (20 * 301, 20 * 300));
        let destinations = case.flows.iter().map(|flow| u32::from(flow.ip_dst) >> 5);
        assert_eq!(destinations.collect::<HashSet<_>>().len(), 20 * 300);
        assert!(case.flows.iter().all(|flow| flow.source_port & 0x1f == 0));
        assert_eq!(
            case.rules[2 * 301 - 1].to_string(),
            "table=2,priority=10,udp,nw_dst=10.8.37.96/27,\
             tp_src=0x0/0x1,actions=output:2"
        );
        assert!(MicroCase::sub_tables(32, 1, 1).is_err());
        assert!(MicroCase::sub_tables(1, RULES_PER_SUB_TABLE + 1, 1).is_err());
    }

    #[test]
    fn flows_differ_and_follow_the_seed() {
        let case = MicroCase::flows(5000, 1).unwrap();
        assert_eq!(case.flows.iter().collect::<HashSet<_>>().len(), 5000);
        assert_eq!(case, MicroCase::flows(5000, 1).unwrap());
        assert_ne!(case, MicroCase::flows(5000, 2).unwrap());
        assert_eq!(
            case.rules_text(),
            "table=0,priority=10,in_port=1,udp,actions=output:2\n"
        );
        let packet = case.flows[0].packet(Flow::SMALLEST_PACKET_BYTES);
        assert_eq!((packet.len(), packet[23]), (60, 17));
    }
}
