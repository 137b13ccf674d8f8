//! Bytes from outside: nothing panics, and accepted bytes can be emitted and read again.
//!
//! The bytes are random with a plausible beginning, or whole packets with flipped bits, all
//! cut at every length.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use thalweg_packet::checksum::Sum;
use thalweg_packet::wire::*;

/// Accepts, reads, emits, accepts and reads: the representation comes back.
macro_rules! survives {
    ($bytes:expr, $view:ident :: $check:ident, $repr:ident) => {
        if let Ok(view) = $view::$check($bytes)
            && let Ok(repr) = $repr::parse(&view)
        {
            let mut emitted = vec![0xa5; repr.buffer_len()];
            repr.emit(&mut emitted);
            let again = $view::$check(&emitted).expect("what was emitted is accepted");
            assert_eq!($repr::parse(&again), Ok(repr));
        }
    };
}

const KINDS: [IpProtocol; 6] = [
    IpProtocol::HOP_BY_HOP,
    IpProtocol::ROUTING,
    IpProtocol::FRAGMENT,
    IpProtocol::AUTHENTICATION,
    IpProtocol::DESTINATION_OPTIONS,
    IpProtocol::TCP,
];

fn headers_survive(bytes: &[u8]) {
    survives!(bytes, EthernetView::new_checked, EthernetRepr);
    survives!(bytes, LlcView::new_checked, LlcRepr);
    survives!(bytes, VlanView::new_checked, VlanRepr);
    survives!(bytes, MplsView::new_checked, MplsRepr);
    survives!(bytes, ArpView::new_checked, ArpRepr);
    survives!(bytes, Ipv4View::new_header_checked, Ipv4Repr);
    survives!(bytes, Ipv6View::new_header_checked, Ipv6Repr);
    survives!(bytes, Ipv6FragmentView::new_checked, Ipv6FragmentRepr);
    survives!(bytes, TcpView::new_checked, TcpRepr);
    survives!(bytes, UdpView::new_header_checked, UdpRepr);
    survives!(bytes, SctpView::new_checked, SctpRepr);
    survives!(bytes, Icmpv4View::new_checked, Icmpv4Repr);
    survives!(bytes, Icmpv6View::new_checked, Icmpv6Repr);
    survives!(bytes, NeighborView::new_checked, NeighborRepr);
    survives!(bytes, VxlanView::new_checked, VxlanRepr);
    survives!(bytes, GeneveView::new_checked, GeneveRepr);
    for kind in KINDS {
        let Ok(view) = ExtensionView::new_checked(kind, bytes) else {
            continue;
        };
        let repr = ExtensionRepr::parse(&view).unwrap();
        let mut emitted = vec![0xa5; repr.buffer_len()];
        repr.emit(&mut emitted);
        let again = ExtensionView::new_checked(kind, &emitted).unwrap();
        assert_eq!(ExtensionRepr::parse(&again), Ok(repr));
        assert_eq!(view.header_len() + view.payload().len(), bytes.len());
    }
}

/// Calls the getters that read beyond the fixed header, and checks where they end.
fn getters_stay_inside(bytes: &[u8]) {
    if let Ok(view) = Ipv4View::new_header_checked(bytes) {
        assert!(view.header_len() + view.payload().len() <= bytes.len().min(view.total_len()));
        assert_eq!(
            view.options().len() + Ipv4View::HEADER_LEN,
            view.header_len()
        );
        view.has_valid_checksum();
    }
    if let Ok(view) = Ipv4View::new_checked(bytes) {
        assert_eq!(view.header_len() + view.payload().len(), view.total_len());
    }
    if let Ok(view) = Ipv6View::new_header_checked(bytes) {
        assert!(view.payload().len() <= view.payload_len());
        if let Ok(walk) = walk_extensions(&view) {
            assert!(walk.offset <= view.packet().len() && walk.count <= EXTENSIONS_MAX);
            assert_eq!(bytes[walk.protocol_offset], walk.protocol.0);
            assert!(walk.protocol_offset < walk.offset);
            assert_eq!(
                walk.fragment == FragmentKind::Whole,
                walk.fragment_offset.is_none()
            );
        }
    }
    if let Ok(view) = UdpView::new_header_checked(bytes) {
        assert!(view.payload().len() <= view.len() - UdpView::HEADER_LEN);
        view.has_valid_checksum(Sum::default());
    }
    if let Ok(view) = TcpView::new_checked(bytes) {
        assert_eq!(view.header_len() + view.payload().len(), bytes.len());
        options_add_up(view.option_bytes());
    }
    if let Ok(view) = GeneveView::new_checked(bytes) {
        let len: usize = view.options().map(|option| option.buffer_len()).sum();
        assert_eq!(len, view.option_bytes().len());
    }
    if let Ok(view) = NeighborView::new_checked(bytes) {
        for offset in [
            view.source_link_layer_offset(),
            view.target_link_layer_offset(),
        ] {
            assert!(offset.is_none_or(|offset| offset + 6 <= bytes.len()));
        }
    }
    if let Ok(view) = SctpView::new_checked(bytes) {
        view.has_valid_checksum();
    }
    assert!(LabelStack::new(bytes).count() <= bytes.len() / MplsView::HEADER_LEN);
    if let Ok(FrameType::EtherType {
        ether_type,
        payload_offset,
    }) = FrameType::parse(bytes)
    {
        assert!(!ether_type.is_length() && payload_offset <= bytes.len());
    }
}

/// Options that are read and written again give the original bytes.
fn options_add_up(bytes: &[u8]) {
    let mut at = 0;
    for option in TcpOptions::new(bytes) {
        let Ok(option) = option else { return };
        let mut emitted = vec![0; option.buffer_len()];
        option.emit(&mut emitted);
        assert_eq!(emitted, bytes[at..at + emitted.len()]);
        at += emitted.len();
    }
    assert!(bytes[at..].first().is_none_or(|&end| end == 0));
}

fn all_lengths_survive(bytes: &[u8]) {
    for len in 0..=bytes.len() {
        headers_survive(&bytes[..len]);
        getters_stay_inside(&bytes[..len]);
    }
}

/// First bytes that lead deep into some parser.
const BEGINNINGS: [&[u8]; 9] = [
    &[],
    &[0x45, 0, 0, 40],
    &[0x4f, 0, 0, 80, 0, 0, 0x20, 0],
    &[0x60, 0, 0, 0, 0, 48, 44, 64],
    &[0x60, 0, 0, 0, 0, 80, 0, 64],
    &[135, 0],
    &[136, 0, 0, 0, 0xe0],
    &[0, 1, 8, 0, 6, 4, 0, 1],
    &[0x06, 0x40, 0x65, 0x58, 0, 0, 1, 0, 0, 1, 0x80, 1],
];

fn sample_packets() -> Vec<Vec<u8>> {
    let frame = PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]));
    let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let (v6, to) = (Ipv6Addr::LOCALHOST, Ipv6Addr::from(7_u128 << 100));
    let neighbor = NeighborRepr {
        message: NeighborMessage::Solicitation,
        target: to,
        source_link_layer: Some(MacAddress([2; 6])),
        target_link_layer: Some(MacAddress([3; 6])),
    };
    let plain = PacketBuilder::new();
    vec![
        frame
            .clone()
            .vlan(5, 1)
            .vlan(6, 2)
            .ipv4(a, b)
            .tcp(1, 2)
            .tcp_options(&[2; 8])
            .build(),
        plain
            .clone()
            .ipv4(a, b)
            .ipv4_options(&[1; 8])
            .udp(9, 8)
            .payload(&[7; 9])
            .build(),
        plain
            .clone()
            .ipv6(v6, to)
            .extension(KINDS[0], &[0; 14])
            .fragment(7, 0, true)
            .build(),
        plain
            .clone()
            .ipv6(v6, to)
            .neighbor(neighbor)
            .build()
            .split_off(40),
        plain
            .ipv4(a, b)
            .udp(1, 6081)
            .geneve(5)
            .geneve_options(&[1; 4], true)
            .build()
            .split_off(28),
        frame
            .clone()
            .snap()
            .ipv4(a, b)
            .sctp(1, 2, 3)
            .build()
            .split_off(12),
        frame.mpls(3, 1, 9).mpls(4, 1, 9).build().split_off(14),
    ]
}

proptest! {
    #[test]
    fn random_bytes(
        beginning in prop::sample::select(BEGINNINGS.to_vec()),
        rest in prop::collection::vec(any::<u8>(), 0..90),
    ) {
        all_lengths_survive(&[beginning, &rest[..]].concat());
    }

    #[test]
    fn packets_with_flipped_bits(
        index: prop::sample::Index, flips in prop::collection::vec((any::<usize>(), 0..8), 0..5),
    ) {
        let packets = sample_packets();
        let mut packet = index.get(&packets).clone();
        for (at, bit) in flips {
            let len = packet.len();
            packet[at % len] ^= 1_u8 << bit;
        }
        all_lengths_survive(&packet);
    }

    /// Bytes behind a packet do not change how it is read.
    #[test]
    fn padding_is_not_read(
        index in 1_usize..3, padding in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let packet = &sample_packets()[index];
        let padded = [packet, &padding[..]].concat();
        if index == 1 {
            let (bare, padded) = (Ipv4View::new_checked(packet), Ipv4View::new_checked(&padded));
            let (bare, padded) = (bare.unwrap(), padded.unwrap());
            prop_assert_eq!(bare.payload(), padded.payload());
            let (bare, padded) =
                (UdpView::new_checked(bare.payload()), UdpView::new_checked(padded.payload()));
            prop_assert_eq!(bare.unwrap().payload(), padded.unwrap().payload());
        } else {
            let (bare, padded) = (Ipv6View::new_checked(packet), Ipv6View::new_checked(&padded));
            let (bare, padded) = (bare.unwrap(), padded.unwrap());
            prop_assert_eq!(bare.payload(), padded.payload());
            prop_assert_eq!(walk_extensions(&bare), walk_extensions(&padded));
        }
    }
}
