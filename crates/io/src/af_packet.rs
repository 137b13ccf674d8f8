//! A port on an existing Linux interface, by a packet socket.
//!
//! Frames are sent one burst per system call. They are received in one of two ways, which the
//! port's owner chooses. Messages (`messages.rs`) also take one system call per burst. The
//! `TPACKET_V3` ring (`ring.rs`, `block.rs`) is memory shared with the kernel. Either way,
//! every frame is first restored to its form on a wire:
//!
//! - A VLAN tag that the kernel removed (it does so on every interface) is put back.
//! - A partial checksum is completed.
//! - A super-frame (GRO, TSO, up to 64 KiB) is cut into the segments that its sender meant. So
//!   veth pairs and containers work unchanged, without `ethtool -K`. The segments may take
//!   several bursts, since the burst's limit holds.
//!
//! An owner that knows unfinished packets ([`Port::keep_whole`]) gets both as they are, if they are
//! of the plain form that [`Packet::mark_unfinished`] asks for; by the ring, super-frames are cut
//! all the same. The port sends unfinished packets with a request to the kernel, and cuts them
//! itself if the kernel refuses.
//!
//! A message can be received as soon as its frame has arrived. A block of the ring is handed
//! over when it is full or when a timer of at least a millisecond ends. So on a quiet link
//! each frame waits for the timer, at every hop of every handshake. In return a frame costs
//! very little. On a veth pair, frames of 60 bytes (medians, Linux 6.18,
//! `benches/receive.rs`):
//!
//! ```text
//!                                               messages    ring
//!   one frame at a time, from send to user space  3.6 us  999 us
//!   100,000 frames/s                             10.8 us  517 us
//!      processor time of the receiving thread   3,613 ns  163 ns a frame
//!   as many as can be sent                      1,254 ns   82 ns a frame
//! ```
//!
//! So messages are the default, and the ring is for links that are busy with small frames. A
//! super-frame costs one message for all its segments.
//!
//! 1. Frames that this host sends are not received.
//! 2. Each reading of the counters includes the frames that the kernel has dropped since the
//!    socket was opened.
//! 3. An interface that was deleted, or moved to another network namespace, is gone for this
//!    port. A later interface with its name or index does not count.
//!
//! Reference: `packet(7)`; `Documentation/networking/packet_mmap.rst`.

mod block;
mod messages;
mod method;
mod ring;

use std::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;

use thalweg_packet::{Instant, Packet, PacketPool, PortId};

pub use self::method::ReceiveMethod;

use self::messages::Messages;
use self::ring::Ring;
use crate::offload::ask_for;
use crate::port::send_finished;
use crate::sink::{HEADER_BYTES, Sink};
use crate::sys::{
    Claim, ClaimError, Interface, Link, PacketSocket, ReceiveRing, VIRTIO_HEADER_BYTES,
};
use crate::{BURST, DropReason, Error, Port, PortCounters, PortStatus};

const CAPABILITY: &str = "CAP_NET_RAW";

/// `ARPHRD_ETHER` and `ARPHRD_LOOPBACK`, whose frames look alike.
const ETHERNET_TYPES: [u16; 2] = [libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK];

/// A port that receives and sends on a Linux interface.
///
/// The interface is in promiscuous mode while the port is open. Nothing else about it changes:
/// the owner must bring it up. Up to [`BURST`] packets of the pool stay in the port, ready to
/// receive.
#[derive(Debug)]
pub struct AfPacketPort {
    number: PortId,
    interface: Interface,
    _claim: Claim,
    socket: PacketSocket,
    receiver: Receiver,
    counters: PortCounters,
    kernel_dropped: Cell<u64>,
    keeps_whole: bool,
}

impl AfPacketPort {
    /// Opens the port on the interface called `interface`, to receive by `method`.
    ///
    /// The interface is looked up in this thread's network namespace.
    ///
    /// # Errors
    /// If there is no such interface, it is not Ethernet, another port has it, or this is not
    /// permitted.
    pub fn open(number: PortId, interface: &str, method: ReceiveMethod) -> Result<Self, Error> {
        let name = interface;
        let interface = find_ethernet(name, CAPABILITY)?;
        let claim = claim(name, &interface, CAPABILITY)?;
        AfPacketPort::open_claimed(number, name, (interface, claim), method)
    }

    /// The same on an interface that is claimed already.
    pub(crate) fn open_claimed(
        number: PortId,
        name: &str,
        (interface, claim): (Interface, Claim),
        method: ReceiveMethod,
    ) -> Result<Self, Error> {
        let failed = |action| move |e| Error::from_system(action, name, CAPABILITY, e);
        let socket = PacketSocket::new().map_err(failed("opening a packet socket"))?;
        let receiver = match method {
            ReceiveMethod::Messages => Receiver::Messages(Messages::new()),
            ReceiveMethod::Ring => {
                let ring = ReceiveRing::new(&socket);
                Receiver::Ring(Ring::new(ring.map_err(failed("making a receive ring"))?))
            }
        };
        let listened = socket.listen(interface.index());
        listened.map_err(failed("binding a packet socket"))?;
        Ok(AfPacketPort {
            number,
            interface,
            _claim: claim,
            socket,
            receiver,
            counters: PortCounters::default(),
            kernel_dropped: Cell::new(0),
            keeps_whole: false,
        })
    }

    fn note_refusal(&mut self, error: &io::Error, refused: &[Packet]) -> usize {
        let reason = match error.raw_os_error() {
            _ if is_link_down(error) => DropReason::LinkDown,
            Some(libc::EAGAIN | libc::ENOBUFS) => DropReason::QueueFull,
            Some(libc::EMSGSIZE) => DropReason::TooLong,
            _ if refused[0].len() < HEADER_BYTES => DropReason::TooShort,
            _ => DropReason::SendError,
        };
        // A reason that applies only to the first packet must not cost the others.
        let count = match reason {
            DropReason::LinkDown | DropReason::QueueFull => refused.len(),
            _ => 1,
        };
        let frames = refused[..count].iter();
        let frames = frames.map(|packet| packet.wire_counts().0).sum();
        self.counters.drops.add(reason, frames);
        count
    }
}

impl Port for AfPacketPort {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant) {
        let mut sink = Sink {
            limit: burst.len() + BURST,
            number: self.number,
            keeps_whole: self.keeps_whole,
            counters: &mut self.counters,
            pool,
            burst,
            now,
        };
        match &mut self.receiver {
            Receiver::Messages(messages) => messages.receive(&self.socket, &mut sink),
            Receiver::Ring(ring) => ring.receive(&mut sink),
        }
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        // The news that the interface went down waits in the socket for the next send or
        // receive, perhaps until long after it came up again. So it counts only the second
        // time.
        let mut may_be_old_news = true;
        let mut done = 0;
        while done < burst.len() {
            let mut headers = [[0; VIRTIO_HEADER_BYTES]; BURST];
            for (packet, header) in burst[done..].iter_mut().zip(&mut headers) {
                if packet.is_unfinished() {
                    *header = ask_for(packet).to_bytes();
                }
            }
            match self.socket.send(&burst[done..], &headers) {
                Ok(count) => {
                    for packet in &burst[done..done + count] {
                        self.counters.add_sent_packet(packet);
                    }
                    done += count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_link_down(&error) && may_be_old_news => may_be_old_news = false,
                Err(error) if burst[done].is_unfinished() && is_unable(&error) => {
                    let packet = std::mem::take(&mut burst[done]);
                    send_finished(self, pool, &mut vec![packet]);
                    done += 1;
                }
                Err(error) => done += self.note_refusal(&error, &burst[done..]),
            }
        }
        pool.put_burst(burst);
    }

    fn keep_whole(&mut self) {
        self.keeps_whole = true;
    }

    fn takes_whole(&self) -> bool {
        true
    }

    fn status(&mut self) -> PortStatus {
        if let Receiver::Ring(_) = self.receiver {
            // A ring has no call that takes the news that the interface went down. While the
            // news waits, the descriptor looks ready. The status below reports it anyway.
            let _ = self.socket.take_error();
        }
        match self.socket.has_interface() {
            true => status_of(&self.interface),
            false => PortStatus::Gone, // Invariant 3.
        }
    }

    fn counters(&self) -> PortCounters {
        let dropped = self.kernel_dropped.get() + self.socket.take_dropped();
        self.kernel_dropped.set(dropped); // Invariant 2.
        let mut counters = self.counters;
        counters.drops.add(DropReason::KernelDropped, dropped);
        counters
    }

    fn close(&mut self, pool: &mut PacketPool) {
        if let Receiver::Messages(messages) = &mut self.receiver {
            let waiting = messages.close(pool) as u64;
            self.counters.drops.add(DropReason::LinkDown, waiting);
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.descriptor())
    }
}

/// Finds an interface whose frames are Ethernet's, in this thread's network namespace.
///
/// # Errors
/// If there is none, or its frames are others.
pub(crate) fn find_ethernet(name: &str, capability: &'static str) -> Result<Interface, Error> {
    if !Interface::is_name(name) {
        let interface = name.to_owned();
        return Err(Error::InterfaceName { interface });
    }
    let failed = |action| move |e| Error::from_system(action, name, capability, e);
    let interface = Interface::find(name).map_err(failed("looking it up"))?;
    let hardware_type = interface
        .hardware_type()
        .map_err(failed("asking its type"))?;
    match ETHERNET_TYPES.contains(&hardware_type) {
        true => Ok(interface),
        false => Err(Error::NotEthernet {
            interface: name.to_owned(),
            hardware_type,
        }),
    }
}

/// Reserves an interface for this port.
///
/// # Errors
/// If another port has it, in this process or another.
pub(crate) fn claim(
    name: &str,
    interface: &Interface,
    capability: &'static str,
) -> Result<Claim, Error> {
    Claim::take(interface.index()).map_err(|error| match error {
        ClaimError::Taken { process } => Error::InterfaceTaken {
            interface: name.to_owned(),
            process,
        },
        ClaimError::System(error) => Error::from_system("claiming it", name, capability, error),
    })
}

/// The state of the interface behind a port.
pub(crate) fn status_of(interface: &Interface) -> PortStatus {
    match interface.link() {
        Link::Up => PortStatus::Up,
        Link::Down => PortStatus::Down,
        Link::Gone => PortStatus::Gone,
    }
}

/// The receiving side of the port.
#[derive(Debug)]
enum Receiver {
    Messages(Messages),
    Ring(Ring),
}

/// Whether the kernel may take the segments of a frame that it refused as a whole.
pub(crate) fn is_unable(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    matches!(
        number,
        Some(libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP | libc::ENOBUFS)
    )
}

fn is_link_down(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    matches!(number, Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV))
}
