//! Tests of the packet builder: whole packets against etherparse, and tunnels read back.

use std::net::{Ipv4Addr, Ipv6Addr};

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use thalweg_packet::wire::*;

const A: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const B: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
const V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
];

fn oracle_bytes<T>(
    size: usize,
    write: impl FnOnce(&mut Vec<u8>) -> Result<T, etherparse::err::packet::BuildWriteError>,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size);
    write(&mut bytes).unwrap();
    bytes
}

proptest! {
    /// The oracle's builder and ours produce the same bytes for the same packet.
    #[test]
    fn whole_packets_are_the_oracles(
        vlan_id in 0_u16..4096, ttl: u8, ports: [u16; 2], sequence: u32,
        payload in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let theirs = etherparse::PacketBuilder::ethernet2(A.0, B.0)
            .single_vlan(vlan_id.try_into().unwrap())
            .ipv4(V4[0].octets(), V4[1].octets(), ttl)
            .udp(ports[0], ports[1]);
        let size = theirs.size(payload.len());
        let theirs = oracle_bytes(size, |bytes| theirs.write(bytes, &payload));
        let ours = PacketBuilder::ethernet(A, B)
            .vlan(vlan_id, 0)
            .ipv4(V4[0], V4[1])
            .dont_fragment()
            .ttl(ttl)
            .udp(ports[0], ports[1])
            .payload(&payload)
            .build();
        prop_assert_eq!(ours, theirs);

        let theirs = etherparse::PacketBuilder::ethernet2(A.0, B.0)
            .ipv6(V6[0].octets(), V6[1].octets(), ttl)
            .tcp(ports[0], ports[1], sequence, 100)
            .syn()
            .ns();
        let size = theirs.size(payload.len());
        let theirs = oracle_bytes(size, |bytes| theirs.write(bytes, &payload));
        let ours = PacketBuilder::ethernet(A, B)
            .ipv6(V6[0], V6[1])
            .ttl(ttl)
            .tcp(ports[0], ports[1])
            .tcp_numbers(sequence, 0)
            .tcp_flags(TcpFlags::SYN | TcpFlags::NS)
            .tcp_window(100)
            .payload(&payload)
            .build();
        prop_assert_eq!(ours, theirs);
    }
}

#[test]
fn stacked_tags_and_padding() {
    let frame = PacketBuilder::ethernet(A, B)
        .service_vlan(7, 5)
        .drop_eligible()
        .vlan(100, 3)
        .ipv4(V4[0], V4[1])
        .dscp(46)
        .ecn(1)
        .udp(1, 2)
        .payload(b"x")
        .pad_to(60)
        .build();
    assert_eq!(frame.len(), 60);
    let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
    assert_eq!(
        sliced
            .vlan_ids()
            .iter()
            .map(|id| id.value())
            .collect::<Vec<_>>(),
        [7, 100]
    );
    let Some(NetSlice::Ipv4(ip)) = sliced.net else {
        panic!("no IPv4")
    };
    assert_eq!(
        (ip.header().dcp().value(), ip.header().ecn().value()),
        (46, 1)
    );
    let Some(TransportSlice::Udp(udp)) = sliced.transport else {
        panic!("no UDP")
    };
    assert_eq!(udp.payload(), b"x");

    let outer = EthernetView::new_checked(&frame).unwrap();
    assert_eq!(outer.ether_type(), EtherType::SERVICE_VLAN);
    let service = VlanRepr::parse(&VlanView::new_checked(outer.payload()).unwrap()).unwrap();
    let expected = VlanRepr {
        priority: 5,
        drop_eligible: true,
        vlan_id: 7,
        ether_type: EtherType::VLAN,
    };
    assert_eq!(service, expected);
}

#[test]
fn tunnels_are_read_back() {
    let inner = PacketBuilder::ethernet(B, A)
        .ipv6(V6[0], V6[1])
        .sctp(5, 6, 7)
        .payload(b"chunk");
    let inner_bytes = inner.build();
    for (port, is_geneve) in [(VXLAN_PORT, false), (GENEVE_PORT, true)] {
        let outer = PacketBuilder::ethernet(A, B)
            .ipv4(V4[0], V4[1])
            .udp(9, port);
        let outer = if is_geneve {
            outer.geneve(77).geneve_options(&[0, 1, 2, 0], false)
        } else {
            outer.without_udp_checksum().vxlan(77)
        };
        let frame = outer.encapsulating(inner.clone()).build();
        let ip = Ipv4View::new_checked(&frame[14..]).unwrap();
        let udp = UdpView::new_checked(ip.payload()).unwrap();
        assert_eq!(udp.checksum() == 0, !is_geneve);
        assert!(udp.has_valid_checksum(ip.pseudo_header(udp.len() as u16)));
        let carried = if is_geneve {
            let view = GeneveView::new_checked(udp.payload()).unwrap();
            assert_eq!(
                (view.identifier(), view.protocol()),
                (77, EtherType::ETHERNET)
            );
            view.payload()
        } else {
            VxlanView::new_checked(udp.payload()).unwrap().payload()
        };
        assert_eq!(carried, inner_bytes);
        let ip = Ipv6View::new_checked(&carried[14..]).unwrap();
        assert_eq!(ip.next_header(), IpProtocol::SCTP);
        let sctp = SctpView::new_checked(ip.payload()).unwrap();
        assert!(sctp.has_valid_checksum());
        assert_eq!(
            (sctp.verification_tag(), sctp.payload()),
            (7, &b"chunk"[..])
        );
    }
}

/// A checksum inside a tunnel covers the inner addresses.
#[test]
fn the_nearest_addresses_are_summed() {
    let packet = PacketBuilder::new()
        .ipv4(V4[0], V4[1])
        .ipv6(V6[0], V6[1])
        .tcp(1, 2)
        .build();
    let outer = Ipv4View::new_checked(&packet).unwrap();
    assert_eq!(outer.protocol(), IpProtocol::IPV6);
    let inner = SlicedPacket::from_ip(outer.payload()).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = inner.transport else {
        panic!("no TCP")
    };
    let expected = tcp
        .calc_checksum_ipv6(V6[0].octets(), V6[1].octets())
        .unwrap();
    assert_eq!(tcp.checksum(), expected);
}

#[test]
fn labels_fragments_and_snap() {
    let frame = PacketBuilder::ethernet(A, B)
        .mpls(1, 0, 9)
        .mpls(2, 0, 9)
        .ipv4(V4[0], V4[1]);
    let frame = frame
        .fragment(0x1234, 16, true)
        .protocol(IpProtocol::UDP)
        .payload(&[0; 8])
        .build();
    let ethernet = EthernetView::new_checked(&frame).unwrap();
    assert_eq!(ethernet.ether_type(), EtherType::MPLS);
    let labels: Vec<_> = LabelStack::new(ethernet.payload()).collect();
    assert_eq!(
        labels.iter().map(|view| view.label()).collect::<Vec<_>>(),
        [1, 2]
    );
    let ip = Ipv4View::new_checked(labels[1].payload()).unwrap();
    assert_eq!(
        (ip.identification(), ip.fragment_offset_bytes()),
        (0x1234, 16)
    );
    assert_eq!(
        (ip.fragment_kind(), ip.protocol()),
        (FragmentKind::Later, IpProtocol::UDP)
    );
    assert!(ip.has_more_fragments() && ip.has_valid_checksum());

    let frame = PacketBuilder::ethernet(A, B)
        .snap()
        .ipv4(V4[0], V4[1])
        .pad_to(60)
        .build();
    let ethernet = EthernetView::new_checked(&frame).unwrap();
    assert_eq!(
        ethernet.ether_type(),
        EtherType(28),
        "the length, without padding"
    );
    let FrameType::EtherType {
        ether_type,
        payload_offset,
    } = FrameType::parse(ethernet.from_type()).unwrap()
    else {
        panic!("SNAP was not seen");
    };
    assert_eq!(ether_type, EtherType::IPV4);
    assert!(Ipv4View::new_checked(&ethernet.from_type()[payload_offset..]).is_ok());
}

#[test]
#[should_panic(expected = "a transport header needs an IP header in front")]
fn a_transport_header_needs_ip() {
    PacketBuilder::ethernet(A, B).udp(1, 2).build();
}

#[test]
#[should_panic(expected = "flow_label is set on a packet without such a header")]
fn a_field_needs_its_header() {
    let _ = PacketBuilder::ethernet(A, B)
        .ipv4(V4[0], V4[1])
        .flow_label(1);
}
