//! `thalweg bench forward --rules`: measures the cost of forwarding with many rules, by mode.
//!
//! A switch with the rules of a set (ClassBench's or generated) forwards 64-byte packets of
//! flows that these rules match. One port repeats the packets, another drops them. Each mode
//! answers the same packets:
//!
//! ```text
//!   megaflows            exact-match cache, then wildcarded entries, then upcalls
//!   computational-flows  exact-match cache, then the rules
//! ```
//!
//! Tables and megaflows use each of the given classifiers. Before the samples begin, the whole
//! traffic passes once, so that caches are as full as they get. With `--update-rate`, single
//! rules are removed and return during the samples. The worker's time to follow is counted;
//! the control side's time is not, since it runs on another thread.
//!
//! With `--workers`, a running switch does the same, measured by the wall clock (`workers`).
//! It removes or returns all rules that are due in one change.

pub(crate) mod load;
mod plot;

use anyhow::{Context, Result};
use serde::Serialize;
use thalweg_datapath::{MegaflowClassifier, Mode};
use thalweg_io::{CyclePort, NullPort, Port};
use thalweg_packet::{Instant, Packet, PortId};
use thalweg_pipeline::{Change, ClassifierKind};
use thalweg_switch::{Engine, Step};

use self::load::{Load, PORTS, TRAFFIC, Updates, Variant, limits};
use super::classify::Order;
use super::clock::processor_time_ns;
use super::forward::arguments::Arguments;
use super::spread::Spread;
use super::{picture, workers};
use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::lookups::LookupsReport;
use thalweg_command::report::{Table, format_count};

/// Packets between two readings of the clock.
const BURST: usize = 32;

/// One set, mode, classifier, traffic and rate.
#[derive(Serialize, Debug)]
struct Row {
    case: String,
    rules: usize,
    flows: usize,
    masks: usize,
    mode: &'static str,
    classifier: &'static str,
    megaflow_classifier: &'static str,
    traffic: &'static str,
    update_rate: u64,
    ns_per_packet: Spread,
    packets_per_second: f64,
    /// Nanoseconds per packet of each sample, in order.
    over_time_ns: Vec<f64>,
    /// These are shares of the packets in the samples.
    microflow_hits: f64,
    megaflow_hits: f64,
    upcalls: f64,
    computed: f64,
    /// Sub-tables searched per packet, including those that the first layer named.
    subtables: f64,
    /// How tables and megaflows are searched, after the samples.
    lookups: LookupsReport,
    /// Time to load the rules, including trainings.
    load_ms: f64,
}

impl Row {
    /// Describes how packets are answered.
    fn way(&self) -> String {
        match self.mode {
            "megaflows" => format!("{}, {}", self.classifier, self.megaflow_classifier),
            mode => format!("{}, {mode}", self.classifier),
        }
    }
}

#[derive(Serialize, Debug)]
struct Report {
    command: &'static str,
    seed: u64,
    rows: Vec<Row>,
    /// Rows of a running switch, by number of workers.
    running: Vec<workers::Row>,
}

/// Measures and prints.
///
/// # Errors
/// If an argument makes no sense, a file cannot be read, or the result cannot be printed.
pub(super) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let modes = parse(&arguments.mode, &Mode::ALL, "--mode")?;
    let classifiers = parse(
        &arguments.classifier,
        &[ClassifierKind::Auto],
        "--classifier",
    )?;
    let megaflows = parse(
        &arguments.megaflow_classifier,
        &[MegaflowClassifier::Auto],
        "--megaflow-classifier",
    )?;
    if let Some(path) = &arguments.plot {
        picture::check(path)?;
    }
    let variants = variants(&modes, &classifiers, &megaflows);
    let steps = arguments.rules.len() * variants.len() * arguments.workers.len().max(1);
    let progress = console.progress((steps * arguments.traffic.len()) as u64);
    let (mut rows, mut running) = (Vec::new(), Vec::new());
    for name in &arguments.rules {
        let load = Load::read(name, arguments)?;
        for order in &arguments.traffic {
            let packets = load.traffic(*order, arguments.seed)?;
            for variant in &variants {
                let (mode, tables) = (variant.mode.name(), variant.tables.name());
                progress.set_message(format!("{name}: {mode}, {tables}"));
                if arguments.workers.is_empty() {
                    rows.push(measure(&load, *order, &packets, *variant, arguments)?);
                    progress.inc(1);
                }
                for &workers in &arguments.workers {
                    let row =
                        workers::measure(&load, *order, &packets, *variant, workers, arguments)?;
                    running.push(row);
                    progress.inc(1);
                }
            }
        }
    }
    progress.finish_and_clear();
    let title = match arguments.workers.is_empty() {
        true => "Cost of forwarding a 64-byte packet through many rules, processor time",
        false => "Throughput of a running switch, 64-byte packets through many rules",
    };
    let table = match arguments.workers.is_empty() {
        true => table(&rows),
        false => workers::table(&running),
    };
    if let Some(path) = &arguments.plot {
        let pictures = plot::pictures(&rows, &running);
        picture::write(path, title, "", &pictures, &[&table])?;
    }
    console.headline(title)?;
    console.print(&table.to_text())?;
    console.print_json(&Report {
        command: "bench forward",
        seed: arguments.seed,
        rows,
        running,
    })
}

/// The requested variants; the megaflows' classifier matters only with megaflows.
fn variants(
    modes: &[Mode],
    tables: &[ClassifierKind],
    megaflows: &[MegaflowClassifier],
) -> Vec<Variant> {
    let mut variants = Vec::new();
    for &mode in modes {
        let megaflows = match mode {
            Mode::Megaflows => megaflows,
            Mode::ComputationalFlows => &megaflows[..1],
        };
        for &tables in tables {
            variants.extend(megaflows.iter().map(|&megaflows| Variant {
                mode,
                tables,
                megaflows,
            }));
        }
    }
    variants
}

fn parse<T: std::str::FromStr<Err: std::fmt::Display> + Copy>(
    names: &[String],
    default: &[T],
    argument: &str,
) -> Result<Vec<T>> {
    if names.is_empty() {
        return Ok(default.to_vec());
    }
    let parse = |name: &String| {
        let kind = name.parse::<T>();
        kind.map_err(|error| bad_input(format!("{argument}: {error}")))
    };
    names.iter().map(parse).collect()
}

fn measure(
    load: &Load,
    order: Order,
    packets: &[Packet],
    variant: Variant,
    arguments: &Arguments,
) -> Result<Row> {
    let config = limits(load, variant, arguments);
    let mut engine = Engine::new(config)?;
    for port in 1..=1 + PORTS {
        engine.add_port(PortId(port), Instant::ZERO);
    }
    let start = processor_time_ns();
    let change = Change::adding(load.flows.iter().cloned());
    engine.apply(&change, Instant::ZERO)?;
    let load_ms = (processor_time_ns() - start) as f64 / 1e6;
    let mut bench = Bench {
        engine,
        source: CyclePort::new(PortId(1), packets.to_vec()),
        sink: NullPort::default(),
        received: Vec::with_capacity(BURST),
        sending: Vec::with_capacity(BURST),
        updates: Updates::new(load, arguments),
    };
    bench.forward(TRAFFIC as u64, 0)?;
    bench.engine.train();
    let before = bench.engine.datapath().statistics().clone();
    let mut samples = Vec::new();
    for _ in 0..arguments.samples {
        let ns = bench.forward(arguments.packets, arguments.update_rate)?;
        samples.push(ns as f64 / arguments.packets as f64);
    }
    let after = bench.engine.datapath().statistics();
    let caches = [bench.engine.datapath().choice()];
    let lookups = LookupsReport::new(&bench.engine.pipeline(), &caches, after);
    let count = (after.packets - before.packets) as f64;
    let share = |after: u64, before: u64| (after - before) as f64 / count;
    let spread = Spread::of(&samples);
    Ok(Row {
        case: load.name.clone(),
        rules: load.flows.len(),
        flows: load.packets.len(),
        masks: bench.engine.datapath().mask_count(),
        mode: variant.mode.name(),
        classifier: variant.tables.name(),
        megaflow_classifier: variant.megaflows.name(),
        traffic: order.name(),
        update_rate: arguments.update_rate,
        ns_per_packet: spread,
        packets_per_second: 1e9 / spread.median,
        over_time_ns: samples,
        microflow_hits: share(after.microflow.hits, before.microflow.hits),
        megaflow_hits: share(after.megaflow.hits, before.megaflow.hits),
        upcalls: share(after.upcalls, before.upcalls),
        computed: share(after.computed, before.computed),
        subtables: share(after.lookups.subtables, before.lookups.subtables),
        lookups,
        load_ms,
    })
}

/// A switch between a source and a sink in memory.
struct Bench {
    engine: Engine,
    source: CyclePort,
    sink: NullPort,
    received: Vec<Packet>,
    sending: Vec<Packet>,
    updates: Updates,
}

impl Bench {
    /// Forwards `packets` packets while rules change `update_rate` times per second of that
    /// time. Returns the worker's time.
    fn forward(&mut self, packets: u64, update_rate: u64) -> Result<u64> {
        let (mut forwarded, mut spent_ns, mut updates) = (0, 0, 0);
        let mut start = processor_time_ns();
        while forwarded < packets {
            let pool = &mut self.engine.outbox().pool;
            self.source.receive(pool, &mut self.received, Instant::ZERO);
            forwarded += self.received.len() as u64;
            self.engine.forward(&mut self.received, Instant::ZERO);
            let outbox = self.engine.outbox();
            let sent = outbox.sent.drain(..).map(|(_, packet)| packet);
            self.sending.extend(sent);
            self.sink.send(&mut outbox.pool, &mut self.sending);
            if update_rate == 0 {
                continue;
            }
            spent_ns += processor_time_ns() - start;
            while updates < spent_ns * update_rate / 1_000_000_000 {
                let change = self.updates.next();
                let started = self.engine.start(&change, Instant::ZERO);
                started.context("a generated change")?;
                let start = processor_time_ns();
                while !matches!(self.engine.step(), Step::Settled(_)) {}
                spent_ns += processor_time_ns() - start;
                updates += 1;
            }
            self.engine.train();
            start = processor_time_ns();
        }
        if update_rate == 0 {
            spent_ns = processor_time_ns() - start;
        }
        Ok(spent_ns)
    }
}

fn table(rows: &[Row]) -> Table {
    let caption = "Shares are of the packets in the samples.";
    let table = Table::new(caption)
        .with_words("set")
        .with_words("mode")
        .with_words("tables")
        .with_words("megaflows")
        .with_words("traffic");
    let titles = [
        "rules",
        "masks",
        "updates/s",
        "ns/packet",
        "min",
        "max",
        "Mpps",
        "microflow",
        "megaflow",
        "upcalls",
        "computed",
        "sub-tables",
    ];
    let table = titles.into_iter().fold(table, Table::with_numbers);
    rows.iter().fold(table, |mut table, row| {
        let ns = row.ns_per_packet;
        let share = |share: f64| format!("{:.1} %", 100.0 * share);
        table.push(vec![
            row.case.clone(),
            row.mode.to_owned(),
            row.classifier.to_owned(),
            row.megaflow_classifier.to_owned(),
            row.traffic.to_owned(),
            format_count(row.rules as u64),
            format_count(row.masks as u64),
            format_count(row.update_rate),
            format!("{:.0}", ns.median),
            format!("{:.0}", ns.min),
            format!("{:.0}", ns.max),
            format!("{:.2}", row.packets_per_second / 1e6),
            share(row.microflow_hits),
            share(row.megaflow_hits),
            share(row.upcalls),
            share(row.computed),
            format!("{:.1}", row.subtables),
        ]);
        table
    })
}
