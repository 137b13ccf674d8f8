//! A port on an existing Linux interface, by a packet socket.
//!
//! Frames are received straight into pooled packets, a burst per system call, and sent the same
//! way. Every frame that the kernel hands over is first made what it would be on a wire:
//!
//! - a VLAN tag that the kernel took out (it does so on every interface) is put back;
//! - a partial checksum is completed;
//! - a super-frame (GRO, TSO, up to 64 KiB) is cut into the segments that its sender meant, so
//!   veth pairs and containers work as they are, without `ethtool -K`. The segments may take
//!   several bursts: the burst's limit holds.
//!
//! Why not the `TPACKET_V3` ring: its blocks are handed over when they are full or when a timer
//! of at least a millisecond fires, so on a quiet link each frame waits for the timer. Measured on
//! a veth pair, from `send` to user space, one frame at a time: 2 us by messages, 1000 us by the
//! ring (medians, Linux 6.18). A switch adds that to every hop of every handshake. A burst of
//! messages also costs one copy less, and takes frames of any length.
//!
//! 1. Every slot below `next` has been dealt with; those in `next..filled` hold frames that
//!    arrived and wait; those from `filled` on are spare packets.
//! 2. The frames this host sends are not received.
//! 3. What the kernel dropped since the socket was opened is in the counters, each time they are
//!    asked for.
//!
//! Reference: `packet(7)`; `Documentation/networking/packet_mmap.rst`.

use std::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;

use thalweg_packet::{Instant, Packet, PacketPool, PortId};

use crate::offload::{BadOffload, SuperFrame, complete_checksum, insert_vlan_tag};
use crate::sys::{Interface, Link, PacketSocket, Received};
use crate::{BURST, DropReason, Error, Port, PortCounters, PortStatus};

/// An Ethernet header.
const HEADER_BYTES: usize = 14;

const CAPABILITY: &str = "CAP_NET_RAW and CAP_NET_ADMIN";

/// `ARPHRD_ETHER` and `ARPHRD_LOOPBACK`, whose frames look the same.
const ETHERNET_TYPES: [u16; 2] = [libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK];

/// A port that receives and sends on a Linux interface.
///
/// The interface is put in promiscuous mode while the port is open, and left as it is otherwise:
/// bringing it up is the owner's affair. Up to [`BURST`] packets of the pool stay in the port,
/// ready to receive.
#[derive(Debug)]
pub struct AfPacketPort {
    number: PortId,
    interface: Interface,
    socket: PacketSocket,
    slots: Vec<Packet>,
    received: [Received; BURST],
    next: usize,
    filled: usize,
    /// The segment of the super-frame in slot `next` that comes next.
    segment: usize,
    counters: PortCounters,
    kernel_dropped: Cell<u64>,
}

impl AfPacketPort {
    /// Opens the port on the interface called `interface`, in this thread's network namespace.
    ///
    /// # Errors
    /// If there is no such interface, it is not Ethernet, or this is not permitted.
    pub fn open(number: PortId, interface: &str) -> Result<Self, Error> {
        let name = interface;
        if !Interface::is_name(name) {
            let interface = name.to_owned();
            return Err(Error::InterfaceName { interface });
        }
        let failed = |action| move |e| Error::from_system(action, name, CAPABILITY, e);
        let interface = Interface::find(name).map_err(failed("looking it up"))?;
        let hardware_type = interface
            .hardware_type()
            .map_err(failed("asking its type"))?;
        if !ETHERNET_TYPES.contains(&hardware_type) {
            return Err(Error::NotEthernet {
                interface: name.to_owned(),
                hardware_type,
            });
        }
        let socket = PacketSocket::open(interface.index());
        Ok(AfPacketPort {
            number,
            interface,
            socket: socket.map_err(failed("opening a packet socket"))?,
            slots: Vec::with_capacity(BURST),
            received: [Received::default(); BURST],
            next: 0,
            filled: 0,
            segment: 0,
            counters: PortCounters::default(),
            kernel_dropped: Cell::new(0),
        })
    }

    /// Receives a burst into the slots; true if any frame came.
    fn fill_slots(&mut self, pool: &mut PacketPool) -> bool {
        // What was taken out of a slot left an empty packet behind.
        self.slots.drain(..self.filled);
        (self.next, self.filled, self.segment) = (0, 0, 0);
        let wanted = BURST - self.slots.len();
        let is_refused = pool.take_burst(&mut self.slots, wanted) < wanted;
        match self.socket.receive(&mut self.slots, &mut self.received) {
            Ok(filled) => self.filled = filled,
            // The news that the interface went down arrives once, as an error. No frame is lost.
            Err(error) if is_link_down(&error) || error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.counters.add_drop(DropReason::ReceiveError),
        }
        if is_refused && self.filled == self.slots.len() {
            self.counters.pool_refusals += 1;
        }
        self.filled > 0
    }

    /// Turns the frame in slot `next` into packets, as far as the burst and the pool allow.
    /// False if more of it is left.
    fn empty_slot(&mut self, sink: &mut Sink<'_>) -> bool {
        let received = self.received[self.next];
        let is_whole = !received.is_cut && !received.is_outgoing;
        if is_whole && SuperFrame::is_asked_for(&received.offload) {
            match self.cut_frame(sink) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(BadOffload) => self.counters.add_drop(DropReason::Offload),
            }
            sink.pool.put(std::mem::take(&mut self.slots[self.next]));
        } else {
            let mut packet = std::mem::take(&mut self.slots[self.next]);
            match self.complete_frame(&mut packet, &received) {
                Ok(true) => sink.push(packet, &received, &mut self.counters),
                Ok(false) => sink.pool.put(packet),
                Err(reason) => {
                    self.counters.add_drop(reason);
                    sink.pool.put(packet);
                }
            }
        }
        (self.next, self.segment) = (self.next + 1, 0);
        true
    }

    /// The usual case: the frame is the packet. False if it is not for us (invariant 2).
    fn complete_frame(&self, packet: &mut Packet, received: &Received) -> Result<bool, DropReason> {
        if received.is_outgoing {
            return Ok(false);
        }
        if received.is_cut {
            return Err(DropReason::TooLong);
        }
        if received.len_bytes < HEADER_BYTES {
            return Err(DropReason::TooShort);
        }
        let room = packet.receive_area().len();
        packet.set_len(received.len_bytes.min(room));
        if received.len_bytes > room {
            let rest = self.socket.overflow(self.next);
            packet.append(&rest[..received.len_bytes - room]);
        }
        let completed = complete_checksum(packet.bytes_mut(), &received.offload);
        completed.map_err(|BadOffload| DropReason::Offload)?;
        Ok(true)
    }

    /// False if the burst is full or the pool empty before the last segment.
    fn cut_frame(&mut self, sink: &mut Sink<'_>) -> Result<bool, BadOffload> {
        let received = &self.received[self.next];
        let front = self.slots[self.next].receive_area();
        let split = received.len_bytes.min(front.len());
        let rest = &self.socket.overflow(self.next)[..received.len_bytes - split];
        let frame = SuperFrame::parse(&front[..split], rest, received.offload)?;
        while self.segment < frame.segments() {
            if sink.is_full() {
                return Ok(false);
            }
            let Some(mut packet) = sink.pool.take() else {
                self.counters.pool_refusals += 1;
                return Ok(false);
            };
            frame.emit_segment(self.segment, &mut packet);
            self.segment += 1;
            sink.push(packet, received, &mut self.counters);
        }
        Ok(true)
    }

    fn note_refusal(&mut self, error: &io::Error, refused: &[Packet]) -> usize {
        let reason = match error.raw_os_error() {
            _ if is_link_down(error) => DropReason::LinkDown,
            Some(libc::EAGAIN | libc::ENOBUFS) => DropReason::QueueFull,
            Some(libc::EMSGSIZE) => DropReason::TooLong,
            _ if refused[0].len() < HEADER_BYTES => DropReason::TooShort,
            _ => DropReason::SendError,
        };
        // What is true of the first packet only must not cost the others.
        let count = match reason {
            DropReason::LinkDown | DropReason::QueueFull => refused.len(),
            _ => 1,
        };
        self.counters.drops.add(reason, count as u64);
        count
    }
}

impl Port for AfPacketPort {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant) {
        let mut sink = Sink {
            limit: burst.len() + BURST,
            number: self.number,
            pool,
            burst,
            now,
        };
        if self.next == self.filled && !self.fill_slots(sink.pool) {
            return;
        }
        while self.next < self.filled && !sink.is_full() {
            if !self.empty_slot(&mut sink) {
                return;
            }
        }
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        // The news that the interface went down waits in the socket for the next call of either
        // kind, which may be long after it came up again. So it is believed the second time.
        let mut may_be_old_news = true;
        let mut done = 0;
        while done < burst.len() {
            match self.socket.send(&burst[done..]) {
                Ok(count) => {
                    for packet in &burst[done..done + count] {
                        self.counters.add_sent(packet.len());
                    }
                    done += count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_link_down(&error) && may_be_old_news => may_be_old_news = false,
                Err(error) => done += self.note_refusal(&error, &burst[done..]),
            }
        }
        pool.put_burst(burst);
    }

    fn status(&mut self) -> PortStatus {
        status_of(&self.interface)
    }

    fn counters(&self) -> PortCounters {
        let dropped = self.kernel_dropped.get() + self.socket.take_dropped();
        self.kernel_dropped.set(dropped); // Invariant 3.
        let mut counters = self.counters;
        counters.drops.add(DropReason::KernelDropped, dropped);
        counters
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.descriptor())
    }
}

/// The state of the interface behind a port.
pub(crate) fn status_of(interface: &Interface) -> PortStatus {
    match interface.link() {
        Link::Up => PortStatus::Up,
        Link::Down => PortStatus::Down,
        Link::Gone => PortStatus::Gone,
    }
}

/// Where the packets of one receive call go.
struct Sink<'a> {
    pool: &'a mut PacketPool,
    burst: &'a mut Vec<Packet>,
    limit: usize,
    number: PortId,
    now: Instant,
}

impl Sink<'_> {
    fn is_full(&self) -> bool {
        self.burst.len() >= self.limit
    }

    fn push(&mut self, mut packet: Packet, received: &Received, counters: &mut PortCounters) {
        if let Some(tag) = received.vlan {
            insert_vlan_tag(&mut packet, tag);
        }
        packet.set_received(self.number, self.now);
        counters.add_received(packet.len());
        self.burst.push(packet);
    }
}

fn is_link_down(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    matches!(number, Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV))
}
