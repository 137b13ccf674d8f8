//! Which classifier a table has.

use thalweg_classifier::{
    Auto, AutoConfig, AutoPolicy, Bloom, BloomConfig, Classifier, LearnedConfig, MergedTuples,
    Selection, TrainingPolicy, TupleSpace, TupleSpaceConfig,
};
use thalweg_packet::{FieldId, Layout, standard};

/// How the tables of a pipeline find their rules.
///
/// All give the same answers; the bits they say they examined differ, and so do their costs.
///
/// ```
/// use thalweg_pipeline::ClassifierKind;
///
/// assert_eq!("tuple-space".parse(), Ok(ClassifierKind::TupleSpace));
/// assert!("magic".parse::<ClassifierKind>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClassifierKind {
    /// A tuple space that becomes merged tuples when a table's rules have many masks; and whatever
    /// is found to be cheaper for the keys that are looked up, once that has paid.
    #[default]
    Auto,
    /// One hash table for each mask.
    TupleSpace,
    /// Hash tables of several masks each.
    MergedTuples,
    /// A tuple space behind a filter that says which of its tables to search.
    Bloom,
    /// A learned index, and merged tuples for the rules that it does not cover.
    Learned,
}

impl ClassifierKind {
    /// All there are.
    pub const ALL: [ClassifierKind; 5] = [
        ClassifierKind::Auto,
        ClassifierKind::TupleSpace,
        ClassifierKind::MergedTuples,
        ClassifierKind::Bloom,
        ClassifierKind::Learned,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ClassifierKind::Auto => "auto",
            ClassifierKind::TupleSpace => "tuple-space",
            ClassifierKind::MergedTuples => "merged-tuples",
            ClassifierKind::Bloom => "bloom",
            ClassifierKind::Learned => "learned",
        }
    }

    /// An empty classifier for keys of this layout.
    pub(crate) fn new_classifier(
        self,
        layout: &Layout,
        seed: u64,
    ) -> Box<dyn Classifier + Send + Sync> {
        let config = TupleSpaceConfig::new(layout, &PREFIX_FIELDS, seed);
        let selected = |selection| {
            let learned = LearnedConfig::new(layout, &PREFIX_FIELDS, seed);
            Box::new(Auto::new(AutoConfig {
                own_masks_max: OWN_MASKS_MAX,
                ..AutoConfig::new(learned, selection)
            }))
        };
        match self {
            ClassifierKind::Auto => selected(Selection::Measured(AutoPolicy::default())),
            ClassifierKind::TupleSpace => Box::new(TupleSpace::new(config)),
            ClassifierKind::MergedTuples => Box::new(MergedTuples::new(config)),
            ClassifierKind::Bloom => Box::new(Bloom::new(BloomConfig::new(config))),
            ClassifierKind::Learned => selected(Selection::Learned(TrainingPolicy::default())),
        }
    }
}

impl std::str::FromStr for ClassifierKind {
    type Err = UnknownClassifier;

    fn from_str(name: &str) -> Result<Self, UnknownClassifier> {
        let known = ClassifierKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name);
        known.ok_or_else(|| UnknownClassifier {
            name: name.to_owned(),
        })
    }
}

/// A classifier that does not exist.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "there is no classifier {name:?}; choose \"auto\", \"tuple-space\", \"merged-tuples\", \
     \"bloom\" or \"learned\""
)]
pub struct UnknownClassifier {
    /// What was asked for.
    pub name: String,
}

/// Masks from which on [`ClassifierKind::Auto`] merges tables; with 13, both cost the same.
const OWN_MASKS_MAX: usize = 16;

/// Fields that rules match by prefix; each has a trie in every table.
const PREFIX_FIELDS: [FieldId; 8] = [
    standard::IP_SRC,
    standard::IP_DST,
    standard::IPV6_SRC,
    standard::IPV6_DST,
    standard::TP_SRC,
    standard::TP_DST,
    standard::ARP_SPA,
    standard::ARP_TPA,
];
