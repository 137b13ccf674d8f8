//! Draws times against cache size, with a line for each maintainer.

use super::row::{ALL, Row, TEN};
use thalweg_command::report::{Axis, Lines, Series, Shape, Unit};

/// Times against sizes: until the last old answer, and until every entry is right.
pub(super) fn times(rows: &[Row]) -> Vec<Lines> {
    let is_of_ten = |row: &Row| row.class == TEN && row.kind == ALL;
    let mut pictures = vec![
        time("Time to update, median", rows, Row::is_of_all, |row| {
            row.time_to_update_us.median
        }),
        time(
            "Time until every entry is right, median",
            rows,
            Row::is_of_all,
            |row| row.until_right_us().median,
        ),
        time(
            "The same where 5 to 20 entries are affected",
            rows,
            is_of_ten,
            |row| row.until_right_us().median,
        ),
        time(
            "Time until every entry is right, 99 in 100 within",
            rows,
            Row::is_of_all,
            |row| row.until_right_us().p99,
        ),
    ];
    pictures.retain(|picture| !picture.series.is_empty());
    pictures
}

fn time(
    caption: &str,
    rows: &[Row],
    is_shown: fn(&Row) -> bool,
    microseconds: fn(&Row) -> f64,
) -> Lines {
    let mut series: Vec<Series> = Vec::new();
    for row in rows.iter().filter(|row| is_shown(row)) {
        let point = (row.entries as f64, microseconds(row) * 1e3);
        match series.iter_mut().find(|one| one.name == row.maintainer) {
            Some(one) => one.points.push(point),
            None => series.push(Series {
                name: row.maintainer.clone(),
                shape: Shape::MarkedLine,
                points: vec![point],
            }),
        }
    }
    for one in &mut series {
        one.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Lines {
        caption: caption.to_owned(),
        note: "Both axes are logarithmic.".to_owned(),
        x: entries_axis(),
        y: Axis::logarithmic("time", Unit::Nanoseconds),
        series,
        bands: Vec::new(),
    }
}

/// The axis of cache sizes.
pub(super) fn entries_axis() -> Axis {
    Axis::logarithmic("entries in the cache", Unit::Count)
}
