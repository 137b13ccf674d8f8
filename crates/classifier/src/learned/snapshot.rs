//! The rules that a training starts from, best first.

use crate::{Pattern, Precedence, RuleId};

/// Rules and their patterns.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    words: usize,
    rules: Vec<(Precedence, RuleId)>,
    /// Value and mask of each rule.
    patterns: Vec<u64>,
}

impl Snapshot {
    /// Creates an empty snapshot for keys of `words` words, with room for `rules` rules.
    pub(crate) fn new(words: usize, rules: usize) -> Snapshot {
        Snapshot {
            words,
            rules: Vec::with_capacity(rules),
            patterns: Vec::with_capacity(rules * 2 * words),
        }
    }

    pub(crate) fn push(&mut self, precedence: Precedence, id: RuleId, pattern: Pattern<'_>) {
        self.rules.push((precedence, id));
        self.patterns.extend_from_slice(pattern.value);
        self.patterns.extend_from_slice(pattern.mask);
    }

    /// Sorts the rules, best first; returns those left out because another has their
    /// precedence.
    ///
    /// No two rules have the same precedence at one version. But if rules change while they
    /// are copied one by one, the copy may have a removed rule and its replacement.
    pub(crate) fn sort(&mut self) -> Vec<RuleId> {
        let mut order: Vec<u32> = (0..self.rules.len() as u32).collect();
        order.sort_unstable_by_key(|&rule| std::cmp::Reverse(self.rules[rule as usize].0));
        let mut left_out = Vec::new();
        order.dedup_by(|next, kept| {
            let (precedence, id) = self.rules[*next as usize];
            let is_same = precedence == self.rules[*kept as usize].0;
            left_out.extend(is_same.then_some(id));
            is_same
        });
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
        left_out
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.rules.capacity() * size_of::<(Precedence, RuleId)>()
            + self.patterns.capacity() * size_of::<u64>()
    }

    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }

    pub(crate) fn words(&self) -> usize {
        self.words
    }

    pub(crate) fn rule(&self, rule: u32) -> (Precedence, RuleId) {
        self.rules[rule as usize]
    }

    #[inline(always)]
    pub(crate) fn pattern(&self, rule: u32) -> Pattern<'_> {
        let words = &self.patterns[rule as usize * 2 * self.words..][..2 * self.words];
        let (value, mask) = words.split_at(self.words);
        Pattern { value, mask }
    }
}
