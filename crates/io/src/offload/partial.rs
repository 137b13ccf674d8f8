//! Finds partial checksums where no virtio header tells of them, as in frames by AF_XDP.
//!
//! The field of a partial checksum holds the sum of the pseudo-header. A frame whose field holds
//! just that is taken to be partial:
//!
//! 1. A right checksum that happens to equal that sum stays as it is when it is completed: what is
//!    completed is the complement of that sum and all other bytes, which is what a right one is.
//! 2. A wrong one is mended once in 65,536 damaged frames, which is how often a checksum misses
//!    damage anyway.

use thalweg_packet::checksum::Sum;
use thalweg_packet::wire::IpProtocol;

use super::{IPV6_HEADER_BYTES, NEEDS_CHECKSUM, UDP_CHECKSUM_OFFSET, get, is_ipv4, network_start};
use crate::sys::Offload;

const TCP_CHECKSUM_OFFSET: usize = 16;

/// All bits of a fragment's flags and offset but "don't fragment" (RFC 791, 3.1).
const FRAGMENT_BITS: u16 = 0xbfff;

/// The work that is left to do on a frame: its checksum, or nothing.
///
/// Frames with padding, extension headers or only a part of a datagram are left alone: the kernel
/// does not send them unfinished.
#[inline]
pub(crate) fn find_partial_checksum(frame: &[u8]) -> Offload {
    partial_checksum(frame).unwrap_or_default()
}

fn partial_checksum(frame: &[u8]) -> Option<Offload> {
    let network = network_start(frame)?;
    let header = frame.get(network..)?;
    let (ip_bytes, protocol, addresses) = match is_ipv4(frame, network) {
        true => {
            let ip_bytes = usize::from(header[0] & 15) * 4;
            let is_whole = header.len() >= 20
                && get(header, 6) & FRAGMENT_BITS == 0
                && usize::from(get(header, 2)) == header.len();
            if !is_whole || ip_bytes < 20 {
                return None;
            }
            (ip_bytes, header[9], &header[12..20])
        }
        false => {
            let is_whole = header.len() >= IPV6_HEADER_BYTES
                && usize::from(get(header, 4)) + IPV6_HEADER_BYTES == header.len();
            if !is_whole {
                return None;
            }
            (IPV6_HEADER_BYTES, header[6], &header[8..40])
        }
    };
    let offset = match IpProtocol(protocol) {
        IpProtocol::TCP => TCP_CHECKSUM_OFFSET,
        IpProtocol::UDP => UDP_CHECKSUM_OFFSET,
        _ => return None,
    };
    let covered = header.get(ip_bytes..)?;
    let field = covered.get(offset..offset + 2)?;
    // The pseudo-headers of both versions have the same sum: zeros do not count.
    let pseudo = Sum::default()
        .with_bytes(addresses)
        .with_bytes(&(covered.len() as u32).to_be_bytes())
        .with_bytes(&[0, protocol]);
    (*field == (!pseudo.checksum()).to_be_bytes()).then(|| Offload {
        flags: NEEDS_CHECKSUM,
        checksum_start: (network + ip_bytes) as u16,
        checksum_offset: offset as u16,
        ..Offload::default()
    })
}
