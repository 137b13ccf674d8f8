//! Follows a change in the caches, a slice at a time, with packets between any two slices.
//!
//! ```text
//!   at v:     mark the entries that the change may affect, and those that were made meanwhile
//!   between two bursts, in constant time:   the version is v+1, marked entries are refused
//!   at v+1:   repair or evict what is marked; until then its packets are upcalls
//! ```
//!
//! The worker acknowledges as soon as the caches have moved; repairs may finish later. A
//! maintainer whose scope is [`Scope::Everything`] treats all entries in the slice in which it
//! moves: these are the baselines, whose slices have no bound. One with [`Scope::Later`] marks
//! nothing, and packets get old answers until it has reached their entry.
//!
//! Most slices need no rules: marking compares regions, and walks made elsewhere are only
//! installed. So a slice takes the pipeline's lock only when it walks an entry or compares it
//! with new rules, and holds it to its end. The control side, which is making the next change,
//! and the workers seldom wait for each other.
//!
//! 1. No slice looks at more than [`MARKS`] times as many entries as it may treat, unless the
//!    scope is everything.
//! 2. Once the version has moved, no entry that the change affects is found before it is
//!    right, unless the scope is later.
//! 3. Counts from before the version moved are kept apart from later counts, since a group
//!    that is replaced starts from zero.
//! 4. The next change begins when this one is settled. It may be published and searched for
//!    earlier, once all requested walks are made. From then on, walks here do not use the
//!    record, which already knows of the next change.

use std::collections::VecDeque;
use std::sync::Arc;

use thalweg_pipeline::Delta;

use super::published::Published;
use super::walks::{Requests, Walk, Walks};
use super::{Caches, Maintainer, Repair, Scope};
use crate::dependency::Findings;
use crate::entry::EntryId;
use crate::outcome::{Outcome, Work};

/// Entries that a slice may mark for each one it may treat. Low in a model check, which has
/// few entries, so that marking takes several slices.
const MARKS: usize = if cfg!(thalweg_model) { 2 } else { 32 };

/// How far ahead the memory of suspects is prefetched, as they are scattered.
const AHEAD: usize = 8;

/// Most affected entries walked elsewhere. In a model check, fewer than there are.
const REQUESTS_MAX: usize = if cfg!(thalweg_model) { 2 } else { 8_192 };

/// Entries walked elsewhere that may be treated instead of one walked here.
const ACCEPTED: usize = 4;

/// Entries that are treated together.
const ROUND: usize = 16;

/// A change being followed.
#[derive(Debug)]
pub(crate) struct Following {
    pub(crate) delta: Arc<Delta>,
    findings: Arc<Findings>,
    stage: Stage,
    /// Where the next slice continues, among suspects, numbers or marked entries.
    next: usize,
    /// With their generations.
    marked: Vec<(EntryId, u32)>,
    /// Marked entries from this one on wait for walks made elsewhere.
    waiting_from: Option<usize>,
    walks: VecDeque<Walk>,
    /// Reused from slice to slice.
    affected: Vec<EntryId>,
    work: Work,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Marking,
    Treating,
}

/// The state after a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slice {
    /// The version is still the old one.
    Preparing,
    /// The version is the new one; repairs are left.
    Repairing,
    /// Nothing is left to do.
    Settled(Work),
}

impl Following {
    pub(crate) fn new(delta: Arc<Delta>, findings: Arc<Findings>) -> Following {
        Following {
            delta,
            findings,
            stage: Stage::Marking,
            next: 0,
            marked: Vec::new(),
            waiting_from: None,
            walks: VecDeque::new(),
            affected: Vec::new(),
            work: Work::default(),
        }
    }

    /// Does one slice, which may treat `size` entries.
    pub(crate) fn step(
        &mut self,
        maintainer: &dyn Maintainer,
        caches: &mut dyn Caches,
        pipeline: &mut Published<'_>,
        size: usize,
    ) -> Slice {
        let scope = maintainer.scope();
        match self.stage {
            Stage::Marking => {
                let is_ready = scope != Scope::Affected || self.mark(caches, pipeline, size);
                if !is_ready {
                    return Slice::Preparing;
                }
                caches.move_to(self.delta.version, scope != Scope::Affected);
                (self.stage, self.next) = (Stage::Treating, 0);
                match scope {
                    Scope::Affected if self.marked.is_empty() => self.settle(caches),
                    Scope::Affected | Scope::Later => Slice::Repairing,
                    Scope::Everything => self.sweep(maintainer, caches, pipeline, usize::MAX),
                }
            }
            Stage::Treating if scope == Scope::Affected => {
                self.treat(maintainer, caches, pipeline, size)
            }
            Stage::Treating => self.sweep(maintainer, caches, pipeline, size),
        }
    }

    /// Marks suspects; returns true when everything that the change may affect is marked.
    fn mark(&mut self, caches: &mut dyn Caches, pipeline: &mut Published<'_>, size: usize) -> bool {
        let mut room = size.saturating_mul(MARKS);
        let count = match self.findings.is_everything {
            true => caches.numbers() as usize,
            false => self.findings.suspects.len(),
        };
        while self.next < count && room > 0 {
            let (entry, marked) = match self.findings.is_everything {
                true => {
                    let entry = EntryId(self.next as u32);
                    (entry, caches.mark(entry))
                }
                false => {
                    let suspects = &self.findings.suspects;
                    if let Some(later) = suspects.get(self.next + AHEAD) {
                        caches.prefetch(later.entry, later.rule.is_some());
                    }
                    let suspect = &suspects[self.next];
                    (suspect.entry, caches.mark_suspect(&self.findings, suspect))
                }
            };
            self.marked
                .extend(marked.map(|generation| (entry, generation)));
            self.next += 1;
            room -= 1;
        }
        if self.next < count || room == 0 {
            return false;
        }
        // A burst makes fewer entries than a slice checks.
        let mut affected = std::mem::take(&mut self.affected);
        let is_done = caches.check_meanwhile(pipeline, &self.delta, room, &mut affected);
        for entry in affected.drain(..) {
            let marked = caches.mark(entry);
            self.marked
                .extend(marked.map(|generation| (entry, generation)));
        }
        self.affected = affected;
        is_done
    }

    /// Requests walks of the last marked entries, if there are enough; the caller must pass
    /// the results to `accept`.
    pub(crate) fn request(&mut self, caches: &dyn Caches, at_least: usize) -> Option<Requests> {
        // If everything is suspected, no paths were found, so no walk can be made elsewhere.
        let is_wanted = self.stage == Stage::Treating
            && !self.findings.is_everything
            && self.waiting_from.is_none()
            && self.marked.len() - self.next >= at_least.max(1);
        if !is_wanted {
            return None;
        }
        let from = self.marked.len().saturating_sub(REQUESTS_MAX);
        let from = from.max(self.next);
        let mut requests = caches.requests(self.delta.version, self.marked.len() - from);
        for place in from..self.marked.len() {
            let (entry, generation) = self.marked[place];
            if let Some((later, _)) = self.marked.get(place + AHEAD) {
                caches.prefetch(*later, true);
            }
            if caches.is_taken(entry, generation) {
                let limit = caches.mask_limit(entry);
                requests.add((place, entry, limit), |keys| caches.request(entry, keys));
            }
        }
        self.waiting_from = Some(from);
        Some(requests)
    }

    /// Accepts the requested walks, or those that could be made.
    pub(crate) fn accept(&mut self, walks: Walks) {
        assert_eq!(walks.version(), self.delta.version, "of this change");
        self.walks = walks.into_walks();
        self.waiting_from = None;
    }

    /// Whether nothing can be done until the requested walks come.
    pub(crate) fn is_waiting(&self) -> bool {
        self.stage == Stage::Treating && self.waiting_from.is_some_and(|from| self.next >= from)
    }

    /// Treats marked entries.
    fn treat(
        &mut self,
        maintainer: &dyn Maintainer,
        caches: &mut dyn Caches,
        pipeline: &mut Published<'_>,
        size: usize,
    ) -> Slice {
        let mut room = size.saturating_mul(ACCEPTED);
        let mut prefetched = self.next;
        while room > 0 && !self.is_waiting() {
            let Some((entry, generation)) = self.marked.get(self.next).copied() else {
                break;
            };
            if self.next == prefetched {
                prefetched += room.min(ROUND);
                self.prefetch(caches, prefetched);
            }
            let walk = self.walks.pop_front_if(|walk| walk.place == self.next);
            self.next += 1;
            // An upcall may have replaced it.
            if !caches.is_taken(entry, generation) {
                self.count(caches, Outcome::Evicted);
                room -= 1;
            } else if let Some(walk) = walk {
                self.accept_one(caches, entry, walk);
                room -= 1;
            } else {
                self.treat_one(maintainer, caches, pipeline, entry);
                room = room.saturating_sub(ACCEPTED);
            }
        }
        match self.next == self.marked.len() {
            true => self.settle(caches),
            false => Slice::Repairing,
        }
    }

    /// Prefetches marked entries up to `end`, and their new content. Works in rounds, each of
    /// which prefetches for the next.
    fn prefetch(&self, caches: &dyn Caches, end: usize) {
        let end = end.min(self.marked.len());
        let entries = || self.marked[self.next..end].iter().map(|(entry, _)| *entry);
        let walks = || {
            let walks = self.walks.iter().take_while(|walk| walk.place < end);
            walks.map(|walk| (self.marked[walk.place].0, &walk.content))
        };
        entries().for_each(|entry| caches.prefetch(entry, true));
        walks().for_each(|(_, content)| content.prefetch());
        walks().for_each(|(entry, content)| caches.prefetch_lists(entry, content));
        walks().for_each(|(entry, content)| caches.prefetch_equal(entry, content));
    }

    /// Treats entries one by one, marked or not.
    fn sweep(
        &mut self,
        maintainer: &dyn Maintainer,
        caches: &mut dyn Caches,
        pipeline: &mut Published<'_>,
        size: usize,
    ) -> Slice {
        let mut treated = 0;
        while treated < size && self.next < caches.numbers() as usize {
            let entry = EntryId(self.next as u32);
            self.next += 1;
            if caches.is_there(entry) {
                self.treat_one(maintainer, caches, pipeline, entry);
                treated += 1;
            }
        }
        match self.next == caches.numbers() as usize {
            true => self.settle(caches),
            false => Slice::Repairing,
        }
    }

    fn accept_one(&mut self, caches: &mut dyn Caches, entry: EntryId, walk: Walk) {
        // Invariant 3, as below.
        if !self.delta.groups.is_empty() {
            caches.settle(entry);
        }
        let outcome = caches.accept(entry, walk.content);
        self.work.walked_elsewhere += 1;
        self.count(caches, outcome);
    }

    fn treat_one(
        &mut self,
        maintainer: &dyn Maintainer,
        caches: &mut dyn Caches,
        pipeline: &mut Published<'_>,
        entry: EntryId,
    ) {
        // Invariant 3: what an entry counted belongs to the former group.
        if !self.delta.groups.is_empty() {
            caches.settle(entry);
        }
        let remembers = !self.findings.is_everything && maintainer.scope() == Scope::Affected;
        let mut repair = Repair::new(caches, pipeline, entry, remembers);
        let outcome = maintainer.treat(&mut repair);
        self.count(caches, outcome);
    }

    fn count(&mut self, caches: &mut dyn Caches, outcome: Outcome) {
        self.work.count(outcome);
        caches.count(outcome);
    }

    fn settle(&mut self, caches: &mut dyn Caches) -> Slice {
        caches.settled();
        Slice::Settled(self.work)
    }
}
