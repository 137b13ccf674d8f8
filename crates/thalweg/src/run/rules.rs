//! The rules and groups of a configuration's files.

use anyhow::Result;
use thalweg_config::Configuration;
use thalweg_packet::PortId;
use thalweg_pipeline::text::{Parser, Rules};
use thalweg_pipeline::{Change, ChangeError};

use crate::input::{self, contents, faults};

/// Says which rule or group was refused, why, and where it is.
pub(super) fn refused(
    config: &Configuration,
    change: &Change,
    error: &ChangeError,
) -> anyhow::Error {
    let by_name = ports_by_name(config);
    let files = config.groups.iter().chain(&config.rules);
    let mut parser = Parser::new().with_ports(&by_name);
    input::refused(change, error, files, &mut parser)
}

fn ports_by_name(config: &Configuration) -> impl Fn(&str) -> Option<PortId> {
    |name| {
        let port = config.ports.iter().find(|port| port.name == name)?;
        Some(port.number)
    }
}

/// Reads all files anew; gives what they say together.
///
/// # Errors
/// If one cannot be read, with all the faults of its text.
pub(super) fn read(config: &Configuration) -> Result<Rules> {
    let by_name = ports_by_name(config);
    let mut parser = Parser::new().with_ports(&by_name);
    let mut all = Rules::default();
    for path in &config.groups {
        let groups = parser.parse_groups(&path.display().to_string(), &contents(path)?);
        all.groups.extend(groups.map_err(faults)?);
    }
    for path in &config.rules {
        let rules = parser.parse_rules(&path.display().to_string(), &contents(path)?);
        let rules = rules.map_err(faults)?;
        all.groups.extend(rules.groups);
        all.flows.extend(rules.flows);
    }
    Ok(all)
}
