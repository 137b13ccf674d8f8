//! Does updates, and undoes them.

use std::collections::BTreeSet;

use num_bigint::{BigInt, BigUint};
use thalweg_classifier::Version;
use thalweg_packet::Instant;

use crate::program::Program;
use crate::program::exact;
use crate::program::hash::Calculator;
use crate::program::ids::{ProfileId, TableId, ValueSetId};
use crate::program::table::Match;

use super::{
    ActionCall, BatchError, Bound, Change, Counter, Entry, EntryAction, Group, Member, Meter,
    Mirror, Mode, NewEntry, ProfileState, REPLICAS_MAX, REPLICATION_MAX, Replica, State,
    TableEntry, Update, What, WriteError,
};

/// How to undo one update.
enum Undo {
    Inserted(TableId, u32),
    Removed(TableId, u32, Box<Entry>),
    Default(TableId, Option<Bound>),
    Member(ProfileId, u32, Option<Member>),
    Group(ProfileId, u32, Option<Group>),
    Counter(usize, usize, Counter),
    EntryCounter(TableId, u32, Counter),
    Meter(usize, usize, Box<Meter>),
    EntryMeter(TableId, u32, Box<Meter>),
    Register(usize, usize, Vec<u64>),
    Values(ValueSetId, BTreeSet<BigUint>),
    Mirror(u16, Option<Mirror>),
    Multicast(u16, Option<Vec<Replica>>),
    Calculator(usize, Box<Calculator>),
}

/// A batch in progress.
struct Batch<'a> {
    state: &'a mut State,
    program: &'a Program,
    version: Version,
    now: Instant,
    /// Whether it writes the program's own entries.
    is_own: bool,
    undo: Vec<Undo>,
}

impl State {
    /// Does all updates of a batch, in order, or none of them.
    ///
    /// # Errors
    /// Returns the first update that fails, and why; nothing has changed then.
    pub fn write(
        &mut self,
        program: &Program,
        updates: &[Update],
        now: Instant,
    ) -> Result<(), BatchError> {
        self.write_as(program, updates, now, false).map(drop)
    }

    /// Does a batch, and returns the changes that affect lookups.
    pub(crate) fn write_noting(
        &mut self,
        program: &Program,
        updates: &[Update],
        now: Instant,
    ) -> Result<Vec<Change>, BatchError> {
        self.write_as(program, updates, now, false)
    }

    fn write_as(
        &mut self,
        program: &Program,
        updates: &[Update],
        now: Instant,
        is_own: bool,
    ) -> Result<Vec<Change>, BatchError> {
        let version = self.version.next();
        let mut batch = Batch {
            state: self,
            program,
            version,
            now,
            is_own,
            undo: Vec::new(),
        };
        for (index, update) in updates.iter().enumerate() {
            if let Err(error) = batch.apply(update) {
                batch.roll_back();
                return Err(BatchError { index, error });
            }
        }
        Ok(batch.commit())
    }

    /// Adds the program's own entries and defaults.
    pub(super) fn add_own_entries(&mut self, program: &Program) -> Result<(), WriteError> {
        let mut updates = Vec::new();
        for (index, table) in program.tables.iter().enumerate() {
            let id = TableId(index as u32);
            updates.push(Update::SetDefault(id, None));
            for entry in &table.entries {
                let action = EntryAction::Call(ActionCall {
                    action: entry.action,
                    data: entry.data.clone(),
                });
                updates.push(Update::InsertEntry(
                    id,
                    TableEntry {
                        matches: entry.matches.clone(),
                        priority: if table.has_priorities {
                            entry.priority
                        } else {
                            0
                        },
                        action,
                        idle_timeout_ns: 0,
                    },
                ));
            }
        }
        let outcome = self.write_as(program, &updates, Instant::ZERO, true);
        outcome.map(drop).map_err(|failed| failed.error)
    }
}

impl Batch<'_> {
    // One match, with an arm for each kind of update.
    fn apply(&mut self, update: &Update) -> Result<(), WriteError> {
        match update {
            Update::InsertEntry(table, entry) => self.insert_entry(*table, entry),
            Update::ModifyEntry(table, entry) => self.modify_entry(*table, entry),
            Update::DeleteEntry(table, matches, priority) => {
                self.check_mutable(*table)?;
                let index = self.find_entry(*table, matches, *priority)?;
                self.remove_entry(*table, index);
                Ok(())
            }
            Update::ClearTable(table) => {
                self.check_mutable(*table)?;
                let entries = self.state.tables[table.index()].entries();
                let all: Vec<u32> = entries.map(|(index, _)| index).collect();
                for index in all {
                    self.remove_entry(*table, index);
                }
                Ok(())
            }
            Update::SetDefault(table, call) => self.set_default(*table, call.as_ref()),
            Update::Member(mode, profile, id, call) => {
                self.write_member(*mode, *profile, *id, call.as_ref())
            }
            Update::Group(mode, profile, id, members) => {
                self.write_group(*mode, *profile, *id, members)
            }
            Update::SetCounter(array, index, counter) => {
                let cells = &mut self.state.cells.counters[array.index()];
                let name = &self.program.arrays.counters[array.index()].name;
                let size = cells.len();
                let cell = cells.get_mut(*index as usize);
                let cell = cell.ok_or_else(|| past_the_end(name, *index, size))?;
                let before = std::mem::replace(cell, *counter);
                self.undo
                    .push(Undo::Counter(array.index(), *index as usize, before));
                Ok(())
            }
            Update::SetEntryCounter(table, matches, priority, counter) => {
                let index = self.find_entry(*table, matches, *priority)?;
                if !self.program.table(*table).has_counters {
                    return Err(has_no(self.program, *table, "counters"));
                }
                let entry = self.state.tables[table.index()].entry_mut(index);
                let before = std::mem::replace(&mut entry.counter, *counter);
                self.undo.push(Undo::EntryCounter(*table, index, before));
                Ok(())
            }
            Update::SetMeter(array, index, rates) => {
                let cells = &mut self.state.cells.meters[array.index()];
                let name = &self.program.arrays.meters[array.index()].name;
                let size = cells.len();
                let cell = cells.get_mut(*index as usize);
                let cell = cell.ok_or_else(|| past_the_end(name, *index, size))?;
                let before = *cell;
                cell.configure(*rates);
                self.undo.push(Undo::Meter(
                    array.index(),
                    *index as usize,
                    Box::new(before),
                ));
                Ok(())
            }
            Update::SetEntryMeter(table, matches, priority, rates) => {
                let index = self.find_entry(*table, matches, *priority)?;
                if self.program.table(*table).meter.is_none() {
                    return Err(has_no(self.program, *table, "meters"));
                }
                let entry = self.state.tables[table.index()].entry_mut(index);
                let before = entry.meter;
                entry.meter.configure(*rates);
                self.undo
                    .push(Undo::EntryMeter(*table, index, Box::new(before)));
                Ok(())
            }
            Update::SetRegister(array, index, value) => {
                let shape = &self.program.arrays.registers[array.index()];
                if *index >= shape.size {
                    return Err(past_the_end(&shape.name, *index, shape.size as usize));
                }
                if value.bits() > u64::from(shape.width_bits) {
                    return Err(WriteError::OutOfRange(format!(
                        "{value} does not fit into the {} bits of {}",
                        shape.width_bits, shape.name
                    )));
                }
                let words = shape.width_bits.div_ceil(64) as usize;
                let first = *index as usize * words;
                let cells = &mut self.state.cells.registers[array.index()];
                let cell = &mut cells[first..first + words];
                self.undo
                    .push(Undo::Register(array.index(), first, cell.to_vec()));
                exact::store(&BigInt::from(value.clone()), shape.width_bits, cell);
                Ok(())
            }
            Update::SetValues(set, values) => self.set_values(*set, values),
            Update::Mirror(mode, session, mirror) => self.write_mirror(*mode, *session, mirror),
            Update::Multicast(mode, group, replicas) => {
                self.write_multicast(*mode, *group, replicas)
            }
            Update::SetCrc(calculation, parameters) => {
                let calculator = &mut self.state.cells.calculators[calculation.index()];
                let before = Box::new(calculator.clone());
                if !calculator.set_crc(*parameters) {
                    let name = &self.program.calculations.calculations[calculation.index()].name;
                    return Err(WriteError::InvalidArgument(format!(
                        "{name} is no CRC with parameters of its own"
                    )));
                }
                self.undo
                    .push(Undo::Calculator(calculation.index(), before));
                Ok(())
            }
        }
    }

    fn check_mutable(&self, table: TableId) -> Result<(), WriteError> {
        let shape = self.program.table(table);
        match shape.is_constant && !self.is_own {
            true => Err(WriteError::PermissionDenied(format!(
                "the entries of {} are the program's",
                shape.name
            ))),
            false => Ok(()),
        }
    }

    fn find_entry(
        &self,
        table: TableId,
        matches: &[Match],
        priority: u32,
    ) -> Result<u32, WriteError> {
        let shape = self.program.table(table);
        let found = self.state.tables[table.index()].find(shape, matches, priority)?;
        found.ok_or_else(|| {
            WriteError::NotFound(format!(
                "entry of {} with this match and priority",
                shape.name
            ))
        })
    }

    fn insert_entry(&mut self, table: TableId, entry: &TableEntry) -> Result<(), WriteError> {
        self.check_mutable(table)?;
        let shape = self.program.table(table);
        if shape.key.is_empty() {
            return Err(WriteError::InvalidArgument(format!(
                "{} has no key, so it has no entries but its default",
                shape.name
            )));
        }
        if !shape.has_priorities && entry.priority != 0 {
            return Err(WriteError::InvalidArgument(format!(
                "entries of {} have no priorities; leave it at 0",
                shape.name
            )));
        }
        if entry.idle_timeout_ns > 0 && !shape.has_timeouts {
            return Err(has_no(self.program, table, "idle timeouts"));
        }
        let state = &self.state.tables[table.index()];
        if state.find(shape, &entry.matches, entry.priority)?.is_some() {
            let what = format!("an entry of {} with this match and priority", shape.name);
            return Err(WriteError::AlreadyExists(what));
        }
        if state.len() >= shape.max_size as usize {
            return Err(WriteError::ResourceExhausted(format!(
                "{} has {} entries and no room for more",
                shape.name, shape.max_size
            )));
        }
        let new = NewEntry {
            matches: entry.matches.clone(),
            priority: entry.priority,
            what: self.bind(table, &entry.action)?,
            counter: Counter::default(),
            meter: Meter::default(),
            idle_timeout_ns: entry.idle_timeout_ns,
            last_hit: self.now,
            age: None,
        };
        self.add_entry(table, new)
    }

    fn add_entry(&mut self, table: TableId, new: NewEntry) -> Result<(), WriteError> {
        let shape = self.program.table(table);
        let what = new.what.clone();
        let state = &mut self.state.tables[table.index()];
        let index = state.insert(shape, new, self.version)?;
        self.use_what(table, &what, 1);
        self.undo.push(Undo::Inserted(table, index));
        Ok(())
    }

    fn remove_entry(&mut self, table: TableId, index: u32) {
        let entry = self.state.tables[table.index()].remove(index, self.version);
        self.use_what(table, &entry.what, -1);
        self.undo.push(Undo::Removed(table, index, Box::new(entry)));
    }

    /// Removes and inserts the entry again: an action in use must not change under a reader.
    fn modify_entry(&mut self, table: TableId, entry: &TableEntry) -> Result<(), WriteError> {
        self.check_mutable(table)?;
        let index = self.find_entry(table, &entry.matches, entry.priority)?;
        if entry.idle_timeout_ns > 0 && !self.program.table(table).has_timeouts {
            return Err(has_no(self.program, table, "idle timeouts"));
        }
        let what = self.bind(table, &entry.action)?;
        self.remove_entry(table, index);
        let Some(Undo::Removed(_, _, before)) = self.undo.last() else {
            unreachable!("it was just removed");
        };
        let new = NewEntry {
            matches: before.matches.clone(),
            priority: before.priority,
            what,
            counter: before.counter,
            meter: before.meter,
            idle_timeout_ns: entry.idle_timeout_ns,
            last_hit: before.last_hit,
            // Among entries of its priority it keeps its age.
            age: Some(before.age),
        };
        self.add_entry(table, new)
    }

    /// Checks an entry's action.
    fn bind(&self, table: TableId, action: &EntryAction) -> Result<What, WriteError> {
        let shape = self.program.table(table);
        let bind = |call: &ActionCall| {
            if shape.action_index(call.action).is_none() {
                return Err(WriteError::InvalidArgument(format!(
                    "{} is no action of {}",
                    self.program.action(call.action).name,
                    shape.name
                )));
            }
            Bound::new(self.program, call)
        };
        let missing = |what: &str, id: u32| Err(WriteError::NotFound(format!("{what} {id}")));
        match (action, shape.profile) {
            (EntryAction::Call(call), None) => Ok(What::Action(bind(call)?)),
            (EntryAction::Member(id), Some(profile)) => {
                match self.state.profiles[profile.index()]
                    .members
                    .contains_key(id)
                {
                    true => Ok(What::Member(*id)),
                    false => missing("member", *id),
                }
            }
            (EntryAction::Group(id), Some(profile)) => {
                match self.state.profiles[profile.index()].groups.contains_key(id) {
                    true => Ok(What::Group(*id)),
                    false => missing("group", *id),
                }
            }
            (EntryAction::OneShot(calls), Some(profile)) => {
                if self.program.profiles[profile.index()].selector.is_none() {
                    return Err(WriteError::InvalidArgument(format!(
                        "the action profile of {} has no selector",
                        shape.name
                    )));
                }
                let weights: Vec<(u32, u32)> = (0..).zip(calls.iter().map(|call| call.1)).collect();
                let choices = ProfileState::choices(&weights)?;
                let mut actions = Vec::new();
                for (call, weight) in calls {
                    actions.push((bind(call)?, *weight));
                }
                Ok(What::OneShot(actions, choices))
            }
            (_, None) => Err(WriteError::InvalidArgument(format!(
                "{} has no action profile; give an action",
                shape.name
            ))),
            (EntryAction::Call(_), Some(_)) => Err(WriteError::InvalidArgument(format!(
                "{} has an action profile; give a member or a group",
                shape.name
            ))),
        }
    }

    fn use_what(&mut self, table: TableId, what: &What, change: i32) {
        let Some(profile) = self.program.table(table).profile else {
            return;
        };
        let state = &mut self.state.profiles[profile.index()];
        let uses = match what {
            What::Member(id) => state.members.get_mut(id).map(|member| &mut member.uses),
            What::Group(id) => state.groups.get_mut(id).map(|group| &mut group.uses),
            What::Action(_) | What::OneShot(..) => None,
        };
        if let Some(uses) = uses {
            *uses = uses.wrapping_add_signed(change);
        }
    }

    fn set_default(&mut self, table: TableId, call: Option<&ActionCall>) -> Result<(), WriteError> {
        let shape = self.program.table(table);
        if let Some(own) = &shape.default
            && !self.is_own
        {
            // A value that the program itself gives may always be written again.
            let is_allowed = call.is_none_or(|call| {
                let same_action = call.action == own.action;
                !own.is_action_constant || same_action && !own.is_entry_constant
            });
            if !is_allowed {
                let what = format!("the default action of {} is constant", shape.name);
                return Err(WriteError::PermissionDenied(what));
            }
        }
        let own = shape.default.as_ref().map(|own| ActionCall {
            action: own.action,
            data: own.data.clone(),
        });
        let bound = match call.or(own.as_ref()) {
            Some(call) if shape.action_index(call.action).is_none() => {
                return Err(WriteError::InvalidArgument(format!(
                    "{} is no action of {}",
                    self.program.action(call.action).name,
                    shape.name
                )));
            }
            Some(call) => Some(Bound::new(self.program, call)?),
            None => None,
        };
        let state = &mut self.state.tables[table.index()];
        let before = std::mem::replace(&mut state.default, bound);
        self.undo.push(Undo::Default(table, before));
        Ok(())
    }

    fn write_member(
        &mut self,
        mode: Mode,
        profile: ProfileId,
        id: u32,
        call: Option<&ActionCall>,
    ) -> Result<(), WriteError> {
        let shape = &self.program.profiles[profile.index()];
        let state = &self.state.profiles[profile.index()];
        let before = state.members.get(&id);
        check_mode(mode, before.is_some(), || {
            format!("member {id} of {}", shape.name)
        })?;
        let uses = before.map_or(0, |member| member.uses);
        if mode == Mode::Delete && uses > 0 {
            let what = format!("member {id} of {} is in use", shape.name);
            return Err(WriteError::FailedPrecondition(what));
        }
        if before.is_none() && state.members.len() >= shape.max_size as usize {
            return Err(WriteError::ResourceExhausted(format!(
                "{} has {} members and no room for more",
                shape.name, shape.max_size
            )));
        }
        let after = match (mode, call) {
            (Mode::Delete, _) => None,
            (_, Some(call)) if shape.actions.contains(&call.action) => Some(Member {
                bound: Bound::new(self.program, call)?,
                uses,
            }),
            _ => {
                let what = format!("a member of {} needs an action of its tables", shape.name);
                return Err(WriteError::InvalidArgument(what));
            }
        };
        let members = &mut self.state.profiles[profile.index()].members;
        let before = match after {
            Some(member) => members.insert(id, member),
            None => members.remove(&id),
        };
        self.undo.push(Undo::Member(profile, id, before));
        Ok(())
    }

    fn write_group(
        &mut self,
        mode: Mode,
        profile: ProfileId,
        id: u32,
        members: &[(u32, u32)],
    ) -> Result<(), WriteError> {
        let shape = &self.program.profiles[profile.index()];
        if shape.selector.is_none() {
            let what = format!("{} has no selector, so it has no groups", shape.name);
            return Err(WriteError::InvalidArgument(what));
        }
        let state = &self.state.profiles[profile.index()];
        let before = state.groups.get(&id).cloned();
        check_mode(mode, before.is_some(), || {
            format!("group {id} of {}", shape.name)
        })?;
        let uses = before.as_ref().map_or(0, |group| group.uses);
        if mode == Mode::Delete && uses > 0 {
            let what = format!("group {id} of {} is in use", shape.name);
            return Err(WriteError::FailedPrecondition(what));
        }
        if before.is_none() && state.groups.len() >= shape.max_size as usize {
            return Err(WriteError::ResourceExhausted(format!(
                "{} has {} groups and no room for more",
                shape.name, shape.max_size
            )));
        }
        let mut seen = BTreeSet::new();
        for &(member, _) in members {
            if !state.members.contains_key(&member) {
                let what = format!("member {member} of {}", shape.name);
                return Err(WriteError::NotFound(what));
            }
            if !seen.insert(member) {
                let what = format!("member {member} is in the group twice; give it a weight");
                return Err(WriteError::InvalidArgument(what));
            }
        }
        let after = match mode {
            Mode::Delete => None,
            _ => Some(Group {
                choices: ProfileState::choices(members)?,
                members: members.to_vec(),
                uses,
            }),
        };
        self.replace_group(profile, id, after);
        self.undo.push(Undo::Group(profile, id, before));
        Ok(())
    }

    /// Replaces a group, and updates the use counts of members.
    fn replace_group(&mut self, profile: ProfileId, id: u32, after: Option<Group>) {
        let state = &mut self.state.profiles[profile.index()];
        for (member, _) in after.iter().flat_map(|group| &group.members) {
            if let Some(member) = state.members.get_mut(member) {
                member.uses += 1;
            }
        }
        let before = match after {
            Some(group) => state.groups.insert(id, group),
            None => state.groups.remove(&id),
        };
        for (member, _) in before.iter().flat_map(|group| &group.members) {
            if let Some(member) = state.members.get_mut(member) {
                member.uses -= 1;
            }
        }
    }

    fn set_values(&mut self, set: ValueSetId, values: &[BigUint]) -> Result<(), WriteError> {
        let shape = &self.program.parser.value_sets[set.index()];
        let new: BTreeSet<BigUint> = values.iter().cloned().collect();
        if let Some(size) = shape.max_size
            && new.len() > size as usize
        {
            let what = format!("{} has room for {size} members", shape.name);
            return Err(WriteError::ResourceExhausted(what));
        }
        if new
            .iter()
            .any(|value| value.bits() > u64::from(shape.width_bits))
        {
            let what = format!("a member of {} has {} bits", shape.name, shape.width_bits);
            return Err(WriteError::OutOfRange(what));
        }
        let before = std::mem::replace(&mut self.state.value_sets[set.index()], new);
        self.state.rebuild_rows(self.program, set);
        self.undo.push(Undo::Values(set, before));
        Ok(())
    }

    fn write_mirror(
        &mut self,
        mode: Mode,
        session: u16,
        mirror: &Mirror,
    ) -> Result<(), WriteError> {
        if session > 0x7fff {
            let what = "a mirror session has a number from 0 to 32767".to_owned();
            return Err(WriteError::OutOfRange(what));
        }
        check_ports(self.program, &mirror.replicas)?;
        let mirrors = &mut self.state.mirrors;
        let is_there = mirrors.contains_key(&session);
        check_mode(mode, is_there, || format!("mirror session {session}"))?;
        check_room(mirrors.len(), mirror.replicas.len(), is_there)?;
        let before = match mode {
            Mode::Delete => mirrors.remove(&session),
            _ => mirrors.insert(session, mirror.clone()),
        };
        self.undo.push(Undo::Mirror(session, before));
        Ok(())
    }

    fn write_multicast(
        &mut self,
        mode: Mode,
        group: u16,
        replicas: &[Replica],
    ) -> Result<(), WriteError> {
        if group == 0 {
            let what = "a multicast group has a number from 1 on; 0 means none".to_owned();
            return Err(WriteError::InvalidArgument(what));
        }
        check_ports(self.program, replicas)?;
        let groups = &mut self.state.multicast;
        let is_there = groups.contains_key(&group);
        check_mode(mode, is_there, || format!("multicast group {group}"))?;
        check_room(groups.len(), replicas.len(), is_there)?;
        let before = match mode {
            Mode::Delete => groups.remove(&group),
            _ => groups.insert(group, replicas.to_vec()),
        };
        self.undo.push(Undo::Multicast(group, before));
        Ok(())
    }

    fn commit(self) -> Vec<Change> {
        let Batch {
            state,
            version,
            undo,
            ..
        } = self;
        state.version = version;
        let mut touched = BTreeSet::new();
        let mut changes = Vec::new();
        for undo in undo {
            changes.push(match undo {
                Undo::Removed(table, index, _) => {
                    state.tables[table.index()].release(index);
                    touched.insert(table);
                    Change::Removed(table, index)
                }
                Undo::Inserted(table, index) => {
                    touched.insert(table);
                    Change::Inserted(table, index)
                }
                Undo::Default(table, before) => {
                    if before == state.tables[table.index()].default {
                        continue;
                    }
                    Change::Default(table)
                }
                Undo::Member(profile, id, _) => Change::Member(profile, id),
                Undo::Group(profile, id, _) => Change::Group(profile, id),
                Undo::Calculator(..) => Change::Calculation,
                Undo::Counter(..)
                | Undo::EntryCounter(..)
                | Undo::Meter(..)
                | Undo::EntryMeter(..)
                | Undo::Register(..)
                | Undo::Values(..)
                | Undo::Mirror(..)
                | Undo::Multicast(..) => continue,
            });
        }
        for table in touched {
            state.tables[table.index()].reclaim(version);
        }
        changes
    }

    fn roll_back(mut self) {
        let mut touched = BTreeSet::new();
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Inserted(table, index) => {
                    let what = self.state.tables[table.index()].entry(index).what.clone();
                    self.use_what(table, &what, -1);
                    self.state.tables[table.index()].forget_inserted(index);
                    touched.insert(table);
                }
                Undo::Removed(table, index, entry) => {
                    self.use_what(table, &entry.what, 1);
                    self.state.tables[table.index()].put_back(index, *entry);
                    touched.insert(table);
                }
                Undo::Default(table, before) => self.state.tables[table.index()].default = before,
                Undo::Member(profile, id, before) => {
                    let members = &mut self.state.profiles[profile.index()].members;
                    match before {
                        Some(member) => members.insert(id, member),
                        None => members.remove(&id),
                    };
                }
                Undo::Group(profile, id, before) => self.replace_group(profile, id, before),
                Undo::Counter(array, index, before) => {
                    self.state.cells.counters[array][index] = before;
                }
                Undo::EntryCounter(table, index, before) => {
                    self.state.tables[table.index()].entry_mut(index).counter = before;
                }
                Undo::Meter(array, index, before) => {
                    self.state.cells.meters[array][index] = *before;
                }
                Undo::EntryMeter(table, index, before) => {
                    self.state.tables[table.index()].entry_mut(index).meter = *before;
                }
                Undo::Register(array, first, before) => {
                    let cells = &mut self.state.cells.registers[array];
                    cells[first..first + before.len()].copy_from_slice(&before);
                }
                Undo::Values(set, before) => {
                    self.state.value_sets[set.index()] = before;
                    self.state.rebuild_rows(self.program, set);
                }
                Undo::Mirror(session, before) => {
                    match before {
                        Some(mirror) => self.state.mirrors.insert(session, mirror),
                        None => self.state.mirrors.remove(&session),
                    };
                }
                Undo::Multicast(group, before) => {
                    match before {
                        Some(replicas) => self.state.multicast.insert(group, replicas),
                        None => self.state.multicast.remove(&group),
                    };
                }
                Undo::Calculator(index, before) => self.state.cells.calculators[index] = *before,
            }
        }
        for table in touched {
            self.state.tables[table.index()].abort(self.version);
        }
    }
}

fn check_mode(mode: Mode, is_there: bool, what: impl Fn() -> String) -> Result<(), WriteError> {
    match (mode, is_there) {
        (Mode::Insert, true) => Err(WriteError::AlreadyExists(what())),
        (Mode::Modify | Mode::Delete, false) => Err(WriteError::NotFound(what())),
        _ => Ok(()),
    }
}

/// A port that does not fit into the program's fields would be another port for it.
fn check_ports(program: &Program, replicas: &[Replica]) -> Result<(), WriteError> {
    let most = program.standard.port_max();
    let mut ports = replicas.iter().map(|replica| replica.port);
    match ports.find(|port| u64::from(*port) > most) {
        None => Ok(()),
        Some(port) => Err(WriteError::OutOfRange(format!(
            "port {port} does not fit the program, whose ports are 0 to {most}"
        ))),
    }
}

fn check_room(count: usize, replicas: usize, is_there: bool) -> Result<(), WriteError> {
    if replicas > REPLICAS_MAX {
        let what = format!("more than {REPLICAS_MAX} copies of a packet");
        return Err(WriteError::ResourceExhausted(what));
    }
    if !is_there && count >= REPLICATION_MAX {
        let what = format!("there are {REPLICATION_MAX} already");
        return Err(WriteError::ResourceExhausted(what));
    }
    Ok(())
}

fn past_the_end(name: &str, index: u32, size: usize) -> WriteError {
    WriteError::OutOfRange(format!(
        "{name} has {size} cells, and none of index {index}"
    ))
}

fn has_no(program: &Program, table: TableId, what: &str) -> WriteError {
    let name = &program.table(table).name;
    WriteError::InvalidArgument(format!("entries of {name} have no {what}"))
}
