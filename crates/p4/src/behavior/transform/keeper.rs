//! Fills the cache table: turns reports into entries, and is a barrier around changes.
//!
//! 1. At most `entries` behaviours are installed; the oldest leaves for a new one.
//! 2. A report of an epoch other than the newest is dropped. The epoch grows with each change,
//!    before what the change affects is deleted. So a packet that walked before or during a
//!    change is never installed after it.
//! 3. From [`Keeper::begin_change`] until [`Keeper::end_change`], all reports are dropped.
//!
//! The paper evicts behaviours whose vector matches the changed entry, and all behaviours if
//! the entry matches nothing of the vector. But ingress may write a field before a table is
//! looked up with it. So an entry is compared only where the table's key surely equals the
//! vector. If no part of a table's key does, all of the table's behaviours are evicted.
//!
//! Reference: Zhang et al., *B-Cache*, sections IV.A and IV.B, figure 7.

use std::collections::{BTreeMap, HashMap};

use num_bigint::BigUint;

use crate::program::Program;
use crate::program::ids::TableId;
use crate::program::table::Match;
use crate::state::Update;

use super::plan::Plan;

/// An operation on the cache table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Delete the entry with this key.
    Delete(Vec<BigUint>),
    /// Insert an entry: its key, its index in [`Plan::actions`], its data.
    Insert(Vec<BigUint>, usize, Vec<BigUint>),
}

/// A table that a change touches, with the entry's match; `None` if the whole table may be
/// touched.
pub type Changed = (TableId, Option<Vec<Match>>);

/// The tables that an update touches, for [`Keeper::begin_change`].
pub fn changed_by(program: &Program, update: &Update) -> Vec<Changed> {
    match update {
        Update::InsertEntry(table, entry) | Update::ModifyEntry(table, entry) => {
            vec![(*table, Some(entry.matches.clone()))]
        }
        Update::DeleteEntry(table, matches, _) => vec![(*table, Some(matches.clone()))],
        Update::SetDefault(table, _) | Update::ClearTable(table) => vec![(*table, None)],
        Update::Member(_, profile, ..) | Update::Group(_, profile, ..) => {
            let tables = program.tables.iter().zip(0..);
            let users = tables.filter(|(table, _)| table.profile == Some(*profile));
            users.map(|(_, id)| (TableId(id), None)).collect()
        }
        // Any table may depend on the hash.
        Update::SetCrc(..) => {
            let all = 0..program.tables.len() as u32;
            all.map(|id| (TableId(id), None)).collect()
        }
        // Packets read these directly: no path through them is remembered, or they apply after
        // ingress. The parser runs before the cache.
        Update::SetRegister(..)
        | Update::SetCounter(..)
        | Update::SetEntryCounter(..)
        | Update::SetMeter(..)
        | Update::SetEntryMeter(..)
        | Update::SetValues(..)
        | Update::Mirror(..)
        | Update::Multicast(..) => Vec::new(),
    }
}

/// Counts of reports and behaviours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeeperCounts {
    /// Reports received.
    pub reports: u64,
    /// Behaviours that were installed.
    pub installed: u64,
    /// Reports dropped because they are from before or during a change.
    pub stale: u64,
    /// Reports of behaviours that were already installed.
    pub known: u64,
    /// Reports that do not have the form of the program's reports.
    pub malformed: u64,
    /// Behaviours evicted to make room.
    pub replaced: u64,
    /// Behaviours evicted by a change.
    pub affected: u64,
}

/// The behaviours that a switch has installed.
#[derive(Clone, Debug)]
pub struct Keeper {
    plan: Plan,
    epoch: u32,
    is_changing: bool,
    ages: BTreeMap<u64, Vec<BigUint>>,
    installed: HashMap<Vec<BigUint>, u64>,
    next_age: u64,
    counts: KeeperCounts,
}

impl Keeper {
    /// Creates a keeper for a switch in epoch 0 with no behaviours.
    pub fn new(plan: Plan) -> Keeper {
        Keeper {
            plan,
            epoch: 0,
            is_changing: false,
            ages: BTreeMap::new(),
            installed: HashMap::new(),
            next_age: 0,
            counts: KeeperCounts::default(),
        }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The counts so far.
    pub fn counts(&self) -> KeeperCounts {
        self.counts
    }

    /// Number of installed behaviours.
    pub fn len(&self) -> usize {
        self.installed.len()
    }

    /// Whether no behaviour is installed.
    pub fn is_empty(&self) -> bool {
        self.installed.is_empty()
    }

    /// Handles a report, the numbers of a digest. Returns the operations to perform, in order.
    pub fn handle_report(&mut self, numbers: &[BigUint]) -> Vec<Operation> {
        self.counts.reports += 1;
        let Some((epoch, key, action, data)) = self.plan.read(numbers) else {
            self.counts.malformed += 1;
            return Vec::new();
        };
        // Invariants 2 and 3.
        if self.is_changing || epoch != BigUint::from(self.epoch) {
            self.counts.stale += 1;
            return Vec::new();
        }
        if self.installed.contains_key(&key) {
            self.counts.known += 1;
            return Vec::new();
        }
        let mut operations = Vec::new();
        while self.installed.len() >= self.plan.entries.max(1) as usize
            && let Some((_, oldest)) = self.ages.pop_first()
        {
            self.installed.remove(&oldest);
            operations.push(Operation::Delete(oldest));
            self.counts.replaced += 1;
        }
        self.ages.insert(self.next_age, key.clone());
        self.installed.insert(key.clone(), self.next_age);
        self.next_age += 1;
        self.counts.installed += 1;
        operations.push(Operation::Insert(key, action, data));
        operations
    }

    /// Begins a change of entries. Returns the operations to perform before the change is made.
    ///
    /// `changed` has the tables, numbered as in the original program. Each has the match of an
    /// entry that is inserted, removed or modified, or `None` for any other change: a default
    /// action, members, groups.
    pub fn begin_change(&mut self, changed: &[Changed]) -> Vec<Operation> {
        self.is_changing = true;
        let mut affected = Vec::new();
        for (key, &age) in &self.installed {
            let mut changes = changed.iter();
            if changes.any(|(table, matches)| self.plan.is_affected(*table, matches, key)) {
                affected.push((age, key.clone()));
            }
        }
        affected.sort_unstable_by_key(|one| one.0);
        for (age, key) in &affected {
            self.ages.remove(age);
            self.installed.remove(key);
        }
        self.counts.affected += affected.len() as u64;
        let keys = affected.into_iter().map(|one| one.1);
        keys.map(Operation::Delete).collect()
    }

    /// Ends a change. Returns the epoch that the table `bcache.begin` must give from now on.
    ///
    /// Acknowledge the change only after that epoch has been written.
    pub fn end_change(&mut self) -> u32 {
        self.is_changing = false;
        self.epoch = self.epoch.wrapping_add(1);
        self.epoch
    }
}
