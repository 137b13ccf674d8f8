//! The server: sockets, streams and a clock around one [`Device`].
//!
//! ```text
//!   thread "p4runtime": accept, TLS, gRPC ---calls---> thread "p4rt-device": Device, Target
//!                            ^                              |
//!                            +------------- answers --------+ <--- packets, digests (Notices)
//! ```
//!
//! The device has a thread of its own, so that a long write holds up no handshake and no stream.
//! Calls reach it through a bounded channel, in the order in which they came; a client that asks
//! faster than it answers waits, and a data plane that tells faster is counted
//! ([`Notices::dropped`]).
//!
//! 1. A stream that does not take what it is sent loses packets and lists, which are counted, but
//!    never an arbitration update: it is closed in place of that.
//! 2. An answer to a read is made by its own task as the client takes it, out of the state that the
//!    device handed over; a client that takes nothing keeps a place, which newer reads take away.
//! 3. A handshake has a place too: a new connection always finds one, and the oldest goes.
//! 4. What messages hold is within a budget, from their first byte until they are handled, and a
//!    peer has a share of it; connections and streams have places of their peer.
//! 5. When [`Server::stop`] returns, both threads have ended and a Unix socket is gone.

mod actor;
mod budget;
mod decoded;
mod guard;
mod listen;
mod outlet;
mod service;
mod slots;
mod tls;

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

/// How many calls may wait for the device.
const MAX_CALLS: usize = 1_024;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("{address}: {source}; is another program listening there, and is it allowed?")]
    Bind {
        /// The address as it was written.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// Certificates or keys cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A thread or its runtime cannot be made.
    #[error("a thread cannot be started: {0}")]
    Thread(io::Error),
}

/// How much of the server clients may take.
///
/// A peer is a host, or all that comes by the Unix socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerLimits {
    /// TLS handshakes that are under way; the oldest one goes first.
    pub max_handshakes: usize,
    /// The same of one peer.
    pub max_handshakes_per_peer: usize,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
    /// Reads whose answers are being sent; the oldest one goes first.
    pub max_reads: usize,
    /// The same of one peer.
    pub max_reads_per_peer: usize,
    /// Connections that have shaken hands; further ones are closed.
    pub max_connections: usize,
    /// The same of one peer.
    pub max_connections_per_peer: usize,
    /// Streams and other calls whose messages are still coming in; further ones are refused.
    pub max_streams: usize,
    /// The same of one peer.
    pub max_streams_per_peer: usize,
    /// The largest message that is taken; configurations of large programs have some megabytes
    /// (P4Runtime 1.5.0, "gRPC Server Maximum Receive Message Size").
    pub max_message_bytes: usize,
    /// What messages hold together, as bytes and decoded, until they are handled.
    pub message_bytes: u64,
    /// The same of one peer.
    pub message_bytes_per_peer: u64,
    /// What configurations hold that are being sent.
    pub answer_bytes: u64,
    /// The same of one peer.
    pub answer_bytes_per_peer: u64,
    /// What messages hold that wait on one stream for its controller.
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

/// What a server refused or gave up, for its bounds' sake.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServerCounters {
    /// Handshakes that were closed to make room for others.
    pub evicted_handshakes: u64,
    /// Handshakes that failed, or took too long.
    pub failed_handshakes: u64,
    /// Reads that were ended to make room for others.
    pub evicted_reads: u64,
    /// Details of batches that found no room in a status.
    pub unsent_details: u64,
    /// Connections that found no place.
    pub refused_connections: u64,
    /// Streams and other calls that found no place.
    pub refused_streams: u64,
    /// Messages that found no memory.
    pub refused_messages: u64,
    /// Messages that had not come in whole, and made room for others.
    pub evicted_messages: u64,
    /// Configurations that were asked for and found no memory.
    pub refused_answers: u64,
}

/// The bounds at work.
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

    /// What a call that failed is answered with.
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
    /// When [`Instant::ZERO`] was.
    pub start: Clock,
    /// How much of it clients may take.
    pub limits: ServerLimits,
}

/// A server that runs.
pub struct Server {
    notices: Notices,
    shutdown: Option<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    counters: Option<oneshot::Receiver<DeviceCounters>>,
    bounds: Bounds,
    address: String,
    socket: Option<PathBuf>,
}

/// How the data plane tells the device what happened; any number of copies.
#[derive(Clone)]
pub struct Notices {
    calls: mpsc::Sender<Call>,
    dropped: Arc<AtomicU64>,
}

impl Notices {
    /// A packet for the controller; never waits.
    pub fn packet(&self, packet: Bytes) {
        self.tell(Call::Packet(packet));
    }

    /// A digest: its number in P4Info, and the numbers of its type; never waits.
    pub fn digest(&self, digest: u32, numbers: Vec<Value>) {
        self.tell(Call::Digest(digest, numbers));
    }

    /// How many packets and digests found no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn tell(&self, call: Call) {
        if self.calls.try_send(call).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The two ends by which a data plane and a server that is yet to start speak.
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
    /// For the data plane.
    pub fn notices(&self) -> Notices {
        self.notices.clone()
    }
}

impl Server {
    /// Listens, and starts the threads; from its return on clients can connect.
    ///
    /// # Errors
    /// If the address or the certificates cannot be used.
    pub fn start<T>(
        config: &ServerConfig,
        wire: Wire,
        device: Device<T>,
    ) -> Result<Server, ServerError>
    where
        T: Target + Send + 'static,
    {
        let acceptor = tls::acceptor(&config.listen, config.tls.as_ref())?;
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
            // Nobody may be left to hear the counters.
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

    /// Where it listens, with the port that the system chose.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What it refused or gave up until now.
    pub fn counters(&self) -> ServerCounters {
        self.bounds.counters()
    }

    /// Ends all streams and both threads; what the device has done.
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
        // Waits for room, as the device takes what comes before it.
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

/// The time since a start.
fn since(start: Clock) -> Instant {
    let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Instant::from_nanos(nanos)
}
