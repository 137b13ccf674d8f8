//! Draws changes to rules that packets have met, of the requested kinds.
//!
//! ```text
//!   insert    a rule that was away comes back
//!   delete    a rule goes
//!   modify    a rule does what another of its table does that leads to the same table
//!   priority  a rule goes and comes back with another priority, in one change
//!   group     what a rule sends through a group is dropped, or sent again
//!   port      a port's link goes down, or comes up
//! ```
//!
//! Kinds are drawn evenly. If only deletions are requested, removed rules return between the
//! changes, by a separate change that is not timed ([`Changes::prepare`]); the reverse holds
//! for insertions.

use std::mem::Discriminant;

use anyhow::Result;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_packet::PortId;
use thalweg_pipeline::{
    Action, Actions, Bucket, Change, Flow, Group, GroupId, GroupKind, Operation, PortState,
    Selector,
};

use thalweg_command::failure::bad_input;

/// What a change does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Kind {
    /// A removed rule returns
    Insert,
    /// A rule is removed
    Delete,
    /// A rule gets the actions of another
    Modify,
    /// A rule gets another priority
    Priority,
    /// A group gets another bucket
    Group,
    /// A port's link goes down or comes up
    Port,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Insert => "insert",
            Kind::Delete => "delete",
            Kind::Modify => "modify",
            Kind::Priority => "priority",
            Kind::Group => "group",
            Kind::Port => "port",
        }
    }
}

/// The changes to draw.
#[derive(Clone, Debug)]
pub(super) struct Mix {
    /// The kinds; at least one.
    pub(super) kinds: Vec<Kind>,
    /// Operations in each change.
    pub(super) bundle: usize,
}

impl Mix {
    pub(super) fn has(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }

    /// Most rules that are removed at a time.
    fn away_max(&self) -> usize {
        AWAY_MAX.max(2 * self.bundle)
    }

    /// Least number of changeable rules.
    pub(super) fn rules_needed(&self) -> usize {
        self.away_max() + 1
    }
}

/// What can be changed.
pub(super) struct Ground {
    /// Rules that packets have met.
    pub(super) used: Vec<Flow>,
    /// Groups that rules use.
    pub(super) groups: Vec<Group>,
    /// Port numbers.
    pub(super) ports: Vec<u32>,
}

/// Most rules that are removed at a time, if a change has one operation.
const AWAY_MAX: usize = 16;
/// Largest step of a priority.
const PRIORITY_STEP: u16 = 8;

/// A seeded source of changes.
pub(super) struct Changes {
    random: Pcg64Mcg,
    mix: Mix,
    /// The rules that packets have met, and the removed ones among them.
    used: Vec<Flow>,
    away: Vec<Flow>,
    groups: Vec<Alternative>,
    ports: Vec<(PortId, bool)>,
}

/// A group, and whether it currently drops.
struct Alternative {
    group: Group,
    is_empty: bool,
}

/// A change, and the kind of its operations.
pub(super) struct Drawn {
    pub(super) change: Change,
    /// The kind of its operations, or `bundle` if they are mixed.
    pub(super) kind: &'static str,
}

impl Changes {
    /// Creates a source of changes to these rules and ports.
    ///
    /// # Errors
    /// If there is too little of what the mix changes.
    pub(super) fn new(mix: Mix, ground: Ground, seed: u64) -> Result<Changes> {
        let is_used = |group: &Group| {
            let mut flows = ground.used.iter();
            flows.any(|flow| flow.actions.contains(&Action::Group(group.id)))
        };
        let groups = ground.groups.iter().filter(|group| is_used(group));
        let groups = groups.cloned().map(|group| Alternative {
            group,
            is_empty: false,
        });
        let ports = ground.ports.iter().map(|port| (PortId(*port), true));
        let changes = Changes {
            random: Pcg64Mcg::seed_from_u64(seed),
            groups: groups.collect(),
            ports: ports.collect(),
            mix,
            used: ground.used,
            away: Vec::new(),
        };
        let (used, needed) = (changes.used.len(), changes.mix.rules_needed());
        if used < needed {
            return Err(bad_input(format!(
                "packets have met {used} rules, and {needed} are needed; ask for more rules, more \
                 entries or less of --bundle"
            )));
        }
        if changes.mix.has(Kind::Group) && changes.groups.is_empty() {
            let what = "--change group: no rule that packets have met sends them; ask for more";
            return Err(bad_input(format!("{what} entries")));
        }
        Ok(changes)
    }

    /// A change that must come before the next one can be drawn.
    pub(super) fn prepare(&mut self) -> Option<Change> {
        let (comes, goes) = (self.mix.has(Kind::Insert), self.mix.has(Kind::Delete));
        let mut operations = Vec::new();
        if comes && !goes {
            while self.away.len() < self.mix.bundle {
                operations.push(self.delete());
            }
        }
        if goes && !comes {
            while self.away.len() + self.mix.bundle > self.away_max() {
                operations.push(self.insert());
            }
        }
        (!operations.is_empty()).then_some(Change { operations })
    }

    /// The next change.
    pub(super) fn draw(&mut self) -> Drawn {
        let mut operations = Vec::new();
        let mut kind = "bundle";
        for _ in 0..self.mix.bundle {
            let drawn = self.draw_kind();
            if self.mix.bundle == 1 {
                kind = drawn.name();
            }
            match drawn {
                Kind::Insert => operations.push(self.insert()),
                Kind::Delete => operations.push(self.delete()),
                Kind::Modify => operations.push(self.modify()),
                Kind::Priority => operations.extend(self.reprioritize()),
                Kind::Group => operations.push(self.change_group()),
                Kind::Port => operations.push(self.change_port()),
            }
        }
        Drawn {
            change: Change { operations },
            kind,
        }
    }

    fn away_max(&self) -> usize {
        self.mix.away_max()
    }

    /// Draws a kind that currently applies.
    fn draw_kind(&mut self) -> Kind {
        let drawn = self.mix.kinds.choose(&mut self.random);
        let drawn = *drawn.expect("a mix has kinds");
        match drawn {
            Kind::Insert if self.away.is_empty() => Kind::Delete,
            Kind::Delete if self.away.len() >= self.away_max() => Kind::Insert,
            other => other,
        }
    }

    fn insert(&mut self) -> Operation {
        let flow = self.away.remove(0);
        self.used.push(flow.clone());
        Operation::Add(flow)
    }

    fn delete(&mut self) -> Operation {
        let index = self.random.random_range(0..self.used.len());
        let flow = self.used.swap_remove(index);
        let selector = strict(&flow);
        self.away.push(flow);
        Operation::Delete(selector)
    }

    fn modify(&mut self) -> Operation {
        let index = self.random.random_range(0..self.used.len());
        // If there is no such rule, the rule gets its own actions again.
        let actions = self.other_actions(index);
        let actions = actions.unwrap_or_else(|| self.used[index].actions.clone());
        let selector = strict(&self.used[index]);
        self.used[index].actions = actions.clone();
        Operation::Modify(selector, actions)
    }

    /// The actions of another rule of the same table that leads to the same table.
    fn other_actions(&mut self, index: usize) -> Option<Actions> {
        let flow = &self.used[index];
        for _ in 0..16 {
            let other = self.used.choose(&mut self.random)?;
            let is_alike = other.table == flow.table
                && goto(other) == goto(flow)
                && parts(other).eq(parts(flow));
            if is_alike && other.actions != flow.actions {
                return Some(other.actions.clone());
            }
        }
        None
    }

    fn reprioritize(&mut self) -> [Operation; 2] {
        let index = self.random.random_range(0..self.used.len());
        let selector = strict(&self.used[index]);
        let step = self.random.random_range(1..=PRIORITY_STEP);
        let flow = &mut self.used[index];
        let raised = flow.priority.checked_add(step);
        let lowered = flow.priority.checked_sub(step);
        flow.priority = match (self.random.random(), raised, lowered) {
            (true, Some(raised), _) | (false, Some(raised), None) => raised,
            (_, _, Some(lowered)) => lowered,
            (_, None, None) => unreachable!("a step is less than half of all priorities"),
        };
        [Operation::Delete(selector), Operation::Add(flow.clone())]
    }

    fn change_group(&mut self) -> Operation {
        let index = self.random.random_range(0..self.groups.len());
        let alternative = &mut self.groups[index];
        alternative.is_empty = !alternative.is_empty;
        let mut group = alternative.group.clone();
        if alternative.is_empty {
            group.buckets[0].actions = Actions::default();
        }
        Operation::SetGroup(group)
    }

    /// Takes a port down, or up again; at most one is down at a time.
    fn change_port(&mut self) -> Operation {
        let down = self.ports.iter().position(|(_, is_up)| !is_up);
        let index = down.unwrap_or_else(|| self.random.random_range(0..self.ports.len()));
        let (port, is_up) = &mut self.ports[index];
        *is_up = !*is_up;
        let state = PortState {
            is_up: *is_up,
            floods: true,
            forwards: true,
            peer: None,
        };
        Operation::SetPort(*port, state)
    }
}

/// Replaces outputs to ports by groups, one group per such rule; returns the groups.
pub(super) fn put_groups_in(flows: &mut [Flow]) -> Vec<Group> {
    let mut groups = Vec::new();
    for flow in flows {
        let mut actions = flow.actions.to_vec();
        let output = actions
            .iter_mut()
            .find(|action| matches!(action, Action::Output(_)));
        let Some(output) = output else {
            continue;
        };
        let id = GroupId(groups.len() as u64 + 1);
        let output = std::mem::replace(output, Action::Group(id));
        groups.push(Group {
            id,
            kind: GroupKind::Indirect,
            buckets: vec![Bucket {
                id: 0,
                weight: 1,
                watch_port: None,
                watch_group: None,
                actions: vec![output].into(),
                max_length: 0,
            }],
        });
        flow.actions = actions.into();
    }
    groups
}

fn goto(flow: &Flow) -> Option<&Action> {
    let mut actions = flow.actions.iter();
    actions.find(|action| matches!(action, Action::Goto(_)))
}

/// The kinds of a rule's actions on which others of its table rely.
fn parts(flow: &Flow) -> impl Iterator<Item = Discriminant<Action>> {
    let actions = flow.actions.iter().filter(|action| {
        matches!(
            action,
            Action::Conjunction { .. } | Action::Track(_) | Action::Learn(_) | Action::Group(_)
        )
    });
    actions.map(std::mem::discriminant)
}

/// Selects exactly this rule.
pub(super) fn strict(flow: &Flow) -> Selector {
    Selector {
        table: Some(flow.table),
        matching: flow.matching.clone(),
        strict_priority: Some(flow.priority),
        cookie: None,
        ..Selector::default()
    }
}
