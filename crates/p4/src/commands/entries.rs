//! Commands for tables: entries, named by handles, and defaults.
//!
//! The lowest 24 bits of a handle are a place number; the bits above count how often that place
//! has been vacated. A new entry takes the lowest free place; the program's own entries take
//! the first places. So the handles in a file written for simple_switch name the same entries
//! here.

use crate::program::Program;
use crate::program::ids::TableId;
use crate::program::table::Table;
use crate::state::{ActionCall, EntryAction, TableEntry, Update};
use crate::stf::resolve;

use super::handles::Handles;
use super::{Asked, Note, Reader, Said, Word, Wrong, number, said, split_at_arrow};

/// Bits of a handle that hold the place.
const PLACE_BITS: u32 = 24;

/// An entry that has a handle.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// Whether the entry belongs to the program and can never change.
    is_own: bool,
    pub(super) entry: TableEntry,
}

impl Known {
    pub(super) fn written(entry: TableEntry) -> Known {
        Known {
            is_own: false,
            entry,
        }
    }
}

/// The program's own entries of each table.
pub(super) fn own(program: &Program) -> Vec<Handles<Known>> {
    program.tables.iter().map(own_of).collect()
}

fn own_of(table: &Table) -> Handles<Known> {
    let mut handles = Handles::default();
    for one in &table.entries {
        let action = EntryAction::Call(ActionCall {
            action: one.action,
            data: one.data.clone(),
        });
        let priority = if table.has_priorities {
            one.priority
        } else {
            0
        };
        handles.insert(Known {
            is_own: table.is_constant,
            entry: TableEntry {
                matches: one.matches.clone(),
                priority,
                action,
                idle_timeout_ns: 0,
            },
        });
    }
    handles
}

impl Reader<'_> {
    /// The table that a word names.
    pub(super) fn table(&self, word: &Word<'_>) -> Result<TableId, Wrong> {
        word.blame(resolve::table(self.program, word))
    }

    /// Inserts an entry, and sets its meter if `meter_array_set_rates` was given for the table.
    pub(super) fn insert(&self, table: TableId, entry: TableEntry) -> Asked {
        let mut updates = vec![Update::InsertEntry(table, entry.clone())];
        if let Some(rates) = self.rates.get(&table) {
            let matches = entry.matches.clone();
            let meter = Update::SetEntryMeter(table, matches, entry.priority, Some(*rates));
            updates.push(meter);
        }
        Asked {
            updates,
            note: Some(Note::Entry(table, entry)),
        }
    }

    /// The place that a handle of a table names, and the entry there.
    pub(super) fn entry(&self, table: TableId, word: &Word<'_>) -> Result<(u32, &Known), Wrong> {
        let handle: u32 = number(word)?;
        let place = handle & ((1 << PLACE_BITS) - 1);
        let entries = &self.entries[table.index()];
        let known = entries.get(place);
        let known = known.filter(|_| u32::from(entries.left(place)) == handle >> PLACE_BITS);
        let known = known.ok_or_else(|| {
            word.wrong(format!(
                "there is no entry {handle}; handles are those of simple_switch: the first entry of a \
                 table is 0"
            ))
        })?;
        Ok((place, known))
    }

    /// The same for an entry that a command may change.
    fn written(&self, table: TableId, handle: &Word<'_>) -> Result<(u32, TableEntry), Wrong> {
        match self.entry(table, handle)? {
            (_, known) if known.is_own => {
                let what = format!("entry {} is the program's own", &**handle);
                Err(handle.wrong(what))
            }
            (place, known) => Ok((place, known.entry.clone())),
        }
    }

    pub(super) fn table_add(&self, words: &[Word<'_>]) -> Said {
        let (before, after) = split_at_arrow(words);
        let [table, action, keys @ ..] = before else {
            return Err("it is table_add TABLE ACTION KEYS => PARAMETERS [PRIORITY]".into());
        };
        let id = self.table(table)?;
        let matches = self.matches(id, table, keys)?;
        let (parameters, priority) = self.priority(id, after)?;
        let action = EntryAction::Call(self.call(id, action, parameters)?);
        let entry = TableEntry {
            matches,
            priority,
            action,
            idle_timeout_ns: 0,
        };
        Ok(self.insert(id, entry))
    }

    pub(super) fn table_delete(&self, words: &[Word<'_>]) -> Said {
        let [table, handle] = words else {
            return Err("it is table_delete TABLE HANDLE".into());
        };
        let table = self.table(table)?;
        let (place, entry) = self.written(table, handle)?;
        let update = Update::DeleteEntry(table, entry.matches, entry.priority);
        Ok(said(update, Note::EntryGone(table, place)))
    }

    pub(super) fn table_modify(&self, words: &[Word<'_>]) -> Said {
        // simple_switch_CLI takes parameters with or without the arrow.
        let (before, after) = split_at_arrow(words);
        let [name, action, handle, rest @ ..] = before else {
            return Err("it is table_modify TABLE ACTION HANDLE => PARAMETERS".into());
        };
        let table = self.table(name)?;
        let parameters = [rest, after].concat();
        let action = EntryAction::Call(self.call(table, action, &parameters)?);
        let (place, entry) = self.written(table, handle)?;
        Ok(modify(table, place, TableEntry { action, ..entry }))
    }

    pub(super) fn table_set_timeout(&self, words: &[Word<'_>]) -> Said {
        let [name, handle, milliseconds] = words else {
            return Err("it is table_set_timeout TABLE HANDLE MILLISECONDS".into());
        };
        let table = self.table(name)?;
        let (place, entry) = self.written(table, handle)?;
        let idle_timeout_ns = u64::from(number::<u32>(milliseconds)?) * 1_000_000;
        let after = TableEntry {
            idle_timeout_ns,
            ..entry
        };
        Ok(modify(table, place, after))
    }

    pub(super) fn table_clear(&self, words: &[Word<'_>]) -> Said {
        let [table] = words else {
            return Err("it is table_clear TABLE".into());
        };
        let table = self.table(table)?;
        // The program's own entries go too, and the places start over as never vacated.
        Ok(said(Update::ClearTable(table), Note::Cleared(table)))
    }

    pub(super) fn table_set_default(&self, words: &[Word<'_>]) -> Said {
        let (before, after) = split_at_arrow(words);
        let [table, action, rest @ ..] = before else {
            return Err("it is table_set_default TABLE ACTION => PARAMETERS".into());
        };
        let table = self.table(table)?;
        let parameters = [rest, after].concat();
        let call = self.call(table, action, &parameters)?;
        Ok(Update::SetDefault(table, Some(call)).into())
    }

    pub(super) fn table_reset_default(&self, words: &[Word<'_>]) -> Said {
        let [table] = words else {
            return Err("it is table_reset_default TABLE".into());
        };
        let table = self.table(table)?;
        Ok(Update::SetDefault(table, None).into())
    }
}

fn modify(table: TableId, place: u32, entry: TableEntry) -> Asked {
    let update = Update::ModifyEntry(table, entry.clone());
    said(update, Note::EntryChanged(table, place, entry))
}
