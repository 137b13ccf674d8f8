//! A page of an answer: a limited number of rows, starting at a place.
//!
//! 1. Pages of one request are consecutive: the next begins where [`Page::next`] says, and each
//!    requested row is in exactly one page.
//! 2. A page looks at no more rows than it has room for, whether they pass a filter or not.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};

use crate::change::EntryKey;

/// The progress of a request: everything before this place has been read.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    /// The table, array or profile.
    id: u32,
    after: After,
}

#[derive(Clone, Debug, Default)]
enum After {
    #[default]
    Nothing,
    /// Rows below this index.
    Index(u64),
    /// Rows up to and including this key.
    Key(EntryKey),
}

/// A part of an answer.
#[derive(Debug)]
pub(super) struct Page {
    from: Place,
    room: usize,
    /// Where the next page begins; `None` if this is the last.
    pub(super) next: Option<Place>,
}

impl Page {
    /// Creates a page of up to `room` rows.
    pub(super) fn new(from: Place, room: usize) -> Page {
        Page {
            from,
            room,
            next: None,
        }
    }

    /// Where to begin within `id`; `None` if none of it is in this page.
    fn begin(&mut self, id: u32) -> Option<After> {
        if id < self.from.id || self.next.is_some() {
            return None;
        }
        let after = match id == self.from.id {
            true => self.from.after.clone(),
            false => After::Nothing,
        };
        if self.room == 0 {
            self.next = Some(Place { id, after });
            return None;
        }
        Some(after)
    }

    /// The indices of an array that are in this page.
    pub(super) fn indices(&mut self, id: u32, range: Range<u64>) -> Range<u64> {
        let start = match self.begin(id) {
            None => return 0..0,
            Some(After::Index(index)) => range.start.max(index),
            Some(_) => range.start,
        };
        let end = range
            .end
            .min(start.saturating_add(self.room as u64))
            .max(start);
        self.room -= usize::try_from(end - start).unwrap_or(self.room);
        if end < range.end {
            self.next = Some(Place {
                id,
                after: After::Index(end),
            });
        }
        start..end
    }

    /// The numbered rows that are in this page.
    pub(super) fn numbered<'m, V>(
        &mut self,
        id: u32,
        rows: &'m BTreeMap<u32, V>,
    ) -> Vec<(u32, &'m V)> {
        let start = match self.begin(id) {
            None => return Vec::new(),
            Some(After::Index(index)) => index,
            Some(_) => 0,
        };
        let Ok(start) = u32::try_from(start) else {
            return Vec::new();
        };
        let mut rest = rows.range(start..);
        let found = rest.by_ref().take(self.room);
        let found: Vec<_> = found.map(|(number, row)| (*number, row)).collect();
        self.room -= found.len();
        if let Some((number, _)) = rest.next() {
            let after = After::Index(u64::from(*number));
            self.next = Some(Place { id, after });
        }
        found
    }

    /// The keyed rows that are in this page.
    pub(super) fn keyed<'m, V>(
        &mut self,
        id: u32,
        rows: &'m BTreeMap<EntryKey, V>,
    ) -> Vec<(&'m EntryKey, &'m V)> {
        let start = match self.begin(id) {
            None => return Vec::new(),
            Some(After::Key(key)) => Bound::Excluded(key),
            Some(_) => Bound::Unbounded,
        };
        let mut rest = rows.range((start, Bound::Unbounded));
        let found: Vec<_> = rest.by_ref().take(self.room).collect();
        self.room -= found.len();
        if let (Some((last, _)), Some(_)) = (found.last(), rest.next()) {
            let after = After::Key((*last).clone());
            self.next = Some(Place { id, after });
        }
        found
    }
}
