//! `thalweg trace --p4`: shows what a packet meets in a P4 program.

use anyhow::Result;
use serde::Serialize;
use thalweg_p4::{Outbox, Program, Target, TraceStep};
use thalweg_packet::Instant;

use thalweg_command::console::Console;

/// The command's output with `--json`.
#[derive(Serialize)]
struct Report {
    packet: String,
    steps: Vec<String>,
    sent: Vec<SentReport>,
}

#[derive(Serialize)]
struct SentReport {
    port: u32,
    packet: String,
}

/// Explains one packet.
///
/// # Errors
/// If the output cannot be written.
pub(crate) fn trace(mut target: Target, port: u32, bytes: &[u8], console: &Console) -> Result<()> {
    let mut outbox = Outbox::new();
    let steps = target.trace(port, bytes, Instant::ZERO, &mut outbox);
    let program = target.program();
    let report = Report {
        packet: digits(bytes),
        steps: steps.iter().map(|step| describe(program, step)).collect(),
        sent: outbox
            .sent()
            .map(|sent| SentReport {
                port: sent.port,
                packet: digits(sent.bytes),
            })
            .collect(),
    };
    for step in &report.steps {
        console.print(step)?;
    }
    for sent in &report.sent {
        console.print(&format!("leaves by port {}: {}", sent.port, sent.packet))?;
    }
    console.print_json(&report)
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn describe(program: &Program, step: &TraceStep) -> String {
    let node = |id: &thalweg_p4::program::ids::NodeId| {
        let node = &program.control.nodes[id.index()];
        let source = node.source.as_ref().map(|source| format!(" ({source})"));
        format!("{}{}", node.name, source.unwrap_or_default())
    };
    match step {
        TraceStep::Pass(None) => "ingress".to_owned(),
        TraceStep::Pass(Some(port)) => format!("egress, port {port}"),
        TraceStep::Parsed(0) => "  parsed".to_owned(),
        TraceStep::Parsed(error) => {
            let name = program
                .errors
                .names
                .get(error)
                .map_or("an error", String::as_str);
            format!("  parsed up to {name} ({error})")
        }
        TraceStep::Table(table, entry, action) => {
            let outcome = match entry {
                Some(entry) => format!("entry {entry}"),
                None => "no entry".to_owned(),
            };
            let action = action.map(|action| program.action(action).name.as_str());
            let table = &program.table(*table).name;
            format!(
                "  table {table}: {outcome}, {}",
                action.unwrap_or("no action")
            )
        }
        TraceStep::If(id, holds) => format!("  if {}: {holds}", node(id)),
        TraceStep::Do(id) => format!("  do {}", node(id)),
        TraceStep::Dropped(reason) => format!("  dropped: {}", reason.name()),
        TraceStep::Sent(port, bytes) => format!("  sent by port {port}, {bytes} bytes"),
    }
}
