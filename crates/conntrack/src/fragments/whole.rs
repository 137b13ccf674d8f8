//! Joins the parts of a packet, and gives the tracker's changes back to them.
//!
//! The whole packet has the headers of its first fragment: the frame's, and IP's with all
//! options or extension headers in front of the fragment header (RFC 791 section 3.2, RFC 8200
//! section 4.5). The tracker may change addresses and any bytes behind the IP header, but not
//! the packet's length. [`Reassembled::finish`] copies both into the fragments.
//!
//! 1. Without a change by the tracker, the fragments leave bit for bit as they came.
//! 2. An IPv4 header checksum that was right is right after the addresses change.

use thalweg_packet::checksum::{Alignment, Edit};
use thalweg_packet::{Headers, Scalar};

use super::list::{List, Part};
use super::{Fragment, FragmentRefusal, PACKET_MAX};

/// A whole packet, and the fragments that it came in.
#[derive(Debug)]
pub struct Reassembled<T> {
    /// The frame for the tracker, without padding.
    pub whole: Vec<u8>,
    /// The headers of `whole`.
    pub headers: Headers,
    parts: Vec<Part<T>>,
    /// Where the joined data starts in `whole`.
    data_at: usize,
    /// The length of `whole` when it was joined.
    len: usize,
}

impl<T> Reassembled<T> {
    pub(super) fn new(
        whole: Vec<u8>,
        headers: Headers,
        data_at: usize,
        parts: Vec<Part<T>>,
    ) -> Reassembled<T> {
        Reassembled {
            len: whole.len(),
            whole,
            headers,
            parts,
            data_at,
        }
    }

    /// How many fragments the packet came in.
    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// The fragments' tokens, in the order of their offsets.
    pub fn tokens(&self) -> impl Iterator<Item = &T> {
        self.parts.iter().map(|part| &part.fragment.token)
    }

    /// The fragments in the order of their offsets, with the addresses and the data that
    /// `whole` now has.
    ///
    /// `None` if the length of `whole` has changed: offsets cannot follow. The caller drops the
    /// packet and counts it.
    pub fn finish(self) -> Option<Vec<Fragment<T>>> {
        if self.whole.len() != self.len {
            return None;
        }
        let (whole, data_at) = (self.whole, self.data_at);
        let ip_at = self.parts.first()?.piece.ip_at;
        let update = |mut part: Part<T>| {
            let piece = part.piece;
            let frame = &mut part.fragment.frame;
            if whole[ip_at] >> 4 == 4 {
                copy_ipv4_addresses(&whole[ip_at..], &mut frame[piece.ip_at..]);
            } else {
                frame[piece.ip_at + 8..piece.ip_at + 40]
                    .copy_from_slice(&whole[ip_at + 8..ip_at + 40]);
            }
            frame[piece.data_at..piece.data_end]
                .copy_from_slice(&whole[data_at + piece.start..data_at + piece.end()]);
            part.fragment
        };
        Some(self.parts.into_iter().map(update).collect())
    }
}

/// Copies both addresses and updates the header's checksum.
fn copy_ipv4_addresses(from: &[u8], to: &mut [u8]) {
    let mut edit = Edit::default();
    for at in [12, 16] {
        let [old, new] = [&to[at..at + 4], &from[at..at + 4]]
            .map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        if old != new {
            edit = edit.replace_u32(old, new, Alignment::Even);
        }
    }
    if edit != Edit::default() {
        apply(edit, to);
        to[12..20].copy_from_slice(&from[12..20]);
    }
}

/// Joins a complete list: the frame, its headers, and where the joined data starts.
pub(super) fn join<T>(list: &List<T>) -> Result<(Vec<u8>, Headers, usize), FragmentRefusal> {
    let first = list.parts().first().ok_or(FragmentRefusal::Malformed)?;
    let (piece, is_ipv6) = (first.piece, list.key.is_ipv6);
    let len: usize = list.parts().iter().map(|part| part.piece.len()).sum();
    let mut whole = Vec::with_capacity(piece.headers_end + len);
    whole.extend_from_slice(&first.fragment.frame[..piece.headers_end]);
    for part in list.parts() {
        whole.extend_from_slice(part.data());
    }
    let counted = whole.len() - piece.ip_at - if is_ipv6 { 40 } else { 0 };
    let counted = u16::try_from(counted).map_err(|_| FragmentRefusal::TooLong)?;
    if is_ipv6 {
        whole[piece.named_at] = first.fragment.frame[piece.headers_end];
        whole[piece.ip_at + 4..piece.ip_at + 6].copy_from_slice(&counted.to_be_bytes());
    } else {
        set_ipv4_length(&mut whole[piece.ip_at..], counted);
    }
    // The parser's offsets end before the longest packet does, with the frame's header in front.
    let headers = Headers::parse(&whole).map_err(|_| FragmentRefusal::TooLong)?;
    if headers.scalar(Scalar::IpFragment) != 0 {
        // A fragment of fragments: no host sends it, and no tracker can read it.
        return Err(FragmentRefusal::Malformed);
    }
    debug_assert!(whole.len() <= PACKET_MAX);
    Ok((whole, headers, piece.headers_end))
}

/// Makes the header that of a whole packet: its length, no offset, no more fragments.
fn set_ipv4_length(ip: &mut [u8], total: u16) {
    let mut edit = Edit::default();
    let old_flags = u16::from_be_bytes([ip[6], ip[7]]);
    for (at, new) in [(2, total), (6, old_flags & 0xc000)] {
        let old = u16::from_be_bytes([ip[at], ip[at + 1]]);
        edit = edit.replace_u16(old, new, Alignment::Even);
        ip[at..at + 2].copy_from_slice(&new.to_be_bytes());
    }
    apply(edit, ip);
}

/// Applies `edit` to the checksum of an IPv4 header.
fn apply(edit: Edit, ip: &mut [u8]) {
    let checksum = edit.apply(u16::from_be_bytes([ip[10], ip[11]]));
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
}
