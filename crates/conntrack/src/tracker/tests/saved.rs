//! Connections that are saved, carried as bytes and resumed, against the tracker that kept them:
//! the same answers and the same bytes of every packet after that. Those of TCP are compared with
//! what has come back once before, since their peers are stale; the twin in `reference.rs` says
//! what that means.

use proptest::prelude::*;

use super::*;
use crate::tests::{address, commit_nat, nat, packet};
use crate::{Alg, ConnectionEntry, NotResumed, SavedConnection, TranslationKind};

const HOSTS: [&str; 4] = ["10.0.0.1", "10.0.0.2", "fc00::1", "fc00::2"];
const PUBLIC: (&str, &str) = ("192.0.2.1", "192.0.2.2");

/// A packet, and what is asked of it.
#[derive(Clone, Debug)]
struct Step {
    is_ipv6: bool,
    is_back: bool,
    port: u16,
    kind: usize,
    flags: u8,
    numbers: (u32, u32),
    request: usize,
    wait_s: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let flags = prop_oneof![
        1 => Just(0x02_u8),
        1 => Just(0x12),
        4 => Just(0x10),
        1 => Just(0x11),
        1 => Just(0x14),
    ];
    let numbers = (0..3_000_u32, 0..3_000_u32);
    let when = (0..6_usize, prop_oneof![8 => Just(0), 1 => 0..100_u64]);
    let ends = (any::<bool>(), any::<bool>(), 1_000..1_004_u16, 0..3_usize);
    (ends, flags, numbers, when).prop_map(|(ends, flags, numbers, when)| Step {
        is_ipv6: ends.0,
        is_back: ends.1,
        port: ends.2,
        kind: ends.3,
        flags,
        numbers,
        request: when.0,
        wait_s: when.1,
    })
}

fn request_of(step: &Step) -> TrackRequest {
    let mark = Bits {
        value: u32::from(step.port),
        mask: 0xffff,
    };
    let label = Bits {
        value: u128::from(step.port) << 64 | 5,
        mask: u128::MAX,
    };
    match step.request {
        0 => TrackRequest {
            mark: Some(mark),
            label: Some(label),
            rule: 7,
            bucket: 8,
            ..commit(0)
        },
        1 if !step.is_ipv6 => commit_nat(
            TranslationKind::Source,
            Some(PUBLIC),
            crate::NatPorts::default(),
        ),
        2 => commit(3),
        3 => TrackRequest {
            alg: Some(Alg::Ftp),
            ..commit(0)
        },
        4 => look(),
        _ => nat(),
    }
}

/// The frame of a step; its way back goes to where the translated source is, if there is one.
fn frame_of(step: &Step, stage: &Stage) -> Vec<u8> {
    let hosts = if step.is_ipv6 {
        &HOSTS[2..]
    } else {
        &HOSTS[..2]
    };
    let there = tuple(hosts[0], step.port, hosts[1], 21);
    let there = match step.kind {
        0 => Tuple {
            protocol: protocol::TCP,
            ..there
        },
        1 => there,
        _ => crate::tests::echo_tuple(hosts[0], hosts[1], step.port),
    };
    let sent = match step.is_back {
        true => {
            let entries = stage.entries();
            let known = entries.iter().find(|entry| entry.original == there);
            known.map_or(there.reversed(), |entry| entry.reply)
        }
        false => there,
    };
    let builder = packet(&sent);
    let builder = match step.kind {
        0 => builder
            .tcp_flags(TcpFlags(step.flags.into()))
            .tcp_numbers(step.numbers.0, step.numbers.1)
            .tcp_window(4_000),
        _ => builder,
    };
    builder.build()
}

/// Sends a step's packet; returns the answer and the bytes that leave.
fn play(step: &Step, frame: &[u8], stage: &mut Stage) -> (Tracked, Vec<u8>) {
    stage.wait(step.wait_s);
    let mut frame = frame.to_vec();
    let tracked = stage.pass(&mut frame, &request_of(step), Previous::default());
    (tracked, frame)
}

/// The connections of a tracker as bytes.
fn saved(stage: &Stage) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut cursor = Some(Cursor::default());
    while let Some(place) = cursor {
        let (saved, following) = stage.tracker.saved(place, 5, stage.now);
        cursor = following;
        for saved in saved {
            let bytes = postcard::to_allocvec(&saved).expect("it has a form");
            let read: SavedConnection = postcard::from_bytes(&bytes).expect("it is whole");
            assert_eq!(read, saved);
            all.push(bytes);
        }
    }
    all
}

/// A tracker with the connections that were saved.
fn resumed(all: &[Vec<u8>], now: Instant) -> Stage {
    let next = Stage {
        tracker: Tracker::new(Config {
            seed: 99,
            shard_count: 7,
            ..Config::default()
        }),
        now,
    };
    for bytes in all {
        let read: SavedConnection = postcard::from_bytes(bytes).expect("it is whole");
        assert_eq!(next.tracker.resume(read.clone(), next.now), Ok(()));
        let again = next.tracker.resume(read, next.now);
        assert_eq!(again, Err(NotResumed::Taken), "invariant 2");
    }
    next
}

/// The connections of a stage that are not of TCP.
fn without_tcp(stage: &Stage) -> Vec<ConnectionEntry> {
    let mut entries = stage.entries();
    entries.retain(|entry| entry.original.protocol != protocol::TCP);
    entries
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Invariants 1 and 4.
    #[test]
    fn resumed_connections_answer_as_the_kept_ones(
        before in prop::collection::vec(step(), 1..40),
        after in prop::collection::vec(step(), 1..40),
    ) {
        let mut kept = Stage::new();
        for step in &before {
            let frame = frame_of(step, &kept);
            play(step, &frame, &mut kept);
        }
        let mut next = resumed(&saved(&kept), kept.now);
        let mut again = resumed(&saved(&next), kept.now);
        for stage in [&next, &again] {
            stage.tracker.assert_whole();
            prop_assert_eq!(stage.entries(), kept.entries());
        }
        for step in &after {
            // The free port of a translation depends on the seed.
            if step.request == 1 {
                continue;
            }
            let frame = frame_of(step, &next);
            let (expected, found) = (play(step, &frame, &mut next), play(step, &frame, &mut again));
            prop_assert_eq!(&expected, &found, "{:?}", step);
            prop_assert_eq!(next.entries(), again.entries());
            let found = play(step, &frame, &mut kept);
            prop_assert!(step.kind == 0 || expected == found, "{:?}", step);
            prop_assert_eq!(without_tcp(&next), without_tcp(&kept));
        }
        next.tracker.assert_whole();
        again.tracker.assert_whole();
    }

    /// Invariant 4: what fits the tracker that saw all fits one that missed a part.
    #[test]
    fn segments_after_a_gap_fit(
        before in 0..100_000_000_u32,
        missed in any::<[u32; 2]>(),
        lens in prop::collection::vec((any::<bool>(), 0..400_u32), 1..30),
        waited_s in 0..1_000_u64,
    ) {
        let mut session = Session::open(before);
        session.restart(missed);
        session.stage.wait(waited_s);
        for (is_server, len) in lens {
            let (state, _) = session.send(is_server, TcpFlags::ACK, len);
            let expected = ["est|trk|snat", "est|rpl|trk|dnat"][usize::from(is_server)];
            prop_assert_eq!(state, expected);
        }
    }
}

#[test]
fn what_is_over_or_has_no_room_is_not_resumed() {
    let mut stage = Stage::new();
    stage.send(&udp("10.0.0.1", 1, "10.0.0.2", 2), &commit(0));
    let (saved, _) = stage.tracker.saved(Cursor::default(), 1_000_000, stage.now);
    let saved = saved.first().expect("it was committed").clone();
    let config = Config {
        max_connections: 0,
        evicts_when_full: false,
        ..Config::default()
    };
    let full = Stage::with(config);
    let refused = full.tracker.resume(saved.clone(), stage.now);
    assert_eq!(refused, Err(NotResumed::Full));
    stage.wait(60);
    let next = Stage::new();
    assert_eq!(next.tracker.resume(saved, stage.now), Err(NotResumed::Over));
    assert_eq!(next.tracker.connection_count(), 0);
}

/// A TCP session through a translated source, whose hosts acknowledge at once.
struct Session {
    stage: Stage,
    /// What the client and the server send next.
    next: [u32; 2],
}

impl Session {
    fn open(first: u32) -> Session {
        let mut session = Session {
            stage: Stage::new(),
            next: [first, first.wrapping_mul(7)],
        };
        assert_eq!(session.send(CLIENT, TcpFlags::SYN, 0).0, "new|trk|snat");
        assert_eq!(session.send(SERVER, SYN_ACK, 0).0, "est|rpl|trk|dnat");
        session.data(&[CLIENT, SERVER]);
        session
    }

    /// Sends a segment; returns its state and the tuple with which it leaves.
    fn send(&mut self, is_server: bool, flags: TcpFlags, len: u32) -> (String, Tuple) {
        let (at, other) = (usize::from(is_server), usize::from(!is_server));
        let ends = match is_server {
            false => ("10.0.0.1", 1_000, "10.0.0.2", 80),
            true => ("10.0.0.2", 80, PUBLIC.0, 1_000),
        };
        let numbers = (self.next[at], self.next[other]);
        let mut frame = Tcp {
            ends,
            flags,
            numbers,
            window: 16_000,
            options: &[],
            len: len as usize,
        }
        .build();
        let controls = u32::from(flags.0 & (TcpFlags::SYN.0 | TcpFlags::FIN.0) != 0);
        self.next[at] = numbers.0.wrapping_add(len + controls);
        let request = match flags {
            TcpFlags::SYN => commit_nat(
                TranslationKind::Source,
                Some((PUBLIC.0, PUBLIC.0)),
                crate::NatPorts::default(),
            ),
            _ => nat(),
        };
        let tracked = self.stage.pass(&mut frame, &request, Previous::default());
        (text(tracked.state), tuple_of(&frame))
    }

    /// Sends data, which fits and is translated.
    fn data(&mut self, senders: &[bool]) {
        for is_server in senders {
            let (state, leaving) = self.send(*is_server, TcpFlags::ACK, 100);
            let (expected, source, destination) = match is_server {
                false => ("est|trk|snat", PUBLIC.0, "10.0.0.2"),
                true => ("est|rpl|trk|dnat", "10.0.0.2", "10.0.0.1"),
            };
            let addresses = [leaving.source.address, leaving.destination.address];
            assert_eq!(state, expected);
            assert_eq!(addresses, [address(source), address(destination)]);
        }
    }

    /// Takes the tracker's state away and brings it back after `missed` bytes of both hosts.
    fn restart(&mut self, missed: [u32; 2]) {
        let bytes = saved(&self.stage);
        for (next, missed) in self.next.iter_mut().zip(missed) {
            *next = next.wrapping_add(missed);
        }
        self.stage = resumed(&bytes, self.stage.now);
    }
}

const CLIENT: bool = false;
const SERVER: bool = true;

/// Invariant 4.
#[test]
fn a_session_goes_on_after_megabytes_that_were_missed() {
    for first in [CLIENT, SERVER] {
        let mut session = Session::open(4_000_000_000);
        session.restart([50_000_000, 900_000_000]);
        session.data(&[first, first, !first, first]);
        let established = TcpState::Established;
        assert_eq!(
            tcp_states(&session.stage),
            (established, established, 86_400)
        );
        for is_server in [CLIENT, SERVER] {
            let at = usize::from(is_server);
            let next = session.next[at];
            session.next[at] = next.wrapping_add(40_000);
            assert_eq!(session.send(is_server, TcpFlags::ACK, 1).0, "inv|trk");
            session.next[at] = next;
        }
        session.data(&[CLIENT, SERVER]);
    }
}

/// A peer that was silent since the last start is stale after the next one too.
#[test]
fn a_peer_may_be_silent_over_two_restarts() {
    let mut session = Session::open(5);
    session.restart([80_000_000, 0]);
    session.restart([0, 80_000_000]);
    session.data(&[SERVER, CLIENT, SERVER]);
}

/// A session that ended in the gap still looks established, and its ports may be used again.
#[test]
fn a_syn_begins_the_next_session_after_a_restart() {
    let mut session = Session::open(5);
    session.restart([0, 0]);
    session.next = [3_000_000_000, 70];
    assert_eq!(session.send(CLIENT, TcpFlags::SYN, 0).0, "new|trk|snat");
    assert_eq!(session.stage.tracker.connection_count(), 1);
    assert_eq!(session.send(SERVER, SYN_ACK, 0).0, "est|rpl|trk|dnat");
    session.data(&[CLIENT, SERVER]);
    session.next[0] = 5;
    assert_eq!(session.send(CLIENT, TcpFlags::SYN, 0).0, "inv|trk");
}
