//! Reads rules, groups and changes from files.
//!
//! They are read line by line, and reading stops at a limit. So an endless file (a device, a
//! pipe) takes no more memory than a long one.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::Result;
use thalweg_packet::{Instant, PortId, standard as f};
use thalweg_pipeline::text::{
    MAX_LINE_BYTES, Parser, PlacedChange, ReadError, Rules, TextError, TextErrors,
};
use thalweg_pipeline::{Action, Change, ChangeError, Config, Group, Operation, Output};
use thalweg_switch::Engine;

use crate::failure::bad_input;
use crate::files::unreadable;
use crate::ports::PortNames;

/// Most operations in a file of changes.
const MAX_OPERATIONS: usize = 100_000_000;

/// Rules files, and the other inputs of a pipeline.
#[derive(Debug, clap::Args)]
pub struct RulesArguments {
    /// Rules, as `ovs-ofctl add-flows` takes them or `dump-flows` prints them
    #[arg(long, value_name = "FILE")]
    pub rules: Vec<PathBuf>,
    /// Groups, as `ovs-ofctl add-groups` takes them
    #[arg(long, value_name = "FILE")]
    pub groups: Vec<PathBuf>,
    /// Names of ports, for rules and packets: NAME=NUMBER, or a file of such lines or of the
    /// output of `ovs-ofctl show`
    #[arg(long, value_name = "FILE|NAME=NUMBER")]
    ports: Vec<String>,
}

impl RulesArguments {
    /// Reads the names of ports.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn port_names(&self) -> Result<PortNames> {
        PortNames::read(&self.ports)
    }

    /// Reads all files as one change: groups first, so that rules can name them.
    ///
    /// # Errors
    /// If no file was given, or one cannot be read; lists every error in its text.
    pub fn read(&self, names: &PortNames) -> Result<Change> {
        if self.rules.is_empty() {
            return Err(bad_input("no rules; give them with --rules FILE"));
        }
        names.with_parser(|parser| self.read_with(parser))
    }

    fn read_with(&self, parser: &mut Parser<'_>) -> Result<Change> {
        let mut change = Change::default();
        let limit = Config::default().rules;
        for path in &self.groups {
            let groups = read_groups(parser, path)?;
            change
                .operations
                .extend(groups.into_iter().map(Operation::SetGroup));
        }
        for path in &self.rules {
            let rules = read_rules(parser, path, limit)?;
            change.operations.extend(rules.into_change().operations);
        }
        Ok(change)
    }
}

/// Reads a file of changes.
///
/// # Errors
/// If it cannot be read; lists every error in its text.
pub fn read_changes(path: &Path, names: &PortNames) -> Result<Vec<PlacedChange>> {
    let name = path.display().to_string();
    let file = open(path)?;
    let changes = names.with_parser(|parser| parser.read_changes(&name, file, MAX_OPERATIONS));
    changes.map_err(|error| unread(path, error))
}

/// Reads a file of at most `limit` rules.
///
/// # Errors
/// If it cannot be read; lists every error in its text.
pub fn read_rules(parser: &mut Parser<'_>, path: &Path, limit: usize) -> Result<Rules> {
    let rules = parser.read_rules(&path.display().to_string(), open(path)?, limit);
    rules.map_err(|error| unread(path, error))
}

/// Reads a file of groups.
///
/// # Errors
/// If it cannot be read; lists every error in its text.
pub fn read_groups(parser: &mut Parser<'_>, path: &Path) -> Result<Vec<Group>> {
    let limit = Config::default().rules;
    let groups = parser.read_groups(&path.display().to_string(), open(path)?, limit);
    groups.map_err(|error| unread(path, error))
}

fn open(path: &Path) -> Result<BufReader<File>> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    Ok(BufReader::new(file))
}

fn unread(path: &Path, error: ReadError) -> anyhow::Error {
    match error {
        ReadError::Io(error) => unreadable(path, &error),
        ReadError::Text(errors) => faults(errors),
        other => bad_input(other),
    }
}

/// Adds the ports that have names or that changes mention, and loads `rules`. Rules begin to
/// age at `now`.
///
/// # Errors
/// If a rule is refused.
pub fn load<'a>(
    engine: &mut Engine,
    (arguments, names): (&RulesArguments, &PortNames),
    rules: &'a Change,
    others: impl IntoIterator<Item = &'a Change>,
    in_ports: impl IntoIterator<Item = PortId>,
    now: Instant,
) -> Result<()> {
    let mut ports: BTreeSet<PortId> = in_ports.into_iter().chain(names.ports()).collect();
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
        names.with_parser(|parser| refused(rules, &error, files, parser))
    })?;
    Ok(())
}

/// Explains which rule or group was refused, why, and where it is in its file.
pub fn refused<'a>(
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
    // The operation's number means nothing to the author of a file.
    let why = said.strip_prefix(&format!("operation {index}: "));
    let why = why.unwrap_or(&said);
    let what = match operation {
        Operation::Add(flow) => format!("rule `{flow}`: {why}"),
        Operation::SetGroup(group) => format!("group `{group}`: {why}"),
        _ => why.to_owned(),
    };
    let named = match error {
        ChangeError::UnknownGroup { group, .. } => Some(*group),
        _ => None,
    };
    let place = files.into_iter().find_map(|path| {
        let (line, column) = place_of(path, operation, named, parser)?;
        Some(format!("{}:{line}:{column}: ", path.display()))
    });
    bad_input(place.unwrap_or_default() + &what)
}

/// Line and column, from 1, of a rule or group, or of the group that it names. Returns `None`
/// if a file has changed since it was read.
fn place_of(
    path: &Path,
    operation: &Operation,
    named: Option<u32>,
    parser: &mut Parser<'_>,
) -> Option<(usize, usize)> {
    let mut file = BufReader::new(File::open(path).ok()?);
    let mut text = String::new();
    for number in 1.. {
        text.clear();
        let mut line = file.by_ref().take(MAX_LINE_BYTES as u64 + 2);
        if line.read_line(&mut text).ok()? == 0 {
            return None;
        }
        let said = text.split('#').next().unwrap_or_default();
        let group = |parser: &mut Parser<'_>| parser.parse_group(said).map(Operation::SetGroup);
        let read = parser.parse_operation(said).or_else(|_| group(parser));
        if read.is_ok_and(|read| read == *operation) {
            let begin = said.len() - said.trim_start().len();
            let place = named.and_then(|group| place_of_group(said, group));
            let before = &said[..place.unwrap_or(begin)];
            return Some((number, before.chars().count() + 1));
        }
    }
    None
}

/// Where the action `group:N` begins whose N is `number`.
fn place_of_group(line: &str, number: u32) -> Option<usize> {
    let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut places = line.match_indices("group").map(|(place, _)| place);
    places.find(|&place| {
        let before = line[..place].bytes().next_back();
        let rest = &line[place + "group".len()..];
        let Some(value) = rest.strip_prefix([':', '=', '(']) else {
            return false;
        };
        let end = value.find(|byte: char| !byte.is_ascii_alphanumeric());
        let value = &value[..end.unwrap_or(value.len())];
        let read = match value.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => value.parse(),
        };
        before.is_none_or(|byte| !is_of_word(byte)) && read == Ok(number)
    })
}

/// Adds the ports that an operation's rules match or send to.
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

/// Lists all errors of a text, one per line.
pub fn faults(errors: TextErrors) -> anyhow::Error {
    let lines: Vec<String> = errors.iter().map(TextError::to_string).collect();
    bad_input(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_an_action_names_is_found() {
        for (line, place) in [
            ("actions=group:7", Some(8)),
            ("in_port=1 actions=output:1,group=7", Some(27)),
            ("actions=write_actions(group(7))", Some(22)),
            ("actions=clone(group:0x7),group:8", Some(14)),
            ("group_id=7,bucket=watch_group:7,actions=group:70", None),
            ("group_id=7,bucket=group:7", Some(18)),
            ("actions=regroup:7", None),
        ] {
            assert_eq!(place_of_group(line, 7), place, "{line}");
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        // This file is one endless line.
        let error = read_rules(&mut Parser::new(), Path::new("/dev/zero"), 10);
        let text = error.expect_err("it has no end").to_string();
        assert!(
            text.contains("/dev/zero:1:1: the line has more bytes than"),
            "{text}"
        );
    }
}
