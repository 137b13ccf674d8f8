//! The rows of the result: changes of one maintainer and size, by affected entries and kind.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use thalweg_command::report::{Table, Unit, format_count};

/// One maintainer, one size, one class of changes.
///
/// Rows of a peer omit what it does not know.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(super) struct Row {
    pub(super) maintainer: String,
    pub(super) entries: usize,
    /// The class of changes, by the number of affected entries.
    #[serde(default = "all")]
    pub(super) class: String,
    /// The kind of changes: `all`, one kind, or `bundle`.
    #[serde(default = "all")]
    pub(super) kind: String,
    /// Operations in each change.
    #[serde(default = "one")]
    pub(super) operations: usize,
    pub(super) updates: usize,
    /// Mean number of affected entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) affected: Option<f64>,
    /// Time until no packet is answered by an older version.
    pub(super) time_to_update_us: Quantiles,
    /// Time until every entry is right again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) time_to_repair_us: Option<Quantiles>,
    /// Mean number of entries examined in vain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) falsely_affected: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) microseconds_per_affected: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cache_bytes_per_entry: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dependency_bytes_per_entry: Option<f64>,
    /// The longest slice of a change, in which no packet is forwarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) longest_pause_us: Option<Quantiles>,
    /// Packets forwarded before the last slice of a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) packets_during: Option<u64>,
    /// Packets forwarded during and after the changes, each compared with the interpreter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) packets: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stale_packets: Option<u64>,
}

fn all() -> String {
    ALL.to_owned()
}

fn one() -> usize {
    1
}

/// The name of the class, and of the kind, of all changes.
pub(super) const ALL: &str = "all";

/// Quantiles of some measurements.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub(super) struct Quantiles {
    pub(super) median: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Quantiles {
    fn of(mut times: Vec<f64>) -> Quantiles {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        Quantiles {
            median: at(0.5),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

/// Classes of changes by affected entries: name, from, to.
const CLASSES: [(&str, u64, u64); 7] = [
    (ALL, 0, u64::MAX),
    ("0", 0, 0),
    ("1", 1, 1),
    ("5 to 20", 5, 20),
    ("50 to 200", 50, 200),
    ("200 or fewer", 0, 200),
    ("more", 201, u64::MAX),
];

/// The class in which sizes compare best: about ten entries.
pub(super) const TEN: &str = CLASSES[3].0;

/// Least changes in a row.
const ROW_MIN: usize = 3;

/// A timed change.
pub(super) struct Sample {
    pub(super) kind: &'static str,
    pub(super) time_us: f64,
    pub(super) repair_us: f64,
    pub(super) pause_us: f64,
    pub(super) packets_during: u64,
    pub(super) affected: u64,
    pub(super) falsely_affected: u64,
    pub(super) packets: u64,
    pub(super) stale_packets: u64,
}

/// What the rows of one maintainer and size have in common.
pub(super) struct About {
    pub(super) maintainer: String,
    pub(super) entries: usize,
    pub(super) operations: usize,
    pub(super) cache_bytes_per_entry: f64,
    pub(super) dependency_bytes_per_entry: f64,
}

/// A row for each class with enough changes, and one for each kind if there are several.
pub(super) fn rows_of(about: &About, samples: &[Sample]) -> Vec<Row> {
    let of_class = CLASSES.iter().filter_map(|(class, from, to)| {
        let is_in = |sample: &&Sample| (*from..=*to).contains(&sample.affected);
        row(about, class, ALL, samples.iter().filter(is_in).collect())
    });
    let mut kinds: Vec<&str> = samples.iter().map(|sample| sample.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.len() == 1 {
        kinds.clear();
    }
    let of_kind = kinds.into_iter().filter_map(|kind| {
        let is_in = |sample: &&Sample| sample.kind == kind;
        row(about, ALL, kind, samples.iter().filter(is_in).collect())
    });
    of_class.chain(of_kind).collect()
}

/// A row for the changes that affected about `affected` entries, if there are enough.
pub(super) fn row_of(
    about: &About,
    affected: u64,
    about_so_many: &RangeInclusive<u64>,
    samples: &[Sample],
) -> Option<Row> {
    let is_in = |sample: &&Sample| about_so_many.contains(&sample.affected);
    let samples = samples.iter().filter(is_in).collect();
    row(about, &affected.to_string(), ALL, samples)
}

fn row(about: &About, class: &str, kind: &str, samples: Vec<&Sample>) -> Option<Row> {
    if samples.len() < ROW_MIN {
        return None;
    }
    let sum = |value: fn(&Sample) -> u64| -> u64 { samples.iter().map(|one| value(one)).sum() };
    let mean = |value: fn(&Sample) -> u64| sum(value) as f64 / samples.len() as f64;
    let affected = mean(|sample| sample.affected);
    let total_us: f64 = samples.iter().map(|sample| sample.repair_us).sum();
    let each = total_us / samples.len() as f64 / affected;
    let times = |value: fn(&Sample) -> f64| {
        Quantiles::of(samples.iter().map(|sample| value(sample)).collect())
    };
    Some(Row {
        maintainer: about.maintainer.clone(),
        entries: about.entries,
        class: class.to_owned(),
        kind: kind.to_owned(),
        operations: about.operations,
        updates: samples.len(),
        affected: Some(affected),
        time_to_update_us: times(|sample| sample.time_us),
        time_to_repair_us: Some(times(|sample| sample.repair_us)),
        falsely_affected: Some(mean(|sample| sample.falsely_affected)),
        microseconds_per_affected: (affected > 0.0).then_some(each),
        cache_bytes_per_entry: Some(about.cache_bytes_per_entry),
        dependency_bytes_per_entry: Some(about.dependency_bytes_per_entry),
        longest_pause_us: Some(times(|sample| sample.pause_us)),
        packets_during: Some(sum(|sample| sample.packets_during)),
        packets: Some(sum(|sample| sample.packets)),
        stale_packets: Some(sum(|sample| sample.stale_packets)),
    })
}

/// All rows, for the terminal and for a report.
pub(super) fn table(rows: &[Row]) -> Table {
    let caption = "\"Repaired\" is the median time until every entry is right, \"pause\" the \
                   longest in which no packet was forwarded; \"during\" are packets forwarded \
                   before entries were right, \"packets\" all that were compared.";
    let mut table = Table::new(caption)
        .with_words("maintainer")
        .with_numbers("entries")
        .with_words("changes that")
        .with_numbers("changes");
    for number in [
        "affected",
        "falsely",
        "median",
        "p99",
        "longest",
        "repaired",
        "pause",
        "per affected",
        "B/entry",
        "record",
        "during",
        "packets",
        "stale",
    ] {
        table = table.with_numbers(number);
    }
    for row in rows {
        table.push(cells(row));
    }
    table
}

fn cells(row: &Row) -> Vec<String> {
    let time = row.time_to_update_us;
    let decimals = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.1}"));
    let whole = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.0}"));
    let count = |value: Option<u64>| value.map_or(String::new(), format_count);
    let words = |value: Option<f64>| value.map_or(String::new(), in_words);
    vec![
        row.maintainer.clone(),
        format_count(row.entries as u64),
        row.changes_in_words(),
        format_count(row.updates as u64),
        decimals(row.affected),
        decimals(row.falsely_affected),
        in_words(time.median),
        in_words(time.p99),
        in_words(time.max),
        words(row.time_to_repair_us.map(|time| time.median)),
        words(row.longest_pause_us.map(|time| time.max)),
        words(row.microseconds_per_affected),
        whole(row.cache_bytes_per_entry),
        whole(row.dependency_bytes_per_entry),
        count(row.packets_during),
        count(row.packets),
        count(row.stale_packets),
    ]
}

/// Formats microseconds in a suitable unit.
pub(super) fn in_words(microseconds: f64) -> String {
    Unit::Nanoseconds.format(microseconds * 1e3)
}

impl Row {
    /// Describes the changes of the row.
    fn changes_in_words(&self) -> String {
        match (self.class.as_str(), self.kind.as_str()) {
            (ALL, ALL) => "all".to_owned(),
            (ALL, kind) => kind.to_owned(),
            ("more", _) => "affect more".to_owned(),
            (class, _) => format!("affect {class}"),
        }
    }

    /// Time until every entry is right; for a peer, the only time it gives.
    pub(super) fn until_right_us(&self) -> Quantiles {
        self.time_to_repair_us.unwrap_or(self.time_to_update_us)
    }

    /// Whether the row is about all changes.
    pub(super) fn is_of_all(&self) -> bool {
        self.class == ALL && self.kind == ALL
    }
}
