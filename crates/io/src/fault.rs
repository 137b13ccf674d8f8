//! A port wrapper that mistreats packets, reproducibly by seed.
//!
//! ```text
//!   for each packet of a burst, in order:
//!     drop? -> gone          corrupt?  -> one bit flipped       truncate? -> cut to fewer bytes
//!     reorder? -> held back until the next packet of its direction has passed
//!     duplicate? -> followed by a copy
//! ```
//!
//! 1. Each direction has its own generator, and draws the same number of times for each packet
//!    (except for the positions of damage). So the fate of a direction's n-th packet depends
//!    only on the seed, the rates and that direction's earlier packets. It does not depend on
//!    bursts or on the other direction. (Invariant 2 is the exception.)
//! 2. At most one packet is held back in each direction. A receive call that finds nothing new
//!    returns the held packet.
//! 3. Received bursts keep their limit: extra packets from duplication wait for the next
//!    burst.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_packet::{Instant, Packet, PacketPool};

use crate::{BURST, DropReason, Port, PortCounters, PortStatus};

/// The probability of each fault, from 0 (never) to 1 (always).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FaultRates {
    /// The packet is lost.
    pub drop: f64,
    /// The packet arrives twice.
    pub duplicate: f64,
    /// One bit of the packet is flipped.
    pub corrupt: f64,
    /// The next packet overtakes it.
    pub reorder: f64,
    /// Bytes at the packet's end are missing.
    pub truncate: f64,
}

/// The number of each fault so far, both directions together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounters {
    /// Packets lost; also counted as [`DropReason::Fault`].
    pub dropped: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Bits flipped.
    pub corrupted: u64,
    /// Packets held back.
    pub reordered: u64,
    /// Packets cut.
    pub truncated: u64,
}

/// A port wrapper that loses, repeats, damages, cuts and swaps packets.
///
/// ```
/// use thalweg_io::{DropReason, FaultPort, FaultRates, MemoryPort, Port};
/// use thalweg_packet::{Instant, PacketPool, PortId};
///
/// let (inner, handle) = MemoryPort::new(PortId(1), 8);
/// let loses_all = FaultRates { drop: 1.0, ..FaultRates::default() };
/// let mut port = FaultPort::new(inner, 42, loses_all, FaultRates::default());
/// handle.inject(b"a packet");
/// let (mut pool, mut burst) = (PacketPool::with_capacity(8, 64), Vec::new());
/// port.receive(&mut pool, &mut burst, Instant::ZERO);
/// assert!(burst.is_empty());
/// assert_eq!(port.counters().drops.count(DropReason::Fault), 1);
/// ```
#[derive(Debug)]
pub struct FaultPort<P> {
    inner: P,
    receiving: Faults,
    sending: Faults,
    /// Received packets after the faults, waiting for a burst.
    waiting: VecDeque<Packet>,
    scratch: Vec<Packet>,
    given: PortCounters,
}

impl<P: Port> FaultPort<P> {
    /// Wraps `inner` with faults, with rates for each direction.
    ///
    /// # Panics
    /// If a rate is not between 0 and 1.
    pub fn new(inner: P, seed: u64, receive: FaultRates, send: FaultRates) -> Self {
        FaultPort {
            inner,
            receiving: Faults::new(seed, receive),
            sending: Faults::new(!seed, send),
            waiting: VecDeque::new(),
            scratch: Vec::new(),
            given: PortCounters::default(),
        }
    }

    /// The number of each fault so far.
    pub fn faults(&self) -> FaultCounters {
        let (a, b) = (self.receiving.counters, self.sending.counters);
        FaultCounters {
            dropped: a.dropped + b.dropped,
            duplicated: a.duplicated + b.duplicated,
            corrupted: a.corrupted + b.corrupted,
            reordered: a.reordered + b.reordered,
            truncated: a.truncated + b.truncated,
        }
    }

    /// The wrapped port.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// Receives from the inner port into `waiting`.
    fn refill(&mut self, pool: &mut PacketPool, now: Instant) {
        self.inner.receive(pool, &mut self.scratch, now);
        let is_quiet = self.scratch.is_empty();
        for packet in self.scratch.drain(..) {
            self.receiving
                .pass(packet, pool, |p| self.waiting.push_back(p));
        }
        // The last packet of a quiet line must not be held back for ever (invariant 2).
        if is_quiet {
            self.waiting.extend(self.receiving.held.take());
        }
    }
}

impl<P: Port> Port for FaultPort<P> {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant) {
        if self.waiting.len() < BURST {
            self.refill(pool, now);
        }
        let count = self.waiting.len().min(BURST);
        for packet in self.waiting.drain(..count) {
            self.given.add_received(packet.len());
            burst.push(packet);
        }
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        for packet in burst.drain(..) {
            self.sending.pass(packet, pool, |p| self.scratch.push(p));
        }
        self.inner.send(pool, &mut self.scratch);
    }

    fn status(&mut self) -> PortStatus {
        let has_more = !self.waiting.is_empty() || self.receiving.held.is_some();
        match self.inner.status() {
            PortStatus::Finished if has_more => PortStatus::Up,
            status => status,
        }
    }

    /// The inner port's counters, with received packets counted after the faults and faults as
    /// drops.
    fn counters(&self) -> PortCounters {
        let mut counters = self.inner.counters();
        counters.received_packets = self.given.received_packets;
        counters.received_bytes = self.given.received_bytes;
        let faults = self.faults();
        counters.drops.add(DropReason::Fault, faults.dropped);
        counters.pool_refusals += self.receiving.refusals + self.sending.refusals;
        counters
    }

    fn close(&mut self, pool: &mut PacketPool) {
        let held = [self.receiving.held.take(), self.sending.held.take()];
        for packet in self.waiting.drain(..).chain(held.into_iter().flatten()) {
            self.receiving.counters.dropped += 1;
            pool.put(packet);
        }
        self.inner.close(pool);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }
}

/// The faults of one direction.
#[derive(Debug)]
struct Faults {
    rates: FaultRates,
    random: Pcg64Mcg,
    held: Option<Packet>,
    counters: FaultCounters,
    /// Copies that were skipped because the pool was empty.
    refusals: u64,
}

impl Faults {
    fn new(seed: u64, rates: FaultRates) -> Self {
        let all = [
            rates.drop,
            rates.duplicate,
            rates.corrupt,
            rates.reorder,
            rates.truncate,
        ];
        assert!(
            all.iter().all(|rate| (0.0..=1.0).contains(rate)),
            "a fault's rate is not between 0 and 1: {rates:?}"
        );
        Faults {
            rates,
            random: Pcg64Mcg::seed_from_u64(seed),
            held: None,
            counters: FaultCounters::default(),
            refusals: 0,
        }
    }

    /// Applies the faults to one packet and passes on the results.
    fn pass(&mut self, mut packet: Packet, pool: &mut PacketPool, mut out: impl FnMut(Packet)) {
        // All draws come first, whatever their outcome (invariant 1).
        let [drop, duplicate, corrupt, reorder, truncate] = [
            self.rates.drop,
            self.rates.duplicate,
            self.rates.corrupt,
            self.rates.reorder,
            self.rates.truncate,
        ]
        .map(|rate| self.random.random_bool(rate));
        if drop {
            self.counters.dropped += 1;
            pool.put(packet);
            return;
        }
        if corrupt && !packet.is_empty() {
            let bit = self.random.random_range(0..packet.len() * 8);
            packet.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
            self.counters.corrupted += 1;
        }
        if truncate && !packet.is_empty() {
            let length = self.random.random_range(0..packet.len());
            packet.truncate(length);
            self.counters.truncated += 1;
        }
        let copy = duplicate.then(|| self.copy(&packet, pool)).flatten();
        if reorder && self.held.is_none() {
            self.counters.reordered += 1;
            self.held = Some(packet);
            copy.into_iter().for_each(out);
            return;
        }
        out(packet);
        copy.into_iter().for_each(&mut out);
        self.held.take().into_iter().for_each(out);
    }

    fn copy(&mut self, packet: &Packet, pool: &mut PacketPool) -> Option<Packet> {
        let Some(mut copy) = pool.take() else {
            self.refusals += 1;
            return None;
        };
        copy.copy_from(packet);
        self.counters.duplicated += 1;
        Some(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryHandle, MemoryPort};
    use thalweg_packet::PortId;

    fn all_faults() -> FaultRates {
        FaultRates {
            drop: 0.1,
            duplicate: 0.2,
            corrupt: 0.1,
            reorder: 0.2,
            truncate: 0.1,
        }
    }

    fn port(rates: FaultRates, seed: u64) -> (FaultPort<MemoryPort>, MemoryHandle) {
        let (inner, handle) = MemoryPort::new(PortId(1), 10_000);
        (FaultPort::new(inner, seed, rates, rates), handle)
    }

    fn packet_bytes(index: u32) -> [u8; 8] {
        (u64::from(index) << 32 | 0xaaaa_5555).to_be_bytes()
    }

    /// The packets received from 1000 injected ones, with a receive call after every `each`.
    fn received(rates: FaultRates, seed: u64, each: u32) -> (Vec<Vec<u8>>, FaultPort<MemoryPort>) {
        let (mut port, handle) = port(rates, seed);
        let (mut pool, mut burst, mut seen) =
            (PacketPool::with_capacity(200, 64), Vec::new(), Vec::new());
        for index in 0..1000 {
            assert!(handle.inject(&packet_bytes(index)));
            if index % each == each - 1 {
                port.receive(&mut pool, &mut burst, Instant::ZERO);
                assert!(burst.len() <= BURST);
                seen.extend(burst.iter().map(|packet| packet.bytes().to_vec()));
                pool.put_burst(&mut burst);
            }
        }
        handle.finish();
        while port.status() != PortStatus::Finished {
            port.receive(&mut pool, &mut burst, Instant::ZERO);
            seen.extend(burst.iter().map(|packet| packet.bytes().to_vec()));
            pool.put_burst(&mut burst);
        }
        assert_eq!(pool.available(), 200);
        (seen, port)
    }

    #[test]
    fn a_seed_decides_and_bursts_do_not_matter() {
        let (first, port) = received(all_faults(), 1, 5);
        for each in [1, 40] {
            let (again, other) = received(all_faults(), 1, each);
            assert_eq!(first, again);
            assert_eq!(port.faults(), other.faults());
        }
        assert_ne!(first, received(all_faults(), 2, 5).0);
    }

    #[test]
    fn every_fault_is_counted_exactly() {
        let (seen, port) = received(all_faults(), 7, 10);
        let faults = port.faults();
        let expected = 1000 - faults.dropped + faults.duplicated;
        assert_eq!(seen.len() as u64, expected);
        let counters = port.counters();
        assert_eq!(counters.received_packets, expected);
        assert_eq!(
            counters.received_bytes,
            seen.iter().map(|p| p.len() as u64).sum()
        );
        assert_eq!(counters.drops.total(), faults.dropped);
        assert_eq!(port.inner().counters().received_packets, 1000);
        for count in [faults.dropped, faults.corrupted, faults.truncated] {
            assert!((50..150).contains(&count), "{faults:?}");
        }
        for count in [faults.duplicated, faults.reordered] {
            assert!((100..250).contains(&count), "{faults:?}");
        }
    }

    #[test]
    fn each_fault_does_what_it_says() {
        let rates = |change: fn(&mut FaultRates)| {
            let mut rates = FaultRates::default();
            change(&mut rates);
            rates
        };
        let (seen, _) = received(FaultRates::default(), 3, 7);
        let untouched: Vec<_> = (0..1000).map(|n| packet_bytes(n).to_vec()).collect();
        assert_eq!(seen, untouched);

        let (seen, port) = received(rates(|r| r.corrupt = 1.0), 3, 7);
        for (seen, sent) in seen.iter().zip(&untouched) {
            let flipped: u32 = seen
                .iter()
                .zip(sent)
                .map(|(a, b)| (a ^ b).count_ones())
                .sum();
            assert_eq!(flipped, 1);
        }
        assert_eq!(port.faults().corrupted, 1000);

        let (seen, _) = received(rates(|r| r.truncate = 1.0), 3, 7);
        assert!(
            seen.iter()
                .zip(&untouched)
                .all(|(a, b)| a.len() < 8 && b.starts_with(a))
        );

        let (seen, _) = received(rates(|r| r.duplicate = 1.0), 3, 7);
        let twice: Vec<_> = untouched
            .iter()
            .flat_map(|p| [p.clone(), p.clone()])
            .collect();
        assert_eq!(seen, twice);

        let (mut seen, port) = received(rates(|r| r.reorder = 0.5), 3, 7);
        assert!(port.faults().reordered > 300 && seen != untouched);
        for (at, packet) in seen.iter().enumerate() {
            let index = u32::from_be_bytes(packet[..4].try_into().unwrap());
            assert!(
                (index as i64 - at as i64).abs() <= 1,
                "overtaken by one packet at most"
            );
        }
        seen.sort();
        assert_eq!(seen, untouched);
    }

    #[test]
    fn sending_has_faults_of_its_own() {
        let (inner, handle) = MemoryPort::new(PortId(1), 100);
        let rates = FaultRates {
            drop: 0.5,
            ..FaultRates::default()
        };
        let mut port = FaultPort::new(inner, 9, FaultRates::default(), rates);
        let mut pool = PacketPool::with_capacity(8, 64);
        for _ in 0..100 {
            port.send(&mut pool, &mut vec![Packet::from_bytes(b"x")]);
        }
        let counters = port.counters();
        assert_eq!(counters.sent_packets, handle.collect().len() as u64);
        assert_eq!(
            counters.sent_packets + counters.drops.count(DropReason::Fault),
            100
        );
        assert!((30..70).contains(&counters.sent_packets));
    }
}
