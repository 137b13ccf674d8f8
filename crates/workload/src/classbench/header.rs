//! Headers to classify by a filter set.
//!
//! A [`Header`] is the five-tuple of one packet. [`Filter::header`] draws one that the filter
//! matches: every open address, port and protocol is drawn uniformly. So headers from
//! uniformly drawn filters have no locality, in time or in address, beyond that of the
//! filters. An earlier filter may match the header too: the drawn filter need not be the
//! classifier's answer.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rand::Rng;
use thalweg_packet::wire::{IpProtocol, MacAddress, PacketBuilder};

use super::protocol::{SCTP, TCP, UDP};
use super::{Filter, PortRange, Prefix, WITH_PORTS};

/// A five-tuple; its [`Display`](fmt::Display) is a line of a trace as ClassBench's
/// `trace_generator` writes them: numbers separated by tabs, addresses as numbers too.
///
/// ```
/// use thalweg_workload::Header;
///
/// let header = Header::udp([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 53, 5_353);
/// assert_eq!(header.to_string(), "167772161\t167772162\t53\t5353\t17");
/// assert_eq!(header.packet().len(), 60);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// The source address.
    pub source: IpAddr,
    /// The destination address, of the same family.
    pub destination: IpAddr,
    /// The source port; 0 without ports.
    pub source_port: u16,
    /// The destination port; 0 without ports.
    pub destination_port: u16,
    /// The IP protocol.
    pub protocol: u8,
}

impl Header {
    /// The length of packets, if their headers leave room for a payload.
    const PACKET_BYTES: usize = 60;

    /// The header of a UDP packet.
    pub const fn udp(source: IpAddr, destination: IpAddr, from: u16, to: u16) -> Header {
        Header {
            source,
            destination,
            source_port: from,
            destination_port: to,
            protocol: UDP,
        }
    }

    /// An untagged Ethernet packet with this header.
    ///
    /// # Panics
    /// If the addresses are of two families.
    pub fn packet(&self) -> Vec<u8> {
        let mac = |last| MacAddress([2, 0, 0, 0, 0, last]);
        let builder = PacketBuilder::ethernet(mac(2), mac(1));
        let builder = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => builder.ipv4(source, destination),
            (IpAddr::V6(source), IpAddr::V6(destination)) => builder.ipv6(source, destination),
            _ => panic!("addresses of two families"),
        };
        let (from, to) = (self.source_port, self.destination_port);
        let builder = match self.protocol {
            TCP => builder.tcp(from, to),
            UDP => builder.udp(from, to),
            SCTP => builder.sctp(from, to, 0),
            other => builder.protocol(IpProtocol(other)),
        };
        builder.pad_to(Self::PACKET_BYTES).build()
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |address| match address {
            IpAddr::V4(address) => u128::from(u32::from(address)),
            IpAddr::V6(address) => u128::from(address),
        };
        let (source, destination) = (number(self.source), number(self.destination));
        write!(
            f,
            "{source}\t{destination}\t{}\t{}\t{}",
            self.source_port, self.destination_port, self.protocol
        )
    }
}

impl Filter {
    /// Draws a header that the filter matches.
    ///
    /// Ignores the sixth field of the filter.
    pub fn header(&self, random: &mut impl Rng) -> Header {
        // A filter with ports but no protocol applies to TCP and UDP.
        let protocol = self
            .carrier()
            .unwrap_or([TCP, UDP][random.random_range(0..2)]);
        let has_ports = WITH_PORTS.contains(&protocol);
        let mut port = |range: PortRange| match has_ports {
            true => random.random_range(range.low()..=range.high()),
            false => 0,
        };
        let (source_port, destination_port) =
            (port(self.source_ports), port(self.destination_ports));
        let mut address = |prefix: Prefix| {
            let address = prefix.address() | random.random::<u128>() & prefix.free_bits();
            match prefix.width() {
                32 => IpAddr::V4(Ipv4Addr::from(address as u32)),
                _ => IpAddr::V6(Ipv6Addr::from(address)),
            }
        };
        Header {
            source: address(self.source),
            destination: address(self.destination),
            source_port,
            destination_port,
            protocol,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_filters;
    use super::*;
    use crate::seed::stream;

    fn header(line: &str, seed: u64) -> Header {
        let filter = parse_filters("f", line).unwrap()[0];
        filter.header(&mut stream(seed, "header"))
    }

    #[test]
    fn a_header_lies_in_its_filter() {
        for seed in 0..200 {
            let line = "@1.2.3.0/25 0.0.0.0/0 1024 : 65535 80 : 83 0x06/0xFF";
            let header = header(line, seed);
            let IpAddr::V4(source) = header.source else {
                panic!("a filter of IPv4");
            };
            assert_eq!(u32::from(source) >> 7, 0x0102_0300 >> 7);
            assert!(header.source_port >= 1024 && (80..=83).contains(&header.destination_port));
            assert_eq!(header.protocol, TCP);
        }
        let any = "@::/0 2001:db8::/32 0 : 65535 0 : 65535 0x00/0x00";
        let seen = |protocol| (0..64).any(|seed| header(any, seed).protocol == protocol);
        assert!(seen(TCP) && seen(UDP));
        assert!(matches!(
            header(any, 1).destination,
            IpAddr::V6(a) if a.segments()[..2] == [0x2001, 0xdb8]
        ));
        let icmp = "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x01/0xFF";
        assert_eq!(header(icmp, 1).source_port, 0);
        let carried = header("@1.0.0.0/8 0.0.0.0/0 7 : 7 0 : 65535 0x08/0xFF", 1);
        assert_eq!((carried.protocol, carried.source_port), (SCTP, 7));
    }
}
