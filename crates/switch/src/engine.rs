//! A whole switch on one thread, driven by its caller.
//!
//! ```text
//!   forward(packets, now):  caches answer at the current version
//!                           what packets taught becomes a change, after the burst
//!   apply(change, now):     next version; the maintainer repairs the caches; acknowledged
//!   tick(now):              timeouts of rules, silence of stations
//! ```
//!
//! A worker of a running switch follows a change in slices between its bursts. An engine can
//! do the same: [`Engine::start`] instead of `apply`, then [`Engine::step`], with packets in
//! between. `apply` takes all slices at once, unless the maintainer is lazy: then the rest is
//! done a slice after each burst.
//!
//! 1. When [`Engine::apply`] returns, no packet will be answered at an older version, unless
//!    the maintainer is lazy.
//! 2. Rule counters are exact right after [`Engine::settle`].
//! 3. The caller supplies the time, which should not run backwards.
//! 4. One change is followed at a time: the next waits until all entries are right.

use std::sync::Arc;

use thalweg_datapath::{
    Datapath, Gate, LearnedStatistics, Ledger, MaintainerKind, Progress, Requests, Walks, Work,
};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_pipeline::{
    Change, ChangeError, Delta, Operation, Outbox, Pipeline, PortState, RuleId, Tending, Version,
    Walker,
};

use crate::audit::Audit;
use crate::learning::LearningCounters;
use crate::long_work::{LongWork, LongWorkStatistics, LongWorker, SLICE_EVERY, SLICE_STEPS};
use crate::removal::{Removal, RemovalReason};
use crate::sync::{RwLockReadGuard, RwLockWriteGuard};
use crate::training::{Long, Outcome};
use crate::upkeep::Upkeep;

/// Limits of an engine.
#[derive(Clone, Debug)]
pub struct Config {
    /// Limits of the pipeline.
    pub pipeline: thalweg_pipeline::Config,
    /// Limits of the caches.
    pub datapath: thalweg_datapath::Config,
    /// Most packets in flight.
    pub packets: usize,
    /// Bytes of room for each packet.
    pub packet_bytes: usize,
    /// Whether the interpreter also answers every packet, and the answers are compared.
    pub is_audited: bool,
    /// Where indexes are built and trained.
    pub long_work: LongWork,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            pipeline: thalweg_pipeline::Config::default(),
            datapath: thalweg_datapath::Config::default(),
            packets: 1_024,
            packet_bytes: 2_048,
            is_audited: false,
            long_work: LongWork::Inline,
        }
    }
}

/// Why an engine cannot be created.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A limit of the caches makes no sense.
    #[error(transparent)]
    Datapath(#[from] thalweg_datapath::ConfigError),
}

/// The result of a change.
#[derive(Clone, Debug)]
pub struct Update {
    /// What changed in the pipeline.
    pub delta: Delta,
    /// The maintainer's work on the caches until the change was acknowledged.
    pub work: Work,
}

/// How far an engine has followed a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Packets are still answered as before the change.
    Preparing,
    /// The change is acknowledged; some entries still need repair.
    Repairing,
    /// Nothing is left to do.
    Settled(Work),
}

/// A change that is made but not fully followed.
struct Unsettled {
    delta: Arc<Delta>,
    over: Vec<(RuleId, RemovalReason)>,
    made_at: Instant,
    is_acknowledged: bool,
}

/// A switch on one thread.
///
/// ```
/// use thalweg_packet::{Instant, Packet, PortId};
/// use thalweg_pipeline::{Change, PortState, text};
/// use thalweg_switch::{Config, Engine};
///
/// let mut engine = Engine::new(Config::default())?;
/// let now = Instant::ZERO;
/// engine.add_port(PortId(1), now);
/// engine.add_port(PortId(2), now);
/// let rule = text::parse_flow("in_port=1,actions=output:2")?;
/// engine.apply(&Change::adding([rule]), now)?;
/// let mut packet = Packet::from_bytes(&[0; 60]);
/// packet.set_received(PortId(1), now);
/// engine.forward(&mut vec![packet], now);
/// assert_eq!(engine.outbox().sent.len(), 1);
/// assert_eq!(engine.outbox().sent[0].0, PortId(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Engine {
    pipeline: Gate<Pipeline>,
    datapath: Datapath,
    outbox: Outbox,
    upkeep: Upkeep,
    audit: Option<Audit>,
    unsettled: Option<Unsettled>,
    /// The change that ends rules whose last learner went with the last change.
    forgotten: Option<Change>,
    /// The result of the only slice of a layout change, until the caller asks for it.
    taken_early: Option<Step>,
    is_lazy: bool,
    bursts: u64,
    place: LongWork,
    long_work: LongWorker,
    /// Whether tables may have work: their rules have changed, or a slice has left some.
    has_table_work: bool,
}

/// Bursts between two checks whether another index would pay off.
const TEND_EVERY: u64 = 1_024;

impl Engine {
    /// Creates a switch without ports and rules.
    ///
    /// # Errors
    /// If a limit makes no sense.
    pub fn new(config: Config) -> Result<Engine, EngineError> {
        let upkeep = Upkeep::new(config.pipeline.stations);
        let is_lazy = config.datapath.maintainer == MaintainerKind::Lazy;
        let pipeline = Pipeline::new(config.pipeline);
        let datapath = Datapath::new(config.datapath, &pipeline)?;
        let pool = PacketPool::with_capacity(config.packets, config.packet_bytes);
        let outbox = Outbox::new(pool).with_meters(pipeline.meters().clone());
        Ok(Engine {
            pipeline: Gate::new(pipeline),
            datapath,
            outbox,
            upkeep,
            audit: config.is_audited.then(Audit::new),
            unsettled: None,
            forgotten: None,
            taken_early: None,
            is_lazy,
            bursts: 0,
            place: config.long_work,
            long_work: LongWorker::default(),
            has_table_work: false,
        })
    }

    /// The pipeline.
    pub fn pipeline(&self) -> RwLockReadGuard<'_, Pipeline> {
        self.pipeline.read()
    }

    fn pipeline_mut(&self) -> RwLockWriteGuard<'_, Pipeline> {
        self.pipeline.write()
    }

    /// The caches.
    pub fn datapath(&self) -> &Datapath {
        &self.datapath
    }

    /// The version at which packets are answered.
    pub fn version(&self) -> Version {
        self.datapath.version()
    }

    /// Packets that were sent and not yet taken.
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// The audit, if the engine makes one.
    pub fn audit(&self) -> Option<&Audit> {
        self.audit.as_ref()
    }

    /// Begins to compare forwarded packets with the interpreter, if that has not begun yet.
    /// Existing cache entries are compared as soon as a packet meets them.
    pub fn begin_audit(&mut self) {
        self.audit.get_or_insert_with(Audit::new);
    }

    /// What became of the rules that packets taught.
    pub fn learning(&self) -> LearningCounters {
        self.upkeep.lessons.counters
    }

    /// Reports of ended rules that asked for it, since the last call.
    pub fn take_removals(&mut self) -> Vec<Removal> {
        self.upkeep.take_removals()
    }

    /// Adds a port that is up and floods.
    pub fn add_port(&mut self, port: PortId, now: Instant) {
        let state = PortState {
            is_up: true,
            floods: true,
            forwards: true,
            peer: None,
        };
        let change = Change::one(Operation::SetPort(port, state));
        self.apply(&change, now)
            .expect("a port can always be added");
    }

    /// Removes a port, and forgets the stations behind it.
    pub fn remove_port(&mut self, port: PortId, now: Instant) {
        let change = self.upkeep.ports_gone(&[port].into());
        self.apply(&change, now)
            .expect("a port can always be removed");
    }

    /// Sets whether a port is up.
    pub fn set_port_up(&mut self, port: PortId, is_up: bool, now: Instant) {
        let change = self.upkeep.port_state(&self.pipeline(), port, is_up);
        if let Some(change) = change {
            self.apply(&change, now)
                .expect("a known port can always change");
        }
    }

    /// Forwards packets into the outbox; learned stations take effect afterwards.
    pub fn forward(&mut self, packets: &mut Vec<Packet>, now: Instant) {
        if self.audit.is_some() {
            self.forward_audited(packets, now);
        } else {
            self.datapath
                .process(packets, now, &self.pipeline, &mut self.outbox);
        }
        if self.is_lazy && self.unsettled.is_some() {
            self.step();
        }
        self.learn(now);
        self.learn_rules(now);
        self.bursts = self.bursts.wrapping_add(1);
        match self.place {
            LongWork::Inline if self.bursts.is_multiple_of(TEND_EVERY) => self.train(),
            LongWork::Thread if self.bursts.is_multiple_of(SLICE_EVERY) => self.tend(),
            _ => {}
        }
    }

    /// The same, comparing every answer with the interpreter's.
    fn forward_audited(&mut self, packets: &mut Vec<Packet>, now: Instant) {
        let Some(mut audit) = self.audit.take() else {
            return;
        };
        // The acknowledged version counts, whatever version the caches have.
        let version = match &self.unsettled {
            Some(unsettled) if !unsettled.is_acknowledged => self.datapath.version(),
            _ => self.pipeline().version(),
        };
        audit.expect(packets, &self.pipeline(), version, now);
        let pool = std::mem::replace(&mut self.outbox.pool, PacketPool::with_capacity(0, 0));
        let mut answers = Outbox::with_connections(pool, self.outbox.connections.clone())
            .with_meters(self.outbox.meters.clone());
        answers.chance = self.outbox.chance;
        answers.learned = self.outbox.learned.clone();
        answers.grows = self.outbox.grows;
        self.datapath
            .process(packets, now, &self.pipeline, &mut answers);
        audit.compare(&mut answers);
        self.outbox.sent.append(&mut answers.sent);
        self.outbox.to_controller.append(&mut answers.to_controller);
        self.outbox.stations_seen.append(&mut answers.stations_seen);
        self.outbox.rules_taught.append(&mut answers.rules_taught);
        self.outbox.fin_timeouts.append(&mut answers.fin_timeouts);
        self.outbox.rules_refused += answers.rules_refused;
        self.outbox.copies_refused += answers.copies_refused;
        self.outbox.queued += answers.queued;
        self.outbox.chance = answers.chance;
        self.outbox.pool = answers.pool;
        self.audit = Some(audit);
    }

    /// Makes a change of the learned stations.
    fn learn(&mut self, now: Instant) {
        if self.outbox.stations_seen.is_empty() {
            return;
        }
        let seen = std::mem::take(&mut self.outbox.stations_seen);
        let moves = seen
            .into_iter()
            .flat_map(|(station, port)| self.upkeep.see(station, port, now));
        let moves: Vec<_> = moves.collect();
        if !moves.is_empty() {
            let change = Change::one(Operation::MoveMacs(moves));
            self.apply(&change, now)
                .expect("a station can always be moved");
        }
    }

    /// Makes a change of the rules that packets taught.
    fn learn_rules(&mut self, now: Instant) {
        for (rule, idle_s, hard_s) in std::mem::take(&mut self.outbox.fin_timeouts) {
            let pipeline = self.pipeline.get_mut();
            if let Some(rule) = pipeline.shorten_timeouts(rule, idle_s, hard_s) {
                self.upkeep.shorten_timeouts(pipeline, &[rule]);
            }
        }
        if self.outbox.rules_taught.is_empty() {
            return;
        }
        let taught = std::mem::take(&mut self.outbox.rules_taught);
        let mut refused = self.upkeep.lessons.take_in(taught);
        let learned = self.upkeep.lessons.conclude(&self.pipeline.read());
        for id in &learned.refreshed {
            self.pipeline.get_mut().refresh_rule(*id, now);
        }
        for (rule, operation) in learned.operations {
            let is_learned = self.apply(&Change::one(operation), now).is_ok();
            let counters = &mut self.upkeep.lessons.counters;
            counters.learned += u64::from(is_learned);
            counters.refused += u64::from(!is_learned);
            refused.extend((!is_learned).then_some(rule));
        }
        let pipeline = self.pipeline.read();
        for rule in refused {
            self.outbox.learned.withdraw(&pipeline, &rule);
            if let Some(audit) = &self.audit {
                audit.withdraw(&pipeline, &rule);
            }
        }
    }

    /// Applies a change as a whole; on an error, nothing is done.
    ///
    /// # Errors
    /// If any of its operations cannot be done.
    pub fn apply(&mut self, change: &Change, now: Instant) -> Result<Update, ChangeError> {
        self.apply_because(change, now, &[])
    }

    fn apply_because(
        &mut self,
        change: &Change,
        now: Instant,
        over: &[(RuleId, RemovalReason)],
    ) -> Result<Update, ChangeError> {
        let delta = self.start_because(change, now, over)?;
        let mut step = self.step();
        while step == Step::Preparing || step == Step::Repairing && !self.is_lazy {
            step = self.step();
        }
        let work = match step {
            Step::Settled(work) => work,
            _ => Work::default(),
        };
        let delta = Arc::unwrap_or_clone(delta);
        self.forget_learned(now);
        // Before the first packet there is no work to interleave with.
        if self.place == LongWork::Inline || self.bursts == 0 {
            self.train();
        }
        Ok(Update { delta, work })
    }

    /// Ends the rules whose last learner went with the last change. A caller that follows changes
    /// in slices does this once the change is acknowledged.
    pub fn forget_learned(&mut self, now: Instant) {
        if let Some(change) = self.forgotten.take() {
            self.apply(&change, now)
                .expect("rules can always be deleted");
        }
    }

    /// Figures of the megaflows' learned index, if there is one.
    pub fn learned(&self) -> Option<LearnedStatistics> {
        self.datapath.learned()
    }

    /// Improves the indexes of caches and tables that are due, on this thread, to the end.
    pub fn train(&mut self) {
        loop {
            match self.datapath.tend(usize::MAX) {
                Tending::Idle => break,
                Tending::More => {}
                Tending::Job(job) => {
                    let outcome = self.long_work.run(Long::Caches(0, job));
                    self.install(outcome);
                }
            }
        }
        loop {
            let tending = self.pipeline_mut().tend(usize::MAX);
            match tending {
                Tending::Idle => break,
                Tending::More => {}
                Tending::Job(job) => {
                    let outcome = self.long_work.run(Long::Table(job));
                    self.install(outcome);
                }
            }
        }
        self.has_table_work = false;
    }

    /// Does a slice of work for indexes; a thread does the long parts.
    fn tend(&mut self) {
        if let Some(outcome) = self.long_work.take_finished(self.bursts) {
            self.install(outcome);
        }
        if let Tending::Job(job) = self.datapath.tend(SLICE_STEPS) {
            self.long_work.push(Long::Caches(0, job));
        }
        // Tables whose rules do not change may still profit from another index, but rarely.
        if self.has_table_work || self.bursts.is_multiple_of(TEND_EVERY) {
            let tending = self.pipeline_mut().tend(SLICE_STEPS);
            self.has_table_work = !matches!(tending, Tending::Idle);
            if let Tending::Job(job) = tending {
                self.long_work.push(Long::Table(job));
            }
        }
        if let Some(outcome) = self.long_work.start(self.bursts) {
            self.install(outcome);
        }
    }

    fn install(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Caches(_, learnt) => self.datapath.install(learnt),
            Outcome::Table(_, learnt) => {
                self.pipeline_mut().install(learnt);
                self.has_table_work = true;
            }
        }
    }

    /// Waits until no thread works on the indexes of this engine.
    pub fn finish_long_work(&mut self) {
        if let Some(outcome) = self.long_work.wait(self.bursts) {
            self.install(outcome);
        }
    }

    /// The cost of building and training indexes.
    pub fn long_work(&self) -> LongWorkStatistics {
        self.long_work.statistics()
    }

    /// Makes a change, and begins to follow it: [`Engine::step`] does the rest.
    ///
    /// A change of the layout is followed to the end at once, as no packet can be answered as
    /// before.
    ///
    /// # Errors
    /// If any of its operations cannot be done.
    pub fn start(&mut self, change: &Change, now: Instant) -> Result<Arc<Delta>, ChangeError> {
        self.start_because(change, now, &[])
    }

    fn start_because(
        &mut self,
        change: &Change,
        now: Instant,
        over: &[(RuleId, RemovalReason)],
    ) -> Result<Arc<Delta>, ChangeError> {
        // Invariant 4.
        self.finish();
        self.taken_early = None;
        let delta = Arc::new(self.pipeline_mut().apply(change, now)?);
        self.has_table_work = true;
        let pipeline = self.pipeline.get_mut();
        self.outbox.learned.follow(pipeline, &delta);
        if let Some(audit) = &self.audit {
            audit.follow(pipeline, &delta);
        }
        if let Some(more) = self.upkeep.lessons.follow(pipeline, &delta) {
            let forgotten = self.forgotten.get_or_insert_default();
            forgotten.operations.extend(more.operations);
        }
        let index = self.datapath.index().filter(|_| !delta.has_new_layout);
        let findings = index.map(|index| index.search(&self.pipeline(), &delta).into());
        self.datapath.begin(delta.clone(), findings);
        self.unsettled = Some(Unsettled {
            delta: delta.clone(),
            over: over.to_vec(),
            made_at: now,
            is_acknowledged: false,
        });
        if delta.has_new_layout {
            let done = self.step();
            self.taken_early = Some(done);
        }
        Ok(delta)
    }

    /// Does one slice of following the last change.
    pub fn step(&mut self) -> Step {
        if let Some(done) = self.taken_early.take() {
            return done;
        }
        match self.datapath.step(&self.pipeline) {
            Progress::Preparing => Step::Preparing,
            Progress::Repairing => {
                let unsettled = self.unsettled.iter_mut();
                unsettled.for_each(|unsettled| unsettled.is_acknowledged = true);
                Step::Repairing
            }
            Progress::Settled { work, ledger, .. } => {
                // No entry depends on a removed rule any more: all its counts are in the
                // ledger.
                self.settle_ledger(ledger);
                if let Some(Unsettled {
                    delta,
                    over,
                    made_at,
                    ..
                }) = self.unsettled.take()
                {
                    let pipeline = self.pipeline.get_mut();
                    self.upkeep.conclude(pipeline, &delta, &over, made_at);
                    pipeline.reclaim(delta.version);
                }
                Step::Settled(work)
            }
        }
    }

    /// Requests walks of the entries that wait for repair, if there are many; they then wait
    /// until [`Engine::accept`].
    ///
    /// The control side of a running switch makes the walks while its workers forward. On a
    /// single thread this gains nothing.
    pub fn request_walks(&mut self) -> Option<Requests> {
        self.datapath.request_walks()
    }

    /// Makes requested walks, if the caches keep a record of what entries depend on.
    pub fn walk(&self, requests: &Requests) -> Option<Walks> {
        let index = self.datapath.index()?;
        Some(index.walk(&mut Walker::default(), &self.pipeline(), requests))
    }

    /// Accepts the requested walks.
    ///
    /// # Panics
    /// If they are not of the change being followed.
    pub fn accept(&mut self, walks: Walks) {
        self.datapath.accept(walks);
    }

    /// Follows the last change to the end.
    fn finish(&mut self) {
        while self.unsettled.is_some() {
            self.step();
        }
    }

    /// Ends rules whose timeout is over, and forgets silent stations.
    pub fn tick(&mut self, now: Instant) {
        if let Some(change) = self.upkeep.forget_silent(now) {
            self.apply(&change, now)
                .expect("a station can always be forgotten");
        }
        let pipeline = self.pipeline.read();
        let due = self.upkeep.due(&pipeline, now);
        let uses = self.datapath.uses_since(&due.idle);
        let expired = self.upkeep.expired(&pipeline, due, &uses);
        drop(pipeline);
        if let Some(expired) = expired {
            self.apply_because(&expired.change, now, &expired.reasons)
                .expect("a rule can always be deleted");
        }
    }

    /// Credits what entries have counted to the rules, tables and groups they met.
    pub fn settle(&mut self) {
        self.finish();
        let ledger = self.datapath.gather();
        self.settle_ledger(ledger);
    }

    /// Evicts those of `count` entries, starting at number `from`, that no packet has used since
    /// `since`; returns where to continue. A running [`crate::Switch`] does so by itself.
    pub fn evict_idle(&mut self, from: u32, count: u32, since: Instant) -> Option<u32> {
        self.datapath.evict_idle(from, count, since)
    }

    /// Brings the counters of these rules up to date; reads only entries that met one of them.
    pub fn settle_rules(&mut self, rules: &[RuleId]) {
        self.finish();
        let ledger = self.datapath.gather_rules(rules);
        self.settle_ledger(ledger);
    }

    fn settle_ledger(&mut self, ledger: Ledger) {
        if !ledger.is_empty() {
            ledger.settle(self.pipeline.get_mut());
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({:?}, {:?})", self.pipeline(), self.datapath)
    }
}
