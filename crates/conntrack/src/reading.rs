//! Reads from a packet what the tracker has to know: its tuple, and the numbers of TCP.
//!
//! A packet that cannot be tracked is refused with the reason: no IP, a fragment, a wrong
//! checksum, a header that is not whole, an unknown ICMP type. These are the checks of
//! `conn_key_extract` in Open vSwitch's `lib/conntrack.c`.
//!
//! An error of ICMP (RFC 792; RFC 4443, section 3) belongs to the connection of the packet that
//! it embeds. Its tuple is the embedded one reversed, because the error goes against the
//! embedded packet's direction.
//!
//! 1. Reads never leave the frame, even if `headers` belongs to another one.
//! 2. An error embeds a packet that its receiver has sent: the embedded source is the outer
//!    destination. An error about an error is refused.
//!
//! Departures from Open vSwitch: SCTP has ports, which need its whole common header. A UDP
//! checksum covers the length that UDP states. Of an embedded packet in ICMPv6, 8 bytes of
//! transport header are enough, as in ICMP.

use std::net::Ipv6Addr;

use thalweg_packet::checksum::{self, Sum};
use thalweg_packet::standard::header as h;
use thalweg_packet::wire::{
    FragmentKind, IpProtocol, Ipv4View, Ipv6View, TcpOption, TcpView, UdpView, walk_extensions,
};
use thalweg_packet::{Headers, Scalar};

use crate::counters::Event;
use crate::tcp::{Segment, flag};
use crate::tuple::{self, Endpoint, Tuple, protocol};

/// Bytes in front of the packet that an ICMP error embeds.
pub(crate) const ERROR_HEADER_LEN: usize = 8;

/// Bytes of an embedded transport header that must be there (RFC 792).
const EMBEDDED_TRANSPORT_LEN: usize = 8;

/// What a packet says.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// The packet's tuple; of an ICMP error, the embedded packet's, reversed.
    pub(crate) tuple: Tuple,
    /// The TCP segment.
    pub(crate) segment: Option<Segment>,
    pub(crate) places: Places,
}

/// Where in the frame the headers lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Places {
    /// The IP header.
    pub(crate) network: usize,
    /// The transport header, for protocols whose header is read.
    pub(crate) transport: usize,
    /// The end of the IP packet.
    pub(crate) end: usize,
    /// The embedded IP and transport headers of an ICMP error.
    pub(crate) embedded: Option<(usize, usize)>,
}

impl Reading {
    /// Whether the packet is an ICMP error.
    pub(crate) fn is_error(&self) -> bool {
        self.places.embedded.is_some()
    }
}

/// Reads a finished packet, or says why it is invalid.
#[cfg(test)]
pub(crate) fn read(frame: &[u8], headers: &Headers, zone: u16) -> Result<Reading, Event> {
    read_sums(frame, headers, zone, true)
}

/// Reads a packet, or says why it is invalid; `has_sum` unless the checksum of TCP or UDP is left
/// to the port that sends it.
#[inline(always)]
pub(crate) fn read_sums(
    frame: &[u8],
    headers: &Headers,
    zone: u16,
    has_sum: bool,
) -> Result<Reading, Event> {
    let (mut tuple, places, pseudo) = read_network(frame, headers, zone)?;
    let packet = frame.get(..places.end).ok_or(Event::NotIp)?;
    let bytes = packet.get(places.transport..).unwrap_or_default();
    let mut reading = Reading {
        tuple,
        segment: None,
        places,
    };
    match tuple.protocol {
        protocol::TCP => {
            let view = TcpView::new_checked(bytes).map_err(|_| Event::BadTransport)?;
            if has_sum && !pseudo.with_bytes(bytes).is_valid() {
                return Err(Event::BadTransportChecksum);
            }
            reading.segment = Some(read_segment(&view));
            set_ports(&mut reading.tuple, bytes, true)?;
        }
        protocol::UDP => {
            check_udp(bytes, &tuple, has_sum)?;
            set_ports(&mut reading.tuple, bytes, true)?;
        }
        protocol::SCTP => {
            if bytes.len() < 12 {
                return Err(Event::BadTransport);
            }
            set_ports(&mut reading.tuple, bytes, false)?;
        }
        _ if tuple.is_icmp() => {
            let sum = if tuple.is_ipv6 {
                pseudo
            } else {
                Sum::default()
            };
            if bytes.len() < ERROR_HEADER_LEN {
                return Err(Event::BadTransport);
            }
            if !sum.with_bytes(bytes).is_valid() {
                return Err(Event::BadTransportChecksum);
            }
            if is_icmp_error(&tuple, bytes[0]) {
                let start = places.transport + ERROR_HEADER_LEN;
                let (embedded, at) = read_embedded(packet, start, &tuple)?;
                tuple = embedded.reversed();
                reading.places.embedded = Some((start, at));
                reading.tuple = tuple;
            } else {
                set_echo(&mut reading.tuple, bytes)?;
            }
        }
        _ => {}
    }
    Ok(reading)
}

/// The tuple of a packet with ports, if it is whole, without a check of its sums.
pub(crate) fn peek(frame: &[u8], headers: &Headers, zone: u16) -> Option<Tuple> {
    let at = [h::TCP, h::UDP, h::SCTP]
        .into_iter()
        .find_map(|header| headers.offset(header))?;
    let mut tuple = if let Some(at) = headers.offset(h::IPV4) {
        tuple_of_ipv4(&Ipv4View::new_checked(frame.get(at..)?).ok()?, zone)
    } else {
        let view = Ipv6View::new_checked(frame.get(headers.offset(h::IPV6_CHAIN)?..)?);
        let number = headers.scalar(Scalar::IpProtocol) as u8;
        tuple_of_ipv6(&view.ok()?, number, zone)
    };
    set_ports(&mut tuple, frame.get(at..)?, false).ok()?;
    Some(tuple)
}

/// The addresses, the places and the sum of the pseudo-header.
#[inline(always)]
fn read_network(frame: &[u8], headers: &Headers, zone: u16) -> Result<(Tuple, Places, Sum), Event> {
    if let Some(at) = headers.offset(h::IPV4) {
        let bytes = frame.get(at..).ok_or(Event::NotIp)?;
        let view = Ipv4View::new_checked(bytes).map_err(|_| Event::NotIp)?;
        if view.fragment_kind() != FragmentKind::Whole {
            return Err(Event::Fragment);
        }
        if !view.has_valid_checksum() {
            return Err(Event::BadNetworkChecksum);
        }
        let len = view.total_len() - view.header_len();
        let (source, destination) = (view.source(), view.destination());
        let protocol = view.protocol();
        let pseudo = Sum::of_ipv4_pseudo_header(source, destination, protocol, len as u16);
        let places = Places {
            network: at,
            transport: at + view.header_len(),
            end: at + view.total_len(),
            embedded: None,
        };
        return Ok((tuple_of_ipv4(&view, zone), places, pseudo));
    }
    let at = headers.offset(h::IPV6_CHAIN).ok_or(Event::NotIp)?;
    let bytes = frame.get(at..).ok_or(Event::NotIp)?;
    let view = Ipv6View::new_checked(bytes).map_err(|_| Event::NotIp)?;
    if headers.scalar(Scalar::IpFragment) != 0 {
        return Err(Event::Fragment);
    }
    let number = headers.scalar(Scalar::IpProtocol) as u8;
    let end = at + Ipv6View::HEADER_LEN + view.payload_len();
    let transport = match number {
        protocol::TCP => headers.offset(h::TCP),
        protocol::UDP => headers.offset(h::UDP),
        protocol::SCTP => headers.offset(h::SCTP),
        protocol::ICMPV6 => headers.offset(h::ICMPV6),
        _ => Some(end),
    };
    let transport = transport.ok_or(Event::BadTransport)?;
    let len = end.saturating_sub(transport) as u32;
    let pseudo =
        Sum::of_ipv6_pseudo_header(view.source(), view.destination(), IpProtocol(number), len);
    let places = Places {
        network: at,
        transport,
        end,
        embedded: None,
    };
    Ok((tuple_of_ipv6(&view, number, zone), places, pseudo))
}

fn tuple_of_ipv4(view: &Ipv4View<'_>, zone: u16) -> Tuple {
    Tuple {
        source: endpoint(view.source().to_ipv6_mapped()),
        destination: endpoint(view.destination().to_ipv6_mapped()),
        icmp: (0, 0),
        zone,
        protocol: view.protocol().0,
        is_ipv6: false,
    }
}

fn tuple_of_ipv6(view: &Ipv6View<'_>, number: u8, zone: u16) -> Tuple {
    Tuple {
        source: endpoint(view.source()),
        destination: endpoint(view.destination()),
        icmp: (0, 0),
        zone,
        protocol: number,
        is_ipv6: true,
    }
}

fn endpoint(address: Ipv6Addr) -> Endpoint {
    Endpoint { address, port: 0 }
}

/// Checks the length and the checksum of a UDP datagram.
fn check_udp(bytes: &[u8], tuple: &Tuple, has_sum: bool) -> Result<(), Event> {
    let view = UdpView::new_checked(bytes).map_err(|_| Event::BadTransport)?;
    let is_absent = !tuple.is_ipv6 && checksum::is_udp_checksum_absent(view.checksum());
    if !has_sum || is_absent {
        return Ok(());
    }
    let len = view.len();
    let pseudo = pseudo_header(tuple, len as u32);
    if pseudo.with_bytes(&bytes[..len]).is_valid() {
        Ok(())
    } else {
        Err(Event::BadTransportChecksum)
    }
}

/// The sum of the pseudo-header of a transport packet of `len` bytes with this tuple.
pub(crate) fn pseudo_header(tuple: &Tuple, len: u32) -> Sum {
    let number = IpProtocol(tuple.protocol);
    let (source, destination) = (tuple.source.address, tuple.destination.address);
    match (source.to_ipv4_mapped(), destination.to_ipv4_mapped()) {
        (Some(source), Some(destination)) if !tuple.is_ipv6 => {
            Sum::of_ipv4_pseudo_header(source, destination, number, len as u16)
        }
        _ => Sum::of_ipv6_pseudo_header(source, destination, number, len),
    }
}

/// Reads the ports, which TCP, UDP and SCTP have in the same place.
fn set_ports(tuple: &mut Tuple, bytes: &[u8], is_zero_refused: bool) -> Result<(), Event> {
    let [a, b, c, d, ..] = *bytes else {
        return Err(Event::BadTransport);
    };
    tuple.source.port = u16::from_be_bytes([a, b]);
    tuple.destination.port = u16::from_be_bytes([c, d]);
    if is_zero_refused && (tuple.source.port == 0 || tuple.destination.port == 0) {
        return Err(Event::BadTransport);
    }
    Ok(())
}

/// Reads type and identifier of a question or an answer of ICMP.
fn set_echo(tuple: &mut Tuple, bytes: &[u8]) -> Result<(), Event> {
    let [kind, code, _, _, high, low, ..] = *bytes else {
        return Err(Event::BadTransport);
    };
    let is_tracked = if tuple.is_ipv6 {
        matches!(kind, tuple::ICMPV6_ECHO | tuple::ICMPV6_ECHO_REPLY)
    } else {
        matches!(
            kind,
            tuple::ICMP_ECHO
                | tuple::ICMP_ECHO_REPLY
                | tuple::ICMP_TIMESTAMP
                | tuple::ICMP_TIMESTAMP_REPLY
                | tuple::ICMP_INFORMATION
                | tuple::ICMP_INFORMATION_REPLY
        )
    };
    if !is_tracked || code != 0 {
        return Err(Event::UntrackedIcmp);
    }
    let identifier = u16::from_be_bytes([high, low]);
    tuple.icmp = (kind, code);
    tuple.source.port = identifier;
    tuple.destination.port = identifier;
    Ok(())
}

/// Whether a type of ICMP or ICMPv6 is an error that embeds a packet.
fn is_icmp_error(tuple: &Tuple, kind: u8) -> bool {
    if tuple.is_ipv6 {
        // Destination unreachable, too big, time exceeded, parameter problem.
        (1..=4).contains(&kind)
    } else {
        // Destination unreachable, source quench, redirect, time exceeded, parameter problem.
        matches!(kind, 3 | 4 | 5 | 11 | 12)
    }
}

/// The tuple of the packet that an error embeds at `at`, and where its transport header is.
fn read_embedded(packet: &[u8], at: usize, outer: &Tuple) -> Result<(Tuple, usize), Event> {
    let bytes = &packet[at..];
    let (mut tuple, transport) = if outer.is_ipv6 {
        let view = Ipv6View::new_header_checked(bytes).map_err(|_| Event::BadIcmpError)?;
        let walk = walk_extensions(&view).map_err(|_| Event::BadIcmpError)?;
        if walk.fragment != FragmentKind::Whole {
            return Err(Event::BadIcmpError);
        }
        (
            tuple_of_ipv6(&view, walk.protocol.0, outer.zone),
            at + walk.offset,
        )
    } else {
        let view = Ipv4View::new_header_checked(bytes).map_err(|_| Event::BadIcmpError)?;
        if view.fragment_kind() != FragmentKind::Whole {
            return Err(Event::BadIcmpError);
        }
        (tuple_of_ipv4(&view, outer.zone), at + view.header_len())
    };
    // Invariant 2.
    if tuple.source.address != outer.destination.address {
        return Err(Event::BadIcmpError);
    }
    let bytes = packet.get(transport..).unwrap_or_default();
    let needs_transport = tuple.has_ports() || tuple.protocol == protocol::SCTP || tuple.is_icmp();
    if needs_transport && bytes.len() < EMBEDDED_TRANSPORT_LEN {
        return Err(Event::BadIcmpError);
    }
    let outcome = match tuple.protocol {
        protocol::TCP | protocol::UDP => set_ports(&mut tuple, bytes, true),
        protocol::SCTP => set_ports(&mut tuple, bytes, false),
        _ if tuple.is_icmp() => set_echo(&mut tuple, bytes),
        _ => Ok(()),
    };
    outcome.map_err(|_| Event::BadIcmpError)?;
    Ok((tuple, transport))
}

#[inline(always)]
fn read_segment(view: &TcpView<'_>) -> Segment {
    let flags = view.flags().0 as u8;
    // Only a SYN may announce a scale, so other segments are spared the walk.
    let window_scale = if flags & flag::SYN != 0 {
        view.options().find_map(|option| match option {
            Ok(TcpOption::WindowScale(shift)) => Some(shift),
            _ => None,
        })
    } else {
        None
    };
    Segment {
        sequence: view.sequence(),
        acknowledgment: view.acknowledgment(),
        flags,
        window: view.window(),
        len: view.payload().len() as u32,
        window_scale,
    }
}

#[cfg(test)]
mod tests;
