//! Ends the connections that a rule or a group's bucket has committed, once that is gone.
//!
//! Off unless the configuration asks for it ([`crate::TrackingConfig`]). If it is on, a request
//! to the tracker names the rule that asks and the bucket that led to it. Each connection
//! remembers those that committed it.
//!
//! 1. A rule or a bucket is gone when no worker answers packets by it any more. So no connection of
//!    it comes after the walk over the table has begun.
//! 2. A rule that is modified or replaced is not gone: its successor has its connections. Nor is a
//!    bucket whose id is still in its group.
//! 3. A walk has the rules and buckets that were gone when it began. Those that go meanwhile wait
//!    for the next.
//! 4. A connection is a bucket's if the bucket's list has committed it, or rules that the list led
//!    to in the same pass and bridge. In nested groups, it is the innermost bucket's.
//!
//! Cost: while rules or buckets that may commit go, walks over the table, a slice at a time.

use std::collections::BTreeSet;

use thalweg_conntrack::{Cursor, Tracker};
use thalweg_pipeline::{Action, Delta, Output, Pipeline};

/// The rules and buckets that are gone, by number, whose connections may be there still.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    waiting: BTreeSet<u64>,
    under_way: Option<(BTreeSet<u64>, Cursor)>,
}

impl Orphans {
    /// Follows a change that every worker follows, and whose removed rules and replaced groups are
    /// still known.
    pub(crate) fn follow(&mut self, pipeline: &Pipeline, delta: &Delta) {
        let gone = delta.removed.iter().filter(|id| {
            let rule = pipeline.rule(**id);
            let may_commit = rule.is_some_and(|rule| rule.actions.iter().any(may_commit));
            // Invariant 2.
            may_commit && pipeline.heir_of(**id, delta.version).is_none()
        });
        let numbers = gone.filter_map(|id| pipeline.number_of_rule(*id));
        self.waiting.extend(numbers);
        for group in &delta.groups {
            let gone = pipeline.buckets_gone(*group, delta.version);
            let gone = gone.filter(|(_, bucket)| bucket.actions.iter().any(may_lead_to_commit));
            self.waiting.extend(gone.map(|(number, _)| number));
        }
    }

    /// Whether no connections of removed rules or buckets are left to end.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.under_way.is_none()
    }

    /// Visits at most `budget` slots of the table.
    pub(crate) fn end_some(&mut self, tracker: &Tracker, budget: usize) {
        let (gone, cursor) = match self.under_way.take() {
            Some(under_way) => under_way,
            None if self.waiting.is_empty() => return,
            // Invariant 3.
            None => (std::mem::take(&mut self.waiting), Cursor::default()),
        };
        let (_, next) = tracker.end_orphans(&gone, cursor, budget);
        self.under_way = next.map(|cursor| (gone, cursor));
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

/// Whether an action of a bucket may commit a connection, or lead to a rule that does.
fn may_lead_to_commit(action: &Action) -> bool {
    match action {
        // The last two may be a resubmit, too.
        Action::Resubmit { .. } | Action::Output(Output::Table | Output::Field(_)) => true,
        Action::Clone(list) => list.iter().any(may_lead_to_commit),
        _ => may_commit(action),
    }
}
