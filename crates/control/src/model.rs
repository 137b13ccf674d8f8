//! A data plane that forwards nothing and stores all writes, for tests of sessions.
//!
//! It is the simple twin of a data plane: a map for each kind of row. It does a change on a copy
//! of everything, which replaces the original if the whole change succeeded. It also checks
//! what a session promises: it panics if an operation inserts an existing row or deletes a
//! missing one.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::change::{
    ActionCall, ActionRef, CloneSession, Count, EntryKey, EntryRef, GroupMember, Match, Operation,
    Rates, Replica,
};
use crate::p4info::Catalog;
use crate::problem::{Code, Problem};
use crate::target::{EntryState, Initial, Refusal, Side, Target};
use crate::value::Value;

/// A program's state, row by row.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rows {
    /// Entries of tables.
    pub entries: BTreeMap<(u32, EntryKey), ActionRef>,
    /// Default actions that are not the program's.
    pub defaults: BTreeMap<u32, ActionCall>,
    /// Members of action profiles.
    pub members: BTreeMap<(u32, u32), ActionCall>,
    /// Groups of action selectors.
    pub groups: BTreeMap<(u32, u32), Vec<GroupMember>>,
    /// Counters that are not zero.
    pub counters: BTreeMap<(u32, u64), Count>,
    /// Direct counters that were written.
    pub direct_counters: BTreeMap<(u32, EntryRef), Count>,
    /// Meters with rates.
    pub meters: BTreeMap<(u32, u64), Rates>,
    /// Direct meters with rates.
    pub direct_meters: BTreeMap<(u32, EntryRef), Rates>,
    /// Registers that were written.
    pub registers: BTreeMap<(u32, u64), Vec<Value>>,
    /// Multicast groups.
    pub multicast: BTreeMap<u32, Vec<Replica>>,
    /// Clone sessions.
    pub clones: BTreeMap<u32, CloneSession>,
    /// Value sets with members.
    pub value_sets: BTreeMap<u32, Vec<Vec<Match>>>,
    /// How long entries have been idle, in nanoseconds; set by tests.
    pub idle_ns: BTreeMap<(u32, EntryKey), u64>,
}

/// The data plane.
#[derive(Debug, Default)]
pub struct Model {
    running: Rows,
    saved: Option<Rows>,
    register_widths: BTreeMap<u32, usize>,
    /// Packets from the controller.
    pub injected: Vec<Vec<u8>>,
    /// The initial state of programs, for tests.
    pub initial: Initial,
    /// Maximum entries of all tables together: a limit that only the target knows.
    pub max_entries: Option<usize>,
}

impl Model {
    /// The running state, which packets would see.
    pub fn rows_mut(&mut self) -> &mut Rows {
        &mut self.running
    }

    /// The rows of one state.
    ///
    /// # Panics
    /// Panics if `side` is the saved state and there is none.
    pub fn rows(&self, side: Side) -> &Rows {
        match side {
            Side::Running => &self.running,
            Side::Saved => self.saved.as_ref().expect("a state is saved"),
        }
    }
}

impl Target for Model {
    fn verify(&self, _: &Catalog, program: &[u8]) -> Result<(), Problem> {
        if program.first() == Some(&b'{') {
            return Ok(());
        }
        Err(Problem::invalid("the program is not JSON"))
    }

    fn load(&mut self, catalog: &Catalog, program: &[u8]) -> Result<Initial, Problem> {
        self.verify(catalog, program)?;
        let registers = catalog.registers.values();
        self.register_widths = registers
            .map(|register| (register.id, register.shape.widths().len()))
            .collect();
        let mut rows = Rows::default();
        for entry in &self.initial.entries {
            let action = ActionRef::Call(entry.action.clone());
            rows.entries
                .insert((entry.table, entry.key.clone()), action);
        }
        self.saved = Some(rows);
        Ok(self.initial.clone())
    }

    fn discard(&mut self) {
        self.saved = None;
    }

    fn commit(&mut self) {
        self.running = self.saved.take().expect("a state is saved");
    }

    fn apply(&mut self, side: Side, change: &[Operation]) -> Result<(), Refusal> {
        let mut rows = self.rows(side).clone();
        for (index, operation) in change.iter().enumerate() {
            rows.perform(operation);
            if self
                .max_entries
                .is_some_and(|most| rows.entries.len() > most)
            {
                let problem = Problem::new(Code::ResourceExhausted, "the target is full");
                return Err(Refusal { index, problem });
            }
        }
        match side {
            Side::Running => self.running = rows,
            Side::Saved => self.saved = Some(rows),
        }
        Ok(())
    }

    fn counts(
        &mut self,
        side: Side,
        counter: u32,
        indices: Range<u64>,
    ) -> Result<Vec<Count>, Problem> {
        let counters = &self.rows(side).counters;
        let count = |index| counters.get(&(counter, index)).copied().unwrap_or_default();
        Ok(indices.map(count).collect())
    }

    fn registers(
        &mut self,
        side: Side,
        register: u32,
        indices: Range<u64>,
    ) -> Result<Vec<Vec<Value>>, Problem> {
        let width = self.register_widths[&register];
        let registers = &self.rows(side).registers;
        let numbers = |index| match registers.get(&(register, index)) {
            Some(numbers) => numbers.clone(),
            None => vec![Value::from(0); width],
        };
        Ok(indices.map(numbers).collect())
    }

    fn entries(
        &mut self,
        side: Side,
        table: u32,
        entries: &[EntryRef],
    ) -> Result<Vec<EntryState>, Problem> {
        let rows = self.rows(side);
        let state = |entry: &EntryRef| {
            let idle_ns = match entry {
                EntryRef::Default => 0,
                EntryRef::Entry(key) => {
                    let row = (table, key.clone());
                    assert!(
                        rows.entries.contains_key(&row),
                        "asked for {key:?}, not there"
                    );
                    rows.idle_ns.get(&row).copied().unwrap_or_default()
                }
            };
            let count = rows.direct_counters.get(&(table, entry.clone()));
            EntryState {
                count: count.copied().unwrap_or_default(),
                idle_ns,
            }
        };
        Ok(entries.iter().map(state).collect())
    }

    fn inject(&mut self, packet: &[u8]) -> Result<(), Problem> {
        self.injected.push(packet.to_vec());
        Ok(())
    }
}

impl Rows {
    /// One match, with an arm for each operation.
    fn perform(&mut self, operation: &Operation) {
        match operation.clone() {
            Operation::InsertEntry { table, key, action } => {
                self.expect_action(&action);
                let before = self.entries.insert((table, key), action);
                assert_eq!(before, None, "an entry was inserted twice");
            }
            Operation::ModifyEntry { table, key, action } => {
                self.expect_action(&action);
                let before = self.entries.insert((table, key), action);
                assert!(before.is_some(), "an entry was modified that is not there");
            }
            Operation::DeleteEntry { table, key } => {
                let reference = EntryRef::Entry(key.clone());
                self.direct_counters.remove(&(table, reference.clone()));
                self.direct_meters.remove(&(table, reference));
                let before = self.entries.remove(&(table, key));
                assert!(before.is_some(), "an entry was deleted that is not there");
            }
            Operation::SetDefault { table, action } => put(&mut self.defaults, table, action),
            Operation::SetMember {
                profile,
                member,
                action,
            } => put(&mut self.members, (profile, member), Some(action)),
            Operation::DeleteMember { profile, member } => {
                let id = member;
                let mut groups = self.groups.values().flatten();
                assert!(
                    !groups.any(|other| other.member == id),
                    "a member is in use"
                );
                let before = self.members.remove(&(profile, member));
                assert!(before.is_some(), "a member was deleted that is not there");
            }
            Operation::SetGroup {
                profile,
                group,
                members,
            } => {
                for other in &members {
                    let is_there = self.members.contains_key(&(profile, other.member));
                    assert!(is_there, "a group has a member that is not there");
                }
                put(&mut self.groups, (profile, group), Some(members));
            }
            Operation::DeleteGroup { profile, group } => {
                let before = self.groups.remove(&(profile, group));
                assert!(before.is_some(), "a group was deleted that is not there");
            }
            Operation::SetCounters {
                counter,
                indices,
                count,
            } => indices.for_each(|index| {
                self.counters.insert((counter, index), count);
            }),
            Operation::SetDirectCounter {
                table,
                entry,
                count,
            } => put(&mut self.direct_counters, (table, entry), Some(count)),
            Operation::SetMeters {
                meter,
                indices,
                rates,
            } => indices.for_each(|index| put(&mut self.meters, (meter, index), rates)),
            Operation::SetDirectMeter {
                table,
                entry,
                rates,
            } => put(&mut self.direct_meters, (table, entry), rates),
            Operation::SetRegisters {
                register,
                indices,
                numbers,
            } => indices.for_each(|index| {
                self.registers.insert((register, index), numbers.clone());
            }),
            Operation::SetMulticast { group, replicas } => {
                put(&mut self.multicast, group, replicas);
            }
            Operation::SetClone { session, clone } => put(&mut self.clones, session, clone),
            Operation::SetValueSet { set, members } => {
                let members = Some(members).filter(|members| !members.is_empty());
                put(&mut self.value_sets, set, members);
            }
        }
    }

    fn expect_action(&self, action: &ActionRef) {
        let is_there = match action {
            ActionRef::Call(_) => true,
            ActionRef::Member(id) => self.members.keys().any(|(_, member)| member == id),
            ActionRef::Group(id) => self.groups.keys().any(|(_, group)| group == id),
        };
        assert!(is_there, "{action:?} is not there");
    }
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}
