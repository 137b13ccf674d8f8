//! The trait of all ports.

use std::os::fd::BorrowedFd;

pub use thalweg_packet::BURST;
use thalweg_packet::{Instant, Packet, PacketPool};

use crate::PortCounters;
use crate::offload::is_for_kernel;

/// Receives and sends packets, a burst at a time.
///
/// The calls are made through `dyn` once per burst; the crate's page shows the loop.
pub trait Port: Send {
    /// Appends up to [`BURST`] packets that have arrived; never waits.
    ///
    /// Each packet comes from `pool`. It records the port that received it and the time:
    /// `now`, or the time in the capture. An empty pool ends the call early and is counted
    /// ([`PortCounters::pool_refusals`]); the packets wait where they are. A port may keep up
    /// to [`BURST`] packets of the pool, so a pool needs room for each port's share.
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant);

    /// Sends every packet of `burst` and leaves it empty; never waits.
    ///
    /// Packets that cannot be sent are dropped and counted. The buffers go back to `pool`.
    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>);

    /// Has the port give frames that stand for segments as one packet each, and packets whose
    /// checksum is not there yet ([`Packet::unfinished`]).
    ///
    /// The owner passes such packets on by [`send_burst`]. Without this call every packet is one
    /// finished frame. A port that cannot give others ignores it.
    fn keep_whole(&mut self) {}

    /// Whether [`Port::send`] takes unfinished packets.
    fn takes_whole(&self) -> bool {
        false
    }

    /// Whether the port can carry packets now.
    ///
    /// It may ask the operating system (two calls), so call it on the slow path, not for each
    /// burst.
    fn status(&mut self) -> PortStatus;

    /// The counters since the port was opened.
    fn counters(&self) -> PortCounters;

    /// Returns the port's spare packets to the pool, before the port is dropped.
    ///
    /// Packets that have arrived and were not yet received are dropped and counted.
    fn close(&mut self, _pool: &mut PacketPool) {}

    /// The descriptor to poll for input; a port without one must be called in turn.
    ///
    /// A port may hold packets that the descriptor does not show. So wait only after a call of
    /// [`Port::receive`] that gave none. If the descriptor is ready and still nothing comes,
    /// call [`Port::status`]: the interface may have gone.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Sends every packet of `burst`, and leaves it empty: to a port that does not take unfinished
/// packets, finished frames only.
///
/// A packet that stands for segments is cut here, at most [`BURST`] of them at a time. So is one
/// whose IP header the kernel would not find, since it is behind labels.
pub fn send_burst<P: Port + ?Sized>(port: &mut P, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
    let takes_whole = port.takes_whole();
    let is_taken =
        |packet: &Packet| !packet.is_unfinished() || takes_whole && is_for_kernel(packet);
    match burst.iter().all(is_taken) {
        true => port.send(pool, burst),
        false => send_finished(port, pool, burst),
    }
}

/// The same for a port that does not take unfinished packets.
#[cold]
pub(crate) fn send_finished<P: Port + ?Sized>(
    port: &mut P,
    pool: &mut PacketPool,
    burst: &mut Vec<Packet>,
) {
    let mut ready = Vec::with_capacity(BURST);
    for mut packet in burst.drain(..) {
        if !packet.is_segmented() {
            packet.finish();
            ready.push(packet);
        } else {
            for index in 0..packet.segment_count() {
                if ready.len() >= BURST || pool.available() == 0 {
                    port.send(pool, &mut ready);
                }
                // The pool frees packets that are too many for it.
                let mut segment = pool.take().unwrap_or_default();
                packet.emit_segment(index, &mut segment);
                ready.push(segment);
            }
            pool.put(packet);
        }
        if ready.len() >= BURST {
            port.send(pool, &mut ready);
        }
    }
    if !ready.is_empty() {
        port.send(pool, &mut ready);
    }
}

/// Whether a port can carry packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PortStatus {
    /// The port carries packets.
    Up,
    /// The port may carry packets again: its interface is down or without carrier.
    Down,
    /// The port will never carry packets again: its interface was deleted.
    Gone,
    /// The port has given all its packets: a capture at its end. It may still send.
    Finished,
}

impl<P: Port + ?Sized> Port for Box<P> {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant) {
        (**self).receive(pool, burst, now);
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        (**self).send(pool, burst);
    }

    fn keep_whole(&mut self) {
        (**self).keep_whole();
    }

    fn takes_whole(&self) -> bool {
        (**self).takes_whole()
    }

    fn status(&mut self) -> PortStatus {
        (**self).status()
    }

    fn counters(&self) -> PortCounters {
        (**self).counters()
    }

    fn close(&mut self, pool: &mut PacketPool) {
        (**self).close(pool);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (**self).descriptor()
    }
}
