//! The different masks of rules, each stored once, and the tables that have rules of each.
//!
//! 1. A mask is kept as long as some rule has it; then its number is reused.
//! 2. `uses` of a mask names each table that has rules of it, with their number.

use crate::capacity::shrink;
use crate::hash::WordHash;
use crate::index::Index;

/// The masks of all rules.
#[derive(Clone, Debug)]
pub(super) struct Masks {
    words: usize,
    hash: WordHash,
    /// All masks in sequence, `words` words each.
    bits: Vec<u64>,
    uses: Vec<Vec<Use>>,
    longest: Vec<Longest>,
    free: Vec<u32>,
    index: Index,
}

/// A table that has rules of a mask, and their number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    pub(super) table: u32,
    rules: u32,
}

/// The table with the longest mask that is part of another mask, if it was searched for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Longest {
    /// The number of tables made by then, including this one; 0 if it was never searched for.
    pub(super) made: u64,
    pub(super) table: u32,
}

impl Masks {
    pub(super) fn new(words: usize, hash: WordHash) -> Masks {
        Masks {
            words,
            hash,
            bits: Vec::new(),
            uses: Vec::new(),
            longest: Vec::new(),
            free: Vec::new(),
            index: Index::new(),
        }
    }

    /// The number of different masks.
    pub(super) fn len(&self) -> usize {
        self.uses.len() - self.free.len()
    }

    /// The bits of a mask.
    #[inline(always)]
    pub(super) fn bits(&self, number: u32) -> &[u64] {
        &self.bits[number as usize * self.words..][..self.words]
    }

    /// The tables that have rules of a mask.
    pub(super) fn uses(&self, number: u32) -> &[Use] {
        &self.uses[number as usize]
    }

    /// The table with the longest mask that is part of this one, as of the last search.
    pub(super) fn longest(&self, number: u32) -> Longest {
        self.longest[number as usize]
    }

    pub(super) fn set_longest(&mut self, number: u32, longest: Longest) {
        self.longest[number as usize] = longest;
    }

    /// The number of a mask that some rule has.
    pub(super) fn find(&self, mask: &[u64]) -> Option<u32> {
        let is_it = |number| self.bits(number) == mask;
        self.index.find(self.hash.hash_words(mask), is_it)
    }

    /// The number of a mask, added if it is new; the caller must add a use at once.
    pub(super) fn find_or_add(&mut self, mask: &[u64]) -> u32 {
        if let Some(number) = self.find(mask) {
            return number;
        }
        let number = match self.free.pop() {
            Some(number) => {
                let start = number as usize * self.words;
                self.bits[start..][..self.words].copy_from_slice(mask);
                number
            }
            None => {
                self.bits.extend_from_slice(mask);
                self.uses.push(Vec::new());
                self.longest.push(Longest::default());
                (self.uses.len() - 1) as u32
            }
        };
        let (bits, words, hash) = (&self.bits, self.words, self.hash);
        let hash_of = |number: u32| hash.hash_words(&bits[number as usize * words..][..words]);
        self.index.insert(hash_of(number), number, hash_of);
        number
    }

    /// Notes that a rule of the mask is now in the table; returns whether it is the first
    /// there.
    pub(super) fn add_use(&mut self, number: u32, table: u32) -> bool {
        let uses = &mut self.uses[number as usize];
        if let Some(known) = uses.iter_mut().find(|known| known.table == table) {
            known.rules += 1;
            return false;
        }
        uses.push(Use { table, rules: 1 });
        true
    }

    /// Notes that a rule of the mask has left the table; returns whether it was the last
    /// there.
    pub(super) fn remove_use(&mut self, number: u32, table: u32) -> bool {
        let uses = &mut self.uses[number as usize];
        let place = uses.iter().position(|known| known.table == table);
        let place = place.expect("a rule's table is among those of its mask");
        uses[place].rules -= 1;
        if uses[place].rules > 0 {
            return false;
        }
        uses.swap_remove(place);
        if uses.is_empty() {
            self.free(number);
        }
        true
    }

    /// Frees memory of unused masks at the end.
    pub(super) fn shrink(&mut self) {
        let used = self.uses.iter().rposition(|uses| !uses.is_empty());
        let len = used.map_or(0, |last| last + 1);
        if len < self.uses.len() {
            self.uses.truncate(len);
            self.longest.truncate(len);
            self.bits.truncate(len * self.words);
            self.free.retain(|&number| (number as usize) < len);
        }
        shrink(&mut self.uses);
        shrink(&mut self.longest);
        shrink(&mut self.bits);
        shrink(&mut self.free);
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let uses = self.uses.iter().map(|uses| uses.capacity());
        self.bits.capacity() * size_of::<u64>()
            + self.uses.capacity() * size_of::<Vec<Use>>()
            + uses.sum::<usize>() * size_of::<Use>()
            + self.longest.capacity() * size_of::<Longest>()
            + self.free.capacity() * size_of::<u32>()
            + self.index.heap_bytes()
    }

    fn free(&mut self, number: u32) {
        let (bits, words, hash) = (&self.bits, self.words, self.hash);
        let hash_of = |number: u32| hash.hash_words(&bits[number as usize * words..][..words]);
        self.index.remove(hash_of(number), number, hash_of);
        self.uses[number as usize] = Vec::new();
        self.longest[number as usize] = Longest::default();
        self.free.push(number);
    }
}
