//! Holds a device's sources of packets: sockets that it receives from for all, and its own queue.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use thalweg_packet::Packet;

use super::queue::PacketQueue;
use super::socket::TunnelSocket;
use crate::{DropReason, PortCounters};

/// A device as others see it.
#[derive(Debug)]
pub(super) struct Seat {
    /// Packets of its tunnel that bridges received.
    pub(super) inbox: PacketQueue,
    /// Ready while there is something to receive.
    ready: OwnedFd,
    sockets: Mutex<Vec<Arc<TunnelSocket>>>,
    received_packets: AtomicU64,
    received_bytes: AtomicU64,
    kernel_dropped: AtomicU64,
}

impl Seat {
    pub(super) fn new() -> io::Result<Seat> {
        let inbox = PacketQueue::new()?;
        let ready = epoll::create(CreateFlags::CLOEXEC)?;
        let data = EventData::new_u64(0);
        epoll::add(&ready, inbox.descriptor(), data, EventFlags::IN)?;
        Ok(Seat {
            inbox,
            ready,
            sockets: Mutex::default(),
            received_packets: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            kernel_dropped: AtomicU64::new(0),
        })
    }

    /// One of the sockets that it receives from. The lock is not held while it receives: the hub
    /// hands sockets over under its own.
    pub(super) fn socket(&self, index: usize) -> Option<Arc<TunnelSocket>> {
        self.sockets().get(index).cloned()
    }

    /// Lock poisoning is ignored: the list is only replaced.
    fn sockets(&self) -> MutexGuard<'_, Vec<Arc<TunnelSocket>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives from a socket from now on.
    ///
    /// # Errors
    /// If the system has no room.
    pub(super) fn take_socket(&self, socket: &Arc<TunnelSocket>) -> io::Result<()> {
        let data = EventData::new_u64(0);
        epoll::add(&self.ready, socket.descriptor(), data, EventFlags::IN)?;
        self.sockets().push(socket.clone());
        Ok(())
    }

    /// Receives from a socket no more.
    pub(super) fn leave_socket(&self, socket: &Arc<TunnelSocket>) {
        let dropped = socket.take_dropped();
        self.kernel_dropped.fetch_add(dropped, Ordering::Relaxed);
        let _ = epoll::delete(&self.ready, socket.descriptor());
        self.sockets().retain(|own| !Arc::ptr_eq(own, socket));
    }

    /// Counts a packet that came out of the tunnel, whichever device handed it over. As in Open
    /// vSwitch, the bytes are those in the tunnel, and a packet that is dropped for congestion
    /// counts.
    pub(super) fn add_received(&self, packet: &Packet) {
        self.received_packets.fetch_add(1, Ordering::Relaxed);
        self.received_bytes
            .fetch_add(packet.len() as u64, Ordering::Relaxed);
    }

    /// Adds the counts of this seat.
    pub(super) fn add_to(&self, counters: &mut PortCounters) {
        for socket in self.sockets().iter() {
            self.kernel_dropped
                .fetch_add(socket.take_dropped(), Ordering::Relaxed);
        }
        counters.received_packets += self.received_packets.load(Ordering::Relaxed);
        counters.received_bytes += self.received_bytes.load(Ordering::Relaxed);
        let dropped = self.kernel_dropped.load(Ordering::Relaxed);
        counters.drops.add(DropReason::KernelDropped, dropped);
    }

    /// Ready while there is something to receive.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}
