//! The data plane that runs programs: `thalweg_p4`, shared by a session and a forwarding
//! worker.
//!
//! ```text
//!   control thread: P4Plane (a Target)            worker: P4Forwarder
//!     load --> saved plane                         lock; run a burst; send it; unlock
//!     commit --> running plane <---- one lock ---->
//!     apply, counts, ...: lock, write, unlock
//! ```
//!
//! 1. The worker holds the lock from the first packet of a burst until the last one is sent. So
//!    every packet sent after a change was applied sees the change, and no burst sees half of
//!    it.
//! 2. The worker yields to a waiting session: it does not take the lock while a session waits.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_control::{
    Catalog, Code, Count, EntryRef, EntryState, Initial, Operation, Problem, Refusal, Side, Target,
    Value,
};
use thalweg_p4::cache::behavior::{BehaviorConfig, BehaviorCounts};
use thalweg_p4::{
    BuiltIndex, CacheConfig, CacheStatistics, DropReason, IndexJob, Outbox, TargetOwner,
};
use thalweg_packet::Instant;

use super::loaded::LoadedProgram;

type Result<T> = std::result::Result<T, Problem>;

/// Maximum packets from the controller waiting for the worker.
const MAX_INJECTED: usize = 1_024;

/// Returns the current time.
pub type P4Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// How programs run.
#[derive(Clone)]
pub struct P4PlaneConfig {
    /// The drop port and the seed.
    pub program: thalweg_p4::Config,
    /// Size of each program's traversal cache; `None` for no cache.
    pub traversals: Option<CacheConfig>,
    /// Size of each program's behaviour cache; `None` for no cache.
    pub behaviors: Option<BehaviorConfig>,
    /// The port between program and controller, if there is one.
    pub cpu_port: Option<u32>,
    /// The clock for writes; it must agree with the worker's.
    pub clock: P4Clock,
}

/// The session's end of a data plane.
pub struct P4Plane {
    config: P4PlaneConfig,
    shared: Arc<Shared>,
    saved: Option<LoadedProgram>,
}

/// The worker's end of a data plane.
#[derive(Clone)]
pub struct P4Forwarder {
    shared: Arc<Shared>,
    cpu_port: Option<u32>,
}

struct Shared {
    running: Mutex<Running>,
    /// Number of sessions that wait for the lock.
    waiting: AtomicUsize,
    injected: Mutex<VecDeque<Vec<u8>>>,
    /// Wakes the worker.
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Running {
    plane: Option<LoadedProgram>,
    /// Drops of earlier programs.
    past_drops: BTreeMap<&'static str, u64>,
    /// Packets that arrived before there was a program.
    without_program: u64,
}

/// The running program, locked for one burst.
pub struct P4Burst<'a> {
    running: MutexGuard<'a, Running>,
}

impl P4Plane {
    /// Creates a data plane without a program, and the worker's end; `wake` wakes the worker.
    pub fn new(
        config: P4PlaneConfig,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> (P4Plane, P4Forwarder) {
        let shared = Arc::new(Shared {
            running: Mutex::default(),
            waiting: AtomicUsize::new(0),
            injected: Mutex::default(),
            wake: Box::new(wake),
        });
        let forwarder = P4Forwarder {
            shared: shared.clone(),
            cpu_port: config.cpu_port,
        };
        let plane = P4Plane {
            config,
            shared,
            saved: None,
        };
        (plane, forwarder)
    }

    /// Runs `work` on one of the two states.
    fn with<R>(
        &mut self,
        side: Side,
        work: impl FnOnce(&mut LoadedProgram) -> Result<R>,
    ) -> Result<R> {
        let gone = || Problem::new(Code::Internal, "there is no program");
        match side {
            Side::Saved => work(self.saved.as_mut().ok_or_else(gone)?),
            Side::Running => {
                let mut running = self.shared.lock_as_session();
                work(running.plane.as_mut().ok_or_else(gone)?)
            }
        }
    }

    fn plane(&self, catalog: &Catalog, program: &[u8]) -> Result<(LoadedProgram, Initial)> {
        let config = &self.config;
        let (mut plane, initial) =
            LoadedProgram::load(catalog, program, config.program, config.cpu_port)?;
        plane.target.cache_traversals(config.traversals);
        plane.target.cache_behaviors(config.behaviors);
        Ok((plane, initial))
    }
}

impl Shared {
    /// Takes the lock under invariant 2.
    fn lock_as_session(&self) -> MutexGuard<'_, Running> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let running = lock(&self.running);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        running
    }
}

/// Lock poisoning is ignored: changes are whole, so a panicked thread left a whole state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Target for P4Plane {
    fn verify(&self, catalog: &Catalog, program: &[u8]) -> Result<()> {
        self.plane(catalog, program).map(|_| ())
    }

    fn load(&mut self, catalog: &Catalog, program: &[u8]) -> Result<Initial> {
        let (plane, initial) = self.plane(catalog, program)?;
        self.saved = Some(plane);
        Ok(initial)
    }

    fn discard(&mut self) {
        self.saved = None;
    }

    fn commit(&mut self) {
        let plane = self.saved.take().expect("a program was loaded");
        let mut running = self.shared.lock_as_session();
        let before = running.plane.replace(plane);
        if let Some(before) = &before {
            for reason in DropReason::ALL {
                let drops = before.target.counts().drops(reason);
                *running.past_drops.entry(reason.name()).or_default() += drops;
            }
        }
        drop(running);
        // Dropping a large program takes time; packets continue meanwhile.
        drop(before);
    }

    fn apply(&mut self, side: Side, change: &[Operation]) -> std::result::Result<(), Refusal> {
        let cpu_port = self.config.cpu_port;
        let clock = self.config.clock.clone();
        let mut refused = None;
        let done = self.with(side, |plane| {
            if let Err(refusal) = plane.apply(change, cpu_port, clock()) {
                refused = Some(refusal);
            }
            Ok(())
        });
        match (refused, done) {
            (Some(refusal), _) => Err(refusal),
            (None, Err(problem)) => Err(Refusal { index: 0, problem }),
            (None, Ok(())) => Ok(()),
        }
    }

    fn counts(&mut self, side: Side, counter: u32, indices: Range<u64>) -> Result<Vec<Count>> {
        self.with(side, |plane| plane.counts(counter, indices))
    }

    fn registers(
        &mut self,
        side: Side,
        register: u32,
        indices: Range<u64>,
    ) -> Result<Vec<Vec<Value>>> {
        self.with(side, |plane| plane.registers(register, indices))
    }

    fn entries(&mut self, side: Side, table: u32, entries: &[EntryRef]) -> Result<Vec<EntryState>> {
        let clock = self.config.clock.clone();
        self.with(side, |plane| plane.entries(table, entries, clock()))
    }

    fn inject(&mut self, packet: &[u8]) -> Result<()> {
        if self.config.cpu_port.is_none() {
            return Err(Problem::new(
                Code::FailedPrecondition,
                "the switch has no port for the controller; set cpu_port in [p4]",
            ));
        }
        let mut injected = lock(&self.shared.injected);
        if injected.len() >= MAX_INJECTED {
            let text = "too many packets of the controller wait; send more slowly";
            return Err(Problem::new(Code::ResourceExhausted, text));
        }
        injected.push_back(packet.to_vec());
        drop(injected);
        (self.shared.wake)();
        Ok(())
    }
}

impl P4Forwarder {
    /// Takes the program for a burst; see the invariants.
    pub fn begin(&self) -> P4Burst<'_> {
        while self.shared.waiting.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        P4Burst {
            running: lock(&self.shared.running),
        }
    }

    /// Takes a waiting packet from the controller.
    pub fn take_injected(&self) -> Option<Vec<u8>> {
        lock(&self.shared.injected).pop_front()
    }

    /// Whether a packet from the controller is waiting.
    pub fn has_injected(&self) -> bool {
        !lock(&self.shared.injected).is_empty()
    }

    /// The controller's port.
    pub fn cpu_port(&self) -> Option<u32> {
        self.cpu_port
    }

    /// The traversal cache's counters for the running program, if it has one.
    pub fn traversals(&self) -> Option<CacheStatistics> {
        let running = lock(&self.shared.running);
        running.plane.as_ref()?.target.cache_statistics().cloned()
    }

    /// The behaviour cache's counters and size for the running program, if it has one.
    pub fn behaviors(&self) -> Option<(BehaviorCounts, usize)> {
        let running = lock(&self.shared.running);
        let target = &running.plane.as_ref()?.target;
        Some((target.behavior_counts()?.clone(), target.behavior_count()))
    }

    /// Installs a training result; that of an earlier program is dropped.
    pub fn install(&self, index: BuiltIndex<TargetOwner>) {
        if let Some(plane) = &mut lock(&self.shared.running).plane {
            plane.target.install_training(index);
        }
    }

    /// Reports that taken training jobs will not be done.
    pub fn forget_training(&self) {
        if let Some(plane) = &mut lock(&self.shared.running).plane {
            plane.target.forget_training();
        }
    }

    /// Dropped packets by reason, over all programs so far.
    pub fn drops(&self) -> BTreeMap<&'static str, u64> {
        let running = lock(&self.shared.running);
        let mut drops = running.past_drops.clone();
        *drops.entry("p4_no_program").or_default() += running.without_program;
        if let Some(plane) = &running.plane {
            for reason in DropReason::ALL {
                *drops.entry(reason.name()).or_default() += plane.target.counts().drops(reason);
            }
        }
        drops.retain(|_, count| *count > 0);
        drops
    }
}

impl P4Burst<'_> {
    /// Runs the program on a packet; appends the results to `outbox`.
    pub fn receive(&mut self, port: u32, packet: &[u8], now: Instant, outbox: &mut Outbox) {
        match &mut self.running.plane {
            Some(plane) => plane.target.receive(port, packet, now, outbox),
            None => self.running.without_program += 1,
        }
    }

    /// Takes a training job for a better index of the program, if there is one;
    /// [`P4Forwarder::install`] takes the result.
    pub fn take_training(&mut self) -> Option<IndexJob<TargetOwner>> {
        self.running.plane.as_mut()?.target.take_training()
    }

    /// The digests of an outbox: P4Info ids with the numbers of their types.
    ///
    /// Digests that P4Info does not know are omitted.
    pub fn digests(&self, outbox: &Outbox) -> Vec<(u32, Vec<Value>)> {
        let Some(plane) = &self.running.plane else {
            return Vec::new();
        };
        outbox
            .digests()
            .filter_map(|digest| plane.digest(digest))
            .collect()
    }
}
