//! Rewriting: changes to the headers of a packet that keep its checksums right.
//!
//! A [`Rewriter`] holds a packet and the places of its headers, and keeps both consistent: a
//! pushed tag moves the offsets of everything behind it. Callers name fields by their
//! [`Source`], so a program can write whatever it can match.
//!
//! 1. Every internet checksum that covers a rewritten bit is updated by difference (RFC 1624).
//!    A wrong one stays wrong, and a UDP checksum of zero over IPv4 stays absent.
//! 2. SCTP's CRC32c is updated by difference too: by the CRC before and after of the bytes
//!    that the IP header says the packet has. A first fragment holds only some of the covered
//!    bytes. As in Open vSwitch, the difference is then that of the fragment.
//! 3. A write to a header that the packet lacks does nothing and returns false.
//! 4. Pushing an MPLS label hides the headers behind it. Popping one does not reveal them:
//!    that takes another parse.
//! 5. A push is refused if the frame would exceed [`Rewriter::MAX_FRAME_BYTES`], the longest
//!    that can be parsed. Offsets have 16 bits and must not wrap.
//! 6. What the header that [`Rewriter::encapsulate`] adds hides, and what removing one reveals, is
//!    found by another parse, at once.
//! 7. With a routing header whose segments are not used up, TCP's pseudo-header has the final
//!    destination (RFC 8200, section 8.1). The IPv6 destination is then not part of its sum.

use crate::Packet;
use crate::checksum::{Alignment, Edit, sctp_checksum};
use crate::field::{HeaderId, Intrinsic, Scalar, Source};
use crate::headers::Headers;
use crate::standard::{self, fields, header as h};

/// A packet and the places of its headers, changed together.
///
/// ```
/// use thalweg_packet::{Headers, Packet, Rewriter, standard};
///
/// let mut frame = vec![0; 60];
/// frame[12..14].copy_from_slice(&[0x08, 0x00]);
/// let mut packet = Packet::from_bytes(&frame);
/// let mut headers = Headers::parse(packet.bytes())?;
/// let mut rewriter = Rewriter::new(&mut packet, &mut headers);
/// rewriter.push_vlan(0x8100, 100);
/// let eth_src = &standard::fields()[standard::ETH_SRC.index()].source;
/// assert!(rewriter.write(eth_src, 48, 0x0200_0000_0001, u128::MAX));
/// assert_eq!(packet.bytes()[6..16], [2, 0, 0, 0, 0, 1, 0x81, 0, 0, 100]);
/// # Ok::<(), thalweg_packet::FrameError>(())
/// ```
#[derive(Debug)]
pub struct Rewriter<'a> {
    packet: &'a mut Packet,
    headers: &'a mut Headers,
}

/// Where a field lies in this packet.
#[derive(Clone, Copy)]
struct Found {
    header: HeaderId,
    /// Bits from the start of the packet.
    bit: usize,
    /// Bits from the start of the header.
    bit_in_header: usize,
}

impl<'a> Rewriter<'a> {
    /// The longest frame that [`Headers::parse`] accepts.
    pub const MAX_FRAME_BYTES: usize = 65_534;

    /// Creates a rewriter; `headers` must be those of `packet`.
    #[inline]
    pub fn new(packet: &'a mut Packet, headers: &'a mut Headers) -> Rewriter<'a> {
        Rewriter { packet, headers }
    }

    /// Writes the bits `mask` of a field; returns whether the packet has the field.
    ///
    /// Bits of `mask` and `value` above the field's width are ignored.
    ///
    /// # Panics
    /// If the field is wider than 128 bits.
    pub fn write(&mut self, source: &Source, width_bits: u16, value: u128, mask: u128) -> bool {
        if let Source::Intrinsic(Intrinsic::Tunnel(part)) = source {
            let tunnel = self.packet.tunnel_mut();
            let mask = mask & u128::MAX >> (128 - width_bits);
            tunnel.set(*part, tunnel.get(*part) & !mask | value & mask);
            return true;
        }
        let Some(found) = self.find(source) else {
            return false;
        };
        // Bit 12 of the tag is "drop eligible" on the wire; in a key it marks presence, so
        // keep it.
        let is_tag = matches!(found.header, h::VLAN_OUTER | h::VLAN_INNER);
        let mask = if is_tag { mask & !0x1000 } else { mask };
        let mask = mask & ones(width_bits);
        if mask == 0 {
            return true;
        }
        if found.header == h::SCTP {
            let before = self.sctp_sum();
            self.replace_bits(found.bit, width_bits, value, mask);
            self.update_sctp(before);
            return true;
        }
        let (old, new) = self.replace_bits(found.bit, width_bits, value, mask);
        if old != new {
            let edit = edit_of(found.bit_in_header / 8, old, new);
            self.update_checksums(found, edit);
        }
        true
    }

    /// Decrements the IPv4 TTL or IPv6 hop limit, but not below zero.
    pub fn decrement_ttl(&mut self) -> bool {
        for (header, byte) in [(h::IPV4, 8), (h::IPV6_CHAIN, 7)] {
            if let Some(at) = self.headers.offset(header) {
                let ttl = &mut self.packet.bytes_mut()[at + byte];
                let old = *ttl;
                *ttl = old.saturating_sub(1);
                let (old, new) = (u16::from(old) << 8, u16::from(*ttl) << 8);
                if header == h::IPV4 {
                    let edit = Edit::default().replace_u16(old, new, Alignment::Even);
                    self.apply_at(at + 10, edit);
                }
                return true;
            }
        }
        false
    }

    /// Raises the drop precedence of the packet's DSCP by `levels`, at most to the highest; returns
    /// whether it has changed.
    ///
    /// Assured forwarding has four classes of three levels (RFC 2597, section 6). Any other DSCP
    /// has no level, and stays.
    pub fn raise_drop_precedence(&mut self, levels: u8) -> bool {
        let source = &fields()[standard::IP_DSCP.index()].source;
        let Some(found) = self.find(source) else {
            return false;
        };
        let window = self.packet.bytes()[found.bit / 8..].first_chunk();
        let word = u16::from_be_bytes(*window.expect("the header is whole"));
        let dscp = word >> (10 - found.bit % 8) & 0x3f;
        let (class, level) = (dscp >> 3, dscp >> 1 & 0b11);
        if dscp & 1 != 0 || level == 0 || !(1..=4).contains(&class) {
            return false;
        }
        let raised = (level + u16::from(levels)).min(3);
        let remarked = class << 3 | raised << 1;
        self.write(source, 6, remarked.into(), 0x3f) && remarked != dscp
    }

    /// Decrements the TTL of the top MPLS label, but not below zero.
    pub fn decrement_mpls_ttl(&mut self) -> bool {
        let Some(at) = self.headers.offset(h::MPLS_0) else {
            return false;
        };
        let ttl = &mut self.packet.bytes_mut()[at + 3];
        *ttl = ttl.saturating_sub(1);
        true
    }

    /// Adds an outer VLAN tag; returns whether there was room (invariant 5).
    pub fn push_vlan(&mut self, tpid: u16, tci: u16) -> bool {
        if !self.has_room(4) {
            return false;
        }
        self.insert(12, 4);
        let bytes = self.packet.bytes_mut();
        bytes[12..14].copy_from_slice(&tpid.to_be_bytes());
        bytes[14..16].copy_from_slice(&tci.to_be_bytes());
        let outer = self.headers.offset(h::VLAN_OUTER);
        self.headers.place(h::VLAN_INNER, outer);
        self.headers.place(h::VLAN_OUTER, Some(12));
        true
    }

    /// Removes the outer VLAN tag; returns whether there was one.
    pub fn pop_vlan(&mut self) -> bool {
        if !self.headers.has(h::VLAN_OUTER) {
            return false;
        }
        self.remove(12, 4);
        let inner = self.headers.offset(h::VLAN_INNER);
        self.headers.place(h::VLAN_OUTER, inner);
        self.headers.place(h::VLAN_INNER, None);
        true
    }

    /// Adds an MPLS label stack entry behind the EtherType, which becomes `ether_type`.
    ///
    /// Returns whether there was room (invariant 5).
    pub fn push_mpls(&mut self, ether_type: u16, entry: u32) -> bool {
        let at = self.headers.offset(h::ETHER_TYPE);
        let (Some(at), true) = (at, self.has_room(4)) else {
            return false;
        };
        self.insert(at + 2, 4);
        let bytes = self.packet.bytes_mut();
        bytes[at..at + 2].copy_from_slice(&ether_type.to_be_bytes());
        bytes[at + 2..at + 6].copy_from_slice(&entry.to_be_bytes());
        self.headers.set_scalar(Scalar::EtherType, ether_type);
        let [first, second] = [h::MPLS_0, h::MPLS_1].map(|label| self.headers.offset(label));
        self.headers.forget_from(h::MPLS_0);
        self.headers.place(h::MPLS_2, second);
        self.headers.place(h::MPLS_1, first);
        self.headers.place(h::MPLS_0, Some(at + 2));
        true
    }

    /// Removes the top label; the EtherType becomes `ether_type`. Returns whether there was
    /// one.
    pub fn pop_mpls(&mut self, ether_type: u16) -> bool {
        let at = self.headers.offset(h::ETHER_TYPE);
        let (Some(at), true) = (at, self.headers.has(h::MPLS_0)) else {
            return false;
        };
        self.remove(at + 2, 4);
        self.packet.bytes_mut()[at..at + 2].copy_from_slice(&ether_type.to_be_bytes());
        self.headers.set_scalar(Scalar::EtherType, ether_type);
        let [second, third] = [h::MPLS_1, h::MPLS_2].map(|label| self.headers.offset(label));
        self.headers.forget_from(h::MPLS_0);
        self.headers.place(h::MPLS_0, second);
        self.headers.place(h::MPLS_1, third);
        true
    }

    /// Removes the Ethernet header of a packet without tags; what follows keeps its type.
    ///
    /// Returns whether the packet had one.
    pub fn pop_ethernet(&mut self) -> bool {
        let at = self.headers.offset(h::ETHER_TYPE);
        let (Some(at), false) = (at, self.packet.is_layer3()) else {
            return false;
        };
        // IEEE 802.2's header in front of the type belongs to Ethernet.
        let ether_type = self.headers.scalar(Scalar::EtherType);
        self.remove(12, at - 12);
        let bytes = self.packet.bytes_mut();
        bytes[..12].fill(0);
        bytes[12..14].copy_from_slice(&ether_type.to_be_bytes());
        self.packet.set_layer3(true);
        true
    }

    /// Adds an Ethernet header with addresses of zero; returns whether the packet had none.
    pub fn push_ethernet(&mut self) -> bool {
        let had_none = self.packet.is_layer3();
        self.packet.set_layer3(false);
        had_none
    }

    /// Adds a header of layer 3 in front of the whole packet, its Ethernet header included.
    ///
    /// Returns whether there was room (invariant 5).
    pub fn encapsulate(&mut self, ether_type: u16, header: &[u8]) -> bool {
        let inner = if self.packet.is_layer3() { 14 } else { 0 };
        let count = header.len() + 14 - inner;
        if !self.has_room(count) {
            return false;
        }
        self.packet.prepend(count);
        let bytes = self.packet.bytes_mut();
        bytes[..12].fill(0);
        bytes[12..14].copy_from_slice(&ether_type.to_be_bytes());
        bytes[14..14 + header.len()].copy_from_slice(header);
        self.packet.set_layer3(true);
        self.parse_again()
    }

    /// Removes the outermost header of a packet of layer 3: a label, or a network service header.
    ///
    /// What follows has this type: 0 for Ethernet, else namespace 1 and an EtherType. Returns
    /// whether there was such a header, and enough behind it.
    pub fn decapsulate(&mut self, packet_type: u32) -> bool {
        let bytes = self.packet.bytes();
        // The base header of RFC 8300 has 8 bytes, whatever its length says.
        let len = match (self.headers.offset(h::NSH), self.headers.has(h::MPLS_0)) {
            (Some(at), _) => Some(usize::from(bytes[at + 1] & 0x3f) * 4).filter(|len| *len >= 8),
            (None, true) => Some(4),
            (None, false) => None,
        };
        let Some(len) = len.filter(|_| self.packet.is_layer3()) else {
            return false;
        };
        if packet_type == 0 {
            if bytes.len() < 14 + len + 14 {
                return false;
            }
            self.packet.remove_front(14 + len);
            self.packet.set_layer3(false);
        } else {
            self.remove(12, len);
            let ether_type = (packet_type as u16).to_be_bytes();
            self.packet.bytes_mut()[12..14].copy_from_slice(&ether_type);
        }
        self.parse_again()
    }

    fn parse_again(&mut self) -> bool {
        self.headers.read(self.packet.bytes()).is_ok()
    }

    fn find(&self, source: &Source) -> Option<Found> {
        let (header, bit_in_header) = match source {
            Source::Wire(locations) => {
                let location = locations
                    .iter()
                    .find(|place| self.headers.has(place.header))?;
                (location.header, usize::from(location.bit_offset))
            }
            Source::Scalar(Scalar::VlanTci) => (h::VLAN_OUTER, 16),
            Source::Scalar(Scalar::VlanTciInner) => (h::VLAN_INNER, 16),
            Source::Scalar(Scalar::ArpOperation) => (h::ARP, 48),
            _ => return None,
        };
        let bit = self.headers.offset(header)? * 8 + bit_in_header;
        Some(Found {
            header,
            bit,
            bit_in_header,
        })
    }

    /// Replaces bits; returns the whole bytes around them before and after, left-aligned.
    fn replace_bits(&mut self, bit: usize, width: u16, value: u128, mask: u128) -> (u128, u128) {
        let (first, left) = (bit / 8, bit % 8);
        let count = (left + usize::from(width)).div_ceil(8);
        assert!(count <= 16, "a field of at most 128 bits");
        let up = 128 - left - usize::from(width);
        let bytes = &mut self.packet.bytes_mut()[first..first + count];
        let mut window = [0; 16];
        window[..count].copy_from_slice(bytes);
        let old = u128::from_be_bytes(window);
        let new = old & !(mask << up) | (value & mask) << up;
        bytes.copy_from_slice(&new.to_be_bytes()[..count]);
        (old, new)
    }

    fn update_checksums(&mut self, found: Found, edit: Edit) {
        let at_header = self.headers.offset(found.header).unwrap_or_default();
        match found.header {
            h::IPV4 => {
                self.apply_at(at_header + 10, edit);
                if found.bit_in_header >= 96 {
                    self.update_transport(edit);
                }
            }
            h::IPV6 if found.bit_in_header >= 192 && self.has_segments_left(at_header) => {}
            h::IPV6 if found.bit_in_header >= 64 => self.update_transport(edit),
            h::ICMPV4 => self.apply_at(at_header + 2, edit),
            h::TCP | h::UDP | h::ICMPV6 | h::ND_TARGET | h::ND_SLL | h::ND_TLL => {
                self.update_transport(edit);
            }
            _ => {}
        }
    }

    /// Applies an edit to the checksum of TCP, UDP or ICMPv6, whichever is present.
    fn update_transport(&mut self, edit: Edit) {
        if let Some(at) = self.headers.offset(h::TCP) {
            self.apply_at(at + 16, edit);
        } else if let Some(at) = self.headers.offset(h::ICMPV6) {
            self.apply_at(at + 2, edit);
        } else if let Some(at) = self.headers.offset(h::UDP) {
            let field = &mut self.packet.bytes_mut()[at + 6..at + 8];
            let sum = u16::from_be_bytes([field[0], field[1]]);
            field.copy_from_slice(&edit.apply_to_udp(sum).to_be_bytes());
        }
    }

    fn apply_at(&mut self, at: usize, edit: Edit) {
        let field = &mut self.packet.bytes_mut()[at..at + 2];
        let sum = edit.apply(u16::from_be_bytes([field[0], field[1]]));
        field.copy_from_slice(&sum.to_be_bytes());
    }

    /// The correct CRC32c of the SCTP packet; zero if there is none.
    fn sctp_sum(&self) -> u32 {
        let end = self.ip_end().unwrap_or(self.packet.len());
        let at = self.headers.offset(h::SCTP);
        at.map_or(0, |at| sctp_checksum(&self.packet.bytes()[at..end]))
    }

    /// Changes SCTP's checksum by the difference between the correct CRCs before and after.
    fn update_sctp(&mut self, before: u32) {
        let change = (before ^ self.sctp_sum()).to_le_bytes();
        if let Some(at) = self.headers.offset(h::SCTP) {
            let field = &mut self.packet.bytes_mut()[at + 8..at + 12];
            field
                .iter_mut()
                .zip(change)
                .for_each(|(byte, bits)| *byte ^= bits);
        }
    }

    /// The end of the IP packet; padding may follow.
    fn ip_end(&self) -> Option<usize> {
        let bytes = self.packet.bytes();
        let length = |at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        let ipv4 = self.headers.offset(h::IPV4).map(|at| at + length(at + 2));
        ipv4.or_else(|| {
            self.headers
                .offset(h::IPV6)
                .map(|at| at + 40 + length(at + 4))
        })
    }

    /// Whether an IPv6 packet has a routing header (RFC 8200, section 4.4) with segments left.
    fn has_segments_left(&self, ipv6: usize) -> bool {
        let bytes = self.packet.bytes();
        let (mut protocol, mut at) = (bytes[ipv6 + 6], ipv6 + 40);
        // The parser has followed the chain. A routing header may follow any other extension
        // header.
        while let (0 | 43 | 44 | 51 | 60, Some(header)) = (protocol, bytes.get(at..at + 8)) {
            if protocol == 43 && header[3] != 0 {
                return true;
            }
            let length = usize::from(header[1]);
            at += match protocol {
                44 => 8,
                51 => length * 4 + 8,
                _ => length * 8 + 8,
            };
            protocol = header[0];
        }
        false
    }

    fn has_room(&self, count: usize) -> bool {
        self.packet.len() + count <= Self::MAX_FRAME_BYTES
    }

    /// Makes room for `count` bytes at `at` by moving the bytes in front.
    fn insert(&mut self, at: usize, count: usize) {
        self.packet.prepend(count);
        self.packet.bytes_mut().copy_within(count..count + at, 0);
        self.headers.shift(at, count as isize);
    }

    fn remove(&mut self, at: usize, count: usize) {
        self.packet.bytes_mut().copy_within(0..at, count);
        self.packet.remove_front(count);
        self.headers.shift(at + count, -(count as isize));
    }
}

/// The lowest `width_bits` bits.
fn ones(width_bits: u16) -> u128 {
    let unused = 128_u32.saturating_sub(width_bits.into());
    u128::MAX.checked_shr(unused).unwrap_or(0)
}

/// The checksum change for bytes at `offset` of the covered data, left-aligned in `old` and
/// `new`.
fn edit_of(offset: usize, old: u128, new: u128) -> Edit {
    Edit::default().replace_u128(old, new, Alignment::of_offset(offset))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;
    use crate::standard::{IPV6_DST, IPV6_SRC, TCP_FLAGS, TP_DST};
    use crate::wire::{IpProtocol, MacAddress, PacketBuilder, SctpView};
    use crate::{FieldId, FrameError};

    /// A neighbour discovery frame of `len_bytes` whose last option ends with the frame.
    fn late_option(len_bytes: usize) -> Packet {
        let mut frame = vec![0; len_bytes];
        frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        let payload = (len_bytes - 54) as u16;
        frame[18..20].copy_from_slice(&payload.to_be_bytes());
        frame[20] = 58;
        frame[54] = 136;
        let mut at = 78;
        while at < len_bytes {
            let left = (len_bytes - at) / 8;
            // Options of a skipped kind, then the address in an option of eight bytes.
            let count = if left == 1 { 1 } else { (left - 1).min(255) };
            frame[at..at + 2].copy_from_slice(&[if left == 1 { 2 } else { 14 }, count as u8]);
            at += count * 8;
        }
        Packet::from_bytes(&frame)
    }

    #[test]
    fn offsets_do_not_wrap_where_frames_are_longest() {
        let most = Rewriter::MAX_FRAME_BYTES;
        assert!(Headers::parse(&vec![0; most]).is_ok());
        let longer = Headers::parse(&vec![0; most + 1]);
        assert_eq!(longer.err(), Some(FrameError::Giant));

        // 65,526 bytes is the longest such frame: two tags fit, a third does not.
        let mut packet = late_option(65_526);
        let mut headers = Headers::parse(packet.bytes()).expect("a frame");
        assert_eq!(headers.offset(h::ND_TLL), Some(65_520));
        let mut rewriter = Rewriter::new(&mut packet, &mut headers);
        assert!(rewriter.push_vlan(0x8100, 7) && rewriter.push_vlan(0x88a8, 8));
        assert_eq!(headers.offset(h::ND_TLL), Some(65_528));
        let full = packet.clone();
        let mut rewriter = Rewriter::new(&mut packet, &mut headers);
        assert!(!rewriter.push_vlan(0x8100, 9) && !rewriter.push_mpls(0x8847, 9));
        assert_eq!(headers.offset(h::ND_TLL), Some(65_528));
        assert_eq!(packet, full);
        let tll = &crate::standard::fields()[crate::standard::ND_TLL.index()];
        let mut rewriter = Rewriter::new(&mut packet, &mut headers);
        assert!(rewriter.write(&tll.source, 48, 0x0102_0304_0506, u128::MAX));
        assert!(packet.bytes().ends_with(&[1, 2, 3, 4, 5, 6]));
    }
    fn write(bytes: &[u8], field: FieldId, value: u128, mask: u128) -> Packet {
        let mut packet = Packet::from_bytes(bytes);
        let mut headers = Headers::parse(bytes).expect("a frame");
        let field = &crate::standard::fields()[field.index()];
        let mut rewriter = Rewriter::new(&mut packet, &mut headers);
        assert!(rewriter.write(&field.source, field.width_bits, value, mask));
        packet
    }

    fn builder() -> PacketBuilder {
        let [one, two] = [1, 2].map(|last| MacAddress([2, 0, 0, 0, 0, last]));
        PacketBuilder::ethernet(one, two)
    }

    #[test]
    fn a_damaged_sctp_packet_stays_damaged() {
        let ipv4 = builder().ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let sctp = ipv4.sctp(80, 1, 0x1122_3344);
        let mut frame = sctp.build();
        let crc = |packet: &Packet| packet.bytes()[42..46].to_vec();
        let right = write(&frame, TP_DST, 8080, u128::MAX);
        let is_right = |packet: &Packet| {
            let view = SctpView::new_checked(&packet.bytes()[34..]);
            view.is_ok_and(|view| view.has_valid_checksum())
        };
        assert!(is_right(&right));
        // The expected CRC is the one that Open vSwitch 3.1 writes.
        frame[42..46].copy_from_slice(&[1, 2, 3, 4]);
        let wrong = write(&frame, TP_DST, 8080, u128::MAX);
        assert_eq!(crc(&wrong), [0xf6, 0xf0, 0x4a, 0x93]);
        assert_eq!(write(wrong.bytes(), TP_DST, 1, u128::MAX).bytes(), frame);
    }

    /// The pseudo-header has the final destination, which the routing header holds.
    #[test]
    fn a_routing_header_is_found_behind_any_other() {
        let [one, two] = [1, 2].map(|last| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last));
        let plain = builder().ipv6(one, two);
        let behind = plain.clone().extension(IpProtocol(51), &[0; 22]);
        for chain in [plain, behind] {
            let chain = chain.extension(IpProtocol(43), &[0, 1, 0, 0, 0, 0]);
            let frame = chain.tcp(1, 2).build();
            let checksum = |bytes: &[u8]| [bytes[bytes.len() - 4], bytes[bytes.len() - 3]];
            let mut rewritten = write(&frame, IPV6_DST, 7, u128::MAX);
            assert_eq!(checksum(rewritten.bytes()), checksum(&frame));
            rewritten = write(&frame, IPV6_SRC, 7, u128::MAX);
            assert_ne!(checksum(rewritten.bytes()), checksum(&frame));
        }
    }

    /// Regression test: mask bits above TCP's flags used to clear the data offset.
    #[test]
    fn what_lies_beside_a_field_is_left_alone() {
        let tcp = builder().ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let frame = tcp.tcp(1, 2).build();
        let [narrow, wide] = [0xfff, u128::MAX].map(|mask| write(&frame, TCP_FLAGS, 0x12, mask));
        assert_eq!(narrow, wide);
        assert_eq!(wide.bytes()[46..48], [0x50, 0x12]);
        assert_eq!(write(&frame, TCP_FLAGS, u128::MAX, !0xfff).bytes(), frame);
    }
}
