//! Commands for action profiles: members, groups, and the entries that name them.
//!
//! The older names of these commands (`table_indirect_create_member` and similar) name a table
//! and mean its profile.

use crate::program::ids::ProfileId;
use crate::state::{ActionCall, EntryAction, Mode, TableEntry, Update};
use crate::stf::resolve;

use super::handles::Handles;
use super::{Note, Reader, Said, Word, Wrong, number, said, split_at_arrow};

/// The members of a group, with their weights.
pub(super) type Members = Vec<(u32, u32)>;

/// The members and groups of a profile.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) members: Handles<()>,
    pub(super) groups: Handles<Members>,
}

impl Reader<'_> {
    /// Finds a profile by its name or by its table's name.
    fn profile(&self, name: &Word<'_>) -> Result<ProfileId, Wrong> {
        let mut profiles = self.program.profiles.iter();
        if let Some(found) = profiles.position(|one| resolve::is_meant(&one.name, name)) {
            return Ok(ProfileId(found as u32));
        }
        let table = resolve::table(self.program, name).ok();
        let profile = table.and_then(|table| self.program.table(table).profile);
        profile.ok_or_else(|| name.wrong(format!("there is no action profile {:?}", &**name)))
    }

    fn member_call(
        &self,
        id: ProfileId,
        action: &Word<'_>,
        words: &[Word<'_>],
    ) -> Result<ActionCall, Wrong> {
        let profile = &self.program.profiles[id.index()];
        let name = |action| self.program.action(action).name.as_str();
        let mut actions = profile.actions.iter().copied();
        let found = actions.find(|one| resolve::is_meant(name(*one), action));
        let missing = || format!("{} has no action {:?}", profile.name, &**action);
        let found = found.ok_or_else(|| action.wrong(missing()))?;
        let (before, after) = split_at_arrow(words);
        self.call_of(found, action, &[before, after].concat())
    }

    fn member(&self, id: ProfileId, handle: &Word<'_>) -> Result<u32, Wrong> {
        let member = number(handle)?;
        let known = self.profiles[id.index()].members.get(member);
        known.ok_or_else(|| handle.wrong(format!("there is no member {member}")))?;
        Ok(member)
    }

    fn group(&self, id: ProfileId, handle: &Word<'_>) -> Result<(u32, &Members), Wrong> {
        let group = number(handle)?;
        let members = self.profiles[id.index()].groups.get(group);
        let missing = || handle.wrong(format!("there is no group {group}"));
        Ok((group, members.ok_or_else(missing)?))
    }

    pub(super) fn create_member(&self, words: &[Word<'_>]) -> Said {
        let [profile, action, parameters @ ..] = words else {
            return Err("it is act_prof_create_member PROFILE ACTION PARAMETERS".into());
        };
        let id = self.profile(profile)?;
        let call = self.member_call(id, action, parameters)?;
        let member = self.profiles[id.index()].members.next();
        let update = Update::Member(Mode::Insert, id, member, Some(call));
        Ok(said(update, Note::Member(id)))
    }

    pub(super) fn modify_member(&self, words: &[Word<'_>]) -> Said {
        let [profile, action, handle, parameters @ ..] = words else {
            return Err("it is act_prof_modify_member PROFILE ACTION MEMBER PARAMETERS".into());
        };
        let id = self.profile(profile)?;
        let call = self.member_call(id, action, parameters)?;
        let member = self.member(id, handle)?;
        Ok(Update::Member(Mode::Modify, id, member, Some(call)).into())
    }

    pub(super) fn delete_member(&self, words: &[Word<'_>]) -> Said {
        let [profile, handle] = words else {
            return Err("it is act_prof_delete_member PROFILE MEMBER".into());
        };
        let id = self.profile(profile)?;
        let member = self.member(id, handle)?;
        let update = Update::Member(Mode::Delete, id, member, None);
        Ok(said(update, Note::MemberGone(id, member)))
    }

    pub(super) fn create_group(&self, words: &[Word<'_>]) -> Said {
        let [profile] = words else {
            return Err("it is act_prof_create_group PROFILE".into());
        };
        let id = self.profile(profile)?;
        let group = self.profiles[id.index()].groups.next();
        let update = Update::Group(Mode::Insert, id, group, Vec::new());
        Ok(said(update, Note::Group(id)))
    }

    pub(super) fn delete_group(&self, words: &[Word<'_>]) -> Said {
        let [profile, handle] = words else {
            return Err("it is act_prof_delete_group PROFILE GROUP".into());
        };
        let id = self.profile(profile)?;
        let (group, _) = self.group(id, handle)?;
        let update = Update::Group(Mode::Delete, id, group, Vec::new());
        Ok(said(update, Note::GroupGone(id, group)))
    }

    pub(super) fn add_to_group(&self, words: &[Word<'_>]) -> Said {
        let [profile, member, group] = words else {
            return Err("it is act_prof_add_member_to_group PROFILE MEMBER GROUP".into());
        };
        let id = self.profile(profile)?;
        let (group, members) = self.group(id, group)?;
        let member = self.member(id, member)?;
        if members.iter().any(|(one, _)| *one == member) {
            return Err(format!("the member {member} is in the group already").into());
        }
        let after = [members.as_slice(), &[(member, 1)]].concat();
        let update = Update::Group(Mode::Modify, id, group, after.clone());
        Ok(said(update, Note::GroupChanged(id, group, after)))
    }

    pub(super) fn remove_from_group(&self, words: &[Word<'_>]) -> Said {
        let [profile, member, group] = words else {
            return Err("it is act_prof_remove_member_from_group PROFILE MEMBER GROUP".into());
        };
        let id = self.profile(profile)?;
        let member = self.member(id, member)?;
        let (group, members) = self.group(id, group)?;
        let mut after = members.clone();
        after.retain(|(one, _)| *one != member);
        if after.len() == members.len() {
            return Err(format!("the member {member} is not in the group").into());
        }
        let update = Update::Group(Mode::Modify, id, group, after.clone());
        Ok(said(update, Note::GroupChanged(id, group, after)))
    }

    pub(super) fn table_indirect_add(
        &self,
        words: &[Word<'_>],
        action: impl Fn(u32) -> EntryAction,
    ) -> Said {
        let (before, after) = split_at_arrow(words);
        let [table, keys @ ..] = before else {
            return Err("it is table_indirect_add TABLE KEYS => HANDLE [PRIORITY]".into());
        };
        let id = self.table(table)?;
        let matches = self.matches(id, table, keys)?;
        let (handles, priority) = self.priority(id, after)?;
        let [handle] = handles else {
            return Err("one handle of a member or a group stands after =>".into());
        };
        let entry = TableEntry {
            matches,
            priority,
            action: action(number(handle)?),
            idle_timeout_ns: 0,
        };
        Ok(self.insert(id, entry))
    }
}
