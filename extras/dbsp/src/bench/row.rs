//! Rows with the keys of `thalweg bench update`, so that they fit its table.

use std::fmt;

use serde::Serialize;

use crate::clock::Passed;

/// The output of the program with `--json`.
#[derive(Serialize, Debug)]
pub(crate) struct Report {
    /// The program.
    pub(crate) command: &'static str,
    /// The seed.
    pub(crate) seed: u64,
    /// The pipeline's name.
    pub(crate) pipeline: String,
    /// The pipeline's rules.
    pub(crate) rules: usize,
    /// One row per maintainer, size and class.
    pub(crate) rows: Vec<Row>,
}

/// A row: one maintainer, one size, one class of changes.
#[derive(Serialize, Debug)]
pub(crate) struct Row {
    maintainer: &'static str,
    entries: usize,
    /// The class of changes, by the number of affected entries.
    class: &'static str,
    updates: usize,
    /// The mean number of affected entries.
    affected: f64,
    /// Processor time of all threads.
    time_to_update_us: Quantiles,
    /// Wall-clock time.
    wall_us: Quantiles,
    #[serde(flatten)]
    costs: Option<Costs>,
}

/// The other costs of a view.
#[derive(Serialize, Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// Processor time of an empty transaction.
    pub(crate) empty_us: Quantiles,
    /// Processor time of recording one packet.
    pub(crate) record_us: Quantiles,
    /// Processor time of rebuilding the circuit with all rules and packets.
    pub(crate) rebuild_ms: f64,
    /// The greatest number of masks of a table.
    pub(crate) masks_at_most: usize,
    /// Growth of the process while the view was filled.
    pub(crate) resident_bytes_per_entry: f64,
}

/// A timed change.
pub(crate) struct Sample {
    /// Its times.
    pub(crate) passed: Passed,
    /// The recorded packets whose steps changed.
    pub(crate) affected: u64,
}

/// Quantiles of several measurements.
#[derive(Clone, Copy, Serialize, Debug)]
pub(crate) struct Quantiles {
    median: f64,
    p99: f64,
    max: f64,
}

impl Quantiles {
    /// Quantiles of at least one measurement.
    pub(crate) fn of(times: impl Iterator<Item = f64>) -> Quantiles {
        let mut times: Vec<f64> = times.collect();
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        Quantiles {
            median: at(0.5),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

/// Classes of changes by the number of affected entries: from, to.
const CLASSES: [(&str, u64, u64); 6] = [
    ("all", 0, u64::MAX),
    ("0", 0, 0),
    ("1", 1, 1),
    ("5 to 20", 5, 20),
    ("50 to 200", 50, 200),
    ("more", 201, u64::MAX),
];

/// The fewest changes for a row.
const ROW_MIN: usize = 3;

impl Row {
    /// The row of the interpreter, asked about all entries.
    pub(crate) fn baseline(entries: usize, passed: Vec<Passed>) -> Row {
        let samples = passed.into_iter().map(|passed| Sample {
            passed,
            affected: entries as u64,
        });
        let samples: Vec<Sample> = samples.collect();
        let all: Vec<&Sample> = samples.iter().collect();
        Row::new("interpreter", entries, "all", &all, None)
    }

    /// Rows for each class with enough changes.
    pub(crate) fn of_classes(entries: usize, samples: &[Sample], costs: Costs) -> Vec<Row> {
        let row = |(class, from, to): &(&'static str, u64, u64)| {
            let of_class = samples
                .iter()
                .filter(|sample| (*from..=*to).contains(&sample.affected));
            let of_class: Vec<&Sample> = of_class.collect();
            let costs = (*class == "all").then_some(costs);
            (of_class.len() >= ROW_MIN).then(|| Row::new("dbsp", entries, class, &of_class, costs))
        };
        CLASSES.iter().filter_map(row).collect()
    }

    fn new(
        maintainer: &'static str,
        entries: usize,
        class: &'static str,
        samples: &[&Sample],
        costs: Option<Costs>,
    ) -> Row {
        let affected: u64 = samples.iter().map(|sample| sample.affected).sum();
        let times = samples.iter().map(|sample| sample.passed);
        Row {
            maintainer,
            entries,
            class,
            updates: samples.len(),
            affected: affected as f64 / samples.len() as f64,
            time_to_update_us: Quantiles::of(times.clone().map(|passed| passed.processor_us)),
            wall_us: Quantiles::of(times.map(|passed| passed.wall_us)),
            costs,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (time, wall) = (self.time_to_update_us, self.wall_us);
        write!(
            f,
            "{:<12} {:>7} entries, affected {:<9} ({:>8.1}), {:>4} changes: \
             median {:.0} us, p99 {:.0} us, max {:.0} us; on the wall {:.0}, {:.0}, {:.0}",
            self.maintainer,
            self.entries,
            self.class,
            self.affected,
            self.updates,
            time.median,
            time.p99,
            time.max,
            wall.median,
            wall.p99,
            wall.max
        )?;
        if let Some(costs) = self.costs {
            let (empty, record) = (costs.empty_us.median, costs.record_us.median);
            let (rebuild, bytes) = (costs.rebuild_ms, costs.resident_bytes_per_entry);
            write!(
                f,
                "; nothing {empty:.0} us, one more packet {record:.0} us, \
                 rebuilt in {rebuild:.0} ms, {bytes:.0} B/entry, {} masks in a table",
                costs.masks_at_most
            )?;
        }
        Ok(())
    }
}
