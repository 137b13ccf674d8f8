//! Applies the steps of following a change to the caches.

use thalweg_classifier::Version;
use thalweg_pipeline::{Delta, Pipeline};

use super::published::Published;
use super::{Caches, Requests};
use crate::content::Content;
use crate::core::Core;
use crate::dependency::{Findings, Suspect};
use crate::entry::{EntryId, Program};
use crate::history::LastRepair;
use crate::outcome::Outcome;
use crate::statistics::EvictReason;
use crate::upcall::bits_of;

impl<const W: usize> Caches for Core<W> {
    fn numbers(&self) -> u32 {
        self.entries.numbers()
    }

    fn is_there(&self, id: EntryId) -> bool {
        self.entries.is_there(id)
    }

    fn is_taken(&self, id: EntryId, generation: u32) -> bool {
        self.entries.is_taken(id, generation)
    }

    fn prefetch(&self, id: EntryId, with_key: bool) {
        self.entries.prefetch(id);
        if with_key {
            self.entries.prefetch_key(id);
        }
    }

    fn prefetch_lists(&self, id: EntryId, content: &Content) {
        let entry = self.entries.get(id);
        if !self.entries.is_there(id) {
            return;
        }
        entry.credits.prefetch();
        if let Program::Run(effects) = &entry.program {
            effects.prefetch();
        }
        if self.megaflow.mask(entry.subtable) != content.mask {
            self.megaflow.prefetch(id, &self.entries);
        }
        self.credits.prefetch(&content.credits);
        self.effects.prefetch(&content.effects);
    }

    fn prefetch_equal(&self, id: EntryId, content: &Content) {
        self.credits.prefetch_equal(&content.credits);
        self.effects.prefetch_equal(&content.effects);
        let entry = self.entries.get(id);
        self.credits.prefetch_former(&entry.credits);
        if let Program::Run(effects) = &entry.program {
            self.effects.prefetch_former(effects);
        }
    }

    fn mark(&mut self, id: EntryId) -> Option<u32> {
        self.entries.mark(id)
    }

    fn mark_suspect(&mut self, findings: &Findings, suspect: &Suspect) -> Option<u32> {
        let id = suspect.entry;
        if !self.entries.is_there(id) {
            return None;
        }
        if suspect.rule.is_some() {
            let mask = self.megaflow.mask(self.entries.get(id).subtable);
            if !findings.meets(suspect, self.entries.key(id), mask) {
                return None;
            }
        }
        self.entries.mark(id)
    }

    fn check_meanwhile(
        &mut self,
        pipeline: &mut Published<'_>,
        delta: &Delta,
        count: usize,
        affected: &mut Vec<EntryId>,
    ) -> bool {
        // Lock order: the pipeline's lock comes before the record's.
        let is_over = self
            .record
            .lock()
            .is_none_or(|mut known| known.ends_meanwhile());
        is_over || {
            let pipeline = pipeline.get();
            let known = self.record.lock();
            known.is_none_or(|mut known| known.check_meanwhile(pipeline, delta, count, affected))
        }
    }

    fn move_to(&mut self, version: Version, are_others_old: bool) {
        self.version = version;
        self.entries.refuse_marked();
        self.is_repairing = true;
        self.are_others_old = are_others_old;
        let counted = std::mem::take(&mut self.ledger);
        self.ledger_before.merge(counted);
    }

    fn settled(&mut self) {
        (self.is_repairing, self.are_others_old) = (false, false);
        if self.entries.len() == 0 {
            self.continuations.clear();
        }
    }

    fn settle(&mut self, id: EntryId) {
        let counters = self.entries.take_counters(id);
        let entry = self.entries.get(id);
        self.ledger_before
            .add(&entry.credits, counters, entry.used_at);
    }

    fn evict(&mut self, id: EntryId, reason: EvictReason) {
        Core::evict(self, id, reason);
    }

    fn count(&mut self, outcome: Outcome) {
        self.statistics.count_outcome(outcome);
    }

    fn retranslate(&mut self, id: EntryId, pipeline: &Pipeline, remembers: bool) -> Outcome {
        let key = *self.entries.key(id);
        let content = self.content(&key, pipeline, remembers.then_some(id));
        match content {
            Some(content) => self.replace(id, content),
            None => {
                Core::evict(self, id, EvictReason::Changed);
                Outcome::Evicted
            }
        }
    }

    fn requests(&self, version: Version, count: usize) -> Requests {
        // Credits and effects use the same hash function.
        Requests::new(version, W, self.credits.hash_function(), count)
    }

    fn request(&self, id: EntryId, keys: &mut Vec<u64>) -> bool {
        let key = self.entries.key(id);
        // What a recirculated packet may meet depends on where its walk was frozen, which only
        // this datapath knows.
        let number = self
            .layout
            .get(&key[..], thalweg_packet::standard::RECIRC_ID);
        let is_first = number.unwrap_or(0) == 0;
        if is_first {
            keys.extend_from_slice(key);
        }
        is_first
    }

    fn mask_limit(&self, id: EntryId) -> u32 {
        self.searched_bits(id)
            .saturating_add(self.config.mask_growth)
    }

    fn accept(&mut self, id: EntryId, content: Content) -> Outcome {
        self.replace(id, content)
    }
}

impl<const W: usize> Core<W> {
    /// Bits in an entry's mask when a walk last searched all tables. An entry that was never
    /// repaired comes from such a walk.
    fn searched_bits(&self, id: EntryId) -> u32 {
        match self.histories.get(id) {
            Some(repair) => repair.searched_bits,
            None => bits_of(self.megaflow.mask(self.entries.get(id).subtable)),
        }
    }

    /// Gives an entry new content.
    fn replace(&mut self, id: EntryId, mut content: Content) -> Outcome {
        self.statistics.walked_anew += u64::from(content.is_anew);
        self.finish_mask(&mut content.mask);
        let former = self.entries.get(id).subtable;
        let subtable = match self.megaflow.mask(former) == content.mask {
            true => former,
            false => self.subtable_for(&content.mask),
        };
        let is_same_region = former == subtable;
        let searched_bits = match content.recalled {
            0 => bits_of(&content.mask),
            _ => self.searched_bits(id),
        };
        let entry = self.entries.get_mut(id);
        let is_same = is_same_region
            && entry.program.runs(&content.effects)
            && entry.credits[..] == content.credits[..];
        let repair = LastRepair {
            version: self.version,
            outcome: Outcome::Repaired,
            lookups: content.lookups,
            recalled: content.recalled,
            searched_bits,
        };
        if is_same {
            self.entries.unmark(id);
            self.note_walk(id, content.read, content.mask);
            return Outcome::Unchanged;
        }
        // Invariant 2.
        let counters = self.entries.take_counters(id);
        let entry = self.entries.get(id);
        self.ledger_before
            .add(&entry.credits, counters, entry.used_at);
        let credits = self.credits.share(content.credits);
        let program = Program::of(content.effects, |effects| self.effects.share(effects));
        self.account_lists(&program, &credits);
        let entry = self.entries.get_mut(id);
        let program = std::mem::replace(&mut entry.program, program);
        let credits = std::mem::replace(&mut entry.credits, credits);
        self.forget_lists(program, credits);
        if is_same_region {
            self.entries.unmark(id);
            self.note_walk(id, content.read, content.mask);
            self.histories.note(id, repair);
            return Outcome::Repaired;
        }
        let key = *self.entries.key(id);
        if let Some(other) = self.megaflow.find_in(subtable, &key, &self.entries) {
            if !self.entries.is_refused(other) {
                Core::evict(self, id, EvictReason::Duplicate);
                return Outcome::Evicted;
            }
            Core::evict(self, other, EvictReason::Duplicate);
        }
        let former = self.megaflow.mask(self.entries.get(id).subtable);
        let mut words = former.iter().zip(&content.mask);
        let is_part = words.all(|(former, mask)| former & !mask == 0);
        let outcome = match is_part {
            true => Outcome::Narrowed,
            false => Outcome::Moved,
        };
        self.megaflow.remove(id, &self.entries);
        self.entries.renew(id, subtable);
        self.megaflow.insert(id, &self.entries);
        self.note_walk(id, content.read, content.mask);
        self.histories.note(id, LastRepair { outcome, ..repair });
        outcome
    }
}
