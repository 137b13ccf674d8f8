//! Entries by slices, for a reader that must not hold up packets.
//!
//! A reader asks for a few numbers at a time, with bursts in between. It sees each entry that
//! stays where it is once; those that come or go meanwhile it may miss.
//!
//! 1. A slice costs what its numbers cost, however many entries there are.

use crate::core::Core;
use crate::datapath::{Datapath, EntryView, with_core};
use crate::entry::EntryId;

/// A slice of a worker's caches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntrySlice {
    /// The entries of the wildcard cache with these numbers.
    pub entries: Vec<EntryView>,
    /// The entry of each flow in these places of the exact-match cache.
    pub exact: Vec<EntryId>,
    /// The number at which the next slice begins; `None` if this was the last.
    pub next: Option<u32>,
}

impl Datapath {
    /// Looks at `count` numbers of entries, and as many places of the exact-match cache, from
    /// number `from` on.
    pub fn entry_slice(&self, from: u32, count: u32) -> EntrySlice {
        with_core!(&self.core, core => core.slice(from, count))
    }
}

impl<const W: usize> Core<W> {
    fn slice(&self, from: u32, count: u32) -> EntrySlice {
        let numbers = self.entries.numbers();
        let places = self.microflow.capacity() as u32;
        let end = from.saturating_add(count);
        let ids = (from..end.min(numbers)).map(EntryId);
        let ids = ids.filter(|id| self.entries.is_there(*id));
        let occupants = (from..end.min(places)).filter_map(|place| {
            let (id, generation) = self.microflow.occupant(place as usize)?;
            let is_there = self.entries.is_there(id) && self.entries.is_current(id, generation);
            is_there.then_some(id)
        });
        EntrySlice {
            entries: ids.map(|id| self.view(id)).collect(),
            exact: occupants.collect(),
            next: (end < numbers.max(places)).then_some(end),
        }
    }
}
