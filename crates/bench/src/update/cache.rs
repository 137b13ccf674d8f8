//! Fills a cache with flows through a generated pipeline, and then changes rules.

use std::ops::RangeInclusive;

use anyhow::{Context, Result};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_datapath::{MaintainerKind, MegaflowClassifier, Work};
use thalweg_packet::{Instant, Packet, PortId};
use thalweg_pipeline::{Change, Flow, Group, Operation, RuleId, text};
use thalweg_switch::{Config, Engine, Step};
use thalweg_workload::Pipeline;

use super::changes::{Changes, Ground, Kind, Mix, put_groups_in, strict};
use super::cold::Cold;
use super::filling::Filling;
use super::kept::{CHOSEN_AT, Kept};
use super::row::{About, Row, Sample, row_of, rows_of};
use crate::clock::processor_time_ns;
use thalweg_command::console::warn;
use thalweg_command::failure::bad_input;
use thalweg_command::follow::{Followed, follow};

/// Settings of the caches that differ from the default.
#[derive(Clone, Debug)]
pub(super) struct Caches {
    pub(super) classifier: Option<MegaflowClassifier>,
    /// Bits that repairs may add to a mask.
    pub(super) mask_growth: Option<u32>,
}

impl Caches {
    pub(super) fn set(&self, config: &mut thalweg_datapath::Config) {
        if let Some(classifier) = self.classifier {
            config.megaflow.classifier = classifier;
        }
        if let Some(mask_growth) = self.mask_growth {
            config.mask_growth = mask_growth;
        }
    }
}

/// The extent of a measurement.
#[derive(Clone, Debug)]
pub(super) struct Effort {
    /// Changes for each row.
    pub(super) updates: usize,
    /// Processor time after which no more changes are made.
    pub(super) seconds: u64,
    /// Packets between two changes.
    pub(super) packets: usize,
    /// Kinds of changes.
    pub(super) mix: Mix,
    /// Numbers of entries to affect, one row each; if empty, changes are not selected by that.
    pub(super) affected: Vec<u64>,
    /// Whether the processor's caches are emptied before each change.
    pub(super) is_cold: bool,
    pub(super) caches: Caches,
    /// New rules per entry above which a sweep replaces searches; `None` is the default.
    pub(super) sweep_at: Option<usize>,
    /// Share of a table's nodes above which they are scanned; `None` is the default.
    pub(super) scan_share: Option<usize>,
    /// Whether a cache may have fewer entries than requested, if the flows make no more.
    pub(super) takes_fewer: bool,
    /// Seed of all random choices.
    pub(super) seed: u64,
}

/// Least changes in a row.
pub(super) const UPDATES_MIN: usize = 3;

/// Packets in a burst.
const BURST: usize = 32;

/// A filled cache.
pub(super) struct FilledCache<'a> {
    pipeline: &'a Pipeline,
    kind: MaintainerKind,
    engine: Engine,
    groups: Vec<Group>,
    flows: Vec<Packet>,
    random: Pcg64Mcg,
    cold: Option<Cold>,
}

/// Creates a switch with the pipeline's rules, and the groups that were put into them.
///
/// # Errors
/// If the generated rules are refused.
pub(super) fn load(
    pipeline: &Pipeline,
    config: Config,
    has_groups: bool,
) -> Result<(Engine, Vec<Group>)> {
    let mut engine = Engine::new(config)?;
    for port in &pipeline.ports {
        engine.add_port(PortId(*port), Instant::ZERO);
    }
    let rules = text::parse_rules("the generated pipeline", &pipeline.text());
    let mut rules = rules.map_err(|errors| anyhow::anyhow!("{}", errors[0]))?;
    if has_groups && pipeline.groups.is_empty() {
        rules.groups = put_groups_in(&mut rules.flows);
    }
    let groups = rules.groups.clone();
    engine.apply(&rules.into_change(), Instant::ZERO)?;
    Ok((engine, groups))
}

impl<'a> FilledCache<'a> {
    /// Creates a cache of `entries` entries.
    ///
    /// # Errors
    /// If the pipeline's flows do not make that number of entries.
    pub(super) fn new(
        pipeline: &'a Pipeline,
        kind: MaintainerKind,
        entries: usize,
        effort: &Effort,
    ) -> Result<FilledCache<'a>> {
        let mut config = Config {
            packets: 4_096,
            // The reference must know all connections, so it follows from the first packet on.
            is_audited: pipeline.tracks(),
            ..Config::default()
        };
        config.datapath.maintainer = kind;
        config.datapath.seed = effort.seed;
        config.datapath.megaflow.entries = 2 * entries;
        config.datapath.megaflow.bytes = usize::MAX;
        config.datapath.megaflow.masks = 1 << 20;
        effort.caches.set(&mut config.datapath);
        if let Some(sweep_at) = effort.sweep_at {
            config.datapath.sweep_at = sweep_at;
        }
        if let Some(scan_share) = effort.scan_share {
            config.datapath.scan_share = scan_share;
        }
        let (engine, groups) = load(pipeline, config, effort.mix.has(Kind::Group))?;
        let mut cache = FilledCache {
            pipeline,
            kind,
            engine,
            groups,
            flows: Vec::new(),
            random: Pcg64Mcg::seed_from_u64(effort.seed),
            cold: effort.is_cold.then(Cold::new),
        };
        cache.fill(entries, effort)?;
        Ok(cache)
    }

    /// Forwards one packet of each flow until the cache has the requested entries, then begins
    /// to compare answers.
    fn fill(&mut self, entries: usize, effort: &Effort) -> Result<()> {
        let mut filling = Filling::new(self.pipeline, entries, effort.seed);
        let mut kept = None;
        for _ in 0..8 * entries {
            let Some(packet) = filling.next() else {
                continue;
            };
            let kept_from = |kept: &mut Kept| kept.is_met_by(&self.engine.pipeline(), &packet);
            if kept.as_mut().is_some_and(kept_from) {
                continue;
            }
            self.flows.push(packet);
            if self.flows.len().is_multiple_of(BURST) {
                let start = self.flows.len() - BURST;
                forward(&mut self.engine, &self.flows[start..]);
                let count = self.engine.datapath().megaflow_count();
                if count >= entries {
                    break;
                }
                filling.note(count);
                if kept.is_none() && count >= CHOSEN_AT && !effort.affected.is_empty() {
                    kept = Some(self.keep(&effort.affected));
                }
            }
        }
        self.engine.begin_audit();
        let reached = self.engine.datapath().megaflow_count();
        if reached < entries && !effort.takes_fewer {
            let flows = self.flows.len();
            return Err(bad_input(format!(
                "--entries {entries}: {flows} flows make only {reached} entries; ask for more rules"
            )));
        }
        Ok(())
    }

    /// The rules, with the number of flows that met each.
    fn rules(&mut self) -> Vec<(Flow, u64)> {
        let met = self.met();
        let pipeline = self.engine.pipeline();
        let rules = met.into_iter();
        let rules = rules.filter_map(|(id, flows)| Some((pipeline.flow_of(id)?, flows)));
        rules.collect()
    }

    /// The same by rule number.
    fn met(&mut self) -> Vec<(RuleId, u64)> {
        self.engine.settle();
        let pipeline = self.engine.pipeline();
        let rules = pipeline.rules(pipeline.version());
        // Each flow has sent one packet, so packets count flows.
        rules
            .map(|(id, rule)| (id, rule.counters.packets))
            .collect()
    }

    /// Selects rules that about `affected` flows have met, and that no other flow may meet.
    fn keep(&mut self, affected: &[u64]) -> Kept {
        let wanted: Vec<_> = affected.iter().map(|flows| about_so_many(*flows)).collect();
        Kept::choose(&self.met(), &wanted)
    }

    /// The rules met by a number of flows in `met_by`, and what else can be changed.
    fn ground(&self, rules: &[(Flow, u64)], met_by: &RangeInclusive<u64>) -> Ground {
        let used = rules.iter().filter(|(_, flows)| met_by.contains(flows));
        Ground {
            used: used.map(|(flow, _)| flow.clone()).collect(),
            groups: self.groups.clone(),
            ports: self.pipeline.ports.clone(),
        }
    }

    /// Number of different traversals of the entries, as lists of tables; 0 without a record.
    pub(super) fn traversal_count(&self) -> usize {
        let views = self.engine.datapath().traversals();
        let mut ways: Vec<_> = views.into_iter().map(|view| view.tables).collect();
        ways.sort();
        ways.dedup();
        ways.len()
    }

    /// Mean number of lookups in an entry's walk; 0 without a record.
    pub(super) fn mean_lookups(&self) -> f64 {
        let views = self.engine.datapath().traversals();
        let lookups: usize = (views.iter())
            .map(|view| view.tables.len() * view.entries as usize)
            .sum();
        lookups as f64 / self.engine.datapath().megaflow_count() as f64
    }

    /// Changes the rules, and returns a row for each class and kind of changes.
    ///
    /// # Errors
    /// If there is nothing to change.
    pub(super) fn measure(
        &mut self,
        effort: &Effort,
        progress: &indicatif::ProgressBar,
    ) -> Result<Vec<Row>> {
        let datapath = self.engine.datapath();
        let entries = datapath.megaflow_count();
        let bytes = |bytes: usize| bytes as f64 / entries as f64;
        let about = About {
            maintainer: self.kind.name().to_owned(),
            entries,
            operations: effort.mix.bundle,
            cache_bytes_per_entry: bytes(datapath.megaflow_bytes()),
            dependency_bytes_per_entry: bytes(datapath.dependency_bytes()),
        };
        let rules = self.rules();
        if effort.affected.is_empty() {
            let ground = self.ground(&rules, &(1..=u64::MAX));
            let samples = self.samples(ground, effort, progress)?;
            return Ok(rows_of(&about, &samples));
        }
        let mut rows = Vec::new();
        for affected in &effort.affected {
            let about_so_many = about_so_many(*affected);
            let ground = self.ground(&rules, &about_so_many);
            let (found, needed) = (ground.used.len(), effort.mix.rules_needed());
            if found < needed {
                let which = format!("--affected {affected}, {entries} entries");
                progress.suspend(|| {
                    let what = "rules are so, and";
                    warn(&format!(
                        "{which}: no row, for {found} {what} {needed} are needed"
                    ));
                });
                progress.inc(effort.updates as u64);
                continue;
            }
            let samples = self.samples(ground, effort, progress)?;
            rows.extend(row_of(&about, *affected, &about_so_many, &samples));
        }
        Ok(rows)
    }

    /// Makes changes, and forwards packets between them.
    fn samples(
        &mut self,
        ground: Ground,
        effort: &Effort,
        progress: &indicatif::ProgressBar,
    ) -> Result<Vec<Sample>> {
        let mut changes = Changes::new(effort.mix.clone(), ground, effort.seed)?;
        let start = processor_time_ns();
        let mut samples = Vec::new();
        for _ in 0..effort.updates {
            samples.push(self.sample(&mut changes, effort.packets)?);
            progress.inc(1);
            let spent = (processor_time_ns() - start) / 1_000_000_000;
            if spent >= effort.seconds && samples.len() >= UPDATES_MIN {
                progress.inc((effort.updates - samples.len()) as u64);
                break;
            }
        }
        Ok(samples)
    }

    /// Makes one change, and forwards packets after it.
    fn sample(&mut self, changes: &mut Changes, packets: usize) -> Result<Sample> {
        if let Some(preparation) = changes.prepare() {
            self.apply(&preparation)?;
            forward_some(&mut self.engine, &self.flows, &mut self.random, BURST);
        }
        let drawn = changes.draw();
        let before = self.audited();
        self.cold.iter_mut().for_each(Cold::chill);
        let followed = self.follow(&drawn.change)?;
        let during = self.audited().0 - before.0;
        forward_some(&mut self.engine, &self.flows, &mut self.random, packets);
        let after = self.audited();
        Ok(Sample {
            kind: drawn.kind,
            time_us: followed.update_ns as f64 / 1e3,
            repair_us: followed.repair_ns as f64 / 1e3,
            pause_us: followed.pause_ns as f64 / 1e3,
            affected: followed.work.affected(),
            falsely_affected: followed.work.falsely_affected(),
            packets_during: during,
            packets: after.0 - before.0,
            stale_packets: after.1 - before.1,
        })
    }

    /// Makes a change given by the caller, without packets during it.
    ///
    /// # Errors
    /// If it is refused.
    pub(super) fn follow_alone(&mut self, change: &Change) -> Result<Followed> {
        let nothing = |_: &mut Engine, _| {};
        let now = Instant::ZERO;
        let followed = follow(&mut self.engine, change, now, processor_time_ns, nothing);
        followed.with_context(|| refused(change))
    }

    /// Makes a change, searches for what it affects, and removes the added rules again.
    /// Returns the processor time in microseconds, and the work of following the change.
    ///
    /// # Errors
    /// If it is refused.
    pub(super) fn search_alone(&mut self, change: &Change) -> Result<(f64, Work)> {
        let start = processor_time_ns();
        let started = self.engine.start(change, Instant::ZERO);
        let time_ns = processor_time_ns() - start;
        started.with_context(|| refused(change))?;
        let work = loop {
            if let Step::Settled(work) = self.engine.step() {
                break work;
            }
        };
        let added = change.operations.iter().filter_map(|added| match added {
            Operation::Add(flow) => Some(Operation::Delete(strict(flow))),
            _ => None,
        });
        let back = Change {
            operations: added.collect(),
        };
        self.apply(&back)?;
        // Evicted entries return.
        for packets in self.flows.chunks(BURST) {
            forward(&mut self.engine, packets);
        }
        Ok((time_ns as f64 / 1e3, work))
    }

    /// Follows a change slice by slice, with untimed bursts of packets between the slices.
    ///
    /// A sweep takes thousands of slices, and every packet is compared. A burst after each
    /// slice would take longer than the sweep, so from the 16th slice on bursts become rarer.
    fn follow(&mut self, change: &Change) -> Result<Followed> {
        let (flows, random) = (&self.flows, &mut self.random);
        let between = |engine: &mut Engine, slice: usize| {
            if slice.is_multiple_of((slice / 16).next_power_of_two()) {
                forward_some(engine, flows, random, BURST);
            }
        };
        let now = Instant::ZERO;
        let followed = follow(&mut self.engine, change, now, processor_time_ns, between);
        followed.with_context(|| refused(change))
    }

    /// Packets compared so far, and those that differed.
    fn audited(&self) -> (u64, u64) {
        let audit = self.engine.audit();
        audit.map_or((0, 0), |audit| (audit.checked, audit.stale))
    }

    /// Makes a change that is not measured.
    fn apply(&mut self, change: &Change) -> Result<()> {
        let update = self.engine.apply(change, Instant::ZERO);
        update.map(drop).with_context(|| refused(change))
    }
}

/// A range of numbers close to `wanted`.
fn about_so_many(wanted: u64) -> RangeInclusive<u64> {
    wanted - wanted / 5..=wanted + wanted / 4
}

/// Forwards bursts of evenly drawn flows.
fn forward_some(engine: &mut Engine, flows: &[Packet], random: &mut Pcg64Mcg, packets: usize) {
    for _ in 0..packets.div_ceil(BURST) {
        let place = random.random_range(0..flows.len() / BURST) * BURST;
        forward(engine, &flows[place..place + BURST]);
    }
}

fn forward(engine: &mut Engine, packets: &[Packet]) {
    engine.forward(&mut packets.to_vec(), Instant::ZERO);
    engine.outbox().recycle();
}

fn refused(change: &Change) -> String {
    match change.operations.first() {
        Some(Operation::Add(flow)) => format!("a generated change was refused: {flow}"),
        _ => "a generated change was refused".to_owned(),
    }
}
