//! Proportional rate reduction: sets the window in recovery (RFC 6937).
//!
//! The window shrinks from the bytes in flight to the threshold in proportion to delivered
//! bytes, so segments leave evenly throughout recovery. Once less than the threshold is in
//! flight, it may catch up: by one segment more than was delivered if a retransmitted segment
//! has arrived, otherwise by the delivered bytes.

use super::window::Window;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Prr {
    delivered_bytes: u64,
    sent_bytes: u64,
    /// Unacknowledged bytes when recovery began (RecoverFS).
    start_bytes: u64,
}

impl Prr {
    pub(crate) fn new(unacknowledged_bytes: u32) -> Prr {
        Prr {
            delivered_bytes: 0,
            sent_bytes: 0,
            start_bytes: u64::from(unacknowledged_bytes.max(1)),
        }
    }

    /// Notes sent bytes.
    pub(crate) fn note_sent(&mut self, bytes: u32) {
        self.sent_bytes += u64::from(bytes);
    }

    /// Notes delivered bytes and sets the window (RFC 6937 section 3).
    pub(crate) fn note_delivered(
        &mut self,
        window: &mut Window,
        in_flight_bytes: u32,
        delivered_bytes: u32,
        is_again: bool,
    ) {
        self.delivered_bytes += u64::from(delivered_bytes);
        let threshold = u64::from(window.threshold);
        let in_flight = u64::from(in_flight_bytes);
        let ahead = self.delivered_bytes.saturating_sub(self.sent_bytes);
        let may_send = if in_flight > threshold {
            let proportional = (self.delivered_bytes * threshold).div_ceil(self.start_bytes);
            proportional.saturating_sub(self.sent_bytes)
        } else {
            let delivered = u64::from(delivered_bytes);
            let limit = match is_again {
                true => ahead.max(delivered) + u64::from(window.segment_bytes),
                false => delivered,
            };
            limit.min(threshold - in_flight)
        };
        // The first segment is sent again at once, whatever the window.
        let least = match self.sent_bytes {
            0 => u64::from(window.segment_bytes),
            _ => 0,
        };
        let bytes = in_flight + may_send.max(least);
        window.bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 segments in flight, threshold 10: a segment leaves for every second one delivered.
    #[test]
    fn the_window_halves_evenly() {
        let mut window = Window {
            bytes: 20_000,
            threshold: 10_000,
            segment_bytes: 1_000,
        };
        let mut prr = Prr::new(20_000);
        let (mut in_flight, mut sent) = (19_000, 0);
        for _ in 0..19 {
            prr.note_delivered(&mut window, in_flight, 1_000, false);
            while window.bytes >= in_flight + 1_000 {
                prr.note_sent(1_000);
                in_flight += 1_000;
                sent += 1;
            }
            in_flight -= 1_000;
        }
        assert!((9..=10).contains(&sent), "{sent}");
    }

    #[test]
    fn far_below_the_threshold_it_catches_up() {
        let mut window = Window {
            bytes: 20_000,
            threshold: 10_000,
            segment_bytes: 1_000,
        };
        let mut prr = Prr::new(20_000);
        prr.note_sent(1_000);
        prr.note_delivered(&mut window, 2_000, 1_000, false);
        assert_eq!(window.bytes, 3_000);
        prr.note_delivered(&mut window, 2_000, 1_000, true);
        assert_eq!(window.bytes, 4_000);
        prr.note_delivered(&mut window, 9_500, 1_000, true);
        assert_eq!(window.bytes, 10_000);
    }
}
