//! Equal values stored once.
//!
//! Thousands of entries do the same with their packets and met the same rules on the way. Both
//! lists are shared among them, each by one word, so that an entry is as long as a cache line.
//!
//! 1. A list is here as long as an entry has it: whoever gives one up says so, and with the last it
//!    goes. Nothing is ever swept.

use std::hash::{BuildHasher, Hash};
use std::ops::Deref;

use hashbrown::HashTable;
use thalweg_classifier::hash::WordHash;
use triomphe::ThinArc;

/// A list that several have, behind one pointer: its length lies with its items.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Shared<T>(ThinArc<(), T>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

impl<T> Shared<T> {
    /// Bytes of memory, boxes inside the items not counted: a count and the length are in front.
    pub(crate) fn list_bytes(&self) -> usize {
        16 + std::mem::size_of_val(&**self)
    }

    /// How many have it.
    pub(crate) fn holders(&self) -> usize {
        ThinArc::strong_count(&self.0)
    }
}

impl<T> From<Vec<T>> for Shared<T> {
    fn from(list: Vec<T>) -> Self {
        Shared(ThinArc::from_header_and_iter((), list.into_iter()))
    }
}

impl<T> Deref for Shared<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.0.slice
    }
}

/// A set of shared lists.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    /// With their hashes, so that the table can grow without a look at the lists.
    known: HashTable<(u64, Shared<T>)>,
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
    pub(crate) fn share(&mut self, list: Vec<T>) -> Shared<T> {
        let hash = self.hash.hash_one(&list[..]);
        if let Some((_, shared)) = self.known.find(hash, |(_, known)| known[..] == list[..]) {
            return shared.clone();
        }
        let shared = Shared::from(list);
        let known = (hash, shared.clone());
        self.known.insert_unique(hash, known, |(hash, _)| *hash);
        shared
    }

    /// Forgets a list if nobody else has it.
    pub(crate) fn release(&mut self, list: &Shared<T>) {
        if list.holders() > 2 {
            return;
        }
        let hash = self.hash.hash_one(&list[..]);
        let known = self
            .known
            .find_entry(hash, |(_, known)| known.as_ptr() == list.as_ptr());
        // One that was never shared is not here.
        if let Ok(known) = known {
            known.remove();
        }
    }

    /// The lists.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &Shared<T>> {
        self.known.iter().map(|(_, list)| list)
    }

    /// Invariant 1: every list has somebody else.
    pub(crate) fn verify(&self) -> Result<(), String> {
        let mut known = self.known.iter();
        match known.all(|(_, list)| list.holders() > 1) {
            true => Ok(()),
            false => Err("a list is kept that nobody has".to_owned()),
        }
    }

    /// Bytes of memory that the lists take, boxes inside them not counted.
    pub(crate) fn memory_bytes(&self) -> usize {
        let lists = self.known.iter().map(|(_, list)| list.list_bytes());
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
        assert_eq!(kept.as_ptr(), also.as_ptr());
        for number in 0..1_000 {
            let list = interner.share(vec![number, number]);
            interner.release(&list);
        }
        assert_eq!(interner.known.len(), 1);
        assert_eq!(interner.verify(), Ok(()));
        interner.release(&also);
        drop(also);
        assert_eq!(kept.as_ptr(), interner.share(vec![1, 2]).as_ptr());
        interner.release(&kept);
        assert_eq!(interner.known.len(), 0);
    }
}
