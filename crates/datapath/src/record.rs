//! A datapath's access to the record of what entries depend on.
//!
//! The control side may be searching the record, and a burst does not wait for that. Updates
//! that cannot be written at once are noted, and written in the same order when the record is
//! free.
//!
//! 1. Notes are bounded: with [`NOTES_MAX`] of them, the datapath waits.

use thalweg_pipeline::Trace;

use crate::dependency::{Dependencies, Index, Known};
use crate::entry::EntryId;
use crate::sync::MutexGuard;

/// Most notes (invariant 1). In a model check so few that the limit is reached.
const NOTES_MAX: usize = if cfg!(thalweg_model) { 1 } else { 4_096 };

/// An update of the record that is not written yet.
#[derive(Debug)]
enum Note {
    Set(Box<(EntryId, Trace, Known)>),
    Removed(EntryId),
}

/// The record, if the maintainer needs it, and the notes for it.
#[derive(Debug)]
pub(crate) struct Record {
    index: Option<Index>,
    notes: Vec<Note>,
}

impl Record {
    pub(crate) fn new(index: Option<Index>) -> Record {
        Record {
            index,
            notes: Vec::new(),
        }
    }

    pub(crate) fn index(&self) -> Option<&Index> {
        self.index.as_ref()
    }

    /// Records what a new or repaired entry depends on; some of its walk's lookups were known.
    /// Returns the trace if it is no longer needed.
    pub(crate) fn set(&mut self, entry: EntryId, trace: Trace, known: Known) -> Option<Trace> {
        let Some(index) = &self.index else {
            return Some(trace);
        };
        match free(index, &mut self.notes) {
            Some(mut record) => {
                record.set(entry, &trace, &known);
                Some(trace)
            }
            None => {
                self.notes.push(Note::Set(Box::new((entry, trace, known))));
                None
            }
        }
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, entry: EntryId) {
        let Some(index) = &self.index else { return };
        match free(index, &mut self.notes) {
            Some(mut record) => record.remove(entry),
            None => self.notes.push(Note::Removed(entry)),
        }
    }

    /// Locks the record and writes all notes; `None` if there is no record.
    pub(crate) fn lock(&mut self) -> Option<MutexGuard<'_, Dependencies>> {
        let mut record = self.index.as_ref()?.lock();
        write(&mut self.notes, &mut record);
        Some(record)
    }

    /// Locks the record as it is, for reports.
    pub(crate) fn look(&self) -> Option<MutexGuard<'_, Dependencies>> {
        debug_assert!(self.notes.is_empty(), "nobody else has the record");
        self.index.as_ref().map(Index::lock)
    }
}

/// Locks the record and writes all notes; `None` if it is locked elsewhere and notes have
/// room.
fn free<'a>(index: &'a Index, notes: &mut Vec<Note>) -> Option<MutexGuard<'a, Dependencies>> {
    let mut record = match notes.len() < NOTES_MAX {
        true => index.try_lock()?,
        false => index.lock(),
    };
    write(notes, &mut record);
    Some(record)
}

fn write(notes: &mut Vec<Note>, record: &mut Dependencies) {
    for note in notes.drain(..) {
        match note {
            Note::Set(walk) => record.set(walk.0, &walk.1, &walk.2),
            Note::Removed(entry) => record.remove(entry),
        }
    }
}
