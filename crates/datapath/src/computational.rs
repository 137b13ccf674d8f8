//! Computational flows: packets are answered by the rules themselves, not by wildcard entries.
//!
//! ```text
//!   packets -> parse, extract keys -> microflow --miss--> a lookup in each table that the walk meets
//!                                        |hit                |
//!                                        +----> effects <----+
//! ```
//!
//! With a classifier that finds the best of 500,000 rules quickly, a walk through the tables
//! costs less than making a wildcard entry, and less than finding one among thousands of
//! masks. So there are no wildcard entries, no masks, and no upcalls: the rules answer every
//! packet that misses the exact-match cache, whether its flow is new or not (Rashelbach,
//! Rottenstreich, Silberstein, *Scaling Open vSwitch with a Computational Cache*, NSDI 2022).
//! First lookups are made for all packets of a burst together. The walk is the interpreter's,
//! without the record of what it read.
//!
//! The exact-match cache admits few flows while few of its entries are hit before rules change
//! (`thrift`).
//!
//! 1. A packet is counted when it passes, not with an entry: there is nothing to gather.
//! 2. An entry holds the key of one flow and its answer at one epoch. A change of the rules
//!    starts a new epoch: it takes constant time, and each flow is answered once more.
//! 3. An entry is in one slot of the exact-match cache. If another entry takes that slot, it
//!    is evicted at the end of the burst.

use thalweg_packet::{Connection, Headers, Instant, Packet, standard};
use thalweg_pipeline::{
    BridgeId, Counters, Delta, Effect, Outbox, Pipeline, RuleId, Shortcut, TableId, Translation,
    run,
};

use crate::core::{Burst, Core};
use crate::entry::{Credit, Entry, EntryId, Mark, Program};
use crate::gate::Gate;
use crate::ledger::{Ledger, Tally};
use crate::maintain::Caches as _;
use crate::scratch::Scratch;
use crate::statistics::{EvictReason, RefuseReason};

impl<const W: usize> Core<W> {
    /// Answers a parsed burst; `is_first` unless its packets recirculate.
    pub(crate) fn compute(
        &mut self,
        packets: &mut Vec<Packet>,
        burst: &mut Burst<W>,
        is_first: bool,
        now: Instant,
        pipeline: &Gate<Pipeline>,
        outbox: &mut Outbox,
    ) {
        self.search_exactly(burst);
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.unknown.clear();
        let found = burst.found.iter().enumerate();
        let unknown = found.filter(|(_, found)| found.is_none());
        scratch.unknown.extend(unknown.map(|(index, _)| index));
        let (count, unknown) = (burst.found.len() as u64, scratch.unknown.len() as u64);
        self.thrift.note_lookups(count, count - unknown);
        let pipeline = (!scratch.unknown.is_empty()).then(|| pipeline.read());
        if let Some(pipeline) = &pipeline {
            self.statistics.computed += scratch.unknown.len() as u64;
            self.look_up_first(burst, is_first, pipeline, &mut scratch);
        }
        let mut known_first = scratch.first.iter();
        for (index, packet) in packets.drain(..).enumerate() {
            match (burst.found[index], &pipeline) {
                (Some(id), _) => self.execute_exactly(packet, index, burst, id, now, outbox),
                (None, Some(pipeline)) => {
                    let flow = Flow {
                        hash: burst.hashes[index],
                        key: &burst.keys[index],
                        first: known_first.next().copied(),
                    };
                    let parsed = (&burst.headers[index], burst.connection(index));
                    let credits = &mut scratch.credits;
                    self.compute_one(packet, parsed, &flow, now, pipeline, credits, outbox);
                }
                (None, None) => unreachable!("the pipeline is there if a packet asks for it"),
            }
            if !outbox.recirculated.is_empty() {
                self.wait_for_next_pass(burst.origins[index], outbox);
            }
        }
        self.scratch = scratch;
        let mut leaving = std::mem::take(&mut self.leaving);
        for (id, generation, reason) in leaving.drain(..) {
            // An entry that came within the burst may also have lost its slot within it.
            if self.entries.is_taken(id, generation) {
                self.evict(id, reason);
            }
        }
        self.leaving = leaving;
    }

    /// Starts a new epoch (invariant 2). Counts of removed rules are settled; others stay.
    pub(crate) fn begin_epoch(&mut self, delta: &Delta) {
        self.tally.settle_rules(&delta.removed, &mut self.ledger);
        self.move_to(delta.version, false);
        self.entries.begin_epoch();
        self.settled();
    }

    /// Looks only in the exact-match cache.
    fn search_exactly(&mut self, burst: &mut Burst<W>) {
        match self.microflow.is_enabled() {
            true => self.search_microflows(burst),
            false => burst.found.resize(burst.hashes.len(), None),
        }
    }

    /// Does the first lookups of all unknown packets, unless they recirculate: then each
    /// continues from its own table.
    fn look_up_first(
        &self,
        burst: &Burst<W>,
        is_first: bool,
        pipeline: &Pipeline,
        scratch: &mut Scratch,
    ) {
        scratch.first.clear();
        // With bridges, packets of a burst begin in several tables.
        if !is_first || pipeline.has_bridges() {
            return;
        }
        let (words, ingress) = (self.layout.words(), self.layout.ingress_words());
        scratch.keys.clear();
        for index in &scratch.unknown {
            let key = &burst.keys[*index][..ingress];
            scratch.keys.extend_from_slice(key);
            // Registers start as zeros.
            scratch.keys.extend(std::iter::repeat_n(0, words - ingress));
        }
        scratch.first.resize(scratch.unknown.len(), None);
        let (keys, first) = (&mut scratch.keys, &mut scratch.first);
        let dropped = &mut scratch.dropped;
        let (bridge, version) = (BridgeId::default(), self.version);
        pipeline.show_to_tables(bridge, keys, version, |place| dropped.push(place));
        pipeline.lookup_batch(TableId(0), keys, version, first);
        for place in dropped.drain(..) {
            // The walk says what becomes of it.
            first[place] = None;
        }
        pipeline.prefetch_rules(first);
        first
            .iter()
            .flatten()
            .for_each(|rule| self.tally.prefetch(*rule));
    }

    /// Answers a packet by the rules.
    #[expect(
        clippy::too_many_arguments,
        reason = "a packet, its flow, and where it goes"
    )]
    fn compute_one(
        &mut self,
        packet: Packet,
        (headers, connection): (&Headers, &Connection),
        flow: &Flow<'_, W>,
        now: Instant,
        pipeline: &Pipeline,
        credits: &mut Vec<Credit>,
        outbox: &mut Outbox,
    ) {
        if let Some(Some(rule)) = flow.first
            && let Some(shortcut) = pipeline.shortcut(rule, packet.in_port(), self.version)
        {
            self.tally.add(rule, counters_of(&packet), now);
            let effect = match shortcut {
                Shortcut::Send(port) => Effect::Output(port),
                Shortcut::Drop(reason) => Effect::Drop { reason, copies: 1 },
            };
            let effects = [effect];
            self.remember_exactly(flow, &effects, &[Credit::Rule(rule)], now);
            return run(&effects, &self.fields, packet, *headers, connection, outbox);
        }
        let number = self.layout.get(&flow.key[..], standard::RECIRC_ID);
        let continuation = match number.unwrap_or(0) {
            0 => None,
            number => match self.continuations.get(number as u32) {
                Some(continuation) => Some(continuation.clone()),
                None => return self.refuse(packet, outbox),
            },
        };
        let (continuation, version) = (continuation.as_deref(), self.version);
        let key = &flow.key[..];
        let answer = (self.walker).answer(pipeline, key, continuation, version, flow.first);
        let Translation {
            mask,
            effects,
            trace,
            continuations,
            ..
        } = answer;
        let Some(effects) = self.with_numbers(effects, &continuations) else {
            return self.refuse(packet, outbox);
        };
        credits.clear();
        credits.extend(Credit::each(&trace));
        count(
            &mut self.tally,
            &mut self.ledger,
            credits,
            counters_of(&packet),
            now,
        );
        self.remember_exactly(flow, &effects, credits, now);
        run(&effects, &self.fields, packet, *headers, connection, outbox);
        self.walker.recycle(trace, mask, effects);
    }

    fn refuse(&mut self, packet: Packet, outbox: &mut Outbox) {
        // The packet's walk cannot continue.
        self.statistics
            .count_refusal(RefuseReason::ContinuationsFull);
        outbox.pool.put(packet);
    }

    /// Remembers the answer to one flow, if the exact-match cache admits it.
    fn remember_exactly(
        &mut self,
        flow: &Flow<'_, W>,
        effects: &[Effect],
        credits: &[Credit],
        now: Instant,
    ) {
        if !self.microflow.is_enabled() {
            return;
        }
        let is_let_in = self.thrift.lets_in();
        let place = is_let_in
            .then(|| (self.microflow).place_for(flow.hash, flow.key, &self.entries))
            .flatten();
        let Some(place) = place else {
            self.statistics.count_refusal(RefuseReason::NotAdmitted);
            return;
        };
        self.thrift.note_insertion();
        // Invariant 3; packets of this burst may be about to use the former entry.
        if let Some((former, generation)) = self.microflow.occupant(place)
            && self.entries.is_taken(former, generation)
        {
            let reason = match self.entries.is_current(former, generation) {
                true => EvictReason::Capacity,
                false => EvictReason::Changed,
            };
            self.leaving.push((former, generation, reason));
        }
        let subtable = self.subtable_for(&self.exact_mask());
        let credits = self.credits.hashed(credits.to_vec());
        let credits = self.credits.share(credits);
        let effects = self.effects.hashed(effects.to_vec());
        let program = Program::of(effects, |effects| self.effects.share(effects));
        self.account_lists(&program, &credits);
        let entry = Entry {
            program,
            counters: Counters::default(),
            used_at: now,
            subtable,
            generation: 0,
            epoch: self.entries.epoch(),
            credits,
            is_recent: false,
            mark: Mark::Unmarked,
        };
        // What its packets count is known by their rules alone.
        let id = self.entries.insert(*flow.key, entry, (0, 0));
        self.megaflow.insert(id, &self.entries);
        self.microflow
            .put(place, flow.hash, flow.key, id, &self.entries);
        self.statistics.microflow.insertions += 1;
    }

    /// Runs a remembered answer, and counts.
    fn execute_exactly(
        &mut self,
        packet: Packet,
        index: usize,
        burst: &Burst<W>,
        id: EntryId,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        let entry = self.entries.get_mut(id);
        (entry.used_at, entry.is_recent) = (now, true);
        // Invariant 1.
        let (tally, ledger) = (&mut self.tally, &mut self.ledger);
        count(tally, ledger, &entry.credits, counters_of(&packet), now);
        let drops = &mut self.statistics.drops;
        let program = &entry.program;
        let (headers, connection) = (&burst.headers[index], burst.connection(index));
        program.run(packet, headers, connection, &self.fields, drops, outbox);
    }
}

/// What a packet counts.
fn counters_of(packet: &Packet) -> Counters {
    let (packets, bytes) = packet.wire_counts();
    Counters { packets, bytes }
}

/// Counts a packet for everything its walk met.
fn count(
    tally: &mut Tally,
    ledger: &mut Ledger,
    credits: &[Credit],
    counters: Counters,
    now: Instant,
) {
    for credit in credits {
        match credit {
            Credit::Rule(rule) => tally.add(*rule, counters, now),
            other => ledger.add(std::slice::from_ref(other), counters, now),
        }
    }
}

/// A packet's flow, and the outcome of its first lookup if known.
struct Flow<'a, const W: usize> {
    hash: u64,
    key: &'a [u64; W],
    first: Option<Option<RuleId>>,
}
