//! `[control]`: `thalweg ctl` and `ovs-appctl` ask a running switch, and change it.
//!
//! ```text
//!   client --> ControlSocket, on its thread --> the run's loop, which owns the switch --> answer
//! ```
//!
//! 1. Workers do nothing for a command but answer what the loop asks them, between two bursts.
//! 2. Connections, requests and answers are bounded ([`ControlConfig::BOUNDED`]), and so is the
//!    number of commands between two looks at the switch.
//! 3. What a command changes is one version of the rules, or nothing.

mod answers;
mod changes;
mod names;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use thalweg_command::console::Console;
use thalweg_config::Configuration;
use thalweg_switch::Switch;
use thalweg_unixctl::{
    ControlCommand, ControlCommands, ControlConfig, ControlNote, ControlNotes, ControlRequest,
    ControlSocket, PendingCommand,
};
use thalweg_vswitchd::trace::FrozenTraces;
use tracing::{debug, error, info, warn};

pub(super) use self::names::RunNames;
use super::Running;
use super::logging::module::CONTROL;
use super::openflow::OpenFlow;

/// Bytes kept of the packet for which an entry was made: all headers, with IPv6 extensions.
const SAMPLE_BYTES: usize = 160;

/// Most commands between two looks at the switch.
const COMMANDS_MAX: usize = ControlConfig::BOUNDED.connections_max;

/// What the command `version` answers.
const VERSION: &str = concat!("thalweg ", env!("CARGO_PKG_VERSION"));

/// Carries out a command with its arguments.
type Handler = fn(&mut Asked<'_>, &[String]) -> Result<String, String>;

/// A command and its function.
type Entry = (ControlCommand, Handler);

/// All commands.
const TABLES: [&[Entry]; 2] = [answers::COMMANDS, changes::COMMANDS];

/// The socket; nothing without the section.
pub(super) struct Control {
    socket: ControlSocket,
    /// What traces of packets froze.
    traces: FrozenTraces,
    /// The command that ends the run; it is answered when ports and workers are gone.
    exit: Option<PendingCommand>,
}

/// What a command is carried out with.
struct Asked<'a> {
    running: &'a mut Running,
    switch: &'a mut Switch,
    openflow: &'a OpenFlow,
    traces: &'a mut FrozenTraces,
    console: &'a Console,
    must_exit: bool,
}

/// Keeps what commands and the dashboard show of packets, if the configuration has either.
pub(super) fn prepare(config: &mut Configuration) {
    if config.control.is_some() || config.dashboard.is_some() {
        config.switch.datapath.megaflow.sample_bytes = SAMPLE_BYTES;
    }
}

impl Control {
    /// Listens if the configuration has the section.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub(super) fn start(config: &Configuration, switch: &Switch) -> Result<Control> {
        let socket = match &config.control {
            Some(path) => listen(path, switch)?,
            None => ControlSocket::none(),
        };
        Ok(Control {
            socket,
            traces: FrozenTraces::default(),
            exit: None,
        })
    }

    /// Carries out the commands that wait; returns whether there may be more.
    pub(super) fn serve(
        &mut self,
        running: &mut Running,
        switch: &mut Switch,
        openflow: &OpenFlow,
        console: &Console,
    ) -> bool {
        for _ in 0..COMMANDS_MAX {
            let Some(command) = self.socket.next_command() else {
                return false;
            };
            let mut asked = Asked {
                running,
                switch,
                openflow,
                traces: &mut self.traces,
                console,
                must_exit: false,
            };
            let reply = asked.answer(&command.request);
            if asked.must_exit {
                self.exit = Some(command);
                return false;
            }
            command.reply(reply);
        }
        true
    }

    /// Whether a command ends the run.
    pub(super) fn must_exit(&self) -> bool {
        self.exit.is_some()
    }

    /// Answers the command that ended the run, and removes the socket.
    pub(super) fn stop(mut self) {
        self.socket.close_door();
        if let Some(command) = self.exit.take() {
            command.reply(Ok(String::new()));
        }
    }
}

/// Opens the socket.
fn listen(path: &Path, switch: &Switch) -> Result<ControlSocket> {
    let mut commands = ControlCommands::new(VERSION);
    for (command, _) in TABLES.into_iter().flatten() {
        commands.add(&[*command]);
    }
    let interrupter = switch.interrupter();
    let waker = Arc::new(move || interrupter.interrupt());
    let config = ControlConfig::BOUNDED;
    // The whole path, by which the socket is found for a process.
    let whole = std::path::absolute(path)?;
    let opened = ControlSocket::open(&whole, config, commands, Arc::new(Notes), waker);
    let refused = || {
        format!(
            "[control]: cannot listen at {}; choose another path",
            path.display()
        )
    };
    opened.with_context(refused)
}

impl Asked<'_> {
    fn answer(&mut self, request: &ControlRequest) -> Result<String, String> {
        let mut entries = TABLES.into_iter().flatten();
        let found = entries.find(|(command, _)| command.name == request.command);
        match found {
            Some((_, handler)) => handler(self, &request.arguments),
            None => Err(format!("\"{}\" is not a valid command", request.command)),
        }
    }
}

/// Logs what happens at the socket.
struct Notes;

impl ControlNotes for Notes {
    fn note(&self, note: ControlNote<'_>) {
        match note {
            ControlNote::Received(request, _) => debug!(target: CONTROL, "{request}"),
            ControlNote::Replied(Ok(text), _) => {
                debug!(target: CONTROL, "answered with {} bytes", text.len());
            }
            ControlNote::Replied(Err(text), _) => debug!(target: CONTROL, "refused: {text}"),
            ControlNote::Refused => {
                warn!(target: CONTROL, "a client was refused: all connections wait for answers");
            }
            ControlNote::NotAccepted(error) => {
                warn!(target: CONTROL, "a client was not accepted: {error}");
            }
            ControlNote::Closed(reason) => info!(target: CONTROL, "a client was cut off: {reason}"),
            ControlNote::Broken(error) => {
                error!(target: CONTROL, "the socket is served no more: {error}");
            }
        }
    }
}
