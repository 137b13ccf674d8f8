//! `thalweg generate traffic`: writes captures of flows through a pipeline.
//!
//! A capture does not record a packet's ingress port. With `--per-port`, each ingress port
//! gets its own capture, and the packets' times give their order. Without it, one capture has
//! all packets; with `--in-port`, all flows arrive on one port.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;
use thalweg_packet::Instant;
use thalweg_workload::{Flow, FlowConfig, FlowSource, Pipeline, Sequence, draw_flows};

use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::number::{counted, number, port};
use thalweg_command::output::CaptureOutput;
use thalweg_command::workload::{
    DEFAULT_SEED, Kind, LocalityArguments, PipelineArguments, refused,
};

/// Draws without a new flow after which the search stops.
const DRAWS: usize = 100_000;

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pipeline: PipelineArguments,
    /// Seed of the pipeline, the flows and their order
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED, value_parser = number::<u64>(..))]
    seed: u64,
    /// Number of flows
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = number::<usize>(..))]
    flows: usize,
    /// Number of packets
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = number::<u64>(1..))]
    packets: u64,
    #[command(flatten)]
    locality: LocalityArguments,
    /// Bytes in a packet, at least its headers
    #[arg(long, value_name = "BYTES", default_value_t = 60, value_parser = number::<u16>(..))]
    length: u16,
    /// Packets per second, evenly spaced in the capture's time
    #[arg(
        long, value_name = "PPS", default_value_t = 1_000_000,
        value_parser = number::<u64>(1..=1_000_000_000)
    )]
    rate: u64,
    /// Only flows that arrive on this port
    #[arg(long, value_name = "PORT", conflicts_with = "per_port", value_parser = port)]
    in_port: Option<u32>,
    /// Write a capture for each ingress port: FILE.pcap becomes FILE-p1.pcap, FILE-p2.pcap,
    /// ...
    #[arg(long)]
    per_port: bool,
    /// The capture; an existing file is replaced
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Writes the captures.
///
/// # Errors
/// If there are not enough flows, or a capture cannot be written.
pub(super) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let pipeline = arguments.pipeline.generate(arguments.seed)?;
    let flows = flows(&pipeline, arguments)?;
    let kind = arguments.locality.sequence_kind();
    let sequence = Sequence::new(kind, flows.len(), arguments.seed);
    let sequence = sequence.map_err(|error| refused("--flows or --exponent", &error))?;
    let mut captures = Captures::new(arguments);
    let progress = console.progress(arguments.packets);
    progress.set_message("writing packets");
    for (number, flow) in (0..arguments.packets).zip(sequence) {
        let at_ns = u128::from(number) * 1_000_000_000 / u128::from(arguments.rate);
        let at = Instant::from_nanos(at_ns as u64);
        let flow = &flows[flow];
        let bytes = flow.packet(arguments.length.into());
        captures.of(flow.in_port)?.write(&bytes, at)?;
        if number % 4_096 == 0 {
            progress.set_position(number);
        }
    }
    let files = captures.finish()?;
    progress.finish_and_clear();
    console.print(&sentence(arguments, &pipeline, &files))?;
    let captures = files.iter().map(|file| {
        json!({
            "port": file.port,
            "file": file.path.display().to_string(),
            "packets": file.packets,
        })
    });
    console.print_json(&json!({
        "kind": pipeline.name,
        "seed": arguments.seed,
        "flows": flows.len(),
        "packets": arguments.packets,
        "captures": captures.collect::<Vec<_>>(),
    }))
}

/// Draws different flows, of all ports or of one.
fn flows(pipeline: &Pipeline, arguments: &Arguments) -> Result<Vec<Flow>> {
    let config = FlowConfig::new(arguments.flows, arguments.seed);
    let Some(port) = arguments.in_port else {
        let drawn = draw_flows(pipeline, &config).map_err(|error| refused("--flows", &error))?;
        return Ok(drawn.into_iter().map(|(flow, _)| flow).collect());
    };
    if !pipeline.ports.contains(&port) {
        let (first, last) = (pipeline.ports.first(), pipeline.ports.last());
        let (first, last) = (first.unwrap_or(&0), last.unwrap_or(&0));
        return Err(bad_input(format!(
            "--in-port: the pipeline has no port {port}; it has {first} to {last}"
        )));
    }
    let mut source = FlowSource::new(pipeline, &config);
    let mut seen = HashSet::new();
    let mut flows = Vec::with_capacity(arguments.flows);
    while flows.len() < arguments.flows {
        let fresh = (0..DRAWS).find_map(|_| {
            let template = source.next_template();
            let flow = source.draw(template)?;
            (flow.in_port == port && seen.insert(flow)).then_some(flow)
        });
        flows.push(fresh.ok_or_else(|| {
            let found = flows.len();
            bad_input(format!(
                "--in-port: only {found} flows come in by port {port}; ask for fewer with --flows"
            ))
        })?);
    }
    Ok(flows)
}

/// The captures being written.
struct Captures<'a> {
    arguments: &'a Arguments,
    /// By ingress port, or one capture under `None`.
    open: BTreeMap<Option<u32>, (PathBuf, CaptureOutput)>,
}

/// A finished capture.
struct Written {
    port: Option<u32>,
    path: PathBuf,
    packets: u64,
}

impl<'a> Captures<'a> {
    fn new(arguments: &'a Arguments) -> Captures<'a> {
        Captures {
            arguments,
            open: BTreeMap::new(),
        }
    }

    /// The capture for packets that arrive on a port, created at its first packet.
    fn of(&mut self, in_port: u32) -> Result<&mut CaptureOutput> {
        let Arguments {
            per_port, output, ..
        } = self.arguments;
        // With `--in-port`, all flows have that port, so the summary can name it.
        let port = (*per_port || self.arguments.in_port.is_some()).then_some(in_port);
        let entry = match self.open.entry(port) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                let path = match per_port {
                    true => path_of_port(output, in_port),
                    false => output.clone(),
                };
                let capture = CaptureOutput::create(&path)?;
                place.insert((path, capture))
            }
        };
        Ok(&mut entry.1)
    }

    fn finish(self) -> Result<Vec<Written>> {
        let mut files = Vec::new();
        for (port, (path, capture)) in self.open {
            let packets = capture.finish()?;
            files.push(Written {
                port,
                path,
                packets,
            });
        }
        Ok(files)
    }
}

/// Inserts the port into the name: `dir/name.pcap` and 7 make `dir/name-p7.pcap`.
pub(super) fn path_of_port(output: &Path, port: u32) -> PathBuf {
    let stem = output.file_stem().unwrap_or_default().to_string_lossy();
    let name = match output.extension() {
        Some(extension) => format!("{stem}-p{port}.{}", extension.to_string_lossy()),
        None => format!("{stem}-p{port}"),
    };
    output.with_file_name(name)
}

/// Describes the written files, and what to do next.
fn sentence(arguments: &Arguments, pipeline: &Pipeline, files: &[Written]) -> String {
    let mut text = format!(
        "{} of {}, seed {}\n",
        counted(arguments.packets, "packet"),
        counted(arguments.flows, "flow"),
        arguments.seed
    );
    for file in files {
        text += &format!(
            "  {}: {}\n",
            file.path.display(),
            counted(file.packets, "packet")
        );
    }
    let captures = files.iter().map(|file| match file.port {
        Some(port) => format!(" --pcap {port}={}", file.path.display()),
        None => format!(" --pcap {}", file.path.display()),
    });
    let captures: String = captures.collect();
    let (kind, rules, seed) = (&pipeline.name, pipeline.rules.len(), arguments.seed);
    let shape = match &arguments.pipeline {
        PipelineArguments {
            kind: Kind::Synthetic,
            tables,
            traversals,
            ..
        } => format!(" --tables {tables} --traversals {traversals}"),
        _ => String::new(),
    };
    text += &format!(
        "To replay them:\n  thalweg generate pipeline --kind {kind}{shape} --rules {rules} \
         --seed {seed} -o {kind}.rules\n  thalweg replay --rules {kind}.rules{captures}"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_are_named_after_their_port() {
        let name = |path: &str| path_of_port(Path::new(path), 7).display().to_string();
        assert_eq!(name("a/b.pcap"), "a/b-p7.pcap");
        assert_eq!(name("b"), "b-p7");
    }
}
