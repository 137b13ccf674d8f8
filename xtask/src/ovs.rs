//! Runs a private Open vSwitch with its *dummy* datapath, and asks what it does with packets.
//!
//! The differential runs compare our interpreter and our masks with `ofproto/trace` of the
//! real switch. The dummy datapath is that of Open vSwitch's own tests: no kernel module, no
//! interfaces, no privileges beyond the caller's. Database, sockets and logs lie in one
//! temporary folder; nothing outside it is touched.
//!
//! A trace is requested over the daemon's control socket (`ovs/control.rs`) instead of by
//! starting `ovs-appctl`, so that thousands a second are possible. `ovs/trace.rs` parses its
//! text.
//!
//! Invariants:
//! 1. Both daemons are children of this process and end when [`DummySwitch`] is dropped, even
//!    when construction fails half way.
//! 2. The bridge `br0` starts without rules and drops packets that match no rule (fail mode
//!    "secure").
//! 3. Port `pN` has OpenFlow number N and datapath number N, so that `output:N` in rules and
//!    `N` in datapath actions mean the same.
//!
//! Cost: the time of a trace does not depend on the number of rules. If this process is killed
//! (`SIGKILL`), its daemons and their folder remain.

mod control;
mod forward;
mod trace;

use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use self::control::Control;
pub use self::trace::Trace;

/// The database schema, where Debian installs it.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// The OpenFlow version for loading rules: the newest, so that all syntax is known.
const OPENFLOW: &str = "OpenFlow15";
/// The time a daemon may take to open its socket.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A private running Open vSwitch with one bridge `br0`; dropping it ends the daemons.
pub struct DummySwitch {
    daemons: Daemons,
    control: Control,
    /// By port, from 1: the bytes of its capture read so far.
    captured_bytes: Vec<usize>,
}

/// The daemons and their folder, in a separate type so that a failed start ends them
/// (invariant 1).
struct Daemons {
    folder: tempfile::TempDir,
    children: Vec<Child>,
}

impl DummySwitch {
    /// Starts the daemons and creates `br0` with the ports `p1` to `p<port_count>`.
    ///
    /// # Errors
    /// If Open vSwitch is not installed or does not start; the text has the end of its log.
    pub fn start(port_count: u16) -> anyhow::Result<Self> {
        Self::start_daemon(port_count, Command::new("ovs-vswitchd"))
    }

    /// As [`DummySwitch::start`], with another program in the daemon's place.
    ///
    /// # Errors
    /// If Open vSwitch is not installed or the daemon does not start; the text has the end of
    /// its log.
    pub fn start_daemon(port_count: u16, mut switch: Command) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("thalweg-ovs-").tempdir()?;
        let mut daemons = Daemons {
            folder,
            children: Vec::new(),
        };
        let database = daemons.path("conf.db");
        daemons.run(
            Command::new("ovsdb-tool")
                .arg("create")
                .arg(&database)
                .arg(SCHEMA),
        )?;
        let mut server = Command::new("ovsdb-server");
        server
            .arg(&database)
            .arg(format!("--remote=p{}", daemons.database()));
        daemons.spawn(server, "ovsdb", "db.sock")?;
        daemons.configure(&["--no-wait", "init"])?;
        switch.args(["--enable-dummy=override", "--disable-system"]);
        switch.arg(daemons.database());
        daemons.spawn(switch, "vswitchd", "vswitchd.ctl")?;
        daemons.make_bridge(port_count)?;
        let control = Control::connect(&daemons.path("vswitchd.ctl"))?;
        Ok(Self {
            daemons,
            control,
            captured_bytes: vec![0; usize::from(port_count)],
        })
    }

    /// Adds the rules of a file in `ovs-ofctl add-flows` syntax; all or none.
    pub fn load_rules(&self, path: &Path) -> anyhow::Result<()> {
        self.load("add-flows", path)
    }

    /// Adds the groups of a file in `ovs-ofctl add-groups` syntax.
    pub fn load_groups(&self, path: &Path) -> anyhow::Result<()> {
        self.load("add-groups", path)
    }

    /// Removes every rule and every group.
    pub fn clear(&self) -> anyhow::Result<()> {
        for command in ["del-flows", "del-groups"] {
            self.flow_command(&[command.as_ref(), self.bridge().as_ref()])?;
        }
        Ok(())
    }

    /// Runs an `ovs-ofctl` command, with the bridge's address as its second word.
    pub fn bridge_command(&self, command: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let bridge = self.bridge();
        let mut words = vec![command.as_ref(), bridge.as_ref()];
        words.extend(arguments.iter().map(Path::new));
        self.flow_command(&words)
    }

    /// Changes the database by `ovs-vsctl`.
    pub fn configure(&self, words: &[&str]) -> anyhow::Result<String> {
        self.daemons.configure(words)
    }

    /// Runs an `ovs-ofctl` command on a bridge in a version of OpenFlow (`OpenFlow15`).
    pub fn command_on(
        &self,
        bridge: &str,
        openflow: &str,
        command: &str,
        arguments: &[&str],
    ) -> anyhow::Result<String> {
        let bridge = self.daemons.path(&format!("{bridge}.mgmt"));
        let mut process = Command::new("ovs-ofctl");
        process.args(["-O", openflow, command]).arg(bridge);
        self.daemons.run(process.args(arguments))
    }

    /// Makes one call on the control socket, such as `version` or `dpif/dump-flows`.
    pub fn call(&mut self, method: &str, parameters: &[&str]) -> anyhow::Result<String> {
        self.control.call(method, parameters)
    }

    /// Traces `packet` (from the Ethernet header on), arriving at `in_port`.
    pub fn trace(&mut self, in_port: u16, packet: &[u8]) -> anyhow::Result<Trace> {
        let mut digits = String::with_capacity(packet.len() * 2);
        for byte in packet {
            write!(digits, "{byte:02x}").context("writing to a string")?;
        }
        self.trace_with_metadata(&format!("in_port={in_port}"), &digits)
    }

    /// Traces a packet in hexadecimal, with any metadata (`in_port=1,tun_id=7`).
    pub fn trace_with_metadata(
        &mut self,
        metadata: &str,
        packet_digits: &str,
    ) -> anyhow::Result<Trace> {
        let text = self
            .control
            .call("ofproto/trace", &["br0", metadata, packet_digits])?;
        Trace::parse(text)
    }

    fn load(&self, command: &str, path: &Path) -> anyhow::Result<()> {
        self.flow_command(&[command.as_ref(), self.bridge().as_ref(), path])?;
        Ok(())
    }

    fn flow_command(&self, words: &[&Path]) -> anyhow::Result<String> {
        self.daemons
            .run(Command::new("ovs-ofctl").args(["-O", OPENFLOW]).args(words))
    }

    fn bridge(&self) -> PathBuf {
        self.daemons.path("br0.mgmt")
    }
}

impl Daemons {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn database(&self) -> String {
        format!("unix:{}", self.path("db.sock").display())
    }

    /// Points Open vSwitch's folder variables at the temporary folder.
    fn with_folders<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        for name in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(name, self.folder.path());
        }
        command.stdin(Stdio::null())
    }

    /// Starts a daemon in the foreground and waits until `socket` is there.
    fn spawn(&mut self, mut command: Command, name: &str, socket: &str) -> anyhow::Result<()> {
        let log_path = self.path(&format!("{name}.log"));
        let log = File::create(&log_path)?;
        command.arg(format!(
            "--unixctl={}",
            self.path(&format!("{name}.ctl")).display()
        ));
        command.arg(format!(
            "--pidfile={}",
            self.path(&format!("{name}.pid")).display()
        ));
        command.stdout(Stdio::null()).stderr(log);
        let child = self
            .with_folders(&mut command)
            .spawn()
            .with_context(|| format!("{command:?}: is the package openvswitch-switch there?"))?;
        self.children.push(child);
        let start = Instant::now();
        while !self.path(socket).exists() {
            let is_over = match self.children.last_mut() {
                Some(child) => child.try_wait()?.is_some(),
                None => true,
            };
            if is_over || start.elapsed() > START_LIMIT {
                let log = std::fs::read_to_string(&log_path).unwrap_or_default();
                bail!("{name} did not start: {}", last_lines(&log, 5));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Runs a command to its end; returns what it printed.
    fn run(&self, command: &mut Command) -> anyhow::Result<String> {
        let output = self
            .with_folders(command)
            .output()
            .with_context(|| format!("{command:?}: is the package openvswitch-switch there?"))?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!("{command:?} failed: {}", complaint.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn configure(&self, words: &[&str]) -> anyhow::Result<String> {
        let database = format!("--db={}", self.database());
        self.run(
            Command::new("ovs-vsctl")
                .arg(database)
                .arg("--timeout=60")
                .args(words),
        )
    }

    /// The capture file of packets that leave by a port.
    fn capture(&self, port: u16) -> PathBuf {
        self.path(&format!("p{port}.pcap"))
    }

    /// Creates the bridge and its ports in one transaction; two VLAN tags are parsed instead
    /// of one.
    fn make_bridge(&self, port_count: u16) -> anyhow::Result<()> {
        let mut text = "add-br br0 -- set bridge br0 datapath-type=dummy fail-mode=secure \
            other-config:disable-in-band=true -- set Open_vSwitch . other_config:vlan-limit=2"
            .to_owned();
        for number in 1..=port_count {
            write!(
                text,
                " -- add-port br0 p{number} -- set interface p{number} type=dummy \
                 ofport_request={number} options:ifindex={number} options:tx_pcap={}",
                self.capture(number).display()
            )
            .context("writing to a string")?;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        self.configure(&words)?;
        Ok(())
    }
}

impl Drop for Daemons {
    /// Ends the daemons; errors no longer matter here.
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Arguments of `cargo xtask ovs-trace`.
pub struct TraceRequest {
    /// A file in `ovs-ofctl add-flows` syntax.
    pub rules: PathBuf,
    /// A file in `ovs-ofctl add-groups` syntax.
    pub groups: Option<PathBuf>,
    /// Packets in hexadecimal.
    pub packets: Vec<String>,
    /// The port on which they arrive.
    pub in_port: u16,
    /// Number of ports on the bridge.
    pub ports: u16,
    /// How often to trace each packet.
    pub repeat: u32,
}

/// Prints the three relevant lines of each packet's trace.
pub fn print_traces(request: &TraceRequest) -> anyhow::Result<()> {
    let mut switch = DummySwitch::start(request.ports)?;
    if let Some(groups) = &request.groups {
        switch.load_groups(groups)?;
    }
    switch.load_rules(&request.rules)?;
    let metadata = format!("in_port={}", request.in_port);
    let start = Instant::now();
    for digits in &request.packets {
        let trace = switch.trace_with_metadata(&metadata, digits)?;
        println!("Final flow: {}", trace.final_flow);
        println!("Megaflow: {}", trace.megaflow);
        println!("Datapath actions: {}", trace.datapath_actions);
        for _ in 1..request.repeat {
            switch.trace_with_metadata(&metadata, digits)?;
        }
    }
    if request.repeat > 1 {
        let traces = request.packets.len() as f64 * f64::from(request.repeat);
        eprintln!(
            "{:.0} traces a second",
            traces / start.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

#[cfg(all(test, feature = "privileged-tests"))]
mod tests;
