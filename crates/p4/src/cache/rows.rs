//! Which segments asked a table, and what it answered: so that a write finds those that it touches.
//!
//! One list for each table, without gaps; a row has the segment, the answer, the key and the bits of
//! it that decided. A write looks at the rows of its table and at no other segment.

use crate::program::table::Table;

use super::segment::{Consult, NONE};

/// A segment that asked.
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
    /// Of each row the key, then the examined bits.
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

    /// Adds a consult of a segment, whose keys are given; its row.
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

    /// Takes a row out; the segment whose row has its place now, if another has.
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

    /// Appends the segments whose row is such.
    pub(crate) fn find(&self, is_such: impl Fn(&Row) -> bool, found: &mut Vec<u32>) {
        let rows = self.rows.iter().filter(|row| is_such(row));
        found.extend(rows.map(|row| row.segment));
    }

    /// Appends the segments of which some packet would meet a new entry: one that matches where the
    /// key was looked at, and is not worse than what was found.
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
