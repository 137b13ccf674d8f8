//! The datapath for keys of `W` words: bursts in, answers out.
//!
//! ```text
//!   pass(burst):
//!     parse, extract and hash every packet
//!     microflow: prefetch sets; find candidates, prefetch keys and entries; confirm
//!     megaflow for the rest; what is found enters the microflow cache
//!     upcall for the rest, under the pipeline's read lock
//!     in the order of arrival: run the answer, count
//!     make room
//!   packets that recirculate make the next pass
//! ```
//!
//! 1. All packets of a call are answered at `version`, which changes only between calls.
//! 2. No entry is evicted between lookup and use. Room is made after the burst, so a cache may
//!    briefly exceed its capacity by one burst.
//! 3. Packets leave in the order of arrival.
//! 4. A packet and its copies together have [`MAX_PASSES`] passes, as in the reference.
//!    Otherwise copies that recirculate and are copied again could multiply without end. If
//!    fragments go on with the packet, there are as many times that number.

use std::sync::Arc;

use thalweg_classifier::Version;
use thalweg_packet::{
    BURST, Connection, FieldDescriptor, FrameError, Headers, Instant, Layout, Packet, Receipt,
    Shapes, standard,
};
use thalweg_pipeline::{Counters, Effect, Outbox, Pipeline, Walker};

use crate::config::{Config, MegaflowClassifier, Mode};
use crate::continuation::Continuations;
use crate::dependency::{Dependencies, Index};
use crate::entry::{Credit, Entries, EntryId, Program};
use crate::gate::Gate;
use crate::hand_flow::HandFlows;
use crate::history::Histories;
use crate::intern::{Interner, Shared};
use crate::ledger::{Ledger, Tally};
use crate::megaflow::{Arrival, Megaflow};
use crate::microflow::{Admission, Microflow};
use crate::record::Record;
use crate::scratch::Scratch;
use crate::statistics::{EvictReason, RefuseReason, Statistics};
use crate::thrift::Thrift;
use crate::watch::UpcallWatch;

/// How often one packet and its copies may be parsed and looked up.
const MAX_PASSES: u32 = thalweg_pipeline::MAX_PASSES as u32;

/// The answer to a packet that was not in a cache.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The answer of an entry.
    Entry(EntryId),
    /// An answer that is not remembered.
    Once(Program, Vec<Credit>),
}

/// Buffers for one burst, reused from burst to burst.
#[derive(Debug)]
pub(crate) struct Burst<const W: usize> {
    /// For [`BURST`] packets, in use or not; words beyond the layout's stay zero.
    pub(crate) headers: Vec<Headers>,
    pub(crate) keys: Vec<[u64; W]>,
    pub(crate) hashes: Vec<u64>,
    /// The index of each packet's origin among the packets of the call.
    pub(crate) origins: Vec<u32>,
    /// What a tracker said of each packet; empty on a first pass, before which it says nothing.
    connections: Vec<Connection>,
    candidates: Vec<Option<usize>>,
    pub(crate) found: Vec<Option<EntryId>>,
    /// Entries installed for packets of this burst.
    installed: Vec<EntryId>,
    /// Answers that are not remembered, each with its packet's index.
    once: Vec<(usize, Program, Vec<Credit>)>,
}

/// Caches for keys of `W` words.
#[derive(Debug)]
pub(crate) struct Core<const W: usize> {
    pub(crate) config: Config,
    pub(crate) layout: Arc<Layout>,
    pub(crate) fields: Arc<Vec<FieldDescriptor>>,
    pub(crate) version: Version,
    pub(crate) entries: Entries<W>,
    pub(crate) microflow: Microflow<W>,
    pub(crate) megaflow: Megaflow,
    pub(crate) effects: Interner<Effect>,
    pub(crate) credits: Interner<Credit>,
    pub(crate) continuations: Continuations,
    pub(crate) walker: Walker,
    /// What entries depend on, if the maintainer needs it.
    pub(crate) record: Record,
    pub(crate) histories: Histories,
    /// Counts at the caches' version.
    pub(crate) ledger: Ledger,
    /// Counts of rules, where packets are counted one by one.
    pub(crate) tally: Tally,
    /// Counts at the previous version.
    pub(crate) ledger_before: Ledger,
    /// Whether the caches have moved to their version while some entries still need repair.
    pub(crate) is_repairing: bool,
    /// Whether entries that are found may be of the previous version.
    pub(crate) are_others_old: bool,
    pub(crate) statistics: Statistics,
    /// Bytes of the lists shared by entries.
    pub(crate) list_bytes: usize,
    secrets: [u64; 8],
    shapes: Shapes<W>,
    /// Taken out during a pass.
    burst: Option<Box<Burst<W>>>,
    pub(crate) scratch: Scratch,
    /// Whether exact-match entries pay off, in computational flows.
    pub(crate) thrift: Thrift,
    /// Entries that lost their slot within the burst.
    pub(crate) leaving: Vec<(EntryId, u32, EvictReason)>,
    /// Reports of upcalls, as far as they are watched.
    pub(crate) watch: UpcallWatch,
    /// Flows in front of the caches, if some were put by hand.
    pub(crate) by_hand: Option<Arc<HandFlows>>,
    recirculating: Vec<(Ticket, Packet)>,
}

/// What accompanies a packet that is looked up again.
#[derive(Clone, Copy, Debug)]
struct Ticket {
    /// The number of its continuation.
    continuation: u32,
    /// The index of its origin among the packets of the call.
    origin: u32,
    /// How many fragments went on together with it.
    fragments: u32,
    /// What a tracker said of it.
    connection: Connection,
}

/// Why packets are looked up.
#[derive(Clone, Copy)]
enum Pass<'a> {
    /// They just came in; the first has this index among the packets of the call.
    First(usize),
    /// They recirculate, each with its ticket.
    Again(&'a [Ticket]),
}

impl<const W: usize> Core<W> {
    /// Creates empty caches. Holders of the `former` index see the new, empty record.
    pub(crate) fn new(config: &Config, pipeline: &Pipeline, former: Option<Index>) -> Core<W> {
        let layout = pipeline.layout().clone();
        assert!(
            layout.ingress_words() <= W,
            "keys of this layout have {W} words at most"
        );
        let microflow = &config.microflow;
        let needs_record = config.mode == Mode::Megaflows && config.maintainer.needs_dependencies();
        let index = needs_record.then(|| {
            let empty = Dependencies::new(pipeline.layout(), config);
            Index::with(empty, former)
        });
        // In that mode only the exact-match cache finds entries; an index would never be used.
        let mut megaflow = config.megaflow.clone();
        if config.mode == Mode::ComputationalFlows {
            megaflow.classifier = MegaflowClassifier::TupleSpace;
        }
        Core {
            fields: pipeline.fields().clone(),
            megaflow: Megaflow::new(&megaflow, &layout, config.seed),
            layout,
            version: pipeline.version(),
            entries: Entries::new(),
            microflow: Microflow::new(microflow.entries, microflow.admit_one_in, config.seed),
            effects: Interner::new(config.seed),
            credits: Interner::new(config.seed),
            continuations: Continuations::new(config.continuations, config.seed),
            walker: Walker::default(),
            record: Record::new(index),
            histories: Histories::new(config.seed),
            ledger: Ledger::default(),
            tally: Tally::default(),
            ledger_before: Ledger::default(),
            is_repairing: false,
            are_others_old: false,
            statistics: Statistics::default(),
            list_bytes: 0,
            secrets: secrets_of(config.seed),
            shapes: Shapes::default(),
            burst: Some(Box::new(Burst::new())),
            scratch: Scratch::default(),
            thrift: Thrift::default(),
            leaving: Vec::new(),
            watch: UpcallWatch::default(),
            by_hand: None,
            recirculating: Vec::new(),
            config: config.clone(),
        }
    }

    /// Forwards packets; see [`crate::Datapath::process`].
    #[inline]
    pub(crate) fn process(
        &mut self,
        packets: &mut Vec<Packet>,
        now: Instant,
        pipeline: &Gate<Pipeline>,
        outbox: &mut Outbox,
    ) {
        match self.by_hand.clone() {
            None => self.process_by_caches(packets, now, pipeline, outbox),
            Some(flows) => self.process_by_hand(&flows, packets, now, pipeline, outbox),
        }
    }

    /// Forwards packets by the caches.
    pub(crate) fn process_by_caches(
        &mut self,
        packets: &mut Vec<Packet>,
        now: Instant,
        pipeline: &Gate<Pipeline>,
        outbox: &mut Outbox,
    ) {
        let count = packets.len();
        outbox.now = now;
        self.statistics.packets += count as u64;
        if count <= BURST {
            self.pass(packets, Pass::First(0), now, pipeline, outbox);
        } else {
            let mut rest = packets.drain(..).peekable();
            let mut burst = Vec::with_capacity(BURST);
            let mut first = 0;
            while rest.peek().is_some() {
                burst.extend(rest.by_ref().take(BURST));
                self.pass(&mut burst, Pass::First(first), now, pipeline, outbox);
                first += BURST;
            }
        }
        if !self.recirculating.is_empty() {
            self.recirculate(count, now, pipeline, outbox);
        }
        if self.continuations.is_full() {
            self.forget_continuations();
        }
        let drops = std::mem::take(&mut outbox.drops);
        self.statistics.drops.add(&drops);
    }

    /// Makes room for continuations: evicts the entries that lead to one or resume one.
    ///
    /// No packet carries a number now, so all numbers can be reassigned.
    fn forget_continuations(&mut self) {
        for id in self.entries.ids() {
            let number = self
                .layout
                .get(&self.entries.key(id)[..], standard::RECIRC_ID);
            let leads_on = match &self.entries.get(id).program {
                Program::Run(effects) => effects.iter().any(Effect::recirculates),
                _ => false,
            };
            if leads_on || number.unwrap_or(0) != 0 {
                self.evict(id, EvictReason::OldContinuation);
            }
        }
        self.continuations.clear();
    }

    /// Looks packets up again until none recirculates.
    fn recirculate(
        &mut self,
        count: usize,
        now: Instant,
        pipeline: &Gate<Pipeline>,
        outbox: &mut Outbox,
    ) {
        // Passes of each packet of the call, with its copies, and the most that it may have.
        let mut passes = vec![(1, MAX_PASSES); count];
        while !self.recirculating.is_empty() {
            let mut waiting = std::mem::take(&mut self.recirculating);
            waiting.retain_mut(|(ticket, packet)| {
                let (passes, allowed) = &mut passes[ticket.origin as usize];
                *allowed = (*allowed).max(MAX_PASSES * ticket.fragments);
                if *passes >= *allowed {
                    self.statistics.count_refusal(RefuseReason::TooManyPasses);
                    outbox.pool.put(std::mem::take(packet));
                    return false;
                }
                *passes += 1;
                true
            });
            self.statistics.recirculations += waiting.len() as u64;
            let mut waiting = waiting.into_iter().peekable();
            while waiting.peek().is_some() {
                let (tickets, mut burst): (Vec<Ticket>, Vec<Packet>) =
                    waiting.by_ref().take(BURST).unzip();
                self.pass(&mut burst, Pass::Again(&tickets), now, pipeline, outbox);
            }
        }
    }

    /// Looks up each packet of a burst once, and runs the answers.
    fn pass(
        &mut self,
        packets: &mut Vec<Packet>,
        pass: Pass<'_>,
        now: Instant,
        pipeline: &Gate<Pipeline>,
        outbox: &mut Outbox,
    ) {
        let mut burst = self.burst.take().expect("a pass is not within a pass");
        self.parse(packets, pass, &mut burst, outbox);
        if self.config.mode == Mode::ComputationalFlows {
            let is_first = matches!(pass, Pass::First(_));
            self.compute(packets, &mut burst, is_first, now, pipeline, outbox);
            self.burst = Some(burst);
            return;
        }
        self.search(packets, &mut burst);
        let port = packets.first().map_or(0, |packet| packet.in_port().0);
        self.answer(packets, &mut burst, port, now, pipeline);
        self.prefetch_connections(packets, &burst, outbox);
        for (index, packet) in packets.drain(..).enumerate() {
            match burst.found[index] {
                Some(id) => self.execute(packet, index, &burst, id, now, outbox),
                None => self.execute_once(packet, index, &burst, now, outbox),
            }
            if !outbox.recirculated.is_empty() {
                self.wait_for_next_pass(burst.origins[index], outbox);
            }
        }
        self.mark_unproven(&burst);
        self.make_room();
        self.displace();
        self.burst = Some(burst);
    }

    /// Prefetches the connections in which the burst's packets will be tracked.
    fn prefetch_connections(&self, packets: &[Packet], burst: &Burst<W>, outbox: &Outbox) {
        let Some(tracker) = outbox.connections.tracker_made() else {
            return;
        };
        let tracked = packets.iter().enumerate().filter_map(|(index, packet)| {
            let zone = self.entries.get(burst.found[index]?).program.zone()?;
            Some((packet.bytes(), &burst.headers[index], zone))
        });
        tracker.prefetch(tracked);
    }

    pub(crate) fn wait_for_next_pass(&mut self, origin: u32, outbox: &mut Outbox) {
        let recirculated = outbox.recirculated.drain(..);
        self.recirculating.extend(recirculated.map(|again| {
            let ticket = Ticket {
                continuation: again.continuation,
                origin,
                fragments: again.fragments,
                connection: again.connection,
            };
            (ticket, again.packet)
        }));
    }

    /// Finds headers, keys and hashes; drops invalid frames.
    fn parse(
        &mut self,
        packets: &mut Vec<Packet>,
        pass: Pass<'_>,
        burst: &mut Burst<W>,
        outbox: &mut Outbox,
    ) {
        burst.clear();
        let (mut index, mut count) = (0, 0);
        packets.retain_mut(|packet| {
            let ticket = match pass {
                Pass::First(first) => Ticket {
                    continuation: 0,
                    origin: (first + index) as u32,
                    fragments: 1,
                    connection: Connection::NONE,
                },
                Pass::Again(tickets) => tickets[index],
            };
            index += 1;
            // Headers and key are built in place. Copying them as one large block, just
            // after they were written in small pieces, would stall the processor.
            let headers = &mut burst.headers[count];
            if let Err(error) = headers.read(packet.bytes()) {
                self.statistics.count_refusal(match error {
                    FrameError::Runt => RefuseReason::Runt,
                    FrameError::Giant => RefuseReason::Giant,
                });
                outbox.pool.put(std::mem::take(packet));
                return false;
            }
            let receipt = Receipt {
                in_port: packet.in_port().0,
                recirculation_id: ticket.continuation,
                connection: ticket.connection,
                packet_type: packet.packet_type(),
                tunnel: packet.tunnel(),
                ..Receipt::default()
            };
            let key = &mut burst.keys[count];
            self.layout
                .extract_like(&mut self.shapes, packet.bytes(), headers, &receipt, key);
            burst.hashes.push(hash_key(key, &self.secrets));
            burst.origins.push(ticket.origin);
            if let Pass::Again(_) = pass {
                burst.connections.push(ticket.connection);
            }
            count += 1;
            true
        });
    }

    /// Looks in both caches.
    fn search(&mut self, packets: &[Packet], burst: &mut Burst<W>) {
        let count = burst.hashes.len();
        if self.microflow.is_enabled() {
            self.search_microflows(burst);
        } else {
            burst.found.resize(count, None);
        }
        let Some(first) = burst.found.iter().position(Option::is_none) else {
            return;
        };
        if self.entries.len() == 0 {
            self.statistics.megaflow.misses +=
                burst.found.iter().filter(|found| found.is_none()).count() as u64;
            return;
        }
        let mut is_new = 0_u64;
        for (index, found) in burst.found.iter().enumerate().skip(first) {
            is_new |= u64::from(found.is_none()) << index;
        }
        let port = packets[0].in_port().0;
        let (keys, found) = (&burst.keys[..count], &mut burst.found);
        let (hashes, counters) = (&burst.hashes, &mut self.statistics.lookups);
        self.megaflow
            .lookup_burst(port, keys, hashes, found, &self.entries, counters);
        for index in first..count {
            if is_new >> index & 1 == 0 {
                continue;
            }
            match burst.found[index] {
                None => self.statistics.megaflow.misses += 1,
                Some(id) => {
                    self.statistics.megaflow.hits += 1;
                    self.remember_microflow(burst.hashes[index], &burst.keys[index], id);
                }
            }
        }
    }

    pub(crate) fn search_microflows(&mut self, burst: &mut Burst<W>) {
        for hash in &burst.hashes {
            self.microflow.prefetch_set(*hash);
        }
        for hash in &burst.hashes {
            burst
                .candidates
                .push(self.microflow.candidate(*hash, &self.entries));
        }
        let mut hits = 0;
        for (index, candidate) in burst.candidates.iter().enumerate() {
            let (hash, key) = (burst.hashes[index], &burst.keys[index]);
            let found = candidate
                .and_then(|candidate| self.microflow.confirm(candidate, hash, key, &self.entries));
            hits += u64::from(found.is_some());
            burst.found.push(found);
        }
        self.statistics.microflow.hits += hits;
        self.statistics.microflow.misses += burst.found.len() as u64 - hits;
    }

    fn remember_microflow(&mut self, hash: u64, key: &[u64; W], id: EntryId) {
        if !self.microflow.is_enabled() {
            return;
        }
        match self.microflow.insert(hash, key, id, &self.entries) {
            Admission::Admitted => self.statistics.microflow.insertions += 1,
            Admission::Refused => self.statistics.count_refusal(RefuseReason::NotAdmitted),
        }
    }

    /// Gets answers from the interpreter for packets that no cache could answer.
    fn answer(
        &mut self,
        packets: &[Packet],
        burst: &mut Burst<W>,
        port: u32,
        now: Instant,
        pipeline: &Gate<Pipeline>,
    ) {
        if burst.found.iter().all(Option::is_some) {
            return;
        }
        let pipeline = pipeline.read();
        for (index, packet) in packets.iter().enumerate() {
            if burst.found[index].is_some() {
                continue;
            }
            let key = &burst.keys[index];
            // An earlier packet of the burst may have installed the answer.
            let known = burst.installed.iter().copied();
            let known = known
                .into_iter()
                .find(|id| self.megaflow.covers(*id, key, &self.entries));
            let answer = match known {
                Some(id) => Answer::Entry(id),
                None => {
                    self.statistics.upcalls += 1;
                    let hash = burst.hashes[index];
                    let (packets, bytes) = packet.wire_counts();
                    let counts = (packets as u32, bytes as u32);
                    let answer = self.upcall(key, Arrival { port, hash, counts }, now, &pipeline);
                    self.note_upcall(packet, key, &answer);
                    answer
                }
            };
            match answer {
                Answer::Entry(id) => {
                    self.remember_microflow(burst.hashes[index], &burst.keys[index], id);
                    burst.found[index] = Some(id);
                    if known.is_none() {
                        burst.installed.push(id);
                    }
                }
                Answer::Once(program, credits) => burst.once.push((index, program, credits)),
            }
        }
    }

    /// Runs the answer of an entry, and counts.
    #[inline]
    fn execute(
        &mut self,
        packet: Packet,
        index: usize,
        burst: &Burst<W>,
        id: EntryId,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        let entry = self.entries.get_mut(id);
        let (packets, bytes) = packet.wire_counts();
        entry.counters.packets += packets;
        entry.counters.bytes += bytes;
        entry.used_at = now;
        entry.is_recent = true;
        let drops = &mut self.statistics.drops;
        let program = &entry.program;
        let (headers, connection) = (&burst.headers[index], burst.connection(index));
        program.run(packet, headers, connection, &self.fields, drops, outbox);
    }

    /// Runs an answer that is not remembered, and counts.
    fn execute_once(
        &mut self,
        packet: Packet,
        index: usize,
        burst: &Burst<W>,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        let answer = burst.once.iter().find(|(of, ..)| *of == index);
        let (_, program, credits) = answer.expect("every packet has an answer");
        let (packets, bytes) = packet.wire_counts();
        self.ledger.add(credits, Counters { packets, bytes }, now);
        let (headers, drops) = (&burst.headers[index], &mut self.statistics.drops);
        let connection = burst.connection(index);
        program.run(packet, headers, connection, &self.fields, drops, outbox);
    }

    /// Clears the second chance of entries that answered only one packet.
    ///
    /// Otherwise a scan, whose entries are all new, would halve the time that other entries
    /// have to be used.
    fn mark_unproven(&mut self, burst: &Burst<W>) {
        for id in &burst.installed {
            let entry = self.entries.get_mut(*id);
            entry.is_recent = entry.counters.packets > 1;
        }
    }

    /// Evicts entries until the cache is within its limits.
    fn make_room(&mut self) {
        let (entries, bytes) = (self.config.megaflow.entries, self.config.megaflow.bytes);
        while self.entries.len() > entries || self.used_bytes() > bytes {
            let Some(victim) = self.entries.victim() else {
                return;
            };
            self.evict(victim, EvictReason::Capacity);
        }
    }

    /// Evicts those of `count` entries, starting at number `from`, that no packet has used since
    /// `since`; returns where to continue.
    pub(crate) fn evict_idle(&mut self, from: u32, count: u32, since: Instant) -> Option<u32> {
        let numbers = self.entries.numbers();
        let end = from.saturating_add(count).min(numbers);
        for id in (from..end).map(EntryId) {
            if self.entries.is_there(id) && self.entries.get(id).used_at < since {
                self.evict(id, EvictReason::Idle);
            }
        }
        (end < numbers).then_some(end)
    }

    /// Bytes of entries and their index, as the limit counts them.
    pub(crate) fn used_bytes(&self) -> usize {
        // A slot of a half-full sub-table takes 16 bytes.
        let each = Entries::<W>::bytes_each() + 16 + self.config.megaflow.sample_bytes;
        self.entries.len() * each + self.list_bytes
    }

    /// Removes an entry from the caches; keeps its counts.
    pub(crate) fn evict(&mut self, id: EntryId, reason: EvictReason) {
        self.megaflow.remove(id, &self.entries);
        self.record.remove(id);
        self.histories.forget(id);
        let is_old = self.are_others_old || self.entries.is_refused(id);
        let entry = self.entries.remove(id);
        if self.entries.len() == 0 {
            self.megaflow.drop_empty();
        }
        let ledger = match is_old {
            true => &mut self.ledger_before,
            false => &mut self.ledger,
        };
        ledger.add(&entry.credits, entry.counters, entry.used_at);
        self.forget_lists(entry.program, entry.credits);
        self.statistics.count_eviction(reason);
    }

    /// Compares the byte count of lists with the lists.
    pub(crate) fn verify_lists(&self) -> Result<(), String> {
        self.effects.verify()?;
        self.credits.verify()?;
        let credits = self.credits.lists().map(Shared::list_bytes);
        let effects = self.effects.lists().map(|effects| {
            let boxes = effects.iter().map(Effect::heap_bytes);
            effects.list_bytes() + boxes.sum::<usize>()
        });
        match credits.chain(effects).sum::<usize>() == self.list_bytes {
            true => Ok(()),
            false => Err("lists take other bytes than their account says".to_owned()),
        }
    }

    /// Counts the bytes of an entry's lists, if no other entry has them.
    pub(crate) fn account_lists(&mut self, program: &Program, credits: &Shared<Credit>) {
        self.list_bytes += unshared_bytes(program, credits);
    }

    /// Stops counting an entry's lists, if no other entry has them. The caller must already
    /// have dropped its own references, as they would count as another entry's.
    pub(crate) fn forget_lists(&mut self, program: Program, credits: Shared<Credit>) {
        self.list_bytes -= unshared_bytes(&program, &credits);
        self.credits.release(&credits);
        if let Program::Run(effects) = &program {
            self.effects.release(effects);
        }
    }
}

/// Bytes of those lists that only the interner and the caller hold.
fn unshared_bytes(program: &Program, credits: &Shared<Credit>) -> usize {
    let mut bytes = 0;
    if credits.holders() == 2 {
        bytes += credits.list_bytes();
    }
    if let Program::Run(effects) = program
        && effects.holders() == 2
    {
        let boxes = effects.iter().map(Effect::heap_bytes);
        bytes += effects.list_bytes() + boxes.sum::<usize>();
    }
    bytes
}

/// The secrets for hashing whole keys.
fn secrets_of(seed: u64) -> [u64; 8] {
    let secret = |index| thalweg_classifier::hash::hash_words(seed, &[index as u64]);
    std::array::from_fn(secret)
}

/// Hashes a whole key: the sum of folded products of its words in pairs.
///
/// Unlike [`thalweg_classifier::hash::WordHash`] it does not work word by word, so its
/// multiplications do not wait for each other. A word equal to its secret makes the product
/// zero. So both words of the pair are added to the sum once more, and neither hides the
/// other.
#[inline]
fn hash_key<const W: usize>(key: &[u64; W], secrets: &[u64; 8]) -> u64 {
    let mut sum = secrets[0];
    for (index, pair) in key.chunks_exact(2).enumerate() {
        let left = pair[0] ^ secrets[(2 * index) % 8].rotate_left(index as u32);
        let right = pair[1] ^ secrets[(2 * index + 1) % 8].rotate_left(index as u32);
        let product = u128::from(left) * u128::from(right);
        let folded = product as u64 ^ (product >> 64) as u64;
        sum = sum.wrapping_add(folded ^ left ^ right.rotate_left(32));
    }
    let last = u128::from(sum ^ secrets[7]) * u128::from(secrets[3] | 1);
    last as u64 ^ (last >> 64) as u64
}

impl<const W: usize> Burst<W> {
    fn new() -> Burst<W> {
        Burst {
            headers: vec![Headers::default(); BURST],
            keys: vec![[0; W]; BURST],
            hashes: Vec::new(),
            origins: Vec::new(),
            connections: Vec::new(),
            candidates: Vec::new(),
            found: Vec::new(),
            installed: Vec::new(),
            once: Vec::new(),
        }
    }

    /// What a tracker said of a packet of the burst.
    #[inline]
    pub(crate) fn connection(&self, index: usize) -> &Connection {
        static NONE: Connection = Connection::NONE;
        self.connections.get(index).unwrap_or(&NONE)
    }

    fn clear(&mut self) {
        self.hashes.clear();
        self.origins.clear();
        self.connections.clear();
        self.candidates.clear();
        self.found.clear();
        self.installed.clear();
        self.once.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_word_that_is_its_secret_does_not_hide_the_other() {
        let secrets = secrets_of(3);
        let rotated = |word: usize| secrets[word % 8].rotate_left(word as u32 / 2);
        for word in 0..16 {
            let key = |other| {
                let mut key = [7; 16];
                (key[word], key[word ^ 1]) = (rotated(word), other);
                key
            };
            let hashes = (0..1_000).map(|other| hash_key(&key(other), &secrets));
            assert_eq!(hashes.collect::<HashSet<u64>>().len(), 1_000, "word {word}");
        }
    }
}
