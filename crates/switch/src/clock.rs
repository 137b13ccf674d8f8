//! The only clock: nanoseconds since the switch was created.
//!
//! It can be stopped and moved by hand, for tests that need minutes of timeouts in an instant
//! (`time/stop` and `time/warp` of Open vSwitch). Then timeouts, ageing and statistics follow
//! the hand; threads still wait in real time.
//!
//! A switch that goes on from where a former one was moves its clock ahead once, so that the
//! instants that the former one noted mean the same ([`crate::Switch::resume_clock`]).
//!
//! 1. Once [`Clock::stop`] has returned, every thread sees the same time until it is moved.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use thalweg_packet::Instant;

use crate::sync::time;

/// Tells how long the switch has existed; all its threads share it.
#[derive(Clone, Debug)]
pub struct Clock {
    start: time::Instant,
    hand: Arc<Hand>,
}

/// How a clock was moved by hand.
#[derive(Debug, Default)]
struct Hand {
    is_stopped: AtomicBool,
    /// The time that a stopped clock shows, in nanoseconds.
    shown_ns: AtomicU64,
    /// What the clock was moved ahead by, in nanoseconds.
    ahead_ns: AtomicU64,
}

impl Clock {
    /// Starts a clock at zero.
    pub(crate) fn start() -> Clock {
        Clock {
            start: time::Instant::now(),
            hand: Arc::default(),
        }
    }

    /// The time since the start.
    pub fn now(&self) -> Instant {
        self.shown_at(self.real_now())
    }

    /// The time that the clock shows at a real time.
    pub(crate) fn shown_at(&self, real: Instant) -> Instant {
        match self.hand.is_stopped.load(Ordering::Acquire) {
            true => Instant::from_nanos(self.hand.shown_ns.load(Ordering::Acquire)),
            false => real,
        }
    }

    /// The time since the start, whatever a hand did.
    pub(crate) fn real_now(&self) -> Instant {
        let ahead = Duration::from_nanos(self.hand.ahead_ns.load(Ordering::Acquire));
        Instant::ZERO + self.start.elapsed() + ahead
    }

    /// Moves the clock ahead to a time, whether it runs or not; it never goes back.
    pub(crate) fn skip_to(&self, later: Instant) {
        let by = (later - self.now()).as_nanos();
        let by = u64::try_from(by).unwrap_or(u64::MAX);
        self.hand.ahead_ns.fetch_add(by, Ordering::AcqRel);
        self.advance(Duration::from_nanos(by));
    }

    /// Stops the clock: from now on it only moves by [`Clock::advance`].
    pub fn stop(&self) {
        if self.hand.is_stopped.load(Ordering::Acquire) {
            return;
        }
        let now = self.real_now().as_nanos();
        self.hand.shown_ns.store(now, Ordering::Release);
        self.hand.is_stopped.store(true, Ordering::Release);
    }

    /// Moves a stopped clock forward; one that runs is not moved.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let later = |shown: u64| Some(shown.saturating_add(by));
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        let moved = self.hand.shown_ns.fetch_update(set, fetch, later);
        debug_assert!(moved.is_ok(), "`later` always gives a value");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_clock_moves_by_hand_only() {
        let clock = Clock::start();
        let before = clock.now();
        clock.stop();
        let stopped = clock.now();
        assert!(stopped >= before);
        let other = clock.clone();
        while clock.real_now() <= stopped {
            std::thread::yield_now();
        }
        assert_eq!(other.now(), stopped);
        other.advance(Duration::from_secs(60));
        assert_eq!(clock.now(), stopped + Duration::from_secs(60));
        clock.stop();
        assert_eq!(clock.now(), stopped + Duration::from_secs(60));
    }

    #[test]
    fn a_clock_skips_ahead_and_never_back() {
        let clock = Clock::start();
        let later = clock.now() + Duration::from_secs(3_600);
        clock.skip_to(later);
        assert!(clock.now() >= later && clock.real_now() >= later);
        clock.stop();
        let stopped = clock.now();
        clock.skip_to(later);
        assert_eq!(clock.now(), stopped);
        clock.skip_to(stopped + Duration::from_secs(5));
        assert_eq!(clock.now(), stopped + Duration::from_secs(5));
    }
}
