//! `thalweg bench openflow`: measures how fast a switch follows an OpenFlow client.
//!
//! ```text
//!   client, one thread -- Unix socket --> Thalweg: server, owner, one worker with its ports
//!                                    or -> Open vSwitch: a private daemon, without traffic
//! ```
//!
//! One client drives both switches with the same bytes, in turns, so that other load of the
//! machine meets both. Times are by the wall clock, from the first byte of the requests to the
//! reply that ends them:
//!
//! | row | timed |
//! | --- | --- |
//! | singly | flow-mods in a row, with one barrier at the end |
//! | in bundles | bundles of 1,000, each committed before the next begins |
//! | own barrier | a flow-mod and a barrier, until the barrier's reply |
//! | dump | a request for all rules, until the last reply |
//!
//! Processor time is that of all threads of the switch, without the client's. Other programs
//! disturb it less.
//!
//! Then Thalweg does the same while a worker forwards packets as fast as it can. Each flow has
//! a cached entry, and the rule with a flow's number changes that flow's entry. Thalweg's
//! barrier says that no packet is answered by older rules; Open vSwitch's does not. Its dummy
//! ports cannot be given such traffic: packets come through the daemon's one main thread,
//! which also reads flow-mods. So it has no such rows.
//!
//! A packet waits at most as long as the source's port is not looked at ([`subject`]). The
//! longest such time is measured during dumps, and for as long without one. Memory is the
//! growth of the process for each rule; so that free memory of earlier work does not hide it,
//! it is measured first.

mod client;
mod flows;
mod subject;

use std::time::{Duration, Instant as Wall};

use anyhow::Result;
use indicatif::ProgressBar;
use serde::Serialize;
use thalweg_command::console::Console;
use thalweg_command::number::number;
use thalweg_command::report::{Table, format_count};
use thalweg_command::workload::DEFAULT_SEED;

use self::client::Client;
use self::subject::{Subject, Thalweg, Traffic};
use super::spread::Spread;
use crate::private_switch::{MeasuredSwitch, PrivateSwitch, SwitchProgram};

/// The command's arguments.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Flow-mods of a sample
    #[arg(
        long, value_name = "N", default_value_t = 20_000,
        value_parser = number::<u32>(1..=10_000_000)
    )]
    flows: u32,
    /// Flow-mods of a sample with a barrier each
    #[arg(
        long, value_name = "N", default_value_t = 1_000,
        value_parser = number::<u32>(1..=1_000_000)
    )]
    barriers: u32,
    /// Flow-mods of a bundle
    #[arg(
        long, value_name = "N", default_value_t = 1_000,
        value_parser = number::<u32>(1..=100_000)
    )]
    bundle: u32,
    /// Rules of a dump, one row each
    #[arg(
        long, value_name = "N,...", value_delimiter = ',', default_values_t = [100_000],
        value_parser = number::<u32>(1..=10_000_000)
    )]
    dump: Vec<u32>,
    /// Cached flows that are forwarded meanwhile; 0 for no such rows
    #[arg(
        long, value_name = "N", default_value_t = 200_000,
        value_parser = number::<usize>(..=10_000_000)
    )]
    cached: usize,
    /// Switches to measure
    #[arg(
        long, value_name = "NAME,...", value_delimiter = ',', value_enum,
        default_values_t = [MeasuredSwitch::Thalweg, MeasuredSwitch::OpenVSwitch]
    )]
    switch: Vec<MeasuredSwitch>,
    /// Number of samples
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number::<usize>(1..=1_000))]
    samples: usize,
    /// Seed of the traffic
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED, value_parser = number::<u64>(..))]
    seed: u64,
}

fn start(switch: MeasuredSwitch, arguments: &Arguments) -> Result<Subject> {
    Ok(match switch {
        MeasuredSwitch::Thalweg => {
            Subject::Thalweg(Box::new(Thalweg::start(arguments.rules(), None)?))
        }
        MeasuredSwitch::OpenVSwitch => {
            Subject::OpenVSwitch(PrivateSwitch::start(SwitchProgram::open_vswitch())?)
        }
    })
}

impl Arguments {
    /// The most rules that the client adds to a switch.
    fn rules(&self) -> usize {
        let dumps = self.dump.iter().copied();
        dumps.chain([self.flows, self.barriers]).max().unwrap_or(0) as usize
    }

    /// The sizes of dumps, the smallest first.
    fn dumps(&self) -> Vec<u32> {
        let mut sizes = self.dump.clone();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

/// One figure of one switch.
#[derive(Serialize, Debug)]
struct Row {
    /// The measured quantity.
    what: String,
    unit: &'static str,
    /// Rules that the client added.
    rules: u32,
    /// Cached flows that were forwarded meanwhile.
    cached: usize,
    switch: &'static str,
    value: Spread,
}

/// The command's output with `--json`.
#[derive(Serialize, Debug)]
struct Report {
    command: &'static str,
    seed: u64,
    samples: usize,
    /// Open vSwitch's version, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    open_vswitch: Option<String>,
    rows: Vec<Row>,
}

/// Measures and prints.
///
/// # Errors
/// If a switch cannot be started, or refuses or forgets what the client asked for.
pub(super) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let kinds = MeasuredSwitch::each_once(&arguments.switch);
    let with_traffic = arguments.cached > 0 && kinds.contains(&MeasuredSwitch::Thalweg);
    let passes = kinds.len() + usize::from(with_traffic);
    let steps = passes * (arguments.samples + arguments.dumps().len());
    let progress = console.progress(steps as u64);
    let mut bench = Bench {
        arguments,
        progress,
        rows: Vec::new(),
        cached: 0,
    };
    let mut open_vswitch = None;
    for kind in &kinds {
        let subject = start(*kind, arguments)?;
        if let Subject::OpenVSwitch(peer) = &subject {
            open_vswitch = Some(peer.version()?);
        }
        bench.read(&subject)?;
    }
    let subjects = kinds.iter().map(|kind| start(*kind, arguments));
    bench.change(&subjects.collect::<Result<Vec<_>>>()?)?;
    if with_traffic {
        let traffic = Traffic::new(arguments.cached, arguments.seed)?;
        bench.cached = arguments.cached;
        let thalweg = Thalweg::start(arguments.rules(), Some(&traffic))?;
        let subject = Subject::Thalweg(Box::new(thalweg));
        bench.change(std::slice::from_ref(&subject))?;
        bench.read(&subject)?;
    }
    bench.progress.finish_and_clear();
    console.headline("How fast a switch follows an OpenFlow client, by the wall clock")?;
    console.print(&table(&bench.rows).to_text())?;
    console.print_json(&Report {
        command: "bench openflow",
        seed: arguments.seed,
        samples: arguments.samples,
        open_vswitch,
        rows: bench.rows,
    })
}

/// The measurement under way.
struct Bench<'a> {
    arguments: &'a Arguments,
    progress: ProgressBar,
    rows: Vec<Row>,
    /// Flows that are forwarded.
    cached: usize,
}

impl Bench<'_> {
    fn push(&mut self, subject: &Subject, what: String, unit: &'static str, of: (u32, &[f64])) {
        let (rules, values) = of;
        self.rows.push(Row {
            what,
            unit,
            rules,
            cached: self.cached,
            switch: subject.name(),
            value: Spread::of(values),
        });
    }

    /// Measures memory, dumps, and how long packets wait during them.
    fn read(&mut self, subject: &Subject) -> Result<()> {
        /// Rules between two barriers.
        const SLICE: u32 = 1_000;
        let mut client = Client::connect(&subject.socket())?;
        let before = subject.resident_bytes();
        let mut known = 0;
        for count in self.arguments.dumps() {
            while known < count {
                let slice = SLICE.min(count - known);
                client.add_singly(known, slice)?;
                known += slice;
            }
            let growth = before.zip(subject.resident_bytes());
            if let (0, Some((before, after))) = (self.cached, growth) {
                let each = after.saturating_sub(before) as f64 / f64::from(count);
                let what = "memory of a rule".to_owned();
                self.push(subject, what, "bytes", (count, &[each]));
            }
            self.dump(subject, &mut client, count)?;
            self.progress.inc(1);
        }
        client.delete_all()
    }

    fn dump(&mut self, subject: &Subject, client: &mut Client, count: u32) -> Result<()> {
        let (mut times, mut spent) = (Vec::new(), Vec::new());
        let (mut waits, mut quiet) = (Vec::new(), Vec::new());
        let watched = match subject {
            Subject::Thalweg(thalweg) if self.cached > 0 => Some(thalweg),
            _ => None,
        };
        let longest_us = || watched.map(|thalweg| us(thalweg.take_longest_wait()));
        for _ in 0..self.arguments.samples {
            longest_us();
            let before = subject.processor_ns();
            let time = client.dump(count)?;
            waits.extend(longest_us());
            spent.extend(spent_us(before, subject));
            times.push(us(time) / 1e3);
            let start = Wall::now();
            longest_us();
            while watched.is_some() && start.elapsed() < time {
                std::thread::sleep(time / 16);
            }
            quiet.extend(longest_us());
        }
        self.push(
            subject,
            "dump of all rules".to_owned(),
            "ms",
            (count, &times),
        );
        if self.cached == 0 && !spent.is_empty() {
            spent
                .iter_mut()
                .for_each(|spent| *spent /= f64::from(count));
            let what = "dump, processor time of a rule".to_owned();
            self.push(subject, what, "µs", (count, &spent));
        }
        if !waits.is_empty() {
            let what = "longest wait of a packet during a dump".to_owned();
            self.push(subject, what, "µs", (count, &waits));
            let what = "longest wait for as long without a dump".to_owned();
            self.push(subject, what, "µs", (count, &quiet));
        }
        Ok(())
    }

    /// Measures flow-mods, all switches in turns.
    fn change(&mut self, subjects: &[Subject]) -> Result<()> {
        let (count, barriers) = (self.arguments.flows, self.arguments.barriers);
        let clients = subjects
            .iter()
            .map(|subject| Client::connect(&subject.socket()));
        let mut clients = clients.collect::<Result<Vec<_>>>()?;
        let mut samples: Vec<[Vec<f64>; 6]> = subjects.iter().map(|_| Default::default()).collect();
        let rate = |time: Duration| f64::from(count) / time.as_secs_f64();
        let each = |spent_us: f64| spent_us / f64::from(count);
        for _ in 0..self.arguments.samples {
            let turns = subjects.iter().zip(&mut clients).zip(&mut samples);
            for ((subject, client), [singly, bundled, median, p99, alone, together]) in turns {
                let before = subject.processor_ns();
                singly.push(rate(client.add_singly(0, count)?));
                alone.extend(spent_us(before, subject).map(each));
                client.delete_all()?;
                let before = subject.processor_ns();
                bundled.push(rate(client.add_in_bundles(count, self.arguments.bundle)?));
                together.extend(spent_us(before, subject).map(each));
                client.delete_all()?;
                let mut times = client.add_with_barriers(barriers)?;
                client.delete_all()?;
                times.sort_unstable();
                let at = |share: f64| us(times[((times.len() - 1) as f64 * share) as usize]);
                median.push(at(0.5));
                p99.push(at(0.99));
                self.progress.inc(1);
            }
        }
        let bundle = format_count(self.arguments.bundle.into());
        let about = [
            ("flow-mods, one barrier at the end".to_owned(), "1/s", count),
            (format!("flow-mods in bundles of {bundle}"), "1/s", count),
            (
                "flow-mod with its barrier, median".to_owned(),
                "µs",
                barriers,
            ),
            ("the same, 99th percentile".to_owned(), "µs", barriers),
            ("processor time of a flow-mod".to_owned(), "µs", count),
            ("processor time in bundles".to_owned(), "µs", count),
        ];
        // A worker with traffic spends all its time, whatever it does.
        let rows = if self.cached == 0 { 6 } else { 4 };
        for (place, (what, unit, rules)) in about.into_iter().enumerate().take(rows) {
            for (subject, samples) in subjects.iter().zip(&samples) {
                if !samples[place].is_empty() {
                    self.push(subject, what.clone(), unit, (rules, &samples[place]));
                }
            }
        }
        Ok(())
    }
}

/// Processor time of a switch since a reading, if the system tells it.
fn spent_us(before: Option<u64>, subject: &Subject) -> Option<f64> {
    let (before, after) = before.zip(subject.processor_ns())?;
    Some((after - before) as f64 / 1e3)
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The rows as a table.
fn table(rows: &[Row]) -> Table {
    let caption = "Median, least and most of the samples; \"cached\" are the flows that are \
                   forwarded meanwhile.";
    let table = Table::new(caption)
        .with_words("what")
        .with_words("switch")
        .with_words("unit");
    let numbers = ["rules", "cached", "median", "least", "most"];
    let table = numbers.into_iter().fold(table, Table::with_numbers);
    rows.iter().fold(table, |mut table, row| {
        let digits = |value: f64| match value {
            1_000.0.. => format_count(value.round() as u64),
            value => format!("{value:.1}"),
        };
        table.push(vec![
            row.what.clone(),
            row.switch.to_owned(),
            row.unit.to_owned(),
            format_count(row.rules.into()),
            format_count(row.cached as u64),
            digits(row.value.median),
            digits(row.value.min),
            digits(row.value.max),
        ]);
        table
    })
}
