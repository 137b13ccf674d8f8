//! What names one direction of a connection.

use std::net::{IpAddr, Ipv6Addr};

/// The IP protocols that the tracker knows.
pub mod protocol {
    /// ICMP (RFC 792).
    pub const ICMP: u8 = 1;
    /// TCP (RFC 9293).
    pub const TCP: u8 = 6;
    /// UDP (RFC 768).
    pub const UDP: u8 = 17;
    /// ICMPv6 (RFC 4443).
    pub const ICMPV6: u8 = 58;
    /// SCTP (RFC 9260).
    pub const SCTP: u8 = 132;
}

/// An address and a port.
///
/// An IPv4 address is kept as its IPv4-mapped IPv6 address, so that all have one size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Endpoint {
    /// The address; IPv4 as `::ffff:a.b.c.d`.
    pub address: Ipv6Addr,
    /// The port; for ICMP, see [`Tuple`].
    pub port: u16,
}

/// One direction of a connection in one zone.
///
/// An echo of ICMP has its identifier in both ports, and its type and code in `icmp`: the type
/// of the direction, so that a reply's tuple has the type of the reply.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tuple {
    /// Where packets come from.
    pub source: Endpoint,
    /// Where packets go.
    pub destination: Endpoint,
    /// Type and code, for ICMP and ICMPv6; otherwise zeros.
    pub icmp: (u8, u8),
    /// The zone.
    pub zone: u16,
    /// The IP protocol.
    pub protocol: u8,
    /// Whether the packets are IPv6.
    pub is_ipv6: bool,
}

impl Endpoint {
    /// The address as people write it.
    pub fn ip(&self) -> IpAddr {
        self.address.to_canonical()
    }
}
