//! Passes values of the inner IP header to the outer one, and congestion marks back.
//!
//! These are Open vSwitch's rules (`tnl_port_send` and `tnl_process_ecn` of `ofproto/tunnel.c`):
//! the code point and the time to live are inherited if the tunnel's port says so, congestion
//! notification always. For congestion they are those of RFC 3168 section 9.1.1 with full
//! functionality. RFC 6040 section 4 differs where the outer mark is ECT(1): it would be copied.

/// The time to live of an outer packet whose port says nothing.
pub const DEFAULT_TTL: u8 = 64;

const ECN: u8 = 0x03;
const NOT_CAPABLE: u8 = 0x00;
const CAPABLE_0: u8 = 0x02;
const CONGESTED: u8 = 0x03;

/// What the inner IP header says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct InnerIp {
    /// The IPv4 type of service or the IPv6 traffic class.
    pub tos: u8,
    /// The time to live or the hop limit.
    pub ttl: u8,
}

/// Where a field of the outer IP header comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OuterField {
    /// It has this value.
    Fixed(u8),
    /// It is the inner packet's; a packet that is not IP has the default.
    Inherit,
}

impl OuterField {
    /// The outer type of service, whose congestion notification is always the inner packet's.
    ///
    /// Congestion that the inner packet met before is not shown outside: the outer packet says that
    /// it is capable of notification.
    pub fn tos(self, inner: Option<InnerIp>) -> u8 {
        let service = match (self, inner) {
            (OuterField::Fixed(tos), _) => tos,
            (OuterField::Inherit, Some(inner)) => inner.tos & !ECN,
            (OuterField::Inherit, None) => 0,
        };
        let notification = match inner.map(|inner| inner.tos & ECN) {
            None => NOT_CAPABLE,
            Some(CONGESTED) => CAPABLE_0,
            Some(other) => other,
        };
        service | notification
    }

    /// The outer time to live.
    pub fn ttl(self, inner: Option<InnerIp>) -> u8 {
        match (self, inner) {
            (OuterField::Fixed(ttl), _) => ttl,
            (OuterField::Inherit, Some(inner)) => inner.ttl,
            (OuterField::Inherit, None) => DEFAULT_TTL,
        }
    }
}

/// The type of service of an inner IP packet that came out of a tunnel.
///
/// `None` if the packet must be dropped: the outer packet met congestion, and the inner one cannot
/// say so.
pub fn received_tos(outer_tos: u8, inner_tos: u8) -> Option<u8> {
    match (outer_tos & ECN, inner_tos & ECN) {
        (CONGESTED, NOT_CAPABLE) => None,
        (CONGESTED, _) => Some(inner_tos | CONGESTED),
        _ => Some(inner_tos),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outer and the inner mark, and the inner one afterwards: Open vSwitch's test
    /// "tunnel - ECN decapsulation".
    #[test]
    fn congestion_comes_in() {
        for inner in [1, 2, 3] {
            assert_eq!(received_tos(0x43, 0x10 | inner), Some(0x13));
            for outer in [0, 1, 2] {
                assert_eq!(received_tos(0x40 | outer, 0x10 | inner), Some(0x10 | inner));
            }
        }
        assert_eq!(received_tos(3, 0x10), None);
        for outer in [0, 1, 2] {
            assert_eq!(received_tos(outer, 0x10), Some(0x10));
        }
    }

    #[test]
    fn the_outer_header_inherits() {
        let inner = |tos| Some(InnerIp { tos, ttl: 7 });
        let fixed = OuterField::Fixed(0x28);
        assert_eq!(fixed.tos(None), 0x28);
        assert_eq!(fixed.tos(inner(0xfc)), 0x28);
        assert_eq!(fixed.tos(inner(0xfd)), 0x29);
        assert_eq!(fixed.tos(inner(0xff)), 0x2a);
        assert_eq!(OuterField::Inherit.tos(inner(0xff)), 0xfe);
        assert_eq!(OuterField::Inherit.tos(inner(0x29)), 0x29);
        assert_eq!(OuterField::Inherit.tos(None), 0);
        assert_eq!(OuterField::Inherit.ttl(inner(0)), 7);
        assert_eq!(OuterField::Inherit.ttl(None), 64);
        assert_eq!(OuterField::Fixed(9).ttl(inner(0)), 9);
    }
}
