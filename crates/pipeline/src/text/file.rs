//! Files: rules, groups and changes, line by line.
//!
//! A file is read whole or not at all. Every line is read, so that all faults are reported at
//! once, up to [`MAX_ERRORS`]. Each unsupported feature is reported once, with the number of
//! lines that use it. A stream is read one line at a time, and reading stops at a line or a
//! count beyond the limits. So memory is bounded, however long the stream.
//!
//! A change file says how rules change while packets pass. A line that begins with `@N` takes
//! effect before packet `N`, counted from 0. A line without `@N` has the position of the line
//! before it, but is its own change. Lines between `bundle {` and `}` are one change:
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
//! Positions never decrease.

use std::collections::HashMap;
use std::io::{BufRead, Error, ErrorKind, Read};
use std::sync::Arc;

use super::actions;
use super::datapath;
use super::entry;
use super::error::{Parsed, ReadError, TextError, TextErrors, WHOLE_TEXT};
use super::flow;
use super::group;
use super::intern::Interner;
use super::line::{Line, PortNames};
use super::meter;
use crate::change::{Change, Operation};
use crate::flow::{Flow, Group};
use crate::meters::{MAX_METERS, RateMeter};

/// Most faults reported for one text.
pub const MAX_ERRORS: usize = 100;

/// Most bytes in one line.
pub const MAX_LINE_BYTES: usize = 1 << 18;

/// The rules, groups and meters of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// The rules, in the order of the file.
    pub flows: Vec<Flow>,
    /// The groups, in the order of the file; usually they have a file of their own.
    pub groups: Vec<Group>,
    /// The meters, in the order of the file.
    pub meters: Vec<RateMeter>,
}

impl Rules {
    /// Turns them into one change: meters and groups first, so that rules can name them.
    pub fn into_change(self) -> Change {
        let meters = self.meters.into_iter().map(Operation::SetMeter);
        let groups = self.groups.into_iter().map(Operation::SetGroup);
        let flows = self.flows.into_iter().map(Operation::Add);
        Change {
            operations: meters.chain(groups).chain(flows).collect(),
        }
    }
}

/// A change and its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacedChange {
    /// Number of packets that have passed when it takes effect.
    pub position: u64,
    /// The change.
    pub change: Change,
}

/// Reads texts; shares action lists and knows ports by name.
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
    known_ports: &'a str,
    interner: Interner,
}

impl Default for Parser<'_> {
    fn default() -> Self {
        Parser::new()
    }
}

impl<'a> Parser<'a> {
    /// Creates a parser that knows ports by number only.
    pub fn new() -> Parser<'a> {
        Parser {
            ports: &|_| None,
            known_ports: "",
            interner: Interner::default(),
        }
    }

    /// Lets the parser find ports by name too.
    pub fn with_ports(self, ports: &'a dyn Fn(&str) -> Option<thalweg_packet::PortId>) -> Self {
        Parser { ports, ..self }
    }

    /// Sets the list of port names for the message about an unknown port.
    pub fn with_known_ports(self, known_ports: &'a str) -> Self {
        Parser {
            known_ports,
            ..self
        }
    }

    /// The action lists seen so far.
    pub fn interner(&self) -> &Interner {
        &self.interner
    }

    /// Reads one rule in the syntax of `ovs-ofctl add-flow`.
    ///
    /// # Errors
    /// If the text is not a valid rule.
    pub fn parse_flow(&mut self, text: &str) -> Result<Flow, TextError> {
        self.one("flow", text, |line, text, interner| {
            flow::read_flow(line, text.strip_prefix("add ").unwrap_or(text), interner)
        })
    }

    /// Reads one group in the syntax of `ovs-ofctl add-group`.
    ///
    /// # Errors
    /// If the text is not a valid group.
    pub fn parse_group(&mut self, text: &str) -> Result<Group, TextError> {
        self.one("group", text, group::read_group)
    }

    /// Reads conditions, as `ovs-appctl ofproto/trace` takes a packet.
    ///
    /// # Errors
    /// If a field is unknown, has no such value, or lacks its prerequisite.
    pub fn parse_match(&mut self, text: &str) -> Result<crate::Match, TextError> {
        self.one("match", text, |line, text, _| flow::read_match(line, text))
    }

    /// Reads the bits of a field.
    ///
    /// # Errors
    /// If the field is unknown or has no such bits.
    pub fn parse_subfield(&mut self, text: &str) -> Result<crate::Subfield, TextError> {
        self.one("field", text, |line, text, _| {
            actions::read_subfield(line, text)
        })
    }

    /// Reads a cache entry's key and mask; any bits of any fields are allowed.
    ///
    /// # Errors
    /// If a field is unknown or has no such value.
    pub fn parse_megaflow(&mut self, text: &str) -> Result<crate::Match, TextError> {
        self.one("megaflow", text, |line, text, _| {
            entry::read_entry(line, text)
        })
    }

    /// Reads a cache entry's key and mask in the datapath's spelling.
    ///
    /// # Errors
    /// If an attribute is unknown or has no such value.
    pub fn parse_datapath_flow(&mut self, text: &str) -> Result<crate::Match, TextError> {
        self.one("datapath flow", text, |line, text, _| {
            datapath::read_datapath_flow(line, text)
        })
    }

    /// Reads one line of a bundle: a rule or group to add, modify or delete.
    ///
    /// # Errors
    /// If the text is not a valid operation.
    pub fn parse_operation(&mut self, text: &str) -> Result<Operation, TextError> {
        self.one("operation", text, read_operation)
    }

    /// Reads rules, one per line, as `ovs-ofctl add-flows` takes and `dump-flows` prints them.
    ///
    /// # Errors
    /// All faults of the text, at most [`MAX_ERRORS`]; nothing is loaded then.
    pub fn parse_rules(&mut self, name: &str, text: &str) -> Result<Rules, TextErrors> {
        let mut rules = Rules::default();
        self.lines(name, text, |line, text, interner| {
            rules.take(line, text, interner, usize::MAX)
        })?;
        Ok(rules)
    }

    /// Like [`Parser::parse_rules`] for a stream, line by line; at most `limit` rules.
    ///
    /// # Errors
    /// If it cannot be read, or with all faults of the text, at most [`MAX_ERRORS`].
    pub fn read_rules(
        &mut self,
        name: &str,
        stream: impl BufRead,
        limit: usize,
    ) -> Result<Rules, ReadError> {
        let mut rules = Rules::default();
        self.stream(name, stream, |line, text, interner| {
            rules.take(line, text, interner, limit)
        })?;
        Ok(rules)
    }

    /// Reads groups, one per line, as `ovs-ofctl add-groups` takes and `dump-groups` prints
    /// them.
    ///
    /// # Errors
    /// All faults of the text, at most [`MAX_ERRORS`]; nothing is loaded then.
    pub fn parse_groups(&mut self, name: &str, text: &str) -> Result<Vec<Group>, TextErrors> {
        let mut groups = Vec::new();
        self.lines(name, text, |line, text, interner| {
            groups.push(read_only_group(line, text, interner)?);
            Ok(())
        })?;
        Ok(groups)
    }

    /// Like [`Parser::parse_groups`] for a stream, line by line; at most `limit` groups.
    ///
    /// # Errors
    /// If it cannot be read, or with all faults of the text, at most [`MAX_ERRORS`].
    pub fn read_groups(
        &mut self,
        name: &str,
        stream: impl BufRead,
        limit: usize,
    ) -> Result<Vec<Group>, ReadError> {
        let mut groups = Vec::new();
        self.stream(name, stream, |line, text, interner| {
            check_room(line, text, GROUPS, groups.len(), limit)?;
            groups.push(read_only_group(line, text, interner)?);
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
    ) -> Result<Vec<PlacedChange>, TextErrors> {
        let mut changes = Changes::default();
        self.lines(name, text, |line, text, interner| {
            changes.take(line, text, interner, usize::MAX)
        })?;
        changes.close()
    }

    /// Like [`Parser::parse_changes`] for a stream, line by line; at most `limit` operations.
    ///
    /// # Errors
    /// If it cannot be read, or with all faults of the text, at most [`MAX_ERRORS`].
    pub fn read_changes(
        &mut self,
        name: &str,
        stream: impl BufRead,
        limit: usize,
    ) -> Result<Vec<PlacedChange>, ReadError> {
        let mut changes = Changes::default();
        self.stream(name, stream, |line, text, interner| {
            changes.take(line, text, interner, limit)
        })?;
        changes.close().map_err(ReadError::Text)
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
            known_ports: self.known_ports,
        };
        check_length(&line)?;
        read(&line, text.trim(), &mut self.interner)
    }

    /// Reads the lines that are not blank or comments.
    fn lines(
        &mut self,
        name: &str,
        text: &str,
        mut read: impl for<'l> FnMut(&'l Line<'l>, &'l str, &'l mut Interner) -> Parsed<()>,
    ) -> Result<(), TextErrors> {
        let file: Arc<str> = name.into();
        let mut faults = Faults::default();
        for (index, text) in text.lines().enumerate() {
            let line = self.line(&file, index, text);
            let said = self.take_line(&line, &mut read);
            faults.note(said);
        }
        match faults.errors.is_empty() {
            true => Ok(()),
            false => Err(TextErrors(faults.errors)),
        }
    }

    /// Reads such lines of a stream as they arrive.
    fn stream(
        &mut self,
        name: &str,
        mut stream: impl BufRead,
        mut read: impl for<'l> FnMut(&'l Line<'l>, &'l str, &'l mut Interner) -> Parsed<()>,
    ) -> Result<(), ReadError> {
        let file: Arc<str> = name.into();
        let mut faults = Faults::default();
        let mut bytes = Vec::new();
        for index in 0.. {
            bytes.clear();
            // Enough to see that a line is too long: one byte more than its limit, and its
            // end.
            let mut limited = stream.by_ref().take(MAX_LINE_BYTES as u64 + 2);
            if limited.read_until(b'\n', &mut bytes)? == 0 {
                break;
            }
            let text = std::str::from_utf8(&bytes);
            let text = text.map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
            // Strips line ends like `str::lines`.
            let text = match text.strip_suffix('\n') {
                Some(line) => line.strip_suffix('\r').unwrap_or(line),
                None => text,
            };
            let line = self.line(&file, index, text);
            let said = self.take_line(&line, &mut read);
            // The rest of a line that is too long would be read as another line.
            let is_cut = text.len() > MAX_LINE_BYTES;
            let is_full = said.as_ref().is_err_and(is_of_whole_text);
            faults.note(said);
            if is_cut || is_full {
                break;
            }
        }
        match faults.errors.is_empty() {
            true => Ok(()),
            false => Err(ReadError::Text(TextErrors(faults.errors))),
        }
    }

    fn line<'l>(&self, file: &'l Arc<str>, index: usize, text: &'l str) -> Line<'l>
    where
        'a: 'l,
    {
        Line {
            file,
            number: u32::try_from(index + 1).unwrap_or(u32::MAX),
            text,
            ports: self.ports,
            known_ports: self.known_ports,
        }
    }

    fn take_line(
        &mut self,
        line: &Line<'_>,
        read: &mut impl for<'l> FnMut(&'l Line<'l>, &'l str, &'l mut Interner) -> Parsed<()>,
    ) -> Parsed<()> {
        check_length(line)?;
        let said = line.text.split('#').next().unwrap_or_default().trim();
        if said.is_empty() || is_header(said) {
            return Ok(());
        }
        read(line, said, &mut self.interner)
    }
}

/// Collects the faults of a text.
#[derive(Default)]
struct Faults {
    errors: Vec<TextError>,
    /// By name: the index in `errors` of the fault about an unsupported feature.
    unsupported: HashMap<Box<str>, usize>,
}

impl Faults {
    /// Records a line's fault, if it has one.
    fn note(&mut self, said: Parsed<()>) {
        let Err(error) = said else { return };
        if let TextError::Unsupported { name, .. } = &error {
            if let Some(index) = self.unsupported.get(name)
                && let TextError::Unsupported { lines, .. } = &mut self.errors[*index]
            {
                *lines += 1;
                return;
            }
            if self.errors.len() < MAX_ERRORS {
                self.unsupported.insert(name.clone(), self.errors.len());
            }
        }
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }
}

impl Rules {
    /// Reads a line of a rules file.
    fn take<'l>(
        &mut self,
        line: &'l Line<'l>,
        text: &'l str,
        interner: &'l mut Interner,
        limit: usize,
    ) -> Parsed<()> {
        match read_operation(line, text, interner)? {
            Operation::Add(flow) | Operation::AddChecked(flow) => {
                check_room(line, text, RULES, self.flows.len(), limit)?;
                self.flows.push(flow);
            }
            Operation::SetGroup(group) => {
                check_room(line, text, GROUPS, self.groups.len(), limit)?;
                self.groups.push(group);
            }
            Operation::SetMeter(meter) => {
                check_room(line, text, METERS, self.meters.len(), MAX_METERS as usize)?;
                self.meters.push(meter);
            }
            _ => {
                let what = "a rules file only adds; put this into a file of changes";
                return Err(line.syntax(text, what));
            }
        }
        Ok(())
    }
}

fn read_only_group<'l>(
    line: &'l Line<'l>,
    text: &'l str,
    interner: &'l mut Interner,
) -> Parsed<Group> {
    match group::read_operation(line, text, interner)? {
        Operation::SetGroup(group) => Ok(group),
        _ => Err(line.syntax(text, "a groups file only adds; remove this")),
    }
}

/// Limit messages; each begins with [`WHOLE_TEXT`].
const RULES: &str = "the text has more rules";
const GROUPS: &str = "the text has more groups";
const METERS: &str = "the text has more meters";
const OPERATIONS: &str = "the text has more operations";

fn is_of_whole_text(error: &TextError) -> bool {
    matches!(error, TextError::Limit { what, .. } if what.starts_with(WHOLE_TEXT))
}

/// Fails if the limit is reached.
fn check_room(
    line: &Line<'_>,
    text: &str,
    what: &'static str,
    count: usize,
    limit: usize,
) -> Parsed<()> {
    match count < limit {
        true => Ok(()),
        false => Err(line.limit(text, what, limit)),
    }
}

/// Changes read so far.
#[derive(Default)]
struct Changes {
    done: Vec<PlacedChange>,
    position: u64,
    /// The bundle being read, and its place.
    open: Option<(Change, super::error::Place)>,
    operations: usize,
}

impl Changes {
    fn take<'l>(
        &mut self,
        line: &'l Line<'l>,
        text: &'l str,
        interner: &'l mut Interner,
        limit: usize,
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
        check_room(line, text, OPERATIONS, self.operations, limit)?;
        self.operations += 1;
        match &mut self.open {
            Some((change, _)) => change.operations.push(operation),
            None => self.finish(Change::one(operation)),
        }
        Ok(())
    }

    /// Returns all changes; fails if a bundle is still open.
    fn close(self) -> Result<Vec<PlacedChange>, TextErrors> {
        match self.open {
            None => Ok(self.done),
            Some((_, place)) => Err(TextErrors(vec![TextError::Syntax {
                place,
                what: "this bundle is not closed; write `}` on a line of its own".into(),
            }])),
        }
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
    if meter::is_meter(text) {
        return meter::read_meter(line, text).map(Operation::SetMeter);
    }
    let text = text.strip_prefix("flow ").unwrap_or(text).trim_start();
    flow::read_operation(line, text, interner)
}

/// Whether a line is the header of a reply printed by `ovs-ofctl`.
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
