//! Builds indexes from a copy of the rules, on any thread, and compares them.
//!
//! ```text
//!   sort the copy by precedence
//!   for each kind that may be taken: build it of all rules; look up the keys, and count
//!   keep the one that the policy takes, or none
//! ```
//!
//! The keys are recently looked up ones, filled up with keys of rules while there are too few.
//! A tuple space of very many masks, and a filter before one, are not built: they cannot win.

use crate::learned::{Snapshot, TrainingJob};
use crate::{Learned, Pattern, RuleId, Version};

use super::held::{Held, IndexKind};
use super::observed::KEYS;
use super::policy::{Figures, Verdict};
use super::{AutoConfig, Selection};

/// The most masks for which a tuple space is tried; the next is for a filter before one.
const TUPLE_SPACE_MASKS_MAX: usize = 64;
const BLOOM_MASKS_MAX: usize = 512;

/// A job that builds an index of a classifier, on any thread.
///
/// `owner` says where the built index belongs; a classifier itself gives `()`.
#[derive(Debug)]
pub struct IndexJob<O = ()> {
    owner: O,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Build(Box<Build>),
    /// Drops an index, which takes time too.
    Drop(#[expect(dead_code, reason = "it is there to be dropped")] Held),
}

/// A copy of the rules, and the choice to make.
#[derive(Debug)]
pub(super) struct Build {
    /// The number of the [`Auto`](super::Auto), and of its job.
    pub(super) epoch: (u64, u64),
    pub(super) snapshot: Snapshot,
    pub(super) config: AutoConfig,
    pub(super) figures: Figures,
    /// Keys that were looked up, in sequence.
    pub(super) keys: Vec<u64>,
    /// The number of masks, if known.
    pub(super) masks: Option<usize>,
    /// Whether to build an index even if it is no better than the current one.
    pub(super) is_asked_for: bool,
}

/// The result of an [`IndexJob`], with the job's owner.
#[derive(Debug)]
pub struct BuiltIndex<O = ()> {
    owner: O,
    /// `None` if the job only dropped an index.
    pub(super) built: Option<Box<Built>>,
}

/// A new index, with the verdict that chose it.
#[derive(Debug)]
pub(super) struct Built {
    /// The number of the [`Auto`](super::Auto), and of its job.
    pub(super) epoch: (u64, u64),
    /// `None` to keep the current index.
    pub(super) held: Option<Held>,
    pub(super) verdict: Verdict,
    /// Rules of the copy that the index lacks.
    pub(super) left_out: Vec<RuleId>,
}

impl IndexJob {
    pub(super) fn build(build: Build) -> IndexJob {
        IndexJob {
            owner: (),
            work: Work::Build(Box::new(build)),
        }
    }

    pub(super) fn dropping(held: Held) -> IndexJob {
        IndexJob {
            owner: (),
            work: Work::Drop(held),
        }
    }

    /// The same job for an owner.
    pub fn for_owner<O>(self, owner: O) -> IndexJob<O> {
        let work = self.work;
        IndexJob { owner, work }
    }
}

impl<O> IndexJob<O> {
    /// Where the built index belongs.
    pub fn owner(&self) -> &O {
        &self.owner
    }

    /// The number of rules in the job; 0 if it only drops an index.
    pub fn rule_count(&self) -> usize {
        match &self.work {
            Work::Build(build) => build.snapshot.len(),
            Work::Drop(_) => 0,
        }
    }

    /// Builds the index; takes long for many rules.
    pub fn run(self) -> BuiltIndex<O> {
        let built = match self.work {
            Work::Build(build) => Some(Box::new(build.run())),
            Work::Drop(_) => None,
        };
        let owner = self.owner;
        BuiltIndex { owner, built }
    }
}

impl<O> BuiltIndex<O> {
    /// Where the index belongs.
    pub fn owner(&self) -> &O {
        &self.owner
    }

    /// The index for [`Classifier::install`](crate::Classifier::install) of its owner.
    pub fn without_owner(self) -> BuiltIndex {
        let built = self.built;
        BuiltIndex { owner: (), built }
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

    /// Trains the learned index, whatever its cost.
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
            let cost = cost.map(|key| held.visited_by(key, Version::FIRST).cost_ns());
            let cost = cost.sum::<f64>() / (keys.len() / words).max(1) as f64;
            costs.push((kind, cost));
            let is_best = match self.is_asked_for {
                // Compares the new indexes only with each other.
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

    /// The kinds worth building.
    fn candidates(&self) -> Vec<IndexKind> {
        let Selection::Measured(policy) = self.config.selection else {
            return Vec::new();
        };
        if policy.is_too_small(&self.figures) && !self.is_asked_for {
            return Vec::new();
        }
        let masks = self.masks.unwrap_or_else(|| self.count_masks());
        let is_candidate = |kind: &IndexKind| match kind {
            // One mask is one hash table, which no index beats. The weights were fitted to sets of
            // several masks and would not say so.
            _ if masks == 1 && !self.is_asked_for => *kind == IndexKind::TupleSpace,
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

    /// Builds an index of all rules; `costs` are those of the kinds built before.
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

    /// The index as it was before anything was chosen.
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

    /// Keys that were looked up, filled up with keys of rules.
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
