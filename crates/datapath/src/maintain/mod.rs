//! Maintainers: how the caches follow a change of the rules.
//!
//! A maintainer says which entries a change sends to it, and what becomes of each; when, and what
//! packets get meanwhile, is told in `follow.rs`.
//!
//! - [`Flush`] evicts everything. Nothing is cheaper to get right, or dearer afterwards.
//! - [`Revalidate`] has the interpreter answer every entry's key anew, and repairs what changed:
//!   what Open vSwitch's revalidator threads do (*Revaliwhat?*, OVS conference 2014). Here it is
//!   strict: it ends before a packet is forwarded at the new version. Cost: one walk an entry.
//! - [`Lazy`] does the same while packets are forwarded, which get old answers from entries that it
//!   has not reached: as Open vSwitch has it, and the one maintainer that breaks the contract.
//! - [`Incremental`] has it answer the keys of those entries that the change may affect, found by
//!   what their walks had read (KAIRO). Cost: one walk an affected entry.
//! - [`Barrier`] evicts these instead: nothing is repaired, the packets' upcalls do that (B-Cache's
//!   control barrier).
//!
//! 1. When a change is settled, no entry's answer differs from the interpreter's anywhere in its
//!    region.
//! 2. What evicted or changed entries had counted is credited to the rules they had met.
//! 3. An entry whose region changes has a new generation, so that no microflow finds it by mistake.
//! 4. Where groups change, what was counted before is credited before: a group that is replaced
//!    starts from zero.

mod caches;
mod follow;
mod incremental;
mod published;
mod sweep;
mod walks;

use thalweg_classifier::Version;
use thalweg_pipeline::{Delta, Pipeline};

use crate::dependency::{Findings, Suspect};
use crate::entry::EntryId;
use crate::statistics::EvictReason;
use crate::upcall::Content;

pub(crate) use follow::{Following, Slice};
pub use incremental::{Barrier, Incremental};
pub(crate) use published::Published;
pub use sweep::{Flush, Lazy, Revalidate};
pub use walks::{Requests, Walks};

/// Which maintainer a datapath has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MaintainerKind {
    /// [`Incremental`].
    Incremental,
    /// [`Barrier`].
    Barrier,
    /// [`Revalidate`].
    Revalidate,
    /// [`Lazy`].
    Lazy,
    /// [`Flush`].
    Flush,
}

impl MaintainerKind {
    /// All that can be chosen.
    pub const ALL: [MaintainerKind; 5] = [
        MaintainerKind::Incremental,
        MaintainerKind::Barrier,
        MaintainerKind::Revalidate,
        MaintainerKind::Lazy,
        MaintainerKind::Flush,
    ];

    /// Those that never let a packet have an old answer once a change is acknowledged.
    pub const STRICT: [MaintainerKind; 4] = [
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
            MaintainerKind::Lazy => "lazy",
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
            MaintainerKind::Lazy => Box::new(Lazy),
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
    "there is no maintainer {name:?}; choose \"incremental\", \"barrier\", \"revalidate\", \
     \"lazy\" or \"flush\""
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
    /// Entries among all these whose walk was made elsewhere: see [`Requests`].
    pub walked_elsewhere: u64,
}

impl Work {
    /// Counts what became of an entry that was looked at.
    pub fn count(&mut self, outcome: Outcome) {
        self.examined += 1;
        match outcome {
            Outcome::Unchanged => {}
            Outcome::Repaired => self.repaired += 1,
            Outcome::Narrowed | Outcome::Moved => self.moved += 1,
            Outcome::Evicted => self.evicted += 1,
        }
    }

    /// Adds what another did, or the same another time.
    pub fn add(&mut self, other: Work) {
        self.examined += other.examined;
        self.repaired += other.repaired;
        self.moved += other.moved;
        self.evicted += other.evicted;
        self.walked_elsewhere += other.walked_elsewhere;
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

/// What became of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// It was right.
    Unchanged,
    /// Its effects or the rules it met are other ones now.
    Repaired,
    /// Its region is a part of what it was.
    Narrowed,
    /// Its region is another one now, wider or elsewhere.
    Moved,
    /// It is gone.
    Evicted,
}

impl Outcome {
    /// All that can become of an entry.
    pub const ALL: [Outcome; 5] = [
        Outcome::Unchanged,
        Outcome::Repaired,
        Outcome::Narrowed,
        Outcome::Moved,
        Outcome::Evicted,
    ];

    /// The outcome as reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Unchanged => "unchanged",
            Outcome::Repaired => "repaired",
            Outcome::Narrowed => "narrowed",
            Outcome::Moved => "moved",
            Outcome::Evicted => "evicted",
        }
    }
}

/// Which entries a change sends to a maintainer, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Those that the change may affect; until it is their turn, their packets are upcalls.
    Affected,
    /// All, before the next packet.
    Everything,
    /// All, while packets go on to use them.
    Later,
}

/// A way for caches to follow a change.
pub trait Maintainer {
    /// The entries that it is asked to treat.
    fn scope(&self) -> Scope;

    /// Makes an entry right at the version that the caches have, or evicts it.
    fn treat(&self, repair: &mut Repair<'_, '_>) -> Outcome;
}

/// An entry, as a maintainer may treat it.
pub struct Repair<'a, 'p> {
    caches: &'a mut dyn Caches,
    pipeline: &'a mut Published<'p>,
    entry: EntryId,
    remembers: bool,
}

/// What following a change needs of caches of any key width.
pub(crate) trait Caches {
    /// Entries have smaller numbers than this.
    fn numbers(&self) -> u32;
    fn is_there(&self, id: EntryId) -> bool;
    fn is_taken(&self, id: EntryId, generation: u32) -> bool;
    /// Asks for the memory of an entry that is to be looked at soon, and of its key.
    fn prefetch(&self, id: EntryId, with_key: bool);
    /// The same of what takes out an entry whose memory has come, and gives it another content.
    fn prefetch_lists(&self, id: EntryId, content: &Content);
    /// The same of what has been found by then.
    fn prefetch_equal(&self, id: EntryId, content: &Content);
    /// Marks an entry; says its generation if that is news.
    fn mark(&mut self, id: EntryId) -> Option<u32>;
    /// The same, if the suspicion holds for its region.
    fn mark_suspect(&mut self, findings: &Findings, suspect: &Suspect) -> Option<u32>;
    /// Looks at entries that were made since the search began; true when there is none any more.
    fn check_meanwhile(
        &mut self,
        pipeline: &mut Published<'_>,
        delta: &Delta,
        count: usize,
        affected: &mut Vec<EntryId>,
    ) -> bool;
    /// Takes the version, and refuses what is marked. Others may be of the version before.
    fn move_to(&mut self, version: Version, are_others_old: bool);
    fn count(&mut self, outcome: Outcome);
    /// All entries are right again.
    fn settled(&mut self);
    /// Credits what an entry has counted so far to what it has met so far.
    fn settle(&mut self, id: EntryId);
    fn retranslate(&mut self, id: EntryId, pipeline: &Pipeline, remembers: bool) -> Outcome;
    /// No requests yet, with room for so many.
    fn requests(&self, version: Version, count: usize) -> Requests;
    /// Adds an entry's key to `keys`, if all that its walk needs is known elsewhere too.
    fn request(&self, id: EntryId, keys: &mut Vec<u64>) -> bool;
    /// Bits that an entry's mask may have before its walk is made anew.
    fn mask_limit(&self, id: EntryId) -> u32;
    /// Gives an entry what its walk, which was made elsewhere, has come to.
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

    /// Has the interpreter answer the entry's key anew, and makes the entry say the same.
    ///
    /// Lookups whose outcome the entry's walk had recorded are not made again if the change has not
    /// touched it.
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
