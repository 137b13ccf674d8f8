//! Lists each table's lookups by segments, so that a write finds those it touches.
//!
//! There is one list per table, without gaps. A row has the segment, the result, the key and
//! the key bits that decided. A write looks at the rows of its table and at no other segment.

use crate::program::table::Table;

use super::segment::{Consult, NONE};

/// A lookup of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) segment: u32,
    pub(crate) found: u32,
    pub(crate) member: u32,
    pub(crate) group: u32,
}

/// The rows of a table.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    /// Words of the table's key.
    words: usize,
    rows: Vec<Row>,
    /// For each row the key, then the examined bits.
    keys: Vec<u64>,
}

impl Rows {
    pub(crate) fn new(table: &Table) -> Rows {
        Rows {
            words: match table.key.is_empty() {
                true => 0,
                false => table.key_words as usize,
            },
            rows: Vec::new(),
            keys: Vec::new(),
        }
    }

    /// Adds a segment's lookup, with its keys. Returns its row.
    pub(crate) fn push(&mut self, segment: u32, consult: &Consult, keys: &[u64]) -> u32 {
        let first = consult.key as usize;
        self.keys
            .extend_from_slice(&keys[first..first + 2 * self.words]);
        self.rows.push(Row {
            segment,
            found: consult.found,
            member: consult.member,
            group: consult.group,
        });
        self.rows.len() as u32 - 1
    }

    /// Removes a row. Returns the segment whose row moved to its place, if any.
    pub(crate) fn remove(&mut self, row: u32) -> Option<u32> {
        let row = row as usize;
        let last = self.rows.len() - 1;
        self.rows.swap_remove(row);
        let size = 2 * self.words;
        self.keys
            .copy_within(last * size..(last + 1) * size, row * size);
        self.keys.truncate(last * size);
        (row < last).then(|| self.rows[row].segment)
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Appends the segments of the rows that satisfy `is_such`.
    pub(crate) fn find(&self, is_such: impl Fn(&Row) -> bool, found: &mut Vec<u32>) {
        let rows = self.rows.iter().filter(|row| is_such(row));
        found.extend(rows.map(|row| row.segment));
    }

    /// Appends the segments for which some packet would hit a new entry.
    ///
    /// The entry matches on the examined bits and beats the entry that was found.
    pub(crate) fn find_reached(
        &self,
        value: &[u64],
        mask: &[u64],
        is_better: impl Fn(u32) -> bool,
        found: &mut Vec<u32>,
    ) {
        let keys = self.keys.chunks_exact(2 * self.words);
        for (row, both) in self.rows.iter().zip(keys) {
            let (key, examined) = both.split_at(self.words);
            let words = key.iter().zip(examined).zip(value.iter().zip(mask));
            let differs = words.fold(0, |differs, ((key, examined), (value, mask))| {
                differs | (key ^ value) & examined & mask
            });
            if differs == 0 && (row.found == NONE || is_better(row.found)) {
                found.push(row.segment);
            }
        }
    }
}
