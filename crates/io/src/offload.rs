//! Does in software the work that the kernel left to a network card.
//!
//! A frame that crosses a virtual interface has often never passed a card. Its checksum is
//! partial, and it may be a *super-frame*: up to 64 KiB of TCP or UDP payload behind one set
//! of headers. The kernel marks both in a virtio header. A switch must not pass on such frames
//! unchanged, since the output port may lead to a real wire. So:
//!
//! ```text
//!   checksum:  the field holds the sum of the pseudo-header;
//!              field = !(sum of the bytes from checksum_start to the end), 0 sent as ffff in UDP
//!              SCTP: field = CRC32c
//!   segments:  for each segment_bytes of payload: the headers, that payload, and
//!              IPv4 length, identification + i, header checksum | IPv6 payload length
//!              TCP sequence + i * segment_bytes; FIN and PSH in the last, CWR in the first only
//!              UDP length
//!              pseudo-header sum - old length + new length, then the checksum as above
//! ```
//!
//! 1. Offsets from the header are checked against the frame; one that lies outside is an
//!    error.
//! 2. The segments carry each payload byte once, in order. None is longer than the sender's
//!    stack asked for.
//! 3. The number of segments of a frame is bounded: each but the last has at least
//!    [`LEAST_SEGMENT_BYTES`] of payload, and UDP has at most [`MOST_UDP_SEGMENTS`]. A frame
//!    that asks for more is refused as a whole, since segments of one byte would turn one
//!    packet into 65,000.
//!
//! References: Braden et al., "Computing the Internet Checksum", RFC 1071; RFC 1624 for the
//! change of length; virtio 1.2, 5.1.6; the kernel's `tcp_gso_segment`.

mod partial;

use thalweg_packet::checksum::{Sum, checksum, sctp_checksum, udp_checksum_for_wire};
use thalweg_packet::{HEADROOM_BYTES, Packet, Rewriter, Unfinished};

pub(crate) use self::partial::find_partial_checksum;

use crate::sys::{Offload, VlanTag};

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
const NEEDS_CHECKSUM: u8 = 1;

/// `VIRTIO_NET_HDR_GSO_ECN`: segments keep their congestion bits, as they always do here.
const SEGMENTATION_ECN: u8 = 0x80;

/// `VIRTIO_NET_HDR_GSO_TCPV4`, `_TCPV6`, `_UDP_L4`.
const SEGMENTATION_TCP4: u8 = 1;
const SEGMENTATION_TCP6: u8 = 4;
const SEGMENTATION_UDP: u8 = 5;

/// The checksum's offset in a UDP header (RFC 768), which distinguishes UDP from other
/// protocols.
const UDP_CHECKSUM_OFFSET: usize = 6;
const UDP_HEADER_BYTES: usize = 8;

/// The checksum's offset in SCTP (RFC 9260, 3.1), which has another kind of checksum.
const SCTP_CHECKSUM_OFFSET: usize = 8;
const SCTP_HEADER_BYTES: usize = 12;

/// A TCP header without options, in units of its data offset (RFC 9293, 3.1).
const TCP_LEAST_WORDS: usize = 5;

/// The least payload of a segment that Linux's stack asks for.
///
/// `TCP_MIN_GSO_SIZE`: the smallest segment size that it accepts, 48, less 40 bytes of
/// options.
const LEAST_SEGMENT_BYTES: u16 = 8;

/// The most datagrams that Linux's stack puts into one frame (`UDP_MAX_SEGMENTS`).
const MOST_UDP_SEGMENTS: usize = 128;

const IPV6_HEADER_BYTES: usize = 40;
const MAC_ADDRESSES_BYTES: usize = 12;

const TCP_FIN_PSH: u8 = 0x09;
const TCP_CWR: u8 = 0x80;

/// The offload request does not fit the frame, or is of an unknown kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BadOffload;

/// Completes the checksum of a whole frame, if it is partial.
pub(crate) fn complete_checksum(frame: &mut [u8], offload: &Offload) -> Result<(), BadOffload> {
    if offload.flags & NEEDS_CHECKSUM == 0 {
        return Ok(());
    }
    let start = usize::from(offload.checksum_start);
    let offset = usize::from(offload.checksum_offset);
    let covered = frame.get_mut(start..).ok_or(BadOffload)?;
    if covered.len() < offset + 2 {
        return Err(BadOffload);
    }
    match offset {
        SCTP_CHECKSUM_OFFSET if covered.len() >= SCTP_HEADER_BYTES => {
            let checksum = sctp_checksum(covered).to_le_bytes();
            covered[offset..offset + 4].copy_from_slice(&checksum);
        }
        SCTP_CHECKSUM_OFFSET => return Err(BadOffload),
        UDP_CHECKSUM_OFFSET => put(covered, offset, udp_checksum_for_wire(checksum(covered))),
        _ => put(covered, offset, checksum(covered)),
    }
    Ok(())
}

/// Leaves what the kernel left undone to the port that sends the packet; false if the packet or the
/// request is not of a plain form, and then nothing changes.
///
/// `packet` is the frame as it was received, without the tag that the kernel removed.
pub(crate) fn leave_undone(packet: &mut Packet, offload: &Offload) -> bool {
    // Room for what rules push, within the longest frame that can be parsed.
    let longest = Rewriter::MAX_FRAME_BYTES - HEADROOM_BYTES;
    if offload.flags & NEEDS_CHECKSUM == 0 || packet.len() > longest {
        return false;
    }
    let transport = usize::from(offload.checksum_start);
    let bytes = packet.bytes();
    let (Some(network), Some(covered)) = (network_start(bytes), bytes.len().checked_sub(transport))
    else {
        return false;
    };
    let is_ipv6 = !is_ipv4(bytes, network);
    let is_udp = usize::from(offload.checksum_offset) == UDP_CHECKSUM_OFFSET;
    let kind = match (is_udp, is_ipv6) {
        (true, _) => SEGMENTATION_UDP,
        (false, false) => SEGMENTATION_TCP4,
        (false, true) => SEGMENTATION_TCP6,
    };
    let work = Unfinished {
        is_ipv6,
        is_udp,
        has_ecn: offload.segmentation & SEGMENTATION_ECN != 0,
        segment_bytes: match SuperFrame::is_asked_for(offload) {
            true => offload.segment_bytes,
            false => 0,
        },
        covered_bytes: covered as u16,
    };
    let is_known = !SuperFrame::is_asked_for(offload)
        || offload.segmentation & !SEGMENTATION_ECN == kind && offload.segment_bytes > 0;
    let ip_bytes = if is_ipv6 { IPV6_HEADER_BYTES } else { 20 };
    is_known
        && network + ip_bytes == transport
        && usize::from(offload.checksum_offset) == work.checksum_offset()
        && packet.mark_unfinished(work)
}

/// Whether the kernel finds the headers of an unfinished packet: only tags are in front of IP.
pub(crate) fn is_for_kernel(packet: &Packet) -> bool {
    packet.unfinished().is_some_and(|work| {
        let ip_bytes = if work.is_ipv6 { IPV6_HEADER_BYTES } else { 20 };
        let behind = ip_bytes + usize::from(work.covered_bytes);
        network_start(packet.bytes()) == packet.len().checked_sub(behind)
    })
}

/// What the kernel must be asked for when it sends a packet; nothing for most.
///
/// The packet's checksum is made partial, as the kernel expects.
pub(crate) fn ask_for(packet: &mut Packet) -> Offload {
    let is_segmented = packet.is_segmented();
    let Some((work, transport, payload)) = packet.prepare_for_card() else {
        return Offload::default();
    };
    let kind = match (work.is_udp, work.is_ipv6) {
        (true, _) => SEGMENTATION_UDP,
        (false, false) => SEGMENTATION_TCP4,
        (false, true) => SEGMENTATION_TCP6,
    };
    let ecn = if work.has_ecn { SEGMENTATION_ECN } else { 0 };
    Offload {
        flags: NEEDS_CHECKSUM,
        segmentation: if is_segmented { kind | ecn } else { 0 },
        header_bytes: payload as u16,
        segment_bytes: work.segment_bytes,
        checksum_start: transport as u16,
        checksum_offset: work.checksum_offset() as u16,
    }
}

/// Puts a tag that the kernel removed back behind the addresses.
pub(crate) fn insert_vlan_tag(packet: &mut Packet, tag: VlanTag) {
    packet.prepend(4);
    let bytes = packet.bytes_mut();
    bytes.copy_within(4..4 + MAC_ADDRESSES_BYTES, 0);
    put(bytes, MAC_ADDRESSES_BYTES, tag.protocol);
    put(bytes, MAC_ADDRESSES_BYTES + 2, tag.control);
}

/// A super-frame and the offsets of its parts.
#[derive(Debug)]
pub(crate) struct SuperFrame<'a> {
    front: &'a [u8],
    rest: &'a [u8],
    network: usize,
    transport: usize,
    payload: usize,
    offload: Offload,
}

impl<'a> SuperFrame<'a> {
    /// Whether a frame is a super-frame.
    pub(crate) fn is_asked_for(offload: &Offload) -> bool {
        offload.segmentation & !SEGMENTATION_ECN != 0
    }

    /// Finds the parts of the frame, whose bytes are `front` and then `rest`.
    pub(crate) fn parse(
        front: &'a [u8],
        rest: &'a [u8],
        offload: Offload,
    ) -> Result<Self, BadOffload> {
        let transport = usize::from(offload.checksum_start);
        let header = front.get(transport..).ok_or(BadOffload)?;
        let header_bytes = match offload.segmentation & !SEGMENTATION_ECN {
            SEGMENTATION_TCP4 | SEGMENTATION_TCP6 => {
                let words = usize::from(header.get(12).ok_or(BadOffload)? >> 4);
                words.max(TCP_LEAST_WORDS) * 4
            }
            SEGMENTATION_UDP => UDP_HEADER_BYTES,
            _ => return Err(BadOffload),
        };
        let checksum_end = usize::from(offload.checksum_offset) + 2;
        let network = network_start(front).ok_or(BadOffload)?;
        let least = match is_ipv4(front, network) {
            true => 20,
            false => IPV6_HEADER_BYTES,
        };
        let payload = transport + header_bytes;
        let fits = network + least <= transport
            && checksum_end <= header_bytes
            && payload <= front.len()
            && payload < front.len() + rest.len()
            && offload.segment_bytes >= LEAST_SEGMENT_BYTES;
        let frame = SuperFrame {
            front,
            rest,
            network,
            transport,
            payload,
            offload,
        };
        let is_bounded = || !frame.is_udp() || frame.segments() <= MOST_UDP_SEGMENTS;
        match fits && is_bounded() {
            true => Ok(frame),
            false => Err(BadOffload),
        }
    }

    fn is_udp(&self) -> bool {
        self.offload.segmentation & !SEGMENTATION_ECN == SEGMENTATION_UDP
    }

    /// The number of its segments: at least one.
    pub(crate) fn segments(&self) -> usize {
        let payload_bytes = self.len() - self.payload;
        payload_bytes.div_ceil(usize::from(self.offload.segment_bytes))
    }

    /// Writes segment `index` to `packet`.
    pub(crate) fn emit_segment(&self, index: usize, packet: &mut Packet) {
        let each = usize::from(self.offload.segment_bytes);
        let start = self.payload + index * each;
        let end = (start + each).min(self.len());
        packet.fill(&self.front[..self.payload]);
        let split = self.front.len();
        packet.append(&self.front[start.min(split)..end.min(split)]);
        packet.append(&self.rest[start.max(split) - split..end.max(split) - split]);

        let frame = packet.bytes_mut();
        self.fix_network_header(frame, index);
        self.fix_transport_header(frame, index, end == self.len());
        // The parts lie inside the headers, so this cannot fail.
        let _ = complete_checksum(frame, &self.offload);
    }

    fn fix_network_header(&self, frame: &mut [u8], index: usize) {
        let length = frame.len() - self.network;
        if !is_ipv4(frame, self.network) {
            let payload_bytes = length - IPV6_HEADER_BYTES;
            put(frame, self.network + 4, payload_bytes as u16);
            return;
        }
        let header = &mut frame[self.network..self.transport];
        put(header, 2, length as u16);
        let identification = get(header, 4).wrapping_add(index as u16);
        put(header, 4, identification);
        put(header, 10, 0);
        let checksum = checksum(header);
        put(header, 10, checksum);
    }

    fn fix_transport_header(&self, frame: &mut [u8], index: usize, is_last: bool) {
        let old_length = (self.len() - self.transport) as u32;
        let header = &mut frame[self.transport..];
        let new_length = header.len() as u32;
        if self.is_udp() {
            put(header, 4, new_length as u16);
        } else {
            let advance = index as u32 * u32::from(self.offload.segment_bytes);
            let sequence = u32::from(get(header, 4)) << 16 | u32::from(get(header, 6));
            header[4..8].copy_from_slice(&sequence.wrapping_add(advance).to_be_bytes());
            header[13] &= if is_last { 0xff } else { !TCP_FIN_PSH };
            header[13] &= if index == 0 { 0xff } else { !TCP_CWR };
        }
        // RFC 1624: in one's complement, to subtract is to add the complement.
        let at = usize::from(self.offload.checksum_offset);
        let pseudo = Sum::default()
            .with_bytes(&header[at..at + 2])
            .with_bytes(&(!old_length).to_be_bytes())
            .with_bytes(&new_length.to_be_bytes());
        put(header, at, !pseudo.checksum());
    }

    fn len(&self) -> usize {
        self.front.len() + self.rest.len()
    }
}

/// The offset of the network header: behind the addresses, the tags and the EtherType.
fn network_start(frame: &[u8]) -> Option<usize> {
    let mut at = MAC_ADDRESSES_BYTES;
    loop {
        match u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?) {
            0x8100 | 0x88a8 => at += 4,
            0x0800 | 0x86dd => return Some(at + 2),
            _ => return None,
        }
    }
}

/// Whether the version in the header's first four bits is 4.
fn is_ipv4(frame: &[u8], network: usize) -> bool {
    frame.get(network).is_some_and(|first| first >> 4 == 4)
}

fn get(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests;
