//! Traversals: the sequences of tables that walks take.
//!
//! A pipeline has few of them, however many entries: each is the order in which tables were
//! looked up. A traversal is created with its first entry and removed with its last.

use std::collections::HashMap;

use thalweg_classifier::hash::WordHash;
use thalweg_pipeline::{StepKind, TableId, Trace};

/// A traversal, as shown in reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraversalView {
    /// The tables, in the order of lookup.
    pub tables: Vec<TableId>,
    /// Entries that took it.
    pub entries: u64,
    /// Packets that these entries have answered and not yet credited to rules.
    pub packets: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Traversal {
    tables: Box<[TableId]>,
    written_words: u64,
}

/// All traversals.
#[derive(Debug)]
pub(crate) struct Traversals {
    /// By number: the traversal, and how many entries take it.
    known: Vec<(Traversal, u64)>,
    free: Vec<u32>,
    numbers: HashMap<Traversal, u32, WordHash>,
}

impl Traversals {
    pub(super) fn new(hash: WordHash) -> Traversals {
        Traversals {
            known: Vec::new(),
            free: Vec::new(),
            numbers: HashMap::with_hasher(hash),
        }
    }

    /// Adds an entry to the traversal of this walk.
    pub(super) fn enter(&mut self, trace: &Trace) -> u32 {
        let table = |kind| match kind {
            StepKind::Lookup { table, .. } => Some(table),
            _ => None,
        };
        let traversal = Traversal {
            tables: trace.kinds().filter_map(table).collect(),
            written_words: trace.written_words(),
        };
        if let Some(number) = self.numbers.get(&traversal) {
            self.known[*number as usize].1 += 1;
            return *number;
        }
        let number = match self.free.pop() {
            Some(number) => {
                self.known[number as usize] = (traversal.clone(), 1);
                number
            }
            None => {
                self.known.push((traversal.clone(), 1));
                self.known.len() as u32 - 1
            }
        };
        self.numbers.insert(traversal, number);
        number
    }

    /// Removes an entry from its traversal.
    pub(super) fn leave(&mut self, number: u32) {
        let (traversal, entries) = &mut self.known[number as usize];
        *entries -= 1;
        if *entries == 0 {
            self.numbers.remove(traversal);
            self.free.push(number);
        }
    }

    pub(super) fn is_taken(&self, number: u32) -> bool {
        self.known[number as usize].1 > 0
    }

    /// The number of entries that take any traversal.
    pub(super) fn entries(&self) -> u64 {
        self.known.iter().map(|(_, entries)| entries).sum()
    }

    pub(super) fn written_words(&self, number: u32) -> u64 {
        self.known[number as usize].0.written_words
    }

    /// All traversals as shown in reports, by number; packets are still zero.
    pub(crate) fn views(&self) -> Vec<TraversalView> {
        let views = self.known.iter().map(|(traversal, entries)| TraversalView {
            tables: traversal.tables.to_vec(),
            entries: *entries,
            packets: 0,
        });
        views.collect()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let lists: usize = self.known.iter().map(|(known, _)| known.tables.len()).sum();
        self.known.capacity() * 40 + 2 * lists + self.numbers.capacity() * 40
    }
}
