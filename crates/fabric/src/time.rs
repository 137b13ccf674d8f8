//! Simulated time: picoseconds since the start, in 64 bits.
//!
//! A byte takes 80 ps at 100 Gb/s and 20 ps at 400 Gb/s, so picoseconds represent it exactly.
//! 64 bits last for 213 days. Points and spans are one type: a span is the time since the
//! start.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use thalweg_packet::Instant;

/// A point in simulated time, or a span, in picoseconds.
///
/// ```
/// use thalweg_fabric::Time;
///
/// let later = Time::from_micros(1) + Time::from_nanos(9);
/// assert_eq!(later.as_picos(), 1_009_000);
/// assert_eq!(later.to_string(), "1.009 µs");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(u64);

const PICOS_PER_NANO: u64 = 1_000;
const PICOS_PER_MICRO: u64 = 1_000_000;

impl Time {
    /// The start.
    pub const ZERO: Time = Time(0);

    /// A time of `picos` picoseconds.
    pub const fn from_picos(picos: u64) -> Time {
        Time(picos)
    }

    /// A time of `nanos` nanoseconds.
    ///
    /// # Panics
    /// Past 213 days.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos.checked_mul(PICOS_PER_NANO).expect("within 213 days"))
    }

    /// A time of `micros` microseconds.
    ///
    /// # Panics
    /// Past 213 days.
    pub const fn from_micros(micros: u64) -> Time {
        Time(
            micros
                .checked_mul(PICOS_PER_MICRO)
                .expect("within 213 days"),
        )
    }

    /// Picoseconds.
    #[inline]
    pub const fn as_picos(self) -> u64 {
        self.0
    }

    /// Microseconds, with a fraction.
    pub fn as_micros_f64(self) -> f64 {
        self.0 as f64 / PICOS_PER_MICRO as f64
    }

    /// The time truncated to whole nanoseconds.
    #[inline]
    pub const fn whole_nanos(self) -> Time {
        Time(self.0 / PICOS_PER_NANO * PICOS_PER_NANO)
    }

    /// The time as the protocol's agents' type, truncated to nanoseconds.
    #[inline]
    pub const fn to_instant(self) -> Instant {
        Instant::from_nanos(self.0 / PICOS_PER_NANO)
    }
}

impl From<std::time::Duration> for Time {
    fn from(duration: std::time::Duration) -> Time {
        let nanos = u64::try_from(duration.as_nanos()).expect("within 213 days");
        Time::from_nanos(nanos)
    }
}

impl Add for Time {
    type Output = Time;

    #[inline]
    fn add(self, span: Time) -> Time {
        Time(self.0 + span.0)
    }
}

impl AddAssign for Time {
    #[inline]
    fn add_assign(&mut self, span: Time) {
        self.0 += span.0;
    }
}

/// The span between two points; zero if `earlier` is later.
impl Sub for Time {
    type Output = Time;

    #[inline]
    fn sub(self, earlier: Time) -> Time {
        Time(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} µs", self.as_micros_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_are_cut_and_spans_never_negative() {
        let time = Time::from_picos(9_760);
        assert_eq!(time.whole_nanos(), Time::from_nanos(9));
        assert_eq!(time.to_instant(), Instant::from_nanos(9));
        assert_eq!(Time::ZERO - time, Time::ZERO);
        assert_eq!(
            Time::from(std::time::Duration::from_micros(2)),
            Time::from_micros(2)
        );
    }
}
