//! `thalweg generate changes`: writes a file of rule changes.

use anyhow::Result;
use clap::ValueEnum;
use serde_json::json;
use thalweg_workload::{ChangeMix, ChangeSource, changes_text};

use super::destination::Destination;
use thalweg_command::console::Console;
use thalweg_command::number::{counted, number};
use thalweg_command::workload::{DEFAULT_SEED, PipelineArguments, refused};

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pipeline: PipelineArguments,
    /// Seed of the pipeline and of the changes
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED, value_parser = number::<u64>(..))]
    seed: u64,
    /// What changes
    #[arg(long, value_enum, default_value_t = Mix::Random)]
    mix: Mix,
    /// Number of changes
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = number::<usize>(..))]
    count: usize,
    /// Packets between two changes, and before the first
    #[arg(long, value_name = "PACKETS", default_value_t = 1_000, value_parser = number::<u64>(..))]
    every: u64,
    #[command(flatten)]
    destination: Destination,
}

/// Kinds of changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Mix {
    /// Routes are removed, and return with another next hop
    RouteFlap,
    /// Access-list rules are added, and later removed
    AclInsert,
    /// Hosts move to other ports
    MacMove,
    /// All of these, sometimes several at once
    Random,
}

/// Writes a changes file.
///
/// # Errors
/// If the pipeline cannot change in that way, or the file cannot be written.
pub(super) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let seed = arguments.seed;
    let pipeline = arguments.pipeline.generate(seed)?;
    let mix = match arguments.mix {
        Mix::RouteFlap => ChangeMix::RouteFlap,
        Mix::AclInsert => ChangeMix::AclInsert,
        Mix::MacMove => ChangeMix::MacMove,
        Mix::Random => ChangeMix::Random,
    };
    let source = ChangeSource::new(&pipeline, mix, seed);
    let source = source.map_err(|error| refused("--mix", &error))?;
    let source = source.every_packets(arguments.every);
    let changes: Vec<_> = source.take(arguments.count).collect();
    let operations: usize = changes.iter().map(|change| change.operations.len()).sum();
    let (name, count, rules) = (&pipeline.name, changes.len(), pipeline.rules.len());
    let text = format!(
        "# changes of the {name} pipeline of {rules} rules, seed {seed}\n{}",
        changes_text(&changes)
    );
    let summary = json!({
        "kind": name,
        "seed": seed,
        "changes": count,
        "operations": operations,
        "every_packets": arguments.every,
    });
    let sentence = format!(
        "{} of {}, seed {seed}",
        counted(count, "change"),
        counted(operations, "rule")
    );
    arguments
        .destination
        .write(&text, &sentence, summary, console)
}
