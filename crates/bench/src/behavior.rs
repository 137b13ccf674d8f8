//! `thalweg bench behavior`: measures gains and costs of remembering behaviours, as B-Cache's
//! Figures 9 and 10 do.
//!
//! Figure 9: the four cases, each without a cache, and with the caches of behaviours and of
//! traversals. With a cache, a packet is looked up and counted without being recorded (`miss`)
//! or always found (`hit`). Or it is recorded and installed, with room for it (`record`) or in
//! place of another (`replace`). Times are processor time of one thread, for packets of 60
//! bytes (64 on a wire) through memory. Recorded packets have separate routes in ingress but
//! leave alike, so egress finds them; egress makes half of the lookups.
//!
//! The same, on a miss and on a hit, for the program form (`thalweg p4 cache`), run by our
//! engine. A fifth case is measured if the folder has it. Its behaviours are stateful: a heavy
//! flow in a count-min sketch.
//!
//! Figure 10, on case 1: the delay from a report to its installation, by report rate, and the
//! delay of a change, by affected behaviours. Both are wall-clock times. Unlike in the paper,
//! no messages pass between detector, manager and table here.
//!
//! The paper's own figures are rows marked as quoted; they are from another machine and
//! switch. So is simple_switch's, unless `--peer` gives its measurements on this machine.

mod case;
mod cases;
mod control;
mod peer;
mod plot;
mod program;

use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use self::case::Case;
use self::cases::Row;
use self::control::{BarrierRow, ReportRow};
use self::peer::{Against, PeerRow};
use super::picture;
use thalweg_command::console::Console;
use thalweg_command::number::number;
use thalweg_command::report::Table;

/// The command's arguments.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Folder with the four programs and their entries: `NAME_1.json` and `NAME_1.cmds` to `_4`
    #[arg(long, value_name = "FOLDER", default_value = "examples/p4")]
    programs: PathBuf,
    /// Packets in each sample
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = number::<u64>(1..))]
    packets: u64,
    /// Samples of each row
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number::<usize>(1..))]
    samples: usize,
    /// Repetitions of each report and each change
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = number::<usize>(1..))]
    repetitions: usize,
    /// Behaviours that are remembered when entries change
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = number::<usize>(1..=65_536))]
    behaviors: usize,
    /// Measurements of simple_switch on this machine, from
    /// `bench/peers/simple_switch.py --cases`
    #[arg(long, value_name = "FILE")]
    peer: Option<PathBuf>,
    /// Write the packets as captures to an existing folder, and measure nothing; that script
    /// reads them
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["peer", "plot"])]
    write_inputs: Option<PathBuf>,
    /// Draw pictures: one as .svg, or all with the tables as .html
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// The paper's figures for case 4 (Figure 9 and section V).
#[derive(Serialize, Clone, Copy)]
struct Quoted {
    target: &'static str,
    throughput_percent: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_percent: Option<f64>,
}

const QUOTED: [Quoted; 3] = [
    Quoted {
        target: "BMv2",
        throughput_percent: 200.0,
        delay_percent: Some(-49.0),
    },
    Quoted {
        target: "DPDK",
        throughput_percent: 125.8,
        delay_percent: Some(-22.2),
    },
    Quoted {
        target: "SmartNIC",
        throughput_percent: 60.0,
        delay_percent: None,
    },
];

/// The paper's bound for a miss in case 4: delay and throughput change by at most this.
const QUOTED_MISS_PERCENT: f64 = 3.1;

/// The command's output with `--json`.
#[derive(Serialize)]
struct Report {
    command: &'static str,
    packets: u64,
    samples: usize,
    rows: Vec<Row>,
    manager: Vec<ReportRow>,
    barrier: Vec<BarrierRow>,
    quoted: [Quoted; 3],
    quoted_miss_percent: f64,
    simple_switch: Vec<PeerRow>,
    against_simple_switch: Vec<Against>,
}

/// Measures and prints.
///
/// # Errors
/// If a program cannot be read, or the result cannot be written.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    if let Some(path) = &arguments.plot {
        picture::check(path)?;
    }
    let cases = case::load(&arguments.programs)?;
    if let Some(folder) = &arguments.write_inputs {
        return peer::write_inputs(&cases, arguments.packets, folder);
    }
    let peers = peer::rows(arguments.peer.as_deref())?;
    let mut rows = Vec::new();
    for case in &cases {
        rows.extend(cases::measure(case, arguments.packets, arguments.samples)?);
    }
    let first: &Case = &cases[0];
    let manager = control::manager(first, arguments.repetitions)?;
    let barrier = control::barrier(first, arguments.behaviors, arguments.repetitions)?;
    let against = peer::against(&rows, &peers);
    let tables = [
        cases_table(&rows, &peers),
        peer::table(&against),
        manager_table(&manager),
        barrier_table(&barrier),
    ];
    for table in &tables {
        console.headline(table.caption())?;
        console.print(&table.to_text())?;
    }
    if let Some(path) = &arguments.plot {
        let pictures = plot::pictures(&rows, &manager, &barrier);
        let setting = format!(
            "{} packets a sample, {} samples, one thread.",
            arguments.packets, arguments.samples
        );
        let all: Vec<&Table> = tables.iter().collect();
        picture::write(path, "Behaviours remembered", &setting, &pictures, &all)?;
    }
    console.print_json(&Report {
        command: "bench behavior",
        packets: arguments.packets,
        samples: arguments.samples,
        rows,
        manager,
        barrier,
        quoted: QUOTED,
        quoted_miss_percent: QUOTED_MISS_PERCENT,
        simple_switch: peers,
        against_simple_switch: against,
    })
}

fn percent(number: f64) -> String {
    format!("{number:+.1} %")
}

fn cases_table(rows: &[Row], peers: &[PeerRow]) -> Table {
    let mut table = Table::new("Cost of a packet, processor time (figure 9)")
        .with_words("case")
        .with_words("cache")
        .with_words("each packet")
        .with_numbers("ns/packet")
        .with_numbers("min")
        .with_numbers("max")
        .with_numbers("Mpps")
        .with_numbers("delay")
        .with_numbers("throughput")
        .with_numbers("hits");
    for row in rows {
        let off = rows
            .iter()
            .find(|other| other.case == row.case && other.cache == "off");
        let off = off.map_or(row.ns_per_packet.median, |off| off.ns_per_packet.median);
        let ns = row.ns_per_packet;
        table.push(vec![
            row.case.clone(),
            row.cache.to_owned(),
            if row.cache == "off" { "–" } else { row.what }.to_owned(),
            format!("{:.0}", ns.median),
            format!("{:.0}", ns.min),
            format!("{:.0}", ns.max),
            format!("{:.2}", row.packets_per_second / 1e6),
            percent((ns.median / off - 1.0) * 100.0),
            percent((off / ns.median - 1.0) * 100.0),
            format!("{:.0} %", row.hits_percent),
        ]);
    }
    let quoted = |what: String, delay: String, throughput: String| {
        let mut cells = vec![what, "behavior".to_owned(), "hit".to_owned()];
        cells.extend(std::iter::repeat_n("–".to_owned(), 4));
        cells.extend([delay, throughput, "–".to_owned()]);
        cells
    };
    for one in QUOTED {
        let delay = one.delay_percent.map_or("–".to_owned(), percent);
        let what = format!("4, {}, quoted from the paper", one.target);
        table.push(quoted(what, delay, percent(one.throughput_percent)));
    }
    for peer in peers {
        let quoted = if peer.is_quoted { ", quoted" } else { "" };
        let ns = peer.ns_per_packet;
        let mut cells = vec![
            format!("{}, simple_switch{quoted}", peer.case),
            "off".to_owned(),
            "–".to_owned(),
        ];
        cells.extend([ns.median, ns.min, ns.max].map(|ns| format!("{ns:.0}")));
        cells.push(format!("{:.3}", 1e3 / ns.median));
        cells.extend(std::iter::repeat_n("–".to_owned(), 3));
        table.push(cells);
    }
    table
}

fn manager_table(rows: &[ReportRow]) -> Table {
    let mut table = Table::new("From a report to its installation (figure 10 a)")
        .with_words("reports a second")
        .with_numbers("µs, median")
        .with_numbers("min")
        .with_numbers("max");
    for row in rows {
        let us = row.delay_us;
        table.push(vec![
            row.reports_per_second.to_string(),
            format!("{:.2}", us.median),
            format!("{:.2}", us.min),
            format!("{:.2}", us.max),
        ]);
    }
    let empty = "–".to_owned();
    table.push(vec![
        "1000, quoted from the paper".to_owned(),
        "200".to_owned(),
        empty.clone(),
        empty,
    ]);
    table
}

fn barrier_table(rows: &[BarrierRow]) -> Table {
    let mut table = Table::new("From a change to its acknowledgement (figure 10 b)")
        .with_words("affected behaviours")
        .with_numbers("of")
        .with_numbers("µs, median")
        .with_numbers("min")
        .with_numbers("max");
    for row in rows {
        let us = row.delay_us;
        table.push(vec![
            row.affected.to_string(),
            row.behaviors.to_string(),
            format!("{:.1}", us.median),
            format!("{:.1}", us.min),
            format!("{:.1}", us.max),
        ]);
    }
    let empty = "–".to_owned();
    table.push(vec![
        "10000, quoted from the paper".to_owned(),
        "10000".to_owned(),
        "200000".to_owned(),
        empty.clone(),
        empty,
    ]);
    table
}
