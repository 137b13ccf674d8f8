//! Joins segments of a TCP stream that arrived one behind the other into a whole frame.
//!
//! What a sender cut from one frame comes apart when it goes through a tunnel. Joined again, its
//! headers are read, looked up and changed once. This is what the kernel's `tcp_gro_receive` does.
//!
//! 1. Cutting what was joined gives the same frames, byte for byte.
//! 2. Each frame's checksums are verified first, since they are computed again when it is cut.

use super::{
    IPV4_HEADER_BYTES, LEAST_SEGMENT_BYTES, MOST_SEGMENTS, Parts, TCP_FIN_PSH, UNFINISHED_BITS,
    Unfinished, get, part, put,
};
use crate::Packet;
use crate::checksum::checksum;

const TCP_ACK: u8 = 0x10;
const TCP_CHECKSUM_AT: usize = 16;

/// Tags in front of the IP header of a frame that is joined.
const MOST_TAGS: usize = 2;

impl Unfinished {
    /// The work of cutting a frame into segments with all its payload in one, if its form is plain:
    /// TCP of either version of IP, with up to two tags.
    fn of_frame(bytes: &[u8]) -> Option<(Unfinished, Parts)> {
        let mut at = 12;
        for _ in 0..MOST_TAGS {
            if matches!(get(bytes.get(at..at + 2)?, 0), 0x8100 | 0x88a8) {
                at += 4;
            }
        }
        let is_ipv6 = match get(bytes.get(at..at + 2)?, 0) {
            0x0800 => false,
            0x86dd => true,
            _ => return None,
        };
        let network_bytes = if is_ipv6 { 40 } else { IPV4_HEADER_BYTES };
        let covered = bytes.len().checked_sub(at + 2 + network_bytes)?;
        let work = Unfinished {
            is_ipv6,
            covered_bytes: u16::try_from(covered).ok()?,
            ..Unfinished::default()
        };
        let parts = work.parts(bytes).filter(|_| work.fits(bytes))?;
        Some((work, parts))
    }

    /// Whether the checksums of a frame are those that cutting would write.
    fn has_own_checksums(self, bytes: &[u8], parts: Parts) -> bool {
        let ip = &bytes[parts.network..parts.transport];
        let transport = &bytes[parts.transport..];
        let stored = get(transport, TCP_CHECKSUM_AT);
        let pseudo = self.pseudo_sum(bytes, parts.network, transport.len());
        let sum = pseudo
            .with_bytes(&transport[..TCP_CHECKSUM_AT])
            .with_bytes(&transport[TCP_CHECKSUM_AT + 2..])
            .checksum();
        let is_ip_right = self.is_ipv6 || {
            let mut header: [u8; IPV4_HEADER_BYTES] = part(ip, 0);
            let stored = get(&header, 10);
            put(&mut header, 10, 0);
            checksum(&header) == stored
        };
        sum == stored && is_ip_right
    }
}

/// Whether a frame is the segment behind `count` others with the headers of `first`, which have
/// `payload_bytes` in all.
fn is_next(
    (first, parts): (&[u8], Parts),
    (next, is_ipv6): (&[u8], bool),
    (count, payload_bytes): (usize, usize),
) -> bool {
    let same = |from: usize, to: usize| first[from..to] == next[from..to];
    let (network, transport) = (parts.network, parts.transport);
    let is_ip_same = match is_ipv6 {
        // All but the length.
        true => same(network, network + 4) && same(network + 6, transport),
        // All but length, identification and checksum.
        false => {
            let identification = get(&first[network..], 4).wrapping_add(count as u16);
            same(network, network + 2)
                && get(&next[network..], 4) == identification
                && same(network + 6, network + 10)
                && same(network + 12, transport)
        }
    };
    let sequence = |frame: &[u8]| u32::from_be_bytes(part(&frame[transport..], 4));
    let follows = sequence(first).wrapping_add(payload_bytes as u32) == sequence(next);
    // Ports, acknowledgement, length of the header; window, urgent pointer, options.
    let is_tcp_same = same(transport, transport + 4)
        && same(transport + 8, transport + 13)
        && same(transport + 14, transport + TCP_CHECKSUM_AT)
        && same(transport + 18, parts.payload);
    same(0, network) && is_ip_same && is_tcp_same && follows
}

impl Packet {
    /// Appends the segment that follows in the same TCP stream, so that the packet is a whole frame
    /// of all; false if it does not follow, and then nothing changes.
    ///
    /// ```
    /// use thalweg_packet::Packet;
    /// use thalweg_packet::wire::{MacAddress, PacketBuilder};
    ///
    /// let frame = PacketBuilder::ethernet(MacAddress::ZERO, MacAddress::BROADCAST)
    ///     .ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
    ///     .tcp(1, 2)
    ///     .payload(&[7; 100])
    ///     .build();
    /// let mut packet = Packet::from_bytes(&frame);
    /// // The same segment again is not the next one.
    /// assert!(!packet.join(&Packet::from_bytes(&frame)));
    /// ```
    pub fn join(&mut self, next: &Packet) -> bool {
        self.try_join(next).is_some()
    }

    fn try_join(&mut self, next: &Packet) -> Option<()> {
        if next.is_unfinished() || self.is_layer3() || next.is_layer3() {
            return None;
        }
        let bytes = self.bytes();
        let (_, parts) = Unfinished::of_frame(bytes)?;
        let payload_bytes = bytes.len() - parts.payload;
        let each = match self.unfinished() {
            None => payload_bytes,
            Some(work) => usize::from(work.segment_bytes),
        };
        // A packet that is one frame without its checksum, or whose last segment is a short one,
        // does not go on.
        if each < usize::from(LEAST_SEGMENT_BYTES) || !payload_bytes.is_multiple_of(each) {
            return None;
        }
        let count = payload_bytes / each;
        let (work, own) = Unfinished::of_frame(next.bytes())?;
        let more = next.len() - own.payload;
        let is_placed = own.network == parts.network && own.payload == parts.payload;
        if !is_placed || more == 0 || more > each || count >= MOST_SEGMENTS {
            return None;
        }
        let flags_at = parts.transport + 13;
        let (flags, next_flags) = (bytes[flags_at], next.bytes()[flags_at]);
        if flags != TCP_ACK || next_flags & !TCP_FIN_PSH != TCP_ACK {
            return None;
        }
        let sides = ((bytes, parts), (next.bytes(), work.is_ipv6));
        if !is_next(sides.0, sides.1, (count, payload_bytes))
            || !self.is_unfinished() && !work.has_own_checksums(bytes, parts)
            || !work.has_own_checksums(next.bytes(), own)
        {
            return None;
        }
        let covered = bytes.len() - parts.transport + more;
        let (at, length) = match work.is_ipv6 {
            false => (parts.network + 2, covered + IPV4_HEADER_BYTES),
            true => (parts.network + 4, covered),
        };
        let length = u16::try_from(length).ok()?;
        self.flags &= !UNFINISHED_BITS;
        self.append(&next.bytes()[own.payload..]);
        let bytes = self.bytes_mut();
        bytes[flags_at] = next_flags;
        put(bytes, at, length);
        if !work.is_ipv6 {
            let header = &mut bytes[parts.network..parts.transport];
            put(header, 10, 0);
            let sum = checksum(header);
            put(header, 10, sum);
        }
        let whole = Unfinished {
            segment_bytes: each as u16,
            covered_bytes: covered as u16,
            ..work
        };
        self.flags |= whole.flags();
        Some(())
    }
}
