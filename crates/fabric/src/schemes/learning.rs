//! A cache that learns every mapping that passes: LocalLearning and GwCache.
//!
//! It looks up an unresolved packet. From a resolved packet it inserts the destination's
//! mapping, whatever it displaces (section 3.1, "local greedy approach"). It is SwitchV2P's
//! cache, direct-mapped and indexed by CRC-32, with the access bits unused. In the published
//! code each switch has its own seed in LocalLearning, and all have seed 0 in GwCache.
//!
//! The paper's GwCache represents Sailfish (Pan et al., SIGCOMM 2021) in that its caches are
//! at the gateways; a controller fills Sailfish's.

use thalweg_v2p::{Admission, Cache, MapVersion, Mapping, MappingCacheConfig};

use super::{Question, Resolution};

/// The cache of one switch.
#[derive(Clone, Debug)]
pub(crate) struct LearningCache(Cache);

impl LearningCache {
    /// Creates an empty cache of `entries` lines.
    pub(crate) fn new(entries: u32, seed: u32) -> LearningCache {
        LearningCache(Cache::new(&MappingCacheConfig {
            seed,
            zero_is_free: true,
            ..MappingCacheConfig::new(entries)
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
            version: MapVersion::NONE,
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

    /// Compares with a map from the published code's index to the last pair.
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
