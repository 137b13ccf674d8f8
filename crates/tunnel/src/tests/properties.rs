//! The crate against its slow twin, and against itself, on random packets.

use proptest::prelude::*;

use super::generate::{Case, cases, headers, kinds, mutate, mutations};
use super::pushed;
use crate::{
    DecapsulateError, Decapsulated, Endpoints, HeaderSettings, InnerType, OuterHeader,
    TunnelContent, TunnelFlags, TunnelKind, TunnelMetadata, VxlanFlavour, decapsulate_frame,
    decapsulate_ip, decapsulate_payload, reference,
};

fn frame_of(case: &Case) -> Option<Vec<u8>> {
    let Case {
        kind,
        metadata,
        link,
        inner_type,
        settings,
        ..
    } = case;
    let header = OuterHeader::for_frame(*kind, metadata, *link, *inner_type, *settings).ok()?;
    pushed(&header, &case.inner, case.variable).ok()
}

fn payload_of(case: &Case) -> Option<Vec<u8>> {
    let header =
        OuterHeader::for_payload(case.kind, &case.metadata, case.inner_type, case.settings).ok()?;
    pushed(&header, &case.inner, case.variable).ok()
}

fn written_by_twin(case: &Case) -> Option<Vec<u8>> {
    reference::write_frame(
        case.kind,
        &case.metadata,
        case.link,
        case.inner_type,
        case.settings,
        case.variable,
        &case.inner,
    )
}

/// What a receiver knows of a packet that was sent with this case.
fn received(case: &Case, has_udp_checksum: bool) -> TunnelMetadata {
    let sent = &case.metadata;
    let mut told = TunnelMetadata {
        endpoints: sent.endpoints,
        tos: sent.tos,
        ttl: sent.ttl,
        ..TunnelMetadata::default()
    };
    let mut flags = TunnelFlags::NONE;
    if case.kind.default_port().is_some() {
        told.source_port = case.variable.source_port;
        told.destination_port = sent.destination_port;
        if has_udp_checksum {
            flags |= TunnelFlags::CHECKSUM;
        }
    }
    match case.kind {
        TunnelKind::Vxlan(flavour) => {
            told.id = sent.id & 0xff_ffff;
            flags |= TunnelFlags::KEY;
            if flavour == VxlanFlavour::GroupPolicy {
                told.group_policy = sent.group_policy;
                told.group_policy.flags &= 0x48;
            }
        }
        TunnelKind::Geneve => {
            told.id = sent.id & 0xff_ffff;
            flags.0 |= TunnelFlags::KEY.0 | sent.flags.0 & TunnelFlags::OAM.0;
            told.options = sent.options.clone();
        }
        TunnelKind::Gre => {
            flags.0 |= sent.flags.0 & (TunnelFlags::CHECKSUM | TunnelFlags::KEY).0;
            if sent.flags.has(TunnelFlags::KEY) {
                told.id = sent.id & 0xffff_ffff;
            }
        }
        TunnelKind::Erspan => {
            told.id = sent.id & 0xffff_ffff;
            flags |= TunnelFlags::KEY;
            told.erspan = sent.erspan;
            match sent.erspan.version {
                1 => (told.erspan.direction, told.erspan.hardware_id) = (0, 0),
                _ => told.erspan.index = 0,
            }
        }
        TunnelKind::Gtpu => {
            told.id = sent.id & 0xffff_ffff;
            told.gtpu.flags = match sent.gtpu.flags {
                0 => 0x30,
                other => other,
            };
            if case.settings.has_sequence {
                told.gtpu.flags |= 2;
            }
            told.gtpu.message = match sent.gtpu.message {
                0 => 255,
                other => other,
            };
        }
    }
    told.flags = flags;
    told
}

/// Whether the receiver of a case refuses it although the sender does not.
fn is_refused(case: &Case) -> bool {
    let is_message = ![0, 255].contains(&case.metadata.gtpu.message);
    let is_packet = matches!(case.inner[0] >> 4, 4 | 6);
    case.kind == TunnelKind::Gtpu && !is_message && !is_packet
}

fn inner_of<'a>(told: &Decapsulated, outer: &'a [u8]) -> Option<(&'a [u8], InnerType)> {
    match &told.content {
        TunnelContent::Packet { range, inner } => Some((&outer[range.clone()], *inner)),
        TunnelContent::Message => None,
    }
}

/// The inner type as the receiver sees it: GTP-U looks at the packet.
fn seen_type(case: &Case) -> InnerType {
    use thalweg_packet::wire::EtherType;
    match (case.kind, case.inner_type) {
        (TunnelKind::Gtpu, _) if case.inner[0] >> 4 == 4 => InnerType::Bare(EtherType::IPV4),
        (TunnelKind::Gtpu, _) => InnerType::Bare(EtherType::IPV6),
        (_, other) => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8192))]

    #[test]
    fn frames_are_written_as_by_the_twin(case in cases()) {
        prop_assert_eq!(frame_of(&case), written_by_twin(&case));
        let payload = reference::write_payload(
            case.kind,
            &case.metadata,
            case.inner_type,
            case.settings,
            case.variable,
            &case.inner,
        );
        prop_assert_eq!(payload_of(&case), payload);
    }

    #[test]
    fn what_goes_in_comes_out(case in cases()) {
        let Some(frame) = frame_of(&case) else {
            return Ok(());
        };
        let told = decapsulate_frame(case.kind, &frame);
        if is_refused(&case) {
            prop_assert_eq!(told, Err(DecapsulateError::GtpuPayload));
            return Ok(());
        }
        let told = told.expect("a packet of our own");
        let is_asked = case.metadata.flags.has(TunnelFlags::CHECKSUM);
        let is_ipv6 = case.metadata.endpoints.is_ipv6();
        let has_udp_checksum = is_asked
            || is_ipv6 && !case.settings.may_omit_ipv6_checksum
            || case.kind == TunnelKind::Gtpu;
        prop_assert_eq!(&told.metadata, &received(&case, has_udp_checksum));
        let dont_fragment = case.metadata.flags.has(TunnelFlags::DONT_FRAGMENT);
        prop_assert_eq!(told.has_dont_fragment, dont_fragment && !is_ipv6);
        match inner_of(&told, &frame) {
            Some(inner) => prop_assert_eq!(inner, (&case.inner[..], seen_type(&case))),
            None => prop_assert!(![0, 255].contains(&case.metadata.gtpu.message)),
        }

        // The same from the IP header on, and from the tunnel's header on.
        let ip = decapsulate_ip(case.kind, &frame[14..]).expect("a packet of our own");
        prop_assert_eq!(inner_of(&ip, &frame[14..]), inner_of(&told, &frame));
        prop_assert_eq!(&ip.metadata, &told.metadata);
        let payload = payload_of(&case).expect("a payload as well as a frame");
        prop_assert!(frame.ends_with(&payload));
        let known = TunnelMetadata {
            endpoints: case.metadata.endpoints,
            tos: case.metadata.tos,
            ttl: case.metadata.ttl,
            source_port: told.metadata.source_port,
            destination_port: told.metadata.destination_port,
            flags: match case.kind.default_port() {
                Some(_) if has_udp_checksum => TunnelFlags::CHECKSUM,
                _ => TunnelFlags::NONE,
            },
            ..TunnelMetadata::default()
        };
        let from_payload = decapsulate_payload(case.kind, &payload, known).expect("a payload");
        prop_assert_eq!(&from_payload.metadata, &told.metadata);
        prop_assert_eq!(inner_of(&from_payload, &payload), inner_of(&told, &frame));
    }

    #[test]
    fn changed_frames_are_read_as_by_the_twin(case in cases(), changes in mutations()) {
        let Some(mut frame) = frame_of(&case) else {
            return Ok(());
        };
        let tunnel = frame.len() - payload_of(&case).expect("a payload as well").len();
        mutate(&mut frame, tunnel, &changes);
        let told = decapsulate_frame(case.kind, &frame).ok();
        prop_assert_eq!(&told, &reference::read_frame(case.kind, &frame));
        if let Some(told) = told {
            prop_assert!(goes_in_again(&case, &told, &frame)?);
        }
    }

    #[test]
    fn any_bytes_are_read_as_by_the_twin(kind in kinds(), bytes in headers()) {
        let metadata = TunnelMetadata::default();
        let told = decapsulate_payload(kind, &bytes, metadata.clone());
        prop_assert_eq!(told.ok(), reference::read_payload(kind, &bytes, metadata));
        let told = decapsulate_frame(kind, &bytes);
        prop_assert_eq!(told.ok(), reference::read_frame(kind, &bytes));
    }
}

/// Encapsulates a packet that was read, and reads it again.
fn goes_in_again(case: &Case, told: &Decapsulated, frame: &[u8]) -> Result<bool, TestCaseError> {
    let Some((inner, inner_type)) = inner_of(told, frame) else {
        return Ok(true);
    };
    let mut metadata = told.metadata.clone();
    if told.has_dont_fragment {
        metadata.flags |= TunnelFlags::DONT_FRAGMENT;
    }
    let kind = match (case.kind, inner_type, metadata.group_policy.id) {
        // The P flag alone says that VXLAN is VXLAN-GPE.
        (TunnelKind::Vxlan(_), InnerType::Bare(_), _) => {
            TunnelKind::Vxlan(VxlanFlavour::GenericProtocol)
        }
        (kind, _, _) => kind,
    };
    let settings = HeaderSettings {
        has_sequence: false,
        may_omit_ipv6_checksum: true,
    };
    let header = OuterHeader::for_frame(kind, &metadata, case.link, inner_type, settings)
        .map_err(|error| TestCaseError::fail(error.to_string()))?;
    let mut variable = case.variable;
    variable.source_port = metadata.source_port;
    let again =
        pushed(&header, inner, variable).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let read =
        decapsulate_frame(kind, &again).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(inner_of(&read, &again), Some((inner, inner_type)));
    prop_assert_eq!(read.has_dont_fragment, told.has_dont_fragment);
    let mut expected = told.metadata.clone();
    if kind == TunnelKind::Gtpu {
        expected.flags |= TunnelFlags::CHECKSUM;
        prop_assume!(expected.gtpu.flags != 0);
    }
    Ok(read.metadata == expected)
}

#[test]
fn a_packet_that_is_too_long_is_left_alone() {
    let metadata = TunnelMetadata::default();
    let kind = TunnelKind::Vxlan(VxlanFlavour::Plain);
    let (inner, settings) = (InnerType::Ethernet, HeaderSettings::default());
    let mut packet = thalweg_packet::Packet::from_bytes(&vec![7; 65_600]);
    let link = crate::LinkAddresses {
        source: thalweg_packet::wire::MacAddress([2; 6]),
        destination: thalweg_packet::wire::MacAddress([4; 6]),
    };
    for endpoints in [
        Endpoints::default(),
        Endpoints::V6 {
            source: std::net::Ipv6Addr::LOCALHOST,
            destination: std::net::Ipv6Addr::LOCALHOST,
        },
    ] {
        let metadata = TunnelMetadata {
            endpoints,
            ..metadata.clone()
        };
        let header = OuterHeader::for_frame(kind, &metadata, link, inner, settings)
            .expect("VXLAN carries frames");
        let before = packet.clone();
        let told = header.push(&mut packet, crate::PerPacket::default());
        assert_eq!(told, Err(crate::EncapsulateError::TooLong));
        assert_eq!(packet, before);
        // The longest that fits, and one byte more.
        let most = 65_535 - (header.bytes().len() - 14);
        assert!(pushed(&header, &vec![1; most + 1], crate::PerPacket::default()).is_err());
        let longest = pushed(&header, &vec![1; most], crate::PerPacket::default());
        let longest = longest.expect("it fits");
        let told = decapsulate_frame(kind, &longest).expect("a packet of our own");
        assert_eq!(inner_of(&told, &longest), Some((&vec![1; most][..], inner)));
    }
    // Without its own IP and UDP header, a payload leaves room for those.
    let header =
        OuterHeader::for_payload(kind, &metadata, inner, settings).expect("VXLAN carries frames");
    let most = 65_535 - 40 - 8 - 8;
    assert!(pushed(&header, &vec![1; most], crate::PerPacket::default()).is_ok());
    assert!(pushed(&header, &vec![1; most + 1], crate::PerPacket::default()).is_err());
}
