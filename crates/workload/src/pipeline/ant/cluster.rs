//! The objects behind ANT's rules, and flows between them.
//!
//! ```text
//!   10.10.0.0/24         pods of this node; its gateway is 10.10.0.1
//!   10.11.0.0 and up     a /24 of pods for each other node
//!   10.96.0.0/12         services
//!   20.0.0.0/8           outside of the cluster
//!   172.18.0.0/16        nodes; this one is 172.18.255.1
//! ```
//!
//! Half of the flows between pods aim at what a network policy names. Flows to services with
//! session affinity come from few pods and go to few services, because each pair makes a rule.

use std::fmt::Write;
use std::net::Ipv4Addr;

use rand::Rng;
use thalweg_packet::wire::MacAddress;

use super::tables::{ENDPOINT_DNAT, SERVICE_LB, Scenario};
use super::{AntConfig, set_bits};
use crate::action::{Action, write_list};
use crate::field::{Field, prefix_mask};
use crate::flows::Flow;
use crate::seed::{Random, pick, stream};

/// The gateway's address on the Ethernet level; hosts of other nodes appear behind it.
pub(super) const GATEWAY_MAC: u64 = 0x02ff_ff00_0002;
/// The address of all that is behind the tunnel.
pub(super) const TUNNEL_MAC: u64 = 0xaabb_ccdd_eeff;
/// Pod `i` has this address plus `i`.
const POD_MAC: u64 = 0x0200_0a0a_0000;

pub(super) const TUNNEL_PORT: u32 = 1;
pub(super) const GATEWAY_PORT: u32 = 2;
const FIRST_POD_PORT: u32 = 3;

pub(super) const GATEWAY_IP: u32 = 0x0a0a_0001;
pub(super) const NODE_IP: u32 = 0xac12_ff01;
/// The address that stands for clients outside, and the source of hairpin connections.
pub(super) const VIRTUAL_IP: u32 = 0xa9fe_00fd;
const FIRST_SERVICE: u32 = 0x0a60_000a;
const FIRST_NODE_PORT: u16 = 30_000;

/// One service in 16 has session affinity, and one in 8 a port on each node.
const AFFINITY_OF: u32 = 16;
const NODE_PORT_OF: u32 = 8;
/// Services with affinity that flows go to, and pods that they come from.
const AFFINITY_SERVICES: u32 = 8;
const AFFINITY_PODS: u32 = 16;

/// Ports of servers.
pub(super) const SERVER_PORTS: [u16; 12] = [
    80, 443, 8080, 8443, 9090, 53, 3306, 5432, 6379, 9092, 5000, 25,
];

/// A pod of this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pod {
    pub(super) index: u32,
    pub(super) port: u32,
    pub(super) mac: u64,
    pub(super) ip: u32,
}

/// Who serves a service.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Endpoint {
    pub(super) protocol: u8,
    pub(super) ip: u32,
    pub(super) port: u16,
}

/// A service of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Service {
    pub(super) group: u32,
    pub(super) protocol: u8,
    pub(super) ip: u32,
    pub(super) port: u16,
    pub(super) has_affinity: bool,
    /// Its port on each node.
    pub(super) node_port: Option<u16>,
    pub(super) endpoints: Vec<Endpoint>,
}

/// A peer of a pod that a network policy names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Target {
    pub(super) is_egress: bool,
    pub(super) pod: u32,
    pub(super) address: u32,
    pub(super) length: u32,
    /// Protocol and port, if the policy names some.
    pub(super) port: Option<(u8, u16)>,
}

/// A node of a cluster: its pods, other nodes, services, and what policies name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cluster {
    pub(super) pods: Vec<Pod>,
    pub(super) nodes: u32,
    pub(super) services: Vec<Service>,
    pub(super) targets: Vec<Target>,
}

impl Cluster {
    /// Draws the services of a cluster; the rest follows from the sizes.
    pub(super) fn draw(config: &AntConfig) -> Cluster {
        let pods = (0..config.pods).map(|index| Pod {
            index,
            port: FIRST_POD_PORT + index,
            mac: POD_MAC + u64::from(index),
            ip: GATEWAY_IP + 1 + index,
        });
        let mut cluster = Cluster {
            pods: pods.collect(),
            nodes: config.nodes,
            services: Vec::new(),
            targets: Vec::new(),
        };
        let mut random = stream(config.seed, "services");
        let services = (0..config.services).map(|index| cluster.service(index, &mut random));
        cluster.services = services.collect();
        cluster
    }

    fn service(&self, index: u32, random: &mut Random) -> Service {
        let protocol = if random.random_ratio(4, 5) { 6 } else { 17 };
        let count = random.random_range(1..=4);
        let mut endpoints = Vec::new();
        while endpoints.len() < count {
            let is_here = random.random_ratio(3, 10);
            let ip = match is_here {
                true => pick(random, &self.pods).ip,
                false => self.remote_pod(random),
            };
            let port = *pick(random, &SERVER_PORTS);
            let endpoint = Endpoint { protocol, ip, port };
            if !endpoints.contains(&endpoint) {
                endpoints.push(endpoint);
            }
        }
        let node_port = u16::try_from(index / NODE_PORT_OF).ok().filter(|number| {
            index.is_multiple_of(NODE_PORT_OF) && *number < u16::MAX - FIRST_NODE_PORT
        });
        Service {
            group: index + 1,
            protocol,
            ip: FIRST_SERVICE + index,
            port: *pick(random, &SERVER_PORTS),
            has_affinity: index % AFFINITY_OF == 5,
            node_port: node_port.map(|number| FIRST_NODE_PORT + number),
            endpoints,
        }
    }

    /// The numbers of all ports.
    pub(super) fn port_numbers(&self) -> Vec<u32> {
        (TUNNEL_PORT..=self.mirror_port()).collect()
    }

    /// The port that gets copies.
    pub(super) fn mirror_port(&self) -> u32 {
        FIRST_POD_PORT + self.pods.len() as u32
    }

    /// The pods of another node, as the first address of 256.
    pub(super) fn network_of_node(node: u32) -> u32 {
        0x0a0b_0000 + (node << 8)
    }

    /// The address of another node.
    pub(super) fn address_of_node(node: u32) -> u32 {
        0xac12_0001 + node
    }

    /// A pod of another node.
    pub(super) fn remote_pod(&self, random: &mut Random) -> u32 {
        let node = random.random_range(0..self.nodes);
        Cluster::network_of_node(node) + random.random_range(2..102)
    }

    /// An address outside of the cluster.
    pub(super) fn external(random: &mut Random) -> u32 {
        0x1400_0000 | random.random_range(0..1 << 24)
    }

    fn is_remote_pod(&self, ip: u32) -> bool {
        (Cluster::network_of_node(0)..Cluster::network_of_node(self.nodes)).contains(&ip)
    }

    /// The node whose address the pod has outside of the cluster: none, this one, or another.
    pub(super) fn egress_of(&self, pod: &Pod) -> Option<Option<u32>> {
        match pod.index % 4 {
            1 => Some(None),
            2 => Some(Some(pod.index % self.nodes)),
            _ => None,
        }
    }

    /// The groups, one for each service.
    pub(super) fn groups(&self) -> Vec<String> {
        self.services.iter().map(Service::group_text).collect()
    }
}

impl Service {
    fn group_text(&self) -> String {
        let mut text = format!("group_id={},type=select", self.group);
        let next = match self.has_affinity {
            true => SERVICE_LB,
            false => ENDPOINT_DNAT,
        };
        for (number, endpoint) in self.endpoints.iter().enumerate() {
            let actions = [
                Action::SetField(Field::Register(3), endpoint.ip.into()),
                set_bits((4, 0xffff), endpoint.port.into()),
                Action::Resubmit(next),
            ];
            let written = write!(text, ",bucket=bucket_id:{number},weight:100,actions=")
                .and_then(|()| write_list(&mut text, &actions));
            written.expect("a String takes any text");
        }
        text
    }
}

/// Where a flow goes.
struct Peer {
    ip: u32,
    /// Protocol and port, if they are known.
    port: Option<(u8, u16)>,
}

impl From<u32> for Peer {
    fn from(ip: u32) -> Peer {
        Peer { ip, port: None }
    }
}

impl From<&Service> for Peer {
    fn from(service: &Service) -> Peer {
        Peer {
            ip: service.ip,
            port: Some((service.protocol, service.port)),
        }
    }
}

/// Flows.
impl Cluster {
    /// Draws a flow of a template of ANT.
    pub(crate) fn draw_flow(&self, template: usize, random: &mut Random) -> Flow {
        let scenario = Scenario::ALL[template];
        match scenario {
            Scenario::ArpOfPod | Scenario::ArpOfGateway | Scenario::ArpSpoofed => {
                self.arp(scenario, random)
            }
            Scenario::GatewayToPod
            | Scenario::GatewayToRemote
            | Scenario::GatewayToService
            | Scenario::ToNodePort => self.flow_of_gateway(scenario, random),
            Scenario::TunnelToPod | Scenario::TunnelToGateway | Scenario::TunnelToExternal => {
                self.flow_of_tunnel(scenario, random)
            }
            _ => self.flow_of_pod(scenario, random),
        }
    }

    fn arp(&self, scenario: Scenario, random: &mut Random) -> Flow {
        let pod = pick(random, &self.pods);
        let (in_port, mac, ip_src, ip_dst) = match scenario {
            Scenario::ArpOfGateway => {
                let node = random.random_range(0..self.nodes);
                // The host has many addresses of its own.
                let own = 0xa9fe_0000 | random.random_range(0..1 << 16);
                let asked = Cluster::network_of_node(node) + 1;
                (GATEWAY_PORT, GATEWAY_MAC, own, asked)
            }
            Scenario::ArpSpoofed => {
                let claimed = Cluster::external(random);
                (pod.port, pod.mac, claimed, GATEWAY_IP)
            }
            _ => {
                let asked = 0x0a0a_0000 | random.random_range(1..1 << 16);
                (pod.port, pod.mac, pod.ip, asked)
            }
        };
        Flow {
            in_port,
            eth_src: MacAddress::from_u64(mac),
            eth_dst: MacAddress([0xff; 6]),
            ip_src: Ipv4Addr::from(ip_src),
            ip_dst: Ipv4Addr::from(ip_dst),
            is_arp: true,
            ..Flow::default()
        }
    }

    fn flow_of_pod(&self, scenario: Scenario, random: &mut Random) -> Flow {
        let kind = match scenario {
            Scenario::EgressHere => 1,
            Scenario::EgressElsewhere | Scenario::EgressToNode => 2,
            Scenario::PodToExternal => random.random_range(0..2) * 3,
            _ => random.random_range(0..4),
        };
        let alike = self.pods.iter().filter(|pod| pod.index % 4 == kind);
        let mut alike: Vec<&Pod> = alike.collect();
        if scenario == Scenario::PodToAffinity {
            alike.retain(|pod| pod.index < AFFINITY_PODS);
        }
        let mut pod = **pick(random, &alike);
        let peer = match scenario {
            Scenario::PodToPod => self.other_pod(&pod, random).ip.into(),
            Scenario::PodToService => pick(random, &self.services).into(),
            Scenario::PodToAffinity => self.affinity_service(random),
            Scenario::EgressToNode => {
                Cluster::address_of_node(random.random_range(0..self.nodes)).into()
            }
            Scenario::PodToGateway => GATEWAY_IP.into(),
            Scenario::Spoofed | Scenario::PodToRemote => self.aimed(&mut pod, true, random),
            _ => self.aimed(&mut pod, false, random),
        };
        let source = match scenario {
            Scenario::Spoofed => Cluster::external(random),
            _ => pod.ip,
        };
        let receiver = match scenario {
            Scenario::PodToPod => POD_MAC + u64::from(peer.ip - GATEWAY_IP - 1),
            _ => GATEWAY_MAC,
        };
        finish(pod.port, [pod.mac, receiver], source, &peer, random)
    }

    fn flow_of_gateway(&self, scenario: Scenario, random: &mut Random) -> Flow {
        let pod = pick(random, &self.pods);
        let (source, receiver, peer) = match scenario {
            Scenario::GatewayToPod => (GATEWAY_IP, pod.mac, pod.ip.into()),
            Scenario::GatewayToRemote => (GATEWAY_IP, TUNNEL_MAC, self.remote_pod(random).into()),
            Scenario::GatewayToService => {
                let own = 0xa9fe_0000 | random.random_range(0..1 << 15);
                let service = pick(random, &self.services);
                let service = match service.has_affinity {
                    true => &self.services[0],
                    false => service,
                };
                (own, TUNNEL_MAC, service.into())
            }
            _ => {
                let steps = (self.services.len() as u32).div_ceil(NODE_PORT_OF);
                let index = random.random_range(0..steps) * NODE_PORT_OF;
                let service = &self.services[index as usize];
                let port = service.node_port.unwrap_or(FIRST_NODE_PORT);
                let peer = Peer {
                    ip: NODE_IP,
                    port: Some((service.protocol, port)),
                };
                (Cluster::external(random), TUNNEL_MAC, peer)
            }
        };
        let ends = [GATEWAY_MAC, receiver];
        finish(GATEWAY_PORT, ends, source, &peer, random)
    }

    fn flow_of_tunnel(&self, scenario: Scenario, random: &mut Random) -> Flow {
        let mut source = self.remote_pod(random);
        let peer = match scenario {
            Scenario::TunnelToPod => {
                let pod = pick(random, &self.pods);
                let aim = self.target(random, |target| {
                    !target.is_egress && self.is_remote_pod(target.address)
                });
                match aim {
                    Some(aim) => {
                        source = within(aim, random);
                        Peer {
                            ip: self.pods[aim.pod as usize].ip,
                            port: aim.port,
                        }
                    }
                    None => pod.ip.into(),
                }
            }
            Scenario::TunnelToGateway => GATEWAY_IP.into(),
            _ => Cluster::external(random).into(),
        };
        let ends = [GATEWAY_MAC, TUNNEL_MAC];
        finish(TUNNEL_PORT, ends, source, &peer, random)
    }

    /// A peer behind the tunnel or outside of the cluster; half of them are named by a policy,
    /// and the pod is then one of the policy's if it has the same way out.
    fn aimed(&self, pod: &mut Pod, is_remote: bool, random: &mut Random) -> Peer {
        let aim = self.target(random, |target| {
            target.is_egress
                && target.pod % 4 == pod.index % 4
                && self.is_remote_pod(target.address) == is_remote
        });
        match aim {
            Some(aim) => {
                *pod = self.pods[aim.pod as usize];
                Peer {
                    ip: within(aim, random),
                    port: aim.port,
                }
            }
            None if is_remote => self.remote_pod(random).into(),
            None => Cluster::external(random).into(),
        }
    }

    /// One of a few drawn targets of policies, in half of the cases.
    fn target(&self, random: &mut Random, is_wanted: impl Fn(&Target) -> bool) -> Option<&Target> {
        if self.targets.is_empty() || random.random_ratio(1, 2) {
            return None;
        }
        let mut drawn = (0..16).map(|_| pick(random, &self.targets));
        drawn.find(|target| is_wanted(target))
    }

    fn other_pod(&self, pod: &Pod, random: &mut Random) -> Pod {
        let count = self.pods.len() as u32;
        let step = random.random_range(1..count);
        self.pods[((pod.index + step) % count) as usize]
    }

    fn affinity_service(&self, random: &mut Random) -> Peer {
        let alike = self.services.iter().filter(|service| service.has_affinity);
        let alike: Vec<&Service> = alike.take(AFFINITY_SERVICES as usize).collect();
        match alike.is_empty() {
            true => (&self.services[0]).into(),
            false => (*pick(random, &alike)).into(),
        }
    }
}

/// An address of a target.
fn within(target: &Target, random: &mut Random) -> u32 {
    let mask = prefix_mask(target.length, 32) as u32;
    (target.address & mask) | (random.random::<u32>() & !mask)
}

/// A flow between these ends, the rest drawn.
fn finish(
    in_port: u32,
    [from, to]: [u64; 2],
    source: u32,
    peer: &Peer,
    random: &mut Random,
) -> Flow {
    let port = peer.port.unwrap_or_else(|| {
        let protocol = if random.random_ratio(1, 4) { 17 } else { 6 };
        (protocol, *pick(random, &SERVER_PORTS))
    });
    Flow {
        in_port,
        eth_src: MacAddress::from_u64(from),
        eth_dst: MacAddress::from_u64(to),
        ip_src: Ipv4Addr::from(source),
        ip_dst: Ipv4Addr::from(peer.ip),
        protocol: port.0,
        source_port: random.random_range(1_024..=65_535_u32) as u16,
        destination_port: port.1,
        ..Flow::default()
    }
}
