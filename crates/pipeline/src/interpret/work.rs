//! What one walk may cost, whatever rules and groups it meets.
//!
//! Lookups are bounded by their number, but a rule's list may have thousands of actions, and so
//! may the rules that it resubmits to, thousands of times: 4,096 lookups could execute 80 million
//! actions. And groups that name groups multiply. So a walk has a budget. An action takes a unit,
//! and more where it does more: one that copies the walk's state, for what there is to copy; a
//! flood, for each port; the choice of a bucket, for each bucket. A walk that needs more fails.
//!
//! 1. The budget is spent in the same way by every packet with the same trace, so that the bound
//!    is an answer like any other.
//! 2. A unit is half a microsecond at the most, so that with [`MAX_WORK`] units a walk takes some
//!    tens of milliseconds, besides its lookups. What these take is the classifier's affair.
//!
//! Open vSwitch bounds resubmits and their depth, and the size of what comes of them
//! (`ofproto-dpif-xlate.c`, `MAX_RESUBMITS`).

use super::DropReason;
use super::walk::Walk;
use crate::action::{Action, Output};

/// Units of work that one walk may take.
pub const MAX_WORK: usize = 65_536;

/// What saving and restoring the state takes, besides what is on the stack and in the action set.
const COPY: usize = 8;

impl Walk<'_> {
    /// Takes units from the budget; `false` if they are more than is left.
    pub(super) fn spend(&mut self, units: usize) -> bool {
        let left = self.work_left.and_then(|left| left.checked_sub(units));
        if left.is_none() && self.work_left.is_some() {
            self.fail(DropReason::TooMuchWork);
        }
        self.work_left = left;
        left.is_some()
    }

    /// What an action takes, without the lists that it leads to.
    pub(super) fn cost(&self, action: &Action) -> usize {
        match action {
            // It begins a step. That it floods, if it does, comes on top.
            Action::Output(Output::Normal) => 16,
            Action::SetField(writes) => 1 + writes.len(),
            // Each bit is copied by itself, with where it came from.
            Action::Move { source: bits, .. } | Action::Push(bits) | Action::Pop(bits) => {
                1 + usize::from(bits.width_bits()) / 16
            }
            // All fields behind the link layer are hidden.
            Action::PushMpls(_) => 16,
            Action::Clone(_) => self.copy_cost(),
            Action::WriteActions(list) => 1 + list.len(),
            _ => 1,
        }
    }

    /// What it takes to do something on a copy.
    pub(super) fn copy_cost(&self) -> usize {
        COPY + self.stack.lifted().len() + self.action_set.len()
    }
}
