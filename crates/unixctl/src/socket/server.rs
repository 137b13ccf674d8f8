//! The thread of the control socket: a task for each connection.

use std::collections::BTreeMap;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::config::ControlConfig;
use crate::conversation::{ControlCommands, ControlConnection};
use crate::notes::{ControlNote, ControlNotes};
use crate::socket::{LAST_ANSWERS, LoopWaker, NO_ANSWER, PendingCommand};

/// Bytes read at once.
const READ_BYTES: usize = 1 << 16;
/// A client that takes nothing of its answer for this long is gone.
const STALLED: Duration = Duration::from_secs(60);
/// A pause after accepting has failed, for lack of descriptors for instance.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What all connections share.
#[derive(Clone)]
pub(super) struct Server {
    config: ControlConfig,
    commands: Arc<ControlCommands>,
    notes: Arc<dyn ControlNotes>,
    queue: Sender<PendingCommand>,
    waker: LoopWaker,
    silent: Arc<Mutex<Silent>>,
}

/// The silent connections, in the order in which they fell silent.
#[derive(Default)]
struct Silent {
    last: u64,
    /// Dropped to close a connection.
    connections: BTreeMap<u64, oneshot::Sender<()>>,
}

/// Why a connection stops reading.
enum Read {
    Bytes(usize),
    Closed,
}

impl Server {
    pub(super) fn new(
        config: ControlConfig,
        commands: ControlCommands,
        notes: Arc<dyn ControlNotes>,
        queue: Sender<PendingCommand>,
        waker: LoopWaker,
    ) -> Server {
        Server {
            config,
            commands: Arc::new(commands),
            notes,
            queue,
            waker,
            silent: Arc::default(),
        }
    }

    /// Serves until `ended`.
    pub(super) fn run(self, listener: StdListener, ended: watch::Receiver<bool>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let done = runtime.and_then(|runtime| runtime.block_on(self.serve(listener, ended)));
        if let Err(error) = done {
            self.notes.note(ControlNote::Broken(&error));
        }
    }

    async fn serve(
        &self,
        listener: StdListener,
        mut ended: watch::Receiver<bool>,
    ) -> std::io::Result<()> {
        let listener = UnixListener::from_std(listener)?;
        let mut connections = JoinSet::new();
        while !*ended.borrow() {
            tokio::select! {
                biased;
                _ = ended.changed() => (),
                Some(_) = connections.join_next() => (),
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let is_full = connections.len() >= self.config.connections_max;
                        if is_full && !self.close_silent() {
                            self.notes.note(ControlNote::Refused);
                            continue;
                        }
                        let server = self.clone();
                        let ended = ended.clone();
                        connections.spawn(async move { server.connection(stream, ended).await });
                    }
                    Err(error) => {
                        self.notes.note(ControlNote::NotAccepted(&error));
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        let last_answers = async { while connections.join_next().await.is_some() {} };
        // Invariant 5: what takes longer is cut off.
        let _ = timeout(LAST_ANSWERS, last_answers).await;
        Ok(())
    }

    /// Closes the connection that has been silent longest (invariant 4).
    fn close_silent(&self) -> bool {
        let silent = self.silent.lock();
        let mut silent = silent.unwrap_or_else(PoisonError::into_inner);
        silent.connections.pop_first().is_some()
    }

    /// Serves one client until it goes, is wrong, or must give way.
    async fn connection(self, mut stream: UnixStream, mut ended: watch::Receiver<bool>) {
        let mut connection = ControlConnection::new(&self.config);
        let mut buffer = vec![0; READ_BYTES];
        loop {
            if !self.answer_all(&mut connection, &mut stream).await || *ended.borrow() {
                return;
            }
            if let Some(reason) = connection.end_reason() {
                self.notes.note(ControlNote::Closed(&reason));
                return;
            }
            match self.read(&mut stream, &mut buffer, &mut ended).await {
                // The time only matters to probes, which a control connection does not have.
                Read::Bytes(count) => connection.receive(&buffer[..count], Duration::ZERO),
                Read::Closed => return,
            }
        }
    }

    /// Carries out the commands that have come in; `false` if the client is gone.
    async fn answer_all(
        &self,
        connection: &mut ControlConnection,
        stream: &mut UnixStream,
    ) -> bool {
        loop {
            let request = connection.next(&self.commands);
            if let Some(request) = request {
                let (answer, answered) = oneshot::channel();
                let pending = PendingCommand {
                    request,
                    id: connection.request_id(),
                    answer: Some(answer),
                    answer_bytes_max: self.config.answer_bytes_max,
                    notes: self.notes.clone(),
                };
                // If the queue has ended, the command is dropped here, which answers it.
                let _ = self.queue.send(pending);
                (self.waker)();
                let reply = answered.await;
                connection.reply(reply.unwrap_or_else(|_| Err(NO_ANSWER.to_owned())));
            }
            let Some(bytes) = connection.take_output() else {
                return true;
            };
            if !write(stream, &bytes).await {
                return false;
            }
        }
    }

    async fn read(
        &self,
        stream: &mut UnixStream,
        buffer: &mut [u8],
        ended: &mut watch::Receiver<bool>,
    ) -> Read {
        let (number, closed) = self.fall_silent();
        let read = tokio::select! {
            biased;
            _ = ended.changed() => Read::Closed,
            read = stream.read(buffer) => match read {
                Ok(count @ 1..) => Read::Bytes(count),
                Ok(0) | Err(_) => Read::Closed,
            },
            _ = closed => Read::Closed,
        };
        let silent = self.silent.lock();
        let mut silent = silent.unwrap_or_else(PoisonError::into_inner);
        silent.connections.remove(&number);
        read
    }

    fn fall_silent(&self) -> (u64, oneshot::Receiver<()>) {
        let silent = self.silent.lock();
        let mut silent = silent.unwrap_or_else(PoisonError::into_inner);
        let (sender, closed) = oneshot::channel();
        silent.last += 1;
        let number = silent.last;
        silent.connections.insert(number, sender);
        (number, closed)
    }
}

/// Writes all bytes; `false` if the client is gone or takes none.
async fn write(stream: &mut UnixStream, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match timeout(STALLED, stream.write(bytes)).await {
            Ok(Ok(count @ 1..)) => bytes = &bytes[count..],
            _ => return false,
        }
    }
    true
}
