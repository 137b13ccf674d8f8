//! Chooses which misses are recorded.
//!
//! ```text
//!   a key is missed:   was it the last one missed at its place?          -> record
//!                      does its hash fall on one in so many?             -> record
//!                      else it is noted at its place, and goes uncached
//! ```
//!
//! A recording costs as much as the walk, and pays off when the segment is hit again. A flow's
//! second packet is therefore recorded. Flows of one packet each, many of which would share a
//! segment, never miss twice with the same whole key. One in `one_in` of these is recorded, and
//! the packets that share its segment then hit. A scan, whose packets share nothing, costs
//! little more than without a cache. Open vSwitch inserts flows into its exact-match cache with
//! such a probability (`emc-insert-inv-prob`).
//!
//! The notes are 16 bits of the hash at each of 8,192 places. A new key replaces the note at
//! its place, so old misses are forgotten.
//!
//! 1. The choice is a function of the seed and the missed keys only.

/// Number of noted keys, 16 bits each.
const PLACES: usize = 1 << 13;

/// Chooses which misses are recorded.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    tags: Box<[u16]>,
    one_in: u32,
}

impl Admission {
    /// Records one in `one_in` of the keys that miss for the first time.
    ///
    /// With 0, it records nothing at all.
    pub(crate) fn new(one_in: u32) -> Admission {
        Admission {
            tags: vec![0; PLACES].into(),
            one_in,
        }
    }

    /// Changes `one_in` from now on.
    pub(crate) fn set(&mut self, one_in: u32) {
        self.one_in = one_in;
    }

    /// Whether to record the walk of a missed key.
    #[inline]
    pub(crate) fn admits(&mut self, hash: u64) -> bool {
        if self.one_in <= 1 {
            return self.one_in == 1;
        }
        let tag = (hash >> 48) as u16;
        let noted = std::mem::replace(&mut self.tags[hash as usize % PLACES], tag);
        let middle = hash >> 16 & 0xffff_ffff;
        noted == tag || (middle * u64::from(self.one_in)) >> 32 == 0
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    fn hashes(count: usize) -> Vec<u64> {
        let mut random = Pcg64Mcg::seed_from_u64(5);
        (0..count).map(|_| random.random()).collect()
    }

    #[test]
    fn the_second_miss_is_recorded_and_of_the_first_one_in_sixteen() {
        let mut admission = Admission::new(16);
        let (mut first, mut second) = (0, 0);
        for hash in hashes(16_000) {
            first += usize::from(admission.admits(hash));
            second += usize::from(admission.admits(hash));
        }
        assert_eq!(second, 16_000);
        assert!((850..1_150).contains(&first), "{first}");
    }

    #[test]
    fn what_was_missed_long_ago_is_forgotten() {
        let mut admission = Admission::new(u32::MAX);
        let hashes = hashes(100_000);
        let twice = |admission: &mut Admission| {
            let admitted = hashes.iter().filter(|&&hash| admission.admits(hash));
            admitted.count()
        };
        assert!(twice(&mut admission) < 20);
        assert!(twice(&mut admission) < 20);
    }

    #[test]
    fn all_or_nothing_if_so_asked() {
        let mut admission = Admission::new(1);
        assert!(hashes(100).into_iter().all(|hash| admission.admits(hash)));
        admission.set(0);
        let mut twice = hashes(100).into_iter().chain(hashes(100));
        assert!(twice.all(|hash| !admission.admits(hash)));
    }
}
