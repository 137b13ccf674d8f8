//! The hot-behaviour detector: counts recent occurrences in a fixed space.
//!
//! ```text
//!   two rows of 65,536 counters of 16 bits
//!   count(behaviour): add one in each row, at the place that the row's hash gives it
//!   the smaller of the two is above the threshold?  clear both, and report the behaviour
//! ```
//!
//! It is a Count-Min sketch. A counter counts all behaviours whose hash maps to it, so the
//! smaller of the two is never less than the number counted since the last clearing. A report
//! also clears the counters of other behaviours that share them; a behaviour that shares only one
//! still has its other counter.
//!
//! The two hashes are the lowest and the highest 16 bits of one seeded 64-bit hash. The paper
//! hashes a behaviour's inputs and outputs. The inputs are enough here: the vector is the sound
//! one, so between two changes of the entries they decide the outputs.
//!
//! 1. A full counter stays full. At the threshold 65,535 nothing is ever reported.
//!
//! References: Zhang et al., *B-Cache*, section IV.A and figure 6; Cormode and Muthukrishnan,
//! *An improved data stream summary: the count-min sketch and its applications*, Journal of
//! Algorithms 55(1), 2005.

/// Counters in a row.
pub const ROW_COUNTERS: usize = 1 << 16;

/// Two rows of counters.
///
/// ```
/// use thalweg_p4::cache::behavior::Detector;
///
/// let mut detector = Detector::new(2);
/// let hash = 0x1234_0000_0000_5678;
/// assert_eq!([1, 2, 3].map(|_| detector.count(hash)), [false, false, true]);
/// assert_eq!(detector.estimate(hash), 0, "a report clears");
/// ```
#[derive(Clone, Debug)]
pub struct Detector {
    rows: [Box<[u16]>; 2],
    threshold: u16,
}

impl Detector {
    /// Creates an empty detector; a behaviour counted more than `threshold` times is hot.
    pub fn new(threshold: u16) -> Detector {
        let row = || vec![0; ROW_COUNTERS].into_boxed_slice();
        Detector {
            rows: [row(), row()],
            threshold,
        }
    }

    /// The count above which a behaviour is hot.
    pub fn threshold(&self) -> u16 {
        self.threshold
    }

    /// Sets the threshold and keeps all counts.
    pub fn set_threshold(&mut self, threshold: u16) {
        self.threshold = threshold;
    }

    /// Counts a behaviour by its hash. Returns whether it is hot, and if so clears its counters.
    #[inline]
    pub fn count(&mut self, hash: u64) -> bool {
        let places = places(hash);
        let mut least = u16::MAX;
        for (row, place) in self.rows.iter_mut().zip(places) {
            row[place] = row[place].saturating_add(1);
            least = least.min(row[place]);
        }
        let is_hot = least > self.threshold;
        if is_hot {
            for (row, place) in self.rows.iter_mut().zip(places) {
                row[place] = 0;
            }
        }
        is_hot
    }

    /// Estimates how often a behaviour was counted since it was cleared. This is an upper bound
    /// unless a behaviour that shares a counter was cleared since.
    pub fn estimate(&self, hash: u64) -> u16 {
        let [first, second] = places(hash);
        self.rows[0][first].min(self.rows[1][second])
    }
}

/// The place in each row that counts a hash.
fn places(hash: u64) -> [usize; 2] {
    [hash as usize % ROW_COUNTERS, (hash >> 48) as usize]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    /// Compares the sketch with an exact list: no behaviour is undercounted.
    #[test]
    fn what_is_counted_is_never_less_than_what_was_seen() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut detector = Detector::new(u16::MAX);
        let mut seen = HashMap::new();
        // Few places, so that most behaviours share counters.
        let hashes: Vec<u64> = (0..500)
            .map(|_| random.random_range(0..16) | random.random_range(0..16_u64) << 48)
            .collect();
        for _ in 0..50_000 {
            let hash = hashes[random.random_range(0..hashes.len())];
            assert!(!detector.count(hash));
            *seen.entry(hash).or_insert(0_u32) += 1;
            assert!(u32::from(detector.estimate(hash)) >= seen[&hash]);
        }
        let alone = 0x7777_0000_0000_7777;
        detector.count(alone);
        assert_eq!(detector.estimate(alone), 1);
    }

    #[test]
    fn one_shared_counter_makes_nothing_hot() {
        let mut detector = Detector::new(10);
        // The two share only the first row's counter.
        let (loud, quiet) = (0x0001_0000_0000_0005, 0x0002_0000_0000_0005);
        for _ in 0..10 {
            assert!(!detector.count(loud));
        }
        assert!(!detector.count(quiet));
        assert_eq!(detector.estimate(quiet), 1);
        assert!(detector.count(loud));
        // The report also cleared the first-row counter that the quiet one shares.
        assert_eq!(detector.estimate(quiet), 0);
    }

    #[test]
    fn behaviours_that_share_both_counters_are_hot_together() {
        let mut detector = Detector::new(3);
        // The two hashes differ only in bits that no row uses.
        let (one, other) = (0x0001_0000_0000_0005, 0x0001_0000_0007_0005);
        let hot = [one, other, one, other].map(|hash| detector.count(hash));
        assert_eq!(hot, [false, false, false, true]);
    }

    #[test]
    fn full_counters_stay_full_and_the_threshold_can_be_changed() {
        let mut detector = Detector::new(u16::MAX);
        for _ in 0..200_000 {
            assert!(!detector.count(7), "invariant 1");
        }
        assert_eq!(detector.estimate(7), u16::MAX);
        detector.set_threshold(100);
        assert!(detector.count(7));
        assert_eq!(detector.estimate(7), 0);
        detector.set_threshold(0);
        assert!(detector.count(7), "the first is hot");
    }
}
