//! The masks that a rule's table may have: from one that many rules share down to the rule's
//! own.
//!
//! ```text
//!   rung  addresses                             ports      the rest of network and transport
//!   0     quarters but the last; of two that    -          -
//!         differ much, the longer alone
//!   1     quarters                              -          -
//!   2     quarters                              halves     as it is
//!   3     eighths                               quarters   as it is
//!   4     as they are                           as they are  as it is
//! ```
//!
//! Addresses are the prefix fields of 32 bits and more; ports are the other ones. "Quarters"
//! means that a prefix's length is rounded down to one, two, three or four quarters of the
//! field. The bits of the metadata and link stages are never left out: rules of different
//! packet types gain nothing from a common table. Without addresses the rungs keep the rest
//! too.
//!
//! The numbers were chosen by trying a dozen ladders on ClassBench's rules and on the
//! pipelines of the workload crate. Ladders that start as coarse and end as fine hardly
//! differ.
//!
//! 1. Every rung is a part of the rule's mask, and the last rung is that mask.

use thalweg_packet::{MAX_WORDS, Stage};

use crate::key_shape::KeyShape;
use crate::prefix_field::PrefixField;

/// A mask of a whole key.
pub(super) type Mask = [u64; MAX_WORDS];

/// The number of masks on a rule's ladder.
pub(super) const RUNGS: usize = 5;

/// Prefix fields of at least this width are addresses.
const ADDRESS_BITS: u32 = 32;

/// The mask of rung `rung` for a rule with mask `mask`.
pub(super) fn rung(mask: &[u64], rung: usize, shape: &KeyShape) -> Mask {
    let mut relaxed = [0; MAX_WORDS];
    relaxed[..mask.len()].copy_from_slice(mask);
    if rung >= RUNGS - 1 {
        return relaxed;
    }
    let addresses = shape.prefix_fields().iter().copied();
    let addresses = addresses.filter(|field| field.width_bits() >= ADDRESS_BITS);
    let longest = addresses.clone().map(|field| share(field, mask)).max();
    let has_addresses = longest.is_some_and(|longest| longest >= 1);
    if rung < 2 && has_addresses {
        leave_out_rest(&mut relaxed[..mask.len()], shape);
    }
    for field in shape.prefix_fields() {
        let kept = match (rung, field.width_bits() >= ADDRESS_BITS) {
            (0, true) if share(*field, mask) + 2 < longest.unwrap_or(0) => 0,
            (0, true) => round(*field, mask, 4).min(field.width_bits() / 4 * 3),
            (1 | 2, true) => round(*field, mask, 4),
            (_, true) => round(*field, mask, 8),
            (0 | 1, false) if has_addresses => 0,
            (0..=2, false) => round(*field, mask, 2),
            (_, false) => round(*field, mask, 4),
        };
        keep(*field, mask, kept, &mut relaxed);
    }
    relaxed
}

/// The length of a mask's prefix of a field, in eighths of the field.
fn share(field: PrefixField, mask: &[u64]) -> u32 {
    field.leading_bits(mask) * 8 / field.width_bits()
}

/// The length of a mask's prefix of a field, rounded down to a multiple of one of `parts`
/// parts.
fn round(field: PrefixField, mask: &[u64], parts: u32) -> u32 {
    let unit = field.width_bits().div_ceil(parts);
    let length = field.leading_bits(mask);
    match length == field.width_bits() {
        true => length,
        false => length / unit * unit,
    }
}

/// Keeps only the first `length` bits of a field in `relaxed`.
fn keep(field: PrefixField, mask: &[u64], length: u32, relaxed: &mut Mask) {
    for ((word, all), (_, kept)) in field.masks(field.width_bits()).zip(field.masks(length)) {
        if all != 0 {
            relaxed[word] = relaxed[word] & !all | mask[word] & kept;
        }
    }
}

/// Removes all bits of the network and transport stages that are not in a prefix field.
fn leave_out_rest(mask: &mut [u64], shape: &KeyShape) {
    for (word, bits) in mask.iter_mut().enumerate() {
        if shape.stage(word) >= Stage::Network {
            let fields = shape.prefix_fields().iter();
            let masks = fields.flat_map(|field| field.masks(field.width_bits()));
            let own = masks.filter(|&(other, _)| other == word);
            *bits &= own.fold(0, |bits, (_, mask)| bits | mask);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TupleSpaceConfig;
    use crate::hash::hash_words;
    use thalweg_packet::Slot;

    /// A type, two IPv4 addresses, a protocol, two ports.
    fn shape() -> KeyShape {
        let slot = |word, shift, width_bits| Slot {
            word,
            shift,
            width_bits,
        };
        KeyShape::new(&TupleSpaceConfig {
            stages: vec![
                Stage::Link,
                Stage::Network,
                Stage::Network,
                Stage::Transport,
            ],
            prefix_fields: vec![slot(1, 32, 32), slot(1, 0, 32), slot(3, 16, 16)],
            seed: 0,
        })
    }

    #[track_caller]
    fn check(mask: [u64; 4], expected: [[u64; 4]; RUNGS]) {
        let rungs: Vec<Mask> = (0..RUNGS).map(|at| rung(&mask, at, &shape())).collect();
        for (rung, expected) in rungs.iter().zip(expected) {
            assert_eq!(rung[..4], expected, "{:x?}", &rung[..4]);
        }
    }

    #[test]
    fn addresses_first_then_ports() {
        check(
            [0xffff, 0xffff_f800_ff00_0000, 0xff, 0xfff0_0000],
            [
                [0xffff, 0xffff_0000_0000_0000, 0, 0],
                [0xffff, 0xffff_0000_ff00_0000, 0, 0],
                [0xffff, 0xffff_0000_ff00_0000, 0xff, 0xff00_0000],
                [0xffff, 0xffff_f000_ff00_0000, 0xff, 0xfff0_0000],
                [0xffff, 0xffff_f800_ff00_0000, 0xff, 0xfff0_0000],
            ],
        );
    }

    #[test]
    fn without_addresses_the_rest_stays() {
        let (first, second) = (
            [0xffff, 0, 0xff, 0xff00_0000],
            [0xffff, 0, 0xff, 0xfff0_0000],
        );
        check(
            [0xffff, 0, 0xff, 0xfff8_0000],
            [first, first, first, second, [0xffff, 0, 0xff, 0xfff8_0000]],
        );
    }

    #[test]
    fn every_rung_is_a_part_of_the_mask() {
        let shape = shape();
        for step in 0..2_000u64 {
            let random = |salt: u64| hash_words(salt, &[step]);
            let mask = [0, 1, 2, 3].map(|word| random(word) | random(word + 4) << (step % 64));
            for at in 0..RUNGS {
                let rung = rung(&mask, at, &shape);
                assert!(rung.iter().zip(mask).all(|(rung, mask)| rung & !mask == 0));
                assert!(at < RUNGS - 1 || rung[..4] == mask);
            }
        }
    }
}
