//! Debian's `ovsdb-server` and the daemon as children, with sockets and files in one folder.

// Each test program uses only a part of this module.
#![allow(dead_code)]

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that finds Open vSwitch's files and sockets in a folder.
pub(crate) fn command(folder: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    for name in ["RUNDIR", "LOGDIR", "DBDIR", "SYSCONFDIR"] {
        command.env(format!("OVS_{name}"), folder);
    }
    command.env("OVS_SYSLOG_METHOD", "null");
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// Runs a program with words as arguments; returns what it says, and whether it succeeded.
pub(crate) fn run(folder: &Path, program: &str, words: &str) -> (String, bool) {
    let mut command = command(folder, program);
    if program == "ovs-vsctl" {
        command.arg("--timeout=60");
    }
    let output = command.args(words.split_whitespace()).output();
    let output = output.expect("it is installed");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (text, output.status.success())
}

/// Runs a program, which must succeed.
pub(crate) fn ok(folder: &Path, program: &str, words: &str) -> String {
    let (text, is_ok) = run(folder, program, words);
    assert!(is_ok, "{program} {words}: {text}");
    text
}

/// Waits until something is so.
pub(crate) fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Makes an empty database.
pub(crate) fn create_database(folder: &Path) {
    ok(folder, "ovsdb-tool", &format!("create conf.db {SCHEMA}"));
}

/// Starts the server of the database; it listens when this returns.
pub(crate) fn start_server(folder: &Path) -> Child {
    let socket = folder.join("db.sock");
    let _ = std::fs::remove_file(&socket);
    let mut server = command(folder, "ovsdb-server");
    server.args(["--remote=punix:db.sock", "conf.db", "-vconsole:off"]);
    let server = server.spawn().expect("ovsdb-server is installed");
    // The file is there before the server listens.
    await_that("the database listens", || {
        UnixStream::connect(&socket).is_ok()
    });
    server
}

/// Starts the daemon.
pub(crate) fn start_daemon(folder: &Path) -> Child {
    let mut daemon = command(folder, env!("CARGO_BIN_EXE_thalweg"));
    let options = ["--enable-dummy", "--pidfile", "--log-file", "-vconsole:off"];
    daemon.arg("vswitchd").args(options);
    daemon.spawn().expect("it was built")
}

/// What the daemon has logged.
pub(crate) fn log(folder: &Path) -> String {
    let log = std::fs::read_to_string(folder.join("ovs-vswitchd.log"));
    log.unwrap_or_default()
}
