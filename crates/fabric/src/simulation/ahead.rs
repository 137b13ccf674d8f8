//! Prefetches the data of later events, so that it is in the processor's cache when they come.
//!
//! It decides nothing, and a wrong guess costs only time.
//!
//! ```text
//!   events ahead   what is asked for
//!   10             which nodes the packet's link joins; the port it comes by
//!    7             the packet; at a switch the agent, at an endpoint the segment
//!    4             at a switch the next ports and the lines of the agent's cache, at an endpoint the
//!                  machine, flow, connection and the port for the answer
//!    2             at a switch the next port, at an endpoint both machines of the connection
//! ```
//!
//! Each stage reads data that an earlier one has prefetched. In a fabric that fits the
//! processor's cache most stages cost more than they save, and two are enough.

use prefetch_index::prefetch_index;

use super::{Event, Simulation};
use crate::id::{NodeId, PortId};
use crate::schemes::Caches;
use crate::topology::NodeKind;

/// The distances, in events handled while memory answers.
const LINK: usize = 10;
const PACKET: usize = 7;
const PLACES: usize = 4;
const NEXT: usize = 2;

/// The distances in a small fabric.
const SMALL_PACKET: usize = 8;
const SMALL_PLACES: usize = 4;

impl Simulation {
    #[inline]
    pub(super) fn look_ahead(&self) {
        match self.is_large {
            true => self.look_ahead_in_large(),
            false => self.look_ahead_in_small(),
        }
    }

    #[inline]
    fn look_ahead_in_small(&self) {
        if let Some((flight, port)) = self.arrival_after(SMALL_PACKET) {
            self.ask_for_packet(flight);
            prefetch_index(&self.ports, port.0 as usize);
        }
        if let Some((flight, port)) = self.arrival_after(SMALL_PLACES) {
            let node = self.topology.peer(port);
            match self.topology.kind(node) {
                NodeKind::Switch(_) => self.ask_for_routes(flight, node),
                kind => {
                    self.ask_for_segment(flight);
                    self.ask_for_endpoint(flight, node, kind);
                }
            }
        }
    }

    #[inline]
    fn look_ahead_in_large(&self) {
        if let Some((_, port)) = self.arrival_after(LINK) {
            self.topology.ask_peer(port);
            prefetch_index(&self.ports, port.0 as usize);
        }
        if let Some((flight, port)) = self.arrival_after(PACKET) {
            self.ask_for_packet(flight);
            let node = self.topology.peer(port);
            match self.topology.kind(node) {
                NodeKind::Switch(_) => self.ask_for_agent(node),
                _ => self.ask_for_segment(flight),
            }
        }
        if let Some((flight, port)) = self.arrival_after(PLACES) {
            let node = self.topology.peer(port);
            match self.topology.kind(node) {
                NodeKind::Switch(_) => {
                    self.ask_for_routes(flight, node);
                    self.ask_for_lines(flight, node);
                }
                kind => {
                    self.ask_for_endpoint(flight, node, kind);
                    self.ask_for_answer(flight, node);
                }
            }
        }
        if let Some((flight, port)) = self.arrival_after(NEXT) {
            let node = self.topology.peer(port);
            match self.topology.kind(node) {
                NodeKind::Switch(_) => self.ask_for_next_port(flight, node),
                _ => self.ask_for_machines(flight),
            }
        }
    }

    #[inline]
    fn arrival_after(&self, events: usize) -> Option<(u32, PortId)> {
        match Event::from(self.queue.upcoming(events)?) {
            Event::Arrive { flight, port } => Some((flight, port)),
            _ => None,
        }
    }

    #[inline]
    fn ask_for_packet(&self, flight: u32) {
        match self.caches {
            Caches::Absent => self.flights.ask(flight),
            _ => self.flights.ask_all(flight),
        }
    }

    #[inline]
    fn ask_for_agent(&self, switch: NodeId) {
        if let Caches::Protocol(agents) = &self.caches {
            agents[switch.0 as usize].prefetch_itself();
        }
    }

    #[inline]
    fn ask_for_segment(&self, flight: u32) {
        if let Some(tcp) = &self.tcp {
            tcp.ask(flight);
        }
    }

    #[inline]
    fn ask_for_routes(&self, flight: u32, switch: NodeId) {
        let destination = self.flights[flight as usize].destination;
        self.topology.ask_next_ports(switch, destination);
    }

    #[inline]
    fn ask_for_lines(&self, flight: u32, switch: NodeId) {
        if let Caches::Protocol(agents) = &self.caches {
            agents[switch.0 as usize].prefetch(&self.flights[flight as usize].packet);
        }
    }

    #[inline]
    fn ask_for_endpoint(&self, flight: u32, node: NodeId, kind: NodeKind) {
        let under_way = &self.flights[flight as usize];
        self.flights.ask_all(flight);
        // A host's agent is needed only for packets that are not for its machines.
        if kind == NodeKind::Gateway {
            prefetch_index(&self.endpoints, self.endpoint_index(node));
        }
        prefetch_index(&self.machines.all, under_way.machine as usize);
        prefetch_index(&self.flows, under_way.flow as usize);
    }

    #[inline]
    fn ask_for_answer(&self, flight: u32, node: NodeId) {
        if let Some(tcp) = &self.tcp {
            tcp.ask_connection(flight);
        }
        if let Some(port) = self.topology.ports(node).next() {
            self.ports[port.0 as usize].ask();
        }
    }

    #[inline]
    fn ask_for_next_port(&self, flight: u32, switch: NodeId) {
        if let Some(next) = self.next_port(&self.flights[flight as usize], switch) {
            self.ports[next.0 as usize].ask();
        }
    }

    /// Prefetches both machines of the connection: the one that answers and the one answered.
    #[inline]
    fn ask_for_machines(&self, flight: u32) {
        if let Some(tcp) = &self.tcp
            && let Some(machines) = tcp.machines_of(flight)
        {
            for machine in machines {
                prefetch_index(&self.machines.all, machine as usize);
            }
        }
    }
}
