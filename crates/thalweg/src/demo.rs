//! `thalweg demo`: shows the switch at work, with nothing to set up.
//!
//! It generates a pipeline and flows through it, and forwards their packets in memory while
//! the rules change. Each maintainer runs twice:
//!
//! 1. The *measured* pass gives times and counts, and compares nothing.
//! 2. The *audited* pass compares every answer with the interpreter's. It takes longer, and
//!    gives the number of stale packets.
//!
//! All passes see the same packets, and the same changes at the same positions. The command
//! fails if a packet is stale or a pass sends other packets than the rest.

mod page;
mod pass;
mod row;
mod scenario;
mod tables;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use serde_json::json;
use thalweg_datapath::MaintainerKind;

use self::row::Row;
use self::scenario::Scenario;
use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::number::number;
use thalweg_command::report::{Unit, format_count};
use thalweg_command::workload::{DEFAULT_SEED, LocalityArguments};

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Seed of everything that is generated
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED, value_parser = number::<u64>(..))]
    seed: u64,
    /// Packets in each pass
    #[arg(long, value_name = "N", default_value_t = 300_000, value_parser = number::<usize>(100..))]
    packets: usize,
    /// Number of flows that the packets belong to
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = number::<usize>(..))]
    flows: usize,
    /// Rules in the pipeline
    #[arg(long, value_name = "N", default_value_t = 4_000, value_parser = number::<usize>(..))]
    rules: usize,
    /// Rule changes while packets pass
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = number::<usize>(..))]
    changes: usize,
    /// Bytes in a packet, at least its headers
    #[arg(long, value_name = "BYTES", default_value_t = 60, value_parser = number::<u16>(..))]
    length: u16,
    #[command(flatten)]
    locality: LocalityArguments,
    /// File of the report; an existing file is replaced
    #[arg(long, value_name = "FILE", default_value = "thalweg-demo.html")]
    report: PathBuf,
    /// Write no report
    #[arg(long, conflicts_with = "report")]
    no_report: bool,
}

/// Commands to try next, and what each shows.
const NEXT_STEPS: [(&str, &str); 6] = [
    (
        "thalweg demo --locality bursts --seed 2",
        "the same with flows that come and go",
    ),
    (
        "thalweg generate pipeline --rules 4000 -o my.rules",
        "such rules as a file, in ovs-ofctl syntax",
    ),
    (
        "thalweg trace --rules my.rules in_port=1,dl_dst=02:ff:ff:00:00:01,ip,nw_dst=10.1.2.3",
        "what happens to one packet, table by table",
    ),
    (
        "thalweg generate traffic --rules 4000 --in-port 1 -o my.pcap",
        "packets that these rules are about; a capture of your own does as well",
    ),
    (
        "thalweg replay --rules my.rules --pcap my.pcap --out out/",
        "the packets through the switch, every answer audited",
    ),
    (
        "thalweg bench forward",
        "the cost of a packet, with spreads, by what the caches know of it",
    ),
];

/// Runs the demonstration.
///
/// # Errors
/// If no workload of the requested sizes exists, the report cannot be written, or a packet was
/// not forwarded as the rules say.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let report = (!arguments.no_report).then_some(arguments.report.as_path());
    report.map(check_folder).transpose()?;
    let passes = 2 * MaintainerKind::STRICT.len() as u64;
    let progress = console.progress(passes * arguments.packets as u64);
    progress.set_message("generating rules, flows and packets");
    let scenario = Scenario::generate(arguments)?;
    let mut rows = Vec::new();
    for kind in MaintainerKind::STRICT {
        progress.set_message(format!("{}: measured pass", kind.name()));
        let measured = pass::run(&scenario, kind, false, &progress)?;
        progress.set_message(format!("{}: audited pass", kind.name()));
        let audited = pass::run(&scenario, kind, true, &progress)?;
        rows.push(Row {
            kind,
            measured,
            audited,
        });
    }
    progress.finish_and_clear();
    if let Some(path) = report {
        page::page(&scenario, &rows)?.write(path)?;
    }
    print(&scenario, &rows, report, console)?;
    print_json(&scenario, &rows, report, console)?;
    let (_, stale) = audited(&rows);
    ensure!(
        stale == 0,
        "{stale} packets were forwarded otherwise than the rules say"
    );
    ensure!(
        has_same_outputs(&rows),
        "the passes did not send the same packets"
    );
    Ok(())
}

fn print(
    scenario: &Scenario,
    rows: &[Row],
    report: Option<&Path>,
    console: &Console,
) -> Result<()> {
    console.headline("Thalweg: caches that are never stale")?;
    console.print(&format!("{}\n", setting_sentence(scenario)))?;
    let titled = [
        ("Maintainers", tables::summary(rows)),
        ("Over time", tables::timeline(scenario, rows)),
        ("Drops", tables::drops(rows)),
    ];
    for (title, table) in titled {
        console.headline(title)?;
        console.print(table.caption())?;
        console.print(&format!("{}\n", table.to_text()))?;
    }
    console.print(&format!("{}\n", audit_sentence(rows)))?;
    if let Some(path) = report {
        let place = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        console.print(&format!("The report, with pictures: {}\n", place.display()))?;
    }
    console.headline("Where to look next")?;
    for (command, what) in NEXT_STEPS {
        console.print(&format!("  {command}\n      {what}"))?;
    }
    Ok(())
}

fn print_json(
    scenario: &Scenario,
    rows: &[Row],
    report: Option<&Path>,
    console: &Console,
) -> Result<()> {
    let (checked, stale) = audited(rows);
    console.print_json(&json!({
        "seed": scenario.seed,
        "packets": scenario.sequence.len(),
        "flows": scenario.flows.len(),
        "flows_seen": scenario.flows_seen,
        "tables": scenario.table_count,
        "rules": scenario.rule_count,
        "changes": scenario.changes.len(),
        "audited_packets": checked,
        "stale_packets": stale,
        "same_outputs": has_same_outputs(rows),
        "rows": rows.iter().map(Row::to_json).collect::<Vec<_>>(),
        "report": report.map(|path| path.display().to_string()),
    }))
}

/// Describes the workload and the pipeline.
fn setting_sentence(scenario: &Scenario) -> String {
    let count = |count: usize| format_count(count as u64);
    format!(
        "{} packets of {} flows ({} sent any), through {} rules in {} tables; the rules change \
         {} times in between. Everything comes from seed {}.",
        count(scenario.sequence.len()),
        count(scenario.flows.len()),
        count(scenario.flows_seen),
        count(scenario.rule_count),
        scenario.table_count,
        scenario.changes.len(),
        scenario.seed,
    )
}

/// Describes the result of the comparison with the interpreter.
fn audit_sentence(rows: &[Row]) -> String {
    let (checked, stale) = audited(rows);
    let share = Unit::Share.format(stale as f64 / checked.max(1) as f64);
    let outputs = if has_same_outputs(rows) {
        "All passes sent the same number of packets to each port."
    } else {
        "The passes did NOT send the same number of packets to each port."
    };
    format!(
        "Stale packets: {} of {} ({share}). The tables' times and counts are of passes that \
         compare nothing; in a second pass of each maintainer every packet's answer was compared \
         with the interpreter's at that moment. {outputs}",
        format_count(stale),
        format_count(checked),
    )
}

/// Packets compared, and those that differed, over all maintainers.
fn audited(rows: &[Row]) -> (u64, u64) {
    let audits = rows.iter().map(Row::audit);
    audits.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

fn has_same_outputs(rows: &[Row]) -> bool {
    let passes = rows.iter().flat_map(|row| [&row.measured, &row.audited]);
    let mut outputs = passes.map(|pass| &pass.sent);
    let first = outputs.next();
    outputs.all(|other| Some(other) == first)
}

/// Fails early if the report's folder is missing.
fn check_folder(report: &Path) -> Result<()> {
    let folder = report
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if folder.is_dir() && !report.is_dir() {
        return Ok(());
    }
    let what = if report.is_dir() {
        "is a folder"
    } else {
        "is in no existing folder"
    };
    let path = report.display();
    Err(bad_input(format!(
        "--report: {path} {what}; name a file in a folder that exists, or use --no-report"
    )))
}
