//! Commands about action profiles: members, groups, and the entries that name them.

use num_bigint::BigUint;

use crate::program::ids::{ProfileId, TableId};
use crate::state::{ActionCall, EntryAction, Mode, Update};
use crate::stf::resolve;

use super::{Reader, insert, number, split_at_arrow, value, word};

/// What a file has made in a profile so far; handles are indices.
#[derive(Debug, Default)]
pub(super) struct Handles {
    members: u32,
    /// The members of each group.
    groups: Vec<Vec<(u32, u32)>>,
}

impl Reader<'_> {
    fn profile(&self, name: &str) -> Result<ProfileId, String> {
        let mut profiles = self.program.profiles.iter();
        let found = profiles.position(|one| resolve::is_meant(&one.name, name));
        let found = found.ok_or_else(|| format!("there is no action profile {name:?}"))?;
        Ok(ProfileId(found as u32))
    }

    pub(super) fn create_member(&mut self, words: &[&str]) -> Result<Update, String> {
        let id = self.profile(word(words, 0)?)?;
        let written = word(words, 1)?;
        let profile = &self.program.profiles[id.index()];
        let name = |action| self.program.action(action).name.as_str();
        let mut actions = profile.actions.iter().copied();
        let found = actions.find(|action| resolve::is_meant(name(*action), written));
        let action = found.ok_or_else(|| format!("{} has no action {written:?}", profile.name))?;
        let data: Result<Vec<BigUint>, String> =
            words[2..].iter().map(|word| value::parse(word)).collect();
        let call = ActionCall {
            action,
            data: data?,
        };
        let handles = self.profiles.entry(id).or_default();
        handles.members += 1;
        let member = handles.members - 1;
        Ok(Update::Member(Mode::Insert, id, member, Some(call)))
    }

    pub(super) fn create_group(&mut self, words: &[&str]) -> Result<Update, String> {
        let id = self.profile(word(words, 0)?)?;
        let groups = &mut self.profiles.entry(id).or_default().groups;
        groups.push(Vec::new());
        let group = groups.len() as u32 - 1;
        Ok(Update::Group(Mode::Insert, id, group, Vec::new()))
    }

    pub(super) fn add_to_group(&mut self, words: &[&str]) -> Result<Update, String> {
        let id = self.profile(word(words, 0)?)?;
        let (member, group) = (number(word(words, 1)?)?, number::<u32>(word(words, 2)?)?);
        let groups = &mut self.profiles.entry(id).or_default().groups;
        let members = groups.get_mut(group as usize);
        let members = members.ok_or("there is no group of this handle")?;
        if members.iter().any(|(one, _)| *one == member) {
            return Err(format!("the member {member} is in the group already"));
        }
        members.push((member, 1));
        Ok(Update::Group(Mode::Modify, id, group, members.clone()))
    }

    pub(super) fn table_indirect_add(
        &self,
        words: &[&str],
        action: impl Fn(u32) -> EntryAction,
    ) -> Result<Update, String> {
        let (before, after) = split_at_arrow(words);
        let [table, keys @ ..] = before else {
            return Err("it is table_indirect_add TABLE KEYS => HANDLE [PRIORITY]".to_owned());
        };
        let id: TableId = resolve::table(self.program, table)?;
        let matches = self.matches(id, keys)?;
        let (handles, priority) = self.priority(id, after)?;
        let [handle] = handles else {
            return Err("one handle of a member or a group stands after =>".to_owned());
        };
        Ok(insert(id, matches, priority, action(number(handle)?)))
    }
}
