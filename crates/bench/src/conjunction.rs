//! `thalweg bench conjunction`: measures conjunctive matches of three dimensions.
//!
//! A switch allows the packets of any of some sources, to any of some destinations, to any of some
//! ports. Two sets of rules say so: `conjunction`, a rule for each clause, and `expanded`, a rule
//! for each combination, as controllers write without `conjunction`. `expanded` is measured up to
//! [`MOST_EXPANDED`] rules.
//!
//! - *Memory.* Tables and their indexes, as the pipeline counts them.
//! - *A packet that no cache answers.* The caches are off; one packet in two has a port of no
//!   clause. Every packet must go where the clauses say, or the command fails.
//! - *A change of one clause.* A source leaves and comes back while `--flows` flows are cached:
//!   one rule, or all with that source. Until all entries are right again.
//!
//! Times are the thread's processor time.

use std::net::Ipv4Addr;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use thalweg_command::console::Console;
use thalweg_command::input;
use thalweg_command::number::number;
use thalweg_command::report::{Table, format_count};
use thalweg_command::workload::DEFAULT_SEED;
use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_packet::{BURST, Instant, Packet, PortId};
use thalweg_pipeline::{Change, text};
use thalweg_switch::{Config, Engine};

use super::clock::processor_time_ns;
use super::spread::Spread;

/// Most rules that are written out.
const MOST_EXPANDED: usize = 200_000;
/// The first port of the clauses; as many behind them are ports of no clause.
const FIRST_PORT: usize = 1_000;

/// The command's arguments.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Clauses: sources x destinations x ports
    #[arg(
        long, value_name = "AxBxC,...", value_delimiter = ',',
        default_values_t = [Sizes([100, 100, 10]), Sizes([1_000, 1_000, 100])]
    )]
    sizes: Vec<Sizes>,
    /// Packets in each sample
    #[arg(
        long, value_name = "N", default_value_t = 100_000,
        value_parser = number::<usize>(100..=100_000_000)
    )]
    packets: usize,
    /// Flows in the caches while clauses change
    #[arg(
        long, value_name = "N", default_value_t = 10_000,
        value_parser = number::<usize>(1..=1_000_000)
    )]
    flows: usize,
    /// Changes in each sample
    #[arg(
        long, value_name = "N", default_value_t = 100,
        value_parser = number::<usize>(1..=100_000)
    )]
    changes: usize,
    /// Samples for each row
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = number::<usize>(1..=1_000))]
    samples: usize,
    /// Seed of the packets
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED, value_parser = number::<u64>(..))]
    seed: u64,
}

/// How many clauses each dimension has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sizes([usize; 3]);

/// How the rules say which packets are allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// By conjunctive matches.
    Conjunction,
    /// With a rule for each combination.
    Expanded,
}

/// One figure.
#[derive(Serialize, Debug)]
struct Row {
    what: &'static str,
    rules: &'static str,
    clauses: String,
    /// How many rules that are.
    rule_count: usize,
    unit: &'static str,
    value: Spread,
}

/// The command's output with `--json`.
#[derive(Serialize, Debug)]
struct Report {
    command: &'static str,
    seed: u64,
    samples: usize,
    rows: Vec<Row>,
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        let numbers: Result<Vec<usize>, _> = text.split('x').map(str::parse).collect();
        let sizes: Option<[usize; 3]> = numbers.ok().and_then(|numbers| numbers.try_into().ok());
        // An address has room for 65,536, and half of the ports are of no clause.
        let fits = |sizes: &[usize; 3]| sizes.iter().all(|size| (1..=30_000).contains(size));
        let sizes = sizes.filter(fits);
        sizes.map(Sizes).ok_or_else(|| {
            "clauses are three numbers from 1 to 30000, such as 1000x1000x100".to_owned()
        })
    }
}

impl std::fmt::Display for Sizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Sizes([sources, destinations, ports]) = self;
        write!(f, "{sources}x{destinations}x{ports}")
    }
}

/// The address with this number in a network of 16 bits.
fn address(network: u8, index: usize) -> Ipv4Addr {
    let [_, _, high, low] = (index as u32).to_be_bytes();
    Ipv4Addr::new(10, network, high, low)
}

impl Sizes {
    fn combinations(self) -> usize {
        self.0.iter().product()
    }

    /// The rules that allow what the clauses say.
    fn rules(self, form: Form) -> String {
        let Sizes([sources, destinations, ports]) = self;
        let mut lines = match form {
            Form::Conjunction => {
                let clause = |matched: String, dimension: usize| {
                    format!("priority=100,{matched},actions=conjunction(1,{dimension}/3)")
                };
                let mut lines: Vec<String> = (0..sources)
                    .map(|index| clause(format!("ip,nw_src={}", address(1, index)), 1))
                    .collect();
                lines.extend(
                    (0..destinations)
                        .map(|index| clause(format!("ip,nw_dst={}", address(2, index)), 2)),
                );
                lines.extend(
                    (0..ports).map(|index| clause(format!("tcp,tp_dst={}", FIRST_PORT + index), 3)),
                );
                lines.push("priority=100,ip,conj_id=1,actions=output:2".to_owned());
                lines
            }
            Form::Expanded => (0..sources)
                .flat_map(|source| self.of_source(source))
                .collect(),
        };
        lines.push("priority=0,actions=drop".to_owned());
        lines.join("\n")
    }

    /// The expanded rules with a source.
    fn of_source(self, source: usize) -> Vec<String> {
        let Sizes([_, destinations, ports]) = self;
        let pairs = (0..destinations).flat_map(|there| (0..ports).map(move |port| (there, port)));
        let rules = pairs.map(|(destination, port)| {
            format!(
                "priority=100,tcp,nw_src={},nw_dst={},tp_dst={},actions=output:2",
                address(1, source),
                address(2, destination),
                FIRST_PORT + port
            )
        });
        rules.collect()
    }

    /// A packet from a source, and whether it is allowed.
    fn packet(self, random: &mut Pcg64Mcg) -> (Packet, bool) {
        let Sizes([sources, destinations, ports]) = self;
        let source = address(1, random.random_range(0..sources));
        let destination = address(2, random.random_range(0..destinations));
        let port = random.random_range(0..2 * ports);
        let frame = PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]))
            .ipv4(source, destination)
            .tcp(
                random.random_range(1_024..=65_535),
                (FIRST_PORT + port) as u16,
            )
            .pad_to(60);
        let mut packet = Packet::from_bytes(&frame.build());
        packet.set_received(PortId(1), Instant::ZERO);
        (packet, port < ports)
    }
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Form::Conjunction => "conjunction",
            Form::Expanded => "expanded",
        }
    }

    /// The changes that take a source out and put it in again.
    ///
    /// # Errors
    /// If the rules cannot be read.
    fn change(self, sizes: Sizes, source: usize) -> Result<[Change; 2]> {
        let matched = format!("ip,nw_src={}", address(1, source));
        let delete = match self {
            Form::Conjunction => format!("delete_strict priority=100,{matched}"),
            Form::Expanded => format!("delete tcp,nw_src={}", address(1, source)),
        };
        let rules = match self {
            Form::Conjunction => vec![format!("priority=100,{matched},actions=conjunction(1,1/3)")],
            Form::Expanded => sizes.of_source(source),
        };
        let adds: String = rules.iter().map(|rule| format!("add {rule}\n")).collect();
        let both = format!("bundle {{\n{delete}\n}}\nbundle {{\n{adds}}}");
        let read = text::parse_changes("clauses", &both).map_err(input::faults)?;
        let changes: Vec<Change> = read.into_iter().map(|placed| placed.change).collect();
        changes.try_into().ok().context("there are two changes")
    }
}

/// A switch with rules, whose caches have room or not.
fn switch(rules: &str, has_caches: bool) -> Result<Engine> {
    let mut config = Config::default();
    config.pipeline.rules = config.pipeline.rules.max(2 * MOST_EXPANDED);
    if !has_caches {
        (
            config.datapath.microflow.entries,
            config.datapath.megaflow.entries,
        ) = (0, 0);
    }
    let mut engine = Engine::new(config)?;
    for port in [1, 2] {
        engine.add_port(PortId(port), Instant::ZERO);
    }
    let rules = text::parse_rules("clauses", rules).map_err(input::faults)?;
    engine.apply(&rules.into_change(), Instant::ZERO)?;
    engine.outbox().grows = true;
    Ok(engine)
}

/// Forwards packets; gives the time of one, in nanoseconds.
///
/// # Errors
/// If another number leaves than may.
fn forward(engine: &mut Engine, packets: Vec<(Packet, bool)>) -> Result<f64> {
    let count = packets.len();
    let mut allowed = 0;
    let mut bursts: Vec<Vec<Packet>> = Vec::with_capacity(count.div_ceil(BURST));
    for (index, (packet, is_allowed)) in packets.into_iter().enumerate() {
        allowed += usize::from(is_allowed);
        if index % BURST == 0 {
            bursts.push(Vec::with_capacity(BURST));
        }
        bursts[index / BURST].push(packet);
    }
    let mut left = 0;
    let start = processor_time_ns();
    for mut burst in bursts {
        engine.forward(&mut burst, Instant::ZERO);
        left += engine.outbox().sent.drain(..).count();
    }
    let spent = processor_time_ns() - start;
    ensure!(
        left == allowed,
        "{left} packets left the switch, not {allowed}: a fault of this program"
    );
    Ok(spent as f64 / count as f64)
}

/// Measures one form of one size.
fn measure(form: Form, sizes: Sizes, arguments: &Arguments, rows: &mut Vec<Row>) -> Result<()> {
    let rules = sizes.rules(form);
    let rule_count = rules.lines().count();
    let mut push = |what, unit, values: &[f64]| {
        rows.push(Row {
            what,
            rules: form.name(),
            clauses: sizes.to_string(),
            rule_count,
            unit,
            value: Spread::of(values),
        });
    };
    let mut random = Pcg64Mcg::seed_from_u64(arguments.seed);
    let mut packets = |count| {
        (0..count)
            .map(|_| sizes.packet(&mut random))
            .collect::<Vec<_>>()
    };
    let mut engine = switch(&rules, false)?;
    let bytes = engine.pipeline().memory_bytes();
    push("memory of the rules", "bytes", &[bytes as f64]);
    forward(&mut engine, packets(arguments.packets))?;
    let mut samples = Vec::new();
    for _ in 0..arguments.samples {
        samples.push(forward(&mut engine, packets(arguments.packets))?);
    }
    push("packet that no cache answers", "ns", &samples);
    let mut engine = switch(&rules, true)?;
    forward(&mut engine, packets(arguments.flows))?;
    let mut samples = Vec::new();
    for sample in 0..arguments.samples {
        let first = sample * arguments.changes;
        let sources = (first..first + arguments.changes).map(|index| index % sizes.0[0]);
        let changes: Result<Vec<[Change; 2]>> =
            sources.map(|source| form.change(sizes, source)).collect();
        let mut spent = 0;
        for change in changes?.iter().flatten() {
            let start = processor_time_ns();
            engine.apply(change, Instant::ZERO)?;
            engine.settle();
            spent += processor_time_ns() - start;
        }
        samples.push(spent as f64 / (2 * arguments.changes) as f64 / 1_000.0);
        forward(&mut engine, packets(arguments.flows))?;
    }
    push("change of one clause", "µs", &samples);
    Ok(())
}

/// Measures and prints.
///
/// # Errors
/// If packets go where they must not, or the result cannot be printed.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let progress = console.progress(2 * arguments.sizes.len() as u64);
    let mut rows = Vec::new();
    for sizes in &arguments.sizes {
        for form in [Form::Conjunction, Form::Expanded] {
            if form == Form::Conjunction || sizes.combinations() <= MOST_EXPANDED {
                measure(form, *sizes, arguments, &mut rows)?;
            }
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    console.headline("Conjunctive matches, processor time")?;
    console.print(&table(&rows).to_text())?;
    console.print_json(&Report {
        command: "bench conjunction",
        seed: arguments.seed,
        samples: arguments.samples,
        rows,
    })
}

/// The rows as a table.
fn table(rows: &[Row]) -> Table {
    let caption = "Median, least and most of the samples; \"expanded\" has a rule for each \
                   combination.";
    let words = ["what", "rules", "clauses", "unit"];
    let table = words
        .into_iter()
        .fold(Table::new(caption), Table::with_words);
    let numbers = ["number", "median", "least", "most"];
    let mut table = numbers.into_iter().fold(table, Table::with_numbers);
    for row in rows {
        let digits = |value: f64| match value {
            1_000.0.. => format_count(value.round() as u64),
            value => format!("{value:.1}"),
        };
        let words = [row.what, row.rules, &row.clauses, row.unit];
        let mut cells: Vec<String> = words.map(str::to_owned).into();
        cells.push(format_count(row.rule_count as u64));
        let Spread { median, min, max } = row.value;
        cells.extend([median, min, max].map(digits));
        table.push(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_three_numbers() {
        let sizes: Sizes = "7x8x9".parse().unwrap();
        assert_eq!(
            (sizes, sizes.to_string()),
            (Sizes([7, 8, 9]), "7x8x9".into())
        );
        for text in ["", "7x8", "7x8x9x1", "0x1x1", "1x1x30001", "axbxc"] {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
    }
}
