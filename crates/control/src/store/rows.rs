//! The rows of the store, and the one function that changes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::change::{ActionCall, ActionRef, EntryKey, Match};
use crate::p4info::Catalog;
use crate::proto::p4::v1 as p4;
use crate::target::Initial;

/// An entry with a time-out, as identified by the session's timers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct IdleEntry {
    pub(crate) table: u32,
    pub(crate) key: EntryKey,
}

/// All rows. A clone shares large parts until one of the two changes them.
#[derive(Clone, Default)]
pub(super) struct Rows {
    pub(super) tables: BTreeMap<u32, Arc<TableRows>>,
    pub(super) profiles: BTreeMap<u32, Arc<ProfileRows>>,
    /// The action profile of a table, if it has one.
    profile_of_entries: BTreeMap<u32, u32>,
    pub(super) meters: BTreeMap<u32, MeterRows>,
    pub(super) multicast: BTreeMap<u32, p4::MulticastGroupEntry>,
    pub(super) clones: BTreeMap<u32, p4::CloneSessionEntry>,
    pub(super) value_sets: BTreeMap<u32, Vec<Vec<Match>>>,
    pub(super) digests: BTreeMap<u32, p4::digest_entry::Config>,
    /// Entries whose time-out was set or changed, for the session's timers.
    pub(super) touched: Vec<IdleEntry>,
}

#[derive(Clone, Default)]
pub(super) struct TableRows {
    pub(super) entries: BTreeMap<EntryKey, Entry>,
    pub(super) default: DefaultEntry,
    /// The program's own default action.
    pub(super) initial_default: Option<ActionCall>,
}

/// An entry as it was written.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) action: EntryAction,
    pub(super) metadata: Bytes,
    pub(super) controller_metadata: u64,
    pub(super) idle_timeout_ns: i64,
    pub(super) meter: Option<p4::MeterConfig>,
    pub(super) is_const: bool,
}

/// An entry's action, in the form in which it was written.
#[derive(Clone, Debug)]
pub(super) enum EntryAction {
    /// An action, a member or a group.
    One(ActionRef),
    /// An action list, with the numbers of the group and members created for it.
    OneShot(Box<OneShot>),
}

#[derive(Clone, Debug)]
pub(super) struct OneShot {
    pub(super) written: p4::ActionProfileActionSet,
    pub(super) group: u32,
    pub(super) members: Vec<u32>,
}

/// A default entry as it was written.
#[derive(Clone, Default, Debug)]
pub(super) struct DefaultEntry {
    /// The action, if it differs from the program's.
    pub(super) action: Option<ActionCall>,
    pub(super) metadata: Bytes,
    pub(super) controller_metadata: u64,
    pub(super) meter: Option<p4::MeterConfig>,
}

#[derive(Clone, Default)]
pub(super) struct ProfileRows {
    pub(super) members: BTreeMap<u32, ActionCall>,
    pub(super) groups: BTreeMap<u32, Group>,
    /// Use counts: of members by groups and entries, of groups by entries.
    pub(super) member_uses: BTreeMap<u32, usize>,
    pub(super) group_uses: BTreeMap<u32, usize>,
    /// Numbers of groups and members created for one-shot lists.
    pub(super) hidden: BTreeSet<u32>,
    /// Entries with one-shot lists.
    pub(super) one_shots: usize,
    /// The last number given to a part of a one-shot list.
    pub(super) last_hidden: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) members: Vec<p4::action_profile_group::Member>,
    pub(super) max_size: i32,
}

/// The rates of an array of meters: for all cells, then for single ones.
#[derive(Clone, Default, Debug)]
pub(super) struct MeterRows {
    pub(super) all: Option<p4::MeterConfig>,
    pub(super) single: BTreeMap<u64, Option<p4::MeterConfig>>,
}

/// A state of one row: the new one, or the previous one.
pub(super) enum Undo {
    Entry(u32, EntryKey, Option<Box<Entry>>),
    Default(u32, Box<DefaultEntry>),
    Member(u32, u32, Option<ActionCall>),
    Group(u32, u32, Option<Group>),
    Meter(u32, u64, Option<Option<p4::MeterConfig>>),
    Meters(u32, MeterRows),
    Multicast(u32, Option<p4::MulticastGroupEntry>),
    Clone(u32, Option<p4::CloneSessionEntry>),
    ValueSet(u32, Vec<Vec<Match>>),
    Digest(u32, Option<p4::digest_entry::Config>),
}

impl Rows {
    pub(super) fn new(catalog: &Catalog, initial: Initial) -> Rows {
        let mut rows = Rows::default();
        for (id, table) in &catalog.tables {
            rows.tables.insert(*id, Arc::default());
            if let Some(profile) = table.profile {
                rows.profile_of_entries.insert(*id, profile);
            }
        }
        for id in catalog.profiles.keys() {
            rows.profiles.insert(*id, Arc::default());
        }
        for id in catalog.value_sets.keys() {
            rows.value_sets.insert(*id, Vec::new());
        }
        for entry in initial.entries {
            let Some(table) = rows.tables.get_mut(&entry.table) else {
                continue;
            };
            let row = Entry {
                action: EntryAction::One(ActionRef::Call(entry.action)),
                metadata: Bytes::new(),
                controller_metadata: 0,
                idle_timeout_ns: 0,
                meter: None,
                is_const: entry.is_const,
            };
            Arc::make_mut(table).entries.insert(entry.key, row);
        }
        for (id, action) in initial.defaults {
            if let Some(table) = rows.tables.get_mut(&id) {
                Arc::make_mut(table).initial_default = Some(action);
            }
        }
        rows
    }

    /// Sets the state of a row, and returns its previous state.
    pub(super) fn put(&mut self, state: Undo) -> Undo {
        match state {
            Undo::Entry(table, key, entry) => self.put_entry(table, key, entry),
            Undo::Default(table, entry) => {
                let rows = Arc::make_mut(self.tables.entry(table).or_default());
                Undo::Default(
                    table,
                    Box::new(std::mem::replace(&mut rows.default, *entry)),
                )
            }
            Undo::Member(profile, id, action) => {
                let rows = Arc::make_mut(self.profiles.entry(profile).or_default());
                Undo::Member(profile, id, put(&mut rows.members, id, action))
            }
            Undo::Group(profile, id, group) => {
                let rows = Arc::make_mut(self.profiles.entry(profile).or_default());
                for member in group.iter().flat_map(|group| &group.members) {
                    *rows.member_uses.entry(member.member_id).or_default() += 1;
                }
                let before = put(&mut rows.groups, id, group);
                for member in before.iter().flat_map(|group| &group.members) {
                    release(&mut rows.member_uses, member.member_id);
                }
                Undo::Group(profile, id, before)
            }
            Undo::Meter(meter, index, config) => {
                let rows = self.meters.entry(meter).or_default();
                Undo::Meter(meter, index, put(&mut rows.single, index, config))
            }
            Undo::Meters(meter, rows) => {
                let before = self.meters.insert(meter, rows);
                Undo::Meters(meter, before.unwrap_or_default())
            }
            Undo::Multicast(id, group) => Undo::Multicast(id, put(&mut self.multicast, id, group)),
            Undo::Clone(id, session) => Undo::Clone(id, put(&mut self.clones, id, session)),
            Undo::ValueSet(id, members) => {
                let before = self.value_sets.insert(id, members);
                Undo::ValueSet(id, before.unwrap_or_default())
            }
            Undo::Digest(id, config) => Undo::Digest(id, put(&mut self.digests, id, config)),
        }
    }

    fn put_entry(&mut self, table: u32, key: EntryKey, entry: Option<Box<Entry>>) -> Undo {
        let rows = Arc::make_mut(self.tables.entry(table).or_default());
        if entry
            .as_ref()
            .is_some_and(|entry| entry.idle_timeout_ns > 0)
        {
            self.touched.push(IdleEntry {
                table,
                key: key.clone(),
            });
        }
        let now = entry.as_ref().map(|entry| entry.action.clone());
        let before = put(&mut rows.entries, key.clone(), entry.map(|entry| *entry));
        if let Some(profile) = self.profile_of_entries.get(&table) {
            let rows = Arc::make_mut(self.profiles.entry(*profile).or_default());
            if let Some(action) = &now {
                rows.acquire(action);
            }
            if let Some(entry) = &before {
                rows.release(&entry.action);
            }
        }
        Undo::Entry(table, key, before.map(Box::new))
    }
}

impl ProfileRows {
    /// Invariant 3 of the store: counts an entry's references.
    fn acquire(&mut self, action: &EntryAction) {
        match action {
            EntryAction::One(ActionRef::Call(_)) => {}
            EntryAction::One(ActionRef::Member(id)) => {
                *self.member_uses.entry(*id).or_default() += 1;
            }
            EntryAction::One(ActionRef::Group(id)) => {
                *self.group_uses.entry(*id).or_default() += 1;
            }
            EntryAction::OneShot(list) => {
                self.one_shots += 1;
                self.hidden.insert(list.group);
                self.hidden.extend(&list.members);
            }
        }
    }

    fn release(&mut self, action: &EntryAction) {
        match action {
            EntryAction::One(ActionRef::Call(_)) => {}
            EntryAction::One(ActionRef::Member(id)) => release(&mut self.member_uses, *id),
            EntryAction::One(ActionRef::Group(id)) => release(&mut self.group_uses, *id),
            EntryAction::OneShot(list) => {
                self.one_shots -= 1;
                self.hidden.remove(&list.group);
                list.members.iter().for_each(|id| {
                    self.hidden.remove(id);
                });
            }
        }
    }

    /// A number that no part of a one-shot list has.
    pub(super) fn next_hidden(&mut self) -> u32 {
        loop {
            self.last_hidden = self.last_hidden.wrapping_add(1);
            if self.last_hidden != 0 && !self.hidden.contains(&self.last_hidden) {
                return self.last_hidden;
            }
        }
    }
}

impl MeterRows {
    /// The rates of one meter.
    pub(super) fn get(&self, index: u64) -> Option<p4::MeterConfig> {
        self.single.get(&index).copied().unwrap_or(self.all)
    }
}

fn release(uses: &mut BTreeMap<u32, usize>, id: u32) {
    if let Some(count) = uses.get_mut(&id) {
        *count -= 1;
        if *count == 0 {
            uses.remove(&id);
        }
    }
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) -> Option<V> {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    }
}
