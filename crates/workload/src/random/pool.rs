//! The values that random rules, rewrites and packets share.
//!
//! Each pool is small and holds the extremes of its field: zero, all ones, group addresses,
//! and values with a common prefix, so that masks separate some of them and not others.

use rand::Rng;

use crate::field::Field;
use crate::seed::{Random, pick};

pub(super) const ETHERNET: [u64; 7] = [
    0x0200_0000_0001,
    0x0200_0000_0002,
    0x0200_0000_0103,
    0x0600_0000_0001,
    0x0100_5e00_0001,
    0x3333_0000_0001,
    0xffff_ffff_ffff,
];

pub(super) const IPV4: [u32; 8] = [
    0x0a00_0001,
    0x0a00_0002,
    0x0a00_0101,
    0x0a01_0001,
    0xc0a8_0001,
    0xe000_0001,
    0,
    u32::MAX,
];

pub(super) const IPV6: [u128; 6] = [
    0x2001_0db8_0000_0000_0000_0000_0000_0001,
    0x2001_0db8_0000_0000_0000_0000_0000_0002,
    0x2001_0db8_0001_0000_0000_0000_0000_0001,
    0xfe80_0000_0000_0000_0000_00ff_fe00_0001,
    0xff02_0000_0000_0000_0000_0001_ff00_0001,
    0,
];

pub(super) const PORTS: [u16; 8] = [0, 1, 22, 53, 80, 443, 1024, 65535];
pub(super) const VLANS: [u16; 5] = [0, 1, 2, 100, 4095];
pub(super) const DSCP: [u8; 4] = [0, 10, 12, 63];
pub(super) const TTL: [u8; 5] = [0, 1, 2, 64, 255];
pub(super) const ICMP_TYPES: [u8; 5] = [0, 3, 8, 11, 255];
pub(super) const ICMPV6_TYPES: [u8; 7] = [1, 128, 129, 133, 135, 136, 255];
pub(super) const CODES: [u8; 3] = [0, 1, 255];
pub(super) const TCP_FLAGS: [u16; 5] = [0, 0x002, 0x010, 0x012, 0xfff];
/// Packets have operations above 255; a rule sees only the low byte.
pub(super) const ARP_OPS: [u16; 6] = [0, 1, 2, 3, 8, 0x0101];
pub(super) const LABELS: [u32; 4] = [0, 3, 16, 0xfffff];
/// Values of registers: small numbers, and values that moves copy into them.
pub(super) const REGISTER: [u32; 8] = [0, 1, 2, 3, 0x0a00_0001, 0x0a00_0101, 80, u32::MAX];

/// Labels of connections: nothing, everything, and bits at both ends.
pub(super) const CT_LABELS: [u128; 5] = [0, 1, 5, 1 << 127, u128::MAX];
/// Protocols of connections.
pub(super) const CT_PROTOCOLS: [u8; 4] = [1, 6, 17, 58];
/// Zones that rules name.
pub(super) const ZONES: [u16; 3] = [0, 1, 2];

/// Ids of conjunctive matches.
pub(super) const IDS: [u32; 3] = [1, 2, 0x8000_0000];

/// A value of `field` for a rule or a rewrite.
pub(super) fn draw_value(random: &mut Random, field: Field, ports: u32) -> u128 {
    match field {
        Field::InPort => random.random_range(1..=ports).into(),
        Field::ConjId => (*pick(random, &IDS)).into(),
        Field::Metadata | Field::PacketMark | Field::Register(_) => {
            (*pick(random, &REGISTER)).into()
        }
        Field::SetOutput => random.random_range(0..=ports).into(),
        Field::EthSrc | Field::EthDst | Field::NdSll | Field::NdTll => {
            (*pick(random, &ETHERNET)).into()
        }
        Field::ArpSha | Field::ArpTha => (*pick(random, &ETHERNET)).into(),
        Field::IpSrc | Field::IpDst | Field::ArpSpa | Field::ArpTpa => {
            (*pick(random, &IPV4)).into()
        }
        Field::Ipv6Src | Field::Ipv6Dst | Field::NdTarget => *pick(random, &IPV6),
        Field::VlanVid => (0x1000 | *pick(random, &VLANS)).into(),
        Field::VlanTci => {
            let priority = random.random_range(0..8_u16) << 13;
            (priority | 0x1000 | *pick(random, &VLANS)).into()
        }
        Field::TcpSrc | Field::TcpDst | Field::UdpSrc | Field::UdpDst => {
            (*pick(random, &PORTS)).into()
        }
        Field::SctpSrc | Field::SctpDst => (*pick(random, &PORTS)).into(),
        Field::IpDscp => (*pick(random, &DSCP)).into(),
        Field::IpTtl | Field::MplsTtl => (*pick(random, &TTL)).into(),
        Field::IpEcn | Field::Ipv6Label => random.random_range(0..4_u8).into(),
        Field::MplsTc => random.random_range(0..8_u8).into(),
        Field::MplsBottom => random.random_range(0..2_u8).into(),
        Field::IcmpType => (*pick(random, &ICMP_TYPES)).into(),
        Field::Icmpv6Type => (*pick(random, &ICMPV6_TYPES)).into(),
        Field::IcmpCode | Field::Icmpv6Code => (*pick(random, &CODES)).into(),
        Field::TcpFlags => (*pick(random, &TCP_FLAGS)).into(),
        Field::ArpOp => (*pick(random, &ARP_OPS) & 0xff).into(),
        Field::MplsLabel => (*pick(random, &LABELS)).into(),
        Field::CtZone => (*pick(random, &ZONES)).into(),
        Field::CtMark => (*pick(random, &REGISTER)).into(),
        Field::CtLabel => *pick(random, &CT_LABELS),
        Field::CtIpSrc | Field::CtIpDst | Field::TunnelDst => (*pick(random, &IPV4)).into(),
        Field::CtIpv6Src | Field::CtIpv6Dst => *pick(random, &IPV6),
        Field::CtIpProtocol => (*pick(random, &CT_PROTOCOLS)).into(),
        Field::CtPortSrc | Field::CtPortDst => (*pick(random, &PORTS)).into(),
        Field::EthType | Field::IpProtocol | Field::IpFragment | Field::CtState => {
            unreachable!("{field:?} is drawn with what needs it")
        }
    }
}
