//! Measures connections: while they live, from begin to end, and when they are over.

use std::time::Duration;

use anyhow::{Result, ensure};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use thalweg_command::allocator::release_free_memory;
use thalweg_packet::Instant;
use thalweg_switch::EXPIRED_AT_ONCE;

use super::subject::{Alone, Subject, pass};
use super::traffic::{Frame, Kind, Protocol, Sides};
use super::{Place, Tracking};
use crate::clock::processor_time_ns;
use crate::memory::resident_bytes;

/// Connections whose frames are made at once.
const SLICE: usize = 1_024;
/// After this time, connections with one packet, or closed ones, are over.
const LONG_AFTER: Duration = Duration::from_secs(70);

/// How much is measured.
pub(super) struct Effort {
    /// Packets of a sample.
    pub(super) packets: u64,
    /// Samples of a row.
    pub(super) samples: usize,
    /// Seed of the connections' order.
    pub(super) seed: u64,
}

/// The expiry of many connections.
#[derive(Default)]
pub(super) struct Expiry {
    /// The longest call of each sample.
    pub(super) longest_us: Vec<f64>,
    /// The mean of each sample.
    pub(super) connection_ns: Vec<f64>,
}

impl Effort {
    /// Connections that begin and end together: six packets each.
    pub(super) fn lives_at_once(&self) -> u32 {
        (self.packets / 6).clamp(1, 65_536) as u32
    }

    /// The numbers of connections in an order at random.
    fn order(&self, count: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..count).collect();
        numbers.shuffle(&mut Pcg64Mcg::seed_from_u64(self.seed));
        numbers
    }
}

/// Frames of the connections with these sides.
fn frames(of: &[Sides], protocol: Protocol, kind: Kind) -> Vec<Frame> {
    of.iter().map(|sides| sides.frame(protocol, kind)).collect()
}

/// Fails if the tracker has another number of connections.
fn check_count(subject: &mut dyn Subject, wanted: u32) -> Result<()> {
    let count = subject.connections().tracker().connection_count();
    ensure!(
        count == wanted,
        "{count} of {wanted} connections are tracked: a fault of this program"
    );
    Ok(())
}

/// Begins connections; returns the sides of both peers' packets.
fn begin(
    subject: &mut dyn Subject,
    protocol: Protocol,
    numbers: &[u32],
    now: Instant,
) -> Result<(Vec<Sides>, Vec<Sides>)> {
    let originals: Vec<Sides> = numbers.iter().copied().map(Sides::of_connection).collect();
    let mut left = Vec::with_capacity(numbers.len());
    let opening = frames(&originals, protocol, Kind::Opening);
    pass(subject, &opening, now, Some(&mut left))?;
    let replies = left.iter().map(|frame| Sides::of_frame(frame).reversed());
    Ok((originals, replies.collect()))
}

/// Nanoseconds for a packet of an established connection, sample by sample.
///
/// # Errors
/// If a packet does not leave, or a connection is missing.
pub(super) fn established(
    subject: &mut dyn Subject,
    of: (Place, Protocol, u32, Tracking),
    effort: &Effort,
) -> Result<Vec<f64>> {
    let (_, protocol, count, tracking) = of;
    let now = Instant::ZERO;
    let mut traffic = Vec::with_capacity(count as usize);
    for numbers in effort.order(count).chunks(SLICE) {
        let (originals, replies) = begin(subject, protocol, numbers, now)?;
        pass(
            subject,
            &frames(&replies, protocol, Kind::Answer),
            now,
            None,
        )?;
        let confirmations = frames(&originals, protocol, Kind::Original);
        pass(subject, &confirmations, now, None)?;
        let replies = frames(&replies, protocol, Kind::Reply);
        for (place, pair) in confirmations.into_iter().zip(replies).enumerate() {
            traffic.push(if place % 2 == 0 { pair.0 } else { pair.1 });
        }
    }
    while traffic.len() < SLICE {
        traffic.extend_from_within(..);
    }
    pass(subject, &traffic, now, None)?;
    // Samples go on where the one before ended, so that all connections send.
    let mut slices = traffic.chunks(SLICE).cycle();
    let mut samples = Vec::new();
    for _ in 0..effort.samples {
        let mut sent = 0;
        let start = processor_time_ns();
        while sent < effort.packets {
            let slice = slices.next().expect("there is a connection");
            pass(subject, slice, now, None)?;
            sent += slice.len() as u64;
        }
        samples.push((processor_time_ns() - start) as f64 / sent as f64);
    }
    if tracking != Tracking::None {
        check_count(subject, count)?;
    }
    Ok(samples)
}

/// Connections of TCP that begin, end and expire in a second, sample by sample.
///
/// # Errors
/// If a packet does not leave, or a connection is missing.
pub(super) fn lives(
    subject: &mut dyn Subject,
    tracking: Tracking,
    effort: &Effort,
) -> Result<Vec<f64>> {
    let (protocol, count) = (Protocol::Tcp, effort.lives_at_once());
    let mut now = Instant::ZERO;
    let numbers = effort.order(count);
    let (originals, replies) = begin(subject, protocol, &numbers, now)?;
    let life = [
        frames(&originals, protocol, Kind::Opening),
        frames(&replies, protocol, Kind::Answer),
        frames(&originals, protocol, Kind::Original),
        frames(&originals, protocol, Kind::Finish),
        frames(&replies, protocol, Kind::FinishReply),
        frames(&originals, protocol, Kind::Last),
    ];
    let rounds = (effort.packets / (6 * u64::from(count))).max(1);
    let mut samples = Vec::new();
    for _ in 0..effort.samples {
        let mut spent = 0;
        for _ in 0..rounds {
            now = now + LONG_AFTER;
            let start = processor_time_ns();
            subject.connections().expire(now, usize::MAX);
            life.iter()
                .try_for_each(|frames| pass(subject, frames, now, None))?;
            spent += processor_time_ns() - start;
            if tracking != Tracking::None {
                check_count(subject, count)?;
            }
        }
        samples.push(1e9 * (rounds * u64::from(count)) as f64 / spent as f64);
    }
    Ok(samples)
}

/// The growth of the process for a connection; `None` where the system does not say.
///
/// # Errors
/// If a connection is missing.
pub(super) fn memory_bytes(count: u32) -> Result<Option<f64>> {
    let mut subject = Alone::new(Tracking::Plain, Protocol::Udp);
    let numbers: Vec<u32> = (0..count).collect();
    release_free_memory();
    let before = resident_bytes();
    for numbers in numbers.chunks(SLICE) {
        begin(&mut subject, Protocol::Udp, numbers, Instant::ZERO)?;
    }
    release_free_memory();
    let after = resident_bytes();
    check_count(&mut subject, count)?;
    let growth = before.zip(after);
    Ok(growth.map(|(before, after)| after.saturating_sub(before) as f64 / f64::from(count)))
}

/// The expiry of connections that are over at the same time, by calls as a switch makes them.
///
/// # Errors
/// If a connection is missing.
pub(super) fn expiry(count: u32, effort: &Effort) -> Result<Expiry> {
    let mut expiry = Expiry::default();
    let mut subject = Alone::new(Tracking::Plain, Protocol::Udp);
    let mut now = Instant::ZERO;
    for _ in 0..effort.samples {
        for numbers in effort.order(count).chunks(SLICE) {
            begin(&mut subject, Protocol::Udp, numbers, now)?;
        }
        check_count(&mut subject, count)?;
        now = now + LONG_AFTER;
        let connections = subject.connections();
        let (mut longest_ns, mut sum_ns) = (0, 0);
        while connections.tracker().connection_count() > 0 {
            let start = processor_time_ns();
            connections.expire(now, EXPIRED_AT_ONCE);
            let spent_ns = processor_time_ns() - start;
            longest_ns = longest_ns.max(spent_ns);
            sum_ns += spent_ns;
        }
        expiry.longest_us.push(longest_ns as f64 / 1e3);
        expiry.connection_ns.push(sum_ns as f64 / f64::from(count));
    }
    Ok(expiry)
}
