//! `thalweg explain`: why each bit is in the mask of a cache entry, and what would touch it.
//!
//! The interpreter answers the packet; everything else is read off the trace of its walk. For every
//! pass through the pipeline:
//!
//! ```text
//!   for each field of the mask:  the steps that needed it          ([`reasons`])
//!   for each read of the walk:   the changes that would meet it    ([`touches`])
//! ```
//!
//! A change that meets no read leaves the entry alone, whichever maintainer looks only at what a
//! change may affect. One that meets one has the entry looked at, and often found right.

mod reasons;
mod touches;

use anyhow::Result;
use serde::Serialize;
use thalweg_packet::Instant;
use thalweg_pipeline::text::{self, MegaflowStyle};
use thalweg_pipeline::{Pass, Pipeline, RuleId};
use thalweg_switch::{Config, Engine};

use crate::console::Console;
use crate::input::{self, RulesArguments};
use crate::question::PacketArguments;
use reasons::FieldReport;
use touches::TouchReport;

/// What the command takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    rules: RulesArguments,
    #[command(flatten)]
    packet: PacketArguments,
}

/// What the command prints with `--json`.
#[derive(Serialize)]
struct Report {
    packet: String,
    #[serde(flatten)]
    first: PassReport,
    /// Passes after the first, where headers had to be parsed anew.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    recirculated: Vec<PassReport>,
}

#[derive(Serialize)]
struct PassReport {
    megaflow: String,
    actions: String,
    fields: Vec<FieldReport>,
    touched_by: Vec<TouchReport>,
}

/// Explains the entry.
///
/// # Errors
/// If the rules or the packet cannot be read.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let question = arguments.packet.read()?;
    let rules = arguments.rules.read()?;
    let mut engine = Engine::new(Config::default())?;
    let (in_ports, now) = ([question.in_port], Instant::ZERO);
    input::load(&mut engine, &arguments.rules, &rules, [], in_ports, now)?;
    let pipeline = engine.pipeline();
    let passes = question.passes(&pipeline)?;
    let mut passes: Vec<PassReport> = passes
        .iter()
        .map(|pass| report_pass(&pipeline, pass))
        .collect();
    for pass in &passes {
        console.print(&describe(pass))?;
    }
    let recirculated = passes.split_off(1);
    let first = passes.remove(0);
    console.print_json(&Report {
        packet: question.digits(),
        first,
        recirculated,
    })
}

fn report_pass(pipeline: &Pipeline, pass: &Pass) -> PassReport {
    let layout = pipeline.layout();
    let (key, translation) = (&pass.key, &pass.translation);
    let mask = &translation.mask;
    PassReport {
        megaflow: text::print_megaflow(layout, key, mask, MegaflowStyle::OpenFlow),
        actions: text::print_effects(&translation.effects, layout, key, mask),
        fields: reasons::report(pipeline, pass),
        touched_by: touches::report(pipeline, &translation.trace),
    }
}

fn describe(pass: &PassReport) -> String {
    let mut text = format!("Megaflow: {}\n", pass.megaflow);
    text += &format!("Datapath actions: {}\n\n", pass.actions);
    text += "Why its mask has\n";
    for field in &pass.fields {
        text += &field.text();
    }
    text += "\nWhat would touch it\n";
    for touch in &pass.touched_by {
        text += &format!("  {}\n", touch.what);
    }
    text
}

/// A rule as text.
fn rule_text(pipeline: &Pipeline, rule: RuleId) -> String {
    let flow = pipeline.flow_of(rule);
    let flow = flow.expect("what a walk has met is not reclaimed while nothing changes");
    format!("{flow:#}")
}
