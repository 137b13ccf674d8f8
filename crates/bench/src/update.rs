//! `thalweg bench update`: measures the cost of a rule change, by maintainer and cache size.
//!
//! The cache is filled by flows through a generated pipeline ([`filling`]). Then rules are
//! changed, drawn from those that packets have met ([`changes`]). Each change is timed from
//! its submission until no packet can be answered by an older version, in processor time. Some
//! packets are forwarded between two changes, and each is compared with the interpreter.
//!
//! Changing a rule that many entries met costs more than one that few met, for every
//! maintainer. So rows are classified by the number of affected entries. At equal numbers, a
//! maintainer that does not examine the other entries takes the same time in small and large
//! caches. Further rows are by kind of change. `--affected` changes only rules that a given
//! number of flows have met; then a change also leaves the same in the processor's caches at
//! all sizes. These rules are chosen while the cache is small, and no more flows meet them
//! from then on ([`kept`]). With `--cold`, the processor's caches are empty when a change
//! begins ([`cold`]).
//!
//! Three studies use the same parts ([`studies`]): the figure and the table of the KAIRO
//! poster, and the cost by pipeline depth. Two more find where searches for affected entries
//! cost as much as a sweep ([`crossover`]), and as much as a scan of what entries depend on
//! ([`scan`]). Peers are rows beside ours ([`peer`]).

mod cache;
mod changes;
mod cold;
mod crossover;
mod filling;
mod kept;
mod peer;
mod plot;
mod row;
mod scan;
mod studies;
mod sustained;

use std::path::PathBuf;

use anyhow::Result;
use indicatif::ProgressBar;
use serde::Serialize;
use thalweg_datapath::{MaintainerKind, MegaflowClassifier};
use thalweg_workload::Pipeline;

use self::cache::{Caches, Effort, FilledCache, UPDATES_MIN};
use self::changes::{Kind, Mix};
use self::row::Row;
use self::sustained::{Sustained, Wanted};
use super::picture;
use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::number::number;
use thalweg_command::workload::{DEFAULT_SEED, PipelineArguments};

/// The command's arguments.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    pipeline: PipelineArguments,
    /// Entries in the cache, one row each [default: 10000,100000]
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        value_parser = number::<usize>(32..=100_000_000)
    )]
    entries: Vec<usize>,
    /// Maintainers [default: incremental,barrier,revalidate]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    maintainer: Vec<String>,
    /// Kinds of changes, drawn evenly
    #[arg(
        long,
        value_name = "KIND,...",
        value_delimiter = ',',
        value_enum,
        default_values_t = [Kind::Insert, Kind::Delete, Kind::Modify]
    )]
    change: Vec<Kind>,
    /// Operations in each change, which takes effect as a whole
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<usize>(1..=10_000))]
    bundle: usize,
    /// Approximate numbers of entries that changes affect, one row each [default: changes of
    /// any rules that packets have met]
    #[arg(
        long, value_name = "N,...", value_delimiter = ',',
        value_parser = number::<u64>(..=1_000_000), conflicts_with = "study"
    )]
    affected: Vec<u64>,
    /// Changes for each row
    #[arg(
        long, value_name = "N", default_value_t = 2_000,
        value_parser = number::<usize>(UPDATES_MIN as u64..)
    )]
    updates: usize,
    /// Processor time after which a row ends [default: 20; 5 in the studies]
    #[arg(long, value_name = "SECONDS", value_parser = number::<u64>(..))]
    seconds: Option<u64>,
    /// Packets forwarded after each change, and compared with the interpreter
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = number::<usize>(..))]
    packets: usize,
    /// Empty the processor's caches before each change, so that times do not depend on how
    /// much of them forwarding has used
    #[arg(long, conflicts_with = "study")]
    cold: bool,
    /// How the wildcard cache searches entries: auto, tuple-space, bloom, learned [default:
    /// auto]
    #[arg(long, value_name = "NAME")]
    megaflow_classifier: Option<String>,
    /// Bits that repairs may add to a mask before all tables are searched again
    #[arg(long, value_name = "N", value_parser = number::<u32>(..))]
    mask_growth: Option<u32>,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED, value_parser = number::<u64>(..))]
    seed: u64,
    /// Rows of a peer, as written by bench/peers/ovs_revalidate.py or `cargo xtask dbsp`
    #[arg(long, value_name = "FILE")]
    peer: Vec<PathBuf>,
    /// Draw the time to update against the cache size: a picture (.svg) or a page (.html)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Figure 2 of the KAIRO poster: hits, misses and time to update by cache size
    #[arg(long, value_name = "2", value_parser = number::<u8>(2..=2), group = "study")]
    figure: Option<u8>,
    /// Table 1 of the KAIRO poster: time to update by scheme and size
    #[arg(long, value_name = "1", value_parser = number::<u8>(1..=1), group = "study")]
    table: Option<u8>,
    /// Time to update by the depth of the pipeline, and by the number of ways through it
    #[arg(long, group = "study")]
    depth: bool,
    /// Time until every entry is right after many new rules, by a search for each rule and by
    /// a sweep over all entries. Also the time of such a search by prefix, and by a scan
    #[arg(long, group = "study")]
    crossover: bool,
    /// Updates per second, in bundles, of rules that few entries met, while a worker of a
    /// running switch forwards as fast as it can
    #[arg(
        long, value_name = "N", group = "study", value_parser = number::<u64>(1..=100_000_000)
    )]
    rate: Option<u64>,
    /// Unique flows of the figure [default: 100000; with --full 1000000]
    #[arg(
        long, value_name = "N", requires = "figure",
        conflicts_with_all = ["table", "depth", "crossover", "rate"],
        value_parser = number::<usize>(100..=100_000_000)
    )]
    flows: Option<usize>,
    /// Use the poster's sizes, which take many minutes, instead of a tenth
    #[arg(long, requires = "study")]
    full: bool,
}

/// The command's output with `--json`.
#[derive(Serialize, Debug)]
struct Report {
    command: &'static str,
    seed: u64,
    pipeline: String,
    rules: usize,
    rows: Vec<Row>,
}

/// Measures and prints.
///
/// # Errors
/// If an argument makes no sense, a file cannot be read or written, or the result cannot be
/// printed.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    // Mistakes are reported before minutes of measuring.
    let peers = peer::read(&arguments.peer)?;
    arguments.maintainers(&[])?;
    arguments.caches()?;
    if let Some(path) = &arguments.plot {
        picture::check(path)?;
    }
    match arguments {
        Arguments {
            figure: Some(_), ..
        } => studies::figure_2(arguments, peers, console),
        Arguments { table: Some(_), .. } => studies::table_1(arguments, peers, console),
        Arguments { depth: true, .. } => studies::depth(arguments, console),
        Arguments {
            crossover: true, ..
        } => crossover::execute(arguments, console),
        Arguments {
            rate: Some(rate), ..
        } => print_sustained(arguments, *rate, console),
        _ => print_rows(arguments, peers, console),
    }
}

fn print_rows(arguments: &Arguments, peers: Vec<Row>, console: &Console) -> Result<()> {
    let kinds = arguments.maintainers(&[
        MaintainerKind::Incremental,
        MaintainerKind::Barrier,
        MaintainerKind::Revalidate,
    ])?;
    let pipeline = arguments.pipeline.generate(arguments.seed)?;
    let sizes = arguments.entries(&[10_000, 100_000]);
    let mut rows = measure(arguments, &pipeline, &sizes, &kinds, console)?;
    rows.extend(peers);
    let title = "Time from a change to the last old answer, processor time";
    let table = row::table(&rows);
    if let Some(path) = &arguments.plot {
        let setting = setting(arguments, &pipeline);
        picture::write(path, title, &setting, &plot::times(&rows), &[&table])?;
    }
    console.headline(title)?;
    console.print(&table.to_text())?;
    console.print_json(&Report {
        command: "bench update",
        seed: arguments.seed,
        pipeline: pipeline.name,
        rules: pipeline.rules.len(),
        rows,
    })
}

/// The command's output with `--rate` and `--json`.
#[derive(Serialize, Debug)]
struct RateReport {
    command: &'static str,
    seed: u64,
    pipeline: String,
    rules: usize,
    rows: Vec<Sustained>,
}

fn print_sustained(arguments: &Arguments, rate: u64, console: &Console) -> Result<()> {
    let kinds = arguments.maintainers(&[MaintainerKind::Incremental])?;
    let pipeline = arguments.pipeline.generate(arguments.seed)?;
    let sizes = arguments.entries(&[100_000]);
    let mut table = sustained::table();
    let mut rows = Vec::new();
    for entries in sizes {
        for kind in &kinds {
            let wanted = Wanted {
                entries,
                kind: *kind,
                caches: arguments.caches()?,
                rate,
                bundle: arguments.bundle,
                seconds: arguments.seconds.unwrap_or(2),
                seed: arguments.seed,
            };
            let row = sustained::measure(&pipeline, &wanted)?;
            row.push_to(&mut table);
            rows.push(row);
        }
    }
    console.headline("Updates at a rate, and what the worker still forwards")?;
    console.print(&table.to_text())?;
    console.print_json(&RateReport {
        command: "bench update",
        seed: arguments.seed,
        pipeline: pipeline.name,
        rules: pipeline.rules.len(),
        rows,
    })
}

/// Measures the rows of every size and maintainer.
fn measure(
    arguments: &Arguments,
    pipeline: &Pipeline,
    sizes: &[usize],
    kinds: &[MaintainerKind],
    console: &Console,
) -> Result<Vec<Row>> {
    let effort = arguments.effort()?;
    let streams = effort.affected.len().max(1);
    let progress = progress(
        console,
        sizes.len() * kinds.len() * streams * effort.updates,
    );
    let mut rows = Vec::new();
    for entries in sizes {
        for kind in kinds {
            progress.set_message(format!("{}, {entries} entries", kind.name()));
            let mut cache = FilledCache::new(pipeline, *kind, *entries, &effort)?;
            rows.extend(cache.measure(&effort, &progress)?);
        }
    }
    progress.finish_and_clear();
    Ok(rows)
}

fn progress(console: &Console, steps: usize) -> ProgressBar {
    console.progress(steps as u64)
}

/// Describes the measurement in one sentence.
fn setting(arguments: &Arguments, pipeline: &Pipeline) -> String {
    let kinds: Vec<&str> = arguments.change.iter().map(|kind| kind.name()).collect();
    let what = match arguments.bundle {
        1 => "of one operation".to_owned(),
        many => format!("of {many} operations"),
    };
    format!(
        "Pipeline {} with {} rules in {} tables; changes {what} ({}) to rules that packets have \
         met; seed {}. A time is from the submission of a change until no packet can be answered \
         by an older version, in processor time.",
        pipeline.name,
        pipeline.rules.len(),
        pipeline.tables.len(),
        kinds.join(", "),
        arguments.seed
    )
}

impl Arguments {
    fn is_study(&self) -> bool {
        self.figure.is_some() || self.table.is_some() || self.depth
    }

    fn maintainers(&self, default: &[MaintainerKind]) -> Result<Vec<MaintainerKind>> {
        let kinds = self.maintainer.iter().map(|name| {
            let kind = name.parse::<MaintainerKind>();
            kind.map_err(|error| bad_input(format!("--maintainer: {error}")))
        });
        let kinds: Vec<MaintainerKind> = kinds.collect::<Result<_>>()?;
        Ok(if kinds.is_empty() {
            default.to_vec()
        } else {
            kinds
        })
    }

    fn entries(&self, default: &[usize]) -> Vec<usize> {
        if self.entries.is_empty() {
            return default.to_vec();
        }
        self.entries.clone()
    }

    fn caches(&self) -> Result<Caches> {
        let classifier = self.megaflow_classifier.as_ref().map(|name| {
            let kind = name.parse::<MegaflowClassifier>();
            kind.map_err(|error| bad_input(format!("--megaflow-classifier: {error}")))
        });
        Ok(Caches {
            classifier: classifier.transpose()?,
            mask_growth: self.mask_growth,
        })
    }

    fn effort(&self) -> Result<Effort> {
        let seconds = if self.is_study() { 5 } else { 20 };
        Ok(Effort {
            updates: self.updates,
            seconds: self.seconds.unwrap_or(seconds),
            packets: self.packets,
            mix: Mix {
                kinds: self.change.clone(),
                bundle: self.bundle,
            },
            affected: self.affected.clone(),
            is_cold: self.cold,
            caches: self.caches()?,
            sweep_at: None,
            scan_share: None,
            takes_fewer: self.depth,
            seed: self.seed,
        })
    }
}
