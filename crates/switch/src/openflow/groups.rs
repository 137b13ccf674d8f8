//! Changes of groups, decided by the groups as earlier operations leave them.

use std::collections::BTreeMap;

use thalweg_openflow::message::group::{
    ALL_BUCKETS, ALL_GROUPS, FIRST_BUCKET, GroupCommand, GroupMod, LAST_BUCKET, MAX_GROUP,
};
use thalweg_openflow::{ErrorCode, Refusal, refuse};
use thalweg_pipeline::{Action, Bucket, Group, GroupId, GroupKind, Operation, Pipeline};

use super::convert;
use super::meters::ChangedMeters;
use super::numbering::Numbering;

/// The groups and meters of a bridge, with changes that are not made yet.
pub(super) struct Overlay<'a> {
    pipeline: &'a Pipeline,
    numbers: Numbering,
    /// Groups that differ, in the bridge's numbers; `None` for those that go.
    changed: BTreeMap<GroupId, Option<Group>>,
    pub(super) changed_meters: ChangedMeters,
}

impl<'a> Overlay<'a> {
    pub(super) fn new(pipeline: &'a Pipeline, numbers: Numbering) -> Overlay<'a> {
        Overlay {
            pipeline,
            numbers,
            changed: BTreeMap::new(),
            changed_meters: ChangedMeters::new(),
        }
    }

    /// How the bridge's numbers stand in the pipeline.
    pub(super) fn numbers(&self) -> Numbering {
        self.numbers
    }

    /// The pipeline without the changes.
    pub(super) fn pipeline(&self) -> &'a Pipeline {
        self.pipeline
    }

    fn get(&self, id: GroupId) -> Option<Group> {
        match self.changed.get(&id) {
            Some(changed) => changed.clone(),
            None => {
                let there = self.numbers.group(id.number());
                let known = self.pipeline.group(there, self.pipeline.version());
                known.map(|group| self.numbers.told_group(group).into_owned())
            }
        }
    }

    /// Checks that the groups and meters exist that actions name.
    ///
    /// # Errors
    /// If one does not.
    pub(super) fn check_named_by(&self, actions: &[Action]) -> Result<(), Refusal> {
        actions.iter().try_for_each(|action| match action {
            Action::Group(id) if self.get(GroupId(id.number().into())).is_none() => {
                let what = format!("there is no group {}", id.number());
                Err(refuse(ErrorCode::OFPBAC_BAD_OUT_GROUP, what))
            }
            Action::Meter(id) if !self.has_meter(id.number()) => {
                let what = format!("there is no meter {}", id.number());
                Err(refuse(ErrorCode::OFPMMFC_INVALID_METER, what))
            }
            Action::Clone(nested) | Action::WriteActions(nested) => self.check_named_by(nested),
            _ => Ok(()),
        })
    }

    fn ids(&self) -> Vec<GroupId> {
        let (pipeline, bridge) = (self.pipeline, self.numbers.bridge);
        let known = pipeline.groups_of(bridge, pipeline.version());
        let known = known.map(|group| GroupId(group.id.number().into()));
        let mut ids: Vec<GroupId> = known.collect();
        ids.extend(self.changed.keys());
        ids.sort_unstable();
        ids.dedup();
        ids.retain(|id| self.get(*id).is_some());
        ids
    }

    /// The operations of a change of a group, in the bridge's numbers.
    ///
    /// # Errors
    /// With OpenFlow's error for the fault.
    pub(super) fn change(&mut self, asked: &GroupMod) -> Result<Vec<Operation>, Refusal> {
        let id = GroupId(asked.group.into());
        if asked.command == GroupCommand::Delete {
            return self.delete(asked.group);
        }
        let may_add = matches!(asked.command, GroupCommand::Add | GroupCommand::AddOrModify);
        if may_add && asked.group > MAX_GROUP {
            let what = format!("{} is no group's number", asked.group);
            return Err(refuse(ErrorCode::OFPGMFC_INVALID_GROUP, what));
        }
        let known = self.get(id);
        let group = match (asked.command, known) {
            (GroupCommand::Add, Some(_)) => {
                let what = format!("group {} exists", id.0);
                return Err(refuse(ErrorCode::OFPGMFC_GROUP_EXISTS, what));
            }
            (GroupCommand::Add | GroupCommand::AddOrModify, None)
            | (GroupCommand::Modify | GroupCommand::AddOrModify, Some(_)) => {
                let selection = asked.selection.as_ref();
                convert::groups::group(asked.group, asked.kind, &asked.buckets, selection)?
            }
            (GroupCommand::InsertBucket, Some(known)) => insert(asked, known)?,
            (GroupCommand::RemoveBucket, Some(known)) => remove(asked, known)?,
            (_, None) | (GroupCommand::Delete, _) => {
                let what = format!("there is no group {}", id.number());
                return Err(refuse(ErrorCode::OFPGMFC_UNKNOWN_GROUP, what));
            }
        };
        check_buckets(&group)?;
        self.changed.insert(id, Some(group.clone()));
        Ok(vec![Operation::SetGroup(group)])
    }

    fn delete(&mut self, group: u32) -> Result<Vec<Operation>, Refusal> {
        let gone = match group {
            ALL_GROUPS => self.ids(),
            group => vec![GroupId(group.into())],
        };
        let operations = gone.into_iter().map(|id| {
            self.changed.insert(id, None);
            Operation::DeleteGroup(id)
        });
        Ok(operations.collect())
    }
}

/// Refuses two buckets with one number.
fn check_buckets(group: &Group) -> Result<(), Refusal> {
    let mut ids: Vec<u32> = group.buckets.iter().map(|bucket| bucket.id).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        let what = format!(
            "two buckets of group {} have the same number",
            group.id.number()
        );
        return Err(refuse(ErrorCode::OFPGMFC_BUCKET_EXISTS, what));
    }
    if group.kind == GroupKind::Indirect && group.buckets.len() != 1 {
        let what = "an indirect group has exactly one bucket";
        return Err(refuse(ErrorCode::OFPGMFC_INVALID_GROUP, what));
    }
    Ok(())
}

fn insert(asked: &GroupMod, mut known: Group) -> Result<Group, Refusal> {
    let new = asked
        .buckets
        .iter()
        .map(|bucket| convert::groups::bucket(bucket, &known.kind));
    let new = new.collect::<Result<Vec<Bucket>, _>>()?;
    let place = match asked.command_bucket {
        FIRST_BUCKET => 0,
        LAST_BUCKET => known.buckets.len(),
        ALL_BUCKETS => {
            let what = "buckets are inserted behind one bucket, not behind all";
            return Err(refuse(ErrorCode::OFPGMFC_UNKNOWN_BUCKET, what));
        }
        id => place_of(&known, id)? + 1,
    };
    known.buckets.splice(place..place, new);
    Ok(known)
}

fn remove(asked: &GroupMod, mut known: Group) -> Result<Group, Refusal> {
    match asked.command_bucket {
        ALL_BUCKETS => known.buckets.clear(),
        FIRST_BUCKET if known.buckets.is_empty() => {}
        FIRST_BUCKET => drop(known.buckets.remove(0)),
        LAST_BUCKET => drop(known.buckets.pop()),
        id => {
            let place = place_of(&known, id)?;
            known.buckets.remove(place);
        }
    }
    Ok(known)
}

fn place_of(group: &Group, bucket: u32) -> Result<usize, Refusal> {
    let place = group.buckets.iter().position(|known| known.id == bucket);
    let unknown = || {
        let what = format!("group {} has no bucket {bucket}", group.id.number());
        refuse(ErrorCode::OFPGMFC_UNKNOWN_BUCKET, what)
    };
    place.ok_or_else(unknown)
}
