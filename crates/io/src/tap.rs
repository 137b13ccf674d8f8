//! A Linux tap: an interface of this host whose cable ends in the switch.
//!
//! The port receives what the host's stack sends on the interface, and the reverse. Each frame
//! is one system call. No offload is requested, so the kernel completes checksums and cuts
//! super-frames before the frames get here. It does not remove VLAN tags.
//!
//! 1. A frame longer than the packet's room continues in `overflow`, and the packet grows.
//!    From then on the pool has a larger packet.
//! 2. The interface disappears with the port, unless another program made it persistent.
//! 3. A tap that was deleted is gone for this port. A later interface with its name or index
//!    does not count.

use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use thalweg_packet::{Instant, Packet, PacketPool, PortId};

use crate::af_packet::{claim, status_of};
use crate::sys::{Claim, Interface, has_interface, open_tap};
use crate::{BURST, DropReason, Error, Port, PortCounters, PortStatus};

/// The longest frame that a tap's MTU allows (65,535), with tags.
const LONGEST_FRAME_BYTES: usize = 65_536 + 64;

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
        })
    }

    /// Reads one frame into `packet`.
    fn read_frame(&mut self, packet: &mut Packet) -> io::Result<()> {
        let area = packet.receive_area();
        let room = area.len();
        let mut parts = [IoSliceMut::new(area), IoSliceMut::new(&mut self.overflow)];
        let length = self.file.read_vectored(&mut parts)?;
        packet.set_len(length.min(room));
        packet.append(&self.overflow[..length.saturating_sub(room)]);
        Ok(())
    }

    fn note_refusal(&mut self, error: &io::Error, packet: &Packet) {
        self.counters.add_drop(match error.raw_os_error() {
            // The tap is down, or was deleted.
            Some(libc::EIO | libc::EBADFD | libc::ENETDOWN) => DropReason::LinkDown,
            Some(libc::EAGAIN | libc::ENOBUFS) => DropReason::QueueFull,
            Some(libc::EMSGSIZE) => DropReason::TooLong,
            _ if packet.len() < 14 => DropReason::TooShort,
            _ => DropReason::SendError,
        });
    }
}

impl Port for TapPort {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant) {
        for _ in 0..BURST {
            let Some(mut packet) = pool.take() else {
                self.counters.pool_refusals += 1;
                return;
            };
            match self.read_frame(&mut packet) {
                Ok(()) => {
                    packet.set_received(self.number, now);
                    self.counters.add_received(packet.len());
                    burst.push(packet);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The tap was deleted: `status` reports it, and no frame is lost here.
                Err(error) if error.raw_os_error() == Some(libc::EBADFD) => {}
                Err(_) => self.counters.add_drop(DropReason::ReceiveError),
            }
            pool.put(packet);
            return;
        }
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        for packet in burst.iter() {
            match self.file.write(packet.bytes()) {
                // A tap takes a frame whole or not at all.
                Ok(count) => self.counters.add_sent(count),
                Err(error) => self.note_refusal(&error, packet),
            }
        }
        pool.put_burst(burst);
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
