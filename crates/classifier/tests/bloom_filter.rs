//! The vector filter alone: it finds every key put, and all instruction sets agree.
//!
//! Removal and aging forget the right keys.

use std::collections::{BTreeMap, HashSet};

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_classifier::bloom::Put;
use thalweg_classifier::simd::Level;
use thalweg_classifier::{VectorFilter, VectorFilterConfig};

/// Numbers of sets for every field width, and for more than one vector.
const SETS: [usize; 8] = [1, 8, 12, 20, 64, 65, 128, 200];

fn config(sets: usize, keys: usize) -> VectorFilterConfig {
    VectorFilterConfig {
        sets,
        keys,
        size_bytes_max: 64 << 20,
        counting: false,
        ages: false,
        seed: 5,
    }
}

/// Different hashes, each with a set.
fn keys(count: usize, sets: usize, seed: u64) -> Vec<(u64, usize)> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    (0..count)
        .map(|_| (random.random(), random.random_range(0..sets)))
        .collect()
}

/// All candidates of all vectors.
fn candidates(filter: &VectorFilter, hash: u64) -> Vec<usize> {
    let vectors = 0..filter.vectors();
    let sets = vectors.flat_map(|vector| {
        let found = filter.candidates_of(hash, vector);
        (0..64)
            .filter(move |bit| found >> bit & 1 == 1)
            .map(move |bit| 64 * vector + bit)
    });
    sets.collect()
}

#[test]
fn what_was_put_in_is_found_and_little_else() {
    for sets in SETS {
        let filter = VectorFilter::new(config(sets, 20_000));
        let keys = keys(20_000, sets, 1);
        for &(hash, set) in &keys {
            filter.put(hash, set);
        }
        let mut false_candidates = 0;
        for &(hash, set) in &keys {
            let found = candidates(&filter, hash);
            assert!(found.contains(&set) && found.iter().all(|&set| set < sets));
            false_candidates += found.len() - 1;
        }
        let share = false_candidates as f64 / keys.len() as f64;
        println!(
            "{sets} sets: {share:.4} false candidates, {:?}",
            filter.statistics()
        );
        assert!(
            share < 0.2 * filter.vectors() as f64,
            "{sets} sets: {share}"
        );
    }
}

#[test]
fn bursts_and_instructions_agree() {
    for sets in SETS {
        for (count, level) in [7, 32, 100]
            .into_iter()
            .zip(Level::available().into_iter().cycle())
        {
            let filter = VectorFilter::new(config(sets, 500)).with_level(level);
            let portable = VectorFilter::new(config(sets, 500)).with_level(Level::PLAIN);
            for (hash, set) in keys(600, sets, 2) {
                filter.put(hash, set);
                portable.put(hash, set);
            }
            let hashes: Vec<u64> = keys(count, sets, 2).iter().map(|(hash, _)| *hash).collect();
            for vector in 0..filter.vectors() {
                let mut found = vec![0; count];
                filter.candidates_of_burst(&hashes, vector, &mut found);
                for (&hash, &found) in hashes.iter().zip(&found) {
                    assert_eq!(found, filter.candidates_of(hash, vector));
                    assert_eq!(found, portable.candidates_of(hash, vector));
                }
            }
        }
    }
}

/// Compares with a set of present keys: none is missed, and no bit remains at the end.
#[test]
fn removal_forgets_what_was_removed() {
    for sets in SETS {
        let mut filter = VectorFilter::new(VectorFilterConfig {
            counting: true,
            ..config(sets, 2_000)
        });
        let mut inside: BTreeMap<(u64, usize), u32> = BTreeMap::new();
        let pool = keys(600, sets, 3);
        let mut random = Pcg64Mcg::seed_from_u64(4);
        for step in 0..6_000 {
            let key = pool[random.random_range(0..pool.len())];
            let is_growing = step % 3_000 < 1_500;
            if random.random_range(0..8) < if is_growing { 5 } else { 2 } {
                filter.put(key.0, key.1);
                *inside.entry(key).or_default() += 1;
            } else if let Some(count) = inside.get_mut(&key) {
                filter.remove(key.0, key.1);
                *count -= 1;
                inside.retain(|_, count| *count > 0);
            }
            if step % 50 == 0 {
                let is_found =
                    |&(hash, set): &(u64, usize)| candidates(&filter, hash).contains(&set);
                assert!(inside.keys().all(is_found));
            }
        }
        for ((hash, set), count) in inside {
            (0..count).for_each(|_| assert!(filter.remove(hash, set)));
        }
        let left = filter.statistics();
        assert_eq!((left.bits_set, left.overflowed_counters), (0.0, 0));
    }
}

#[test]
fn counters_that_overflow_stay_and_are_counted() {
    let mut filter = VectorFilter::new(VectorFilterConfig {
        counting: true,
        ..config(20, 100)
    });
    let (hash, set) = (0x1234_5678_0000_3210, 7);
    for _ in 0..40 {
        filter.put(hash, set);
    }
    assert_eq!(filter.statistics().overflowed_counters, 4);
    for _ in 0..40 {
        assert!(!filter.remove(hash, set));
    }
    assert_eq!(candidates(&filter, hash), [set]);
    filter.clear();
    let cleared = filter.statistics();
    assert_eq!((cleared.overflowed_counters, cleared.bits_set), (0, 0.0));
    assert_eq!(filter.put(hash, set), Put::Added);
    assert!(filter.remove(hash, set));
    assert_eq!(candidates(&filter, hash), []);
}

/// Flows that die: new generations come, in a filter made for one generation.
#[test]
fn aging_makes_room_for_the_living() {
    for (sets, counting) in [
        (8, false),
        (20, false),
        (20, true),
        (64, false),
        (130, true),
    ] {
        let made = VectorFilterConfig {
            ages: true,
            counting,
            ..config(sets, 4_000)
        };
        let filter = VectorFilter::new(made);
        let never = VectorFilter::new(VectorFilterConfig {
            ages: false,
            ..made
        });
        for generation in 0..20 {
            for (hash, set) in keys(4_000, sets, generation) {
                filter.put(hash, set);
                never.put(hash, set);
            }
        }
        let last = keys(4_000, sets, 19);
        let all: usize = last
            .iter()
            .map(|(hash, _)| candidates(&filter, *hash).len())
            .sum();
        let found = last
            .iter()
            .filter(|(hash, set)| candidates(&filter, *hash).contains(set));
        let (found, all) = (found.count(), all as f64 / 4_000.0);
        let full: usize = last
            .iter()
            .map(|(hash, _)| candidates(&never, *hash).len())
            .sum();
        println!("{sets} sets: {found} of the last 4,000 found, {all:.2} candidates each");
        assert!(
            found > 2_000 && all < 1.0 + 0.2 * filter.vectors() as f64,
            "{sets} sets: {found}, {all}"
        );
        assert!(
            full as f64 / 4_000.0 > 2.0 * all,
            "the one that does not age is full"
        );
        assert!(filter.statistics().emptied_blocks > 0);
    }
}

/// One set with all keys fills its fields, not the blocks; false candidates empty it.
#[test]
fn a_set_full_of_the_dead_recovers() {
    let filter = VectorFilter::new(VectorFilterConfig {
        ages: true,
        ..config(20, 2_000)
    });
    for (hash, _) in keys(8_000, 20, 1) {
        filter.put(hash, 3);
    }
    let living = keys(1_000, 20, 2);
    let falses = |filter: &VectorFilter| {
        let of_3 = living
            .iter()
            .filter(|(hash, _)| candidates(filter, *hash).contains(&3));
        of_3.map(|(hash, _)| *hash).collect::<Vec<u64>>()
    };
    let before = falses(&filter).len();
    for _ in 0..40 {
        falses(&filter)
            .into_iter()
            .for_each(|hash| filter.note_false(hash, 3));
    }
    let after = falses(&filter).len();
    println!("{before} false candidates before, {after} after");
    assert!(before > 900 && after < before / 4, "{before}, {after}");
}

#[test]
fn memory_is_bounded_and_follows_the_keys() {
    for sets in SETS {
        for size_bytes_max in [4_096, 100_000] {
            let asked = VectorFilterConfig {
                size_bytes_max,
                counting: true,
                ..config(sets, 1 << 20)
            };
            let filter = VectorFilter::new(asked);
            let bytes = filter.size_bytes();
            assert!(
                bytes <= size_bytes_max && bytes > size_bytes_max / 2 - 1_280,
                "{sets}: {bytes}"
            );
            assert!(filter.keys() < asked.keys);
        }
        let small = VectorFilter::new(config(sets, 100)).size_bytes();
        assert!(small <= 64 * 25 + 256, "{sets}: {small}");
    }
}

/// Concurrent puts lose nothing, as long as no block is emptied.
#[test]
fn several_threads_put() {
    let filter = VectorFilter::new(VectorFilterConfig {
        counting: true,
        ..config(40, 2_000)
    });
    let keys = keys(4_000, 40, 6);
    std::thread::scope(|scope| {
        for half in keys.chunks(2_000) {
            let filter = &filter;
            scope.spawn(move || {
                for &(hash, set) in half {
                    filter.put(hash, set);
                    assert!(filter.candidates(hash) >> set & 1 == 1);
                }
            });
        }
    });
    let mut filter = filter;
    assert!(
        keys.iter()
            .all(|&(hash, set)| filter.candidates(hash) >> set & 1 == 1)
    );
    keys.iter()
        .for_each(|&(hash, set)| assert!(filter.remove(hash, set)));
    assert_eq!(filter.statistics().bits_set, 0.0);
}

#[test]
fn hashes_of_different_keys_and_seeds_differ() {
    let filters = [1, 2].map(|seed| {
        VectorFilter::new(VectorFilterConfig {
            seed,
            ..config(8, 10)
        })
    });
    let hashes = filters
        .iter()
        .flat_map(|filter| (0..100).map(|key| filter.hash(&[key, 1])));
    assert_eq!(hashes.collect::<HashSet<u64>>().len(), 200);
}
