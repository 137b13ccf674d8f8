//! `thalweg generate pipeline`: writes the rules of a pipeline.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;
use thalweg_workload::{OfdConfig, Pipeline};

use super::destination::Destination;
use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::number::{counted, number};
use thalweg_command::output::write_text;
use thalweg_command::workload::{DEFAULT_SEED, Kind, PipelineArguments, refused};

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pipeline: PipelineArguments,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED, value_parser = number::<u64>(..))]
    seed: u64,
    /// Write the groups to this file, and not in front of the rules, where `ovs-ofctl add-flows`
    /// does not take them; with ofd, flood through groups (ofd and ant only)
    #[arg(long, value_name = "FILE")]
    groups_out: Option<PathBuf>,
    #[command(flatten)]
    destination: Destination,
}

/// Writes the rules, and the groups if requested.
///
/// # Errors
/// If no such pipeline exists, or it cannot be written.
pub(super) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let pipeline = generate(arguments)?;
    if let Some(path) = &arguments.groups_out {
        write_text(path, &pipeline.groups_text())?;
    }
    let (rules, tables) = (pipeline.rules.len(), pipeline.tables.len());
    let (name, seed) = (&pipeline.name, arguments.seed);
    let text = match arguments.groups_out {
        Some(_) => pipeline.rules_text(),
        None => pipeline.text(),
    };
    let text = format!("# {name} pipeline, seed {seed}\n{text}");
    let summary = json!({
        "kind": name,
        "seed": seed,
        "rules": rules,
        "groups": pipeline.groups.len(),
        "tables": pipeline.tables.iter().map(|table| table.id).collect::<Vec<_>>(),
        "traversals": pipeline.templates.len(),
        "ports": pipeline.ports,
        "groups_file": arguments.groups_out.as_ref().map(|path| path.display().to_string()),
    });
    let sentence = format!(
        "{} in {}, seed {seed}",
        counted(rules, "rule"),
        counted(tables, "table")
    );
    arguments
        .destination
        .write(&text, &sentence, summary, console)
}

fn generate(arguments: &Arguments) -> Result<Pipeline> {
    if arguments.groups_out.is_none() || arguments.pipeline.kind == Kind::Ant {
        return arguments.pipeline.generate(arguments.seed);
    }
    if arguments.pipeline.kind != Kind::Ofd {
        let what =
            "--groups-out: only ofd and ant have groups; leave it out, or use --kind ofd or ant";
        return Err(bad_input(what));
    }
    let config = OfdConfig::with_rules(arguments.pipeline.rules, arguments.seed);
    let mut config = config.map_err(|error| refused("--rules", &error))?;
    config.groups = true;
    config
        .generate()
        .map_err(|error| refused("--rules", &error))
}
