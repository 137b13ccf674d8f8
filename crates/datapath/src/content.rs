//! The content of an entry that the interpreter answered for, before the caches share its lists.

use thalweg_classifier::simd::prefetch;
use thalweg_pipeline::{Effect, Trace};

use crate::dependency::Known;
use crate::entry::Credit;
use crate::intern::Hashed;

/// The content of an entry, from the interpreter's answer.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) mask: Vec<u64>,
    pub(crate) effects: Hashed<Effect>,
    pub(crate) credits: Hashed<Credit>,
    /// Lookups that the walk needed, and how many of them were known.
    pub(crate) lookups: u32,
    pub(crate) recalled: u32,
    /// Whether the walk was repeated without memory, as that had made the mask too long.
    pub(crate) is_anew: bool,
    /// What the walk read, unless that is already recorded.
    pub(crate) read: Option<(Trace, Known)>,
}

impl Content {
    /// Prefetches its memory, which another processor may have written.
    pub(crate) fn prefetch(&self) {
        prefetch(&self.mask, 0);
        prefetch(&self.effects, 0);
        prefetch(&self.credits, 0);
        // The list spans several lines: a walk meets a rule in each of ten tables.
        prefetch(&self.credits, self.credits.len().saturating_sub(1));
    }
}
