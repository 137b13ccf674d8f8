//! Packets that leave work to the port that sends them: a checksum, and cutting into segments.
//!
//! A host's stack often hands over a *whole frame*: up to 64 KiB of TCP or UDP payload behind one
//! set of headers, whose checksum is not there yet. Such a packet stays whole on its way through
//! the switch, since headers are changed once for all its segments. The packet's flags
//! ([`Unfinished`]) say which work is left. The port that sends the packet does this work, or has
//! its kernel do it.
//!
//! ```text
//!   | Ethernet, tags, labels | IPv4 or IPv6 | TCP or UDP | payload             |
//!                                           |<------- covered_bytes ---------->|
//!                                                        | segment | segment | |
//! ```
//!
//! 1. The value in the checksum's field means nothing: [`Packet::finish`] and
//!    [`Packet::emit_segment`] compute it from the packet as it then is.
//! 2. The transport header is found from the packet's end. So headers may come and go in front of
//!    the IP header, and the IP header may change in all but its length.
//! 3. Only packets of a plain form are marked ([`Packet::mark_unfinished`]): no IP options, no
//!    extension headers, no fragment, no padding, and at most [`MOST_SEGMENTS`] segments.
//! 4. Work that no longer fits the packet is never done: no bytes make this module panic.
//! 5. Bytes are cut off or appended only after the work is done.
//!
//! The slow twin is `io::offload`, which cuts frames where they arrive.
//!
//! References: RFC 1071; the kernel's `tcp_gso_segment` and `__udp_gso_segment`; virtio 1.2, 5.1.6.

mod join;

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::Packet;
use crate::checksum::{Sum, checksum, udp_checksum_for_wire};
use crate::wire::IpProtocol;

/// The most segments that a packet may stand for.
pub const MOST_SEGMENTS: usize = 128;

/// The least payload of a segment that Linux's stack asks for: `TCP_MIN_GSO_SIZE`, 48, less 40
/// bytes of options.
const LEAST_SEGMENT_BYTES: u16 = 8;

const IPV4_HEADER_BYTES: usize = 20;
const IPV6_HEADER_BYTES: usize = 40;
const UDP_HEADER_BYTES: usize = 8;
const TCP_HEADER_BYTES: usize = 20;

const TCP_FIN_PSH: u8 = 0x09;
const TCP_CWR: u8 = 0x80;

/// The bits of a packet's flags that say which work is left.
pub(crate) const UNFINISHED: u64 = 1 << 2;
const IS_IPV6: u64 = 1 << 3;
const IS_UDP: u64 = 1 << 4;
const HAS_ECN: u64 = 1 << 5;
const SEGMENT_SHIFT: u32 = 16;
const SEGMENT_BITS: u64 = 0xffff << SEGMENT_SHIFT;
const COVERED_SHIFT: u32 = 32;
const COVERED_BITS: u64 = 0xffff << COVERED_SHIFT;

/// All of them.
pub(crate) const UNFINISHED_BITS: u64 =
    UNFINISHED | IS_IPV6 | IS_UDP | HAS_ECN | SEGMENT_BITS | COVERED_BITS;

/// The work that a packet leaves to the port that sends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unfinished {
    /// Whether the packet is IPv6, not IPv4.
    pub is_ipv6: bool,
    /// Whether it is UDP, not TCP.
    pub is_udp: bool,
    /// Whether the sender said that the first segment tells of congestion (TCP's CWR).
    pub has_ecn: bool,
    /// The payload of each segment in bytes; 0 if the packet is one frame.
    pub segment_bytes: u16,
    /// The bytes that the checksum covers: from the transport header to the packet's end.
    pub covered_bytes: u16,
}

/// The places of an unfinished packet's parts.
#[derive(Clone, Copy)]
struct Parts {
    network: usize,
    transport: usize,
    payload: usize,
}

impl Unfinished {
    fn of_flags(flags: u64) -> Unfinished {
        Unfinished {
            is_ipv6: flags & IS_IPV6 != 0,
            is_udp: flags & IS_UDP != 0,
            has_ecn: flags & HAS_ECN != 0,
            segment_bytes: (flags >> SEGMENT_SHIFT) as u16,
            covered_bytes: (flags >> COVERED_SHIFT) as u16,
        }
    }

    fn flags(self) -> u64 {
        let bit = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
        UNFINISHED
            | bit(self.is_ipv6, IS_IPV6)
            | bit(self.is_udp, IS_UDP)
            | bit(self.has_ecn, HAS_ECN)
            | u64::from(self.segment_bytes) << SEGMENT_SHIFT
            | u64::from(self.covered_bytes) << COVERED_SHIFT
    }

    /// The checksum's offset in the transport header.
    pub fn checksum_offset(self) -> usize {
        if self.is_udp { 6 } else { 16 }
    }

    /// Where the parts of `bytes` are, if they have them (invariant 4).
    fn parts(self, bytes: &[u8]) -> Option<Parts> {
        let transport = bytes.len().checked_sub(usize::from(self.covered_bytes))?;
        let network_bytes = match self.is_ipv6 {
            false => IPV4_HEADER_BYTES,
            true => IPV6_HEADER_BYTES,
        };
        let network = transport.checked_sub(network_bytes)?;
        let header_bytes = match self.is_udp {
            true => UDP_HEADER_BYTES,
            false => {
                let words = usize::from(bytes.get(transport + 12)? >> 4);
                words.max(TCP_HEADER_BYTES / 4) * 4
            }
        };
        let payload = transport + header_bytes;
        (payload <= bytes.len()).then_some(Parts {
            network,
            transport,
            payload,
        })
    }

    /// Whether the packet `bytes` has the plain form that this says (invariant 3).
    fn fits(self, bytes: &[u8]) -> bool {
        let Some(parts) = self.parts(bytes) else {
            return false;
        };
        let ip = &bytes[parts.network..];
        let covered = usize::from(self.covered_bytes);
        let protocol = if self.is_udp { 17 } else { 6 };
        let is_plain = match self.is_ipv6 {
            // Version, header's length, no fragment.
            false => {
                ip[0] == 0x45
                    && usize::from(get(ip, 2)) == covered + IPV4_HEADER_BYTES
                    && get(ip, 6) & 0x3fff == 0
                    && ip[9] == protocol
            }
            true => ip[0] >> 4 == 6 && usize::from(get(ip, 4)) == covered && ip[6] == protocol,
        };
        let payload_bytes = bytes.len() - parts.payload;
        let is_bounded = self.segment_bytes == 0
            || self.segment_bytes >= LEAST_SEGMENT_BYTES
                && payload_bytes.div_ceil(self.segment_bytes.into()) <= MOST_SEGMENTS;
        is_plain && is_bounded
    }

    /// The sum of the pseudo-header for `covered` bytes, from the addresses in the packet.
    fn pseudo_sum(self, bytes: &[u8], network: usize, covered: usize) -> Sum {
        let protocol = IpProtocol(if self.is_udp { 17 } else { 6 });
        let ip = &bytes[network..];
        if self.is_ipv6 {
            let address = |at: usize| Ipv6Addr::from(part::<16>(ip, at));
            let (source, destination) = (address(8), address(24));
            Sum::of_ipv6_pseudo_header(source, destination, protocol, covered as u32)
        } else {
            let address = |at: usize| Ipv4Addr::from(part::<4>(ip, at));
            let (source, destination) = (address(12), address(16));
            Sum::of_ipv4_pseudo_header(source, destination, protocol, covered as u16)
        }
    }

    /// Writes the checksum of a frame.
    fn complete(self, bytes: &mut [u8], parts: Parts) {
        let at = parts.transport + self.checksum_offset();
        put(bytes, at, 0);
        let covered = bytes.len() - parts.transport;
        let pseudo = self.pseudo_sum(bytes, parts.network, covered);
        let sum = pseudo.with_bytes(&bytes[parts.transport..]).checksum();
        let sum = if self.is_udp {
            udp_checksum_for_wire(sum)
        } else {
            sum
        };
        put(bytes, at, sum);
    }

    /// Makes a copy of the whole frame's headers, and segment `index`'s payload, a segment.
    fn fix_headers(self, bytes: &mut [u8], parts: Parts, index: usize, is_last: bool) {
        let covered = bytes.len() - parts.transport;
        if self.is_ipv6 {
            put(bytes, parts.network + 4, covered as u16);
        } else {
            let header = &mut bytes[parts.network..parts.transport];
            put(header, 2, (covered + IPV4_HEADER_BYTES) as u16);
            let identification = get(header, 4).wrapping_add(index as u16);
            put(header, 4, identification);
            put(header, 10, 0);
            let sum = checksum(header);
            put(header, 10, sum);
        }
        let header = &mut bytes[parts.transport..];
        if self.is_udp {
            put(header, 4, covered as u16);
        } else {
            let advance = index as u32 * u32::from(self.segment_bytes);
            let sequence = u32::from_be_bytes(part(header, 4)).wrapping_add(advance);
            header[4..8].copy_from_slice(&sequence.to_be_bytes());
            header[13] &= if is_last { 0xff } else { !TCP_FIN_PSH };
            header[13] &= if index == 0 { 0xff } else { !TCP_CWR };
        }
        self.complete(bytes, parts);
    }
}

impl Packet {
    /// Whether the packet's checksum is left to the port that sends it.
    #[inline(always)]
    pub fn is_unfinished(&self) -> bool {
        self.flags & UNFINISHED != 0
    }

    /// Whether the packet stands for several segments.
    #[inline(always)]
    pub fn is_segmented(&self) -> bool {
        self.flags & SEGMENT_BITS != 0
    }

    /// The work that the packet leaves to the port that sends it, if any.
    #[inline]
    pub fn unfinished(&self) -> Option<Unfinished> {
        match self.is_unfinished() {
            false => None,
            true => Some(Unfinished::of_flags(self.flags)),
        }
    }

    /// Leaves work to the port that sends the packet; false if the packet's form does not allow
    /// this (invariant 3), and then nothing changes.
    ///
    /// ```
    /// use thalweg_packet::{Packet, Unfinished};
    /// use thalweg_packet::wire::{MacAddress, PacketBuilder};
    ///
    /// let frame = PacketBuilder::ethernet(MacAddress::ZERO, MacAddress::BROADCAST)
    ///     .ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
    ///     .tcp(1, 2)
    ///     .payload(&[7; 2_500])
    ///     .build();
    /// let mut packet = Packet::from_bytes(&frame);
    /// let work = Unfinished { segment_bytes: 1_000, covered_bytes: 2_520, ..Unfinished::default() };
    /// assert!(packet.mark_unfinished(work));
    /// // Two segments of 1,054 bytes and one of 554.
    /// assert_eq!(packet.wire_counts(), (3, 2_662));
    /// ```
    pub fn mark_unfinished(&mut self, work: Unfinished) -> bool {
        if self.cut_bytes() > 0 || !work.fits(self.bytes()) {
            return false;
        }
        let work = match work.parts(self.bytes()) {
            // The payload is not more than one segment's.
            Some(parts) if self.len() - parts.payload <= work.segment_bytes.into() => Unfinished {
                segment_bytes: 0,
                ..work
            },
            _ => work,
        };
        self.flags = self.flags & !UNFINISHED_BITS | work.flags();
        true
    }

    /// The work that is left and where the parts are, if the packet still has them.
    fn work(&self) -> Option<(Unfinished, Parts)> {
        let work = self.unfinished()?;
        let parts = work.parts(self.bytes())?;
        Some((work, parts))
    }

    /// Computes the checksum, if it is not there. The packet is one frame afterwards, as long as it
    /// is.
    #[inline]
    pub fn finish(&mut self) {
        if self.is_unfinished() {
            self.finish_now();
        }
    }

    #[cold]
    fn finish_now(&mut self) {
        if let Some((work, parts)) = self.work() {
            work.complete(self.bytes_mut(), parts);
        }
        self.flags &= !UNFINISHED_BITS;
    }

    /// Prepares the packet for a network card that finishes it: the sum of the pseudo-header goes
    /// into the checksum's field.
    ///
    /// Returns the work that is left, and the offsets of the transport header and of the payload.
    pub fn prepare_for_card(&mut self) -> Option<(Unfinished, usize, usize)> {
        let (work, parts) = self.work()?;
        let bytes = self.bytes_mut();
        let covered = bytes.len() - parts.transport;
        let sum = !work.pseudo_sum(bytes, parts.network, covered).checksum();
        put(bytes, parts.transport + work.checksum_offset(), sum);
        Some((work, parts.transport, parts.payload))
    }

    /// The number of frames that the packet stands for: 1 for most.
    #[inline]
    pub fn segment_count(&self) -> usize {
        self.wire_counts().0 as usize
    }

    /// The numbers of frames and bytes that the packet has on a wire, without the bytes in front of
    /// it ([`Packet::own_len`]).
    #[inline]
    pub fn wire_counts(&self) -> (u64, u64) {
        match self.is_segmented() {
            false => (1, self.own_len() as u64),
            true => self.segmented_counts(),
        }
    }

    #[cold]
    fn segmented_counts(&self) -> (u64, u64) {
        let own = self.own_len() as u64;
        let Some((work, parts)) = self.work() else {
            return (1, own);
        };
        let payload_bytes = self.len() - parts.payload;
        let count = payload_bytes.div_ceil(work.segment_bytes.into()).max(1) as u64;
        let header_bytes = parts.payload.saturating_sub(self.front_len()) as u64;
        (count, own + (count - 1) * header_bytes)
    }

    /// Makes `segment` the finished segment `index` of this packet, with its origin and its tunnel.
    ///
    /// A packet that stands for one frame has one segment.
    ///
    /// # Panics
    /// If `index` is not below [`Packet::segment_count`].
    pub fn emit_segment(&self, index: usize, segment: &mut Packet) {
        let Some((work, parts)) = self.work().filter(|_| self.is_segmented()) else {
            assert!(index == 0, "one frame has one segment");
            segment.copy_from(self);
            return segment.finish();
        };
        let each = usize::from(work.segment_bytes);
        let start = parts.payload + index * each;
        assert!(index == 0 || start < self.len(), "a segment that there is");
        let end = (start + each).min(self.len());
        segment.fill(&self.bytes()[..parts.payload]);
        segment.append(&self.bytes()[start..end]);
        segment.take_origin(self);
        work.fix_headers(segment.bytes_mut(), parts, index, end == self.len());
    }
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}

fn get(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests;
