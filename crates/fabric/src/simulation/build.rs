//! From a configuration and a trace to a run at time zero.

use rand::SeedableRng;
use rand_pcg::Pcg64;
use slab::Slab;
use std::sync::Arc;
use thalweg_v2p::{
    Database, Directory, GatewayAgent, HostAgent, Profile, SwitchAgent, SwitchConfig, SwitchId,
};

use super::{Endpoint, Move, Simulation, Tally, key_of};
use crate::config::{Config, ConfigError, Scheme, SwitchV2p};
use crate::flows::{Machines, datagrams_of};
use crate::port::Port;
use crate::queue::EventQueue;
use crate::topology::{NodeId, NodeKind, PortId, Topology};
use crate::{Time, TraceLine};

impl Simulation {
    /// Builds the fabric, places the machines, and sorts what will be sent.
    ///
    /// # Errors
    /// If the configuration or the trace names what is not there.
    pub fn new(config: &Config, trace: &[TraceLine]) -> Result<Simulation, ConfigError> {
        let topology = Topology::new(&config.shape)?;
        check(config, &topology)?;
        let directory = topology.directory();
        let machines = Machines::new(&topology, config);
        let (datagrams, flows) = datagrams_of(trace, &machines, config.payload)?;
        let (endpoints, database) = endpoints_of(&topology, config, &directory, &machines);
        let link = |port| match topology.is_edge(port) {
            true => config.edge_link,
            false => config.fabric_link,
        };
        let ports = (0..topology.port_count() as u32).map(|port| Port::new(link(PortId(port))));
        Ok(Simulation {
            scheme: config.scheme,
            ecmp: config.ecmp,
            outer_bytes: config.outer_bytes,
            inner_bytes: config.inner_bytes,
            ports: ports.collect(),
            queue: EventQueue::new(),
            flights: Slab::new(),
            switches: switches_of(&topology, config.scheme, &directory),
            endpoints,
            database,
            moves: moves_of(config, &topology, &machines)?,
            next_move: 0,
            machines,
            datagrams,
            next_datagram: 0,
            flows,
            random: Pcg64::seed_from_u64(config.seed),
            now: Time::ZERO,
            switch_bytes: vec![0; topology.switch_count()],
            tally: Tally::default(),
            topology,
        })
    }
}

fn check(config: &Config, topology: &Topology) -> Result<(), ConfigError> {
    let (placed, servers) = (config.placement.servers().len(), topology.servers().len());
    if placed > servers {
        return Err(ConfigError::Servers { placed, servers });
    }
    if topology.gateways().is_empty() && config.scheme != Scheme::Direct {
        return Err(ConfigError::NoGateway);
    }
    if let Scheme::SwitchV2p(settings) = config.scheme
        && !(0.0..=1.0).contains(&settings.learning_probability)
    {
        let probability = settings.learning_probability.to_string();
        return Err(ConfigError::Probability(probability));
    }
    Ok(())
}

fn moves_of(
    config: &Config,
    topology: &Topology,
    machines: &Machines,
) -> Result<Vec<Move>, ConfigError> {
    let mut moves = Vec::new();
    for migration in &config.migrations {
        let servers = topology.servers();
        let server = migration.to_server;
        let missing = ConfigError::MigrationServer {
            server,
            servers: servers.len(),
        };
        let unknown = ConfigError::MigrationMachine(migration.machine);
        moves.push(Move {
            at: migration.at,
            machine: machines.index_of(migration.machine).ok_or(unknown)?,
            to: *servers.get(server as usize).ok_or(missing)?,
        });
    }
    moves.sort_by_key(|moved| moved.at);
    Ok(moves)
}

fn endpoints_of(
    topology: &Topology,
    config: &Config,
    directory: &Arc<Directory>,
    machines: &Machines,
) -> (Vec<Endpoint>, Database) {
    // Without caches in the switches, hosts send on what is misdelivered ("follow-me").
    let profile = match config.scheme {
        Scheme::NoCache | Scheme::Direct => Profile::Artifact,
        Scheme::SwitchV2p(settings) => settings.profile,
    };
    let endpoint = |node| match topology.kind(node) {
        NodeKind::Gateway => Endpoint::Gateway(GatewayAgent::new(profile)),
        _ => {
            let address = topology.address(node);
            Endpoint::Host(HostAgent::new(address, profile, directory.clone()))
        }
    };
    let mut endpoints: Vec<Endpoint> = topology.endpoints().map(endpoint).collect();
    let mut database = Database::new();
    for machine in &machines.all {
        let key = key_of(machine.address);
        let version = database.place(key, topology.address(machine.node));
        let index = machine.node.0 as usize - topology.switch_count();
        if let Endpoint::Host(host) = &mut endpoints[index] {
            host.admit(key, version);
        }
    }
    (endpoints, database)
}

fn switches_of(
    topology: &Topology,
    scheme: Scheme,
    directory: &Arc<Directory>,
) -> Vec<SwitchAgent> {
    let Scheme::SwitchV2p(settings) = scheme else {
        return Vec::new();
    };
    let switches = (0..topology.switch_count() as u32).map(NodeId);
    let agent = |node| match topology.kind(node) {
        NodeKind::Switch(role) => {
            let config = switch_config(topology, node, role, settings);
            Some(SwitchAgent::new(&config, directory.clone()))
        }
        NodeKind::Server | NodeKind::Gateway => None,
    };
    switches.filter_map(agent).collect()
}

fn switch_config(
    topology: &Topology,
    node: NodeId,
    role: thalweg_v2p::Role,
    settings: SwitchV2p,
) -> SwitchConfig {
    let entries = settings.memory.entries(role, settings.entries);
    let (id, address) = (SwitchId(node.0), topology.address(node));
    let config = SwitchConfig::new(id, address, role, settings.profile, entries);
    SwitchConfig {
        pod: topology.pod_of(node).unwrap_or_default(),
        learning_probability: settings.learning_probability,
        sends_invalidations: settings.sends_invalidations,
        has_timestamp_vector: settings.has_timestamp_vector,
        ..config
    }
}
