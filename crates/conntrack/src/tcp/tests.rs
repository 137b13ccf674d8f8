//! Tables of segments: who sends what, and what it means.

use proptest::prelude::*;

use super::flag::{ACK, FIN, PSH, RST, SYN};
use super::*;
use TcpState::{Closed, Closing, Established, FinWait2, SynSent, TimeWait};

mod stale;

const CLIENT: bool = false;
const SERVER: bool = true;

fn segment(flags: u8, sequence: u32, acknowledgment: u32, len: u32) -> Segment {
    Segment {
        sequence,
        acknowledgment,
        flags,
        window: 1_000,
        len,
        window_scale: None,
    }
}

const fn fits(timeout: Timeout) -> Judgement {
    Judgement::Fits(Some(timeout))
}

/// A row: the sender, flags, numbers relative to both first ones, length; then the judgement
/// and both states.
type Row = (bool, u8, (u32, u32), u32, Judgement, [TcpState; 2]);

/// Plays a table after a first SYN of the client, with several first numbers.
fn play(rows: &[Row]) {
    for (client, server) in [(1_000, 9_000), (u32::MAX, 0), (0x7fff_fff0, 0xffff_fff5)] {
        let mut peers = Peers::new(&segment(SYN, client, 0, 0));
        for (index, (is_server, flags, (own, other), len, judgement, states)) in
            rows.iter().enumerate()
        {
            let (ours, theirs) = if *is_server {
                (server, client)
            } else {
                (client, server)
            };
            let segment = segment(
                *flags,
                ours.wrapping_add(*own),
                theirs.wrapping_add(*other),
                *len,
            );
            let before = peers;
            assert_eq!(
                peers.update(&segment, *is_server, true),
                *judgement,
                "row {index}"
            );
            let shown = peers.shown().map(|peer| peer.state);
            assert_eq!(shown, *states, "row {index}");
            if matches!(judgement, Judgement::OutOfWindow | Judgement::BadFlags) {
                assert_eq!(peers, before, "invariant 2, row {index}");
            }
        }
    }
}

/// Opens the connection: the server is established when its SYN is acknowledged.
const OPENED: [Row; 2] = [
    (
        SERVER,
        SYN | ACK,
        (0, 1),
        0,
        fits(Timeout::TcpSynRecv),
        [Established, SynSent],
    ),
    (
        CLIENT,
        ACK,
        (1, 1),
        0,
        fits(Timeout::TcpEstablished),
        [Established; 2],
    ),
];

fn opened(rows: &[Row]) {
    play(&[&OPENED, rows].concat());
}

#[test]
fn peers_open_and_close() {
    opened(&[
        (
            CLIENT,
            ACK | PSH,
            (1, 1),
            10,
            fits(Timeout::TcpEstablished),
            [Established; 2],
        ),
        (
            SERVER,
            ACK,
            (1, 11),
            20,
            fits(Timeout::TcpEstablished),
            [Established; 2],
        ),
        (
            CLIENT,
            FIN | ACK,
            (11, 21),
            0,
            fits(Timeout::TcpFinWait),
            [Closing, Established],
        ),
        (
            SERVER,
            ACK,
            (21, 12),
            5,
            fits(Timeout::TcpFinWait),
            [FinWait2, Established],
        ),
        (
            SERVER,
            FIN | ACK,
            (26, 12),
            0,
            fits(Timeout::TcpTimeWait),
            [FinWait2, Closing],
        ),
        (
            CLIENT,
            ACK,
            (12, 27),
            0,
            fits(Timeout::TcpClose),
            [FinWait2, FinWait2],
        ),
        // A late acknowledgment is still welcome; a SYN begins the next connection.
        (
            SERVER,
            ACK,
            (27, 12),
            0,
            fits(Timeout::TcpClose),
            [FinWait2, FinWait2],
        ),
        (
            CLIENT,
            SYN,
            (5_000, 0),
            0,
            Judgement::Reopens,
            [FinWait2, FinWait2],
        ),
    ]);
}

#[test]
fn a_first_segment_may_be_repeated() {
    let repeats = Judgement::Repeats(Timeout::TcpSynSent);
    play(&[
        (CLIENT, SYN, (0, 0), 0, repeats, [SynSent, Closed]),
        // With another number, if the peer gave up the first attempt.
        (CLIENT, SYN, (0x9000_0000, 0), 0, repeats, [SynSent, Closed]),
        (
            SERVER,
            SYN | ACK,
            (0, 0x9000_0001),
            0,
            fits(Timeout::TcpSynRecv),
            [Established, SynSent],
        ),
        (
            CLIENT,
            ACK,
            (0x9000_0001, 1),
            10,
            fits(Timeout::TcpEstablished),
            [Established, Established],
        ),
    ]);
}

#[test]
fn a_refusal_ends_the_attempt() {
    play(&[
        (
            SERVER,
            RST | ACK,
            (0, 1),
            0,
            fits(Timeout::TcpClose),
            [TimeWait, TimeWait],
        ),
        (
            CLIENT,
            SYN,
            (7_000, 0),
            0,
            Judgement::Reopens,
            [TimeWait, TimeWait],
        ),
    ]);
}

#[test]
fn resets_name_the_next_byte() {
    opened(&[
        (
            CLIENT,
            ACK,
            (1, 1),
            10,
            fits(Timeout::TcpEstablished),
            [Established; 2],
        ),
        (
            CLIENT,
            RST,
            (9, 0),
            0,
            Judgement::OutOfWindow,
            [Established; 2],
        ),
        (
            CLIENT,
            RST,
            (13, 0),
            0,
            Judgement::OutOfWindow,
            [Established; 2],
        ),
        (
            SERVER,
            RST | ACK,
            (500, 11),
            0,
            Judgement::OutOfWindow,
            [Established; 2],
        ),
        (
            CLIENT,
            RST,
            (11, 0),
            0,
            fits(Timeout::TcpClose),
            [TimeWait, TimeWait],
        ),
    ]);
}

#[test]
fn windows_bound_what_is_sent_and_acknowledged() {
    let ok = fits(Timeout::TcpEstablished);
    let out = Judgement::OutOfWindow;
    opened(&[
        // Up to the window of the server, which it announced with its acknowledgment of 1.
        (CLIENT, ACK, (1, 1), 1_000, ok, [Established; 2]),
        (CLIENT, ACK, (1_001, 1), 1, out, [Established; 2]),
        (SERVER, ACK, (1, 1_001), 0, ok, [Established; 2]),
        (CLIENT, ACK, (1_001, 1), 1, ok, [Established; 2]),
        // At most one window back.
        (CLIENT, ACK, (2, 1), 10, ok, [Established; 2]),
        (CLIENT, ACK, (1, 1), 10, out, [Established; 2]),
        // Acknowledgments: 67,035 either way.
        (CLIENT, ACK, (1_002, 67_036), 0, ok, [Established; 2]),
        (CLIENT, ACK, (1_002, 67_038), 0, out, [Established; 2]),
        (
            CLIENT,
            ACK,
            (1_002, 1_u32.wrapping_sub(67_036)),
            0,
            out,
            [Established; 2],
        ),
    ]);
}

#[test]
fn scales_count_only_if_both_have_one() {
    for (client, server, reach) in [
        (Some(2), Some(3), 8_000),
        (None, Some(3), 1_000),
        (Some(2), None, 1_000),
        (Some(200), Some(200), 1_000 << 14),
    ] {
        let with = |flags, sequence, acknowledgment, window_scale| Segment {
            window_scale,
            ..segment(flags, sequence, acknowledgment, 0)
        };
        let mut peers = Peers::new(&with(SYN, 100, 0, client));
        peers.update(&with(SYN | ACK, 500, 101, server), SERVER, true);
        peers.update(&segment(ACK, 101, 501, 0), CLIENT, true);
        peers.update(&segment(ACK, 501, 101, 0), SERVER, true);
        let last = |len| segment(ACK, 101, 501, len);
        let mut copy = peers;
        assert_eq!(
            copy.update(&last(reach + 1), CLIENT, true),
            Judgement::OutOfWindow
        );
        assert_eq!(
            copy.update(&last(reach), CLIENT, true),
            fits(Timeout::TcpEstablished)
        );
        let scales = peers.shown().map(|peer| peer.window_scale);
        let expected = match (client, server) {
            (Some(client), Some(server)) => [client.min(14), server.min(14)],
            _ => [0, 0],
        };
        assert_eq!(scales, expected);
    }
}

/// RFC 7323 section 2.2: the windows of SYN and of its answer are not scaled.
#[test]
fn the_first_windows_are_not_scaled() {
    let with = |flags, sequence, acknowledgment, window_scale| Segment {
        window_scale,
        ..segment(flags, sequence, acknowledgment, 0)
    };
    let mut peers = Peers::new(&with(SYN, 100, 0, Some(3)));
    let answer = with(SYN | ACK, 500, 101, Some(3));
    assert_eq!(
        peers.update(&answer, SERVER, true),
        fits(Timeout::TcpSynRecv)
    );
    let data = |len| segment(ACK, 101, 501, len);
    let mut copy = peers;
    assert_eq!(
        copy.update(&data(1_001), CLIENT, true),
        Judgement::OutOfWindow
    );
    assert_eq!(
        peers.update(&data(1_000), CLIENT, true),
        fits(Timeout::TcpEstablished)
    );

    // A peer that answers without a scale gets the whole first window back.
    let mut peers = Peers::new(&with(SYN, 100, 0, Some(3)));
    peers.update(&with(SYN | ACK, 500, 101, None), SERVER, true);
    let first = segment(ACK, 501, 101, 1_000);
    assert_eq!(
        peers.update(&first, SERVER, true),
        fits(Timeout::TcpSynRecv)
    );
    let again = segment(ACK, 501, 101, 1);
    assert_eq!(
        peers.update(&again, SERVER, true),
        fits(Timeout::TcpSynRecv)
    );
}

#[test]
fn numbers_without_meaning_are_not_compared() {
    let mut peers = Peers::new(&segment(SYN, 0x4000_0000, 0, 0));
    peers.update(
        &segment(SYN | ACK, 0x5000_0000, 0x4000_0001, 0),
        SERVER,
        true,
    );
    peers.update(&segment(ACK, 0x4000_0001, 0x5000_0001, 0), CLIENT, true);
    // Without data, the sequence number.
    let mut copy = peers;
    let far = segment(ACK, 0x4010_0000, 0x5000_0001, 0);
    assert_eq!(
        copy.update(&far, CLIENT, true),
        fits(Timeout::TcpEstablished)
    );
    let old = segment(ACK, 0x3000_0000, 0x5000_0001, 0);
    assert_eq!(
        copy.update(&old, CLIENT, true),
        fits(Timeout::TcpEstablished)
    );
    let far = segment(ACK, 0x4010_0000, 0x5000_0001, 1);
    assert_eq!(copy.update(&far, CLIENT, true), Judgement::OutOfWindow);
    // Of a reset, an acknowledgment of 0, or one without its flag.
    for flags in [RST, RST | ACK] {
        let mut copy = peers;
        let reset = segment(flags, 0x5000_0001, 0, 0);
        assert_eq!(
            copy.update(&reset, SERVER, true),
            fits(Timeout::TcpClose),
            "{flags:#x}"
        );
    }
}

#[test]
fn what_comes_after_the_end_is_almost_inside() {
    let mut rows = OPENED.to_vec();
    rows.extend([
        (
            CLIENT,
            FIN | ACK,
            (1, 1),
            0,
            fits(Timeout::TcpFinWait),
            [Closing, Established],
        ),
        (
            SERVER,
            FIN | ACK,
            (1, 2),
            0,
            fits(Timeout::TcpTimeWait),
            [FinWait2, Closing],
        ),
        (
            CLIENT,
            ACK,
            (2, 2),
            0,
            fits(Timeout::TcpClose),
            [FinWait2, FinWait2],
        ),
        // Outside the window, but not far: neither refused, nor a longer life.
        (
            CLIENT,
            ACK,
            (2_000, 2),
            10,
            Judgement::Fits(None),
            [FinWait2, FinWait2],
        ),
        (
            CLIENT,
            ACK,
            (200_000, 2),
            10,
            Judgement::OutOfWindow,
            [FinWait2, FinWait2],
        ),
        (
            SERVER,
            RST,
            (500, 0),
            0,
            Judgement::Fits(None),
            [TimeWait, TimeWait],
        ),
    ]);
    play(&rows);
}

#[test]
fn a_fin_before_the_answer_is_almost_inside() {
    let ahead = Judgement::Fits(None);
    play(&[(CLIENT, FIN | ACK, (10, 1), 10, ahead, [Closing, Closed])]);
}

#[test]
fn the_first_answer_to_a_picked_up_stream_acknowledges_anything() {
    let mut peers = Peers::new(&segment(ACK, 5_000, 7_000, 10));
    let answer = segment(ACK, 7_000, 5_010 + 200_000, 10);
    assert_eq!(
        peers.update(&answer, SERVER, true),
        fits(Timeout::TcpSynRecv)
    );
    let next = segment(ACK, 7_010, 5_010 + 400_000, 10);
    assert_eq!(peers.update(&next, SERVER, true), Judgement::OutOfWindow);
}

#[test]
fn flags_without_sense_are_refused() {
    let bad = [
        SYN | FIN,
        SYN | RST,
        0,
        FIN,
        PSH,
        SYN | PSH,
        FIN | PSH,
        RST | FIN,
    ];
    for flags in bad {
        assert!(!segment(flags, 1, 1, 0).is_beginning(), "{flags:#x}");
        let mut peers = Peers::new(&segment(SYN, 1, 1, 0));
        assert_eq!(
            peers.update(&segment(flags, 1, 1, 0), CLIENT, true),
            Judgement::BadFlags,
            "{flags:#x}"
        );
    }
    for flags in [SYN, ACK, RST, RST | ACK, FIN | ACK] {
        assert!(segment(flags, 1, 1, 0).is_beginning(), "{flags:#x}");
    }
    assert!(!segment(SYN | ACK, 1, 1, 0).is_beginning());
}

#[test]
fn a_stream_without_beginning_is_liberal() {
    let peers = Peers::new(&segment(ACK, 5_000, 7_000, 10));
    let [client, server] = peers.shown();
    assert_eq!([client.flags, server.flags], [TcpPeerFlags::BE_LIBERAL; 2]);
    assert_eq!([client.state, server.state], [SynSent, Closed]);
}

fn any_segment() -> impl Strategy<Value = Segment> {
    let number = prop_oneof![0..3_u32, 0..200_000_u32, any::<u32>()];
    let flags = prop_oneof![
        Just(SYN),
        Just(SYN | ACK),
        Just(ACK),
        Just(FIN | ACK),
        any::<u8>()
    ];
    let scale = prop_oneof![Just(None), any::<u8>().prop_map(Some)];
    (
        flags,
        number.clone(),
        number,
        any::<u16>(),
        0..65_536_u32,
        scale,
    )
        .prop_map(
            |(flags, sequence, acknowledgment, window, len, window_scale)| Segment {
                sequence,
                acknowledgment,
                flags,
                window,
                len,
                window_scale,
            },
        )
}

/// The same segment with its numbers moved.
fn moved(segment: &Segment, own: u32, other: u32) -> Segment {
    Segment {
        sequence: segment.sequence.wrapping_add(own),
        acknowledgment: segment.acknowledgment.wrapping_add(other),
        ..*segment
    }
}

proptest! {
    /// Nothing overflows, refusals change nothing, and liberal mode refuses only flags.
    #[test]
    fn any_segments_are_judged(
        first in any_segment(),
        rest in prop::collection::vec((any_segment(), any::<bool>(), any::<bool>()), 0..30),
    ) {
        let mut peers = Peers::new(&first);
        for (segment, is_reply, checks) in rest {
            if segment.window % 8 == 0 {
                peers.set_stale();
            }
            let before = peers;
            let judgement = peers.update(&segment, is_reply, checks);
            if matches!(judgement, Judgement::OutOfWindow | Judgement::BadFlags) {
                prop_assert_eq!(peers, before);
            }
            prop_assert_eq!(judgement == Judgement::BadFlags, segment.has_bad_flags());
            prop_assert!(checks || judgement != Judgement::OutOfWindow);
        }
    }

    /// Invariant 1: only differences of sequence numbers count.
    ///
    /// Acknowledgments of 0 are left out: with a reset they have a meaning of their own.
    #[test]
    fn sequence_numbers_have_no_zero(
        rest in prop::collection::vec((any_segment(), any::<bool>()), 0..20),
        client in 1..u32::MAX,
        server in 1..u32::MAX,
    ) {
        let syn = segment(SYN, 0, 0, 0);
        let mut peers = Peers::new(&syn);
        let mut far = Peers::new(&moved(&syn, client, 0));
        let answer = segment(SYN | ACK, 0, 1, 0);
        prop_assert_eq!(
            peers.update(&answer, SERVER, true),
            far.update(&moved(&answer, server, client), SERVER, true)
        );
        for (segment, is_reply) in rest {
            let (own, other) = if is_reply { (server, client) } else { (client, server) };
            let there = moved(&segment, own, other);
            if segment.acknowledgment == 0 || there.acknowledgment == 0 {
                continue;
            }
            if segment.window % 8 == 0 {
                peers.set_stale();
                far.set_stale();
            }
            prop_assert_eq!(
                peers.update(&segment, is_reply, true),
                far.update(&there, is_reply, true)
            );
        }
    }
}
