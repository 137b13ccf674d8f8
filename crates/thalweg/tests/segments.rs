//! Tests that segments stay whole through `thalweg run`, between hosts that leave checksums and
//! segmentation to their cards. Needs root and iproute2.
//!
//! ```text
//!   left  10.0.0.1, fd00::1 --veth p1-- switch --veth p2-- right 10.0.0.2, fd00::2
//!                                      p3--veth--p4
//! ```
//!
//! 1. All data arrives, in both directions, and no host meets a wrong checksum.
//! 2. The switch counts the segments that the hosts have sent, though it looks up fewer frames.

#[path = "../../io/tests/namespace/mod.rs"]
#[allow(dead_code)]
mod namespace;
mod program;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use namespace::{Namespace, eventually};
use program::{Program, TIMEOUT};
use rustix::process::Signal;
use serde_json::Value;

const CONFIG: &str = r#"
[switch]
name = "br0"
rules = ["br0.rules"]
[[port]]
number = 1
name = "p1"
[[port]]
number = 2
name = "p2"
[[port]]
number = 3
name = "p3"
[[port]]
number = 4
name = "p4"
"#;

const LEFT_MAC: &str = "02:00:00:00:00:01";
const RIGHT_MAC: &str = "02:00:00:00:00:02";

/// The switch between the hosts.
struct Way {
    rules: &'static str,
    /// The addresses that the right host sees, of IPv4 and of IPv6.
    seen: [&'static str; 2],
}

const OWN: [&str; 2] = ["10.0.0.1", "fd00::1"];

const NORMAL: Way = Way {
    rules: "
table=0,priority=9,tcp,in_port=p1 actions=NORMAL
table=0,priority=9,tcp,in_port=p2 actions=NORMAL
table=0,priority=9,tcp6,in_port=p1 actions=NORMAL
table=0,priority=9,tcp6,in_port=p2 actions=NORMAL
table=0,priority=0 actions=NORMAL
",
    seen: OWN,
};

/// Frames leave the switch with a tag, and come back by a cable of its own.
const VLAN: Way = Way {
    rules: "
table=0,tcp,in_port=p1 actions=push_vlan:0x8100,set_field:0x100a->vlan_vid,output:p3
table=0,tcp6,in_port=p1 actions=push_vlan:0x8100,set_field:0x100a->vlan_vid,output:p3
table=0,tcp,in_port=p2 actions=push_vlan:0x8100,set_field:0x100a->vlan_vid,output:p4
table=0,tcp6,in_port=p2 actions=push_vlan:0x8100,set_field:0x100a->vlan_vid,output:p4
table=0,in_port=p3,dl_vlan=10 actions=strip_vlan,dec_ttl,output:p1
table=0,in_port=p4,dl_vlan=10 actions=strip_vlan,dec_ttl,output:p2
",
    seen: OWN,
};

const NAT: Way = Way {
    rules: "
table=0,tcp,in_port=p1 actions=ct(commit,nat(src=10.0.0.9:20000-30000),table=1)
table=0,tcp6,in_port=p1 actions=ct(commit,nat(src=[fd00::9]:20000-30000),table=1)
table=0,tcp,in_port=p2 actions=ct(nat,table=1)
table=0,tcp6,in_port=p2 actions=ct(nat,table=1)
table=1,ct_state=+trk-inv,in_port=p1 actions=output:p2
table=1,ct_state=+trk-inv,in_port=p2 actions=output:p1
",
    seen: ["10.0.0.9", "fd00::9"],
};

/// Labels hide IP from the kernel, which then cannot cut a frame; a controller sees single frames.
const LABELS: Way = Way {
    rules: "
table=0,tcp,in_port=p1 actions=push_mpls:0x8847,resubmit(,2)
table=0,tcp6,in_port=p1 actions=push_mpls:0x8847,resubmit(,3)
table=0,tcp,in_port=p2 actions=check_pkt_larger(1514)->NXM_NX_REG0[0],resubmit(,4)
table=0,tcp6,in_port=p2 actions=check_pkt_larger(1514)->NXM_NX_REG0[0],resubmit(,4)
table=2 actions=pop_mpls:0x0800,output:p2
table=3 actions=pop_mpls:0x86dd,output:p2
table=4,reg0=0 actions=output:p1
",
    seen: OWN,
};

struct Hosts {
    left: Namespace,
    right: Namespace,
    switch: Namespace,
}

impl Hosts {
    fn new(way: &Way) -> Hosts {
        let hosts = Hosts {
            left: Namespace::new("left"),
            right: Namespace::new("right"),
            switch: Namespace::new("switch"),
        };
        let switch = &hosts.switch;
        switch.ip(&["link", "add", "p3", "type", "veth", "peer", "name", "p4"]);
        let right = ["10.0.0.2", "fd00::2"];
        let ends = [
            (&hosts.left, "p1", LEFT_MAC, OWN, right, RIGHT_MAC),
            (&hosts.right, "p2", RIGHT_MAC, right, way.seen, LEFT_MAC),
        ];
        for (host, port, mac, own, others, other_mac) in ends {
            let cable = [
                "link", "add", "e", "address", mac, "type", "veth", "peer", "name", port,
            ];
            host.ip(&[&cable[..], &["netns", &switch.name]].concat());
            host.set_ipv6(true);
            host.ip(&["link", "set", "e", "up"]);
            host.ip(&["addr", "add", &format!("{}/24", own[0]), "dev", "e"]);
            host.ip(&[
                "addr",
                "add",
                &format!("{}/64", own[1]),
                "dev",
                "e",
                "nodad",
            ]);
            for address in others {
                host.ip(&["neigh", "add", address, "lladdr", other_mac, "dev", "e"]);
            }
        }
        for port in ["p1", "p2", "p3", "p4"] {
            switch.ip(&["link", "set", port, "up"]);
        }
        hosts
    }
}

/// What a host counts of TCP.
fn tcp_counts(host: &Namespace) -> BTreeMap<String, u64> {
    let text = host.enter(|| std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap());
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let pairs = names.split(' ').zip(values.split(' '));
    pairs
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap_or(0)))
        .collect()
}

/// Whether a host has connections that are not over.
fn has_connections(host: &Namespace) -> bool {
    host.enter(|| {
        ["tcp", "tcp6"].iter().any(|name| {
            let text = std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap();
            let mut states = text
                .lines()
                .skip(1)
                .filter_map(|line| line.split_whitespace().nth(3));
            states.any(|state| state != "0A" && state != "06") // Listening, or waiting.
        })
    })
}

/// Sends `data` from the left to the right host and back; returns where the right host sees the
/// connection come from.
fn exchange(hosts: &Hosts, address: &str, data: &[u8]) -> SocketAddr {
    let target: SocketAddr = address.parse().unwrap();
    let listener = hosts.right.enter(|| TcpListener::bind(target).unwrap());
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            hosts.left.enter(|| {
                let mut stream = TcpStream::connect_timeout(&target, TIMEOUT).unwrap();
                stream.set_write_timeout(Some(TIMEOUT)).unwrap();
                stream.set_read_timeout(Some(TIMEOUT)).unwrap();
                stream.write_all(data).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
                let mut back = Vec::new();
                stream.read_to_end(&mut back).unwrap();
                assert!(back == data, "{} of {} bytes back", back.len(), data.len());
            });
        });
        let (mut stream, peer) = listener.accept().unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        assert!(
            received == data,
            "{} of {} bytes",
            received.len(),
            data.len()
        );
        stream.write_all(data).unwrap();
        drop(stream);
        sender.join().unwrap();
        peer
    })
}

/// The sum of a number over the rules of table 0 for packets of TCP from a port.
fn of_rules(report: &Value, port: u64, number: &str) -> u64 {
    let rules = report["rules"].as_array().unwrap().iter();
    let is_meant = |text: &str| {
        let port = format!("in_port={port}");
        text.contains("table=0") && text.contains(&port) && text.contains("tcp")
    };
    let meant = rules.filter(|rule| is_meant(rule["rule"].as_str().unwrap()));
    meant.map(|rule| rule[number].as_u64().unwrap()).sum()
}

fn cross(way: &Way) {
    let hosts = Hosts::new(way);
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("br0.toml");
    // A flood would go round by the switch's own cable.
    let ports = match way.rules.contains("p3") {
        true => CONFIG,
        false => CONFIG.split("[[port]]\nnumber = 3").next().unwrap(),
    };
    std::fs::write(&config, ports).unwrap();
    std::fs::write(folder.path().join("br0.rules"), way.rules).unwrap();
    let program = hosts.switch.enter(|| Program::start_json(&config));
    program.wait_for("ready");
    let data: Vec<u8> = (0..4_000_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let targets = ["10.0.0.2:5001", "[fd00::2]:5002"];
    for (address, seen) in targets.into_iter().zip(way.seen) {
        let peer = exchange(&hosts, address, &data);
        assert_eq!(peer.ip().to_string(), seen);
    }
    for host in [&hosts.left, &hosts.right] {
        eventually("connections are over", || !has_connections(host));
    }
    let sides = [(&hosts.left, 1), (&hosts.right, 2)];
    let counts = sides.map(|(host, port)| (tcp_counts(host), port));
    let report: Value = serde_json::from_str(&program.end(Signal::INT).output).unwrap();
    let mut segments = 0;
    for (counts, port) in counts {
        assert_eq!(counts["InCsumErrors"], 0, "{counts:?}");
        segments += counts["OutSegs"];
        // A host counts a segment more or less where it splits what it sends again.
        let counted = of_rules(&report, port, "packets");
        let differs = counted.abs_diff(counts["OutSegs"]);
        assert!(
            differs <= 2 + counts["RetransSegs"],
            "{counts:?} {report:#}"
        );
        // The payload of both connections, with at least 54 bytes of headers each.
        let least = 2 * data.len() as u64 + 54 * counted;
        let bytes = of_rules(&report, port, "bytes");
        assert!(
            (least..least + least / 10).contains(&bytes),
            "{bytes}, not {least}"
        );
        let ports = report["ports"].as_array().unwrap();
        assert!(ports[port as usize - 1]["received_bytes"].as_u64().unwrap() >= bytes);
        // The first packet may meet a cable that does not carry yet.
        let sent = ports[2 - port as usize]["sent_packets"].as_u64().unwrap();
        assert!(sent + 4 >= counted, "{report:#}");
    }
    let looked_up = report["packets"].as_u64().unwrap();
    assert!(
        looked_up < segments,
        "{looked_up} lookups, {segments} segments"
    );
}

#[test]
fn by_stations() {
    cross(&NORMAL);
}

#[test]
fn with_a_tag_at_one_side() {
    cross(&VLAN);
}

#[test]
fn through_translated_addresses() {
    cross(&NAT);
}

#[test]
fn with_labels_and_checked_lengths() {
    cross(&LABELS);
}
