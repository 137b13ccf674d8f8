//! A port wrapper that can be told to receive or send nothing.
//!
//! 1. A packet that a blocked direction would have carried is counted as
//!    [`DropReason::Blocked`], and as nothing else.
//! 2. What [`Block::set`] says holds for every later call of the port.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use thalweg_packet::{Instant, Packet, PacketPool};

use crate::{DropReason, Port, PortCounters, PortStatus};

const RECEIVING: u8 = 1;
const SENDING: u8 = 2;

/// Blocks and unblocks a [`BlockPort`], from any thread.
#[derive(Clone, Debug, Default)]
pub struct Block(Arc<AtomicU8>);

impl Block {
    /// Says which directions are blocked.
    pub fn set(&self, receiving: bool, sending: bool) {
        let bits = (u8::from(receiving) * RECEIVING) | (u8::from(sending) * SENDING);
        self.0.store(bits, Ordering::Release);
    }

    fn blocks(&self, direction: u8) -> bool {
        self.0.load(Ordering::Acquire) & direction != 0
    }
}

/// A port that a [`Block`] can keep from receiving and sending.
///
/// ```
/// use thalweg_io::{BlockPort, DropReason, MemoryPort, Port};
/// use thalweg_packet::{Instant, PacketPool, PortId};
///
/// let (inner, handle) = MemoryPort::new(PortId(1), 8);
/// let (mut port, block) = BlockPort::new(inner);
/// block.set(true, false);
/// handle.inject(b"a packet of an Ethernet header's length");
/// let (mut pool, mut burst) = (PacketPool::with_capacity(8, 64), Vec::new());
/// port.receive(&mut pool, &mut burst, Instant::ZERO);
/// assert!(burst.is_empty());
/// assert_eq!(port.counters().received_packets, 0);
/// assert_eq!(port.counters().drops.count(DropReason::Blocked), 1);
/// ```
#[derive(Debug)]
pub struct BlockPort<P> {
    inner: P,
    block: Block,
    /// Packets and bytes that the inner port has counted as received.
    taken: (u64, u64),
    /// Packets that were not sent.
    unsent: u64,
}

impl<P: Port> BlockPort<P> {
    /// Wraps `inner`, which is not blocked at first.
    pub fn new(inner: P) -> (BlockPort<P>, Block) {
        let block = Block::default();
        let port = BlockPort {
            inner,
            block: block.clone(),
            taken: (0, 0),
            unsent: 0,
        };
        (port, block)
    }
}

impl<P: Port> Port for BlockPort<P> {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant) {
        let first = burst.len();
        self.inner.receive(pool, burst, now);
        if !self.block.blocks(RECEIVING) {
            return;
        }
        for packet in burst.drain(first..) {
            let (packets, bytes) = packet.wire_counts();
            self.taken.0 += packets;
            self.taken.1 += bytes;
            pool.put(packet);
        }
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        if self.block.blocks(SENDING) {
            self.unsent += burst
                .iter()
                .map(|packet| packet.wire_counts().0)
                .sum::<u64>();
            return pool.put_burst(burst);
        }
        self.inner.send(pool, burst);
    }

    fn keep_whole(&mut self) {
        self.inner.keep_whole();
    }

    fn takes_whole(&self) -> bool {
        self.inner.takes_whole()
    }

    fn status(&mut self) -> PortStatus {
        self.inner.status()
    }

    fn counters(&self) -> PortCounters {
        let mut counters = self.inner.counters();
        let (packets, bytes) = self.taken;
        // Inner ports may count other bytes of a packet, such as those that a capture lacks.
        counters.received_packets = counters.received_packets.saturating_sub(packets);
        counters.received_bytes = counters.received_bytes.saturating_sub(bytes);
        counters
            .drops
            .add(DropReason::Blocked, packets + self.unsent);
        counters
    }

    fn close(&mut self, pool: &mut PacketPool) {
        self.inner.close(pool);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }
}

#[cfg(test)]
mod tests {
    use thalweg_packet::PortId;

    use super::*;
    use crate::MemoryPort;

    #[test]
    fn each_direction_is_blocked_alone_and_again_free() {
        let (inner, handle) = MemoryPort::new(PortId(1), 8);
        let (mut port, block) = BlockPort::new(inner);
        let (mut pool, mut burst) = (PacketPool::with_capacity(8, 64), Vec::new());
        let mut pass = |port: &mut BlockPort<MemoryPort>| {
            handle.inject(&[1; 20]);
            port.receive(&mut pool, &mut burst, Instant::ZERO);
            let received = burst.len();
            burst.push(Packet::from_bytes(&[2; 20]));
            let sending = burst.len();
            port.send(&mut pool, &mut burst);
            assert!(burst.is_empty());
            (received, sending, handle.collect().len())
        };
        assert_eq!(pass(&mut port), (1, 2, 2));
        block.set(true, false);
        assert_eq!(pass(&mut port), (0, 1, 1));
        block.set(false, true);
        assert_eq!(pass(&mut port), (1, 2, 0));
        block.set(false, false);
        assert_eq!(pass(&mut port), (1, 2, 2));
        let counters = port.counters();
        assert_eq!(counters.received_packets, 3);
        assert_eq!(counters.received_bytes, 60);
        assert_eq!(counters.sent_packets, 5);
        assert_eq!(counters.drops.count(DropReason::Blocked), 3);
        assert_eq!(counters.drops.total(), 3);
    }
}
