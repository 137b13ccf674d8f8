//! The built-in profiles, and the recipes that a [`FilterSource`](super::FilterSource) uses.
//!
//! The weights, in a thousand, were counted in the public `acl1`, `fw1` and `ipc1` sets of
//! about 10,000 filters. Port classes are ClassBench's: WC any port, HI 1024 and above, LO
//! below 1024, AR another range, EM one port.

use std::str::FromStr;

use super::shape::PortClass;

/// The kind of filter set to imitate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Profile {
    /// An access list: long prefixes, TCP, no source ports.
    Acl1,
    /// A firewall: many wildcards on one side, source and destination ports.
    Fw1,
    /// IP chains: prefixes of all lengths, many filters without protocol.
    Ipc1,
    /// An access list for IPv6.
    Acl6,
    /// A firewall for IPv6.
    Fw6,
    /// IP chains for IPv6.
    Ipc6,
}

/// A protocol with its port classes, and their weight.
pub(super) struct Service {
    pub(super) weight: u32,
    pub(super) protocol: Option<u8>,
    pub(super) source: PortClass,
    pub(super) destination: PortClass,
}

const fn service(
    weight: u32,
    protocol: Option<u8>,
    source: PortClass,
    destination: PortClass,
) -> Service {
    Service {
        weight,
        protocol,
        source,
        destination,
    }
}

/// The parameters of a profile.
pub(super) struct Recipe {
    /// (prefix length, weight) of sources.
    pub(super) source_lengths: &'static [(u8, u32)],
    /// (prefix length, weight) of destinations.
    pub(super) destination_lengths: &'static [(u8, u32)],
    /// Chance in a thousand that a source occurs in an earlier filter.
    pub(super) source_reuse: u32,
    /// The same for a destination.
    pub(super) destination_reuse: u32,
    /// Protocols and port classes.
    pub(super) services: &'static [Service],
    /// Ports of the exact class, frequent ones first.
    pub(super) ports: &'static [u16],
    /// Ranges of the range class.
    pub(super) ranges: &'static [(u16, u16)],
    /// (flags, mask, weight) of TCP filters.
    pub(super) tcp_flags: &'static [(u16, u16, u32)],
}

use PortClass::{Any as Wildcard, Exact, High, Low, Range};

const TCP: Option<u8> = Some(6);
const UDP: Option<u8> = Some(17);
const ICMP: Option<u8> = Some(1);
const GRE: Option<u8> = Some(47);

const ACL1: Recipe = Recipe {
    source_lengths: &[
        (32, 534),
        (31, 246),
        (23, 76),
        (30, 50),
        (24, 44),
        (22, 19),
        (29, 10),
        (25, 6),
        (0, 4),
        (21, 3),
        (8, 3),
        (1, 3),
        (7, 2),
    ],
    destination_lengths: &[
        (32, 504),
        (31, 197),
        (22, 69),
        (30, 44),
        (23, 38),
        (24, 24),
        (21, 17),
        (25, 16),
        (16, 14),
        (0, 8),
        (15, 7),
        (17, 7),
        (28, 6),
        (1, 6),
        (29, 4),
        (27, 4),
    ],
    source_reuse: 570,
    destination_reuse: 890,
    services: &[
        service(594, TCP, Wildcard, Exact),
        service(167, TCP, Wildcard, Wildcard),
        service(113, TCP, Wildcard, Range),
        service(87, None, Wildcard, Wildcard),
        service(30, ICMP, Wildcard, Wildcard),
        service(9, UDP, Wildcard, Exact),
    ],
    ports: &[
        1521, 1526, 1221, 1433, 1525, 14753, 135, 1711, 1705, 5555, 1712, 5541, 1717, 21, 1724,
        1706, 80, 443, 25, 7000,
    ],
    ranges: &[
        (1300, 1349),
        (1600, 1649),
        (1300, 1350),
        (7500, 7599),
        (2200, 2210),
        (1700, 1750),
        (32200, 32207),
        (1025, 65535),
        (61200, 61209),
        (5001, 65535),
        (8000, 8100),
    ],
    tcp_flags: &[(0, 0, 806), (0x1000, 0x1000, 100), (0, 0x0200, 94)],
};

const FW1: Recipe = Recipe {
    source_lengths: &[
        (0, 381),
        (1, 221),
        (32, 129),
        (31, 92),
        (2, 32),
        (30, 29),
        (28, 18),
        (29, 18),
        (27, 13),
        (22, 10),
        (21, 9),
        (23, 8),
        (26, 7),
        (20, 7),
        (25, 4),
        (24, 3),
    ],
    destination_lengths: &[
        (32, 324),
        (31, 270),
        (0, 186),
        (1, 96),
        (30, 66),
        (2, 10),
        (21, 10),
        (28, 9),
        (29, 9),
        (22, 6),
        (27, 5),
        (20, 3),
        (26, 2),
    ],
    source_reuse: 630,
    destination_reuse: 290,
    services: &[
        service(437, TCP, Wildcard, Exact),
        service(138, UDP, Wildcard, Exact),
        service(101, UDP, Exact, Wildcard),
        service(94, TCP, Wildcard, Wildcard),
        service(53, GRE, Wildcard, Wildcard),
        service(40, TCP, High, High),
        service(38, ICMP, Wildcard, Wildcard),
        service(23, UDP, High, High),
        service(22, UDP, Exact, Exact),
        service(22, UDP, High, Exact),
        service(20, UDP, Exact, High),
        service(11, None, Wildcard, Wildcard),
        service(1, UDP, High, Range),
    ],
    ports: &[
        22, 53, 80, 25, 123, 21, 2105, 750, 544, 23, 443, 161, 119, 88, 67, 69, 7648, 24032, 162,
        110, 5998,
    ],
    ranges: &[(33434, 33600)],
    tcp_flags: &[(0x0200, 0x1200, 963), (0, 0, 30), (0x1000, 0x1000, 7)],
};

const IPC1: Recipe = Recipe {
    source_lengths: &[
        (32, 173),
        (24, 137),
        (23, 131),
        (0, 95),
        (25, 83),
        (31, 78),
        (22, 53),
        (1, 53),
        (26, 41),
        (16, 28),
        (17, 27),
        (27, 23),
        (15, 14),
        (28, 14),
        (30, 14),
        (21, 12),
        (8, 8),
        (12, 6),
    ],
    destination_lengths: &[
        (32, 256),
        (24, 121),
        (31, 114),
        (25, 106),
        (23, 65),
        (0, 63),
        (26, 52),
        (16, 40),
        (1, 33),
        (27, 27),
        (17, 24),
        (15, 24),
        (28, 18),
        (30, 17),
        (22, 16),
        (29, 13),
        (8, 6),
    ],
    source_reuse: 850,
    destination_reuse: 710,
    services: &[
        service(316, None, Wildcard, Wildcard),
        service(239, UDP, Wildcard, Exact),
        service(137, TCP, Wildcard, Exact),
        service(81, UDP, Exact, Wildcard),
        service(80, TCP, Exact, Wildcard),
        service(54, UDP, Wildcard, High),
        service(21, TCP, Wildcard, Wildcard),
        service(18, TCP, Wildcard, Range),
        service(16, TCP, Range, Wildcard),
        service(10, ICMP, Wildcard, Wildcard),
        service(7, UDP, Wildcard, Range),
        service(4, GRE, Wildcard, Wildcard),
        service(4, UDP, Exact, Exact),
        service(2, TCP, Wildcard, Low),
    ],
    ports: &[
        69, 514, 80, 9003, 53, 161, 25, 1433, 143, 113, 137, 22, 139, 162, 119, 5540, 5632, 5500,
        5550, 5510, 5530, 500,
    ],
    ranges: &[
        (109, 110),
        (20, 23),
        (20, 21),
        (1645, 1646),
        (1812, 1813),
        (5000, 5001),
    ],
    tcp_flags: &[(0, 0, 597), (0, 0x0200, 400), (0x0200, 0x0200, 3)],
};

impl Profile {
    /// All profiles.
    pub const ALL: [Profile; 6] = [
        Profile::Acl1,
        Profile::Fw1,
        Profile::Ipc1,
        Profile::Acl6,
        Profile::Fw6,
        Profile::Ipc6,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Profile::Acl1 => "acl1",
            Profile::Fw1 => "fw1",
            Profile::Ipc1 => "ipc1",
            Profile::Acl6 => "acl6",
            Profile::Fw6 => "fw6",
            Profile::Ipc6 => "ipc6",
        }
    }

    /// The recipe for tables of pipelines. Pipelines route IPv4, so IPv6 profiles use the IPv4
    /// recipes.
    pub(super) const fn recipe(self) -> &'static Recipe {
        match self {
            Profile::Acl1 | Profile::Acl6 => &ACL1,
            Profile::Fw1 | Profile::Fw6 => &FW1,
            Profile::Ipc1 | Profile::Ipc6 => &IPC1,
        }
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Profile, UnknownProfile> {
        let known = Profile::ALL.into_iter().find(|known| known.name() == name);
        known.ok_or_else(|| UnknownProfile(name.to_owned()))
    }
}

/// A profile that does not exist.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no profile {0:?}; choose acl1, fw1, ipc1, acl6, fw6 or ipc6")]
pub struct UnknownProfile(String);
