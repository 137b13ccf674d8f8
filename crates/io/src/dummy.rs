//! A port without a network, driven by hand: Open vSwitch's `dummy` devices.
//!
//! The port receives packets that are injected into the [`DummyHandle`]. Sent packets are counted
//! and gone; to keep them, wrap the port in a [`crate::TracePort`]. Its descriptor wakes a worker,
//! so an idle dummy costs nothing.
//!
//! Dummies may be joined by streams ([`DummyEnd`]): one receives the packets that another sends.
//!
//! 1. The queue holds at most [`CAPACITY`] packets; injecting more is refused.
//! 2. While packets wait, the descriptor is ready. `is_rung` says whether it may be, so that a look
//!    at a port without packets needs no system call.

mod streams;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use thalweg_packet::{Instant, Packet, PacketPool, PortId};

use self::streams::Streams;
pub use self::streams::{DummyConnection, DummyEnd};
use crate::{BURST, DropReason, Port, PortCounters, PortStatus};

/// Most packets that wait to be received.
const CAPACITY: usize = 4_096;

/// The counts that Open vSwitch's dummies have besides packets and bytes: of packets received,
/// twice, and of their only queue.
pub fn dummy_counts(counters: &PortCounters) -> [(&'static str, u64); 6] {
    [
        ("rx_custom_packets_1", counters.received_packets),
        ("rx_custom_packets_2", counters.received_packets),
        ("rx_q0_bytes", counters.received_bytes),
        ("rx_q0_packets", counters.received_packets),
        ("tx_q0_bytes", counters.sent_bytes),
        ("tx_q0_packets", counters.sent_packets),
    ]
}

#[derive(Debug)]
struct Queue {
    waiting: VecDeque<Box<[u8]>>,
    /// Whether the event was written since it was read.
    is_rung: bool,
    is_up: bool,
    streams: Option<Streams>,
}

impl Queue {
    /// Makes the descriptor ready.
    fn ring(&mut self, event: &OwnedFd) {
        if !std::mem::replace(&mut self.is_rung, true) {
            // It does not fail: earlier writes have been read.
            let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
        }
    }
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    event: OwnedFd,
    /// Also ready while a peer has sent something, if there are streams.
    ready: Option<OwnedFd>,
}

impl Shared {
    /// Lock poisoning is ignored: each step is one push or pop.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A port whose packets come from a [`DummyHandle`].
///
/// ```
/// use thalweg_io::{DummyPort, Port};
/// use thalweg_packet::{Instant, PacketPool, PortId};
///
/// let (mut port, handle) = DummyPort::open(PortId(1))?;
/// assert!(handle.inject(&[0; 60]));
/// let mut pool = PacketPool::with_capacity(32, 2_048);
/// let mut burst = Vec::new();
/// port.receive(&mut pool, &mut burst, Instant::ZERO);
/// assert_eq!(burst[0].bytes(), [0; 60]);
/// port.send(&mut pool, &mut burst);
/// assert_eq!(port.counters().sent_packets, 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct DummyPort {
    number: PortId,
    shared: Arc<Shared>,
    counters: PortCounters,
}

/// Feeds a [`DummyPort`].
#[derive(Clone, Debug)]
pub struct DummyHandle(Arc<Shared>);

impl DummyPort {
    /// Makes a port that is up, and what feeds it.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn open(number: PortId) -> io::Result<(DummyPort, DummyHandle)> {
        DummyPort::open_joined(number, None)
    }

    /// The same, joined to others if there is an `end`.
    ///
    /// # Errors
    /// If the system has no descriptor left, or the socket cannot be made.
    pub fn open_joined(
        number: PortId,
        end: Option<DummyEnd>,
    ) -> io::Result<(DummyPort, DummyHandle)> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let streams = end.map(|end| Streams::open(end, &event)).transpose()?;
        let ready = streams.as_ref().map(Streams::descriptor).transpose()?;
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                is_rung: false,
                is_up: true,
                streams,
            }),
            event,
            ready,
        });
        let port = DummyPort {
            number,
            shared: shared.clone(),
            counters: PortCounters::default(),
        };
        Ok((port, DummyHandle(shared)))
    }
}

impl DummyHandle {
    /// Puts a copy of `bytes` in the port's receive queue; returns false when it is full.
    pub fn inject(&self, bytes: &[u8]) -> bool {
        let mut queue = self.0.lock();
        if queue.waiting.len() >= CAPACITY {
            return false;
        }
        queue.waiting.push_back(bytes.into());
        queue.ring(&self.0.event);
        true
    }

    /// The number of injected packets that the port has not received yet.
    pub fn waiting(&self) -> usize {
        self.0.lock().waiting.len()
    }

    /// Takes peers that wait, or connects again; to be called now and then.
    pub fn tend(&self) {
        if let Some(streams) = &mut self.0.lock().streams {
            streams.tend();
        }
    }

    /// Whether the port is joined to another.
    pub fn connection(&self) -> DummyConnection {
        let queue = self.0.lock();
        let streams = queue.streams.as_ref();
        streams.map_or(DummyConnection::Unknown, Streams::connection)
    }

    /// Sets whether the port has a link.
    pub fn set_up(&self, is_up: bool) {
        self.0.lock().is_up = is_up;
    }
}

impl Port for DummyPort {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant) {
        let mut guard = self.shared.lock();
        let queue = &mut *guard;
        if let Some(streams) = &mut queue.streams
            && streams.receive(&mut queue.waiting, CAPACITY)
        {
            // Invariant 2: more may have come than fits into the burst.
            queue.ring(&self.shared.event);
        }
        let wanted = BURST.min(queue.waiting.len());
        let first = burst.len();
        if pool.take_burst(burst, wanted) < wanted {
            self.counters.pool_refusals += 1;
        }
        for packet in &mut burst[first..] {
            let bytes = queue.waiting.pop_front();
            packet.fill(&bytes.expect("as many as wait were taken"));
            packet.set_received(self.number, now);
            self.counters.add_received(packet.len());
        }
        if queue.waiting.is_empty() && std::mem::take(&mut queue.is_rung) {
            // Invariant 2: the reset is under the lock.
            let _ = rustix::io::read(&self.shared.event, &mut [0; 8]);
        }
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        let mut queue = self.shared.lock();
        for packet in burst.iter() {
            let streams = queue.streams.as_mut();
            match streams.is_none_or(|streams| streams.send(packet.bytes())) {
                true => self.counters.add_sent(packet.len()),
                false => self.counters.add_drop(DropReason::QueueFull),
            }
        }
        if let Some(streams) = &mut queue.streams {
            streams.flush();
        }
        drop(queue);
        pool.put_burst(burst);
    }

    fn status(&mut self) -> PortStatus {
        match self.shared.lock().is_up {
            true => PortStatus::Up,
            false => PortStatus::Down,
        }
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let ready = self.shared.ready.as_ref();
        Some(ready.unwrap_or(&self.shared.event).as_fd())
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_ready(port: &DummyPort) -> bool {
        let descriptor = port.descriptor().expect("it has one");
        let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())).expect("poll works") == 1
    }

    #[test]
    fn the_descriptor_is_ready_while_packets_wait() {
        let (mut port, handle) = DummyPort::open(PortId(3)).unwrap();
        assert!(!is_ready(&port));
        for number in 0..=BURST {
            assert!(handle.inject(&[number as u8; 60]));
        }
        let (mut pool, mut burst) = (PacketPool::with_capacity(BURST, 64), Vec::new());
        assert!(is_ready(&port));
        port.receive(&mut pool, &mut burst, Instant::ZERO);
        assert_eq!((burst.len(), handle.waiting()), (BURST, 1));
        assert!(is_ready(&port));
        port.send(&mut pool, &mut burst);
        port.receive(&mut pool, &mut burst, Instant::ZERO);
        assert_eq!((burst.len(), burst[0].bytes()[0]), (1, BURST as u8));
        assert!(!is_ready(&port));
    }

    #[test]
    fn joined_dummies_receive_what_the_other_sends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("joined");
        let listen = Some(DummyEnd::Listen(path.clone()));
        let connect = || Some(DummyEnd::Connect(path.clone()));
        let (mut early, early_handle) = DummyPort::open_joined(PortId(1), connect()).unwrap();
        assert_eq!(early_handle.connection(), DummyConnection::Disconnected);
        let (mut port, handle) = DummyPort::open_joined(PortId(2), listen).unwrap();
        early_handle.tend();
        handle.tend();
        assert_eq!(handle.connection(), DummyConnection::Connected);
        assert_eq!(early_handle.connection(), DummyConnection::Connected);
        let (mut pool, mut burst) = (PacketPool::with_capacity(64, 64), Vec::new());
        for length in [60, 20_000, 61] {
            burst.push(Packet::from_bytes(&vec![length as u8; length]));
        }
        early.send(&mut pool, &mut burst);
        assert!(is_ready(&port));
        port.receive(&mut pool, &mut burst, Instant::ZERO);
        let lengths: Vec<usize> = burst.iter().map(Packet::len).collect();
        assert_eq!(lengths, [60, 20_000, 61]);
        assert!(!is_ready(&port));
        assert!(burst.iter().all(|packet| packet.in_port() == PortId(2)));
        port.send(&mut pool, &mut burst);
        early.receive(&mut pool, &mut burst, Instant::ZERO);
        assert_eq!(burst.len(), 3);
        // Nothing is read, so that packets have no room at last.
        while port.counters().drops.iter().next().is_none() {
            burst.push(Packet::from_bytes(&[0; 60_000]));
            port.send(&mut pool, &mut burst);
        }
        drop((port, handle));
        assert!(!path.exists());
        burst.clear();
        loop {
            early.receive(&mut pool, &mut burst, Instant::ZERO);
            if burst.is_empty() {
                break;
            }
            pool.put_burst(&mut burst);
        }
        assert_eq!(early_handle.connection(), DummyConnection::Disconnected);
        let (_, plain) = DummyPort::open(PortId(3)).unwrap();
        assert_eq!(plain.connection(), DummyConnection::Unknown);
    }

    #[test]
    fn the_queue_is_bounded_and_the_link_follows_the_handle() {
        let (mut port, handle) = DummyPort::open(PortId(3)).unwrap();
        let injected = (0..CAPACITY + 7)
            .filter(|_| handle.inject(&[0; 60]))
            .count();
        assert_eq!((injected, handle.waiting()), (CAPACITY, CAPACITY));
        handle.set_up(false);
        assert_eq!(port.status(), PortStatus::Down);
        handle.set_up(true);
        assert_eq!(port.status(), PortStatus::Up);
    }
}
