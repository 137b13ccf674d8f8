//! Writes translated addresses and ports into a packet.
//!
//! ```text
//!   packet         source, destination <- those of `to` where `from` differs
//!   ICMP error     outer: the same for addresses only
//!                  embedded packet: source <- to.destination, destination <- to.source
//! ```
//!
//! 1. Every checksum that was right stays right, and every wrong one stays wrong, but that of
//!    an ICMP error's message, which was checked before and is computed again.
//! 2. The packet keeps its length.
//! 3. An embedded packet may be cut: a checksum that it does not have is not written.

use std::net::{Ipv4Addr, Ipv6Addr};

use thalweg_packet::checksum::{Alignment, Edit, Sum};

use crate::reading::{Places, pseudo_header};
use crate::tuple::{Endpoint, Tuple, protocol};

/// Where the checksums lie in their headers.
const IPV4_CHECKSUM: usize = 10;
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;
const ICMP_CHECKSUM: usize = 2;

/// Gives a packet with tuple `from` the tuple `to`.
pub(crate) fn translate(frame: &mut [u8], places: &Places, from: &Tuple, to: &Tuple) {
    let packet = &mut frame[..places.end];
    let Some((network, transport)) = places.embedded else {
        return rewrite(packet, places.network, places.transport, to);
    };
    // The embedded packet goes against the error's direction.
    rewrite(packet, network, transport, &to.reversed());
    translate_error(packet, places, from, to);
}

/// Writes the ends of `to` into one IP packet.
fn rewrite(packet: &mut [u8], network: usize, transport: usize, to: &Tuple) {
    let mut edit = Edit::default();
    edit = write_address(packet, network, to, Side::Source, edit);
    edit = write_address(packet, network, to, Side::Destination, edit);
    if !to.is_ipv6 {
        write_checksum(packet, network + IPV4_CHECKSUM, |sum| edit.apply(sum));
    }
    if to.has_ports() {
        edit = write_port(packet, transport, to.source.port, edit);
        edit = write_port(packet, transport + 2, to.destination.port, edit);
    }
    match to.protocol {
        protocol::TCP => {
            write_checksum(packet, transport + TCP_CHECKSUM, |sum| edit.apply(sum));
        }
        protocol::UDP => {
            write_checksum(packet, transport + UDP_CHECKSUM, |sum| {
                edit.apply_to_udp(sum)
            });
        }
        protocol::ICMPV6 if to.is_ipv6 => {
            write_checksum(packet, transport + ICMP_CHECKSUM, |sum| edit.apply(sum));
        }
        _ => {}
    }
}

/// Translates the outer header of an ICMP error and completes its message.
///
/// The error may come from a router in between. Its source becomes the translated address all
/// the same, as in Open vSwitch and Linux: the router may have no route to the receiver.
fn translate_error(packet: &mut [u8], places: &Places, from: &Tuple, to: &Tuple) {
    let network = places.network;
    let mut edit = Edit::default();
    if from.source.address != to.source.address {
        edit = write_address(packet, network, to, Side::Source, edit);
    }
    edit = write_address(packet, network, to, Side::Destination, edit);
    if !to.is_ipv6 {
        write_checksum(packet, network + IPV4_CHECKSUM, |sum| edit.apply(sum));
    }
    let outer = outer_tuple(packet, network, to.is_ipv6);
    let message = &mut packet[places.transport..];
    message[ICMP_CHECKSUM..][..2].fill(0);
    let sum = if outer.is_ipv6 {
        pseudo_header(&outer, message.len() as u32)
    } else {
        Sum::default()
    };
    let sum = sum.with_bytes(message).checksum();
    message[ICMP_CHECKSUM..][..2].copy_from_slice(&sum.to_be_bytes());
}

/// The addresses of an ICMP packet.
fn outer_tuple(packet: &[u8], network: usize, is_ipv6: bool) -> Tuple {
    let end = |side: Side| {
        let bytes = &packet[side.range(network, is_ipv6)];
        let address = match <[u8; 16]>::try_from(bytes) {
            Ok(bytes) => Ipv6Addr::from(bytes),
            Err(_) => Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).to_ipv6_mapped(),
        };
        Endpoint { address, port: 0 }
    };
    Tuple {
        source: end(Side::Source),
        destination: end(Side::Destination),
        icmp: (0, 0),
        zone: 0,
        protocol: if is_ipv6 {
            protocol::ICMPV6
        } else {
            protocol::ICMP
        },
        is_ipv6,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Source,
    Destination,
}

impl Side {
    /// The bytes of the address, for an IP header at `network`.
    fn range(self, network: usize, is_ipv6: bool) -> std::ops::Range<usize> {
        let (start, len) = if is_ipv6 { (8, 16) } else { (12, 4) };
        let start = network + start + if self == Side::Source { 0 } else { len };
        start..start + len
    }
}

/// Writes one address of `to`, and adds the change to `edit`.
fn write_address(packet: &mut [u8], network: usize, to: &Tuple, side: Side, edit: Edit) -> Edit {
    let address = match side {
        Side::Source => to.source.address,
        Side::Destination => to.destination.address,
    };
    let bytes = &mut packet[side.range(network, to.is_ipv6)];
    if to.is_ipv6 {
        let old: [u8; 16] = (&*bytes).try_into().expect("an IPv6 address has 16 bytes");
        bytes.copy_from_slice(&address.octets());
        edit.replace_u128(u128::from_be_bytes(old), address.to_bits(), Alignment::Even)
    } else {
        let old: [u8; 4] = (&*bytes).try_into().expect("an IPv4 address has 4 bytes");
        // A mapped address ends with the IPv4 address (RFC 4291, section 2.5.5.2).
        let new = address.to_bits() as u32;
        bytes.copy_from_slice(&new.to_be_bytes());
        edit.replace_u32(u32::from_be_bytes(old), new, Alignment::Even)
    }
}

fn write_port(packet: &mut [u8], at: usize, port: u16, edit: Edit) -> Edit {
    let old = u16::from_be_bytes([packet[at], packet[at + 1]]);
    packet[at..at + 2].copy_from_slice(&port.to_be_bytes());
    edit.replace_u16(old, port, Alignment::Even)
}

/// Changes a checksum that the packet has.
fn write_checksum(packet: &mut [u8], at: usize, change: impl Fn(u16) -> u16) {
    // Invariant 3.
    if let Some(bytes) = packet.get_mut(at..at + 2) {
        let sum = change(u16::from_be_bytes([bytes[0], bytes[1]]));
        bytes.copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
