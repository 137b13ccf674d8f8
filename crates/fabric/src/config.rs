//! The configuration of a run: a plain value, checked once.
//!
//! [`Config::artifact`] has the fabric of SwitchV2P's published code: 100 Gb/s to servers and
//! gateways, 400 Gb/s between switches, 1 µs a link, 32 MiB for each queue, sending times
//! truncated to nanoseconds, datagrams of 64 bytes under 58 bytes of headers.
//!
//! | scheme | a host sends to | switches | a misdelivered packet |
//! | --- | --- | --- | --- |
//! | [`Scheme::NoCache`] | the flow's gateway | forward | is sent after the machine |
//! | [`Scheme::Direct`] | the machine's current host | forward | is sent after the machine |
//! | [`Scheme::SwitchV2p`] | the flow's gateway | run the protocol | follows the profile |
//! | [`Scheme::LocalLearning`] | the flow's gateway | each learns from passing packets | is sent after the machine |
//! | [`Scheme::GwCache`] | the flow's gateway | gateway ToRs learn from passing packets | is sent after the machine |
//! | [`Scheme::Bluebird`] | the flow's gateway | ToRs resolve everything | is sent after the machine |
//! | [`Scheme::OnDemand`] | the machine's host if known, else the flow's gateway | forward | is sent after the machine |
//! | [`Scheme::Controller`] | the flow's gateway | look up mappings from a controller | is sent after the machine |
//!
//! `schemes/` describes each in detail, and how far it follows the published code.

use thalweg_v2p::{LEARNING_PROBABILITY, MemoryPlacement, Profile};
use thiserror::Error;

pub use crate::schemes::{Bluebird, Controller, ControllerCost, OnDemand};
pub use crate::tenants::Tenant;
use crate::{
    Ecmp, Failure, FatTree, Link, Placement, TcpConfig, TcpConfigError, Time, TopologyError,
};

const GIGABIT: u64 = 1_000_000_000;
const QUEUE_BYTES: u64 = 32 << 20;

/// The method of resolving virtual addresses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scheme {
    /// Gateways resolve every packet.
    NoCache,
    /// Hosts know every mapping at once: the bound.
    Direct,
    /// Caches in the switches resolve; gateways resolve the rest.
    SwitchV2p(SwitchV2p),
    /// Caches in all switches; each learns every mapping that passes (section 3.1, "local
    /// greedy approach").
    LocalLearning {
        /// Lines of a switch.
        entries: u32,
    },
    /// Such caches at the gateway ToRs only: after Sailfish (section 5).
    GwCache {
        /// Lines of a gateway ToR.
        entries: u32,
    },
    /// ToRs resolve everything: from a cache, otherwise slowly (section 5).
    Bluebird(Bluebird),
    /// Hosts remember mappings; gateways resolve the rest (section 5).
    OnDemand(OnDemand),
    /// Caches in the switches, filled by one controller (appendix A).
    Controller(Controller),
}

impl Scheme {
    /// Whether packets may go to gateways.
    pub fn uses_gateways(&self) -> bool {
        !matches!(self, Scheme::Direct)
    }
}

/// SwitchV2P and its variants.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SwitchV2p {
    /// The protocol variant.
    pub profile: Profile,
    /// Lines of a switch that has memory.
    pub entries: u32,
    /// Which switches have memory.
    pub memory: MemoryPlacement,
    /// The probability with which a gateway ToR sends a learning packet.
    pub learning_probability: f64,
    /// Whether invalidation packets are sent.
    pub sends_invalidations: bool,
    /// Whether the timestamp vector holds them back.
    pub has_timestamp_vector: bool,
    /// Whether each tenant has its own lines, in the proportions of [`Tenant::memory`].
    pub is_partitioned: bool,
}

impl SwitchV2p {
    /// A profile as evaluated in the paper.
    pub const fn new(profile: Profile, entries: u32) -> SwitchV2p {
        SwitchV2p {
            profile,
            entries,
            memory: MemoryPlacement::Everywhere,
            learning_probability: LEARNING_PROBABILITY,
            sends_invalidations: true,
            has_timestamp_vector: true,
            is_partitioned: false,
        }
    }
}

/// The size of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload {
    /// The same number of bytes for each.
    Fixed(u32),
    /// The size in the trace, at most 65,507 bytes (RFC 768, with an IPv4 header).
    Traced,
}

/// The transport protocol of hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Each line of the trace is a datagram.
    Udp,
    /// Each line of the trace is a connection that carries the line's bytes.
    Tcp(TcpConfig),
}

/// A gateway's capacity; without it, a gateway serves any number of packets at once (section
/// 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GatewayService {
    /// Packets that it starts to serve per second.
    pub packets_per_second: u64,
    /// Packets that may wait, including the next to be served; more are dropped.
    pub queue_packets: u32,
}

impl GatewayService {
    /// The time between two packets.
    pub(crate) fn time_a_packet(&self) -> Time {
        Time::from_picos(1_000_000_000_000 / self.packets_per_second.max(1))
    }
}

/// A machine that moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Migration {
    /// The machine, by its number in the placement.
    pub machine: u32,
    /// The time of the move.
    pub at: Time,
    /// The new server, by its number in the fabric.
    pub to_server: u32,
}

/// A move of all gateways of one ToR to another (section 4).
///
/// From then on flows choose among the gateways at work, and the switches have other roles.
/// Packets on their way to the old gateways are answered there. The new ToR must be one of the
/// shape's [`FatTree::gateway_tors`]; its gateways are idle until then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GatewayMove {
    /// The time of the move.
    pub at: Time,
    /// The old ToR, by number.
    pub from_tor: u32,
    /// The new ToR, by number.
    pub to_tor: u32,
}

/// The configuration of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// The fabric.
    pub shape: FatTree,
    /// Links of servers and gateways.
    pub edge_link: Link,
    /// Links between switches.
    pub fabric_link: Link,
    /// Which machines are on each server.
    pub placement: Placement,
    /// The method of resolving addresses.
    pub scheme: Scheme,
    /// The rule for choosing among equal routes.
    pub ecmp: Ecmp,
    /// The meaning of a trace line.
    pub transport: Transport,
    /// The size of datagrams.
    pub payload: Payload,
    /// Bytes of headers for the virtual network: framing, outer IP, tunnel.
    pub outer_bytes: u32,
    /// Bytes of the headers of a tenant's datagram: inner IP and UDP.
    pub inner_bytes: u32,
    /// Whether packets are longer by the option with their tags ([`thalweg_v2p::wire`]).
    pub charges_tags: bool,
    /// The tenants of the flows; one tenant if empty.
    pub tenants: Vec<Tenant>,
    /// Lines of each SwitchV2P switch, by its number; overrides the scheme.
    pub switch_entries: Option<Vec<u32>>,
    /// A gateway's capacity; `None` is unlimited.
    pub gateway_service: Option<GatewayService>,
    /// Machines that move.
    pub migrations: Vec<Migration>,
    /// Gateways that move.
    pub gateway_moves: Vec<GatewayMove>,
    /// Links and switches that fail.
    pub failures: Vec<Failure>,
    /// The time from a failure, or its end, until switches change their routes.
    pub reroute_after: Time,
    /// The seed for sending learning packets.
    pub seed: u64,
}

impl Config {
    /// The run of SwitchV2P's published code.
    pub fn artifact(shape: FatTree, placement: Placement, scheme: Scheme) -> Config {
        let link = |gigabits| Link {
            rate_bps: gigabits * GIGABIT,
            delay: Time::from_micros(1),
            queue_bytes: QUEUE_BYTES,
            cuts_to_nanos: true,
            mark_bytes: u64::MAX,
        };
        Config {
            shape,
            edge_link: link(100),
            fabric_link: link(400),
            placement,
            scheme,
            ecmp: Ecmp::Artifact,
            transport: Transport::Udp,
            payload: Payload::Fixed(64),
            outer_bytes: 2 + 20 + 8,
            inner_bytes: 20 + 8,
            charges_tags: false,
            tenants: Vec::new(),
            switch_entries: None,
            gateway_service: None,
            migrations: Vec::new(),
            gateway_moves: Vec::new(),
            failures: Vec::new(),
            reroute_after: Time::ZERO,
            seed: 1,
        }
    }

    /// The run of the paper's text: IP in IP, traced sizes, exact times, tags that take bytes,
    /// and paths by flow, which the seed spreads.
    pub fn paper(shape: FatTree, placement: Placement, scheme: Scheme, seed: u64) -> Config {
        let base = Config::artifact(shape, placement, scheme);
        let exact = |link| Link {
            cuts_to_nanos: false,
            ..link
        };
        Config {
            edge_link: exact(base.edge_link),
            fabric_link: exact(base.fabric_link),
            ecmp: Ecmp::PerFlow { seed },
            payload: Payload::Traced,
            outer_bytes: 2 + 20,
            charges_tags: true,
            seed,
            ..base
        }
    }
}

/// Why a run cannot start.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The fabric cannot be built.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A setting of TCP out of range.
    #[error(transparent)]
    Tcp(#[from] TcpConfigError),
    /// More servers in the placement than in the fabric.
    #[error("the placement has {placed} servers, the fabric {servers}: use a larger fabric")]
    Servers {
        /// In the placement.
        placed: usize,
        /// In the fabric.
        servers: usize,
    },
    /// The scheme needs gateways.
    #[error("no gateway to resolve addresses: give gateway ToRs and gateways a ToR")]
    NoGateway,
    /// A machine of the trace is on no server.
    #[error(
        "packet {position} of the trace: machine {machine} is on no server; place it, or cut the trace"
    )]
    TraceMachine {
        /// The packet's position in the trace, from 1.
        position: usize,
        /// The machine.
        machine: u32,
    },
    /// A machine that moves is on no server.
    #[error("migration of machine {0}: it is on no server; name one of the placement")]
    MigrationMachine(u32),
    /// A server that does not exist.
    #[error("migration to server {server}: name one below {servers}")]
    MigrationServer {
        /// The server.
        server: u32,
        /// The number of servers.
        servers: usize,
    },
    /// A gateway move from or to a ToR without gateways, or to one whose gateways are at work.
    #[error(
        "gateway move {0}: from or to a ToR that has no gateways, or to one whose gateways are at \
         work; give another"
    )]
    GatewayMove(usize),
    /// A failure of a link or switch that does not exist.
    #[error(
        "failure {0}: there is no such link or switch, or it ends before it begins; name two nodes \
         that are linked, or a switch, and a later end"
    )]
    Failure(usize),
    /// Too many tenants, or tenants without any traffic or without any memory.
    #[error("{0} tenants: give at most 2^24, of which one has traffic and one has memory")]
    Tenants(usize),
    /// Lines for a number of switches other than the fabric's.
    #[error("lines of {said} switches, in a fabric of {switches}: give a number for each switch")]
    SwitchEntries {
        /// The number of values given.
        said: usize,
        /// The number of switches.
        switches: usize,
    },
    /// A number that is not a probability.
    #[error("a learning probability of {0}: give 0 to 1")]
    Probability(String),
}
