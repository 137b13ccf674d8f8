//! Reads entities: each entity of a request is a filter.
//!
//! A zero number, or an index, key or match that is not set, matches everything. Values that
//! packets change come from the target, for all rows of a table at once.

use super::action::message_of;
use super::arrays::{indices, no_colour_counts};
use super::entry::{no_counter, no_meter, table_of};
use super::matching::{key_of, messages_of};
use super::page::{Page, Place};
use super::rows::{DefaultEntry, Entry, EntryAction};
use super::values::{Live, Values};
use super::{Result, Store, unknown};
use crate::change::{ActionRef, Count, EntryKey, EntryRef};
use crate::p4info::{Counter, Table};
use crate::problem::Problem;
use crate::proto::p4::v1 as p4;
use crate::proto::p4::v1::entity::Entity as Kind;
use crate::proto::p4::v1::packet_replication_engine_entry::Type as Replication;
use crate::proto::p4::v1::table_action::Type as ActionKind;
use crate::target::EntryState;

/// A store, the values that packets change, and the page to read.
pub(super) struct Reader<'a> {
    pub(super) store: &'a Store,
    pub(super) values: &'a mut dyn Values,
    pub(super) page: Page,
}

impl Store {
    /// Reads all requests at once.
    ///
    /// # Errors
    /// Returns the first problem of a request that names something unknown.
    pub(crate) fn read_all(
        &self,
        mut values: Live<'_>,
        requests: impl IntoIterator<Item = Kind>,
    ) -> Result<Vec<p4::Entity>> {
        let mut found = Vec::new();
        for request in requests {
            let mut reader = Reader {
                store: self,
                values: &mut values,
                page: Page::new(Place::default(), usize::MAX),
            };
            reader.read(&entity(request), &mut found)?;
        }
        Ok(found)
    }
}

impl<'s> Reader<'s> {
    /// Appends the entities that one request matches.
    ///
    /// # Errors
    /// Fails if the request names something unknown; then it appends nothing.
    pub(super) fn read(&mut self, request: &p4::Entity, found: &mut Vec<p4::Entity>) -> Result<()> {
        let Some(request) = &request.entity else {
            return Err(Problem::invalid(
                "the entity is not set; ask for each kind of entity by itself",
            ));
        };
        match request {
            Kind::TableEntry(filter) => self.table_entries(filter, found),
            Kind::DirectCounterEntry(filter) => self.direct_counters(filter, found),
            Kind::DirectMeterEntry(filter) => self.direct_meters(filter, found),
            Kind::CounterEntry(filter) => self.counters(filter, found),
            Kind::MeterEntry(filter) => self.meters(filter, found),
            Kind::RegisterEntry(filter) => self.registers(filter, found),
            Kind::ActionProfileMember(filter) => self.members(filter, found),
            Kind::ActionProfileGroup(filter) => self.groups(filter, found),
            Kind::PacketReplicationEngineEntry(filter) => self.replications(filter, found),
            Kind::ValueSetEntry(filter) => self.value_sets(filter, found),
            Kind::DigestEntry(filter) => self.digests(filter, found),
            // v1model has no extern types, so a read of all of them finds none.
            Kind::ExternEntry(filter) if filter.extern_type_id == 0 => Ok(()),
            Kind::ExternEntry(filter) => Err(unknown("extern type", filter.extern_type_id)),
        }
    }

    fn table_entries(
        &mut self,
        filter: &p4::TableEntry,
        found: &mut Vec<p4::Entity>,
    ) -> Result<()> {
        no_colour_counts(filter.meter_counter_data.is_some())?;
        let catalog = self.store.catalog().clone();
        if filter.table_id == 0 {
            for table in catalog.tables.values() {
                self.entries_of(table, filter, true, found)?;
            }
            return Ok(());
        }
        let table = table_of(&catalog, filter.table_id)?;
        let at = |problem: Problem| problem.at(format!("table `{}`", table.name));
        if filter.time_since_last_hit.is_some() && !table.has_idle_timeout {
            return Err(at(Problem::invalid("it has no idle time-outs")));
        }
        self.entries_of(table, filter, false, found).map_err(at)
    }

    /// The entries of one table.
    ///
    /// In a read of all tables, resources that a table lacks are omitted.
    fn entries_of(
        &mut self,
        table: &Table,
        filter: &p4::TableEntry,
        is_one_of_all: bool,
        found: &mut Vec<p4::Entity>,
    ) -> Result<()> {
        if !is_one_of_all {
            if filter.counter_data.is_some() && table.direct_counter.is_none() {
                return Err(no_counter(table));
            }
            if filter.meter_config.is_some() && table.direct_meter.is_none() {
                return Err(no_meter(table));
            }
        }
        let wants_state = (filter.counter_data.is_some() && table.direct_counter.is_some())
            || (filter.time_since_last_hit.is_some() && table.has_idle_timeout);
        let mut messages = Vec::new();
        let mut references = Vec::new();
        if filter.is_default_action {
            let message = self.default_message(table);
            messages.push(message);
            references.push(EntryRef::Default);
        } else {
            for (key, row) in self.chosen(table, filter)? {
                messages.push(self.entry_message(table, key, row));
                references.push(EntryRef::Entry(key.clone()));
            }
        }
        let states = if wants_state && !references.is_empty() {
            self.values.entries(table.id, &references)?
        } else {
            vec![EntryState::default(); references.len()]
        };
        for ((mut message, reference), state) in messages.into_iter().zip(references).zip(states) {
            if let (Some(_), Some(id)) = (&filter.counter_data, table.direct_counter) {
                let counter = &self.store.catalog().direct_counters[&id];
                message.counter_data = Some(data_of(counter, state.count));
            }
            if filter.meter_config.is_some() && table.direct_meter.is_some() {
                message.meter_config = self.meter_of(table, &reference);
            }
            let is_entry = matches!(reference, EntryRef::Entry(_));
            if filter.time_since_last_hit.is_some() && table.has_idle_timeout && is_entry {
                let elapsed_ns = i64::try_from(state.idle_ns).unwrap_or(i64::MAX);
                message.time_since_last_hit = Some(p4::table_entry::IdleTimeout { elapsed_ns });
            }
            found.push(entity(Kind::TableEntry(message)));
        }
        Ok(())
    }

    /// The entries that match a filter.
    fn chosen(
        &mut self,
        table: &Table,
        filter: &p4::TableEntry,
    ) -> Result<Vec<(&'s EntryKey, &'s Entry)>> {
        let store = self.store;
        let rows = &store.rows.tables[&table.id].entries;
        let is_wanted = |row: &Entry| {
            let action = match filter
                .action
                .as_ref()
                .and_then(|action| action.r#type.as_ref())
            {
                Some(ActionKind::Action(action)) => Some(action.action_id),
                _ => None,
            };
            let has_action = match (&row.action, action) {
                (_, None) => true,
                (EntryAction::One(ActionRef::Call(call)), Some(id)) => call.action == id,
                _ => false,
            };
            has_action
                && (filter.metadata.is_empty() || filter.metadata == row.metadata)
                && has_controller_metadata(filter, row.controller_metadata)
        };
        if filter.r#match.is_empty() {
            let rows = self.page.keyed(table.id, rows);
            let rows = rows.into_iter().filter(|(key, row)| {
                (filter.priority == 0 || filter.priority == key.priority) && is_wanted(row)
            });
            return Ok(rows.collect());
        }
        let key = key_of(table, filter)?;
        let row = rows.get_key_value(&key);
        Ok(row.into_iter().filter(|(_, row)| is_wanted(row)).collect())
    }

    #[allow(deprecated)]
    fn entry_message(&self, table: &Table, key: &EntryKey, row: &Entry) -> p4::TableEntry {
        p4::TableEntry {
            table_id: table.id,
            r#match: messages_of(&table.fields, &key.matches),
            action: Some(p4::TableAction {
                r#type: Some(self.action_message(&row.action)),
            }),
            priority: key.priority,
            metadata: row.metadata.clone(),
            controller_metadata: row.controller_metadata,
            idle_timeout_ns: row.idle_timeout_ns,
            is_const: row.is_const,
            ..p4::TableEntry::default()
        }
    }

    fn action_message(&self, action: &EntryAction) -> ActionKind {
        match action {
            EntryAction::One(ActionRef::Call(call)) => {
                ActionKind::Action(message_of(self.store.catalog(), call))
            }
            EntryAction::One(ActionRef::Member(id)) => ActionKind::ActionProfileMemberId(*id),
            EntryAction::One(ActionRef::Group(id)) => ActionKind::ActionProfileGroupId(*id),
            EntryAction::OneShot(list) => ActionKind::ActionProfileActionSet(list.written.clone()),
        }
    }

    #[allow(deprecated)]
    fn default_message(&self, table: &Table) -> p4::TableEntry {
        let rows = &self.store.rows.tables[&table.id];
        let DefaultEntry {
            action,
            metadata,
            controller_metadata,
            ..
        } = &rows.default;
        let action = action.as_ref().or(rows.initial_default.as_ref());
        p4::TableEntry {
            table_id: table.id,
            is_default_action: true,
            action: action.map(|call| p4::TableAction {
                r#type: Some(ActionKind::Action(message_of(self.store.catalog(), call))),
            }),
            metadata: metadata.clone(),
            controller_metadata: *controller_metadata,
            is_const: table.has_const_default,
            ..p4::TableEntry::default()
        }
    }

    fn meter_of(&self, table: &Table, entry: &EntryRef) -> Option<p4::MeterConfig> {
        let rows = &self.store.rows.tables[&table.id];
        match entry {
            EntryRef::Default => rows.default.meter,
            EntryRef::Entry(key) => rows.entries.get(key)?.meter,
        }
    }

    /// The entries whose direct resource is requested.
    ///
    /// These are one entry, all of a table, or all of every table with such a resource.
    fn direct(
        &mut self,
        filter: Option<&p4::TableEntry>,
        has_one: impl Fn(&Table) -> bool,
        none: impl Fn(&Table) -> Problem,
    ) -> Result<Vec<(Table, Vec<EntryRef>)>> {
        let store = self.store;
        let catalog = store.catalog();
        let page = &mut self.page;
        let mut all_of = |table: &Table| {
            let rows = page.keyed(table.id, &store.rows.tables[&table.id].entries);
            let keys = rows.into_iter().map(|(key, _)| key.clone());
            (table.clone(), keys.map(EntryRef::Entry).collect())
        };
        let Some(filter) = filter.filter(|filter| filter.table_id != 0) else {
            let tables = catalog.tables.values().filter(|table| has_one(table));
            return Ok(tables.map(all_of).collect());
        };
        let table = table_of(catalog, filter.table_id)?;
        if !has_one(table) {
            return Err(none(table));
        }
        if filter.r#match.is_empty() && filter.priority == 0 && !filter.is_default_action {
            return Ok(vec![all_of(table)]);
        }
        let (table, entry) = self.store.entry_named(catalog, Some(filter))?;
        Ok(vec![(table.clone(), vec![entry])])
    }

    fn direct_counters(
        &mut self,
        filter: &p4::DirectCounterEntry,
        found: &mut Vec<p4::Entity>,
    ) -> Result<()> {
        let has_one = |table: &Table| table.direct_counter.is_some();
        let chosen = self.direct(filter.table_entry.as_ref(), has_one, no_counter)?;
        let catalog = self.store.catalog().clone();
        for (table, entries) in chosen {
            let counter = table
                .direct_counter
                .and_then(|id| catalog.direct_counters.get(&id));
            let counter = counter.ok_or_else(|| no_counter(&table))?;
            let states = self.values.entries(table.id, &entries)?;
            for (entry, state) in entries.iter().zip(states) {
                found.push(entity(Kind::DirectCounterEntry(p4::DirectCounterEntry {
                    table_entry: Some(name_of(&table, entry)),
                    data: Some(data_of(counter, state.count)),
                })));
            }
        }
        Ok(())
    }

    fn direct_meters(
        &mut self,
        filter: &p4::DirectMeterEntry,
        found: &mut Vec<p4::Entity>,
    ) -> Result<()> {
        no_colour_counts(filter.counter_data.is_some())?;
        let has_one = |table: &Table| table.direct_meter.is_some();
        let chosen = self.direct(filter.table_entry.as_ref(), has_one, no_meter)?;
        for (table, entries) in chosen {
            for entry in entries {
                found.push(entity(Kind::DirectMeterEntry(p4::DirectMeterEntry {
                    table_entry: Some(name_of(&table, &entry)),
                    config: self.meter_of(&table, &entry),
                    counter_data: None,
                })));
            }
        }
        Ok(())
    }

    fn counters(&mut self, filter: &p4::CounterEntry, found: &mut Vec<p4::Entity>) -> Result<()> {
        let catalog = self.store.catalog().clone();
        let chosen: Vec<&Counter> = match filter.counter_id {
            0 => catalog.counters.values().collect(),
            id => {
                let counter = catalog.counters.get(&id);
                vec![counter.ok_or_else(|| unknown("counter", id))?]
            }
        };
        for counter in chosen {
            let index = filter.index.as_ref().filter(|_| filter.counter_id != 0);
            let range = self.page.indices(counter.id, indices(index, counter.size)?);
            let counts = self.values.counts(counter.id, range.clone())?;
            for (index, count) in range.zip(counts) {
                found.push(entity(Kind::CounterEntry(p4::CounterEntry {
                    counter_id: counter.id,
                    index: Some(index_of(index)),
                    data: Some(data_of(counter, count)),
                })));
            }
        }
        Ok(())
    }

    fn meters(&mut self, filter: &p4::MeterEntry, found: &mut Vec<p4::Entity>) -> Result<()> {
        no_colour_counts(filter.counter_data.is_some())?;
        let catalog = self.store.catalog().clone();
        let ids: Vec<u32> = match filter.meter_id {
            0 => catalog.meters.keys().copied().collect(),
            id => vec![id],
        };
        for id in ids {
            let meter = catalog.meters.get(&id);
            let meter = meter.ok_or_else(|| unknown("meter", id))?;
            let index = filter.index.as_ref().filter(|_| filter.meter_id != 0);
            let rows = self.store.rows.meters.get(&id);
            for index in self.page.indices(id, indices(index, meter.size)?) {
                found.push(entity(Kind::MeterEntry(p4::MeterEntry {
                    meter_id: id,
                    index: Some(index_of(index)),
                    config: rows.and_then(|rows| rows.get(index)),
                    counter_data: None,
                })));
            }
        }
        Ok(())
    }

    fn registers(&mut self, filter: &p4::RegisterEntry, found: &mut Vec<p4::Entity>) -> Result<()> {
        let catalog = self.store.catalog().clone();
        let ids: Vec<u32> = match filter.register_id {
            0 => catalog.registers.keys().copied().collect(),
            id => vec![id],
        };
        for id in ids {
            let register = catalog.registers.get(&id);
            let register = register.ok_or_else(|| unknown("register", id))?;
            register.shape.check()?;
            let index = filter.index.as_ref().filter(|_| filter.register_id != 0);
            let range = self.page.indices(id, indices(index, register.size)?);
            let values = self.values.registers(id, range.clone())?;
            for (index, numbers) in range.zip(values) {
                found.push(entity(Kind::RegisterEntry(p4::RegisterEntry {
                    register_id: id,
                    index: Some(index_of(index)),
                    data: register.shape.to_data(&numbers),
                })));
            }
        }
        Ok(())
    }

    fn members(
        &mut self,
        filter: &p4::ActionProfileMember,
        found: &mut Vec<p4::Entity>,
    ) -> Result<()> {
        for id in self.profiles(filter.action_profile_id)? {
            let rows = &self.store.rows.profiles[&id].members;
            for (member, action) in self.page.numbered(id, rows) {
                if filter.member_id != 0 && filter.member_id != member {
                    continue;
                }
                found.push(entity(Kind::ActionProfileMember(p4::ActionProfileMember {
                    action_profile_id: id,
                    member_id: member,
                    action: Some(message_of(self.store.catalog(), action)),
                })));
            }
        }
        Ok(())
    }

    fn groups(
        &mut self,
        filter: &p4::ActionProfileGroup,
        found: &mut Vec<p4::Entity>,
    ) -> Result<()> {
        for id in self.profiles(filter.action_profile_id)? {
            let rows = &self.store.rows.profiles[&id].groups;
            for (group, row) in self.page.numbered(id, rows) {
                if filter.group_id != 0 && filter.group_id != group {
                    continue;
                }
                found.push(entity(Kind::ActionProfileGroup(p4::ActionProfileGroup {
                    action_profile_id: id,
                    group_id: group,
                    members: row.members.clone(),
                    max_size: row.max_size,
                })));
            }
        }
        Ok(())
    }

    fn profiles(&self, id: u32) -> Result<Vec<u32>> {
        let profiles = &self.store.catalog().profiles;
        match id {
            0 => Ok(profiles.keys().copied().collect()),
            id if profiles.contains_key(&id) => Ok(vec![id]),
            id => Err(unknown("action profile", id)),
        }
    }

    fn replications(
        &mut self,
        filter: &p4::PacketReplicationEngineEntry,
        found: &mut Vec<p4::Entity>,
    ) -> Result<()> {
        let rows = &self.store.rows;
        let mut push = |replication: Replication| {
            found.push(entity(Kind::PacketReplicationEngineEntry(
                p4::PacketReplicationEngineEntry {
                    r#type: Some(replication),
                },
            )));
        };
        match &filter.r#type {
            Some(Replication::MulticastGroupEntry(filter)) => {
                let wanted = filter.multicast_group_id;
                let chosen = self.page.numbered(0, &rows.multicast).into_iter();
                let chosen = chosen.filter(|(id, _)| wanted == 0 || wanted == *id);
                chosen.for_each(|(_, row)| push(Replication::MulticastGroupEntry(row.clone())));
            }
            Some(Replication::CloneSessionEntry(filter)) => {
                let wanted = filter.session_id;
                let chosen = self.page.numbered(0, &rows.clones).into_iter();
                let chosen = chosen.filter(|(id, _)| wanted == 0 || wanted == *id);
                chosen.for_each(|(_, row)| push(Replication::CloneSessionEntry(row.clone())));
            }
            None => {
                return Err(Problem::invalid(
                    "it is neither a multicast group nor a clone session",
                ));
            }
        }
        Ok(())
    }

    fn value_sets(
        &mut self,
        filter: &p4::ValueSetEntry,
        found: &mut Vec<p4::Entity>,
    ) -> Result<()> {
        let catalog = self.store.catalog();
        if filter.value_set_id != 0 && !catalog.value_sets.contains_key(&filter.value_set_id) {
            return Err(unknown("value set", filter.value_set_id));
        }
        for (id, set) in self.page.numbered(0, &catalog.value_sets) {
            if filter.value_set_id != 0 && filter.value_set_id != id {
                continue;
            }
            let members = self.store.rows.value_sets[&id].iter();
            let members = members.map(|matches| p4::ValueSetMember {
                r#match: messages_of(&set.fields, matches),
            });
            found.push(entity(Kind::ValueSetEntry(p4::ValueSetEntry {
                value_set_id: id,
                members: members.collect(),
            })));
        }
        Ok(())
    }

    fn digests(&mut self, filter: &p4::DigestEntry, found: &mut Vec<p4::Entity>) -> Result<()> {
        let catalog = self.store.catalog();
        if filter.digest_id != 0 && !catalog.digests.contains_key(&filter.digest_id) {
            return Err(unknown("digest", filter.digest_id));
        }
        for (id, config) in self.page.numbered(0, &self.store.rows.digests) {
            if filter.digest_id == 0 || filter.digest_id == id {
                found.push(entity(Kind::DigestEntry(p4::DigestEntry {
                    digest_id: id,
                    config: Some(*config),
                })));
            }
        }
        Ok(())
    }
}

impl Store {
    /// An entry as named by an idle-timeout notification, with its time-out in nanoseconds;
    /// `None` if the entry or its time-out no longer exists.
    #[allow(deprecated)]
    pub(crate) fn idle_message(&self, table: u32, key: &EntryKey) -> Option<(p4::TableEntry, u64)> {
        let row = self.rows.tables.get(&table)?.entries.get(key)?;
        let timeout = u64::try_from(row.idle_timeout_ns)
            .ok()
            .filter(|ns| *ns > 0)?;
        let table = self.catalog().tables.get(&table)?;
        let message = p4::TableEntry {
            metadata: row.metadata.clone(),
            controller_metadata: row.controller_metadata,
            idle_timeout_ns: row.idle_timeout_ns,
            ..name_of(table, &EntryRef::Entry(key.clone()))
        };
        Some((message, timeout))
    }
}

/// A message with only the fields that identify an entry.
fn name_of(table: &Table, entry: &EntryRef) -> p4::TableEntry {
    match entry {
        EntryRef::Default => p4::TableEntry {
            table_id: table.id,
            is_default_action: true,
            ..p4::TableEntry::default()
        },
        EntryRef::Entry(key) => p4::TableEntry {
            table_id: table.id,
            r#match: messages_of(&table.fields, &key.matches),
            priority: key.priority,
            ..p4::TableEntry::default()
        },
    }
}

#[allow(deprecated)]
fn has_controller_metadata(filter: &p4::TableEntry, metadata: u64) -> bool {
    filter.controller_metadata == 0 || filter.controller_metadata == metadata
}

/// The units that P4Info says the counter counts; the data plane always counts both.
///
/// The other number stays zero, so that the result can be written again (P4Runtime 1.4.1,
/// section 8.2, "Read-Write Symmetry").
fn data_of(counter: &Counter, count: Count) -> p4::CounterData {
    let number = |is_counted: bool, number: u64| match is_counted {
        true => i64::try_from(number).unwrap_or(i64::MAX),
        false => 0,
    };
    p4::CounterData {
        byte_count: number(counter.has_bytes, count.bytes),
        packet_count: number(counter.has_packets, count.packets),
    }
}

fn index_of(index: u64) -> p4::Index {
    p4::Index {
        index: i64::try_from(index).unwrap_or(i64::MAX),
    }
}

fn entity(kind: Kind) -> p4::Entity {
    p4::Entity { entity: Some(kind) }
}
