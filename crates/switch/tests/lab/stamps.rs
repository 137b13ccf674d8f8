//! Rules that leave stamps in packets, and the expected stamps at each version.
//!
//! A packet passes two tables and a group, and each leaves a stamp: `mod_dl_src` in table 0,
//! `mod_dl_dst` in table 1, `mod_tp_dst` in the group, whose port is one of two. A stamp holds
//! the number of the change that last wrote the rule, and the rule's place in its table. So a
//! packet shows which rules answered it. [`Program`] is the slow twin: plain lists of the same
//! rules, kept for every version.

// Each test program uses only a part of it.
#![allow(dead_code)]

use thalweg_pipeline::{Change, Operation, text};

/// Number of values of the two fields that distinguish flows.
pub(crate) const VALUES: u16 = 3;

/// The ports that packets leave by.
pub(crate) const SINKS: [u32; 2] = [3, 4];

/// A flow: its UDP source and destination ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct FlowKey(pub(crate) u16, pub(crate) u16);

/// The stamps of table 0, of table 1 and of the group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamps(pub(crate) [u16; 3]);

/// A rule of table 0 (by destination) or 1 (by source); without a value it matches all flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rule {
    table: usize,
    priority: u16,
    value: Option<u16>,
    /// The change that last wrote it.
    change: u16,
}

impl Rule {
    fn stamp(&self) -> u16 {
        let value = self.value.map_or(0, |value| value + 1);
        self.change << 8 | self.priority << 4 | value
    }
}

/// The rule's place in its table, whichever change wrote the stamp.
pub(crate) fn place_of(stamp: u16) -> u16 {
    stamp & 0xff
}

/// The rules of one version.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    rules: Vec<Rule>,
    group: u16,
}

/// What a change does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Rewrites every rule and the group.
    Everything,
    /// Replaces one rule by an equal one.
    Replace { table: usize, value: u16 },
    /// Adds or replaces a rule above those for single values.
    Cover { table: usize },
    /// Removes it.
    Uncover { table: usize },
    /// Adds or replaces a rule for one value above all others.
    Single { table: usize, value: u16 },
    /// Replaces the group.
    Group,
    /// Removes a cover in one table and adds a single in the other.
    Swap { table: usize, value: u16 },
}

impl Kind {
    /// A kind from any three numbers.
    pub(crate) fn of(which: u32, table: u32, value: u32) -> Kind {
        let (table, value) = (table as usize % 2, value as u16 % VALUES);
        match which % 7 {
            0 => Kind::Everything,
            1 => Kind::Replace { table, value },
            2 => Kind::Cover { table },
            3 => Kind::Uncover { table },
            4 => Kind::Single { table, value },
            5 => Kind::Group,
            _ => Kind::Swap { table, value },
        }
    }
}

impl Program {
    /// Rules for every value, all written by this change.
    pub(crate) fn new(change: u16) -> Program {
        let rule = |place: u16| Rule {
            table: usize::from(place / VALUES),
            priority: 1,
            value: Some(place % VALUES),
            change,
        };
        Program {
            rules: (0..2 * VALUES).map(rule).collect(),
            group: change,
        }
    }

    /// The change that loads all of it.
    pub(crate) fn load(&self) -> Change {
        let group = [group_of(self.group)];
        let rules = self.rules.iter().map(add);
        Change {
            operations: group.into_iter().chain(rules).collect(),
        }
    }

    /// The expected stamps of a flow's packet.
    pub(crate) fn stamps(&self, flow: FlowKey) -> Stamps {
        let best = |table: usize, value: u16| {
            let rules = self.rules.iter().filter(|rule| rule.table == table);
            let rules = rules.filter(|rule| rule.value.is_none_or(|wanted| wanted == value));
            let best = rules.max_by_key(|rule| rule.priority);
            best.expect("every value has a rule").stamp()
        };
        Stamps([best(0, flow.1), best(1, flow.0), self.group])
    }

    /// Makes the change with this number; returns the rules afterwards, and the change.
    pub(crate) fn changed(&self, kind: Kind, number: u16) -> (Program, Change) {
        let mut next = self.clone();
        match kind {
            Kind::Everything => {
                next.rules.iter_mut().for_each(|rule| rule.change = number);
                next.group = number;
            }
            Kind::Replace { table, value } => next.put(table, 1, Some(value), number),
            Kind::Cover { table } => next.put(table, 2, None, number),
            Kind::Uncover { table } => next.take(table, 2),
            Kind::Single { table, value } => next.put(table, 3, Some(value), number),
            Kind::Group => next.group = number,
            Kind::Swap { table, value } => {
                next.take(table, 2);
                next.put(1 - table, 3, Some(value), number);
            }
        }
        let change = self.difference(&next);
        (next, change)
    }

    fn put(&mut self, table: usize, priority: u16, value: Option<u16>, change: u16) {
        let rule = Rule {
            table,
            priority,
            value,
            change,
        };
        match self.rules.iter_mut().find(|other| is_same(other, &rule)) {
            Some(place) => *place = rule,
            None => self.rules.push(rule),
        }
    }

    fn take(&mut self, table: usize, priority: u16) {
        let is_it = |rule: &Rule| rule.table == table && rule.priority == priority;
        self.rules.retain(|rule| !is_it(rule));
    }

    fn difference(&self, next: &Program) -> Change {
        let mut operations = Vec::new();
        if next.group != self.group {
            operations.push(group_of(next.group));
        }
        let gone = |rule: &&Rule| !next.rules.iter().any(|other| is_same(rule, other));
        for rule in self.rules.iter().filter(gone) {
            let text = format!("delete_strict {}", condition(rule));
            let operation = text::Parser::new().parse_operation(&text);
            operations.push(operation.expect("it is right"));
        }
        let is_new = |rule: &&Rule| !self.rules.contains(rule);
        operations.extend(next.rules.iter().filter(is_new).map(add));
        Change { operations }
    }
}

/// Whether one rule replaces the other.
fn is_same(one: &Rule, other: &Rule) -> bool {
    let what = |rule: &Rule| (rule.table, rule.priority, rule.value);
    what(one) == what(other)
}

fn condition(rule: &Rule) -> String {
    let field = ["tp_dst", "tp_src"][rule.table];
    let value = rule.value.map(|value| format!(",{field}={value}"));
    let (table, priority) = (rule.table, rule.priority);
    format!(
        "table={table},priority={priority},udp{}",
        value.unwrap_or_default()
    )
}

fn add(rule: &Rule) -> Operation {
    let stamp = rule.stamp();
    let (high, low) = (stamp >> 8, stamp & 0xff);
    let actions = match rule.table {
        0 => format!("mod_dl_src:02:00:00:00:{high:02x}:{low:02x},resubmit(,1)"),
        _ => format!("mod_dl_dst:02:00:00:00:{high:02x}:{low:02x},group:1"),
    };
    let text = format!(
        "cookie={stamp},{},send_flow_rem,actions={actions}",
        condition(rule)
    );
    Operation::Add(text::parse_flow(&text).expect("it is right"))
}

fn group_of(change: u16) -> Operation {
    let port = SINKS[usize::from(change) % 2];
    let text = format!("group_id=1,type=indirect,bucket=actions=mod_tp_dst:{change},output:{port}");
    let group = text::Parser::new().parse_group(&text);
    Operation::SetGroup(group.expect("it is right"))
}

/// A UDP packet of a flow, with its own number.
pub(crate) fn frame(flow: FlowKey, source: u16, number: u16) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 8, 0];
    bytes.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    for word in [flow.0, flow.1, 26, 0, flow.0, flow.1, source, number] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.resize(60, 0);
    bytes
}

/// The contents of a sent packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) flow: FlowKey,
    pub(crate) source: u16,
    pub(crate) number: u16,
    pub(crate) stamps: Stamps,
    /// The port that sent it.
    pub(crate) sink: u32,
}

impl Seen {
    /// Reads a packet of [`frame`].
    pub(crate) fn read(bytes: &[u8], sink: u32) -> Seen {
        let word = |place: usize| u16::from_be_bytes([bytes[place], bytes[place + 1]]);
        Seen {
            flow: FlowKey(word(42), word(44)),
            source: word(46),
            number: word(48),
            stamps: Stamps([word(10), word(4), word(36)]),
            sink,
        }
    }

    /// Whether the rules of this version produced it.
    pub(crate) fn is_of(&self, program: &Program) -> bool {
        program.stamps(self.flow) == self.stamps
            && SINKS[usize::from(program.group) % 2] == self.sink
    }
}
