//! `thalweg bench update`: what a change of one rule costs, by maintainer and size of the cache.
//!
//! The cache is filled by flows through a generated pipeline. Then single rules are changed, drawn
//! from those that packets have met: one is deleted, comes back, or gets the actions of another
//! that leads to the same table. Each change is timed from its submission until no packet can be
//! answered by an older version, in processor time; here the repair is over by then. Between two
//! changes some packets are forwarded, each of them compared with the interpreter.
//!
//! A rule that many entries met costs more than one that few met, whatever the maintainer. So rows
//! are told apart by how many entries the change affected: at equal numbers, a maintainer that does
//! not look at the others takes the same time in a small cache and in a large one.

use anyhow::{Context, Result};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use thalweg_datapath::MaintainerKind;
use thalweg_packet::{Instant, Packet, PortId};
use thalweg_pipeline::{Action, Change, Flow, Operation, RuleId, Selector, text};
use thalweg_switch::{Config, Engine, Update};
use thalweg_workload::{FlowConfig, FlowSource, Pipeline};

use super::clock::processor_time_ns;
use crate::console::Console;
use crate::failure::bad_input;
use crate::number::number;
use crate::workload::{DEFAULT_SEED, PipelineArguments};

/// What the command takes.
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pipeline: PipelineArguments,
    /// Entries in the cache, one row each
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_values_t = [10_000, 100_000],
        value_parser = number::<usize>(32..=100_000_000)
    )]
    entries: Vec<usize>,
    /// Maintainers
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        default_values_t = ["incremental".to_owned(), "barrier".to_owned(), "revalidate".to_owned()]
    )]
    maintainer: Vec<String>,
    /// Changes for each row
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = number::<usize>(3..))]
    updates: usize,
    /// Processor time after which a row has changes enough
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = number::<u64>(..))]
    seconds: u64,
    /// Packets forwarded, and compared with the interpreter, after each change
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = number::<usize>(..))]
    packets: usize,
    /// Seed of everything
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED, value_parser = number::<u64>(..))]
    seed: u64,
}

/// What the command prints with `--json`.
#[derive(Serialize, Debug)]
struct Report {
    command: &'static str,
    seed: u64,
    pipeline: String,
    rules: usize,
    rows: Vec<Row>,
}

/// One maintainer, one size, one class of changes.
#[derive(Serialize, Debug)]
struct Row {
    maintainer: String,
    entries: usize,
    /// Which changes: by the number of entries that they affected.
    class: &'static str,
    updates: usize,
    /// In the mean.
    affected: f64,
    time_to_update_us: Quantiles,
    time_to_repair_us: Quantiles,
    /// In the mean.
    falsely_affected: f64,
    microseconds_per_affected: Option<f64>,
    cache_bytes_per_entry: f64,
    dependency_bytes_per_entry: f64,
    packets: u64,
    stale_packets: u64,
}

#[derive(Clone, Copy, Serialize, Debug)]
struct Quantiles {
    median: f64,
    p99: f64,
    max: f64,
}

impl Quantiles {
    fn of(mut times: Vec<f64>) -> Quantiles {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        Quantiles {
            median: at(0.5),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

/// Changes by how many entries they affected: from, to.
const CLASSES: [(&str, u64, u64); 6] = [
    ("all", 0, u64::MAX),
    ("0", 0, 0),
    ("1", 1, 1),
    ("5 to 20", 5, 20),
    ("50 to 200", 50, 200),
    ("more", 201, u64::MAX),
];

/// Changes that a row must have.
const ROW_MIN: usize = 3;

/// Rules that are away at a time.
const AWAY_MAX: usize = 16;

/// Measures and prints.
///
/// # Errors
/// If an argument makes no sense, or the result cannot be printed.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let kinds = arguments.maintainer.iter().map(|name| {
        let kind = name.parse::<MaintainerKind>();
        kind.map_err(|error| bad_input(format!("--maintainer: {error}")))
    });
    let kinds: Vec<MaintainerKind> = kinds.collect::<Result<_>>()?;
    let pipeline = arguments.pipeline.generate(arguments.seed)?;
    let total = kinds.len() * arguments.entries.len() * arguments.updates;
    let progress = console.progress(total as u64);
    let mut rows = Vec::new();
    for entries in &arguments.entries {
        for kind in &kinds {
            let mut bench = Bench::new(&pipeline, *kind, *entries, arguments.seed)?;
            rows.extend(bench.measure(arguments, &progress)?);
        }
    }
    progress.finish_and_clear();
    console.headline("Time from a change of one rule to the last old answer, processor time")?;
    console.print(&table(&rows))?;
    console.print_json(&Report {
        command: "bench update",
        seed: arguments.seed,
        pipeline: pipeline.name,
        rules: pipeline.rules.len(),
        rows,
    })
}

fn table(rows: &[Row]) -> String {
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "maintainer",
        "entries",
        "affected",
        "changes",
        "median us",
        "p99 us",
        "max us",
        "us/affected",
        "falsely",
        "index B/entry",
        "packets",
        "stale",
    ]);
    for row in rows {
        let time = row.time_to_update_us;
        let each = row.microseconds_per_affected;
        table.add_row([
            row.maintainer.clone(),
            row.entries.to_string(),
            match row.class {
                "all" => format!("all ({:.1})", row.affected),
                class => class.to_owned(),
            },
            row.updates.to_string(),
            format!("{:.1}", time.median),
            format!("{:.1}", time.p99),
            format!("{:.1}", time.max),
            each.map_or(String::new(), |each| format!("{each:.2}")),
            format!("{:.2}", row.falsely_affected),
            format!("{:.0}", row.dependency_bytes_per_entry),
            row.packets.to_string(),
            row.stale_packets.to_string(),
        ]);
    }
    table.to_string()
}

/// A timed change.
struct Sample {
    time_us: f64,
    affected: u64,
    falsely_affected: u64,
}

/// A filled cache, and changes for it.
struct Bench<'a> {
    pipeline: &'a Pipeline,
    kind: MaintainerKind,
    engine: Engine,
    flows: Vec<Packet>,
    random: Pcg64Mcg,
    /// The rules that packets have met, and those of them that are away.
    used: Vec<Flow>,
    away: Vec<Flow>,
}

impl<'a> Bench<'a> {
    fn new(
        pipeline: &'a Pipeline,
        kind: MaintainerKind,
        entries: usize,
        seed: u64,
    ) -> Result<Bench<'a>> {
        let mut config = Config {
            is_audited: true,
            packets: 4_096,
            ..Config::default()
        };
        config.datapath.maintainer = kind;
        config.datapath.seed = seed;
        config.datapath.megaflow.entries = 2 * entries;
        config.datapath.megaflow.bytes = usize::MAX;
        config.datapath.megaflow.masks = 1 << 20;
        let mut engine = Engine::new(config)?;
        for port in &pipeline.ports {
            engine.add_port(PortId(*port), Instant::ZERO);
        }
        let rules = text::parse_rules("the generated pipeline", &pipeline.rules_text());
        let rules = rules.map_err(|errors| anyhow::anyhow!("{}", errors[0]))?;
        engine.apply(&rules.into_change(), Instant::ZERO)?;
        let mut bench = Bench {
            pipeline,
            kind,
            engine,
            flows: Vec::new(),
            random: Pcg64Mcg::seed_from_u64(seed),
            used: Vec::new(),
            away: Vec::new(),
        };
        bench.fill(entries, seed)?;
        Ok(bench)
    }

    /// Forwards a packet of each of so many flows that the cache has the entries wanted.
    fn fill(&mut self, entries: usize, seed: u64) -> Result<()> {
        let mut source = FlowSource::new(self.pipeline, &FlowConfig::new(entries, seed));
        for _ in 0..8 * entries {
            let template = source.next_template();
            let Some(flow) = source.draw(template) else {
                continue;
            };
            let mut packet = Packet::from_bytes(&flow.packet(60));
            packet.set_received(PortId(flow.in_port), Instant::ZERO);
            self.flows.push(packet);
            if self.flows.len().is_multiple_of(32) {
                let start = self.flows.len() - 32;
                self.forward(start..start + 32);
                if self.engine.datapath().megaflow_count() >= entries {
                    break;
                }
            }
        }
        let reached = self.engine.datapath().megaflow_count();
        if reached < entries {
            let flows = self.flows.len();
            return Err(bad_input(format!(
                "--entries {entries}: {flows} flows make only {reached} entries; ask for more rules"
            )));
        }
        self.engine.settle();
        let pipeline = self.engine.pipeline();
        let met = pipeline.rules(pipeline.version());
        let met = met.filter(|(_, rule)| rule.counters.packets > 0);
        let ids: Vec<RuleId> = met.map(|(id, _)| id).collect();
        self.used = ids.iter().filter_map(|id| pipeline.flow_of(*id)).collect();
        drop(pipeline);
        Ok(())
    }

    fn forward(&mut self, flows: std::ops::Range<usize>) {
        let mut burst = self.flows[flows].to_vec();
        self.engine.forward(&mut burst, Instant::ZERO);
        self.engine.outbox().recycle();
    }

    fn measure(
        &mut self,
        arguments: &Arguments,
        progress: &indicatif::ProgressBar,
    ) -> Result<Vec<Row>> {
        let entries = self.engine.datapath().megaflow_count();
        let bytes = |bytes: usize| bytes as f64 / entries as f64;
        let cache_bytes_per_entry = bytes(self.engine.datapath().megaflow_bytes());
        let dependency_bytes_per_entry = bytes(self.engine.datapath().dependency_bytes());
        let audited = |engine: &Engine| engine.audit().map_or((0, 0), |a| (a.checked, a.stale));
        let before = audited(&self.engine);
        let start = processor_time_ns();
        let mut samples = Vec::new();
        for _ in 0..arguments.updates {
            let change = self.next_change();
            let (update, time_ns) = self.apply(&change)?;
            samples.push(Sample {
                time_us: time_ns as f64 / 1e3,
                affected: update.work.affected(),
                falsely_affected: update.work.falsely_affected(),
            });
            progress.inc(1);
            for _ in 0..arguments.packets.div_ceil(32) {
                let place = self.random.random_range(0..self.flows.len() / 32) * 32;
                self.forward(place..place + 32);
            }
            let spent = (processor_time_ns() - start) / 1_000_000_000;
            if spent >= arguments.seconds && samples.len() >= ROW_MIN {
                progress.inc((arguments.updates - samples.len()) as u64);
                break;
            }
        }
        let after = audited(&self.engine);
        let row = |(class, from, to): &(&'static str, u64, u64)| {
            let of_class = samples
                .iter()
                .filter(|s| (*from..=*to).contains(&s.affected));
            let of_class: Vec<&Sample> = of_class.collect();
            if of_class.len() < ROW_MIN {
                return None;
            }
            let mean = |value: fn(&Sample) -> u64| {
                let sum: u64 = of_class.iter().map(|sample| value(sample)).sum();
                sum as f64 / of_class.len() as f64
            };
            let times = Quantiles::of(of_class.iter().map(|sample| sample.time_us).collect());
            let affected = mean(|sample| sample.affected);
            let total: f64 = of_class.iter().map(|sample| sample.time_us).sum();
            Some(Row {
                maintainer: self.kind.name().to_owned(),
                entries,
                class,
                updates: of_class.len(),
                affected,
                time_to_update_us: times,
                time_to_repair_us: times,
                falsely_affected: mean(|sample| sample.falsely_affected),
                microseconds_per_affected: (affected > 0.0)
                    .then(|| total / of_class.len() as f64 / affected),
                cache_bytes_per_entry,
                dependency_bytes_per_entry,
                packets: after.0 - before.0,
                stale_packets: after.1 - before.1,
            })
        };
        Ok(CLASSES.iter().filter_map(row).collect())
    }

    fn apply(&mut self, change: &Change) -> Result<(Update, u64)> {
        let start = processor_time_ns();
        let update = self.engine.apply(change, Instant::ZERO);
        let time_ns = processor_time_ns() - start;
        Ok((update.context("a generated change was refused")?, time_ns))
    }

    /// A rule goes, comes back, or does what another does.
    fn next_change(&mut self) -> Change {
        let must_return = self.away.len() >= AWAY_MAX || self.used.is_empty();
        if must_return || (!self.away.is_empty() && self.random.random_ratio(1, 3)) {
            let flow = self.away.remove(0);
            self.used.push(flow.clone());
            return Change::one(Operation::Add(flow));
        }
        let index = self.random.random_range(0..self.used.len());
        if self.random.random_ratio(1, 2)
            && let Some(actions) = self.other_actions(index)
        {
            let selector = strict(&self.used[index]);
            self.used[index].actions = actions.clone();
            return Change::one(Operation::Modify(selector, actions));
        }
        let flow = self.used.swap_remove(index);
        self.away.push(flow.clone());
        Change::one(Operation::Delete(strict(&flow)))
    }

    /// The actions of another rule of the same table that leads to the same table.
    fn other_actions(&mut self, index: usize) -> Option<thalweg_pipeline::Actions> {
        let flow = &self.used[index];
        for _ in 0..16 {
            let other = self.used.choose(&mut self.random)?;
            let is_alike = other.table == flow.table && goto(other) == goto(flow);
            if is_alike && other.actions != flow.actions {
                return Some(other.actions.clone());
            }
        }
        None
    }
}

fn goto(flow: &Flow) -> Option<&Action> {
    flow.actions
        .iter()
        .find(|action| matches!(action, Action::Goto(_)))
}

fn strict(flow: &Flow) -> Selector {
    Selector {
        table: Some(flow.table),
        matching: flow.matching.clone(),
        strict_priority: Some(flow.priority),
        cookie: None,
    }
}
