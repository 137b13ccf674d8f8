//! The index that an [`Auto`](super::Auto) has, of one of four kinds.

use crate::cost::Visits;
use crate::{Bloom, Classifier, Learned, Life, MergedTuples, RuleId, Version};

use super::{AutoConfig, Selection};

/// The kinds of index that can be chosen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum IndexKind {
    /// One hash table per mask.
    TupleSpace,
    /// A tuple space behind a filter.
    Bloom,
    /// Hash tables that each hold several masks.
    MergedTuples,
    /// iSets under a model, and merged tuples for the rest.
    Learned,
}

impl IndexKind {
    /// All kinds, cheapest to change first.
    pub const ALL: [IndexKind; 4] = [
        IndexKind::TupleSpace,
        IndexKind::MergedTuples,
        IndexKind::Bloom,
        IndexKind::Learned,
    ];

    /// The name in configurations and reports.
    pub fn name(self) -> &'static str {
        match self {
            IndexKind::TupleSpace => "tuple-space",
            IndexKind::MergedTuples => "merged-tuples",
            IndexKind::Bloom => "bloom",
            IndexKind::Learned => "learned",
        }
    }
}

/// The current index.
#[derive(Debug)]
pub(super) enum Held {
    /// A tuple space, or merged tuples, depending on the number of masks with their own
    /// tables.
    Tuples(Box<MergedTuples>),
    Bloom(Box<Bloom>),
    Learned(Box<Learned>),
}

impl Held {
    /// The index before anything is chosen.
    pub(super) fn first(config: &AutoConfig) -> Held {
        match config.selection {
            Selection::Measured(_) => {
                let tuples = config.learned.tuples.clone();
                Held::Tuples(Box::new(MergedTuples::after(config.own_masks_max, tuples)))
            }
            Selection::Learned(_) => Held::Learned(Box::new(Learned::new(config.learned.clone()))),
        }
    }

    /// An empty index of a kind; a learned one has no training.
    pub(super) fn empty(kind: IndexKind, config: &AutoConfig) -> Held {
        let tuples = config.learned.tuples.clone();
        match kind {
            IndexKind::TupleSpace => {
                Held::Tuples(Box::new(MergedTuples::after(usize::MAX, tuples)))
            }
            IndexKind::MergedTuples => Held::Tuples(Box::new(MergedTuples::new(tuples))),
            IndexKind::Bloom => Held::Bloom(Box::new(Bloom::new(config.bloom.clone()))),
            IndexKind::Learned => Held::Learned(Box::new(Learned::new(config.learned.clone()))),
        }
    }

    pub(super) fn kind(&self) -> IndexKind {
        match self {
            Held::Tuples(tuples) if tuples.is_merging() => IndexKind::MergedTuples,
            Held::Tuples(_) => IndexKind::TupleSpace,
            Held::Bloom(_) => IndexKind::Bloom,
            Held::Learned(_) => IndexKind::Learned,
        }
    }

    #[inline(always)]
    pub(super) fn index(&self) -> &dyn Classifier {
        match self {
            Held::Tuples(tuples) => &**tuples,
            Held::Bloom(bloom) => &**bloom,
            Held::Learned(learned) => &**learned,
        }
    }

    pub(super) fn index_mut(&mut self) -> &mut dyn Classifier {
        match self {
            Held::Tuples(tuples) => &mut **tuples,
            Held::Bloom(bloom) => &mut **bloom,
            Held::Learned(learned) => &mut **learned,
        }
    }

    /// The number of rules, at any version.
    pub(super) fn rule_count(&self) -> usize {
        match self {
            Held::Tuples(tuples) => tuples.rule_count(),
            Held::Bloom(bloom) => bloom.rules().rule_count(),
            Held::Learned(learned) => learned.rule_count(),
        }
    }

    /// The number of hash tables and iSets.
    pub(super) fn table_count(&self) -> usize {
        match self {
            Held::Tuples(tuples) => tuples.table_count(),
            Held::Bloom(bloom) => bloom.rules().subtable_count(),
            Held::Learned(learned) => {
                let statistics = learned.statistics();
                statistics.remainder_tables + statistics.isets.len()
            }
        }
    }

    /// The number of masks of the rules, if known.
    pub(super) fn mask_count(&self) -> Option<usize> {
        match self {
            Held::Tuples(tuples) => Some(tuples.mask_count()),
            Held::Bloom(bloom) => Some(bloom.rules().subtable_count()),
            Held::Learned(_) => None,
        }
    }

    /// The share of the rules in iSets, 0 to 1.
    pub(super) fn coverage(&self) -> f64 {
        match self {
            Held::Learned(learned) => learned.covered_share(),
            _ => 0.0,
        }
    }

    /// The work of a lookup of a key.
    pub(super) fn visited_by(&self, key: &[u64], version: Version) -> Visits {
        match self {
            Held::Tuples(tuples) => {
                let (tables, patterns) = tuples.visited_by(key, version);
                Visits {
                    tables,
                    patterns,
                    rules: self.rule_count(),
                    ..Visits::default()
                }
            }
            Held::Bloom(bloom) => {
                // Searches after a filter wait for it, so they count double: see
                // `bloom::statistics`.
                let (filters, named) = bloom.visited_by(key, version);
                Visits {
                    filters,
                    named,
                    rules: self.rule_count(),
                    ..Visits::default()
                }
            }
            Held::Learned(learned) => learned.visited_by(key, version),
        }
    }

    /// Reads a rule: writes its value and mask; `None` if it has been reclaimed.
    pub(super) fn read(&self, id: RuleId, value: &mut [u64], mask: &mut [u64]) -> Option<Life> {
        match self {
            Held::Tuples(tuples) => tuples.read(id, value, mask),
            Held::Bloom(bloom) => bloom.read(id, value, mask),
            Held::Learned(learned) => learned.read(id, value, mask),
        }
    }

    /// Whether the rule exists, in any state.
    pub(super) fn knows(&self, id: RuleId) -> bool {
        match self {
            Held::Tuples(tuples) => tuples.precedence(id).is_some(),
            Held::Bloom(bloom) => bloom.rules().subtable_of(id).is_some(),
            Held::Learned(learned) => learned.knows(id),
        }
    }

    /// Removes a rule, whatever its state, as if it had never existed.
    pub(super) fn forget(&mut self, id: RuleId) {
        match self {
            Held::Tuples(tuples) => tuples.forget(id),
            Held::Bloom(bloom) => bloom.forget_rule(id),
            Held::Learned(learned) => learned.forget(id),
        }
    }
}
