//! Evicts entries that no packet uses any more, a slice at a time.
//!
//! 1. A sweep looks at each entry once, and begins at most every [`INTERVAL`]. So an entry leaves
//!    at the latest that much later than it may, as far as the worker has time.
//! 2. Uses are in the time that the clock shows, which a hand may stop and move.

use std::time::Duration;

use thalweg_datapath::Datapath;
use thalweg_packet::Instant;

/// Time from the start of a sweep to the start of the next: Open vSwitch's revalidators look as
/// often.
const INTERVAL: Duration = Duration::from_millis(500);

/// Entries looked at between two bursts.
const SLICE: u32 = if cfg!(thalweg_model) { 2 } else { 128 };

/// Where a worker is with its search for idle entries.
#[derive(Debug)]
pub(crate) struct IdleSweep {
    /// How long an entry may go without a packet.
    limit: Option<Duration>,
    /// When the next sweep begins, in real time.
    next: Instant,
    /// The entry at which the sweep goes on; `None` between two sweeps.
    position: Option<u32>,
}

impl IdleSweep {
    pub(crate) fn new(limit: Option<Duration>) -> IdleSweep {
        IdleSweep {
            limit,
            next: Instant::ZERO + INTERVAL,
            position: None,
        }
    }

    /// Sets how long an entry may go without a packet; the next sweep begins at once.
    pub(crate) fn set(&mut self, limit: Option<Duration>) {
        self.limit = limit;
        (self.next, self.position) = (Instant::ZERO, None);
    }

    /// Looks at a slice of entries, if it is time; says whether it did.
    ///
    /// `real` is the real time, `shown` the time of uses.
    pub(crate) fn step(&mut self, datapath: &mut Datapath, real: Instant, shown: Instant) -> bool {
        let Some(limit) = self.limit else {
            return false;
        };
        if self.position.is_none() && real >= self.next {
            self.next = real + INTERVAL;
            self.position = Some(0);
        }
        let Some(from) = self.position else {
            return false;
        };
        // A clock that has not shown that much time yet shows no idle entry.
        let since = shown.checked_sub(limit);
        self.position = since.and_then(|since| datapath.evict_idle(from, SLICE, since));
        true
    }
}
