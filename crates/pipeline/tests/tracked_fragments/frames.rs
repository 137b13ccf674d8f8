//! Datagrams, and the fragments of a frame.

use std::net::{Ipv4Addr, Ipv6Addr};

use thalweg_packet::checksum::checksum;
use thalweg_packet::wire::{MacAddress, PacketBuilder, TcpFlags};

/// Bytes of Ethernet's header.
const ETHERNET: usize = 14;

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7) as u8).collect()
}

/// A datagram of UDP with `len` bytes of payload, by IPv4 or IPv6.
pub(crate) fn datagram(is_ipv6: bool, source_port: u16, len: usize) -> Vec<u8> {
    let address = |last: u64| MacAddress::from_u64(0x0200_0000_0000 | last);
    let ethernet = PacketBuilder::ethernet(address(1), address(2));
    let ip = if is_ipv6 {
        let address = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last);
        ethernet.ipv6(address(1), address(2))
    } else {
        ethernet.ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
    };
    ip.udp(source_port, 53).payload(&payload(len)).build()
}

/// A segment from a client of FTP.
pub(crate) fn segment(payload: &[u8]) -> Vec<u8> {
    let address = |last: u64| MacAddress::from_u64(0x0200_0000_0000 | last);
    PacketBuilder::ethernet(address(1), address(2))
        .ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
        .tcp(1000, 21)
        .tcp_flags(TcpFlags::ACK)
        .payload(payload)
        .build()
}

/// The fragments of a frame, cut at these places of the packet's data.
pub(crate) fn split(frame: &[u8], identification: u16, cuts: &[usize]) -> Vec<Vec<u8>> {
    let is_ipv6 = frame[ETHERNET] >> 4 == 6;
    let (headers, data) = frame.split_at(ETHERNET + if is_ipv6 { 40 } else { 20 });
    let ends = cuts.iter().copied().chain([data.len()]);
    let mut start = 0;
    let parts = ends.map(|end| {
        let is_last = end == data.len();
        let part = &data[start..end];
        let fragment = match is_ipv6 {
            true => ipv6_part(headers, identification, start, is_last, part),
            false => ipv4_part(headers, identification, start, is_last, part),
        };
        start = end;
        fragment
    });
    parts.collect()
}

fn ipv4_part(headers: &[u8], id: u16, start: usize, is_last: bool, data: &[u8]) -> Vec<u8> {
    let mut frame = [headers, data].concat();
    let ip = &mut frame[ETHERNET..];
    let len = ip.len() as u16;
    let place = (start / 8) as u16 | if is_last { 0 } else { 0x2000 };
    ip[2..4].copy_from_slice(&len.to_be_bytes());
    ip[4..6].copy_from_slice(&id.to_be_bytes());
    ip[6..8].copy_from_slice(&place.to_be_bytes());
    ip[10..12].fill(0);
    let sum = checksum(&ip[..20]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn ipv6_part(headers: &[u8], id: u16, start: usize, is_last: bool, data: &[u8]) -> Vec<u8> {
    let mut frame = headers.to_vec();
    let ip = &mut frame[ETHERNET..];
    let len = data.len() as u16 + 8;
    ip[4..6].copy_from_slice(&len.to_be_bytes());
    let protocol = std::mem::replace(&mut ip[6], 44);
    let place = start as u16 | u16::from(!is_last);
    frame.extend([protocol, 0]);
    frame.extend(place.to_be_bytes());
    frame.extend(u32::from(id).to_be_bytes());
    frame.extend(data);
    frame
}
