//! The report of the demonstration.

use anyhow::Result;

use super::pass::{UpdateSample, Window};
use super::row::Row;
use super::scenario::Scenario;
use super::{NEXT_STEPS, audit_sentence, setting_sentence, tables};
use thalweg_command::report::{Axis, Band, Bars, Lines, Report, Series, Shape, Unit};

/// Builds the page.
///
/// # Errors
/// If a picture cannot be drawn.
pub(super) fn page(scenario: &Scenario, rows: &[Row]) -> Result<Report> {
    let mut report = Report::new("Thalweg: caches that are never stale");
    report.text(&setting_sentence(scenario));
    report.text(
        "A packet that no cache knows is walked through all tables by the interpreter (an \
         upcall), and the walk is remembered: as a megaflow, which answers every packet that \
         agrees on the bits the walk has looked at, and as a microflow, which answers packets \
         of this one flow. When the rules change, a maintainer mends what is remembered before \
         the next packet is forwarded. The columns compare maintainers on the same packets and \
         the same changes.",
    );
    report.text(&audit_sentence(rows));
    report.table(&tables::summary(rows));
    report.text(
        "Cost per packet is the time spent forwarding; packets per second count the time of \
         the changes as well. Time to update runs from a change's submission until no packet \
         is answered by the older rules. Times are of one unrepeated run on this machine: \
         compare columns, and use `thalweg bench` for figures with spreads.",
    );
    report.heading("Who answered");
    report.bars(&answered(rows))?;
    report.heading("Over time");
    report.lines(&hit_rates(scenario, rows))?;
    report.lines(&costs(scenario, rows))?;
    report.table(&tables::timeline(scenario, rows));
    report.heading("The changes");
    report.lines(&updates(scenario, rows))?;
    report.lines(&affected(scenario, rows))?;
    report.heading("Traversals");
    report.text(
        "A traversal is a way that packets take through the tables. Maintainers that look at \
         affected entries only keep a record of what each entry's walk has read on its way.",
    );
    report.table(&tables::traversals(rows));
    report.heading("Packets not sent");
    report.text(
        "Generated flows meet the access list's drop rules, and some would leave by the port \
         that they came in by; every packet that is not sent is counted under its reason.",
    );
    report.table(&tables::drops(rows));
    report.heading("Where to look next");
    report.list(&NEXT_STEPS.map(|(command, what)| format!("`{command}`: {what}")));
    Ok(report)
}

fn answered(rows: &[Row]) -> Bars {
    let series = |name: &str, of: &dyn Fn(&Row) -> u64| {
        let shares = rows.iter().map(|row| row.share(of(row)));
        (name.to_owned(), shares.collect())
    };
    Bars {
        caption: "Share of the packets by what answered them".to_owned(),
        note: String::new(),
        axis: Axis::linear("share of the packets", Unit::Share),
        categories: rows.iter().map(|row| row.name().to_owned()).collect(),
        series: vec![
            series("microflow cache", &|row| {
                row.measured.statistics.microflow.hits
            }),
            series("megaflow cache", &|row| {
                row.measured.statistics.megaflow.hits
            }),
            series("interpreter", &Row::unknown),
        ],
        is_stacked: true,
    }
}

fn hit_rates(scenario: &Scenario, rows: &[Row]) -> Lines {
    Lines {
        caption: "Packets answered by a cache".to_owned(),
        note: "A point for each fiftieth of the packets.".to_owned(),
        x: packets_axis(scenario),
        y: Axis::linear("answered by a cache", Unit::Share),
        series: per_window(rows, Window::hit_rate),
        bands: bands(scenario),
    }
}

fn costs(scenario: &Scenario, rows: &[Row]) -> Lines {
    Lines {
        caption: "Time per packet, changes included".to_owned(),
        note: "Logarithmic; a point for each fiftieth of the packets.".to_owned(),
        x: packets_axis(scenario),
        y: Axis::logarithmic("time per packet", Unit::Nanoseconds),
        series: per_window(rows, Window::ns_per_packet),
        bands: bands(scenario),
    }
}

fn updates(scenario: &Scenario, rows: &[Row]) -> Lines {
    Lines {
        caption: "Time to update".to_owned(),
        note: "Logarithmic; a dot for each change.".to_owned(),
        x: packets_axis(scenario),
        y: Axis::logarithmic("time to update", Unit::Nanoseconds),
        series: per_update(rows, |update| update.time_ns as f64),
        bands: bands(scenario),
    }
}

fn affected(scenario: &Scenario, rows: &[Row]) -> Lines {
    Lines {
        caption: "Entries affected by a change".to_owned(),
        note: "Repaired, moved or evicted; logarithmic, changes that affect none are left out."
            .to_owned(),
        x: packets_axis(scenario),
        y: Axis::logarithmic("entries affected", Unit::Count),
        series: per_update(rows, |update| update.work.affected() as f64),
        bands: bands(scenario),
    }
}

fn packets_axis(scenario: &Scenario) -> Axis {
    let packets = scenario.sequence.len() as f64;
    Axis::linear("packets forwarded", Unit::Count).reaching(packets)
}

fn per_window(rows: &[Row], value: impl Fn(&Window) -> f64) -> Vec<Series> {
    let points = |row: &Row| {
        let windows = row.measured.windows.iter();
        let middle = |window: &Window| window.first_packet as f64 + window.packets as f64 / 2.0;
        windows
            .map(|window| (middle(window), value(window)))
            .collect()
    };
    rows.iter()
        .map(|row| series(row, Shape::Line, points(row)))
        .collect()
}

fn per_update(rows: &[Row], value: impl Fn(&UpdateSample) -> f64) -> Vec<Series> {
    let points = |row: &Row| {
        let updates = row.measured.updates.iter();
        updates
            .map(|update| (update.position as f64, value(update)))
            .collect()
    };
    rows.iter()
        .map(|row| series(row, Shape::Dots, points(row)))
        .collect()
}

fn series(row: &Row, shape: Shape, points: Vec<(f64, f64)>) -> Series {
    Series {
        name: row.name().to_owned(),
        shape,
        points,
    }
}

fn bands(scenario: &Scenario) -> Vec<Band> {
    let phases = scenario.phases.iter();
    let band = |phase: &super::scenario::Phase| Band {
        name: phase.name.to_owned(),
        from: phase.packets.start as f64,
        to: phase.packets.end as f64,
    };
    phases.map(band).collect()
}
