//! The server's side of `ovs-appctl`: JSON-RPC requests with texts as parameters.
//!
//! ```text
//!   receive(bytes) --> next(commands): unknown commands, wrong counts and the two commands
//!                      that every server has are answered here, the rest is returned
//!   reply(result)  --> take_output()
//! ```
//!
//! 1. A connection has one request at a time: the next is returned after the reply to the last
//!    is taken.
//! 2. Every request has one reply, unless the connection ends.
//!
//! The texts are those of Open vSwitch 3.1, which its tests compare. A text that does not end
//! its last line is ended here.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::time::Duration;

use serde_json::Value;
use thalweg_ovsdb::jsonrpc::{RpcChannel, RpcConfig, RpcLimits, RpcMessage};

use crate::config::ControlConfig;

/// A command that a server has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ControlCommand {
    /// Its name, such as "vlog/set".
    pub name: &'static str,
    /// Its arguments, for the list of commands; a command without is not listed.
    pub usage: Option<&'static str>,
    /// Fewest arguments.
    pub arguments_min: usize,
    /// Most arguments.
    pub arguments_max: usize,
}

impl ControlCommand {
    /// A command with its usage and its fewest and most arguments.
    pub const fn new(
        name: &'static str,
        usage: &'static str,
        min: usize,
        max: usize,
    ) -> ControlCommand {
        ControlCommand {
            name,
            usage: Some(usage),
            arguments_min: min,
            arguments_max: max,
        }
    }
}

/// The commands of a server.
#[derive(Clone, Debug)]
pub struct ControlCommands {
    commands: BTreeMap<&'static str, ControlCommand>,
    version: String,
}

impl ControlCommands {
    /// The commands that every server has. `version` answers the command of that name.
    pub fn new(version: &str) -> ControlCommands {
        let mut commands = ControlCommands {
            commands: BTreeMap::new(),
            version: version.to_owned(),
        };
        commands.add(&[
            ControlCommand::new("list-commands", "", 0, 0),
            ControlCommand::new("version", "", 0, 0),
        ]);
        commands
    }

    /// Adds commands.
    ///
    /// # Panics
    ///
    /// There is one of the name already.
    pub fn add(&mut self, commands: &[ControlCommand]) {
        for command in commands {
            let old = self.commands.insert(command.name, *command);
            assert!(old.is_none(), "the command {} is there twice", command.name);
        }
    }

    /// The list of commands, as `list-commands` answers.
    pub fn list(&self) -> String {
        let mut text = "The available commands are:\n".to_owned();
        for command in self.commands.values() {
            if let Some(usage) = command.usage {
                text += &format!("  {:<23} {usage}\n", command.name);
            }
        }
        text
    }

    /// The arguments of a command, or why it cannot be carried out.
    fn check(&self, name: &str, params: Vec<Value>) -> Result<Vec<String>, String> {
        let Some(command) = self.commands.get(name) else {
            return Err(format!(
                "\"{name}\" is not a valid command \
                 (use \"list-commands\" to see a list of valid commands)"
            ));
        };
        let (min, max) = (command.arguments_min, command.arguments_max);
        if params.len() < min {
            return Err(format!(
                "\"{name}\" command requires at least {min} arguments"
            ));
        }
        if params.len() > max {
            return Err(format!("\"{name}\" command takes at most {max} arguments"));
        }
        let text = |value| match value {
            Value::String(text) => Ok(text),
            _ => Err(format!("\"{name}\" command has non-string argument")),
        };
        params.into_iter().map(text).collect()
    }
}

/// A command to carry out, whose arguments are as many as it takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControlRequest {
    /// The command's name.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<String>,
}

impl Display for ControlRequest {
    /// As the log has it: the name, and the arguments as JSON.
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let arguments = Value::from(&*self.arguments);
        write!(f, "{}{arguments}", self.command)
    }
}

/// A connection of `ovs-appctl`, without its socket.
///
/// ```
/// use std::time::Duration;
/// use thalweg_unixctl::{ControlCommand, ControlCommands, ControlConnection};
///
/// let mut commands = ControlCommands::new("ovs-vswitchd (Thalweg) 0.1.0");
/// commands.add(&[ControlCommand::new("fdb/show", "bridge", 1, 1)]);
/// let mut connection = ControlConnection::default();
/// connection.receive(br#"{"id":0,"method":"fdb/show","params":["br0"]}"#, Duration::ZERO);
/// let request = connection.next(&commands).unwrap();
/// assert_eq!(request.arguments, ["br0"]);
/// connection.reply(Err("no such bridge".to_owned()));
/// let reply = String::from_utf8(connection.take_output().unwrap()).unwrap();
/// assert!(reply.contains(r#""error":"no such bridge\n""#));
/// ```
#[derive(Debug)]
pub struct ControlConnection {
    channel: RpcChannel,
    /// The request that has no reply yet.
    id: Option<Value>,
    end: Option<String>,
}

impl Default for ControlConnection {
    fn default() -> ControlConnection {
        ControlConnection::new(&ControlConfig::OPEN_VSWITCH)
    }
}

impl ControlConnection {
    /// A connection at its begin.
    pub fn new(config: &ControlConfig) -> ControlConnection {
        let config = RpcConfig {
            limits: RpcLimits {
                bytes_max: config.request_bytes_max,
                values_max: 1 << 20,
                depth_max: 16,
            },
            // One reply waits at a time, and its length was bounded before.
            output_bytes_max: usize::MAX,
            probe_interval: None,
            answers_echo: false,
        };
        ControlConnection {
            channel: RpcChannel::new(config, Duration::ZERO),
            id: None,
            end: None,
        }
    }

    /// The number of the request that waits for its reply, as text; empty if there is none.
    pub fn request_id(&self) -> String {
        self.id.as_ref().map_or_else(String::new, Value::to_string)
    }

    /// Takes bytes from the client.
    pub fn receive(&mut self, bytes: &[u8], now: Duration) {
        self.channel.receive(bytes, now);
    }

    /// The next request, once the last has its reply and that is taken.
    pub fn next(&mut self, commands: &ControlCommands) -> Option<ControlRequest> {
        if self.id.is_some() || self.channel.output_bytes() > 0 || self.end.is_some() {
            return None;
        }
        let kind = match self.channel.next()? {
            RpcMessage::Request { id, method, params } => {
                self.id = Some(id);
                return self.handle(commands, method, params);
            }
            RpcMessage::Notification { .. } => "notification",
            RpcMessage::Reply { .. } => "reply",
            RpcMessage::Error { .. } => "error",
        };
        self.end = Some(format!("received unexpected {kind} message"));
        None
    }

    fn handle(
        &mut self,
        commands: &ControlCommands,
        command: String,
        params: Vec<Value>,
    ) -> Option<ControlRequest> {
        let reply = match (commands.check(&command, params), command.as_str()) {
            (Err(error), _) => Err(error),
            (Ok(_), "list-commands") => Ok(commands.list()),
            (Ok(_), "version") => Ok(commands.version.clone()),
            (Ok(arguments), _) => return Some(ControlRequest { command, arguments }),
        };
        self.reply(reply);
        None
    }

    /// Answers the last request, with a text or an error.
    ///
    /// # Panics
    ///
    /// There is no request, or it has its reply.
    pub fn reply(&mut self, reply: Result<String, String>) {
        let id = self.id.take().expect("a request has one reply");
        let line = |mut text: String| {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            Value::from(text)
        };
        self.channel.send(&match reply {
            Ok(text) => RpcMessage::Reply {
                id,
                result: line(text),
            },
            Err(text) => RpcMessage::Error {
                id,
                error: line(text),
            },
        });
    }

    /// The next bytes to be sent.
    pub fn take_output(&mut self) -> Option<Vec<u8>> {
        self.channel.take_output()
    }

    /// Whether a request waits for its reply.
    pub fn is_busy(&self) -> bool {
        self.id.is_some()
    }

    /// Why the connection must be closed, if it must.
    pub fn end_reason(&self) -> Option<String> {
        let of_channel = || self.channel.end_reason().map(ToString::to_string);
        self.end.clone().or_else(of_channel)
    }
}

#[cfg(test)]
mod tests;
