//! When to try the next connection, as Open vSwitch's `reconnect` has it.
//!
//! ```text
//!   Waiting(until) --time--> Connecting(until) --connected--> Active(since)
//!        ^                        | failed, or took too long      | closed
//!        +--- the wait doubles, 1 s to 8 s -----------------------+
//!             or begins again, if the connection was active for as long as the wait
//! ```

use std::time::Duration;

/// The shortest and the longest wait between attempts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backoff {
    /// After the first failure.
    pub min: Duration,
    /// After many.
    pub max: Duration,
}

impl Default for Backoff {
    /// As Open vSwitch has it.
    fn default() -> Backoff {
        Backoff {
            min: Duration::from_secs(1),
            max: Duration::from_secs(8),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LinkState {
    Waiting(Duration),
    Connecting(Duration),
    Active(Duration),
}

/// Connections that come and go.
#[derive(Clone, Debug)]
pub(crate) struct Reconnect {
    backoff: Backoff,
    state: LinkState,
    wait: Duration,
}

impl Reconnect {
    /// The first attempt is made at once.
    pub(crate) fn new(backoff: Backoff, now: Duration) -> Reconnect {
        Reconnect {
            backoff,
            state: LinkState::Waiting(now),
            wait: Duration::ZERO,
        }
    }

    /// Whether an attempt is due, which begins with this call.
    pub(crate) fn poll_connect(&mut self, now: Duration) -> bool {
        match self.state {
            LinkState::Waiting(until) if now >= until => {
                let patience = self.wait.max(Duration::from_secs(1));
                self.state = LinkState::Connecting(now + patience);
                true
            }
            _ => false,
        }
    }

    /// Whether an attempt has taken too long.
    pub(crate) fn is_late(&self, now: Duration) -> bool {
        matches!(self.state, LinkState::Connecting(until) if now >= until)
    }

    pub(crate) fn connected(&mut self, now: Duration) {
        self.state = LinkState::Active(now);
    }

    /// The connection or the attempt has ended.
    pub(crate) fn closed(&mut self, now: Duration) {
        let is_good = match self.state {
            LinkState::Active(since) => now.saturating_sub(since) >= self.wait,
            LinkState::Connecting(_) => false,
            LinkState::Waiting(_) => return,
        };
        let Backoff { min, max } = self.backoff;
        self.wait = match self.wait {
            _ if is_good => min,
            wait => (wait * 2).clamp(min, max),
        };
        self.state = LinkState::Waiting(now + self.wait);
    }

    /// When something is due.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        match self.state {
            LinkState::Waiting(until) | LinkState::Connecting(until) => Some(until),
            LinkState::Active(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_and_begins_again_after_a_good_connection() {
        let second = Duration::from_secs;
        let mut link = Reconnect::new(Backoff::default(), second(0));
        let mut now = second(0);
        let mut waits = Vec::new();
        for _ in 0..5 {
            assert!(link.poll_connect(now));
            assert!(!link.poll_connect(now), "one attempt at a time");
            link.closed(now);
            let due = link.deadline().expect("the next attempt");
            waits.push((due - now).as_secs());
            assert!(!link.poll_connect(due - Duration::from_millis(1)));
            now = due;
        }
        assert_eq!(waits, [1, 2, 4, 8, 8]);
        // A connection that breaks at once counts as a failure, one that lasts does not.
        for (lasted, wait) in [
            (second(7), 8),
            (second(8), 1),
            (second(1), 1),
            (second(0), 2),
        ] {
            assert!(link.poll_connect(now));
            link.connected(now);
            assert_eq!(link.deadline(), None);
            now += lasted;
            link.closed(now);
            let due = link.deadline().expect("the next attempt");
            assert_eq!((due - now).as_secs(), wait);
            now = due;
        }
    }

    #[test]
    fn an_attempt_may_take_as_long_as_the_wait() {
        let mut link = Reconnect::new(Backoff::default(), Duration::ZERO);
        assert!(link.poll_connect(Duration::ZERO));
        assert!(!link.is_late(Duration::from_millis(999)));
        assert!(link.is_late(Duration::from_secs(1)));
    }
}
