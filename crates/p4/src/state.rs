//! Everything that changes while a program runs: entries, members, groups, counters, meters,
//! registers.
//!
//! A controller writes batches of [`Update`]s ([`State::write`]). A batch is done whole or not
//! at all: each update records how to undo it, and the first failure undoes the earlier ones.
//! Entries exist in versions, like OpenFlow rules. A batch makes its changes at the next
//! version, which becomes the newest when all updates have succeeded.

mod action;
mod apply;
mod cells;
mod difference;
mod error;
mod matching;
mod profile;
mod table;
mod update;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use num_bigint::{BigInt, BigUint};
use thalweg_classifier::{AutoStatistics, ClassifierKind, Version};

pub use crate::counter::Counter;
pub(crate) use crate::meter::Meter;
pub use crate::meter::{MeterRates, Rate};
pub use action::Bound;
pub(crate) use action::What;
pub(crate) use cells::Cells;
pub use error::{BatchError, WriteError};
pub use matching::PATTERNS_MAX;
pub(crate) use matching::{check_match, patterns_of};
pub use profile::WEIGHTS_MAX;
pub(crate) use profile::{Group, Member, ProfileState};
pub use table::Entry;
pub(crate) use table::{NewEntry, TableState};
pub use update::{
    ActionCall, CrcParameters, EntryAction, Mirror, Mode, Replica, TableEntry, Update,
};

use crate::program::Program;
use crate::program::exact;
use crate::program::ids::{CounterId, MeterId, ProfileId, RegisterId, TableId, ValueSetId};
use crate::program::table::Match;
use thalweg_classifier::{BuiltIndex, IndexJob};

use crate::training::{TargetOwner, Trainer};

/// Maximum multicast groups, and maximum mirror sessions.
pub const REPLICATION_MAX: usize = 1 << 15;

/// Maximum copies of one multicast group or mirror session.
pub const REPLICAS_MAX: usize = 1 << 12;

/// A change of a batch that affects lookups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// An entry was inserted with this index, unless the same batch removed it again.
    Inserted(TableId, u32),
    /// An entry was removed.
    Removed(TableId, u32),
    /// The default action of a table changed.
    Default(TableId),
    /// A member of an action profile was inserted, removed or given another action.
    Member(ProfileId, u32),
    /// A group of an action profile was inserted, removed or given other members.
    Group(ProfileId, u32),
    /// The parameters of a hash function changed.
    Calculation,
}

/// The mutable state of a program.
#[derive(Debug)]
pub struct State {
    pub(crate) version: Version,
    pub(crate) tables: Vec<TableState>,
    pub(crate) profiles: Vec<ProfileState>,
    pub(crate) mirrors: BTreeMap<u16, Mirror>,
    pub(crate) multicast: BTreeMap<u16, Vec<Replica>>,
    pub(crate) value_sets: Vec<BTreeSet<BigUint>>,
    /// By use of a value set: its members as keys there.
    pub(crate) value_rows: Vec<HashSet<Box<[u64]>>>,
    pub(crate) cells: Cells,
    trainer: Trainer,
}

impl State {
    /// The initial state of a program: its own entries and defaults only.
    ///
    /// # Errors
    /// Fails if an entry of the program is invalid: its values do not fit, or two have the same
    /// match.
    pub fn new(
        program: &Program,
        classifier: ClassifierKind,
        seed: u64,
    ) -> Result<State, WriteError> {
        let tables = program
            .tables
            .iter()
            .map(|table| TableState::new(table, classifier, seed));
        let mut state = State {
            version: Version::FIRST,
            tables: tables.collect(),
            profiles: program
                .profiles
                .iter()
                .map(|_| ProfileState::default())
                .collect(),
            mirrors: BTreeMap::new(),
            multicast: BTreeMap::new(),
            value_sets: vec![BTreeSet::new(); program.parser.value_sets.len()],
            value_rows: vec![HashSet::new(); program.parser.uses.len()],
            cells: Cells::new(program),
            trainer: Trainer::default(),
        };
        state.add_own_entries(program)?;
        Ok(state)
    }

    /// Does a slice of index maintenance for tables.
    pub(crate) fn tend(&mut self) {
        let classifiers = self.tables.iter_mut().map(TableState::classifier_mut);
        self.trainer.tend(classifiers);
    }

    pub(crate) fn take_training(&mut self) -> Option<IndexJob<TargetOwner>> {
        self.trainer.take()
    }

    pub(crate) fn install(
        &mut self,
        index: BuiltIndex<TargetOwner>,
    ) -> Option<BuiltIndex<TargetOwner>> {
        let classifiers = self.tables.iter_mut().map(TableState::classifier_mut);
        self.trainer.install(index, classifiers)
    }

    pub(crate) fn forget_training(&mut self) {
        self.trainer
            .forget(self.tables.iter_mut().map(TableState::classifier_mut));
    }

    /// The index of a table that may choose or train one, and why.
    pub fn choice(&self, table: TableId) -> Option<AutoStatistics> {
        self.tables[table.index()].choice()
    }

    /// The version at which packets are looked up.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Number of entries in a table.
    pub fn entry_count(&self, table: TableId) -> usize {
        self.tables[table.index()].len()
    }

    /// All entries of a table, in the order of their indices.
    pub fn entries(&self, program: &Program, table: TableId) -> Vec<TableEntry> {
        let entries = self.tables[table.index()].entries();
        entries.map(|(_, entry)| entry.read(program)).collect()
    }

    /// Finds an entry of a table by its match and priority.
    ///
    /// # Errors
    /// Fails if the match does not fit the table's key.
    pub fn entry(
        &self,
        program: &Program,
        table: TableId,
        matches: &[Match],
        priority: u32,
    ) -> Result<Option<&Entry>, WriteError> {
        let state = &self.tables[table.index()];
        let index = state.find(program.table(table), matches, priority)?;
        Ok(index.map(|index| state.entry(index)))
    }

    /// The action of a table when nothing matches.
    pub fn default(&self, table: TableId) -> Option<&Bound> {
        self.tables[table.index()].default.as_ref()
    }

    /// A cell of an array of counters; `None` past the end.
    pub fn counter(&self, array: CounterId, index: u32) -> Option<Counter> {
        self.cells.counters[array.index()]
            .get(index as usize)
            .copied()
    }

    /// The rates of a cell of an array of meters; `None` if unset or past the end.
    pub fn meter(&self, array: MeterId, index: u32) -> Option<MeterRates> {
        self.cells.meters[array.index()]
            .get(index as usize)?
            .rates()
    }

    /// A cell of an array of registers; `None` past the end.
    pub fn register(&self, program: &Program, array: RegisterId, index: u32) -> Option<BigUint> {
        let words = program.arrays.registers[array.index()]
            .width_bits
            .div_ceil(64) as usize;
        let cells = &self.cells.registers[array.index()];
        let cell = cells.get(index as usize * words..(index as usize + 1) * words)?;
        BigUint::try_from(exact::unsigned(cell)).ok()
    }

    /// Where clones of a session go.
    pub fn mirror(&self, session: u16) -> Option<&Mirror> {
        self.mirrors.get(&session)
    }

    /// The copies of a multicast group.
    pub fn multicast(&self, group: u16) -> Option<&[Replica]> {
        self.multicast.get(&group).map(Vec::as_slice)
    }

    /// The members of a value set.
    pub fn values(&self, set: ValueSetId) -> impl Iterator<Item = &BigUint> {
        self.value_sets[set.index()].iter()
    }

    /// The members of an action profile, ordered by id.
    pub fn members(&self, profile: ProfileId) -> Vec<(u32, &Bound)> {
        let members = self.profiles[profile.index()].members.iter();
        let mut members: Vec<_> = members.map(|(&id, member)| (id, &member.bound)).collect();
        members.sort_unstable_by_key(|&(id, _)| id);
        members
    }

    /// The groups of an action profile, ordered by id: members and weights.
    pub fn groups(&self, profile: ProfileId) -> Vec<(u32, &[(u32, u32)])> {
        let groups = self.profiles[profile.index()].groups.iter();
        let mut groups: Vec<_> = groups.map(|(&id, group)| (id, &*group.members)).collect();
        groups.sort_unstable_by_key(|&(id, _)| id);
        groups
    }

    /// Rebuilds the rows of all uses of a value set.
    pub(crate) fn rebuild_rows(&mut self, program: &Program, set: ValueSetId) {
        for (index, one) in program.parser.uses.iter().enumerate() {
            if one.set != set {
                continue;
            }
            let members = self.value_sets[set.index()].iter();
            let rows = members.map(|member| row(member, &one.widths));
            self.value_rows[index] = rows.collect();
        }
    }
}

impl Entry {
    /// Its condition on each part of the key, in normal form.
    pub fn matches(&self) -> &[Match] {
        &self.matches
    }

    /// Its counts.
    pub fn counter(&self) -> Counter {
        self.counter
    }

    /// The rates of its meter.
    pub fn meter(&self) -> Option<MeterRates> {
        self.meter.rates()
    }

    /// When a packet last hit it; when it was written, if none has.
    pub fn last_hit(&self) -> thalweg_packet::Instant {
        self.last_hit
    }

    /// The entry in the form in which it is written.
    pub fn read(&self, program: &Program) -> TableEntry {
        let action = match &self.what {
            What::Action(bound) => EntryAction::Call(bound.call(program)),
            What::Member(member) => EntryAction::Member(*member),
            What::Group(group) => EntryAction::Group(*group),
            What::OneShot(actions, _) => {
                let calls = actions.iter();
                EntryAction::OneShot(
                    calls
                        .map(|(bound, weight)| (bound.call(program), *weight))
                        .collect(),
                )
            }
        };
        TableEntry {
            matches: self.matches.clone(),
            priority: self.priority,
            action,
            idle_timeout_ns: self.idle_timeout_ns,
        }
    }
}

/// A member of a value set as the words of a key with parts of these widths.
fn row(member: &BigUint, widths: &[u32]) -> Box<[u64]> {
    let mut rest: u32 = widths.iter().sum();
    let mut words = Vec::new();
    for &width in widths {
        rest -= width;
        let first = words.len();
        words.resize(first + width.div_ceil(64) as usize, 0);
        exact::store(&BigInt::from(member >> rest), width, &mut words[first..]);
    }
    words.into()
}
