//! One packet for each cause of a refusal.

use std::collections::BTreeSet;

use thalweg_packet::checksum::checksum;

use super::bytes_of;
use crate::{
    DecapsulateError, EncapsulateError, ErspanValues, HeaderSettings, InnerType, OuterHeader,
    TunnelContent, TunnelKind, TunnelMetadata, TunnelOptions, VxlanFlavour, decapsulate_frame,
    decapsulate_payload,
};

const VXLAN: TunnelKind = TunnelKind::Vxlan(VxlanFlavour::Plain);
const ETHERNET: &str = "aa55aa550000001b213cab640800";
/// An IPv4 header with a wrong checksum, for 16 bytes of UDP.
const IP: &str = "45000024000000004011000001010101 02020202";
const UDP: &str = "c000 12b5 0010 0000";
const HEADER: &str = "08000000 00007b00";

/// A VXLAN packet with `change` made to it, and then a right IPv4 checksum.
fn changed(change: impl Fn(&mut Vec<u8>)) -> Result<(), DecapsulateError> {
    let mut frame = bytes_of(&[ETHERNET, IP, UDP, HEADER].concat());
    change(&mut frame);
    if let Some(header) = frame.get_mut(14..34) {
        header[10..12].fill(0);
        let sum = checksum(header).to_be_bytes();
        header[10..12].copy_from_slice(&sum);
    }
    decapsulate_frame(VXLAN, &frame).map(|_| ())
}

fn payload(kind: TunnelKind, hex: &str) -> Result<(), DecapsulateError> {
    decapsulate_payload(kind, &bytes_of(hex), TunnelMetadata::default()).map(|_| ())
}

/// A cause, and what a packet that it refuses gives.
type Refusal = (DecapsulateError, Result<(), DecapsulateError>);

/// Faults below the tunnel's header.
fn outer_refusals() -> Vec<Refusal> {
    use DecapsulateError::*;
    let mut wrong_checksum = bytes_of(&[ETHERNET, IP, UDP, HEADER].concat());
    wrong_checksum[24] = 1;
    let ipv6 = |next: &str| {
        let ethernet = ETHERNET.replace("0800", "86dd");
        let addresses = "00".repeat(32);
        let frame = format!("{ethernet}600000000008{next}40{addresses}2fff000000000000");
        decapsulate_frame(VXLAN, &bytes_of(&frame)).map(|_| ())
    };
    let vlan = |frame: &mut Vec<u8>| frame[12..14].copy_from_slice(&[0x81, 0]);
    vec![
        (Truncated, changed(|frame| frame.truncate(13))),
        (Truncated, changed(|frame| frame.truncate(14))),
        (Truncated, changed(|frame| frame.truncate(49))),
        (NotIp, changed(vlan)),
        (IpHeader, changed(|frame| frame[14] = 0x65)),
        (IpHeader, changed(|frame| frame[14] = 0x44)),
        (
            Ipv4Checksum,
            decapsulate_frame(VXLAN, &wrong_checksum).map(|_| ()),
        ),
        (Ipv4Options, changed(|frame| frame[14] = 0x46)),
        (Ipv6Extensions, ipv6("00")),
        (Fragment, ipv6("2c")),
        (Fragment, changed(|frame| frame[20] = 0x20)),
        (Fragment, changed(|frame| frame[21] = 1)),
        (Protocol, changed(|frame| frame[23] = 47)),
        (Protocol, ipv6("3b")),
        (UdpLength, changed(|frame| frame[39] = 7)),
        (UdpLength, changed(|frame| frame[39] = 17)),
        (UdpChecksum, changed(|frame| frame[40] = 1)),
    ]
}

/// Faults in the tunnel's header.
fn tunnel_refusals() -> Vec<Refusal> {
    use DecapsulateError::*;
    let gre = |hex| payload(TunnelKind::Gre, hex);
    let erspan = |hex| payload(TunnelKind::Erspan, hex);
    let geneve = |hex| payload(TunnelKind::Geneve, hex);
    let gtpu = |hex| payload(TunnelKind::Gtpu, hex);
    let vxlan = |hex| payload(VXLAN, hex);
    vec![
        (Truncated, vxlan("08000000 00007b")),
        (VxlanFlags, vxlan("00000000 00007b00")),
        (VxlanFlags, vxlan("88000007 00007b00")),
        (VxlanFlags, vxlan("08000100 00007b00")),
        (VxlanReserved, vxlan("08000000 00007b01")),
        (VxlanControl, vxlan("0d000003 00007b00")),
        (VxlanProtocol, vxlan("0c000000 00007b00")),
        (Truncated, geneve("01006558 00000700 ffff00")),
        (GeneveVersion, geneve("40006558 00000700")),
        (GeneveOptions, geneve("01006558 00000700 ffff0001")),
        (GeneveProtocol, geneve("00000800 00000700")),
        (Truncated, gre("20000800 0000")),
        (GreVersion, gre("00010800")),
        (GreFlags, gre("40000800")),
        (GreFlags, gre("00080800")),
        (GreChecksum, gre("80000800 00000000")),
        (GreProtocol, gre("000005ff")),
        (Truncated, erspan("100088be 00000001 1000007b 000000")),
        (
            Truncated,
            erspan("100022eb 00000001 20000237 00000000000000"),
        ),
        (GreFlags, erspan("000088be 1000007b 00000003 00000000")),
        (
            GreFlags,
            erspan("300088be 00000000 00000001 1000007b 00000003"),
        ),
        (
            ErspanProtocol,
            erspan("10006558 00000001 1000007b 00000003"),
        ),
        (ErspanVersion, erspan("100088be 00000001 0000007b 00000003")),
        (Truncated, gtpu("32ff0000 00000001 0000")),
        (GtpuLength, gtpu("30ff0002 00000001 45")),
        (GtpuPayload, gtpu("30ff0001 00000001 55")),
    ]
}

#[test]
fn every_cause_refuses_a_packet() {
    assert_eq!(changed(|_| ()), Ok(()));
    let refusals = [outer_refusals(), tunnel_refusals()].concat();
    for (index, (cause, told)) in refusals.iter().enumerate() {
        assert_eq!(*told, Err(*cause), "refusal {index}");
    }
    let seen: BTreeSet<&str> = refusals.iter().map(|(cause, _)| cause.name()).collect();
    let all: BTreeSet<&str> = DecapsulateError::ALL
        .iter()
        .map(|cause| cause.name())
        .collect();
    assert_eq!(seen, all);
    assert_eq!(
        all.len(),
        DecapsulateError::ALL.len(),
        "no two causes have one name"
    );
}

#[test]
fn messages_of_gtpu_are_left_alone() {
    let told = decapsulate_payload(
        TunnelKind::Gtpu,
        &bytes_of("32010004 00000007 00010000"),
        TunnelMetadata::default(),
    )
    .expect("an echo request");
    assert_eq!(told.content, TunnelContent::Message);
    assert_eq!((told.metadata.id, told.metadata.gtpu.message), (7, 1));
}

#[test]
fn what_a_tunnel_cannot_carry_is_refused() {
    use thalweg_packet::wire::EtherType;
    let (frame, bare) = (InnerType::Ethernet, InnerType::Bare(EtherType::MPLS));
    let plain = TunnelMetadata::default();
    let session = TunnelMetadata {
        id: 1024,
        ..TunnelMetadata::default()
    };
    let generic = TunnelKind::Vxlan(VxlanFlavour::GenericProtocol);
    let cases = [
        (VXLAN, &plain, bare, EncapsulateError::NeedsEthernet),
        (
            TunnelKind::Geneve,
            &plain,
            bare,
            EncapsulateError::NeedsEthernet,
        ),
        (
            TunnelKind::Erspan,
            &plain,
            bare,
            EncapsulateError::NeedsEthernet,
        ),
        (
            TunnelKind::Gtpu,
            &plain,
            frame,
            EncapsulateError::NeedsBarePacket,
        ),
        (
            generic,
            &plain,
            bare,
            EncapsulateError::NoVxlanProtocol(EtherType::MPLS),
        ),
        (
            TunnelKind::Erspan,
            &session,
            frame,
            EncapsulateError::ErspanSession(1024),
        ),
        (
            TunnelKind::Erspan,
            &plain,
            frame,
            EncapsulateError::ErspanVersion(0),
        ),
    ];
    for (kind, metadata, inner, error) in cases {
        let settings = HeaderSettings::default();
        let told = OuterHeader::for_payload(kind, metadata, inner, settings);
        assert_eq!(told.map(|_| ()), Err(error));
    }
}

#[test]
fn fields_that_are_too_wide_are_cut_to_their_bits() {
    let metadata = TunnelMetadata {
        id: 1,
        erspan: ErspanValues {
            version: 2,
            index: 0,
            direction: 0xff,
            hardware_id: 0xff,
        },
        ..TunnelMetadata::default()
    };
    let settings = HeaderSettings::default();
    let header =
        OuterHeader::for_payload(TunnelKind::Erspan, &metadata, InnerType::Ethernet, settings)
            .expect("a session that fits");
    assert_eq!(header.bytes()[18..], [0x03, 0xf8]);
}

#[test]
fn options_have_room_for_252_bytes() {
    assert!(TunnelOptions::parse(&[0; 252]).is_ok());
    assert_eq!(
        TunnelOptions::parse(&[0; 256]),
        Err(DecapsulateError::GeneveOptions)
    );
    assert_eq!(
        TunnelOptions::parse(&[0; 3]),
        Err(DecapsulateError::GeneveOptions)
    );
    let long = thalweg_packet::wire::GeneveOption {
        class: 1,
        kind: 2,
        data: &[3; 124],
    };
    let mut options = TunnelOptions::default();
    assert!(!options.has_critical());
    assert_eq!(options.push(&long), Ok(()));
    assert_eq!(options.len(), 128);
    let before = options.clone();
    assert_eq!(options.push(&long), Err(EncapsulateError::OptionsTooLong));
    assert_eq!(options, before);
    let rest = thalweg_packet::wire::GeneveOption {
        class: 1,
        kind: 0x82,
        data: &[3; 120],
    };
    assert_eq!(options.push(&rest), Ok(()));
    assert!(options.has_critical());
    assert_eq!(options.iter().count(), 2);
}
