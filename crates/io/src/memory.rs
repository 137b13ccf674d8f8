//! Ports without an operating system: queues in memory, an endless source, a sink.
//!
//! [`MemoryPort`] is for tests and for joining two parts of one process. Packets are copied at
//! both ends of its queues, because each end may have its own pool. If the packet itself
//! moved, one-way traffic would drain the sender's pool into the receiver's.
//!
//! [`CyclePort`] is the traffic source of benchmarks, so it must cost less than the measured
//! code. It does the minimum of a receive queue: the spare packets leave the pool in one copy
//! per burst, and each is filled from its template. Nothing is allocated, zeroed or freed.
//!
//! 1. A queue holds at most `capacity` packets; each further packet is a counted drop.
//! 2. A queue is locked once per burst, never per packet. Only copies run under the lock.
//! 3. The two ends of a pair see packets in the order in which they were sent.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_packet::{Instant, Packet, PacketPool, PortId};

use crate::{BURST, DropReason, Port, PortCounters, PortStatus};

/// A port whose other end is in this process: a [`MemoryHandle`], or another `MemoryPort`.
///
/// ```
/// use thalweg_io::{MemoryPort, Port};
/// use thalweg_packet::{Instant, PacketPool, PortId};
///
/// let mut pool = PacketPool::with_capacity(8, 2048);
/// let (mut port, handle) = MemoryPort::new(PortId(3), 16);
/// let mut burst = Vec::new();
///
/// assert!(handle.inject(b"a packet"));
/// port.receive(&mut pool, &mut burst, Instant::from_nanos(5));
/// assert_eq!(burst[0].in_port(), PortId(3));
///
/// port.send(&mut pool, &mut burst);
/// assert_eq!(handle.collect()[0].bytes(), b"a packet");
/// ```
#[derive(Debug)]
pub struct MemoryPort {
    number: PortId,
    incoming: SharedQueue,
    outgoing: SharedQueue,
    counters: PortCounters,
}

impl MemoryPort {
    /// Creates a port, and the handle that feeds and empties it; `capacity` packets each way.
    pub fn new(number: PortId, capacity: usize) -> (MemoryPort, MemoryHandle) {
        let (port, other) = MemoryPort::pair(number, number, capacity);
        let handle = MemoryHandle {
            to_port: other.outgoing,
            from_port: other.incoming,
        };
        (port, handle)
    }

    /// Creates two ports joined by a cable; `capacity` packets each way.
    pub fn pair(first: PortId, second: PortId, capacity: usize) -> (MemoryPort, MemoryPort) {
        let there = SharedQueue::with_capacity(capacity);
        let back = SharedQueue::with_capacity(capacity);
        let first = MemoryPort::joined(first, back.clone(), there.clone());
        (first, MemoryPort::joined(second, there, back))
    }

    fn joined(number: PortId, incoming: SharedQueue, outgoing: SharedQueue) -> MemoryPort {
        MemoryPort {
            number,
            incoming,
            outgoing,
            counters: PortCounters::default(),
        }
    }
}

impl Port for MemoryPort {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant) {
        let mut queue = self.incoming.lock();
        let wanted = BURST.min(queue.waiting.len());
        let first = burst.len();
        if pool.take_burst(burst, wanted) < wanted {
            self.counters.pool_refusals += 1;
        }
        for packet in &mut burst[first..] {
            queue.pop_into(packet);
            packet.set_received(self.number, now);
            self.counters.add_received(packet.len());
        }
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        let mut queue = self.outgoing.lock();
        for packet in burst.iter() {
            if !queue.is_up {
                self.counters.add_drop(DropReason::LinkDown);
            } else if queue.push(packet.bytes()) {
                self.counters.add_sent(packet.len());
            } else {
                self.counters.add_drop(DropReason::QueueFull);
            }
        }
        pool.put_burst(burst);
    }

    fn status(&mut self) -> PortStatus {
        let queue = self.incoming.lock();
        match (queue.is_up, queue.is_finished && queue.waiting.is_empty()) {
            (false, _) => PortStatus::Down,
            (true, true) => PortStatus::Finished,
            (true, false) => PortStatus::Up,
        }
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

/// The far end of a [`MemoryPort`], for tests and generators.
#[derive(Clone, Debug)]
pub struct MemoryHandle {
    to_port: SharedQueue,
    from_port: SharedQueue,
}

impl MemoryHandle {
    /// Puts a copy of `bytes` in the port's receive queue; returns false when it is full.
    pub fn inject(&self, bytes: &[u8]) -> bool {
        self.to_port.lock().push(bytes)
    }

    /// Takes all packets that the port has sent, oldest first.
    pub fn collect(&self) -> Vec<Packet> {
        self.from_port.lock().waiting.drain(..).collect()
    }

    /// The number of injected packets that the port has not received yet.
    pub fn waiting(&self) -> usize {
        self.to_port.lock().waiting.len()
    }

    /// Sets whether the port is up; a port that is down drops what it is given to send.
    pub fn set_up(&self, is_up: bool) {
        self.to_port.lock().is_up = is_up;
        self.from_port.lock().is_up = is_up;
    }

    /// Ends the injection: the port is finished once its queue is empty.
    pub fn finish(&self) {
        self.to_port.lock().is_finished = true;
    }
}

/// An endless source that repeats copies of the same packets.
///
/// It counts and drops what it is given to send.
#[derive(Debug)]
pub struct CyclePort {
    number: PortId,
    /// The packets, one behind another. Reading in order keeps them in the processor's cache,
    /// as a network card's packets would be.
    bytes: Vec<u8>,
    /// The end of each packet in `bytes`.
    ends: Vec<usize>,
    next: usize,
    counters: PortCounters,
}

impl CyclePort {
    /// Creates a source that repeats `templates` in order.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(number: PortId, templates: Vec<Packet>) -> Self {
        assert!(!templates.is_empty(), "a cycle needs at least one packet");
        let mut bytes = Vec::new();
        let end_of = |template: &Packet| {
            bytes.extend_from_slice(template.bytes());
            bytes.len()
        };
        let ends = templates.iter().map(end_of).collect();
        CyclePort {
            number,
            bytes,
            ends,
            next: 0,
            counters: PortCounters::default(),
        }
    }
}

impl Port for CyclePort {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant) {
        let first = burst.len();
        if pool.take_burst(burst, BURST) < BURST {
            self.counters.pool_refusals += 1;
        }
        let mut bytes = 0;
        for packet in &mut burst[first..] {
            let start = match self.next {
                0 => 0,
                next => self.ends[next - 1],
            };
            let template = &self.bytes[start..self.ends[self.next]];
            self.next += 1;
            if self.next == self.ends.len() {
                self.next = 0;
            }
            packet.fill(template);
            packet.set_received(self.number, now);
            bytes += template.len();
        }
        self.counters.received_packets += (burst.len() - first) as u64;
        self.counters.received_bytes += bytes as u64;
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        self.counters
            .drops
            .add(DropReason::NoOutput, burst.len() as u64);
        pool.put_burst(burst);
    }

    fn status(&mut self) -> PortStatus {
        PortStatus::Up
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

/// A sink: it counts what it is given to send, and never receives.
#[derive(Debug, Default)]
pub struct NullPort {
    counters: PortCounters,
}

impl Port for NullPort {
    fn receive(&mut self, _pool: &mut PacketPool, _burst: &mut Vec<Packet>, _now: Instant) {}

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        let bytes: usize = burst.iter().map(Packet::len).sum();
        self.counters.sent_packets += burst.len() as u64;
        self.counters.sent_bytes += bytes as u64;
        pool.put_burst(burst);
    }

    fn status(&mut self) -> PortStatus {
        PortStatus::Up
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

/// One direction of a memory port.
#[derive(Debug)]
struct Queue {
    waiting: VecDeque<Packet>,
    /// Buffers of received packets, reused for sent ones.
    spare: Vec<Packet>,
    capacity: usize,
    is_up: bool,
    is_finished: bool,
}

impl Queue {
    /// Adds a packet; returns false when full (invariant 1).
    fn push(&mut self, bytes: &[u8]) -> bool {
        let has_room = self.waiting.len() < self.capacity;
        if has_room {
            let mut packet = self.spare.pop().unwrap_or_default();
            packet.fill(bytes);
            self.waiting.push_back(packet);
        }
        has_room
    }

    /// Takes the first packet; the caller has checked that one is waiting.
    fn pop_into(&mut self, packet: &mut Packet) {
        if let Some(waiting) = self.waiting.pop_front() {
            packet.fill(waiting.bytes());
            self.spare.push(waiting);
        }
    }
}

#[derive(Clone, Debug)]
struct SharedQueue(Arc<Mutex<Queue>>);

impl SharedQueue {
    fn with_capacity(capacity: usize) -> Self {
        SharedQueue(Arc::new(Mutex::new(Queue {
            waiting: VecDeque::new(),
            spare: Vec::new(),
            capacity,
            is_up: true,
            is_finished: false,
        })))
    }

    /// Ignores lock poisoning: each step above is one push or one pop, so the queue stays
    /// whole.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> PacketPool {
        PacketPool::with_capacity(40, 64)
    }

    #[test]
    fn a_pair_carries_both_ways_in_order_and_is_bounded() {
        let (mut left, mut right) = MemoryPort::pair(PortId(1), PortId(2), 3);
        let (mut pool, mut burst) = (pool(), Vec::new());
        for round in 0..3_u8 {
            for index in 0..5 {
                let mut packet = pool.take().expect("the pool is large enough");
                packet.fill(&[round, index]);
                burst.push(packet);
            }
            left.send(&mut pool, &mut burst);
            right.receive(&mut pool, &mut burst, Instant::from_nanos(9));
            let bytes: Vec<_> = burst.iter().map(|packet| packet.bytes().to_vec()).collect();
            assert_eq!(bytes, [[round, 0], [round, 1], [round, 2]]);
            assert!(burst.iter().all(|packet| packet.in_port() == PortId(2)));
            right.send(&mut pool, &mut burst);
            left.receive(&mut pool, &mut burst, Instant::ZERO);
            assert_eq!(burst.len(), 3);
            pool.put_burst(&mut burst);
        }
        assert_eq!(pool.available(), 40);
        let counters = left.counters();
        assert_eq!((counters.sent_packets, counters.sent_bytes), (9, 18));
        assert_eq!(
            (counters.received_packets, counters.received_bytes),
            (9, 18)
        );
        assert_eq!(counters.drops.count(DropReason::QueueFull), 6);
        assert_eq!(counters.drops.total(), 6);
    }

    #[test]
    fn an_empty_pool_refuses_and_loses_nothing() {
        let (mut port, handle) = MemoryPort::new(PortId(1), 8);
        let mut pool = PacketPool::with_capacity(2, 64);
        let mut burst = Vec::new();
        for index in 0..3_u8 {
            assert!(handle.inject(&[index]));
        }
        port.receive(&mut pool, &mut burst, Instant::ZERO);
        assert_eq!((burst.len(), port.counters().pool_refusals), (2, 1));
        assert_eq!(handle.waiting(), 1);
        pool.put_burst(&mut burst);
        port.receive(&mut pool, &mut burst, Instant::ZERO);
        assert_eq!(burst[0].bytes(), [2]);
        assert_eq!(port.counters().pool_refusals, 1);
    }

    #[test]
    fn status_follows_the_handle() {
        let (mut port, handle) = MemoryPort::new(PortId(1), 8);
        assert_eq!(port.status(), PortStatus::Up);
        handle.set_up(false);
        assert_eq!(port.status(), PortStatus::Down);
        port.send(&mut pool(), &mut vec![Packet::from_bytes(b"x")]);
        assert_eq!(port.counters().drops.count(DropReason::LinkDown), 1);
        handle.set_up(true);
        handle.inject(b"last");
        handle.finish();
        assert_eq!(port.status(), PortStatus::Up, "one packet is still waiting");
        port.receive(&mut pool(), &mut Vec::new(), Instant::ZERO);
        assert_eq!(port.status(), PortStatus::Finished);
    }

    #[test]
    fn a_cycle_repeats_its_packets_across_bursts() {
        let templates: Vec<_> = (0..5_u8).map(|n| Packet::from_bytes(&[n; 60])).collect();
        let mut port = CyclePort::new(PortId(7), templates);
        let (mut pool, mut burst, mut seen) = (pool(), Vec::new(), Vec::new());
        for _ in 0..3 {
            port.receive(&mut pool, &mut burst, Instant::from_nanos(1));
            seen.extend(burst.iter().map(|packet| packet.bytes()[59]));
            NullPort::default().send(&mut pool, &mut burst);
        }
        let expected: Vec<_> = (0..3 * BURST).map(|index| (index % 5) as u8).collect();
        assert_eq!(seen, expected);
        assert_eq!(port.counters().received_bytes, 60 * 3 * BURST as u64);
        assert_eq!(pool.available(), 40);
    }
}
