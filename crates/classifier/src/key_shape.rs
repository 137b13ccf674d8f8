//! A classifier's knowledge of its keys: the stage of each word, and the prefix fields.

use thalweg_packet::{FieldId, Layout, MAX_WORDS, Slot, Stage};

use crate::prefix_field::PrefixField;

/// The most prefix fields that a classifier may have.
pub const PREFIX_FIELDS_MAX: usize = 8;

/// The configuration of a [`TupleSpace`](crate::TupleSpace) or a
/// [`MergedTuples`](crate::MergedTuples): the properties of its keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TupleSpaceConfig {
    /// The stage of each word of a key.
    pub stages: Vec<Stage>,
    /// The fields that rules match by prefix, at most [`PREFIX_FIELDS_MAX`]; each has a trie.
    pub prefix_fields: Vec<Slot>,
    /// The seed of the hash functions.
    pub seed: u64,
}

impl TupleSpaceConfig {
    /// A configuration for keys of this layout, with tries for those `prefix_fields` that it
    /// has.
    pub fn new(layout: &Layout, prefix_fields: &[FieldId], seed: u64) -> TupleSpaceConfig {
        let stages = (0..layout.words()).map(|word| layout.stage_of_word(word));
        let slots = prefix_fields.iter().filter_map(|&field| layout.slot(field));
        TupleSpaceConfig {
            stages: stages.collect(),
            prefix_fields: slots.collect(),
            seed,
        }
    }

    /// A configuration for keys of `words` words without structure: one stage and no tries.
    pub fn flat(words: usize, seed: u64) -> TupleSpaceConfig {
        TupleSpaceConfig {
            stages: vec![Stage::Metadata; words],
            prefix_fields: Vec::new(),
            seed,
        }
    }
}

/// A checked configuration.
#[derive(Clone, Debug)]
pub(crate) struct KeyShape {
    stages: Box<[Stage]>,
    /// The words, ordered by stage.
    words_by_stage: Box<[usize]>,
    prefix_fields: Box<[PrefixField]>,
}

impl KeyShape {
    /// Checks a configuration.
    ///
    /// # Panics
    /// If there are no words or more than [`MAX_WORDS`], more than [`PREFIX_FIELDS_MAX`]
    /// prefix fields, or one that is wider than 128 bits or outside the words.
    pub(crate) fn new(config: &TupleSpaceConfig) -> KeyShape {
        let words = config.stages.len();
        assert!(
            (1..=MAX_WORDS).contains(&words),
            "a key has 1 to {MAX_WORDS} words"
        );
        let fields = config.prefix_fields.iter().copied().map(PrefixField::new);
        let prefix_fields: Box<[PrefixField]> = fields.collect();
        assert!(
            prefix_fields.len() <= PREFIX_FIELDS_MAX,
            "too many prefix fields"
        );
        assert!(
            prefix_fields.iter().all(|field| field.words_end() <= words),
            "a prefix field outside the key"
        );
        let mut words_by_stage: Box<[usize]> = (0..words).collect();
        words_by_stage.sort_by_key(|&word| config.stages[word]);
        KeyShape {
            stages: config.stages.as_slice().into(),
            words_by_stage,
            prefix_fields,
        }
    }

    /// The number of words in a key.
    #[inline]
    pub(crate) fn words(&self) -> usize {
        self.stages.len()
    }

    pub(crate) fn stage(&self, word: usize) -> Stage {
        self.stages[word]
    }

    /// The words of a key, ordered by stage.
    pub(crate) fn words_by_stage(&self) -> impl Iterator<Item = usize> {
        self.words_by_stage.iter().copied()
    }

    pub(crate) fn prefix_fields(&self) -> &[PrefixField] {
        &self.prefix_fields
    }
}
