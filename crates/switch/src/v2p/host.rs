//! The virtual switch of a host: machines at ports on one side, the fabric on the other.
//!
//! ```text
//!   from a machine:  ARP and neighbour solicitations are answered: whoever it is, ask us
//!                    IP: its own source only; to a machine here, or wrapped towards a gateway
//!   from the fabric: unwrapped for the machine that is here; else sent back (misdelivered)
//! ```
//!
//! Machines speak IP: their virtual network is routed, not bridged, as in clouds. So to a
//! machine all others have one Ethernet address, the host's ([`mac_of`]), and no flooding is
//! needed. Wrapping adds 36 bytes over IPv4 and 56 over IPv6, and switches may add up to 112
//! bytes of tags; the machines' MTU must leave room for that.
//!
//! 1. A machine can send only from its own address: packets with other sources are dropped and
//!    counted.
//! 2. A packet can reach only machines of its own tenant. Machines with the same address in
//!    two tenants have different ports, so the port determines the tenant.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::net::{IpAddr, Ipv6Addr};

use thalweg_packet::checksum::Sum;
use thalweg_packet::wire::{
    ArpOperation, ArpRepr, ArpView, EtherType, EthernetRepr, EthernetView, Icmpv6Repr, IpProtocol,
    Ipv6Repr, Ipv6View, MacAddress, NeighborMessage, NeighborRepr, NeighborView,
};
use thalweg_packet::{Packet, PortId};
use thalweg_v2p::wire::Datagram;
use thalweg_v2p::{Address, Body, HostAgent, HostVerdict, Key, Profile, Vni};

use super::map::{Machine, V2pMap, addresses_of};
use super::{Fate, Writer, Written, mac_of};

/// Lowest source port of wrapped flows (RFC 8926 section 3.3).
const FIRST_PORT: u32 = 49_152;

/// The hop limit that proves that a message comes from this link (RFC 4861 section 7.1).
const ON_LINK_HOPS: u8 = 255;

/// Counters of a host, besides its agent's.
#[derive(Default)]
struct HostNodeCounters {
    sent: u64,
    local: u64,
    answered: u64,
    spoofed: u64,
    not_ip: u64,
    no_port: u64,
    no_gateway: u64,
}

pub(super) struct Host {
    address: Address,
    agent: HostAgent,
    machines: HashMap<Key, Machine>,
    tenants: HashMap<PortId, Vni>,
    counters: HostNodeCounters,
}

impl Host {
    pub(super) fn new(address: Address, profile: Profile, map: &V2pMap) -> Host {
        let directory = map.directory().into();
        let mut host = Host {
            address,
            agent: HostAgent::new(address, profile, directory),
            machines: HashMap::new(),
            tenants: HashMap::new(),
            counters: HostNodeCounters::default(),
        };
        host.set_map(map);
        host
    }

    /// Sets the map. Machines that have left get their packets forwarded, if the profile does
    /// that.
    pub(super) fn set_map(&mut self, map: &V2pMap) {
        self.agent.set_directory(map.directory().into());
        let here: HashMap<Key, Machine> = map
            .machines_of(self.address)
            .map(|machine| (machine.key, *machine))
            .collect();
        for key in self.machines.keys().filter(|key| !here.contains_key(key)) {
            self.agent.release(*key, map.host_of(*key));
        }
        for machine in here.values() {
            self.agent.admit(machine.key, machine.since);
        }
        let ports = here.values().filter_map(|machine| {
            let port = machine.port?;
            Some((port, machine.key.vni))
        });
        self.tenants = ports.collect();
        self.machines = here;
    }

    pub(super) fn has_machine_at(&self, port: PortId) -> bool {
        self.tenants.contains_key(&port)
    }

    /// Handles a frame from a machine.
    pub(super) fn handle_from_machine(&mut self, packet: &mut Packet, writer: &mut Writer) -> Fate {
        let port = packet.in_port();
        let (Ok(frame), Some(vni)) = (
            EthernetView::new_checked(packet.bytes()),
            self.tenants.get(&port).copied(),
        ) else {
            self.counters.not_ip += 1;
            return Fate::End;
        };
        let inner = match frame.ether_type() {
            EtherType::ARP => {
                let answer = self.answer_arp(&frame, writer);
                return answer.map_or(Fate::End, |len| self.reply(packet, writer, len, port));
            }
            EtherType::IPV4 | EtherType::IPV6 => without_padding(frame.payload()),
            _ => None,
        };
        if let Some(len) = self.answer_solicitation(&frame, writer) {
            return self.reply(packet, writer, len, port);
        }
        let Some((inner, (source, destination))) =
            inner.and_then(|inner| Some((inner, addresses_of(inner)?)))
        else {
            self.counters.not_ip += 1;
            return Fate::End;
        };
        if !is_unicast(destination) {
            self.counters.not_ip += 1;
            return Fate::End;
        }
        let source = Key {
            vni,
            address: source,
        };
        if self.machines.get(&source).and_then(|machine| machine.port) != Some(port) {
            self.counters.spoofed += 1;
            return Fate::End;
        }
        let destination = Key {
            vni,
            address: destination,
        };
        if let Some(machine) = self.machines.get(&destination) {
            self.counters.local += 1;
            let Some(to) = machine.port else {
                self.counters.no_port += 1;
                return Fate::End;
            };
            return deliver(writer, self.address, machine.mac, inner, to).fill(packet);
        }
        let flow = flow_of(inner);
        let Some(wrapped) = self.agent.packet_from(source, destination.address, flow) else {
            self.counters.no_gateway += 1;
            return Fate::End;
        };
        self.counters.sent += 1;
        let datagram = Datagram {
            protocol: frame.ether_type(),
            payload: inner,
            ..Datagram::control(wrapped)
        };
        writer.rewrite(&datagram, self.address).fill(packet)
    }

    /// Handles a wrapped packet for this host.
    pub(super) fn handle_from_fabric<'w>(
        &mut self,
        datagram: &mut Datagram<'_>,
        writer: &'w mut Writer,
    ) -> Written<'w> {
        let nothing = Written {
            bytes: None,
            fate: Fate::End,
        };
        match self.agent.handle_packet(&mut datagram.packet) {
            HostVerdict::Deliver => {}
            HostVerdict::Resend => return writer.rewrite(datagram, self.address),
            HostVerdict::NoGateway | HostVerdict::UnexpectedControl => return nothing,
        }
        let Body::Data(data) = &datagram.packet.body else {
            return nothing;
        };
        let machine = self.machines.get(&data.destination_key());
        let Some((mac, port)) = machine.and_then(|machine| Some((machine.mac, machine.port?)))
        else {
            self.counters.no_port += 1;
            return nothing;
        };
        let inner = match datagram.protocol {
            EtherType::ETHERNET => EthernetView::new_checked(datagram.payload)
                .map_or(datagram.payload, |frame| frame.payload()),
            _ => datagram.payload,
        };
        deliver(writer, self.address, mac, inner, port)
    }

    fn reply(&mut self, packet: &mut Packet, writer: &Writer, len: usize, port: PortId) -> Fate {
        self.counters.answered += 1;
        packet.fill(&writer.scratch[..len]);
        Fate::Deliver(port)
    }

    /// Answers ARP requests for any address but the machine's own.
    fn answer_arp(&self, frame: &EthernetView<'_>, writer: &mut Writer) -> Option<usize> {
        let asked = ArpRepr::parse(&ArpView::new_checked(frame.payload()).ok()?).ok()?;
        if asked.operation != ArpOperation::REQUEST
            || asked.target_protocol == asked.sender_protocol
        {
            return None;
        }
        let answer = ArpRepr {
            operation: ArpOperation::REPLY,
            sender_hardware: mac_of(self.address),
            sender_protocol: asked.target_protocol,
            target_hardware: asked.sender_hardware,
            target_protocol: asked.sender_protocol,
        };
        let start = EthernetView::HEADER_LEN;
        let end = start + answer.buffer_len();
        self.ethernet_to(frame.source(), EtherType::ARP)
            .emit(&mut writer.scratch[..start]);
        answer.emit(&mut writer.scratch[start..end]);
        Some(end)
    }

    /// The same for IPv6 (RFC 4861 section 7.2.4).
    fn answer_solicitation(&self, frame: &EthernetView<'_>, writer: &mut Writer) -> Option<usize> {
        if frame.ether_type() != EtherType::IPV6 {
            return None;
        }
        let ip = Ipv6View::new_checked(frame.payload()).ok()?;
        if ip.next_header() != IpProtocol::ICMPV6 || ip.hop_limit() != ON_LINK_HOPS {
            return None;
        }
        let view = NeighborView::new_checked(ip.payload()).ok()?;
        let asked = NeighborRepr::parse(&view).ok()?;
        let asker = ip.source();
        // A machine without an address checks whether its own is in use; it never is.
        if asked.message != NeighborMessage::Solicitation || asker.is_unspecified() {
            return None;
        }
        let answer = NeighborRepr {
            message: NeighborMessage::Advertisement {
                router: true,
                solicited: true,
                overrides: true,
            },
            target: asked.target,
            source_link_layer: None,
            target_link_layer: Some(mac_of(self.address)),
        };
        let len = answer.buffer_len();
        let ip = Ipv6Repr {
            traffic_class: 0,
            flow_label: 0,
            payload_len: len,
            next_header: IpProtocol::ICMPV6,
            hop_limit: ON_LINK_HOPS,
            source: asked.target,
            destination: asker,
        };
        let start = EthernetView::HEADER_LEN + Ipv6View::HEADER_LEN;
        let (front, message) = writer.scratch.split_at_mut(start);
        let message = &mut message[..len];
        answer.emit(message);
        let sum = pseudo_header(asked.target, asker, len);
        Icmpv6Repr::fill_checksum(message, sum);
        let (ethernet, header) = front.split_at_mut(EthernetView::HEADER_LEN);
        ip.emit(header);
        self.ethernet_to(frame.source(), EtherType::IPV6)
            .emit(ethernet);
        Some(start + len)
    }

    fn ethernet_to(&self, destination: MacAddress, ether_type: EtherType) -> EthernetRepr {
        EthernetRepr {
            destination,
            source: mac_of(self.address),
            ether_type,
        }
    }

    pub(super) fn counters(&self) -> [(&'static str, u64); 6] {
        let agent = self.agent.counters();
        [
            ("sent", self.counters.sent),
            ("local", self.counters.local),
            ("answered", self.counters.answered),
            ("delivered", agent.delivered),
            ("misdelivered", agent.misdelivered),
            ("followed", agent.followed),
        ]
    }

    pub(super) fn drops(&self) -> [(&'static str, u64); 5] {
        let agent = self.agent.counters();
        let no_gateway = self.counters.no_gateway + agent.no_gateway;
        [
            ("v2p_spoofed_source", self.counters.spoofed),
            ("v2p_not_ip", self.counters.not_ip),
            ("v2p_no_port", self.counters.no_port),
            ("v2p_no_gateway", no_gateway),
            ("v2p_unexpected_control", agent.unexpected_control),
        ]
    }
}

fn pseudo_header(source: Ipv6Addr, destination: Ipv6Addr, len: usize) -> Sum {
    Sum::of_ipv6_pseudo_header(source, destination, IpProtocol::ICMPV6, len as u32)
}

/// Writes a frame for a machine.
fn deliver<'w>(
    writer: &'w mut Writer,
    host: Address,
    mac: MacAddress,
    inner: &[u8],
    port: PortId,
) -> Written<'w> {
    let ether_type = match inner.first().map(|byte| byte >> 4) {
        Some(6) => EtherType::IPV6,
        _ => EtherType::IPV4,
    };
    let ethernet = EthernetRepr {
        destination: mac,
        source: mac_of(host),
        ether_type,
    };
    let end = EthernetView::HEADER_LEN + inner.len();
    ethernet.emit(&mut writer.scratch[..EthernetView::HEADER_LEN]);
    writer.scratch[EthernetView::HEADER_LEN..end].copy_from_slice(inner);
    Written {
        fate: Fate::Deliver(port),
        bytes: Some(&writer.scratch[..end]),
    }
}

/// The IP packet without the frame's padding; `None` if it is longer than the frame.
fn without_padding(bytes: &[u8]) -> Option<&[u8]> {
    let field = |at: usize| {
        Some(usize::from(u16::from_be_bytes([
            *bytes.get(at)?,
            *bytes.get(at + 1)?,
        ])))
    };
    match bytes.first()? >> 4 {
        4 => bytes.get(..field(2)?),
        6 => bytes.get(..Ipv6View::HEADER_LEN + field(4)?),
        _ => None,
    }
}

fn is_unicast(address: Address) -> bool {
    match address.to_ip() {
        IpAddr::V4(address) => !address.is_multicast() && !address.is_broadcast(),
        IpAddr::V6(address) => !address.is_multicast() && !address.is_unicast_link_local(),
    }
}

/// A source port for the flow of a packet, from its addresses, protocol and ports. Fragments
/// have no ports, so only their addresses and protocol count.
fn flow_of(inner: &[u8]) -> u32 {
    let mut hasher = DefaultHasher::new();
    let (header_len, protocol, addresses) = match inner.first().map(|byte| byte >> 4) {
        Some(4) => {
            let header_len = usize::from(inner[0] & 0xf) * 4;
            let is_fragment = inner
                .get(6..8)
                .is_none_or(|flags| u16::from_be_bytes([flags[0], flags[1]]) & 0x3fff != 0);
            let header_len = if is_fragment { inner.len() } else { header_len };
            (header_len, inner.get(9), inner.get(12..20))
        }
        _ => (Ipv6View::HEADER_LEN, inner.get(6), inner.get(8..40)),
    };
    hasher.write(addresses.unwrap_or_default());
    let protocol = protocol.copied().unwrap_or_default();
    hasher.write_u8(protocol);
    let has_ports = [IpProtocol::TCP, IpProtocol::UDP, IpProtocol::SCTP]
        .iter()
        .any(|known| known.0 == protocol);
    if has_ports && let Some(ports) = inner.get(header_len..header_len + 4) {
        hasher.write(ports);
    }
    FIRST_PORT + (hasher.finish() as u32) % (65_536 - FIRST_PORT)
}
