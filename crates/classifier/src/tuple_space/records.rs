//! Rules and their values by record: in one cache line where they fit.
//!
//! ```text
//!   near:   record -> rule, compact value of 2 to 4 words                        (one line)
//!   apart:  rules:   record -> rule                                              (32 bytes)
//!           values:  record -> compact value                       (8 bytes a masked word)
//! ```
//!
//! Whoever finds a rule reads both: the value to compare it, the rule to see whether it exists and
//! how good it is. Apart they take two lines or three. Longer values do not fit into a line with
//! their rule, and one word would leave nearly half of it empty: what is near costs 16 bytes a rule
//! where the value has two words, 8 where it has three, and nothing where it has four. With it, and
//! with an index that is searched once, a burst that finds its rules behind a filter takes 0.6 times
//! as long among 2,000,000, 0.8 among 20,000. Two words near instead of apart: 0.7 times among
//! 2,000,000, 0.9 among 20,000 (five-tuples of `benches/bloom.rs`, 41 and 18 ns).
//!
//! 1. Records are dense: removing one moves the last into its place.
//! 2. The words of a near value beyond those of the mask are zero.

use crate::capacity::{grow, shrink};
use crate::{Precedence, RuleId, Version};

/// The end of a chain.
pub(super) const NONE: u32 = u32::MAX;
/// A compact value of so many words or fewer is short.
pub(super) const SHORT_WORDS: usize = crate::simd::SHORT_WORDS;
/// Words of a value that lies near its rule, and of those that others may have.
const NEAR_WORDS: usize = SHORT_WORDS;
const NEAR_WORDS_MIN: usize = 2;

/// A rule without its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) precedence: Precedence,
    pub(crate) born: Version,
    pub(crate) died: Version,
    pub(crate) id: RuleId,
    /// The record of the next rule with the same value.
    pub(super) next: u32,
}

impl Rule {
    pub(crate) fn new(precedence: Precedence, id: RuleId, born: Version) -> Rule {
        Rule {
            precedence,
            born,
            died: Version::NEVER,
            id,
            next: NONE,
        }
    }

    #[inline(always)]
    pub(super) fn exists_at(&self, version: Version) -> bool {
        self.born <= version && version < self.died
    }
}

/// The rules of a sub-table and their compact values.
#[derive(Clone, Debug)]
pub(super) struct Records {
    /// Of a value.
    words: usize,
    list: List,
}

#[derive(Clone, Debug)]
enum List {
    Near(Vec<Near>),
    Apart { rules: Vec<Rule>, values: Vec<u64> },
}

/// A rule beside its value.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Near {
    value: [u64; NEAR_WORDS],
    rule: Rule,
}

const _: () = assert!(size_of::<Near>() == 64);

impl Records {
    /// None, of values of so many words.
    pub(super) fn new(words: usize) -> Records {
        let list = match words {
            NEAR_WORDS_MIN..=NEAR_WORDS => List::Near(Vec::new()),
            _ => List::Apart {
                rules: Vec::new(),
                values: Vec::new(),
            },
        };
        Records { words, list }
    }

    pub(super) fn len(&self) -> usize {
        match &self.list {
            List::Near(list) => list.len(),
            List::Apart { rules, .. } => rules.len(),
        }
    }

    #[inline(always)]
    pub(super) fn rule(&self, record: u32) -> &Rule {
        match &self.list {
            List::Near(list) => &list[record as usize].rule,
            List::Apart { rules, .. } => &rules[record as usize],
        }
    }

    pub(super) fn rule_mut(&mut self, record: u32) -> &mut Rule {
        match &mut self.list {
            List::Near(list) => &mut list[record as usize].rule,
            List::Apart { rules, .. } => &mut rules[record as usize],
        }
    }

    /// A rule's compact value.
    #[inline(always)]
    pub(super) fn value(&self, record: u32) -> &[u64] {
        match &self.list {
            List::Near(list) => &list[record as usize].value[..self.words],
            List::Apart { values, .. } => &values[record as usize * self.words..][..self.words],
        }
    }

    /// Whether this is a rule's compact value, which is short; words that it has not are zero.
    #[inline(always)]
    pub(super) fn is_value(&self, record: u32, value: &[u64; SHORT_WORDS]) -> bool {
        match &self.list {
            List::Near(list) => list[record as usize].value == *value,
            List::Apart { .. } => *self.value(record) == value[..self.words],
        }
    }

    /// Asks for a record to be brought into the cache.
    #[inline(always)]
    pub(super) fn prefetch(&self, record: u32) {
        match &self.list {
            List::Near(list) => crate::simd::prefetch(list, record as usize),
            List::Apart { rules, values } => {
                crate::simd::prefetch(rules, record as usize);
                crate::simd::prefetch(values, record as usize * self.words);
            }
        }
    }

    /// Adds a record at the end.
    pub(super) fn push(&mut self, rule: Rule, value: &[u64]) {
        debug_assert_eq!(value.len(), self.words);
        match &mut self.list {
            List::Near(list) => {
                let mut near = [0; NEAR_WORDS];
                near[..value.len()].copy_from_slice(value);
                grow(list, 1);
                list.push(Near { value: near, rule });
            }
            List::Apart { rules, values } => {
                grow(rules, 1);
                grow(values, value.len());
                rules.push(rule);
                values.extend_from_slice(value);
            }
        }
    }

    /// Takes a record out; the last has its place then.
    pub(super) fn swap_remove(&mut self, record: u32) {
        match &mut self.list {
            List::Near(list) => {
                list.swap_remove(record as usize);
                shrink(list);
            }
            List::Apart { rules, values } => {
                let start = values.len() - self.words;
                values.copy_within(start.., record as usize * self.words);
                values.truncate(start);
                rules.swap_remove(record as usize);
                shrink(rules);
                shrink(values);
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match &self.list {
            List::Near(list) => list.capacity() * size_of::<Near>(),
            List::Apart { rules, values } => {
                rules.capacity() * size_of::<Rule>() + values.capacity() * size_of::<u64>()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against lists of rules and values, for every length of values near and apart.
    #[test]
    fn records_are_those_that_were_put_in_and_not_taken_out() {
        for words in 0..=NEAR_WORDS + 2 {
            let mut records = Records::new(words);
            let mut model: Vec<(RuleId, Vec<u64>)> = Vec::new();
            for step in 0..3_000_u64 {
                let random = crate::hash::hash_words(words as u64, &[step]);
                // More come than go, then more go than come.
                let comes = random % 5 < if step < 1_500 { 3 } else { 2 };
                if comes || model.is_empty() {
                    let value: Vec<u64> = (0..words as u64).map(|word| random ^ word).collect();
                    let rule = Rule::new(Precedence::LOWEST, RuleId(step as u32), Version::FIRST);
                    records.push(rule, &value);
                    model.push((rule.id, value));
                } else {
                    let record = (random >> 8) as usize % model.len();
                    records.swap_remove(record as u32);
                    model.swap_remove(record);
                }
                assert_eq!(records.len(), model.len());
                if let Some(record) = model.len().checked_sub(1) {
                    let record = (random >> 32) as usize % (record + 1);
                    let (id, value) = &model[record];
                    assert_eq!(records.rule(record as u32).id, *id);
                    assert_eq!(records.rule_mut(record as u32).id, *id);
                    assert_eq!(records.value(record as u32), value);
                }
            }
            let is_near = (NEAR_WORDS_MIN..=NEAR_WORDS).contains(&words);
            let per_record = 32 + 8 * if is_near { NEAR_WORDS } else { words };
            assert!(records.heap_bytes() <= 4 * per_record * model.len().max(16));
        }
    }
}
