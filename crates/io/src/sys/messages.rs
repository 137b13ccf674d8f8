//! Receives a burst of messages from a packet socket: `recvmmsg(2)`.
//!
//! Each message is a small virtio header (the work that the kernel left undone: checksum,
//! segmentation) and the frame. The frame is received directly into a packet's buffer. The
//! rest of a longer frame goes to an overflow area, so buffers need no room for the rare 64
//! KiB frame.

use std::io;
use std::mem::zeroed;
use std::os::fd::AsRawFd;

use thalweg_packet::Packet;

use super::{LONGEST_FRAME_BYTES, Offload, PacketSocket, Received, VIRTIO_HEADER_BYTES, VlanTag};
use super::{check, vector};
use crate::BURST;

/// Room for one `PACKET_AUXDATA` message.
// SAFETY: the macro computes a size.
const CONTROL_BYTES: usize =
    unsafe { libc::CMSG_SPACE(size_of::<libc::tpacket_auxdata>() as u32) } as usize;

/// Room behind each packet of a burst for the rest of a long frame.
#[derive(Debug)]
pub(crate) struct Overflow(Vec<u8>);

impl Overflow {
    pub(crate) fn new() -> Overflow {
        Overflow(vec![0; BURST * LONGEST_FRAME_BYTES])
    }

    /// The rest of the frame in packet `index` of the last burst.
    pub(crate) fn behind(&self, index: usize) -> &[u8] {
        &self.0[index * LONGEST_FRAME_BYTES..][..LONGEST_FRAME_BYTES]
    }

    /// The room behind each packet of a burst.
    pub(super) fn parts(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.0.chunks_exact_mut(LONGEST_FRAME_BYTES)
    }
}

impl PacketSocket {
    /// Receives up to one frame into the receive area of each packet; returns the number.
    pub(crate) fn receive(
        &self,
        packets: &mut [Packet],
        overflow: &mut Overflow,
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
        let parts = packets.iter_mut().zip(overflow.parts());
        for (index, (packet, overflow)) in parts.enumerate().take(count) {
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
        // SAFETY: the first `count` messages point to parts of the arrays above, to the
        // packets' storage and to the overflow area, with their sizes. Each part is in one
        // message only. All of them are borrowed mutably until the end of this function (2),
        // and nothing moves them in between.
        let arrived = unsafe {
            libc::recvmmsg(
                self.descriptor().as_raw_fd(),
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
}

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Finds the tag in the auxiliary data of a message that `recvmmsg` has filled.
fn vlan_tag(header: &libc::msghdr) -> Option<VlanTag> {
    // SAFETY: `header` points to its control buffer, which lives (the caller holds it) and has
    // the length that the kernel wrote; the macros stay inside. The data of an auxiliary
    // message is one `tpacket_auxdata`, read without regard to alignment (1).
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
    VlanTag::from_status(
        auxiliary.tp_status,
        auxiliary.tp_vlan_tci,
        auxiliary.tp_vlan_tpid,
    )
}
