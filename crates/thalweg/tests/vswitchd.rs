//! The daemon in ovs-vswitchd's place, with Debian's `ovsdb-server`, `ovs-vsctl`, `ovs-ofctl`
//! and `ovs-appctl`, and devices that are driven by hand. Needs no privileges.

mod daemon;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::process::Child;
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A database server and a daemon, with a folder of their own.
struct Daemon {
    folder: tempfile::TempDir,
    server: Child,
    daemon: Child,
}

impl Daemon {
    fn start() -> Daemon {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        daemon::create_database(path);
        let daemon = Daemon {
            server: daemon::start_server(path),
            daemon: daemon::start_daemon(path),
            folder,
        };
        daemon.ok("ovs-vsctl", "--no-wait init");
        daemon
    }

    /// Runs a program with words as arguments; returns what it says, and whether it succeeded.
    fn run(&self, program: &str, words: &str) -> (String, bool) {
        daemon::run(self.folder.path(), program, words)
    }

    fn ok(&self, program: &str, words: &str) -> String {
        daemon::ok(self.folder.path(), program, words)
    }

    fn vsctl(&self, words: &str) -> String {
        self.ok("ovs-vsctl", words).trim().to_owned()
    }

    /// Bridges with the names and numbers of their ports, as the daemon shows them.
    fn shown(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut shown: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut bridge = String::new();
        for line in self.ok("ovs-appctl", "dpif/show").lines() {
            match (line.strip_prefix("    "), line.strip_prefix("  ")) {
                (Some(port), _) => {
                    let name = port.split(' ').next().expect("a name").to_owned();
                    shown.entry(bridge.clone()).or_default().insert(name);
                }
                (None, Some(name)) => {
                    bridge = name.trim_end_matches(':').to_owned();
                    shown.entry(bridge.clone()).or_default();
                }
                _ => {}
            }
        }
        shown
    }

    /// Packets that each port of a bridge has received and sent.
    fn counts(&self, bridge: &str) -> BTreeMap<String, (u64, u64)> {
        let text = self.ok("ovs-ofctl", &format!("--names dump-ports {bridge}"));
        let packets = |line: &str| -> u64 {
            let (_, behind) = line.split_once("pkts=").expect("a count");
            let (count, _) = behind.split_once(',').expect("more counts");
            count.parse().expect("a number")
        };
        let mut counts = BTreeMap::new();
        let mut lines = text.lines().skip(1);
        while let Some(line) = lines.next() {
            let Some((port, received)) = line.split_once(':') else {
                continue;
            };
            let name = port.trim().trim_start_matches("port").trim();
            let name = match name {
                "LOCAL" => bridge,
                name => name.trim_matches('"'),
            };
            let sent = lines.next().expect("a line of what was sent");
            counts.insert(name.to_owned(), (packets(received), packets(sent)));
            // A dummy's counts of its own.
            while lines
                .clone()
                .next()
                .is_some_and(|next| !next.contains("pkts="))
            {
                lines.next();
            }
        }
        counts
    }

    /// Bytes of memory that the daemon uses now.
    fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.daemon.id()));
        let status = status.expect("it runs");
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kilobytes: u64 = kilobytes.expect("its memory").parse().expect("a number");
        kilobytes * 1_024
    }

    fn stop(mut self) {
        self.ok("ovs-appctl", "exit --cleanup");
        assert!(self.daemon.wait().expect("it ends").success());
        assert!(!self.folder.path().join("ovs-vswitchd.pid").exists());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        for child in [&mut self.daemon, &mut self.server] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

const BRIDGE: &str = "add-br br0 -- set Bridge br0 datapath_type=dummy fail_mode=secure";

fn dummy(bridge: &str, name: &str, more: &str) -> String {
    format!("add-port {bridge} {name} -- set Interface {name} type=dummy {more}")
}

#[test]
fn what_cannot_be_done_is_an_error_of_its_interface_alone() {
    let daemon = Daemon::start();
    daemon.vsctl(&format!(
        "{BRIDGE} -- {}",
        dummy("br0", "p1", "ofport_request=7")
    ));
    // Two want one number: the second gets another.
    daemon.vsctl(&dummy("br0", "p2", "ofport_request=7"));
    assert_eq!(daemon.vsctl("get Interface p1 ofport"), "7");
    assert_eq!(daemon.vsctl("get Interface p2 ofport"), "1");
    // The first leaves its number: the second gets what it asked for.
    daemon.vsctl("set Interface p1 ofport_request=8");
    assert_eq!(daemon.vsctl("get Interface p2 ofport"), "7");
    // One that asks for a number gets it from one that has it by chance.
    daemon.vsctl("remove Interface p2 ofport_request 7");
    daemon.vsctl("set Interface p1 ofport_request=7");
    assert_eq!(daemon.vsctl("get Interface p1 ofport"), "7");
    daemon.vsctl("set Interface p2 ofport_request=1");
    assert_eq!(daemon.vsctl("get Interface p2 ofport"), "1");
    let (said, _) = daemon.run("ovs-vsctl", "add-port br0 v -- set Interface v type=vxlan");
    let lacks = "vxlan type requires valid 'remote_ip' argument";
    assert!(said.contains(lacks), "{said}");
    assert_eq!(daemon.vsctl("get Interface v ofport"), "-1");
    let error = daemon.vsctl("get Interface v error");
    assert!(error.contains(lacks), "{error}");
    let (said, _) = daemon.run(
        "ovs-vsctl",
        "add-port br0 n -- set Interface n type=nonsense",
    );
    assert!(said.contains("unknown type nonsense"), "{said}");
    // The others go on.
    daemon.ok("ovs-ofctl", "add-flow br0 in_port=7,actions=output:1");
    let packet = "netdev-dummy/receive p1 in_port(1),eth(src=50:54:00:00:00:09,\
                  dst=50:54:00:00:00:0a),eth_type(0x1234)";
    daemon.ok("ovs-appctl", packet);
    let ports = daemon.ok("ovs-ofctl", "dump-ports br0 p2");
    assert!(ports.contains("tx pkts=1,"), "{ports}");
    daemon.vsctl("set Bridge br0 stp_enable=true");
    let set = "--id=@b get Bridge br0 -- create Flow_Sample_Collector_Set id=7 bridge=@b";
    daemon.vsctl(set);
    let log = daemon::log(daemon.folder.path());
    assert!(log.contains("stp_enable is not supported yet"), "{log}");
    assert!(
        log.contains("sample(collector_set_id=7,...) sends nothing"),
        "{log}"
    );
    daemon.stop();
}

#[test]
fn stations_are_forgotten_where_a_ports_vlan_changes() {
    let daemon = Daemon::start();
    let ports = ["p1", "p2"].map(|name| dummy("br0", name, ""));
    daemon.vsctl(&format!("{BRIDGE} -- {}", ports.join(" -- ")));
    daemon.ok("ovs-ofctl", "add-flow br0 actions=normal");
    let from = |port: &str, last: u8| {
        let words = format!(
            "netdev-dummy/receive {port} in_port(1),eth(src=50:54:00:00:00:{last:02x},\
             dst=ff:ff:ff:ff:ff:ff),eth_type(0x1234)"
        );
        daemon.ok("ovs-appctl", &words);
    };
    from("p1", 1);
    from("p2", 2);
    let known = |last: u8| {
        let table = daemon.ok("ovs-appctl", "fdb/show br0");
        let address = format!("50:54:00:00:00:{last:02x}");
        let line = table.lines().find(|line| line.contains(&address));
        line.map(|line| line.split_whitespace().nth(1).expect("a VLAN").to_owned())
    };
    assert_eq!(
        (known(1).as_deref(), known(2).as_deref()),
        (Some("0"), Some("0"))
    );
    daemon.vsctl("set Port p1 tag=5");
    assert_eq!((known(1), known(2).as_deref()), (None, Some("0")));
    from("p1", 1);
    assert_eq!(known(1).as_deref(), Some("5"));
    daemon.stop();
}

/// What a port of the model has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct ModelPort {
    /// Its VLAN; a bridge's own port carries all.
    tag: Option<u16>,
    received: u64,
    sent: u64,
}

/// Bridges with their ports.
type Model = BTreeMap<String, BTreeMap<String, ModelPort>>;

/// A random transaction, done in the model; its words for `ovs-vsctl`.
fn random_transaction(random: &mut Pcg64Mcg, model: &mut Model) -> String {
    let bridge = format!("br{}", random.random_range(0..3));
    let port = format!("{bridge}-p{}", random.random_range(0..4));
    let tag = random.random_range(1..3);
    let known = ModelPort {
        tag: Some(tag),
        ..ModelPort::default()
    };
    let Some(ports) = model.get_mut(&bridge) else {
        let own = (bridge.clone(), ModelPort::default());
        model.insert(bridge.clone(), BTreeMap::from([own]));
        return format!("add-br {bridge} -- set Bridge {bridge} datapath_type=dummy");
    };
    if random.random_ratio(1, 12) {
        model.remove(&bridge);
        return format!("del-br {bridge}");
    }
    match ports.get_mut(&port) {
        Some(known) if random.random_ratio(1, 2) => {
            known.tag = Some(tag);
            format!("set Port {port} tag={tag}")
        }
        Some(_) => {
            ports.remove(&port);
            format!("del-port {bridge} {port}")
        }
        None => {
            ports.insert(port.clone(), known);
            format!("{} -- set Port {port} tag={tag}", dummy(&bridge, &port, ""))
        }
    }
}

/// Has a random port receive a packet for all; the model floods it in its VLAN.
fn random_packet(random: &mut Pcg64Mcg, model: &mut Model, daemon: &Daemon) {
    let all = model.values().flat_map(BTreeMap::keys);
    let all: Vec<String> = all.filter(|port| port.contains('-')).cloned().collect();
    if all.is_empty() {
        return;
    }
    let port = &all[random.random_range(0..all.len())];
    let packet = format!(
        "netdev-dummy/receive {port} in_port(1),eth(src=50:54:00:00:00:{:02x},\
         dst=ff:ff:ff:ff:ff:ff),eth_type(0x1234)",
        random.random_range(0..8)
    );
    daemon.ok("ovs-appctl", &packet);
    let (bridge, _) = port.split_once('-').expect("it names its bridge");
    let ports = model.get_mut(bridge).expect("it has the port");
    let tag = ports[port].tag;
    for (name, known) in ports {
        if name == port {
            known.received += 1;
        } else if known.tag.is_none() || known.tag == tag {
            known.sent += 1;
        }
    }
}

#[test]
fn random_transactions_leave_what_they_say_also_across_a_new_server() {
    let mut daemon = Daemon::start();
    let mut random = Pcg64Mcg::seed_from_u64(30);
    let mut model = Model::new();
    for step in 0..120 {
        if step == 60 {
            daemon.server.kill().expect("it runs");
            daemon.server.wait().expect("it ends");
            daemon.server = daemon::start_server(daemon.folder.path());
        }
        let words = random_transaction(&mut random, &mut model);
        daemon.vsctl(&words);
        for _ in 0..3 {
            random_packet(&mut random, &mut model, &daemon);
        }
        let shown = daemon.shown();
        let names = model.iter().map(|(bridge, ports)| {
            let names: BTreeSet<String> = ports.keys().cloned().collect();
            (bridge.clone(), names)
        });
        let names: BTreeMap<_, _> = names.collect();
        assert_eq!(shown, names, "after step {step}: {words}");
        for (bridge, ports) in &model {
            let counts = ports
                .iter()
                .map(|(name, known)| (name.clone(), (known.received, known.sent)));
            let counts: BTreeMap<_, _> = counts.collect();
            assert_eq!(daemon.counts(bridge), counts, "after step {step}: {words}");
        }
    }
    for (bridge, ports) in &model {
        let numbers: BTreeSet<String> = ports
            .keys()
            .map(|port| daemon.vsctl(&format!("get Interface {port} ofport")))
            .collect();
        assert_eq!(
            numbers.len(),
            ports.len(),
            "{bridge}: each has a number of its own"
        );
    }
    daemon.stop();
}

#[test]
fn an_internal_device_that_asks_for_no_mtu_has_the_least_of_its_bridge() {
    let daemon = Daemon::start();
    let ports = ["p1", "p2"].map(|name| dummy("br0", name, "mtu_request=1600"));
    daemon.vsctl(&format!("{BRIDGE} -- {}", ports.join(" -- ")));
    assert_eq!(daemon.vsctl("get Interface br0 mtu"), "1600");
    daemon.vsctl("set Interface p2 mtu_request=1400");
    assert_eq!(daemon.vsctl("get Interface br0 mtu"), "1400");
    daemon.vsctl("set Interface br0 mtu_request=1700");
    assert_eq!(daemon.vsctl("get Interface br0 mtu"), "1700");
    daemon.vsctl("clear Interface br0 mtu_request -- del-port p2");
    assert_eq!(daemon.vsctl("get Interface br0 mtu"), "1600");
    daemon.stop();
}

#[test]
fn the_first_controller_finds_nothing_and_the_last_leaves_nothing() {
    let daemon = Daemon::start();
    daemon.vsctl(BRIDGE);
    let add = || {
        daemon.ok("ovs-ofctl", "add-flow br0 in_port=1,actions=drop");
        daemon.ok(
            "ovs-ofctl",
            "-O OpenFlow13 add-meter br0 meter=1,pktps,band=type=drop,rate=1",
        );
    };
    let is_there = || {
        let flows = daemon.ok("ovs-ofctl", "dump-flows br0");
        let meters = daemon.ok("ovs-ofctl", "-O OpenFlow13 dump-meters br0");
        (flows.contains("in_port=1"), meters.contains("meter=1"))
    };
    // Connections to these fail at once.
    let controller = |port: u16| daemon.vsctl(&format!("set-controller br0 tcp:127.0.0.1:{port}"));
    add();
    assert_eq!(is_there(), (true, true));
    controller(1);
    assert_eq!(is_there(), (false, false));
    add();
    controller(2);
    assert_eq!(is_there(), (true, true), "another controller finds it");
    daemon.vsctl("del-controller br0");
    assert_eq!(is_there(), (false, false));
    daemon.stop();
}

#[test]
fn thalweg_ctl_asks_the_daemon_as_ovs_appctl_does() {
    let daemon = Daemon::start();
    daemon.vsctl(BRIDGE);
    let ctl = env!("CARGO_BIN_EXE_thalweg");
    for words in ["version", "dpif/show", "fdb/show br0", "vlog/list"] {
        let said = daemon.ok("ovs-appctl", words);
        // The daemon of the pidfile, and the one of a number.
        assert_eq!(daemon.ok(ctl, &format!("ctl {words}")).trim(), said.trim());
        let by_number = format!("ctl --target {} {words}", daemon.daemon.id());
        assert_eq!(daemon.ok(ctl, &by_number).trim(), said.trim());
    }
    let (refused, is_ok) = daemon.run(ctl, "ctl fdb/show br9");
    assert_eq!((&*refused, is_ok), ("thalweg: no such bridge\n", false));
    daemon.stop();
}

#[test]
fn it_tells_why_an_entry_is_as_it_is_and_why_a_packet_is_dropped() {
    let daemon = Daemon::start();
    let ports = ["p1", "p2"].map(|name| dummy("br0", name, ""));
    daemon.vsctl(&format!("{BRIDGE} -- {}", ports.join(" -- ")));
    let add = |rule: &str| daemon.ok("ovs-ofctl", &format!("add-flow br0 {rule}"));
    add("in_port=1,ip,nw_dst=10.0.0.0/8,actions=resubmit(,1)");
    add("table=1,priority=9,tcp,tp_dst=80,actions=output:2");
    let ask = |command: &str, port: u16| {
        let flow = format!("in_port=1,tcp,nw_dst=10.1.2.3,tp_dst={port}");
        daemon.ok("ovs-appctl", &format!("{command} br0 {flow}"))
    };
    let explained = ask("thalweg/explain", 80);
    assert!(explained.contains("  nw_dst=10.0.0.0/8\n"), "{explained}");
    let touch = "table 1: a rule above priority 9";
    assert!(explained.contains(touch), "{explained}");
    let sent = ask("thalweg/why-drop", 80);
    assert!(sent.ends_with("The packet is not dropped.\n"), "{sent}");
    let dropped = ask("thalweg/why-drop", 81);
    let expected = "bridge br0, table 1: no rule matched\nThe packet is dropped: table miss.\n";
    assert!(dropped.ends_with(expected), "{dropped}");
    let none = daemon.ok("ovs-appctl", "thalweg/why-drop");
    assert_eq!(none, "nothing was dropped\n");
    let packet = "netdev-dummy/receive p2 in_port(2),eth(src=50:54:00:00:00:09,\
                  dst=50:54:00:00:00:0a),eth_type(0x1234)";
    daemon.ok("ovs-appctl", packet);
    let drops = daemon.ok("ovs-appctl", "thalweg/why-drop");
    assert!(drops.starts_with("table miss"), "{drops}");
    let lines: Vec<&str> = drops.lines().collect();
    assert!(lines[0].ends_with(" 1"), "{drops}");
    assert!(lines[1].starts_with("    1 packet, such as "), "{drops}");
    assert!(lines[1].contains("in_port(2)"), "{drops}");
    assert_eq!(lines[2], "      bridge br0, table 0: no rule matched");
    // The entry of that packet is looked at, and answers otherwise from now on.
    add("in_port=2,actions=output:1");
    daemon.ok("ovs-appctl", "revalidator/wait");
    let repairs = daemon.ok("ovs-appctl", "thalweg/repairs");
    let repaired = repairs
        .lines()
        .find(|line| line.contains("repaired in place"));
    assert!(
        repaired.is_some_and(|line| line.ends_with(" 1")),
        "{repairs}"
    );
    daemon.stop();
}

#[test]
fn rules_and_features_are_shown_as_open_vswitch_shows_them() {
    let daemon = Daemon::start();
    daemon.vsctl(&format!("{BRIDGE} -- {}", dummy("br0", "p1", "")));
    for rule in [
        "table=1,priority=7,tcp,tp_dst=80,actions=output:2",
        "in_port=1,actions=resubmit(,1)",
        "priority=1,actions=drop",
    ] {
        daemon.ok("ovs-ofctl", &format!("add-flow br0 {rule}"));
    }
    let packet = "netdev-dummy/receive p1 in_port(1),eth(src=50:54:00:00:00:09,\
                  dst=50:54:00:00:00:0a),eth_type(0x1234)";
    daemon.ok("ovs-appctl", packet);
    let shown = daemon.ok("ovs-appctl", "bridge/dump-flows br0");
    let without_age = |line: &str| -> String {
        let (before, behind) = line.split_once("duration=").expect("an age");
        let (_, behind) = behind.split_once("s, ").expect("counts");
        format!("{before}{behind}")
    };
    let lines: Vec<String> = shown.lines().map(without_age).collect();
    let expected = [
        "n_packets=1, n_bytes=14, in_port=1,actions=resubmit(,1)",
        "n_packets=0, n_bytes=0, priority=1,actions=drop",
        "table_id=1, n_packets=0, n_bytes=0, priority=7,tcp,tp_dst=80,actions=output:2",
        "table_id=254, n_packets=0, n_bytes=0, priority=2,recirc_id=0,actions=drop",
        "table_id=254, n_packets=0, n_bytes=0, priority=0,reg0=0x1,actions=controller(reason=)",
        "table_id=254, n_packets=0, n_bytes=0, priority=0,reg0=0x2,actions=drop",
        "table_id=254, n_packets=0, n_bytes=0, priority=0,reg0=0x3,actions=drop",
    ];
    assert_eq!(lines, expected);
    let offloaded = daemon.ok("ovs-appctl", "bridge/dump-flows --offload-stats br0");
    assert_eq!(offloaded.matches("n_offload_packets=0, ").count(), 7);
    for (words, error) in [
        ("bridge/dump-flows nowhere", "Unknown bridge"),
        ("dpif/show-dp-features nowhere", "no such bridge"),
    ] {
        let (said, is_ok) = daemon.run("ovs-appctl", words);
        assert!(!is_ok && said.contains(error), "{words}: {said}");
    }
    let native = || {
        let features = daemon.ok("ovs-appctl", "dpif/show-dp-features br0");
        assert_eq!(features.lines().count(), 26, "{features}");
        features.contains("Tunnel push pop: Yes\n")
    };
    assert!(native());
    daemon.ok("ovs-appctl", "dpif/set-dp-features br0 tnl_push_pop false");
    assert!(!native());
    // Cached entries stay through a pause.
    daemon.ok("ovs-appctl", "revalidator/pause");
    let flows = daemon.ok("ovs-appctl", "dpctl/dump-flows");
    assert!(flows.contains("in_port(1)"), "{flows}");
    daemon.ok("ovs-appctl", "revalidator/resume");
    let adds_labels = || {
        let features = daemon.ok("ovs-appctl", "dpif/show-dp-features br0");
        let rule = "ofproto/trace br0 in_port=1,ip";
        let traced = daemon.ok("ovs-appctl", rule);
        let is_slow = traced.contains("handled by the userspace slow path");
        assert!(traced.contains("add_mpls("), "{traced}");
        assert_eq!(features.contains("MPLS Label add: No\n"), is_slow);
        !is_slow
    };
    let encapsulate = "add-flow br0 priority=40000,ip,actions=encap(mpls),local";
    daemon.ok("ovs-ofctl", &format!("-OOpenFlow13 {encapsulate}"));
    assert!(adds_labels());
    daemon.ok("ovs-appctl", "dpif/set-dp-features br0 add_mpls false");
    assert!(!adds_labels());
    daemon.ok("ovs-ofctl", "--strict del-flows br0 priority=40000,ip");
    daemon.stop();
}

#[test]
fn flows_put_by_hand_answer_until_the_next_change() {
    let daemon = Daemon::start();
    let ports = ["p1", "p2"].map(|name| dummy("br0", name, ""));
    daemon.vsctl(&format!("{BRIDGE} -- {}", ports.join(" -- ")));
    let dpctl = |words: &str| daemon.ok("ovs-appctl", &format!("dpctl/{words}"));
    let refused = |words: &str, error: &str| {
        let (said, is_ok) = daemon.run("ovs-appctl", &format!("dpctl/{words}"));
        assert!(!is_ok && said.contains(error), "{words}: {said}");
    };
    let send = || {
        let packet = "netdev-dummy/receive p1 in_port(1),eth(src=50:54:00:00:00:09,\
                      dst=50:54:00:00:00:0a),eth_type(0x1234)";
        daemon.ok("ovs-appctl", packet);
    };
    let flow = "in_port(1),eth_type(0x1234)";
    let dumped = || dpctl("dump-flows");
    dpctl(&format!("add-flow {flow} 2"));
    refused(
        &format!("add-flow {flow} drop"),
        "ovs-vswitchd: updating flow table (File exists)",
    );
    refused("add-flow eth_type(0x1234) 2", "(Invalid argument)");
    refused(
        "add-flow in_port(1),eth_type(0x1235) pop_vlan",
        "only ports and drop",
    );
    refused(
        "mod-flow in_port(1),eth_type(0x1235) 2",
        "(No such file or directory)",
    );
    send();
    assert!(dumped().contains("packets:1, bytes:14, "), "{}", dumped());
    let counted = || daemon.ok("ovs-appctl", "dpif-netdev/pmd-stats-show");
    assert!(
        counted().contains("  packets received: 1\n"),
        "{}",
        counted()
    );
    assert!(
        counted().contains("  miss with success upcall: 0\n"),
        "{}",
        counted()
    );
    daemon.ok("ovs-appctl", "dpif-netdev/pmd-stats-clear");
    assert!(
        counted().contains("  packets received: 0\n"),
        "{}",
        counted()
    );
    assert!(dumped().ends_with("actions:2\n"), "{}", dumped());
    assert_eq!(daemon.counts("br0")["p2"], (0, 1));
    dpctl(&format!("mod-flow {flow} drop"));
    send();
    assert_eq!(daemon.counts("br0")["p2"], (0, 1));
    let drops = daemon.ok("ovs-appctl", "thalweg/why-drop");
    assert!(drops.starts_with("action"), "{drops}");
    // Any change ends it: the rules answer again.
    daemon.ok("ovs-ofctl", "add-flow br0 dl_type=0x9999,actions=drop");
    assert_eq!(dumped(), "");
    refused(&format!("del-flow {flow}"), "(No such file or directory)");
    let file = daemon.folder.path().join("flows");
    let lines = format!("{flow} 2\nadd in_port(2),eth_type(0x1235) 1\ndelete {flow}\n");
    std::fs::write(&file, lines).expect("a file");
    dpctl(&format!("add-flows {}", file.display()));
    assert!(dumped().contains("in_port(2)") && !dumped().contains("in_port(1)"));
    dpctl("del-flows");
    assert_eq!(dumped(), "");
    daemon.stop();
}

#[test]
fn connections_are_shown_counted_and_flushed() {
    let daemon = Daemon::start();
    let ports = ["p1", "p2"].map(|name| dummy("br0", name, ""));
    daemon.vsctl(&format!("{BRIDGE} -- {}", ports.join(" -- ")));
    let rule = "in_port=1,udp,actions=ct(commit,zone=3,exec(set_field:7->ct_mark)),output:2";
    daemon.ok("ovs-ofctl", &format!("add-flow br0 {rule}"));
    let send = |source: u16| {
        let packet = format!(
            "netdev-dummy/receive p1 in_port(1),eth(src=50:54:00:00:00:09,\
             dst=50:54:00:00:00:0a),eth_type(0x0800),ipv4(src=10.0.0.1,dst=10.0.0.2,proto=17,\
             tos=0,ttl=64,frag=no),udp(src={source},dst=53)"
        );
        daemon.ok("ovs-appctl", &packet);
    };
    send(1_000);
    send(1_000);
    // No packet has port 0.
    send(0);
    let shown = daemon.ok("ovs-appctl", "dpctl/dump-conntrack");
    let expected = "udp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1000,dport=53),\
                    reply=(src=10.0.0.2,dst=10.0.0.1,sport=53,dport=1000),zone=3,mark=7\n";
    assert_eq!(shown, expected);
    let counted = daemon.ok("ovs-appctl", "thalweg/connections");
    let count = |name: &str| {
        let line = counted.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("{name}: {counted}"));
        line[name.len()..].trim().to_owned()
    };
    assert_eq!(count("connections "), "1");
    assert_eq!(count("committed "), "1");
    assert_eq!(count("bad transports "), "1");
    assert_eq!(count("flushed "), "0");
    daemon.ok("ovs-appctl", "dpctl/flush-conntrack zone=4");
    assert_eq!(daemon.ok("ovs-appctl", "dpctl/dump-conntrack"), expected);
    daemon.ok("ovs-appctl", "dpctl/flush-conntrack zone=3");
    assert_eq!(daemon.ok("ovs-appctl", "dpctl/dump-conntrack"), "");
    daemon.stop();
}

#[test]
fn stations_can_be_fixed_and_a_full_table_makes_room() {
    let daemon = Daemon::start();
    let ports = ["p1", "p2"].map(|name| dummy("br0", name, ""));
    daemon.vsctl(&format!("{BRIDGE} -- {}", ports.join(" -- ")));
    daemon.vsctl("set Bridge br0 other_config:mac-table-size=10");
    daemon.ok("ovs-ofctl", "add-flow br0 actions=normal");
    daemon.ok("ovs-appctl", "fdb/add br0 p1 0 50:54:00:00:01:00");
    for last in 0..20 {
        let words = format!(
            "netdev-dummy/receive p2 in_port(2),eth(src=50:54:00:00:00:{last:02x},\
             dst=50:54:00:00:01:00),eth_type(0x1234)"
        );
        daemon.ok("ovs-appctl", &words);
    }
    let table = daemon.ok("ovs-appctl", "fdb/show br0");
    assert_eq!(table.lines().count(), 11, "{table}");
    assert!(table.contains("50:54:00:00:01:00  static"), "{table}");
    let counts = daemon.ok("ovs-appctl", "fdb/stats-show br0");
    assert!(counts.contains("table: 10/10\n"), "{counts}");
    assert!(
        counts.contains("evicted MAC entries     : 11\n"),
        "{counts}"
    );
    // All went to the fixed one's port alone.
    let sent = daemon.ok("ovs-ofctl", "dump-ports br0 p1");
    assert!(sent.contains("tx pkts=20,"), "{sent}");
    daemon.ok("ovs-appctl", "fdb/flush br0");
    let table = daemon.ok("ovs-appctl", "fdb/show br0");
    assert_eq!(table.lines().count(), 2, "{table}");
    daemon.ok("ovs-appctl", "fdb/del br0 0 50:54:00:00:01:00");
    daemon.stop();
}

#[test]
fn dummies_that_are_joined_carry_packets_and_upcalls_are_logged() {
    let daemon = Daemon::start();
    let listening = dummy("br0", "p1", "options:pstream=punix:joined.sock");
    let ports = [listening, dummy("br0", "p2", "")].join(" -- ");
    daemon.vsctl(&format!("{BRIDGE} -- {ports}"));
    daemon.vsctl("add-br br1 -- set Bridge br1 datapath_type=dummy fail_mode=secure");
    let connecting = dummy("br1", "p3", "options:stream=unix:joined.sock");
    daemon.vsctl(&connecting);
    while daemon.ok("ovs-appctl", "netdev-dummy/conn-state p1").trim() != "connected" {
        std::thread::yield_now();
    }
    daemon.ok("ovs-ofctl", "add-flow br0 in_port=p2,actions=p1");
    daemon.ok("ovs-ofctl", "add-flow br1 actions=local");
    daemon.ok("ovs-appctl", "vlog/set dpif_netdev:file:dbg");
    let words = "netdev-dummy/receive p2 in_port(2),eth(src=50:54:00:00:00:01,\
                 dst=50:54:00:00:00:02),eth_type(0x1234)";
    daemon.ok("ovs-appctl", words);
    let arrived = || {
        daemon
            .ok("ovs-appctl", "dpif/dump-flows br1")
            .contains("in_port(3)")
    };
    while !arrived() {
        std::thread::yield_now();
    }
    let log = daemon::log(daemon.folder.path());
    assert_eq!(log.matches("ovs-dummy: miss upcall:").count(), 2, "{log}");
    assert_eq!(log.matches("flow_add: ufid:").count(), 2, "{log}");
    daemon.stop();
}

/// What the daemon tells at an address, without HTTP's head.
fn scrape(address: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).expect("it listens");
    let request = "GET /metrics HTTP/1.1\r\nHost: switch\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is text");
    let (_, text) = answer.split_once("\r\n\r\n").expect("an empty line");
    text.to_owned()
}

#[test]
fn prometheus_reads_what_the_daemon_counts() {
    let daemon = Daemon::start();
    daemon.vsctl(&format!("{BRIDGE} -- {}", dummy("br0", "p1", "")));
    daemon.vsctl(&dummy("br0", "p2", ""));
    daemon.vsctl("set Open_vSwitch . other_config:thalweg-metrics=\"nowhere\"");
    let log = || daemon::log(daemon.folder.path());
    let wrong = "|WARN|other_config:thalweg-metrics=nowhere: not an address with a port";
    assert!(log().contains(wrong), "{}", log());
    daemon.vsctl("set Open_vSwitch . other_config:thalweg-metrics=\"127.0.0.1:0\"");
    let said = log();
    let (_, rest) = said.split_once("metrics at http://").expect("an address");
    let (address, _) = rest.split_once("/metrics").expect("a path");
    daemon.ok("ovs-ofctl", "add-flow br0 in_port=1,actions=output:2");
    let packet = "netdev-dummy/receive p1 in_port(1),eth(src=50:54:00:00:00:09,\
                  dst=50:54:00:00:00:0a),eth_type(0x1234)";
    for _ in 0..3 {
        daemon.ok("ovs-appctl", packet);
    }
    daemon.ok("ovs-appctl", &packet.replace("p1", "p2"));
    let text = scrape(address);
    for line in [
        "thalweg_packets_total 4",
        "thalweg_upcalls_total 2",
        "thalweg_rules 1",
        "thalweg_port_packets_total{bridge=\"br0\",port=\"p1\",direction=\"received\"} 3",
        "thalweg_port_packets_total{bridge=\"br0\",port=\"p2\",direction=\"sent\"} 3",
        "thalweg_port_up{bridge=\"br0\",port=\"p2\"} 1",
        "thalweg_drops_total{reason=\"table_miss\"} 1",
        "thalweg_cache_entries{layer=\"megaflow\"} 2",
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
    }
    daemon.vsctl("remove Open_vSwitch . other_config thalweg-metrics");
    assert!(std::net::TcpStream::connect(address).is_err());
    daemon.stop();
}

#[test]
fn an_interface_receives_what_its_policing_allows() {
    let daemon = Daemon::start();
    let ports = ["p1", "p2"].map(|name| dummy("br0", name, ""));
    daemon.vsctl(&format!("{BRIDGE} -- {}", ports.join(" -- ")));
    daemon.ok("ovs-ofctl", "add-flow br0 in_port=1,actions=output:2");
    daemon.ok("ovs-appctl", "time/stop");
    let packet = "netdev-dummy/receive p1 in_port(1),eth(src=50:54:00:00:00:09,\
                  dst=50:54:00:00:00:0a),eth_type(0x1234)";
    let passed = || {
        let before = daemon.counts("br0")["p2"].1;
        (0..20).for_each(|_| drop(daemon.ok("ovs-appctl", packet)));
        daemon.counts("br0")["p2"].1 - before
    };
    assert_eq!(passed(), 20);
    // A kilobit at once, and a kilobit a second: a packet has 14 bytes.
    daemon.vsctl("set Interface p1 ingress_policing_rate=1 ingress_policing_burst=1");
    assert_eq!((passed(), passed()), (1_000 / (14 * 8), 0));
    daemon.ok("ovs-appctl", "time/warp 500 500");
    assert_eq!(passed(), 5);
    // Another setting of the interface fills no bucket.
    daemon.vsctl("set Interface p1 external_ids:a=b");
    assert_eq!(passed(), 0);
    daemon.vsctl("set Interface p1 ingress_policing_rate=0");
    assert_eq!(passed(), 20);
    // A thousand packets at once.
    daemon.vsctl("set Interface p1 ingress_policing_kpkts_rate=1 ingress_policing_kpkts_burst=1");
    assert_eq!(passed(), 20);
    daemon.vsctl("add-port br0 pp -- set Interface pp type=patch ingress_policing_rate=9");
    let tunnel = "set Interface t type=vxlan options:remote_ip=127.0.0.1 ingress_policing_rate=9";
    daemon.vsctl(&format!("add-port br0 t -- {tunnel}"));
    let log = daemon::log(daemon.folder.path());
    for kind in ["patch", "tunnel"] {
        let said = format!("ingress_policing has no effect on a {kind}");
        assert!(log.contains(&said), "{log}");
    }
    daemon.stop();
}

/// A mirror of all packets to `p3`.
const MIRROR: &str = "--id=@to get Port p3 -- --id=@m create Mirror name=m select_all=true \
                      output_port=@to -- set Bridge br0 mirrors=@m";

#[test]
fn a_mirror_tells_what_it_had_however_it_changes() {
    let daemon = Daemon::start();
    let ports = ["p1", "p2", "p3"].map(|name| dummy("br0", name, ""));
    daemon.vsctl(&format!("{BRIDGE} -- {}", ports.join(" -- ")));
    daemon.vsctl(MIRROR);
    daemon.vsctl("set Open_vSwitch . other_config:stats-update-interval=100");
    daemon.ok("ovs-ofctl", "add-flow br0 in_port=1,actions=output:2");
    let packet = "netdev-dummy/receive p1 in_port(1),eth(src=50:54:00:00:00:09,\
                  dst=50:54:00:00:00:0a),eth_type(0x1234)";
    let told = |wanted: &str| {
        let start = Instant::now();
        loop {
            let told = daemon.ok("ovs-vsctl", "get Mirror m statistics");
            if told.trim() == wanted {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "{told}");
        }
    };
    told("{tx_bytes=0, tx_packets=0}");
    (0..3).for_each(|_| drop(daemon.ok("ovs-appctl", packet)));
    let length: usize = 3 * 14;
    told(&format!("{{tx_bytes={length}, tx_packets=3}}"));
    // A shorter copy is still a packet of its length, and the counts go on.
    daemon.vsctl("set Mirror m snaplen=14");
    daemon.ok("ovs-appctl", packet);
    told(&format!("{{tx_bytes={}, tx_packets=4}}", length + 14));
    // A mirror of another row begins at zero.
    daemon.vsctl("clear Bridge br0 mirrors");
    daemon.vsctl(MIRROR);
    told("{tx_bytes=0, tx_packets=0}");
    daemon.stop();
}

/// Rounds of the test below, unless [`CHURN_SECONDS`] asks for more.
const CHURN_ROUNDS: usize = 240;
/// In the environment: for how long ports come and go.
const CHURN_SECONDS: &str = "THALWEG_CHURN_SECONDS";
/// Least growth of memory that counts: what an allocator may keep.
const CHURN_SLACK: u64 = 4 << 20;
/// For how long servers may take to listen, and connections of commands to end.
const CLOSING: Duration = Duration::from_secs(10);

/// What a daemon has of what it must give back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Holdings {
    ports: usize,
    spare_packets: u64,
    descriptors: usize,
    threads: usize,
}

impl Holdings {
    fn of(daemon: &Daemon) -> Holdings {
        let entries = |kind: &str| {
            let folder = format!("/proc/{}/{kind}", daemon.daemon.id());
            std::fs::read_dir(folder).expect("it runs").count()
        };
        let memory = daemon.ok("ovs-appctl", "memory/show");
        let (_, spare) = memory.trim().split_once("spare packets:").expect("a count");
        Holdings {
            ports: daemon.shown()["br0"].len(),
            spare_packets: spare.parse().expect("a number"),
            descriptors: entries("fd"),
            threads: entries("task"),
        }
    }

    /// Asserts that a daemon has as much, at the latest when the connections of commands that
    /// were answered are closed.
    fn assert_again(self, daemon: &Daemon) {
        let start = Instant::now();
        let mut now = Holdings::of(daemon);
        while now != self && start.elapsed() < CLOSING {
            now = Holdings::of(daemon);
        }
        assert_eq!(now, self);
    }
}

/// A random change of the ports of `br0`: some of those that are `present` go, others come.
fn random_ports(random: &mut Pcg64Mcg, present: &mut BTreeSet<u32>) -> String {
    let mut words = Vec::new();
    for _ in 0..random.random_range(1..40) {
        let number = random.random_range(1..200);
        let name = format!("p{number}");
        words.push(match present.remove(&number) {
            true => format!("del-port br0 {name}"),
            false => {
                present.insert(number);
                let tag = random.random_range(1..3);
                format!("{} -- set Port {name} tag={tag}", dummy("br0", &name, ""))
            }
        });
    }
    words.join(" -- ")
}

/// Has some of the ports receive a packet for all.
fn send_to_all(daemon: &Daemon, present: &BTreeSet<u32>) {
    for number in present.iter().step_by(16) {
        // Each port has a station of its own.
        let source = format!("50:54:00:00:01:{number:02x}");
        let packet = format!(
            "netdev-dummy/receive p{number} in_port({number}),eth(src={source},\
             dst=ff:ff:ff:ff:ff:ff),eth_type(0x1234)"
        );
        daemon.ok("ovs-appctl", &packet);
    }
}

/// Ports, rules and stations come and go with traffic, again and again until none is left. Then
/// the daemon has the same ports, spare packets, descriptors and threads as before.
///
/// With `THALWEG_CHURN_SECONDS=3600` ports come and go for an hour, and the daemon's memory must
/// be flat too. In few rounds that says nothing: an allocator keeps more than a small leak takes.
#[test]
fn ports_that_come_and_go_leave_nothing_behind() {
    let asked = std::env::var(CHURN_SECONDS).ok();
    let asked = asked.map(|text| text.parse().expect("a number of seconds"));
    let least = asked.map(Duration::from_secs);
    let daemon = Daemon::start();
    daemon.vsctl(BRIDGE);
    daemon.ok("ovs-ofctl", "add-flow br0 actions=normal");
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut present: BTreeSet<u32> = BTreeSet::new();
    let before = Holdings::of(&daemon);
    let start = Instant::now();
    let mut resident = Vec::new();
    while resident.len() < CHURN_ROUNDS || least.is_some_and(|least| start.elapsed() < least) {
        daemon.vsctl(&random_ports(&mut random, &mut present));
        send_to_all(&daemon, &present);
        resident.push(daemon.resident_bytes());
        if resident.len() % 60 == 0 {
            let ports = std::mem::take(&mut present).into_iter();
            let gone: Vec<String> = ports.map(|port| format!("del-port p{port}")).collect();
            daemon.vsctl(&gone.join(" -- "));
            // Entries of ports that are gone stay until they have been idle for long enough.
            daemon.ok("ovs-appctl", "revalidator/purge");
            before.assert_again(&daemon);
        }
    }
    if least.is_some() {
        assert_flat(&resident);
    }
    daemon.stop();
}

/// Asserts that memory does not grow after the first quarter of the rounds.
fn assert_flat(resident: &[u64]) {
    let quarter = resident.len() / 4;
    let most = |rounds: &[u64]| rounds.iter().copied().max().unwrap_or(0);
    let before = most(&resident[quarter..2 * quarter]);
    let after = most(&resident[3 * quarter..]);
    println!("{} rounds: {before} bytes, then {after}", resident.len());
    let allowed = before + CHURN_SLACK;
    assert!(after <= allowed, "{before} bytes became {after}");
}
