//! Tests `thalweg run` with ports of AF_XDP between two hosts in network namespaces. Needs root and
//! iproute2.
//!
//! ```text
//!   left  10.0.0.1 --veth-- p1 (af_xdp, native)   switch
//!   right 10.0.0.2 --veth-- p2 (af_xdp, generic)  switch
//! ```

#[path = "../../io/tests/namespace/mod.rs"]
#[allow(dead_code)]
mod namespace;
#[allow(dead_code)]
mod program;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

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
