//! Parses ClassBench filter sets, converts them to matches, and imitates them.
//!
//! ClassBench (Taylor and Turner, *ClassBench: A Packet Classification Benchmark*, INFOCOM
//! 2005) makes filter sets with the structure of real access lists (`acl1`), firewalls (`fw1`)
//! and IP chains (`ipc1`). [`parse_filters`] parses its files. A [`Shape`] describes a set,
//! counted or written by hand, and [`Shape::filters`] imitates the set, so no external files
//! are needed. [`Filter::matches`] and [`filter_rules`] turn filters into rules.
//!
//! One line is one filter, the first match wins, and tabs separate fields:
//!
//! ```text
//! @1.2.3.0/24  5.6.7.8/32  0 : 65535  80 : 80  0x06/0xFF  0x0000/0x0200
//!  source      destination source     dest.    protocol   flags
//!                          ports      ports
//! ```
//!
//! Addresses may be IPv6, as ClassBench-ng writes them (Matoušek et al., *ClassBench-ng:
//! Recasting ClassBench after a Decade of Network Evolution*, ANCS 2017).
//!
//! The high byte of the flags is TCP's flag byte for TCP and the message type for ICMP.
//!
//! OpenFlow has masks but no ranges, so a port range becomes the fewest prefix masks that
//! cover it ([`PortRange::prefixes`]): at most 30 of them, and a filter with two ranges needs
//! their product. All rules of one filter share its priority; they cannot overlap.
//!
//! A filter is a five-tuple whatever its protocol, and anonymised sets have ports for
//! protocols without ports (`fw4` for 2 to 8). Rules match only ports of TCP, UDP and SCTP, so
//! such a filter is carried by one of these: its rules and its packets have that protocol
//! ([`Filter::carrier`]).

mod convert;
mod header;
mod parse;
mod profile;
mod sets;
mod shape;
mod source;

pub(crate) use convert::priorities_in_order;
pub use convert::{Extra, filter_rules};
pub use header::Header;
pub use parse::{FilterError, FilterProblem, parse_filters};
pub use profile::{Profile, UnknownProfile};
pub use sets::generate_filters;
pub use shape::{
    LengthShare, PortClass, PortShares, SHAPE_KEYS, ServiceShare, Shape, ShapeError, Sharing,
};
pub(crate) use source::FilterSource;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::field::prefix_mask;

/// A prefix of IPv4 or IPv6 addresses; the address has no bit below the prefix length.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Prefix {
    address: u128,
    length: u8,
    width: u8,
}

impl Prefix {
    /// The IPv4 prefix of `length` bits (at most 32) that contains `address`.
    ///
    /// # Panics
    /// When `length` is above 32.
    pub fn new(address: u32, length: u8) -> Self {
        Prefix::of_width(address.into(), length, 32)
    }

    /// The IPv6 prefix of `length` bits (at most 128) that contains `address`.
    ///
    /// # Panics
    /// When `length` is above 128.
    pub fn new_ipv6(address: u128, length: u8) -> Self {
        Prefix::of_width(address, length, 128)
    }

    /// The prefix of addresses of `width` bits; ignores bits above the width.
    pub(crate) fn of_width(address: u128, length: u8, width: u8) -> Self {
        assert!(
            length <= width,
            "a prefix of {width}-bit addresses has no {length} bits"
        );
        Prefix {
            address: address & prefix_mask(length.into(), width.into()),
            length,
            width,
        }
    }

    /// The address, as a number of [`Prefix::width`] bits.
    pub const fn address(self) -> u128 {
        self.address
    }

    /// The length in bits.
    pub const fn length(self) -> u8 {
        self.length
    }

    /// The width of its addresses in bits: 32 or 128.
    pub const fn width(self) -> u8 {
        self.width
    }

    /// The mask as a number.
    pub const fn mask(self) -> u128 {
        prefix_mask(self.length as u32, self.width as u32)
    }

    /// The bits in which its addresses may differ.
    pub const fn free_bits(self) -> u128 {
        prefix_mask(self.width as u32, self.width as u32) & !self.mask()
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.width {
            32 => write!(f, "{}/{}", Ipv4Addr::from(self.address as u32), self.length),
            _ => write!(f, "{}/{}", Ipv6Addr::from(self.address), self.length),
        }
    }
}

/// A range of ports, including both ends; never empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PortRange {
    low: u16,
    high: u16,
}

impl PortRange {
    /// Every port.
    pub const ANY: PortRange = PortRange {
        low: 0,
        high: u16::MAX,
    };

    /// The range from `low` to `high`; `None` if it would be empty.
    pub const fn new(low: u16, high: u16) -> Option<Self> {
        if low <= high {
            Some(PortRange { low, high })
        } else {
            None
        }
    }

    /// The range of one port.
    pub const fn exactly(port: u16) -> Self {
        PortRange {
            low: port,
            high: port,
        }
    }

    /// The lowest port.
    pub const fn low(self) -> u16 {
        self.low
    }

    /// The highest port.
    pub const fn high(self) -> u16 {
        self.high
    }

    /// The fewest (value, mask) pairs that cover the range exactly; all masks are prefixes.
    ///
    /// ```
    /// use thalweg_workload::PortRange;
    ///
    /// let high_ports = PortRange::new(1024, 65535).expect("not empty");
    /// assert_eq!(high_ports.prefixes().next(), Some((0x400, 0xfc00)));
    /// assert_eq!(high_ports.prefixes().count(), 6);
    /// ```
    pub fn prefixes(self) -> impl Iterator<Item = (u16, u16)> {
        // Greedy from below: the largest aligned block that starts here and stays inside.
        let (mut next, end) = (u32::from(self.low), u32::from(self.high) + 1);
        std::iter::from_fn(move || {
            if next == end {
                return None;
            }
            let aligned = if next == 0 {
                16
            } else {
                next.trailing_zeros().min(16)
            };
            let bits = aligned.min((end - next).ilog2());
            let block = (next as u16, (u32::from(u16::MAX) << bits) as u16);
            next += 1 << bits;
            Some(block)
        })
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} : {}", self.low, self.high)
    }
}

/// One filter of a ClassBench set; its [`Display`](fmt::Display) is a line of such a file.
///
/// Both addresses are of one family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Filter {
    /// Source addresses.
    pub source: Prefix,
    /// Destination addresses.
    pub destination: Prefix,
    /// Source ports.
    pub source_ports: PortRange,
    /// Destination ports.
    pub destination_ports: PortRange,
    /// The IP protocol, or any.
    pub protocol: Option<u8>,
    /// The sixth field, as in the file.
    pub flags: u16,
    /// The bits of `flags` that matter.
    pub flags_mask: u16,
}

/// The protocols whose ports a rule can match; another protocol `n` is carried by item `n %
/// 3`.
const WITH_PORTS: [u8; 3] = [protocol::TCP, protocol::UDP, protocol::SCTP];

/// Numbers of IP protocols.
mod protocol {
    pub(super) const TCP: u8 = 6;
    pub(super) const UDP: u8 = 17;
    pub(super) const SCTP: u8 = 132;
}

impl Filter {
    /// Whether it restricts the ports.
    pub fn has_ports(&self) -> bool {
        self.source_ports != PortRange::ANY || self.destination_ports != PortRange::ANY
    }

    /// The protocol of its rules: its own, unless it restricts ports that no rule can match.
    ///
    /// ```
    /// let text = "@1.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x07/0xFF";
    /// let filter = thalweg_workload::parse_filters("fw4", text)?[0];
    /// assert_eq!((filter.protocol, filter.carrier()), (Some(7), Some(17)));
    /// # Ok::<(), thalweg_workload::FilterError>(())
    /// ```
    pub fn carrier(&self) -> Option<u8> {
        self.protocol.map(|number| match self.has_ports() {
            true if !WITH_PORTS.contains(&number) => WITH_PORTS[usize::from(number) % 3],
            _ => number,
        })
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}\t{}\t", self.source, self.destination)?;
        write!(f, "{}\t{}\t", self.source_ports, self.destination_ports)?;
        match self.protocol {
            Some(protocol) => write!(f, "0x{protocol:02x}/0xFF")?,
            None => f.write_str("0x00/0x00")?,
        }
        write!(f, "\t0x{:04x}/0x{:04x}", self.flags, self.flags_mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranges between coarse and odd ends, compared with counting ports.
    #[test]
    fn prefixes_cover_a_range_exactly_once_and_are_the_fewest() {
        let ends = [
            0, 1, 2, 3, 6, 7, 80, 1023, 1024, 1300, 1349, 32767, 32768, 65534, 65535,
        ];
        for low in ends {
            for high in ends {
                let Some(range) = PortRange::new(low, high) else {
                    continue;
                };
                let mut covered = vec![0_u8; 1 << 16];
                for (value, mask) in range.prefixes() {
                    assert_eq!(value & !mask, 0);
                    for port in value..=value | !mask {
                        covered[usize::from(port)] += 1;
                    }
                }
                for (port, count) in covered.into_iter().enumerate() {
                    let inside = (usize::from(low)..=usize::from(high)).contains(&port);
                    assert_eq!(count, u8::from(inside), "{range}, port {port}");
                }
                assert_eq!(
                    range.prefixes().count(),
                    fewest(low.into(), high.into(), 16)
                );
            }
        }
    }

    /// The fewest aligned blocks, by the recursive definition of a trie cover.
    fn fewest(low: u32, high: u32, bits: u32) -> usize {
        let size = 1 << bits;
        if low == 0 && high == size - 1 {
            return 1;
        }
        let half = size / 2;
        let lower = if low < half {
            fewest(low, high.min(half - 1), bits - 1)
        } else {
            0
        };
        let upper = if high >= half {
            fewest(low.saturating_sub(half), high - half, bits - 1)
        } else {
            0
        };
        lower + upper
    }
}
