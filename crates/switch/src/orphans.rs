//! Ends the connections that a rule has committed, once the rule is gone.
//!
//! Off unless the configuration asks for it ([`crate::TrackingConfig`]). Then what the tracker is
//! asked names the rule that asks, and each connection remembers the one that committed it.
//!
//! 1. A rule is gone when no worker answers packets by it any more. So no connection of it comes
//!    after the walk over the table has begun.
//! 2. A rule that is modified or replaced is not gone: its successor has its connections.
//! 3. A walk has the rules that were gone when it began. Those that go meanwhile wait for the next.
//!
//! Cost: while rules that may commit go, walks over the table, a slice at a time.

use std::collections::BTreeSet;

use thalweg_conntrack::{Cursor, Tracker};
use thalweg_pipeline::{Action, Delta, Pipeline};

/// The rules that are gone, whose connections may be there still.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    waiting: BTreeSet<u64>,
    under_way: Option<(BTreeSet<u64>, Cursor)>,
}

impl Orphans {
    /// Follows a change that every worker follows, and whose removed rules are still known.
    pub(crate) fn follow(&mut self, pipeline: &Pipeline, delta: &Delta) {
        let gone = delta.removed.iter().filter(|id| {
            let rule = pipeline.rule(**id);
            let may_commit = rule.is_some_and(|rule| rule.actions.iter().any(may_commit));
            // Invariant 2.
            may_commit && pipeline.heir_of(**id, delta.version).is_none()
        });
        let numbers = gone.filter_map(|id| pipeline.number_of_rule(*id));
        self.waiting.extend(numbers);
    }

    /// Whether connections of rules that are gone may be there.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.under_way.is_none()
    }

    /// Visits at most `budget` slots of the table.
    pub(crate) fn end_some(&mut self, tracker: &Tracker, budget: usize) {
        let (rules, cursor) = match self.under_way.take() {
            Some(under_way) => under_way,
            None if self.waiting.is_empty() => return,
            // Invariant 3.
            None => (std::mem::take(&mut self.waiting), Cursor::default()),
        };
        let (_, next) = tracker.end_orphans(&rules, cursor, budget);
        self.under_way = next.map(|cursor| (rules, cursor));
    }
}

/// Whether an action may commit a connection, by itself or by what it leads to in the rule's name.
fn may_commit(action: &Action) -> bool {
    match action {
        Action::Track(tracking) => tracking.is_commit,
        // Its buckets may, now or later.
        Action::Group(_) => true,
        Action::Clone(list) | Action::WriteActions(list) => list.iter().any(may_commit),
        _ => false,
    }
}
