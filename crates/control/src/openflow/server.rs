//! The server of OpenFlow: sockets and a clock around one [`Agent`].
//!
//! ```text
//!   thread "openflow":  listeners, controllers --> a task for each connection --> Agent, Target
//!                       events of the target, probes and time-outs ------------->
//! ```
//!
//! All connections of a switch live on one thread with one event loop, off the packet path.
//!
//! 1. Plain TCP beyond loopback is refused unless it is explicitly allowed; a Unix socket is
//!    its owner's only.
//! 2. A connection beyond the bound is closed at once and counted. A client that takes no bytes
//!    for [`WRITE_PATIENCE`] is given up.
//! 3. When [`OpenFlowServer::stop`] returns, the thread has ended and Unix sockets are removed.

mod address;
mod connection;
mod controllers;
mod standalone;
mod watch;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Clock};

use thalweg_openflow::Versions;
use thalweg_openflow::message::connection::Role;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, oneshot};
use tokio::task::LocalSet;
use tokio_rustls::TlsAcceptor;

pub use self::address::{AddressError, ListenAddress, Remote};
pub use self::standalone::STANDALONE_COOKIE;
pub use self::watch::{MessageEar, MessageSight, SharedEar};
use super::agent::{
    Agent, AgentCounters, AgentLimits, ConnectionConfig, ConnectionId, ConnectionKind,
};
use super::target::Target;
use crate::server::listen::{Bound, bind};
use crate::server::tls;
use crate::server::{ServerError, TlsFiles};

/// How long a client may take no bytes.
const WRITE_PATIENCE: Duration = Duration::from_secs(60);
/// The silence after which a client that connected by itself is probed, as in Open vSwitch.
const CLIENT_PROBE_INTERVAL: Duration = Duration::from_secs(60);

/// The longest time between two looks at probes and time-outs.
const TICK: Duration = Duration::from_millis(500);

/// Most texts about refused messages that wait for the owner.
const REFUSALS: usize = 256;

/// Tells the time by which probes, time-outs and pauses go, from any start. A clock may be moved
/// by hand; [`OpenFlowServer::nudge`] has the server look at it.
pub type OpenFlowClock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// How the connection to a controller is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ControllerStatus {
    /// Whether both speak OpenFlow.
    pub is_connected: bool,
    /// The controller's role, while it is connected.
    pub role: Option<Role>,
    /// When the last connection was made, by the server's clock.
    pub connected_at: Option<Duration>,
    /// When the last connection ended.
    pub disconnected_at: Option<Duration>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// Whether an attempt is under way, whose outcome is not known yet.
    pub is_attempting: bool,
}

/// What the switch does while no controller speaks with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FailMode {
    /// It keeps its rules.
    #[default]
    Secure,
    /// It forwards like a learning switch, until a controller is back.
    Standalone,
}

/// A controller that the switch connects to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControllerTarget {
    /// Where it is.
    pub address: Remote,
    /// What differs for this one; without it, the server's values count.
    pub pace: Option<ControllerPace>,
}

impl From<Remote> for ControllerTarget {
    fn from(address: Remote) -> ControllerTarget {
        ControllerTarget {
            address,
            pace: None,
        }
    }
}

/// How often a controller hears of the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ControllerPace {
    /// After this time without input it is asked for an echo; `None` never asks.
    pub probe_interval: Option<Duration>,
    /// The longest time between two attempts to reach it.
    pub max_backoff: Duration,
    /// Packets a second; `None` for no limit.
    pub packet_rate: Option<u32>,
}

/// What a server does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenFlowConfig {
    /// Where clients may connect.
    pub listen: Vec<ListenAddress>,
    /// Where copies of what switch and controllers say can be read.
    pub snoop: Vec<ListenAddress>,
    /// The controllers that the switch connects to.
    pub controllers: Vec<ControllerTarget>,
    /// What happens without a controller.
    pub fail_mode: FailMode,
    /// Whether the switch has, or is about to get, the rules of a former server. A standalone
    /// switch without controllers then gets no rule that forwards: it would replace one of them.
    pub is_resumed: bool,
    /// The versions that are spoken.
    pub versions: Versions,
    /// Files for TLS; needed where an address uses it.
    pub tls: Option<TlsFiles>,
    /// Whether plain TCP beyond loopback is allowed.
    pub allows_remote: bool,
    /// After this time without input a controller is asked for an echo; `None` never asks.
    pub probe_interval: Option<Duration>,
    /// The longest time between two attempts to reach a controller.
    pub max_backoff: Duration,
    /// Packets a second for one connection; `None` for no limit.
    pub packet_rate: Option<u32>,
    /// Changes a second that one connection may ask for; `None` for no limit.
    pub change_rate: Option<u32>,
    /// Most connections of clients, for each listener.
    pub connections: usize,
    /// Limits of the agent.
    pub agent: AgentLimits,
}

impl OpenFlowConfig {
    /// The pace of a controller.
    fn pace(&self, controller: &ControllerTarget) -> ControllerPace {
        controller.pace.unwrap_or(ControllerPace {
            probe_interval: self.probe_interval,
            max_backoff: self.max_backoff,
            packet_rate: self.packet_rate,
        })
    }
}

impl Default for OpenFlowConfig {
    fn default() -> OpenFlowConfig {
        OpenFlowConfig {
            listen: Vec::new(),
            snoop: Vec::new(),
            controllers: Vec::new(),
            fail_mode: FailMode::Secure,
            is_resumed: false,
            versions: Versions::ALL,
            tls: None,
            allows_remote: false,
            probe_interval: Some(Duration::from_secs(5)),
            max_backoff: Duration::from_secs(8),
            packet_rate: None,
            change_rate: None,
            connections: 256,
            agent: AgentLimits::default(),
        }
    }
}

/// The counters of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenFlowServerCounters {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections closed at once: there were too many.
    pub refused: u64,
    /// Connections to controllers that were made.
    pub connected: u64,
    /// Attempts to reach a controller that failed.
    pub unreachable: u64,
    /// Handshakes of TLS that failed.
    pub failed_handshakes: u64,
    /// The counters of the connections' agent, up to half a second old.
    pub agent: AgentCounters,
}

#[derive(Debug, Default)]
struct Counters {
    accepted: AtomicU64,
    refused: AtomicU64,
    connected: AtomicU64,
    unreachable: AtomicU64,
    failed_handshakes: AtomicU64,
    agent: Mutex<AgentCounters>,
}

impl Counters {
    /// Lock poisoning is ignored: the counters are whole at any time.
    fn agent(&self) -> MutexGuard<'_, AgentCounters> {
        self.agent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A running server.
#[derive(Debug)]
pub struct OpenFlowServer {
    addresses: Vec<String>,
    sockets: Vec<PathBuf>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    counters: Arc<Counters>,
    shown: Arc<Shown>,
}

/// The state that the server's thread shows to its owner.
#[derive(Debug)]
struct Shown {
    has_controller: AtomicBool,
    /// How often the server looked at the time and the target's events.
    turns: AtomicU64,
    /// Has it look again.
    bell: Arc<Notify>,
    /// By the controllers of the configuration.
    controllers: Mutex<Vec<ControllerStatus>>,
    /// Texts about refused messages, for the owner's log.
    refusals: Mutex<Vec<String>>,
}

impl Shown {
    /// Lock poisoning is ignored: a status is whole at any time.
    fn controllers(&self) -> MutexGuard<'_, Vec<ControllerStatus>> {
        self.controllers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shown {
    /// Lock poisoning is ignored: each text is whole.
    fn refusals(&self) -> MutexGuard<'_, Vec<String>> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenFlowServer {
    /// Starts a server for a switch.
    ///
    /// # Errors
    /// If an address cannot be used, TLS lacks its files, or no thread can be started.
    pub fn start<T: Target + 'static>(
        target: T,
        config: OpenFlowConfig,
    ) -> Result<OpenFlowServer, ServerError> {
        let start = Clock::now();
        OpenFlowServer::start_by(target, config, Arc::new(move || start.elapsed()), None)
    }

    /// The same, with a clock, and an ear that hears what connections carry.
    ///
    /// # Errors
    /// As [`OpenFlowServer::start`].
    pub fn start_by<T: Target + 'static>(
        target: T,
        config: OpenFlowConfig,
        clock: OpenFlowClock,
        ear: Option<SharedEar>,
    ) -> Result<OpenFlowServer, ServerError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ServerError::Thread)?;
        let (clients, mut sockets) = listeners(&runtime, &config.listen, &config)?;
        let (snoopers, of_snoopers) = listeners(&runtime, &config.snoop, &config)?;
        sockets.extend(of_snoopers);
        let addresses = clients.iter().map(|(bound, _)| bound.address()).collect();
        let connector = controllers::connector(&config)?;
        let counters = Arc::new(Counters::default());
        // The first attempts begin as soon as the thread runs.
        let at_start = ControllerStatus {
            is_attempting: true,
            ..ControllerStatus::default()
        };
        let shown = Arc::new(Shown {
            has_controller: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            bell: Arc::new(Notify::new()),
            controllers: Mutex::new(vec![at_start; config.controllers.len()]),
            refusals: Mutex::default(),
        });
        let (end, ended) = oneshot::channel();
        let (of_thread, told) = (counters.clone(), shown.clone());
        let thread = std::thread::Builder::new().name("openflow".to_owned());
        let thread = thread.spawn(move || {
            let hub = Rc::new(Hub::new(target, config, (clock, ear), (of_thread, told)));
            let set = LocalSet::new();
            set.spawn_local(hub.clone().follow());
            for (bound, acceptor) in clients {
                set.spawn_local(hub.clone().accept(bound, acceptor, Purpose::Client));
            }
            for (bound, acceptor) in snoopers {
                set.spawn_local(hub.clone().accept(bound, acceptor, Purpose::Snooper));
            }
            for index in 0..hub.config.controllers.len() {
                set.spawn_local(hub.clone().reach(index, connector.clone()));
            }
            // The sender is dropped at the end, too.
            let _ = set.block_on(&runtime, ended);
            *hub.counters.agent() = hub.agent.borrow().counters();
        });
        Ok(OpenFlowServer {
            addresses,
            sockets,
            end: Some(end),
            thread: Some(thread.map_err(ServerError::Thread)?),
            counters,
            shown,
        })
    }

    /// The addresses that clients may connect to, with the ports that the system chose.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Whether some controller speaks with the switch.
    pub fn has_controller(&self) -> bool {
        self.shown.has_controller.load(Ordering::Relaxed)
    }

    /// How the connections to the controllers of the configuration are, in its order.
    pub fn controllers(&self) -> Vec<ControllerStatus> {
        self.shown.controllers().clone()
    }

    /// Texts about messages that were refused since the last call, for a log.
    pub fn take_refusals(&self) -> Vec<String> {
        std::mem::take(&mut self.shown.refusals())
    }

    /// Has the server look at its clock and at what the switch did, soon.
    pub fn nudge(&self) {
        self.shown.bell.notify_one();
    }

    /// How often it has looked.
    pub fn turns(&self) -> u64 {
        self.shown.turns.load(Ordering::Acquire)
    }

    /// Whether it has looked once: a standalone switch without controllers then has its rule.
    pub fn has_begun(&self) -> bool {
        self.turns() > 0
    }

    /// Its counters.
    pub fn counters(&self) -> OpenFlowServerCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OpenFlowServerCounters {
            accepted: get(&self.counters.accepted),
            refused: get(&self.counters.refused),
            connected: get(&self.counters.connected),
            unreachable: get(&self.counters.unreachable),
            failed_handshakes: get(&self.counters.failed_handshakes),
            agent: *self.counters.agent(),
        }
    }

    /// Ends all connections and the thread.
    ///
    /// The switch must still answer calls of its target, or have dropped them.
    pub fn stop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
            for socket in &self.sockets {
                // It may have been removed by someone else.
                let _ = std::fs::remove_file(socket);
            }
        }
    }
}

impl Drop for OpenFlowServer {
    fn drop(&mut self) {
        drop(self.end.take());
    }
}

/// A listener, and the acceptor of its TLS handshakes.
type Listener = (Bound, Option<TlsAcceptor>);

fn listeners(
    runtime: &Runtime,
    addresses: &[ListenAddress],
    config: &OpenFlowConfig,
) -> Result<(Vec<Listener>, Vec<PathBuf>), ServerError> {
    let (mut bounds, mut sockets) = (Vec::new(), Vec::new());
    for address in addresses {
        let listen = address.listen();
        if address.is_plain_and_remote() && !config.allows_remote {
            let what = "plain TCP beyond loopback lets anyone control the switch; use tls: or \
                        allow it explicitly";
            let source = std::io::Error::new(std::io::ErrorKind::PermissionDenied, what);
            return Err(ServerError::Bind {
                address: listen.to_string(),
                source,
            });
        }
        let acceptor = tls::acceptor(listen, config.tls.as_ref(), &[])?;
        bounds.push((bind(runtime, listen)?, acceptor));
        sockets.extend(listen.socket());
    }
    Ok((bounds, sockets))
}

/// What a client's connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Client,
    Snooper,
}

/// The state that all tasks share.
struct Hub<T> {
    agent: RefCell<Agent<T>>,
    config: OpenFlowConfig,
    clock: OpenFlowClock,
    /// Hears what connections carry.
    ear: Option<SharedEar>,
    /// Wakes the task of each connection.
    wakers: RefCell<BTreeMap<ConnectionId, Rc<Notify>>>,
    /// The connections to controllers, with their places in the configuration.
    reached: RefCell<BTreeMap<ConnectionId, usize>>,
    /// Sessions that get copies.
    snoopers: RefCell<Vec<ConnectionId>>,
    /// Rung by the target when it has events.
    events: Arc<Notify>,
    counters: Arc<Counters>,
    shown: Arc<Shown>,
}

impl<T: Target + 'static> Hub<T> {
    fn new(
        target: T,
        config: OpenFlowConfig,
        (clock, ear): (OpenFlowClock, Option<SharedEar>),
        (counters, shown): (Arc<Counters>, Arc<Shown>),
    ) -> Hub<T> {
        let mut agent = Agent::new(target, config.agent);
        let events = shown.bell.clone();
        let bell = events.clone();
        agent.target().wake_by(Arc::new(move || bell.notify_one()));
        // The first look is at once: a standalone switch must forward before it is asked.
        events.notify_one();
        Hub {
            agent: RefCell::new(agent),
            config,
            clock,
            ear,
            wakers: RefCell::default(),
            reached: RefCell::default(),
            snoopers: RefCell::default(),
            events,
            counters,
            shown,
        }
    }

    fn now(&self) -> Duration {
        (self.clock)()
    }

    /// Wakes the tasks of all connections: something may wait to be written.
    fn wake_all(&self) {
        self.wakers
            .borrow()
            .values()
            .for_each(|waker| waker.notify_one());
    }

    /// Follows the target's events and the time.
    async fn follow(self: Rc<Self>) {
        let mut standalone = standalone::Standalone::new(&self.config);
        loop {
            let deadline = self.agent.borrow_mut().tick(self.now());
            let wait = deadline.map_or(TICK, |deadline| deadline.saturating_sub(self.now()));
            let wait = wait.clamp(Duration::from_millis(1), TICK);
            // Either is fine: both are looked at.
            let _ = tokio::time::timeout(wait, self.events.notified()).await;
            let now = self.now();
            let mut agent = self.agent.borrow_mut();
            agent.handle_events(now);
            let has_controller = agent.has_controller();
            self.shown
                .has_controller
                .store(has_controller, Ordering::Relaxed);
            standalone.follow(&mut agent, has_controller, now);
            *self.counters.agent() = agent.counters();
            drop(agent);
            self.show_controllers();
            self.share_copies();
            self.wake_all();
            self.shown.turns.fetch_add(1, Ordering::Release);
        }
    }

    /// Keeps what a connection was refused for the owner, as far as the owner asks for it.
    fn keep_refusals(&self, id: ConnectionId) {
        let refused = self.agent.borrow_mut().take_refusals(id);
        if !refused.is_empty() {
            let mut kept = self.shown.refusals();
            kept.extend(refused);
            kept.truncate(REFUSALS);
        }
    }

    /// Gives snoopers the messages of controllers.
    fn share_copies(&self) {
        let mut agent = self.agent.borrow_mut();
        let snoopers = self.snoopers.borrow();
        for message in agent.take_copies() {
            for id in snoopers.iter() {
                agent.send_copy(*id, &message);
            }
        }
    }

    /// What a client's connection may do.
    fn client_config(&self, purpose: Purpose) -> ConnectionConfig {
        let kind = match purpose {
            Purpose::Client => ConnectionKind::Service,
            Purpose::Snooper => ConnectionKind::Snooper,
        };
        ConnectionConfig {
            kind,
            versions: self.config.versions,
            // Nothing is sent to a snooper but what controllers are sent.
            probe_interval: (purpose == Purpose::Client).then_some(CLIENT_PROBE_INTERVAL),
            packet_rate: self.config.packet_rate,
            change_rate: self.config.change_rate,
        }
    }
}
