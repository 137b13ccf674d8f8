//! Finds the rule that matches a key, and the bits that decided it.
//!
//! A classifier holds rules: a value and a mask over the words of a key, a [`Precedence`], an
//! id, and the range of versions in which the rule exists. It knows nothing of tables, actions
//! or caches. [`Linear`] is the oracle: one list, searched from the top. [`TupleSpace`] has a
//! hash table for each mask, [`MergedTuples`] one for many masks. Every classifier must give
//! the oracle's answers. For `lookup_examined` it must also give a *sound* mask: if any bits
//! outside the mask are flipped, the answer stays. How narrow the mask is differs between
//! classifiers and is not guaranteed.
//!
//! [`hash`], [`MaskedWords`] and [`simd`] are also used by caches of wildcarded entries.
//!
//! Rules are versioned so that one writer can prepare a change while readers go on. A rule
//! exists for a lookup at version `v` if `born <= v < died`. A change inserts with
//! `born = v + 1` and removes with `died = v + 1`. Nothing is visible until readers ask for
//! `v + 1`. [`Classifier::abort`] undoes an aborted change. Once no reader holds an older
//! version, [`Classifier::reclaim`] frees the dead rules.

mod auto;
pub mod bloom;
mod capacity;
pub mod cost;
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
    Auto, AutoConfig, AutoPolicy, AutoStatistics, BuiltIndex, Copies, Figures, IndexJob, IndexKind,
    Selection, Tending, Verdict,
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
pub use tuple_space::{Matches, TupleSpace};

/// A state of the rules; each change creates the next one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Version(pub u64);

impl Version {
    /// The state before any change.
    pub const FIRST: Version = Version(0);
    /// Later than every version: the `died` of a living rule.
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

/// A rule's id, chosen by the caller; dense, so that it can index an array.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RuleId(pub u32);

/// Decides between matching rules: the higher wins. Unique within a classifier at any version.
///
/// It consists of a priority and an age, so that of two rules with the same priority the older
/// wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Precedence(u64);

impl Precedence {
    /// Bits of an age: enough for a change per microsecond for eight years.
    const AGE_BITS: u32 = 48;

    /// The lowest precedence.
    pub const LOWEST: Precedence = Precedence(0);

    /// The highest precedence.
    pub(crate) const HIGHEST: Precedence = Precedence(u64::MAX);

    /// The precedence of a rule of this priority that was added as number `age`.
    ///
    /// # Panics
    /// If `age` needs more than 48 bits.
    pub const fn new(priority: u16, age: u64) -> Precedence {
        assert!(age < 1 << Self::AGE_BITS, "more rules than ages");
        Precedence((priority as u64) << Self::AGE_BITS | ((1 << Self::AGE_BITS) - 1 - age))
    }

    /// The precedence of this priority that has only `left` others of that priority below it.
    pub(crate) const fn youngest(priority: u16, left: u64) -> Precedence {
        Precedence((priority as u64) << Self::AGE_BITS | left)
    }

    /// The priority part.
    pub const fn priority(self) -> u16 {
        (self.0 >> Self::AGE_BITS) as u16
    }

    /// The age part: the number under which the rule was added.
    pub const fn age(self) -> u64 {
        let ones = (1 << Self::AGE_BITS) - 1;
        ones - (self.0 & ones)
    }
}

/// A rule as a classifier sees it: `key & mask == value`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern<'a> {
    /// The bits to match; zero wherever the mask is.
    pub value: &'a [u64],
    /// The bits that must match, as many words as `value`.
    pub mask: &'a [u64],
}

impl Pattern<'_> {
    /// Whether `key`, of at least as many words as the pattern, has the pattern's bits.
    pub fn matches(&self, key: &[u64]) -> bool {
        let mut words = key.iter().zip(self.value.iter().zip(self.mask));
        words.all(|(key, (value, mask))| key & mask == *value)
    }

    /// Whether every key that matches `other` also matches this pattern.
    pub(crate) fn contains(&self, other: &Pattern<'_>) -> bool {
        let mut masks = self.mask.iter().zip(other.mask);
        masks.all(|(mask, other)| mask & !other == 0) && self.matches(other.value)
    }

    /// Checks a pattern before it is inserted among others of `words` words.
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

/// A rule's precedence and its lifetime.
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

    /// Reads the memory that inserting such a rule will read, and changes nothing.
    ///
    /// For a writer that makes readers wait while it changes rules. It calls this first, while
    /// readers go on, so that its data is in the cache afterwards.
    fn foresee(&self, pattern: Pattern<'_>, precedence: Precedence) {
        std::hint::black_box(self.find(pattern, precedence.priority()));
    }

    /// As [`Classifier::foresee`], for ending a rule, if it exists.
    fn foresee_removal(&self, id: RuleId) {
        std::hint::black_box(self.pattern(id));
    }

    /// Ends a rule: it does not exist at version `died` and later.
    ///
    /// A rule that dies in its version of birth never existed.
    ///
    /// # Panics
    /// If the classifier has no living rule `id`, or the rule is born after `died`.
    fn remove(&mut self, id: RuleId, died: Version);

    /// The best rule at `version` that matches `key`: the fast path.
    fn lookup(&self, key: &[u64], version: Version) -> Option<RuleId>;

    /// As [`Classifier::lookup`], and adds to `examined` the bits of `key` that decided it.
    ///
    /// Sound: any key that agrees with this one on the resulting bits of `examined` has the
    /// same answer at this version. Bits are only ever added to `examined`. Bits that are
    /// already set cost nothing to rely on, so they must be bits of this same key.
    fn lookup_examined(
        &self,
        key: &[u64],
        version: Version,
        examined: &mut [u64],
    ) -> Option<RuleId>;

    /// Looks up a burst of keys one after another; each has `keys.len() / answers.len()`
    /// words.
    fn lookup_batch(&self, keys: &[u64], version: Version, answers: &mut [Option<RuleId>]) {
        let words = keys.len() / answers.len().max(1);
        for (key, answer) in keys.chunks_exact(words.max(1)).zip(answers) {
            *answer = self.lookup(key, version);
        }
    }

    /// The living rule (`died` is never) with exactly this pattern and priority, if there is
    /// one.
    fn find(&self, pattern: Pattern<'_>, priority: u16) -> Option<RuleId>;

    /// Appends the living rules at least as narrow as a pattern, in any order.
    ///
    /// These match on all of the pattern's bits, with the same values.
    fn find_within(&self, pattern: Pattern<'_>, found: &mut Vec<RuleId>);

    /// The value and mask of a rule that has not been reclaimed.
    ///
    /// Callers need not store patterns themselves.
    fn pattern(&self, id: RuleId) -> Option<(Vec<u64>, Vec<u64>)>;

    /// Undoes all changes for `version`, which no reader has seen.
    ///
    /// Rules born then vanish, and rules that died then live on.
    ///
    /// # Panics
    /// If `version` is not later than every `oldest` given to [`Classifier::reclaim`].
    fn abort(&mut self, version: Version);

    /// Frees the rules that no version from `oldest` on can see; returns their ids, in any
    /// order.
    ///
    /// Older versions must not be looked up any more.
    fn reclaim(&mut self, oldest: Version) -> Vec<RuleId>;

    /// The number of rules that exist at `version`.
    fn len(&self, version: Version) -> usize;

    /// Whether no rule exists at `version`.
    fn is_empty(&self, version: Version) -> bool {
        self.len(version) == 0
    }

    /// The memory of the rules and their index, in bytes.
    fn memory_bytes(&self) -> usize;

    /// Does a bounded part of longer work that makes lookups faster: visits about `steps`
    /// rules.
    ///
    /// Only a classifier that replaces its index has such work; see [`Auto`].
    fn tend(&mut self, steps: usize) -> Tending {
        let _ = steps;
        Tending::Idle
    }

    /// Takes the index of the last job that [`Classifier::tend`] gave, in constant time.
    ///
    /// `tend` puts it to use. That of any other job is dropped.
    fn install(&mut self, index: BuiltIndex) {
        drop(index);
    }

    /// Notes that the last job will not be done, so that another may be given later.
    fn forget_job(&mut self) {}

    /// The chosen index and the reason, if there was a choice.
    fn choice(&self) -> Option<AutoStatistics> {
        None
    }
}
