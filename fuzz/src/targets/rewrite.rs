//! Rewrites of a frame, compared with a full recomputation of its checksums.
//!
//! ```text
//!   input: how many changes (3 bits), the changes, 8 bytes each, then the frame
//!   change: field or action, which bits, what is written
//! ```
//!
//! The oracle reads the packet after the link layer, which pushes and pops do not touch. It
//! computes each checksum's *error*: the sum of all words that it covers, itself included, or
//! the CRC bit by bit. All correct checksums have the same error.
//!
//! 1. No change alters an error: a right checksum stays right, a wrong one stays as wrong.
//! 2. A UDP datagram without a checksum stays without one, and one with a checksum keeps it.
//! 3. Bits above a field's width make no difference.

use std::sync::OnceLock;

use thalweg_packet::standard::{self, header as h};
use thalweg_packet::{FieldDescriptor, Headers, Packet, Rewriter, Scalar, Source};

/// Bytes of one change.
const CHANGE_BYTES: usize = 8;

/// Number of kinds of changes besides a write to a field.
const ACTIONS: usize = 6;

/// The errors of a packet's checksums; `None` if it has no such checksum.
#[derive(PartialEq, Eq, Debug)]
struct Errors {
    ipv4: Option<u16>,
    /// Of TCP, ICMP or ICMPv6.
    transport: Option<u16>,
    /// Of UDP; zero, which no sum can be, means that the checksum is absent.
    udp: Option<u16>,
    sctp: Option<u32>,
}

/// Runs one input.
pub fn run(input: &[u8]) {
    static FIELDS: OnceLock<Vec<FieldDescriptor>> = OnceLock::new();
    let fields = FIELDS.get_or_init(writable);
    let Some((count, rest)) = input.split_first() else {
        return;
    };
    let Some((changes, frame)) = rest.split_at_checked(usize::from(count & 7) * CHANGE_BYTES)
    else {
        return;
    };
    let Ok(mut headers) = Headers::parse(frame) else {
        return;
    };
    let ip = headers.offset(h::IPV4).or(headers.offset(h::IPV6));
    let ip_len = ip.map_or(0, |at| frame.len() - at);
    let ether_type = headers.scalar(Scalar::EtherType);
    let errors_of = |packet: &Packet| {
        let bytes = packet.bytes();
        errors(ether_type, &bytes[bytes.len() - ip_len..])
    };
    let mut packet = Packet::from_bytes(frame);
    let before = errors_of(&packet);
    for change in changes.chunks_exact(CHANGE_BYTES) {
        apply(fields, change, &mut packet, &mut headers);
        assert_eq!(errors_of(&packet), before, "after the change {change:02x?}");
    }
}

/// The fields that can be written without changing how the rest of the packet is parsed.
fn writable() -> Vec<FieldDescriptor> {
    let structure = [standard::MPLS_BOS, standard::MPLS_LSE1, standard::MPLS_LSE2];
    let fields = standard::fields().into_iter().enumerate();
    let fields = fields.filter(|(index, field)| {
        let is_on_wire = matches!(field.source, Source::Wire(_) | Source::Scalar(_));
        is_on_wire && structure.iter().all(|other| other.index() != *index)
    });
    fields.map(|(_, field)| field).collect()
}

fn apply(fields: &[FieldDescriptor], change: &[u8], packet: &mut Packet, headers: &mut Headers) {
    let what = usize::from(change[0]) % (fields.len() + ACTIONS);
    let word = u16::from_be_bytes([change[2], change[3]]);
    let mut rewriter = Rewriter::new(packet, headers);
    match what.checked_sub(fields.len()) {
        None => write(&fields[what], change, packet, headers),
        Some(0) => _ = rewriter.push_vlan(0x8100, word),
        Some(1) => _ = rewriter.pop_vlan(),
        Some(2) => _ = rewriter.push_mpls(0x8847, u32::from(word)),
        Some(3) => _ = rewriter.pop_mpls(0x0800),
        Some(4) => _ = rewriter.decrement_ttl(),
        Some(_) => _ = rewriter.decrement_mpls_ttl(),
    }
}

/// Writes a field twice, with the mask cut to the field's width and with ones above it; both
/// must agree.
fn write(field: &FieldDescriptor, change: &[u8], packet: &mut Packet, headers: &mut Headers) {
    let mut bytes = [0; 16];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = change[2 + index % 6].rotate_left(index as u32 / 6);
    }
    let value = u128::from_be_bytes(bytes);
    let ones = u128::MAX >> (128 - field.width_bits);
    let mask = match change[1] {
        0 => u128::MAX,
        bits => u128::from_ne_bytes([bits; 16]) | 1 << (bits & 127),
    };
    let mut twin = (packet.clone(), *headers);
    let width_bits = field.width_bits;
    let was_written =
        Rewriter::new(packet, headers).write(&field.source, width_bits, value, mask & ones);
    let mut rewriter = Rewriter::new(&mut twin.0, &mut twin.1);
    let twin_was = rewriter.write(&field.source, width_bits, value | !ones, mask | !ones);
    assert_eq!(
        (was_written, &*packet),
        (twin_was, &twin.0),
        "{}",
        field.name
    );
}

/// The errors of an IP packet, which may have padding after it; none for other packets.
fn errors(ether_type: u16, ip: &[u8]) -> Errors {
    let mut frame = vec![0; 12];
    frame.extend_from_slice(&ether_type.to_be_bytes());
    frame.extend_from_slice(ip);
    let headers = Headers::parse(&frame).expect("a link layer header is whole");
    let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let ipv4 = headers.offset(h::IPV4);
    let (end, pseudo) = match (ipv4, headers.offset(h::IPV6)) {
        (Some(at), _) => (
            at + usize::from(word(at + 2)),
            sum(&frame[at + 12..at + 20]),
        ),
        (_, Some(at)) => {
            let covered = if is_routed_on(&frame[at..]) { 24 } else { 40 };
            (
                at + 40 + usize::from(word(at + 4)),
                sum(&frame[at + 8..at + covered]),
            )
        }
        _ => (frame.len(), 0),
    };
    // The protocol and the length, which are also in the pseudo-header, are never written.
    let with_pseudo = |at: usize| fold(pseudo + sum(&frame[at..end]));
    let alone = |at: usize| fold(sum(&frame[at..end]));
    let tcp = headers.offset(h::TCP).or(headers.offset(h::ICMPV6));
    let icmp = headers.offset(h::ICMPV4);
    Errors {
        ipv4: ipv4.map(|at| {
            let length = usize::from(frame[at] & 0xf) * 4;
            fold(sum(&frame[at..at + length]))
        }),
        transport: tcp.map(with_pseudo).or(icmp.map(alone)),
        udp: headers.offset(h::UDP).map(|at| match word(at + 6) {
            0 => 0,
            _ => with_pseudo(at),
        }),
        sctp: headers
            .offset(h::SCTP)
            .map(|at| sctp_error(&frame[at..end])),
    }
}

/// Whether a routing header has segments left, so that the destination is not the final one.
fn is_routed_on(ipv6: &[u8]) -> bool {
    let (mut protocol, mut rest) = (ipv6[6], &ipv6[40..]);
    while matches!(protocol, 0 | 43 | 44 | 51 | 60) && rest.len() >= 8 {
        if protocol == 43 && rest[3] > 0 {
            return true;
        }
        let len = match protocol {
            44 => 8,
            51 => 8 + 4 * usize::from(rest[1]),
            _ => 8 + 8 * usize::from(rest[1]),
        };
        protocol = rest[0];
        rest = rest.get(len..).unwrap_or_default();
    }
    false
}

/// The plain sum of the words; the last one is padded with zero.
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2);
    let words =
        words.map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| (*low).into()));
    words.sum()
}

/// The sum in one's complement, in which 0xffff is zero.
fn fold(sum: u64) -> u16 {
    match sum % 0xffff {
        0 => 0xffff,
        rest => rest as u16,
    }
}

/// The difference between the CRC32c (RFC 9260, appendix A) and the packet's checksum field.
fn sctp_error(packet: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for (index, byte) in packet.iter().enumerate() {
        crc ^= if (8..12).contains(&index) {
            0
        } else {
            u32::from(*byte)
        };
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    !crc ^ u32::from_le_bytes([packet[8], packet[9], packet[10], packet[11]])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 3720, appendix B.4, and RFC 1071, section 3.
    #[test]
    fn the_oracle_agrees_with_the_standards() {
        assert_eq!(sctp_error(&[0; 32]), 0x8a91_36aa);
        let words = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&words)), 0xddf2);
    }
}
