//! The dashboard in a browser: Debian's Chromium looks at the daemon while packets come in.

mod daemon;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// A database server and a daemon, with a folder of their own.
struct Daemon {
    folder: tempfile::TempDir,
    children: Vec<Child>,
}

impl Daemon {
    fn start() -> Daemon {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        daemon::create_database(path);
        let server = daemon::start_server(path);
        let daemon = Daemon {
            children: vec![server, daemon::start_daemon(path)],
            folder,
        };
        daemon.ok("ovs-vsctl", "--no-wait init");
        daemon
    }

    fn ok(&self, program: &str, words: &str) -> String {
        daemon::ok(self.folder.path(), program, words)
    }

    fn log(&self) -> String {
        daemon::log(self.folder.path())
    }

    /// Where the dashboard is, by the log.
    fn dashboard(&self) -> String {
        let log = self.log();
        let (_, behind) = log.rsplit_once("dashboard at ").expect("it is logged");
        behind.lines().next().expect("an address").to_owned()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The page at `url` as a browser has it when much of its own time has passed.
fn page(folder: &Path, url: &str) -> String {
    // A browser that hangs fails the test.
    let mut browser = Command::new("timeout");
    browser.args([
        "--kill-after=5",
        "180",
        "chromium",
        "--headless",
        "--dump-dom",
    ]);
    // Containers have no sandbox, and little shared memory.
    browser.args(["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]);
    browser.args(["--virtual-time-budget=600000", "--window-size=1280,900"]);
    browser.arg(format!(
        "--user-data-dir={}",
        folder.join("browser").display()
    ));
    browser.env("HOME", folder).arg(url);
    let output = browser.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = output.expect("chromium is installed");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A daemon with a bridge, two ports, rules of two tables, and a dashboard.
fn bridge() -> Daemon {
    let daemon = Daemon::start();
    let port = |name: &str| format!("-- add-port br0 {name} -- set Interface {name} type=dummy");
    daemon.ok(
        "ovs-vsctl",
        &format!(
            "add-br br0 -- set Bridge br0 datapath_type=dummy fail_mode=secure {} {} \
             -- set Open_vSwitch . other_config:thalweg-dashboard=\"127.0.0.1:0\"",
            port("p1"),
            port("p2")
        ),
    );
    for rule in [
        "table=0,priority=9,in_port=1,dl_type=0x1234,actions=resubmit(,10)",
        "table=10,actions=output:2",
        "table=0,priority=1,actions=drop",
    ] {
        daemon.ok("ovs-ofctl", &format!("add-flow br0 {rule}"));
    }
    daemon
}

#[test]
fn a_browser_shows_a_running_switch() {
    let daemon = bridge();
    let url = daemon.dashboard();
    let is_over = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in (0..).take_while(|_| !is_over.load(Ordering::SeqCst)) {
                let kind = 0x1234 + number % 2;
                let flow = format!(
                    "in_port(1),eth(src=50:54:00:00:00:09,dst=50:54:00:00:00:0a),\
                     eth_type({kind:#x})"
                );
                daemon.ok("ovs-appctl", &format!("netdev-dummy/receive p1 {flow}"));
            }
        });
        let asked = "in_port=1,dl_type=0x1235";
        let seen = page(daemon.folder.path(), &format!("{url}#explain={asked}"));
        is_over.store(true, Ordering::SeqCst);
        seen
    });
    for part in [
        // It was answered more than once, and nothing failed.
        "class=\"live\">live</p>",
        // The graph, with what goes through it.
        ">br0 table 0</text>",
        ">br0 table 10</text>",
        ">port p1</text>",
        ">port p2</text>",
        "br0 table 0 to br0 table 10: ",
        // The layers over time.
        "class=\"area microflow\"",
        // Drops, with a packet, and ports.
        ">action<small>bridge br0, table 0: ",
        "\nsuch as in_port(1),",
        ">p2<small>br0</small></td>",
        // The entries, and the explanation.
        "eth_type(0x1235)",
        "Why its mask has",
    ] {
        assert!(seen.contains(part), "{part:?} is not in: {seen}");
    }
    assert!(
        !seen.contains("no answer") && !seen.contains("a fault of"),
        "{seen}"
    );
}

#[test]
fn the_dashboard_follows_the_database() {
    let daemon = bridge();
    assert!(daemon.dashboard().starts_with("http://127.0.0.1:"));
    daemon.ok(
        "ovs-vsctl",
        "set Open_vSwitch . other_config:thalweg-dashboard=\"0.0.0.0:0\"",
    );
    let refused = "0.0.0.0:0 is not a loopback address";
    assert!(daemon.log().contains(refused), "{}", daemon.log());
    daemon.ok(
        "ovs-vsctl",
        "set Open_vSwitch . other_config:thalweg-dashboard-remote=true",
    );
    assert!(daemon.dashboard().starts_with("http://0.0.0.0:"));
    daemon.ok(
        "ovs-vsctl",
        "remove Open_vSwitch . other_config thalweg-dashboard",
    );
    let address = daemon.dashboard();
    let address = address
        .trim_start_matches("http://0.0.0.0:")
        .trim_end_matches('/');
    let port: u16 = address.parse().expect("a port");
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
}
