//! The rules that a training starts from, the best first.

use crate::{Pattern, Precedence, RuleId};

/// Rules and their patterns.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    words: usize,
    rules: Vec<(Precedence, RuleId)>,
    /// Value and mask of each rule.
    patterns: Vec<u64>,
}

impl Snapshot {
    /// No rules, of keys of so many words; with room for `rules`.
    pub(super) fn new(words: usize, rules: usize) -> Snapshot {
        Snapshot {
            words,
            rules: Vec::with_capacity(rules),
            patterns: Vec::with_capacity(rules * 2 * words),
        }
    }

    pub(super) fn push(&mut self, precedence: Precedence, id: RuleId, pattern: Pattern<'_>) {
        self.rules.push((precedence, id));
        self.patterns.extend_from_slice(pattern.value);
        self.patterns.extend_from_slice(pattern.mask);
    }

    /// Puts the best rules first.
    pub(super) fn sort(&mut self) {
        let mut order: Vec<u32> = (0..self.rules.len() as u32).collect();
        order.sort_unstable_by_key(|&rule| std::cmp::Reverse(self.rules[rule as usize].0));
        let mut patterns = Vec::with_capacity(self.patterns.len());
        for &rule in &order {
            let pattern = self.pattern(rule);
            patterns.extend_from_slice(pattern.value);
            patterns.extend_from_slice(pattern.mask);
        }
        self.rules = order
            .iter()
            .map(|&rule| self.rules[rule as usize])
            .collect();
        self.patterns = patterns;
    }

    pub(super) fn len(&self) -> usize {
        self.rules.len()
    }

    pub(super) fn words(&self) -> usize {
        self.words
    }

    pub(super) fn rule(&self, rule: u32) -> (Precedence, RuleId) {
        self.rules[rule as usize]
    }

    #[inline(always)]
    pub(super) fn pattern(&self, rule: u32) -> Pattern<'_> {
        let words = &self.patterns[rule as usize * 2 * self.words..][..2 * self.words];
        let (value, mask) = words.split_at(self.words);
        Pattern { value, mask }
    }
}
