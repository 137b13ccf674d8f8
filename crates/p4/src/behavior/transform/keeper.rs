//! What fills the cache table: reports in, entries out; and the barrier around changes.
//!
//! 1. At most `entries` behaviours are installed; the oldest leaves for a new one.
//! 2. A report of another epoch than the newest is dropped. The epoch grows with each change, before
//!    what the change affects is deleted; so a packet that walked before the change, or while it was
//!    made, is never installed after it.
//! 3. After [`Keeper::begin_change`], until [`Keeper::end_change`], reports are dropped, too.
//!
//! The paper evicts behaviours whose vector matches the changed entry, and all if the entry matches
//! nothing of the vector. A table may be asked with what ingress has made of a field, though. So an
//! entry is compared only where the table's key is surely what the vector has; a table whose key is
//! nowhere that has all of its behaviours evicted.
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
    /// An entry with this key goes.
    Delete(Vec<BigUint>),
    /// An entry comes: the key, which of [`Plan::actions`], its data.
    Insert(Vec<BigUint>, usize, Vec<BigUint>),
}

/// A table that a change touches, and the match of the entry; none if all of the table may be
/// touched.
pub type Changed = (TableId, Option<Vec<Match>>);

/// What an update of a program touches of its tables, for [`Keeper::begin_change`].
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
        // What a hash selects may be anywhere.
        Update::SetCrc(..) => {
            let all = 0..program.tables.len() as u32;
            all.map(|id| (TableId(id), None)).collect()
        }
        // Met by each packet as they are, since no way through them is remembered, or after
        // ingress; the parser is in front of the cache.
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

/// What became of reports and behaviours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeeperCounts {
    /// Reports that came.
    pub reports: u64,
    /// Behaviours that were installed.
    pub installed: u64,
    /// Reports from before a change, or during one.
    pub stale: u64,
    /// Reports of what was there already.
    pub known: u64,
    /// Reports that no report of the program's can be.
    pub malformed: u64,
    /// Behaviours that left because others came.
    pub replaced: u64,
    /// Behaviours that left because of a change.
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
    /// Of a switch that runs the transformed program with no behaviours, in epoch 0.
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

    /// What became of reports.
    pub fn counts(&self) -> KeeperCounts {
        self.counts
    }

    /// Behaviours that are installed.
    pub fn len(&self) -> usize {
        self.installed.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.installed.is_empty()
    }

    /// What is to be done for a report: the numbers of a digest, in order.
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

    /// A change of entries begins: what is to be deleted before it is made.
    ///
    /// `changed` are the tables, numbered as in the program before the transformation, each with
    /// the match of an entry that comes, goes or changes, or none for all else: a default action,
    /// members, groups.
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

    /// The change has been made: the epoch that the table `bcache.begin` is to give from now on.
    ///
    /// The change may be acknowledged when that has been written.
    pub fn end_change(&mut self) -> u32 {
        self.is_changing = false;
        self.epoch = self.epoch.wrapping_add(1);
        self.epoch
    }
}
