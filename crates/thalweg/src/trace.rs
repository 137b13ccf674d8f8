//! `thalweg trace`: explains one packet, in the manner of `ofproto/trace`.
//!
//! For each pass through the pipeline, it lists the tables with the rule that matched, and the
//! bits that each step put into the entry's mask. Then come the entry and what the switch does
//! with its packets. A printed entry can be used as the question of another trace
//! (`question`).

use anyhow::Result;
use serde::Serialize;
use thalweg_packet::{Instant, Layout};
use thalweg_pipeline::explain::{describe_address, describe_step};
use thalweg_pipeline::text::{self, MegaflowStyle};
use thalweg_pipeline::{Pipeline, Step, StepKind, Translation};
use thalweg_switch::{Config, Engine};

use crate::p4::{self, ProgramArguments};
use crate::question::PacketArguments;
use thalweg_command::console::Console;
use thalweg_command::input::{self, RulesArguments};

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    rules: RulesArguments,
    #[command(flatten)]
    program: ProgramArguments,
    #[command(flatten)]
    packet: PacketArguments,
    /// Also print the tables it visits, in order: its traversal
    #[arg(long)]
    traversals: bool,
}

/// The command's output with `--json`.
#[derive(Serialize)]
struct Report {
    packet: String,
    #[serde(flatten)]
    first: PassReport,
    /// Passes after the first, where headers were parsed again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    recirculated: Vec<PassReport>,
}

#[derive(Serialize)]
struct PassReport {
    steps: Vec<StepReport>,
    /// The tables in the order of their lookups.
    #[serde(skip_serializing_if = "Option::is_none")]
    traversal: Option<Vec<u8>>,
    megaflow: String,
    actions: String,
    datapath_megaflow: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    drop_reason: Option<&'static str>,
}

#[derive(Serialize)]
struct StepReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<u8>,
    depth: u32,
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// The bits of the incoming packet that the step put into the mask.
    examined: String,
}

/// Explains the packet.
///
/// # Errors
/// If the rules or the packet cannot be read.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let names = arguments.rules.port_names()?;
    let question = arguments.packet.read(&names)?;
    if let Some(target) = arguments.program.load(None)? {
        question.refuse_what_programs_lack()?;
        return p4::trace(target, question.in_port.0, question.bytes(), console);
    }
    let rules = arguments.rules.read(&names)?;
    let mut engine = Engine::new(Config::default())?;
    let (in_ports, now) = ([question.in_port], Instant::ZERO);
    input::load(
        &mut engine,
        (&arguments.rules, &names),
        &rules,
        [],
        in_ports,
        now,
    )?;
    let pipeline = engine.pipeline();
    let passes = question.passes(&pipeline)?;
    let mut passes: Vec<PassReport> = passes
        .iter()
        .map(|pass| PassReport {
            traversal: (arguments.traversals).then(|| tables_of(&pass.translation)),
            ..report_pass(&pipeline, &pass.key, &pass.translation)
        })
        .collect();
    for pass in &passes {
        print_pass(pass, console)?;
    }
    let recirculated = passes.split_off(1);
    let first = passes.remove(0);
    console.print_json(&Report {
        packet: question.digits(),
        first,
        recirculated,
    })
}

fn report_pass(pipeline: &Pipeline, key: &[u64], translation: &Translation) -> PassReport {
    let layout = pipeline.layout();
    let mask = &translation.mask;
    let steps = translation
        .trace
        .steps()
        .map(|step| report_step(pipeline, key, &step));
    PassReport {
        steps: steps.collect(),
        traversal: None,
        megaflow: text::print_megaflow(layout, key, mask, MegaflowStyle::OpenFlow),
        datapath_megaflow: text::print_megaflow(layout, key, mask, MegaflowStyle::Datapath),
        actions: text::print_effects(&translation.effects, layout, key, mask),
        drop_reason: translation.drop_reason.map(|reason| reason.name()),
    }
}

/// The tables that a walk looked up.
fn tables_of(translation: &Translation) -> Vec<u8> {
    let tables = translation.trace.kinds().filter_map(|kind| match kind {
        StepKind::Lookup { table, .. } => Some(table.number()),
        _ => None,
    });
    tables.collect()
}

/// Formats a traversal: `0 -> 10 -> 20`, or `none` if it has no tables.
pub(crate) fn describe_traversal(tables: &[u8]) -> String {
    if tables.is_empty() {
        return "none".to_owned();
    }
    let tables: Vec<String> = tables.iter().map(u8::to_string).collect();
    tables.join(" -> ")
}

fn report_step(pipeline: &Pipeline, key: &[u64], step: &Step<'_>) -> StepReport {
    let (table, rule) = match step.kind {
        StepKind::Lookup { table, rule } => (Some(table.number()), rule),
        _ => (None, None),
    };
    let flow = rule.and_then(|rule| pipeline.flow_of(rule));
    StepReport {
        table,
        depth: step.depth,
        what: describe_step(step.kind),
        rule: flow.map(|flow| format!("{flow:#}")),
        examined: describe_bits(pipeline.layout(), key, step.added),
    }
}

/// Lists the bits of a mask by field, with the packet's values there.
fn describe_bits(layout: &Layout, key: &[u64], mask: &[u64]) -> String {
    let described = layout.fields_in(mask).map(|(field, bits)| {
        let descriptor = layout.descriptor(field);
        let value = layout.get(key, field).unwrap_or(0) & bits;
        let all = u128::MAX >> (128 - descriptor.width_bits);
        match describe_address(field, value, bits) {
            Some(address) => format!("{}={address}", descriptor.name),
            None if bits == all => format!("{}={value:#x}", descriptor.name),
            None => format!("{}={value:#x}/{bits:#x}", descriptor.name),
        }
    });
    described.collect::<Vec<_>>().join(",")
}

/// Deeper steps are indented no further: tables that resubmit may nest thousands deep.
const DEEPEST: usize = 20;

fn print_pass(pass: &PassReport, console: &Console) -> Result<()> {
    for step in &pass.steps {
        let indent = "    ".repeat((step.depth as usize).min(DEEPEST) + 1);
        let place = step
            .table
            .map_or("  ".to_owned(), |table| format!("{table:2}"));
        let what = step.rule.as_deref().unwrap_or(&step.what);
        console.print(&format!("{}{place}. {what}", &indent[4..]))?;
        if !step.examined.is_empty() {
            console.print(&format!("{indent}examined: {}", step.examined))?;
        }
    }
    console.print("")?;
    if let Some(tables) = &pass.traversal {
        console.print(&format!("traversal: {}", describe_traversal(tables)))?;
    }
    console.print(&format!("Megaflow: {}", pass.megaflow))?;
    console.print(&format!("Datapath actions: {}", pass.actions))?;
    if let Some(reason) = pass.drop_reason {
        console.print(&format!("Drop reason: {reason}"))?;
    }
    console.print("")
}
