//! What maintainers may do to the caches.

use thalweg_pipeline::{Delta, Pipeline};

use super::{Caches, Outcome};
use crate::core::Core;
use crate::dependency::Region;
use crate::entry::EntryId;
use crate::statistics::EvictReason;

impl<const W: usize> Caches for Core<W> {
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn ids(&self) -> Vec<EntryId> {
        self.entries.ids().collect()
    }

    fn affected(&mut self, pipeline: &Pipeline, delta: &Delta) -> Vec<EntryId> {
        let mut affected = Vec::new();
        if self.entries.len() == 0 {
            return affected;
        }
        let dependencies = self.dependencies.as_mut();
        let dependencies = dependencies.expect("maintainers that ask for them have them");
        let (entries, megaflow) = (&self.entries, &self.megaflow);
        let meets = |id: EntryId, region: &Region<'_>| {
            let (key, mask) = (entries.key(id), megaflow.mask(entries.get(id).subtable));
            let words = key
                .iter()
                .zip(mask)
                .zip(region.value.iter().zip(region.mask));
            let mut words = words.enumerate();
            words.all(|(word, ((key, mask), (value, care)))| {
                region.written_words >> word & 1 == 1 || (key ^ value) & mask & care == 0
            })
        };
        dependencies.affected(pipeline, delta, meets, &mut affected);
        affected
    }

    fn settle(&mut self, id: EntryId) {
        let entry = self.entries.get_mut(id);
        let counters = std::mem::take(&mut entry.counters);
        self.ledger.add(&entry.credits, counters, entry.used_at);
    }

    fn evict(&mut self, id: EntryId, reason: EvictReason) {
        Core::evict(self, id, reason);
    }

    fn retranslate(&mut self, id: EntryId, pipeline: &Pipeline, remembers: bool) -> Outcome {
        let key = *self.entries.key(id);
        let Some(mut content) = self.content(&key, pipeline, remembers.then_some(id)) else {
            Core::evict(self, id, EvictReason::Changed);
            return Outcome::Evicted;
        };
        content.mask.resize(W, 0);
        if let Some(dependencies) = &mut self.dependencies {
            dependencies.remove(id);
            dependencies.add(id, &content.trace);
        }
        let subtable = self.subtable_for(&content.mask);
        let entry = self.entries.get_mut(id);
        let is_same_region = entry.subtable == subtable;
        if is_same_region && entry.program == content.program && entry.credits == content.credits {
            return Outcome::Unchanged;
        }
        // Invariant 2.
        let counters = std::mem::take(&mut entry.counters);
        self.ledger.add(&entry.credits, counters, entry.used_at);
        self.account_lists(&content.program, &content.credits);
        let entry = self.entries.get_mut(id);
        let program = std::mem::replace(&mut entry.program, content.program);
        let credits = std::mem::replace(&mut entry.credits, content.credits);
        self.forget_lists(&program, &credits);
        if is_same_region {
            return Outcome::Repaired;
        }
        if self
            .megaflow
            .find_in(subtable, &key, &self.entries)
            .is_some()
        {
            Core::evict(self, id, EvictReason::Duplicate);
            return Outcome::Evicted;
        }
        self.megaflow.remove(id, &self.entries);
        let mut entry = self.entries.remove(id);
        entry.subtable = subtable;
        if let Some(dependencies) = &mut self.dependencies {
            dependencies.remove(id);
        }
        let id = self.entries.insert(key, entry);
        self.megaflow.insert(id, &self.entries);
        if let Some(dependencies) = &mut self.dependencies {
            dependencies.add(id, &content.trace);
        }
        Outcome::Moved
    }
}
