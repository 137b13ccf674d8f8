//! Changes: what takes the pipeline from one version to the next.
//!
//! A [`Change`] is a list of operations that take effect together or not at all. Sessions, rules
//! files and timers all speak to the pipeline in this one way.

use thalweg_packet::PortId;

use crate::action::{Action, GroupId, Output, TableId};
use crate::flow::{Flow, Group, PortState};
use crate::mac::MacMove;
use crate::matching::Match;

/// Which rules an operation means.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selector {
    /// The table; `None` for all.
    pub table: Option<TableId>,
    /// The conditions: equal to these if strict, else at least as narrow.
    pub matching: Match,
    /// Strict: exactly this priority and these conditions.
    pub strict_priority: Option<u16>,
    /// Only rules whose cookie agrees with the first under the mask of the second.
    pub cookie: Option<(u64, u64)>,
}

/// Where a rule's actions lead; what is not named does not count.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Target {
    /// Some action sends packets there (OpenFlow `out_port`).
    pub output: Option<Output>,
    /// Some action uses this group (OpenFlow `out_group`).
    pub group: Option<GroupId>,
}

impl Target {
    /// Whether a list of actions leads there, nested lists included.
    ///
    /// To send to the controller is one target, however much of the packet is sent.
    pub fn is_led_to_by(&self, list: &[Action]) -> bool {
        let sends = |target: &Output| {
            has(
                list,
                &|action| matches!(action, Action::Output(output) if is_same(output, target)),
            )
        };
        let output = self.output.as_ref().is_none_or(sends);
        output && self.group.is_none_or(|group| uses_group(list, group))
    }
}

fn is_same(one: &Output, other: &Output) -> bool {
    let is_controller = |output: &Output| matches!(output, Output::Controller { .. });
    one == other || is_controller(one) && is_controller(other)
}

/// Whether a list of actions names the group, nested lists included.
pub fn uses_group(list: &[Action], group: GroupId) -> bool {
    has(list, &|action| *action == Action::Group(group))
}

/// Whether an action of a list, or of one nested in it, is such.
fn has(list: &[Action], is_such: &impl Fn(&Action) -> bool) -> bool {
    list.iter().any(|action| match action {
        Action::Clone(nested) | Action::WriteActions(nested) => has(nested, is_such),
        _ => is_such(action),
    })
}

/// One step of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Adds a rule; one with the same table, priority and match is replaced.
    Add(Flow),
    /// Adds a rule, unless a packet could match both it and another of its table and priority,
    /// even one of the same match (OpenFlow `OFPFF_CHECK_OVERLAP`). Looks at all rules of the
    /// table.
    AddChecked(Flow),
    /// Gives these actions to the rules selected.
    Modify(Selector, crate::action::Actions),
    /// Removes the rules selected.
    Delete(Selector),
    /// Removes those of the rules selected that lead to a port or group.
    DeleteLeading(Selector, Target),
    /// Removes all rules.
    DeleteAll,
    /// Adds a group, or replaces the one with its number.
    SetGroup(Group),
    /// Removes a group, and the rules that use it.
    DeleteGroup(GroupId),
    /// A port is there, with this state.
    SetPort(PortId, PortState),
    /// A port is gone.
    DeletePort(PortId),
    /// Stations that `normal` has seen at a port, or forgotten.
    MoveMacs(Vec<MacMove>),
}

/// Operations that take effect together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// In the order in which they were asked for.
    pub operations: Vec<Operation>,
}

impl Change {
    /// A change of one operation.
    pub fn one(operation: Operation) -> Change {
        Change {
            operations: vec![operation],
        }
    }

    /// A change that adds these rules.
    pub fn adding(flows: impl IntoIterator<Item = Flow>) -> Change {
        Change {
            operations: flows.into_iter().map(Operation::Add).collect(),
        }
    }
}

/// Why a change was refused; the pipeline is as it was.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The rules need a wider key than there is.
    #[error(transparent)]
    Layout(#[from] thalweg_packet::LayoutTooWide),
    /// There is no room for another rule.
    #[error("operation {operation}: the pipeline is full at {capacity} rules; delete some first")]
    RulesFull {
        /// Which operation, from 0.
        operation: usize,
        /// Rules that fit.
        capacity: usize,
    },
    /// There is no room for another group.
    #[error("operation {operation}: the pipeline is full at {capacity} groups; delete some first")]
    GroupsFull {
        /// Which operation, from 0.
        operation: usize,
        /// Groups that fit.
        capacity: usize,
    },
    /// A rule goes to a table that is not behind its own.
    #[error(
        "operation {operation}: goto_table:{to} in table {from}; a rule can only go to a later \
         table (use resubmit to go back)"
    )]
    GotoBackwards {
        /// Which operation, from 0.
        operation: usize,
        /// The rule's table.
        from: u8,
        /// Where it wants to go.
        to: u8,
    },
    /// A rule that is to be alone shares packets with another of its priority.
    #[error(
        "operation {operation}: a packet can match this rule and one of the same priority, \
         `{rule}`; give it another priority, or add it without the check"
    )]
    Overlap {
        /// Which operation, from 0.
        operation: usize,
        /// The rule that is there.
        rule: String,
    },
    /// An action names a group that does not exist.
    #[error("operation {operation}: group {group} does not exist; add it before the rule")]
    UnknownGroup {
        /// Which operation, from 0.
        operation: usize,
        /// The group's number.
        group: u32,
    },
    /// Groups would call each other in a circle, or too deep.
    #[error(
        "operation {operation}: group {group} would call itself, or lead through more than {depth} \
         groups; change what its buckets name and watch"
    )]
    GroupLoop {
        /// Which operation, from 0.
        operation: usize,
        /// The group's number.
        group: u32,
        /// Groups that may be in each other.
        depth: usize,
    },
    /// A group's number, buckets or hash are none that a group can have.
    #[error("operation {operation}: group {group}: {what}")]
    BadGroup {
        /// Which operation, from 0.
        operation: usize,
        /// The group's number.
        group: u32,
        /// What is wrong.
        what: &'static str,
    },
    /// A rule's table does not exist, or its conditions are on bits that do not.
    #[error("operation {operation}: {what}")]
    BadRule {
        /// Which operation, from 0.
        operation: usize,
        /// What is wrong, and what to do.
        what: String,
    },
    /// A station is none that a packet can have.
    #[error("operation {operation}: {what}")]
    BadStation {
        /// Which operation, from 0.
        operation: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// An action stands where it cannot, or uses a field in a way it cannot be used.
    #[error("operation {operation}: {what}")]
    BadAction {
        /// Which operation, from 0.
        operation: usize,
        /// What is wrong, and what to do.
        what: String,
    },
}

impl ChangeError {
    /// Which operation was refused, from 0; `None` if it was all of them together.
    pub fn operation(&self) -> Option<usize> {
        match self {
            ChangeError::Layout(_) => None,
            ChangeError::RulesFull { operation, .. }
            | ChangeError::GroupsFull { operation, .. }
            | ChangeError::GotoBackwards { operation, .. }
            | ChangeError::Overlap { operation, .. }
            | ChangeError::UnknownGroup { operation, .. }
            | ChangeError::GroupLoop { operation, .. }
            | ChangeError::BadGroup { operation, .. }
            | ChangeError::BadRule { operation, .. }
            | ChangeError::BadStation { operation, .. }
            | ChangeError::BadAction { operation, .. } => Some(*operation),
        }
    }
}
