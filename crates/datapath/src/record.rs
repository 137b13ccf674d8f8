//! A datapath's own hand on the record of what entries depend on.
//!
//! The control side may be searching the record; a burst does not wait for that. What cannot be
//! written at once is noted, and written in the same order when the record is free.
//!
//! 1. Notes are bounded: with [`NOTES_MAX`] of them, the datapath waits.

use std::sync::MutexGuard;

use thalweg_pipeline::Trace;

use crate::dependency::{Dependencies, Index};
use crate::entry::EntryId;

/// Invariant 1.
const NOTES_MAX: usize = 4_096;

/// What an entry depends on, or that it is gone.
#[derive(Debug)]
enum Note {
    Added(EntryId, Trace),
    Removed(EntryId),
}

/// The record, for maintainers that ask for it, and what is still to be written there.
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

    /// Notes what a new entry depends on.
    pub(crate) fn add(&mut self, entry: EntryId, trace: Trace) {
        self.write(Note::Added(entry, trace));
    }

    /// Forgets an entry.
    pub(crate) fn remove(&mut self, entry: EntryId) {
        self.write(Note::Removed(entry));
    }

    /// An entry depends on something else now.
    pub(crate) fn replace(&mut self, entry: EntryId, trace: Trace) {
        self.remove(entry);
        self.add(entry, trace);
    }

    fn write(&mut self, note: Note) {
        let Some(index) = &self.index else { return };
        let known = match self.notes.len() < NOTES_MAX {
            true => index.try_lock(),
            false => Some(index.lock()),
        };
        let Some(mut known) = known else {
            self.notes.push(note);
            return;
        };
        self.notes.drain(..).for_each(|note| note.apply(&mut known));
        note.apply(&mut known);
    }

    /// The record with all that was noted, once nobody else has it; `None` if there is none.
    pub(crate) fn lock(&mut self) -> Option<MutexGuard<'_, Dependencies>> {
        let mut known = self.index.as_ref()?.lock();
        self.notes.drain(..).for_each(|note| note.apply(&mut known));
        Some(known)
    }

    /// The record as it is, for reports.
    pub(crate) fn look(&self) -> Option<MutexGuard<'_, Dependencies>> {
        debug_assert!(self.notes.is_empty(), "nobody else has the record");
        self.index.as_ref().map(Index::lock)
    }
}

impl Note {
    fn apply(self, known: &mut Dependencies) {
        match self {
            Note::Added(entry, trace) => known.add(entry, &trace),
            Note::Removed(entry) => known.remove(entry),
        }
    }
}
