//! Packets of a few connections in both directions, for pipelines that track them.
//!
//! No table of connections is kept: a packet is an opening, or it comes of one that was heard
//! before. What a switch sends is heard, so that addresses that it translated get replies.
//!
//! ```text
//!   opening: SYN, datagram or echo request between two of few hosts
//!   reply:   of SYN its SYN+ACK, of that its ACK, of a request its reply, ...
//!   error:   an ICMP error that quotes a heard packet
//!   repeat:  a heard packet once more
//!   hostile: any random packet
//! ```
//!
//! 1. Replies are well-formed and their checksums are right, whatever was heard.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rand::Rng;
use thalweg_packet::wire::{
    Icmpv4Repr, Icmpv4Type, Icmpv6Repr, Icmpv6Type, MacAddress, PacketBuilder, TcpFlags,
};
use thalweg_packet::{Headers, standard::header};

use super::packets::{PacketSource, RandomPacket};
use super::{RandomConfig, pool};
use crate::seed::{Random, index_below, pick, stream};

/// Packets that are remembered for replies.
const HEARD: usize = 24;

const HOSTS: [Ipv4Addr; 4] = [
    Ipv4Addr::new(10, 0, 0, 1),
    Ipv4Addr::new(10, 0, 0, 2),
    Ipv4Addr::new(10, 0, 1, 1),
    Ipv4Addr::new(192, 168, 0, 1),
];
const IPV6_HOSTS: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
    Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1),
];

/// The server's first sequence number; a wrap follows soon.
const SERVER_SEQUENCE: u32 = u32::MAX - 3;

/// An endless, seeded source of packets that belong together.
///
/// ```
/// use thalweg_workload::{ConversationSource, RandomConfig};
///
/// let mut source = ConversationSource::new(&RandomConfig::tracking(), 1);
/// let packet = source.next_packet();
/// // The switch sent it as it came.
/// source.hear(&packet.bytes);
/// ```
pub struct ConversationSource {
    ports: u32,
    random: Random,
    hostile: PacketSource,
    heard: Vec<Datagram>,
}

/// The IP packet of a frame that was heard.
#[derive(Clone, Debug)]
struct Datagram {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    /// The IP header and what follows it, without padding.
    bytes: Vec<u8>,
    /// Length of the IP header.
    header_len: usize,
}

impl ConversationSource {
    /// Creates a source of packets for the ports of `config`.
    pub fn new(config: &RandomConfig, seed: u64) -> ConversationSource {
        ConversationSource {
            ports: config.ports,
            random: stream(seed, "random conversations"),
            hostile: PacketSource::new(config, seed),
            heard: Vec::new(),
        }
    }

    /// Remembers a frame that a switch sent; one without a whole packet of IP is ignored.
    pub fn hear(&mut self, frame: &[u8]) {
        let Some(datagram) = Datagram::of(frame) else {
            return;
        };
        if self.heard.len() < HEARD {
            return self.heard.push(datagram);
        }
        let place = index_below(&mut self.random, HEARD);
        self.heard[place] = datagram;
    }

    /// The next packet.
    pub fn next_packet(&mut self) -> RandomPacket {
        let in_port = self.random.random_range(1..=self.ports);
        let heard = match self.heard.len() {
            0 => None,
            count => Some(self.heard[index_below(&mut self.random, count)].clone()),
        };
        let bytes = match (self.random.random_range(0..20_u8), heard) {
            (0..10, Some(heard)) => self.reply(&heard),
            (10..13, Some(heard)) => Some(self.repeat(&heard)),
            (13, Some(heard)) => Some(self.error(&heard)),
            (14, _) => return self.hostile.next_packet(),
            _ => None,
        };
        let bytes = bytes.unwrap_or_else(|| self.opening());
        if self.random.random_ratio(1, 3) {
            // As if it had gone through unchanged.
            self.hear(&bytes);
        }
        RandomPacket { in_port, bytes }
    }

    fn ethernet(&mut self) -> PacketBuilder {
        let mut mac = || MacAddress::from_u64(*pick(&mut self.random, &pool::ETHERNET));
        let (source, destination) = (mac(), mac());
        let builder = PacketBuilder::ethernet(source, destination);
        match self.random.random_ratio(1, 10) {
            true => builder.vlan(*pick(&mut self.random, &pool::VLANS), 0),
            false => builder,
        }
    }

    fn between(&mut self, source: IpAddr, destination: IpAddr) -> PacketBuilder {
        let ethernet = self.ethernet();
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => ethernet.ipv4(source, destination),
            (IpAddr::V6(source), IpAddr::V6(destination)) => ethernet.ipv6(source, destination),
            _ => unreachable!("both are of one packet"),
        }
    }

    /// The first packet of a connection, perhaps of one that exists.
    fn opening(&mut self) -> Vec<u8> {
        let random = &mut self.random;
        let is_ipv6 = random.random_ratio(1, 4);
        let (source, destination): (IpAddr, IpAddr) = match is_ipv6 {
            true => (
                (*pick(random, &IPV6_HOSTS)).into(),
                (*pick(random, &IPV6_HOSTS)).into(),
            ),
            false => (
                (*pick(random, &HOSTS)).into(),
                (*pick(random, &HOSTS)).into(),
            ),
        };
        let source_port = *pick(random, &[1024, 1025]);
        let destination_port = *pick(random, &[80, 53, 21, 69]);
        let kind = random.random_range(0..10_u8);
        let builder = self.between(source, destination);
        let builder = match kind {
            0..5 => builder
                .tcp(source_port, destination_port)
                .tcp_flags(TcpFlags::SYN)
                .tcp_numbers(1000, 0)
                .tcp_window(8192),
            5..8 => builder.udp(source_port, destination_port).payload(b"ask"),
            _ if is_ipv6 => builder.icmpv6(Icmpv6Repr::echo_request(source_port, 1)),
            _ => builder.icmpv4(Icmpv4Repr::echo_request(source_port, 1)),
        };
        builder.build()
    }

    /// The packet once more, in another frame.
    fn repeat(&mut self, heard: &Datagram) -> Vec<u8> {
        let mut frame = self.between(heard.source, heard.destination).build();
        let place = Headers::parse(&frame).ok().and_then(|headers| {
            let ipv4 = headers.offset(header::IPV4);
            ipv4.or(headers.offset(header::IPV6))
        });
        frame.truncate(place.unwrap_or(frame.len()));
        frame.extend_from_slice(&heard.bytes);
        frame
    }

    /// What the destination answers; `None` if it answers nothing.
    fn reply(&mut self, heard: &Datagram) -> Option<Vec<u8>> {
        let payload = &heard.bytes[heard.header_len..];
        let word = |place: usize| {
            let bytes = payload.get(place..place + 2)?;
            Some(u16::from_be_bytes([bytes[0], bytes[1]]))
        };
        let builder = self.between(heard.destination, heard.source);
        let builder = match (heard.protocol, heard.source.is_ipv6()) {
            (6, _) => return self.tcp_reply(builder, payload),
            (17, _) => builder.udp(word(2)?, word(0)?).payload(b"told"),
            (1, false) if word(0)? == 0x0800 => {
                builder.icmpv4(Icmpv4Repr::echo_reply(word(4)?, word(6)?))
            }
            (58, true) if word(0)? == 0x8000 => {
                builder.icmpv6(Icmpv6Repr::echo_reply(word(4)?, word(6)?))
            }
            _ => return None,
        };
        Some(builder.build())
    }

    fn tcp_reply(&mut self, builder: PacketBuilder, heard: &[u8]) -> Option<Vec<u8>> {
        let half = |place: usize| {
            let bytes = heard.get(place..place + 4)?;
            Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        };
        let ports = half(0)?;
        let (sequence, acknowledged) = (half(4)?, half(8)?);
        let (offset, flags) = (heard.get(12)? >> 4, TcpFlags((*heard.get(13)?).into()));
        let data = heard.len().saturating_sub(usize::from(offset) * 4) as u32;
        let is = |flag: TcpFlags| flags.0 & flag.0 != 0;
        let builder = builder
            .tcp(ports as u16, (ports >> 16) as u16)
            .tcp_window(8192);
        if is(TcpFlags::RST) {
            return None;
        }
        let next = sequence.wrapping_add(data + u32::from(is(TcpFlags::SYN) || is(TcpFlags::FIN)));
        let (flags, own) = match (is(TcpFlags::SYN), is(TcpFlags::ACK)) {
            (true, false) => (TcpFlags::SYN.0 | TcpFlags::ACK.0, SERVER_SEQUENCE),
            (false, false) => return None,
            _ => {
                let more = match self.random.random_range(0..12_u8) {
                    0 => TcpFlags::FIN.0,
                    1 => TcpFlags::RST.0,
                    2..5 => TcpFlags::PSH.0,
                    _ => 0,
                };
                (TcpFlags::ACK.0 | more, acknowledged)
            }
        };
        // Now and then a segment that is outside of the window.
        let own = match self.random.random_ratio(1, 20) {
            true => own.wrapping_add(1 << 20),
            false => own,
        };
        let builder = builder.tcp_flags(TcpFlags(flags)).tcp_numbers(own, next);
        Some(match flags & TcpFlags::PSH.0 {
            0 => builder.build(),
            _ => builder.payload(b"data").build(),
        })
    }

    /// An error of ICMP that quotes the packet.
    fn error(&mut self, heard: &Datagram) -> Vec<u8> {
        let builder = self.between(heard.destination, heard.source);
        let quoted = heard.bytes.len().min(heard.header_len + 8);
        let builder = match heard.source {
            IpAddr::V4(_) => builder.icmpv4(Icmpv4Repr {
                message_type: Icmpv4Type::DESTINATION_UNREACHABLE,
                code: 1,
                rest: [0; 4],
            }),
            IpAddr::V6(_) => builder.icmpv6(Icmpv6Repr {
                message_type: Icmpv6Type::DESTINATION_UNREACHABLE,
                code: 1,
                rest: [0; 4],
            }),
        };
        builder.payload(&heard.bytes[..quoted]).build()
    }
}

impl Datagram {
    fn of(frame: &[u8]) -> Option<Datagram> {
        let headers = Headers::parse(frame).ok()?;
        if let Some(start) = headers.offset(header::IPV4) {
            let bytes = &frame[start..];
            let length = usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
            let bytes = bytes.get(..length)?;
            let address = |place: usize| {
                let bytes: [u8; 4] = bytes.get(place..place + 4)?.try_into().ok()?;
                Some(IpAddr::from(bytes))
            };
            let header_len = usize::from(bytes.first()? & 15) * 4;
            bytes.get(header_len..)?;
            return Some(Datagram {
                source: address(12)?,
                destination: address(16)?,
                protocol: *bytes.get(9)?,
                bytes: bytes.to_vec(),
                header_len,
            });
        }
        let start = headers.offset(header::IPV6)?;
        let bytes = &frame[start..];
        let length = 40 + usize::from(u16::from_be_bytes([*bytes.get(4)?, *bytes.get(5)?]));
        let bytes = bytes.get(..length)?;
        let address = |place: usize| {
            let bytes: [u8; 16] = bytes.get(place..place + 16)?.try_into().ok()?;
            Some(IpAddr::from(bytes))
        };
        Some(Datagram {
            source: address(8)?,
            destination: address(24)?,
            protocol: *bytes.get(6)?,
            bytes: bytes.to_vec(),
            header_len: 40,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_handshake_and_an_error_come_of_what_was_heard() {
        let mut source = ConversationSource::new(&RandomConfig::tracking(), 5);
        let mut seen = HashSet::new();
        for _ in 0..3_000 {
            let packet = source.next_packet();
            assert!((1..=4).contains(&packet.in_port));
            let Some(datagram) = Datagram::of(&packet.bytes) else {
                continue;
            };
            let payload = &datagram.bytes[datagram.header_len..];
            match datagram.protocol {
                6 if payload.len() >= 20 => seen.insert(("tcp", payload[13])),
                1 | 58 if !payload.is_empty() => seen.insert(("icmp", payload[0])),
                _ => seen.insert(("other", 0)),
            };
        }
        for expected in [2, 0x12, 0x10, 0x18, 0x11, 0x14] {
            assert!(seen.contains(&("tcp", expected)), "flags {expected:#x}");
        }
        for expected in [8, 0, 3, 128, 129, 1] {
            assert!(seen.contains(&("icmp", expected)), "type {expected}");
        }
    }

    #[test]
    fn the_seed_decides() {
        let draw = |seed| {
            let mut source = ConversationSource::new(&RandomConfig::tracking(), seed);
            (0..100).map(|_| source.next_packet()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
