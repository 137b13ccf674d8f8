//! RACK-TLP: losses by time, and a probe for the tail (RFC 8985).
//!
//! A segment is lost if one that was sent later, by more than a reordering window, has arrived and a
//! round-trip time has passed. The window is nothing until reordering was seen, if as many segments
//! are sacked as would be three duplicates; then it is a quarter of the least round-trip time, and
//! more each round trip in which the receiver said that it got a segment twice, for 16 recoveries
//! (section 6.2, steps 3 and 4).
//!
//! Segments are looked at in the order in which they were sent, which is a queue of (time, number):
//! an element is void if the segment was acknowledged, sacked or sent again since. So what is looked
//! at is what is found, and one more.
//!
//! When nothing was heard for two round trips, the last segment is sent again, or a new one, so that
//! the tail of a flow is not left to the timer (section 7).

use std::collections::VecDeque;

use super::scoreboard::{Delivered, Latest, Scoreboard};
use crate::Time;

/// Section 6.2, step 4: DupThresh.
const DUPLICATES: u32 = 3;
/// Section 6.2.
const PERSIST_RECOVERIES: u8 = 16;
/// Section 6.2, step 4: the reordering window starts at a quarter of the least round-trip time.
const FRACTION: u64 = 4;

/// What RACK remembers of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Rack {
    /// Of the delivered segment that was sent last.
    latest: Option<Latest>,
    /// The round-trip time that it had.
    rtt: Time,
    least_rtt: Time,
    /// One more than the greatest segment delivered.
    forward: u32,
    has_seen_reordering: bool,
    window_multiplier: u32,
    window_persist: u8,
    /// No second widening before this is acknowledged.
    duplicate_round: Option<u32>,
    order: VecDeque<(Time, u32)>,
    /// When what waits for the reordering window is looked at again.
    pub(crate) deadline: Option<Time>,
    /// The probe that is out: where the flow ended then, and whether it was sent before.
    probe: Option<(u32, bool)>,
}

impl Rack {
    pub(crate) fn new() -> Rack {
        Rack {
            latest: None,
            rtt: Time::ZERO,
            least_rtt: Time::from_picos(u64::MAX),
            forward: 0,
            has_seen_reordering: false,
            window_multiplier: 1,
            window_persist: PERSIST_RECOVERIES,
            duplicate_round: None,
            order: VecDeque::new(),
            deadline: None,
            probe: None,
        }
    }

    /// Forgets everything but its memory.
    pub(crate) fn reset(&mut self) {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        *self = Rack {
            order,
            ..Rack::new()
        };
    }

    pub(crate) fn note_sent(&mut self, number: u32, now: Time) {
        self.order.push_back((now, number));
    }

    /// Something was delivered (section 6.2, steps 1 to 3).
    pub(crate) fn note_delivered(&mut self, delivered: &Delivered, now: Time) {
        let Some(latest) = delivered.latest else {
            return;
        };
        // What was sent once, and came after what was sent behind it.
        let least = delivered.least_fresh;
        self.has_seen_reordering |= least.is_some_and(|number| number < self.forward);
        self.forward = self.forward.max(delivered.end);
        let rtt = now - latest.sent_at;
        // Sent again and back sooner than can be: it was the first copy.
        if latest.was_again && rtt < self.least_rtt {
            return;
        }
        if !latest.was_again {
            self.least_rtt = self.least_rtt.min(rtt);
        }
        if self.latest.is_none_or(|known| latest > known) {
            self.latest = Some(latest);
            self.rtt = rtt;
        }
    }

    /// The receiver got a segment twice (section 6.2, step 4).
    pub(crate) fn note_duplicate(&mut self, acknowledged: u32, sent: u32) {
        if self
            .duplicate_round
            .is_none_or(|round| acknowledged >= round)
        {
            self.duplicate_round = Some(sent);
            self.window_multiplier += 1;
            self.window_persist = PERSIST_RECOVERIES;
        }
    }

    /// A recovery is over.
    pub(crate) fn note_recovered(&mut self) {
        self.window_persist = self.window_persist.saturating_sub(1);
        if self.window_persist == 0 {
            self.window_multiplier = 1;
        }
    }

    fn reordering_window(&self, board: &Scoreboard, in_recovery: bool, mean: Time) -> Time {
        if !self.has_seen_reordering && (in_recovery || board.sacked_count() >= DUPLICATES) {
            return Time::ZERO;
        }
        let quarter = self.least_rtt.as_picos() / FRACTION;
        let window = quarter.saturating_mul(u64::from(self.window_multiplier));
        Time::from_picos(window).min(mean)
    }

    /// Finds what is lost by now; sets when to look again (section 6.2, step 5).
    pub(crate) fn detect(
        &mut self,
        board: &mut Scoreboard,
        now: Time,
        in_recovery: bool,
        mean: Time,
    ) -> u32 {
        self.deadline = None;
        let Some(latest) = self.latest else {
            return 0;
        };
        let window = self.reordering_window(board, in_recovery, mean);
        let mut found = 0;
        while let Some(&(sent_at, number)) = self.order.front() {
            let is_void = board.record(number).is_none_or(|record| {
                record.is_sacked
                    || record.sent_at != sent_at
                    || (record.is_lost && !record.is_again)
            });
            if !is_void {
                if (sent_at, number) >= (latest.sent_at, latest.number) {
                    break;
                }
                let due = sent_at + self.rtt + window;
                if due > now {
                    self.deadline = Some(due);
                    break;
                }
                board.lose(number);
                found += 1;
            }
            self.order.pop_front();
        }
        found
    }

    /// When a probe is due (section 7.2), if none is out.
    pub(crate) fn probe_after(&self, in_flight: u32, mean: Time, delayed: Time) -> Option<Time> {
        let twice = mean + mean;
        match (self.probe, in_flight) {
            (Some(_), _) | (_, 0) => None,
            (None, 1) => Some(twice + delayed),
            (None, _) => Some(twice),
        }
    }

    /// A probe is sent (section 7.3).
    pub(crate) fn note_probe(&mut self, end: u32, is_again: bool) {
        self.probe = Some((end, is_again));
    }

    /// Whether the probe that was out repaired a loss, for which the window is to shrink
    /// (section 7.4.2).
    pub(crate) fn note_acknowledged(&mut self, up_to: u32, has_duplicate: bool) -> bool {
        match self.probe {
            Some((end, is_again)) if up_to >= end => {
                self.probe = None;
                is_again && !has_duplicate
            }
            _ => false,
        }
    }

    pub(crate) fn forget_probe(&mut self) {
        self.probe = None;
    }
}
