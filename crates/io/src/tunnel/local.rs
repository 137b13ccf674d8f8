//! A bridge's own port that also carries outer packets of native tunnels.
//!
//! ```text
//!   tunnel sends     --> outer packet --> inbox of the bridge's port --> received by the bridge
//!   the bridge sends --> a packet of a tunnel? --> inbox of the tunnel's port
//!                        else              --> the port itself
//! ```
//!
//! 1. A packet is taken if it goes to the port's MAC address and to one of its IP addresses, and
//!    something listens there. It is not counted as sent, nor is an outer packet as received:
//!    neither passes the device behind the port.
//! 2. What ARP and neighbour discovery tell the port's addresses is remembered, and goes on.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use thalweg_packet::standard::header;
use thalweg_packet::wire::{
    ArpRepr, ArpView, EthernetView, IpProtocol, Ipv4View, Ipv6View, MacAddress, NeighborRepr,
    NeighborView, UdpView,
};
use thalweg_packet::{Headers, Instant, Packet, PacketPool, PortId};
use thalweg_tunnel::{NeighborSighting, TunnelKind, decapsulate_frame};

use super::counts::TunnelCause;
use super::deliver::deliver;
use super::hub::{TunnelHub, TunnelView};
use super::queue::PacketQueue;
use super::socket::is_erspan;
use super::underlay::UnderlayLink;
use crate::{BURST, Port, PortCounters, PortStatus};

/// A bridge's own port, around the device behind it.
pub struct UnderlayPort {
    number: PortId,
    bridge: String,
    hub: TunnelHub,
    device: Box<dyn Port>,
    inbox: Arc<PacketQueue>,
    /// Ready while the device or the inbox has something; `None` if the device cannot say.
    ready: Option<OwnedFd>,
    pool_refusals: u64,
}

impl UnderlayPort {
    /// The own port of a bridge, with this MAC address. It has the IP addresses that the bridge was
    /// given before, if any.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn open(
        hub: &TunnelHub,
        (number, bridge, mac): (PortId, &str, MacAddress),
        device: Box<dyn Port>,
    ) -> io::Result<UnderlayPort> {
        let inbox = Arc::new(PacketQueue::new()?);
        let watch = |descriptor: BorrowedFd<'_>| {
            let ready = epoll::create(CreateFlags::CLOEXEC)?;
            for watched in [descriptor, inbox.descriptor()] {
                epoll::add(&ready, watched, EventData::new_u64(0), EventFlags::IN)?;
            }
            Ok::<_, io::Error>(ready)
        };
        let ready = device.descriptor().map(watch).transpose()?;
        hub.underlay().open_link(bridge, mac, inbox.clone());
        Ok(UnderlayPort {
            number,
            bridge: bridge.to_owned(),
            hub: hub.clone(),
            device,
            inbox,
            ready,
            pool_refusals: 0,
        })
    }

    /// Takes the packets of tunnels out of a burst.
    fn take_tunnels(&self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        let Some(link) = self.hub.underlay().links.get(&self.bridge).cloned() else {
            return;
        };
        let table = self.hub.table();
        if link.addresses.is_empty() || !table.has_native() {
            return;
        }
        let view = TunnelView {
            table: &table,
            hub: &self.hub,
        };
        let mut index = 0;
        while let Some(packet) = burst.get_mut(index) {
            match self.is_taken(view, &link, packet) {
                true => pool.put(burst.remove(index)),
                false => index += 1,
            }
        }
    }

    /// Whether a packet belongs to a tunnel; its port has it then, unless it is malformed.
    fn is_taken(&self, view: TunnelView<'_>, link: &UnderlayLink, packet: &mut Packet) -> bool {
        let Ok(headers) = Headers::parse(packet.bytes()) else {
            return false;
        };
        let now = packet.received_at();
        let Some((kind, source)) = listener(view, link, packet.bytes(), &headers) else {
            if let Some(sighting) = sighting(link, packet.bytes(), &headers) {
                let mut underlay = self.hub.underlay();
                underlay.neighbors.learn(&self.bridge, sighting, now);
            }
            return false;
        };
        // A whole frame comes here only while the first native tunnel is made.
        packet.finish();
        if let Some(mac) = EthernetView::new_checked(packet.bytes())
            .ok()
            .map(|view| view.source())
        {
            let mut underlay = self.hub.underlay();
            underlay.neighbors.set(&self.bridge, source, mac, now);
        }
        let told = match decapsulate_frame(kind, packet.bytes()) {
            Ok(told) => told,
            Err(error) => {
                view.hub.counters().add_malformed(error);
                return true;
            }
        };
        let mut inner = Packet::default();
        inner.copy_from(packet);
        if deliver(view, (kind, &told), &mut inner, now)
            && let Some(place) = view.table.places.get(&inner.in_port())
            && place.seat.inbox.push_all([inner]) > 0
        {
            view.hub.counters().add(TunnelCause::QueueFull);
        }
        true
    }
}

/// What listens for a packet at the port's addresses: the kind of tunnel, and who sent it.
fn listener(
    view: TunnelView<'_>,
    link: &UnderlayLink,
    frame: &[u8],
    headers: &Headers,
) -> Option<(TunnelKind, IpAddr)> {
    let is_plain = !headers.has(header::VLAN_OUTER);
    let ethernet = EthernetView::new_checked(frame).ok()?;
    if !is_plain || ethernet.destination() != link.mac {
        return None;
    }
    let (source, destination, protocol, at): (IpAddr, IpAddr, _, _) =
        if let Some(at) = headers.offset(header::IPV4) {
            let ip = Ipv4View::new_checked(&frame[at..]).ok()?;
            let transport = at + ip.header_len();
            let (source, destination) = (ip.source().into(), ip.destination().into());
            (source, destination, ip.protocol(), transport)
        } else {
            let at = headers.offset(header::IPV6)?;
            let ip = Ipv6View::new_checked(&frame[at..]).ok()?;
            let transport = at + Ipv6View::HEADER_LEN;
            let (source, destination) = (ip.source().into(), ip.destination().into());
            (source, destination, ip.next_header(), transport)
        };
    if !link.has_address(destination) {
        return None;
    }
    let transport = frame.get(at..)?;
    let port = match protocol {
        IpProtocol::UDP => UdpView::new_header_checked(transport)
            .ok()?
            .destination_port(),
        _ => 0,
    };
    let mut listeners = view.table.ports.listeners_at(protocol, port);
    let kind = match protocol {
        IpProtocol::GRE => {
            let is_it = |kind| kind == TunnelKind::Erspan;
            let is_erspan = is_erspan(transport);
            listeners
                .find(|active| is_it(active.kind) == is_erspan)?
                .kind
        }
        _ => listeners.next()?.kind,
    };
    Some((kind, source))
}

/// Which address is at which MAC address, if a packet tells it the port.
fn sighting(link: &UnderlayLink, frame: &[u8], headers: &Headers) -> Option<NeighborSighting> {
    let own: Vec<IpAddr> = link.addresses.iter().map(|own| own.address).collect();
    if let Some(at) = headers.offset(header::ARP) {
        let view = ArpView::new_checked(&frame[at..]).ok()?;
        return NeighborSighting::of_arp(&ArpRepr::parse(&view).ok()?, &own);
    }
    let (ip, at) = (
        headers.offset(header::IPV6)?,
        headers.offset(header::ICMPV6)?,
    );
    let destination = Ipv6View::new_checked(&frame[ip..]).ok()?.destination();
    let view = NeighborView::new_checked(&frame[at..]).ok()?;
    let neighbor = NeighborRepr::parse(&view).ok()?;
    NeighborSighting::of_advertisement(&neighbor, destination, &own)
}

impl Port for UnderlayPort {
    fn receive(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>, now: Instant) {
        let before = burst.len();
        let who = (self.number, now);
        self.pool_refusals += self.inbox.receive(who, pool, burst, BURST);
        if burst.len() == before {
            self.device.receive(pool, burst, now);
        }
    }

    fn send(&mut self, pool: &mut PacketPool, burst: &mut Vec<Packet>) {
        self.take_tunnels(pool, burst);
        self.device.send(pool, burst);
    }

    fn keep_whole(&mut self) {
        self.device.keep_whole();
    }

    /// Packets of tunnels are taken out frame by frame.
    fn takes_whole(&self) -> bool {
        self.device.takes_whole() && !self.hub.table().has_native()
    }

    fn status(&mut self) -> PortStatus {
        self.device.status()
    }

    fn counters(&self) -> PortCounters {
        let mut counters = self.device.counters();
        counters.pool_refusals += self.pool_refusals;
        counters
    }

    fn close(&mut self, pool: &mut PacketPool) {
        self.device.close(pool);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.ready.as_ref().map(AsFd::as_fd)
    }
}

impl Drop for UnderlayPort {
    fn drop(&mut self) {
        self.hub.underlay().close_link(&self.bridge, &self.inbox);
    }
}

impl std::fmt::Debug for UnderlayPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UnderlayPort({}, {})", self.number, self.bridge)
    }
}
