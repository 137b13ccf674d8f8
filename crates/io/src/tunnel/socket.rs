//! A socket that receives the packets of all tunnels with one carrier and one UDP port.
//!
//! The kernel may give several datagrams of one sender as one message (`UDP_GRO`, udp(7)). The
//! packets in them are taken out one by one, and segments that follow each other are joined again
//! if the owner passes whole frames on ([`Packet::join`]).
//!
//! 1. Packets of a message for which a burst has no room wait; they come before what the socket
//!    has, so nothing is swapped.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use thalweg_packet::wire::IpProtocol;
use thalweg_packet::{Instant, Packet, PacketPool};
use thalweg_tunnel::{
    DecapsulateError, Decapsulated, Endpoints, TunnelKind, TunnelMetadata, decapsulate_ip,
    decapsulate_payload,
};

use super::counts::TunnelCause;
use super::deliver::deliver;
use super::hub::{TunnelTable, TunnelView};
use crate::sys::{Carrier, Datagram, DatagramSocket, IpFamily, Overflow};
use crate::{BURST, DropReason, PortCounters};

/// The protocols that GRE has for ERSPAN type II and III.
const ERSPAN_PROTOCOLS: [[u8; 2]; 2] = [[0x88, 0xbe], [0x22, 0xeb]];

/// Whether a GRE header has ERSPAN's protocol.
pub(super) fn is_erspan(header: &[u8]) -> bool {
    let protocol = header.get(2..4);
    ERSPAN_PROTOCOLS.iter().any(|known| protocol == Some(known))
}

/// What a socket receives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct SocketKey {
    pub(super) family: IpFamily,
    pub(super) carrier: Carrier,
    /// The UDP destination port; 0 for GRE.
    pub(super) port: u16,
}

/// A message of several datagrams.
struct Parts<'a> {
    datagram: &'a Datagram,
    /// The length of all but the last.
    each: usize,
    /// What had no room in the packet that received the message.
    behind: &'a [u8],
}

impl Parts<'_> {
    /// Copies a range of the message, which begins with `front`.
    fn copy(&self, front: &[u8], range: Range<usize>, packet: &mut Packet) {
        let cut = |at: usize| at.min(front.len());
        packet.fill(&front[cut(range.start)..cut(range.end)]);
        let behind = |at: usize| at.saturating_sub(front.len());
        packet.append(&self.behind[behind(range.start)..behind(range.end)]);
    }
}

/// The socket, and room to receive.
#[derive(Debug)]
pub(super) struct TunnelSocket {
    key: SocketKey,
    socket: DatagramSocket,
    room: Mutex<Room>,
    /// The kernel's drops that were counted.
    dropped: AtomicU64,
}

#[derive(Debug)]
struct Room {
    slots: Vec<Packet>,
    overflow: Overflow,
    datagrams: Box<[Datagram; BURST]>,
    /// Invariant 1.
    waiting: VecDeque<Packet>,
}

impl TunnelSocket {
    /// Starts to receive.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(super) fn open(key: SocketKey) -> io::Result<TunnelSocket> {
        Ok(TunnelSocket {
            key,
            socket: DatagramSocket::for_receiving(key.family, key.carrier, key.port)?,
            room: Mutex::new(Room {
                slots: Vec::with_capacity(BURST),
                overflow: Overflow::new(),
                datagrams: Box::new([Datagram::EMPTY; BURST]),
                waiting: VecDeque::new(),
            }),
            dropped: AtomicU64::new(0),
        })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.descriptor()
    }

    /// The kernel's drops since the last call.
    pub(super) fn take_dropped(&self) -> u64 {
        let dropped = self.socket.dropped();
        dropped.saturating_sub(self.dropped.swap(dropped, Ordering::Relaxed))
    }

    /// Appends up to `most` packets to `burst`, each with the port that it belongs to; if it
    /// `joins`, segments as whole frames.
    pub(super) fn receive(
        &self,
        view: TunnelView<'_>,
        pool: &mut PacketPool,
        burst: &mut Vec<Packet>,
        (most, now, joins): (usize, Instant, bool),
        counters: &mut PortCounters,
    ) {
        // Only the device that receives comes here, so nothing waits for the lock.
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let Room {
            slots,
            overflow,
            datagrams,
            waiting,
        } = &mut *room;
        let most = most.min(BURST);
        let first = most.min(waiting.len());
        burst.extend(waiting.drain(..first));
        let wanted = most - first;
        if wanted == 0 {
            return;
        }
        if pool.take_burst(slots, wanted) < wanted {
            counters.pool_refusals += 1;
        }
        let count = match self.socket.receive(slots, overflow, datagrams) {
            Ok(count) => count,
            Err(error) => {
                let kind = error.kind();
                if !matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) {
                    counters.add_drop(DropReason::ReceiveError);
                }
                0
            }
        };
        let end = burst.len() + wanted;
        for (index, mut packet) in slots.drain(..).enumerate() {
            if index >= count {
                pool.put(packet);
                continue;
            }
            let datagram = &datagrams[index];
            let split = datagram.len_bytes.min(packet.receive_area().len());
            let behind = &overflow.behind(index)[..datagram.len_bytes - split];
            packet.set_len(split);
            let each = datagram.segment_bytes;
            if each > 0 && each < datagram.len_bytes {
                let parts = Parts {
                    datagram,
                    each,
                    behind,
                };
                self.take_apart(view, pool, burst, (parts, &packet), (now, joins), counters);
                pool.put(packet);
                waiting.extend(burst.drain(end.min(burst.len())..));
                continue;
            }
            packet.append(behind);
            match self.take_out(view, datagram, &mut packet, now) {
                false => {
                    counters.add_drop(DropReason::Tunnel);
                    pool.put(packet);
                }
                true if burst.len() < end => burst.push(packet),
                true => waiting.push_back(packet),
            }
        }
    }

    /// Takes the packets out of a message of several datagrams, whose beginning is in `front`.
    fn take_apart(
        &self,
        view: TunnelView<'_>,
        pool: &mut PacketPool,
        burst: &mut Vec<Packet>,
        (parts, front): (Parts<'_>, &Packet),
        (now, joins): (Instant, bool),
        counters: &mut PortCounters,
    ) {
        let first = burst.len();
        let mut place = 0;
        while place < parts.datagram.len_bytes {
            let end = parts.datagram.len_bytes.min(place + parts.each);
            let spare = match joins && burst.len() == first {
                // Others will be joined to it.
                true => pool.take_large(),
                false => pool.take(),
            };
            // The pool frees packets that are too many for it.
            let mut packet = spare.unwrap_or_default();
            parts.copy(front.bytes(), place..end, &mut packet);
            place = end;
            if !self.take_out(view, parts.datagram, &mut packet, now) {
                counters.add_drop(DropReason::Tunnel);
                pool.put(packet);
                continue;
            }
            let is_joined = joins
                && burst[first..].last_mut().is_some_and(|last| {
                    last.in_port() == packet.in_port()
                        && last.tunnel() == packet.tunnel()
                        && last.join(&packet)
                });
            match is_joined {
                true => pool.put(packet),
                false => burst.push(packet),
            }
        }
    }

    /// Makes the packet in a tunnel of a datagram; false if there is none to be handed over.
    fn take_out(
        &self,
        view: TunnelView<'_>,
        datagram: &Datagram,
        packet: &mut Packet,
        now: Instant,
    ) -> bool {
        if datagram.is_cut {
            view.hub.counters().add(TunnelCause::Cut);
            return false;
        }
        match self.read(view.table, datagram, packet.bytes()) {
            Ok(Some((kind, told))) => deliver(view, (kind, &told), packet, now),
            Ok(None) => {
                view.hub.counters().add(TunnelCause::NoPort);
                false
            }
            Err(error) => {
                view.hub.counters().add_malformed(error);
                false
            }
        }
    }

    /// Reads the tunnel's header; `None` if no port is left that could take the datagram.
    fn read(
        &self,
        table: &TunnelTable,
        datagram: &Datagram,
        bytes: &[u8],
    ) -> Result<Option<(TunnelKind, Decapsulated)>, DecapsulateError> {
        let kind = match self.key.carrier {
            Carrier::Udp => {
                let mut listeners = table.ports.listeners_at(IpProtocol::UDP, self.key.port);
                match listeners.next() {
                    Some(active) => active.kind,
                    None => return Ok(None),
                }
            }
            Carrier::Gre => self.kind_of_gre(bytes),
        };
        let told = match (self.key.carrier, self.key.family) {
            // A raw socket gives the IPv4 header, but not that of IPv6.
            (Carrier::Gre, IpFamily::V4) => decapsulate_ip(kind, bytes)?,
            _ => decapsulate_payload(kind, bytes, self.outer_values(datagram))?,
        };
        Ok(Some((kind, told)))
    }

    fn kind_of_gre(&self, bytes: &[u8]) -> TunnelKind {
        let start = match (self.key.family, bytes.first()) {
            (IpFamily::V4, Some(first)) => usize::from(first & 15) * 4,
            _ => 0,
        };
        match is_erspan(bytes.get(start..).unwrap_or_default()) {
            true => TunnelKind::Erspan,
            false => TunnelKind::Gre,
        }
    }

    /// What the headers below the tunnel's said.
    fn outer_values(&self, datagram: &Datagram) -> TunnelMetadata {
        let source = datagram.source.ip();
        let unspecified = match source {
            IpAddr::V4(_) => IpAddr::from([0; 4]),
            IpAddr::V6(_) => IpAddr::from([0; 16]),
        };
        let destination = datagram.destination.unwrap_or(unspecified);
        TunnelMetadata {
            endpoints: Endpoints::new(source, destination).unwrap_or_default(),
            tos: datagram.tos,
            ttl: datagram.ttl,
            source_port: datagram.source.port(),
            destination_port: self.key.port,
            ..TunnelMetadata::default()
        }
    }
}
