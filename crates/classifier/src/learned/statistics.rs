//! What a learned classifier says of itself.

use super::Learned;

/// Figures of a [`Learned`].
#[derive(Clone, PartialEq, Debug)]
pub struct LearnedStatistics {
    /// Rules at whichever version.
    pub rules: usize,
    /// Rules in iSets.
    pub covered: usize,
    /// Tables of the remainder.
    pub remainder_tables: usize,
    /// The iSets, in the order in which they are asked.
    pub isets: Vec<IsetStatistics>,
}

impl LearnedStatistics {
    /// The share of the rules that is in iSets, 0 to 1.
    pub fn coverage(&self) -> f64 {
        self.covered as f64 / self.rules.max(1) as f64
    }
}

/// Figures of an iSet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IsetStatistics {
    /// Numbers of the fields that it is sorted by, as in the configuration, the first first.
    pub fields: Vec<usize>,
    /// Rules, each counted once.
    pub rules: usize,
    /// Buckets.
    pub buckets: usize,
    /// Bytes of the model.
    pub model_bytes: usize,
    /// Bytes of the model and of the starts of buckets.
    pub directory_bytes: usize,
    /// Bytes of the buckets' rules.
    pub bucket_bytes: usize,
    /// Buckets among which the model leaves the choice, at most.
    pub window: usize,
}

impl Learned {
    /// Figures of now.
    pub fn statistics(&self) -> LearnedStatistics {
        let isets = self.trained.iter().flat_map(|trained| &trained.isets);
        let isets = isets.map(|iset| IsetStatistics {
            fields: iset.fields.clone(),
            rules: iset.rules,
            buckets: iset.bucket_count(),
            model_bytes: iset.model().heap_bytes(),
            directory_bytes: iset.directory_bytes(),
            bucket_bytes: iset.groups.heap_bytes(),
            window: iset.model().window(),
        });
        LearnedStatistics {
            rules: self.rule_count(),
            covered: self
                .trained
                .as_ref()
                .map_or(0, |trained| trained.slots.len()),
            remainder_tables: self.remainder.table_count(),
            isets: isets.collect(),
        }
    }

    pub(crate) fn rule_count(&self) -> usize {
        let covered = self
            .trained
            .as_ref()
            .map_or(0, |trained| trained.slots.len());
        covered + self.remainder.rule_count()
    }

    /// The share of the rules that is in iSets.
    pub(crate) fn covered_share(&self) -> f64 {
        let covered = self
            .trained
            .as_ref()
            .map_or(0, |trained| trained.slots.len());
        covered as f64 / self.rule_count().max(1) as f64
    }
}
