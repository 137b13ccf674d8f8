//! Fabrics have the right nodes, links, roles and paths.

use std::collections::HashSet;

use thalweg_fabric::{FatTree, NodeId, NodeKind, Topology, TopologyError};
use thalweg_v2p::{Address, Role};

fn roles(topology: &Topology) -> [usize; 5] {
    let kinds = [
        Role::Core,
        Role::Spine,
        Role::GatewaySpine,
        Role::Tor,
        Role::GatewayTor,
    ];
    kinds.map(|role| {
        let nodes = (0..topology.switch_count() as u32).map(NodeId);
        nodes
            .filter(|&node| topology.kind(node) == NodeKind::Switch(role))
            .count()
    })
}

/// The slow twin of the routes: the lengths of shortest paths from a node, over switches only.
fn distances(topology: &Topology, from: NodeId) -> Vec<Option<u32>> {
    let mut distances = vec![None; topology.node_count()];
    distances[from.0 as usize] = Some(0);
    let mut border = vec![from];
    let mut steps = 0;
    while !border.is_empty() {
        steps += 1;
        let mut next = Vec::new();
        for node in border {
            let is_end = node != from && !matches!(topology.kind(node), NodeKind::Switch(_));
            for port in topology.ports(node).filter(|_| !is_end) {
                let peer = topology.peer(port);
                if distances[peer.0 as usize].is_none() {
                    distances[peer.0 as usize] = Some(steps);
                    next.push(peer);
                }
            }
        }
        border = next;
    }
    distances
}

/// Checks that each switch's next ports to each node are exactly those one step nearer.
fn check_routes(topology: &Topology, destinations: impl Iterator<Item = NodeId>) {
    for destination in destinations {
        let to = distances(topology, destination);
        let switches = (0..topology.switch_count() as u32).map(NodeId);
        for switch in switches.filter(|&switch| switch != destination) {
            let own = to[switch.0 as usize].expect("every pair is connected");
            let nearer = |port: &_| to[topology.peer(*port).0 as usize] == Some(own - 1);
            let expected: Vec<_> = topology.ports(switch).filter(nearer).collect();
            assert_eq!(topology.next_ports(switch, destination), expected);
        }
        if matches!(topology.kind(destination), NodeKind::Switch(_)) {
            assert!(topology.next_ports(destination, destination).is_empty());
        }
    }
}

fn all(topology: &Topology) -> impl Iterator<Item = NodeId> + use<> {
    (0..topology.node_count() as u32).map(NodeId)
}

fn check_links_and_addresses(topology: &Topology) {
    let mut addresses = HashSet::new();
    for node in all(topology) {
        let address = topology.address(node);
        assert!(addresses.insert(address), "{address} twice");
        assert_eq!(topology.node_of(address), Some(node), "{address}");
        for port in topology.ports(node) {
            let peer = topology.peer(port);
            assert_eq!(topology.owner(port), node);
            let back = topology
                .ports(peer)
                .filter(|&port| topology.peer(port) == node);
            assert_eq!(back.count(), 1, "{node:?} {peer:?}");
        }
    }
    for node in topology.endpoints() {
        let tors: Vec<_> = topology
            .ports(node)
            .map(|port| topology.peer(port))
            .collect();
        assert_eq!(topology.tor_of(node).as_slice(), tors);
        assert_eq!(topology.pod_of(node), topology.pod_of(tors[0]));
    }
}

#[test]
fn ft8_10k_is_as_published() {
    let topology = Topology::new(&FatTree::ft8_10k(10)).unwrap();
    assert_eq!(roles(&topology), [16, 16, 16, 28, 4]);
    assert_eq!(
        (topology.servers().len(), topology.gateways().len()),
        (128, 40)
    );
    // 4 x 4 links in each pod, 4 up from each spine, one for each endpoint; two ports each.
    assert_eq!(topology.port_count(), 2 * (8 * 16 + 32 * 4 + 168));
    check_links_and_addresses(&topology);
    check_routes(&topology, all(&topology));
    let text = |node| topology.address(node).to_string();
    let server = |index: usize| text(topology.servers()[index]);
    assert_eq!(
        (server(0), server(68), server(127)),
        ("1.0.0.1".into(), "5.1.0.1".into(), "8.3.3.1".into())
    );
    assert_eq!(text(topology.gateways()[10]), "3.2.4.1");
    assert_eq!(
        (text(NodeId(5)), text(NodeId(16)), text(NodeId(48))),
        ("255.5.0.1".into(), "17.0.0.1".into(), "9.0.0.2".into())
    );
}

#[test]
fn path_lengths_are_those_of_a_fat_tree() {
    let topology = Topology::new(&FatTree::ft8_10k(1)).unwrap();
    let from = topology.servers()[0];
    let lengths = distances(&topology, from);
    let count = |steps| {
        let mut servers = topology.servers().iter();
        servers
            .by_ref()
            .filter(|node| lengths[node.0 as usize] == Some(steps))
            .count()
    };
    // Links: 2 in the rack, 4 in the pod, 6 beyond.
    assert_eq!((count(0), count(2), count(4), count(6)), (1, 3, 12, 112));
}

#[test]
fn ft16_400k_is_as_published() {
    let topology = Topology::new(&FatTree::ft16_400k()).unwrap();
    assert_eq!(roles(&topology), [16, 200, 200, 375, 25]);
    assert_eq!(
        (topology.servers().len(), topology.gateways().len()),
        (12_800, 250)
    );
    assert!(
        topology
            .gateways()
            .iter()
            .all(|&node| topology.pod_of(node).unwrap().is_multiple_of(2))
    );
    check_links_and_addresses(&topology);
    check_routes(&topology, all(&topology).step_by(997));
}

/// The published code's tables: towards a spine of another pod every uplink is a route, and
/// the packet arrives by each of them. All other routes are shortest paths.
#[test]
fn published_routes_detour_to_spines_of_other_pods_only() {
    for shape in [FatTree::ft8_10k(1), FatTree::leaf_spine(3, 2, 2, 1)] {
        let shortest = Topology::new(&shape).unwrap();
        let published = Topology::new(&shape).unwrap().with_published_routes();
        let switches = || (0..shortest.switch_count() as u32).map(NodeId);
        let is_spine = |node| {
            let kind = shortest.kind(node);
            matches!(
                kind,
                NodeKind::Switch(Role::Spine) | NodeKind::Switch(Role::GatewaySpine)
            )
        };
        for (from, to) in switches().flat_map(|from| switches().map(move |to| (from, to))) {
            let ports = published.next_ports(from, to);
            let pods = (shortest.pod_of(from), shortest.pod_of(to));
            if !is_spine(to) || pods.0.is_none() || pods.0 == pods.1 {
                assert_eq!(ports, shortest.next_ports(from, to));
                continue;
            }
            let up = shortest.ports(from).take(4);
            assert_eq!(ports, up.collect::<Vec<_>>());
            // Up, up, down to a spine of the pod, and if that is the wrong one, by a ToR.
            let mut reached = HashSet::from([from]);
            for _ in 0..5 {
                let next = |node| {
                    let ports = published.next_ports(node, to).to_vec();
                    let peers = ports.into_iter().map(|port| shortest.peer(port));
                    peers.chain((node == to).then_some(to)).collect::<Vec<_>>()
                };
                reached = reached.into_iter().flat_map(next).collect();
            }
            assert_eq!(reached, HashSet::from([to]));
        }
    }
}

#[test]
fn odd_sizes_and_leaf_spine_are_connected() {
    let odd = FatTree {
        pods: 3,
        tors_per_pod: 2,
        spines_per_pod: 5,
        core_links_per_spine: 1,
        servers_per_tor: 3,
        gateway_tors: vec![1, 5],
        gateways_per_tor: 2,
    };
    let leaf_spine = FatTree::leaf_spine(6, 3, 4, 2);
    for (shape, expected) in [(odd, [5, 5, 10, 4, 2]), (leaf_spine, [0, 0, 3, 5, 1])] {
        let topology = Topology::new(&shape).unwrap();
        assert_eq!(roles(&topology), expected);
        check_links_and_addresses(&topology);
        check_routes(&topology, all(&topology));
    }
}

#[test]
fn addresses_of_nobody_have_no_node() {
    let topology = Topology::new(&FatTree::ft8_10k(1)).unwrap();
    for text in [
        "0.0.0.1",
        "1.0.5.1",
        "1.1.4.1",
        "1.4.0.1",
        "9.0.4.2",
        "9.1.0.2",
        "9.0.0.1",
        "17.4.0.1",
        "17.0.1.1",
        "25.0.0.1",
        "255.16.0.1",
        "255.0.1.1",
        "255.0.0.2",
        "1.0.0.2",
        "fd00::1",
    ] {
        let address = Address::new(text.parse().unwrap()).unwrap();
        assert_eq!(topology.node_of(address), None, "{text}");
    }
}

#[test]
fn impossible_fabrics_are_refused_with_what_to_give() {
    let good = FatTree::ft8_10k(1);
    let refused = |shape: &FatTree| Topology::new(shape).unwrap_err().to_string();
    let many = FatTree {
        pods: 85,
        ..good.clone()
    };
    assert_eq!(refused(&many), "85 pods: give from 1 to 84");
    let apart = FatTree {
        core_links_per_spine: 0,
        ..good.clone()
    };
    assert_eq!(refused(&apart), "0 cores: give from 1 to 256");
    let crowded = FatTree {
        servers_per_tor: 256,
        ..good.clone()
    };
    assert_eq!(
        refused(&crowded),
        "257 servers and gateways a ToR: give from 1 to 256"
    );
    let nowhere = FatTree {
        gateway_tors: vec![32],
        ..good.clone()
    };
    assert_eq!(refused(&nowhere), "gateways on ToR 32: give ToRs below 32");
    let twice = FatTree {
        gateway_tors: vec![3, 3],
        ..good
    };
    assert_eq!(
        Topology::new(&twice).unwrap_err(),
        TopologyError::GatewayOrder
    );
}
