//! When entries are to be looked at that have an idle time-out.
//!
//! There is no sweep: an entry is looked at when it could be due at the earliest. If it was met
//! meanwhile, it is looked at again when that is a time-out ago. The controller is told each time
//! that a whole time-out has passed (P4Runtime 1.5.0, "Table Idle Timeout Notification").

use std::collections::{BTreeMap, BTreeSet};

use thalweg_packet::Instant;

use crate::store::IdleEntry;

/// How many entries are looked at in one turn.
const MAX_TURN: usize = 1_024;

/// One timer for each entry that has a time-out.
#[derive(Debug, Default)]
pub(crate) struct IdleTimers {
    by_entry: BTreeMap<IdleEntry, Instant>,
    by_time: BTreeSet<(Instant, IdleEntry)>,
}

impl IdleTimers {
    /// Looks at an entry at this time, and not when it was to be looked at before.
    pub(crate) fn set(&mut self, entry: IdleEntry, at: Instant) {
        if let Some(before) = self.by_entry.insert(entry.clone(), at) {
            self.by_time.remove(&(before, entry.clone()));
        }
        self.by_time.insert((at, entry));
    }

    /// Entries whose time has come, whose timers are gone now; some, if they are many.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<IdleEntry> {
        let mut due = Vec::new();
        while due.len() < MAX_TURN
            && let Some((at, _)) = self.by_time.first()
            && *at <= now
            && let Some((_, entry)) = self.by_time.pop_first()
        {
            self.by_entry.remove(&entry);
            due.push(entry);
        }
        due
    }

    /// When the next entry is to be looked at.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Forgets all timers.
    pub(crate) fn clear(&mut self) {
        *self = IdleTimers::default();
    }
}
