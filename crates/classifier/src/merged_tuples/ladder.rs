//! The masks that a rule's table may have: from one that many rules share down to its own.
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
//! Addresses are the prefix fields of 32 bits and more, ports the others; "quarters" says that a
//! prefix's length is rounded down to a quarter of the field, or two, three or all four. What
//! metadata and link stages have is never left out: rules of different types of packets have
//! nothing to gain from a common table. Without addresses the rungs keep the rest too.
//!
//! The numbers were chosen by trying a dozen ladders on ClassBench's rules and on the pipelines of
//! the workload crate. TupleMerge's own (section IV.B of the paper) are of this kind.
//!
//! 1. Every rung is a part of the next, and the last is the rule's own mask.

use thalweg_packet::{MAX_WORDS, Stage};

use crate::key_shape::KeyShape;
use crate::prefix_field::PrefixField;

/// A mask of a whole key.
pub(super) type Mask = [u64; MAX_WORDS];

/// How many masks there are for a rule.
pub(super) const RUNGS: usize = 5;

/// Fields of so many bits are addresses.
const ADDRESS_BITS: u32 = 32;

/// The mask of a rung, of a rule with this mask.
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

/// How long a mask's prefix of a field is, in eighths of the field.
fn share(field: PrefixField, mask: &[u64]) -> u32 {
    field.leading_bits(mask) * 8 / field.width_bits()
}

/// The length of a mask's prefix of a field, rounded down to one of so many parts.
fn round(field: PrefixField, mask: &[u64], parts: u32) -> u32 {
    let unit = field.width_bits().div_ceil(parts);
    let length = field.leading_bits(mask);
    match length == field.width_bits() {
        true => length,
        false => length / unit * unit,
    }
}

/// Leaves of a field in a mask its first `length` bits.
fn keep(field: PrefixField, mask: &[u64], length: u32, relaxed: &mut Mask) {
    for ((word, all), (_, kept)) in field.masks(field.width_bits()).zip(field.masks(length)) {
        if all != 0 {
            relaxed[word] = relaxed[word] & !all | mask[word] & kept;
        }
    }
}

/// Leaves out what is neither a prefix field nor of the metadata or link stage.
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
