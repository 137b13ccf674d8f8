//! A keyed hash of tuples, the same for both directions of a connection without translation.
//!
//! A connection and its answers so fall into one shard, which one lock guards. The key is the
//! tracker's seed, so that a sender cannot know which tuples collide. Words are mixed by a
//! multiplication to 128 bits whose halves are combined, as in W. Yi, "wyhash" (2019).
//!
//! 1. `tuple(t) == tuple(t.reversed())`. The type of ICMP, which differs, is left out.

use std::net::Ipv6Addr;

use crate::{Endpoint, Tuple};

/// Odd constants without a pattern: digits of pi.
const K: [u64; 3] = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7345,
    0xa409_3822_299f_31d1,
];

/// The key of the hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(u64);

impl Seed {
    pub(crate) fn new(seed: u64) -> Seed {
        Seed(mix(seed ^ K[0], K[1]))
    }

    /// The hash of a tuple and of its reverse.
    pub(crate) fn tuple(self, tuple: &Tuple) -> u64 {
        let ends = self
            .endpoint(&tuple.source)
            .wrapping_add(self.endpoint(&tuple.destination));
        let rest =
            u64::from(tuple.zone) << 16 | u64::from(tuple.protocol) << 8 | u64::from(tuple.is_ipv6);
        mix(ends ^ self.0, rest ^ K[2])
    }

    /// The hash of words in their order.
    pub(crate) fn words(self, words: &[u64]) -> u64 {
        let sum = words
            .iter()
            .fold(self.0, |hash, word| mix(hash ^ K[1], word ^ K[0]));
        mix(sum, K[2])
    }

    fn endpoint(self, endpoint: &Endpoint) -> u64 {
        let [high, low] = halves(endpoint.address);
        mix(
            mix(high ^ self.0, low ^ K[0]) ^ u64::from(endpoint.port),
            K[1],
        )
    }
}

/// The two words of an address.
pub(crate) fn halves(address: Ipv6Addr) -> [u64; 2] {
    let bits = address.to_bits();
    [(bits >> 64) as u64, bits as u64]
}

/// The next number of a sequence that begins anywhere; after SplitMix64.
pub(crate) fn step(random: u64) -> u64 {
    let word = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(word, K[0] | 1)
}

fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tests::tuple;

    #[test]
    fn both_directions_have_one_hash() {
        let seed = Seed::new(5);
        let echo = Tuple {
            protocol: 1,
            icmp: (8, 0),
            ..tuple("10.0.0.1", 7, "10.0.0.2", 7)
        };
        for tuple in [tuple("10.0.0.1", 1, "10.0.0.2", 2), echo] {
            assert_eq!(
                seed.tuple(&tuple),
                seed.tuple(&tuple.reversed()),
                "invariant 1"
            );
            assert_ne!(seed.tuple(&tuple), Seed::new(6).tuple(&tuple));
        }
    }

    #[test]
    fn near_tuples_spread_over_all_bits() {
        let seed = Seed::new(1);
        let hashes: Vec<u64> = (1..=4_096)
            .map(|port| seed.tuple(&tuple("10.0.0.1", port, "10.0.0.2", 80)))
            .collect();
        assert_eq!(hashes.iter().collect::<BTreeSet<_>>().len(), 4_096);
        for bit in 0..64 {
            let ones = hashes.iter().filter(|hash| *hash >> bit & 1 == 1).count();
            assert!((1_848..=2_248).contains(&ones), "bit {bit}: {ones}");
        }
    }
}
