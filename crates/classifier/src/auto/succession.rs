//! Moves from one index to the next, slice by slice; the invariants are those of `auto`.

use std::collections::VecDeque;

use crate::learned::Snapshot;
use crate::{Pattern, RuleId, Version};

use super::job::{Build, Built, BuiltIndex, IndexJob};
use super::{Auto, Selection, Tending};

/// Ids copied in the time that it takes to bring one rule up to date.
const COPIED_PER_STEP: usize = 8;

/// The current phase.
#[derive(Debug)]
pub(super) enum Succession {
    Idle,
    /// Rules with ids below the number have been copied.
    Copying(u32, Box<Snapshot>, Stale),
    Building(Stale),
    CatchingUp(Box<Built>, Stale),
}

/// Rules for which the new index is out of date.
#[derive(Debug, Default)]
pub(super) struct Stale {
    /// Each rule once, in the order of changes, so the younger of two comes later.
    queue: VecDeque<RuleId>,
    /// One bit per id, set if the id is in the queue.
    is_queued: Vec<u64>,
    /// Births and deaths at versions that may still be aborted.
    open: Vec<(Version, RuleId)>,
}

impl Stale {
    fn add(&mut self, id: RuleId) {
        let (word, bit) = (id.0 as usize / 64, 1 << (id.0 % 64));
        if self.is_queued.len() <= word {
            self.is_queued.resize(word + 1, 0);
        }
        if self.is_queued[word] & bit == 0 {
            self.is_queued[word] |= bit;
            self.queue.push_back(id);
        }
    }

    fn take(&mut self) -> Option<RuleId> {
        let id = self.queue.pop_front()?;
        self.is_queued[id.0 as usize / 64] &= !(1 << (id.0 % 64));
        Some(id)
    }

    /// Notes a change at a version that may be open.
    fn add_at(&mut self, id: RuleId, version: Version, oldest: Version) {
        self.add(id);
        if version > oldest && version != Version::NEVER {
            self.open.push((version, id));
        }
    }

    fn heap_bytes(&self) -> usize {
        self.queue.capacity() * size_of::<RuleId>()
            + self.is_queued.capacity() * size_of::<u64>()
            + self.open.capacity() * size_of::<(Version, RuleId)>()
    }
}

impl Succession {
    fn stale(&mut self) -> Option<&mut Stale> {
        match self {
            Succession::Idle => None,
            Succession::Copying(_, _, stale)
            | Succession::Building(stale)
            | Succession::CatchingUp(_, stale) => Some(stale),
        }
    }

    /// Invariant 2: notes that a rule is born or dies.
    pub(super) fn note(&mut self, id: RuleId, version: Version, oldest: Version) {
        if let Some(stale) = self.stale() {
            stale.add_at(id, version, oldest);
        }
    }

    /// Invariant 2: notes that the changes of a version are undone.
    pub(super) fn note_abort(&mut self, version: Version) {
        if let Some(stale) = self.stale() {
            let open = std::mem::take(&mut stale.open);
            for (at, id) in open {
                match at == version {
                    true => stale.add(id),
                    false => stale.open.push((at, id)),
                }
            }
        }
    }

    /// Invariant 2: notes freed rules; changes up to `oldest` can no longer be undone.
    pub(super) fn note_settled(&mut self, freed: &[RuleId], oldest: Version) {
        if let Some(stale) = self.stale() {
            freed.iter().for_each(|&id| stale.add(id));
            stale.open.retain(|(version, _)| *version > oldest);
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Succession::Idle => 0,
            Succession::Copying(_, snapshot, stale) => snapshot.heap_bytes() + stale.heap_bytes(),
            Succession::Building(stale) => stale.heap_bytes(),
            Succession::CatchingUp(built, stale) => {
                let next = built.held.as_ref().map(|held| held.index().memory_bytes());
                next.unwrap_or(0) + stale.heap_bytes()
            }
        }
    }
}

impl Auto {
    /// Whether a new index is due.
    pub(super) fn is_due(&self) -> bool {
        match &self.config.selection {
            Selection::Measured(policy) => policy.is_due(&self.figures(), self.verdict.as_ref()),
            Selection::Learned(policy) => {
                let (rules, share) = (self.held.rule_count(), self.held.coverage());
                policy.is_due(&self.changes, rules, share)
            }
        }
    }

    /// Starts to copy; `is_asked_for` if the caller asked and not the policy.
    pub(super) fn begin(&mut self, is_asked_for: bool) {
        self.is_asked_for = is_asked_for;
        self.changes.is_training = true;
        self.changes.rules = self.held.rule_count();
        if matches!(self.config.selection, Selection::Learned(_)) {
            self.changes.updates = 0;
        }
        let snapshot = Snapshot::new(self.words(), self.held.rule_count());
        self.succession = Succession::Copying(0, Box::new(snapshot), Stale::default());
    }

    /// Does a slice of the current work.
    pub(super) fn proceed(&mut self, steps: usize) -> Tending {
        match std::mem::replace(&mut self.succession, Succession::Idle) {
            Succession::Idle => Tending::Idle,
            Succession::Copying(from, snapshot, stale) => self.copy(from, snapshot, stale, steps),
            building @ Succession::Building(_) => {
                self.succession = building;
                Tending::Idle
            }
            Succession::CatchingUp(built, stale) => self.catch_up(built, stale, steps),
        }
    }

    /// Copies settled rules; the others become stale (invariant 2).
    fn copy(
        &mut self,
        from: u32,
        mut snapshot: Box<Snapshot>,
        mut stale: Stale,
        steps: usize,
    ) -> Tending {
        let end = steps
            .saturating_mul(COPIED_PER_STEP)
            .saturating_add(from as usize);
        let end = end.min(self.ids_end as usize) as u32;
        let (mut value, mut mask) = (vec![0; self.words()], vec![0; self.words()]);
        for id in (from..end).map(RuleId) {
            let Some(life) = self.held.read(id, &mut value, &mut mask) else {
                continue;
            };
            if life.born > self.oldest || life.died != Version::NEVER {
                stale.add_at(id, life.born, self.oldest);
                stale.add_at(id, life.died, self.oldest);
                continue;
            }
            let pattern = Pattern {
                value: &value,
                mask: &mask,
            };
            snapshot.push(life.precedence, id, pattern);
        }
        if end < self.ids_end {
            self.succession = Succession::Copying(end, snapshot, stale);
            return Tending::More;
        }
        self.counts.trials += 1;
        let build = Build {
            epoch: (self.number, self.counts.trials),
            snapshot: *snapshot,
            config: self.config.clone(),
            figures: self.figures(),
            keys: self.observed.keys(),
            masks: self.held.mask_count(),
            is_asked_for: self.is_asked_for,
        };
        self.succession = Succession::Building(stale);
        Tending::Job(IndexJob::build(build))
    }

    /// Takes a job's result (invariant 4): a new index, or none if no kind is better.
    pub(super) fn take(&mut self, index: BuiltIndex) {
        let Some(built) = index.built else { return };
        let is_last = built.epoch == (self.number, self.counts.trials);
        if !is_last || !matches!(self.succession, Succession::Building(_)) {
            return;
        }
        let Succession::Building(mut stale) =
            std::mem::replace(&mut self.succession, Succession::Idle)
        else {
            unreachable!("it was building");
        };
        if built.held.is_none() {
            self.decided(built.verdict);
            return;
        }
        built.left_out.iter().for_each(|&id| stale.add(id));
        self.succession = Succession::CatchingUp(built, stale);
    }

    /// Brings stale rules up to date in the new index, which takes over after the last one.
    fn catch_up(&mut self, mut built: Box<Built>, mut stale: Stale, steps: usize) -> Tending {
        let next = built.held.as_mut().expect("else nothing is caught up with");
        let (mut value, mut mask) = (vec![0; self.words()], vec![0; self.words()]);
        for _ in 0..steps {
            let Some(id) = stale.take() else { break };
            next.forget(id);
            let Some(life) = self.held.read(id, &mut value, &mut mask) else {
                continue;
            };
            let pattern = Pattern {
                value: &value,
                mask: &mask,
            };
            let index = next.index_mut();
            index.insert(pattern, life.precedence, id, life.born);
            if life.died != Version::NEVER {
                index.remove(id, life.died);
            }
            // The change may still be undone.
            for version in [life.born, life.died] {
                if version > self.oldest && version != Version::NEVER {
                    stale.open.push((version, id));
                }
            }
        }
        if !stale.queue.is_empty() {
            self.succession = Succession::CatchingUp(built, stale);
            return Tending::More;
        }
        // Invariant 3.
        let freed = next.index_mut().reclaim(self.oldest);
        assert!(
            freed.is_empty(),
            "{} freed rules were not stale",
            freed.len()
        );
        let held = built.held.take().expect("it has just been used");
        let former = std::mem::replace(&mut self.held, held);
        let is_first = std::mem::take(&mut self.is_first_copied);
        debug_assert!(is_first || former.rule_count() == self.held.rule_count());
        self.counts.replaced += 1;
        self.decided(built.verdict);
        Tending::Job(IndexJob::dropping(former))
    }

    fn decided(&mut self, verdict: super::Verdict) {
        self.changes.is_training = false;
        // Not the current share: later changes may lie outside iSets. If there are many, the
        // next training is due at once.
        self.changes.share = verdict.coverage;
        if matches!(self.config.selection, Selection::Measured(_)) {
            self.changes.updates = 0;
        }
        self.observed.restart();
        self.updates_in_use = 0;
        self.verdict = Some(verdict);
    }

    /// Notes that the job will not be done: everything stays, and may be tried again.
    pub(super) fn give_up(&mut self) {
        if matches!(self.succession, Succession::Building(_)) {
            self.succession = Succession::Idle;
            self.changes.is_training = false;
            self.counts.given_up += 1;
            // An outcome of that job is no longer accepted.
            self.counts.trials += 1;
        }
    }
}
