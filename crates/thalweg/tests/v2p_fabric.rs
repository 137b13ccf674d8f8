//! Compares a fabric of running switches that caches virtual addresses with the simulator.
//! Needs root and iproute2.
//!
//! ```text
//!                       core
//!          spine 0                  spine 1 (gateway spine)
//!      tor 0     tor 1          tor 2     tor 3 (gateway tor)
//!     server 0  server 1       server 2  server 3, gateway
//!        |         |              |
//!     machine 0 (moves)        machine 1
//! ```
//!
//! Every node is a separate `thalweg run`, and every link a veth pair; each machine has its
//! own namespace. For the same packets in the same order, the switches' counters must equal
//! the simulator's. The fabric has the simulator's shape, addresses and routes; only virtual
//! addresses differ, and caches are large enough for all mappings.

#[path = "../../io/tests/namespace/mod.rs"]
#[allow(dead_code)]
mod namespace;
mod program;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use namespace::{Namespace, eventually};
use program::{Program, TIMEOUT};
use rustix::process::Signal;
use serde_json::Value;
use thalweg_fabric::{
    Config, FatTree, Migration, NodeId, NodeKind, Placement, Scheme, Simulation, SwitchV2p, Time,
    Topology, TraceLine,
};
use thalweg_v2p::{Profile, Role};

/// Lines of each cache; enough that the few mappings never share one.
const ENTRIES: u32 = 4_096;

/// The machines' virtual addresses, Ethernet addresses and servers, and the server that the
/// first moves to.
const ADDRESSES: [&str; 2] = ["172.16.0.1", "172.16.0.2"];
const MACS: [&str; 2] = ["02:77:00:00:00:01", "02:77:00:00:00:02"];
const SERVERS: [u32; 2] = [0, 2];
const MOVED_TO: u32 = 1;

/// Echo requests in each phase.
const PINGS: u32 = 5;

fn shape() -> FatTree {
    FatTree {
        pods: 2,
        tors_per_pod: 2,
        spines_per_pod: 1,
        core_links_per_spine: 1,
        servers_per_tor: 1,
        gateway_tors: vec![3],
        gateways_per_tor: 1,
    }
}

/// A fabric of `thalweg run` programs.
struct Fabric {
    topology: Topology,
    folder: tempfile::TempDir,
    /// The namespace of all switches.
    inside: Namespace,
    machines: [Namespace; 2],
    programs: BTreeMap<NodeId, Program>,
}

impl Fabric {
    fn start(profile: &str) -> Fabric {
        let mut fabric = Fabric {
            topology: Topology::new(&shape()).unwrap(),
            folder: tempfile::tempdir().unwrap(),
            inside: Namespace::new("fabric"),
            machines: ["one", "two"].map(Namespace::new),
            programs: BTreeMap::new(),
        };
        fabric.lay_cables();
        fabric.write_map(1, SERVERS[0]);
        for node in (0..fabric.topology.node_count() as u32).map(NodeId) {
            let path = fabric.write_config(node, profile);
            let program = fabric.inside.enter(|| Program::start_json(&path));
            fabric.programs.insert(node, program);
        }
        for program in fabric.programs.values() {
            program.wait_for("ready");
        }
        fabric
    }

    fn lay_cables(&self) {
        let nodes = self.topology.node_count() as u32;
        for node in (0..nodes).map(NodeId) {
            for port in self.topology.ports(node) {
                let peer = self.topology.peer(port);
                if node < peer {
                    let (one, other) = (link(node, peer), link(peer, node));
                    let cable = ["link", "add", &one, "type", "veth", "peer", "name", &other];
                    self.inside.ip(&cable);
                    for end in [&one, &other] {
                        self.inside
                            .ip(&["link", "set", end, "mtu", "1500", "arp", "off", "up"]);
                    }
                }
            }
        }
        for (machine, server, name) in [
            (0, SERVERS[0], "e0"),
            (0, MOVED_TO, "e1"),
            (1, SERVERS[1], "e0"),
        ] {
            let at = &self.machines[machine];
            let end = machine_link(self.topology.servers()[server as usize]);
            let veth = ["link", "add", name, "type", "veth", "peer", "name", &end];
            at.ip(&[&veth[..], &["netns", &self.inside.name]].concat());
            self.inside.ip(&["link", "set", &end, "arp", "off", "up"]);
            // The fabric needs room for its headers, and kernels must not send super-frames.
            let small = ["mtu", "1300", "gso_max_segs", "1", "address", MACS[machine]];
            at.ip(&[&["link", "set", name][..], &small].concat());
            at.ip(&["link", "set", name, "up"]);
        }
        self.machines[0].ip(&["addr", "add", &format!("{}/24", ADDRESSES[0]), "dev", "e0"]);
        self.machines[1].ip(&["addr", "add", &format!("{}/24", ADDRESSES[1]), "dev", "e0"]);
        for (machine, name) in [(0, "e0"), (0, "e1"), (1, "e0")] {
            eventually("an interface carries", || {
                let shown = self.machines[machine].ip(&["link", "show", "dev", name]);
                shown.contains("state UP")
            });
        }
    }

    /// Writes the map: the fabric, and the first machine's server.
    fn write_map(&self, version: u64, server: u32) {
        let topology = &self.topology;
        let mut text = format!("version {version}\n");
        let mut gateways = String::new();
        for node in (0..topology.node_count() as u32).map(NodeId) {
            let address = topology.address(node);
            let tor = topology.tor_of(node).map(|tor| topology.address(tor));
            let pod = topology.pod_of(node).unwrap_or_default();
            match (topology.kind(node), tor) {
                (NodeKind::Switch(_), _) => writeln!(text, "switch {address} pod {pod}"),
                (NodeKind::Server, Some(tor)) => writeln!(text, "host {address} tor {tor}"),
                (_, Some(tor)) => writeln!(gateways, "gateway {address} tor {tor}"),
                _ => panic!("an endpoint has a ToR"),
            }
            .unwrap();
        }
        text += &gateways;
        for (machine, (server, since)) in [(server, version), (SERVERS[1], 1)].iter().enumerate() {
            let host = topology.address(topology.servers()[*server as usize]);
            writeln!(
                text,
                "machine 7 {} host {host} mac {} port machine since {since}",
                ADDRESSES[machine], MACS[machine]
            )
            .unwrap();
        }
        std::fs::write(self.folder.path().join("fabric.map"), text).unwrap();
    }

    fn write_config(&self, node: NodeId, profile: &str) -> std::path::PathBuf {
        let topology = &self.topology;
        let role = match topology.kind(node) {
            NodeKind::Switch(Role::Tor) => "tor",
            NodeKind::Switch(Role::GatewayTor) => "gateway-tor",
            NodeKind::Switch(Role::Spine) => "spine",
            NodeKind::Switch(Role::GatewaySpine) => "gateway-spine",
            NodeKind::Switch(Role::Core) => "core",
            NodeKind::Gateway => "gateway",
            NodeKind::Server => "host",
        };
        let address = topology.address(node);
        let mut text = format!(
            "[switch]\nname = \"node{0}\"\nrules = [\"node{0}.rules\"]\n\
             [v2p]\nrole = \"{role}\"\naddress = \"{address}\"\nmap = \"fabric.map\"\n\
             profile = \"{profile}\"\ncache_entries = {ENTRIES}\nlearning_probability = 1.0\n\
             [v2p.attached]\n",
            node.0
        );
        let mut ports = String::new();
        let mut number = 0;
        let mut port = |name: &str, interface: &str| {
            number += 1;
            let kind = "kind = \"af_packet\"";
            writeln!(
                ports,
                "[[port]]\nnumber = {number}\nname = \"{name}\"\n{kind}\ninterface = \"{interface}\""
            )
            .unwrap();
        };
        for there in topology.ports(node).map(|port| topology.peer(port)) {
            let name = format!("to{}", there.0);
            port(&name, &link(node, there));
            if !matches!(topology.kind(there), NodeKind::Switch(_)) {
                writeln!(text, "{name} = \"{}\"", topology.address(there)).unwrap();
            }
        }
        let has_machine = [SERVERS[0], MOVED_TO, SERVERS[1]]
            .iter()
            .any(|server| topology.servers()[*server as usize] == node);
        if has_machine {
            port("machine", &machine_link(node));
        }
        let file = |name: String| self.folder.path().join(name);
        std::fs::write(file(format!("node{}.rules", node.0)), self.rules(node)).unwrap();
        let path = file(format!("node{}.toml", node.0));
        std::fs::write(&path, text + &ports).unwrap();
        path
    }

    /// Routes by outer destination; there is one shortest path to each.
    fn rules(&self, node: NodeId) -> String {
        let topology = &self.topology;
        let mut rules = String::new();
        for to in (0..topology.node_count() as u32).map(NodeId) {
            let next = match topology.tor_of(node) {
                _ if to == node => continue,
                Some(tor) => tor,
                None => match topology.next_ports(node, to) {
                    [port] => topology.peer(*port),
                    ports => panic!("{} ways from {node:?} to {to:?}", ports.len()),
                },
            };
            let address = topology.address(to);
            writeln!(
                rules,
                "ip,nw_dst={address} actions=dec_ttl,output:to{}",
                next.0
            )
            .unwrap();
        }
        rules
    }

    /// Moves the first machine to another server, with its address; all switches get the new
    /// map.
    fn migrate(&self) {
        self.write_map(2, MOVED_TO);
        for program in self.programs.values() {
            program.signal(Signal::HUP);
        }
        for program in self.programs.values() {
            program.wait_for_part(": the map of the fabric is at version 2");
            program.wait_for("reloaded");
        }
        let address = format!("{}/24", ADDRESSES[0]);
        self.machines[0].ip(&["addr", "del", &address, "dev", "e0"]);
        self.machines[0].ip(&["addr", "add", &address, "dev", "e1"]);
    }

    /// Sends echo requests from one machine to the other, one after the other; none may be
    /// lost.
    fn ping(&self, from: usize) {
        for _ in 0..PINGS {
            let output = self.machines[from].enter(|| {
                let mut ping = Command::new("ping");
                ping.args(["-n", "-c", "1", "-W", "10", ADDRESSES[1 - from]]);
                ping.output().expect("ping is installed")
            });
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains(" 0% packet loss"), "{text}");
        }
    }

    /// Ends all programs; returns the report of each node.
    fn end(&mut self) -> BTreeMap<NodeId, Value> {
        let programs = std::mem::take(&mut self.programs);
        let ended = programs.into_iter().map(|(node, program)| {
            let ended = program.end(Signal::INT);
            assert_eq!(ended.status, Some(0));
            (node, serde_json::from_str(&ended.output).unwrap())
        });
        ended.collect()
    }
}

/// The interface of a node on its link to another; names have at most 15 characters.
fn link(node: NodeId, peer: NodeId) -> String {
    format!("n{}-{}", node.0, peer.0)
}

fn machine_link(server: NodeId) -> String {
    format!("n{}-machine", server.0)
}

/// Sends the same packets in the simulator.
fn simulate(profile: Profile) -> Simulation {
    let mut trace = Vec::new();
    let mut at = 1;
    let mut send = |source: usize, at: &mut u64| {
        trace.push(TraceLine {
            source: SERVERS[source],
            destination: SERVERS[1 - source],
            start: Time::from_micros(*at * 1_000),
            flow: source as u64 as u32,
            bytes: 64,
        });
        *at += 1;
    };
    for _ in 0..PINGS {
        send(0, &mut at);
        send(1, &mut at);
    }
    let migrated_at = at;
    at += 1;
    for _ in 0..PINGS {
        send(1, &mut at);
        send(0, &mut at);
    }
    let scheme = Scheme::SwitchV2p(SwitchV2p {
        learning_probability: 1.0,
        ..SwitchV2p::new(profile, ENTRIES)
    });
    let config = Config {
        migrations: vec![Migration {
            machine: SERVERS[0],
            at: Time::from_micros(migrated_at * 1_000),
            to_server: MOVED_TO,
        }],
        ..Config::artifact(shape(), Placement::even(4, 4), scheme)
    };
    let mut run = Simulation::new(&config, &trace).unwrap();
    run.run();
    run
}

/// The simulator's counters of each switch, without zeros.
fn counted(run: &Simulation) -> Vec<BTreeMap<String, u64>> {
    let switches = run.switch_counters();
    let named = switches.map(|counters| {
        let all = counters.each().into_iter();
        all.filter(|(_, count)| *count > 0)
            .map(|(name, count)| (name.to_owned(), count))
            .collect()
    });
    named.collect()
}

fn a_migration_between_echoes(name: &str, profile: Profile) {
    let mut fabric = Fabric::start(name);
    fabric.ping(0);
    fabric.migrate();
    fabric.ping(1);
    let reports = fabric.end();
    let run = simulate(profile);
    let expected = counted(&run);
    for (number, expected) in expected.iter().enumerate() {
        let report = &reports[&NodeId(number as u32)];
        let mut found: BTreeMap<String, u64> =
            serde_json::from_value(report["v2p"].clone()).unwrap();
        found.remove("entries");
        assert_eq!(&found, expected, "switch {number}, {name}");
    }
    let figures = run.report();
    let gateway = &reports[&fabric.topology.gateways()[0]];
    assert_eq!(gateway["v2p"]["resolved"], figures.gateway_packets);
    let old_server = &reports[&fabric.topology.servers()[SERVERS[0] as usize]];
    assert_eq!(old_server["v2p"]["misdelivered"], figures.misdelivered);
    assert!(figures.misdelivered > 0, "the caches were wrong at first");
    assert!(figures.hits_by_layer.tor > 0);
}

#[test]
fn switches_count_what_the_simulator_counts_plus() {
    a_migration_between_echoes("plus", Profile::Plus);
}

#[test]
fn switches_count_what_the_simulator_counts_paper() {
    a_migration_between_echoes("paper", Profile::Paper);
}

/// Sends data from the second machine to the first. The content must arrive although the
/// machine moves in the middle.
#[test]
fn a_connection_survives_a_migration() {
    let mut fabric = Fabric::start("plus");
    let data: Vec<u8> = (0..4_u32 << 20)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let target: SocketAddr = format!("{}:5001", ADDRESSES[0]).parse().unwrap();
    let listener = fabric.machines[0].enter(|| TcpListener::bind(target).unwrap());
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            fabric.machines[1].enter(|| {
                let mut stream = TcpStream::connect_timeout(&target, TIMEOUT).unwrap();
                stream.set_write_timeout(Some(TIMEOUT)).unwrap();
                stream.write_all(&data).unwrap();
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                assert_eq!(stream.read(&mut [0]).unwrap(), 0);
            });
        });
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut received = vec![0; data.len() / 2];
        stream.read_exact(&mut received).unwrap();
        fabric.migrate();
        stream.read_to_end(&mut received).unwrap();
        drop(stream);
        sender.join().unwrap();
        assert!(received == data, "{} of {}", received.len(), data.len());
    });
    let reports = fabric.end();
    let resolved = reports[&fabric.topology.gateways()[0]]["v2p"]["resolved"].as_u64();
    let carried: u64 = reports
        .values()
        .filter_map(|report| report["v2p"]["delivered"].as_u64())
        .sum();
    let resolved = resolved.unwrap_or_default();
    assert!(
        resolved * 10 < carried,
        "{resolved} of {carried} packets went by the gateway"
    );
}

/// A switch that is missing in its map does not start, and the error says where to look.
#[test]
fn a_map_without_the_switch_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("fabric.map"), "switch 10.0.0.1 pod 0\n").unwrap();
    let config = "[v2p]\nrole = \"tor\"\naddress = \"10.0.0.2\"\nmap = \"fabric.map\"\n\
                  [[port]]\nnumber = 1\nkind = \"memory\"\n";
    std::fs::write(file("br0.toml"), config).unwrap();
    let run = |path: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        let output = command.arg("run").arg(path).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = run(&file("br0.toml"));
    assert!(text.contains("the map has no switch 10.0.0.2"), "{text}");
    std::fs::write(file("fabric.map"), "switch 10.0.0.2 pod x\n").unwrap();
    let text = run(&file("br0.toml"));
    assert!(
        text.contains("fabric.map:1:21: \"x\" is not the number of a pod"),
        "{text}"
    );
}
