//! Draws the cost of a packet against the number of rules, and throughput over time and
//! workers.

use super::Row;
use crate::workers;
use thalweg_command::report::{Axis, Lines, Series, Shape, Unit};

/// The pictures of these rows.
pub(super) fn pictures(rows: &[Row], running: &[workers::Row]) -> Vec<Lines> {
    let mut pictures = Vec::new();
    if !rows.is_empty() {
        pictures.push(Lines {
            caption: "Processor time of a packet, median".to_owned(),
            note: "Both axes are logarithmic.".to_owned(),
            x: Axis::logarithmic("rules", Unit::Count),
            y: Axis::logarithmic("time a packet", Unit::Nanoseconds),
            series: gather(rows.iter().map(|row| {
                let point = (row.rules as f64, row.ns_per_packet.median);
                (row.way(), vec![point])
            })),
            bands: Vec::new(),
        });
        let over_time = rows.iter().map(|row| {
            let samples = (1..).zip(&row.over_time_ns);
            let points = samples.map(|(sample, ns)| (f64::from(sample), 1e9 / ns));
            (format!("{}, {}", row.case, row.way()), points.collect())
        });
        pictures.push(throughput("sample", over_time));
    }
    if !running.is_empty() {
        let by_workers = running.iter().map(|row| {
            let point = (row.workers as f64, row.packets_per_second.median);
            (row.name(), vec![point])
        });
        pictures.push(throughput("workers", by_workers));
        let over_time = running.iter().map(|row| {
            let samples = (1..).zip(&row.over_time);
            let points = samples.map(|(sample, rate)| (f64::from(sample), *rate));
            let name = format!("{}, {} workers", row.name(), row.workers);
            (name, points.collect())
        });
        pictures.push(throughput("sample", over_time));
    }
    pictures
}

fn throughput(x: &str, rows: impl Iterator<Item = (String, Vec<(f64, f64)>)>) -> Lines {
    Lines {
        caption: format!("Packets a second, by {x}"),
        note: String::new(),
        x: Axis::linear(x, Unit::Count),
        y: Axis::linear("packets a second", Unit::Count),
        series: gather(rows),
        bands: Vec::new(),
    }
}

/// Collects points of the same name into one line.
fn gather(rows: impl Iterator<Item = (String, Vec<(f64, f64)>)>) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for (name, points) in rows {
        match series.iter_mut().find(|one| one.name == name) {
            Some(one) => one.points.extend(points),
            None => series.push(Series {
                name,
                shape: Shape::MarkedLine,
                points,
            }),
        }
    }
    for one in &mut series {
        one.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    series
}
