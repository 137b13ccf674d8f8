//! One connection: bytes from a peer as messages, and messages as bytes for it.
//!
//! ```text
//!   receive(bytes) --> next(): echoes are answered here, the rest is returned
//!   send(message)  --> take_output()
//!   tick(now):         a silent peer is asked for an echo, and given up if it stays silent
//! ```
//!
//! 1. After the end nothing more is returned or taken.
//! 2. The output that waits is bounded: a peer that does not read loses the connection.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;

use super::splitter::{JsonSplitter, RpcLimits, SplitError};
use super::{NoMessage, RpcMessage};

/// The id of this side's echoes.
const ECHO: &str = "echo";

/// What a channel is allowed, and how patient it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RpcConfig {
    /// How large a peer's message may be.
    pub limits: RpcLimits,
    /// Most bytes that wait to be sent.
    pub output_bytes_max: usize,
    /// After this time without input the peer is asked for an echo, and after the same time
    /// again given up; `None` waits for ever.
    pub probe_interval: Option<Duration>,
    /// Whether requests for an echo are answered here. Open vSwitch's control socket has no
    /// such command.
    pub answers_echo: bool,
}

impl Default for RpcConfig {
    fn default() -> RpcConfig {
        RpcConfig {
            limits: RpcLimits::default(),
            output_bytes_max: 64 << 20,
            probe_interval: Some(Duration::from_secs(5)),
            answers_echo: true,
        }
    }
}

/// Why a channel has ended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelEnd {
    /// The peer's bytes cannot be read.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// The peer's JSON is no message.
    #[error(transparent)]
    Message(#[from] NoMessage),
    /// No byte came, even after a request for an echo.
    #[error("the peer is silent: no answer to an inactivity probe")]
    Silent,
    /// The peer does not take the output.
    #[error("the peer does not read: more than {0} bytes wait for it")]
    Unread(usize),
}

/// The counters of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RpcCounters {
    /// Messages received, echoes among them.
    pub received: u64,
    /// Messages sent, echoes among them.
    pub sent: u64,
    /// Inactivity probes sent.
    pub probes: u64,
}

/// One connection, without its socket.
///
/// ```
/// use std::time::Duration;
/// use serde_json::json;
/// use thalweg_ovsdb::jsonrpc::{RpcChannel, RpcConfig, RpcMessage};
///
/// let now = Duration::ZERO;
/// let mut client = RpcChannel::new(RpcConfig::default(), now);
/// let mut server = RpcChannel::new(RpcConfig::default(), now);
/// let request = RpcMessage::Request {
///     id: json!(1),
///     method: "list_dbs".to_owned(),
///     params: Vec::new(),
/// };
/// client.send(&request);
/// server.receive(&client.take_output().unwrap(), now);
/// assert_eq!(server.next(), Some(request));
/// ```
#[derive(Debug)]
pub struct RpcChannel {
    config: RpcConfig,
    splitter: JsonSplitter,
    output: VecDeque<Vec<u8>>,
    output_bytes: usize,
    last_input: Duration,
    is_probing: bool,
    counters: RpcCounters,
    end: Option<ChannelEnd>,
}

impl RpcChannel {
    /// A channel at its begin.
    pub fn new(config: RpcConfig, now: Duration) -> RpcChannel {
        RpcChannel {
            config,
            splitter: JsonSplitter::new(config.limits),
            output: VecDeque::new(),
            output_bytes: 0,
            last_input: now,
            is_probing: false,
            counters: RpcCounters::default(),
            end: None,
        }
    }

    /// Why it has ended, if it has. The remaining output may still be sent.
    pub fn end_reason(&self) -> Option<&ChannelEnd> {
        self.end.as_ref()
    }

    /// Its counters.
    pub fn counters(&self) -> RpcCounters {
        self.counters
    }

    /// Bytes that wait to be sent.
    pub fn output_bytes(&self) -> usize {
        self.output_bytes
    }

    /// Takes bytes from the peer.
    pub fn receive(&mut self, bytes: &[u8], now: Duration) {
        if self.end.is_none() {
            self.last_input = now;
            self.is_probing = false;
            self.splitter.push(bytes);
        }
    }

    /// The next message of the peer, apart from echoes.
    #[expect(clippy::should_implement_trait, reason = "more may come after `None`")]
    pub fn next(&mut self) -> Option<RpcMessage> {
        while self.end.is_none() {
            let value = match self.splitter.next() {
                Ok(value) => value?,
                Err(error) => return self.end(error),
            };
            self.counters.received += 1;
            match RpcMessage::parse(value) {
                Ok(RpcMessage::Request { id, method, params })
                    if self.config.answers_echo && method == "echo" =>
                {
                    let result = Value::Array(params);
                    self.send(&RpcMessage::Reply { id, result });
                }
                Ok(RpcMessage::Reply { id, .. }) if id == ECHO => {}
                Ok(message) => return Some(message),
                Err(error) => return self.end(error),
            }
        }
        None
    }

    fn end(&mut self, reason: impl Into<ChannelEnd>) -> Option<RpcMessage> {
        self.end.get_or_insert(reason.into());
        None
    }

    /// Sends a message.
    pub fn send(&mut self, message: &RpcMessage) {
        if self.end.is_some() {
            return;
        }
        let bytes = message.to_json().to_string().into_bytes();
        if self.output_bytes + bytes.len() > self.config.output_bytes_max {
            self.end(ChannelEnd::Unread(self.config.output_bytes_max));
            return;
        }
        self.counters.sent += 1;
        self.output_bytes += bytes.len();
        self.output.push_back(bytes);
    }

    /// The next bytes to be sent.
    pub fn take_output(&mut self) -> Option<Vec<u8>> {
        let bytes = self.output.pop_front()?;
        self.output_bytes -= bytes.len();
        Some(bytes)
    }

    /// Follows the time; returns when it must be called again at the latest.
    pub fn tick(&mut self, now: Duration) -> Option<Duration> {
        let interval = self.config.probe_interval?;
        if self.end.is_some() {
            return None;
        }
        let silent = now.saturating_sub(self.last_input);
        if silent >= interval && !self.is_probing {
            self.is_probing = true;
            self.counters.probes += 1;
            self.last_input = now;
            self.send(&RpcMessage::Request {
                id: ECHO.into(),
                method: ECHO.to_owned(),
                params: Vec::new(),
            });
        } else if silent >= interval {
            self.end(ChannelEnd::Silent);
            return None;
        }
        Some(self.last_input.saturating_add(interval))
    }
}
