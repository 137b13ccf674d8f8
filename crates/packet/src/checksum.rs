//! Checksums: computed over bytes, and updated when a field changes.
//!
//! The internet checksum (RFC 1071) is the complement of the one's complement sum of the
//! data's 16-bit words. A last odd byte is padded with zero. In this arithmetic 2^16 = 1, so:
//!
//! - Wider words may be added and folded at the end. [`Sum`] adds eight 32-bit words per step
//!   to eight 64-bit lanes, which the compiler turns into vector additions.
//! - Bytes may be added in the processor's order, and the sum swapped once (RFC 1071 section
//!   2(B)). Data at an odd offset adds its sum with the bytes swapped.
//! - A change of a field needs only the old and new values: RFC 1624 equation 3,
//!   `HC' = ~(~HC + ~m + m')`. An [`Edit`] gathers such changes and is applied to each
//!   checksum that covers them. So a new IPv4 address is folded once for both the IPv4 header
//!   and TCP.
//!
//! 1. An edited checksum equals the recomputed one, unless all covered data is zero. No header
//!    with a version or a protocol is all zero.
//! 2. Zero has two forms, 0x0000 and 0xffff. Only UDP tells them apart: 0x0000 means that
//!    there is no checksum ([`udp_checksum_for_wire`], [`Edit::apply_to_udp`]).
//! 3. A checksum that was wrong before an edit is as wrong after it: corruption is not hidden.
//!
//! SCTP's CRC32c cannot be updated field by field. The `crc32c` crate computes it over the
//! whole packet, with the processor's instruction where there is one. An update takes it
//! before and after the change, so corruption is not hidden there either.
//!
//! ```
//! use thalweg_packet::checksum::{Alignment, Edit, checksum};
//!
//! let mut header = [0x45, 0x00, 0x00, 0x54, 0x1c, 0x46, 0x40, 0x00, 0x40, 0x06];
//! let before = checksum(&header);
//! header[8..10].copy_from_slice(&[0x3f, 0x06]); // the time to live falls by one
//! let edit = Edit::default().replace_u16(0x4006, 0x3f06, Alignment::Even);
//! assert_eq!(edit.apply(before), checksum(&header));
//! ```

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::wire::IpProtocol;

/// Whether a field starts on an even or an odd byte of the data that a checksum covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alignment {
    /// The field's first byte is the high byte of a word.
    Even,
    /// The field's first byte is the low byte of a word.
    Odd,
}

impl Alignment {
    /// The alignment of a field `offset` bytes into the data.
    #[inline]
    pub const fn of_offset(offset: usize) -> Self {
        if offset.is_multiple_of(2) {
            Alignment::Even
        } else {
            Alignment::Odd
        }
    }
}

/// The internet checksum of `bytes`.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::default().with_bytes(bytes).checksum()
}

/// An unfinished one's complement sum: data may be added in pieces of any length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sum {
    /// Words in the processor's byte order, not yet folded.
    total: u64,
    /// Whether an odd number of bytes was added so far.
    is_odd: bool,
}

impl Sum {
    /// The sum of the IPv4 pseudo-header (RFC 768, RFC 9293 section 3.1) for `len_bytes` of
    /// transport header and payload.
    #[inline]
    pub fn of_ipv4_pseudo_header(
        source: Ipv4Addr,
        destination: Ipv4Addr,
        protocol: IpProtocol,
        len_bytes: u16,
    ) -> Self {
        let mut bytes = [0; 12];
        bytes[0..4].copy_from_slice(&source.octets());
        bytes[4..8].copy_from_slice(&destination.octets());
        bytes[9] = protocol.0;
        bytes[10..12].copy_from_slice(&len_bytes.to_be_bytes());
        Sum::default().with_bytes(&bytes)
    }

    /// The sum of the IPv6 pseudo-header (RFC 8200 section 8.1) for `len_bytes` of transport
    /// header and payload, extension headers not counted.
    #[inline]
    pub fn of_ipv6_pseudo_header(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        protocol: IpProtocol,
        len_bytes: u32,
    ) -> Self {
        let mut bytes = [0; 40];
        bytes[0..16].copy_from_slice(&source.octets());
        bytes[16..32].copy_from_slice(&destination.octets());
        bytes[32..36].copy_from_slice(&len_bytes.to_be_bytes());
        bytes[39] = protocol.0;
        Sum::default().with_bytes(&bytes)
    }

    /// Adds `bytes`, which follow the bytes added before.
    #[inline]
    #[must_use]
    pub fn with_bytes(self, bytes: &[u8]) -> Self {
        let sum = sum_words(bytes);
        let sum = if self.is_odd {
            u64::from(fold(sum).swap_bytes())
        } else {
            fold_half(sum)
        };
        Sum {
            total: self.total + sum,
            is_odd: self.is_odd != (bytes.len() % 2 == 1),
        }
    }

    /// The checksum of the added data: the complement of the folded sum.
    #[inline]
    pub fn checksum(self) -> u16 {
        !fold(self.total).to_be()
    }

    /// Whether the added data, which includes its checksum field, has a valid checksum.
    #[inline]
    pub fn is_valid(self) -> bool {
        // Only data that is all zero sums to 0x0000, and it is valid too.
        matches!(fold(self.total), 0 | 0xffff)
    }
}

/// Changes of fields, applied to every checksum that covers them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Edit {
    /// The sum of `~old + new` over the changes, words in network order.
    total: u64,
}

impl Edit {
    /// Replaces a 16-bit field.
    #[inline]
    #[must_use]
    pub const fn replace_u16(self, old: u16, new: u16, alignment: Alignment) -> Self {
        self.with(!old as u64 + new as u64, alignment)
    }

    /// Replaces a 32-bit field.
    #[inline]
    #[must_use]
    pub const fn replace_u32(self, old: u32, new: u32, alignment: Alignment) -> Self {
        self.with(!old as u64 + new as u64, alignment)
    }

    /// Replaces a 48-bit field, such as an Ethernet address.
    #[inline]
    #[must_use]
    pub const fn replace_u48(self, old: [u8; 6], new: [u8; 6], alignment: Alignment) -> Self {
        let [a, b, c, d, e, f] = old;
        let old = u64::from_be_bytes([0xff, 0xff, a, b, c, d, e, f]);
        let [a, b, c, d, e, f] = new;
        // The complement of the two padding bytes is zero, so they add nothing.
        self.with(
            !old + u64::from_be_bytes([0, 0, a, b, c, d, e, f]),
            alignment,
        )
    }

    /// Replaces a 128-bit field, such as an IPv6 address.
    #[inline]
    #[must_use]
    pub const fn replace_u128(self, old: u128, new: u128, alignment: Alignment) -> Self {
        let (old, new) = (!old, new);
        let halves = fold_half(old as u64)
            + fold_half((old >> 64) as u64)
            + fold_half(new as u64)
            + fold_half((new >> 64) as u64);
        self.with(halves, alignment)
    }

    /// The checksum after the changes, given the one before.
    #[inline]
    pub const fn apply(self, checksum: u16) -> u16 {
        !fold(fold_half(self.total) + !checksum as u64)
    }

    /// As [`Edit::apply`], for UDP: an absent checksum stays absent, a computed zero becomes
    /// 0xffff.
    #[inline]
    pub const fn apply_to_udp(self, checksum: u16) -> u16 {
        if is_udp_checksum_absent(checksum) {
            return checksum;
        }
        udp_checksum_for_wire(self.apply(checksum))
    }

    const fn with(self, difference: u64, alignment: Alignment) -> Self {
        let folded = fold(difference);
        let folded = match alignment {
            Alignment::Even => folded,
            Alignment::Odd => folded.swap_bytes(),
        };
        Edit {
            total: self.total + folded as u64,
        }
    }
}

/// The checksum after a 16-bit field changes.
#[inline]
pub const fn update_u16(checksum: u16, old: u16, new: u16, alignment: Alignment) -> u16 {
    Edit { total: 0 }
        .replace_u16(old, new, alignment)
        .apply(checksum)
}

/// The checksum after a 32-bit field changes.
#[inline]
pub const fn update_u32(checksum: u16, old: u32, new: u32, alignment: Alignment) -> u16 {
    Edit { total: 0 }
        .replace_u32(old, new, alignment)
        .apply(checksum)
}

/// The checksum after a 48-bit field changes.
#[inline]
pub const fn update_u48(checksum: u16, old: [u8; 6], new: [u8; 6], alignment: Alignment) -> u16 {
    Edit { total: 0 }
        .replace_u48(old, new, alignment)
        .apply(checksum)
}

/// The checksum after a 128-bit field changes.
#[inline]
pub const fn update_u128(checksum: u16, old: u128, new: u128, alignment: Alignment) -> u16 {
    Edit { total: 0 }
        .replace_u128(old, new, alignment)
        .apply(checksum)
}

/// The value that UDP sends for a computed checksum: 0xffff for zero (RFC 768, RFC 8200
/// section 8.1).
#[inline]
pub const fn udp_checksum_for_wire(computed: u16) -> u16 {
    if computed == 0 { 0xffff } else { computed }
}

/// Whether a UDP checksum field says that the sender computed none (RFC 768).
///
/// Over IPv6 only tunnels may do that (RFC 6935).
#[inline]
pub const fn is_udp_checksum_absent(checksum: u16) -> bool {
    checksum == 0
}

/// Bytes in front of the checksum field of the SCTP common header (RFC 9260 section 3.1).
const SCTP_BEFORE_CHECKSUM: usize = 8;

/// The CRC32c of an SCTP packet, with its checksum field taken as zero; sent low byte first.
///
/// RFC 9260 section 6.8 and appendix A: `packet[8..12] = sctp_checksum(packet).to_le_bytes()`.
///
/// # Panics
/// If `packet` is shorter than the 12 bytes of the common header.
pub fn sctp_checksum(packet: &[u8]) -> u32 {
    let (before, rest) = packet.split_at(SCTP_BEFORE_CHECKSUM);
    let crc = crc32c::crc32c(before);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc32c::crc32c_append(crc, &rest[4..])
}

/// Adds the bytes as 32-bit words in the processor's order, the last one padded with zero.
///
/// No lane overflows before 2^32 steps, more than any packet has.
#[inline]
fn sum_words(bytes: &[u8]) -> u64 {
    let mut lanes = [0_u64; 8];
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<4>().0) {
            *lane += u64::from(u32::from_ne_bytes(*word));
        }
    }
    let (words, tail) = rest.as_chunks::<4>();
    let mut last = [0; 4];
    last[..tail.len()].copy_from_slice(tail);
    let words = words
        .iter()
        .chain([&last])
        .map(|word| u64::from(u32::from_ne_bytes(*word)));
    lanes.into_iter().sum::<u64>() + words.sum::<u64>()
}

/// Reduces the sum modulo 2^32 - 1, and so modulo 2^16 - 1, to at most 33 bits.
#[inline]
const fn fold_half(sum: u64) -> u64 {
    (sum >> 32) + (sum & 0xffff_ffff)
}

/// Folds the sum to 16 bits with end-around carry; zero only for a sum of zero.
#[inline]
const fn fold(sum: u64) -> u16 {
    let sum = fold_half(sum);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 1071 section 3.
    #[test]
    fn the_sum_of_rfc_1071() {
        assert_eq!(
            checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            !0xddf2
        );
    }

    /// The example of RFC 1624 section 4, which the older equation gets wrong.
    #[test]
    fn the_update_of_rfc_1624() {
        assert_eq!(update_u16(0xdd2f, 0x5555, 0x3285, Alignment::Even), 0x0000);
    }

    /// The examples of RFC 3720 appendix B.4, through a packet whose checksum field is ignored.
    #[test]
    fn the_crc_of_rfc_3720() {
        assert_eq!(sctp_checksum(&[0; 32]), 0x8a91_36aa);
        let mut packet = [0; 32];
        packet[8..12].fill(0xff);
        assert_eq!(sctp_checksum(&packet), 0x8a91_36aa);
        let (crc, ascending): (u32, Vec<u8>) = (0x46dd_794e, (0..32).collect());
        assert_eq!(crc32c::crc32c(&ascending), crc);
    }

    #[test]
    fn udp_has_two_zeros() {
        assert_eq!(udp_checksum_for_wire(0), 0xffff);
        assert_eq!(udp_checksum_for_wire(1), 1);
        let edit = Edit::default().replace_u16(0x5555, 0x3285, Alignment::Even);
        assert_eq!(edit.apply_to_udp(0), 0, "an absent checksum stays absent");
        assert_eq!(edit.apply_to_udp(0xdd2f), 0xffff);
    }
}
