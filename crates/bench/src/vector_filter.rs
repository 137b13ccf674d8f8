//! `thalweg bench forward --vector-filter`: the throughput figure of the slides on the vector Bloom
//! filter.
//!
//! Gobriel and Tai (slide *Vector Bloom Filter - Results*; `docs/papers.md`) look megaflows up in
//! 20 sub-tables with more and more flows in each. Traffic is uniform, and there is no exact-match
//! cache. They compare a search of sub-table after sub-table with one behind the filter.
//!
//! ```text
//!   for each number of megaflows in a sub-table:
//!       make two switches, which differ in nothing but the megaflow cache's classifier
//!       forward every flow several times, so that entries are there and the filter knows the flows
//!       for each sample: both forward, in turns
//! ```
//!
//! 1. Each rule has one flow and makes one megaflow. No flow is an upcall in a sample.
//! 2. The filter decides by itself whether it is asked, as it does in a switch.

use anyhow::Result;
use serde::Serialize;
use thalweg_datapath::{MegaflowClassifier, Statistics};
use thalweg_pipeline::ClassifierKind;
use thalweg_workload::MicroCase;

use super::clock::processor_time_ns;
use super::forward::arguments::Arguments;
use super::forward::bench::{Bench, READS_FIVE_TUPLE, config};
use super::picture;
use super::spread::Spread;
use thalweg_command::console::Console;
use thalweg_command::report::{Axis, Lines, Series, Shape, Table, Unit};

/// Sub-tables, as on the slide.
const MASKS: u8 = 20;

/// Megaflows in each of them.
const RULES: [u32; 5] = [100, 300, 1_000, 3_000, 10_000];

/// Packets of each flow before the first sample: the filter grows step by step up to the flows.
const ROUNDS: u64 = 16;

/// Packets before the first sample, at least.
const WARM_PACKETS: u64 = 100_000;

/// One size of sub-tables and one way to search them.
#[derive(Serialize, Debug)]
struct Row {
    masks: usize,
    rules_per_mask: u32,
    megaflows: usize,
    flows: usize,
    classifier: &'static str,
    ns_per_packet: Spread,
    packets_per_second: f64,
    /// How often as many packets as without the filter.
    gain: f64,
    /// Sub-tables in which a packet was looked for.
    subtables: f64,
    /// Of the packets, how many the filter was asked for.
    asked: f64,
    /// Of the packets in samples.
    upcalls: f64,
}

/// What the command prints with `--json`.
#[derive(Serialize, Debug)]
struct Report {
    command: &'static str,
    seed: u64,
    samples: usize,
    rows: Vec<Row>,
}

/// Measures and prints.
///
/// # Errors
/// If a switch cannot be made, the picture not be written, or the result not be printed.
pub(super) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    if let Some(path) = &arguments.plot {
        picture::check(path)?;
    }
    let progress = console.progress(RULES.len() as u64);
    let mut rows = Vec::new();
    for rules in RULES {
        progress.set_message(format!("{rules} rules of each mask"));
        rows.extend(measure(rules, arguments)?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    let title = "Cost of forwarding a packet by megaflows of 20 masks, processor time";
    let table = table(&rows);
    if let Some(path) = &arguments.plot {
        let setting = format!(
            "A flow for each megaflow, uniform, no exact-match cache; {} samples in turns; seed {}.",
            arguments.samples, arguments.seed
        );
        picture::write(path, title, &setting, &[figure(&rows)], &[&table])?;
    }
    console.headline(title)?;
    console.print(&table.to_text())?;
    console.print_json(&Report {
        command: "bench forward",
        seed: arguments.seed,
        samples: arguments.samples,
        rows,
    })
}

/// A switch under measurement.
struct Subject {
    classifier: MegaflowClassifier,
    bench: Bench,
    samples: Vec<f64>,
    /// What it had counted when the first sample began.
    before: Statistics,
}

impl Subject {
    /// A switch whose megaflow cache has an entry for each rule of the workload.
    fn new(classifier: MegaflowClassifier, workload: &MicroCase) -> Result<Subject> {
        let flows = workload.flows.len();
        let mut config = config(0, 2 * flows);
        // One mask for each table, which is what the megaflows have then.
        config.pipeline.classifier = ClassifierKind::TupleSpace;
        config.datapath.megaflow.classifier = classifier;
        let mut bench = Bench::of("vector filter", workload, READS_FIVE_TUPLE, config)?;
        bench.forward((flows as u64 * ROUNDS).max(WARM_PACKETS));
        Ok(Subject {
            classifier,
            before: bench.engine.datapath().statistics().clone(),
            bench,
            samples: Vec::new(),
        })
    }

    fn sample(&mut self, packets: u64) {
        let start = processor_time_ns();
        self.bench.forward(packets);
        let spent = processor_time_ns() - start;
        self.samples.push(spent as f64 / packets as f64);
    }
}

/// Both ways to search, in turns.
fn measure(rules: u32, arguments: &Arguments) -> Result<Vec<Row>> {
    let workload = MicroCase::sub_tables(MASKS, rules, arguments.seed)?;
    let mut subjects = [
        Subject::new(MegaflowClassifier::TupleSpace, &workload)?,
        Subject::new(MegaflowClassifier::Bloom, &workload)?,
    ];
    for _ in 0..arguments.samples {
        for subject in &mut subjects {
            subject.sample(arguments.packets);
        }
    }
    let without_ns = Spread::of(&subjects[0].samples).median;
    let rows = subjects.iter().map(|subject| {
        let (spread, datapath) = (
            Spread::of(&subject.samples),
            subject.bench.engine.datapath(),
        );
        let (before, after) = (&subject.before, datapath.statistics());
        let packets = (after.packets - before.packets) as f64;
        let share = |count: fn(&Statistics) -> u64| (count(after) - count(before)) as f64 / packets;
        Row {
            masks: datapath.mask_count(),
            rules_per_mask: rules,
            megaflows: datapath.megaflow_count(),
            flows: workload.flows.len(),
            classifier: subject.classifier.name(),
            ns_per_packet: spread,
            packets_per_second: 1e9 / spread.median,
            gain: without_ns / spread.median,
            subtables: share(|counts| counts.lookups.subtables),
            asked: share(|counts| counts.lookups.asked),
            upcalls: share(|counts| counts.upcalls),
        }
    });
    Ok(rows.collect())
}

/// The rows for people.
fn table(rows: &[Row]) -> Table {
    let mut table = Table::new("Megaflows in sub-tables, and behind the vector filter")
        .with_numbers("rules a mask")
        .with_numbers("masks")
        .with_numbers("megaflows")
        .with_words("classifier")
        .with_numbers("ns/packet")
        .with_numbers("least-most")
        .with_numbers("Mpps")
        .with_numbers("gain")
        .with_numbers("sub-tables")
        .with_numbers("filter asked");
    for row in rows {
        let Spread { median, min, max } = row.ns_per_packet;
        table.push(vec![
            row.rules_per_mask.to_string(),
            row.masks.to_string(),
            row.megaflows.to_string(),
            row.classifier.to_owned(),
            format!("{median:.1}"),
            format!("{min:.1}-{max:.1}"),
            format!("{:.2}", row.packets_per_second / 1e6),
            format!("{:.2}", row.gain),
            format!("{:.1}", row.subtables),
            format!("{:.1} %", 100.0 * row.asked),
        ]);
    }
    table
}

/// Packets a second by rules of a mask, a line for each way to search.
fn figure(rows: &[Row]) -> Lines {
    let ways = [MegaflowClassifier::TupleSpace, MegaflowClassifier::Bloom];
    let series = ways.map(|way| {
        let own = rows.iter().filter(|row| row.classifier == way.name());
        let points = own.map(|row| (f64::from(row.rules_per_mask), row.packets_per_second));
        Series {
            name: way.name().to_owned(),
            shape: Shape::MarkedLine,
            points: points.collect(),
        }
    });
    Lines {
        caption: "Packets forwarded a second by rules of each of 20 masks".to_owned(),
        note: "The axis of rules is logarithmic.".to_owned(),
        x: Axis::logarithmic("rules of a mask", Unit::Count),
        y: Axis::linear("packets a second", Unit::Count),
        series: series.into(),
        bands: Vec::new(),
    }
}
