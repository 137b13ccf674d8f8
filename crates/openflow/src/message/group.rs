//! Groups: changes, descriptions, statistics.

use crate::action::Action;
use crate::matching::Match;
use crate::message::counts::{Counts, Duration};
use crate::port_number::PortNumber;

/// The number of all groups.
pub const ALL_GROUPS: u32 = 0xffff_fffc;
/// No group, or any group.
pub const ANY_GROUP: u32 = 0xffff_ffff;
/// The largest number of a group.
pub const MAX_GROUP: u32 = 0xffff_ff00;
/// The largest number of a bucket (OpenFlow 1.5).
pub const MAX_BUCKET: u32 = 0xffff_ff00;
/// The first bucket of a group.
pub const FIRST_BUCKET: u32 = 0xffff_fffd;
/// The last bucket of a group.
pub const LAST_BUCKET: u32 = 0xffff_fffe;
/// All buckets of a group.
pub const ALL_BUCKETS: u32 = 0xffff_ffff;

/// A change of a group (`OFPT_GROUP_MOD`, `NXT_GROUP_MOD`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupMod {
    /// The kind of change.
    pub command: GroupCommand,
    /// The kind of the group.
    pub kind: GroupType,
    /// The group; [`ALL_GROUPS`] to delete all.
    pub group: u32,
    /// Where buckets are inserted or removed (OpenFlow 1.5); [`ALL_BUCKETS`] otherwise.
    pub command_bucket: u32,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
    /// How a select group chooses; `None` if the message does not say.
    pub selection: Option<Selection>,
}

/// What a [`GroupMod`] does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupCommand {
    /// Adds a group.
    Add,
    /// Changes a group.
    Modify,
    /// Removes a group.
    Delete,
    /// Inserts buckets (OpenFlow 1.5).
    InsertBucket,
    /// Removes buckets (OpenFlow 1.5).
    RemoveBucket,
    /// Adds a group or changes it (Open vSwitch, 0x8000).
    AddOrModify,
}

/// The kind of a group (`OFPGT_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupType {
    /// Every bucket, each on a copy of the packet.
    All = 0,
    /// One bucket, by a hash or a method of the switch.
    Select = 1,
    /// Its only bucket.
    Indirect = 2,
    /// The first live bucket.
    FastFailover = 3,
}

/// How a select group chooses a bucket (`NTR` group property, `ovs-ofctl(8)`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// `hash`, `dp_hash` or empty for the default, at most 15 bytes.
    pub method: String,
    /// A parameter of the method.
    pub parameter: u64,
    /// The fields that are hashed, with the bits that count as values.
    pub fields: Match,
}

/// A bucket of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// Its number, unique in its group; before OpenFlow 1.5 its place in the list.
    pub id: u32,
    /// Its share in a select group; `None` if the message does not say.
    pub weight: Option<u16>,
    /// It is alive only while this port is; `ANY` for no port.
    pub watch_port: PortNumber,
    /// It is alive only while this group is; [`ANY_GROUP`] for no group.
    pub watch_group: u32,
    /// What it does, as an action set.
    pub actions: Vec<Action>,
}

/// A group's description (`OFPMP_GROUP_DESC`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupDesc {
    /// The group.
    pub group: u32,
    /// Its kind.
    pub kind: GroupType,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
    /// How it chooses, if it says.
    pub selection: Option<Selection>,
}

/// A group's statistics (`OFPMP_GROUP`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupStats {
    /// The group.
    pub group: u32,
    /// How many flow entries and groups use it.
    pub references: u32,
    /// Its counts.
    pub counts: Counts,
    /// How long it exists.
    pub duration: Duration,
    /// The counts of its buckets.
    pub buckets: Vec<Counts>,
}

/// What groups can do (`OFPMP_GROUP_FEATURES`); lists are indexed by [`GroupType`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupFeatures {
    /// Bits of the kinds that exist.
    pub kinds: u32,
    /// Bits of `OFPGFC_*`.
    pub capabilities: u32,
    /// Most groups of each kind.
    pub max_groups: [u32; 4],
    /// Bits of the actions of each kind, by OpenFlow 1.1's numbers.
    pub actions: [u32; 4],
}
