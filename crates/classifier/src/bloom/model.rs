//! The paper's cost model of a hit: cycles per stage, and the stages that each sub-table
//! needs.
//!
//! ```text
//!   no filter          fixed + key comparison + L * (sub-table hash + probe)
//!   a filter for each  fixed + key comparison + L * own filter + probe
//!   vector filter      fixed + key comparison + filter hash + filter load + waits
//!                      + C * (sub-table hash + probe),  for a flow that is known; C candidates,
//!                      one right
//!                      the same + what no filter costs + put,  for one that is not
//! ```
//!
//! `L` is the number of sub-tables that a search traverses. The stages of Gobriel and Tai
//! (slide *Cycles Breakdown*) are in [`Stages::PAPER`]; with them the first two lines are the
//! paper's 395 + 150 L and 448 + 118 L. A caller with a clock can measure this crate's stages
//! with [`Stages::measured`] and compare the model with lookups.

use crate::simd::{Level, Simd, Work};
use crate::{Bloom, Classifier, RuleId, TupleSpace, Version};

use super::counters::bits_of;

/// The cost of each stage of a lookup, in any one unit: cycles, or nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stages {
    /// Once per packet: receiving, sending, extracting the key.
    pub fixed: f64,
    /// Hashing a key for the filter.
    pub filter_hash: f64,
    /// Loading the filter's block (or bits) and testing it.
    pub filter_load: f64,
    /// Masking and hashing a key for a sub-table.
    pub subtable_hash: f64,
    /// Searching the hash in a sub-table.
    pub subtable_probe: f64,
    /// Comparing the whole key, once.
    pub key_comparison: f64,
    /// Putting a key into the filter.
    pub put: f64,
    /// Asking the filter of one sub-table, the hash included.
    pub own_filter: f64,
    /// What a hit behind the vector filter waits beyond the sum of its stages.
    pub waits: f64,
}

/// What [`Stages::measured`] measures.
#[derive(Clone, Copy, Debug)]
pub struct Subjects<'a> {
    /// A tuple space of one sub-table, in which all keys have a rule.
    pub one: &'a TupleSpace,
    /// The same rules, and other sub-tables in which no key has a rule.
    pub more: &'a TupleSpace,
    /// The rules of `more` behind a filter of flows.
    pub vector: &'a Bloom,
    /// Two sub-tables or more, each behind its own filter.
    pub few_own: &'a Bloom,
    /// The same with more sub-tables.
    pub more_own: &'a Bloom,
}

/// The kinds of lookup in the model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scheme {
    /// One sub-table after another.
    Sequential,
    /// A filter for each sub-table.
    PerSubtable,
    /// One vector for all sub-tables.
    Vector {
        /// The sub-tables that the vector names for a known flow, including the right one.
        candidates: f64,
        /// The share of lookups whose flows the filter does not know.
        unknown: f64,
    },
}

impl Stages {
    /// The paper's stages, in cycles of a Xeon E5-2699 v4 at 2.2 GHz with Open vSwitch 2.6.0.
    ///
    /// It gives no figure for putting a key.
    pub const PAPER: Stages = Stages {
        fixed: 210.0 + 103.0,
        filter_hash: 88.0,
        filter_load: 30.0,
        subtable_hash: 97.0,
        subtable_probe: 53.0,
        key_comparison: 82.0,
        put: 0.0,
        own_filter: 88.0 + 30.0,
        waits: 0.0,
    };

    /// This crate's stages, as measured by `time`.
    ///
    /// `time` must run its argument for each key, many times, and return the cost per key.
    /// `one` has a single sub-table. `more` has that one and `count - 1` others, in which no
    /// key of `keys` has a rule. So the cost of a probe is the difference between the two,
    /// divided among the others. The comparison of keys is the rest of a lookup in `one`.
    ///
    /// # Panics
    /// If `more` has only one sub-table.
    pub fn measured(
        subjects: Subjects<'_>,
        version: Version,
        mut time: impl FnMut(&mut dyn FnMut(&[u64]) -> u64) -> f64,
    ) -> Stages {
        let Subjects {
            one,
            more,
            vector,
            few_own,
            more_own,
        } = subjects;
        let filter = vector.flow_filter().expect("it has a filter of flows");
        let others = more.subtable_count() - 1;
        assert!(others > 0, "nothing to share out");
        let added = more_own.rules().subtable_count() - few_own.rules().subtable_count();
        assert!(added > 0, "nothing to share out");
        let answer = |found: Option<RuleId>| found.map_or(0, |id| u64::from(id.0));
        let filter_hash = time(&mut |key| filter.hash(key));
        let both = time(&mut |key| filter.candidates(filter.hash(key)));
        let rules = vector.rules();
        let home = |key: &[u64]| rules.subtable_of(rules.lookup(key, version)?);
        let mut known = None;
        let put = time(&mut |key| {
            let number = *known.get_or_insert_with(|| home(key).unwrap_or(0));
            filter.put(filter.hash(key), number as usize) as u64
        });
        let subtable_hash = time(&mut |key| one.hash_in_best(key));
        let single = time(&mut |key| answer(one.lookup(key, version)));
        let all = time(&mut |key| answer(more.lookup(key, version)));
        let subtable = (all - single).max(0.0) / others as f64;
        let few = time(&mut |key| answer(few_own.lookup(key, version)));
        let many = time(&mut |key| answer(more_own.lookup(key, version)));
        // The flows were put in above.
        let level = Level::best();
        let chain = time(&mut |key| {
            level.run(Chain {
                vector,
                key,
                version,
            })
        });
        let sum = both + single.max(subtable);
        Stages {
            fixed: 0.0,
            filter_hash,
            filter_load: (both - filter_hash).max(0.0),
            subtable_hash,
            subtable_probe: (subtable - subtable_hash).max(0.0),
            key_comparison: (single - subtable).max(0.0),
            put: (put - filter_hash).max(0.0),
            own_filter: (many - few).max(0.0) / added as f64,
            waits: (chain - sum).max(0.0),
        }
    }
}

/// A known flow's way through the vector filter and the sub-table that it names, and no more.
struct Chain<'a> {
    vector: &'a Bloom,
    key: &'a [u64],
    version: Version,
}

impl Work for Chain<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> u64 {
        let filter = self.vector.flow_filter().expect("it has a filter of flows");
        let sets = filter.find_one(simd, filter.hash(self.key), 0);
        let rules = self.vector.rules();
        let found = bits_of(sets)
            .filter(|&number| rules.has_subtable(number))
            .find_map(|number| rules.probe(simd, number, self.key, self.version));
        found.map_or(0, |rule| u64::from(rule.id.0))
    }
}

/// The cost of a hit if a search traverses `subtables` sub-tables.
pub fn model(stages: &Stages, scheme: Scheme, subtables: f64) -> f64 {
    let once = stages.fixed + stages.key_comparison;
    let filter = stages.filter_hash + stages.filter_load;
    let subtable = stages.subtable_hash + stages.subtable_probe;
    match scheme {
        Scheme::Sequential => once + subtables * subtable,
        Scheme::PerSubtable => once + subtables * stages.own_filter + stages.subtable_probe,
        Scheme::Vector {
            candidates,
            unknown,
        } => {
            let known = candidates * subtable;
            let missed = (candidates - 1.0).max(0.0) * subtable + subtables * subtable + stages.put;
            once + filter + stages.waits + (1.0 - unknown) * known + unknown * missed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_figures() {
        for subtables in [1.0, 10.0, 20.0] {
            let cost = |scheme| model(&Stages::PAPER, scheme, subtables);
            assert_eq!(cost(Scheme::Sequential), 395.0 + 150.0 * subtables);
            assert_eq!(cost(Scheme::PerSubtable), 448.0 + 118.0 * subtables);
            let vector = |unknown| {
                cost(Scheme::Vector {
                    candidates: 1.0,
                    unknown,
                })
            };
            assert_eq!(vector(0.0), 313.0 + 88.0 + 30.0 + 97.0 + 53.0 + 82.0);
            // For an unknown flow the filter's cost is wasted.
            assert_eq!(vector(1.0), cost(Scheme::Sequential) + 118.0);
            assert_eq!(vector(0.5), (vector(0.0) + vector(1.0)) / 2.0);
        }
    }

    #[test]
    fn a_hit_behind_the_vector_filter_waits_once() {
        let waiting = Stages {
            waits: 40.0,
            ..Stages::PAPER
        };
        let known = Scheme::Vector {
            candidates: 1.0,
            unknown: 0.0,
        };
        for (scheme, more) in [
            (Scheme::Sequential, 0.0),
            (Scheme::PerSubtable, 0.0),
            (known, 40.0),
        ] {
            let cost = |stages| model(stages, scheme, 20.0);
            assert_eq!(cost(&waiting), cost(&Stages::PAPER) + more);
        }
    }
}
