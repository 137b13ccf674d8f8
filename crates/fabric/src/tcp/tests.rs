//! Two ends and a pipe: closed forms, recoveries, and arbitrary network faults.

use proptest::prelude::*;

use super::*;
use crate::{EventQueue, Link, Port};

/// The fate of a segment in the pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Passes,
    Lost,
    /// Delayed by this time, behind later segments.
    Late(Time),
    Twice,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Arrives(Segment, bool),
    Timer(Towards),
}

/// A connection over one link each way.
struct Pair<F> {
    config: TcpConfig,
    sender: Sender,
    receiver: Receiver,
    ports: [Port; 2],
    queue: EventQueue<Event>,
    /// The next timer event of either end.
    planned: [Option<Time>; 2],
    now: Time,
    fate: F,
    sent: u64,
    received: u64,
    lost: u64,
    copied: u64,
    last_data_at: Time,
    /// The window in segments after each acknowledgement.
    windows: Vec<(Time, u32)>,
}

fn link(rate_bps: u64, delay: Time) -> Link {
    Link {
        rate_bps,
        delay,
        queue_bytes: 1 << 40,
        cuts_to_nanos: false,
        mark_bytes: u64::MAX,
    }
}

const FRAME_BYTES: u32 = 20;

impl<F: FnMut(u64, &Segment) -> Fate> Pair<F> {
    fn new(config: TcpConfig, bytes: u64, link: Link, fate: F) -> Pair<F> {
        Pair {
            sender: Sender::new(&config, bytes),
            receiver: Receiver::new(&config),
            ports: [Port::new(link), Port::new(link)],
            queue: EventQueue::new(),
            planned: [None; 2],
            now: Time::ZERO,
            fate,
            sent: 0,
            received: 0,
            lost: 0,
            copied: 0,
            last_data_at: Time::ZERO,
            windows: Vec::new(),
            config,
        }
    }

    fn run(&mut self) {
        self.transmit();
        let mut steps = 0_u64;
        while let Some((time, event)) = self.queue.pop() {
            self.now = time;
            match event {
                Event::Arrives(segment, is_marked) => self.arrive(segment, is_marked),
                Event::Timer(Towards::Sender) => self.sender.handle_timer(time),
                Event::Timer(Towards::Receiver) => self.receiver.handle_timer(time),
            }
            self.transmit();
            steps += 1;
            assert!(steps < 20_000_000, "it does not end");
        }
        assert_eq!(self.sent + self.copied, self.received + self.lost);
    }

    fn arrive(&mut self, segment: Segment, is_marked: bool) {
        self.received += 1;
        match segment.towards {
            Towards::Receiver => {
                if segment.payload_bytes > 0 {
                    self.last_data_at = self.now;
                }
                self.receiver
                    .handle_segment(&self.config, self.now, &segment, is_marked);
            }
            Towards::Sender => {
                self.sender.handle_segment(&self.config, self.now, &segment);
                self.windows.push((self.now, self.sender.window_segments()));
            }
        }
    }

    fn transmit(&mut self) {
        while let Some(segment) = self.sender.poll_transmit(&self.config, self.now) {
            self.offer(0, segment);
        }
        while let Some(segment) = self.receiver.poll_transmit(&self.config, self.now) {
            self.offer(1, segment);
        }
        for (towards, deadline) in [
            (Towards::Sender, self.sender.deadline()),
            (Towards::Receiver, self.receiver.deadline()),
        ] {
            if let Some(time) = deadline {
                assert!(time > self.now, "a timer that was not handled");
                let planned = &mut self.planned[towards as usize];
                if planned.is_none_or(|planned| planned > time || planned <= self.now) {
                    *planned = Some(time);
                    self.queue.push(time, Event::Timer(towards));
                }
            }
        }
    }

    fn offer(&mut self, direction: usize, segment: Segment) {
        self.sent += 1;
        let bytes = segment.header_bytes() + segment.payload_bytes + FRAME_BYTES;
        let port = &mut self.ports[direction];
        let time = port.offer(self.now, bytes).expect("a queue without end");
        let is_marked = port.is_marking();
        let event = Event::Arrives(segment, is_marked);
        match (self.fate)(self.sent, &segment) {
            Fate::Passes => self.queue.push(time, event),
            Fate::Lost => self.lost += 1,
            Fate::Late(more) => self.queue.push(time + more, event),
            Fate::Twice => {
                self.copied += 1;
                self.queue.push(time, event);
                self.queue.push(time + Time::from_nanos(300), event);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.receiver.has_everything() && self.receiver.is_closed() && self.sender.is_closed()
    }
}

fn passes(_: u64, _: &Segment) -> Fate {
    Fate::Passes
}

const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::NewReno,
    Algorithm::Cubic,
    Algorithm::CubicNs3,
    Algorithm::Dctcp,
];

fn variants() -> impl Iterator<Item = TcpConfig> {
    let detections = [LossDetection::Duplicates(3), LossDetection::RackTlp];
    ALGORITHMS.into_iter().flat_map(move |algorithm| {
        detections.into_iter().map(move |loss_detection| TcpConfig {
            algorithm,
            loss_detection,
            timestamp_tick: Time::from_nanos(1),
            ..TcpConfig::artifact()
        })
    })
}

/// A flow of n up to 10 segments costs 6 + n + n / 2 packets, five one-way trips.
#[test]
fn small_flows_cost_what_they_cost_in_the_artifact() {
    for segments in 1..=10_u64 {
        let delay = Time::from_micros(50);
        let link = link(100_000_000_000, delay);
        let bytes = segments * 1024 - 5;
        let mut pair = Pair::new(TcpConfig::artifact(), bytes, link, passes);
        pair.run();
        assert!(pair.is_done());
        assert_eq!(pair.sent, 6 + segments + segments / 2);
        let trips = pair.now.as_micros_f64() / 50.0;
        // The delayed acknowledgement's timer may be the last event, and does nothing.
        let end = pair.windows.last().unwrap().0 + delay;
        assert!(
            (4.99..5.1).contains(&(end.as_micros_f64() / 50.0)),
            "{trips}"
        );
    }
}

/// If the window exceeds the link's capacity, the link is never idle.
#[test]
fn a_full_link_takes_the_time_of_its_bits() {
    for config in variants() {
        let (delay, rate) = (Time::from_micros(1), 1_000_000_000);
        let segments = 3_000_u64;
        let mut pair = Pair::new(config, segments * 1024, link(rate, delay), passes);
        pair.run();
        assert!(pair.is_done(), "{config:?}");
        let segment = 8e6 * f64::from(1024 + 32 + FRAME_BYTES) / rate as f64;
        let expected = 3.0 + segments as f64 * segment;
        let found = pair.last_data_at.as_micros_f64();
        assert!(
            (found / expected - 1.0).abs() < 0.01,
            "{config:?}: {found} for {expected}"
        );
    }
}

/// With a window of 10 segments and no other limit, 10 segments leave per round trip.
#[test]
fn a_fixed_window_is_sent_once_a_round_trip() {
    for config in variants() {
        let config = TcpConfig {
            buffer_bytes: 10 * 1024,
            ..config
        };
        let (delay, segments) = (Time::from_micros(500), 2_000_u64);
        let link = link(100_000_000_000, delay);
        let mut pair = Pair::new(config, segments * 1024, link, passes);
        pair.run();
        assert!(pair.is_done(), "{config:?}");
        // One and a half for the handshake; the last ten need half a round trip.
        let expected = (1.5 + (segments / 10 - 1) as f64) * 1_000.0;
        let found = pair.last_data_at.as_micros_f64();
        assert!(
            (found / expected - 1.0).abs() < 0.01,
            "{config:?}: {found} for {expected}"
        );
    }
}

/// In slow start the window doubles each round trip.
#[test]
fn slow_start_doubles() {
    for config in variants().filter(|config| config.algorithm != Algorithm::CubicNs3) {
        let config = TcpConfig {
            delayed_ack_segments: 1,
            ..config
        };
        let delay = Time::from_micros(400);
        // 10 + 20 + .. + 640 segments: the last of seven bursts.
        let segments = 10 * 127_u64;
        let link = link(400_000_000_000, delay);
        let mut pair = Pair::new(config, segments * 1024, link, passes);
        pair.run();
        let expected = (1.5 + 6.0) * 800.0;
        let found = pair.last_data_at.as_micros_f64();
        assert!(
            (found / expected - 1.0).abs() < 0.01,
            "{config:?}: {found} for {expected}"
        );
    }
}

/// Loses the first copies of some segments.
fn losing(numbers: std::ops::Range<u32>) -> impl FnMut(u64, &Segment) -> Fate {
    move |_, segment| {
        let is_hit = numbers.contains(&segment.number) && segment.payload_bytes > 0;
        match is_hit && !segment.is_again {
            true => Fate::Lost,
            false => Fate::Passes,
        }
    }
}

#[test]
fn a_single_loss_and_a_burst_are_repaired_without_the_timer() {
    for config in variants() {
        for lost in [100..101, 100..105, 100..120] {
            let count = lost.len() as u64;
            let link = link(10_000_000_000, Time::from_micros(20));
            let mut pair = Pair::new(config, 1024 * 2_000, link, losing(lost.clone()));
            pair.run();
            let counters = pair.sender.counters();
            assert!(pair.is_done(), "{config:?} {lost:?}");
            assert_eq!(counters.timeouts, 0, "{config:?} {lost:?}");
            assert_eq!(counters.recoveries, 1, "{config:?} {lost:?}");
            assert_eq!(counters.retransmitted, count, "{config:?} {lost:?}");
            assert_eq!(pair.lost, count);
        }
    }
}

#[test]
fn a_lost_tail_is_repaired_by_a_probe_or_by_the_timer() {
    for config in variants() {
        for lost in [1_999..2_000_u32, 1_995..2_000] {
            let link = link(10_000_000_000, Time::from_micros(20));
            let mut pair = Pair::new(config, 1024 * 2_000, link, losing(lost.clone()));
            pair.run();
            let counters = pair.sender.counters();
            assert!(pair.is_done(), "{config:?} {lost:?}");
            let timeouts = match config.loss_detection {
                LossDetection::RackTlp => 0,
                // The first of five is not acknowledged at once, nor is the FIN there: one
                // more.
                LossDetection::Duplicates(_) => 1 + u64::from(lost.len() > 1),
            };
            assert_eq!(counters.timeouts, timeouts, "{config:?} {lost:?}");
            if config.loss_detection == LossDetection::RackTlp && lost.len() == 1 {
                // Two round trips and the receiver's delay until the probe: the timer would
                // take far longer.
                assert_eq!(counters.retransmitted, 1);
            }
        }
    }
}

#[test]
fn a_loss_shrinks_the_window_as_the_algorithm_says() {
    for (algorithm, share) in [
        (Algorithm::NewReno, 0.5),
        (Algorithm::Cubic, 0.7),
        (Algorithm::CubicNs3, 0.7),
    ] {
        let config = TcpConfig {
            algorithm,
            loss_detection: LossDetection::Duplicates(3),
            ..TcpConfig::artifact()
        };
        let link = link(10_000_000_000, Time::from_micros(100));
        let mut pair = Pair::new(config, 1024 * 2_000, link, losing(700..701));
        pair.run();
        let windows: Vec<u32> = pair.windows.iter().map(|(_, window)| *window).collect();
        let drop = windows
            .windows(2)
            .position(|pair| pair[1] < pair[0])
            .unwrap();
        let (before, least) = (windows[drop], windows[drop..].iter().min().unwrap());
        let found = f64::from(*least) / f64::from(before);
        assert!(
            (found - share).abs() < 0.06,
            "{algorithm:?}: {before} to {least}"
        );
        assert_eq!(pair.sender.counters().timeouts, 0);
    }
}

/// DCTCP keeps a queue near the mark; CUBIC fills the whole queue.
#[test]
fn dctcp_keeps_the_queue_short() {
    let longest = |algorithm| {
        let config = TcpConfig {
            algorithm,
            loss_detection: LossDetection::Duplicates(3),
            ..TcpConfig::artifact()
        };
        let link = Link {
            mark_bytes: 40_000,
            ..link(10_000_000_000, Time::from_micros(20))
        };
        let mut pair = Pair::new(config, 1024 * 20_000, link, passes);
        pair.run();
        assert!(pair.is_done());
        pair.ports[0].counters().waiting_bytes_max
    };
    let (marked, unmarked) = (longest(Algorithm::Dctcp), longest(Algorithm::NewReno));
    assert!(
        marked < 200_000 && unmarked > 1_000_000,
        "{marked} {unmarked}"
    );
}

/// After reordering was seen, RACK tolerates reordering within its window; three duplicates do
/// not.
#[test]
fn rack_bears_reordering_that_duplicates_do_not() {
    let retransmitted = |loss_detection| {
        let config = TcpConfig {
            loss_detection,
            ..TcpConfig::modern()
        };
        let link = link(10_000_000_000, Time::from_micros(100));
        let late =
            |_, segment: &Segment| match segment.payload_bytes > 0 && segment.number % 40 == 7 {
                true => Fate::Late(Time::from_micros(15)),
                false => Fate::Passes,
            };
        let mut pair = Pair::new(config, 1024 * 4_000, link, late);
        pair.run();
        assert!(pair.is_done());
        pair.sender.counters().retransmitted
    };
    let by_time = retransmitted(LossDetection::RackTlp);
    let by_count = retransmitted(LossDetection::Duplicates(3));
    assert!(by_time <= 3 && by_count > 30, "{by_time} {by_count}");
}

#[test]
fn a_dead_network_is_given_up() {
    for config in variants() {
        let link = link(10_000_000_000, Time::from_micros(20));
        let dead = |count, _: &Segment| if count > 40 { Fate::Lost } else { Fate::Passes };
        let mut pair = Pair::new(config, 1024 * 2_000, link, dead);
        pair.run();
        assert!(pair.sender.has_failed());
        assert_eq!(pair.sender.counters().timeouts, u64::from(config.retries));
        let mut pair = Pair::new(config, 1024, link, |_, _: &Segment| Fate::Lost);
        pair.run();
        assert!(pair.sender.has_failed() && pair.received == 0);
    }
}

#[test]
fn an_end_that_is_used_again_is_as_new() {
    for config in variants() {
        let link = link(10_000_000_000, Time::from_micros(20));
        let mut first = Pair::new(config, 1024 * 500, link, losing(30..60));
        first.run();
        let mut fresh = Pair::new(config, 1024 * 300, link, losing(40..44));
        let mut again = Pair::new(config, 1, link, losing(40..44));
        std::mem::swap(&mut again.sender, &mut first.sender);
        std::mem::swap(&mut again.receiver, &mut first.receiver);
        again.sender.reset(&config, 1024 * 300);
        again.receiver.reset(&config);
        fresh.run();
        again.run();
        assert_eq!(fresh.windows, again.windows);
        assert_eq!((fresh.now, fresh.sent), (again.now, again.sent));
    }
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        20 => Just(Fate::Passes),
        2 => Just(Fate::Lost),
        2 => (1..400_u64).prop_map(|micros| Fate::Late(Time::from_micros(micros))),
        1 => Just(Fate::Twice),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, ..ProptestConfig::default() })]

    /// Whatever the network does to the first segments, everything arrives in the end. The
    /// exception: if it loses a segment or its acknowledgement at every permitted try, the
    /// sender gives up.
    #[test]
    fn everything_arrives_in_the_end(
        bytes in 1..400_000_u64,
        variant in 0..8_usize,
        fates in prop::collection::vec(fate(), 0..500),
    ) {
        let config = variants().nth(variant).unwrap();
        let link = link(10_000_000_000, Time::from_micros(20));
        let of = |count: u64| fates.get(count as usize - 1).copied().unwrap_or(Fate::Passes);
        let by_fates = |count: u64, _: &Segment| of(count);
        let mut pair = Pair::new(config, bytes, link, by_fates);
        pair.run();
        if pair.sender.has_failed() {
            // One of each try's two segments is lost, and these are among the last that were
            // sent.
            let tries = u64::from(config.retries) + 1;
            let last = pair.sent.saturating_sub(4 * tries) + 1..=pair.sent;
            let lost = last.filter(|&count| matches!(of(count), Fate::Lost)).count() as u64;
            prop_assert!(lost >= tries - 1, "{} {:?}", lost, pair.sender);
            return Ok(());
        }
        prop_assert!(pair.receiver.has_everything(), "{:?} {:?}", pair.sender, pair.receiver);
        prop_assert!(pair.sender.is_closed());
    }
}
