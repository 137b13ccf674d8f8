//! `thalweg p4 cache`: puts a cache of behaviours in front of a program (B-Cache).

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;
use thalweg_control::proto::p4::config::v1::P4Info;
use thalweg_p4::Program;
use thalweg_p4::behavior::transform::transform;

use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::files::{self, program as program_text};
use thalweg_command::number::number;
use thalweg_command::output;

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The program, as written by p4c's back end for BMv2
    program: PathBuf,
    /// File of the new program
    #[arg(short, long, value_name = "OUT.json")]
    output: PathBuf,
    /// The program's P4Info, as text or binary; derived from the program if absent
    #[arg(long, value_name = "FILE", requires = "p4info_output")]
    p4info: Option<PathBuf>,
    /// File of the new program's P4Info, as text
    #[arg(long, value_name = "FILE")]
    p4info_output: Option<PathBuf>,
    /// Most behaviours in the cache
    #[arg(long, value_name = "N", default_value_t = 10_240, value_parser = number::<u32>(1..=1_048_576))]
    entries: u32,
}

/// The command's output with `--json`.
#[derive(Serialize)]
struct Report {
    entries: u32,
    key: Vec<String>,
    key_bits: u32,
    outputs: Vec<String>,
    /// Outputs that are set only if the walk wrote them.
    flagged: usize,
    odd_primitives: Vec<String>,
    compound_actions: usize,
    /// Tables that a hit looks up again, because their entries have counters.
    asked_again: Vec<String>,
    stop_points: Vec<Stop>,
}

#[derive(Serialize)]
struct Stop {
    node: String,
    reason: &'static str,
}

/// Transforms a program.
///
/// # Errors
/// If it cannot be read, no cache can be put in front of it, or a file cannot be written.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let path = arguments.program.display();
    let text = program_text(&arguments.program)?;
    let made = transform(&text, arguments.entries);
    let made = made.map_err(|error| bad_input(format!("{path}: {error}")))?;
    let plan = &made.plan;
    if let Some(to) = &arguments.p4info_output {
        let wrong = |error| bad_input(format!("{path}: {error}"));
        let program = Program::from_json(&text).map_err(wrong)?;
        let given = arguments.p4info.as_deref();
        let p4info = p4info_of(given, &program)?;
        let new = thalweg_control::to_text(&thalweg_controller::with_cache(&p4info, plan));
        let new = new.map_err(|error| bad_input(format!("{path}: {error}")))?;
        output::write_text(to, &new)?;
    }
    output::write_text(&arguments.output, &format!("{:#}\n", made.json))?;
    let odd = plan
        .counts
        .iter()
        .map(|count| format!("count {}", count.array));
    let headers = plan.headers.iter();
    let odd = odd.chain(headers.map(|(header, _)| format!("add or remove {header}")));
    let writes = plan.writes.iter();
    let odd = odd.chain(writes.map(|write| format!("write register {}", write.array)));
    let name = |header: &str, field: &str| format!("{header}.{field}");
    let report = Report {
        entries: plan.entries,
        key: plan.key.iter().map(|part| part.name()).collect(),
        key_bits: plan.key_bits(),
        outputs: plan
            .outputs
            .iter()
            .map(|output| name(&output.header, &output.field))
            .collect(),
        flagged: plan.outputs.iter().filter(|one| one.is_flagged).count(),
        odd_primitives: odd.collect(),
        compound_actions: plan.actions.len(),
        asked_again: plan.recounts.iter().map(|one| one.table.clone()).collect(),
        stop_points: plan
            .stops
            .iter()
            .map(|(node, reason)| Stop {
                node: node.clone(),
                reason,
            })
            .collect(),
    };
    console.print_json(&report)?;
    console.headline(&format!(
        "{}: a cache of {} behaviours in front of ingress, {} bits of key",
        arguments.output.display(),
        report.entries,
        report.key_bits
    ))?;
    console.print(&described(&report))
}

/// The given P4Info, or one derived from the program.
pub(super) fn p4info_of(given: Option<&Path>, program: &Program) -> Result<P4Info> {
    let Some(path) = given else {
        return Ok(thalweg_binding::derive(program));
    };
    let wrong = |what: String| bad_input(format!("{}: {what}", path.display()));
    let bytes = files::bytes(path)?;
    thalweg_control::read(&bytes).map_err(|error| wrong(error.to_string()))
}

fn described(report: &Report) -> String {
    let mut lines = vec![
        format!("key: {}", report.key.join(", ")),
        format!(
            "outputs: {} ({} of them only where they were written)",
            report.outputs.join(", "),
            report.flagged
        ),
        format!("compound actions: {}", report.compound_actions),
    ];
    if !report.odd_primitives.is_empty() {
        lines.push(format!("odd: {}", report.odd_primitives.join(", ")));
    }
    if !report.asked_again.is_empty() {
        let tables = report.asked_again.join(", ");
        lines.push(format!("asked again on a hit, as entries count: {tables}"));
    }
    for stop in &report.stop_points {
        lines.push(format!("never cached, {}: {}", stop.node, stop.reason));
    }
    lines.join("\n")
}
