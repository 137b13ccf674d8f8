//! Megaflows in a learned index: the computational cache.
//!
//! After Rashelbach, Rottenstreich and Silberstein (*Scaling Open vSwitch with a computational
//! cache*, NSDI 2022): most entries are in a few iSets, whose model predicts the place of a
//! key's entry. All others, including new ones, are in the index's remainder. So the index has
//! every entry, and the sub-tables are searched only where its answer may not be used:
//!
//! ```text
//!   the index names an entry:       it is the answer
//!     ... that is refused:          another may match: search the sub-tables
//!   the index has none:             there is none, nor in any sub-table
//! ```
//!
//! Entries do not compete, as overlapping ones give the same answer: a match in an iSet is
//! enough. The remainder, which may have hundreds of masks, is searched only for keys without
//! an entry in an iSet ([`LearnedConfig::takes_any`]). A classifier still needs precedences:
//! that of an entry is its number, the lower the better. There is one version: entries come
//! and go at once.
//!
//! An index built from existing entries is trained before it is used (`tend`). Training goes
//! on in slices between bursts, and its long part is a job that the caller runs where it likes
//! ([`thalweg_classifier::Auto`]). Meanwhile entries come and go as usual.
//!
//! 1. Once it is in use, the index has exactly the entries of the sub-tables, with their keys
//!    under their masks.
//!
//! How much faster a packet is answered, as a ratio of processor time (`thalweg bench forward
//! --mode megaflows --megaflows 300000 --megaflow-classifier tuple-space,learned`, 262,144
//! flows in uniform order, generated rules, entries trained; 3 to 8 % of the packets are
//! answered by the exact-match cache):
//!
//! | rules | masks | sub-tables searched | ratio |
//! | --- | --- | --- | --- |
//! | acl1-100k | 77 | 3.9 | 1.5 |
//! | fw1-100k | 311 | 9.1 | 2.3 |
//! | ipc1-100k | 169 | 16.8 | 3.4 |
//!
//! Costs besides those of `thalweg_classifier`'s learned index: entries are both in it and in
//! a sub-table, so that the index of a megaflow takes twice the memory.

use smallvec::SmallVec;
use thalweg_classifier::{
    Auto, AutoConfig, BuiltIndex, Classifier, Copies, IndexJob, LearnedConfig, LearnedStatistics,
    Pattern, Precedence, RuleId, Selection, Tending, TrainingPolicy, TupleSpaceConfig, Version,
};
use thalweg_packet::{BURST, Layout};

use crate::entry::EntryId;

use super::choice::Asked;

/// The only version.
const NOW: Version = Version::FIRST;

/// The index.
#[derive(Debug)]
pub(crate) struct Index {
    rules: Auto,
    words: usize,
    /// Keys of a burst, one after the other.
    packed: Vec<u64>,
}

/// The configuration of an index for keys of this layout; it uses their ingress bits.
fn config_of(layout: &Layout, seed: u64) -> AutoConfig {
    let words = layout.ingress_words();
    let ingress = layout.used().iter().filter(|field| {
        let descriptor = layout.descriptor(**field);
        descriptor.is_ingress()
    });
    let slots = ingress.filter_map(|&field| layout.slot(field));
    let slots = slots.filter(|slot| slot.width_bits <= 128);
    let tuples = TupleSpaceConfig {
        stages: (0..words).map(|word| layout.stage_of_word(word)).collect(),
        prefix_fields: Vec::new(),
        seed,
    };
    let learned = LearnedConfig {
        // Overlapping entries give the same answer.
        takes_any: true,
        ..LearnedConfig::with_fields(tuples, slots.collect())
    };
    AutoConfig::new(learned, Selection::Learned(TrainingPolicy::default()))
}

/// Passes an entry in the form of a rule to `put`.
fn as_rule<R>(
    id: EntryId,
    key: &[u64],
    mask: &[u64],
    put: impl FnOnce(Pattern<'_>, Precedence, RuleId) -> R,
) -> R {
    let value: SmallVec<[u64; 64]> = key.iter().zip(mask).map(|(key, mask)| key & mask).collect();
    let pattern = Pattern {
        value: &value,
        mask,
    };
    put(pattern, Precedence::new(0, id.0.into()), RuleId(id.0))
}

/// Entries from which an index is built.
#[derive(Debug)]
pub(crate) struct CopiedEntries {
    copies: Copies,
    words: usize,
}

impl CopiedEntries {
    /// Creates an empty copy with room for `entries`.
    pub(crate) fn new(layout: &Layout, entries: usize) -> CopiedEntries {
        let words = layout.ingress_words();
        CopiedEntries {
            copies: Copies::new(words, entries),
            words,
        }
    }

    pub(crate) fn push(&mut self, id: EntryId, key: &[u64], mask: &[u64]) {
        let (key, mask) = (&key[..self.words], &mask[..self.words]);
        as_rule(id, key, mask, |pattern, precedence, rule| {
            self.copies.push(pattern, precedence, rule);
        });
    }

    /// Builds the index, which has the entries once the job's outcome is installed.
    pub(crate) fn into_index(self, layout: &Layout, seed: u64) -> (Index, IndexJob) {
        let (rules, job) = Auto::with_copies(config_of(layout, seed), self.copies);
        (Index::of(rules, self.words), job)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.copies.heap_bytes()
    }
}

impl Index {
    /// Creates an empty index for the ingress bits of keys of this layout.
    pub(crate) fn new(layout: &Layout, seed: u64) -> Index {
        let rules = Auto::new(config_of(layout, seed));
        Index::of(rules, layout.ingress_words())
    }

    fn of(rules: Auto, words: usize) -> Index {
        Index {
            rules,
            words,
            packed: Vec::new(),
        }
    }

    /// Adds an entry.
    pub(crate) fn insert(&mut self, id: EntryId, key: &[u64], mask: &[u64]) {
        let (key, mask) = (&key[..self.words], &mask[..self.words]);
        as_rule(id, key, mask, |pattern, precedence, rule| {
            self.rules.insert(pattern, precedence, rule, NOW);
        });
    }

    /// The counted cost of looking up a key, in nanoseconds.
    pub(crate) fn cost_ns(&self, key: &[u64]) -> f64 {
        self.rules.cost_ns(&key[..self.words], NOW)
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, id: EntryId) {
        debug_assert!(self.knows(id));
        self.rules.forget(RuleId(id.0));
    }

    /// Prefetches what removing an entry will write.
    pub(crate) fn foresee_removal(&self, id: EntryId) {
        self.rules.foresee_removal(RuleId(id.0));
    }

    /// Looks up at most [`BURST`] keys.
    pub(crate) fn lookup<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a [u64]>,
    ) -> [Option<EntryId>; BURST] {
        self.packed.clear();
        keys.for_each(|key| self.packed.extend_from_slice(&key[..self.words]));
        let mut answers = [None; BURST];
        let count = self.packed.len() / self.words;
        self.rules
            .lookup_batch(&self.packed, NOW, &mut answers[..count]);
        answers.map(|answer| answer.map(|rule| EntryId(rule.0)))
    }

    /// Number of entries in the index.
    pub(crate) fn len(&self) -> usize {
        self.rules.len(NOW)
    }

    /// Whether it has this entry, with the key's bits under this mask.
    pub(crate) fn has(&self, id: EntryId, key: &[u64], mask: &[u64]) -> bool {
        let Some((value, own)) = self.rules.pattern(RuleId(id.0)) else {
            return false;
        };
        let mut words = key.iter().zip(mask).zip(value.iter().zip(&own));
        own == mask[..self.words] && words.all(|((key, mask), (value, _))| key & mask == *value)
    }

    /// Whether it has an entry with this number.
    pub(crate) fn knows(&self, id: EntryId) -> bool {
        self.rules.knows(RuleId(id.0))
    }

    /// Does a slice of training.
    pub(crate) fn tend(&mut self, steps: usize) -> Tending {
        self.rules.tend(steps)
    }

    pub(crate) fn install(&mut self, index: BuiltIndex) {
        self.rules.install(index);
    }

    /// Records that the last job will not be done.
    pub(crate) fn forget_job(&mut self) {
        self.rules.forget_job();
    }

    /// Turns the index into a job that only frees its memory.
    pub(crate) fn into_waste(self) -> IndexJob {
        self.rules.into_waste()
    }

    /// The share of the entries that the model finds, if it is trained.
    pub(crate) fn coverage(&self) -> Option<f64> {
        let is_trained = self.replaced() > 0;
        is_trained.then(|| self.rules.figures().coverage)
    }

    /// The figures for and against using it.
    pub(super) fn as_asked(&self) -> Asked {
        let figures = self.rules.figures();
        Asked {
            trainings: self.replaced(),
            coverage: self.coverage(),
            cost_ns: (figures.samples >= 16).then_some(figures.cost_ns),
        }
    }

    /// How often it was trained.
    pub(crate) fn replaced(&self) -> u64 {
        self.rules.replaced()
    }

    pub(crate) fn statistics(&self) -> Option<LearnedStatistics> {
        Some(self.rules.learned()?.statistics())
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.rules.memory_bytes()
    }
}
