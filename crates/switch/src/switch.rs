//! A running switch: workers on their own threads, and a control side on the caller's.
//!
//! ```text
//!                    commands (one at a time)
//!   control side  ------------------------------>  worker 1: ports, caches, pool
//!   (the caller)  <------------------------------  worker 2: ports, caches, pool
//!        |          answers; news (bounded)           |   ^
//!        |                                            +---+ packets for each other's ports,
//!        +---- writes ----> pipeline <---- reads -----+     by exchange (bounded)
//! ```
//!
//! The caller uses [`Switch::apply`] for its own changes, and calls [`Switch::poll`] again and
//! again, which learns stations, follows ports and handles timeouts. `control.rs` describes
//! how a change is made, `worker.rs` and `rule_duty.rs` how packets pass.
//!
//! 1. When [`Switch::apply`] returns, no packet will be sent that was answered at an older
//!    version.
//! 2. Every burst is answered at one version, on one worker.
//! 3. [`Switch::totals`] is exact: every packet that a port has received is counted where it
//!    went.
//! 4. Queues between threads are bounded, and packets that do not fit are counted.
//! 5. Workers repair their caches in slices between bursts, after the change is acknowledged;
//!    the next change waits for that.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::{Arc, Weak};

use thalweg_conntrack::Tracker;
use thalweg_conntrack::text::FlushRequest;
use thalweg_datapath::{Datapath, Gate, HandFlows, Index, Work};
use thalweg_io::PortStatus;
use thalweg_openflow::message::nicira::TlvMap;
use thalweg_packet::{Instant, PacketPool, PortId};
use thalweg_pipeline::{
    BridgeId, Change, ChangeError, Connections, LearnedCounts, MacMove, Operation, Outbox,
    Pipeline, PortState, Walker,
};

use crate::clock::Clock;
use crate::connections::TrackingConfig;
use crate::control::Unsettled;
use crate::doorbell::Doorbell;
use crate::exchange::Exchange;
use crate::message::{Answer, Command, News, PacketIn};
use crate::openflow::Desks;
use crate::orphans::Orphans;
use crate::patches::Patches;
use crate::plugging::{Plugs, check_packets, status_at_first};
use crate::port_settings::PortSettings;
use crate::ports::{Attached, Routes, SwitchPort};
use crate::rule_duty::{Channels, RuleDuty, Shared};
use crate::snapshot::KeptVersion;
use crate::sync::{
    AtomicBool, JoinHandle, Mutex, Receiver, RwLockReadGuard, Sender, bounded, spawn,
};
use crate::totals::ChangeCounters;
use crate::training::Trainer;
use crate::tunnel_options::OptionsFollower;
use crate::upcalls::Upcalls;
use crate::upkeep::Upkeep;
use crate::v2p::{Node, V2pConfig, V2pError, V2pMap, lock};
use crate::worker::Worker;

/// Limits of a running switch.
#[derive(Clone, Debug)]
pub struct SwitchConfig {
    /// Limits of the pipeline.
    pub pipeline: thalweg_pipeline::Config,
    /// Limits of each worker's caches.
    pub datapath: thalweg_datapath::Config,
    /// Forwarding threads; ports are assigned round-robin.
    pub workers: usize,
    /// Packets that each worker owns.
    pub packets_per_worker: usize,
    /// Room for each packet; longer packets make it grow.
    pub packet_bytes: usize,
    /// Most packets from other workers waiting for the ports of one worker.
    pub exchange_packets: usize,
    /// Most packets waiting for the controller.
    pub packet_ins: usize,
    /// Most reports of stations and ports waiting for the control side.
    pub news: usize,
    /// Its role in a fabric that caches virtual addresses, if it has one.
    pub v2p: Option<V2pConfig>,
    /// How it tracks connections.
    pub tracking: TrackingConfig,
    /// Whether frames that stand for segments stay whole between ports that can give and take
    /// them; in a fabric that caches virtual addresses they never do.
    pub keeps_segments: bool,
    /// Whether workers hold packets from the start ([`Switch::hold_packets`]).
    pub holds_packets: bool,
    /// What the clock shows at the start: more than zero where a former switch's instants are to
    /// mean the same ([`crate::SavedSwitch::clock`]).
    pub starts_at: Instant,
}

impl SwitchConfig {
    /// Bytes that a switch takes when it starts, at the least: buffers and exact-match caches.
    pub fn bytes_at_start(&self) -> u64 {
        let packets = (self.packets_per_worker + self.exchange_packets) as u64;
        let worker = packets * self.packet_bytes as u64 + self.datapath.bytes_at_start();
        self.workers as u64 * worker
    }
}

impl Default for SwitchConfig {
    fn default() -> SwitchConfig {
        SwitchConfig {
            pipeline: thalweg_pipeline::Config::default(),
            datapath: thalweg_datapath::Config::default(),
            workers: 1,
            packets_per_worker: 4_096,
            packet_bytes: 2_048,
            exchange_packets: 2_048,
            packet_ins: 1_024,
            news: 1_024,
            v2p: None,
            tracking: TrackingConfig::default(),
            keeps_segments: true,
            holds_packets: false,
            starts_at: Instant::ZERO,
        }
    }
}

/// Why a switch cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchError {
    /// A limit of the caches makes no sense.
    #[error(transparent)]
    Datapath(#[from] thalweg_datapath::ConfigError),
    /// A rule cannot be added.
    #[error(transparent)]
    Rules(#[from] ChangeError),
    /// The V2P configuration is invalid.
    #[error(transparent)]
    V2p(#[from] V2pError),
    /// No thread would forward.
    #[error("a switch needs at least 1 worker")]
    NoWorkers,
    /// Two ports have the same number.
    #[error("two ports have number {number}; give each its own")]
    DuplicatePort {
        /// The number.
        number: PortId,
    },
    /// Too few packets: some are received into while others are on their way.
    #[error("{packets} packets for each worker are too few; {needed} are the least")]
    FewPackets {
        /// Packets as configured.
        packets: usize,
        /// The least number that is enough.
        needed: usize,
    },
    /// The operating system refused a thread or a descriptor.
    #[error("starting worker {worker} failed: {source}; free some memory or descriptors")]
    System {
        /// The worker, from 0.
        worker: usize,
        /// The system's error.
        source: io::Error,
    },
}

/// A worker, as the control side knows it.
pub(crate) struct Handle {
    pub(crate) commands: Sender<Command>,
    /// The record of what its entries depend on, if it keeps one.
    pub(crate) index: Option<Index>,
    pub(crate) thread: JoinHandle<()>,
}

/// A running switch.
///
/// ```
/// use std::time::Duration;
/// use thalweg_io::MemoryPort;
/// use thalweg_packet::PortId;
/// use thalweg_pipeline::{Change, text};
/// use thalweg_switch::{Switch, SwitchConfig, SwitchPort};
///
/// let (first, source) = MemoryPort::new(PortId(1), 64);
/// let (second, sink) = MemoryPort::new(PortId(2), 64);
/// let ports = vec![
///     SwitchPort::new(PortId(1), Box::new(first)),
///     SwitchPort::new(PortId(2), Box::new(second)),
/// ];
/// let mut switch = Switch::start(SwitchConfig::default(), ports)?;
/// let rule = text::parse_flow("in_port=1,actions=output:2")?;
/// switch.apply(&Change::adding([rule]))?;
/// source.inject(&[0; 60]);
/// while sink.collect().is_empty() {
///     switch.poll(Duration::from_millis(10));
/// }
/// let totals = switch.stop();
/// assert_eq!(totals.datapath.packets, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Switch {
    pub(crate) shared: Arc<Shared>,
    pub(crate) handles: Vec<Handle>,
    pub(crate) answers: Receiver<Answer>,
    pub(crate) news: Receiver<News>,
    pub(crate) upkeep: Upkeep,
    /// Flushes that the tracker has not been told of yet.
    pub(crate) flushes: Vec<FlushRequest>,
    /// What workers told of upcalls.
    pub(crate) upcalls: Upcalls,
    /// Station moves for the next learning change.
    pub(crate) moves: Vec<MacMove>,
    pub(crate) next_learning: Instant,
    /// When taught rules may be learned next.
    pub(crate) next_lesson: Instant,
    /// Whether connections may wait for being forgotten.
    pub(crate) are_connections_left: bool,
    /// Whose connections are to end, if they end with their rules.
    pub(crate) orphans: Option<Orphans>,
    pub(crate) own_changes: u64,
    /// The latest changes, each until every worker's caches are repaired.
    pub(crate) unsettled: VecDeque<Unsettled>,
    /// The routes that every worker has.
    pub(crate) routes: Arc<Routes>,
    pub(crate) plugs: Plugs,
    /// The flows that were put in front of the caches by hand, as long as workers have them.
    pub(crate) by_hand: Option<Arc<HandFlows>>,
    /// For the walks that workers leave to the control side.
    pub(crate) walker: Walker,
    pub(crate) changes: ChangeCounters,
    /// The work of following changes.
    pub(crate) maintenance: Work,
    pub(crate) trainer: Trainer,
    /// The sources that are not finished.
    pub(crate) open_sources: Vec<PortId>,
    pub(crate) has_sources: bool,
    /// The ports' states, as far as workers told them.
    pub(crate) links: BTreeMap<PortId, PortStatus>,
    /// How often workers told a state.
    pub(crate) link_changes: u64,
    pub(crate) settings: PortSettings,
    /// The ends of patches, which have no device.
    pub(crate) patches: Patches,
    /// OpenFlow's side of the bridges that OpenFlow drives.
    pub(crate) desks: Desks,
    pub(crate) options_follower: Option<OptionsFollower>,
    /// The options of tunnels that have a field, by bridge.
    pub(crate) tunnel_options: BTreeMap<BridgeId, Vec<TlvMap>>,
    /// The version that a snapshot is written of.
    pub(crate) kept_version: Weak<KeptVersion>,
    packet_ins: Receiver<PacketIn>,
    attention: Sender<News>,
}

/// Ends a [`Switch::poll`] from another thread.
#[derive(Clone, Debug)]
pub struct Interrupter {
    attention: Sender<News>,
}

impl Interrupter {
    /// Makes the current or next poll return without waiting.
    pub fn interrupt(&self) {
        // A full channel already ends the poll.
        let _ = self.attention.try_send(News::Attention);
    }
}

impl Switch {
    /// Starts workers that forward between `ports`; without rules nothing passes yet.
    ///
    /// # Errors
    /// If a limit makes no sense, or the operating system refuses.
    pub fn start(config: SwitchConfig, ports: Vec<SwitchPort>) -> Result<Switch, SwitchError> {
        Switch::start_with(config, ports, &Change::default())
    }

    /// The same with rules, which exist before the first packet is received.
    ///
    /// # Errors
    /// If a limit makes no sense, a rule cannot be added, or the operating system refuses.
    pub fn start_with(
        config: SwitchConfig,
        ports: Vec<SwitchPort>,
        rules: &Change,
    ) -> Result<Switch, SwitchError> {
        check(&config, &ports)?;
        let node = config.v2p.as_ref().map(Node::new).transpose()?;
        let clock = Clock::start();
        clock.skip_to(config.starts_at);
        let numbers: Vec<PortId> = ports.iter().map(|port| port.number).collect();
        let mut settings = PortSettings::new(config.keeps_segments && node.is_none());
        let (ports, sources) = attach(ports, &mut settings);
        let (pipeline, upkeep, learned) = begin(&config, &ports, rules, &clock)?;
        let shared = share(&config, (clock, pipeline), node, learned)?;
        // One for a change being repaired, two for the next.
        let (answers_in, answers) = bounded(3 * config.workers);
        let (attention, news) = bounded(config.news.max(1));
        let (packet_ins_in, packet_ins) = bounded(config.packet_ins.max(1));
        let mut switch = Switch {
            links: links_of(&ports),
            shared,
            handles: Vec::new(),
            answers,
            news,
            upkeep,
            flushes: Vec::new(),
            upcalls: Upcalls::new(&config.datapath),
            moves: Vec::new(),
            next_learning: Instant::ZERO,
            next_lesson: Instant::ZERO,
            are_connections_left: false,
            orphans: config.tracking.follows_rules.then(Orphans::default),
            own_changes: 0,
            unsettled: VecDeque::new(),
            routes: Arc::new(Routes::new(&numbers, config.workers)),
            plugs: Plugs::new(),
            by_hand: None,
            walker: Walker::default(),
            changes: ChangeCounters::default(),
            maintenance: Work::default(),
            trainer: Trainer::default(),
            has_sources: !sources.is_empty(),
            open_sources: sources,
            link_changes: 0,
            settings,
            patches: Patches::default(),
            desks: Desks::default(),
            options_follower: None,
            tunnel_options: BTreeMap::new(),
            kept_version: Weak::new(),
            packet_ins,
            attention,
        };
        for ports in share_out(ports, config.workers) {
            let (commands, commands_out) = bounded(2);
            let channels = Channels {
                commands: commands_out,
                answers: answers_in.clone(),
                news: switch.attention.clone(),
                packet_ins: packet_ins_in.clone(),
            };
            switch.add_worker(&config, ports, commands, channels)?;
        }
        switch.trainer.note_change();
        Ok(switch)
    }

    fn add_worker(
        &mut self,
        config: &SwitchConfig,
        ports: Vec<Attached>,
        commands: Sender<Command>,
        channels: Channels,
    ) -> Result<(), SwitchError> {
        let number = self.handles.len();
        let datapath = Datapath::new(config.datapath.clone(), &self.pipeline())?;
        let index = datapath.index();
        let pool = PacketPool::with_capacity(config.packets_per_worker, config.packet_bytes);
        let shared = self.shared.clone();
        let mut outbox = Outbox::with_connections(pool, self.shared.connections.clone())
            .with_meters(self.pipeline().meters().clone());
        // Workers draw different numbers.
        outbox.chance = self.shared.connections.seed() ^ (number as u64) << 32;
        outbox.learned = self.shared.learned.clone();
        let routes = self.routes.clone();
        let duty = RuleDuty::new(number, shared, channels, routes, datapath, outbox);
        let worker = Worker::new(duty, ports);
        let thread = spawn(format!("worker-{number}"), move || worker.run());
        let thread = thread.map_err(|source| SwitchError::System {
            worker: number,
            source,
        })?;
        self.handles.push(Handle {
            commands,
            index,
            thread,
        });
        Ok(())
    }

    /// The pipeline, with the rules after the last change.
    ///
    /// Rule counters are those of the last [`Switch::totals`]. A change waits while the guard
    /// is held.
    pub fn pipeline(&self) -> RwLockReadGuard<'_, Pipeline> {
        self.shared.pipeline.read()
    }

    /// The time since the switch started, as used in rules and packets.
    pub fn now(&self) -> Instant {
        self.shared.clock.now()
    }

    /// The tracker of connections.
    pub fn tracker(&self) -> &Tracker {
        self.shared.connections.tracker()
    }

    /// The clock of rules and packets, which can be stopped.
    pub fn clock(&self) -> Clock {
        self.shared.clock.clone()
    }

    /// Whether a port can carry packets, as far as its worker has told.
    pub fn has_link(&self, port: PortId) -> bool {
        self.links.get(&port) == Some(&PortStatus::Up)
    }

    /// How often the state of a port has changed.
    pub fn link_changes(&self) -> u64 {
        self.link_changes
    }

    /// Whether every source has delivered all its packets; false if there is no source.
    pub fn is_finished(&self) -> bool {
        self.has_sources && self.open_sources.is_empty()
    }

    /// Creates a handle that ends a [`Switch::poll`] from another thread, such as one waiting
    /// for signals.
    pub fn interrupter(&self) -> Interrupter {
        Interrupter {
            attention: self.attention.clone(),
        }
    }

    /// Replaces the map of the fabric, for a switch that takes part in one.
    ///
    /// # Errors
    /// If the map is older than the one in use, or does not contain this switch; the map in
    /// use then stays.
    pub fn set_v2p_map(&self, map: Arc<V2pMap>) -> Result<(), V2pError> {
        match &self.shared.node {
            Some(node) => lock(node).set_map(map),
            None => Ok(()),
        }
    }

    /// Packets for the controller since the last call; none where OpenFlow drives the switch,
    /// which has controllers of its own.
    pub fn take_packet_ins(&mut self) -> Vec<PacketIn> {
        match self.desks.is_empty() {
            true => self.collect_packet_ins(),
            false => Vec::new(),
        }
    }

    /// The same for the caller that drives the switch.
    pub(crate) fn collect_packet_ins(&mut self) -> Vec<PacketIn> {
        self.packet_ins.try_iter().collect()
    }
}

/// No connections. The seed comes from the system, not from the run: senders must know neither
/// the random numbers nor which connections share a place in the table.
fn connections(config: &TrackingConfig) -> Connections {
    let tracker = thalweg_conntrack::Config {
        seed: RandomState::new().hash_one(0),
        ..config.tracker
    };
    Connections::with_fragments(tracker, config.fragments.clone())
}

/// The doorbell of a worker.
fn doorbell(worker: usize) -> Result<Doorbell, SwitchError> {
    Doorbell::new().map_err(|source| SwitchError::System { worker, source })
}

/// What workers share.
fn share(
    config: &SwitchConfig,
    (clock, pipeline): (Clock, Pipeline),
    node: Option<Node>,
    learned: LearnedCounts,
) -> Result<Arc<Shared>, SwitchError> {
    let doorbells = (0..config.workers).map(doorbell);
    let exchange = || Exchange::new(config.exchange_packets, config.packet_bytes);
    Ok(Arc::new(Shared {
        clock,
        pipeline: Gate::new(pipeline),
        exchanges: (0..config.workers).map(|_| exchange()).collect(),
        doorbells: doorbells.collect::<Result<_, _>>()?,
        node: node.map(Mutex::new),
        connections: Arc::new(connections(&config.tracking)),
        learned: Arc::new(learned),
        holds_packets: AtomicBool::new(config.holds_packets),
    }))
}

/// Refuses limits that make no sense.
fn check(config: &SwitchConfig, ports: &[SwitchPort]) -> Result<(), SwitchError> {
    if config.workers == 0 {
        return Err(SwitchError::NoWorkers);
    }
    let mut numbers: Vec<PortId> = ports.iter().map(|port| port.number).collect();
    numbers.sort_unstable();
    if let Some(pair) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(SwitchError::DuplicatePort { number: pair[0] });
    }
    check_packets(config.packets_per_worker)
}

/// The pipeline with the first rules, before any packet.
fn begin(
    config: &SwitchConfig,
    ports: &[Attached],
    rules: &Change,
    clock: &Clock,
) -> Result<(Pipeline, Upkeep, LearnedCounts), SwitchError> {
    let mut pipeline = Pipeline::new(thalweg_pipeline::Config {
        names_committing_rules: config.tracking.follows_rules,
        ..config.pipeline.clone()
    });
    let mut upkeep = Upkeep::new(config.pipeline.stations);
    let learned = LearnedCounts::default();
    let announced = Change {
        operations: ports
            .iter()
            .map(|port| announcement(port, (false, true, true)))
            .collect(),
    };
    for change in [&announced, rules] {
        let delta = pipeline.apply(change, clock.now())?;
        learned.follow(&pipeline, &delta);
        // These changes only add rules.
        let forgotten = upkeep.lessons.follow(&pipeline, &delta);
        debug_assert!(forgotten.is_none());
        upkeep.conclude(&pipeline, &delta, &[], clock.now());
        pipeline.reclaim(delta.version);
    }
    Ok((pipeline, upkeep, learned))
}

/// The ports' states.
fn links_of(ports: &[Attached]) -> BTreeMap<PortId, PortStatus> {
    ports
        .iter()
        .map(|port| (port.number, port.status))
        .collect()
}

/// Asks each port for its status; also returns the sources that are not finished.
fn attach(ports: Vec<SwitchPort>, settings: &mut PortSettings) -> (Vec<Attached>, Vec<PortId>) {
    let sources = ports.iter().filter(|port| port.is_source);
    let sources = sources.map(|port| port.number).collect();
    let attached = ports.into_iter().map(|mut port| {
        let status = status_at_first(&mut *port.port);
        Attached::new(port.number, settings.wrap(port.number, port.port), status)
    });
    (attached.collect(), sources)
}

/// Assigns ports to workers round-robin, as in [`Routes`].
fn share_out(ports: Vec<Attached>, workers: usize) -> Vec<Vec<Attached>> {
    let mut shares: Vec<Vec<Attached>> = (0..workers).map(|_| Vec::new()).collect();
    for (index, port) in ports.into_iter().enumerate() {
        shares[index % workers].push(port);
    }
    shares
}

/// The operation that tells the pipeline of a port.
///
/// Its settings are whether it was taken down, floods and forwards.
pub(crate) fn announcement(
    port: &Attached,
    (is_taken_down, floods, forwards): (bool, bool, bool),
) -> Operation {
    let state = PortState {
        is_up: port.status == PortStatus::Up && !is_taken_down,
        floods,
        forwards,
        peer: None,
    };
    Operation::SetPort(port.number, state)
}

impl std::fmt::Debug for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Switch({} workers)", self.handles.len())
    }
}
