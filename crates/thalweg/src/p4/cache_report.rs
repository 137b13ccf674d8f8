//! Reports what the caches in front of a P4 program have done.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use thalweg_p4::cache::behavior::{BehaviorCounts, Unfit};
use thalweg_p4::{CacheStatistics, EvictReason};

/// One cache.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum CacheReport {
    Traversal(TraversalReport),
    Behavior(BehaviorReport),
}

impl CacheReport {
    /// The reports of the existing caches, by name.
    pub(crate) fn all(
        traversals: Option<&CacheStatistics>,
        behaviors: Option<(&BehaviorCounts, usize)>,
    ) -> BTreeMap<&'static str, CacheReport> {
        let traversal = |one| CacheReport::Traversal(TraversalReport::new(one));
        let behavior =
            |(counts, entries)| CacheReport::Behavior(BehaviorReport::new(counts, entries));
        let traversals = traversals.map(|one| ("traversal", traversal(one)));
        let behaviors = behaviors.map(|one| ("behavior", behavior(one)));
        traversals.into_iter().chain(behaviors).collect()
    }

    /// One line, followed by one line per reason.
    pub(crate) fn text(&self) -> String {
        match self {
            CacheReport::Traversal(report) => report.text(),
            CacheReport::Behavior(report) => report.text(),
        }
    }
}

/// Report of the cache of behaviours (B-Cache).
#[derive(Serialize)]
pub(crate) struct BehaviorReport {
    hits: u64,
    misses: u64,
    /// Walks without a lookup, because lookups found almost nothing.
    rested: u64,
    /// Reports of hot behaviours.
    reports: u64,
    installed: u64,
    /// Reports made before a change.
    stale: u64,
    entries: usize,
    evictions: BTreeMap<&'static str, u64>,
    /// Hot walks that cannot be remembered, by reason.
    unfit: BTreeMap<&'static str, u64>,
}

impl BehaviorReport {
    fn new(counts: &BehaviorCounts, entries: usize) -> BehaviorReport {
        let evictions = [("replaced", counts.replaced), ("affected", counts.affected)];
        let unfit = Unfit::ALL.map(|reason| (reason.name(), counts.unfit(reason)));
        let is_some = |one: &(&str, u64)| one.1 > 0;
        BehaviorReport {
            hits: counts.hits,
            misses: counts.misses,
            rested: counts.rested,
            reports: counts.reports,
            installed: counts.installed,
            stale: counts.stale,
            entries,
            evictions: evictions.into_iter().filter(is_some).collect(),
            unfit: unfit.into_iter().filter(is_some).collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "behaviours: {} hits, {} misses, {} not looked up, {} reports, {} stale, {} entries\n",
            self.hits, self.misses, self.rested, self.reports, self.stale, self.entries
        );
        for (what, counts) in [("evicted", &self.evictions), ("not fit", &self.unfit)] {
            for (reason, count) in counts {
                // Writing to a string does not fail.
                let _ = writeln!(text, "  {what}, {reason}: {count}");
            }
        }
        text
    }
}

/// Report of the cache of traversals.
#[derive(Serialize)]
pub(crate) struct TraversalReport {
    exact_hits: u64,
    masked_hits: u64,
    misses: u64,
    /// Walks without a lookup, because lookups found almost nothing.
    rested: u64,
    /// Misses whose walks were recorded.
    recorded: u64,
    /// Recordings that remember nothing, because the packet ended on the way.
    ended: u64,
    /// Nodes that were run after a stop point.
    visits: u64,
    /// Nodes that were run because no segment may begin there.
    refused: u64,
    /// Remembered segments, and the starts that they have.
    entries: u64,
    starts: u64,
    evictions: BTreeMap<&'static str, u64>,
}

impl TraversalReport {
    fn new(statistics: &CacheStatistics) -> TraversalReport {
        let evictions =
            EvictReason::ALL.map(|reason| (reason.name(), statistics.evictions(reason)));
        TraversalReport {
            exact_hits: statistics.exact_hits,
            masked_hits: statistics.masked_hits,
            misses: statistics.misses,
            rested: statistics.rested,
            recorded: statistics.recorded,
            ended: statistics.ended,
            visits: statistics.visits,
            refused: statistics.refused,
            entries: statistics.segments,
            starts: statistics.starts,
            evictions: evictions
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "traversals: {} exact and {} masked hits, {} misses, {} not looked up, {} recorded, {} entries, {} nodes run\n",
            self.exact_hits,
            self.masked_hits,
            self.misses,
            self.rested,
            self.recorded,
            self.entries,
            self.visits + self.refused
        );
        for (reason, count) in &self.evictions {
            // Writing to a string does not fail.
            let _ = writeln!(text, "  evicted, {reason}: {count}");
        }
        text
    }
}
