//! Makes packets of the frames that a kernel's interface gives, for the ports that read them.
//!
//! 1. A frame becomes one packet or several, or counts as a drop under one reason.

use thalweg_packet::{Instant, Packet, PacketPool, PortId};

use crate::offload::{BadOffload, SuperFrame, complete_checksum, insert_vlan_tag, leave_undone};
use crate::sys::Received;
use crate::{DropReason, PortCounters};

/// The length of an Ethernet header.
pub(crate) const HEADER_BYTES: usize = 14;

/// How to handle a frame that arrived.
pub(crate) enum Handling {
    /// This host sent the frame; it did not arrive.
    Ignore,
    /// The frame is dropped and counted.
    Drop(DropReason),
    /// The frame is a super-frame.
    Cut,
    /// The frame is one packet.
    Pass,
}

impl Handling {
    /// How to handle a frame that the kernel says this of.
    pub(crate) fn of(received: &Received) -> Handling {
        match received {
            Received {
                is_outgoing: true, ..
            } => Handling::Ignore,
            Received { is_cut: true, .. } => Handling::Drop(DropReason::TooLong),
            _ if SuperFrame::is_asked_for(&received.offload) => Handling::Cut,
            _ if received.len_bytes < HEADER_BYTES => Handling::Drop(DropReason::TooShort),
            _ => Handling::Pass,
        }
    }
}

/// The destination of one receive call's packets.
pub(crate) struct Sink<'a> {
    /// Where packets come from.
    pub(crate) pool: &'a mut PacketPool,
    /// Where packets go.
    pub(crate) burst: &'a mut Vec<Packet>,
    /// The port's counters.
    pub(crate) counters: &'a mut PortCounters,
    /// The longest burst.
    pub(crate) limit: usize,
    /// The port's number.
    pub(crate) number: PortId,
    /// The time of the packets.
    pub(crate) now: Instant,
    /// Whether unfinished packets are passed on.
    pub(crate) keeps_whole: bool,
}

impl Sink<'_> {
    /// Whether the burst has as many packets as one call gives.
    pub(crate) fn is_full(&self) -> bool {
        self.burst.len() >= self.limit
    }

    /// Passes on a frame that is one packet, the usual case.
    pub(crate) fn push_frame(&mut self, mut packet: Packet, received: &Received) {
        if self.keeps_whole && leave_undone(&mut packet, &received.offload) {
            return self.push(packet, received);
        }
        match complete_checksum(packet.bytes_mut(), &received.offload) {
            Ok(()) => self.push(packet, received),
            Err(BadOffload) => {
                self.counters.add_drop(DropReason::Offload);
                self.pool.put(packet);
            }
        }
    }

    /// Cuts a super-frame, whose bytes are in two parts, from segment `next` on.
    ///
    /// Returns false if the burst fills or the pool empties before the last segment.
    pub(crate) fn push_segments(
        &mut self,
        parts: [&[u8]; 2],
        received: &Received,
        next: &mut usize,
    ) -> bool {
        let [front, rest] = parts;
        let Ok(frame) = SuperFrame::parse(front, rest, received.offload) else {
            self.counters.add_drop(DropReason::Offload);
            return true;
        };
        while *next < frame.segments() {
            if self.is_full() {
                return false;
            }
            let Some(mut packet) = self.pool.take() else {
                self.counters.pool_refusals += 1;
                return false;
            };
            frame.emit_segment(*next, &mut packet);
            *next += 1;
            self.push(packet, received);
        }
        true
    }

    /// Passes on a packet.
    pub(crate) fn push(&mut self, mut packet: Packet, received: &Received) {
        if let Some(tag) = received.vlan {
            insert_vlan_tag(&mut packet, tag);
        }
        packet.set_received(self.number, self.now);
        self.counters.add_received_packet(&packet);
        self.burst.push(packet);
    }
}
