//! `thalweg ctl`: has a running switch carry out a command.
//!
//! The switch is `thalweg run` with `[control]`, or the daemon, whose commands are those of
//! `ovs-appctl`. `list-commands` says which a switch has.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use thalweg_command::console::Console;
use thalweg_command::failure::bad_input;
use thalweg_unixctl::{ControlClient, ControlClientError, target_path};

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
    let path = target_path(arguments.target.as_deref())?;
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
