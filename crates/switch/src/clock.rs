//! The one clock: nanoseconds since the switch was made.

use thalweg_packet::Instant;

use crate::sync::time;

/// Says how long the switch has existed; all its threads have the same one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: time::Instant,
}

impl Clock {
    /// A clock that begins now.
    pub(crate) fn start() -> Clock {
        Clock {
            start: time::Instant::now(),
        }
    }

    /// The time since then.
    pub(crate) fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }
}
