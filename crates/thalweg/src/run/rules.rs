//! Reads the rules, groups and meters of a configuration's files.
//!
//! An empty file is refused, unless the configuration allows it. Otherwise, an editor that
//! empties a file before writing it could remove all rules from a switch that reloads in
//! between.

use anyhow::Result;
use thalweg_config::Configuration;
use thalweg_packet::PortId;
use thalweg_pipeline::text::{Parser, Rules};
use thalweg_pipeline::{Change, ChangeError};

use thalweg_command::failure::bad_input;
use thalweg_command::input;
use thalweg_command::ports::list_names;

/// Explains which rule or group was refused, why, and where it is.
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

/// Finds ports by their names in the configuration.
pub(super) fn ports_by_name(config: &Configuration) -> impl Fn(&str) -> Option<PortId> {
    |name| {
        let port = config.ports.iter().find(|port| port.name == name)?;
        Some(port.number)
    }
}

/// Port names for a message; a configuration may have thousands, so it lists the first.
pub(super) fn known_ports(config: &Configuration) -> String {
    list_names(config.ports.iter().map(|port| &*port.name))
}

/// Reads all files into one set of rules.
///
/// # Errors
/// If a file cannot be read, or is empty and may not be; lists every error in its text.
pub(super) fn read(config: &Configuration) -> Result<Rules> {
    let (by_name, known) = (ports_by_name(config), known_ports(config));
    let mut parser = Parser::new().with_ports(&by_name).with_known_ports(&known);
    let mut all = Rules::default();
    for (path, is_of_groups) in files(config) {
        let limit = config.switch.pipeline.rules;
        let read = match is_of_groups {
            true => Rules {
                groups: input::read_groups(&mut parser, path)?,
                ..Rules::default()
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
        all.meters.extend(read.meters);
        all.flows.extend(read.flows);
    }
    Ok(all)
}

/// The files of rules and groups.
pub(super) fn paths(config: &Configuration) -> impl Iterator<Item = &std::path::PathBuf> {
    files(config).map(|(path, _)| path)
}

/// The files; groups first, so that rules can name them.
fn files(config: &Configuration) -> impl Iterator<Item = (&std::path::PathBuf, bool)> {
    let groups = config.groups.iter().map(|path| (path, true));
    groups.chain(config.rules.iter().map(|path| (path, false)))
}
