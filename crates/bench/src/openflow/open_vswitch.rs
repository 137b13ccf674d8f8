//! A private Open vSwitch from the system's packages: the peer.
//!
//! It has the userspace datapath with dummy ports, as its own tests have, so that it needs no
//! privileges. Database, sockets and logs are in one temporary folder. Both daemons are
//! children of this process, and end with the value.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant as Wall};

use anyhow::{Context, Result, bail, ensure};

use crate::memory::resident_bytes_of;

/// The database's schema, where Debian installs it.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// The time that a daemon may take to open its socket.
const START_MAX: Duration = Duration::from_secs(20);
const PACKAGE: &str = "is the package openvswitch-switch there? Without it, give \
                       `--switch thalweg`";

/// A running Open vSwitch with the bridge `br0` and its ports 1 and 2.
pub(super) struct OpenVSwitch {
    folder: tempfile::TempDir,
    daemons: Vec<Child>,
}

impl OpenVSwitch {
    /// Starts the daemons, and makes the bridge.
    ///
    /// # Errors
    /// If Open vSwitch is not installed or does not start.
    pub(super) fn start() -> Result<OpenVSwitch> {
        let folder = tempfile::Builder::new()
            .prefix("thalweg-bench-ovs-")
            .tempdir()?;
        let mut peer = OpenVSwitch {
            folder,
            daemons: Vec::new(),
        };
        let (database, socket) = (peer.path("conf.db"), peer.path("db.sock"));
        let remote = format!("unix:{}", socket.display());
        peer.run(
            Path::new("ovsdb-tool"),
            &["create", text(&database)?, SCHEMA],
        )?;
        let listening = format!("--remote=p{remote}");
        peer.spawn("ovsdb-server", &[text(&database)?, &listening], &socket)?;
        let ask = format!("--db={remote}");
        let vsctl = Path::new("ovs-vsctl");
        peer.run(vsctl, &[&ask, "--no-wait", "init"])?;
        let bridge = "--no-wait add-br br0 \
            -- set bridge br0 datapath-type=dummy fail-mode=secure \
            other-config:disable-in-band=true \
            -- add-port br0 p1 -- set interface p1 type=dummy ofport_request=1 \
            -- add-port br0 p2 -- set interface p2 type=dummy ofport_request=2";
        let words: Vec<&str> = std::iter::once(ask.as_str())
            .chain(bridge.split_whitespace())
            .collect();
        peer.run(vsctl, &words)?;
        let switch = ["--enable-dummy=override", "--disable-system", &remote];
        let management = peer.management();
        peer.spawn("ovs-vswitchd", &switch, &management)?;
        Ok(peer)
    }

    /// The socket that OpenFlow clients connect to.
    pub(super) fn management(&self) -> PathBuf {
        self.path("br0.mgmt")
    }

    /// Bytes of memory that the switch uses now.
    pub(super) fn resident_bytes(&self) -> Option<u64> {
        resident_bytes_of(&self.process()?)
    }

    /// The number of the switch's process.
    pub(super) fn process(&self) -> Option<String> {
        Some(self.daemons.last()?.id().to_string())
    }

    /// The version that the switch tells.
    pub(super) fn version(&self) -> Result<String> {
        let told = self.run(Path::new("ovs-vswitchd"), &["--version"])?;
        let line = told.lines().next().unwrap_or_default();
        Ok(line.rsplit(' ').next().unwrap_or_default().to_owned())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        for name in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(name, self.folder.path());
        }
        command.stdin(Stdio::null());
        command
    }

    /// Runs a program to its end; returns what it printed.
    fn run(&self, program: &Path, arguments: &[&str]) -> Result<String> {
        let output = self.command(program).args(arguments).output();
        let output = output.with_context(|| format!("{}: {PACKAGE}", program.display()))?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        let name = program.display();
        ensure!(output.status.success(), "{name}: {}", complaint.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Starts a daemon, and waits until its socket takes connections.
    fn spawn(&mut self, program: &str, arguments: &[&str], socket: &Path) -> Result<()> {
        let log = self.path(&format!("{program}.log"));
        let mut command = self.command(Path::new(program));
        for (option, ending) in [("--unixctl", "ctl"), ("--pidfile", "pid")] {
            let path = self.path(&format!("{program}.{ending}"));
            command.arg(format!("{option}={}", path.display()));
        }
        command.args(arguments);
        command.stdout(Stdio::null()).stderr(File::create(&log)?);
        let child = command.spawn();
        self.daemons
            .push(child.with_context(|| format!("{program}: {PACKAGE}"))?);
        let start = Wall::now();
        while UnixStream::connect(socket).is_err() {
            let ended = match self.daemons.last_mut() {
                Some(daemon) => daemon.try_wait()?.is_some(),
                None => true,
            };
            if ended || start.elapsed() > START_MAX {
                let told = fs::read_to_string(&log).unwrap_or_default();
                bail!("{program} did not start: {}", told.trim());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for OpenVSwitch {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            // It may have ended by itself.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn text(path: &Path) -> Result<&str> {
    let text = path.to_str();
    text.with_context(|| format!("{}: a path that is no text", path.display()))
}
