//! Behaviours by their keys: bounded, the oldest out first, and found by what they asked tables.
//!
//! 1. At most `capacity` behaviours are there; the one that was installed first leaves first.
//! 2. By table and key there are exactly the behaviours that asked the table with the key.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use hashbrown::HashTable;
use thalweg_classifier::hash::WordHash;

use crate::program::ids::TableId;

use super::record::Behavior;

/// Behaviours that asked a table with one key.
#[derive(Debug, Default)]
struct Dependents {
    is_hit: bool,
    places: BTreeSet<u32>,
}

/// The behaviours of one pipeline.
#[derive(Debug)]
pub(crate) struct Store {
    capacity: usize,
    key_words: usize,
    hash: WordHash,
    index: HashTable<u32>,
    /// The keys one after the other, by place.
    keys: Vec<u64>,
    behaviors: Vec<Option<Behavior>>,
    free: Vec<u32>,
    /// By number of installation, and the other way round.
    ages: BTreeMap<u64, u32>,
    age_of: Vec<u64>,
    next_age: u64,
    tables: Vec<HashMap<Arc<[u64]>, Dependents, WordHash>>,
}

impl Store {
    pub(crate) fn new(capacity: usize, key_words: usize, tables: usize, seed: u64) -> Store {
        Store {
            capacity,
            key_words,
            hash: WordHash::new(seed),
            index: HashTable::new(),
            keys: Vec::new(),
            behaviors: Vec::new(),
            free: Vec::new(),
            ages: BTreeMap::new(),
            age_of: Vec::new(),
            next_age: 0,
            tables: (0..tables)
                .map(|_| HashMap::with_hasher(WordHash::new(seed)))
                .collect(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    #[inline]
    pub(crate) fn hash(&self, key: &[u64]) -> u64 {
        self.hash.hash_words(key)
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &[u64]) -> Option<&Behavior> {
        let words = self.key_words;
        let same = |place: &u32| {
            let first = *place as usize * words;
            self.keys[first..first + words] == *key
        };
        let place = *self.index.find(hash, same)?;
        self.behaviors[place as usize].as_ref()
    }

    /// Adds a behaviour whose key is not there; how many had to leave for it.
    pub(crate) fn insert(&mut self, key: &[u64], behavior: Behavior) -> usize {
        let mut left = 0;
        while self.len() >= self.capacity
            && let Some((_, &oldest)) = self.ages.first_key_value()
        {
            self.remove(oldest);
            left += 1;
        }
        let place = match self.free.pop() {
            Some(place) => {
                let first = place as usize * self.key_words;
                self.keys[first..first + self.key_words].copy_from_slice(key);
                place
            }
            None => {
                self.keys.extend_from_slice(key);
                self.behaviors.push(None);
                self.age_of.push(0);
                self.behaviors.len() as u32 - 1
            }
        };
        for lookup in &behavior.lookups {
            let known = self.tables[lookup.table.index()].entry(lookup.key.clone());
            let dependents = known.or_default();
            dependents.is_hit = lookup.is_hit;
            dependents.places.insert(place);
        }
        self.behaviors[place as usize] = Some(behavior);
        self.ages.insert(self.next_age, place);
        self.age_of[place as usize] = self.next_age;
        self.next_age += 1;
        let (keys, words, hash) = (&self.keys, self.key_words, self.hash);
        let again = |place: &u32| {
            let first = *place as usize * words;
            hash.hash_words(&keys[first..first + words])
        };
        self.index.insert_unique(hash.hash_words(key), place, again);
        left
    }

    fn remove(&mut self, place: u32) {
        let Some(behavior) = self.behaviors[place as usize].take() else {
            return;
        };
        for lookup in &behavior.lookups {
            let table = &mut self.tables[lookup.table.index()];
            if let Some(dependents) = table.get_mut(&lookup.key) {
                dependents.places.remove(&place);
                if dependents.places.is_empty() {
                    table.remove(&lookup.key);
                }
            }
        }
        let first = place as usize * self.key_words;
        let hash = self.hash(&self.keys[first..first + self.key_words]);
        if let Ok(found) = self.index.find_entry(hash, |&other| other == place) {
            found.remove();
        }
        self.ages.remove(&self.age_of[place as usize]);
        self.free.push(place);
    }

    /// Behaviours that asked a table in a way that this says yes to leave; how many.
    pub(crate) fn evict(
        &mut self,
        table: TableId,
        is_affected: impl Fn(&[u64], bool) -> bool,
    ) -> usize {
        let all = self.tables[table.index()].iter();
        let affected = all.filter(|(key, dependents)| is_affected(key, dependents.is_hit));
        let places: BTreeSet<u32> = affected
            .flat_map(|(_, dependents)| dependents.places.iter().copied())
            .collect();
        self.remove_all(&places)
    }

    /// The same for one key alone, found at once.
    pub(crate) fn evict_key(&mut self, table: TableId, key: &[u64]) -> usize {
        match self.tables[table.index()].get(key) {
            Some(dependents) => {
                let places = dependents.places.clone();
                self.remove_all(&places)
            }
            None => 0,
        }
    }

    fn remove_all(&mut self, places: &BTreeSet<u32>) -> usize {
        for &place in places {
            self.remove(place);
        }
        places.len()
    }

    /// All leave; how many.
    pub(crate) fn clear(&mut self) -> usize {
        let places: BTreeSet<u32> = self.ages.values().copied().collect();
        self.remove_all(&places)
    }

    /// Invariants 1 and 2, for tests.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        assert!(self.len() <= self.capacity);
        assert_eq!(self.len(), self.ages.len());
        let mut expected = 0;
        for (place, behavior) in self.behaviors.iter().enumerate() {
            let Some(behavior) = behavior else { continue };
            let mut asked = BTreeSet::new();
            for lookup in &behavior.lookups {
                let dependents = &self.tables[lookup.table.index()][&lookup.key];
                assert!(dependents.places.contains(&(place as u32)));
                assert_eq!(dependents.is_hit, lookup.is_hit);
                asked.insert((lookup.table, lookup.key.clone()));
            }
            expected += asked.len();
        }
        let listed = self.tables.iter().flat_map(HashMap::values);
        let listed: usize = listed.map(|dependents| dependents.places.len()).sum();
        assert_eq!(listed, expected);
    }
}
