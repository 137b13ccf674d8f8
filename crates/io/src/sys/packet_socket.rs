//! A packet socket on one interface: `packet(7)`, `recvmmsg(2)`, `sendmmsg(2)`.
//!
//! Each message is a small virtio header (what the kernel left undone: checksum, segmentation)
//! and the frame. The frame is received straight into a packet's buffer; what does not fit goes
//! on in an overflow area, so that buffers need not have room for the rare 64 KiB frame.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use thalweg_packet::Packet;

use super::{check, set_option, socket};
use crate::BURST;

/// Room behind each packet of a burst for the rest of a long frame: the longest frame with a
/// 16-bit IP length, its Ethernet header and tags.
const OVERFLOW_BYTES: usize = 65_536 + 64;

/// Bytes of queued packets (and their bookkeeping) that the kernel may hold for us, each way.
const QUEUE_BYTES: libc::c_int = 8 << 20;

const VIRTIO_HEADER_BYTES: usize = 10;

/// Room for one `PACKET_AUXDATA` message.
// SAFETY: the macro computes a size.
const CONTROL_BYTES: usize =
    unsafe { libc::CMSG_SPACE(size_of::<libc::tpacket_auxdata>() as u32) } as usize;

/// A non-blocking packet socket that sees all frames arriving on one interface.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    descriptor: OwnedFd,
    overflow: Vec<u8>,
}

/// What is known of a received frame, beside its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Received {
    /// The whole frame's length; more than the packet's room if it went on in the overflow area.
    pub(crate) len_bytes: usize,
    /// What the kernel left undone.
    pub(crate) offload: Offload,
    /// The tag that the kernel took out of the frame.
    pub(crate) vlan: Option<VlanTag>,
    /// This host sent the frame; it did not arrive.
    pub(crate) is_outgoing: bool,
    /// The frame was longer than all the room there was.
    pub(crate) is_cut: bool,
}

/// A VLAN tag: its EtherType and its 16 bits of control information (IEEE 802.1Q, 9.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VlanTag {
    pub(crate) protocol: u16,
    pub(crate) control: u16,
}

/// The virtio header of a frame: `struct virtio_net_hdr` (virtio 1.2, 5.1.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Offload {
    pub(crate) flags: u8,
    pub(crate) segmentation: u8,
    /// Payload of each segment, in bytes.
    pub(crate) segment_bytes: u16,
    /// Where the bytes begin that the checksum covers.
    pub(crate) checksum_start: u16,
    /// Where the checksum is, from there.
    pub(crate) checksum_offset: u16,
}

impl Offload {
    fn from_bytes(bytes: &[u8; VIRTIO_HEADER_BYTES]) -> Offload {
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Offload {
            flags: bytes[0],
            segmentation: bytes[1],
            segment_bytes: half(4),
            checksum_start: half(6),
            checksum_offset: half(8),
        }
    }
}

impl PacketSocket {
    pub(crate) fn open(interface_index: i32) -> io::Result<PacketSocket> {
        // Without a protocol the socket receives nothing until it is bound to its interface.
        let descriptor = socket(libc::AF_PACKET, libc::SOCK_RAW)?;
        let yes: libc::c_int = 1;
        for option in [libc::PACKET_VNET_HDR, libc::PACKET_AUXDATA] {
            set_option(&descriptor, libc::SOL_PACKET, option, &yes)?;
        }
        // Linux before 4.20 lacks it; `is_outgoing` says the same then.
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
        let membership = libc::packet_mreq {
            mr_ifindex: interface_index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        let option = libc::PACKET_ADD_MEMBERSHIP;
        set_option(&descriptor, libc::SOL_PACKET, option, &membership)?;
        bind(&descriptor, interface_index)?;
        Ok(PacketSocket {
            descriptor,
            overflow: vec![0; BURST * OVERFLOW_BYTES],
        })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Where the frame in packet `index` of the last burst goes on.
    pub(crate) fn overflow(&self, index: usize) -> &[u8] {
        &self.overflow[index * OVERFLOW_BYTES..][..OVERFLOW_BYTES]
    }

    /// Receives up to one frame into the receive area of each packet; says how many.
    pub(crate) fn receive(
        &mut self,
        packets: &mut [Packet],
        received: &mut [Received; BURST],
    ) -> io::Result<usize> {
        // SAFETY: zeros are a value of these structures of the C library (1).
        let (mut messages, mut vectors, mut sources): (
            [libc::mmsghdr; BURST],
            [[libc::iovec; 3]; BURST],
            [libc::sockaddr_ll; BURST],
        ) = unsafe { (zeroed(), zeroed(), zeroed()) };
        let mut headers = [[0; VIRTIO_HEADER_BYTES]; BURST];
        let mut controls = [Control([0; CONTROL_BYTES]); BURST];

        let count = packets.len().min(BURST);
        let overflows = self.overflow.chunks_exact_mut(OVERFLOW_BYTES);
        for (index, (packet, overflow)) in packets.iter_mut().zip(overflows).enumerate().take(count)
        {
            vectors[index] = [
                vector(&mut headers[index]),
                vector(packet.receive_area()),
                vector(overflow),
            ];
            let header = &mut messages[index].msg_hdr;
            header.msg_iov = vectors[index].as_mut_ptr();
            header.msg_iovlen = vectors[index].len() as _;
            header.msg_name = std::ptr::from_mut(&mut sources[index]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_ll>() as u32;
            header.msg_control = controls[index].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_BYTES as _;
        }
        // SAFETY: the first `count` messages point to parts of the arrays above, to the packets'
        // storage and to the overflow area, with their sizes; each part is in one message only,
        // and all of them are borrowed mutably until the end of this function (2). Nothing moves
        // them in between.
        let arrived = unsafe {
            libc::recvmmsg(
                self.descriptor.as_raw_fd(),
                messages.as_mut_ptr(),
                count as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        check(arrived)?;
        for (index, message) in messages[..arrived as usize].iter().enumerate() {
            received[index] = Received {
                len_bytes: (message.msg_len as usize).saturating_sub(VIRTIO_HEADER_BYTES),
                offload: Offload::from_bytes(&headers[index]),
                vlan: vlan_tag(&message.msg_hdr),
                is_outgoing: sources[index].sll_pkttype == libc::PACKET_OUTGOING,
                is_cut: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            };
        }
        Ok(arrived as usize)
    }

    /// Sends frames, from the first, until one is refused; says how many went.
    ///
    /// An error means that the first was refused.
    pub(crate) fn send(&self, packets: &[Packet]) -> io::Result<usize> {
        // SAFETY: zeros are a value of these structures of the C library (1).
        let (mut messages, mut vectors): ([libc::mmsghdr; BURST], [[libc::iovec; 2]; BURST]) =
            unsafe { (zeroed(), zeroed()) };
        let count = packets.len().min(BURST);
        // Nothing is left for the kernel to do: one header of zeros serves all.
        let header = [0_u8; VIRTIO_HEADER_BYTES];
        for (index, packet) in packets[..count].iter().enumerate() {
            vectors[index] = [const_vector(&header), const_vector(packet.bytes())];
            messages[index].msg_hdr.msg_iov = vectors[index].as_mut_ptr();
            messages[index].msg_hdr.msg_iovlen = vectors[index].len() as _;
        }
        // SAFETY: the first `count` messages point to `vectors`, and these to the header and to
        // the packets, which are borrowed until the call has returned (2). It reads the frames,
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

    /// How many frames the kernel dropped for want of room since this was last asked.
    pub(crate) fn take_dropped(&self) -> u64 {
        let mut statistics = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut size = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the option writes at most `size` bytes, and the size, both borrowed (1, 2).
        let result = unsafe {
            libc::getsockopt(
                self.descriptor.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                std::ptr::from_mut(&mut statistics).cast(),
                &raw mut size,
            )
        };
        match result {
            0 => u64::from(statistics.tp_drops),
            _ => 0,
        }
    }
}

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

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

fn vector(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }
}

/// For sending: the kernel does not write through it.
fn const_vector(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

/// Finds the tag in the auxiliary data of a message that `recvmmsg` has filled.
fn vlan_tag(header: &libc::msghdr) -> Option<VlanTag> {
    // SAFETY: `header` points to its control buffer, which lives (the caller holds it) and has
    // the length the kernel wrote; the macros stay inside. The data of an auxiliary message is
    // one `tpacket_auxdata`, read without regard to alignment (1).
    let auxiliary = unsafe {
        let first = libc::CMSG_FIRSTHDR(header).as_ref()?;
        let is_auxiliary = first.cmsg_level == libc::SOL_PACKET
            && first.cmsg_type == libc::PACKET_AUXDATA
            && first.cmsg_len as usize
                >= libc::CMSG_LEN(size_of::<libc::tpacket_auxdata>() as u32) as usize;
        if !is_auxiliary {
            return None;
        }
        let data = libc::CMSG_DATA(first).cast::<libc::tpacket_auxdata>();
        data.read_unaligned()
    };
    let has = |flag: u32| auxiliary.tp_status & flag != 0;
    has(libc::TP_STATUS_VLAN_VALID).then_some(VlanTag {
        control: auxiliary.tp_vlan_tci,
        protocol: match has(libc::TP_STATUS_VLAN_TPID_VALID) {
            true => auxiliary.tp_vlan_tpid,
            false => libc::ETH_P_8021Q as u16,
        },
    })
}
