//! Scenarios of full tables, time-outs, flushes and dumps.

use std::net::Ipv4Addr;

use super::*;
use crate::tests::{commit_nat, nat, packet};
use crate::{Alg, Endpoint, Timeout, TimeoutPolicy, TranslationKind};

fn from(port: u16) -> Vec<u8> {
    udp("10.0.0.1", port, "10.0.0.2", 80)
}

fn to(port: u16) -> Vec<u8> {
    udp("10.0.0.2", 80, "10.0.0.1", port)
}

fn ports(stage: &Stage) -> Vec<u16> {
    let entries = stage.entries();
    entries
        .iter()
        .map(|entry| entry.original.source.port)
        .collect()
}

fn small(evicts_when_full: bool) -> Stage {
    Stage::with(Config {
        shard_count: 1,
        max_connections: 3,
        evicts_when_full,
        ..Config::default()
    })
}

#[test]
fn a_full_table_refuses_or_ends_the_oldest_without_reply() {
    let stage = small(false);
    for port in 1..=4 {
        assert_eq!(text(stage.send(&from(port), &commit(0)).state), "new|trk");
    }
    assert_eq!(
        (ports(&stage), stage.tracker.counters().table_full),
        (vec![1, 2, 3], 1)
    );
    stage.tracker.set_max_connections(4);
    assert_eq!(stage.tracker.max_connections(), 4);
    stage.send(&from(4), &commit(0));
    assert_eq!(ports(&stage), [1, 2, 3, 4]);

    let stage = small(true);
    for port in 1..=3 {
        stage.send(&from(port), &commit(0));
    }
    stage.send(&to(1), &commit(0));
    stage.send(&from(4), &commit(0));
    assert_eq!(
        ports(&stage),
        [1, 3, 4],
        "1 has a reply, 2 was the oldest without"
    );
    for port in [3, 4] {
        stage.send(&to(port), &commit(0));
    }
    stage.send(&from(5), &commit(0));
    assert_eq!(ports(&stage), [1, 3, 4], "all have replies");
    let counters = stage.tracker.counters();
    assert_eq!((counters.evicted, counters.table_full), (1, 1));
}

/// A scan fills what room there is, and ends itself; those who talk go on.
#[test]
fn a_scan_of_a_million_tuples_ends_no_connection_with_a_reply() {
    const TALKING: u16 = 1_000;
    const SCANNED: u32 = 1_000_000;
    let stage = Stage::with(Config {
        max_connections: 4_096,
        ..Config::default()
    });
    for port in 1..=TALKING {
        stage.send(&from(port), &commit(0));
        stage.send(&to(port), &commit(0));
    }
    let scanner = tuple("10.9.9.9", 1, "10.0.0.2", 1);
    let mut frame = packet(&scanner).build();
    let headers = Headers::parse(&frame).expect("a frame");
    for target in 0..SCANNED {
        // The destination of IPv4 and both sums: the tracker sees what a scanner sends.
        let next = Tuple {
            destination: Endpoint {
                address: Ipv4Addr::from(0x0b00_0000 + target / 60_000).to_ipv6_mapped(),
                port: 1 + (target % 60_000) as u16,
            },
            ..scanner
        };
        let (request, previous) = (commit(0), Previous::default());
        frame.copy_from_slice(&packet(&next).build());
        let tracked = stage
            .tracker
            .track(&mut frame, &headers, &request, previous, stage.now, 0);
        assert!(tracked.state.has(CtState::NEW));
        assert!(stage.tracker.connection_count() <= 4_096);
    }
    for port in 1..=TALKING {
        assert_eq!(state(&stage, &from(port)), "est|trk", "{port}");
    }
    let counters = stage.tracker.counters();
    let scanned = u64::from(SCANNED);
    assert_eq!(counters.committed, scanned + u64::from(TALKING));
    assert_eq!(counters.evicted, scanned + u64::from(TALKING) - 4_096);
    stage.tracker.assert_whole();
}

#[test]
fn a_full_table_gives_up_what_is_over_first() {
    let mut stage = small(true);
    stage.send(&from(1), &commit(0));
    stage.send(&to(1), &commit(0));
    stage.wait(29);
    stage.send(&from(2), &commit(0));
    stage.send(&from(3), &commit(0));
    stage.wait(2);
    stage.send(&from(4), &commit(0));
    assert_eq!(ports(&stage), [2, 3, 4]);
    let counters = stage.tracker.counters();
    assert_eq!((counters.evicted, counters.expired), (0, 1));
}

#[test]
fn a_full_zone_refuses() {
    let stage = Stage::new();
    stage.tracker.set_default_zone_limit(2);
    stage.tracker.set_zone_limit(7, Some(1));
    for zone in [6, 7] {
        for port in 1..=3 {
            assert_eq!(
                text(stage.send(&from(port), &commit(zone)).state),
                "new|trk"
            );
        }
    }
    let limit = |limit, count| ZoneLimit { limit, count };
    assert_eq!(stage.tracker.zone_limit(6), limit(2, 2));
    assert_eq!(stage.tracker.zone_limits(), [(7, limit(1, 1))]);
    assert_eq!(stage.tracker.counters().zone_full, 3);
    assert_eq!(stage.tracker.default_zone_limit(), 2);
    stage.tracker.flush(FlushFilter::Zone(7));
    stage.tracker.set_zone_limit(7, None);
    assert_eq!(stage.tracker.zone_limit(7), limit(2, 0));
    assert_eq!(stage.tracker.zone_limit(6), limit(2, 2), "invariant 7");
}

#[test]
fn expiry_gives_back_what_is_over_in_bounded_work() {
    let mut stage = Stage::with(Config {
        shard_count: 4,
        ..Config::default()
    });
    let request = commit_nat(
        TranslationKind::Source,
        Some(("192.0.2.1", "192.0.2.1")),
        None,
    );
    for port in 1..=100 {
        stage.send(
            &packet(&tuple("10.0.0.1", 1_000 + port, "10.0.0.2", 80)).build(),
            &request,
        );
    }
    assert_eq!(stage.tracker.expire(stage.now, 1_000), 0);
    stage.wait(61);
    assert_eq!(stage.tracker.connection_count(), 100);
    let mut ended = Vec::new();
    while stage.tracker.connection_count() > 0 {
        ended.push(stage.tracker.expire(stage.now, 60));
        assert!(ended.len() < 200, "it goes on");
    }
    assert!(ended.iter().all(|count| *count <= 60), "{ended:?}");
    assert_eq!(ended.iter().sum::<usize>(), 100);
    assert_eq!(stage.tracker.counters().expired, 100);
}

#[test]
fn a_life_is_extended_and_shortened() {
    let mut stage = Stage::new();
    stage.send(&from(1), &commit(0));
    for _ in 0..5 {
        stage.wait(50);
        stage.send(&from(1), &look());
        assert_eq!(stage.tracker.expire(stage.now, usize::MAX), 0);
    }
    stage.send(&to(1), &look());
    stage.wait(31);
    assert_eq!(stage.tracker.expire(stage.now, usize::MAX), 1);
}

#[test]
fn policies_of_time_outs_are_chosen_by_request_and_zone() {
    let stage = Stage::new();
    let policy = |seconds| Some(TimeoutPolicy::default().with(Timeout::UdpFirst, seconds));
    stage.tracker.set_timeout_policy(1, policy(11));
    stage.tracker.set_timeout_policy(2, policy(22));
    stage.tracker.set_zone_timeout_policy(5, Some(2));
    let seconds = |zone, timeout_policy| {
        let request = TrackRequest {
            timeout_policy,
            ..commit(zone)
        };
        stage.send(&from(1), &request);
        let seconds = stage.entries()[0].timeout_s;
        stage.tracker.flush(FlushFilter::All);
        seconds
    };
    assert_eq!(seconds(0, 0), 60);
    assert_eq!(seconds(0, 1), 11);
    assert_eq!(seconds(5, 0), 22);
    assert_eq!(seconds(5, 1), 11);
    assert_eq!(seconds(5, 9), 60, "an unknown policy");
    assert_eq!(stage.tracker.timeout_policy(1), policy(11));
    stage.tracker.set_timeout_policy(1, None);
    assert_eq!(stage.tracker.timeout_policy(1), None);
    stage.tracker.set_zone_timeout_policy(5, None);
    assert_eq!((seconds(0, 1), seconds(5, 0)), (60, 60));
}

#[test]
fn flushes_end_what_they_name() {
    let stage = Stage::new();
    let fill = || {
        for port in 1..=20_u16 {
            let request = TrackRequest {
                mark: Some(Bits {
                    value: u32::from(port),
                    mask: u32::MAX,
                }),
                label: Some(Bits {
                    value: u128::from(port) << 64,
                    mask: u128::MAX,
                }),
                rule: u64::from(port % 5),
                ..commit(port % 2)
            };
            stage.send(&from(port), &request);
        }
    };
    let cases = [
        (FlushFilter::All, 20),
        (FlushFilter::Zone(1), 10),
        (FlushFilter::Mark(Bits { value: 1, mask: 1 }), 10),
        (
            FlushFilter::Mark(Bits {
                value: 1,
                mask: u32::MAX,
            }),
            1,
        ),
        (
            FlushFilter::Label(Bits {
                value: 0,
                mask: 3 << 64,
            }),
            5,
        ),
        (FlushFilter::Rule(3), 4),
    ];
    for (filter, count) in cases {
        fill();
        assert_eq!(stage.tracker.flush(filter), count, "{filter:?}");
        assert_eq!(stage.entries().len(), 20 - count);
        let (ended, mut cursor) = stage
            .tracker
            .flush_slice(FlushFilter::All, Cursor::default(), 1);
        assert!(ended <= 1);
        while let Some(place) = cursor {
            (_, cursor) = stage.tracker.flush_slice(FlushFilter::All, place, 3);
        }
        assert_eq!(stage.tracker.connection_count(), 0);
    }
    fill();
    assert_eq!(stage.tracker.remove_of_rule(4), 4);
    let flushed = stage.tracker.counters().flushed;
    let (mut ended, mut cursor) = (0, Some(Cursor::default()));
    while let Some(place) = cursor {
        let (count, next) = stage.tracker.end_orphans(&[1, 2].into(), place, 3);
        (ended, cursor) = (ended + count, next);
    }
    let counters = stage.tracker.counters();
    assert_eq!((ended, counters.orphaned), (8, 8));
    assert_eq!(counters.flushed, flushed);
    assert_eq!(stage.entries().len(), 8);
}

#[test]
fn limits_and_times_may_be_given_from_the_start() {
    let stage = Stage::with(Config {
        zone_connections: 2,
        timeouts: TimeoutPolicy::default().with(Timeout::UdpFirst, 5),
        ..Config::default()
    });
    for port in 1..=3 {
        stage.send(&from(port), &commit(0));
    }
    stage.send(&from(1), &commit(1));
    assert_eq!(stage.tracker.zone_limit(0).count, 2);
    assert_eq!(stage.tracker.counters().zone_full, 1);
    let entries = stage.entries();
    assert!(entries.iter().all(|entry| entry.timeout_s == 5));
    assert_eq!(entries.len(), 3);
}

#[test]
fn a_flush_by_tuple_needs_the_original_one() {
    let stage = Stage::new();
    stage.send(&from(1), &commit(0));
    let original = tuple_of(&from(1));
    let other_zone = Tuple {
        zone: 1,
        ..original
    };
    assert!(!stage.tracker.flush_tuple(&other_zone, stage.now));
    assert!(stage.tracker.flush_tuple(&original.reversed(), stage.now));
    assert!(!stage.tracker.flush_tuple(&original, stage.now));
    let addresses = Some(("192.0.2.1", "192.0.2.1"));
    stage.send(
        &from(1),
        &commit_nat(TranslationKind::Source, addresses, None),
    );
    let reply = stage.entries()[0].reply;
    assert!(
        !stage.tracker.flush_tuple(&reply, stage.now),
        "a translated reply"
    );
    assert!(stage.tracker.flush_tuple(&original, stage.now));
    assert_eq!(
        text(stage.send(&packet(&reply).build(), &nat()).state),
        "new|trk"
    );
}

#[test]
fn expectations_are_bounded_and_end_with_their_parent() {
    let mut stage = Stage::with(Config {
        max_expectations: 2,
        ..Config::default()
    });
    let request = TrackRequest {
        alg: Some(Alg::Tftp),
        rule: 9,
        ..commit(0)
    };
    let tracked = stage.send(&from(1), &request);
    assert_eq!(tracked.alg, Some(Alg::Tftp));
    assert_eq!(
        (stage.entries()[0].alg, stage.entries()[0].rule),
        (Some(Alg::Tftp), 9)
    );
    let expect = |port| {
        let expectation = Expectation {
            tuple: tuple("10.0.0.2", 0, "10.0.0.1", port),
            parent: tuple_of(&from(1)),
            source: None,
            destination: None,
            mark: 0,
            label: 0,
        };
        stage.tracker.expect(expectation, stage.now)
    };
    assert_eq!(
        [expect(1), expect(2), expect(3), expect(1)],
        [true, true, false, true]
    );
    let counters = stage.tracker.counters();
    assert_eq!((counters.expected, counters.expectations_refused), (3, 1));
    assert_eq!(stage.tracker.expectation_count(), 2);
    stage.tracker.flush_tuple(&tuple_of(&from(1)), stage.now);
    assert_eq!(stage.tracker.expectation_count(), 0);
    assert!(expect(3));
    stage.tracker.flush(FlushFilter::All);
    assert_eq!(stage.tracker.expectation_count(), 0);
    // A parent whose time is over announces nothing, though it is still to be collected.
    stage.send(&from(1), &request);
    assert!(expect(7));
    let child = udp("10.0.0.2", 5, "10.0.0.1", 7);
    assert_eq!(state(&stage, &child), "new|rel|trk");
    stage.wait(60);
    assert_eq!(state(&stage, &child), "new|trk");
    // A protocol of announcements over another transport is none.
    let ftp = TrackRequest {
        alg: Some(Alg::Ftp),
        ..commit(0)
    };
    assert_eq!(stage.send(&from(2), &ftp).alg, None);
}
