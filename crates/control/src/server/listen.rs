//! Listens on addresses and accepts connections.
//!
//! `unix:PATH` is for controllers on the same machine: a user who may open the socket may
//! control the switch, and only its owner may. `tls:HOST:PORT` is for other controllers.
//! `tcp:HOST:PORT` has neither encryption nor authentication, and is refused unless it is
//! explicitly allowed.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::Connected;

use super::budget::Claim;
use super::slots::{Peer, Slot};
use super::{Bounds, ServerError};

/// Only the owner may connect.
const SOCKET_MODE: u32 = 0o600;
/// Maximum connections that have completed the handshake and are not served yet.
const MAX_ACCEPTED: usize = 64;
/// How long to wait when the system has no room for another connection.
const PAUSE: Duration = Duration::from_millis(100);

/// An address to listen on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listen {
    /// A socket in the file system.
    Unix(PathBuf),
    /// TCP with TLS 1.3 and certificates on both sides.
    Tls(SocketAddr),
    /// Plain TCP.
    Plain(SocketAddr),
}

/// The error of a text that is no address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{given}` is no address; write `unix:PATH`, `tls:ADDRESS:PORT` or `tcp:ADDRESS:PORT`, with a \
     numeric address"
)]
pub struct ListenError {
    given: String,
}

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Listen, ListenError> {
        let error = || ListenError {
            given: text.escape_default().to_string(),
        };
        let (kind, rest) = text.split_once(':').ok_or_else(error)?;
        let address = || rest.parse().map_err(|_| error());
        match kind {
            "unix" if !rest.is_empty() => Ok(Listen::Unix(PathBuf::from(rest))),
            "tls" => Ok(Listen::Tls(address()?)),
            "tcp" => Ok(Listen::Plain(address()?)),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
            Listen::Tls(address) => write!(f, "tls:{address}"),
            Listen::Plain(address) => write!(f, "tcp:{address}"),
        }
    }
}

impl Listen {
    /// The path of its Unix socket, if it is one.
    pub(crate) fn socket(&self) -> Option<PathBuf> {
        match self {
            Listen::Unix(path) => Some(path.clone()),
            _ => None,
        }
    }
}

/// A listening socket.
pub(crate) enum Bound {
    Unix(UnixListener, String),
    Tcp(TcpListener, String),
}

impl Bound {
    pub(crate) fn address(&self) -> String {
        match self {
            Bound::Unix(_, address) | Bound::Tcp(_, address) => address.clone(),
        }
    }

    /// The next connection of any client.
    pub(crate) async fn next_stream(&self) -> io::Result<Box<dyn Stream>> {
        Ok(self.next().await?.stream)
    }

    async fn next(&self) -> io::Result<Connection> {
        let (stream, peer): (Box<dyn Stream>, _) = match self {
            Bound::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                (Box::new(stream), Peer::Local)
            }
            Bound::Tcp(listener, _) => {
                let (stream, address) = listener.accept().await?;
                // Answers are short; waiting to fill a packet would delay them.
                let _ = stream.set_nodelay(true);
                (Box::new(stream), Peer::host(address.ip()))
            }
        };
        Ok(Connection {
            stream,
            peer,
            place: None,
        })
    }
}

/// Listens on an address.
pub(crate) fn bind(runtime: &Runtime, listen: &Listen) -> Result<Bound, ServerError> {
    let error = |source| ServerError::Bind {
        address: listen.to_string(),
        source,
    };
    // A listener belongs to the runtime in which it is created.
    let _context = runtime.enter();
    let tcp = |address: &SocketAddr, kind: &str| {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = format!("{kind}:{}", listener.local_addr()?);
        Ok(Bound::Tcp(listener, address))
    };
    match listen {
        Listen::Unix(path) => {
            remove_stale(path).map_err(error)?;
            let listener = UnixListener::bind(path).map_err(error)?;
            let mode = std::fs::Permissions::from_mode(SOCKET_MODE);
            std::fs::set_permissions(path, mode).map_err(error)?;
            Ok(Bound::Unix(listener, listen.to_string()))
        }
        Listen::Tls(address) => tcp(address, "tls").map_err(error),
        Listen::Plain(address) => tcp(address, "tcp").map_err(error),
    }
}

/// Removes a socket without a listener; keeps anything else.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// Accepts connections, with several handshakes in progress at once.
///
/// A connection is accepted as soon as it arrives. If there are too many handshakes, the oldest
/// unfinished one is closed ([`Slots`](super::slots::Slots)), so silent clients lock no one
/// out. A connection that has completed its handshake takes one of its peer's places, or is
/// closed if there is none.
pub(super) fn accept(
    bound: Bound,
    acceptor: Option<TlsAcceptor>,
    bounds: Bounds,
) -> mpsc::Receiver<io::Result<Connection>> {
    let (sender, receiver) = mpsc::channel(MAX_ACCEPTED);
    tokio::spawn(async move {
        loop {
            let Ok(connection) = bound.next().await else {
                // Too many open files, or a client that left at once.
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let Some(acceptor) = acceptor.clone() else {
                let Some(connection) = connection.take_place(&bounds) else {
                    continue;
                };
                if sender.send(Ok(connection)).await.is_err() {
                    return;
                }
                continue;
            };
            let (sender, bounds) = (sender.clone(), bounds.clone());
            let slot = bounds.handshakes.take(connection.peer);
            tokio::spawn(async move {
                let shaken = shake(connection, acceptor, slot, &bounds).await;
                if let Some(connection) = shaken.and_then(|shaken| shaken.take_place(&bounds)) {
                    let _ = sender.send(Ok(connection)).await;
                }
            });
        }
    });
    receiver
}

/// Does a handshake. `None` if it fails, takes too long, or is evicted.
async fn shake(
    connection: Connection,
    acceptor: TlsAcceptor,
    mut slot: Slot,
    bounds: &Bounds,
) -> Option<Connection> {
    let Connection { stream, peer, .. } = connection;
    let shaken = tokio::time::timeout(bounds.handshake_timeout, acceptor.accept(stream));
    let shaken = tokio::select! {
        // The slots count the eviction.
        () = slot.evicted() => return None,
        shaken = shaken => shaken,
    };
    let Ok(Ok(stream)) = shaken else {
        bounds.failed_handshakes.fetch_add(1, Ordering::Relaxed);
        return None;
    };
    Some(Connection {
        stream: Box::new(stream),
        peer,
        place: None,
    })
}

/// A bidirectional byte stream.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection of any kind.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    peer: Peer,
    /// Set once it is served.
    place: Option<Claim>,
}

impl Connection {
    /// Takes a place; `None` if its peer, or all peers together, have too many.
    fn take_place(mut self, bounds: &Bounds) -> Option<Connection> {
        self.place = Some(bounds.connections.take(self.peer, 1).ok()?);
        Some(self)
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for text in ["unix:/run/br0.sock", "tls:127.0.0.1:9559", "tcp:[::1]:9559"] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "unix:",
            "tls:localhost",
            "tls:a:1",
            "http://x",
            "127.0.0.1:1",
        ] {
            let error = text.parse::<Listen>().unwrap_err().to_string();
            assert!(error.contains("unix:PATH"), "{error}");
        }
    }
}
