//! A sender's estimate of the round-trip time, and the resulting time-out (RFC 6298).
//!
//! It computes in whole nanoseconds with shifts that round down, as ns-3 does, so that the
//! estimate after many samples is the same to the nanosecond.

use crate::Time;

const MEAN_SHIFT: u32 = 3;
const VARIATION_SHIFT: u32 = 2;
/// RFC 6298 section 2.4 allows a maximum of at least 60 seconds.
const MAXIMUM_RTO: Time = Time::from_micros(60_000_000);
const NANO: u64 = 1_000;

/// The mean and the mean deviation of the samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RoundTrip {
    mean_nanos: i64,
    variation_nanos: i64,
    has_sample: bool,
}

impl RoundTrip {
    pub(crate) fn new(initial: Time) -> RoundTrip {
        RoundTrip {
            mean_nanos: nanos(initial),
            variation_nanos: 0,
            has_sample: false,
        }
    }

    /// Adds a sample (RFC 6298 sections 2.2 and 2.3).
    pub(crate) fn sample(&mut self, time: Time) {
        let sample = nanos(time);
        if !self.has_sample {
            self.has_sample = true;
            self.mean_nanos = sample;
            self.variation_nanos = sample / 2;
            return;
        }
        let error = sample - self.mean_nanos;
        self.mean_nanos = ((self.mean_nanos << MEAN_SHIFT) + error) >> MEAN_SHIFT;
        let change = error.abs() - self.variation_nanos;
        let variation = (self.variation_nanos << VARIATION_SHIFT) + change;
        self.variation_nanos = variation >> VARIATION_SHIFT;
    }

    /// The smoothed round-trip time.
    pub(crate) fn mean(&self) -> Time {
        Time::from_nanos(self.mean_nanos.max(0) as u64)
    }

    /// The time-out before any back-off.
    pub(crate) fn timeout(&self, minimum: Time) -> Time {
        let nanos = self.mean_nanos + 4 * self.variation_nanos;
        Time::from_nanos(nanos.max(0) as u64)
            .max(minimum)
            .min(MAXIMUM_RTO)
    }

    /// Whether a time-out cannot be doubled further.
    pub(crate) fn is_longest(timeout: Time) -> bool {
        timeout >= MAXIMUM_RTO
    }

    /// Twice a time-out (RFC 6298 section 5.5).
    pub(crate) fn backed_off(timeout: Time) -> Time {
        (timeout + timeout).min(MAXIMUM_RTO)
    }
}

fn nanos(time: Time) -> i64 {
    (time.as_picos() / NANO) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_by_an_eighth_and_the_deviation_by_a_quarter() {
        let mut rtt = RoundTrip::new(Time::from_micros(106));
        assert_eq!(rtt.mean(), Time::from_micros(106));
        rtt.sample(Time::from_micros(1));
        assert_eq!(rtt.mean(), Time::from_micros(1));
        assert_eq!(rtt.timeout(Time::ZERO), Time::from_micros(3));
        rtt.sample(Time::from_micros(1_000));
        // 1 + 999 / 8; 0.5 + (999 - 0.5) / 4.
        assert_eq!(rtt.mean(), Time::from_nanos(125_875));
        assert_eq!(
            rtt.timeout(Time::ZERO),
            Time::from_nanos(125_875 + 4 * 250_125)
        );
        assert_eq!(
            rtt.timeout(Time::from_micros(10_000)),
            Time::from_micros(10_000)
        );
    }

    #[test]
    fn a_timeout_doubles_up_to_a_minute() {
        let mut timeout = Time::from_micros(10_000);
        for _ in 0..20 {
            timeout = RoundTrip::backed_off(timeout);
        }
        assert_eq!(timeout, Time::from_micros(60_000_000));
    }
}
