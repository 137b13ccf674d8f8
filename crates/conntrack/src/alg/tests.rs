use std::net::Ipv4Addr;

use proptest::prelude::*;
use thalweg_packet::checksum::{Sum, checksum};
use thalweg_packet::wire::{IpProtocol, MacAddress, PacketBuilder};

use super::reference::{self, Stream};
use super::sequence::ShiftError;
use super::*;
use crate::protocol;

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [192, 0, 2, 5];
/// What the server sees of the client behind source translation.
const PUBLIC: [u8; 4] = [203, 0, 113, 7];
/// What the client sees of the server behind destination translation.
const VIRTUAL: [u8; 4] = [198, 51, 100, 9];

fn mapped(octets: [u8; 4]) -> Ipv6Addr {
    Ipv4Addr::from(octets).to_ipv6_mapped()
}

fn tuple(source: (Ipv6Addr, u16), destination: (Ipv6Addr, u16), is_ipv6: bool) -> Tuple {
    let endpoint = |(address, port)| Endpoint { address, port };
    Tuple {
        source: endpoint(source),
        destination: endpoint(destination),
        icmp: (0, 0),
        zone: 3,
        protocol: protocol::TCP,
        is_ipv6,
    }
}

/// A control connection whose both ends are translated.
fn translated() -> (Tuple, Tuple) {
    let original = tuple((mapped(CLIENT), 1000), (mapped(VIRTUAL), 21), false);
    let reply = tuple((mapped(SERVER), 2121), (mapped(PUBLIC), 6000), false);
    (original, reply)
}

fn plain_ipv6() -> (Tuple, Tuple) {
    let [client, server] = ["fd00::1", "fd00::2"].map(|text| text.parse().unwrap());
    let original = tuple((client, 1000), (server, 21), true);
    let reply = tuple((server, 21), (client, 1000), true);
    (original, reply)
}

fn ask(
    alg: Alg,
    (original, reply): &(Tuple, Tuple),
    is_reply: bool,
    payload: &[u8],
) -> Result<Option<Announcement>, AnnouncementError> {
    let packet = ControlPacket {
        original,
        reply,
        is_reply,
    };
    announced(alg, payload, packet)
}

fn ftp(pair: &(Tuple, Tuple), is_reply: bool, payload: &str) -> Announcement {
    let found = ask(Alg::Ftp, pair, is_reply, payload.as_bytes());
    found.expect("well-formed").expect("an announcement")
}

fn fails(is_reply: bool, payload: &str) -> AnnouncementError {
    ask(Alg::Ftp, &translated(), is_reply, payload.as_bytes()).expect_err("refused")
}

#[test]
fn active_ftp_expects_the_server() {
    let found = ftp(&translated(), false, "PORT 10,0,0,1,4,5\r\n");
    let expected = ExpectedConnection {
        opener: ControlPeer::Reply,
        source: mapped(SERVER),
        source_seen: mapped(VIRTUAL),
        destination: Endpoint {
            address: mapped(PUBLIC),
            port: 1029,
        },
        listener: Endpoint {
            address: mapped(CLIENT),
            port: 1029,
        },
        protocol: protocol::TCP,
        zone: 3,
        is_ipv6: false,
    };
    assert_eq!(found.expected, expected);
    assert_eq!(found.expected.new_source(), Some(mapped(VIRTUAL)));
    assert_eq!(found.expected.new_destination(), Some(expected.listener));
    let first = tuple((mapped(SERVER), 0), (mapped(PUBLIC), 1029), false);
    assert_eq!(found.expected.tuple(), first);
    let text = found.text.expect("FTP has a text");
    assert_eq!((text.start, text.end, text.form), (5, 17, TextForm::Commas));
}

#[test]
fn passive_ftp_expects_the_client() {
    let reply = "227 Entering Passive Mode (192,0,2,5,255,254).\r\n";
    let found = ftp(&translated(), true, reply);
    let expected = ExpectedConnection {
        opener: ControlPeer::Original,
        source: mapped(CLIENT),
        source_seen: mapped(PUBLIC),
        destination: Endpoint {
            address: mapped(VIRTUAL),
            port: 0xfffe,
        },
        listener: Endpoint {
            address: mapped(SERVER),
            port: 0xfffe,
        },
        protocol: protocol::TCP,
        zone: 3,
        is_ipv6: false,
    };
    assert_eq!(found.expected, expected);
    let text = found.text.expect("FTP has a text");
    assert_eq!(&reply[text.start..text.end], "192,0,2,5,255,254");
}

#[test]
fn extended_ftp_of_both_families() {
    let pair = plain_ipv6();
    let command = "eprt |2|FD00:0::1|5282|\r\n";
    let found = ftp(&pair, false, command);
    assert_eq!(found.expected.listener.port, 5282);
    assert_eq!(found.expected.source, pair.0.destination.address);
    assert_eq!(
        (
            found.expected.new_source(),
            found.expected.new_destination()
        ),
        (None, None)
    );
    let text = found.text.expect("FTP has a text");
    assert_eq!(&command[text.start..text.end], "FD00:0::1|5282");
    assert_eq!(text.form, TextForm::Extended { delimiter: b'|' });
    let reply = "229 Entering Extended Passive Mode (|||6446|)\r\n";
    for pair in [pair, translated()] {
        let found = ftp(&pair, true, reply);
        assert_eq!(found.expected.opener, ControlPeer::Original);
        assert_eq!(found.expected.destination.port, 6446);
        let text = found.text.expect("FTP has a text");
        assert_eq!(
            (&reply[text.start..text.end], text.form),
            ("6446", TextForm::PortOnly)
        );
    }
    ftp(&translated(), false, "EPRT  !1!10.0.0.1!99!  \n");
}

#[test]
fn what_the_forms_allow() {
    let pair = translated();
    ftp(&pair, false, "port   10,0,0,1,004,05 \n");
    ftp(&pair, true, "227 =192,0,2,5,1,1\r\n");
    ftp(&pair, true, "227 Entering (192,0,2,5,1,1,7)\r\n");
    // The address that the peer knows the sender by counts as its own.
    ftp(&pair, false, "PORT 203,0,113,7,4,5\r\n");
    ftp(&pair, true, "227 (198,51,100,9,4,5)\r\n");
    for other in [
        "",
        "POR",
        "PORT",
        "PORTAL 1\r\n",
        "220 hello\r\n",
        "227-Hello\r\n",
        "EPSV\r\n",
    ] {
        assert_eq!(ask(Alg::Ftp, &pair, false, other.as_bytes()), Ok(None));
    }
    // IPv4's forms mean nothing over IPv6.
    let ipv6 = plain_ipv6();
    assert_eq!(
        ask(Alg::Ftp, &ipv6, false, b"PORT 1,2,3,4,5,6\r\n"),
        Ok(None)
    );
    assert_eq!(
        ask(Alg::Ftp, &ipv6, true, b"227 (1,2,3,4,5,6)\r\n"),
        Ok(None)
    );
}

#[test]
fn what_the_forms_refuse() {
    use AnnouncementError as E;
    let cases = [
        ("PORT 10,0,0,1,4,5", E::Unfinished),
        ("PORT 10,0,0,1,4,", E::Unfinished),
        ("227 Entering Passive Mode (192,0,2,5,1", E::Unfinished),
        ("PORT 10,0,0,1,4\r\n", E::Malformed),
        ("PORT 10,0,0,1,4,256\r\n", E::Malformed),
        ("PORT 10,0,0,1,4,0005\r\n", E::Malformed),
        ("PORT 10,0,0,01,4,5\r\n", E::Malformed),
        ("PORT 10,0,0,1,0,0\r\n", E::Malformed),
        ("PORT 10,0,0,1,4,5 x\r\n", E::Malformed),
        ("PORT 10.0.0.1,4,5\r\n", E::Malformed),
        ("227 none\r\n", E::Malformed),
        ("227 v2 (192,0,2,5,1,1)\r\n", E::Malformed),
        ("EPRT |2|fd00::1|5|\r\n", E::Malformed),
        ("EPRT |1|10.0.0.1|65536|\r\n", E::Malformed),
        ("EPRT |1|10.0.0.1!5|\r\n", E::Malformed),
        ("EPRT .1.10.0.0.1.5.\r\n", E::Malformed),
        ("229 Passive |||5|\r\n", E::Malformed),
        ("229 Passive (|1||5|)\r\n", E::Malformed),
        ("229 Passive (|||0|)\r\n", E::Malformed),
        ("PORT 10,0,0,2,4,5\r\n", E::ForeignAddress),
        ("PORT 192,0,2,5,4,5\r\n", E::ForeignAddress),
        ("EPRT |1|10.0.0.9|5|\r\n", E::ForeignAddress),
    ];
    for (payload, error) in cases {
        assert_eq!(fails(false, payload), error, "{payload:?}");
        assert_eq!(error.is_invalid(), error != E::Unfinished);
    }
    assert_eq!(fails(true, "227 (10,0,0,1,4,5)\r\n"), E::ForeignAddress);
}

#[test]
fn an_announcement_ends_within_127_bytes() {
    let text = "192,0,2,5,1,1)";
    for (fill, is_found) in [(127 - 4 - text.len(), true), (128 - 4 - text.len(), false)] {
        let payload = format!("227 {}{text} and more\r\n", "x".repeat(fill));
        let found = ask(Alg::Ftp, &translated(), true, payload.as_bytes());
        assert_eq!(found.is_ok(), is_found);
    }
}

#[test]
fn tftp_expects_the_answer_at_the_port_that_the_server_sees() {
    let (mut original, mut reply) = translated();
    (original.protocol, reply.protocol) = (protocol::UDP, protocol::UDP);
    (original.destination.port, reply.source.port) = (69, 69);
    let pair = (original, reply);
    let found = ask(Alg::Tftp, &pair, false, b"\0\x01file\0OCTET\0tsize\x000\0");
    let found = found.expect("TFTP has no errors").expect("a request");
    assert_eq!(found.text, None);
    let expected = found.expected;
    assert_eq!(expected.opener, ControlPeer::Reply);
    assert_eq!(
        (expected.source, expected.source_seen),
        (mapped(SERVER), mapped(VIRTUAL))
    );
    assert_eq!(
        expected.destination,
        Endpoint {
            address: mapped(PUBLIC),
            port: 6000
        }
    );
    assert_eq!(
        expected.listener,
        Endpoint {
            address: mapped(CLIENT),
            port: 1000
        }
    );
    let others: [&[u8]; 8] = [
        b"",
        b"\0",
        b"\0\x03\0\x01data",
        b"\0\x01file",
        b"\0\x01file\0octet",
        b"\0\x02\0octet\0",
        b"\0\x02file\0octets\0",
        b"\x01\x01file\0octet\0",
    ];
    for other in others {
        assert_eq!(ask(Alg::Tftp, &pair, false, other), Ok(None));
    }
    assert_eq!(
        ask(Alg::Tftp, &pair, true, b"\0\x02f\0mail\0"),
        Ok(None),
        "a reply"
    );
    assert!(
        ask(Alg::Tftp, &pair, false, b"\0\x02f\0mail\0")
            .unwrap()
            .is_some()
    );
}

fn rewritten(payload: &str, is_reply: bool, to: (Ipv6Addr, u16)) -> (String, i32) {
    let pair = if payload.contains("|2|") {
        plain_ipv6()
    } else {
        translated()
    };
    let text = ftp(&pair, is_reply, payload).text.expect("FTP has a text");
    let to = Endpoint {
        address: to.0,
        port: to.1,
    };
    let new = rewrite_announcement(payload.as_bytes(), &text, to).expect("it changes");
    assert_eq!(new.text_end, text.end);
    (
        String::from_utf8(new.payload).expect("it was text"),
        new.shift,
    )
}

#[test]
fn announcements_are_rewritten_in_their_own_form() {
    let public = (mapped(PUBLIC), 1029);
    let (text, shift) = rewritten("PORT 10,0,0,1,4,5\r\n", false, public);
    assert_eq!((text.as_str(), shift), ("PORT 203,0,113,7,4,5\r\n", 3));
    let (text, shift) = rewritten("227 (192,0,2,5,4,5).\r\n", true, (mapped([1, 2, 3, 4]), 7));
    assert_eq!((text.as_str(), shift), ("227 (1,2,3,4,0,7).\r\n", -2));
    let (text, _) = rewritten("EPRT !1!10.0.0.1!99!\r\n", false, public);
    assert_eq!(text, "EPRT !1!203.0.113.7!1029!\r\n");
    let long = "fd00:1:2:3:4:5:6:7".parse().unwrap();
    let (text, shift) = rewritten("EPRT |2|fd00::1|99|\r\n", false, (long, 99));
    assert_eq!(
        (text.as_str(), shift),
        ("EPRT |2|fd00:1:2:3:4:5:6:7|99|\r\n", 11)
    );
    let (text, shift) = rewritten("229 x (|||6446|)\r\n", true, (mapped(VIRTUAL), 9));
    assert_eq!((text.as_str(), shift), ("229 x (|||9|)\r\n", -3));
}

#[test]
fn nothing_is_rewritten_without_need_or_out_of_place() {
    let payload = b"PORT 10,0,0,1,004,05\r\n";
    let found = ask(Alg::Ftp, &translated(), false, payload)
        .unwrap()
        .unwrap();
    let text = found.text.unwrap();
    assert_eq!(
        rewrite_announcement(payload, &text, found.expected.listener),
        None
    );
    let to = found.expected.destination;
    assert_eq!(rewrite_announcement(&payload[..9], &text, to), None);
    let ipv6 = Endpoint {
        address: "fd00::1".parse().unwrap(),
        port: 1,
    };
    assert_eq!(rewrite_announcement(payload, &text, ipv6), None);
}

/// The checksum of a frame's TCP segment, which is 0 if it is right.
fn tcp_checksum(frame: &[u8], is_ipv6: bool) -> u16 {
    let sum = if is_ipv6 {
        let len = u16::from_be_bytes([frame[18], frame[19]]);
        let source: [u8; 16] = frame[22..38].try_into().unwrap();
        let destination: [u8; 16] = frame[38..54].try_into().unwrap();
        let addresses = (source.into(), destination.into());
        Sum::of_ipv6_pseudo_header(addresses.0, addresses.1, IpProtocol(6), len.into())
            .with_bytes(&frame[54..54 + usize::from(len)])
    } else {
        let len = u16::from_be_bytes([frame[16], frame[17]]) - 20;
        let source: [u8; 4] = frame[26..30].try_into().unwrap();
        let destination: [u8; 4] = frame[30..34].try_into().unwrap();
        let addresses = (source.into(), destination.into());
        Sum::of_ipv4_pseudo_header(addresses.0, addresses.1, IpProtocol(6), len)
            .with_bytes(&frame[34..34 + usize::from(len)])
    };
    sum.checksum()
}

fn segment(is_ipv6: bool, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let frame = PacketBuilder::ethernet(MacAddress::ZERO, MacAddress::ZERO);
    let frame = if is_ipv6 {
        frame.ipv6(plain_ipv6().0.source.address, plain_ipv6().1.source.address)
    } else {
        frame.ipv4(CLIENT.into(), SERVER.into())
    };
    frame
        .tcp(1000, 21)
        .tcp_options(options)
        .payload(payload)
        .build()
}

/// Two rewritings of a sender, at 100 and 400 of its numbers.
fn two_rewritings() -> SequenceShift {
    let mut shift = SequenceShift::default();
    let grows = Rewritten {
        payload: Vec::new(),
        shift: 3,
        text_end: 17,
    };
    let shrinks = Rewritten {
        payload: Vec::new(),
        shift: -5,
        text_end: 20,
    };
    assert_eq!(shift, SequenceShift::default());
    assert_eq!(shift.record(false, 100, &grows), Ok(()));
    assert_eq!(shift.record(false, 400, &shrinks), Ok(()));
    assert_ne!(shift, SequenceShift::default());
    shift
}

#[test]
fn numbers_shift_behind_a_rewriting_only() {
    let mut shift = two_rewritings();
    let beside = [
        (0, 100, 0),
        (117, 10, 3),
        (119, 281, 3),
        (400, 0, 3),
        (420, 9, -2),
    ];
    for (sequence, len, by) in beside {
        assert_eq!(shift.place(false, sequence, len), ShiftPlace::Beside(by));
    }
    assert_eq!(shift.place(false, 100, 19), ShiftPlace::Again(0));
    assert_eq!(shift.place(false, 400, 22), ShiftPlace::Again(3));
    for (sequence, len) in [(99, 20), (100, 10), (101, 30), (390, 11), (410, 0)] {
        assert_eq!(shift.place(false, sequence, len), ShiftPlace::Torn);
    }
    assert_eq!(
        shift.place(true, 500, 9),
        ShiftPlace::Beside(0),
        "the other direction"
    );
    let receiver = [
        (100, 100),
        (110, 100),
        (120, 117),
        (403, 400),
        (417, 400),
        (418, 420),
    ];
    for (number, acknowledged) in receiver {
        assert_eq!(shift.acknowledged(true, number), acknowledged);
        assert_eq!(shift.acknowledged(false, number), number);
    }
    let again = Rewritten {
        payload: Vec::new(),
        shift: 9,
        text_end: 17,
    };
    assert_eq!(shift.record(false, 100, &again), Ok(()), "a retransmission");
    assert_eq!(shift, two_rewritings());
    assert_eq!(
        shift.record(false, 300, &again),
        Err(ShiftError::OutOfOrder)
    );
    assert_eq!(shift, two_rewritings());
}

#[test]
fn a_segment_of_either_side_is_adjusted() {
    // The receiver acknowledges 120 of its numbers, and has 130 to 418 and 425 to 430.
    let mut options = vec![1, 5, 18];
    for edge in [130_u32, 418, 425, 430] {
        options.extend(edge.to_be_bytes());
    }
    options.push(0);
    for is_ipv6 in [false, true] {
        let at = if is_ipv6 { 54 } else { 34 };
        let mut frame = segment(is_ipv6, &options, b"abc");
        frame[at + 4..at + 8].copy_from_slice(&77_u32.to_be_bytes());
        frame[at + 8..at + 12].copy_from_slice(&120_u32.to_be_bytes());
        frame[at + 13] |= ACK_FLAG;
        let before = tcp_checksum(&frame, is_ipv6);
        let mut shift = two_rewritings();
        let place = shift.adjust(&mut frame[at..], true, 3);
        assert_eq!(place, Ok(ShiftPlace::Beside(0)));
        let number = |from: usize| u32::from_be_bytes(frame[from..from + 4].try_into().unwrap());
        assert_eq!((number(at + 4), number(at + 8)), (77, 117));
        let edges = [0, 4, 8, 12].map(|edge| number(at + 23 + edge));
        assert_eq!(edges, [127, 420, 427, 432]);
        assert_eq!(tcp_checksum(&frame, is_ipv6), before, "as wrong as before");
        // And the sender's own.
        frame[at + 4..at + 8].copy_from_slice(&500_u32.to_be_bytes());
        let before = tcp_checksum(&frame, is_ipv6);
        assert_eq!(
            shift.adjust(&mut frame[at..], false, 3),
            Ok(ShiftPlace::Beside(-2))
        );
        assert_eq!(frame[at + 4..at + 8], 498_u32.to_be_bytes());
        assert_eq!(tcp_checksum(&frame, is_ipv6), before);
        let unchanged = frame.clone();
        frame[at + 4..at + 8].copy_from_slice(&105_u32.to_be_bytes());
        let torn = frame.clone();
        assert_eq!(
            shift.adjust(&mut frame[at..], false, 3),
            Err(ShiftError::Torn)
        );
        assert_eq!(frame, torn);
        assert_eq!(unchanged.len(), frame.len());
    }
}

const ACK_FLAG: u8 = 0x10;

#[test]
fn a_block_of_a_part_of_a_command_becomes_empty() {
    let mut options = vec![1, 1, 5, 10];
    options.extend(105_u32.to_be_bytes());
    options.extend(112_u32.to_be_bytes());
    let mut frame = segment(false, &options, b"");
    frame[34 + 13] |= ACK_FLAG;
    two_rewritings()
        .adjust(&mut frame[34..], true, 0)
        .expect("not torn");
    assert_eq!(frame[58..62], frame[62..66]);
}

#[test]
fn numbers_stay_right_after_the_circle_of_numbers() {
    let start = u32::MAX - 5;
    let mut shift = SequenceShift::default();
    let grows = Rewritten {
        payload: Vec::new(),
        shift: 3,
        text_end: 17,
    };
    shift.record(false, start, &grows).expect("the first");
    assert_eq!(
        shift.place(false, start.wrapping_sub(10), 10),
        ShiftPlace::Beside(0)
    );
    assert_eq!(
        shift.place(false, start.wrapping_add(20), 10),
        ShiftPlace::Beside(3)
    );
    assert_eq!(
        shift.acknowledged(true, start.wrapping_add(20)),
        start.wrapping_add(17)
    );
    // Three times around, in steps of a window.
    let mut tcp = segment(false, &[], b"")[34..].to_vec();
    let mut sequence = start.wrapping_add(20);
    for _ in 0..50 {
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        assert_eq!(shift.adjust(&mut tcp, false, 0), Ok(ShiftPlace::Beside(3)));
        assert_eq!(tcp[4..8], sequence.wrapping_add(3).to_be_bytes());
        assert_eq!(shift.acknowledged(true, sequence.wrapping_add(3)), sequence);
        sequence = sequence.wrapping_add(1 << 28);
    }
    shift
        .record(false, sequence, &grows)
        .expect("all others are forgotten");
    assert_eq!(
        shift.place(false, sequence.wrapping_add(30), 1),
        ShiftPlace::Beside(6)
    );
}

#[test]
fn malformed_headers_are_refused() {
    let tcp = segment(false, &[], b"")[34..].to_vec();
    for len in 0..20 {
        let result = two_rewritings().adjust(&mut tcp.clone()[..len], false, 0);
        assert_eq!(result, Err(ShiftError::Malformed));
    }
    for offset in [0x00, 0x40, 0x60] {
        let mut tcp = tcp.clone();
        tcp[12] = offset;
        assert_eq!(
            two_rewritings().adjust(&mut tcp, false, 0),
            Err(ShiftError::Malformed)
        );
    }
}

#[test]
fn a_frame_that_is_no_segment_is_not_rewritten() {
    let frame = segment(false, &[], b"abc");
    for (ip_at, tcp_at) in [(14, 33), (14, 50), (14, 500), (500, 520), (100, 34)] {
        let mut copy = frame.clone();
        assert!(!replace_payload(&mut copy, ip_at, tcp_at, false, b"x"));
        assert_eq!(copy, frame);
    }
    let mut copy = frame.clone();
    assert!(!replace_payload(&mut copy, 14, 34, false, &vec![0; 65_500]));
    assert_eq!(copy, frame);
}

/// A text that is an announcement, or nearly one.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![
        20 => (0..256_u32).prop_map(|number| number.to_string()),
        1 => (250..300_u32).prop_map(|number| number.to_string()),
        1 => "0?[0-9]{0,4}",
    ];
    let six = prop_oneof![
        9 => prop::collection::vec(number.clone(), 6),
        1 => prop::collection::vec(number, 5..8),
    ];
    let six = six.prop_map(|numbers| numbers.join(","));
    let address = prop_oneof![
        3 => (0..256_u32).prop_map(|last| format!("10.0.0.{last}")),
        3 => "[fF]d00::[0-9a-f]{1,4}",
        1 => "10\\.0\\.0\\.[0-9]{0,3}|[fF]d00::[0-9a-f:.]{0,6}|[0-9:.]*",
    ];
    let end = prop_oneof![6 => Just("\r\n"), 2 => Just("\n"), 1 => Just(""), 1 => Just(" x\r\n")];
    let words =
        prop_oneof![3 => Just(String::new()), 2 => "[a-zA-Z (]{0,20}", 1 => "[ -~]{90,130}"];
    let extended = (
        "[|!]|[|!]|[|!.1 ]",
        "[12]",
        address,
        0..70_000_u32,
        "(|||[|!])",
    );
    let command = prop_oneof![
        ("(PORT|port|Port) {1,2}|PORTS? {0,2}", six.clone()).prop_map(|(word, six)| word + &six),
        ("227 |227 |227 |227[ -]", words.clone(), six)
            .prop_map(|(word, words, six)| word + &words + &six + ")"),
        ("(EPRT|eprt) {1,2}|EPRT", extended).prop_map(|(word, (d, family, address, port, odd))| {
            format!("{word}{d}{family}{d}{address}{d}{port}{d}{odd}")
        }),
        (
            "229 |229 |229 |229[ -]",
            words,
            "[|!]",
            0..70_000_u32,
            "\\)|[|!)]{0,2}\\)"
        )
            .prop_map(|(word, words, d, port, odd)| format!(
                "{word}{words}({d}{d}{d}{port}{d}{odd}"
            )),
    ];
    let flip = (any::<prop::sample::Index>(), any::<u8>(), 0..4_u8);
    (command, end, flip).prop_map(|(command, end, (at, value, is_flipped))| {
        let mut bytes = (command + end).into_bytes();
        if is_flipped == 0 && !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes
    })
}

fn agrees_with_twin(payload: &[u8], is_ipv6: bool) -> Result<bool, TestCaseError> {
    let fast = ftp::find(payload, is_ipv6);
    let found =
        fast.map(|found| found.map(|found| (found.address, found.port, found.start, found.end)));
    prop_assert_eq!(&found, &reference::find(payload, is_ipv6));
    Ok(matches!(found, Ok(Some(_))))
}

#[test]
fn the_generator_finds_announcements() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut found = 0;
    for _ in 0..500 {
        let payload = nearly().new_tree(&mut runner).unwrap().current();
        found += usize::from(agrees_with_twin(&payload, false).unwrap());
    }
    assert!(
        (50..450).contains(&found),
        "{found} of 500 are announcements"
    );
}

proptest! {
    #[test]
    fn ftp_agrees_with_its_twin(payload in nearly(), is_ipv6: bool) {
        agrees_with_twin(&payload, is_ipv6)?;
    }

    #[test]
    fn no_payload_panics(
        payload in prop::collection::vec(any::<u8>(), 0..300),
        word in prop::sample::select(vec!["", "PORT ", "227 ", "EPRT ", "229 ("]),
        is_reply: bool,
        is_ipv6: bool,
    ) {
        let payload = [word.as_bytes(), &payload].concat();
        agrees_with_twin(&payload, is_ipv6)?;
        let pair = if is_ipv6 { plain_ipv6() } else { translated() };
        for alg in [Alg::Ftp, Alg::Tftp] {
            let _ = ask(alg, &pair, is_reply, &payload);
        }
    }

    #[test]
    fn a_rewritten_text_announces_its_new_endpoint(
        payload in nearly(),
        address: [u8; 4],
        port in 1..=u16::MAX,
    ) {
        if let Ok(Some(found)) = ftp::find(&payload, false) {
            let to = Endpoint { address: mapped(address), port };
            let Some(new) = rewrite_announcement(&payload, &found.text(), to) else {
                return Ok(());
            };
            prop_assert_eq!(new.payload.len() as i64, payload.len() as i64 + i64::from(new.shift));
            if new.payload.len() < ftp::WINDOW {
                let again = ftp::find(&new.payload, false).unwrap().unwrap();
                prop_assert_eq!(again.port, port);
                prop_assert_eq!(again.address, found.address.map(|_| to.address));
                prop_assert_eq!(rewrite_announcement(&new.payload, &again.text(), to), None);
                let back = Endpoint { address: to.address, port: port ^ 1 };
                prop_assume!(back.port != 0);
                prop_assert!(rewrite_announcement(&new.payload, &again.text(), back).is_some());
            }
        }
    }

    #[test]
    fn a_replaced_payload_is_as_if_sent_so(
        is_ipv6: bool,
        options in 0..10_usize,
        old in prop::collection::vec(any::<u8>(), 0..100),
        new in prop::collection::vec(any::<u8>(), 0..100),
        padding in prop::collection::vec(any::<u8>(), 0..9),
        is_corrupt: bool,
    ) {
        let options = vec![1; options * 4];
        let mut frame = segment(is_ipv6, &options, &old);
        let mut wanted = segment(is_ipv6, &options, &new);
        let (at, length_at) = if is_ipv6 { (54, 18) } else { (34, 16) };
        prop_assert_eq!(tcp_checksum(&wanted, is_ipv6), 0);
        frame.extend(&padding);
        if is_corrupt {
            frame[at + 17] ^= 0x10;
        }
        prop_assert!(replace_payload(&mut frame, 14, at, is_ipv6, &new));
        prop_assert_eq!(tcp_checksum(&frame, is_ipv6) != 0, is_corrupt);
        prop_assert_eq!(&frame[length_at..length_at + 2], &wanted[length_at..length_at + 2]);
        if !is_ipv6 {
            prop_assert_eq!(checksum(&frame[14..34]), 0);
        }
        // All but the checksum, which has two forms of zero.
        for frame in [&mut frame, &mut wanted] {
            frame[at + 16..at + 18].fill(0);
        }
        wanted.extend(&padding);
        prop_assert_eq!(frame, wanted);
    }

    #[test]
    fn shifts_agree_with_their_twin(
        first in prop_oneof![any::<u32>(), u32::MAX - 500..=u32::MAX],
        commands in prop::collection::vec((0..60_i64, 8..40_i64, -7..12_i64), 0..=4),
        segments in prop::collection::vec((0..500_i64, 0..60_i64), 1..60),
    ) {
        let number = |offset: i64| first.wrapping_add(offset as u32);
        let mut shift = SequenceShift::default();
        let mut stream = Stream { rewritings: Vec::new() };
        let mut at = 0;
        for (gap, len, growth) in commands {
            let start = at + gap;
            at = start + len;
            stream.rewritings.push((start, at, growth));
            let rewritten = Rewritten {
                payload: Vec::new(),
                shift: growth as i32,
                text_end: len as usize,
            };
            prop_assert_eq!(shift.record(false, number(start), &rewritten), Ok(()));
        }
        for (start, len) in segments {
            let place = shift.place(false, number(start), len as u32);
            let wanted = match stream.place(start, len) {
                None => ShiftPlace::Torn,
                Some((by, true)) => ShiftPlace::Again(by as i32),
                Some((by, false)) => ShiftPlace::Beside(by as i32),
            };
            prop_assert_eq!(place, wanted);
            // The same numbers as an acknowledgement and as a block of the receiver.
            let down = shift.acknowledged(true, number(start));
            prop_assert_eq!(down, number(stream.down(start, 2000)));
            let mut options = vec![1, 1, 5, 10];
            options.extend(number(start).to_be_bytes());
            options.extend(number(start + len).to_be_bytes());
            let mut tcp = segment(false, &options, b"")[34..].to_vec();
            tcp[13] |= ACK_FLAG;
            shift.adjust(&mut tcp, true, 0).expect("the receiver has no rewriting");
            let left = number(stream.up(start, 2000));
            let right = number(stream.down(start + len, 2000));
            let right = if (left.wrapping_sub(right) as i32) > 0 { left } else { right };
            prop_assert_eq!(&tcp[24..28], &left.to_be_bytes());
            prop_assert_eq!(&tcp[28..32], &right.to_be_bytes());
        }
    }

    #[test]
    fn no_segment_panics(
        mut tcp in prop::collection::vec(any::<u8>(), 0..70),
        offset in 5..16_u8,
        is_reply: bool,
        len: u32,
    ) {
        if tcp.len() > 13 {
            tcp[12] = offset << 4;
        }
        let _ = two_rewritings().adjust(&mut tcp, is_reply, len);
        let mut frame = tcp.clone();
        let _ = replace_payload(&mut frame, usize::from(offset), 30, is_reply, &tcp);
    }
}
