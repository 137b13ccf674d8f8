//! The client's side of a control socket.

use std::io::{Error, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use thalweg_ovsdb::jsonrpc::{RpcChannel, RpcConfig, RpcLimits, RpcMessage};

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
    last: u64,
}

impl ControlClient {
    /// Connects to a process; every wait for it is at most `patience`, if given.
    ///
    /// # Errors
    /// If no process listens at the path.
    pub fn connect(
        path: &Path,
        patience: Option<Duration>,
    ) -> Result<ControlClient, ControlClientError> {
        let connect = || {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(patience)?;
            stream.set_write_timeout(patience)?;
            Ok(stream)
        };
        let stream = connect().map_err(|error| ControlClientError::Connect {
            path: path.display().to_string(),
            error,
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
            self.stream.write_all(&bytes).map_err(broken)?;
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
            match self.stream.read(&mut buffer).map_err(broken)? {
                0 => return Err(broken(ErrorKind::UnexpectedEof.into())),
                count => self.channel.receive(&buffer[..count], Duration::ZERO),
            }
        }
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
