//! Scenarios: packets in, states and entries out.

use thalweg_packet::wire::TcpFlags;

use super::*;
use crate::entry::{OtherState, ProtocolState, TcpState};
use crate::table::bytes_per_connection;
use crate::tests::{Stage, Tcp, after, commit, echo, error, text, tuple, tuple_of, udp};
use crate::{Bits, Expectation, ZoneLimit, protocol};

mod control;
mod limits;
#[cfg(thalweg_model)]
mod model;
mod saved;
mod sessions;
mod translation;

const SYN_ACK: TcpFlags = TcpFlags(TcpFlags::SYN.0 | TcpFlags::ACK.0);
const FIN_ACK: TcpFlags = TcpFlags(TcpFlags::FIN.0 | TcpFlags::ACK.0);

fn look() -> TrackRequest {
    TrackRequest::default()
}

/// The state of a packet that is looked up only.
fn state(stage: &Stage, frame: &[u8]) -> String {
    text(stage.send(frame, &look()).state)
}

#[test]
fn a_connection_is_small() {
    let bytes = bytes_per_connection();
    assert!(bytes < 400, "{bytes} bytes");
}

#[test]
fn udp_is_new_until_it_is_answered() {
    let mut stage = Stage::new();
    let (there, back) = (
        udp("10.0.0.1", 5, "10.0.0.2", 6),
        udp("10.0.0.2", 6, "10.0.0.1", 5),
    );
    assert_eq!(state(&stage, &there), "new|trk");
    assert_eq!(stage.tracker.connection_count(), 0, "nothing was committed");
    assert_eq!(text(stage.send(&there, &commit(0)).state), "new|trk");
    let other_state = |stage: &Stage| match stage.entries()[0].protocol {
        ProtocolState::Other(state) => (state, stage.entries()[0].timeout_s),
        other => panic!("{other:?}"),
    };
    assert_eq!(other_state(&stage), (OtherState::First, 60));
    assert_eq!(state(&stage, &there), "new|trk");
    assert_eq!(other_state(&stage), (OtherState::Multiple, 60));
    assert_eq!(state(&stage, &back), "est|rpl|trk");
    assert_eq!(other_state(&stage), (OtherState::Bidirectional, 30));
    assert_eq!(state(&stage, &there), "est|trk");
    stage.wait(29);
    assert_eq!(stage.entries()[0].timeout_s, 1);
    stage.wait(1);
    assert_eq!(stage.entries(), [], "invariant 4");
    assert_eq!(state(&stage, &back), "new|trk");
}

#[test]
fn an_echo_is_tracked_by_its_identifier() {
    for (a, b) in [("10.0.0.1", "10.0.0.2"), ("fc00::1", "fc00::2")] {
        let stage = Stage::new();
        assert_eq!(
            state(&stage, &echo(a, b, 7, true)),
            "inv|trk",
            "an answer begins nothing"
        );
        assert_eq!(
            text(stage.send(&echo(a, b, 7, false), &commit(0)).state),
            "new|trk"
        );
        assert_eq!(state(&stage, &echo(a, b, 7, false)), "new|trk");
        assert_eq!(state(&stage, &echo(b, a, 8, true)), "inv|trk");
        assert_eq!(state(&stage, &echo(b, a, 7, true)), "est|rpl|trk");
        assert_eq!(state(&stage, &echo(a, b, 7, false)), "est|trk");
        assert_eq!(
            state(&stage, &echo(b, a, 7, false)),
            "new|trk",
            "the other's own echo"
        );
    }
}

fn from_client(flags: TcpFlags, numbers: (u32, u32), len: usize) -> Vec<u8> {
    Tcp {
        flags,
        numbers,
        len,
        ..Tcp::default()
    }
    .build()
}

fn from_server(flags: TcpFlags, numbers: (u32, u32), len: usize) -> Vec<u8> {
    Tcp {
        ends: ("10.0.0.2", 80, "10.0.0.1", 1000),
        flags,
        numbers,
        len,
        ..Tcp::default()
    }
    .build()
}

/// Opens a connection whose sequence numbers begin at the given ones.
fn open(stage: &Stage, request: &TrackRequest, client: u32, server: u32) {
    let (client_next, server_next) = (client.wrapping_add(1), server.wrapping_add(1));
    let syn = from_client(TcpFlags::SYN, (client, 0), 0);
    assert_eq!(text(stage.send(&syn, request).state), "new|trk");
    let syn_ack = from_server(SYN_ACK, (server, client_next), 0);
    assert_eq!(state(stage, &syn_ack), "est|rpl|trk");
    let ack = from_client(TcpFlags::ACK, (client_next, server_next), 0);
    assert_eq!(state(stage, &ack), "est|trk");
}

fn tcp_states(stage: &Stage) -> (TcpState, TcpState, u32) {
    let entry = &stage.entries()[0];
    match entry.protocol {
        ProtocolState::Tcp { original, reply } => (original.state, reply.state, entry.timeout_s),
        other => panic!("{other:?}"),
    }
}

#[test]
fn tcp_opens_and_closes() {
    let stage = Stage::new();
    assert_eq!(state(&stage, &from_server(SYN_ACK, (1, 1), 0)), "inv|trk");
    // The numbers wrap in the middle of the first segment.
    let (client, server) = (u32::MAX - 3, u32::MAX);
    open(&stage, &commit(0), client, server);
    assert_eq!(
        tcp_states(&stage),
        (TcpState::Established, TcpState::Established, 86_400)
    );
    let (mut client, server) = (client.wrapping_add(1), server.wrapping_add(1));
    let data = from_client(TcpFlags::ACK, (client, server), 100);
    assert_eq!(state(&stage, &data), "est|trk");
    assert_eq!(state(&stage, &data), "est|trk", "sent again");
    client = client.wrapping_add(100);
    assert_eq!(
        state(&stage, &from_server(TcpFlags::ACK, (server, client), 0)),
        "est|rpl|trk"
    );
    assert_eq!(
        state(&stage, &from_client(FIN_ACK, (client, server), 0)),
        "est|trk"
    );
    assert_eq!(
        tcp_states(&stage),
        (TcpState::Closing, TcpState::Established, 900)
    );
    client = client.wrapping_add(1);
    assert_eq!(
        state(&stage, &from_server(FIN_ACK, (server, client), 0)),
        "est|rpl|trk"
    );
    assert_eq!(
        tcp_states(&stage),
        (TcpState::FinWait2, TcpState::Closing, 45)
    );
    let last = from_client(TcpFlags::ACK, (client, server.wrapping_add(1)), 0);
    assert_eq!(state(&stage, &last), "est|trk");
    assert_eq!(
        tcp_states(&stage),
        (TcpState::FinWait2, TcpState::FinWait2, 30)
    );
    // The next connection of the same ports begins in the place of the old one.
    let syn = from_client(TcpFlags::SYN, (77, 0), 0);
    assert_eq!(state(&stage, &syn), "new|trk");
    assert_eq!(
        (stage.entries().len(), stage.tracker.counters().replaced),
        (0, 1)
    );
    open(&stage, &commit(0), 77, 99);
    assert_eq!(stage.tracker.connection_count(), 1);
}

/// Both peers send a SYN before they see the other's (RFC 9293, section 3.5).
#[test]
fn peers_that_open_at_the_same_time_are_established() {
    let (client, server) = (u32::MAX, 7_000);
    let stage = Stage::new();
    let syn = from_client(TcpFlags::SYN, (client, 0), 0);
    assert_eq!(text(stage.send(&syn, &commit(0)).state), "new|trk");
    let other = from_server(TcpFlags::SYN, (server, 0), 0);
    assert_eq!(state(&stage, &other), "new|trk", "as in Open vSwitch");
    let (client_next, server_next) = (client.wrapping_add(1), server + 1);
    let answer = from_client(SYN_ACK, (client, server_next), 0);
    assert_eq!(state(&stage, &answer), "est|trk");
    let answer = from_server(SYN_ACK, (server, client_next), 0);
    assert_eq!(state(&stage, &answer), "est|rpl|trk");
    let established = (TcpState::Established, TcpState::Established, 86_400);
    assert_eq!(tcp_states(&stage), established);
    let data = from_client(TcpFlags::ACK, (client_next, server_next), 500);
    assert_eq!(state(&stage, &data), "est|trk");
    let data = from_server(TcpFlags::ACK, (server_next, client_next + 500), 500);
    assert_eq!(state(&stage, &data), "est|rpl|trk");
    let far = from_server(TcpFlags::ACK, (server_next + 100_000, client_next), 1);
    assert_eq!(state(&stage, &far), "inv|trk");
}

/// A blind reset (RFC 5961, section 3): no number but the next expected one, or one beside it,
/// ends a connection, from either end, with an acknowledgment or without.
#[test]
fn resets_that_guess_a_number_end_nothing() {
    let stage = Stage::new();
    let (client, server) = (u32::MAX - 500, 5_000);
    open(&stage, &commit(0), client, server);
    let (client_next, server_next) = (client + 1, server + 1);
    let data = from_client(TcpFlags::ACK, (client_next, server_next), 1_000);
    assert_eq!(state(&stage, &data), "est|trk");
    let client_next = client_next.wrapping_add(1_000);
    let before = stage.entries();
    // In the window and outside of it, by steps smaller than any window.
    let guesses = (0..1_000_000)
        .map(|step: u32| step.wrapping_mul(4_294))
        .chain([
            client_next.wrapping_add(2),
            client_next.wrapping_sub(2),
            client_next.wrapping_add(4_000),
        ]);
    let mut refused = 0;
    for guess in guesses {
        let is_near = |next: u32| guess.wrapping_sub(next).wrapping_add(1) <= 2;
        if is_near(client_next) || is_near(server_next) {
            continue;
        }
        for frame in [
            from_client(TcpFlags::RST, (guess, 0), 0),
            from_server(TcpFlags(0x14), (guess, client_next), 0),
        ] {
            assert_eq!(state(&stage, &frame), "inv|trk", "{guess}");
            refused += 1;
        }
    }
    assert_eq!(stage.entries(), before, "invariant 6");
    assert_eq!(stage.tracker.counters().out_of_window, refused);
    let reset = from_server(TcpFlags::RST, (server_next, 0), 0);
    assert_eq!(state(&stage, &reset), "est|rpl|trk");
    assert_eq!(tcp_states(&stage).0, TcpState::TimeWait);
}

#[test]
fn segments_outside_the_window_are_invalid_unless_allowed() {
    let stage = Stage::new();
    open(&stage, &commit(0), 1_000, 5_000);
    let before = stage.entries();
    for (sequence, len) in [
        (1_001 + 8_000, 1),
        (1_001 + 100_000, 0x100),
        (0x8000_0000, 10),
    ] {
        let wrong = from_client(TcpFlags::ACK, (sequence, 5_001), len);
        assert_eq!(state(&stage, &wrong), "inv|trk", "{sequence}");
    }
    let acknowledges_too_much = from_client(TcpFlags::ACK, (1_001, 5_001 + 100_000), 1);
    assert_eq!(state(&stage, &acknowledges_too_much), "inv|trk");
    assert_eq!(stage.entries(), before, "invariant 6");
    assert_eq!(stage.tracker.counters().out_of_window, 4);
    let far = from_client(TcpFlags::ACK, (0x8000_0000, 5_001), 10);
    stage.tracker.set_tcp_sequence_checks(false);
    assert!(!stage.tracker.tcp_sequence_checks());
    assert_eq!(state(&stage, &far), "est|trk");
}

/// RFC 5961 section 3: a reset by an attacker who does not know the next number.
#[test]
fn a_reset_must_name_the_next_byte() {
    let stage = Stage::new();
    open(&stage, &commit(0), 1_000, 5_000);
    for sequence in [1_003, 998, 1_001 + 4_000, 0] {
        let reset = from_client(TcpFlags::RST, (sequence, 0), 0);
        assert_eq!(state(&stage, &reset), "inv|trk", "{sequence}");
    }
    assert_eq!(tcp_states(&stage).0, TcpState::Established);
    assert_eq!(
        state(&stage, &from_client(TcpFlags::RST, (1_001, 0), 0)),
        "est|trk"
    );
    assert_eq!(
        tcp_states(&stage),
        (TcpState::TimeWait, TcpState::TimeWait, 30)
    );
}

#[test]
fn both_peers_may_open_at_once() {
    let stage = Stage::new();
    let syn = from_client(TcpFlags::SYN, (1_000, 0), 0);
    assert_eq!(text(stage.send(&syn, &commit(0)).state), "new|trk");
    // The second SYN comes before the peer has seen the first.
    let other_syn = from_server(TcpFlags::SYN, (0x9000_0000, 0), 0);
    assert_eq!(state(&stage, &other_syn), "new|trk");
    let other_answer = from_server(SYN_ACK, (0x9000_0000, 1_001), 0);
    assert_eq!(state(&stage, &other_answer), "est|rpl|trk");
    let answer = from_client(SYN_ACK, (1_000, 0x9000_0001), 0);
    assert_eq!(state(&stage, &answer), "est|trk");
    assert_eq!(
        tcp_states(&stage),
        (TcpState::Established, TcpState::Established, 86_400)
    );
    let data = from_server(TcpFlags::ACK, (0x9000_0001, 1_001), 50);
    assert_eq!(state(&stage, &data), "est|rpl|trk");
}

#[test]
fn a_stream_is_picked_up_in_the_middle() {
    let stage = Stage::new();
    let middle = from_client(TcpFlags::ACK, (70_000, 90_000), 10);
    assert_eq!(text(stage.send(&middle, &commit(0)).state), "new|trk");
    assert_eq!(
        state(&stage, &from_server(TcpFlags::ACK, (90_000, 70_010), 20)),
        "est|rpl|trk"
    );
    assert_eq!(
        state(&stage, &from_client(TcpFlags::ACK, (70_010, 90_020), 10)),
        "est|trk"
    );
    // Without known scales the windows are the largest, but not endless.
    let far = from_client(TcpFlags::ACK, (70_000 + 0x4000_0000, 90_020), 10);
    assert_eq!(state(&stage, &far), "inv|trk");
}

#[test]
fn flags_that_no_peer_sends_are_invalid() {
    let stage = Stage::new();
    for flags in [
        TcpFlags(TcpFlags::SYN.0 | TcpFlags::FIN.0),
        TcpFlags(TcpFlags::SYN.0 | TcpFlags::RST.0),
        TcpFlags(0),
        TcpFlags::FIN,
        TcpFlags(TcpFlags::SYN.0 | TcpFlags::PSH.0),
    ] {
        assert_eq!(
            state(&stage, &from_client(flags, (1, 1), 0)),
            "inv|trk",
            "{flags:?}"
        );
    }
}

#[test]
fn an_icmp_error_is_related_to_what_it_embeds() {
    for (a, b, router) in [
        ("10.0.0.1", "10.0.0.2", "10.9.9.9"),
        ("fc00::1", "fc00::2", "fc99::9"),
    ] {
        let stage = Stage::new();
        let (there, back) = (udp(a, 5, b, 6), udp(b, 6, a, 5));
        assert_eq!(state(&stage, &error(router, &there, 1_000)), "inv|trk");
        assert_eq!(stage.tracker.counters().unrelated_icmp_errors, 1);
        let request = TrackRequest {
            mark: Some(Bits {
                value: 9,
                mask: 0xf,
            }),
            ..commit(0)
        };
        stage.send(&there, &request);
        let tracked = stage.send(&error(router, &there, 1_000), &look());
        assert_eq!(text(tracked.state), "rel|rpl|trk");
        assert_eq!(
            (tracked.mark, tracked.original),
            (9, Some(tuple_of(&there)))
        );
        assert_eq!(state(&stage, &error(router, &back, 1_000)), "rel|trk");
        // The error has not answered, and has not extended the connection's life.
        assert_eq!(state(&stage, &there), "new|trk");
    }
}

#[test]
fn zones_are_apart_and_each_judges_once() {
    let stage = Stage::new();
    let frame = udp("10.0.0.1", 5, "10.0.0.2", 6);
    let first = stage.send(&frame, &commit(1));
    assert_eq!((first.zone, text(first.state)), (1, "new|trk".to_owned()));
    assert_eq!(
        stage.entries()[0].protocol,
        ProtocolState::Other(OtherState::First)
    );
    // The same zone does not count the packet again.
    let zone = |zone| TrackRequest { zone, ..look() };
    let second = stage.pass(&mut frame.clone(), &zone(1), after(&first));
    assert_eq!(second, first);
    assert_eq!(
        stage.entries()[0].protocol,
        ProtocolState::Other(OtherState::First)
    );
    let third = stage.pass(&mut frame.clone(), &zone(2), after(&second));
    assert_eq!((third.zone, text(third.state)), (2, "new|trk".to_owned()));
    assert_eq!(stage.entries().len(), 1);
    // Another packet does count.
    stage.send(&frame, &zone(1));
    assert_eq!(
        stage.entries()[0].protocol,
        ProtocolState::Other(OtherState::Multiple)
    );
}

#[test]
fn marks_and_labels_change_under_their_masks() {
    let stage = Stage::new();
    let frame = udp("10.0.0.1", 5, "10.0.0.2", 6);
    let write = |mark, label| TrackRequest {
        mark: Some(mark),
        label: Some(label),
        ..commit(0)
    };
    let (mark, label) = (
        Bits {
            value: 0x50,
            mask: 0xf0,
        },
        Bits {
            value: 1_u128 << 100,
            mask: 1 << 100,
        },
    );
    let uncommitted = TrackRequest {
        is_commit: false,
        ..write(mark, label)
    };
    let tracked = stage.send(&frame, &uncommitted);
    assert_eq!(
        (tracked.mark, tracked.label),
        (0, 0),
        "no connection to write on"
    );
    let tracked = stage.send(&frame, &write(mark, label));
    assert_eq!((tracked.mark, tracked.label), (0x50, 1 << 100));
    let (mark, label) = (
        Bits {
            value: 2,
            mask: 0xf,
        },
        Bits { value: 7, mask: 7 },
    );
    let tracked = stage.send(&frame, &write(mark, label));
    assert_eq!((tracked.mark, tracked.label), (0x52, (1 << 100) | 7));
    let entry = &stage.entries()[0];
    assert_eq!((entry.mark, entry.label), (0x52, (1 << 100) | 7));
}

#[test]
fn a_forced_commit_turns_a_connection_around() {
    let stage = Stage::new();
    let (there, back) = (
        udp("10.0.0.1", 5, "10.0.0.2", 6),
        udp("10.0.0.2", 6, "10.0.0.1", 5),
    );
    stage.send(&there, &commit(0));
    let forced = TrackRequest {
        is_forced: true,
        ..commit(0)
    };
    assert_eq!(text(stage.send(&there, &forced).state), "new|trk");
    assert_eq!(
        stage.entries()[0].original,
        tuple_of(&there),
        "it has this direction"
    );
    assert_eq!(text(stage.send(&back, &forced).state), "new|trk");
    assert_eq!(stage.entries().len(), 1);
    assert_eq!(stage.entries()[0].original, tuple_of(&back));
    assert_eq!(stage.tracker.counters().replaced, 1);
}

#[test]
fn what_was_refused_before_stays_invalid() {
    let stage = Stage::new();
    let frame = udp("10.0.0.1", 5, "10.0.0.2", 6);
    let refused = Previous {
        state: CtState::INVALID,
        zone: 0,
    };
    let tracked = stage.pass(&mut frame.clone(), &commit(0), refused);
    assert_eq!(tracked, invalid(0));
    assert_eq!(stage.tracker.connection_count(), 0);
}

#[test]
fn a_packet_to_itself_is_one_connection() {
    let stage = Stage::new();
    let frame = udp("10.0.0.1", 5, "10.0.0.1", 5);
    assert_eq!(text(stage.send(&frame, &commit(0)).state), "new|trk");
    assert_eq!(state(&stage, &frame), "new|trk");
    assert_eq!(stage.entries().len(), 1);
    assert_eq!(stage.tracker.flush(FlushFilter::All), 1);
    assert_eq!(
        (state(&stage, &frame), stage.entries().len()),
        ("new|trk".to_owned(), 0)
    );
}

#[test]
fn announced_connections_are_related_and_inherit() {
    let mut stage = Stage::new();
    open(&stage, &commit(0), 1, 1);
    let parent = stage.entries()[0].original;
    let data = |port| Tcp {
        ends: ("10.0.0.2", port, "10.0.0.1", 4_000),
        flags: TcpFlags::SYN,
        ..Tcp::default()
    };
    assert_eq!(state(&stage, &data(20).build()), "new|trk");
    let expected = Expectation {
        tuple: Tuple {
            protocol: 6,
            ..tuple("10.0.0.2", 0, "10.0.0.1", 4_000)
        },
        parent,
        source: None,
        destination: None,
        mark: 5,
        label: 6,
    };
    assert!(stage.tracker.expect(expected, stage.now));
    let tracked = stage.send(&data(20).build(), &look());
    assert_eq!(text(tracked.state), "new|rel|trk");
    assert_eq!(
        (tracked.mark, tracked.label, tracked.original),
        (5, 6, Some(parent))
    );
    let request = TrackRequest {
        mark: Some(Bits {
            value: 99,
            mask: 99,
        }),
        ..commit(0)
    };
    let tracked = stage.send(&data(21).build(), &request);
    assert_eq!(
        (text(tracked.state), tracked.mark),
        ("new|rel|trk".to_owned(), 5)
    );
    let child = stage
        .entries()
        .into_iter()
        .find(|entry| entry.parent.is_some());
    assert_eq!(child.expect("the child").parent, Some(parent));
    assert_eq!(state(&stage, &data(21).build()), "new|rel|trk");
    stage.wait(299);
    assert_eq!(state(&stage, &data(22).build()), "new|rel|trk");
    stage.wait(1);
    assert_eq!(
        state(&stage, &data(22).build()),
        "new|trk",
        "it waited too long"
    );
}
