//! Which rule matches a key, and which bits decided it.
//!
//! A classifier holds rules: a value and a mask over the words of a key, a [`Precedence`], an id,
//! and the range of versions in which the rule exists. It knows nothing of tables, actions or
//! caches. [`Linear`] is the oracle: one list, searched from the top. [`TupleSpace`] has a hash
//! table for each mask, [`MergedTuples`] one for many masks. Every classifier must give the same answers as the oracle, and for
//! `lookup_examined` a mask that is *sound*: whichever bits outside it are flipped, the answer
//! stays. How tight the mask is differs between classifiers, and is a figure, not a promise.
//!
//! [`hash`], [`MaskedWords`] and [`simd`] are the parts that caches of wildcarded entries share.
//!
//! Rules are versioned so that one writer can prepare a change while readers go on: a rule exists
//! for a lookup at version `v` if `born <= v < died`. A change inserts with `born = v + 1` and
//! removes with `died = v + 1`; nothing is visible until readers ask for `v + 1`; an aborted
//! change is undone by [`Classifier::abort`], and once no reader holds an older version,
//! [`Classifier::reclaim`] frees what died.

mod auto;
pub mod bloom;
mod capacity;
mod counting_set;
pub mod hash;
mod highest;
mod history;
mod index;
mod key_shape;
mod kind;
mod learned;
mod linear;
mod masked_words;
mod merged_tuples;
mod places;
mod prefix_field;
mod prefix_trie;
pub mod simd;
mod staged;
mod tuple_space;
mod value_hash;

use std::fmt;

pub use auto::{
    Auto, AutoConfig, AutoPolicy, AutoStatistics, Copies, Figures, IndexKind, Job, Outcome,
    Selection, Tended, Verdict,
};
pub use bloom::{Bloom, BloomConfig, FirstLayer, VectorFilter, VectorFilterConfig};
pub use index::RULES_MAX;
pub use key_shape::{PREFIX_FIELDS_MAX, TupleSpaceConfig};
pub use kind::{ClassifierKind, UnknownClassifier};
pub use learned::{
    IsetStatistics, Learned, LearnedConfig, LearnedStatistics, ModelKind, TrainingPolicy,
};
pub use linear::Linear;
pub use masked_words::MaskedWords;
pub use merged_tuples::MergedTuples;
pub use tuple_space::TupleSpace;

/// A state of the rules; each change makes the next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Version(pub u64);

impl Version {
    /// The state before any change.
    pub const FIRST: Version = Version(0);
    /// Later than every version: the death of a rule that lives.
    pub const NEVER: Version = Version(u64::MAX);

    /// The version after this one.
    pub const fn next(self) -> Version {
        Version(self.0 + 1)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

/// A rule's name, chosen by the caller; dense, so that it can index an array.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RuleId(pub u32);

/// Who wins among rules that match: the higher. Unique within a classifier at any version.
///
/// Made of a priority and an age, so that of two rules with the same priority the older wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Precedence(u64);

impl Precedence {
    /// Ages that fit; more than a change a microsecond for eight years.
    const AGE_BITS: u32 = 48;

    /// No precedence is lower.
    pub const LOWEST: Precedence = Precedence(0);

    /// No precedence is higher.
    pub(crate) const HIGHEST: Precedence = Precedence(u64::MAX);

    /// The precedence of the rule of this priority that was the `age`th to be added.
    ///
    /// # Panics
    /// If `age` needs more than 48 bits.
    pub const fn new(priority: u16, age: u64) -> Precedence {
        assert!(age < 1 << Self::AGE_BITS, "more rules than ages");
        Precedence((priority as u64) << Self::AGE_BITS | ((1 << Self::AGE_BITS) - 1 - age))
    }

    /// The precedence of this priority that only `left` others of it are below.
    pub(crate) const fn youngest(priority: u16, left: u64) -> Precedence {
        Precedence((priority as u64) << Self::AGE_BITS | left)
    }

    /// The priority part.
    pub const fn priority(self) -> u16 {
        (self.0 >> Self::AGE_BITS) as u16
    }
}

/// A rule as a classifier sees it: `key & mask == value`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern<'a> {
    /// The bits to match; zero wherever the mask is.
    pub value: &'a [u64],
    /// Which bits to match, as many words as `value`.
    pub mask: &'a [u64],
}

impl Pattern<'_> {
    /// Whether `key`, of at least as many words as the pattern, has the pattern's bits.
    pub fn matches(&self, key: &[u64]) -> bool {
        let mut words = key.iter().zip(self.value.iter().zip(self.mask));
        words.all(|(key, (value, mask))| key & mask == *value)
    }

    /// Whether every key that matches `other`'s bits as it wants them also matches this pattern.
    pub(crate) fn contains(&self, other: &Pattern<'_>) -> bool {
        let mut masks = self.mask.iter().zip(other.mask);
        masks.all(|(mask, other)| mask & !other == 0) && self.matches(other.value)
    }

    /// Checks a pattern that is to be inserted among others of `words` words.
    ///
    /// # Panics
    /// If it has another number of words, or a bit of its value lies outside its mask.
    pub(crate) fn check(&self, words: usize) {
        assert_eq!(self.value.len(), words, "a pattern of another layout");
        assert_eq!(self.mask.len(), words, "a mask of another layout");
        let mut words = self.value.iter().zip(self.mask);
        let is_inside = words.all(|(value, mask)| value & !mask == 0);
        assert!(is_inside, "value outside its mask");
    }
}

/// What is known of a rule beside what it matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Life {
    pub(crate) precedence: Precedence,
    pub(crate) born: Version,
    pub(crate) died: Version,
}

/// A set of versioned rules that finds the best match of a key.
///
/// Keys, values and masks are slices of 64-bit words, all of the same length: the words of the
/// program's layout. There is one writer; lookups take `&self`.
pub trait Classifier {
    /// Adds a rule that exists from version `born` on.
    ///
    /// The same pattern may be present already (at another precedence, or dying at `born`).
    ///
    /// # Panics
    /// If a value has a bit outside its mask, or the pattern does not have the classifier's number
    /// of words, or `id` is in use by a rule that has not been reclaimed.
    fn insert(&mut self, pattern: Pattern<'_>, precedence: Precedence, id: RuleId, born: Version);

    /// Looks at what inserting such a rule will look at, and changes nothing.
    ///
    /// For a writer that keeps readers waiting while it changes rules: with this before, while
    /// readers go on, what it needs is in its cache by then.
    fn foresee(&self, pattern: Pattern<'_>, precedence: Precedence) {
        std::hint::black_box(self.find(pattern, precedence.priority()));
    }

    /// The same for what ending a rule will look at, if there is such a rule.
    fn foresee_removal(&self, id: RuleId) {
        std::hint::black_box(self.pattern(id));
    }

    /// Ends a rule: it does not exist at version `died` and later.
    ///
    /// A rule that dies in the version in which it was born never existed.
    ///
    /// # Panics
    /// If the classifier has no living rule `id`, or the rule is born after `died`.
    fn remove(&mut self, id: RuleId, died: Version);

    /// The best rule at `version` that matches `key`: the fast path.
    fn lookup(&self, key: &[u64], version: Version) -> Option<RuleId>;

    /// The same, and adds to `examined` the bits of `key` that decided it.
    ///
    /// Sound: any key that agrees with this one on the bits of `examined`, as it is afterwards, has
    /// the same answer at this version. `examined` is only ever added to; bits that are set in it
    /// before cost nothing to rely on, so they must be bits of this very key.
    fn lookup_examined(
        &self,
        key: &[u64],
        version: Version,
        examined: &mut [u64],
    ) -> Option<RuleId>;

    /// Looks up a burst of keys, `keys.len() / answers.len()` words each, one after the other.
    fn lookup_batch(&self, keys: &[u64], version: Version, answers: &mut [Option<RuleId>]) {
        let words = keys.len() / answers.len().max(1);
        for (key, answer) in keys.chunks_exact(words.max(1)).zip(answers) {
            *answer = self.lookup(key, version);
        }
    }

    /// The living rule (`died` is never) of this very pattern and priority, if there is one.
    fn find(&self, pattern: Pattern<'_>, priority: u16) -> Option<RuleId>;

    /// Appends the living rules that are at least as narrow as a pattern, in any order: those that
    /// match on all its bits, and want of them what it wants.
    fn find_within(&self, pattern: Pattern<'_>, found: &mut Vec<RuleId>);

    /// The pattern of a rule that has not been reclaimed, written out: value and mask.
    ///
    /// So that callers need not keep patterns of their own.
    fn pattern(&self, id: RuleId) -> Option<(Vec<u64>, Vec<u64>)>;

    /// Undoes everything done for `version`, which no reader has seen: rules born then vanish,
    /// rules that died then live on.
    ///
    /// # Panics
    /// If `version` is not later than every `oldest` given to [`Classifier::reclaim`].
    fn abort(&mut self, version: Version);

    /// Frees the rules that no version from `oldest` on can see; returns their ids, in any order.
    ///
    /// No older version is looked up from now on.
    fn reclaim(&mut self, oldest: Version) -> Vec<RuleId>;

    /// How many rules exist at `version`.
    fn len(&self, version: Version) -> usize;

    /// Whether no rule exists at `version`.
    fn is_empty(&self, version: Version) -> bool {
        self.len(version) == 0
    }

    /// Bytes of memory that the rules and their index take.
    fn memory_bytes(&self) -> usize;

    /// Does a bounded part of longer work that makes lookups faster: looks at `steps` rules or so.
    ///
    /// Only one that replaces its index has any; see [`Auto`].
    fn tend(&mut self, steps: usize) -> Tended {
        let _ = steps;
        Tended::Idle
    }

    /// Takes the outcome of the last job that [`Classifier::tend`] gave, in constant time;
    /// `tend` puts it to use. That of any other job is dropped.
    fn install(&mut self, outcome: Outcome) {
        drop(outcome);
    }

    /// Says that the last job will not be done, so that another may be given later.
    fn forget_job(&mut self) {}

    /// Which index was chosen, and why, if there was a choice.
    fn choice(&self) -> Option<AutoStatistics> {
        None
    }
}
