//! The work budget of one walk, whatever rules and groups it meets.
//!
//! The number of lookups is bounded, but a rule's list may have thousands of actions, and each
//! resubmit may run such a list: 4,096 lookups could execute 80 million actions. Groups that
//! name groups multiply too. So a walk has a budget. An action costs one unit, or more if it
//! does more: a copy of the walk's state costs what it copies, a flood each port, the choice
//! of a bucket each bucket. A walk that exceeds the budget fails.
//!
//! 1. Every packet with the same trace spends the budget in the same way, so that meeting the
//!    bound is an answer like any other.
//! 2. The time of a unit is bounded. So [`MAX_WORK`] units bound the time of a walk, apart
//!    from its lookups, whose time depends on the classifier.
//!
//! Open vSwitch bounds resubmits and their depth, and the size of the result
//! (`ofproto-dpif-xlate.c`, `MAX_RESUBMITS`).

use super::DropReason;
use super::observer::Observer;
use super::walk::Walk;
use crate::action::{Action, Output};

/// Most units of work of one walk.
pub const MAX_WORK: usize = 65_536;

/// Cost of saving and restoring the state, without stack and action set.
const COPY: usize = 8;

impl<O: Observer> Walk<'_, O> {
    /// Takes units from the budget; returns `false` if too few are left.
    pub(super) fn spend(&mut self, units: usize) -> bool {
        let left = self.work_left.and_then(|left| left.checked_sub(units));
        if left.is_none() && self.work_left.is_some() {
            self.fail(DropReason::TooMuchWork);
        }
        self.work_left = left;
        left.is_some()
    }

    /// The cost of an action, without the lists that it leads to.
    pub(super) fn cost(&self, action: &Action) -> usize {
        match action {
            // It begins a step. A flood costs extra.
            Action::Output(Output::Normal) => 16,
            Action::SetField(writes) => 1 + writes.len(),
            // Each bit is copied separately, with its provenance.
            Action::Move { source: bits, .. } | Action::Push(bits) | Action::Pop(bits) => {
                1 + usize::from(bits.width_bits()) / 16
            }
            // All fields behind the link layer are hidden.
            Action::PushMpls(_) | Action::Encap(_) => 16,
            Action::Multipath(_) => 8,
            Action::Bundle(choice) => 8 + choice.members.len(),
            Action::Clone(_) => self.copy_cost(),
            Action::CheckLarger(_) => 2 * self.copy_cost(),
            Action::WriteActions(list) => 1 + list.len(),
            // The copy that goes on has the registers, the stack and the action set.
            Action::Track(tracking) => 4 + tracking.exec.len() * 8 + self.copy_cost(),
            Action::Learn(learning) => 4 + learning.parts.len() * 4,
            _ => 1,
        }
    }

    /// The cost of working on a copy.
    pub(super) fn copy_cost(&self) -> usize {
        COPY + self.stack.lifted().len() + self.action_set.len()
    }
}
