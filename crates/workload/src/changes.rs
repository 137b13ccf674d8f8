//! Rule changes over a generated pipeline, and their text.
//!
//! The text is the input of `ovs-ofctl bundle`, one change per line, with two extensions: a
//! packet position in front, and braces around changes that are atomic together.
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
//! - `@N` means: before packet `N` of the sequence, counted from 0. A change without it
//!   follows the previous change at once. Positions never decrease.
//! - `add RULE` and `modify_strict RULE` take a whole rule; `delete_strict SELECTOR` takes a
//!   table, a priority and a match. "Strict" means exactly this rule.
//! - `bundle {`, changes one per line, `}`: all or none; no packet sees a part of them.
//!
//! There are four mixes, each over the current rules of the pipeline:
//!
//! 1. *route-flap*: routes are removed and, some changes later, return with another next hop;
//! 2. *acl-insert*: access-list rules are added, at unused priorities; the oldest added one is
//!    removed when there are more than 64;
//! 3. *mac-move*: a host appears at another port;
//! 4. *random*: all of these, and bundles of several.
//!
//! At no time do two rules of a table overlap at equal priority, and a strict delete or modify
//! always names an existing rule: the source keeps track. Its memory is that of the live
//! rules.

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
    /// The rule of this table, priority and match is removed; its actions are ignored.
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

/// Operations that take effect together; its [`Display`](fmt::Display) is a line or a bundle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The packet before which it happens; without one, it follows the previous change.
    pub position: Option<u64>,
    /// The operations in order; more than one makes a bundle.
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

/// The changes as the text of a changes file.
pub fn changes_text(changes: &[Change]) -> String {
    changes.iter().map(|change| format!("{change}\n")).collect()
}

/// A mix of changes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ChangeMix {
    /// Routes are removed and return.
    RouteFlap,
    /// Access-list rules are added and later removed.
    AclInsert,
    /// Hosts move to other ports.
    MacMove,
    /// All of these, sometimes several at once.
    Random,
}

/// The most routes removed at a time, and the most added access-list rules.
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
    /// Live routes, and removed ones, the longest removed first.
    routes: Vec<Rule>,
    away: VecDeque<Rule>,
    /// Live hosts.
    hosts: Vec<Rule>,
    acl: AclState,
}

impl ChangeSource {
    /// Prepares to change `pipeline`, whose rules are those before the first change.
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
        // Default routes stay: they keep packets on their template.
        routes.retain(|rule| rule.matches.term(Field::IpDst).is_some());
        let hosts = of_role(TableRole::Bridging);
        let mut acl = of_role(TableRole::Acl);
        // Above the list are rules for marked packets, which are no models for new rules.
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

    /// Places a change before every `interval` packets, the first after `interval` packets.
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

    /// Removes a route, or restores the longest removed one with another next hop.
    fn flap_route(&mut self) -> Operation {
        let returns =
            self.away.len() == BACKLOG || (!self.away.is_empty() && self.random.random_ratio(1, 2));
        if returns {
            let mut route = self.away.pop_front().expect("checked to be there");
            // The next hop of any other route of the table exists.
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

    /// Changes a host's port: the register in its rule that holds the port.
    fn move_host(&mut self) -> Operation {
        let place = index_below(&mut self.random, self.ports.len());
        let index = index_below(&mut self.random, self.hosts.len());
        let host = &mut self.hosts[index];
        for action in &mut host.actions {
            if let Action::SetField(Field::Register(_), value) = action {
                // A move to the same port would be no change.
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

/// The access list: its free priorities, and the added rules.
struct AclState {
    filters: FilterSource,
    /// Live matches by table and priority.
    levels: HashMap<(u8, u16), Vec<Match>>,
    /// Existing rules that show the table, metadata and actions of possible rules.
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

    /// A rule that overlaps no other at its priority.
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

    /// Applies changes to a plain list, and refuses those that the essay rules out.
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
