//! A classifier that replaces its index by a better one, while lookups and changes go on.
//!
//! Which index finds rules fastest depends on the rules and on the keys that are looked up: few
//! masks are fastest as a tuple space, some dozens behind a filter, many as merged tuples, and a
//! hundred thousand rules of addresses in a learned index. [`Auto`] has one of them, watches what
//! lookups cost, and has another built when that pays; or it has a learned index only, and trains it
//! again when rules have changed. Whatever it does, answers stay the same.
//!
//! The new index is built from a copy of the rules, as a *job* that the caller runs on a thread of
//! its own, and is brought up to date before it is used. All that is done under `&mut`, while nobody
//! can look up, is done in slices, of which the caller says how long they are:
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
//! So no slice has more to do than for a few rules, and the step in which the index changes moves
//! two pointers. What is not bounded is what a change of a rule itself may cost: tables that grow.
//!
//! 1. `held` has all rules, at all versions that may be looked up, and answers all lookups.
//! 2. While copying, building or catching up, a rule that was inserted, removed, freed or aborted is
//!    stale, and so is one that was copied while its birth or death was open. One that is open
//!    when it is brought up to date is remembered until it is settled, as it may yet be aborted.
//! 3. So when no rule is stale, the new index has exactly the rules of `held`, with their births and
//!    deaths, but for births that are settled: of those any settled version will do.
//! 4. The outcome of a job is taken only if it is that of this classifier's last one.
//!
//! Costs: a lookup in a burst 0.1 ns, a single one 2 ns, to be counted; one of [`LOOK_EVERY`] is
//! looked at closely. While the index is replaced, both are in memory, and a copy of the rules.
//!
//! Compare NuevoMatch (Rashelbach and others, SIGCOMM 2020, section 3.9), where versions are switched
//! by pointer and updates go to the remainder meanwhile.

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
pub use job::{Job, Outcome};
use observed::Observed;
pub use policy::{AutoPolicy, Figures, Verdict};
pub use statistics::AutoStatistics;
use succession::Succession;

#[cfg(doc)]
use observed::LOOK_EVERY;

/// How an [`Auto`] chooses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Selection {
    /// Of all kinds, by what lookups cost.
    Measured(AutoPolicy),
    /// A learned index, trained again by this policy.
    Learned(TrainingPolicy),
}

/// What an [`Auto`] needs to know.
#[derive(Clone, Debug)]
pub struct AutoConfig {
    /// Keys, and how learned indexes are trained.
    pub learned: LearnedConfig,
    /// How filters are made.
    pub bloom: BloomConfig,
    /// Up to so many masks have tables of their own, before anything is chosen.
    pub own_masks_max: usize,
    /// How to choose.
    pub selection: Selection,
    /// The kinds that may be chosen by what lookups cost.
    pub kinds: Vec<IndexKind>,
}

impl AutoConfig {
    /// The usual, for these keys.
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

/// What is to be done next to make lookups faster.
#[derive(Debug)]
pub enum Tended {
    /// Nothing, until rules have changed or were looked up.
    Idle,
    /// More of the same: call [`Classifier::tend`] again soon.
    More,
    /// Long work: run it, on another thread or here, and hand its outcome to
    /// [`Classifier::install`].
    Job(Job),
}

/// A classifier whose index is chosen and replaced as rules and lookups are.
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
    /// Since the last decision, or the last training began.
    changes: Changes,
    /// Updates since then, and since the first lookup.
    updates_in_use: usize,
    /// Updates of versions that are not settled.
    open_updates: BTreeMap<Version, usize>,
    verdict: Option<Verdict>,
    succession: Succession,
    /// No rule has this id or a higher one.
    ids_end: u32,
    oldest: Version,
    counts: statistics::Counts,
    /// Whether the caller asked for what is under way.
    is_asked_for: bool,
    /// Whether what comes first is an index of copies, for which there is nothing to be caught up
    /// with here.
    is_first_copied: bool,
    /// Which of all [`Auto`]s it is, so that it takes no outcome of another's job.
    number: u64,
}

/// How many have been made.
static COUNT: AtomicU64 = AtomicU64::new(0);

impl Auto {
    /// An empty classifier.
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

    /// What kind of index there is now.
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

    /// Whether there is a rule of this id that has not been reclaimed.
    pub fn knows(&self, id: RuleId) -> bool {
        self.held.knows(id)
    }

    /// Takes a rule out at all versions, as if it had never been.
    ///
    /// Of the versions that are yet looked up the rule must have existed at each or at none.
    pub fn forget(&mut self, id: RuleId) {
        self.held.forget(id);
        self.note_update(self.oldest);
        self.succession.note(id, self.oldest, self.oldest);
        if self.held.rule_count() == 0 {
            self.ids_end = 0;
        }
    }

    /// How often another index took the place of the one before.
    pub fn replaced(&self) -> u64 {
        self.counts.replaced
    }

    /// Work that does nothing but give the memory back, elsewhere.
    pub fn into_waste(self) -> Job {
        Job::dropping(self.held)
    }

    /// Figures since the last decision.
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

    /// Begins to build the index anew, whatever the policy says: the one that is best for the keys
    /// looked up so far, or the learned one. Does nothing if that is under way.
    pub fn rebuild(&mut self) {
        if matches!(self.succession, Succession::Idle) {
            self.begin(true);
        }
    }

    /// Does the same at once, in the caller's time.
    pub fn rebuild_now(&mut self) {
        self.rebuild();
        loop {
            match self.proceed(usize::MAX) {
                Tended::Idle => return,
                Tended::More => {}
                Tended::Job(job) => self.install(job.run()),
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

    /// Counts lookups, and looks at one of them closely now and then.
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

    fn tend(&mut self, steps: usize) -> Tended {
        if matches!(self.succession, Succession::Idle) {
            if !self.is_due() {
                return Tended::Idle;
            }
            self.begin(false);
        }
        self.proceed(steps)
    }

    fn install(&mut self, outcome: Outcome) {
        self.take(outcome);
    }

    fn forget_job(&mut self) {
        self.give_up();
    }

    fn choice(&self) -> Option<AutoStatistics> {
        Some(self.statistics())
    }
}
