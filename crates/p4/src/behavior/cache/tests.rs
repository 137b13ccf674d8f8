//! The store by itself; the caches as a whole are tested from outside, in `tests/own/behaviors.rs`.

use std::collections::VecDeque;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;

fn behavior(lookups: &[(u32, u64, bool)], value: u64) -> Behavior {
    let lookup = |&(table, key, is_hit)| Lookup {
        table: TableId(table),
        key: [key].into(),
        is_hit,
    };
    Behavior {
        writes: [(0, value)].into(),
        effects: [].into(),
        lookups: lookups.iter().map(lookup).collect(),
        wishes: Wishes::default(),
        length_change: 0,
        is_unfit: false,
    }
}

/// Against a list: the same behaviours after any installations and evictions.
#[test]
fn the_store_keeps_what_a_list_keeps() {
    const CAPACITY: usize = 20;
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut store = Store::new(CAPACITY, 2, 3, 1);
    let mut list: VecDeque<([u64; 2], Behavior)> = VecDeque::new();
    let (mut replaced, mut evicted) = (0, 0);
    for round in 0..5_000_u64 {
        let key = [random.random_range(0..8), random.random_range(0..8)];
        if random.random_bool(0.8) {
            if store.find(store.hash(&key), &key).is_none() {
                let lookups = [
                    (0, key[0], key[0] % 2 == 0),
                    (1, key[1] % 4, true),
                    (2, 5, false),
                ];
                let new = behavior(&lookups, round);
                replaced += store.insert(&key, new.clone());
                list.push_back((key, new));
                if list.len() > CAPACITY {
                    list.pop_front();
                }
            }
        } else {
            let (table, wanted) = (random.random_range(0..2), random.random_range(0..8));
            let left = match random.random_bool(0.5) {
                true => store.evict_key(TableId(table), &[wanted]),
                false => store.evict(TableId(table), |key, _| key[0] == wanted),
            };
            let asked = |behavior: &Behavior| {
                let mut lookups = behavior.lookups.iter();
                lookups.any(|one| one.table == TableId(table) && one.key[0] == wanted)
            };
            let before = list.len();
            list.retain(|(_, behavior)| !asked(behavior));
            assert_eq!(left, before - list.len());
            evicted += left;
        }
        store.check();
        assert_eq!(store.len(), list.len());
        for (key, behavior) in &list {
            assert_eq!(store.find(store.hash(key), key), Some(behavior));
        }
    }
    assert!(replaced > 100 && evicted > 100, "{replaced} {evicted}");
    assert_eq!(store.evict(TableId(2), |_, is_hit| !is_hit), list.len());
    assert_eq!(store.len(), 0);
}
