//! The entries of all workers' wildcard caches by slices, for a reader that must not hold up
//! packets.
//!
//! 1. Between two slices the workers forward. An entry that comes or goes meanwhile may be
//!    missing; one that stays is in one slice.
//! 2. Each worker's entry is told of by itself, also where several have the same region.

use std::sync::Arc;

use thalweg_packet::{Instant, Layout};
use thalweg_pipeline::RuleId;

use crate::megaflows::MegaflowReport;
use crate::message::{Answer, Command};
use crate::switch::Switch;

/// Where an entry is, as long as it is there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EntryPlace {
    /// The worker's number.
    pub worker: usize,
    /// The entry's number in the worker's cache.
    pub number: u32,
}

/// An entry of a slice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlicedEntry {
    /// Where it is.
    pub place: EntryPlace,
    /// Packets for which it was made, which its counters leave out.
    pub first_packets: u64,
    /// The rules that its walk met, in order.
    pub rules: Vec<RuleId>,
    /// The entry.
    pub report: MegaflowReport,
}

/// A slice of all workers' caches.
#[derive(Clone, Debug)]
pub struct MegaflowSlice {
    /// The layout of the entries' keys and masks.
    pub layout: Arc<Layout>,
    /// When the slice was asked for, in the time of the entries' uses.
    pub now: Instant,
    /// The entries.
    pub entries: Vec<SlicedEntry>,
    /// The entry of each flow in this slice of the exact-match caches.
    pub exact: Vec<EntryPlace>,
    /// Where the next slice begins; `None` if this was the last.
    pub next: Option<u32>,
}

impl Switch {
    /// A slice of the caches of each worker: `count` numbers, from number `from` on.
    ///
    /// Waits until the caches are repaired after the last change.
    pub fn megaflow_slice(&mut self, from: u32, count: u32) -> MegaflowSlice {
        self.settle();
        let mut slice = MegaflowSlice {
            layout: self.pipeline().layout().clone(),
            now: self.now(),
            entries: Vec::new(),
            exact: Vec::new(),
            next: None,
        };
        for answer in self.ask(|| Command::EntrySlice(from, count)) {
            let Answer::EntrySlice(worker, part) = answer else {
                continue;
            };
            let exact = part.exact.into_iter();
            slice.exact.extend(exact.map(|id| EntryPlace {
                worker,
                number: id.0,
            }));
            let entries = part.entries.into_iter();
            slice.entries.extend(entries.map(|mut view| SlicedEntry {
                place: EntryPlace {
                    worker,
                    number: view.id.0,
                },
                first_packets: view.first.packets,
                rules: std::mem::take(&mut view.rules),
                report: MegaflowReport::of(view),
            }));
            slice.next = slice.next.max(part.next);
        }
        slice
    }
}
