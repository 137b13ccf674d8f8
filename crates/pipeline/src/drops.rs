//! Why packets and copies were dropped, and how many.
//!
//! Each packet or copy that should have been sent and was not is counted once, under one
//! reason. The packet itself counts if nothing of it leaves, and so does each copy that an
//! action, a bucket or a clone would have sent. So a packet may be both sent and counted here,
//! for example where one of two ports does not exist.
//!
//! A walk that fails at a bound sends nothing. The packet is counted once, under that bound;
//! what the walk would have sent or dropped before is not counted.
//!
//! 1. Only what a rule asks for can be a drop. Nothing is counted for an empty bucket or an
//!    empty clone, nor for a resubmit that finds no rule, as long as something else of the
//!    packet leaves.
//! 2. A packet of which nothing leaves is counted at least once.

use crate::action::TableId;

/// Why a packet or one of its copies was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DropReason {
    /// No rule of the table matched.
    TableMiss(TableId),
    /// The matching rule sends nothing.
    Action,
    /// The packet would only have gone back to the port it came from.
    InputPort,
    /// The output port does not exist.
    NoSuchPort,
    /// Its TTL could not be decremented.
    TtlExpired,
    /// A group had no live bucket.
    NoLiveBucket,
    /// An action named a group that no longer exists.
    NoSuchGroup,
    /// The destination address is reserved for the link (IEEE 802.1Q, table 8-1).
    ReservedAddress,
    /// The input port does not admit packets of its VLAN.
    VlanNotAllowed,
    /// No other port that floods carries the packet's VLAN.
    NoPortInVlan,
    /// The packet would have gone from a protected port to another.
    ProtectedPort,
    /// The port is for mirrored packets only.
    MirrorPort,
    /// The walk would have taken too many lookups.
    TooManyLookups,
    /// The frame had no room for a pushed header.
    TooLong,
    /// The walk nested buckets, backward resubmits or copies too deep.
    RecursionTooDeep,
    /// The walk pushed too many bits.
    StackTooDeep,
    /// The walk exceeded its work budget.
    TooMuchWork,
    /// The walk exceeded the limit on effects.
    TooManyEffects,
    /// The bridge drops fragments.
    Fragment,
    /// No member of a bundle was up.
    NoLiveMember,
    /// An output cuts the packet, and leads through a patch or back to the input port, for
    /// which packets are not cut.
    NotCut,
    /// A band of a meter was exceeded.
    Meter,
    /// A header could not be added to a packet of its type, or removed from it.
    UnsupportedPacketType,
    /// There were more labels than a key has.
    TooManyLabels,
    /// A header was removed, and what followed it was too short for what it should be.
    TooShort,
    /// The output port was told to forward nothing.
    PortForwardsNothing,
}

/// Names of the reasons, in the order of the enum.
const NAMES: [&str; 26] = [
    "table_miss",
    "action",
    "input_port",
    "no_such_port",
    "ttl_expired",
    "no_live_bucket",
    "no_such_group",
    "reserved_address",
    "vlan_not_allowed",
    "no_port_in_vlan",
    "protected_port",
    "mirror_port",
    "too_many_lookups",
    "too_long",
    "recursion_too_deep",
    "stack_too_deep",
    "too_much_work",
    "too_many_effects",
    "fragment",
    "no_live_member",
    "not_cut",
    "meter",
    "unsupported_packet_type",
    "too_many_labels",
    "too_short",
    "port_forwards_nothing",
];

impl DropReason {
    /// The reason's name in reports and counters.
    pub fn name(self) -> &'static str {
        NAMES[self.index()]
    }

    fn index(self) -> usize {
        match self {
            DropReason::TableMiss(_) => 0,
            DropReason::Action => 1,
            DropReason::InputPort => 2,
            DropReason::NoSuchPort => 3,
            DropReason::TtlExpired => 4,
            DropReason::NoLiveBucket => 5,
            DropReason::NoSuchGroup => 6,
            DropReason::ReservedAddress => 7,
            DropReason::VlanNotAllowed => 8,
            DropReason::NoPortInVlan => 9,
            DropReason::ProtectedPort => 10,
            DropReason::MirrorPort => 11,
            DropReason::TooManyLookups => 12,
            DropReason::TooLong => 13,
            DropReason::RecursionTooDeep => 14,
            DropReason::StackTooDeep => 15,
            DropReason::TooMuchWork => 16,
            DropReason::TooManyEffects => 17,
            DropReason::Fragment => 18,
            DropReason::NoLiveMember => 19,
            DropReason::NotCut => 20,
            DropReason::Meter => 21,
            DropReason::UnsupportedPacketType => 22,
            DropReason::TooManyLabels => 23,
            DropReason::TooShort => 24,
            DropReason::PortForwardsNothing => 25,
        }
    }
}

/// Numbers of dropped packets and copies, by reason; all tables count together.
///
/// ```
/// use thalweg_pipeline::{DropReason, Drops};
///
/// let mut drops = Drops::default();
/// drops.count(DropReason::InputPort, 2);
/// assert_eq!(drops.iter().collect::<Vec<_>>(), [("input_port", 2)]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drops {
    counts: [u64; NAMES.len()],
}

impl Drops {
    /// Counts packets or copies.
    #[inline]
    pub fn count(&mut self, reason: DropReason, copies: u64) {
        self.counts[reason.index()] += copies;
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Drops) {
        for (sum, count) in self.counts.iter_mut().zip(other.counts) {
            *sum += count;
        }
    }

    /// The non-zero counts, each with the name of its reason.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let named = NAMES.into_iter().zip(self.counts);
        named.filter(|(_, count)| *count > 0)
    }
}
