//! Flow entries: changes, statistics, removals.

pub use super::counts::{Counts, Duration};

use crate::action::Instructions;
use crate::matching::Match;
use crate::message::group::ANY_GROUP;
use crate::port_number::PortNumber;

/// The number of all tables in requests and deletions.
pub const ALL_TABLES: u8 = 0xff;

/// A change of flow entries (`OFPT_FLOW_MOD`, `NXT_FLOW_MOD`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowMod {
    /// Whether it travels as `NXT_FLOW_MOD`, with an NXM match (OpenFlow 1.0 and 1.1).
    pub is_nicira: bool,
    /// The kind of change.
    pub command: FlowCommand,
    /// The table; [`ALL_TABLES`] where none is named.
    pub table: u8,
    /// The cookie that entries get; `u64::MAX` to leave it as it is. OpenFlow 1.1 and later
    /// have it in additions only.
    pub new_cookie: u64,
    /// Only entries whose cookie agrees in the bits of the mask.
    pub cookie: u64,
    /// The bits of the cookie that must agree; zero to compare none.
    pub cookie_mask: u64,
    /// Seconds without a packet until the entry ends; 0 for never.
    pub idle_timeout_s: u16,
    /// Seconds until the entry ends; 0 for never.
    pub hard_timeout_s: u16,
    /// The entry's priority.
    pub priority: u16,
    /// A packet that the switch keeps; `None` for no packet.
    pub buffer: Option<u32>,
    /// Deletes only entries that send packets there.
    pub out_port: PortNumber,
    /// Deletes only entries that use this group; [`crate::message::group::ANY_GROUP`] for all.
    pub out_group: u32,
    /// Flags, by the bits of `OFPFF_*` (OpenFlow 1.0 has `EMERGENCY` in the place of
    /// `RESET_COUNTS`).
    pub flags: FlowFlags,
    /// How much the entry matters when the table is full (OpenFlow 1.4).
    pub importance: u16,
    /// Its conditions.
    pub matching: Match,
    /// What it does.
    pub instructions: Instructions,
}

/// What a [`FlowMod`] does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowCommand {
    /// Adds an entry.
    Add = 0,
    /// Changes the entries that are at least as narrow.
    Modify = 1,
    /// Changes the entry with these conditions and priority.
    ModifyStrict = 2,
    /// Removes the entries that are at least as narrow.
    Delete = 3,
    /// Removes the entry with these conditions and priority.
    DeleteStrict = 4,
}

/// Flags of a flow entry (`OFPFF_*`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FlowFlags(pub u16);

impl FlowFlags {
    /// The controller is told when the entry ends.
    pub const SEND_REMOVED: u16 = 1 << 0;
    /// Refuses an entry that overlaps another of its priority.
    pub const CHECK_OVERLAP: u16 = 1 << 1;
    /// For the time without a controller (OpenFlow 1.0).
    pub const EMERGENCY: u16 = 1 << 2;
    /// Sets the counts to zero (OpenFlow 1.2 and later).
    pub const RESET_COUNTS: u16 = 1 << 2;
    /// Does not count packets (OpenFlow 1.3 and later).
    pub const NO_PACKET_COUNTS: u16 = 1 << 3;
    /// Does not count bytes (OpenFlow 1.3 and later).
    pub const NO_BYTE_COUNTS: u16 = 1 << 4;

    /// Whether all of these bits are set.
    pub fn has(self, bits: u16) -> bool {
        self.0 & bits == bits
    }
}

/// Which flow entries statistics are about (`OFPMP_FLOW`, `OFPMP_AGGREGATE`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowStatsRequest {
    /// Whether it travels as `NXST_FLOW` or `NXST_AGGREGATE`, with an NXM match.
    pub is_nicira: bool,
    /// The table; [`ALL_TABLES`] for all.
    pub table: u8,
    /// Only entries that send packets there.
    pub out_port: PortNumber,
    /// Only entries that use this group.
    pub out_group: u32,
    /// Only entries whose cookie agrees in the bits of the mask.
    pub cookie: u64,
    /// The bits of the cookie that must agree.
    pub cookie_mask: u64,
    /// Only entries that are at least as narrow.
    pub matching: Match,
}

impl FlowStatsRequest {
    /// All entries of all tables.
    pub fn all() -> FlowStatsRequest {
        FlowStatsRequest {
            is_nicira: false,
            table: ALL_TABLES,
            out_port: PortNumber::ANY,
            out_group: ANY_GROUP,
            cookie: 0,
            cookie_mask: 0,
            matching: Match::default(),
        }
    }
}

/// A flow entry in a reply (`OFPMP_FLOW`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowStats {
    /// Its table.
    pub table: u8,
    /// How long it exists.
    pub duration: Duration,
    /// Its priority.
    pub priority: u16,
    /// Seconds without a packet until it ends; 0 for never.
    pub idle_timeout_s: u16,
    /// Seconds until it ends; 0 for never.
    pub hard_timeout_s: u16,
    /// Seconds since it last met a packet (`NXST_FLOW`, if asked for by `NXT_FLOW_AGE`).
    pub idle_age_s: Option<u16>,
    /// Seconds since it was made or changed (the same way).
    pub hard_age_s: Option<u16>,
    /// How much it matters when the table is full.
    pub importance: u16,
    /// Its flags.
    pub flags: FlowFlags,
    /// Its cookie.
    pub cookie: u64,
    /// Its counts.
    pub counts: Counts,
    /// Its conditions.
    pub matching: Match,
    /// What it does.
    pub instructions: Instructions,
}

/// The sums over flow entries (`OFPMP_AGGREGATE`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AggregateStats {
    /// Their counts.
    pub counts: Counts,
    /// How many they are.
    pub flows: u32,
}

/// Tells that a flow entry ended (`OFPT_FLOW_REMOVED`, `NXT_FLOW_REMOVED`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowRemoved {
    /// Whether it travels as `NXT_FLOW_REMOVED`, with an NXM match.
    pub is_nicira: bool,
    /// Its table; `None` where the version cannot say.
    pub table: Option<u8>,
    /// Its priority.
    pub priority: u16,
    /// Its cookie.
    pub cookie: u64,
    /// Why it ended (`OFPRR_*`).
    pub reason: u8,
    /// How long it existed.
    pub duration: Duration,
    /// Its idle timeout.
    pub idle_timeout_s: u16,
    /// Its hard timeout.
    pub hard_timeout_s: u16,
    /// Its counts.
    pub counts: Counts,
    /// Its conditions.
    pub matching: Match,
}

/// Reasons of a [`FlowRemoved`].
pub mod removed {
    /// It met no packet for its idle timeout.
    pub const IDLE_TIMEOUT: u8 = 0;
    /// Its time was over.
    pub const HARD_TIMEOUT: u8 = 1;
    /// A change removed it.
    pub const DELETE: u8 = 2;
    /// Its group was removed (OpenFlow 1.3 and later).
    pub const GROUP_DELETE: u8 = 3;
    /// Its meter was removed (OpenFlow 1.4 and later).
    pub const METER_DELETE: u8 = 4;
    /// It made room for another (OpenFlow 1.4 and later).
    pub const EVICTION: u8 = 5;
}
