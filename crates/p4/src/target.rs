//! Runs a program: packets in, packets out, as on simple_switch.
//!
//! ```text
//!   receive -> parse -> ingress -+-> clone of the packet as it came in ----------+
//!      ^                         +-> digest                                      |
//!      |                         +-> resubmit: begin anew as it came in          v
//!      |                         +-> multicast, or one port, or the end ------> egress
//!      |                                                                         |
//!      +---- recirculate: begin anew as it would leave <--- deparse <------------+--> clone
//!                                                             |
//!                                                             +--> leaves by its port
//! ```
//!
//! Everything that one packet leads to is done before the next packet. The order is that of
//! simple_switch's queues: a clone before its original, copies of a group in the group's order,
//! and a packet that starts over after everything already under way. Queues have no length: the
//! queueing metadata says that nothing waited.
//!
//! Time and chance come from the caller. The same packets at the same times have the same
//! outcome.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use thalweg_classifier::ClassifierKind;
use thalweg_packet::Instant;

use crate::cache::behavior::{BehaviorCache, BehaviorConfig, BehaviorCounts, Ended, Look, Unfit};
use crate::cache::traversal::{Cache, CacheConfig, CacheStatistics};
use crate::program::Program;
use crate::program::control::Pipeline;
use crate::program::cost::COPIED_WORD;
use crate::program::ids::FieldListId;
use crate::state::{BatchError, State, Update, WriteError};
use thalweg_classifier::{BuiltIndex, IndexJob};

use crate::training::TargetOwner;

use crate::run::engine::{Stop, TraceStep, Walk, spend};
use crate::run::frame::{Frame, Wishes};
use crate::run::observer::Unobserved;
use crate::run::outcome::{COPIES_MAX, Counts, DropReason, Fault, Outbox, PASSES_MAX, WORK_MAX};

/// The options of a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The port that `mark_to_drop` sends to.
    pub drop_port: u32,
    /// Seed of the program's `random` primitive.
    pub seed: u64,
    /// Seed of the hash functions of tables and caches; it does not affect outcomes.
    pub index_seed: u64,
    /// The classifier of tables.
    pub classifier: ClassifierKind,
    /// Maximum work of one packet, including its copies and passes: see [`WORK_MAX`].
    pub work_max: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            drop_port: 511,
            seed: 1,
            index_seed: 1,
            classifier: ClassifierKind::default(),
            work_max: WORK_MAX,
        }
    }
}

/// Packets between two slices of index maintenance.
const TEND_EVERY: u64 = 1_024;

/// Values of `standard_metadata.instance_type`.
mod instance {
    pub(super) const NORMAL: u64 = 0;
    pub(super) const INGRESS_CLONE: u64 = 1;
    pub(super) const EGRESS_CLONE: u64 = 2;
    pub(super) const RECIRCULATED: u64 = 4;
    pub(super) const REPLICATED: u64 = 5;
    pub(super) const RESUBMITTED: u64 = 6;
}

/// A program with its state, and the buffers for packets.
#[derive(Debug)]
pub struct Target {
    program: Arc<Program>,
    /// Entries, counters and everything else that changes.
    state: State,
    cache: Option<Box<Cache>>,
    config: Config,
    counts: Counts,
    random: Pcg64Mcg,
    queue: VecDeque<Work>,
    #[expect(
        clippy::vec_box,
        reason = "a box moves from list to queue; a frame would be copied"
    )]
    spare: Vec<Box<Frame>>,
    wide: Vec<u64>,
    input: Vec<u8>,
    again: Vec<u8>,
    start: Option<Instant>,
    copies: u32,
    /// Work that the current packet may still do.
    work_left: u64,
    behaviors: Option<Box<BehaviorCache>>,
}

/// A pass that a packet still has to make.
#[derive(Debug)]
enum Work {
    Ingress(Box<Frame>),
    /// With the port it leaves by.
    Egress(Box<Frame>, u32),
}

impl Target {
    /// Creates a target with the program's own entries only.
    ///
    /// # Errors
    /// Fails if an entry of the program is invalid.
    pub fn new(program: Arc<Program>, config: Config) -> Result<Target, WriteError> {
        Ok(Target {
            state: State::new(&program, config.classifier, config.index_seed)?,
            cache: None,
            program,
            config,
            counts: Counts::default(),
            random: Pcg64Mcg::seed_from_u64(config.seed),
            queue: VecDeque::new(),
            spare: Vec::new(),
            wide: Vec::new(),
            input: Vec::new(),
            again: Vec::new(),
            start: None,
            copies: 0,
            work_left: config.work_max,
            behaviors: None,
        })
    }

    /// The seed of the hash functions of its tables and caches.
    pub fn index_seed(&self) -> u64 {
        self.config.index_seed
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The target's counters.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Does all updates, in order, or none of them.
    ///
    /// # Errors
    /// Returns the first update that fails, and why.
    pub fn write(&mut self, updates: &[Update], now: Instant) -> Result<(), BatchError> {
        let is_of_counts = |update: &Update| {
            matches!(
                update,
                Update::ModifyEntry(..) | Update::SetEntryCounter(..) | Update::SetCounter(..)
            )
        };
        if updates.iter().any(is_of_counts) {
            self.settle();
        }
        let changes = self.state.write_noting(&self.program, updates, now)?;
        if let Some(cache) = &mut self.cache {
            cache.repair(&self.program, &mut self.state, &changes);
        }
        if let Some(cache) = &mut self.behaviors {
            cache.handle_change(&self.program, updates);
        }
        Ok(())
    }

    /// Starts an empty cache of hot behaviours, or with `None` turns it off.
    pub fn cache_behaviors(&mut self, config: Option<BehaviorConfig>) {
        let cache = |config| BehaviorCache::new(&self.program, config, self.config.index_seed);
        self.behaviors = config.map(|config| Box::new(cache(config)));
    }

    /// The counters of the behaviour cache, if it is on.
    pub fn behavior_counts(&self) -> Option<&BehaviorCounts> {
        self.behaviors.as_ref().map(|cache| &cache.counts)
    }

    /// Number of cached behaviours.
    pub fn behavior_count(&self) -> usize {
        self.behaviors.as_ref().map_or(0, |cache| cache.len())
    }

    /// Bits of the keys of behaviours in ingress and in egress; 0 for a pipeline without a
    /// cache.
    pub fn behavior_key_bits(&self) -> [u32; 2] {
        self.behaviors
            .as_ref()
            .map_or([0; 2], |cache| cache.key_bits())
    }

    /// Sets the count above which a behaviour is hot.
    pub fn set_behavior_threshold(&mut self, threshold: u16) {
        if let Some(cache) = &mut self.behaviors {
            cache.set_threshold(threshold);
        }
    }

    /// Handles up to `reports` waiting reports. Returns how many behaviours were installed.
    pub fn install(&mut self, reports: usize) -> usize {
        self.behaviors
            .as_mut()
            .map_or(0, |cache| cache.install(reports))
    }

    /// The current state: entries, counters and everything else that changes.
    pub fn state(&mut self) -> &State {
        self.settle();
        &self.state
    }

    /// Starts an empty cache of traversals, or with `None` turns it off.
    pub fn cache_traversals(&mut self, config: Option<CacheConfig>) {
        self.settle();
        let cache = |config| Cache::new(&self.program, config, self.config.index_seed);
        self.cache = config.map(|config| Box::new(cache(config)));
    }

    /// Records one in `one_in` keys that miss for the first time, as
    /// [`CacheConfig::record_one_in`]. With 0 the remembered traversals are used and none are
    /// added.
    pub fn record_traversals(&mut self, one_in: u32) {
        if let Some(cache) = &mut self.cache {
            cache.set_record_one_in(one_in);
        }
    }

    /// The traversal cache's counters, if it is on.
    pub fn cache_statistics(&self) -> Option<&CacheStatistics> {
        self.cache.as_ref().map(|cache| &cache.statistics)
    }

    /// Compares every cached segment with what the interpreter would do now. For tests: it
    /// costs a recording per segment.
    ///
    /// # Errors
    /// Says what differs.
    pub fn check_cache(&mut self, now: Instant) -> Result<(), String> {
        let Some(cache) = &mut self.cache else {
            return Ok(());
        };
        let at = (now, self.config.drop_port);
        cache.check(&self.program, &mut self.state, &self.random, at)
    }

    /// Credits the packets that cached segments have counted.
    fn settle(&mut self) {
        if let Some(cache) = &mut self.cache {
            cache.settle(&mut self.state.tables, &mut self.state.cells);
        }
    }

    /// Runs a packet with everything it leads to; appends the results to the outbox.
    pub fn receive(&mut self, port: u32, bytes: &[u8], now: Instant, outbox: &mut Outbox) {
        self.handle(port, bytes, now, outbox, None);
    }

    /// The same, with a trace of what the packet met.
    pub fn trace(
        &mut self,
        port: u32,
        bytes: &[u8],
        now: Instant,
        outbox: &mut Outbox,
    ) -> Vec<TraceStep> {
        let mut steps = Vec::new();
        self.handle(port, bytes, now, outbox, Some(&mut steps));
        steps
    }

    fn handle(
        &mut self,
        port: u32,
        bytes: &[u8],
        now: Instant,
        outbox: &mut Outbox,
        mut steps: Option<&mut Vec<TraceStep>>,
    ) {
        self.start.get_or_insert(now);
        if let Some(cache) = &mut self.behaviors {
            cache.install_some();
        }
        if self.counts.received.is_multiple_of(TEND_EVERY) {
            self.tend();
        }
        self.counts.received += 1;
        self.copies = 0;
        self.work_left = self.config.work_max;
        let program = self.program.clone();
        let mut frame = self.spare.pop().unwrap_or_default();
        frame.begin(&program, bytes);
        frame.ingress_port = port;
        frame.passes = 1;
        self.stamp_arrival(&mut frame, now);
        self.queue.push_back(Work::Ingress(frame));
        while let Some(work) = self.queue.pop_front() {
            let (frame, outcome) = match work {
                Work::Ingress(mut frame) => {
                    let outcome = self.ingress(&program, &mut frame, now, outbox, &mut steps);
                    match outcome {
                        Ok(Some(port)) => {
                            self.queue.push_back(Work::Egress(frame, port));
                            continue;
                        }
                        Ok(None) => (frame, Ok(())),
                        Err(stop) => (frame, Err(stop)),
                    }
                }
                Work::Egress(mut frame, port) => {
                    let outcome = self.egress(&program, &mut frame, port, now, outbox, &mut steps);
                    (frame, outcome)
                }
            };
            if let Err(Stop(reason)) = outcome {
                self.counts.drop(reason);
                if let Some(steps) = &mut steps {
                    steps.push(TraceStep::Dropped(reason));
                }
            }
            self.spare.push(frame);
        }
    }

    /// Does a slice of index maintenance for tables and the cache.
    fn tend(&mut self) {
        self.state.tend();
        if let Some(cache) = &mut self.cache {
            cache.tend();
        }
    }

    /// Takes a long training job for the tables' or the cache's indexes, if there is one. The
    /// caller runs it, here or on another thread, and brings the result back.
    pub fn take_training(&mut self) -> Option<IndexJob<TargetOwner>> {
        let of_cache = || self.cache.as_mut()?.take_training();
        self.state.take_training().or_else(of_cache)
    }

    /// Installs the result of a training job, in constant time. The result for a discarded
    /// cache is dropped.
    pub fn install_training(&mut self, index: BuiltIndex<TargetOwner>) {
        let other = self.state.install(index);
        if let (Some(index), Some(cache)) = (other, &mut self.cache) {
            cache.install(index);
        }
    }

    /// Reports that taken jobs will not come back, so that they are offered again.
    pub fn forget_training(&mut self) {
        self.state.forget_training();
        if let Some(cache) = &mut self.cache {
            cache.forget_training();
        }
    }

    /// Runs all waiting training jobs here and now.
    pub fn train(&mut self) {
        while let Some(training) = self.take_training() {
            self.install_training(training.run());
        }
    }

    fn micros(&self, now: Instant) -> u64 {
        let elapsed = now - self.start.unwrap_or(now);
        u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
    }

    /// Sets the metadata of an arriving packet.
    fn stamp_arrival(&self, frame: &mut Frame, now: Instant) {
        let standard = &self.program.standard;
        let (port, length) = (frame.ingress_port.into(), frame.length_bytes as u64);
        let words = &mut frame.words;
        let values = [
            (standard.ingress_port, port),
            (standard.packet_length, length),
            (standard.instance_type, instance::NORMAL),
            (standard.ingress_global_timestamp, self.micros(now)),
        ];
        for (spot, value) in values {
            if let Some(spot) = spot {
                spot.set(words, value);
            }
        }
    }

    /// Runs the parser, ingress and what follows. Returns the port if the packet goes on to
    /// one.
    fn ingress(
        &mut self,
        program: &Program,
        frame: &mut Frame,
        now: Instant,
        outbox: &mut Outbox,
        steps: &mut Option<&mut Vec<TraceStep>>,
    ) -> Result<Option<u32>, Stop> {
        let standard = &program.standard;
        let mut engine = self.engine(program, now, steps.as_deref_mut());
        engine.note(|| TraceStep::Pass(None));
        engine.spend(program.costs.arrival + frame.packet().len() as u64 / 8)?;
        engine.parse_and_check(frame)?;
        self.pass(program, true, frame, now, steps)?;
        let wishes = std::mem::take(&mut frame.wishes);
        // These two stay with the packet until it has passed egress.
        frame.wishes.recirculate = wishes.recirculate;
        frame.wishes.truncate_bytes = wishes.truncate_bytes;
        if let Some((session, list)) = wishes.clone {
            self.clone_at_ingress(program, frame, session, list, now)?;
        }
        if let Some(list) = wishes.digest {
            spend(&mut self.work_left, program.costs.digest(list))?;
            self.counts.digests += 1;
            for &field in &program.arrays.learn_lists[list.index()].fields {
                let range = crate::program::exact::range(program.headers.field(field));
                outbox.digest_words().extend_from_slice(&frame.words[range]);
            }
            outbox.digest(list);
        }
        if let Some(list) = wishes.resubmit {
            return self.begin_anew(program, frame, list, instance::RESUBMITTED, None);
        }
        let words = &mut frame.words;
        let group = standard.mcast_grp.map_or(0, |spot| spot.get(words));
        if group != 0 {
            if let Some(kind) = standard.instance_type {
                kind.set(words, instance::REPLICATED);
            }
            let copies = self.replicate(program, frame, group as u16, now)?;
            return match copies {
                0 => Err(Stop(DropReason::NoReplicas)),
                _ => Ok(None),
            };
        }
        let port = standard.egress_spec.get(words) as u32;
        if port == self.config.drop_port {
            return Err(Stop(DropReason::Ingress));
        }
        if let Some(kind) = standard.instance_type {
            kind.set(words, instance::NORMAL);
        }
        self.stamp_queueing(program, frame, now);
        Ok(Some(port))
    }

    /// Runs egress and sends the packet.
    fn egress(
        &mut self,
        program: &Program,
        frame: &mut Frame,
        port: u32,
        now: Instant,
        outbox: &mut Outbox,
        steps: &mut Option<&mut Vec<TraceStep>>,
    ) -> Result<(), Stop> {
        let standard = &program.standard;
        let micros = self.micros(now);
        let length = frame.length_bytes.max(0) as u64;
        let values = [
            (standard.egress_global_timestamp, micros),
            (standard.egress_port, port.into()),
            (
                Some(standard.egress_spec),
                u64::from(self.config.drop_port) + 1,
            ),
            (standard.packet_length, length),
            (standard.deq_timedelta, 0),
            (standard.deq_qdepth, 0),
        ];
        for (spot, value) in values {
            if let Some(spot) = spot {
                spot.set(&mut frame.words, value);
            }
        }
        let mut engine = self.engine(program, now, steps.as_deref_mut());
        engine.note(|| TraceStep::Pass(Some(port)));
        self.pass(program, false, frame, now, steps)?;
        if let Some((session, list)) = frame.wishes.clone.take() {
            self.clone_at_egress(program, frame, session, list, now)?;
        }
        if standard.egress_spec.get(&frame.words) == u64::from(self.config.drop_port) {
            return Err(Stop(DropReason::Egress));
        }
        let mut engine = self.engine(program, now, steps.as_deref_mut());
        if let Some(list) = frame.wishes.recirculate.take() {
            let mut bytes = std::mem::take(&mut self.again);
            bytes.clear();
            let mut engine = self.engine(program, now, None);
            let outcome = engine.deparse(frame, &mut bytes);
            let begun = outcome.and_then(|()| {
                let kind = instance::RECIRCULATED;
                self.begin_anew(program, frame, list, kind, Some(&bytes))
            });
            self.again = bytes;
            return begun.map(|_| ());
        }
        let from = outbox.bytes.len();
        engine.deparse(frame, &mut outbox.bytes)?;
        if let Some(bytes) = frame.wishes.truncate_bytes {
            let kept = usize::try_from(bytes).unwrap_or(usize::MAX);
            outbox.bytes.truncate(from.saturating_add(kept));
        }
        let sent = outbox.bytes.len() - from;
        engine.note(|| TraceStep::Sent(port, sent));
        outbox.send(port);
        self.counts.sent += 1;
        Ok(())
    }

    /// Walks ingress or egress, or replays a remembered behaviour.
    fn pass(
        &mut self,
        program: &Program,
        is_ingress: bool,
        frame: &mut Frame,
        now: Instant,
        steps: &mut Option<&mut Vec<TraceStep>>,
    ) -> Result<(), Stop> {
        let pipeline = match is_ingress {
            true => &program.control.ingress,
            false => &program.control.egress,
        };
        // A trace must have every step, so it bypasses the cache.
        let cache = self.behaviors.as_mut().filter(|_| steps.is_none());
        let work_left = &mut self.work_left;
        let state = &mut self.state;
        let look =
            cache.map(|cache| cache.look(is_ingress, program, frame, (state, work_left), now));
        match look {
            Some(Look::Done) => Ok(()),
            Some(Look::Hot) => self.pass_recorded(program, is_ingress, frame, now),
            Some(Look::Cold) | None => self.walk(program, pipeline, frame, now, steps),
        }
    }

    /// Walks a pipeline, by cached traversals unless a trace was requested.
    fn walk(
        &mut self,
        program: &Program,
        pipeline: &Pipeline,
        frame: &mut Frame,
        now: Instant,
        steps: &mut Option<&mut Vec<TraceStep>>,
    ) -> Result<(), Stop> {
        let cache = match steps.is_none() {
            true => self.cache.take(),
            false => None,
        };
        let mut engine = self.engine(program, now, steps.as_deref_mut());
        let Some(mut cache) = cache else {
            return engine.walk(pipeline, frame);
        };
        let outcome = engine.walk_cached(&mut cache, pipeline, frame);
        self.cache = Some(cache);
        outcome
    }

    /// Walks with a record, and reports it.
    #[cold]
    fn pass_recorded(
        &mut self,
        program: &Program,
        is_ingress: bool,
        frame: &mut Frame,
        now: Instant,
    ) -> Result<(), Stop> {
        let pipeline = match is_ingress {
            true => &program.control.ingress,
            false => &program.control.egress,
        };
        let cache = self.behaviors.as_mut().expect("it has looked");
        let mut record = cache.begin(is_ingress);
        let faults = self.counts.all_faults();
        let (length_bytes, work_left) = (frame.length_bytes, self.work_left);
        // Afterwards the frame has only this walk's own wishes.
        let before = std::mem::take(&mut frame.wishes);
        let engine = self.engine(program, now, None);
        let outcome = engine.observed(&mut record).walk(pipeline, frame);
        let wishes = std::mem::replace(&mut frame.wishes, before);
        frame.wishes = wishes.over(frame.wishes);
        if outcome.is_err() || self.counts.all_faults() != faults {
            record.end(Some(Unfit::Fault));
        }
        let ended = Ended {
            wishes,
            length_change: frame.length_bytes - length_bytes,
            work: work_left - self.work_left,
        };
        if let Some(cache) = &mut self.behaviors {
            cache.report(is_ingress, record, frame, ended);
        }
        outcome
    }

    /// Clones the packet as it came in: parsed again, with the values of its list kept.
    fn clone_at_ingress(
        &mut self,
        program: &Program,
        frame: &Frame,
        session: u16,
        list: Option<FieldListId>,
        now: Instant,
    ) -> Result<(), Stop> {
        if !self.has_session(session) {
            return Ok(());
        }
        self.spend_copy(frame)?;
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.begin(program, frame.packet());
        copy.ingress_length_bytes = frame.ingress_length_bytes;
        copy.ingress_port = frame.ingress_port;
        copy.passes = frame.passes;
        if let Some(port) = program.standard.ingress_port {
            port.set(&mut copy.words, frame.ingress_port.into());
        }
        let mut engine = self.engine(program, now, None);
        let parsed = engine.parse(&mut copy);
        copy.reset_metadata(program, list, &frame.words);
        if let Some(kind) = program.standard.instance_type {
            kind.set(&mut copy.words, instance::INGRESS_CLONE);
        }
        let sent = parsed.and_then(|_| self.send_clone(program, &mut copy, session, now));
        self.spare.push(copy);
        sent
    }

    /// Clones the packet as egress left it.
    fn clone_at_egress(
        &mut self,
        program: &Program,
        frame: &Frame,
        session: u16,
        list: Option<FieldListId>,
        now: Instant,
    ) -> Result<(), Stop> {
        if !self.has_session(session) {
            return Ok(());
        }
        self.spend_copy(frame)?;
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.copy_from(frame);
        copy.wishes = Wishes::default();
        copy.reset_metadata(program, list, &frame.words);
        if let Some(kind) = program.standard.instance_type {
            kind.set(&mut copy.words, instance::EGRESS_CLONE);
        }
        let sent = self.send_clone(program, &mut copy, session, now);
        self.spare.push(copy);
        sent
    }

    fn has_session(&mut self, session: u16) -> bool {
        let is_there = self.state.mirrors.contains_key(&session);
        if !is_there {
            self.counts.fault(Fault::NoSession);
        }
        is_there
    }

    fn send_clone(
        &mut self,
        program: &Program,
        copy: &mut Frame,
        session: u16,
        now: Instant,
    ) -> Result<(), Stop> {
        let mirror = &self.state.mirrors[&session];
        if let Some(bytes) = mirror.length_max_bytes {
            copy.wishes.truncate_bytes = Some(bytes.into());
        }
        let (group, count) = (mirror.group, mirror.replicas.len());
        if let Some(group) = group {
            self.replicate(program, copy, group, now)?;
        }
        for index in 0..count {
            let replica = self.state.mirrors[&session].replicas[index];
            self.send_copy(program, copy, replica, now)?;
        }
        Ok(())
    }

    /// Charges the work and the memory of a copy.
    fn spend_copy(&mut self, frame: &Frame) -> Result<(), Stop> {
        let words = frame.words.len() + frame.packet().len() / 8;
        spend(&mut self.work_left, COPIED_WORD * words as u64)
    }

    /// Sends a copy to each member of a group. Returns how many.
    fn replicate(
        &mut self,
        program: &Program,
        frame: &mut Frame,
        group: u16,
        now: Instant,
    ) -> Result<usize, Stop> {
        let count = self.state.multicast.get(&group).map_or(0, Vec::len);
        let wishes = Wishes {
            truncate_bytes: frame.wishes.truncate_bytes,
            ..Wishes::default()
        };
        let before = std::mem::replace(&mut frame.wishes, wishes);
        for index in 0..count {
            let replica = self.state.multicast[&group][index];
            self.send_copy(program, frame, replica, now)?;
        }
        frame.wishes = before;
        Ok(count)
    }

    fn send_copy(
        &mut self,
        program: &Program,
        frame: &mut Frame,
        replica: crate::state::Replica,
        now: Instant,
    ) -> Result<(), Stop> {
        self.copies += 1;
        if self.copies > COPIES_MAX {
            return Err(Stop(DropReason::TooManyCopies));
        }
        self.spend_copy(frame)?;
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.copy_from(frame);
        if let Some(instance) = program.standard.egress_rid {
            instance.set(&mut copy.words, replica.instance.into());
        }
        self.stamp_queueing(program, &mut copy, now);
        self.queue.push_back(Work::Egress(copy, replica.port));
        Ok(())
    }

    fn stamp_queueing(&self, program: &Program, frame: &mut Frame, now: Instant) {
        let values = [
            (program.standard.enq_timestamp, self.micros(now)),
            (program.standard.enq_qdepth, 0),
        ];
        for (spot, value) in values {
            if let Some(spot) = spot {
                spot.set(&mut frame.words, value);
            }
        }
    }

    /// Starts another pass of the packet, with its original or other bytes.
    fn begin_anew(
        &mut self,
        program: &Program,
        frame: &Frame,
        list: FieldListId,
        kind: u64,
        bytes: Option<&[u8]>,
    ) -> Result<Option<u32>, Stop> {
        if frame.passes >= PASSES_MAX {
            return Err(Stop(DropReason::TooManyPasses));
        }
        // Bounds copies that start over and make copies in turn.
        self.copies += 1;
        if self.copies > COPIES_MAX {
            return Err(Stop(DropReason::TooManyCopies));
        }
        self.spend_copy(frame)?;
        let mut again = self.spare.pop().unwrap_or_default();
        again.begin(program, bytes.unwrap_or(frame.packet()));
        again.reset_metadata(program, Some(list), &frame.words);
        again.ingress_port = frame.ingress_port;
        again.passes = frame.passes + 1;
        let length = again.length_bytes as u64;
        let standard = &program.standard;
        for (spot, value) in [
            (standard.instance_type, kind),
            (standard.packet_length, length),
        ] {
            if let Some(spot) = spot {
                spot.set(&mut again.words, value);
            }
        }
        self.queue.push_back(Work::Ingress(again));
        Ok(None)
    }

    fn engine<'s>(
        &'s mut self,
        program: &'s Program,
        now: Instant,
        steps: Option<&'s mut Vec<TraceStep>>,
    ) -> Walk<'s> {
        Walk {
            program,
            version: self.state.version,
            tables: &mut self.state.tables,
            profiles: &self.state.profiles,
            value_rows: &self.state.value_rows,
            cells: &mut self.state.cells,
            counts: &mut self.counts,
            work_left: &mut self.work_left,
            random: &mut self.random,
            now,
            drop_port: self.config.drop_port,
            wide: &mut self.wide,
            input: &mut self.input,
            steps,
            observer: Unobserved,
        }
    }
}

/// Returns the words after parsing, the words after both pipelines, and the trace.
///
/// Egress runs for the chosen port. Nothing else is done for the packet.
#[cfg(all(test, feature = "shared-data"))]
pub(crate) fn walked(target: &mut Target, bytes: &[u8]) -> (Vec<u64>, Vec<u64>, Vec<TraceStep>) {
    let program = target.program.clone();
    let mut frame = Frame::default();
    frame.begin(&program, bytes);
    target.stamp_arrival(&mut frame, Instant::ZERO);
    let mut steps = Vec::new();
    let mut parsed = Vec::new();
    let mut engine = target.engine(&program, Instant::ZERO, Some(&mut steps));
    let mut walk = || -> Result<(), Stop> {
        engine.parse_and_check(&mut frame)?;
        parsed.clone_from(&frame.words);
        engine.walk(&program.control.ingress, &mut frame)?;
        let port = program.standard.egress_spec.get(&frame.words);
        if let Some(spot) = program.standard.egress_port {
            spot.set(&mut frame.words, port);
        }
        engine.walk(&program.control.egress, &mut frame)
    };
    if let Err(Stop(reason)) = walk() {
        steps.push(TraceStep::Dropped(reason));
    }
    steps.retain(|step| !matches!(step, TraceStep::Parsed(_)));
    (parsed, frame.words, steps)
}

impl Walk<'_> {
    /// Parses the packet, verifies checksums, and writes errors to its metadata.
    fn parse_and_check(&mut self, frame: &mut Frame) -> Result<(), Stop> {
        let standard = &self.program.standard;
        let error = self.parse(frame)?;
        self.note(|| TraceStep::Parsed(error));
        if let Some(spot) = standard.parser_error {
            spot.set(&mut frame.words, error);
        }
        let is_wrong = !self.verify_checksums(frame)?;
        if let Some(spot) = standard.checksum_error {
            spot.set(&mut frame.words, is_wrong.into());
        }
        Ok(())
    }
}
