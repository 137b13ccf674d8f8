//! Prepares packets that go into a tunnel: outer headers, and the socket that sends them.

use std::net::{IpAddr, SocketAddr};

use thalweg_packet::standard::header;
use thalweg_packet::wire::EtherType;
use thalweg_packet::{Headers, Packet, PortId, Scalar, TunnelValues};
use thalweg_tunnel::{
    EncapsulateError, Endpoints, HeaderSettings, InnerIp, InnerType, LinkAddresses, OuterHeader,
    Outgoing, PacketTypeMode, PerPacket, SendRefusal, TunnelFlags, TunnelKind, TunnelMetadata,
    TunnelPort, five_tuple_hash,
};

use super::counts::TunnelCause;
use super::ecn::inner_ip;
use super::hub::{TunnelTable, TunnelView};
use super::senders::SenderPlace;
use super::values::{CarriedAddresses, metadata_of};
use crate::sys::{Carrier, Departure, IpFamily};

/// The Ethernet header, which a tunnel for bare packets does not carry.
const ETHERNET_BYTES: usize = 14;

/// A packet that is ready for its outer headers.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) metadata: TunnelMetadata,
    pub(super) mark: Option<u32>,
    pub(super) inner: InnerType,
    pub(super) hash: u32,
}

/// Headers that the last packet had: those of the next one are often the same.
#[derive(Clone, Debug)]
pub(super) struct LastHeader {
    metadata: TunnelMetadata,
    inner: InnerType,
    link: Option<LinkAddresses>,
    header: OuterHeader,
}

impl LastHeader {
    /// Puts headers in front of a packet: those of a whole frame if there are link addresses.
    pub(super) fn push(
        last: &mut Option<LastHeader>,
        (kind, settings): (TunnelKind, HeaderSettings),
        (prepared, link): (Prepared, Option<LinkAddresses>),
        packet: &mut Packet,
        variable: PerPacket,
    ) -> Result<(), TunnelCause> {
        let cause = |error| match error {
            EncapsulateError::TooLong => TunnelCause::TooLong,
            _ => TunnelCause::Encapsulation,
        };
        let Prepared {
            metadata, inner, ..
        } = prepared;
        let is_same = |last: &LastHeader| {
            (last.inner, last.link) == (inner, link) && last.metadata == metadata
        };
        if !last.as_ref().is_some_and(is_same) {
            let made = match link {
                Some(link) => OuterHeader::for_frame(kind, &metadata, link, inner, settings),
                None => OuterHeader::for_payload(kind, &metadata, inner, settings),
            };
            *last = Some(LastHeader {
                header: made.map_err(cause)?,
                metadata,
                inner,
                link,
            });
        }
        let last = last.as_ref().ok_or(TunnelCause::Encapsulation)?;
        last.header.push(packet, variable).map_err(cause)
    }
}

/// Says which outer headers a packet gets, and removes its Ethernet header if the tunnel carries
/// none.
pub(super) fn prepare(
    view: TunnelView<'_>,
    (number, port): (PortId, &TunnelPort),
    packet: &mut Packet,
) -> Result<Prepared, TunnelCause> {
    let nothing = TunnelValues::default();
    let values = packet.tunnel().unwrap_or(&nothing);
    let frame = packet.bytes();
    let headers = Headers::parse(frame).map_err(|_| TunnelCause::Encapsulation)?;
    let inner = (packet.in_port(), inner_ip(frame, &headers));
    let (outgoing, left_out) = outgoing(view.table, (number, port), values, inner)?;
    if left_out > 0 {
        view.hub.counters().add_long_options(left_out);
    }
    let hash = five_tuple_hash(frame, &headers);
    let inner = match port.packet_type {
        PacketTypeMode::LegacyL3 => {
            let is_tagged = headers.has(header::VLAN_OUTER);
            if is_tagged || packet.len() < ETHERNET_BYTES {
                return Err(TunnelCause::Encapsulation);
            }
            packet.remove_front(ETHERNET_BYTES);
            InnerType::Bare(EtherType(headers.scalar(Scalar::EtherType)))
        }
        _ => InnerType::Ethernet,
    };
    Ok(Prepared {
        metadata: outgoing.metadata,
        mark: outgoing.packet_mark,
        inner,
        hash,
    })
}

/// The outer values of a packet with these values, from a port and with an IP header; and how
/// many options are left out.
pub(super) fn outgoing(
    table: &TunnelTable,
    (number, port): (PortId, &TunnelPort),
    values: &TunnelValues,
    (in_port, inner): (PortId, Option<InnerIp>),
) -> Result<(Outgoing, u64), TunnelCause> {
    let bridge = table.places.get(&number).map_or(0, |place| place.bridge);
    // A packet that came out of a tunnel still names this host, unless rules say where it goes.
    let from = table.places.get(&in_port).map(|place| place.bridge);
    let to_us = |carried: CarriedAddresses| carried.destination.filter(|to| table.own.contains(to));
    let (mut values, mut carried) = (values, CarriedAddresses::of(values));
    let mut received_at = to_us(carried).filter(|_| from.is_some());
    let nothing = TunnelValues::default();
    if received_at.is_some() && from != Some(bridge) {
        // A patch leads here, behind which nothing is left of the tunnel.
        (values, carried, received_at) = (&nothing, CarriedAddresses::of(&nothing), None);
    }
    let read = metadata_of(values, table.map(bridge));
    let (mut current, left_out) = read.map_err(|_| TunnelCause::Options)?;
    current.endpoints = endpoints_of(carried);
    let (outgoing, _) = port.outgoing(&current, inner, received_at);
    let outgoing = outgoing.map_err(|refusal| match refusal {
        SendRefusal::MixedFamilies => TunnelCause::MixedFamilies,
        SendRefusal::OwnAddress if received_at.is_some() => TunnelCause::OwnAddress,
        _ => TunnelCause::NoDestination,
    })?;
    Ok((outgoing, left_out))
}

/// What a received packet with these values says of its sender, its receiver and its key.
pub(super) fn received_metadata(values: &TunnelValues) -> TunnelMetadata {
    TunnelMetadata {
        id: values.id,
        endpoints: endpoints_of(CarriedAddresses::of(values)),
        ..TunnelMetadata::default()
    }
}

/// The addresses of a packet's values; the source counts only if it is of the destination's family.
fn endpoints_of(carried: CarriedAddresses) -> Endpoints {
    let unspecified = |address: IpAddr| match address {
        IpAddr::V4(_) => IpAddr::from([0; 4]),
        IpAddr::V6(_) => IpAddr::from([0; 16]),
    };
    let both = match (carried.source, carried.destination) {
        (None, None) => None,
        (Some(source), None) => Endpoints::new(source, unspecified(source)),
        (source, Some(destination)) => {
            let source = source.unwrap_or(unspecified(destination));
            let alone = Endpoints::new(unspecified(destination), destination);
            Endpoints::new(source, destination).or(alone)
        }
    };
    both.unwrap_or_default()
}

impl Prepared {
    /// Which socket sends the packet, and what its IP header shall say.
    pub(super) fn departure(&self, kind: TunnelKind) -> (SenderPlace, Departure) {
        let (endpoints, flags) = (self.metadata.endpoints, self.metadata.flags);
        let destination = endpoints.destination();
        let carrier = match kind.default_port() {
            Some(_) => Carrier::Udp,
            None => Carrier::Gre,
        };
        let way = (IpFamily::of(destination), carrier);
        let is_checked = flags.has(TunnelFlags::CHECKSUM);
        let settings = (flags.has(TunnelFlags::DONT_FRAGMENT), is_checked);
        let source = Some(endpoints.source()).filter(|source| !source.is_unspecified());
        let departure = Departure {
            destination: SocketAddr::new(destination, self.metadata.destination_port),
            source,
            tos: self.metadata.tos,
            ttl: self.metadata.ttl,
            mark: self.mark,
        };
        (SenderPlace::new(way, settings, self.hash), departure)
    }
}
