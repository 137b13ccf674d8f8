//! Changes: they take the pipeline from one version to the next.
//!
//! A [`Change`] is a list of operations that take effect together or not at all. Sessions,
//! rules files and timers all use it to change the pipeline.

use std::sync::Arc;

use thalweg_packet::PortId;

use crate::action::{Action, GroupId, Output, TableId};
use crate::bridge::BridgeId;
use crate::flow::{Flow, Group, PortState};
use crate::fragments::FragmentMode;
use crate::limits::TableLimit;
use crate::mac::MacMove;
use crate::matching::Match;
use crate::meters::{MeterId, RateMeter};
use crate::mirror::Mirrors;
use crate::miss::Misses;
use crate::text::LOCAL_PORT;
use crate::vlan::PortVlans;

/// Selects the rules that an operation applies to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selector {
    /// The table; `None` for all of the bridge.
    pub table: Option<TableId>,
    /// The bridge, if no table is named.
    pub bridge: BridgeId,
    /// The conditions: a rule's must equal these if strict, else be at least as narrow.
    pub matching: Match,
    /// If set, only rules with exactly this priority and these conditions (strict).
    pub strict_priority: Option<u16>,
    /// Value and mask: only rules whose cookie agrees with the value under the mask.
    pub cookie: Option<(u64, u64)>,
}

/// A port or group that a rule's actions lead to; fields that are `None` are ignored.
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
    /// All outputs to the controller are one target, whatever length of the packet they send.
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
    if let Output::Enqueue { port, .. } = one {
        let number = PortId(port.0 & 0xffff);
        return match other {
            Output::Port(other) => port == other,
            Output::Local => number == LOCAL_PORT,
            Output::InPort => number == Output::IN_PORT,
            _ => false,
        };
    }
    let is_controller = |output: &Output| matches!(output, Output::Controller { .. });
    one == other || is_controller(one) && is_controller(other)
}

/// Whether a list of actions names the group, nested lists included.
pub fn uses_group(list: &[Action], group: GroupId) -> bool {
    has(list, &|action| *action == Action::Group(group))
}

/// Whether a list of actions names the meter, nested lists included.
pub fn uses_meter(list: &[Action], meter: MeterId) -> bool {
    has(list, &|action| *action == Action::Meter(meter))
}

/// Tells of each meter that a list of actions names, nested lists included.
pub(crate) fn meters_named(list: &[Action], tell: &mut impl FnMut(MeterId)) {
    for action in list {
        match action {
            Action::Meter(id) => tell(*id),
            Action::Clone(nested) | Action::WriteActions(nested) => meters_named(nested, tell),
            _ => {}
        }
    }
}

/// Whether `is_such` holds for an action of `list`, or of a list nested in it.
fn has(list: &[Action], is_such: &impl Fn(&Action) -> bool) -> bool {
    list.iter().any(|action| match action {
        Action::Clone(nested) | Action::WriteActions(nested) => has(nested, is_such),
        _ => is_such(action),
    })
}

/// One step of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Adds a rule; replaces one with the same table, priority and match.
    Add(Flow),
    /// Adds a rule, unless it overlaps another of its table and priority (OpenFlow
    /// `OFPFF_CHECK_OVERLAP`). Two rules overlap if a packet could match both; an equal match
    /// counts too. Looks at all rules of the table.
    AddChecked(Flow),
    /// Gives these actions to the selected rules.
    Modify(Selector, crate::action::Actions),
    /// Modifies the selected rules, or adds one if there are none.
    Revise(Box<Revision>),
    /// Removes the selected rules.
    Delete(Selector),
    /// Removes those of the selected rules that lead to a port or group.
    DeleteLeading(Selector, Target),
    /// Removes all rules.
    DeleteAll,
    /// Adds a group, or replaces the one with its number.
    SetGroup(Group),
    /// Removes a group, and the rules that use it.
    DeleteGroup(GroupId),
    /// Adds a meter, or modifies the one with its number, which then begins with full buckets.
    SetMeter(RateMeter),
    /// Removes meters, and the rules that use one of them.
    DeleteMeters(Box<[MeterId]>),
    /// Adds a port, or sets its state.
    SetPort(PortId, PortState),
    /// Removes a port and its settings.
    DeletePort(PortId),
    /// Sets a port's VLANs. The port need not exist yet, so that it never carries others.
    SetPortVlans(PortId, Arc<PortVlans>),
    /// Sets how many rules a table may have. If that number changes, rules beyond it go, as far
    /// as the table evicts.
    LimitTable(TableId, Arc<TableLimit>),
    /// Sets what the tables of a bridge do with packets that no rule matches.
    SetMisses(BridgeId, Arc<Misses>),
    /// Sets whether `normal` forwards packets to addresses reserved for the link.
    SetForwardsBpdus(BridgeId, bool),
    /// Sets what a bridge does with fragments of IP packets.
    SetFragments(BridgeId, FragmentMode),
    /// Sets the mirrors of a bridge, instead of those that it has.
    SetMirrors(BridgeId, Arc<Mirrors>),
    /// Records stations that `normal` has seen at a port, or forgets them.
    MoveMacs(Vec<MacMove>),
    /// Brings into the key what a list of actions reads that no rule has. Without it, a
    /// controller's own list meets absent headers and zeros. The list may be a bucket's.
    Foresee(crate::action::Actions),
}

/// A modification as OpenFlow asks for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Revision {
    /// The rules that are modified.
    pub selector: Selector,
    /// Their new actions.
    pub actions: crate::action::Actions,
    /// Their new cookie; `None` to keep each its own.
    pub cookie: Option<u64>,
    /// What the outputs of the new actions were sent with ([`crate::Labels::max_length`]).
    pub max_length: u16,
    /// Whether their counts start again (OpenFlow `OFPFF_RESET_COUNTS`).
    pub resets_counts: bool,
    /// The rule to add if none is selected (OpenFlow 1.0, section 4.6); if its labels say so,
    /// only where it overlaps none of its priority.
    pub otherwise: Option<Flow>,
}

/// Operations that take effect together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// The operations, in the order in which they are done.
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

/// Why a change was refused; the pipeline is unchanged.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The rules need a wider key than the layout allows.
    #[error(transparent)]
    Layout(#[from] thalweg_packet::LayoutTooWide),
    /// There is no room for another rule.
    #[error("operation {operation}: the pipeline is full at {capacity} rules; delete some first")]
    RulesFull {
        /// Index of the operation, from 0.
        operation: usize,
        /// Most rules.
        capacity: usize,
    },
    /// A table has no room for another rule, and none of its rules may go.
    #[error(
        "operation {operation}: table {table} is full at {capacity} rules, and none of them goes \
         for another; delete some first, or let the table evict rules with a timeout"
    )]
    TableFull {
        /// Index of the operation, from 0.
        operation: usize,
        /// The table.
        table: u8,
        /// Most rules.
        capacity: u32,
    },
    /// There is no room for another group.
    #[error("operation {operation}: the pipeline is full at {capacity} groups; delete some first")]
    GroupsFull {
        /// Index of the operation, from 0.
        operation: usize,
        /// Most groups.
        capacity: usize,
    },
    /// A rule goes to a table that is not later than its own.
    #[error(
        "operation {operation}: goto_table:{to} in table {from}; a rule can only go to a later \
         table (use resubmit to go back)"
    )]
    GotoBackwards {
        /// Index of the operation, from 0.
        operation: usize,
        /// The rule's table.
        from: u8,
        /// The table it names.
        to: u8,
    },
    /// A rule added with the overlap check shares packets with another of its priority.
    #[error(
        "operation {operation}: a packet can match this rule and one of the same priority, \
         `{rule}`; give it another priority, or add it without the check"
    )]
    Overlap {
        /// Index of the operation, from 0.
        operation: usize,
        /// The existing rule.
        rule: String,
    },
    /// An action names a group that does not exist.
    #[error("operation {operation}: group {group} does not exist; add it before the rule")]
    UnknownGroup {
        /// Index of the operation, from 0.
        operation: usize,
        /// The group's number.
        group: u32,
    },
    /// An action names a meter that does not exist.
    #[error("operation {operation}: meter {meter} does not exist; add it before the rule")]
    UnknownMeter {
        /// Index of the operation, from 0.
        operation: usize,
        /// The meter's number.
        meter: u32,
    },
    /// There is no room for another meter.
    #[error("operation {operation}: the pipeline is full at {capacity} meters; delete some first")]
    MetersFull {
        /// Index of the operation, from 0.
        operation: usize,
        /// Most meters.
        capacity: u32,
    },
    /// A meter's number or bands are invalid.
    #[error("operation {operation}: meter {meter}: {what}")]
    BadMeter {
        /// Index of the operation, from 0.
        operation: usize,
        /// The meter's number.
        meter: u32,
        /// The fault.
        what: &'static str,
    },
    /// Groups would call each other in a circle, or nest too deep.
    #[error(
        "operation {operation}: group {group} would call itself, or lead through more than {depth} \
         groups; change what its buckets name and watch"
    )]
    GroupLoop {
        /// Index of the operation, from 0.
        operation: usize,
        /// The group's number.
        group: u32,
        /// How deep groups may nest.
        depth: usize,
    },
    /// A group's number, buckets or hash are invalid.
    #[error("operation {operation}: group {group}: {what}")]
    BadGroup {
        /// Index of the operation, from 0.
        operation: usize,
        /// The group's number.
        group: u32,
        /// The fault.
        what: &'static str,
    },
    /// A rule's table does not exist, or its conditions are on bits that do not exist.
    #[error("operation {operation}: {what}")]
    BadRule {
        /// Index of the operation, from 0.
        operation: usize,
        /// The fault, and what to do.
        what: String,
    },
    /// A station that no packet can have.
    #[error("operation {operation}: {what}")]
    BadStation {
        /// Index of the operation, from 0.
        operation: usize,
        /// The fault.
        what: &'static str,
    },
    /// A port's settings are invalid.
    #[error("operation {operation}: {what}")]
    BadPort {
        /// Index of the operation, from 0.
        operation: usize,
        /// The fault.
        what: &'static str,
    },
    /// A bridge's mirrors are invalid.
    #[error("operation {operation}: {what}")]
    BadMirrors {
        /// Index of the operation, from 0.
        operation: usize,
        /// The fault.
        what: &'static str,
    },
    /// An action is in a place where it cannot be, or uses a field in an invalid way.
    #[error("operation {operation}: {what}")]
    BadAction {
        /// Index of the operation, from 0.
        operation: usize,
        /// The fault, and what to do.
        what: String,
    },
}

impl ChangeError {
    /// Index of the refused operation, from 0; `None` if the change was refused as a whole.
    pub fn operation(&self) -> Option<usize> {
        match self {
            ChangeError::Layout(_) => None,
            ChangeError::RulesFull { operation, .. }
            | ChangeError::TableFull { operation, .. }
            | ChangeError::GroupsFull { operation, .. }
            | ChangeError::GotoBackwards { operation, .. }
            | ChangeError::Overlap { operation, .. }
            | ChangeError::UnknownGroup { operation, .. }
            | ChangeError::UnknownMeter { operation, .. }
            | ChangeError::MetersFull { operation, .. }
            | ChangeError::BadMeter { operation, .. }
            | ChangeError::GroupLoop { operation, .. }
            | ChangeError::BadGroup { operation, .. }
            | ChangeError::BadRule { operation, .. }
            | ChangeError::BadStation { operation, .. }
            | ChangeError::BadPort { operation, .. }
            | ChangeError::BadMirrors { operation, .. }
            | ChangeError::BadAction { operation, .. } => Some(*operation),
        }
    }
}
