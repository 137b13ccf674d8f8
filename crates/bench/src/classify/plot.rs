//! Draws the cost of a lookup against the number of rules, with a line for each classifier.

use super::row::Row;
use thalweg_command::report::{Axis, Lines, Series, Shape, Unit};

/// One picture for each combination of traffic, burst size, number of threads and rate of
/// changes.
pub(super) fn pictures(rows: &[Row]) -> Vec<Lines> {
    let mut settings: Vec<_> = rows.iter().map(setting).collect();
    settings.dedup();
    let mut seen = Vec::new();
    for setting in settings {
        if !seen.contains(&setting) {
            seen.push(setting);
        }
    }
    seen.iter()
        .map(|one| picture(one, rows.iter().filter(|row| setting(row) == *one)))
        .collect()
}

fn setting(row: &Row) -> (String, usize, usize, u64) {
    (row.traffic.clone(), row.batch, row.threads, row.update_rate)
}

fn picture<'a>(
    (traffic, batch, threads, rate): &(String, usize, usize, u64),
    rows: impl Iterator<Item = &'a Row>,
) -> Lines {
    let mut series: Vec<Series> = Vec::new();
    for row in rows {
        let point = (row.rules as f64, row.ns_per_lookup.median);
        match series.iter_mut().find(|one| one.name == row.classifier) {
            Some(one) => one.points.push(point),
            None => series.push(Series {
                name: row.classifier.clone(),
                shape: Shape::MarkedLine,
                points: vec![point],
            }),
        }
    }
    for one in &mut series {
        one.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let mut caption = format!("Lookup, median, {traffic} traffic, bursts of {batch}");
    if *threads > 1 || *rate > 0 {
        caption += &format!(", {threads} threads, {rate} changes/s");
    }
    Lines {
        caption,
        note: "Both axes are logarithmic.".to_owned(),
        x: Axis::logarithmic("rules", Unit::Count),
        y: Axis::logarithmic("time a lookup", Unit::Nanoseconds),
        series,
        bands: Vec::new(),
    }
}
