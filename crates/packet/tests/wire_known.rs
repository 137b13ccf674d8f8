//! Known bytes: rules of standards that no oracle covers, and malformed packets from past
//! bugs.

use std::net::{Ipv4Addr, Ipv6Addr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire as oracle;
use thalweg_packet::checksum::Sum;
use thalweg_packet::wire::*;

const SOURCE: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const TARGET: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);

fn solicitation(options: &[u8]) -> Vec<u8> {
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend(TARGET.octets());
    message.extend(options);
    message
}

fn neighbor(options: &[u8]) -> Result<NeighborRepr, WireError> {
    NeighborView::new_checked(&solicitation(options)).and_then(|view| NeighborRepr::parse(&view))
}

/// CVE-2023-5366 and similar: a malformed option invalidates the whole discovery part.
#[test]
fn a_malformed_discovery_option_leaves_nothing() {
    let good = [1, 1, 2, 0, 0, 0, 0, 9];
    assert_eq!(neighbor(&good).unwrap().source_link_layer, Some(MAC));
    let zero_length = [1, 0, 2, 0, 0, 0, 0, 9];
    assert_eq!(neighbor(&zero_length), Err(WireError::BadOption));
    assert_eq!(
        neighbor(&[good, zero_length].concat()),
        Err(WireError::BadOption)
    );
    let past_the_end = [1, 2, 2, 0, 0, 0, 0, 9];
    assert_eq!(neighbor(&past_the_end), Err(WireError::BadOption));
    assert_eq!(neighbor(&good[..7]), Err(WireError::BadOption));
    assert_eq!(
        neighbor(&[good, good].concat()),
        Err(WireError::BadOption),
        "there twice"
    );
    assert_eq!(
        neighbor(&[&good[..], &[1]].concat()),
        Err(WireError::BadOption)
    );
}

#[test]
fn other_discovery_options_are_skipped() {
    let (mtu, long_address) = ([5, 1, 0, 0, 0, 0, 5, 220], [1, 2].repeat(8));
    let address = [2, 1, 2, 0, 0, 0, 0, 9];
    let read = neighbor(&[&mtu[..], &long_address, &address].concat()).unwrap();
    assert_eq!(
        (read.source_link_layer, read.target_link_layer),
        (None, Some(MAC))
    );
    assert_eq!(neighbor(&[]).unwrap().target, TARGET);
}

#[test]
fn discovery_is_told_from_other_messages() {
    let mut message = solicitation(&[]);
    message[1] = 1; // another code
    assert_eq!(
        NeighborView::new_checked(&message).unwrap_err(),
        WireError::BadField
    );
    message[..2].copy_from_slice(&[128, 0]); // an echo request
    assert_eq!(
        NeighborView::new_checked(&message).unwrap_err(),
        WireError::BadField
    );
    assert_eq!(
        NeighborView::new_checked(&message[..23]).unwrap_err(),
        WireError::Truncated
    );
}

/// Our discovery messages equal smoltcp's byte for byte, checksum included, and read back.
#[test]
fn discovery_is_the_oracles() {
    let lladdr = Some(oracle::RawHardwareAddress::from(oracle::EthernetAddress(
        MAC.0,
    )));
    let advertisement = NeighborMessage::Advertisement {
        router: false,
        solicited: true,
        overrides: true,
    };
    let flags = oracle::NdiscNeighborFlags::SOLICITED | oracle::NdiscNeighborFlags::OVERRIDE;
    let cases = [
        (
            oracle::NdiscRepr::NeighborSolicit {
                target_addr: TARGET,
                lladdr,
            },
            NeighborRepr {
                message: NeighborMessage::Solicitation,
                target: TARGET,
                source_link_layer: Some(MAC),
                target_link_layer: None,
            },
        ),
        (
            oracle::NdiscRepr::NeighborAdvert {
                flags,
                target_addr: TARGET,
                lladdr,
            },
            NeighborRepr {
                message: advertisement,
                target: TARGET,
                source_link_layer: None,
                target_link_layer: Some(MAC),
            },
        ),
    ];
    for (theirs, ours) in cases {
        let theirs = oracle::Icmpv6Repr::Ndisc(theirs);
        let mut expected = vec![0; theirs.buffer_len()];
        let mut packet = oracle::Icmpv6Packet::new_unchecked(&mut expected[..]);
        theirs.emit(
            &SOURCE,
            &TARGET,
            &mut packet,
            &ChecksumCapabilities::default(),
        );
        let built = PacketBuilder::new()
            .ipv6(SOURCE, TARGET)
            .neighbor(ours)
            .build();
        assert_eq!(built[40..], expected);
        let view = NeighborView::new_checked(&expected).unwrap();
        assert_eq!(NeighborRepr::parse(&view), Ok(ours));
    }
}

/// RFC 8200 section 4.5: the header of a later fragment is followed by data.
#[test]
fn a_later_fragment_ends_the_walk() {
    let fragment = |offset| {
        PacketBuilder::new()
            .ipv6(SOURCE, TARGET)
            .fragment(1, offset, false)
            .extension(IpProtocol::DESTINATION_OPTIONS, &[0; 6])
            .udp(1, 2)
            .build()
    };
    let (later, atomic) = (fragment(8), fragment(0));
    let walk = walk_extensions(&Ipv6View::new_checked(&later).unwrap()).unwrap();
    assert_eq!(
        (walk.protocol, walk.offset),
        (IpProtocol::DESTINATION_OPTIONS, 48)
    );
    assert_eq!(
        (walk.protocol_offset, walk.fragment),
        (40, FragmentKind::Later)
    );
    let walk = walk_extensions(&Ipv6View::new_checked(&atomic).unwrap()).unwrap();
    assert_eq!((walk.protocol, walk.offset), (IpProtocol::UDP, 56));
    assert_eq!(
        (walk.protocol_offset, walk.fragment),
        (48, FragmentKind::First)
    );
    assert_eq!((walk.fragment_offset, walk.count), (Some(40), 2));
}

/// With two fragment headers, the walk passes both and reports the first.
#[test]
fn a_fragment_in_a_fragment() {
    let start = PacketBuilder::new()
        .ipv6(SOURCE, TARGET)
        .fragment(1, 0, true);
    let packet = start.fragment(2, 64, false).payload(&[0; 8]).build();
    let walk = walk_extensions(&Ipv6View::new_checked(&packet).unwrap()).unwrap();
    assert_eq!(
        (walk.fragment, walk.fragment_offset),
        (FragmentKind::Later, Some(40))
    );
    assert_eq!((walk.offset, walk.count), (56, 2));
}

/// RFC 4302 section 2: an authentication header has at least twelve bytes.
#[test]
fn short_authentication_is_refused() {
    let kind = IpProtocol::AUTHENTICATION;
    let read = ExtensionView::new_checked(kind, &[6, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(read.unwrap_err(), WireError::BadLength);
    let least = ExtensionView::new_checked(kind, &[6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(least.unwrap().header_len(), 12);
}

#[test]
#[should_panic(expected = "an extension header has no such length")]
fn short_authentication_is_not_written() {
    let start = PacketBuilder::new().ipv6(SOURCE, TARGET);
    start.extension(IpProtocol::AUTHENTICATION, &[0; 6]).build();
}

#[test]
fn the_walk_is_bounded() {
    let chain = |count| {
        let start = PacketBuilder::new().ipv6(SOURCE, TARGET);
        let kind = IpProtocol::DESTINATION_OPTIONS;
        let packet = (0..count).fold(start, |packet, _| packet.extension(kind, &[0; 6]));
        let packet = packet.udp(1, 2).build();
        walk_extensions(&Ipv6View::new_checked(&packet).unwrap())
    };
    assert_eq!(chain(EXTENSIONS_MAX).unwrap().protocol, IpProtocol::UDP);
    assert_eq!(chain(EXTENSIONS_MAX + 1), Err(WireError::TooManyHeaders));
}

/// Lengths that contradict the bytes are refused (CVE-2020-35498 is about padding).
#[test]
fn lengths_are_judged() {
    let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let good = PacketBuilder::new()
        .ipv4(a, b)
        .udp(1, 2)
        .payload(b"abc")
        .build();
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = good.clone();
        change(&mut packet);
        Ipv4View::new_checked(&packet).unwrap_err()
    };
    assert_eq!(refused(&|packet| packet.truncate(30)), WireError::Truncated);
    assert_eq!(refused(&|packet| packet[0] = 0x44), WireError::BadLength);
    assert_eq!(refused(&|packet| packet[0] = 0x65), WireError::BadVersion);
    assert_eq!(refused(&|packet| packet[3] = 19), WireError::BadLength);
    assert_eq!(refused(&|packet| packet[3] = 200), WireError::Truncated);
    let padded = [&good[..], &[0; 29]].concat();
    assert_eq!(Ipv4View::new_checked(&padded).unwrap().payload().len(), 11);
    let quoted = Ipv4View::new_header_checked(&good[..28]).unwrap();
    assert_eq!(
        UdpView::new_checked(quoted.payload()).unwrap_err(),
        WireError::Truncated
    );
    let udp = UdpView::new_header_checked(quoted.payload()).unwrap();
    assert_eq!((udp.len(), udp.payload()), (11, &[][..]));
    let short = [0, 1, 0, 2, 0, 7, 0, 0];
    assert_eq!(
        UdpView::new_header_checked(&short).unwrap_err(),
        WireError::BadLength
    );
}

/// RFC 768: a checksum field of zero is always valid, and a computed zero is sent as ones.
#[test]
fn udp_checksums_of_zero() {
    let absent = [0, 1, 0, 2, 0, 9, 0, 0, 77];
    assert!(
        UdpView::new_checked(&absent)
            .unwrap()
            .has_valid_checksum(Sum::default())
    );
    let mut datagram = vec![0xff, 0xed, 0, 1, 0, 10, 0, 0, 0, 7]; // the words add up to 0xffff
    UdpRepr::fill_checksum(&mut datagram, Sum::default());
    assert_eq!(datagram[6..8], [0xff, 0xff]);
    assert!(
        UdpView::new_checked(&datagram)
            .unwrap()
            .has_valid_checksum(Sum::default())
    );
}

/// RFC 1042: SNAP of organisation zero names an Ethernet type; any other LLC has none.
#[test]
fn frames_with_a_length() {
    let ipv4 = EtherType::IPV4;
    let through_snap = [0, 50, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    let read = FrameType::parse(&through_snap);
    assert_eq!(
        read,
        Ok(FrameType::EtherType {
            ether_type: ipv4,
            payload_offset: 10
        })
    );
    let read = FrameType::parse(&[8, 0]);
    assert_eq!(
        read,
        Ok(FrameType::EtherType {
            ether_type: ipv4,
            payload_offset: 2
        })
    );
    for (at, byte) in [(2, 0x42), (4, 0x13), (7, 9), (8, 5)] {
        let mut frame = through_snap;
        frame[at] = byte; // spanning tree, numbered, an organisation, a length again
        assert_eq!(FrameType::parse(&frame), Ok(FrameType::Llc), "byte {at}");
    }
    assert_eq!(FrameType::parse(&through_snap[..9]), Ok(FrameType::Llc));
    assert_eq!(FrameType::parse(&[8]), Err(WireError::Truncated));
}

/// RFC 3032 section 2.1, by hand.
#[test]
fn a_label_stack() {
    let stack = [0x00, 0x01, 0x0a, 0x40, 0xff, 0xff, 0xf1, 0x01, 0x45];
    let labels: Vec<_> = LabelStack::new(&stack)
        .map(|view| MplsRepr::parse(&view))
        .collect();
    let top = MplsRepr {
        label: 16,
        traffic_class: 5,
        bottom: false,
        ttl: 64,
    };
    let bottom = MplsRepr {
        label: 0xf_ffff,
        traffic_class: 0,
        bottom: true,
        ttl: 1,
    };
    assert_eq!(labels, [Ok(top), Ok(bottom)]);
}

/// RFC 7348 section 5, by hand.
#[test]
fn a_vxlan_header() {
    let mut vxlan = [0x08, 0, 0, 0, 0x12, 0x34, 0x56, 0, 0xee];
    let view = VxlanView::new_checked(&vxlan).unwrap();
    assert_eq!(
        VxlanRepr::parse(&view),
        Ok(VxlanRepr {
            identifier: 0x12_3456
        })
    );
    assert_eq!(view.payload(), [0xee]);
    let mut emitted = [0xa5; 8];
    VxlanRepr {
        identifier: 0x12_3456,
    }
    .emit(&mut emitted);
    assert_eq!(emitted, vxlan[..8], "reserved bits are sent as zero");
    vxlan[0] = 0xf7;
    let view = VxlanView::new_checked(&vxlan).unwrap();
    assert_eq!(VxlanRepr::parse(&view), Err(WireError::BadField));
}

/// RFC 9260 section 3.1 and appendix A: the checksum is sent low byte first.
#[test]
fn an_sctp_header() {
    let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let packet = PacketBuilder::new()
        .ipv4(a, b)
        .sctp(0x102, 0x304, 0x506_0708)
        .build();
    let crc = crc32c::crc32c(&[1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0]);
    assert_eq!(packet[20..28], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(packet[28..], crc.to_le_bytes());
    let mut broken = packet[20..].to_vec();
    assert!(SctpView::new_checked(&broken).unwrap().has_valid_checksum());
    broken[7] ^= 1;
    assert!(!SctpView::new_checked(&broken).unwrap().has_valid_checksum());
}

/// RFC 8926 section 3.4 by hand: two options and a byte of payload.
const GENEVE: [u8; 21] = [
    0x03, 0xc0, 0x65, 0x58, 0x12, 0x34, 0x56, 0, // three words of options, O and C
    0x01, 0x02, 0x83, 0x01, 1, 2, 3, 4, // critical, one word
    0x01, 0x03, 0x01, 0x00, // empty
    0xee,
];

#[test]
fn a_geneve_header() {
    let view = GeneveView::new_checked(&GENEVE).unwrap();
    let options: Vec<_> = view.options().collect();
    let first = GeneveOption {
        class: 0x102,
        kind: 0x83,
        data: &[1, 2, 3, 4],
    };
    assert_eq!(
        options,
        [
            first,
            GeneveOption {
                class: 0x103,
                kind: 1,
                data: &[]
            }
        ]
    );
    assert!(options[0].is_critical() && !options[1].is_critical());
    assert!(view.is_control() && view.is_critical());
    assert_eq!(
        (view.protocol(), view.identifier()),
        (EtherType::ETHERNET, 0x12_3456)
    );
    assert_eq!(view.payload(), [0xee]);
}

#[test]
fn malformed_geneve_headers() {
    for (at, byte, error) in [
        (0, 0x43, WireError::BadVersion),
        (0, 0x04, WireError::Truncated),
        (11, 0x03, WireError::BadOption),
        (19, 0x01, WireError::BadOption),
    ] {
        let mut broken = GENEVE;
        broken[at] = byte;
        assert_eq!(
            GeneveView::new_checked(&broken).unwrap_err(),
            error,
            "byte {at}"
        );
    }
}

/// A malformed TCP option is reported and ends the walk.
#[test]
fn malformed_tcp_options() {
    for bytes in [&[2, 1, 0, 0][..], &[2, 0], &[8, 11, 0, 0], &[5]] {
        let mut walk = TcpOptions::new(bytes);
        assert_eq!(walk.next(), Some(Err(WireError::BadOption)), "{bytes:?}");
        assert_eq!(walk.next(), None);
    }
    // A known kind with another length is still an option; the end marker hides later bytes.
    let mut walk = TcpOptions::new(&[1, 2, 3, 9, 0, 2, 4, 5, 6]);
    assert_eq!(walk.next(), Some(Ok(TcpOption::NoOperation)));
    assert_eq!(
        walk.next(),
        Some(Ok(TcpOption::Other {
            kind: 2,
            data: &[9]
        }))
    );
    assert_eq!(walk.next(), None);
}

/// RFC 826: address resolution for anything but IPv4 over Ethernet is refused.
#[test]
fn foreign_arp_is_refused() {
    let frame = PacketBuilder::new()
        .arp_request(MAC, Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST)
        .build();
    assert_eq!(
        ArpView::new_checked(&frame).unwrap().operation(),
        ArpOperation::REQUEST
    );
    for at in [1, 2, 4, 5] {
        let mut foreign = frame.clone();
        foreign[at] += 1;
        assert_eq!(
            ArpView::new_checked(&foreign).unwrap_err(),
            WireError::BadField
        );
    }
}
