//! `thalweg simulate`: runs plans of a data-centre network, and makes tables and figures.
//!
//! ```text
//!   plan ---> runs ---> [ledger: done before?] ---> threads, a run each ---> rows, in order
//!                                                       '---> ledger, as each ends
//!   rows ---> text, JSON, Parquet, a page
//! ```
//!
//! Placing memory by miss-ratio curves (`placing.rs`) takes a separate run before the one that
//! gives the row.
//!
//! 1. Runs are independent: a result depends on the configuration, traffic and seed, never on
//!    threads, shards, or earlier runs.
//! 2. Rows are in the order of the plan, in whichever order the runs end.
//! 3. A row in the ledger was made by this very program from the same configuration and
//!    traffic (`ledger.rs`). So a stopped command continues, with the same figures.

mod capture;
mod figures;
mod files;
mod hash;
mod ledger;
mod page;
mod parquet;
mod placing;
mod pool;
mod row;
mod runs;
mod tables;
mod way;

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;
use thalweg_config::Plan;

use self::files::Traffic;
use self::ledger::Ledger;
use self::pool::Outcome;
use self::runs::Run;
use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::number::number;

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The plan: its fabrics, traffic and schemes
    #[arg(value_name = "PLAN.toml")]
    plan: PathBuf,
    /// Folder of traces and placements that are not where the plan says
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Runs at a time [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = number::<usize>(1..=1024))]
    jobs: Option<usize>,
    /// Do only the I-th of N parts of the runs, counted from 0 or from 1
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<Shard>,
    /// Folder of finished runs [default: named after the plan]
    #[arg(long, value_name = "FOLDER", conflicts_with = "no_ledger")]
    ledger: Option<PathBuf>,
    /// Keep no runs, and use none that were kept
    #[arg(long)]
    no_ledger: bool,
    /// The page [default: named after the plan]; an existing file is replaced
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write no page
    #[arg(long, conflicts_with = "report")]
    no_report: bool,
    /// Write the rows as Parquet; an existing file is replaced
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Explain one packet's way, hop by hop, in each run, instead of figures. Packets of a
    /// flow are counted from 0, those of both ends of a connection together
    #[arg(long, value_name = "FLOW[:NUMBER]", value_parser = way::packet)]
    trace_packet: Option<way::PacketId>,
    /// Write packets on links as pcap, one file per run, instead of figures: all links of a
    /// node, such as server-17 or tor-3, or one link, such as tor-3:spine-1; may be given
    /// several times
    #[arg(long, value_name = "NODE[:NODE]", conflicts_with = "trace_packet")]
    capture: Vec<capture::Place>,
    /// Folder of captures [default: named after the plan]; existing files are replaced
    #[arg(
        long,
        value_name = "FOLDER",
        requires = "capture",
        conflicts_with = "trace_packet"
    )]
    capture_folder: Option<PathBuf>,
}

/// A part of the runs: those with this remainder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    fn has(self, run: usize) -> bool {
        run % self.count == self.index % self.count
    }
}

fn shard(text: &str) -> Result<Shard, String> {
    let parts = text.split_once('/');
    let numbers = parts.and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match numbers {
        Some((index, count)) if count > 0 && index <= count => Ok(Shard { index, count }),
        _ => Err("give two whole numbers, such as 1/4, the first not above the second".to_owned()),
    }
}

/// Runs a plan.
///
/// # Errors
/// If the plan or its files cannot be read or used, a run's caches are larger than memory, or
/// a result cannot be written.
pub fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let plan = Plan::read(&arguments.plan).map_err(bad_input)?;
    let report = report_path(arguments);
    check_folders(
        report
            .as_deref()
            .into_iter()
            .chain(arguments.parquet.as_deref()),
    )?;
    let traffic = Traffic::read(&plan, arguments.data.as_deref())?;
    let all = runs::runs_of(&plan, &traffic, &arguments.plan)?;
    let chosen: Vec<&Run> = all
        .iter()
        .enumerate()
        .filter(|(index, _)| arguments.shard.is_none_or(|shard| shard.has(*index)))
        .map(|(_, run)| run)
        .collect();
    let jobs = arguments
        .jobs
        .unwrap_or_else(processors)
        .min(chosen.len().max(1));
    runs::check_memory(&chosen, jobs, &arguments.plan)?;
    if let Some(packet) = arguments.trace_packet {
        return way::explain(packet, &chosen, &traffic, console);
    }
    if !arguments.capture.is_empty() {
        let named = || capture::folder_of(&stem(&arguments.plan));
        let folder = arguments.capture_folder.clone().unwrap_or_else(named);
        return capture::capture(&arguments.capture, &folder, &chosen, &traffic, console);
    }
    let ledger = ledger_of(arguments)?;
    let outcome = pool::run_all(&chosen, &traffic, jobs, ledger.as_ref(), console)?;
    let Outcome { rows, kept, .. } = &outcome;
    if let Some(path) = &report {
        page::page(&title(&arguments.plan), &plan, rows)?.write(path)?;
    }
    if let Some(path) = &arguments.parquet {
        parquet::write(path, rows)?;
    }
    print(&plan, &outcome, report.as_deref(), console)?;
    console.print_json(&json!({
        "plan": arguments.plan.display().to_string(),
        "runs": all.len(),
        "from_ledger": kept,
        "damaged_in_ledger": outcome.damaged.len(),
        "rows": rows,
        "report": report.map(|path| path.display().to_string()),
    }))
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A plan's file name, without folder and extension.
fn stem(plan: &Path) -> String {
    let stem = plan.file_stem().unwrap_or(plan.as_os_str());
    stem.to_string_lossy().into_owned()
}

fn title(plan: &Path) -> String {
    format!("Thalweg: {}", stem(plan))
}

/// The page's path; part of a plan has no page, unless one is requested.
fn report_path(arguments: &Arguments) -> Option<PathBuf> {
    if arguments.no_report || arguments.shard.is_some() && arguments.report.is_none() {
        return None;
    }
    let named = || PathBuf::from(format!("{}.html", stem(&arguments.plan)));
    Some(arguments.report.clone().unwrap_or_else(named))
}

fn ledger_of(arguments: &Arguments) -> Result<Option<Ledger>> {
    if arguments.no_ledger {
        return Ok(None);
    }
    let named = || PathBuf::from(format!("{}.ledger", stem(&arguments.plan)));
    let folder = arguments.ledger.clone().unwrap_or_else(named);
    Ledger::open(folder).map(Some)
}

/// Fails early if the folder of a result is missing.
fn check_folders<'a>(paths: impl Iterator<Item = &'a Path>) -> Result<()> {
    for path in paths {
        let folder = path.parent();
        let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
        if !folder.is_none_or(Path::is_dir) || path.is_dir() {
            let path = path.display();
            return Err(bad_input(format!(
                "{path} is no file in a folder that exists; make the folder, or name another"
            )));
        }
    }
    Ok(())
}

fn print(plan: &Plan, outcome: &Outcome, report: Option<&Path>, console: &Console) -> Result<()> {
    let (rows, kept) = (&outcome.rows, outcome.kept);
    for table in tables::all(plan, rows) {
        console.headline(table.caption())?;
        console.print(&format!("{}\n", table.to_text()))?;
    }
    if kept > 0 {
        let of = rows.len();
        console.print(&format!("{kept} of {of} runs were done before.\n"))?;
    }
    for path in &outcome.damaged {
        let path = path.display();
        console.print(&format!("{path} was damaged; its run was done again.\n"))?;
    }
    if let Some(path) = report {
        let place = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        console.print(&format!("The page, with pictures: {}", place.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_part_the_runs_whether_counted_from_0_or_from_1() {
        let parts = |texts: [&str; 3]| {
            let shards = texts.map(|text| shard(text).expect("two numbers"));
            let owners = (0..10).map(move |run| shards.iter().filter(|one| one.has(run)).count());
            owners.collect::<Vec<_>>()
        };
        assert_eq!(parts(["0/3", "1/3", "2/3"]), [1; 10]);
        assert_eq!(parts(["1/3", "2/3", "3/3"]), [1; 10]);
        for text in ["", "1", "4/3", "1/0", "-1/3", "a/b", "1/2/3"] {
            assert!(shard(text).is_err(), "{text}");
        }
    }
}
