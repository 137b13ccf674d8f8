//! One rule, as `ovs-ofctl add-flow` takes it and `dump-flows` prints it.
//!
//! A rule is pairs in any order, the actions last: keywords (`table`, `priority`, ...),
//! conditions, `actions=`. Counters and ages from a dump are skipped. So are `importance` and
//! the flags that ask for no counters (`no_packet_counts`, `no_byte_counts`), as they change
//! no packet. `check_overlap` is skipped in a file of rules, where a dump records a check made
//! earlier; in a change the check is made.

use super::actions::{ActionReader, group_id, output, table_id};
use super::error::Parsed;
use super::fields;
use super::intern::Interner;
use super::line::{Line, Mark, Pair};
use super::matches::Conditions;
use super::shape::Shape;
use super::value::PortWord;
use crate::action::{Action, Actions, GroupId, Output, TableId};
use crate::bridge::BridgeId;
use crate::change::{Operation, Selector, Target};
use crate::check::form::Owner;
use crate::flow::{DEFAULT_PRIORITY, Flow, HashedField, Labels};
use crate::matching::Match;

/// The command of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Command {
    Add,
    Modify,
    ModifyStrict,
    Delete,
    DeleteStrict,
}

impl Command {
    /// Splits off the command at the start of a line; `Add` if there is none.
    pub(super) fn split(text: &str) -> (Command, &str) {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        let command = match &text[..end] {
            "add" => Command::Add,
            "modify" => Command::Modify,
            "modify_strict" => Command::ModifyStrict,
            "delete" => Command::Delete,
            "delete_strict" => Command::DeleteStrict,
            _ => return (Command::Add, text),
        };
        (command, &text[end..])
    }

    fn is_strict(self) -> bool {
        matches!(self, Command::ModifyStrict | Command::DeleteStrict)
    }

    fn has_actions(self) -> bool {
        !matches!(self, Command::Delete | Command::DeleteStrict)
    }
}

/// A rule as read so far; its actions are still text.
struct Rule<'a> {
    table: Option<TableId>,
    priority: Option<u16>,
    cookie: u64,
    cookie_mask: Option<u64>,
    idle_timeout_s: u16,
    hard_timeout_s: u16,
    reports_removal: bool,
    resets_counts: bool,
    checks_overlap: bool,
    target: Target,
    matching: Match,
    shape: Shape,
    actions: Option<&'a str>,
}

/// Reads a rule to be added.
pub(super) fn read_flow<'a>(
    line: &'a Line<'a>,
    text: &'a str,
    interner: &'a mut Interner,
) -> Parsed<Flow> {
    read_checked_flow(line, text, interner).map(|(flow, _)| flow)
}

/// Reads a rule to be added, and whether it asks for the overlap check.
fn read_checked_flow<'a>(
    line: &'a Line<'a>,
    text: &'a str,
    interner: &'a mut Interner,
) -> Parsed<(Flow, bool)> {
    let rule = read_rule(line, text, Command::Add)?;
    let actions = read_actions(line, &rule, interner)?;
    check_goto(line, &rule, &actions, rule.table.unwrap_or_default())?;
    let flow = Flow {
        table: rule.table.unwrap_or_default(),
        priority: rule.priority.unwrap_or(DEFAULT_PRIORITY),
        cookie: rule.cookie,
        idle_timeout_s: rule.idle_timeout_s,
        hard_timeout_s: rule.hard_timeout_s,
        reports_removal: rule.reports_removal,
        resets_counts: rule.resets_counts,
        labels: Labels::default(),
        matching: rule.matching,
        actions,
    };
    Ok((flow, rule.checks_overlap))
}

/// Reads an operation on rules.
pub(super) fn read_operation<'a>(
    line: &'a Line<'a>,
    text: &'a str,
    interner: &'a mut Interner,
) -> Parsed<Operation> {
    let (command, text) = Command::split(text);
    if command == Command::Add {
        let (flow, checks_overlap) = read_checked_flow(line, text, interner)?;
        return Ok(match checks_overlap {
            true => Operation::AddChecked(flow),
            false => Operation::Add(flow),
        });
    }
    let rule = read_rule(line, text, command)?;
    let selector = Selector {
        bridge: BridgeId::default(),
        table: rule.table,
        strict_priority: command
            .is_strict()
            .then(|| rule.priority.unwrap_or(DEFAULT_PRIORITY)),
        cookie: rule.cookie_mask.map(|mask| (rule.cookie & mask, mask)),
        matching: rule.matching.clone(),
    };
    if command.has_actions() {
        let actions = read_actions(line, &rule, interner)?;
        if let Some(table) = rule.table {
            check_goto(line, &rule, &actions, table)?;
        }
        return Ok(Operation::Modify(selector, actions));
    }
    Ok(match (rule.target, selector) {
        (target, selector) if target != Target::default() => {
            Operation::DeleteLeading(selector, target)
        }
        (_, selector) if selector == Selector::default() => Operation::DeleteAll,
        (_, selector) => Operation::Delete(selector),
    })
}

fn read_actions<'a>(
    line: &'a Line<'a>,
    rule: &Rule<'a>,
    interner: &'a mut Interner,
) -> Parsed<Actions> {
    let Some(actions) = rule.actions else {
        let what = "the rule has no actions; end it with actions=... (actions=drop for none)";
        return Err(line.syntax(&line.text[line.text.len()..], what));
    };
    let mut reader = ActionReader {
        line,
        interner,
        shape: Some(rule.shape),
    };
    reader.list(actions, Owner::Rule, 1)
}

/// Refuses a goto that does not lead forward, where the rule's table is known.
fn check_goto<'a>(
    line: &'a Line<'a>,
    rule: &Rule<'a>,
    actions: &Actions,
    table: TableId,
) -> Parsed<()> {
    let Some(Action::Goto(to)) = actions.last().filter(|last| leads_back(last, table)) else {
        return Ok(());
    };
    // The list was already read, so the last `goto_table` in it is there.
    let mut pairs = line.pairs(rule.actions.unwrap_or_default());
    let mut place = line.text;
    while let Some(pair) = pairs.next()? {
        if pair.key.eq_ignore_ascii_case("goto_table") {
            place = pair.key;
        }
    }
    let (from, to) = (table.0, to.0);
    let what = format!(
        "goto_table:{to} in table {from}; a rule can only go to a later table (use resubmit to go \
         back)"
    );
    Err(line.syntax(place, what))
}

fn leads_back(action: &Action, table: TableId) -> bool {
    matches!(action, Action::Goto(to) if *to <= table)
}

fn read_rule<'a>(line: &'a Line<'a>, text: &'a str, command: Command) -> Parsed<Rule<'a>> {
    let mut conditions = Conditions::new(line);
    let mut rule = Rule {
        table: None,
        priority: None,
        cookie: 0,
        cookie_mask: None,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        reports_removal: false,
        resets_counts: false,
        checks_overlap: false,
        target: Target::default(),
        matching: Match::default(),
        shape: Shape::default(),
        actions: None,
    };
    let mut pairs = line.pairs(text);
    while let Some((key, mark)) = pairs.key() {
        if matches!(key, "actions" | "action") && mark == Mark::Equals {
            if !command.has_actions() {
                return Err(line.syntax(key, "a deletion takes no actions; remove them"));
            }
            rule.actions = Some(pairs.rest());
            break;
        }
        let value = pairs.value(mark)?;
        let pair = Pair { key, value, mark };
        if !rule.take_keyword(line, pair, command)? && !conditions.take(pair)? {
            let advice = "see ovs-fields(7) for fields and ovs-ofctl(8) for keywords";
            return Err(line.unknown(key, "field or keyword", advice));
        }
    }
    (rule.matching, rule.shape) = conditions.finish()?;
    Ok(rule)
}

impl<'a> Rule<'a> {
    /// Takes the pair if it is a keyword.
    fn take_keyword(&mut self, line: &Line<'a>, pair: Pair<'a>, command: Command) -> Parsed<bool> {
        let is_flow = command.has_actions();
        match pair.key {
            "table" if matches!(pair.value, "255" | "all") && command != Command::Add => {
                self.table = None;
            }
            "table" => self.table = Some(table_id(line, pair.value)?),
            "priority" if command == Command::Delete => {
                let what = "delete takes rules of all priorities; use delete_strict for one";
                return Err(line.syntax(pair.key, what));
            }
            "priority" => self.priority = Some(line.integer(pair.value)?),
            "cookie" => self.take_cookie(line, pair, command)?,
            "idle_timeout" if is_flow => self.idle_timeout_s = line.integer(pair.value)?,
            "hard_timeout" if is_flow => self.hard_timeout_s = line.integer(pair.value)?,
            "importance" if is_flow => {
                line.integer::<u16>(pair.value)?;
            }
            "send_flow_rem" if is_flow => self.reports_removal = true,
            "reset_counts" if is_flow => self.resets_counts = true,
            "check_overlap" if is_flow => self.checks_overlap = true,
            "no_packet_counts" | "no_byte_counts" if is_flow => {}
            "duration" | "n_packets" | "n_bytes" | "idle_age" | "hard_age" => {}
            "no_readonly_table" | "allow_hidden_fields" => {}
            "out_port" if !is_flow => self.target.output = out_port(line, pair.value)?,
            "out_group" if !is_flow => self.target.group = out_group(line, pair.value)?,
            "out_port" | "out_group" => {
                return Err(line.syntax(pair.key, "only a deletion looks at where rules lead"));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes a cookie: a rule that is added gets it; other commands select by it.
    fn take_cookie(&mut self, line: &Line<'a>, pair: Pair<'a>, command: Command) -> Parsed<()> {
        let Some((cookie, mask)) = pair.value.split_once('/') else {
            if command != Command::Add {
                let what = "to find rules by cookie, give a mask as well (cookie=0x1/-1)";
                return Err(line.syntax(pair.value, what));
            }
            self.cookie = line.cookie(pair.value)?;
            return Ok(());
        };
        if command == Command::Add {
            return Err(line.syntax(pair.value, "a rule's own cookie has no mask; remove it"));
        }
        self.cookie = line.cookie(cookie)?;
        self.cookie_mask = Some(line.cookie(mask)?).filter(|&mask| mask != 0);
        Ok(())
    }
}

/// The port that deleted rules send to; `None` for any.
fn out_port(line: &Line<'_>, value: &str) -> Parsed<Option<Output>> {
    match line.port_word(value)? {
        Some(PortWord::None) => Ok(None),
        Some(port) => output(line, value, port).map(Some),
        None if value.eq_ignore_ascii_case("any") => Ok(None),
        None => Err(line.unknown_port(value, "port")),
    }
}

/// The group that deleted rules use; `None` for any.
fn out_group(line: &Line<'_>, value: &str) -> Parsed<Option<GroupId>> {
    match value.eq_ignore_ascii_case("any") {
        true => Ok(None),
        false => group_id(line, value).map(Some),
    }
}

/// Reads only conditions, as `ofproto/trace` takes a packet.
pub(super) fn read_match<'a>(line: &'a Line<'a>, text: &'a str) -> Parsed<Match> {
    let mut conditions = Conditions::new(line);
    let mut pairs = line.pairs(text);
    while let Some(pair) = pairs.next()? {
        if !conditions.take(pair)? {
            return Err(line.unknown(pair.key, "field", "see ovs-fields(7) for their names"));
        }
    }
    Ok(conditions.finish()?.0)
}

/// Reads the hash fields of a select group: names, with or without masks.
pub(super) fn read_hash_fields<'a>(line: &'a Line<'a>, text: &'a str) -> Parsed<Vec<HashedField>> {
    let mut hashed: Vec<HashedField> = Vec::new();
    let mut pairs = line.pairs(text);
    while let Some(pair) = pairs.next()? {
        let Some(name) = fields::find(pair.key) else {
            if fields::is_missing(pair.key) {
                return Err(line.unsupported(pair.key, super::line::excerpt(pair.key)));
            }
            return Err(line.unknown(pair.key, "field", "see ovs-fields(7) for their names"));
        };
        let mask = match pair.value.is_empty() {
            true => super::value::ones(name.width_bits),
            false => line.masked_value(name, pair.value)?.value,
        };
        if mask == 0 {
            return Err(line.value(pair.value, "a mask of at least one bit"));
        }
        for &piece in name.pieces {
            let bits = super::value::Masked { value: mask, mask };
            let (_, mask) = super::matches::piece_bits(piece, bits);
            let (field, only_with) = (piece.field, name.needs.header());
            let is_same = |other: &HashedField| {
                (other.field, other.only_with) == (field, only_with) && other.mask & mask != 0
            };
            if hashed.iter().any(is_same) {
                return Err(line.value(pair.key, "named only once"));
            }
            if mask != 0 {
                hashed.push(HashedField {
                    field,
                    mask,
                    only_with,
                });
            }
        }
    }
    Ok(hashed)
}
