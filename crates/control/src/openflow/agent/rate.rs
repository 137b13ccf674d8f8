//! How much of something a connection may have each second.

use std::time::Duration;

/// What one takes of the tokens: with a rate of one, a second's nanoseconds.
const ONE: u128 = 1_000_000_000;

/// A token bucket; it is full at first, and holds a second's worth.
#[derive(Debug)]
pub(super) struct Rate {
    /// Per second; `None` for no limit.
    rate: Option<u32>,
    tokens: u128,
    refilled_at: Duration,
}

impl Rate {
    pub(super) fn new(rate: Option<u32>, now: Duration) -> Rate {
        Rate {
            rate,
            tokens: rate.map_or(0, |rate| u128::from(rate) * ONE),
            refilled_at: now,
        }
    }

    /// Takes one, if there is one.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        if self.next_at(now).is_some() {
            return false;
        }
        // Without a limit there are no tokens.
        self.tokens = self.tokens.saturating_sub(ONE);
        true
    }

    /// When there is one again; `None` if there is one now.
    pub(super) fn next_at(&mut self, now: Duration) -> Option<Duration> {
        let rate = u128::from(self.rate?);
        let passed = now.saturating_sub(self.refilled_at);
        self.refilled_at = now;
        self.tokens = (self.tokens + passed.as_nanos() * rate).min(rate * ONE);
        let missing = ONE
            .checked_sub(self.tokens)
            .filter(|missing| *missing > 0)?;
        let wait = u64::try_from(missing.div_ceil(rate.max(1))).unwrap_or(u64::MAX);
        Some(now + Duration::from_nanos(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_its_worth_and_no_more() {
        let mut rate = Rate::new(Some(3), Duration::ZERO);
        let taken = |rate: &mut Rate, now| (0..10).filter(|_| rate.take(now)).count();
        assert_eq!(taken(&mut rate, Duration::ZERO), 3);
        let next = rate.next_at(Duration::ZERO).expect("all are taken");
        assert_eq!(next, Duration::from_nanos(333_333_334));
        assert_eq!(taken(&mut rate, next - Duration::from_nanos(1)), 0);
        assert_eq!(taken(&mut rate, next), 1);
        assert_eq!(taken(&mut rate, Duration::from_secs(60)), 3);
        let mut free = Rate::new(None, Duration::ZERO);
        assert_eq!(taken(&mut free, Duration::ZERO), 10);
    }
}
