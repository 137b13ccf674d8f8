//! Other packets of the same cache entry, made by changing bits outside our mask.
//!
//! The bytes are changed, not the key, because Open vSwitch takes only bytes. Bits are
//! flipped, bytes are added or removed at the end, or the input port changes. If the new key
//! agrees with the old one on the mask, the entry would answer for it.

use rand::Rng;
use rand_pcg::Pcg64Mcg;

use super::answer::Ours;

/// Attempts, because a change may leave the entry.
const ATTEMPTS: usize = 12;

/// Bytes at the front in which bits are flipped; headers end within them.
const FRONT_BYTES: usize = 120;

/// A packet and its input port.
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
