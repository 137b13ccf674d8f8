//! Tells a log of each message that connections carry.
//!
//! 1. While the log wants none, bytes are counted and not kept.
//! 2. The log is told whole messages only, even if it begins to want them amid one.

use std::sync::Arc;

use thalweg_openflow::message::Message;
use thalweg_openflow::{Context, HEADER_BYTES, Version, Versions, decode, message_length};

use crate::openflow::agent::FlowModReport;

/// What happened on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageSight<'a> {
    /// The peer sent a message.
    Received(&'a [u8]),
    /// The switch sent one.
    Sent(&'a [u8]),
    /// Both found a version that they speak, of those of the switch and of the peer.
    Negotiated(Version, Versions, Versions),
    /// What flow entries it changed, told even to an ear that is not open.
    FlowMods(FlowModReport),
}

/// Hears what connections carry.
pub trait MessageEar: Send + Sync {
    /// Whether it wants to hear anything now.
    fn is_open(&self) -> bool;

    /// Tells it what happened on a connection with a name, such as `unix#3`.
    fn hear(&self, connection: &str, sight: MessageSight<'_>);
}

/// An ear that may be shared by servers.
pub type SharedEar = Arc<dyn MessageEar>;

/// Splits the bytes of one direction of a connection into messages.
#[derive(Debug, Default)]
pub(super) struct MessageSplitter {
    /// The beginning of a message whose end has not come.
    begun: Vec<u8>,
    /// Bytes of a message that is not told.
    skipped: usize,
}

impl MessageSplitter {
    /// Takes bytes; `tell` gets each message that ends in them, if messages are wanted.
    pub(super) fn take(&mut self, mut bytes: &[u8], is_wanted: bool, mut tell: impl FnMut(&[u8])) {
        while !bytes.is_empty() {
            if self.skipped > 0 {
                let (_, rest) = bytes.split_at(self.skipped.min(bytes.len()));
                self.skipped -= bytes.len() - rest.len();
                bytes = rest;
                continue;
            }
            let wanted = match message_length(&self.begun) {
                Ok(None) => HEADER_BYTES,
                Ok(Some(length)) => length,
                // The session ends such a connection.
                Err(_) => return,
            };
            let (more, rest) = bytes.split_at((wanted - self.begun.len()).min(bytes.len()));
            self.begun.extend_from_slice(more);
            bytes = rest;
            if let Ok(Some(length)) = message_length(&self.begun) {
                if self.begun.len() == length {
                    if is_wanted {
                        tell(&self.begun);
                    }
                    self.begun.clear();
                } else if !is_wanted && self.begun.len() == HEADER_BYTES {
                    // Invariant 1.
                    self.skipped = length - HEADER_BYTES;
                    self.begun.clear();
                }
            }
        }
    }
}

/// One connection whose messages an ear may hear.
pub(super) struct OverheardConnection {
    ear: Option<SharedEar>,
    name: String,
    /// The versions that the switch speaks.
    versions: Versions,
    received: MessageSplitter,
    sent: MessageSplitter,
}

impl OverheardConnection {
    /// A connection with a name; nothing is told without an ear.
    pub(super) fn new(
        ear: Option<SharedEar>,
        name: String,
        versions: Versions,
    ) -> OverheardConnection {
        OverheardConnection {
            ear,
            name,
            versions,
            received: MessageSplitter::default(),
            sent: MessageSplitter::default(),
        }
    }

    /// Notes bytes of the peer.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        let Some(ear) = &self.ear else { return };
        let (name, own) = (&self.name, self.versions);
        self.received.take(bytes, ear.is_open(), |message| {
            ear.hear(name, MessageSight::Received(message));
            let frame = decode(message, Context::default());
            if let Ok(Message::Hello(hello)) = frame.map(|frame| frame.message)
                && let Some(version) = own.newest_in_common(hello.versions)
            {
                let peer = hello.versions;
                ear.hear(name, MessageSight::Negotiated(version, own, peer));
            }
        });
    }

    /// Notes bytes for the peer.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        let Some(ear) = &self.ear else { return };
        let name = &self.name;
        self.sent.take(bytes, ear.is_open(), |message| {
            ear.hear(name, MessageSight::Sent(message));
        });
    }

    /// Tells what flow entries the connection changed.
    pub(super) fn tell_flow_mods(&self, report: FlowModReport) {
        if let Some(ear) = &self.ear {
            ear.hear(&self.name, MessageSight::FlowMods(report));
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn messages_are_told_whole_however_bytes_come() {
        let mut random = StdRng::seed_from_u64(3);
        for _ in 0..200 {
            let (mut stream, mut messages) = (Vec::new(), Vec::new());
            for number in 0..random.random_range(1..20_u8) {
                let length = random.random_range(HEADER_BYTES..60);
                let mut message = vec![number; length];
                message[2..4].copy_from_slice(&(length as u16).to_be_bytes());
                stream.extend_from_slice(&message);
                messages.push((stream.len(), message));
            }
            let mut splitter = MessageSplitter::default();
            let (mut told, mut expected) = (Vec::new(), Vec::new());
            let (mut at, mut was_wanted) = (0, vec![true; stream.len()]);
            while at < stream.len() {
                let end = (at + random.random_range(1..30)).min(stream.len());
                let is_wanted = random.random_ratio(1, 2);
                was_wanted[at..end].fill(is_wanted);
                splitter.take(&stream[at..end], is_wanted, |message| {
                    told.push(message.to_vec());
                });
                at = end;
            }
            for (end, message) in messages {
                let start = end - message.len();
                // Where the header ended, and where the message did.
                let header = was_wanted[start + HEADER_BYTES - 1];
                let is_short = message.len() == HEADER_BYTES;
                if was_wanted[end - 1] && (header || is_short) {
                    expected.push(message);
                }
            }
            assert_eq!(told, expected);
        }
    }
}
