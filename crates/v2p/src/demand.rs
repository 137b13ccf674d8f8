//! Records what caches of other sizes would have hit: the miss-ratio curve of a switch.
//!
//! ```text
//!   offered(key)   the key goes to the front of a list, from wherever it was
//!   asked(key)     its place in the list, from 1, is counted; or "absent"
//!
//!   hits of a cache of n lines = questions whose place was n or less
//! ```
//!
//! A cache of the `n` keys last offered to it holds the first `n` keys of the list, so one
//! pass over a switch's packets gives the hits of every size. For our caches this is an
//! estimate: they are divided into sets, admit by role, and get fewer lookups when earlier
//! switches hit more.
//!
//! The list is implicit. Each key has the number of its last offer, a Fenwick tree counts the
//! numbers that are some key's last offer, and a key's place is how many of them are at least
//! its own number.
//!
//! 1. `hits(n)` never falls with `n`; when `n` is the number of keys, it counts all questions
//!    whose key was known.
//! 2. Keys beyond the limit are forgotten, least recently offered first; places up to the
//!    limit remain exact.
//!
//! Cost: for each offer and question, the logarithm of the limit. Memory: 8 bytes for each of
//! twice the limit, and a map of the keys. Nothing is allocated until the demand is measured.

use crate::directory::PlainMap;
use crate::mapping::Key;

/// Offers and questions of one switch.
///
/// ```
/// use std::net::Ipv4Addr;
/// use thalweg_v2p::{Demand, Key, Vni};
///
/// let key = |last| Key { vni: Vni::default(), address: Ipv4Addr::new(10, 0, 0, last).into() };
/// let mut demand = Demand::new(100);
/// demand.note_offer(key(1));
/// demand.note_offer(key(2));
/// demand.note_question(key(1)); // one line would hold key 2 only
/// assert_eq!((demand.hits(1), demand.hits(2)), (0, 1));
/// ```
#[derive(Clone, Debug)]
pub struct Demand {
    /// The number of a key's last offer.
    last: PlainMap<Key, u32>,
    /// The key whose last offer has this number.
    keys: Vec<Option<Key>>,
    tree: Fenwick,
    next: u32,
    limit: usize,
    /// Questions by place, from 1.
    places: Vec<u64>,
    absent: u64,
}

impl Demand {
    /// Creates an empty record that knows the places of at most `most_keys` keys.
    ///
    /// # Panics
    /// If `most_keys` is 0 or more than 2^30.
    pub fn new(most_keys: usize) -> Demand {
        assert!(
            (1..=1 << 30).contains(&most_keys),
            "1 to 2^30 keys, not {most_keys}"
        );
        Demand {
            last: PlainMap::default(),
            keys: vec![None; 2 * most_keys],
            tree: Fenwick::new(2 * most_keys),
            next: 0,
            limit: most_keys,
            places: Vec::new(),
            absent: 0,
        }
    }

    /// Notes that a mapping of the key would be inserted now.
    pub fn note_offer(&mut self, key: Key) {
        if self.next as usize == self.keys.len() {
            self.number_anew();
        }
        let number = self.next;
        self.next += 1;
        if let Some(old) = self.last.insert(key, number) {
            self.keys[old as usize] = None;
            self.tree.add(old as usize, -1);
        }
        self.keys[number as usize] = Some(key);
        self.tree.add(number as usize, 1);
    }

    /// Notes a lookup of the key.
    pub fn note_question(&mut self, key: Key) {
        let place = match self.last.get(&key) {
            None => usize::MAX,
            Some(&number) => self.last.len() - self.tree.sum_before(number as usize),
        };
        if place > self.limit {
            self.absent += 1;
            return;
        }
        if self.places.len() < place {
            self.places.resize(place, 0);
        }
        self.places[place - 1] += 1;
    }

    /// Questions that a cache of `entries` lines would have answered.
    pub fn hits(&self, entries: usize) -> u64 {
        self.places.iter().take(entries).sum()
    }

    /// All questions.
    pub fn questions(&self) -> u64 {
        self.places.iter().sum::<u64>() + self.absent
    }

    /// Questions by the least number of lines that answers them, from 1. Questions that no
    /// number of lines answers are left out.
    pub fn questions_by_place(&self) -> &[u64] {
        &self.places
    }

    /// Gives keys new numbers in the same order when all numbers are used, and forgets the
    /// keys beyond the limit.
    fn number_anew(&mut self) {
        let mut kept: Vec<Key> = self.keys.iter().flatten().copied().collect();
        kept.drain(..kept.len().saturating_sub(self.limit));
        self.last.clear();
        self.keys.fill(None);
        self.tree.clear();
        for (number, key) in kept.iter().enumerate() {
            self.last.insert(*key, number as u32);
            self.keys[number] = Some(*key);
            self.tree.add(number, 1);
        }
        self.next = kept.len() as u32;
    }
}

/// Counts by index, with cheap prefix sums.
#[derive(Clone, Debug)]
struct Fenwick {
    /// At `i`, the sum of the `i & -i` counts before `i`.
    sums: Vec<i32>,
}

impl Fenwick {
    fn new(len: usize) -> Fenwick {
        Fenwick {
            sums: vec![0; len + 1],
        }
    }

    fn clear(&mut self) {
        self.sums.fill(0);
    }

    fn add(&mut self, index: usize, count: i32) {
        let mut at = index + 1;
        while at < self.sums.len() {
            self.sums[at] += count;
            at += at & at.wrapping_neg();
        }
    }

    /// The sum of all counts before an index.
    fn sum_before(&self, index: usize) -> usize {
        let (mut sum, mut at) = (0, index);
        while at > 0 {
            sum += self.sums[at];
            at &= at - 1;
        }
        sum as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Address, Vni};

    fn key(number: u32) -> Key {
        Key {
            vni: Vni::default(),
            address: Address::from_ipv4(number.into()),
        }
    }

    /// The slow twin: the list itself, and the cache of each size.
    #[derive(Default)]
    struct Twin {
        list: Vec<u32>,
        /// Hits of caches of 0, 1, 2, ... lines.
        hits: Vec<u64>,
    }

    impl Twin {
        fn offer(&mut self, number: u32) {
            self.list.retain(|other| *other != number);
            self.list.insert(0, number);
        }

        fn ask(&mut self, number: u32) {
            for (size, hits) in self.hits.iter_mut().enumerate() {
                let held = &self.list[..size.min(self.list.len())];
                *hits += u64::from(held.contains(&number));
            }
        }
    }

    proptest! {
        #[test]
        fn one_pass_is_a_cache_of_every_size(
            limit in 1..12_usize,
            steps in prop::collection::vec((any::<bool>(), 0..16_u32), 1..400),
        ) {
            let mut demand = Demand::new(limit);
            let mut twin = Twin { hits: vec![0; limit + 1], ..Twin::default() };
            let mut questions = 0;
            for (is_offer, number) in steps {
                match is_offer {
                    true => {
                        demand.note_offer(key(number));
                        twin.offer(number);
                    }
                    false => {
                        demand.note_question(key(number));
                        twin.ask(number);
                        questions += 1;
                    }
                }
            }
            for (size, hits) in twin.hits.iter().enumerate() {
                prop_assert_eq!(demand.hits(size), *hits);
            }
            prop_assert_eq!(demand.questions(), questions);
            prop_assert!(demand.last.len() <= 2 * limit);
        }
    }
}
