//! Builds a run at time zero from a configuration and a trace.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::SeedableRng;
use rand_pcg::Pcg64;
use thalweg_v2p::{Database, Directory, GatewayAgent, HostAgent, Profile, Vni};

use super::flights::Flights;
use super::transport::Tcp;
use super::{Endpoint, Move, Simulation, TagCharge, Tally};
use crate::config::{Config, ConfigError, Scheme, Transport};
use crate::ecmp::{Ecmp, Paths};
use crate::failure::Failures;
use crate::flows::{Machines, datagrams_of};
use crate::gateways::GatewayMoves;
use crate::id::PortId;
use crate::port::Port;
use crate::queue::EventQueue;
use crate::schemes::{Caches, HostMemory};
use crate::topology::{NodeKind, Topology};
use crate::{Tenant, Time, TraceLine};

/// Up to this many ports fit a processor's second-level cache of 1 or 2 MiB.
const SMALL_PORT_COUNT: usize = 4_096;

impl Simulation {
    /// Builds the fabric, places the machines, and sorts what will be sent.
    ///
    /// # Errors
    /// If the configuration or the trace names something that does not exist.
    pub fn new(config: &Config, trace: &[TraceLine]) -> Result<Simulation, ConfigError> {
        let mut topology = match config.ecmp {
            Ecmp::Artifact => Topology::new(&config.shape)?.with_published_routes(),
            Ecmp::PerFlow { .. } => Topology::new(&config.shape)?,
        };
        let gateway_moves = GatewayMoves::new(&config.shape, &config.gateway_moves)
            .map_err(|index| ConfigError::GatewayMove(index + 1))?;
        topology.set_gateways_at_work(gateway_moves.at_work());
        check(config, &topology)?;
        let directory = topology.directory();
        let mut machines = Machines::new(&topology, config);
        let (datagrams, mut flows) = datagrams_of(trace, &machines, config)?;
        for flow in &mut flows {
            flow.gateway = directory.gateway_of(flow.number);
        }
        let (endpoints, database) = endpoints_of(&topology, config, &directory, &mut machines);
        let link = |port| match topology.is_edge(port) {
            true => config.edge_link,
            false => config.fabric_link,
        };
        let ports = (0..topology.port_count() as u32).map(|port| Port::new(link(PortId(port))));
        let mut random = Pcg64::seed_from_u64(config.seed);
        let moves = moves_of(config, &topology, &machines)?;
        let host_memory = match config.scheme {
            Scheme::OnDemand(kind) => {
                let key = |moved: &Move| machines.all[moved.machine as usize].key();
                let movers = moves.iter().map(key).collect();
                Some(HostMemory::new(kind, endpoints.len(), movers))
            }
            _ => None,
        };
        Ok(Simulation {
            caches: Caches::new(&topology, config, &directory, &mut random),
            host_memory,
            failures: Failures::new(&topology, &config.failures, config.reroute_after)
                .map_err(|index| ConfigError::Failure(index + 1))?,
            gateway_moves,
            watch: None,
            late_places: VecDeque::new(),
            scheme: config.scheme,
            ecmp: config.ecmp,
            paths: Paths::new(config.ecmp),
            outer_bytes: config.outer_bytes,
            inner_bytes: config.inner_bytes,
            tag_charge: tag_charge(config),
            ports: ports.collect(),
            is_large: topology.port_count() > SMALL_PORT_COUNT,
            queue: EventQueue::new(),
            flights: Flights::default(),
            endpoints,
            database,
            moves,
            next_move: 0,
            machines,
            datagrams,
            next_datagram: 0,
            flows,
            tcp: tcp_of(config),
            random,
            now: Time::ZERO,
            switch_bytes: vec![0; topology.switch_count()],
            tally: Tally::of(config),
            gateway_free_at: vec![Time::ZERO; topology.endpoints().count()],
            gateway_service: config.gateway_service,
            way: None,
            topology,
        })
    }
}

fn tcp_of(config: &Config) -> Option<Tcp> {
    match config.transport {
        Transport::Udp => None,
        Transport::Tcp(settings) => Some(Tcp::new(settings)),
    }
}

impl Tally {
    /// Creates zero counts; also per tenant if there are several.
    fn of(config: &Config) -> Tally {
        Tally {
            tenant_gateway_packets: match config.tenants.len() {
                0 | 1 => Vec::new(),
                count => vec![0; count],
            },
            ..Tally::default()
        }
    }
}

fn tag_charge(config: &Config) -> TagCharge {
    match config.scheme {
        Scheme::SwitchV2p(settings) if config.charges_tags => TagCharge::Option {
            is_versioned: settings.profile == Profile::Plus,
        },
        _ => TagCharge::Nothing,
    }
}

fn check(config: &Config, topology: &Topology) -> Result<(), ConfigError> {
    check_tenants(config, topology)?;
    let (placed, servers) = (config.placement.servers().len(), topology.servers().len());
    if placed > servers {
        return Err(ConfigError::Servers { placed, servers });
    }
    if topology.gateways().is_empty() && config.scheme.uses_gateways() {
        return Err(ConfigError::NoGateway);
    }
    if let Transport::Tcp(settings) = config.transport {
        settings.check()?;
    }
    if let Scheme::SwitchV2p(settings) = config.scheme
        && !(0.0..=1.0).contains(&settings.learning_probability)
    {
        let probability = settings.learning_probability.to_string();
        return Err(ConfigError::Probability(probability));
    }
    Ok(())
}

fn check_tenants(config: &Config, topology: &Topology) -> Result<(), ConfigError> {
    let (tenants, switches) = (&config.tenants, topology.switch_count());
    let has = |weight: fn(&Tenant) -> u32| tenants.iter().any(|tenant| weight(tenant) > 0);
    let can_be = has(|tenant| tenant.traffic) && has(|tenant| tenant.memory);
    if !tenants.is_empty() && (!can_be || tenants.len() > Vni::MAX.number() as usize) {
        return Err(ConfigError::Tenants(tenants.len()));
    }
    match config.switch_entries.as_ref().map(Vec::len) {
        Some(said) if said != switches => Err(ConfigError::SwitchEntries { said, switches }),
        _ => Ok(()),
    }
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
    machines: &mut Machines,
) -> (Vec<Endpoint>, Database) {
    // Without caches in the switches, hosts send on misdelivered packets ("follow-me").
    let profile = match config.scheme {
        Scheme::SwitchV2p(settings) => settings.profile,
        _ => Profile::Artifact,
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
    for machine in &mut machines.all {
        let key = machine.key();
        let version = database.place(key, machine.place);
        machine.version = version;
        let index = machine.node.0 as usize - topology.switch_count();
        if let Endpoint::Host(host) = &mut endpoints[index] {
            host.admit(key, version);
        }
    }
    (endpoints, database)
}
