//! Tests which fields are read from packets, and which packets are refused.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use thalweg_packet::wire::{Icmpv4Repr, Icmpv4Type, MacAddress, PacketBuilder, TcpFlags};

use super::*;
use crate::tests::{Tcp, address, echo, echo_tuple, error, ip, packet, tuple, udp};

fn parse(frame: &[u8]) -> Result<Reading, Event> {
    read(frame, &Headers::parse(frame).expect("a frame"), 3)
}

fn refused(frame: &[u8]) -> Event {
    parse(frame).expect_err("a refusal")
}

const PAIRS: [(&str, &str); 2] = [("10.0.0.1", "10.0.0.2"), ("fc00::1", "fc00::2")];

#[test]
fn tuples_are_read_of_all_protocols() {
    for (a, b) in PAIRS {
        for number in [protocol::TCP, protocol::UDP, protocol::SCTP, 47, 4] {
            let has_ports = !matches!(number, 47 | 4);
            let (from, to) = if has_ports { (5, 6) } else { (0, 0) };
            let ends = Tuple {
                protocol: number,
                zone: 3,
                ..tuple(a, from, b, to)
            };
            let reading = parse(&packet(&ends).build()).expect("a packet");
            assert_eq!(reading.tuple, ends);
            assert_eq!(reading.segment.is_some(), number == protocol::TCP);
            assert!(!reading.is_error());
        }
        for is_reply in [false, true] {
            let ends = Tuple {
                zone: 3,
                ..echo_tuple(a, b, 7)
            };
            let reply = Tuple {
                icmp: ends.reversed().icmp,
                ..ends
            };
            let reading = parse(&echo(a, b, 7, is_reply)).expect("an echo");
            assert_eq!(reading.tuple, if is_reply { reply } else { ends });
        }
    }
}

#[test]
fn tags_padding_and_extensions_are_passed_over() {
    let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let frame = PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]))
        .vlan(5, 0)
        .ipv4(a, b)
        .ipv4_options(&[1; 8])
        .tcp(5, 6)
        .payload(b"abc")
        .pad_to(100)
        .build();
    let reading = parse(&frame).expect("a segment");
    assert_eq!(reading.segment.map(|segment| segment.len), Some(3));
    assert_eq!(
        (reading.places.network, reading.places.end),
        (18, 18 + 28 + 23)
    );
    let frame = ip(address("fc00::1"), address("fc00::2"))
        .extension(IpProtocol::HOP_BY_HOP, &[1, 4, 0, 0, 0, 0])
        .udp(5, 6)
        .payload(b"abc")
        .build();
    let reading = parse(&frame).expect("a datagram");
    assert_eq!(
        reading.tuple,
        Tuple {
            zone: 3,
            ..tuple("fc00::1", 5, "fc00::2", 6)
        }
    );
}

#[test]
fn a_segment_has_its_numbers() {
    let syn = Tcp {
        flags: TcpFlags::SYN,
        numbers: (7, 8),
        window: 9,
        options: &[1, 2, 4, 5, 6, 3, 3, 11],
        len: 2,
        ..Tcp::default()
    };
    let expected = Segment {
        sequence: 7,
        acknowledgment: 8,
        flags: flag::SYN,
        window: 9,
        len: 2,
        window_scale: Some(11),
    };
    assert_eq!(
        parse(&syn.build()).expect("a segment").segment,
        Some(expected)
    );
    let ack = Tcp {
        flags: TcpFlags::ACK,
        ..syn
    };
    let scale = parse(&ack.build())
        .expect("a segment")
        .segment
        .expect("TCP")
        .window_scale;
    assert_eq!(scale, None, "only a SYN has one");
}

#[test]
fn other_frames_are_refused() {
    let arp = PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]))
        .arp_request(
            MacAddress([2; 6]),
            Ipv4Addr::new(10, 0, 0, 1),
            Ipv4Addr::new(10, 0, 0, 2),
        )
        .build();
    assert_eq!(refused(&arp), Event::NotIp);
    let mut frame = udp("10.0.0.1", 5, "10.0.0.2", 6);
    frame.truncate(40);
    assert_eq!(refused(&frame), Event::NotIp, "shorter than it says");
}

#[test]
fn wrong_checksums_are_refused() {
    for (a, b) in PAIRS {
        let segment = Tuple {
            protocol: protocol::TCP,
            ..tuple(a, 5, b, 6)
        };
        for mut frame in [
            packet(&segment).build(),
            udp(a, 5, b, 6),
            echo(a, b, 7, false),
        ] {
            *frame.last_mut().expect("a byte") ^= 1;
            assert_eq!(refused(&frame), Event::BadTransportChecksum);
        }
    }
    let mut frame = udp("10.0.0.1", 5, "10.0.0.2", 6);
    frame[14 + 8] ^= 1; // the time to live
    assert_eq!(refused(&frame), Event::BadNetworkChecksum);
}

#[test]
fn only_ipv4_may_do_without_a_udp_checksum() {
    let without = |(a, b): (&str, &str)| {
        let ends = tuple(a, 5, b, 6);
        packet(&ends).without_udp_checksum().build()
    };
    assert!(parse(&without(PAIRS[0])).is_ok());
    assert_eq!(refused(&without(PAIRS[1])), Event::BadTransportChecksum);
}

#[test]
fn ports_of_zero_are_refused() {
    for number in [protocol::TCP, protocol::UDP] {
        for (from, to) in [(0, 6), (5, 0)] {
            let ends = Tuple {
                protocol: number,
                ..tuple("10.0.0.1", from, "10.0.0.2", to)
            };
            assert_eq!(refused(&packet(&ends).build()), Event::BadTransport);
        }
    }
}

#[test]
fn fragments_are_refused() {
    for (a, b) in PAIRS {
        for (offset, more) in [(0, true), (8, true), (8, false)] {
            let front = ip(address(a), address(b)).fragment(7, offset, more);
            let frame = front.udp(5, 6).payload(&[1; 16]).build();
            assert_eq!(refused(&frame), Event::Fragment, "{a} {offset} {more}");
        }
    }
}

#[test]
fn unknown_types_of_icmp_are_refused() {
    for (kind, code, event) in [
        (8, 1, Event::UntrackedIcmp),
        (9, 0, Event::UntrackedIcmp),
        (17, 0, Event::UntrackedIcmp),
        (3, 0, Event::BadIcmpError),
    ] {
        let repr = Icmpv4Repr {
            message_type: Icmpv4Type(kind),
            code,
            rest: [0; 4],
        };
        let frame = ip(address("10.0.0.1"), address("10.0.0.2"))
            .icmpv4(repr)
            .build();
        assert_eq!(refused(&frame), event, "{kind}");
    }
}

#[test]
fn an_error_has_the_tuple_of_what_it_embeds() {
    for (a, b) in PAIRS {
        let router = if a.contains(':') {
            "fc99::9"
        } else {
            "10.9.9.9"
        };
        let header = if a.contains(':') { 40 } else { 20 };
        let segment = Tuple {
            protocol: protocol::TCP,
            ..tuple(a, 5, b, 6)
        };
        let other = Tuple {
            protocol: 47,
            ..tuple(a, 0, b, 0)
        };
        for ends in [tuple(a, 5, b, 6), segment, echo_tuple(a, b, 7), other] {
            let about = packet(&ends).build();
            for len in [header + 8, 1_000] {
                let reading = parse(&error(router, &about, len)).expect("an error");
                assert!(reading.is_error());
                assert_eq!(
                    reading.tuple,
                    Tuple {
                        zone: 3,
                        ..ends.reversed()
                    }
                );
            }
        }
        let about = udp(a, 5, b, 6);
        assert_eq!(
            refused(&error(router, &about, header + 7)),
            Event::BadIcmpError,
            "cut"
        );
        let part = ip(address(a), address(b)).fragment(7, 0, true);
        let part = part.udp(5, 6).payload(&[1; 16]).build();
        assert_eq!(
            refused(&error(router, &part, 1_000)),
            Event::BadIcmpError,
            "a fragment"
        );
        // Invariant 2: the receiver has not sent it, or it is an error itself.
        let mut stranger = error(router, &about, 1_000);
        let embedded_source = 14 + header + 8 + if a.contains(':') { 8 } else { 12 };
        stranger[embedded_source + 2] ^= 1;
        let at = 14 + header + 2;
        let sum = u16::from_be_bytes([stranger[at], stranger[at + 1]]);
        // The change is to a high byte, by 1.
        let is_set = stranger[embedded_source + 2] & 1 == 1;
        let change = if is_set {
            sum.wrapping_sub(0x100)
        } else {
            sum.wrapping_add(0x100)
        };
        stranger[at..at + 2].copy_from_slice(&change.to_be_bytes());
        assert_eq!(refused(&stranger), Event::BadIcmpError);
        let twice = error(b, &error(router, &about, 1_000), 1_000);
        assert_eq!(refused(&twice), Event::BadIcmpError);
    }
}

proptest! {
    /// Invariant 1: flipped and cut frames, with the headers of another frame or their own. A look
    /// without checks finds the same tuple.
    #[test]
    fn no_bytes_make_it_panic(
        which in 0..6_usize,
        cut in 14..200_usize,
        flips in prop::collection::vec((any::<u16>(), any::<u8>()), 0..6),
        is_foreign in any::<bool>(),
    ) {
        let about = udp("fc00::1", 5, "fc00::2", 6);
        let old = udp("10.0.0.1", 5, "10.0.0.2", 6);
        let mut frame = match which {
            0 => old.clone(),
            1 => about.clone(),
            2 => Tcp::default().build(),
            3 => error("10.9.9.9", &old, 1_000),
            4 => error("fc99::9", &about, 1_000),
            _ => echo("fc00::1", "fc00::2", 7, true),
        };
        let foreign = Headers::parse(&frame).expect("a frame");
        for (at, flip) in flips {
            let at = usize::from(at) % frame.len();
            frame[at] ^= flip;
        }
        frame.truncate(cut);
        let own = Headers::parse(&frame).expect("a frame");
        let headers = if is_foreign { foreign } else { own };
        let peeked = peek(&frame, &headers, 0);
        if let Ok(reading) = read(&frame, &headers, 0) {
            let has_ports = reading.tuple.has_ports() && !reading.is_error();
            if has_ports && !is_foreign {
                prop_assert_eq!(peeked, Some(reading.tuple));
            }
            prop_assert!(reading.places.end <= frame.len());
            prop_assert!(reading.places.transport <= reading.places.end);
        }
    }
}
