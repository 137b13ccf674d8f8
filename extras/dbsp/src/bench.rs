//! Measures rows of the benchmark: fills a view, changes it, and compares at the end.

mod changes;
mod row;

use std::collections::HashSet;

use anyhow::{Context, Result, ensure};
use thalweg_dbsp::{End, View};
use thalweg_packet::{Headers, Instant, PortId, Receipt};
use thalweg_pipeline::{Change, Delta, Operation, Pipeline, PortState, RuleId, TableId};
use thalweg_pipeline::{StepKind, text, translate};
use thalweg_workload::{FlowConfig, Pipeline as Generated, draw_flows};

use self::changes::Changes;
pub(crate) use self::row::{Report, Row, Sample};
use crate::clock::{Moment, Passed, resident_bytes};

/// The parameters for measuring one size of a view.
pub(crate) struct Config {
    /// Recorded packets.
    pub(crate) entries: usize,
    /// Changes.
    pub(crate) updates: usize,
    /// Most lookups of a walk.
    pub(crate) steps: usize,
    /// Seed of flows and changes.
    pub(crate) seed: u64,
}

/// Repetitions of the other measurements.
const REPEATS: usize = 9;

/// Measures one size; the baseline comes first.
pub(crate) fn measure(generated: &Generated, config: &Config) -> Result<Vec<Row>> {
    let mut bench = Bench::new(generated, config)?;
    let baseline = bench.measure_interpreter();
    let samples = bench.measure_changes(config)?;
    let (empty, record) = bench.measure_records()?;
    let rebuild_ms = bench.measure_rebuild(config.steps)?;
    bench.compare()?;
    let masks = (0..=u8::MAX).map(|table| bench.view.mask_count(TableId(table.into())));
    let mut rows = vec![Row::baseline(config.entries, baseline)];
    let costs = row::Costs {
        empty_us: row::Quantiles::of(empty.iter().map(|passed| passed.processor_us)),
        record_us: row::Quantiles::of(record.iter().map(|passed| passed.processor_us)),
        rebuild_ms,
        masks_at_most: masks.max().unwrap_or(0),
        resident_bytes_per_entry: bench.resident_bytes / config.entries as f64,
    };
    rows.extend(Row::of_classes(config.entries, &samples, costs));
    Ok(rows)
}

struct Bench {
    pipeline: Pipeline,
    view: View,
    keys: Vec<Vec<u64>>,
    changes: Changes,
    resident_bytes: f64,
}

impl Bench {
    fn new(generated: &Generated, config: &Config) -> Result<Bench> {
        let mut pipeline = Pipeline::new(thalweg_pipeline::Config::default());
        let state = PortState {
            is_up: true,
            floods: true,
            peer: None,
        };
        let ports = generated.ports.iter();
        let ports = ports.map(|port| Operation::SetPort(PortId(*port), state));
        let operations = ports.collect();
        pipeline.apply(&Change { operations }, Instant::ZERO)?;
        let rules = text::parse_rules("the generated pipeline", &generated.text());
        let rules = rules.map_err(|errors| anyhow::anyhow!("{}", errors[0]))?;
        pipeline.apply(&rules.into_change(), Instant::ZERO)?;
        let keys = draw_keys(generated, &pipeline, config)?;
        let before = resident_bytes();
        let mut view = View::new(&pipeline, config.steps)?;
        let numbered = (0..).zip(keys.iter().map(|key| &key[..]));
        view.record(numbered)?;
        let resident_bytes = resident_bytes() - before;
        let met: HashSet<RuleId> = (0..keys.len() as u32)
            .filter_map(|entry| view.answer(entry))
            .flat_map(|answer| answer.lookups)
            .filter_map(|(_, rule)| rule)
            .collect();
        let mut met: Vec<RuleId> = met.into_iter().collect();
        met.sort();
        let met = met.iter().filter_map(|id| pipeline.flow_of(*id));
        Ok(Bench {
            changes: Changes::new(met.collect(), config.seed),
            pipeline,
            view,
            keys,
            resident_bytes,
        })
    }

    /// Asks the interpreter about every packet.
    fn measure_interpreter(&self) -> Vec<Passed> {
        let version = self.pipeline.version();
        let once = |_| {
            let start = Moment::now();
            for key in &self.keys {
                std::hint::black_box(translate(&self.pipeline, key, version));
            }
            start.passed()
        };
        (0..REPEATS).map(once).collect()
    }

    fn measure_changes(&mut self, config: &Config) -> Result<Vec<Sample>> {
        let mut samples = Vec::with_capacity(config.updates);
        for _ in 0..config.updates {
            let change = self.changes.next_change();
            let delta = self.apply(&change)?;
            let start = Moment::now();
            let changed = self.view.follow(&self.pipeline, &delta)?;
            samples.push(Sample {
                passed: start.passed(),
                affected: changed.len() as u64,
            });
        }
        Ok(samples)
    }

    fn apply(&mut self, change: &Change) -> Result<Delta> {
        let delta = self.pipeline.apply(change, Instant::ZERO);
        let delta = delta.context("a generated change was refused")?;
        self.pipeline.reclaim(delta.version);
        Ok(delta)
    }

    /// Measures empty transactions, and transactions that record a forgotten, and so new,
    /// packet.
    fn measure_records(&mut self) -> Result<(Vec<Passed>, Vec<Passed>)> {
        let stride = self.keys.len().div_ceil(20 * REPEATS);
        let (mut empty, mut record) = (Vec::new(), Vec::new());
        for entry in (0..self.keys.len()).step_by(stride) {
            self.view.forget([entry as u32])?;
            let start = Moment::now();
            self.view.forget([])?;
            empty.push(start.passed());
            let start = Moment::now();
            self.view.record([(entry as u32, &self.keys[entry][..])])?;
            record.push(start.passed());
        }
        Ok((empty, record))
    }

    fn measure_rebuild(&mut self, steps: usize) -> Result<f64> {
        let start = Moment::now();
        self.view.rebuild(steps)?;
        Ok(start.passed().processor_us / 1e3)
    }

    /// Checks that every answer is the interpreter's.
    fn compare(&self) -> Result<()> {
        for (entry, key) in (0_u32..).zip(&self.keys) {
            let translation = translate(&self.pipeline, key, self.pipeline.version());
            let answer = self.view.answer(entry).context("a packet is missing")?;
            let lookups = answer.lookups.iter();
            let kinds = lookups.map(|(table, rule)| StepKind::Lookup {
                table: *table,
                rule: *rule,
            });
            let is_same = translation.trace.kinds().eq(kinds)
                && answer.end == End::Effects(translation.effects.clone());
            ensure!(is_same, "{answer:?} is not {translation:?}");
        }
        Ok(())
    }
}

fn draw_keys(generated: &Generated, pipeline: &Pipeline, config: &Config) -> Result<Vec<Vec<u64>>> {
    let flows = draw_flows(generated, &FlowConfig::new(config.entries, config.seed))?;
    let layout = pipeline.layout();
    let mut keys = Vec::with_capacity(flows.len());
    for (flow, _) in &flows {
        let bytes = flow.packet(60);
        let headers = Headers::parse(&bytes)?;
        let mut key = vec![0; layout.ingress_words()];
        layout.extract(
            &bytes,
            &headers,
            &Receipt::from_port(flow.in_port),
            &mut key,
        );
        keys.push(key);
    }
    Ok(keys)
}
