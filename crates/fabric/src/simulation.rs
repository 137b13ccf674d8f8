//! Runs a simulation: packets go from node to node until no event is left.
//!
//! ```text
//!   step():  a machine moves | a host sends | an event: a packet arrives, or leaves an endpoint
//!
//!   arrives at a switch    the protocol's agent; the next port; offered there          (1 event)
//!           at a gateway   resolved at once; leaves after 40 µs                        (2 events)
//!           at a host      delivered; or misdelivered, and leaves after 10 µs          (1 or 2)
//! ```
//!
//! Packets under way are in a slab, in the protocol's form with the run's own data; events
//! name them by index. At equal times, moves come first, then packets that hosts send in the
//! order of the trace, then events in the order in which they were made.
//!
//! 1. The same configuration, trace and seed give the same report.
//! 2. At each moment: packets of tenants and of the protocol made = delivered + consumed +
//!    dropped, with a reason + under way ([`Simulation::census`]).
//! 3. A hop allocates nothing, once slab, queue and ports have seen their load.
//! 4. At each switch every packet takes a shortest path to its current outer destination,
//!    except invalidation packets to spines in `artifact`
//!    ([`Topology::with_published_routes`]).
//!
//! Reference: Zeno, Chen, Silberstein, *In-Network Address Caching for Virtual Networks*, SIGCOMM
//! 2024, section 5, and its published code.

mod ahead;
mod build;
mod event;
mod flights;
mod hop;
mod scheme;
mod transport;
mod watch;
mod way;

use std::collections::VecDeque;

use rand_pcg::Pcg64;
use thalweg_v2p::{
    Address, AgentCounters, Body, Database, Demand, GatewayAgent, HostAgent, Packet, SwitchAgent,
    wire,
};

pub use self::way::PacketStep;
use self::way::Way;
use crate::config::GatewayService;
use crate::config::Scheme;
use crate::ecmp::{Ecmp, Paths};
use crate::failure::Failures;
use crate::flows::{Datagram, Flow, Machines, summarize};
use crate::gateways::GatewayMoves;
use crate::id::{NodeId, PortId};
use crate::port::Port;
use crate::queue::EventQueue;
use crate::report::{Drops, Layers, Report, TenantReport};
use crate::schemes::ControllerReport;
use crate::schemes::{Caches, HostMemory};
use crate::topology::Topology;
use crate::{PortCounters, Time};
use event::{Event, Packed};
use flights::Flights;
use transport::Tcp;
use watch::Watch;

/// A packet under way; the data of every hop comes first, in one cache line of the processor.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Flight {
    /// The hash that chooses among equal routes.
    path: u64,
    /// The node of the outer destination.
    destination: NodeId,
    /// The size on the wire.
    bytes: u32,
    /// The link's number of failures when the packet entered it.
    link_generation: u32,
    /// The flow's index; meaningless for control packets.
    flow: u32,
    /// The index of the destination machine; meaningless for control packets.
    machine: u32,
    /// The packet's number in its flow.
    sequence: u32,
    sent_at: Time,
    /// Whether it is a tenant's packet.
    is_data: bool,
    /// The time to live; the packet's own is valid only while an agent handles it.
    ttl: u8,
    /// The packet in the protocol's form.
    packet: Packet,
}

impl Flight {
    /// Lends the packet to an agent, which may reset its time to live and change its tags.
    #[inline]
    fn lend<T>(&mut self, charge: TagCharge, to: impl FnOnce(&mut Packet) -> T) -> T {
        self.packet.ttl = self.ttl;
        let before = charge.bytes_of(&self.packet);
        let result = to(&mut self.packet);
        self.bytes = self.bytes - before + charge.bytes_of(&self.packet);
        self.ttl = self.packet.ttl;
        result
    }
}

/// The bytes that tags add to a packet on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TagCharge {
    Nothing,
    /// The option's length.
    Option {
        is_versioned: bool,
    },
}

impl TagCharge {
    #[inline]
    fn bytes_of(self, packet: &Packet) -> u32 {
        match (self, &packet.body) {
            (TagCharge::Option { is_versioned }, Body::Data(data)) => {
                wire::tag_bytes(&data.tags, is_versioned)
            }
            _ => 0,
        }
    }
}

#[derive(Clone, Debug)]
enum Endpoint {
    Host(HostAgent),
    Gateway(GatewayAgent),
}

/// A machine's move, by index.
#[derive(Clone, Copy, Debug)]
struct Move {
    at: Time,
    machine: u32,
    to: NodeId,
}

/// Counts during the run.
#[derive(Clone, Debug, Default)]
struct Tally {
    sent: u64,
    control: u64,
    delivered: u64,
    consumed: u64,
    drops: Drops,
    gateway_packets: u64,
    /// By tenant, if there are several.
    tenant_gateway_packets: Vec<u64>,
    host_resolved: u64,
    control_plane_packets: u64,
    misdelivered: u64,
    last_misdelivered: Option<Time>,
    reordered: u64,
    latency: u128,
    packet_hops: u64,
    hits: Layers,
    first_hits: Layers,
}

/// The fates of all packets ever made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Census {
    /// Packets of tenants.
    pub sent: u64,
    /// Packets of the protocol.
    pub control: u64,
    /// Packets that reached their machine.
    pub delivered: u64,
    /// Control packets that reached their switch.
    pub consumed: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets under way.
    pub in_flight: u64,
}

/// A running fabric.
///
/// ```
/// use thalweg_fabric::{Config, FatTree, Placement, Scheme, Simulation, Time, TraceLine};
///
/// let shape = FatTree::leaf_spine(2, 2, 2, 1);
/// let config = Config::artifact(shape, Placement::even(4, 4), Scheme::Direct);
/// let line = TraceLine { source: 0, destination: 3, start: Time::ZERO, flow: 1, bytes: 64 };
/// let mut run = Simulation::new(&config, &[line]).unwrap();
/// run.run();
/// let report = run.report();
/// assert_eq!((report.delivered, report.packet_hops), (1, 3));
/// ```
#[derive(Clone, Debug)]
pub struct Simulation {
    topology: Topology,
    scheme: Scheme,
    ecmp: Ecmp,
    paths: Paths,
    outer_bytes: u32,
    inner_bytes: u32,
    tag_charge: TagCharge,
    ports: Vec<Port>,
    /// Whether the ports, and other data of a hop, exceed the processor's cache.
    is_large: bool,
    queue: EventQueue<Packed>,
    flights: Flights,
    caches: Caches,
    /// The hosts' memory, in schemes where hosts remember.
    host_memory: Option<HostMemory>,
    /// Moves that the database, or the hosts' memory, will follow later.
    late_places: VecDeque<(Time, u32, Address)>,
    failures: Failures,
    gateway_moves: GatewayMoves,
    /// `None` if no port is watched.
    watch: Option<Box<Watch>>,
    /// By endpoint.
    endpoints: Vec<Endpoint>,
    database: Database,
    machines: Machines,
    datagrams: Vec<Datagram>,
    next_datagram: usize,
    moves: Vec<Move>,
    next_move: usize,
    flows: Vec<Flow>,
    /// `None` if hosts send datagrams.
    tcp: Option<Tcp>,
    random: Pcg64,
    now: Time,
    switch_bytes: Vec<u64>,
    tally: Tally,
    /// Until when each gateway is busy, by endpoint, if gateways have a rate.
    gateway_free_at: Vec<Time>,
    gateway_service: Option<GatewayService>,
    /// The watched packet's way.
    way: Option<Box<Way>>,
}

impl Simulation {
    /// Handles the next event; `false` if none is left.
    #[inline]
    pub fn step(&mut self) -> bool {
        const NEVER: Time = Time::from_picos(u64::MAX);
        let event = self.queue.next_time().unwrap_or(NEVER);
        let datagram = self.datagrams.get(self.next_datagram);
        let datagram = datagram.map_or(NEVER, |datagram| datagram.at);
        let moved = self.moves.get(self.next_move);
        let moved = moved.map_or(NEVER, |moved| moved.at);
        let next = moved.min(datagram).min(event);
        if next < NEVER && self.next_upkeep() <= next {
            self.keep_up();
        } else if moved <= datagram.min(event) && moved < NEVER {
            self.move_machine();
        } else if datagram <= event && datagram < NEVER {
            self.send_datagram();
        } else if let Some((time, event)) = self.queue.pop() {
            self.look_ahead();
            self.now = time;
            match Event::from(event) {
                Event::Arrive { flight, port } => self.arrive(flight, port),
                Event::Leave { flight, node } => self.leave(flight, node),
                Event::Resume { flight, switch } => self.resume(flight, switch),
                Event::Timer {
                    connection,
                    generation,
                    end,
                } => self.handle_timer(connection, generation, end),
            }
        } else {
            return false;
        }
        true
    }

    /// Runs until no event is left.
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// The current time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The fabric.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The counters of a port.
    pub fn port_counters(&self, port: PortId) -> PortCounters {
        self.ports[port.0 as usize].counters()
    }

    /// The counters of the switches' agents, by switch; empty if the scheme has none.
    pub fn switch_counters(&self) -> impl Iterator<Item = &AgentCounters> {
        let agents = match &self.caches {
            Caches::Protocol(agents) => agents.as_slice(),
            _ => &[],
        };
        agents.iter().map(SwitchAgent::counters)
    }

    /// Makes the switches' agents record what caches of up to `most_entries` lines would hit.
    ///
    /// # Panics
    /// If `most_entries` is 0 or more than 2^30.
    pub fn measure_demand(&mut self, most_entries: usize) {
        if let Caches::Protocol(agents) = &mut self.caches {
            let all = agents.iter_mut();
            all.for_each(|agent| agent.measure_demand(most_entries));
        }
    }

    /// The records of [`Simulation::measure_demand`], by switch; empty if there are none.
    pub fn demand(&self) -> impl Iterator<Item = &Demand> {
        let agents = match &self.caches {
            Caches::Protocol(agents) => agents.as_slice(),
            _ => &[],
        };
        agents.iter().filter_map(SwitchAgent::demand)
    }

    /// The quality of the controller's plans; `None` if there is no controller.
    pub fn controller(&self) -> Option<ControllerReport> {
        match &self.caches {
            Caches::Planned(planner) => Some(planner.report()),
            _ => None,
        }
    }

    /// The fates of all packets.
    pub fn census(&self) -> Census {
        Census {
            sent: self.tally.sent,
            control: self.tally.control,
            delivered: self.tally.delivered,
            consumed: self.tally.consumed,
            dropped: self.tally.drops.total(),
            in_flight: self.flights.len() as u64,
        }
    }

    /// The results so far.
    pub fn report(&self) -> Report {
        let tally = &self.tally;
        let ratio = |part: f64, whole: u64| part / whole.max(1) as f64;
        let decided = |count: fn(&AgentCounters) -> u64| self.switch_counters().map(count).sum();
        let latency = tally.latency as f64 / Time::from_micros(1).as_picos() as f64;
        let mut report = Report {
            packets_sent: tally.sent,
            delivered: tally.delivered,
            gateway_packets: tally.gateway_packets,
            host_resolved: tally.host_resolved,
            control_plane_packets: tally.control_plane_packets,
            misdelivered: tally.misdelivered,
            last_misdelivered_us: tally.last_misdelivered.map(Time::as_micros_f64),
            invalidations: decided(|counters| counters.invalidation_packets),
            learning_packets: decided(|counters| counters.learning_packets),
            reordered: tally.reordered,
            drops: tally.drops,
            hit_rate: 1.0 - ratio(tally.gateway_packets as f64, tally.sent),
            mean_packet_latency_us: ratio(latency, tally.delivered),
            stretch: ratio(tally.packet_hops as f64, tally.sent),
            packet_hops: tally.packet_hops,
            switch_bytes: self.switch_bytes.clone(),
            hits_by_layer: tally.hits,
            first_hits_by_layer: tally.first_hits,
            tenants: tally
                .tenant_gateway_packets
                .iter()
                .map(tenant_report)
                .collect(),
            ..Report::default()
        };
        if let Some(tcp) = &self.tcp {
            let tally = tcp.tally_now();
            report.retransmitted = tally.retransmitted;
            report.timeouts = tally.timeouts;
            report.recoveries = tally.recoveries;
            report.connections_finished = tally.finished;
            report.connections_failed = tally.failed;
        }
        summarize(&self.flows, &mut report);
        report
    }

    /// Counts a packet that reached a gateway.
    #[inline]
    fn count_at_gateway(&mut self, flow: u32) {
        self.tally.gateway_packets += 1;
        if !self.tally.tenant_gateway_packets.is_empty() {
            let tenant = self.flows[flow as usize].tenant;
            self.tally.tenant_gateway_packets[tenant as usize] += 1;
        }
    }

    fn endpoint_index(&self, node: NodeId) -> usize {
        node.0 as usize - self.topology.switch_count()
    }

    fn host_mut(&mut self, node: NodeId) -> Option<&mut HostAgent> {
        let index = self.endpoint_index(node);
        match &mut self.endpoints[index] {
            Endpoint::Host(host) => Some(host),
            Endpoint::Gateway(_) => None,
        }
    }

    /// Moves a machine: the database, the old host and the new one learn it at once.
    fn move_machine(&mut self) {
        let Move { at, machine, to } = self.moves[self.next_move];
        self.next_move += 1;
        self.now = at;
        let known = &mut self.machines.all[machine as usize];
        let key = known.key();
        let from = std::mem::replace(&mut known.node, to);
        let place = self.topology.address(to);
        let version = self.note_move(machine, place);
        self.machines.all[machine as usize].version = version;
        if let Some(host) = self.host_mut(from) {
            host.release(key, Some(place));
        }
        if let Some(host) = self.host_mut(to) {
            host.admit(key, version);
        }
    }
}

/// The report of a tenant before its flows are summed.
fn tenant_report(gateway_packets: &u64) -> TenantReport {
    TenantReport {
        gateway_packets: *gateway_packets,
        ..TenantReport::default()
    }
}
