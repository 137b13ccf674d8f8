//! Converts operations to a program's updates, and a program's values to P4Runtime's.

use std::collections::BTreeMap;

use num_bigint::BigUint;
use thalweg_control::{
    ActionCall, ActionRef, CloneSession, Code, Count, EntryKey, EntryRef, Match, MatchKind,
    Operation, Problem, Rates, Replica, Value,
};
use thalweg_p4::Program;
use thalweg_p4::program::ids::{ActionId, ProfileId, TableId};
use thalweg_p4::program::table::{Match as P4Match, MatchKind as Kind};
use thalweg_p4::state::{
    ActionCall as P4Call, Counter, EntryAction, MeterRates, Mirror, Mode, Rate, Replica as Copy,
    TableEntry, Update, WriteError,
};

use crate::binding::{Binding, BoundTable, ErrorNames, Part};

type Result<T> = std::result::Result<T, Problem>;

/// Maximum cells that one operation may set.
const MAX_CELLS: u64 = 1 << 20;
/// The controller's port number on all devices (P4Runtime 1.5.0, "Translation of Port
/// Numbers").
const SDN_PORT_CPU: u32 = 0xffff_fffd;

/// Converts operations to updates.
pub struct Converter<'a> {
    /// The numbers and indices of the program.
    pub binding: &'a Binding,
    /// The port of the controller, if the switch has one.
    pub cpu_port: Option<u32>,
}

impl Converter<'_> {
    /// Appends the updates that do an operation.
    ///
    /// # Errors
    /// If the program cannot do it. Then some of its updates may have been appended.
    // One match, with an arm for each kind of operation.
    pub fn push(&self, operation: &Operation, updates: &mut Vec<Update>) -> Result<()> {
        match operation {
            Operation::InsertEntry { table, key, action } => {
                let (id, entry) = self.entry(*table, key, action)?;
                updates.push(Update::InsertEntry(id, entry));
            }
            Operation::ModifyEntry { table, key, action } => {
                let (id, entry) = self.entry(*table, key, action)?;
                updates.push(Update::ModifyEntry(id, entry));
            }
            Operation::DeleteEntry { table, key } => {
                let (id, matches, priority) = self.key(*table, key)?;
                updates.push(Update::DeleteEntry(id, matches, priority));
            }
            Operation::SetDefault { table, action } => {
                let bound = self.table(*table)?;
                let call = action.as_ref().map(|call| self.call(bound, call));
                updates.push(Update::SetDefault(id_of(bound)?, call.transpose()?));
            }
            Operation::SetMember {
                profile,
                member,
                action,
            } => {
                let bound = &self.binding.profiles[profile];
                let id = bound.actions.get(&action.action).copied();
                let call = call_of(id, action)?;
                updates.push(Update::Member(
                    Mode::Set,
                    bound.profile,
                    *member,
                    Some(call),
                ));
            }
            Operation::DeleteMember { profile, member } => {
                let id = self.profile(*profile);
                updates.push(Update::Member(Mode::Delete, id, *member, None));
            }
            Operation::SetGroup {
                profile,
                group,
                members,
            } => {
                let members = members.iter().map(|one| (one.member, one.weight)).collect();
                let id = self.profile(*profile);
                updates.push(Update::Group(Mode::Set, id, *group, members));
            }
            Operation::DeleteGroup { profile, group } => {
                let id = self.profile(*profile);
                updates.push(Update::Group(Mode::Delete, id, *group, Vec::new()));
            }
            Operation::SetCounters { .. }
            | Operation::SetDirectCounter { .. }
            | Operation::SetMeters { .. }
            | Operation::SetDirectMeter { .. }
            | Operation::SetRegisters { .. } => self.push_cells(operation, updates)?,
            Operation::SetMulticast { group, replicas } => {
                let (mode, replicas) = match replicas {
                    Some(replicas) => (Mode::Set, self.copies(replicas)?),
                    None => (Mode::Delete, Vec::new()),
                };
                updates.push(Update::Multicast(mode, short(*group)?, replicas));
            }
            Operation::SetClone { session, clone } => {
                let (mode, mirror) = match clone {
                    Some(clone) => (Mode::Set, self.mirror(clone)?),
                    None => (Mode::Delete, Mirror::default()),
                };
                updates.push(Update::Mirror(mode, short(*session)?, mirror));
            }
            Operation::SetValueSet { set, members } => {
                let bound = &self.binding.value_sets[set];
                let members = members.iter().map(|member| joined(member, &bound.widths));
                let members: Vec<BigUint> = members.collect::<Result<_>>()?;
                updates.push(Update::SetValues(bound.set, members));
            }
        }
        Ok(())
    }

    /// Converts operations on counters, meters and registers.
    fn push_cells(&self, operation: &Operation, updates: &mut Vec<Update>) -> Result<()> {
        match operation {
            Operation::SetCounters {
                counter,
                indices,
                count,
            } => {
                let id = self.binding.counters[counter];
                let indices = cells(indices)?;
                updates.extend(indices.map(|cell| Update::SetCounter(id, cell, counter_of(count))));
            }
            Operation::SetDirectCounter {
                table,
                entry,
                count,
            } => match entry {
                EntryRef::Entry(key) => {
                    let (id, matches, priority) = self.key(*table, key)?;
                    let counter = counter_of(count);
                    updates.push(Update::SetEntryCounter(id, matches, priority, counter));
                }
                // BMv2 counts only hits, so the default entry's counter is always zero.
                EntryRef::Default if *count == Count::default() => {}
                EntryRef::Default => return Err(no_default("counter")),
            },
            Operation::SetMeters {
                meter,
                indices,
                rates,
            } => {
                let id = self.binding.meters[meter];
                let rates = rates.as_ref().map(rates_of);
                let indices = cells(indices)?;
                updates.extend(indices.map(|cell| Update::SetMeter(id, cell, rates)));
            }
            Operation::SetDirectMeter {
                table,
                entry,
                rates,
            } => match (entry, rates) {
                (EntryRef::Entry(key), rates) => {
                    let (id, matches, priority) = self.key(*table, key)?;
                    let rates = rates.as_ref().map(rates_of);
                    updates.push(Update::SetEntryMeter(id, matches, priority, rates));
                }
                (EntryRef::Default, None) => {}
                (EntryRef::Default, Some(_)) => return Err(no_default("meter")),
            },
            Operation::SetRegisters {
                register,
                indices,
                numbers,
            } => {
                let id = self.binding.registers[register];
                let [number] = &numbers[..] else {
                    return Err(Problem::unsupported("registers of structures"));
                };
                let number = big(number);
                let indices = cells(indices)?;
                updates.extend(indices.map(|cell| Update::SetRegister(id, cell, number.clone())));
            }
            other => unreachable!("{other:?} has no cells"),
        }
        Ok(())
    }

    fn table(&self, id: u32) -> Result<&BoundTable> {
        let bound = self.binding.tables.get(&id);
        bound.ok_or_else(|| Problem::invalid(format!("there is no table {id:#010x}")))
    }

    fn profile(&self, id: u32) -> ProfileId {
        self.binding.profiles[&id].profile
    }

    fn entry(
        &self,
        table: u32,
        key: &EntryKey,
        action: &ActionRef,
    ) -> Result<(TableId, TableEntry)> {
        let (id, matches, priority) = self.key(table, key)?;
        let action = match action {
            ActionRef::Call(call) => EntryAction::Call(self.call(self.table(table)?, call)?),
            ActionRef::Member(id) => EntryAction::Member(*id),
            ActionRef::Group(id) => EntryAction::Group(*id),
        };
        let entry = TableEntry {
            matches,
            priority,
            action,
            // The session handles the time-out; the program only records when an entry was last
            // hit.
            idle_timeout_ns: 0,
        };
        Ok((id, entry))
    }

    /// A table, with an entry's match and priority in the program's form.
    pub fn key(&self, table: u32, key: &EntryKey) -> Result<(TableId, Vec<P4Match>, u32)> {
        let bound = self.table(table)?;
        let id = id_of(bound)?;
        let matches = bound.parts.iter().map(|part| part_of(part, key));
        let matches = matches.collect::<Result<_>>()?;
        Ok((id, matches, u32::try_from(key.priority).unwrap_or(0)))
    }

    fn call(&self, bound: &BoundTable, call: &ActionCall) -> Result<P4Call> {
        call_of(bound.actions.get(&call.action).copied(), call)
    }

    fn mirror(&self, clone: &CloneSession) -> Result<Mirror> {
        Ok(Mirror {
            group: None,
            replicas: self.copies(&clone.replicas)?,
            length_max_bytes: Some(clone.length_bytes).filter(|bytes| *bytes > 0),
        })
    }

    fn copies(&self, replicas: &[Replica]) -> Result<Vec<Copy>> {
        let copy = |replica: &Replica| {
            let port = match (replica.port, self.cpu_port) {
                (SDN_PORT_CPU, Some(port)) => port,
                (SDN_PORT_CPU, None) => {
                    return Err(Problem::invalid("the switch has no port to the controller"));
                }
                (port, _) => port,
            };
            Ok(Copy {
                port,
                instance: short(replica.instance)?,
            })
        };
        replicas.iter().map(copy).collect()
    }
}

fn id_of(bound: &BoundTable) -> Result<TableId> {
    bound.table.ok_or_else(|| {
        Problem::denied("the table only ever runs one action, which is the program's")
    })
}

fn call_of(id: Option<ActionId>, call: &ActionCall) -> Result<P4Call> {
    let what = || Problem::invalid(format!("there is no action {:#010x} there", call.action));
    Ok(P4Call {
        action: id.ok_or_else(what)?,
        data: call.arguments.iter().map(big).collect(),
    })
}

fn part_of(part: &Part, key: &EntryKey) -> Result<P4Match> {
    let matched = &key.matches[part.field];
    if let Some(names) = &part.names {
        return error_of(names, matched);
    }
    let width = u64::from(part.width);
    let shifted = |value: &Value| {
        let number = big(value) << part.shift;
        if number.bits() > width {
            let text = format!("{value} does not fit the program's field of {width} bits");
            return Err(Problem::new(Code::OutOfRange, text));
        }
        Ok(number)
    };
    let ones = || ((BigUint::from(1_u8) << part.shared) - 1_u8) << part.shift;
    let found = match (matched, part.kind) {
        (Match::Any, _) => P4Match::Any,
        (Match::Exact(value), Kind::Ternary) => P4Match::Ternary(shifted(value)?, ones()),
        (Match::Exact(value), _) => P4Match::Exact(shifted(value)?),
        (Match::Prefix(value, length), _) => P4Match::Lpm(shifted(value)?, *length),
        (Match::Masked(value, mask), _) => P4Match::Ternary(shifted(value)?, shifted(mask)?),
        (Match::Range(low, high), _) => P4Match::Range(shifted(low)?, shifted(high)?),
    };
    Ok(found)
}

/// Converts a match on a field of type `error`.
///
/// Its values are the names of its members (P4Runtime 1.4.1, section 8.4.5, "enum, serializable
/// enum and error").
fn error_of(names: &ErrorNames, matched: &Match) -> Result<P4Match> {
    let value = match matched {
        Match::Any => return Ok(P4Match::Any),
        Match::Exact(value) => value,
        _ => {
            let text =
                "a field of type error is matched by one name; give no mask, prefix or range";
            return Err(Problem::unsupported(text));
        }
    };
    let mut known = names.iter();
    let found = known.find(|(_, name)| name.as_bytes() == value.as_bytes());
    match found {
        Some((code, _)) => Ok(P4Match::Exact((*code).into())),
        None => {
            let known: Vec<&str> = names.values().map(String::as_str).collect();
            let given = String::from_utf8_lossy(value.as_bytes());
            Err(Problem::invalid(format!(
                "the program has no error {given:?}; it has {}",
                known.join(", ")
            )))
        }
    }
}

/// Converts a key of the program, with its parts in the order of P4Info's fields.
pub fn key_from(bound: &BoundTable, matches: &[P4Match], priority: u32) -> EntryKey {
    let mut found = vec![Match::Any; bound.parts.len()];
    for (part, matched) in bound.parts.iter().zip(matches) {
        found[part.field] = match_from(part, matched);
    }
    EntryKey {
        priority: i32::try_from(priority).unwrap_or(i32::MAX),
        matches: found,
    }
}

fn match_from(part: &Part, matched: &P4Match) -> Match {
    // Bits beside a slice match nothing and are ignored.
    let shared = (BigUint::from(1_u8) << part.shared) - 1_u8;
    let own = |number: &BigUint| match &part.names {
        Some(names) => name_of(names, number),
        None => value_of(&((number >> part.shift) & &shared)),
    };
    let mask_of = |mask: &BigUint| value_of(&((mask >> part.shift) & &shared));
    let ones = Value::ones(part.shared);
    match matched {
        P4Match::Any | P4Match::Lpm(_, 0) => Match::Any,
        P4Match::Exact(number) => Match::Exact(own(number)),
        P4Match::Lpm(number, length) => Match::Prefix(own(number), *length),
        P4Match::Ternary(number, mask) => match mask_of(mask) {
            mask if mask.is_zero() => Match::Any,
            mask if mask == ones && (part.asked == MatchKind::Optional || part.names.is_some()) => {
                Match::Exact(own(number))
            }
            mask => Match::Masked(own(number), mask),
        },
        P4Match::Range(low, high) if own(low).is_zero() && own(high) == ones => Match::Any,
        P4Match::Range(low, high) => Match::Range(own(low), own(high)),
    }
}

/// The name of an error; its number, if the program does not name it.
fn name_of(names: &ErrorNames, number: &BigUint) -> Value {
    let code = u64::try_from(number).ok();
    let name = code.and_then(|code| names.get(&code)).cloned();
    Value::shortest(name.unwrap_or_else(|| number.to_string()).as_bytes())
}

/// Converts an action call of the program; `None` if the table has no such action.
pub fn call_from(
    actions: &BTreeMap<u32, ActionId>,
    program: &Program,
    call: &P4Call,
) -> Option<ActionCall> {
    let name = &program.action(call.action).name;
    let mut actions = actions.iter();
    let (id, _) = actions.find(|(_, own)| program.action(**own).name == *name)?;
    Some(ActionCall {
        action: *id,
        arguments: call.data.iter().map(value_of).collect(),
    })
}

/// The answer to a refusal of the program's state.
pub fn problem_of(error: &WriteError) -> Problem {
    let code = match error {
        WriteError::AlreadyExists(_) => Code::AlreadyExists,
        WriteError::NotFound(_) => Code::NotFound,
        WriteError::OutOfRange(_) => Code::OutOfRange,
        WriteError::ResourceExhausted(_) => Code::ResourceExhausted,
        WriteError::PermissionDenied(_) => Code::PermissionDenied,
        WriteError::FailedPrecondition(_) => Code::FailedPrecondition,
        _ => Code::InvalidArgument,
    };
    Problem::new(code, error.to_string())
}

/// A number as P4Runtime writes it.
pub fn value_of(number: &BigUint) -> Value {
    Value::shortest(&number.to_bytes_be())
}

fn big(value: &Value) -> BigUint {
    BigUint::from_bytes_be(value.as_bytes())
}

fn counter_of(count: &Count) -> Counter {
    Counter {
        packets: count.packets,
        bytes: count.bytes,
    }
}

fn rates_of(rates: &Rates) -> MeterRates {
    MeterRates {
        committed: Rate {
            per_second: rates.committed,
            burst: rates.committed_burst,
        },
        peak: Rate {
            per_second: rates.peak,
            burst: rates.peak_burst,
        },
    }
}

fn cells(indices: &std::ops::Range<u64>) -> Result<std::ops::Range<u32>> {
    let count = indices.end - indices.start;
    match (u32::try_from(indices.start), u32::try_from(indices.end)) {
        (Ok(start), Ok(end)) if count <= MAX_CELLS => Ok(start..end),
        _ => Err(Problem::new(
            Code::ResourceExhausted,
            format!("{count} cells at once; set {MAX_CELLS} at most"),
        )),
    }
}

fn short(number: u32) -> Result<u16> {
    u16::try_from(number)
        .map_err(|_| Problem::invalid(format!("{number} does not fit into 16 bits")))
}

/// Joins the fields of a value set's member into one number.
fn joined(member: &[Match], widths: &[u32]) -> Result<BigUint> {
    let mut number = BigUint::default();
    for (matched, width) in member.iter().zip(widths) {
        let Match::Exact(value) = matched else {
            return Err(Problem::unsupported(
                "members of value sets that are not exact; give each value by itself",
            ));
        };
        number = (number << *width) | big(value);
    }
    Ok(number)
}

fn no_default(what: &str) -> Problem {
    Problem::unsupported(format!(
        "the {what} of a default entry: only entries that packets meet have one"
    ))
}
