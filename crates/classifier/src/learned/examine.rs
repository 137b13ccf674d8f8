//! Finds the bits of a key that show that no rule of an iSet beats the found one.
//!
//! ```text
//!   for each iSet that has a better rule:
//!       the leading bits of the fields' number that show which bucket it is
//!       for each better rule in it one bit in which the key differs from it
//! ```
//!
//! Two keys that agree on these bits have the same bucket, which holds all the rules that they
//! could match (`partition`, invariant 2).

use thalweg_packet::MAX_WORDS;

use crate::{Precedence, Version};

use super::index::Trained;
use super::iset::Iset;

impl Trained {
    /// Adds the bits that show that no rule beats `best`, the precedence of any rule.
    pub(super) fn examine(
        &self,
        key: &[u64],
        version: Version,
        best: Option<Precedence>,
        examined: &mut [u64],
    ) {
        for iset in &self.isets {
            let highest = self.slots.get(iset.best).precedence;
            if best.is_none_or(|best| highest > best) {
                self.examine_iset(iset, key, version, best, examined);
            }
        }
    }

    fn examine_iset(
        &self,
        iset: &Iset,
        key: &[u64],
        version: Version,
        best: Option<Precedence>,
        examined: &mut [u64],
    ) {
        let number = iset.composite.wide(key);
        let bucket = iset.bucket_of(number);
        let (low, high) = iset.range_of(bucket);
        let bits = iset.composite.bits_within(number, low, high);
        iset.composite.add_to(bits, examined);
        for (lane, slot) in iset.groups.bucket(bucket) {
            let rule = self.slots.get(slot);
            if best.is_some_and(|best| rule.precedence <= best) {
                return;
            }
            if !self.slots.exists_at(slot, version) {
                continue;
            }
            let (value, mask): (Vec<u64>, Vec<u64>) = iset.groups.words(lane).unzip();
            let (mut own_value, mut own_mask) = ([0; MAX_WORDS], [0; MAX_WORDS]);
            self.packing.unpack(&value, &mut own_value);
            self.packing.unpack(&mask, &mut own_mask);
            let words = key.iter().zip(own_value).zip(own_mask);
            let differences = words.map(|((key, value), mask)| (key ^ value) & mask);
            add_difference(differences, examined);
        }
    }
}

/// Adds one bit in which a non-matching rule differs from the key, unless one is examined
/// already.
fn add_difference(differences: impl Iterator<Item = u64>, examined: &mut [u64]) {
    let mut first = None;
    for (word, difference) in differences.enumerate() {
        if difference & examined[word] != 0 {
            return;
        }
        if difference != 0 && first.is_none() {
            first = Some((word, 1 << (63 - difference.leading_zeros())));
        }
    }
    let (word, bit) = first.expect("a better rule that matches would be the best");
    examined[word] |= bit;
}
