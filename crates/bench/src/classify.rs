//! `thalweg bench classify`: measures the cost of a lookup, by classifier, set of rules and
//! traffic.
//!
//! Every classifier gets the same rules in the same words ([`set`]) and looks up the same keys
//! ([`traffic`]). Samples of all classifiers take turns, so that other load on the machine
//! affects all of them. Some answers are compared with a search of all rules ([`oracle`]),
//! which shares no code with the classifiers.
//!
//! ```text
//!   for each set:  build every classifier
//!       for each traffic, size of bursts, number of threads and rate of changes:
//!           each looks up once, untimed;  then for each sample: each looks up for a while
//!           compare;  a row for each
//! ```
//!
//! On one thread and without changes ([`lookups`]) there is no lock. With more threads or
//! changing rules ([`concurrent`]), the classifier is behind a lock, like a pipeline's tables.
//! Peers are rows beside ours ([`peer`]), measured with the rules and headers that
//! `--write-inputs` writes. [`model`] compares the vector Bloom filter with its paper's model.

mod concurrent;
mod lookups;
mod model;
mod oracle;
mod peer;
mod plot;
mod row;
mod set;
mod subject;
mod traffic;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use indicatif::ProgressBar;
use serde::Serialize;
use thalweg_classifier::Version;

use self::concurrent::{Outcome, Setting};
use self::lookups::Checks;
use self::oracle::Oracle;
use self::row::Row;
pub(super) use self::set::RuleSet;
use self::subject::{Kind, Subject};
pub(super) use self::traffic::Order;
use self::traffic::{Flows, Trace};
use super::picture;
use super::spread::Spread;
use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_command::number::{counted, number};
use thalweg_command::output::write_text;
use thalweg_command::workload::DEFAULT_SEED;

/// The command's arguments.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// ClassBench files (.xz is unpacked), rules files, or generated sets such as acl1-10k,
    /// fw1-500k [default: acl1-1k,acl1-10k,acl1-100k]
    #[arg(long, value_name = "FILE|SET,...", value_delimiter = ',')]
    rules: Vec<String>,
    /// The table of a rules file [default: the one with the most rules]
    #[arg(long, value_name = "N", value_parser = number::<u8>(..=254))]
    table: Option<u8>,
    /// Classifiers [default: all, but linear only for small sets]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    classifier: Vec<String>,
    /// Order in which flows are looked up
    #[arg(
        long, value_name = "ORDER,...", value_delimiter = ',', value_enum,
        default_values_t = [Order::Uniform]
    )]
    traffic: Vec<Order>,
    /// Number of flows, drawn from the rules
    #[arg(
        long, value_name = "N", default_value_t = 262_144,
        value_parser = number::<usize>(1..=100_000_000)
    )]
    flows: usize,
    /// Keys in a burst; 1 means single lookups
    #[arg(
        long, value_name = "N,...", value_delimiter = ',', default_values_t = [32],
        value_parser = number::<usize>(1..=4_096)
    )]
    batch: Vec<usize>,
    /// Threads that look up in the same classifier
    #[arg(
        long, value_name = "N,...", value_delimiter = ',', default_values_t = [1],
        value_parser = number::<usize>(1..=256)
    )]
    threads: Vec<usize>,
    /// Rules removed or returned per second during the lookups
    #[arg(
        long, value_name = "N,...", value_delimiter = ',', default_values_t = [0],
        value_parser = number::<u64>(..=10_000_000)
    )]
    update_rate: Vec<u64>,
    /// Samples of each row
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number::<usize>(1..=10_000))]
    samples: usize,
    /// Length of a sample; it always has at least one burst
    #[arg(
        long, value_name = "MS", default_value_t = 100, value_parser = number::<u64>(1..=600_000)
    )]
    sample_ms: u64,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED, value_parser = number::<u64>(..))]
    seed: u64,
    /// Rows of a peer, as written by bench/peers/dpdk_acl.py
    #[arg(long, value_name = "FILE")]
    peer: Vec<PathBuf>,
    /// Draw the time of a lookup against the number of rules: a picture (.svg) or a page
    /// (.html)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Compare the cost of a hit by sub-tables traversed with the model of the vector Bloom
    /// filter's paper; it uses its own rules
    #[arg(long, conflicts_with_all = ["rules", "classifier", "traffic", "peer", "write_inputs"])]
    model: bool,
    /// Measure nothing; write filters and headers for other programs to this folder
    #[arg(long, value_name = "FOLDER")]
    write_inputs: Option<PathBuf>,
}

/// The command's output with `--json`.
#[derive(Serialize, Debug)]
struct Report {
    command: &'static str,
    seed: u64,
    samples: usize,
    rows: Vec<Row>,
}

/// Lookups in a trace, which then repeats.
const TRACE_LOOKUPS: usize = 262_144;

/// Measures and prints.
///
/// # Errors
/// If an argument makes no sense, a file cannot be read or written, or the result cannot be
/// printed.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    // Mistakes are reported before minutes of measuring.
    let peers = peer::read(&arguments.peer)?;
    arguments.kinds(0)?;
    if let Some(path) = &arguments.plot {
        picture::check(path)?;
    }
    if let Some(folder) = &arguments.write_inputs {
        return write_inputs(arguments, folder, console);
    }
    if arguments.model {
        return print_model(arguments, console);
    }
    let mut rows = Vec::new();
    for name in arguments.sets() {
        rows.extend(measure_set(arguments, &name, console)?);
    }
    rows.extend(peers);
    let title = "Time of a lookup, processor time";
    let table = row::table(&rows);
    if let Some(path) = &arguments.plot {
        let setting = format!(
            "Flows are drawn evenly from the rules; {} samples; seed {}.",
            arguments.samples, arguments.seed
        );
        picture::write(path, title, &setting, &plot::pictures(&rows), &[&table])?;
    }
    console.headline(title)?;
    console.print(&table.to_text())?;
    console.print_json(&Report {
        command: "bench classify",
        seed: arguments.seed,
        samples: arguments.samples,
        rows,
    })
}

/// Prints the paper's model beside measurements.
fn print_model(arguments: &Arguments, console: &Console) -> Result<()> {
    let budget_ns = arguments.sample_ms * 1_000_000;
    let report = model::measure(arguments.samples, budget_ns, arguments.seed);
    let title = "Time of a hit by sub-tables traversed, and by the model";
    let table = report.table();
    if let Some(path) = &arguments.plot {
        let pictures = [report.picture()];
        picture::write(path, title, &report.stages(), &pictures, &[&table])?;
    }
    console.headline(title)?;
    console.print(&table.to_text())?;
    console.print(&report.stages())?;
    console.print_json(&report)
}

/// Writes the filters of each set, and headers in each order, in the format of ClassBench's
/// tools.
fn write_inputs(arguments: &Arguments, folder: &Path, console: &Console) -> Result<()> {
    if !folder.is_dir() {
        let folder = folder.display();
        return Err(bad_input(format!(
            "--write-inputs: {folder} is no folder; make it, or name another"
        )));
    }
    for name in arguments.sets() {
        let set = RuleSet::read(&name, arguments.table, arguments.seed)?;
        if set.filters.is_empty() {
            return Err(bad_input(format!(
                "--write-inputs: {name} has no filters, only rules; name a ClassBench file or set"
            )));
        }
        let flows = Flows::draw(&set, arguments.flows, arguments.seed);
        let stem = Path::new(&name).file_stem().unwrap_or_default();
        let stem = stem.display();
        let lines: String = (set.filters.iter())
            .map(|filter| format!("{filter}\n"))
            .collect();
        write_text(&folder.join(format!("{stem}.filters")), &lines)?;
        for order in &arguments.traffic {
            let lines = flows.header_lines(*order, TRACE_LOOKUPS, arguments.seed);
            let path = folder.join(format!("{stem}.{}.headers", order.name()));
            write_text(&path, &lines)?;
        }
        let (filters, rules) = (set.filters.len(), set.len());
        let (filters, rules) = (counted(filters, "filter"), counted(rules, "rule"));
        console.print(&format!("{name}: {filters}, {rules}"))?;
    }
    console.print_json(&serde_json::json!({
        "command": "bench classify",
        "folder": folder.display().to_string(),
    }))
}

/// Measures the rows of one set.
fn measure_set(arguments: &Arguments, name: &str, console: &Console) -> Result<Vec<Row>> {
    let set = RuleSet::read(name, arguments.table, arguments.seed)?;
    let kinds = arguments.kinds(set.len())?;
    let settings = arguments.settings();
    let progress = console.progress((kinds.len() * (1 + settings.len())) as u64);
    let mut subjects = Vec::new();
    for kind in kinds {
        progress.set_message(format!("{name}: building {}", kind.name()));
        subjects.push(Subject::build(kind, &set, arguments.flows, arguments.seed));
        progress.inc(1);
    }
    let flows = Flows::draw(&set, arguments.flows, arguments.seed);
    let mut bench = Bench {
        arguments,
        set: &set,
        masks: set.mask_count(),
        flows: &flows,
        checks: Checks::new(&Oracle::new(&set), &flows, Version::FIRST),
        subjects,
        progress: &progress,
    };
    let mut rows = Vec::new();
    for order in &arguments.traffic {
        let trace = flows.trace(*order, TRACE_LOOKUPS, arguments.seed);
        for setting in &settings {
            progress.set_message(format!("{name}: {} traffic", order.name()));
            rows.extend(bench.rows(*order, &trace, setting));
        }
    }
    progress.finish_and_clear();
    Ok(rows)
}

/// One set and its classifiers.
struct Bench<'a> {
    arguments: &'a Arguments,
    set: &'a RuleSet,
    masks: usize,
    flows: &'a Flows,
    checks: Checks,
    subjects: Vec<Subject>,
    progress: &'a ProgressBar,
}

impl Bench<'_> {
    /// Measures a row for each classifier.
    fn rows(&mut self, order: Order, trace: &Trace, setting: &Setting) -> Vec<Row> {
        let is_shared = setting.threads > 1 || setting.rate > 0;
        let measured = match is_shared {
            false => self.alone(trace, setting),
            true => self.shared(trace, setting),
        };
        self.progress.inc(self.subjects.len() as u64);
        let rows = self.subjects.iter().zip(measured);
        let rows = rows.map(|(subject, measured)| self.row(subject, order, setting, measured));
        let rows = rows.collect();
        if setting.rate > 0 {
            // Changed rules are in no model, so train again: the next rows then begin as these
            // did.
            for subject in &mut self.subjects {
                subject.train();
            }
        }
        rows
    }

    /// Measures on one thread, without a lock.
    fn alone(&mut self, trace: &Trace, setting: &Setting) -> Vec<Measured> {
        let budget_ns = setting.sample.as_nanos() as u64;
        let sample = |subject: &Subject, place: &mut usize, budget_ns| {
            let (classifier, version) = (subject.classifier(), subject.version);
            lookups::sample(classifier, version, trace, setting.batch, place, budget_ns)
        };
        let mut places = vec![0; self.subjects.len()];
        for (subject, place) in self.subjects.iter().zip(&mut places) {
            sample(subject, place, 2 * budget_ns);
        }
        self.subjects.iter_mut().for_each(Subject::choose);
        let mut samples = vec![Vec::new(); self.subjects.len()];
        for _ in 0..self.arguments.samples {
            let subjects = self.subjects.iter().zip(&mut places);
            for ((subject, place), samples) in subjects.zip(&mut samples) {
                samples.push(sample(subject, place, budget_ns));
            }
        }
        let measured = samples
            .iter()
            .zip(&self.subjects)
            .map(|(samples, subject)| {
                let spread = Spread::of(samples);
                Measured {
                    ns_per_lookup: spread,
                    lookups_per_second: 1e9 / spread.median,
                    updates: None,
                    trainings: 0,
                    longest_slice_us: 0.0,
                    checked: self.checks.len(),
                    wrong: self.checks.wrong(subject.classifier(), subject.version),
                }
            });
        measured.collect()
    }

    /// Measures behind a lock.
    fn shared(&mut self, trace: &Trace, setting: &Setting) -> Vec<Measured> {
        let mut outcomes: Vec<Vec<Outcome>> = Vec::new();
        outcomes.resize_with(self.subjects.len(), Vec::new);
        // The first sample warms up and is not counted.
        for _ in 0..=self.arguments.samples {
            let subjects = std::mem::take(&mut self.subjects).into_iter();
            for (subject, outcomes) in subjects.zip(&mut outcomes) {
                let (subject, outcome) = concurrent::sample(subject, self.set, trace, setting);
                self.subjects.push(subject);
                outcomes.push(outcome);
            }
        }
        let measured = outcomes.iter().zip(&self.subjects);
        let measured = measured.map(|(outcomes, subject)| {
            let of = |value: fn(&Outcome) -> f64| {
                let values: Vec<f64> = outcomes[1..].iter().map(value).collect();
                Spread::of(&values)
            };
            let (kept, wrong) = concurrent::check(outcomes, subject, self.set, trace);
            let afterwards = self.checks.wrong(subject.classifier(), subject.version);
            Measured {
                ns_per_lookup: of(|outcome| outcome.ns_per_lookup),
                lookups_per_second: of(|outcome| outcome.lookups_per_second).median,
                updates: Some((
                    of(|outcome| outcome.updates_per_second).median,
                    of(|outcome| outcome.update_ns).median,
                )),
                trainings: outcomes.iter().map(|outcome| outcome.trainings).sum(),
                longest_slice_us: outcomes
                    .iter()
                    .map(|outcome| outcome.longest_slice_us)
                    .fold(0.0, f64::max),
                checked: kept + self.checks.len(),
                wrong: wrong + afterwards,
            }
        });
        measured.collect()
    }

    fn row(&self, subject: &Subject, order: Order, setting: &Setting, measured: Measured) -> Row {
        let memory_bytes = subject.classifier().memory_bytes();
        let filters = self.set.filters.len();
        Row {
            set: self.set.name.clone(),
            rules: self.set.len(),
            filters: (filters > 0).then_some(filters),
            masks: Some(self.masks),
            classifier: subject.kind.name().to_owned(),
            traffic: order.name().to_owned(),
            flows: Some(self.flows.len()),
            batch: setting.batch,
            threads: setting.threads,
            update_rate: setting.rate,
            ns_per_lookup: measured.ns_per_lookup,
            lookups_per_second: Some(measured.lookups_per_second),
            build_ms: Some(subject.build_ms),
            training_ms: subject.training_ms,
            memory_bytes: Some(memory_bytes),
            bytes_per_rule: Some(memory_bytes as f64 / self.set.len() as f64),
            coverage: subject.coverage(),
            tables: subject.tables(),
            checked: Some(measured.checked),
            wrong: Some(measured.wrong),
            updates_per_second: measured.updates.map(|(rate, _)| rate),
            update_ns: measured.updates.map(|(_, ns)| ns),
            chosen: subject.chosen().map(str::to_owned),
            details: subject.details(measured.trainings, measured.longest_slice_us),
        }
    }
}

/// The results of one classifier.
struct Measured {
    ns_per_lookup: Spread,
    lookups_per_second: f64,
    /// Updates per second, and nanoseconds per update.
    updates: Option<(f64, f64)>,
    /// Trainings that finished during the samples.
    trainings: usize,
    /// The longest slice of a training under the lock.
    longest_slice_us: f64,
    checked: usize,
    wrong: usize,
}

impl Arguments {
    fn sets(&self) -> Vec<String> {
        if self.rules.is_empty() {
            return ["acl1-1k", "acl1-10k", "acl1-100k"]
                .map(str::to_owned)
                .to_vec();
        }
        self.rules.clone()
    }

    fn kinds(&self, rules: usize) -> Result<Vec<Kind>> {
        if self.classifier.is_empty() {
            return Ok(Kind::usual(rules));
        }
        let kinds = self.classifier.iter().map(|name| {
            let kind = name.parse::<Kind>();
            kind.map_err(|error| bad_input(format!("--classifier: {error}")))
        });
        kinds.collect()
    }

    /// Every combination of burst size, number of threads and rate of changes.
    fn settings(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        for &batch in &self.batch {
            for &threads in &self.threads {
                for &rate in &self.update_rate {
                    settings.push(Setting {
                        batch,
                        threads,
                        rate,
                        sample: Duration::from_millis(self.sample_ms),
                        seed: self.seed,
                    });
                }
            }
        }
        settings
    }
}
