//! `examples/p4/switchv2p/`: the P4 program treats every packet as the `v2p` crate does.
//!
//! Random packets of a small world go through both. The packets sent are compared byte by
//! byte, including learning and invalidation packets; so are the caches, line by line with
//! their access bits, and the counters. The world is small so that keys collide, tags are
//! stale and machines move.
//!
//! The crate does not change the time to live, as routing does that. So a packet it lets pass
//! is expected with one hop less, at the port of its route.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_p4::program::ids::CounterId;
use thalweg_p4::state::Update;
use thalweg_p4::{Config, Outbox, Program, Target, commands};
use thalweg_packet::Instant;
use thalweg_packet::wire::EtherType;
use thalweg_v2p::wire::{Datagram, DatagramError};
use thalweg_v2p::{
    Address, AgentConfig, Attachment, Body, Carried, CarryReason, Data, Directory, Ingress, Key,
    MapVersion, Mapping, Packet, Profile, Role, Stale, SwitchAgent, SwitchId, Tags, Verdict, Vni,
};

const PROGRAM: &str = include_str!("../../../examples/p4/switchv2p/switchv2p.json");
const CACHE_LINES: u32 = 64;
const TORS: u8 = 4;
const SWITCHES: u8 = 8;
const HOSTS_PER_TOR: u8 = 2;
const ROLES: [(Role, u8); 5] = [
    (Role::GatewayTor, 0),
    (Role::Tor, 1),
    (Role::GatewaySpine, 4),
    (Role::Spine, 5),
    (Role::Core, 6),
];
/// The Ethernet header of every packet.
const LINK: [u8; 14] = [2, 1, 2, 3, 4, 5, 2, 9, 8, 7, 6, 5, 8, 0];
/// Offset of our option's value in a frame: after Ethernet, IPv4, UDP, Geneve and option
/// header.
const VALUE_AT: usize = 14 + 20 + 8 + 8 + 4;

fn ip(a: u8, b: u8, c: u8) -> Address {
    Ipv4Addr::new(10, a, b, c).into()
}

fn host(tor: u8, number: u8) -> Address {
    ip(1, tor, number + 1)
}

fn switch(id: u8) -> Address {
    ip(8, 0, id)
}

fn gateway(number: u8) -> Address {
    ip(9, 0, number + 1)
}

fn pod(tor: u8) -> u32 {
    u32::from(tor / 2)
}

fn hosts() -> impl Iterator<Item = (Address, u8)> {
    (0..TORS).flat_map(|tor| (0..HOSTS_PER_TOR).map(move |number| (host(tor, number), tor)))
}

/// The port for packets to an address; a damaged option may contain any address.
fn port_to(destination: Address) -> Option<u32> {
    let [_, kind, tor, number] = destination.to_ipv4()?.octets();
    let known = match kind {
        1 => hosts().any(|(host, _)| host == destination),
        8 => (0..SWITCHES).any(|id| switch(id) == destination),
        _ => (0..2).any(|number| gateway(number) == destination),
    };
    known.then(|| match kind {
        1 => 20 + u32::from(tor) * 4 + u32::from(number),
        8 => 10 + u32::from(number),
        _ => 9,
    })
}

/// The entries written by the switch's control plane.
fn entries(role: Role, id: u8, probability: f64) -> String {
    let number = match role {
        Role::GatewayTor => 0,
        Role::Tor => 1,
        Role::GatewaySpine => 2,
        Role::Spine => 3,
        Role::Core => 4,
    };
    let threshold = (probability * 2_f64.powi(32)) as u64;
    let own = switch(id);
    let mut text =
        format!("table_set_default self set_self => {id} {own} {number} 0 {threshold} 12\n");
    for (port, from) in ports(role, id) {
        text += &match from {
            Ingress::Host(host) => format!("table_add port set_host {port} => {host}\n"),
            Ingress::Gateway => format!("table_add port set_gateway {port} =>\n"),
            Ingress::Fabric => String::new(),
        };
    }
    for number in 0..2 {
        let gateway = gateway(number);
        text += &format!("table_add gateway set_unresolved {gateway} =>\n");
        text += &format!("table_add route forward {gateway}/32 => 9\n");
    }
    for (host, tor) in hosts() {
        text += &format!("table_add pod_of set_pod {host} => {}\n", pod(tor));
        text += &format!("table_add tor_of_destination set_tor_of_destination {host} => {tor}\n");
        text += &format!("table_add tor_of_sender set_learner {host} => {tor}\n");
        let port = port_to(host).expect("a route");
        text += &format!("table_add route forward {host}/32 => {port}\n");
    }
    for id in 0..SWITCHES {
        let (address, port) = (switch(id), 10 + id);
        text += &format!("table_add switch_address set_switch_address {id} => {address}\n");
        text += &format!("table_add control_route send_control {address}/32 => {port}\n");
        text += &format!("table_add route forward {address}/32 => {port}\n");
        text += &format!("mirroring_add {port} {port}\n");
    }
    text
}

/// The devices at the ports.
fn ports(role: Role, id: u8) -> Vec<(u32, Ingress)> {
    let mut ports = vec![(5, Ingress::Fabric), (6, Ingress::Fabric)];
    if role.is_tor() {
        ports.push((1, Ingress::Host(host(id, 0))));
        ports.push((2, Ingress::Host(host(id, 1))));
    }
    if role == Role::GatewayTor {
        ports.push((3, Ingress::Gateway));
    }
    ports
}

/// The crate's agent and the P4 program.
struct Pair {
    agent: SwitchAgent,
    target: Target,
    ports: Vec<(u32, Ingress)>,
    now: Instant,
    id: u8,
    malformed: u64,
}

impl Pair {
    fn new(role: Role, id: u8, probability: f64) -> Pair {
        let attached = |tor: u8| Attachment {
            tor: SwitchId(tor.into()),
            pod: pod(tor),
        };
        let directory = Directory::new(
            vec![gateway(0), gateway(1)],
            (0..SWITCHES).map(switch).collect(),
            hosts().map(|(host, tor)| (host, attached(tor))),
        );
        let config = AgentConfig {
            learning_probability: probability,
            ..AgentConfig::new(
                SwitchId(id.into()),
                switch(id),
                role,
                Profile::Paper,
                CACHE_LINES,
            )
        };
        let program = Program::from_json(PROGRAM).unwrap_or_else(|error| panic!("{error}"));
        let program = Arc::new(program);
        let commands = commands::parse(&entries(role, id, probability), &program);
        let commands = commands.unwrap_or_else(|error| panic!("{error}"));
        let updates: Vec<Update> = commands.into_iter().map(|one| one.update).collect();
        let mut target = Target::new(program, Config::default()).expect("own entries");
        let written = target.write(&updates, Instant::ZERO);
        written.unwrap_or_else(|error| panic!("{error}"));
        Pair {
            agent: SwitchAgent::new(&config, Arc::new(directory)),
            target,
            ports: ports(role, id),
            now: Instant::from_nanos(1_000_000),
            id,
            malformed: 0,
        }
    }

    fn counted(&mut self, index: u32) -> u64 {
        let counter = self.target.state().counter(CounterId(0), index);
        counter.expect("the counter has it").packets
    }

    /// Sends a packet through both; the outputs must be the same.
    fn compare(&mut self, port: u32, frame: &[u8]) {
        let (_, from) = *self
            .ports
            .iter()
            .find(|(own, _)| *own == port)
            .expect("a port");
        let learned = self.counted(4);
        let mut outbox = Outbox::new();
        self.target.receive(port, frame, self.now, &mut outbox);
        let mut found: Vec<(u32, Vec<u8>)> = outbox
            .sent()
            .map(|sent| (sent.port, sent.bytes.to_vec()))
            .collect();
        // The program makes the random choice; the crate is given its result.
        let draw = if self.counted(4) > learned {
            0
        } else {
            u32::MAX
        };
        let mut expected = match Datagram::parse(&frame[LINK.len()..]) {
            Ok(datagram) => self.by_agent(datagram, from, draw),
            Err(DatagramError::NotGeneve | DatagramError::NoInnerAddresses) => {
                panic!("the world has no such packets")
            }
            Err(_) => {
                self.malformed += 1;
                Vec::new()
            }
        };
        found.sort();
        expected.sort();
        assert_eq!(
            hex(&found),
            hex(&expected),
            "port {port}, {from:?}: {frame:02x?}"
        );
    }

    fn by_agent(
        &mut self,
        datagram: Datagram<'_>,
        from: Ingress,
        draw: u32,
    ) -> Vec<(u32, Vec<u8>)> {
        let mut after = datagram;
        let verdict = self
            .agent
            .handle_packet(&mut after.packet, from, self.now, || draw);
        let mut sent = Vec::new();
        while let Some(control) = self.agent.poll_transmit() {
            let [_, _, a, b, c, d] = mac(control.outer_destination);
            let to = control.outer_destination;
            let mut frame = vec![2, 0, a, b, c, d];
            frame.extend(mac(switch(self.id)));
            frame.extend([8, 0]);
            frame.extend(emitted(&Datagram::control(control)));
            sent.push((port_to(to).expect("a switch"), frame));
        }
        after.packet.ttl -= 1;
        if let (Verdict::Forward, Some(port)) = (verdict, port_to(after.packet.outer_destination)) {
            let mut frame = LINK.to_vec();
            frame.extend(emitted(&after));
            sent.push((port, frame));
        }
        sent
    }

    /// Compares all lines in use, and their access bits.
    fn compare_caches(&mut self) {
        let program = self.target.program().clone();
        let state = self.target.state();
        let register = |name: &str, line: u32| {
            let id = program
                .arrays
                .find_register(&format!("SwitchIngress.{name}"));
            let value = state.register(&program, id.expect("it is there"), line);
            u64::try_from(value.expect("the line is there")).expect("it fits")
        };
        let mut found = Vec::new();
        for line in 0..CACHE_LINES {
            let state = register("line_states", line);
            if state == 0 {
                continue;
            }
            let address =
                |name: &str| Address::from_ipv4(Ipv4Addr::from_bits(register(name, line) as u32));
            let vni = Vni::new(register("line_vnis", line) as u32).expect("24 bits");
            let mapping = Mapping {
                key: Key {
                    vni,
                    address: address("line_addresses"),
                },
                place: address("line_places"),
                version: MapVersion(register("line_versions", line)),
            };
            found.push((mapping, state == 3));
        }
        let expected: Vec<_> = self.agent.cache().entries().collect();
        assert_eq!(found, expected);
    }

    fn compare_counters(&mut self) {
        let found: Vec<u64> = (0..16).map(|index| self.counted(index)).collect();
        let own = self.agent.counters();
        let expected = [
            own.hits,
            own.misses,
            own.spilled,
            own.promoted,
            own.learning_packets,
            own.learned,
            own.misdelivered,
            own.tagged,
            own.tagged_resolved,
            own.invalidated_by_tag,
            own.invalidated_by_packet,
            own.invalidation_packets,
            own.invalidations_suppressed,
            own.forged_control,
            own.spoofed_sources,
            self.malformed,
        ];
        assert_eq!(found, expected);
    }
}

fn mac(address: Address) -> [u8; 6] {
    let [a, b, c, d] = address.to_ipv4().expect("all are IPv4").octets();
    [2, 0, a, b, c, d]
}

fn emitted(datagram: &Datagram<'_>) -> Vec<u8> {
    let mut bytes = vec![0; datagram.buffer_len()];
    datagram.emit(&mut bytes).expect("there is room");
    bytes
}

fn hex(sent: &[(u32, Vec<u8>)]) -> Vec<String> {
    let line = |(port, bytes): &(u32, Vec<u8>)| {
        let bytes: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{port} {bytes}")
    };
    sent.iter().map(line).collect()
}

/// The source of random packets.
struct World(Pcg64Mcg);

impl World {
    fn below(&mut self, count: u8) -> u8 {
        self.0.random_range(0..count)
    }

    fn chance(&mut self, percent: u8) -> bool {
        self.below(100) < percent
    }

    fn host(&mut self) -> Address {
        host(self.below(TORS), self.below(HOSTS_PER_TOR))
    }

    fn vni(&mut self) -> Vni {
        let number = [0, 7, 0xabcdef][usize::from(self.below(3))];
        Vni::new(number).expect("24 bits")
    }

    fn machine(&mut self) -> Address {
        ip(128, 0, self.below(40))
    }

    fn version(&mut self) -> MapVersion {
        MapVersion(self.below(5).into())
    }

    fn mapping(&mut self, vni: Vni) -> Mapping {
        let address = self.machine();
        Mapping {
            key: Key { vni, address },
            place: self.host(),
            version: self.version(),
        }
    }

    fn tags(&mut self) -> Tags {
        let mut tags = Tags::default();
        if self.chance(40) {
            tags.hit = Some(SwitchId(self.below(SWITCHES + 2).into()));
        }
        tags.source_version = self.version();
        tags.resolved_version = self.version();
        if self.chance(20) {
            tags.origin = Some(self.host());
        }
        if self.chance(25) {
            let (place, version) = (self.host(), self.version());
            tags.misdelivery = Some(Stale { place, version });
        }
        if self.chance(40) {
            let vni = self.vni();
            let promoted = self.chance(50);
            let reason = if promoted {
                CarryReason::Promoted
            } else {
                CarryReason::Spilled
            };
            tags.carried = Some(Carried {
                mapping: self.mapping(vni),
                reason,
            });
        }
        tags
    }

    /// A frame for a switch, and its input port.
    fn frame(&mut self, pair: &Pair) -> (u32, Vec<u8>) {
        let (port, from) = pair.ports[usize::from(self.below(pair.ports.len() as u8))];
        let is_control = self.chance(12);
        let vni = self.vni();
        let mut packet = Packet {
            outer_source: self.host(),
            outer_destination: gateway(self.below(2)),
            ttl: 2 + self.below(63),
            flow: self.0.random_range(0..=u32::from(u16::MAX)),
            body: Body::Learning(self.mapping(vni)),
        };
        if let (Ingress::Host(host), true) = (from, self.chance(80)) {
            packet.outer_source = host;
        }
        if is_control {
            if self.chance(60) {
                packet.body = Body::Invalidation(self.mapping(vni));
            }
            let to = if self.chance(50) {
                pair.id
            } else {
                self.below(SWITCHES)
            };
            packet.outer_destination = switch(to);
            let frame = [LINK.to_vec(), emitted(&Datagram::control(packet))].concat();
            return (port, frame);
        }
        if self.chance(50) {
            packet.outer_destination = self.host();
        }
        let data = Data {
            vni,
            inner_source: self.machine(),
            inner_destination: self.machine(),
            tags: if self.chance(70) {
                self.tags()
            } else {
                Tags::default()
            },
        };
        packet.body = Body::Data(data);
        let payload = self.payload(&data);
        let datagram = Datagram {
            packet,
            traffic_class: self.below(255),
            protocol: EtherType::ETHERNET,
            is_critical: false,
            options_before: &[],
            options_after: &[],
            payload: &payload,
        };
        (port, [LINK.to_vec(), emitted(&datagram)].concat())
    }

    /// A frame of the tenant, with up to two tags.
    fn payload(&mut self, data: &Data) -> Vec<u8> {
        let mut payload = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for tag in [[0x88, 0xa8], [0x81, 0x00]] {
            if self.chance(20) {
                payload.extend(tag);
                payload.extend([0, 9]);
            }
        }
        payload.extend([8, 0, 0x45, 0, 0, 24, 0, 0, 0, 0, 64, 17, 0, 0]);
        for address in [data.inner_source, data.inner_destination] {
            payload.extend(address.to_ipv4().expect("all are IPv4").octets());
        }
        payload.extend([1, 2, 3, 4]);
        payload
    }
}

/// Changes a byte of the option's value; the program does not support IPv6 families.
fn damage(world: &mut World, frame: &mut [u8]) {
    let words = usize::from(frame[VALUE_AT - 4 - 8] & 0x3f);
    if words < 2 {
        return;
    }
    let at = VALUE_AT + world.0.random_range(0..(words - 1) * 4);
    let bit = 1 << world.below(8);
    let is_family = at == VALUE_AT + 2 && bit < 0x10;
    if !is_family {
        frame[at] ^= bit;
    }
}

fn run(role: Role, id: u8, probability: f64, seed: u64, packets: u32) {
    let mut pair = Pair::new(role, id, probability);
    let mut world = World(Pcg64Mcg::seed_from_u64(seed));
    for number in 0..packets {
        pair.now = pair.now + Duration::from_micros(world.below(8).into());
        let (port, mut frame) = world.frame(&pair);
        if number % 8 == 7 {
            damage(&mut world, &mut frame);
        }
        pair.compare(port, &frame);
        if number % 16 == 0 {
            pair.compare_caches();
        }
    }
    pair.compare_caches();
    pair.compare_counters();
    let own = pair.agent.counters();
    assert!(own.hits > 100 && own.tagged > 100, "{own:?}");
    assert!(pair.malformed > 10, "{} malformed", pair.malformed);
}

#[test]
fn each_role_does_as_the_crate_does() {
    for (role, id) in ROLES {
        for seed in 0..4 {
            run(role, id, 0.0, seed, 4_000);
        }
    }
}

#[test]
fn learning_packets_are_sent_always_never_or_by_chance() {
    for probability in [0.0, 0.25, 1.0] {
        let mut pair = Pair::new(Role::GatewayTor, 0, probability);
        let mut world = World(Pcg64Mcg::seed_from_u64(77));
        for _ in 0..6_000 {
            pair.now = pair.now + Duration::from_micros(3);
            let (port, frame) = world.frame(&pair);
            pair.compare(port, &frame);
        }
        pair.compare_counters();
        let learning = pair.agent.counters().learning_packets;
        match probability {
            0.0 => assert_eq!(learning, 0),
            _ => assert!(learning > 100, "{learning} with {probability}"),
        }
    }
}
