//! Writes of table entries, including default entries, with their counters and meters.

use bytes::Bytes;

use super::action::{Place, call_for};
use super::arrays::{count_of, no_colour_counts, rates_of};
use super::matching::key_of;
use super::rows::{DefaultEntry, Entry, EntryAction, Undo};
use super::{Modify, Result, Store, Type, unknown};
use crate::change::{ActionRef, Change, Count, EntryRef, Operation, Rates};
use crate::p4info::{Catalog, Table};
use crate::problem::{Code, Problem};
use crate::proto::p4::v1 as p4;
use crate::proto::p4::v1::table_action::Type as ActionKind;

/// The table with this id.
pub(super) fn table_of(catalog: &Catalog, id: u32) -> Result<&Table> {
    catalog.tables.get(&id).ok_or_else(|| unknown("table", id))
}

/// The direct resources in an entry's message.
struct Direct {
    count: Option<Count>,
    /// The rates, and the message they come from.
    meter: Option<(Rates, p4::MeterConfig)>,
}

impl Store {
    pub(super) fn table_entry(
        &mut self,
        kind: Type,
        entry: &p4::TableEntry,
        change: &mut Change,
    ) -> Result<()> {
        let catalog = self.catalog().clone();
        let table = table_of(&catalog, entry.table_id)?;
        let done = match kind {
            _ if entry.is_const => Err(Problem::invalid(
                "is_const is set; entries that are written are never constant",
            )),
            _ if entry.is_default_action => self.default_entry(kind, table, entry, change),
            Type::Insert => self.insert(table, entry, change),
            Type::Modify => self.modify(table, entry, change),
            _ => self.delete(table, entry, change),
        };
        done.map_err(|problem| problem.at(format!("table `{}`", table.name)))
    }

    fn insert(&mut self, table: &Table, entry: &p4::TableEntry, change: &mut Change) -> Result<()> {
        if table.is_const {
            return Err(Problem::denied("its entries are constant"));
        }
        if table.fields.is_empty() {
            return Err(Problem::invalid(
                "it has no key, so it has no entries; modify its default action",
            ));
        }
        let key = key_of(table, entry)?;
        let idle_timeout_ns = idle_timeout(table, entry)?;
        let direct = self.direct_of(table, entry)?;
        let Some(action) = &entry.action else {
            return Err(Problem::invalid("a new entry needs an action"));
        };
        let rows = &self.rows.tables[&table.id];
        if rows.entries.contains_key(&key) {
            return Err(Problem::new(
                Code::AlreadyExists,
                "it has an entry with this match and priority; modify it",
            ));
        }
        if table.size > 0 && rows.entries.len() as u64 >= table.size {
            return Err(Problem::new(
                Code::ResourceExhausted,
                format!("it is full: it takes {} entries", table.size),
            ));
        }
        let action = self.entry_action(table, action, change)?;
        change.push(Operation::InsertEntry {
            table: table.id,
            key: key.clone(),
            action: reference_to(&action),
        });
        let to = EntryRef::Entry(key.clone());
        push_direct(table, &to, &direct, false, change);
        let row = Entry {
            action,
            metadata: Bytes::copy_from_slice(&entry.metadata),
            controller_metadata: controller_metadata(entry),
            idle_timeout_ns,
            meter: direct.meter.map(|(_, config)| config),
            is_const: false,
        };
        self.put(Undo::Entry(table.id, key, Some(Box::new(row))));
        Ok(())
    }

    fn modify(&mut self, table: &Table, entry: &p4::TableEntry, change: &mut Change) -> Result<()> {
        let key = key_of(table, entry)?;
        let row = self.rows.tables[&table.id].entries.get(&key);
        let mut row = row.ok_or_else(no_entry)?.clone();
        let had_meter = row.meter.is_some();
        let direct = self.direct_of(table, entry)?;
        if row.is_const || table.is_const {
            if entry.action.is_some() {
                return Err(Problem::denied(
                    "the entry is constant; only its counter and meter can be modified",
                ));
            }
        } else {
            row.idle_timeout_ns = idle_timeout(table, entry)?;
            row.metadata = Bytes::copy_from_slice(&entry.metadata);
            row.controller_metadata = controller_metadata(entry);
        }
        let mut ended = Change::new();
        if let Some(action) = &entry.action {
            let action = self.entry_action(table, action, change)?;
            change.push(Operation::ModifyEntry {
                table: table.id,
                key: key.clone(),
                action: reference_to(&action),
            });
            self.end_one_shot(table, &row.action, &mut ended);
            row.action = action;
        }
        let to = EntryRef::Entry(key.clone());
        push_direct(table, &to, &direct, had_meter, change);
        change.append(&mut ended);
        row.meter = direct.meter.map(|(_, config)| config);
        self.put(Undo::Entry(table.id, key, Some(Box::new(row))));
        Ok(())
    }

    fn delete(&mut self, table: &Table, entry: &p4::TableEntry, change: &mut Change) -> Result<()> {
        if table.is_const {
            return Err(Problem::denied("its entries are constant"));
        }
        let key = key_of(table, entry)?;
        let row = self.rows.tables[&table.id].entries.get(&key);
        let row = row.ok_or_else(no_entry)?;
        if row.is_const {
            return Err(Problem::denied("the entry is constant"));
        }
        let action = row.action.clone();
        change.push(Operation::DeleteEntry {
            table: table.id,
            key: key.clone(),
        });
        self.end_one_shot(table, &action, change);
        self.put(Undo::Entry(table.id, key, None));
        Ok(())
    }

    fn default_entry(
        &mut self,
        kind: Type,
        table: &Table,
        entry: &p4::TableEntry,
        change: &mut Change,
    ) -> Result<()> {
        if kind != Type::Modify {
            return Err(Problem::invalid(
                "the default entry is always there; it can only be modified",
            ));
        }
        if !entry.r#match.is_empty() || entry.priority != 0 {
            return Err(Problem::invalid(
                "the default entry has neither match nor priority",
            ));
        }
        if entry.idle_timeout_ns != 0 || entry.time_since_last_hit.is_some() {
            return Err(Problem::invalid("the default entry has no idle time-out"));
        }
        if table.has_const_default || table.profile.is_some() {
            return Err(Problem::denied("its default entry is constant"));
        }
        let direct = self.direct_of(table, entry)?;
        let had_meter = self.rows.tables[&table.id].default.meter.is_some();
        let action = match entry.action.as_ref().map(|action| &action.r#type) {
            None => None,
            Some(Some(ActionKind::Action(action))) => {
                Some(call_for(self.catalog(), table, action, Place::Default)?)
            }
            Some(_) => return Err(Problem::invalid("the default entry needs an action")),
        };
        change.push(Operation::SetDefault {
            table: table.id,
            action: action.clone(),
        });
        let row = if action.is_some() {
            push_direct(table, &EntryRef::Default, &direct, had_meter, change);
            DefaultEntry {
                action,
                metadata: Bytes::copy_from_slice(&entry.metadata),
                controller_metadata: controller_metadata(entry),
                meter: direct.meter.map(|(_, config)| config),
            }
        } else {
            let none = Direct {
                count: table.direct_counter.map(|_| Count::default()),
                meter: None,
            };
            push_direct(table, &EntryRef::Default, &none, had_meter, change);
            DefaultEntry::default()
        };
        self.put(Undo::Default(table.id, Box::new(row)));
        Ok(())
    }

    /// Converts an entry's action to the form that the table uses.
    fn entry_action(
        &mut self,
        table: &Table,
        action: &p4::TableAction,
        change: &mut Change,
    ) -> Result<EntryAction> {
        let Some(action) = &action.r#type else {
            return Err(Problem::invalid("the entry's action is not set"));
        };
        let one = match (table.profile, action) {
            (None, ActionKind::Action(action)) => {
                ActionRef::Call(call_for(self.catalog(), table, action, Place::Entry)?)
            }
            (Some(profile), ActionKind::ActionProfileMemberId(id)) => {
                self.expect_member(profile, *id)?;
                ActionRef::Member(*id)
            }
            (Some(profile), ActionKind::ActionProfileGroupId(id)) => {
                self.expect_group(profile, *id)?;
                ActionRef::Group(*id)
            }
            (Some(profile), ActionKind::ActionProfileActionSet(list)) => {
                return self.one_shot(table, profile, list, change);
            }
            (None, _) => {
                return Err(Problem::invalid(
                    "it has no action profile; give the entry an action",
                ));
            }
            (Some(_), ActionKind::Action(_)) => {
                return Err(Problem::invalid(
                    "its actions are in an action profile; give a member, a group or a list",
                ));
            }
        };
        Ok(EntryAction::One(one))
    }

    pub(super) fn direct_counter(
        &mut self,
        _: Modify,
        message: &p4::DirectCounterEntry,
        change: &mut Change,
    ) -> Result<()> {
        let catalog = self.catalog().clone();
        let named = message.table_entry.as_ref();
        let table = table_of(&catalog, named.map_or(0, |entry| entry.table_id))?;
        let Some(counter) = table.direct_counter else {
            return Err(no_counter(table));
        };
        let (table, entry) = self.entry_named(&catalog, named)?;
        if let Some(data) = &message.data {
            change.push(Operation::SetDirectCounter {
                table: table.id,
                entry,
                count: count_of(&catalog.direct_counters[&counter], data)?,
            });
        }
        Ok(())
    }

    pub(super) fn direct_meter(
        &mut self,
        _: Modify,
        message: &p4::DirectMeterEntry,
        change: &mut Change,
    ) -> Result<()> {
        let catalog = self.catalog().clone();
        let named = message.table_entry.as_ref();
        let table = table_of(&catalog, named.map_or(0, |entry| entry.table_id))?;
        let Some(meter) = table.direct_meter else {
            return Err(no_meter(table));
        };
        self.expect_meter(table, meter)?;
        let (table, entry) = self.entry_named(&catalog, named)?;
        no_colour_counts(message.counter_data.is_some())?;
        let meter = &catalog.direct_meters[&meter];
        let config = message.config;
        let rates = config.map(|config| rates_of(meter, &config)).transpose()?;
        change.push(Operation::SetDirectMeter {
            table: table.id,
            entry: entry.clone(),
            rates,
        });
        let rows = &self.rows.tables[&table.id];
        match entry {
            EntryRef::Entry(key) => {
                let row = rows.entries.get(&key).ok_or_else(no_entry)?;
                let mut row = Box::new(row.clone());
                row.meter = config;
                self.put(Undo::Entry(table.id, key, Some(row)));
            }
            EntryRef::Default => {
                let mut row = Box::new(rows.default.clone());
                row.meter = config;
                self.put(Undo::Default(table.id, row));
            }
        }
        Ok(())
    }

    /// Reads the counter and meter values of an entry's message.
    fn direct_of(&self, table: &Table, entry: &p4::TableEntry) -> Result<Direct> {
        let catalog = self.catalog();
        no_colour_counts(entry.meter_counter_data.is_some())?;
        let count = match (&entry.counter_data, table.direct_counter) {
            (None, _) => None,
            (Some(_), None) => return Err(no_counter(table)),
            (Some(data), Some(id)) => Some(count_of(&catalog.direct_counters[&id], data)?),
        };
        let meter = match (entry.meter_config, table.direct_meter) {
            (None, _) => None,
            (Some(_), None) => return Err(no_meter(table)),
            (Some(config), Some(id)) => {
                self.expect_meter(table, id)?;
                expect_reader(catalog, table, entry.action.as_ref())?;
                Some((rates_of(&catalog.direct_meters[&id], &config)?, config))
            }
        };
        Ok(Direct { count, meter })
    }

    /// Checks that the program has a table's direct meter.
    fn expect_meter(&self, table: &Table, meter: u32) -> Result<()> {
        if !self.absent.contains(&meter) {
            return Ok(());
        }
        Err(Problem::invalid(format!(
            "no action of `{}` reads its direct meter, so the program has none; leave the rates out",
            table.name
        )))
    }

    /// The entry that a message names, which must exist.
    pub(super) fn entry_named<'a>(
        &self,
        catalog: &'a Catalog,
        entry: Option<&p4::TableEntry>,
    ) -> Result<(&'a Table, EntryRef)> {
        let Some(entry) = entry else {
            return Err(Problem::invalid("table_entry is not set"));
        };
        let table = table_of(catalog, entry.table_id)?;
        let at = |problem: Problem| problem.at(format!("table `{}`", table.name));
        if entry.is_default_action {
            if !entry.r#match.is_empty() || entry.priority != 0 {
                return Err(at(Problem::invalid(
                    "the default entry has neither match nor priority",
                )));
            }
            return Ok((table, EntryRef::Default));
        }
        let key = key_of(table, entry).map_err(at)?;
        if !self.rows.tables[&table.id].entries.contains_key(&key) {
            return Err(at(no_entry()));
        }
        Ok((table, EntryRef::Entry(key)))
    }
}

/// The target's form of an action.
pub(super) fn reference_to(action: &EntryAction) -> ActionRef {
    match action {
        EntryAction::One(one) => one.clone(),
        EntryAction::OneShot(list) => ActionRef::Group(list.group),
    }
}

fn no_entry() -> Problem {
    Problem::missing("it has no entry with this match and priority")
}

pub(super) fn no_counter(table: &Table) -> Problem {
    Problem::invalid(format!("table `{}` has no direct counter", table.name))
}

pub(super) fn no_meter(table: &Table) -> Problem {
    Problem::invalid(format!("table `{}` has no direct meter", table.name))
}

/// Checks that rates come with an action that reads the meter, as far as known.
///
/// The rule is in P4Runtime 1.4.1, section 9.1.7, "Direct Resources".
///
/// BMv2's JSON does not say which actions call the meter's `read`: simple_switch runs the meter
/// on every hit. Only core.p4's own action surely does not.
fn expect_reader(catalog: &Catalog, table: &Table, action: Option<&p4::TableAction>) -> Result<()> {
    let Some(ActionKind::Action(action)) = action.and_then(|action| action.r#type.as_ref()) else {
        return Ok(());
    };
    let action = catalog.actions.get(&action.action_id);
    if action.is_none_or(|action| action.name != "NoAction" || !action.parameters.is_empty()) {
        return Ok(());
    }
    Err(Problem::invalid(format!(
        "rates for an entry whose action, NoAction, does not read the meter of `{}`; leave \
         meter_config out",
        table.name
    )))
}

/// Adds the operations for an entry's counter and meter; a meter that is not given is reset.
fn push_direct(
    table: &Table,
    entry: &EntryRef,
    direct: &Direct,
    had_meter: bool,
    change: &mut Change,
) {
    if direct.meter.is_some() || had_meter {
        change.push(Operation::SetDirectMeter {
            table: table.id,
            entry: entry.clone(),
            rates: direct.meter.map(|(rates, _)| rates),
        });
    }
    if let Some(count) = direct.count {
        change.push(Operation::SetDirectCounter {
            table: table.id,
            entry: entry.clone(),
            count,
        });
    }
}

fn idle_timeout(table: &Table, entry: &p4::TableEntry) -> Result<i64> {
    let timeout = entry.idle_timeout_ns;
    if entry.time_since_last_hit.is_some() {
        return Err(Problem::invalid(
            "time_since_last_hit is set; it is only ever read",
        ));
    }
    if timeout < 0 {
        return Err(Problem::invalid(format!(
            "an idle time-out of {timeout} ns; give 0 for none"
        )));
    }
    if timeout != 0 && !table.has_idle_timeout {
        return Err(Problem::invalid(
            "it has no idle time-outs; set support_timeout in the program",
        ));
    }
    Ok(timeout)
}

#[allow(deprecated)]
fn controller_metadata(entry: &p4::TableEntry) -> u64 {
    entry.controller_metadata
}
