//! Reports how tables and caches search, and why, for `replay` and `run`.
//!
//! JSON has all of it. Text has a line for each table or cache that is more than a tuple
//! space, or for which another index was tried.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use thalweg_classifier::{AutoStatistics, Verdict};
use thalweg_datapath::{CacheChoice, EvictReason, LookupCounters, RefuseReason, Statistics};
use thalweg_pipeline::{Pipeline, TableId};

/// The searches of tables and caches.
#[derive(Serialize, Debug)]
pub struct LookupsReport {
    tables: Vec<TableReport>,
    /// The wildcard cache of each worker, in any order.
    megaflows: Vec<CacheReport>,
    /// The sum of all wildcard caches' counters.
    megaflow_lookups: CountersReport,
}

#[derive(Serialize, Debug)]
struct TableReport {
    table: u8,
    #[serde(flatten)]
    index: IndexReport,
}

/// How a table is searched, and why.
#[derive(Serialize, Debug)]
pub struct IndexReport {
    /// The current index.
    classifier: &'static str,
    /// Whether it was chosen by measured lookup costs.
    is_measured: bool,
    rules: usize,
    /// Number of hash tables and iSets.
    tables: usize,
    coverage: f64,
    /// Lookups since the last decision.
    lookups: u64,
    updates: usize,
    tables_per_lookup: f64,
    cost_ns: f64,
    /// Indexes built, and those that replaced the previous one.
    trials: u64,
    replaced: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<VerdictReport>,
}

/// The outcome of the last comparison.
#[derive(Serialize, Debug)]
struct VerdictReport {
    chosen: &'static str,
    /// Counted cost of a lookup by index; `before` is the previous index.
    costs_ns: BTreeMap<&'static str, f64>,
    rules: usize,
    keys: usize,
    updates_per_lookup: f64,
    coverage: Option<f64>,
}

#[derive(Serialize, Debug)]
struct CacheReport {
    classifier: &'static str,
    is_measured: bool,
    probes_per_lookup: f64,
    updates_per_lookup: f64,
    coverage: f64,
    changes: u64,
}

#[derive(Serialize, Debug)]
struct CountersReport {
    subtables: u64,
    learned: u64,
    learned_refused: u64,
    asked: u64,
    bypassed: u64,
    candidates: u64,
    false_candidates: u64,
    trainings: u64,
    /// `cut` counts keys not found because only sub-tables where searching pays were searched;
    /// `unsearched`, those among them that had an entry.
    cut: u64,
    unsearched: u64,
    /// Masks refused for lack of room, and entries evicted to make room for other masks.
    masks_full: u64,
    rare_masks: u64,
}

impl LookupsReport {
    /// Collects the report from the current tables and the wildcard caches of all workers.
    pub fn new(
        pipeline: &Pipeline,
        caches: &[CacheChoice],
        statistics: &Statistics,
    ) -> LookupsReport {
        let tables = pipeline.choices().into_iter();
        let LookupCounters {
            subtables,
            learned,
            learned_refused,
            asked,
            bypassed,
            candidates,
            false_candidates,
            cut,
            unsearched,
        } = statistics.lookups;
        LookupsReport {
            tables: tables.map(|(id, choice)| table(id, &choice)).collect(),
            megaflows: caches.iter().map(cache).collect(),
            megaflow_lookups: CountersReport {
                subtables,
                learned,
                learned_refused,
                asked,
                bypassed,
                candidates,
                false_candidates,
                trainings: statistics.trainings,
                cut,
                unsearched,
                masks_full: statistics.refusals(RefuseReason::MasksFull),
                rare_masks: statistics.evictions(EvictReason::RareMask),
            },
        }
    }

    /// One line for each index that is more than a tuple space.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |said: std::fmt::Arguments<'_>| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{said}");
        };
        for table in self.tables.iter().filter(|table| table.index.is_telling()) {
            line(format_args!(
                "table {:>3}: {}",
                table.table,
                table.index.text()
            ));
        }
        for cache in &self.megaflows {
            if cache.is_telling() {
                line(format_args!(
                    "megaflows of a worker: {}, {:.1} sub-tables a lookup without it, {:.0} % \
                     covered, {} changes",
                    cache.classifier,
                    cache.probes_per_lookup,
                    100.0 * cache.coverage,
                    cache.changes
                ));
            }
        }
        let counters = &self.megaflow_lookups;
        if counters.unsearched + counters.masks_full > 0 {
            line(format_args!(
                "megaflows: masks are many and most are rare; {} packets whose entry was not \
                 searched for, {} without room for their mask, all answered by their walk; {} \
                 entries of rare masks gave way",
                counters.unsearched, counters.masks_full, counters.rare_masks
            ));
        }
        text
    }
}

impl IndexReport {
    /// Reports an index that was chosen or trained.
    pub fn new(choice: &AutoStatistics) -> IndexReport {
        let figures = &choice.figures;
        IndexReport {
            classifier: choice.kind.name(),
            is_measured: choice.is_measured,
            rules: figures.rules,
            tables: choice.tables,
            coverage: figures.coverage,
            lookups: figures.lookups,
            updates: figures.updates,
            tables_per_lookup: figures.tables_per_lookup,
            cost_ns: figures.cost_ns,
            trials: choice.trials,
            replaced: choice.replaced,
            verdict: choice.verdict.as_ref().map(verdict),
        }
    }

    /// Whether the index is more than a tuple space, or others were tried.
    pub fn is_telling(&self) -> bool {
        self.classifier != "tuple-space" || self.trials > 0
    }

    /// One line for people.
    pub fn text(&self) -> String {
        format!(
            "{} of {} rules, {} tables, {:.0} % covered, {:.1} tables and {:.0} ns a lookup as \
             counted, {} trials",
            self.classifier,
            self.rules,
            self.tables,
            100.0 * self.coverage,
            self.tables_per_lookup,
            self.cost_ns,
            self.trials
        )
    }
}

impl CacheReport {
    fn is_telling(&self) -> bool {
        self.classifier != "tuple-space" || self.changes > 0
    }
}

fn table(id: TableId, choice: &AutoStatistics) -> TableReport {
    TableReport {
        table: id.number(),
        index: IndexReport::new(choice),
    }
}

fn verdict(verdict: &Verdict) -> VerdictReport {
    let mut costs = verdict.costs_ns.iter();
    let before = costs.next().map(|(_, cost)| ("before", *cost));
    VerdictReport {
        chosen: verdict.chosen.name(),
        costs_ns: before
            .into_iter()
            .chain(costs.map(|(kind, cost)| (kind.name(), *cost)))
            .collect(),
        rules: verdict.rules,
        keys: verdict.keys,
        updates_per_lookup: verdict.update_rate,
        coverage: verdict.coverage,
    }
}

fn cache(choice: &CacheChoice) -> CacheReport {
    CacheReport {
        classifier: choice.index.name(),
        is_measured: choice.is_measured,
        probes_per_lookup: choice.probes_per_lookup,
        updates_per_lookup: choice.updates_per_lookup,
        coverage: choice.coverage,
        changes: choice.changes,
    }
}
