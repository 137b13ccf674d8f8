//! `thalweg trace`: explains one packet, in the manner of `ofproto/trace`.
//!
//! The packet is described as a flow (`in_port=1,tcp,nw_dst=10.0.0.1,tp_dst=80`) or given as bytes.
//! For every pass through the pipeline the tables are listed with the rule that matched, and with
//! the bits that the step put into the mask of the cache entry; then the entry itself, and what is
//! done with its packets.

mod packet;
mod place;

use anyhow::Result;
use serde::Serialize;
use thalweg_packet::{Instant, Layout, Packet, PacketPool, PortId, standard as f};
use thalweg_pipeline::text::{self, MegaflowStyle};
use thalweg_pipeline::{Match, Outbox, Passes, Pipeline, Step, StepKind, Translation};
use thalweg_switch::{Config, Engine};

use crate::console::Console;
use crate::failure::bad_input;
use crate::input::{self, RulesArguments};

/// What the command takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    rules: RulesArguments,
    /// The packet, as `in_port=1,tcp,nw_src=10.0.0.1,...`; what is not said is zero, but for a TTL
    /// of 64
    #[arg(value_name = "FLOW")]
    flow: String,
    /// The packet's bytes in hexadecimal, in place of those made from FLOW
    #[arg(long, value_name = "HEX")]
    packet: Option<String>,
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
    steps: Vec<StepReport>,
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
    let flow = text::parse_match(&arguments.flow);
    let flow = flow.map_err(|error| place::explain(&arguments.flow, &error))?;
    let in_port = PortId(flow.term(f::IN_PORT).map_or(0, |term| term.value as u32));
    refuse_what_packets_lack(&flow)?;
    let bytes = match &arguments.packet {
        Some(digits) => bytes_of(digits)?,
        None => packet::build(&flow)?,
    };
    let rules = arguments.rules.read()?;
    let mut engine = Engine::new(Config::default())?;
    let now = Instant::ZERO;
    input::load(&mut engine, &arguments.rules, &rules, [], [in_port], now)?;
    let mut packet = Packet::from_bytes(&bytes);
    packet.set_received(in_port, Instant::ZERO);
    let mut passes = explain(&engine.pipeline(), packet)?;
    for pass in &passes {
        print_pass(pass, console)?;
    }
    let recirculated = passes.split_off(1);
    let first = passes.remove(0);
    console.print_json(&Report {
        packet: digits_of(&bytes),
        first,
        recirculated,
    })
}

/// Fields of a flow that no packet can bring along.
fn refuse_what_packets_lack(flow: &Match) -> Result<()> {
    let fields = f::fields();
    let register = flow
        .terms()
        .iter()
        .find(|term| !fields[term.field.index()].is_ingress());
    match register {
        Some(term) => {
            let name = &fields[term.field.index()].name;
            Err(bad_input(format!(
                "FLOW: {name} is zero when a packet comes in; leave it out"
            )))
        }
        None => Ok(()),
    }
}

/// Walks the packet and its copies through all their passes.
fn explain(pipeline: &Pipeline, packet: Packet) -> Result<Vec<PassReport>> {
    let mut outbox = Outbox::new(PacketPool::with_capacity(0, 0));
    outbox.grows = true;
    let passes = Passes::new(pipeline, pipeline.version(), packet, &mut outbox);
    let reports = passes.map(|pass| {
        // A packet that is made from FLOW is a frame.
        let pass = pass.map_err(|error| {
            bad_input(format!(
                "--packet: {error}; give all bytes from the destination address on"
            ))
        })?;
        Ok(report_pass(pipeline, &pass.key, &pass.translation))
    });
    reports.collect()
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
        megaflow: text::print_megaflow(layout, key, mask, MegaflowStyle::OpenFlow),
        datapath_megaflow: text::print_megaflow(layout, key, mask, MegaflowStyle::Datapath),
        actions: text::print_effects(&translation.effects, layout, key, mask),
        drop_reason: translation.drop_reason.map(|reason| reason.name()),
    }
}

fn report_step(pipeline: &Pipeline, key: &[u64], step: &Step<'_>) -> StepReport {
    let mut table = None;
    let mut rule = None;
    let what = match step.kind {
        StepKind::Lookup {
            table: id,
            rule: found,
        } => {
            table = Some(id.0);
            rule = found
                .and_then(|id| pipeline.flow_of(id))
                .map(|flow| format!("{flow:#}"));
            match found {
                Some(_) => "matched".to_owned(),
                None => "no rule matched".to_owned(),
            }
        }
        StepKind::Bucket {
            group,
            bucket: Some(bucket),
        } => {
            format!("group {}: bucket {bucket}", group.0)
        }
        StepKind::Bucket {
            group,
            bucket: None,
        } => format!("group {}: no bucket alive", group.0),
        StepKind::Station { station, port } => {
            let known = port.map_or("unknown, flooded".to_owned(), |port| format!("port {port}"));
            format!(
                "station {:012x} in VLAN {}: {known}",
                station.mac, station.vlan
            )
        }
        StepKind::ActionSet => "action set".to_owned(),
        StepKind::Resumption { .. } => "resumed".to_owned(),
    };
    let examined = describe_bits(pipeline.layout(), key, step.added);
    StepReport {
        table,
        depth: step.depth,
        what,
        rule,
        examined,
    }
}

/// The bits of a mask, field by field, with the values that the packet has there.
fn describe_bits(layout: &Layout, key: &[u64], mask: &[u64]) -> String {
    let described = layout.fields_in(mask).map(|(field, bits)| {
        let descriptor = layout.descriptor(field);
        let value = layout.get(key, field).unwrap_or(0) & bits;
        let all = u128::MAX >> (128 - descriptor.width_bits);
        if bits == all {
            format!("{}={value:#x}", descriptor.name)
        } else {
            format!("{}={value:#x}/{bits:#x}", descriptor.name)
        }
    });
    described.collect::<Vec<_>>().join(",")
}

fn print_pass(pass: &PassReport, console: &Console) -> Result<()> {
    for step in &pass.steps {
        let indent = "    ".repeat(step.depth as usize + 1);
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
    console.print(&format!("Megaflow: {}", pass.megaflow))?;
    console.print(&format!("Datapath actions: {}", pass.actions))?;
    if let Some(reason) = pass.drop_reason {
        console.print(&format!("Drop reason: {reason}"))?;
    }
    console.print("")
}

fn bytes_of(digits: &str) -> Result<Vec<u8>> {
    const EXAMPLE: &str = "give two hexadecimal digits for each byte, as in 0200000000fe";
    let mut values = Vec::new();
    for (index, digit) in digits.chars().enumerate() {
        match digit.to_digit(16) {
            Some(value) => values.push(value as u8),
            None if digit.is_whitespace() => {}
            None => {
                let column = index + 1;
                return Err(bad_input(format!(
                    "--packet:1:{column}: {digit:?} is no hexadecimal digit; {EXAMPLE}"
                )));
            }
        }
    }
    if !values.len().is_multiple_of(2) {
        let count = values.len();
        return Err(bad_input(format!(
            "--packet: {count} is no even number of digits; {EXAMPLE}"
        )));
    }
    let bytes = values.chunks(2).map(|pair| pair[0] << 4 | pair[1]);
    Ok(bytes.collect())
}

fn digits_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
