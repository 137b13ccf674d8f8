//! Meters, which color packets by their rate.
//!
//! A meter is a token bucket per rate. With two rates it marks as RFC 2698 does, color-blind. A
//! packet that the peak bucket cannot pay is red; one that only the committed bucket cannot pay
//! is yellow. Buckets fill by the time since the meter was set, so that rounding never
//! accumulates:
//!
//! ```text
//!   filled(now) = floor(elapsed * rate)      tokens += filled(now) - filled(before), at most burst
//! ```

use thalweg_packet::Instant;

/// A rate with its burst.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Bytes or packets per second.
    pub per_second: u64,
    /// Burst, in bytes or packets.
    pub burst: u64,
}

/// The rates of a meter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeterRates {
    /// Packets below this rate are green.
    pub committed: Rate,
    /// Packets above this rate are red, if the meter has two rates.
    pub peak: Rate,
}

/// A cell of a meter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Meter {
    /// `None` if every packet is green.
    set: Option<Buckets>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Buckets {
    rates: MeterRates,
    /// The time of the first packet, when the buckets are full.
    since: Option<Instant>,
    committed: Bucket,
    peak: Bucket,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Bucket {
    tokens: u64,
    filled: u128,
}

/// Green is 0, yellow 1, red 2.
pub(crate) type Color = u8;

impl Meter {
    /// Sets the rates, with full buckets; `None` makes every packet green.
    pub(crate) fn configure(&mut self, rates: Option<MeterRates>) {
        let full = |rate: Rate| Bucket {
            tokens: rate.burst,
            filled: 0,
        };
        self.set = rates.map(|rates| Buckets {
            rates,
            since: None,
            committed: full(rates.committed),
            peak: full(rates.peak),
        });
    }

    /// The rates, if set.
    pub(crate) fn rates(&self) -> Option<MeterRates> {
        self.set.map(|buckets| buckets.rates)
    }

    /// The color of a packet that costs `cost` tokens.
    pub(crate) fn color(&mut self, cost: u64, has_peak: bool, now: Instant) -> Color {
        let Some(buckets) = &mut self.set else {
            return 0;
        };
        let since = *buckets.since.get_or_insert(now);
        let elapsed = (now - since).as_nanos();
        if has_peak && !buckets.peak.take(buckets.rates.peak, cost, elapsed) {
            // The committed bucket fills nevertheless.
            buckets.committed.fill(buckets.rates.committed, elapsed);
            return 2;
        }
        u8::from(
            !buckets
                .committed
                .take(buckets.rates.committed, cost, elapsed),
        )
    }
}

impl Bucket {
    fn fill(&mut self, rate: Rate, elapsed_ns: u128) {
        let filled = elapsed_ns * u128::from(rate.per_second) / 1_000_000_000;
        let more = u64::try_from(filled - self.filled).unwrap_or(u64::MAX);
        self.filled = filled;
        self.tokens = self.tokens.saturating_add(more).min(rate.burst);
    }

    fn take(&mut self, rate: Rate, cost: u64, elapsed_ns: u128) -> bool {
        self.fill(rate, elapsed_ns);
        match self.tokens.checked_sub(cost) {
            Some(rest) => {
                self.tokens = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rates_give_three_colors() {
        let rate = |per_second, burst| Rate { per_second, burst };
        let mut meter = Meter::default();
        assert_eq!(meter.color(1, true, Instant::ZERO), 0);
        meter.configure(Some(MeterRates {
            committed: rate(1_000_000, 1),
            peak: rate(2_000_000, 2),
        }));
        let mut at = |nanos| meter.color(1, true, Instant::from_nanos(nanos));
        assert_eq!([at(0), at(0), at(0)], [0, 1, 2]);
        // Half a microsecond later the peak bucket has one more token, the other none.
        assert_eq!([at(500), at(500)], [1, 2]);
        // The committed bucket never exceeds its burst.
        assert_eq!([at(9_000), at(9_000), at(9_000)], [0, 1, 2]);
    }

    #[test]
    fn one_rate_gives_two() {
        let rate = Rate {
            per_second: 8,
            burst: 100,
        };
        let mut meter = Meter::default();
        meter.configure(Some(MeterRates {
            committed: rate,
            peak: rate,
        }));
        let colors = [64, 64, 36].map(|cost| meter.color(cost, false, Instant::ZERO));
        assert_eq!(colors, [0, 1, 0]);
    }
}
