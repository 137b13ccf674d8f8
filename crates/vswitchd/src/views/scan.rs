//! Looks at all entries of the caches by slices, and keeps what a picture needs.
//!
//! `thalweg/talkers` copies all entries at once. A dashboard that stays open must not: workers
//! forward between the slices of a scan, and what is kept is bounded.
//!
//! 1. A step costs one slice of each worker.
//! 2. Twice [`KEPT`] entries are kept at most, and one that drops for each reason: those with the
//!    most packets, and the last used.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use thalweg_packet::Layout;
use thalweg_switch::{EntryPlace, MegaflowSlice, Megaflows, SlicedEntry, Switch};

use super::drops::{note_reasons, recency};

/// Numbers of entries in a slice.
const SLICE: u32 = 256;
/// Most entries that are kept at the end.
pub(super) const KEPT: usize = 256;

/// A scan, under way or finished.
#[derive(Debug, Default)]
pub struct EntryScan {
    from: u32,
    layout: Option<Arc<Layout>>,
    /// The entries with the most packets so far, up to twice [`KEPT`].
    pub(super) busiest: Vec<SlicedEntry>,
    /// For each reason, the entry that was used last of those that drop for it.
    pub(super) droppers: BTreeMap<&'static str, SlicedEntry>,
    /// Flows of the exact-match caches that lead to an entry.
    pub(super) exact: HashMap<EntryPlace, u32>,
    /// Entries seen.
    pub(super) seen: u64,
    /// Of these, entries that only the packet met for which they were made.
    pub(super) single: u64,
    now: Option<thalweg_packet::Instant>,
}

impl EntryScan {
    /// Looks at one slice; returns whether it was the last.
    pub fn step(&mut self, switch: &mut Switch) -> bool {
        let slice = switch.megaflow_slice(self.from, SLICE);
        let same = |known: &Arc<Layout>| Arc::ptr_eq(known, &slice.layout);
        if !self.layout.as_ref().is_none_or(same) {
            // Keys have other fields now, and the caches begin empty.
            *self = EntryScan::default();
            return false;
        }
        let next = slice.next;
        self.take(slice);
        match next {
            Some(next) => self.from = next,
            None => self.cut(),
        }
        next.is_none()
    }

    /// What the entries' views need to know of the switch.
    pub(super) fn context(&self, switch: &Switch) -> Megaflows {
        let layout = self.layout.clone();
        Megaflows {
            layout: layout.unwrap_or_else(|| switch.pipeline().layout().clone()),
            now: self.now.unwrap_or_else(|| switch.now()),
            entries: Vec::new(),
            is_cut: self.seen > self.busiest.len() as u64,
        }
    }

    fn take(&mut self, slice: MegaflowSlice) {
        (self.layout, self.now) = (Some(slice.layout), Some(slice.now));
        for place in slice.exact {
            *self.exact.entry(place).or_default() += 1;
        }
        for entry in slice.entries {
            self.seen += 1;
            self.single += u64::from(entry.report.counters.packets == 0);
            self.note_drops(&entry);
            self.busiest.push(entry);
        }
        if self.busiest.len() > 2 * KEPT {
            self.cut();
        }
    }

    fn note_drops(&mut self, entry: &SlicedEntry) {
        let mut reasons = Vec::new();
        note_reasons(&entry.report.effects, &mut reasons);
        for reason in reasons {
            let known = self.droppers.get(reason.name());
            let is_later = |known: &SlicedEntry| recency(&entry.report) < recency(&known.report);
            if known.is_none_or(is_later) {
                self.droppers.insert(reason.name(), entry.clone());
            }
        }
    }

    /// Keeps the busiest, most packets first.
    fn cut(&mut self) {
        let busiest = &mut self.busiest;
        busiest.sort_by_key(|entry| (Reverse(entry.report.counters.packets), entry.place));
        busiest.truncate(KEPT);
    }
}
