//! Flows and groups: what the control plane asks for.

use thalweg_packet::{FieldId, PortId};

use crate::action::{Actions, GroupId, TableId};
use crate::matching::Match;

/// A rule as it is asked for (an OpenFlow flow entry): where, when it matches, what it does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flow {
    /// The table it is for.
    pub table: TableId,
    /// Among matching rules of a table the highest wins.
    pub priority: u16,
    /// The controller's name for it.
    pub cookie: u64,
    /// Seconds without a packet after which it is removed; 0 for never.
    pub idle_timeout_s: u16,
    /// Seconds after which it is removed in any case; 0 for never.
    pub hard_timeout_s: u16,
    /// Whether its end is to be reported (OpenFlow `OFPFF_SEND_FLOW_REM`).
    pub reports_removal: bool,
    /// Whether it counts from zero where it takes the place of another (OpenFlow
    /// `OFPFF_RESET_COUNTS`), rather than go on with what that has counted.
    pub resets_counts: bool,
    /// Its conditions.
    pub matching: Match,
    /// What it does; empty to drop.
    pub actions: Actions,
}

/// The priority of a rule that names none (OpenFlow `OFP_DEFAULT_PRIORITY`).
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
    /// The one bucket it has.
    Indirect,
    /// The first bucket that is alive.
    FastFailover,
}

/// How a select group chooses a bucket (`ovs-ofctl(8)`, "selection_method").
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// What is hashed.
    pub method: SelectionMethod,
    /// Another number gives another choice, in the same shares.
    pub parameter: u64,
}

/// What the choice of a bucket hashes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum SelectionMethod {
    /// The ends of the connection, with the same result for both directions.
    #[default]
    Symmetric,
    /// What Open vSwitch leaves to its datapath (`dp_hash`); here the same as by default.
    Datapath,
    /// These fields (`hash`); the same as by default if there are none.
    Fields(Vec<HashedField>),
}

/// A field that the choice of a bucket hashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HashedField {
    /// The field.
    pub field: FieldId,
    /// Which bits of it.
    pub mask: u128,
    /// The presence bit of the only header in which it counts: `tcp_dst` is no port of UDP's.
    pub only_with: Option<FieldId>,
}

/// One of a group's alternatives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// Its number, unique in the group.
    pub id: u32,
    /// Its share among the buckets of a select group.
    pub weight: u16,
    /// It is alive only while this port is up.
    pub watch_port: Option<PortId>,
    /// It is alive only while this group has a bucket that is.
    pub watch_group: Option<GroupId>,
    /// What it does with the packet.
    pub actions: Actions,
}

impl Bucket {
    /// Whether the bucket is alive only while something else is.
    pub(crate) fn watches(&self) -> bool {
        self.watch_port.is_some() || self.watch_group.is_some()
    }
}

/// A group as it is asked for.
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
}
