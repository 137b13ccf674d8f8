//! Random number streams from a seed.
//!
//! Every generator of this crate draws from streams made here: a seed and a label give a
//! stream. Streams of different labels are independent, so that more draws for one purpose
//! (say routes) leave the others (say the ACL) unchanged.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The random number generator: small, fast, its integers the same on every machine.
pub(crate) type Random = Pcg64Mcg;

/// The stream of `seed` for the purpose `label`.
pub(crate) fn stream(seed: u64, label: &str) -> Random {
    // FNV-1a spreads the label; the multiplication spreads neighbouring seeds.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in label.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    Random::seed_from_u64(hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A uniform index below `count`, which must be positive.
pub(crate) fn index_below(random: &mut Random, count: usize) -> usize {
    // Draws 64 bits, so that 32-bit machines get the same sequence.
    random.random_range(0..count as u64) as usize
}

/// A uniform element of `items`, which must not be empty.
pub(crate) fn pick<'a, T>(random: &mut Random, items: &'a [T]) -> &'a T {
    &items[index_below(random, items.len())]
}

/// A random index into `weights`, with probability proportional to its weight.
pub(crate) fn weighted_index(
    random: &mut Random,
    weights: impl Iterator<Item = u32> + Clone,
) -> usize {
    let total: u64 = weights.clone().map(u64::from).sum();
    assert!(total > 0, "weights must not all be zero");
    let mut rest = random.random_range(0..total);
    for (index, weight) in weights.enumerate() {
        if rest < u64::from(weight) {
            return index;
        }
        rest -= u64::from(weight);
    }
    unreachable!("the draw is below the sum of the weights")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_and_by_label() {
        let first = |seed, label| stream(seed, label).random::<u64>();
        assert_eq!(first(1, "a"), first(1, "a"));
        assert_ne!(first(1, "a"), first(2, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
    }

    #[test]
    fn weights_are_kept() {
        let mut random = stream(3, "weights");
        let mut counts = [0; 3];
        for _ in 0..4000 {
            counts[weighted_index(&mut random, [1, 0, 3].into_iter())] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!((800..1200).contains(&counts[0]), "{counts:?}");
    }
}
