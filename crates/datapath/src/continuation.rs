//! Frozen walks, by number: the number is in the key of a packet that is looked up again.
//!
//! 1. A number stands for one continuation as long as any entry or packet can have it; zero
//!    means none. It outlives the version at which it was made: all passes of a packet are at
//!    one version, and an entry that leads to a continuation is maintained like any other.
//! 2. All continuations are forgotten together, when there is no room for another or no entry
//!    is left. At that moment no packet carries a number, and entries of frozen walks are
//!    evicted.

use std::collections::HashMap;
use std::sync::Arc;

use thalweg_classifier::hash::WordHash;
use thalweg_pipeline::Continuation;

/// The continuations of a datapath.
#[derive(Debug)]
pub(crate) struct Continuations {
    by_content: HashMap<Arc<Continuation>, u32, WordHash>,
    /// Indexed by number minus one.
    by_number: Vec<Arc<Continuation>>,
    capacity: usize,
}

impl Continuations {
    pub(crate) fn new(capacity: usize, seed: u64) -> Continuations {
        let by_content = HashMap::with_hasher(WordHash::new(seed));
        Continuations {
            by_content,
            by_number: Vec::new(),
            capacity,
        }
    }

    /// The number of a continuation, assigned if new; `None` if there is no room.
    pub(crate) fn number(&mut self, continuation: &Arc<Continuation>) -> Option<u32> {
        if let Some(number) = self.by_content.get(continuation) {
            return Some(*number);
        }
        if self.by_number.len() >= self.capacity {
            return None;
        }
        self.by_number.push(continuation.clone());
        let number = self.by_number.len() as u32;
        self.by_content.insert(continuation.clone(), number);
        Some(number)
    }

    /// Whether there is no room for another continuation.
    pub(crate) fn is_full(&self) -> bool {
        self.capacity > 0 && self.by_number.len() >= self.capacity
    }

    /// The continuation with this number.
    pub(crate) fn get(&self, number: u32) -> Option<&Arc<Continuation>> {
        self.by_number.get((number as usize).checked_sub(1)?)
    }

    pub(crate) fn clear(&mut self) {
        self.by_content.clear();
        self.by_number.clear();
    }
}
