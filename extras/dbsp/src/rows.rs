//! The rows of the relations: rules, walks, and the headers that tables match.
//!
//! A row is shared by reference count, because a header occurs once for every mask of its
//! table, and a walk at every operator of its step. It still behaves as a value: order,
//! equality and hash are those of its content, so a retracted row is found wherever it was
//! made.
//!
//! 1. A rule's rank orders the rules of a table as their precedence does; a miss has no rank,
//!    which orders it below all rules.
//! 2. A rule's row contains its whole match, so a join needs no other data.
//! 3. A rule's actions are a number ([`Programs`](crate::programs::Programs)) that always
//!    means the same list. So a row's meaning never changes.

use feldera_macros::IsNone;
use rkyv::{Archive, Deserialize, Serialize};
use size_of::SizeOf;
use thalweg_pipeline::Precedence;

/// The rule number of a row that is no rule.
pub(crate) const NO_RULE: u32 = u32::MAX;

/// A rule of a table, or the row of a miss.
#[derive(
    Clone,
    Default,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    SizeOf,
    Archive,
    Serialize,
    Deserialize,
    IsNone,
)]
#[archive_attr(derive(PartialEq, Eq, PartialOrd, Ord))]
pub(crate) struct RuleRow {
    /// The first field, so that the greatest row of a set is the winning rule (invariant 1).
    pub(crate) rank: Option<u64>,
    pub(crate) table: u8,
    /// The pipeline's number of the rule, or [`NO_RULE`].
    pub(crate) rule: u32,
    /// The number of its list of actions.
    pub(crate) program: u32,
    pub(crate) mask: Vec<u64>,
    pub(crate) value: Vec<u64>,
}

impl RuleRow {
    /// The row below all rules of a table; it matches every header.
    pub(crate) fn miss(table: u8, words: usize) -> RuleRow {
        RuleRow {
            rank: None,
            table,
            rule: NO_RULE,
            program: 0,
            mask: vec![0; words],
            value: vec![0; words],
        }
    }

    pub(crate) fn matches(&self, words: &[u64]) -> bool {
        let mut pairs = words.iter().zip(self.mask.iter().zip(&self.value));
        pairs.all(|(word, (mask, value))| word & mask == *value)
    }
}

/// A list of actions that continues when the table it resubmitted to is done.
#[derive(
    Clone,
    Default,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    SizeOf,
    Archive,
    Serialize,
    Deserialize,
    IsNone,
)]
#[archive_attr(derive(PartialEq, Eq, PartialOrd, Ord))]
pub(crate) struct Frame {
    pub(crate) program: u32,
    /// The next action.
    pub(crate) next: u32,
    /// The table of its rule.
    pub(crate) table: u8,
}

/// A recorded packet at a lookup: its table, and its current headers.
#[derive(
    Clone,
    Default,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    SizeOf,
    Archive,
    Serialize,
    Deserialize,
    IsNone,
)]
#[archive_attr(derive(PartialEq, Eq, PartialOrd, Ord))]
pub(crate) struct WalkRow {
    /// The first field, so that most comparisons end here.
    pub(crate) entry: u32,
    pub(crate) table: u8,
    /// Whether a third tag is outside the key.
    pub(crate) is_tag_hidden: bool,
    /// The input port to restore after this lookup, if the lookup sees another.
    pub(crate) in_port: Option<u32>,
    pub(crate) words: Vec<u64>,
    /// Waiting lists, the outermost first.
    pub(crate) stack: Vec<Frame>,
}

/// The part of a walk that a table matches: two walks with the same header meet the same rule.
#[derive(
    Clone,
    Default,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    SizeOf,
    Archive,
    Serialize,
    Deserialize,
    IsNone,
)]
#[archive_attr(derive(PartialEq, Eq, PartialOrd, Ord))]
pub(crate) struct HeaderRow {
    pub(crate) table: u8,
    pub(crate) words: Vec<u64>,
}

impl HeaderRow {
    /// Keeps the bits of `words` that any mask of the table has.
    pub(crate) fn new(table: u8, words: &[u64], union: &[u64]) -> HeaderRow {
        let words = words.iter().zip(union).map(|(word, bits)| word & bits);
        HeaderRow {
            table,
            words: words.collect(),
        }
    }
}

/// The multiplier of the golden ratio, as in Knuth, *The Art of Computer Programming*, 6.4.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The join key of a rule and a walk that it matches, under the rule's mask.
///
/// Different words may have the same key, so a join by it must compare the words as well.
pub(crate) fn join_key(table: u8, mask: &[u64], words: &[u64]) -> u64 {
    let mut hash = u64::from(table).wrapping_mul(MULTIPLIER);
    for (index, (mask, word)) in mask.iter().zip(words).enumerate() {
        if *mask == 0 {
            continue;
        }
        for part in [index as u64, *mask, word & mask] {
            hash = (hash ^ part).wrapping_mul(MULTIPLIER);
            hash ^= hash >> 32;
        }
    }
    hash
}

/// Converts a precedence to a number of the same order, which rows can hold.
///
/// A precedence does not expose its age, but precedences can be compared: the number is found
/// bit by bit, from the highest.
pub(crate) fn rank(precedence: Precedence) -> u64 {
    let priority = precedence.priority();
    let youth = |bits: u64| Precedence::new(priority, AGE_MAX - bits);
    let bits = (0..AGE_BITS).rev().fold(0, |bits, bit| {
        let more = bits | 1 << bit;
        if youth(more) <= precedence {
            more
        } else {
            bits
        }
    });
    u64::from(priority) << AGE_BITS | bits
}

/// The number of bits of an age.
const AGE_BITS: u32 = 48;
const AGE_MAX: u64 = (1 << AGE_BITS) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_the_order_of_precedences() {
        let ages = [0, 1, 2, 1_000, 1 << 40, AGE_MAX];
        let priorities = [0, 1, 100, u16::MAX];
        let all = priorities
            .iter()
            .flat_map(|priority| ages.iter().map(|age| Precedence::new(*priority, *age)));
        let all: Vec<Precedence> = all.collect();
        for one in &all {
            assert!(Some(rank(*one)) > RuleRow::miss(0, 1).rank);
            for other in &all {
                assert_eq!(one.cmp(other), rank(*one).cmp(&rank(*other)));
            }
        }
    }

    #[test]
    fn a_rule_and_what_it_matches_meet() {
        let rule = RuleRow {
            mask: vec![0xff00, 0, 0xf],
            value: vec![0x1200, 0, 0x3],
            ..RuleRow::miss(7, 3)
        };
        let words = [0x12ab, 99, 0xf3];
        assert!(rule.matches(&words) && !rule.matches(&[0x13ab, 99, 0xf3]));
        let key = |words: &[u64]| join_key(7, &rule.mask, words);
        assert_eq!(key(&words), key(&rule.value));
        assert_ne!(key(&words), join_key(8, &rule.mask, &words));
    }
}
