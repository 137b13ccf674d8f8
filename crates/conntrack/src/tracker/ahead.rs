//! Prefetches connections before the packets of a burst are tracked.
//!
//! ```text
//!   each packet:  addresses and ports -> hash;  ask for the hash's place in the index
//!   each packet:  the place in the index -> slot;  ask for the slot
//!   each packet:  Tracker::track
//! ```
//!
//! Among a million connections, the index and the slot of a packet are in no cache of the
//! processor. One packet after the other would wait twice; so the packets of a burst wait
//! together. A lookup under a lock cannot begin before the one in front of it has ended, which
//! is why the processor does not do this by itself.
//!
//! 1. Nothing here changes the table or an answer. A prefetch may be wrong or missing: sums are
//!    not checked, and a hash may be another connection's.
//! 2. A table of fewer than [`AHEAD_FROM`] connections is in the caches anyway, so nothing is done.

use thalweg_packet::Headers;

use super::Tracker;
use crate::reading::peek;

/// The least number of connections for which memory is prefetched; 1 in this crate's tests, so that
/// their small tables do it too.
const AHEAD_FROM: u32 = if cfg!(test) { 1 } else { 16_384 };

/// The most packets that wait together.
const BURST: usize = 32;

impl Tracker {
    /// Prefetches what tracking these packets will read: frame, headers and zone of each.
    ///
    /// Worth it for a burst, whose packets are tracked next. At most 32 are looked at.
    pub fn prefetch<'a>(&self, packets: impl Iterator<Item = (&'a [u8], &'a Headers, u16)>) {
        // Invariant 2.
        if self.connection_count() < AHEAD_FROM {
            return;
        }
        let mut hashes = [0; BURST];
        let mut count = 0;
        for (frame, headers, zone) in packets.take(BURST) {
            if let Some(tuple) = peek(frame, headers, zone) {
                let key = self.key(tuple);
                self.lock(self.shard_of(&key)).prefetch_place(key.hash);
                hashes[count] = key.hash;
                count += 1;
            }
        }
        for hash in &hashes[..count] {
            self.lock(self.shard_of_hash(*hash)).prefetch_slot(*hash);
        }
    }
}
