//! Which actions may stand where.

use super::Action;
use crate::error::{ErrorCode, Refusal, refuse};
use crate::field::FieldId;
use crate::version::Version;

/// What a list of actions stands in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outer {
    Ct,
    Clone,
}

/// How deep actions may stand in actions.
const MAX_DEPTH: u8 = 16;

/// Where a list of actions stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nesting {
    pub(super) version: Version,
    pub(super) outer: Option<Outer>,
    depth: u8,
}

impl Nesting {
    pub(super) fn new(version: Version) -> Nesting {
        Nesting {
            version,
            outer: None,
            depth: 0,
        }
    }

    pub(super) fn inside(self, outer: Outer) -> Result<Nesting, Refusal> {
        if self.depth == MAX_DEPTH {
            let what = format!("actions inside actions, deeper than {MAX_DEPTH}");
            return Err(refuse(ErrorCode::OFPBAC_TOO_MANY, what));
        }
        Ok(Nesting {
            outer: Some(outer),
            depth: self.depth + 1,
            ..self
        })
    }
}

/// Refuses actions that cannot stand in their list, as Open vSwitch does.
pub(super) fn check(actions: &[Action], outer: Option<Outer>) -> Result<(), Refusal> {
    let is_conjunction = |action: &Action| matches!(action, Action::Conjunction { .. });
    for action in actions {
        if is_conjunction(action) {
            let goes_along =
                |action: &Action| is_conjunction(action) || matches!(action, Action::Note(_));
            if actions.iter().all(goes_along) {
                return Ok(());
            }
            let what = "conjunction goes with note and with no other action";
            return Err(refuse(ErrorCode::NXBAC_BAD_CONJUNCTION, what));
        }
        check_one(action, outer)?;
    }
    Ok(())
}

fn check_one(action: &Action, outer: Option<Outer>) -> Result<(), Refusal> {
    let written = match action {
        Action::SetField { field, .. } => Some(*field),
        Action::Move { destination, .. } => Some(destination.field),
        _ => None,
    };
    let is_ct_field =
        written.is_some_and(|field| matches!(field, FieldId::CT_MARK | FieldId::CT_LABEL));
    let is_nat = matches!(action, Action::Nat(_));
    let is_in_ct = outer == Some(Outer::Ct);
    if (is_ct_field || is_nat) && !is_in_ct {
        let what = "nat, ct_mark and ct_label change inside ct only";
        return Err(refuse(ErrorCode::OFPBAC_BAD_SET_ARGUMENT, what));
    }
    let is_meter = matches!(action, Action::Meter(_)) && outer.is_some();
    if is_meter || is_in_ct && !is_nat && !is_ct_field {
        let what = "an action that cannot stand inside ct or clone";
        return Err(refuse(ErrorCode::OFPBAC_BAD_ARGUMENT, what));
    }
    Ok(())
}

/// Refuses actions that an action set cannot have.
pub(super) fn check_set(actions: &[Action]) -> Result<(), Refusal> {
    let is_refused = |action: &&Action| {
        matches!(
            action,
            Action::Bundle(_)
                | Action::Clone(_)
                | Action::Nat(_)
                | Action::Controller(_)
                | Action::Enqueue { .. }
                | Action::Exit
                | Action::FinTimeout { .. }
                | Action::Learn(_)
                | Action::Conjunction { .. }
                | Action::Meter(_)
                | Action::Multipath { .. }
                | Action::Note(_)
                | Action::OutputField { .. }
                | Action::OutputTruncated { .. }
                | Action::PopQueue
                | Action::Sample(_)
                | Action::StackPop(_)
                | Action::StackPush(_)
                | Action::DebugRecirc
                | Action::DebugSlow
                | Action::CheckPacketLarger { .. }
                | Action::DeleteField { .. }
        )
    };
    match actions.iter().find(is_refused) {
        None => Ok(()),
        Some(action) => {
            let what = format!("an action set cannot have {action:?}");
            Err(refuse(ErrorCode::OFPBAC_BAD_TYPE, what))
        }
    }
}
