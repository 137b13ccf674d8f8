//! A learned index over rules, and merged tuples for the rest.
//!
//! After NuevoMatch (Rashelbach, Rottenstreich, Silberstein, *A computational approach to packet
//! classification*, SIGCOMM 2020) and NuevoMatchUP (the same, *Scaling Open vSwitch with a
//! computational cache*, NSDI 2022). A hash table for each mask asks where a rule may be, mask by
//! mask. Here most rules are sorted by some of their fields, in a few *iSets*, and a model of the
//! sorted list says where a key's rules are, if there are any:
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
//! Rules are removed where they are. A rule that comes is put into the bucket where a training would
//! look for it, if it lies in one alone and there is room (`Trained::insert`); else into the
//! remainder. So lookups stay fast while rules come and go, and a training is needed when other rules
//! come than those that went, or all at once: then the slots of those that go are not free yet.
//!
//! A training puts rules into iSets: it chooses fields (`choose`), puts rules into buckets
//! (`partition`), keeps as many iSets as make lookups cheapest (`cost`), and trains the models
//! (`pieces`, `perceptrons`); what is left goes into a new remainder. Its outcome is another
//! classifier, which is made beside this one: [`Learned::train_now`] does it in the caller's time,
//! [`Auto`](crate::Auto) on a thread, and brings it up to date before it takes this one's place
//! (`rebuild`).
//!
//! What differs from NuevoMatch and NuevoMatchUP, and why:
//!
//! - *Never wrong.* Keys are exact integers of up to 128 bits, and a model is a function that does
//!   not round; its bound is that of the very code that runs, needs no margin, and is checked at
//!   both ends of each place whenever a model is trained.
//! - *Several fields, one after the other.* A rule's range is in a number made of some fields. So
//!   the dozens of rules that a filter with port ranges becomes, and the hundreds with one address,
//!   are parted by the next field. And a range is given by the leading bits that a rule's mask has:
//!   a mask that is no prefix has a range too, only a wide one.
//! - *Buckets by nesting.* The ranges of masks are nested or apart, so that buckets are cut along a
//!   forest in one walk, and a wide rule may have copies in several.
//! - *Buckets are compared at once.* A group of eight rules lies word by word.
//! - *The number of iSets is chosen by cost*, none included, not by the share of rules alone. A
//!   third or fourth iSet costs as much as the first, whatever it covers.
//! - *Two models.* Linear pieces under a radix tree are the default: with the RQ-RMI a lookup took
//!   some 30 to 45 ns more; their windows are shorter too. Training either takes a few milliseconds of
//!   what a training takes; choosing the fields takes most.
//! - *Inserts in place*, where NuevoMatch has them in the remainder until the next training.
//! - *Versions.* Lookups take one, as with all classifiers here.
//!
//! 1. Every rule is in the remainder or has a slot, not both. One that has a slot is in one iSet.
//! 2. `history` has the births and deaths of rules with a slot that are open; those of all others
//!    are with the remainder.
//!
//! Costs: an iSet takes 15 to 30 ns a lookup in a burst, as the machine's caches allow: the lines
//! of the model and the starts, and of one group; a bucket may have
//! [`LearnedConfig::bucket_max`] rules, and copies let a rule lie in
//! [`LearnedConfig::copies_max`] buckets, which bounds both time and memory. A rule takes some 30
//! bytes in its bucket, 45 where masks are written out (`groups`), and 60 for slot and id, vacant
//! slots included. On ClassBench's sets and generated ones (`benches/learned.rs`, one core, medians of
//! five runs that take turns, uniform headers that rules match), nanoseconds a lookup in bursts of 32:
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
//! Training takes 0.1 to 0.4 s for the first three, 0.7 to 0.9 s for the others. AVX-512 gains 8 to 12
//! ns over what every x86-64 has with acl1 and ipc1 of 100,000, AVX2 2 to 4.

mod batch;
mod choose;
mod composite;
mod cost;
mod examine;
mod groups;
mod index;
mod iset;
mod model;
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
pub(crate) use cost::{cost_of_isets, cost_of_visits};
use index::Trained;
pub(crate) use policy::Changes;
pub use policy::TrainingPolicy;
pub(crate) use snapshot::Snapshot;
pub use statistics::{IsetStatistics, LearnedStatistics};
pub(crate) use training::TrainingJob;

/// The kinds of model that an iSet may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ModelKind {
    /// Linear pieces under a radix tree.
    #[default]
    Pieces,
    /// NuevoMatch's recursive model of small neural networks (RQ-RMI).
    Perceptrons,
}

/// What a [`Learned`] needs to know of its keys, and how it is to train.
#[derive(Clone, Debug)]
pub struct LearnedConfig {
    /// For the remainder.
    pub tuples: TupleSpaceConfig,
    /// Fields that iSets may be sorted by, 128 bits wide at most.
    pub fields: Vec<Slot>,
    /// The model of an iSet.
    pub model: ModelKind,
    /// On how many places a submodel of neural networks is trained, at most; `usize::MAX` for all.
    pub samples_max: usize,
    /// The most iSets that there may be.
    pub isets_max: usize,
    /// The fewest rules that an iSet may have.
    pub iset_rules_min: usize,
    /// The least share of all rules that iSets must have together, in percent; else there are none.
    pub coverage_min_percent: u32,
    /// Whether iSets are made even where lookups would be cheaper without.
    pub is_cost_ignored: bool,
    /// Whether any rule that matches is as good as the best, so that a lookup that has found one in
    /// an iSet does not look for a better one in the remainder: as with caches, whose entries say the
    /// same where they overlap.
    pub takes_any: bool,
    /// The most rules that a bucket may have.
    pub bucket_max: usize,
    /// The most buckets that one rule may have copies in; 1 for no copies.
    pub copies_max: usize,
    /// The instructions that lookups use.
    pub level: Level,
}

impl LearnedConfig {
    /// For keys of this layout: any of its fields may sort an iSet.
    pub fn new(layout: &Layout, prefix_fields: &[FieldId], seed: u64) -> LearnedConfig {
        let slots = layout.used().iter().filter_map(|&field| layout.slot(field));
        let fields = slots.filter(|slot| u32::from(slot.width_bits) <= composite::BITS_MAX);
        let tuples = TupleSpaceConfig::new(layout, prefix_fields, seed);
        LearnedConfig::with_fields(tuples, fields.collect())
    }

    /// For keys of which no more is known than what the remainder is told, and these fields.
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

    /// For keys of `words` words of which nothing is known: each word is a field.
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

/// A classifier whose rules are in a learned index, but for the remainder.
#[derive(Clone, Debug)]
pub struct Learned {
    config: LearnedConfig,
    remainder: MergedTuples,
    trained: Option<Box<Trained>>,
    /// The births and deaths of rules of iSets.
    history: History,
    /// The latest `oldest` that was reclaimed to.
    oldest: Version,
}

impl Learned {
    /// An empty classifier.
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
        let bursts = keys.chunks(words * batch::BURST);
        for (keys, answers) in bursts.zip(answers.chunks_mut(batch::BURST)) {
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
            // Those that were born in the same version are gone already.
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
