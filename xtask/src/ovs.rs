//! A private Open vSwitch with its *dummy* datapath, which says what it would do with a packet.
//!
//! The differential runs compare our interpreter and our masks with `ofproto/trace` of the real
//! thing. The dummy datapath is the one of Open vSwitch's own tests: no kernel module, no
//! interfaces, no privileges beyond those of whoever starts it. Database, sockets and logs lie in
//! one temporary folder, and nothing outside of it is touched.
//!
//! A trace is asked for over the daemon's control socket (`ovs/control.rs`) and not by starting
//! `ovs-appctl`, so that thousands a second are possible; its text is taken apart in
//! `ovs/trace.rs`.
//!
//! Invariants:
//! 1. Both daemons are children of this process and end when [`DummySwitch`] is dropped, also
//!    while it is half built.
//! 2. The bridge `br0` starts without rules and drops what no rule matches (fail mode "secure").
//! 3. Port `pN` has OpenFlow number N and datapath number N, so that `output:N` in rules and
//!    `N` in datapath actions mean the same.
//!
//! Costs: a tenth of a second to start; 0.2 to 0.4 ms a trace, whatever the number of rules.
//! A process that is killed outright (`SIGKILL`) leaves its daemons and their folder behind.

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

/// Where Debian puts the table definitions of the database.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// The version of OpenFlow that rules are loaded with; the newest, so that all syntax is known.
const OPENFLOW: &str = "OpenFlow15";
/// How long a daemon may take to open its socket.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A running Open vSwitch of our own, with one bridge `br0`; it ends when this is dropped.
pub struct DummySwitch {
    daemons: Daemons,
    control: Control,
    /// By port, from 1: how much of its capture has been read.
    captured_bytes: Vec<usize>,
}

/// The daemons and their folder, apart so that a failing start ends them too (invariant 1).
struct Daemons {
    folder: tempfile::TempDir,
    children: Vec<Child>,
}

impl DummySwitch {
    /// Starts the daemons and makes `br0` with the ports `p1` to `p<port_count>`.
    ///
    /// # Errors
    /// If Open vSwitch is not installed, or does not start; the text has the end of its log.
    pub fn start(port_count: u16) -> anyhow::Result<Self> {
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
        let mut switch = Command::new("ovs-vswitchd");
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

    /// Any `ovs-ofctl` command, with the bridge's address in the second place.
    pub fn bridge_command(&self, command: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let bridge = self.bridge();
        let mut words = vec![command.as_ref(), bridge.as_ref()];
        words.extend(arguments.iter().map(Path::new));
        self.flow_command(&words)
    }

    /// One call on the control socket, such as `version` or `dpif/dump-flows`.
    pub fn call(&mut self, method: &str, parameters: &[&str]) -> anyhow::Result<String> {
        self.control.call(method, parameters)
    }

    /// What the switch does with `packet` (from the Ethernet header on) arriving at `in_port`.
    pub fn trace(&mut self, in_port: u16, packet: &[u8]) -> anyhow::Result<Trace> {
        let mut digits = String::with_capacity(packet.len() * 2);
        for byte in packet {
            write!(digits, "{byte:02x}").context("writing to a string")?;
        }
        self.trace_with_metadata(&format!("in_port={in_port}"), &digits)
    }

    /// The same with any metadata (`in_port=1,tun_id=7`) and the packet in hexadecimal.
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

    /// Open vSwitch's own variables for its folders all point to ours.
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

    /// Runs a command to its end; what it printed.
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

    /// Where what leaves by a port is written.
    fn capture(&self, port: u16) -> PathBuf {
        self.path(&format!("p{port}.pcap"))
    }

    /// One transaction: the bridge, its ports, and two VLAN tags looked at instead of one.
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
    /// Ends the daemons; what goes wrong here can no longer matter to anyone.
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

/// What `cargo xtask ovs-trace` was asked.
pub struct TraceRequest {
    /// A file in `ovs-ofctl add-flows` syntax.
    pub rules: PathBuf,
    /// A file in `ovs-ofctl add-groups` syntax.
    pub groups: Option<PathBuf>,
    /// Packets in hexadecimal.
    pub packets: Vec<String>,
    /// The port on which they arrive.
    pub in_port: u16,
    /// How many ports the bridge has.
    pub ports: u16,
    /// How often to trace each of them.
    pub repeat: u32,
}

/// Prints the three lines that matter of each packet's trace.
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
