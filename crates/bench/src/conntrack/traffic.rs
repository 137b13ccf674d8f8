//! Connections and the frames of their two peers.
//!
//! A peer answers what it receives. So the frames of a reply are made from what left the
//! switch in the other direction, translated or not.

use std::net::Ipv4Addr;

use clap::ValueEnum;
use serde::Serialize;
use thalweg_packet::wire::{MacAddress, PacketBuilder, TcpFlags};

/// A frame of 64 bytes, without its check sequence.
pub(super) type Frame = [u8; 60];

/// The protocol of the connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Protocol {
    /// Datagrams; an answer makes a connection
    Udp,
    /// Segments; the handshake makes a connection
    Tcp,
}

/// A packet of a connection's life; a reply comes from the other peer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// The first packet.
    Opening,
    /// The reply to it.
    Answer,
    /// Any later packet of the first peer, and the last of the handshake.
    Original,
    /// Any later packet of the other peer.
    Reply,
    /// The first peer has no more to send.
    Finish,
    /// The other peer knows, and has no more to send either.
    FinishReply,
    /// The first peer knows.
    Last,
}

/// The addresses and ports of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sides {
    source: Ipv4Addr,
    destination: Ipv4Addr,
    source_port: u16,
    destination_port: u16,
}

/// Where the frames' IPv4 header begins; it has no options.
const IPV4: usize = 14;
/// The sequence numbers of the two peers' first segments.
const SEQUENCES: (u32, u32) = (1_000, 500_000);

impl Sides {
    /// Those of a connection's first packet: a client of its own, and one of 200 servers.
    pub(super) fn of_connection(number: u32) -> Sides {
        Sides {
            source: Ipv4Addr::from(0x0a00_0000 + number),
            destination: Ipv4Addr::from(0xc0a8_0001 + number % 200),
            source_port: 1_024 + (u64::from(number) * 40_503 % 60_000) as u16,
            destination_port: 443,
        }
    }

    /// Those of a frame of this module.
    pub(super) fn of_frame(frame: &Frame) -> Sides {
        let word = |start| u32::from_be_bytes(std::array::from_fn(|byte| frame[start + byte]));
        let ports = word(IPV4 + 20);
        Sides {
            source: Ipv4Addr::from(word(IPV4 + 12)),
            destination: Ipv4Addr::from(word(IPV4 + 16)),
            source_port: (ports >> 16) as u16,
            destination_port: ports as u16,
        }
    }

    /// Those of the answer.
    pub(super) fn reversed(self) -> Sides {
        Sides {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
        }
    }

    /// A frame with these addresses.
    pub(super) fn frame(self, protocol: Protocol, kind: Kind) -> Frame {
        let ethernet = PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]));
        let packet = ethernet.ipv4(self.source, self.destination);
        let packet = match protocol {
            Protocol::Udp => packet
                .udp(self.source_port, self.destination_port)
                .payload(&[0; 18]),
            Protocol::Tcp => {
                let (flags, sequence, acknowledgment) = kind.segment();
                packet
                    .tcp(self.source_port, self.destination_port)
                    .tcp_flags(flags)
                    .tcp_numbers(sequence, acknowledgment)
            }
        };
        let bytes = packet.pad_to(size_of::<Frame>()).build();
        bytes
            .try_into()
            .expect("headers and payload have at most the padded length")
    }
}

impl Kind {
    /// Flags, sequence number and acknowledgment of the segment.
    fn segment(self) -> (TcpFlags, u32, u32) {
        let (first, other) = SEQUENCES;
        let finish = TcpFlags::FIN | TcpFlags::ACK;
        match self {
            Kind::Opening => (TcpFlags::SYN, first, 0),
            Kind::Answer => (TcpFlags::SYN | TcpFlags::ACK, other, first + 1),
            Kind::Original => (TcpFlags::ACK, first + 1, other + 1),
            Kind::Reply => (TcpFlags::ACK, other + 1, first + 1),
            Kind::Finish => (finish, first + 1, other + 1),
            Kind::FinishReply => (finish, other + 1, first + 2),
            Kind::Last => (TcpFlags::ACK, first + 2, other + 2),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use thalweg_packet::Headers;

    use super::*;

    #[test]
    fn connections_differ_and_frames_have_their_sides() {
        let sides = (0..70_000).map(Sides::of_connection);
        let different: HashSet<_> = sides
            .map(|sides| (sides.source, sides.source_port))
            .collect();
        assert_eq!(different.len(), 70_000);
        for protocol in [Protocol::Udp, Protocol::Tcp] {
            let sides = Sides::of_connection(2_999_999);
            let frame = sides.frame(protocol, Kind::Opening);
            assert_eq!(Sides::of_frame(&frame), sides);
            assert_eq!(sides.reversed().reversed(), sides);
            assert_ne!(sides.reversed(), sides);
        }
    }

    /// The subject that is the tracker alone parses one frame for all.
    #[test]
    fn all_frames_of_a_protocol_have_the_same_headers() {
        for protocol in [Protocol::Udp, Protocol::Tcp] {
            let parsed = |number, kind| {
                let frame = Sides::of_connection(number).frame(protocol, kind);
                format!("{:?}", Headers::parse(&frame).unwrap())
            };
            let first = parsed(0, Kind::Opening);
            for kind in [Kind::Answer, Kind::Reply, Kind::FinishReply, Kind::Last] {
                assert_eq!(parsed(123_456, kind), first, "{kind:?}");
            }
        }
    }
}
