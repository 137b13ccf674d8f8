//! Time as the pure crates know it: a number that the caller passes in.
//!
//! No crate below `switch` reads a clock. The owner of the loop reads it once per burst and
//! passes it down, so a test (or the fabric) can move time by hand.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time, in nanoseconds since a start that the caller chose.
///
/// Captures use the Unix epoch; a running switch uses its own start.
///
/// ```
/// use std::time::Duration;
/// use thalweg_packet::Instant;
///
/// let start = Instant::from_nanos(5);
/// let later = start + Duration::from_millis(2);
/// assert_eq!(later - start, Duration::from_millis(2));
/// assert_eq!(start - later, Duration::ZERO); // saturates: time never runs backwards
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(u64);

impl Instant {
    /// The start of time.
    pub const ZERO: Instant = Instant(0);

    /// The instant `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The instant that much earlier; `None` before the start.
    pub fn checked_sub(self, duration: Duration) -> Option<Instant> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        self.0.checked_sub(nanos).map(Instant)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(nanos))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}
