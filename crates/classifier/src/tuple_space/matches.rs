//! Finds all rules that match a key, one priority after another.
//!
//! A lookup wants the best rule. A conjunctive match is decided by several rules of a priority
//! together, so its search asks for all of them, best priority first, until one is decided:
//!
//! ```text
//!   next:   take the best priority among the rules found so far
//!           visit sub-tables, best first, while one may have rules of it or above
//!           give all rules found of the best priority
//! ```
//!
//! 1. The rules given so far are all that match the key at the version and have at least the
//!    last priority; any key that agrees with this one on `examined` has the same.
//! 2. Sub-tables with rules of lower priorities alone have not been visited.

use crate::{Precedence, RuleId, Version};

use super::{PrefixAnswers, TupleSpace};

/// The rules that match a key, by priority; see [`TupleSpace::matches`].
#[derive(Debug)]
pub struct Matches<'a> {
    rules: &'a TupleSpace,
    key: &'a [u64],
    version: Version,
    /// Only rules above this priority are wanted.
    above: Option<u16>,
    /// What the tries said of the key.
    answers: PrefixAnswers,
    /// Number of sub-tables visited, in their order.
    visited: usize,
    /// Rules found and not given yet.
    found: Vec<(Precedence, RuleId)>,
}

impl TupleSpace {
    /// Begins to find all rules that match `key` at `version`, above a priority if one is given.
    ///
    /// ```
    /// use thalweg_classifier::{
    ///     Classifier, Pattern, Precedence, RuleId, TupleSpace, TupleSpaceConfig, Version,
    /// };
    ///
    /// let mut rules = TupleSpace::new(TupleSpaceConfig::flat(1, 7));
    /// let v1 = Version::FIRST.next();
    /// let five = Pattern { value: &[5], mask: &[0xf] };
    /// let small = Pattern { value: &[0], mask: &[0xf0] };
    /// rules.insert(five, Precedence::new(10, 0), RuleId(0), v1);
    /// rules.insert(small, Precedence::new(20, 1), RuleId(1), v1);
    /// let mut matches = rules.matches(&[5], v1, None);
    /// let (mut of_priority, mut examined) = (Vec::new(), [0]);
    /// assert_eq!(matches.next_priority(&mut of_priority, &mut examined), Some(20));
    /// assert_eq!((&of_priority[..], examined), (&[RuleId(1)][..], [0xf0]));
    /// assert_eq!(matches.next_priority(&mut of_priority, &mut examined), Some(10));
    /// assert_eq!((&of_priority[..], examined), (&[RuleId(0)][..], [0xff]));
    /// assert_eq!(matches.next_priority(&mut of_priority, &mut examined), None);
    /// ```
    pub fn matches<'a>(
        &'a self,
        key: &'a [u64],
        version: Version,
        above: Option<u16>,
    ) -> Matches<'a> {
        Matches {
            rules: self,
            key,
            version,
            above,
            answers: PrefixAnswers::default(),
            visited: 0,
            found: Vec::new(),
        }
    }
}

impl Matches<'_> {
    /// Replaces `rules` by the matching rules of the next priority, in any order, and returns
    /// that priority; `None` if none is left. Adds the bits of the key that decided to
    /// `examined`, with the same contract as [`crate::Classifier::lookup_examined`].
    pub fn next_priority(&mut self, rules: &mut Vec<RuleId>, examined: &mut [u64]) -> Option<u16> {
        let best = self.visit(examined);
        rules.clear();
        let best = best?;
        self.found.retain(|(precedence, id)| {
            let is_of_it = precedence.priority() == best;
            if is_of_it {
                rules.push(*id);
            }
            !is_of_it
        });
        Some(best)
    }

    /// Visits all sub-tables that may have rules of the best priority left; returns that
    /// priority.
    fn visit(&mut self, examined: &mut [u64]) -> Option<u16> {
        let found = self.found.iter();
        let mut best = found.map(|(precedence, _)| precedence.priority()).max();
        while let Some(ranked) = self.rules.order.get(self.visited) {
            let highest = ranked.highest.priority();
            let is_wanted = |highest| self.above.is_none_or(|above| highest > above);
            if !is_wanted(highest) || best.is_some_and(|best| highest < best) {
                break;
            }
            self.visited += 1;
            let subtable = self.rules.subtable(ranked.subtable);
            let (key, version) = (self.key, self.version);
            let answers = &mut self.answers;
            let first = (self.rules).find_examined(subtable, key, version, answers, examined);
            let chain = std::iter::successors(first, |rule| subtable.next_at(rule, version));
            for rule in chain {
                let priority = rule.precedence.priority();
                if is_wanted(priority) {
                    self.found.push((rule.precedence, rule.id));
                    best = best.max(Some(priority));
                }
            }
        }
        best
    }
}
