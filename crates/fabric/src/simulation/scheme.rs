//! The schemes in a run: packets of hosts, switches without the protocol, and periodic work.

use thalweg_v2p::{Address, Body, Data, INITIAL_TTL, MapVersion, Packet, Role, Tags};

use super::hop::count_hit;
use super::{Endpoint, Event, Simulation};
use crate::Time;
use crate::config::{OnDemand, Scheme};
use crate::failure::Effect;
use crate::flows::{Flow, Machine};
use crate::id::{NodeId, PortId};
use crate::report::Drop;
use crate::schemes::{Caches, Diverted, HOST_UPDATE, Known, Question, Resolution};
use crate::topology::NodeKind;

impl Simulation {
    /// A machine's packet to a virtual address as its host sends it, and the host's delay;
    /// `None` if there is no destination to send it to.
    pub(super) fn packet_of(
        &mut self,
        source: Machine,
        destination: Machine,
        flow: u32,
    ) -> Option<(Packet, Time)> {
        let key = destination.key();
        let known = match (&mut self.host_memory, self.scheme) {
            (Some(memory), _) => {
                let host = source.node.0 as usize - self.topology.switch_count();
                memory.ask(host as u32, key)
            }
            (None, Scheme::Direct) => Known::Shared(Time::ZERO),
            (None, _) => Known::Nothing,
        };
        let Flow {
            number, gateway, ..
        } = self.flows[flow as usize];
        let version = self.database.version();
        let (place, versions, delay) = match known {
            Known::Nothing => (gateway?, (source.version, MapVersion::NONE), Time::ZERO),
            Known::At(place) => (place, (version, version), Time::ZERO),
            Known::Shared(delay) => (destination.place, (version, version), delay),
        };
        self.tally.host_resolved += u64::from(known != Known::Nothing);
        let packet = Packet {
            outer_source: self.topology.address(source.node),
            outer_destination: place,
            ttl: INITIAL_TTL,
            flow: number,
            body: Body::Data(Data {
                vni: source.vni,
                inner_source: source.address,
                inner_destination: destination.address,
                tags: Tags {
                    source_version: versions.0,
                    resolved_version: versions.1,
                    ..Tags::default()
                },
            }),
        };
        debug_assert!(known != Known::Nothing || self.is_what_the_host_sends(source, &packet));
        Some((packet, delay))
    }

    /// The slow twin of [`Simulation::packet_of`]: compares with the host's agent, which looks
    /// up all.
    fn is_what_the_host_sends(&self, source: Machine, packet: &Packet) -> bool {
        let host = &self.endpoints[self.endpoint_index(source.node)];
        let (Endpoint::Host(host), Body::Data(data)) = (host, &packet.body) else {
            return false;
        };
        let key = source.key();
        host.packet_from(key, data.inner_destination, packet.flow) == Some(*packet)
    }

    /// Handles a packet at a switch with a cache but no protocol; returns whether it goes on
    /// now.
    pub(super) fn ask_cache(
        &mut self,
        flight: u32,
        switch: NodeId,
        role: Role,
        port: PortId,
    ) -> bool {
        let under_way = &self.flights[flight as usize];
        let Body::Data(data) = &under_way.packet.body else {
            return true;
        };
        let is_unresolved = self.topology.kind(under_way.destination) == NodeKind::Gateway;
        let question = Question {
            data,
            is_unresolved,
            outer_destination: under_way.packet.outer_destination,
            bytes: under_way.bytes,
        };
        let index = switch.0 as usize;
        let resolution = match &mut self.caches {
            Caches::Absent | Caches::Protocol(_) => Resolution::AsIs,
            Caches::Learning(caches) => match &mut caches[index] {
                Some(cache) => cache.handle(question),
                None => Resolution::AsIs,
            },
            Caches::Bluebird(tors) => match &mut tors[index] {
                Some(tor) => tor.handle(question, &self.database, self.now),
                None => Resolution::AsIs,
            },
            Caches::Planned(planner) => {
                let from = self.topology.owner(port);
                if is_unresolved && self.topology.kind(from) == NodeKind::Server {
                    let key = data.destination_key();
                    planner.count(switch, under_way.destination, under_way.path, key);
                }
                planner.handle(question, switch)
            }
        };
        match resolution {
            Resolution::AsIs => true,
            Resolution::To(place) => {
                let is_first = under_way.sequence == 0;
                count_hit(&mut self.tally.hits, role);
                if is_first {
                    count_hit(&mut self.tally.first_hits, role);
                }
                self.flights[flight as usize].packet.outer_destination = place;
                self.address_anew(flight);
                true
            }
            Resolution::Diverted(Diverted::Until(time)) => {
                self.tally.control_plane_packets += 1;
                self.queue
                    .push(time, Event::Resume { flight, switch }.into());
                false
            }
            Resolution::Diverted(Diverted::Dropped) => {
                self.drop_flight(flight, Drop::ControlPlaneFull);
                false
            }
        }
    }

    /// Sends on a packet that leaves a switch's control plane, which knows the machine's
    /// place.
    pub(super) fn resume(&mut self, flight: u32, switch: NodeId) {
        let packet = &mut self.flights[flight as usize].packet;
        let place = match &packet.body {
            Body::Data(data) => self.database.find(data.destination_key()),
            Body::Learning(_) | Body::Invalidation(_) => None,
        };
        let Some(place) = place else {
            return self.drop_flight(flight, Drop::UnknownDestination);
        };
        packet.outer_destination = place;
        self.address_anew(flight);
        self.pass_on(flight, switch);
    }

    /// The time of the next late update, failure, gateway move or plan.
    #[inline]
    pub(super) fn next_upkeep(&self) -> Time {
        let late = self.late_places.front();
        let late = late.map_or(Time::from_picos(u64::MAX), |late| late.0);
        let late = self
            .failures
            .next_time()
            .map_or(late, |time| time.min(late));
        let late = self
            .gateway_moves
            .next_time()
            .map_or(late, |time| time.min(late));
        match &self.caches {
            Caches::Planned(planner) => planner.next_plan().min(late),
            _ => late,
        }
    }

    /// Does the work of [`Simulation::next_upkeep`] that is due.
    pub(super) fn keep_up(&mut self) {
        self.now = self.next_upkeep();
        while self
            .failures
            .next_time()
            .is_some_and(|time| time <= self.now)
        {
            self.follow_failure();
        }
        while self
            .gateway_moves
            .next_time()
            .is_some_and(|time| time <= self.now)
        {
            self.move_gateways();
        }
        while let Some(&(due, machine, place)) = self.late_places.front()
            && due <= self.now
        {
            self.late_places.pop_front();
            match self.scheme {
                Scheme::OnDemand(OnDemand::Artifact) => {
                    self.place(machine, place);
                }
                _ => {
                    let key = self.machines.all[machine as usize].key();
                    if let Some(memory) = &mut self.host_memory {
                        memory.update(key, place);
                    }
                }
            }
        }
        if let Caches::Planned(planner) = &mut self.caches
            && planner.next_plan() <= self.now
        {
            planner.plan(&self.topology, self.ecmp, &self.database);
        }
    }

    /// Moves gateways: updates the directories of agents and the roles of switches.
    fn move_gateways(&mut self) {
        self.gateway_moves.take();
        let at_work = self.gateway_moves.at_work();
        self.topology.set_gateways_at_work(at_work);
        let directory = self.topology.directory();
        for endpoint in &mut self.endpoints {
            if let Endpoint::Host(host) = endpoint {
                host.set_directory(directory.clone());
            }
        }
        for flow in &mut self.flows {
            flow.gateway = directory.gateway_of(flow.number);
        }
        self.caches
            .follow_gateways(&self.topology, self.scheme, &directory);
    }

    /// Handles the failure or repair of a link or switch, or the rerouting after it.
    fn follow_failure(&mut self) {
        match self.failures.take() {
            Some(Effect::Ports { ports, is_up }) => {
                for port in ports {
                    self.ports[port.0 as usize].set_up(self.now, is_up);
                }
            }
            Some(Effect::Reroute) => {
                let failures = &self.failures;
                self.topology.reroute(|port| failures.is_up(port));
            }
            None => {}
        }
    }

    /// Notes a machine's move: updates the database now or later. Returns its version.
    pub(super) fn note_move(&mut self, machine: u32, place: Address) -> MapVersion {
        if let Caches::Bluebird(tors) = &mut self.caches {
            for tor in tors.iter_mut().flatten() {
                tor.catch_up(&self.database, self.now);
            }
        }
        if self.host_memory.is_some() {
            self.late_places
                .push_back((self.now + HOST_UPDATE, machine, place));
        }
        match self.scheme {
            Scheme::OnDemand(OnDemand::Artifact) => self.database.version(),
            _ => self.place(machine, place),
        }
    }

    /// Updates the database, and the machine's cached place.
    fn place(&mut self, machine: u32, place: Address) -> MapVersion {
        let machine = &mut self.machines.all[machine as usize];
        machine.place = place;
        self.database.place(machine.key(), place)
    }

    /// Updates a host's memory by a packet that reached it.
    pub(super) fn remember_at_host(&mut self, flight: u32, node: NodeId) {
        if self.topology.kind(node) != NodeKind::Server {
            return;
        }
        let host = (node.0 as usize - self.topology.switch_count()) as u32;
        let packet = &self.flights[flight as usize].packet;
        if let (Some(memory), Body::Data(data)) = (&mut self.host_memory, &packet.body) {
            let here = packet.outer_destination;
            memory.receive(host, here, data.source_key(), data.destination_key());
        }
    }

    /// Updates the memory of the sender's host by a packet that leaves a gateway.
    pub(super) fn remember_at_gateway(&mut self, flight: u32, node: NodeId) {
        if self.topology.kind(node) != NodeKind::Gateway {
            return;
        }
        let Some(memory) = &mut self.host_memory else {
            return;
        };
        let packet = &self.flights[flight as usize].packet;
        let Some(node) = self.topology.node_of(packet.outer_source) else {
            return;
        };
        let host = (node.0 as usize - self.topology.switch_count()) as u32;
        if let Body::Data(data) = &packet.body {
            memory.resolve(host, data.destination_key(), packet.outer_destination);
        }
    }
}
