//! The rules of a table: those that can win a lookup, and the clauses of conjunctive matches.
//!
//! A rule is in one of two classifiers, according to its actions: a clause
//! ([`conjunctions::is_clause`]) never wins a lookup by itself, and every other rule can. A
//! rule that becomes a clause, or is none any more, is another rule with another id.

use thalweg_classifier::{
    Classifier, ClassifierKind, LearnedConfig, Pattern, Precedence, RuleId, TupleSpace, Version,
};
use thalweg_packet::Layout;

use crate::action::Action;
use crate::conjunctions;
use crate::table_classifier::{PREFIX_FIELDS, new_classifier};

/// One table: its rules.
pub(crate) struct Table {
    /// The rules that can win a lookup.
    pub(crate) classifier: Box<dyn Classifier + Send + Sync>,
    /// The clauses of conjunctive matches.
    pub(crate) clauses: TupleSpace,
}

impl Table {
    /// Creates an empty table for keys of this layout.
    pub(crate) fn new(kind: ClassifierKind, layout: &Layout, seed: u64) -> Table {
        let LearnedConfig { tuples, .. } = LearnedConfig::new(layout, &PREFIX_FIELDS, seed);
        Table {
            classifier: new_classifier(kind, layout, seed),
            clauses: TupleSpace::new(tuples),
        }
    }

    /// Whether the table has a clause, at any version.
    pub(crate) fn has_clauses(&self) -> bool {
        self.clauses.subtable_count() > 0
    }

    /// The classifier for rules with these actions.
    pub(crate) fn classifier_for(&self, actions: &[Action]) -> &dyn Classifier {
        match conjunctions::is_clause(actions) {
            true => &self.clauses,
            false => &*self.classifier,
        }
    }

    /// The same, to change it.
    pub(crate) fn classifier_for_mut(&mut self, actions: &[Action]) -> &mut dyn Classifier {
        match conjunctions::is_clause(actions) {
            true => &mut self.clauses,
            false => &mut *self.classifier,
        }
    }

    /// The living rule with exactly this pattern and priority, if there is one.
    pub(crate) fn find(&self, pattern: Pattern<'_>, priority: u16) -> Option<RuleId> {
        let found = self.classifier.find(pattern, priority);
        found.or_else(|| self.clauses.find(pattern, priority))
    }

    /// Appends the living rules at least as narrow as a pattern, in any order.
    pub(crate) fn find_within(&self, pattern: Pattern<'_>, found: &mut Vec<RuleId>) {
        self.classifier.find_within(pattern, found);
        self.clauses.find_within(pattern, found);
    }

    /// The value and mask of a rule that has not been reclaimed.
    pub(crate) fn pattern(&self, id: RuleId) -> Option<(Vec<u64>, Vec<u64>)> {
        let found = self.classifier.pattern(id);
        found.or_else(|| self.clauses.pattern(id))
    }

    /// Undoes all changes for `version`, which no reader has seen.
    pub(crate) fn abort(&mut self, version: Version) {
        self.classifier.abort(version);
        self.clauses.abort(version);
    }

    /// Frees the rules that no version from `oldest` on can see; returns their ids.
    pub(crate) fn reclaim(&mut self, oldest: Version) -> Vec<RuleId> {
        let mut freed = self.classifier.reclaim(oldest);
        freed.extend(self.clauses.reclaim(oldest));
        freed
    }

    /// The number of rules that exist at `version`.
    pub(crate) fn len(&self, version: Version) -> usize {
        self.classifier.len(version) + self.clauses.len(version)
    }

    /// The memory of the rules and their indexes, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.classifier.memory_bytes() + self.clauses.memory_bytes()
    }

    /// Reads the memory that inserting a rule with these actions will read.
    pub(crate) fn foresee(&self, pattern: Pattern<'_>, precedence: Precedence, actions: &[Action]) {
        self.classifier_for(actions).foresee(pattern, precedence);
    }
}
