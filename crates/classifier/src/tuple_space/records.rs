//! Rules and their values by record: in one cache line where they fit.
//!
//! ```text
//!   near:   record -> compact value of 1 or 2 words, rule                       (half a line)
//!           lives:   record -> when it exists                                      (16 bytes)
//!   wide:   record -> compact value of 3 or 4 words, rule, when it exists          (one line)
//!   apart:  rules:   record -> rule, when it exists                                (32 bytes)
//!           values:  record -> compact value                       (8 bytes a masked word)
//! ```
//!
//! A search that finds a rule reads the value, to compare it, and the rule, for its
//! precedence. Stored apart they take two or three cache lines. Longer values do not fit into
//! a line with their rule. The lifetime is read only while it matters: most rules exist at
//! every version that may be looked up, since an earlier version was reclaimed, and have a bit
//! that says so. So half a line is enough for a value of two words. This is faster than one
//! line per record where many rules are found behind a filter (five-tuples of
//! `benches/bloom.rs`).
//!
//! 1. Records are dense: removing one moves the last into its place.
//! 2. The words of a near or wide value beyond those of the mask are zero.
//! 3. A rule marked as existing always was born no later than the oldest version that may be
//!    looked up, and has not died.

use crate::capacity::{grow, shrink};
use crate::{Precedence, RuleId, Version};

/// The end of a chain.
pub(super) const NONE: u32 = u32::MAX >> 1;
/// The most words of a short compact value.
pub(super) const SHORT_WORDS: usize = crate::simd::SHORT_WORDS;
/// The most words of a value that is stored in half a line with its rule.
const NEAR_WORDS: usize = 2;
const FEWEST_WIDE: usize = NEAR_WORDS + 1;

/// A rule without its value and its lifetime.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) precedence: Precedence,
    pub(crate) id: RuleId,
    /// The record of the next rule with the same value, and a bit that marks existence at
    /// every version.
    next: u32,
}

const EXISTS_ALWAYS: u32 = NONE + 1;

impl Rule {
    pub(crate) fn new(precedence: Precedence, id: RuleId) -> Rule {
        Rule {
            precedence,
            id,
            next: NONE,
        }
    }

    /// The record of the next rule with the same value, or [`NONE`].
    #[inline(always)]
    pub(super) fn next(&self) -> u32 {
        self.next & NONE
    }

    #[inline(always)]
    fn exists_always(&self) -> bool {
        self.next & EXISTS_ALWAYS != 0
    }
}

/// The versions at which a rule exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetime {
    pub(crate) born: Version,
    pub(crate) died: Version,
}

impl Lifetime {
    /// A lifetime from a version on.
    pub(crate) fn from(born: Version) -> Lifetime {
        Lifetime {
            born,
            died: Version::NEVER,
        }
    }

    #[inline(always)]
    fn has(self, version: Version) -> bool {
        self.born <= version && version < self.died
    }

    pub(crate) fn is_living(self) -> bool {
        self.died == Version::NEVER
    }
}

/// The rules of a sub-table and their compact values.
#[derive(Clone, Debug)]
pub(super) struct Records {
    /// The number of words of a value.
    words: usize,
    list: List,
}

#[derive(Clone, Debug)]
enum List {
    Near {
        list: Vec<Near>,
        lives: Vec<Lifetime>,
    },
    Wide(Vec<Wide>),
    Apart {
        rules: Vec<(Rule, Lifetime)>,
        values: Vec<u64>,
    },
}

/// A rule beside its short value.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Near {
    value: [u64; NEAR_WORDS],
    rule: Rule,
}

/// A rule beside its longer value, with its lifetime.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Wide {
    value: [u64; SHORT_WORDS],
    rule: Rule,
    life: Lifetime,
}

const _: () = assert!(size_of::<Near>() == 32);
const _: () = assert!(size_of::<Wide>() == 64);

impl Records {
    /// Creates an empty list for values of `words` words.
    pub(super) fn new(words: usize) -> Records {
        let list = match words {
            1..=NEAR_WORDS => List::Near {
                list: Vec::new(),
                lives: Vec::new(),
            },
            FEWEST_WIDE..=SHORT_WORDS => List::Wide(Vec::new()),
            _ => List::Apart {
                rules: Vec::new(),
                values: Vec::new(),
            },
        };
        Records { words, list }
    }

    pub(super) fn len(&self) -> usize {
        match &self.list {
            List::Near { list, .. } => list.len(),
            List::Wide(list) => list.len(),
            List::Apart { rules, .. } => rules.len(),
        }
    }

    #[inline(always)]
    pub(super) fn rule(&self, record: u32) -> &Rule {
        match &self.list {
            List::Near { list, .. } => &list[record as usize].rule,
            List::Wide(list) => &list[record as usize].rule,
            List::Apart { rules, .. } => &rules[record as usize].0,
        }
    }

    fn rule_mut(&mut self, record: u32) -> &mut Rule {
        match &mut self.list {
            List::Near { list, .. } => &mut list[record as usize].rule,
            List::Wide(list) => &mut list[record as usize].rule,
            List::Apart { rules, .. } => &mut rules[record as usize].0,
        }
    }

    /// The lifetime of a rule.
    pub(super) fn life(&self, record: u32) -> Lifetime {
        match &self.list {
            List::Near { lives, .. } => lives[record as usize],
            List::Wide(list) => list[record as usize].life,
            List::Apart { rules, .. } => rules[record as usize].1,
        }
    }

    /// Whether a rule exists at a version.
    #[inline(always)]
    pub(super) fn exists_at(&self, record: u32, rule: &Rule, version: Version) -> bool {
        rule.exists_always() || self.life(record).has(version)
    }

    /// Sets the lifetime of a rule; no version before `oldest` is looked up.
    pub(super) fn set_life(&mut self, record: u32, life: Lifetime, oldest: Version) {
        let own = match &mut self.list {
            List::Near { lives, .. } => &mut lives[record as usize],
            List::Wide(list) => &mut list[record as usize].life,
            List::Apart { rules, .. } => &mut rules[record as usize].1,
        };
        *own = life;
        let rule = self.rule_mut(record);
        rule.next &= NONE;
        // Invariant 3.
        if life.born <= oldest && life.is_living() {
            rule.next |= EXISTS_ALWAYS;
        }
    }

    /// Sets the next record of the chain, or [`NONE`].
    pub(super) fn set_next(&mut self, record: u32, next: u32) {
        let rule = self.rule_mut(record);
        rule.next = rule.next & EXISTS_ALWAYS | next;
    }

    /// A rule's compact value.
    #[inline(always)]
    pub(super) fn value(&self, record: u32) -> &[u64] {
        match &self.list {
            List::Near { list, .. } => &list[record as usize].value[..self.words],
            List::Wide(list) => &list[record as usize].value[..self.words],
            List::Apart { values, .. } => &values[record as usize * self.words..][..self.words],
        }
    }

    /// The rule of a record if it has this short compact value; unused words are zero.
    #[inline(always)]
    pub(super) fn rule_of(&self, record: u32, value: &[u64; SHORT_WORDS]) -> Option<&Rule> {
        match &self.list {
            List::Near { list, .. } => {
                let near = &list[record as usize];
                (near.value == value[..NEAR_WORDS]).then_some(&near.rule)
            }
            List::Wide(list) => {
                let wide = &list[record as usize];
                (wide.value == *value).then_some(&wide.rule)
            }
            List::Apart { rules, .. } => {
                let is_value = *self.value(record) == value[..self.words];
                is_value.then_some(&rules[record as usize].0)
            }
        }
    }

    /// Prefetches a record.
    #[inline(always)]
    pub(super) fn prefetch(&self, record: u32) {
        match &self.list {
            List::Near { list, .. } => crate::simd::prefetch(list, record as usize),
            List::Wide(list) => crate::simd::prefetch(list, record as usize),
            List::Apart { rules, values } => {
                crate::simd::prefetch(rules, record as usize);
                crate::simd::prefetch(values, record as usize * self.words);
            }
        }
    }

    /// Adds a record at the end; no version before `oldest` is looked up.
    pub(super) fn push(&mut self, rule: Rule, life: Lifetime, value: &[u64], oldest: Version) {
        debug_assert_eq!(value.len(), self.words);
        let record = self.len() as u32;
        match &mut self.list {
            List::Near { list, lives } => {
                grow(list, 1);
                grow(lives, 1);
                list.push(Near {
                    value: padded(value),
                    rule,
                });
                lives.push(life);
            }
            List::Wide(list) => {
                grow(list, 1);
                list.push(Wide {
                    value: padded(value),
                    rule,
                    life,
                });
            }
            List::Apart { rules, values } => {
                grow(rules, 1);
                grow(values, value.len());
                rules.push((rule, life));
                values.extend_from_slice(value);
            }
        }
        self.set_life(record, life, oldest);
    }

    /// Removes a record; the last one takes its place.
    pub(super) fn swap_remove(&mut self, record: u32) {
        match &mut self.list {
            List::Near { list, lives } => {
                list.swap_remove(record as usize);
                lives.swap_remove(record as usize);
                shrink(list);
                shrink(lives);
            }
            List::Wide(list) => {
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
            List::Near { list, lives } => {
                list.capacity() * size_of::<Near>() + lives.capacity() * size_of::<Lifetime>()
            }
            List::Wide(list) => list.capacity() * size_of::<Wide>(),
            List::Apart { rules, values } => {
                rules.capacity() * size_of::<(Rule, Lifetime)>()
                    + values.capacity() * size_of::<u64>()
            }
        }
    }
}

/// A compact value padded with zeros.
fn padded<const WORDS: usize>(value: &[u64]) -> [u64; WORDS] {
    std::array::from_fn(|word| value.get(word).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with lists of rules and values, for every length of values near and apart.
    #[test]
    fn records_are_those_that_were_put_in_and_not_taken_out() {
        for words in 0..=SHORT_WORDS + 2 {
            let mut records = Records::new(words);
            let mut model: Vec<(RuleId, Lifetime, Vec<u64>)> = Vec::new();
            for step in 0..3_000_u64 {
                let random = crate::hash::hash_words(words as u64, &[step]);
                // First more are added than removed, then the reverse.
                let comes = random % 5 < if step < 1_500 { 3 } else { 2 };
                if comes || model.is_empty() {
                    let value: Vec<u64> = (0..words as u64).map(|word| random ^ word).collect();
                    let rule = Rule::new(Precedence::LOWEST, RuleId(step as u32));
                    let life = Lifetime::from(Version(random % 4));
                    records.push(rule, life, &value, Version(random / 4 % 4));
                    model.push((rule.id, life, value));
                } else {
                    let record = (random >> 8) as usize % model.len();
                    records.swap_remove(record as u32);
                    model.swap_remove(record);
                }
                assert_eq!(records.len(), model.len());
                if let Some(record) = model.len().checked_sub(1) {
                    let record = (random >> 32) as usize % (record + 1);
                    let (id, life, value) = &mut model[record];
                    let record = record as u32;
                    // Some rules die, some live again, and others get another neighbour in a
                    // chain.
                    let oldest = Version(random / 16 % 8);
                    life.died = [Version(random / 128 % 8), Version::NEVER][random as usize % 2];
                    records.set_life(record, *life, oldest);
                    records.set_next(record, random as u32 % 9);
                    let rule = records.rule(record);
                    assert_eq!((rule.id, rule.next()), (*id, random as u32 % 9));
                    assert_eq!(records.value(record), value);
                    for version in (oldest.0..10).map(Version) {
                        let exists = life.born <= version && version < life.died;
                        assert_eq!(records.exists_at(record, rule, version), exists);
                    }
                    if words <= SHORT_WORDS {
                        let (mut other, value) = (padded(value), padded(value));
                        assert_eq!(records.rule_of(record, &value).unwrap().id, *id);
                        if let Some(word) = words.checked_sub(1) {
                            other[word] ^= 1 << (random % 64);
                            assert!(records.rule_of(record, &other).is_none());
                        }
                    }
                }
            }
            let per_record = match words {
                1 | 2 => 48,
                3 | 4 => 64,
                _ => 32 + 8 * words,
            };
            assert!(records.heap_bytes() <= 4 * per_record * model.len().max(16));
        }
    }
}
