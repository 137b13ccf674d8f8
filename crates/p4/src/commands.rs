//! Reads files of simple_switch_CLI commands for entries and other state.
//!
//! ```text
//!   table_add TABLE ACTION KEY ... => PARAMETER ... [PRIORITY]      smaller priority wins
//!   table_modify TABLE ACTION HANDLE => PARAMETER ...      table_delete TABLE HANDLE
//!   table_set_timeout TABLE HANDLE MILLISECONDS      table_clear TABLE
//!   table_set_default TABLE ACTION => PARAMETER ...      table_reset_default TABLE
//!   act_prof_create_member PROFILE ACTION PARAMETER ...
//!   act_prof_modify_member PROFILE ACTION MEMBER PARAMETER ...
//!   act_prof_delete_member PROFILE MEMBER
//!   act_prof_create_group PROFILE      act_prof_delete_group PROFILE GROUP
//!   act_prof_add_member_to_group PROFILE MEMBER GROUP
//!   act_prof_remove_member_from_group PROFILE MEMBER GROUP
//!   table_indirect_add TABLE KEY ... => MEMBER [PRIORITY]
//!   table_indirect_add_with_group TABLE KEY ... => GROUP [PRIORITY]
//!   table_indirect_delete TABLE HANDLE      table_indirect_reset_default TABLE
//!   mc_mgrp_create GROUP      mc_mgrp_destroy GROUP
//!   mc_node_create RID PORT ...      mc_node_update NODE PORT ...      mc_node_destroy NODE
//!   mc_node_associate GROUP NODE      mc_node_dissociate GROUP NODE
//!   mirroring_add SESSION PORT      mirroring_add_mc SESSION GROUP      mirroring_delete SESSION
//!   meter_set_rates METER INDEX RATE:BURST ...                      rates for each microsecond
//!   meter_array_set_rates METER RATE:BURST ...      of a direct meter all entries', and later ones'
//!   counter_write COUNTER INDEX PACKETS BYTES      counter_reset COUNTER
//!   register_write REGISTER INDEX VALUE      register_reset REGISTER
//!   pvs_add VALUE_SET VALUE      pvs_remove VALUE_SET VALUE      pvs_clear VALUE_SET
//!   set_crc16_parameters CALCULATION POLYNOMIAL INITIAL XOR REFLECT_DATA REFLECT_REMAINDER
//!   set_crc32_parameters, the same
//!   counter_read, table_dump, show_tables and others that only look: passed over
//! ```
//!
//! A key is `value`, `value&&&mask`, `value/length` or `low->high`. A value is a number, an
//! Ethernet address or a dotted quad. A name may be shortened to its last parts if that is
//! unambiguous. `#` begins a comment; `//` does not, as in simple_switch_CLI.
//!
//! Commands become [`Update`]s. A caller that has read a whole file knows that all of it is
//! readable, and writes it as one batch. Entries, members, groups and nodes are named by the
//! handles that simple_switch would assign (`handles`). A line takes effect on handles only
//! when the next line is read, so it can be taken back if its updates were refused.

mod arrays;
mod entries;
mod handles;
mod multicast;
mod profile;
#[cfg(test)]
mod tests;
mod value;
mod word;

pub(crate) use value::rate;
use word::{Word, Wrong};

use std::collections::BTreeMap;

use num_bigint::BigUint;

use crate::program::Program;
use crate::program::calculation::Algorithm;
use crate::program::ids::{ActionId, CalculationId, ProfileId, TableId, ValueSetId};
use crate::program::table::{KeyPart, Match, MatchKind};
use crate::state::{ActionCall, CrcParameters, EntryAction, MeterRates, TableEntry, Update};
use crate::stf::resolve;

/// A line that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct CommandError {
    /// The line, from 1.
    pub line: usize,
    /// The column of the faulty word, or of the first: in characters from 1.
    pub column: usize,
    /// A description of the fault.
    pub what: String,
}

/// One update that a line requests.
#[derive(Clone, PartialEq, Debug)]
pub struct Command {
    /// The line, from 1.
    pub line: usize,
    /// The column at which it begins, in characters from 1.
    pub column: usize,
    /// The update to write.
    pub update: Update,
}

/// Reads a file of commands for a program.
///
/// # Errors
/// Returns the first line that is no command, or that names something the program lacks.
pub fn parse(text: &str, program: &Program) -> Result<Vec<Command>, CommandError> {
    let (commands, faults) = parse_all(text, program);
    match faults.into_iter().next() {
        None => Ok(commands),
        Some(first) => Err(first),
    }
}

/// Reads a file of commands for a program, and collects commands and errors.
///
/// As in simple_switch, which also continues, a line that cannot be read takes no handle.
pub fn parse_all(text: &str, program: &Program) -> (Vec<Command>, Vec<CommandError>) {
    let mut reader = Reader::new(program);
    let (mut commands, mut faults) = (Vec::new(), Vec::new());
    for line in text.lines() {
        match reader.read_line(line) {
            Ok(read) => commands.extend(read),
            Err(fault) => faults.push(fault),
        }
    }
    (commands, faults)
}

/// Read-only commands, besides those that begin with `show_`.
const LOOKS: [&str; 18] = [
    "act_prof_dump",
    "act_prof_dump_group",
    "act_prof_dump_member",
    "counter_read",
    "get_time_elapsed",
    "get_time_since_epoch",
    "help",
    "mc_dump",
    "meter_get_rates",
    "mirroring_get",
    "pvs_get",
    "register_read",
    "switch_info",
    "table_dump",
    "table_dump_entry",
    "table_dump_entry_from_key",
    "table_info",
    "table_num_entries",
];

/// Reads commands line by line, and tracks the handles of earlier lines.
#[derive(Debug)]
pub struct Reader<'p> {
    line: usize,
    program: &'p Program,
    entries: Vec<handles::Handles<entries::Known>>,
    profiles: Vec<profile::Known>,
    multicast: multicast::Known,
    values: BTreeMap<ValueSetId, Vec<BigUint>>,
    /// By table, the rates that `meter_array_set_rates` gave; later entries get them too.
    rates: BTreeMap<TableId, MeterRates>,
    /// The last line's effect, until it is taken back or the next line is read.
    note: Option<Note>,
}

/// The updates that a line requests, and its effect on handles.
#[derive(Debug, Default)]
struct Asked {
    updates: Vec<Update>,
    note: Option<Note>,
}

type Said = Result<Asked, Wrong>;

/// A line's effect on the reader's state.
#[derive(Debug)]
enum Note {
    Entry(TableId, TableEntry),
    EntryChanged(TableId, u32, TableEntry),
    EntryGone(TableId, u32),
    Cleared(TableId),
    Member(ProfileId),
    MemberGone(ProfileId, u32),
    Group(ProfileId),
    GroupChanged(ProfileId, u32, profile::Members),
    GroupGone(ProfileId, u32),
    Node(multicast::Node),
    NodeChanged(u32, multicast::Node),
    NodeGone(u32),
    /// All nodes of a multicast group, which may be new.
    Nodes(u16, Vec<u32>),
    NoGroup(u16),
    Values(ValueSetId, Vec<BigUint>),
    Rates(TableId, MeterRates),
}

impl From<Update> for Asked {
    fn from(update: Update) -> Asked {
        Asked::all([update])
    }
}

impl Asked {
    fn all(updates: impl IntoIterator<Item = Update>) -> Asked {
        Asked {
            updates: updates.into_iter().collect(),
            note: None,
        }
    }
}

fn said(update: Update, note: Note) -> Asked {
    Asked {
        updates: vec![update],
        note: Some(note),
    }
}

impl<'p> Reader<'p> {
    /// Creates a reader for a program's commands.
    pub fn new(program: &'p Program) -> Reader<'p> {
        Reader {
            line: 0,
            program,
            entries: entries::own(program),
            profiles: vec![profile::Known::default(); program.profiles.len()],
            multicast: multicast::Known::default(),
            values: BTreeMap::new(),
            rates: BTreeMap::new(),
            note: None,
        }
    }

    /// Reads the next line. Returns its commands in order; none if the line is empty or
    /// read-only.
    ///
    /// # Errors
    /// Fails if the line is no command, or names something the program lacks.
    pub fn read_line(&mut self, text: &str) -> Result<Vec<Command>, CommandError> {
        self.line += 1;
        self.settle();
        let line = self.line;
        let text = text.split('#').next().unwrap_or_default();
        let words = Word::all(text);
        let Some((name, words)) = words.split_first() else {
            return Ok(Vec::new());
        };
        let asked = self.command(name, words);
        let asked = asked.map_err(|wrong| CommandError {
            line,
            column: wrong.column.unwrap_or(name.column()),
            what: wrong.what,
        })?;
        self.note = asked.note;
        let updates = asked.updates.into_iter();
        let commands = updates.map(|update| Command {
            line,
            column: name.column(),
            update,
        });
        Ok(commands.collect())
    }

    /// Discards the last line's effect on handles; call it when the line's updates were
    /// refused.
    pub fn take_back(&mut self) {
        self.note = None;
    }

    /// Applies the last line's effect.
    fn settle(&mut self) {
        let Some(note) = self.note.take() else {
            return;
        };
        match note {
            Note::Entry(table, entry) => {
                self.entries[table.index()].insert(entries::Known::written(entry));
            }
            Note::EntryChanged(table, place, entry) => {
                if let Some(known) = self.entries[table.index()].get_mut(place) {
                    known.entry = entry;
                }
            }
            Note::EntryGone(table, place) => self.entries[table.index()].remove(place),
            Note::Cleared(table) => self.entries[table.index()] = handles::Handles::default(),
            Note::Member(id) => self.profiles[id.index()].members.insert(()),
            Note::MemberGone(id, member) => self.profiles[id.index()].members.remove(member),
            Note::Group(id) => self.profiles[id.index()].groups.insert(Vec::new()),
            Note::GroupChanged(id, group, members) => {
                if let Some(known) = self.profiles[id.index()].groups.get_mut(group) {
                    *known = members;
                }
            }
            Note::GroupGone(id, group) => self.profiles[id.index()].groups.remove(group),
            Note::Node(node) => self.multicast.nodes.insert(node),
            Note::NodeChanged(handle, node) => {
                if let Some(known) = self.multicast.nodes.get_mut(handle) {
                    *known = node;
                }
            }
            Note::NodeGone(handle) => self.multicast.remove_node(handle),
            Note::Nodes(group, nodes) => self.multicast.set_nodes(group, nodes),
            Note::NoGroup(group) => self.multicast.remove_group(group),
            Note::Values(set, values) => drop(self.values.insert(set, values)),
            Note::Rates(table, rates) => drop(self.rates.insert(table, rates)),
        }
    }

    // One match, with an arm for each command.
    fn command(&self, name: &Word<'_>, words: &[Word<'_>]) -> Said {
        match &**name {
            "table_add" => self.table_add(words),
            "table_modify" => self.table_modify(words),
            "table_delete" | "table_indirect_delete" => self.table_delete(words),
            "table_set_timeout" => self.table_set_timeout(words),
            "table_clear" => self.table_clear(words),
            "table_set_default" => self.table_set_default(words),
            "table_reset_default" | "table_indirect_reset_default" => {
                self.table_reset_default(words)
            }
            "table_indirect_add" => self.table_indirect_add(words, EntryAction::Member),
            "table_indirect_add_with_group" => self.table_indirect_add(words, EntryAction::Group),
            "act_prof_create_member" | "table_indirect_create_member" => self.create_member(words),
            "act_prof_modify_member" | "table_indirect_modify_member" => self.modify_member(words),
            "act_prof_delete_member" | "table_indirect_delete_member" => self.delete_member(words),
            "act_prof_create_group" | "table_indirect_create_group" => self.create_group(words),
            "act_prof_delete_group" | "table_indirect_delete_group" => self.delete_group(words),
            "act_prof_add_member_to_group" | "table_indirect_add_member_to_group" => {
                self.add_to_group(words)
            }
            "act_prof_remove_member_from_group" | "table_indirect_remove_member_from_group" => {
                self.remove_from_group(words)
            }
            "mc_mgrp_create" => self.create_multicast_group(words),
            "mc_mgrp_destroy" => self.destroy_multicast_group(words),
            "mc_node_create" => self.create_node(words),
            "mc_node_update" => self.update_node(words),
            "mc_node_associate" => self.associate_node(words),
            "mc_node_dissociate" => self.dissociate_node(words),
            "mc_node_destroy" => self.destroy_node(words),
            "mirroring_add" => self.add_mirror(words),
            "mirroring_add_mc" => self.add_mirror_group(words),
            "mirroring_delete" => self.delete_mirror(words),
            "meter_set_rates" => self.set_rates(words),
            "meter_array_set_rates" => self.set_all_rates(words),
            "counter_write" => self.write_counter(words),
            "counter_reset" => self.reset_counter(words),
            "register_write" => self.write_register(words),
            "register_reset" => self.reset_register(words),
            "pvs_add" | "pvs_remove" | "pvs_clear" => self.values(name, words),
            "set_crc16_parameters" => self.set_crc(words, Algorithm::Crc16Custom),
            "set_crc32_parameters" => self.set_crc(words, Algorithm::Crc32Custom),
            looks if LOOKS.contains(&looks) || looks.starts_with("show_") => Ok(Asked::default()),
            other if other.starts_with("//") => {
                Err("a comment begins with `#`, here as for simple_switch_CLI".into())
            }
            other => Err(format!("the command {other:?} is not supported").into()),
        }
    }

    /// Sets a value set to its new members.
    fn values(&self, command: &str, words: &[Word<'_>]) -> Said {
        let name = word(words, 0)?;
        let found = self.program.parser.find_value_set(name);
        let set =
            found.ok_or_else(|| name.wrong(format!("there is no value set {:?}", &**name)))?;
        let mut values = self.values.get(&set).cloned().unwrap_or_default();
        match command {
            "pvs_clear" => values.clear(),
            _ => {
                // The value may be present already, or absent.
                let value = value_of(word(words, 1)?)?;
                values.retain(|one| *one != value);
                values.extend((command == "pvs_add").then_some(value));
            }
        }
        let update = Update::SetValues(set, values.clone());
        Ok(said(update, Note::Values(set, values)))
    }

    fn set_crc(&self, words: &[Word<'_>], algorithm: Algorithm) -> Said {
        let [name, polynomial, initial, final_xor, data, remainder] = words else {
            return Err(
                "it is set_crc16_parameters (or crc32) CALCULATION POLYNOMIAL INITIAL XOR \
                 REFLECT_DATA REFLECT_REMAINDER"
                    .into(),
            );
        };
        let mut all = self.program.calculations.calculations.iter();
        let found = all.position(|one| one.algorithm == algorithm && one.name == **name);
        let missing = || name.wrong(format!("no {algorithm:?} is named {:?}", &**name));
        let found = found.ok_or_else(missing)?;
        let flag = |word: &Word<'_>| match &**word {
            "true" | "True" | "1" => Ok(true),
            "false" | "False" | "0" => Ok(false),
            text => Err(word.wrong(format!("{text:?} is neither true nor false"))),
        };
        let hex = |word: &Word<'_>| {
            let text = &**word;
            let digits = text.strip_prefix("0x").unwrap_or(text);
            let bits = if algorithm == Algorithm::Crc16Custom {
                16
            } else {
                32
            };
            let number = u64::from_str_radix(digits, 16).ok();
            let number = number.filter(|number| number >> bits == 0);
            let wrong = || format!("{text:?} is no number of {bits} bits in hexadecimal");
            number.ok_or_else(|| word.wrong(wrong()))
        };
        let parameters = CrcParameters {
            polynomial: hex(polynomial)?,
            initial: hex(initial)?,
            final_xor: hex(final_xor)?,
            is_data_reflected: flag(data)?,
            is_remainder_reflected: flag(remainder)?,
        };
        Ok(Update::SetCrc(CalculationId(found as u32), parameters).into())
    }

    /// Reads the words for the key of a table, in a command that begins with these words.
    fn matches(
        &self,
        id: TableId,
        name: &Word<'_>,
        keys: &[Word<'_>],
    ) -> Result<Vec<Match>, Wrong> {
        let table = self.program.table(id);
        if keys.len() != table.key.len() {
            return Err(keys.last().unwrap_or(name).wrong(format!(
                "the key of {} has {} parts, not {}",
                table.name,
                table.key.len(),
                keys.len()
            )));
        }
        let pairs = table.key.iter().zip(keys);
        pairs.map(|(part, key)| read_match(part, key)).collect()
    }

    /// Splits off the priority, where entries have one.
    fn priority<'w, 'a>(
        &self,
        id: TableId,
        words: &'w [Word<'a>],
    ) -> Result<(&'w [Word<'a>], u32), Wrong> {
        let table = self.program.table(id);
        match (table.has_priorities, words) {
            (false, _) => Ok((words, 0)),
            // The smaller priority wins here, the larger inside.
            (true, [before @ .., priority]) => Ok((before, u32::MAX - number::<u32>(priority)?)),
            (true, []) => {
                Err(format!("an entry of {} needs a priority at its end", table.name).into())
            }
        }
    }

    /// Reads an action of a table, with its data.
    fn call(
        &self,
        table: TableId,
        name: &Word<'_>,
        values: &[Word<'_>],
    ) -> Result<ActionCall, Wrong> {
        let found = resolve::action(self.program, self.program.table(table), name);
        self.call_of(name.blame(found)?, name, values)
    }

    /// Reads an action with its data.
    fn call_of(
        &self,
        id: ActionId,
        name: &Word<'_>,
        values: &[Word<'_>],
    ) -> Result<ActionCall, Wrong> {
        let action = self.program.action(id);
        if values.len() != action.parameters.len() {
            return Err(name.wrong(format!(
                "the action {} takes {} parameters, not {}",
                action.name,
                action.parameters.len(),
                values.len()
            )));
        }
        let pairs = action.parameters.iter().zip(values);
        let data = pairs.map(|(parameter, word)| {
            let value = value_of(word)?;
            match value.bits() <= u64::from(parameter.width_bits) {
                true => Ok(value),
                false => Err(word.wrong(format!(
                    "{value} does not fit into the {} bits of {} of {}",
                    parameter.width_bits, parameter.name, action.name
                ))),
            }
        });
        Ok(ActionCall {
            action: id,
            data: data.collect::<Result<_, Wrong>>()?,
        })
    }
}

/// The words before and after `=>`.
fn split_at_arrow<'w, 'a>(words: &'w [Word<'a>]) -> (&'w [Word<'a>], &'w [Word<'a>]) {
    match words.iter().position(|word| &**word == "=>") {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (words, &[]),
    }
}

fn word<'w, 'a>(words: &'w [Word<'a>], index: usize) -> Result<&'w Word<'a>, Wrong> {
    let found = words.get(index);
    found.ok_or_else(|| "something is missing at the end".into())
}

fn value_of(word: &Word<'_>) -> Result<BigUint, Wrong> {
    word.blame(value::parse(word))
}

fn number<T: TryFrom<BigUint>>(word: &Word<'_>) -> Result<T, Wrong> {
    let number = value_of(word)?;
    T::try_from(number).map_err(|_| word.wrong(format!("{} is out of range", &**word)))
}

fn read_match(part: &KeyPart, word: &Word<'_>) -> Result<Match, Wrong> {
    let value = |text: &str| word.blame(value::parse(text));
    let found = if let Some((number, mask)) = word.split_once("&&&") {
        Match::Ternary(value(number)?, value(mask)?)
    } else if let Some((least, most)) = word.split_once("->") {
        Match::Range(value(least)?, value(most)?)
    } else if let Some((number, length)) = word.split_once('/') {
        let out_of_range = |_| word.wrong(format!("{length} is out of range"));
        Match::Lpm(
            value(number)?,
            value(length)?.try_into().map_err(out_of_range)?,
        )
    } else if part.kind == MatchKind::Lpm {
        value(word)?;
        return Err(word.wrong(format!(
            "{} is matched by prefix: write {}/LENGTH",
            part.name, &**word
        )));
    } else {
        Match::Exact(value(word)?)
    };
    word.blame(crate::state::check_match(part, &found))?;
    Ok(found)
}
