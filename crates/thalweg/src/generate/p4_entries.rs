//! `thalweg generate p4-entries`: makes a network for one of the four cases of
//! `examples/p4/switch.p4`.
//!
//! Entries are commands in the syntax of simple_switch_CLI. With `--packets`, the packets of
//! the network's stations are written too, with one capture per port: FILE.pcap becomes
//! FILE-p1.pcap and so on.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;
use thalweg_packet::Instant;
use thalweg_workload::Campus;

use super::destination::Destination;
use super::traffic::path_of_port;
use thalweg_command::console::Console;
use thalweg_command::number::{counted, number};
use thalweg_command::output::CaptureOutput;
use thalweg_command::workload::DEFAULT_SEED;

/// Time between two packets in the captures.
const PERIOD_NS: u64 = 1_000;

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Which case: 1 bridges and routes, 2 filters, 3 translates, 4 guards
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=4))]
    case: u8,
    /// Entries in each table for stations, routes, rules and translations
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = number::<usize>(1..=16_384))]
    count: usize,
    /// Seed of the network and its packets
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED, value_parser = number::<u64>(..))]
    seed: u64,
    /// Number of packets
    #[arg(long, value_name = "N", requires = "pcap", value_parser = number::<usize>(1..))]
    packets: Option<usize>,
    /// Captures of the packets, one for each port
    #[arg(long, value_name = "FILE", requires = "packets")]
    pcap: Option<PathBuf>,
    #[command(flatten)]
    destination: Destination,
}

/// Writes the entries, and the packets if requested.
///
/// # Errors
/// If a file cannot be written.
pub(super) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let campus = Campus::new(arguments.case, arguments.count, arguments.seed);
    let captures = captures(arguments, &campus)?;
    let text = campus.commands();
    let commands = text.lines().filter(|line| !line.starts_with('#')).count();
    let (case, seed) = (arguments.case, arguments.seed);
    let mut sentence = format!(
        "{} for case {case}, seed {seed}",
        counted(commands, "command")
    );
    for (path, packets) in &captures {
        sentence += &format!("\n  {path}: {}", counted(packets, "packet"));
    }
    let summary = json!({
        "case": case,
        "seed": seed,
        "commands": commands,
        "captures": captures,
    });
    arguments
        .destination
        .write(&text, &sentence, summary, console)
}

/// Writes the captures; returns their names and packet counts.
fn captures(arguments: &Arguments, campus: &Campus) -> Result<BTreeMap<String, u64>> {
    let (Some(count), Some(pcap)) = (arguments.packets, &arguments.pcap) else {
        return Ok(BTreeMap::new());
    };
    let mut open: BTreeMap<u32, CaptureOutput> = BTreeMap::new();
    for ((port, packet), number) in campus.packets(arguments.seed).take(count).zip(0..) {
        let capture = match open.entry(port) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => place.insert(CaptureOutput::create(&path_of_port(pcap, port))?),
        };
        capture.write(&packet, Instant::from_nanos(number * PERIOD_NS))?;
    }
    let mut written = BTreeMap::new();
    for (port, capture) in open {
        let path = path_of_port(pcap, port).display().to_string();
        written.insert(path, capture.finish()?);
    }
    Ok(written)
}
