//! Sees what a walk does, as it does it.
//!
//! `Walk` is compiled once per observer. [`Unobserved`] is what packets have: its walk has no
//! trace of it. A walk that is observed keeps *every* field of the packet, not only those that
//! rules read, so that its observer can tell the packet's fields at any moment.
//!
//! 1. An observer changes nothing: an observed walk has the effects of a plain one, and its
//!    mask has the same bits of the same fields.

use thalweg_classifier::RuleId;
use thalweg_conntrack::AddressTranslation;
use thalweg_packet::{FieldId, Layout, PortId};

use super::DropReason;
use crate::action::{Action, GroupId, Subfield, TableId};
use crate::bridge::BridgeId;
use crate::flow::{Bucket, Flow};
use crate::mac::Station;

/// Sees each step of a walk.
pub trait Observer {
    /// Whether it looks; if not, the walk prepares nothing for it.
    const OBSERVES: bool;

    /// Called with what the walk does, how deep it is nested in resubmits and copies, and the
    /// packet's fields at that moment.
    fn see(&mut self, sight: &Sight<'_>, nesting: u32, fields: SeenFields<'_>);
}

/// The header whose TTL cannot be decremented.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExpiredTtl {
    /// IP.
    Ip,
    /// The top label.
    Label,
    /// The network service header, which may be absent.
    Service,
}

/// What a walk does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sight<'a> {
    /// It enters a bridge through a patch; what it does there is nested one deeper than what
    /// led there.
    Bridge(BridgeId),
    /// It looked up in a table.
    Table {
        /// The table; for a table that passes packets on, the first of them, except at the
        /// beginning of the walk.
        table: TableId,
        /// The rule that matched.
        rule: Option<RuleId>,
        /// Whether the packet goes to the controller because no rule matched.
        to_controller: bool,
    },
    /// A table dropped the packet without a lookup, since it is a fragment.
    Fragment(TableId),
    /// It executes an action next.
    Action(&'a Action),
    /// It executes a list without actions.
    EmptyList,
    /// It executes the action set next.
    ActionSet,
    /// The action set has these actions after `write_actions`.
    ActionSetIs(&'a [Action]),
    /// The action set had these actions before `clear_actions`.
    ActionSetWas(&'a [Action]),
    /// An action wrote these bits of other fields or of the stack.
    Written(&'a Subfield),
    /// A `conjunction` is executed, which does nothing.
    IdleConjunction,
    /// A `pop` found nothing on the stack.
    EmptyStack,
    /// A write was left out, since the packet does not have the field's header.
    NotWritten(FieldId),
    /// The packet has the queue back that it came in with.
    QueueIs(u32),
    /// The number of the port that a field names.
    OutputTo(u128),
    /// The packet would have gone back to the port it came from.
    SkipsInputPort,
    /// It came in by a port that is for mirrored packets only.
    FromMirror,
    /// The packet would have gone from a protected port to another.
    KeptApart,
    /// An output that cuts the packet, to what Open vSwitch does not cut for: a patch,
    /// `IN_PORT`, a port that does not exist.
    NotCut(PortId),
    /// An output to a port that does not exist.
    NoSuchPort,
    /// An output to a port that was told to forward nothing.
    PortForwardsNothing,
    /// A group that does not exist.
    NoSuchGroup(GroupId),
    /// A resubmit with the connection's tuple is left out: there is none, or the packet is not IP.
    NoTuple,
    /// It executes an action of an `exec` next, which writes into the connection.
    Exec(&'a Action),
    /// The tracker is asked to translate addresses.
    Translates(&'a AddressTranslation),
    /// The packet teaches a rule.
    Teaches(&'a Flow),
    /// A copy of the packet is looked up again, with what the tracker says.
    Forked {
        /// The table.
        table: TableId,
        /// The zone in which it was tracked.
        zone: u16,
        /// The index of its walk's rest among the translation's continuations.
        continuation: usize,
    },
    /// Behind a tracker, the packet has no connection for this walk.
    Untracked,
    /// A bucket that is not alive.
    DeadBucket(&'a Bucket),
    /// The bucket that a group chose; `None` if no bucket is alive.
    Chosen(Option<&'a Bucket>),
    /// It executes a bucket next; nested one deeper than the group.
    Bucket(&'a Bucket),
    /// What the `normal` action found.
    Normal(NormalSight),
    /// A TTL cannot be decremented.
    TtlExpired(ExpiredTtl),
    /// The walk met a bound.
    Failed(DropReason),
    /// The walk is over; the fields are the packet's last, and it has this queue.
    End {
        /// The queue; 0 for none.
        queue: u32,
    },
}

/// What the `normal` action found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NormalSight {
    /// The input port does not admit packets with this VLAN id; 0 without a tag.
    Disallowed {
        /// The VLAN id.
        vlan: u16,
    },
    /// The input port is for mirrored packets only.
    FromMirror,
    /// The destination is behind a port that is for mirrored packets only.
    BehindMirror,
    /// The destination is reserved for the link.
    Reserved,
    /// The source is behind this port, which was not known.
    Learns {
        /// The source.
        station: Station,
        /// The input port.
        port: PortId,
    },
    /// The destination is behind a port.
    Forwards,
    /// The destination is behind the input port.
    InputPort,
    /// Nothing is known of the destination.
    Unknown,
    /// The destination is a group address.
    Multicast,
}

/// The packet's fields at a moment of the walk.
#[derive(Clone, Copy, Debug)]
pub struct SeenFields<'a> {
    pub(super) layout: &'a Layout,
    pub(super) words: &'a [u64],
}

impl SeenFields<'_> {
    /// A field's value.
    pub fn get(&self, field: FieldId) -> u128 {
        self.layout.get(self.words, field).unwrap_or(0)
    }

    /// All fields, in words of [`SeenFields::layout`].
    pub fn words(&self) -> &[u64] {
        self.words
    }

    /// The layout that the walk was given.
    pub fn layout(&self) -> &Layout {
        self.layout
    }
}

/// Sees nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unobserved;

impl Observer for Unobserved {
    const OBSERVES: bool = false;

    #[inline]
    fn see(&mut self, _sight: &Sight<'_>, _nesting: u32, _fields: SeenFields<'_>) {}
}

impl<O: Observer> Observer for &mut O {
    const OBSERVES: bool = O::OBSERVES;

    #[inline]
    fn see(&mut self, sight: &Sight<'_>, nesting: u32, fields: SeenFields<'_>) {
        (**self).see(sight, nesting, fields);
    }
}

/// Copies the fields of `layout` out of words of a layout that has all of them.
pub(super) fn narrow(layout: &Layout, wide: &Layout, words: &[u64]) -> Vec<u64> {
    let mut narrow = vec![0; layout.words()];
    copy_fields((layout, &mut narrow), (wide, words));
    narrow
}

/// Adds the fields of `from` to the same fields of `into`.
pub(super) fn copy_fields(into: (&Layout, &mut [u64]), from: (&Layout, &[u64])) {
    for (field, bits) in from.0.fields_in(from.1) {
        into.0.set(into.1, field, bits);
    }
}
