//! A tunnel as a port of a switch.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use thalweg_packet::{Instant, Packet, PacketPool, PortId};
use thalweg_tunnel::PerPacket;

use super::counts::TunnelCause;
use super::depart::{LastHeader, prepare};
use super::hub::{TunnelHub, TunnelView, TunnelWay};
use super::seat::Seat;
use super::senders::SenderPlace;
use crate::sys::Departure;
use crate::{BURST, DropReason, Port, PortCounters, PortStatus};

/// Nanoseconds in the unit of ERSPAN's timestamps.
const TIMESTAMP_UNIT: u64 = 100_000;

/// A port whose packets go through a tunnel.
///
/// ```
/// use thalweg_io::{Port, TunnelDeviceSettings, TunnelHub, TunnelWay};
/// use thalweg_packet::{PacketPool, Packet, PortId};
/// use thalweg_tunnel::{TunnelPort, TunnelType};
///
/// let hub = TunnelHub::new();
/// let options = [("remote_ip", "127.0.0.1"), ("dst_port", "59871")];
/// let parsed = TunnelPort::parse("t0", TunnelType::Vxlan, options)?;
/// let mut device = hub.open(TunnelDeviceSettings {
///     number: PortId(1),
///     name: "t0".to_owned(),
///     port: parsed.port,
///     datapath_port: 1,
///     bridge: 0,
///     way: TunnelWay::Sockets,
/// })?;
/// let mut pool = PacketPool::with_capacity(8, 2_048);
/// device.send(&mut pool, &mut vec![Packet::from_bytes(&[0; 60])]);
/// assert_eq!(device.counters().sent_packets, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TunnelDevice {
    pub(super) number: PortId,
    way: TunnelWay,
    /// Whether it takes whole frames.
    takes_whole: bool,
    /// Whether it joins segments.
    keeps_whole: bool,
    pub(super) hub: TunnelHub,
    seat: Arc<Seat>,
    pub(super) counters: PortCounters,
    pub(super) last: Option<LastHeader>,
    /// The next sequence number of GRE, ERSPAN or GTP-U.
    pub(super) sequence: u32,
    /// The way of each packet of a burst that is left to send.
    pub(super) leaving: Vec<Option<(SenderPlace, Departure)>>,
    /// The segments of a whole frame.
    pub(super) segments: Vec<Packet>,
}

impl TunnelDevice {
    pub(super) fn new(
        (number, way, takes_whole): (PortId, TunnelWay, bool),
        hub: TunnelHub,
        seat: Arc<Seat>,
    ) -> TunnelDevice {
        TunnelDevice {
            number,
            way,
            takes_whole,
            keeps_whole: false,
            hub,
            seat,
            counters: PortCounters::default(),
            last: None,
            sequence: 0,
            leaving: Vec::with_capacity(BURST),
            segments: Vec::new(),
        }
    }

    /// Puts a tunnel's header in front of each packet, and notes its way.
    pub(super) fn encapsulate(&mut self, burst: &mut [Packet]) {
        let hub = self.hub.clone();
        let table = hub.table();
        let view = TunnelView {
            table: &table,
            hub: &hub,
        };
        let Some(port) = table.ports.get(self.number) else {
            self.leaving.resize(burst.len(), None);
            self.drop_all(burst.len());
            return;
        };
        let headers = (port.kind(), port.header_settings());
        for packet in burst {
            packet.finish();
            let variable = next_variable(&mut self.sequence, packet);
            let prepared = prepare(view, (self.number, port), packet);
            let way = prepared.and_then(|prepared| {
                let way = prepared.departure(headers.0);
                let last = &mut self.last;
                LastHeader::push(last, headers, (prepared, None), packet, variable)?;
                Ok(way)
            });
            self.leaving.push(way.ok());
            if let Err(cause) = way {
                self.count(cause);
            }
        }
    }

    /// Sends packets that are one frame each.
    fn send_frames(&mut self, frames: &mut [Packet]) {
        self.leaving.clear();
        self.encapsulate(frames);
        for first in 0..frames.len() {
            self.send_by_one_socket(frames, first);
        }
    }

    /// Counts a packet that was not sent.
    pub(super) fn count(&mut self, cause: TunnelCause) {
        self.hub.counters().add(cause);
        self.counters.add_drop(DropReason::Tunnel);
    }

    /// Sends the packets that leave by the socket of the first of them; at most a burst.
    pub(super) fn send_by_one_socket(&mut self, burst: &[Packet], first: usize) {
        let Some((place, departure)) = self.leaving[first] else {
            return;
        };
        let mut datagrams = [(&[][..], departure); BURST];
        let mut count = 0;
        for (packet, way) in burst[first..].iter().zip(&mut self.leaving[first..]) {
            match way {
                Some((other, departure)) if *other == place && count < BURST => {
                    datagrams[count] = (packet.bytes(), *departure);
                    *way = None;
                    count += 1;
                }
                _ => {}
            }
        }
        let datagrams = &datagrams[..count];
        let socket = match self.hub.senders().get(place) {
            Ok(socket) => socket,
            Err(_) => {
                let count = count as u64;
                self.counters.drops.add(DropReason::SendError, count);
                return;
            }
        };
        let mut done = 0;
        while done < count {
            match socket.send(&datagrams[done..]) {
                Ok(sent) => {
                    for (bytes, _) in &datagrams[done..done + sent] {
                        self.counters.add_sent(bytes.len());
                    }
                    done += sent;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let reason = refusal(&error, &self.hub);
                    self.counters.add_drop(reason);
                    done += 1;
                }
            }
        }
    }
}

/// What the headers of a packet have that no other has.
pub(super) fn next_variable(next: &mut u32, packet: &Packet) -> PerPacket {
    let sequence = *next;
    *next = sequence.wrapping_add(1);
    PerPacket {
        source_port: 0,
        sequence,
        timestamp_100us: (packet.received_at().as_nanos() / TIMESTAMP_UNIT) as u32,
    }
}

/// Why the kernel did not send a packet; causes that only tunnels have are counted by the hub.
fn refusal(error: &io::Error, hub: &TunnelHub) -> DropReason {
    let cause = match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOBUFS) => return DropReason::QueueFull,
        Some(libc::EMSGSIZE) => TunnelCause::TooLong,
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::EADDRNOTAVAIL) => {
            TunnelCause::NoRoute
        }
        // The kernel has no such address of its own.
        Some(libc::EINVAL) => TunnelCause::Encapsulation,
        _ => return DropReason::SendError,
    };
    hub.counters().add(cause);
    match cause {
        TunnelCause::TooLong => DropReason::TooLong,
        _ => DropReason::Tunnel,
    }
}

impl Port for TunnelDevice {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant) {
        let end = burst.len() + BURST;
        let who = (self.number, now);
        let counters = &mut self.counters;
        counters.pool_refusals += self.seat.inbox.receive(who, pool, burst, BURST);
        if self.seat.socket(0).is_none() {
            return;
        }
        let table = self.hub.table();
        let view = TunnelView {
            table: &table,
            hub: &self.hub,
        };
        for index in 0.. {
            let most = end - burst.len();
            let Some(socket) = self.seat.socket(index).filter(|_| most > 0) else {
                return;
            };
            let joins = self.keeps_whole;
            socket.receive(view, pool, burst, (most, now, joins), counters);
        }
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        if self.way == TunnelWay::Native {
            self.send_native(pool, burst);
            return;
        }
        // Packets stay in order: each run of frames goes before the whole frame behind it.
        for run in burst.chunk_by_mut(|one, other| !one.is_segmented() && !other.is_segmented()) {
            match run {
                [whole] if whole.is_segmented() => self.send_whole(pool, whole),
                frames => self.send_frames(frames),
            }
        }
        pool.put_burst(burst);
    }

    fn keep_whole(&mut self) {
        self.keeps_whole = true;
    }

    fn takes_whole(&self) -> bool {
        self.takes_whole
    }

    fn status(&mut self) -> PortStatus {
        PortStatus::Up
    }

    fn counters(&self) -> PortCounters {
        let mut counters = self.counters;
        self.seat.add_to(&mut counters);
        counters
    }

    fn close(&mut self, _pool: &mut PacketPool) {
        let lost = self.seat.inbox.len() as u64;
        self.counters.drops.add(DropReason::LinkDown, lost);
        self.hub.close(self.number, &self.seat);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.seat.descriptor())
    }
}

impl Drop for TunnelDevice {
    fn drop(&mut self) {
        self.hub.close(self.number, &self.seat);
    }
}
