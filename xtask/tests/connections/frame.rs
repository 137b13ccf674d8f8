//! Frames of the sequences, built and read byte by byte, apart from Thalweg's own code.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Bytes of the Ethernet header.
const ETHERNET: usize = 14;
/// The least bytes of a frame without its checksum.
const FRAME_MIN: usize = 60;

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// An address and a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct End {
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
}

/// What an IP header carries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    Tcp(Segment),
    Udp {
        len: usize,
        has_checksum: bool,
    },
    /// A question or an answer, with the port as identifier.
    Icmp {
        kind: u8,
        len: usize,
    },
    /// An error about a packet, from its IP header on.
    IcmpError {
        kind: u8,
        code: u8,
        quoted: Vec<u8>,
    },
    /// Another protocol.
    Other(u8),
}

/// A segment of TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Segment {
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    pub(crate) scale: Option<u8>,
    pub(crate) len: usize,
}

/// The ports of ranges.
pub(crate) const CHOSEN_PORTS: Range<u16> = 40_000..40_064;

/// Whether only a switch that chose it sends this port.
pub(crate) fn is_chosen_port(port: u16) -> bool {
    CHOSEN_PORTS.contains(&port)
}

/// What a tracker may choose: each switch chooses by its own numbers.
#[derive(Clone, Copy, Default)]
pub(crate) struct Choices {
    /// Addresses in 10.9.9.0/24 and fd09::/64.
    pub(crate) has_addresses: bool,
    /// Ports in [`CHOSEN_PORTS`].
    pub(crate) has_ports: bool,
}

impl Choices {
    pub(crate) fn has_any(self) -> bool {
        self.has_addresses || self.has_ports
    }
}

fn protocol_of(body: &Body, is_ipv6: bool) -> u8 {
    match body {
        Body::Tcp(_) => TCP,
        Body::Udp { .. } => UDP,
        Body::Icmp { .. } | Body::IcmpError { .. } if is_ipv6 => ICMPV6,
        Body::Icmp { .. } | Body::IcmpError { .. } => ICMP,
        Body::Other(protocol) => *protocol,
    }
}

fn payload(len: usize) -> impl Iterator<Item = u8> {
    (0..len).map(|place| (place % 251) as u8)
}

fn transport(source: End, destination: End, body: &Body) -> Vec<u8> {
    let [from, to] = [source, destination].map(|end| end.port.to_be_bytes());
    let ports = [from, to].concat();
    match body {
        Body::Tcp(segment) => {
            let options: &[u8] = &match segment.scale {
                Some(scale) => vec![1, 3, 3, scale],
                None => Vec::new(),
            };
            let mut bytes = ports;
            bytes.extend(segment.sequence.to_be_bytes());
            bytes.extend(segment.acknowledgment.to_be_bytes());
            bytes.extend([(5 + options.len() as u8 / 4) << 4, segment.flags]);
            bytes.extend(segment.window.to_be_bytes());
            bytes.extend([0; 4]);
            bytes.extend(options);
            bytes.extend(payload(segment.len));
            bytes
        }
        Body::Udp { len, .. } => {
            let mut bytes = ports;
            bytes.extend((8 + *len as u16).to_be_bytes());
            bytes.extend([0; 2]);
            bytes.extend(payload(*len));
            bytes
        }
        Body::Icmp { kind, len } => {
            let mut bytes = vec![*kind, 0, 0, 0];
            bytes.extend([from, [0, 1]].concat());
            bytes.extend(payload(*len));
            bytes
        }
        Body::IcmpError { kind, code, quoted } => {
            let mut bytes = vec![*kind, *code, 0, 0, 0, 0, 0, 0];
            bytes.extend(quoted);
            bytes
        }
        Body::Other(_) => [0x20, 0, 0x88, 0xbe, 0, 0, 0, 7].into(),
    }
}

/// A frame with correct checksums.
pub(crate) fn frame(source: End, destination: End, body: &Body) -> Vec<u8> {
    let payload = transport(source, destination, body);
    let is_ipv6 = source.address.is_ipv6();
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    let protocol = protocol_of(body, is_ipv6);
    match (source.address, destination.address) {
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((payload.len() as u16).to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend(from.octets());
            frame.extend(to.octets());
        }
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + payload.len() as u16).to_be_bytes());
            frame.extend([0x12, 0x34, 0, 0, 64, protocol, 0, 0]);
            frame.extend(from.octets());
            frame.extend(to.octets());
        }
        _ => panic!("both ends have one version"),
    }
    frame.extend(payload);
    let has_none = matches!(
        body,
        Body::Udp {
            has_checksum: false,
            ..
        }
    );
    write_checksums(&mut frame, has_none);
    pad(frame)
}

fn pad(mut frame: Vec<u8>) -> Vec<u8> {
    frame.resize(frame.len().max(FRAME_MIN), 0);
    frame
}

fn sum(bytes: &[u8]) -> u32 {
    let mut words = bytes.chunks(2);
    let mut total = 0_u32;
    for word in &mut words {
        total += u32::from(word[0]) << 8 | word.get(1).map_or(0, |byte| u32::from(*byte));
    }
    total
}

fn folded(mut total: u32) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

/// Where the parts of an IP packet lie.
pub(crate) struct Places {
    is_ipv6: bool,
    ip: usize,
    transport: usize,
    end: usize,
    protocol: u8,
    is_fragment: bool,
}

impl Places {
    /// Of the IP packet at `ip`; nothing if there is none.
    fn find(bytes: &[u8], ip: usize) -> Option<Places> {
        let word = |at: usize| {
            Some(usize::from(u16::from_be_bytes([
                *bytes.get(at)?,
                *bytes.get(at + 1)?,
            ])))
        };
        match bytes.get(ip)? >> 4 {
            4 => Some(Places {
                is_ipv6: false,
                ip,
                transport: ip + 20,
                end: ip + word(ip + 2)?,
                protocol: *bytes.get(ip + 9)?,
                is_fragment: word(ip + 6)? & 0x3fff != 0,
            }),
            6 => {
                let next = *bytes.get(ip + 6)?;
                let is_fragment = next == 44;
                Some(Places {
                    is_ipv6: true,
                    ip,
                    transport: ip + if is_fragment { 48 } else { 40 },
                    end: ip + 40 + word(ip + 4)?,
                    protocol: if is_fragment {
                        *bytes.get(ip + 40)?
                    } else {
                        next
                    },
                    is_fragment,
                })
            }
            _ => None,
        }
    }

    fn addresses(&self) -> [Range<usize>; 2] {
        match self.is_ipv6 {
            true => [self.ip + 8..self.ip + 24, self.ip + 24..self.ip + 40],
            false => [self.ip + 12..self.ip + 16, self.ip + 16..self.ip + 20],
        }
    }

    fn has_ports(&self) -> bool {
        matches!(self.protocol, TCP | UDP)
    }

    fn is_error(&self, bytes: &[u8]) -> bool {
        let kind = bytes[self.transport];
        self.protocol == ICMP && matches!(kind, 3 | 4 | 5 | 11 | 12)
            || self.protocol == ICMPV6 && kind < 128
    }

    /// Where the checksum of the transport header lies.
    fn checksum(&self) -> Option<usize> {
        let at = match self.protocol {
            TCP => 16,
            UDP => 6,
            ICMP if !self.is_ipv6 => 2,
            ICMPV6 if self.is_ipv6 => 2,
            _ => return None,
        };
        Some(self.transport + at)
    }

    fn pseudo_sum(&self, bytes: &[u8]) -> u32 {
        if self.protocol == ICMP {
            return 0;
        }
        let addresses: u32 = self
            .addresses()
            .map(|place| sum(&bytes[place]))
            .iter()
            .sum();
        addresses + u32::from(self.protocol) + (self.end - self.transport) as u32
    }
}

fn write_checksums(frame: &mut [u8], has_none: bool) {
    let Some(places) = Places::find(frame, ETHERNET) else {
        return;
    };
    if !places.is_ipv6 {
        write_header_checksum(frame);
    }
    if let Some(at) = places.checksum() {
        frame[at..at + 2].fill(0);
        let total = places.pseudo_sum(frame) + sum(&frame[places.transport..places.end]);
        let checksum = match folded(total) {
            _ if has_none && !places.is_ipv6 => 0,
            0 if places.protocol == UDP => 0xffff,
            checksum => checksum,
        };
        frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}

fn write_header_checksum(frame: &mut [u8]) {
    frame[ETHERNET + 10..ETHERNET + 12].fill(0);
    let checksum = folded(sum(&frame[ETHERNET..ETHERNET + 20]));
    frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&checksum.to_be_bytes());
}

/// Breaks the checksum of the transport header.
pub(crate) fn spoil(frame: &mut [u8]) {
    let places = Places::find(frame, ETHERNET);
    if let Some(at) = places.and_then(|places| places.checksum()) {
        frame[at] ^= 0x55;
    }
}

/// The frame as fragments with at most `size` bytes of data, a multiple of 8.
pub(crate) fn fragments(frame: &[u8], size: usize, identification: u16) -> Vec<Vec<u8>> {
    let places = Places::find(frame, ETHERNET).expect("it has an IP header");
    let data = &frame[places.transport..places.end];
    let count = data.len().div_ceil(size);
    let part = |(number, part): (usize, &[u8])| {
        let is_last = number + 1 == count;
        let offset = (number * size) as u16;
        let mut bytes = frame[..places.transport].to_vec();
        if places.is_ipv6 {
            bytes[ETHERNET + 6] = 44;
            bytes[ETHERNET + 4..ETHERNET + 6]
                .copy_from_slice(&(8 + part.len() as u16).to_be_bytes());
            bytes.extend([places.protocol, 0]);
            bytes.extend((offset | u16::from(!is_last)).to_be_bytes());
            bytes.extend([0, 0]);
            bytes.extend(identification.to_be_bytes());
        } else {
            bytes[ETHERNET + 2..ETHERNET + 4]
                .copy_from_slice(&(20 + part.len() as u16).to_be_bytes());
            bytes[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&identification.to_be_bytes());
            let field = (offset / 8) | (u16::from(!is_last) << 13);
            bytes[ETHERNET + 6..ETHERNET + 8].copy_from_slice(&field.to_be_bytes());
            write_header_checksum(&mut bytes);
        }
        bytes.extend(part);
        pad(bytes)
    };
    data.chunks(size).enumerate().map(part).collect()
}

/// The IP packet of a frame, without padding, cut after `len` bytes.
pub(crate) fn quoted(frame: &[u8], len: usize) -> Vec<u8> {
    let places = Places::find(frame, ETHERNET).expect("it has an IP header");
    let end = places.end.min(places.ip + len);
    frame[places.ip..end].to_vec()
}

/// The ends of a packet that is no fragment and no error.
pub(crate) fn ends(frame: &[u8]) -> Option<[End; 2]> {
    let places = Places::find(frame, ETHERNET)?;
    if places.is_fragment || places.is_error(frame) {
        return None;
    }
    let address = |place: Range<usize>| -> Option<IpAddr> {
        let bytes = &frame[place];
        match places.is_ipv6 {
            true => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
            false => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        }
    };
    let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let ports = match places.protocol {
        TCP | UDP => [port(places.transport), port(places.transport + 2)],
        ICMP | ICMPV6 => [port(places.transport + 4); 2],
        _ => [0; 2],
    };
    let [source, destination] = places.addresses();
    let end = |place, port| {
        Some(End {
            address: address(place)?,
            port,
        })
    };
    Some([end(source, ports[0])?, end(destination, ports[1])?])
}

/// Whether the checksum of an IPv4 header, and that of what follows if it is there, hold.
fn is_sound(frame: &[u8], places: &Places) -> bool {
    let is_header_sound = places.is_ipv6 || folded(sum(&frame[places.ip..places.ip + 20])) == 0;
    let is_transport_sound = match places.checksum() {
        Some(at) if places.protocol == UDP && frame[at..at + 2] == [0, 0] => true,
        Some(_) => {
            folded(places.pseudo_sum(frame) + sum(&frame[places.transport..places.end])) == 0
        }
        None => true,
    };
    is_header_sound && is_transport_sound
}

/// Whether a frame is a fragment of IPv4, but not the first.
pub(crate) fn is_later_fragment(frame: &[u8]) -> bool {
    frame[12..14] == [8, 0] && u16::from_be_bytes([frame[20], frame[21]]) & 0x1fff != 0
}

/// Replaces what each switch chooses for itself. A checksum that follows from it becomes zero if
/// it is right, or one.
pub(crate) fn without_choices(frame: &[u8], choices: Choices) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let mut next = Some(ETHERNET).filter(|_| choices.has_any());
    let mut is_quoted = false;
    while let Some(places) = next.and_then(|at| Places::find(&frame, at)) {
        let is_wrong = !is_quoted && !is_sound(&frame, &places);
        for place in places.addresses() {
            let bytes = &mut frame[place];
            let is_chosen = bytes.starts_with(&[10, 9, 9]) || bytes.starts_with(&[0xfd, 9]);
            if choices.has_addresses && is_chosen {
                bytes[bytes.len() - 1] = 0;
            }
        }
        if places.has_ports() && choices.has_ports {
            for at in [places.transport, places.transport + 2] {
                if is_chosen_port(u16::from_be_bytes([frame[at], frame[at + 1]])) {
                    frame[at..at + 2].copy_from_slice(&CHOSEN_PORTS.start.to_be_bytes());
                }
            }
        }
        let checksum = places.checksum().map(|at| at..at + 2);
        if let Some(bytes) = checksum.and_then(|place| frame.get_mut(place)) {
            bytes.copy_from_slice(&[0, u8::from(is_wrong)]);
        }
        if !places.is_ipv6 {
            frame[places.ip + 10..places.ip + 12].fill(0);
        }
        next = places.is_error(&frame).then_some(places.transport + 8);
        is_quoted = true;
    }
    frame
}
