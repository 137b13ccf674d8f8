//! The standard parser: finds where each header of a packet lies.
//!
//! One pass over the packet's front notes the offset of every whole, well-formed header, and
//! computes a few scalars. Nothing is copied. The layout's extraction (see
//! [`crate::Layout::extract`]) then reads only the bits that the loaded program needs.
//!
//! A header counts as present by the rules of Open vSwitch (`miniflow_extract` in
//! `lib/flow.c`), because users bring rules that rely on them:
//!
//! 1. A header is present only if all its fixed bytes lie in the packet. For IP they must also
//!    lie inside the lengths that the header states; for TCP, with its options. A header
//!    behind an absent one is absent.
//! 2. At most two VLAN tags and three MPLS labels are parsed. Nothing behind labels is parsed.
//! 3. Bytes behind an IP packet's stated length are padding: no header lies there
//!    (CVE-2020-35498 was a cache entry that depended on padding that no rule had matched).
//! 4. A later fragment has no transport header. A first fragment has one if it is whole.
//! 5. Neighbour discovery options are read up to the first whose length is zero or past the
//!    end. An option given twice makes target and options absent (compare CVE-2023-5366).
//! 6. An IP protocol of 0 is a protocol like any other: only the presence bit says whether
//!    there is an IP header, never a non-zero field (CVE-2023-1668).
//! 7. Reads never leave the packet, whatever its bytes are.

use crate::field::{HeaderId, Scalar};
use crate::standard::{ETHER_TYPE_NONE, VLAN_PRESENT, header as h};

/// Marks a header that the packet does not have.
const ABSENT: u16 = u16::MAX;

/// The longest chain of extension headers; a longer one counts as malformed.
const MAX_EXTENSION_HEADERS: usize = 16;

/// The offsets of one packet's headers, and the scalars computed from them.
///
/// ```
/// use thalweg_packet::{Headers, standard::header};
///
/// let mut frame = vec![0; 60];
/// frame[12..14].copy_from_slice(&[0x08, 0x06]); // ARP, of all zeros: not for IPv4 over Ethernet
/// let headers = Headers::parse(&frame).expect("long enough for Ethernet");
/// assert_eq!(headers.offset(header::ETHERNET), Some(0));
/// assert_eq!(headers.offset(header::ARP), None);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Headers {
    offsets: [u16; h::COUNT],
    present: u32,
    scalars: [u16; Scalar::COUNT],
}

/// A frame too short for an Ethernet header, or too long to be one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// Shorter than 14 bytes.
    #[error("shorter than an Ethernet header")]
    Runt,
    /// Longer than 65,534 bytes, so offsets do not fit.
    #[error("longer than 65,534 bytes")]
    Giant,
}

impl Default for Headers {
    /// No headers.
    #[inline]
    fn default() -> Headers {
        Headers {
            offsets: [ABSENT; h::COUNT],
            present: 0,
            scalars: [0; Scalar::COUNT],
        }
    }
}

impl Headers {
    /// Finds the headers of an Ethernet frame.
    ///
    /// # Errors
    /// Only for a frame of impossible length; a malformed header is simply absent.
    pub fn parse(frame: &[u8]) -> Result<Headers, FrameError> {
        let mut headers = Headers::default();
        headers.read(frame)?;
        Ok(headers)
    }

    /// As [`Headers::parse`], in place: a caller that parses many packets avoids a move.
    ///
    /// # Errors
    /// As [`Headers::parse`]; the earlier contents are lost even then.
    #[inline]
    pub fn read(&mut self, frame: &[u8]) -> Result<(), FrameError> {
        if frame.len() < 14 {
            return Err(FrameError::Runt);
        }
        if frame.len() >= usize::from(ABSENT) {
            return Err(FrameError::Giant);
        }
        *self = Headers::default();
        self.parse_link(frame);
        Ok(())
    }

    /// Where `header` starts, if the packet has it.
    #[inline]
    pub fn offset(&self, header: HeaderId) -> Option<usize> {
        let offset = self.offsets[usize::from(header.0)];
        (offset != ABSENT).then_some(usize::from(offset))
    }

    /// The offset of a header that is present, which [`Headers::present`] has shown.
    #[inline]
    pub(crate) fn offset_of_present(&self, header: u8) -> usize {
        usize::from(self.offsets[usize::from(header)])
    }

    /// Whether the packet has `header`.
    #[inline]
    pub fn has(&self, header: HeaderId) -> bool {
        self.present >> header.0 & 1 == 1
    }

    /// The headers that are present, one bit each by id.
    #[inline]
    pub fn present(&self) -> u32 {
        self.present
    }

    /// A value that the parser computed.
    #[inline]
    pub fn scalar(&self, scalar: Scalar) -> u16 {
        self.scalars[scalar as usize]
    }

    /// Records where a header is now, or that it is gone.
    pub(crate) fn place(&mut self, header: HeaderId, offset: Option<usize>) {
        match offset {
            Some(offset) => self.note(header, offset),
            None => {
                self.offsets[usize::from(header.0)] = ABSENT;
                self.present &= !(1 << header.0);
            }
        }
    }

    /// Forgets `header` and all headers after it in the parser's order.
    pub(crate) fn forget_from(&mut self, header: HeaderId) {
        for header in header.0..h::COUNT as u8 {
            self.place(HeaderId(header), None);
        }
    }

    /// Moves every header that starts at `from` or later.
    pub(crate) fn shift(&mut self, from: usize, by: isize) {
        for offset in self.offsets.iter_mut().filter(|offset| **offset != ABSENT) {
            if usize::from(*offset) >= from {
                *offset = offset.wrapping_add_signed(by as i16);
            }
        }
    }

    #[inline]
    fn note(&mut self, header: HeaderId, offset: usize) {
        self.offsets[usize::from(header.0)] = offset as u16;
        self.present |= 1 << header.0;
    }

    #[inline]
    pub(crate) fn set_scalar(&mut self, scalar: Scalar, value: u16) {
        self.scalars[scalar as usize] = value;
    }

    #[inline]
    fn parse_link(&mut self, frame: &[u8]) {
        self.note(h::ETHERNET, 0);
        let mut at = 12;
        let mut ether_type = u16_at(frame, at);
        for (header, scalar) in [
            (h::VLAN_OUTER, Scalar::VlanTci),
            (h::VLAN_INNER, Scalar::VlanTciInner),
        ] {
            // A tag counts only if the EtherType behind it is in the frame.
            if !is_vlan(ether_type) || frame.len() < at + 6 {
                break;
            }
            self.note(header, at);
            self.set_scalar(scalar, u16_at(frame, at + 2) | VLAN_PRESENT);
            at += 4;
            ether_type = u16_at(frame, at);
        }
        let mut payload = at + 2;
        if ether_type < 0x0600 {
            (ether_type, payload) = parse_llc(frame, payload);
        }
        self.note(h::ETHER_TYPE, payload - 2);
        self.set_scalar(Scalar::EtherType, ether_type);
        match ether_type {
            0x0800 => self.parse_ipv4(frame, payload),
            0x86dd => self.parse_ipv6(frame, payload),
            0x0806 | 0x8035 => self.parse_arp(frame, payload),
            0x8847 | 0x8848 => self.parse_mpls(frame, payload),
            0x894f => self.parse_nsh(frame, payload),
            _ => {}
        }
    }

    /// Parses ARP and RARP for IPv4 over Ethernet; other kinds have no fields here.
    fn parse_arp(&mut self, frame: &[u8], at: usize) {
        const ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];
        if frame.len() >= at + 28 && frame[at..at + 6] == ETHERNET_IPV4 {
            self.note(h::ARP, at);
            let operation = u16_at(frame, at + 6);
            self.set_scalar(
                Scalar::ArpOperation,
                if operation > 255 { 0 } else { operation },
            );
        }
    }

    fn parse_mpls(&mut self, frame: &[u8], mut at: usize) {
        for header in [h::MPLS_0, h::MPLS_1, h::MPLS_2] {
            if frame.len() < at + 4 {
                return;
            }
            self.note(header, at);
            if frame[at + 2] & 1 == 1 {
                return; // bottom of stack
            }
            at += 4;
        }
    }

    /// Parses a network service header of version 0 (RFC 8300, section 2.2); one of MD type 1 has
    /// exactly four context headers.
    fn parse_nsh(&mut self, frame: &[u8], at: usize) {
        let Some(base) = frame.get(at..at + 8) else {
            return;
        };
        let (version, len) = (base[0] >> 6, usize::from(base[1] & 0x3f) * 4);
        let has_context = base[2] == 1;
        let is_sound = match base[2] {
            1 => len == 24,
            2 => len >= 8,
            _ => true,
        };
        if version != 0 || !is_sound || frame.len() < at + len {
            return;
        }
        self.note(h::NSH, at);
        if has_context {
            self.note(h::NSH_CONTEXT, at);
        }
    }

    #[inline]
    fn parse_ipv4(&mut self, frame: &[u8], at: usize) {
        let Some(end) = ipv4_end(frame, at) else {
            return;
        };
        self.note(h::IPV4, at);
        self.set_scalar(Scalar::IpTtlAboveOne, u16::from(frame[at + 8] > 1));
        let protocol = frame[at + 9];
        self.set_scalar(Scalar::IpProtocol, u16::from(protocol));
        let fragment = u16_at(frame, at + 6);
        let mut is_later = false;
        if fragment & 0x3fff != 0 {
            is_later = fragment & 0x1fff != 0;
            self.set_scalar(Scalar::IpFragment, if is_later { 3 } else { 1 });
        }
        if !is_later {
            let transport = at + usize::from(frame[at] & 0x0f) * 4;
            self.parse_transport(&frame[..end], transport, protocol, h::ICMPV4);
        }
    }

    fn parse_ipv6(&mut self, frame: &[u8], at: usize) {
        let Some(end) = ipv6_end(frame, at) else {
            return;
        };
        self.note(h::IPV6, at);
        let packet = &frame[..end];
        let Some(chain) = follow_extension_headers(packet, at) else {
            return;
        };
        self.note(h::IPV6_CHAIN, at);
        self.set_scalar(Scalar::IpProtocol, u16::from(chain.protocol));
        self.set_scalar(Scalar::IpFragment, chain.fragment);
        self.set_scalar(Scalar::IpTtlAboveOne, u16::from(frame[at + 7] > 1));
        if chain.fragment & 2 == 0 {
            self.parse_transport(packet, chain.transport, chain.protocol, h::ICMPV6);
        }
    }

    /// Parses the transport header; `packet` ends where the IP header says, so padding is no
    /// header.
    #[inline]
    fn parse_transport(&mut self, packet: &[u8], at: usize, protocol: u8, icmp: HeaderId) {
        let left = packet.len().saturating_sub(at);
        match protocol {
            6 if left >= 20 && has_whole_tcp_header(&packet[at..]) => self.note(h::TCP, at),
            17 if left >= 8 => self.note(h::UDP, at),
            132 if left >= 12 => self.note(h::SCTP, at),
            1 if left >= 8 && icmp == h::ICMPV4 => self.note(h::ICMPV4, at),
            58 if left >= 8 && icmp == h::ICMPV6 => {
                self.note(h::ICMPV6, at);
                self.parse_neighbor_discovery(packet, at);
            }
            _ => {}
        }
    }

    fn parse_neighbor_discovery(&mut self, packet: &[u8], at: usize) {
        let (kind, code) = (packet[at], packet[at + 1]);
        if !matches!(kind, 135 | 136) || code != 0 || packet.len() < at + 24 {
            return;
        }
        let Some(options) = parse_nd_options(packet, at + 24) else {
            return;
        };
        self.note(h::ND_TARGET, at + 8);
        for (header, offset) in [(h::ND_SLL, options[0]), (h::ND_TLL, options[1])] {
            if let Some(offset) = offset {
                self.note(header, offset);
            }
        }
    }
}

/// Whether the EtherType announces a VLAN tag (IEEE 802.1Q, table 9-1).
#[inline]
fn is_vlan(ether_type: u16) -> bool {
    matches!(ether_type, 0x8100 | 0x88a8)
}

#[inline]
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The EtherType of a SNAP frame and the start of its payload; for other LLC, no EtherType.
fn parse_llc(frame: &[u8], at: usize) -> (u16, usize) {
    // IEEE 802.2: DSAP and SSAP 0xaa, unnumbered information; then an OUI of zero.
    if frame.len() >= at + 8 && frame[at..at + 6] == [0xaa, 0xaa, 0x03, 0, 0, 0] {
        let ether_type = u16_at(frame, at + 6);
        if ether_type >= 0x0600 {
            return (ether_type, at + 8);
        }
    }
    (ETHER_TYPE_NONE, at)
}

/// The end of a well-formed IPv4 packet; `None` if any length is wrong.
#[inline]
fn ipv4_end(frame: &[u8], at: usize) -> Option<usize> {
    let available = frame.len() - at;
    if available < 20 || frame[at] >> 4 != 4 {
        return None;
    }
    let header = usize::from(frame[at] & 0x0f) * 4;
    let total = usize::from(u16_at(frame, at + 2));
    (header >= 20 && header <= total && total <= available).then_some(at + total)
}

/// The end of a well-formed IPv6 packet; `None` if any length is wrong.
fn ipv6_end(frame: &[u8], at: usize) -> Option<usize> {
    let available = frame.len() - at;
    if available < 40 || frame[at] >> 4 != 6 {
        return None;
    }
    let total = 40 + usize::from(u16_at(frame, at + 4));
    (total <= available).then_some(at + total)
}

/// The result of walking a chain of IPv6 extension headers.
struct ExtensionChain {
    protocol: u8,
    transport: usize,
    fragment: u16,
}

/// Follows the chain (RFC 8200, section 4); `None` if it leaves the packet or does not end.
fn follow_extension_headers(packet: &[u8], ipv6: usize) -> Option<ExtensionChain> {
    let mut chain = ExtensionChain {
        protocol: packet[ipv6 + 6],
        transport: ipv6 + 40,
        fragment: 0,
    };
    for _ in 0..MAX_EXTENSION_HEADERS {
        let header = packet.get(chain.transport..).unwrap_or_default();
        let len = match chain.protocol {
            // Hop-by-hop options, routing, destination options: in units of 8 bytes.
            0 | 43 | 60 if header.len() >= 8 => usize::from(header[1]) * 8 + 8,
            // Authentication header (RFC 4302, section 2.2): in units of 4 bytes.
            51 if header.len() >= 8 => usize::from(header[1]) * 4 + 8,
            44 if header.len() >= 8 => {
                // An atomic fragment (RFC 6946), all zero here, does not count as a fragment.
                match u16_at(header, 2) {
                    0 => {}
                    offset if offset & 0xfff8 == 0 => chain.fragment = 1,
                    // A later fragment's content is unknown; Open vSwitch reports protocol 44
                    // too.
                    _ => {
                        return Some(ExtensionChain {
                            fragment: 3,
                            ..chain
                        });
                    }
                }
                8
            }
            0 | 43 | 60 | 51 | 44 => return None,
            _ => return Some(chain),
        };
        if header.len() < len {
            return None;
        }
        chain.protocol = header[0];
        chain.transport += len;
    }
    None
}

/// Whether the TCP options that the data offset states are in the segment (RFC 9293, section
/// 3.1).
#[inline]
fn has_whole_tcp_header(segment: &[u8]) -> bool {
    let header = usize::from(segment[12] >> 4) * 4;
    header >= 20 && header <= segment.len()
}

/// Offsets of the addresses in the source and target link-layer options; `None` if one
/// repeats.
fn parse_nd_options(packet: &[u8], mut at: usize) -> Option<[Option<usize>; 2]> {
    let mut found = [None; 2];
    while packet.len() >= at + 8 {
        let len = usize::from(packet[at + 1]) * 8;
        if len == 0 || packet.len() < at + len {
            break;
        }
        let kind = packet[at];
        if matches!(kind, 1 | 2) && len == 8 {
            let slot = &mut found[usize::from(kind - 1)];
            if slot.replace(at + 2).is_some() {
                return None;
            }
        }
        at += len;
    }
    Some(found)
}
