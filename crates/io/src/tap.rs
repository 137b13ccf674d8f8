//! A Linux tap: an interface of this host whose cable ends in the switch.
//!
//! The port receives what the host's stack sends on the interface, and the reverse. Each frame
//! is one system call, with a virtio header. Until the owner asks for frames as they are
//! ([`Port::keep_whole`]), no offload is requested: the kernel completes checksums and cuts
//! super-frames before the frames get here. It does not remove VLAN tags.
//!
//! 1. A frame longer than the packet's room continues in `overflow`, and the packet grows. The next
//!    frame is received into a large packet.
//! 2. The interface disappears with the port, unless another program made it persistent.
//! 3. A tap that was deleted is gone for this port. A later interface with its name or index
//!    does not count.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use thalweg_packet::{Instant, Packet, PacketPool, PortId};

use crate::af_packet::{claim, is_unable, status_of};
use crate::offload::{SuperFrame, ask_for, leave_undone};
use crate::port::send_finished;
use crate::sink::Sink;
use crate::sys::{
    Claim, Interface, Offload, Received, VIRTIO_HEADER_BYTES, has_interface, let_tap_keep_whole,
    open_tap,
};
use crate::{BURST, DropReason, Error, Port, PortCounters, PortStatus};

/// The longest frame that a tap's MTU allows (65,535), with tags.
const LONGEST_FRAME_BYTES: usize = 65_536 + 64;

/// Behind a frame above this length, the next one is received into a large packet.
const LEAST_LONG_BYTES: usize = 9 << 10;

const CAPABILITY: &str = "CAP_NET_ADMIN";

/// A port that is a tap interface of this host.
#[derive(Debug)]
pub struct TapPort {
    number: PortId,
    interface: Interface,
    file: File,
    _claim: Claim,
    overflow: Vec<u8>,
    counters: PortCounters,
    keeps_whole: bool,
    /// Whether the last frame was longer than a usual packet.
    was_long: bool,
    /// A super-frame of no plain form, and its next segment.
    waiting: Option<(Packet, Received, usize)>,
}

impl TapPort {
    /// Creates the tap called `interface`, or attaches to it if it exists, and brings it up.
    ///
    /// It is in this thread's network namespace. `mtu_bytes` sets its MTU.
    ///
    /// # Errors
    /// If an interface of that name is no tap or is in use, or this is not permitted.
    pub fn open(number: PortId, interface: &str, mtu_bytes: Option<u32>) -> Result<Self, Error> {
        let name = interface;
        if !Interface::is_name(name) {
            let interface = name.to_owned();
            return Err(Error::InterfaceName { interface });
        }
        let failed = |action| move |e| Error::from_system(action, name, CAPABILITY, e);
        let file = open_tap(name).map_err(failed("opening a tap"))?;
        let interface = Interface::find(name).map_err(failed("looking it up"))?;
        let claim = claim(name, &interface, CAPABILITY)?;
        if let Some(mtu_bytes) = mtu_bytes {
            interface
                .set_mtu(mtu_bytes)
                .map_err(failed("setting the MTU"))?;
        }
        interface.set_up().map_err(failed("bringing it up"))?;
        Ok(TapPort {
            number,
            interface,
            file,
            _claim: claim,
            overflow: vec![0; LONGEST_FRAME_BYTES],
            counters: PortCounters::default(),
            keeps_whole: false,
            was_long: false,
            waiting: None,
        })
    }

    /// Reads one frame into `packet`; returns what the kernel left undone.
    fn read_frame(&mut self, packet: &mut Packet) -> io::Result<Received> {
        let mut header = [0; VIRTIO_HEADER_BYTES];
        let area = packet.receive_area();
        let room = area.len();
        let mut parts = [
            IoSliceMut::new(&mut header),
            IoSliceMut::new(area),
            IoSliceMut::new(&mut self.overflow),
        ];
        let length = self.file.read_vectored(&mut parts)?;
        let length = length.saturating_sub(VIRTIO_HEADER_BYTES);
        packet.set_len(length.min(room));
        packet.append(&self.overflow[..length.saturating_sub(room)]);
        Ok(Received {
            len_bytes: length,
            offload: Offload::from_bytes(&header),
            ..Received::default()
        })
    }

    /// Receives until nothing is left, or the burst is full.
    fn fill(&mut self, sink: &mut Sink<'_>) {
        for _ in 0..BURST {
            if !self.cut_waiting(sink) || sink.is_full() {
                return;
            }
            let packet = match self.was_long {
                false => sink.pool.take(),
                true => sink.pool.take_large(),
            };
            let Some(mut packet) = packet else {
                sink.counters.pool_refusals += 1;
                return;
            };
            match self.read_frame(&mut packet) {
                Ok(received) => {
                    self.was_long = received.len_bytes > LEAST_LONG_BYTES;
                    if !SuperFrame::is_asked_for(&received.offload) {
                        sink.push_frame(packet, &received);
                    } else if self.keeps_whole && leave_undone(&mut packet, &received.offload) {
                        sink.push(packet, &received);
                    } else {
                        self.waiting = Some((packet, received, 0));
                    }
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The tap was deleted: `status` reports it, and no frame is lost here.
                Err(error) if error.raw_os_error() == Some(libc::EBADFD) => {}
                Err(_) => sink.counters.add_drop(DropReason::ReceiveError),
            }
            sink.pool.put(packet);
            return;
        }
    }

    /// Cuts the super-frame that waits, if there is one; false if part of it is left.
    fn cut_waiting(&mut self, sink: &mut Sink<'_>) -> bool {
        let Some((packet, received, segment)) = &mut self.waiting else {
            return true;
        };
        let is_done = sink.push_segments([packet.bytes(), &[]], received, segment);
        if let Some((packet, ..)) = self.waiting.take_if(|_| is_done) {
            sink.pool.put(packet);
        }
        is_done
    }

    /// Sends one packet.
    fn write_frame(&mut self, packet: &mut Packet) -> io::Result<()> {
        let request = match packet.is_unfinished() {
            false => Offload::default(),
            true => ask_for(packet),
        };
        let header = request.to_bytes();
        let parts = [IoSlice::new(&header), IoSlice::new(packet.bytes())];
        // A tap takes a frame whole or not at all.
        self.file.write_vectored(&parts).map(drop)
    }

    fn note_refusal(&mut self, error: &io::Error, packet: &Packet) {
        let reason = match error.raw_os_error() {
            // The tap is down, or was deleted.
            Some(libc::EIO | libc::EBADFD | libc::ENETDOWN) => DropReason::LinkDown,
            Some(libc::EAGAIN | libc::ENOBUFS) => DropReason::QueueFull,
            Some(libc::EMSGSIZE) => DropReason::TooLong,
            _ if packet.len() < 14 => DropReason::TooShort,
            _ => DropReason::SendError,
        };
        self.counters.drops.add(reason, packet.wire_counts().0);
    }
}

impl Port for TapPort {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant) {
        let mut counters = self.counters;
        let mut sink = Sink {
            limit: burst.len() + BURST,
            number: self.number,
            keeps_whole: self.keeps_whole,
            counters: &mut counters,
            pool,
            burst,
            now,
        };
        self.fill(&mut sink);
        self.counters = counters;
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        for packet in burst.iter_mut() {
            match self.write_frame(packet) {
                Ok(()) => self.counters.add_sent_packet(packet),
                Err(error) if packet.is_unfinished() && is_unable(&error) => {
                    send_finished(self, pool, &mut vec![std::mem::take(packet)]);
                }
                Err(error) => self.note_refusal(&error, packet),
            }
        }
        pool.put_burst(burst);
    }

    fn keep_whole(&mut self) {
        // A kernel that cannot do this goes on finishing frames.
        self.keeps_whole = let_tap_keep_whole(&self.file).is_ok();
    }

    fn takes_whole(&self) -> bool {
        true
    }

    fn close(&mut self, pool: &mut PacketPool) {
        if let Some((packet, ..)) = self.waiting.take() {
            self.counters.add_drop(DropReason::LinkDown);
            pool.put(packet);
        }
    }

    fn status(&mut self) -> PortStatus {
        match has_interface(&self.file) {
            true => status_of(&self.interface),
            false => PortStatus::Gone, // Invariant 3.
        }
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}
