//! What several tests of the crate use: tuples, packets, and a tracker with its clock.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use thalweg_packet::checksum::Sum;
use thalweg_packet::wire::{
    Icmpv4Repr, Icmpv4Type, Icmpv6Repr, Icmpv6Type, MacAddress, PacketBuilder, TcpFlags,
};
use thalweg_packet::{Headers, Instant};

use crate::{
    AddressTranslation, Config, ConnectionEntry, CtState, Cursor, Endpoint, NatAddresses, NatPorts,
    Previous, Selection, TrackRequest, Tracked, Tracker, TranslationKind, Tuple, protocol,
};

/// A UDP tuple in zone 0.
pub(crate) fn tuple(source: &str, from: u16, destination: &str, to: u16) -> Tuple {
    Tuple {
        source: Endpoint {
            address: address(source),
            port: from,
        },
        destination: Endpoint {
            address: address(destination),
            port: to,
        },
        icmp: (0, 0),
        zone: 0,
        protocol: protocol::UDP,
        is_ipv6: source.contains(':'),
    }
}

pub(crate) fn address(text: &str) -> Ipv6Addr {
    match text.parse().expect("an address") {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

/// The front of a packet between two addresses of one family.
pub(crate) fn ip(source: Ipv6Addr, destination: Ipv6Addr) -> PacketBuilder {
    let ethernet = PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]));
    match (source.to_ipv4_mapped(), destination.to_ipv4_mapped()) {
        (Some(source), Some(destination)) => ethernet.ipv4(source, destination),
        _ => ethernet.ipv6(source, destination),
    }
}

/// A packet with the addresses and ports of a tuple: UDP, TCP, or an echo of ICMP.
pub(crate) fn packet(tuple: &Tuple) -> PacketBuilder {
    let builder = ip(tuple.source.address, tuple.destination.address);
    let (from, to) = (tuple.source.port, tuple.destination.port);
    match tuple.protocol {
        protocol::TCP => builder.tcp(from, to),
        protocol::UDP => builder.udp(from, to).payload(b"data"),
        protocol::SCTP => builder.sctp(from, to, 9).payload(b"data"),
        protocol::ICMP => builder.icmpv4(Icmpv4Repr {
            message_type: Icmpv4Type(tuple.icmp.0),
            code: tuple.icmp.1,
            rest: [(from >> 8) as u8, from as u8, 0, 1],
        }),
        protocol::ICMPV6 => builder.icmpv6(Icmpv6Repr {
            message_type: Icmpv6Type(tuple.icmp.0),
            code: tuple.icmp.1,
            rest: [(from >> 8) as u8, from as u8, 0, 1],
        }),
        other => builder
            .protocol(thalweg_packet::wire::IpProtocol(other))
            .payload(b"data"),
    }
}

pub(crate) fn udp(source: &str, from: u16, destination: &str, to: u16) -> Vec<u8> {
    packet(&tuple(source, from, destination, to)).build()
}

/// An ICMP echo, or an answer to one.
pub(crate) fn echo(source: &str, destination: &str, identifier: u16, is_reply: bool) -> Vec<u8> {
    let tuple = echo_tuple(source, destination, identifier);
    let kind = tuple.reversed().icmp;
    packet(&Tuple {
        icmp: if is_reply { kind } else { tuple.icmp },
        ..tuple
    })
    .build()
}

pub(crate) fn echo_tuple(source: &str, destination: &str, identifier: u16) -> Tuple {
    let tuple = tuple(source, identifier, destination, identifier);
    Tuple {
        protocol: if tuple.is_ipv6 {
            protocol::ICMPV6
        } else {
            protocol::ICMP
        },
        icmp: if tuple.is_ipv6 { (128, 0) } else { (8, 0) },
        ..tuple
    }
}

/// An error of ICMP from `router`, about a frame, with at most `len` bytes of its IP packet.
pub(crate) fn error(router: &str, about: &[u8], len: usize) -> Vec<u8> {
    let packet = &about[14..];
    let packet = &packet[..packet.len().min(len)];
    let builder = if packet[0] >> 4 == 6 {
        let source: [u8; 16] = packet[8..24].try_into().expect("16 bytes");
        ip(address(router), source.into()).icmpv6(Icmpv6Repr {
            message_type: Icmpv6Type(1),
            code: 4,
            rest: [0; 4],
        })
    } else {
        let source = Ipv4Addr::new(packet[12], packet[13], packet[14], packet[15]);
        ip(address(router), source.to_ipv6_mapped()).icmpv4(Icmpv4Repr {
            message_type: Icmpv4Type(3),
            code: 3,
            rest: [0; 4],
        })
    };
    builder.payload(packet).build()
}

/// A TCP segment.
pub(crate) struct Tcp<'a> {
    pub(crate) ends: (&'a str, u16, &'a str, u16),
    pub(crate) flags: TcpFlags,
    pub(crate) numbers: (u32, u32),
    pub(crate) window: u16,
    pub(crate) options: &'a [u8],
    pub(crate) len: usize,
}

impl Default for Tcp<'_> {
    fn default() -> Self {
        Tcp {
            ends: ("10.0.0.1", 1000, "10.0.0.2", 80),
            flags: TcpFlags::ACK,
            numbers: (0, 0),
            window: 8_000,
            options: &[],
            len: 0,
        }
    }
}

impl Tcp<'_> {
    pub(crate) fn build(&self) -> Vec<u8> {
        let (source, from, destination, to) = self.ends;
        ip(address(source), address(destination))
            .tcp(from, to)
            .tcp_flags(self.flags)
            .tcp_numbers(self.numbers.0, self.numbers.1)
            .tcp_window(self.window)
            .tcp_options(self.options)
            .payload(&vec![7; self.len])
            .build()
    }
}

/// A request that commits in a zone.
pub(crate) fn commit(zone: u16) -> TrackRequest {
    TrackRequest {
        zone,
        is_commit: true,
        ..TrackRequest::default()
    }
}

/// A request that looks up and translates back.
pub(crate) fn nat() -> TrackRequest {
    TrackRequest {
        translation: Some(AddressTranslation {
            target: None,
            selection: Selection::Any,
            is_persistent: false,
        }),
        ..TrackRequest::default()
    }
}

/// A request that commits with a translation.
pub(crate) fn commit_nat(
    kind: TranslationKind,
    addresses: Option<(&str, &str)>,
    ports: NatPorts,
) -> TrackRequest {
    let range: NatAddresses = addresses.map(|(first, last)| (address(first), address(last)));
    TrackRequest {
        is_commit: true,
        translation: Some(AddressTranslation {
            target: Some((kind, range, ports)),
            selection: Selection::Any,
            is_persistent: false,
        }),
        ..TrackRequest::default()
    }
}

/// A tracker and its clock.
pub(crate) struct Stage {
    pub(crate) tracker: Tracker,
    pub(crate) now: Instant,
}

impl Stage {
    pub(crate) fn new() -> Stage {
        Stage::with(Config::default())
    }

    pub(crate) fn with(config: Config) -> Stage {
        Stage {
            tracker: Tracker::new(config),
            now: Instant::from_nanos(1_700_000_000_000_000_000),
        }
    }

    /// Tracks a packet for the first time.
    pub(crate) fn send(&self, frame: &[u8], request: &TrackRequest) -> Tracked {
        self.pass(&mut frame.to_vec(), request, Previous::default())
    }

    /// Tracks a packet that may be translated.
    pub(crate) fn pass(
        &self,
        frame: &mut [u8],
        request: &TrackRequest,
        previous: Previous,
    ) -> Tracked {
        let headers = Headers::parse(frame).expect("a frame");
        let tracked = self
            .tracker
            .track(frame, &headers, request, previous, self.now, 1);
        assert!(has_right_checksums(frame) || tracked.state.has(CtState::INVALID));
        tracked
    }

    pub(crate) fn wait(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
    }

    pub(crate) fn entries(&self) -> Vec<ConnectionEntry> {
        let (mut entries, mut cursor) = (Vec::new(), Some(Cursor::default()));
        while let Some(place) = cursor {
            let (more, next) = self.tracker.entries(place, 7, self.now);
            entries.extend(more);
            cursor = next;
        }
        entries.sort_by_key(|entry| entry.original);
        entries
    }
}

/// What a second `ct()` knows of a first.
pub(crate) fn after(tracked: &Tracked) -> Previous {
    Previous {
        state: tracked.state,
        zone: tracked.zone,
    }
}

/// Whether an untagged frame's checksums of IPv4 and of its transport are right.
pub(crate) fn has_right_checksums(frame: &[u8]) -> bool {
    let headers = Headers::parse(frame).expect("a frame");
    match crate::reading::read(frame, &headers, 0) {
        Ok(reading) => {
            let embedded = reading.places.embedded;
            // The IPv4 header of an embedded packet has a checksum of its own.
            embedded.is_none_or(|(network, transport)| {
                reading.tuple.is_ipv6
                    || Sum::default()
                        .with_bytes(&frame[network..transport])
                        .is_valid()
            })
        }
        Err(_) => false,
    }
}

/// The tuple of a frame, as a tracker reads it.
pub(crate) fn tuple_of(frame: &[u8]) -> Tuple {
    let headers = Headers::parse(frame).expect("a frame");
    let reading = crate::reading::read(frame, &headers, 0).expect("a packet that can be tracked");
    reading.tuple
}

/// The text of a state, as rules spell it.
pub(crate) fn text(state: CtState) -> String {
    let names = [
        (CtState::NEW, "new"),
        (CtState::ESTABLISHED, "est"),
        (CtState::RELATED, "rel"),
        (CtState::REPLY, "rpl"),
        (CtState::INVALID, "inv"),
        (CtState::TRACKED, "trk"),
        (CtState::SOURCE_NAT, "snat"),
        (CtState::DESTINATION_NAT, "dnat"),
    ];
    let set = names.iter().filter(|(bit, _)| state.has(*bit));
    set.map(|(_, name)| *name).collect::<Vec<_>>().join("|")
}
