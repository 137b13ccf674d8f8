//! `thalweg bench forward --rules --workers`: measures a running switch's throughput, by
//! number of workers.
//!
//! The switch is that of `thalweg run`. Its workers are threads, each with a port that repeats
//! packets. The ports that drop packets are spread over the workers, so that most packets
//! change hands. The control side replaces indexes, and changes rules if requested.
//!
//! Throughput is by the wall clock, at the highest offered load that loses no more than
//! [`LOSS_MAX`] of the packets. First, the sources offer as many packets as the switch takes.
//! If too many of these are lost, the load is halved and raised until the bound is met (RFC
//! 2544, section 26.1, with a bound above zero). If no trial meets the bound, the samples use
//! the lowest load tried. Each row gives its loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant as Wall};

use anyhow::{Context, Result};
use serde::Serialize;
use thalweg_io::{CyclePort, NullPort, Port, PortCounters, PortStatus};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::Change;
use thalweg_switch::{Switch, SwitchConfig, SwitchPort, Totals};

use super::classify::Order;
use super::end_to_end::load::{Load, PORTS, Updates, Variant, limits};
use super::forward::arguments::Arguments;
use super::spread::Spread;
use thalweg_command::report::{Table, format_count};

/// The share of packets that may be lost.
const LOSS_MAX: f64 = 0.01;
/// Length of a sample.
const SAMPLE: Duration = Duration::from_millis(500);
/// Loads tried after the first.
const TRIALS: usize = 6;
/// Longest wait for the training of tables.
const TRAINING_MAX: Duration = Duration::from_secs(60);
/// Most rules that one change removes or returns.
const BUNDLE_MAX: u64 = 64;
/// The number of the first port that repeats packets.
const FIRST_SOURCE: u32 = 100;

/// One set, mode, classifier, traffic, rate and number of workers.
#[derive(Serialize, Debug)]
pub(super) struct Row {
    case: String,
    rules: usize,
    flows: usize,
    mode: &'static str,
    classifier: &'static str,
    megaflow_classifier: &'static str,
    traffic: &'static str,
    pub(super) workers: usize,
    update_rate: u64,
    updates_per_second: f64,
    /// By the wall clock, all workers together.
    pub(super) packets_per_second: Spread,
    /// Share of the packets in the samples.
    loss: f64,
    /// Packets per second of each sample, in order.
    pub(super) over_time: Vec<f64>,
    /// The longest wait of the tables' readers for a slice of a training.
    longest_slice_us: f64,
    /// The longest time in which a worker did not forward.
    longest_pause_us: f64,
    /// The indexes of the tables, and of the wildcard caches, at the end.
    tables: Vec<&'static str>,
    caches: Vec<&'static str>,
}

impl Row {
    /// The name of its line in a picture.
    pub(super) fn name(&self) -> String {
        format!("{}, {}, {}", self.case, self.mode, self.classifier)
    }
}

/// A port that repeats packets at a rate that can be changed.
struct Paced {
    port: CyclePort,
    /// Packets per second; zero means as many as are taken.
    rate: Arc<AtomicU64>,
    /// The current rate, the time since it was set, and the packets given since.
    known: u64,
    since: Instant,
    given: u64,
}

impl Port for Paced {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant) {
        let rate = self.rate.load(Ordering::Relaxed);
        if rate != self.known {
            (self.known, self.since, self.given) = (rate, now, 0);
        }
        let due = (now - self.since).as_secs_f64() * rate as f64;
        if rate == 0 || (self.given as f64) < due {
            let before = burst.len();
            self.port.receive(pool, burst, now);
            self.given += (burst.len() - before) as u64;
        }
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        self.port.send(pool, burst);
    }

    fn status(&mut self) -> PortStatus {
        self.port.status()
    }

    fn counters(&self) -> PortCounters {
        self.port.counters()
    }
}

/// A running switch and its offered load.
struct Bench {
    switch: Switch,
    workers: usize,
    /// The rate of each source.
    rate: Arc<AtomicU64>,
    updates: Updates,
    update_rate: u64,
}

/// The results of a sample.
struct Sample {
    packets_per_second: f64,
    packets: u64,
    lost: u64,
    updates_per_second: f64,
}

/// Measures one row.
///
/// # Errors
/// If the switch cannot start, or a generated change cannot be made.
pub(super) fn measure(
    load: &Load,
    order: Order,
    packets: &[Packet],
    variant: Variant,
    workers: usize,
    arguments: &Arguments,
) -> Result<Row> {
    let mut bench = Bench::start(load, packets, variant, workers, arguments)?;
    bench.warm_up()?;
    let mut offered = bench.sample()?;
    if offered.loss() > LOSS_MAX {
        bench.find_rate(offered.packets_per_second)?;
        offered = bench.sample()?;
    }
    let mut samples = vec![offered];
    for _ in 1..arguments.samples {
        samples.push(bench.sample()?);
    }
    let sum = |count: fn(&Sample) -> u64| samples.iter().map(count).sum::<u64>();
    let over_time: Vec<f64> = (samples.iter()).map(|one| one.packets_per_second).collect();
    let updates = samples.iter().map(|sample| sample.updates_per_second);
    let totals = bench.switch.totals();
    let tables = bench.switch.pipeline().choices();
    let row = Row {
        case: load.name.clone(),
        rules: load.flows.len(),
        flows: load.packets.len(),
        mode: variant.mode.name(),
        classifier: variant.tables.name(),
        megaflow_classifier: variant.megaflows.name(),
        traffic: order.name(),
        workers,
        update_rate: arguments.update_rate,
        updates_per_second: updates.sum::<f64>() / samples.len() as f64,
        packets_per_second: Spread::of(&over_time),
        loss: sum(|sample| sample.lost) as f64 / sum(|sample| sample.packets).max(1) as f64,
        over_time,
        longest_slice_us: totals.training.longest_slice.as_secs_f64() * 1e6,
        longest_pause_us: totals.workers.longest_pause.as_secs_f64() * 1e6,
        tables: tables
            .iter()
            .map(|(_, choice)| choice.kind.name())
            .collect(),
        caches: (totals.caches.iter())
            .map(|choice| choice.index.name())
            .collect(),
    };
    bench.switch.stop();
    Ok(row)
}

impl Sample {
    fn loss(&self) -> f64 {
        self.lost as f64 / self.packets.max(1) as f64
    }
}

/// Packets for which the switch had no room. Drops by the rules, while some are removed, do
/// not count.
fn lost(totals: &Totals) -> u64 {
    let is_by_rules = |reason: &str| matches!(reason, "table_miss" | "action");
    let drops = totals.drops().into_iter();
    let lost = drops.filter(|(reason, _)| !is_by_rules(reason));
    lost.map(|(_, packets)| packets).sum()
}

impl Bench {
    fn start(
        load: &Load,
        packets: &[Packet],
        variant: Variant,
        workers: usize,
        arguments: &Arguments,
    ) -> Result<Bench> {
        let limits = limits(load, variant, arguments);
        let config = SwitchConfig {
            pipeline: limits.pipeline,
            datapath: limits.datapath,
            workers,
            packet_bytes: 128,
            ..SwitchConfig::default()
        };
        let rate = Arc::new(AtomicU64::new(0));
        let source = |worker: usize| {
            let number = PortId(FIRST_SOURCE + worker as u32);
            let mut packets = packets.to_vec();
            let first = worker * packets.len() / workers;
            packets.rotate_left(first);
            let port = Paced {
                port: CyclePort::new(number, packets),
                rate: rate.clone(),
                known: 0,
                since: Instant::ZERO,
                given: 0,
            };
            SwitchPort::new(number, Box::new(port))
        };
        let sources = (0..workers).map(source);
        let sinks = (2..2 + PORTS).map(|number| SwitchPort {
            number: PortId(number),
            port: Box::new(NullPort::default()),
            is_source: false,
        });
        let ports = sources.chain(sinks).collect();
        let rules = Change::adding(load.flows.iter().cloned());
        let switch = Switch::start_with(config, ports, &rules);
        Ok(Bench {
            switch: switch.context("starting a switch")?,
            workers,
            rate,
            updates: Updates::new(load, arguments),
            update_rate: arguments.update_rate,
        })
    }

    /// Runs until the traffic has passed about twice, and learning tables are trained.
    fn warm_up(&mut self) -> Result<()> {
        let start = Wall::now();
        loop {
            self.sample()?;
            let choices = self.switch.pipeline().choices();
            let is_untrained = choices.iter().any(|(_, choice)| {
                !choice.is_measured && choice.replaced == 0 && choice.figures.rules >= 1_000
            });
            let waited = start.elapsed();
            if waited >= 6 * SAMPLE && !is_untrained || waited > TRAINING_MAX {
                return Ok(());
            }
        }
    }

    /// Finds the highest load that meets the bound, from an eighth of `taken` up.
    fn find_rate(&mut self, taken: f64) -> Result<()> {
        let (mut low, mut high) = (taken / 8.0, taken);
        for _ in 0..TRIALS {
            let middle = (low + high) / 2.0;
            self.offer(middle);
            match self.sample()?.loss() <= LOSS_MAX {
                true => low = middle,
                false => high = middle,
            }
        }
        self.offer(low);
        // Packets still waiting from the last trial do not belong to this load.
        self.sample()?;
        Ok(())
    }

    fn offer(&mut self, packets_per_second: f64) {
        let each = packets_per_second / self.workers as f64;
        self.rate.store(each.max(1.0) as u64, Ordering::Relaxed);
    }

    fn sample(&mut self) -> Result<Sample> {
        let before = self.switch.totals();
        let (start, mut updates) = (Wall::now(), 0);
        while start.elapsed() < SAMPLE {
            let due = (start.elapsed().as_secs_f64() * self.update_rate as f64) as u64;
            let count = (due - updates).min(BUNDLE_MAX);
            if count > 0 {
                let changes = (0..count).flat_map(|_| self.updates.next().operations);
                let operations = changes.collect();
                let change = Change { operations };
                self.switch.apply(&change).context("a generated change")?;
                updates += count;
                self.switch.poll(Duration::ZERO);
            } else {
                self.switch.poll(Duration::from_millis(1));
            }
        }
        let after = self.switch.totals();
        let seconds = start.elapsed().as_secs_f64();
        let packets = after.datapath.packets - before.datapath.packets;
        let lost = lost(&after) - lost(&before);
        Ok(Sample {
            packets_per_second: (packets - lost.min(packets)) as f64 / seconds,
            packets,
            lost,
            updates_per_second: updates as f64 / seconds,
        })
    }
}

/// The rows as a table.
pub(super) fn table(rows: &[Row]) -> Table {
    let caption = "By the wall clock; the aim is 1 % loss, what was lost stands in the row.";
    let words = ["set", "mode", "tables", "megaflows", "traffic"];
    let table = words
        .into_iter()
        .fold(Table::new(caption), Table::with_words);
    let titles = [
        "rules",
        "workers",
        "updates/s",
        "Mpps",
        "least",
        "most",
        "loss",
        "slice µs",
        "pause µs",
    ];
    let table = titles.into_iter().fold(table, Table::with_numbers);
    rows.iter().fold(table, |mut table, row| {
        let rate = row.packets_per_second;
        table.push(vec![
            row.case.clone(),
            row.mode.to_owned(),
            row.classifier.to_owned(),
            row.megaflow_classifier.to_owned(),
            row.traffic.to_owned(),
            format_count(row.rules as u64),
            row.workers.to_string(),
            format_count(row.updates_per_second as u64),
            format!("{:.2}", rate.median / 1e6),
            format!("{:.2}", rate.min / 1e6),
            format!("{:.2}", rate.max / 1e6),
            format!("{:.2} %", 100.0 * row.loss),
            format!("{:.0}", row.longest_slice_us),
            format!("{:.0}", row.longest_pause_us),
        ]);
        table
    })
}
