//! Wire formats against etherparse: we read its bytes, and our bytes equal its bytes.
//!
//! Equal bytes and a parse that returns the representation cover both directions: we emit what
//! the oracle emits, and so what the oracle parses.

use std::net::{Ipv4Addr, Ipv6Addr};

use etherparse::{
    ArpEthIpv4Packet, Ethernet2Header, Icmpv4Header, Icmpv6Header, IpAuthHeader, IpNumber,
    Ipv4Header, Ipv6ExtensionsSlice, Ipv6FragmentHeader, Ipv6Header, Ipv6RawExtHeader,
    SingleVlanHeader, TcpHeader, TcpOptionElement, TcpOptions, UdpHeader,
};
use proptest::prelude::*;
use thalweg_packet::checksum::Sum;
use thalweg_packet::wire::{
    ArpOperation, ArpRepr, ArpView, EtherType, EthernetRepr, EthernetView, ExtensionRepr,
    ExtensionView, FragmentKind, Icmpv4Repr, Icmpv4View, Icmpv6Repr, Icmpv6Type, Icmpv6View,
    IpProtocol, Ipv4Repr, Ipv4View, Ipv6FragmentRepr, Ipv6FragmentView, Ipv6Repr, Ipv6View,
    MacAddress, TcpFlags, TcpOption, TcpRepr, TcpView, UdpRepr, UdpView, VlanRepr, VlanView,
    walk_extensions,
};

/// The bytes that a representation emits, over a dirty buffer so that a skipped field would
/// show.
macro_rules! emitted {
    ($repr:expr) => {{
        let repr = &$repr;
        let mut bytes = vec![0xa5; repr.buffer_len()];
        repr.emit(&mut bytes);
        bytes
    }};
}

fn words(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<[u8; 4]>(), 0..=most).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn ethernet(source: [u8; 6], destination: [u8; 6], ether_type: u16) {
        let theirs = Ethernet2Header { source, destination, ether_type: ether_type.into() };
        let ours = EthernetRepr {
            source: MacAddress(source),
            destination: MacAddress(destination),
            ether_type: EtherType(ether_type),
        };
        prop_assert_eq!(&emitted!(ours)[..], theirs.to_bytes());
        let bytes = theirs.to_bytes();
        let view = EthernetView::new_checked(&bytes).unwrap();
        prop_assert_eq!(EthernetRepr::parse(&view), Ok(ours));
    }

    #[test]
    fn vlan(priority in 0_u8..8, drop_eligible: bool, vlan_id in 0_u16..4096, ether_type: u16) {
        let theirs = SingleVlanHeader {
            pcp: priority.try_into().unwrap(),
            drop_eligible_indicator: drop_eligible,
            vlan_id: vlan_id.try_into().unwrap(),
            ether_type: ether_type.into(),
        };
        let ours =
            VlanRepr { priority, drop_eligible, vlan_id, ether_type: EtherType(ether_type) };
        prop_assert_eq!(&emitted!(ours)[..], theirs.to_bytes());
        let bytes = theirs.to_bytes();
        prop_assert_eq!(VlanRepr::parse(&VlanView::new_checked(&bytes).unwrap()), Ok(ours));
    }

    #[test]
    fn arp(operation: u16, macs: [[u8; 6]; 2], ips: [[u8; 4]; 2]) {
        let theirs = ArpEthIpv4Packet {
            operation: etherparse::ArpOperation(operation),
            sender_mac: macs[0],
            sender_ipv4: ips[0],
            target_mac: macs[1],
            target_ipv4: ips[1],
        };
        let ours = ArpRepr {
            operation: ArpOperation(operation),
            sender_hardware: MacAddress(macs[0]),
            sender_protocol: Ipv4Addr::from(ips[0]),
            target_hardware: MacAddress(macs[1]),
            target_protocol: Ipv4Addr::from(ips[1]),
        };
        prop_assert_eq!(&emitted!(ours)[..], theirs.to_bytes());
        let bytes = theirs.to_bytes();
        prop_assert_eq!(ArpRepr::parse(&ArpView::new_checked(&bytes).unwrap()), Ok(ours));
    }

    #[test]
    fn ipv4(
        (dscp, ecn, ttl, protocol) in (0_u8..64, 0_u8..4, any::<u8>(), any::<u8>()),
        identification: u16, flags: [bool; 2],
        offset in prop_oneof![Just(0), 0_u16..8192], ips: [[u8; 4]; 2],
        options in words(10), payload_len in 0_u16..60_000,
    ) {
        let mut theirs =
            Ipv4Header::new(payload_len, ttl, IpNumber(protocol), ips[0], ips[1]).unwrap();
        theirs.options = options[..].try_into().unwrap();
        theirs.set_payload_len(usize::from(payload_len)).unwrap();
        theirs.dscp = dscp.try_into().unwrap();
        theirs.ecn = ecn.try_into().unwrap();
        theirs.identification = identification;
        [theirs.dont_fragment, theirs.more_fragments] = flags;
        theirs.fragment_offset = offset.try_into().unwrap();
        theirs.header_checksum = theirs.calc_header_checksum();
        let ours = Ipv4Repr {
            dscp,
            ecn,
            identification,
            dont_fragment: flags[0],
            more_fragments: flags[1],
            fragment_offset_bytes: offset * 8,
            ttl,
            protocol: IpProtocol(protocol),
            source: Ipv4Addr::from(ips[0]),
            destination: Ipv4Addr::from(ips[1]),
            options: &options,
            payload_len: usize::from(payload_len),
        };
        let bytes = theirs.to_bytes();
        prop_assert_eq!(&emitted!(ours)[..], &bytes[..]);
        let view = Ipv4View::new_header_checked(&bytes).unwrap();
        prop_assert_eq!(Ipv4Repr::parse(&view), Ok(ours));
        prop_assert!(view.has_valid_checksum());
        let kind = match (offset, flags[1]) {
            (0, false) => FragmentKind::Whole,
            (0, true) => FragmentKind::First,
            _ => FragmentKind::Later,
        };
        prop_assert_eq!(view.fragment_kind(), kind);
    }

    #[test]
    fn ipv6(
        traffic_class: u8, flow_label in 0_u32..1 << 20, payload_length: u16, next: u8,
        hop_limit: u8, ips: [[u8; 16]; 2],
    ) {
        let theirs = Ipv6Header {
            traffic_class,
            flow_label: flow_label.try_into().unwrap(),
            payload_length,
            next_header: IpNumber(next),
            hop_limit,
            source: ips[0],
            destination: ips[1],
        };
        let ours = Ipv6Repr {
            traffic_class,
            flow_label,
            payload_len: usize::from(payload_length),
            next_header: IpProtocol(next),
            hop_limit,
            source: Ipv6Addr::from(ips[0]),
            destination: Ipv6Addr::from(ips[1]),
        };
        prop_assert_eq!(&emitted!(ours)[..], theirs.to_bytes());
        let bytes = theirs.to_bytes();
        let view = Ipv6View::new_header_checked(&bytes).unwrap();
        prop_assert_eq!(Ipv6Repr::parse(&view), Ok(ours));
        prop_assert_eq!(view.dscp(), theirs.dscp().value());
        prop_assert_eq!(view.ecn(), theirs.ecn().value());
    }

    #[test]
    fn ipv6_fragment(next: u8, offset in 0_u16..8192, more: bool, identification: u32) {
        let offset_theirs = offset.try_into().unwrap();
        let theirs = Ipv6FragmentHeader::new(IpNumber(next), offset_theirs, more, identification);
        let ours = Ipv6FragmentRepr {
            next_header: IpProtocol(next),
            fragment_offset_bytes: offset * 8,
            more_fragments: more,
            identification,
        };
        prop_assert_eq!(&emitted!(ours)[..], theirs.to_bytes());
        let bytes = theirs.to_bytes();
        let view = Ipv6FragmentView::new_checked(&bytes).unwrap();
        prop_assert_eq!(Ipv6FragmentRepr::parse(&view), Ok(ours));
    }

    #[test]
    fn ipv6_options_and_authentication(
        next: u8, spi: u32, sequence: u32, check_value in words(254),
        units in prop::collection::vec(any::<[u8; 8]>(), 0..=255), head: [u8; 6],
    ) {
        let body = [&head[..], &units.concat()].concat();
        let theirs = Ipv6RawExtHeader::new_raw(IpNumber(next), &body).unwrap().to_bytes();
        let kind = IpProtocol::DESTINATION_OPTIONS;
        let ours = ExtensionRepr { kind, next_header: IpProtocol(next), body: &body };
        prop_assert_eq!(&emitted!(ours)[..], &theirs[..]);
        let view = ExtensionView::new_checked(kind, &theirs).unwrap();
        prop_assert_eq!(ExtensionRepr::parse(&view), Ok(ours));

        let theirs = IpAuthHeader::new(IpNumber(next), spi, sequence, &check_value).unwrap();
        let theirs = theirs.to_bytes();
        let body =
            [&[0; 2][..], &spi.to_be_bytes(), &sequence.to_be_bytes(), &check_value].concat();
        let kind = IpProtocol::AUTHENTICATION;
        let ours = ExtensionRepr { kind, next_header: IpProtocol(next), body: &body };
        prop_assert_eq!(&emitted!(ours)[..], &theirs[..]);
        let view = ExtensionView::new_checked(kind, &theirs).unwrap();
        prop_assert_eq!(ExtensionRepr::parse(&view), Ok(ours));
    }

    /// Chains that the oracle accepts: hop-by-hop options first, no data behind a fragment's
    /// end.
    #[test]
    fn ipv6_walk(
        kinds in prop::collection::vec(prop::sample::select(vec![43_u8, 44, 51, 60]), 0..7),
        hop_by_hop: bool, last in prop::sample::select(vec![6_u8, 17, 50, 58, 59, 132, 253]),
        units in prop::collection::vec(0_u8..4, 8), later: bool, cut in 0_usize..80,
        noise in prop::collection::vec(any::<u8>(), 8 * 40),
    ) {
        let mut chain = if hop_by_hop { vec![0] } else { vec![] };
        chain.extend(kinds);
        let mut payload = Vec::new();
        for (index, &kind) in chain.iter().enumerate() {
            let next = chain.get(index + 1).copied().unwrap_or(last);
            let is_later = later && index + 1 == chain.len();
            match kind {
                44 => payload.extend([next, 0, 0, if is_later { 0x09 } else { 0x01 }, 1, 2, 3, 4]),
                51 => payload.extend([next, 2 * units[index] + 2]),
                _ => payload.extend([next, units[index]]),
            }
            if kind != 44 {
                let unit = if kind == 51 { 1 } else { 0 } + usize::from(units[index]);
                payload.extend(&noise[..8 * unit + 6]);
            }
        }
        payload.extend([0; 20]);
        payload.truncate(payload.len().saturating_sub(cut));

        let first = chain.first().copied().unwrap_or(last);
        let header = Ipv6Header {
            payload_length: payload.len() as u16,
            next_header: IpNumber(first),
            ..Ipv6Header::default()
        };
        let mut packet = [&header.to_bytes()[..], &payload].concat();
        packet.extend([60; 64]); // padding, which must not be taken for headers
        let view = Ipv6View::new_checked(&packet).unwrap();
        match (walk_extensions(&view), Ipv6ExtensionsSlice::from_slice(IpNumber(first), &payload)) {
            (Ok(walk), Ok((extensions, protocol, rest))) => {
                prop_assert_eq!(walk.protocol.0, protocol.0);
                prop_assert_eq!(walk.offset, 40 + payload.len() - rest.len());
                prop_assert_eq!(packet[walk.protocol_offset], protocol.0);
                prop_assert_eq!(walk.count, chain.len());
                prop_assert_eq!(walk.fragment != FragmentKind::Whole,
                    extensions.is_fragmenting_payload());
                prop_assert_eq!(walk.fragment == FragmentKind::Later,
                    later && chain.last() == Some(&44));
            }
            (Err(_), Err(_)) => {}
            (ours, theirs) => prop_assert!(false, "{ours:?} but {theirs:?}"),
        }
    }

    #[test]
    fn tcp(
        ports: [u16; 2], numbers: [u32; 2], flags in 0_u16..512, window: u16, urgent_pointer: u16,
        options in words(10), payload in prop::collection::vec(any::<u8>(), 0..200),
        v4: [[u8; 4]; 2], v6: [[u8; 16]; 2],
    ) {
        let mut theirs = TcpHeader::new(ports[0], ports[1], numbers[0], window);
        theirs.acknowledgment_number = numbers[1];
        theirs.urgent_pointer = urgent_pointer;
        theirs.set_options_raw(&options).unwrap();
        let bit = |flag: TcpFlags| flags & flag.0 != 0;
        (theirs.fin, theirs.syn, theirs.rst) =
            (bit(TcpFlags::FIN), bit(TcpFlags::SYN), bit(TcpFlags::RST));
        (theirs.psh, theirs.ack, theirs.urg) =
            (bit(TcpFlags::PSH), bit(TcpFlags::ACK), bit(TcpFlags::URG));
        (theirs.ece, theirs.cwr, theirs.ns) =
            (bit(TcpFlags::ECE), bit(TcpFlags::CWR), bit(TcpFlags::NS));
        let ours = TcpRepr {
            source_port: ports[0],
            destination_port: ports[1],
            sequence: numbers[0],
            acknowledgment: numbers[1],
            flags: TcpFlags(flags),
            window,
            urgent_pointer,
            options: &options,
        };
        let mut segment = emitted!(ours);
        prop_assert_eq!(&segment[..], &theirs.to_bytes()[..]);
        let bytes = theirs.to_bytes();
        prop_assert_eq!(TcpRepr::parse(&TcpView::new_checked(&bytes).unwrap()), Ok(ours));

        segment.extend_from_slice(&payload);
        let len = segment.len();
        let pseudo = Sum::of_ipv4_pseudo_header(
            v4[0].into(), v4[1].into(), IpProtocol::TCP, len as u16);
        TcpRepr::fill_checksum(&mut segment, pseudo);
        let view = TcpView::new_checked(&segment).unwrap();
        let oracle = theirs.calc_checksum_ipv4_raw(v4[0], v4[1], &payload).unwrap();
        prop_assert_eq!(view.checksum(), oracle);
        prop_assert!(view.has_valid_checksum(pseudo));
        let pseudo = Sum::of_ipv6_pseudo_header(
            v6[0].into(), v6[1].into(), IpProtocol::TCP, len as u32);
        TcpRepr::fill_checksum(&mut segment, pseudo);
        let oracle = theirs.calc_checksum_ipv6_raw(v6[0], v6[1], &payload).unwrap();
        prop_assert_eq!(TcpView::new_checked(&segment).unwrap().checksum(), oracle);
    }

    #[test]
    fn tcp_options(choice in prop::collection::vec((0_u8..5, any::<u32>(), any::<u32>()), 0..5)) {
        let theirs = choice.iter().map(|&(kind, a, b)| match kind {
            0 => TcpOptionElement::Noop,
            1 => TcpOptionElement::MaximumSegmentSize(a as u16),
            2 => TcpOptionElement::WindowScale(a as u8),
            3 => TcpOptionElement::SelectiveAcknowledgementPermitted,
            _ => TcpOptionElement::Timestamp(a, b),
        });
        let ours: Vec<_> = choice.iter().map(|&(kind, a, b)| match kind {
            0 => TcpOption::NoOperation,
            1 => TcpOption::MaximumSegmentSize(a as u16),
            2 => TcpOption::WindowScale(a as u8),
            3 => TcpOption::SelectivePermitted,
            _ => TcpOption::Timestamps { value: a, echo: b },
        }).collect();
        let theirs: Vec<_> = theirs.collect();
        prop_assume!(ours.iter().map(TcpOption::buffer_len).sum::<usize>() <= 40);
        let theirs = TcpOptions::try_from_elements(&theirs).unwrap();
        let mut bytes: Vec<u8> = ours.iter().flat_map(|option| emitted!(option)).collect();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        prop_assert_eq!(&bytes[..], theirs.as_slice());
        let walk = thalweg_packet::wire::TcpOptions::new(theirs.as_slice());
        prop_assert_eq!(walk.map(Result::unwrap).collect::<Vec<_>>(), ours);
    }

    #[test]
    fn udp(
        ports: [u16; 2], payload in prop::collection::vec(any::<u8>(), 0..200),
        v4: [[u8; 4]; 2], v6: [[u8; 16]; 2],
    ) {
        let ours = UdpRepr {
            source_port: ports[0],
            destination_port: ports[1],
            payload_len: payload.len(),
        };
        let theirs =
            UdpHeader::without_ipv4_checksum(ports[0], ports[1], payload.len()).unwrap();
        prop_assert_eq!(&emitted!(ours)[..], theirs.to_bytes());
        let mut datagram = [&theirs.to_bytes()[..], &payload].concat();
        let view = UdpView::new_checked(&datagram).unwrap();
        prop_assert_eq!(UdpRepr::parse(&view), Ok(ours));
        prop_assert_eq!(view.payload(), &payload);

        let len = datagram.len();
        let pseudo = Sum::of_ipv4_pseudo_header(
            v4[0].into(), v4[1].into(), IpProtocol::UDP, len as u16);
        UdpRepr::fill_checksum(&mut datagram, pseudo);
        let oracle = theirs.calc_checksum_ipv4_raw(v4[0], v4[1], &payload).unwrap();
        prop_assert_eq!(UdpView::new_checked(&datagram).unwrap().checksum(), oracle);
        let pseudo = Sum::of_ipv6_pseudo_header(
            v6[0].into(), v6[1].into(), IpProtocol::UDP, len as u32);
        UdpRepr::fill_checksum(&mut datagram, pseudo);
        let view = UdpView::new_checked(&datagram).unwrap();
        let oracle = theirs.calc_checksum_ipv6_raw(v6[0], v6[1], &payload).unwrap();
        prop_assert_eq!(view.checksum(), oracle);
        prop_assert!(view.has_valid_checksum(pseudo));
    }

    #[test]
    fn icmp(
        id: u16, seq: u16, payload in prop::collection::vec(any::<u8>(), 0..200),
        ips: [[u8; 16]; 2],
    ) {
        let echo = etherparse::IcmpEchoHeader { id, seq };
        let theirs =
            Icmpv4Header::with_checksum(etherparse::Icmpv4Type::EchoRequest(echo), &payload);
        let theirs = [&theirs.to_bytes()[..], &payload].concat();
        let ours = Icmpv4Repr::echo_request(id, seq);
        let mut message = [&emitted!(ours)[..], &payload].concat();
        Icmpv4Repr::fill_checksum(&mut message);
        prop_assert_eq!(&message, &theirs);
        let view = Icmpv4View::new_checked(&theirs).unwrap();
        prop_assert_eq!(Icmpv4Repr::parse(&view), Ok(ours));
        prop_assert!(view.has_valid_checksum());

        let theirs = Icmpv6Header::with_checksum(
            etherparse::Icmpv6Type::EchoReply(echo), ips[0], ips[1], &payload).unwrap();
        let theirs = [&theirs.to_bytes()[..], &payload].concat();
        let ours = Icmpv6Repr::echo_reply(id, seq);
        prop_assert_eq!(ours.message_type, Icmpv6Type::ECHO_REPLY);
        let mut message = [&emitted!(ours)[..], &payload].concat();
        let pseudo = Sum::of_ipv6_pseudo_header(
            ips[0].into(), ips[1].into(), IpProtocol::ICMPV6, message.len() as u32);
        Icmpv6Repr::fill_checksum(&mut message, pseudo);
        prop_assert_eq!(&message, &theirs);
        let view = Icmpv6View::new_checked(&theirs).unwrap();
        prop_assert_eq!(Icmpv6Repr::parse(&view), Ok(ours));
        prop_assert!(view.has_valid_checksum(pseudo));
    }
}
