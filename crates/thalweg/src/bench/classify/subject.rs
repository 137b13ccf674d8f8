//! The classifiers that are compared, by name.

use std::collections::BTreeMap;
use std::str::FromStr;

use thalweg_classifier::simd::Level;
use thalweg_classifier::{
    Bloom, BloomConfig, Classifier, FirstLayer, IsetStatistics, Learned, LearnedConfig, Linear,
    MergedTuples, ModelKind, TupleSpace, TupleSpaceConfig, Version,
};
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
    /// The same as the tuple space, behind a filter.
    Bloom(FirstLayer),
    /// A learned index, and merged tuples for the rest.
    Learned(Variant),
}

/// A learned index as it is, with another model, or without one of its parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Variant {
    /// As it is.
    Usual,
    /// With NuevoMatch's model, RQ-RMI.
    RqRmi,
    /// That one, without vector instructions.
    NoSimd,
    /// Every rule of an iSet in a bucket of its own, as in NuevoMatch.
    NoBuckets,
    /// With a model even where merged tuples are expected to be faster.
    Always,
}

/// Rules up to which a search of all of them is shown unasked.
const LINEAR_MAX: usize = 2_000;

impl Kind {
    /// All there are, the baseline first.
    const ALL: [Kind; 11] = [
        Kind::TupleSpace,
        Kind::MergedTuples,
        Kind::Bloom(FirstLayer::CommonBits),
        Kind::Bloom(FirstLayer::FullKeys),
        Kind::Bloom(FirstLayer::OwnBits),
        Kind::Learned(Variant::Usual),
        Kind::Learned(Variant::RqRmi),
        Kind::Learned(Variant::NoSimd),
        Kind::Learned(Variant::NoBuckets),
        Kind::Learned(Variant::Always),
        Kind::Linear,
    ];

    /// Those that are compared if nobody says which.
    pub(super) fn usual(rules: usize) -> Vec<Kind> {
        let is_usual = |kind: &Kind| match kind {
            Kind::Linear => rules <= LINEAR_MAX,
            Kind::Learned(variant) => matches!(variant, Variant::Usual | Variant::RqRmi),
            _ => true,
        };
        Kind::ALL.into_iter().filter(is_usual).collect()
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Linear => "linear",
            Kind::TupleSpace => "tuple-space",
            Kind::MergedTuples => "merged-tuples",
            Kind::Bloom(FirstLayer::CommonBits) => "bloom",
            Kind::Bloom(FirstLayer::FullKeys) => "bloom-full-keys",
            Kind::Bloom(FirstLayer::OwnBits) => "bloom-own-bits",
            Kind::Bloom(FirstLayer::FullKeysDisjoint) => "bloom-disjoint",
            Kind::Learned(Variant::Usual) => "learned",
            Kind::Learned(Variant::RqRmi) => "learned-rq-rmi",
            Kind::Learned(Variant::NoSimd) => "learned-no-simd",
            Kind::Learned(Variant::NoBuckets) => "learned-no-buckets",
            Kind::Learned(Variant::Always) => "learned-always",
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
    Bloom(Box<Bloom>),
    Learned(Box<Learned>),
}

impl Subject {
    /// Builds a classifier of all rules, for lookups of so many flows.
    pub(super) fn build(kind: Kind, set: &RuleSet, flows: usize, seed: u64) -> Subject {
        let config = TupleSpaceConfig::new(&set.layout, &PREFIX_FIELDS, seed);
        let classifier = match kind {
            Kind::Linear => Built::Linear(Linear::new(set.words())),
            Kind::TupleSpace => Built::TupleSpace(TupleSpace::new(config)),
            Kind::MergedTuples => Built::MergedTuples(MergedTuples::new(config)),
            Kind::Bloom(first_layer) => Built::Bloom(Box::new(Bloom::new(BloomConfig {
                first_layer,
                flows,
                ..BloomConfig::new(config)
            }))),
            Kind::Learned(variant) => {
                let mut config = LearnedConfig::new(&set.layout, &PREFIX_FIELDS, seed);
                match variant {
                    Variant::Usual => {}
                    Variant::RqRmi => config.model = ModelKind::Perceptrons,
                    Variant::NoSimd => {
                        config.model = ModelKind::Perceptrons;
                        config.level = Level::PLAIN;
                    }
                    Variant::NoBuckets => config.bucket_max = 1,
                    Variant::Always => config.is_cost_ignored = true,
                }
                Built::Learned(Box::new(Learned::new(config)))
            }
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
        let ms_since = |start| (processor_time_ns() - start) as f64 / 1e6;
        subject.build_ms = ms_since(start);
        let start = processor_time_ns();
        if subject.train() {
            subject.training_ms = Some(ms_since(start));
        }
        subject
    }

    /// Trains a model of all rules, as after the build; says whether there is one.
    pub(super) fn train(&mut self) -> bool {
        match &mut self.classifier {
            Built::Learned(classifier) => {
                classifier.train_now();
                true
            }
            _ => false,
        }
    }

    /// It, to be asked.
    pub(super) fn classifier(&self) -> &dyn Classifier {
        match &self.classifier {
            Built::Linear(classifier) => classifier,
            Built::TupleSpace(classifier) => classifier,
            Built::MergedTuples(classifier) => classifier,
            Built::Bloom(classifier) => &**classifier,
            Built::Learned(classifier) => &**classifier,
        }
    }

    /// It, to be changed.
    pub(super) fn classifier_mut(&mut self) -> &mut dyn Classifier {
        match &mut self.classifier {
            Built::Linear(classifier) => classifier,
            Built::TupleSpace(classifier) => classifier,
            Built::MergedTuples(classifier) => classifier,
            Built::Bloom(classifier) => &mut **classifier,
            Built::Learned(classifier) => &mut **classifier,
        }
    }

    /// Hash tables that a lookup may have to visit.
    pub(super) fn tables(&self) -> Option<usize> {
        match &self.classifier {
            Built::Linear(_) => None,
            Built::TupleSpace(classifier) => Some(classifier.subtable_count()),
            Built::MergedTuples(classifier) => Some(classifier.table_count()),
            Built::Bloom(classifier) => Some(classifier.rules().subtable_count()),
            Built::Learned(classifier) => Some(classifier.statistics().remainder_tables),
        }
    }

    /// The share of the rules that a model finds; `None` without a model.
    pub(super) fn coverage(&self) -> Option<f64> {
        match &self.classifier {
            Built::Learned(classifier) => Some(classifier.statistics().coverage()),
            _ => None,
        }
    }

    /// What only this classifier has.
    pub(super) fn details(&self, trainings: usize) -> BTreeMap<String, f64> {
        let details = match &self.classifier {
            Built::Bloom(classifier) => {
                let counted = classifier.statistics();
                let asked = counted.lookups.max(1) as f64;
                vec![
                    ("candidates_per_lookup", counted.candidates as f64 / asked),
                    (
                        "false_positives_per_lookup",
                        counted.false_positives as f64 / asked,
                    ),
                    (
                        "full_searches_per_lookup",
                        counted.full_searches as f64 / asked,
                    ),
                    (
                        "bypassed",
                        counted.bypassed as f64 / (counted.bypassed as f64 + asked),
                    ),
                ]
            }
            Built::Learned(classifier) => {
                let isets = classifier.statistics().isets;
                let sum = |bytes: fn(&IsetStatistics) -> usize| {
                    isets.iter().map(bytes).sum::<usize>() as f64
                };
                let window = isets.iter().map(|iset| iset.window).max();
                vec![
                    ("isets", isets.len() as f64),
                    ("buckets", sum(|iset| iset.buckets)),
                    ("model_bytes", sum(|iset| iset.model_bytes)),
                    ("directory_bytes", sum(|iset| iset.directory_bytes)),
                    ("window", window.unwrap_or(0) as f64),
                    ("trainings", trainings as f64),
                ]
            }
            _ => Vec::new(),
        };
        (details.into_iter())
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}
