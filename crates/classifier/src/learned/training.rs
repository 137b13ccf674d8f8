//! Training: from a snapshot of the rules to iSets, on any thread.
//!
//! A [`TrainingJob`] owns its data, so it can run on another thread while lookups and changes
//! go on. [`TrainingJob::run`] returns [`Trained`], which becomes a classifier in constant
//! time. The job's owner brings rules that changed meanwhile up to date (`auto`).
//!
//! ```text
//!   up to `isets_max` times:
//!       choose fields, and put what is left of the rules into buckets
//!   keep as many of these iSets as make lookups cheapest; none if they cover too little
//!   pack the bits that the covered rules read; number these rules, the best first
//!   for each iSet: train a model, prove its bound, fill groups
//!   put the other rules into merged tuples
//! ```

use thalweg_packet::Slot;

use crate::merged_tuples::MergedTuples;
use crate::{Classifier, Version};

use super::choose::{blocks, choose};
use super::composite::Composite;
use super::cost::Trial;
use super::index::Trained;
use super::iset::{Directory, Iset, Starts};
use super::limits::NO_SLOT;
use super::model::{Model, check};
use super::number::Number;
use super::packing::Packing;
use super::partition::{Buckets, Limits, partition};
use super::perceptrons::Perceptrons;
use super::pieces::Pieces;
use super::slots::Slots;
use super::snapshot::Snapshot;
use super::{LearnedConfig, ModelKind};

/// Rules to train on, best first; owned, so that the job can be sent to a thread.
#[derive(Clone, Debug)]
pub(crate) struct TrainingJob {
    snapshot: Snapshot,
    config: LearnedConfig,
    /// The cost of lookups without iSets, if known.
    cost_without: Option<f64>,
}

/// Buckets, and the fields that they are sorted by.
struct Plan {
    fields: Vec<usize>,
    composite: Composite,
    buckets: Buckets,
}

impl TrainingJob {
    /// Creates a job; `snapshot` must be sorted, best first.
    pub(crate) fn new(
        snapshot: Snapshot,
        config: LearnedConfig,
        cost_without: Option<f64>,
    ) -> TrainingJob {
        TrainingJob {
            snapshot,
            config,
            cost_without,
        }
    }

    /// Trains, which takes long.
    pub(crate) fn run(self) -> Trained {
        let (plans, packing) = self.plan();
        let words = self.snapshot.words();
        let mut iset_of = vec![u8::MAX; self.snapshot.len()];
        for (number, plan) in plans.iter().enumerate() {
            for &rule in &plan.buckets.rules {
                iset_of[rule as usize] = number as u8;
            }
        }
        let mut remainder = MergedTuples::new(self.config.tuples.clone());
        let mut slots = Slots::new(remainder.no_places());
        let mut slot_of = vec![NO_SLOT; self.snapshot.len()];
        let mut rule_of = Vec::new();
        for (rule, &iset) in iset_of
            .iter()
            .enumerate()
            .filter(|(_, iset)| **iset != u8::MAX)
        {
            let (precedence, id) = self.snapshot.rule(rule as u32);
            let slot = slots.push(precedence, id, iset);
            slot_of[rule] = slot;
            rule_of.resize(slot as usize, NO_SLOT);
            rule_of.push(rule as u32);
        }
        slots.push_spares();
        let mut isets = Vec::new();
        for (number, mut plan) in plans.into_iter().enumerate() {
            for rule in &mut plan.buckets.rules {
                *rule = slot_of[*rule as usize];
            }
            let starts = starts(&plan, &self.config);
            let pack = |slot: u32, value: &mut [u64], mask: &mut [u64]| {
                let pattern = self.snapshot.pattern(rule_of[slot as usize]);
                packing.pack(pattern.value, value);
                packing.pack(pattern.mask, mask);
            };
            let iset = Iset::new(
                plan.composite,
                plan.fields,
                &plan.buckets,
                starts,
                (packing.words(), self.config.level.looks_up_masks()),
                pack,
            );
            for bucket in 0..iset.bucket_count() {
                for (lane, slot) in iset.groups.bucket(bucket) {
                    slots.add_lane(slot, lane);
                }
            }
            let rules = iset_of.iter().filter(|iset| **iset == number as u8).count();
            isets.push(Iset { rules, ..iset });
        }
        for (rule, _) in iset_of
            .iter()
            .enumerate()
            .filter(|(_, iset)| **iset == u8::MAX)
        {
            let (precedence, id) = self.snapshot.rule(rule as u32);
            let pattern = self.snapshot.pattern(rule as u32);
            remainder.insert(pattern, precedence, id, Version::FIRST);
        }
        Trained {
            remainder: Some(Box::new(remainder)),
            key_words: words,
            packing,
            slots,
            isets,
        }
    }

    /// Puts rules into buckets, and packs the bits that they read.
    fn plan(&self) -> (Vec<Plan>, Packing) {
        let config = &self.config;
        let limits = Limits {
            bucket_max: config.bucket_max.clamp(1, 1 << 16),
            copies_max: config.copies_max,
        };
        let mut left: Vec<u32> = (0..self.snapshot.len() as u32).collect();
        let mut plans = Vec::new();
        let mut trial = Trial::new(&self.snapshot, config);
        let cost_without = self.cost_without.unwrap_or_else(|| trial.cost(&left));
        let (mut best_count, mut best_cost, mut covered) = (0, cost_without, 0);
        while plans.len() < config.isets_max.min(usize::from(u8::MAX)) && !left.is_empty() {
            let choice = choose(&self.snapshot, &left, &config.fields, limits);
            let Some(choice) = choice else { break };
            let slots = choice.fields.iter().map(|&field| config.fields[field]);
            let composite = Composite::new(slots.collect::<Vec<Slot>>());
            let ranged = blocks(&self.snapshot, &left, &composite);
            let mut buckets = partition(ranged, &composite, limits);
            let kept = left.len() - buckets.left.len();
            if kept < config.iset_rules_min.max(1) {
                break;
            }
            left = std::mem::take(&mut buckets.left);
            trial.ask(&composite, &buckets);
            plans.push(Plan {
                fields: choice.fields,
                composite,
                buckets,
            });
            let cost = trial.cost(&left);
            if cost < best_cost || config.is_cost_ignored {
                (best_count, best_cost) = (plans.len(), cost);
                covered = self.snapshot.len() - left.len();
            }
        }
        if covered * 100 < self.snapshot.len() * config.coverage_min_percent as usize {
            best_count = 0;
        }
        plans.truncate(best_count);
        let mut mask = vec![0; self.snapshot.words()];
        for &rule in plans.iter().flat_map(|plan| &plan.buckets.rules) {
            let pattern = self.snapshot.pattern(rule);
            mask.iter_mut()
                .zip(pattern.mask)
                .for_each(|(all, mask)| *all |= mask);
        }
        match Packing::new(&mask) {
            Some(packing) => (plans, packing),
            None => (Vec::new(), Packing::default()),
        }
    }
}

/// The starts under a model, in the width that the numbers need.
fn starts(plan: &Plan, config: &LearnedConfig) -> Starts {
    let starts = &plan.buckets.starts;
    let bits = plan.composite.bits();
    if bits <= u64::BITS {
        let starts = starts.iter().map(|&start| start as u64).collect();
        Starts::Narrow(directory(starts, bits, config))
    } else {
        Starts::Wide(directory(starts.clone(), bits, config))
    }
}

fn directory<N: Number>(starts: Vec<N>, bits: u32, config: &LearnedConfig) -> Directory<N> {
    let model = match config.model {
        ModelKind::Pieces => Model::Pieces(Pieces::new(&starts, bits)),
        ModelKind::Perceptrons => {
            Model::Perceptrons(Perceptrons::new(&starts, bits, config.samples_max))
        }
    };
    check(&model, &starts, bits);
    Directory { starts, model }
}
