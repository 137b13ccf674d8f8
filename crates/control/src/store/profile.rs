//! Action profiles: members, groups, and action lists given with an entry.
//!
//! The tables of a profile are filled in one of two ways, never both. Either the controller
//! numbers members and groups. Or entries have lists ("one shot"), which become groups and
//! members with our numbers. Since the two are never mixed, the numbers cannot collide.

// The deprecated form of a watch port is still recognised, and refused like the other.
#![allow(deprecated)]

use std::collections::BTreeSet;
use std::sync::Arc;

use super::action::{Place, call_for};
use super::rows::{EntryAction, Group, OneShot, Undo};
use super::{Result, Store, Type, owned, unknown};
use crate::change::{ActionCall, Change, GroupMember, Operation};
use crate::p4info::{Catalog, Profile, Table};
use crate::problem::{Code, Problem};
use crate::proto::p4::v1 as p4;
use crate::proto::p4::v1::action_profile_action::WatchKind as ActionWatch;
use crate::proto::p4::v1::action_profile_action_set::{ActionSelectionMode, SizeSemantics};
use crate::proto::p4::v1::action_profile_group::member::WatchKind as MemberWatch;

/// Maximum weight, so that sums of weights do not overflow.
const MAX_WEIGHT: u32 = 1 << 16;
/// Maximum members of a group, if the program sets no limit.
const MAX_GROUP: usize = 1 << 16;

impl Store {
    pub(super) fn member(
        &mut self,
        kind: Type,
        message: &p4::ActionProfileMember,
        change: &mut Change,
    ) -> Result<()> {
        let catalog = self.catalog().clone();
        let profile = profile_of(&catalog, message.action_profile_id)?;
        let done = self.member_of(kind, &catalog, profile, message, change);
        done.map_err(|problem| problem.at(format!("action profile `{}`", profile.name)))
    }

    fn member_of(
        &mut self,
        kind: Type,
        catalog: &Catalog,
        profile: &Profile,
        message: &p4::ActionProfileMember,
        change: &mut Change,
    ) -> Result<()> {
        let id = numbered(message.member_id, "member")?;
        let rows = &self.rows.profiles[&profile.id];
        let exists = rows.members.contains_key(&id);
        match kind {
            Type::Insert if exists => return Err(exists_already("member", id)),
            Type::Modify | Type::Delete if !exists => return Err(no_such("member", id)),
            Type::Delete => {
                if let Some(uses) = rows.member_uses.get(&id) {
                    return Err(in_use("member", id, *uses));
                }
                change.push(Operation::DeleteMember {
                    profile: profile.id,
                    member: id,
                });
                self.put(Undo::Member(profile.id, id, None));
                return Ok(());
            }
            _ => {}
        }
        if kind == Type::Insert {
            self.expect_no_one_shots(profile)?;
            let rows = &self.rows.profiles[&profile.id];
            if profile.size > 0 && rows.members.len() as u64 >= profile.size {
                return Err(full(profile));
            }
        }
        let Some(action) = &message.action else {
            return Err(Problem::invalid(format!("member {id} needs an action")));
        };
        let action = member_action(catalog, profile, action)?;
        change.push(Operation::SetMember {
            profile: profile.id,
            member: id,
            action: action.clone(),
        });
        self.put(Undo::Member(profile.id, id, Some(action)));
        Ok(())
    }

    pub(super) fn group(
        &mut self,
        kind: Type,
        message: &p4::ActionProfileGroup,
        change: &mut Change,
    ) -> Result<()> {
        let catalog = self.catalog().clone();
        let profile = profile_of(&catalog, message.action_profile_id)?;
        let done = self.group_of(kind, profile, message, change);
        done.map_err(|problem| problem.at(format!("action profile `{}`", profile.name)))
    }

    fn group_of(
        &mut self,
        kind: Type,
        profile: &Profile,
        message: &p4::ActionProfileGroup,
        change: &mut Change,
    ) -> Result<()> {
        if !profile.has_selector {
            return Err(no_selector());
        }
        let id = numbered(message.group_id, "group")?;
        let rows = &self.rows.profiles[&profile.id];
        let before = rows.groups.get(&id);
        match (kind, before) {
            (Type::Insert, Some(_)) => return Err(exists_already("group", id)),
            (Type::Modify | Type::Delete, None) => return Err(no_such("group", id)),
            (Type::Delete, Some(_)) => {
                if let Some(uses) = rows.group_uses.get(&id) {
                    return Err(in_use("group", id, *uses));
                }
                change.push(Operation::DeleteGroup {
                    profile: profile.id,
                    group: id,
                });
                self.put(Undo::Group(profile.id, id, None));
                return Ok(());
            }
            (_, Some(before)) if before.max_size != message.max_size => {
                return Err(Problem::invalid(format!(
                    "max_size of group {id} was {} and cannot change",
                    before.max_size
                )));
            }
            _ => {}
        }
        if kind == Type::Insert {
            self.expect_no_one_shots(profile)?;
            check_max_size(profile, message.max_size)?;
        }
        let members = self.group_members(profile, message)?;
        change.push(Operation::SetGroup {
            profile: profile.id,
            group: id,
            members,
        });
        let row = Group {
            members: message.members.iter().map(owned).collect(),
            max_size: message.max_size,
        };
        self.put(Undo::Group(profile.id, id, Some(row)));
        Ok(())
    }

    fn group_members(
        &self,
        profile: &Profile,
        message: &p4::ActionProfileGroup,
    ) -> Result<Vec<GroupMember>> {
        let mut seen = BTreeSet::new();
        let mut members = Vec::with_capacity(message.members.len());
        for member in &message.members {
            if !seen.insert(member.member_id) {
                return Err(Problem::invalid(format!(
                    "member {} is twice in the group; give it a weight",
                    member.member_id
                )));
            }
            self.expect_member(profile.id, member.member_id)?;
            check_no_watch(member.watch_kind.as_ref().is_some_and(|watch| match watch {
                MemberWatch::Watch(port) => *port != 0,
                MemberWatch::WatchPort(port) => !port.is_empty(),
            }))?;
            members.push(GroupMember {
                member: member.member_id,
                weight: weight_of(profile, member.weight)?,
            });
        }
        let limit = u64::try_from(message.max_size).unwrap_or(0);
        check_group_size(profile, &members, limit, Code::ResourceExhausted)?;
        Ok(members)
    }

    /// Creates the group and members for an entry's action list.
    pub(super) fn one_shot(
        &mut self,
        table: &Table,
        profile: u32,
        list: &p4::ActionProfileActionSet,
        change: &mut Change,
    ) -> Result<EntryAction> {
        let catalog = self.catalog().clone();
        let profile = profile_of(&catalog, profile)?;
        if !profile.has_selector {
            return Err(no_selector());
        }
        let rows = &self.rows.profiles[&profile.id];
        if !rows.members.is_empty() || !rows.groups.is_empty() {
            return Err(Problem::invalid(format!(
                "action profile `{}` has members or groups of the controller; use these in place \
                 of a list",
                profile.name
            )));
        }
        check_modes(list)?;
        let mut calls = Vec::with_capacity(list.action_profile_actions.len());
        for action in &list.action_profile_actions {
            check_no_watch(action.watch_kind.as_ref().is_some_and(|watch| match watch {
                ActionWatch::Watch(port) => *port != 0,
                ActionWatch::WatchPort(port) => !port.is_empty(),
            }))?;
            let Some(call) = &action.action else {
                return Err(Problem::invalid("an action of the list is not set"));
            };
            let call = call_for(&catalog, table, call, Place::Entry)?;
            calls.push((call, weight_of(profile, action.weight)?));
        }
        let used = rows.hidden.len() - rows.one_shots + calls.len();
        if profile.size > 0 && used as u64 > profile.size {
            return Err(full(profile));
        }
        let rows = Arc::make_mut(&mut self.rows).profiles.get_mut(&profile.id);
        let rows = Arc::make_mut(rows.expect("every profile has rows"));
        let mut members = Vec::with_capacity(calls.len());
        let mut ids = Vec::with_capacity(calls.len());
        for (action, weight) in calls {
            let member = rows.next_hidden();
            ids.push(member);
            members.push(GroupMember { member, weight });
            change.push(Operation::SetMember {
                profile: profile.id,
                member,
                action,
            });
        }
        check_group_size(profile, &members, 0, Code::InvalidArgument)?;
        let group = rows.next_hidden();
        change.push(Operation::SetGroup {
            profile: profile.id,
            group,
            members,
        });
        Ok(EntryAction::OneShot(Box::new(OneShot {
            written: owned(list),
            group,
            members: ids,
        })))
    }

    /// Adds the operations that delete the group and members of an entry's former list.
    pub(super) fn end_one_shot(&self, table: &Table, action: &EntryAction, change: &mut Change) {
        let (Some(profile), EntryAction::OneShot(list)) = (table.profile, action) else {
            return;
        };
        change.push(Operation::DeleteGroup {
            profile,
            group: list.group,
        });
        let members = list.members.iter();
        change.extend(members.map(|member| Operation::DeleteMember {
            profile,
            member: *member,
        }));
    }

    pub(super) fn expect_member(&self, profile: u32, id: u32) -> Result<()> {
        let rows = self.rows.profiles.get(&profile);
        if rows.is_some_and(|rows| rows.members.contains_key(&id)) {
            return Ok(());
        }
        Err(no_such("member", id))
    }

    pub(super) fn expect_group(&self, profile: u32, id: u32) -> Result<()> {
        let catalog = self.catalog();
        if !profile_of(catalog, profile)?.has_selector {
            return Err(no_selector());
        }
        let rows = self.rows.profiles.get(&profile);
        if rows.is_some_and(|rows| rows.groups.contains_key(&id)) {
            return Ok(());
        }
        Err(no_such("group", id))
    }

    fn expect_no_one_shots(&self, profile: &Profile) -> Result<()> {
        if self.rows.profiles[&profile.id].one_shots == 0 {
            return Ok(());
        }
        Err(Problem::invalid(
            "entries of its tables have lists of actions; it takes no members or groups beside",
        ))
    }
}

fn profile_of(catalog: &Catalog, id: u32) -> Result<&Profile> {
    let profile = catalog.profiles.get(&id);
    profile.ok_or_else(|| unknown("action profile", id))
}

/// Converts an action that every table of the profile may have.
fn member_action(catalog: &Catalog, profile: &Profile, message: &p4::Action) -> Result<ActionCall> {
    for id in &profile.tables {
        call_for(catalog, &catalog.tables[id], message, Place::Entry)?;
    }
    super::action::call_of(catalog, message)
}

/// A member's weight; without weights, each counts once.
fn weight_of(profile: &Profile, weight: i32) -> Result<u32> {
    if profile.has_no_weights {
        return match weight {
            0 => Ok(1),
            _ => Err(Problem::invalid(
                "its members have no weights; leave it out",
            )),
        };
    }
    let limit = match profile.size_by_members {
        Some(limit) if limit > 0 => limit.min(MAX_WEIGHT),
        _ => MAX_WEIGHT,
    };
    match u32::try_from(weight) {
        Ok(weight) if (1..=limit).contains(&weight) => Ok(weight),
        _ => Err(Problem::invalid(format!(
            "a weight of {weight}; give 1 to {limit}"
        ))),
    }
}

fn check_max_size(profile: &Profile, max_size: i32) -> Result<()> {
    let limit = i64::from(profile.max_group_size);
    let size = i64::from(max_size);
    if size < 0 || (limit > 0 && !(1..=limit).contains(&size)) {
        return Err(Problem::invalid(format!(
            "a max_size of {size}; give 1 to {limit}, which is what P4Info says"
        )));
    }
    Ok(())
}

/// Checks a group's size; with `limit` zero, P4Info's limit applies.
fn check_group_size(
    profile: &Profile,
    members: &[GroupMember],
    limit: u64,
    code: Code,
) -> Result<()> {
    let size = match profile.size_by_members {
        Some(_) => members.len() as u64,
        None => members.iter().map(|member| u64::from(member.weight)).sum(),
    };
    let own = u64::from(profile.max_group_size);
    let limit = if limit > 0 { limit } else { own };
    if limit > 0 && size > limit {
        let text = format!("the group has a size of {size} and may have {limit}");
        return Err(Problem::new(code, text));
    }
    if members.len() > MAX_GROUP {
        let text = format!("the group has more than {MAX_GROUP} members");
        return Err(Problem::new(Code::ResourceExhausted, text));
    }
    Ok(())
}

fn check_modes(list: &p4::ActionProfileActionSet) -> Result<()> {
    if list.group_action.is_some() {
        return Err(Problem::unsupported(
            "a group action: groups have no action of their own here; leave group_action out and \
             give each member what it is to do",
        ));
    }
    // Compares numbers, so that a mode of a later version is not mistaken for the default.
    let mode = ActionSelectionMode::DefaultModeDeterminedByActionSelector as i32;
    let size = SizeSemantics::DefaultSizeDeterminedByActionSelector as i32;
    if list.action_selection_mode == mode && list.size_semantics == size {
        return Ok(());
    }
    Err(Problem::unsupported(
        "a selection mode or size semantics of its own; leave them out",
    ))
}

fn check_no_watch(is_watching: bool) -> Result<()> {
    if !is_watching {
        return Ok(());
    }
    Err(Problem::unsupported(
        "watch ports are not supported; leave them out",
    ))
}

fn numbered(id: u32, kind: &str) -> Result<u32> {
    if id == 0 {
        return Err(Problem::invalid(format!("a {kind} needs a number above 0")));
    }
    Ok(id)
}

fn no_such(kind: &str, id: u32) -> Problem {
    Problem::missing(format!("there is no {kind} {id}"))
}

fn exists_already(kind: &str, id: u32) -> Problem {
    Problem::new(
        Code::AlreadyExists,
        format!("there is a {kind} {id}; modify it"),
    )
}

fn in_use(kind: &str, id: u32, uses: usize) -> Problem {
    Problem::new(
        Code::FailedPrecondition,
        format!("{kind} {id} is in use {uses} times; first delete what refers to it"),
    )
}

fn full(profile: &Profile) -> Problem {
    Problem::new(
        Code::ResourceExhausted,
        format!(
            "`{}` is full: it takes {} members",
            profile.name, profile.size
        ),
    )
}

fn no_selector() -> Problem {
    Problem::invalid("the action profile has no selector, so it has no groups")
}
