//! Reads a block of a `TPACKET_V3` ring: a chain of frames, each behind its header.
//!
//! ```text
//!   block:  descriptor (number of frames, offset of the first) | frame | frame | ...
//!   frame:  tpacket3_hdr | sockaddr_ll | .. | virtio header | bytes ..     next: tp_next_offset on
//!           0              48                 tp_mac - 10     tp_mac
//! ```
//!
//! The block is a plain slice here. The kernel wrote it, but no number in it is trusted:
//!
//! 1. Nothing outside the block is read. A frame that does not lie inside is [`Damage`] and
//!    ends the reading, since the offset of the next frame cannot be trusted either.
//! 2. A cursor takes at most as many steps as headers fit into a block.
//!
//! Reference: `if_packet.h`; `tpacket_rcv` in the kernel's `net/packet/af_packet.c`.

use std::mem::offset_of;

use libc::{sockaddr_ll, tpacket_block_desc, tpacket_hdr_v1, tpacket_hdr_variant1, tpacket3_hdr};

use crate::sys::{LONGEST_FRAME_BYTES, Offload, Received, VIRTIO_HEADER_BYTES, VlanTag};

/// Offsets in a block.
const FRAMES: usize = offset_of!(tpacket_block_desc, hdr) + offset_of!(tpacket_hdr_v1, num_pkts);
const FIRST: usize =
    offset_of!(tpacket_block_desc, hdr) + offset_of!(tpacket_hdr_v1, offset_to_first_pkt);

/// Offsets in the header before a frame.
const NEXT: usize = offset_of!(tpacket3_hdr, tp_next_offset);
const KEPT: usize = offset_of!(tpacket3_hdr, tp_snaplen);
const LENGTH: usize = offset_of!(tpacket3_hdr, tp_len);
const STATUS: usize = offset_of!(tpacket3_hdr, tp_status);
const BYTES: usize = offset_of!(tpacket3_hdr, tp_mac);
const TAG_CONTROL: usize =
    offset_of!(tpacket3_hdr, hv1) + offset_of!(tpacket_hdr_variant1, tp_vlan_tci);
const TAG_PROTOCOL: usize =
    offset_of!(tpacket3_hdr, hv1) + offset_of!(tpacket_hdr_variant1, tp_vlan_tpid);
/// The address follows the header, at the next multiple of `TPACKET_ALIGNMENT`.
const HEADER_BYTES: usize = size_of::<tpacket3_hdr>().next_multiple_of(16);
const DIRECTION: usize = HEADER_BYTES + offset_of!(sockaddr_ll, sll_pkttype);

/// Error for a frame that does not lie inside its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Damage;

/// A frame in a block.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    /// As many of its bytes as the block had room for.
    pub(super) bytes: &'a [u8],
    pub(super) received: Received,
    /// The distance to the next header.
    next: usize,
}

/// A position in a block that is being read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cursor {
    at: usize,
    /// The number of frames from here on.
    left: usize,
}

impl Cursor {
    /// Starts at the first frame.
    pub(super) fn new(block: &[u8]) -> Cursor {
        let number = |at| word(block, at).map_or(0, |number| number as usize);
        Cursor {
            at: number(FIRST),
            left: number(FRAMES).min(block.len() / HEADER_BYTES), // Invariant 2.
        }
    }

    /// The number of frames from here on.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// The current frame; there must be one.
    pub(super) fn frame<'a>(&self, block: &'a [u8]) -> Result<Frame<'a>, Damage> {
        // Invariant 1: everything below is read with `get`.
        let header = block.get(self.at..).ok_or(Damage)?;
        let number = |at| word(header, at).map(|number| number as usize).ok_or(Damage);
        let start = usize::from(half(header, BYTES).ok_or(Damage)?);
        let end = start + number(KEPT)?;
        let bytes = header.get(start..end).ok_or(Damage)?;
        let len_bytes = number(LENGTH)?;
        let is_cut = bytes.len() < len_bytes || len_bytes > LONGEST_FRAME_BYTES;
        let received = Received {
            len_bytes,
            // A truncated frame need not have one.
            offload: match is_cut {
                true => Offload::default(),
                false => offload(header, start).ok_or(Damage)?,
            },
            vlan: VlanTag::from_status(
                word(header, STATUS).ok_or(Damage)?,
                // The kernel uses only these 16 bits.
                word(header, TAG_CONTROL).ok_or(Damage)? as u16,
                half(header, TAG_PROTOCOL).ok_or(Damage)?,
            ),
            is_outgoing: *header.get(DIRECTION).ok_or(Damage)? == libc::PACKET_OUTGOING,
            is_cut,
        };
        Ok(Frame {
            bytes: &bytes[..len_bytes.min(bytes.len())],
            received,
            next: number(NEXT)?,
        })
    }

    /// Ends the reading; returns the number of unread frames.
    pub(super) fn give_up(&mut self) -> usize {
        std::mem::take(&mut self.left)
    }

    /// Advances to the frame behind `frame`.
    pub(super) fn pass(&mut self, frame: &Frame<'_>) {
        self.at = self.at.saturating_add(frame.next);
        self.left -= 1;
    }
}

/// Reads the virtio header, which lies directly before the frame and behind the address.
fn offload(header: &[u8], frame_start: usize) -> Option<Offload> {
    let start = frame_start.checked_sub(VIRTIO_HEADER_BYTES)?;
    let bytes = header.get(start..frame_start)?.first_chunk()?;
    (start > DIRECTION).then(|| Offload::from_bytes(bytes))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests;
