//! Finds the bits of a key that show that the found rule is the best.
//!
//! The rule's own mask shows that it matches. For each table that has a better rule, these
//! bits show that none of its better rules that exist matches:
//!
//! ```text
//!   for each stage of the table's mask:
//!       for each prefix field in it that all rules of the table have a prefix of:
//!           no rule anywhere has a matching prefix of a length that the table has:
//!               the bits the field's trie looked at, if the table's mask has as many of the field,
//!               or all of them are examined already
//!       not the last stage, and no bucket begins like the key: the stages up to this one
//!   no bucket: the leading bits of the last stage that show it; else the table's mask
//!   a bucket:  the table's mask, and for each better rule in it one bit in which the key differs
//!              from it, the most significant of the first word that has one; none if the key
//!              differs from it in a bit that is examined already
//! ```
//!
//! At the end, the bits of each prefix field are rounded up to a prefix of a multiple of four
//! bits. Soundness does not need this, and it adds megaflows. But where rules have hundreds of
//! masks, their lengths would otherwise combine to thousands of different masks of megaflows,
//! and a megaflow is looked up mask by mask. The figures are in
//! `docs/decisions/20-examined-prefixes-are-rounded.md`.
//!
//! While each mask has its own table, [`MergedTuples::find_examined`] works like a tuple
//! space, gives its masks, and does not round.

use crate::Version;
use crate::key_shape::PREFIX_FIELDS_MAX;
use crate::prefix_trie::PrefixMatch;
use crate::staged::Begun;

use super::table::{PrefixCheck, Table};
use super::{Best, MergedTuples};

/// The answer of each prefix field's trie for the key of a lookup, once asked.
type PrefixAnswers = [Option<PrefixMatch>; PREFIX_FIELDS_MAX];

/// The examined bits of a prefix field are rounded up to a multiple of this.
const PREFIX_STEP_BITS: u32 = 4;

impl MergedTuples {
    /// Finds the best rule among single-mask tables, and the bits that show it.
    pub(super) fn find_examined(
        &self,
        key: &[u64],
        version: Version,
        examined: &mut [u64],
    ) -> Best {
        let mut best = Best::NONE;
        let mut answers = PrefixAnswers::default();
        for ranked in &self.order {
            if best.is_above(ranked.highest) {
                break;
            }
            let table = self.table(ranked.table);
            let Some(hash) = self.reach_bucket(table, key, &mut answers, examined) else {
                continue;
            };
            if table.has_bucket(hash, key) {
                let words = &table.staged.words;
                words.add_to(0..words.len(), examined);
                table.search(hash, key, version, &self.masks, &mut best);
            } else {
                table.staged.examine_miss(key, examined);
            }
        }
        best
    }

    /// Adds the bits that show that no rule beats `best`, which was found before.
    pub(crate) fn examine(&self, key: &[u64], version: Version, best: Best, examined: &mut [u64]) {
        if let Some((_, _, mask)) = best.rule
            && !best.is_beside()
        {
            for (examined, mask) in examined.iter_mut().zip(self.masks.bits(mask)) {
                *examined |= mask;
            }
        }
        let mut answers = PrefixAnswers::default();
        for ranked in &self.order {
            if !best.is_below(ranked.highest) {
                break;
            }
            let table = self.table(ranked.table);
            if let Some(hash) = self.reach_bucket(table, key, &mut answers, examined) {
                self.examine_bucket(table, hash, key, version, best, examined);
            }
        }
        self.round(examined);
    }

    /// Adds the bits that show that a table has no bucket for the key.
    ///
    /// Returns the key's hash if there may be a bucket.
    fn reach_bucket(
        &self,
        table: &Table,
        key: &[u64],
        answers: &mut PrefixAnswers,
        examined: &mut [u64],
    ) -> Option<u64> {
        let staged = &table.staged;
        let mut state = staged.hash_start();
        for stage in 0..staged.stage_count() {
            let mut checks = table.prefixes.iter().filter(|check| check.stage == stage);
            if checks.any(|check| self.is_refused(check, key, answers, examined)) {
                return None;
            }
            match staged.begin(stage, key, state) {
                Begun::Refused(end) => {
                    staged.words.add_to(0..end, examined);
                    return None;
                }
                Begun::Reached(reached) => state = reached,
            }
        }
        Some(state)
    }

    fn is_refused(
        &self,
        check: &PrefixCheck,
        key: &[u64],
        answers: &mut PrefixAnswers,
        examined: &mut [u64],
    ) -> bool {
        let field = self.shape.prefix_fields()[check.field];
        let answer = answers[check.field]
            .get_or_insert_with(|| self.tries[check.field].lookup(field.value(key)));
        if answer.has_any(check.lengths) {
            return false;
        }
        let mut masks = field.masks(answer.examined_bits);
        if answer.examined_bits <= check.own_length {
            masks.for_each(|(word, mask)| examined[word] |= mask);
            return true;
        }
        masks.all(|(word, mask)| mask & !examined[word] == 0)
    }

    fn examine_bucket(
        &self,
        table: &Table,
        hash: u64,
        key: &[u64],
        version: Version,
        best: Best,
        examined: &mut [u64],
    ) {
        if !table.has_bucket(hash, key) {
            table.staged.examine_miss(key, examined);
            return;
        }
        let words = &table.staged.words;
        words.add_to(0..words.len(), examined);
        for record in table.bucket(hash, key) {
            let rule = table.rule(record);
            if !best.is_below(rule.precedence) {
                break;
            }
            let mut chain = table.chain(record);
            if chain.any(|rule| rule.exists_at(version) && best.is_below(rule.precedence)) {
                let mask = self.masks.bits(rule.mask);
                let differences = table
                    .words(record)
                    .map(|(word, value)| (word, (key[word] ^ value) & mask[word]));
                add_difference(differences, examined);
            }
        }
    }

    /// Rounds the examined bits of each prefix field up to a multiple of a few bits.
    fn round(&self, examined: &mut [u64]) {
        for field in self.shape.prefix_fields() {
            let bits = field.value(examined);
            if bits != 0 {
                let length =
                    (u128::BITS - bits.trailing_zeros()).next_multiple_of(PREFIX_STEP_BITS);
                let masks = field.masks(length.min(field.width_bits()));
                masks.for_each(|(word, mask)| examined[word] |= mask);
            }
        }
    }
}

/// Adds one bit in which a non-matching rule differs from the key, unless one is examined
/// already.
fn add_difference(differences: impl Iterator<Item = (usize, u64)>, examined: &mut [u64]) {
    let mut first = None;
    for (word, difference) in differences.filter(|&(_, difference)| difference != 0) {
        if difference & examined[word] != 0 {
            return;
        }
        first.get_or_insert((word, 1 << (63 - difference.leading_zeros())));
    }
    let (word, bit) = first.expect("a better rule that matches would be the best");
    examined[word] |= bit;
}
