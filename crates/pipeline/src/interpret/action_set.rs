//! Action sets: actions collected from several lists, executed in the set's own order.
//!
//! A packet has one, which `write_actions` adds to and which is executed when no table
//! follows. Every bucket of a group is one too (OpenFlow 1.5.1, sections 5.6 and 5.10). A set
//! is kept as a list in the order of execution, like Open vSwitch's
//! (`ofpacts_execute_action_set`):
//!
//! ```text
//!   pop_vlan, pop_mpls, push_mpls, push_vlan, dec_ttl, dec_mpls_ttl    the last of each
//!   set_field, load, move, set_queue                                    all, in the order written
//!   a group, else an output, else a resubmit, else ct_clear, else ct   the last of the first kind
//! ```
//!
//! The standard lets a write replace one of the same field. Keeping both has the same result
//! if the whole field is written. If two writes have masks, or a move comes between them, both
//! count.
//!
//! 1. A set without an action of the last line does nothing.
//! 2. An action that no set can hold has no effect in a bucket: `clone`, `exit`, `note`,
//!    `push`, `pop`, `pop_queue`, `enqueue`, `multipath`, `bundle`, outputs to a port that a
//!    field names or that cut the packet, and `controller(...)` with anything that OpenFlow's
//!    own output cannot say.

use std::sync::Arc;

use crate::action::{Action, Actions, Output};

/// An action's place in a set; variants are in the order of execution.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Part {
    /// Once, at this rank.
    Once(u8),
    /// As often as it is written.
    Write,
    /// At the end, one action only: the one of the highest rank.
    End(u8),
    /// Never executed.
    Ignored,
}

/// Adds an action to a set.
pub(super) fn add(set: &mut Vec<Action>, action: &Action) {
    let part = Part::of(action);
    let place = match part {
        Part::Ignored => return,
        Part::End(_) if set.last().is_some_and(|last| Part::of(last) > part) => return,
        Part::End(_) => set.partition_point(|other| Part::of(other) <= Part::Write),
        Part::Write => set.partition_point(|other| Part::of(other) <= part),
        Part::Once(_) => set.partition_point(|other| Part::of(other) < part),
    };
    let takes_place = match set.get(place).map(Part::of) {
        Some(Part::End(_)) => matches!(part, Part::End(_)),
        other => other == Some(part) && part != Part::Write,
    };
    if takes_place {
        set[place] = action.clone();
    } else {
        set.insert(place, action.clone());
    }
}

/// The port that `actset_output` has while this is the action set, in OpenFlow 1.1's numbers; 0
/// for none, as with a group.
pub(super) fn output_of(set: &[Action]) -> u32 {
    let mut port = 0;
    for action in set {
        match action {
            Action::Group(_) => return 0,
            Action::Output(output) => port = number_of(output),
            _ => {}
        }
    }
    port
}

fn number_of(output: &Output) -> u32 {
    let number = match output {
        Output::Port(port) => port.0 & 0xffff,
        Output::InPort => 0xfff8,
        Output::Table => 0xfff9,
        Output::Normal => 0xfffa,
        Output::Flood => 0xfffb,
        Output::All => 0xfffc,
        Output::Local => 0xfffe,
        // Open vSwitch has an action of its own for these.
        Output::Controller { .. }
        | Output::Field(_)
        | Output::Enqueue { .. }
        | Output::Truncated { .. } => 0,
    };
    match number {
        0xff00.. => number | 0xffff_0000,
        _ => number,
    }
}

/// Whether a set does anything (invariant 1).
pub(super) fn is_executed(set: &[Action]) -> bool {
    let last = set.last();
    last.is_some_and(|last| matches!(Part::of(last), Part::End(_)))
}

/// The set that a list of actions makes; a bucket's list usually is one already.
pub(super) fn of_list(list: &Actions) -> Actions {
    if is_set(list) {
        return list.clone();
    }
    let mut set = Vec::with_capacity(list.len());
    list.iter().for_each(|action| add(&mut set, action));
    if is_executed(&set) {
        set.into()
    } else {
        Arc::default()
    }
}

/// Whether a list of actions already is a set that does something.
fn is_set(list: &[Action]) -> bool {
    let follows = |one: &Action, next: &Action| {
        let (one, next) = (Part::of(one), Part::of(next));
        one < next && !matches!(one, Part::End(_)) || (one, next) == (Part::Write, Part::Write)
    };
    is_executed(list) && list.is_sorted_by(follows)
}

impl Part {
    fn of(action: &Action) -> Part {
        match action {
            Action::PopVlan => Part::Once(0),
            Action::PopMpls(_) => Part::Once(1),
            Action::Decap(_) => Part::Once(2),
            Action::Encap(_) => Part::Once(3),
            Action::PushMpls(_) => Part::Once(4),
            Action::PushVlan(_) => Part::Once(5),
            Action::DecTtl => Part::Once(6),
            Action::DecMplsTtl => Part::Once(7),
            Action::DecNshTtl => Part::Once(8),
            Action::SetField(_)
            | Action::Move { .. }
            | Action::SetVlan { .. }
            | Action::SetQueue(_) => Part::Write,
            Action::Output(Output::Field(_)) => Part::Ignored,
            Action::Output(output) if output.is_extended() => Part::Ignored,
            Action::Track(_) => Part::End(0),
            Action::Untrack => Part::End(1),
            Action::Resubmit { .. } => Part::End(2),
            Action::Output(_) => Part::End(3),
            Action::Group(_) => Part::End(4),
            Action::Clone(_)
            | Action::Exit
            | Action::Note(_)
            | Action::Conjunction { .. }
            | Action::Push(_)
            | Action::Pop(_)
            | Action::PopQueue
            | Action::DebugRecirculation
            | Action::Multipath(_)
            | Action::Bundle(_)
            | Action::DebugSlow
            | Action::Learn(_)
            | Action::FinTimeout { .. }
            | Action::CheckLarger(_)
            | Action::Sample(_)
            | Action::Meter(_)
            | Action::WriteActions(_)
            | Action::ClearActions
            | Action::WriteMetadata { .. }
            | Action::Goto(_) => Part::Ignored,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::effect::PacketInReason;
    use thalweg_packet::{PortId, standard as f};

    use super::*;
    use crate::action::{GroupId, Subfield, TableId, Write};
    use crate::tracking::{Tracking, Zone};

    fn output(port: u32) -> Action {
        Action::Output(Output::Port(PortId(port)))
    }

    fn write(value: u128, mask: u128) -> Action {
        let field = f::REG0;
        Action::SetField(Box::new([Write { field, value, mask }]))
    }

    fn set(list: &[Action]) -> Actions {
        of_list(&list.into())
    }

    #[test]
    fn a_list_is_brought_in_order_and_the_last_of_a_kind_stays() {
        let list = [output(1), Action::DecTtl, Action::PopVlan, output(2)];
        let expected: Actions = [Action::PopVlan, Action::DecTtl, output(2)].into();
        assert_eq!(set(&list), expected);
        assert!(Arc::ptr_eq(&of_list(&expected), &expected));
        let tags = [
            Action::PushVlan(0x8100),
            output(1),
            Action::PushVlan(0x88a8),
        ];
        assert_eq!(*set(&tags), [Action::PushVlan(0x88a8), output(1)]);
    }

    #[test]
    fn writes_keep_their_order_and_their_number() {
        let copied = Action::Move {
            source: Subfield::whole(f::REG0, 32),
            destination: Subfield::whole(f::REG1, 32),
        };
        let writes = [
            write(1, 0xff),
            copied.clone(),
            write(2, 0xf),
            copied,
            write(1, 0xff),
        ];
        let list: Vec<Action> = writes.iter().cloned().chain([output(1)]).collect();
        assert_eq!(*set(&list), *list);
        // Written one by one, after an end action that came first.
        let mut set = vec![];
        add(&mut set, &output(1));
        writes.iter().for_each(|action| add(&mut set, action));
        add(&mut set, &Action::DecTtl);
        assert_eq!(set[0], Action::DecTtl);
        assert_eq!(set[1..], *list);
    }

    #[test]
    fn a_group_goes_before_an_output_and_that_before_a_resubmit() {
        let resubmit = Action::Resubmit {
            in_port: None,
            table: Some(TableId(3)),
            with_tuple: false,
        };
        let group = Action::Group(GroupId(1));
        let list = [group.clone(), output(1), resubmit.clone()];
        assert_eq!(*set(&list), [group]);
        assert_eq!(*set(&[resubmit.clone(), output(1)]), [output(1)]);
        let asked = Tracking {
            zone: Zone::Number(1),
            is_commit: false,
            is_forced: false,
            table: Some(TableId(2)),
            translation: None,
            alg: None,
            exec: [].into(),
        };
        let track = Action::Track(Box::new(asked));
        assert_eq!(*set(&[resubmit.clone(), track.clone()]), [resubmit]);
        assert_eq!(*set(&[Action::Untrack, track.clone()]), [Action::Untrack]);
        assert_eq!(
            *set(&[track.clone(), Action::DecTtl]),
            [Action::DecTtl, track]
        );
        assert_eq!(*set(&[Action::DecTtl, Action::PopVlan]), []);
    }

    #[test]
    fn what_no_set_can_hold_is_passed_over() {
        let bits = || Subfield::whole(f::REG0, 16);
        let to_controller = Action::Output(Output::Controller {
            max_len_bytes: u16::MAX,
            controller_id: 0,
            reason: PacketInReason::Action,
            userdata: [1].into(),
            pause: false,
            meter: None,
        });
        let list = [
            Action::Clone([output(3)].into()),
            Action::Exit,
            Action::Push(bits()),
            Action::Pop(bits()),
            output(2),
            Action::Output(Output::Field(bits())),
            to_controller,
            Action::Note([1].into()),
        ];
        assert_eq!(*set(&list), [output(2)]);
        assert_eq!(*set(&list[..4]), []);
    }
}
