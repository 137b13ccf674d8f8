//! Other packets of the same cache entry: bits that our mask leaves free are changed.
//!
//! Changes are made to the bytes and not to the key, since Open vSwitch only takes bytes: bits are
//! flipped, bytes added at the end or taken away there, the input port is another one. Where the
//! key of what comes out agrees with the old one on the mask, the entry would answer for it.

use rand::Rng;
use rand_pcg::Pcg64Mcg;

use super::answer::Ours;

/// How often a change is tried that leaves the entry.
const ATTEMPTS: usize = 12;

/// Bytes at the front in which bits are flipped: as far as headers go.
const FRONT_BYTES: usize = 120;

/// A packet and the port it comes in by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Arrival {
    pub(super) in_port: u32,
    pub(super) bytes: Vec<u8>,
}

/// Another packet that agrees with `arrival` on `mask`, if one is found.
pub(super) fn neighbor(
    ours: &Ours,
    arrival: &Arrival,
    mask: &[u64],
    ports: u32,
    random: &mut Pcg64Mcg,
) -> Option<Arrival> {
    let key = ours.key(arrival.in_port, &arrival.bytes).ok()?;
    let agrees = |other: &Arrival| {
        let words = ours.key(other.in_port, &other.bytes).ok()?;
        let mut pairs = words.iter().zip(&key).zip(mask);
        pairs
            .all(|((new, old), mask)| (new ^ old) & mask == 0)
            .then_some(())
    };
    let mut found = arrival.clone();
    for _ in 0..ATTEMPTS {
        let mut next = found.clone();
        change(&mut next, ports, random);
        if agrees(&next).is_some() {
            found = next;
        }
    }
    (found != *arrival).then_some(found)
}

fn change(arrival: &mut Arrival, ports: u32, random: &mut Pcg64Mcg) {
    let bytes = &mut arrival.bytes;
    match random.random_range(0..16_u8) {
        0 => arrival.in_port = random.random_range(1..=ports),
        1 => bytes.truncate(random.random_range(14..=bytes.len().max(14))),
        2 => bytes.extend([random.random::<u8>(); 8]),
        3..6 => {
            let place = random.random_range(0..bytes.len().min(FRONT_BYTES));
            bytes[place] = random.random();
        }
        _ => {
            for _ in 0..random.random_range(1..=3_u8) {
                let place = random.random_range(0..bytes.len().min(FRONT_BYTES));
                bytes[place] ^= 1 << random.random_range(0..8_u8);
            }
        }
    }
}
