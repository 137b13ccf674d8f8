//! What a change of one rule costs this maintainer, as `thalweg bench update` asks it of the
//! others.
//!
//! Packets of flows through a generated pipeline are recorded. Then single rules are changed, drawn
//! from those that the packets have met: one is deleted, comes back, or gets the actions of another
//! that leads to the same table. A change is timed from the delta that the pipeline has published
//! to the answers that are right again: rows, transaction, and what the view takes over. The
//! pipeline's own work is not in it.
//!
//! The circuit has a thread of its own and others that merge what it stores, so the time is the
//! processor time of all threads, and the time on the wall stands beside it. The first row of every
//! size is the baseline: the interpreter asked again about every packet, one thread.
//!
//! A row also says what a new packet costs (traversals are data), and what a circuit costs that is
//! built anew (for a walk of more lookups than there are steps). At the end all answers are
//! compared with the interpreter's.

mod bench;
mod clock;

use anyhow::Result;
use clap::Parser;
use clap::ValueEnum;
use thalweg_workload::PipelineKind;

/// What the program takes.
#[derive(Parser, Debug)]
#[command(about = "Time to update of a view of recorded packets, kept by DBSP")]
struct Arguments {
    /// The pipeline
    #[arg(long, value_enum, default_value_t = Kind::Ofd)]
    pipeline: Kind,
    /// Rules in it
    #[arg(long, value_name = "N", default_value_t = 12_000)]
    rules: usize,
    /// Recorded packets, one row each
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [10_000, 100_000])]
    entries: Vec<usize>,
    /// Changes for each row
    #[arg(long, value_name = "N", default_value_t = 500)]
    updates: usize,
    /// Lookups that a walk may have
    #[arg(long, value_name = "N", default_value_t = 7)]
    steps: usize,
    /// Seed of everything
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

/// Which pipeline.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum Kind {
    /// Cord's OF-DPA
    Ofd,
    /// The L2L3-ACL pipeline of PISCES
    Psc,
}

impl From<Kind> for PipelineKind {
    fn from(kind: Kind) -> PipelineKind {
        match kind {
            Kind::Ofd => PipelineKind::Ofd,
            Kind::Psc => PipelineKind::Psc,
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
