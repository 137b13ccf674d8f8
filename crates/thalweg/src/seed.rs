//! The seed of the hash tables that packets meet: drawn by the operating system, or given.
//!
//! A sender who knows the seed can compute packets whose keys collide, and each of them then costs
//! what all before it have cost. So every run draws a seed of its own and says it; `--seed`, or `seed`
//! in a configuration, repeats a run. Benchmarks and the demo send what they have made themselves,
//! and take the seed of that.

use std::hash::{BuildHasher, RandomState};

/// A seed that no sender knows.
///
/// It has 53 bits, so that whatever reads it as JSON reads it whole.
pub(crate) fn drawn() -> u64 {
    // The standard library asks the operating system for the keys of this hash.
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
