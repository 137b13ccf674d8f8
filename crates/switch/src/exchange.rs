//! Exchanges: how packets reach ports of another worker.
//!
//! A packet and a spare buffer change places, twice: the sender leaves its packet and takes a
//! spare, the receiver takes the packet and leaves a spare. So every pool stays equally full,
//! nothing is copied or allocated, and the queue holds as many packets as it was given spares.
//!
//! 1. Waiting packets and spares always add up to `capacity`. Without a spare, a packet is
//!    refused; the sender counts it.
//! 2. The lock is taken once per burst, and not at all if [`Exchange::has_packets`] is false.
//! 3. Packets of one sender stay in order.
//! 4. A collected packet is in flight until the receiver calls [`Exchange::note_sent`]. So
//!    when [`Exchange::is_empty`] holds, everything left before has been sent.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use thalweg_packet::{Packet, PacketPool};

use crate::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard};

/// Packets in flight to the ports of one worker.
#[derive(Debug)]
pub(crate) struct Exchange {
    queue: Mutex<Queue>,
    waiting: AtomicUsize,
    /// Whether the receiver holds packets that it has not sent.
    is_sending: AtomicBool,
}

#[derive(Debug)]
struct Queue {
    /// Each with its port's place among the worker's ports.
    waiting: VecDeque<(usize, Packet)>,
    spares: Vec<Packet>,
}

impl Exchange {
    /// Creates an exchange for `capacity` packets of `packet_bytes` each.
    pub(crate) fn new(capacity: usize, packet_bytes: usize) -> Exchange {
        let spares = (0..capacity).map(|_| Packet::with_capacity(packet_bytes));
        Exchange {
            queue: Mutex::new(Queue {
                waiting: VecDeque::with_capacity(capacity),
                spares: spares.collect(),
            }),
            waiting: AtomicUsize::new(0),
            is_sending: AtomicBool::new(false),
        }
    }

    /// Leaves packets for the worker; returns how many were refused, whose buffers go to
    /// `pool`.
    pub(crate) fn leave(&self, packets: &mut Vec<(usize, Packet)>, pool: &mut PacketPool) -> u64 {
        let mut queue = self.lock();
        let mut refused = 0;
        for (place, packet) in packets.drain(..) {
            match queue.spares.pop() {
                Some(spare) => {
                    queue.waiting.push_back((place, packet));
                    pool.put(spare);
                }
                None => {
                    refused += packet.wire_counts().0;
                    pool.put(packet);
                }
            }
        }
        self.waiting.store(queue.waiting.len(), Ordering::Release);
        refused
    }

    /// Whether packets wait.
    pub(crate) fn has_packets(&self) -> bool {
        self.waiting() > 0
    }

    /// Whether no packets wait, and all collected ones have been sent.
    pub(crate) fn is_empty(&self) -> bool {
        // The order matters: a packet that no longer waits was marked as in flight before.
        !self.has_packets() && !self.is_sending.load(Ordering::Acquire)
    }

    /// Records that all collected packets have been sent.
    pub(crate) fn note_sent(&self) {
        self.is_sending.store(false, Ordering::Release);
    }

    /// The number of waiting packets.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Passes up to `limit` packets to `take`, each for a spare of `pool`; returns how many.
    ///
    /// If there are any, the caller must call [`Exchange::note_sent`] afterwards.
    pub(crate) fn collect(
        &self,
        limit: usize,
        pool: &mut PacketPool,
        mut take: impl FnMut(usize, Packet),
    ) -> usize {
        if !self.has_packets() {
            return 0;
        }
        let mut queue = self.lock();
        let mut count = 0;
        while count < limit && !queue.waiting.is_empty() {
            let Some(spare) = pool.take() else { break };
            let Some((place, packet)) = queue.waiting.pop_front() else {
                pool.put(spare);
                break;
            };
            queue.spares.push(spare);
            take(place, packet);
            count += 1;
        }
        // Invariant 4.
        self.is_sending.store(count > 0, Ordering::Release);
        self.waiting.store(queue.waiting.len(), Ordering::Release);
        count
    }

    /// Drops up to `limit` packets, whose buffers become spares; returns how many.
    pub(crate) fn discard(&self, limit: usize) -> usize {
        let mut queue = self.lock();
        let count = limit.min(queue.waiting.len());
        let Queue { waiting, spares } = &mut *queue;
        spares.extend(waiting.drain(..count).map(|(_, packet)| packet));
        self.waiting.store(queue.waiting.len(), Ordering::Release);
        count
    }

    /// A panic elsewhere leaves the queue intact except for one buffer.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_and_spares_change_places_and_the_queue_is_bounded() {
        let exchange = Exchange::new(2, 64);
        let mut sender = PacketPool::with_capacity(4, 64);
        let mut receiver = PacketPool::with_capacity(1, 64);
        let mut leaving = Vec::new();
        for number in 0..3_u8 {
            let mut packet = sender.take().unwrap();
            packet.fill(&[number]);
            leaving.push((usize::from(number), packet));
        }
        assert_eq!(exchange.leave(&mut leaving, &mut sender), 1);
        assert_eq!((sender.available(), leaving.len()), (4, 0));
        assert!(exchange.has_packets());
        let mut taken = Vec::new();
        let mut take = |place, packet: Packet| taken.push((place, packet.bytes().to_vec(), packet));
        // One spare: one packet at a time.
        assert_eq!(exchange.collect(32, &mut receiver, &mut take), 1);
        assert_eq!(exchange.collect(32, &mut receiver, &mut take), 0);
        receiver.put(Packet::with_capacity(64));
        assert_eq!(exchange.collect(32, &mut receiver, &mut take), 1);
        assert!(!exchange.has_packets() && !exchange.is_empty());
        exchange.note_sent();
        assert!(exchange.is_empty());
        assert_eq!((taken[0].0, &taken[0].1[..]), (0, &[0_u8][..]));
        assert_eq!((taken[1].0, &taken[1].1[..]), (1, &[1_u8][..]));
    }

    #[test]
    fn what_is_discarded_makes_room() {
        let exchange = Exchange::new(2, 64);
        let mut pool = PacketPool::with_capacity(4, 64);
        let two =
            |pool: &mut PacketPool| vec![(0, pool.take().unwrap()), (0, pool.take().unwrap())];
        assert_eq!(exchange.leave(&mut two(&mut pool), &mut pool), 0);
        assert_eq!(exchange.discard(1), 1);
        assert_eq!(exchange.waiting(), 1);
        assert_eq!(exchange.discard(9), 1);
        assert!(!exchange.has_packets());
        assert_eq!(exchange.leave(&mut two(&mut pool), &mut pool), 0);
    }
}
