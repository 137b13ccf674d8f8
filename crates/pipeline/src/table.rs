//! The rules of a table: those that can win a lookup, and the clauses of conjunctive matches.
//!
//! A rule is in one of two classifiers, according to its actions: a clause
//! ([`conjunctions::is_clause`]) never wins a lookup by itself, and every other rule can. A
//! rule that becomes a clause, or is none any more, is another rule with another id.

use thalweg_classifier::{
    Classifier, ClassifierKind, Pattern, Precedence, RuleId, TupleSpace, TupleSpaceConfig, Version,
};
use thalweg_packet::Layout;

use crate::action::Action;
use crate::conjunctions;
use crate::table_classifier::{PREFIX_FIELDS, new_classifier};

/// One table: its rules. Small, as there is room for the tables of many bridges.
pub(crate) struct Table {
    /// The rules that can win a lookup.
    pub(crate) classifier: Box<dyn Classifier + Send + Sync>,
    /// The clauses of conjunctive matches; `None` without any, at any version.
    clauses: Option<Box<TupleSpace>>,
}

impl Table {
    /// Creates an empty table for keys of this layout.
    pub(crate) fn new(kind: ClassifierKind, layout: &Layout, seed: u64) -> Table {
        Table {
            classifier: new_classifier(kind, layout, seed),
            clauses: None,
        }
    }

    /// The clauses of conjunctive matches, if the table has any, at any version.
    #[inline]
    pub(crate) fn clauses(&self) -> Option<&TupleSpace> {
        self.clauses.as_deref()
    }

    /// Where a new rule with these actions goes.
    pub(crate) fn classifier_for_new(
        &mut self,
        actions: &[Action],
        layout: &Layout,
        seed: u64,
    ) -> &mut dyn Classifier {
        if !conjunctions::is_clause(actions) {
            return &mut *self.classifier;
        }
        let clauses = self.clauses.get_or_insert_with(|| {
            let config = TupleSpaceConfig::new(layout, &PREFIX_FIELDS, seed);
            Box::new(TupleSpace::new(config))
        });
        &mut **clauses
    }

    /// Where a rule with these actions is.
    pub(crate) fn classifier_of(&mut self, actions: &[Action]) -> &mut dyn Classifier {
        match &mut self.clauses {
            Some(clauses) if conjunctions::is_clause(actions) => &mut **clauses,
            _ => &mut *self.classifier,
        }
    }

    /// The living rule with exactly this pattern and priority, if there is one.
    pub(crate) fn find(&self, pattern: Pattern<'_>, priority: u16) -> Option<RuleId> {
        let found = self.classifier.find(pattern, priority);
        found.or_else(|| self.clauses()?.find(pattern, priority))
    }

    /// Appends the living rules at least as narrow as a pattern, in any order.
    pub(crate) fn find_within(&self, pattern: Pattern<'_>, found: &mut Vec<RuleId>) {
        self.classifier.find_within(pattern, found);
        if let Some(clauses) = self.clauses() {
            clauses.find_within(pattern, found);
        }
    }

    /// The value and mask of a rule that has not been reclaimed.
    pub(crate) fn pattern(&self, id: RuleId) -> Option<(Vec<u64>, Vec<u64>)> {
        let found = self.classifier.pattern(id);
        found.or_else(|| self.clauses()?.pattern(id))
    }

    /// Undoes all changes for `version`, which no reader has seen.
    pub(crate) fn abort(&mut self, version: Version) {
        self.classifier.abort(version);
        if let Some(clauses) = &mut self.clauses {
            clauses.abort(version);
        }
        self.drop_clauses_if_empty();
    }

    /// Frees the rules that no version from `oldest` on can see; returns their ids.
    pub(crate) fn reclaim(&mut self, oldest: Version) -> Vec<RuleId> {
        let mut freed = self.classifier.reclaim(oldest);
        if let Some(clauses) = &mut self.clauses {
            freed.extend(clauses.reclaim(oldest));
        }
        self.drop_clauses_if_empty();
        freed
    }

    fn drop_clauses_if_empty(&mut self) {
        // A tuple space has no sub-table without a rule.
        self.clauses
            .take_if(|clauses| clauses.subtable_count() == 0);
    }

    /// The number of rules that exist at `version`.
    pub(crate) fn len(&self, version: Version) -> usize {
        let clauses = self.clauses().map_or(0, |clauses| clauses.len(version));
        self.classifier.len(version) + clauses
    }

    /// The memory of the rules and their indexes, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let clauses = self.clauses().map_or(0, Classifier::memory_bytes);
        self.classifier.memory_bytes() + clauses
    }

    /// Reads the memory that adding such a rule will read.
    pub(crate) fn foresee(&self, pattern: Pattern<'_>, precedence: Precedence) {
        self.classifier.foresee(pattern, precedence);
        if let Some(clauses) = self.clauses() {
            clauses.foresee(pattern, precedence);
        }
    }

    /// The same, for ending a rule.
    pub(crate) fn foresee_removal(&self, id: RuleId) {
        self.classifier.foresee_removal(id);
        if let Some(clauses) = self.clauses() {
            clauses.foresee_removal(id);
        }
    }
}
