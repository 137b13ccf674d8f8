//! The seed of the packet hash tables: drawn from the operating system, or given.
//!
//! A sender who knows the seed can compute packets whose keys collide; each then costs as much
//! as all before it. So every run draws its own seed and prints it. `--seed`, or `seed` in a
//! configuration, repeats a run. Benchmarks and the demo generate their own packets, and use
//! the seed of that workload.

use std::hash::{BuildHasher, RandomState};

/// Draws a seed that no sender knows.
///
/// It has 53 bits, so a JSON reader with floating-point numbers reads it exactly.
pub fn drawn() -> u64 {
    // The standard library draws this hash's keys from the operating system.
    RandomState::new().hash_one(0_u64) >> 11
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_alike_and_all_are_whole_in_json() {
        let drawn: Vec<u64> = (0..100).map(|_| drawn()).collect();
        let distinct: std::collections::HashSet<u64> = drawn.iter().copied().collect();
        assert_eq!(distinct.len(), 100);
        assert!(drawn.iter().all(|seed| *seed as f64 as u64 == *seed));
    }
}
