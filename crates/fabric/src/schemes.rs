//! The behaviour of switches and hosts in each scheme except SwitchV2P, which is
//! `thalweg-v2p`.
//!
//! | scheme | state | file |
//! | --- | --- | --- |
//! | NoCache, Direct | none | |
//! | LocalLearning, GwCache | a direct-mapped cache in each switch, or each gateway ToR | `learning.rs` |
//! | Bluebird | an LRU cache and a control plane in each ToR | `bluebird.rs` |
//! | OnDemand | each host's knowledge | `on_demand.rs` |
//! | Controller | an LRU cache in each switch, a matrix of traffic, an integer program | `controller/` |
//!
//! None of them has tags: a packet is resolved or not, and a host that receives one by mistake
//! sends it after the machine. Costs and delays are those of the published code and of section
//! 5; where the text differs there is an option.
//!
//! 1. A switch rewrites the destination of a packet only while it is a gateway's.
//! 2. Handling a packet allocates nothing, except that LRU caches and tables of hosts grow.
//!
//! Reference: Zeno, Chen, Silberstein, *In-Network Address Caching for Virtual Networks*, SIGCOMM
//! 2024, section 5 and appendix A.

mod bluebird;
mod controller;
mod learning;
mod on_demand;
mod recent;

use std::sync::Arc;

use rand::RngCore;
use thalweg_v2p::{Address, AgentConfig, Data, Directory, Role, SwitchAgent, SwitchId};

pub use self::bluebird::Bluebird;
pub(crate) use self::bluebird::{ControlPlane, Diverted};
pub(crate) use self::controller::Planner;
pub use self::controller::{Controller, ControllerCost, ControllerReport};
pub(crate) use self::learning::LearningCache;
pub use self::on_demand::OnDemand;
pub(crate) use self::on_demand::{HOST_UPDATE, HostMemory, Known};
use crate::config::{Config, Scheme, SwitchV2p};
use crate::id::NodeId;
use crate::tenants::partitions_of;
use crate::topology::{NodeKind, Topology};

/// The state in the switches of a run, by switch.
#[derive(Clone, Debug)]
pub(crate) enum Caches {
    /// Switches that only forward.
    Absent,
    /// Agents of SwitchV2P.
    Protocol(Vec<SwitchAgent>),
    /// Caches that learn from passing packets.
    Learning(Vec<Option<LearningCache>>),
    /// ToRs with a control plane.
    Bluebird(Vec<Option<ControlPlane>>),
    /// Caches that a controller fills.
    Planned(Box<Planner>),
}

impl Caches {
    /// Creates the empty caches of a scheme.
    pub(crate) fn new(
        topology: &Topology,
        config: &Config,
        directory: &Arc<Directory>,
        random: &mut impl RngCore,
    ) -> Caches {
        match config.scheme {
            Scheme::NoCache | Scheme::Direct | Scheme::OnDemand(_) => Caches::Absent,
            Scheme::SwitchV2p(settings) => Caches::Protocol(
                switches(topology)
                    .map(|(node, role)| {
                        let switch = switch_config(topology, node, role, settings);
                        let switch = with_entries(switch, config.switch_entries.as_deref());
                        let mut agent = SwitchAgent::new(&switch, directory.clone());
                        if settings.is_partitioned {
                            agent.set_partitions(partitions_of(&config.tenants));
                        }
                        agent
                    })
                    .collect(),
            ),
            Scheme::LocalLearning { entries } => Caches::Learning(
                switches(topology)
                    .map(|_| Some(LearningCache::new(entries, random.next_u32())))
                    .collect(),
            ),
            Scheme::GwCache { entries } => Caches::Learning(
                switches(topology)
                    .map(|(_, role)| {
                        (role == Role::GatewayTor).then(|| LearningCache::new(entries, 0))
                    })
                    .collect(),
            ),
            Scheme::Bluebird(settings) => Caches::Bluebird(
                switches(topology)
                    .map(|(_, role)| role.is_tor().then(|| ControlPlane::new(settings)))
                    .collect(),
            ),
            Scheme::Controller(settings) => {
                let count = topology.switch_count();
                Caches::Planned(Box::new(Planner::new(settings, count)))
            }
        }
    }
}

impl Caches {
    /// Follows a move of gateways: agents change roles, and caches at gateways move.
    pub(crate) fn follow_gateways(
        &mut self,
        topology: &Topology,
        scheme: Scheme,
        directory: &Arc<Directory>,
    ) {
        for (node, role) in switches(topology) {
            let index = node.0 as usize;
            match (&mut *self, scheme) {
                (Caches::Protocol(agents), _) => {
                    agents[index].set_role(role);
                    agents[index].set_directory(directory.clone());
                }
                (Caches::Learning(caches), Scheme::GwCache { entries }) => {
                    let is_gateway = role == Role::GatewayTor;
                    let cache = caches[index].take().filter(|_| is_gateway);
                    let empty = || is_gateway.then(|| LearningCache::new(entries, 0));
                    caches[index] = cache.or_else(empty);
                }
                _ => {}
            }
        }
    }
}

fn switches(topology: &Topology) -> impl Iterator<Item = (NodeId, Role)> {
    let nodes = (0..topology.switch_count() as u32).map(NodeId);
    nodes.filter_map(|node| match topology.kind(node) {
        NodeKind::Switch(role) => Some((node, role)),
        NodeKind::Server | NodeKind::Gateway => None,
    })
}

fn switch_config(
    topology: &Topology,
    node: NodeId,
    role: Role,
    settings: SwitchV2p,
) -> AgentConfig {
    let entries = settings.memory.entries(role, settings.entries);
    let (id, address) = (SwitchId(node.0), topology.address(node));
    let config = AgentConfig::new(id, address, role, settings.profile, entries);
    AgentConfig {
        pod: topology.pod_of(node).unwrap_or_default(),
        learning_probability: settings.learning_probability,
        sends_invalidations: settings.sends_invalidations,
        has_timestamp_vector: settings.has_timestamp_vector,
        ..config
    }
}

/// Replaces the number of lines by the list's, if there is one.
fn with_entries(mut config: AgentConfig, entries: Option<&[u32]>) -> AgentConfig {
    let said = entries.and_then(|entries| entries.get(config.id.0 as usize));
    if let Some(&said) = said {
        config.cache.capacity_entries = said;
    }
    config
}

/// The result of a packet at a switch without the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resolution {
    /// It goes on unchanged.
    AsIs,
    /// It goes to this host.
    To(Address),
    /// It goes through the control plane.
    Diverted(Diverted),
}

impl From<Option<Address>> for Resolution {
    fn from(place: Option<Address>) -> Resolution {
        place.map_or(Resolution::AsIs, Resolution::To)
    }
}

/// An unresolved packet to look up, or a resolved one to learn from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) data: &'a Data,
    pub(crate) is_unresolved: bool,
    pub(crate) outer_destination: Address,
    /// The size on the wire.
    pub(crate) bytes: u32,
}
