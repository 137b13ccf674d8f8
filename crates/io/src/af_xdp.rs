//! A port on an existing Linux interface, by AF_XDP sockets.
//!
//! A small program in the kernel gives the frames of the interface to a socket per queue
//! (`sys/xdp.rs`), before the kernel's network stack has them. They lie in memory that the port
//! shares with the kernel, or with the card itself (zero-copy). Each frame is copied once, into or
//! out of a packet of the pool. A burst costs one system call to send, or none with zero-copy, and
//! none to receive.
//!
//! The host behind the interface does not see the frames that the port receives, unlike with a
//! packet socket. Nor does anything reach the port that is not in the frame:
//!
//! - A partial checksum is recognised by its value and completed (`offload/partial.rs`), but with
//!   zero-copy, where frames come from a wire.
//! - A VLAN tag that the card or, on a veth pair, the other end keeps beside the frame is lost. The
//!   port says so when it is opened; `ethtool -K` turns that off.
//! - A frame that is longer than a chunk is dropped and counted: that of a TCP sender on the same
//!   host, before the other end of its veth pair is told to cut (`ethtool -K`). In native mode the
//!   kernel cuts by itself.
//!
//! How a mode is found is in `open.rs`, and when `auto` means this port in `choice.rs`.
//!
//! 1. The program is gone when the port is, also after the process was killed.
//! 2. A frame counts as sent when the kernel or the card has it. What stays in the ring is
//!    accounted for by a later call, or never if the port is closed before.
//! 3. Each reading of the counters includes the frames that the kernel has dropped since the port
//!    was opened.
//! 4. A port whose interface was deleted, whose program another one took off, or whose interface
//!    has other queues now, is gone: it would miss frames without a word.
//!
//! Reference: the kernel's `Documentation/networking/af_xdp.rst`.

mod choice;
mod mode;
mod open;

use std::os::fd::{BorrowedFd, OwnedFd};

use thalweg_packet::{Instant, Packet, PacketPool, PortId};

pub(crate) use self::choice::open_best;
pub use self::mode::{XdpMode, XdpSettings};

use crate::af_packet::status_of;
use crate::offload::find_partial_checksum;
use crate::sink::{HEADER_BYTES, Sink};
use crate::sys::{BadFrame, Claim, Flushed, Interface, Link, Offload, Received};
use crate::sys::{XdpLink, XdpSockets};
use crate::{BURST, DropReason, Port, PortCounters, PortStatus};

/// The length of one VLAN tag, by which a frame may exceed the MTU.
const TAG_BYTES: usize = 4;
/// The EtherType of such a tag.
const TAG: [u8; 2] = [0x81, 0x00];

/// A port that receives and sends on a Linux interface by AF_XDP.
///
/// The interface is in promiscuous mode while the port is open. Nothing else about it changes.
#[derive(Debug)]
pub struct AfXdpPort {
    number: PortId,
    interface: Interface,
    parts: Parts,
    _claim: Claim,
    counters: PortCounters,
    keeps_whole: bool,
}

/// What a port has of the kernel, and what it knows of its interface.
#[derive(Debug)]
struct Parts {
    /// The mode in use, never the best effort.
    mode: XdpMode,
    /// Before the sockets, so that no frame is given to a closed one.
    link: XdpLink,
    sockets: XdpSockets,
    _promiscuous: OwnedFd,
    mtu_bytes: usize,
    /// The longest frame that a chunk has room for.
    chunk_bytes: usize,
    /// The interface's queues, if all of them are the port's.
    queues: Option<u32>,
    remarks: Vec<String>,
}

impl AfXdpPort {
    /// The mode in use.
    pub fn mode(&self) -> XdpMode {
        self.parts.mode
    }

    /// What a log should tell of how the port was opened: the mode, and why not a better one.
    pub fn remarks(&self) -> &[String] {
        &self.parts.remarks
    }

    /// Why the interface would not take a frame.
    fn refusal(&self, frame: &[u8]) -> Option<DropReason> {
        let longest = self.parts.mtu_bytes + HEADER_BYTES;
        let is_tagged = |frame: &[u8]| frame[HEADER_BYTES - 2..HEADER_BYTES] == TAG;
        match frame.len() {
            ..HEADER_BYTES => Some(DropReason::TooShort),
            length if length > self.parts.chunk_bytes => Some(DropReason::TooLong),
            length if length <= longest => None,
            length if length == longest + TAG_BYTES && is_tagged(frame) => None,
            _ => Some(DropReason::TooLong),
        }
    }
}

/// Counts what became of frames that were to be sent.
fn account<'a>(
    counters: &'a mut PortCounters,
    interface: &'a Interface,
) -> impl FnMut(Flushed, usize) + 'a {
    |flushed, len_bytes| match flushed {
        Flushed::Sent => counters.add_sent(len_bytes),
        Flushed::Down => counters.add_drop(DropReason::LinkDown),
        Flushed::Refused => counters.add_drop(match interface.link() {
            Link::Up => DropReason::QueueFull,
            Link::Down | Link::Gone => DropReason::LinkDown,
        }),
    }
}

/// Turns a frame into a packet; false if the pool is empty.
fn take_frame(sink: &mut Sink<'_>, frame: Result<&[u8], BadFrame>, is_from_wire: bool) -> bool {
    let frame = match frame {
        Err(BadFrame) => {
            sink.counters.add_drop(DropReason::ReceiveError);
            return true;
        }
        Ok(frame) if frame.len() < HEADER_BYTES => {
            sink.counters.add_drop(DropReason::TooShort);
            return true;
        }
        Ok(frame) => frame,
    };
    let Some(mut packet) = sink.pool.take() else {
        sink.counters.pool_refusals += 1;
        return false;
    };
    packet.fill(frame);
    let received = Received {
        len_bytes: frame.len(),
        offload: match is_from_wire {
            true => Offload::default(),
            false => find_partial_checksum(frame),
        },
        ..Received::default()
    };
    sink.push_frame(packet, &received);
    true
}

impl Port for AfXdpPort {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant) {
        let is_from_wire = self.parts.mode == XdpMode::NativeWithZeroCopy;
        let mut sink = Sink {
            limit: burst.len() + BURST,
            number: self.number,
            keeps_whole: self.keeps_whole,
            counters: &mut self.counters,
            pool,
            burst,
            now,
        };
        self.parts
            .sockets
            .receive(BURST, |frame| take_frame(&mut sink, frame, is_from_wire));
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        self.parts
            .sockets
            .prepare(&mut account(&mut self.counters, &self.interface));
        for packet in burst.iter() {
            if let Some(reason) = self.refusal(packet.bytes()) {
                self.counters.add_drop(reason);
                continue;
            }
            if self.parts.sockets.post(packet.bytes()) {
                continue;
            }
            self.parts
                .sockets
                .flush(&mut account(&mut self.counters, &self.interface));
            if !self.parts.sockets.post(packet.bytes()) {
                self.counters.add_drop(DropReason::QueueFull);
            }
        }
        self.parts
            .sockets
            .flush(&mut account(&mut self.counters, &self.interface));
        pool.put_burst(burst);
    }

    fn keep_whole(&mut self) {
        self.keeps_whole = true;
    }

    fn status(&mut self) -> PortStatus {
        // Invariant 4.
        let has_queues = match self.parts.queues {
            Some(queues) => open::queues_of(&self.interface).is_ok_and(|now| now == queues),
            None => true,
        };
        if !self.parts.link.is_attached() || !self.parts.sockets.has_interface() || !has_queues {
            return PortStatus::Gone;
        }
        if let Ok(mtu_bytes) = self.interface.mtu() {
            self.parts.mtu_bytes = mtu_bytes as usize;
        }
        status_of(&self.interface)
    }

    fn counters(&self) -> PortCounters {
        let mut counters = self.counters;
        // Invariant 3.
        let dropped = self.parts.sockets.dropped();
        counters.drops.add(DropReason::KernelDropped, dropped);
        counters
    }

    fn close(&mut self, _pool: &mut PacketPool) {
        let counters = &mut self.counters;
        self.parts.sockets.receive(usize::MAX, |_| {
            counters.add_drop(DropReason::LinkDown);
            true
        });
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.parts.sockets.descriptor())
    }
}
