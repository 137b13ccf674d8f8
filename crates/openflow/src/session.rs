//! One connection: bytes from a peer as messages, and messages as bytes for it.
//!
//! ```text
//!   receive(bytes) --> next(): hello and echo are answered here, the rest is returned
//!   send(message)  --> take_output()
//!   tick(now):         a silent peer is asked for an echo, and given up if it stays silent
//! ```
//!
//! A session has no socket and no clock: times are durations since any fixed moment.
//!
//! 1. Before both hellos no other message is sent or returned; from then on all are of one
//!    version.
//! 2. The input that waits is at most one message and what one call of `receive` gave; the
//!    owner stops reading while [`Session::output_bytes`] is too large.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use crate::codec::{Context, Frame, decode, encode, message_length, xid_of};
use crate::error::{ErrorCode, Refusal, refuse};
use crate::error_message::ErrorMessage;
use crate::message::Message;
use crate::message::connection::Hello;
use crate::version::{Version, Versions};

/// How long the peer may take for its hello.
const GREETING: Duration = Duration::from_secs(10);

/// What a session is allowed, and how patient it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionConfig {
    /// The versions that it speaks.
    pub versions: Versions,
    /// After this time without input the peer is asked for an echo, and after twice this time
    /// given up; `None` waits for ever.
    pub probe_interval: Option<Duration>,
}

impl Default for SessionConfig {
    fn default() -> SessionConfig {
        SessionConfig {
            versions: Versions::ALL,
            probe_interval: Some(Duration::from_secs(5)),
        }
    }
}

/// A message from the peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Incoming {
    /// The whole message.
    pub bytes: Bytes,
    /// The message, or why it is refused.
    pub frame: Result<Frame, Refusal>,
}

impl Incoming {
    /// The transaction.
    pub fn xid(&self) -> u32 {
        xid_of(&self.bytes)
    }
}

/// The counters of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SessionCounters {
    /// Messages received.
    pub received: u64,
    /// Messages sent.
    pub sent: u64,
    /// Errors sent.
    pub errors: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Waits for the peer's hello.
    Greeting,
    Speaking(Version),
    /// Nothing more is read.
    Over,
}

/// One connection.
///
/// ```
/// use std::time::Duration;
/// use thalweg_openflow::{Session, SessionConfig, Version, message::Message};
///
/// let mut switch = Session::new(SessionConfig::default(), Duration::ZERO);
/// let mut controller = Session::new(SessionConfig::default(), Duration::ZERO);
/// while let Some(bytes) = controller.take_output() {
///     switch.receive(&bytes, Duration::ZERO);
/// }
/// assert!(switch.next().is_none()); // it was the hello
/// assert_eq!(switch.version(), Some(Version::V15));
/// ```
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    state: State,
    /// What the meaning of messages depends on.
    pub context: Context,
    input: Vec<u8>,
    /// How much of the input has been returned.
    used: usize,
    output: VecDeque<Bytes>,
    output_bytes: usize,
    began_at: Duration,
    last_input: Duration,
    is_probing: bool,
    counters: SessionCounters,
    end: Option<&'static str>,
}

impl Session {
    /// Begins a session: its hello is ready to be sent.
    pub fn new(config: SessionConfig, now: Duration) -> Session {
        let mut session = Session {
            config,
            state: State::Greeting,
            context: Context::default(),
            input: Vec::new(),
            used: 0,
            output: VecDeque::new(),
            output_bytes: 0,
            began_at: now,
            last_input: now,
            is_probing: false,
            counters: SessionCounters::default(),
            end: None,
        };
        let hello = Message::Hello(Hello {
            versions: config.versions,
        });
        session.put(Version::V10, 0, &hello);
        session
    }

    /// The version that both speak; `None` before the hellos.
    pub fn version(&self) -> Option<Version> {
        match self.state {
            State::Speaking(version) => Some(version),
            State::Greeting | State::Over => None,
        }
    }

    /// Whether the session has ended. The remaining output may still be sent.
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Why it has ended, if it has.
    pub fn end_reason(&self) -> Option<&'static str> {
        self.end
    }

    /// Ends the session.
    pub fn end(&mut self, reason: &'static str) {
        self.state = State::Over;
        self.end.get_or_insert(reason);
    }

    /// Its counters.
    pub fn counters(&self) -> SessionCounters {
        self.counters
    }

    /// Bytes that wait to be sent.
    pub fn output_bytes(&self) -> usize {
        self.output_bytes
    }

    /// Bytes that were received and wait to be returned.
    pub fn input_bytes(&self) -> usize {
        self.input.len() - self.used
    }

    /// Takes bytes from the peer.
    pub fn receive(&mut self, bytes: &[u8], now: Duration) {
        if self.is_over() {
            return;
        }
        self.last_input = now;
        self.is_probing = false;
        if self.used > 0 {
            self.input.drain(..self.used);
            self.used = 0;
        }
        self.input.extend_from_slice(bytes);
    }

    /// The next message of the peer, apart from hellos and echoes.
    #[expect(clippy::should_implement_trait, reason = "more may come after `None`")]
    pub fn next(&mut self) -> Option<Incoming> {
        while !self.is_over() {
            let rest = &self.input[self.used..];
            let length = match message_length(rest) {
                Ok(Some(length)) if length <= rest.len() => length,
                Ok(_) => return None,
                Err(_) => {
                    self.end("a message shorter than its header");
                    return None;
                }
            };
            let bytes = Bytes::copy_from_slice(&rest[..length]);
            self.used += length;
            self.counters.received += 1;
            if let Some(incoming) = self.handle(bytes) {
                return Some(incoming);
            }
        }
        None
    }

    fn handle(&mut self, bytes: Bytes) -> Option<Incoming> {
        let frame = decode(&bytes, self.context);
        let xid = xid_of(&bytes);
        match (self.state, frame) {
            (State::Greeting, Ok(Frame { message, .. })) => {
                match message {
                    Message::Hello(hello) => self.greet(hello, &bytes),
                    _ => self.end("a message before the hello"),
                }
                None
            }
            (State::Greeting, Err(_)) => {
                self.end("a message before the hello");
                None
            }
            (State::Speaking(_), Ok(Frame { message, .. })) if is_greeting(&message) => None,
            (State::Speaking(version), frame) => {
                if bytes[0] != version.number() {
                    let what = format!("a message of version {}", bytes[0]);
                    let frame = Err(refuse(ErrorCode::OFPBRC_BAD_VERSION, what));
                    return Some(Incoming { bytes, frame });
                }
                match frame {
                    Ok(Frame {
                        message: Message::EchoRequest(data),
                        ..
                    }) => {
                        self.send(xid, &Message::EchoReply(data));
                        None
                    }
                    Ok(Frame {
                        message: Message::EchoReply(_),
                        ..
                    }) => None,
                    frame => Some(Incoming { bytes, frame }),
                }
            }
            (State::Over, _) => None,
        }
    }

    /// Chooses the version; without one in common the session ends.
    fn greet(&mut self, hello: Hello, bytes: &[u8]) {
        match self.config.versions.newest_in_common(hello.versions) {
            Some(version) => self.state = State::Speaking(version),
            None => {
                // The error is of a version that the peer can read.
                let newest = hello.versions.newest().unwrap_or(Version::V10);
                let known: Vec<String> =
                    self.config.versions.iter().map(|v| v.to_string()).collect();
                let text = format!("this side speaks OpenFlow {}", known.join(", "));
                let mut error = ErrorMessage::new(newest, ErrorCode::OFPHFC_INCOMPATIBLE, &[]);
                error.data = Bytes::from(text);
                self.put(newest, xid_of(bytes), &Message::Error(error));
                self.end("no version in common");
            }
        }
    }

    /// Sends a message; returns whether the version has it.
    pub fn send(&mut self, xid: u32, message: &Message) -> bool {
        match self.state {
            State::Speaking(version) => self.put(version, xid, message),
            State::Greeting | State::Over => false,
        }
    }

    /// Sends a message that is encoded already.
    pub fn send_bytes(&mut self, bytes: Vec<u8>) {
        if self.version().is_some() {
            self.counters.sent += 1;
            self.output_bytes += bytes.len();
            self.output.push_back(bytes.into());
        }
    }

    /// Tells the peer why a message of its was refused.
    pub fn send_error(&mut self, code: ErrorCode, offending: &[u8]) {
        let Some(mut version) = self.version() else {
            return;
        };
        if code == ErrorCode::OFPBRC_BAD_VERSION {
            // In the sender's own version, as Open vSwitch does, so that it can be read.
            version = Version::from_number(offending[0]).unwrap_or(version);
        }
        self.counters.errors += 1;
        let error = ErrorMessage::new(version, code, offending);
        self.put(version, xid_of(offending), &Message::Error(error));
    }

    fn put(&mut self, version: Version, xid: u32, message: &Message) -> bool {
        let Some(bytes) = encode(version, xid, message) else {
            return false;
        };
        self.counters.sent += 1;
        self.output_bytes += bytes.len();
        self.output.push_back(bytes.into());
        true
    }

    /// The next message to be sent.
    pub fn take_output(&mut self) -> Option<Bytes> {
        let bytes = self.output.pop_front()?;
        self.output_bytes -= bytes.len();
        Some(bytes)
    }

    /// Does not count the silence until now: the owner did not read.
    pub fn excuse(&mut self, now: Duration) {
        self.last_input = now;
        self.is_probing = false;
    }

    /// Follows the time; returns when it must be called again at the latest.
    pub fn tick(&mut self, now: Duration) -> Option<Duration> {
        if self.state == State::Greeting {
            let due = self.began_at + GREETING;
            if now >= due {
                self.end("the peer says no hello");
                return None;
            }
            return Some(due);
        }
        let interval = self.config.probe_interval?;
        if self.is_over() {
            return None;
        }
        let silent = now.saturating_sub(self.last_input);
        if silent >= 2 * interval {
            self.end("the peer is silent");
            return None;
        }
        if silent >= interval && !self.is_probing {
            self.is_probing = true;
            self.send(0, &Message::EchoRequest(Bytes::new()));
        }
        let patience = if self.is_probing {
            2 * interval
        } else {
            interval
        };
        Some(self.last_input + patience)
    }
}

/// Whether a message belongs to the greeting and is of no interest later.
fn is_greeting(message: &Message) -> bool {
    matches!(message, Message::Hello(_))
}
