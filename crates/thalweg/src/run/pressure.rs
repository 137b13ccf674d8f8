//! Says in the log that the caches have too little room.

use std::time::{Duration, Instant};

use thalweg_datapath::{EvictReason, RefuseReason};
use thalweg_switch::{Switch, Totals};
use tracing::warn;

use super::logging::module::CACHES;

/// Time between two looks, so that a flood makes a line now and then.
const INTERVAL: Duration = Duration::from_secs(10);

/// Counts that mean pressure: evictions for room and of rare masks, and refusals.
type Counts = [u64; 5];

/// What each count means, and what to do about it.
const MEANINGS: [&str; 5] = [
    "entries were evicted for lack of room: raise entries or bytes in [cache.megaflow]",
    "entries were evicted with their rare masks: raise masks in [cache.megaflow]",
    "packets made no entry for lack of a mask: raise masks in [cache.megaflow]",
    "packets made no entry, since one alone exceeds the limit: raise bytes in [cache.megaflow]",
    "packets were dropped, as too many walks were frozen",
];

/// Looks at the caches now and then.
pub(super) struct Pressure {
    next: Instant,
    /// When the counts were last read: the log may not want them for a long time.
    seen: Instant,
    last: Counts,
}

impl Pressure {
    /// Begins to look.
    pub(super) fn new() -> Pressure {
        let now = Instant::now();
        Pressure {
            next: now + INTERVAL,
            seen: now,
            last: Counts::default(),
        }
    }

    /// Logs the counts that have grown since the last look, if it is time and the log wants them.
    pub(super) fn look(&mut self, switch: &mut Switch) {
        let now = Instant::now();
        if now < self.next || !tracing::enabled!(target: CACHES, tracing::Level::WARN) {
            return;
        }
        self.next = now + INTERVAL;
        for line in self.news(now, counts_of(&switch.totals())) {
            warn!(target: CACHES, "{line}");
        }
    }

    /// A line for each count that has grown since the last look.
    fn news(&mut self, now: Instant, counts: Counts) -> Vec<String> {
        let since = now.saturating_duration_since(std::mem::replace(&mut self.seen, now));
        let before = std::mem::replace(&mut self.last, counts);
        let grown = counts.iter().zip(before).zip(MEANINGS);
        let grown = grown.map(|((now, before), meaning)| (now.saturating_sub(before), meaning));
        let grown = grown.filter(|(count, _)| *count > 0);
        let seconds = since.as_secs();
        let line = |(count, meaning)| format!("in {seconds} s {count} {meaning}");
        grown.map(line).collect()
    }
}

fn counts_of(totals: &Totals) -> Counts {
    let counts = &totals.datapath;
    [
        counts.evictions(EvictReason::Capacity),
        counts.evictions(EvictReason::RareMask),
        counts.refusals(RefuseReason::MasksFull),
        counts.refusals(RefuseReason::TooLarge),
        counts.refusals(RefuseReason::ContinuationsFull),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_grown_is_said() {
        let mut pressure = Pressure::new();
        let start = pressure.seen;
        let after = |seconds| start + Duration::from_secs(seconds);
        let lines = pressure.news(after(10), [3, 0, 0, 0, 1]);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("in 10 s 3 entries were evicted for lack of room"));
        assert_eq!(pressure.news(after(20), [3, 0, 0, 0, 1]), [] as [&str; 0]);
        let lines = pressure.news(after(30), [5, 0, 7, 0, 1]);
        assert!(lines[0].starts_with("in 10 s 2 entries") && lines[1].contains(" 7 packets"));
        // The log did not want the counts for an hour.
        let lines = pressure.news(after(3630), [9, 0, 7, 0, 1]);
        assert!(lines[0].starts_with("in 3600 s 4 entries"));
    }
}
