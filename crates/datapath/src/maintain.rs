//! Maintainers: how the caches follow a change of the rules.
//!
//! A maintainer says which entries of a change it treats, and what happens to each. When that
//! happens, and what packets get meanwhile, is described in `follow.rs`.
//!
//! - [`Flush`] evicts everything. It is the simplest to get right, and the most expensive
//!   afterwards.
//! - [`Revalidate`] translates every entry's key again, and repairs what changed, like Open
//!   vSwitch's revalidator threads (*Revaliwhat?*, OVS conference 2014). Here it is strict: it
//!   ends before a packet is forwarded at the new version. Cost: one walk per entry.
//! - [`Lazy`] does the same while packets are forwarded; entries that it has not reached give
//!   old answers. This is how Open vSwitch works, and the only maintainer that breaks the
//!   contract.
//! - [`Incremental`] translates only the keys of entries that the change may affect, found by
//!   what their walks had read (KAIRO). Cost: one walk per affected entry.
//! - [`Barrier`] evicts these entries instead: it repairs nothing, the packets' upcalls do
//!   (B-Cache's control barrier).
//!
//! 1. When a change is settled, no entry's answer differs from the interpreter's anywhere in
//!    its region.
//! 2. Counts of evicted or changed entries are credited to the rules they had met.
//! 3. An entry whose region changes gets a new generation, so that no microflow finds it by
//!    mistake.
//! 4. If groups change, earlier counts are credited to the earlier groups: a group that is
//!    replaced starts from zero.

mod caches;
mod follow;
mod incremental;
mod published;
mod sweep;
mod walks;

use thalweg_classifier::Version;
use thalweg_pipeline::{Delta, Pipeline};

use crate::content::Content;
use crate::dependency::{Findings, Suspect};
use crate::entry::EntryId;
use crate::maintainer_kind::MaintainerKind;
use crate::outcome::Outcome;
use crate::statistics::EvictReason;

pub(crate) use follow::{Following, Slice};
pub use incremental::{Barrier, Incremental};
pub(crate) use published::Published;
pub use sweep::{Flush, Lazy, Revalidate};
pub use walks::{Requests, Walks};

impl MaintainerKind {
    pub(crate) fn build(self) -> Box<dyn Maintainer + Send> {
        match self {
            MaintainerKind::Incremental => Box::new(Incremental),
            MaintainerKind::Barrier => Box::new(Barrier),
            MaintainerKind::Revalidate => Box::new(Revalidate),
            MaintainerKind::Lazy => Box::new(Lazy),
            MaintainerKind::Flush => Box::new(Flush),
        }
    }
}

/// Which entries a maintainer treats after a change, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Those that the change may affect; until they are treated, their packets are upcalls.
    Affected,
    /// All, before the next packet.
    Everything,
    /// All, while packets still use them.
    Later,
}

/// A way for caches to follow a change.
pub trait Maintainer {
    /// The entries that it treats.
    fn scope(&self) -> Scope;

    /// Repairs an entry for the version of the caches, or evicts it.
    fn treat(&self, repair: &mut Repair<'_, '_>) -> Outcome;
}

/// An entry under treatment by a maintainer.
pub struct Repair<'a, 'p> {
    caches: &'a mut dyn Caches,
    pipeline: &'a mut Published<'p>,
    entry: EntryId,
    remembers: bool,
}

/// The operations on caches of any key width that following a change needs.
pub(crate) trait Caches {
    /// An upper bound of all entries' numbers, exclusive.
    fn numbers(&self) -> u32;
    fn is_there(&self, id: EntryId) -> bool;
    fn is_taken(&self, id: EntryId, generation: u32) -> bool;
    /// Prefetches an entry, and its key if asked.
    fn prefetch(&self, id: EntryId, with_key: bool);
    /// Prefetches what removing a loaded entry and giving it new content will touch.
    fn prefetch_lists(&self, id: EntryId, content: &Content);
    /// Prefetches the lists found by the previous round.
    fn prefetch_equal(&self, id: EntryId, content: &Content);
    /// Marks an entry; returns its generation if it was not marked before.
    fn mark(&mut self, id: EntryId) -> Option<u32>;
    /// The same, if the suspicion holds for the entry's region.
    fn mark_suspect(&mut self, findings: &Findings, suspect: &Suspect) -> Option<u32>;
    /// Checks entries made since the search began; returns true when none is left.
    fn check_meanwhile(
        &mut self,
        pipeline: &mut Published<'_>,
        delta: &Delta,
        count: usize,
        affected: &mut Vec<EntryId>,
    ) -> bool;
    /// Moves to the version, and refuses marked entries. The other entries may be of the
    /// previous version.
    fn move_to(&mut self, version: Version, are_others_old: bool);
    fn count(&mut self, outcome: Outcome);
    /// Records that all entries are right again.
    fn settled(&mut self);
    /// Credits an entry's counts so far to its credits so far.
    fn settle(&mut self, id: EntryId);
    fn retranslate(&mut self, id: EntryId, pipeline: &Pipeline, remembers: bool) -> Outcome;
    /// Empty requests, with room for `count`.
    fn requests(&self, version: Version, count: usize) -> Requests;
    /// Adds an entry's key to `keys`, if another thread can make its walk.
    fn request(&self, id: EntryId, keys: &mut Vec<u64>) -> bool;
    /// Most bits in an entry's mask before its walk is made without memory.
    fn mask_limit(&self, id: EntryId) -> u32;
    /// Gives an entry the result of its walk, which was made elsewhere.
    fn accept(&mut self, id: EntryId, content: Content) -> Outcome;
    fn evict(&mut self, id: EntryId, reason: EvictReason);
}

impl<'a, 'p> Repair<'a, 'p> {
    fn new(
        caches: &'a mut dyn Caches,
        pipeline: &'a mut Published<'p>,
        entry: EntryId,
        remembers: bool,
    ) -> Repair<'a, 'p> {
        Repair {
            caches,
            pipeline,
            entry,
            remembers,
        }
    }

    /// Translates the entry's key again, and updates the entry.
    ///
    /// Lookups recorded by the entry's walk are not repeated where the change has not touched
    /// them.
    pub fn retranslate(&mut self) -> Outcome {
        let version = self.pipeline.version();
        let pipeline = self.pipeline.get();
        // Invariant 4 of `follow`.
        let remembers = self.remembers && version == pipeline.version();
        (self.caches).retranslate(self.entry, pipeline, remembers)
    }

    /// Evicts the entry.
    pub fn evict(&mut self, reason: EvictReason) -> Outcome {
        self.caches.evict(self.entry, reason);
        Outcome::Evicted
    }
}
