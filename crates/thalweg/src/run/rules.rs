//! The rules and groups of a configuration's files.

use std::path::Path;

use anyhow::Result;
use thalweg_config::Configuration;
use thalweg_packet::PortId;
use thalweg_pipeline::text::{Parser, Rules, TextError};
use thalweg_pipeline::{Change, ChangeError, Operation};

use crate::failure::bad_input;

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

fn contents(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| {
        bad_input(format!(
            "{}: {error}; check the path, which is relative to the configuration",
            path.display()
        ))
    })
}

fn faults(errors: Vec<TextError>) -> anyhow::Error {
    let lines: Vec<String> = errors.iter().map(TextError::to_string).collect();
    bad_input(lines.join("\n"))
}

/// Says which rule or group was refused, and why.
pub(super) fn explain(change: &Change, error: &ChangeError) -> String {
    let operation = error
        .operation()
        .and_then(|index| change.operations.get(index));
    match operation {
        Some(Operation::Add(flow)) => format!("rule `{flow}`: {error}"),
        Some(Operation::SetGroup(group)) => format!("group `{group}`: {error}"),
        _ => error.to_string(),
    }
}
