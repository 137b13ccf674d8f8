//! Rules, groups and changes that commands take from files.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::Result;
use thalweg_packet::{Instant, PortId, standard as f};
use thalweg_pipeline::text::{Parser, PlacedChange, TextError};
use thalweg_pipeline::{Action, Change, ChangeError, Operation, Output};
use thalweg_switch::Engine;

use crate::failure::bad_input;

/// Rules files, and what else a pipeline is made of.
#[derive(Debug, clap::Args)]
pub(crate) struct RulesArguments {
    /// Rules, as `ovs-ofctl add-flows` takes them or `dump-flows` prints them
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Vec<PathBuf>,
    /// Groups, as `ovs-ofctl add-groups` takes them
    #[arg(long, value_name = "FILE")]
    pub(crate) groups: Vec<PathBuf>,
}

impl RulesArguments {
    /// Reads all files as one change: groups first, so that rules can name them.
    ///
    /// # Errors
    /// If there is none, or one cannot be read, with all the faults of its text.
    pub(crate) fn read(&self) -> Result<Change> {
        if self.rules.is_empty() {
            return Err(bad_input("no rules; give them with --rules FILE"));
        }
        let mut parser = Parser::new();
        let mut change = Change::default();
        for path in &self.groups {
            let groups = parser.parse_groups(&path.display().to_string(), &contents(path)?);
            let groups = groups.map_err(faults)?;
            change
                .operations
                .extend(groups.into_iter().map(Operation::SetGroup));
        }
        for path in &self.rules {
            let rules = parser.parse_rules(&path.display().to_string(), &contents(path)?);
            change
                .operations
                .extend(rules.map_err(faults)?.into_change().operations);
        }
        Ok(change)
    }
}

/// Reads a file of changes.
///
/// # Errors
/// If it cannot be read, with all the faults of its text.
pub(crate) fn read_changes(path: &Path) -> Result<Vec<PlacedChange>> {
    let changes = Parser::new().parse_changes(&path.display().to_string(), &contents(path)?);
    changes.map_err(faults)
}

/// Adds the ports that changes speak of, and loads what was read from the arguments' files; rules
/// begin to age at `now`.
///
/// # Errors
/// If a rule is refused.
pub(crate) fn load<'a>(
    engine: &mut Engine,
    arguments: &RulesArguments,
    rules: &'a Change,
    others: impl IntoIterator<Item = &'a Change>,
    in_ports: impl IntoIterator<Item = PortId>,
    now: Instant,
) -> Result<()> {
    let mut ports: BTreeSet<PortId> = in_ports.into_iter().collect();
    for change in others.into_iter().chain([rules]) {
        change
            .operations
            .iter()
            .for_each(|operation| add_ports(operation, &mut ports));
    }
    for port in ports {
        engine.add_port(port, now);
    }
    engine.apply(rules, now).map_err(|error| {
        let files = arguments.groups.iter().chain(&arguments.rules);
        refused(rules, &error, files, &mut Parser::new())
    })?;
    Ok(())
}

/// Says which rule or group was refused, why, and where in one of the files it is.
pub(crate) fn refused<'a>(
    change: &Change,
    error: &ChangeError,
    files: impl IntoIterator<Item = &'a PathBuf>,
    parser: &mut Parser<'_>,
) -> anyhow::Error {
    let said = error.to_string();
    let index = error.operation();
    let operation = index.and_then(|index| change.operations.get(index));
    let (Some(index), Some(operation)) = (index, operation) else {
        return bad_input(said);
    };
    // Its number says nothing to who wrote a file.
    let why = said.strip_prefix(&format!("operation {index}: "));
    let why = why.unwrap_or(&said);
    let what = match operation {
        Operation::Add(flow) => format!("rule `{flow}`: {why}"),
        Operation::SetGroup(group) => format!("group `{group}`: {why}"),
        _ => why.to_owned(),
    };
    let place = files.into_iter().find_map(|path| {
        Some(format!(
            "{}:{}: ",
            path.display(),
            line_of(path, operation, parser)?
        ))
    });
    bad_input(place.unwrap_or_default() + &what)
}

/// The line, from 1, that says a rule or group; files may have changed since they were read.
fn line_of(path: &Path, operation: &Operation, parser: &mut Parser<'_>) -> Option<usize> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut says_it = |line: &str| {
        let group = |parser: &mut Parser<'_>| parser.parse_group(line).map(Operation::SetGroup);
        let said = parser.parse_operation(line).or_else(|_| group(parser));
        said.is_ok_and(|said| said == *operation)
    };
    let index = text.lines().position(&mut says_it)?;
    Some(index + 1)
}

/// The ports that an operation's rules match or send to.
fn add_ports(operation: &Operation, ports: &mut BTreeSet<PortId>) {
    match operation {
        Operation::Add(flow) => {
            let in_port = flow.matching.term(f::IN_PORT);
            ports.extend(in_port.map(|term| PortId(term.value as u32)));
            add_ports_of(&flow.actions, ports);
        }
        Operation::Modify(_, actions) => add_ports_of(actions, ports),
        Operation::SetGroup(group) => {
            for bucket in &group.buckets {
                ports.extend(bucket.watch_port);
                add_ports_of(&bucket.actions, ports);
            }
        }
        _ => {}
    }
}

fn add_ports_of(actions: &[Action], ports: &mut BTreeSet<PortId>) {
    for action in actions {
        match action {
            Action::Output(Output::Port(port)) => {
                ports.insert(*port);
            }
            Action::Clone(nested) | Action::WriteActions(nested) => add_ports_of(nested, ports),
            _ => {}
        }
    }
}

/// The text of a file of rules, or of something else that goes with rules.
///
/// # Errors
/// If it cannot be read, or is no text.
pub(crate) fn contents(path: &Path) -> Result<String> {
    contents_or(path, "give rules as text (a capture belongs to --pcap)")
}

/// The text of a P4 program.
///
/// # Errors
/// If it cannot be read, or is no text.
pub(crate) fn program(path: &Path) -> Result<String> {
    let advice = "give the program as the JSON that p4c's back end for BMv2 writes";
    contents_or(path, advice)
}

/// The text of a file, or what to do `otherwise`, if it is no text.
///
/// # Errors
/// If it cannot be read, or is no text.
pub(crate) fn contents_or(path: &Path, otherwise: &str) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::InvalidData => otherwise,
            ErrorKind::PermissionDenied => "make it readable, or run as somebody who may read it",
            ErrorKind::IsADirectory => "name a file in it",
            _ => "check the path",
        };
        bad_input(format!("{}: {error}; {advice}", path.display()))
    })
}

/// The text of a file, unpacked if its name ends in `.xz`.
///
/// # Errors
/// If it cannot be read or unpacked, or is no text.
pub(crate) fn unpacked(path: &Path) -> Result<String> {
    if path.extension().is_none_or(|extension| extension != "xz") {
        return contents_or(path, "name a file of text, as it is or packed with xz");
    }
    let cannot = |what: String| {
        let path = path.display();
        bad_input(format!(
            "{path}: {what}; name a file of text, as it is or packed with xz"
        ))
    };
    let file = File::open(path).map_err(|error| cannot(error.to_string()))?;
    let mut bytes = Vec::new();
    let unpacked = lzma_rs::xz_decompress(&mut BufReader::new(file), &mut bytes);
    unpacked.map_err(|error| cannot(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| cannot(error.to_string()))
}

/// All faults of a text, a line each.
pub(crate) fn faults(errors: Vec<TextError>) -> anyhow::Error {
    let lines: Vec<String> = errors.iter().map(TextError::to_string).collect();
    bad_input(lines.join("\n"))
}
