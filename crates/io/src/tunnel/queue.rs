//! A bounded queue of packets between two ports, with a descriptor that wakes the receiver.
//!
//! 1. While packets wait, the descriptor is ready.
//! 2. At most [`CAPACITY`] packets wait; more are refused.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};

/// Most packets that wait.
const CAPACITY: usize = 4_096;

/// Packets that wait for a port.
#[derive(Debug)]
pub(super) struct PacketQueue {
    waiting: Mutex<VecDeque<Packet>>,
    event: OwnedFd,
}

impl PacketQueue {
    pub(super) fn new() -> io::Result<PacketQueue> {
        Ok(PacketQueue {
            waiting: Mutex::default(),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Lock poisoning is ignored: each step is one push or pop.
    fn lock(&self) -> MutexGuard<'_, VecDeque<Packet>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts packets in; returns how many there was no room for.
    pub(super) fn push_all(&self, packets: impl IntoIterator<Item = Packet>) -> usize {
        let mut waiting = self.lock();
        let mut refused = 0;
        for packet in packets {
            match waiting.len() < CAPACITY {
                true => waiting.push_back(packet),
                false => refused += 1,
            }
        }
        if !waiting.is_empty() {
            // Invariant 1; it only fails if it is ready anyway.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
        refused
    }

    /// The number of packets that wait.
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Appends up to `most` packets to `burst`, as received by a port; returns how often the pool
    /// had too few.
    pub(super) fn receive(
        &self,
        (number, now): (PortId, Instant),
        pool: &mut PacketPool,
        burst: &mut Vec<Packet>,
        most: usize,
    ) -> u64 {
        let mut waiting = self.lock();
        let wanted = most.min(waiting.len());
        let first = burst.len();
        let refusals = u64::from(pool.take_burst(burst, wanted) < wanted);
        for packet in &mut burst[first..] {
            let front = waiting.pop_front();
            packet.copy_from(&front.expect("as many as wait were taken"));
            packet.set_received(number, now);
        }
        if waiting.is_empty() {
            // Invariant 1: the reset is under the lock.
            let _ = rustix::io::read(&self.event, &mut [0; 8]);
        }
        refusals
    }

    /// Ready while packets wait.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;
    use crate::BURST;

    fn is_ready(queue: &PacketQueue) -> bool {
        let mut polled = [PollFd::from_borrowed_fd(queue.descriptor(), PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())).expect("poll works") == 1
    }

    #[test]
    fn packets_come_in_their_order_and_the_descriptor_is_ready_while_some_wait() {
        let queue = PacketQueue::new().unwrap();
        assert!(!is_ready(&queue));
        let mut packets: Vec<_> = (0..=BURST as u8)
            .map(|n| Packet::from_bytes(&[n; 20]))
            .collect();
        packets[0].tunnel_mut().id = 5;
        assert_eq!(queue.push_all(packets), 0);
        let mut pool = PacketPool::with_capacity(BURST, 64);
        let mut burst = Vec::new();
        let who = (PortId(3), Instant::from_nanos(8));
        assert!(is_ready(&queue));
        assert_eq!(queue.receive(who, &mut pool, &mut burst, BURST), 0);
        assert_eq!((burst.len(), queue.len()), (BURST, 1));
        assert_eq!(burst[0].tunnel().map(|values| values.id), Some(5));
        assert_eq!((burst[1].in_port(), burst[1].bytes()[0]), (PortId(3), 1));
        assert!(is_ready(&queue));
        assert_eq!(queue.receive(who, &mut pool, &mut burst, BURST), 1);
        assert_eq!(queue.len(), 1);
        pool.put_burst(&mut burst);
        queue.receive(who, &mut pool, &mut burst, BURST);
        assert_eq!(burst.len(), 1);
        assert!(!is_ready(&queue));
    }

    #[test]
    fn the_queue_is_bounded() {
        let queue = PacketQueue::new().unwrap();
        let packets = (0..CAPACITY + 7).map(|_| Packet::default());
        assert_eq!(queue.push_all(packets), 7);
        assert_eq!(queue.len(), CAPACITY);
    }
}
