//! What a rule or group must satisfy before it is let in.
//!
//! The interpreter relies on these: tables only lead forward, groups exist and do not call
//! themselves, writes go to fields that can be written. Everything else that an action may meet
//! (a header that is absent, a port that is gone) is a matter of the packet, not of the rule.

use std::collections::BTreeMap;

use thalweg_packet::FieldId;

use crate::action::{Action, GroupId, Subfield, TableId};
use crate::change::ChangeError;
use crate::flow::{Flow, Group, GroupKind};
use crate::pipeline::Pipeline;
use crate::reads;

/// How deeply groups may call groups.
const MAX_GROUP_DEPTH: usize = 16;

/// Checks a rule against the state being prepared.
pub(crate) fn flow(pipeline: &Pipeline, index: usize, flow: &Flow) -> Result<(), ChangeError> {
    actions(pipeline, index, flow.table, &flow.actions)
}

/// Checks the actions of a rule in `table`.
pub(crate) fn actions(
    pipeline: &Pipeline,
    index: usize,
    table: TableId,
    list: &[Action],
) -> Result<(), ChangeError> {
    for action in list {
        match action {
            Action::Goto(to) if *to <= table => {
                return Err(ChangeError::GotoBackwards {
                    operation: index,
                    from: table.0,
                    to: to.0,
                });
            }
            Action::Group(group) if pipeline.group(*group, pipeline.version().next()).is_none() => {
                let group = group.0;
                return Err(ChangeError::UnknownGroup {
                    operation: index,
                    group,
                });
            }
            Action::SetField(writes) => {
                for write in writes {
                    writable(pipeline, index, write.field)?;
                }
            }
            Action::Move {
                source,
                destination,
            } => {
                if source.width_bits() != destination.width_bits() {
                    let what = "move: source and destination must be equally wide".to_owned();
                    return Err(ChangeError::BadAction {
                        operation: index,
                        what,
                    });
                }
                subfield(pipeline, index, destination)?;
            }
            Action::Pop(destination) => subfield(pipeline, index, destination)?,
            Action::Clone(nested) | Action::WriteActions(nested) => {
                actions(pipeline, index, table, nested)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn subfield(pipeline: &Pipeline, index: usize, written: &Subfield) -> Result<(), ChangeError> {
    written
        .slices
        .iter()
        .try_for_each(|slice| writable(pipeline, index, slice.field))
}

fn writable(pipeline: &Pipeline, index: usize, field: FieldId) -> Result<(), ChangeError> {
    let descriptor = &pipeline.fields()[field.index()];
    if reads::is_writable(descriptor) {
        return Ok(());
    }
    let what = format!(
        "field {} is read-only; it cannot be set, loaded or moved to",
        descriptor.name
    );
    Err(ChangeError::BadAction {
        operation: index,
        what,
    })
}

/// Checks a group against the state being prepared.
pub(crate) fn group(pipeline: &Pipeline, index: usize, group: &Group) -> Result<(), ChangeError> {
    let bad = |what| ChangeError::BadGroup {
        operation: index,
        group: group.id.0,
        what,
    };
    if matches!(group.kind, GroupKind::Indirect) && group.buckets.len() != 1 {
        return Err(bad("an indirect group has exactly one bucket"));
    }
    let mut ids: Vec<u32> = group.buckets.iter().map(|bucket| bucket.id).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(bad("two buckets have the same number"));
    }
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
        // A bucket may not lead to a table, so no goto is forward enough.
        if bucket
            .actions
            .iter()
            .any(|action| matches!(action, Action::Goto(_)))
        {
            return Err(bad("a bucket cannot go to a table; use resubmit"));
        }
        actions(pipeline, index, TableId(0), &bucket.actions)?;
        let nested = nested_groups(&bucket.actions).chain(bucket.watch_group);
        for next in nested {
            if reaches(pipeline, next, group.id, MAX_GROUP_DEPTH, &mut refuted) {
                return Err(ChangeError::GroupLoop {
                    operation: index,
                    group: group.id.0,
                });
            }
        }
    }
    Ok(())
}

/// Whether `from` is `target` or leads to it; depth exhausted counts as yes.
///
/// `refuted` has groups for which the answer is no, each with the least depth it was asked with: a
/// group that many others name is followed once a depth, and not once for each way to it.
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
    let Some(group) = pipeline.group(from, pipeline.version().next()) else {
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

/// Whether a list of actions names the group, nested lists included.
pub fn uses_group(list: &[Action], group: GroupId) -> bool {
    nested_groups(list).any(|used| used == group)
}
