//! The statistics of an [`Auto`].

use super::policy::{Figures, Verdict};
use super::{Auto, IndexKind, Selection};

/// The current index, and the reason for it.
#[derive(Clone, PartialEq, Debug)]
pub struct AutoStatistics {
    /// Whether the kind is chosen by the cost of lookups.
    pub is_measured: bool,
    /// The current kind.
    pub kind: IndexKind,
    /// The number of its hash tables and iSets.
    pub tables: usize,
    /// Observations since the last decision.
    pub figures: Figures,
    /// The result of the last comparison, if there was one.
    pub verdict: Option<Verdict>,
    /// Jobs given: comparisons or trainings.
    pub trials: u64,
    /// The jobs after which the index was replaced.
    pub replaced: u64,
    /// Jobs that were not done.
    pub given_up: u64,
}

/// The counters of an [`Auto`].
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Also the number of the last job.
    pub(super) trials: u64,
    pub(super) replaced: u64,
    pub(super) given_up: u64,
}

impl Auto {
    pub(super) fn statistics(&self) -> AutoStatistics {
        AutoStatistics {
            is_measured: matches!(self.config.selection, Selection::Measured(_)),
            kind: self.kind(),
            tables: self.held.table_count(),
            figures: self.figures(),
            verdict: self.verdict.clone(),
            trials: self.counts.trials - self.counts.given_up,
            replaced: self.counts.replaced,
            given_up: self.counts.given_up,
        }
    }
}
