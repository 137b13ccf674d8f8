//! Entries and packets for a P4 program that bridges, routes, filters, translates and guards.
//!
//! They are the four cases of B-Cache's measurements, as `examples/p4/switch.p4` implements
//! them.
//!
//! ```text
//!   stations in 8 domains at 16 ports --> smac, dmac, ipsg        one entry a station in each
//!   routes, one next hop each         --> fib, nexthop            one entry a route
//!   who may not speak to what         --> ipv4_acl                one entry a pair
//!   translations of four kinds        --> nat_*, nat_rewrite
//! ```
//!
//! A station sends each packet: to another station of its domain, to a route, or by a
//! translation. So the entries that it meets exist. Some packets are denied, and some go to
//! all. The text is commands of simple_switch_CLI.
//!
//! 1. The same case, size and seed give the same entries and packets.
//! 2. No two entries of a table have the same key.
//! 3. Each table has the requested number of entries, or its maximum. Tables about ports and
//!    domains have one entry for each of these.
//!
//! Reference: Zhang et al., *B-Cache: A Behavior-Level Caching Framework for the Programmable Data
//! Plane*, figure 8.

mod commands;

use rand::Rng;
use thalweg_packet::checksum::{Sum, checksum};
use thalweg_packet::wire::IpProtocol;

use crate::seed::{Random, stream};

const DOMAINS: u32 = 8;
const PORTS: u32 = 16;
const FIRST_DOMAIN: u32 = 100;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// The capacity of a table of the program.
const TABLE_MAX: usize = 16_384;
const ACL_MAX: usize = 4_096;
const NAT_MAX: usize = 4_096;
const NAT_FLOW_MAX: usize = 1_024;

/// A machine of a domain.
#[derive(Clone, Copy, Debug)]
struct Station {
    number: u32,
    domain: u32,
    port: u32,
    is_tagged: bool,
}

/// The prefix of a route.
#[derive(Clone, Copy, Debug)]
struct Route {
    address: u32,
    length: u32,
}

/// A network around one switch.
///
/// ```
/// use thalweg_workload::Campus;
///
/// let campus = Campus::new(4, 100, 1);
/// assert!(campus.commands().contains("table_add SwitchIngress.ipsg permit"));
/// let (port, packet) = campus.packets(7).next().unwrap();
/// assert!((1..=16).contains(&port) && packet.len() >= 60);
/// ```
#[derive(Clone, Debug)]
pub struct Campus {
    case: u8,
    stations: Vec<Station>,
    routes: Vec<Route>,
    denied: usize,
    translations: usize,
    flow_translations: usize,
}

impl Campus {
    /// A network for a case (1 to 4), with `entries` entries per table.
    ///
    /// # Panics
    /// If there is no such case, or `entries` is 0.
    pub fn new(case: u8, entries: usize, seed: u64) -> Campus {
        assert!((1..=4).contains(&case), "the cases are 1 to 4, not {case}");
        assert!(entries > 0, "a network has a station at least");
        let mut random = stream(seed, "campus");
        let count = entries.min(TABLE_MAX);
        let stations = (0..count as u32).map(|number| {
            let domain = number % DOMAINS;
            let is_tagged = random.random_range(0..4) == 0;
            let side = DOMAINS * random.random_range(0..PORTS / DOMAINS);
            // A port's own domain is untagged there; its neighbour domain is tagged.
            let port = 1
                + side
                + if is_tagged {
                    (domain + 1) % DOMAINS
                } else {
                    domain
                };
            Station {
                number,
                domain,
                port,
                is_tagged,
            }
        });
        let stations = stations.collect();
        let routes = (0..count as u32).map(|number| {
            let length = random.random_range(20..=28);
            let within = random.random_range(0..1_u32 << 12);
            let mask = u32::MAX << (32 - length);
            Route {
                address: ((20 << 24) + (number << 12) + within) & mask,
                length,
            }
        });
        Campus {
            case,
            stations,
            routes: routes.collect(),
            denied: entries.min(ACL_MAX),
            translations: entries.min(NAT_MAX),
            flow_translations: entries.min(NAT_FLOW_MAX),
        }
    }

    /// An endless sequence of packets, each with its port.
    pub fn packets(&self, seed: u64) -> impl Iterator<Item = (u32, Vec<u8>)> + '_ {
        let mut random = stream(seed, "campus packets");
        std::iter::from_fn(move || Some(self.packet(&mut random)))
    }

    /// A station, and a route that it can reach.
    fn pair(&self, index: usize) -> (&Station, &Route) {
        let station = &self.stations[index % self.stations.len()];
        // One virtual router has the even domains and routes, the other the odd ones.
        let parity = station.domain as usize % 2;
        let route = (index * 2 + parity) % self.routes.len();
        (station, &self.routes[route])
    }

    fn packet(&self, random: &mut Random) -> (u32, Vec<u8>) {
        let index = random.random_range(0..self.stations.len());
        let (station, route) = self.pair(index);
        let (sport, dport) = (
            random.random_range(1_024..5_000),
            random.random_range(1..1_024),
        );
        let router = router_mac_bytes(station.domain);
        let kinds = if self.case >= 3 { 100 } else { 80 };
        let index = index % self.translations;
        let pool = |first: u32| (first << 24) + index as u32;
        let flow = match random.random_range(0..kinds) {
            // To a station of the same domain; if that is the sender, the packet ends at its
            // own port.
            0..30 => {
                let step = DOMAINS as usize * random.random_range(0..64);
                let other = (station.number as usize + step) % self.stations.len();
                let other = &self.stations[other];
                (other.mac_bytes(), other.address_bits(), TCP, sport, dport)
            }
            30..32 => ([0xff; 6], u32::MAX, UDP, 68, 67),
            32..34 => {
                let group = 239 << 24 | 1 << 16 | station.domain << 8 | 1;
                (group_mac_bytes(station.domain), group, UDP, sport, dport)
            }
            34..38 => (router, route.inside(random.random()), TCP, sport, 23),
            38..80 => (router, route.inside(random.random()), TCP, sport, dport),
            80..85 => (router, pool(30), UDP, 5_000, 53),
            85..90 => (router, pool(31), TCP, sport, 80),
            90..95 => (router, route.inside(random.random()), UDP, 6_000, dport),
            _ => {
                let index = index % self.flow_translations;
                (router, (32 << 24) + index as u32, TCP, sport, 443)
            }
        };
        (station.port, station.frame(flow))
    }
}

/// The addresses, protocol and ports of a packet.
type FlowTo = ([u8; 6], u32, u8, u16, u16);

impl Station {
    fn mac_bytes(&self) -> [u8; 6] {
        let [_, _, high, low] = self.number.to_be_bytes();
        [2, 0, 0, 0, high, low]
    }

    fn mac(&self) -> String {
        colons(self.mac_bytes())
    }

    fn address_bits(&self) -> u32 {
        10 << 24 | self.domain << 16 | (self.number / DOMAINS + 1)
    }

    fn address(&self) -> String {
        dotted(self.address_bits())
    }

    /// A packet of this station, at least 60 bytes long, with correct checksums.
    fn frame(&self, (mac, to, protocol, sport, dport): FlowTo) -> Vec<u8> {
        let mut frame = mac.to_vec();
        frame.extend(self.mac_bytes());
        if self.is_tagged {
            frame.extend([0x81, 0]);
            frame.extend((vid(self.domain) as u16).to_be_bytes());
        }
        frame.extend([8, 0]);
        let mut segment = Vec::new();
        segment.extend(sport.to_be_bytes());
        segment.extend(dport.to_be_bytes());
        if protocol == TCP {
            segment.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
        } else {
            segment.extend([0, 26, 0, 0]);
            segment.resize(26, 0x55);
        }
        let from = self.address_bits();
        let protocol_of = IpProtocol(protocol);
        let sum =
            Sum::of_ipv4_pseudo_header(from.into(), to.into(), protocol_of, segment.len() as u16);
        let sum = sum.with_bytes(&segment).checksum();
        let at = if protocol == TCP { 16 } else { 6 };
        segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        let mut header = vec![
            0x45,
            0,
            0,
            (20 + segment.len()) as u8,
            0,
            0,
            0x40,
            0,
            64,
            protocol,
            0,
            0,
        ];
        header.extend(from.to_be_bytes());
        header.extend(to.to_be_bytes());
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        frame.extend(header);
        frame.extend(segment);
        frame.resize(frame.len().max(60), 0);
        frame
    }
}

impl Route {
    /// An address of the prefix.
    fn inside(&self, low: u32) -> u32 {
        self.address | low & !(u32::MAX << (32 - self.length))
    }
}

fn vid(domain: u32) -> u32 {
    FIRST_DOMAIN + domain
}

/// The domain whose packets are untagged at a port.
fn own_domain(port: u32) -> u32 {
    (port - 1) % DOMAINS
}

/// Whether a domain has stations at a port.
fn member(port: u32, domain: u32) -> bool {
    own_domain(port) == domain || own_domain(port) == (domain + 1) % DOMAINS
}

fn router_mac_bytes(domain: u32) -> [u8; 6] {
    [2, 0xff, 0, 0, 0, domain as u8]
}

fn router_mac(domain: u32) -> String {
    colons(router_mac_bytes(domain))
}

fn group_mac_bytes(domain: u32) -> [u8; 6] {
    [1, 0, 0x5e, 1, domain as u8, 1]
}

fn group_mac(domain: u32) -> String {
    colons(group_mac_bytes(domain))
}

fn colons(mac: [u8; 6]) -> String {
    let octets = mac.map(|octet| format!("{octet:02x}"));
    octets.join(":")
}

fn dotted(address: u32) -> String {
    std::net::Ipv4Addr::from(address).to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_key_is_there_twice_and_sizes_are_kept() {
        for case in 1..=4 {
            let text = Campus::new(case, 300, 5).commands();
            let mut keys = HashSet::new();
            let (mut stations, mut routes) = (0, 0);
            for line in text.lines().filter(|line| line.starts_with("table_add")) {
                let (key, data) = line.split_once(" =>").expect("an arrow");
                let priority = data.split_whitespace().last().unwrap_or_default();
                let words: Vec<&str> = key.split(' ').collect();
                let key = (words[1].to_owned(), words[3..].join(" "));
                assert!(keys.insert((key, priority.to_owned())), "{line}");
                stations += usize::from(words[1] == "SwitchIngress.smac");
                routes += usize::from(words[1] == "SwitchIngress.fib");
            }
            assert_eq!((stations, routes), (300, 300));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same() {
        let campus = |seed| Campus::new(4, 50, seed);
        assert_eq!(campus(1).commands(), campus(1).commands());
        assert_ne!(campus(1).commands(), campus(2).commands());
        let packets = |seed| campus(1).packets(seed).take(50).collect::<Vec<_>>();
        assert_eq!(packets(3), packets(3));
        assert_ne!(packets(3), packets(4));
    }
}
