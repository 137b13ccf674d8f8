//! Packets of Open vSwitch: what it sent, and what its tests let it receive.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use thalweg_packet::Headers;
use thalweg_packet::standard::header;
use thalweg_packet::wire::{EtherType, GeneveOption, MacAddress};

use super::{bytes_of, pushed};
use crate::{
    DEFAULT_TTL, DecapsulateError, Decapsulated, Endpoints, ErspanValues, GtpuValues,
    HeaderSettings, InnerIp, InnerType, LinkAddresses, OuterField, OuterHeader, PerPacket,
    SourcePorts, TunnelContent, TunnelFlags, TunnelKind, TunnelMetadata, TunnelOptions,
    VxlanFlavour, decapsulate_frame, five_tuple_hash, received_tos,
};

const RECORDED: &str = include_str!("open_vswitch.txt");

const LINK: LinkAddresses = LinkAddresses {
    source: MacAddress([0xaa, 0x55, 0xaa, 0x55, 0, 0]),
    destination: MacAddress([0xf8, 0xbc, 0x12, 0x44, 0x34, 0xb6]),
};
const V4: Endpoints = Endpoints::V4 {
    source: Ipv4Addr::new(1, 1, 2, 88),
    destination: Ipv4Addr::new(1, 1, 2, 92),
};
const V6: Endpoints = Endpoints::V6 {
    source: Ipv6Addr::new(0x2001, 0xcafe, 0, 0, 0, 0, 0, 0x88),
    destination: Ipv6Addr::new(0x2001, 0xcafe, 0, 0, 0, 0, 0, 0x92),
};
const VXLAN: TunnelKind = TunnelKind::Vxlan(VxlanFlavour::Plain);

/// A tunnel's port of the recording.
struct Port {
    kind: TunnelKind,
    metadata: TunnelMetadata,
    tos: OuterField,
    ttl: OuterField,
    has_sequence: bool,
    is_bare: bool,
}

fn option(class: u16, kind: u8, data: &[u8]) -> TunnelOptions {
    with_option(TunnelOptions::default(), class, kind, data)
}

fn with_option(mut options: TunnelOptions, class: u16, kind: u8, data: &[u8]) -> TunnelOptions {
    options
        .push(&GeneveOption { class, kind, data })
        .expect("room for the option");
    options
}

/// The port of this name, and what rules set before they send to it.
fn port(name: &str) -> Port {
    let (kind, destination_port) = match name {
        "vxlangpe" => (TunnelKind::Vxlan(VxlanFlavour::GenericProtocol), 4790),
        "ttltos" => (VXLAN, 4791),
        "tosfixed" => (VXLAN, 4792),
        name if name.starts_with("vxlan") => (VXLAN, 4789),
        name if name.starts_with("geneve") => (TunnelKind::Geneve, 6081),
        name if name.starts_with("gre") => (TunnelKind::Gre, 0),
        name if name.starts_with("erspan") => (TunnelKind::Erspan, 0),
        name if name.starts_with("gtpu") => (TunnelKind::Gtpu, 2152),
        other => panic!("the port {other} is not known"),
    };
    let mut metadata = TunnelMetadata {
        endpoints: if name.contains('6') { V6 } else { V4 },
        destination_port,
        flags: TunnelFlags::DONT_FRAGMENT | TunnelFlags::KEY,
        ..TunnelMetadata::default()
    };
    if ["vxlan4csum", "geneve6csum", "gre4all", "gre6csum"].contains(&name) {
        metadata.flags |= TunnelFlags::CHECKSUM;
    }
    metadata.id = match name {
        "vxlan4csum" => 0x1ab_cdef,
        "vxlangpe" => 345,
        "geneve6csum" => 0xff_ffff,
        "gre4" => 0,
        "gre6csum" => 0x12_3456_789a,
        "erspan2" => 567,
        "erspan1v6" => 1023,
        "ttltos" => 1,
        "tosfixed" => 2,
        name if name.starts_with("geneve") => 7,
        name if name.starts_with("gre") => 456,
        _ => 123,
    };
    let low = [0, 0, 0, 0, 0, 0, 0x11, 0x22];
    match name {
        "gre4" => metadata.flags = TunnelFlags::DONT_FRAGMENT,
        "tosfixed" => metadata.flags = TunnelFlags::KEY,
        "geneve4opt" => {
            let first = option(0xffff, 0x80, &[0, 0, 0, 10]);
            metadata.options = with_option(first, 1, 2, &[1, 2, 3, 4, 5, 6, 7, 8]);
        }
        "geneve6csum" => {
            metadata.flags = TunnelFlags::KEY | TunnelFlags::CHECKSUM | TunnelFlags::OAM;
            metadata.options = option(1, 2, &low);
        }
        "geneve6optlow" => metadata.options = option(1, 2, &low),
        "erspan1" => metadata.erspan = erspan(1, 3, 0, 0),
        "erspan2" => metadata.erspan = erspan(2, 0, 1, 0x37),
        "erspan1v6" => metadata.erspan = erspan(1, 0xf_ffff, 0, 0),
        _ => {}
    }
    Port {
        kind,
        metadata,
        tos: match name {
            "ttltos" => OuterField::Inherit,
            "tosfixed" => OuterField::Fixed(0x28),
            _ => OuterField::Fixed(0),
        },
        ttl: match name {
            "ttltos" => OuterField::Inherit,
            "tosfixed" => OuterField::Fixed(9),
            _ => OuterField::Fixed(DEFAULT_TTL),
        },
        has_sequence: name == "gre4all",
        is_bare: name.ends_with("l3") || name.starts_with("gtpu"),
    }
}

const fn erspan(version: u8, index: u32, direction: u8, hardware_id: u8) -> ErspanValues {
    ErspanValues {
        version,
        index,
        direction,
        hardware_id,
    }
}

fn inner_ip(frame: &[u8], headers: &Headers) -> Option<InnerIp> {
    if let Some(at) = headers.offset(header::IPV4) {
        let (tos, ttl) = (frame[at + 1], frame[at + 8]);
        return Some(InnerIp { tos, ttl });
    }
    let at = headers.offset(header::IPV6)?;
    let tos = frame[at] << 4 | frame[at + 1] >> 4;
    let ttl = frame[at + 7];
    Some(InnerIp { tos, ttl })
}

/// A frame that the recorded switch sent, and the same frame from this crate.
struct Sent {
    what: String,
    port: Port,
    metadata: TunnelMetadata,
    inner: Vec<u8>,
    inner_type: InnerType,
    header: OuterHeader,
    theirs: Vec<u8>,
    ours: Vec<u8>,
}

fn all_sent() -> Vec<Sent> {
    let mut frames: Vec<(&str, Vec<u8>)> = Vec::new();
    let mut sent = Vec::new();
    for line in RECORDED.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["frame", name, hex] => frames.push((name, bytes_of(hex))),
            ["outer", port, name, hex] => {
                let is_it = |(known, _): &(&str, Vec<u8>)| *known == name;
                let sequence = frames.iter().position(is_it).expect("a recorded frame");
                let frame = &frames[sequence].1;
                sent.push(send(port, name, frame, sequence as u32, &bytes_of(hex)));
            }
            _ => assert!(line.starts_with('#'), "not a line of the recording: {line}"),
        }
    }
    sent
}

fn send(name: &str, frame_name: &str, frame: &[u8], sequence: u32, outer: &[u8]) -> Sent {
    let port = port(name);
    let headers = Headers::parse(frame).expect("a frame");
    let ip = inner_ip(frame, &headers);
    let metadata = TunnelMetadata {
        tos: port.tos.tos(ip),
        ttl: port.ttl.ttl(ip),
        ..port.metadata.clone()
    };
    let type_offset = headers.offset(header::ETHER_TYPE).expect("an EtherType");
    let ether_type = u16::from_be_bytes([frame[type_offset], frame[type_offset + 1]]);
    let (inner, inner_type) = match port.is_bare {
        true => (
            &frame[type_offset + 2..],
            InnerType::Bare(EtherType(ether_type)),
        ),
        false => (frame, InnerType::Ethernet),
    };
    let settings = HeaderSettings {
        has_sequence: port.has_sequence,
        ..HeaderSettings::default()
    };
    let header = OuterHeader::for_frame(port.kind, &metadata, LINK, inner_type, settings)
        .expect("the tunnel carries the packet");
    let timestamp = match name {
        "erspan2" => outer[46..50].try_into().map(u32::from_be_bytes),
        _ => Ok(0),
    };
    let variable = PerPacket {
        source_port: SourcePorts::default().port(five_tuple_hash(frame, &headers)),
        sequence,
        timestamp_100us: timestamp.expect("four bytes"),
    };
    Sent {
        what: format!("{name} {frame_name}"),
        ours: pushed(&header, inner, variable).expect("a short packet"),
        theirs: [outer, inner].concat(),
        inner: inner.to_vec(),
        port,
        metadata,
        inner_type,
        header,
    }
}

#[test]
fn packets_are_sent_as_open_vswitch_sends_them() {
    let sent = all_sent();
    assert_eq!(sent.len(), 179);
    for mut sent in sent {
        if let Some(place) = place_of_wrong_checksum(&sent) {
            let told = decapsulate_frame(sent.port.kind, &sent.ours);
            assert!(!has_wrong_checksum(&told), "{}", sent.what);
            sent.ours[place.clone()].copy_from_slice(&sent.theirs[place]);
        }
        assert_eq!(sent.ours, sent.theirs, "{}", sent.what);
        assert_eq!(
            sent.header.bytes().len(),
            sent.ours.len() - sent.inner.len()
        );
    }
}

/// Where Open vSwitch 3.1 writes a wrong checksum.
///
/// It computes the checksum of GRE before it writes the sequence number, and that of GTP-U before
/// it writes the length. Both are zero at that time.
fn place_of_wrong_checksum(sent: &Sent) -> Option<Range<usize>> {
    match sent.port.kind {
        TunnelKind::Gre if sent.port.has_sequence && sent.theirs[46..50] != [0; 4] => Some(38..40),
        TunnelKind::Gtpu if !sent.inner.is_empty() => match sent.metadata.endpoints {
            Endpoints::V4 { .. } => Some(40..42),
            Endpoints::V6 { .. } => Some(60..62),
        },
        _ => None,
    }
}

fn has_wrong_checksum(told: &Result<Decapsulated, DecapsulateError>) -> bool {
    let wrong = [DecapsulateError::GreChecksum, DecapsulateError::UdpChecksum];
    told.as_ref().is_err_and(|error| wrong.contains(error))
}

#[test]
fn what_open_vswitch_sends_is_taken_out_again() {
    for mut sent in all_sent() {
        if place_of_wrong_checksum(&sent).is_some() {
            let told = decapsulate_frame(sent.port.kind, &sent.theirs);
            assert!(has_wrong_checksum(&told), "{}", sent.what);
            sent.theirs = sent.ours.clone();
        }
        let told = decapsulate_frame(sent.port.kind, &sent.theirs);
        if sent.port.kind == TunnelKind::Gtpu && !has_ip_version(&sent.inner) {
            assert!(told.is_err(), "{}", sent.what);
            continue;
        }
        let told = told.unwrap_or_else(|error| panic!("{}: {error}", sent.what));
        assert_eq!(
            told.has_dont_fragment,
            sent.metadata.flags.has(TunnelFlags::DONT_FRAGMENT)
                && !sent.metadata.endpoints.is_ipv6()
        );
        assert_content(&told, &sent.theirs, &sent.inner, sent.inner_type);
        assert_eq!(told.metadata, as_received(&sent), "{}", sent.what);
    }
}

fn has_ip_version(packet: &[u8]) -> bool {
    packet
        .first()
        .is_some_and(|byte| matches!(byte >> 4, 4 | 6))
}

/// The metadata that the receiver of a recorded packet has.
fn as_received(sent: &Sent) -> TunnelMetadata {
    let mut metadata = sent.metadata.clone();
    let is_udp = sent.port.kind.default_port().is_some();
    metadata.flags.0 &= !TunnelFlags::DONT_FRAGMENT.0;
    match sent.port.kind {
        TunnelKind::Vxlan(_) => metadata.id &= 0xff_ffff,
        TunnelKind::Gre => metadata.id &= 0xffff_ffff,
        TunnelKind::Gtpu => {
            metadata.flags = TunnelFlags::CHECKSUM;
            metadata.gtpu = GtpuValues {
                flags: 0x30,
                message: 255,
            };
        }
        TunnelKind::Geneve | TunnelKind::Erspan => {}
    }
    if is_udp {
        let at = if metadata.endpoints.is_ipv6() { 54 } else { 34 };
        metadata.source_port = u16::from_be_bytes([sent.theirs[at], sent.theirs[at + 1]]);
        if metadata.endpoints.is_ipv6() {
            metadata.flags |= TunnelFlags::CHECKSUM;
        }
    }
    metadata
}

fn assert_content(told: &Decapsulated, outer: &[u8], inner: &[u8], expected: InnerType) {
    match &told.content {
        TunnelContent::Packet { range, inner: kind } => {
            assert_eq!(&outer[range.clone()], inner);
            assert_eq!(*kind, expected);
        }
        TunnelContent::Message => panic!("the packet is a message"),
    }
}

/// The inner frame of the packets in Open vSwitch's tests.
const PING: &str = "fe71d883724fbeb6f4e1494a080045000054ba200000400184861e0000011e0000020000422\
    7e75400030af3195500000000f265010000000000101112131415161718191a1b1c1d1e1f2021222324252627282\
    92a2b2c2d2e2f3031323334353637";
const ETHERNET_V4: &str = "aa55aa550000001b213cab640800";
const ETHERNET_V6: &str = "aa55aa550000001b213cab6486dd";
const ADDRESSES_V6: &str = "2001cafe0000000000000000000000922001cafe000000000000000000000088";

/// The metadata of a packet in Open vSwitch's tests (`tests/tunnel-push-pop*.at`).
fn received(frame: &[u8], kind: TunnelKind, is_ipv6: bool) -> (TunnelMetadata, Vec<u8>, InnerType) {
    let told = decapsulate_frame(kind, frame).expect("a packet that Open vSwitch accepts");
    let TunnelContent::Packet { range, inner } = told.content else {
        panic!("the packet is a message");
    };
    let endpoints = match (is_ipv6, V4, V6) {
        (
            true,
            _,
            Endpoints::V6 {
                source,
                destination,
            },
        ) => Endpoints::V6 {
            source: destination,
            destination: source,
        },
        (
            _,
            Endpoints::V4 {
                source,
                destination,
            },
            _,
        ) => Endpoints::V4 {
            source: destination,
            destination: source,
        },
        _ => unreachable!("the constants have these families"),
    };
    assert_eq!(told.metadata.endpoints, endpoints);
    assert_eq!((told.metadata.tos, told.metadata.ttl), (0, 64));
    (told.metadata, frame[range].to_vec(), inner)
}

#[test]
fn erspan_of_open_vswitchs_tests_is_read() {
    // The IP lengths are too short for the inner frames; it expects all 98 bytes.
    let v4 = "4500007e79464000402fba550101025c01010258";
    let cases = [
        (ETHERNET_V4, v4.to_owned()),
        (ETHERNET_V6, format!("60000000006a2f40{ADDRESSES_V6}")),
    ];
    for (ethernet, ip) in cases {
        let is_ipv6 = ethernet == ETHERNET_V6;
        let frame = bytes_of(&format!(
            "{ethernet}{ip}100088be000000011000007b00000003{PING}"
        ));
        let (metadata, inner, kind) = received(&frame, TunnelKind::Erspan, is_ipv6);
        assert_eq!((metadata.id, metadata.erspan), (0x7b, erspan(1, 3, 0, 0)));
        assert_eq!((inner, kind), (bytes_of(PING), InnerType::Ethernet));

        let third = "100022eb000000012000023710abcd0100000078";
        let frame = bytes_of(&format!("{ethernet}{ip}{third}{PING}"));
        let (metadata, inner, _) = received(&frame, TunnelKind::Erspan, is_ipv6);
        assert_eq!((metadata.id, metadata.erspan), (0x237, erspan(2, 0, 1, 7)));
        assert_eq!(inner, bytes_of(PING));
    }
}

#[test]
fn gre_of_open_vswitchs_tests_is_read() {
    let frame = bytes_of(&format!(
        "{ETHERNET_V4}4500007e79464000402fba550101025c0101025820006558000001c8{PING}"
    ));
    let (metadata, inner, kind) = received(&frame, TunnelKind::Gre, false);
    assert_eq!((metadata.id, metadata.flags), (456, TunnelFlags::KEY));
    assert_eq!((inner, kind), (bytes_of(PING), InnerType::Ethernet));

    let ping = bytes_of(PING)[14..].to_vec();
    let ip = "4500007079464000402fba630101025c01010258";
    let bare = "20000800000001c8";
    let mut frame = bytes_of(&format!("{ETHERNET_V4}{ip}{bare}"));
    frame.extend_from_slice(&ping);
    let (_, inner, kind) = received(&frame, TunnelKind::Gre, false);
    assert_eq!((inner, kind), (ping, InnerType::Bare(EtherType::IPV4)));

    // The same with a checksum that is wrong by 3, as the test "bad checksum" has it.
    frame[25] = 0x60;
    let told = decapsulate_frame(TunnelKind::Gre, &frame);
    assert_eq!(told, Err(DecapsulateError::Ipv4Checksum));
    // With congestion outside, which makes the checksum right again.
    frame[15] = 3;
    let told = decapsulate_frame(TunnelKind::Gre, &frame).expect("a right checksum");
    assert_eq!(received_tos(told.metadata.tos, 0), None);
}

#[test]
fn a_received_gre_packet_goes_back_as_open_vswitch_sends_it_back() {
    let ping = bytes_of(PING)[14..].to_vec();
    let metadata = TunnelMetadata {
        id: 456,
        endpoints: V4,
        ttl: 64,
        flags: TunnelFlags::KEY | TunnelFlags::DONT_FRAGMENT,
        ..TunnelMetadata::default()
    };
    let link = LinkAddresses {
        destination: MacAddress([0, 0x1b, 0x21, 0x3c, 0xab, 0x64]),
        ..LINK
    };
    let inner = InnerType::Bare(EtherType::IPV4);
    let settings = HeaderSettings::default();
    let header = OuterHeader::for_frame(TunnelKind::Gre, &metadata, link, inner, settings)
        .expect("GRE carries bare packets");
    let expected = bytes_of(
        "001b213cab64aa55aa55000008004500007000004000402f33aa010102580101025c20000800000001c8",
    );
    let sent = pushed(&header, &ping, PerPacket::default()).expect("a short packet");
    assert_eq!(sent, [expected, ping].concat());
}

#[test]
fn geneve_of_open_vswitchs_tests_is_read() {
    let tunnel = "308817c1008200000400655800007b00ffff80010000000affff00010000000b";
    let cases = [
        (
            ETHERNET_V4,
            "45000096794640004011ba5b0101025c01010258".to_owned(),
        ),
        (ETHERNET_V6, format!("6000000000821140{ADDRESSES_V6}")),
    ];
    for (ethernet, ip) in cases {
        let frame = bytes_of(&format!("{ethernet}{ip}{tunnel}{PING}"));
        let (metadata, inner, kind) = received(&frame, TunnelKind::Geneve, ethernet == ETHERNET_V6);
        assert_eq!((metadata.id, metadata.flags), (0x7b, TunnelFlags::KEY));
        let options = with_option(
            option(0xffff, 0x80, &[0, 0, 0, 10]),
            0xffff,
            0,
            &[0, 0, 0, 11],
        );
        assert_eq!(metadata.options, options);
        assert_eq!(
            (metadata.source_port, metadata.destination_port),
            (12424, 6081)
        );
        assert_eq!((inner, kind), (bytes_of(PING), InnerType::Ethernet));
    }
}

#[test]
fn vxlan_of_open_vswitchs_tests_is_read() {
    let rest = "0c00000300007b00ffffffffffff00000000000008004500001c0001000040117cce7f000001\
        7f0000010035003500080172";
    let v4 = format!("{ETHERNET_V4}4500004e00010000401173e90101025c01010258c85312b5003a8cd4");
    let v6 = format!("{ETHERNET_V6}60000000003a1140{ADDRESSES_V6}c85312b5003abc70");
    for (outer, is_ipv6) in [(v4, false), (v6, true)] {
        let frame = bytes_of(&format!("{outer}{rest}"));
        let (metadata, inner, kind) = received(&frame, VXLAN, is_ipv6);
        let flags = TunnelFlags::KEY | TunnelFlags::CHECKSUM;
        assert_eq!((metadata.id, metadata.flags), (0x7b, flags));
        assert_eq!((inner.len(), kind), (42, InnerType::Ethernet));
    }
}
