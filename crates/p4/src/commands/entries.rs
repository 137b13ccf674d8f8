//! Commands that name entries: by handles, as simple_switch gives them out.
//!
//! A handle has the number of a place in its lowest 24 bits, and above them how often that place has
//! been left. A new entry has the first place that is free; the program's own entries have the first
//! of all. So the handles of a file that simple_switch has been given mean the same entries here.

use std::collections::BTreeSet;

use crate::program::ids::TableId;
use crate::program::table::Match;
use crate::state::{EntryAction, TableEntry, Update};
use crate::stf::resolve;

use super::{Reader, number, split_at_arrow};

/// Bits of a handle that are a place.
const PLACE_BITS: u32 = 24;

/// The entries of a table, by their places.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    places: Vec<Place>,
    free: BTreeSet<u32>,
}

/// A place, and how often it has been left.
#[derive(Clone, Debug)]
struct Place {
    left: u8,
    taken: Taken,
}

#[derive(Clone, Debug)]
enum Taken {
    No,
    /// By the program.
    Own,
    /// By what was inserted: its match and priority.
    Entry(Vec<Match>, u32),
}

/// What takes back that a command was read.
#[derive(Clone, Debug)]
pub(super) enum Undo {
    /// An entry has a place that it is not to have.
    Insert(TableId, u32),
    /// One that it is to have again.
    Delete(TableId, u32, Vec<Match>, u32),
    /// A table is to have its entries again.
    Clear(TableId, Places),
}

impl Places {
    /// Those of a table with so many entries of its program.
    fn new(own: usize) -> Places {
        let place = Place {
            left: 0,
            taken: Taken::Own,
        };
        Places {
            places: vec![place; own],
            free: BTreeSet::new(),
        }
    }

    fn insert(&mut self, matches: Vec<Match>, priority: u32) -> u32 {
        let taken = Taken::Entry(matches, priority);
        match self.free.pop_first() {
            Some(place) => {
                self.places[place as usize].taken = taken;
                place
            }
            None => {
                self.places.push(Place { left: 0, taken });
                self.places.len() as u32 - 1
            }
        }
    }

    /// The place that a handle names, and what has it.
    fn find(&self, handle: u32) -> Result<(u32, &Vec<Match>, u32), String> {
        let index = handle & ((1 << PLACE_BITS) - 1);
        let place = self.places.get(index as usize);
        let place = place.filter(|place| u32::from(place.left) == handle >> PLACE_BITS);
        match place.map(|place| &place.taken) {
            Some(Taken::Entry(matches, priority)) => Ok((index, matches, *priority)),
            Some(Taken::Own) => Err(format!("entry {handle} is the program's own")),
            Some(Taken::No) | None => Err(format!(
                "there is no entry {handle}; handles are those of simple_switch: the first entry of a \
                 table is 0"
            )),
        }
    }

    fn remove(&mut self, index: u32) {
        let place = &mut self.places[index as usize];
        place.taken = Taken::No;
        place.left = place.left.wrapping_add(1);
        self.free.insert(index);
    }

    /// Takes back that an entry came: the place has not been left.
    fn unplace(&mut self, index: u32) {
        self.places[index as usize].taken = Taken::No;
        self.free.insert(index);
    }

    /// Takes back that an entry went.
    fn replace(&mut self, index: u32, matches: Vec<Match>, priority: u32) {
        let place = &mut self.places[index as usize];
        place.taken = Taken::Entry(matches, priority);
        place.left = place.left.wrapping_sub(1);
        self.free.remove(&index);
    }
}

impl Reader<'_> {
    /// Forgets the handles that the last line has made or ended: for one that was refused after it
    /// was read.
    pub fn take_back(&mut self) {
        match self.undo.take() {
            Some(Undo::Insert(table, place)) => self.places(table).unplace(place),
            Some(Undo::Delete(table, place, matches, priority)) => {
                self.places(table).replace(place, matches, priority);
            }
            Some(Undo::Clear(table, before)) => *self.places(table) = before,
            None => {}
        }
    }

    fn places(&mut self, table: TableId) -> &mut Places {
        let own = self.program.table(table).entries.len();
        let places = self.entries.entry(table);
        places.or_insert_with(|| Places::new(own))
    }

    /// Gives handles to what an update inserts, and takes those of what it deletes.
    pub(super) fn note_handles(&mut self, update: &Update) {
        self.undo = match update {
            Update::InsertEntry(table, entry) => {
                let place = self
                    .places(*table)
                    .insert(entry.matches.clone(), entry.priority);
                Some(Undo::Insert(*table, place))
            }
            // The program's own go with the others, and no place has been left.
            Update::ClearTable(table) => {
                let before = std::mem::take(self.places(*table));
                Some(Undo::Clear(*table, before))
            }
            _ => self.undo.take(),
        };
    }

    pub(super) fn table_delete(&mut self, words: &[&str]) -> Result<Update, String> {
        let [table, handle] = words else {
            return Err("it is table_delete TABLE HANDLE".to_owned());
        };
        let table = resolve::table(self.program, table)?;
        let places = self.places(table);
        let (index, matches, priority) = places.find(number(handle)?)?;
        let matches = matches.clone();
        places.remove(index);
        self.undo = Some(Undo::Delete(table, index, matches.clone(), priority));
        Ok(Update::DeleteEntry(table, matches, priority))
    }

    pub(super) fn table_modify(&mut self, words: &[&str]) -> Result<Update, String> {
        // simple_switch_CLI takes parameters with the arrow and without.
        let (before, after) = split_at_arrow(words);
        let [name, action, handle, rest @ ..] = before else {
            return Err("it is table_modify TABLE ACTION HANDLE => PARAMETERS".to_owned());
        };
        let table = resolve::table(self.program, name)?;
        let parameters = [rest, after].concat();
        let action = EntryAction::Call(self.call(table, action, &parameters)?);
        let (_, matches, priority) = self.places(table).find(number(handle)?)?;
        let entry = TableEntry {
            matches: matches.clone(),
            priority,
            action,
            idle_timeout_ns: 0,
        };
        Ok(Update::ModifyEntry(table, entry))
    }
}
