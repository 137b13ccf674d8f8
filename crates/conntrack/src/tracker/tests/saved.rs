//! Connections that are saved, carried as bytes and resumed, against the tracker that kept them:
//! the same answers and the same bytes of every packet after that.

use proptest::prelude::*;

use super::*;
use crate::tests::{commit_nat, nat, packet};
use crate::{Alg, NotResumed, SavedConnection, TranslationKind};

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

/// A tracker with the connections of another, through their bytes.
fn resumed(stage: &Stage) -> Stage {
    let next = Stage {
        tracker: Tracker::new(Config {
            seed: 99,
            shard_count: 7,
            ..Config::default()
        }),
        now: stage.now,
    };
    let mut cursor = Some(Cursor::default());
    while let Some(place) = cursor {
        let (saved, following) = stage.tracker.saved(place, 5, stage.now);
        cursor = following;
        for saved in saved {
            let bytes = postcard::to_allocvec(&saved).expect("it has a form");
            let read: SavedConnection = postcard::from_bytes(&bytes).expect("it is whole");
            assert_eq!(read, saved);
            assert_eq!(next.tracker.resume(read.clone(), next.now), Ok(()));
            let again = next.tracker.resume(read, next.now);
            assert_eq!(again, Err(NotResumed::Taken), "invariant 2");
        }
    }
    next
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Invariant 1.
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
        let mut next = resumed(&kept);
        next.tracker.assert_whole();
        prop_assert_eq!(next.entries(), kept.entries());
        for step in &after {
            // The free port of a translation depends on the seed.
            if step.request == 1 {
                continue;
            }
            let frame = frame_of(step, &kept);
            let (expected, found) = (play(step, &frame, &mut kept), play(step, &frame, &mut next));
            prop_assert_eq!(expected, found, "{:?}", step);
            prop_assert_eq!(next.entries(), kept.entries());
        }
        next.tracker.assert_whole();
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
