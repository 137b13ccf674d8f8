//! Buffers for computational flows.

use thalweg_pipeline::RuleId;

use crate::entry::Credit;

/// Buffers for answering packets by the rules, reused from burst to burst.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Packets that missed the exact-match cache.
    pub(crate) unknown: Vec<usize>,
    /// Their keys, one after the other, each with all words of the layout.
    pub(crate) keys: Vec<u64>,
    /// The rules they met in the first table.
    pub(crate) first: Vec<Option<RuleId>>,
    /// Those of them that are dropped fragments.
    pub(crate) dropped: Vec<usize>,
    pub(crate) credits: Vec<Credit>,
}
