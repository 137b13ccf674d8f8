//! Changes in steps: begun, performed a few operations at a time, then published or undone.
//!
//! ```text
//!   plan(change):     what can be said of it by itself; the layout that it needs
//!   begin(plan):      a wider layout, if it needs one: all rules move to it
//!   perform(plan, n): n parts of it, at versions that nobody reads yet
//!   publish:          the last of these is the newest version from now on
//!   undo(n):          instead, when it was refused or is not wanted: n parts back, last first
//! ```
//!
//! Between any two steps, readers of the published version go on and see nothing of the
//! change. So an owner that holds the pipeline behind a lock can let readers in between steps,
//! and a change of 200,000 rules blocks no reader for long. [`Pipeline::apply`] takes all
//! steps at once.
//!
//! A *part* is what an operation does to one rule or station; an operation on many rules has
//! many parts. Versions number the parts: every [`SLICE`] things done make a *slice* with its
//! own version, and the change publishes the version of its last slice. So a large change
//! skips versions. Undo and reclaim work by version, in classifiers too, so both go slice by
//! slice and cost what the slice cost.
//!
//! 1. At most one change is begun and neither published nor undone. The versions of its slices
//!    are later than the published one.
//! 2. `Slice::done` holds all that a slice did, in order. Undoing it in reverse restores the
//!    earlier pipeline, including the next ids and ages.
//! 3. A rule born in this change is not born a second time: what replaces or modifies it is
//!    written into it, as no reader has seen it. `heirs` maps it to the published rule whose
//!    place it has.
//! 4. Versions depend on the change alone, not on how it was cut into steps.
//!
//! Costs: a part does at most one insert and one remove in a classifier. Three things are not
//! divided:
//!
//! - A new layout moves every rule, in [`Pipeline::begin`].
//! - Arrays and hash tables of a classifier are copied when they grow or shrink, each time
//!   after as many more parts. These copies are the longest steps of an add, a modify or a
//!   reclaim, and they grow with the number of rules; the median step does not.
//! - An operation that selects rules looks for them first. [`Pipeline::search`] can do that
//!   while others read.

mod grow;
mod meters;
mod operations;
mod plan;
mod undo;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_classifier::{RuleId, Version};
use thalweg_packet::{Instant, PortId};

use crate::action::{GroupId, TableId};
use crate::bridge::BridgeId;
use crate::change::{Change, ChangeError};
use crate::limits::TableLimit;
use crate::mac::Station;
use crate::meters::{MeterId, MeterPlace};
use crate::pipeline::{Generation, Pipeline};

pub use plan::Plan;

/// Things done in a slice; a few more are possible, as the last part is not cut.
pub(crate) const SLICE: usize = 64;

/// Whether stepwise work is finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Progress {
    /// Another step is needed.
    Unfinished,
    /// There is nothing left to do.
    Finished,
}

/// What a change did: all that a maintainer of caches needs to know.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Delta {
    /// The version that the change published.
    pub version: Version,
    /// Rules that exist from this version on.
    pub inserted: Vec<RuleId>,
    /// Rules that no longer exist.
    pub removed: Vec<RuleId>,
    /// Those of them that went to make room for others.
    pub evicted: BTreeSet<RuleId>,
    /// Groups that were added, replaced or removed.
    pub groups: Vec<GroupId>,
    /// Meters that were added or removed, or that begin or cease to remark packets.
    pub meters: Vec<MeterId>,
    /// Ports that were added or removed, or whose state or VLANs changed.
    pub ports: Vec<PortId>,
    /// Bridges whose tables do something else with packets that no rule matches.
    pub misses: Vec<BridgeId>,
    /// Bridges with other mirrors: every walk in them may have another answer.
    pub mirrors: Vec<BridgeId>,
    /// Bridges that start or stop forwarding packets to addresses reserved for the link.
    pub bpdus: Vec<BridgeId>,
    /// Bridges that do something else with fragments.
    pub fragments: Vec<BridgeId>,
    /// Stations that moved or were forgotten.
    pub stations: Vec<Station>,
    /// Whether keys have a new layout from this version on.
    pub has_new_layout: bool,
}

impl Delta {
    /// Whether only rules have changed, and the layout has not.
    pub fn is_of_rules(&self) -> bool {
        let has_others =
            !self.groups.is_empty() || !self.ports.is_empty() || !self.stations.is_empty();
        let has_bridges =
            !self.misses.is_empty() || !self.bpdus.is_empty() || !self.fragments.is_empty();
        let has_bridges = has_bridges || !self.mirrors.is_empty();
        let has_others = has_others || !self.meters.is_empty();
        !has_others && !has_bridges && !self.has_new_layout
    }
}

/// A change that is not published yet.
pub(crate) struct Prepared {
    /// Its version is filled in at publication.
    delta: Delta,
    stage: Stage,
    /// The slices so far; the last one is still open.
    slices: Vec<Slice>,
    /// The tables before the layout grew.
    former: Option<Generation>,
    /// The last age given before the change.
    age_before: u64,
    /// Meters that were added or modified.
    meters_set: Vec<MeterId>,
    /// Invariant 3: maps a rule of this change to the published rule whose place it has.
    heirs: BTreeMap<RuleId, RuleId>,
    /// Number of rules that this change both added and ended.
    stillborn: usize,
    /// Of `delta.inserted`: how many were checked, and how many of these are alive.
    sifted: (usize, usize),
}

impl Prepared {
    /// The tables of the published version, if the change has replaced them.
    pub(crate) fn former_mut(&mut self) -> Option<&mut Generation> {
        self.former.as_mut()
    }
}

/// How far a change has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Operations are left, or inserted rules to be checked.
    Open,
    /// It can be published.
    Complete,
    /// It can only be undone.
    Refused,
}

/// The things done at one version.
#[derive(Debug)]
pub(crate) struct Slice {
    version: Version,
    done: Vec<Done>,
}

/// One thing done, in a form that can be undone.
#[derive(Debug)]
pub(crate) enum Done {
    /// A table was made.
    Table(TableId),
    /// A rule was born, in a free place or a new one.
    Birth { id: RuleId, is_new_place: bool },
    /// A rule was ended.
    Death(RuleId),
    /// A group was set or removed.
    Group(GroupId),
    /// A group's counters were extended for its buckets; the old number of buckets, `None` if
    /// the counters are new.
    GroupCounters(GroupId, Option<usize>),
    /// A meter was set or removed.
    Meter(MeterId),
    /// A meter was given this place.
    MeterPlace(MeterPlace),
    /// A port was set or removed.
    Port(PortId),
    /// A port's VLANs were set.
    PortVlans(PortId),
    /// A bridge's mirrors were set.
    Mirrors(BridgeId),
    /// Whether a bridge forwards to reserved addresses was set.
    Bpdus(BridgeId),
    /// A table's limit was set; the former one.
    Limit(TableId, Option<Arc<TableLimit>>),
    /// What the tables of a bridge do without a rule was set.
    Misses(BridgeId),
    /// What a bridge does with fragments was set.
    Fragments(BridgeId),
    /// A station was moved or forgotten.
    Station(Station),
}

impl Pipeline {
    /// Prepares and publishes a change in one call.
    ///
    /// # Errors
    /// If any operation cannot be done; then nothing is done.
    ///
    /// # Panics
    /// If another change is begun.
    pub fn apply(&mut self, change: &Change, now: Instant) -> Result<Delta, ChangeError> {
        let mut plan = self.plan(change)?;
        self.begin(&mut plan, now);
        if let Err(error) = self.perform(&mut plan, usize::MAX) {
            self.abort();
            return Err(error);
        }
        Ok(self.publish())
    }

    /// Begins a change; readers see nothing of it until it is published.
    ///
    /// If it needs a wider layout, this step moves all rules to it. Keys of the former layout
    /// must not be used with the pipeline until the change is undone.
    ///
    /// # Panics
    /// If another change is begun, or the pipeline has changed since the plan was made.
    pub fn begin(&mut self, plan: &mut Plan<'_>, now: Instant) {
        assert!(self.prepared.is_none(), "one change at a time");
        plan.start(self.version, now);
        self.prepared = Some(Prepared {
            delta: Delta::default(),
            stage: Stage::Open,
            slices: vec![Slice {
                version: self.version.next(),
                done: Vec::new(),
            }],
            former: None,
            age_before: self.next_age,
            meters_set: Vec::new(),
            heirs: BTreeMap::new(),
            stillborn: 0,
            sifted: (0, 0),
        });
        if let Some(layout) = plan.layout() {
            self.move_to(layout.clone());
        }
        self.complete_if_over(plan);
    }

    /// Does the next `parts` parts of a begun change, or as many as are left.
    ///
    /// # Errors
    /// If an operation cannot be done. The parts done before it must then be undone
    /// ([`Pipeline::undo`]).
    ///
    /// # Panics
    /// If this change is not begun, or it was refused.
    pub fn perform(&mut self, plan: &mut Plan<'_>, parts: usize) -> Result<Progress, ChangeError> {
        plan.assert_begun(self.version);
        for _ in 0..parts.max(1) {
            match self.unpublished().stage {
                Stage::Open => {}
                Stage::Complete => return Ok(Progress::Finished),
                Stage::Refused => panic!("the change was refused; undo it"),
            }
            self.open_slice();
            if plan.is_over() {
                self.sift();
            } else if let Err(error) = self.perform_part(plan) {
                self.unpublished().stage = Stage::Refused;
                return Err(error);
            }
            self.complete_if_over(plan);
        }
        Ok(match self.unpublished().stage {
            Stage::Complete => Progress::Finished,
            _ => Progress::Unfinished,
        })
    }

    /// Makes the prepared change the newest version. Takes one step, unless the layout grew.
    ///
    /// # Panics
    /// If no change is begun, or [`Pipeline::perform`] has not finished it.
    pub fn publish(&mut self) -> Delta {
        let version = self.open_version();
        let prepared = self.prepared.take().expect("a change was begun");
        let is_complete = prepared.stage == Stage::Complete;
        assert!(is_complete, "a change is published when all of it is done");
        self.version = version;
        self.leavings.add_slices(prepared.slices);
        for id in prepared.meters_set {
            self.meters.fill(id, version);
        }
        if let Some(mut former) = prepared.former {
            // Rules that were already dead are not in the new tables, but must still be
            // reclaimed.
            let long_ago = Version(Version::NEVER.0 - 1);
            let tables = former.tables.iter_mut().flatten();
            let dead = tables.flat_map(|table| table.reclaim(long_ago));
            self.left_behind.extend(dead.map(|id| (version, id)));
        }
        Delta {
            version,
            ..prepared.delta
        }
    }

    /// The newest version, published or not.
    pub(crate) fn open_version(&self) -> Version {
        let slices = self.prepared.iter().flat_map(|prepared| &prepared.slices);
        slices.last().map_or(self.version, |slice| slice.version)
    }

    fn unpublished(&mut self) -> &mut Prepared {
        self.prepared.as_mut().expect("a change was begun")
    }

    /// Records one thing done, so that it can be undone.
    fn note(&mut self, done: Done) {
        let slices = &mut self.unpublished().slices;
        let open = slices.last_mut().expect("a change has a slice");
        open.done.push(done);
    }

    /// Begins the next slice if the open one is full.
    fn open_slice(&mut self) {
        let slices = &mut self.unpublished().slices;
        let open = slices.last().expect("a change has a slice");
        if open.done.len() >= SLICE {
            let version = open.version.next();
            slices.push(Slice {
                version,
                done: Vec::with_capacity(SLICE),
            });
        }
    }

    fn complete_if_over(&mut self, plan: &Plan<'_>) {
        let prepared = self.unpublished();
        let (looked_at, living) = prepared.sifted;
        let is_sifted = prepared.stillborn == 0 || looked_at == prepared.delta.inserted.len();
        if plan.is_over() && is_sifted && prepared.heirs.is_empty() {
            prepared.stage = Stage::Complete;
            if prepared.stillborn > 0 {
                prepared.delta.inserted.truncate(living);
            }
        }
    }

    /// Checks which of the next inserted rules are still alive, and moves those forward. Also
    /// forgets some of the heirs.
    fn sift(&mut self) {
        let prepared = self.prepared.as_mut().expect("a change was begun");
        for _ in 0..SLICE {
            prepared.heirs.pop_first();
        }
        if prepared.stillborn == 0 {
            return;
        }
        let (mut looked_at, mut living) = prepared.sifted;
        let inserted = &mut prepared.delta.inserted;
        let end = inserted.len().min(looked_at + SLICE);
        while looked_at < end {
            let id = inserted[looked_at];
            let rule = self.rules[id.0 as usize].as_ref();
            if rule.is_some_and(|rule| rule.end.is_none()) {
                inserted[living] = id;
                living += 1;
            }
            looked_at += 1;
        }
        prepared.sifted = (looked_at, living);
    }
}
