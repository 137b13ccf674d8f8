//! Tests the store alone; `tests/own/behaviors.rs` tests the caches as a whole.

use std::collections::VecDeque;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::record::Lookup;
use super::*;

fn behavior(lookups: &[(u32, u64, bool)], value: u64) -> Behavior {
    let lookup = |&(table, _, is_hit)| Lookup {
        table: TableId(table),
        is_hit,
        row: 0,
    };
    Behavior {
        writes: vec![(0, value)],
        effects: Vec::new(),
        lookups: lookups.iter().map(lookup).collect(),
        keys: lookups.iter().map(|lookup| lookup.1).collect(),
        ended: Ended::default(),
        is_unfit: false,
    }
}

/// Compares with a list: the same behaviours after any installations and evictions.
#[test]
fn the_store_keeps_what_a_list_keeps() {
    const CAPACITY: usize = 20;
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut store = Store::new(CAPACITY, 2, [1; 3].into_iter(), 1);
    let mut list: VecDeque<([u64; 2], Behavior)> = VecDeque::new();
    let (mut replaced, mut evicted) = (0, 0);
    for round in 0..5_000_u64 {
        let key = [random.random_range(0..8), random.random_range(0..8)];
        if random.random_bool(0.8) {
            if store.find(store.hash.hash(&key), &key).is_none() {
                // One table is looked up twice.
                let lookups = [
                    (0, key[0], key[0] % 2 == 0),
                    (1, key[1] % 4, true),
                    (2, 5, false),
                    (1, key[0], true),
                ];
                let new = behavior(&lookups, round);
                let hash = store.hash.hash(&key);
                replaced += store.insert(hash, &key, new.clone());
                list.push_back((key, new));
                if list.len() > CAPACITY {
                    list.pop_front();
                }
            }
        } else {
            let (table, wanted) = (random.random_range(0..2), random.random_range(0..8));
            let left = store.evict(TableId(table), |key, _| key == [wanted]);
            let asked = |behavior: &Behavior| {
                let mut lookups = behavior.lookups.iter().zip(&behavior.keys);
                lookups.any(|(one, &key)| one.table == TableId(table) && key == wanted)
            };
            let before = list.len();
            list.retain(|(_, behavior)| !asked(behavior));
            assert_eq!(left, before - list.len());
            evicted += left;
        }
        store.check();
        assert_eq!(store.len(), list.len());
        for (key, behavior) in &list {
            let found = store
                .find(store.hash.hash(key), key)
                .expect("it is in the list");
            assert_eq!(found.writes, behavior.writes);
        }
    }
    assert!(replaced > 100 && evicted > 100, "{replaced} {evicted}");
    assert_eq!(store.evict(TableId(2), |_, is_hit| !is_hit), list.len());
    assert_eq!(store.len(), 0);
}
