//! Checks that a rule or group must pass before it is added.
//!
//! [`form`] checks a change by itself, before any of it is done. This module checks what
//! depends on the rules and groups that exist when an operation's turn comes. The interpreter
//! relies on both: gotos only lead forward, groups do not call themselves, writes go to fields
//! that can be written. Everything else that an action may meet (an absent header, a missing
//! port) depends on the packet, not on the rule.
//!
//! A rule may name only groups and meters that exist. A bucket may name a group that is added
//! later, as in Open vSwitch, which prints groups in any order; until then such a bucket drops.

pub(crate) mod form;

use std::collections::BTreeMap;

use crate::action::{Action, GroupId, TableId};
use crate::bridge::BridgeId;
use crate::change::{ChangeError, meters_named};
use crate::flow::{Flow, Group};
use crate::pipeline::Pipeline;

/// How deep groups may nest, by buckets that name or watch other groups.
const MAX_GROUP_DEPTH: usize = 128;

/// Checks a rule against the state being prepared.
pub(crate) fn flow(pipeline: &Pipeline, index: usize, flow: &Flow) -> Result<(), ChangeError> {
    if !pipeline.config.bridges && flow.table.bridge() != BridgeId::default() {
        return Err(ChangeError::BadRule {
            operation: index,
            what: format!("table {}: this pipeline has no bridges", flow.table.0),
        });
    }
    actions(pipeline, index, flow.table, &flow.actions)
}

/// Checks the actions of a rule in `table`.
pub(crate) fn actions(
    pipeline: &Pipeline,
    index: usize,
    table: TableId,
    list: &[Action],
) -> Result<(), ChangeError> {
    // An instruction can only be in a rule's own list.
    let back = list.iter().find_map(|action| match action {
        Action::Goto(to) if *to <= table => Some(*to),
        _ => None,
    });
    if let Some(to) = back {
        return Err(ChangeError::GotoBackwards {
            operation: index,
            from: table.number(),
            to: to.number(),
        });
    }
    named_of(pipeline, index, list)
}

/// Checks that the groups and meters named by actions exist, whatever rule the actions are for.
pub(crate) fn named_of(
    pipeline: &Pipeline,
    index: usize,
    list: &[Action],
) -> Result<(), ChangeError> {
    meters_of(pipeline, index, list)?;
    groups_of(pipeline, index, list)
}

fn meters_of(pipeline: &Pipeline, index: usize, list: &[Action]) -> Result<(), ChangeError> {
    let open = pipeline.open_version();
    let mut unknown = None;
    meters_named(list, &mut |id| {
        if unknown.is_none() && pipeline.meter(id, open).is_none() {
            unknown = Some(id);
        }
    });
    match unknown {
        None => Ok(()),
        Some(id) => Err(ChangeError::UnknownMeter {
            operation: index,
            meter: id.number(),
        }),
    }
}

fn groups_of(pipeline: &Pipeline, index: usize, list: &[Action]) -> Result<(), ChangeError> {
    let open = pipeline.open_version();
    let mut named = nested_groups(list);
    match named.find(|group| pipeline.group(*group, open).is_none()) {
        None => Ok(()),
        Some(group) => Err(ChangeError::UnknownGroup {
            operation: index,
            group: group.number(),
        }),
    }
}

/// Checks a group against the state being prepared.
pub(crate) fn group(pipeline: &Pipeline, index: usize, group: &Group) -> Result<(), ChangeError> {
    let is_known = pipeline.groups.contains_key(&group.id);
    if !is_known && pipeline.groups.len() >= pipeline.config.groups {
        let capacity = pipeline.config.groups;
        return Err(ChangeError::GroupsFull {
            operation: index,
            capacity,
        });
    }
    let mut refuted = BTreeMap::new();
    for bucket in &group.buckets {
        let nested = nested_groups(&bucket.actions).chain(bucket.watch_group);
        for next in nested {
            if reaches(pipeline, next, group.id, MAX_GROUP_DEPTH, &mut refuted) {
                return Err(ChangeError::GroupLoop {
                    operation: index,
                    group: group.id.number(),
                    depth: MAX_GROUP_DEPTH,
                });
            }
        }
    }
    Ok(())
}

/// Whether `from` is `target` or leads to it; exhausted depth counts as yes.
///
/// `refuted` maps groups for which the answer is no to the least depth they were tried with.
/// So a group that many others name is followed once per depth, not once per path to it.
fn reaches(
    pipeline: &Pipeline,
    from: GroupId,
    target: GroupId,
    depth: usize,
    refuted: &mut BTreeMap<GroupId, usize>,
) -> bool {
    if from == target || depth == 0 {
        return true;
    }
    if refuted.get(&from).is_some_and(|known| *known <= depth) {
        return false;
    }
    let Some(group) = pipeline.group(from, pipeline.open_version()) else {
        return false;
    };
    let is_found = group.buckets.iter().any(|bucket| {
        let mut next = nested_groups(&bucket.actions).chain(bucket.watch_group);
        next.any(|next| reaches(pipeline, next, target, depth - 1, refuted))
    });
    if !is_found {
        refuted.insert(from, depth);
    }
    is_found
}

/// The groups that a list of actions names.
fn nested_groups(list: &[Action]) -> impl Iterator<Item = GroupId> {
    let mut found = Vec::new();
    collect_groups(list, &mut found);
    found.into_iter()
}

fn collect_groups(list: &[Action], found: &mut Vec<GroupId>) {
    for action in list {
        match action {
            Action::Group(group) => found.push(*group),
            Action::Clone(nested) | Action::WriteActions(nested) => collect_groups(nested, found),
            _ => {}
        }
    }
}
