//! The rules and groups of a configuration's files.
//!
//! A file that says nothing is refused, unless the configuration allows it: an editor that empties
//! a file before it writes would else take all rules out of a switch that is told to read again.

use anyhow::Result;
use thalweg_config::Configuration;
use thalweg_packet::PortId;
use thalweg_pipeline::text::{Parser, Rules};
use thalweg_pipeline::{Change, ChangeError};

use crate::failure::bad_input;
use crate::input;
use crate::ports::list_names;

/// Says which rule or group was refused, why, and where it is.
pub(super) fn refused(
    config: &Configuration,
    change: &Change,
    error: &ChangeError,
) -> anyhow::Error {
    let (by_name, known) = (ports_by_name(config), known_ports(config));
    let files = config.groups.iter().chain(&config.rules);
    let mut parser = Parser::new().with_ports(&by_name).with_known_ports(&known);
    input::refused(change, error, files, &mut parser)
}

fn ports_by_name(config: &Configuration) -> impl Fn(&str) -> Option<PortId> {
    |name| {
        let port = config.ports.iter().find(|port| port.name == name)?;
        Some(port.number)
    }
}

/// The names that a message lists, of which a configuration may have thousands.
fn known_ports(config: &Configuration) -> String {
    list_names(config.ports.iter().map(|port| &*port.name))
}

/// Reads all files; gives what they say together.
///
/// # Errors
/// If one cannot be read, with all the faults of its text, or says nothing and may not.
pub(super) fn read(config: &Configuration) -> Result<Rules> {
    let (by_name, known) = (ports_by_name(config), known_ports(config));
    let mut parser = Parser::new().with_ports(&by_name).with_known_ports(&known);
    let mut all = Rules::default();
    for (path, is_of_groups) in files(config) {
        let limit = config.switch.pipeline.rules;
        let read = match is_of_groups {
            true => Rules {
                groups: input::read_groups(&mut parser, path)?,
                flows: Vec::new(),
            },
            false => input::read_rules(&mut parser, path, limit.saturating_sub(all.flows.len()))?,
        };
        if read == Rules::default() && !config.allows_empty_rules {
            let what = if is_of_groups { "group" } else { "rule" };
            return Err(bad_input(format!(
                "{}: there is no {what} in it; write one, or set allow_empty_rules = true in \
                 [switch] if none is meant",
                path.display()
            )));
        }
        all.groups.extend(read.groups);
        all.flows.extend(read.flows);
    }
    Ok(all)
}

/// Files of groups first, so that rules can name them.
fn files(config: &Configuration) -> impl Iterator<Item = (&std::path::PathBuf, bool)> {
    let groups = config.groups.iter().map(|path| (path, true));
    groups.chain(config.rules.iter().map(|path| (path, false)))
}
