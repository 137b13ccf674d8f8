//! The classifiers that are compared, by name.

use std::collections::BTreeMap;
use std::str::FromStr;

use thalweg_classifier::{Classifier, Linear, MergedTuples, TupleSpace, TupleSpaceConfig, Version};
use thalweg_packet::FieldId;
use thalweg_packet::standard as f;

use super::oracle::Event;
use super::set::RuleSet;
use crate::bench::clock::processor_time_ns;

/// A classifier that can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// All rules, from the best down.
    Linear,
    /// A hash table for each mask.
    TupleSpace,
    /// A hash table for several masks.
    MergedTuples,
}

/// Rules up to which a search of all of them is shown unasked.
const LINEAR_MAX: usize = 2_000;

impl Kind {
    /// All there are, the baseline first.
    const ALL: [Kind; 3] = [Kind::TupleSpace, Kind::MergedTuples, Kind::Linear];

    /// Those that are compared if nobody says which.
    pub(super) fn usual(rules: usize) -> Vec<Kind> {
        let is_usual = |kind: &Kind| *kind != Kind::Linear || rules <= LINEAR_MAX;
        Kind::ALL.into_iter().filter(is_usual).collect()
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Linear => "linear",
            Kind::TupleSpace => "tuple-space",
            Kind::MergedTuples => "merged-tuples",
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Kind, String> {
        let known = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| {
            let names = Kind::ALL.map(Kind::name).join(", ");
            format!("there is no classifier {name:?}; choose of {names}")
        })
    }
}

/// Fields that rules match by prefix, as in the tables of a pipeline.
const PREFIX_FIELDS: [FieldId; 8] = [
    f::IP_SRC,
    f::IP_DST,
    f::IPV6_SRC,
    f::IPV6_DST,
    f::TP_SRC,
    f::TP_DST,
    f::ARP_SPA,
    f::ARP_TPA,
];

/// A classifier with the rules of a set.
pub(super) struct Subject {
    pub(super) kind: Kind,
    classifier: Built,
    /// The newest version of the rules.
    pub(super) version: Version,
    /// What it took to insert them.
    pub(super) build_ms: f64,
    /// What it took to train a model, if there is one.
    pub(super) training_ms: Option<f64>,
    /// What was done to the rules since they were built.
    pub(super) events: Vec<Event>,
}

enum Built {
    Linear(Linear),
    TupleSpace(TupleSpace),
    MergedTuples(MergedTuples),
}

impl Subject {
    /// Builds a classifier of all rules.
    pub(super) fn build(kind: Kind, set: &RuleSet, seed: u64) -> Subject {
        let config = TupleSpaceConfig::new(&set.layout, &PREFIX_FIELDS, seed);
        let classifier = match kind {
            Kind::Linear => Built::Linear(Linear::new(set.words())),
            Kind::TupleSpace => Built::TupleSpace(TupleSpace::new(config)),
            Kind::MergedTuples => Built::MergedTuples(MergedTuples::new(config)),
        };
        let mut subject = Subject {
            kind,
            classifier,
            version: Version::FIRST.next(),
            build_ms: 0.0,
            training_ms: None,
            events: Vec::new(),
        };
        let start = processor_time_ns();
        let version = subject.version;
        for rule in 0..set.len() {
            set.insert_into(subject.classifier_mut(), rule, version);
        }
        subject.classifier_mut().reclaim(version);
        subject.build_ms = (processor_time_ns() - start) as f64 / 1e6;
        subject
    }

    /// It, to be asked.
    pub(super) fn classifier(&self) -> &dyn Classifier {
        match &self.classifier {
            Built::Linear(classifier) => classifier,
            Built::TupleSpace(classifier) => classifier,
            Built::MergedTuples(classifier) => classifier,
        }
    }

    /// It, to be changed.
    pub(super) fn classifier_mut(&mut self) -> &mut dyn Classifier {
        match &mut self.classifier {
            Built::Linear(classifier) => classifier,
            Built::TupleSpace(classifier) => classifier,
            Built::MergedTuples(classifier) => classifier,
        }
    }

    /// Hash tables that a lookup may have to visit.
    pub(super) fn tables(&self) -> Option<usize> {
        match &self.classifier {
            Built::Linear(_) => None,
            Built::TupleSpace(classifier) => Some(classifier.subtable_count()),
            Built::MergedTuples(classifier) => Some(classifier.table_count()),
        }
    }

    /// The share of the rules that a model finds; `None` without a model.
    pub(super) fn coverage(&self) -> Option<f64> {
        match &self.classifier {
            Built::Linear(_) | Built::TupleSpace(_) | Built::MergedTuples(_) => None,
        }
    }

    /// What only this classifier has.
    pub(super) fn details(&self) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }
}
