//! A private switch that takes its configuration from a database: Open vSwitch from the system's
//! packages, or Thalweg's daemon in its place.
//!
//! It has the userspace datapath with dummy ports, as Open vSwitch's own tests have, so that it
//! needs no privileges. Database, sockets and logs are in one temporary folder. Both daemons are
//! children of this process, and end with the value.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant as Wall};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;

use crate::memory::{all_processor_ns_of, processor_ns_of, resident_bytes_of};

/// The database's schema, where Debian installs it.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// The time that a daemon may take to open its socket.
const START_MAX: Duration = Duration::from_secs(20);
const PACKAGE: &str = "is the package openvswitch-switch there?";

/// A switch that can be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum MeasuredSwitch {
    /// This program's
    Thalweg,
    /// Open vSwitch from the system's packages
    #[value(name = "open-vswitch")]
    OpenVSwitch,
}

impl MeasuredSwitch {
    /// Its name in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            MeasuredSwitch::Thalweg => "Thalweg",
            MeasuredSwitch::OpenVSwitch => "Open vSwitch",
        }
    }

    /// Those that were asked for, each once.
    pub(crate) fn each_once(asked: &[MeasuredSwitch]) -> Vec<MeasuredSwitch> {
        let mut switches = Vec::new();
        for switch in asked {
            if !switches.contains(switch) {
                switches.push(*switch);
            }
        }
        switches
    }
}

/// The program of a switch, and the words before its arguments.
#[derive(Clone, Debug)]
pub(crate) struct SwitchProgram {
    path: PathBuf,
    first: &'static [&'static str],
}

impl SwitchProgram {
    /// The daemon of the system's packages.
    pub(crate) fn open_vswitch() -> SwitchProgram {
        SwitchProgram {
            path: "ovs-vswitchd".into(),
            first: &[],
        }
    }

    /// This program's daemon.
    ///
    /// # Errors
    /// If the system does not say where this program is.
    pub(crate) fn thalweg() -> Result<SwitchProgram> {
        Ok(SwitchProgram {
            path: std::env::current_exe()?,
            first: &["vswitchd"],
        })
    }
}

/// A running switch with the bridge `br0` and its ports 1 and 2.
pub(crate) struct PrivateSwitch {
    program: SwitchProgram,
    folder: tempfile::TempDir,
    daemons: Vec<Child>,
}

impl PrivateSwitch {
    /// Starts the daemons, and makes the bridge.
    ///
    /// # Errors
    /// If Open vSwitch is not installed or a daemon does not start.
    pub(crate) fn start(program: SwitchProgram) -> Result<PrivateSwitch> {
        let folder = tempfile::Builder::new()
            .prefix("thalweg-bench-ovs-")
            .tempdir()?;
        let mut peer = PrivateSwitch {
            program: program.clone(),
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
        let server = Path::new("ovsdb-server");
        peer.spawn(server, &[text(&database)?, &listening], &socket)?;
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
        peer.spawn(
            &program.path,
            &[program.first, &switch].concat(),
            &management,
        )?;
        Ok(peer)
    }

    /// The socket that OpenFlow clients connect to.
    pub(crate) fn management(&self) -> PathBuf {
        self.path("br0.mgmt")
    }

    /// The socket of its database.
    pub(crate) fn database(&self) -> PathBuf {
        self.path("db.sock")
    }

    /// Bytes of memory that the switch uses now.
    pub(crate) fn resident_bytes(&self) -> Option<u64> {
        resident_bytes_of(&self.process()?)
    }

    /// Nanoseconds that the processors have spent on its threads.
    pub(crate) fn processor_ns(&self) -> Option<u64> {
        processor_ns_of(&self.process()?, None)
    }

    /// The same with threads that have ended, to a tick of the system's clock.
    pub(crate) fn all_processor_ns(&self) -> Option<u64> {
        all_processor_ns_of(&self.process()?)
    }

    /// Makes sure that the switch has not ended.
    ///
    /// # Errors
    /// If it has.
    pub(crate) fn expect_alive(&mut self) -> Result<()> {
        let ended = self.daemons.last_mut().map(Child::try_wait).transpose()?;
        match ended.flatten() {
            Some(status) => bail!("{} has ended: {status}", self.program.path.display()),
            None => Ok(()),
        }
    }

    /// The number of the switch's process.
    pub(crate) fn process(&self) -> Option<String> {
        Some(self.daemons.last()?.id().to_string())
    }

    /// The version that the switch tells.
    pub(crate) fn version(&self) -> Result<String> {
        let arguments = [self.program.first, &["--version"]].concat();
        let told = self.run(&self.program.path, &arguments)?;
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
    fn spawn(&mut self, program: &Path, arguments: &[&str], socket: &Path) -> Result<()> {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let log = self.path(&format!("{name}.log"));
        let mut command = self.command(program);
        command.args(arguments);
        for (option, ending) in [("--unixctl", "ctl"), ("--pidfile", "pid")] {
            let path = self.path(&format!("{name}.{ending}"));
            command.arg(format!("{option}={}", path.display()));
        }
        command.stdout(Stdio::null()).stderr(File::create(&log)?);
        let child = command.spawn();
        self.daemons
            .push(child.with_context(|| format!("{name}: {PACKAGE}"))?);
        let start = Wall::now();
        while UnixStream::connect(socket).is_err() {
            let ended = match self.daemons.last_mut() {
                Some(daemon) => daemon.try_wait()?.is_some(),
                None => true,
            };
            if ended || start.elapsed() > START_MAX {
                let told = fs::read_to_string(&log).unwrap_or_default();
                bail!("{name} did not start: {}", told.trim());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for PrivateSwitch {
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
