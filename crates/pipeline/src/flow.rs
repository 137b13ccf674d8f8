//! Flows and groups, as the control plane asks for them.

use thalweg_packet::{FieldId, PortId};

use crate::action::{Actions, GroupId, TableId};
use crate::matching::Match;

/// A requested rule (an OpenFlow flow entry): its table, its match, its actions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Flow {
    /// The table it is for.
    pub table: TableId,
    /// The highest priority among a table's matching rules wins.
    pub priority: u16,
    /// Identifier chosen by the controller.
    pub cookie: u64,
    /// Seconds without a packet after which it is removed; 0 for never.
    pub idle_timeout_s: u16,
    /// Seconds after which it is removed in any case; 0 for never.
    pub hard_timeout_s: u16,
    /// Whether the controller is told when it ends (OpenFlow `OFPFF_SEND_FLOW_REM`).
    pub reports_removal: bool,
    /// Whether it counts from zero when it replaces another rule (OpenFlow
    /// `OFPFF_RESET_COUNTS`) instead of continuing that rule's counts.
    pub resets_counts: bool,
    /// What a dump tells of how it was asked for.
    pub labels: Labels,
    /// Its conditions.
    pub matching: Match,
    /// Its actions; empty to drop.
    pub actions: Actions,
}

/// What controllers say of a rule and read back, and what changes no packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Labels {
    /// How much the rule matters when its table is full (OpenFlow 1.4).
    pub importance: u16,
    /// What its outputs to ports were sent with (`max_len` of `OFPAT_OUTPUT`): it has a
    /// meaning for controllers only, which have their own.
    pub max_length: u16,
    /// It was added with the overlap check (OpenFlow `OFPFF_CHECK_OVERLAP`).
    pub checks_overlap: bool,
    /// It was added with `OFPFF_RESET_COUNTS`.
    pub resets_counts: bool,
    /// Its packets need no count (OpenFlow `OFPFF_NO_PKT_COUNTS`); they are counted anyway.
    pub no_packet_counts: bool,
    /// Its bytes need no count (OpenFlow `OFPFF_NO_BYT_COUNTS`).
    pub no_byte_counts: bool,
}

/// The default priority (OpenFlow `OFP_DEFAULT_PRIORITY`).
pub const DEFAULT_PRIORITY: u16 = 0x8000;

impl Default for Flow {
    fn default() -> Flow {
        Flow {
            table: TableId(0),
            priority: DEFAULT_PRIORITY,
            cookie: 0,
            idle_timeout_s: 0,
            hard_timeout_s: 0,
            reports_removal: false,
            resets_counts: false,
            labels: Labels::default(),
            matching: Match::default(),
            actions: Actions::from([]),
        }
    }
}

/// How a group uses its buckets (OpenFlow 1.5.1, section 5.10.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupKind {
    /// Every bucket, each on a copy of the packet.
    All,
    /// One bucket, by a hash of the flow.
    Select(Selection),
    /// Its only bucket.
    Indirect,
    /// The first live bucket.
    FastFailover,
}

/// How a select group chooses a bucket (`ovs-ofctl(8)`, "selection_method").
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// How the hash is computed.
    pub method: SelectionMethod,
    /// Salts the hash: another number gives another choice with the same shares.
    pub parameter: u64,
}

/// What the hash of a select group covers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum SelectionMethod {
    /// Both ends of the connection, with the same result for both directions.
    #[default]
    Symmetric,
    /// The hash that Open vSwitch leaves to its datapath (`dp_hash`); here the same as the
    /// default.
    Datapath,
    /// These fields (`hash`); the same as the default if empty.
    Fields(Vec<HashedField>),
}

/// A field in the hash of a select group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HashedField {
    /// The field.
    pub field: FieldId,
    /// The bits of it that are hashed.
    pub mask: u128,
    /// Presence bit of the header that the field must lie in: `tcp_dst` does not count for
    /// UDP.
    pub only_with: Option<FieldId>,
}

/// One alternative of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// Its number, unique in the group.
    pub id: u32,
    /// Its share among the buckets of a select group.
    pub weight: u16,
    /// If set, the bucket is alive only while this port is up.
    pub watch_port: Option<PortId>,
    /// If set, the bucket is alive only while this group has a live bucket.
    pub watch_group: Option<GroupId>,
    /// What it does with the packet.
    pub actions: Actions,
    /// What its outputs to ports were sent with ([`Labels::max_length`]).
    pub max_length: u16,
}

impl Bucket {
    /// Whether the bucket watches a port or a group.
    pub(crate) fn watches(&self) -> bool {
        self.watch_port.is_some() || self.watch_group.is_some()
    }
}

/// A group, as requested.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its number.
    pub id: GroupId,
    /// How it uses its buckets.
    pub kind: GroupKind,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
}

/// A port as the pipeline knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortState {
    /// Whether packets can be sent to it.
    pub is_up: bool,
    /// Whether flooded packets go to it.
    pub floods: bool,
    /// Whether packets leave by it; false for a port that OpenFlow calls `no-forward`.
    pub forwards: bool,
    /// The other end, if the port is one end of a patch between bridges.
    pub peer: Option<PortId>,
}
