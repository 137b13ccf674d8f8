//! `thalweg explain`: explains the mask of a cache entry, and which changes would affect it.
//!
//! The interpreter answers the packet; everything else comes from the trace of its walk, for
//! every pass through the pipeline (`thalweg_pipeline::explain`).
//!
//! With captures, it explains the entries that these leave behind ([`entries`]).

mod entries;

use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;
use thalweg_datapath::MaintainerKind;
use thalweg_packet::Instant;
use thalweg_pipeline::explain::{MaskField, Touch, mask_fields, touches};
use thalweg_pipeline::text::{self, MegaflowStyle};
use thalweg_pipeline::{Pass, Pipeline};
use thalweg_switch::{Config, Engine};

use crate::question::PacketArguments;
use thalweg_command::console::Console;
use thalweg_command::input::{self, RulesArguments};
use thalweg_command::number::number;

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    rules: RulesArguments,
    /// The packet, as `in_port=1,tcp,nw_src=10.0.0.1,...`, as a cache entry, or as its bytes
    /// (see `thalweg trace`). With --pcap: only entries that match such packets
    #[arg(value_name = "FLOW", required_unless_present = "pcap")]
    flow: Option<String>,
    /// The packet's bytes in hexadecimal, instead of those made from FLOW
    #[arg(value_name = "HEX", conflicts_with_all = ["pcap", "packet"])]
    bytes: Option<String>,
    /// The packet's bytes in hexadecimal, instead of those made from FLOW
    #[arg(long, value_name = "HEX", conflicts_with = "pcap")]
    packet: Option<String>,
    /// Explain the entries that a capture of received packets leaves behind: FILE, or
    /// PORT=FILE to give its port
    #[arg(long, value_name = "[PORT=]FILE")]
    pcap: Vec<String>,
    /// Fill packets that the capture cut with zeros, up to their original length
    #[arg(long, requires = "pcap", conflicts_with = "packet")]
    padded: bool,
    /// The ingress port of captures given without one
    #[arg(
        long,
        value_name = "PORT",
        default_value = "1",
        requires = "pcap",
        conflicts_with = "packet"
    )]
    in_port: String,
    /// Rule changes, each at its packet position (`@N add ...`)
    #[arg(
        long,
        value_name = "FILE",
        requires = "pcap",
        conflicts_with = "packet"
    )]
    changes: Option<PathBuf>,
    /// How caches follow changes: incremental, barrier, revalidate, lazy or flush
    #[arg(
        long,
        value_name = "NAME",
        default_value = "incremental",
        requires = "pcap",
        conflicts_with = "packet"
    )]
    maintainer: MaintainerKind,
    /// Only the entry with this number
    #[arg(long, value_name = "N", requires = "pcap", conflicts_with = "packet", value_parser = number::<u32>(..))]
    entry: Option<u32>,
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
    megaflow: String,
    actions: String,
    fields: Vec<MaskField>,
    touched_by: Vec<Touch>,
    /// Why no fields and changes are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

/// Explains the entry.
///
/// # Errors
/// If the rules, the packet or a capture cannot be read.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let Some(flow) = arguments.flow.clone().filter(|_| arguments.pcap.is_empty()) else {
        return entries::execute(arguments, console);
    };
    let names = arguments.rules.port_names()?;
    let bytes = arguments.bytes.clone();
    let question = PacketArguments::new(flow, bytes, arguments.packet.clone()).read(&names)?;
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
        fields: mask_fields(pipeline, pass, mask),
        touched_by: touches(pipeline, &translation.trace, &[]),
        note: None,
    }
}

fn describe(pass: &PassReport) -> String {
    let mut text = format!("Megaflow: {}\n", pass.megaflow);
    text += &format!("Datapath actions: {}\n\n", pass.actions);
    if let Some(note) = pass.note {
        return text + note + "\n";
    }
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
