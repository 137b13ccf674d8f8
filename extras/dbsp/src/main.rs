//! Measures this maintainer's cost for a change of one rule, as `thalweg bench update` does
//! for others.
//!
//! Packets of flows through a generated pipeline are recorded. Then single rules are changed,
//! drawn from those that the packets have met: one is deleted, restored, or gets the actions
//! of another that leads to the same table. The time runs from the delta that the pipeline has
//! published until the answers are correct again: rows, transaction, and the update of the
//! view. The pipeline's own work is excluded.
//!
//! The circuit has its own thread and others that merge stored rows, so the time is the
//! processor time of all threads; wall-clock time is beside it. The first row of every size is
//! the baseline: the interpreter answers every packet again, on one thread.
//!
//! A row also has the cost of a new packet (traversals are data), and of rebuilding the
//! circuit (for a walk of more lookups than there are steps). At the end all answers are
//! compared with the interpreter's.

mod bench;
mod clock;

use anyhow::Result;
use clap::Parser;
use clap::ValueEnum;
use thalweg_workload::PipelineKind;

/// Arguments of the program.
#[derive(Parser, Debug)]
#[command(about = "Time to update of a view of recorded packets, kept by DBSP")]
struct Arguments {
    /// The pipeline
    #[arg(long, value_enum, default_value_t = Kind::Ofd)]
    pipeline: Kind,
    /// Rules in the pipeline
    #[arg(long, value_name = "N", default_value_t = 12_000)]
    rules: usize,
    /// Recorded packets, one row each
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [10_000, 100_000])]
    entries: Vec<usize>,
    /// Changes for each row
    #[arg(long, value_name = "N", default_value_t = 500)]
    updates: usize,
    /// Most lookups of a walk
    #[arg(long, value_name = "N", default_value_t = 7)]
    steps: usize,
    /// Seed of pipeline, flows and changes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print only one JSON object
    #[arg(long)]
    json: bool,
}

/// The kind of pipeline.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum Kind {
    /// Cord's OF-DPA
    Ofd,
    /// The L2L3-ACL pipeline of PISCES
    Psc,
    /// Antrea's, of which the circuit refuses a part by name
    Ant,
}

impl From<Kind> for PipelineKind {
    fn from(kind: Kind) -> PipelineKind {
        match kind {
            Kind::Ofd => PipelineKind::Ofd,
            Kind::Psc => PipelineKind::Psc,
            Kind::Ant => PipelineKind::Ant,
        }
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let kind = PipelineKind::from(arguments.pipeline);
    let generated = kind.generate(arguments.rules, arguments.seed)?;
    let mut rows = Vec::new();
    for entries in &arguments.entries {
        let config = bench::Config {
            entries: *entries,
            updates: arguments.updates,
            steps: arguments.steps,
            seed: arguments.seed,
        };
        let of_size = bench::measure(&generated, &config)?;
        if !arguments.json {
            of_size.iter().for_each(|row| println!("{row}"));
        }
        rows.extend(of_size);
    }
    if arguments.json {
        let report = bench::Report {
            command: "thalweg-dbsp",
            seed: arguments.seed,
            pipeline: generated.name,
            rules: generated.rules.len(),
            rows,
        };
        println!("{}", serde_json::to_string_pretty(&report)?);
    }
    Ok(())
}
