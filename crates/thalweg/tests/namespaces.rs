//! Tests `thalweg run` between three hosts in network namespaces. Needs root and iproute2.
//!
//! ```text
//!   left  10.0.10.1 --veth-- port 1 (af_packet)  VLAN 10
//!   right 10.0.10.2 --veth-- port 2 (af_packet)  VLAN 10
//!         10.0.20.2 --veth-- port 4 (af_packet)  VLAN 20
//!   host  10.0.20.3 --tap--- port 3 (tap)        VLAN 20, later 10 (10.0.10.3)
//!                            port 5 (pcap)       a copy of VLAN 20, with its tags
//! ```
//!
//! The switch runs on the tap's host. Kernels count super-frames inconsistently, so the hosts'
//! interfaces are told to make none. Then an interface's counts equal those of its port.

#[path = "../../io/tests/namespace/mod.rs"]
#[allow(dead_code)]
mod namespace;
mod program;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use namespace::{Namespace, eventually};
use program::{Ended, Program, TIMEOUT};
use rustix::process::Signal;
use serde_json::Value;

const CONFIG: &str = r#"
[switch]
name = "br0"
workers = 2
rules = ["vlan.rules"]
[[port]]
number = 1
name = "p1"
kind = "af_packet"
[[port]]
number = 2
name = "p2"
[[port]]
number = 3
name = "tap3"
kind = "tap"
[[port]]
number = 4
name = "p4"
[[port]]
number = 5
name = "copy"
kind = "pcap"
write = "copy.pcap"
"#;

/// Ports and their VLANs; packets between VLANs reach no host.
const RULES: &str = "
table=0,in_port=p1 actions=mod_vlan_vid:10,goto_table:1
table=0,in_port=p2 actions=mod_vlan_vid:10,goto_table:1
table=0,in_port=tap3 actions=mod_vlan_vid:20,goto_table:1
table=0,in_port=p4 actions=mod_vlan_vid:20,goto_table:1
table=1,dl_vlan=10 actions=strip_vlan,output:p1,output:p2
table=1,dl_vlan=20 actions=output:copy,strip_vlan,output:tap3,output:p4
";

/// The same, with the tap moved to VLAN 10.
const MOVED: &str = "
table=0,in_port=p1 actions=mod_vlan_vid:10,goto_table:1
table=0,in_port=p2 actions=mod_vlan_vid:10,goto_table:1
table=0,in_port=tap3 actions=mod_vlan_vid:10,goto_table:1
table=0,in_port=p4 actions=mod_vlan_vid:20,goto_table:1
table=1,dl_vlan=10 actions=strip_vlan,output:p1,output:p2,output:tap3
table=1,dl_vlan=20 actions=output:copy,strip_vlan,output:p4
";

/// The hosts and their cables; the switch's ends are `p1`, `p2`, `p4` and `tap3`.
struct Hosts {
    left: Namespace,
    right: Namespace,
    host: Namespace,
}

/// For each port, the interface at its other end.
const CABLES: [(&str, &str); 3] = [("p1", "e1"), ("p2", "e2"), ("p4", "e4")];

impl Hosts {
    fn new() -> Hosts {
        let hosts = Hosts {
            left: Namespace::new("left"),
            right: Namespace::new("right"),
            host: Namespace::new("host"),
        };
        for (port, end) in CABLES {
            let at = hosts.at(end);
            let veth = ["link", "add", end, "type", "veth", "peer", "name", port];
            at.ip(&[&veth[..], &["netns", &hosts.host.name]].concat());
            // Otherwise the host would also answer here for its address on the tap.
            hosts.host.ip(&["link", "set", port, "up", "arp", "off"]);
        }
        hosts.host.ip(&["tuntap", "add", "tap3", "mode", "tap"]);
        let addresses = [("e1", "10.0.10.1/24"), ("e2", "10.0.10.2/24")];
        let more = [("e4", "10.0.20.2/24"), ("tap3", "10.0.20.3/24")];
        for (end, address) in addresses.into_iter().chain(more) {
            let at = hosts.at(end);
            at.ip(&["link", "set", end, "gso_max_segs", "1"]);
            at.ip(&["addr", "add", address, "dev", end]);
            at.ip(&["link", "set", end, "up"]);
        }
        hosts
            .host
            .ip(&["addr", "add", "10.0.10.3/24", "dev", "tap3"]);
        hosts
    }

    fn at(&self, end: &str) -> &Namespace {
        match end {
            "e1" => &self.left,
            "tap3" => &self.host,
            _ => &self.right,
        }
    }

    /// Tells the host at one interface that an address is at another.
    fn add_neighbor(&self, at: &str, address: &str, other: &str) {
        let text = self.at(other).ip(&["-j", "link", "show", other]);
        let links: Value = serde_json::from_str(&text).unwrap();
        let mac = links[0]["address"].as_str().unwrap();
        let words = ["neigh", "add", address, "lladdr", mac, "dev", at];
        self.at(at).ip(&words);
    }

    /// The counts of an interface (sent, received).
    fn counts(&self, end: &str) -> (u64, u64) {
        let text = self.at(end).ip(&["-s", "-j", "link", "show", end]);
        let links: Value = serde_json::from_str(&text).unwrap();
        let count = |way: &str| links[0]["stats64"][way]["packets"].as_u64().unwrap();
        (count("tx"), count("rx"))
    }
}

fn ping(from: &Namespace, address: &str) -> bool {
    from.enter(|| {
        let mut ping = Command::new("ping");
        ping.args(["-n", "-q", "-c", "1", "-W", "1", address]);
        ping.output().expect("ping is installed").status.success()
    })
}

/// Sends `bytes` bytes from the left to the right host, with a call in the middle; the content
/// must arrive.
fn transfer(hosts: &Hosts, bytes: usize, in_the_middle: impl FnOnce()) {
    transfer_to(hosts, "10.0.10.2:5001", bytes, in_the_middle);
}

/// Listens at an address. A child that another test forks holds the last listener there until it
/// runs its program.
fn listen(address: SocketAddr) -> TcpListener {
    let end = Instant::now() + TIMEOUT;
    loop {
        match TcpListener::bind(address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            bound => return bound.unwrap(),
        }
    }
}

/// The same to another address, which must lead to the right host; returns where the right host
/// sees the connection come from.
fn transfer_to(
    hosts: &Hosts,
    address: &str,
    bytes: usize,
    in_the_middle: impl FnOnce(),
) -> SocketAddr {
    let data: Vec<u8> = (0..bytes as u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let target: SocketAddr = "10.0.10.2:5001".parse().unwrap();
    let listener = hosts.right.enter(|| listen(target));
    let target: SocketAddr = address.parse().unwrap();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            hosts.left.enter(|| {
                let mut stream = TcpStream::connect_timeout(&target, TIMEOUT).unwrap();
                stream.set_write_timeout(Some(TIMEOUT)).unwrap();
                stream.write_all(&data).unwrap();
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                // The other side closes first, so no reply is under way afterwards.
                assert_eq!(stream.read(&mut [0]).unwrap(), 0);
            });
        });
        let (mut stream, peer) = listener.accept().unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut received = vec![0; bytes / 2];
        stream.read_exact(&mut received).unwrap();
        in_the_middle();
        stream.read_to_end(&mut received).unwrap();
        drop(stream);
        sender.join().unwrap();
        assert!(received == data, "{} of {bytes} bytes", received.len());
        peer
    })
}

/// The interfaces' counts, after all packets have arrived.
fn quiet_counts(hosts: &Hosts) -> BTreeMap<&'static str, (u64, u64)> {
    for end in ["e1", "e2", "e4", "tap3"] {
        hosts.at(end).ip(&["link", "set", end, "down"]);
    }
    let ports = CABLES.into_iter().chain([("tap3", "tap3")]);
    ports.map(|(port, end)| (port, hosts.counts(end))).collect()
}

fn check_report(report: &Value, interfaces: &BTreeMap<&str, (u64, u64)>) {
    let number = |value: &Value| value.as_u64().unwrap();
    let ports = report["ports"].as_array().unwrap();
    let mut received = 0;
    for port in ports {
        let name = port["name"].as_str().unwrap();
        received += number(&port["received_packets"]);
        let Some((sent_there, received_there)) = interfaces.get(name) else {
            continue;
        };
        assert_eq!(
            number(&port["received_packets"]),
            *sent_there,
            "{name}: {port}"
        );
        assert_eq!(
            number(&port["sent_packets"]),
            *received_there,
            "{name}: {port}"
        );
    }
    assert_eq!(number(&report["packets"]), received);
    let looked_up = &report["caches"];
    let microflow = &looked_up["microflow"];
    assert_eq!(
        number(&microflow["hits"]) + number(&microflow["misses"]),
        received
    );
    // Rules that the reload kept have counted throughout.
    let rules = report["rules"].as_array().unwrap();
    for (port, condition) in ports.iter().zip(["in_port=1 ", "in_port=2 "]) {
        let is_meant = |rule: &&Value| rule["rule"].as_str().unwrap().contains(condition);
        let rule = rules.iter().find(is_meant);
        let rule = rule.unwrap_or_else(|| panic!("{condition}: {rules:?}"));
        assert_eq!(rule["packets"], port["received_packets"], "{rule}");
        assert_eq!(rule["bytes"], port["received_bytes"], "{rule}");
    }
    assert_eq!(report["changes"].as_array().unwrap().len(), 1);
    assert_eq!(number(&report["rule_count"]), 6);
}

/// Checks that the copy has every packet of VLAN 20, with its tag.
fn check_copy(path: &Path, report: &Value) {
    let packets = thalweg_io::CaptureReader::open(path).unwrap();
    let mut count = 0;
    for packet in packets {
        let packet = packet.unwrap();
        let bytes = packet.bytes();
        assert_eq!(bytes[12..16], [0x81, 0, 0, 20], "{bytes:02x?}");
        count += 1;
    }
    assert!(count > 0);
    assert_eq!(report["outputs"]["5"].as_u64(), Some(count));
}

#[test]
fn three_hosts_two_vlans_and_a_change_in_the_middle() {
    let hosts = Hosts::new();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("br0.toml"), CONFIG).unwrap();
    std::fs::write(file("vlan.rules"), RULES).unwrap();
    let before: BTreeMap<_, _> = ["e1", "e2", "e4", "tap3"]
        .map(|end| (end, hosts.counts(end)))
        .into();
    let program = hosts.host.enter(|| Program::start_json(&file("br0.toml")));
    program.wait_for("ready");
    assert!(
        before.values().all(|counts| *counts == (0, 0)),
        "{before:?}"
    );

    let (left, host) = (&hosts.left, &hosts.host);
    eventually("VLAN 10", || ping(left, "10.0.10.2"));
    eventually("VLAN 20", || ping(host, "10.0.20.2"));
    assert!(!ping(left, "10.0.10.3"), "the tap is not in VLAN 10 yet");
    transfer(&hosts, 4 << 20, || {
        std::fs::write(file("vlan.rules"), "table=0,in_port=p9 actions=drop").unwrap();
        program.signal(Signal::HUP);
        let refused = program.wait_for_part(": the rules stay as they were");
        assert!(
            refused.contains("vlan.rules:1:17: unknown port `p9`"),
            "{refused}"
        );
        std::fs::write(file("vlan.rules"), MOVED).unwrap();
        program.signal(Signal::HUP);
        let done = program.wait_for("reloaded");
        assert!(
            done.starts_with("reloaded 6 rules: 3 added, 3 removed"),
            "{done}"
        );
    });
    eventually("the tap is in VLAN 10", || ping(left, "10.0.10.3"));
    assert!(!ping(host, "10.0.20.2"), "the tap has left VLAN 20");

    let interfaces = quiet_counts(&hosts);
    let Ended {
        status,
        output,
        took,
    } = program.end(Signal::INT);
    assert_eq!(status, Some(0));
    assert!(took < Duration::from_secs(1), "it took {took:?}");
    let report: Value = serde_json::from_str(&output).unwrap();
    check_report(&report, &interfaces);
    check_copy(&file("copy.pcap"), &report);
}

/// Starts the switch with these rules, without the capture of copies.
fn start_with(hosts: &Hosts, folder: &Path, rules: &str) -> Program {
    let config = CONFIG.split("[[port]]\nnumber = 5").next().unwrap();
    std::fs::write(folder.join("br0.toml"), config).unwrap();
    std::fs::write(folder.join("vlan.rules"), rules).unwrap();
    let path = folder.join("br0.toml");
    let program = hosts.host.enter(|| Program::start_json(&path));
    program.wait_for("ready");
    program
}

/// Both ends of the connection are translated: the left host asks for 10.0.10.99, and the right
/// host sees 10.0.10.88.
const TRANSLATING: &str = "
table=0,arp actions=normal
table=0,in_port=p1,ip actions=ct(zone=1,nat,table=1)
table=1,ct_state=+new+trk,ip actions=ct(commit,zone=1,nat(dst=10.0.10.2),table=2)
table=1,ct_state=+est+trk,ip actions=resubmit(,2)
table=2,ip actions=ct(commit,zone=2,nat(src=10.0.10.88:20000-20999),table=3)
table=3,ct_state=-inv+trk,ip actions=output:p2
table=0,in_port=p2,ip actions=ct(zone=2,nat,table=11)
table=11,ct_state=+est+rpl+trk,ip actions=ct(zone=1,nat,table=12)
table=12,ct_state=+est+rpl+trk,ip actions=output:p1
";

#[test]
fn connections_of_the_kernel_are_translated_at_both_ends() {
    let hosts = Hosts::new();
    let folder = tempfile::tempdir().unwrap();
    let program = start_with(&hosts, folder.path(), TRANSLATING);
    hosts.add_neighbor("e1", "10.0.10.99", "e2");
    hosts.add_neighbor("e2", "10.0.10.88", "e1");
    for _ in 0..3 {
        let peer = transfer_to(&hosts, "10.0.10.99:5001", 1 << 20, || {});
        assert_eq!(peer.ip().to_string(), "10.0.10.88");
        assert!((20_000..21_000).contains(&peer.port()), "{peer}");
    }
    assert!(
        ping(&hosts.left, "10.0.10.99"),
        "its replies are found, too"
    );
    assert_eq!(program.end(Signal::INT).status, Some(0));
}

/// The left host is seen as 10.0.10.88. A data connection that was not announced does not pass.
const FTP: &str = "
table=0,arp actions=normal
table=0,in_port=p1,tcp actions=ct(zone=1,nat,table=1)
table=0,in_port=p2,tcp actions=ct(zone=1,nat,table=1)
table=1,in_port=p1,tcp,tp_dst=21,ct_state=+new-rel+trk \
    actions=ct(commit,zone=1,alg=ftp,nat(src=10.0.10.88)),output:p2
table=1,in_port=p1,tcp,ct_state=+new+rel+trk actions=ct(commit,zone=1,nat),output:p2
table=1,in_port=p2,tcp,ct_state=+new+rel+trk actions=ct(commit,zone=1,nat),output:p1
table=1,in_port=p1,tcp,ct_state=+est+trk actions=output:p2
table=1,in_port=p2,tcp,ct_state=+est+trk actions=output:p1
";

/// Python's client of FTP, through a translation, in both modes. Needs python3.
#[test]
fn files_pass_in_both_modes_of_ftp() {
    let hosts = Hosts::new();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("server.py"), include_str!("ftp/server.py")).unwrap();
    std::fs::write(file("client.py"), include_str!("ftp/client.py")).unwrap();
    let program = start_with(&hosts, folder.path(), FTP);
    hosts.add_neighbor("e2", "10.0.10.88", "e1");
    let python = |name: &str| {
        let mut command = Command::new("python3");
        command
            .arg(file(name))
            .arg("10.0.10.2")
            .stdout(Stdio::piped());
        command
    };
    let mut server = KilledAtEnd(hosts.right.enter(|| python("server.py").spawn().unwrap()));
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "listening");
    let stranger: SocketAddr = "10.0.10.1:5555".parse().unwrap();
    let _listener = hosts.left.enter(|| TcpListener::bind(stranger).unwrap());
    let refused = hosts
        .right
        .enter(|| TcpStream::connect_timeout(&stranger, Duration::from_millis(300)));
    assert!(refused.is_err(), "it was not announced");
    let client = hosts.left.enter(|| python("client.py").status().unwrap());
    assert!(client.success(), "{client}");
    for _ in 0..6 {
        assert_eq!(lines.next().unwrap().unwrap(), "10.0.10.88");
    }
    assert_eq!(program.end(Signal::INT).status, Some(0));
}

/// A process that ends with the test.
struct KilledAtEnd(Child);

impl Drop for KilledAtEnd {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Plugs in a host's cable to the switch's port.
fn plug_in(hosts: &Hosts, address: &str) {
    let veth = ["link", "add", "e1", "type", "veth", "peer", "name", "p1"];
    hosts
        .left
        .ip(&[&veth[..], &["netns", &hosts.host.name]].concat());
    hosts.left.ip(&["link", "set", "e1", "gso_max_segs", "1"]);
    hosts.left.ip(&["addr", "add", address, "dev", "e1"]);
    hosts.left.ip(&["link", "set", "e1", "up"]);
    hosts.host.ip(&["link", "set", "p1", "up", "arp", "off"]);
}

#[test]
fn an_interface_that_comes_back_is_attached_again() {
    let hosts = Hosts::new();
    let folder = tempfile::tempdir().unwrap();
    let program = start_with(&hosts, folder.path(), "actions=normal");
    let is_lost =
        |line: &str| line.contains(" ports: port 1 (p1): interface `p1` is gone; the port is");
    for _ in 0..3 {
        eventually("they talk", || ping(&hosts.left, "10.0.10.2"));
        hosts.left.ip(&["link", "del", "e1"]);
        let said = program.wait_for("thalweg: 2");
        assert!(is_lost(&said), "{said}");
        plug_in(&hosts, "10.0.10.1/24");
        let said = program.wait_for("thalweg: 2");
        assert!(
            said.ends_with(" ports: port 1 (p1): attached again to interface `p1`"),
            "{said}"
        );
    }
    eventually("they talk", || ping(&hosts.left, "10.0.10.2"));
    // An interface of another name is renamed.
    hosts.left.ip(&["link", "del", "e1"]);
    let said = program.wait_for("thalweg: 2");
    assert!(is_lost(&said), "{said}");
    let veth = ["link", "add", "e1", "type", "veth", "peer", "name", "other"];
    hosts
        .left
        .ip(&[&veth[..], &["netns", &hosts.host.name]].concat());
    hosts.left.ip(&["addr", "add", "10.0.10.1/24", "dev", "e1"]);
    hosts.left.ip(&["link", "set", "e1", "up"]);
    hosts.host.ip(&["link", "set", "other", "name", "p1"]);
    let said = program.wait_for("thalweg: 2");
    assert!(said.contains("attached again"), "{said}");
    hosts.host.ip(&["link", "set", "p1", "up", "arp", "off"]);
    eventually("they talk", || ping(&hosts.left, "10.0.10.2"));
    // A tap is deleted and created again.
    hosts.host.ip(&["link", "del", "tap3"]);
    let said = program.wait_for("thalweg: 2");
    assert!(
        said.contains("port 3 (tap3): interface `tap3` is gone"),
        "{said}"
    );
    // The port itself creates it again, as at the start.
    let said = program.wait_for("thalweg: 2");
    assert!(said.contains("port 3 (tap3): attached again"), "{said}");
    let Ended { status, output, .. } = program.end(Signal::TERM);
    assert_eq!(status, Some(0));
    let report: Value = serde_json::from_str(&output).unwrap();
    let counted = ["ports_attached", "ports_detached", "ports_gone"].map(|key| &report[key]);
    assert_eq!(counted, [&Value::from(5); 3]);
    // The port keeps its earlier counts.
    let port = &report["ports"][0];
    // The link state is read once a second, so it may still say that the link is down.
    assert_eq!(port["number"], 1);
    assert!(port["received_packets"].as_u64().unwrap() > 4, "{port}");
}

#[test]
fn ports_come_and_go_by_commands_while_others_carry_on() {
    let hosts = Hosts::new();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let ports = CONFIG.split("[[port]]\nnumber = 3").next().unwrap();
    std::fs::write(file("br0.toml"), format!("{ports}[control]\n")).unwrap();
    std::fs::write(file("vlan.rules"), "actions=normal").unwrap();
    let program = hosts.host.enter(|| Program::start_json(&file("br0.toml")));
    program.wait_for("ready br0 with 2 ports");
    let asked = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.arg("ctl").arg("--target").arg(file("br0.ctl"));
        let output = command.args(words).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), errors)
    };
    let ctl = |words: &[&str]| {
        let (is_done, errors) = asked(words);
        assert!(is_done, "{words:?}: {errors}");
    };
    let talks = || ping(&hosts.left, "10.0.10.2");
    eventually("they talk", talks);
    ctl(&["port/del", "p2"]);
    assert!(!talks());
    ctl(&["port/add", "7", "p2", "right"]);
    program.wait_for_part(" INFO control: port 7 (right) was added on interface `p2`");
    eventually("they talk again", talks);
    // Each of two ports would hand over all packets of one interface.
    let (is_done, errors) = asked(&["port/add", "9", "p2", "twice"]);
    let refusal = "`p2` is the interface of port 7 (right)";
    assert!(!is_done && errors.contains(refusal), "{errors}");
    // An interface of an added port is followed like any other.
    ctl(&["port/add", "8", "p4"]);
    hosts.right.ip(&["link", "del", "e4"]);
    program.wait_for_part(" WARN ports: port 8 (p4): interface `p4` is gone");
    // The file has the last word.
    ctl(&["reload"]);
    eventually("they talk again", talks);
    let Ended { status, output, .. } = program.end(Signal::TERM);
    assert_eq!(status, Some(0));
    let report: Value = serde_json::from_str(&output).unwrap();
    let numbers = report["ports"].as_array().unwrap().iter();
    let there = numbers.filter(|port| port["status"] != "gone");
    let there: Vec<u64> = there.map(|port| port["number"].as_u64().unwrap()).collect();
    assert_eq!(there, [1, 2]);
}

#[test]
fn a_program_follows_its_interfaces_too() {
    let hosts = Hosts::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p4.toml");
    let ports = "[[port]]\nnumber = 1\nname = \"p1\"\n[[port]]\nnumber = 2\nname = \"p2\"\n";
    std::fs::write(&path, format!("[p4]\n{ports}")).unwrap();
    let program = hosts.host.enter(|| Program::start_json(&path));
    program.wait_for("ready thalweg with 2 ports");
    for _ in 0..2 {
        hosts.left.ip(&["link", "del", "e1"]);
        program.wait_for_part(" WARN ports: port 1 (p1): interface `p1` is gone");
        plug_in(&hosts, "10.0.10.1/24");
        program.wait_for_part(" INFO ports: port 1 (p1): attached again to interface `p1`");
    }
    let Ended { status, output, .. } = program.end(Signal::TERM);
    assert_eq!(status, Some(0));
    let report: Value = serde_json::from_str(&output).unwrap();
    let counted = ["ports_attached", "ports_detached", "ports_gone"].map(|key| &report[key]);
    assert_eq!(counted, [&Value::from(2); 3]);
}

#[test]
fn an_interface_is_one_port_of_all_switches() {
    let hosts = Hosts::new();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("first.toml"), "[[port]]\nnumber = 1\nname = \"p1\"\n").unwrap();
    let first = hosts
        .host
        .enter(|| Program::start_json(&file("first.toml")));
    first.wait_for("ready thalweg with 1 port, 0 rules, 1 worker");
    let mut second = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    second.arg("run").arg(file("first.toml"));
    let output = hosts.host.enter(|| second.output().unwrap());
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = format!(
        "port 1 (p1): interface `p1` is a port of process {} already",
        first.id()
    );
    assert!(said.contains(&expected), "{said}");
    assert_eq!(output.status.code(), Some(2), "{said}");
    // A reload moves the interface to another port.
    let moved = "[[port]]\nnumber = 7\ninterface = \"p1\"\n";
    std::fs::write(file("first.toml"), moved).unwrap();
    first.signal(Signal::HUP);
    let done = first.wait_for("reloaded");
    assert!(done.ends_with("; ports: 1 added, 1 removed"), "{done}");
    // The interface is free once the process has ended, in whatever way.
    assert_eq!(first.end(Signal::KILL).status, None);
    let again = hosts
        .host
        .enter(|| Program::start_json(&file("first.toml")));
    again.wait_for("ready thalweg with 1 port");
    assert_eq!(again.end(Signal::INT).status, Some(0));
}

#[test]
fn stations_are_learned_and_ports_followed() {
    let hosts = Hosts::new();
    let folder = tempfile::tempdir().unwrap();
    let program = start_with(&hosts, folder.path(), "actions=normal");
    for address in ["10.0.10.2", "10.0.10.3"] {
        eventually(address, || ping(&hosts.left, address));
    }
    // Stations are learned some time after their first packet, later on a busy machine.
    eventually("both stations are known: nothing is flooded", || {
        let before = hosts.counts("tap3");
        transfer(&hosts, 1 << 20, || {});
        hosts.counts("tap3").1 - before.1 < 20
    });
    // A deleted port does not disturb the others.
    hosts.right.ip(&["link", "del", "e4"]);
    eventually("the others still talk", || ping(&hosts.left, "10.0.10.3"));
    let Ended {
        status,
        output,
        took,
    } = program.end(Signal::TERM);
    assert_eq!(status, Some(0));
    assert!(took < Duration::from_secs(1), "it took {took:?}");
    let report: Value = serde_json::from_str(&output).unwrap();
    assert!(report["own_changes"].as_u64().unwrap() > 0);
    assert!(report["packets"].as_u64().unwrap() > 0);
}

#[test]
fn interfaces_need_cap_net_raw_alone_also_when_they_come_back() {
    let hosts = Hosts::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("br0.toml");
    let ports = CONFIG.split("[[port]]\nnumber = 3").next().unwrap();
    std::fs::write(&path, ports).unwrap();
    std::fs::write(folder.path().join("vlan.rules"), "actions=normal").unwrap();
    let launcher = ["setpriv", "--inh-caps=-all", "--bounding-set=-all,+net_raw"];
    let start = || Program::start_by(&launcher, &[], &path);
    let program = hosts.host.enter(start);
    program.wait_for("ready br0 with 2 ports");
    let ping = || {
        let words = ["-c", "1", "-W", "10", "10.0.10.2"];
        let mut ping = hosts.left.spawn("ping", &words);
        assert!(ping.wait().unwrap().success());
    };
    ping();
    hosts.left.ip(&["link", "del", "e1"]);
    program.wait_for_part("interface `p1` is gone");
    let veth = ["link", "add", "e1", "type", "veth", "peer", "name", "p1"];
    hosts
        .left
        .ip(&[&veth[..], &["netns", &hosts.host.name]].concat());
    hosts.host.ip(&["link", "set", "p1", "up", "arp", "off"]);
    program.wait_for_part("attached again to interface `p1`");
    hosts.left.ip(&["addr", "add", "10.0.10.1/24", "dev", "e1"]);
    hosts.left.ip(&["link", "set", "e1", "up"]);
    ping();
    assert_eq!(program.end(Signal::TERM).status, Some(0));
}
