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
//!
//! 1. Afterwards, no entry's answer differs from the interpreter's anywhere in its region.
//! 2. What evicted or changed entries had counted is credited to the rules they had met.
//! 3. An entry whose region changes has a new generation, so that no microflow finds it by mistake.
//! 4. Entries of frozen walks are evicted: a continuation belongs to its version.

use thalweg_pipeline::{Delta, Pipeline};

use crate::core::Core;
use crate::entry::EntryId;
use crate::statistics::EvictReason;

/// Which maintainer a datapath has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MaintainerKind {
    /// [`Flush`].
    Flush,
    /// [`Revalidate`].
    Revalidate,
}

impl MaintainerKind {
    /// All that can be chosen.
    pub const ALL: [MaintainerKind; 2] = [MaintainerKind::Revalidate, MaintainerKind::Flush];

    /// The name in configurations and reports.
    pub fn name(self) -> &'static str {
        match self {
            MaintainerKind::Flush => "flush",
            MaintainerKind::Revalidate => "revalidate",
        }
    }

    pub(crate) fn build(self) -> Box<dyn Maintainer + Send> {
        match self {
            MaintainerKind::Flush => Box::new(Flush),
            MaintainerKind::Revalidate => Box::new(Revalidate),
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
#[error("there is no maintainer {name:?}; choose \"revalidate\" or \"flush\"")]
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
    fn ids(&self) -> Vec<EntryId>;
    fn retranslate(&mut self, id: EntryId, pipeline: &Pipeline) -> Outcome;
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

    /// All entries.
    pub fn entries(&self) -> Vec<EntryId> {
        self.caches.ids()
    }

    /// Has the interpreter answer an entry's key anew, and makes the entry say the same.
    pub fn retranslate(&mut self, id: EntryId, pipeline: &Pipeline) -> Outcome {
        self.caches.retranslate(id, pipeline)
    }

    /// Evicts an entry.
    pub fn evict(&mut self, id: EntryId, reason: EvictReason) {
        self.caches.evict(id, reason);
    }
}

/// Evicts everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flush;

impl Maintainer for Flush {
    fn maintain(&mut self, repair: &mut Repair<'_>, _: &Pipeline, _: &Delta) -> Work {
        let entries = repair.entries();
        let count = entries.len() as u64;
        for id in entries {
            repair.evict(id, EvictReason::Flushed);
        }
        Work {
            examined: count,
            evicted: count,
            ..Work::default()
        }
    }
}

/// Re-executes every entry: the baseline.
#[derive(Clone, Copy, Debug, Default)]
pub struct Revalidate;

impl Maintainer for Revalidate {
    fn maintain(&mut self, repair: &mut Repair<'_>, pipeline: &Pipeline, _: &Delta) -> Work {
        let mut work = Work::default();
        for id in repair.entries() {
            work.examined += 1;
            match repair.retranslate(id, pipeline) {
                Outcome::Unchanged => {}
                Outcome::Repaired => work.repaired += 1,
                Outcome::Moved => work.moved += 1,
                Outcome::Evicted => work.evicted += 1,
            }
        }
        work
    }
}

impl<const W: usize> Caches for Core<W> {
    fn ids(&self) -> Vec<EntryId> {
        self.entries.ids().collect()
    }

    fn evict(&mut self, id: EntryId, reason: EvictReason) {
        Core::evict(self, id, reason);
    }

    fn retranslate(&mut self, id: EntryId, pipeline: &Pipeline) -> Outcome {
        let key = *self.entries.key(id);
        if self
            .layout
            .get(&key[..], thalweg_packet::standard::RECIRC_ID)
            .unwrap_or(0)
            != 0
        {
            Core::evict(self, id, EvictReason::OldContinuation);
            return Outcome::Evicted;
        }
        let Some(mut content) = self.content(&key, pipeline) else {
            Core::evict(self, id, EvictReason::Changed);
            return Outcome::Evicted;
        };
        content.mask.resize(W, 0);
        let subtable = self.subtable_for(&content.mask);
        let entry = self.entries.get_mut(id);
        let is_same_region = entry.subtable == subtable;
        if is_same_region && entry.program == content.program && entry.credits == content.credits {
            return Outcome::Unchanged;
        }
        // Invariant 2.
        let counters = std::mem::take(&mut entry.counters);
        self.ledger.add(&entry.credits, counters, entry.used_at);
        self.account_lists(&content.program, &content.credits);
        let entry = self.entries.get_mut(id);
        let program = std::mem::replace(&mut entry.program, content.program);
        let credits = std::mem::replace(&mut entry.credits, content.credits);
        self.forget_lists(&program, &credits);
        if is_same_region {
            return Outcome::Repaired;
        }
        if self
            .megaflow
            .find_in(subtable, &key, &self.entries)
            .is_some()
        {
            Core::evict(self, id, EvictReason::Duplicate);
            return Outcome::Evicted;
        }
        self.megaflow.remove(id, &self.entries);
        let mut entry = self.entries.remove(id);
        entry.subtable = subtable;
        let id = self.entries.insert(key, entry);
        self.megaflow.insert(id, &self.entries);
        Outcome::Moved
    }
}
