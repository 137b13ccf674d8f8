//! The audit: every packet answered twice, by the caches and by the interpreter.
//!
//! What the caches did with a burst is compared, packet by packet and byte by byte, with what the
//! reference does at the same version: the same copies to the same ports in the same order, the
//! same messages to the controller, the same stations learned. A packet for which any of it
//! differs is *stale*.

use std::collections::VecDeque;

use thalweg_packet::{Packet, PacketPool};
use thalweg_pipeline::{Outbox, Pipeline, Version, forward};

/// Compares what caches do with what the interpreter does.
#[derive(Debug)]
pub struct Audit {
    expected: VecDeque<Outbox>,
    /// Packets compared so far.
    pub checked: u64,
    /// Packets whose answer differed.
    pub stale: u64,
}

impl Default for Audit {
    fn default() -> Self {
        Audit::new()
    }
}

impl Audit {
    /// An audit that has seen nothing.
    pub fn new() -> Audit {
        Audit {
            expected: VecDeque::new(),
            checked: 0,
            stale: 0,
        }
    }

    /// Notes what the reference does with a packet, which the caches are about to get.
    pub fn expect(&mut self, packet: &Packet, pipeline: &Pipeline, version: Version) {
        let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
        outbox.grows = true;
        // A frame that is none is dropped by both.
        let _ = forward(pipeline, version, packet.clone(), &mut outbox);
        self.expected.push_back(outbox);
    }

    /// Compares the caches' answer to the packet noted longest ago; says whether it is right.
    pub fn compare(&mut self, actual: &Outbox) -> bool {
        let Some(expected) = self.expected.pop_front() else {
            return true;
        };
        let is_right = expected.sent == actual.sent
            && expected.to_controller == actual.to_controller
            && expected.learned == actual.learned
            && actual.copies_refused == 0;
        self.checked += 1;
        self.stale += u64::from(!is_right);
        is_right
    }
}
