//! Rule changes over a generated pipeline, and their text.
//!
//! The text is what `ovs-ofctl bundle` reads, one change a line, extended by two things: a packet
//! position in front, and braces around changes that are atomic together.
//!
//! ```text
//! # a comment
//! @1000 modify_strict table=50,priority=100,vlan_tci=0x1005/0x1fff,dl_dst=...,actions=...
//! @2000 delete_strict table=30,priority=124,reg1=1,ip,nw_dst=10.1.2.0/24
//! @2500 bundle {
//! delete_strict table=60,priority=1000,tcp,nw_src=192.0.2.1
//! add table=60,priority=1000,tcp,nw_src=192.0.2.2,actions=drop
//! }
//! ```
//!
//! - `@N` means: before packet `N` of the sequence, counted from 0. Without it a change follows
//!   the one in front of it at once. Positions never fall.
//! - `add RULE` and `modify_strict RULE` take a whole rule; `delete_strict SELECTOR` a table, a
//!   priority and a match. "Strict" means that exactly this rule is meant.
//! - `bundle {`, changes one a line, `}`: all of them or none, seen by no packet in part.
//!
//! Four mixes, each over what is really in the pipeline at that moment:
//!
//! 1. *route-flap*: routes go and, some changes later, come back with another next hop;
//! 2. *acl-insert*: access-list rules come, at a priority of their own; the oldest inserted one
//!    goes when there are more than 64 of them;
//! 3. *mac-move*: a host shows up at another port;
//! 4. *random*: all of these, and bundles of several.
//!
//! At no time do two rules of a table overlap at equal priority, and a strict delete or modify
//! always names a rule that exists: the source keeps track. The memory is that of the live rules.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use rand::Rng;

use crate::action::Action;
use crate::classbench::{Extra, FilterSource, Profile};
use crate::error::WorkloadError;
use crate::field::Field;
use crate::pipeline::{ACL_PRIORITIES, Pipeline, TableRole};
use crate::rule::{Match, Rule};
use crate::seed::{Random, index_below, pick, stream};

/// One operation on one rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// The rule is added.
    Add(Rule),
    /// The rule of this table, priority and match is removed; its actions are not looked at.
    DeleteStrict(Rule),
    /// The rule of this table, priority and match gets these actions.
    ModifyStrict(Rule),
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Add(rule) => write!(f, "add {rule}"),
            Operation::ModifyStrict(rule) => write!(f, "modify_strict {rule}"),
            Operation::DeleteStrict(rule) => {
                f.write_str("delete_strict ")?;
                rule.write_selector(f)
            }
        }
    }
}

/// Operations that take effect together; its [`Display`](fmt::Display) is one line, or a bundle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The packet in front of which it happens; without one, right after the change before it.
    pub position: Option<u64>,
    /// What is done, in order; more than one makes a bundle.
    pub operations: Vec<Operation>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = self.position {
            write!(f, "@{position} ")?;
        }
        if let [only] = &self.operations[..] {
            return write!(f, "{only}");
        }
        f.write_str("bundle {\n")?;
        for operation in &self.operations {
            writeln!(f, "{operation}")?;
        }
        f.write_str("}")
    }
}

/// The changes as a changes file.
pub fn changes_text(changes: &[Change]) -> String {
    changes.iter().map(|change| format!("{change}\n")).collect()
}

/// Which changes happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ChangeMix {
    /// Routes go and come back.
    RouteFlap,
    /// Access-list rules come, and later go.
    AclInsert,
    /// Hosts move to other ports.
    MacMove,
    /// All of these, also several at once.
    Random,
}

/// Routes that are away at a time, and access-list rules that were inserted.
const BACKLOG: usize = 64;

/// An endless, seeded source of changes to a pipeline.
///
/// ```
/// use thalweg_workload::{ChangeMix, ChangeSource, PipelineKind};
///
/// let pipeline = PipelineKind::Ofd.generate(1000, 7)?;
/// let changes = ChangeSource::new(&pipeline, ChangeMix::RouteFlap, 7)?.every_packets(100);
/// let first = changes.take(1).next().expect("the source has no end");
/// assert!(first.to_string().starts_with("@100 delete_strict table=30,"));
/// # Ok::<(), thalweg_workload::WorkloadError>(())
/// ```
pub struct ChangeSource {
    mix: ChangeMix,
    random: Random,
    interval_packets: Option<u64>,
    emitted: u64,
    ports: Vec<u32>,
    /// Live routes, and those away, the longest away first.
    routes: Vec<Rule>,
    away: VecDeque<Rule>,
    /// Live hosts.
    hosts: Vec<Rule>,
    acl: AclState,
}

impl ChangeSource {
    /// Prepares to change `pipeline`, which is what the rules are before the first change.
    ///
    /// # Errors
    /// When the pipeline has no rules of the kind that the mix works on.
    pub fn new(pipeline: &Pipeline, mix: ChangeMix, seed: u64) -> Result<Self, WorkloadError> {
        let of_role = |role| {
            let is_in_role = move |rule: &&Rule| {
                rule.priority >= 100
                    && pipeline
                        .table(rule.table)
                        .is_some_and(|table| table.role == role)
            };
            pipeline
                .rules
                .iter()
                .filter(is_in_role)
                .cloned()
                .collect::<Vec<Rule>>()
        };
        let wants = |kind| mix == kind || mix == ChangeMix::Random;
        let mut routes = of_role(TableRole::Routing);
        // Default routes stay: they are what keeps packets on their template.
        routes.retain(|rule| rule.matches.term(Field::IpDst).is_some());
        let hosts = of_role(TableRole::Bridging);
        let mut acl = of_role(TableRole::Acl);
        // Above the list stand rules for marked packets, which are no models for others.
        acl.retain(|rule| rule.priority <= ACL_PRIORITIES.1);
        if wants(ChangeMix::RouteFlap) && routes.len() <= BACKLOG {
            return Err(WorkloadError::NothingToChange("routing"));
        }
        if wants(ChangeMix::MacMove) && hosts.is_empty() {
            return Err(WorkloadError::NothingToChange("bridging"));
        }
        if wants(ChangeMix::AclInsert) && acl.is_empty() {
            return Err(WorkloadError::NothingToChange("access-list"));
        }
        Ok(ChangeSource {
            mix,
            random: stream(seed, "changes"),
            interval_packets: None,
            emitted: 0,
            ports: pipeline.ports.clone(),
            routes,
            away: VecDeque::new(),
            hosts,
            acl: AclState::new(acl, seed),
        })
    }

    /// Puts a change in front of every `interval` packets, the first after `interval`.
    pub fn every_packets(mut self, interval: u64) -> Self {
        self.interval_packets = Some(interval);
        self
    }

    fn draw(&mut self, mix: ChangeMix) -> Vec<Operation> {
        match mix {
            ChangeMix::RouteFlap => vec![self.flap_route()],
            ChangeMix::AclInsert => vec![self.acl.next_operation(&mut self.random)],
            ChangeMix::MacMove => vec![self.move_host()],
            ChangeMix::Random => {
                let kinds = [
                    ChangeMix::RouteFlap,
                    ChangeMix::AclInsert,
                    ChangeMix::MacMove,
                ];
                let several = self.random.random_ratio(1, 4);
                let count = if several {
                    self.random.random_range(2..=5)
                } else {
                    1
                };
                (0..count)
                    .flat_map(|_| {
                        let kind = *pick(&mut self.random, &kinds);
                        self.draw(kind)
                    })
                    .collect()
            }
        }
    }

    /// A route goes, or the longest away comes back by another way.
    fn flap_route(&mut self) -> Operation {
        let returns =
            self.away.len() == BACKLOG || (!self.away.is_empty() && self.random.random_ratio(1, 2));
        if returns {
            let mut route = self.away.pop_front().expect("checked to be there");
            // The next hop of any other route of the table is a next hop that exists.
            let table = route.table;
            let other = pick(&mut self.random, &self.routes);
            if other.table == table && other.next_table() == route.next_table() {
                route.actions = other.actions.clone();
            }
            self.routes.push(route.clone());
            return Operation::Add(route);
        }
        let index = index_below(&mut self.random, self.routes.len());
        let route = self.routes.swap_remove(index);
        self.away.push_back(route.clone());
        Operation::DeleteStrict(route)
    }

    /// The port in a host's rule changes: the register that carries it is the one it sets.
    fn move_host(&mut self) -> Operation {
        let place = index_below(&mut self.random, self.ports.len());
        let index = index_below(&mut self.random, self.hosts.len());
        let host = &mut self.hosts[index];
        for action in &mut host.actions {
            if let Action::SetField(Field::Register(_), value) = action {
                // A move to where it is would be no change.
                let stays = *value == self.ports[place].into();
                let place = if stays {
                    (place + 1) % self.ports.len()
                } else {
                    place
                };
                *value = self.ports[place].into();
            }
        }
        Operation::ModifyStrict(host.clone())
    }
}

impl Iterator for ChangeSource {
    type Item = Change;

    fn next(&mut self) -> Option<Change> {
        self.emitted += 1;
        let position = self
            .interval_packets
            .map(|interval| interval * self.emitted);
        let operations = self.draw(self.mix);
        Some(Change {
            position,
            operations,
        })
    }
}

/// The access list: where there is room, and what was inserted.
struct AclState {
    filters: FilterSource,
    /// Live matches by table and priority.
    levels: HashMap<(u8, u16), Vec<Match>>,
    /// Rules that show in which table, for which metadata and with which actions rules may stand.
    models: Vec<Rule>,
    inserted: VecDeque<Rule>,
}

impl AclState {
    fn new(models: Vec<Rule>, seed: u64) -> Self {
        let mut levels: HashMap<(u8, u16), Vec<Match>> = HashMap::new();
        for rule in &models {
            levels
                .entry((rule.table, rule.priority))
                .or_default()
                .push(rule.matches.clone());
        }
        let filters = FilterSource::new(Profile::Acl1, seed ^ 0x5eed);
        AclState {
            filters,
            levels,
            models,
            inserted: VecDeque::new(),
        }
    }

    fn next_operation(&mut self, random: &mut Random) -> Operation {
        let full = self.inserted.len() == BACKLOG;
        if let Some(oldest) = self.inserted.pop_front_if(|_| full) {
            let level = self.levels.get_mut(&(oldest.table, oldest.priority));
            level
                .expect("inserted rules are live")
                .retain(|live| *live != oldest.matches);
            return Operation::DeleteStrict(oldest);
        }
        let rule = self.draw_rule(random);
        let level = self.levels.entry((rule.table, rule.priority)).or_default();
        level.push(rule.matches.clone());
        self.inserted.push_back(rule.clone());
        Operation::Add(rule)
    }

    /// A rule for a place where nothing overlaps it at its priority.
    fn draw_rule(&mut self, random: &mut Random) -> Rule {
        loop {
            let model = pick(random, &self.models);
            let (table, mut actions) = (model.table, model.actions.clone());
            if random.random_ratio(1, 2) {
                actions.clear();
            }
            let matches = self.filters.next_filter().matches(Extra::Ignore);
            let mut matches = pick(random, &matches).clone();
            if let Some(metadata) = model.matches.exact(Field::Metadata) {
                matches = matches.with(Field::Metadata, metadata);
            }
            let priority = random.random_range(ACL_PRIORITIES.0..=ACL_PRIORITIES.1);
            let level = self.levels.get(&(table, priority));
            if level
                .into_iter()
                .flatten()
                .all(|live| !live.overlaps(&matches))
            {
                return Rule::new(table, priority, matches, actions);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::PipelineKind;

    const MIXES: [ChangeMix; 4] = [
        ChangeMix::RouteFlap,
        ChangeMix::AclInsert,
        ChangeMix::MacMove,
        ChangeMix::Random,
    ];

    /// Applies changes to a plain list, and refuses all that the essay rules out.
    fn apply(live: &mut Vec<Rule>, operation: &Operation) {
        let place = |live: &[Rule], rule: &Rule| {
            let same = |other: &&Rule| {
                (other.table, other.priority) == (rule.table, rule.priority)
                    && other.matches == rule.matches
            };
            live.iter().position(|other| same(&other))
        };
        match operation {
            Operation::Add(rule) => {
                let other = live.iter().find(|other| other.is_ambiguous_with(rule));
                assert_eq!(other, None, "{rule}");
                live.push(rule.clone());
            }
            Operation::DeleteStrict(rule) => {
                let index = place(live, rule).unwrap_or_else(|| panic!("no rule {rule}"));
                live.swap_remove(index);
            }
            Operation::ModifyStrict(rule) => {
                let index = place(live, rule).unwrap_or_else(|| panic!("no rule {rule}"));
                assert_ne!(live[index].actions, rule.actions, "{rule}");
                live[index].actions.clone_from(&rule.actions);
            }
        }
    }

    #[test]
    fn every_change_makes_sense_where_it_stands() {
        for kind in [PipelineKind::Ofd, PipelineKind::Psc] {
            let pipeline = kind.generate(2_000, 1).unwrap();
            for mix in MIXES {
                let mut live = pipeline.rules.clone();
                for change in ChangeSource::new(&pipeline, mix, 2).unwrap().take(1_000) {
                    change
                        .operations
                        .iter()
                        .for_each(|operation| apply(&mut live, operation));
                }
                let grown = live.len() as i64 - pipeline.rules.len() as i64;
                assert!(
                    grown.unsigned_abs() as usize <= 2 * BACKLOG,
                    "{mix:?}: {grown}"
                );
            }
        }
    }

    #[test]
    fn the_seed_decides() {
        let pipeline = PipelineKind::Ofd.generate(1_000, 1).unwrap();
        for mix in MIXES {
            let draw = |seed| -> Vec<Change> {
                ChangeSource::new(&pipeline, mix, seed)
                    .unwrap()
                    .take(200)
                    .collect()
            };
            assert_eq!(draw(1), draw(1));
            assert_ne!(draw(1), draw(2));
        }
    }

    #[test]
    fn text_is_the_bundle_syntax_with_positions() {
        let rule = Rule::new(3, 7, Match::any().with_vlan(5), vec![Action::Output(1)]);
        let changes = [
            Change {
                position: Some(9),
                operations: vec![Operation::Add(rule.clone())],
            },
            Change {
                position: None,
                operations: vec![
                    Operation::DeleteStrict(rule.clone()),
                    Operation::ModifyStrict(rule),
                ],
            },
        ];
        let expected = "@9 add table=3,priority=7,vlan_tci=0x1005/0x1fff,actions=output:1\n\
            bundle {\n\
            delete_strict table=3,priority=7,vlan_tci=0x1005/0x1fff\n\
            modify_strict table=3,priority=7,vlan_tci=0x1005/0x1fff,actions=output:1\n\
            }\n";
        assert_eq!(changes_text(&changes), expected);
    }

    #[test]
    fn a_pipeline_without_such_rules_is_refused() {
        let pipeline = PipelineKind::Synthetic {
            tables: 3,
            traversals: 1,
        }
        .generate(1_000, 1)
        .unwrap();
        let error = ChangeSource::new(&pipeline, ChangeMix::MacMove, 1)
            .err()
            .unwrap();
        assert!(error.to_string().contains("no bridging rules"), "{error}");
    }
}
