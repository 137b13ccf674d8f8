//! A classifier that replaces its index by a better one, while lookups and changes go on.
//!
//! Which index finds rules fastest depends on the rules and on the keys looked up. Few masks
//! are fastest as a tuple space, some dozens behind a filter, many as merged tuples, and a
//! hundred thousand rules of addresses in a learned index. [`Auto`] has one of them, watches
//! the cost of lookups, and has another built when that pays. Or it only has a learned index,
//! and retrains it when rules have changed. The answers are always the same.
//!
//! The new index is built from a copy of the rules, as a *job* that the caller runs on another
//! thread. It is brought up to date before it is used. All work under `&mut`, which blocks
//! lookups, is done in slices whose length the caller chooses:
//!
//! ```text
//!   idle         a look at the figures now and then: does it pay?                   (policy)
//!   copying      rule by rule, in the order of their ids, into a snapshot
//!   building     the caller has a job; whatever happens to a rule is noted: it is stale
//!   catching up  the new index is here, and nobody asks it: for each stale rule, take it out of the
//!                new index, and put it in as it is now
//!                no rule is stale: the two change places                            (one step)
//!   idle         the old index is another job, which does nothing but drop it
//! ```
//!
//! So no slice does more work than for a few rules, and the step that switches the index moves
//! two pointers. A change of a rule itself is not bounded, because tables may grow.
//!
//! 1. `held` has all rules, at all versions that may be looked up, and answers all lookups.
//! 2. While copying, building or catching up, every rule that is inserted, removed, freed or
//!    aborted becomes stale. So does a rule that is copied while its birth or death is open. A
//!    rule that is open when it is brought up to date is remembered until it is settled, since
//!    it may still be aborted.
//! 3. So when no rule is stale, the new index has exactly the rules of `held`, with their
//!    births and deaths. A settled birth may be recorded as any settled version.
//! 4. The outcome of a job is accepted only if the job is this classifier's last one.
//!
//! Costs: counting lookups is cheap; one lookup in [`LOOK_EVERY`] is sampled. While the index
//! is replaced, memory holds both indexes and a copy of the rules.
//!
//! Compare NuevoMatch (Rashelbach and others, SIGCOMM 2020, section 3.9), which switches
//! versions by pointer, with updates in the remainder meanwhile.

mod copies;
mod held;
mod job;
mod observed;
mod policy;
mod statistics;
mod succession;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::learned::Changes;
use crate::{
    BloomConfig, Classifier, LearnedConfig, Pattern, Precedence, RuleId, TrainingPolicy, Version,
};

pub use copies::Copies;
use held::Held;
pub use held::IndexKind;
pub use job::{BuiltIndex, IndexJob};
use observed::Observed;
pub use policy::{AutoPolicy, Figures, Verdict};
pub use statistics::AutoStatistics;
use succession::Succession;

#[cfg(doc)]
use observed::LOOK_EVERY;

/// How an [`Auto`] chooses its index.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Selection {
    /// Chooses among all kinds, by the cost of lookups.
    Measured(AutoPolicy),
    /// A learned index, retrained by this policy.
    Learned(TrainingPolicy),
}

/// The configuration of an [`Auto`].
#[derive(Clone, Debug)]
pub struct AutoConfig {
    /// The shape of keys, and how learned indexes are trained.
    pub learned: LearnedConfig,
    /// How filters are built.
    pub bloom: BloomConfig,
    /// The most masks for which each mask has its own table, before anything is chosen.
    pub own_masks_max: usize,
    /// How to choose.
    pub selection: Selection,
    /// The kinds that may be chosen by the cost of lookups.
    pub kinds: Vec<IndexKind>,
}

impl AutoConfig {
    /// The default configuration for these keys.
    pub fn new(learned: LearnedConfig, selection: Selection) -> AutoConfig {
        AutoConfig {
            bloom: BloomConfig::new(learned.tuples.clone()),
            own_masks_max: 16,
            learned,
            selection,
            kinds: IndexKind::ALL.to_vec(),
        }
    }
}

/// The next step to make lookups faster.
#[derive(Debug)]
pub enum Tending<O = ()> {
    /// Nothing to do until rules change or are looked up.
    Idle,
    /// More of the same: call [`Classifier::tend`] again soon.
    More,
    /// Long work: run it, here or on another thread, and pass the built index to
    /// [`Classifier::install`].
    Job(IndexJob<O>),
}

impl Tending {
    /// The same step, its job for an owner.
    pub fn for_owner<O>(self, owner: impl FnOnce() -> O) -> Tending<O> {
        match self {
            Tending::Idle => Tending::Idle,
            Tending::More => Tending::More,
            Tending::Job(job) => Tending::Job(job.for_owner(owner())),
        }
    }
}

/// A classifier whose index is chosen and replaced to suit its rules and lookups.
///
/// ```
/// use thalweg_classifier::{
///     Auto, AutoConfig, AutoPolicy, Classifier, IndexKind, LearnedConfig, Pattern, Precedence,
///     RuleId, Selection, Version,
/// };
///
/// let selection = Selection::Measured(AutoPolicy::default());
/// let mut rules = Auto::new(AutoConfig::new(LearnedConfig::flat(1, 7), selection));
/// let v1 = Version::FIRST.next();
/// let ssh = Pattern { value: &[22], mask: &[0xffff] };
/// rules.insert(ssh, Precedence::new(10, 0), RuleId(7), v1);
/// assert_eq!(rules.lookup(&[0x9_0016], v1), Some(RuleId(7)));
/// assert_eq!(rules.kind(), IndexKind::TupleSpace); // no other is worth it
/// ```
#[derive(Debug)]
pub struct Auto {
    config: AutoConfig,
    held: Held,
    observed: Observed,
    /// Changes since the last decision, or since the last training began.
    changes: Changes,
    /// The updates among these since the first lookup.
    updates_in_use: usize,
    /// The number of updates of each version that is not settled.
    open_updates: BTreeMap<Version, usize>,
    verdict: Option<Verdict>,
    succession: Succession,
    /// One past the highest rule id.
    ids_end: u32,
    oldest: Version,
    counts: statistics::Counts,
    /// Whether the caller asked for the current work.
    is_asked_for: bool,
    /// Whether the first new index is made of copies, with no rules here to compare it with.
    is_first_copied: bool,
    /// Identifies this [`Auto`] among all, so that it takes no outcome of another's job.
    number: u64,
}

/// The number of [`Auto`]s made so far.
static COUNT: AtomicU64 = AtomicU64::new(0);

impl Auto {
    /// Creates an empty classifier.
    ///
    /// # Panics
    /// As [`Learned::new`](crate::Learned::new) and [`Bloom::new`](crate::Bloom::new).
    pub fn new(config: AutoConfig) -> Auto {
        let words = config.learned.tuples.stages.len();
        Auto {
            held: Held::first(&config),
            observed: Observed::new(words),
            changes: Changes::default(),
            updates_in_use: 0,
            open_updates: BTreeMap::new(),
            verdict: None,
            succession: Succession::Idle,
            ids_end: 0,
            oldest: Version::FIRST,
            counts: statistics::Counts::default(),
            is_asked_for: false,
            is_first_copied: false,
            number: COUNT.fetch_add(1, Ordering::Relaxed),
            config,
        }
    }

    /// The kind of the current index.
    pub fn kind(&self) -> IndexKind {
        self.held.kind()
    }

    /// The learned index, if there is one.
    pub fn learned(&self) -> Option<&crate::Learned> {
        match &self.held {
            Held::Learned(learned) => Some(learned),
            _ => None,
        }
    }

    /// Whether there is a rule with this id that has not been reclaimed.
    pub fn knows(&self, id: RuleId) -> bool {
        self.held.knows(id)
    }

    /// Removes a rule at all versions, as if it had never existed.
    ///
    /// The rule must have existed at each version that may still be looked up, or at none.
    pub fn forget(&mut self, id: RuleId) {
        self.held.forget(id);
        self.note_update(self.oldest);
        self.succession.note(id, self.oldest, self.oldest);
        if self.held.rule_count() == 0 {
            self.ids_end = 0;
        }
    }

    /// The number of times that the index was replaced.
    pub fn replaced(&self) -> u64 {
        self.counts.replaced
    }

    /// A job that only frees this classifier's memory, on another thread.
    pub fn into_waste(self) -> IndexJob {
        IndexJob::dropping(self.held)
    }

    /// The figures since the last decision.
    pub fn figures(&self) -> Figures {
        let watched = self.observed.read();
        Figures {
            kind: self.kind(),
            rules: self.held.rule_count(),
            updates: self.changes.updates,
            updates_in_use: self.updates_in_use,
            coverage: self.held.coverage(),
            lookups: watched.lookups,
            samples: watched.samples,
            tables_per_lookup: watched.tables_per_lookup(),
            cost_ns: watched.cost_ns(),
        }
    }

    /// Starts to build a new index, whatever the policy says.
    ///
    /// It is the best one for the keys looked up so far, or the learned one. Does nothing if
    /// that is under way.
    pub fn rebuild(&mut self) {
        if matches!(self.succession, Succession::Idle) {
            self.begin(true);
        }
    }

    /// As [`Auto::rebuild`], but completes the work before it returns.
    pub fn rebuild_now(&mut self) {
        self.rebuild();
        loop {
            match self.proceed(usize::MAX) {
                Tending::Idle => return,
                Tending::More => {}
                Tending::Job(job) => self.install(job.run()),
            }
        }
    }

    /// Counts an update, now or when it is settled.
    fn note_update(&mut self, version: Version) {
        match version <= self.oldest {
            true => self.changes.updates += 1,
            false => *self.open_updates.entry(version).or_default() += 1,
        }
        self.updates_in_use += usize::from(self.observed.is_in_use());
    }

    fn words(&self) -> usize {
        self.config.learned.tuples.stages.len()
    }

    /// Counts lookups, and samples one now and then.
    #[inline(always)]
    fn watch(&self, keys: &[u64], lookups: usize, version: Version) {
        if self.observed.is_time(lookups as u32) {
            let key = &keys[..self.words()];
            self.observed.note(key, self.held.visited_by(key, version));
        }
    }
}

impl Classifier for Auto {
    fn insert(&mut self, pattern: Pattern<'_>, precedence: Precedence, id: RuleId, born: Version) {
        self.held.index_mut().insert(pattern, precedence, id, born);
        self.note_update(born);
        self.ids_end = self.ids_end.max(id.0.saturating_add(1));
        self.succession.note(id, born, self.oldest);
    }

    fn remove(&mut self, id: RuleId, died: Version) {
        self.held.index_mut().remove(id, died);
        self.note_update(died);
        self.succession.note(id, died, self.oldest);
    }

    fn foresee(&self, pattern: Pattern<'_>, precedence: Precedence) {
        self.held.index().foresee(pattern, precedence);
    }

    fn foresee_removal(&self, id: RuleId) {
        self.held.index().foresee_removal(id);
    }

    fn lookup(&self, key: &[u64], version: Version) -> Option<RuleId> {
        self.watch(key, 1, version);
        self.held.index().lookup(key, version)
    }

    fn lookup_examined(
        &self,
        key: &[u64],
        version: Version,
        examined: &mut [u64],
    ) -> Option<RuleId> {
        self.watch(key, 1, version);
        self.held.index().lookup_examined(key, version, examined)
    }

    fn lookup_batch(&self, keys: &[u64], version: Version, answers: &mut [Option<RuleId>]) {
        if !answers.is_empty() {
            self.watch(keys, answers.len(), version);
        }
        self.held.index().lookup_batch(keys, version, answers);
    }

    fn find(&self, pattern: Pattern<'_>, priority: u16) -> Option<RuleId> {
        self.held.index().find(pattern, priority)
    }

    fn find_within(&self, pattern: Pattern<'_>, found: &mut Vec<RuleId>) {
        self.held.index().find_within(pattern, found);
    }

    fn pattern(&self, id: RuleId) -> Option<(Vec<u64>, Vec<u64>)> {
        self.held.index().pattern(id)
    }

    fn abort(&mut self, version: Version) {
        self.held.index_mut().abort(version);
        self.open_updates.remove(&version);
        self.succession.note_abort(version);
    }

    fn reclaim(&mut self, oldest: Version) -> Vec<RuleId> {
        self.oldest = self.oldest.max(oldest);
        let freed = self.held.index_mut().reclaim(oldest);
        self.succession.note_settled(&freed, self.oldest);
        let open = self.open_updates.split_off(&self.oldest.next());
        let settled = std::mem::replace(&mut self.open_updates, open);
        self.changes.updates += settled.into_values().sum::<usize>();
        if self.held.rule_count() == 0 {
            self.ids_end = 0;
        }
        freed
    }

    fn len(&self, version: Version) -> usize {
        self.held.index().len(version)
    }

    fn memory_bytes(&self) -> usize {
        self.held.index().memory_bytes() + self.succession.heap_bytes()
    }

    fn tend(&mut self, steps: usize) -> Tending {
        if matches!(self.succession, Succession::Idle) {
            if !self.is_due() {
                return Tending::Idle;
            }
            self.begin(false);
        }
        self.proceed(steps)
    }

    fn install(&mut self, index: BuiltIndex) {
        self.take(index);
    }

    fn forget_job(&mut self) {
        self.give_up();
    }

    fn choice(&self) -> Option<AutoStatistics> {
        Some(self.statistics())
    }
}
