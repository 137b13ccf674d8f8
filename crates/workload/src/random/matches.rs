//! Random matches: a kind of packet, then some of the fields of such a packet.

use rand::Rng;

use super::RandomConfig;
use super::pool::draw_value;
use crate::field::{Field, prefix_mask};
use crate::rule::Match;
use crate::seed::{Random, pick, weighted_index};

/// A kind of packet for a match, and the fields it allows to match.
struct Kind {
    weight: u32,
    eth_type: Option<u16>,
    protocol: Option<u8>,
    /// For neighbour discovery: the exact type, with code 0.
    message: Option<u8>,
    fields: &'static [Field],
}

const fn kind(
    weight: u32,
    eth_type: Option<u16>,
    protocol: Option<u8>,
    fields: &'static [Field],
) -> Kind {
    Kind {
        weight,
        eth_type,
        protocol,
        message: None,
        fields,
    }
}

const IPV4: Option<u16> = Some(0x0800);
const IPV6: Option<u16> = Some(0x86dd);

use Field::{
    ArpOp, ArpSha, ArpSpa, ArpTha, ArpTpa, CtIpDst, CtIpSrc, CtIpv6Dst, CtIpv6Src, CtLabel, CtMark,
    CtPortDst, CtPortSrc, EthDst, EthSrc, IcmpCode, IcmpType, Icmpv6Code, Icmpv6Type, InPort,
    IpDscp, IpDst, IpEcn, IpFragment, IpSrc, IpTtl, Ipv6Dst, Ipv6Label, Ipv6Src, Metadata,
    MplsBottom, MplsLabel, MplsTc, MplsTtl, NdSll, NdTarget, NdTll, PacketMark, Register, SctpDst,
    SctpSrc, SetOutput, TcpDst, TcpFlags, TcpSrc, UdpDst, UdpSrc, VlanTci,
};

/// Fields of every packet.
const COMMON: &[Field] = &[
    InPort,
    Metadata,
    Register(0),
    Register(1),
    Register(2),
    Register(3),
    VlanTci,
    EthSrc,
    EthDst,
    PacketMark,
    SetOutput,
];

const KINDS: &[Kind] = &[
    kind(25, None, None, &[]),
    kind(
        15,
        IPV4,
        None,
        &[IpSrc, IpDst, IpDscp, IpTtl, IpFragment, IpEcn],
    ),
    kind(
        15,
        IPV4,
        Some(6),
        &[IpSrc, IpDst, IpDscp, IpFragment, TcpSrc, TcpDst, TcpFlags],
    ),
    kind(
        15,
        IPV4,
        Some(17),
        &[IpSrc, IpDst, IpTtl, IpFragment, UdpSrc, UdpDst],
    ),
    kind(4, IPV4, Some(1), &[IpSrc, IpDst, IcmpType, IcmpCode]),
    kind(2, IPV4, Some(0), &[IpSrc, IpDst]),
    kind(
        5,
        IPV6,
        None,
        &[
            Ipv6Src, Ipv6Dst, IpDscp, IpTtl, IpFragment, IpEcn, Ipv6Label,
        ],
    ),
    kind(
        4,
        IPV6,
        Some(6),
        &[Ipv6Src, Ipv6Dst, IpFragment, TcpSrc, TcpDst, TcpFlags],
    ),
    kind(
        4,
        IPV6,
        Some(17),
        &[Ipv6Src, Ipv6Dst, IpFragment, UdpSrc, UdpDst],
    ),
    kind(
        2,
        IPV6,
        Some(58),
        &[Ipv6Src, Ipv6Dst, Icmpv6Type, Icmpv6Code],
    ),
    Kind {
        message: Some(135),
        ..kind(2, IPV6, Some(58), &[Ipv6Src, NdTarget, NdSll])
    },
    Kind {
        message: Some(136),
        ..kind(2, IPV6, Some(58), &[Ipv6Src, NdTarget, NdTll])
    },
    kind(
        6,
        Some(0x0806),
        None,
        &[ArpOp, ArpSpa, ArpTpa, ArpSha, ArpTha],
    ),
    kind(
        2,
        Some(0x8847),
        None,
        &[MplsLabel, MplsTc, MplsBottom, MplsTtl],
    ),
    kind(1, Some(0x88b5), None, &[]),
];

/// Kinds that only broad pipelines have, so that other pipelines stay the same.
const BROAD_KINDS: &[Kind] = &[
    kind(6, IPV4, Some(132), &[IpSrc, IpFragment, SctpSrc, SctpDst]),
    kind(3, IPV6, Some(132), &[Ipv6Src, Ipv6Label, SctpSrc, SctpDst]),
    kind(
        3,
        Some(0x8035),
        None,
        &[ArpOp, ArpSpa, ArpTpa, ArpSha, ArpTha],
    ),
    kind(
        6,
        Some(0x8847),
        None,
        &[MplsLabel, MplsTc, MplsBottom, MplsTtl],
    ),
    kind(1, Some(0x8848), None, &[MplsLabel, MplsBottom]),
];

/// A random match over `fields`.
pub(super) fn draw_match(random: &mut Random, config: &RandomConfig) -> Match {
    let (fields, ports) = (&config.fields, config.ports);
    let allows = |field: &Field| fields.contains(field);
    // A kind without any allowed field of its own would only restrict the type.
    let broad = if config.is_broad { BROAD_KINDS } else { &[] };
    let kinds: Vec<&Kind> = KINDS.iter().chain(broad).collect();
    let weights = kinds.iter().map(|kind| {
        let is_useful = kind.fields.is_empty() || kind.fields.iter().any(allows);
        // Only packets of IP have connections.
        let is_rarer = config.tracks && !matches!(kind.eth_type, IPV4 | IPV6);
        match (is_useful, is_rarer) {
            (false, _) => 0,
            (true, false) => kind.weight,
            (true, true) => kind.weight.div_ceil(4),
        }
    });
    let kind = kinds[weighted_index(random, weights)];
    let mut matches = Match::any();
    if let Some(eth_type) = kind.eth_type {
        matches = matches.with(Field::EthType, eth_type);
    }
    if let Some(protocol) = kind.protocol {
        matches = matches.with(Field::IpProtocol, protocol);
    }
    if let Some(message) = kind.message {
        matches = matches.with(Icmpv6Type, message).with(Icmpv6Code, 0_u8);
    }
    for field in COMMON.iter().filter(|field| allows(field)) {
        if random.random_ratio(1, 8) {
            matches = add_term(random, matches, *field, ports);
        }
    }
    for field in kind.fields.iter().filter(|field| allows(field)) {
        let is_absent = is_later_fragment(&matches) && is_transport(*field);
        if !is_absent && random.random_ratio(1, 3) {
            matches = add_term(random, matches, *field, ports);
        }
    }
    if config.tracks {
        matches = add_tracked(random, matches, ports);
    }
    matches
}

/// Whether the match is for fragments without a transport header.
pub(super) fn is_later_fragment(matches: &Match) -> bool {
    matches
        .term(IpFragment)
        .is_some_and(|term| term.value & 2 != 0)
}

const fn is_transport(field: Field) -> bool {
    matches!(
        field,
        TcpSrc | TcpDst | TcpFlags | UdpSrc | UdpDst | SctpSrc | SctpDst
    )
}

fn add_term(random: &mut Random, matches: Match, field: Field, ports: u32) -> Match {
    match field {
        IpFragment => {
            let (value, mask) = *pick(random, &[(0_u8, 3), (1, 1), (1, 3), (3, 3), (0, 2)]);
            matches.with_masked(field, value, mask)
        }
        VlanTci => match random.random_range(0..4_u8) {
            0 => matches.with_masked(field, 0_u8, 0x1000),
            1 => matches.with_masked(field, 0x1000_u16, 0x1000),
            _ => {
                // Without the presence bit a mask would include absent tags.
                let mask = whole_priority(draw_mask(random, field) | 0x1000);
                matches.with_masked(field, draw_value(random, field, ports), mask)
            }
        },
        _ => {
            let mask = draw_mask(random, field);
            matches.with_masked(field, draw_value(random, field, ports), mask)
        }
    }
}

/// Flags of `ct_state` that rules want (value, mask).
const STATES: [(u8, u8); 14] = [
    (0x20, 0x20), // tracked
    (0x00, 0x20),
    (0x21, 0x21), // new
    (0x20, 0x21),
    (0x22, 0x22), // established
    (0x22, 0x23),
    (0x2a, 0x2a), // reply
    (0x20, 0x28),
    (0x24, 0x24), // related
    (0x20, 0x24),
    (0x30, 0x30), // invalid
    (0x20, 0x30),
    (0x60, 0x60), // source translated
    (0xa0, 0xa0), // destination translated
];

/// Adds conditions on what the tracker said to some matches.
fn add_tracked(random: &mut Random, mut matches: Match, ports: u32) -> Match {
    if random.random_ratio(1, 3) {
        let (value, mask) = *pick(random, &STATES);
        matches = matches.with_masked(Field::CtState, value, mask.into());
    }
    let own: &[Field] = match matches.exact(Field::EthType) {
        Some(0x0800) => &[Field::CtIpSrc, Field::CtIpDst],
        Some(0x86dd) => &[Field::CtIpv6Src, Field::CtIpv6Dst],
        _ => &[],
    };
    let of_ip: &[Field] = match own.is_empty() {
        true => &[],
        false => &[Field::CtIpProtocol, Field::CtPortSrc, Field::CtPortDst],
    };
    for field in [Field::CtZone, CtMark, CtLabel]
        .iter()
        .chain(own)
        .chain(of_ip)
    {
        if random.random_ratio(1, 12) {
            let (value, mask) = (draw_value(random, *field, ports), draw_mask(random, *field));
            matches = matches.with_masked(*field, value, mask);
        }
    }
    matches
}

/// The mask of a tag with all bits of its priority or none, as in OpenFlow 1.1 and later.
const fn whole_priority(mask: u128) -> u128 {
    if mask & 0xe000 == 0xe000 {
        mask
    } else {
        mask & !0xe000
    }
}

/// All bits, a prefix, or any bits, where the field allows it.
pub(super) fn draw_mask(random: &mut Random, field: Field) -> u128 {
    let is_maskable = matches!(
        field,
        Metadata
            | PacketMark
            | Register(_)
            | EthSrc
            | EthDst
            | IpSrc
            | IpDst
            | Ipv6Src
            | Ipv6Dst
            | VlanTci
            | TcpSrc
            | TcpDst
            | TcpFlags
            | UdpSrc
            | UdpDst
            | NdTarget
            | NdSll
            | NdTll
            | ArpSpa
            | ArpTpa
            | ArpSha
            | ArpTha
            | SctpSrc
            | SctpDst
            | Ipv6Label
            | CtMark
            | CtLabel
            | CtIpSrc
            | CtIpDst
            | CtIpv6Src
            | CtIpv6Dst
            | CtPortSrc
            | CtPortDst
    );
    let width = field.width_bits();
    match random.random_range(0..10_u8) {
        _ if !is_maskable => field.full_mask(),
        0..5 => field.full_mask(),
        5..8 => prefix_mask(random.random_range(1..=width), width),
        // Four leading ones: `ovs-ofctl` reads an IPv6 mask that starts with a digit as a
        // length.
        _ if width == 128 => random.random::<u128>() | prefix_mask(4, width),
        _ => random.random::<u128>() & field.full_mask(),
    }
}
