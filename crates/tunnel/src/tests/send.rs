//! Tests sending by tunnel ports: Open vSwitch's facts, and soundness of the fields read.

use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;
use thalweg_packet::wire::GeneveOption;

use super::port::known_ports;
use crate::{
    Endpoints, ErspanValues, GroupPolicy, GtpuValues, InnerIp, Outgoing, SendRefusal, TunnelFlags,
    TunnelMetadata, TunnelOptions, TunnelPort, TunnelReads, TunnelType,
};

fn port(tunnel_type: TunnelType, options: &[(&str, &str)]) -> TunnelPort {
    let options = options.iter().copied();
    let parsed = TunnelPort::parse("t0", tunnel_type, options);
    parsed.expect("options of a port").port
}

fn sent(port: &TunnelPort, current: &TunnelMetadata, inner: Option<InnerIp>) -> TunnelMetadata {
    let (outgoing, _) = port.outgoing(current, inner, None);
    outgoing.expect("the packet is sent").metadata
}

const DF: TunnelFlags = TunnelFlags::DONT_FRAGMENT;
const KEY: TunnelFlags = TunnelFlags::KEY;

/// Open vSwitch's test "tunnel - ToS and TTL inheritance".
#[test]
fn service_and_time_to_live_are_inherited() {
    let options = [
        ("remote_ip", "1.1.1.1"),
        ("tos", "inherit"),
        ("ttl", "inherit"),
    ];
    let port = port(TunnelType::Gre, &options);
    let current = TunnelMetadata::default();
    let expected = |tos, ttl| TunnelMetadata {
        endpoints: Endpoints::V4 {
            source: Ipv4Addr::UNSPECIFIED,
            destination: Ipv4Addr::new(1, 1, 1, 1),
        },
        tos,
        ttl,
        flags: DF,
        ..TunnelMetadata::default()
    };
    for tos in [4, 5] {
        let inner = Some(InnerIp { tos, ttl: 128 });
        assert_eq!(sent(&port, &current, inner), expected(tos, 128));
    }
    assert_eq!(sent(&port, &current, None), expected(0, 64));
}

/// Open vSwitch's tests "tunnel - key" and "tunnel - set_tunnel".
#[test]
fn keys_are_the_ports_or_the_rules() {
    let remote = ("remote_ip", "1.1.1.1");
    let current = TunnelMetadata {
        id: 9,
        flags: TunnelFlags::OAM | TunnelFlags::CHECKSUM,
        ..TunnelMetadata::default()
    };
    for (options, id, flags) in [
        (vec![remote, ("key", "1")], 1, DF | KEY),
        (vec![remote, ("in_key", "2"), ("out_key", "3")], 3, DF | KEY),
        (vec![remote, ("in_key", "2")], 0, DF),
        (vec![remote, ("key", "flow")], 9, DF | KEY),
        (vec![remote, ("df_default", "false")], 0, TunnelFlags::NONE),
        (
            vec![remote, ("csum", "true")],
            0,
            DF | TunnelFlags::CHECKSUM,
        ),
    ] {
        let sent = sent(&port(TunnelType::Gre, &options), &current, None);
        assert_eq!(
            (sent.id, sent.flags),
            (id, flags | TunnelFlags::OAM),
            "{options:?}"
        );
    }
}

#[test]
fn addresses_are_the_ports_or_the_rules() {
    let v4 = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
    let v6: IpAddr = "2001:db8::1".parse().expect("an address");
    let to = |source, destination| TunnelMetadata {
        endpoints: Endpoints::new(source, destination).expect("one family"),
        ..TunnelMetadata::default()
    };
    let none = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let flow = port(TunnelType::Vxlan, &[("remote_ip", "flow")]);
    let both = port(
        TunnelType::Vxlan,
        &[("remote_ip", "flow"), ("local_ip", "flow")],
    );
    let local = port(
        TunnelType::Vxlan,
        &[("remote_ip", "flow"), ("local_ip", "10.0.0.9")],
    );
    let ends = |port: &TunnelPort, current: &TunnelMetadata, received_at| {
        let (outgoing, _) = port.outgoing(current, None, received_at);
        outgoing.map(|outgoing| outgoing.metadata.endpoints)
    };
    let current = to(v4(1), v4(2));
    assert_eq!(ends(&flow, &current, None), Ok(to(none, v4(2)).endpoints));
    assert_eq!(ends(&both, &current, None), Ok(current.endpoints));
    assert_eq!(ends(&local, &current, None), Ok(to(v4(9), v4(2)).endpoints));
    assert_eq!(
        ends(&local, &to(v6, v6), None),
        Err(SendRefusal::MixedFamilies)
    );
    // A packet goes on to the other end only if rules say where that is.
    let received = to(v4(7), v4(2));
    assert_eq!(
        ends(&flow, &received, Some(v4(2))),
        Err(SendRefusal::OwnAddress)
    );
    let unset = TunnelMetadata::default();
    assert_eq!(ends(&flow, &unset, None), Err(SendRefusal::OwnAddress));
    assert_eq!(
        ends(&flow, &unset, Some(v4(2))),
        Err(SendRefusal::NoDestination)
    );
    let fixed = port(TunnelType::Vxlan, &[("remote_ip", "10.0.0.2")]);
    assert_eq!(
        ends(&fixed, &received, Some(v4(2))),
        Err(SendRefusal::OwnAddress)
    );
    assert_eq!(
        ends(&fixed, &received, Some(v4(3))),
        Ok(to(none, v4(2)).endpoints)
    );
    assert_eq!(
        SendRefusal::OwnAddress.to_string(),
        "Not tunneling to our own address"
    );
}

#[test]
fn the_packet_mark_is_the_ports() {
    let options = [("remote_ip", "1.1.1.1"), ("egress_pkt_mark", "1234")];
    let (outgoing, _) =
        port(TunnelType::Vxlan, &options).outgoing(&TunnelMetadata::default(), None, None);
    assert_eq!(
        outgoing.map(|outgoing| outgoing.packet_mark),
        Ok(Some(1234))
    );
}

fn options(value: u8) -> TunnelOptions {
    let mut options = TunnelOptions::default();
    let option = GeneveOption {
        class: 1,
        kind: 2,
        data: &[0, 0, 0, value],
    };
    options.push(&option).expect("room for an option");
    options
}

fn metadata() -> impl Strategy<Value = TunnelMetadata> {
    let small = || 0..3_u8;
    let erspan = (small(), small(), small(), small());
    (small(), small(), small(), erspan, any::<[u8; 8]>()).prop_map(
        |(id, source, destination, (version, index, direction, hardware_id), rest)| {
            TunnelMetadata {
                id: id.into(),
                endpoints: Endpoints::V4 {
                    source: Ipv4Addr::new(0, 0, 0, source),
                    destination: Ipv4Addr::new(0, 0, 0, destination),
                },
                tos: rest[0],
                ttl: rest[1],
                source_port: rest[2].into(),
                destination_port: rest[3].into(),
                flags: TunnelFlags(rest[4] & 0xf),
                group_policy: GroupPolicy {
                    id: rest[5].into(),
                    flags: 0x48 & rest[6],
                },
                erspan: ErspanValues {
                    version,
                    index: index.into(),
                    direction,
                    hardware_id,
                },
                gtpu: GtpuValues {
                    flags: rest[7],
                    message: rest[6],
                },
                options: options(rest[5]),
            }
        },
    )
}

/// `first` where the fields were read, and else `second`.
fn mixed(reads: TunnelReads, first: &TunnelMetadata, second: &TunnelMetadata) -> TunnelMetadata {
    let of = |read| if reads.has(read) { first } else { second };
    let oam = of(TunnelReads::OAM).flags.0 & TunnelFlags::OAM.0;
    let flags = of(TunnelReads::FLAGS).flags.0 & !TunnelFlags::OAM.0;
    TunnelMetadata {
        id: of(TunnelReads::ID).id,
        endpoints: Endpoints::new(
            of(TunnelReads::SOURCE).endpoints.source(),
            of(TunnelReads::DESTINATION).endpoints.destination(),
        )
        .expect("addresses of one family"),
        tos: of(TunnelReads::TOS).tos,
        flags: TunnelFlags(oam | flags),
        group_policy: of(TunnelReads::GROUP_POLICY).group_policy,
        erspan: ErspanValues {
            version: of(TunnelReads::ERSPAN_VERSION).erspan.version,
            index: of(TunnelReads::ERSPAN_INDEX).erspan.index,
            direction: of(TunnelReads::ERSPAN_DIRECTION).erspan.direction,
            hardware_id: of(TunnelReads::ERSPAN_HARDWARE_ID).erspan.hardware_id,
        },
        gtpu: of(TunnelReads::GTPU).gtpu,
        options: of(TunnelReads::OPTIONS).options.clone(),
        ..second.clone()
    }
}

proptest! {
    /// Fields that were not read do not change the answer: for the ports that Open vSwitch was
    /// given, all packets, and all changes of those fields.
    #[test]
    fn what_is_not_read_does_not_matter(
        choice in any::<prop::sample::Index>(),
        first in metadata(),
        second in metadata(),
        is_received in any::<bool>(),
        inners in prop::option::of(any::<[u8; 4]>()),
    ) {
        let known = known_ports();
        let parsed = known[choice.index(known.len())].parse();
        prop_assume!(parsed.is_ok());
        let port = parsed.expect("a port was chosen").port;
        let received_at = |metadata: &TunnelMetadata| {
            is_received.then_some(metadata.endpoints.destination())
        };
        let inner = inners.map(|[tos, ttl, ..]| InnerIp { tos, ttl });
        let (answer, reads) = port.outgoing(&first, inner, received_at(&first));
        let changed = mixed(reads, &first, &second);
        let changed_inner = inners.map(|[tos, ttl, other_tos, other_ttl]| {
            let of = |read, bits| if reads.has(read) { tos & bits } else { other_tos & bits };
            InnerIp {
                tos: of(TunnelReads::INNER_DSCP, 0xfc) | of(TunnelReads::INNER_ECN, 3),
                ttl: if reads.has(TunnelReads::INNER_TTL) { ttl } else { other_ttl },
            }
        });
        let again = port.outgoing(&changed, changed_inner, received_at(&changed));
        prop_assert_eq!(again, (answer.clone(), reads));
        if let Ok(Outgoing { metadata, .. }) = answer {
            prop_assert_eq!(metadata.destination_port, port.destination_port);
            prop_assert_eq!(metadata.tos & 0xfc, port.tos.tos(inner) & 0xfc);
            prop_assert!(!metadata.endpoints.destination().is_unspecified());
        }
    }
}

/// `tnl_wc_init` of Open vSwitch.
#[test]
fn a_received_packet_reads_its_congestion_mark_only_if_the_outer_one_met_congestion() {
    let inner = Some(InnerIp { tos: 0, ttl: 1 });
    let outer = |tos| TunnelMetadata {
        tos,
        ..TunnelMetadata::default()
    };
    for (tos, inner, expected) in [(0x43, inner, true), (0x42, inner, false), (3, None, false)] {
        let reads = TunnelReads::of_received(&outer(tos), inner);
        assert_eq!(reads.has(TunnelReads::INNER_ECN), expected);
        assert!(reads.has(TunnelReads::ID | TunnelReads::SOURCE | TunnelReads::TOS));
        assert!(!reads.has(TunnelReads::OPTIONS));
    }
}
