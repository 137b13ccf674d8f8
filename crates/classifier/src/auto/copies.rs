//! An index that starts with many rules: copied by the caller, and built as a job.
//!
//! A caller with many rules elsewhere could insert them one by one and then train the index.
//! But insertion is slow, tables grow meanwhile, and no lookup uses the untrained index. So
//! the rules are copied, which costs about a tenth of insertion, and the index comes with the
//! outcome of the job. The caller applies later changes of rules afterwards.
//!
//! 1. The rules are settled: their births are those of [`Version::FIRST`].

use crate::learned::{Changes, Snapshot};
use crate::{Pattern, Precedence, RuleId, Version};

use super::job::{Build, IndexJob};
use super::succession::{Stale, Succession};
use super::{Auto, AutoConfig};

/// Rules from which an index is built.
#[derive(Debug)]
pub struct Copies {
    rules: Snapshot,
    ids_end: u32,
}

impl Copies {
    /// Creates an empty copy for keys of `words` words, with room for `rules` rules.
    pub fn new(words: usize, rules: usize) -> Copies {
        Copies {
            rules: Snapshot::new(words, rules),
            ids_end: 0,
        }
    }

    /// Adds a rule.
    pub fn push(&mut self, pattern: Pattern<'_>, precedence: Precedence, id: RuleId) {
        self.rules.push(precedence, id, pattern);
        self.ids_end = self.ids_end.max(id.0.saturating_add(1));
    }

    /// The heap memory in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.rules.heap_bytes()
    }
}

impl Auto {
    /// Creates a classifier that gets these rules from the outcome of the job.
    ///
    /// It has no index until the outcome is installed and [`Auto::replaced`] shows it. Until
    /// then the caller must not change it.
    ///
    /// # Panics
    /// As [`Auto::new`].
    pub fn with_copies(config: AutoConfig, copies: Copies) -> (Auto, IndexJob) {
        let mut auto = Auto::new(config);
        auto.ids_end = copies.ids_end;
        auto.counts.trials = 1;
        auto.changes = Changes {
            is_training: true,
            rules: copies.rules.len(),
            ..Changes::default()
        };
        auto.is_first_copied = true;
        auto.succession = Succession::Building(Stale::default());
        let build = Build {
            epoch: (auto.number, auto.counts.trials),
            snapshot: copies.rules,
            config: auto.config.clone(),
            figures: auto.figures(),
            keys: Vec::new(),
            masks: None,
            is_asked_for: true,
        };
        (auto, IndexJob::build(build))
    }

    /// The cost of a lookup of a key, in nanoseconds, computed from the visited tables.
    pub fn cost_ns(&self, key: &[u64], version: Version) -> f64 {
        self.held.visited_by(key, version).cost_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Classifier, LearnedConfig, Selection, Tending, TrainingPolicy};

    #[test]
    fn copied_rules_are_there_with_the_outcome_and_change_as_others() {
        let selection = Selection::Learned(TrainingPolicy::default());
        let config = AutoConfig::new(LearnedConfig::flat(1, 7), selection);
        let mut copies = Copies::new(1, 2_000);
        for rule in 0..2_000_u32 {
            let pattern = Pattern {
                value: &[u64::from(rule) << 8],
                mask: &[0xffff_ff00],
            };
            copies.push(pattern, Precedence::new(0, u64::from(rule)), RuleId(rule));
        }
        let (mut rules, job) = Auto::with_copies(config, copies);
        assert_eq!(job.rule_count(), 2_000);
        assert!(matches!(rules.tend(8), Tending::Idle), "it waits");
        rules.install(job.run());
        assert_eq!(rules.replaced(), 0);
        while rules.replaced() == 0 {
            rules.tend(8);
        }
        let find = |rules: &Auto, rule: u64, version| rules.lookup(&[rule << 8 | 5], version);
        let version = Version::FIRST;
        assert_eq!(rules.len(version), 2_000);
        assert_eq!(find(&rules, 1_234, version), Some(RuleId(1_234)));
        assert!(rules.cost_ns(&[1_234 << 8], version) > 0.0);
        let version = version.next();
        rules.remove(RuleId(1_234), version);
        assert_eq!(rules.reclaim(version), [RuleId(1_234)]);
        assert_eq!(find(&rules, 1_234, version), None);
        assert_eq!(find(&rules, 1_235, version), Some(RuleId(1_235)));
    }
}
