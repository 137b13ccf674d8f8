//! Stores equal lists once.
//!
//! Thousands of entries do the same with their packets and met the same rules. Both lists are
//! shared, each by one word, so that an entry fits a cache line.
//!
//! The set of lists is a hash table, at most two thirds full, whose slots hold the hashes
//! beside the lists. So a slot can be prefetched, and a repair of many entries can have
//! several memory accesses in flight. Otherwise such a repair would mostly wait for scattered
//! slots and lists. A thread that makes a list elsewhere also computes its hash ([`Hashed`]),
//! and a released list knows its own.
//!
//! 1. A list is here as long as an entry has it: each owner that drops one reports it, and the
//!    last removes the list. There are no sweeps.

use std::hash::{BuildHasher, Hash};
use std::ops::Deref;

use thalweg_classifier::hash::WordHash;
use thalweg_classifier::simd::{prefetch, prefetch_at};
use triomphe::ThinArc;

/// Fewest slots, if there are any.
const MIN_SLOTS: usize = 16;

/// A shared list behind one pointer; its hash and length are stored with its items.
#[derive(Debug)]
pub(crate) struct Shared<T>(ThinArc<u64, T>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl<T: Eq> Eq for Shared<T> {}

impl<T> Shared<T> {
    fn new(hash: u64, list: Vec<T>) -> Shared<T> {
        Shared(ThinArc::from_header_and_iter(hash, list.into_iter()))
    }

    /// Bytes of memory, without boxes inside the items; a count, the hash and the length come
    /// first.
    pub(crate) fn list_bytes(&self) -> usize {
        24_usize.next_multiple_of(std::mem::align_of::<T>()) + std::mem::size_of_val(&**self)
    }

    /// The number of holders.
    pub(crate) fn holders(&self) -> usize {
        ThinArc::strong_count(&self.0)
    }

    /// Prefetches its beginning.
    pub(crate) fn prefetch(&self) {
        prefetch_at(self.0.as_ptr());
    }

    /// Its hash, if it belongs to an interner.
    fn hash(&self) -> u64 {
        self.0.header.header
    }
}

/// Creates a list that belongs to no interner.
impl<T> From<Vec<T>> for Shared<T> {
    fn from(list: Vec<T>) -> Self {
        Shared::new(0, list)
    }
}

impl<T> Deref for Shared<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.0.slice
    }
}

/// A list with its hash.
#[derive(Debug)]
pub(crate) struct Hashed<T> {
    hash: u64,
    list: Vec<T>,
}

impl<T: Hash> Hashed<T> {
    /// Hashes the list with the interner's function.
    pub(crate) fn new(list: Vec<T>, hash: WordHash) -> Hashed<T> {
        Hashed {
            hash: hash.hash_one(&list[..]),
            list,
        }
    }
}

impl<T> Hashed<T> {
    /// The list without its hash.
    pub(crate) fn into_list(self) -> Vec<T> {
        self.list
    }
}

impl<T> Deref for Hashed<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.list
    }
}

/// A set of shared lists.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    /// With their hashes, which determine their slots.
    slots: Vec<Option<(u64, Shared<T>)>>,
    count: usize,
    hash: WordHash,
}

impl<T: Hash + Eq> Interner<T> {
    pub(crate) fn new(seed: u64) -> Interner<T> {
        Interner {
            slots: Vec::new(),
            count: 0,
            hash: WordHash::new(seed),
        }
    }

    /// The function that hashes lists.
    pub(crate) fn hash_function(&self) -> WordHash {
        self.hash
    }

    /// Adds a list's hash for this interner.
    pub(crate) fn hashed(&self, list: Vec<T>) -> Hashed<T> {
        Hashed::new(list, self.hash)
    }

    /// The shared form of a list.
    pub(crate) fn share(&mut self, list: Hashed<T>) -> Shared<T> {
        if (self.count + 1) * 3 > self.slots.len() * 2 {
            self.resize((self.slots.len() * 2).max(MIN_SLOTS));
        }
        let place = self.place(list.hash, |known| **known == *list);
        if let Some((_, known)) = &self.slots[place] {
            return known.clone();
        }
        let shared = Shared::new(list.hash, list.list);
        self.slots[place] = Some((list.hash, shared.clone()));
        self.count += 1;
        shared
    }

    /// Prefetches the slot of a list with this hash.
    pub(crate) fn prefetch(&self, list: &Hashed<T>) {
        prefetch(&self.slots, self.home(list.hash));
    }

    /// Prefetches the slot of a list that will be released.
    pub(crate) fn prefetch_former(&self, list: &Shared<T>) {
        prefetch(&self.slots, self.home(list.hash()));
    }

    /// Prefetches the list that this one probably equals, once its slot is in the cache.
    pub(crate) fn prefetch_equal(&self, list: &Hashed<T>) {
        if let Some(Some((hash, known))) = self.slots.get(self.home(list.hash))
            && *hash == list.hash
        {
            known.prefetch();
        }
    }

    /// Removes a list if no other holder has it.
    pub(crate) fn release(&mut self, list: &Shared<T>) {
        if list.holders() > 2 || self.slots.is_empty() {
            return;
        }
        let place = self.place(list.hash(), |known| known.0.as_ptr() == list.0.as_ptr());
        // A list that was never shared is not here.
        if self.slots[place].is_some() {
            self.take_out(place);
            self.count -= 1;
            if self.slots.len() > MIN_SLOTS && self.count * 8 < self.slots.len() {
                self.resize(self.slots.len() / 2);
            }
        }
    }

    /// The slot of a list, or the free slot where it belongs.
    fn place(&self, hash: u64, is_it: impl Fn(&Shared<T>) -> bool) -> usize {
        let mut place = self.home(hash);
        while let Some((other, known)) = &self.slots[place] {
            if *other == hash && is_it(known) {
                break;
            }
            place = self.next(place);
        }
        place
    }

    fn home(&self, hash: u64) -> usize {
        hash as usize & self.slots.len().wrapping_sub(1)
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.slots.len() - 1)
    }

    /// Frees a slot, and moves up later lists that belong further forward: Knuth's algorithm
    /// R, as in a sub-table.
    fn take_out(&mut self, mut hole: usize) {
        let last = self.slots.len() - 1;
        self.slots[hole] = None;
        let mut place = self.next(hole);
        while let Some((hash, _)) = &self.slots[place] {
            let home = self.home(*hash);
            if place.wrapping_sub(home) & last >= place.wrapping_sub(hole) & last {
                self.slots.swap(hole, place);
                hole = place;
            }
            place = self.next(place);
        }
    }

    fn resize(&mut self, slots: usize) {
        let free = std::iter::repeat_with(|| None).take(slots);
        let old = std::mem::replace(&mut self.slots, free.collect());
        for (hash, known) in old.into_iter().flatten() {
            let place = self.place(hash, |_| false);
            self.slots[place] = Some((hash, known));
        }
    }

    /// The lists.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &Shared<T>> {
        self.slots.iter().flatten().map(|(_, list)| list)
    }

    /// Checks invariant 1: every list has another holder, and is where lookups find it.
    pub(crate) fn verify(&self) -> Result<(), String> {
        if !self.lists().all(|list| list.holders() > 1) {
            return Err("a list is kept that nobody has".to_owned());
        }
        let is_found = |list: &Shared<T>| {
            let hash = self.hash.hash_one(&list[..]);
            let place = self.place(hash, |known| **known == **list);
            let known = self.slots[place].as_ref();
            known.is_some_and(|(_, known)| known.0.as_ptr() == list.0.as_ptr())
        };
        if self.lists().count() != self.count || !self.lists().all(is_found) {
            return Err("a list is not where it is looked for, or twice".to_owned());
        }
        Ok(())
    }

    /// Bytes of memory of the lists, without boxes inside them.
    pub(crate) fn memory_bytes(&self) -> usize {
        let slots = self.slots.capacity() * std::mem::size_of::<Option<(u64, Shared<T>)>>();
        self.lists().map(Shared::list_bytes).sum::<usize>() + slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const _: () = assert!(std::mem::size_of::<Option<(u64, Shared<u32>)>>() == 16);

    fn share(interner: &mut Interner<u32>, list: &[u32]) -> Shared<u32> {
        let list = interner.hashed(list.to_vec());
        interner.share(list)
    }

    #[test]
    fn equal_lists_are_one_and_a_list_goes_with_the_last_who_has_it() {
        let mut interner = Interner::new(0);
        let kept = share(&mut interner, &[1, 2]);
        let also = share(&mut interner, &[1, 2]);
        assert_eq!(kept.0.as_ptr(), also.0.as_ptr());
        for number in 0..1_000 {
            let list = share(&mut interner, &[number, number]);
            interner.release(&list);
        }
        assert_eq!(interner.count, 1);
        assert_eq!(interner.verify(), Ok(()));
        interner.release(&also);
        drop(also);
        let again = share(&mut interner, &[1, 2]);
        assert_eq!(kept.0.as_ptr(), again.0.as_ptr());
        drop(again);
        interner.release(&kept);
        assert_eq!(interner.count, 0);
    }

    #[test]
    fn lists_are_found_while_there_are_more_and_while_there_are_fewer() {
        let mut interner = Interner::new(7);
        let mut lists = Vec::new();
        for number in 0..5_000 {
            // Some twice.
            lists.push(share(&mut interner, &[number % 4_000, 3]));
        }
        assert_eq!((interner.count, interner.verify()), (4_000, Ok(())));
        let most = interner.memory_bytes();
        while let Some(list) = lists.pop() {
            interner.release(&list);
            drop(list);
            if lists.len().is_multiple_of(512) {
                assert_eq!(interner.verify(), Ok(()));
                assert_eq!(interner.count, lists.len().min(4_000));
            }
        }
        assert_eq!(interner.slots.len(), MIN_SLOTS);
        assert!(interner.memory_bytes() < most / 100);
        // A list that was never shared is not here.
        interner.release(&Shared::from(vec![1, 2]));
        assert_eq!(interner.verify(), Ok(()));
    }
}
