//! Files: rules, groups and changes, line by line.
//!
//! A file is read whole or not at all. Every line is read, so that all faults are reported at
//! once, up to [`MAX_ERRORS`].
//!
//! A change file says what happens to the rules while packets pass. A line that begins with `@N`
//! takes effect before packet `N`, counted from 0; one without, together with the line before it
//! in position, but as a change of its own. Lines between `bundle {` and `}` are one change:
//!
//! ```text
//! table=0,priority=10,actions=drop            # before the first packet
//! @1000 delete table=0,ip
//! @2000 bundle {
//!   add table=0,priority=20,tcp,tp_dst=80,actions=output:2
//!   delete_strict table=0,priority=10
//! }
//! ```
//!
//! Positions never go back.

use std::sync::Arc;

use super::entry;
use super::error::{Parsed, TextError};
use super::flow;
use super::group;
use super::intern::Interner;
use super::line::{Line, PortNames};
use crate::change::{Change, Operation};
use crate::flow::{Flow, Group};

/// Faults that are reported of one text.
pub const MAX_ERRORS: usize = 100;

/// Bytes that one line may have.
pub const MAX_LINE_BYTES: usize = 1 << 18;

/// The rules and groups of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// The rules, in the order of the file.
    pub flows: Vec<Flow>,
    /// The groups, in the order of the file; usually they have a file of their own.
    pub groups: Vec<Group>,
}

impl Rules {
    /// The change that loads them all: groups first, so that rules can name them.
    pub fn into_change(self) -> Change {
        let groups = self.groups.into_iter().map(Operation::SetGroup);
        let flows = self.flows.into_iter().map(Operation::Add);
        Change {
            operations: groups.chain(flows).collect(),
        }
    }
}

/// A change, and when it happens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacedChange {
    /// How many packets have passed when it takes effect.
    pub position: u64,
    /// What happens.
    pub change: Change,
}

/// Reads texts, remembering action lists and knowing ports by name.
///
/// ```
/// use thalweg_packet::PortId;
/// use thalweg_pipeline::text::Parser;
///
/// let ports = |name: &str| (name == "uplink").then_some(PortId(7));
/// let mut parser = Parser::new().with_ports(&ports);
/// let named = parser.parse_flow("in_port=uplink actions=output:2")?;
/// assert_eq!(named, parser.parse_flow("in_port=7 actions=2")?);
/// assert_eq!(parser.interner().len(), 1);
/// # Ok::<(), thalweg_pipeline::text::TextError>(())
/// ```
pub struct Parser<'a> {
    ports: PortNames<'a>,
    interner: Interner,
}

impl Default for Parser<'_> {
    fn default() -> Self {
        Parser::new()
    }
}

impl<'a> Parser<'a> {
    /// A parser that knows ports by number only.
    pub fn new() -> Parser<'a> {
        Parser {
            ports: &|_| None,
            interner: Interner::default(),
        }
    }

    /// Finds ports by name as well.
    pub fn with_ports(self, ports: &'a dyn Fn(&str) -> Option<thalweg_packet::PortId>) -> Self {
        Parser { ports, ..self }
    }

    /// The action lists seen so far.
    pub fn interner(&self) -> &Interner {
        &self.interner
    }

    /// Reads one rule, as `ovs-ofctl add-flow` takes it.
    ///
    /// # Errors
    /// If it is not one.
    pub fn parse_flow(&mut self, text: &str) -> Result<Flow, TextError> {
        self.one("flow", text, |line, text, interner| {
            flow::read_flow(line, text.strip_prefix("add ").unwrap_or(text), interner)
        })
    }

    /// Reads one group, as `ovs-ofctl add-group` takes it.
    ///
    /// # Errors
    /// If it is not one.
    pub fn parse_group(&mut self, text: &str) -> Result<Group, TextError> {
        self.one("group", text, group::read_group)
    }

    /// Reads conditions, as `ovs-appctl ofproto/trace` takes a packet.
    ///
    /// # Errors
    /// If a field is unknown, has no such value, or lacks what it needs.
    pub fn parse_match(&mut self, text: &str) -> Result<crate::Match, TextError> {
        self.one("match", text, |line, text, _| flow::read_match(line, text))
    }

    /// Reads a cache entry's key and mask, whatever bits of whatever fields they have.
    ///
    /// # Errors
    /// If a field is unknown or has no such value.
    pub fn parse_megaflow(&mut self, text: &str) -> Result<crate::Match, TextError> {
        self.one("megaflow", text, |line, text, _| {
            entry::read_entry(line, text)
        })
    }

    /// Reads one line of a bundle: a rule or group to add, modify or delete.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse_operation(&mut self, text: &str) -> Result<Operation, TextError> {
        self.one("operation", text, read_operation)
    }

    /// Reads rules, one a line, as `ovs-ofctl add-flows` takes and `dump-flows` prints them.
    ///
    /// # Errors
    /// All faults of the text, at most [`MAX_ERRORS`]; nothing is loaded then.
    pub fn parse_rules(&mut self, name: &str, text: &str) -> Result<Rules, Vec<TextError>> {
        let mut rules = Rules::default();
        self.lines(name, text, |line, text, interner| {
            match read_operation(line, text, interner)? {
                Operation::Add(flow) | Operation::AddChecked(flow) => rules.flows.push(flow),
                Operation::SetGroup(group) => rules.groups.push(group),
                _ => {
                    let what = "a rules file only adds; put this into a file of changes";
                    return Err(line.syntax(text, what));
                }
            }
            Ok(())
        })?;
        Ok(rules)
    }

    /// Reads groups, one a line, as `ovs-ofctl add-groups` takes and `dump-groups` prints them.
    ///
    /// # Errors
    /// All faults of the text, at most [`MAX_ERRORS`]; nothing is loaded then.
    pub fn parse_groups(&mut self, name: &str, text: &str) -> Result<Vec<Group>, Vec<TextError>> {
        let mut groups = Vec::new();
        self.lines(name, text, |line, text, interner| {
            match group::read_operation(line, text, interner)? {
                Operation::SetGroup(group) => groups.push(group),
                _ => return Err(line.syntax(text, "a groups file only adds; remove this")),
            }
            Ok(())
        })?;
        Ok(groups)
    }

    /// Reads a file of changes: see the module `text` for its form.
    ///
    /// # Errors
    /// All faults of the text, at most [`MAX_ERRORS`]; nothing is loaded then.
    pub fn parse_changes(
        &mut self,
        name: &str,
        text: &str,
    ) -> Result<Vec<PlacedChange>, Vec<TextError>> {
        let mut changes = Changes::default();
        self.lines(name, text, |line, text, interner| {
            changes.take(line, text, interner)
        })?;
        match changes.open {
            None => Ok(changes.done),
            Some((_, place)) => Err(vec![TextError::Syntax {
                place,
                what: "this bundle is not closed; write `}` on a line of its own".into(),
            }]),
        }
    }

    fn one<T>(
        &mut self,
        name: &str,
        text: &str,
        read: impl for<'l> Fn(&'l Line<'l>, &'l str, &'l mut Interner) -> Parsed<T>,
    ) -> Result<T, TextError> {
        let line = Line {
            file: &Arc::from(name),
            number: 1,
            text,
            ports: self.ports,
        };
        check_length(&line)?;
        read(&line, text.trim(), &mut self.interner)
    }

    /// Reads the lines that say something.
    fn lines(
        &mut self,
        name: &str,
        text: &str,
        mut read: impl for<'l> FnMut(&'l Line<'l>, &'l str, &'l mut Interner) -> Parsed<()>,
    ) -> Result<(), Vec<TextError>> {
        let file: Arc<str> = name.into();
        let mut errors = Vec::new();
        for (index, text) in text.lines().enumerate() {
            let line = Line {
                file: &file,
                number: u32::try_from(index + 1).unwrap_or(u32::MAX),
                text,
                ports: self.ports,
            };
            let said = text.split('#').next().unwrap_or_default().trim();
            if said.is_empty() || is_header(said) {
                continue;
            }
            let result = check_length(&line).and_then(|()| read(&line, said, &mut self.interner));
            if let Err(error) = result {
                errors.push(error);
                if errors.len() == MAX_ERRORS {
                    break;
                }
            }
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }
}

/// Changes read so far.
#[derive(Default)]
struct Changes {
    done: Vec<PlacedChange>,
    position: u64,
    /// The bundle being read, and where it began.
    open: Option<(Change, super::error::Place)>,
}

impl Changes {
    fn take<'l>(
        &mut self,
        line: &'l Line<'l>,
        text: &'l str,
        interner: &'l mut Interner,
    ) -> Parsed<()> {
        let mut text = text;
        if let Some(rest) = text.strip_prefix('@') {
            let end = rest.find([' ', '\t']).unwrap_or(rest.len());
            let position = line.integer(&rest[..end])?;
            if self.open.is_some() {
                return Err(line.syntax(text, "a bundle has one position; put it before `bundle`"));
            }
            if position < self.position {
                return Err(line.syntax(text, "positions do not go back; move this line up"));
            }
            self.position = position;
            text = rest[end..].trim_start();
        }
        if let Some(rest) = text.strip_prefix("bundle")
            && rest.trim() == "{"
        {
            if self.open.is_some() {
                return Err(line.syntax(text, "bundles do not nest; close the first with `}`"));
            }
            self.open = Some((Change::default(), line.place(text)));
            return Ok(());
        }
        if text == "}" {
            let Some((change, _)) = self.open.take() else {
                return Err(line.syntax(text, "no bundle is open here; remove this"));
            };
            self.finish(change);
            return Ok(());
        }
        if text.is_empty() {
            return Err(line.syntax(text, "a position without a change; write one behind it"));
        }
        let operation = read_operation(line, text, interner)?;
        match &mut self.open {
            Some((change, _)) => change.operations.push(operation),
            None => self.finish(Change::one(operation)),
        }
        Ok(())
    }

    fn finish(&mut self, change: Change) {
        self.done.push(PlacedChange {
            position: self.position,
            change,
        });
    }
}

fn read_operation<'l>(
    line: &'l Line<'l>,
    text: &'l str,
    interner: &'l mut Interner,
) -> Parsed<Operation> {
    if group::is_group(text) {
        return group::read_operation(line, text, interner);
    }
    let text = text.strip_prefix("flow ").unwrap_or(text).trim_start();
    flow::read_operation(line, text, interner)
}

/// Whether a line is the head of a reply that `ovs-ofctl` printed.
fn is_header(text: &str) -> bool {
    let is_reply = text.starts_with("OFPST_") || text.starts_with("NXST_");
    is_reply && text.contains(" reply")
}

fn check_length(line: &Line<'_>) -> Parsed<()> {
    if line.text.len() > MAX_LINE_BYTES {
        return Err(line.limit(line.text, "the line has more bytes", MAX_LINE_BYTES));
    }
    Ok(())
}
