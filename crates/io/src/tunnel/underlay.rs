//! Where the outer packets of native tunnels go: routes, neighbours, and the bridges that carry
//! them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use thalweg_packet::wire::MacAddress;
use thalweg_packet::{Instant, Packet};
use thalweg_tunnel::{
    Endpoints, FoundRoute, InterfaceAddress, LinkAddresses, NeighborCache, SourcePorts,
    TunnelRoutes, arp_request, neighbor_solicitation, source_address,
};

use super::counts::TunnelCause;
use super::depart::Prepared;
use super::queue::PacketQueue;

/// What native tunnels share, beside their ports.
#[derive(Debug, Default)]
pub struct Underlay {
    /// Which bridge carries packets to a destination.
    pub routes: TunnelRoutes,
    /// The MAC addresses of next hops.
    pub neighbors: NeighborCache,
    /// The UDP ports that outer packets come from.
    pub source_ports: SourcePorts,
    pub(super) links: BTreeMap<String, UnderlayLink>,
}

/// A bridge's own port, by which outer packets go.
#[derive(Clone, Debug)]
pub(super) struct UnderlayLink {
    pub(super) mac: MacAddress,
    pub(super) addresses: Arc<Vec<InterfaceAddress>>,
    /// Outer packets that the bridge receives next; `None` while its port is closed.
    pub(super) inbox: Option<Arc<PacketQueue>>,
}

/// The next step of an outer packet.
#[derive(Clone, Debug)]
pub(super) struct NextStep {
    pub(super) addresses: LinkAddresses,
    pub(super) source: IpAddr,
    pub(super) inbox: Arc<PacketQueue>,
}

impl Underlay {
    /// The addresses of a bridge; none if it carries no tunnels.
    pub fn addresses(&self, bridge: &str) -> Vec<InterfaceAddress> {
        addresses(&self.links, bridge)
    }

    /// Gives a bridge another MAC address; false if it carries no tunnels.
    pub fn set_mac(&mut self, bridge: &str, mac: MacAddress) -> bool {
        let link = self.links.get_mut(bridge);
        link.map(|link| link.mac = mac).is_some()
    }

    /// Gives a bridge its address of a family, which it keeps when its port is opened again; false
    /// if it carries no tunnels.
    pub fn set_address(&mut self, bridge: &str, address: InterfaceAddress) -> bool {
        let Some(link) = self.links.get_mut(bridge) else {
            return false;
        };
        let known = Arc::make_mut(&mut link.addresses);
        known.retain(|own| own.address.is_ipv4() != address.address.is_ipv4());
        known.push(address);
        true
    }

    /// Forgets a bridge and its addresses.
    pub fn forget(&mut self, bridge: &str) {
        self.links.remove(bridge);
    }

    /// Has a bridge's port receive outer packets.
    pub(super) fn open_link(&mut self, bridge: &str, mac: MacAddress, inbox: Arc<PacketQueue>) {
        let known = self.links.remove(bridge);
        let link = UnderlayLink {
            mac,
            addresses: known.map(|known| known.addresses).unwrap_or_default(),
            inbox: Some(inbox),
        };
        self.links.insert(bridge.to_owned(), link);
    }

    /// A bridge's port is closed, unless another one is open in its place.
    pub(super) fn close_link(&mut self, bridge: &str, inbox: &Arc<PacketQueue>) {
        let link = self.links.get_mut(bridge);
        let is_its = |own: &Arc<PacketQueue>| Arc::ptr_eq(own, inbox);
        if let Some(link) = link.filter(|link| link.inbox.as_ref().is_some_and(is_its)) {
            link.inbox = None;
        }
    }

    /// Adds a route, as `ovs/route/add` does.
    ///
    /// # Errors
    /// If an argument cannot be read, or the bridge has no address for the route.
    pub fn add_route(
        &mut self,
        arguments: &[&str],
    ) -> Result<&'static str, thalweg_tunnel::RouteError> {
        let links = &self.links;
        self.routes
            .add_command(arguments, |bridge| addresses(links, bridge))
    }

    /// The next step of a packet; asks for the next hop's address if it is not known.
    ///
    /// `asked` is the last address that was asked for.
    pub(super) fn next_step(
        &mut self,
        prepared: &Prepared,
        now: Instant,
        asked: &mut Option<IpAddr>,
    ) -> Result<NextStep, TunnelCause> {
        let endpoints = prepared.metadata.endpoints;
        let route = route_of(&self.routes, endpoints, prepared.mark)?;
        let link = self.links.get(route.device).ok_or(TunnelCause::NoRoute)?;
        let inbox = link.inbox.as_ref().ok_or(TunnelCause::NoRoute)?;
        let next_hop = route.next_hop(endpoints.destination());
        let Some(mac) = self.neighbors.lookup(route.device, next_hop, now) else {
            if *asked != Some(next_hop) {
                *asked = Some(next_hop);
                let own = source_address(next_hop, &link.addresses).unwrap_or(route.source);
                inbox.push_all(link.question(next_hop, own, now));
            }
            return Err(TunnelCause::NoNeighbor);
        };
        Ok(NextStep {
            addresses: LinkAddresses {
                source: link.mac,
                destination: mac,
            },
            source: route.source,
            inbox: inbox.clone(),
        })
    }

    /// The link addresses and the source of an outer packet, and the bridge that would receive it.
    /// Nothing is asked of the network, and no neighbour lives on for it.
    pub(super) fn foresee(
        &self,
        endpoints: Endpoints,
        mark: Option<u32>,
        now: Instant,
    ) -> Result<(LinkAddresses, IpAddr, String), TunnelCause> {
        let route = route_of(&self.routes, endpoints, mark)?;
        let link = self.links.get(route.device).ok_or(TunnelCause::NoRoute)?;
        let next_hop = route.next_hop(endpoints.destination());
        let mac = self.neighbors.peek(route.device, next_hop, now);
        let addresses = LinkAddresses {
            source: link.mac,
            destination: mac.ok_or(TunnelCause::NoNeighbor)?,
        };
        Ok((addresses, route.source, route.device.to_owned()))
    }

    /// Whether a bridge's own port has a MAC address and, with it, an IP address.
    pub(super) fn is_at(&self, bridge: &str, (mac, address): (MacAddress, IpAddr)) -> bool {
        let link = self.links.get(bridge);
        link.is_some_and(|link| link.mac == mac && link.has_address(address))
    }
}

/// The route of outer packets with these addresses and this mark.
fn route_of(
    routes: &TunnelRoutes,
    endpoints: Endpoints,
    mark: Option<u32>,
) -> Result<FoundRoute<'_>, TunnelCause> {
    let given = Some(endpoints.source()).filter(|source| !source.is_unspecified());
    let route = routes.lookup(endpoints.destination(), mark.unwrap_or(0), given);
    route.ok_or(TunnelCause::NoRoute)
}

fn addresses(links: &BTreeMap<String, UnderlayLink>, bridge: &str) -> Vec<InterfaceAddress> {
    let link = links.get(bridge);
    link.map_or_else(Vec::new, |link| link.addresses.to_vec())
}

impl UnderlayLink {
    /// The packet that asks the network of the bridge for an address.
    fn question(&self, next_hop: IpAddr, own: IpAddr, now: Instant) -> Option<Packet> {
        let frame = match (own, next_hop) {
            (IpAddr::V4(own), IpAddr::V4(next_hop)) => arp_request(self.mac, own, next_hop),
            (IpAddr::V6(own), IpAddr::V6(next_hop)) => {
                neighbor_solicitation(self.mac, own, next_hop)
            }
            _ => return None,
        };
        let mut packet = Packet::from_bytes(&frame);
        packet.set_received(packet.in_port(), now);
        Some(packet)
    }

    /// Whether an address is the bridge's own.
    pub(super) fn has_address(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.address == address)
    }
}
