//! The task of a connection, and of a listener.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use super::watch::OverheardConnection;
use super::{Hub, Purpose, WRITE_PATIENCE, count};
use crate::openflow::agent::{ConnectionConfig, ConnectionId};
use crate::openflow::target::Target;
use crate::server::Stream;
use crate::server::listen::Bound;

/// Bytes read in one go.
const READ_BYTES: usize = 64 << 10;
/// How long to wait when the system has no room for another connection.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a handshake of TLS may take.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);

impl<T: Target + 'static> Hub<T> {
    /// Accepts connections for as long as the server runs.
    pub(super) async fn accept(
        self: Rc<Self>,
        bound: Bound,
        acceptor: Option<TlsAcceptor>,
        purpose: Purpose,
    ) {
        // Each listener has its own places, so that no client can take those of others.
        let taken = Rc::new(Cell::new(0));
        loop {
            let Ok(stream) = bound.next_stream().await else {
                // Too many open files, or a client that left at once.
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            if taken.get() >= self.config.connections {
                count(&self.counters.refused);
                continue;
            }
            count(&self.counters.accepted);
            let (hub, acceptor, taken) = (self.clone(), acceptor.clone(), taken.clone());
            taken.set(taken.get() + 1);
            // The place is taken before the handshake, so that those who never end one are
            // bounded, too.
            let id = self.open(self.client_config(purpose), purpose);
            let address = bound.address();
            let (kind, _) = address.split_once(':').unwrap_or_default();
            let name = format!("{kind}#{}", id.0);
            tokio::task::spawn_local(async move {
                match acceptor {
                    None => hub.clone().serve(id, name, stream).await,
                    Some(acceptor) => {
                        let shaken =
                            tokio::time::timeout(HANDSHAKE_PATIENCE, acceptor.accept(stream));
                        match shaken.await {
                            Ok(Ok(stream)) => hub.clone().serve(id, name, Box::new(stream)).await,
                            _ => count(&hub.counters.failed_handshakes),
                        }
                    }
                }
                hub.forget(id);
                taken.set(taken.get() - 1);
            });
        }
    }

    /// Begins a session; its task is woken by a bell of its own.
    pub(super) fn open(&self, config: ConnectionConfig, purpose: Purpose) -> ConnectionId {
        let id = self.agent.borrow_mut().open(config, self.now());
        self.wakers.borrow_mut().insert(id, Rc::new(Notify::new()));
        if purpose == Purpose::Snooper {
            self.snoopers.borrow_mut().push(id);
            self.agent.borrow_mut().keep_copies(true);
        }
        id
    }

    /// Ends a session.
    pub(super) fn forget(&self, id: ConnectionId) {
        self.wakers.borrow_mut().remove(&id);
        let mut snoopers = self.snoopers.borrow_mut();
        snoopers.retain(|snooper| *snooper != id);
        let mut agent = self.agent.borrow_mut();
        agent.keep_copies(!snoopers.is_empty());
        agent.close(id);
    }

    /// Carries bytes between a socket and its session until either ends.
    pub(super) async fn serve(
        self: Rc<Self>,
        id: ConnectionId,
        name: String,
        mut stream: Box<dyn Stream>,
    ) {
        let mut overheard = OverheardConnection::new(self.ear.clone(), name, self.config.versions);
        self.clone().carry(id, &mut stream, &mut overheard).await;
        self.tell_flow_mods(id, &overheard, true);
    }

    async fn carry(
        self: Rc<Self>,
        id: ConnectionId,
        stream: &mut Box<dyn Stream>,
        overheard: &mut OverheardConnection,
    ) {
        let waker = self.wakers.borrow().get(&id).cloned();
        let Some(waker) = waker else { return };
        let mut buffer = vec![0; READ_BYTES];
        loop {
            if !self.write(id, stream, overheard).await {
                return;
            }
            self.tell_flow_mods(id, overheard, false);
            let (is_over, has_work, wants_input) = {
                let agent = self.agent.borrow();
                (agent.is_over(id), agent.has_work(id), agent.wants_input(id))
            };
            if is_over {
                // The peer may still read the last bytes.
                let _ = stream.shutdown().await;
                return;
            }
            if has_work {
                self.agent.borrow_mut().work(id, self.now());
                self.after_work(id);
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                read = stream.read(&mut buffer), if wants_input => match read {
                    Ok(length @ 1..) => {
                        overheard.receive(&buffer[..length]);
                        self.agent.borrow_mut().receive(id, &buffer[..length], self.now());
                        self.after_work(id);
                    }
                    Ok(0) | Err(_) => return,
                },
                () = waker.notified() => {}
            }
        }
    }

    /// Writes all that waits; false if the peer takes nothing any more.
    async fn write(
        &self,
        id: ConnectionId,
        stream: &mut Box<dyn Stream>,
        overheard: &mut OverheardConnection,
    ) -> bool {
        loop {
            let bytes = self.agent.borrow_mut().take_output(id);
            let Some(bytes) = bytes else { break };
            let written = tokio::time::timeout(WRITE_PATIENCE, stream.write_all(&bytes)).await;
            if !matches!(written, Ok(Ok(()))) {
                return false;
            }
            overheard.send(&bytes);
        }
        let flushed = tokio::time::timeout(WRITE_PATIENCE, stream.flush()).await;
        matches!(flushed, Ok(Ok(())))
    }

    /// Tells what flow entries the connection changed, if it is time for that or `is_over`.
    fn tell_flow_mods(&self, id: ConnectionId, overheard: &OverheardConnection, is_over: bool) {
        let report = self
            .agent
            .borrow_mut()
            .take_flow_mods(id, self.now(), is_over);
        if let Some(report) = report {
            overheard.tell_flow_mods(report);
        }
    }

    /// Has the other tasks do what follows from a connection's messages.
    fn after_work(&self, id: ConnectionId) {
        self.keep_refusals(id);
        self.share_copies();
        self.wake_others(id);
        if self.agent.borrow().is_limited(id) {
            // The task that follows the time learns when to look again.
            self.events.notify_one();
        }
    }

    fn wake_others(&self, id: ConnectionId) {
        let wakers = self.wakers.borrow();
        let others = wakers.iter().filter(|(other, _)| **other != id);
        others.for_each(|(_, waker)| waker.notify_one());
    }
}
