//! Decides whether a first layer pays, by counting the cost of lookups with it and without.
//!
//! The unit is a visit of a sub-table in a search one by one. About one in [`EVERY`] lookups
//! is sampled, or several in four times as many. A sample counts both costs: the sub-tables
//! that the plain search would visit, and the cost of the first layer with the remaining
//! searches (`statistics` has the weights). The distance between samples varies, so that
//! periodic traffic is not always sampled at the same point. A decision follows after
//! [`WINDOW`] sampled lookups, enough for the mean of values that differ by a factor of
//! twenty:
//!
//! ```text
//!   asked:     cost > 0.95 plain:  from now on it is not asked
//!   not asked: cost < 0.80 plain:  from now on it is
//! ```
//!
//! A learning layer (a filter of flows) has no benefit before it has seen the flows. It gets
//! `warm_up` lookups before the first sample. If it then does not pay, it rests for 16 times
//! as many lookups as the trial took. So it costs a seventeenth of its cost during a trial.
//!
//! 1. Nothing here changes an answer.
//! 2. Counts are read and written separately: concurrent threads may lose some.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::KEYS_PER_LOOK;

/// The most lookups between two samples of single lookups; the least is half of it.
const EVERY: u32 = 1024;
/// The factor on this distance for bursts, whose samples cost as much as hundreds of lookups.
const EVERY_SEVERAL: u32 = 4;
/// The number of sampled lookups between two decisions.
const WINDOW: u32 = 128;
/// The rest after a failed trial, in trials.
const REST: u64 = 16;

/// The cost of lookups, in visits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    /// The cost with the first layer.
    pub(super) layered: f64,
    /// The cost without it.
    pub(super) plain: f64,
}

/// Decides whether to ask the first layer.
#[derive(Debug)]
pub(super) struct Worth {
    is_asked: AtomicBool,
    /// Lookups until the next sample.
    until_look: AtomicU32,
    looks: AtomicU32,
    /// Lookups sampled since the last decision.
    looked_at: AtomicU32,
    /// Sums over a window, in thousandths.
    layered: AtomicU64,
    plain: AtomicU64,
    /// The number of lookups of a trial; zero if the layer does not learn.
    warm_up: u64,
    /// The remaining lookups of a trial or a rest.
    left: AtomicU64,
}

impl Worth {
    pub(super) fn new(warm_up: usize) -> Worth {
        Worth {
            is_asked: AtomicBool::new(true),
            until_look: AtomicU32::new(EVERY),
            looks: AtomicU32::new(0),
            looked_at: AtomicU32::new(0),
            layered: AtomicU64::new(0),
            plain: AtomicU64::new(0),
            warm_up: warm_up as u64,
            left: AtomicU64::new(warm_up as u64),
        }
    }

    /// Whether the layer is asked now.
    #[inline(always)]
    pub(super) fn is_asked(&self) -> bool {
        self.is_asked.load(Relaxed)
    }

    /// Counts lookups; returns whether it is time for a sample.
    #[inline(always)]
    pub(super) fn is_time(&self, lookups: u32) -> bool {
        let left = self.until_look.load(Relaxed);
        self.until_look.store(left.saturating_sub(lookups), Relaxed);
        left <= lookups
    }

    /// Takes a sample of `lookups` lookups, unless a trial or a rest is under way.
    #[cold]
    pub(super) fn look(&self, lookups: usize, cost: impl FnOnce() -> Cost) {
        let looks = self.looks.fetch_add(1, Relaxed) + 1;
        let times = if lookups > 1 { EVERY_SEVERAL } else { 1 };
        let until_look = EVERY - looks.wrapping_mul(97) % (EVERY / 2);
        self.until_look.store(until_look * times, Relaxed);
        // The mean number of lookups since the last sample.
        let since = u64::from(EVERY * times) * 3 / 4;
        let left = self.left.load(Relaxed);
        if left > 0 {
            let left = left.saturating_sub(since);
            self.left.store(left, Relaxed);
            if left == 0 && !self.is_asked() {
                self.is_asked.store(true, Relaxed);
                self.left.store(self.warm_up, Relaxed);
            }
            return;
        }
        let cost = cost();
        let add = |sum: &AtomicU64, more: f64| {
            sum.store(sum.load(Relaxed) + (more * 1000.0) as u64, Relaxed);
        };
        add(&self.layered, cost.layered);
        add(&self.plain, cost.plain);
        let at_once = lookups.min(KEYS_PER_LOOK) as u32;
        let looked_at = self.looked_at.load(Relaxed) + at_once;
        self.looked_at.store(looked_at % WINDOW, Relaxed);
        if looked_at >= WINDOW {
            self.decide(since * u64::from(WINDOW / at_once));
        }
    }

    /// Decides by a window of `window` lookups.
    fn decide(&self, window: u64) {
        let layered = self.layered.swap(0, Relaxed) as f64;
        let plain = self.plain.swap(0, Relaxed) as f64;
        let is_asked = self.is_asked();
        if is_asked && layered > 0.95 * plain {
            self.is_asked.store(false, Relaxed);
            let trial = match self.warm_up {
                0 => 0,
                warm_up => warm_up + window,
            };
            self.left.store(trial * REST, Relaxed);
        } else if !is_asked && layered < 0.8 * plain {
            self.is_asked.store(true, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of lookups that asked the layer.
    fn asked(worth: &Worth, lookups: u32, cost: Cost) -> f64 {
        let mut asked = 0;
        for _ in 0..lookups / 32 {
            asked += u32::from(worth.is_asked());
            if worth.is_time(32) {
                worth.look(32, || cost);
            }
        }
        f64::from(asked) / f64::from(lookups / 32)
    }

    const GOOD: Cost = Cost {
        layered: 2.0,
        plain: 10.0,
    };
    const FAIR: Cost = Cost {
        layered: 9.0,
        plain: 10.0,
    };
    const BAD: Cost = Cost {
        layered: 1.5,
        plain: 1.0,
    };

    #[test]
    fn it_follows_the_cost_with_hysteresis() {
        let worth = Worth::new(0);
        assert_eq!(asked(&worth, 400_000, GOOD), 1.0);
        assert_eq!(asked(&worth, 400_000, FAIR), 1.0);
        assert!(asked(&worth, 400_000, BAD) < 0.5);
        assert_eq!(asked(&worth, 400_000, BAD), 0.0);
        assert_eq!(asked(&worth, 400_000, FAIR), 0.0);
        assert!(asked(&worth, 400_000, GOOD) > 0.5);
        assert_eq!(asked(&worth, 400_000, GOOD), 1.0);
    }

    /// The plain search visits 1 to 20 sub-tables; the mean exceeds the layer's cost.
    #[test]
    fn lookups_one_by_one_do_not_make_it_waver() {
        let worth = Worth::new(0);
        let mut asked = 0;
        for lookup in 0..4_000_000_u64 {
            asked += u64::from(worth.is_asked());
            if worth.is_time(1) {
                let plain = 1.0 + (crate::hash::hash_words(1, &[lookup]) % 20) as f64;
                worth.look(1, || Cost {
                    layered: 7.0,
                    plain,
                });
            }
        }
        assert_eq!(asked, 4_000_000);
    }

    #[test]
    fn what_learns_is_given_time_and_rests_long() {
        let worth = Worth::new(200_000);
        assert_eq!(asked(&worth, 190_000, BAD), 1.0);
        asked(&worth, 100_000, BAD);
        assert_eq!(asked(&worth, 2_000_000, GOOD), 0.0);
        let share = asked(&worth, 20_000_000, BAD);
        assert!(share > 0.03 && share < 0.09, "{share}");
        // The share is as small one by one.
        let one_by_one = Worth::new(50_000);
        let mut asked_now = 0;
        for _ in 0..20_000_000 {
            asked_now += u32::from(one_by_one.is_asked());
            if one_by_one.is_time(1) {
                one_by_one.look(1, || BAD);
            }
        }
        let share = f64::from(asked_now) / 20_000_000.0;
        assert!(share > 0.03 && share < 0.09, "{share}");
        assert!(asked(&worth, 8_000_000, GOOD) > 0.4);
        assert_eq!(asked(&worth, 1_000_000, GOOD), 1.0);
    }
}
