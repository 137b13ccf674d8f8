//! `thalweg p4 keep`: controls a switch that runs a program with a cache in front (B-Cache).
//!
//! ```text
//!   connect; give the switch the program with the cache; write the entries; say `ready`
//!   until a signal, or the end of the input if that was asked for:
//!     a line of the input:   a change of entries, with the barrier around it
//!     a list of reports:     behaviours into the cache table
//! ```
//!
//! It works with any switch that speaks P4Runtime and runs v1model in BMv2's JSON.

use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use thalweg_control::{Catalog, Client, ClientConfig, ClientError, ClientFiles, Listen};
use thalweg_controller::{KeepError, Keeping};
use thalweg_p4::Program;
use thalweg_p4::commands::Reader;

use super::cache::p4info_of;
use super::lines::Lines;
use crate::signals::{Signal, catch};
use thalweg_command::console::{Console, warn};
use thalweg_command::failure::bad_input;
use thalweg_command::files::program as program_text;
use thalweg_command::number::number;
use thalweg_command::p4_entries::{Refused, write_entries};

/// Time between checks of signals and the input.
const PATIENCE: Duration = Duration::from_millis(20);
/// Input lines that may wait.
const LINES: usize = 64;

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The program without a cache, as written by p4c's back end for BMv2
    program: PathBuf,
    /// Address of the switch's P4Runtime: `unix:PATH`, `tls:ADDRESS:PORT` or
    /// `tcp:ADDRESS:PORT`
    #[arg(long, value_name = "ADDRESS")]
    connect: Listen,
    /// The program's P4Info, as text or binary; derived from the program if absent
    #[arg(long, value_name = "FILE")]
    p4info: Option<PathBuf>,
    /// Initial entries: commands in the syntax of simple_switch_CLI
    #[arg(long, value_name = "FILE")]
    entries: Option<PathBuf>,
    /// Report the lines of --entries that cannot be read or done, and do the others
    #[arg(long, requires = "entries")]
    keep_going: bool,
    /// Most behaviours in the cache
    #[arg(long, value_name = "N", default_value_t = 10_240, value_parser = number::<u32>(1..=1_048_576))]
    behaviors: u32,
    /// A behaviour seen more often than this is hot
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u16>(0..=65_535))]
    threshold: u16,
    /// The switch's device number
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u64>(1..))]
    device_id: u64,
    /// Election id; the controller with the largest one is the primary
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u64>(1..))]
    election_id: u64,
    /// For `tls:`, the certificate to show to the switch
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// For `tls:`, its private key
    #[arg(long, value_name = "FILE", requires = "authorities")]
    key: Option<PathBuf>,
    /// For `tls:`, the authorities that are trusted to certify switches
    #[arg(long, value_name = "FILE", requires = "certificate")]
    authorities: Option<PathBuf>,
    /// End when the input does
    #[arg(long)]
    end_with_input: bool,
}

/// The command's output with `--json`.
#[derive(Serialize, Default)]
struct Report {
    /// Input lines that were done, and those that were refused.
    changes: u64,
    refused: u64,
    reports: u64,
    installed: u64,
    stale: u64,
    known: u64,
    malformed: u64,
    replaced: u64,
    affected: u64,
    /// Behaviours in the cache at the end.
    behaviors: usize,
}

/// Keeps the cache of a switch.
///
/// # Errors
/// If a file cannot be used, or the switch cannot be reached, refuses a request, or ends.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let signals = catch()?.watch()?;
    let path = arguments.program.display();
    let text = program_text(&arguments.program)?;
    let program = Program::from_json(&text);
    let program = program.map_err(|error| bad_input(format!("{path}: {error}")))?;
    let info = p4info_of(arguments.p4info.as_deref(), &program)?;
    let catalog = Catalog::new(&info).map_err(|error| bad_input(format!("{path}: {error}")))?;
    let client = connect(arguments)?;
    let size = (arguments.behaviors, arguments.threshold);
    let started = Keeping::start(client, &text, &program, (&info, &catalog), size);
    let mut keeping = started.map_err(|error| match error {
        KeepError::Client(error) => failed(error),
        error => bad_input(format!("{path}: {error}")),
    })?;
    // The same reader reads the input, so that its handles continue after the file's.
    let mut reader = Reader::new(&program);
    if let Some(path) = &arguments.entries {
        write_entries(path, arguments.keep_going, &mut reader, |commands| {
            keeping.change(commands).map_err(|error| match error {
                KeepError::Command { line, problem } => {
                    let index = commands.iter().position(|command| command.line == line);
                    Refused::Command(index.unwrap_or(0), problem.message)
                }
                KeepError::Client(error) => Refused::All(failed(error)),
                error => Refused::All(bad_input(format!("{}: {error}", path.display()))),
            })
        })?;
    }
    let text = format!("ready {} is kept on {}", path, arguments.connect);
    console.announce(&text)?;
    let input = input();
    let mut report = Report::default();
    loop {
        match input.try_recv() {
            Ok(Ok(line)) => change(&mut keeping, &mut reader, &line, &mut report)?,
            Ok(Err(what)) => {
                report.refused += 1;
                warn(&what);
            }
            Err(TryRecvError::Disconnected) if arguments.end_with_input => break,
            Err(_) => {
                let handled = keeping.handle_reports(PATIENCE);
                handled.map_err(anyhow::Error::new)?;
            }
        }
        if signals.next() == Some(Signal::End) {
            break;
        }
    }
    said(report, &keeping, console)
}

fn connect(arguments: &Arguments) -> Result<Client> {
    let files = (
        &arguments.certificate,
        &arguments.key,
        &arguments.authorities,
    );
    let tls = match files {
        (Some(certificate), Some(key), Some(authorities)) => Some(ClientFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            server_authorities: authorities.clone(),
        }),
        _ => None,
    };
    let client = Client::connect(ClientConfig {
        address: arguments.connect.clone(),
        tls,
        device_id: arguments.device_id,
        election_id: arguments.election_id.into(),
    });
    client.map_err(failed)
}

fn failed(error: ClientError) -> anyhow::Error {
    match error {
        ClientError::Tls(error) => bad_input(error),
        error => anyhow::Error::new(error),
    }
}

/// Reads the lines of standard input, or their errors, on a separate thread. The channel
/// closes at the end of the input.
fn input() -> Receiver<Result<String, String>> {
    let (sender, lines) = sync_channel(LINES);
    std::thread::spawn(move || {
        for line in Lines::new(std::io::stdin().lock()) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Does the command of a line. If that fails, it is reported on standard error and counted.
fn change(
    keeping: &mut Keeping<'_>,
    reader: &mut Reader<'_>,
    line: &str,
    report: &mut Report,
) -> Result<()> {
    let commands = match reader.read_line(line) {
        Ok(commands) if commands.is_empty() => return Ok(()),
        Ok(commands) => commands,
        Err(error) => {
            report.refused += 1;
            warn(&format!("{line:?}: {}", error.what));
            return Ok(());
        }
    };
    match keeping.change(&commands) {
        Ok(()) => {
            report.changes += 1;
            // The cache is kept whether or not this line is read.
            let _ = writeln!(std::io::stderr().lock(), "done {line}");
            Ok(())
        }
        Err(KeepError::Command { problem, .. }) => {
            reader.take_back();
            report.refused += 1;
            warn(&format!("{line:?}: {}", problem.message));
            Ok(())
        }
        Err(error) => Err(error).context("the switch"),
    }
}

fn said(report: Report, keeping: &Keeping<'_>, console: &Console) -> Result<()> {
    let counts = keeping.counts();
    let report = Report {
        reports: counts.reports,
        installed: counts.installed,
        stale: counts.stale,
        known: counts.known,
        malformed: counts.malformed,
        replaced: counts.replaced,
        affected: counts.affected,
        behaviors: keeping.len(),
        ..report
    };
    console.print_json(&report)?;
    console.print(&format!(
        "{} reports, {} installed, {} stale; {} behaviours left for others and {} for {} changes; \
         {} are there",
        report.reports,
        report.installed,
        report.stale,
        report.replaced,
        report.affected,
        report.changes,
        report.behaviors
    ))
}
