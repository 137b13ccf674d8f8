//! Random tunnels, and random changes to packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use thalweg_packet::wire::{EtherType, GeneveOption, MacAddress};

use crate::{
    Endpoints, ErspanValues, GroupPolicy, GtpuValues, HeaderSettings, InnerType, LinkAddresses,
    PerPacket, TunnelFlags, TunnelKind, TunnelMetadata, TunnelOptions,
};

/// Everything that an outer packet is made of.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) kind: TunnelKind,
    pub(super) metadata: TunnelMetadata,
    pub(super) link: LinkAddresses,
    pub(super) inner_type: InnerType,
    pub(super) settings: HeaderSettings,
    pub(super) variable: PerPacket,
    pub(super) inner: Vec<u8>,
}

const INNER_TYPES: [InnerType; 7] = [
    InnerType::Ethernet,
    InnerType::Ethernet,
    InnerType::Ethernet,
    InnerType::Bare(EtherType::IPV4),
    InnerType::Bare(EtherType::IPV6),
    InnerType::Bare(InnerType::NSH),
    InnerType::Bare(EtherType::MPLS),
];

/// Bytes that often begin as a tunnel's header does.
pub(super) fn headers() -> impl Strategy<Value = Vec<u8>> {
    let beginnings: [&[u8]; 12] = [
        &[],
        &[0x08, 0, 0, 0],
        &[0x88, 0x48, 0, 7],
        &[0x0c, 0, 0, 1],
        &[0x0c, 0, 0, 5],
        &[0, 0, 0x65, 0x58],
        &[2, 0x80, 0x65, 0x58],
        &[0x30, 0, 0x65, 0x58],
        &[0x20, 0, 0x08, 0],
        &[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10],
        &[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20],
        &[0x30, 255, 0, 8],
    ];
    let byte = prop_oneof![any::<u8>(), Just(0), Just(8), Just(0x45)];
    (select(beginnings.to_vec()), vec(byte, 0..40))
        .prop_map(|(beginning, rest)| [beginning, &rest].concat())
}

pub(super) fn kinds() -> impl Strategy<Value = TunnelKind> {
    select(&TunnelKind::ALL[..])
}

fn endpoints() -> impl Strategy<Value = Endpoints> {
    let v4 = any::<([u8; 4], [u8; 4])>().prop_map(|(source, destination)| {
        let (source, destination) = (Ipv4Addr::from(source), Ipv4Addr::from(destination));
        Endpoints::new(IpAddr::V4(source), IpAddr::V4(destination))
    });
    let v6 = any::<([u8; 16], [u8; 16])>().prop_map(|(source, destination)| {
        let (source, destination) = (Ipv6Addr::from(source), Ipv6Addr::from(destination));
        Endpoints::new(IpAddr::V6(source), IpAddr::V6(destination))
    });
    prop_oneof![v4, v6].prop_map(|both| both.expect("one family"))
}

pub(super) fn options() -> impl Strategy<Value = TunnelOptions> {
    let words = vec(any::<[u8; 4]>(), 0..8);
    let option = (0..4u16, prop_oneof![0..4u8, 128..130u8], words);
    vec(option, 0..6).prop_map(|list| {
        let mut options = TunnelOptions::default();
        for (class, kind, words) in list {
            let data = words.concat();
            let data = &data;
            options
                .push(&GeneveOption { class, kind, data })
                .expect("under 252 bytes");
        }
        options
    })
}

/// An id that often fits the tunnel.
fn ids() -> impl Strategy<Value = u64> {
    prop_oneof![0..1024u64, any::<u32>().prop_map(u64::from), any::<u64>()]
}

fn metadata() -> impl Strategy<Value = TunnelMetadata> {
    let numbers = (any::<u8>(), any::<u8>(), any::<u16>(), 0..16u8);
    let group = (any::<u16>(), any::<u8>()).prop_map(|(id, flags)| GroupPolicy { id, flags });
    let group = prop_oneof![Just(GroupPolicy::default()), group];
    let erspan = (0..4u8, any::<u32>(), 0..2u8, 0..64u8);
    let gtpu = (
        select(&[0, 0x30, 0x32, 0x36][..]),
        select(&[0, 1, 254, 255, 255][..]),
    );
    let rest = (group, erspan, gtpu, options());
    (ids(), endpoints(), numbers, rest).prop_map(|(id, endpoints, numbers, rest)| {
        let (tos, ttl, destination_port, flags) = numbers;
        let (group_policy, (version, index, direction, hardware_id), gtpu, options) = rest;
        TunnelMetadata {
            id,
            endpoints,
            tos,
            ttl,
            source_port: 0,
            destination_port,
            flags: TunnelFlags(flags),
            group_policy,
            erspan: ErspanValues {
                version,
                index,
                direction,
                hardware_id,
            },
            gtpu: GtpuValues {
                flags: gtpu.0,
                message: gtpu.1,
            },
            options,
        }
    })
}

pub(super) fn cases() -> impl Strategy<Value = Case> {
    let link = any::<([u8; 6], [u8; 6])>().prop_map(|(source, destination)| LinkAddresses {
        source: MacAddress(source),
        destination: MacAddress(destination),
    });
    let settings = any::<(bool, bool)>().prop_map(|(sequence, omit)| HeaderSettings {
        has_sequence: sequence,
        may_omit_ipv6_checksum: omit,
    });
    let variable = any::<(u16, u32, u32)>().prop_map(|(port, sequence, timestamp)| PerPacket {
        source_port: port,
        sequence,
        timestamp_100us: timestamp,
    });
    let inner = (select(&[0x45, 0x60, 0x00][..]), vec(any::<u8>(), 0..80))
        .prop_map(|(first, rest)| [vec![first], rest].concat());
    let inner_types = select(&INNER_TYPES[..]);
    (
        kinds(),
        metadata(),
        link,
        inner_types,
        settings,
        variable,
        inner,
    )
        .prop_map(
            |(kind, metadata, link, inner_type, settings, variable, inner)| Case {
                kind,
                metadata,
                link,
                inner_type,
                settings,
                variable,
                inner,
            },
        )
}

/// A change to the bytes of a packet.
#[derive(Clone, Debug)]
pub(super) enum Mutation {
    /// A byte among the first ones gets another value.
    Set(Index, u8),
    /// A bit among the first ones flips.
    Flip(Index, u8),
    /// A bit of the tunnel's header flips.
    FlipTunnel(Index, u8),
    /// The packet ends earlier.
    Cut(Index),
    /// Bytes follow.
    Append(Vec<u8>),
    /// The checksum of IPv4 is made right again.
    FixIpv4,
    /// The checksum of UDP is made absent.
    OmitUdp,
}

pub(super) fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    let one = prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, value)| Mutation::Set(at, value)),
        8 => (any::<Index>(), 0..8u8).prop_map(|(at, bit)| Mutation::Flip(at, bit)),
        8 => (any::<Index>(), 0..8u8).prop_map(|(at, bit)| Mutation::FlipTunnel(at, bit)),
        1 => any::<Index>().prop_map(Mutation::Cut),
        2 => vec(any::<u8>(), 1..9).prop_map(Mutation::Append),
        3 => Just(Mutation::FixIpv4),
        3 => Just(Mutation::OmitUdp),
    ];
    vec(one, 0..6).prop_map(|mut list| {
        list.extend([Mutation::OmitUdp, Mutation::FixIpv4]);
        list
    })
}

/// The bytes of most tunnels' headers.
const TUNNEL_BYTES: usize = 16;

/// Makes the changes to a packet whose tunnel's header begins at `tunnel`.
pub(super) fn mutate(bytes: &mut Vec<u8>, tunnel: usize, mutations: &[Mutation]) {
    for mutation in mutations {
        // The headers of a packet without options lie in its first bytes.
        let headers = bytes.len().min(80);
        match mutation {
            Mutation::Set(at, value) if headers > 0 => bytes[at.index(headers)] = *value,
            Mutation::Flip(at, bit) if headers > 0 => bytes[at.index(headers)] ^= 1 << bit,
            Mutation::FlipTunnel(at, bit) if bytes.len() > tunnel => {
                let len = (bytes.len() - tunnel).min(TUNNEL_BYTES);
                bytes[tunnel + at.index(len)] ^= 1 << bit;
            }
            Mutation::Cut(at) if !bytes.is_empty() => bytes.truncate(at.index(bytes.len())),
            Mutation::Append(more) => bytes.extend_from_slice(more),
            Mutation::FixIpv4 if bytes.len() >= 34 && bytes[12..14] == [8, 0] => {
                bytes[24..26].fill(0);
                let sum = thalweg_packet::checksum::checksum(&bytes[14..34]);
                bytes[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            Mutation::OmitUdp if bytes.len() >= 62 => match (bytes[12], bytes[23], bytes[20]) {
                (0x08, 17, _) => bytes[40..42].fill(0),
                (0x86, _, 17) => bytes[60..62].fill(0),
                _ => {}
            },
            _ => {}
        }
    }
}
