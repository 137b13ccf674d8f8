//! Draws Figure 9 and both halves of Figure 10.

use super::cases::Row;
use super::control::{BarrierRow, ReportRow};
use thalweg_command::report::{Axis, Lines, Series, Shape, Unit};

/// All three pictures.
pub(super) fn pictures(rows: &[Row], manager: &[ReportRow], barrier: &[BarrierRow]) -> Vec<Lines> {
    let lines = [
        ("off", "miss", "no cache"),
        ("behavior", "miss", "behaviours, miss"),
        ("behavior", "hit", "behaviours, hit"),
        ("traversal", "miss", "traversals, miss"),
        ("traversal", "hit", "traversals, hit"),
        ("program", "miss", "program form, miss"),
        ("program", "hit", "program form, hit"),
    ];
    let caches = lines.map(|(cache, what, name)| {
        let points = rows
            .iter()
            .filter(|row| row.cache == cache && row.what == what);
        let points = points.filter_map(|row| {
            let case = row.case.parse::<f64>().ok()?;
            Some((case, row.ns_per_packet.median))
        });
        series(name, points.collect())
    });
    let reports = manager
        .iter()
        .map(|row| (row.reports_per_second as f64, row.delay_us.median * 1e3));
    let changes = barrier
        .iter()
        .map(|row| (row.affected as f64, row.delay_us.median * 1e3));
    vec![
        Lines {
            caption: "A packet's cost, median".to_owned(),
            note: "By case; processor time.".to_owned(),
            x: Axis::linear("case", Unit::Count),
            y: Axis::linear("time a packet", Unit::Nanoseconds),
            series: caches.to_vec(),
            bands: Vec::new(),
        },
        Lines {
            caption: "From a report to its installation, median".to_owned(),
            note: "Both axes are logarithmic.".to_owned(),
            x: Axis::logarithmic("reports a second", Unit::Count),
            y: Axis::logarithmic("time", Unit::Nanoseconds),
            series: vec![series("installation", reports.collect())],
            bands: Vec::new(),
        },
        Lines {
            caption: "From a change to its acknowledgement, median".to_owned(),
            note: "Both axes are logarithmic.".to_owned(),
            x: Axis::logarithmic("affected behaviours", Unit::Count),
            y: Axis::logarithmic("time", Unit::Nanoseconds),
            series: vec![series("change", changes.collect())],
            bands: Vec::new(),
        },
    ]
}

fn series(name: &str, points: Vec<(f64, f64)>) -> Series {
    Series {
        name: name.to_owned(),
        shape: Shape::MarkedLine,
        points,
    }
}
