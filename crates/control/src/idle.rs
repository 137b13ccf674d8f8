//! Schedules when to check entries that have an idle time-out.
//!
//! There is no sweep: an entry is checked at the earliest time it could be due. If it was hit
//! meanwhile, it is checked again one time-out after the hit. The controller is notified each
//! time a whole time-out has passed (P4Runtime 1.5.0, "Table Idle Timeout Notification").

use std::collections::{BTreeMap, BTreeSet};

use thalweg_packet::Instant;

use crate::store::IdleEntry;

/// Maximum entries checked in one turn.
const MAX_TURN: usize = 1_024;

/// The timers, one for each entry that has a time-out.
#[derive(Debug, Default)]
pub(crate) struct IdleTimers {
    by_entry: BTreeMap<IdleEntry, Instant>,
    by_time: BTreeSet<(Instant, IdleEntry)>,
}

impl IdleTimers {
    /// Sets an entry's timer, in place of its earlier one.
    pub(crate) fn set(&mut self, entry: IdleEntry, at: Instant) {
        if let Some(before) = self.by_entry.insert(entry.clone(), at) {
            self.by_time.remove(&(before, entry.clone()));
        }
        self.by_time.insert((at, entry));
    }

    /// Takes entries that are due and removes their timers; at most [`MAX_TURN`] at once.
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

    /// When the next entry must be checked.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Forgets all timers.
    pub(crate) fn clear(&mut self) {
        *self = IdleTimers::default();
    }
}
