//! A cache that learns every mapping that passes: LocalLearning and GwCache.
//!
//! An unresolved packet is looked up; of a resolved one the destination's mapping is put in,
//! whatever is in its way (section 3.1, "local greedy approach"). It is the cache of SwitchV2P,
//! direct-mapped and indexed by CRC-32, with the access bits unused. In the published code each
//! switch has a seed of its own in LocalLearning, and all have seed 0 in GwCache.
//!
//! The paper's GwCache stands for Sailfish (Pan et al., SIGCOMM 2021) as far as it has its caches at
//! the gateways; Sailfish's are filled by a controller.

use thalweg_v2p::{Admission, Cache, CacheConfig, Mapping, Version};

use super::{Question, Resolution};

/// The cache of one switch.
#[derive(Clone, Debug)]
pub(crate) struct LearningCache(Cache);

impl LearningCache {
    /// An empty cache of so many lines.
    pub(crate) fn new(entries: u32, seed: u32) -> LearningCache {
        LearningCache(Cache::new(&CacheConfig {
            seed,
            zero_is_free: true,
            ..CacheConfig::new(entries)
        }))
    }

    /// Resolves a packet, or learns from it.
    pub(crate) fn handle(&mut self, question: Question<'_>) -> Resolution {
        let key = question.data.destination_key();
        let set = self.0.locate(key);
        if question.is_unresolved {
            return self.0.lookup(set, key).map(|found| found.place).into();
        }
        let mapping = Mapping {
            key,
            place: question.outer_destination,
            version: Version::NONE,
        };
        self.0.put(set, mapping, Admission::Always);
        Resolution::AsIs
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64;
    use thalweg_v2p::{Address, Data, Tags, Vni};

    use super::*;

    fn address(number: u32) -> Address {
        Address::from_ipv4(number.into())
    }

    /// Against a map from the index, as the published code computes it, to the last pair.
    #[test]
    fn the_last_mapping_of_a_line_is_there() {
        let mut random = Pcg64::seed_from_u64(1);
        for (entries, seed) in [(1, 0), (7, 0), (64, 99)] {
            let mut cache = LearningCache::new(entries, seed);
            let mut lines: HashMap<u32, (u32, u32)> = HashMap::new();
            for _ in 0..4_000 {
                let (vip, pip) = (random.random_range(1..200_u32), random.random_range(1..9));
                let mut bytes = [0; 8];
                bytes[..4].copy_from_slice(&vip.to_le_bytes());
                bytes[4..].copy_from_slice(&seed.to_le_bytes());
                let line = crc32fast::hash(&bytes) % entries;
                let is_unresolved = random.random_bool(0.5);
                let data = Data {
                    vni: Vni::default(),
                    inner_source: address(1),
                    inner_destination: address(vip),
                    tags: Tags::default(),
                };
                let found = cache.handle(Question {
                    data: &data,
                    is_unresolved,
                    outer_destination: address(pip),
                    bytes: 122,
                });
                if is_unresolved {
                    let there = lines.get(&line).filter(|(key, _)| *key == vip);
                    let expected = there.map(|(_, place)| address(*place));
                    assert_eq!(found, expected.into());
                } else {
                    lines.insert(line, (vip, pip));
                    assert_eq!(found, Resolution::AsIs);
                }
            }
        }
    }
}
