//! The small fabric at work: agents, messages under way, and an observer that knows the truth.
//!
//! Messages are delivered in random order, may be lost, and may be delivered twice. Paths are
//! random among the shortest. After each packet that a switch handles, the observer checks the
//! packet and everything that the switch has cached.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use thalweg_packet::Instant;
use thalweg_v2p::*;

use super::*;

const HOSTS: usize = (TORS * HOSTS_PER_TOR) as usize;
const NODES: usize = SWITCHES as usize + HOSTS + 2;
const GATEWAYS_FROM: usize = SWITCHES as usize + HOSTS;

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) profile: Profile,
    pub(crate) seed: u64,
    pub(crate) entries: u32,
    pub(crate) loss: f64,
    pub(crate) duplication: f64,
    pub(crate) sends_invalidations: bool,
}

/// A message on a link.
#[derive(Clone, Copy)]
struct Flight {
    packet: Packet,
    from: usize,
    to: usize,
}

/// The fabric; nodes are numbered switches first, then hosts, then gateways.
pub(crate) struct Fabric {
    pub(crate) plan: Plan,
    pub(crate) switches: Vec<SwitchAgent>,
    pub(crate) hosts: Vec<HostAgent>,
    gateways: Vec<GatewayAgent>,
    pub(crate) database: Database,
    directory: Arc<Directory>,
    neighbors: Vec<Vec<usize>>,
    distances: Vec<Vec<u32>>,
    in_flight: Vec<Flight>,
    pub(crate) random: Pcg64,
    now: Instant,
    next_flow: u32,
    pub(crate) observer: Observer,
}

/// Records what happened, and checks the invariants.
#[derive(Default)]
pub(crate) struct Observer {
    /// For each key, the places it was at, each with its first version.
    history: HashMap<Key, Vec<(MapVersion, Address)>>,
    /// For each switch, key and place: the newest version that was reported or replaced as wrong.
    wrong: HashMap<(usize, Key, Address), MapVersion>,
    /// Cached mappings that had been found wrong by the same switch before.
    pub(crate) reinstalled: u64,
    /// Cached mappings that were not true at their version.
    pub(crate) untrue: u64,
    pub(crate) sent: HashSet<u32>,
    pub(crate) delivered: HashMap<u32, u32>,
    pub(crate) lost: HashSet<u32>,
    /// By flow, how often the packet reached a host without the machine.
    pub(crate) misdelivered: HashMap<u32, u32>,
    destinations: HashMap<u32, Key>,
}

fn links() -> Vec<(usize, usize)> {
    let mut links = Vec::new();
    for spine in 4..8 {
        let tors = (0..TORS).filter(|&tor| pod_of(tor) == pod_of(spine));
        links.extend(tors.map(|tor| (tor as usize, spine as usize)));
        links.extend([8, 9].map(|core| (spine as usize, core)));
    }
    let hosts = 0..HOSTS;
    let tor_of = |host: usize| host / HOSTS_PER_TOR as usize;
    links.extend(hosts.map(|host| (SWITCHES as usize + host, tor_of(host))));
    links.extend([0, 1].map(|gateway| (GATEWAYS_FROM + gateway, GATEWAY_TOR as usize)));
    links
}

/// Hops from each node to `target`, over switches only.
fn distances_to(target: usize, neighbors: &[Vec<usize>]) -> Vec<u32> {
    let mut distances = vec![u32::MAX; NODES];
    distances[target] = 0;
    let mut border = vec![target];
    while !border.is_empty() {
        let mut next = Vec::new();
        for node in border {
            for &neighbor in &neighbors[node] {
                if distances[neighbor] == u32::MAX {
                    distances[neighbor] = distances[node] + 1;
                    next.push(neighbor);
                }
            }
        }
        border = next;
    }
    distances
}

impl Fabric {
    pub(crate) fn new(plan: Plan) -> Fabric {
        let directory = directory();
        let agent = |number: u32| {
            let config = AgentConfig {
                learning_probability: 0.5,
                sends_invalidations: plan.sends_invalidations,
                ..config(number, plan.profile, plan.entries)
            };
            SwitchAgent::new(&config, directory.clone())
        };
        let host_agent = |number: usize| {
            let number = number as u32;
            let address = host(number / HOSTS_PER_TOR, number % HOSTS_PER_TOR);
            HostAgent::new(address, plan.profile, directory.clone())
        };
        let mut neighbors = vec![Vec::new(); NODES];
        for (one, other) in links() {
            neighbors[one].push(other);
            neighbors[other].push(one);
        }
        Fabric {
            switches: (0..SWITCHES).map(agent).collect(),
            hosts: (0..HOSTS).map(host_agent).collect(),
            gateways: vec![GatewayAgent::new(plan.profile); 2],
            database: Database::new(),
            distances: (0..NODES)
                .map(|node| distances_to(node, &neighbors))
                .collect(),
            neighbors,
            directory: directory.clone(),
            in_flight: Vec::new(),
            random: Pcg64::seed_from_u64(plan.seed),
            now: Instant::from_nanos(1_000_000),
            next_flow: 0,
            observer: Observer::default(),
            plan,
        }
    }

    /// Places a machine at a host, or moves it.
    pub(crate) fn place(&mut self, key: Key, to: usize) {
        let place = self.hosts[to].address();
        let from = self.hosts.iter().position(|host| host.has(key));
        let version = self.database.place(key, place);
        if let Some(from) = from {
            self.hosts[from].release(key, Some(place));
        }
        self.hosts[to].admit(key, version);
        let history = self.observer.history.entry(key).or_default();
        history.push((version, place));
    }

    /// A machine sends to another of its tenant.
    pub(crate) fn send(&mut self, source: Key, destination: Key) {
        let number = self.hosts.iter().position(|host| host.has(source)).unwrap();
        let flow = self.next_flow;
        self.next_flow += 1;
        let packet = self.hosts[number].packet_from(source, destination.address, flow);
        self.observer.sent.insert(flow);
        self.observer.destinations.insert(flow, destination);
        self.launch(SWITCHES as usize + number, packet.unwrap());
    }

    /// Delivers messages until none is under way.
    ///
    /// In `artifact` a packet may bounce for ever; then some stay under way.
    pub(crate) fn settle(&mut self) {
        for _ in 0..50_000 {
            if !self.step() {
                return;
            }
        }
        let is_known = self.plan.profile == Profile::Artifact;
        assert!(is_known, "messages never end: {:?}", self.plan);
    }

    /// Whether a packet is still under way.
    pub(crate) fn is_under_way(&self, flow: u32) -> bool {
        self.in_flight
            .iter()
            .any(|flight| flight.packet.flow == flow)
    }

    /// Delivers one message; `false` if there is none.
    pub(crate) fn step(&mut self) -> bool {
        if self.in_flight.is_empty() {
            return false;
        }
        self.now = self.now + Duration::from_micros(1);
        let index = self.random.random_range(0..self.in_flight.len());
        let flight = self.in_flight.swap_remove(index);
        if self.random.random_bool(self.plan.loss) {
            if let Body::Data(_) = flight.packet.body {
                self.observer.lost.insert(flight.packet.flow);
            }
            return true;
        }
        if self.random.random_bool(self.plan.duplication) {
            self.in_flight.push(flight);
        }
        self.arrive(flight);
        true
    }

    fn node_of(&self, address: Address) -> usize {
        let hosts = self.hosts.iter().map(HostAgent::address);
        let all = (0..SWITCHES).map(switch_address).chain(hosts);
        let mut all = all.chain([gateway(0), gateway(1)]);
        all.position(|node| node == address)
            .expect("every address is a node's")
    }

    /// Sends a packet over the next link of a random shortest path.
    fn launch(&mut self, from: usize, packet: Packet) {
        let target = self.node_of(packet.outer_destination);
        let distances = &self.distances[target];
        let is_nearer = |node: &&usize| distances[**node] < distances[from];
        let nearer: Vec<usize> = self.neighbors[from]
            .iter()
            .filter(is_nearer)
            .copied()
            .collect();
        let to = nearer[self.random.random_range(0..nearer.len())];
        self.in_flight.push(Flight { packet, from, to });
    }

    fn arrive(&mut self, flight: Flight) {
        match flight.to {
            node if node < SWITCHES as usize => self.arrive_at_switch(node, flight),
            node if node < GATEWAYS_FROM => self.arrive_at_host(node - SWITCHES as usize, flight),
            node => {
                let mut packet = flight.packet;
                let agent = &mut self.gateways[node - GATEWAYS_FROM];
                let verdict = agent.handle_packet(&self.database, &mut packet);
                assert_eq!(verdict, GatewayVerdict::Forward);
                self.launch(node, packet);
            }
        }
    }

    fn arrive_at_switch(&mut self, number: usize, flight: Flight) {
        let mut packet = flight.packet;
        let from = match flight.from {
            node if node < SWITCHES as usize => Ingress::Fabric,
            node if node < GATEWAYS_FROM => {
                Ingress::Host(self.hosts[node - SWITCHES as usize].address())
            }
            _ => Ingress::Gateway,
        };
        let agent = &mut self.switches[number];
        let before: Vec<Mapping> = agent.cache().entries().map(|entry| entry.0).collect();
        let chance = self.random.random();
        let verdict = agent.handle_packet(&mut packet, from, self.now, || chance);
        let after: Vec<Mapping> = agent.cache().entries().map(|entry| entry.0).collect();
        self.observer.see_caches(number, &before, &after);
        self.observer.see_packet(number, &packet, &self.directory);
        self.observer.see_wrong(number, &after);
        while let Some(control) = self.switches[number].poll_transmit() {
            self.launch(number, control);
        }
        match verdict {
            Verdict::Forward => self.launch(number, packet),
            Verdict::Consumed => {}
            Verdict::Drop(reason) => panic!("{reason:?}: {packet:?}, {:?}", self.plan),
        }
    }

    fn arrive_at_host(&mut self, number: usize, flight: Flight) {
        let mut packet = flight.packet;
        let key = data(&packet).destination_key();
        assert_eq!(
            key, self.observer.destinations[&packet.flow],
            "the packet is what it was"
        );
        assert_eq!(data(&packet).tags.carried, None, "{:?}", self.plan);
        match self.hosts[number].handle_packet(&mut packet) {
            HostVerdict::Deliver => {
                assert!(self.hosts[number].has(key));
                *self.observer.delivered.entry(packet.flow).or_default() += 1;
            }
            HostVerdict::Resend => {
                *self.observer.misdelivered.entry(packet.flow).or_default() += 1;
                self.launch(SWITCHES as usize + number, packet);
            }
            verdict => panic!("{verdict:?}"),
        }
    }
}

/// The hosts of tenant 7 are the first of their ToRs, those of tenant 8 the second.
fn is_of_tenant(place: Address, key: Key) -> bool {
    (0..TORS).any(|tor| place == host(tor, key.vni.number() - 7))
}

impl Observer {
    /// Checks that every cached place belongs to the mapping's tenant.
    fn see_caches(&mut self, switch: usize, before: &[Mapping], after: &[Mapping]) {
        for entry in after {
            assert!(is_of_tenant(entry.place, entry.key), "{entry:?}");
            let history = &self.history[&entry.key];
            let at = history
                .iter()
                .rfind(|(version, _)| *version <= entry.version);
            self.untrue += u64::from(at.is_none_or(|(_, place)| *place != entry.place));
            let replaced = before.iter().find(|old| old.key == entry.key);
            if let Some(old) = replaced.filter(|old| old.place != entry.place) {
                self.report(switch, *old);
            }
        }
    }

    /// Checks that a resolved packet goes to a place of its tenant.
    fn see_packet(&mut self, switch: usize, packet: &Packet, directory: &Directory) {
        match packet.body {
            Body::Data(data) => {
                if !directory.is_gateway(packet.outer_destination) {
                    let key = data.destination_key();
                    assert!(is_of_tenant(packet.outer_destination, key), "{packet:?}");
                }
                if let Some(stale) = data.tags.misdelivery {
                    self.report(switch, stale.of(data.destination_key()));
                }
            }
            Body::Invalidation(stale) => self.report(switch, stale),
            Body::Learning(_) => {}
        }
    }

    fn see_wrong(&mut self, switch: usize, after: &[Mapping]) {
        for entry in after {
            let wrong = self.wrong.get(&(switch, entry.key, entry.place));
            self.reinstalled += u64::from(wrong.is_some_and(|&wrong| entry.version <= wrong));
        }
    }

    fn report(&mut self, switch: usize, stale: Mapping) {
        let wrong = self
            .wrong
            .entry((switch, stale.key, stale.place))
            .or_default();
        *wrong = (*wrong).max(stale.version);
    }

    /// How often a key has moved.
    pub(crate) fn moves(&self, flow: u32) -> u32 {
        self.history[&self.destinations[&flow]].len() as u32 - 1
    }
}
