//! The statistics of a learned classifier.

use super::Learned;

/// The statistics of a [`Learned`].
#[derive(Clone, PartialEq, Debug)]
pub struct LearnedStatistics {
    /// The number of rules, at any version.
    pub rules: usize,
    /// The number of rules in iSets.
    pub covered: usize,
    /// The number of tables in the remainder.
    pub remainder_tables: usize,
    /// The iSets, in search order.
    pub isets: Vec<IsetStatistics>,
}

impl LearnedStatistics {
    /// The share of the rules in iSets, 0 to 1.
    pub fn coverage(&self) -> f64 {
        self.covered as f64 / self.rules.max(1) as f64
    }
}

/// The statistics of an iSet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IsetStatistics {
    /// The indexes of its sort fields in the configuration, most significant first.
    pub fields: Vec<usize>,
    /// The number of rules, each counted once.
    pub rules: usize,
    /// The number of buckets.
    pub buckets: usize,
    /// The memory of the model, in bytes.
    pub model_bytes: usize,
    /// The memory of the model and of the buckets' starts, in bytes.
    pub directory_bytes: usize,
    /// The memory of the buckets' rules, in bytes.
    pub bucket_bytes: usize,
    /// The most buckets that the model leaves to search.
    pub window: usize,
}

impl Learned {
    /// The current statistics.
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

    /// The share of the rules in iSets.
    pub(crate) fn covered_share(&self) -> f64 {
        let covered = self
            .trained
            .as_ref()
            .map_or(0, |trained| trained.slots.len());
        covered as f64 / self.rule_count().max(1) as f64
    }
}
