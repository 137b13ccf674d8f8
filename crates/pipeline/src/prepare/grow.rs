//! Moves all rules to a wider layout.

use std::sync::Arc;

use thalweg_classifier::{Pattern, RuleId};
use thalweg_packet::Layout;

use crate::pipeline::{Generation, Pipeline};

impl Pipeline {
    /// Moves all rules to tables of another layout; keeps the former tables for undo.
    pub(super) fn move_to(&mut self, layout: Arc<Layout>) {
        let mut next = Generation::new(layout.clone(), self.config.classifier);
        let (seed, version) = (self.config.index_seed, self.version);
        for (id, rule) in self.rules.iter().enumerate() {
            let Some(rule) = rule else { continue };
            // Rules that died before matter only to readers of the old layout, who start over.
            if rule.end.is_some() {
                continue;
            }
            let id = RuleId(id as u32);
            let matching = self.match_of(id).expect("a living rule is in its table");
            let (value, mask) = matching.compile_rule(&layout);
            let pattern = Pattern {
                value: &value,
                mask: &mask,
            };
            let classifier = next.classifier_for_new(rule, seed);
            classifier.insert(pattern, rule.precedence, id, rule.born.min(version));
        }
        let former = std::mem::replace(&mut self.generation, next);
        let prepared = self.unpublished();
        prepared.former = Some(former);
        prepared.delta.has_new_layout = true;
    }
}
