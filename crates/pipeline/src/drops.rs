//! Why packets and copies of them go nowhere, and how many.
//!
//! Whatever was to be sent and is not is counted once, under one reason: the packet itself, if
//! nothing of it leaves, and each copy that an action, a bucket or a clone would have sent. So a
//! packet may be sent and counted here as well, where one of two ports does not exist.
//!
//! A walk that fails because it met a bound sends nothing: the packet is counted once, under that
//! bound, and what it would have sent or dropped before is not.
//!
//! 1. What a rule does not ask for is no drop: nothing is counted for an empty bucket or an empty
//!    clone, nor for a resubmit that finds no rule, as long as something else of the packet leaves.
//! 2. A packet of which nothing leaves is counted at least once.

use crate::action::TableId;

/// Why a packet, or one of its copies, went nowhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DropReason {
    /// No rule of the table matched.
    TableMiss(TableId),
    /// A rule matched that sends nothing.
    Action,
    /// The only ports to send it to were the one it came from.
    InputPort,
    /// It would go to a port that does not exist.
    NoSuchPort,
    /// Its TTL could not be decremented.
    TtlExpired,
    /// A group had no bucket alive.
    NoLiveBucket,
    /// A group was named that does not exist any more.
    NoSuchGroup,
    /// Its destination is reserved for the link (IEEE 802.1Q, table 8-1).
    ReservedAddress,
    /// Its walk would have taken too many lookups.
    TooManyLookups,
    /// A header was to be pushed for which a frame has no room.
    TooLong,
    /// Its walk led too deep into buckets and backward resubmits, or into copies.
    RecursionTooDeep,
    /// Its walk pushed too many bits.
    StackTooDeep,
    /// Its walk took more work than a packet may cause.
    TooMuchWork,
    /// Its walk had more effects than a packet may have.
    TooManyEffects,
}

/// The names of the reasons, in the order of the reasons.
const NAMES: [&str; 14] = [
    "table_miss",
    "action",
    "input_port",
    "no_such_port",
    "ttl_expired",
    "no_live_bucket",
    "no_such_group",
    "reserved_address",
    "too_many_lookups",
    "too_long",
    "recursion_too_deep",
    "stack_too_deep",
    "too_much_work",
    "too_many_effects",
];

impl DropReason {
    /// The reason as reports and counters name it.
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
            DropReason::TooManyLookups => 8,
            DropReason::TooLong => 9,
            DropReason::RecursionTooDeep => 10,
            DropReason::StackTooDeep => 11,
            DropReason::TooMuchWork => 12,
            DropReason::TooManyEffects => 13,
        }
    }
}

/// How many packets and copies went nowhere, by reason; tables are not told apart.
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

    /// Adds what somebody else has counted.
    pub fn add(&mut self, other: &Drops) {
        for (sum, count) in self.counts.iter_mut().zip(other.counts) {
            *sum += count;
        }
    }

    /// The counts that are not zero, by the names of their reasons.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let named = NAMES.into_iter().zip(self.counts);
        named.filter(|(_, count)| *count > 0)
    }
}
