//! Receiving by the `TPACKET_V3` ring: out of blocks of frames that the kernel hands over.
//!
//! ```text
//!   while the burst has room, and for no more than 32 frames:
//!     the block whose turn it is, if the kernel has handed it over, else done
//!     copy its next frame into a pooled packet, or its segments into several
//!     if that was the last, give the block back
//! ```
//!
//! 1. A block is given back as soon as its last frame has been dealt with, and not before: a
//!    descriptor that is polled is ready as long as a block has frames.
//! 2. A frame that is not passed on is counted, also those behind a damaged header.
//!
//! Costs: the kernel copies each frame into the block, and we copy it out, where a message is
//! copied once; but there is no system call and no socket buffer that waits. The ring is 8 MiB of
//! the kernel's memory. Its timer runs as long as the port is open: a thousand times a second.

use super::block::{Cursor, Damage};
use super::{Handling, Sink};
use crate::sys::ReceiveRing;
use crate::{BURST, DropReason};

/// The receiving side of a port with a ring.
#[derive(Debug)]
pub(super) struct Ring {
    ring: ReceiveRing,
    /// How far the block whose turn it is has been read, if it has been begun.
    cursor: Option<Cursor>,
    /// The segment of the super-frame there that comes next.
    segment: usize,
}

impl Ring {
    pub(super) fn new(ring: ReceiveRing) -> Ring {
        Ring {
            ring,
            cursor: None,
            segment: 0,
        }
    }

    pub(super) fn receive(&mut self, sink: &mut Sink<'_>) {
        // A call must end though all the frames that come be refused.
        for _ in 0..BURST {
            if sink.is_full() {
                return;
            }
            let Some(block) = self.ring.block() else {
                return;
            };
            let cursor = self.cursor.get_or_insert_with(|| Cursor::new(block));
            if cursor.left() > 0 && !take_frame(cursor, block, &mut self.segment, sink) {
                return;
            }
            if cursor.left() == 0 {
                self.cursor = None;
                self.ring.release(); // Invariant 1.
            }
        }
    }
}

/// Deals with the frame that comes next; false if the burst or the pool ends before it does.
fn take_frame(cursor: &mut Cursor, block: &[u8], segment: &mut usize, sink: &mut Sink<'_>) -> bool {
    let frame = match cursor.frame(block) {
        Ok(frame) => frame,
        Err(Damage) => {
            let lost = cursor.give_up() as u64;
            sink.counters.drops.add(DropReason::ReceiveError, lost); // Invariant 2.
            return true;
        }
    };
    match Handling::of(&frame.received) {
        Handling::Ignore => {}
        Handling::Drop(reason) => sink.counters.add_drop(reason),
        Handling::Cut => {
            if !sink.push_segments([frame.bytes, &[]], &frame.received, segment) {
                return false;
            }
        }
        Handling::Pass => {
            let Some(mut packet) = sink.pool.take() else {
                sink.counters.pool_refusals += 1;
                return false;
            };
            packet.fill(frame.bytes);
            sink.push_frame(packet, &frame.received);
        }
    }
    cursor.pass(&frame);
    *segment = 0;
    true
}
