//! Handles a packet at a node, and sends it to the next.

use rand::RngCore;
use thalweg_v2p::{
    Address, GATEWAY_DELAY, GatewayVerdict, HostVerdict, Ingress, Packet, RESEND_DELAY, Role,
    Verdict,
};

use super::{Endpoint, Event, Flight, Simulation};
use crate::Time;
use crate::id::{NodeId, PortId};
use crate::report::{Drop, Layers};
use crate::schemes::Caches;
use crate::topology::NodeKind;

/// The payload of a control packet in bytes, beside the outer headers.
const CONTROL_BYTES: u32 = 64;

impl Simulation {
    /// Handles a packet at the end of a port's link.
    #[inline]
    pub(super) fn arrive(&mut self, flight: u32, port: PortId) {
        let link = &mut self.ports[port.0 as usize];
        if self.flights[flight as usize].link_generation != link.generation() {
            link.note_loss();
            return self.drop_flight(flight, Drop::LinkDown);
        }
        link.note_arrival();
        let node = self.topology.peer(port);
        match self.topology.kind(node) {
            NodeKind::Switch(role) => self.pass_switch(flight, node, role, port),
            NodeKind::Server | NodeKind::Gateway => self.reach_endpoint(flight, node),
        }
    }

    /// Sends a packet from a server or gateway by its only port.
    pub(super) fn leave(&mut self, flight: u32, node: NodeId) {
        if self.way.is_some() {
            self.way_leave(flight, node);
        }
        if self.host_memory.is_some() {
            self.remember_at_gateway(flight, node);
        }
        if let Some(port) = self.topology.ports(node).next() {
            self.transmit(flight, port);
        }
    }

    #[inline]
    fn transmit(&mut self, flight: u32, port: PortId) {
        let under_way = &mut self.flights[flight as usize];
        let link = &mut self.ports[port.0 as usize];
        if link.is_down() {
            link.note_refusal();
            return self.drop_flight(flight, Drop::LinkDown);
        }
        under_way.link_generation = link.generation();
        match link.offer(self.now, under_way.bytes) {
            Some(time) => {
                if link.is_marking()
                    && let Some(tcp) = &mut self.tcp
                {
                    tcp.mark(flight);
                }
                if self.watch.is_some() {
                    self.record(flight, port, time);
                }
                self.queue.push(time, Event::Arrive { flight, port }.into());
            }
            None => self.drop_flight(flight, Drop::QueueFull),
        }
    }

    pub(super) fn drop_flight(&mut self, flight: u32, reason: Drop) {
        if self.way.is_some() {
            self.way_drop(flight, reason);
        }
        self.flights.remove(flight as usize);
        self.tally.drops.count(reason);
    }

    #[inline]
    fn pass_switch(&mut self, flight: u32, switch: NodeId, role: Role, port: PortId) {
        let under_way = &self.flights[flight as usize];
        if under_way.is_data {
            self.tally.packet_hops += 1;
            let bytes = under_way.bytes - self.outer_bytes;
            self.switch_bytes[switch.0 as usize] += u64::from(bytes);
        }
        let watched = match self.way {
            Some(_) => self.way_before(flight, switch),
            None => None,
        };
        match self.caches {
            Caches::Absent => {}
            Caches::Protocol(_) => match self.ask_agent(flight, switch, role, port) {
                Verdict::Forward => {}
                Verdict::Consumed => {
                    self.flights.remove(flight as usize);
                    self.tally.consumed += 1;
                    return;
                }
                Verdict::Drop(_) => return self.drop_flight(flight, Drop::Forged),
            },
            _ => {
                if !self.ask_cache(flight, switch, role, port) {
                    return;
                }
            }
        }
        if let Some(before) = watched {
            self.way_after(flight, switch, before);
        }
        self.pass_on(flight, switch);
    }

    /// Decrements the time to live and forwards the packet.
    #[inline]
    pub(super) fn pass_on(&mut self, flight: u32, switch: NodeId) {
        let under_way = &mut self.flights[flight as usize];
        if under_way.ttl <= 1 {
            return self.drop_flight(flight, Drop::TtlExpired);
        }
        under_way.ttl -= 1;
        self.forward(flight, switch);
    }

    /// Sends a packet by one of the ports nearest to its destination.
    #[inline]
    fn forward(&mut self, flight: u32, switch: NodeId) {
        match self.next_port(&self.flights[flight as usize], switch) {
            Some(port) => self.transmit(flight, port),
            None => self.drop_flight(flight, Drop::NoRoute),
        }
    }

    /// The port by which a switch sends a packet; `None` if there is no route.
    #[inline]
    pub(super) fn next_port(&self, under_way: &Flight, switch: NodeId) -> Option<PortId> {
        match self.topology.next_ports(switch, under_way.destination) {
            [] => None,
            [port] => Some(*port),
            ports => Some(ports[self.ecmp.choose(under_way.path, switch, ports.len())]),
        }
    }

    /// Runs the protocol's step; sends the resulting control packets at once.
    #[inline]
    fn ask_agent(&mut self, flight: u32, switch: NodeId, role: Role, port: PortId) -> Verdict {
        let from = self.topology.owner(port);
        let from = match self.topology.kind(from) {
            NodeKind::Switch(_) => Ingress::Fabric,
            NodeKind::Server => Ingress::Host(self.topology.address(from)),
            NodeKind::Gateway => Ingress::Gateway,
        };
        let Caches::Protocol(agents) = &mut self.caches else {
            return Verdict::Forward;
        };
        let agent = &mut agents[switch.0 as usize];
        let under_way = &mut self.flights[flight as usize];
        let (source, destination) = outer(&under_way.packet);
        let hits = agent.counters().hits;
        let (now, random) = (self.now.to_instant(), &mut self.random);
        let charge = self.tag_charge;
        let verdict = under_way.lend(charge, |packet| {
            agent.handle_packet(packet, from, now, || random.next_u32())
        });
        if agent.counters().hits > hits {
            count_hit(&mut self.tally.hits, role);
            if under_way.sequence == 0 {
                count_hit(&mut self.tally.first_hits, role);
            }
        }
        let is_same = outer(&under_way.packet) == (source, destination);
        if verdict == Verdict::Forward && !is_same {
            self.address_anew(flight);
        }
        while let Some(packet) = self.poll_agent(switch) {
            self.send_control(packet, switch);
        }
        verdict
    }

    #[inline]
    fn poll_agent(&mut self, switch: NodeId) -> Option<Packet> {
        match &mut self.caches {
            Caches::Protocol(agents) => agents[switch.0 as usize].poll_transmit(),
            _ => None,
        }
    }

    /// Finds the node and the path of a packet whose outer addresses changed.
    ///
    /// # Panics
    /// If there is no such node: all addresses that agents write are the topology's.
    pub(super) fn address_anew(&mut self, flight: u32) {
        let under_way = &mut self.flights[flight as usize];
        under_way.path = self.paths.of(&under_way.packet);
        let node = self.topology.node_of(under_way.packet.outer_destination);
        under_way.destination = node.expect("agents know addresses of nodes only");
    }

    fn send_control(&mut self, packet: Packet, switch: NodeId) {
        self.tally.control += 1;
        let Some(destination) = self.topology.node_of(packet.outer_destination) else {
            return self.tally.drops.count(Drop::NoRoute);
        };
        let flight = self.flights.insert(Flight {
            packet,
            destination,
            path: self.paths.of(&packet),
            bytes: CONTROL_BYTES + self.outer_bytes,
            link_generation: 0,
            flow: 0,
            machine: 0,
            sequence: 0,
            sent_at: self.now,
            is_data: false,
            ttl: packet.ttl,
        });
        self.forward(flight as u32, switch);
    }

    fn reach_endpoint(&mut self, flight: u32, node: NodeId) {
        if self.host_memory.is_some() {
            self.remember_at_host(flight, node);
        }
        if self.way.is_some() {
            self.way_endpoint(flight, node);
        }
        let endpoint = self.endpoint_index(node);
        let under_way = &mut self.flights[flight as usize];
        let machine = under_way.is_data.then_some(under_way.machine as usize);
        let machine = machine.map(|machine| &self.machines.all[machine]);
        if machine.is_some_and(|machine| machine.node == node) {
            // Its host's agent would do the same, but would have to look up the machine.
            return self.deliver(flight);
        }
        let place = machine.map(|machine| machine.place);
        let version = self.database.version();
        let (flow, charge) = (under_way.flow, self.tag_charge);
        match &mut self.endpoints[endpoint] {
            Endpoint::Gateway(agent) => {
                match under_way.lend(charge, |packet| {
                    agent.handle_packet_for(place, version, packet)
                }) {
                    GatewayVerdict::Forward => {
                        self.count_at_gateway(flow);
                        match self.wait_for_gateway(endpoint) {
                            Some(wait) => self.hold(flight, node, wait + GATEWAY_DELAY.into()),
                            None => self.drop_flight(flight, Drop::GatewayFull),
                        }
                    }
                    GatewayVerdict::UnknownDestination => {
                        self.count_at_gateway(flow);
                        self.drop_flight(flight, Drop::UnknownDestination);
                    }
                    GatewayVerdict::UnexpectedControl => {
                        self.drop_flight(flight, Drop::UnexpectedControl);
                    }
                }
            }
            Endpoint::Host(agent) => {
                match under_way.lend(charge, |packet| agent.handle_packet(packet)) {
                    HostVerdict::Deliver => self.deliver(flight),
                    HostVerdict::Resend => {
                        self.note_misdelivery();
                        self.hold(flight, node, RESEND_DELAY.into());
                    }
                    HostVerdict::NoGateway => {
                        self.note_misdelivery();
                        self.drop_flight(flight, Drop::NoGateway);
                    }
                    HostVerdict::UnexpectedControl => {
                        self.drop_flight(flight, Drop::UnexpectedControl);
                    }
                }
            }
        }
    }

    /// The time until a gateway starts on a packet; `None` if too many wait.
    #[inline]
    fn wait_for_gateway(&mut self, endpoint: usize) -> Option<Time> {
        let Some(service) = self.gateway_service else {
            return Some(Time::ZERO);
        };
        let free_at = &mut self.gateway_free_at[endpoint];
        let wait = *free_at - self.now;
        let each = service.time_a_packet();
        if wait.as_picos().div_ceil(each.as_picos().max(1)) > u64::from(service.queue_packets) {
            return None;
        }
        *free_at = (*free_at).max(self.now) + each;
        Some(wait)
    }

    /// Holds a packet at an endpoint for `delay`, after which it is sent as it is now.
    fn hold(&mut self, flight: u32, node: NodeId, delay: Time) {
        self.address_anew(flight);
        let event = Event::Leave { flight, node };
        self.queue.push(self.now + delay, event.into());
    }

    fn note_misdelivery(&mut self) {
        self.tally.misdelivered += 1;
        self.tally.last_misdelivered = Some(self.now);
    }

    fn deliver(&mut self, flight: u32) {
        let done = &self.flights[flight as usize];
        let (flow, sequence, sent_at) = (done.flow, done.sequence, done.sent_at);
        self.flights.remove(flight as usize);
        self.tally.delivered += 1;
        self.tally.latency += u128::from((self.now - sent_at).as_picos());
        let direction = self.direction_of(flight);
        let flow = &mut self.flows[flow as usize];
        let is_reordered = flow.deliver(self.now, sequence, direction);
        self.tally.reordered += u64::from(is_reordered);
        self.receive_segment(flight);
    }
}

#[inline]
fn outer(packet: &Packet) -> (Address, Address) {
    (packet.outer_source, packet.outer_destination)
}

pub(super) fn count_hit(layers: &mut Layers, role: Role) {
    *match role {
        Role::Core => &mut layers.core,
        Role::Spine | Role::GatewaySpine => &mut layers.spine,
        Role::Tor | Role::GatewayTor => &mut layers.tor,
    } += 1;
}
