//! `[snapshot]`: a switch that is killed comes back with what it knew. Captures and sinks are the
//! ports: no privileges are needed.

mod program;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use program::{Program, TIMEOUT};
use rustix::process::Signal;
use thalweg_io::CaptureWriter;
use thalweg_packet::wire::{MacAddress, PacketBuilder};
use thalweg_pipeline::BridgeId;
use thalweg_switch::{SNAPSHOT_FORMAT, SnapshotFile, Switch, SwitchConfig, SwitchNames};

/// Connections of the capture.
const CONNECTIONS: u16 = 200;

const RULES: &str = "priority=5,ip,actions=ct(commit,zone=7),normal\n\
                     priority=1,actions=drop\n";

/// A configuration whose ports have these numbers.
fn config(first: u16, second: u16) -> String {
    format!(
        r#"
[switch]
name = "br0"
rules = ["r.rules"]
[control]
socket = "run.ctl"
[snapshot]
interval_ms = 100
[[port]]
number = {first}
name = "in"
kind = "pcap"
read = "in.pcap"
[[port]]
number = {second}
name = "out"
kind = "memory"
"#
    )
}

/// A folder with the files of a switch.
struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Scene {
        let scene = Scene(tempfile::tempdir().expect("there is room"));
        scene.write("br0.toml", &config(1, 2));
        scene.write("r.rules", RULES);
        scene
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("there is room");
    }

    /// The capture: each connection's packet, this many times.
    fn record(&self, rounds: usize) {
        let mut writer = CaptureWriter::create(&self.path("in.pcap")).expect("there is room");
        for round in 0..rounds {
            for port in 0..CONNECTIONS {
                let bytes = PacketBuilder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]))
                    .ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
                    .udp(1_000 + port, 53)
                    .build();
                let at = thalweg_packet::Instant::from_nanos(round as u64 * 1_000);
                writer.write(&bytes, at).expect("there is room");
            }
        }
        writer.flush().expect("there is room");
    }

    fn start(&self) -> Program {
        let program = Program::start_json(&self.path("br0.toml"));
        program.wait_for("ready");
        program
    }

    /// The answer to a command that must succeed.
    fn ok(&self, words: &[&str]) -> String {
        let mut client = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        client.arg("ctl").arg("--target").arg(self.path("run.ctl"));
        let output = client.args(words).output().expect("it is there");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Waits until a command's answer has a part.
    fn await_answer(&self, words: &[&str], part: &str) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let answer = self.ok(words);
            if answer.contains(part) {
                return answer;
            }
            assert!(
                Instant::now() < deadline,
                "{words:?} never had {part:?}: {answer}"
            );
        }
    }

    /// The rules as `ovs-ofctl` shows them, sorted. The server has had its first turn by then.
    fn flows(&self) -> Vec<String> {
        let mut client = Command::new("ovs-ofctl");
        client.args(["-OOpenFlow13", "--no-stats", "dump-flows"]);
        let socket = self.path("br0.mgmt");
        client.arg(format!("unix:{}", socket.display()));
        let output = client.output().expect("it is installed");
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stdout);
        let mut flows: Vec<String> = said.lines().map(|line| line.trim().to_owned()).collect();
        flows.sort();
        flows
    }

    /// The line of a rule, without its times.
    fn rule(&self, part: &str) -> String {
        let rules = self.ok(&["rules"]);
        let line = rules.lines().find(|line| line.contains(part));
        let line = line.unwrap_or_else(|| panic!("no {part} in {rules}"));
        let words = line
            .split(", ")
            .filter(|word| !word.trim().starts_with("duration="));
        words.collect::<Vec<_>>().join(", ")
    }
}

/// A switch is killed while packets come in, and the next one has its rules, counts, stations
/// and connections.
#[test]
fn a_switch_that_was_killed_comes_back() {
    let scene = Scene::new();
    scene.record(500);
    let program = scene.start();
    scene.ok(&[
        "rules/add",
        "cookie=0x77,priority=9,dl_vlan=5,actions=output:out",
    ]);
    // Three rules and all connections, of a snapshot that began after the rule was added.
    scene.await_answer(
        &["snapshot/show"],
        "last snapshot: 3 rules, 0 groups, 0 meters, 1 stations",
    );
    scene.await_answer(&["snapshot/show"], "200 connections in");
    program.end(Signal::KILL);
    scene.record(0);
    let program = scene.start();
    let shown = scene.ok(&["snapshot/show"]);
    let back = "restored: 3 rules, 0 groups, 0 meters, 1 stations and 200 connections are there";
    assert!(shown.starts_with(back), "{shown}");
    assert!(!shown.contains("left out"), "{shown}");
    let rule = scene.rule("priority=9");
    assert!(
        rule.contains("dl_vlan=5") && rule.ends_with("actions=output:2"),
        "{rule}"
    );
    let counted = scene.rule("priority=5");
    assert!(!counted.contains("n_packets=0"), "{counted}");
    let stations = scene.ok(&["fdb/show"]);
    assert!(stations.contains("02:02:02:02:02:02"), "{stations}");
    let connections = scene.ok(&["dpctl/dump-conntrack", "zone=7"]);
    assert_eq!(
        connections.lines().count(),
        usize::from(CONNECTIONS),
        "{connections}"
    );
    // At its end it keeps what it has, to the last packet.
    drop(program.end(Signal::TERM));
    let program = scene.start();
    assert_eq!(scene.rule("priority=5"), counted);
    drop(program.end(Signal::TERM));
}

/// Ports are found by their names under other numbers.
#[test]
fn ports_are_found_under_other_numbers() {
    let scene = Scene::new();
    scene.record(0);
    let program = scene.start();
    scene.ok(&[
        "rules/add",
        "cookie=0x9,priority=9,in_port=in,actions=output:out",
    ]);
    assert!(
        scene
            .rule("priority=9")
            .ends_with("in_port=1,actions=output:2")
    );
    drop(program.end(Signal::TERM));
    scene.write("br0.toml", &config(8, 9));
    let program = scene.start();
    let rule = scene.rule("priority=9");
    assert!(rule.ends_with("in_port=8,actions=output:9"), "{rule}");
    drop(program.end(Signal::TERM));
}

/// Files of rules that were edited meanwhile count, not the rules of the snapshot.
#[test]
fn edited_rules_come_before_saved_ones() {
    let scene = Scene::new();
    scene.record(1);
    let program = scene.start();
    scene.ok(&[
        "rules/add",
        "cookie=0x9,priority=9,dl_vlan=5,actions=output:out",
    ]);
    scene.await_answer(&["dpctl/dump-conntrack"], "sport=1199");
    drop(program.end(Signal::TERM));
    scene.record(0);
    scene.write("r.rules", "priority=77,actions=normal\n");
    let program = scene.start();
    let rules = scene.ok(&["rules"]);
    assert!(
        rules.contains("priority=77,") && !rules.contains("priority=9,"),
        "{rules}"
    );
    let connections = scene.ok(&["dpctl/dump-conntrack"]);
    assert_eq!(
        connections.lines().count(),
        usize::from(CONNECTIONS),
        "{connections}"
    );
    drop(program.end(Signal::TERM));
}

/// Rules of edited files are as old as this run, although the clock goes on from a former one.
#[test]
fn edited_rules_are_new_under_an_old_clock() {
    let scene = Scene::new();
    scene.record(0);
    let mut former = Switch::start(SwitchConfig::default(), Vec::new()).expect("it starts");
    former.clock().stop();
    former.clock().advance(Duration::from_secs(7_200));
    let names = SwitchNames {
        bridges: vec![(BridgeId::default(), "br0".to_owned())],
        ports: Vec::new(),
    };
    let file = SnapshotFile::new(scene.path("br0.snapshot"), SNAPSHOT_FORMAT);
    let capture = former.capture(&names, 0);
    capture.write(&file).expect("there is room");
    former.stop();
    scene.write("r.rules", "hard_timeout=600,priority=77,actions=normal\n");
    let program = scene.start();
    let shown = scene.ok(&["snapshot/show"]);
    assert!(shown.starts_with("restored: 0 rules, "), "{shown}");
    // Timeouts are looked at between commands.
    for _ in 0..10 {
        drop(scene.rule("priority=77"));
    }
    drop(program.end(Signal::TERM));
}

/// A switch without controllers begins with a rule that forwards everything. Where rules come
/// back it does not: what was denied stays denied.
#[test]
fn a_standalone_switch_replaces_nothing_that_comes_back() {
    let scene = Scene::new();
    let configure = |fail_mode: &str| {
        let openflow = format!("[openflow]\nfail_mode = \"{fail_mode}\"\n");
        scene.write("br0.toml", &format!("{}{openflow}", config(1, 2)));
    };
    configure("standalone");
    scene.write("r.rules", "priority=5,udp,actions=drop\n");
    scene.record(0);
    let program = scene.start();
    let (other, forwarding) = ("priority=5,udp actions=drop", "priority=0 actions=NORMAL");
    assert_eq!(scene.flows(), [forwarding, other]);
    scene.ok(&["rules/add", "cookie=0x9,priority=0,actions=drop"]);
    scene.ok(&["rules/add", "cookie=0x9,priority=9,actions=output:out"]);
    scene.await_answer(&["snapshot/show"], "last snapshot: 3 rules");
    let expected = scene.flows();
    assert!(!expected.contains(&forwarding.to_owned()), "{expected:?}");
    program.end(Signal::KILL);
    let program = scene.start();
    assert_eq!(scene.flows(), expected);
    drop(program.end(Signal::TERM));
    // A switch that begins to stand alone, or ends it, has what its files say.
    configure("secure");
    let program = scene.start();
    assert_eq!(scene.flows(), [other]);
    drop(program.end(Signal::TERM));
    configure("standalone");
    let program = scene.start();
    assert_eq!(scene.flows(), [forwarding, other]);
    drop(program.end(Signal::TERM));
}

/// What becomes of a file.
type Damage<'a> = &'a dyn Fn(&mut Vec<u8>);

/// A file that cannot be used is kept under another name, and the switch starts by its files.
#[test]
fn a_damaged_snapshot_stops_nothing() {
    let scene = Scene::new();
    scene.record(0);
    drop(scene.start().end(Signal::TERM));
    let path = scene.path("br0.snapshot");
    let whole = std::fs::read(&path).expect("it was written");
    let damages: [Damage<'_>; 3] = [
        &|bytes| bytes.truncate(bytes.len() / 2),
        &|bytes| bytes[30] ^= 1,
        &|bytes| *bytes = b"of something else".to_vec(),
    ];
    for damage in damages {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        std::fs::write(&path, &bytes).expect("there is room");
        let program = Program::start_json(&scene.path("br0.toml"));
        let said = program.wait_for_part("the switch starts by its configuration alone");
        assert!(said.contains("it is kept as"), "{said}");
        program.wait_for("ready");
        assert!(scene.rule("priority=5").contains("n_packets=0"));
        assert_eq!(std::fs::read(aside(&path)).expect("it is kept"), bytes);
        drop(program.end(Signal::TERM));
    }
}

fn aside(path: &Path) -> std::path::PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(".refused");
    name.into()
}
