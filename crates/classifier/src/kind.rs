//! The kinds of classifier that a configuration can name.

use thalweg_packet::Slot;

use crate::{
    Auto, AutoConfig, AutoPolicy, Bloom, BloomConfig, Classifier, LearnedConfig, MergedTuples,
    Selection, TrainingPolicy, TupleSpace, TupleSpaceConfig,
};

/// The method by which rules are found.
///
/// All kinds give the same answers. They differ in the bits that they report as examined, and
/// in cost.
///
/// ```
/// use thalweg_classifier::ClassifierKind;
///
/// assert_eq!("tuple-space".parse(), Ok(ClassifierKind::TupleSpace));
/// assert_eq!("tuple_space".parse(), Ok(ClassifierKind::TupleSpace));
/// assert!("magic".parse::<ClassifierKind>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClassifierKind {
    /// A tuple space that becomes merged tuples when a table's rules have many masks.
    ///
    /// It also switches to an index that it finds cheaper for the keys looked up, once that
    /// has paid.
    #[default]
    Auto,
    /// One hash table per mask.
    TupleSpace,
    /// Hash tables that each hold several masks.
    MergedTuples,
    /// A tuple space behind a filter that selects the tables to search.
    Bloom,
    /// A learned index, and merged tuples for the rules that it does not cover.
    Learned,
}

impl ClassifierKind {
    /// All kinds.
    pub const ALL: [ClassifierKind; 5] = [
        ClassifierKind::Auto,
        ClassifierKind::TupleSpace,
        ClassifierKind::MergedTuples,
        ClassifierKind::Bloom,
        ClassifierKind::Learned,
    ];

    /// The name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            ClassifierKind::Auto => "auto",
            ClassifierKind::TupleSpace => "tuple-space",
            ClassifierKind::MergedTuples => "merged-tuples",
            ClassifierKind::Bloom => "bloom",
            ClassifierKind::Learned => "learned",
        }
    }

    /// Creates an empty classifier; a learned index may sort by `fields` of the key.
    ///
    /// [`ClassifierKind::Auto`] starts with one table per mask, up to `own_masks_max` masks.
    pub fn build(
        self,
        tuples: TupleSpaceConfig,
        fields: Vec<Slot>,
        own_masks_max: usize,
    ) -> Box<dyn Classifier + Send + Sync> {
        let selected = |tuples, selection| {
            let learned = LearnedConfig::with_fields(tuples, fields);
            Box::new(Auto::new(AutoConfig {
                own_masks_max,
                ..AutoConfig::new(learned, selection)
            }))
        };
        match self {
            ClassifierKind::Auto => selected(tuples, Selection::Measured(AutoPolicy::default())),
            ClassifierKind::TupleSpace => Box::new(TupleSpace::new(tuples)),
            ClassifierKind::MergedTuples => Box::new(MergedTuples::new(tuples)),
            ClassifierKind::Bloom => Box::new(Bloom::new(BloomConfig::new(tuples))),
            ClassifierKind::Learned => {
                selected(tuples, Selection::Learned(TrainingPolicy::default()))
            }
        }
    }
}

impl std::fmt::Display for ClassifierKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for ClassifierKind {
    type Err = UnknownClassifier;

    fn from_str(name: &str) -> Result<Self, UnknownClassifier> {
        let known = ClassifierKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name.replace('_', "-"));
        known.ok_or_else(|| UnknownClassifier {
            name: name.to_owned(),
        })
    }
}

/// Error for the name of a classifier that does not exist.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "there is no classifier {name:?}; choose \"auto\", \"tuple-space\", \"merged-tuples\", \
     \"bloom\" or \"learned\""
)]
pub struct UnknownClassifier {
    /// The requested name.
    pub name: String,
}
