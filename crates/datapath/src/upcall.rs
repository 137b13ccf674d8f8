//! Upcalls: turn the interpreter's answer into an entry.
//!
//! 1. The installed entry is exactly what the interpreter said: its mask, its effects, its
//!    credits. Only continuations get their numbers here.
//! 2. An answer without room, or without a continuation number, is not remembered.

use std::sync::Arc;

use thalweg_packet::{Instant, Packet};
use thalweg_pipeline::{
    Continuation, Counters, Effect, Pipeline, StepKind, Trace, Translation, Version, Walker,
};

use crate::content::Content;
use crate::core::{Answer, Core};
use crate::dependency::{Dependencies, Known};
use crate::entry::{Credit, Entry, EntryId, Mark, Program};
use crate::maintain::Caches;
use crate::megaflow::Arrival;
use crate::statistics::{EvictReason, RefuseReason};
use crate::watch::{FRAME_BYTES_MAX, UpcallEntry, UpcallReport, is_failure};

impl<const W: usize> Core<W> {
    /// Gets the interpreter's answer to a key, and remembers it.
    pub(crate) fn upcall(
        &mut self,
        key: &[u64; W],
        arrival: Arrival,
        now: Instant,
        pipeline: &Pipeline,
    ) -> Answer {
        let Some(content) = self.content(key, pipeline, None) else {
            // The packet's walk cannot continue; nothing of it is remembered.
            self.statistics
                .count_refusal(RefuseReason::ContinuationsFull);
            return Answer::Once(Program::Run(Vec::new().into()), Vec::new());
        };
        if self.config.megaflow.entries == 0 {
            let program = Program::of(content.effects.into_list(), Into::into);
            return Answer::Once(program, content.credits.into_list());
        }
        self.install(key, arrival, content, now)
    }

    /// The interpreter's answer to a key; `None` if it needs a continuation and there is no
    /// room.
    ///
    /// With an `entry`, lookups that its walk still knows are not repeated.
    pub(crate) fn content(
        &mut self,
        key: &[u64; W],
        pipeline: &Pipeline,
        entry: Option<EntryId>,
    ) -> Option<Content> {
        // A change may be published that this datapath has not followed yet. The answer is
        // still that of its own version, which the pipeline keeps until every reader has moved
        // on.
        debug_assert!(
            pipeline.version() >= self.version,
            "a datapath never runs ahead of its pipeline"
        );
        let number = self
            .layout
            .get(&key[..], thalweg_packet::standard::RECIRC_ID)
            .unwrap_or(0);
        let continuation = match number {
            0 => None,
            number => Some(self.continuations.get(number as u32)?.clone()),
        };
        let from = (continuation.as_deref(), self.version);
        let again = entry.map(|entry| Again {
            entry,
            mask_limit: self.mask_limit(entry),
        });
        let walker = &mut self.walker;
        let (translation, known) = match again.and_then(|again| Some((again, self.record.lock()?)))
        {
            Some((again, record)) => again.walk(walker, &record, pipeline, key, from),
            None => {
                let translation = walker.walk(pipeline, key, from.0, from.1, None);
                (translation, Known::default())
            }
        };
        let Translation {
            mask,
            effects,
            trace,
            continuations,
            ..
        } = translation;
        let effects = self.with_numbers(effects, &continuations)?;
        Some(Content {
            mask,
            effects: self.effects.hashed(effects),
            credits: self.credits.hashed(Credit::of(&trace)),
            lookups: lookups_of(&trace),
            recalled: known.recalled,
            is_anew: known.is_anew,
            read: Some((trace, known)),
        })
    }

    /// Replaces the translation's numbers of continuations by the datapath's.
    pub(crate) fn with_numbers(
        &mut self,
        effects: Vec<Effect>,
        continuations: &[Arc<Continuation>],
    ) -> Option<Vec<Effect>> {
        if continuations.is_empty() {
            return Some(effects);
        }
        let number = |effect| {
            Some(match effect {
                Effect::Recirculate(local) => {
                    let continuation = &continuations[local as usize];
                    Effect::Recirculate(self.continuations.number(continuation)?)
                }
                Effect::LearnRule {
                    rule,
                    outcomes: Some((with, without)),
                } => {
                    let mut number =
                        |local: u32| self.continuations.number(&continuations[local as usize]);
                    Effect::LearnRule {
                        rule,
                        outcomes: Some((number(with)?, number(without)?)),
                    }
                }
                effect => {
                    let mut has_room = true;
                    let effect = effect.map_lists(|list| {
                        let numbered = self.with_numbers(list, continuations);
                        has_room &= numbered.is_some();
                        numbered.unwrap_or_default()
                    });
                    return has_room.then_some(effect);
                }
            })
        };
        effects.into_iter().map(number).collect()
    }

    /// Installs an entry, unless it exists already, its mask has no room, or it alone exceeds
    /// the cache.
    fn install(
        &mut self,
        key: &[u64; W],
        arrival: Arrival,
        content: Content,
        now: Instant,
    ) -> Answer {
        let Content {
            mut mask,
            effects,
            credits,
            read,
            ..
        } = content;
        self.finish_mask(&mut mask);
        let Some(mut subtable) = self.subtable_of_new(&mask) else {
            let program = Program::of(effects.into_list(), Into::into);
            return Answer::Once(program, credits.into_list());
        };
        if let Some(known) = self.megaflow.find_in(subtable, key, &self.entries) {
            if !self.entries.is_refused(known) {
                // The search ended before this sub-table.
                self.megaflow.note_unsearched(arrival, subtable);
                self.statistics.lookups.unsearched += 1;
                if let Some((trace, _)) = read {
                    self.walker.recycle(trace, mask, Vec::new());
                }
                return Answer::Entry(known);
            }
            // An entry that waits for its repair is replaced by the new answer. If it was the
            // last one, no sub-table is left.
            self.evict(known, EvictReason::Changed);
            subtable = self.subtable_for(&mask);
        }
        let credits = self.credits.share(credits);
        let entry = Entry {
            program: Program::of(effects, |effects| self.effects.share(effects)),
            counters: Counters::default(),
            used_at: now,
            subtable,
            generation: 0,
            epoch: self.entries.epoch(),
            credits,
            is_recent: true,
            mark: Mark::Unmarked,
        };
        self.account_lists(&entry.program, &entry.credits);
        if self.used_bytes() > self.config.megaflow.bytes && self.entries.len() == 0 {
            self.statistics.count_refusal(RefuseReason::TooLarge);
            // A private copy: shared lists belong to entries only.
            let program = match &entry.program {
                Program::Run(effects) => Program::Run(effects.to_vec().into()),
                program => program.clone(),
            };
            let credits = entry.credits.to_vec();
            self.forget_lists(entry.program, entry.credits);
            return Answer::Once(program, credits);
        }
        let id = self.entries.insert(*key, entry, arrival.counts);
        self.megaflow.insert(id, &self.entries);
        self.note_walk(id, read, mask);
        self.statistics.megaflow.insertions += 1;
        Answer::Entry(id)
    }

    /// Records what an entry depends on; memory not needed for that goes to the next walk.
    pub(crate) fn note_walk(&mut self, id: EntryId, read: Option<(Trace, Known)>, mask: Vec<u64>) {
        let trace = read.and_then(|(trace, known)| self.record.set(id, trace, known));
        if let Some(trace) = trace {
            self.walker.recycle(trace, mask, Vec::new());
        }
    }

    /// Makes a walk's mask that of an entry: as many words as keys have here, and all bits if
    /// entries compare whole keys.
    pub(crate) fn finish_mask(&self, mask: &mut Vec<u64>) {
        mask.resize(W, 0);
        if self.config.megaflow.is_exact {
            mask.copy_from_slice(&self.exact_mask());
        }
    }

    /// The mask of whole keys.
    pub(crate) fn exact_mask(&self) -> [u64; W] {
        let ingress = self.layout.ingress_words();
        std::array::from_fn(|word| if word < ingress { u64::MAX } else { 0 })
    }

    /// The sub-table of a packet's mask; `None` at the limit of masks, where others are then
    /// displaced ([`Core::displace`]).
    fn subtable_of_new(&mut self, mask: &[u64]) -> Option<u32> {
        let exact = self.exact_mask();
        let subtable = self.megaflow.subtable_of(mask, &exact);
        if subtable.is_none() {
            self.statistics.count_refusal(RefuseReason::MasksFull);
            self.megaflow.note_refused();
        }
        subtable
    }

    /// Makes room for refused masks. Runs between bursts, so that entries found for a packet
    /// still exist when it is answered.
    pub(crate) fn displace(&mut self) {
        for id in self.megaflow.displaced() {
            let subtable = self.entries.get(id).subtable;
            self.evict(id, EvictReason::RareMask);
            if self.entries.len() > 0 {
                self.megaflow.give_room(subtable);
            }
        }
    }

    /// The sub-table of a mask; at the limit of masks, that of whole keys.
    pub(crate) fn subtable_for(&mut self, mask: &[u64]) -> u32 {
        // Room is always kept for the mask of whole keys.
        let exact = self.exact_mask();
        match self.megaflow.subtable_of(mask, &exact) {
            Some(subtable) => subtable,
            None => {
                self.statistics.count_refusal(RefuseReason::MasksFull);
                let exact = self.megaflow.subtable_of(&exact, &exact);
                exact.expect("its place is kept")
            }
        }
    }

    /// Notes what became of a packet that no cache could answer.
    pub(crate) fn note_upcall(&mut self, packet: &Packet, key: &[u64; W], answer: &Answer) {
        let id = match answer {
            Answer::Entry(id) => Some(*id),
            Answer::Once(..) => None,
        };
        let bytes = packet.bytes();
        let is_new = id.is_some_and(|id| self.entries.is_unused(id));
        let sample_bytes = self.config.megaflow.sample_bytes;
        if let Some(id) = id.filter(|_| is_new && sample_bytes > 0) {
            self.entries
                .keep_sample(id, &bytes[..bytes.len().min(sample_bytes)]);
        }
        if !self.watch.is_on() {
            return;
        }
        let program = match answer {
            Answer::Entry(id) => &self.entries.get(*id).program,
            Answer::Once(program, _) => program,
        };
        let has_failed = matches!(program, Program::Drop(reason) if is_failure(*reason));
        if !self.watch.wants(has_failed && (is_new || id.is_none())) || !self.watch.has_room() {
            return;
        }
        let ingress = self.layout.ingress_words();
        let entry = id.map(|id| {
            let entry = self.entries.get(id);
            UpcallEntry {
                mask: self.megaflow.mask(entry.subtable)[..ingress].to_vec(),
                effects: entry.program.effects(),
                is_new,
            }
        });
        let report = UpcallReport {
            layout: self.layout.clone(),
            in_port: packet.in_port(),
            frame: bytes[..bytes.len().min(FRAME_BYTES_MAX)].to_vec(),
            length: packet.original_len(),
            packet_type: packet.packet_type(),
            tunnel: packet.tunnel().cloned().map(Box::new),
            key: key[..ingress].to_vec(),
            entry,
            has_failed,
        };
        self.watch.add(report);
    }
}

/// Number of lookups of a walk.
pub(crate) fn lookups_of(trace: &Trace) -> u32 {
    let is_lookup = |kind: &StepKind| matches!(kind, StepKind::Lookup { .. });
    trace.kinds().filter(is_lookup).count() as u32
}

/// A repeated walk of an existing entry, with what its last walk knows.
pub(crate) struct Again {
    pub(crate) entry: EntryId,
    /// Most bits in its mask; if there are more, the walk is repeated without memory, for the
    /// narrowest mask.
    pub(crate) mask_limit: u32,
}

impl Again {
    /// Walks the entry's key at a version, from the beginning or from where it was frozen.
    pub(crate) fn walk(
        &self,
        walker: &mut Walker,
        record: &Dependencies,
        pipeline: &Pipeline,
        key: &[u64],
        (continuation, version): (Option<&Continuation>, Version),
    ) -> (Translation, Known) {
        let memory = record.memory_of(self.entry, pipeline, version);
        let translation = walker.walk(pipeline, key, continuation, version, Some(&memory));
        let known = memory.into_known();
        if known.recalled == 0 || bits_of(&translation.mask) <= self.mask_limit {
            return (translation, known);
        }
        walker.recycle(translation.trace, translation.mask, translation.effects);
        let translation = walker.walk(pipeline, key, continuation, version, None);
        let known = Known {
            is_anew: true,
            ..Known::default()
        };
        (translation, known)
    }
}

/// The number of bits in a mask.
pub(crate) fn bits_of(mask: &[u64]) -> u32 {
    mask.iter().map(|word| word.count_ones()).sum()
}
