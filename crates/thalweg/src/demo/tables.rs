//! Builds the tables of the demonstration, for the terminal and the report.

use std::collections::BTreeSet;

use thalweg_pipeline::TableId;
use thalweg_switch::LongWorkStatistics;

use super::pass::Window;
use super::row::{Quantiles, Row};
use super::scenario::Scenario;
use crate::trace::describe_traversal;
use thalweg_command::report::{Table, Unit, format_bytes, format_count};

/// Rows of the timeline table.
const STRETCHES: usize = 10;

/// All figures, with one column per maintainer.
pub(super) fn summary(rows: &[Row]) -> Table {
    let mut table = Table::new("Each column is a way for the caches to follow the rules.");
    table = table.with_words("");
    for row in rows {
        table = table.with_numbers(row.name());
    }
    push_answers(&mut table, rows);
    push_updates(&mut table, rows);
    push_times(&mut table, rows);
    push(&mut table, rows, "megaflow entries, at the end", |row| {
        format_count(row.measured.megaflows as u64)
    });
    push(&mut table, rows, "megaflow masks, memory", |row| {
        let bytes = format_bytes(row.measured.megaflow_bytes as u64);
        format!("{}, {bytes}", format_count(row.measured.masks as u64))
    });
    push(&mut table, rows, "packets audited", |row| {
        format_count(row.audit().0)
    });
    push(&mut table, rows, "stale packets", |row| {
        format_count(row.audit().1)
    });
    table
}

/// Adds a row with one figure.
fn push(table: &mut Table, rows: &[Row], name: &str, figure: impl Fn(&Row) -> String) {
    let cells = rows.iter().map(figure);
    table.push(std::iter::once(name.to_owned()).chain(cells).collect());
}

fn push_answers(table: &mut Table, rows: &[Row]) {
    let time = |ns: f64| Unit::Nanoseconds.format(ns);
    let share = |row: &Row, answered: u64| Unit::Share.format(row.share(answered));
    push(table, rows, "answered by the microflow cache", |row| {
        share(row, row.measured.statistics.microflow.hits)
    });
    push(table, rows, "answered by the megaflow cache", |row| {
        share(row, row.measured.statistics.megaflow.hits)
    });
    push(table, rows, "answered by the interpreter", |row| {
        share(row, row.unknown())
    });
    push(table, rows, "upcalls", |row| {
        format_count(row.measured.statistics.upcalls)
    });
    push(table, rows, "cost per packet", |row| {
        time(row.ns_per_packet())
    });
    push(table, rows, "packets per second, changes included", |row| {
        format_count(row.packets_per_second() as u64)
    });
}

fn push_updates(table: &mut Table, rows: &[Row]) {
    let time = |ns: u64| Unit::Nanoseconds.format(ns as f64);
    push(table, rows, "time to update, median", |row| {
        time(row.times_to_update().median)
    });
    push(table, rows, "time to update, 99 in 100 within", |row| {
        time(row.times_to_update().p99)
    });
    push(table, rows, "time to update, longest", |row| {
        time(row.times_to_update().max)
    });
    push(table, rows, "until every entry is right, median", |row| {
        time(row.times_to_repair().median)
    });
    push(table, rows, "all changes together", |row| {
        time(row.update_ns())
    });
    let pair = |of: Quantiles| format!("{} / {}", format_count(of.median), format_count(of.max));
    push(
        table,
        rows,
        "entries affected by a change, median / most",
        |row| pair(row.affected()),
    );
    push(table, rows, "repaired / moved / evicted, in all", |row| {
        let work = row.work();
        let counts = [work.repaired, work.moved, work.evicted].map(format_count);
        counts.join(" / ")
    });
    push(
        table,
        rows,
        "entries examined for it, median / most",
        |row| pair(row.examined()),
    );
}

fn push_times(table: &mut Table, rows: &[Row]) {
    let time = |ns: u64| Unit::Nanoseconds.format(ns as f64);
    push(table, rows, "indexes built on a thread, its time", |row| {
        let LongWorkStatistics {
            jobs,
            processor_time,
        } = row.measured.long_work;
        let ns = processor_time.as_nanos() as u64;
        format!("{}, {}", format_count(jobs), time(ns))
    });
    push(table, rows, "forwarding, changes and indexes", |row| {
        time(row.total_ns())
    });
}

/// Packets that were not sent, by reason.
pub(super) fn drops(rows: &[Row]) -> Table {
    let mut table = Table::new("Packets that were not sent, by reason.").with_words("reason");
    for row in rows {
        table = table.with_numbers(row.name());
    }
    let statistics = || rows.iter().map(|row| &row.measured.statistics);
    let reasons: BTreeSet<&str> = statistics()
        .flat_map(|one| one.drops().map(|(reason, _)| reason))
        .collect();
    for reason in reasons {
        let cells = statistics().map(|one| {
            let found = one.drops().find(|(name, _)| *name == reason);
            format_count(found.map_or(0, |(_, count)| count))
        });
        table.push(std::iter::once(reason.to_owned()).chain(cells).collect());
    }
    table
}

/// The traversals of the entries.
pub(super) fn traversals(rows: &[Row]) -> Table {
    let mut table = Table::new("Megaflow entries by the tables that their packets go through.")
        .with_words("tables, in order");
    for row in rows_with_traversals(rows) {
        table = table.with_numbers(row.name());
    }
    let all = rows_with_traversals(rows).flat_map(|row| &row.measured.traversals);
    let ways: BTreeSet<&[TableId]> = all.map(|view| &view.tables[..]).collect();
    for way in ways {
        let numbers: Vec<u8> = way.iter().map(|table| table.number()).collect();
        let entries = rows_with_traversals(rows).map(|row| {
            let views = row.measured.traversals.iter();
            let views = views.filter(|view| view.tables == way);
            format_count(views.map(|view| view.entries).sum())
        });
        let name = std::iter::once(describe_traversal(&numbers));
        table.push(name.chain(entries).collect());
    }
    table
}

fn rows_with_traversals(rows: &[Row]) -> impl Iterator<Item = &Row> {
    rows.iter()
        .filter(|row| !row.measured.traversals.is_empty())
}

/// Hit rate and cost, for each tenth of the packets.
pub(super) fn timeline(scenario: &Scenario, rows: &[Row]) -> Table {
    let caption = "Packets answered by a cache, and the time a packet takes, changes included.";
    let mut table = Table::new(caption)
        .with_numbers("packets")
        .with_words("rules");
    for row in rows {
        table = table.with_numbers(row.name()).with_numbers("cost");
    }
    let windows = rows.first().map_or(0, |row| row.measured.windows.len());
    for stretch in 0..STRETCHES {
        let range = windows * stretch / STRETCHES..windows * (stretch + 1) / STRETCHES;
        let of = |row: &Row| Window::joined(&row.measured.windows[range.clone()]);
        let Some(first) = rows.first().map(of) else {
            continue;
        };
        let end = first.first_packet + first.packets;
        let is_in = |phase: &&super::scenario::Phase| {
            phase.packets.start < end && first.first_packet < phase.packets.end
        };
        let phase = scenario.phases.iter().find(is_in);
        let mut cells = vec![
            format!("to {}", Unit::Count.format_tick(end as f64)),
            phase.map_or("", |phase| phase.name).to_owned(),
        ];
        for window in rows.iter().map(of) {
            cells.push(Unit::Share.format(window.hit_rate()));
            cells.push(Unit::Nanoseconds.format(window.ns_per_packet()));
        }
        table.push(cells);
    }
    table
}
