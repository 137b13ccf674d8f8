//! The one trait of the crate.

use std::os::fd::BorrowedFd;

pub use thalweg_packet::BURST;
use thalweg_packet::{Instant, Packet, PacketPool};

use crate::PortCounters;

/// Where packets enter and leave, a burst at a time.
///
/// The calls are made through `dyn` once per burst; see the crate's page for the loop.
pub trait Port: Send {
    /// Appends up to [`BURST`] packets that have arrived; never waits.
    ///
    /// Each packet comes out of `pool` and says which port received it and when: `now`, or the
    /// time in the capture. An empty pool ends the call early and is counted
    /// ([`PortCounters::pool_refusals`]); the packets wait where they are. A port may keep up to
    /// [`BURST`] packets of the pool at hand, so a pool wants room for each port's share.
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant);

    /// Sends every packet of `burst` and leaves it empty; never waits.
    ///
    /// What cannot be sent is dropped and counted. The buffers go back to `pool`.
    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>);

    /// Whether the port can carry packets now.
    ///
    /// May ask the operating system (two calls): for the slow path, not for each burst.
    fn status(&mut self) -> PortStatus;

    /// What the port has done since it was opened.
    fn counters(&self) -> PortCounters;

    /// Gives the packets of the pool that it has at hand back, before it is dropped.
    ///
    /// Those that have arrived and were not yet received are dropped and counted.
    fn close(&mut self, _pool: &mut PacketPool) {}

    /// What to poll for input, if the port can be polled; else it is to be asked in turn.
    ///
    /// A port may have packets at hand that the descriptor knows nothing of: wait only after a
    /// call of [`Port::receive`] that gave none. If the descriptor is ready and still nothing
    /// comes, ask [`Port::status`]: an interface that went away looks like that.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Whether a port can carry packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PortStatus {
    /// It carries packets.
    Up,
    /// It may carry packets again: an interface that is down or without carrier.
    Down,
    /// It will never carry packets again: its interface was deleted.
    Gone,
    /// It has given all the packets it had: a capture at its end. It may still send.
    Finished,
}

impl<P: Port + ?Sized> Port for Box<P> {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant) {
        (**self).receive(pool, burst, now);
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        (**self).send(pool, burst);
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
