//! The commands of the control socket, by their names.

mod by_hand;
mod connections;
mod coverage;
mod datapath;
mod dummy;
mod flows;
mod fragments;
mod own;
mod process;
mod rules;
mod stations;
mod trace;
mod tunnels;
mod upcalls;
mod workers;

pub(super) use workers::WorkerSums;

use thalweg_unixctl::{ControlCommand, ControlCommands, ControlRequest};

use super::Daemon;
use crate::vlog::VLOG_COMMANDS;

/// Carries out a command with its arguments.
type Handler = fn(&mut Daemon, &[String]) -> Result<String, String>;

/// A command and its function.
type Entry = (ControlCommand, Handler);

/// All commands but those of the log.
const TABLES: [&[Entry]; 15] = [
    by_hand::COMMANDS,
    connections::COMMANDS,
    coverage::COMMANDS,
    datapath::COMMANDS,
    dummy::COMMANDS,
    flows::COMMANDS,
    fragments::COMMANDS,
    own::COMMANDS,
    process::COMMANDS,
    rules::COMMANDS,
    stations::COMMANDS,
    trace::COMMANDS,
    tunnels::COMMANDS,
    upcalls::COMMANDS,
    workers::COMMANDS,
];

/// Makes the commands known.
pub(super) fn add_to(commands: &mut ControlCommands) {
    commands.add(&VLOG_COMMANDS);
    for (command, _) in TABLES.into_iter().flatten() {
        commands.add(&[*command]);
    }
}

/// Carries out a command that is known.
pub(super) fn handle(daemon: &mut Daemon, request: &ControlRequest) -> Result<String, String> {
    if let Some(answer) = daemon.log.handle(request) {
        daemon.follow_log();
        return answer;
    }
    let mut entries = TABLES.into_iter().flatten();
    let found = entries.find(|(command, _)| command.name == request.command);
    match found {
        Some((_, handler)) => handler(daemon, &request.arguments),
        None => Err(format!("\"{}\" is not a valid command", request.command)),
    }
}
