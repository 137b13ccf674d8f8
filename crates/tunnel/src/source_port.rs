//! The UDP source port of an outer packet, which spreads the flows in a tunnel over paths.
//!
//! Open vSwitch hashes addresses, protocol and ports of the inner packet (`flow_hash_5tuple` of
//! `lib/flow.c`) and scales the hash into a range (`netdev_tnl_get_src_port`). The hash here is
//! that of its builds without SSE 4.2, MurmurHash3 over 32-bit words, so the ports are the same,
//! with two exceptions: packets with two VLAN tags are hashed behind both, as if `vlan-limit` were
//! 2, and IPv6 packets with extension headers by their transport protocol. Open vSwitch does the
//! latter on one of its paths only.

use thalweg_packet::standard::header;
use thalweg_packet::{Headers, Scalar};

use crate::number::{Base, signed};

/// The range of outer UDP source ports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SourcePorts {
    least: u16,
    end: u16,
}

impl Default for SourcePorts {
    /// 32768 to 60999, as in Open vSwitch.
    fn default() -> Self {
        SourcePorts {
            least: 32_768,
            end: 61_000,
        }
    }
}

impl SourcePorts {
    /// The ports from `least` up to but without `end`, and `least` in any case; `None` if `least`
    /// is 0 or more than `end`.
    pub const fn new(least: u16, end: u16) -> Option<Self> {
        if least == 0 || least > end {
            return None;
        }
        Some(SourcePorts { least, end })
    }

    /// The port of a packet whose hash is `hash`.
    pub const fn port(self, hash: u32) -> u16 {
        let scaled = (hash as u64 * (self.end - self.least) as u64) >> 32;
        self.least + scaled as u16
    }

    /// `tnl/egress_port_range [min max]`: sets or tells the range, and gives the answer.
    ///
    /// Open vSwitch answers a bad number without an error, and so does this.
    pub fn range_command(&mut self, bounds: Option<[&str; 2]>) -> String {
        let Some([first, second]) = bounds else {
            let SourcePorts { least, end } = self;
            return format!("Tunnel UDP source port range: {least}-{end}\n");
        };
        let (Some(first), Some(second)) = (port_number(first), port_number(second)) else {
            let is_first = port_number(first).is_none();
            return if is_first {
                "Invalid min."
            } else {
                "Invalid max."
            }
            .to_owned();
        };
        self.least = first.min(second);
        self.end = first.max(second);
        "OK".to_owned()
    }
}

/// A port that is not 0, from the front of a text.
fn port_number(text: &str) -> Option<u16> {
    let (number, _) = signed(text, Base::Decimal);
    u16::try_from(number).ok().filter(|port| *port != 0)
}

/// Open vSwitch's hash of a packet's addresses, protocol and ports.
///
/// `headers` are those of the Ethernet frame `frame`. Packets of one connection and direction have
/// the same hash. All packets that are neither IP nor ARP have one hash.
pub fn five_tuple_hash(frame: &[u8], headers: &Headers) -> u32 {
    let mut words = Words(0);
    let protocol = match headers.scalar(Scalar::EtherType) {
        0x0800 => {
            words.add_bytes(bytes_of(frame, headers.offset(header::IPV4), 12, 8));
            headers.scalar(Scalar::IpProtocol)
        }
        0x86dd => {
            words.add_bytes(bytes_of(frame, headers.offset(header::IPV6_CHAIN), 8, 32));
            headers.scalar(Scalar::IpProtocol)
        }
        0x0806 => {
            let at = headers.offset(header::ARP);
            words.add_bytes(bytes_of(frame, at, 14, 4));
            words.add_bytes(bytes_of(frame, at, 24, 4));
            headers.scalar(Scalar::ArpOperation)
        }
        _ => return words.finish(),
    };
    words.add(protocol.into());
    // Operations of ARP count as protocols here: a request has the number of ICMP.
    match protocol {
        6 | 17 | 132 => {
            let found = [header::TCP, header::UDP, header::SCTP].map(|id| headers.offset(id));
            words.add_bytes(bytes_of(frame, found.into_iter().flatten().next(), 0, 4));
        }
        1 | 58 => {
            let found = [header::ICMPV4, header::ICMPV6].map(|id| headers.offset(id));
            let both = bytes_of(frame, found.into_iter().flatten().next(), 0, 2);
            words.add_bytes(&[0, both[0], 0, both[1]]);
        }
        _ => {}
    }
    words.finish()
}

/// The longest bytes that are hashed at once: two IPv6 addresses.
const ZEROS: [u8; 32] = [0; 32];

/// `len` bytes of a header; zeros if the packet does not have it.
fn bytes_of(frame: &[u8], header: Option<usize>, offset: usize, len: usize) -> &[u8] {
    let found = header.and_then(|at| frame.get(at + offset..at + offset + len));
    found.unwrap_or(&ZEROS[..len])
}

/// MurmurHash3 over 32-bit words, with Open vSwitch's end.
struct Words(u32);

impl Words {
    fn add(&mut self, word: u32) {
        let mixed = word
            .wrapping_mul(0xcc9e_2d51)
            .rotate_left(15)
            .wrapping_mul(0x1b87_3593);
        self.0 = (self.0 ^ mixed)
            .rotate_left(13)
            .wrapping_mul(5)
            .wrapping_add(0xe654_6b64);
    }

    /// Adds bytes as words of a little-endian processor.
    fn add_bytes(&mut self, bytes: &[u8]) {
        for word in bytes.chunks_exact(4) {
            self.add(u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        }
    }

    fn finish(self) -> u32 {
        let mut hash = self.0 ^ 42;
        hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
        hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
        hash ^ hash >> 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_lie_in_their_range() {
        let usual = SourcePorts::default();
        assert_eq!((usual.port(0), usual.port(u32::MAX)), (32_768, 60_999));
        assert_eq!(usual.port(1 << 31), 32_768 + (61_000 - 32_768) / 2);
        let one = SourcePorts::new(7, 8).expect("one port");
        assert_eq!((one.port(0), one.port(u32::MAX)), (7, 7));
        assert_eq!(SourcePorts::new(0, 8), None);
        assert_eq!(SourcePorts::new(9, 8), None);
        let one = SourcePorts::new(8, 8).expect("one port");
        assert_eq!((one.port(0), one.port(u32::MAX)), (8, 8));
    }

    #[test]
    fn the_range_is_set_as_in_open_vswitch() {
        let mut ports = SourcePorts::default();
        let told = |ports: &mut SourcePorts| ports.range_command(None);
        assert_eq!(
            told(&mut ports),
            "Tunnel UDP source port range: 32768-61000\n"
        );
        assert_eq!(ports.range_command(Some(["0", "x"])), "Invalid min.");
        assert_eq!(ports.range_command(Some(["5", "65536"])), "Invalid max.");
        assert_eq!(ports.range_command(Some(["9000", "8000"])), "OK");
        assert_eq!(
            told(&mut ports),
            "Tunnel UDP source port range: 8000-9000\n"
        );
        assert_eq!(ports.port(0), 8000);
    }

    #[test]
    fn every_bit_of_the_tuple_counts_and_no_other() {
        let mut frame = [0; 60];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x45;
        frame[17] = 46;
        frame[23] = 6;
        frame[46] = 0x50;
        let hash_of = |frame: &[u8]| {
            let headers = Headers::parse(frame).expect("a frame");
            five_tuple_hash(frame, &headers)
        };
        let before = hash_of(&frame);
        for at in 0..60 {
            // What these bytes say decides whether there are addresses and ports.
            if matches!(at, 12..=14 | 16..=17 | 20..=21 | 46) {
                continue;
            }
            let counts = matches!(at, 23 | 26..=37);
            for bit in 0..8 {
                frame[at] ^= 1 << bit;
                assert_eq!(hash_of(&frame) != before, counts, "byte {at}, bit {bit}");
                frame[at] ^= 1 << bit;
            }
        }
    }
}
