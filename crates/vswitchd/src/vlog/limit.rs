//! Lets only so much of a kind of message through: a bucket of tokens.

use std::time::Duration;

/// Tokens of a message: a rate of one message per minute adds one token per millisecond.
const MESSAGE: u64 = 60_000;

/// What becomes of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RateVerdict {
    /// It is logged.
    Log,
    /// It is logged, after this one about those that were not.
    LogAfter(String),
    /// It is not logged, but counted.
    Drop,
}

/// A limit for a kind of message.
#[derive(Clone, Debug)]
pub struct LogRateLimit {
    /// Messages per minute.
    rate: u64,
    /// Most messages at once.
    burst: u64,
    tokens: u64,
    filled_at: Option<Duration>,
    dropped: u64,
    first_dropped: Duration,
    last_dropped: Duration,
}

impl LogRateLimit {
    /// A limit of messages per minute, of which some may come at once.
    pub const fn new(rate_per_minute: u32, burst: u32) -> LogRateLimit {
        LogRateLimit {
            rate: rate_per_minute as u64,
            burst: burst as u64 * MESSAGE,
            tokens: 0,
            filled_at: None,
            dropped: 0,
            first_dropped: Duration::ZERO,
            last_dropped: Duration::ZERO,
        }
    }

    /// What becomes of a message that comes now.
    pub fn check(&mut self, now: Duration) -> RateVerdict {
        if self.tokens < MESSAGE {
            let elapsed = match self.filled_at {
                Some(then) => now.saturating_sub(then).as_millis(),
                // The bucket is full at first.
                None => u128::from(u64::MAX),
            };
            let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
            let filled = self
                .tokens
                .saturating_add(self.rate.saturating_mul(elapsed));
            self.tokens = filled.min(self.burst);
            self.filled_at = Some(now);
        }
        if self.tokens < MESSAGE {
            if self.dropped == 0 {
                self.first_dropped = now;
            }
            self.last_dropped = now;
            self.dropped += 1;
            return RateVerdict::Drop;
        }
        self.tokens -= MESSAGE;
        let dropped = std::mem::take(&mut self.dropped);
        if dropped == 0 {
            return RateVerdict::Log;
        }
        let since = |then: Duration| now.as_secs().saturating_sub(then.as_secs());
        RateVerdict::LogAfter(format!(
            "Dropped {dropped} log messages in last {} seconds (most recently, \
             {} seconds ago) due to excessive rate",
            since(self.first_dropped),
            since(self.last_dropped)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_through_and_then_the_rate() {
        let second = Duration::from_secs;
        let mut limit = LogRateLimit::new(5, 2);
        let mut verdicts = |at: u64| limit.check(second(at));
        assert_eq!(verdicts(100), RateVerdict::Log);
        assert_eq!(verdicts(100), RateVerdict::Log);
        assert_eq!(verdicts(100), RateVerdict::Drop);
        // Five per minute are one in twelve seconds.
        assert_eq!(verdicts(111), RateVerdict::Drop);
        let text = "Dropped 2 log messages in last 12 seconds (most recently, \
                    1 seconds ago) due to excessive rate";
        assert_eq!(verdicts(112), RateVerdict::LogAfter(text.to_owned()));
        assert_eq!(verdicts(112), RateVerdict::Drop);
        assert!(matches!(verdicts(1000), RateVerdict::LogAfter(_)));
        assert_eq!(verdicts(1000), RateVerdict::Log);
        assert_eq!(verdicts(1000), RateVerdict::Drop);
    }
}
