//! Chooses the classifier of a table.

use thalweg_classifier::{Classifier, ClassifierKind, LearnedConfig};
use thalweg_packet::{FieldId, Layout, standard};

/// Creates an empty classifier for keys of this layout.
pub(crate) fn new_classifier(
    kind: ClassifierKind,
    layout: &Layout,
    seed: u64,
) -> Box<dyn Classifier + Send + Sync> {
    let LearnedConfig { tuples, fields, .. } = LearnedConfig::new(layout, &PREFIX_FIELDS, seed);
    kind.build(tuples, fields, OWN_MASKS_MAX)
}

/// Above this many masks, [`ClassifierKind::Auto`] merges tables; at 13 both cost the same.
const OWN_MASKS_MAX: usize = 16;

/// Fields that rules match by prefix; each has a trie in every table.
pub(crate) const PREFIX_FIELDS: [FieldId; 8] = [
    standard::IP_SRC,
    standard::IP_DST,
    standard::IPV6_SRC,
    standard::IPV6_DST,
    standard::TP_SRC,
    standard::TP_DST,
    standard::ARP_SPA,
    standard::ARP_TPA,
];
