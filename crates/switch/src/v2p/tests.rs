//! A small fabric of nodes, without switches around them: the lab carries packets by their
//! outer destinations, as rules would.
//!
//! ```text
//!                 core 0
//!      tor 1      tor 2      gateway tor 3
//!      host A     host B     gateway
//! ```

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use thalweg_packet::wire::{ArpOperation, ArpRepr, ArpView, PacketBuilder};
use thalweg_v2p::{Attachment, Key, MapVersion, Vni};

use super::*;

const HOST_A: [u8; 4] = [10, 1, 0, 1];
const HOST_B: [u8; 4] = [10, 1, 0, 2];
const GATEWAY: [u8; 4] = [10, 9, 0, 1];
/// The machine that moves, its peer, and a machine on the peer's host.
const MOVING: [u8; 4] = [172, 16, 0, 1];
const PEER: [u8; 4] = [172, 16, 0, 2];
const NEIGHBOUR: [u8; 4] = [172, 16, 0, 3];
const MACHINE_PORT: PortId = PortId(100);

fn ip(address: [u8; 4]) -> Address {
    Ipv4Addr::from(address).into()
}

fn switch_address(switch: u32) -> Address {
    ip([10, 0, 0, switch as u8])
}

fn key(vni: u32, address: [u8; 4]) -> Key {
    Key {
        vni: Vni::new(vni).unwrap(),
        address: ip(address),
    }
}

fn machine(address: [u8; 4], host: [u8; 4], port: u32, since: u64) -> Machine {
    Machine {
        key: key(7, address),
        host: ip(host),
        mac: MacAddress([2, 7, 7, 7, 7, address[3]]),
        port: Some(PortId(MACHINE_PORT.0 + port)),
        since: MapVersion(since),
    }
}

/// The map, with the moving machine at the given host.
fn map(version: u64, host: [u8; 4]) -> Arc<V2pMap> {
    let at = |tor| Attachment {
        tor: SwitchId(tor),
        pod: tor,
    };
    Arc::new(V2pMap {
        version: MapVersion(version),
        gateways: vec![(ip(GATEWAY), at(3))],
        switches: (0..4)
            .map(|switch| (switch_address(switch), switch))
            .collect(),
        hosts: vec![(ip(HOST_A), at(1)), (ip(HOST_B), at(2))],
        machines: vec![
            machine(MOVING, host, 0, version),
            machine(PEER, HOST_B, 1, 1),
            machine(NEIGHBOUR, HOST_B, 2, 1),
        ],
    })
}

struct Lab {
    /// By physical address.
    nodes: BTreeMap<Address, (Node, Outbox)>,
    /// Frames that machines received: port and bytes.
    received: Vec<(PortId, Vec<u8>)>,
}

/// The port of a ToR where a host or gateway is attached.
const ATTACHED: PortId = PortId(1);
const FABRIC: PortId = PortId(9);

impl Lab {
    fn new() -> Lab {
        let mut lab = Lab {
            nodes: BTreeMap::new(),
            received: Vec::new(),
        };
        for (switch, attached) in [
            (0, None),
            (1, Some(HOST_A)),
            (2, Some(HOST_B)),
            (3, Some(GATEWAY)),
        ] {
            let role = match switch {
                0 => Role::Core,
                3 => Role::GatewayTor,
                _ => Role::Tor,
            };
            lab.add(V2pRole::Switch(role), switch_address(switch), attached);
        }
        lab.add(V2pRole::Gateway, ip(GATEWAY), None);
        lab.add(V2pRole::Host, ip(HOST_A), None);
        lab.add(V2pRole::Host, ip(HOST_B), None);
        lab
    }

    fn add(&mut self, role: V2pRole, address: Address, attached: Option<[u8; 4]>) {
        let node = Node::new(&config(role, address, attached)).unwrap();
        let outbox = Outbox::new(PacketPool::with_capacity(64, 2_048));
        self.nodes.insert(address, (node, outbox));
    }

    /// The next hop of a packet from a node, and its input port there.
    fn next(&self, at: Address, to: Address) -> (Address, PortId) {
        let tor_of = |address: Address| {
            [(HOST_A, 1), (HOST_B, 2), (GATEWAY, 3)]
                .into_iter()
                .find(|(host, _)| ip(*host) == address)
                .map(|(_, tor)| switch_address(tor))
        };
        if let Some(tor) = tor_of(at) {
            return (tor, ATTACHED);
        }
        let core = switch_address(0);
        match tor_of(to) {
            Some(tor) if tor == at => (to, FABRIC),
            Some(tor) if at == core => (tor, FABRIC),
            None if at == core => (to, FABRIC),
            _ => (core, FABRIC),
        }
    }

    /// Sends a frame from a machine, and handles everything it causes.
    fn send(&mut self, host: [u8; 4], port: u32, frame: &[u8]) {
        let mut waiting = VecDeque::new();
        let mut packet = Packet::from_bytes(frame);
        packet.set_received(PortId(MACHINE_PORT.0 + port), Instant::ZERO);
        waiting.push_back((ip(host), packet));
        let mut hops = 0;
        while let Some((at, packet)) = waiting.pop_front() {
            hops += 1;
            assert!(hops < 100, "a packet goes round and round");
            let (node, outbox) = self.nodes.get_mut(&at).unwrap();
            let mut burst = vec![packet];
            node.process(&mut burst, outbox, Instant::ZERO);
            let delivered = outbox.sent.drain(..);
            self.received
                .extend(delivered.map(|(port, packet)| (port, packet.bytes().to_vec())));
            for mut packet in burst {
                let ip = &packet.bytes()[EthernetView::HEADER_LEN..];
                let to = Datagram::parse(ip).unwrap().packet.outer_destination;
                assert_ne!(to, at, "what is for a node does not go on");
                let (next, port) = self.next(at, to);
                packet.set_received(port, Instant::ZERO);
                waiting.push_back((next, packet));
            }
        }
    }

    fn set_map(&mut self, map: &Arc<V2pMap>) {
        for (node, _) in self.nodes.values_mut() {
            node.set_map(map.clone()).unwrap();
        }
    }

    fn count(&self, address: Address, name: &str) -> u64 {
        let (node, _) = &self.nodes[&address];
        let counters = node.counters().into_iter().chain(node.drops());
        let mut named = counters.filter(|(known, _)| *known == name);
        named.next().map_or(0, |(_, count)| count)
    }
}

fn config(role: V2pRole, address: Address, attached: Option<[u8; 4]>) -> V2pConfig {
    V2pConfig {
        role,
        address,
        profile: Profile::Plus,
        cache_entries: 64,
        learning_probability: 1.0,
        attached: attached
            .into_iter()
            .map(|host| (ATTACHED, ip(host)))
            .collect(),
        map: map(1, HOST_A),
        seed: 1,
    }
}

/// A datagram between machines, in a frame to the address that ARP would give.
fn frame(source: [u8; 4], destination: [u8; 4], payload: &[u8]) -> Vec<u8> {
    PacketBuilder::ethernet(MacAddress([2, 7, 7, 7, 7, source[3]]), mac_of(ip(HOST_A)))
        .ipv4(source.into(), destination.into())
        .udp(1_000, 2_000)
        .payload(payload)
        .build()
}

/// Checks that a machine got what the other sent, except for the Ethernet addresses.
fn assert_received(lab: &mut Lab, port: u32, sent: &[u8]) {
    let received = std::mem::take(&mut lab.received);
    let [(at, frame)] = &received[..] else {
        panic!("{} frames were received", received.len());
    };
    assert_eq!(*at, PortId(MACHINE_PORT.0 + port));
    assert_eq!(frame[12..], sent[12..]);
}

#[test]
fn the_first_packet_asks_a_gateway_and_the_next_ones_a_cache() {
    let mut lab = Lab::new();
    let there = frame(MOVING, PEER, b"there");
    let back = frame(PEER, MOVING, b"back");
    lab.send(HOST_A, 0, &there);
    assert_received(&mut lab, 1, &there);
    assert_eq!(lab.count(ip(GATEWAY), "resolved"), 1);
    // The first packet taught the destination's ToR where its source is.
    lab.send(HOST_B, 1, &back);
    assert_received(&mut lab, 0, &back);
    lab.send(HOST_A, 0, &there);
    assert_received(&mut lab, 1, &there);
    assert_eq!(lab.count(ip(GATEWAY), "resolved"), 1);
    let hits: u64 = (0..4)
        .map(|switch| lab.count(switch_address(switch), "hits"))
        .sum();
    assert_eq!(hits, 2);
}

#[test]
fn a_machine_that_has_moved_is_found_and_what_was_cached_is_forgotten() {
    let mut lab = Lab::new();
    let back = frame(PEER, MOVING, b"back");
    lab.send(HOST_A, 0, &frame(MOVING, PEER, b"there"));
    lab.send(HOST_B, 1, &back);
    lab.received.clear();
    let moved = map(2, HOST_B);
    lab.set_map(&moved);
    // From a machine on the same host it no longer needs the fabric.
    lab.send(HOST_B, 1, &back);
    assert_received(&mut lab, 0, &back);
    assert_eq!(lab.count(ip(HOST_B), "local"), 1);
    // The machine moves back: now the cache of tor 2 leads to the wrong host.
    let at_a = map(3, HOST_A);
    lab.set_map(&at_a);
    lab.send(HOST_B, 1, &back);
    assert_received(&mut lab, 0, &back);
}

#[test]
fn a_misdelivered_packet_comes_to_its_machine_in_the_end() {
    let mut lab = Lab::new();
    let back = frame(PEER, MOVING, b"back");
    lab.send(HOST_A, 0, &frame(MOVING, PEER, b"there"));
    lab.received.clear();
    // Only the control plane knows of the move yet: host B has the machine, its peer is now at
    // A.
    let mut moved = V2pMap::clone(&map(2, HOST_B));
    moved.machines[1] = machine(PEER, HOST_A, 1, 2);
    lab.set_map(&Arc::new(moved));
    lab.send(HOST_A, 1, &back);
    assert_received(&mut lab, 0, &back);
    for _ in 0..3 {
        lab.send(HOST_A, 1, &back);
        assert_received(&mut lab, 0, &back);
    }
    let misdelivered =
        lab.count(ip(HOST_A), "misdelivered") + lab.count(ip(HOST_B), "misdelivered");
    assert!(
        misdelivered <= 1,
        "{misdelivered} of four packets went wrong"
    );
}

#[test]
fn machines_send_as_themselves_only() {
    let mut lab = Lab::new();
    lab.send(HOST_A, 0, &frame(PEER, NEIGHBOUR, b"I am another"));
    lab.send(HOST_A, 0, &frame([172, 16, 9, 9], PEER, b"I am nobody"));
    assert!(lab.received.is_empty());
    assert_eq!(lab.count(ip(HOST_A), "v2p_spoofed_source"), 2);
    lab.send(HOST_A, 0, &frame(MOVING, [172, 16, 9, 9], b"to nobody"));
    assert_eq!(lab.count(ip(GATEWAY), "v2p_unknown_destination"), 1);
    lab.send(HOST_A, 0, &frame(MOVING, [224, 0, 0, 1], b"to all"));
    assert_eq!(lab.count(ip(HOST_A), "v2p_not_ip"), 1);
}

#[test]
fn whoever_is_asked_for_is_at_the_hosts_address() {
    let mut lab = Lab::new();
    let asker = MacAddress([2, 7, 7, 7, 7, 1]);
    let question = ArpRepr {
        operation: ArpOperation::REQUEST,
        sender_hardware: asker,
        sender_protocol: MOVING.into(),
        target_hardware: MacAddress([0; 6]),
        target_protocol: PEER.into(),
    };
    let mut asked = vec![0; EthernetView::HEADER_LEN + question.buffer_len()];
    EthernetRepr {
        destination: MacAddress([0xff; 6]),
        source: asker,
        ether_type: EtherType::ARP,
    }
    .emit(&mut asked);
    question.emit(&mut asked[EthernetView::HEADER_LEN..]);
    lab.send(HOST_A, 0, &asked);
    let [(port, answer)] = &lab.received[..] else {
        panic!("{} answers", lab.received.len());
    };
    assert_eq!(*port, MACHINE_PORT);
    let view = EthernetView::new_checked(answer).unwrap();
    assert_eq!(view.destination(), asker);
    let answer = ArpRepr::parse(&ArpView::new_checked(view.payload()).unwrap()).unwrap();
    assert_eq!(answer.operation, ArpOperation::REPLY);
    assert_eq!(IpAddr::from(answer.sender_protocol), IpAddr::from(PEER));
    assert_eq!(answer.sender_hardware, mac_of(ip(HOST_A)));
    // No machine has the address that another announces as its own.
    let announced = ArpRepr {
        target_protocol: MOVING.into(),
        ..question
    };
    announced.emit(&mut asked[EthernetView::HEADER_LEN..]);
    lab.send(HOST_A, 0, &asked);
    assert_eq!(lab.received.len(), 1);
}

#[test]
fn what_is_not_of_the_protocol_is_left_alone_and_what_is_malformed_is_dropped() {
    let role = V2pRole::Switch(Role::Tor);
    let mut node = Node::new(&config(role, switch_address(1), Some(HOST_A))).unwrap();
    let mut outbox = Outbox::new(PacketPool::with_capacity(4, 2_048));
    let arp = [0xff; 60];
    let udp = frame(MOVING, PEER, b"no tunnel");
    for bytes in [&arp[..], &udp[..], &[1, 2, 3]] {
        let mut burst = vec![Packet::from_bytes(bytes)];
        node.process(&mut burst, &mut outbox, Instant::ZERO);
        assert_eq!(burst.len(), 1);
        assert_eq!(burst[0].bytes(), bytes);
    }
    let mut host = Node::new(&config(V2pRole::Host, ip(HOST_A), None)).unwrap();
    let mut packet = Packet::from_bytes(&frame(MOVING, PEER, b"there"));
    packet.set_received(MACHINE_PORT, Instant::ZERO);
    let mut burst = vec![packet];
    host.process(&mut burst, &mut outbox, Instant::ZERO);
    // A byte of the option's format: after Ethernet, IPv4, UDP, Geneve and its own header.
    let at = 14 + 20 + 8 + 8 + 4;
    let mut bytes = burst[0].bytes().to_vec();
    bytes[at] = 99;
    let mut burst = vec![Packet::from_bytes(&bytes)];
    node.process(&mut burst, &mut outbox, Instant::ZERO);
    assert!(burst.is_empty());
    assert_eq!(node.drops(), V2pCounters::from([("v2p_malformed", 1)]));
}

#[test]
fn a_map_that_is_older_or_of_another_fabric_is_refused() {
    let mut node = Node::new(&config(V2pRole::Gateway, ip(GATEWAY), None)).unwrap();
    node.set_map(map(3, HOST_A)).unwrap();
    let error = node.set_map(map(2, HOST_A)).unwrap_err();
    assert_eq!(error, V2pError::OlderMap { known: 3, found: 2 });
    let other = V2pMap {
        gateways: Vec::new(),
        ..V2pMap::clone(&map(4, HOST_A))
    };
    let error = node.set_map(Arc::new(other)).unwrap_err();
    assert!(matches!(
        error,
        V2pError::NotInMap {
            kind: "gateway",
            ..
        }
    ));
    let stranger = config(V2pRole::Host, ip([10, 1, 0, 77]), None);
    assert!(Node::new(&stranger).is_err());
}
