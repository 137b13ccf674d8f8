//! What an [`Auto`] says of itself.

use super::policy::{Figures, Verdict};
use super::{Auto, IndexKind, Selection};

/// Which index there is, and why.
#[derive(Clone, PartialEq, Debug)]
pub struct AutoStatistics {
    /// Whether the kind is chosen by what lookups cost.
    pub is_measured: bool,
    /// The kind that there is now.
    pub kind: IndexKind,
    /// Its hash tables and iSets.
    pub tables: usize,
    /// What was seen since the last decision.
    pub figures: Figures,
    /// What the last comparison came to, if there was one.
    pub verdict: Option<Verdict>,
    /// Jobs that were given: comparisons, or trainings.
    pub trials: u64,
    /// Of these, those after which another index took the place of the one before.
    pub replaced: u64,
    /// Jobs that could not be done.
    pub given_up: u64,
}

/// What is counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Also says which job was the last.
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
