//! Turns files of simple_switch_CLI commands into P4Runtime messages.
//!
//! A switch that starts with entries also keeps them in its session's store, so that a
//! controller can later read, modify and delete them. So commands become P4Runtime messages and
//! are handled like a controller's.
//!
//! 1. Each command gives one message, in the same order.
//! 2. Messages are canonical: bits outside a mask or prefix are cleared, and matches of
//!    anything are omitted.
//!
//! In commands the smaller priority wins, in P4Runtime the larger: `n` becomes `2^31 - 1 - n`.
//! Members and groups have handles from 0 on. In P4Runtime a member or group 0 means none, so
//! handle `n` gets the number `n + 1`.

use std::collections::{BTreeMap, BTreeSet};

use num_bigint::BigUint;
use thalweg_control::proto::p4::v1 as p4;
use thalweg_control::proto::p4::v1::entity::Entity as Kinds;
use thalweg_control::proto::p4::v1::update::Type;
use thalweg_control::{
    Catalog, Code, Counter as CounterInfo, Match, MatchKind, Problem, Value, messages_of,
};
use thalweg_p4::Program;
use thalweg_p4::commands::Command;
use thalweg_p4::program::ids::{ActionId, ProfileId, TableId, ValueSetId};
use thalweg_p4::program::table::{Match as P4Match, MatchKind as Kind};
use thalweg_p4::state::{
    ActionCall, Counter, EntryAction, MeterRates, Mirror, Mode, Replica, TableEntry, Update,
};

use crate::binding::{Binding, BoundProfile, BoundTable, Part};
use crate::convert::{call_from, key_from, value_of};

type Result<T> = std::result::Result<T, Problem>;

/// Converts the commands of a program to messages.
///
/// # Errors
/// Returns the line of a command without a P4Runtime message, and the reason. The line is
/// `None` if P4Info does not fit the program.
pub fn messages_for(
    catalog: &Catalog,
    program: &Program,
    commands: &[Command],
) -> std::result::Result<Vec<p4::Update>, (Option<usize>, Problem)> {
    let mut writer = Messages::new(catalog, program).map_err(|problem| (None, problem))?;
    let mut messages = Vec::with_capacity(commands.len());
    for command in commands {
        let message = writer.message(&command.update);
        messages.push(message.map_err(|problem| (Some(command.line), problem))?);
    }
    Ok(messages)
}

/// Converts commands to messages, one after the other.
#[derive(Debug)]
pub struct Messages<'a> {
    catalog: &'a Catalog,
    program: &'a Program,
    binding: Binding,
    /// Groups that earlier commands have created; the next field has the sessions.
    groups: BTreeSet<u16>,
    sessions: BTreeSet<u16>,
    /// Both sets before the commands that may be taken back, if they differ.
    before: Option<Box<(BTreeSet<u16>, BTreeSet<u16>)>>,
}

impl<'a> Messages<'a> {
    /// Creates a converter for a program's commands.
    ///
    /// # Errors
    /// Fails if P4Info does not fit the program.
    pub fn new(catalog: &'a Catalog, program: &'a Program) -> Result<Messages<'a>> {
        Ok(Messages {
            catalog,
            program,
            binding: Binding::new(catalog, program)?,
            groups: BTreeSet::new(),
            sessions: BTreeSet::new(),
            before: None,
        })
    }

    /// Confirms that the messages since the last confirmation were written.
    pub fn keep(&mut self) {
        self.before = None;
    }

    /// Takes back the messages since the last confirmation, which were refused.
    pub fn take_back(&mut self) {
        if let Some(before) = self.before.take() {
            (self.groups, self.sessions) = *before;
        }
    }

    /// Saves both sets before a group or session is created or deleted.
    fn note(&mut self) {
        if self.before.is_none() {
            self.before = Some(Box::new((self.groups.clone(), self.sessions.clone())));
        }
    }

    /// Converts the update of the next command.
    ///
    /// # Errors
    /// Fails if P4Runtime has no message for it.
    // One match, with an arm for each kind of update.
    pub fn message(&mut self, update: &Update) -> Result<p4::Update> {
        let (kind, entity) = match update {
            Update::InsertEntry(table, entry) => {
                (Type::Insert, Kinds::TableEntry(self.entry(*table, entry)?))
            }
            Update::ModifyEntry(table, entry) => {
                (Type::Modify, Kinds::TableEntry(self.entry(*table, entry)?))
            }
            Update::DeleteEntry(table, matches, priority) => {
                let message = self.key(*table, matches, *priority)?;
                (Type::Delete, Kinds::TableEntry(message))
            }
            Update::SetDefault(table, call) => {
                (Type::Modify, Kinds::TableEntry(self.default(*table, call)?))
            }
            Update::Multicast(mode, group, replicas) => {
                let message = multicast(*group, replicas);
                self.note();
                let kind = set_or_delete(*mode, &mut self.groups, *group);
                (kind, Kinds::PacketReplicationEngineEntry(message))
            }
            Update::Mirror(mode, session, mirror) => {
                let message = clone_session(*session, mirror)?;
                self.note();
                let kind = set_or_delete(*mode, &mut self.sessions, *session);
                (kind, Kinds::PacketReplicationEngineEntry(message))
            }
            Update::SetCounter(counter, index, count) => {
                let mut bound = self.binding.counters.iter();
                let id = bound.find(|(_, own)| *own == counter).map(|(id, _)| *id);
                let id = id.ok_or_else(|| unknown("counter"))?;
                let message = p4::CounterEntry {
                    counter_id: id,
                    index: Some(index_of(*index)),
                    data: Some(counter_data(&self.catalog.counters[&id], *count)),
                };
                (Type::Modify, Kinds::CounterEntry(message))
            }
            Update::SetEntryCounter(table, matches, priority, count) => {
                let named = self.key(*table, matches, *priority)?;
                let counter = self.catalog.tables[&named.table_id].direct_counter;
                let counter = counter.ok_or_else(|| unknown("direct counter"))?;
                let counter = &self.catalog.direct_counters[&counter];
                let message = p4::DirectCounterEntry {
                    table_entry: Some(named),
                    data: Some(counter_data(counter, *count)),
                };
                (Type::Modify, Kinds::DirectCounterEntry(message))
            }
            Update::SetEntryMeter(table, matches, priority, rates) => {
                let message = p4::DirectMeterEntry {
                    table_entry: Some(self.key(*table, matches, *priority)?),
                    config: rates.as_ref().map(meter_config),
                    ..Default::default()
                };
                (Type::Modify, Kinds::DirectMeterEntry(message))
            }
            Update::SetMeter(meter, index, rates) => {
                let mut bound = self.binding.meters.iter();
                let id = bound.find(|(_, own)| *own == meter).map(|(id, _)| *id);
                let message = p4::MeterEntry {
                    meter_id: id.ok_or_else(|| unknown("meter"))?,
                    index: Some(index_of(*index)),
                    config: rates.as_ref().map(meter_config),
                    ..Default::default()
                };
                (Type::Modify, Kinds::MeterEntry(message))
            }
            Update::SetRegister(register, index, number) => {
                let mut bound = self.binding.registers.iter();
                let id = bound.find(|(_, own)| *own == register).map(|(id, _)| *id);
                let id = id.ok_or_else(|| unknown("register"))?;
                let shape = &self.catalog.registers[&id].shape;
                shape.check()?;
                let message = p4::RegisterEntry {
                    register_id: id,
                    index: Some(index_of(*index)),
                    data: shape.to_data(&[value_of(number)]),
                };
                (Type::Modify, Kinds::RegisterEntry(message))
            }
            Update::Member(mode, profile, member, call) => {
                let message = self.member(*profile, *member, call.as_ref())?;
                (kind_of(*mode), Kinds::ActionProfileMember(message))
            }
            Update::Group(mode, profile, group, members) => {
                let message = self.group(*profile, *group, members)?;
                (kind_of(*mode), Kinds::ActionProfileGroup(message))
            }
            Update::SetValues(set, members) => {
                let message = self.value_set(*set, members)?;
                (Type::Modify, Kinds::ValueSetEntry(message))
            }
            _ => {
                let text = "P4Runtime has no message for this command; leave it out";
                return Err(Problem::unsupported(text));
            }
        };
        Ok(p4::Update {
            r#type: kind as i32,
            entity: Some(p4::Entity {
                entity: Some(entity),
            }),
        })
    }

    fn entry(&self, table: TableId, entry: &TableEntry) -> Result<p4::TableEntry> {
        let (_, bound) = self.table(table)?;
        let action = match &entry.action {
            EntryAction::Call(call) => self.table_action(&bound.actions, call)?,
            EntryAction::Member(member) => p4::TableAction {
                r#type: Some(p4::table_action::Type::ActionProfileMemberId(numbered(
                    *member,
                )?)),
            },
            EntryAction::Group(group) => p4::TableAction {
                r#type: Some(p4::table_action::Type::ActionProfileGroupId(numbered(
                    *group,
                )?)),
            },
            EntryAction::OneShot(_) => {
                let text = "a list of actions; write it over P4Runtime";
                return Err(Problem::unsupported(text));
            }
        };
        Ok(p4::TableEntry {
            action: Some(action),
            idle_timeout_ns: entry.idle_timeout_ns as i64,
            ..self.key(table, &entry.matches, entry.priority)?
        })
    }

    /// A P4Runtime entry with only its key.
    fn key(&self, table: TableId, matches: &[P4Match], priority: u32) -> Result<p4::TableEntry> {
        let (id, bound) = self.table(table)?;
        let pairs = bound.parts.iter().zip(matches);
        let matches: Vec<P4Match> = pairs.map(|(part, own)| canonical(part, own)).collect();
        let key = key_from(bound, &matches, 0);
        let fields = &self.catalog.tables[&id].fields;
        let asked = fields.iter().zip(&key.matches).map(|(field, own)| {
            let ones = || Value::ones(field.width);
            match own {
                Match::Exact(value) if field.kind == MatchKind::Ternary => {
                    Match::Masked(value.clone(), ones())
                }
                own => own.clone(),
            }
        });
        let asked: Vec<Match> = asked.collect();
        let has_priorities = self.program.table(table).has_priorities;
        Ok(p4::TableEntry {
            table_id: id,
            r#match: messages_of(fields, &asked),
            priority: priority_of(has_priorities.then_some(priority))?,
            ..Default::default()
        })
    }

    fn default(&self, table: TableId, call: &Option<ActionCall>) -> Result<p4::TableEntry> {
        let (id, bound) = self.table(table)?;
        let action = call.as_ref();
        let action = action.map(|call| self.table_action(&bound.actions, call));
        Ok(p4::TableEntry {
            table_id: id,
            action: action.transpose()?,
            is_default_action: true,
            ..Default::default()
        })
    }

    fn table(&self, table: TableId) -> Result<(u32, &BoundTable)> {
        let mut bound = self.binding.tables.iter();
        let found = bound.find(|(_, own)| own.table == Some(table));
        let (id, bound) = found.ok_or_else(|| unknown("table"))?;
        Ok((*id, bound))
    }

    fn profile(&self, profile: ProfileId) -> Result<(u32, &BoundProfile)> {
        let mut bound = self.binding.profiles.iter();
        let found = bound.find(|(_, own)| own.profile == profile);
        let (id, bound) = found.ok_or_else(|| unknown("action profile"))?;
        Ok((*id, bound))
    }

    fn member(
        &self,
        profile: ProfileId,
        member: u32,
        call: Option<&ActionCall>,
    ) -> Result<p4::ActionProfileMember> {
        let (id, bound) = self.profile(profile)?;
        let action = call.map(|call| self.action(&bound.actions, call));
        Ok(p4::ActionProfileMember {
            action_profile_id: id,
            member_id: numbered(member)?,
            action: action.transpose()?,
        })
    }

    fn group(
        &self,
        profile: ProfileId,
        group: u32,
        members: &[(u32, u32)],
    ) -> Result<p4::ActionProfileGroup> {
        let (id, _) = self.profile(profile)?;
        let member = |&(member, weight): &(u32, u32)| {
            Ok(p4::action_profile_group::Member {
                member_id: numbered(member)?,
                weight: i32::try_from(weight).unwrap_or(i32::MAX),
                watch_kind: None,
            })
        };
        Ok(p4::ActionProfileGroup {
            action_profile_id: id,
            group_id: numbered(group)?,
            members: members.iter().map(member).collect::<Result<_>>()?,
            max_size: 0,
        })
    }

    /// A value set's members, each split into the fields of P4Info.
    fn value_set(&self, set: ValueSetId, members: &[BigUint]) -> Result<p4::ValueSetEntry> {
        let mut bound = self.binding.value_sets.iter();
        let found = bound.find(|(_, own)| own.set == set);
        let (id, bound) = found.ok_or_else(|| unknown("value set"))?;
        let fields = &self.catalog.value_sets[id].fields;
        let member = |value: &BigUint| {
            let mut rest: u32 = bound.widths.iter().sum();
            let matches = bound.widths.iter().map(|width| {
                rest -= width;
                let ones = (BigUint::from(1_u8) << *width) - 1_u8;
                Match::Exact(value_of(&((value >> rest) & ones)))
            });
            let matches: Vec<Match> = matches.collect();
            p4::ValueSetMember {
                r#match: messages_of(fields, &matches),
            }
        };
        Ok(p4::ValueSetEntry {
            value_set_id: *id,
            members: members.iter().map(member).collect(),
        })
    }

    fn table_action(
        &self,
        actions: &BTreeMap<u32, ActionId>,
        call: &ActionCall,
    ) -> Result<p4::TableAction> {
        let action = self.action(actions, call)?;
        Ok(p4::TableAction {
            r#type: Some(p4::table_action::Type::Action(action)),
        })
    }

    fn action(&self, actions: &BTreeMap<u32, ActionId>, call: &ActionCall) -> Result<p4::Action> {
        let found = call_from(actions, self.program, call);
        let found = found.ok_or_else(|| unknown("action"))?;
        let parameters = &self.catalog.actions[&found.action].parameters;
        if parameters.len() != found.arguments.len() {
            return Err(Problem::invalid(format!(
                "the action takes {} parameters, not {}",
                parameters.len(),
                found.arguments.len()
            )));
        }
        let params = parameters.iter().zip(&found.arguments);
        let params = params.map(|(parameter, value)| p4::action::Param {
            param_id: parameter.id,
            value: value.to_bytes(),
        });
        Ok(p4::Action {
            action_id: found.action,
            params: params.collect(),
        })
    }
}

/// The P4Runtime number of a handle.
fn numbered(handle: u32) -> Result<u32> {
    let found = handle.checked_add(1);
    found.ok_or_else(|| Problem::new(Code::OutOfRange, format!("there is no handle {handle}")))
}

fn kind_of(mode: Mode) -> Type {
    match mode {
        Mode::Insert => Type::Insert,
        Mode::Set | Mode::Modify => Type::Modify,
        Mode::Delete => Type::Delete,
    }
}

/// Establishes invariant 2.
fn canonical(part: &Part, own: &P4Match) -> P4Match {
    match own {
        P4Match::Ternary(value, mask) => P4Match::Ternary(value & mask, mask.clone()),
        P4Match::Lpm(value, length) => {
            let low = part.width.saturating_sub(*length);
            P4Match::Lpm((value >> low) << low, *length)
        }
        P4Match::Exact(value) if part.kind == Kind::Ternary => {
            let ones = (BigUint::from(1_u8) << part.width) - 1_u8;
            P4Match::Ternary(value.clone(), ones)
        }
        own => own.clone(),
    }
}

/// Converts a program's priority. It is `2^32 - 1 - n` for a command's `n`, far above those of
/// the program's own entries, which start at 1; none is 0.
fn priority_of(priority: Option<u32>) -> Result<i32> {
    let Some(priority) = priority else {
        return Ok(0);
    };
    if let Ok(own) = i32::try_from(priority) {
        return Ok(own);
    }
    let written = u32::MAX - priority;
    let found = i32::try_from(written).map(|written| i32::MAX - written);
    found.ok().filter(|found| *found > 0).ok_or_else(|| {
        let text = format!("a priority of {written}; give 0 to {}", i32::MAX - 1);
        Problem::new(Code::OutOfRange, text)
    })
}

/// The update type for a group or session, given those that commands have created.
fn set_or_delete(mode: Mode, made: &mut BTreeSet<u16>, id: u16) -> Type {
    match mode {
        Mode::Delete => {
            made.remove(&id);
            Type::Delete
        }
        _ if made.insert(id) => Type::Insert,
        _ => Type::Modify,
    }
}

fn multicast(group: u16, replicas: &[Replica]) -> p4::PacketReplicationEngineEntry {
    use p4::packet_replication_engine_entry::Type as Entry;
    let entry = p4::MulticastGroupEntry {
        multicast_group_id: group.into(),
        replicas: copies(replicas),
        ..Default::default()
    };
    p4::PacketReplicationEngineEntry {
        r#type: Some(Entry::MulticastGroupEntry(entry)),
    }
}

fn clone_session(session: u16, mirror: &Mirror) -> Result<p4::PacketReplicationEngineEntry> {
    use p4::packet_replication_engine_entry::Type as Entry;
    if mirror.group.is_some() {
        return Err(Problem::unsupported(
            "P4Runtime's clone sessions have no multicast group; use mirroring_add",
        ));
    }
    let entry = p4::CloneSessionEntry {
        session_id: session.into(),
        replicas: copies(&mirror.replicas),
        packet_length_bytes: mirror.length_max_bytes.unwrap_or(0) as i32,
        ..Default::default()
    };
    Ok(p4::PacketReplicationEngineEntry {
        r#type: Some(Entry::CloneSessionEntry(entry)),
    })
}

#[allow(deprecated)]
fn copies(replicas: &[Replica]) -> Vec<p4::Replica> {
    let copies = replicas.iter().map(|replica| p4::Replica {
        instance: replica.instance.into(),
        port_kind: Some(p4::replica::PortKind::EgressPort(replica.port)),
        ..Default::default()
    });
    copies.collect()
}

/// Keeps the units that P4Info says are counted; simple_switch counts both.
fn counter_data(counter: &CounterInfo, count: Counter) -> p4::CounterData {
    let number = |is_counted, number: u64| match is_counted {
        true => i64::try_from(number).unwrap_or(i64::MAX),
        false => 0,
    };
    p4::CounterData {
        byte_count: number(counter.has_bytes, count.bytes),
        packet_count: number(counter.has_packets, count.packets),
    }
}

fn meter_config(rates: &MeterRates) -> p4::MeterConfig {
    p4::MeterConfig {
        cir: rates.committed.per_second as i64,
        cburst: rates.committed.burst as i64,
        pir: rates.peak.per_second as i64,
        pburst: rates.peak.burst as i64,
        ..Default::default()
    }
}

fn index_of(index: u32) -> p4::Index {
    p4::Index {
        index: index.into(),
    }
}

fn unknown(kind: &str) -> Problem {
    Problem::invalid(format!("P4Info does not have this {kind}"))
}
