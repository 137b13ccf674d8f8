//! The daemon in ovs-vswitchd's place, killed and started again, with Debian's `ovsdb-server`,
//! `ovs-vsctl`, `ovs-ofctl` and `ovs-appctl`, and dummy ports. Needs no privileges.

mod daemon;

use std::net::TcpListener;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};

use daemon::{await_that, run};

/// A database server and perhaps a daemon, with a folder of their own.
struct Scene {
    folder: tempfile::TempDir,
    server: Child,
    daemon: Option<Child>,
}

impl Scene {
    /// A database without a daemon.
    fn new() -> Scene {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        daemon::create_database(path);
        let server = daemon::start_server(path);
        let scene = Scene {
            server,
            daemon: None,
            folder,
        };
        scene.ok("ovs-vsctl", "--no-wait init");
        scene
    }

    fn start(&mut self) {
        self.daemon = Some(daemon::start_daemon(self.folder.path()));
    }

    /// Ends the daemon as a crash does.
    fn kill(&mut self) {
        let mut daemon = self.daemon.take().expect("it runs");
        daemon.kill().expect("it runs");
        daemon.wait().expect("it was started");
    }

    fn ok(&self, program: &str, words: &str) -> String {
        daemon::ok(self.folder.path(), program, words)
    }

    fn vsctl(&self, words: &str) -> String {
        self.ok("ovs-vsctl", words)
    }

    fn appctl(&self, words: &str) -> String {
        self.ok("ovs-appctl", words)
    }

    fn log(&self) -> String {
        daemon::log(self.folder.path())
    }

    /// What a switch knows, without times.
    fn state(&self) -> Vec<String> {
        let mut state = Vec::new();
        for (program, words) in [
            ("ovs-ofctl", "-OOpenFlow14 dump-flows --no-stats br0"),
            ("ovs-ofctl", "-OOpenFlow15 dump-groups br0"),
            ("ovs-ofctl", "-OOpenFlow13 dump-meters br0"),
            ("ovs-ofctl", "dump-tlv-map br0"),
            ("ovs-appctl", "dpctl/dump-conntrack"),
        ] {
            let said = self.ok(program, words);
            let mut lines: Vec<String> = said
                .lines()
                .filter(|line| !line.contains("xid="))
                .map(|line| line.trim().to_owned())
                .collect();
            lines.sort();
            state.extend(lines);
        }
        let table = self.appctl("fdb/show br0");
        let stations = table.lines().skip(1).map(|line| {
            let words: Vec<&str> = line.split_whitespace().take(3).collect();
            words.join(" ")
        });
        state.extend(stations);
        state
    }

    /// The rules, sorted.
    fn rules(&self) -> Vec<String> {
        let said = self.ok("ovs-ofctl", "-OOpenFlow13 dump-flows --no-stats br0");
        let mut rules: Vec<String> = said.lines().map(|line| line.trim().to_owned()).collect();
        rules.sort();
        rules
    }

    /// Waits until all that was done before is in a snapshot, kills the daemon, and starts another
    /// one that has read the snapshot and whose servers have had their turns.
    fn crash(&mut self) {
        // Two more snapshots: the second began after all of it.
        let before = self.snapshots();
        await_that("snapshots are written", || self.snapshots() >= before + 2);
        self.kill();
        self.start();
        let folder = self.folder.path();
        await_that("it answers", || run(folder, "ovs-appctl", "version").1);
        await_that("it has read the snapshot", || {
            self.appctl("thalweg/comeback").contains("are there again")
        });
        self.meet();
    }

    /// Has the daemon follow a configuration: its servers have had their turns then.
    fn meet(&self) {
        for value in ["one", "two"] {
            self.vsctl(&format!("set Open_vSwitch . other_config:seen={value}"));
        }
    }

    /// Packets that a rule has counted.
    fn packets_of(&self, cookie: &str) -> u64 {
        let said = self.ok("ovs-ofctl", &format!("dump-flows br0 cookie={cookie}/-1"));
        let (_, behind) = said.split_once("n_packets=").expect("the rule is there");
        let (count, _) = behind.split_once(',').expect("more counts");
        count.parse().expect("a number")
    }

    fn snapshots(&self) -> u64 {
        let said = self.appctl("thalweg/comeback");
        let mut lines = said.lines();
        let count = lines.find_map(|line| line.strip_prefix("snapshots written: "));
        count.map_or(0, |count| count.parse().expect("a number"))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for child in self.daemon.iter_mut().chain([&mut self.server]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn bridge() -> String {
    let port = |name: &str| format!("add-port br0 {name} -- set Interface {name} type=dummy");
    format!(
        "add-br br0 -- set Bridge br0 datapath_type=dummy fail_mode=secure -- {} -- {}",
        port("p1"),
        port("p2")
    )
}

fn packet(source: u8) -> String {
    format!(
        "netdev-dummy/receive p1 in_port(1),eth(src=50:54:00:00:00:{source:02x},\
         dst=50:54:00:00:00:fe),eth_type(0x0800),ipv4(src=10.0.0.1,dst=10.0.0.2,proto=17,tos=0,\
         ttl=64,frag=no),udp(src={},dst=53)",
        1_000 + u16::from(source)
    )
}

/// The daemon is killed while packets come in; the next one has all that it knew.
#[test]
fn a_daemon_that_was_killed_comes_back() {
    let mut scene = Scene::new();
    scene.start();
    scene.vsctl(&bridge());
    let settings = "thalweg-snapshot=true other_config:thalweg-snapshot-interval-ms=100";
    scene.vsctl(&format!("set Open_vSwitch . other_config:{settings}"));
    for words in [
        "-OOpenFlow13 add-meter br0 meter=5,kbps,burst,bands=type=drop,rate=9000,burst_size=900",
        "-OOpenFlow15 add-group br0 group_id=7,type=select,bucket=bucket_id:3,weight:5,output:2",
        "add-tlv-map br0 {class=0xffff,type=2,len=4}->tun_metadata3",
        "-OOpenFlow14 add-flow br0 cookie=0x1,priority=3,importance=9,udp,\
         actions=ct(commit,zone=4,exec(set_field:6->ct_mark)),normal",
        "-OOpenFlow14 add-flow br0 cookie=0x2,hard_timeout=900,send_flow_rem,tun_metadata3=1,\
         actions=group:7",
        "-OOpenFlow14 add-flow br0 cookie=0x3,table=2,dl_vlan=5,actions=meter:5,output:p2",
    ] {
        scene.ok("ovs-ofctl", words);
    }
    (0..20).for_each(|source| drop(scene.appctl(&packet(source))));
    let expected = scene.state();
    assert!(expected.len() > 45, "{expected:#?}");
    // Two more snapshots: the second began after all of it.
    let before = scene.snapshots();
    await_that("snapshots are written", || scene.snapshots() >= before + 2);
    let counted = scene.packets_of("0x1");
    assert_eq!(counted, 20);
    let is_over = AtomicBool::new(false);
    let folder = scene.folder.path().to_owned();
    std::thread::scope(|threads| {
        // Clients lose their connection when the daemon dies.
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                run(&folder, "ovs-appctl", &packet(3));
            }
        });
        await_that("packets come in", || scene.packets_of("0x1") > counted);
        scene.kill();
        is_over.store(true, Ordering::Relaxed);
    });
    scene.start();
    scene.vsctl("wait-until Interface p2 ofport=2");
    await_that("it answers", || run(&folder, "ovs-appctl", "version").1);
    await_that("it has read the snapshot", || {
        scene.appctl("thalweg/comeback").contains("are there again")
    });
    assert_eq!(scene.state(), expected);
    assert!(scene.packets_of("0x1") >= counted);
    // A packet of a connection that is known is not new.
    scene.ok(
        "ovs-ofctl",
        "add-flow br0 priority=9,udp,ct_state=-trk,actions=ct(table=1,zone=4)",
    );
    scene.ok(
        "ovs-ofctl",
        "add-flow br0 cookie=0x8,table=1,ct_mark=6,ct_state=+trk-inv,actions=drop",
    );
    scene.appctl(&packet(4));
    assert_eq!(scene.packets_of("0x8"), 1);
}

const SNAPSHOTS: &str = "set Open_vSwitch . other_config:thalweg-snapshot=true \
                         other_config:thalweg-snapshot-interval-ms=100";

/// A bridge without controllers begins with a rule that forwards everything. Where rules come
/// back it does not: what was denied stays denied.
#[test]
fn what_was_denied_stays_denied() {
    let mut scene = Scene::new();
    scene.start();
    scene.vsctl(&format!(
        "add-br br0 -- set Bridge br0 datapath_type=dummy -- {SNAPSHOTS}"
    ));
    assert_eq!(scene.rules(), ["priority=0 actions=NORMAL"]);
    scene.crash();
    assert_eq!(scene.rules(), ["priority=0 actions=NORMAL"]);
    scene.ok("ovs-ofctl", "del-flows br0");
    for rule in [
        "",
        "priority=5,udp,actions=output:1",
        "priority=0,actions=drop",
    ] {
        if !rule.is_empty() {
            scene.ok("ovs-ofctl", &format!("-OOpenFlow13 add-flow br0 {rule}"));
        }
        let expected = scene.rules();
        assert_eq!(expected.is_empty(), rule.is_empty());
        scene.crash();
        assert_eq!(scene.rules(), expected);
        // Much later, too.
        scene.appctl("time/stop");
        scene.appctl("time/warp 600000");
        scene.meet();
        assert_eq!(scene.rules(), expected);
    }
}

/// A snapshot that cannot be read now is not damaged, and may be all that is left of the state.
#[test]
fn a_snapshot_that_another_process_has_stays_as_it_is() {
    let mut scene = Scene::new();
    scene.start();
    scene.vsctl(&format!("{} -- {SNAPSHOTS}", bridge()));
    scene.ok("ovs-ofctl", "add-flow br0 cookie=0x7,actions=drop");
    let before = scene.snapshots();
    await_that("snapshots are written", || scene.snapshots() >= before + 2);
    scene.kill();
    let path = scene.folder.path().join("thalweg.snapshot");
    let kept = std::fs::read(&path).expect("there is one");
    let other = std::fs::File::open(&path).expect("there is one");
    other.lock().expect("no other process has it");
    scene.start();
    let folder = scene.folder.path().to_owned();
    await_that("it answers", || run(&folder, "ovs-appctl", "version").1);
    scene.meet();
    let log = scene.log();
    assert!(log.contains("another process uses it"), "{log}");
    drop(other);
    // Some intervals later.
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(
        scene
            .appctl("thalweg/comeback")
            .contains("snapshot file: none")
    );
    assert!(std::fs::read(&path).expect("it is there") == kept);
    scene.kill();
    scene.start();
    await_that("it has read the snapshot", || {
        run(&folder, "ovs-appctl", "thalweg/comeback")
            .0
            .contains("are there again")
    });
    assert!(scene.rules().iter().any(|rule| rule.contains("cookie=0x7")));
}

/// A bridge whose OpenFlow settings change keeps its rules, and gets none.
#[test]
fn other_settings_leave_rules_alone() {
    let mut scene = Scene::new();
    scene.start();
    scene.vsctl("add-br br0 -- set Bridge br0 datapath_type=dummy");
    assert_eq!(scene.rules(), ["priority=0 actions=NORMAL"]);
    scene.ok(
        "ovs-ofctl",
        "-OOpenFlow13 add-flow br0 priority=0,actions=drop",
    );
    for settings in [
        "protocols=OpenFlow10,OpenFlow13",
        "other_config:datapath-id=00000000000000ab",
    ] {
        scene.vsctl(&format!("set Bridge br0 {settings}"));
        scene.meet();
        assert_eq!(scene.rules(), ["priority=0 actions=drop"], "{settings}");
    }
    let said = scene.ok("ovs-ofctl", "show br0");
    assert!(said.contains("dpid:00000000000000ab"), "{said}");
}

/// The rule that forwards while no controller answers does not come back, and the daemon waits as
/// long as ever before it is added again, although its clock shows hours.
#[test]
fn the_wait_for_a_controller_begins_again() {
    let mut scene = Scene::new();
    scene.start();
    scene.vsctl(SNAPSHOTS);
    scene.appctl("time/stop");
    scene.appctl("time/warp 7200000");
    // No program listens at port 1. Three probe intervals are half an hour.
    scene.vsctl(
        "add-br br0 -- set Bridge br0 datapath_type=dummy \
         -- set-controller br0 tcp:127.0.0.1:1 -- set Controller br0 inactivity_probe=600000",
    );
    for rule in ["priority=0,actions=drop", "priority=7,udp,actions=drop"] {
        scene.ok("ovs-ofctl", &format!("-OOpenFlow13 add-flow br0 {rule}"));
    }
    let (denying, other) = ("priority=0 actions=drop", "priority=7,udp actions=drop");
    scene.meet();
    assert_eq!(scene.rules(), [denying, other]);
    scene.crash();
    assert_eq!(scene.rules(), [denying, other]);
    scene.appctl("time/stop");
    scene.appctl("time/warp 1801000");
    scene.meet();
    let forwarding = "cookie=0x7468616c77656700, priority=0 actions=NORMAL";
    assert_eq!(scene.rules(), [forwarding, other]);
    scene.crash();
    assert_eq!(scene.rules(), [other]);
    let said = scene.appctl("thalweg/comeback");
    assert!(said.contains("; left out: 1 stand_in\n"), "{said}");
}

/// Without being asked, the daemon forgets its rules, as Open vSwitch does.
#[test]
fn nothing_comes_back_unless_asked() {
    let mut scene = Scene::new();
    scene.start();
    scene.vsctl(&bridge());
    scene.ok("ovs-ofctl", "add-flow br0 actions=drop");
    scene.kill();
    scene.start();
    scene.vsctl("set Bridge br0 other_config:seen=1");
    assert_eq!(scene.ok("ovs-ofctl", "dump-flows --no-stats br0"), "");
    let said = scene.appctl("thalweg/comeback");
    assert!(
        said.contains("flow-restore-wait: not asked for\n"),
        "{said}"
    );
    assert!(said.contains("snapshot file: none\n"), "{said}");
}

/// Packets and controllers wait for rules; those that were added meanwhile stay.
#[test]
fn packets_and_controllers_wait_for_rules() {
    let mut scene = Scene::new();
    let controller = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    controller.set_nonblocking(true).expect("it can be asked");
    let port = controller.local_addr().expect("it is bound").port();
    scene.vsctl(&format!(
        "--no-wait {} -- set-controller br0 tcp:127.0.0.1:{port} \
         -- set Open_vSwitch . other_config:flow-restore-wait=true",
        bridge()
    ));
    scene.start();
    scene.vsctl("set Bridge br0 other_config:seen=1");
    scene.ok("ovs-ofctl", "add-flow br0 cookie=0x5,actions=output:2");
    scene.appctl(&packet(1));
    await_that("the packet is dropped", || {
        scene
            .appctl("thalweg/comeback")
            .contains("packets dropped meanwhile: 1\n")
    });
    let said = scene.appctl("thalweg/comeback");
    assert!(
        said.starts_with("flow-restore-wait: waiting for "),
        "{said}"
    );
    assert!(said.contains(" s, no deadline\n"), "{said}");
    assert!(controller.accept().is_err(), "no controller is connected");
    scene.vsctl("remove Open_vSwitch . other_config flow-restore-wait");
    let said = scene.appctl("thalweg/comeback");
    assert!(said.contains(" s, by the database\n"), "{said}");
    await_that("the controller is connected", || {
        controller.accept().is_ok()
    });
    scene.appctl(&packet(2));
    await_that("the packet is forwarded", || scene.packets_of("0x5") == 1);
    // Once is for ever.
    scene.vsctl("set Open_vSwitch . other_config:flow-restore-wait=true");
    scene.appctl(&packet(3));
    await_that("the packet is forwarded", || scene.packets_of("0x5") == 2);
}

/// With a deadline forwarding begins by itself.
#[test]
fn the_wait_for_rules_has_a_deadline() {
    let mut scene = Scene::new();
    let settings = "flow-restore-wait=true other_config:flow-restore-wait-deadline-ms=300";
    let set = format!("set Open_vSwitch . other_config:{settings}");
    scene.vsctl(&format!("--no-wait {} -- {set}", bridge()));
    scene.start();
    scene.vsctl("set Bridge br0 other_config:seen=1");
    scene.ok("ovs-ofctl", "add-flow br0 cookie=0x5,actions=output:2");
    await_that("the deadline ends it", || {
        scene
            .appctl("thalweg/comeback")
            .contains(" s, by its deadline\n")
    });
    let log = scene.log();
    assert!(
        log.contains("flow-restore-wait is still true after"),
        "{log}"
    );
    await_that("a packet is forwarded", || {
        scene.appctl(&packet(1));
        scene.packets_of("0x5") > 0
    });
}
