//! Measures updates at a rate, while a worker forwards as fast as it can.
//!
//! A running switch has one worker, whose ports repeat the same flows. The control side, which
//! is this thread, makes bundles of changes at the requested rate, or as fast as it can. It
//! searches for the affected entries and walks them; the worker repairs them between its
//! bursts. Periods with and without updates alternate, so that other load on the machine is in
//! both.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use thalweg_datapath::{MaintainerKind, Work};
use thalweg_io::{BURST, CyclePort, NullPort, Port};
use thalweg_packet::{Packet, PortId};
use thalweg_pipeline::text;
use thalweg_switch::{Switch, SwitchConfig, SwitchPort, Totals};
use thalweg_workload::{FlowConfig, FlowSource, Pipeline};

use super::cache::Caches;
use super::changes::{Changes, Ground, Kind, Mix};
use crate::spread::Spread;
use thalweg_command::failure::bad_input;
use thalweg_command::report::{Table, Unit, format_count};

/// Periods with updates, and as many without.
const ROUNDS: usize = 5;

/// Longest wait until the cache has the entries.
const PATIENCE: Duration = Duration::from_secs(600);

/// One in this many of the changed rules has been met by packets. These are the rules that the
/// fewest packets met.
const MET_ONE_IN: usize = 10;

/// The parameters of a measurement.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) entries: usize,
    pub(super) kind: MaintainerKind,
    pub(super) caches: Caches,
    /// Updates per second.
    pub(super) rate: u64,
    /// Updates in a bundle.
    pub(super) bundle: usize,
    /// Length of each period.
    pub(super) seconds: u64,
    pub(super) seed: u64,
}

/// The results of a measurement.
#[derive(Clone, Serialize, Debug)]
pub(super) struct Sustained {
    maintainer: &'static str,
    entries: usize,
    bundle: usize,
    updates: u64,
    updates_per_second: f64,
    /// Time until every worker follows, per bundle.
    bundle_us_median: f64,
    bundle_us_max: f64,
    /// Mean number of affected entries.
    affected_per_update: f64,
    /// Share of the affected entries whose walk the control side made.
    walked_elsewhere: f64,
    /// The worker's time for following changes.
    worker_us_per_update: f64,
    packets_per_second_before: f64,
    packets_per_second_during: f64,
    /// Throughput during updates relative to before; the median of all pairs.
    throughput_kept: f64,
    /// The longest pause between two bursts, with updates.
    longest_pause_us: f64,
    /// The wildcard cache's index at the end.
    index: &'static str,
    masks: usize,
}

/// The empty table for the rows.
pub(super) fn table() -> Table {
    let table = Table::new("Updates at a rate, and what the worker still forwards");
    let titles = [
        "entries",
        "bundle",
        "updates/s",
        "a bundle",
        "longest",
        "affected",
        "elsewhere",
        "worker",
        "packets/s",
        "with updates",
        "kept",
        "pause",
        "masks",
    ];
    let table = table.with_words("maintainer");
    let table = titles.into_iter().fold(table, Table::with_numbers);
    table.with_words("found by")
}

impl Sustained {
    pub(super) fn push_to(&self, table: &mut Table) {
        let time = |us: f64| Unit::Nanoseconds.format(us * 1e3);
        table.push(vec![
            self.maintainer.to_owned(),
            format_count(self.entries as u64),
            format_count(self.bundle as u64),
            format_count(self.updates_per_second as u64),
            time(self.bundle_us_median),
            time(self.bundle_us_max),
            format!("{:.2}", self.affected_per_update),
            Unit::Share.format(self.walked_elsewhere),
            time(self.worker_us_per_update),
            format_count(self.packets_per_second_before as u64),
            format_count(self.packets_per_second_during as u64),
            Unit::Share.format(self.throughput_kept),
            time(self.longest_pause_us),
            format_count(self.masks as u64),
            self.index.to_owned(),
        ]);
    }
}

/// Measures.
///
/// # Errors
/// If the flows do not make that number of entries, or there is too little to change.
pub(super) fn measure(pipeline: &Pipeline, wanted: &Wanted) -> Result<Sustained> {
    let mut switch = start(pipeline, wanted)?;
    fill(&mut switch, wanted)?;
    let mut changes = changes(&mut switch, pipeline, wanted)?;
    let mut before = Vec::new();
    let mut during = Vec::new();
    let mut bundles = Bundles::default();
    let start = switch.totals();
    for _ in 0..ROUNDS {
        let length = Duration::from_secs(wanted.seconds);
        before.push(packets_per_second(&mut switch, |switch| {
            let end = Instant::now() + length;
            while Instant::now() < end {
                switch.poll(Duration::from_millis(10));
            }
            Ok(())
        })?);
        during.push(packets_per_second(&mut switch, |switch| {
            bundles.make(switch, &mut changes, wanted, length)
        })?);
    }
    let end = switch.totals();
    let updates = (bundles.times.len() * wanted.bundle) as u64;
    let kept = before.iter().zip(&during);
    let kept = kept.map(|(before, during)| during / before);
    let spent = |totals: &Totals| totals.workers.maintenance_time.as_secs_f64();
    let bundle_us = Spread::of(&bundles.times);
    let work = |value: fn(&Work) -> u64| value(&end.maintenance) - value(&start.maintenance);
    let affected = work(Work::affected) as f64;
    let walked_elsewhere = work(|work| work.walked_elsewhere) as f64;
    Ok(Sustained {
        maintainer: wanted.kind.name(),
        entries: end.megaflows,
        bundle: wanted.bundle,
        updates,
        updates_per_second: updates as f64 / bundles.seconds,
        bundle_us_median: bundle_us.median,
        bundle_us_max: bundle_us.max,
        affected_per_update: affected / updates as f64,
        walked_elsewhere: walked_elsewhere / affected.max(1.0),
        worker_us_per_update: (spent(&end) - spent(&start)) * 1e6 / updates as f64,
        throughput_kept: Spread::of(&kept.collect::<Vec<_>>()).median,
        packets_per_second_before: Spread::of(&before).median,
        packets_per_second_during: Spread::of(&during).median,
        longest_pause_us: end.workers.longest_pause.as_secs_f64() * 1e6,
        index: end.caches.first().map_or("", |cache| cache.index.name()),
        masks: end.masks,
    })
}

/// Starts a switch whose ports give the flows that reach them.
fn start(pipeline: &Pipeline, wanted: &Wanted) -> Result<Switch> {
    let mut source = FlowSource::new(pipeline, &FlowConfig::new(wanted.entries, wanted.seed));
    let mut by_port: Vec<Vec<Packet>> = vec![Vec::new(); pipeline.ports.len()];
    // Some flows share an entry.
    for _ in 0..2 * wanted.entries {
        let template = source.next_template();
        let Some(flow) = source.draw(template) else {
            continue;
        };
        let place = pipeline.ports.iter().position(|port| *port == flow.in_port);
        let place = place.context("a flow comes from a port of the pipeline")?;
        by_port[place].push(Packet::from_bytes(&flow.packet(60)));
    }
    let ports_of = pipeline.ports.iter().zip(by_port);
    let ports_of = ports_of.map(|(number, templates)| {
        let number = PortId(*number);
        let port: Box<dyn Port> = match templates.is_empty() {
            true => Box::new(NullPort::default()),
            false => Box::new(CyclePort::new(number, templates)),
        };
        SwitchPort {
            number,
            port,
            is_source: false,
        }
    });
    let rules = text::parse_rules("the generated pipeline", &pipeline.text());
    let rules = rules.map_err(|errors| anyhow::anyhow!("{}", errors[0]))?;
    let mut config = SwitchConfig {
        packets_per_worker: 4_096 + 4 * BURST * pipeline.ports.len(),
        ..SwitchConfig::default()
    };
    config.datapath.maintainer = wanted.kind;
    config.datapath.seed = wanted.seed;
    config.datapath.megaflow.entries = 4 * wanted.entries;
    config.datapath.megaflow.bytes = usize::MAX;
    config.datapath.megaflow.masks = 1 << 20;
    config.datapath.megaflow.max_idle = None;
    wanted.caches.set(&mut config.datapath);
    let switch = Switch::start_with(config, ports_of.collect(), &rules.into_change());
    switch.context("the generated pipeline")
}

/// Waits until all flows have had their upcalls.
fn fill(switch: &mut Switch, wanted: &Wanted) -> Result<()> {
    let start = Instant::now();
    let mut upcalls = 0;
    loop {
        switch.poll(Duration::from_millis(200));
        let totals = switch.totals();
        let is_full = totals.megaflows >= wanted.entries;
        if totals.datapath.upcalls == upcalls && is_full {
            return Ok(());
        }
        let entries = totals.megaflows;
        let is_stuck = totals.datapath.upcalls == upcalls && start.elapsed() > PATIENCE / 20;
        if is_stuck || start.elapsed() > PATIENCE {
            let what = "flows make only";
            let text = format!("--entries {}: {what} {entries} entries", wanted.entries);
            return Err(bad_input(format!(
                "{text}; ask for fewer, or for more rules"
            )));
        }
        upcalls = totals.datapath.upcalls;
    }
}

/// Changes to rules that few entries met.
fn changes(switch: &mut Switch, pipeline: &Pipeline, wanted: &Wanted) -> Result<Changes> {
    switch.totals();
    let rules = switch.pipeline();
    let (mut met, unmet): (Vec<_>, Vec<_>) = rules
        .rules(rules.version())
        .partition(|(_, rule)| rule.counters.packets > 0);
    met.sort_by_key(|(id, rule)| (rule.counters.packets, *id));
    met.truncate(unmet.len() / (MET_ONE_IN - 1));
    let chosen = met.iter().chain(&unmet);
    let used = chosen.filter_map(|(id, _)| rules.flow_of(*id)).collect();
    let mix = Mix {
        kinds: vec![Kind::Insert, Kind::Delete],
        bundle: wanted.bundle,
    };
    let ground = Ground {
        used,
        groups: Vec::new(),
        ports: pipeline.ports.clone(),
    };
    drop(rules);
    Changes::new(mix, ground, wanted.seed)
}

/// The bundles so far.
#[derive(Default)]
struct Bundles {
    times: Vec<f64>,
    seconds: f64,
}

impl Bundles {
    /// Makes bundles at the requested rate for the given time.
    fn make(
        &mut self,
        switch: &mut Switch,
        changes: &mut Changes,
        wanted: &Wanted,
        length: Duration,
    ) -> Result<()> {
        let interval = Duration::from_secs_f64(wanted.bundle as f64 / wanted.rate as f64);
        let start = Instant::now();
        let mut next = start;
        while start.elapsed() < length {
            let drawn = changes.draw();
            while Instant::now() < next {
                switch.poll(next.saturating_duration_since(Instant::now()));
            }
            next += interval;
            let begin = Instant::now();
            switch.apply(&drawn.change).context("a generated change")?;
            self.times.push(begin.elapsed().as_secs_f64() * 1e6);
        }
        self.seconds += start.elapsed().as_secs_f64();
        Ok(())
    }
}

/// The worker's throughput while `work` runs.
fn packets_per_second(
    switch: &mut Switch,
    mut work: impl FnMut(&mut Switch) -> Result<()>,
) -> Result<f64> {
    let before = switch.totals().datapath.packets;
    let start = Instant::now();
    work(switch)?;
    // The worker also forwards while its totals are gathered.
    let after = switch.totals().datapath.packets;
    Ok((after - before) as f64 / start.elapsed().as_secs_f64())
}
