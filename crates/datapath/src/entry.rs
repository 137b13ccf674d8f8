//! Entries: one remembered answer each.
//!
//! The slab has two arrays side by side: the data of every hit (generation, effects,
//! counters), one cache line per entry, and the keys. An entry's number is reused after
//! eviction. Its generation is not, so that a holder of both can tell.
//!
//! 1. A generation stands for one region: one key and mask. Effects may be repaired under it;
//!    a microflow that points to the entry then uses the new effects.
//! 2. Counters of an entry belong to its current credits; before credits change, the counters
//!    are gathered.
//! 3. An entry affected by a change is marked while the version is still the old one, and is
//!    found as before. When the version moves, the mark is refused: from then on no marked
//!    entry is found. This takes constant time.

use std::ops::Deref;

use thalweg_packet::{Connection, FieldDescriptor, Headers, Instant, Packet, PortId};
use thalweg_pipeline::{
    BridgeId, Counters, DropReason, Drops, Effect, GroupId, MirrorId, Outbox, RuleId, StepKind,
    TableId, Trace, run,
};

use crate::intern::Shared;

/// An entry's number in its cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EntryId(pub u32);

/// What an entry's packets are credited to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Credit {
    /// A rule that matched.
    Rule(RuleId),
    /// A table in which nothing matched.
    Miss(TableId),
    /// A bridge, and whether a table of it sent packets without a rule to controllers.
    Unmatched(BridgeId, bool),
    /// A table whose bridge drops fragments.
    Fragment(TableId),
    /// A group, and the position of the chosen bucket.
    Bucket(GroupId, Option<u32>),
    /// A patch: the end that sent, and the one that received.
    Patch(PortId, PortId),
    /// A mirror.
    Mirror(MirrorId),
}

impl Credit {
    /// The credits of a walk, one for each time it met something.
    pub(crate) fn each(trace: &Trace) -> impl Iterator<Item = Credit> + '_ {
        let credit = |kind| match kind {
            StepKind::Lookup {
                rule: Some(rule), ..
            } => Some(Credit::Rule(rule)),
            StepKind::Lookup { table, rule: None } => Some(Credit::Miss(table)),
            StepKind::Unmatched {
                bridge,
                to_controller,
            } => Some(Credit::Unmatched(bridge, to_controller)),
            StepKind::Fragment { table } => Some(Credit::Fragment(table)),
            StepKind::Bucket { group, bucket } => Some(Credit::Bucket(group, bucket)),
            StepKind::Patch { from, to } => Some(Credit::Patch(from, to)),
            StepKind::Mirror(mirror) => Some(Credit::Mirror(mirror)),
            StepKind::Station { .. } | StepKind::ActionSet | StepKind::Resumption { .. } => None,
        };
        trace.kinds().filter_map(credit)
    }

    /// The same as a list.
    pub(crate) fn of(trace: &Trace) -> Vec<Credit> {
        let mut credits = Vec::with_capacity(trace.len());
        credits.extend(Credit::each(trace));
        credits
    }
}

impl Credit {
    /// The rules among the credits.
    pub(crate) fn rules(credits: &[Credit]) -> impl Iterator<Item = RuleId> {
        credits.iter().filter_map(|credit| match credit {
            Credit::Rule(rule) => Some(*rule),
            _ => None,
        })
    }
}

/// What an entry does with its packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Program {
    /// Only counts the packet as dropped.
    Drop(DropReason),
    /// Sends the packet unchanged: the form of most entries.
    Send(PortId),
    /// Runs effects.
    Run(Shared<Effect>),
}

impl Program {
    /// The program for these effects; `keep` turns the list into its shared form.
    pub(crate) fn of<L: Deref<Target = [Effect]>>(
        effects: L,
        keep: impl FnOnce(L) -> Shared<Effect>,
    ) -> Program {
        match &effects[..] {
            [Effect::Drop { reason, copies: 1 }] => Program::Drop(*reason),
            [Effect::Output(port)] => Program::Send(*port),
            _ => Program::Run(keep(effects)),
        }
    }

    /// Whether it runs these effects.
    pub(crate) fn runs(&self, effects: &[Effect]) -> bool {
        match self {
            Program::Drop(reason) => {
                let copies = 1;
                let reason = *reason;
                *effects == [Effect::Drop { reason, copies }]
            }
            Program::Send(port) => *effects == [Effect::Output(*port)],
            Program::Run(list) => list[..] == *effects,
        }
    }

    /// The zone in which it tracks packets first.
    pub(crate) fn zone(&self) -> Option<u16> {
        let Program::Run(effects) = self else {
            return None;
        };
        effects.iter().find_map(|effect| match effect {
            Effect::Track(request) => Some(request.zone),
            _ => None,
        })
    }

    /// Its effects, as a list.
    pub(crate) fn effects(&self) -> Vec<Effect> {
        match self {
            Program::Drop(reason) => vec![Effect::Drop {
                reason: *reason,
                copies: 1,
            }],
            Program::Send(port) => vec![Effect::Output(*port)],
            Program::Run(effects) => effects.to_vec(),
        }
    }

    /// Runs the program on a packet, of which a tracker said `connection`.
    // Every packet comes here, so it must not be a call of its own.
    #[inline(always)]
    pub(crate) fn run(
        &self,
        packet: Packet,
        headers: &Headers,
        connection: &Connection,
        fields: &[FieldDescriptor],
        drops: &mut Drops,
        outbox: &mut Outbox,
    ) {
        match self {
            Program::Send(port) => outbox.sent.push((*port, packet)),
            Program::Drop(reason) => {
                drops.count(*reason, packet.wire_counts().0);
                outbox.pool.put(packet);
            }
            Program::Run(effects) => {
                run(effects, fields, packet, *headers, connection, outbox);
            }
        }
    }
}

/// One remembered answer, without its key: one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Entry {
    pub(crate) program: Program,
    pub(crate) counters: Counters,
    pub(crate) used_at: Instant,
    /// The entry's sub-table; [`NO_SUBTABLE`] if the slot is free.
    pub(crate) subtable: u32,
    pub(crate) generation: u32,
    /// The epoch of its answer; always the same if a maintainer keeps answers right.
    pub(crate) epoch: u32,
    pub(crate) credits: Shared<Credit>,
    /// Whether it was used since the second-chance hand last passed.
    pub(crate) is_recent: bool,
    /// Marks it as affected by a change, until it is repaired.
    pub(crate) mark: Mark,
}

/// Whether a change affects an entry.
///
/// Two marks alternate, since all entries of one change are repaired before the next is
/// prepared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    /// No change affects it.
    Unmarked,
    One,
    Other,
}

impl Mark {
    /// The mark of the next change.
    fn next(self) -> Mark {
        match self {
            Mark::One => Mark::Other,
            _ => Mark::One,
        }
    }
}

/// Most used entries passed over for one victim: if all were used, a burst must not wait for a
/// full round of the hand.
const CHANCES: u32 = 256;

const _: () = assert!(std::mem::size_of::<Entry>() == 64);

/// Marks a slot without an entry.
pub(crate) const NO_SUBTABLE: u32 = u32::MAX;

/// All that an entry has counted since it was made; not read when packets pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lifetime {
    /// The counts taken from the entry's own counters.
    pub(crate) taken: Counters,
    /// The counts of the packet for which it was made: one frame, or its segments.
    pub(crate) first: (u32, u32),
}

/// Entries by number, with their keys of `W` words.
#[derive(Debug)]
pub(crate) struct Entries<const W: usize> {
    hot: Vec<Entry>,
    keys: Vec<[u64; W]>,
    lifetimes: Vec<Lifetime>,
    /// The beginnings of the packets for which entries were made; empty if none is kept.
    samples: Vec<Box<[u8]>>,
    free: Vec<EntryId>,
    /// The position of the second-chance hand.
    hand: usize,
    count: usize,
    /// The mark that is refused (invariant 3); at the start no entry has it.
    refused: Mark,
    /// Entries of other epochs are not current.
    epoch: u32,
}

impl<const W: usize> Entries<W> {
    pub(crate) fn new() -> Entries<W> {
        Entries {
            hot: Vec::new(),
            keys: Vec::new(),
            lifetimes: Vec::new(),
            samples: Vec::new(),
            free: Vec::new(),
            hand: 0,
            count: 0,
            refused: Mark::Other,
            epoch: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    #[inline]
    pub(crate) fn get(&self, id: EntryId) -> &Entry {
        &self.hot[id.0 as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: EntryId) -> &mut Entry {
        &mut self.hot[id.0 as usize]
    }

    #[inline]
    pub(crate) fn key(&self, id: EntryId) -> &[u64; W] {
        &self.keys[id.0 as usize]
    }

    /// Whether the entry still has this generation, and its answer is right.
    #[inline]
    pub(crate) fn is_current(&self, id: EntryId, generation: u32) -> bool {
        let entry = &self.hot[id.0 as usize];
        entry.generation == generation && entry.mark != self.refused && entry.epoch == self.epoch
    }

    /// The epoch of answers that are right.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Invalidates all answers so far, in constant time.
    pub(crate) fn begin_epoch(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Whether an entry's answer is of an earlier version, so that it must not be found.
    #[inline]
    pub(crate) fn is_refused(&self, id: EntryId) -> bool {
        self.hot[id.0 as usize].mark == self.refused
    }

    /// Marks an entry as affected by the change being prepared; returns its generation if it
    /// was not marked before.
    pub(crate) fn mark(&mut self, id: EntryId) -> Option<u32> {
        let mark = self.refused.next();
        let entry = &mut self.hot[id.0 as usize];
        let is_news = entry.mark != mark && entry.subtable != NO_SUBTABLE;
        entry.mark = mark;
        is_news.then_some(entry.generation)
    }

    /// Refuses the entries that are marked, in constant time.
    pub(crate) fn refuse_marked(&mut self) {
        self.refused = self.refused.next();
    }

    /// Records that an entry's answer is right again.
    pub(crate) fn unmark(&mut self, id: EntryId) {
        self.hot[id.0 as usize].mark = Mark::Unmarked;
    }

    /// Moves an entry to another sub-table: a new region with the same key.
    pub(crate) fn renew(&mut self, id: EntryId, subtable: u32) {
        let entry = self.get_mut(id);
        entry.generation = entry.generation.wrapping_add(1);
        (entry.subtable, entry.mark) = (subtable, Mark::Unmarked);
    }

    /// Whether an entry with this number and generation exists.
    pub(crate) fn is_taken(&self, id: EntryId, generation: u32) -> bool {
        let entry = &self.hot[id.0 as usize];
        entry.subtable != NO_SUBTABLE && entry.generation == generation
    }

    /// The number of slots: entries are numbered from 0, with gaps.
    pub(crate) fn numbers(&self) -> u32 {
        self.hot.len() as u32
    }

    /// Whether an entry with this number exists.
    pub(crate) fn is_there(&self, id: EntryId) -> bool {
        let entry = self.hot.get(id.0 as usize);
        entry.is_some_and(|entry| entry.subtable != NO_SUBTABLE)
    }

    #[inline]
    pub(crate) fn prefetch(&self, id: EntryId) {
        thalweg_classifier::simd::prefetch(&self.hot, id.0 as usize);
    }

    #[inline]
    pub(crate) fn prefetch_key(&self, id: EntryId) {
        thalweg_classifier::simd::prefetch(&self.keys, id.0 as usize);
    }

    /// Takes what an entry has counted since this was last called.
    pub(crate) fn take_counters(&mut self, id: EntryId) -> Counters {
        let counters = std::mem::take(&mut self.get_mut(id).counters);
        self.lifetimes[id.0 as usize].taken.add(counters);
        counters
    }

    /// All that an entry has counted since it was made, without what its counters have.
    pub(crate) fn lifetime(&self, id: EntryId) -> Lifetime {
        self.lifetimes[id.0 as usize]
    }

    /// Whether no packet was counted for an entry yet.
    pub(crate) fn is_unused(&self, id: EntryId) -> bool {
        let counted = self.lifetime(id).taken.packets + self.get(id).counters.packets;
        counted == 0
    }

    /// The beginning of the packet for which an entry was made; empty if it is not kept.
    pub(crate) fn sample(&self, id: EntryId) -> &[u8] {
        let sample = self.samples.get(id.0 as usize);
        sample.map_or(&[], |sample| sample)
    }

    /// Keeps the beginning of the packet for which an entry was made.
    pub(crate) fn keep_sample(&mut self, id: EntryId, bytes: &[u8]) {
        let place = id.0 as usize;
        if self.samples.len() <= place {
            self.samples.resize_with(self.hot.len(), Box::default);
        }
        self.samples[place] = bytes.into();
    }

    /// Adds an entry made for a packet that counts `first` (packets, bytes), with a new generation.
    pub(crate) fn insert(&mut self, key: [u64; W], mut entry: Entry, first: (u32, u32)) -> EntryId {
        self.count += 1;
        let lifetime = Lifetime {
            taken: Counters::default(),
            first,
        };
        match self.free.pop() {
            Some(id) => {
                let place = id.0 as usize;
                entry.generation = self.hot[place].generation.wrapping_add(1);
                self.hot[place] = entry;
                self.keys[place] = key;
                self.lifetimes[place] = lifetime;
                id
            }
            None => {
                entry.generation = 0;
                self.hot.push(entry);
                self.keys.push(key);
                self.lifetimes.push(lifetime);
                EntryId(self.hot.len() as u32 - 1)
            }
        }
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, id: EntryId) -> Entry {
        let hot = self.get_mut(id);
        assert!(hot.subtable != NO_SUBTABLE, "the entry is there");
        let generation = hot.generation.wrapping_add(1);
        let empty = Entry {
            program: Program::Drop(DropReason::Action),
            counters: Counters::default(),
            used_at: Instant::ZERO,
            subtable: NO_SUBTABLE,
            generation,
            epoch: 0,
            credits: Vec::new().into(),
            is_recent: false,
            mark: Mark::Unmarked,
        };
        let entry = std::mem::replace(hot, empty);
        if let Some(sample) = self.samples.get_mut(id.0 as usize) {
            *sample = Box::default();
        }
        self.free.push(id);
        self.count -= 1;
        entry
    }

    /// The numbers of all entries.
    pub(crate) fn ids(&self) -> impl Iterator<Item = EntryId> + use<W> {
        let taken: Vec<EntryId> = (0..self.hot.len() as u32)
            .map(EntryId)
            .filter(|id| self.get(*id).subtable != NO_SUBTABLE)
            .collect();
        taken.into_iter()
    }

    /// The entry to evict for room: the next one not used since the hand last passed, or the
    /// last of [`CHANCES`] that were used.
    pub(crate) fn victim(&mut self) -> Option<EntryId> {
        let mut used = 0;
        // Slots without an entry do not count; few exist when room is needed.
        for _ in 0..self.hot.len() {
            self.hand = (self.hand + 1) % self.hot.len();
            let entry = &mut self.hot[self.hand];
            if entry.subtable == NO_SUBTABLE {
                continue;
            }
            if !std::mem::take(&mut entry.is_recent) || used == CHANCES {
                return Some(EntryId(self.hand as u32));
            }
            used += 1;
        }
        None
    }

    /// Bytes of memory of all entries, including free slots.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.hot.capacity() * std::mem::size_of::<Entry>()
            + self.keys.capacity() * std::mem::size_of::<[u64; W]>()
            + self.lifetimes.capacity() * std::mem::size_of::<Lifetime>()
            + self.samples.capacity() * std::mem::size_of::<Box<[u8]>>()
            + self
                .samples
                .iter()
                .map(|sample| sample.len())
                .sum::<usize>()
            + self.free.capacity() * std::mem::size_of::<EntryId>()
    }

    /// Bytes of memory per entry.
    pub(crate) const fn bytes_each() -> usize {
        std::mem::size_of::<Entry>()
            + std::mem::size_of::<[u64; W]>()
            + std::mem::size_of::<Lifetime>()
    }
}
