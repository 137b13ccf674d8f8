//! The continuation of a paused packet: the property of `NXT_PACKET_IN2` that comes back in
//! `NXT_RESUME`.
//!
//! Only the switch reads it; to a controller it is a row of bytes. `ovs-ofctl` prints it,
//! though, so it is written as Open vSwitch writes it (`ofp-packet.c`,
//! `ofputil_put_packet_in_private`).

use bytes::Bytes;

use crate::action::Action;

/// The rest of a packet's walk, apart from the packet and its metadata.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PacketContinuation {
    /// The switch that paused the packet; zero if it does not say.
    pub bridge: [u8; 16],
    /// Values that actions have saved, the top first, each as a big-endian number.
    pub stack: Vec<Bytes>,
    /// The rests of lists of actions, in the order of execution.
    pub lists: Vec<ContinuationList>,
    /// The action set.
    pub action_set: Vec<Action>,
    /// Whether the walk ends without an action set, whatever the lists add to one.
    pub ends_without_set: bool,
}

/// The rest of a list of actions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ContinuationList {
    /// The table of the entry that the list belongs to.
    pub table: u8,
    /// The entry's cookie; all ones for no entry.
    pub cookie: u64,
    /// The actions.
    pub actions: Vec<Action>,
    /// Whether the action set is emptied after them.
    pub clear: bool,
    /// The actions that are then added to the action set, if any.
    pub write: Option<Vec<Action>>,
    /// Actions after these two.
    pub then: Vec<Action>,
    /// Whether the last action, a resubmit, is a `goto_table`: a table without a rule for the
    /// packet then says what follows.
    pub ends_with_goto: bool,
}
