//! Builds a packet from its headers, outermost first, for tests, generators and examples.
//!
//! [`PacketBuilder`] keeps a list of headers. [`PacketBuilder::build`] writes them from the
//! inside out. So each header finds its payload in place, and with it its length, its checksum
//! and the type of the next header. A method that names a header appends one. A method that
//! names a field changes the last header that has such a field.
//!
//! 1. The result is well-formed in every field that follows from the headers: lengths,
//!    checksums, types, the bottom of a label stack. A test that wants a broken packet changes
//!    the bytes.
//! 2. Transport checksums use the addresses of the nearest IP header in front, and cover the
//!    bytes in this packet. In fragments they are therefore not the datagram's checksum.
//!
//! The builder allocates and is not for the hot path. It panics on a packet that has no
//! encoding, because its callers write packets down and do not receive them.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::build_layer::{Layer, Neighbors};
use super::{
    ArpOperation, ArpRepr, EtherType, EthernetRepr, GeneveRepr, Icmpv4Repr, Icmpv6Repr, IpProtocol,
    Ipv4Repr, Ipv6FragmentRepr, Ipv6Repr, MacAddress, MplsRepr, NeighborRepr, SctpRepr, TcpFlags,
    TcpRepr, UdpRepr, VlanRepr, VxlanRepr,
};

/// The default type of a payload: local experimental (IEEE 802-2014 section 9.2.4).
const DEFAULT_ETHER_TYPE: EtherType = EtherType(0x88b5);
/// The default protocol of a payload: experimentation (RFC 3692 section 2.1).
const DEFAULT_PROTOCOL: IpProtocol = IpProtocol(253);
/// The time to live that RFC 1700 recommends and most hosts use.
const DEFAULT_TTL: u8 = 64;

/// Builds a packet from headers and a payload.
///
/// ```
/// use std::net::Ipv4Addr;
/// use thalweg_packet::wire::{EtherType, EthernetView, MacAddress, PacketBuilder};
///
/// let frame = PacketBuilder::ethernet(MacAddress([2, 0, 0, 0, 0, 1]), MacAddress::BROADCAST)
///     .vlan(100, 3)
///     .ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
///     .ttl(7)
///     .udp(5000, 53)
///     .payload(b"question")
///     .pad_to(60)
///     .build();
/// assert_eq!(frame.len(), 60);
/// let ethernet = EthernetView::new_checked(&frame)?;
/// assert_eq!(ethernet.ether_type(), EtherType::VLAN);
/// # Ok::<(), thalweg_packet::wire::WireError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct PacketBuilder {
    layers: Vec<Layer>,
    payload: Vec<u8>,
    ether_type: Option<EtherType>,
    protocol: Option<IpProtocol>,
    padded_len: usize,
}

/// Frames, tags and labels.
impl PacketBuilder {
    /// Starts without a header, for packets that do not begin with Ethernet.
    pub fn new() -> Self {
        PacketBuilder::default()
    }

    /// Starts with an Ethernet header; the first argument is the source.
    pub fn ethernet(source: MacAddress, destination: MacAddress) -> Self {
        PacketBuilder::new().inner_ethernet(source, destination)
    }

    /// Appends an Ethernet header, inside a tunnel.
    pub fn inner_ethernet(self, source: MacAddress, destination: MacAddress) -> Self {
        self.push(Layer::Ethernet(EthernetRepr {
            destination,
            source,
            ether_type: EtherType(0),
        }))
    }

    /// Turns the last frame into IEEE 802.3 with LLC and SNAP.
    pub fn snap(self) -> Self {
        self.push(Layer::Snap)
    }

    /// Appends a customer VLAN tag.
    pub fn vlan(self, vlan_id: u16, priority: u8) -> Self {
        self.tag(EtherType::VLAN, vlan_id, priority)
    }

    /// Appends a service VLAN tag.
    pub fn service_vlan(self, vlan_id: u16, priority: u8) -> Self {
        self.tag(EtherType::SERVICE_VLAN, vlan_id, priority)
    }

    /// Marks the last VLAN tag as drop eligible.
    pub fn drop_eligible(self) -> Self {
        self.set("drop_eligible", true, |layer| match layer {
            Layer::Vlan { repr, .. } => Some(&mut repr.drop_eligible),
            _ => None,
        })
    }

    /// Appends an MPLS label stack entry.
    pub fn mpls(self, label: u32, traffic_class: u8, ttl: u8) -> Self {
        self.push(Layer::Mpls(MplsRepr {
            label,
            traffic_class,
            bottom: false,
            ttl,
        }))
    }

    /// Appends an ARP packet.
    pub fn arp(self, repr: ArpRepr) -> Self {
        self.push(Layer::Arp(repr))
    }

    /// Appends an ARP request for `target`.
    pub fn arp_request(self, sender: MacAddress, address: Ipv4Addr, target: Ipv4Addr) -> Self {
        self.arp(ArpRepr {
            operation: ArpOperation::REQUEST,
            sender_hardware: sender,
            sender_protocol: address,
            target_hardware: MacAddress::ZERO,
            target_protocol: target,
        })
    }

    /// Sets the Ethernet type of the payload, where no header determines it.
    pub fn ether_type(mut self, ether_type: EtherType) -> Self {
        self.ether_type = Some(ether_type);
        self
    }

    fn tag(self, announced_by: EtherType, vlan_id: u16, priority: u8) -> Self {
        let repr = VlanRepr {
            priority,
            drop_eligible: false,
            vlan_id,
            ether_type: EtherType(0),
        };
        self.push(Layer::Vlan { announced_by, repr })
    }
}

/// IP.
impl PacketBuilder {
    /// Appends an IPv4 header.
    pub fn ipv4(self, source: Ipv4Addr, destination: Ipv4Addr) -> Self {
        let repr = Ipv4Repr {
            dscp: 0,
            ecn: 0,
            identification: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset_bytes: 0,
            ttl: DEFAULT_TTL,
            protocol: DEFAULT_PROTOCOL,
            source,
            destination,
            options: &[],
            payload_len: 0,
        };
        self.push(Layer::Ipv4 {
            repr,
            options: Vec::new(),
        })
    }

    /// Appends an IPv6 header.
    pub fn ipv6(self, source: Ipv6Addr, destination: Ipv6Addr) -> Self {
        self.push(Layer::Ipv6(Ipv6Repr {
            traffic_class: 0,
            flow_label: 0,
            payload_len: 0,
            next_header: DEFAULT_PROTOCOL,
            hop_limit: DEFAULT_TTL,
            source,
            destination,
        }))
    }

    /// Sets the time to live, or the hop limit, of the last IP header.
    pub fn ttl(self, ttl: u8) -> Self {
        self.set("ttl", ttl, |layer| match layer {
            Layer::Ipv4 { repr, .. } => Some(&mut repr.ttl),
            Layer::Ipv6(repr) => Some(&mut repr.hop_limit),
            _ => None,
        })
    }

    /// Sets the differentiated services code point of the last IP header.
    ///
    /// # Panics
    /// Without an IP header in front, or for a code point over 6 bits.
    pub fn dscp(mut self, dscp: u8) -> Self {
        assert!(dscp < 64, "a code point has 6 bits");
        match self.last("dscp", as_ip) {
            Layer::Ipv6(repr) => repr.traffic_class = dscp << 2 | repr.traffic_class & 0x03,
            Layer::Ipv4 { repr, .. } => repr.dscp = dscp,
            _ => unreachable!("as_ip finds IP headers"),
        }
        self
    }

    /// Sets the explicit congestion notification of the last IP header.
    ///
    /// # Panics
    /// Without an IP header in front, or for a notification over 2 bits.
    pub fn ecn(mut self, ecn: u8) -> Self {
        assert!(ecn < 4, "a congestion notification has 2 bits");
        match self.last("ecn", as_ip) {
            Layer::Ipv6(repr) => repr.traffic_class = repr.traffic_class & 0xfc | ecn,
            Layer::Ipv4 { repr, .. } => repr.ecn = ecn,
            _ => unreachable!("as_ip finds IP headers"),
        }
        self
    }

    /// Sets the identification of the last IPv4 header.
    pub fn identification(self, identification: u16) -> Self {
        self.set("identification", identification, |layer| match layer {
            Layer::Ipv4 { repr, .. } => Some(&mut repr.identification),
            _ => None,
        })
    }

    /// Sets "don't fragment" in the last IPv4 header.
    pub fn dont_fragment(self) -> Self {
        self.set("dont_fragment", true, |layer| match layer {
            Layer::Ipv4 { repr, .. } => Some(&mut repr.dont_fragment),
            _ => None,
        })
    }

    /// Sets the options of the last IPv4 header: a multiple of four bytes, at most 40.
    pub fn ipv4_options(self, bytes: &[u8]) -> Self {
        self.set("ipv4_options", bytes.to_vec(), |layer| match layer {
            Layer::Ipv4 { options, .. } => Some(options),
            _ => None,
        })
    }

    /// Sets the flow label of the last IPv6 header.
    pub fn flow_label(self, flow_label: u32) -> Self {
        self.set("flow_label", flow_label, |layer| match layer {
            Layer::Ipv6(repr) => Some(&mut repr.flow_label),
            _ => None,
        })
    }

    /// Appends an IPv6 extension header; `body` follows its length field.
    pub fn extension(self, kind: IpProtocol, body: &[u8]) -> Self {
        self.push(Layer::Extension {
            kind,
            body: body.to_vec(),
        })
    }

    /// Makes the packet a fragment, in the IPv4 header or by appending an IPv6 fragment
    /// header.
    ///
    /// # Panics
    /// Without an IP header in front, or for an IPv4 identification over 16 bits.
    pub fn fragment(
        mut self,
        identification: u32,
        offset_bytes: u16,
        more_fragments: bool,
    ) -> Self {
        if let Layer::Ipv4 { repr, .. } = self.last("fragment", as_ip) {
            repr.identification =
                u16::try_from(identification).expect("an IPv4 identification has 16 bits");
            repr.fragment_offset_bytes = offset_bytes;
            repr.more_fragments = more_fragments;
            self
        } else {
            self.push(Layer::Ipv6Fragment(Ipv6FragmentRepr {
                next_header: DEFAULT_PROTOCOL,
                fragment_offset_bytes: offset_bytes,
                more_fragments,
                identification,
            }))
        }
    }

    /// Sets the IP protocol of the payload, where no header determines it.
    pub fn protocol(mut self, protocol: IpProtocol) -> Self {
        self.protocol = Some(protocol);
        self
    }
}

/// Transport and control.
impl PacketBuilder {
    /// Appends a TCP header with only the ACK flag.
    pub fn tcp(self, source_port: u16, destination_port: u16) -> Self {
        let repr = TcpRepr {
            source_port,
            destination_port,
            sequence: 0,
            acknowledgment: 0,
            flags: TcpFlags::ACK,
            window: u16::MAX,
            urgent_pointer: 0,
            options: &[],
        };
        self.push(Layer::Tcp {
            repr,
            options: Vec::new(),
        })
    }

    /// Sets the flags of the last TCP header.
    pub fn tcp_flags(self, flags: TcpFlags) -> Self {
        self.set("tcp_flags", flags, |layer| match layer {
            Layer::Tcp { repr, .. } => Some(&mut repr.flags),
            _ => None,
        })
    }

    /// Sets the sequence and acknowledgment numbers of the last TCP header.
    pub fn tcp_numbers(mut self, sequence: u32, acknowledgment: u32) -> Self {
        let repr = self.last("tcp_numbers", |layer| match layer {
            Layer::Tcp { repr, .. } => Some(repr),
            _ => None,
        });
        (repr.sequence, repr.acknowledgment) = (sequence, acknowledgment);
        self
    }

    /// Sets the window of the last TCP header.
    pub fn tcp_window(self, window: u16) -> Self {
        self.set("tcp_window", window, |layer| match layer {
            Layer::Tcp { repr, .. } => Some(&mut repr.window),
            _ => None,
        })
    }

    /// Sets the options of the last TCP header: a multiple of four bytes, at most 40.
    pub fn tcp_options(self, bytes: &[u8]) -> Self {
        self.set("tcp_options", bytes.to_vec(), |layer| match layer {
            Layer::Tcp { options, .. } => Some(options),
            _ => None,
        })
    }

    /// Appends a UDP header.
    pub fn udp(self, source_port: u16, destination_port: u16) -> Self {
        let repr = UdpRepr {
            source_port,
            destination_port,
            payload_len: 0,
        };
        self.push(Layer::Udp {
            repr,
            has_checksum: true,
        })
    }

    /// Removes the checksum of the last UDP header.
    pub fn without_udp_checksum(self) -> Self {
        self.set("without_udp_checksum", false, |layer| match layer {
            Layer::Udp { has_checksum, .. } => Some(has_checksum),
            _ => None,
        })
    }

    /// Appends an SCTP common header.
    pub fn sctp(self, source_port: u16, destination_port: u16, verification_tag: u32) -> Self {
        self.push(Layer::Sctp(SctpRepr {
            source_port,
            destination_port,
            verification_tag,
        }))
    }

    /// Appends an ICMP header of IPv4.
    pub fn icmpv4(self, repr: Icmpv4Repr) -> Self {
        self.push(Layer::Icmpv4(repr))
    }

    /// Appends an ICMP header of IPv6.
    pub fn icmpv6(self, repr: Icmpv6Repr) -> Self {
        self.push(Layer::Icmpv6(repr))
    }

    /// Appends a neighbour solicitation or advertisement.
    pub fn neighbor(self, repr: NeighborRepr) -> Self {
        self.push(Layer::Neighbor(repr))
    }
}

/// Tunnels.
impl PacketBuilder {
    /// Appends a VXLAN header, behind UDP to [`super::VXLAN_PORT`].
    pub fn vxlan(self, identifier: u32) -> Self {
        self.push(Layer::Vxlan(VxlanRepr { identifier }))
    }

    /// Appends a Geneve header, behind UDP to [`super::GENEVE_PORT`].
    pub fn geneve(self, identifier: u32) -> Self {
        let repr = GeneveRepr {
            control: false,
            critical: false,
            protocol: EtherType::ETHERNET,
            identifier,
            options: &[],
        };
        self.push(Layer::Geneve {
            repr,
            options: Vec::new(),
        })
    }

    /// Sets the options of the last Geneve header, and whether one of them is critical.
    pub fn geneve_options(mut self, bytes: &[u8], critical: bool) -> Self {
        let (repr, options) = self.last("geneve_options", |layer| match layer {
            Layer::Geneve { repr, options } => Some((repr, options)),
            _ => None,
        });
        repr.critical = critical;
        *options = bytes.to_vec();
        self
    }

    /// Appends the headers of `inner` and takes its payload and types, but not its padding.
    pub fn encapsulating(mut self, inner: PacketBuilder) -> Self {
        self.layers.extend(inner.layers);
        self.payload = inner.payload;
        self.ether_type = inner.ether_type.or(self.ether_type);
        self.protocol = inner.protocol.or(self.protocol);
        self
    }
}

/// The payload, and the final step.
impl PacketBuilder {
    /// Sets the bytes behind the last header.
    pub fn payload(mut self, bytes: &[u8]) -> Self {
        self.payload = bytes.to_vec();
        self
    }

    /// Pads the finished packet with zeros to `len_bytes`.
    ///
    /// 60 is the shortest Ethernet frame (IEEE 802.3-2018 section 4A.4.2, without the check
    /// sequence).
    pub fn pad_to(mut self, len_bytes: usize) -> Self {
        self.padded_len = len_bytes;
        self
    }

    /// Writes the packet.
    ///
    /// # Panics
    /// If a field is out of range, a packet is too long for its header, or a transport header has
    /// no IP header in front.
    pub fn build(&self) -> Vec<u8> {
        let headers_len = self.layers.iter().map(Layer::len).sum::<usize>();
        let mut bytes = vec![0; headers_len];
        bytes.extend_from_slice(&self.payload);
        let mut start = headers_len;
        for (index, layer) in self.layers.iter().enumerate().rev() {
            let neighbors = self.neighbors(index, bytes.len() - start);
            start -= layer.len();
            layer.emit(&neighbors, &mut bytes[start..]);
        }
        bytes.resize(bytes.len().max(self.padded_len), 0);
        bytes
    }

    /// The context of the header at `index`, which has `payload_len` bytes behind it.
    fn neighbors(&self, index: usize, payload_len: usize) -> Neighbors {
        let next = self.layers.get(index + 1);
        let ether_type = match next {
            // The type field of an IEEE 802.3 frame is its length.
            Some(Layer::Snap) => EtherType(u16::try_from(payload_len).unwrap_or(u16::MAX)),
            Some(layer) => layer
                .ether_type()
                .or(self.ether_type)
                .unwrap_or(DEFAULT_ETHER_TYPE),
            None => self.ether_type.unwrap_or(DEFAULT_ETHER_TYPE),
        };
        assert!(
            !matches!(next, Some(Layer::Snap)) || ether_type.is_length(),
            "an IEEE 802.3 frame has at most 1,535 bytes"
        );
        let protocol = next.and_then(Layer::protocol).or(self.protocol);
        Neighbors {
            ether_type,
            protocol: protocol.unwrap_or(DEFAULT_PROTOCOL),
            is_label_next: matches!(next, Some(Layer::Mpls(_))),
            addresses: self.layers[..index].iter().rev().find_map(Layer::addresses),
        }
    }

    fn push(mut self, layer: Layer) -> Self {
        self.layers.push(layer);
        self
    }

    /// Sets the value that `field` finds in the last header that has it.
    fn set<T>(
        mut self,
        name: &str,
        value: T,
        field: impl FnMut(&mut Layer) -> Option<&mut T>,
    ) -> Self {
        *self.last(name, field) = value;
        self
    }

    /// Finds `field` in the last header that has it.
    fn last<'a, T>(&'a mut self, name: &str, field: impl FnMut(&'a mut Layer) -> Option<T>) -> T {
        let found = self.layers.iter_mut().rev().find_map(field);
        found.unwrap_or_else(|| panic!("{name} is set on a packet without such a header"))
    }
}

fn as_ip(layer: &mut Layer) -> Option<&mut Layer> {
    layer.addresses().is_some().then_some(layer)
}
