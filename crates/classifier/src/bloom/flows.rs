//! Records where flows were found: a vector filter of whole keys, with a set per sub-table.
//!
//! It is never trusted (see the essay of [`bloom`](super)). A number may now belong to another
//! mask, or to no sub-table. The former is a candidate like others; the latter is skipped.

use crate::tuple_space::TupleSpace;

use super::counters::bits_of;
use super::filter::{VectorFilter, VectorFilterConfig};

/// The number of sub-tables at first.
const FEWEST_SETS: usize = 8;

/// The filter and its configuration.
#[derive(Debug)]
pub(super) struct Flows {
    config: VectorFilterConfig,
    filter: VectorFilter,
    is_disjoint: bool,
}

impl Flows {
    pub(super) fn new(keys: usize, size_bytes_max: usize, seed: u64, is_disjoint: bool) -> Flows {
        let config = VectorFilterConfig {
            sets: FEWEST_SETS,
            keys,
            size_bytes_max,
            counting: false,
            ages: true,
            seed,
        };
        let filter = VectorFilter::new(config);
        Flows {
            config,
            filter,
            is_disjoint,
        }
    }

    #[inline(always)]
    pub(super) fn filter(&self) -> &VectorFilter {
        &self.filter
    }

    /// Whether a hit needs no confirmation.
    #[inline(always)]
    pub(super) fn is_disjoint(&self) -> bool {
        self.is_disjoint
    }

    /// The number of flows that it can hold, with few sub-tables.
    pub(super) fn capacity(&self) -> usize {
        self.filter.keys()
    }

    /// The sub-tables of these sets of a vector.
    #[inline(always)]
    pub(super) fn numbers(
        &self,
        sets: u64,
        vector: usize,
        rules: &TupleSpace,
    ) -> impl Iterator<Item = u32> {
        let numbers = bits_of(sets).map(move |set| vector as u32 * u64::BITS + set);
        numbers.filter(|&number| rules.has_subtable(number))
    }

    /// Records the sub-table in which a key was found, if there is a set for its number.
    pub(super) fn put(&self, hash: u64, number: u32) {
        if (number as usize) < self.config.sets {
            self.filter.put(hash, number as usize);
        }
    }

    /// Starts an empty filter if there are more sub-tables than sets, at most a quarter as
    /// many, or none.
    pub(super) fn make_room(&mut self, subtables: usize) {
        // A vector takes at least one block.
        let affordable = self.config.size_bytes_max / size_of::<[u64; 8]>() * 64;
        // Some sets to spare, but not many: keys can only use the fields of existing sets.
        let step = (subtables.next_power_of_two() / 8).max(1);
        let wanted = subtables
            .next_multiple_of(step)
            .clamp(FEWEST_SETS, affordable);
        let is_wide = wanted * 4 <= self.config.sets;
        let is_idle = subtables == 0 && wanted < self.config.sets;
        if wanted > self.config.sets || is_wide || is_idle {
            self.config.sets = wanted;
            self.filter = VectorFilter::new(self.config);
        }
    }
}
