//! A folder in which daemons run, and what they say.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// In the environment of a process of this program that is a daemon.
pub(crate) const AS_DAEMON: &str = "THALWEG_TEST_DAEMON";

/// A wait that ends in an error.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a program said, and how it ended.
pub(crate) struct Said {
    pub(crate) output: String,
    pub(crate) errors: String,
    pub(crate) status: ExitStatus,
}

impl Said {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

/// A folder with the files of daemons; what runs there ends with it.
pub(crate) struct Fixture(TempDir);

impl Fixture {
    pub(crate) fn new() -> Fixture {
        let folder = tempfile::tempdir().expect("a folder");
        // A daemon of another user writes there also.
        let all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), all).expect("it is ours");
        Fixture(folder)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The names of the files, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder()).expect("it is there");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            let name = entry.expect("it is there").file_name();
            name.into_string().expect("it is text")
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    /// The daemon's log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("ovs-vswitchd.log")).expect("it has a log")
    }

    /// The number in the pidfile, if there is one.
    pub(crate) fn read_pid(&self) -> Option<u32> {
        let text = std::fs::read_to_string(self.path("ovs-vswitchd.pid"));
        text.ok()?.trim().parse().ok()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.read_pid().expect("it has a pidfile")
    }

    /// Waits until the daemon of the pidfile answers.
    pub(crate) fn wait_ready(&self) {
        wait_until("it listens", || {
            let pid = self.read_pid();
            let name = pid.map(|pid| format!("ovs-vswitchd.{pid}.ctl"));
            name.is_some_and(|name| UnixStream::connect(self.path(&name)).is_ok())
        });
    }

    fn command(&self, program: &OsStr, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        for variable in ["RUNDIR", "LOGDIR", "DBDIR", "SYSCONFDIR"] {
            command.env(format!("OVS_{variable}"), self.folder());
        }
        command
            .args(arguments)
            .env("OVS_SYSLOG_METHOD", "null")
            .env("TZ", "UTC0")
            .current_dir(self.folder())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn own(&self, arguments: &[&str]) -> Command {
        // A shell in the background or nohup may have these ignored, and the daemon respects that.
        let as_usual = "--default-signal=HUP,INT,TERM,ALRM";
        let program = std::env::current_exe().expect("it runs");
        let mut command = self.command("env".as_ref(), &[as_usual]);
        command.arg(program).args(arguments).env(AS_DAEMON, "1");
        command
    }

    /// Runs the daemon, and waits until the process that was started ends.
    pub(crate) fn daemon(&self, arguments: &[&str]) -> Said {
        Running::new(self.own(arguments)).wait()
    }

    /// Starts the daemon.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Running {
        Running::new(self.own(arguments))
    }

    /// Starts the daemon by a shell that ignores a signal.
    pub(crate) fn spawn_ignoring(&self, signal: &str, arguments: &[&str]) -> Running {
        let program = std::env::current_exe().expect("it runs");
        let script = format!("trap '' {signal}; exec \"$0\" \"$@\"");
        let mut command = self.command("sh".as_ref(), &["-c", &script]);
        command.arg(program).args(arguments).env(AS_DAEMON, "1");
        Running::new(command)
    }

    /// Runs a script, for which the daemon is `ovs-vswitchd`.
    pub(crate) fn script(&self, script: &str) -> Said {
        let folder = tempfile::tempdir().expect("a folder");
        let program = std::env::current_exe().expect("it runs");
        let link = folder.path().join("ovs-vswitchd");
        std::os::unix::fs::symlink(program, link).expect("it is made");
        let path = std::env::var("PATH").expect("it is set");
        let mut command = self.command("sh".as_ref(), &["-c", script]);
        command
            .env("PATH", format!("{}:{path}", folder.path().display()))
            .env(AS_DAEMON, "1");
        Running::new(command).wait()
    }

    /// Starts Open vSwitch's own daemon.
    pub(crate) fn spawn_real(&self, arguments: &[&str]) -> Running {
        Running::new(self.command("ovs-vswitchd".as_ref(), arguments))
    }

    /// Asks a daemon to do nothing for ever.
    pub(crate) fn stall(&self, socket: &Path) -> Running {
        let target = socket.to_str().expect("it is text");
        Running::new(self.command("ovs-appctl".as_ref(), &["-t", target, "stall"]))
    }

    /// Runs a program of Open vSwitch.
    pub(crate) fn tool(&self, program: &str, arguments: &[&str]) -> Said {
        Running::new(self.command(program.as_ref(), arguments)).wait()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // Only what a failed test left.
        if let Some(pid) = self.read_pid().filter(|pid| is_running(*pid)) {
            kill(pid, "KILL");
        }
    }
}

/// A program that runs.
pub(crate) struct Running(Child);

impl Running {
    fn new(mut command: Command) -> Running {
        Running(command.spawn().expect("it is installed"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn kill(&self, signal: &str) {
        kill(self.pid(), signal);
    }

    /// Lets it run on, until a command or the end of its fixture ends it.
    pub(crate) fn leave(mut self) {
        std::thread::spawn(move || self.0.wait());
    }

    pub(crate) fn wait(self) -> Said {
        let output = self.0.wait_with_output().expect("it ends");
        let [said, errors] = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8(bytes).expect("it is text"));
        Said {
            output: said,
            errors,
            status: output.status,
        }
    }
}

pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "not so: {what}");
        std::thread::yield_now();
    }
}

pub(crate) fn kill(pid: u32, signal: &str) {
    let pid = pid.to_string();
    let status = Command::new("kill").args(["-s", signal, &pid]).status();
    assert!(
        status.expect("it is installed").success(),
        "{signal} to {pid}"
    );
}

/// Whether a process runs; one that only waits for its parent does not.
pub(crate) fn is_running(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    status.is_ok_and(|status| !status.contains(") Z "))
}

fn field(pid: u32, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix(name));
    line.expect("it is there").trim().to_owned()
}

pub(crate) fn parent(pid: u32) -> u32 {
    field(pid, "PPid:").parse().expect("a number")
}

pub(crate) fn name(pid: u32) -> String {
    field(pid, "Name:")
}

pub(crate) fn is_root() -> bool {
    field(std::process::id(), "Uid:").starts_with("0\t")
}
