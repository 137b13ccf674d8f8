//! Buffers digests for the controller as lists of distinct messages.
//!
//! ```text
//!   message in the cache or in the buffer?  it is dropped
//!   else into the buffer; the buffer is sent as a list when it is full or when its first
//!   message has waited for max_timeout_ns
//!   a list that was sent is in the cache until it is acknowledged, or ack_timeout_ns old
//! ```
//!
//! Section "DigestEntry" of P4Runtime 1.5.0.
//!
//! 1. The messages of a list differ, and none of them is in a cached list.
//! 2. A buffer holds at most [`MAX_LIST`] messages. Buffer and cache of a digest hold at most
//!    [`MAX_CACHED`] together; further messages are dropped and counted.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use thalweg_packet::Instant;

use crate::proto::p4::v1::digest_entry::Config;
use crate::value::Value;

/// Maximum messages of a list, if the controller sets no limit.
const MAX_LIST: usize = 1_024;
/// Maximum messages of one digest that are buffered or wait for an acknowledgement.
const MAX_CACHED: usize = 1 << 16;

/// The digests of a program that are enabled.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    buffers: BTreeMap<u32, Buffer>,
    last_list: u64,
    /// Messages dropped because too many wait for an acknowledgement.
    pub(crate) dropped: u64,
}

#[derive(Debug)]
struct Buffer {
    config: Config,
    waiting: Vec<Vec<Value>>,
    /// Messages that wait, or were sent and not acknowledged.
    known: HashSet<Vec<Value>>,
    since: Instant,
    sent: VecDeque<Sent>,
}

#[derive(Debug)]
struct Sent {
    list: u64,
    at: Instant,
    messages: Vec<Vec<Value>>,
}

/// A list to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct List {
    pub(crate) digest: u32,
    pub(crate) id: u64,
    pub(crate) messages: Vec<Vec<Value>>,
}

impl Digests {
    /// Sets how a digest is sent, or with `None` disables it.
    pub(crate) fn configure(&mut self, digest: u32, config: Option<&Config>) {
        let Some(config) = config else {
            self.buffers.remove(&digest);
            return;
        };
        self.buffers
            .entry(digest)
            .and_modify(|buffer| buffer.config = *config)
            .or_insert_with(|| Buffer {
                config: *config,
                waiting: Vec::new(),
                known: HashSet::new(),
                since: Instant::ZERO,
                sent: VecDeque::new(),
            });
    }

    /// Forgets everything, since another program runs.
    pub(crate) fn clear(&mut self) {
        self.buffers.clear();
    }

    /// Handles a message from the data plane. Returns a list if it is now full.
    pub(crate) fn handle_message(
        &mut self,
        digest: u32,
        message: Vec<Value>,
        now: Instant,
    ) -> Option<List> {
        let buffer = self.buffers.get_mut(&digest)?;
        buffer.forget(now);
        // Invariant 1.
        if buffer.known.contains(&message) {
            return None;
        }
        // Invariant 2.
        if buffer.known.len() >= MAX_CACHED {
            self.dropped += 1;
            return None;
        }
        if buffer.waiting.is_empty() {
            buffer.since = now;
        }
        buffer.known.insert(message.clone());
        buffer.waiting.push(message);
        let is_full = buffer.waiting.len() >= buffer.list_size();
        let is_due = buffer.config.max_timeout_ns == 0;
        if is_full || is_due {
            return buffer.take(digest, &mut self.last_list, now);
        }
        None
    }

    /// Handles the controller's acknowledgement of a list.
    pub(crate) fn handle_ack(&mut self, digest: u32, list: u64) {
        let Some(buffer) = self.buffers.get_mut(&digest) else {
            return;
        };
        if let Some(place) = buffer.sent.iter().position(|sent| sent.list == list)
            && let Some(sent) = buffer.sent.remove(place)
        {
            buffer.release(sent);
        }
    }

    /// Takes a list that has waited long enough; call until there is none.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Option<List> {
        for (digest, buffer) in &mut self.buffers {
            buffer.forget(now);
            if !buffer.waiting.is_empty() && buffer.due() <= now {
                return buffer.take(*digest, &mut self.last_list, now);
            }
        }
        None
    }

    /// When the next list is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let waiting = self
            .buffers
            .values()
            .filter(|buffer| !buffer.waiting.is_empty());
        waiting.map(Buffer::due).min()
    }
}

impl Buffer {
    fn list_size(&self) -> usize {
        match usize::try_from(self.config.max_list_size) {
            Ok(size) if size > 0 => size.min(MAX_LIST),
            _ => MAX_LIST,
        }
    }

    fn due(&self) -> Instant {
        self.since + nanos(self.config.max_timeout_ns)
    }

    fn take(&mut self, digest: u32, last_list: &mut u64, now: Instant) -> Option<List> {
        *last_list += 1;
        let messages = std::mem::take(&mut self.waiting);
        let sent = Sent {
            list: *last_list,
            at: now,
            messages: messages.clone(),
        };
        if self.config.ack_timeout_ns == 0 {
            self.release(sent);
        } else {
            self.sent.push_back(sent);
        }
        Some(List {
            digest,
            id: *last_list,
            messages,
        })
    }

    /// Forgets lists that are too old to be acknowledged.
    fn forget(&mut self, now: Instant) {
        let patience = nanos(self.config.ack_timeout_ns);
        while self
            .sent
            .front()
            .is_some_and(|sent| sent.at + patience <= now)
        {
            if let Some(sent) = self.sent.pop_front() {
                self.release(sent);
            }
        }
    }

    fn release(&mut self, sent: Sent) {
        for message in &sent.messages {
            self.known.remove(message);
        }
    }
}

fn nanos(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(max_timeout_ns: i64, max_list_size: i32, ack_timeout_ns: i64) -> Config {
        Config {
            max_timeout_ns,
            max_list_size,
            ack_timeout_ns,
        }
    }

    fn message(number: u64) -> Vec<Value> {
        vec![Value::from(number), Value::from(7)]
    }

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn a_list_is_sent_when_it_is_full_or_late_and_not_again_before_it_is_acknowledged() {
        let mut digests = Digests::default();
        assert_eq!(
            digests.handle_message(1, message(1), at(0)),
            None,
            "not sent"
        );
        digests.configure(1, Some(&config(100, 2, 1_000)));
        assert_eq!(digests.handle_message(1, message(1), at(10)), None);
        assert_eq!(
            digests.handle_message(1, message(1), at(20)),
            None,
            "the same"
        );
        assert_eq!(digests.poll_timeout(), Some(at(110)));
        let list = digests.handle_message(1, message(2), at(30)).unwrap();
        assert_eq!(list.messages, [message(1), message(2)]);
        assert_eq!(digests.poll_timeout(), None);
        assert_eq!(
            digests.handle_message(1, message(2), at(40)),
            None,
            "cached"
        );
        assert_eq!(digests.handle_message(1, message(3), at(50)), None);
        assert_eq!(digests.handle_timeout(at(149)), None);
        let late = digests.handle_timeout(at(150)).unwrap();
        assert_eq!(late.messages, [message(3)]);
        assert!(late.id > list.id);
        assert_eq!(digests.handle_timeout(at(150)), None);
        // An acknowledgement frees only its own list.
        digests.handle_ack(1, list.id);
        assert_eq!(
            digests.handle_message(1, message(3), at(200)),
            None,
            "cached"
        );
        assert_eq!(digests.handle_message(1, message(1), at(200)), None);
        let list = digests.handle_message(1, message(2), at(200)).unwrap();
        assert_eq!(list.messages, [message(1), message(2)]);
        // So does the passage of time.
        assert_eq!(digests.handle_message(1, message(2), at(1_199)), None);
        assert_eq!(digests.poll_timeout(), None);
        assert_eq!(digests.handle_message(1, message(2), at(1_200)), None);
        assert_eq!(digests.poll_timeout(), Some(at(1_300)));
    }

    #[test]
    fn without_time_outs_each_message_goes_at_once_and_again() {
        let mut digests = Digests::default();
        digests.configure(1, Some(&config(0, 0, 0)));
        for _ in 0..3 {
            let list = digests.handle_message(1, message(1), at(5)).unwrap();
            assert_eq!(list.messages, [message(1)]);
        }
        digests.configure(1, None);
        assert_eq!(digests.handle_message(1, message(1), at(5)), None);
    }

    #[test]
    fn what_waits_to_be_acknowledged_is_bounded() {
        let mut digests = Digests::default();
        digests.configure(1, Some(&config(0, 1, i64::MAX)));
        for number in 0..MAX_CACHED as u64 {
            assert!(digests.handle_message(1, message(number), at(0)).is_some());
        }
        assert_eq!(digests.handle_message(1, message(u64::MAX), at(0)), None);
        assert_eq!(digests.dropped, 1);
    }
}
