//! Converts a Geneve packet to the form that agents handle, and back.
//!
//! ```text
//!   IP packet --Datagram::parse--> packet + what else is in the headers + the tenant's frame
//!                                    | handle_packet
//!   IP packet <--emit------------- packet + the same
//! ```
//!
//! Other parties' options stay unchanged and in order; ours is written after them. An empty
//! option is left out. A router's work (time to live, the link below) is the caller's.
//!
//! The outer UDP checksum is written over IPv6 and left out over IPv4, where it is optional
//! (RFC 8926 section 3.3).

use std::net::{IpAddr, Ipv6Addr};

use thalweg_packet::checksum::Sum;
use thalweg_packet::wire::{
    EtherType, EthernetView, FragmentKind, GENEVE_PORT, GeneveOption, GeneveRepr, GeneveView,
    IpProtocol, Ipv4Repr, Ipv4View, Ipv6Repr, Ipv6View, UdpRepr, UdpView, VlanView, WireError,
};

use super::{OPTION_CLASS, OPTION_TYPE, OptionError, OptionRepr};
use crate::Address;
use crate::mapping::Vni;
use crate::packet::{Body, Data, Packet, Tags};

/// VLAN tags that are skipped to find the tenant's addresses.
const VLAN_TAGS_MAX: usize = 2;
/// Geneve's bound on all options together (RFC 8926 section 3.4).
const OPTIONS_MAX: usize = 252;
const OPTION_HEADER_LEN: usize = 4;

/// Why agents do not handle an IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum DatagramError {
    /// A header is malformed.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Our option is malformed.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A checksum is wrong.
    #[error("a checksum of the outer headers is wrong")]
    BadChecksum,
    /// It is not a UDP datagram to Geneve's port, or it is a fragment.
    #[error("the packet is no whole Geneve packet")]
    NotGeneve,
    /// Our option occurs twice.
    #[error("the option is there twice")]
    RepeatedOption,
    /// A control packet without one of our messages, or such a message in a data packet.
    #[error("the control flag does not agree with the kind of message")]
    ControlFlag,
    /// A message about a mapping of a network other than its header's.
    #[error("the mapping is of another network than the packet")]
    ForeignNetwork,
    /// The inner frame has no IP addresses, or one is unspecified.
    #[error("the frame inside has no pair of IP addresses")]
    NoInnerAddresses,
    /// An outer address is unspecified.
    #[error("an outer address is unspecified")]
    NoOuterAddresses,
}

/// Why a packet cannot be written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum EmitError {
    /// Outer source and destination are of two families: a mapping points out of this network.
    #[error("outer source and destination are of two address families")]
    MixedFamilies,
    /// There is no room for our option beside the others.
    #[error("the options have more than 252 bytes")]
    OptionsTooLong,
    /// The packet would have 65,536 bytes or more.
    #[error("the packet is too long for its outer headers")]
    PacketTooLong,
    /// The buffer is shorter than [`Datagram::buffer_len`].
    #[error("the buffer is too short")]
    BufferTooShort,
}

/// An encapsulated packet: the part that agents see, and the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram<'a> {
    /// The part that agents see and change. Its flow is the UDP source port; 16 bits are
    /// written.
    pub packet: Packet,
    /// The outer traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// The type of the payload; a frame is [`EtherType::ETHERNET`].
    pub protocol: EtherType,
    /// Whether another party's option must be understood.
    pub is_critical: bool,
    /// The options before ours, or all if ours is absent.
    pub options_before: &'a [u8],
    /// The options after ours. They are written before it.
    pub options_after: &'a [u8],
    /// The payload.
    pub payload: &'a [u8],
}

/// The outer IP header, and the UDP datagram behind it.
struct Outer<'a> {
    source: Option<Address>,
    destination: Option<Address>,
    ttl: u8,
    traffic_class: u8,
    udp: UdpView<'a>,
}

impl<'a> Datagram<'a> {
    /// Creates a learning or invalidation packet, which has no payload.
    pub fn control(packet: Packet) -> Datagram<'static> {
        Datagram {
            packet,
            traffic_class: 0,
            protocol: EtherType::ETHERNET,
            is_critical: false,
            options_before: &[],
            options_after: &[],
            payload: &[],
        }
    }

    /// Parses an IP packet; trailing bytes, such as Ethernet padding, are ignored.
    ///
    /// # Errors
    /// If the packet is not one of ours, or malformed.
    pub fn parse(bytes: &'a [u8]) -> Result<Datagram<'a>, DatagramError> {
        let outer = match bytes.first().map(|byte| byte >> 4) {
            Some(4) => parse_ipv4(bytes)?,
            Some(6) => parse_ipv6(bytes)?,
            Some(_) => return Err(WireError::BadVersion.into()),
            None => return Err(WireError::Truncated.into()),
        };
        if outer.udp.destination_port() != GENEVE_PORT {
            return Err(DatagramError::NotGeneve);
        }
        let (Some(outer_source), Some(outer_destination)) = (outer.source, outer.destination)
        else {
            return Err(DatagramError::NoOuterAddresses);
        };
        let geneve = GeneveView::new_checked(outer.udp.payload())?;
        let (option, options_before, options_after) = split_options(&geneve)?;
        Ok(Datagram {
            packet: Packet {
                outer_source,
                outer_destination,
                ttl: outer.ttl,
                flow: outer.udp.source_port().into(),
                body: body_of(&geneve, option)?,
            },
            traffic_class: outer.traffic_class,
            protocol: geneve.protocol(),
            is_critical: geneve.is_critical(),
            options_before,
            options_after,
            payload: geneve.payload(),
        })
    }

    /// The number of bytes that [`Datagram::emit`] writes.
    pub fn buffer_len(&self) -> usize {
        let ip = match self.packet.outer_source.is_ipv4() {
            true => Ipv4View::HEADER_LEN,
            false => Ipv6View::HEADER_LEN,
        };
        let geneve = GeneveView::HEADER_LEN + self.options_len();
        ip + UdpView::HEADER_LEN + geneve + self.payload.len()
    }

    /// Writes the IP packet, and returns its length.
    ///
    /// # Errors
    /// If it cannot be written; the bytes written so far are meaningless.
    ///
    /// # Panics
    /// If the length of the other options is not a multiple of four bytes.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize, EmitError> {
        let len = self.buffer_len();
        let options_len = self.options_len();
        if options_len > OPTIONS_MAX {
            return Err(EmitError::OptionsTooLong);
        }
        if len > usize::from(u16::MAX) {
            return Err(EmitError::PacketTooLong);
        }
        let bytes = bytes.get_mut(..len).ok_or(EmitError::BufferTooShort)?;
        let Packet {
            outer_source,
            outer_destination,
            ..
        } = self.packet;
        match (outer_source.to_ip(), outer_destination.to_ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let (header, datagram) = bytes.split_at_mut(Ipv4View::HEADER_LEN);
                self.emit_udp(datagram, options_len);
                let repr = Ipv4Repr {
                    dscp: self.traffic_class >> 2,
                    ecn: self.traffic_class & 3,
                    identification: 0,
                    dont_fragment: true,
                    more_fragments: false,
                    fragment_offset_bytes: 0,
                    ttl: self.packet.ttl,
                    protocol: IpProtocol::UDP,
                    source,
                    destination,
                    options: &[],
                    payload_len: datagram.len(),
                };
                repr.emit(header);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let (header, datagram) = bytes.split_at_mut(Ipv6View::HEADER_LEN);
                self.emit_udp(datagram, options_len);
                let (protocol, udp_len) = (IpProtocol::UDP, datagram.len() as u32);
                let sum = Sum::of_ipv6_pseudo_header(source, destination, protocol, udp_len);
                UdpRepr::fill_checksum(datagram, sum);
                let repr = Ipv6Repr {
                    traffic_class: self.traffic_class,
                    flow_label: 0,
                    payload_len: datagram.len(),
                    next_header: protocol,
                    hop_limit: self.packet.ttl,
                    source,
                    destination,
                };
                repr.emit(header);
            }
            _ => return Err(EmitError::MixedFamilies),
        }
        Ok(len)
    }

    /// Our option; `None` if there is nothing to write.
    fn option(&self) -> Option<OptionRepr> {
        match self.packet.body {
            Body::Data(data) if data.tags == Tags::default() => None,
            Body::Data(data) => Some(OptionRepr::Data(data.tags)),
            Body::Learning(mapping) => Some(OptionRepr::Learning(mapping)),
            Body::Invalidation(stale) => Some(OptionRepr::Invalidation(stale)),
        }
    }

    fn options_len(&self) -> usize {
        let ours = self.option();
        let ours = ours.map_or(0, |option| OPTION_HEADER_LEN + option.buffer_len());
        self.options_before.len() + self.options_after.len() + ours
    }

    /// Writes everything after the IP header. The lengths are already checked.
    fn emit_udp(&self, datagram: &mut [u8], options_len: usize) {
        let udp = UdpRepr {
            source_port: self.packet.flow as u16,
            destination_port: GENEVE_PORT,
            payload_len: datagram.len() - UdpView::HEADER_LEN,
        };
        udp.emit(datagram);
        let mut options = [0; OPTIONS_MAX];
        let (before, rest) = options.split_at_mut(self.options_before.len());
        before.copy_from_slice(self.options_before);
        let (after, rest) = rest.split_at_mut(self.options_after.len());
        after.copy_from_slice(self.options_after);
        if let Some(option) = self.option() {
            let mut value = [0; OptionRepr::MAX_LEN];
            let value = &mut value[..option.buffer_len()];
            option.emit(value);
            let (class, kind) = (OPTION_CLASS, OPTION_TYPE);
            let option = GeneveOption {
                class,
                kind,
                data: value,
            };
            option.emit(rest);
        }
        let (vni, control) = match &self.packet.body {
            Body::Data(data) => (data.vni, false),
            Body::Learning(mapping) | Body::Invalidation(mapping) => (mapping.key.vni, true),
        };
        let geneve = GeneveRepr {
            control,
            critical: self.is_critical,
            protocol: self.protocol,
            identifier: vni.number(),
            options: &options[..options_len],
        };
        let (header, payload) = datagram[UdpView::HEADER_LEN..].split_at_mut(geneve.buffer_len());
        geneve.emit(header);
        payload.copy_from_slice(self.payload);
    }
}

fn parse_ipv4(bytes: &[u8]) -> Result<Outer<'_>, DatagramError> {
    let view = Ipv4View::new_checked(bytes)?;
    if !view.has_valid_checksum() {
        return Err(DatagramError::BadChecksum);
    }
    if view.protocol() != IpProtocol::UDP || view.fragment_kind() != FragmentKind::Whole {
        return Err(DatagramError::NotGeneve);
    }
    let (source, destination) = (view.source(), view.destination());
    let udp = UdpView::new_checked(view.payload())?;
    let len = udp.len() as u16;
    let sum = Sum::of_ipv4_pseudo_header(source, destination, IpProtocol::UDP, len);
    if !udp.has_valid_checksum(sum) {
        return Err(DatagramError::BadChecksum);
    }
    Ok(Outer {
        source: Some(source.into()),
        destination: Some(destination.into()),
        ttl: view.ttl(),
        traffic_class: view.dscp() << 2 | view.ecn(),
        udp,
    })
}

fn parse_ipv6(bytes: &[u8]) -> Result<Outer<'_>, DatagramError> {
    let view = Ipv6View::new_checked(bytes)?;
    if view.next_header() != IpProtocol::UDP {
        return Err(DatagramError::NotGeneve);
    }
    let (source, destination) = (view.source(), view.destination());
    let udp = UdpView::new_checked(view.payload())?;
    let len = udp.len() as u32;
    let sum = Sum::of_ipv6_pseudo_header(source, destination, IpProtocol::UDP, len);
    if !udp.has_valid_checksum(sum) {
        return Err(DatagramError::BadChecksum);
    }
    Ok(Outer {
        source: address_of_ipv6(source),
        destination: address_of_ipv6(destination),
        ttl: view.hop_limit(),
        traffic_class: view.traffic_class(),
        udp,
    })
}

/// An address that an IPv6 header may have: neither unspecified nor IPv4-mapped, which would
/// be the same key as the IPv4 address.
fn address_of_ipv6(address: Ipv6Addr) -> Option<Address> {
    Address::new(IpAddr::V6(address)).filter(|address| !address.is_ipv4())
}

/// Our option, and the bytes of the options before and after it.
type Split<'a> = (Option<OptionRepr>, &'a [u8], &'a [u8]);

/// Finds our option among the others.
fn split_options<'a>(geneve: &GeneveView<'a>) -> Result<Split<'a>, DatagramError> {
    let bytes = geneve.option_bytes();
    let mut found = None;
    let mut position = 0;
    for option in geneve.options() {
        let end = position + option.buffer_len();
        if (option.class, option.kind) == (OPTION_CLASS, OPTION_TYPE) {
            if found.is_some() {
                return Err(DatagramError::RepeatedOption);
            }
            let repr = OptionRepr::parse(option.data)?;
            found = Some((repr, &bytes[..position], &bytes[end..]));
        }
        position = end;
    }
    Ok(found.map_or((None, bytes, &[]), |(repr, before, after)| {
        (Some(repr), before, after)
    }))
}

fn body_of(geneve: &GeneveView<'_>, option: Option<OptionRepr>) -> Result<Body, DatagramError> {
    let vni = Vni::new(geneve.identifier()).unwrap_or_default();
    let (mapping, body) = match option {
        None | Some(OptionRepr::Data(_)) if geneve.is_control() => {
            return Err(DatagramError::ControlFlag);
        }
        None => return data_of(geneve, vni, Tags::default()),
        Some(OptionRepr::Data(tags)) => return data_of(geneve, vni, tags),
        Some(OptionRepr::Learning(mapping)) => (mapping, Body::Learning(mapping)),
        Some(OptionRepr::Invalidation(stale)) => (stale, Body::Invalidation(stale)),
    };
    if !geneve.is_control() {
        return Err(DatagramError::ControlFlag);
    }
    if mapping.key.vni != vni {
        return Err(DatagramError::ForeignNetwork);
    }
    Ok(body)
}

fn data_of(geneve: &GeneveView<'_>, vni: Vni, tags: Tags) -> Result<Body, DatagramError> {
    let addresses = inner_addresses(geneve.protocol(), geneve.payload());
    let (inner_source, inner_destination) = addresses.ok_or(DatagramError::NoInnerAddresses)?;
    Ok(Body::Data(Data {
        vni,
        inner_source,
        inner_destination,
        tags,
    }))
}

/// The tenant's source and destination.
fn inner_addresses(protocol: EtherType, payload: &[u8]) -> Option<(Address, Address)> {
    let (mut ether_type, mut payload) = (protocol, payload);
    if ether_type == EtherType::ETHERNET {
        let frame = EthernetView::new_checked(payload).ok()?;
        (ether_type, payload) = (frame.ether_type(), frame.payload());
        for _ in 0..VLAN_TAGS_MAX {
            if ether_type.is_vlan() {
                let tag = VlanView::new_checked(payload).ok()?;
                (ether_type, payload) = (tag.ether_type(), tag.payload());
            }
        }
    }
    match ether_type {
        EtherType::IPV4 => {
            let view = Ipv4View::new_header_checked(payload).ok()?;
            Some((view.source().into(), view.destination().into()))
        }
        EtherType::IPV6 => {
            let view = Ipv6View::new_header_checked(payload).ok()?;
            let (source, destination) = (view.source(), view.destination());
            Some((address_of_ipv6(source)?, address_of_ipv6(destination)?))
        }
        _ => None,
    }
}
