//! RACK-TLP: detects losses by time, and probes for the tail (RFC 8985).
//!
//! A segment is lost if a round-trip time has passed and a segment sent later, by more than a
//! reordering window, has arrived. While no reordering was seen, the window is zero in recovery or
//! when at least three segments are sacked. Otherwise it is a quarter of the least round-trip time.
//! It grows each round trip in which the receiver reported a duplicate, and stays larger for 16
//! recoveries (section 6.2, steps 3 and 4).
//!
//! Segments are examined in the order in which they were sent, from a queue of (time, number).
//! An element is void if its segment was since acknowledged, sacked or sent again. So each
//! search examines only the losses it finds, and one more element.
//!
//! After two round trips without an acknowledgement, the last segment or a new one is sent, so
//! that the tail of a flow does not depend on the timer (section 7).

use std::collections::VecDeque;

use super::scoreboard::{Delivered, Latest, Scoreboard};
use crate::Time;

/// Section 6.2, step 4: DupThresh.
const DUPLICATES: u32 = 3;
/// Section 6.2.
const PERSIST_RECOVERIES: u8 = 16;
/// Section 6.2, step 4: the reordering window starts at a quarter of the least round-trip time.
const FRACTION: u64 = 4;

/// RACK's state for a connection.
#[derive(Clone, Debug)]
pub(crate) struct Rack {
    /// The most recently sent segment among those delivered.
    latest: Option<Latest>,
    /// Its round-trip time.
    rtt: Time,
    least_rtt: Time,
    /// One more than the greatest delivered segment.
    forward: u32,
    has_seen_reordering: bool,
    window_multiplier: u32,
    window_persist: u8,
    /// No second widening until this segment is acknowledged.
    duplicate_round: Option<u32>,
    order: VecDeque<(Time, u32)>,
    /// The time to search again for segments that wait for the reordering window.
    pub(crate) deadline: Option<Time>,
    /// The outstanding probe: the end of the flow then, and whether it was a retransmission.
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

    /// Forgets everything but keeps its memory.
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

    /// Notes a delivery (section 6.2, steps 1 to 3).
    pub(crate) fn note_delivered(&mut self, delivered: &Delivered, now: Time) {
        let Some(latest) = delivered.latest else {
            return;
        };
        // Detects reordering: a segment sent once arrived after a later one.
        let least = delivered.least_fresh;
        self.has_seen_reordering |= least.is_some_and(|number| number < self.forward);
        self.forward = self.forward.max(delivered.end);
        let rtt = now - latest.sent_at;
        // A retransmission acknowledged too soon: the first copy was answered.
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

    /// Notes that the receiver got a segment twice (section 6.2, step 4).
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

    /// Notes the end of a recovery.
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

    /// Finds the segments lost by now; sets when to search again (section 6.2, step 5).
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

    /// The time until a probe is due (section 7.2); `None` if one is outstanding.
    pub(crate) fn probe_after(&self, in_flight: u32, mean: Time, delayed: Time) -> Option<Time> {
        let twice = mean + mean;
        match (self.probe, in_flight) {
            (Some(_), _) | (_, 0) => None,
            (None, 1) => Some(twice + delayed),
            (None, _) => Some(twice),
        }
    }

    /// Notes that a probe is sent (section 7.3).
    pub(crate) fn note_probe(&mut self, end: u32, is_again: bool) {
        self.probe = Some((end, is_again));
    }

    /// Whether the outstanding probe repaired a loss, for which the window must shrink
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
