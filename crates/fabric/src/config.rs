//! What a run is made of: a plain value, checked once.
//!
//! [`Config::artifact`] has the fabric of SwitchV2P's published code: 100 Gb/s to servers and
//! gateways, 400 Gb/s between switches, 1 µs a link, 32 MiB for each queue, times to send cut to
//! nanoseconds, datagrams of 64 bytes under 58 bytes of headers.
//!
//! | scheme | a host sends to | switches | a misdelivered packet |
//! | --- | --- | --- | --- |
//! | [`Scheme::NoCache`] | the flow's gateway | forward | is sent after the machine |
//! | [`Scheme::Direct`] | where the machine is now | forward | is sent after the machine |
//! | [`Scheme::SwitchV2p`] | the flow's gateway | run the protocol | as the profile has it |
//! | [`Scheme::LocalLearning`] | the flow's gateway | each learns what passes | is sent after the machine |
//! | [`Scheme::GwCache`] | the flow's gateway | gateway ToRs learn what passes | is sent after the machine |
//! | [`Scheme::Bluebird`] | the flow's gateway | ToRs resolve everything | is sent after the machine |
//! | [`Scheme::OnDemand`] | where it knows the machine to be, else the flow's gateway | forward | is sent after the machine |
//! | [`Scheme::Controller`] | the flow's gateway | look up what a controller gave them | is sent after the machine |
//!
//! What each of them does in detail, and what of it is the published code's, is in `schemes/`.

use thalweg_v2p::{LEARNING_PROBABILITY, MemoryPlacement, Profile};
use thiserror::Error;

pub use crate::schemes::{Bluebird, Controller, ControllerCost, OnDemand};
pub use crate::tenants::Tenant;
use crate::{
    Ecmp, Failure, FatTree, Link, Placement, TcpConfig, TcpConfigError, Time, TopologyError,
};

const GIGABIT: u64 = 1_000_000_000;
const QUEUE_BYTES: u64 = 32 << 20;

/// How virtual addresses are resolved.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scheme {
    /// By the gateways, each packet anew.
    NoCache,
    /// By hosts that know everything at once: the bound.
    Direct,
    /// By caches in the switches, else by the gateways.
    SwitchV2p(SwitchV2p),
    /// By caches in all switches, each of which learns every mapping that passes (section 3.1,
    /// "local greedy approach").
    LocalLearning {
        /// Lines of a switch.
        entries: u32,
    },
    /// By such caches at the gateway ToRs only: after Sailfish (section 5).
    GwCache {
        /// Lines of a gateway ToR.
        entries: u32,
    },
    /// By the ToRs, which know everything: in a cache, else slowly (section 5).
    Bluebird(Bluebird),
    /// By hosts that remember, else by the gateways (section 5).
    OnDemand(OnDemand),
    /// By caches in the switches that one controller fills (appendix A).
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
    /// Which version of the protocol.
    pub profile: Profile,
    /// Lines of a switch that has memory.
    pub entries: u32,
    /// Which switches have memory.
    pub memory: MemoryPlacement,
    /// With which probability a gateway ToR sends a learning packet.
    pub learning_probability: f64,
    /// Whether invalidation packets are sent.
    pub sends_invalidations: bool,
    /// Whether the timestamp vector holds them back.
    pub has_timestamp_vector: bool,
    /// Whether each tenant has lines of its own, as many as [`Tenant::memory`] says.
    pub is_partitioned: bool,
}

impl SwitchV2p {
    /// A profile with everything as evaluated.
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

/// How large a datagram is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload {
    /// Each has so many bytes.
    Fixed(u32),
    /// As the trace says, at most 65,507 bytes (RFC 768, with an IPv4 header).
    Traced,
}

/// What hosts send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Each line of the trace is a datagram.
    Udp,
    /// Each line of the trace is a connection that carries so many bytes.
    Tcp(TcpConfig),
}

/// What a gateway can take; without it, any number of packets at once (section 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GatewayService {
    /// How many packets it begins with in a second.
    pub packets_per_second: u64,
    /// How many may wait for that, the one that is begun next among them; more are dropped.
    pub queue_packets: u32,
}

impl GatewayService {
    /// From one packet to the next.
    pub(crate) fn time_a_packet(&self) -> Time {
        Time::from_picos(1_000_000_000_000 / self.packets_per_second.max(1))
    }
}

/// A machine that moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Migration {
    /// The machine, by its number in the placement.
    pub machine: u32,
    /// When.
    pub at: Time,
    /// Where to, by the server's number in the fabric.
    pub to_server: u32,
}

/// All gateways of a ToR give their work to those of another, as when gateways move (section 4).
///
/// From then on flows choose among the others, and the switches have other roles. What is on its way
/// to the old gateways is answered there. The ToR where they go is one of the shape's
/// [`FatTree::gateway_tors`], and has idle gateways until then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GatewayMove {
    /// When.
    pub at: Time,
    /// From where, by the ToR's number.
    pub from_tor: u32,
    /// To where.
    pub to_tor: u32,
}

/// A run.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// The fabric.
    pub shape: FatTree,
    /// Links of servers and gateways.
    pub edge_link: Link,
    /// Links between switches.
    pub fabric_link: Link,
    /// Which machines are on which server.
    pub placement: Placement,
    /// How addresses are resolved.
    pub scheme: Scheme,
    /// How equal routes are chosen from.
    pub ecmp: Ecmp,
    /// What a line of the trace is.
    pub transport: Transport,
    /// What a datagram carries.
    pub payload: Payload,
    /// Bytes of headers that come with the virtual network: framing, outer IP, tunnel.
    pub outer_bytes: u32,
    /// Bytes of the headers of a tenant's datagram: inner IP and UDP.
    pub inner_bytes: u32,
    /// Whether packets are longer by the option that says their tags ([`thalweg_v2p::wire`]).
    pub charges_tags: bool,
    /// Whose the flows are; one tenant's if there are none.
    pub tenants: Vec<Tenant>,
    /// Lines of each switch of SwitchV2P, by its number, whatever the scheme says.
    pub switch_entries: Option<Vec<u32>>,
    /// What a gateway can take; `None` is everything.
    pub gateway_service: Option<GatewayService>,
    /// Machines that move.
    pub migrations: Vec<Migration>,
    /// Gateways that move.
    pub gateway_moves: Vec<GatewayMove>,
    /// Links and switches that fail.
    pub failures: Vec<Failure>,
    /// How long after a failure, or its end, switches send by other ports.
    pub reroute_after: Time,
    /// Of the learning packets' chance.
    pub seed: u64,
}

impl Config {
    /// A run as by the published code of SwitchV2P.
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

    /// A run as the text of the paper has it: IP in IP, sizes as traced, exact times, tags that take
    /// bytes, and paths by flow, which the seed spreads.
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

/// Why a run cannot begin.
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
    /// A machine of the trace that is nowhere.
    #[error(
        "packet {position} of the trace: machine {machine} is on no server; place it, or cut the trace"
    )]
    TraceMachine {
        /// The packet's position in the trace, from 1.
        position: usize,
        /// The machine.
        machine: u32,
    },
    /// A machine that moves, and is nowhere.
    #[error("migration of machine {0}: it is on no server; name one of the placement")]
    MigrationMachine(u32),
    /// A server that does not exist.
    #[error("migration to server {server}: name one below {servers}")]
    MigrationServer {
        /// The server.
        server: u32,
        /// How many there are.
        servers: usize,
    },
    /// Gateways that move from or to where there are none, or to where some are at work.
    #[error(
        "gateway move {0}: from or to a ToR that has no gateways, or to one whose gateways are at \
         work; give another"
    )]
    GatewayMove(usize),
    /// A failure of nothing.
    #[error(
        "failure {0}: there is no such link or switch, or it ends before it begins; name two nodes \
         that are linked, or a switch, and a later end"
    )]
    Failure(usize),
    /// Tenants of which no one sends, has memory, or can be told from another.
    #[error("{0} tenants: give at most 2^24, of which one has traffic and one has memory")]
    Tenants(usize),
    /// Lines of other switches than there are.
    #[error("lines of {said} switches, in a fabric of {switches}: give a number for each switch")]
    SwitchEntries {
        /// How many numbers there are.
        said: usize,
        /// How many switches.
        switches: usize,
    },
    /// A probability that is none.
    #[error("a learning probability of {0}: give 0 to 1")]
    Probability(String),
}
