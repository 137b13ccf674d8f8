//! The socket of the database's client.
//!
//! ```text
//!   thread "ovsdb": connects, reads ---- bytes (bounded) ----> DatabaseClient, in the main loop
//!                                                                  |
//!   socket <------------------- writes, without waiting -----------+
//! ```
//!
//! 1. The main loop never waits for the server: what the socket does not take stays with the
//!    client, whose output is bounded, and is tried again.
//! 2. Each attempt to connect has a thread of its own, which ends with the connection. News of
//!    an attempt that was given up are ignored.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use thalweg_ovsdb::{DatabaseClient, DatabaseConfig, DatabaseEvent, LinkStep};

/// Most bytes read at once.
const READ_BYTES: usize = 64 * 1024;
/// Most pieces of input that wait for the main loop.
const WAITING_READS: usize = 16;

/// Tells the main loop that something waits.
pub(crate) type Waker = Arc<dyn Fn() + Send + Sync>;

/// Where a database server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum DatabaseAddress {
    /// `unix:PATH`.
    Unix(PathBuf),
    /// `tcp:HOST:PORT`.
    Tcp(String),
}

impl FromStr for DatabaseAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<DatabaseAddress, String> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(DatabaseAddress::Unix(path.into())),
            Some(("tcp", rest)) if rest.rsplit_once(':').is_some() => {
                Ok(DatabaseAddress::Tcp(rest.to_owned()))
            }
            Some(("ssl", _)) => Err(format!(
                "{text}: connections to the database by TLS are not supported yet; use unix:PATH \
                 or tcp:HOST:PORT"
            )),
            _ => Err(format!(
                "{text}: connection method must be unix:PATH or tcp:HOST:PORT"
            )),
        }
    }
}

impl std::fmt::Display for DatabaseAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DatabaseAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            DatabaseAddress::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

#[derive(Debug)]
enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    fn connect(address: &DatabaseAddress) -> io::Result<Socket> {
        match address {
            DatabaseAddress::Unix(path) => UnixStream::connect(path).map(Socket::Unix),
            DatabaseAddress::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }
        }
    }

    fn try_clone(&self) -> io::Result<Socket> {
        match self {
            Socket::Unix(stream) => stream.try_clone().map(Socket::Unix),
            Socket::Tcp(stream) => stream.try_clone().map(Socket::Tcp),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.read(buffer),
            Socket::Tcp(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.write(bytes),
            Socket::Tcp(stream) => stream.write(bytes),
        }
    }

    /// A write gives up after this time; a read does not.
    fn set_write_patience(&self, patience: Duration) -> io::Result<()> {
        match self {
            Socket::Unix(stream) => stream.set_write_timeout(Some(patience)),
            Socket::Tcp(stream) => stream.set_write_timeout(Some(patience)),
        }
    }

    fn close(&self) {
        // A connection that has ended is closed already.
        let _ = match self {
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

#[derive(Debug)]
enum LinkNews {
    Connected(Socket),
    Failed(io::Error),
    Bytes(Vec<u8>),
    Closed,
}

/// A client of a database with its socket.
pub(crate) struct DatabaseLink {
    client: DatabaseClient,
    address: DatabaseAddress,
    waker: Waker,
    start: Instant,
    news: Receiver<(u64, LinkNews)>,
    teller: SyncSender<(u64, LinkNews)>,
    /// Tells apart attempts to connect.
    attempt: u64,
    socket: Option<Socket>,
    /// Output that the socket did not take yet.
    unsent: Vec<u8>,
    /// Why the last attempt failed, until it is told.
    failure: Option<io::Error>,
}

impl std::fmt::Debug for DatabaseLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DatabaseLink({})", self.address)
    }
}

impl DatabaseLink {
    /// A client that will connect to an address; nothing is done before [`DatabaseLink::run`].
    pub(crate) fn new(
        config: DatabaseConfig,
        address: DatabaseAddress,
        waker: Waker,
    ) -> DatabaseLink {
        let (teller, news) = sync_channel(WAITING_READS);
        DatabaseLink {
            client: DatabaseClient::new(config, Duration::ZERO),
            address,
            waker,
            start: Instant::now(),
            news,
            teller,
            attempt: 0,
            socket: None,
            unsent: Vec::new(),
            failure: None,
        }
    }

    /// The client.
    pub(crate) fn client(&mut self) -> &mut DatabaseClient {
        &mut self.client
    }

    /// The address of the server.
    pub(crate) fn address(&self) -> &DatabaseAddress {
        &self.address
    }

    /// Why the last attempt to connect failed, once.
    pub(crate) fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Moves bytes in both directions; returns what happened.
    pub(crate) fn run(&mut self) -> Vec<DatabaseEvent> {
        let now = self.start.elapsed();
        self.follow_link(now);
        self.client.tick(now);
        let mut events = Vec::new();
        loop {
            while let Some(event) = self.client.next(now) {
                events.push(event);
            }
            match self.news.try_recv() {
                Ok((attempt, news)) if attempt == self.attempt => self.handle(news, now),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.follow_link(now);
        self.send(now);
        while let Some(event) = self.client.next(now) {
            events.push(event);
        }
        events
    }

    /// Sends what waits; to be called when transactions were submitted after a run.
    pub(crate) fn flush(&mut self) {
        self.send(self.start.elapsed());
    }

    fn follow_link(&mut self, now: Duration) {
        while let Some(step) = self.client.poll_link(now) {
            match step {
                LinkStep::Connect => self.connect(),
                LinkStep::Disconnect => self.disconnect(),
            }
        }
    }

    fn connect(&mut self) {
        self.disconnect();
        let (attempt, teller) = (self.attempt, self.teller.clone());
        let (address, waker) = (self.address.clone(), self.waker.clone());
        let thread = std::thread::Builder::new().name("ovsdb".to_owned());
        let started = thread.spawn(move || {
            let tell = |news| {
                let is_told = teller.send((attempt, news)).is_ok();
                waker();
                is_told
            };
            read_all(&address, tell);
        });
        if let Err(error) = started {
            self.failure = Some(error);
            self.client.handle_closed(self.start.elapsed());
        }
    }

    fn disconnect(&mut self) {
        self.attempt += 1;
        self.unsent.clear();
        if let Some(socket) = self.socket.take() {
            socket.close();
        }
    }

    fn handle(&mut self, news: LinkNews, now: Duration) {
        match news {
            LinkNews::Connected(socket) => {
                self.socket = Some(socket);
                self.client.handle_connected(now);
            }
            LinkNews::Bytes(bytes) => self.client.receive(&bytes, now),
            LinkNews::Failed(error) => {
                self.failure = Some(error);
                self.client.handle_closed(now);
            }
            LinkNews::Closed => {
                self.disconnect();
                self.client.handle_closed(now);
            }
        }
    }

    fn send(&mut self, now: Duration) {
        let Some(socket) = &mut self.socket else {
            return;
        };
        loop {
            if self.unsent.is_empty() {
                match self.client.take_output() {
                    Some(bytes) => self.unsent = bytes,
                    None => return,
                }
            }
            match socket.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if is_for_later(&error) => return,
                Err(_) => {
                    self.disconnect();
                    self.client.handle_closed(now);
                    return;
                }
            }
        }
    }
}

impl Drop for DatabaseLink {
    fn drop(&mut self) {
        self.disconnect();
    }
}

fn is_for_later(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Connects and reads until the end, or until the teller says that there is no listener.
fn read_all(address: &DatabaseAddress, tell: impl Fn(LinkNews) -> bool) {
    // A write may not hold up the main loop (invariant 1).
    let ready = Socket::connect(address).and_then(|socket| {
        socket.set_write_patience(Duration::from_millis(1))?;
        Ok((socket.try_clone()?, socket))
    });
    let (mut reader, writer) = match ready {
        Ok(ends) => ends,
        Err(error) => {
            tell(LinkNews::Failed(error));
            return;
        }
    };
    if !tell(LinkNews::Connected(writer)) {
        return;
    }
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                if !tell(LinkNews::Bytes(buffer[..count].to_vec())) {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    tell(LinkNews::Closed);
}
