//! The numbers of one bridge, as its plane says them and as the pipeline has them.
//!
//! ```text
//!   OpenFlow:  port 1, table 0, group 7     -- in_pipeline -->   bridge << 16 | 1, ...
//!              port 1, table 0, group 7     <--    told    --    bridge << 16 | 1, ...
//! ```
//!
//! 1. Where the pipeline has no bridges, all numbers are the same on both sides.
//! 2. Numbers moved into the bridge name nothing of another one. OpenFlow's ports have 16 bits
//!    by then: the codec refuses others.

use std::borrow::Cow;

use thalweg_packet::PortId;
use thalweg_pipeline::{
    Actions, BridgeId, Continuation, Group, GroupId, Match, Operation, Pipeline, Selector, TableId,
    Target,
};

/// How the numbers of a plane and those of the pipeline belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Numbering {
    pub(super) bridge: BridgeId,
    /// Whether the pipeline has bridges.
    is_among: bool,
}

impl Numbering {
    /// The numbers of a bridge of the pipeline.
    pub(super) fn of(pipeline: &Pipeline, bridge: BridgeId) -> Numbering {
        Numbering {
            bridge,
            is_among: pipeline.has_bridges(),
        }
    }

    /// The pipeline's number of a port.
    pub(super) fn port(self, port: PortId) -> PortId {
        match self.is_among {
            true => self.bridge.port(port.0 as u16),
            false => port,
        }
    }

    /// A port's number in the bridge.
    pub(super) fn told_port(self, port: PortId) -> PortId {
        match self.is_among {
            true => PortId(port.0 & 0xffff),
            false => port,
        }
    }

    /// The pipeline's number of a table.
    pub(super) fn table(self, table: u8) -> TableId {
        self.bridge.table(table)
    }

    /// The pipeline's number of a group.
    pub(super) fn group(self, group: u32) -> GroupId {
        self.bridge.group(group)
    }

    /// The operation on this bridge.
    pub(super) fn operation(self, operation: Operation) -> Operation {
        match self.is_among {
            true => operation.in_bridge(self.bridge),
            false => operation,
        }
    }

    /// The rules of this bridge that are selected.
    pub(super) fn selector(self, selector: Selector, target: Target) -> (Selector, Target) {
        match self.is_among {
            true => (
                selector.in_bridge(self.bridge),
                target.in_bridge(self.bridge),
            ),
            false => (selector, target),
        }
    }

    /// The rest of a walk in this bridge.
    pub(super) fn continuation(self, continuation: Continuation) -> Continuation {
        match self.is_among {
            true => continuation.in_bridge(self.bridge),
            false => continuation,
        }
    }

    /// A match in the bridge's numbers.
    pub(super) fn told_match(self, matching: &Match) -> Cow<'_, Match> {
        match self.is_outer() {
            true => Cow::Borrowed(matching),
            false => Cow::Owned(BridgeId::default().move_match(matching)),
        }
    }

    /// Actions in the bridge's numbers.
    pub(super) fn told_actions(self, actions: &Actions) -> Actions {
        match self.is_outer() {
            true => actions.clone(),
            false => BridgeId::default().move_actions(actions),
        }
    }

    /// A group in the bridge's numbers.
    pub(super) fn told_group(self, group: &Group) -> Cow<'_, Group> {
        match self.is_outer() {
            true => Cow::Borrowed(group),
            false => Cow::Owned(group.in_bridge(BridgeId::default())),
        }
    }

    /// The rest of a walk in the bridge's numbers.
    pub(super) fn told_continuation(self, continuation: &Continuation) -> Cow<'_, Continuation> {
        match self.is_outer() {
            true => Cow::Borrowed(continuation),
            false => Cow::Owned(continuation.in_bridge(BridgeId::default())),
        }
    }

    /// Whether the pipeline's numbers are the bridge's.
    fn is_outer(self) -> bool {
        self.bridge == BridgeId::default()
    }
}
