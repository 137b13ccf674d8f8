//! Receives by messages: directly into pooled packets, one burst per system call.
//!
//! 1. Slots below `next` have been handled. The others hold frames that wait. There are no spare
//!    packets: a port that receives nothing holds none, however many ports there are.
//! 2. Frames that wait never hold the pool's last packet: a super-frame among them needs some
//!    for its segments.

use std::io;

use thalweg_packet::{Packet, PacketPool};

use super::{Handling, Sink, is_link_down};
use crate::sys::{Overflow, PacketSocket, Received};
use crate::{BURST, DropReason, PortCounters};

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
        }
    }

    pub(super) fn receive(&mut self, socket: &PacketSocket, sink: &mut Sink<'_>) {
        if self.next == self.filled && !self.fill_slots(socket, sink.pool, sink.counters) {
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
    fn fill_slots(
        &mut self,
        socket: &PacketSocket,
        pool: &mut PacketPool,
        counters: &mut PortCounters,
    ) -> bool {
        // Handled slots hold empty packets.
        self.slots.clear();
        (self.next, self.filled, self.segment) = (0, 0, 0);
        let wanted = BURST.min(pool.available() / 2); // Invariant 2.
        pool.take_burst(&mut self.slots, wanted);
        match socket.receive(&mut self.slots, &mut self.overflow, &mut self.received) {
            Ok(filled) => self.filled = filled,
            // The news that the interface went down arrives once, as an error. No frame is
            // lost.
            Err(error) if is_link_down(&error) || error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => counters.add_drop(DropReason::ReceiveError),
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
        let received = &self.received[self.next];
        let slot = &mut self.slots[self.next];
        let room = slot.receive_area().len();
        let split = received.len_bytes.min(room);
        match Handling::of(received) {
            Handling::Ignore => sink.pool.put(std::mem::take(slot)),
            Handling::Drop(reason) => {
                sink.counters.add_drop(reason);
                sink.pool.put(std::mem::take(slot));
            }
            Handling::Cut => {
                let front = &slot.receive_area()[..split];
                let rest = &self.overflow.behind(self.next)[..received.len_bytes - split];
                if !sink.push_segments([front, rest], received, &mut self.segment) {
                    return false;
                }
                sink.pool.put(std::mem::take(slot));
            }
            Handling::Pass => {
                let mut packet = std::mem::take(slot);
                packet.set_len(split);
                if received.len_bytes > room {
                    let rest = self.overflow.behind(self.next);
                    packet.append(&rest[..received.len_bytes - room]);
                }
                sink.push_frame(packet, received);
            }
        }
        (self.next, self.segment) = (self.next + 1, 0);
        true
    }
}
