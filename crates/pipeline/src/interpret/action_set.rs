//! Action sets: at most one action of a kind, executed in an order of their own.
//!
//! A packet has one, which `write_actions` adds to and which is executed when no table follows;
//! every bucket of a group is one too (OpenFlow 1.5.1, sections 5.6 and 5.10). A set is kept as a
//! list in the order of execution.

use std::borrow::Cow;

use thalweg_packet::standard as f;

use crate::action::Action;

/// Puts an action into a set, in place of one of its kind (OpenFlow 1.5.1, section 5.6).
pub(super) fn add(set: &mut Vec<Action>, action: &Action) {
    let rank = rank(action);
    set.retain(|other| !replaces(action, other));
    let place = set.partition_point(|other| self::rank(other) <= rank);
    set.insert(place, action.clone());
}

/// Whether a list of actions is a set as it stands.
fn is_set(list: &[Action]) -> bool {
    list.is_sorted_by(|one, next| rank(one) < rank(next))
}

/// In units of work, what it takes to make a set of a list.
pub(super) fn cost_of_list(list: &[Action]) -> usize {
    if is_set(list) {
        list.len()
    } else {
        list.len() * list.len()
    }
}

/// The set that a list of actions comes to; a bucket's list is one as a rule.
pub(super) fn of_list(list: &[Action]) -> Cow<'_, [Action]> {
    if is_set(list) {
        return Cow::Borrowed(list);
    }
    let mut set = Vec::with_capacity(list.len());
    list.iter().for_each(|action| add(&mut set, action));
    keep_one_end(&mut set);
    Cow::Owned(set)
}

/// Of the actions that send the packet on, leaves the one that counts.
///
/// A group goes before an output (section 5.6.1), which goes before a resubmit, as in Open
/// vSwitch (`ofpacts_execute_action_set`). A set that sends nothing does nothing.
pub(super) fn keep_one_end(set: &mut Vec<Action>) {
    let Some(best) = set.iter().filter_map(end_rank).max() else {
        return set.clear();
    };
    set.retain(|action| end_rank(action).is_none_or(|rank| rank == best));
}

/// How much an action counts as a set's end, if it sends the packet on.
fn end_rank(action: &Action) -> Option<u8> {
    match action {
        Action::Resubmit { .. } => Some(0),
        Action::Output(_) => Some(1),
        Action::Group(_) => Some(2),
        _ => None,
    }
}

/// The order of execution (OpenFlow 1.5.1, section 5.6.1).
fn rank(action: &Action) -> u8 {
    match action {
        Action::PopVlan => 1,
        Action::PopMpls(_) => 2,
        Action::PushMpls(_) => 3,
        Action::PushVlan(_) => 4,
        Action::DecTtl => 5,
        Action::DecMplsTtl => 6,
        Action::Output(_) | Action::Group(_) | Action::Resubmit { .. } => 8,
        _ => 7,
    }
}

/// Whether `new` takes the place of `old`.
fn replaces(new: &Action, old: &Action) -> bool {
    match (new, old) {
        (Action::SetField(new), Action::SetField(old)) => match (&**new, &**old) {
            // The tag has several names, for parts of it: each is a field to OpenFlow.
            ([new], [old]) if new.field == f::VLAN_TCI => {
                new.field == old.field && old.mask & !new.mask == 0
            }
            ([new], [old]) => new.field == old.field,
            _ => false,
        },
        (Action::SetVlan { id: new, .. }, Action::SetVlan { id: old, .. }) => {
            new.is_some() == old.is_some()
        }
        (Action::Move { .. }, _) | (_, Action::Move { .. }) => new == old,
        _ => std::mem::discriminant(new) == std::mem::discriminant(old),
    }
}

#[cfg(test)]
mod tests {
    use thalweg_packet::PortId;

    use super::*;
    use crate::action::{GroupId, Output, TableId};

    fn output(port: u32) -> Action {
        Action::Output(Output::Port(PortId(port)))
    }

    #[test]
    fn a_list_is_brought_in_order_and_the_last_of_a_kind_stays() {
        let list = [output(1), Action::DecTtl, Action::PopVlan, output(2)];
        let expected = [Action::PopVlan, Action::DecTtl, output(2)];
        assert_eq!(*of_list(&list), expected);
        assert!(matches!(of_list(&expected), Cow::Borrowed(_)));
    }

    #[test]
    fn a_group_goes_before_an_output_and_that_before_a_resubmit() {
        let resubmit = Action::Resubmit {
            in_port: None,
            table: Some(TableId(3)),
        };
        let group = Action::Group(GroupId(1));
        let list = [group.clone(), output(1), resubmit.clone()];
        assert_eq!(*of_list(&list), [group]);
        assert_eq!(*of_list(&[resubmit, output(1)]), [output(1)]);
        assert_eq!(*of_list(&[Action::DecTtl, Action::PopVlan]), []);
    }
}
