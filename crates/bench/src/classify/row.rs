//! The rows of the result: one classifier, one set of rules, one kind of traffic.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::spread::Spread;
use thalweg_command::report::{Table, format_count};

/// The measurements of a row. A peer omits what it does not know.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(super) struct Row {
    /// The name of the rule set, or its file.
    pub(super) set: String,
    /// Rules that the classifier holds.
    pub(super) rules: usize,
    /// Filters that the rules were made of.
    #[serde(default)]
    pub(super) filters: Option<usize>,
    /// Different masks among the rules.
    #[serde(default)]
    pub(super) masks: Option<usize>,
    pub(super) classifier: String,
    pub(super) traffic: String,
    #[serde(default)]
    pub(super) flows: Option<usize>,
    /// Keys in a burst.
    pub(super) batch: usize,
    #[serde(default = "one")]
    pub(super) threads: usize,
    /// Requested rule changes per second.
    #[serde(default)]
    pub(super) update_rate: u64,
    /// Processor time.
    pub(super) ns_per_lookup: Spread,
    /// Of all threads; by the wall clock with several threads or changing rules.
    #[serde(default)]
    pub(super) lookups_per_second: Option<f64>,
    #[serde(default)]
    pub(super) build_ms: Option<f64>,
    #[serde(default)]
    pub(super) training_ms: Option<f64>,
    #[serde(default)]
    pub(super) memory_bytes: Option<usize>,
    #[serde(default)]
    pub(super) bytes_per_rule: Option<f64>,
    /// The share of the rules that a model covers.
    #[serde(default)]
    pub(super) coverage: Option<f64>,
    /// Hash tables that a lookup may visit.
    #[serde(default)]
    pub(super) tables: Option<usize>,
    /// Answers that were compared with a search of all rules.
    #[serde(default)]
    pub(super) checked: Option<usize>,
    #[serde(default)]
    pub(super) wrong: Option<usize>,
    /// Changes made per second.
    #[serde(default)]
    pub(super) updates_per_second: Option<f64>,
    /// The writer's processor time per change.
    #[serde(default)]
    pub(super) update_ns: Option<f64>,
    /// The index that a choosing classifier chose.
    #[serde(default)]
    pub(super) chosen: Option<String>,
    /// Figures that only this classifier has.
    #[serde(default)]
    pub(super) details: BTreeMap<String, f64>,
}

fn one() -> usize {
    1
}

/// The rows as a table.
pub(super) fn table(rows: &[Row]) -> Table {
    let has_updates = rows.iter().any(|row| row.update_rate > 0);
    let has_threads = has_updates || rows.iter().any(|row| row.threads > 1);
    let has_models = rows.iter().any(|row| row.coverage.is_some());
    let mut table = Table::new("Lookups by classifier")
        .with_words("rules of")
        .with_numbers("rules")
        .with_words("classifier")
        .with_words("traffic")
        .with_numbers("batch");
    if has_threads {
        table = table
            .with_numbers("threads")
            .with_numbers("updates/s")
            .with_numbers("µs/update");
    }
    table = table
        .with_numbers("ns/lookup")
        .with_numbers("least-most")
        .with_numbers("million/s")
        .with_numbers("build ms")
        .with_numbers("bytes/rule")
        .with_numbers("tables");
    if has_models {
        table = table.with_numbers("coverage").with_numbers("training ms");
    }
    table = table.with_numbers("checked").with_numbers("wrong");
    for row in rows {
        table.push(row.cells(has_threads, has_models));
    }
    table
}

impl Row {
    fn cells(&self, has_threads: bool, has_models: bool) -> Vec<String> {
        let known = |number: Option<usize>| {
            number.map_or("-".to_owned(), |number| format_count(number as u64))
        };
        let decimal = |number: Option<f64>, digits: usize| {
            number.map_or("-".to_owned(), |number| format!("{number:.digits$}"))
        };
        let mut cells = vec![
            self.set.clone(),
            format_count(self.rules as u64),
            match &self.chosen {
                Some(chosen) => format!("{}: {chosen}", self.classifier),
                None => self.classifier.clone(),
            },
            self.traffic.clone(),
            self.batch.to_string(),
        ];
        if has_threads {
            let rate = self.updates_per_second.map(|rate| rate.round() as usize);
            cells.push(self.threads.to_string());
            cells.push(known(rate));
            cells.push(decimal(self.update_ns.map(|ns| ns / 1e3), 2));
        }
        let Spread { median, min, max } = self.ns_per_lookup;
        cells.push(format!("{median:.1}"));
        cells.push(format!("{min:.1}-{max:.1}"));
        cells.push(decimal(self.lookups_per_second.map(|rate| rate / 1e6), 2));
        cells.push(decimal(self.build_ms, 1));
        cells.push(decimal(self.bytes_per_rule, 0));
        cells.push(known(self.tables));
        if has_models {
            cells.push(decimal(self.coverage, 3));
            cells.push(decimal(self.training_ms, 1));
        }
        cells.push(known(self.checked));
        cells.push(known(self.wrong));
        cells
    }
}
