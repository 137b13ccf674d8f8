//! `thalweg bench forward`: measures the cost of forwarding a packet, case by case.
//!
//! One worker runs between a port that repeats packets from memory and one that drops them,
//! with 64-byte UDP packets. The cost includes receiving, parsing, lookup, actions, counters
//! and sending. Times are the thread's processor time, so that other programs disturb less.
//! Each row is the median of several samples, with the smallest and the largest.
//!
//! An upcall makes an entry. The row "indexed" records what the entry depends on, as the
//! maintainers `incremental` and `barrier` need it. The other row does not, like the peer.
//!
//! A key has only the fields that the rules read. In the microflow rows, a rule that never
//! matches makes the pipeline read the five-tuple, so that the flows' keys differ. The rows
//! "as read" show the same traffic without that rule.

pub(crate) mod arguments;
pub(crate) mod bench;

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use thalweg_datapath::MaintainerKind;
use thalweg_io::{CyclePort, NullPort, Port};
use thalweg_packet::{Instant, PacketPool, PortId};
use thalweg_switch::Config;
use thalweg_workload::MicroCase;

use self::arguments::Arguments;
use self::bench::{Bench, READS_FIVE_TUPLE, config, packets_of};
use super::attack;
use super::clock::processor_time_ns;
use super::end_to_end;
use super::spread::Spread;
use super::vector_filter;
use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;

/// One row of the table.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) struct Row {
    /// The measured case.
    pub(crate) case: String,
    /// Distinct flows in the traffic.
    pub(crate) flows: u64,
    /// Masks in the megaflow cache.
    pub(crate) masks: u64,
    /// The enabled caches, or the peer.
    pub(crate) mode: String,
    /// Nanoseconds of processor time.
    pub(crate) ns_per_packet: Spread,
    /// Computed from the median.
    pub(crate) packets_per_second: f64,
    /// Bytes of a megaflow with its lookup index, in cases with many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_per_megaflow: Option<f64>,
}

/// The command's output with `--json`.
#[derive(Serialize, Debug)]
pub(crate) struct Report {
    command: &'static str,
    seed: u64,
    samples: usize,
    rows: Vec<Row>,
}

/// A case to measure.
struct Case {
    name: &'static str,
    mode: &'static str,
    workload: MicroCase,
    /// Rules in addition to the workload's.
    extra_rules: &'static str,
    config: Config,
    /// Whether every packet of a sample must be a new flow.
    is_cold: bool,
}

/// Measures and prints.
///
/// # Errors
/// If the peer's file cannot be read, or the result cannot be printed.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    if !arguments.attack.is_empty() {
        return attack::execute(&arguments.attack, arguments, console);
    }
    if arguments.vector_filter {
        return vector_filter::execute(arguments, console);
    }
    if !arguments.rules.is_empty() {
        return end_to_end::execute(arguments, console);
    }
    let report = measure_all(arguments, console)?;
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "case",
        "mode",
        "flows",
        "masks",
        "ns/packet",
        "min",
        "max",
        "Mpps",
    ]);
    for row in &report.rows {
        let ns = row.ns_per_packet;
        table.add_row([
            row.case.clone(),
            row.mode.clone(),
            row.flows.to_string(),
            row.masks.to_string(),
            format!("{:.1}", ns.median),
            format!("{:.1}", ns.min),
            format!("{:.1}", ns.max),
            format!("{:.2}", row.packets_per_second / 1e6),
        ]);
    }
    console.headline("Cost of forwarding a 64-byte packet, processor time")?;
    console.print(&table.to_string())?;
    for row in report
        .rows
        .iter()
        .filter(|row| row.bytes_per_megaflow.is_some())
    {
        let bytes = row.bytes_per_megaflow.unwrap_or_default();
        console.print(&format!(
            "{}, {}: {bytes:.0} bytes a megaflow",
            row.case, row.mode
        ))?;
    }
    console.print_json(&report)
}

fn measure_all(arguments: &Arguments, console: &Console) -> Result<Report> {
    let is_wanted = |name: &str, flows: usize| {
        arguments
            .case
            .as_ref()
            .is_none_or(|part| name.contains(part))
            && arguments.flows.is_none_or(|wanted| wanted == flows)
    };
    // Mistakes in it are reported before minutes of measuring.
    let peer = arguments.peer.as_deref().map(read_peer);
    let peer = peer.transpose()?.unwrap_or_default();
    let mut cases = cases(arguments.seed)?;
    cases.retain(|case| is_wanted(case.name, case.workload.flows.len()));
    let io_flows = [1, 4_000, 200_000].map(|flows| is_wanted("io", flows).then_some(flows));
    if cases.is_empty() && io_flows == [None; 3] {
        let what = "--case, --flows: there is no such case; see the table without them";
        return Err(bad_input(what));
    }
    let progress = console.progress(cases.len() as u64);
    let mut rows = Vec::new();
    for flows in io_flows.into_iter().flatten() {
        rows.push(measure_io(flows, arguments)?);
    }
    for case in &cases {
        progress.set_message(format!(
            "{}, {} flows",
            case.name,
            case.workload.flows.len()
        ));
        rows.push(measure(case, arguments)?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    rows.extend(peer);
    let (seed, samples) = (arguments.seed, arguments.samples);
    Ok(Report {
        command: "bench forward",
        seed,
        samples,
        rows,
    })
}

fn cases(seed: u64) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let mut add = |name, mode, workload, extra_rules, config, is_cold| {
        let workload: MicroCase = workload;
        cases.push(Case {
            name,
            mode,
            workload,
            extra_rules,
            config,
            is_cold,
        });
    };
    let interpreter = MicroCase::flows(1, seed)?;
    add(
        "interpreter",
        "no cache",
        interpreter,
        READS_FIVE_TUPLE,
        config(0, 0),
        false,
    );
    for (flows, entries) in [(1, 8_192), (4_000, 8_192), (200_000, 524_288)] {
        let workload = MicroCase::flows(flows, seed)?;
        let config = config(entries, 200_000);
        add(
            "microflow",
            "microflow",
            workload,
            READS_FIVE_TUPLE,
            config,
            false,
        );
    }
    let workload = MicroCase::flows(200_000, seed)?;
    add(
        "microflow as read",
        "microflow",
        workload,
        "",
        config(8_192, 200_000),
        false,
    );
    for masks in [1, 5, 20] {
        let workload = MicroCase::masks(masks, 100_000, seed)?;
        add(
            "megaflow",
            "megaflow",
            workload,
            READS_FIVE_TUPLE,
            config(0, 200_000),
            false,
        );
    }
    for (mode, maintainer) in [
        ("upcall", MaintainerKind::Revalidate),
        ("upcall, indexed", MaintainerKind::Incremental),
    ] {
        let workload = MicroCase::macs(200_000, seed)?;
        let mut config = config(0, 400_000);
        config.datapath.maintainer = maintainer;
        add("upcall, ten tables", mode, workload, "", config, true);
    }
    Ok(cases)
}

fn bench_of(case: &Case) -> Result<Bench> {
    let config = case.config.clone();
    Bench::of(case.name, &case.workload, case.extra_rules, config)
}

fn measure(case: &Case, arguments: &Arguments) -> Result<Row> {
    let mut samples = Vec::new();
    let mut bytes_per_megaflow = None;
    let mut masks = 0;
    let mut bench = bench_of(case)?;
    if !case.is_cold {
        bench.forward((case.workload.flows.len() as u64 * 2).max(10_000));
    }
    for _ in 0..arguments.samples {
        if case.is_cold {
            bench = bench_of(case)?;
        }
        let count = if case.is_cold {
            case.workload.flows.len() as u64
        } else {
            arguments.packets
        };
        let count = if case.mode == "no cache" {
            count / 10
        } else {
            count
        };
        let start = processor_time_ns();
        bench.forward(count);
        samples.push((processor_time_ns() - start) as f64 / count as f64);
        let datapath = bench.engine.datapath();
        masks = datapath.mask_count() as u64;
        if case.is_cold {
            let megaflows = datapath.megaflow_count() as f64;
            bytes_per_megaflow = Some(datapath.megaflow_bytes() as f64 / megaflows);
        }
    }
    let spread = Spread::of(&samples);
    Ok(Row {
        case: case.name.to_owned(),
        flows: case.workload.flows.len() as u64,
        masks,
        mode: case.mode.to_owned(),
        packets_per_second: 1e9 / spread.median,
        ns_per_packet: spread,
        bytes_per_megaflow,
    })
}

/// Measures only receiving and sending.
fn measure_io(flows: usize, arguments: &Arguments) -> Result<Row> {
    let traffic = MicroCase::flows(flows, arguments.seed)?.flows;
    let mut source = CyclePort::new(PortId(1), packets_of(traffic.into_iter()));
    let mut pool = PacketPool::with_capacity(256, 2048);
    let mut samples = Vec::new();
    for _ in 0..arguments.samples {
        let (mut sink, mut burst) = (NullPort::default(), Vec::with_capacity(32));
        let start = processor_time_ns();
        let mut sent = 0;
        while sent < arguments.packets {
            source.receive(&mut pool, &mut burst, Instant::ZERO);
            sent += burst.len() as u64;
            sink.send(&mut pool, &mut burst);
        }
        samples.push((processor_time_ns() - start) as f64 / sent as f64);
    }
    let spread = Spread::of(&samples);
    Ok(Row {
        case: "io".to_owned(),
        flows: flows as u64,
        masks: 0,
        mode: "ports only".to_owned(),
        packets_per_second: 1e9 / spread.median,
        ns_per_packet: spread,
        bytes_per_megaflow: None,
    })
}

/// Reads the rows of a peer's file.
fn read_peer(path: &Path) -> Result<Vec<Row>> {
    #[derive(Deserialize)]
    struct PeerRow {
        case: String,
        flows: u64,
        masks: u64,
        ns_per_packet: Spread,
        bytes_per_megaflow: Option<f64>,
    }
    #[derive(Deserialize)]
    struct Peer {
        peer: String,
        rows: Vec<PeerRow>,
    }
    let bad = |error: &dyn std::fmt::Display| {
        let advice = "make the file with bench/peers/ovs_dpdk.py";
        bad_input(format!("--peer {}: {error}; {advice}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| bad(&error))?;
    let peer: Peer = serde_json::from_str(&text).map_err(|error| bad(&error))?;
    let rows = peer.rows.into_iter().map(|row| Row {
        case: row.case,
        flows: row.flows,
        masks: row.masks,
        mode: peer.peer.clone(),
        packets_per_second: 1e9 / row.ns_per_packet.median,
        ns_per_packet: row.ns_per_packet,
        bytes_per_megaflow: row.bytes_per_megaflow,
    });
    Ok(rows.collect())
}
