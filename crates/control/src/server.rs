//! The server: sockets, streams and a clock around one [`Device`].
//!
//! ```text
//!   thread "p4runtime": accept, TLS, gRPC ---calls---> thread "p4rt-device": Device, Target
//!                            ^                              |
//!                            +------------- answers --------+ <--- packets, digests (Notices)
//! ```
//!
//! The device has its own thread, so that a long write delays no handshake and no stream. Calls
//! reach it through a bounded channel, in order of arrival. A client that asks faster than the
//! device answers must wait; notices of the data plane that find no room are dropped and
//! counted ([`Notices::dropped`]).
//!
//! 1. A stream whose client reads too slowly loses packets and lists, which are counted, but
//!    never an arbitration update: the stream is closed instead.
//! 2. The answer to a read is made by its own task as the client takes it, from the device's
//!    snapshot. A client that takes nothing keeps a place, which newer reads evict.
//! 3. A handshake has a place too: a new connection always gets one, and the oldest handshake
//!    is evicted.
//! 4. The memory of messages is within a budget, from their first byte until they are handled,
//!    and each peer has a share of it. Connections and streams have places of their peer.
//! 5. When [`Server::stop`] returns, both threads have ended and a Unix socket is removed.

mod actor;
mod budget;
mod decoded;
mod guard;
pub(crate) mod listen;
mod outlet;
mod service;
mod slots;
pub(crate) mod tls;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Clock};

use bytes::Bytes;
use thalweg_packet::Instant;
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

use self::budget::Budget;
pub(crate) use self::listen::Stream;
pub use self::listen::{Listen, ListenError};
use self::slots::Slots;
pub(crate) use self::tls::{HTTP2, certificates, read as read_file, unusable};
pub use self::tls::{TlsError, TlsFiles};
use crate::device::{Device, DeviceCounters};
use crate::problem::Failure;
use crate::server::actor::{Actor, Call};
use crate::target::Target;
use crate::value::Value;

/// Maximum calls waiting for the device.
const MAX_CALLS: usize = 1_024;

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The server cannot listen on the address.
    #[error("{address}: {source}; is another program listening there, and is it allowed?")]
    Bind {
        /// The address as configured.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// Certificates or keys cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A thread or its runtime cannot be created.
    #[error("a thread cannot be started: {0}")]
    Thread(io::Error),
}

/// The limits of what clients may take from the server.
///
/// A peer is a host, or all clients of the Unix socket together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerLimits {
    /// TLS handshakes in progress; further ones evict the oldest.
    pub max_handshakes: usize,
    /// TLS handshakes in progress of one peer.
    pub max_handshakes_per_peer: usize,
    /// Maximum duration of a handshake.
    pub handshake_timeout: Duration,
    /// Reads whose answers are being sent; further ones evict the oldest.
    pub max_reads: usize,
    /// Reads of one peer.
    pub max_reads_per_peer: usize,
    /// Connections after their handshake; further ones are closed.
    pub max_connections: usize,
    /// Connections of one peer.
    pub max_connections_per_peer: usize,
    /// Streams and other calls whose messages are still arriving; further ones are refused.
    pub max_streams: usize,
    /// Streams and other calls of one peer.
    pub max_streams_per_peer: usize,
    /// The largest message that is accepted.
    ///
    /// Configurations of large programs have some megabytes (P4Runtime 1.5.0, "gRPC Server
    /// Maximum Receive Message Size").
    pub max_message_bytes: usize,
    /// Memory of all messages, as bytes and decoded, until they are handled.
    pub message_bytes: u64,
    /// Memory of one peer's messages.
    pub message_bytes_per_peer: u64,
    /// Memory of configurations being sent.
    pub answer_bytes: u64,
    /// Memory of configurations being sent to one peer.
    pub answer_bytes_per_peer: u64,
    /// Memory of messages that wait on one stream for its controller.
    pub stream_queue_bytes: usize,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            max_handshakes: 64,
            max_handshakes_per_peer: 16,
            handshake_timeout: Duration::from_secs(10),
            max_reads: 64,
            max_reads_per_peer: 16,
            max_connections: 1_024,
            max_connections_per_peer: 64,
            max_streams: 4_096,
            max_streams_per_peer: 512,
            max_message_bytes: 128 << 20,
            message_bytes: 512 << 20,
            message_bytes_per_peer: 320 << 20,
            answer_bytes: 512 << 20,
            answer_bytes_per_peer: 256 << 20,
            stream_queue_bytes: 16 << 20,
        }
    }
}

/// Counts of what the server refused or evicted to keep its limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServerCounters {
    /// Handshakes closed to make room for others.
    pub evicted_handshakes: u64,
    /// Handshakes that failed, or took too long.
    pub failed_handshakes: u64,
    /// Reads ended to make room for others.
    pub evicted_reads: u64,
    /// Details of batches that did not fit into a status.
    pub unsent_details: u64,
    /// Connections without a free place.
    pub refused_connections: u64,
    /// Streams and other calls without a free place.
    pub refused_streams: u64,
    /// Messages without room in the memory budget.
    pub refused_messages: u64,
    /// Incomplete messages evicted to make room for others.
    pub evicted_messages: u64,
    /// Requested configurations without room in the memory budget.
    pub refused_answers: u64,
}

/// The limits in force.
#[derive(Clone)]
pub(super) struct Bounds {
    handshakes: Slots,
    handshake_timeout: Duration,
    failed_handshakes: Arc<AtomicU64>,
    reads: Slots,
    unsent_details: Arc<AtomicU64>,
    connections: Budget,
    streams: Budget,
    messages: Budget,
    answers: Budget,
    max_message_bytes: usize,
    stream_queue_bytes: usize,
}

impl Bounds {
    fn new(limits: &ServerLimits) -> Bounds {
        let places = |max: usize, per_peer: usize| Budget::new(max as u64, per_peer as u64);
        Bounds {
            handshakes: Slots::new(limits.max_handshakes, limits.max_handshakes_per_peer),
            handshake_timeout: limits.handshake_timeout,
            failed_handshakes: Arc::default(),
            reads: Slots::new(limits.max_reads, limits.max_reads_per_peer),
            unsent_details: Arc::default(),
            connections: places(limits.max_connections, limits.max_connections_per_peer),
            streams: places(limits.max_streams, limits.max_streams_per_peer),
            messages: Budget::new(limits.message_bytes, limits.message_bytes_per_peer),
            answers: Budget::new(limits.answer_bytes, limits.answer_bytes_per_peer),
            max_message_bytes: limits.max_message_bytes,
            stream_queue_bytes: limits.stream_queue_bytes,
        }
    }

    fn counters(&self) -> ServerCounters {
        ServerCounters {
            evicted_handshakes: self.handshakes.evicted(),
            failed_handshakes: self.failed_handshakes.load(Ordering::Relaxed),
            evicted_reads: self.reads.evicted(),
            unsent_details: self.unsent_details.load(Ordering::Relaxed),
            refused_connections: self.connections.refused(),
            refused_streams: self.streams.refused(),
            refused_messages: self.messages.refused(),
            evicted_messages: self.messages.evicted(),
            refused_answers: self.answers.refused(),
        }
    }

    /// The status of a failed call.
    fn status_of(&self, failure: &Failure, what: &str) -> Status {
        let (status, unsent) = failure.to_counted_status(what);
        self.unsent_details.fetch_add(unsent, Ordering::Relaxed);
        status
    }
}

/// Where and how to listen.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The address.
    pub listen: Listen,
    /// Certificates, for [`Listen::Tls`].
    pub tls: Option<TlsFiles>,
    /// The time of [`Instant::ZERO`].
    pub start: Clock,
    /// The limits for clients.
    pub limits: ServerLimits,
}

/// A running server.
pub struct Server {
    notices: Notices,
    shutdown: Option<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    counters: Option<oneshot::Receiver<DeviceCounters>>,
    bounds: Bounds,
    address: String,
    socket: Option<PathBuf>,
}

/// Sends the data plane's events to the device; it can be cloned.
#[derive(Clone)]
pub struct Notices {
    calls: mpsc::Sender<Call>,
    dropped: Arc<AtomicU64>,
}

impl Notices {
    /// Sends a packet for the controller; never waits.
    pub fn packet(&self, packet: Bytes) {
        self.tell(Call::Packet(packet));
    }

    /// Sends a digest: its P4Info id, and the numbers of its type; never waits.
    pub fn digest(&self, digest: u32, numbers: Vec<Value>) {
        self.tell(Call::Digest(digest, numbers));
    }

    /// Number of packets and digests that found no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn tell(&self, call: Call) {
        if self.calls.try_send(call).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The channel between a data plane and a server that has not started yet.
pub struct Wire {
    calls: mpsc::Receiver<Call>,
    notices: Notices,
}

impl Default for Wire {
    fn default() -> Wire {
        let (sender, calls) = mpsc::channel(MAX_CALLS);
        let notices = Notices {
            calls: sender,
            dropped: Arc::default(),
        };
        Wire { calls, notices }
    }
}

impl Wire {
    /// The data plane's end.
    pub fn notices(&self) -> Notices {
        self.notices.clone()
    }
}

impl Server {
    /// Listens, and starts the threads; clients can connect once it has returned.
    ///
    /// # Errors
    /// Fails if the address or the certificates cannot be used.
    pub fn start<T>(
        config: &ServerConfig,
        wire: Wire,
        device: Device<T>,
    ) -> Result<Server, ServerError>
    where
        T: Target + Send + 'static,
    {
        let acceptor = tls::acceptor(&config.listen, config.tls.as_ref(), &[HTTP2])?;
        let Wire { calls, notices } = wire;
        let runtime = || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_all().build().map_err(ServerError::Thread)
        };
        let (grpc, own) = (runtime()?, runtime()?);
        let bound = listen::bind(&grpc, &config.listen)?;
        let (address, socket) = (bound.address(), config.listen.socket());
        let (shutdown, is_ending) = oneshot::channel();
        let (report, counters) = oneshot::channel();
        let actor = Actor::new(device, calls, config.start);
        let device = spawn("p4rt-device", move || {
            // The receiver of the counters may be gone.
            let _ = report.send(own.block_on(actor.run()));
        })?;
        let sender = notices.calls.clone();
        let bounds = Bounds::new(&config.limits);
        let own = bounds.clone();
        let server = spawn("p4runtime", move || {
            grpc.block_on(service::serve(bound, acceptor, sender, own, is_ending));
        })?;
        Ok(Server {
            notices,
            shutdown: Some(shutdown),
            threads: vec![server, device],
            counters: Some(counters),
            bounds,
            address,
            socket,
        })
    }

    /// The address it listens on, with the port that the system chose.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Counts of what it has refused and evicted so far.
    pub fn counters(&self) -> ServerCounters {
        self.bounds.counters()
    }

    /// Ends all streams and both threads. Returns the device's counters.
    pub fn stop(mut self) -> DeviceCounters {
        self.end();
        let counters = self.counters.take();
        counters
            .and_then(|mut counters| counters.try_recv().ok())
            .unwrap_or_default()
    }

    fn end(&mut self) {
        if let Some(shutdown) = self.shutdown.take() {
            let _ = shutdown.send(());
        }
        // Waits for room, which the device makes by handling earlier calls.
        let _ = self.notices.calls.blocking_send(Call::End);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // Invariant 5.
        if let Some(path) = self.socket.take() {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, ServerError> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn(run).map_err(ServerError::Thread)
}

/// The time since `start`.
fn since(start: Clock) -> Instant {
    let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Instant::from_nanos(nanos)
}
