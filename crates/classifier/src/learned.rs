//! A learned index over rules, with merged tuples for the rest.
//!
//! It follows NuevoMatch (Rashelbach, Rottenstreich, Silberstein, *A computational approach to
//! packet classification*, SIGCOMM 2020) and NuevoMatchUP (the same, *Scaling Open vSwitch
//! with a computational cache*, NSDI 2022). A hash table per mask searches mask by mask. Here
//! most rules are sorted by some of their fields, in a few *iSets*. A model of the sorted list
//! predicts where a key's rules are, if there are any:
//!
//! ```text
//!   lookup, for a burst of 32 keys:
//!       pack the bits that covered rules read                                   (packing)
//!       for each iSet:
//!           the number of some fields of the key                                (composite)
//!           model: number -> a window of a few places                           (model)
//!           binary search in the window -> the bucket                           (iset)
//!           compare the bucket's rules, eight at once, the best first           (groups)
//!       look in the remainder, which is merged tuples, for what beats the best so far; or, where
//!           any rule will do, only for keys without (`LearnedConfig::takes_any`)
//! ```
//!
//! Rules are removed in place. A new rule goes into the bucket where a training would look for
//! it, if it lies in only one bucket and there is room (`Trained::insert`). Otherwise it goes
//! into the remainder. So lookups stay fast while rules come and go. A training is needed when
//! the new rules differ from the old ones, or when all change at once, because the slots of
//! dying rules are not free yet.
//!
//! A training puts rules into iSets. It chooses fields (`choose`), fills buckets
//! (`partition`), keeps as many iSets as make lookups cheapest (`cost`), and trains the models
//! (`pieces`, `perceptrons`). The other rules go into a new remainder. The outcome is a new
//! classifier, built beside this one. [`Learned::train_now`] builds it in the caller's time.
//! [`Auto`](crate::Auto) builds it on a thread and brings it up to date before it replaces
//! this one (`rebuild`).
//!
//! Differences from NuevoMatch and NuevoMatchUP, and reasons:
//!
//! - *Never wrong.* Keys are exact integers of up to 128 bits, and a model is a function that
//!   does not round. Its bound is that of the running code and needs no margin. Each training
//!   checks it at both ends of each place.
//! - *Several fields, one after another.* A rule's range is in a number made of several
//!   fields. A filter with port ranges becomes dozens of rules, and hundreds of rules may
//!   share one address: the next field separates them. A range comes from the leading bits of
//!   a rule's mask, so a mask that is not a prefix has a range too, only a wide one.
//! - *Buckets by nesting.* The ranges of masks are nested or disjoint. So buckets are cut
//!   along a forest in one walk, and a wide rule may have copies in several buckets.
//! - *Buckets are compared at once.* A group stores eight rules word by word.
//! - *The number of iSets is chosen by cost*, and may be zero; it does not depend only on the
//!   share of rules. A third or fourth iSet costs as much as the first, whatever it covers.
//! - *Two models.* Linear pieces under a radix tree are the default: lookups with the RQ-RMI
//!   are clearly slower, and its windows are longer. Training either model is a small part of
//!   a training; choosing the fields takes most of it.
//! - *Inserts in place*, where NuevoMatch keeps them in the remainder until the next training.
//! - *Versions.* Lookups take a version, as in all classifiers here.
//!
//! 1. Every rule is in the remainder or has a slot, not both. A rule with a slot is in one
//!    iSet.
//! 2. `history` has the open births and deaths of rules with a slot; the remainder has those
//!    of all other rules.
//!
//! Costs: a lookup in an iSet mostly waits for the cache lines of the model, of the starts,
//! and of one group. A bucket has at most [`LearnedConfig::bucket_max`] rules, and a rule has
//! copies in at most [`LearnedConfig::copies_max`] buckets, which bounds both time and memory.
//! A rule takes about 30 bytes in its bucket, 45 with full masks (`groups`), and 60 for slot
//! and id, including vacant slots. On ClassBench's sets and generated ones
//! (`benches/learned.rs`, one core, medians of five runs that take turns, uniform headers that
//! rules match), nanoseconds per lookup in bursts of 32:
//!
//! ```text
//!                          rules   covered   merged tuples   learned
//!   acl1_100k             82,991    99.8 %             247        56   (a slow minute)
//!   ipc1_100k            103,949    99.8 %             207        65
//!   fw1_100k             259,908    99.3 %             528       125
//!   acl1, generated      443,195    99.8 %             186        60
//!   ipc1, generated      518,930    99.9 %             217        77
//!   fw1, generated       520,825    99.7 %             592       138
//! ```
//!
//! Training times are in docs/results/lookup.md. AVX-512 makes lookups clearly faster than the
//! instructions that every x86-64 processor has; AVX2 gains less.

mod batch;
mod choose;
mod composite;
mod cost;
mod examine;
mod groups;
mod index;
mod iset;
mod lane;
mod limits;
mod model;
mod number;
mod packing;
mod partition;
mod perceptrons;
mod pieces;
mod policy;
mod rebuild;
mod slots;
mod snapshot;
mod statistics;
mod training;

use thalweg_packet::{FieldId, Layout, Slot};

use crate::history::History;
use crate::merged_tuples::{Best, MergedTuples};
use crate::simd::Level;
use crate::{Classifier, Pattern, Precedence, RuleId, TupleSpaceConfig, Version};

use batch::best_of;
use index::Trained;
pub(crate) use policy::Changes;
pub use policy::TrainingPolicy;
pub(crate) use snapshot::Snapshot;
pub use statistics::{IsetStatistics, LearnedStatistics};
pub(crate) use training::TrainingJob;

/// The kinds of model of an iSet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ModelKind {
    /// Linear pieces under a radix tree.
    #[default]
    Pieces,
    /// NuevoMatch's recursive model of small neural networks (RQ-RMI).
    Perceptrons,
}

/// The configuration of a [`Learned`]: its keys and its training.
#[derive(Clone, Debug)]
pub struct LearnedConfig {
    /// The configuration of the remainder.
    pub tuples: TupleSpaceConfig,
    /// The fields by which iSets may be sorted, each at most 128 bits wide.
    pub fields: Vec<Slot>,
    /// The model of an iSet.
    pub model: ModelKind,
    /// The most places on which a submodel of neural networks is trained; `usize::MAX` for
    /// all.
    pub samples_max: usize,
    /// The most iSets.
    pub isets_max: usize,
    /// The fewest rules of an iSet.
    pub iset_rules_min: usize,
    /// The least share of all rules that iSets must cover together, in percent; below it there
    /// are none.
    pub coverage_min_percent: u32,
    /// Whether iSets are made even where lookups would be cheaper without them.
    pub is_cost_ignored: bool,
    /// Whether any matching rule is as good as the best one.
    ///
    /// A lookup that finds a rule in an iSet then skips the remainder. This suits caches,
    /// whose entries agree where they overlap.
    pub takes_any: bool,
    /// The most rules of a bucket.
    pub bucket_max: usize,
    /// The most buckets with copies of one rule; 1 for no copies.
    pub copies_max: usize,
    /// The instructions that lookups use.
    pub level: Level,
}

impl LearnedConfig {
    /// A configuration for keys of this layout: any of its fields may sort an iSet.
    pub fn new(layout: &Layout, prefix_fields: &[FieldId], seed: u64) -> LearnedConfig {
        let slots = layout.used().iter().filter_map(|&field| layout.slot(field));
        let fields = slots.filter(|slot| u32::from(slot.width_bits) <= composite::BITS_MAX);
        let tuples = TupleSpaceConfig::new(layout, prefix_fields, seed);
        LearnedConfig::with_fields(tuples, fields.collect())
    }

    /// A configuration with the remainder's knowledge of keys, and these fields.
    ///
    /// In a model check, whose tables are small, any few rules become an iSet.
    pub fn with_fields(tuples: TupleSpaceConfig, fields: Vec<Slot>) -> LearnedConfig {
        LearnedConfig {
            tuples,
            fields,
            model: ModelKind::default(),
            samples_max: perceptrons::SAMPLES_MAX,
            isets_max: 6,
            iset_rules_min: if cfg!(thalweg_model) { 1 } else { 64 },
            coverage_min_percent: if cfg!(thalweg_model) { 0 } else { 25 },
            is_cost_ignored: cfg!(thalweg_model),
            takes_any: false,
            bucket_max: 256,
            copies_max: 256,
            level: Level::best(),
        }
    }

    /// A configuration for keys of `words` words without structure: each word is a field.
    pub fn flat(words: usize, seed: u64) -> LearnedConfig {
        let field = |word| Slot {
            word,
            shift: 0,
            width_bits: 64,
        };
        let fields = (0..words as u16).map(field).collect();
        LearnedConfig::with_fields(TupleSpaceConfig::flat(words, seed), fields)
    }
}

/// A classifier with most rules in a learned index, and the rest in the remainder.
#[derive(Clone, Debug)]
pub struct Learned {
    config: LearnedConfig,
    remainder: MergedTuples,
    trained: Option<Box<Trained>>,
    /// The births and deaths of rules in iSets.
    history: History,
    /// The latest `oldest` passed to `reclaim`.
    oldest: Version,
}

impl Learned {
    /// Creates an empty classifier.
    ///
    /// # Panics
    /// As [`MergedTuples::new`]; and if a field is wider than 128 bits or outside the words.
    pub fn new(config: LearnedConfig) -> Learned {
        let words = config.tuples.stages.len();
        for field in &config.fields {
            let width_bits = u32::from(field.width_bits);
            assert!(
                (1..=composite::BITS_MAX).contains(&width_bits),
                "a field has 1 to 128 bits"
            );
            let end = usize::from(field.word) + field.word_count();
            assert!(end <= words, "a field outside the key");
        }
        Learned {
            remainder: MergedTuples::new(config.tuples.clone()),
            config,
            trained: None,
            history: History::default(),
            oldest: Version::FIRST,
        }
    }

    fn words(&self) -> usize {
        self.config.tuples.stages.len()
    }

    /// The best rule at `version` that matches `key`.
    #[inline(always)]
    fn best(&self, key: &[u64], version: Version) -> Best {
        let trained = self.trained.as_deref();
        let own = trained.map_or(Best::NONE, |trained| {
            self.found_by(trained, trained.best(self.config.level, key, version))
        });
        self.remainder.improve(key, version, own)
    }
}

impl Classifier for Learned {
    fn insert(&mut self, pattern: Pattern<'_>, precedence: Precedence, id: RuleId, born: Version) {
        let known = self
            .trained
            .as_ref()
            .and_then(|trained| trained.slots.find(id));
        assert!(known.is_none(), "rule id in use");
        if let Some(trained) = &mut self.trained {
            pattern.check(trained.key_words);
            let is_known = self.remainder.precedence(id).is_some();
            assert!(!is_known, "rule id in use");
            if let Some(slot) = trained.insert(pattern, precedence, id, born) {
                match born <= self.oldest {
                    true => trained.settle_birth(slot),
                    false => self.history.record_birth(id, born),
                }
                return;
            }
        }
        self.remainder.insert(pattern, precedence, id, born);
    }

    fn remove(&mut self, id: RuleId, died: Version) {
        if let Some(trained) = &mut self.trained
            && let Some(slot) = trained.slots.find(id)
        {
            let is_living = trained.is_living(slot);
            assert!(is_living, "the caller names a living rule");
            let born = trained.slots.fate(slot).born;
            assert!(born <= died, "a death before the birth");
            trained.end(slot, died);
            self.history.record_death(id, died);
            return;
        }
        self.remainder.remove(id, died);
    }

    fn foresee(&self, pattern: Pattern<'_>, precedence: Precedence) {
        std::hint::black_box(self.find(pattern, precedence.priority()));
        if let Some(trained) = &self.trained {
            trained.foresee(precedence);
        }
    }

    fn foresee_removal(&self, id: RuleId) {
        let trained = self.trained.as_ref();
        if !trained.is_some_and(|trained| trained.foresee_removal(id)) {
            std::hint::black_box(self.remainder.precedence(id));
        }
    }

    fn lookup(&self, key: &[u64], version: Version) -> Option<RuleId> {
        self.best(key, version).id()
    }

    fn lookup_examined(
        &self,
        key: &[u64],
        version: Version,
        examined: &mut [u64],
    ) -> Option<RuleId> {
        let Some(trained) = &self.trained else {
            return self.remainder.lookup_examined(key, version, examined);
        };
        let slot = trained.best(self.config.level, key, version);
        let best = self.remainder.improve(key, version, best_of(trained, slot));
        if best.is_beside() {
            let (_, mask) = trained.pattern(slot);
            examined
                .iter_mut()
                .zip(mask)
                .for_each(|(examined, mask)| *examined |= mask);
        }
        trained.examine(key, version, best.precedence(), examined);
        self.remainder.examine(key, version, best, examined);
        best.id()
    }

    fn lookup_batch(&self, keys: &[u64], version: Version, answers: &mut [Option<RuleId>]) {
        let Some(trained) = &self.trained else {
            return self.remainder.lookup_batch(keys, version, answers);
        };
        let words = self.words();
        assert_eq!(keys.len(), words * answers.len(), "keys of another layout");
        let bursts = keys.chunks(words * limits::BURST);
        for (keys, answers) in bursts.zip(answers.chunks_mut(limits::BURST)) {
            self.lookup_burst(trained, keys, version, answers);
        }
    }

    fn find(&self, pattern: Pattern<'_>, priority: u16) -> Option<RuleId> {
        let other = self.remainder.find(pattern, priority);
        let Some(trained) = &self.trained else {
            return other;
        };
        let Some(slot) = trained.find(pattern, priority) else {
            return other;
        };
        let own = trained.slots.get(slot);
        let best = other.and_then(|other| self.remainder.precedence(other));
        let is_older = best.is_none_or(|precedence| own.precedence > precedence);
        if is_older { Some(own.id) } else { other }
    }

    fn find_within(&self, pattern: Pattern<'_>, found: &mut Vec<RuleId>) {
        if let Some(trained) = &self.trained {
            trained.find_within(pattern, found);
        }
        self.remainder.find_within(pattern, found);
    }

    fn pattern(&self, id: RuleId) -> Option<(Vec<u64>, Vec<u64>)> {
        if let Some(trained) = &self.trained
            && let Some(slot) = trained.slots.find(id)
        {
            return Some(trained.pattern(slot));
        }
        self.remainder.pattern(id)
    }

    fn abort(&mut self, version: Version) {
        self.remainder.abort(version);
        let (births, deaths) = self.history.take_version(version);
        let Some(trained) = &mut self.trained else {
            return;
        };
        for id in births {
            let slot = trained.slots.find(id);
            let slot = slot.expect("rules of an open version are present");
            let died = trained.slots.fate(slot).died;
            if died != Version::NEVER && died != version {
                self.history.forget_death(id, died);
            }
            trained.vacate(slot);
        }
        for id in deaths {
            // Rules that were born in the same version are already gone.
            if let Some(slot) = trained.slots.find(id) {
                trained.live_on(slot, self.oldest);
            }
        }
    }

    fn reclaim(&mut self, oldest: Version) -> Vec<RuleId> {
        self.oldest = self.oldest.max(oldest);
        let mut freed = self.remainder.reclaim(oldest);
        if let Some(trained) = &mut self.trained {
            for id in self.history.born_by(oldest) {
                let slot = trained
                    .slots
                    .find(id)
                    .expect("a rule that was born is present");
                trained.settle_birth(slot);
            }
        }
        let dead = self.history.settle(oldest);
        if let Some(trained) = &mut self.trained {
            for &id in &dead {
                let slot = trained.slots.find(id).expect("a dying rule is present");
                trained.vacate(slot);
            }
            if trained.slots.len() == 0 {
                self.trained = None;
            }
        }
        freed.extend(dead);
        freed
    }

    fn len(&self, version: Version) -> usize {
        let slots = self
            .trained
            .as_ref()
            .map_or(0, |trained| trained.slots.len());
        let others = self.history.born_after(version) + self.history.died_by(version);
        slots - others + self.remainder.len(version)
    }

    fn memory_bytes(&self) -> usize {
        let trained = self.trained.as_ref();
        let trained = trained.map(|trained| size_of::<Trained>() + trained.heap_bytes());
        self.remainder.memory_bytes() + trained.unwrap_or(0) + self.history.heap_bytes()
    }
}
