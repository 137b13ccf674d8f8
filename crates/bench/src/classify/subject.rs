//! Builds the compared classifiers, by name.

use std::collections::BTreeMap;
use std::str::FromStr;

use thalweg_classifier::simd::Level;
use thalweg_classifier::{
    Auto, AutoConfig, AutoPolicy, Bloom, BloomConfig, Classifier, FirstLayer, IndexKind,
    IsetStatistics, Learned, LearnedConfig, Linear, MergedTuples, ModelKind, Selection,
    TrainingPolicy, TupleSpace, TupleSpaceConfig, Version,
};
use thalweg_packet::FieldId;
use thalweg_packet::standard as f;

use super::oracle::Event;
use super::set::RuleSet;
use crate::clock::processor_time_ns;

/// A classifier that can be selected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Searches all rules, from the best down.
    Linear,
    /// One hash table per mask.
    TupleSpace,
    /// One hash table for several masks.
    MergedTuples,
    /// A tuple space behind a filter.
    Bloom(FirstLayer),
    /// A learned index, and merged tuples for the rest.
    Learned(Variant),
    /// The cheapest of these, for the keys that are looked up.
    Auto,
}

/// A learned index as usual, with another model, or without one of its parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Variant {
    /// As usual.
    Usual,
    /// With NuevoMatch's model, RQ-RMI.
    RqRmi,
    /// RQ-RMI without vector instructions.
    NoSimd,
    /// RQ-RMI with every rule of an iSet in its own bucket, as in NuevoMatch.
    NoBuckets,
    /// RQ-RMI trained on every bucket start instead of samples.
    NoSampling,
    /// With a model even where merged tuples are expected to be faster.
    Always,
}

/// Most rules for which a linear search is included by default.
const LINEAR_MAX: usize = 2_000;

impl Kind {
    /// All kinds, the baseline first.
    const ALL: [Kind; 13] = [
        Kind::TupleSpace,
        Kind::MergedTuples,
        Kind::Bloom(FirstLayer::CommonBits),
        Kind::Bloom(FirstLayer::FullKeys),
        Kind::Bloom(FirstLayer::OwnBits),
        Kind::Learned(Variant::Usual),
        Kind::Learned(Variant::RqRmi),
        Kind::Learned(Variant::NoSimd),
        Kind::Learned(Variant::NoBuckets),
        Kind::Learned(Variant::NoSampling),
        Kind::Learned(Variant::Always),
        Kind::Auto,
        Kind::Linear,
    ];

    /// The kinds that are compared by default.
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
            Kind::Learned(Variant::NoSampling) => "learned-no-sampling",
            Kind::Learned(Variant::Always) => "learned-always",
            Kind::Auto => "auto",
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
    /// Time to insert the rules.
    pub(super) build_ms: f64,
    /// Time to train a model, if there is one.
    pub(super) training_ms: Option<f64>,
    /// Changes of the rules since the build.
    pub(super) events: Vec<Event>,
}

enum Built {
    Linear(Linear),
    TupleSpace(TupleSpace),
    MergedTuples(MergedTuples),
    Bloom(Box<Bloom>),
    /// Also holds a learned index, which trains itself.
    Auto(Box<Auto>),
}

impl Subject {
    /// Builds a classifier of all rules, for lookups of `flows` flows.
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
                    Variant::NoBuckets => {
                        config.model = ModelKind::Perceptrons;
                        config.bucket_max = 1;
                    }
                    Variant::NoSampling => {
                        config.model = ModelKind::Perceptrons;
                        config.samples_max = usize::MAX;
                    }
                    Variant::Always => config.is_cost_ignored = true,
                }
                auto(config, Selection::Learned(TrainingPolicy::default()))
            }
            Kind::Auto => {
                let config = LearnedConfig::new(&set.layout, &PREFIX_FIELDS, seed);
                auto(config, Selection::Measured(AutoPolicy::default()))
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
        subject.train();
        if matches!(kind, Kind::Learned(_)) {
            subject.training_ms = Some(ms_since(start));
        }
        subject
    }

    /// Trains a model of all rules, as after the build.
    pub(super) fn train(&mut self) {
        if let (Kind::Learned(_), Built::Auto(classifier)) = (self.kind, &mut self.classifier) {
            classifier.rebuild_now();
        }
    }

    /// Lets a classifier that chooses by lookups do so now, even if that has not paid yet.
    pub(super) fn choose(&mut self) {
        if let (Kind::Auto, Built::Auto(classifier)) = (self.kind, &mut self.classifier) {
            let start = processor_time_ns();
            classifier.rebuild_now();
            self.training_ms = Some((processor_time_ns() - start) as f64 / 1e6);
        }
    }

    fn learned(&self) -> Option<&Learned> {
        match &self.classifier {
            Built::Auto(classifier) => classifier.learned(),
            _ => None,
        }
    }

    /// The index that was chosen, if there was a choice.
    pub(super) fn chosen(&self) -> Option<&'static str> {
        match &self.classifier {
            Built::Auto(classifier) if self.kind == Kind::Auto => Some(classifier.kind().name()),
            _ => None,
        }
    }

    /// The classifier, for lookups.
    pub(super) fn classifier(&self) -> &dyn Classifier {
        match &self.classifier {
            Built::Linear(classifier) => classifier,
            Built::TupleSpace(classifier) => classifier,
            Built::MergedTuples(classifier) => classifier,
            Built::Bloom(classifier) => &**classifier,
            Built::Auto(classifier) => &**classifier,
        }
    }

    /// The classifier, for changes.
    pub(super) fn classifier_mut(&mut self) -> &mut dyn Classifier {
        match &mut self.classifier {
            Built::Linear(classifier) => classifier,
            Built::TupleSpace(classifier) => classifier,
            Built::MergedTuples(classifier) => classifier,
            Built::Bloom(classifier) => &mut **classifier,
            Built::Auto(classifier) => &mut **classifier,
        }
    }

    /// Hash tables that a lookup may visit.
    pub(super) fn tables(&self) -> Option<usize> {
        match &self.classifier {
            Built::Linear(_) => None,
            Built::TupleSpace(classifier) => Some(classifier.subtable_count()),
            Built::MergedTuples(classifier) => Some(classifier.table_count()),
            Built::Bloom(classifier) => Some(classifier.rules().subtable_count()),
            Built::Auto(classifier) => match classifier.learned() {
                Some(learned) => Some(learned.statistics().remainder_tables),
                None => classifier.choice().map(|choice| choice.tables),
            },
        }
    }

    /// The share of the rules that a model covers; `None` without a model.
    pub(super) fn coverage(&self) -> Option<f64> {
        Some(self.learned()?.statistics().coverage())
    }

    /// Figures that only this classifier has.
    pub(super) fn details(&self, trainings: usize, longest_slice_us: f64) -> BTreeMap<String, f64> {
        let mut details = match &self.classifier {
            Built::Bloom(classifier) => details_of_filter(classifier),
            Built::Auto(classifier) => {
                let mut details = self.learned().map(details_of_index).unwrap_or_default();
                if self.kind == Kind::Auto {
                    details.extend(details_of_choice(classifier));
                }
                details
            }
            _ => Vec::new(),
        };
        if matches!(self.classifier, Built::Auto(_)) {
            details.push(("trainings".to_owned(), trainings as f64));
            details.push(("longest_slice_us".to_owned(), longest_slice_us));
        }
        details.into_iter().collect()
    }
}

fn auto(config: LearnedConfig, selection: Selection) -> Built {
    Built::Auto(Box::new(Auto::new(AutoConfig::new(config, selection))))
}

type Details = Vec<(String, f64)>;

fn named<const N: usize>(details: [(&str, f64); N]) -> Details {
    let details = details.into_iter();
    details
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn details_of_filter(classifier: &Bloom) -> Details {
    let counted = classifier.statistics();
    let asked = counted.lookups.max(1) as f64;
    let bypassed = counted.bypassed as f64;
    named([
        ("candidates_per_lookup", counted.candidates as f64 / asked),
        (
            "false_positives_per_lookup",
            counted.false_positives as f64 / asked,
        ),
        (
            "full_searches_per_lookup",
            counted.full_searches as f64 / asked,
        ),
        ("bypassed", bypassed / (bypassed + asked)),
    ])
}

fn details_of_index(classifier: &Learned) -> Details {
    let isets = classifier.statistics().isets;
    let sum = |bytes: fn(&IsetStatistics) -> usize| isets.iter().map(bytes).sum::<usize>() as f64;
    let window = isets.iter().map(|iset| iset.window).max();
    named([
        ("isets", isets.len() as f64),
        ("buckets", sum(|iset| iset.buckets)),
        ("model_bytes", sum(|iset| iset.model_bytes)),
        ("directory_bytes", sum(|iset| iset.directory_bytes)),
        ("window", window.unwrap_or(0) as f64),
    ])
}

/// The counted cost of each compared index: nanoseconds per lookup in a burst.
fn details_of_choice(classifier: &Auto) -> Details {
    let Some(choice) = classifier.choice() else {
        return Vec::new();
    };
    let mut details = named([
        ("trials", choice.trials as f64),
        ("replaced", choice.replaced as f64),
    ]);
    let verdict = choice.verdict.into_iter();
    let costs = verdict.flat_map(|verdict| verdict.costs_ns.into_iter().skip(1));
    let name = |kind: IndexKind| format!("counted_ns_{}", kind.name().replace('-', "_"));
    details.extend(costs.map(|(kind, cost)| (name(kind), cost)));
    details
}
