//! Hashes that choose a key's set in a cache, and a flow's gateway.
//!
//! | function | hash |
//! | --- | --- |
//! | [`IndexHash::Crc32`] | CRC-32 of key and seed as little-endian words, modulo the number of sets, as in SwitchV2P's artifact; its Tofino prototype also has a CRC-32 (section 3.4) |
//! | [`IndexHash::Mixed`] | multiplication and shifts of the 128-bit address, scaled to the number of sets |
//! | [`gateway_index`] | CRC-32 of the flow's number, modulo the number of gateways, as in the artifact |
//!
//! The artifact's keys have no tenant. Ours is combined with the seed by exclusive or, so
//! network 0 has exactly the artifact's indices.

use crate::mapping::Key;

/// The function from a key to a set of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexHash {
    /// CRC-32, as in the artifact.
    Crc32,
    /// Multiply and shift.
    Mixed,
}

impl IndexHash {
    /// The set of a key, below `set_count`.
    #[inline]
    pub(crate) fn set_of(self, key: Key, seed: u32, set_count: u32) -> u32 {
        match self {
            IndexHash::Crc32 => crc32_of(key, seed) % set_count,
            IndexHash::Mixed => {
                let hash = mixed(key, u64::from(seed)) >> 32;
                ((hash * u64::from(set_count)) >> 32) as u32
            }
        }
    }
}

/// CRC-32 (IEEE 802.3) of the address, then of seed and tenant.
fn crc32_of(key: Key, seed: u32) -> u32 {
    let tail = seed ^ key.vni.number();
    match key.address.to_ipv4() {
        Some(address) => crc32_of_words(address.to_bits(), tail),
        None => {
            let mut bytes = [0; 20];
            bytes[..16].copy_from_slice(&key.address.to_bits().to_le_bytes());
            bytes[16..].copy_from_slice(&tail.to_le_bytes());
            crc32fast::hash(&bytes)
        }
    }
}

/// CRC-32 of two little-endian words, by one table lookup per byte.
///
/// A switch does this for each packet. For eight bytes it is cheaper than a library's dispatch
/// on input length.
#[inline]
fn crc32_of_words(first: u32, second: u32) -> u32 {
    let first = (!first).to_le_bytes();
    let second = second.to_le_bytes();
    let bytes = first.into_iter().chain(second);
    let parts = bytes.zip(CRC32_TABLES.iter().rev());
    !parts.fold(0, |crc, (byte, table)| crc ^ table[usize::from(byte)])
}

/// The contribution of a byte to the CRC-32, indexed by the number of bytes after it.
static CRC32_TABLES: [[u32; 256]; 8] = crc32_tables();

const fn crc32_tables() -> [[u32; 256]; 8] {
    /// The polynomial of IEEE 802.3, lowest power in the highest bit.
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut position = 0;
        while position < 8 {
            let mut bit = 0;
            while bit < 8 {
                crc = (crc >> 1) ^ (POLYNOMIAL * (crc & 1));
                bit += 1;
            }
            tables[position][byte] = crc;
            position += 1;
        }
        byte += 1;
    }
    tables
}

/// A 64-bit hash: each bit of key and seed changes half of its bits.
///
/// The rounds are those of SplitMix64 (Steele, Lea, Flood: *Fast Splittable Pseudorandom Number
/// Generators*, OOPSLA 2014).
#[inline]
pub(crate) fn mixed(key: Key, seed: u64) -> u64 {
    let bits = key.address.to_bits();
    let first = round((bits >> 64) as u64 ^ seed ^ u64::from(key.vni.number()) << 32);
    round(first ^ bits as u64)
}

#[inline]
fn round(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The index of the gateway that serves a flow; both directions have the same flow number.
///
/// # Panics
/// If there is no gateway.
pub fn gateway_index(flow: u32, gateway_count: usize) -> usize {
    crc32fast::hash(&flow.to_le_bytes()) as usize % gateway_count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Address, Vni};

    fn key(vni: u32, address: u32) -> Key {
        let vni = Vni::new(vni).unwrap();
        let address = Address::from_ipv4(address.into());
        Key { vni, address }
    }

    /// Vectors computed by the artifact's implementation.
    #[test]
    fn crc32_agrees_with_the_artifact() {
        for (address, hash) in [(1, 0xa988_dff7), (5202, 0xe1b0_930f), (10_000, 0x1383_e950)] {
            assert_eq!(crc32_of(key(0, address), 0), hash, "{address}");
        }
        assert_eq!(IndexHash::Crc32.set_of(key(0, 1), 0, 64), 55);
        assert_eq!(gateway_index(1, 40), 1);
        assert_eq!(gateway_index(2, 40), 15);
        assert_eq!(gateway_index(99_297, 40), 1);
    }

    proptest! {
        #[test]
        fn two_words_are_hashed_as_by_the_library(first: u32, second: u32) {
            let bytes = [first.to_le_bytes(), second.to_le_bytes()].concat();
            prop_assert_eq!(crc32_of_words(first, second), crc32fast::hash(&bytes));
        }
    }

    #[test]
    fn tenant_seed_and_each_half_of_an_address_matter() {
        let long = |text: &str| Key {
            vni: Vni::default(),
            address: Address::new(text.parse().unwrap()).unwrap(),
        };
        let base = key(1, 7);
        for hash in [
            |k, s| u64::from(crc32_of(k, s)),
            |k, s: u32| mixed(k, s.into()),
        ] {
            assert_ne!(hash(base, 0), hash(key(2, 7), 0));
            assert_ne!(hash(base, 0), hash(base, 1));
            assert_ne!(hash(long("fd00::1"), 0), hash(long("fd00::2"), 0));
            assert_ne!(hash(long("fd00::1"), 0), hash(long("fd01::1"), 0));
        }
    }

    #[test]
    fn sets_are_used_evenly() {
        for hash in [IndexHash::Crc32, IndexHash::Mixed] {
            let mut counts = [0_u32; 12];
            for address in 0..12_000 {
                counts[hash.set_of(key(0, address), 5, 12) as usize] += 1;
            }
            assert!(
                counts.iter().all(|count| (850..1150).contains(count)),
                "{counts:?}"
            );
        }
    }
}
