//! The rules and groups of a configuration's files.

use anyhow::Result;
use thalweg_config::Configuration;
use thalweg_packet::PortId;
use thalweg_pipeline::text::{Parser, Rules};

use crate::input::{contents, faults};

/// Reads all files anew; gives what they say together.
///
/// # Errors
/// If one cannot be read, with all the faults of its text.
pub(super) fn read(config: &Configuration) -> Result<Rules> {
    let by_name = |name: &str| -> Option<PortId> {
        let port = config.ports.iter().find(|port| port.name == name)?;
        Some(port.number)
    };
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
