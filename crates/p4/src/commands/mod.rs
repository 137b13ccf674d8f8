//! Files of commands as simple_switch_CLI reads them, for entries.
//!
//! ```text
//!   table_add TABLE ACTION KEY ... => PARAMETER ... [PRIORITY]      smaller priority wins
//!   table_set_default TABLE ACTION => PARAMETER ...      table_clear TABLE
//!   table_modify TABLE ACTION HANDLE => PARAMETER ...      table_delete TABLE HANDLE
//!   table_indirect_delete TABLE HANDLE
//!   act_prof_create_member PROFILE ACTION PARAMETER ...      act_prof_create_group PROFILE
//!   act_prof_add_member_to_group PROFILE MEMBER GROUP
//!   table_indirect_add TABLE KEY ... => MEMBER [PRIORITY]
//!   table_indirect_add_with_group TABLE KEY ... => GROUP [PRIORITY]
//!   mc_mgrp_create GROUP      mc_node_create RID PORT ...      mc_node_associate GROUP NODE
//!   mirroring_add SESSION PORT      mirroring_add_mc SESSION GROUP
//!   meter_set_rates METER INDEX RATE:BURST ...                      rates for each microsecond
//!   pvs_add VALUE_SET VALUE
//!   register_write REGISTER INDEX VALUE
//!   counter_read, register_read, table_dump: nothing to set, so they are passed over
//! ```
//!
//! A key is `value`, `value&&&mask`, `value/length` or `low->high`; a value a number, an Ethernet
//! address or a dotted quad. A name may be shortened to its last parts if they are unambiguous. `#`
//! begins a comment.
//!
//! Commands become [`Update`]s; whoever has read a whole file knows that all of it can be read, and
//! writes it as one batch. The nodes of multicast groups exist in the file only. Members, groups and
//! nodes are known by their handles: the first of a profile, or of all nodes, is 0, the next 1; and
//! entries by those that simple_switch would give them (`entries`).

mod entries;
mod profile;
#[cfg(test)]
mod tests;
mod value;

pub(crate) use value::rate;

use std::collections::BTreeMap;

use num_bigint::BigUint;

use crate::program::Program;
use crate::program::ids::{MeterId, ProfileId, RegisterId, TableId, ValueSetId};
use crate::program::table::{Match, MatchKind, Table};
use crate::state::{
    ActionCall, EntryAction, MeterRates, Mirror, Mode, Rate, Replica, TableEntry, Update,
};
use crate::stf::resolve;

/// A line that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct CommandError {
    /// From 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// A line, and what it asks for.
#[derive(Clone, PartialEq, Debug)]
pub struct Command {
    /// From 1.
    pub line: usize,
    /// What is to be written.
    pub update: Update,
}

/// Reads a file of commands for a program.
///
/// # Errors
/// The first line that is no command, or names what the program does not have.
pub fn parse(text: &str, program: &Program) -> Result<Vec<Command>, CommandError> {
    let mut reader = Reader::new(program);
    let lines = text.lines().map(|line| reader.read_line(line));
    lines.filter_map(Result::transpose).collect()
}

/// Reads commands line by line; it knows the handles that lines before have made.
#[derive(Debug)]
pub struct Reader<'p> {
    line: usize,
    program: &'p Program,
    nodes: Vec<Vec<Replica>>,
    groups: BTreeMap<u16, Vec<Replica>>,
    profiles: BTreeMap<ProfileId, profile::Handles>,
    values: BTreeMap<ValueSetId, Vec<BigUint>>,
    entries: BTreeMap<TableId, entries::Places>,
    undo: Option<entries::Undo>,
}

impl<'p> Reader<'p> {
    /// For the commands of a program.
    pub fn new(program: &'p Program) -> Reader<'p> {
        Reader {
            line: 0,
            program,
            nodes: Vec::new(),
            groups: BTreeMap::new(),
            profiles: BTreeMap::new(),
            values: BTreeMap::new(),
            entries: BTreeMap::new(),
            undo: None,
        }
    }

    /// What the next line asks for; nothing if it is empty, or only looks.
    ///
    /// # Errors
    /// If it is no command, or names what the program does not have.
    pub fn read_line(&mut self, text: &str) -> Result<Option<Command>, CommandError> {
        self.line += 1;
        self.undo = None;
        let line = self.line;
        let text = text.split('#').next().unwrap_or_default();
        let words: Vec<&str> = text.split_whitespace().collect();
        let Some((name, words)) = words.split_first() else {
            return Ok(None);
        };
        let update = self.command(name, words);
        let update = update.map_err(|what| CommandError { line, what })?;
        if let Some(update) = &update {
            self.note_handles(update);
        }
        Ok(update.map(|update| Command { line, update }))
    }

    // One match, with an arm for each command.
    fn command(&mut self, name: &str, words: &[&str]) -> Result<Option<Update>, String> {
        let update = match name {
            "table_add" => self.table_add(words)?,
            "table_modify" => self.table_modify(words)?,
            "table_delete" | "table_indirect_delete" => self.table_delete(words)?,
            "table_clear" => Update::ClearTable(resolve::table(self.program, word(words, 0)?)?),
            "table_indirect_add" => self.table_indirect_add(words, EntryAction::Member)?,
            "table_indirect_add_with_group" => {
                self.table_indirect_add(words, EntryAction::Group)?
            }
            "act_prof_create_member" => self.create_member(words)?,
            "act_prof_create_group" => self.create_group(words)?,
            "act_prof_add_member_to_group" => self.add_to_group(words)?,
            "table_set_default" => {
                let (before, parameters) = split_at_arrow(words);
                let [table, action] = before else {
                    return Err("it is table_set_default TABLE ACTION => PARAMETERS".to_owned());
                };
                let table = resolve::table(self.program, table)?;
                Update::SetDefault(table, Some(self.call(table, action, parameters)?))
            }
            "mc_mgrp_create" => {
                let group = number(word(words, 0)?)?;
                if self.groups.insert(group, Vec::new()).is_some() {
                    return Err(format!("there is a group {group} already"));
                }
                Update::Multicast(Mode::Set, group, Vec::new())
            }
            "mc_node_create" => {
                let instance = number(word(words, 0)?)?;
                let ports = words[1..].iter().map(|port| number(port));
                let mut ports = ports.collect::<Result<Vec<u32>, _>>()?;
                // A node is a set of ports, which get their copies in order.
                ports.sort_unstable();
                if let Some(twice) = ports.windows(2).find(|pair| pair[0] == pair[1]) {
                    return Err(format!("the node has port {} twice", twice[0]));
                }
                let replicas = ports.into_iter().map(|port| Replica { port, instance });
                self.nodes.push(replicas.collect());
                return Ok(None);
            }
            "mc_node_associate" => {
                let group: u16 = number(word(words, 0)?)?;
                let node: usize = number(word(words, 1)?)?;
                let node = self
                    .nodes
                    .get(node)
                    .ok_or("there is no node of this handle")?;
                let replicas = self
                    .groups
                    .get_mut(&group)
                    .ok_or("there is no such group")?;
                replicas.extend_from_slice(node);
                Update::Multicast(Mode::Set, group, replicas.clone())
            }
            "mirroring_add" => {
                let port = number(word(words, 1)?)?;
                let replica = Replica { port, instance: 0 };
                Update::Mirror(
                    Mode::Set,
                    number(word(words, 0)?)?,
                    Mirror {
                        replicas: vec![replica],
                        ..Mirror::default()
                    },
                )
            }
            "mirroring_add_mc" => Update::Mirror(
                Mode::Set,
                number(word(words, 0)?)?,
                Mirror {
                    group: Some(number(word(words, 1)?)?),
                    ..Mirror::default()
                },
            ),
            "meter_set_rates" => self.set_rates(words)?,
            "register_write" => {
                let name = word(words, 0)?;
                let registers = &self.program.arrays.registers;
                let found = registers
                    .iter()
                    .position(|one| resolve::is_meant(&one.name, name));
                let found = found.ok_or_else(|| format!("there is no register {name:?}"))?;
                let (index, value) = (number(word(words, 1)?)?, value::parse(word(words, 2)?)?);
                Update::SetRegister(RegisterId(found as u32), index, value)
            }
            "pvs_add" => {
                let name = word(words, 0)?;
                let found = self.program.parser.find_value_set(name);
                let set = found.ok_or_else(|| format!("there is no value set {name:?}"))?;
                let values = self.values.entry(set).or_default();
                values.push(value::parse(word(words, 1)?)?);
                Update::SetValues(set, values.clone())
            }
            "counter_read" | "register_read" | "table_dump" => return Ok(None),
            other => return Err(format!("the command {other:?} is not supported")),
        };
        Ok(Some(update))
    }

    fn table_add(&self, words: &[&str]) -> Result<Update, String> {
        let (before, after) = split_at_arrow(words);
        let [table, action, keys @ ..] = before else {
            return Err("it is table_add TABLE ACTION KEYS => PARAMETERS [PRIORITY]".to_owned());
        };
        let id = resolve::table(self.program, table)?;
        let matches = self.matches(id, keys)?;
        let (parameters, priority) = self.priority(id, after)?;
        let action = EntryAction::Call(self.call(id, action, parameters)?);
        Ok(insert(id, matches, priority, action))
    }

    fn matches(&self, id: TableId, keys: &[&str]) -> Result<Vec<Match>, String> {
        let table = self.program.table(id);
        if keys.len() != table.key.len() {
            return Err(format!(
                "the key of {} has {} parts, not {}",
                table.name,
                table.key.len(),
                keys.len()
            ));
        }
        let keys = keys.iter().enumerate();
        keys.map(|(place, key)| read_match(table, place, key))
            .collect()
    }

    /// What stands before the priority, where entries have one.
    fn priority<'w, 'a>(
        &self,
        id: TableId,
        words: &'w [&'a str],
    ) -> Result<(&'w [&'a str], u32), String> {
        let table = self.program.table(id);
        match (table.has_priorities, words) {
            (false, _) => Ok((words, 0)),
            // The smaller wins here, the larger inside.
            (true, [before @ .., priority]) => Ok((before, u32::MAX - number::<u32>(priority)?)),
            (true, []) => Err(format!(
                "an entry of {} needs a priority at its end",
                table.name
            )),
        }
    }

    fn call(&self, table: TableId, action: &str, values: &[&str]) -> Result<ActionCall, String> {
        let action = resolve::action(self.program, self.program.table(table), action)?;
        let data: Vec<BigUint> = values
            .iter()
            .map(|value| value::parse(value))
            .collect::<Result<_, _>>()?;
        Ok(ActionCall { action, data })
    }

    fn set_rates(&self, words: &[&str]) -> Result<Update, String> {
        let name = word(words, 0)?;
        let meters = &self.program.arrays.meters;
        let found = meters
            .iter()
            .position(|one| resolve::is_meant(&one.name, name));
        let found = found.ok_or_else(|| format!("there is no meter {name:?}"))?;
        let mut rates = Vec::new();
        for rate in &words[2.min(words.len())..] {
            rates.push(value::rate(rate)?);
        }
        if rates.len() != meters[found].rate_count as usize {
            return Err(format!("{name} takes {} rates", meters[found].rate_count));
        }
        let (committed, peak): (Rate, Rate) = (rates[0], rates[rates.len() - 1]);
        let rates = Some(MeterRates { committed, peak });
        Ok(Update::SetMeter(
            MeterId(found as u32),
            number(word(words, 1)?)?,
            rates,
        ))
    }
}

fn insert(table: TableId, matches: Vec<Match>, priority: u32, action: EntryAction) -> Update {
    let entry = TableEntry {
        matches,
        priority,
        action,
        idle_timeout_ns: 0,
    };
    Update::InsertEntry(table, entry)
}

/// What stands before and after `=>`.
fn split_at_arrow<'w, 'a>(words: &'w [&'a str]) -> (&'w [&'a str], &'w [&'a str]) {
    match words.iter().position(|word| *word == "=>") {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (words, &[]),
    }
}

fn word<'a>(words: &[&'a str], index: usize) -> Result<&'a str, String> {
    let found = words.get(index).copied();
    found.ok_or_else(|| "something is missing at the end".to_owned())
}

fn number<T: TryFrom<BigUint>>(text: &str) -> Result<T, String> {
    let number = value::parse(text)?;
    T::try_from(number).map_err(|_| format!("{text} is out of range"))
}

fn read_match(table: &Table, place: usize, text: &str) -> Result<Match, String> {
    let part = &table.key[place];
    if let Some((value, mask)) = text.split_once("&&&") {
        return Ok(Match::Ternary(value::parse(value)?, value::parse(mask)?));
    }
    if let Some((least, most)) = text.split_once("->") {
        return Ok(Match::Range(value::parse(least)?, value::parse(most)?));
    }
    if let Some((value, length)) = text.split_once('/') {
        return Ok(Match::Lpm(value::parse(value)?, number(length)?));
    }
    let value = value::parse(text)?;
    match part.kind {
        MatchKind::Lpm => Err(format!(
            "{} is matched by prefix: write {text}/LENGTH",
            part.name
        )),
        _ => Ok(Match::Exact(value)),
    }
}
