//! Definitions that both versions of IP share: protocol numbers and kinds of fragment.

use std::fmt;

/// The protocol that follows an IP header or an IPv6 extension header.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct IpProtocol(pub u8);

impl IpProtocol {
    /// IPv6 hop-by-hop options (RFC 8200 section 4.3). In IPv4, zero is an ordinary number.
    pub const HOP_BY_HOP: IpProtocol = IpProtocol(0);
    /// ICMP for IPv4 (RFC 792).
    pub const ICMPV4: IpProtocol = IpProtocol(1);
    /// Group management for IPv4 (RFC 3376 section 4).
    pub const IGMP: IpProtocol = IpProtocol(2);
    /// IPv4 in IP (RFC 2003 section 3.1).
    pub const IPV4: IpProtocol = IpProtocol(4);
    /// TCP (RFC 9293).
    pub const TCP: IpProtocol = IpProtocol(6);
    /// UDP (RFC 768).
    pub const UDP: IpProtocol = IpProtocol(17);
    /// IPv6 in IP (RFC 2473 section 3).
    pub const IPV6: IpProtocol = IpProtocol(41);
    /// IPv6 routing header (RFC 8200 section 4.4).
    pub const ROUTING: IpProtocol = IpProtocol(43);
    /// IPv6 fragment header (RFC 8200 section 4.5).
    pub const FRAGMENT: IpProtocol = IpProtocol(44);
    /// Generic routing encapsulation (RFC 2784).
    pub const GRE: IpProtocol = IpProtocol(47);
    /// Encapsulating security payload (RFC 4303).
    pub const ESP: IpProtocol = IpProtocol(50);
    /// Authentication header (RFC 4302 section 2).
    pub const AUTHENTICATION: IpProtocol = IpProtocol(51);
    /// ICMP for IPv6 (RFC 4443).
    pub const ICMPV6: IpProtocol = IpProtocol(58);
    /// Nothing follows (RFC 8200 section 4.7).
    pub const NO_NEXT_HEADER: IpProtocol = IpProtocol(59);
    /// IPv6 destination options (RFC 8200 section 4.6).
    pub const DESTINATION_OPTIONS: IpProtocol = IpProtocol(60);
    /// SCTP (RFC 9260).
    pub const SCTP: IpProtocol = IpProtocol(132);

    /// Whether the number names an IPv6 extension header that can be skipped.
    ///
    /// ESP is not one: the bytes behind it are encrypted.
    #[inline]
    pub const fn is_ipv6_extension(self) -> bool {
        matches!(
            self,
            IpProtocol::HOP_BY_HOP
                | IpProtocol::ROUTING
                | IpProtocol::FRAGMENT
                | IpProtocol::AUTHENTICATION
                | IpProtocol::DESTINATION_OPTIONS
        )
    }
}

impl fmt::Display for IpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for IpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IpProtocol({self})")
    }
}

/// The part of a datagram that a packet holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum FragmentKind {
    /// The whole datagram.
    #[default]
    Whole,
    /// The beginning, with the transport header; more may follow.
    First,
    /// A later part, which has no transport header.
    Later,
}
