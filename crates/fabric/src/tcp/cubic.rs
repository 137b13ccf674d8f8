//! CUBIC (RFC 9438): the window is a cubic function of the time since the last loss.
//!
//! ```text
//!   W_cubic(t) = C (t - K)^3 + W_max          K = cubic root of (W_max - cwnd_epoch) / C
//!   target     = W_cubic(t + RTT), not below the window and not above 1.5 of it
//!   each segment acknowledged adds (target - window) / window segments     (section 4.4, 4.5)
//!   W_est grows as Reno's would; the window is never below it              (section 4.3)
//! ```
//!
//! Windows are counted in segments, with fractions. The cubic root is our own (Newton's
//! method), and everything else uses the four basic operations, so a run is the same on every
//! machine.
//!
//! Reference: L. Xu, S. Ha, I. Rhee, V. Goel, L. Eggert, *CUBIC for Fast and Long-Distance
//! Networks*, RFC 9438, 2023, sections 4.1 to 4.7. Departure: slow start is left only by a loss;
//! HyStart is in the other variant.

use super::window::{Acked, Window};
use crate::Time;

/// Section 5: C is 0.4 segments per cubic second.
const C: f64 = 0.4;
/// Section 4.6.
const BETA: f64 = 0.7;
/// Section 4.3: the growth of W_est per segment that makes it as large as Reno's with 0.5.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Section 4.2: the greatest ratio of target to window.
const STEEPEST: f64 = 1.5;

/// The time since the last loss, or since the end of slow start.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    /// K, in seconds.
    inflection: f64,
    /// W_est.
    reno: f64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cubic {
    epoch: Option<Epoch>,
    /// W_max; 0 before the first loss.
    greatest: f64,
    /// The window before it last shrank; when W_est reaches it, W_est grows by one per window.
    before: f64,
    /// The fraction of a segment not yet added to the window.
    credit: f64,
}

impl Cubic {
    pub(crate) fn grow(&mut self, window: &mut Window, acked: &Acked) {
        if window.is_in_slow_start() {
            return window.grow(acked.segments);
        }
        let size = f64::from(window.bytes) / f64::from(window.segment_bytes) + self.credit;
        let epoch = self.epoch_at(acked.now, size);
        let since = seconds(acked.now - epoch.start);
        let target = self.window_at(&epoch, since + seconds(acked.rtt));
        let target = target.clamp(size, STEEPEST * size);
        let segments = f64::from(acked.segments);
        // Section 4.3: once W_est reaches the earlier window, it grows by one per window.
        let alpha = if epoch.reno < self.before { ALPHA } else { 1.0 };
        let reno = epoch.reno + alpha * segments / size;
        let grown = match self.window_at(&epoch, since) < reno {
            true => reno.max(size),
            false => size + (target - size) / size * segments,
        };
        self.epoch = Some(Epoch { reno, ..epoch });
        let whole = (grown - size + self.credit).max(0.0) as u32;
        self.credit = grown - size + self.credit - f64::from(whole);
        window.grow(whole);
    }

    /// Notes a loss; returns the threshold (sections 4.6 and 4.7).
    pub(crate) fn shrink(&mut self, window: &Window) -> u32 {
        let size = f64::from(window.bytes) / f64::from(window.segment_bytes);
        self.greatest = match size < self.greatest {
            true => size * (1.0 + BETA) / 2.0,
            false => size,
        };
        (self.before, self.epoch, self.credit) = (size, None, 0.0);
        (f64::from(window.bytes) * BETA) as u32
    }

    /// After a time-out the next epoch begins at the end of slow start (section 4.8).
    pub(crate) fn time_out(&mut self) {
        (self.epoch, self.credit) = (None, 0.0);
    }

    /// The current epoch; begins one now if there is none.
    fn epoch_at(&mut self, now: Time, size: f64) -> Epoch {
        if let Some(epoch) = self.epoch {
            return epoch;
        }
        let below = (self.greatest - size).max(0.0);
        self.greatest = self.greatest.max(size);
        Epoch {
            start: now,
            inflection: cubic_root(below / C),
            reno: size,
        }
    }

    fn window_at(&self, epoch: &Epoch, since: f64) -> f64 {
        let offset = since - epoch.inflection;
        C * offset * offset * offset + self.greatest
    }
}

fn seconds(time: Time) -> f64 {
    time.as_picos() as f64 / 1e12
}

/// The cubic root of a non-negative number.
pub(super) fn cubic_root(number: f64) -> f64 {
    if number <= 0.0 {
        return 0.0;
    }
    // A third of the exponent is within a factor of two; each step doubles the correct digits.
    let bits = number.to_bits() / 3 + (1023 - 1023 / 3) * (1 << 52);
    let mut root = f64::from_bits(bits);
    for _ in 0..6 {
        root = (2.0 * root + number / (root * root)) / 3.0;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cubic_root_is_one() {
        for number in [1e-9, 0.001, 0.5, 1.0, 2.0, 27.0, 1e6, 123_456_789.0] {
            let root = cubic_root(number);
            assert!(
                (root * root * root / number - 1.0).abs() < 1e-14,
                "{number}: {root}"
            );
        }
        assert_eq!(cubic_root(0.0), 0.0);
    }

    /// A window whose segments are acknowledged once each round trip follows figure 1 of RFC
    /// 9438.
    #[test]
    fn the_window_follows_the_curve() {
        let rtt = Time::from_micros(20_000);
        let mut window = Window {
            bytes: 2_000_000,
            threshold: 0,
            segment_bytes: 1_000,
        };
        let mut cubic = Cubic::default();
        // A loss at 2,000 segments: K = cbrt(600 / 0.4) = 11.4 s.
        window.threshold = cubic.shrink(&window);
        window.bytes = window.threshold;
        assert_eq!(window.bytes, 1_400_000);
        let inflection = cubic_root(600.0 / C);
        let (start, mut now) = (Time::from_micros(1), Time::from_micros(1));
        let mut samples = 0;
        while now < Time::from_micros(20_000_000) {
            let size = window.segments();
            for _ in 0..size {
                let acked = Acked {
                    now,
                    segments: 1,
                    up_to: 0,
                    sent: 0,
                    rtt,
                    is_marked: false,
                };
                cubic.grow(&mut window, &acked);
            }
            now += rtt;
            // The window at the end of a round trip is W_cubic of that time (section 4.2).
            let since = seconds(now - start) - inflection;
            let expected = C * since * since * since + 2_000.0;
            let found = f64::from(window.bytes) / 1_000.0;
            assert!(
                (found - expected).abs() < 0.01 * expected,
                "{now}: {found} {expected}"
            );
            samples += 1;
        }
        assert_eq!(samples, 1_000);
    }

    /// With a short round trip the cubic is flat, and the window grows as Reno's (section
    /// 4.3).
    #[test]
    fn a_short_round_trip_grows_as_reno() {
        let rtt = Time::from_micros(100);
        let mut window = Window {
            bytes: 100_000,
            threshold: 0,
            segment_bytes: 1_000,
        };
        let mut cubic = Cubic::default();
        window.threshold = cubic.shrink(&window);
        window.bytes = window.threshold;
        let (mut now, mut expected) = (Time::from_micros(1), 70.0);
        for _ in 0..200 {
            for _ in 0..window.segments() {
                let acked = Acked {
                    now,
                    segments: 1,
                    up_to: 0,
                    sent: 0,
                    rtt,
                    is_marked: false,
                };
                cubic.grow(&mut window, &acked);
            }
            expected += if expected < 100.0 { ALPHA } else { 1.0 };
            now += rtt;
        }
        let found = f64::from(window.bytes) / 1_000.0;
        assert!(
            (found - expected).abs() < 0.02 * expected,
            "{found} {expected}"
        );
    }

    #[test]
    fn a_second_loss_below_the_first_remembers_less() {
        let mut window = Window {
            bytes: 100_000,
            threshold: 0,
            segment_bytes: 1_000,
        };
        let mut cubic = Cubic::default();
        assert_eq!(cubic.shrink(&window), 70_000);
        assert_eq!(cubic.greatest, 100.0);
        window.bytes = 80_000;
        assert_eq!(cubic.shrink(&window), 56_000);
        assert_eq!(cubic.greatest, 80.0 * 0.85);
    }
}
