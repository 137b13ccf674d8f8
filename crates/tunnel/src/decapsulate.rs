//! Takes packets out of tunnels.
//!
//! ```text
//!   frame --> Ethernet --> IPv4 or IPv6 --> UDP --> tunnel --> metadata, range of the inner packet
//! ```
//!
//! The caller knows the kind of the tunnel: by the UDP port or the IP protocol for which it has
//! one. Nothing here looks at ports.
//!
//! 1. No bytes make decapsulation panic, and the range lies in the bytes.
//! 2. A packet that is accepted has whole headers, right checksums where there are any, and is no
//!    fragment.
//! 3. An accepted packet can be encapsulated again, and is then read as the same. Only GTP-U's
//!    messages without a packet have nothing to encapsulate.
//!
//! Behind UDP the inner packet ends where UDP's length says; Open vSwitch keeps padding behind it.
//! Behind GRE it ends with the frame, as in Open vSwitch, whose tests have packets with a wrong IP
//! length.

use std::ops::Range;

use thalweg_packet::checksum::Sum;
use thalweg_packet::wire::{
    EtherType, EthernetView, FragmentKind, IpProtocol, Ipv4View, Ipv6View, UdpView, WireError,
    walk_extensions,
};

use crate::bytes::Stripped;
use crate::{
    DecapsulateError, Endpoints, InnerType, TunnelFlags, TunnelKind, TunnelMetadata, erspan,
    geneve, gre, gtpu, vxlan,
};

/// What came out of a tunnel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decapsulated {
    /// The values of the outer headers.
    ///
    /// [`TunnelFlags::DONT_FRAGMENT`] is never set: Open vSwitch 3.1 does not read it.
    pub metadata: TunnelMetadata,
    /// The inner packet.
    pub content: TunnelContent,
    /// Whether routers must not fragment the outer packet; false over IPv6 and for payloads.
    pub has_dont_fragment: bool,
}

/// What a tunnel's packet carries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TunnelContent {
    /// A packet.
    Packet {
        /// Where its bytes are in those that were decapsulated.
        range: Range<usize>,
        /// What it begins with.
        inner: InnerType,
    },
    /// A message of GTP-U itself: the outer packet goes on as it is, with the metadata.
    Message,
}

/// Takes a packet out of a whole Ethernet frame without VLAN tags.
///
/// # Errors
/// The reason why the frame is malformed, or none of this tunnel.
pub fn decapsulate_frame(kind: TunnelKind, frame: &[u8]) -> Result<Decapsulated, DecapsulateError> {
    let view = EthernetView::new_checked(frame).map_err(|_| DecapsulateError::Truncated)?;
    let version = match view.ether_type() {
        EtherType::IPV4 => 4,
        EtherType::IPV6 => 6,
        _ => return Err(DecapsulateError::NotIp),
    };
    match view.payload().first() {
        Some(byte) if byte >> 4 != version => Err(DecapsulateError::IpHeader),
        _ => read_packet(kind, frame, EthernetView::HEADER_LEN),
    }
}

/// Takes a packet out of an IPv4 or IPv6 packet, as a raw socket gives it.
///
/// # Errors
/// The reason why the packet is malformed, or none of this tunnel.
pub fn decapsulate_ip(kind: TunnelKind, packet: &[u8]) -> Result<Decapsulated, DecapsulateError> {
    read_packet(kind, packet, 0)
}

/// Takes a packet out of the payload of a UDP datagram, or of an IP packet for GRE.
///
/// `metadata` has what the caller knows of the headers below: addresses, ports, type of service,
/// time to live, and whether there was a checksum.
///
/// # Errors
/// The reason why the tunnel's header is malformed.
pub fn decapsulate_payload(
    kind: TunnelKind,
    payload: &[u8],
    metadata: TunnelMetadata,
) -> Result<Decapsulated, DecapsulateError> {
    let mut told = Decapsulated {
        metadata,
        content: TunnelContent::Message,
        has_dont_fragment: false,
    };
    told.content = read_tunnel(kind, payload, 0, &mut told.metadata)?;
    Ok(told)
}

/// Reads the headers of `bytes` from the IP header on, which begins at `start`.
fn read_packet(
    kind: TunnelKind,
    bytes: &[u8],
    start: usize,
) -> Result<Decapsulated, DecapsulateError> {
    // The metadata are large, so they are written where they stay.
    let mut told = Decapsulated {
        metadata: TunnelMetadata::default(),
        content: TunnelContent::Message,
        has_dont_fragment: false,
    };
    let metadata = &mut told.metadata;
    let packet = &bytes[start..];
    let outer = match packet.first().map(|byte| byte >> 4) {
        None => return Err(DecapsulateError::Truncated),
        Some(4) => read_ipv4(packet, metadata)?,
        Some(6) => read_ipv6(packet, metadata)?,
        Some(_) => return Err(DecapsulateError::IpHeader),
    };
    if outer.protocol != kind.protocol() {
        return Err(DecapsulateError::Protocol);
    }
    let mut offset = outer.offset;
    let mut payload = &packet[offset..];
    if outer.protocol == IpProtocol::UDP {
        payload = read_udp(payload, metadata)?;
        offset += UdpView::HEADER_LEN;
    }
    told.has_dont_fragment = outer.has_dont_fragment;
    told.content = read_tunnel(kind, payload, start + offset, metadata)?;
    Ok(told)
}

/// Reads the tunnel's header; `start` is where it begins in the bytes that the caller has.
fn read_tunnel(
    kind: TunnelKind,
    payload: &[u8],
    start: usize,
    metadata: &mut TunnelMetadata,
) -> Result<TunnelContent, DecapsulateError> {
    let stripped = match kind {
        TunnelKind::Vxlan(flavour) => vxlan::parse(payload, flavour, metadata)?,
        TunnelKind::Geneve => geneve::parse(payload, metadata)?,
        TunnelKind::Gre => gre::parse(payload, metadata)?,
        TunnelKind::Erspan => erspan::parse(payload, metadata)?,
        TunnelKind::Gtpu => gtpu::parse(payload, metadata)?,
    };
    Ok(match stripped {
        Stripped::Header { len, inner } => TunnelContent::Packet {
            range: start + len..start + payload.len(),
            inner,
        },
        Stripped::Message => TunnelContent::Message,
    })
}

/// What an outer IP header says, beside the metadata.
struct Outer {
    protocol: IpProtocol,
    offset: usize,
    has_dont_fragment: bool,
}

fn read_ipv4(packet: &[u8], metadata: &mut TunnelMetadata) -> Result<Outer, DecapsulateError> {
    let view = Ipv4View::new_checked(packet).map_err(ip_error)?;
    if !view.options().is_empty() {
        return Err(DecapsulateError::Ipv4Options);
    }
    if !view.has_valid_checksum() {
        return Err(DecapsulateError::Ipv4Checksum);
    }
    if view.fragment_kind() != FragmentKind::Whole {
        return Err(DecapsulateError::Fragment);
    }
    metadata.endpoints = Endpoints::V4 {
        source: view.source(),
        destination: view.destination(),
    };
    metadata.tos = view.dscp() << 2 | view.ecn();
    metadata.ttl = view.ttl();
    Ok(Outer {
        protocol: view.protocol(),
        offset: view.header_len(),
        has_dont_fragment: view.has_dont_fragment(),
    })
}

fn read_ipv6(packet: &[u8], metadata: &mut TunnelMetadata) -> Result<Outer, DecapsulateError> {
    let view = Ipv6View::new_checked(packet).map_err(ip_error)?;
    let walk = walk_extensions(&view).map_err(|_| DecapsulateError::Ipv6Extensions)?;
    if walk.fragment != FragmentKind::Whole {
        return Err(DecapsulateError::Fragment);
    }
    metadata.endpoints = Endpoints::V6 {
        source: view.source(),
        destination: view.destination(),
    };
    metadata.tos = view.traffic_class();
    metadata.ttl = view.hop_limit();
    Ok(Outer {
        protocol: walk.protocol,
        offset: walk.offset,
        has_dont_fragment: false,
    })
}

fn ip_error(error: WireError) -> DecapsulateError {
    match error {
        WireError::Truncated => DecapsulateError::Truncated,
        _ => DecapsulateError::IpHeader,
    }
}

/// The payload of a UDP datagram whose checksum is right or absent.
fn read_udp<'a>(
    bytes: &'a [u8],
    metadata: &mut TunnelMetadata,
) -> Result<&'a [u8], DecapsulateError> {
    if bytes.len() < UdpView::HEADER_LEN {
        return Err(DecapsulateError::Truncated);
    }
    let view = UdpView::new_checked(bytes).map_err(|_| DecapsulateError::UdpLength)?;
    metadata.source_port = view.source_port();
    metadata.destination_port = view.destination_port();
    if view.checksum() != 0 {
        if !view.has_valid_checksum(pseudo_header(metadata.endpoints, view.len())) {
            return Err(DecapsulateError::UdpChecksum);
        }
        metadata.flags |= TunnelFlags::CHECKSUM;
    }
    Ok(view.payload())
}

fn pseudo_header(endpoints: Endpoints, len: usize) -> Sum {
    // A datagram's length is a 16-bit field.
    let len = len as u16;
    match endpoints {
        Endpoints::V4 {
            source,
            destination,
        } => Sum::of_ipv4_pseudo_header(source, destination, IpProtocol::UDP, len),
        Endpoints::V6 {
            source,
            destination,
        } => Sum::of_ipv6_pseudo_header(source, destination, IpProtocol::UDP, len.into()),
    }
}
