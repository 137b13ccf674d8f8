//! Scenarios of control connections: FTP and TFTP.

use thalweg_packet::{Packet, Rewriter};

use super::*;
use crate::tests::{address, commit_nat, has_right_checksums, ip, nat, packet};
use crate::{Alg, TranslationKind, Tuple};

const CLIENT: &str = "10.0.0.1";
const PUBLIC: &str = "192.0.2.100";
const SERVER: &str = "10.0.0.2";

const PORT: &[u8] = b"PORT 10,0,0,1,15,160\r\n";
const PORT_OUTSIDE: &[u8] = b"PORT 192,0,2,100,15,160\r\n";

fn ftp(request: TrackRequest) -> TrackRequest {
    TrackRequest {
        alg: Some(Alg::Ftp),
        ..request
    }
}

/// A segment between two hosts; the server's port is 21.
fn segment(from: &str, to: &str, numbers: (u32, u32), payload: &[u8]) -> Vec<u8> {
    flagged(from, to, TcpFlags::ACK, numbers, payload)
}

fn flagged(from: &str, to: &str, flags: TcpFlags, numbers: (u32, u32), payload: &[u8]) -> Vec<u8> {
    let (from_port, to_port) = if from == SERVER {
        (21, 1_000)
    } else {
        (1_000, 21)
    };
    ip(address(from), address(to))
        .tcp(from_port, to_port)
        .tcp_flags(flags)
        .tcp_numbers(numbers.0, numbers.1)
        .tcp_window(8_000)
        .payload(payload)
        .build()
}

/// Opens a control connection; both sides have sent up to 99 and go on with 100.
fn open_ftp(stage: &Stage, request: &TrackRequest, public: &str) {
    let syn = flagged(CLIENT, SERVER, TcpFlags::SYN, (99, 0), &[]);
    assert!(stage.send(&syn, request).state.has(CtState::NEW));
    let syn_ack = flagged(SERVER, public, SYN_ACK, (99, 100), &[]);
    let state = stage.send(&syn_ack, &nat()).state;
    assert!(state.has(CtState::ESTABLISHED), "{}", text(state));
}

/// Tracks a packet that may change its length: the state and the frame that leaves.
fn pass(stage: &Stage, frame: &[u8], request: &TrackRequest) -> (String, Vec<u8>) {
    let mut packet = Packet::from_bytes(frame);
    packet.set_cut_bytes(9);
    let headers = Headers::parse(frame).expect("a frame");
    let tracked = stage.tracker.track_packet(
        &mut packet,
        &headers,
        request,
        Previous::default(),
        stage.now,
        1,
    );
    let state = text(tracked.state);
    assert_eq!(
        packet.cut_bytes(),
        9,
        "what a capture cut off is still missing"
    );
    assert!(has_right_checksums(packet.bytes()), "{state}");
    if tracked.state.has(CtState::INVALID) {
        assert_eq!(packet.bytes(), frame, "invariant 6 of the tracker");
    }
    (state, packet.bytes().to_vec())
}

fn data(source: &str, destination: &str, port: u16) -> Tuple {
    Tuple {
        protocol: protocol::TCP,
        ..tuple(source, 20, destination, port)
    }
}

fn syn(tuple: &Tuple) -> Vec<u8> {
    packet(tuple).tcp_flags(TcpFlags::SYN).build()
}

fn source_nat(public: &str) -> TrackRequest {
    ftp(commit_nat(
        TranslationKind::Source,
        Some((public, public)),
        None,
    ))
}

#[test]
fn an_announced_address_is_translated_and_the_numbers_follow() {
    let stage = Stage::new();
    open_ftp(&stage, &source_nat(PUBLIC), PUBLIC);
    let (len, more) = (PORT.len() as u32, 3);
    // Twice: the first was lost behind the switch.
    for _ in 0..2 {
        let announcing = segment(CLIENT, SERVER, (100, 100), PORT);
        let expected = segment(PUBLIC, SERVER, (100, 100), PORT_OUTSIDE);
        let sent = pass(&stage, &announcing, &nat());
        assert_eq!(sent, ("est|trk|snat".to_owned(), expected));
    }
    let next = 100 + len;
    let after = segment(CLIENT, SERVER, (next, 100), b"NOOP\r\n");
    let expected = segment(PUBLIC, SERVER, (next + more, 100), b"NOOP\r\n");
    assert_eq!(pass(&stage, &after, &nat()).1, expected);
    // The server acknowledges all of the longer command, its text, a part of it, and nothing.
    let numbers = [
        (next + more, next),
        (next + more - 2, next - 2),
        (next + more - 3, 100),
        (100, 100),
    ];
    for (outside, inside) in numbers {
        let answer = segment(SERVER, PUBLIC, (100, outside), b"200 ok\r\n");
        let expected = segment(SERVER, CLIENT, (100, inside), b"200 ok\r\n");
        let (state, left) = pass(&stage, &answer, &nat());
        assert_eq!(state, "est|rpl|trk|dnat");
        assert_eq!(left, expected);
    }
    // Bytes from before keep their numbers.
    let before = segment(CLIENT, SERVER, (90, 100), b"0123456789");
    let expected = segment(PUBLIC, SERVER, (90, 100), b"0123456789");
    assert_eq!(pass(&stage, &before, &nat()).1, expected);
    let counters = stage.tracker.counters();
    assert_eq!(counters.announcements_rewritten, 2);
    assert_eq!(counters.expected, 2);
    assert_eq!(stage.tracker.expectation_count(), 1);

    let (state, left) = pass(&stage, &syn(&data(SERVER, PUBLIC, 4_000)), &{
        let is_commit = true;
        TrackRequest { is_commit, ..nat() }
    });
    assert_eq!(state, "new|rel|trk|dnat");
    assert_eq!(tuple_of(&left), data(SERVER, CLIENT, 4_000));
}

/// What the server acknowledges opens the client's window in the client's numbers.
#[test]
fn windows_are_in_the_numbers_of_their_sender() {
    let stage = Stage::new();
    open_ftp(&stage, &source_nat(PUBLIC), PUBLIC);
    pass(&stage, &segment(CLIENT, SERVER, (100, 100), PORT), &nat());
    let next = 100 + PORT.len() as u32;
    pass(
        &stage,
        &segment(SERVER, PUBLIC, (100, next + 3), &[]),
        &nat(),
    );
    let end = next + 8_000;
    for (len, expected) in [(3, "inv|trk"), (2, "est|trk|snat")] {
        let frame = segment(CLIENT, SERVER, (end - 2, 100), &b"..."[..len]);
        assert_eq!(pass(&stage, &frame, &nat()).0, expected);
    }
}

#[test]
fn a_rewritten_command_that_is_torn_is_invalid() {
    let stage = Stage::new();
    open_ftp(&stage, &source_nat(PUBLIC), PUBLIC);
    let announcing = segment(CLIENT, SERVER, (100, 100), PORT);
    assert_eq!(pass(&stage, &announcing, &nat()).0, "est|trk|snat");
    let len = PORT.len() as u32;
    let torn = [
        segment(CLIENT, SERVER, (100, 100), &PORT[..10]),
        segment(CLIENT, SERVER, (105, 100), &PORT[5..]),
        segment(CLIENT, SERVER, (95, 100), b"0123456789"),
        // Something else in its place.
        segment(CLIENT, SERVER, (100, 100), b"0123456789012345678901234567"),
        // A command whose text lies before the one whose numbers are settled.
        segment(CLIENT, SERVER, (60, 100), PORT),
    ];
    for frame in &torn[..4] {
        assert_eq!(pass(&stage, frame, &nat()).0, "inv|trk");
    }
    assert_eq!(stage.tracker.counters().torn_announcements, 4);
    assert_eq!(pass(&stage, &torn[4], &nat()).0, "inv|trk");
    assert_eq!(stage.tracker.counters().torn_announcements, 5);
    let after = segment(CLIENT, SERVER, (100 + len, 100), b"NOOP\r\n");
    assert_eq!(pass(&stage, &after, &nat()).0, "est|trk|snat");
    assert_eq!(stage.tracker.counters().announcements_rewritten, 1);
}

#[test]
fn a_bad_announcement_is_invalid_and_changes_nothing() {
    let cases: [(&[u8], &str); 4] = [
        (b"PORT 10,0,0,9,15,160\r\n", "inv|trk"),
        (b"PORT 10,0,0,1,15\r\n", "inv|trk"),
        (b"EPRT |1|10.0.0.1|0|\r\n", "inv|trk"),
        (b"PORT 10,0,0,1,15,160", "est|trk"),
    ];
    for (payload, expected) in cases {
        let stage = Stage::new();
        open_ftp(&stage, &ftp(commit(0)), CLIENT);
        let before = stage.entries();
        let frame = segment(CLIENT, SERVER, (100, 100), payload);
        assert_eq!(pass(&stage, &frame, &look()).0, expected);
        assert_eq!(stage.tracker.expectation_count(), 0);
        let counters = stage.tracker.counters();
        let is_bad = expected == "inv|trk";
        assert_eq!(counters.bad_announcements, u64::from(is_bad));
        assert_eq!(counters.unfinished_announcements, u64::from(!is_bad));
        if is_bad {
            assert_eq!(stage.entries(), before);
        }
    }
}

#[test]
fn a_frame_that_cannot_grow_takes_only_texts_of_the_same_length() {
    for (public, is_taken) in [(PUBLIC, false), ("10.0.0.9", true)] {
        let stage = Stage::new();
        open_ftp(&stage, &source_nat(public), public);
        let frame = segment(CLIENT, SERVER, (100, 100), PORT);
        let mut left = frame.clone();
        let tracked = stage.pass(&mut left, &nat(), Previous::default());
        assert_eq!(tracked.state.has(CtState::INVALID), !is_taken);
        let counters = stage.tracker.counters();
        assert_eq!(counters.announcements_too_long, u64::from(!is_taken));
        assert_eq!(stage.tracker.expectation_count(), usize::from(is_taken));
        if is_taken {
            let payload = b"PORT 10,0,0,9,15,160\r\n";
            assert_eq!(left, segment(public, SERVER, (100, 100), payload));
        } else {
            assert_eq!(left, frame);
        }
    }
}

#[test]
fn too_many_announcements_are_counted() {
    let config = Config {
        max_expectations: 1,
        ..Config::default()
    };
    let stage = Stage::with(config);
    open_ftp(&stage, &ftp(commit(0)), CLIENT);
    let mut number = 100;
    for port in 1..=3 {
        let payload = format!("PORT 10,0,0,1,15,{port}\r\n");
        let frame = segment(CLIENT, SERVER, (number, 100), payload.as_bytes());
        assert_eq!(pass(&stage, &frame, &look()), ("est|trk".to_owned(), frame));
        number += payload.len() as u32;
    }
    let counters = stage.tracker.counters();
    assert_eq!((counters.expected, counters.expectations_refused), (1, 2));
}

/// Two control connections between the same hosts announce the same port.
#[test]
fn an_announcement_belongs_to_the_first_until_it_is_used() {
    let stage = Stage::new();
    open_ftp(&stage, &ftp(commit(0)), CLIENT);
    let first = stage.entries()[0].original;
    let mut second = first;
    second.source.port = 1_001;
    stage.send(&syn(&second), &ftp(commit(0)));
    let announced = |parent: Tuple, mark: u32| Expectation {
        tuple: data(SERVER, CLIENT, 4_000),
        parent,
        source: None,
        destination: None,
        mark,
        label: 0,
    };
    let expect = |stage: &Stage, parent, mark| {
        let expectation = announced(parent, mark);
        stage.tracker.expect(expectation, stage.now)
    };
    assert!(expect(&stage, first, 1));
    assert!(!expect(&stage, second, 2), "it is the first's");
    assert!(expect(&stage, first, 3), "the first renews it");
    let begin = |stage: &Stage, source_port| {
        let mut tuple = data(SERVER, CLIENT, 4_000);
        tuple.source.port = source_port;
        let tracked = stage.send(&syn(&tuple), &commit(0));
        (tracked.mark, tracked.original)
    };
    assert_eq!(begin(&stage, 20), (3, Some(first)));
    assert!(expect(&stage, second, 4), "the first has used it");
    assert_eq!(begin(&stage, 21), (4, Some(second)));
    // What ends with its parent is free, used or not.
    assert!(expect(&stage, first, 5));
    assert!(stage.tracker.flush_tuple(&first, stage.now));
    assert!(expect(&stage, second, 6));
    assert_eq!(begin(&stage, 22), (6, Some(second)));
    assert_eq!(stage.tracker.counters().expectations_refused, 1);
}

#[test]
fn an_announced_connection_inherits_and_ends_with_its_control_connection() {
    let stage = Stage::new();
    let (mark, label) = (Bits { value: 5, mask: 7 }, Bits { value: 6, mask: 7 });
    open_ftp(&stage, &ftp(commit(0)), CLIENT);
    let request = TrackRequest {
        mark: Some(mark),
        label: Some(label),
        ..look()
    };
    let frame = segment(CLIENT, SERVER, (100, 100), PORT);
    pass(&stage, &frame, &request);
    let first = syn(&data(SERVER, CLIENT, 4_000));
    let tracked = stage.send(&first, &look());
    assert_eq!(text(tracked.state), "new|rel|trk");
    assert_eq!((tracked.mark, tracked.label), (5, 6));
    assert_eq!(tracked.original, Some(stage.entries()[0].original));
    stage.tracker.flush(FlushFilter::All);
    assert_eq!(state(&stage, &first), "new|trk");
}

#[test]
fn only_connections_with_a_protocol_of_announcements_announce() {
    let stage = Stage::new();
    open_ftp(&stage, &commit(0), CLIENT);
    let frame = segment(CLIENT, SERVER, (100, 100), PORT);
    assert_eq!(pass(&stage, &frame, &look()).0, "est|trk");
    assert_eq!(stage.tracker.expectation_count(), 0);
}

/// The second `ct` of a zone neither rewrites nor moves a number again.
#[test]
fn a_packet_announces_once() {
    let stage = Stage::new();
    open_ftp(&stage, &source_nat(PUBLIC), PUBLIC);
    let frame = segment(CLIENT, SERVER, (100, 100), PORT);
    let mut packet = Packet::from_bytes(&frame);
    let headers = Headers::parse(&frame).expect("a frame");
    let mut previous = Previous::default();
    // Judged first, translated then, and neither at last.
    let expected = segment(PUBLIC, SERVER, (100, 100), PORT_OUTSIDE);
    let passes = [
        (look(), &frame, 0, "est|trk"),
        (nat(), &expected, 1, "est|trk|snat"),
        (nat(), &expected, 1, "est|trk|snat"),
        (look(), &expected, 1, "est|trk|snat"),
    ];
    for (request, left, rewritten, state) in passes {
        let tracker = &stage.tracker;
        let now = stage.now;
        let tracked = tracker.track_packet(&mut packet, &headers, &request, previous, now, 1);
        assert_eq!(
            (packet.bytes(), &text(tracked.state)[..]),
            (&left[..], state)
        );
        let counters = tracker.counters();
        assert_eq!(counters.announcements_rewritten, rewritten);
        assert_eq!(counters.expected, rewritten);
        previous = after(&tracked);
    }
    // Without a translation, when it is judged.
    let stage = Stage::new();
    open_ftp(&stage, &ftp(commit(0)), CLIENT);
    let first = stage.send(&frame, &look());
    assert_eq!(stage.tracker.counters().expected, 1);
    stage.pass(&mut frame.clone(), &nat(), after(&first));
    assert_eq!(stage.tracker.counters().expected, 1);
}

/// What a SYN carries is not read: its numbers are not those of the payload.
#[test]
fn a_syn_announces_nothing() {
    let stage = Stage::new();
    let syn = |from| flagged(from, SERVER, TcpFlags::SYN, (99, 0), PORT);
    let (state, left) = pass(&stage, &syn(CLIENT), &source_nat(PUBLIC));
    assert_eq!((&state[..], left), ("new|trk|snat", syn(PUBLIC)));
    assert_eq!(stage.tracker.expectation_count(), 0);
}

/// Zero in a reset is no number, wherever the client's numbers lie.
#[test]
fn a_reset_that_acknowledges_nothing_fits() {
    let stage = Stage::new();
    let first = 0x9000_0000;
    let syn = flagged(CLIENT, SERVER, TcpFlags::SYN, (first - 1, 0), &[]);
    pass(&stage, &syn, &source_nat(PUBLIC));
    let syn_ack = flagged(SERVER, PUBLIC, SYN_ACK, (99, first), &[]);
    pass(&stage, &syn_ack, &nat());
    pass(&stage, &segment(CLIENT, SERVER, (first, 100), PORT), &nat());
    assert_eq!(stage.tracker.counters().announcements_rewritten, 1);
    let flags = TcpFlags(TcpFlags::RST.0 | TcpFlags::ACK.0);
    let reset = flagged(SERVER, PUBLIC, flags, (100, 0), &[]);
    assert_eq!(pass(&stage, &reset, &nat()).0, "est|rpl|trk|dnat");
}

#[test]
fn a_tftp_request_announces_with_its_first_packet() {
    for (public, translated) in [(None, "new|trk"), (Some(PUBLIC), "new|trk|snat")] {
        let stage = Stage::new();
        let request = TrackRequest {
            alg: Some(Alg::Tftp),
            ..match public {
                Some(public) => {
                    let range = Some((public, public));
                    commit_nat(TranslationKind::Source, range, Some((700, 700)))
                }
                None => commit(0),
            }
        };
        let read = ip(address(CLIENT), address(SERVER))
            .udp(5_000, 69)
            .payload(b"\0\x01file\0octet\0")
            .build();
        assert_eq!(pass(&stage, &read, &request).0, translated);
        let (seen, port) = public.map_or((CLIENT, 5_000), |public| (public, 700));
        let answer = packet(&tuple(SERVER, 3_333, seen, port)).build();
        let commits = TrackRequest {
            is_commit: true,
            ..nat()
        };
        let (state, left) = pass(&stage, &answer, &commits);
        assert!(state.starts_with("new|rel|trk"), "{state}");
        assert_eq!(tuple_of(&left), tuple(SERVER, 3_333, CLIENT, 5_000));
        // Another host's packet is none of it.
        let foreign = packet(&tuple("10.0.0.7", 3_333, seen, port)).build();
        assert_eq!(pass(&stage, &foreign, &look()).0, "new|trk");
    }
}

/// A connection that is picked up in the middle announces with its first packet.
#[test]
fn a_command_may_begin_a_connection() {
    let stage = Stage::new();
    let frame = segment(CLIENT, SERVER, (100, 100), PORT);
    let (state, left) = pass(&stage, &frame, &source_nat(PUBLIC));
    assert_eq!(state, "new|trk|snat");
    assert_eq!(left, segment(PUBLIC, SERVER, (100, 100), PORT_OUTSIDE));
    let next = 100 + PORT.len() as u32;
    let answer = segment(SERVER, PUBLIC, (100, next + 3), b"200 ok\r\n");
    let expected = segment(SERVER, CLIENT, (100, next), b"200 ok\r\n");
    assert_eq!(pass(&stage, &answer, &nat()).1, expected);
    // A bad one is invalid, though its connection was committed.
    let stage = Stage::new();
    let frame = segment(CLIENT, SERVER, (100, 100), b"PORT 1,2\r\n");
    assert_eq!(pass(&stage, &frame, &source_nat(PUBLIC)).0, "inv|trk");
    assert_eq!(stage.tracker.connection_count(), 1);
}

/// A rewritten frame can still be parsed.
#[test]
fn a_frame_has_an_end() {
    let headers_len = segment(CLIENT, SERVER, (0, 0), &[]).len();
    for (room, expected) in [(3, "new|trk|snat"), (2, "inv|trk")] {
        let stage = Stage::new();
        let mut payload = PORT.to_vec();
        payload.resize(Rewriter::MAX_FRAME_BYTES - room - headers_len, b'.');
        let frame = segment(CLIENT, SERVER, (100, 100), &payload);
        assert_eq!(pass(&stage, &frame, &source_nat(PUBLIC)).0, expected);
        let counters = stage.tracker.counters();
        assert_eq!(counters.announcements_too_long, u64::from(room < 3));
    }
}
