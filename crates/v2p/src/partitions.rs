//! Divides the sets of a cache among tenants, so that none displaces another's mappings.
//!
//! ```text
//!   weights    tenant 7: 3   tenant 9: 1   all others: 2
//!   sets       [ 0 ..................... )[ ....... )[ .............. )     in proportion
//! ```
//!
//! A named tenant has its own sets; an insertion for it displaces only its own mappings. All
//! tenants without a name share the remaining sets. If their weight is 0 they have no lines,
//! and the switch serves the named tenants only. Section 4 of the paper, "multitenancy
//! support", asks for this and leaves it open.
//!
//! 1. Every set is in exactly one partition.
//! 2. A partition of `n` sets behaves as a cache of `n` sets that only its own tenants use.
//!    Two things are shared by all tenants: the floors of stale versions (`floors.rs`), and
//!    the time at which a switch was last blamed. Sharing these costs a lookup or a message,
//!    no more.
//!
//! Cost: a search among the named tenants for each key, and nothing if there are none.
//!
//! Reference: Zeno, Chen, Silberstein, *In-Network Address Caching for Virtual Networks*, SIGCOMM
//! 2024, section 4.

use crate::mapping::Vni;

/// Consecutive sets of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sets {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// Why memory cannot be divided this way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// A tenant with two weights.
    #[error("network {} has two shares; give it one", .0.number())]
    Twice(Vni),
    /// All weights are zero.
    #[error("nobody gets memory; give one tenant, or the rest, a weight above 0")]
    Nothing,
}

/// Tenants and their weights.
///
/// ```
/// use thalweg_v2p::{Partitions, Vni};
///
/// let [gold, silver] = [7, 9].map(|number| Vni::new(number).unwrap());
/// let partitions = Partitions::new([(gold, 3), (silver, 1)], 0).unwrap();
/// assert_eq!(partitions.lines_of(gold, 64, 4), 48);
/// assert_eq!(partitions.lines_of(Vni::default(), 64, 4), 0);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partitions {
    /// Sorted by identifier; the weight is the sum of all weights up to this one.
    named: Vec<(Vni, u64)>,
    /// The sum of all weights.
    total: u64,
}

impl Partitions {
    /// Creates weights of named tenants, and of all others together.
    ///
    /// # Errors
    /// If a tenant has two weights, or all are 0.
    pub fn new(
        named: impl IntoIterator<Item = (Vni, u32)>,
        rest: u32,
    ) -> Result<Partitions, PartitionError> {
        let mut named: Vec<(Vni, u64)> = named
            .into_iter()
            .map(|(vni, weight)| (vni, u64::from(weight)))
            .collect();
        named.sort_by_key(|(vni, _)| *vni);
        if let Some(twice) = named.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(PartitionError::Twice(twice[0].0));
        }
        let mut sum = 0;
        for (_, weight) in &mut named {
            sum += *weight;
            *weight = sum;
        }
        match sum + u64::from(rest) {
            0 => Err(PartitionError::Nothing),
            total => Ok(Partitions { named, total }),
        }
    }

    /// Lines of a tenant in a cache of `capacity_entries` lines and `ways` ways. Tenants
    /// without a name share theirs.
    pub fn lines_of(&self, vni: Vni, capacity_entries: u32, ways: u8) -> u32 {
        let ways = u32::from(ways).min(capacity_entries);
        let set_count = capacity_entries.checked_div(ways).unwrap_or(0);
        self.sets_of(vni, set_count).count * ways
    }

    /// Divides `set_count` sets among the tenants.
    pub(crate) fn divide(&self, set_count: u32) -> Division {
        let sets_of = |vni| self.sets_of(vni, set_count);
        let named = self.named.iter().map(|(vni, _)| (*vni, sets_of(*vni)));
        let rest = self.bounds(self.named.len(), set_count);
        Division {
            named: named.collect(),
            rest,
        }
    }

    /// The sets of a tenant among `set_count`.
    fn sets_of(&self, vni: Vni, set_count: u32) -> Sets {
        let known = self.named.binary_search_by_key(&vni, |(vni, _)| *vni);
        self.bounds(known.unwrap_or(self.named.len()), set_count)
    }

    /// The sets of the tenant at `place` in the list; the place after the last is all other
    /// tenants.
    fn bounds(&self, place: usize, set_count: u32) -> Sets {
        let sum_before = place.checked_sub(1).map_or(0, |last| self.named[last].1);
        let sum = self.named.get(place).map_or(self.total, |(_, sum)| *sum);
        let bound = |sum: u64| {
            let share = u128::from(sum) * u128::from(set_count) / u128::from(self.total);
            share as u32
        };
        let first = bound(sum_before);
        Sets {
            first,
            count: bound(sum) - first,
        }
    }
}

/// The partitions of a cache.
#[derive(Clone, Debug)]
pub(crate) struct Division {
    named: Vec<(Vni, Sets)>,
    rest: Sets,
}

impl Division {
    /// The sets of a tenant.
    #[inline]
    pub(crate) fn sets_of(&self, vni: Vni) -> Sets {
        match self.named.binary_search_by_key(&vni, |(vni, _)| *vni) {
            Ok(place) => self.named[place].1,
            Err(_) => self.rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Invariant 1, and that each tenant is within one set of its share.
        #[test]
        fn partitions_are_all_sets_once(
            weights in prop::collection::btree_map(
                0..40_u32,
                prop_oneof![0..5_u32, any::<u32>()],
                0..9,
            ),
            rest in prop_oneof![Just(0), 0..5_u32, any::<u32>()],
            set_count in prop_oneof![0..70_u32, any::<u32>()],
        ) {
            let named = weights.iter().map(|(vni, weight)| (Vni::new(*vni).unwrap(), *weight));
            let sum: u64 = weights.values().map(|weight| u64::from(*weight)).sum();
            let sum = sum + u64::from(rest);
            let partitions = Partitions::new(named, rest);
            prop_assert_eq!(partitions.is_err(), sum == 0);
            let Ok(partitions) = partitions else {
                return Ok(());
            };
            let nameless = (0..).find(|number| !weights.contains_key(number)).unwrap();
            let all = weights.iter().map(|(vni, weight)| (*vni, *weight)).chain([(nameless, rest)]);
            let mut next = 0;
            for (vni, weight) in all {
                let vni = Vni::new(vni).unwrap();
                let sets = partitions.sets_of(vni, set_count);
                prop_assert_eq!(sets.first, next);
                prop_assert_eq!(partitions.divide(set_count).sets_of(vni), sets);
                next += sets.count;
                let share = f64::from(weight) * f64::from(set_count) / sum as f64;
                prop_assert!((f64::from(sets.count) - share).abs() <= 1.0 + share * 1e-9);
            }
            prop_assert_eq!(next, set_count);
        }
    }

    #[test]
    fn what_cannot_be_divided_is_refused() {
        let vni = Vni::new(3).unwrap();
        let twice = Partitions::new([(vni, 1), (vni, 2)], 1).unwrap_err();
        assert_eq!(twice, PartitionError::Twice(vni));
        assert_eq!(twice.to_string(), "network 3 has two shares; give it one");
        assert_eq!(Partitions::new([(vni, 0)], 0), Err(PartitionError::Nothing));
    }
}
