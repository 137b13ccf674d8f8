//! Fat trees of any size, and leaf-spine fabrics: nodes, links, roles and addresses.
//!
//! ```text
//!   cores      0 .. c        core i is linked to spine i / (core links a spine) of every pod
//!   spines     c ..          by pod; each is linked to every ToR of its pod
//!   ToRs           ..        by pod
//!   endpoints      ..        by ToR: its servers, then its gateways
//! ```
//!
//! A leaf-spine fabric is one pod without cores. Nodes are numbered in the order of the
//! drawing, so a switch's number is its identifier in the protocol, in the paper's order
//! (cores, spines, ToRs). A port is one direction of a link. The ports of a node are numbered
//! together, upwards first, in the order of their peers. Equal routes are listed in that
//! order.
//!
//! Addresses, with P pods: an endpoint is `(pod+1).tor.index.1`, where the index counts
//! servers, then gateways; a ToR is `(P+pod+1).0.tor.2`, a spine `(2P+pod+1).spine.0.1`, a
//! core `255.core.0.1`. So a node is computed from its address. This is the scheme of
//! SwitchV2P's published code. It limits a fabric to 84 pods of 256 ToRs with 256 endpoints
//! each.
//!
//! 1. Ports come in pairs: the peer of a port's peer is the node that the port belongs to.
//! 2. An endpoint has one port, to its ToR.
//! 3. `node_of(address(node))` is the node, for all nodes; no other address has one.

use std::net::Ipv4Addr;
use std::sync::Arc;

use prefetch_index::prefetch_index;
use thalweg_v2p::{Address, Attachment, Directory, Role, SwitchId};

use crate::id::{NodeId, PortId};
use crate::name::{NodeClass, NodeName};
use crate::routes::Routes;
use crate::shape::{FatTree, TopologyError};

const CORE_BYTE: u32 = 255;

/// The kind of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NodeKind {
    /// A switch; its number is its identifier.
    Switch(Role),
    /// A server, with machines.
    Server,
    /// A gateway.
    Gateway,
}

/// The node that a port belongs to, and the one at the other end.
#[derive(Clone, Copy, Debug)]
struct Ends {
    owner: NodeId,
    peer: NodeId,
}

/// A fabric: the links between nodes, and the shortest routes.
///
/// ```
/// use thalweg_fabric::{FatTree, Topology};
///
/// let topology = Topology::new(&FatTree::ft8_10k(10)).unwrap();
/// assert_eq!(topology.switch_count(), 80);
/// assert_eq!((topology.servers().len(), topology.gateways().len()), (128, 40));
/// ```
#[derive(Clone, Debug)]
pub struct Topology {
    shape: FatTree,
    kinds: Vec<NodeKind>,
    addresses: Vec<Address>,
    /// For each node, its first port; one more at the end.
    first_ports: Vec<u32>,
    /// For each port, the nodes that it joins.
    links: Vec<Ends>,
    /// For each endpoint, its ToR and the ToR's port to it.
    attached: Vec<(NodeId, PortId)>,
    /// For each ToR, its first endpoint; one more at the end.
    first_endpoints: Vec<u32>,
    servers: Vec<NodeId>,
    gateways: Vec<NodeId>,
    /// The gateways that are not at work.
    idle_gateways: Vec<NodeId>,
    routes: Routes,
    has_published_routes: bool,
}

impl Topology {
    /// Builds a fat tree, its addresses and its routes.
    ///
    /// # Errors
    /// If a size is out of range.
    pub fn new(shape: &FatTree) -> Result<Topology, TopologyError> {
        shape.check()?;
        let counts = Counts::of(shape);
        let mut topology = Topology {
            shape: shape.clone(),
            kinds: Vec::new(),
            addresses: Vec::new(),
            first_ports: Vec::new(),
            links: Vec::new(),
            attached: Vec::new(),
            first_endpoints: Vec::new(),
            servers: Vec::new(),
            gateways: Vec::new(),
            idle_gateways: Vec::new(),
            routes: Routes::default(),
            has_published_routes: false,
        };
        topology.add_nodes(counts);
        topology.add_ports(counts);
        topology.reroute(|_| true);
        Ok(topology)
    }

    /// Replaces the routes by those of SwitchV2P's published code.
    ///
    /// They are shortest ones, except to a spine of another pod, which only invalidation
    /// packets go to. There all uplinks are equal, so that most packets reach another spine of
    /// that pod, and go on to the right one by a ToR. After a failure all routes are shortest
    /// ones.
    pub fn with_published_routes(mut self) -> Topology {
        self.has_published_routes = true;
        self.reroute(|_| true);
        self
    }

    /// Number of nodes; switches come first.
    pub fn node_count(&self) -> usize {
        self.kinds.len()
    }

    /// Number of switches; nodes below this number are switches.
    pub fn switch_count(&self) -> usize {
        self.kinds.len() - self.attached.len()
    }

    /// Number of ports, two for each link.
    pub fn port_count(&self) -> usize {
        self.links.len()
    }

    /// Number of pods.
    pub fn pod_count(&self) -> u32 {
        self.shape.pods
    }

    /// The kind of a node.
    #[inline]
    pub fn kind(&self, node: NodeId) -> NodeKind {
        self.kinds[node.0 as usize]
    }

    /// The physical address of a node.
    #[inline]
    pub fn address(&self, node: NodeId) -> Address {
        self.addresses[node.0 as usize]
    }

    /// The servers, in the order of their ToRs.
    pub fn servers(&self) -> &[NodeId] {
        &self.servers
    }

    /// The gateways, in the order of their ToRs.
    pub fn gateways(&self) -> &[NodeId] {
        &self.gateways
    }

    /// Servers and gateways, in the order of their ToRs.
    pub fn endpoints(&self) -> impl Iterator<Item = NodeId> + use<> {
        (self.switch_count() as u32..self.node_count() as u32).map(NodeId)
    }

    /// The ports of a node.
    pub fn ports(&self, node: NodeId) -> impl Iterator<Item = PortId> + use<> {
        let node = node.0 as usize;
        (self.first_ports[node]..self.first_ports[node + 1]).map(PortId)
    }

    /// The node at the other end of a port's link.
    #[inline]
    pub fn peer(&self, port: PortId) -> NodeId {
        self.links[port.0 as usize].peer
    }

    /// The node that sends on a port.
    #[inline]
    pub fn owner(&self, port: PortId) -> NodeId {
        self.links[port.0 as usize].owner
    }

    /// Whether a port belongs to or leads to a server or gateway.
    pub fn is_edge(&self, port: PortId) -> bool {
        let switches = self.switch_count() as u32;
        self.peer(port).0 >= switches || self.owner(port).0 >= switches
    }

    /// The ToR of a server or gateway; `None` for a switch.
    #[inline]
    pub fn tor_of(&self, node: NodeId) -> Option<NodeId> {
        let endpoint = (node.0 as usize).checked_sub(self.switch_count())?;
        Some(self.attached[endpoint].0)
    }

    /// The pod of a node; `None` for a core.
    pub fn pod_of(&self, node: NodeId) -> Option<u32> {
        let counts = Counts::of(&self.shape);
        let node = self.tor_of(node).unwrap_or(node).0;
        let (spines, tors) = (counts.cores, counts.cores + counts.spines);
        match node {
            core if core < spines => None,
            spine if spine < tors => Some((spine - spines) / self.shape.spines_per_pod),
            tor => Some((tor - tors) / self.shape.tors_per_pod),
        }
    }

    /// Recomputes next hops over the ports that work.
    pub(crate) fn reroute(&mut self, is_up: impl Fn(PortId) -> bool) {
        let counts = Counts::of(&self.shape);
        let mut ports = (0..self.port_count() as u32).map(PortId);
        let is_whole = ports.all(&is_up);
        let links = |switch| {
            let mut ports = self.ports_to_switches(switch, counts);
            ports.retain(|(port, _)| is_up(*port));
            ports
        };
        self.routes = Routes::new(counts.switches(), links, |switch, destination| {
            let is_published = is_whole && self.has_published_routes;
            is_published
                .then(|| self.ways_up(switch, destination, counts))
                .flatten()
        });
    }

    /// All uplinks, if the route is from a spine or ToR to a spine of another pod.
    fn ways_up(&self, switch: u32, destination: u32, counts: Counts) -> Option<Vec<PortId>> {
        let spines = counts.cores..counts.cores + counts.spines;
        let pod = self.pod_of(NodeId(switch))?;
        if !spines.contains(&destination) || self.pod_of(NodeId(destination)) == Some(pod) {
            return None;
        }
        let count = match spines.contains(&switch) {
            true => self.shape.core_links_per_spine,
            false => self.shape.spines_per_pod,
        };
        Some(self.ports(NodeId(switch)).take(count as usize).collect())
    }

    /// The name of a node.
    pub fn name(&self, node: NodeId) -> NodeName {
        let counts = Counts::of(&self.shape);
        let place = |list: &[NodeId]| list.binary_search(&node).unwrap_or_default() as u32;
        let (class, number) = match self.kind(node) {
            NodeKind::Server => (NodeClass::Server, place(&self.servers)),
            NodeKind::Gateway => (NodeClass::Gateway, place(&self.gateways)),
            NodeKind::Switch(Role::Core) => (NodeClass::Core, node.0),
            NodeKind::Switch(Role::Spine | Role::GatewaySpine) => {
                (NodeClass::Spine, node.0 - counts.cores)
            }
            NodeKind::Switch(Role::Tor | Role::GatewayTor) => {
                (NodeClass::Tor, node.0 - counts.cores - counts.spines)
            }
        };
        NodeName { class, number }
    }

    /// The node with a name, if the fabric has it.
    pub fn node_named(&self, NodeName { class, number }: NodeName) -> Option<NodeId> {
        let counts = Counts::of(&self.shape);
        let (first, count) = match class {
            NodeClass::Core => (0, counts.cores),
            NodeClass::Spine => (counts.cores, counts.spines),
            NodeClass::Tor => (counts.cores + counts.spines, counts.tors),
            NodeClass::Server => return self.servers.get(number as usize).copied(),
            NodeClass::Gateway => return self.gateways.get(number as usize).copied(),
        };
        (number < count).then(|| NodeId(first + number))
    }

    /// The ports of the links of a node, in both directions.
    pub fn link_ports(&self, node: NodeId) -> impl Iterator<Item = PortId> + '_ {
        let ports = (0..self.port_count() as u32).map(PortId);
        ports.filter(move |&port| self.owner(port) == node || self.peer(port) == node)
    }

    /// Prefetches the data of [`Topology::peer`].
    #[inline]
    pub(crate) fn ask_peer(&self, port: PortId) {
        prefetch_index(&self.links, port.0 as usize);
    }

    /// Prefetches the data of [`Topology::next_ports`].
    #[inline]
    pub(crate) fn ask_next_ports(&self, switch: NodeId, destination: NodeId) {
        match (destination.0 as usize).checked_sub(self.switch_count()) {
            None => self.routes.ask(switch, destination),
            Some(endpoint) => {
                let tor = self.attached[endpoint].0;
                self.routes.ask(switch, tor);
            }
        }
    }

    /// The ports of a switch that are nearest to a node; empty if the node is the switch
    /// itself.
    ///
    /// Ports are in ascending order, not necessarily consecutive.
    #[inline]
    pub fn next_ports(&self, switch: NodeId, destination: NodeId) -> &[PortId] {
        match (destination.0 as usize).checked_sub(self.switch_count()) {
            None => self.routes.next_ports(switch, destination),
            Some(endpoint) => {
                let (tor, port) = &self.attached[endpoint];
                match *tor == switch {
                    true => std::slice::from_ref(port),
                    false => self.routes.next_ports(switch, *tor),
                }
            }
        }
    }

    /// The node with a physical address.
    #[inline]
    pub fn node_of(&self, address: Address) -> Option<NodeId> {
        let [a, b, c, d] = address.to_ipv4()?.octets().map(u32::from);
        let (pods, shape) = (self.shape.pods, &self.shape);
        let counts = Counts::of(shape);
        let number = match (a, d) {
            (CORE_BYTE, 1) if c == 0 && b < counts.cores => b,
            (0, _) => return None,
            (a, 1) if a <= pods && b < shape.tors_per_pod => {
                let tor = ((a - 1) * shape.tors_per_pod + b) as usize;
                let node = self.first_endpoints[tor] + c;
                return (node < self.first_endpoints[tor + 1]).then_some(NodeId(node));
            }
            (a, 2) if pods < a && a <= 2 * pods && b == 0 && c < shape.tors_per_pod => {
                counts.cores + counts.spines + (a - pods - 1) * shape.tors_per_pod + c
            }
            (a, 1) if 2 * pods < a && a <= 3 * pods && c == 0 && b < shape.spines_per_pod => {
                counts.cores + (a - 2 * pods - 1) * shape.spines_per_pod + b
            }
            _ => return None,
        };
        Some(NodeId(number))
    }

    /// The directory for the protocol's agents.
    pub fn directory(&self) -> Arc<Directory> {
        let is_idle = |node: &NodeId| self.idle_gateways.contains(node);
        let at_work = self.gateways.iter().filter(|node| !is_idle(node));
        let gateways = at_work.map(|&node| self.address(node)).collect();
        let idle = self.idle_gateways.iter().map(|&node| self.address(node));
        let switches = &self.addresses[..self.switch_count()];
        let hosts = self.endpoints().filter_map(|node| {
            let (tor, pod) = (self.tor_of(node)?, self.pod_of(node)?);
            let tor = SwitchId(tor.0);
            Some((self.address(node), Attachment { tor, pod }))
        });
        let directory = Directory::new(gateways, switches.to_vec(), hosts);
        Arc::new(directory.with_idle_gateways(idle))
    }

    /// Sets which ToRs' gateways are at work, and updates the roles of the switches.
    pub(crate) fn set_gateways_at_work(&mut self, tors: &[u32]) {
        let counts = Counts::of(&self.shape);
        let first_tor = counts.cores + counts.spines;
        let is_at_work = |tor: u32| tors.contains(&tor) && self.shape.gateways_per_tor > 0;
        let tor_of = |node: NodeId| self.tor_of(node).map_or(0, |tor| tor.0 - first_tor);
        let gateways = self.gateways.iter().copied();
        self.idle_gateways = gateways.filter(|&node| !is_at_work(tor_of(node))).collect();
        for switch in counts.cores..counts.switches() {
            let role = match switch.checked_sub(first_tor) {
                Some(tor) => tor_role(is_at_work(tor)),
                None => {
                    let pod = (switch - counts.cores) / self.shape.spines_per_pod;
                    let first = pod * self.shape.tors_per_pod;
                    spine_role((first..first + self.shape.tors_per_pod).any(is_at_work))
                }
            };
            self.kinds[switch as usize] = NodeKind::Switch(role);
        }
    }

    fn add_nodes(&mut self, counts: Counts) {
        let shape = self.shape.clone();
        let pods = shape.pods;
        let has_gateways =
            |tor| shape.gateways_per_tor > 0 && shape.gateway_tors.binary_search(&tor).is_ok();
        for core in 0..counts.cores {
            self.add_node(NodeKind::Switch(Role::Core), [CORE_BYTE, core, 0, 1]);
        }
        for spine in 0..counts.spines {
            let (pod, index) = (spine / shape.spines_per_pod, spine % shape.spines_per_pod);
            let mut tors = pod * shape.tors_per_pod..(pod + 1) * shape.tors_per_pod;
            let role = spine_role(tors.any(has_gateways));
            self.add_node(NodeKind::Switch(role), [2 * pods + pod + 1, index, 0, 1]);
        }
        for tor in 0..counts.tors {
            let (pod, index) = (tor / shape.tors_per_pod, tor % shape.tors_per_pod);
            let role = tor_role(has_gateways(tor));
            self.add_node(NodeKind::Switch(role), [pods + pod + 1, 0, index, 2]);
        }
        for tor in 0..counts.tors {
            let (pod, index) = (tor / shape.tors_per_pod, tor % shape.tors_per_pod);
            self.first_endpoints.push(self.kinds.len() as u32);
            let gateways = if has_gateways(tor) {
                shape.gateways_per_tor
            } else {
                0
            };
            for endpoint in 0..shape.servers_per_tor + gateways {
                let is_server = endpoint < shape.servers_per_tor;
                let kind = if is_server {
                    NodeKind::Server
                } else {
                    NodeKind::Gateway
                };
                let node = self.add_node(kind, [pod + 1, index, endpoint, 1]);
                if is_server {
                    &mut self.servers
                } else {
                    &mut self.gateways
                }
                .push(node);
                // The ToR's port is known once the ports are numbered.
                let tor = NodeId(counts.cores + counts.spines + tor);
                self.attached.push((tor, PortId(0)));
            }
        }
        self.first_endpoints.push(self.kinds.len() as u32);
    }

    fn add_node(&mut self, kind: NodeKind, octets: [u32; 4]) -> NodeId {
        let node = NodeId(self.kinds.len() as u32);
        self.kinds.push(kind);
        let address = Ipv4Addr::from(octets.map(|octet| octet as u8));
        self.addresses.push(address.into());
        node
    }

    fn add_ports(&mut self, counts: Counts) {
        let shape = self.shape.clone();
        let (spines, tors) = (counts.cores, counts.cores + counts.spines);
        let add = |topology: &mut Topology, owner: u32, peers: &mut dyn Iterator<Item = u32>| {
            topology.first_ports.push(topology.links.len() as u32);
            for peer in peers {
                let (owner, peer) = (NodeId(owner), NodeId(peer));
                topology.links.push(Ends { owner, peer });
            }
        };
        for core in 0..counts.cores {
            let index = core / shape.core_links_per_spine;
            let peer = |pod| spines + pod * shape.spines_per_pod + index;
            add(self, core, &mut (0..shape.pods).map(peer));
        }
        for spine in 0..counts.spines {
            let (pod, index) = (spine / shape.spines_per_pod, spine % shape.spines_per_pod);
            let links = shape.core_links_per_spine;
            let down = (0..shape.tors_per_pod).map(|tor| tors + pod * shape.tors_per_pod + tor);
            add(
                self,
                spines + spine,
                &mut (index * links..(index + 1) * links).chain(down),
            );
        }
        for tor in 0..counts.tors {
            let pod = tor / shape.tors_per_pod;
            let up =
                (0..shape.spines_per_pod).map(|spine| spines + pod * shape.spines_per_pod + spine);
            let (start, end) = (
                self.first_endpoints[tor as usize],
                self.first_endpoints[tor as usize + 1],
            );
            let first_down = self.links.len() as u32 + shape.spines_per_pod;
            add(self, tors + tor, &mut up.chain(start..end));
            for endpoint in start..end {
                let index = endpoint - counts.switches();
                self.attached[index as usize].1 = PortId(first_down + endpoint - start);
            }
        }
        for index in 0..self.attached.len() {
            let tor = self.attached[index].0.0;
            add(
                self,
                counts.switches() + index as u32,
                &mut std::iter::once(tor),
            );
        }
        self.first_ports.push(self.links.len() as u32);
    }

    fn ports_to_switches(&self, switch: u32, counts: Counts) -> Vec<(PortId, u32)> {
        let ports = self
            .ports(NodeId(switch))
            .map(|port| (port, self.peer(port).0));
        ports
            .filter(|(_, peer)| *peer < counts.switches())
            .collect()
    }
}

fn tor_role(has_gateways: bool) -> Role {
    match has_gateways {
        true => Role::GatewayTor,
        false => Role::Tor,
    }
}

/// The role of a spine, by whether a ToR below it has gateways.
fn spine_role(has_gateways: bool) -> Role {
    match has_gateways {
        true => Role::GatewaySpine,
        false => Role::Spine,
    }
}

/// The number of switches of each kind.
#[derive(Clone, Copy)]
struct Counts {
    cores: u32,
    spines: u32,
    tors: u32,
}

impl Counts {
    #[inline]
    fn of(shape: &FatTree) -> Counts {
        Counts {
            cores: shape.spines_per_pod * shape.core_links_per_spine,
            spines: shape.pods * shape.spines_per_pod,
            tors: shape.pods * shape.tors_per_pod,
        }
    }

    fn switches(self) -> u32 {
        self.cores + self.spines + self.tors
    }
}
