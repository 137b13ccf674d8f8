//! The switch itself: features, configuration, descriptions, tables.

use bytes::Bytes;

use crate::field::FieldId;
use crate::message::port::PortDesc;

/// What a switch is (`OFPT_FEATURES_REPLY`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// The datapath's number.
    pub datapath_id: u64,
    /// Packets that the switch can keep.
    pub buffers: u32,
    /// How many tables it has; 254 at the most.
    pub tables: u8,
    /// The number of this auxiliary connection (OpenFlow 1.3 and later).
    pub auxiliary_id: u8,
    /// Bits of [`capability`].
    pub capabilities: u32,
    /// Bits of the actions that exist (OpenFlow 1.0).
    pub actions: u32,
    /// Its ports; from OpenFlow 1.3 on they are a statistic of their own.
    pub ports: Vec<PortDesc>,
}

/// Capabilities, by the bits of OpenFlow 1.5 and of 1.0 (`OFPC_*`). A version's message has
/// those that it knows.
pub mod capability {
    /// Counts of flow entries.
    pub const FLOW_STATS: u32 = 1 << 0;
    /// Counts of tables.
    pub const TABLE_STATS: u32 = 1 << 1;
    /// Counts of ports.
    pub const PORT_STATS: u32 = 1 << 2;
    /// Spanning tree (OpenFlow 1.0).
    pub const STP: u32 = 1 << 3;
    /// Counts of groups (OpenFlow 1.1 and later), on the wire the bit of `STP`.
    pub const GROUP_STATS: u32 = 1 << 16;
    /// Reassembles fragments.
    pub const IP_REASM: u32 = 1 << 5;
    /// Counts of queues.
    pub const QUEUE_STATS: u32 = 1 << 6;
    /// Matches addresses in ARP (OpenFlow 1.0).
    pub const ARP_MATCH_IP: u32 = 1 << 7;
    /// Blocks loops of ports (OpenFlow 1.2 and later).
    pub const PORT_BLOCKED: u32 = 1 << 8;
    /// Bundles (OpenFlow 1.5, advertised by 1.4 too).
    pub const BUNDLES: u32 = 1 << 9;
    /// Flow monitors (OpenFlow 1.5).
    pub const FLOW_MONITORING: u32 = 1 << 10;
}

/// The switch's configuration (`OFPT_SET_CONFIG`, `OFPT_GET_CONFIG_REPLY`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SwitchConfig {
    /// Bits of `OFPC_FRAG_*` and `OFPC_INVALID_TTL_TO_CONTROLLER`.
    pub flags: u16,
    /// Bytes of a packet that a controller gets.
    pub miss_send_length: u16,
}

/// Fragments are handled as they come.
pub const FRAG_NORMAL: u16 = 0;
/// Fragments are dropped.
pub const FRAG_DROP: u16 = 1;
/// Fragments are reassembled.
pub const FRAG_REASM: u16 = 2;
/// Later fragments have ports of zero (Open vSwitch).
pub const FRAG_NX_MATCH: u16 = 3;
/// Which bits of the flags say what happens to fragments.
pub const FRAG_MASK: u16 = 3;
/// Packets with a bad TTL go to controllers (OpenFlow 1.1 and 1.2).
pub const INVALID_TTL_TO_CONTROLLER: u16 = 1 << 2;

/// Texts that describe the switch (`OFPMP_DESC`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Description {
    /// Manufacturer, at most 255 bytes.
    pub manufacturer: String,
    /// Hardware, the same way.
    pub hardware: String,
    /// Software, the same way.
    pub software: String,
    /// Serial number, at most 31 bytes.
    pub serial: String,
    /// The datapath, at most 255 bytes.
    pub datapath: String,
}

/// A table's statistics (`OFPMP_TABLE`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableStats {
    /// The table.
    pub table: u8,
    /// Its entries.
    pub active: u32,
    /// Packets looked up.
    pub lookups: u64,
    /// Packets that matched.
    pub matched: u64,
    /// Its name (before OpenFlow 1.3).
    pub name: String,
    /// Most entries (before OpenFlow 1.3).
    pub max_entries: u32,
    /// What it can do, told by OpenFlow 1.0 to 1.2 in the same message.
    pub features: Option<Box<TableFeatures>>,
}

/// What a table can do (`OFPMP_TABLE_FEATURES`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableFeatures {
    /// The table.
    pub table: u8,
    /// The command of OpenFlow 1.5 (`OFPTFC_*`).
    pub command: u8,
    /// Bits of `OFPTFF_*` (OpenFlow 1.5).
    pub features: u32,
    /// Its name, at most 31 bytes.
    pub name: String,
    /// The bits of the metadata that it matches.
    pub metadata_match: u64,
    /// The bits of the metadata that it writes.
    pub metadata_write: u64,
    /// Bits of eviction and vacancy events (`OFPTC_*` of OpenFlow 1.4).
    pub config: u32,
    /// Most entries.
    pub max_entries: u32,
    /// What entries can do.
    pub of_entries: TableAbilities,
    /// What the entry of a miss can do.
    pub of_misses: TableAbilities,
    /// The fields that match.
    pub matches: Vec<FieldId>,
    /// Those of them whose bits can be chosen.
    pub masks: Vec<FieldId>,
    /// Those that need not be there.
    pub wildcards: Vec<FieldId>,
    /// Properties that this crate does not read, as they came.
    pub other: Vec<Bytes>,
}

/// What entries of a table can do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableAbilities {
    /// The tables that they can go to.
    pub next_tables: Vec<u8>,
    /// Bits of the instructions, by the numbers of OpenFlow 1.1.
    pub instructions: u32,
    /// The actions of write-actions, by their numbers on the wire.
    pub write_actions: Vec<u16>,
    /// The actions of apply-actions.
    pub apply_actions: Vec<u16>,
    /// The fields that write-actions set.
    pub write_set_fields: Vec<FieldId>,
    /// The fields that apply-actions set.
    pub apply_set_fields: Vec<FieldId>,
}

/// A change of a table's configuration (`OFPT_TABLE_MOD`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableMod {
    /// The table; 0xff for all.
    pub table: u8,
    /// Its configuration.
    pub config: TableConfig,
}

/// A table's configuration (`OFPT_TABLE_MOD`, `OFPMP_TABLE_DESC`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableConfig {
    /// The configuration word (`OFPTC_*`).
    pub bits: u32,
    /// Which entries are evicted first (`OFPTMPEF_*`, OpenFlow 1.4).
    pub eviction: Option<u32>,
    /// Thresholds of vacancy events (OpenFlow 1.4).
    pub vacancy: Option<Vacancy>,
}

/// Bits of a table's configuration.
pub mod table_config {
    /// What a miss does: continues with the next table (OpenFlow 1.1 and 1.2).
    pub const MISS_CONTINUE: u32 = 1 << 0;
    /// What a miss does: drops (OpenFlow 1.1 and 1.2).
    pub const MISS_DROP: u32 = 1 << 1;
    /// Which bits say what a miss does.
    pub const MISS_MASK: u32 = 3;
    /// Entries are evicted when the table is full (OpenFlow 1.4).
    pub const EVICTION: u32 = 1 << 2;
    /// Vacancy events are sent (OpenFlow 1.4).
    pub const VACANCY_EVENTS: u32 = 1 << 3;
}

/// Thresholds of a table's free room, in percent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Vacancy {
    /// Below this an event is sent.
    pub down: u8,
    /// Above this an event is sent.
    pub up: u8,
    /// The room as it is.
    pub now: u8,
}

/// A table's configuration in a reply (`OFPMP_TABLE_DESC`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableDesc {
    /// The table.
    pub table: u8,
    /// Its configuration.
    pub config: TableConfig,
}

/// Tells a change of a table's room (`OFPT_TABLE_STATUS`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableStatus {
    /// 3: room is short, 4: room is back (`OFPTR_VACANCY_*`).
    pub reason: u8,
    /// The table.
    pub desc: TableDesc,
}
