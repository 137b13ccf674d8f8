//! Composes a frame that has a flow's key (`flow_compose` of Open vSwitch).
//!
//! The frame has the headers that the key names, and zeros where the key says nothing. Packets
//! that carry data for an application get a payload: UDP, TCP in the midst of a connection,
//! and echoes. All others end with their headers.
//!
//! 1. The bytes are those of Open vSwitch's dummy device, even where they are odd: an IPv6
//!    fragment has no fragment header, SCTP has no checksum, and a packet stretched to a
//!    length states a UDP length that counts the added bytes twice.

use std::net::{Ipv4Addr, Ipv6Addr};

use thalweg_packet::checksum::{Sum, checksum, udp_checksum_for_wire};
use thalweg_packet::wire::IpProtocol;
use thalweg_packet::{FieldId, PortId, standard as f};

use super::attribute::{
    ETHER_TYPE_IPV4, ETHER_TYPE_IPV6, ETHER_TYPE_NSH, is_arp, is_mpls, is_neighbor_discovery,
};
use super::error::{FrameArgumentError, LONGEST_FRAME};
use super::field_bits::FieldBits;
use super::flow::DatapathFlow;
use super::parse::{DatapathPort, FlowReader};

/// The shortest Ethernet frame, without its check sequence (IEEE 802.3 clause 4A.4.2).
const SHORTEST_FRAME: usize = 60;

/// Ethernet's two addresses and the type.
const ETHERNET_BYTES: usize = 14;

/// What a packet carries, if it carries data for an application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FramePayload<'a> {
    /// Bytes 0, 1, 2 and so on, of this number.
    Counted(usize),
    /// These bytes.
    Bytes(&'a [u8]),
}

impl Default for FramePayload<'_> {
    /// The 64 bytes that Open vSwitch gives.
    fn default() -> Self {
        FramePayload::Counted(64)
    }
}

impl FramePayload<'_> {
    fn append_to(self, frame: &mut Vec<u8>) {
        match self {
            FramePayload::Counted(count) => frame.extend((0..count).map(|place| place as u8)),
            FramePayload::Bytes(bytes) => frame.extend_from_slice(bytes),
        }
    }

    fn len(self) -> usize {
        match self {
            FramePayload::Counted(count) => count,
            FramePayload::Bytes(bytes) => bytes.len(),
        }
    }
}

/// A frame that has the flow's key.
pub fn compose(flow: &DatapathFlow, payload: FramePayload<'_>) -> Vec<u8> {
    let mut composer = Composer::link(flow);
    composer.network(payload);
    composer.frame
}

/// A frame of `len` bytes that has the flow's key; the bytes behind its headers are zero.
///
/// # Errors
/// If the headers need more.
pub fn compose_exactly(flow: &DatapathFlow, len: usize) -> Result<Vec<u8>, FrameArgumentError> {
    let mut composer = Composer::link(flow);
    composer.network(FramePayload::Counted(0));
    let needed = composer.frame.len();
    if needed > len {
        return Err(FrameArgumentError::NoRoom { asked: len, needed });
    }
    if needed < len {
        composer.stretch(len);
    }
    Ok(composer.frame)
}

/// The frames of the arguments of `netdev-dummy/receive` behind the name of the device and of
/// its queue: bytes in hexadecimal, or flows, each with `--len` and a number behind it if its
/// frame must have that length.
///
/// # Errors
/// At the first argument that is neither; no frame is received then.
pub fn frames_of<S: AsRef<str>>(arguments: &[S]) -> Result<Vec<Vec<u8>>, FrameArgumentError> {
    // The port of the flow has no meaning: the frame comes in at the device.
    let ports = |port: DatapathPort<'_>| match port {
        DatapathPort::Number(number) => Some(PortId(number)),
        DatapathPort::Name(_) => None,
    };
    let reader = FlowReader::new(&ports);
    let mut frames = Vec::new();
    let mut rest = arguments.iter().map(S::as_ref).peekable();
    while let Some(argument) = rest.next() {
        if let Some(bytes) = hexadecimal(argument) {
            frames.push(bytes);
            continue;
        }
        let mut len = None;
        if rest.next_if_eq(&"--len").is_some() {
            len = Some(length(rest.next().unwrap_or_default())?);
        }
        let flow = reader.read(argument)?;
        frames.push(match len {
            Some(len) => compose_exactly(&flow, len)?,
            None => compose(&flow, FramePayload::default()),
        });
    }
    Ok(frames)
}

fn length(text: &str) -> Result<usize, FrameArgumentError> {
    match text.parse() {
        Ok(len) if len < SHORTEST_FRAME => Err(FrameArgumentError::TooSmall),
        Ok(len) if len <= LONGEST_FRAME => Ok(len),
        _ => Err(FrameArgumentError::Length(text.into())),
    }
}

/// Reads a frame of two hexadecimal digits a byte, with or without white space between bytes.
fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? << 4 | digit(*low)?) as u8);
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    bytes.filter(|bytes| (ETHERNET_BYTES..=LONGEST_FRAME).contains(&bytes.len()))
}

/// A frame under construction.
struct Composer<'a> {
    key: &'a FieldBits,
    frame: Vec<u8>,
    network_at: usize,
    transport_at: usize,
}

impl<'a> Composer<'a> {
    /// Writes addresses, tags and the EtherType.
    fn link(flow: &'a DatapathFlow) -> Composer<'a> {
        let mut composer = Composer {
            key: &flow.key,
            frame: Vec::new(),
            network_at: 0,
            transport_at: 0,
        };
        composer.field(f::ETH_DST, 6);
        composer.field(f::ETH_SRC, 6);
        let ether_type = flow.key.short(f::ETH_TYPE);
        if ether_type == f::ETHER_TYPE_NONE {
            composer.short(ETHERNET_BYTES as u16);
            return composer;
        }
        let tags = [f::VLAN_TCI, f::VLAN_TCI_INNER];
        for (field, tag_type) in tags.into_iter().zip(flow.tag_types) {
            let tag = flow.key.short(field);
            if tag & f::VLAN_PRESENT != 0 {
                composer.short(if tag_type == 0 { 0x8100 } else { tag_type });
                composer.short(tag & !f::VLAN_PRESENT);
            }
        }
        composer.short(ether_type);
        composer
    }

    fn field(&mut self, field: FieldId, len_bytes: usize) {
        let bytes = self.key.get(field).to_be_bytes();
        self.frame.extend_from_slice(&bytes[16 - len_bytes..]);
    }

    fn short(&mut self, number: u16) {
        self.frame.extend_from_slice(&number.to_be_bytes());
    }

    fn byte(&mut self, field: FieldId) {
        self.frame.push(self.key.get(field) as u8);
    }

    fn zeros(&mut self, count: usize) {
        self.frame.resize(self.frame.len() + count, 0);
    }

    fn network(&mut self, payload: FramePayload<'_>) {
        self.network_at = self.frame.len();
        let ether_type = self.key.short(f::ETH_TYPE);
        match ether_type {
            ETHER_TYPE_IPV4 => self.ipv4(payload),
            ETHER_TYPE_IPV6 => self.ipv6(payload),
            _ if is_arp(ether_type) => self.arp(),
            _ if is_mpls(ether_type) => self.labels(),
            ETHER_TYPE_NSH => self.nsh(),
            _ => {}
        }
    }

    fn nsh(&mut self) {
        let kind = self.key.get(f::NSH_MDTYPE);
        let words = if kind == 1 { 6 } else { 2 };
        self.short(
            (self.key.short(f::NSH_FLAGS) << 12) | (self.key.short(f::NSH_TTL) << 6) | words,
        );
        self.byte(f::NSH_MDTYPE);
        self.byte(f::NSH_NP);
        self.field(f::NSH_SPI, 3);
        self.byte(f::NSH_SI);
        if kind != 1 {
            // There is room for the context that is not there, as in Open vSwitch.
            self.zeros(16);
        } else {
            for context in [f::NSH_C1, f::NSH_C2, f::NSH_C3, f::NSH_C4] {
                self.field(context, 4);
            }
        }
    }

    fn ipv4(&mut self, payload: FramePayload<'_>) {
        self.frame
            .extend_from_slice(&[0x45, self.key.service() as u8]);
        self.zeros(4);
        // More fragments follow; a later fragment is 100 units of eight bytes in.
        self.short(match self.key.get(f::IP_FRAG) {
            0 => 0,
            kind => 0x2000 | if kind & 2 != 0 { 100 } else { 0 },
        });
        self.byte(f::IP_TTL);
        self.byte(f::IP_PROTO);
        self.zeros(2);
        self.field(f::IP_SRC, 4);
        self.field(f::IP_DST, 4);
        self.transport_at = self.frame.len();
        self.transport(payload);
        self.fill_in();
    }

    fn ipv6(&mut self, payload: FramePayload<'_>) {
        let first = 6 << 28 | self.key.service() << 20 | self.key.get(f::IPV6_LABEL);
        self.frame.extend_from_slice(&(first as u32).to_be_bytes());
        self.zeros(2);
        self.byte(f::IP_PROTO);
        self.byte(f::IP_TTL);
        self.field(f::IPV6_SRC, 16);
        self.field(f::IPV6_DST, 16);
        self.transport_at = self.frame.len();
        self.transport(payload);
        self.fill_in();
    }

    fn arp(&mut self) {
        self.frame.extend_from_slice(&[0, 1, 8, 0, 6, 4]);
        self.field(f::ARP_OP, 2);
        // Of other operations, Open vSwitch knows no addresses.
        match self.key.get(f::ARP_OP) {
            1 | 2 => {
                self.field(f::ARP_SHA, 6);
                self.field(f::ARP_SPA, 4);
                self.field(f::ARP_THA, 6);
                self.field(f::ARP_TPA, 4);
            }
            _ => self.zeros(20),
        }
    }

    fn labels(&mut self) {
        for entry in self.key.labels() {
            self.frame.extend_from_slice(&entry.to_be_bytes());
            if entry & 1 << 8 != 0 {
                break;
            }
        }
    }

    /// Writes the header of layer 4, with its checksum and its length still zero.
    fn transport(&mut self, payload: FramePayload<'_>) {
        if self.key.is_later_fragment() {
            return;
        }
        let kind = (self.key.short(f::ICMP_TYPE), self.key.short(f::ICMP_CODE));
        match self.key.short(f::IP_PROTO) {
            1 => {
                self.kind(4);
                if matches!(kind, (0 | 8, 0)) {
                    payload.append_to(&mut self.frame);
                }
            }
            // IGMP, of which a key has nothing.
            2 => self.zeros(8),
            6 => {
                self.field(f::TP_SRC, 2);
                self.field(f::TP_DST, 2);
                self.zeros(8);
                self.short(5 << 12 | self.key.short(f::TCP_FLAGS));
                self.zeros(6);
                // The flags fin, syn and rst: such a segment carries no data.
                if self.key.get(f::TCP_FLAGS) & 7 == 0 {
                    payload.append_to(&mut self.frame);
                }
            }
            17 => {
                self.field(f::TP_SRC, 2);
                self.field(f::TP_DST, 2);
                self.short((8 + payload.len()) as u16);
                self.zeros(2);
                payload.append_to(&mut self.frame);
            }
            58 => {
                self.kind(4);
                if is_neighbor_discovery(self.key) {
                    self.discovery();
                } else if matches!(kind, (128 | 129, 0)) {
                    payload.append_to(&mut self.frame);
                }
            }
            132 => {
                self.field(f::TP_SRC, 2);
                self.field(f::TP_DST, 2);
                self.zeros(8);
            }
            _ => {}
        }
    }

    /// Writes an ICMP header with this number of bytes behind its checksum.
    fn kind(&mut self, rest: usize) {
        self.byte(f::ICMP_TYPE);
        self.byte(f::ICMP_CODE);
        self.zeros(2 + rest);
    }

    /// Writes the target of neighbour discovery, and the addresses that are not zero.
    fn discovery(&mut self) {
        self.field(f::ND_TARGET, 16);
        for (kind, field) in [(1, f::ND_SLL), (2, f::ND_TLL)] {
            if self.key.get(field) != 0 {
                self.frame.extend_from_slice(&[kind, 1]);
                self.field(field, 6);
            }
        }
    }

    /// Fills in the lengths and the checksums of IP and of the header behind it.
    fn fill_in(&mut self) {
        let at = self.network_at;
        let len = (self.frame.len() - self.transport_at) as u16;
        let protocol = IpProtocol(self.key.get(f::IP_PROTO) as u8);
        let (source, destination) = (self.key.get(f::IP_SRC), self.key.get(f::IP_DST));
        let pseudo_header = if self.key.short(f::ETH_TYPE) == ETHER_TYPE_IPV4 {
            self.put(at + 2, len.wrapping_add(20));
            self.put(at + 10, 0);
            let sum = checksum(&self.frame[at..at + 20]);
            self.put(at + 10, sum);
            let [source, destination] =
                [source, destination].map(|address| Ipv4Addr::from(address as u32));
            Sum::of_ipv4_pseudo_header(source, destination, protocol, len)
        } else {
            self.put(at + 4, len);
            let [source, destination] =
                [f::IPV6_SRC, f::IPV6_DST].map(|field| Ipv6Addr::from(self.key.get(field)));
            Sum::of_ipv6_pseudo_header(source, destination, protocol, len.into())
        };
        if !self.key.is_later_fragment() {
            self.fill_in_checksum(pseudo_header);
        }
    }

    fn fill_in_checksum(&mut self, pseudo_header: Sum) {
        let at = self.transport_at;
        let protocol = self.key.short(f::IP_PROTO);
        let place = match protocol {
            1 | 2 | 58 => at + 2,
            6 => at + 16,
            17 => at + 6,
            _ => return,
        };
        self.put(place, 0);
        let bytes = &self.frame[at..];
        let sum = match protocol {
            1 | 2 => checksum(bytes),
            17 => udp_checksum_for_wire(pseudo_header.with_bytes(bytes).checksum()),
            _ => pseudo_header.with_bytes(bytes).checksum(),
        };
        self.put(place, sum);
    }

    fn put(&mut self, at: usize, number: u16) {
        self.frame[at..at + 2].copy_from_slice(&number.to_be_bytes());
    }

    /// Adds zeros until the frame has `len` bytes, and corrects lengths and checksums.
    fn stretch(&mut self, len: usize) {
        let added = len - self.frame.len();
        self.zeros(added);
        match self.key.short(f::ETH_TYPE) {
            f::ETHER_TYPE_NONE => self.put(ETHERNET_BYTES - 2, len as u16),
            ETHER_TYPE_IPV4 | ETHER_TYPE_IPV6 => {
                if self.key.short(f::IP_PROTO) == 17 && !self.key.is_later_fragment() {
                    // Invariant 1.
                    let stated = len - self.transport_at + added;
                    self.put(self.transport_at + 4, stated as u16);
                }
                self.fill_in();
            }
            _ => {}
        }
    }
}
