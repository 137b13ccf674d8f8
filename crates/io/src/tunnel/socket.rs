//! A socket that receives the packets of all tunnels with one carrier and one UDP port.

use std::io;
use std::net::IpAddr;
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

    /// Appends up to `most` packets to `burst`, each with the port that it belongs to.
    pub(super) fn receive(
        &self,
        view: TunnelView<'_>,
        pool: &mut PacketPool,
        burst: &mut Vec<Packet>,
        (most, now): (usize, Instant),
        counters: &mut PortCounters,
    ) {
        // Only the device that receives comes here, so nothing waits for the lock.
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let Room {
            slots,
            overflow,
            datagrams,
        } = &mut *room;
        let wanted = most.min(BURST);
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
        for (index, mut packet) in slots.drain(..).enumerate() {
            if index >= count {
                pool.put(packet);
                continue;
            }
            let datagram = &datagrams[index];
            let split = datagram.len_bytes.min(packet.receive_area().len());
            packet.set_len(split);
            packet.append(&overflow.behind(index)[..datagram.len_bytes - split]);
            match self.take_out(view, datagram, &mut packet, now) {
                true => burst.push(packet),
                false => {
                    counters.add_drop(DropReason::Tunnel);
                    pool.put(packet);
                }
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
