//! The client's side of a control socket.

use std::io::{Error, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use serde_json::{Value, json};
use thalweg_ovsdb::jsonrpc::{RpcChannel, RpcConfig, RpcLimits, RpcMessage};

use crate::address::SocketAddress;

/// Bytes read at once.
const READ_BYTES: usize = 1 << 16;
/// Most bytes of an answer.
const ANSWER_BYTES: usize = 1 << 30;

/// Why a command has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlClientError {
    /// No process listens there, or it may not be reached.
    #[error("cannot connect to {path} ({error}); is the switch running, and is this its socket?")]
    Connect {
        /// The socket's path.
        path: String,
        /// What the system says.
        error: Error,
    },
    /// A process has no socket, or may not be looked at.
    #[error("--target {pid}: no control socket ({error})")]
    NoProcess {
        /// The process's number.
        pid: u32,
        /// The system's error.
        error: Error,
    },
    /// No switch is named, and there is no daemon.
    #[error(
        "name the switch by --target PATH or --target PID: no daemon has a pidfile ({pidfile}: \
         {error})"
    )]
    NoDaemon {
        /// The daemon's pidfile.
        pidfile: String,
        /// What the system says.
        error: Error,
    },
    /// The process did not answer in time.
    #[error("the switch did not answer in time; give it more with --timeout")]
    Late,
    /// The connection broke.
    #[error("the connection broke ({0}); has the switch ended?")]
    Broken(Error),
    /// What came is not the protocol of control sockets.
    #[error("this is no control socket: {0}")]
    Protocol(String),
    /// The process refused the command, with its words.
    #[error("{0}")]
    Refused(String),
}

/// A connection to a control socket, for one command after the other.
#[derive(Debug)]
pub struct ControlClient {
    stream: UnixStream,
    channel: RpcChannel,
    /// When waiting ends.
    deadline: Option<Instant>,
    last: u64,
}

impl ControlClient {
    /// Connects to a process; all that is done with it ends at `deadline`, if given.
    ///
    /// # Errors
    /// If no process listens at the path, or it is too busy to accept a client in time.
    pub fn connect(
        path: &Path,
        deadline: Option<Instant>,
    ) -> Result<ControlClient, ControlClientError> {
        let stream = stream_to(path, deadline).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => ControlClientError::Late,
            _ => ControlClientError::Connect {
                path: path.display().to_string(),
                error,
            },
        })?;
        let config = RpcConfig {
            limits: RpcLimits {
                bytes_max: ANSWER_BYTES,
                values_max: 1 << 10,
                depth_max: 16,
            },
            output_bytes_max: usize::MAX,
            probe_interval: None,
            answers_echo: false,
        };
        Ok(ControlClient {
            stream,
            channel: RpcChannel::new(config, Duration::ZERO),
            deadline,
            last: 0,
        })
    }

    /// Sends a command and waits for its result.
    ///
    /// # Errors
    /// If the process refuses the command, is late, or the connection breaks.
    pub fn call(
        &mut self,
        command: &str,
        arguments: &[String],
    ) -> Result<String, ControlClientError> {
        let id = json!(self.last);
        self.last += 1;
        self.channel.send(&RpcMessage::Request {
            id: id.clone(),
            method: command.to_owned(),
            params: arguments.iter().map(|text| json!(text)).collect(),
        });
        while let Some(bytes) = self.channel.take_output() {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                match self.wait(|stream| stream.write(rest))? {
                    0 => return Err(broken(ErrorKind::WriteZero.into())),
                    count => rest = &rest[count..],
                }
            }
        }
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match self.channel.next() {
                Some(RpcMessage::Reply { id: of, result }) if of == id => return text(result),
                Some(RpcMessage::Error { id: of, error }) if of == id => {
                    let told = text(error)?;
                    return Err(ControlClientError::Refused(told.trim_end().to_owned()));
                }
                Some(_) => {
                    let what = "it answered what was not asked".to_owned();
                    return Err(ControlClientError::Protocol(what));
                }
                None => {}
            }
            if let Some(reason) = self.channel.end_reason() {
                return Err(ControlClientError::Protocol(reason.to_string()));
            }
            match self.wait(|stream| stream.read(&mut buffer))? {
                0 => return Err(broken(ErrorKind::UnexpectedEof.into())),
                count => self.channel.receive(&buffer[..count], Duration::ZERO),
            }
        }
    }

    /// Has a call wait no longer than until the deadline.
    fn wait<T>(
        &mut self,
        mut call: impl FnMut(&mut UnixStream) -> Result<T, Error>,
    ) -> Result<T, ControlClientError> {
        loop {
            let patience = time_left(self.deadline).map_err(broken)?;
            let set = self.stream.set_read_timeout(patience);
            set.and_then(|()| self.stream.set_write_timeout(patience))
                .map_err(broken)?;
            match call(&mut self.stream) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return done.map_err(broken),
            }
        }
    }
}

/// Connects to a path until the deadline.
fn stream_to(path: &Path, deadline: Option<Instant>) -> Result<UnixStream, Error> {
    let address = SocketAddress::of(path)?;
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    loop {
        // It bounds the wait for a place in the process's queue of clients.
        set_socket_timeout(&socket, Timeout::Send, time_left(deadline)?)?;
        match rustix::net::connect(&socket, address.get()) {
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done.map(|()| UnixStream::from(socket))?),
        }
    }
}

/// The time until a deadline; an error if it is over.
fn time_left(deadline: Option<Instant>) -> Result<Option<Duration>, Error> {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    match left {
        Some(Duration::ZERO) => Err(ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

/// The text of an answer.
fn text(value: Value) -> Result<String, ControlClientError> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(ControlClientError::Protocol(
            "an answer is not a text".to_owned(),
        )),
    }
}

fn broken(error: Error) -> ControlClientError {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => ControlClientError::Late,
        _ => ControlClientError::Broken(error),
    }
}
