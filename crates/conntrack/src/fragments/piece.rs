//! One fragment: which packet it belongs to, and which of its bytes it has.

use std::net::{Ipv4Addr, Ipv6Addr};

use thalweg_packet::checksum::Sum;
use thalweg_packet::standard::header;
use thalweg_packet::{HeaderId, Headers};

use super::{FragmentContext, FragmentRefusal, IpFamily};

/// Bytes of the fixed header of IPv6 (RFC 8200 section 3).
const IPV6_HEADER: usize = 40;
/// Bytes of the fragment header (RFC 8200 section 4.5).
const FRAGMENT_HEADER: usize = 8;
/// The same bound as the standard parser's.
const EXTENSIONS_MAX: usize = 16;

/// What fragments of one packet have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    pub(super) source: Ipv6Addr,
    pub(super) destination: Ipv6Addr,
    pub(super) identification: u32,
    pub(super) context: FragmentContext,
    pub(super) is_ipv6: bool,
    /// Zero for IPv6, where fragments need not agree (RFC 8200 section 4.5).
    pub(super) protocol: u8,
}

impl Key {
    pub(super) fn family(&self) -> IpFamily {
        if self.is_ipv6 {
            IpFamily::V6
        } else {
            IpFamily::V4
        }
    }
}

/// Where a fragment's headers and data lie in its frame, and its data in the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    /// Where the IP header starts.
    pub(super) ip_at: usize,
    /// Where the headers that every fragment repeats end: the options of IPv4, or the
    /// unfragmentable part of IPv6.
    pub(super) headers_end: usize,
    /// For IPv6, the byte that names the fragment header.
    pub(super) named_at: usize,
    /// Where the fragment's data starts in the frame.
    pub(super) data_at: usize,
    /// Where it ends; padding may follow.
    pub(super) data_end: usize,
    /// Where its first byte belongs in the packet.
    pub(super) start: usize,
    /// Whether no data follows.
    pub(super) is_last: bool,
}

impl Piece {
    /// Bytes of data.
    pub(super) fn len(&self) -> usize {
        self.data_end - self.data_at
    }

    /// Where the first byte behind its data belongs in the packet.
    pub(super) fn end(&self) -> usize {
        self.start + self.len()
    }

    /// Bytes of the IP packet that is the fragment.
    pub(super) fn packet_len(&self) -> usize {
        self.data_end - self.ip_at
    }

    /// Reads a fragment of IPv4.
    pub(super) fn parse_ipv4(
        frame: &[u8],
        headers: &Headers,
        context: FragmentContext,
    ) -> Result<(Piece, Key), FragmentRefusal> {
        let (ip_at, ip) = header_in(frame, headers, header::IPV4, 20)?;
        let header_len = usize::from(ip[0] & 0x0f) * 4;
        let total = usize::from(u16_at(ip, 2));
        if header_len < 20 || total < header_len || ip.len() < total {
            return Err(FragmentRefusal::Malformed);
        }
        if !Sum::default().with_bytes(&ip[..header_len]).is_valid() {
            return Err(FragmentRefusal::Checksum);
        }
        let field = u16_at(ip, 6);
        let piece = Piece {
            ip_at,
            headers_end: ip_at + header_len,
            named_at: ip_at,
            data_at: ip_at + header_len,
            data_end: ip_at + total,
            start: usize::from(field & 0x1fff) * 8,
            is_last: field & 0x2000 == 0,
        };
        let [source, destination] = [12, 16].map(|at| ipv4_at(ip, at));
        let key = Key {
            source,
            destination,
            identification: u32::from(u16_at(ip, 4)),
            context,
            is_ipv6: false,
            protocol: ip[9],
        };
        piece.checked(key)
    }

    /// Reads a fragment of IPv6.
    pub(super) fn parse_ipv6(
        frame: &[u8],
        headers: &Headers,
        context: FragmentContext,
    ) -> Result<(Piece, Key), FragmentRefusal> {
        let (ip_at, ip) = header_in(frame, headers, header::IPV6, IPV6_HEADER)?;
        let total = IPV6_HEADER + usize::from(u16_at(ip, 4));
        let ip = ip.get(..total).ok_or(FragmentRefusal::Malformed)?;
        let (named_at, fragment_at) = find_fragment(ip).ok_or(FragmentRefusal::Malformed)?;
        let field = u16_at(ip, fragment_at + 2);
        let piece = Piece {
            ip_at,
            headers_end: ip_at + fragment_at,
            named_at: ip_at + named_at,
            data_at: ip_at + fragment_at + FRAGMENT_HEADER,
            data_end: ip_at + total,
            start: usize::from(field & 0xfff8),
            is_last: field & 1 == 0,
        };
        let id = &ip[fragment_at + 4..fragment_at + 8];
        let [source, destination] = [8, 24].map(|at| ipv6_at(ip, at));
        let key = Key {
            source,
            destination,
            identification: u32::from_be_bytes([id[0], id[1], id[2], id[3]]),
            context,
            is_ipv6: true,
            protocol: 0,
        };
        piece.checked(key)
    }

    /// Refuses an empty fragment, and one whose successor could not be addressed: offsets
    /// count eight bytes.
    fn checked(self, key: Key) -> Result<(Piece, Key), FragmentRefusal> {
        if self.len() == 0 || (!self.is_last && !self.len().is_multiple_of(8)) {
            return Err(FragmentRefusal::Malformed);
        }
        Ok((self, key))
    }
}

/// The offset of `header` and the bytes from there on, at least `len` of them.
fn header_in<'a>(
    frame: &'a [u8],
    headers: &Headers,
    header: HeaderId,
    len: usize,
) -> Result<(usize, &'a [u8]), FragmentRefusal> {
    let at = headers.offset(header).ok_or(FragmentRefusal::Malformed)?;
    match frame.get(at..) {
        Some(bytes) if bytes.len() >= len => Ok((at, bytes)),
        _ => Err(FragmentRefusal::Malformed),
    }
}

/// The offsets of the byte that names the first fragment header which is not atomic, and of
/// that header.
fn find_fragment(packet: &[u8]) -> Option<(usize, usize)> {
    let (mut named_at, mut at) = (6, IPV6_HEADER);
    for _ in 0..EXTENSIONS_MAX {
        let extension = packet.get(at..).filter(|bytes| bytes.len() >= 8)?;
        let len = match packet[named_at] {
            0 | 43 | 60 => usize::from(extension[1]) * 8 + 8,
            51 => usize::from(extension[1]) * 4 + 8,
            44 if u16_at(extension, 2) & 0xfff9 != 0 => return Some((named_at, at)),
            44 => FRAGMENT_HEADER,
            _ => return None,
        };
        (named_at, at) = (at, at + len);
    }
    None
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn ipv4_at(ip: &[u8], at: usize) -> Ipv6Addr {
    Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]).to_ipv6_mapped()
}

fn ipv6_at(ip: &[u8], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&ip[at..at + 16]);
    Ipv6Addr::from(octets)
}
