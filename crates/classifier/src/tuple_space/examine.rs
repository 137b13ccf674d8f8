//! Searches one sub-table and notes the deciding bits: the certificate of the parent's essay.
//!
//! Every path out of [`TupleSpace::find_examined`] has added bits such that a key that agrees
//! on them has the same answer from this sub-table:
//!
//! 1. Refused by a prefix trie: no rule anywhere has a matching prefix of this mask's length.
//!    The trie's bits show it, whatever the earlier stages. If they exceed the mask's bits of
//!    the field, it is cheaper to go on, unless they are examined already.
//! 2. Refused by a stage: no value of the sub-table agrees on the stages so far.
//! 3. Refused by the hash table: see
//!    [`Staged::examine_miss`](crate::staged::Staged::examine_miss).
//! 4. Found, at this version or another: the whole mask, so the same value, so the same chain.

use crate::Version;
use crate::staged::Begun;

use super::records::Rule;
use super::subtable::{PrefixCheck, Subtable};
use super::{PrefixAnswers, TupleSpace};

impl TupleSpace {
    /// The best rule of a sub-table, and the bits that show it.
    pub(super) fn find_examined<'a>(
        &self,
        subtable: &'a Subtable,
        key: &[u64],
        version: Version,
        answers: &mut PrefixAnswers,
        examined: &mut [u64],
    ) -> Option<&'a Rule> {
        let staged = &subtable.staged;
        let mut state = staged.hash_start();
        for stage in 0..staged.stage_count() {
            let mut checks = subtable
                .prefixes
                .iter()
                .filter(|check| check.stage == stage);
            if checks.any(|check| self.is_refused(*check, key, answers, examined)) {
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
        let found = subtable.find(state, key, version);
        match found {
            Some(_) => staged.words.add_to(0..staged.words.len(), examined),
            None => staged.examine_miss(key, examined),
        }
        found
    }

    /// Whether a prefix field's trie shows cheaply that no rule with this prefix length
    /// matches.
    fn is_refused(
        &self,
        check: PrefixCheck,
        key: &[u64],
        answers: &mut PrefixAnswers,
        examined: &mut [u64],
    ) -> bool {
        let field = self.shape.prefix_fields()[check.field];
        let answer = answers[check.field]
            .get_or_insert_with(|| self.tries[check.field].lookup(field.value(key)));
        if answer.has_length(check.length) {
            return false;
        }
        let masks = field.masks(answer.examined_bits);
        if answer.examined_bits <= check.length {
            masks.for_each(|(word, mask)| examined[word] |= mask);
            return true;
        }
        masks
            .into_iter()
            .all(|(word, mask)| mask & !examined[word] == 0)
    }
}
