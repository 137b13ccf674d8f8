//! `--model`: compares the vector Bloom filter's model of the cost of a hit with measurements.
//!
//! The rules are those of the model of Gobriel and Tai (slide *Cycles Breakdown*;
//! `docs/papers.md`). They are disjoint, with 1,000 in each sub-table. Every key has its rule
//! in the sub-table that is searched last, so a search traverses all of them. Keys are looked
//! up one at a time. The report has three figures side by side. They are the measurement, the
//! model with this crate's stages (measured in the same run), and the paper's, in its
//! processor's cycles. Ours are in nanoseconds and in cycles; the length of a cycle is
//! measured too, as clocks change.

use std::hint::black_box;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use thalweg_classifier::bloom::BloomStatistics;
use thalweg_classifier::bloom::model::{Scheme, Stages, Subjects, model};
use thalweg_classifier::{
    Bloom, BloomConfig, Classifier, FirstLayer, Pattern, Precedence, RuleId, TupleSpace,
    TupleSpaceConfig, Version,
};

use super::lookups;
use super::traffic::Trace;
use crate::clock::processor_time_ns;
use crate::spread::Spread;
use thalweg_command::report::{Axis, Lines, Series, Shape, Table, Unit};

/// Numbers of sub-tables that a search traverses.
const SUBTABLES: [usize; 7] = [1, 2, 5, 10, 20, 40, 60];
/// Number of sub-tables over which the stages' cost is averaged.
const SUBTABLES_OF_STAGES: usize = 20;
/// The fewest of which filters are asked.
const FEW_SUBTABLES: usize = 2;
const RULES_OF_SUBTABLE: usize = 1_000;
/// Flows, all of which the filter learns.
const FLOWS: usize = 8_192;
/// Words of a key: the sub-table's number, the rule's, two where masks differ, and noise.
const WORDS: usize = 4;
const VERSION: Version = Version(1);

/// One number of sub-tables and one classifier.
#[derive(Clone, Serialize, Debug)]
pub(super) struct ModelRow {
    sub_tables: usize,
    classifier: &'static str,
    ns_per_lookup: Spread,
    cycles_per_lookup: f64,
    model_ns: f64,
    /// The model without waits, as the slides have it.
    sum_ns: f64,
    /// Sub-tables that the vector filter names, in the mean; where it is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    candidates: Option<f64>,
    paper_cycles: f64,
}

/// The cost of each stage, in nanoseconds or cycles.
#[derive(Clone, Serialize, Debug)]
pub(super) struct StagesRow {
    filter_hash: f64,
    filter_load: f64,
    subtable_hash: f64,
    subtable_probe: f64,
    key_comparison: f64,
    put: f64,
    own_filter: f64,
    waits: f64,
}

/// The output of `--model` with `--json`.
#[derive(Serialize, Debug)]
pub(super) struct Report {
    pub(super) command: &'static str,
    pub(super) seed: u64,
    /// Nanoseconds per cycle.
    cycle_ns: f64,
    pub(super) stages_ns: StagesRow,
    stages_cycles: StagesRow,
    pub(super) rows: Vec<ModelRow>,
}

/// Measures the stages, and lookups by number of sub-tables.
pub(super) fn measure(samples: usize, budget_ns: u64, seed: u64) -> Report {
    let trace = trace(seed);
    let cycle_ns = cycle_ns(samples);
    let stages = stages(&trace, samples, seed);
    let unwaiting = Stages {
        waits: 0.0,
        ..stages
    };
    let mut rows = Vec::new();
    for subtables in SUBTABLES {
        let compared = Compared::new(subtables, seed);
        let measured = compared.named().map(|(name, classifier)| {
            let mut place = 0;
            let mut sample =
                |budget_ns| lookups::sample(classifier, VERSION, &trace, 1, &mut place, budget_ns);
            sample(2 * budget_ns);
            let costs: Vec<f64> = (0..samples).map(|_| sample(budget_ns)).collect();
            (name, Spread::of(&costs))
        });
        for ((name, spread), scheme) in measured.into_iter().zip(compared.schemes()) {
            let subtables_count = subtables as f64;
            rows.push(ModelRow {
                sub_tables: subtables,
                classifier: name,
                ns_per_lookup: spread,
                cycles_per_lookup: spread.median / cycle_ns,
                model_ns: model(&stages, scheme, subtables_count),
                sum_ns: model(&unwaiting, scheme, subtables_count),
                candidates: match scheme {
                    Scheme::Vector { candidates, .. } => Some(candidates),
                    _ => None,
                },
                paper_cycles: model(&Stages::PAPER, paper_scheme(name), subtables_count),
            });
        }
    }
    Report {
        command: "bench classify",
        seed,
        cycle_ns,
        stages_ns: stages_in(&stages, 1.0),
        stages_cycles: stages_in(&stages, cycle_ns),
        rows,
    }
}

/// What the slides say of a way to search: all flows are known, and the filter names one sub-table.
fn paper_scheme(name: &str) -> Scheme {
    match name {
        "bloom-own-bits" => Scheme::PerSubtable,
        "bloom-disjoint" => Scheme::Vector {
            candidates: 1.0,
            unknown: 0.0,
        },
        _ => Scheme::Sequential,
    }
}

/// The stages in units of `unit_ns` nanoseconds.
fn stages_in(stages: &Stages, unit_ns: f64) -> StagesRow {
    StagesRow {
        filter_hash: stages.filter_hash / unit_ns,
        filter_load: stages.filter_load / unit_ns,
        subtable_hash: stages.subtable_hash / unit_ns,
        subtable_probe: stages.subtable_probe / unit_ns,
        key_comparison: stages.key_comparison / unit_ns,
        put: stages.put / unit_ns,
        own_filter: stages.own_filter / unit_ns,
        waits: stages.waits / unit_ns,
    }
}

/// Nanoseconds per cycle: a quarter of a bitwise negation and a multiplication, each dependent
/// on the previous one. These take four cycles on x86-64 since Intel's Nehalem and AMD's Zen
/// 2, and on most other processors. The compiler would combine multiplications alone.
fn cycle_ns(samples: usize) -> f64 {
    const STEPS: u32 = 1_000_000;
    const CYCLES: f64 = 1.0 + 3.0;
    let costs = (0..=samples).map(|_| {
        let factor = black_box(0x9e37_79b9_7f4a_7c15_u64);
        let start = processor_time_ns();
        let product = (0..STEPS).fold(1_u64, |all, _| (!all).wrapping_mul(factor));
        black_box(product);
        (processor_time_ns() - start) as f64 / f64::from(STEPS) / CYCLES
    });
    let costs: Vec<f64> = costs.collect();
    Spread::of(&costs[1..]).median
}

/// The three of the model, with rules in this many sub-tables.
struct Compared {
    plain: TupleSpace,
    own: Bloom,
    vector: Bloom,
}

impl Compared {
    fn new(subtables: usize, seed: u64) -> Compared {
        Compared {
            plain: tuple_space(0..subtables, seed),
            own: bloom(FirstLayer::OwnBits, subtables, seed),
            vector: bloom(FirstLayer::FullKeysDisjoint, subtables, seed),
        }
    }

    fn named(&self) -> [(&'static str, &dyn Classifier); 3] {
        [
            ("tuple-space", &self.plain),
            ("bloom-own-bits", &self.own),
            ("bloom-disjoint", &self.vector),
        ]
    }

    /// What each of them did in its lookups so far; a filter before one sub-table is never asked.
    fn schemes(&self) -> [Scheme; 3] {
        let asked = |bloom: &Bloom, scheme: fn(&BloomStatistics) -> Scheme| {
            let counted = bloom.statistics();
            match counted.lookups {
                0 => Scheme::Sequential,
                _ => scheme(&counted),
            }
        };
        [
            Scheme::Sequential,
            asked(&self.own, |_| Scheme::PerSubtable),
            asked(&self.vector, |counted| {
                let share = |part: u64| part as f64 / counted.lookups as f64;
                Scheme::Vector {
                    candidates: share(counted.candidates),
                    unknown: share(counted.full_searches),
                }
            }),
        ]
    }
}

fn tuple_space(subtables: std::ops::Range<usize>, seed: u64) -> TupleSpace {
    let mut rules = TupleSpace::new(TupleSpaceConfig::flat(WORDS, seed));
    fill(&mut rules, subtables);
    rules
}

/// A tuple space behind a filter that is always used.
fn bloom(first_layer: FirstLayer, subtables: usize, seed: u64) -> Bloom {
    let config = BloomConfig {
        first_layer,
        flows: FLOWS,
        ..BloomConfig::new(TupleSpaceConfig::flat(WORDS, seed))
    };
    let mut rules = Bloom::new(config).always();
    fill(&mut rules, 0..subtables);
    rules
}

/// Inserts the rules of some sub-tables; sub-table 0 is searched last.
fn fill(rules: &mut dyn Classifier, subtables: std::ops::Range<usize>) {
    for subtable in subtables {
        let mask = mask(subtable);
        for rule in 0..RULES_OF_SUBTABLE {
            let value = value(subtable, rule);
            let id = (subtable * RULES_OF_SUBTABLE + rule) as u32;
            let pattern = Pattern {
                value: &value,
                mask: &mask,
            };
            let precedence = Precedence::new(1 + subtable as u16, u64::from(id));
            rules.insert(pattern, precedence, RuleId(id), VERSION);
        }
    }
}

fn mask(subtable: usize) -> [u64; WORDS] {
    [u64::MAX, u64::MAX << subtable, 0xffff_0000, 0]
}

fn value(subtable: usize, rule: usize) -> [u64; WORDS] {
    [(subtable << 32 | rule) as u64, 0, 0, 0]
}

/// Lookups of flows whose rules are in sub-table 0.
fn trace(seed: u64) -> Trace {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let flows: Vec<[u64; WORDS]> = (0..FLOWS)
        .map(|_| {
            let [first, second, _, _] = value(0, random.random_range(0..RULES_OF_SUBTABLE));
            [
                first,
                second,
                random.random::<u64>() & 0xffff,
                random.random(),
            ]
        })
        .collect();
    let keys = (0..8 * FLOWS).flat_map(|_| flows[random.random_range(0..FLOWS)]);
    Trace::new(WORDS, keys.collect())
}

fn stages(trace: &Trace, samples: usize, seed: u64) -> Stages {
    let (one, more) = (
        tuple_space(0..1, seed),
        tuple_space(0..SUBTABLES_OF_STAGES, seed),
    );
    let vector = bloom(FirstLayer::FullKeysDisjoint, SUBTABLES_OF_STAGES, seed);
    let few_own = bloom(FirstLayer::OwnBits, FEW_SUBTABLES, seed);
    let more_own = bloom(FirstLayer::OwnBits, SUBTABLES_OF_STAGES, seed);
    let subjects = Subjects {
        one: &one,
        more: &more,
        vector: &vector,
        few_own: &few_own,
        more_own: &more_own,
    };
    let keys = trace.keys(0, trace.len());
    Stages::measured(subjects, VERSION, |run| {
        let costs = (0..=samples).map(|_| {
            let start = processor_time_ns();
            let mut sum = 0_u64;
            for key in keys.chunks_exact(WORDS) {
                sum = sum.wrapping_add(run(key));
            }
            std::hint::black_box(sum);
            (processor_time_ns() - start) as f64 / trace.len() as f64
        });
        let costs: Vec<f64> = costs.collect();
        // The first run warms the caches.
        Spread::of(&costs[1..]).median
    })
}

/// Stands beside the figures.
const WHY_WAITS: &str = "\
The slides sum stages up, each timed over keys that do not wait for each other. Behind the vector \
filter each stage waits for the one before: the filter names the sub-table, that the slot, that the \
rule. What such a lookup takes beyond the sum is measured as waits, and the slides' sum stands in \
the column without them. \"Named\" is how many sub-tables the filter names for a lookup; with one \
sub-table it is not asked.";

impl Report {
    /// The rows as a table.
    pub(super) fn table(&self) -> Table {
        let mut table = Table::new("Hits by sub-tables traversed")
            .with_numbers("sub-tables")
            .with_words("classifier")
            .with_numbers("ns measured")
            .with_numbers("least-most")
            .with_numbers("cycles")
            .with_numbers("ns by model")
            .with_numbers("without waits")
            .with_numbers("named")
            .with_numbers("paper, cycles");
        for row in &self.rows {
            let Spread { median, min, max } = row.ns_per_lookup;
            table.push(vec![
                row.sub_tables.to_string(),
                row.classifier.to_owned(),
                format!("{median:.1}"),
                format!("{min:.1}-{max:.1}"),
                format!("{:.0}", row.cycles_per_lookup),
                format!("{:.1}", row.model_ns),
                format!("{:.1}", row.sum_ns),
                row.candidates
                    .map_or("-".to_owned(), |candidates| format!("{candidates:.2}")),
                format!("{:.0}", row.paper_cycles),
            ]);
        }
        table
    }

    /// The stages in one line.
    pub(super) fn stages(&self) -> String {
        let said = |unit: &str, stages: &StagesRow| {
            let StagesRow {
                filter_hash,
                filter_load,
                subtable_hash,
                subtable_probe,
                key_comparison,
                put,
                own_filter,
                waits,
            } = stages;
            format!(
                "Stages, {unit}: hash for the filter {filter_hash:.1}, its load {filter_load:.1}; \
                 hash for a sub-table {subtable_hash:.1}, its probe {subtable_probe:.1}; \
                 comparison {key_comparison:.1}; putting a flow in {put:.1}; \
                 a sub-table's own filter {own_filter:.1}; \
                 waits behind the vector filter {waits:.1}"
            )
        };
        let nanoseconds = said("ns", &self.stages_ns);
        let cycles = said("cycles", &self.stages_cycles);
        format!(
            "{nanoseconds}\n{cycles}\nA cycle took {:.3} ns\n{WHY_WAITS}",
            self.cycle_ns
        )
    }

    /// Time against sub-tables, measured and modelled.
    pub(super) fn picture(&self) -> Lines {
        let mut series: Vec<Series> = Vec::new();
        let mut add = |name: String, shape, point: (f64, f64)| match series
            .iter_mut()
            .find(|one| one.name == name)
        {
            Some(one) => one.points.push(point),
            None => series.push(Series {
                name,
                shape,
                points: vec![point],
            }),
        };
        for row in &self.rows {
            let subtables = row.sub_tables as f64;
            let measured = (subtables, row.ns_per_lookup.median);
            add(row.classifier.to_owned(), Shape::MarkedLine, measured);
            let by_model = (subtables, row.model_ns);
            add(format!("{}, model", row.classifier), Shape::Line, by_model);
        }
        Lines {
            caption: "Hit by sub-tables traversed, measured and by the paper's model".to_owned(),
            note: "Both axes are logarithmic.".to_owned(),
            x: Axis::logarithmic("sub-tables traversed", Unit::Count),
            y: Axis::logarithmic("time a lookup", Unit::Nanoseconds),
            series,
            bands: Vec::new(),
        }
    }
}
