//! `thalweg bench ports`: what many ports cost a switch that follows a database.
//!
//! ```text
//!   this program -- one transaction --> ovsdb-server <-- Thalweg's daemon, or Open vSwitch's
//! ```
//!
//! Both switches are processes of their own with a database of their own, have dummy ports and
//! no traffic, and get the same transactions, in turns. A sample is a new switch:
//!
//! | row | figure |
//! | --- | --- |
//! | added | from the transaction until `cur_cfg`, which tells that all ports are there |
//! | memory | growth of the process, for each port, when it has written statistics |
//! | processor time at rest | of one second, with the ports and without packets |
//! | removed | the same for the transaction that removes them |
//!
//! Time of the database server is in the times by the clock, and not in those of the processor.

mod database;

use std::collections::BTreeSet;
use std::time::{Duration, Instant as Wall};

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
use thalweg_command::console::Console;
use thalweg_command::number::number;
use thalweg_command::report::{Table, format_count};

use self::database::Database;
use super::spread::Spread;
use crate::private_switch::{MeasuredSwitch, PrivateSwitch, SwitchProgram};

/// The command's arguments.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Ports of a transaction, one set of rows each
    #[arg(
        long, value_name = "N,...", value_delimiter = ',', default_values_t = [1_000],
        value_parser = number::<u32>(1..=30_000)
    )]
    ports: Vec<u32>,
    /// Switches to measure
    #[arg(
        long, value_name = "NAME,...", value_delimiter = ',', value_enum,
        default_values_t = [MeasuredSwitch::Thalweg, MeasuredSwitch::OpenVSwitch]
    )]
    switch: Vec<MeasuredSwitch>,
    /// Number of samples
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number::<usize>(1..=1_000))]
    samples: usize,
    /// Time before memory is looked at, and again for the processor at rest. By default both have
    /// then written statistics, which they do every five seconds
    #[arg(
        long, value_name = "MS", hide = true, default_value_t = 6_000,
        value_parser = number::<u64>(1..=600_000)
    )]
    rest_ms: u64,
}

fn start(switch: MeasuredSwitch) -> Result<PrivateSwitch> {
    PrivateSwitch::start(match switch {
        MeasuredSwitch::Thalweg => SwitchProgram::thalweg()?,
        MeasuredSwitch::OpenVSwitch => SwitchProgram::open_vswitch(),
    })
}

/// The measured quantities, with their units.
const FIGURES: [(&str, &str); 6] = [
    ("added", "s"),
    ("added, processor time", "s"),
    ("memory of a port", "bytes"),
    ("processor time at rest", "ms/s"),
    ("removed", "s"),
    ("removed, processor time", "s"),
];

/// One figure of one switch.
#[derive(Serialize, Debug)]
struct Row {
    what: &'static str,
    unit: &'static str,
    ports: u32,
    switch: &'static str,
    value: Spread,
}

/// The command's output with `--json`.
#[derive(Serialize, Debug)]
struct Report {
    command: &'static str,
    samples: usize,
    /// Open vSwitch's version, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    open_vswitch: Option<String>,
    rows: Vec<Row>,
}

/// Measures and prints.
///
/// # Errors
/// If a switch cannot be started, or its database refuses.
pub(super) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let kinds = MeasuredSwitch::each_once(&arguments.switch);
    let sizes: BTreeSet<u32> = arguments.ports.iter().copied().collect();
    let rest = Duration::from_millis(arguments.rest_ms);
    let steps = sizes.len() * arguments.samples * kinds.len();
    let progress = console.progress(steps as u64);
    let mut rows = Vec::new();
    let mut open_vswitch = None;
    for ports in sizes {
        let mut samples: Vec<[Vec<f64>; FIGURES.len()]> =
            kinds.iter().map(|_| Default::default()).collect();
        for _ in 0..arguments.samples {
            for (kind, samples) in kinds.iter().zip(&mut samples) {
                let mut switch = start(*kind)?;
                if *kind == MeasuredSwitch::OpenVSwitch {
                    open_vswitch = Some(switch.version()?);
                }
                let sample = measure(&mut switch, ports, rest)?;
                for (known, value) in samples.iter_mut().zip(sample) {
                    known.extend(value);
                }
                progress.inc(1);
            }
        }
        for (place, (what, unit)) in FIGURES.into_iter().enumerate() {
            for (kind, samples) in kinds.iter().zip(&samples) {
                if !samples[place].is_empty() {
                    rows.push(Row {
                        what,
                        unit,
                        ports,
                        switch: kind.name(),
                        value: Spread::of(&samples[place]),
                    });
                }
            }
        }
    }
    progress.finish_and_clear();
    console.headline("What many ports cost a switch that follows a database")?;
    console.print(&table(&rows).to_text())?;
    console.print_json(&Report {
        command: "bench ports",
        samples: arguments.samples,
        open_vswitch,
        rows,
    })
}

/// The figures of one switch, in the order of [`FIGURES`]; `None` where the system does not say.
fn measure(
    switch: &mut PrivateSwitch,
    ports: u32,
    rest: Duration,
) -> Result<[Option<f64>; FIGURES.len()]> {
    let mut database = Database::connect(&switch.database())?;
    let names: Vec<String> = (0..ports).map(|number| format!("many{number}")).collect();
    let memory = switch.resident_bytes();
    let (added, adding) = timed(switch, |switch| {
        let number = database.add(&names)?;
        follow(switch, &mut database, &number)
    })?;
    std::thread::sleep(rest);
    let growth = memory.zip(switch.resident_bytes());
    let growth = growth.map(|(before, after)| after.saturating_sub(before) as f64);
    let (rested, resting) = timed(switch, |_| {
        std::thread::sleep(rest);
        Ok(())
    })?;
    let resting_ms = resting.map(|spent| spent * 1e3 / rested);
    let (removed, removing) = timed(switch, |switch| {
        let number = database.remove_all()?;
        follow(switch, &mut database, &number)
    })?;
    Ok([
        Some(added),
        adding,
        growth.map(|growth| growth / f64::from(ports)),
        resting_ms,
        Some(removed),
        removing,
    ])
}

/// Does something; the seconds by the clock and those of the switch's processor.
fn timed(
    switch: &mut PrivateSwitch,
    act: impl FnOnce(&mut PrivateSwitch) -> Result<()>,
) -> Result<(f64, Option<f64>)> {
    let (start, before) = (Wall::now(), switch.all_processor_ns());
    act(switch)?;
    let by_clock = start.elapsed().as_secs_f64();
    let spent = before.zip(switch.all_processor_ns());
    let spent = spent.map(|(before, after)| (after - before) as f64 / 1e9);
    Ok((by_clock, spent))
}

/// Waits until the switch has followed a transaction.
fn follow(switch: &mut PrivateSwitch, database: &mut Database, number: &Value) -> Result<()> {
    while !database.is_followed(number)? {
        switch.expect_alive()?;
    }
    Ok(())
}

/// The rows as a table.
fn table(rows: &[Row]) -> Table {
    let caption = "Median, least and most of the samples.";
    let table = Table::new(caption)
        .with_words("what")
        .with_words("switch")
        .with_words("unit");
    let numbers = ["ports", "median", "least", "most"];
    let table = numbers.into_iter().fold(table, Table::with_numbers);
    rows.iter().fold(table, |mut table, row| {
        let digits = |value: f64| match value {
            1_000.0.. => format_count(value.round() as u64),
            value => format!("{value:.3}"),
        };
        table.push(vec![
            row.what.to_owned(),
            row.switch.to_owned(),
            row.unit.to_owned(),
            format_count(row.ports.into()),
            digits(row.value.median),
            digits(row.value.min),
            digits(row.value.max),
        ]);
        table
    })
}
