//! Tests `thalweg run` and the daemon with ports of AF_XDP, in network namespaces. Needs root,
//! iproute2 and Debian's Open vSwitch.
//!
//! ```text
//!   left  10.0.0.1 --veth-- p1 (af_xdp, native)   switch
//!   right 10.0.0.2 --veth-- p2 (af_xdp, generic)  switch
//! ```

#[path = "../../io/tests/namespace/mod.rs"]
#[allow(dead_code)]
mod namespace;
mod program;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use namespace::{Namespace, eventually};
use program::{Program, TIMEOUT};
use rustix::process::Signal;

const CONFIG: &str = r#"
[switch]
name = "br0"
workers = 2
rules = ["all.rules"]
[[port]]
number = 1
name = "p1"
kind = "af_xdp"
xdp_mode = "native"
[[port]]
number = 2
name = "p2"
kind = "af_xdp"
xdp_mode = "generic"
"#;

/// The hosts and the switch's namespace between them.
struct Hosts {
    left: Namespace,
    right: Namespace,
    switch: Namespace,
}

impl Hosts {
    fn new() -> Hosts {
        let hosts = Hosts {
            left: Namespace::new("left"),
            right: Namespace::new("right"),
            switch: Namespace::new("switch"),
        };
        let ends = [
            (&hosts.left, "p1", "10.0.0.1/24"),
            (&hosts.right, "p2", "10.0.0.2/24"),
        ];
        for (host, port, address) in ends {
            let veth = ["link", "add", "e0", "type", "veth", "peer", "name", port];
            host.ip(&[&veth[..], &["netns", &hosts.switch.name]].concat());
            // A port in generic mode has no room for frames of several segments.
            host.ip(&["link", "set", "e0", "gso_max_segs", "1"]);
            host.ip(&["addr", "add", address, "dev", "e0"]);
            host.ip(&["link", "set", "e0", "up"]);
            hosts.switch.ip(&["link", "set", port, "up"]);
        }
        hosts
    }

    /// What `ip` says of the switch's interfaces.
    fn programs(&self) -> [String; 2] {
        ["p1", "p2"].map(|port| self.switch.ip(&["link", "show", "dev", port]))
    }

    /// Sends bytes from the left to the right host and back.
    fn echo(&self, bytes: &[u8]) {
        let target: SocketAddr = "10.0.0.2:5001".parse().unwrap();
        let listener = self.right.enter(|| TcpListener::bind(target).unwrap());
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut received = vec![0; bytes.len()];
                stream.set_read_timeout(Some(TIMEOUT)).unwrap();
                stream.read_exact(&mut received).unwrap();
                stream.write_all(&received).unwrap();
            });
            let mut received = vec![0; bytes.len()];
            self.left.enter(|| {
                let mut stream = TcpStream::connect_timeout(&target, TIMEOUT).unwrap();
                stream.set_read_timeout(Some(TIMEOUT)).unwrap();
                stream.write_all(bytes).unwrap();
                stream.read_exact(&mut received).unwrap();
            });
            assert!(received == bytes);
            other.join().unwrap();
        });
    }
}

#[test]
fn hosts_talk_through_af_xdp_and_nothing_is_left_of_a_killed_switch() {
    let hosts = Hosts::new();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("br0.toml"), CONFIG).unwrap();
    std::fs::write(folder.path().join("all.rules"), "actions=normal\n").unwrap();
    let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    for signal in [Signal::KILL, Signal::TERM] {
        let start = || Program::start_json(&folder.path().join("br0.toml"));
        let program = hosts.switch.enter(start);
        program.wait_for_part("port 1 (p1): AF_XDP, native, on one queue");
        program.wait_for_part("port 2 (p2): AF_XDP, generic, on one queue");
        program.wait_for("ready");
        let [native, generic] = hosts.programs();
        assert!(
            native.contains(" xdp ") && native.contains("name thalweg_xdp"),
            "{native}"
        );
        assert!(generic.contains(" xdpgeneric ") && generic.contains("name thalweg_xdp"));
        hosts.echo(&bytes);
        let ended = program.end(signal);
        let expected = (signal == Signal::TERM).then_some(0);
        assert_eq!(ended.status, expected);
        eventually(
            "the kernel has let go of the dead process's programs",
            || hosts.programs().iter().all(|shown| !shown.contains("xdp")),
        );
    }
}

/// Programs that end with this.
#[derive(Default)]
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A program whose sockets are in a folder.
fn command(folder: &Path, program: &str, words: &str) -> Command {
    let mut command = Command::new(program);
    for name in ["RUNDIR", "LOGDIR", "DBDIR", "SYSCONFDIR"] {
        command.env(format!("OVS_{name}"), folder);
    }
    command.env("OVS_SYSLOG_METHOD", "null");
    command.current_dir(folder).stdin(Stdio::null());
    command.args(words.split_whitespace());
    command
}

#[test]
fn the_daemon_has_interfaces_of_type_afxdp_as_open_vswitch_has() {
    let host = Namespace::new("daemon");
    host.ip(&["link", "add", "h0", "type", "veth", "peer", "name", "h1"]);
    host.ip(&["link", "set", "h0", "up"]);
    host.ip(&["link", "set", "h1", "up"]);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let run = |program: &str, words: &str| {
        let output = command(folder, program, words).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.trim().to_owned()
    };
    let schema = "/usr/share/openvswitch/vswitch.ovsschema";
    run("ovsdb-tool", &format!("create conf.db {schema}"));
    let mut children = Children::default();
    let server = "--remote=punix:db.sock conf.db -vconsole:off";
    let server = command(folder, "ovsdb-server", server).spawn().unwrap();
    children.0.push(server);
    eventually("the server listens", || folder.join("db.sock").exists());
    let words = "vswitchd --pidfile --log-file -vconsole:off";
    let daemon = || command(folder, env!("CARGO_BIN_EXE_thalweg"), words).spawn();
    children.0.push(host.enter(daemon).unwrap());
    let vsctl = |words: &str| run("ovs-vsctl", &format!("--timeout=30 {words}"));

    vsctl("--no-wait init");
    vsctl("add-br br0 -- add-port br0 h1 -- set interface h1 type=afxdp options:xdp-mode=native");
    assert_eq!(vsctl("get interface h1 status"), "{xdp-mode=native}");
    let shown = run("ovs-appctl", "dpif/show");
    assert!(
        shown.contains(": (afxdp: n_rxq=1, xdp-mode=native)"),
        "{shown}"
    );
    let program = || host.ip(&["link", "show", "dev", "h1"]);
    assert!(program().contains(" xdp "), "{}", program());
    let types = vsctl("get open_vswitch . iface_types");
    assert!(types.contains("afxdp, afxdp-nonpmd"), "{types}");

    vsctl("set interface h1 options:xdp-mode=generic");
    assert_eq!(vsctl("get interface h1 status"), "{xdp-mode=generic}");
    assert!(program().contains(" xdpgeneric "), "{}", program());
    for (settings, error) in [
        ("options:xdp-mode=fast", "Incorrect xdp-mode (fast)."),
        (
            "options:xdp-mode=native options:n_rxq=17",
            "Too big 'n_rxq' (17 > 16).",
        ),
        ("options:n_rxq=2", "has 1 receive queues, and 2 were asked"),
    ] {
        vsctl(&format!("set interface h1 {settings}"));
        let said = vsctl("get interface h1 error");
        assert!(said.contains(error), "{said}");
        assert!(!program().contains("xdp"), "{}", program());
    }
}
