//! Equal values stored once.
//!
//! Thousands of entries do the same with their packets and met the same rules on the way. Both
//! lists are shared among them; a list lives as long as an entry has it.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use thalweg_classifier::hash::WordHash;

/// A set of shared slices.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    known: HashSet<Shared<T>, WordHash>,
    /// Look for slices that nobody has any more when there are this many.
    sweep_at: usize,
}

/// A shared slice that is found by its content.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Shared<T>(Arc<[T]>);

impl<T> Borrow<[T]> for Shared<T> {
    fn borrow(&self) -> &[T] {
        &self.0
    }
}

impl<T: Hash + Eq> Interner<T> {
    pub(crate) fn new(seed: u64) -> Interner<T> {
        Interner {
            known: HashSet::with_hasher(WordHash::new(seed)),
            sweep_at: 64,
        }
    }

    /// The shared form of a list.
    pub(crate) fn share(&mut self, list: Vec<T>) -> Arc<[T]> {
        if let Some(shared) = self.known.get(&list[..]) {
            return shared.0.clone();
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|shared| Arc::strong_count(&shared.0) > 1);
            self.sweep_at = 64.max(self.known.len() * 2);
        }
        let shared: Arc<[T]> = list.into();
        self.known.insert(Shared(shared.clone()));
        shared
    }

    /// Bytes of memory that the lists take, boxes inside them not counted.
    pub(crate) fn memory_bytes(&self) -> usize {
        let lists = self
            .known
            .iter()
            .map(|shared| 16 + std::mem::size_of_val(&*shared.0));
        lists.sum::<usize>() + self.known.capacity() * 24
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_are_one_and_unused_lists_go() {
        let mut interner = Interner::new(0);
        let kept = interner.share(vec![1_u32, 2]);
        assert!(Arc::ptr_eq(&kept, &interner.share(vec![1, 2])));
        for number in 0..1_000 {
            interner.share(vec![number, number]);
        }
        assert!(
            interner.known.len() < 200,
            "{} lists are kept",
            interner.known.len()
        );
        assert!(Arc::ptr_eq(&kept, &interner.share(vec![1, 2])));
    }
}
