//! Equal values stored once.
//!
//! Thousands of entries do the same with their packets and met the same rules on the way. Both
//! lists are shared among them.
//!
//! 1. A list is here as long as an entry has it: whoever gives one up says so, and with the last it
//!    goes. Nothing is ever swept.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use hashbrown::HashTable;
use thalweg_classifier::hash::WordHash;

/// A set of shared slices.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    /// With their hashes, so that the table can grow without a look at the lists.
    known: HashTable<(u64, Arc<[T]>)>,
    hash: WordHash,
}

impl<T: Hash + Eq> Interner<T> {
    pub(crate) fn new(seed: u64) -> Interner<T> {
        Interner {
            known: HashTable::new(),
            hash: WordHash::new(seed),
        }
    }

    /// The shared form of a list.
    pub(crate) fn share(&mut self, list: Vec<T>) -> Arc<[T]> {
        let hash = self.hash.hash_one(&list[..]);
        if let Some((_, shared)) = self.known.find(hash, |(_, known)| known[..] == list[..]) {
            return shared.clone();
        }
        let shared: Arc<[T]> = list.into();
        let known = (hash, shared.clone());
        self.known.insert_unique(hash, known, |(hash, _)| *hash);
        shared
    }

    /// Forgets a list if nobody else has it.
    pub(crate) fn release(&mut self, list: &Arc<[T]>) {
        if Arc::strong_count(list) > 2 {
            return;
        }
        let hash = self.hash.hash_one(&list[..]);
        let known = self
            .known
            .find_entry(hash, |(_, known)| Arc::ptr_eq(known, list));
        // One that was never shared is not here.
        if let Ok(known) = known {
            known.remove();
        }
    }

    /// The lists.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &Arc<[T]>> {
        self.known.iter().map(|(_, list)| list)
    }

    /// Invariant 1: every list has somebody else.
    pub(crate) fn verify(&self) -> Result<(), String> {
        let mut known = self.known.iter();
        match known.all(|(_, list)| Arc::strong_count(list) > 1) {
            true => Ok(()),
            false => Err("a list is kept that nobody has".to_owned()),
        }
    }

    /// Bytes of memory that the lists take, boxes inside them not counted.
    pub(crate) fn memory_bytes(&self) -> usize {
        let lists = self
            .known
            .iter()
            .map(|(_, list)| 16 + std::mem::size_of_val(&**list));
        lists.sum::<usize>() + self.known.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_are_one_and_a_list_goes_with_the_last_who_has_it() {
        let mut interner = Interner::new(0);
        let kept = interner.share(vec![1_u32, 2]);
        let also = interner.share(vec![1, 2]);
        assert!(Arc::ptr_eq(&kept, &also));
        for number in 0..1_000 {
            let list = interner.share(vec![number, number]);
            interner.release(&list);
        }
        assert_eq!(interner.known.len(), 1);
        assert_eq!(interner.verify(), Ok(()));
        interner.release(&also);
        drop(also);
        assert!(Arc::ptr_eq(&kept, &interner.share(vec![1, 2])));
        interner.release(&kept);
        assert_eq!(interner.known.len(), 0);
    }
}
