//! The inner IP header: what an outer one takes from it, and what congestion outside changes.

use thalweg_packet::checksum::Sum;
use thalweg_packet::standard::header;
use thalweg_packet::{Headers, Packet};
use thalweg_tunnel::{InnerIp, received_tos};

/// Congestion experienced (RFC 3168 section 5).
const CONGESTED: u8 = 3;

/// The bytes that hold the type of service, and those that hold the checksum of IPv4.
const TOS_WORD: usize = 0;
const IPV4_CHECKSUM: usize = 10;
const IPV4_TTL: usize = 8;
const IPV6_HOP_LIMIT: usize = 7;

/// What the IP header of a frame says, if it has one.
pub(super) fn inner_ip(frame: &[u8], headers: &Headers) -> Option<InnerIp> {
    if let Some(at) = headers.offset(header::IPV4) {
        let (tos, ttl) = (frame[at + 1], frame[at + IPV4_TTL]);
        return Some(InnerIp { tos, ttl });
    }
    let at = headers.offset(header::IPV6)?;
    let tos = frame[at] << 4 | frame[at + 1] >> 4;
    let ttl = frame[at + IPV6_HOP_LIMIT];
    Some(InnerIp { tos, ttl })
}

/// Passes congestion that the outer packet met on to the inner one; false if it must be dropped.
pub(super) fn pass_congestion(packet: &mut Packet, outer_tos: u8) -> bool {
    if outer_tos & CONGESTED != CONGESTED {
        return true;
    }
    let Ok(headers) = Headers::parse(packet.bytes()) else {
        return true;
    };
    let Some(inner) = inner_ip(packet.bytes(), &headers) else {
        return true;
    };
    let Some(tos) = received_tos(outer_tos, inner.tos) else {
        return false;
    };
    let bytes = packet.bytes_mut();
    if let Some(at) = headers.offset(header::IPV4) {
        let ip = &mut bytes[at..];
        let old = [ip[TOS_WORD], ip[TOS_WORD + 1]];
        let new = [old[0], tos];
        let checksum = [ip[IPV4_CHECKSUM], ip[IPV4_CHECKSUM + 1]];
        // RFC 1624: in one's complement, to subtract is to add the complement.
        let sum = Sum::default()
            .with_bytes(&checksum.map(|byte| !byte))
            .with_bytes(&old.map(|byte| !byte))
            .with_bytes(&new);
        ip[1] = tos;
        ip[IPV4_CHECKSUM..IPV4_CHECKSUM + 2].copy_from_slice(&sum.checksum().to_be_bytes());
    } else if let Some(at) = headers.offset(header::IPV6) {
        bytes[at + 1] = tos << 4 | bytes[at + 1] & 0x0f;
    }
    true
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use thalweg_packet::wire::{EtherType, IpProtocol, Ipv4Repr, Ipv4View, Ipv6Repr, Ipv6View};

    use super::*;

    fn frame(ether_type: EtherType, ip: &[u8]) -> Packet {
        let mut frame = vec![2; 12];
        frame.extend(ether_type.0.to_be_bytes());
        frame.extend(ip);
        Packet::from_bytes(&frame)
    }

    fn ipv4(tos: u8) -> Packet {
        let repr = Ipv4Repr {
            dscp: tos >> 2,
            ecn: tos & 3,
            identification: 7,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset_bytes: 0,
            ttl: 9,
            protocol: IpProtocol(200),
            source: Ipv4Addr::new(10, 0, 0, 1),
            destination: Ipv4Addr::new(10, 0, 0, 2),
            options: &[],
            payload_len: 0,
        };
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut bytes);
        frame(EtherType::IPV4, &bytes)
    }

    fn ipv6(tos: u8) -> Packet {
        let repr = Ipv6Repr {
            traffic_class: tos,
            flow_label: 0xf_0f0f,
            payload_len: 0,
            next_header: IpProtocol(200),
            hop_limit: 9,
            source: Ipv6Addr::LOCALHOST,
            destination: Ipv6Addr::LOCALHOST,
        };
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut bytes);
        frame(EtherType::IPV6, &bytes)
    }

    #[test]
    fn congestion_is_passed_on_and_nothing_else_changes() {
        for outer in 0..=255 {
            for inner in [0x28, 0x29, 0x2a, 0x2b, 0xfd] {
                let expected = received_tos(outer, inner);
                let mut four = ipv4(inner);
                assert_eq!(pass_congestion(&mut four, outer), expected.is_some());
                let mut six = ipv6(inner);
                assert_eq!(pass_congestion(&mut six, outer), expected.is_some());
                let tos = match outer & CONGESTED {
                    CONGESTED => expected.unwrap_or(inner),
                    _ => inner,
                };
                assert!(
                    Ipv4View::new_checked(&four.bytes()[14..])
                        .unwrap()
                        .has_valid_checksum()
                );
                assert_eq!(four, ipv4(tos));
                let view = Ipv6View::new_checked(&six.bytes()[14..]).unwrap();
                assert_eq!((view.traffic_class(), view.flow_label()), (tos, 0xf_0f0f));
                assert_eq!(six, ipv6(tos));
                let headers = Headers::parse(four.bytes()).unwrap();
                let found = inner_ip(four.bytes(), &headers);
                assert_eq!(found, Some(InnerIp { tos, ttl: 9 }));
                let headers = Headers::parse(six.bytes()).unwrap();
                assert_eq!(inner_ip(six.bytes(), &headers), found);
            }
        }
    }
}
