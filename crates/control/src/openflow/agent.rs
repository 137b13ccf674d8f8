//! The agent: all connections of one switch, without sockets and clock.
//!
//! ```text
//!   receive(bytes) --> session --> changes that wait together --> Target::change
//!                              --> requests --> Target::read, Target::flows
//!   handle_events() <-- Target: packets, ended rules, ports --> every connection that wants them
//!   take_output()   --> bytes; a dump goes on while its reader keeps up
//! ```
//!
//! 1. A message is answered after those in front of it, so a barrier's reply says that all of
//!    them are done.
//! 2. While a connection's replies exceed [`REPLY_BYTES`], or a dump is being written, nothing
//!    of its input is handled: a client cannot make the switch keep more than that for it.
//! 3. Messages sent unasked are dropped and counted where the reader is slow; replies,
//!    errors and barriers never are.

mod bundles;
mod changes;
mod flow_mods;
mod link;
mod monitors;
mod rate;
mod requests;
mod roles;
mod tlv;
mod unasked;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use thalweg_openflow::message::connection::Role;
use thalweg_openflow::{Session, SessionConfig, SessionCounters, Version, Versions};

pub use self::flow_mods::FlowModReport;
use super::target::Target;
use link::Link;

/// Bytes of replies after which a connection's input waits.
const REPLY_BYTES: usize = 4 << 20;
/// Bytes of output after which packets for a controller are dropped.
const UNASKED_BYTES: usize = 1 << 20;
/// Bytes of output after which a reader is given up rather than told more.
const MOST_BYTES: usize = 16 << 20;
/// Messages handled in one go before other connections have their turn.
const MESSAGES_PER_TURN: usize = 1_024;

/// A connection of an agent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId(pub u64);

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionKind {
    /// A client that connected by itself, as `ovs-ofctl` does. It hears nothing unasked until
    /// it sets how much of a packet it wants (`OFPT_SET_CONFIG`).
    Service,
    /// A controller that the switch is configured to have.
    Controller,
    /// Someone who reads along what controllers and the switch say, and may ask for nothing.
    Snooper,
}

/// What a connection is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionConfig {
    /// What it is for.
    pub kind: ConnectionKind,
    /// The versions that it may speak.
    pub versions: Versions,
    /// After this time without input the peer is asked for an echo.
    pub probe_interval: Option<Duration>,
    /// Packets a second that it gets; `None` for no limit.
    pub packet_rate: Option<u32>,
    /// Changes a second that it may ask for; its input waits meanwhile. `None` for no limit.
    pub change_rate: Option<u32>,
}

/// Limits of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AgentLimits {
    /// Bundles that a connection may have open.
    pub bundles: usize,
    /// Bytes of messages that all bundles of a connection may hold.
    pub bundle_bytes: usize,
    /// Time after which an untouched bundle is forgotten.
    pub bundle_timeout: Duration,
    /// Flow monitors that a connection may have.
    pub monitors: usize,
}

impl Default for AgentLimits {
    fn default() -> AgentLimits {
        AgentLimits {
            bundles: 64,
            bundle_bytes: 256 << 20,
            bundle_timeout: Duration::from_secs(10),
            monitors: 64,
        }
    }
}

/// How a connection is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectionStatus {
    /// Its version; `None` before the hellos.
    pub version: Option<Version>,
    /// Its role.
    pub role: Role,
    /// The counters of its session.
    pub counters: SessionCounters,
    /// Packets that it did not get because it was slow.
    pub packets_dropped: u64,
    /// Packets that it did not get because of its rate.
    pub packets_limited: u64,
}

/// The counters of an agent, over present and ended connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AgentCounters {
    /// Messages received.
    pub received: u64,
    /// Messages sent.
    pub sent: u64,
    /// Errors sent.
    pub errors: u64,
    /// Changes done: messages, or whole bundles.
    pub changes_done: u64,
    /// Changes refused.
    pub changes_refused: u64,
    /// Packets that a connection did not get because it was slow.
    pub packets_dropped: u64,
    /// Packets that a connection did not get because of its rate.
    pub packets_limited: u64,
}

impl AgentCounters {
    fn add(&mut self, link: &Link) {
        let session = link.session.counters();
        self.received += session.received;
        self.sent += session.sent;
        self.errors += session.errors;
        self.packets_dropped += link.packets_dropped;
        self.packets_limited += link.packets_limited;
    }
}

/// All connections of one switch.
#[derive(Debug)]
pub struct Agent<T> {
    target: T,
    config: AgentLimits,
    links: BTreeMap<ConnectionId, Link>,
    next: u64,
    /// The newest generation of an election of the primary controller.
    generation: Option<u64>,
    /// Whether some monitor watches flow entries.
    watches: bool,
    /// Whether some connection is told of packets that no rule matches.
    wants_misses: bool,
    /// How the switch handles fragments.
    fragments: u16,
    /// Messages of controllers for those who read along, if there are any.
    copies: Option<Vec<Bytes>>,
    changes_done: u64,
    changes_refused: u64,
    /// The counters of ended connections.
    ended: AgentCounters,
}

impl<T: Target> Agent<T> {
    /// Creates an agent without connections.
    pub fn new(target: T, config: AgentLimits) -> Agent<T> {
        Agent {
            target,
            config,
            links: BTreeMap::new(),
            next: 0,
            generation: None,
            watches: false,
            wants_misses: false,
            fragments: 0,
            copies: None,
            changes_done: 0,
            changes_refused: 0,
            ended: AgentCounters::default(),
        }
    }

    /// The switch.
    pub fn target(&mut self) -> &mut T {
        &mut self.target
    }

    /// Begins a connection; its hello waits to be sent.
    pub fn open(&mut self, config: ConnectionConfig, now: Duration) -> ConnectionId {
        let id = ConnectionId(self.next);
        self.next += 1;
        let session = Session::new(
            SessionConfig {
                versions: config.versions,
                probe_interval: config.probe_interval,
            },
            now,
        );
        self.links.insert(id, Link::new(config, session, now));
        id
    }

    /// Takes bytes from a connection's peer, and does what they ask for.
    pub fn receive(&mut self, id: ConnectionId, bytes: &[u8], now: Duration) {
        if let Some(link) = self.links.get_mut(&id) {
            link.session.receive(bytes, now);
            link.has_all = false;
        }
        self.work(id, now);
    }

    /// Whether a connection's input may be read: all that it sent has been handled.
    pub fn wants_input(&self, id: ConnectionId) -> bool {
        let link = self.links.get(&id);
        link.is_some_and(|link| !link.is_busy() && link.has_all)
    }

    /// Whether a connection has input that can be handled now ([`Agent::work`]).
    pub fn has_work(&self, id: ConnectionId) -> bool {
        let link = self.links.get(&id);
        link.is_some_and(|link| !link.is_busy() && !link.has_all)
    }

    /// Whether a connection's input waits for its rate of changes, until [`Agent::tick`].
    pub fn is_limited(&self, id: ConnectionId) -> bool {
        let link = self.links.get(&id);
        link.is_some_and(|link| link.is_limited)
    }

    /// Handles what a connection has received, at most one turn's worth.
    pub fn work(&mut self, id: ConnectionId, now: Duration) {
        let Some(mut link) = self.links.remove(&id) else {
            return;
        };
        let mut waiting = Vec::new();
        for _ in 0..MESSAGES_PER_TURN {
            if link.is_busy() {
                break;
            }
            let Some(incoming) = link.session.next() else {
                link.has_all = true;
                break;
            };
            link.notice_version();
            if link.config.kind == ConnectionKind::Controller
                && let Some(copies) = &mut self.copies
            {
                copies.push(incoming.bytes.clone());
            }
            self.handle(&mut link, incoming, &mut waiting, now);
            link.is_limited = link.changes.next_at(now).is_some();
        }
        self.flush(&mut link, &mut waiting, now);
        link.notice_version();
        self.links.insert(id, link);
        self.watch_flows();
        self.follow_misses();
    }

    /// The next bytes for a connection's peer; a dump goes on as they are taken.
    pub fn take_output(&mut self, id: ConnectionId) -> Option<Bytes> {
        let link = self.links.get_mut(&id)?;
        let mut bytes = link.session.take_output();
        if bytes.is_none() {
            link.go_on();
            bytes = link.session.take_output();
        }
        let bytes = bytes?;
        if link.config.kind == ConnectionKind::Controller
            && let Some(copies) = &mut self.copies
        {
            copies.push(bytes.clone());
        }
        Some(bytes)
    }

    /// Keeps copies of what controllers and the switch say, or stops to.
    pub fn keep_copies(&mut self, wanted: bool) {
        if wanted != self.copies.is_some() {
            self.copies = wanted.then(Vec::new);
        }
    }

    /// The copies since the last call.
    pub fn take_copies(&mut self) -> Vec<Bytes> {
        self.copies.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Gives a copy to someone who reads along; lost if the reader is slow.
    pub fn send_copy(&mut self, id: ConnectionId, message: &Bytes) {
        if let Some(link) = self.links.get_mut(&id)
            && link.session.output_bytes() < UNASKED_BYTES
        {
            link.session.send_bytes(message.to_vec());
        }
    }

    /// Whether a connection is to be closed once its output is written.
    pub fn is_over(&self, id: ConnectionId) -> bool {
        let link = self.links.get(&id);
        link.is_none_or(|link| link.session.is_over())
    }

    /// Forgets a connection: its peer is gone.
    pub fn close(&mut self, id: ConnectionId) {
        if let Some(link) = self.links.remove(&id) {
            self.ended.add(&link);
        }
        self.watch_flows();
        self.follow_misses();
    }

    /// The agent's counters.
    pub fn counters(&self) -> AgentCounters {
        let mut counters = self.ended;
        self.links.values().for_each(|link| counters.add(link));
        AgentCounters {
            changes_done: self.changes_done,
            changes_refused: self.changes_refused,
            ..counters
        }
    }

    /// How a connection is.
    pub fn status(&self, id: ConnectionId) -> Option<ConnectionStatus> {
        let link = self.links.get(&id)?;
        Some(ConnectionStatus {
            version: link.session.version(),
            role: link.role,
            counters: link.session.counters(),
            packets_dropped: link.packets_dropped,
            packets_limited: link.packets_limited,
        })
    }

    /// Texts about messages of a connection that were refused since the last call, for a log.
    pub fn take_refusals(&mut self, id: ConnectionId) -> Vec<String> {
        let link = self.links.get_mut(&id);
        link.map_or_else(Vec::new, Link::take_refusals)
    }

    /// What flow entries a connection changed, if it is time for a log to tell that or the
    /// connection ends.
    pub fn take_flow_mods(
        &mut self,
        id: ConnectionId,
        now: Duration,
        is_over: bool,
    ) -> Option<FlowModReport> {
        self.links.get_mut(&id)?.flow_mods.take(now, is_over)
    }

    /// Why a connection ended, if it did.
    pub fn end_reason(&self, id: ConnectionId) -> Option<&'static str> {
        self.links.get(&id)?.session.end_reason()
    }

    /// The connections.
    pub fn connections(&self) -> Vec<ConnectionId> {
        self.links.keys().copied().collect()
    }

    /// Whether some controller speaks with the switch.
    pub fn has_controller(&self) -> bool {
        let mut links = self.links.values();
        links.any(|link| {
            link.config.kind == ConnectionKind::Controller && link.session.version().is_some()
        })
    }

    /// Follows the time; returns when it must be called again at the latest.
    pub fn tick(&mut self, now: Duration) -> Option<Duration> {
        let timeout = self.config.bundle_timeout;
        let mut next: Option<Duration> = None;
        for link in self.links.values_mut() {
            if link.is_busy() {
                // Its input waits because of us, so that its silence says nothing.
                link.session.excuse(now);
            }
            let changes = match link.is_limited {
                true => link.changes.next_at(now),
                false => None,
            };
            link.is_limited = changes.is_some();
            let bundles = link.expire_bundles(now, timeout);
            let deadlines = [link.session.tick(now), bundles, changes];
            next = deadlines.into_iter().flatten().chain(next).min();
        }
        next
    }
}
