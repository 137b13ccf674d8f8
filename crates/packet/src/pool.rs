//! Spare packets, made once at start and reused.
//!
//! A worker owns one pool. Its ports take packets out when they receive. The end of a packet's
//! journey (a transmit queue, a drop) puts it back. Both ends are on one worker, so the pool
//! is a plain stack without lock or atomic. The packet taken next is the one put back last,
//! whose bytes are still in the processor's cache.
//!
//! 1. The pool never holds more packets than it was made with. Extra packets that come back
//!    (from another pool, from a test) are freed.
//! 2. Every packet in the pool has room for `bytes_each` behind the usual headroom. A smaller
//!    packet that comes back (its headroom was outgrown, or it was never the pool's) is
//!    replaced by a new one. Beside growth this is the only allocation after set-up, and rare. A
//!    packet that has grown keeps its room, up to 16 KiB.
//! 3. An empty pool refuses. It never grows, so the number of a switch's packets is known at start.
//! 4. Packets with more room wait apart, and at most `MOST_LARGE` of them keep it. So spare
//!    packets have a known size, whatever arrived before.
//!
//! Cost per packet: one move of the structure (not of its bytes) each way. The burst forms
//! move a whole burst with one copy.

use crate::Packet;
use crate::buffer::GROWN_BYTES;

/// The most packets that are received, looked up and sent together.
///
/// At 32 the fixed cost of a call is small per packet, and a burst with its metadata stays in
/// the first-level cache.
pub const BURST: usize = 32;

/// The most spare packets that keep room for frames of 64 KiB: 4 MiB a pool.
const MOST_LARGE: usize = 64;

/// A bounded stack of spare packets.
///
/// ```
/// use thalweg_packet::PacketPool;
///
/// let mut pool = PacketPool::with_capacity(1, 2048);
/// let packet = pool.take().expect("the pool was made with one packet");
/// assert!(pool.take().is_none()); // exhausted: the caller counts a refusal
/// pool.put(packet);
/// assert_eq!(pool.available(), 1);
/// ```
#[derive(Debug)]
pub struct PacketPool {
    spare: Vec<Packet>,
    /// Packets with room for frames of 64 KiB (invariant 4).
    large: Vec<Packet>,
    capacity: usize,
    bytes_each: usize,
}

impl PacketPool {
    /// A full pool of `packets` packets, each with room for `bytes_each` bytes.
    pub fn with_capacity(packets: usize, bytes_each: usize) -> Self {
        let mut spare = Vec::with_capacity(packets);
        spare.extend((0..packets).map(|_| Packet::with_capacity(bytes_each)));
        PacketPool {
            spare,
            large: Vec::new(),
            capacity: packets,
            bytes_each,
        }
    }

    /// Takes a spare packet, or `None` when the pool is exhausted.
    ///
    /// It may still hold old bytes: fill it, or receive into it.
    #[inline]
    pub fn take(&mut self) -> Option<Packet> {
        self.spare.pop().or_else(|| self.large.pop())
    }

    /// Takes a spare packet with room for a frame of 64 KiB, or `None` when the pool is exhausted.
    pub fn take_large(&mut self) -> Option<Packet> {
        let mut packet = self.large.pop().or_else(|| self.spare.pop())?;
        packet.enlarge();
        Some(packet)
    }

    /// Takes a spare packet for `len_bytes` bytes, or `None` when the pool is exhausted.
    #[inline]
    pub fn take_for(&mut self, len_bytes: usize) -> Option<Packet> {
        match len_bytes > GROWN_BYTES {
            false => self.take(),
            true => self.take_large(),
        }
    }

    /// Appends up to `count` spare packets to `burst` and returns the number.
    #[inline]
    pub fn take_burst(&mut self, burst: &mut Vec<Packet>, count: usize) -> usize {
        let taken = count.min(self.spare.len());
        burst.extend(self.spare.drain(self.spare.len() - taken..));
        if taken == count {
            return taken;
        }
        let more = (count - taken).min(self.large.len());
        burst.extend(self.large.drain(self.large.len() - more..));
        taken + more
    }

    /// Takes a packet back; its bytes are forgotten.
    #[inline]
    pub fn put(&mut self, mut packet: Packet) {
        // Invariant 1.
        if self.available() < self.capacity {
            self.make_room(&mut packet);
            match self.is_large(&packet) {
                false => self.spare.push(packet),
                true => self.put_large(packet),
            }
        }
    }

    /// Invariant 4.
    #[cold]
    fn put_large(&mut self, packet: Packet) {
        match self.large.len() < MOST_LARGE {
            true => self.large.push(packet),
            false => self.spare.push(Packet::with_capacity(self.bytes_each)),
        }
    }

    /// Takes back every packet of `burst` and leaves it empty.
    #[inline]
    pub fn put_burst(&mut self, burst: &mut Vec<Packet>) {
        burst.truncate(self.capacity - self.available());
        let mut has_large = false;
        for packet in burst.iter_mut() {
            self.make_room(packet);
            has_large |= self.is_large(packet);
        }
        match has_large {
            false => self.spare.append(burst),
            true => burst.drain(..).for_each(|packet| self.put(packet)),
        }
    }

    /// The number of packets that can be taken now.
    #[inline]
    pub fn available(&self) -> usize {
        self.spare.len() + self.large.len()
    }

    /// The number of packets in the pool when all are back.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The room of each packet, in bytes, behind the headroom.
    pub fn bytes_each(&self) -> usize {
        self.bytes_each
    }

    /// Whether a packet waits apart (invariant 4).
    #[inline]
    fn is_large(&self, packet: &Packet) -> bool {
        packet.room() > self.bytes_each.max(GROWN_BYTES)
    }

    /// Invariant 2.
    #[inline]
    fn make_room(&self, packet: &mut Packet) {
        if packet.receive_area().len() < self.bytes_each {
            *packet = Packet::with_capacity(self.bytes_each);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HEADROOM_BYTES, LARGE_PACKET_BYTES};

    #[test]
    fn a_pool_is_bounded_both_ways() {
        let mut pool = PacketPool::with_capacity(3, 64);
        let mut burst = Vec::new();
        assert_eq!(pool.take_burst(&mut burst, 2), 2);
        assert_eq!(pool.take_burst(&mut burst, 2), 1);
        assert!(pool.take().is_none());
        burst.push(Packet::with_capacity(64));
        pool.put_burst(&mut burst);
        assert!(burst.is_empty());
        pool.put(Packet::with_capacity(64));
        assert_eq!(pool.available(), 3);
    }

    #[test]
    fn a_packet_that_lost_its_room_is_replaced() {
        let mut pool = PacketPool::with_capacity(2, 100);
        let mut outgrown = pool.take().expect("the pool is full");
        outgrown.fill(b"abc");
        outgrown.prepend(HEADROOM_BYTES + 1);
        pool.put(outgrown);
        pool.take_burst(&mut Vec::new(), 1);
        pool.put_burst(&mut vec![Packet::default()]);
        while let Some(mut packet) = pool.take() {
            assert!(packet.receive_area().len() >= 100);
        }
    }

    #[test]
    fn a_packet_that_grew_keeps_its_room() {
        let mut pool = PacketPool::with_capacity(1, 10);
        let mut packet = pool.take().expect("the pool is full");
        packet.fill(&[1; 9000]);
        pool.put(packet);
        let mut packet = pool.take().expect("it was put back");
        assert!(packet.receive_area().len() >= 9000);
    }

    #[test]
    fn few_packets_stay_large() {
        let count = MOST_LARGE + 8;
        let mut pool = PacketPool::with_capacity(count, 100);
        let mut burst: Vec<Packet> = (0..count).filter_map(|_| pool.take_large()).collect();
        for packet in &mut burst {
            assert!(packet.receive_area().len() >= LARGE_PACKET_BYTES);
        }
        pool.put(burst.pop().unwrap());
        pool.put_burst(&mut burst);
        assert_eq!((pool.available(), pool.large.len()), (count, MOST_LARGE));
        // Small ones are taken first, and then all that there are.
        let mut small = pool.take_for(2_000).unwrap();
        assert!(small.receive_area().len() < LARGE_PACKET_BYTES);
        let mut large = pool.take_for(20_000).unwrap();
        assert!(large.receive_area().len() >= LARGE_PACKET_BYTES);
        assert_eq!(pool.take_burst(&mut burst, count), count - 2);
        assert!(pool.take().is_none() && pool.take_large().is_none());
    }
}
