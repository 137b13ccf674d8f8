//! The headers that go in front of a packet: built once for a flow, completed for each packet.
//!
//! ```text
//!   frame:    | Ethernet | IPv4 or IPv6 | UDP | tunnel | inner packet ...      UDP if the kind has it
//!   payload:                                  | tunnel | inner packet ...      for a socket
//! ```
//!
//! Open vSwitch builds its headers in the same two steps (`build_header` and `push_header` of
//! `lib/netdev-native-tnl.c`), and prints the first step's bytes in `tnl_push`. Lengths,
//! checksums, the UDP source port, sequence numbers and timestamps belong to the second step.
//!
//! 1. [`crate::decapsulate_frame`] and [`crate::decapsulate_payload`] read pushed headers, with the
//!    same values.
//! 2. A packet for which an error is returned is left as it was.

use thalweg_packet::Packet;
use thalweg_packet::checksum::{Sum, checksum};
use thalweg_packet::wire::{
    EtherType, EthernetRepr, EthernetView, Ipv4Repr, Ipv4View, Ipv6Repr, Ipv6View, MacAddress,
    UdpRepr, UdpView,
};

use crate::bytes::{HeaderBytes, PerPacket};
use crate::{
    EncapsulateError, Endpoints, InnerType, TunnelFlags, TunnelKind, TunnelMetadata, erspan,
    geneve, gre, gtpu, vxlan,
};

/// Where a length or a checksum lies in the header that has it.
const IPV4_LENGTH: std::ops::Range<usize> = 2..4;
const IPV4_CHECKSUM: std::ops::Range<usize> = 10..12;
const IPV6_LENGTH: std::ops::Range<usize> = 4..6;
const UDP_SOURCE: std::ops::Range<usize> = 0..2;
const UDP_LENGTH: std::ops::Range<usize> = 4..6;
const UDP_CHECKSUM: std::ops::Range<usize> = 6..8;

/// A checksum that is still to be computed, as Open vSwitch writes it into unfinished headers.
const UDP_CHECKSUM_WANTED: [u8; 2] = [0xff, 0xff];

/// The outer Ethernet addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LinkAddresses {
    /// The interface that sends.
    pub source: MacAddress,
    /// The next hop.
    pub destination: MacAddress,
}

/// Settings of a tunnel's port that change its headers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct HeaderSettings {
    /// GRE and GTP-U have a sequence number; ERSPAN always has one.
    pub has_sequence: bool,
    /// UDP over IPv6 may go without a checksum (RFC 6935), if the metadata ask for none.
    pub may_omit_ipv6_checksum: bool,
}

/// The headers in front of the packets of a flow.
///
/// ```
/// use std::net::Ipv4Addr;
/// use thalweg_packet::Packet;
/// use thalweg_tunnel::{
///     Endpoints, HeaderSettings, InnerType, OuterHeader, PerPacket, TunnelKind, TunnelMetadata,
///     VxlanFlavour,
/// };
///
/// let metadata = TunnelMetadata {
///     id: 123,
///     endpoints: Endpoints::V4 {
///         source: Ipv4Addr::new(192, 0, 2, 1),
///         destination: Ipv4Addr::new(192, 0, 2, 2),
///     },
///     ..TunnelMetadata::default()
/// };
/// let kind = TunnelKind::Vxlan(VxlanFlavour::Plain);
/// let settings = HeaderSettings::default();
/// let header = OuterHeader::for_payload(kind, &metadata, InnerType::Ethernet, settings)?;
/// let mut packet = Packet::from_bytes(b"an Ethernet frame");
/// header.push(&mut packet, PerPacket::default())?;
/// assert_eq!(packet.bytes(), b"\x08\0\0\0\0\0\x7b\0an Ethernet frame");
/// # Ok::<(), thalweg_tunnel::EncapsulateError>(())
/// ```
#[derive(Clone, Debug)]
pub struct OuterHeader {
    kind: TunnelKind,
    header: HeaderBytes,
    network: Option<Network>,
    tunnel_offset: usize,
}

/// The headers below the tunnel's.
#[derive(Clone, Copy, Debug)]
struct Network {
    endpoints: Endpoints,
    transport_offset: usize,
    has_udp_checksum: bool,
}

impl OuterHeader {
    /// The tunnel's header alone: for the payload of a UDP socket, or of a raw socket for GRE.
    ///
    /// # Errors
    /// If the tunnel cannot carry the packet or the metadata.
    pub fn for_payload(
        kind: TunnelKind,
        metadata: &TunnelMetadata,
        inner: InnerType,
        settings: HeaderSettings,
    ) -> Result<Self, EncapsulateError> {
        let mut header = HeaderBytes::EMPTY;
        build_tunnel(kind, metadata, inner, settings, &mut header)?;
        Ok(OuterHeader {
            kind,
            header,
            network: None,
            tunnel_offset: 0,
        })
    }

    /// All headers of a frame.
    ///
    /// The UDP header has a checksum if the metadata ask for one, always over IPv6 unless the
    /// settings allow otherwise, and always for GTP-U, as in Open vSwitch.
    ///
    /// # Errors
    /// If the tunnel cannot carry the packet or the metadata.
    pub fn for_frame(
        kind: TunnelKind,
        metadata: &TunnelMetadata,
        link: LinkAddresses,
        inner: InnerType,
        settings: HeaderSettings,
    ) -> Result<Self, EncapsulateError> {
        let mut header = HeaderBytes::EMPTY;
        build_ip(kind, metadata, link, &mut header);
        let transport_offset = header.len;
        let is_asked = metadata.flags.has(TunnelFlags::CHECKSUM)
            || metadata.endpoints.is_ipv6() && !settings.may_omit_ipv6_checksum;
        if kind.default_port().is_some() {
            let udp = UdpRepr {
                source_port: 0,
                destination_port: metadata.destination_port,
                payload_len: 0,
            };
            let bytes = header.grow(udp.buffer_len());
            udp.emit(bytes);
            bytes[UDP_LENGTH].fill(0);
            if is_asked {
                bytes[UDP_CHECKSUM].copy_from_slice(&UDP_CHECKSUM_WANTED);
            }
        }
        let tunnel_offset = header.len;
        build_tunnel(kind, metadata, inner, settings, &mut header)?;
        Ok(OuterHeader {
            kind,
            header,
            network: Some(Network {
                endpoints: metadata.endpoints,
                transport_offset,
                has_udp_checksum: is_asked || kind == TunnelKind::Gtpu,
            }),
            tunnel_offset,
        })
    }

    /// The headers, with zeros for all that differs from packet to packet.
    ///
    /// A UDP checksum that was asked for is 0xffff.
    pub fn bytes(&self) -> &[u8] {
        &self.header.bytes[..self.header.len]
    }

    /// The offset of the tunnel's own header.
    pub fn tunnel_offset(&self) -> usize {
        self.tunnel_offset
    }

    /// Puts the headers in front of a packet.
    ///
    /// # Errors
    /// [`EncapsulateError::TooLong`] if the outer packet would be longer than its headers can say.
    pub fn push(&self, packet: &mut Packet, variable: PerPacket) -> Result<(), EncapsulateError> {
        // The Ethernet header does not count; without one, UDP's and IP's are still to come.
        let counted = match self.network {
            Some(_) => self.header.len - EthernetView::HEADER_LEN,
            None => self.header.len + Ipv6View::HEADER_LEN + UdpView::HEADER_LEN,
        };
        if packet.len() + counted > usize::from(u16::MAX) {
            return Err(EncapsulateError::TooLong);
        }
        packet
            .prepend(self.header.len)
            .copy_from_slice(self.bytes());
        let bytes = packet.bytes_mut();
        let tunnel = &mut bytes[self.tunnel_offset..];
        match self.kind {
            TunnelKind::Vxlan(_) | TunnelKind::Geneve => {}
            TunnelKind::Gre => gre::complete(tunnel, variable),
            TunnelKind::Erspan => erspan::complete(tunnel, variable),
            TunnelKind::Gtpu => gtpu::complete(tunnel, variable),
        }
        if let Some(network) = self.network {
            self.complete_network(network, bytes, variable.source_port);
        }
        Ok(())
    }

    /// Writes the lengths and checksums below the tunnel's header, and the UDP source port.
    fn complete_network(&self, network: Network, bytes: &mut [u8], source_port: u16) {
        let (lower, transport) = bytes.split_at_mut(network.transport_offset);
        let ip = &mut lower[EthernetView::HEADER_LEN..];
        // The whole packet has under 65,536 bytes, as was checked.
        let len = transport.len() as u16;
        match network.endpoints {
            Endpoints::V4 { .. } => {
                let total = len + Ipv4View::HEADER_LEN as u16;
                ip[IPV4_LENGTH].copy_from_slice(&total.to_be_bytes());
                ip[IPV4_CHECKSUM].fill(0);
                let sum = checksum(ip);
                ip[IPV4_CHECKSUM].copy_from_slice(&sum.to_be_bytes());
            }
            Endpoints::V6 { .. } => ip[IPV6_LENGTH].copy_from_slice(&len.to_be_bytes()),
        }
        if self.tunnel_offset == network.transport_offset {
            return;
        }
        transport[UDP_SOURCE].copy_from_slice(&source_port.to_be_bytes());
        transport[UDP_LENGTH].copy_from_slice(&len.to_be_bytes());
        if network.has_udp_checksum {
            UdpRepr::fill_checksum(transport, self.pseudo_header(network.endpoints, len));
        }
    }

    fn pseudo_header(&self, endpoints: Endpoints, len: u16) -> Sum {
        let protocol = self.kind.protocol();
        match endpoints {
            Endpoints::V4 {
                source,
                destination,
            } => Sum::of_ipv4_pseudo_header(source, destination, protocol, len),
            Endpoints::V6 {
                source,
                destination,
            } => Sum::of_ipv6_pseudo_header(source, destination, protocol, len.into()),
        }
    }
}

/// Writes the Ethernet and the IP header, without lengths and checksum.
fn build_ip(
    kind: TunnelKind,
    metadata: &TunnelMetadata,
    link: LinkAddresses,
    header: &mut HeaderBytes,
) {
    let ethernet = EthernetRepr {
        destination: link.destination,
        source: link.source,
        ether_type: match metadata.endpoints {
            Endpoints::V4 { .. } => EtherType::IPV4,
            Endpoints::V6 { .. } => EtherType::IPV6,
        },
    };
    ethernet.emit(header.grow(ethernet.buffer_len()));
    match metadata.endpoints {
        Endpoints::V4 {
            source,
            destination,
        } => {
            let repr = Ipv4Repr {
                dscp: metadata.tos >> 2,
                ecn: metadata.tos & 3,
                identification: 0,
                dont_fragment: metadata.flags.has(TunnelFlags::DONT_FRAGMENT),
                more_fragments: false,
                fragment_offset_bytes: 0,
                ttl: metadata.ttl,
                protocol: kind.protocol(),
                source,
                destination,
                options: &[],
                payload_len: 0,
            };
            let bytes = header.grow(repr.buffer_len());
            repr.emit(bytes);
            bytes[IPV4_LENGTH].fill(0);
            bytes[IPV4_CHECKSUM].fill(0);
        }
        Endpoints::V6 {
            source,
            destination,
        } => {
            let repr = Ipv6Repr {
                traffic_class: metadata.tos,
                flow_label: 0,
                payload_len: 0,
                next_header: kind.protocol(),
                hop_limit: metadata.ttl,
                source,
                destination,
            };
            repr.emit(header.grow(repr.buffer_len()));
        }
    }
}

fn build_tunnel(
    kind: TunnelKind,
    metadata: &TunnelMetadata,
    inner: InnerType,
    settings: HeaderSettings,
    header: &mut HeaderBytes,
) -> Result<(), EncapsulateError> {
    match kind {
        TunnelKind::Vxlan(flavour) => vxlan::build(metadata, flavour, inner, header),
        TunnelKind::Geneve => geneve::build(metadata, inner, header),
        TunnelKind::Gre => {
            gre::build(metadata, inner, settings.has_sequence, header);
            Ok(())
        }
        TunnelKind::Erspan => erspan::build(metadata, inner, header),
        TunnelKind::Gtpu => gtpu::build(metadata, inner, settings.has_sequence, header),
    }
}
