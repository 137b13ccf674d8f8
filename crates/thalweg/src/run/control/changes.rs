//! Commands that change the switch: its rules, its ports, its log, its end.
//!
//! A change lasts until the next SIGHUP, which makes rules and ports those of the files again.

use std::time::Instant;

use thalweg_command::failure::text_of;
use thalweg_command::number::counted;
use thalweg_config::PORT_NUMBERS;
use thalweg_io::PortConfig;
use thalweg_packet::PortId;
use thalweg_pipeline::text::Parser;
use thalweg_pipeline::{Change, Operation};
use thalweg_switch::PortIdentity;
use thalweg_unixctl::ControlCommand;
use tracing::info;

use super::names::BRIDGE;
use super::{Asked, Entry};
use crate::run::MAX_CHANGES;
use crate::run::logging::module::CONTROL;
use crate::run::ports;
use crate::run::report::Done;
use crate::run::rules::{known_ports, ports_by_name};

pub(super) const COMMANDS: &[Entry] = &[
    (
        ControlCommand::new("rules/add", "flow...", 1, usize::MAX),
        |asked, arguments| asked.change(arguments, "add "),
    ),
    (
        ControlCommand::new("rules/del", "[--strict] match...", 1, usize::MAX),
        |asked, arguments| match arguments {
            [option, rest @ ..] if option == "--strict" => asked.change(rest, "delete_strict "),
            _ => asked.change(arguments, "delete "),
        },
    ),
    (
        ControlCommand::new("rules/change", "operation...", 1, usize::MAX),
        |asked, arguments| asked.change(arguments, ""),
    ),
    (
        ControlCommand::new("port/add", "number interface [name]", 2, 3),
        add_port,
    ),
    (
        ControlCommand::new("port/del", "{number | name}", 1, 1),
        delete_port,
    ),
    (
        ControlCommand::new("fdb/flush", "[bridge]", 0, 1),
        |asked, arguments| {
            asked.check_bridge(arguments.first())?;
            asked.switch.forget_stations(BRIDGE);
            Ok("table successfully flushed".to_owned())
        },
    ),
    (
        ControlCommand::new("dpctl/del-flows", "", 0, 0),
        |asked, _| {
            asked.switch.flush_caches();
            Ok(String::new())
        },
    ),
    (ControlCommand::new("log/show", "", 0, 0), |asked, _| {
        Ok(asked.running.logging.shown())
    }),
    (
        ControlCommand::new("log/set", "filter", 1, 1),
        |asked, arguments| {
            asked.running.logging.set(&arguments[0])?;
            Ok(String::new())
        },
    ),
    (ControlCommand::new("log/reopen", "", 0, 0), |asked, _| {
        asked.running.logging.reopen()?;
        Ok(String::new())
    }),
    (ControlCommand::new("reload", "", 0, 0), |asked, _| {
        asked.running.reload(asked.switch, asked.console)
    }),
    (ControlCommand::new("exit", "", 0, 0), |asked, _| {
        asked.must_exit = true;
        Ok(String::new())
    }),
];

impl Asked<'_> {
    /// Makes all operations one change; `verb` comes before each text.
    fn change(&mut self, texts: &[String], verb: &str) -> Result<String, String> {
        if texts.is_empty() {
            return Err("name the rules that are meant; nothing was changed".to_owned());
        }
        let config = &self.running.config;
        let (by_name, known) = (ports_by_name(config), known_ports(config));
        let mut parser = Parser::new().with_ports(&by_name).with_known_ports(&known);
        let operations = texts.iter().map(|text| {
            let operation = parser.parse_operation(&format!("{verb}{text}"));
            operation.map_err(|error| format!("{text}: {error}"))
        });
        let operations: Vec<Operation> = operations.collect::<Result<_, _>>()?;
        let position = self.switch.totals().datapath.packets;
        let affected = self.switch.settle().affected();
        let start = Instant::now();
        let delta = self.switch.apply(&Change { operations });
        let delta = delta.map_err(|error| error.to_string())?;
        let time_to_update = start.elapsed();
        let done = Done {
            position,
            time_to_update,
            affected: self.switch.settle().affected() - affected,
            added: delta.inserted.len(),
            removed: delta.removed.len(),
        };
        let text = format!(
            "version {}: {} added, {} removed, {:.1} us until all workers followed, {} affected",
            delta.version.0,
            counted(done.added, "rule"),
            done.removed,
            time_to_update.as_secs_f64() * 1e6,
            counted(done.affected, "entry")
        );
        info!(target: CONTROL, "{text}");
        if self.running.changes.len() < MAX_CHANGES {
            self.running.changes.push(done);
        }
        Ok(text)
    }
}

/// Opens an interface as a port.
fn add_port(asked: &mut Asked<'_>, arguments: &[String]) -> Result<String, String> {
    let [number, interface, rest @ ..] = arguments else {
        unreachable!("the command has two arguments or more");
    };
    let name = rest.first().unwrap_or(interface);
    let number: Option<u32> = number.parse().ok();
    let number = number.filter(|number| PORT_NUMBERS.contains(&u64::from(*number)));
    let (lowest, highest) = (PORT_NUMBERS.start(), PORT_NUMBERS.end());
    let wrong = || format!("the number of a port is from {lowest} to {highest}");
    let number = number.ok_or_else(wrong)?;
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(format!(
            "`{name}`: a port's name does not begin with a digit"
        ));
    }
    if name.chars().any(char::is_control) {
        return Err("a port's name has no control characters".to_owned());
    }
    let mut known = asked.running.config.ports.iter();
    let is_taken = |port: &PortConfig| port.number.0 == number || port.name == *name;
    if let Some(other) = known.find(|port| is_taken(port)) {
        let (number, name) = (other.number, &other.name);
        return Err(format!("there is already port {number} ({name})"));
    }
    let mut known = asked.running.config.ports.iter();
    if let Some(other) = known.find(|port| port.has_interface() && port.interface() == *interface) {
        let (number, name) = (other.number, &other.name);
        return Err(format!(
            "`{interface}` is the interface of port {number} ({name})"
        ));
    }
    let config = PortConfig {
        interface: Some(interface.clone()),
        ..PortConfig::new(PortId(number), name)
    };
    let opened = ports::open(&config).map_err(|error| text_of(&error))?;
    let attached = asked.switch.attach(opened);
    attached.map_err(|error| error.to_string())?;
    info!(target: CONTROL, "port {number} ({name}) was added on interface `{interface}`");
    if asked.running.config.openflow.is_some() {
        let identity = PortIdentity {
            name: name.clone(),
            ..PortIdentity::default()
        };
        asked.switch.set_port_identity(config.number, identity);
    }
    asked.running.config.ports.push(config);
    Ok(String::new())
}

/// Closes a port; it stays away until SIGHUP or a restart, if the file has it.
fn delete_port(asked: &mut Asked<'_>, arguments: &[String]) -> Result<String, String> {
    let asked_for = &arguments[0];
    let known = &mut asked.running.config.ports;
    let is_it =
        |port: &PortConfig| port.name == *asked_for || asked_for.parse() == Ok(port.number.0);
    let place = known.iter().position(is_it);
    let place = place.ok_or_else(|| format!("{asked_for}: there is no such port"))?;
    let config = known.remove(place);
    asked.switch.detach(config.number);
    // The next port with this number is a new one.
    asked.switch.forget_port(config.number);
    info!(target: CONTROL, "port {} ({}) was removed", config.number, config.name);
    Ok(String::new())
}
