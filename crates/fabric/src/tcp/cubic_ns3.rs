//! CUBIC as in ns-3 3.36, with HyStart; SwitchV2P's published code ran on it.
//!
//! It differs from RFC 9438:
//! - Windows are whole segments, and the cubic and its distance from the window are truncated
//!   to whole segments.
//! - There is no Reno-friendly region.
//! - Before the first loss the window grows at slowest by a segment for every 20 acknowledged,
//!   and at fastest for every 2. In a data centre the cubic is flat for seconds, so the
//!   slowest applies.
//!
//! HyStart leaves slow start only once (until a time-out), when
//! - acknowledgements come less than 2 ms apart, and one arrives later after the start of the
//!   round than the least round-trip time; or
//! - the least of 8 samples of a round is more than 4 ms above the least of all.
//!
//! A round ends when everything sent before its start is acknowledged. Windows of fewer than
//! 16 segments are ignored. With timestamps in milliseconds the least round-trip time is 1 µs,
//! so the first rule applies at once.
//!
//! Reference: HyStart is from Sangtae Ha, Injong Rhee, *Hybrid Slow Start for High-Bandwidth
//! and Long-Distance Networks*; the numbers are ns-3's defaults.

use super::cubic::cubic_root;
use super::window::{Acked, Window};
use crate::Time;

const C: f64 = 0.4;
const BETA: f64 = 0.7;
const LEAST_THRESHOLD_SEGMENTS: u32 = 2;
/// Acknowledged segments per segment of growth.
const FASTEST: u32 = 2;
const SLOWEST_BEFORE_LOSS: u32 = 20;
const FLAT: u32 = 100;
/// Samples this soon after the start of an epoch are ignored.
const EPOCH_QUIET: Time = Time::from_micros(10_000);

const HYSTART_WINDOW_SEGMENTS: u32 = 16;
const HYSTART_TRAIN_GAP: Time = Time::from_micros(2_000);
const HYSTART_SAMPLES: u32 = 8;
const HYSTART_LEAST_DELAY: Time = Time::from_micros(4_000);
const HYSTART_MOST_DELAY: Time = Time::from_micros(1_000_000);

#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    /// The time at which the cubic reaches its origin, in seconds.
    inflection: f64,
    /// The window at the origin.
    origin: u32,
}

/// A round of HyStart.
#[derive(Clone, Copy, Debug)]
struct Round {
    start: Time,
    last_acked_at: Time,
    /// The round ends when more than this is acknowledged.
    end: u32,
    least_rtt: Option<Time>,
    samples: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CubicNs3 {
    epoch: Option<Epoch>,
    /// The window before the last loss, or less by fast convergence; 0 before the first loss.
    greatest: u32,
    credit: u32,
    least_rtt: Option<Time>,
    has_left_slow_start: bool,
    round: Option<Round>,
}

impl CubicNs3 {
    pub(crate) fn note(&mut self, window: &mut Window, acked: &Acked) {
        if self
            .epoch
            .is_some_and(|epoch| acked.now - epoch.start < EPOCH_QUIET)
        {
            return;
        }
        let least = self
            .least_rtt
            .map_or(acked.rtt, |least| least.min(acked.rtt));
        self.least_rtt = Some(least);
        let is_large = window.segments() >= HYSTART_WINDOW_SEGMENTS;
        if window.bytes <= window.threshold && is_large && !self.has_left_slow_start {
            self.look_at_round(window, acked, least);
        }
    }

    fn look_at_round(&mut self, window: &mut Window, acked: &Acked, least: Time) {
        let Some(round) = &mut self.round else {
            return;
        };
        let mut leaves = false;
        if acked.now - round.last_acked_at <= HYSTART_TRAIN_GAP {
            round.last_acked_at = acked.now;
            leaves = acked.now - round.start > least;
        }
        if round.samples < HYSTART_SAMPLES {
            round.samples += 1;
            let sample = round
                .least_rtt
                .map_or(acked.rtt, |least| least.min(acked.rtt));
            round.least_rtt = Some(sample);
        } else {
            let margin = least.clamp(HYSTART_LEAST_DELAY, HYSTART_MOST_DELAY);
            leaves |= round
                .least_rtt
                .is_some_and(|sample| sample > least + margin);
        }
        if leaves {
            self.has_left_slow_start = true;
            window.threshold = window.bytes;
        }
    }

    pub(crate) fn grow(&mut self, window: &mut Window, acked: &Acked) {
        if window.is_in_slow_start() {
            if self.round.is_none_or(|round| acked.up_to > round.end) {
                self.round = Some(round_from(acked));
            }
            return window.grow(acked.segments);
        }
        if acked.segments == 0 {
            return;
        }
        self.credit += acked.segments;
        let needed = self.needed_credit(window.segments(), acked.now);
        if self.credit >= needed {
            self.credit -= needed;
            window.grow(1);
        }
    }

    /// Acknowledged segments needed for one more segment of window.
    fn needed_credit(&mut self, size: u32, now: Time) -> u32 {
        let greatest = self.greatest;
        let epoch = *self.epoch.get_or_insert_with(|| {
            let below = greatest.saturating_sub(size);
            Epoch {
                start: now,
                inflection: cubic_root(f64::from(below) / C),
                origin: greatest.max(size),
            }
        });
        let since = (now - epoch.start) + self.least_rtt.unwrap_or(Time::ZERO);
        let since = since.as_picos() as f64 / 1e12;
        let offset = (since - epoch.inflection).abs();
        let change = (C * offset * offset * offset) as u32;
        let target = match since < epoch.inflection {
            true => epoch.origin.saturating_sub(change),
            false => epoch.origin.saturating_add(change),
        };
        let needed = match target.checked_sub(size) {
            None | Some(0) => FLAT.saturating_mul(size),
            Some(missing) => size / missing,
        };
        let needed = match self.greatest {
            0 => needed.min(SLOWEST_BEFORE_LOSS),
            _ => needed,
        };
        needed.max(FASTEST)
    }

    pub(crate) fn shrink(&mut self, window: &Window) -> u32 {
        let size = window.segments();
        self.greatest = match size < self.greatest {
            true => (f64::from(size) * (1.0 + BETA) / 2.0) as u32,
            false => size,
        };
        self.epoch = None;
        let threshold = (f64::from(size) * BETA) as u32;
        threshold.max(LEAST_THRESHOLD_SEGMENTS) * window.segment_bytes
    }

    pub(crate) fn time_out(&mut self, acked: &Acked) {
        self.greatest = 0;
        self.least_rtt = None;
        self.has_left_slow_start = false;
        self.round = Some(round_from(acked));
    }
}

fn round_from(acked: &Acked) -> Round {
    Round {
        start: acked.now,
        last_acked_at: acked.now,
        end: acked.sent,
        least_rtt: None,
        samples: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u32 = 1_024;

    fn acked(micros: u64, segments: u32, up_to: u32, sent: u32) -> Acked {
        let (now, rtt) = (Time::from_micros(micros), Time::from_micros(1));
        Acked {
            now,
            segments,
            up_to,
            sent,
            rtt,
            is_marked: false,
        }
    }

    /// A round longer than 1 µs leaves slow start at 16 segments; then one segment per 20.
    #[test]
    fn hystart_stops_at_sixteen_and_growth_is_slow() {
        let mut window = Window {
            bytes: 10 * SEGMENT,
            threshold: u32::MAX,
            segment_bytes: SEGMENT,
        };
        let mut cubic = CubicNs3::default();
        let mut up_to = 0;
        for step in 0..8_u64 {
            up_to += 1;
            let acked = acked(100 + step * 2, 1, up_to, up_to + window.segments());
            cubic.note(&mut window, &acked);
            cubic.grow(&mut window, &acked);
        }
        assert_eq!((window.segments(), window.threshold), (16, 16 * SEGMENT));
        // Two of the eight were not used in slow start.
        for _ in 0..16 {
            up_to += 1;
            let acked = acked(120, 1, up_to, up_to + 16);
            cubic.note(&mut window, &acked);
            cubic.grow(&mut window, &acked);
        }
        let last = acked(121, 2, up_to + 2, up_to + 18);
        assert_eq!(window.segments(), 16);
        cubic.grow(&mut window, &last);
        assert_eq!(window.segments(), 17);
    }

    #[test]
    fn a_loss_takes_to_seven_tenths_and_the_curve_is_flat() {
        let mut window = Window {
            bytes: 100 * SEGMENT,
            threshold: 0,
            segment_bytes: SEGMENT,
        };
        let mut cubic = CubicNs3::default();
        window.bytes = cubic.shrink(&window);
        assert_eq!(window.segments(), 70);
        // K = cbrt(30 / 0.4) = 4.2 s: at first 70 / (70.0.. - 70) is flat; half way it is not.
        assert_eq!(cubic.needed_credit(70, Time::ZERO), 7_000);
        let half = cubic.needed_credit(70, Time::from_micros(2_100_000));
        // 100 - cut(0.4 * 2.117^3 = 3.79) = 97; 70 / 27.
        assert_eq!(half, 2);
    }
}
