//! Building indexes from a copy of the rules, anywhere and at any time, and comparing them.
//!
//! ```text
//!   sort the copy by precedence
//!   for each kind that may be taken: build it of all rules; look up the keys, and count
//!   keep the one that the policy takes, or none
//! ```
//!
//! Keys are those that were looked up of late, and keys of rules as long as there are too few. A
//! tuple space of very many masks, and a filter before one, are not built: nothing speaks for them.

use crate::learned::{Snapshot, TrainingJob};
use crate::{Learned, Pattern, RuleId, Version};

use super::held::{Held, IndexKind};
use super::observed::KEYS;
use super::policy::{Figures, Verdict};
use super::{AutoConfig, Selection};

/// A tuple space is not tried with more masks, nor a filter before one.
const TUPLE_SPACE_MASKS_MAX: usize = 64;
const BLOOM_MASKS_MAX: usize = 512;

/// Long work of an [`Auto`](super::Auto): owned, so that it can be sent to a thread.
#[derive(Debug)]
pub struct Job(Work);

#[derive(Debug)]
enum Work {
    Build(Box<Build>),
    /// Dropping it takes its time, too.
    Drop(#[expect(dead_code, reason = "it is there to be dropped")] Held),
}

/// A copy of the rules, and what is to be made of it.
#[derive(Debug)]
pub(super) struct Build {
    /// Whose job it is, and which.
    pub(super) epoch: (u64, u64),
    pub(super) snapshot: Snapshot,
    pub(super) config: AutoConfig,
    pub(super) figures: Figures,
    /// Keys that were looked up, one after the other.
    pub(super) keys: Vec<u64>,
    /// How many masks there are, if that is known.
    pub(super) masks: Option<usize>,
    /// Whether something is to be built even if it is no better than what there is.
    pub(super) is_asked_for: bool,
}

/// What has come of a [`Job`].
#[derive(Debug)]
pub struct Outcome(pub(super) Option<Box<Built>>);

/// A new index, and why.
#[derive(Debug)]
pub(super) struct Built {
    /// Whose job it is, and which.
    pub(super) epoch: (u64, u64),
    /// `None` to keep what there is.
    pub(super) held: Option<Held>,
    pub(super) verdict: Verdict,
    /// Rules of the copy that the index does not have.
    pub(super) left_out: Vec<RuleId>,
}

impl Job {
    pub(super) fn build(build: Build) -> Job {
        Job(Work::Build(Box::new(build)))
    }

    pub(super) fn dropping(held: Held) -> Job {
        Job(Work::Drop(held))
    }

    /// How many rules it has to do with; 0 if it only drops an index.
    pub fn rule_count(&self) -> usize {
        match &self.0 {
            Work::Build(build) => build.snapshot.len(),
            Work::Drop(_) => 0,
        }
    }

    /// Does it; the longer part of the work of a classifier.
    pub fn run(self) -> Outcome {
        match self.0 {
            Work::Build(build) => Outcome(Some(Box::new(build.run()))),
            Work::Drop(_) => Outcome(None),
        }
    }
}

impl Build {
    fn run(mut self) -> Built {
        let (epoch, left_out) = (self.epoch, self.snapshot.sort());
        let (held, verdict) = match self.config.selection {
            Selection::Learned(_) => self.train(),
            Selection::Measured(_) => self.compare(),
        };
        Built {
            epoch,
            held,
            verdict,
            left_out,
        }
    }

    /// The learned index, which is asked for whatever it costs.
    fn train(self) -> (Option<Held>, Verdict) {
        let (rules, update_rate) = (self.snapshot.len(), self.figures.update_rate());
        let job = TrainingJob::new(self.snapshot, self.config.learned.clone(), None);
        let learned = Learned::of(self.config.learned, job.run());
        let verdict = Verdict {
            chosen: IndexKind::Learned,
            costs_ns: Vec::new(),
            rules,
            keys: 0,
            update_rate,
            coverage: Some(learned.covered_share()),
        };
        (Some(Held::Learned(Box::new(learned))), verdict)
    }

    fn compare(self) -> (Option<Held>, Verdict) {
        let Selection::Measured(policy) = self.config.selection else {
            unreachable!("a learned index is not compared");
        };
        let keys = self.keys_to_try();
        let words = self.snapshot.words();
        let mut costs = Vec::new();
        let (mut best, mut coverage): (Option<(IndexKind, Held)>, _) = (None, None);
        let before = (self.figures.kind, self.figures.cost_ns);
        for kind in self.candidates() {
            let held = self.build(kind, &costs);
            if kind == IndexKind::Learned {
                coverage = Some(held.coverage());
            }
            let cost = keys.chunks_exact(words);
            let cost = cost.map(|key| held.visited_by(key, Version::FIRST).cost_ns);
            let cost = cost.sum::<f64>() / (keys.len() / words).max(1) as f64;
            costs.push((kind, cost));
            let is_best = match self.is_asked_for {
                // Compared with each other only.
                true => costs.iter().all(|(_, other)| cost <= *other),
                false => policy.choose(&self.figures, &costs) == Some(kind),
            };
            if is_best {
                best = Some((kind, held));
            }
        }
        if policy.is_too_small(&self.figures) && !self.is_asked_for {
            best = Some((IndexKind::TupleSpace, self.first()));
        }
        let chosen = best.as_ref().map_or(self.figures.kind, |(kind, _)| *kind);
        costs.insert(0, before);
        let verdict = Verdict {
            chosen,
            costs_ns: costs,
            rules: self.snapshot.len(),
            keys: keys.len() / words,
            update_rate: self.figures.update_rate(),
            coverage,
        };
        (best.map(|(_, held)| held), verdict)
    }

    /// The kinds that are worth building.
    fn candidates(&self) -> Vec<IndexKind> {
        let Selection::Measured(policy) = self.config.selection else {
            return Vec::new();
        };
        if policy.is_too_small(&self.figures) && !self.is_asked_for {
            return Vec::new();
        }
        let masks = self.masks.unwrap_or_else(|| self.count_masks());
        let is_candidate = |kind: &IndexKind| match kind {
            IndexKind::TupleSpace => masks <= TUPLE_SPACE_MASKS_MAX,
            IndexKind::Bloom => masks <= BLOOM_MASKS_MAX,
            IndexKind::MergedTuples | IndexKind::Learned => true,
        };
        let all = self.config.kinds.iter().copied();
        all.filter(is_candidate).collect()
    }

    fn count_masks(&self) -> usize {
        let rules = 0..self.snapshot.len() as u32;
        let masks = rules.map(|rule| self.snapshot.pattern(rule).mask);
        masks.collect::<std::collections::HashSet<_>>().len()
    }

    /// An index of all rules; `costs` are those of the kinds that were built before.
    fn build(&self, kind: IndexKind, costs: &[(IndexKind, f64)]) -> Held {
        if kind == IndexKind::Learned {
            let known = costs
                .iter()
                .find(|(kind, _)| *kind == IndexKind::MergedTuples);
            let without = known.map(|(_, cost)| *cost);
            let config = self.config.learned.clone();
            let job = TrainingJob::new(self.snapshot.clone(), config.clone(), without);
            return Held::Learned(Box::new(Learned::of(config, job.run())));
        }
        self.fill(Held::empty(kind, &self.config))
    }

    /// What there was before anything was chosen.
    fn first(&self) -> Held {
        self.fill(Held::first(&self.config))
    }

    fn fill(&self, mut held: Held) -> Held {
        let index = held.index_mut();
        for rule in 0..self.snapshot.len() as u32 {
            let (precedence, id) = self.snapshot.rule(rule);
            index.insert(self.snapshot.pattern(rule), precedence, id, Version::FIRST);
        }
        held
    }

    /// Keys that were looked up, and as many of rules as are missing.
    fn keys_to_try(&self) -> Vec<u64> {
        let words = self.snapshot.words();
        let mut keys = self.keys.clone();
        let missing = KEYS.saturating_sub(keys.len() / words);
        let step = self.snapshot.len().div_ceil(missing.max(1)).max(1);
        let rules = (0..self.snapshot.len() as u32).step_by(step);
        for rule in rules.take(missing) {
            let Pattern { value, mask } = self.snapshot.pattern(rule);
            let noise = crate::hash::hash_words(1, &[rule.into()]);
            keys.extend(
                value
                    .iter()
                    .zip(mask)
                    .map(|(value, mask)| value | noise & !mask),
            );
        }
        keys
    }
}
