//! Random packets and changes, through the tracker and its twin: the same answers, bytes and
//! entries after every step.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use thalweg_packet::wire::TcpFlags;

use super::*;
use crate::tests::{Stage, address, error, packet, text};
use crate::tracker::FlushFilter;
use crate::{
    AddressTranslation, Alg, Bits, Cursor, Endpoint, NotResumed, SavedConnection, Selection,
    Tracker,
};

/// One step of a story.
#[derive(Clone, Debug)]
enum Step {
    /// A packet between two of the addresses.
    Send(Shape, Plan),
    /// An answer to what left before: `back` packets ago.
    Answer {
        back: usize,
        shape: Shape,
        plan: Plan,
    },
    /// An ICMP error about what left, or came in, before.
    Error {
        back: usize,
        is_cut: bool,
        plan: Plan,
    },
    /// The same packet as before.
    Again {
        back: usize,
        plan: Plan,
    },
    Wait(u64),
    /// A connection announces one to its client or server: the port, and the translated ends.
    Announce {
        which: usize,
        is_reply: bool,
        port: u16,
        source: Option<usize>,
        to: Option<usize>,
    },
    Limit(u16, u32),
    Flush(u16),
    /// Ends the connection of what left or came in before.
    FlushTuple {
        back: usize,
    },
    /// Saves the connections.
    Save,
    /// Starts again with what was saved last.
    Restart,
}

/// What a packet looks like.
#[derive(Clone, Copy, Debug)]
struct Shape {
    ends: (usize, u16, usize, u16),
    protocol: u8,
    is_reply_type: bool,
    flags: u8,
    sequence: u32,
    acknowledgment: u32,
    window: u16,
    scale: Option<u8>,
    len: usize,
}

/// The requests to the tracker: one `ct()`, and perhaps another.
#[derive(Clone, Debug)]
struct Plan {
    first: TrackRequest,
    second: Option<TrackRequest>,
    random: u64,
}

const ADDRESSES: [[&str; 4]; 2] = [
    ["10.0.0.1", "10.0.0.2", "192.0.2.1", "192.0.2.2"],
    ["fc00::1", "fc00::2", "2001:db8::1", "2001:db8::2"],
];

fn shape() -> BoxedStrategy<Shape> {
    let port = prop_oneof![Just(80_u16), Just(1_024), Just(1_025), Just(600)];
    let ends = (0..4_usize, port.clone(), 0..4_usize, port);
    let protocol = prop_oneof![4 => Just(6_u8), 3 => Just(17), 2 => Just(1), 1 => Just(132),
        1 => Just(47)];
    let flags = prop_oneof![
        4 => Just(0x02_u8), 4 => Just(0x12), 6 => Just(0x10), 2 => Just(0x11), 1 => Just(0x04),
        1 => Just(0x14), 1 => any::<u8>(),
    ];
    // Around a number that wraps.
    let number = prop_oneof![
        6 => (0..3_u32).prop_map(|more| (u32::MAX - 1).wrapping_add(more)),
        2 => (0..12_000_u32).prop_map(|more| (u32::MAX - 20).wrapping_add(more)),
        1 => Just(0_u32), 1 => any::<u32>(),
    ];
    let window = prop_oneof![Just(0_u16), Just(1), Just(8_000), Just(u16::MAX)];
    let scale = prop_oneof![Just(None), (0..20_u8).prop_map(Some)];
    let len = prop_oneof![3 => Just(0_usize), 1 => 1..40_usize];
    (
        ends,
        protocol,
        any::<bool>(),
        flags,
        number.clone(),
        number,
        window,
        scale,
        len,
    )
        .prop_map(
            |(
                ends,
                protocol,
                is_reply_type,
                flags,
                sequence,
                acknowledgment,
                window,
                scale,
                len,
            )| {
                Shape {
                    ends,
                    protocol,
                    is_reply_type,
                    flags,
                    sequence,
                    acknowledgment,
                    window,
                    scale,
                    len,
                }
            },
        )
        .boxed()
}

fn translation(is_ipv6: bool) -> BoxedStrategy<Option<AddressTranslation>> {
    let names = ADDRESSES[usize::from(is_ipv6)];
    let kind = prop_oneof![
        Just(TranslationKind::Source),
        Just(TranslationKind::Destination)
    ];
    let range = prop_oneof![
        1 => Just(None),
        2 => (0..4_usize).prop_map(move |at| Some((address(names[at]), address(names[at])))),
        2 => Just(Some((address(names[2]), address(names[3])))),
    ];
    let ports = prop_oneof![
        Just(None),
        Just(Some((80_u16, 80_u16))),
        Just(Some((1_024, 1_026))),
        Just(Some((500, 900)))
    ];
    let selection = prop_oneof![
        Just(Selection::Any),
        Just(Selection::Hash),
        Just(Selection::Random)
    ];
    let target = prop_oneof![
        1 => Just(None),
        2 => (kind, range, ports).prop_map(Some),
    ];
    let some = (target, selection, any::<bool>()).prop_map(|(target, selection, persistent)| {
        Some(AddressTranslation {
            target,
            selection,
            is_persistent: persistent,
        })
    });
    prop_oneof![1 => Just(None), 2 => some].boxed()
}

fn request(is_ipv6: bool) -> BoxedStrategy<TrackRequest> {
    let mark = prop_oneof![
        2 => Just(None),
        1 => (any::<u32>(), any::<u32>()).prop_map(|(value, mask)| Some(Bits {
            value: value & mask,
            mask,
        })),
    ];
    let label = prop_oneof![
        2 => Just(None),
        1 => (any::<u128>(), any::<u128>()).prop_map(|(value, mask)| Some(Bits {
            value: value & mask,
            mask,
        })),
    ];
    (
        0..2_u16,
        0..5_u8,
        mark,
        label,
        translation(is_ipv6),
        0..3_u64,
        prop_oneof![Just(None), Just(Some(Alg::Ftp)), Just(Some(Alg::Tftp))],
    )
        .prop_map(
            |(zone, kind, mark, label, translation, rule, alg)| TrackRequest {
                zone,
                is_commit: kind > 1,
                is_forced: kind == 4,
                mark,
                label,
                translation,
                alg,
                timeout_policy: 0,
                rule,
                bucket: rule / 2,
                place: 0,
            },
        )
        .boxed()
}

fn plan(is_ipv6: bool) -> BoxedStrategy<Plan> {
    let second = prop_oneof![1 => Just(None), 1 => request(is_ipv6).prop_map(Some)];
    (request(is_ipv6), second, any::<u64>())
        .prop_map(|(first, second, random)| Plan {
            first,
            second,
            random,
        })
        .boxed()
}

fn step(is_ipv6: bool) -> BoxedStrategy<Step> {
    let plan = || plan(is_ipv6);
    prop_oneof![
        6 => (shape(), plan()).prop_map(|(shape, plan)| Step::Send(shape, plan)),
        8 => (0..3_usize, shape(), plan())
            .prop_map(|(back, shape, plan)| Step::Answer { back, shape, plan }),
        2 => (0..4_usize, any::<bool>(), plan())
            .prop_map(|(back, is_cut, plan)| Step::Error { back, is_cut, plan }),
        2 => (0..4_usize, plan()).prop_map(|(back, plan)| Step::Again { back, plan }),
        2 => prop_oneof![0..5_u64, 25..35_u64, 40..100_u64, 800..1_000_u64].prop_map(Step::Wait),
        2 => announce(),
        1 => (0..2_u16, 0..6_u32).prop_map(|(zone, limit)| Step::Limit(zone, limit)),
        1 => (0..8_u16).prop_map(Step::Flush),
        1 => (0..4_usize).prop_map(|back| Step::FlushTuple { back }),
        1 => Just(Step::Save),
        1 => Just(Step::Restart),
    ]
    .boxed()
}

fn announce() -> BoxedStrategy<Step> {
    let port = prop_oneof![Just(80_u16), Just(1_024)];
    let address = || prop::option::of(0..4_usize);
    (0..4_usize, any::<bool>(), port, address(), address())
        .prop_map(|(which, is_reply, port, source, to)| Step::Announce {
            which,
            is_reply,
            port,
            source,
            to,
        })
        .boxed()
}

/// The frame of a shape between the ends of a tuple.
fn build(shape: &Shape, tuple: &Tuple) -> Vec<u8> {
    let builder = packet(tuple);
    if tuple.protocol != protocol::TCP {
        return builder.build();
    }
    let mut options = Vec::new();
    if let Some(scale) = shape.scale {
        options.extend([1, 3, 3, scale]);
    }
    builder
        .tcp_flags(TcpFlags(u16::from(shape.flags)))
        .tcp_numbers(shape.sequence, shape.acknowledgment)
        .tcp_window(shape.window)
        .tcp_options(&options)
        .payload(&vec![5; shape.len])
        .build()
}

/// The tuple of a shape.
fn tuple_of(shape: &Shape, is_ipv6: bool) -> Tuple {
    let names = ADDRESSES[usize::from(is_ipv6)];
    let (source, from, destination, to) = shape.ends;
    let mut tuple = crate::tests::tuple(names[source], from, names[destination], to);
    tuple.protocol = match shape.protocol {
        protocol::ICMP if is_ipv6 => protocol::ICMPV6,
        other => other,
    };
    if tuple.is_icmp() {
        let first = if is_ipv6 { 128 } else { 8 };
        tuple.icmp = (first, 0);
        tuple.destination.port = tuple.source.port;
        if shape.is_reply_type {
            tuple.icmp = tuple.reversed().icmp;
        }
    }
    tuple
}

/// The tracker and its twin, and what went through them.
struct Pair {
    stage: Stage,
    twin: Reference,
    is_ipv6: bool,
    collects: bool,
    /// Frames that came in, and what left.
    seen: Vec<Vec<u8>>,
    /// Protocols and states that were answered.
    answers: BTreeSet<(u8, String)>,
    config: Config,
    /// What was saved last, and what its twin would have saved.
    saved: (Vec<Vec<u8>>, Vec<Known>),
    /// Restarts with connections of TCP.
    restarts: usize,
}

impl Pair {
    fn new(config: Config, is_ipv6: bool, collects: bool) -> Pair {
        Pair {
            stage: Stage::with(config),
            twin: Reference::new(config),
            is_ipv6,
            collects,
            seen: Vec::new(),
            answers: BTreeSet::new(),
            config,
            saved: Default::default(),
            restarts: 0,
        }
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        if self.collects {
            self.stage.tracker.expire(self.stage.now, usize::MAX);
        }
        match step {
            Step::Send(shape, plan) => {
                let frame = build(&shape, &tuple_of(&shape, self.is_ipv6));
                self.send(frame, &plan)?;
            }
            Step::Answer { back, shape, plan } => {
                if let Some(tuple) = self.back(back).and_then(|frame| readable(frame)) {
                    self.send(build(&shape, &tuple.reversed()), &plan)?;
                }
            }
            Step::Error { back, is_cut, plan } => {
                let names = ADDRESSES[usize::from(self.is_ipv6)];
                let len = match (is_cut, self.is_ipv6) {
                    (true, true) => 48,
                    (true, false) => 28,
                    (false, _) => 200,
                };
                if let Some(frame) = self.back(back) {
                    self.send(error(names[1], &frame.clone(), len), &plan)?;
                }
            }
            Step::Again { back, plan } => {
                if let Some(frame) = self.back(back) {
                    self.send(frame.clone(), &plan)?;
                }
            }
            Step::Announce {
                which,
                is_reply,
                port,
                source,
                to,
            } => self.announce(which, is_reply, port, [source, to])?,
            Step::Wait(seconds) => {
                self.stage.now = self.stage.now + Duration::from_secs(seconds);
            }
            // A zone's count goes down when connections are collected.
            Step::Limit(..) if !self.collects => {}
            Step::Limit(zone, limit) => {
                self.stage.tracker.set_zone_limit(zone, Some(limit));
                self.twin.zone_limits.insert(zone, limit as usize);
            }
            Step::Flush(zone) => {
                self.stage.tracker.flush(FlushFilter::Zone(zone));
                self.twin.flush_zone(zone);
            }
            Step::FlushTuple { back } => {
                if let Some(tuple) = self.back(back).and_then(|frame| readable(frame)) {
                    let now = self.stage.now;
                    let is_ended = self.stage.tracker.flush_tuple(&tuple, now);
                    prop_assert_eq!(is_ended, self.twin.flush_tuple(&tuple, now));
                }
            }
            // What came first in a full table is not known after a restart.
            Step::Save | Step::Restart if self.collects => {}
            Step::Save => self.save(),
            Step::Restart if self.saved.0.is_empty() => {}
            Step::Restart => self.restart()?,
        }
        prop_assert_eq!(self.stage.entries(), self.twin.entries(self.stage.now));
        self.stage.tracker.assert_whole();
        Ok(())
    }

    fn save(&mut self) {
        let now = self.stage.now;
        let (saved, next) = self.stage.tracker.saved(Cursor::default(), 1_000_000, now);
        assert_eq!(next, None);
        let bytes = |saved| postcard::to_allocvec(saved).expect("it has a form");
        self.saved = (saved.iter().map(bytes).collect(), self.twin.saved(now));
    }

    fn restart(&mut self) -> Result<(), TestCaseError> {
        let now = self.stage.now;
        let tracker = Tracker::new(Config {
            shard_count: self.config.shard_count % 5 + 1,
            ..self.config
        });
        let (all, twins) = &self.saved;
        for bytes in all {
            let saved: SavedConnection = postcard::from_bytes(bytes).expect("it is whole");
            match tracker.resume(saved, now) {
                Ok(()) | Err(NotResumed::Over) => {}
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
        self.twin.resume(twins.clone());
        self.stage.tracker = tracker;
        let is_tcp = |entry: &ConnectionEntry| entry.original.protocol == protocol::TCP;
        self.restarts += usize::from(self.twin.entries(now).iter().any(is_tcp));
        Ok(())
    }

    /// Lets a connection announce one in its own direction, or against it.
    fn announce(
        &mut self,
        which: usize,
        is_reply: bool,
        port: u16,
        ends: [Option<usize>; 2],
    ) -> Result<(), TestCaseError> {
        let now = self.stage.now;
        let mut entries = self.twin.entries(now);
        entries.retain(|entry| entry.alg.is_some());
        let Some(entry) = entries.get(which) else {
            return Ok(());
        };
        let mut tuple = match is_reply {
            true => entry.original,
            false => entry.reply,
        };
        tuple.destination.port = port;
        let names = ADDRESSES[usize::from(self.is_ipv6)];
        let [source, to] = ends.map(|end| end.map(|at| address(names[at])));
        let destination = to.map(|address| Endpoint { address, port });
        // So that the next answer begins the announced connection.
        tuple.source.port = 1_024;
        self.seen.push(packet(&tuple.reversed()).build());
        tuple.source.port = 0;
        let expectation = Expectation {
            tuple,
            parent: entry.original,
            source,
            destination,
            mark: entry.mark,
            label: entry.label,
        };
        let is_expected = self.stage.tracker.expect(expectation, now);
        prop_assert_eq!(is_expected, self.twin.announce(expectation, now));
        Ok(())
    }

    fn back(&self, back: usize) -> Option<&Vec<u8>> {
        self.seen
            .len()
            .checked_sub(back + 1)
            .map(|at| &self.seen[at])
    }

    fn send(&mut self, frame: Vec<u8>, plan: &Plan) -> Result<(), TestCaseError> {
        let (mut fast, mut slow) = (frame.clone(), frame.clone());
        let mut previous = Previous::default();
        for request in std::iter::once(&plan.first).chain(&plan.second) {
            let headers = Headers::parse(&fast).expect("a frame");
            let (now, random) = (self.stage.now, plan.random);
            let tracker = &self.stage.tracker;
            if self.collects {
                tracker.expire(now, usize::MAX);
            }
            let ahead = (&fast[..], &headers, request.zone);
            tracker.prefetch(std::iter::once(ahead));
            let answer = tracker.track(&mut fast, &headers, request, previous, now, random);
            let expected = self.twin.track(&mut slow, request, previous, now, random);
            prop_assert_eq!(answer, expected, "{:?}", request);
            prop_assert_eq!(&fast, &slow);
            previous = crate::tests::after(&answer);
            let number = answer.original.map_or(0, |original| original.protocol);
            self.answers.insert((number, text(answer.state)));
        }
        self.seen.push(frame);
        self.seen.push(fast);
        Ok(())
    }
}

/// The tuple of a frame that the tracker can read.
fn readable(frame: &[u8]) -> Option<Tuple> {
    let headers = Headers::parse(frame).expect("a frame");
    let reading = read(frame, &headers, 0).ok()?;
    (!reading.is_error()).then_some(reading.tuple)
}

fn story() -> BoxedStrategy<(bool, Vec<Step>)> {
    any::<bool>()
        .prop_flat_map(|is_ipv6| (Just(is_ipv6), prop::collection::vec(step(is_ipv6), 1..60)))
        .boxed()
}

proptest! {
    /// A roomy table; nothing is collected, so lookups meet connections that are over.
    #[test]
    fn the_tracker_answers_as_its_twin((is_ipv6, steps) in story(), shard_count in 1..6_u16) {
        let config = Config { shard_count, seed: 7, ..Config::default() };
        let mut pair = Pair::new(config, is_ipv6, false);
        for step in steps {
            pair.take(step)?;
        }
    }

    /// A small table of one shard, in which the order of ends is known.
    #[test]
    fn a_full_table_ends_what_its_twin_ends((is_ipv6, steps) in story(), evicts in any::<bool>()) {
        let config = Config {
            shard_count: 1,
            max_connections: 3,
            evicts_when_full: evicts,
            ..Config::default()
        };
        let mut pair = Pair::new(config, is_ipv6, true);
        for step in steps {
            pair.take(step)?;
            prop_assert!(pair.stage.tracker.connection_count() <= 3);
        }
    }
}

/// The stories go where it matters: otherwise the comparison above says little.
#[test]
fn the_stories_reach_all_kinds_of_answers() {
    let mut runner = TestRunner::deterministic();
    let mut answers = BTreeSet::new();
    let mut restarts = 0;
    for _ in 0..2_000 {
        let (is_ipv6, steps) = story().new_tree(&mut runner).expect("a story").current();
        let mut pair = Pair::new(Config::default(), is_ipv6, false);
        for step in steps {
            pair.take(step).expect("the same answers");
        }
        answers.append(&mut pair.answers);
        restarts += pair.restarts;
    }
    assert!(restarts > 100, "{restarts}");
    let all: BTreeSet<&str> = answers.iter().map(|(_, state)| state.as_str()).collect();
    for state in [
        "new|trk",
        "new|trk|snat",
        "new|trk|dnat",
        "est|trk",
        "est|trk|snat",
        "est|trk|dnat",
        "est|rpl|trk",
        "est|rpl|trk|snat",
        "est|rpl|trk|dnat",
        "rel|trk",
        "rel|trk|snat",
        "rel|trk|dnat",
        "rel|rpl|trk",
        "rel|rpl|trk|snat",
        "rel|rpl|trk|dnat",
        "new|rel|trk",
        "new|rel|trk|snat|dnat",
        "est|rel|rpl|trk",
        "inv|trk",
    ] {
        assert!(all.contains(state), "no {state} among {all:?}");
    }
    for number in [
        protocol::TCP,
        protocol::UDP,
        protocol::ICMP,
        protocol::ICMPV6,
    ] {
        for state in ["new|trk|snat", "est|trk", "est|rpl|trk"] {
            let answer = (number, state.to_owned());
            assert!(answers.contains(&answer), "no {answer:?}");
        }
    }
}
