//! What names one direction of a connection.

use std::net::{IpAddr, Ipv6Addr};

use serde::{Deserialize, Serialize};

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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
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

impl Tuple {
    /// The tuple of an answer to a packet with this tuple, if nothing is translated.
    #[must_use]
    pub fn reversed(&self) -> Tuple {
        Tuple {
            source: self.destination,
            destination: self.source,
            icmp: (self.answering_type(), self.icmp.1),
            ..*self
        }
    }

    /// Whether the protocol has ports that translation may change.
    pub(crate) fn has_ports(&self) -> bool {
        matches!(self.protocol, protocol::TCP | protocol::UDP)
    }

    /// Whether the tuple is of ICMP over IPv4, or of ICMPv6 over IPv6.
    pub(crate) fn is_icmp(&self) -> bool {
        self.protocol
            == if self.is_ipv6 {
                protocol::ICMPV6
            } else {
                protocol::ICMP
            }
    }

    /// Whether a first packet with this tuple may begin a connection: any but an answer of ICMP.
    pub(crate) fn is_beginning(&self) -> bool {
        !self.is_icmp()
            || if self.is_ipv6 {
                self.icmp.0 == ICMPV6_ECHO
            } else {
                matches!(self.icmp.0, ICMP_ECHO | ICMP_TIMESTAMP | ICMP_INFORMATION)
            }
    }

    /// The type of ICMP that answers this one, or that it answers.
    fn answering_type(&self) -> u8 {
        if !self.is_icmp() {
            return self.icmp.0;
        }
        match (self.is_ipv6, self.icmp.0) {
            (false, ICMP_ECHO) => ICMP_ECHO_REPLY,
            (false, ICMP_ECHO_REPLY) => ICMP_ECHO,
            (false, ICMP_TIMESTAMP) => ICMP_TIMESTAMP_REPLY,
            (false, ICMP_TIMESTAMP_REPLY) => ICMP_TIMESTAMP,
            (false, ICMP_INFORMATION) => ICMP_INFORMATION_REPLY,
            (false, ICMP_INFORMATION_REPLY) => ICMP_INFORMATION,
            (true, ICMPV6_ECHO) => ICMPV6_ECHO_REPLY,
            (true, ICMPV6_ECHO_REPLY) => ICMPV6_ECHO,
            (_, other) => other,
        }
    }
}

/// The types of ICMP (RFC 792) and ICMPv6 (RFC 4443) that ask and answer.
pub(crate) const ICMP_ECHO_REPLY: u8 = 0;
pub(crate) const ICMP_ECHO: u8 = 8;
pub(crate) const ICMP_TIMESTAMP: u8 = 13;
pub(crate) const ICMP_TIMESTAMP_REPLY: u8 = 14;
pub(crate) const ICMP_INFORMATION: u8 = 15;
pub(crate) const ICMP_INFORMATION_REPLY: u8 = 16;
pub(crate) const ICMPV6_ECHO: u8 = 128;
pub(crate) const ICMPV6_ECHO_REPLY: u8 = 129;
