//! Maintainers: how the caches follow a change of the rules.
//!
//! A maintainer is given the caches as they were at the version before, and must leave them so
//! that every answer in them is the interpreter's at the version after. How much it looks at is
//! its own affair:
//!
//! - [`Flush`] evicts everything. Nothing is cheaper to get right, or dearer afterwards.
//! - [`Revalidate`] has the interpreter answer every entry's key anew, and repairs what changed:
//!   what Open vSwitch's revalidator threads do (*Revaliwhat?*, OVS conference 2014). Here it is
//!   strict: it ends before a packet is forwarded at the new version. Cost: one walk an entry.
//! - [`Incremental`] has it answer the keys of those entries that the change may affect, found by
//!   what their walks had read (KAIRO). Cost: one walk an affected entry.
//! - [`Barrier`] evicts these instead: nothing is repaired, the packets' upcalls do that (B-Cache's
//!   control barrier).
//!
//! 1. Afterwards, no entry's answer differs from the interpreter's anywhere in its region.
//! 2. What evicted or changed entries had counted is credited to the rules they had met.
//! 3. An entry whose region changes has a new generation, so that no microflow finds it by mistake.
//! 4. Where groups change, what was counted before is credited before: a group that is replaced
//!    starts from zero.

mod caches;
mod incremental;
mod sweep;

use thalweg_pipeline::{Delta, Pipeline};

use crate::entry::EntryId;
use crate::statistics::EvictReason;

pub use incremental::{Barrier, Incremental};
pub use sweep::{Flush, Revalidate};

/// Which maintainer a datapath has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MaintainerKind {
    /// [`Incremental`].
    Incremental,
    /// [`Barrier`].
    Barrier,
    /// [`Revalidate`].
    Revalidate,
    /// [`Flush`].
    Flush,
}

impl MaintainerKind {
    /// All that can be chosen.
    pub const ALL: [MaintainerKind; 4] = [
        MaintainerKind::Incremental,
        MaintainerKind::Barrier,
        MaintainerKind::Revalidate,
        MaintainerKind::Flush,
    ];

    /// The name in configurations and reports.
    pub fn name(self) -> &'static str {
        match self {
            MaintainerKind::Incremental => "incremental",
            MaintainerKind::Barrier => "barrier",
            MaintainerKind::Revalidate => "revalidate",
            MaintainerKind::Flush => "flush",
        }
    }

    /// Whether it asks what entries depend on.
    pub(crate) fn needs_dependencies(self) -> bool {
        matches!(self, MaintainerKind::Incremental | MaintainerKind::Barrier)
    }

    pub(crate) fn build(self) -> Box<dyn Maintainer + Send> {
        match self {
            MaintainerKind::Incremental => Box::new(Incremental),
            MaintainerKind::Barrier => Box::new(Barrier),
            MaintainerKind::Revalidate => Box::new(Revalidate),
            MaintainerKind::Flush => Box::new(Flush),
        }
    }
}

impl std::str::FromStr for MaintainerKind {
    type Err = UnknownMaintainer;

    fn from_str(name: &str) -> Result<Self, UnknownMaintainer> {
        let known = MaintainerKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name);
        known.ok_or_else(|| UnknownMaintainer {
            name: name.to_owned(),
        })
    }
}

/// A maintainer that does not exist.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "there is no maintainer {name:?}; choose \"incremental\", \"barrier\", \"revalidate\" or \
     \"flush\""
)]
pub struct UnknownMaintainer {
    /// What was asked for.
    pub name: String,
}

/// What a maintainer did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Entries that were looked at.
    pub examined: u64,
    /// Entries whose answer changed and were repaired in place.
    pub repaired: u64,
    /// Entries whose region changed and were put in anew.
    pub moved: u64,
    /// Entries that were evicted.
    pub evicted: u64,
}

impl Work {
    /// Counts what became of an entry that was looked at.
    pub fn count(&mut self, outcome: Outcome) {
        self.examined += 1;
        match outcome {
            Outcome::Unchanged => {}
            Outcome::Repaired => self.repaired += 1,
            Outcome::Moved => self.moved += 1,
            Outcome::Evicted => self.evicted += 1,
        }
    }

    /// Entries that were looked at and right.
    pub fn falsely_affected(&self) -> u64 {
        self.examined - self.affected()
    }

    /// Entries that the change affected.
    pub fn affected(&self) -> u64 {
        self.repaired + self.moved + self.evicted
    }
}

/// A way for caches to follow a change.
pub trait Maintainer {
    /// Makes every entry right at the delta's version, which the caches are already said to have.
    fn maintain(&mut self, repair: &mut Repair<'_>, pipeline: &Pipeline, delta: &Delta) -> Work;
}

/// The caches, as a maintainer may work on them.
pub struct Repair<'a> {
    caches: &'a mut dyn Caches,
}

/// What [`Repair`] needs of caches of any key width.
pub(crate) trait Caches {
    fn len(&self) -> usize;
    fn ids(&self) -> Vec<EntryId>;
    fn affected(&mut self, pipeline: &Pipeline, delta: &Delta) -> Vec<EntryId>;
    fn settle(&mut self, id: EntryId);
    fn retranslate(&mut self, id: EntryId, pipeline: &Pipeline, remembers: bool) -> Outcome;
    fn evict(&mut self, id: EntryId, reason: EvictReason);
}

/// What became of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was right.
    Unchanged,
    /// Its effects or the rules it met are other ones now.
    Repaired,
    /// Its region is another one now.
    Moved,
    /// It is gone.
    Evicted,
}

impl<'a> Repair<'a> {
    pub(crate) fn new(caches: &'a mut dyn Caches) -> Repair<'a> {
        Repair { caches }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.caches.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries that a change may affect.
    ///
    /// # Panics
    /// If the datapath does not note what entries depend on.
    pub fn affected(&mut self, pipeline: &Pipeline, delta: &Delta) -> Vec<EntryId> {
        self.caches.affected(pipeline, delta)
    }

    /// Credits what an entry has counted so far to what it has met so far.
    pub fn settle(&mut self, id: EntryId) {
        self.caches.settle(id);
    }

    /// All entries.
    pub fn entries(&self) -> Vec<EntryId> {
        self.caches.ids()
    }

    /// Has the interpreter answer an entry's key anew, and makes the entry say the same.
    pub fn retranslate(&mut self, id: EntryId, pipeline: &Pipeline) -> Outcome {
        self.caches.retranslate(id, pipeline, false)
    }

    /// The same, but lookups whose outcome the entry's walk had recorded are not made again if no
    /// change has touched it: right only when [`Repair::affected`] has been told of every change.
    pub fn repair(&mut self, id: EntryId, pipeline: &Pipeline) -> Outcome {
        self.caches.retranslate(id, pipeline, true)
    }

    /// Evicts an entry.
    pub fn evict(&mut self, id: EntryId, reason: EvictReason) {
        self.caches.evict(id, reason);
    }
}
