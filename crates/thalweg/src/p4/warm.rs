//! `thalweg p4 warm`: writes the contents of `p4 cache`'s table after a capture, as commands.
//!
//! The program with its cache runs here, beside a keeper that installs the reported behaviours
//! as a controller would. The behaviours installed at the end become commands for a switch
//! that has no controller yet, or no P4Runtime, such as simple_switch.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use num_bigint::BigUint;
use serde::Serialize;
use thalweg_p4::behavior::transform::{
    CacheEntries, Keeper, Operation, PREFIX, Plan, Transformed, report_of, transform,
};
use thalweg_p4::state::Update;
use thalweg_p4::{Config, Outbox, Program, Target};
use thalweg_packet::Instant;

use crate::captures::Sources;
use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::files::program as program_text;
use thalweg_command::number::number;
use thalweg_command::output;
use thalweg_command::ports::PortNames;

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The program without a cache, as written by p4c's back end for BMv2
    program: PathBuf,
    /// Its entries: commands in the syntax of simple_switch_CLI
    #[arg(long, value_name = "FILE")]
    entries: Option<PathBuf>,
    /// Report the lines of --entries that cannot be read or done, and do the others
    #[arg(long, requires = "entries")]
    keep_going: bool,
    /// A capture of received packets (pcap or pcapng): FILE, or PORT=FILE to give its port
    #[arg(long, value_name = "[PORT=]FILE", required = true)]
    pcap: Vec<String>,
    /// Fill packets that the capture cut with zeros, up to their original length
    #[arg(long)]
    padded: bool,
    /// The ingress port of captures given without one
    #[arg(long, value_name = "PORT", default_value_t = 1, value_parser = number::<u32>(super::PORTS))]
    in_port: u32,
    /// File of the commands
    #[arg(short, long, value_name = "OUT.cmds")]
    output: PathBuf,
    /// Most behaviours in the cache; use the same number as for `p4 cache`
    #[arg(long, value_name = "N", default_value_t = 10_240, value_parser = number::<u32>(1..=1_048_576))]
    behaviors: u32,
    /// Report a behaviour when both of its counters are above this
    #[arg(long, value_name = "PACKETS", default_value_t = 0)]
    threshold: u16,
}

/// The command's output with `--json`.
#[derive(Serialize)]
struct Report {
    packets: u64,
    reports: u64,
    behaviors: usize,
    replaced: u64,
}

/// Runs the captures through the program, and writes its cache's final contents.
///
/// # Errors
/// If a file cannot be read or written, or no cache can be put in front of the program.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let path = arguments.program.display();
    let wrong = |what: String| bad_input(format!("{path}: {what}"));
    let made = transform(&program_text(&arguments.program)?, arguments.behaviors);
    let Transformed { json, plan } = made.map_err(|error| wrong(error.to_string()))?;
    let program =
        Program::from_json(&json.to_string()).map_err(|error| wrong(error.to_string()))?;
    let target = Target::new(Arc::new(program), Config::default());
    let mut target = target.map_err(|error| wrong(error.to_string()))?;
    if let Some(entries) = &arguments.entries {
        thalweg_command::p4_entries::write_to(&mut target, entries, arguments.keep_going)?;
    }
    set_threshold(&mut target, arguments.threshold)?;
    let mut sources = Sources::open(
        &arguments.pcap,
        arguments.in_port,
        (super::PORTS, &PortNames::default()),
        arguments.padded,
    )?;
    let mut keeper = Keeper::new(plan.clone());
    let (packets, lines) = warm(&mut target, &mut sources, &mut keeper)?;
    sources.warn_of_cuts();
    output::write_text(&arguments.output, &lines)?;
    let counts = keeper.counts();
    let report = Report {
        packets,
        reports: counts.reports,
        behaviors: keeper.len(),
        replaced: counts.replaced,
    };
    console.print(&format!(
        "{}: {} behaviours from {} packets ({} reports, {} replaced)",
        arguments.output.display(),
        report.behaviors,
        report.packets,
        report.reports,
        report.replaced
    ))?;
    console.print_json(&report)
}

fn set_threshold(target: &mut Target, threshold: u16) -> Result<()> {
    let registers = &target.program().arrays;
    let Some(register) = registers.find_register(&format!("{PREFIX}.threshold")) else {
        anyhow::bail!("a transformed program has no register for the threshold");
    };
    let set = Update::SetRegister(register, 0, threshold.into());
    target.write(&[set], Instant::ZERO)?;
    Ok(())
}

/// Runs the packets; returns their number, and commands for the entries then installed.
fn warm(target: &mut Target, sources: &mut Sources, keeper: &mut Keeper) -> Result<(u64, String)> {
    let program = target.program().clone();
    let Some(entries) = CacheEntries::find(&program, keeper.plan()) else {
        anyhow::bail!("a transformed program has no cache table");
    };
    let mut installed: BTreeMap<Vec<BigUint>, String> = BTreeMap::new();
    let mut outbox = Outbox::new();
    let mut packets = 0;
    while let Some(packet) = sources.next()? {
        let now = packet.received_at();
        outbox.clear();
        target.receive(packet.in_port().0, packet.bytes(), now, &mut outbox);
        packets += 1;
        let digests = outbox.digests();
        for report in digests.filter_map(|digest| report_of(&program, &digest)) {
            let operations = keeper.handle_report(&report);
            for operation in &operations {
                match operation {
                    Operation::Delete(key) => installed.remove(key),
                    Operation::Insert(key, action, data) => {
                        installed.insert(key.clone(), line(keeper.plan(), key, *action, data))
                    }
                };
            }
            target.write(&entries.updates(operations), now)?;
        }
    }
    Ok((packets, installed.into_values().collect()))
}

/// Formats a behaviour as a command.
fn line(plan: &Plan, key: &[BigUint], action: usize, data: &[BigUint]) -> String {
    let mut line = format!("table_add {PREFIX}.cache {}", plan.actions[action].name);
    let numbers = |line: &mut String, numbers: &[BigUint]| {
        for number in numbers {
            let _ = write!(line, " {number:#x}");
        }
    };
    numbers(&mut line, key);
    line += " =>";
    numbers(&mut line, data);
    line + "\n"
}
