//! Receives by messages: directly into pooled packets, one burst per system call.
//!
//! 1. Slots below `next` have been handled. The others hold frames that wait. There are no spare
//!    packets: a port that receives nothing holds none, however many ports there are.
//! 2. Frames that wait never hold the pool's last packet: a super-frame among them needs some
//!    for its segments.
//! 3. While super-frames stay whole, the first slots have room for as many as came last time, and
//!    some more. So most are received into the packet that they leave in.

use std::io;

use thalweg_packet::{Packet, PacketPool};

use super::is_link_down;
use crate::offload::leave_undone;
use crate::sink::{Handling, Sink};
use crate::sys::{Overflow, PacketSocket, Received};
use crate::{BURST, DropReason};

/// Frames above this length are received into large packets.
const LEAST_LARGE_BYTES: usize = 9 << 10;

/// The receiving side of a port without a ring.
#[derive(Debug)]
pub(super) struct Messages {
    slots: Vec<Packet>,
    overflow: Overflow,
    received: Box<[Received; BURST]>,
    next: usize,
    filled: usize,
    /// The next segment of the super-frame in slot `next`.
    segment: usize,
    /// The number of frames of the last burst that need large packets.
    large: usize,
}

impl Messages {
    pub(super) fn new() -> Messages {
        Messages {
            slots: Vec::with_capacity(BURST),
            overflow: Overflow::new(),
            received: Box::new([Received::default(); BURST]),
            next: 0,
            filled: 0,
            segment: 0,
            large: 0,
        }
    }

    pub(super) fn receive(&mut self, socket: &PacketSocket, sink: &mut Sink<'_>) {
        if self.next == self.filled && !self.fill_slots(socket, sink) {
            return;
        }
        while self.next < self.filled && !sink.is_full() {
            if !self.empty_slot(sink) {
                return;
            }
        }
    }

    /// Returns the packets in all slots to the pool; returns the number of waiting frames.
    pub(super) fn close(&mut self, pool: &mut PacketPool) -> usize {
        let waiting = self.filled - self.next;
        self.slots.drain(..self.next);
        self.slots.drain(..).for_each(|packet| pool.put(packet));
        (self.next, self.filled, self.segment) = (0, 0, 0);
        waiting
    }

    /// Receives a burst into the slots; true if any frame came.
    fn fill_slots(&mut self, socket: &PacketSocket, sink: &mut Sink<'_>) -> bool {
        let (pool, counters) = (&mut *sink.pool, &mut *sink.counters);
        // Handled slots hold empty packets.
        self.slots.clear();
        (self.next, self.filled, self.segment) = (0, 0, 0);
        let wanted = BURST.min(pool.available() / 2); // Invariant 2.
        // Invariant 3.
        let large = match self.large {
            0 => 0,
            count => wanted.min(count * 2),
        };
        self.slots
            .extend((0..large).map_while(|_| pool.take_large()));
        let small = wanted - self.slots.len();
        pool.take_burst(&mut self.slots, small);
        match socket.receive(&mut self.slots, &mut self.overflow, &mut self.received) {
            Ok(filled) => self.filled = filled,
            // The news that the interface went down arrives once, as an error. No frame is
            // lost.
            Err(error) if is_link_down(&error) || error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => counters.add_drop(DropReason::ReceiveError),
        }
        if self.filled > 0 && sink.keeps_whole {
            let received = self.received[..self.filled].iter();
            self.large = received
                .filter(|received| received.len_bytes > LEAST_LARGE_BYTES)
                .count();
        }
        if wanted < BURST && self.filled == wanted {
            counters.pool_refusals += 1;
        }
        // Invariant 1.
        self.slots
            .drain(self.filled..)
            .for_each(|packet| pool.put(packet));
        self.filled > 0
    }

    /// Turns the frame in slot `next` into packets, as far as the burst and the pool allow.
    ///
    /// Returns false if part of it is left.
    fn empty_slot(&mut self, sink: &mut Sink<'_>) -> bool {
        let received = self.received[self.next];
        match Handling::of(&received) {
            Handling::Ignore => sink.pool.put(std::mem::take(&mut self.slots[self.next])),
            Handling::Drop(reason) => {
                sink.counters.add_drop(reason);
                sink.pool.put(std::mem::take(&mut self.slots[self.next]));
            }
            Handling::Cut => {
                // A frame that is being cut already has no plain form.
                if sink.keeps_whole && self.segment == 0 {
                    self.gather(&received);
                    let packet = &mut self.slots[self.next];
                    if leave_undone(packet, &received.offload) {
                        sink.push(std::mem::take(packet), &received);
                        return self.pass();
                    }
                }
                let slot = &mut self.slots[self.next];
                let split = received.len_bytes.min(slot.receive_area().len());
                let front = &slot.receive_area()[..split];
                let rest = &self.overflow.behind(self.next)[..received.len_bytes - split];
                if !sink.push_segments([front, rest], &received, &mut self.segment) {
                    return false;
                }
                sink.pool.put(std::mem::take(slot));
            }
            Handling::Pass => {
                self.gather(&received);
                sink.push_frame(std::mem::take(&mut self.slots[self.next]), &received);
            }
        }
        self.pass()
    }

    /// Puts all bytes of the frame in slot `next` into its packet.
    fn gather(&mut self, received: &Received) {
        let packet = &mut self.slots[self.next];
        let room = packet.receive_area().len();
        packet.set_len(received.len_bytes.min(room));
        if received.len_bytes > room {
            let rest = self.overflow.behind(self.next);
            packet.append(&rest[..received.len_bytes - room]);
        }
    }

    /// Advances to the next slot.
    fn pass(&mut self) -> bool {
        (self.next, self.segment) = (self.next + 1, 0);
        true
    }
}
