//! Scenarios of translation: what leaves the tracker, byte for byte where it matters.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use super::*;
use crate::hash::Seed;
use crate::nat;
use crate::tests::{address, commit_nat, echo_tuple, nat, packet};
use crate::{Alg, Endpoint, Selection, TranslationKind, Tuple};

pub(super) const SOURCE: TranslationKind = TranslationKind::Source;
pub(super) const DESTINATION: TranslationKind = TranslationKind::Destination;

/// Sends a packet, and returns its state and the tuple with which it left.
fn pass(stage: &Stage, mut frame: Vec<u8>, request: &TrackRequest) -> (String, Tuple) {
    let tracked = stage.pass(&mut frame, request, Previous::default());
    (text(tracked.state), tuple_of(&frame))
}

fn named(state: &str, tuple: Tuple) -> (String, Tuple) {
    (state.to_owned(), tuple)
}

#[test]
fn a_source_is_translated_and_back() {
    for (client, server, public) in [
        ("10.0.0.1", "10.0.0.2", "192.0.2.9"),
        ("fc00::1", "fc00::2", "2001:db8::9"),
    ] {
        for protocol in [protocol::UDP, protocol::TCP] {
            let stage = Stage::new();
            let ends = Tuple {
                protocol,
                ..tuple(client, 5_000, server, 80)
            };
            let request = commit_nat(SOURCE, Some((public, public)), None);
            let mut outside = ends;
            outside.source.address = address(public);
            let frame = |tuple: &Tuple, flags| match protocol {
                protocol::TCP => packet(tuple).tcp_flags(flags).tcp_numbers(1, 2).build(),
                _ => packet(tuple).build(),
            };
            let first = frame(&ends, TcpFlags::SYN);
            assert_eq!(
                pass(&stage, first, &request),
                named("new|trk|snat", outside)
            );
            let answer = frame(&outside.reversed(), SYN_ACK);
            assert_eq!(
                pass(&stage, answer, &nat()),
                named("est|rpl|trk|dnat", ends.reversed())
            );
            let next = frame(&ends, TcpFlags::ACK);
            assert_eq!(
                pass(&stage, next.clone(), &nat()),
                named("est|trk|snat", outside)
            );
            assert_eq!(
                pass(&stage, next, &look()),
                named("est|trk", ends),
                "without `nat`"
            );
            let entry = &stage.entries()[0];
            assert_eq!((entry.original, entry.reply), (ends, outside.reversed()));
        }
    }
}

#[test]
fn a_destination_is_translated_and_back() {
    let stage = Stage::new();
    let ends = tuple("10.0.0.1", 5_000, "192.0.2.9", 80);
    let inside = tuple("10.0.0.1", 5_000, "10.0.0.2", 8_080);
    let addresses = Some(("10.0.0.2", "10.0.0.2"));
    let request = commit_nat(DESTINATION, addresses, Some((8_080, 8_080)));
    let there = packet(&ends).build();
    assert_eq!(pass(&stage, there, &request), named("new|trk|dnat", inside));
    let back = packet(&inside.reversed()).build();
    assert_eq!(
        pass(&stage, back, &nat()),
        named("est|rpl|trk|snat", ends.reversed())
    );
}

#[test]
fn an_echo_keeps_its_identifier() {
    for (a, b, public) in [
        ("10.0.0.1", "10.0.0.2", "192.0.2.9"),
        ("fc00::1", "fc00::2", "2001:db8::9"),
    ] {
        let stage = Stage::new();
        let ends = echo_tuple(a, b, 7);
        let mut outside = ends;
        outside.source.address = address(public);
        let request = commit_nat(SOURCE, Some((public, public)), Some((100, 200)));
        let there = pass(&stage, packet(&ends).build(), &request);
        assert_eq!(there, named("new|trk|snat", outside));
        let back = pass(&stage, packet(&outside.reversed()).build(), &nat());
        assert_eq!(back, named("est|rpl|trk|dnat", ends.reversed()));
        // A second client with the same identifier has no other identifier to take.
        let other = echo_tuple(
            if a.contains(':') {
                "fc00::5"
            } else {
                "10.0.0.5"
            },
            b,
            7,
        );
        assert_eq!(pass(&stage, packet(&other).build(), &request).0, "inv|trk");
        assert_eq!(stage.tracker.counters().ports_exhausted, 1);
    }
}

#[test]
fn ports_run_out() {
    let stage = Stage::new();
    let request = commit_nat(SOURCE, Some(("192.0.2.9", "192.0.2.9")), Some((100, 109)));
    let mut ports = BTreeSet::new();
    for client in 1..=10 {
        let ends = tuple("10.0.0.1", 5_000 + client, "10.0.0.2", 80);
        let (state, outside) = pass(&stage, packet(&ends).build(), &request);
        assert_eq!(state, "new|trk|snat");
        assert!((100..=109).contains(&outside.source.port));
        assert!(
            ports.insert(outside.source.port),
            "each port serves one client"
        );
    }
    let ends = tuple("10.0.0.1", 6_000, "10.0.0.2", 80);
    assert_eq!(
        pass(&stage, packet(&ends).build(), &request),
        named("inv|trk", ends)
    );
    assert_eq!(stage.tracker.counters().ports_exhausted, 1);
    assert_eq!(stage.tracker.connection_count(), 10, "invariant 7");
    // Towards another server the ports are free.
    let ends = tuple("10.0.0.1", 6_000, "10.0.0.3", 80);
    assert_eq!(
        pass(&stage, packet(&ends).build(), &request).0,
        "new|trk|snat"
    );
}

/// All of a million tuples are taken: the search ends after a bounded number of them.
#[test]
fn a_million_taken_tuples_are_not_all_tried() {
    const ADDRESSES: u8 = 16;
    let stage = Stage::new();
    let server = "10.0.0.2";
    // Packets of the server's own have the tuples that answers to translated clients would have.
    for last in 0..ADDRESSES {
        let public = format!("192.0.2.{last}");
        for port in 1_024..=u16::MAX {
            let own = tuple(server, 80, &public, port);
            stage.send(&packet(&own).build(), &commit(0));
        }
    }
    assert!(stage.tracker.connection_count() > 1_000_000);
    let request = commit_nat(SOURCE, Some(("192.0.2.0", "192.0.2.15")), None);
    let client = tuple("10.0.0.1", 5_000, server, 80);
    let translation = request.translation.as_ref().expect("it translates");
    let target = translation.target.as_ref().expect("it has a target");
    let tries = nat::reply_tuples(&client, translation, target, Seed::new(0), 0);
    assert!(tries.count() <= nat::CANDIDATES_MAX);
    let refused = pass(&stage, packet(&client).build(), &request);
    assert_eq!(refused, named("inv|trk", client));
    assert_eq!(stage.tracker.counters().ports_exhausted, 1);
    // One that is free among the first tries is found.
    let other = tuple("10.0.0.1", 5_000, server, 81);
    let state = pass(&stage, packet(&other).build(), &request).0;
    assert_eq!(state, "new|trk|snat");
}

#[test]
fn a_port_is_free_again_when_its_connection_is_over() {
    let mut stage = Stage::new();
    let request = commit_nat(SOURCE, Some(("192.0.2.9", "192.0.2.9")), Some((100, 100)));
    for client in 1..=20 {
        let ends = tuple("10.0.0.1", 5_000 + client, "10.0.0.2", 80);
        assert_eq!(
            pass(&stage, packet(&ends).build(), &request).0,
            "new|trk|snat"
        );
        stage.wait(60);
    }
    assert_eq!(stage.entries().len(), 0);
}

#[test]
fn a_null_binding_keeps_the_source_unless_it_is_taken() {
    let stage = Stage::new();
    let request = commit_nat(SOURCE, None, None);
    let ends = tuple("10.0.0.1", 5_000, "10.0.0.2", 80);
    assert_eq!(
        pass(&stage, packet(&ends).build(), &request),
        named("new|trk|snat", ends)
    );
    // A connection of a virtual address has the tuple that this one would get.
    let virtual_address = Some(("10.0.0.3", "10.0.0.3"));
    let taken = tuple("10.0.0.1", 5_000, "10.0.0.9", 80);
    pass(
        &stage,
        packet(&taken).build(),
        &commit_nat(DESTINATION, virtual_address, None),
    );
    let ends = tuple("10.0.0.1", 5_000, "10.0.0.3", 80);
    let (state, outside) = pass(&stage, packet(&ends).build(), &request);
    assert_eq!(state, "new|trk|snat");
    assert_eq!(outside.source.address, address("10.0.0.1"));
    assert_ne!(outside.source.port, 5_000);
    assert!(outside.source.port >= 1_024);
}

#[test]
fn a_commit_without_translation_does_not_take_the_answers_of_another() {
    let stage = Stage::new();
    let ends = tuple("10.0.0.1", 5_000, "10.0.0.9", 80);
    let addresses = Some(("10.0.0.3", "10.0.0.3"));
    pass(
        &stage,
        packet(&ends).build(),
        &commit_nat(DESTINATION, addresses, None),
    );
    let clash = packet(&tuple("10.0.0.1", 5_000, "10.0.0.3", 80)).build();
    assert_eq!(pass(&stage, clash, &commit(0)).0, "new|trk");
    assert_eq!(stage.tracker.counters().clashes, 1);
    assert_eq!(stage.tracker.connection_count(), 1);
}

/// A source translation in one zone and a destination translation in another, as a router has.
#[test]
fn both_ends_are_translated_in_two_zones() {
    let stage = Stage::new();
    let ends = tuple("10.0.0.1", 5_000, "192.0.2.1", 80);
    let to_server = Some(("172.16.0.2", "172.16.0.2"));
    let from_router = Some(("172.16.0.1", "172.16.0.1"));
    let first = commit_nat(DESTINATION, to_server, None);
    let second = TrackRequest {
        zone: 2,
        ..commit_nat(SOURCE, from_router, None)
    };
    let mut frame = packet(&ends).build();
    let tracked = stage.pass(&mut frame, &first, Previous::default());
    let tracked = stage.pass(&mut frame, &second, after(&tracked));
    assert_eq!(text(tracked.state), "new|trk|snat");
    let inside = tuple("172.16.0.1", 5_000, "172.16.0.2", 80);
    assert_eq!(tuple_of(&frame), inside);
    let mut frame = packet(&inside.reversed()).build();
    let tracked = stage.pass(
        &mut frame,
        &TrackRequest { zone: 2, ..nat() },
        Previous::default(),
    );
    assert_eq!(text(tracked.state), "est|rpl|trk|dnat");
    let tracked = stage.pass(&mut frame, &nat(), after(&tracked));
    assert_eq!(text(tracked.state), "est|rpl|trk|snat");
    assert_eq!(tuple_of(&frame), ends.reversed());
}

#[test]
fn a_translated_packet_is_known_in_its_zone() {
    let stage = Stage::new();
    let ends = tuple("10.0.0.1", 5_000, "10.0.0.2", 80);
    let addresses = Some(("192.0.2.9", "192.0.2.9"));
    let mut frame = packet(&ends).build();
    let request = commit_nat(SOURCE, addresses, Some((100, 100)));
    let first = stage.pass(&mut frame, &request, Previous::default());
    let outside = frame.clone();
    let second = stage.pass(&mut frame, &nat(), after(&first));
    assert_eq!((second, &frame), (first, &outside), "not translated twice");
    let mut back = packet(&tuple("10.0.0.2", 80, "192.0.2.9", 100)).build();
    let first = stage.pass(&mut back, &nat(), Previous::default());
    let inside = back.clone();
    let second = stage.pass(&mut back, &nat(), after(&first));
    assert_eq!((second, &back), (first, &inside));
    assert_eq!(stage.tracker.connection_count(), 1);
}

/// RFC 5508: the embedded packet is translated back too.
#[test]
fn an_icmp_error_is_translated_inside_and_outside() {
    for (client, server, public, router) in [
        ("10.0.0.1", "10.0.0.2", "192.0.2.9", "10.9.9.9"),
        ("fc00::1", "fc00::2", "2001:db8::9", "fc99::9"),
    ] {
        let stage = Stage::new();
        let ends = tuple(client, 5_000, server, 80);
        let addresses = Some((public, public));
        let mut frame = packet(&ends).build();
        let request = commit_nat(SOURCE, addresses, Some((100, 100)));
        stage.pass(&mut frame, &request, Previous::default());
        for len in [1_000, if client.contains(':') { 48 } else { 28 }] {
            let mut about = error(router, &frame, len);
            let tracked = stage.pass(&mut about, &nat(), Previous::default());
            assert_eq!(text(tracked.state), "rel|rpl|trk|dnat");
            let untranslated = packet(&ends).build();
            assert_eq!(
                about,
                error(router, &untranslated, len),
                "as if nothing was translated"
            );
        }
        // From the inside, about an answer: the outside sees the public address.
        let mut back = packet(&tuple(server, 80, public, 100)).build();
        let outside = back.clone();
        stage.pass(&mut back, &nat(), Previous::default());
        let mut about = error(client, &back, 1_000);
        let tracked = stage.pass(&mut about, &nat(), Previous::default());
        assert_eq!(text(tracked.state), "rel|trk|snat");
        assert_eq!(about, error(public, &outside, 1_000));
    }
}

#[test]
fn persistent_clients_keep_their_address_and_chance_spreads() {
    let stage = Stage::with(Config {
        seed: 3,
        ..Config::default()
    });
    let range = Some(("192.0.2.0", "192.0.2.255"));
    let addresses = |selection, is_persistent| -> BTreeSet<Ipv6Addr> {
        let mut request = commit_nat(SOURCE, range, None);
        let translation = request.translation.as_mut().expect("a translation");
        (translation.selection, translation.is_persistent) = (selection, is_persistent);
        (0..40)
            .map(|port| {
                let ends = tuple("10.0.0.1", 5_000 + port, "10.0.0.2", 80);
                let (_, outside) = pass(&stage, packet(&ends).build(), &request);
                stage.tracker.flush(FlushFilter::All);
                outside.source.address
            })
            .collect()
    };
    assert_eq!(addresses(Selection::Any, true).len(), 1);
    assert!(addresses(Selection::Hash, false).len() > 20);
    // The stage gives the same chance to each packet.
    assert_eq!(addresses(Selection::Random, false).len(), 1);
    assert_ne!(
        addresses(Selection::Random, false),
        addresses(Selection::Any, true)
    );
}

#[test]
fn an_announced_connection_is_translated_as_announced() {
    let to = Endpoint {
        address: address("10.0.0.1"),
        port: 4_001,
    };
    let cases = [
        (None, Some(to), ["dnat", "snat"]),
        (Some("172.16.0.1"), None, ["snat", "dnat"]),
        (Some("172.16.0.1"), Some(to), ["snat|dnat", "snat|dnat"]),
    ];
    for (source, destination, [there, back]) in cases {
        let stage = Stage::new();
        let alg = Some(Alg::Ftp);
        open(&stage, &TrackRequest { alg, ..commit(0) }, 1, 1);
        let tcp = |source, destination, to| Tuple {
            protocol: protocol::TCP,
            ..tuple(source, 20, destination, to)
        };
        let data = tcp("10.0.0.2", "192.0.2.9", 4_000);
        let expectation = Expectation {
            tuple: data,
            parent: stage.entries()[0].original,
            source: source.map(address),
            destination,
            mark: 0,
            label: 0,
        };
        assert!(stage.tracker.expect(expectation, stage.now));
        let mut inside = data;
        inside.source.address = expectation.source.unwrap_or(data.source.address);
        inside.destination = destination.unwrap_or(data.destination);
        let frame = |tuple: &Tuple, flags| {
            let segment = packet(tuple).tcp_flags(flags).tcp_numbers(1, 2);
            segment.build()
        };
        let request = TrackRequest {
            is_commit: true,
            ..nat()
        };
        let first = pass(&stage, frame(&data, TcpFlags::SYN), &request);
        assert_eq!(first, named(&format!("new|rel|trk|{there}"), inside));
        let second = pass(&stage, frame(&inside.reversed(), SYN_ACK), &nat());
        assert_eq!(
            second,
            named(&format!("est|rel|rpl|trk|{back}"), data.reversed())
        );
    }
}

/// Two locks for each commit, in both orders: threads neither block nor lose a connection.
#[test]
fn threads_share_the_table() {
    let stage = Stage::with(Config {
        shard_count: 3,
        ..Config::default()
    });
    std::thread::scope(|scope| {
        for client in 1..=4_u16 {
            let stage = &stage;
            scope.spawn(move || {
                let request = commit_nat(SOURCE, Some(("192.0.2.1", "192.0.2.4")), None);
                for port in 0..200 {
                    let ends = tuple(&format!("10.0.0.{client}"), 2_000 + port, "10.0.0.9", 80);
                    let (state, outside) = pass(stage, packet(&ends).build(), &request);
                    assert_eq!(state, "new|trk|snat");
                    let answer = packet(&outside.reversed()).build();
                    let back = pass(stage, answer, &nat());
                    assert_eq!(back, named("est|rpl|trk|dnat", ends.reversed()));
                    if port % 2 == 0 {
                        assert!(stage.tracker.flush_tuple(&ends, stage.now));
                    }
                }
            });
        }
    });
    assert_eq!(stage.entries().len(), 400);
    assert_eq!(stage.tracker.connection_count(), 400);
    let replies: BTreeSet<Tuple> = stage.entries().iter().map(|entry| entry.reply).collect();
    assert_eq!(replies.len(), 400, "invariant 3");
}

/// Threads commit, turn around, translate, flush and expire the same few tuples.
#[test]
fn threads_that_fight_leave_a_whole_table() {
    let stage = Stage::with(Config {
        shard_count: 4,
        max_connections: 12,
        ..Config::default()
    });
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let stage = &stage;
            scope.spawn(move || fight(stage, thread, 2_000));
        }
    });
    stage.tracker.assert_whole();
    let counters = stage.tracker.counters();
    let ended = counters.expired + counters.evicted + counters.replaced + counters.flushed;
    let left = u64::from(stage.tracker.connection_count());
    assert_eq!(counters.committed, ended + left, "invariant 7");
    assert!(counters.replaced > 0 && counters.flushed > 0 && counters.evicted > 0);
}

/// One thread's packets: a sequence from a seed.
pub(super) fn fight(stage: &Stage, seed: u64, turns: u64) {
    let mut random = seed;
    let mut below = |end: u64| {
        random = crate::hash::step(random);
        random % end
    };
    for turn in 0..turns {
        let (a, b) = (below(4), below(4));
        let end = |number| format!("10.0.0.{number}");
        let ends = tuple(&end(a), 1_024 + below(3) as u16, &end(b), 80);
        let addresses = Some(("10.0.0.0", "10.0.0.3"));
        let request = match below(4) {
            0 => commit_nat(SOURCE, addresses, Some((80, 82))),
            1 => commit_nat(DESTINATION, addresses, Some((1_024, 1_026))),
            2 => TrackRequest {
                is_forced: true,
                ..commit(0)
            },
            _ => TrackRequest {
                is_commit: turn % 2 == 0,
                ..nat()
            },
        };
        let tuple = if below(2) == 0 { ends } else { ends.reversed() };
        pass(stage, packet(&tuple).build(), &request);
        match below(40) {
            0 => drop(stage.tracker.flush(FlushFilter::Zone(0))),
            1 => drop(stage.tracker.expire(stage.now, 100)),
            2..5 => drop(stage.tracker.flush_tuple(&tuple, stage.now)),
            _ => {}
        }
    }
}
