//! The only clock: nanoseconds since the switch was created.

use thalweg_packet::Instant;

use crate::sync::time;

/// Tells how long the switch has existed; all its threads share it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: time::Instant,
}

impl Clock {
    /// Starts a clock at zero.
    pub(crate) fn start() -> Clock {
        Clock {
            start: time::Instant::now(),
        }
    }

    /// The time since the start.
    pub(crate) fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }
}
