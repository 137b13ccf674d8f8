//! A packet socket on one interface: `packet(7)`, `sendmmsg(2)`.
//!
//! It is made in two steps, [`PacketSocket::new`] and [`PacketSocket::listen`]. So the receive
//! method is settled before the first frame arrives.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use thalweg_packet::Packet;

use super::{VIRTIO_HEADER_BYTES, check, const_vector, option, set_option, socket};
use crate::BURST;

/// The longest frame with a 16-bit IP length, its Ethernet header and tags.
pub(crate) const LONGEST_FRAME_BYTES: usize = 65_536 + 64;

/// Bytes of queued packets (and their bookkeeping) that the kernel may hold for us, each way.
const QUEUE_BYTES: libc::c_int = 8 << 20;

/// A non-blocking packet socket that sees all frames arriving on one interface.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    descriptor: OwnedFd,
}

impl PacketSocket {
    /// Creates a socket that receives nothing yet.
    pub(crate) fn new() -> io::Result<PacketSocket> {
        // Without a protocol the socket receives nothing until it is bound to its interface.
        let descriptor = socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        let yes: libc::c_int = 1;
        for option in [libc::PACKET_VNET_HDR, libc::PACKET_AUXDATA] {
            set_option(&descriptor, libc::SOL_PACKET, option, &yes)?;
        }
        // Linux before 4.20 lacks this option; `is_outgoing` gives the same information there.
        let _ = set_option(
            &descriptor,
            libc::SOL_PACKET,
            libc::PACKET_IGNORE_OUTGOING,
            &yes,
        );
        for (force, plain) in [
            (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
            (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
        ] {
            set_option(&descriptor, libc::SOL_SOCKET, force, &QUEUE_BYTES)
                .or_else(|_| set_option(&descriptor, libc::SOL_SOCKET, plain, &QUEUE_BYTES))?;
        }
        Ok(PacketSocket { descriptor })
    }

    /// Starts to receive the frames that arrive on the interface.
    pub(crate) fn listen(&self, interface_index: i32) -> io::Result<()> {
        let membership = libc::packet_mreq {
            mr_ifindex: interface_index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set_packet_option(libc::PACKET_ADD_MEMBERSHIP, &membership)?;
        bind(&self.descriptor, interface_index)
    }

    /// Sets an option of `packet(7)`; `T` must satisfy invariant 1 of this folder.
    pub(super) fn set_packet_option<T>(&self, option: i32, value: &T) -> io::Result<()> {
        set_option(&self.descriptor, libc::SOL_PACKET, option, value)
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Sends frames in order until one is refused; returns the number sent.
    ///
    /// `headers` says what the kernel must do with each frame. An error means that the first was
    /// refused.
    pub(crate) fn send(
        &self,
        packets: &[Packet],
        headers: &[[u8; VIRTIO_HEADER_BYTES]; BURST],
    ) -> io::Result<usize> {
        // SAFETY: zeros are a value of these structures of the C library (1).
        let (mut messages, mut vectors): ([libc::mmsghdr; BURST], [[libc::iovec; 2]; BURST]) =
            unsafe { (zeroed(), zeroed()) };
        let count = packets.len().min(BURST);
        for (index, packet) in packets[..count].iter().enumerate() {
            vectors[index] = [const_vector(&headers[index]), const_vector(packet.bytes())];
            messages[index].msg_hdr.msg_iov = vectors[index].as_mut_ptr();
            messages[index].msg_hdr.msg_iovlen = vectors[index].len() as _;
        }
        // SAFETY: the first `count` messages point to `vectors`, and these to the headers
        // and to the packets, which are borrowed until the call returns (2). It reads the frames,
        // and writes only `msg_len` of each message.
        let sent = unsafe {
            libc::sendmmsg(
                self.descriptor.as_raw_fd(),
                messages.as_mut_ptr(),
                count as u32,
                libc::MSG_DONTWAIT,
            )
        };
        check(sent)?;
        Ok(sent as usize)
    }

    /// Takes the error that waits in the socket, if there is one.
    ///
    /// Until it is taken, here or by a send or receive call, the descriptor looks ready.
    pub(crate) fn take_error(&self) -> io::Result<()> {
        match option(&self.descriptor, libc::SOL_SOCKET, libc::SO_ERROR, 0)? {
            0 => Ok(()),
            number => Err(io::Error::from_raw_os_error(number)),
        }
    }

    /// Whether the socket still has its interface: the kernel detaches a deleted one.
    pub(crate) fn has_interface(&self) -> bool {
        // SAFETY: zeros are a value of this structure (1).
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        let mut size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the call writes at most `size` bytes of `address`, and the size; both are
        // borrowed mutably until it returns (1, 2).
        let answer = check(unsafe {
            libc::getsockname(
                self.descriptor.as_raw_fd(),
                std::ptr::from_mut(&mut address).cast(),
                &raw mut size,
            )
        });
        answer.is_ok() && address.sll_ifindex > 0
    }

    /// The number of frames that the kernel dropped for lack of room since the last call.
    pub(crate) fn take_dropped(&self) -> u64 {
        let nothing = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let level = libc::SOL_PACKET;
        let statistics = option(&self.descriptor, level, libc::PACKET_STATISTICS, nothing);
        statistics.map_or(0, |statistics| u64::from(statistics.tp_drops))
    }
}

fn bind(descriptor: &OwnedFd, interface_index: i32) -> io::Result<()> {
    // SAFETY: zeros are a value of this structure (1).
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = interface_index;
    // SAFETY: `address` is borrowed for the call, which reads its size in bytes (1, 2).
    check(unsafe {
        libc::bind(
            descriptor.as_raw_fd(),
            std::ptr::from_ref(&address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    })
}
