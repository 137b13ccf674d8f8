//! The best precedence among changing records, without reading them all.
//!
//! Records are dense, as in a list whose last element takes the place of a removed one. Each
//! block of 64 has its maximum. So removing the best record costs a scan of one block and of
//! the blocks' maxima (8,000 for 500,000 records).
//!
//! 1. `blocks` has the maximum of each block, and `all` the maximum of `blocks`.

use crate::Precedence;
use crate::capacity::{grow, shrink};

const BLOCK_RECORDS: usize = 64;

/// The maxima of a list of precedences that is stored elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Highest {
    blocks: Vec<Precedence>,
    all: Precedence,
}

impl Highest {
    pub(crate) fn new() -> Highest {
        Highest {
            blocks: Vec::new(),
            all: Precedence::LOWEST,
        }
    }

    /// The best precedence; the lowest possible one if there are no records.
    #[inline(always)]
    pub(crate) fn all(&self) -> Precedence {
        self.all
    }

    /// Notes that a record was added at the end.
    pub(crate) fn push(&mut self, record: usize, precedence: Precedence) {
        if record.is_multiple_of(BLOCK_RECORDS) {
            grow(&mut self.blocks, 1);
            self.blocks.push(precedence);
        }
        self.raise(record, precedence);
        self.all = self.all.max(precedence);
    }

    /// Notes that a record was removed, and that the last one took its place; `len` records
    /// remain.
    pub(crate) fn swap_remove(
        &mut self,
        record: usize,
        removed: Precedence,
        len: usize,
        precedence_of: impl Fn(usize) -> Precedence,
    ) {
        let (block, last_block) = (record / BLOCK_RECORDS, len / BLOCK_RECORDS);
        self.rescan(last_block, len, &precedence_of);
        if block != last_block {
            if self.blocks[block] == removed {
                self.rescan(block, len, &precedence_of);
            } else {
                self.raise(record, precedence_of(record));
            }
        }
        if removed == self.all {
            let highest = self.blocks.iter().max();
            self.all = highest.copied().unwrap_or(Precedence::LOWEST);
        }
        shrink(&mut self.blocks);
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Precedence>()
    }

    fn raise(&mut self, record: usize, precedence: Precedence) {
        let highest = &mut self.blocks[record / BLOCK_RECORDS];
        *highest = precedence.max(*highest);
    }

    fn rescan(&mut self, block: usize, len: usize, precedence_of: impl Fn(usize) -> Precedence) {
        let start = block * BLOCK_RECORDS;
        let end = len.min(start + BLOCK_RECORDS);
        let highest = (start..end).map(precedence_of).max();
        match highest {
            Some(highest) => self.blocks[block] = highest,
            None => self.blocks.truncate(block),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash_words;

    #[test]
    fn it_is_the_maximum_after_every_step() {
        let (mut highest, mut list) = (Highest::new(), Vec::new());
        for step in 0..20_000u64 {
            let random = |salt: u64| hash_words(salt, &[step]);
            let grows = step % 5_000 < 2_500;
            if list.is_empty() || random(1) % 8 < if grows { 5 } else { 3 } {
                let precedence = Precedence::new(random(2) as u16 % 50, random(3) % 4);
                list.push(precedence);
                highest.push(list.len() - 1, precedence);
            } else {
                let best = (0..list.len()).max_by_key(|&record| list[record]);
                let record = match random(4) % 2 {
                    0 => best.expect("some"),
                    _ => random(5) as usize % list.len(),
                };
                let removed = list.swap_remove(record);
                highest.swap_remove(record, removed, list.len(), |record| list[record]);
            }
            let expected = list.iter().max().copied().unwrap_or(Precedence::LOWEST);
            assert_eq!(highest.all(), expected);
        }
        list.clear();
        assert!(highest.heap_bytes() < 64 * 8);
    }
}
