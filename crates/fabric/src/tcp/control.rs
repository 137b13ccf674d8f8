//! Sets the size of the window: the congestion control algorithms behind one enum.
//!
//! The sender's state machine (`sender.rs`) decides when a window may grow and when it must
//! shrink; the algorithm says by how much. A window is in bytes. In slow start it grows by
//! segments acknowledged, not by acknowledgements (RFC 3465 with no limit, because receivers
//! acknowledge every second segment).
//!
//! | algorithm | growth after slow start | after a loss |
//! | --- | --- | --- |
//! | `NewReno` | a segment each window (RFC 5681 section 3.1) | half of the bytes in flight |
//! | `Cubic` | `cubic.rs` | 0.7 of the window |
//! | `CubicNs3` | `cubic_ns3.rs` | 0.7 of the window |
//! | `Dctcp` | as NewReno | as NewReno; once a window, by half of the marked share (RFC 8257) |

use super::config::Algorithm;
use super::cubic::Cubic;
use super::cubic_ns3::CubicNs3;
use super::window::{Acked, Window};

/// The least threshold, by RFC 5681 section 4.3 and RFC 9438 section 4.6.
const LEAST_THRESHOLD_SEGMENTS: u32 = 2;
/// g of RFC 8257 section 3.3 is one 16th.
const DCTCP_SHIFT: u32 = 4;
/// 1 in the fixed point of the marked share.
const DCTCP_ONE: u32 = 1 << 20;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
    NewReno(NewReno),
    Cubic(Cubic),
    CubicNs3(CubicNs3),
    Dctcp(Dctcp),
}

impl Control {
    pub(crate) fn new(algorithm: Algorithm) -> Control {
        match algorithm {
            Algorithm::NewReno => Control::NewReno(NewReno::default()),
            Algorithm::Cubic => Control::Cubic(Cubic::default()),
            Algorithm::CubicNs3 => Control::CubicNs3(CubicNs3::default()),
            Algorithm::Dctcp => Control::Dctcp(Dctcp::default()),
        }
    }

    /// Notes an acknowledgement, whether or not the window may grow for it.
    pub(crate) fn note(&mut self, window: &mut Window, acked: &Acked) {
        if let Control::CubicNs3(cubic) = self {
            cubic.note(window, acked);
        }
    }

    /// Grows the window for newly acknowledged segments.
    pub(crate) fn grow(&mut self, window: &mut Window, acked: &Acked) {
        match self {
            Control::NewReno(reno) => reno.grow(window, acked.segments),
            Control::Cubic(cubic) => cubic.grow(window, acked),
            Control::CubicNs3(cubic) => cubic.grow(window, acked),
            Control::Dctcp(dctcp) => dctcp.reno.grow(window, acked.segments),
        }
    }

    /// The threshold after a loss.
    pub(crate) fn threshold(&mut self, window: &Window, in_flight_bytes: u32) -> u32 {
        let least = LEAST_THRESHOLD_SEGMENTS * window.segment_bytes;
        match self {
            Control::NewReno(_) | Control::Dctcp(_) => in_flight_bytes / 2,
            Control::Cubic(cubic) => cubic.shrink(window),
            Control::CubicNs3(cubic) => cubic.shrink(window),
        }
        .max(least)
    }

    /// Notes a time-out.
    pub(crate) fn time_out(&mut self, acked: &Acked) {
        match self {
            Control::CubicNs3(cubic) => cubic.time_out(acked),
            Control::Cubic(cubic) => cubic.time_out(),
            Control::NewReno(_) | Control::Dctcp(_) => {}
        }
    }

    /// Counts marks; returns whether the window must shrink for them now, once a window.
    pub(crate) fn note_marks(&mut self, window: &mut Window, acked: &Acked) -> bool {
        match self {
            Control::Dctcp(dctcp) => dctcp.note_marks(window, acked),
            _ => false,
        }
    }
}

/// RFC 5681's growth.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NewReno {
    /// Acknowledged segments that count towards the window's next growth.
    credit: u32,
}

impl NewReno {
    fn grow(&mut self, window: &mut Window, segments: u32) {
        if window.is_in_slow_start() {
            return window.grow(segments);
        }
        self.credit += segments;
        let size = window.segments().max(1);
        if self.credit >= size {
            self.credit -= size;
            window.grow(1);
        }
    }
}

/// RFC 8257's estimate of the share of marked bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dctcp {
    reno: NewReno,
    /// alpha; 1 at the start (RFC 8257 section 3.3).
    alpha: u32,
    acked: u32,
    marked: u32,
    /// The observation window ends when this segment is acknowledged.
    window_end: u32,
    /// No second reduction until this segment is acknowledged.
    reduced_until: u32,
}

impl Default for Dctcp {
    fn default() -> Dctcp {
        Dctcp {
            reno: NewReno::default(),
            alpha: DCTCP_ONE,
            acked: 0,
            marked: 0,
            window_end: 0,
            reduced_until: 0,
        }
    }
}

impl Dctcp {
    fn note_marks(&mut self, window: &mut Window, acked: &Acked) -> bool {
        self.acked += acked.segments;
        if acked.is_marked {
            self.marked += acked.segments;
        }
        if acked.up_to > self.window_end {
            let share = u64::from(self.marked) * u64::from(DCTCP_ONE);
            let share = (share / u64::from(self.acked.max(1))) as u32;
            self.alpha = self.alpha - (self.alpha >> DCTCP_SHIFT) + (share >> DCTCP_SHIFT);
            (self.acked, self.marked) = (0, 0);
            self.window_end = acked.sent;
        }
        if !acked.is_marked || acked.up_to <= self.reduced_until {
            return false;
        }
        self.reduced_until = acked.sent;
        // cwnd * (1 - alpha / 2), section 3.3.
        let less = u64::from(window.bytes) * u64::from(self.alpha) / u64::from(2 * DCTCP_ONE);
        let least = LEAST_THRESHOLD_SEGMENTS * window.segment_bytes;
        window.bytes = (window.bytes - less as u32).max(least);
        window.threshold = window.bytes;
        true
    }

    #[cfg(test)]
    pub(crate) fn alpha(&self) -> f64 {
        f64::from(self.alpha) / f64::from(DCTCP_ONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;

    fn window(segments: u32) -> Window {
        let segment_bytes = 1_000;
        let bytes = segments * segment_bytes;
        Window {
            bytes,
            threshold: bytes,
            segment_bytes,
        }
    }

    fn acked(segments: u32, up_to: u32, is_marked: bool) -> Acked {
        let (now, rtt) = (Time::from_micros(1), Time::from_micros(10));
        Acked {
            now,
            segments,
            up_to,
            sent: up_to + 100,
            rtt,
            is_marked,
        }
    }

    #[test]
    fn newreno_adds_a_segment_each_window_and_halves() {
        let (mut window, mut reno) = (window(10), Control::new(Algorithm::NewReno));
        for round in 0..5_u32 {
            let size = window.segments();
            for _ in 0..size {
                reno.grow(&mut window, &acked(1, 0, false));
            }
            assert_eq!(window.segments(), 11 + round);
        }
        assert_eq!(reno.threshold(&window, 15_000), 7_500);
        assert_eq!(reno.threshold(&window, 1_000), 2_000);
    }

    /// With a share `s` of marks, alpha tends to `s` by 15/16 a window (RFC 8257 section 3.3).
    #[test]
    fn dctcp_follows_the_share_of_marks() {
        let (mut window, mut dctcp) = (window(100), Dctcp::default());
        let (mut up_to, mut expected) = (0, 1.0);
        for _ in 0..60 {
            // The observation window closes with the acknowledgement past its end.
            for number in 0..100 {
                up_to += 1;
                dctcp.note_marks(&mut window, &acked(1, up_to, number % 4 == 0));
            }
        }
        for _ in 0..60 {
            expected = expected * 15.0 / 16.0 + 0.25 / 16.0;
        }
        assert!(
            (dctcp.alpha() - expected).abs() < 0.02,
            "{} {expected}",
            dctcp.alpha()
        );
    }

    #[test]
    fn dctcp_shrinks_once_a_window_by_half_of_alpha() {
        let (mut window, mut dctcp) = (window(100), Dctcp::default());
        assert!(dctcp.note_marks(&mut window, &acked(2, 2, true)));
        // alpha was 1 and the first share 1: half.
        assert_eq!(window.segments(), 50);
        assert!(!dctcp.note_marks(&mut window, &acked(2, 4, true)));
        assert_eq!((window.segments(), window.threshold), (50, window.bytes));
        assert!(dctcp.note_marks(&mut window, &acked(99, 103, true)));
        assert_eq!(window.segments(), 25);
    }
}
