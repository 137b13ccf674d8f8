//! Receives by the `TPACKET_V3` ring, from blocks of frames that the kernel hands over.
//!
//! ```text
//!   while the burst has room, and for no more than 32 frames:
//!     the block whose turn it is, if the kernel has handed it over, else done
//!     copy its next frame into a pooled packet, or its segments into several
//!     if that was the last, give the block back
//! ```
//!
//! 1. A block is given back exactly when its last frame has been handled. Until then a polled
//!    descriptor is ready.
//! 2. Every frame that is not passed on is counted, including those behind a damaged header.
//!
//! Costs: each frame is copied twice, by the kernel into the block and by the port out of it.
//! A message is copied once. But the ring needs no system call and no waiting socket buffer.
//! The ring is 8 MiB of kernel memory. Its timer runs a thousand times a second while the port
//! is open.

use super::block::{Cursor, Damage};
use crate::sink::{Handling, Sink};
use crate::sys::ReceiveRing;
use crate::{BURST, DropReason};

/// The receiving side of a port with a ring.
#[derive(Debug)]
pub(super) struct Ring {
    ring: ReceiveRing,
    /// The position in the current block, if reading it has begun.
    cursor: Option<Cursor>,
    /// The next segment of the super-frame at the cursor.
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
        // A call must end even if every frame is refused.
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

/// Handles the next frame; returns false if the burst or the pool ends first.
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
