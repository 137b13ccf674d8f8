//! `thalweg ctl`: has a running switch carry out a command.
//!
//! The switch is `thalweg run` with `[control]`, or the daemon, whose commands are those of
//! `ovs-appctl`. `list-commands` says which a switch has.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_unixctl::{ControlClient, ControlClientError, control_path};

/// Where daemons have their pidfiles and sockets, if `OVS_RUNDIR` does not say.
const RUN_FOLDER: &str = "/var/run/openvswitch";
/// The daemon's name in its pidfile and socket.
const DAEMON: &str = "ovs-vswitchd";
/// The command whose answer is itself an object with `--json`.
const STATISTICS: &str = "statistics";

/// The command's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The switch: the path of its control socket, or its process's number; without it, the
    /// daemon of the pidfile
    #[arg(long, short, value_name = "PATH|PID")]
    target: Option<String>,
    /// Seconds until the whole answer must be there; without it, as long as it takes
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u32>,
    /// The command, such as `list-commands`
    command: String,
    /// The command's arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Has the switch carry out the command, and prints its answer.
///
/// # Errors
/// If there is no such switch, or it is late; if it refuses the command, which is bad input.
pub(crate) fn execute(arguments: &Arguments, console: &Console) -> Result<()> {
    let patience = arguments.timeout.filter(|seconds| *seconds > 0);
    let patience = patience.map(|seconds| Duration::from_secs(seconds.into()));
    // A time past the clock's end is as long as it takes.
    let deadline = patience.and_then(|patience| Instant::now().checked_add(patience));
    let path = match &arguments.target {
        Some(target) => path_of(target)?,
        None => daemon_path()?,
    };
    let mut words = arguments.arguments.clone();
    let is_object = console.is_json() && arguments.command == STATISTICS;
    if is_object && words.is_empty() {
        words.push("--json".to_owned());
    }
    let client = ControlClient::connect(&path, deadline);
    let answer = client.and_then(|mut client| client.call(&arguments.command, &words));
    let answer = answer.map_err(|error| match error {
        ControlClientError::Refused(_) => bad_input(error),
        error => anyhow::Error::new(error),
    })?;
    let object: Option<Value> = is_object
        .then(|| serde_json::from_str(&answer))
        .transpose()?;
    let named = || json!({"command": arguments.command, "result": answer});
    console.print_json(&object.unwrap_or_else(named))?;
    match answer.trim_end_matches('\n') {
        "" => Ok(()),
        text => console.print(text),
    }
}

/// The socket of a target.
fn path_of(target: &str) -> Result<PathBuf> {
    match target.parse::<u32>() {
        Ok(pid) => control_path(pid)
            .map_err(|error| anyhow!("--target {pid}: no control socket ({error})")),
        Err(_) => Ok(PathBuf::from(target)),
    }
}

/// The socket of the daemon that has the pidfile, as `ovs-appctl` finds it.
fn daemon_path() -> Result<PathBuf> {
    let folder = std::env::var_os("OVS_RUNDIR").unwrap_or_else(|| RUN_FOLDER.into());
    let folder = Path::new(&folder);
    let pidfile = folder.join(format!("{DAEMON}.pid"));
    let pid = std::fs::read_to_string(&pidfile).map_err(|error| {
        let pidfile = pidfile.display();
        anyhow!(
            "name the switch by --target PATH or --target PID: no daemon has a pidfile \
             ({pidfile}: {error})"
        )
    })?;
    Ok(folder.join(format!("{DAEMON}.{}.ctl", pid.trim())))
}
