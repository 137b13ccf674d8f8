//! Action profiles: members, and groups of them.

use std::collections::HashMap;

use super::action::Bound;
use super::error::WriteError;

/// Maximum sum of the weights of a group's members.
pub const WEIGHTS_MAX: u32 = 1 << 16;

/// A member, with its use count.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) bound: Bound,
    /// Number of entries and groups that use it.
    pub(crate) uses: u32,
}

/// A group, with its use count.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) members: Vec<(u32, u32)>,
    /// Each member once per unit of its weight, in the order of ids; the hash chooses one.
    pub(crate) choices: Vec<u32>,
    pub(crate) uses: u32,
}

/// The members and groups of a profile.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProfileState {
    pub(crate) members: HashMap<u32, Member>,
    pub(crate) groups: HashMap<u32, Group>,
}

impl ProfileState {
    /// The members of a group, once per unit of weight.
    pub(crate) fn choices(members: &[(u32, u32)]) -> Result<Vec<u32>, WriteError> {
        let total: u64 = members.iter().map(|&(_, weight)| u64::from(weight)).sum();
        if total > u64::from(WEIGHTS_MAX) {
            return Err(WriteError::ResourceExhausted(format!(
                "the weights of a group are {total}, more than {WEIGHTS_MAX}"
            )));
        }
        let mut ordered = members.to_vec();
        ordered.sort_unstable();
        let choices = ordered
            .iter()
            .flat_map(|&(member, weight)| std::iter::repeat_n(member, weight as usize));
        Ok(choices.collect())
    }
}
